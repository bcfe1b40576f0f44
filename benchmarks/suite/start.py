"""How long until a function gives its first result, and what memory that takes.

Each figure comes from a process of its own, forked before it has loaded anything of a compiler:
cold with nothing of the function in the cache, then warm with what the first one left there. The
time begins with the loaded robot and ends with the results of a few states; it is that of the
processor, which others on the machine do not disturb. Processes of different dtypes run side by
side where there are cores for them.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from featherlane.api.model import Model
from featherlane.backends.cores import physical_cores
from featherlane.tools.timing import inputs
from featherlane.tools.work import operations, work

from .cells import FAILED, SKIPPED, Figure
from .limits import Counts

CACHE = "FEATHERLANE_CACHE"
STATES = 8
COLD_LIMIT = 180.0  # seconds that compiling a function may take
LATE = f"{SKIPPED}over the time of the robot"
RSS_PER_MB = 1e6 if sys.platform == "darwin" else 1e3
FORK = multiprocessing.get_context("fork")


class Start(NamedTuple):
    """Seconds and MB, or why there are none; and what was counted in passing."""

    compile_s: Figure
    warm_s: Figure
    peak_mb: Figure
    counts: Counts | None = None


Starts = dict[tuple[str, str], Start]  # by function and dtype


def starts(
    model: Model, names: Sequence[str], dtypes: Sequence[str], cache: Path, until: float
) -> Starts:
    """cache: a folder that has nothing of the functions yet. until: when no more is begun (of
    `time.monotonic`).
    """
    found: Starts = {}
    together = max(1, min(len(dtypes), physical_cores()))
    for name in names:
        for k in range(0, len(dtypes), together):
            found |= _side_by_side(model, name, dtypes[k : k + together], cache, until)
    return found


def _side_by_side(
    model: Model, name: str, dtypes: Sequence[str], cache: Path, until: float
) -> Starts:
    left = until - time.monotonic()
    if left <= 0:
        return {(name, dtype): Start(LATE, LATE, LATE) for dtype in dtypes}
    ends, why = time.monotonic() + min(left, COLD_LIMIT), f"{FAILED}over {COLD_LIMIT:.0f} s"
    why = LATE if left < COLD_LIMIT else why
    given = {dtype: (model, name, dtype) for dtype in dtypes}
    cold = {d: Apart(_first, (*each, True), cache) for d, each in given.items()}
    first = {dtype: process.result(ends, why) for dtype, process in cold.items()}
    reached = [dtype for dtype, told in first.items() if not isinstance(told, str)]
    warm = {d: Apart(_first, (*given[d], False), cache) for d in reached}
    again = {dtype: process.result(ends + COLD_LIMIT, why) for dtype, process in warm.items()}
    return {(name, dtype): _start(told, again.get(dtype)) for dtype, told in first.items()}


def _start(cold: Any, warm: Any) -> Start:
    if isinstance(cold, str):
        return Start(cold, cold, cold)
    return Start(cold[0], warm if isinstance(warm, str) else warm[0], *cold[1:])


def _first(model: Model, name: str, dtype: str, counted: bool) -> tuple[Any, ...]:
    """Seconds, MB, and what is counted besides when both are known."""
    function, states = model.function(name), inputs(model, STATES, dtype)
    given = [states[key] for key in function.inputs]
    begin = time.process_time()
    function(*given, threads=1)
    seconds = time.process_time() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / RSS_PER_MB
    if not counted:
        return seconds, memory
    return seconds, memory, Counts(operations(model, name), work(model, name, dtype))


class Apart:
    """A function that runs in a process of its own."""

    def __init__(
        self, run: Callable[..., Any], given: tuple[Any, ...], cache: Path | None = None
    ) -> None:
        self._here, there = FORK.Pipe(duplex=False)

        def child() -> None:
            if cache is not None:
                os.environ[CACHE] = str(cache)
            there.send(run(*given))

        self._process = FORK.Process(target=child, daemon=True)
        self._process.start()
        there.close()

    def result(self, ends: float, late: str) -> Any:
        """What it returns, or why it does not. ends: when it is given up (of `time.monotonic`);
        late: what is said then.
        """
        try:
            if self._here.poll(max(0.0, ends - time.monotonic())):
                return self._here.recv()
            return late
        except EOFError:
            self._process.join()
            return f"{FAILED}the process ended with {self._process.exitcode}"
        finally:
            self._process.kill()
            self._process.join()
            self._here.close()
