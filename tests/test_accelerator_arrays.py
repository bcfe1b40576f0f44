"""Robots cut into arrays: time-multiplexed kernels equal the flat datapath, to the bit."""

import json
import random
import re
import shutil
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from random_datapaths import random_datapath
from repetition import repeated

import featherlane as fl
from featherlane.accelerators.organise.arrays import ArrayPart, arrays
from featherlane.accelerators.organise.organisation import organise
from featherlane.accelerators.organise.streams import STREAMS, streamed
from featherlane.accelerators.report.drawing import svg
from featherlane.api.fixed import entry_bounds, input_ranges
from featherlane.backends.fixed import slots
from featherlane.backends.fixed.assign import fitted, proved
from featherlane.backends.fixed.evaluate import Evaluator, floats, quantised
from featherlane.backends.fixed.ranges import Interval
from featherlane.backends.fpga import devices, pipeline_folder, words
from featherlane.backends.fpga.arrays.design import array_design
from featherlane.backends.fpga.arrays.schedule import HOP, ArrayClock, folding, scheduled
from featherlane.backends.fpga.fuse import fused
from featherlane.backends.fpga.simulation import simulate
from featherlane.errors import CompileError
from featherlane.functions.table import Variant
from featherlane.program.analysis.partition import ArrayPlacement, partition
from featherlane.program.graph import Graph, Output
from featherlane.program.passes.reductions import reduced
from featherlane.program.passes.segments import segments
from featherlane.robot.chains import chains, groups
from featherlane.robot.editing.split_root import split_root
from featherlane.robot.parts import Joint
from featherlane.robot.tree_of import tree_of

needs_icarus = pytest.mark.skipif(not shutil.which("iverilog"), reason="iverilog is not installed")
needs_verilator = pytest.mark.skipif(
    not (shutil.which("verilator") and shutil.which("g++")),
    reason="verilator or g++ is not installed",
)
STALLS = 128  # of 256 cycles
STATES = 12


def inputs_of(model, names, states=STATES, seed=0):
    draw = np.random.default_rng(seed)
    given = {"q": model.random_configuration(states, seed=draw)}
    given |= {name: draw.uniform(-1, 1, (states, model.nv)) for name in ("v", "a")}
    given["tau"] = model.inverse_dynamics(given["q"], given["v"], given["a"])
    given["minv"] = model.mass_matrix_inverse(given["q"])
    return {name: given[name] for name in names}


def in_float64(model, function, given):
    found = model._function(Variant(function))(*given.values())
    return found if isinstance(found, tuple) else (found,)


def integers_of(cut, given):
    """The integers of inputs, with those of the robot's constants."""
    constants = getattr(cut, "constants", {})
    states = len(next(iter(given.values())))
    whole = given | {k: np.broadcast_to(x, (states, *x.shape)) for k, x in constants.items()}
    return quantised(cut.datapath, whole)[0]


def check(model, function, cut, closeness):
    """The kernels, one after the other, give the bits of the flat datapath, which are right."""
    given = inputs_of(
        model, [n for n in ("q", "v", "a", "tau", "minv") if n in cut.datapath.graph.inputs]
    )
    integers = integers_of(cut, given)
    flat = Evaluator(cut.datapath)(integers).integers
    found = slots.evaluate(cut.datapath, [*cut.kernels.values()], integers)
    for name, x in flat.items():
        np.testing.assert_array_equal(found[name], x)
    numbers = floats(cut.datapath, flat)
    for name, wanted in zip(
        model._function(Variant(function)).outputs, in_float64(model, function, given), strict=True
    ):
        assert np.abs(numbers[name] - wanted).max() <= closeness * (1 + np.abs(wanted).max())


# Cutting


FUNCTIONS = ["inverse_dynamics", "mass_matrix", "inverse_dynamics_derivatives"]
TREES = [(seed, function) for seed in range(10) for function in FUNCTIONS]


def tree(seed):
    """A random tree: of many alike limbs, of joints of all types, or with joints that follow."""
    kinds = ("revolute", "prismatic"), ("free", "revolute", "spherical", "universal", "planar")
    types = ("revolute",) if seed % 3 == 0 else kinds[seed % 3 - 1]
    mimic = 0.3 if seed % 3 == 1 else 0.0
    return fl.random_tree(9, 2.0, types, roots=1 + seed % 2, mimic=mimic, seed=seed)


@pytest.mark.parametrize(("seed", "function"), repeated(TREES, 6))
def test_kernels_give_the_bits_of_the_flat_datapath(seed, function):
    model = tree(seed)
    check(model, function, arrays(model, function), 2e-2)


def test_limbs_share_a_kernel_with_the_constants_of_each():
    model = fl.random_tree(7, 2.0, ("revolute",), seed=3)
    cut = arrays(model, "inverse_dynamics")
    assert [len(group.members) for group in cut.groups] == [1, 2, 4]
    assert len(cut.kernels[ArrayPart(2, False)].members) == 4
    apart = arrays(model, "inverse_dynamics", shared=lambda group: False)
    assert all(len(kernel.members) == 1 for kernel in apart.kernels.values())
    products = lambda cut: sum(k.datapath.graph.op.count("mul") for k in cut.kernels.values())
    assert products(cut) < 0.6 * products(apart)
    assert not apart.constants


def test_legs_of_hyq_take_a_quarter_of_their_products():
    model = fl.load("hyq", root="free")
    cut = arrays(model, "inverse_dynamics")
    check(model, "inverse_dynamics", cut, 1e-3)
    own = {part: kernel.datapath.graph.op.count("mul") for part, kernel in cut.kernels.items()}
    assert own[ArrayPart(0, False)] == 66
    assert own[ArrayPart(1, False)] == 182
    assert cut.datapath.graph.op.count("mul") == 66 + 4 * 182
    legs = cut.kernels[ArrayPart(1, False)]
    assert Counter(port.shared for port in legs.ports if not port.table) == {True: 17, False: 9}
    assert len(cut.kernels[ArrayPart(1, True, chain=0)].gives) == 6  # the force on the trunk


def test_slots_have_the_formats_that_all_limbs_need():
    model, names = fl.load("hyq"), ("q", "v", "a")
    constants = arrays(model, "inverse_dynamics").constants
    limits, samples = input_ranges(model, dict.fromkeys(names, (model.nv,)), {})
    whole = samples | {
        name: np.broadcast_to(x, (len(samples["q"]), *x.shape)) for name, x in constants.items()
    }
    ends = entry_bounds(limits)
    exact = {
        (name, i): Interval(float(x), float(x))
        for name, table in constants.items()
        for i, x in enumerate(table.ravel())
    }
    for assign in (
        lambda graph, constants: fitted(graph, whole, inputs=ends),
        lambda graph, constants: proved(graph, ends | exact),
    ):
        cut = arrays(model, "inverse_dynamics", assign=assign)
        assert [len(kernel.members) for kernel in cut.kernels.values()] == [4]
        integers = integers_of(cut, {name: x[:500] for name, x in samples.items()})
        flat = Evaluator(cut.datapath)(integers)
        found = slots.evaluate(cut.datapath, [*cut.kernels.values()], integers)
        np.testing.assert_array_equal(found["tau"], flat.integers["tau"])
        assert not flat.overflows


def test_prescribed_roots_leave_the_rest_of_the_results():
    model = fl.load("hyq", root="free")
    whole = arrays(model, "inverse_dynamics")
    given = inputs_of(model, ("q", "v", "a"))
    cut = arrays(model, "inverse_dynamics", root="prescribed")
    results = [
        slots.evaluate(x.datapath, [*x.kernels.values()], integers_of(x, given))["tau"]
        for x in (whole, cut)
    ]
    np.testing.assert_array_equal(results[0][:, 6:], results[1])
    count = lambda x: x.datapath.graph.op.count("mul")
    assert count(cut) < 0.8 * count(whole)
    with pytest.raises(ValueError, match="root is 'absent': wanted 'computed' or 'prescribed'"):
        arrays(model, "inverse_dynamics", root="absent")


def test_random_graphs_in_segments():
    for seed in range(6):
        datapath = random_datapath(seed)
        graph, draw = datapath.graph, random.Random(seed)
        home: list[int] = []
        for args in graph.args:
            home.append(max([draw.randrange(4), *(home[a] for a in args)]))
        parts = segments(graph, home, range(5))
        each = [slots.slot_kernel(datapath, [part]) for part in parts]
        integers = integers_over_formats(datapath, seed)
        wanted = Evaluator(datapath)(integers).integers
        found = slots.evaluate(datapath, each, integers)
        np.testing.assert_array_equal(found["y"], wanted["y"])


def test_segments_that_need_each_other_are_refused():
    graph = Graph()
    x = graph.declare("x", ())[0]
    y = graph.mul(x, x)
    graph.outputs["z"] = Output((), (graph.add(y, x),))
    assert [part.gives for part in segments(graph, [0, 0, 1], [0, 1])] == [(y,), (y + 1,)]
    with pytest.raises(CompileError, match=r"segment 0 reads node 1 \(mul\) of the later 1"):
        segments(graph, [0, 1, 0], [0, 1])


def integers_over_formats(datapath, seed, count=40):
    draw, graph = np.random.default_rng(seed), datapath.graph
    inputs = {name: np.zeros((count, *shape), np.int64) for name, shape in graph.inputs.items()}
    for k in graph.nodes_of("input"):
        name, i = graph.value[k]
        to = datapath.format(k)
        column = draw.integers(to.least, to.most, count, endpoint=True)
        inputs[name].reshape(count, -1)[:, i] = column
    return inputs


def test_terms_of_branches_meet_in_their_parent():
    graph = Graph()
    root, left, right = (graph.declare(name, ())[0] for name in ("root", "left", "right"))
    a, b = graph.mul(root, left), graph.mul(root, right)
    first = graph.add(root, a)
    graph.outputs["y"] = Output((), (graph.add(first, b),))
    found = partition(
        graph, (-1, 0, 0), {("root", 0): 0, ("left", 0): 1, ("right", 0): 2}, {("y", 0): 0}
    )
    assert found[a] == ArrayPlacement(1)
    assert found[b] == ArrayPlacement(2)
    assert found[first] == ArrayPlacement(0, True)  # not the left branch's: the right one has none
    new, totals = reduced(graph, [(a, b)])
    (partials,) = totals.values()
    assert [new.op[k] for k in new.args[partials[0]]] == ["mul", "mul"]


def test_chains_and_those_alike():
    model = fl.load("atlas", root="free")
    found = chains(tree_of(model))
    names = [joint.name for joint in model.joints]
    assert [names[chain.bodies[0]] for chain in found] == [
        "root_joint", "back_bkz", "l_arm_shz", "neck_ay", "r_arm_shz", "l_leg_hpz", "r_leg_hpz",
    ]  # fmt: skip
    alike = [group.members for group in groups(tree_of(model), found)]
    assert alike == [(0,), (1,), (2, 4), (3,), (5, 6)]


# Turns in circuits


def test_as_few_lanes_as_an_interval_has_room_for():
    assert folding(4, 12) == (4, 1, 3)
    assert folding(4, 13) == (4, 1, 3)
    assert folding(13, 12) == (7, 2, 1)
    assert folding(14, 14) == (14, 1, 1)
    assert folding(2, 1) == (1, 2, 1)


def test_a_pause_has_no_cycles_of_an_array():
    """The cycles in which it runs are all but the last ones of each period."""
    clock = ArrayClock(13, 3)
    runs = [cycle for cycle in range(60) if cycle % 13 < 12]
    assert (clock.pause, [clock.cycle(n) for n in range(len(runs))]) == (1, runs)
    for cycle in range(50):
        assert runs[clock.run(cycle)] == min(n for n in runs if n >= cycle)
    assert ArrayClock(12, 3).pause == 0


CASES = [(3, 7), (3, 2), (2, 4), (4, 12), (3, 11)]  # limbs, interval


def design_of(cut, interval):
    device, kernels = devices.load("xcvu9p"), [*cut.kernels.values()]
    found = scheduled(cut.whole, kernels, interval, device, runs=4)
    return array_design("robot", cut.whole, found, interval, device.tile)


def check_circuit(design, given, folder_, simulator=simulate.icarus):
    """The simulated sources give the bits of the golden model, back to back and with pauses."""
    integers, _ = quantised(design.datapath, given)
    wanted = Evaluator(design.datapath)(integers).integers
    vectors = ({name: x[:1] for name, x in values.items()} for values in (integers, wanted))
    pipeline_folder.write(design, folder_, *vectors)
    fields = words.given_values(design.datapath, design.inputs, integers)
    for stalls in (STALLS, 0):
        found = simulator(folder_, fields, stalls)
        results = words.results_of(design.datapath, design.outputs, found.values)
        for name, x in wanted.items():
            np.testing.assert_array_equal(results[name], x)
    assert {*np.diff(found.accepted)[3:]} == {design.interval}
    assert {*(found.emitted - found.accepted)} == {design.latency + 2}


def legged(members):
    """A robot whose legs are of two joints."""
    return fl.random_tree(1 + members, float(members), ("revolute",), seed=members)


@needs_icarus
@pytest.mark.parametrize(("members", "interval"), repeated(CASES, 2))
def test_arrays_in_icarus(members, interval, tmp_path):
    """In 7 and 11 cycles three turns leave some, in which the array pauses."""
    model = legged(members)
    cut = arrays(model, "inverse_dynamics")
    if members == 3:
        device = devices.load("xcvu9p")
        cut = cut.changed(lambda own: fused(own, device))
    made = design_of(cut, interval)
    slots_of = [array.slots for array in made.arrays if array.kernel.datapath.graph.op.count("mul")]
    assert max(slots_of) == folding(members, interval).slots
    check_circuit(made, inputs_of(model, ("q", "v", "a"), states=30), tmp_path)


@needs_verilator
@pytest.mark.full
@pytest.mark.parametrize(
    ("function", "algorithm", "interval"),
    [
        ("inverse_dynamics_derivatives", None, 12),
        ("inverse_dynamics", None, 15),
        ("inverse_dynamics", None, 14),
        ("mass_matrix_inverse", "factor", 12),
    ],
)
def test_legs_of_hyq_in_verilator(function, algorithm, interval, tmp_path):
    model = fl.load("hyq", root="free")
    made = design_of(arrays(model, function, algorithm), interval)
    given = inputs_of(model, [*made.datapath.graph.inputs], states=300)
    check_circuit(made, given, tmp_path, simulate.verilator)


@needs_verilator
@pytest.mark.full
def test_large_designs_are_compiled_file_by_file(tmp_path, monkeypatch):
    monkeypatch.setattr(simulate, "LARGE", 0)
    monkeypatch.setattr(
        simulate, "SPLIT", ["--output-split", "9000", "--output-split-cfuncs", "500"]
    )
    made = design_of(arrays(legged(3), "inverse_dynamics"), 7)
    given = inputs_of(legged(3), ("q", "v", "a"), states=30)
    check_circuit(made, given, tmp_path, simulate.verilator)


def test_values_are_not_read_before_they_are_there():
    made = design_of(arrays(legged(3), "inverse_dynamics_derivatives"), 6)
    graph, ready = made.datapath.graph, {}
    for array in made.arrays:
        array.pipeline.verify()
        for read in array.reads:
            for slot, k in enumerate(read.sources):
                if graph.op[k] != "constant":
                    cycle = array.cycle(slot, array.pipeline.start[read.node])
                    assert cycle >= (ready[k] if graph.args[k] else 0)
        for given in array.gives:
            ready |= {k: array.cycle(s, given.cycle) + HOP for s, k in enumerate(given.targets)}


def test_organised_accelerators(tmp_path):
    model = legged(3)
    made = fl.accelerator(model, "forward_dynamics", interval=6, format="fitted", arrays="limbs")
    assert made.choices["algorithm"] == "factor"
    assert [array.slots for array in made.organisation.arrays] == [1, 3]
    flat = fl.accelerator(
        model, "forward_dynamics", interval=6, format="fitted", algorithm="factor", sharing="whole"
    )
    assert made.cost.total.luts < 0.8 * flat.cost.total.luts
    assert made.latency < 1.5 * flat.latency
    x = made.samples(200)
    wanted = model.forward_dynamics(**x)
    assert np.abs(made.function(**x) - wanted).max() < 0.02 * np.abs(wanted).max()
    page = made.report(tmp_path / "page.html").read_text()
    assert "3 slots, one every 2 cycles" in page
    names = {
        x["name"] for x in json.loads(made.trace(tmp_path / "t.json").read_text())["traceEvents"]
    }
    assert "task 3" in names
    assert "arrays: limbs" in str(made)


@needs_icarus
def test_columns_in_turn():
    made = fl.accelerator(
        legged(2), "forward_dynamics_derivatives_from", interval=8, arrays="columns"
    )
    x = made.samples(20)
    found = made.simulate(x, simulator="icarus", stalls=STALLS)
    for wanted, result in zip(made.function(**x), found.results.values(), strict=True):
        np.testing.assert_array_equal(result, wanted)
    assert max(array.slots for array in made.design.arrays) > 1
    assert made.organisation is None


def test_what_organised_accelerators_refuse():
    model = legged(2)
    with pytest.raises(CompileError, match="format is 'proved', which clamps signals"):
        fl.accelerator(model, format="proved", arrays="limbs")
    with pytest.raises(ValueError, match="f_ext is 'body': arrays take no wrenches"):
        fl.accelerator(model, f_ext="body", arrays="limbs")
    with pytest.raises(ValueError, match="function is 'kinetic_energy': wanted one of 'inverse"):
        fl.accelerator(model, "kinetic_energy", arrays="limbs")
    with pytest.raises(ValueError, match="arrays is True: wanted None, 'limbs' or 'columns'"):
        fl.accelerator(model, arrays=True)
    with pytest.raises(ValueError, match=r"inverse_dynamics has none of products with M.*'limbs'"):
        fl.accelerator(model, arrays="columns")
    with pytest.raises(CompileError, match="has joint friction, which arrays do not compute"):
        fl.accelerator(model.with_physics(friction=1.0), arrays="limbs")
    pendulum = fl.random_tree(1, 2.0, ("revolute",), seed=1)
    with pytest.raises(CompileError, match=r"mass_matrix of .* is constant: there is nothing to"):
        fl.accelerator(pendulum, "mass_matrix", arrays="limbs")


def test_arrays_that_do_not_fit_name_an_interval_that_does():
    choices = {"device": "ecp5_85k", "arrays": "limbs"}
    model, name = legged(4), "mass_matrix"
    with pytest.raises(CompileError, match="in arrays at interval 1 takes") as found:
        fl.accelerator(model, name, **choices)
    interval = int(re.search(r"interval (\d+) fits", str(found.value))[1])
    assert fl.accelerator(model, name, interval=interval, **choices).cost.fits


@pytest.mark.parametrize(
    ("function", "algorithm"),
    repeated(
        [
            ("forward_dynamics", "aba"),
            ("forward_dynamics", "factor"),
            ("mass_matrix_inverse", "factor"),
            ("forward_dynamics_derivatives_from", None),
        ],
        2,
    ),
)
def test_limbs_are_alike_in_what_couples_them(function, algorithm):
    """Rows of M^-1 of one limb hold columns of the others: still each limb has one graph."""
    model = fl.load("hyq", root="free")
    cut = arrays(model, function, algorithm)
    assert len(cut.kernels[ArrayPart(1, False)].members) == 4
    check(model, function, cut, 5e-2)


# Streams


@pytest.mark.parametrize(
    ("function", "kept", "members"),
    [
        ("forward_dynamics_derivatives_from", "columns", 13),  # dtau/dq of the first joint is 0
        ("inverse_dynamics_derivatives", "pairs", 21),
    ],
)
def test_calls_as_streams(function, kept, members):
    model = fl.load("iiwa14")
    cut = streamed(model, function, STREAMS[kept])
    check(model, function, cut, 1e-2)
    assert [len(kernel.members) for kernel in cut.kernels.values()] == [1, members]


@needs_icarus
@pytest.mark.parametrize(("interval", "columns"), repeated([(4, [3, 3]), (6, [6])], 1))
def test_columns_in_icarus(interval, columns, tmp_path):
    """Arrays of columns, as many of them as there are turns for, behind that of the derivatives."""
    model = fl.random_tree(3, 1.0, ("revolute",), seed=1)
    made = design_of(
        streamed(model, "forward_dynamics_derivatives_from", STREAMS["columns"]), interval
    )
    assert [array.slots for array in made.arrays] == [1, *columns]
    check_circuit(made, inputs_of(model, ("q", "v", "a", "minv"), states=20), tmp_path)


# Organisations


def test_middle_of_a_chain_is_its_root():
    model = floating(fl.random_tree(5, 1.0, ("revolute",), seed=2))
    found = organise(model, "inverse_dynamics", interval=8)
    ends, middle = found.roots[1], found.roots[0]
    assert ends.body == model.body_names[0]
    assert middle.cycles < ends.cycles
    assert middle.depth < ends.depth
    assert found.root == middle.body
    given = inputs_of(model, ("q", "v", "a"))
    change = fl.editing.rerooting(model, found.root)
    there = change.to(given["q"], v=given["v"], a=given["a"])
    integers = integers_of(found.design, {"q": there.q, "v": there.v, "a": there.a})
    results = slots.evaluate(found.design.datapath, [*found.design.kernels.values()], integers)
    tau = floats(found.design.datapath, results)["tau"]
    back = change.back(there.q, v=there.v, tau=tau).tau
    wanted = model.inverse_dynamics(**given)
    assert np.abs(back - wanted).max() < 2e-2 * (1 + np.abs(wanted).max())


def test_derivatives_are_taken_back_from_another_root():
    model = floating(fl.random_tree(4, 1.0, ("revolute", "prismatic"), seed=2))
    change = fl.editing.rerooting(model, model.body_names[2])
    q, v, a = inputs_of(model, ("q", "v", "a")).values()
    there, other = change.to(q, v=v, a=a), change.model
    slopes = other.inverse_dynamics_derivatives(there.q, there.v, there.a)
    found = fl.editing.derivatives_back(
        change,
        q,
        v,
        a,
        tau=other.inverse_dynamics(there.q, there.v, there.a),
        dtau_dq=slopes.dtau_dq,
        dtau_dv=slopes.dtau_dv,
        M=other.mass_matrix(there.q),
    )
    for x, wanted in zip(found, model.inverse_dynamics_derivatives(q, v, a), strict=True):
        np.testing.assert_allclose(x, wanted, rtol=0, atol=1e-11)


def floating(model):
    """The robot with a free joint in the place of its first one."""
    first = Joint("root_joint", "free", -1)
    return replace(model, joints=(first, *model.joints[1:]), root="free")


def test_tiago_quadruped_and_atlas_are_organised_as_in_the_paper():
    arm = fl.load("mobile_arm").reduced(
        {"torso_lift_joint": 0.1, "head_1_joint": 0.0, "head_2_joint": 0.0}
    )
    tiago = organise(arm, "inverse_dynamics")
    assert shape(tiago) == [("base_planar", -1, 1, 1), ("arm", 0, 7, 1)]
    spot = organise(fl.load("quadruped_arm", root="free"), "inverse_dynamics", root="body")
    assert [(parent, joints, slots) for _, parent, joints, slots in shape(spot)] == [
        (-1, 1, 1), (0, 7, 1), (0, 3, 4),
    ]  # fmt: skip
    assert spot.arrays[2].interval == 3
    atlas = fl.load("atlas", root="free")
    humanoid = organise(atlas, "inverse_dynamics", interval=32, root="mtorso")
    assert sorted(shape(humanoid)) == [
        ("back", 0, 2, 1),
        ("back_bkx", 0, 1, 1),
        ("l_arm, r_arm", 3, 7, 2),
        ("l_leg, r_leg", 1, 6, 2),
        ("neck_ay", 3, 1, 1),
        ("root", -1, 1, 1),
    ]
    for found in (tiago, spot, humanoid):
        root = ElementTree.fromstring(svg(found))
        own, *titles = [x.text for x in root.iter("{http://www.w3.org/2000/svg}title")]
        assert own == f"The arrays of {found.model.name}"
        assert sorted(titles) == sorted(x.name for x in found.model.joints)
    assert "2 time-multiplexed, one every 16 cycles" in str(humanoid)


def shape(found):
    return [(x.name, x.parent, len(x.limbs[0]), x.slots) for x in found.arrays]


def test_modes_of_the_root():
    model = fl.load("hyq", root="free")
    found = {
        mode: organise(model, "inverse_dynamics", root="base_link_0", mode=mode)
        for mode in ("prescribed", "ignored")
    }
    assert found["ignored"].model.nv == 12
    products = {mode: sum(x.products for x in o.arrays) for mode, o in found.items()}
    assert products["ignored"] < products["prescribed"] < 200
    with pytest.raises(ValueError, match="mode is 'none': wanted one of 'computed', 'prescri"):
        organise(model, mode="none")
    with pytest.raises(ValueError, match="interval is 0"):
        organise(model, interval=0)
    with pytest.raises(ValueError, match="root is 'nose': wanted a body of hyq"):
        organise(model, root="nose")


def test_split_root_has_the_same_dynamics():
    model = fl.load("hyq", root="free")
    split = split_root(model)
    q, v, a = inputs_of(model, ("q", "v", "a")).values()
    R = model.frame_placement(q, model.body_names[0])[:, :3, :3]
    turned = lambda x: np.concatenate([np.einsum("nij,nj->ni", R, x[:, :3]), x[:, 3:]], 1)
    spin = np.concatenate([np.cross(v[:, 3:6], v[:, :3]), np.zeros((len(v), model.nv - 3))], 1)
    tau = split.inverse_dynamics(q, turned(v), turned(a + spin))
    np.testing.assert_allclose(tau, turned(model.inverse_dynamics(q, v, a)), rtol=1e-9, atol=1e-8)
    with pytest.raises(ValueError, match="wanted a free joint"):
        split_root(fl.load("iiwa14"))
