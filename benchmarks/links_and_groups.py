"""Time over the number of links and the number of states, for every method.

The experiments of Yang, Wu and Pan (2016, both papers) on today's processor: random chains of 10 to
2,000 revolute links by 1 to 4,096 states ("groups" there), inverse and forward dynamics, one
thread, beside Pinocchio's C++ loop. In each cell all methods take turns for several rounds; figures
are medians. Each is first compared with the serial method, and the first call is timed in a process
of its own, with nothing compiled. A method that cannot be measured says why in place of a figure:
`unsupported`, `failed: why` or `skipped: why`.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread means one, also for LAPACK's

import numpy as np
from links_columns import SEED, Column, Ready, Skipped, columns, random_states
from links_first_call import CACHE, first_call
from links_results import (
    FAILED,
    NOTHING,
    OVER,
    UNSUPPORTED,
    Cell,
    Row,
    Writer,
    verdict,
)
from options import parser
from suite.cells import facts

import featherlane as fl
from featherlane.api.model import Model

FUNCTIONS = ("inverse_dynamics", "forward_dynamics")
REFERENCE = {"inverse_dynamics": "serial", "forward_dynamics": "aba"}
LINKS = (10, 20, 50, 100, 200, 500, 1000, 2000)
STATES = (1, 4, 16, 64, 256, 1024, 4096)
QUICK_LINKS, QUICK_STATES = (4, 130), (1, 16)
TOLERANCE = {"float64": 1e-6, "float32": 0.5}  # far above rounding: it is here to find nonsense


class Budget(NamedTuple):
    """Seconds."""

    total: float  # of the run
    call: float  # of one call over all states, as its neighbours let expect
    first: float  # of a first call
    cell: float  # of the rounds of one cell and function, once there were three
    least: float  # that one figure of a round takes
    rounds: int


FULL = Budget(total=1200.0, call=2.0, first=60.0, cell=8.0, least=0.005, rounds=7)
QUICK = Budget(total=60.0, call=0.5, first=20.0, cell=0.5, least=0.001, rounds=3)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def relative_error(got: np.ndarray, expected: np.ndarray) -> float:
    """Of the worst state, relative to its largest entry; infinite where it is not a number."""
    scale = np.abs(expected).max(axis=1)
    error = np.abs(got - expected).max(axis=1) / np.where(scale, scale, 1.0)
    return float(np.nan_to_num(error, nan=np.inf).max())


# One cell


class Bench:
    """What a run has learned so far: models, first calls, and times from which others are
    estimated.
    """

    def __init__(self, who: Sequence[Column], dtype: str, budget: Budget) -> None:
        self.columns, self.dtype, self.budget = who, dtype, budget
        self._end = time.monotonic() + budget.total
        self._models: dict[int, Model] = {}
        self._first: dict[tuple[str, int, str, str], float | tuple[str, str]] = {}
        self._seconds: dict[tuple[str, str, str], dict[tuple[int, int], float]] = {}

    @property
    def over(self) -> bool:
        return time.monotonic() > self._end

    def model(self, links: int) -> Model:
        if links not in self._models:
            self._models[links] = fl.chain(links, SEED)
        return self._models[links]

    def first(self, column: Column, cell: Cell, method: str) -> float | tuple[str, str]:
        key = cell.function, cell.links, column.name, method
        if key not in self._first:
            limit = min(self.budget.first, max(0.0, self._end - time.monotonic()))
            model = self.model(cell.links)
            self._first[key] = first_call(column, model, cell.function, self.dtype, method, limit)
        return self._first[key]

    def estimate(self, cell: Cell, who: tuple[str, str]) -> float:
        """Seconds of a call, from above: times grow with the states, and with at most the cube of
        the links. 0 where nothing is known; single states are only bounded by the first call.
        """
        known = self._seconds.get((cell.function, *who), {})
        fewer = [s for n, s in known if n == cell.links and s < cell.states]
        if fewer:
            return known[cell.links, max(fewer)] * cell.states / max(fewer)
        shorter = [n for n, s in known if s == cell.states > 1 and n < cell.links]
        if shorter:
            return known[max(shorter), cell.states] * (cell.links / max(shorter)) ** 3
        return 0.0

    def learned(self, row: Row) -> None:
        known = self._seconds.setdefault((row.function, row.backend, row.method), {})
        if row.measured:
            known[row.links, row.states] = float(row.ns_per_state) * row.states * 1e-9
        elif row.ns_per_state == OVER:
            known[row.links, row.states] = math.inf

    def rows(self, cell: Cell) -> list[Row]:
        """All methods in one cell."""
        turns = [_Turn(self, cell, c, m) for c in self.columns for m in c.methods(cell.function)]
        states = random_states(self.model(cell.links), cell.states, self.dtype)
        try:
            for turn in turns:
                turn.first()  # of all, before this process compiles anything
            if left := [turn for turn in turns if not turn.given_up]:
                expected = self._expected(cell, states)
                for turn in left:
                    turn.prepare(states, expected)
                self._rounds(left)
        finally:
            for turn in turns:
                turn.close()
        for turn in turns:
            self.learned(turn.row)
        return [turn.row for turn in turns]

    def _expected(self, cell: Cell, states: Sequence[np.ndarray]) -> np.ndarray:
        given = [x.astype(np.float64) for x in states]
        reference = getattr(self.model(cell.links), cell.function)
        return reference(*given, method=REFERENCE[cell.function], threads=1)

    def _rounds(self, turns: Sequence[_Turn]) -> None:
        start = time.monotonic()
        for n in range(self.budget.rounds):
            if n >= 3 and (time.monotonic() - start > self.budget.cell or self.over):
                break
            for turn in turns:
                turn.take(self.budget.least)


class _Turn:
    """One method in one cell: a row that is being made."""

    def __init__(self, bench: Bench, cell: Cell, column: Column, method: str) -> None:
        self._bench, self._column, self._cell, self._method = bench, column, cell, method
        self._ready: Ready | None = None
        self._instead: tuple[str, str] | None = None  # of a figure, and why
        self._error: float | str = NOTHING
        self._first: float | str = NOTHING
        self._times: list[float] = []

    def first(self) -> None:
        """The first call, unless nothing is to be tried any more."""
        estimate = self._bench.estimate(self._cell, (self._column.name, self._method))
        if self._bench.over or estimate > self._bench.budget.call:
            self._give_up(OVER)
        elif self._column.compiles:
            first = self._bench.first(self._column, self._cell, self._method)
            if isinstance(first, tuple):
                self._give_up(*first)
            else:
                self._first = first

    def prepare(self, states: Sequence[np.ndarray], expected: np.ndarray) -> None:
        """Ready to be timed, or the reason why not."""
        model = self._bench.model(self._cell.links)
        try:
            self._ready = self._column.ready(self._cell, model, states, self._method)
            got = self._ready.results()
            self._error = relative_error(got, expected[: len(got)])
            if not self._error < TOLERANCE[self._bench.dtype]:
                self._give_up(f"{FAILED}differs by {self._error:.1e}")
        except Skipped as why:
            self._give_up(f"skipped: {why}")
        except ValueError as error:
            self._give_up(UNSUPPORTED, str(error))
        except Exception as error:
            self._give_up(f"{FAILED}{type(error).__name__}", str(error))

    def take(self, seconds: float) -> None:
        if self._ready is not None:
            try:
                self._times.append(self._ready.ns_per_state(seconds))
            except Exception as error:
                self._give_up(f"{FAILED}{type(error).__name__}", str(error))

    def _give_up(self, what: str, why: str = "") -> None:
        self._instead = what, " ".join(why.split())
        self.close()

    @property
    def given_up(self) -> bool:
        return self._instead is not None

    @property
    def row(self) -> Row:
        who = *self._cell, self._bench.dtype, self._column.name, self._method
        if self._instead is not None:
            what, why = self._instead
            return Row(*who, what, self._error, self._first, note=why)
        middle = median(self._times)
        spread = (max(self._times) - min(self._times)) / middle
        return Row(*who, middle, self._error, self._first, spread)

    def close(self) -> None:
        if self._ready is not None:
            self._ready.close()
            self._ready = None


# A run


def cells(functions: Sequence[str], links: Sequence[int], states: Sequence[int]) -> list[Cell]:
    """The cheap ones first: what the budget does not reach is the far corner."""
    every = [Cell(f, n, s) for f in functions for n in links for s in states]
    return sorted(every, key=lambda cell: (cell.links * cell.states, cell.links))


def run(bench: Bench, which: Sequence[Cell]) -> Iterator[Row]:
    for cell in which:
        start = time.monotonic()
        rows = bench.rows(cell)
        told = ", ".join(f"{r.label} {_figure(r)}" for r in rows)
        took = time.monotonic() - start
        say(f"{cell.function}, {cell.links} x {cell.states} ({took:.1f} s), ns per state: {told}")
        yield from rows


def _figure(row: Row) -> str:
    return f"{row.ns_per_state:.4g}" if row.measured else str(row.ns_per_state)


def _parser() -> argparse.ArgumentParser:
    sizes = {"links": (), "batch": (), "functions": FUNCTIONS, "dtype": "float64"}
    rest = {"rounds": None, "minutes": None, "quick": False, "csv": Path("links_and_groups.csv")}
    options = parser(__doc__, **sizes, **rest)
    options.epilog = f"Without options: {LINKS} links, {STATES} states, {FULL}."
    options.add_argument("--columns", nargs="+", default=["featherlane", "pinocchio"])
    options.add_argument("--figures", type=Path, metavar="FOLDER", help="draw them there, too")
    options.add_argument("--call", type=float, metavar="S", help="budget of one call, seconds")
    options.add_argument("--first", type=float, metavar="S", help="of a first call, seconds")
    told = "GB of addresses that a process may have (default: 8); more is `failed: MemoryError`"
    options.add_argument("--memory", type=float, default=8.0, help=told)
    return options


def main(given: Sequence[str] | None = None) -> None:
    args = _parser().parse_args(given)
    changed = {k: v for k in ("call", "first", "rounds") if (v := getattr(args, k))}
    if args.minutes:
        changed["total"] = 60 * args.minutes
    budget = (QUICK if args.quick else FULL)._replace(**changed)
    links = args.links or (QUICK_LINKS if args.quick else LINKS)
    states = args.batch or (QUICK_STATES if args.quick else STATES)
    resource.setrlimit(resource.RLIMIT_AS, (int(args.memory * 1e9),) * 2)
    with tempfile.TemporaryDirectory() as folder:
        who = columns(args.columns, Path(folder))
        os.environ[CACHE] = folder  # nothing is there yet
        fl.chain(1, SEED).inverse_dynamics([0.0], [0.0], [0.0])  # the compiler is loaded
        versions = {c.name: c.version for c in who if hasattr(c, "version")}
        writer = Writer(args.csv, facts(dtype=args.dtype, seed=SEED, threads=1, **versions))
        rows: list[Row] = []
        for row in run(Bench(who, args.dtype, budget), cells(args.functions, links, states)):
            writer.write(row)
            rows.append(row)
        writer.close()
    print(verdict(rows))
    if args.figures:
        from links_figures import draw_all

        draw_all(args.csv, args.figures)


if __name__ == "__main__":
    main()
