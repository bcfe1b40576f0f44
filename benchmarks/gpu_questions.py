"""Questions on which the design of the kernels rests, asked to the GPU at hand by `gpu.py`.

1. How fast is straight-line code of 8 kB to 1 MB, with 1 to 16 warps a multiprocessor? Code that
   does not fit into the caches for instructions would bound long kernels.
2. What is the bandwidth of memory?
3. For how many states is a team of warps faster than one thread for a state?
4. What share of a function of several kernels does each of them take?
5. What does a launch cost, plain and in a CUDA graph, and how long does the driver compile?

How float64 of large robots does, and grid-rbd on the same GPU, are rows of the other parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gpu_card import Card, DeviceArray
from robots import States

from featherlane.backends.cuda.calls import DeviceFunction, Rows
from featherlane.backends.cuda.kernel import Launch
from featherlane.backends.cuda.ptx import HEADER, WARP, Text, entry
from featherlane.functions.on_device import is_on_device

Row = dict[str, Any]
Median = Callable[[Callable[[], object]], float]
SUMS = 8  # chains of multiply-adds of a thread
BLOCKS = 132 * 8
INSTRUCTION = 16  # bytes


def straight_line(count: int) -> str:
    """A kernel of so many multiply-adds, without a loop."""
    text = Text(np.dtype(np.float32))
    thread = text.set("r", "mad.lo.u32", text.set("r", "mov.u32", "%ctaid.x"), 512, "%tid.x")
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


def code(gpu: Card, median: Median, most: int = 1 << 16) -> Iterator[Row]:
    """Multiply-adds a second, by the length of the code and the warps of a block."""
    numbers = DeviceArray(gpu, np.ones(BLOCKS * 512, np.float32))
    count = 512
    while count <= most:
        (kernel,) = gpu.api.load(0, (straight_line(count),), (Launch("f", WARP, 0, WARP, 1),))
        for warps in (1, 2, 4, 8, 16):
            blocks = 2 if gpu.emulated else BLOCKS
            launch = Launch("f", WARP * warps, 0, 1, 1)

            def run(k: Any = kernel, launch: Launch = launch, blocks: int = blocks) -> None:
                gpu.api.launch(0, gpu.stream, k, launch, blocks, [numbers.address])

            done = count * WARP * warps * blocks
            seconds = median(run)
            yield {
                "question": "straight-line code",
                "code_kB": count * INSTRUCTION / 1024,
                "warps": warps,
                "seconds": seconds,
                "operations_per_second": done / seconds,
            }
        count *= 4 if gpu.emulated else 2
    numbers.free()


def arithmetic(gpu: Card) -> float:
    """The most float32 operations a second, of code that fits into the caches."""
    if gpu.emulated:
        return float("nan")
    return max(x["operations_per_second"] for x in code(gpu, lambda f: gpu.seconds(f, 20), 1024))


def bandwidth(gpu: Card) -> float:
    """Bytes a second that a copy inside of the GPU reads and writes."""
    if gpu.emulated:
        return float("nan")
    size = 1 << 30
    first, second = gpu.api.allocate(0, size), gpu.api.allocate(0, size)
    seconds = gpu.seconds(lambda: gpu.ask("cuMemcpyDtoDAsync", second, first, size, gpu.stream), 10)
    for address in (first, second):
        gpu.api.free(0, address)
    return 2 * size / seconds


class Kernels:
    """A function of a robot in float32 by one mapping, kernel by kernel."""

    def __init__(self, gpu: Card, model: Any, name: str, mapping: str, batch: int) -> None:
        self.gpu, self.batch = gpu, batch
        function = model.function(name, mapping=mapping)
        self.given = [
            DeviceArray(gpu, x) for x in States.random(model, batch).inputs(model, name, "float32")
        ]
        self.out = [
            DeviceArray(gpu, np.zeros((batch, *core), np.float32))
            for core in function.outputs.values()
        ]
        assert all(map(is_on_device, self.given))
        self.rows = [Rows(x.address, x.dtype.itemsize * x[0].size) for x in ()]
        self.function: DeviceFunction = function.on_gpu(np.dtype(np.float32))

    def free(self) -> None:
        for x in (*self.given, *self.out):
            x.free()


def answers(gpu: Card, median: Median) -> Iterator[Row]:
    yield {"question": "memory", "bytes_per_second": bandwidth(gpu)}
    yield from code(gpu, median, 2048 if gpu.emulated else 1 << 16)
    yield from compiling(gpu)
    yield from mappings(gpu, median)
