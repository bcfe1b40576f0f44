"""When the results of a batch of serial sub-tasks are there: a pipeline, and the link to memory.

Each task is a knot whose sub-tasks, the stages of a step in time, follow one another: a stage is
ready a while after the results of the one before are out of the pipeline (Dadu-RBD 2023, figure
13). The pipeline takes a sub-task every `interval` cycles, in the order in which they are ready,
and gives its results `latency` cycles later, which then take the link in turn with inputs.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import cache
from math import ceil
from typing import NamedTuple

LINK = 32.0  # bytes a nanosecond, as Dadu-RBD (2023) has
WORD = 4  # bytes


class Times(NamedTuple):
    """Of a pipeline: cycles, and the nanoseconds of one."""

    interval: int
    latency: int
    clock: float = 8.0

    def seconds(
        self, tasks: int, words: tuple[int, int], stages: int = 1, turn: int = 0,
        derivatives: bool = True,
    ) -> float:  # fmt: skip
        """From the first input to the last result, as `scheduled`; the pipeline computes
        derivatives with every acceleration.
        """
        return seconds(self, tasks, words, stages, turn)


class SubTask(NamedTuple):
    """A stage that entered the pipeline in a cycle, and the nanoseconds until its results were in
    memory.
    """

    task: int
    stage: int
    entered: int
    done: float


def scheduled(
    times: Times, tasks: int, words: tuple[int, int], stages: int = 1, turn: int = 0
) -> Iterator[SubTask]:
    """Yields the stages of tasks that are asked for at once, in the order in which they entered.

    words: of a task's inputs, and of the results of each of its stages. turn: cycles from the
    results of a stage to the inputs of the next one, which do not leave the device.
    """
    moved_in, moved_out = (WORD * count / LINK for count in words)
    link = 0.0  # ns from which on it is free
    free = 0  # the first cycle of the pipeline in which no task enters
    waiting = [(0.0, k, 0, "inputs", 0) for k in range(tasks)]
    while waiting:
        time, task, stage, wants, entered = heapq.heappop(waiting)
        if wants == "pipeline":
            entered = max(ceil(time / times.clock - 1e-9), free)
            free, out = entered + times.interval, entered + times.latency
            heapq.heappush(waiting, (out * times.clock, task, stage, "results", entered))
            if stage + 1 < stages:
                ready = (out + turn) * times.clock
                heapq.heappush(waiting, (ready, task, stage + 1, "pipeline", 0))
            continue
        link = max(time, link) + (moved_in if wants == "inputs" else moved_out)
        if wants == "inputs":
            heapq.heappush(waiting, (link, task, stage, "pipeline", 0))
        else:
            yield SubTask(task, stage, entered, link)


@cache
def seconds(
    times: Times, tasks: int, words: tuple[int, int], stages: int = 1, turn: int = 0
) -> float:
    """From the first input to the last result."""
    return 1e-9 * max(x.done for x in scheduled(times, tasks, words, stages, turn))
