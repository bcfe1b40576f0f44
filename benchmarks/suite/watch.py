"""Workers from outside: what they tell, and what their end means."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from .cells import OURS, SKIPPED, Cell, Row
from .worker import Task, crashed, work

SPAWN = multiprocessing.get_context("spawn")
ONE_THREAD = {
    "NPROC": "1",  # of JAX
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


def rows(task: Task, say: Callable[[str], None]) -> Iterator[Row]:
    """All rows of a task, by as many workers, one after the other, as it takes."""
    cells, known = list(task.cells), dict(task.known)
    while cells:
        left = replace(task, cells=tuple(cells), known=known)
        running: tuple[Cell, str] | None = None
        end = _Ended()
        for message in _messages(left, end):
            if message[0] == "begin":
                running = message[1], message[2]
            elif message[0] == "rows":
                yield from message[1]
                task, running = replace(task, spent=message[2]), None
                cells.pop(0)
        if not cells:
            return
        if running is None:  # between cells: it would not do better again
            say(f"{task.robot.title}: {end.why}")
            yield from without(task.peers, cells, end.why)
            return
        say(f"{running[0].title}: {running[1]} {end.why}")
        known |= _out(running, cells, end)


def without(
    peers: Iterable[str], cells: Iterable[Cell], why: str, ours: bool = True
) -> Iterator[Row]:
    """Rows of cells that these peers do not compute, and ours does not either if it is meant."""
    everyone = [OURS, *peers] if ours else [*peers]
    for cell in cells:
        for who in everyone:
            yield Row(*cell, who, why)


def _out(running: tuple[Cell, str], cells: list[Cell], end: _Ended) -> dict[tuple[Cell, str], str]:
    """What cells say from now on: who hangs once is not asked again by this task, who crashes is
    not asked for the same function.
    """
    at, who = running
    told = {(at, who): end.why}
    for cell in cells:
        if cell != at and (end.hung or cell.function == at.function):
            told[cell, who] = f"{SKIPPED}{end.why.split(': ')[1]}, before"
    return told


class _Ended:
    why, hung = "", False


def _messages(task: Task, end: _Ended) -> Iterator[tuple]:
    here, there = SPAWN.Pipe(duplex=False)
    process = SPAWN.Process(target=work, args=(task, there), daemon=True)
    with environment(ONE_THREAD if task.threads == 1 else {}):
        process.start()
    there.close()
    try:
        while here.poll(task.budget.step):
            message = here.recv()
            if message[0] == "end":
                return
            yield message
        end.hung, end.why = True, crashed(None, task.budget.step)
    except EOFError:
        process.join()
        end.why = crashed(process.exitcode, None)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # compilers that it has started, too
        process.kill()
        process.join()
        here.close()


@contextlib.contextmanager
def environment(more: Mapping[str, str]) -> Iterator[None]:
    """Variables that processes started inside get, too."""
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
