"""Questions on which the design of the kernels rests, asked to the GPU at hand by `gpu.py`.

1. How fast is straight-line code of 8 to 256 kB, with 1 to 16 warps a multiprocessor? Code that
   does not fit into the caches for instructions would bound long kernels.
2. What is the bandwidth of memory?
3. What share of a function of several kernels does each of them take?
4. What does a launch cost, plain and in a CUDA graph?

How long the driver compiles, for how many states teams are faster, how float64 of large robots
does, and grid-rbd on the same GPU, are rows of the other parts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np
from gpu_card import Card, DeviceArray
from gpu_cells import Bench, Cell, Row
from gpu_packed import Facts, Resident

from featherlane.backends.cuda.kernel_stage import Launch
from featherlane.backends.cuda.ptx import HEADER, WARP, Text, entry
from featherlane.backends.cuda.stages import GpuKernels

SUMS = 8  # chains of multiply-adds of a thread
BLOCKS = 132 * 8
INSTRUCTION = 16  # bytes
# The most multiply-adds of straight-line code, 256 kB: twice the caches for instructions. ptxas
# 13.0 takes 3.8 s of processor time for them, and 184 s for four times as many
LONGEST = 16_384
IN_CACHE = 1024  # so many fit into any cache for instructions
WARPS = (1, 2, 4, 8, 16)  # of a block
COPIED = 1 << 30  # bytes whose copy gives the bandwidth of memory
ALONE = 4096  # states of kernels that are timed one by one


def answers(bench: Bench) -> Iterator[Cell]:
    """All questions."""
    yield Cell(
        {"question": "bandwidth of memory"}, lambda: {"bytes_per_second": bandwidth(bench.gpu)}
    )
    for count in lengths(bench.gpu.emulated):
        told = {"question": "straight-line code", "code_kB": count * INSTRUCTION / 1024}
        yield Cell(told, partial(_code, bench.gpu, count))
    for facts in bench.files("pitch"):
        yield Cell({**facts.row, "batch": 1}, partial(_call, bench, facts))
    for facts in bench.files(form="", dtypes=("float32",)):
        if facts.function == "forward_dynamics_derivatives" and facts.mapping == "lanes":
            batch = 33 if bench.gpu.emulated else ALONE
            yield Cell({**facts.row, "batch": batch}, partial(_kernels, bench, facts, batch))


def lengths(emulated: bool) -> list[int]:
    """Multiply-adds of straight-line code."""
    shortest = 512
    powers = range((LONGEST // shortest).bit_length())
    return [shortest << k for k in powers][: 1 if emulated else None]


def straight_line(count: int) -> str:
    """A kernel of so many multiply-adds, without a loop."""
    text = Text(np.dtype(np.float32))
    block, lane = text.set("r", "mov.u32", "%ctaid.x"), text.set("r", "mov.u32", "%tid.x")
    thread = text.set("r", "mad.lo.u32", block, 512, lane)
    base = text.set("w", "ld.param.u64", "[a]")
    at = text.set("w", "mad.wide.u32", thread, 4, base)
    x = text.set("f", "ld.global.f32", f"[{at}+0]")
    sums = [x] * SUMS
    for k in range(count):
        sums[k % SUMS] = text.set("f", "fma.rn.f32", sums[k % SUMS], x, text.number(0.5 + k))
    for y in sums[1:]:
        sums[0] = text.set("f", "add.rn.f32", sums[0], y)
    text.do(f"st.global.f32 [{at}+0], {sums[0]}")
    text.do("ret")
    return "\n".join([*HEADER, *entry("f", [("u64", "a")], text), ""])


def _code(gpu: Card, count: int) -> Iterator[Row]:
    """Multiply-adds a second, by the warps of a block."""
    numbers = DeviceArray.of(gpu, np.ones(BLOCKS * 512, np.float32))
    launch = Launch("f", WARP, 0, 1, 1)
    begin = time.perf_counter()
    with gpu.loaded(GpuKernels((straight_line(count),), (launch,), {}, {}, 0)) as (kernel,):
        compiled = time.perf_counter() - begin
        blocks = 2 if gpu.emulated else BLOCKS
        for warps in WARPS:
            each = launch._replace(threads=WARP * warps)
            run = partial(gpu.api.launch, 0, gpu.stream, kernel, each, blocks, [numbers.address])
            seconds = gpu.launched(run)
            yield {
                "warps": warps,
                "seconds": seconds,
                "operations_per_second": count * WARP * warps * blocks / seconds,
                "compiled_seconds": compiled,
            }
    numbers.free()


def arithmetic(gpu: Card) -> float:
    """The most float32 instructions a second that threads execute, of code in the caches."""
    return max(x["operations_per_second"] for x in _code(gpu, IN_CACHE))


def bandwidth(gpu: Card) -> float:
    """Bytes a second that a copy inside of the GPU reads and writes."""
    if gpu.emulated:
        return float("nan")
    first, second = gpu.api.allocate(0, COPIED), gpu.api.allocate(0, COPIED)
    gpu.fill(first, COPIED, 0)
    copy = ("cuMemcpyDtoDAsync", second, first, COPIED, gpu.stream)
    seconds = gpu.median(lambda: gpu.ask(*copy))
    for address in (first, second):
        gpu.api.free(0, address)
    return 2 * COPIED / seconds


def _call(bench: Bench, facts: Facts) -> Iterator[Row]:
    """A call that has next to nothing to do: of Python, of the GPU, and in a CUDA graph."""
    with bench.resident(facts, 1) as resident:
        resident.run()
        calls = 1 if bench.gpu.emulated else 100
        begin = time.perf_counter()
        for _ in range(calls):
            resident.run()
        host = (time.perf_counter() - begin) / calls
        bench.gpu.wait()
        yield {"question": "a call, on the CPU", "seconds": host}
        yield {"question": "a call, on the GPU", "seconds": bench.gpu.median(resident.run)}
        replayed = bench.gpu.launched(resident.run)
        yield {"question": "a call in a CUDA graph", "seconds": replayed}


def _kernels(bench: Bench, facts: Facts, batch: int) -> Iterator[Row]:
    """The kernels of a function, each alone on the numbers that it has in a call."""
    gpu = bench.gpu
    kernels = bench.loaded(facts)[0].kernels
    with ExitStack() as stack:
        resident = stack.enter_context(bench.resident(facts, batch))
        address = stack.enter_context(_scratch(resident))
        loaded = stack.enter_context(gpu.loaded(kernels))
        values = [y for row in resident.rows for y in row] + [address, batch]
        launch = partial(gpu.api.launch, 0, gpu.stream)
        works = [
            partial(launch, kernel, each, batch, [*values, *each.arguments])
            for kernel, each in zip(loaded, kernels.launches, strict=True)
        ]
        for work in works:
            work()
        for work, each in zip(works, kernels.launches, strict=True):
            told = f"kernel {each.kernel}, {each.columns} columns"
            yield {"question": told, "seconds": gpu.launched(work)}


@contextmanager
def _scratch(resident: Resident) -> Iterator[int]:
    """The address of scratch memory for the states of a function."""
    packed, api = resident.packed, resident.card.api
    groups = -(-resident.batch // WARP)
    size = groups * WARP * packed.kernels.slots * packed.dtype.itemsize
    address = api.allocate(0, max(size, 16))
    try:
        yield address
    finally:
        api.free(0, address)
