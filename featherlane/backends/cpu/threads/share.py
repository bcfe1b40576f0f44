"""The states of a call shared by the threads of the pool."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from featherlane.backends.cores import physical_cores
from featherlane.backends.cpu import strides
from featherlane.backends.cpu.compile import Kernel
from featherlane.backends.cpu.cost_model import CallCost
from featherlane.backends.cpu.threads.pool import thread_pool
from featherlane.backends.cpu.threads.pool_ir import SharedTask
from featherlane.backends.llvm.records import packed

Evaluator = Callable[..., Any]  # (*arrays, out=) with the broadcasting of a generalised ufunc
SLICES = 4  # parts for each thread, where a part is a call of Python
LEAST = 8  # states of such a part, if there are as many


class CallArrays:
    """The arrays of a call, inputs and then results. cores: the number of dimensions of one state,
    for each array; lead: the leading dimensions, to which inputs broadcast.
    """

    def __init__(
        self,
        inputs: Sequence[np.ndarray],
        results: tuple[np.ndarray, ...],
        cores: Sequence[int],
        lead: tuple[int, ...],
    ) -> None:
        inputs = strides.unaliased(inputs, results)
        self.inputs, self.results, self.cores, self.lead = inputs, results, cores, lead
        self.arrays = [*inputs, *results]
        self.states = math.prod(lead)

    def steps(self) -> list[int] | None:
        """The strides of an inner loop over all states; None if no loop can run on these arrays."""
        pairs = list(zip(self.arrays, self.cores, strict=True))
        steps = [strides.state_stride(x, core, self.lead) for x, core in pairs]
        known = [step for step in steps if step is not None]
        if len(known) < len(steps) or not all(x.flags.aligned for x in self.arrays):
            return None
        return known + [stride for x, core in pairs for stride in x.strides[x.ndim - core :]]

    def pointers(self) -> list[int]:
        """The addresses of the arrays."""
        return [x.__array_interface__["data"][0] for x in self.arrays]


def task_of(kernel: Kernel, cost: CallCost, arrays: int, threads: int | None = None) -> bytes:
    """The record of a kernel that the thread pool reads. threads: the threads that take part, None
    for as many as the cost model chooses.
    """
    each, cold = (cost.each(), cost.alone() + 1) if threads is None else (1, 0)
    kind = kernel.code.address, arrays, thread_pool().address, cost.width, cost.part()
    return packed(SharedTask(*kind, each, cold, threads or physical_cores()))


def spread(call: CallArrays, kernel: Kernel, cost: CallCost, threads: int | None = None) -> bool:
    """Runs a kernel on the states of a call, shared by at most so many threads, by default as many
    as the cost model chooses. Returns False if its loop cannot run on these arrays. Results have
    the same bits for every division of the states.
    """
    steps = call.steps()
    if steps is not None:
        thread_pool().grow(threads or physical_cores())
        task = task_of(kernel, cost, len(call.arrays), threads)
        thread_pool().share(task, call.pointers(), call.states, steps)
    return steps is not None


def spread_slices(call: CallArrays, run: Evaluator, threads: int) -> None:
    """Runs any evaluator on slices along the longest leading dimension, shared by threads."""
    axis = int(np.argmax(call.lead))
    inputs = zip(call.inputs, call.cores, strict=False)
    whole = [np.broadcast_to(x, call.lead + x.shape[x.ndim - core :]) for x, core in inputs]

    def part(first: int, count: int) -> None:
        at = (slice(None),) * axis + (slice(first, first + count),)
        with np.errstate(all="ignore"):
            run(*[x[at] for x in whole], out=tuple(r[at] for r in call.results))

    length = call.lead[axis]
    parts = min(max(length // LEAST, threads), SLICES * threads, length)
    thread_pool().grow(threads)
    thread_pool().share_calls(part, length, -(-length // parts), threads)
