"""All cells of one robot on one number of threads, in a process of its own.

It tells what it begins before it begins it, so that whoever watches knows what crashed it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from featherlane.tools.work import bytes_moved

from .cells import FAILED, OURS, SKIPPED, UNSUPPORTED, Cell, Row
from .oracle import Expected, Oracle
from .ours import Featherlane
from .peers import PEERS, Case, Peer
from .robots import Robot
from .start import LATE
from .turn import LEAST, Turn

GB = 1e9
SEED = 0
SILENT = "no answer in"


class Budget(NamedTuple):
    """Seconds and bytes."""

    peer: float  # of each peer in one worker
    until: float = float("inf")  # when no peer begins any more (of `time.monotonic`)
    step: float = 40.0  # after which a step is taken for hung
    longest: float = 1.0  # that a pass may take
    longest_of_many: float = 0.25  # the same at batches larger than the summary's
    ours_longer: float = 2.0  # times as long as that
    cell: float = 2.0  # after which a cell gets three rounds, and two after three times as long
    least: float = LEAST
    rounds: int = 5
    most_bytes: float = 2 * GB  # of a cell's arrays
    most_together: float = 6 * GB  # of those of all who take turns


@dataclass(frozen=True)
class Task:
    """What a worker is to do. known: what cells already say, in place of being tried. spent: the
    seconds of each peer, by workers that did not live to the end.
    """

    robot: Robot
    cells: Sequence[Cell]
    peers: Sequence[str]
    threads: int
    at: int  # the batch of the summary
    budget: Budget
    known: Mapping[tuple[Cell, str], str] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)


def chosen(names: Sequence[str]) -> list[Peer]:
    """Ours first, then the peers of these names."""
    known = {peer.name: peer for peer in PEERS}
    return [Featherlane(), *(known[name] for name in names)]


def work(task: Task, tell: Any) -> None:
    """tell: a connection that takes ("begin", cell, who) and ("rows", rows, spent)."""
    os.setsid()  # what peers start ends with it
    if task.threads == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    bench = Bench(task, lambda cell, who: tell.send(("begin", cell, who)))
    for cell in task.cells:
        tell.send(("rows", bench.rows(cell), bench.spent))
    tell.send(("end",))


class Bench:
    """What a worker has learned so far."""

    def __init__(self, task: Task, begin: Callable[[Cell, str], None]) -> None:
        self._task, self._begin, self._budget = task, begin, task.budget
        self._who = chosen(task.peers)
        self._missing = {peer.name: peer.missing() for peer in self._who}
        self._model = task.robot.model()
        self._oracle = Oracle(task.robot, self._model)
        self._states: dict[int, tuple[np.ndarray, ...]] = {}
        self._ns: dict[tuple[str, str, str], tuple[int, float]] = {}  # by function, dtype and who
        self.spent = {peer.name: task.spent.get(peer.name, 0.0) for peer in self._who}

    def rows(self, cell: Cell) -> list[Row]:
        turns = [Turn(peer, cell, self._instead(cell, peer)) for peer in self._who]
        if left := [turn for turn in turns if turn.instead is None]:
            self._measure(cell, left)
        ours = turns[0].middle
        for turn in turns:
            self.spent[turn.name] += turn.spent
            if turn.middle is not None:
                self._learn(cell, turn.name, turn.middle)
        return [self._noted(turn.row(ours)) for turn in turns]

    def _learn(self, cell: Cell, who: str, ns: float) -> None:
        """What a state takes in the largest batch so far."""
        key = cell.function, cell.dtype, who
        if key not in self._ns or self._ns[key][0] <= cell.batch:
            self._ns[key] = cell.batch, ns

    def _noted(self, row: Row) -> Row:
        """Rows whose oracle is not Pinocchio say so."""
        plain = self._oracle.independent or not row.measured
        return row if plain else row._replace(note=f"{row.note}; compared with {self._oracle.kind}")

    def _measure(self, cell: Cell, turns: Sequence[Turn]) -> None:
        case, expected = self._case(cell)
        budget, start = self._budget, time.monotonic()
        try:
            for turn in turns:
                self._begin(cell, turn.name)
                turn.prepare(case, expected, budget.least, self._longest(cell, turn.name))
            for n in range(budget.rounds):
                took = time.monotonic() - start
                if took > budget.cell * (1 if n >= 3 else 3 if n == 2 else np.inf):
                    break
                for turn in turns:
                    self._begin(cell, turn.name)
                    turn.take()
            for turn in turns:
                self._begin(cell, turn.name)
                turn.finish(expected)
        finally:
            for turn in turns:
                turn.close()

    def _case(self, cell: Cell) -> tuple[Case, Expected]:
        q, v, u = self._random(cell.batch)
        case = Case(
            self._model,
            str(self._task.robot.urdf),
            cell.function,
            cell.dtype,
            q,
            v,
            u,
            cell.threads,
        )
        return case, self._oracle.expected(cell.function, *case.exact())

    def _random(self, batch: int) -> tuple[np.ndarray, ...]:
        if batch not in self._states:
            rng, nv = np.random.default_rng(SEED), self._model.nv
            q = self._model.random_configuration(batch, seed=rng)
            v, u = (rng.uniform(-1, 1, (batch, nv)) for _ in range(2))
            self._states = {batch: (q, v, u)}  # the last one only
        return self._states[batch]

    def _longest(self, cell: Cell, who: str) -> float:
        budget = self._budget
        longest = budget.longest_of_many if cell.batch > self._task.at else budget.longest
        return longest * (budget.ours_longer if who == OURS else 1.0)

    # What is not tried, and why

    def _instead(self, cell: Cell, peer: Peer) -> str | None:
        known = self._task.known.get((cell, peer.name))
        if known is not None:
            return known
        if missing := self._missing[peer.name]:
            return SKIPPED + missing
        if cell.dtype not in peer.precisions:
            return f"{UNSUPPORTED}{' and '.join(peer.precisions)} only"
        if cell.threads > 1 and cell.batch == 1:
            return f"{SKIPPED}one state has one thread"
        arrays = bytes_moved(self._model, cell.function, cell.dtype) * cell.batch
        if arrays > self._budget.most_bytes:
            return f"{SKIPPED}{arrays / GB:.1f} GB"
        _, ns = self._ns.get((cell.function, cell.dtype, peer.name), (0, 0.0))
        if (takes := ns * 1e-9 * cell.batch) > self._longest(cell, peer.name):
            return f"{SKIPPED}a pass takes {takes:.1f} s"
        return None if peer.name == OURS else self._peer_instead(cell, peer, arrays)

    def _peer_instead(self, cell: Cell, peer: Peer, arrays: float) -> str | None:
        together = arrays * sum(missing is None for missing in self._missing.values())
        if together > self._budget.most_together:
            return f"{SKIPPED}{together / GB:.1f} GB with all peers"
        if time.monotonic() > self._budget.until:
            return LATE
        if self.spent[peer.name] > self._budget.peer:
            return f"{SKIPPED}over budget"
        return None


def crashed(code: int | None, seconds: float | None) -> str:
    """What a cell says after its worker died, or was killed after so many seconds of silence."""
    return f"{SKIPPED}{SILENT} {seconds:.0f} s" if seconds else f"{FAILED}crashed ({code})"
