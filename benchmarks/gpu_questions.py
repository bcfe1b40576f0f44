"""Questions on which the design of the kernels rests, asked to the GPU at hand by `gpu.py`.

1. How fast is straight-line code of 8 to 256 kB, with 1 to 16 warps a multiprocessor? Code that
   does not fit into the caches for instructions would bound long kernels.
2. What is the bandwidth of memory?
3. For how many states is a team of warps faster than one thread for a state?
4. What share of a function of several kernels does each of them take?
5. What does a launch cost, plain and in a CUDA graph, and how long does the driver compile?

How float64 of large robots does, and grid-rbd on the same GPU, are rows of the other parts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from gpu_card import Card, DeviceArray
from robots import States

from featherlane.api.model import Model
from featherlane.backends.cuda.calls import DeviceFunction
from featherlane.backends.cuda.kernel import Launch
from featherlane.backends.cuda.ptx import HEADER, WARP, Text, entry

Row = dict[str, Any]
Median = Callable[[Callable[[], object]], float]
SUMS = 8  # chains of multiply-adds of a thread
BLOCKS = 132 * 8
INSTRUCTION = 16  # bytes
# The most multiply-adds of straight-line code, 256 kB: twice the caches for instructions. ptxas
# 13.0 takes 3.8 s of processor time for them, and 184 s for four times as many
LONGEST = 16_384


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


def code(gpu: Card, median: Median, most: int = LONGEST) -> Iterator[Row]:
    """Multiply-adds a second, by the length of the code and the warps of a block."""
    numbers = DeviceArray(gpu, np.ones(BLOCKS * 512, np.float32))
    count = 512
    while count <= most:
        (kernel,) = gpu.api.load(0, (straight_line(count),), (Launch("f", WARP, 0, WARP, 1),))
        for warps in (1, 2, 4, 8, 16):
            blocks = 2 if gpu.emulated else BLOCKS
            launch = Launch("f", WARP * warps, 0, 1, 1)

            values = [numbers.address]
            run = partial(gpu.api.launch, 0, gpu.stream, kernel, launch, blocks, values)
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
    gpu.ask("cuMemcpyDtoDAsync", second, first, size, gpu.stream)
    seconds = gpu.seconds(lambda: gpu.ask("cuMemcpyDtoDAsync", second, first, size, gpu.stream), 10)
    for address in (first, second):
        gpu.api.free(0, address)
    return 2 * size / seconds


class Call:
    """A function of a robot in float32 by one mapping, on arrays that stay on the GPU."""

    def __init__(self, gpu: Card, model: Model, name: str, mapping: str, batch: int) -> None:
        self.function = model.function(name, mapping=mapping)
        states = States.random(model, batch).inputs(model, name, "float32")
        self.given = [DeviceArray(gpu, x) for x in states]
        shapes = [(batch, *core) for core in self.function.outputs.values()]
        self.out = [DeviceArray(gpu, np.zeros(shape, np.float32)) for shape in shapes]
        self.results = self.out if len(self.out) > 1 else self.out[0]

    def run(self) -> None:
        self.function(*self.given, out=self.results)

    def free(self) -> None:
        for x in (*self.given, *self.out):
            x.free()


def mappings(gpu: Card, models: Sequence[Model], median: Median) -> Iterator[Row]:
    """One thread for a state, and teams, for the derivatives of each robot."""
    for model in models:
        for batch in (16,) if gpu.emulated else (1, 256, 4096, 16_384, 65_536):
            for mapping in ("lanes", "team:4", "team:8")[: 2 if gpu.emulated else 3]:
                call = Call(gpu, model, "inverse_dynamics_derivatives", mapping, batch)
                call.run()
                seconds = median(call.run)
                call.free()
                yield {
                    "question": f"mapping {mapping}",
                    "robot": model.name,
                    "batch": batch,
                    "seconds": seconds,
                    "states_per_second": batch / seconds,
                }


def parts(gpu: Card, models: Sequence[Model], median: Median) -> Iterator[Row]:
    """The kernels of derivatives of forward dynamics, each alone, on numbers that mean nothing."""
    batch = 32 if gpu.emulated else 4096
    for model in models:
        made = _device_function(model, "forward_dynamics_derivatives").kernels("lanes")
        rows = [4 * math.prod(s) for s in (*made.inputs.values(), *made.outputs.values())]
        addresses = [gpu.api.allocate(0, max(row * batch, 16)) for row in rows]
        scratch = gpu.api.allocate(0, max(4 * made.slots * batch, 16))
        values = [y for pair in zip(addresses, rows, strict=True) for y in pair]
        values += [scratch, batch]
        loaded = gpu.api.load(0, made.texts, made.launches)
        for kernel, launch in zip(loaded, made.launches, strict=True):
            work = partial(gpu.api.launch, 0, gpu.stream, kernel, launch, batch, values)
            yield {
                "question": f"kernel {launch.kernel}",
                "robot": model.name,
                "batch": batch,
                "seconds": float("nan") if gpu.emulated else median(work),
            }
        for address in (*addresses, scratch):
            gpu.api.free(0, address)


def _device_function(model: Model, name: str) -> DeviceFunction:
    return model.function(name).on_gpu(np.dtype(np.float32))


def launches(gpu: Card, model: Model, median: Median) -> Iterator[Row]:
    """A call that has next to nothing to do: of the driver alone, of ours, and in a CUDA graph."""
    call = Call(gpu, model, "inverse_dynamics", "lanes", 1)
    call.run()
    begin = time.perf_counter()
    for _ in range(100):
        call.run()
    host = (time.perf_counter() - begin) / 100
    gpu.wait()
    yield {"question": "a call, on the CPU", "seconds": host}
    yield {"question": "a call, on the GPU", "seconds": median(call.run)}
    with gpu.graph(call.run) as replay:
        yield {"question": "a call in a CUDA graph", "seconds": median(replay)}
    call.free()


def compiling(gpu: Card, models: Sequence[Model]) -> Iterator[Row]:
    """Seconds of the driver's compiler for all kernels of a function, by threads."""
    for model in models:
        for name in ("inverse_dynamics", "forward_dynamics_derivatives"):
            made = _device_function(model, name).kernels("lanes")
            begin = time.perf_counter()
            gpu.api.load(0, made.texts, made.launches)
            seconds = time.perf_counter() - begin
            told = f"compiling {name}, {len(made.texts)} texts"
            yield {"question": told, "robot": model.name, "seconds": seconds}


def answers(gpu: Card, models: Sequence[Model], median: Median) -> Iterator[Row]:
    """All answers. models: a small robot first, then large ones."""
    yield {"question": "memory", "bytes_per_second": bandwidth(gpu)}
    yield from code(gpu, median, 2048 if gpu.emulated else LONGEST)
    yield from launches(gpu, models[0], median)
    yield from compiling(gpu, models)
    yield from mappings(gpu, models[-1:], median)
    yield from parts(gpu, models[-1:], median)
