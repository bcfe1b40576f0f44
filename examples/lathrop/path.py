"""The critical path of a graph, and the earliest time of each result.

Resources are unlimited, so that results wait for nothing but their operands. Latencies are a table
from kinds of operations to numbers, which the caller supplies.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lathrop.tasks import Tasks

Latency = Mapping[str, float]
STEPS: Latency = {"mul": 1, "add": 1}  # a multiplication and an addition take one step each


class Path(NamedTuple):
    """A longest chain of tasks: the time of its result, its tasks in order, and their kinds."""

    length: float
    tasks: tuple[int, ...]
    kinds: Counter[str]

    @property
    def pair(self) -> tuple[int, int]:
        """The numbers of multiplications and additions in the chain."""
        return self.kinds["mul"], self.kinds["add"]


def availability(
    tasks: Tasks, latency: Latency = STEPS, arrival: Mapping[str, float] | None = None
) -> list[float]:
    """Returns the time of each task's result, -inf for a task that depends on no input.

    arrival: the times of inputs, by name; 0 by default, and -inf for an input that nothing
    waits for. Raises ValueError for a kind without a latency and for an unknown input.
    """
    arrival, each = arrival or {}, tasks.each(latency, 0)
    pairs = zip(tasks.kinds, tasks.names, strict=True)
    inputs = {name for kind, name in pairs if kind == "input"}
    if unknown := sorted(arrival.keys() - inputs):
        known = ", ".join(sorted(inputs)) or "none"
        raise ValueError(f"no input {unknown[0]!r} is needed: there are {known}")
    times: list[float] = []
    for kind, name, needs, takes in zip(tasks.kinds, tasks.names, tasks.needs, each, strict=True):
        start = arrival.get(name, 0) if kind == "input" else _latest(times, needs)
        times.append(start + takes)
    return times


def _latest(times: Sequence[float], which: Sequence[int]) -> float:
    return max((times[k] for k in which), default=-math.inf)


def critical_path(
    tasks: Tasks,
    latency: Latency = STEPS,
    arrival: Mapping[str, float] | None = None,
    output: str | None = None,
) -> Path:
    """Returns the longest chain from an input to any output, or to `output`; of chains of one
    length the chain through the earlier tasks. The other arguments are those of `availability`.
    """
    times = availability(tasks, latency, arrival)
    if output is None:
        ends = [k for nodes in tasks.results.values() for k in nodes]
    elif output in tasks.results:
        ends = list(tasks.results[output])
    else:
        raise ValueError(f"no output {output!r}: there are {', '.join(tasks.results) or 'none'}")
    if _latest(times, ends) == -math.inf:
        return Path(-math.inf, (), Counter())
    last = max(ends, key=lambda k: times[k])
    chain = [last]
    while needs := tasks.needs[chain[-1]]:
        chain.append(max(needs, key=lambda k: times[k]))
    done = [k for k in reversed(chain) if tasks.kinds[k] != "input"]
    return Path(times[last], tuple(done), Counter(tasks.kinds[k] for k in done))
