"""Parts of `gpu.py`: bits, compile times, rates, latencies and copies of packed functions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import product

import gpu_questions
import numpy as np
from gpu_card import REPLAYED
from gpu_cells import BEYOND_CACHE, Bench, Cell, Row, asked
from gpu_pack import DTYPES
from gpu_packed import Facts
from gpu_smoke import IN_EMULATOR, compared, one_call_of
from ptx_assembled import alone
from robots import States, as_tuple

from featherlane.api.model import Model
from featherlane.backends.cuda.calls import SHARE
from featherlane.backends.cuda.mappings import warps_for
from featherlane.backends.cuda.ptx import WARP
from featherlane.backends.cuda.workspaces import LARGEST

# In the order in which they tell the most: all goals are stated for the first one
BATCHES = (65_536, 4096, 1_048_576, 256, 16, 1)
LATENCY = (1, 16, 64, 256)
LARGE = 65_536  # states from which on bounds of memory are looked at
SEVERAL_CHUNKS = 2 << 30  # bytes of the most rows that are compared to cross a border of chunks
COMPILED = ("inverse_dynamics", "inverse_dynamics_derivatives", "forward_dynamics_derivatives")


def bits(bench: Bench) -> Iterator[Cell]:
    """All functions of the pack: the bits of the CPU, also where states go in several chunks."""
    for facts in bench.files(form=""):
        batches = IN_EMULATOR[1:] if bench.gpu.emulated else (1, 33, LARGE)
        beyond = _beyond_a_chunk(bench, facts)
        for batch in (*batches, *([beyond] if beyond else [])):
            yield Cell({**facts.row, "batch": batch}, partial(compared, bench, facts, batch))


def _beyond_a_chunk(bench: Bench, facts: Facts) -> int:
    """States of which the last ones are a chunk of their own, 0 if those would be too many."""
    if bench.gpu.emulated or not facts.scratch_bytes:
        return 0
    packed, memory = bench.loaded(facts)[0], bench.gpu.api.properties(0).memory
    group = WARP * packed.kernels.slots * packed.dtype.itemsize
    states = max(LARGEST, memory // SHARE) // max(group, 1) * WARP + 37
    return states if states > LARGE and states * facts.row_bytes < SEVERAL_CHUNKS else 0


def compiling(bench: Bench) -> Iterator[Cell]:
    """Seconds of the driver's compiler, without its cache: all texts at once, and one by one."""
    for facts in bench.files():
        if facts.function in COMPILED and not facts.form:
            for how in ("at once", "one by one"):
                told = {**facts.row, "question": f"compiled {how}"}
                yield Cell(told, partial(_compiled, bench, facts, how))


def _compiled(bench: Bench, facts: Facts, how: str) -> Row:
    kernels = bench.loaded(facts)[0].kernels
    parts = [kernels] if how == "at once" else [*alone(kernels)]
    begin = time.perf_counter()
    for part in parts:
        with bench.gpu.loaded(part):
            pass
    return {"seconds": time.perf_counter() - begin, "kernels": len(kernels.launches)}


def rates(bench: Bench) -> Iterator[Cell]:
    """States a second of arrays that stay on the GPU, by the mapping that calls would take, and the
    share of what memory and arithmetic allow.
    """
    for batch, dtype in product(bench.batches(*BATCHES), DTYPES):
        for facts in bench.files(form="", dtypes=(dtype,)):
            if facts.mapping == "lanes" and bench.fits(facts, batch):
                best = _expected(bench, facts, batch)
                yield Cell({**best.row, "batch": batch}, partial(_rate, bench, best, batch))


def _expected(bench: Bench, facts: Facts, batch: int) -> Facts:
    """The function by the mapping that the cost model chooses, if the pack has it."""
    warps = warps_for(facts.work, batch, bench.gpu.api.properties(0).multiprocessors)
    wanted = facts.row | {"mapping": f"team:{warps}"}
    return next((x for x in bench.files(form="") if x.row == wanted), facts)


def _rate(bench: Bench, facts: Facts, batch: int) -> Row:
    seconds = launched(bench, facts, batch)
    figures = {"seconds": seconds, "states_per_second": batch / seconds}
    if not facts.function.startswith("rollout"):
        figures |= _shares(bench, facts, batch, seconds)
    return figures


def launched(bench: Bench, facts: Facts, batch: int) -> float:
    """Seconds of a call with arrays that stay on the GPU. Of large batches several sets of arrays
    take turns, so that their numbers come from memory.
    """
    sets = math.ceil(BEYOND_CACHE / (facts.row_bytes * batch)) if batch >= LARGE else 1
    with ExitStack() as stack:
        residents = [
            stack.enter_context(bench.resident(facts, batch)) for _ in range(min(sets, REPLAYED))
        ]
        return bench.gpu.launched(*[x.run for x in residents])


def _shares(bench: Bench, facts: Facts, batch: int, seconds: float) -> Row:
    """The share of the GPU's arithmetic, as lines of PTX that compute; of its memory, as rows and
    accesses to scratch memory, if none came from the cache.
    """
    if bench.gpu.emulated:
        return {}
    if "ceilings" not in bench.scratch:
        bench.scratch["ceilings"] = (
            gpu_questions.bandwidth(bench.gpu),
            gpu_questions.arithmetic(bench.gpu),
        )
    bandwidth, arithmetic = bench.scratch["ceilings"]
    each = 2 if facts.dtype == "float64" else 1  # half as many units on the GPUs of servers
    shares = {"share_of_arithmetic": facts.operations * each * batch / seconds / arithmetic}
    if batch >= LARGE:
        moved = facts.row_bytes + facts.scratch_bytes
        shares |= {"bytes_a_state": moved, "share_of_memory": moved * batch / seconds / bandwidth}
    return shares


def latency(bench: Bench) -> Iterator[Cell]:
    """A call of few states: replayed as a CUDA graph, and through Python, by each mapping."""
    for batch in LATENCY[:1] if bench.gpu.emulated else LATENCY:
        for facts in bench.files(form="", dtypes=("float32",)):
            if not facts.mapping.startswith("links"):
                yield Cell({**facts.row, "batch": batch}, partial(one_call_of, bench, facts, batch))


def copies(bench: Bench) -> Iterator[Cell]:
    """NumPy arrays that go over and come back."""
    for batch, dtype in product(bench.batches(*BATCHES[:-1]), DTYPES):
        for facts in bench.files(form="", dtypes=(dtype,)):
            if facts.mapping == "lanes" and bench.fits(facts, batch):
                told = {**facts.row, "batch": batch, "who": "with copies"}
                yield Cell(told, partial(_copied, bench, facts, batch))


def _copied(bench: Bench, facts: Facts, batch: int) -> Row:
    from featherlane.backends.cuda.copies import copies

    packed, function = bench.loaded(facts)
    inputs = [np.resize(x.reshape(len(x), -1), (batch, x[0].size)) for x in packed.inputs]
    results = [np.empty((batch, x[0].size), x.dtype) for x in packed.results]
    seconds = by_the_clock(lambda: copies(0).run(function, inputs, results), bench.gpu.emulated)
    return {"seconds": seconds, "states_per_second": batch / seconds}


def by_the_clock(work: Callable[[], object], once: bool = False, least: float = 0.05) -> float:
    """Seconds of what waits for its own end: the median of three calls or more, after one."""
    if not once:
        work()
    seconds = list[float]()
    while not seconds or (not once and (len(seconds) < 3 or sum(seconds) < least)):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return float(np.median(seconds))


def rollouts(bench: Bench) -> Iterator[Cell]:
    """Rollouts, as samples of predictive control: so many trajectories at once."""
    for batch in bench.batches(4096, 65_536, 1024, 256):
        for facts in bench.files():
            if facts.function.startswith("rollout") and not facts.form:
                yield Cell({**facts.row, "batch": batch}, partial(_rollout, bench, facts, batch))


def _rollout(bench: Bench, facts: Facts, batch: int) -> Row:
    seconds = launched(bench, facts, batch)
    steps = int(facts.function.split(", ")[-1].removesuffix(" steps"))
    return {"seconds": seconds, "states_per_second": steps * batch / seconds}


def on_cpu(bench: Bench) -> Iterator[Cell]:
    """The CPU of this machine, all cores."""
    for batch in bench.batches(65_536, 4096, 256):
        for robot, model in bench.models():
            for name in bench.functions or COMPILED:
                told = {"robot": asked(robot), "function": name, "dtype": "float32", "who": "CPU"}
                yield Cell({**told, "batch": batch}, partial(_on_cpu, model, name, batch))


def _on_cpu(model: Model, name: str, batch: int) -> Row:
    inputs = [
        np.resize(x, (batch, x.shape[1]))
        for x in States.random(model, 4096).inputs(model, name, "float32")
    ]
    function = model.function(name)
    results = as_tuple(function(*inputs))
    out = results if len(results) > 1 else results[0]
    seconds = by_the_clock(lambda: function(*inputs, out=out))
    return {"seconds": seconds, "states_per_second": batch / seconds}
