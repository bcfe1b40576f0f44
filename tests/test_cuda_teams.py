"""Teams of warps: the bits of the interpreter, schedules, and what the emulator finds."""

import shutil
import subprocess
import sys
from types import SimpleNamespace

import gpu_emulator
import numpy as np
import pytest
import textbook
from repetition import repeated
from test_backend import every_operation, random_function, same_bits
from test_cuda import random_inputs, robot_program

import featherlane as fl
from featherlane.backends import reference
from featherlane.backends.cuda import driver, schedule, team_memory, teams
from featherlane.backends.cuda.kernel_stage import Launch
from featherlane.backends.cuda.ptx import HEADER
from featherlane.errors import CompileError
from featherlane.program.lower import lower
from featherlane.program.op import CONDITIONS
from featherlane.program.program import Program
from featherlane.robot.joints import JOINT_TYPES

F32, F64 = np.float32, np.float64
TEAMS = [(F32, 4, 33), (F64, 2, 1), (F32, 8, 31), (F64, 8, 70), (F32, 2, 70), (F64, 4, 33)]
teams_of = pytest.mark.parametrize(
    ("dtype", "warps", "count"), TEAMS, ids=[f"{d.__name__}-{w}-{n}" for d, w, n in TEAMS]
)


def made(program, dtype, warps):
    return teams.kernels(lower(program, "cuda", dtype), "f", np.dtype(dtype), warps)


def compare(program, inputs, dtype, warps):
    """Emulated kernels of a program against the interpreter; returns the kernels."""
    kernels = made(program, dtype, warps)
    inputs = {name: np.asarray(x, dtype) for name, x in inputs.items()}
    found = gpu_emulator.run(kernels, inputs, dtype)
    wanted = reference.evaluate(lower(program, "cuda", dtype), inputs, dtype)
    for name, x in wanted.items():
        same_bits(found[name], np.broadcast_to(x, found[name].shape))
    return kernels


# The bits of the interpreter


@teams_of
def test_random_functions(dtype, warps, count):
    graph = fl.trace(random_function(warps), {"x": 6})
    kernels = compare(Program(graph), random_inputs(graph.inputs, count), dtype, warps)
    assert [(x.threads, x.states) for x in kernels.launches] == [(32 * warps, 32)]


@pytest.mark.parametrize("dtype", [F32, F64])
def test_every_operation(dtype):
    graph, x = every_operation(False, dtype)
    compare(Program(graph), {"x": x[::40]}, dtype, 4)


@pytest.mark.parametrize(("dtype", "warps", "count"), repeated(TEAMS, 2))
def test_derivatives_of_a_tree(dtype, warps, count):
    model = textbook.tree(("revolute", "prismatic", "revolute"), seed=1, physics=True)
    program = robot_program(model, "forward_dynamics_derivatives")
    compare(program, random_inputs(program.inputs, count), dtype, warps)


@pytest.mark.parametrize("kind", repeated(list(JOINT_TYPES), 3))
def test_every_joint_type(kind):
    model = textbook.tree((kind, "revolute"), seed=3, physics=True)
    program = robot_program(model, "step")
    compare(program, random_inputs(program.inputs, 33), F64, 4)


@pytest.mark.parametrize("dtype", repeated([F32, F64]))
def test_columns_and_several_kernels(dtype, monkeypatch):
    """Long graphs are cut in bands of depth; columns have kernels of their own, and what they
    compute is copied by a team.
    """
    monkeypatch.setattr(teams, "LONGEST", 120)
    model = textbook.tree(("revolute", "prismatic", "revolute"), seed=1, physics=True)
    program = robot_program(model, "forward_dynamics_derivatives", "columns")
    assert program.functions
    kernels = compare(program, random_inputs(program.inputs, 5), dtype, 4)
    assert {x.threads for x in kernels.launches if x.columns == 1} == {128}
    assert sum(x.threads == 128 for x in kernels.launches) > 3
    assert any(x.columns > 1 for x in kernels.launches)


def test_values_beyond_shared_memory_go_through_scratch(monkeypatch):
    program = robot_program(fl.load("iiwa14"), "mass_matrix")
    inputs = random_inputs(program.inputs, 33)
    wide = compare(program, inputs, F32, 4)
    assert not wide.slots
    monkeypatch.setattr(teams, "MEMORY_BYTES", 3 << 10)
    narrow = compare(program, inputs, F32, 4)
    assert narrow.slots
    assert narrow.launches[0].shared <= 3 << 10 < wide.launches[0].shared


def test_leaves_as_outputs():
    graph = fl.trace(lambda x: {"a": [x[1], 2.5, x[0], x[0] * x[1]], "b": 0.0}, {"x": 2})
    compare(Program(graph), random_inputs(graph.inputs, 33), F64, 2)


def test_a_function_without_operations():
    graph = fl.trace(lambda x: {"a": [x[1], 2.5], "b": x}, {"x": 2})
    compare(Program(graph), random_inputs(graph.inputs, 33), F32, 4)


# Schedules


@pytest.fixture(scope="module")
def arm():
    return lower(robot_program(fl.load("iiwa14"), "inverse_dynamics_derivatives"), "cuda", F32)


@pytest.mark.parametrize("warps", [2, 4, 8])
def test_schedules(arm, warps):
    graph = arm.main
    found = schedule.schedule(graph, range(len(graph)), warps)
    computed = {k for k, op in enumerate(graph.op) if graph.args[k] and op not in CONDITIONS}
    assert found.needs.keys() == computed
    assert len(found.phases) < 20
    assert len(found.needs) / warps <= found.longest < 1.6 * len(found.needs) / warps


def test_wrong_schedules_are_found_out(arm):
    graph = arm.main
    found = schedule.schedule(graph, range(len(graph)), 4)
    with pytest.raises(CompileError, match="is before node"):
        found._replace(phases=found.phases[::-1]).verify()
    with pytest.raises(CompileError, match="lacks operations"):
        found._replace(phases=found.phases[:-1]).verify()
    first, *others = found.phases[0]
    one_phase = [[first + others[0], *others], *found.phases[1:]]
    with pytest.raises(CompileError, match=r"has one twice|is before node"):
        found._replace(phases=one_phase).verify()


def test_slots_are_used_again(arm):
    graph = arm.main
    found = schedule.schedule(graph, range(len(graph)), 4)
    shown = {k for out in graph.outputs.values() for k in out.nodes}
    plan = team_memory.layout(found, shown, 400)
    assert not plan.scratch
    assert plan.shared_slots < len(plan.shared)
    assert shown == {k for own in plan.copies_out.values() for k in own}


def test_estimates(arm):
    two, four, eight = (teams.estimate(arm, np.dtype(F32), n) for n in (2, 4, 8))
    assert two.operations == four.operations == eight.operations
    assert two.operations > two.longest > four.longest > eight.longest > two.operations / 8
    one = teams.estimate(arm, np.dtype(F32), 1)
    assert one.longest > one.operations == two.operations
    assert one.time > two.time > four.time
    kernels = teams.kernels(arm, "f", np.dtype(F32), 4)
    assert four.barriers * 4 == "".join(kernels.texts).count("bar.sync 0;")
    for warps in (0, 1, 9):
        with pytest.raises(CompileError, match=f"warps is {warps}: a team has 2 to 8"):
            teams.kernels(arm, "f", np.dtype(F32), warps)


# What the emulator refuses


def test_kernels_without_a_barrier_are_found_out():
    program = robot_program(fl.load("double_pendulum"), "forward_dynamics")
    kernels = made(program, F32, 2)
    inputs = random_inputs(program.inputs, 33)
    barriers = "".join(kernels.texts).count("bar.sync 0;\n") // 2
    for n in range(barriers):  # the nth one of each warp
        lines, seen = [], 0
        for line in kernels.texts[0].split("\n"):
            if line == "bar.sync 0;":
                seen += 1
                if (seen - 1) % barriers == n:
                    continue
            lines.append(line)
        with pytest.raises(gpu_emulator.EmulationError, match="without a barrier"):
            gpu_emulator.run(kernels._replace(texts=["\n".join(lines)]), inputs, F32)


def test_scratch_memory_needs_barriers_too(monkeypatch):
    monkeypatch.setattr(teams, "MEMORY_BYTES", 4 << 10)
    program = robot_program(fl.load("iiwa14"), "mass_matrix")
    kernels = made(program, F32, 2)
    assert kernels.slots
    text = kernels.texts[0].replace("bar.sync 0;\n", "")
    # Shared memory that watches nothing
    monkeypatch.setattr(gpu_emulator.Shared, "load", lambda self, at, t, dtype, _: at.astype(dtype))
    monkeypatch.setattr(gpu_emulator.Shared, "store", lambda *_: None)
    with pytest.raises(gpu_emulator.EmulationError, match=r"global.*without a barrier"):
        gpu_emulator.run(kernels._replace(texts=[text]), random_inputs(program.inputs, 33), F32)


def two_warps(*lines):
    """A kernel of a block of two warps in the emulator's hands."""
    head = ["mov.u32 %r0, %tid.x;", "shr.u32 %r1, %r0, 5;", "setp.eq.u32 %p0, %r1, 1;"]
    head += ["setp.lt.u32 %p1, %r0, 16;", "shl.b32 %r2, %r0, 2;", "mov.f32 %f0, 0f3F800000;"]
    body = [".reg .u32 %r<4>;", ".reg .pred %p<2>;", ".reg .f32 %f<2>;", *head, *lines]
    text = "\n".join([*HEADER, ".visible .entry f(", ")", "{", *body, "}", ""])
    return gpu_emulator.Launched(
        text, "f", [], gpu_emulator.Memory(), blocks=2, threads=64, shared=256
    )


PARTED = ["@%p0 bra $L1;", "st.shared.f32 [%r2], %f0;", "bar.sync 0;", "ret;", "$L1:"]


def test_warps_of_a_block_may_part():
    read = ["xor.b32 %r3, %r2, 128;", "bar.sync 0;", "ld.shared.f32 %f1, [%r3];", "ret;"]
    two_warps(*PARTED, *read).run()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*PARTED, "ret;"], "some threads may not reach"),
        ([*PARTED, "xor.b32 %r3, %r2, 128;", "ld.shared.f32 %f1, [%r3];"], "without a barrier"),
        (["@%p1 bra $L1;", "$L1:", "ret;"], "threads part"),
        (["@%p1 bar.sync 0;"], "some threads may not reach"),
    ],
)
def test_what_parted_warps_may_not_do(lines, message):
    with pytest.raises(gpu_emulator.EmulationError, match=message):
        two_warps(*lines).run()


# The driver


class EmulatedCuda:
    """The driver's functions that load and launch, with the limit of shared memory."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=0)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)
    CUjit_option = SimpleNamespace(CU_JIT_ERROR_LOG_BUFFER=5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES=6)
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)

    def __init__(self, most=227 << 10):
        self.most, self.limit, self.launched = most, {}, []

    def __getattr__(self, name):
        return lambda *arguments: (0, name)

    def cuModuleGetFunction(self, module, name):
        self.limit[name] = 48 << 10
        return 0, name

    def cuFuncSetAttribute(self, function, attribute, value):
        if attribute != 8 or value > self.most:
            return (SimpleNamespace(name="CUDA_ERROR_INVALID_VALUE"),)
        self.limit[function] = value
        return (0,)

    def cuLaunchKernel(self, function, *arguments):
        if arguments[6] > self.limit[function]:
            return (SimpleNamespace(name="CUDA_ERROR_INVALID_VALUE"),)
        self.launched.append(function)
        return (0,)


def driver_of(cuda, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(driver=cuda))
    return driver.Driver()


def test_the_driver_is_asked_for_large_shared_memory(monkeypatch):
    launches = [Launch("small", 32, 48 << 10, 32, 1), Launch("large", 256, 96 << 10, 32, 1)]
    cuda = EmulatedCuda()
    api = driver_of(cuda, monkeypatch)
    for kernel, launch in zip(api.load(0, [""], launches), launches, strict=True):
        api.launch(0, 0, kernel, launch, 5, [1, 2])
    assert cuda.launched == [b"small", b"large"]
    assert cuda.limit == {b"small": 48 << 10, b"large": 96 << 10}
    with pytest.raises(fl.DeviceError, match="CUDA_ERROR_INVALID_VALUE in cuFuncSetAttribute"):
        driver_of(EmulatedCuda(64 << 10), monkeypatch).load(0, [""], launches)


# The assembler, where there is one


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize("warps", repeated([8, 4, 2]))
def test_ptxas_takes_the_text(warps, arm, tmp_path):
    path = tmp_path / "f.ptx"
    path.write_text(teams.kernels(arm, "f", np.dtype(F32), warps).texts[0])
    call = ["ptxas", "-arch=sm_90", "-v", str(path), "-o", str(tmp_path / "f.cubin")]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert " 0 bytes spill stores" in done.stderr
