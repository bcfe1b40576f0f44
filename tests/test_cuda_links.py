"""Recorded programs of long robots as kernels for GPUs, run by the emulator: the bits of the
interpreter and of the CPU, in every shape of a block, without races.
"""

import re
import shutil
import subprocess

import gpu_emulator
import numpy as np
import pytest
from gpu_emulator import EmulatedDriver
from repetition import repeated
from test_backend import same_bits

import featherlane as fl
from featherlane.backends import reference
from featherlane.backends.cuda import calls as device_calls
from featherlane.backends.cuda import files, links, rounds
from featherlane.backends.cuda.rounds import BlockShape
from featherlane.backends.cuda.workspaces import DeviceWorkspaces
from featherlane.errors import CompileError
from featherlane.functions.long.on_gpu import long_kernels, scan_options
from featherlane.functions.long.recording import recording
from featherlane.functions.table import Variant
from featherlane.functions.tracing import scalar_function
from featherlane.functions.variants import input_shapes
from featherlane.program.call_list import call_list
from featherlane.program.evaluation import fma
from featherlane.program.graph import Graph, Output
from featherlane.program.lower import lower, traced
from featherlane.program.program import Program

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
ID, FD = "inverse_dynamics", "forward_dynamics"
DFD = "forward_dynamics_derivatives"
CHAIN = fl.chain(7, seed=1)
SHORT = fl.chain(4, seed=3)
TREE = fl.random_tree(7, seed=2, physics=True)
TOGETHER = {"method": "kogge_stone", "together": True}
BLOCKED = {"method": "reduce_then_scan", "block": 2}


def recorded(model, name, method=None, /, **options):
    variant = Variant(name, method=method)
    run = scalar_function(model, variant, **options)
    return traced(run, input_shapes(model, variant), "cuda steps")


def made(program, dtype, shape):
    return links.kernels(lower(program, "cuda steps", dtype), shape, "f", dtype)


def random_inputs(shapes, count, dtype):
    rng = np.random.default_rng(count)
    return {name: rng.normal(size=(count, *core)).astype(dtype) for name, core in shapes.items()}


def interpreted(program, inputs, dtype):
    """What a program means, with each of its functions lowered."""
    lowered = lower(program, "cuda steps", dtype)
    arithmetic = lambda g: g if "call" in g.op else lower(Program(g), "cuda", dtype).main
    return reference.evaluate(lowered.map(arithmetic), inputs, dtype)


def compare(program, dtype, shape, count):
    kernels = made(program, dtype, BlockShape(*shape))
    inputs = random_inputs(program.inputs, count, dtype)
    found = gpu_emulator.run(kernels, inputs, dtype)
    for name, x in interpreted(program, inputs, dtype).items():
        assert np.isfinite(x).all()
        same_bits(found[name], np.broadcast_to(x, found[name].shape))
    return kernels


# The bits of the interpreter


CASES = [
    (CHAIN, ID, "serial", {}, F32, (32, 32), 33),
    (TREE, ID, "serial", {}, F64, (4, 64), 3),
    (CHAIN, ID, "scan", TOGETHER, F32, (1, 64), 3),
    (SHORT, ID, "scan", BLOCKED, F64, (2, 64, 3), 3),
    (CHAIN, FD, "aba", {}, F32, (1, 32), 3),
    (SHORT, FD, "abia", BLOCKED, F32, (4, 64), 3),
    (SHORT, FD, "cfa", BLOCKED | {"elimination": "odd_even"}, F32, (1, 128), 1),
    (SHORT, "mass_matrix_inverse", None, {}, F32, (2, 64), 3),
    # further dtypes, sizes and functions
    (SHORT, FD, "dca", BLOCKED, F32, (2, 32, 2), 3),
    (CHAIN, ID, "serial", {}, F64, (1, 32), 33),
    (TREE, ID, "scan", BLOCKED, F64, (8, 256), 1),
    (TREE, FD, "aba", {}, F64, (16, 64), 3),
    (CHAIN, FD, "cfa", BLOCKED | {"elimination": "cyclic_reduction"}, F64, (1, 32), 1),
    (CHAIN, FD, "dca", BLOCKED, F64, (1, 256), 1),
    (TREE, "mass_matrix", None, {}, F32, (2, 64), 3),
    (TREE, "inverse_dynamics_derivatives", None, {}, F64, (1, 64), 1),
]


@pytest.mark.parametrize(
    ("model", "name", "method", "options", "dtype", "shape", "count"), repeated(CASES, 8)
)
def test_bits_of_the_interpreter(model, name, method, options, dtype, shape, count):
    compare(recorded(model, name, method, **options), dtype, shape, count)


def test_memory_too_large_for_a_block_is_global():
    program = recorded(fl.chain(16, seed=1), ID, "serial")
    small = made(program, F32, BlockShape(1, 32))
    assert not small.slots
    assert small.launches[0].shared <= 48 << 10
    large = compare(program, F32, (32, 32), 3)
    assert large.slots > 500
    assert not large.launches[0].shared


def test_results_that_are_inputs_and_constants():
    """Numbers that differ only in the sign of zero, and a function with constants of its own."""
    graph = Graph()
    x, y = graph.declare("x", (2,))
    zero, minus = graph.constant(0.0), graph.constant(-0.0)
    nodes = (y, graph.constant(2.5), x, graph.add(x, y), minus, zero)
    graph.outputs = {"a": Output((6,), nodes), "x": Output((), (x,)), "c": Output((0,), ())}
    compare(Program(graph), F64, (2, 32), 3)


@pytest.mark.parametrize(("name", "method", "options"), [(ID, "scan", TOGETHER), (FD, "aba", {})])
def test_bits_of_the_cpu(name, method, options):
    """Machine code of the same recording."""
    model, variant = fl.chain(12, seed=4), Variant(name, method=method)
    kernels = made(recorded(model, name, method, **options), F32, BlockShape(1, 64))
    inputs = random_inputs(kernels.inputs, 3, F32)
    (core,) = kernels.outputs.values()
    wanted = np.empty((3, *core), F32)
    recording(model, variant, F32, **options)(*inputs.values(), out=[wanted])
    (found,) = gpu_emulator.run(kernels, inputs, F32).values()
    same_bits(found, wanted)


# What a function of a robot becomes


def test_the_method_follows_the_number_of_states():
    robot = fl.chain(20, seed=1)
    for states, method, shape, options in (
        (1, "scan", (1, 256), scan_options(20, 256) | {"together": True}),
        (10_000, "serial", (32, 32), {}),
    ):
        found = long_kernels(robot, Variant(ID), "f", F32, states)
        assert found == made(recorded(robot, ID, method, **options), F32, BlockShape(*shape))
    assert scan_options(1_000, 256) == {"method": "reduce_then_scan", "block": 4}
    middle = long_kernels(robot, Variant(ID), "f", F32, 500)
    assert (middle.launches[0].states, middle.launches[0].threads) == (4, 256)
    named = long_kernels(robot, Variant(ID, method="serial"), "f", F32, 1)
    assert named == made(recorded(robot, ID, "serial"), F32, BlockShape(1, 32))


@pytest.mark.parametrize("dtype", repeated([F32, F64]), ids=str)
def test_derivatives_of_forward_dynamics(dtype):
    """Products with M^-1, in the order of its rows, of what two recorded functions give."""
    model = fl.chain(3, seed=1)
    kernels = long_kernels(model, Variant(DFD), "f", dtype, 1)
    inputs = random_inputs(kernels.inputs, 2, dtype)
    found = gpu_emulator.run(kernels, inputs, dtype)
    a = interpreted(recorded(model, FD, "aba"), inputs, dtype)["a"]
    state = {"q": inputs["q"], "v": inputs["v"], "a": a}
    parts = interpreted(recorded(model, "inverse_dynamics_derivatives"), state, dtype)
    minv = interpreted(recorded(model, "mass_matrix_inverse"), {"q": state["q"]}, dtype)["Minv"]
    same_bits(found["da_dtau"], minv)
    same_bits(minv, minv.swapaxes(1, 2))
    for name, dtau in zip(("da_dq", "da_dv"), parts.values(), strict=True):
        total = np.zeros_like(dtau)
        for k in range(3):
            total = fma(minv[:, :, k, None], dtau[:, k, None, :], total)
        same_bits(found[name], -total)
    wanted = model.forward_dynamics_derivatives(*(x.astype(float) for x in inputs.values()))
    error = np.abs(found["da_dq"] - wanted.da_dq).max() / np.abs(wanted.da_dq).max()
    assert error < 100 * np.finfo(dtype).eps


@pytest.mark.parametrize(
    ("model", "variant", "message"),
    [
        (CHAIN, Variant(FD, method="jsiia"), "use 'aba', 'abia', 'cfa' or 'dca'"),
        (fl.chain(300), Variant("mass_matrix"), "45,150 pairs of joints"),
        (CHAIN, Variant("inverse_dynamics_second_derivatives"), "made of other functions"),
    ],
)
def test_what_has_no_kernels(model, variant, message):
    with pytest.raises(CompileError, match=message):
        long_kernels(model, variant, "f", F32, 1)


def test_code_that_is_too_long_and_shapes_that_no_block_has(monkeypatch):
    program = recorded(CHAIN, ID, "serial")
    for shape, message in (
        ((3, 32), "3 states and 32 threads: wanted powers of two"),
        ((64, 64), "64 states"),
        ((1, 512), "512 threads"),
        ((1, 32, 0), "0 blocks"),
    ):
        with pytest.raises(CompileError, match=message):
            made(program, F32, BlockShape(*shape))
    monkeypatch.setattr(links, "LONGEST", 100)
    with pytest.raises(CompileError, match="f has 351 operations in 5 different steps"):
        made(program, F32, BlockShape(1, 32))


# The schedule


@pytest.mark.parametrize("lanes", [2, 64])
def test_calls_come_after_what_they_read(lanes):
    calls = call_list(lower(recorded(CHAIN, FD, "abia", **BLOCKED), "cuda steps", F32))
    found = rounds.side_by_side(calls, [100] * len(calls.functions), lanes)
    made_in = np.full(calls.size, -1)
    for r, own in enumerate(found):
        for f, members in own:
            function = calls.functions[f]
            assert (made_in[function.operands[members]] < r).all()
            assert (made_in[function.results[members]] == -1).all()  # once
            made_in[function.results[members]] = r
            assert len(members) < lanes or not len(members) % lanes
    assert sum(len(x.calls) for own in found for x in own) == len(calls.order)
    assert len(found) < len(calls.order) / 2


def test_links_share_rounds():
    """The rounds of scans grow with the logarithm of the number of links, those of serial methods
    with the number.
    """
    count = {}
    for links_ in (16, 64):
        for method, options in (("serial", {}), ("scan", TOGETHER)):
            program = lower(recorded(fl.chain(links_), ID, method, **options), "cuda steps", F32)
            calls = call_list(program)
            count[links_, method] = len(rounds.side_by_side(calls, [50] * 99, 256))
    assert count[64, "serial"] == 127
    assert count[64, "scan"] <= count[16, "scan"] + 6 < 30


# Races


@pytest.mark.parametrize("links_", [4, 40], ids=["shared", "global"])
def test_kernels_without_their_barriers_are_found_out(links_):
    program = recorded(fl.chain(links_), ID, "scan", **TOGETHER)
    kernels = made(program, F32, BlockShape(1 if links_ == 4 else 8, 64))
    assert bool(kernels.slots) == (links_ == 40)
    inputs = random_inputs(program.inputs, 1, F32)
    wrong = kernels._replace(texts=[kernels.texts[0].replace("bar.sync 0;\n", "")])
    with pytest.raises(gpu_emulator.EmulationError, match="without a barrier"):
        gpu_emulator.run(wrong, inputs, F32)


def test_blocks_of_one_launch_that_wait_for_each_other_are_found_out():
    program = recorded(CHAIN, ID, "scan", **TOGETHER)
    kernels = made(program, F32, BlockShape(1, 32, 2))
    first, *_, last = kernels.launches
    whole = first._replace(arguments=(first.arguments[0], last.arguments[1]))
    with pytest.raises(gpu_emulator.EmulationError, match="without a barrier"):
        gpu_emulator.run(
            kernels._replace(launches=(whole,)), random_inputs(program.inputs, 1, F32), F32
        )


# Launches


def test_a_launch_for_each_round_through_the_driver(monkeypatch):
    api = EmulatedDriver()
    monkeypatch.setattr(device_calls, "driver", lambda: api)
    monkeypatch.setattr(device_calls, "workspaces", DeviceWorkspaces())
    monkeypatch.setattr(device_calls, "LARGEST", 1)  # bytes: 32 states at a time
    program = recorded(SHORT, ID, "scan", **TOGETHER)
    kernels = made(program, F32, BlockShape(16, 32, 2))
    inputs = random_inputs(program.inputs, 35, F32)
    arrays = [*inputs.values(), np.zeros((35, 4), F32)]
    rows = [device_calls.Rows(api.place(x), x.nbytes // len(x)) for x in arrays]
    device_calls.DeviceFunction(lambda _: kernels, lambda *_: "links", F32).call(0, 0, rows, 35)
    same_bits(
        api.memory.read(rows[-1].address, arrays[-1]), gpu_emulator.run(kernels, inputs, F32)["tau"]
    )
    assert len(api.launched) == 2 * len(kernels.launches) == 18


def test_files_tell_the_arguments():
    kernels = made(recorded(CHAIN, ID, "scan", **TOGETHER), F32, BlockShape(1, 32, 2))
    told = files.files("f", kernels, F32)["f.json"]
    assert len(re.findall(r'"arguments"', told)) == len(kernels.launches)
    assert '"first segment"' in told


# The assembler, where there is one


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize(
    "variant", [Variant(ID), Variant(FD, method="cfa"), Variant(DFD)], ids=["ID", "cfa", "dFD"]
)
def test_ptxas_takes_the_text(variant, tmp_path):
    path = tmp_path / "f.ptx"
    path.write_text(long_kernels(SHORT, variant, "f", F64, 1).texts[0])
    call = ["ptxas", "-arch=sm_90", "-v", str(path), "-o", str(tmp_path / "f.cubin")]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert " 0 bytes spill stores" in done.stderr
