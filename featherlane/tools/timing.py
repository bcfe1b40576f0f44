"""Times the functions of a robot on this machine, at random states."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.model import Model
from featherlane.backends.cpu.strides import aligned
from featherlane.functions.functions_of import functions_of
from featherlane.functions.table import FUNCTIONS
from featherlane.tools.work import bytes_moved, operations

Progress = Callable[[str], None]
Arrays = dict[str, np.ndarray]
Call = Callable[[], Any]

SHORT = {name: function.short for name, function in FUNCTIONS.items()}
DTYPES = ("float64", "float32")
SECONDS = 0.1  # total time of the calls for one median
SHORTEST = 1e-4  # s: shorter calls are timed several at once
TRIED = 10  # short calls that are timed first, to choose how many are timed at once
REPEATS = 5, 200  # the least and the most measurements for one median
LONGEST = 2.0  # s: longer calls are not repeated
DISTINCT = 4096  # random states; larger batches repeat them
PART = 4  # the arrays of a call take at most 1 / PART of the machine's memory
COARSEST = 1e-6  # s: a clock of processor time that ticks more slowly is not used
PROCESSOR = (
    time.thread_time
    if time.get_clock_info("thread_time").resolution <= COARSEST
    else time.perf_counter
)
MEMORY = 8 << 30  # bytes: the machine's memory if the system does not report it


class Times(NamedTuple):
    """Seconds of a call: by the clock on the wall, and of processor time of the calling thread.
    Other programs lengthen the first alone, by the time for which the thread has no core.
    """

    wall: float
    processor: float

    @property
    def waited(self) -> float:
        """The part of the time in which the thread had no core, 0 to 1."""
        return max(0.0, 1.0 - self.processor / self.wall)


def median_seconds(call: Call, seconds: float | None = None) -> float:
    """Returns the median time of a call on the wall, see `median_times`."""
    return median_times(call, seconds).wall


def median_times(call: Call, seconds: float | None = None) -> Times:
    """Returns the median times of a call, without the first one. seconds: the total time of all
    calls, SECONDS by default. A call that takes more than LONGEST is timed once. Calls shorter than
    SHORTEST are timed several at once: alone, a call would find its code and data evicted.
    """
    seconds = SECONDS if seconds is None else seconds
    least, most = REPEATS
    if (first := _timed(call)).wall > LONGEST:
        return first
    count, total = _at_once(call), 0.0
    times: list[Times] = []
    while len(times) < most and total < (LONGEST if len(times) < least else seconds):
        times.append(_timed(call, count))
        total += times[-1].wall
    return Times(*(median(each) / count for each in zip(*times, strict=True)))


def _at_once(call: Call) -> int:
    """Returns the number of calls that together take SHORTEST."""
    once = _timed(call).wall
    return 1 if once > SHORTEST else math.ceil(SHORTEST / (_timed(call, TRIED).wall / TRIED))


def _timed(call: Call, count: int = 1) -> Times:
    """Returns the seconds that `count` calls take."""
    start, used = time.perf_counter(), PROCESSOR()
    for _ in repeat(None, count):
        call()
    processor = PROCESSOR() - used
    return Times(time.perf_counter() - start, processor)


def inputs(
    model: Model,
    batch: int,
    dtype: Any,
    names: Sequence[str] = ("q", "v", "a", "tau", "minv"),
    seed: int = 0,
) -> Arrays:
    """Random inputs by name: q, v, a, tau, and a random matrix for minv."""
    rng = np.random.default_rng(seed)
    rows = min(batch, DISTINCT)
    arrays = {"q": model.random_configuration(rows, seed=rng)}
    for name in ("v", "a", "tau"):
        arrays[name] = rng.normal(size=(rows, model.nv))
    if "minv" in names:
        arrays["minv"] = rng.normal(size=(rows, model.nv, model.nv))
    at = np.arange(batch) % rows
    return {name: arrays[name].astype(dtype)[at] for name in names}


def outputs(model: Model, name: str, batch: int, dtype: Any) -> Any:
    """Arrays for `out=`, aligned as functions align their results: one, or a tuple of several."""
    shapes = model.function(name).outputs.values()
    arrays = tuple(aligned((batch, *shape), np.dtype(dtype)) for shape in shapes)
    for array in arrays:
        array.fill(0)
    return arrays if len(arrays) > 1 else arrays[0]


def fitting(model: Model, name: str, dtype: Any, batch: int) -> int:
    """The batch, halved until its arrays take at most 1 / PART of this machine's memory."""
    moved = bytes_moved(model, name, dtype)
    while batch > 1 and batch * moved > _memory() // PART:
        batch //= 2
    return batch


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return MEMORY


def in_words(threads: int) -> str:
    return f"{threads} thread" + "s" * (threads != 1)


class Speed(NamedTuple):
    """The measured times of one function in one dtype."""

    function: str
    dtype: str
    operations: int | None  # additions and multiplications of one state, where they can be counted
    first_call_s: float  # until the function could be called: compiled, or loaded from the cache
    ns_per_state: float  # of processor time, on one thread
    states_per_us: float  # on all threads that were asked for: million states per second
    one_state_us: float  # of processor time, a call with one state
    batch: int  # the states in a call: fewer than wanted where memory is short
    waited: float = 0.0  # the part of its time in which the one thread had no core


def method(model: Model, name: str) -> Callable[..., Any]:
    """The method of the model that a user calls for a function; it takes the inputs in order."""
    if name != "forward_dynamics_derivatives_from":
        return getattr(model, name)
    return lambda q, v, a, minv, **options: model.forward_dynamics_derivatives(
        q, v, a=a, minv=minv, **options
    )


def compile_all(
    model: Model, dtypes: Sequence[str], progress: Progress
) -> dict[tuple[str, str], float]:
    """Compiles or loads each function in each dtype; the seconds that each took."""
    seconds = {}
    for dtype in dtypes:
        for name in functions_of(model):
            progress(f"compiling {SHORT[name]} in {dtype}")
            start = time.perf_counter()
            model.function(name).ufunc(dtype)
            seconds[name, dtype] = time.perf_counter() - start
    return seconds


def speed(model: Model, name: str, dtype: str, batch: int, threads: int, ready: float) -> Speed:
    """Times one function with `batch` states in a call, or as many as fit in memory."""
    function = model.function(name)
    batch = fitting(model, name, dtype, batch)
    states = [*inputs(model, batch, dtype, tuple(function.inputs)).values()]
    out = outputs(model, name, batch, dtype)
    alone = median_times(partial(function, *states, out=out, threads=1))
    together = median_seconds(partial(function, *states, out=out, threads=threads)) / batch
    state = [x[0].copy() for x in states]
    method(model, name)(*state)  # after the first call, the method is machine code
    latency = median_times(partial(method(model, name), *state), SECONDS / 4)
    times = ready, alone.processor / batch * 1e9, 1e-6 / together, latency.processor * 1e6
    return Speed(name, dtype, operations(model, name), *times, batch, alone.waited)
