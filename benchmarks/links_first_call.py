"""How long until a method can be called: its first call, in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from links_columns import Column, random_states
from links_results import FAILED, OVER, UNSUPPORTED, Cell

from featherlane.api.model import Model

CACHE = "FEATHERLANE_CACHE"


def _first_call(end: Any, column: Column, cell: Cell, model: Model, dtype: str, how: str) -> None:
    """In a process of its own: sends the seconds, or what a row says instead and the reason."""
    try:
        ready = column.ready(cell, model, random_states(model, cell.states, dtype), how)
        start = time.perf_counter()
        ready.call()
        end.send(time.perf_counter() - start)
    except ValueError as error:
        end.send((UNSUPPORTED, str(error)))
    except Exception as error:
        end.send((f"{FAILED}{type(error).__name__}", str(error)))


@contextmanager
def _empty_cache() -> Iterator[None]:
    """A cache of compiled code in which nothing is, and whose entries are kept afterwards."""
    kept = Path(os.environ[CACHE])
    with tempfile.TemporaryDirectory(dir=kept) as empty:
        os.environ[CACHE] = empty
        try:
            yield
        finally:
            os.environ[CACHE] = str(kept)
            for file in Path(empty).glob("*.code"):
                file.replace(kept / file.name)


def first_call(
    column: Column, model: Model, function: str, dtype: str, method: str, limit: float
) -> float | tuple[str, str]:
    """The seconds of the first call with one state; or what a row says instead, and why."""
    context = multiprocessing.get_context("fork")  # all is imported there already
    here, there = context.Pipe(duplex=False)
    work = (there, column, Cell(function, model.nv, 1), model, dtype, method)
    process = context.Process(target=_first_call, args=work)
    with _empty_cache():
        process.start()
        there.close()
        try:
            if here.poll(limit):
                return here.recv()
            return OVER, f"the first call takes more than {limit:.3g} s"
        except EOFError:
            process.join()
            return f"{FAILED}the process ended", f"exit code {process.exitcode}"
        finally:
            process.kill()
            process.join()
