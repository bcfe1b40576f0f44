"""Schedules of tasks as data: the cycle in which each task starts, and the processing units.

A schedule does not depend on the method that computed it, and checks itself. Latencies and numbers
of units are tables, which the caller supplies.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from lathrop.tasks import Tasks


class ProcessingUnit(NamedTuple):
    """A processing unit for one kind of task."""

    latency: int  # cycles until the result is ready
    interval: int = 1  # cycles until the unit can start its next task; 1: it is pipelined
    pool: str | None = None  # the pool of units that it belongs to; None: the units of its kind


NOTHING = ProcessingUnit(0, 0)
Units = Mapping[str, ProcessingUnit]


@dataclass(frozen=True)
class TaskSchedule:
    """The cycle in which each task starts, on units by kind."""

    tasks: Tasks
    units: Units
    start: tuple[int, ...]
    counts: Mapping[str, int] = field(default_factory=dict)  # units; else one a task

    def unit(self, k: int) -> ProcessingUnit:
        kind = self.tasks.kinds[k]
        return NOTHING if kind == "input" else self.units[kind]

    def end(self, k: int) -> int:
        """Returns the cycle in which the result of task k is ready."""
        return self.start[k] + self.unit(k).latency

    @property
    def length(self) -> int:
        """The cycles until all tasks are done."""
        return max((self.end(k) for k in range(len(self.tasks))), default=0)

    def busy(self, period: int | None = None) -> dict[str, Counter[int]]:
        """Returns for each pool the units at work in each cycle; with a period, in each cycle of
        the steady state of an initiation interval of `period` cycles.
        """
        units_at_work: dict[str, Counter[int]] = {}
        for k in self.tasks.work():
            unit, pool = self.unit(k), _pool(self.tasks.kinds[k], self.units)
            for cycle in range(self.start[k], self.start[k] + unit.interval):
                units_at_work.setdefault(pool, Counter())[cycle % period if period else cycle] += 1
        return units_at_work

    @property
    def needed(self) -> dict[str, int]:
        """The most units of each pool at work in one cycle."""
        return {pool: max(cycles.values()) for pool, cycles in self.busy().items()}

    @property
    def utilisation(self) -> dict[str, float]:
        """The share of the time in which the units of each pool work. A pool without a count has as
        many units as it needs.
        """
        needed = self.needed
        return {
            pool: cycles.total() / (self.length * self.counts.get(pool, needed[pool]))
            for pool, cycles in self.busy().items()
        }

    def fits(self, period: int) -> bool:
        """Tells whether the units suffice for an initiation interval of `period` cycles."""
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
        """The initiation interval: the fewest cycles from the start of one state to the next."""
        longest = max((self.unit(k).interval for k in self.tasks.work()), default=0)
        for cycles in range(1, self.length + longest):
            if self.fits(cycles):
                return cycles
        return self.length + longest

    def verify(self) -> None:
        """Raises ValueError for the first task that starts before its operands are ready, or the
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
                count = self.counts[pool]
                raise ValueError(f"cycle {cycle} wants {most} units of {pool}: there are {count}")


def _pool(kind: str, units: Units) -> str:
    if kind not in units:
        raise ValueError(f"units has no {kind!r}, which the tasks need: it has {', '.join(units)}")
    return units[kind].pool or kind


def _latencies(tasks: Tasks, units: Units) -> list[int]:
    return [unit.latency for unit in tasks.each(units, NOTHING)]


def _after(tasks: Tasks, takes: list[int]) -> list[int]:
    """Returns for each task the cycles from its start to the end of the last task behind it."""
    remaining = list(takes)
    for k in range(len(tasks) - 1, -1, -1):
        for a in tasks.needs[k]:
            remaining[a] = max(remaining[a], takes[a] + remaining[k])
    return remaining


def asap(tasks: Tasks, units: Units) -> TaskSchedule:
    """Returns the schedule of each task as soon as possible, with as many units as that takes."""
    takes = _latencies(tasks, units)
    start: list[int] = []
    for needs in tasks.needs:
        start.append(max((start[a] + takes[a] for a in needs), default=0))
    return TaskSchedule(tasks, units, tuple(start))


def alap(tasks: Tasks, units: Units, length: int | None = None) -> TaskSchedule:
    """Returns the schedule of each task as late as possible, with all done after `length` cycles,
    by default the fewest possible. Raises ValueError if `length` is too short.
    """
    remaining = _after(tasks, _latencies(tasks, units))
    shortest = max(remaining, default=0)
    if length is not None and length < shortest:
        raise ValueError(f"length is {length}: the longest chain takes {shortest} cycles")
    end = shortest if length is None else length
    return TaskSchedule(tasks, units, tuple(end - cycles for cycles in remaining))


def scheduled(tasks: Tasks, units: Units, counts: Mapping[str, int]) -> TaskSchedule:
    """Returns the schedule of list scheduling: in each cycle the units take the tasks that are
    ready, those with the longest chain of tasks behind them first.

    counts: units in each pool, by default as many as the tasks need. Raises ValueError for
    counts below 1 and for pools without a task.
    """
    pools = {_pool(kind, units) for kind in tasks.kinds if kind != "input"}
    for pool, count in counts.items():
        if pool not in pools or count < 1:
            wanted = f"wanted 1 or more of {', '.join(sorted(pools))}"
            raise ValueError(f"counts has {count} units of {pool!r}: {wanted}")
    return TaskSchedule(tasks, units, _List(tasks, units, counts).run(), dict(counts))


class _List:
    """The state of list scheduling."""

    def __init__(self, tasks: Tasks, units: Units, counts: Mapping[str, int]) -> None:
        self.tasks, self.each = tasks, tasks.each(units, NOTHING)
        self.pools = ["" if kind == "input" else _pool(kind, units) for kind in tasks.kinds]
        self.remaining = _after(tasks, _latencies(tasks, units))
        self.users, self.waits = tasks.users(), [len(needs) for needs in tasks.needs]
        self.ready = [0] * len(tasks)
        self.start = [0] * len(tasks)
        self.free = {pool: [0] * count for pool, count in counts.items()}  # when a unit is free
        self.ready_tasks: list[tuple[int, int, int]] = []  # (ready, -chain behind it, task)

    def run(self) -> tuple[int, ...]:
        self._offer(k for k, waits in enumerate(self.waits) if not waits)
        while self.ready_tasks:
            cycle, rank, k = heappop(self.ready_tasks)
            units = self.free.get(self.pools[k])
            if units and units[0] > cycle:
                heappush(self.ready_tasks, (units[0], rank, k))  # no unit before that
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
            heappush(self.ready_tasks, (self.ready[k], -self.remaining[k], k))
