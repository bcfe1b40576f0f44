"""featherlane as one who computes cells, beside its peers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import featherlane
from featherlane.tools.timing import method, outputs

from .cells import OURS
from .peers.base import Case, Prepared


class Featherlane:
    """The user's call: arrays in, and results into arrays that are there already (`out=`), which
    begin on a cache line as those do that a call makes itself.

    threads above 1 leaves their number to the call, as many as pay. A batch of one is a single
    state, without a leading dimension.
    """

    name = OURS
    precisions = ("float64", "float32")
    heavy = False

    def version(self) -> str:
        return featherlane.__version__

    def setup(self) -> None:
        pass

    def missing(self) -> str | None:
        return None

    def prepare(self, case: Case) -> Prepared:
        return _single(case) if case.batch == 1 else _batched(case)


def _results(case: Case) -> tuple[np.ndarray, ...]:
    out = outputs(case.model, case.name, case.batch, case.dtype)
    return out if isinstance(out, tuple) else (out,)


def _batched(case: Case) -> Prepared:
    function, given, out = case.model.function(case.name), case.given(), _results(case)
    threads = 1 if case.threads == 1 else None

    def passes(count: int) -> None:
        for _ in range(count):
            function(*given, out=out, threads=threads)

    seconds = _seconds(lambda: function.ufunc(case.dtype))
    return Prepared(passes, lambda rows: tuple(x[rows] for x in out), seconds)


def _single(case: Case) -> Prepared:
    given, out = [x[0] for x in case.given()], _results(case)
    to = tuple(x[0] for x in out) if len(out) > 1 else out[0][0]
    seconds = _seconds(lambda: method(case.model, case.name)(*given, out=to))
    call = method(case.model, case.name)  # what it is from its second call on

    def passes(count: int) -> None:
        for _ in range(count):
            call(*given, out=to)

    return Prepared(passes, lambda rows: tuple(x[rows] for x in out), seconds, "one call, out=")


def plain(case: Case) -> Callable[[int], None]:
    """So many calls of a single state that make fresh arrays."""
    given = [x[0] for x in case.given()]
    method(case.model, case.name)(*given)
    call = method(case.model, case.name)

    def passes(count: int) -> None:
        for _ in range(count):
            call(*given)

    return passes


def _seconds(make: Callable[[], Any]) -> float:
    start = time.perf_counter()
    make()
    return time.perf_counter() - start
