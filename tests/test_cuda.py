"""PTX for GPUs, run by the emulator: the bits of the interpreter, and what no kernel may do."""

import json
import re
import shutil
import subprocess

import gpu_emulator
import numpy as np
import pytest
import textbook
from repetition import repeated
from test_backend import DTYPES, dtypes, every_operation, random_function, same_bits

import featherlane as fl
from featherlane.backends import reference
from featherlane.backends.cuda import (
    column_groups,
    kernel,
    kernel_body,
    kernel_stage,
    parse,
    ptx,
    rows,
    stages,
    tabled_rows,
)
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.functions.tracing import dynamics_program, scalar_function
from featherlane.functions.variants import input_shapes
from featherlane.program.graph import Graph, Output
from featherlane.program.lower import lower, traced
from featherlane.program.program import Program
from featherlane.robot.joints import JOINT_TYPES

BATCH = 70  # two whole warps, and six states of a third


def made(program, dtype, name="f"):
    return stages.kernels(lower(program, "cuda", dtype), name, np.dtype(dtype))


def compare(program, inputs, dtype):
    """Emulated kernels of a program against the interpreter; returns the kernels."""
    kernels = made(program, dtype)
    inputs = {name: np.asarray(x, dtype) for name, x in inputs.items()}
    found = gpu_emulator.run(kernels, inputs, dtype)
    wanted = reference.evaluate(lower(program, "cuda", dtype), inputs, dtype)
    for name, x in wanted.items():
        same_bits(found[name], np.broadcast_to(x, found[name].shape))
    return kernels


def random_inputs(shapes, count=BATCH, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(count, *shape)) for name, shape in shapes.items()}


def robot_program(model, name, policy=None):
    """A function of a robot; with "columns", repeated columns are functions."""
    variant = Variant(name)
    if policy is None:
        return dynamics_program(model, variant)
    return traced(scalar_function(model, variant), input_shapes(model, variant), "cuda")


# The bits of the interpreter


@pytest.mark.parametrize("quarter", [False, True], ids=["", "quarter"])
@dtypes
def test_every_operation_gives_the_bits_of_its_definition(quarter, dtype):
    graph, x = every_operation(quarter, dtype)
    compare(Program(graph), {"x": x}, dtype)


@pytest.mark.parametrize("seed", range(4))
@dtypes
def test_random_functions(seed, dtype):
    graph = fl.trace(random_function(seed), {"x": 6})
    compare(Program(graph), random_inputs(graph.inputs, seed=seed), dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", repeated(DTYPES), ids=lambda d: d.__name__)
def test_functions_of_robots(name, dtype):
    program = robot_program(fl.load("iiwa14"), name)
    compare(program, random_inputs(program.inputs), dtype)


@pytest.mark.parametrize("kind", repeated(list(JOINT_TYPES), 2))
def test_every_joint_type(kind):
    model = textbook.tree((kind, "revolute"), seed=3, physics=True)
    for name in ("forward_dynamics", "inverse_dynamics_derivatives", "step"):
        program = robot_program(model, name)
        compare(program, random_inputs(program.inputs, 40), np.float64)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 128, 129])
def test_any_number_of_states(count):
    program = robot_program(fl.load("double_pendulum"), "mass_matrix_inverse")
    compare(program, random_inputs(program.inputs, count), np.float32)


def test_long_graphs_are_cut(monkeypatch):
    program = robot_program(fl.load("iiwa14"), "forward_dynamics_derivatives")
    whole = made(program, np.float32)
    assert len(whole.launches) == 1
    assert not whole.slots
    monkeypatch.setattr(stages, "LONGEST", 700)
    cut = compare(program, random_inputs(program.inputs), np.float32)
    assert len(cut.launches) > 4
    assert 0 < cut.slots < 1_000


def test_conditions_before_a_cut_are_computed_again(monkeypatch):
    monkeypatch.setattr(stages, "LONGEST", 8)
    graph = fl.trace(random_function(1), {"x": 6})
    assert "less" in graph.op
    kernels = compare(Program(graph), random_inputs(graph.inputs, 5), np.float32)
    assert len(kernels.launches) > 20


@dtypes
def test_conditions_go_from_kernel_to_kernel(monkeypatch, dtype):
    monkeypatch.setattr(stages, "LONGEST", 4)

    def run(x):
        below = [x[k] < x[k + 1] for k in range(5)]
        return {"y": [np.where(c, x[k] * x[0], x[k] - x[1]) for k, c in enumerate(below)]}

    program = Program(fl.trace(run, {"x": 6}))
    kernels = compare(program, random_inputs(program.inputs), dtype)
    assert "setp.ne" in kernels.text  # of a number in a slot


@pytest.mark.parametrize(("most", "columns"), [(1, 6), (4, 2), (7, 1)])
@dtypes
def test_columns_are_warps_of_one_kernel(dtype, most, columns, monkeypatch):
    """A function with a single call, and functions with several calls, some of them in a thread."""
    monkeypatch.setattr(column_groups, "MOST", most)
    program = robot_program(fl.load("hyq", root="free"), "forward_dynamics_derivatives", "columns")
    assert len(program.functions) > 2
    kernels = compare(program, random_inputs(program.inputs, 40), dtype)
    assert max(launch.columns for launch in kernels.launches) == columns
    assert min(launch.columns for launch in kernels.launches) == 1


@pytest.mark.parametrize("count", [1, 33, 64, 129])
def test_columns_of_a_tile_are_neighbours_for_any_number_of_states(count, monkeypatch):
    """Warps are numbered tile by tile: the last block may have warps without work, and blocks may
    have columns of two tiles.
    """
    monkeypatch.setattr(column_groups, "MOST", 1)
    program = robot_program(fl.load("hyq", root="free"), "forward_dynamics_derivatives", "columns")
    kernels = compare(program, random_inputs(program.inputs, count), np.float32)
    columns = [launch for launch in kernels.launches if launch.columns > 1]
    assert any(launch.columns % launch.pairs for launch in columns)
    tiles = -(-count // ptx.WARP)
    assert all(x.blocks(count) == -(-tiles * x.columns // x.pairs) for x in columns)


def test_several_columns_in_a_thread_load_and_compute_once_what_they_share():
    """y_c = (a + b) x_c: for three columns two shared loads, three others, one sum."""
    graph = Graph()
    a, b, x = (graph.node("input", value=("p", k)) for k in range(3))
    y = graph.node("mul", graph.node("add", a, b), x)
    area = kernel_stage.ColumnSlots(calls=6, each=10, size=1, result=20, results=1)
    stage = kernel_stage.KernelStage(
        graph, range(len(graph)), {}, {}, {a: 0, b: 1}, {x: 0}, {y: [0]}, {}, area
    )
    three = column_groups.grouped(stage, 3)
    assert three.columns == kernel_stage.ColumnSlots(calls=2, each=10, size=3, result=20, results=3)
    assert sorted(three.operands.values()) == [0, 1, 2]
    assert sorted(three.stores.values()) == [[0], [1], [2]]
    assert sorted(three.graph.op) == ["add", *["input"] * 5, *["mul"] * 3]
    assert column_groups.columns_of_a_thread(stage, longest=100) == 6
    assert column_groups.columns_of_a_thread(stage, longest=7) == 3


@pytest.mark.parametrize("by", [1, 2, 3, 12, 14, 63, 64, 65_535])
def test_numbers_of_warps_are_divided_exactly(by):
    """By the columns; the largest numbers, and those around multiples."""
    near = [k * by + d for k in (1, 2, 1000, (2**31 - 1) // by) for d in (-1, 0, 1)]
    numbers = [x for x in (0, *near, 2**31 - 1) if x < 2**31]
    t, memory = ptx.Text(np.dtype(np.float32)), gpu_emulator.Memory()
    at = memory.place(np.zeros(2 * len(numbers), np.uint32))
    address = t.set("w", "ld.param.u64", "[a]")
    for k, number in enumerate(numbers):
        for j, x in enumerate(ptx.divided(t, t.set("r", "mov.u32", number), by)):
            t.do(f"st.global.u32 [{address}+{8 * k + 4 * j}], {t.set('r', 'mov.u32', x)}")
    text = "\n".join([*ptx.HEADER, *ptx.entry("f", [("u64", "a")], t), ""])
    gpu_emulator.Launched(text, "f", [at], memory, blocks=1, threads=1, shared=0).run()
    found = memory.read(at, np.zeros((len(numbers), 2), np.uint32))
    assert found.tolist() == [[*divmod(x, by)] for x in numbers]


def test_outputs_leave_in_parts_and_long_rows_are_read_as_they_lie(monkeypatch):
    monkeypatch.setattr(kernel, "BLOCK_BYTES", 12 << 10)
    monkeypatch.setattr(kernel_body, "BLOCK_BYTES", 12 << 10)
    monkeypatch.setattr(kernel_body, "INPUT_BYTES", 2 << 10)
    monkeypatch.setattr(kernel_body, "RESULT_BYTES", 2 << 10)
    monkeypatch.setattr(stages, "copied", lambda *_: set())
    program = robot_program(fl.load("iiwa14"), "inverse_dynamics_derivatives")
    kernels = compare(program, random_inputs(program.inputs), np.float32)
    assert all(launch.shared <= 12 << 10 for launch in kernels.launches)
    assert kernels.texts[0].count(".global .align 8 .u64") > 2  # a table for each part
    assert re.search(r"ld\.global\.f32 %f\d+, \[%w\d+\+24\];", kernels.texts[0])


@pytest.mark.parametrize("count", [1, 31, 64, 70])
@dtypes
def test_matrices_that_leave_by_tables(count, dtype, monkeypatch):
    """Entries of every number of a thread and every number of passes, some of them equal."""
    monkeypatch.setattr(kernel_body, "RESULT_BYTES", 0)
    graph, outputs = Graph(), {}
    x = graph.declare("x", (150,))
    negated = [graph.node("neg", k) for k in x]
    for n in (25, 33, 64, 65, 129, 256, 257, 600):
        outputs[f"y{n}"] = Output((n,), tuple(negated[k * k % 150] for k in range(n)))
    graph.outputs = outputs
    inputs = {"x": random_inputs(graph.inputs, count)["x"].astype(dtype)}
    found = gpu_emulator.run(made(Program(graph), dtype), inputs, dtype, apart=1)
    for name, y in found.items():
        n = int(name[1:])
        same_bits(y, -inputs["x"][:, [k * k % 150 for k in range(n)]])


def test_a_matrix_of_one_kernel_is_copied_by_a_second_one_if_its_rows_leave_in_parts():
    model = fl.load("atlas", root="free")
    for name, robot, count in (("mass_matrix", model, 2), ("mass_matrix", fl.load("iiwa14"), 1)):
        made_of = made(robot_program(robot, name), np.float32)
        assert len(made_of.launches) == count


@pytest.mark.parametrize("apart", [0, 1, 4])
@pytest.mark.parametrize("count", [3, 32, 33])
@dtypes
def test_rows_of_any_length_and_distance(apart, count, dtype):
    """Rows that follow each other move by 16 bytes, others number by number."""
    graph, outputs = Graph(), {}
    for n in (1, 2, 3, 4, 6, 7, 8, 12, 35):
        x = graph.declare(f"x{n}", (n,))
        outputs[f"y{n}"] = Output((n,), tuple(graph.node("neg", k) for k in reversed(x)))
    graph.outputs = outputs
    inputs = {x: y.astype(dtype) for x, y in random_inputs(graph.inputs, count).items()}
    found = gpu_emulator.run(made(Program(graph), dtype), inputs, dtype, apart=apart)
    for x, y in zip(inputs.values(), found.values(), strict=True):
        same_bits(y, -x[:, ::-1])


def test_inputs_and_numbers_as_outputs():
    graph = Graph()
    x, y = graph.declare("x", (2,))
    nodes = (y, graph.constant(2.5), x, x, graph.constant(0.0), graph.constant(-0.0))
    graph.outputs = {"a": Output((6,), nodes), "x": Output((), (x,)), "c": Output((0,), ())}
    compare(Program(graph), random_inputs(graph.inputs), np.float64)


def test_tables_have_room_for_every_entry():
    pairs = [(3, 7), (70_000, 2), (5_000_000, 400)]
    (found,) = parse.tables(
        tabled_rows.table("t", tabled_rows.OutputEntries(rows.GlobalRows(6_000_000, "", ""), pairs))
    )
    assert [(x >> 32, x & 0xFFFFFFFF) for x in found.numbers] == pairs
    assert found.kind == "u64"


def test_divisions_by_multiplication():
    """The factor and shift that stand for a division are right for all numbers of a tile."""
    for n in (1, 2, 3, 7, 24, 36, 43, 1296):
        factor, shift = rows.reciprocal(n, 32 * n)
        i = np.arange(32 * n)
        assert (i * factor >> shift == i // n).all()
        assert 32 * n * factor < 1 << 32


# What the emulator refuses


def one_kernel(*lines):
    """A kernel of 32 threads in the emulator's hands, with an array of 32 numbers."""
    text = ptx.Text(np.dtype(np.float32))
    text.do("mov.u32 %r0, %tid.x")
    text.do("ld.param.u64 %w0, [a]")
    text.do("mad.wide.u32 %w1, %r0, 4, %w0")
    text.do("shl.b32 %r1, %r0, 2")
    text.do("mov.u32 %r7, 0")
    text.do("mov.f32 %f0, 0f3F800000")
    text.do("setp.lt.u32 %p0, %r0, 16")
    text.lines += lines
    text.count.update(r=8, w=8, f=8, p=2)
    memory = gpu_emulator.Memory()
    place = memory.place(np.zeros(32, np.float32))
    lines = "\n".join([*ptx.HEADER, *ptx.entry("f", [("u64", "a")], text), ""])
    return gpu_emulator.Launched(lines, "f", [place], memory, blocks=1, threads=32, shared=128)


def test_tables_of_a_text_are_placed_once():
    """Functions of many launches would fill the memory with them."""
    shown, memory = (
        tabled_rows.OutputEntries(rows.GlobalRows(3, "", ""), [(0, 0), (0, 1)]),
        gpu_emulator.Memory(),
    )
    first = gpu_emulator.launch._tables(tabled_rows.table("t", shown), memory)
    size = len(memory.bytes)
    assert gpu_emulator.launch._tables(tabled_rows.table("t", shown), memory) == first
    assert (len(memory.bytes), len(first)) == (size, 1)
    assert gpu_emulator.launch._tables(tabled_rows.table("u", shown), memory) != first


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["st.global.f32 [%w1+4], %f0;"], "outside of all arrays"),
        (["st.global.f32 [%w0], %f0;"], "two threads write one number"),
        (["add.u64 %w2, %w1, 2;", "ld.global.f32 %f1, [%w2];"], "no multiple of 4"),
        (["st.shared.f32 [%r1+4], %f0;"], "outside of the 128 bytes"),
        (["st.shared.f32 [%r1], %f0;", "ld.shared.f32 %f1, [%r7];"], "without a barrier"),
        (["ld.shared.f32 %f1, [%r7];", "st.shared.f32 [%r1], %f0;"], "without a barrier"),
        (["@%p0 bra $L1;", "$L1:", "ret;"], "threads part"),
        (["@%p0 bar.warp.sync 0xffffffff;"], "some threads may not reach"),
        (["add.rn.f32 %f2, %f1, %f0;"], "read before it is set"),
        (["add.u32 %r2, %w0, 1;"], "%w0 is no operand 'u32'"),
        (["sin.approx.f32 %f2, %f0;"], "no instruction that is known here"),
        (["whatever"], "no PTX that is known here"),
    ],
)
def test_the_emulator_refuses(lines, message):
    with pytest.raises(gpu_emulator.EmulationError, match=message):
        one_kernel(*lines).run()


def test_a_barrier_hands_over():
    one_kernel(
        "st.shared.f32 [%r1], %f0;",
        "bar.warp.sync 0xffffffff;",
        "ld.shared.f32 %f1, [%r7];",
        "bar.warp.sync 0xffffffff;",
        "st.shared.f32 [%r1], %f0;",
    ).run()


def test_kernels_without_their_barriers_are_found_out():
    program = robot_program(fl.load("double_pendulum"), "mass_matrix")
    kernels = made(program, np.float32)
    inputs = random_inputs(program.inputs)
    wrong = kernels._replace(texts=[kernels.texts[0].replace("bar.warp.sync 0xffffffff;\n", "")])
    with pytest.raises(gpu_emulator.EmulationError, match="without a barrier"):
        gpu_emulator.run(wrong, inputs, np.float32)


# The assembler, where there is one


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
@dtypes
def test_ptxas_takes_the_text(dtype, target, tmp_path):
    program = robot_program(fl.load("iiwa14"), "forward_dynamics_derivatives")
    path = tmp_path / "f.ptx"
    path.write_text(made(program, dtype).texts[0])
    call = ["ptxas", f"-arch={target}", "-v", str(path), "-o", str(tmp_path / "f.cubin")]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if dtype == np.float32:
        assert "Used 2" in done.stderr  # registers: 255 at most


# Files


def test_generated_files(tmp_path, capsys):
    from featherlane.tools.cli import main

    folder = tmp_path / "kernels"
    call = ["generate", "iiwa14", "--target", "ptx", "--output", str(folder), "--dtype", "f32"]
    assert main([*call, "--function", "inverse_dynamics", "--function", "step:rk4"]) == 0
    names = {"iiwa14_inverse_dynamics", "iiwa14_step_rk4"}
    assert {p.name for p in folder.iterdir()} == {
        f"{n}.{x}" for n in names for x in ("ptx", "json")
    }
    told = json.loads((folder / "iiwa14_inverse_dynamics.json").read_text())
    assert told["inputs"] == [{"name": x, "shape": [7]} for x in "qva"]
    assert len(told["parameters"]) == 2 * (3 + 1) + 2
    (launch,) = told["launches"]
    assert [launch[x] for x in ("states_of_a_tile", "columns", "pairs_of_a_block")] == [32, 1, 4]
    text = (folder / "iiwa14_inverse_dynamics.ptx").read_text()
    assert f".entry {launch['kernel']}(" in text
    assert (
        text
        == made(
            robot_program(fl.load("iiwa14"), "inverse_dynamics"), np.float32, launch["kernel"]
        ).texts[0]
    )


def test_graphs_and_what_is_refused(tmp_path):
    graph = fl.trace(lambda x: {"y": np.sin(x) @ x}, {"x": 3})
    files = fl.generate(None, tmp_path, {"cost": graph}, target="ptx")
    assert [p.name for p in files] == ["functions_cost.ptx", "functions_cost.json"]
    model = fl.load("double_pendulum")
    with pytest.raises(ValueError, match="target is 'opencl': wanted one of 'c', 'wasm', 'ptx'"):
        fl.generate(model, tmp_path, target="opencl")
    with pytest.raises(ValueError, match="batch_struct, code_limit and signature are for C"):
        fl.generate(model, tmp_path, target="ptx", batch_struct=True)
    long = fl.chain(300)
    with pytest.raises(fl.CompileError, match="pairs of joints lie on one path"):
        fl.generate(long, tmp_path, ["mass_matrix"], target="ptx")
