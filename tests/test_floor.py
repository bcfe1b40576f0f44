"""The least that designs take, before there is a schedule, and the interval that is found by it."""

import random
from collections import defaultdict
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_datapaths import random_datapath, with_mixed_formats
from repetition import repeated

import featherlane as fl
from featherlane.accelerators import designers
from featherlane.accelerators.choices import DesignSpec, target_choices
from featherlane.accelerators.computation import Computation
from featherlane.accelerators.designers import Designer, interval_that_fits
from featherlane.backends.fixed.assign import uniform
from featherlane.backends.fixed.runs import accumulated
from featherlane.backends.fpga import devices, floor
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.floor import Floor, LeastUnits, RunNeeds
from featherlane.backends.fpga.memories.cost import cost
from featherlane.backends.fpga.memories.design import memory_design
from featherlane.backends.fpga.resources import Resources
from featherlane.errors import CompileError

LOADED = {name: devices.load(name) for name in ("ecp5_85k", "xcvu9p")}
OPS = ["neg", "add", "add", "sub", "mul", "mul", "mul", "times", "trig", "abs", "select", "inverse"]
DERIVATIVES = "inverse_dynamics_derivatives"
CASES = [
    ("double_pendulum", function, board, datapath, interval)
    for function in ("inverse_dynamics", "forward_dynamics", DERIVATIVES)
    for board in ("ulx3s", None)
    for datapath, interval in (("shared", 1), ("shared", 4), ("memories", 3), ("memories", 16))
]
ARMS = [
    ("iiwa14", function, board, datapath, interval)
    for function in ("inverse_dynamics", "forward_dynamics", DERIVATIVES)
    for board in ("ulx3s", None)
    for datapath, interval in (("shared", 8), ("memories", 12), ("memories", 40))
]
ROWS = [*CASES, *repeated(ARMS, quick=6)]


def of(robot, function, board, datapath, arrays=None):
    """A designer of a function, and what it designs."""
    format = None if board else "fitted18"
    target = target_choices(board, None, None, format, None, datapath, arrays)
    spec = DesignSpec(
        (function,), format=target.format, device=target.device, clock=float(target.clock),
        sharing=target.sharing, datapath=target.datapath, board=target.board, arrays=arrays,
    )  # fmt: skip
    computation = Computation.of(fl.load(robot), spec)
    return Designer("tried", computation.spec), computation


def check_least(least, needed):
    """Nothing of a design is less than its least, which has multipliers."""
    assert least.is_least
    for name, x, y in zip(Resources._fields, least.total, needed.total, strict=True):
        assert x <= y + 1e-9, name
    assert least.excess <= needed.excess * (1 + 1e-9)


@pytest.mark.parametrize(("robot", "function", "board", "datapath", "interval"), ROWS)
def test_designs_of_robots_take_no_less_than_the_least(robot, function, board, datapath, interval):
    """Units with operand memories of an arm take at most 15 % more multipliers."""
    designer, computation = of(robot, function, board, datapath)
    least = designer.least(computation.flat, interval)
    needed = designer.best(computation.flat, interval)[1]
    check_least(least, needed)
    assert least.total.dsps > 0
    if (robot, datapath) == ("iiwa14", "memories"):
        assert needed.total.dsps <= 1.15 * least.total.dsps


@pytest.mark.parametrize("device", LOADED)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("interval", [2, 5, 20])
def test_units_of_random_datapaths_take_no_less_than_the_least(seed, interval, device):
    datapath = random_datapath(seed, 60, ops=OPS)
    mixed = seed % 2
    datapath = with_mixed_formats(datapath, seed) if mixed else uniform(datapath.graph, "q16.16")
    try:
        design = memory_design("dut", accumulated(datapath, interval), interval, LOADED[device])
    except CompileError:  # an exponent that no unit has, or a sum of too many bits
        return
    check_least(Floor(datapath, LOADED[device]).memories(interval), cost(design, LOADED[device]))


@pytest.mark.parametrize(
    ("function", "arrays", "interval"),
    [("inverse_dynamics", "limbs", 4), ("inverse_dynamics", "limbs", 12),
     ("forward_dynamics_derivatives_from", "columns", 16)],
)  # fmt: skip
def test_arrays_take_no_less_than_the_least(function, arrays, interval):
    designer, computation = of("hyq", function, None, "shared", arrays)
    whole, _ = computation.at(interval)
    least = designer.least(whole, interval)
    assert least.total.dsps > 0
    check_least(least, designer.best(whole, interval)[1])


def test_several_functions_in_arrays_take_no_less_than_the_least():
    model = fl.load("hyq")
    names = ["inverse_dynamics", "mass_matrix"]
    network = fl.multifunction(model, names, interval=8, arrays="auto", format="fitted18")
    whole, _ = Computation.of(model, network.spec).at(8)
    least = Designer("tried", network.spec).least(whole, 8)
    assert least.total.dsps > 0
    check_least(least, network.cost)


runs = st.builds(RunNeeds, st.integers(1, 4), st.integers(0, 2), st.integers(4, 48), st.just(18))


@given(st.lists(runs, min_size=1, max_size=24), st.integers(4, 9), st.randoms())
def test_no_binding_of_runs_needs_less(needs, interval, draw):
    """Each unit has the most multipliers, bits of sums and of results of its runs."""
    least = LeastUnits(LOADED["ecp5_85k"], needs, {}).at(interval).total
    units = defaultdict(list)
    for run in needs:
        number = draw.randrange(len(needs))
        while sum(other.cycles for other in units[number]) + run.cycles > interval:
            number += 1
        units[number].append(run)
    most = [
        RunNeeds(0, *(max(run[n] for run in unit) for n in (1, 2, 3)))
        for unit in units.values()
        if unit
    ]
    assert least.dsps <= sum(unit.dsps for unit in most)
    assert least.ffs <= sum(unit.sum + unit.result for unit in most)
    assert least.luts <= sum(2 * -(-unit.sum // 2) + 4 for unit in most)


def test_runs_of_long_intervals_serve_shorter_ones(monkeypatch):
    """The least is that of the interval's own runs; formats are narrowed once, and runs are found a
    few times.
    """
    _, computation = of("iiwa14", "inverse_dynamics", "ulx3s", "memories")
    flat, device = computation.flat, LOADED["ecp5_85k"]
    small = replace_limits(device)
    calls = []
    narrowed = floor.narrowed
    monkeypatch.setattr(floor, "narrowed", lambda x: calls.append(x) or narrowed(x))
    known = Floor(flat, small)
    found = {n: known.memories(n) for n in range(2, 65)}
    assert sum(x is flat for x in calls) == 1
    assert len(calls) < 24
    for n in (2, 7, 8, 16, 24, 64):
        wanted = LeastUnits.of(accumulated(flat, n), small).at(n)
        assert found[n].total == wanted.total


def replace_limits(device):
    """A device with enough multipliers for any interval."""
    return device._replace(dsps=100_000)


class TableOfCosts:
    """A designer whose designs take shares of a device by interval, and their least."""

    spec = SimpleNamespace(board="ulx3s")

    def __init__(self, shares, least):
        self.shares, self.leasts, self.tried = shares, least, []

    def least(self, whole, n):
        return needed_of(self.leasts[n])

    def quick(self, whole, n):
        if self.leasts[n] > 100:
            return self.least(whole, n)
        self.tried.append(n)
        return needed_of(self.shares[n])


def needed_of(percent):
    device = devices.load("ecp5_85k")
    parts = {("", "add"): Resources(luts=percent / 100 * device.luts)}
    return DesignCost(device, parts, 0, shared=True)


@given(st.floats(100, 6000), st.floats(0, 90), st.floats(0, 0.2), st.integers(0, 1000))
def test_the_interval_before_the_one_that_is_found_does_not_fit(work, rest, noise, seed):
    """Of costs that fall with the interval, but for chance; few schedules are made."""
    draw = random.Random(seed)
    least = {n: work / n + rest for n in range(1, 65)}
    shares = {n: x * (1.05 + noise * draw.random()) for n, x in least.items()}
    designer = TableOfCosts(shares, least)
    found, last, needed = interval_that_fits(designer, None, 1, needed_of(shares[1] + 100))
    if found is None:
        assert last == 64
        assert not needed.fits
        assert shares[64] > 100
        return
    assert needed.fits
    assert needed.excess == pytest.approx(shares[found] / 100)
    assert found == 2 or shares[found - 1] > 100 or least[found - 1] > 100
    assert len(designer.tried) <= 12


def test_an_interval_that_fits_is_taken_as_it_is():
    fitting = needed_of(90)
    assert interval_that_fits(TableOfCosts({}, {}), None, 7, fitting) == (7, 7, fitting)


def test_what_no_interval_makes_fit_is_refused_without_a_schedule(monkeypatch):
    """Units with operand memories have runs with sums, and sines and cosines of their own; the
    refusal names the larger device, and functions that may fit.
    """
    for name in ("pipelined", "memory_design"):
        monkeypatch.setattr(designers, name, lambda *args, **options: pytest.fail("scheduled"))
    message = (
        "does not fit ECP5-85k at any interval from 1 to 64: at 64 it takes at least 126 % of the "
        r"DSPs \(limit 50 %\), 2\.5 times what open tools route; "
        r"device='xcvu9p', .* has 44 times the DSPs and 14 times the LUTs"
        r"; formats with fewer bits need .*; inverse_dynamics or mass_matrix alone may fit$"
    )
    with pytest.raises(CompileError, match=message):
        fl.accelerator(fl.load("atlas", root="free"), DERIVATIVES, board="ulx3s", interval="auto")


PICKS = [
    ("double_pendulum", "forward_dynamics_derivatives", 1, "shared"),
    ("hyq", "inverse_dynamics", 8, "shared"),
    ("iiwa14", "forward_dynamics", 13, "memories"),
    ("iiwa14", "forward_dynamics_derivatives_from", 56, "memories"),
]


@pytest.mark.parametrize(("robot", "function", "interval", "datapath"), repeated(PICKS, quick=3))
def test_boards_take_the_intervals_that_were_routed(robot, function, interval, datapath):
    """Those of docs/bitstreams.csv."""
    found = fl.accelerator(fl.load(robot), function, board="ulx3s", interval="auto")
    assert (found.interval, found.spec.datapath) == (interval, datapath)


def test_a_schedule_of_units_that_fits_is_made_once(monkeypatch):
    made = []
    design = designers.memory_design
    monkeypatch.setattr(
        designers,
        "memory_design",
        lambda name, runs, interval, *rest: (
            made.append(interval) or design(name, runs, interval, *rest)
        ),
    )
    arm = fl.load("double_pendulum")
    monkeypatch.setattr(DesignCost, "most", property(lambda cost: (8.0, 45.0, 60.0)))
    found = fl.accelerator(
        arm, "inverse_dynamics", board="ulx3s", datapath="memories", interval="auto"
    )
    assert made.count(found.interval) == 1
    assert found.interval - 1 in made
