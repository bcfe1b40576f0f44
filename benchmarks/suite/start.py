"""How long until a function gives its first result, and what memory that takes.

Each figure comes from a process of its own, forked before it has loaded anything of a compiler:
cold with nothing of the function in the cache, then warm with what the first one left there. The
time begins with the loaded robot and ends with the results of a few states; it is that of the
processor, which others on the machine do not disturb.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from featherlane.bench import inputs
from featherlane.dynamics import Model
from featherlane.work import operations, work

from .cells import FAILED, Figure
from .limits import Counts

CACHE = "FEATHERLANE_CACHE"
STATES = 8
RSS_PER_MB = 1e6 if sys.platform == "darwin" else 1e3
FORK = multiprocessing.get_context("fork")


class Start(NamedTuple):
    """Seconds and MB, or why there are none; and what was counted in passing."""

    compile_s: Figure
    warm_s: Figure
    peak_mb: Figure
    counts: Counts | None = None


def start(model: Model, name: str, dtype: str, cache: Path, limit: float) -> Start:
    """cache: a folder that has nothing of the function yet. limit: seconds."""
    cold = apart(_first, (model, name, dtype, True), limit, cache)
    if isinstance(cold, str):
        return Start(cold, cold, cold)
    warm = apart(_first, (model, name, dtype, False), limit, cache)
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


def apart(
    run: Callable[..., Any], given: tuple[Any, ...], limit: float, cache: Path | None = None
) -> Any:
    """What a function returns in a process of its own, or why it does not. limit: seconds."""
    here, there = FORK.Pipe(duplex=False)

    def child() -> None:
        if cache is not None:
            os.environ[CACHE] = str(cache)
        there.send(run(*given))

    process = FORK.Process(target=child, daemon=True)
    process.start()
    there.close()
    try:
        if here.poll(limit):
            return here.recv()
        return f"{FAILED}over {limit:.0f} s"
    except EOFError:
        process.join()
        return f"{FAILED}the process ended with {process.exitcode}"
    finally:
        process.kill()
        process.join()
        here.close()
