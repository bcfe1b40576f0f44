"""Kernels for GPUs of other vendors: translated, the same operations, and what LLVM makes of them.

None has run on such a device. What the translation means is tried on this processor: a device whose
threads are threads of this process, and whose barriers are those of Python.
"""

import ctypes
import json
import re
import shutil
import subprocess
import threading

import numpy as np
import pytest
from test_backend import dtypes, every_operation, same_bits
from test_cuda import made, random_inputs, robot_program

import featherlane as fl
from featherlane.backends import reference
from featherlane.backends.cuda.kernel_stage import Launch
from featherlane.backends.cuda.ptx import HEADER, WARP
from featherlane.backends.llvm import binding as llvm
from featherlane.backends.llvm import targets
from featherlane.backends.vendors import ir
from featherlane.backends.vendors.devices import DEVICES
from featherlane.backends.vendors.emit import code_of, emitted
from featherlane.program.lower import lower
from featherlane.program.program import Program

AMD = ("gfx90a", "gfx942")

# Kernels on this processor

HERE = ir.Dialect(
    convention="",
    memory="%memory",
    parameters=(
        "ptr addrspace(3) %memory",
        "ptr %warp",
        "ptr %block",
        *(f"i32 %{x}" for x in ("tid.x", "ctaid.x")),
    ),
    begin=(),
    barriers={"bar.warp.sync": ("call void %warp()",), "bar.sync": ("call void %block()",)},
    stack=0,
    declarations=(),
    attributes=lambda launch: "",
)
Wait = ctypes.CFUNCTYPE(None)


def run_block(address, arguments, launch, block):
    """All threads of a block, as threads of this process."""
    memory = np.full(launch.shared // 8 + 2, np.nan)
    types = [ctypes.c_uint64] * len(arguments) + [ctypes.c_void_p] * 3 + [ctypes.c_uint32] * 2
    kernel = ctypes.CFUNCTYPE(None, *types)(address)
    alive = launch.threads  # of a block: warps without states have left before any barrier
    warps = [threading.Barrier(WARP) for _ in range(alive // WARP)]
    whole = Wait(threading.Barrier(alive).wait)
    waits = [Wait(barrier.wait) for barrier in warps]

    def thread(t):
        wait = ctypes.cast(waits[t // WARP], ctypes.c_void_p)
        every = ctypes.cast(whole, ctypes.c_void_p)
        kernel(*arguments, memory.ctypes.data, wait, every, t, block)

    threads = [threading.Thread(target=thread, args=(t,)) for t in range(launch.threads)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def run_here(kernels, inputs, dtype):
    """The outputs of kernels on this processor, as `emulator.run` has them."""
    host = targets.host()
    targets.target_machine(host)  # sets LLVM up
    machine = llvm.Target.from_triple(host.triple).create_target_machine(
        cpu=host.cpu, features=host.features, opt=2, codemodel="large"
    )  # in a process with much in it, sections lie further apart than 2 GB
    text = ir.module(kernels.text, kernels.launches, HERE)
    engine = llvm.create_mcjit_compiler(targets.module_for(text, host, machine), machine)
    given = [np.ascontiguousarray(inputs[x], dtype) for x in kernels.inputs]
    count = len(given[0])
    found = {x: np.full((count, *s), np.nan, dtype) for x, s in kernels.outputs.items()}
    arrays = [*given, *found.values()]
    scratch = np.full(-(-count // WARP) * WARP * kernels.slots, np.nan, dtype)
    arguments = [y for x in arrays for y in (x.ctypes.data, x.nbytes // count)]
    for launch in kernels.launches:
        for block in range(launch.blocks(count)):
            address = engine.get_function_address(launch.kernel)
            run_block(address, [*arguments, scratch.ctypes.data, count], launch, block)
    return found


def compare(program, inputs, dtype):
    inputs = {name: np.asarray(x, dtype) for name, x in inputs.items()}
    found = run_here(made(program, dtype), inputs, dtype)
    wanted = reference.evaluate(lower(program, "cuda", dtype), inputs, dtype)
    for name, x in wanted.items():
        same_bits(found[name], np.broadcast_to(x, found[name].shape))


@pytest.mark.parametrize("quarter", [False, True], ids=["", "quarter"])
@dtypes
def test_every_operation_means_the_same(quarter, dtype):
    graph, x = every_operation(quarter, dtype)
    compare(Program(graph), {"x": x}, dtype)


@dtypes
def test_functions_of_robots_mean_the_same(dtype):
    """Whole and partial warps; a loop over the entries of a long output; columns."""
    small = robot_program(fl.load("double_pendulum"), "mass_matrix_inverse")
    compare(small, random_inputs(small.inputs, 33), dtype)
    arm = robot_program(fl.load("iiwa14"), "inverse_dynamics_derivatives")
    compare(arm, random_inputs(arm.inputs, 40), dtype)


def test_columns_mean_the_same():
    program = robot_program(fl.load("hyq"), "forward_dynamics_derivatives", "columns")
    assert program.functions
    compare(program, random_inputs(program.inputs, 5), np.float64)


# What LLVM makes of them


def arm(name, dtype):
    return made(robot_program(fl.load("iiwa14"), name), dtype)


def count(pattern, text):
    return len(re.findall(pattern, text))


@pytest.mark.parametrize("device", AMD)
@dtypes
def test_amd_has_the_operations_of_the_text(device, dtype):
    """As many products, sums and fused multiply-adds: nothing is contracted, nor computed twice."""
    kernels, f = arm("mass_matrix", dtype), f"f{8 * np.dtype(dtype).itemsize}"
    text = emitted(kernels, device, "assembly").decode()
    for own, amd in (("fma.rn", "(?:fma|fmac|fmaak|fmamk)"), ("mul.rn", "mul")):
        scalar = count(rf"\tv_{amd}_{f}(?:_e\d+)? ", text)
        pairs = count(rf"\tv_pk_{amd}_{f} ", text)
        assert scalar + 2 * pairs == count(rf"\n{re.escape(own)}\.{f} ", kernels.text)
    assert not count(r"\tv_(?:mad|mac|madak|madmk)_(?:legacy_)?f", text)


@pytest.mark.parametrize("device", AMD)
def test_amd_keeps_small_numbers_and_rounds_to_the_nearest(device):
    text = emitted(arm("forward_dynamics", np.float32), device, "assembly").decode()
    assert re.search(r"\.amdhsa_float_denorm_mode_32 3\b", text)
    assert re.search(r"\.amdhsa_float_denorm_mode_16_64 3\b", text)
    assert re.search(r"\.amdhsa_float_round_mode_32 0\b", text)
    assert count(r"\tv_div_fixup_f32 ", text) == arm("forward_dynamics", np.float32).text.count(
        "div.rn.f32"
    )
    assert "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0" not in text


@pytest.mark.parametrize("device", AMD)
def test_amd_object_files(device):
    image = emitted(arm("inverse_dynamics", np.float32), device, "object")
    assert image[:4] == b"\x7fELF"
    assert int.from_bytes(image[18:20], "little") == 224  # EM_AMDGPU
    assert b"f.kd\0" in image  # what launches a kernel


def words(image):
    return np.frombuffer(image, "<u4")


def instructions(image):
    """Codes and operands of the instructions of a SPIR-V module, behind its header."""
    all_words, at = words(image), 5
    while at < len(all_words):
        size = all_words[at] >> 16
        yield all_words[at] & 0xFFFF, all_words[at + 1 : at + size]
        at += int(size)
    assert at == len(all_words)


EXTENDED, ENTRY_POINT, EXECUTION_MODE, FMUL, BARRIER = 12, 15, 16, 133, 224
FMA = 26  # of OpenCL's extended instructions
CONTRACTION_OFF, SUBGROUP_SIZE = 31, 35


@dtypes
def test_spirv_has_the_operations_of_the_text(dtype):
    kernels = arm("mass_matrix", dtype)
    image = emitted(kernels, "spirv64", "object")
    assert words(image)[0] == 0x07230203
    found = list(instructions(image))
    codes = [code for code, _ in found]
    assert codes.count(ENTRY_POINT) == 1
    assert b"f\0" in b"".join(w.tobytes() for code, w in found if code == ENTRY_POINT)
    modes = {int(w[1]): list(w[2:]) for code, w in found if code == EXECUTION_MODE}
    assert CONTRACTION_OFF in modes
    assert modes[SUBGROUP_SIZE] == [WARP]
    f = f"f{8 * np.dtype(dtype).itemsize}"
    assert codes.count(FMUL) == kernels.text.count(f"mul.rn.{f}")
    fused = [1 for code, w in found if code == EXTENDED and w[3] == FMA]
    assert len(fused) == kernels.text.count(f"fma.rn.{f}")
    assert codes.count(BARRIER) == kernels.text.count("bar.warp.sync")


@pytest.mark.skipif(shutil.which("spirv-val") is None, reason="needs spirv-val (spirv-tools)")
@dtypes
def test_spirv_is_valid(dtype, tmp_path):
    for name in ("forward_dynamics_derivatives", "step"):
        path = tmp_path / "f.spv"
        path.write_bytes(emitted(arm(name, dtype), "spirv64", "object"))
        call = ["spirv-val", "--target-env", "opencl2.2", str(path)]
        done = subprocess.run(call, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


# Files


@pytest.mark.parametrize(
    ("device", "end", "begins"),
    [("gfx90a", "s", b"\t.amdgcn_target"), ("spirv64", "spv", b"\x03\x02\x23\x07")],
)
def test_generated_files(device, end, begins, tmp_path):
    model = fl.load("double_pendulum")
    files = fl.generate(model, tmp_path, ["mass_matrix"], target=device, dtype=np.float32)
    code, told = files
    assert [x.name for x in files] == [f"double_pendulum_mass_matrix.{x}" for x in (end, "json")]
    assert code.read_bytes().startswith(begins)
    facts = json.loads(told.read_text())
    assert facts["device"] == device
    assert facts["launches"][0]["kernel"].encode() in code.read_bytes()
    own = 2 * 2 + 2 + (device == "spirv64")  # shared memory is a parameter there
    assert len(facts["parameters"]) == own


# What is refused


def one_line(line):
    text = f"{HEADER[0]}\n.visible .entry f(\n.param .u64 a\n)\n{{\n.reg .f32 %f<2>;\n{line}\n}}\n"
    return ir.module(text, [Launch("f", 32, 0, 32, 1)], HERE)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sin.approx.f32 %f0, %f1;", "no instruction that is known here: sin"),
        ("bar.red.u32 0;", "no barrier that is known here: bar.red"),
        ("whatever", "no PTX that is known here: whatever"),
    ],
)
def test_unknown_lines_are_refused(line, message):
    with pytest.raises(fl.CompileError, match=message):
        one_line(line)


SINE = """
declare double @llvm.sin.f64(double)
define amdgpu_kernel void @f(double %x, ptr addrspace(1) %to) {
  %y = call double @llvm.sin.f64(double %x)
  store double %y, ptr addrspace(1) %to
  ret void
}
"""


@pytest.mark.parametrize(
    ("text", "message"), [(SINE, "LLVM ERROR"), ("what", "expected top-level entity")]
)
def test_what_llvm_has_no_code_for(text, message):
    """LLVM ends its process at the first text, and does not read the second."""
    with pytest.raises(fl.CompileError, match=f"LLVM makes no code for gfx90a: .*{message}"):
        code_of(text, DEVICES["gfx90a"][0], "object")
