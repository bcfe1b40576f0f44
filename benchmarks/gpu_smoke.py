"""Does anything work on this GPU: its driver, memory, kernels of each form, graphs, one call?

Parts of `gpu.py --smoke`, each a process of its own, so that what fails names itself.
"""

from __future__ import annotations

import datetime
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata

import numpy as np
from gpu_card import NAN, Card, DeviceArray
from gpu_cells import DIFFERENT, LEFT_OUT, SAME, Bench, Cell, Row
from gpu_packed import Facts, Resident

import featherlane as fl

PACKAGES = (
    "numpy",
    "llvmlite",
    "lxml",
    "cuda-bindings",
    "cuda-core",
    "torch",
    "cupy-cuda13x",
    "jax",
)
TOOLS = ("nvcc", "ncu", "compute-sanitizer")
BATCHES = (1, 33, 37, 65_536)
IN_EMULATOR = (1, 37)  # the second is a warp and a part of one
PITCH = 3  # numbers between two rows: no multiple of 16 bytes


def versions(bench: Bench) -> Iterator[Cell]:
    """What is installed."""
    yield Cell({"question": "date"}, lambda: {"value": datetime.date.today().isoformat()})
    yield Cell({"question": "version of featherlane"}, lambda: {"value": fl.__version__})
    yield Cell({"question": "version of Python"}, lambda: {"value": platform.python_version()})
    for package in PACKAGES:
        yield Cell({"question": f"version of {package}"}, partial(_version, package))
    for tool in TOOLS:
        place = shutil.which(tool) or f"{LEFT_OUT}, {tool} is not found"
        yield Cell({"question": f"place of {tool}"}, partial(dict, value=place))


def _version(package: str) -> Row:
    try:
        return {"value": metadata.version(package)}
    except metadata.PackageNotFoundError:
        return {"value": f"{LEFT_OUT}, {package} is not installed"}


def device(bench: Bench) -> Iterator[Cell]:
    """The device, its memory, a copy there and back, an event."""
    gpu = bench.gpu
    told: dict[str, Callable[[], object]] = {"name": lambda: gpu.name}
    if not gpu.emulated:
        told |= {
            "driver": lambda: gpu.ask("cuDriverGetVersion"),
            "compute capability": lambda: ".".join(
                str(gpu.attribute(f"COMPUTE_CAPABILITY_{x}")) for x in ("MAJOR", "MINOR")
            ),
            "multiprocessors": lambda: gpu.attribute("MULTIPROCESSOR_COUNT"),
            "clock, kHz": lambda: gpu.attribute("CLOCK_RATE"),
            "L2, bytes": lambda: gpu.attribute("L2_CACHE_SIZE"),
            "memory free and in all, bytes": lambda: gpu.ask("cuMemGetInfo"),
        }
    for name, ask in told.items():
        yield Cell({"question": f"device: {name}"}, lambda ask=ask: {"value": str(ask())})
    yield Cell({"question": "a copy there and back"}, partial(_copied, gpu))
    yield Cell({"question": "memory set to a byte"}, partial(_filled, gpu))
    yield Cell({"question": "1 MB set, by events"}, partial(_event, gpu))


def _copied(gpu: Card) -> Row:
    data = np.random.default_rng(0).normal(size=100_003)
    array = DeviceArray.of(gpu, data)
    same = np.array_equal(array.numpy(), data)
    array.free()
    return {"value": SAME if same else DIFFERENT}


def _filled(gpu: Card) -> Row:
    array = DeviceArray(gpu, (100_003,), np.uint8)
    same = bool((array.numpy() == NAN).all())
    array.free()
    return {"value": SAME if same else DIFFERENT}


def _event(gpu: Card) -> Row:
    array = DeviceArray(gpu, (1 << 20,), np.uint8)
    seconds = gpu.seconds(lambda: gpu.fill(array.address, array.nbytes), 10)
    array.free()
    return {"seconds": seconds}


def form(name: str, bench: Bench) -> Iterator[Cell]:
    """Kernels of a form: all bits of the CPU's results, for single states, parts of warps, many."""
    for facts in bench.files(name):
        for batch in IN_EMULATOR if bench.gpu.emulated else BATCHES:
            yield Cell({**facts.row, "batch": batch}, partial(compared, bench, facts, batch))


def compared(bench: Bench, facts: Facts, batch: int) -> Row:
    """Whether results have the CPU's bits; of a first call also what its kernels take."""
    packed, function = bench.loaded(facts)
    figures = Row()
    if facts.file not in bench.scratch:
        figures = bench.scratch[facts.file] = compiled(bench, facts)
    pitch = PITCH if facts.form == "pitch" else 0
    with Resident(bench.gpu, packed, function, batch, pitch) as resident:
        resident.run()
        told = resident.difference()
    return {"value": f"{DIFFERENT}: {told}" if told else SAME, **figures}


def compiled(bench: Bench, facts: Facts) -> Row:
    """What the kernels of a function take: the driver's time, and the most of a thread."""
    kernels = bench.loaded(facts)[0].kernels
    begin = time.perf_counter()
    with bench.gpu.loaded(kernels) as loaded:
        seconds = time.perf_counter() - begin
        each = [bench.gpu.resources(kernel) for kernel in loaded]
    most = {x: max(y[x] for y in each) for x in each[0]}
    return {"compiled_seconds": seconds, "kernels": len(each), **most}


def graph(bench: Bench) -> Iterator[Cell]:
    """A function is captured in a CUDA graph, without and with scratch memory."""
    for facts in (*bench.files("lanes"), *bench.files("scratch")):
        yield Cell(
            {**facts.row, "batch": 37, "question": "captured"}, partial(_graph, bench, facts)
        )


def _graph(bench: Bench, facts: Facts) -> Row:
    with bench.resident(facts, 37) as resident:
        resident.run()
        for x in resident.results:
            bench.gpu.fill(x.address, x.nbytes)
        with bench.gpu.graph(resident.run) as replay:
            replay()
        told = resident.difference()
    return {"value": f"{DIFFERENT}: {told}" if told else SAME}


def one_call(bench: Bench) -> Iterator[Cell]:
    """The time of a call of one state, through Python and replayed."""
    for facts in bench.files("lanes"):
        yield Cell({**facts.row, "batch": 1}, partial(one_call_of, bench, facts, 1))


def one_call_of(bench: Bench, facts: Facts, batch: int) -> Row:
    """Seconds of a call that is replayed as a CUDA graph, and that Python makes."""
    with bench.resident(facts, batch) as resident:
        seconds = bench.gpu.launched(resident.run)
        return {"seconds": seconds, "plain_seconds": bench.gpu.median(resident.run)}
