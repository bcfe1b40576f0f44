"""Many problems of iterative LQR at once, in a pool of slots.

The pool holds as many problems as fit into the caches. In each round one kernel goes backwards over
the knots, for all slots at a time, and one forwards; a problem that is done leaves its slot to the
next one that waits, so that the lanes of vectors stay full.

Li and Todorov (ICINCO 2004); Tassa, Mansard and Todorov, Control-limited differential dynamic
programming (ICRA 2014); step lengths and their acceptance as in Mastalli et al., Crocoddyl (ICRA
2020), with the merit of Nocedal and Wright, Numerical Optimization (2006), equation 18.27, for
trajectories with gaps: the cost plus a penalty times the size of the gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from featherlane.functions.optimal_control import GATHERED, ControlProblem

LENGTHS = 0.5 ** np.arange(1, 10)  # tried where the whole step is refused
LANDINGS = np.append(LENGTHS[:6], 0.0)  # steps along k that are tried with all gaps closed
RISE = 10.0  # of the cost, at most, for closing all gaps at once, in costs of the trajectory
TRIALS = 16  # at least, of several step lengths if few problems want others
ENOUGH = 0.1  # the part of the expected decrease with which a step is taken
SHORT = 0.01  # a step after which damping grows
LEAST, MOST, FACTOR = 1e-6, 1e8, 10.0  # damping, in mean entries of the diagonal of Quu
LANES = 16  # the slots in use are a multiple of, where lanes hold problems
PENALTY_SHARE = 0.5  # of a decrease of the penalty that the merit decreases by, at least
FLOOR = 1e-6  # of the first cost: what an expected decrease is compared with at least
ROUNDING = 16  # units in the last place of the cost in which two costs are equal
CONVERGED, RUNNING, USED_UP, STUCK, INDEFINITE, NO_START, NO_SLOPE = range(7)
WORDS = (
    "converged",
    "running",
    "iterations used up",
    "stuck: no step lowers the cost",
    "indefinite: no damping makes the Hessian by the controls positive",
    "not finite: the first trajectory or its cost; states= may start from another one",
    "not finite: derivatives of the cost or the step",
)

TURNS = "value", "sums"  # each of which the knots write to two rows in turn
Columns = dict[str, np.ndarray]  # by name: (knots, or 1 for all of them; problems; ...)
Call = tuple[Any, tuple[np.ndarray, ...], Any]  # kernel, inputs, out=


class ControlKernels(NamedTuple):
    """The compiled kernels of a problem. backward: one after another at each knot."""

    backward: tuple[Any, ...]
    end: Any
    forward: Any
    last: Any


def _over_knots(kernel: Any, columns: Mapping[str, Any], knots: slice) -> Iterator[Any]:
    """Returns the inputs of a kernel for each of these knots: the columns of their names."""
    each = (columns[name] for name in kernel.inputs)
    return zip(*[x[knots] if len(x) > 1 else repeat(x[0]) for x in each], strict=False)


def _backwards(
    kernels: ControlKernels, now: Columns, others: Columns, work: Columns, law: Columns
) -> Iterator[Call]:
    """Yields the calls of the Riccati recursion about trajectories, which fills `law`, and
    the first of the two rows of `value` and `sums` in the end. work: those, and what kernels of a
    knot hand on to the next one.
    """
    T = len(now["tau"])
    turns = {name: [work[name][t % 2] for t in range(T + 1)] for name in TURNS}
    columns = {**now, **others, **work, **{name: x[1:] for name, x in turns.items()}}
    written = {**work, **law, **{f"{name}_before": x for name, x in turns.items()}}
    out = tuple(turns[name][T] for name in TURNS)
    yield kernels.end, next(_over_knots(kernels.end, columns, slice(T, None))), out
    at = lambda x, t: x[t] if len(x) > 1 else x[0]
    for t in reversed(range(T)):
        for kernel in kernels.backward:
            inputs = tuple(at(columns[name], t) for name in kernel.inputs)
            yield kernel, inputs, tuple(at(written[name], t) for name in kernel.outputs)


def _forwards(
    kernels: ControlKernels,
    before: Columns,
    others: Columns,
    after: Columns,
    totals: np.ndarray,
    ends: Columns | None = None,
) -> Iterator[Call]:
    """Trials of a law about trajectories `before`: fills `after` behind its first states, and the
    costs in totals[-1]. ends: filled instead of the states of `after`, which are inputs then.
    """
    T = len(after["tau"])
    about = {f"{name}_before": x for name, x in before.items()}
    columns = {**about, **others, **after, "total": totals}
    q, v = (ends or {x: after[x][1:] for x in ("q", "v")}).values()
    more = [after["memory"][1:]] if "memory" in after else []
    more += [after["force"]] if "force" in after else []
    out = zip(after["tau"], q, v, totals[1:-1], *more, strict=True)
    yield from zip(repeat(kernels.forward), _over_knots(kernels.forward, columns, slice(T)), out)
    yield kernels.last, next(_over_knots(kernels.last, columns, slice(T, None))), totals[-1]


def _part(columns: Columns, which: Any) -> Columns:
    return {name: x[:, which] for name, x in columns.items()}


class Work(NamedTuple):
    """The kernels, arrays and options that all problems share."""

    kernels: ControlKernels
    fixed: Columns  # dt, limits, parameters and first gaps of all problems
    iterations: int
    tolerance: float
    threads: int | None

    def run(self, calls: Iterable[Call]) -> None:
        for kernel, inputs, out in calls:
            kernel(*inputs, out=out, threads=self.threads)

    def roll_out(
        self, columns: Columns, which: slice, states: int, ends: Columns | None = None
    ) -> np.ndarray:
        """Fills the columns of these problems, whose first state and tau are inputs, and
        returns their costs. tau is put between its limits. ends: filled with the states in which
        steps end, if all states are inputs.
        """
        tau = columns["tau"].copy()
        _, m, nu = tau.shape
        law = {"k": np.zeros((1, m, nu), tau.dtype), "K": np.zeros((1, m, nu, states), tau.dtype)}
        others = {**_part(self.fixed, which), **law, "length": np.zeros((1, m), tau.dtype)}
        totals = np.zeros((len(tau) + 2, m), tau.dtype)
        about = {**columns, "tau": tau}
        self.run(_forwards(self.kernels, about, others, columns, totals, ends))
        return totals[-1]


class _Promise(NamedTuple):
    """The change of the merit that is expected of a step along k, for each problem, and the cost
    before it. Without gaps the merit is the cost.
    """

    slope: np.ndarray  # of the cost
    curvature: np.ndarray
    cost: np.ndarray
    rounding: np.ndarray  # of the cost
    charge: np.ndarray  # the penalty for the gaps

    def decrease(self, which: Any, length: Any) -> np.ndarray:
        """Returns the decrease of the merit by a step of a length."""
        slope = self.slope[which] - self.charge[which]
        return -length * (slope + 0.5 * length * self.curvature[which])

    def kept(self, which: Any, length: Any, new: np.ndarray) -> np.ndarray:
        """Returns whether a step has lowered the merit enough. new: costs."""
        change = self.cost[which] - new + self.rounding[which] + length * self.charge[which]
        return np.isfinite(new) & (change >= ENOUGH * self.decrease(which, length))


def gap_sizes(gaps: np.ndarray) -> np.ndarray:
    """Returns the sums of the magnitudes of gaps (T, n, states), for each of n problems."""
    return np.abs(gaps.astype(float)).sum((0, 2))


class Pool:
    """The slots, of which the first `active` hold problems: a column each in all arrays."""

    def __init__(
        self,
        problem: ControlProblem,
        work: Work,
        first: Columns,
        cost: np.ndarray,
        which: np.ndarray,
        slots: int,
    ) -> None:
        """first, cost: the first trajectories of all problems; which: those to be solved."""
        self.work, self.first_of, self.cost_of, self.waiting = work, first, cost, which
        T, dtype = len(first["tau"]), first["tau"].dtype
        empty = lambda rows, *core: np.zeros((rows, slots, *core), dtype)
        alike = lambda columns: {x: empty(len(a), *a.shape[2:]) for x, a in columns.items()}
        self.now, self.new, self.fixed = alike(first), alike(first), alike(work.fixed)
        nu = problem.controls
        self.law = {"k": empty(T, nu), "K": empty(T, nu, problem.states)}
        self.chosen = {"damping": empty(1), "length": empty(1)}
        shapes = {"value": problem.value_shape, "sums": (len(GATHERED),)}
        self.values = {name: empty(2, *shape) for name, shape in shapes.items()}
        if problem.large:
            of_knot = problem.sizes.work_shapes
            self.values |= {name: empty(1, *shape) for name, shape in of_knot.items()}
        self.totals = empty(T + 2)
        self.lanes = 1 if problem.large else LANES  # a plan takes one problem after the other
        self.chosen["length"][:] = 1.0
        self.sweeps: tuple[list[Call], ...] = ()
        self.swept, self.active, self.free = 0, slots, np.arange(slots)
        # Of each slot: its problem, its iterations, and what the next step depends on
        self.problem, self.done = np.zeros((2, slots), int)
        self.cost, self.first, self.damping, self.unit = np.zeros((4, slots))
        self.gap, self.penalty = np.zeros((2, slots))  # the gaps' size, and what it costs
        self.tried = np.zeros(slots, bool)  # no damping, which gave no step from where it is

    # Problems come and go

    def load(self) -> bool:
        """Fills free slots with waiting problems. Returns whether there are any problems."""
        which, self.waiting = np.split(self.waiting, [len(self.free)])
        slots, self.free = np.split(np.sort(self.free), [len(which)])
        self._close_up()
        self.problem[slots], self.done[slots], self.tried[slots] = which, 0, False
        self.damping[slots] = self.unit[slots] = self.penalty[slots] = 0.0
        self.cost[slots] = self.first[slots] = self.cost_of[which]
        for mine, all_of_them in ((self.fixed, self.work.fixed), (self.now, self.first_of)):
            for name, x in all_of_them.items():
                mine[name][:, slots] = x[:, which]
        if "gap" in self.fixed:
            self.gap[slots] = gap_sizes(self.fixed["gap"][:, slots])
        return self.active > 0

    def leave(self, slots: np.ndarray) -> None:
        """Frees slots."""
        self.free = np.concatenate([self.free, slots])

    def _close_up(self) -> None:
        """Moves the last problems to free slots, for which none waits."""
        if not len(self.free):
            return
        kept = np.setdiff1d(np.arange(self.active), self.free)
        self.active -= len(self.free)
        slots, self.free = self.free, self.free[:0]
        holes, moved = slots[slots < self.active], kept[kept >= self.active]
        for columns in (self.now, self.fixed):
            for x in columns.values():
                x[:, holes] = x[:, moved]
        numbers = self.problem, self.done, self.cost, self.first, self.damping, self.unit
        for x in (*numbers, self.tried, self.gap, self.penalty):
            x[holes] = x[moved]

    # One iteration

    def _trial(
        self, slots: np.ndarray, lengths: np.ndarray, closed: bool = False
    ) -> tuple[Columns, np.ndarray]:
        """Trajectories with steps of these lengths, and their costs. closed: with all gaps closed,
        whatever the length.
        """
        before, others = _part(self.now, slots), _part({**self.law, **self.fixed}, slots)
        if closed:
            others["gap"][...] = 0.0
        after = {name: x.copy() for name, x in before.items()}
        totals = np.zeros((len(self.totals), len(slots)), self.totals.dtype)
        others["length"] = lengths[None].astype(totals.dtype)
        self.work.run(_forwards(self.work.kernels, before, others, after, totals))
        return after, totals[-1]

    def _sweep(self) -> None:
        """Goes backwards, and forwards with whole steps, over the slots in use."""
        slots = len(self.problem)
        used = min(slots, -(-self.active // self.lanes) * self.lanes)
        if used != self.swept:  # then alone the arrays of all calls change
            part = partial(_part, which=slice(used))
            kernels, law, totals = self.work.kernels, part(self.law), self.totals[:, :used]
            others, values = part({**self.fixed, **self.chosen}), part(self.values)
            both = part(self.now), part(self.new)
            self.sweeps = tuple(
                [
                    *_backwards(kernels, now, others, values, law),
                    *_forwards(kernels, now, {**others, **law}, new, totals),
                ]
                for now, new in (both, both[::-1])
            )
            self.swept = used
        for name in self.new.keys() & {"q", "v", "memory"}:
            self.new[name][0] = self.now[name][0]
        self.work.run(self.sweeps[0])

    def _search(self, promise: _Promise, refused: np.ndarray, length: Any, new: Any) -> None:
        """Tries shorter steps, several at a time if few problems want them, and takes the longest
        that is good enough: fills `length`, the new costs and trajectories.
        """
        k = 0
        while len(refused) and k < len(LENGTHS):
            lengths = LENGTHS[k : k + max(1, TRIALS // len(refused))]
            each, tried = np.repeat(refused, len(lengths)), np.tile(lengths, len(refused))
            trials, costs = self._trial(each, tried)
            good = promise.kept(each, tried, costs).reshape(len(refused), -1)
            taken, first = good.any(1), np.arange(len(refused)) * len(lengths) + np.argmax(good, 1)
            slots, first = refused[taken], first[taken]
            length[slots], new[slots] = tried[first], costs[first]
            for name, x in trials.items():
                self.new[name][:, slots] = x[:, first]
            refused, k = refused[~taken], k + len(lengths)

    def _land(
        self, refused: np.ndarray, length: np.ndarray, new: np.ndarray, landed: np.ndarray
    ) -> np.ndarray:
        """Closes all gaps of problems whose whole step was refused, by the cheapest rollout of
        shorter steps along k: fills `length`, the new costs and trajectories, and `landed`. Returns
        the problems that have no such rollout of a moderate cost.

        Short steps alone leave most of a gap. A horizon that moves on opens others with each plan,
        until the linear problem about them has no meaning: a restoration of feasibility, as filter
        methods do (Nocedal and Wright, Numerical Optimization, section 15.4).
        """
        open_ones = refused[self.gap[refused] > 0.0]
        if not len(open_ones):
            return refused
        count = len(LANDINGS)
        each, tried = np.repeat(open_ones, count), np.tile(LANDINGS, len(open_ones))
        trials, costs = self._trial(each, tried, closed=True)
        costs = np.where(np.isfinite(costs), costs, np.inf).reshape(-1, count)
        best, before = costs.argmin(1), self.cost[open_ones]
        good = costs.min(1) - before <= RISE * np.abs(before)
        slots, picked = open_ones[good], (np.arange(len(open_ones)) * count + best)[good]
        length[slots], new[slots], landed[slots] = tried[picked], costs.ravel()[picked], True
        for name, x in trials.items():
            self.new[name][:, slots] = x[:, picked]
        return np.setdiff1d(refused, slots)

    def _step_on(self, length: np.ndarray) -> None:
        """Makes the new trajectories the present ones, but for steps of length 0."""
        stays = np.flatnonzero(length == 0.0)
        for name, x in self.new.items():
            x[:, stays] = self.now[name][:, stays]
        self.now, self.new, self.sweeps = self.new, self.now, self.sweeps[::-1]

    def _charge(self, slope: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """Raises penalties, where they have to be, until a step that closes gaps lowers the merit.
        Returns what the gaps cost: Nocedal and Wright, Numerical Optimization, equation 18.36.
        """
        n = self.active
        gap, rise = self.gap[:n], slope + 0.5 * np.maximum(curvature, 0.0)
        least = rise / ((1.0 - PENALTY_SHARE) * np.where(gap > 0.0, gap, np.inf))
        self.penalty[:n] = np.fmax(self.penalty[:n], np.where(np.isfinite(least), least, 0.0))
        return self.penalty[:n] * gap

    def _close_gaps(self, length: np.ndarray) -> None:
        """Leaves the part 1 - length of gaps."""
        n = self.active
        self.gap[:n] *= 1.0 - length
        if "gap" in self.fixed:
            gaps = self.fixed["gap"][:, :n]
            gaps *= (1.0 - length).astype(gaps.dtype)[:, None]

    def _damp(self, length: np.ndarray, quiet: np.ndarray, mean: np.ndarray) -> None:
        """Damps the next step more where this one was hardly taken, less where it was long, and not
        at all where this one promised nothing: that may be the damping's fault.
        """
        n = self.active
        damping = self.damping[:n].copy()
        more = np.maximum(FACTOR * damping, LEAST)
        less = np.where(damping > FACTOR * LEAST, damping / FACTOR, 0.0)
        next_one = np.where(length <= SHORT, more, np.where(length > 0.5, less, damping))
        self.damping[:n] = np.where(quiet, 0.0, next_one)
        self.unit[:n] = np.where((mean > 0.0) & np.isfinite(mean), mean, 1.0)
        self.tried[:n] = (self.tried[:n] | (damping == 0.0)) & (length == 0.0)

    def _blind(self, ended: np.ndarray) -> np.ndarray:
        """Returns which of the problems that have ended have feedback that is not finite: at the
        first knot no sum shows that, because its value is that of no other knot.
        """
        blind, gains = np.zeros_like(ended), self.law["K"][:, : self.active]
        blind[ended] = ~np.isfinite(gains[:, ended]).all((0, 2, 3))
        return blind

    def iterate(self) -> tuple[np.ndarray, np.ndarray]:
        """Takes a step of each problem. Returns its status, a number of `WORDS`, and its cost, the
        decrease that was expected of the whole step, the step's length and damping.
        """
        n = self.active
        self.chosen["damping"][0, :n] = (self.damping * self.unit)[:n]
        self._sweep()
        slope, curvature, size, knots, definite = self.values["sums"][0, :n].astype(float).T
        nu, cost, new = self.law["k"].shape[-1], self.cost[:n], self.totals[-1, :n].astype(float)
        rounding = ROUNDING * np.finfo(self.totals.dtype).eps
        charge = self._charge(slope, curvature)
        promise = _Promise(slope, curvature, cost.copy(), rounding * np.abs(cost), charge)
        expected = promise.decrease(slice(None), 1.0)
        broken = (definite < 0.0) | ((definite > 0.0) & ~np.isfinite(expected))
        solved = (definite > 0.0) & ~broken & (expected >= 0.0)
        enough = max(self.work.tolerance, rounding) * np.maximum(
            np.abs(cost), FLOOR * np.abs(self.first[:n])
        )
        small = expected * (1.0 + self.damping[:n]) <= enough
        quiet = solved & small & (self.gap[:n] == 0.0)
        settled = quiet & ((self.damping[:n] == 0.0) | self.tried[:n])
        length = np.where(solved & promise.kept(slice(None), 1.0, new), 1.0, 0.0)
        refused = np.flatnonzero(solved & ~quiet & (length == 0.0))
        landed = np.zeros(n, bool)
        refused = self._land(refused, length, new, landed)
        self._search(promise, refused, length, new)
        moved = np.where(landed, 1.0, length)  # also where gaps alone have closed
        self._step_on(moved)
        self._close_gaps(moved)
        self.cost[:n] = np.where(moved > 0.0, new, cost)
        promised = np.where(solved, expected, np.nan)
        numbers = self.cost[:n], promised, length, self.damping[:n], self.gap[:n]
        history = np.stack(numbers, -1)
        given_up = (self.damping[:n] > MOST) & (moved == 0.0)
        self.done[:n] += 1
        last = self.done[:n] >= self.work.iterations
        unknown = self._blind(given_up | settled | last)
        blind = solved & unknown
        why = np.where(broken | blind, NO_SLOPE, np.where(solved, STUCK, INDEFINITE))
        self._damp(length, quiet, size / (knots * nu))
        status = np.where(last, np.where(unknown, NO_SLOPE, USED_UP), RUNNING)
        status = np.where(given_up, why, status)
        return np.where(settled, np.where(blind, NO_SLOPE, CONVERGED), status), history
