"""Kernels for other processors: that they can be made, and that they give the same bits."""

import re
import struct
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from repetition import full, repeated
from test_backend import DTYPES, result_of, same_bits, triples

import featherlane as fl
from featherlane.backends import reference
from featherlane.backends.cpu import scratch
from featherlane.backends.cpu.addresses import with_table
from featherlane.backends.cpu.graphs import kernel as cpu
from featherlane.backends.cpu.graphs.stream import STREAM
from featherlane.backends.llvm.targets import TARGETS, host, host_target, machine_code, runs_here
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.program.graph import Graph, Output
from featherlane.program.lower import lower
from featherlane.program.program import Program

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from object_file import assembly, object_code, standalone
from processors_cases import case, filled, jobs, long_case
from processors_run import EMULATED, Emulated, InProcess, Job, Kernel, held

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
targets = pytest.mark.parametrize("target", TARGETS.values(), ids=lambda t: t.name)
X86_64, AARCH64 = 62, 183  # in the heads of ELF files
LIBRARY = {"malloc", "free", "memcpy", "fma", "fmaf", "rint", "rintf", "_GLOBAL_OFFSET_TABLE_"}


@cache
def program(name, dtype):
    return lower(dynamics_program(fl.load("iiwa14"), Variant(name)), "cpu", np.dtype(dtype))


# What processors are


@pytest.mark.parametrize(
    ("triple", "has", "bits", "fused"),
    [
        ("x86_64-unknown-linux-gnu", {"sse2": True}, 128, False),
        ("x86_64-unknown-linux-gnu", {"avx": True, "fma": False}, 256, False),
        ("x86_64-unknown-linux-gnu", {"avx": True, "fma4": True}, 256, True),
        ("x86_64-pc-windows-msvc", {"avx": True, "fma": True, "avx512f": True}, 256, True),
        (
            "x86_64-apple-darwin22",
            {"avx": True, "fma": True, "avx512f": True, "avx512vl": True},
            512,
            True,
        ),
        ("aarch64-unknown-linux-gnu", {"neon": True, "sve": True}, 128, True),
        ("arm64-apple-darwin23", {}, 128, True),
    ],
)
def test_vectors_of_processors(triple, has, bits, fused):
    found = host_target(triple, "generic", has)
    assert (found.bits, found.fused) == (bits, fused)
    assert [found.widest(np.dtype(d)) for d in DTYPES] == [bits // 64, bits // 32]
    assert ("prefer-256-bit" in found.features) == (bits == 512)


def test_this_processor_runs_its_own_code():
    assert runs_here(host())
    assert not all(runs_here(target) for target in TARGETS.values())  # x86 and Arm are among them
    assert not runs_here(TARGETS["avx2"]._replace(needs=("hyperdrive",)))


# Objects


def symbols(image):
    """Of a 64-bit ELF file: its type, its machine, the names that it defines for others, and those
    that it wants from others.
    """
    assert image[:6] == b"\x7fELF\x02\x01"
    kind, machine = struct.unpack_from("<HH", image, 16)
    (table,), (size, count) = (
        struct.unpack_from("<Q", image, 40),
        struct.unpack_from("<HH", image, 58),
    )
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + k * size) for k in range(count)]
    (symtab,) = [s for s in sections if s[1] == 2]
    names = sections[symtab[6]][4]
    defined, wanted = set(), set()
    for at in range(symtab[4], symtab[4] + symtab[5], 24):
        name, info, _, section = struct.unpack_from("<IBBH", image, at)
        text = image[names + name : image.index(b"\0", names + name)].decode()
        if info >> 4 and text:  # not local
            (defined if section else wanted).add(text)
    return kind, machine, defined, wanted


@targets
@dtypes
@pytest.mark.parametrize("name", ["inverse_dynamics", "mass_matrix"])
def test_objects_need_no_python(target, dtype, name):
    image = object_code(program(name, dtype), np.dtype(dtype), target, name="arm_loop")
    kind, machine, defined, wanted = symbols(image)
    assert kind == 1  # to be linked
    assert machine == (X86_64 if target.x86 else AARCH64)
    assert {"arm_loop"} <= defined <= {"arm_loop", "arm_loop_scratch_failures"}
    assert wanted <= LIBRARY
    assert bool(wanted - {"malloc", "free"}) == (not target.fused)


@targets
def test_large_memory_is_the_c_librarys(monkeypatch, target):
    """As for a robot whose values do not fit on the stack of a thread."""
    monkeypatch.setattr(scratch, "ON_STACK", 0)
    small = case("iiwa14", "inverse_dynamics", np.float32)
    kernel = small.kernel(target.widest(small.dtype))
    *_, wanted = symbols(standalone(kernel.text, target))
    assert {"malloc", "free"} <= wanted <= LIBRARY
    if not InProcess.missing(target):
        job = small.job(0)
        InProcess(target, [kernel]).run([job])
        assert not small.wrong(job)


def test_other_systems():
    """An Arm Mac and Windows: objects are made, though nothing runs them here."""
    text = with_table(cpu.source(program("inverse_dynamics", np.float64), np.dtype(float), 2))
    mac = machine_code(text, host_target("arm64-apple-darwin23", "apple-m1", {}))
    assert mac[:4] == b"\xcf\xfa\xed\xfe"
    windows = machine_code(text, host_target("x86_64-pc-windows-msvc", "x86-64", {}))
    assert windows[:2] == b"\x64\x86"


@dtypes
def test_old_processors_get_old_instructions(dtype):
    """Those of AVX begin with v; and fused multiply-adds are calls only of our own function."""
    text = cpu.source(program("inverse_dynamics", dtype), np.dtype(dtype), 16 // dtype().itemsize)
    old, new = (assembly(text, TARGETS[name]) for name in ("sse2", "avx2"))
    newer = re.compile(r"^\tv[a-z]|[yz]mm", re.MULTILINE)
    assert not newer.search(old)
    assert newer.search(new)
    assert "vfmadd" in new
    assert "fused_" not in new
    block = old[old.index("\nstep0.block0:") : old.index(".size\tstep0.block0")]
    assert set(re.findall(r"call\w*\s+([\w@]+)", block)) <= {
        f"fused_{16 // dtype().itemsize}_{8 * dtype().itemsize}",
        "rint@PLT" if dtype is np.float64 else "rintf@PLT",
    }


def test_straight_line_code_stays_in_blocks_on_arm():
    """In one, LLVM's time grows with the square of the length, and values are moved more often."""
    ir = cpu.source(program("forward_dynamics_derivatives", np.float64), np.dtype(float), 2)
    text = assembly(ir, TARGETS["neon"])
    blocks = text[text.index("\nstep0.block0:") : text.index("\ncompute:")]
    # but for one at the end of a function, behind which is nothing
    cuts = len(re.findall(r"next \d+\n\w+:\n(?!br label %leave)", ir))
    assert cuts > 20
    assert len(re.findall(r"^\t(b\.eq|cbz)\t", blocks, re.MULTILINE)) == cuts


# Fused multiply-adds without an instruction


def close_calls(dtype, count=20000):
    """Products that a sum cancels up to a few last digits, and sums of any size."""
    rng, eps = np.random.default_rng(5), np.finfo(dtype).eps
    x = (rng.normal(size=(count, 3)) * np.exp2(rng.integers(-60, 60, (count, 3)))).astype(dtype)
    half = x[: count // 2]
    half[:, 2] = -half[:, 0] * half[:, 1] * (1 + rng.integers(-3, 4, len(half)) * dtype(eps))
    halves = rng.integers(-8, 9, (count // 4, 3)) * np.exp2(rng.integers(-60, 60, (count // 4, 3)))
    return np.concatenate([triples(dtype), x, halves.astype(dtype)])


SOFTWARE = ("fma", "round", "power_of_two", "exponent", "copysign", "less_equal")


@pytest.mark.parametrize("ops", [SOFTWARE, ("quarter",)], ids=["", "quarter"])
@dtypes
@pytest.mark.skipif(not runs_here(TARGETS["sse2"]), reason="this processor is no x86")
def test_emulated_operations(ops, dtype):
    x = close_calls(dtype)
    if "quarter" in ops:
        x = x[np.abs(x[:, 0]) < 2.0**20]
    graph = Graph()
    given = graph.declare("x", (3,))
    results = tuple(result_of(graph, op, *given) for op in ops)
    graph.outputs["out"] = Output((len(ops),), results)
    made = lower(Program(graph), "cpu", dtype)
    wanted = reference.evaluate(made, {"x": x}, dtype)["out"]
    widths = (1, 2, 4, 8, 16)
    kernels = [Kernel(cpu.source(made, np.dtype(dtype), width)) for width in widths]
    runner = InProcess(TARGETS["sse2"], kernels)
    for k in range(len(widths)):
        job = Job(k, len(x), (filled(x, "dense"),), (held(wanted.shape, dtype),))
        runner.run([job])
        same_bits(job.outputs[0].view, wanted)


# The same bits everywhere


CASES = [
    *(partial(case, "iiwa14", name, dtype) for name in FUNCTIONS for dtype in DTYPES),
    partial(case, "hyq, free root", "inverse_dynamics", np.float32),
    partial(case, "hyq, free root", "mass_matrix_inverse", np.float64),
    partial(case, "every joint type", "forward_dynamics", np.float32),
    partial(long_case, "inverse_dynamics", np.float64),
    partial(long_case, "forward_dynamics", np.float32),
]
steps = pytest.mark.parametrize("step", repeated([10, 1]))  # every run tries each tenth case


@cache
def made(number):
    return CASES[number]()


def cases(step=1):
    """All functions of an arm; of larger robots some; long robots as recorded calls."""
    return [made(number) for number in range(0, len(CASES), step)]


def check(make, target, over):
    """Whether a runner of kernels for a target gives the results of all cases."""
    runner, asked = (
        make([each.kernel(target.widest(each.dtype)) for each in over]),
        list(jobs(over)),
    )
    runner.run([job for _, job in asked])
    bad = [(case.title, case.name, case.dtype, job.states, case.wrong(job)) for case, job in asked]
    assert not [each for each in bad if each[-1]]
    return runner


@full
@steps
def test_given_states_give_numbers(step):
    """And not only NaN, which would hide what differs."""
    for each in cases(step):
        for x in each.wanted:
            finite = np.isfinite(x).reshape(len(x), -1).all(axis=1)
            assert finite.sum() >= len(x) // 2
            assert np.count_nonzero(x)


@steps
@targets
def test_same_bits_in_this_process(target, step):
    if reason := InProcess.missing(target):
        pytest.skip(reason)
    check(partial(InProcess, target), target, cases(step))


@pytest.mark.parametrize(
    ("name", "step"), repeated([("neon", 10), ("sse2", 5), ("neon", 1), ("sse2", 3)])
)
def test_same_bits_emulated(name, step):
    """In a program for another processor; SSE2 on one that truly has nothing else."""
    if reason := EMULATED[name].missing():
        pytest.skip(reason)
    runner = check(partial(Emulated, EMULATED[name]), EMULATED[name].target, cases(step))
    job = made(0).job(0)
    short = job._replace(
        outputs=tuple(held((1, *x.view.shape[1:]), x.view.dtype) for x in job.outputs)
    )
    with pytest.raises(subprocess.CalledProcessError) as stopped:  # it watches what loops write
        runner.run([short])
    assert stopped.value.returncode == 3


@pytest.mark.parametrize("name", ["avx512", "avx2", "sse2", "neon"])
def test_results_larger_than_caches(name):
    """Their stores go past the caches, if rows are whole vectors."""
    target = TARGETS[name]
    small = case("double pendulum, free root", "mass_matrix", np.float64)
    many = np.arange(13000) % len(small.given[0])
    large = small._replace(
        given=[x[many] for x in small.given], wanted=[x[many] for x in small.wanted]
    )
    assert large.wanted[0].nbytes > STREAM
    kernel, job = large.kernel(target.widest(large.dtype)), large.job(0, len(many))
    if not InProcess.missing(target):
        InProcess(target, [kernel]).run([job])
    elif name in EMULATED and not EMULATED[name].missing():
        Emulated(EMULATED[name], [kernel]).run([job])
    else:
        assert standalone(kernel.text, target)
        pytest.skip(f"made, but nothing runs {name} here")
    assert not large.wrong(job)
