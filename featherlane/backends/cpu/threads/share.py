"""The states of a call spread over threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from featherlane.backends.cpu import strides
from featherlane.backends.cpu.compile import Kernel
from featherlane.backends.cpu.cost_model import Load
from featherlane.backends.cpu.threads.pool import physical_cores, the_team

Evaluator = Callable[..., Any]  # (*arrays, out=) with the broadcasting of a generalised ufunc
SLICES = 4  # for each thread, where a part is a call of Python
LEAST = 8  # states of such a part, if there are as many


class Batch:
    """The arrays of a call, inputs and then results; `cores` are the dimensions of one state's of
    each, `lead` are the leading ones to which inputs broadcast.
    """

    def __init__(
        self,
        inputs: Sequence[np.ndarray],
        results: tuple[np.ndarray, ...],
        cores: Sequence[int],
        lead: tuple[int, ...],
    ) -> None:
        inputs = strides.apart(inputs, results)
        self.inputs, self.results, self.cores, self.lead = inputs, results, cores, lead
        self.arrays = [*inputs, *results]
        self.states = math.prod(lead)

    def steps(self) -> list[int] | None:
        """The strides that a loop over all states takes; None if it cannot."""
        each = list(zip(self.arrays, self.cores, strict=True))
        steps = [strides.step(x, core, self.lead) for x, core in each]
        known = [step for step in steps if step is not None]
        if len(known) < len(steps) or not all(x.flags.aligned for x in self.arrays):
            return None
        return known + [stride for x, core in each for stride in x.strides[x.ndim - core :]]

    def pointers(self) -> list[int]:
        """Where they begin."""
        return [x.__array_interface__["data"][0] for x in self.arrays]


def task_of(kernel: Kernel, load: Load, arrays: int, threads: int | None = None) -> bytes:
    """What the team is told of a kernel: so many threads, or as many as pay."""
    given = kernel.code.address, arrays, load.part()
    if threads is not None:
        return the_team().task(*given, threads, load.width)
    bounds = load.each(), load.alone() + 1
    return the_team().task(*given, physical_cores(), load.width, *bounds)


def spread(batch: Batch, kernel: Kernel, load: Load, threads: int | None = None) -> bool:
    """The states of a kernel by so many threads at most, by default as many as pay; False if its
    loop does not take these arrays. Results have the same bits whatever the parts.
    """
    steps = batch.steps()
    if steps is not None:
        the_team().grow(threads or physical_cores())
        task = task_of(kernel, load, len(batch.arrays), threads)
        the_team().share(task, batch.pointers(), batch.states, steps)
    return steps is not None


def spread_slices(batch: Batch, run: Evaluator, threads: int) -> None:
    """The same for any evaluator, which gets slices along the longest of the leading dimensions."""
    axis = int(np.argmax(batch.lead))
    inputs = zip(batch.inputs, batch.cores, strict=False)
    whole = [np.broadcast_to(x, batch.lead + x.shape[x.ndim - core :]) for x, core in inputs]

    def part(first: int, count: int) -> None:
        at = (slice(None),) * axis + (slice(first, first + count),)
        with np.errstate(all="ignore"):
            run(*[x[at] for x in whole], out=tuple(r[at] for r in batch.results))

    length = batch.lead[axis]
    parts = min(max(length // LEAST, threads), SLICES * threads, length)
    the_team().grow(threads)
    the_team().share_calls(part, length, -(-length // parts), threads)
