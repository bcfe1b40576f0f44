"""Which task starts in which cycle, on how many processing units: schedules as data.

A schedule says nothing about how it was found and is checked by itself. What units take and how
many there are comes from outside, as tables.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from featherlane.program.analysis.tasks import Tasks


class Unit(NamedTuple):
    """What works on a kind of task. latency: cycles until the result is there; interval: until the
    unit can start its next task, 1 if it is pipelined; pool: the units that can do it, those of its
    own kind if None.
    """

    latency: int
    interval: int = 1
    pool: str | None = None


NOTHING = Unit(0, 0)
Units = Mapping[str, Unit]


@dataclass(frozen=True)
class Schedule:
    """start[k] is the cycle in which task k starts. counts: units in a pool; where a pool has no
    count, every task has a unit of its own.
    """

    tasks: Tasks
    units: Units
    start: tuple[int, ...]
    counts: Mapping[str, int] = field(default_factory=dict)

    def unit(self, k: int) -> Unit:
        kind = self.tasks.kinds[k]
        return NOTHING if kind == "input" else self.units[kind]

    def end(self, k: int) -> int:
        """The cycle in which the result of task k is there."""
        return self.start[k] + self.unit(k).latency

    @property
    def length(self) -> int:
        """Cycles until everything is done."""
        return max((self.end(k) for k in range(len(self.tasks))), default=0)

    def busy(self, period: int | None = None) -> dict[str, Counter[int]]:
        """For each pool the units at work in each cycle; if the whole is started again every
        `period` cycles, in each cycle of a period once it has filled up.
        """
        found: dict[str, Counter[int]] = {}
        for k in self.tasks.work():
            unit, pool = self.unit(k), _pool(self.tasks.kinds[k], self.units)
            for cycle in range(self.start[k], self.start[k] + unit.interval):
                found.setdefault(pool, Counter())[cycle % period if period else cycle] += 1
        return found

    @property
    def needed(self) -> dict[str, int]:
        """The most units of each pool at work in one cycle."""
        return {pool: max(cycles.values()) for pool, cycles in self.busy().items()}

    @property
    def utilisation(self) -> dict[str, float]:
        """For each pool the share of the time in which its units, or as many as needed, work."""
        needed = self.needed
        return {
            pool: cycles.total() / (self.length * self.counts.get(pool, needed[pool]))
            for pool, cycles in self.busy().items()
        }

    def fits(self, period: int) -> bool:
        """Whether the units suffice if the whole is started again every `period` cycles."""
        shared = all(
            max(cycles.values()) <= self.counts[pool]
            for pool, cycles in self.busy(period).items()
            if pool in self.counts
        )
        return shared and all(
            self.unit(k).interval <= period
            for k in self.tasks.work()
            if _pool(self.tasks.kinds[k], self.units) not in self.counts
        )

    @property
    def period(self) -> int:
        """The fewest cycles from one start of the whole to the next: the initiation interval."""
        longest = max((self.unit(k).interval for k in self.tasks.work()), default=0)
        for cycles in range(1, self.length + longest):
            if self.fits(cycles):
                return cycles
        return self.length + longest

    def verify(self) -> None:
        """Raises ValueError for the first task that starts before what it needs is there, or the
        first pool with more work than units, with the cycle.
        """
        if len(self.start) != len(self.tasks):
            raise ValueError(f"{len(self.start)} starts for {len(self.tasks)} tasks")
        for k, needs in enumerate(self.tasks.needs):
            name, start = self.tasks.names[k], self.start[k]
            if start < 0:
                raise ValueError(f"task {k} ({name}) starts in cycle {start}")
            for a in needs:
                if self.end(a) > start:
                    raise ValueError(
                        f"task {k} ({name}) starts in cycle {start}, but needs task {a} "
                        f"({self.tasks.names[a]}), which ends in cycle {self.end(a)}"
                    )
        for pool, cycles in self.busy().items():
            cycle, most = cycles.most_common(1)[0]
            if most > self.counts.get(pool, math.inf):
                there = self.counts[pool]
                raise ValueError(f"cycle {cycle} wants {most} units of {pool}: there are {there}")


def _pool(kind: str, units: Units) -> str:
    if kind not in units:
        raise ValueError(f"units has no {kind!r}, which the tasks need: it has {', '.join(units)}")
    return units[kind].pool or kind


def _latencies(tasks: Tasks, units: Units) -> list[int]:
    return [unit.latency for unit in tasks.each(units, NOTHING)]


def _after(tasks: Tasks, takes: list[int]) -> list[int]:
    """For each task the cycles from its start until all that waits for it is done."""
    left = list(takes)
    for k in range(len(tasks) - 1, -1, -1):
        for a in tasks.needs[k]:
            left[a] = max(left[a], takes[a] + left[k])
    return left


def asap(tasks: Tasks, units: Units) -> Schedule:
    """Each task as soon as possible, with as many units as that takes."""
    takes = _latencies(tasks, units)
    start: list[int] = []
    for needs in tasks.needs:
        start.append(max((start[a] + takes[a] for a in needs), default=0))
    return Schedule(tasks, units, tuple(start))


def alap(tasks: Tasks, units: Units, length: int | None = None) -> Schedule:
    """Each task as late as possible, so that all is done after `length` cycles, or after the fewest
    possible. Raises ValueError if `length` is too short.
    """
    left = _after(tasks, _latencies(tasks, units))
    shortest = max(left, default=0)
    if length is not None and length < shortest:
        raise ValueError(f"length is {length}: the longest chain takes {shortest} cycles")
    end = shortest if length is None else length
    return Schedule(tasks, units, tuple(end - cycles for cycles in left))


def scheduled(tasks: Tasks, units: Units, counts: Mapping[str, int]) -> Schedule:
    """List scheduling: in each cycle the units take those tasks that are ready, first the ones with
    the longest chain of work behind them.

    counts: units in each pool; pools left out have as many as they need. Raises ValueError for
    counts below 1 and pools that nothing is done in.
    """
    pools = {_pool(kind, units) for kind in tasks.kinds if kind != "input"}
    for pool, count in counts.items():
        if pool not in pools or count < 1:
            wanted = f"wanted 1 or more of {', '.join(sorted(pools))}"
            raise ValueError(f"counts has {count} units of {pool!r}: {wanted}")
    return Schedule(tasks, units, _List(tasks, units, counts).run(), dict(counts))


class _List:
    """The state of list scheduling."""

    def __init__(self, tasks: Tasks, units: Units, counts: Mapping[str, int]) -> None:
        self.tasks, self.each = tasks, tasks.each(units, NOTHING)
        self.pools = ["" if kind == "input" else _pool(kind, units) for kind in tasks.kinds]
        self.left = _after(tasks, _latencies(tasks, units))
        self.users, self.waits = tasks.users(), [len(needs) for needs in tasks.needs]
        self.ready = [0] * len(tasks)
        self.start = [0] * len(tasks)
        self.free = {pool: [0] * count for pool, count in counts.items()}  # when a unit is free
        self.coming: list[tuple[int, int, int]] = []  # (ready, -chain behind it, task)

    def run(self) -> tuple[int, ...]:
        self._offer(k for k, waits in enumerate(self.waits) if not waits)
        while self.coming:
            cycle, rank, k = heappop(self.coming)
            units = self.free.get(self.pools[k])
            if units and units[0] > cycle:
                heappush(self.coming, (units[0], rank, k))  # no unit before that
                continue
            if units:
                heappop(units)
                heappush(units, cycle + self.each[k].interval)
            self._begin(k, cycle)
        return tuple(self.start)

    def _begin(self, k: int, cycle: int) -> None:
        self.start[k] = cycle
        for user in self.users[k]:
            self.ready[user] = max(self.ready[user], cycle + self.each[k].latency)
            self.waits[user] -= 1
        self._offer(user for user in self.users[k] if not self.waits[user])

    def _offer(self, tasks: Iterable[int]) -> None:
        for k in tasks:
            heappush(self.coming, (self.ready[k], -self.left[k], k))
