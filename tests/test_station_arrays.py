"""Several functions of a robot in one design whose stations are arrays: the parts, the circuit, the
cycle model.
"""

import json
import pickle
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from repetition import full, repeated

import featherlane as fl
from featherlane.accelerators.designers import Designer
from featherlane.accelerators.organise.array_stations import station_arrays
from featherlane.accelerators.organise.columns import split_columns
from featherlane.accelerators.organise.pass_graph import SHARES, STATIONS, all_functions_graph
from featherlane.backends.fixed import slots
from featherlane.backends.fixed.evaluate import Evaluator, quantised
from featherlane.backends.fpga import devices
from featherlane.backends.fpga.arrays.binding import bound
from featherlane.backends.fpga.arrays.schedule import scheduled
from featherlane.errors import CompileError
from featherlane.tools.cli import main

needs_icarus = pytest.mark.skipif(not shutil.which("iverilog"), reason="iverilog is not installed")
needs_verilator = pytest.mark.skipif(
    not shutil.which("verilator"), reason="verilator is not installed"
)


@pytest.fixture(scope="module")
def robot():
    """A body with two others on it, which are alike."""
    return fl.random_tree(3, 2.0, ("revolute",), seed=2)


@pytest.fixture(scope="module")
def made(robot):
    return fl.multifunction(robot, interval=8, format="fitted", arrays="auto")


def check(design, tasks, simulator, stalls):
    """Every bit of results is that of the golden model, every stamp that of the cycle model."""
    run = design.simulate(tasks, simulator, stalls)
    for wanted, found in zip(design.expected(tasks), run.outputs, strict=True):
        for name, x in wanted.items():
            np.testing.assert_array_equal(found[name], x)
    if simulator == "verilator" or not stalls:  # the pauses of Icarus are its own
        model = design.schedule([task[0] for task in tasks], stalls=stalls)
        np.testing.assert_array_equal(run.accepted, model.accepted)
        np.testing.assert_array_equal(run.emitted, model.emitted)


# Parts


def test_kernels_of_stations_give_the_bits_of_the_flat_pass(robot):
    cut = station_arrays(robot, [*SHARES])
    rng = np.random.default_rng(0)
    x = {name: rng.uniform(-1, 1, (20, *shape)) for name, shape in cut.whole.graph.inputs.items()}
    integers = quantised(cut.whole, x)[0]
    wanted = Evaluator(cut.whole)(integers).integers
    found, known = {}, dict(integers)
    assert [*cut.stations] == [*STATIONS]
    for name, (datapath, kernels) in cut.stations.items():
        given = {entry: known[entry] for entry in datapath.graph.inputs}
        own = slots.evaluate(datapath, kernels, given)
        found |= own
        crossing = {f"{name}_{entry}": value for entry, value in own.items()}
        known |= crossing | {key: own[key] for key in own if key.startswith(f"{name}_to_")}
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)


def test_legs_and_columns_of_hyq_take_turns():
    cut = station_arrays(fl.load("hyq", root="free"), [*SHARES])
    in_circuits = lambda kernels: sum(k.datapath.graph.op.count("mul") for k in kernels.values())
    together = in_circuits(cut.kernels) + in_circuits(cut.columns)
    assert together < 0.3 * cut.whole.graph.op.count("mul")
    assert all(
        len(kernel.members) == 4
        for part, kernel in cut.kernels.items()
        if part.group == 1 and not part.sums
    )
    assert sorted(len(kernel.members) for kernel in cut.columns.values()) == [3, 24]


def test_multipliers_read_fewer_registers(robot):
    cut, device = station_arrays(robot, [*SHARES]), devices.load("xcvu9p")
    datapath, kernels = cut.stations[STATIONS[0]]
    before = scheduled(datapath, kernels, 8, device)
    after = [bound(array) for array in before]
    assert sum(map(sources, after)) < 0.95 * sum(map(sources, before))
    for one, other in zip(before, after, strict=True):
        assert one.pipeline.units == other.pipeline.units
        assert one.pipeline.start == other.pipeline.start


def sources(array):
    """How many registers the multipliers of an array choose from."""
    pipeline, found = array.pipeline, set()
    for k, operator in enumerate(pipeline.operators):
        if operator and operator.shared and pipeline.graph.op[k] == "mul":
            for port, a in enumerate(pipeline.graph.args[k]):
                read = pipeline.register(a, pipeline.start[k])
                found.add((operator.kind, pipeline.unit[k], port, a, read))
    return len(found)


def test_columns_leave_few_phases_empty(robot):
    columns = station_arrays(robot, [*SHARES]).columns
    assert sorted(len(kernel.members) for kernel in columns.values()) == [2, 4]
    reasons = []
    found = split_columns(columns, 6, devices.load("xcvu9p"), reasons)
    assert [len(kernel.members) for kernel in found.values()] == [3, 1, 2]
    assert "3 and 1 on arrays of their own" in reasons[0]
    given = [k for kernel in found.values() for nodes in kernel.gives for k in nodes]
    assert sorted(given) == sorted(
        k for kernel in columns.values() for nodes in kernel.gives for k in nodes
    )


# The design


def test_what_is_organised_and_why(made):
    assert [array.slots for array in made.organisation.arrays] == [1, 2]
    reasons = " ".join(made.organisation.reasons)
    assert "one array" in reasons
    assert "columns of products with M^-1: time-multiplexed" in reasons
    assert (made.choices["algorithm"], made.choices["arrays"]) == ("factor", "auto")


def test_fewer_luts_than_flat_stations(robot, made):
    flat = fl.multifunction(robot, interval=8, format="fitted", algorithm="factor", sharing="whole")
    assert made.cost.total.luts < 0.85 * flat.cost.total.luts


def test_functions_are_the_robots(robot, made):
    for name in SHARES:
        x = made.samples(name, 50)
        wanted, found = getattr(robot, name, robot.function(name))(**x), made.function(name)(**x)
        pairs = zip(wanted, found, strict=True) if isinstance(wanted, tuple) else [(wanted, found)]
        for a, b in pairs:
            assert np.abs(a - b).max() < 0.05 * np.abs(a).max()


@needs_icarus
@pytest.mark.parametrize("stalls", repeated([0, 100], 1))
def test_interleaved_tasks_give_the_bits_and_the_stamps_of_the_models(made, stalls):
    tasks = made.tasks(60)
    assert {name for name, _ in tasks} == {*SHARES}
    check(made, tasks, "icarus", stalls)


@needs_verilator
@full
@pytest.mark.parametrize("stalls", [0, 100, 230])
def test_tips_of_several_limbs_in_verilator(stalls):
    """Three bodies on the root, of which one carries three and one carries none."""
    made = fl.multifunction(
        fl.random_tree(7, 3.0, ("revolute",), seed=2), interval=6, arrays="auto"
    )
    check(made, made.tasks(500), "verilator", stalls)


@needs_verilator
@full
def test_sums_in_post_adders(made):
    designer = Designer(made.name, made.spec, runs=4)
    cut = designer.fused(made.organisation.design)
    network, cost = designer.design(cut, made.interval)
    found = replace(made, datapath=cut.whole, network=network)
    assert cut.fused
    assert cost.total.luts < made.cost.total.luts
    check(found, made.tasks(300), "verilator", 100)


@pytest.mark.parametrize("name", SHARES)
def test_nothing_is_computed_that_no_function_wants(robot, name):
    """The product with M^-1, too, is there only for the derivatives of forward dynamics."""
    flat = all_functions_graph(robot, [name], "factor", {})
    products = station_arrays(robot, [name]).whole.graph.op.count("mul")
    assert products <= 1.1 * flat.op.count("mul")


@needs_icarus
@pytest.mark.parametrize(
    "functions",
    repeated([["inverse_dynamics", "mass_matrix"], ["forward_dynamics_derivatives_from"]], 1),
)
def test_functions_without_a_product_or_a_factor(robot, functions):
    made = fl.multifunction(robot, functions, interval=4, arrays="auto")
    check(made, made.tasks(20), "icarus", 0)


def test_page_trace_and_pickle(made, tmp_path):
    page = made.report(tmp_path / "page.html").read_text()
    assert "2 slots, one every 4 cycles" in page
    spans = json.loads(made.trace(tmp_path / "t.json").read_text())["traceEvents"]
    assert {"pass", "factor"} <= {x["args"]["name"] for x in spans if "name" in x.get("args", {})}
    assert pickle.loads(pickle.dumps(made)).latency == made.latency


def test_from_the_command_line(tmp_path):
    command = ["generate", "double_pendulum", "--target", "verilog", "--output", str(tmp_path)]
    options = ["--interval", "4", "--together", "--arrays", "auto", "--function"]
    assert not main([*command, *options, "forward_dynamics_derivatives_from"])
    facts = json.loads((tmp_path / "design.json").read_text())["report"]
    assert facts["arrays"] == "auto"
    assert facts["functions"] == ["forward_dynamics_derivatives_from"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"arrays": "limbs"}, "arrays is 'limbs': wanted None or 'auto'"),
        ({"arrays": "auto", "f_ext": "body"}, "arrays take no wrenches"),
        ({"arrays": "auto", "algorithm": "deferred"}, "wanted 'factor'"),
        ({"arrays": "auto", "spare": 0.1}, "spare is 0.1"),
        ({"arrays": "auto", "format": "proved"}, "format is 'proved'"),
    ],
)
def test_what_arrays_refuse(robot, options, told):
    with pytest.raises((ValueError, CompileError), match=told):
        fl.multifunction(robot, interval=4, **options)


def test_friction_is_refused(robot):
    with pytest.raises(CompileError, match="joint friction"):
        fl.multifunction(robot.with_physics(friction=0.1), interval=4, arrays="auto")


@pytest.mark.parametrize("arrays", [None, "auto"])
def test_a_free_body_s_functions_without_a_factor_are_one_station(arrays):
    """The quaternion of a free joint divides, which counts what is lost."""
    model = fl.random_tree(1, 1.0, ("free",), seed=1)
    made = fl.multifunction(model, ["inverse_dynamics"], interval=4, format="fitted", arrays=arrays)
    assert [*made.network.stations] == [STATIONS[0]]
    x = made.samples("inverse_dynamics", 50)
    wanted = model.inverse_dynamics(**x)
    assert np.abs(made.function("inverse_dynamics")(**x) - wanted).max() < 1e-2


def test_joints_that_share_coordinates_are_refused():
    with pytest.raises(CompileError, match="share coordinates, which arrays do not take"):
        fl.multifunction(fl.load("panda"), interval=4, arrays="auto")


@full
def test_arrays_that_do_not_fit_name_an_interval_that_does(robot):
    choices = {"device": "ecp5_85k", "arrays": "auto"}
    with pytest.raises(CompileError, match="1 functions at interval 1 take") as found:
        fl.multifunction(robot, ["inverse_dynamics"], **choices)
    interval = int(re.search(r"interval (\d+) fits", str(found.value))[1])
    assert fl.multifunction(robot, ["inverse_dynamics"], interval=interval, **choices).cost.fits
