"""Derivatives of recorded calls along directions, as recorded calls: forward mode.

The step that a call applies becomes one that gives the derivatives of its results as well, from
directions of the values that it reads. Which of those have a direction is part of which step it is:
what does not depend on the variables is computed as it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from featherlane.program.calls import OUT, VALUES, Calls, Step
from featherlane.program.derivatives.graphs import alongside

STILL = -1  # in place of the number of a direction: it is zero


class _Derived(NamedTuple):
    """A step with derivatives. A derivative is an entry of what the call gives (made, at), or of
    what it reads (passed, read).
    """

    step: Step
    made: np.ndarray
    at: np.ndarray
    passed: np.ndarray
    read: np.ndarray


def _derived(step: Step, moving: np.ndarray) -> _Derived:
    graph, places = alongside(step.graph, OUT, VALUES, np.flatnonzero(moving).tolist())
    found = [(i, *place) for i, place in enumerate(places) if place is not None]
    pairs = [
        np.array([(i, at) for i, where, at in found if where == which], int).reshape(-1, 2)
        for which in (OUT, VALUES)
    ]
    size = math.prod(graph.outputs[OUT].shape)
    return _Derived(Step(step.name, graph, size), *pairs[0].T, *pairs[1].T)


class _Tangent:
    """Numbers of the new calls, for each scalar of the old ones: its own, and its direction's."""

    def __init__(self, calls: Calls, wrt: Sequence[str], suffix: str) -> None:
        self.calls = calls
        self.own = np.full(calls.size, STILL)
        self.along = np.full(calls.size, STILL)
        self.inputs = dict(calls.inputs)
        self.size = sum(math.prod(shape) for _, shape in calls.inputs.values())
        self.own[: self.size] = np.arange(self.size)
        for name in wrt:
            first, shape = calls.inputs[name]
            self.inputs[name + suffix] = self.size, shape
            n = math.prod(shape)
            self.along[first : first + n] = np.arange(self.size, self.size + n)
            self.size += n
        self.steps: list[Step] = []
        self.order: list[tuple[int, int]] = []
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._derived: list[_Derived] = []

    def add(self, s: int, c: int) -> None:
        """One call after another."""
        step, reads = self.calls.steps[s], np.array(self.calls.steps[s].values[c], int)
        along = self.along[reads]
        moving = along != STILL
        number = self._number(s, moving)
        derived = self._derived[number]
        read = np.concatenate([self.own[reads], along[moving]])
        first = step.first[c]
        self.own[first : first + step.size] = self.size + np.arange(step.size)
        self.along[first + derived.made] = self.size + derived.at
        self.along[first + derived.passed] = read[derived.read]
        new = derived.step
        self.order.append((number, len(new.first)))
        new.values.append(read.tolist())
        new.constants.append(step.constants[c])
        new.first.append(self.size)
        self.size += new.size

    def _number(self, s: int, moving: np.ndarray) -> int:
        key = s, moving.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self.steps)
            self._derived.append(_derived(self.calls.steps[s], moving))
            self.steps.append(self._derived[-1].step)
        return self._numbers[key]


def tangent(calls: Calls, wrt: Sequence[str], suffix: str = "_direction") -> Calls:
    """The calls with derivatives: inputs named in wrt have a further input "<name>_direction" of
    the same shape behind all others, every result a further one "<name>_direction", the derivative
    along them.
    """
    new = _Tangent(calls, wrt, suffix)
    for s, c in calls.order:
        new.add(s, c)
    results = {}
    for name, (shape, flat) in calls.results.items():
        results[name] = shape, [int(new.own[x]) if isinstance(x, int) else x for x in flat]
    for name, (shape, flat) in calls.results.items():
        along = [int(new.along[x]) if isinstance(x, int) else STILL for x in flat]
        results[name + suffix] = shape, [0.0 if k == STILL else k for k in along]
    return Calls(new.inputs, new.steps, new.order, results, new.size)
