"""The search for configurations from several starts, for many targets at once.

A target's result does not depend on the others in the batch: a start is one for all targets or of
one target alone, and a kernel gives the same bits at every place of a batch. So targets may leave
the batch when they are reached, and starts may be tried together where few targets are left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from featherlane.functions.array_like import Threads
from featherlane.functions.function import Function
from featherlane.functions.inverse_kinematics import STEPS

TOGETHER = 128  # problems from which on one call for several starts gains nothing
TILE = 8192  # problems whose numbers stay in the caches from one call to the next
SETTLED = 1e-3  # rad or m: a step below it ends the way to a posture
LAST = 2  # calls from a start without the posture, which may have drawn others into their limits
Starts = Callable[[int, np.ndarray], np.ndarray]  # (which start, rows of targets) -> q of each


class Search:
    """Steps from several starts for all targets; those that are reached leave.

    squares: of the errors that count as converged; rounds: calls from one start; gain: towards a
    posture, 0 if there is none.
    """

    def __init__(
        self, run: Function, squares: np.ndarray, rounds: int, gain: float, threads: Threads
    ) -> None:
        self.run, self.squares, self.rounds, self.threads = run, squares, rounds, threads
        self.gain, self.settled = np.array(gain, squares.dtype), SETTLED**2 if gain else np.inf

    def __call__(self, goals: Sequence[np.ndarray], starts: Starts, attempts: int) -> Ends:
        """Returns the best end of the starts for rows of targets."""
        best = self._unknown(starts(0, np.arange(len(goals[0]))))
        k = 0
        while k < attempts and len(left := np.flatnonzero(~(best.score <= 1))):
            together = min(attempts - k, TOGETHER // len(left)) if k else 1
            together = max(together, 1)
            for first in range(0, len(left), TILE):
                rows = left[first : first + TILE]
                q = np.concatenate([starts(k + j, rows) for j in range(together)])
                again = np.tile(rows, together)
                ends = self._from(q, [_taken(x, again) for x in goals])
                best.take(rows, ends.first_of(together))
            k += together
        return best

    def _unknown(self, q: np.ndarray) -> Ends:
        error = np.full((len(q), len(self.squares)), np.inf, q.dtype)
        return Ends(q, np.full(len(q), np.inf, q.dtype), error, np.zeros(len(q), int))

    def _from(self, q: np.ndarray, goals: list[np.ndarray]) -> Ends:
        """Returns where steps from one start end, for each row."""
        ends, rows = self._unknown(q), np.arange(len(q))
        step = np.zeros((len(q), self.run.inputs["step"][0]), q.dtype)
        for n in range(self.rounds):
            gain = self.gain if n + LAST < self.rounds else np.zeros_like(self.gain)
            q, step, squares = self.run(q, step, gain, *goals, threads=self.threads)
            errors = squares[:, :-1]
            # By columns: along rows of two, NumPy takes a fifth of the kernel's time
            score = reduce(np.maximum, [x / s for x, s in zip(errors.T, self.squares, strict=True)])
            is_last = n == self.rounds - 1
            # On the way to a posture, the last configuration at the target counts
            end = np.flatnonzero((score <= 1) | (is_last & ~(ends.score[rows] <= 1)))
            if len(end):
                steps = np.full(len(end), STEPS * (n + 1))
                ends.put(rows[end], Ends(q[end], score[end], errors[end], steps))
            leaves = (score <= 1) & (squares[:, -1] <= self.settled)
            if is_last or leaves.all():
                break
            if leaves.any():
                stay = np.flatnonzero(~leaves)
                q, step, rows = q[stay], step[stay], rows[stay]
                goals = [_taken(x, stay) for x in goals]
        return ends


def _taken(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns rows of an array, without a copy where all are the same one in memory."""
    return np.broadcast_to(x[0], (len(rows), *x.shape[1:])) if x.strides[0] == 0 else x[rows]


class Ends(NamedTuple):
    """Configurations, their errors: squares, and the largest over the square of its tolerance; and
    the number of steps.
    """

    q: np.ndarray
    score: np.ndarray
    error: np.ndarray
    steps: np.ndarray

    def put(self, rows: np.ndarray, others: Ends) -> None:
        """Replaces rows."""
        for array, other in zip(self, others, strict=True):
            array[rows] = other

    def take(self, rows: np.ndarray, others: Ends) -> None:
        """Replaces rows by better ones; steps add up."""
        self.steps[rows] += others.steps
        better = np.flatnonzero(others.score < self.score[rows])
        steps = self.steps[rows[better]]
        q, score, error, _ = (x[better] for x in others)
        self.put(rows[better], Ends(q, score, error, steps))

    def first_of(self, starts: int) -> Ends:
        """Returns the first start of each target that was successful, or the best one. The starts
        of all targets follow each other.
        """
        if starts == 1:
            return self
        q, score, error, steps = (x.reshape(starts, -1, *x.shape[1:]) for x in self)
        reached = score <= 1
        score = np.where(np.isnan(score), np.inf, score)
        which = np.where(reached.any(0), reached.argmax(0), score.argmin(0))
        last = np.where(reached.any(0), which, starts - 1)
        at = which, np.arange(len(which))
        return Ends(q[at], score[at], error[at], np.cumsum(steps, 0)[last, at[1]])
