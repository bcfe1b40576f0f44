"""SystemVerilog of datapaths in pipelines equals the golden model, bit for bit."""

import json
import shutil
import subprocess
from functools import cache

import numpy as np
import pytest
from random_datapaths import CYCLES, random_datapath, scheduled
from repetition import repeated

import featherlane as fl
from featherlane.backends.fixed.assign import proved
from featherlane.backends.fixed.datapath import OPERATIONS, Datapath
from featherlane.backends.fixed.evaluate import Evaluator, quantised
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.fixed.ranges import Interval
from featherlane.backends.fpga import devices, pipeline_folder, verilog, words
from featherlane.backends.fpga.netlist import WIRE
from featherlane.backends.fpga.netlist_writer import _stretches
from featherlane.backends.fpga.piece_costs import chain_resources
from featherlane.backends.fpga.simulation import simulate
from featherlane.backends.fpga.units.multipliers import (
    DSP48E2,
    MULT18X18D,
    Multiplier,
    Ring,
    pieces,
    tiles,
)
from featherlane.errors import CompileError
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_graph
from featherlane.program.graph import Graph, Output
from featherlane.program.passes.clamps import clamps
from featherlane.program.trace import trace
from featherlane.scalar import Tag, at, call, within

needs_icarus = pytest.mark.skipif(not shutil.which("iverilog"), reason="iverilog is not installed")
needs_verilator = pytest.mark.skipif(
    not (shutil.which("verilator") and shutil.which("g++")),
    reason="verilator or g++ is not installed",
)
STALLS = 128  # of 256 cycles


def states_of(datapath, seed, count):
    """Random integers over the whole range of each input, and both ends of it."""
    draw, graph = np.random.default_rng(seed), datapath.graph
    inputs = {name: np.zeros((count, *shape), np.int64) for name, shape in graph.inputs.items()}
    for k in graph.nodes_of("input"):
        name, position = graph.value[k]
        to = datapath.format(k)
        column = draw.integers(to.least, to.most, count, endpoint=True)
        column[:3] = [0, to.least, to.most]
        inputs[name].reshape(count, -1)[:, position] = column
    return inputs


def written(place, datapath, pipeline, seed, count=100, **options):
    """A design in a folder with its vectors: the design, the words of inputs, those wanted."""
    design = verilog.design("dut", datapath, pipeline, **options)
    inputs = states_of(datapath, seed, count)
    outputs = Evaluator(datapath)(inputs).integers
    pipeline_folder.write(design, place, inputs, outputs)
    wanted = words.result_values(datapath, design.outputs, outputs)
    return design, words.given_values(datapath, design.inputs, inputs), wanted


def check(design, found, wanted):
    """All states come out, as the golden model has them, and none earlier than the latency."""
    wrong = np.flatnonzero((found.values != wanted).any(axis=0))
    assert not len(wrong), [design.outputs[n].signal.name for n in wrong]
    assert (found.emitted - found.accepted >= design.latency).all()
    assert (np.diff(found.accepted) >= design.interval).all()


CASES = [(seed, interval) for seed in range(30) for interval in (1, 2, 3, 5)]
CASES = sorted(CASES, key=lambda case: (case[0] % 4 != case[1] % 4, case))


@needs_icarus
@pytest.mark.parametrize(("seed", "interval"), repeated(CASES, 8))
def test_random_datapaths_in_icarus(seed, interval, tmp_path):
    datapath = random_datapath(seed)
    datapath = narrowed(datapath) if seed % 2 else datapath
    pool = (lambda k: 0) if seed % 3 == 2 else None  # units that all calls share
    pipeline = scheduled(datapath, interval, latest=seed % 2 * 4, pool=pool)
    design, given, wanted = written(tmp_path, datapath, pipeline, seed)
    check(design, simulate.icarus(tmp_path, given, stalls=STALLS, seed=seed), wanted)


@needs_icarus
@pytest.mark.parametrize(("seed", "interval"), repeated(CASES[1::4], 4))
def test_random_datapaths_for_an_ecp5_in_icarus(seed, interval, tmp_path):
    """Products in cells with registers, long delays in rings, a register inside exponents."""
    tile = devices.load("ecp5_85k").tile
    datapath, cycles = random_datapath(seed), {**CYCLES, "exponent": 2, "mul": 4}
    pipeline = scheduled(datapath, interval, cycles, latest=seed % 2 * 4)
    design, given, wanted = written(tmp_path, datapath, pipeline, seed, tile=tile)
    assert ("_ring" in "".join(design.sources.values())) or interval > 1
    check(design, simulate.icarus(tmp_path, given, stalls=STALLS, seed=seed), wanted)


@pytest.mark.parametrize("registers", range(1, 41))
def test_rings_and_registers_make_up_a_delay(registers):
    ring = Ring(17, 6)
    stretches = list(_stretches(WIRE, registers - 1, ring))
    assert sum(count for _, count in stretches) == registers
    assert stretches[-1][0] == registers - 1
    assert all(count == 1 or ring.shortest <= count <= ring.longest for _, count in stretches)
    device, read = devices.load("ecp5_85k"), {registers - 1}
    assert chain_resources(device, read)[1] == len(stretches)
    assert chain_resources(device, read)[0] == 1.5 * sum(count > 1 for _, count in stretches)
    assert list(_stretches(WIRE, registers - 1, None)) == [(n, 1) for n in range(registers)]


@needs_verilator
@pytest.mark.parametrize(("seed", "interval"), repeated([(2, 3), (1, 1)], 1))
def test_both_simulators_agree(seed, interval, tmp_path):
    datapath = random_datapath(seed, size=16)
    design, given, wanted = written(tmp_path, datapath, scheduled(datapath, interval), seed, 2000)
    for stalls in (0, STALLS, 230):
        check(design, simulate.verilator(tmp_path, given, stalls=stalls, seed=7), wanted)


def test_the_random_datapaths_have_all_operations():
    assert {op for seed in range(10) for op in random_datapath(seed).graph.op} == OPERATIONS


@needs_icarus
@pytest.mark.parametrize("interval", [1, 3])
def test_back_to_back_states_enter_at_the_interval(interval, tmp_path):
    datapath = random_datapath(3, size=10, ops=["add", "mul"])
    design, given, wanted = written(tmp_path, datapath, scheduled(datapath, interval), 3)
    found = simulate.icarus(tmp_path, given)
    check(design, found, wanted)
    assert (np.diff(found.accepted) == interval).all()
    assert (np.diff(found.emitted) == interval).all()
    # The register of the inputs and the FIFO take a cycle each
    assert (found.emitted - found.accepted == design.latency + 2).all()


@needs_icarus
def test_fewer_places_than_states_under_way(tmp_path):
    datapath = random_datapath(3, size=10, ops=["add", "mul"])
    pipeline = scheduled(datapath, 1)
    design, given, wanted = written(tmp_path, datapath, pipeline, 3, depth=2)
    found = simulate.icarus(tmp_path, given)
    check(design, found, wanted)
    assert (found.accepted[2:] > found.emitted[:-2]).all()


@needs_icarus
def test_clamps(tmp_path):
    """Of a sum that rounding to 12 bits takes beyond the bounds that are stated of it."""
    clamped = lambda x: [within((x[0] + 4000.0) * 3.0 - (4000.0 - x[1]) * 3.0, 6.0, 12.0)]
    graph = prepared(trace(lambda x: at(Tag("M", "b", 2), call, clamped, x), {"x": 2}))
    datapath = proved(graph, {("x", i): Interval(1.0, 2.0) for i in range(2)}, 12)
    assert len(clamps(datapath.graph)) == 2
    design, given, wanted = written(tmp_path, datapath, scheduled(datapath, 2), 0)
    check(design, simulate.icarus(tmp_path, given), wanted)


@needs_icarus
def test_a_wrong_bit_is_found(tmp_path):
    datapath = random_datapath(5, size=20, ops=["add", "mul", "neg"])
    _, given, wanted = written(tmp_path, datapath, scheduled(datapath), 5)
    stages = sorted(tmp_path.glob("dut_*_c*.sv")) or sorted(tmp_path.glob("dut_[RDM]*.sv"))
    for source in stages:
        source.write_text(source.read_text().replace(" + ", " - "))
    assert (simulate.icarus(tmp_path, given).values != wanted).any()


@cache
def pendulum():
    """Inverse dynamics of the double pendulum in Q16.16."""
    model = fl.load("double_pendulum")
    graph = prepared(dynamics_graph(model, Variant("inverse_dynamics")))
    return Datapath(graph, (Format(32, 16),) * len(graph))


def small_states(datapath, count):
    """Inputs from -3 to 3."""
    draw, shapes = np.random.default_rng(0), datapath.graph.inputs
    return quantised(
        datapath, {name: draw.uniform(-3, 3, (count, *shape)) for name, shape in shapes.items()}
    )[0]


def check_pendulum(place, interval, simulator, count):
    datapath = pendulum()
    design = verilog.design("pendulum", datapath, scheduled(datapath, interval))
    inputs = small_states(datapath, count)
    results = Evaluator(datapath)(inputs)
    assert not results.overflows
    pipeline_folder.write(design, place, inputs, results.integers)
    given = words.given_values(datapath, design.inputs, inputs)
    found = simulator(place, given, stalls=STALLS)
    check(design, found, words.result_values(datapath, design.outputs, results.integers))
    shown = words.results_of(datapath, design.outputs, found.values)
    exact = fl.load("double_pendulum").inverse_dynamics(*(inputs[x] / 2**16 for x in inputs))
    np.testing.assert_allclose(shown["tau"] / 2**16, exact, atol=2e-3)


@needs_icarus
def test_inverse_dynamics_of_the_double_pendulum_in_icarus(tmp_path):
    check_pendulum(tmp_path, 4, simulate.icarus, 200)


@needs_verilator
def test_inverse_dynamics_of_the_double_pendulum_in_verilator(tmp_path):
    check_pendulum(tmp_path, 1, simulate.verilator, 10_000)


# The arithmetic of single operations, at their edges


def of_two(op, a, b, out):
    """The datapath of one operation of two inputs."""
    graph = Graph()
    x = graph.declare("x", (2,))
    graph.current_tag = Tag("R", "f", 0, 1)
    graph.outputs["y"] = Output((1,), (graph.node(op, *x),))
    return Datapath(graph, (a, b, out))


PRODUCTS = [
    (Format(32, 16), Format(32, 16), Format(32, 16)),
    (Format(32, -3), Format(27, 30), Format(18, 4)),
    (Format(2, 0), Format(2, 1), Format(32, 28)),
    (Format(32, 31), Format(18, 17), Format(32, -20)),
]


@needs_icarus
@pytest.mark.parametrize(("a", "b", "out"), repeated(PRODUCTS, 2))
def test_products_for_each_number_of_stages(a, b, out, tmp_path):
    datapath = of_two("mul", a, b, out)
    for cycles in (0, 1, 2, 4, 6):
        for tile in (DSP48E2, MULT18X18D):
            pipeline = scheduled(datapath, 1, {"mul": cycles})
            design, given, wanted = written(tmp_path, datapath, pipeline, 1, tile=tile)
            check(design, simulate.icarus(tmp_path, given), wanted)
            for file in tmp_path.glob("dut_mul*"):
                file.unlink()


def test_pieces_make_up_the_operand():
    for width in range(2, 65):
        for most in (18, 27):
            parts = pieces(width, most)
            assert [p.first for p in parts] == [
                sum(q.bits for q in parts[:n]) for n in range(len(parts))
            ]
            assert sum(p.bits for p in parts) == width
            assert all(p.width <= most for p in parts)
            assert [p.signed for p in parts] == [False] * (len(parts) - 1) + [True]


def test_tiles_of_multipliers():
    wanted = {
        (18, 18): 1,
        (27, 18): 1,
        (27, 27): 2,
        (32, 18): 2,
        (32, 27): 2,
        (32, 32): 4,
        (35, 35): 4,
    }
    assert {ab: tiles(Multiplier(*ab, sum(ab), 3)) for ab in wanted} == wanted
    assert tiles(Multiplier(32, 32, 64, 3), MULT18X18D) == 4


# What is written, and what is refused


@needs_icarus
def test_a_folder_is_a_simulation(tmp_path):
    datapath = random_datapath(4, size=20)
    design, *_ = written(tmp_path, datapath, scheduled(datapath, 2), 4)
    command = f"cd '{tmp_path}' && iverilog -g2012 -o bench *.sv && vvp -n bench"
    told = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[0] == "100 states passed, 0 failed, 0 are missing"
    assert not told.stderr
    facts = json.loads((tmp_path / "design.json").read_text())
    assert facts["latency"] == design.latency
    assert facts["report"]["interval"] == 2
    lines = (tmp_path / "results.hex").read_text().splitlines()
    changed = f"{int(lines[5], 16) ^ 1:0{len(lines[5])}x}"
    (tmp_path / "results.hex").write_text("\n".join([*lines[:5], changed, *lines[6:]]))
    told = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert told.returncode
    assert "99 states passed, 1 failed, 0 are missing" in told.stdout


def test_outputs_that_are_inputs_constants_and_one_node_twice():
    graph = Graph()
    a, b = graph.declare("x", (2,))
    graph.current_tag = Tag("R", "f", 0, 1)
    total = graph.node("add", a, b)
    zero = graph.node("constant", value=0.0)
    graph.outputs["y"] = Output((2, 2), (total, a, zero, total))
    datapath = Datapath(graph, (Format(8, 4),) * 4)
    design = verilog.design("dut", datapath, scheduled(datapath))
    assert [field.node for field in design.outputs] == [total, a]
    values = np.array([[5, 7], [-1, 2]])
    outputs = words.results_of(datapath, design.outputs, values)
    assert outputs["y"].tolist() == [[[5, 7], [0, 5]], [[-1, 2], [0, -1]]]
    assert (words.result_values(datapath, design.outputs, outputs) == values).all()


def test_words_are_packed_and_unpacked():
    fields = [(5, 0), (1, 5), (32, 6), (17, 38)]
    draw = np.random.default_rng(0)
    values = np.stack([draw.integers(-(1 << w - 1), 1 << w - 1, 50) for w, _ in fields], axis=1)
    packed = words.packed(values, fields)
    assert (words.unpacked(packed, fields) == values).all()
    text = words.hexadecimal(packed, 55)
    assert (words.from_hexadecimal(text, 7) == packed[:, :7]).all()


def test_what_is_refused():
    datapath = random_datapath(2, size=20)
    pipeline = scheduled(datapath, 2)
    with pytest.raises(ValueError, match="name is '2x'"):
        verilog.design("2x", datapath, pipeline)
    with pytest.raises(CompileError, match="the pipeline has"):
        verilog.design("dut", random_datapath(3), pipeline)
    early = of_two("add", *[Format(8, 4)] * 3)
    late = scheduled(early)
    wrong = type(late)(early.graph, late.operators, 8.0, 1, (0, 3, 1), late.pool, late.unit, 2)
    with pytest.raises(CompileError, match="node 1 is there in cycle 3 and read in cycle 1"):
        verilog.design("dut", early, wrong)


def test_missing_tools_are_named(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CompileError, match=r"verilator is not installed: .* apt install verilator"):
        simulate.tool("verilator")
