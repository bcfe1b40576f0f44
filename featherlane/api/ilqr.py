"""Iterative LQR for many problems at once: `featherlane.ilqr`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from featherlane.algorithms.integrators import Integrator
from featherlane.api.model import Model
from featherlane.api.parameter_values import check_not_negative, with_six_entries
from featherlane.backends.cores import physical_cores
from featherlane.errors import one_of, shown
from featherlane.functions.actuation import Actuated, Actuation
from featherlane.functions.arguments import (
    F32,
    TRACED,
    alike,
    is_count,
    lead_of,
    rows,
    threads_asked,
)
from featherlane.functions.array_like import ArrayLike, Hessian, Params, Threads
from featherlane.functions.constraint_inputs import with_constraints
from featherlane.functions.control_costs import Wanted, cost_graphs, zero
from featherlane.functions.control_pool import (
    CONVERGED,
    NO_START,
    RUNNING,
    WORDS,
    Columns,
    ControlKernels,
    Pool,
    Work,
    gap_sizes,
)
from featherlane.functions.ground_inputs import with_ground
from featherlane.functions.large_control import backward_of
from featherlane.functions.optimal_control import (
    OF_ROBOT,
    PARAMETER,
    ControlProblem,
    costs_key,
)
from featherlane.functions.shape_hints import shape_hint
from featherlane.functions.table import DEFAULT_INTEGRATOR
from featherlane.functions.variants import actuation_of, in_order
from featherlane.program.graph import Graph
from featherlane.robot.constraints import Constraints
from featherlane.robot.contact_law import ContactLaw
from featherlane.robot.ground import Ground
from featherlane.robot.parameters import parameter_value

COLUMNS = 32  # of the history at first
SLOTS = 256  # problems of a thread in the pool: their values at two knots stay in the cache
LARGE_SLOTS = 32  # of large robots, of which the derivatives at a knot have to stay there, too
TOLERANCE, TOLERANCE_F32 = 1e-9, 1e-5
TAKEN = ("q", "v", "tau", "force")
HESSIANS = ("gauss_newton", "exact")


class History(NamedTuple):
    """The values of each iteration, each (..., most + 1), where most is the largest number of
    iterations that a problem took; NaN after the end of a problem. The first column belongs to the
    first trajectory.
    """

    cost: np.ndarray
    expected: np.ndarray  # the decrease that the whole step promised; NaN if there was no step
    length: np.ndarray  # the part of the step that was taken; 0 for none
    damping: np.ndarray  # in mean entries of the diagonal of the Hessian by the controls
    gap: np.ndarray  # the sum of the magnitudes of all gaps; 0 for a rollout


class Solution(NamedTuple):
    """The trajectories from `ilqr`, the reasons why it ended, and its history.

    q (..., T + 1, nq), v (..., T + 1, nv), tau (..., T, nu), cost (...), converged (...). status
    (...): "converged", or the reason why not, in words. iterations (...). gains (..., T, nu, 2 nv):
    tau + gains [difference(q, q_now); v_now - v] follows the trajectory; with memory, its changes
    come behind these. history: a `History`. force (..., T, rows): of the constraints, N and N m;
    None without constraints. memory: {name: (..., T + 1, *shape)}, at the knots.

    Examples:
        >>> solution = fl.ilqr(arm, q, v, np.zeros((20, 2)), dt, cost=lambda q, v, tau: tau)
        >>> str(solution.status), solution.gains.shape
        ('converged', (20, 2, 4))
    """

    q: np.ndarray  # (..., T + 1, nq)
    v: np.ndarray  # (..., T + 1, nv)
    tau: np.ndarray  # (..., T, nu)
    cost: np.ndarray  # (...)
    converged: np.ndarray  # (...), bool
    status: np.ndarray  # (...), words: "converged", or why not
    iterations: np.ndarray  # (...), int
    gains: np.ndarray | None  # (..., T, nu, 2 nv): tau + gains [difference(q, q_now); v_now - v]
    history: History
    force: np.ndarray | None = None  # (..., T, rows)
    memory: dict[str, np.ndarray] | None = None  # of the costs, (..., T + 1, *shape) by name


@lru_cache(maxsize=16)
def _compiled(problem: ControlProblem) -> ControlKernels:
    return ControlKernels(backward_of(problem), *map(problem.function, ("end", "forward", "last")))


def _tolerance(asked: float | None, dtype: np.dtype) -> float:
    if asked is None:
        return TOLERANCE_F32 if dtype == F32 else TOLERANCE
    number = isinstance(asked, int | float | np.number) and not isinstance(asked, bool)
    if not number or not 0.0 < asked < math.inf:
        raise ValueError(f"tolerance is {shown(asked)}: wanted a positive number, as 1e-9")
    return float(asked)


def _ranges(actuation: Actuation | None, nu: int) -> np.ndarray:
    """The ranges of the controls (2, nu), outside of which they change nothing."""
    if actuation is None:
        return np.stack([np.full(nu, -np.inf), np.full(nu, np.inf)])
    return np.array([x.control for x in actuation.actuators]).T


def _limits(tau_limits: Any, ranges: np.ndarray) -> dict[str, Any]:
    """The limits as arrays by name; none if there are none."""
    if tau_limits is None and np.isinf(ranges).all():
        return {}
    if tau_limits is None:  # as lists, which follow the dtype of the arrays
        tau_limits = [*ranges[0]], [*ranges[1]]
    try:
        low, high = tau_limits
    except (TypeError, ValueError):
        raise TypeError(
            f"tau_limits is {shown(tau_limits)}: wanted (low, high), each (..., nu)"
        ) from None
    return {"tau_limits[0]": low, "tau_limits[1]": high}


def _guess(states: Any) -> dict[str, Any]:
    """The first guess of all states as arrays by name; none if there is none."""
    if states is None:
        return {}
    pair = [] if isinstance(states, str | Mapping) else states
    try:
        q, v = pair
    except (TypeError, ValueError):
        raise TypeError(
            f"states is {shown(states)}: wanted (q, v), (..., T + 1, nq) and (..., T + 1, nv)"
        ) from None
    return {"states[0]": q, "states[1]": v}


def _check_numbers(arrays: Mapping[str, np.ndarray]) -> None:
    dt = arrays["dt"]
    if not np.all((dt > 0.0) & np.isfinite(dt)):
        raise ValueError(f"dt is {shown(dt)}: wanted positive, finite seconds")
    if "tau_limits[0]" in arrays:
        low, high = arrays["tau_limits[0]"], arrays["tau_limits[1]"]
        if not np.all((low <= high) & (low < np.inf) & (high > -np.inf)):
            raise ValueError(
                "tau_limits has a least control above the largest one, NaN, or no number between: "
                "wanted low <= high, -inf and inf for no limits"
            )


def _check_names(named: Mapping[str, Any]) -> None:
    """Raises for parameters, references and memory that are no arrays by name, or have another's
    name.
    """
    for name, arrays in named.items():
        if not isinstance(arrays, Mapping):
            wanted = "arrays or their shapes by name, {'last': 7}"
            wanted = wanted if name == "memory" else "arrays by name, {'target': ...}"
            raise TypeError(f"{name} is {shown(arrays)}: wanted {wanted}")
        if odd := [x for x in arrays if not isinstance(x, str)]:
            raise TypeError(f"{name} has the name {shown(odd[0])}: wanted a text")
    names = [x for arrays in named.values() for x in arrays]
    if taken := [x for x in names if x in TAKEN or names.count(x) > 1]:
        holders = [name for name, arrays in named.items() if taken[0] in arrays]
        holders += ["the arguments of each cost"] * (taken[0] in TAKEN)
        reason = f"in {' and in '.join(holders)}: wanted a name of its own"
        raise ValueError(f"a parameter is called {taken[0]!r} {reason}")


def _shape_of_memory(name: str, x: Any) -> tuple[int, ...] | None:
    """Returns the shape by which memory is described, a whole number or a tuple of them; None for
    an array of first values. Raises ValueError for sizes below 1.
    """
    sizes = x if isinstance(x, tuple) else (x,)
    if not all(isinstance(n, int | np.integer | np.bool_) for n in sizes):
        return None
    if any(isinstance(n, bool | np.bool_) or n < 1 for n in sizes):
        raise ValueError(
            f"memory {name!r} is {shown(x)}: wanted its shape, whole numbers from 1 on as 7 or "
            "(2, 3), or an array of its first values"
        )
    return tuple(map(int, sizes))


def _columns(
    name: str, x: np.ndarray, lead: tuple[int, ...], knots: int | None = None
) -> np.ndarray:
    """An array of a parameter, (*lead, *shape) or (*lead, knots, *shape), as (1 or knots, B,
    *shape).
    """
    cut = len(lead)
    try:
        whole = np.broadcast_to(x, lead + x.shape[cut:])
    except ValueError:
        whole = None
    if whole is None or x.ndim < cut or (knots and x.shape[cut : cut + 1] != (knots,)):
        sizes = [*map(str, lead), *([str(knots)] if knots else []), "..."]
        reason = "one for each problem" + (" and knot, and for the end" if knots else "")
        raise ValueError(f"{name} has shape {x.shape}, wanted ({', '.join(sizes)}): {reason}")
    flat = whole.reshape(math.prod(lead), *x.shape[cut:])
    return np.moveaxis(flat, 1, 0) if knots else flat[None]


class _Inputs(NamedTuple):
    """The inputs of a call, in one dtype, with the leading dimensions as one."""

    lead: tuple[int, ...]
    q0: np.ndarray  # (B, nq)
    v0: np.ndarray  # (B, nv)
    tau: np.ndarray  # (T, B, nu)
    states: tuple[np.ndarray, ...]  # the guess of all q and v, each (B, T + 1, ...), if any
    fixed: Columns  # by the kernels' names
    shapes: dict[str, tuple[int, ...]]  # of the user's parameters
    memory: dict[str, np.ndarray]  # at the first knot, each (B, *shape)


def _inputs(
    model: Model,
    actuation: Actuation | None,
    state: Mapping[str, Any],
    states: Any,
    tau_limits: Any,
    params: Mapping[str, Any],
    parameters: Mapping[str, Any],
    references: Mapping[str, Any],
    memory: Mapping[str, Any],
) -> _Inputs:
    """Checks the arrays of a call: q0, v0, tau and dt in `state`, the first guess of all states,
    limits, parameters of the robot, those of the costs of a problem and of each knot, and their
    memory or its shapes.
    """
    nu, steps = actuation.controls if actuation else model.nv, rows("tau", state["tau"])
    _check_names({"parameters": parameters, "references": references, "memory": memory})
    guess = _guess(states)
    ranges = _ranges(actuation, nu)
    limits = _limits(tau_limits, ranges)
    label = {x: f"parameter {x!r}" for x in parameters} | {
        x: f"reference {x!r}" for x in references
    }
    described = {x: _shape_of_memory(x, a) for x, a in memory.items()}
    begun = {x: a for x, a in memory.items() if described[x] is None}
    label |= {x: f"memory {x!r}" for x in begun}
    of_costs = {**parameters, **references, **begun}
    named = {label[x]: a for x, a in of_costs.items()}  # which may be called "dt", too
    of_robot = {f"params[{x!r}]": with_six_entries(x, a) for x, a in params.items()}
    dtype, arrays = alike({**state, **guess, **limits, **of_robot, **named})
    if dtype == TRACED:
        raise TypeError(
            "ilqr got traced values: it iterates by value, call it outside of the trace"
        )
    _check_numbers(arrays)
    cores = {"q0": (model.nq,), "v0": (model.nv,), "tau": (steps, nu), "dt": ()}
    sizes = {"states[0]": model.nq, "states[1]": model.nv}
    cores |= {x: (steps + 1, sizes[x]) for x in guess} | dict.fromkeys(limits, (nu,))
    cores |= {f"params[{x!r}]": parameter_value(model, x).shape for x in params}
    explain = partial(shape_hint, model, actuation)
    lead = lead_of([arrays[x] for x in cores], cores, explain)
    whole = {x: np.broadcast_to(arrays[x], lead + core) for x, core in cores.items()}
    flat = {x: whole[x].reshape(math.prod(lead), *core) for x, core in cores.items()}
    columns = {x: _columns(label[x], arrays[label[x]], lead) for x in parameters}
    columns |= {x: _columns(label[x], arrays[label[x]], lead, steps + 1) for x in references}
    fixed = {PARAMETER.format(x): column for x, column in columns.items()} | {
        "dt": flat["dt"][None]
    }
    fixed |= {OF_ROBOT.format(x): flat[f"params[{x!r}]"][None] for x in params}
    if limits:
        ranges = ranges.astype(dtype)
        fixed["limits"] = np.stack([np.clip(flat[x], *ranges) for x in limits], 1)[None]
    shapes_of = {x: shape for x, shape in described.items() if shape is not None}
    first = {x: np.zeros((math.prod(lead), *shape), dtype) for x, shape in shapes_of.items()}
    first |= {x: _columns(label[x], arrays[label[x]], lead)[0] for x in begun}
    if guess:
        states_of = 2 * model.nv + sum(x[0].size for x in first.values())
        fixed["gap"] = np.zeros((steps, math.prod(lead), states_of), dtype)
    shapes = {x: column.shape[2:] for x, column in columns.items()}
    tau = np.ascontiguousarray(np.moveaxis(flat["tau"], 1, 0))
    states = tuple(flat[x] for x in guess)
    return _Inputs(lead, flat["q0"], flat["v0"], tau, states, fixed, shapes, first)


def _note_of_warm_start(error: Exception, inputs: _Inputs) -> None:
    """Adds a sentence to an error of a cost whose memory may be that of all knots of a solution."""
    for name, first in inputs.memory.items():
        if first.ndim > 2 and first.shape[1] == len(inputs.tau) + 1:
            error.add_note(
                f"memory {name!r} is an array {first.shape[1:]} of one problem, as many rows as "
                f"knots: a warm start takes solution.memory[{name!r}][..., 1, :]"
            )


def _of_knots(name: str, array: Any, shape: tuple[int, ...], inputs: _Inputs) -> np.ndarray:
    """An array that comes with constraints, of this shape at a knot, as (T + 1, B, *shape): the
    last entries are those of the last knot.
    """
    entries = np.asarray(array, inputs.tau.dtype)
    wanted = (*inputs.lead, len(inputs.tau), *shape)
    try:
        whole = np.broadcast_to(entries, wanted)
    except ValueError:
        raise ValueError(
            f"{name} has shape {entries.shape}, wanted {wanted}: a row for each knot, and in it "
            "one for each constraint"
        ) from None
    flat = whole.reshape(-1, *wanted[len(inputs.lead) :])
    return np.moveaxis(np.concatenate([flat, flat[:, -1:]], axis=1), 1, 0)


class _Results:
    """Arrays for all problems: their first trajectories, replaced when they end."""

    def __init__(self, problem: ControlProblem, inputs: _Inputs, gains: bool) -> None:
        self.problem, self.inputs, (T, B, nu) = problem, inputs, inputs.tau.shape
        empty = lambda *core: np.zeros((B, *core), inputs.tau.dtype)
        q, v = empty(T + 1, problem.model.nq), empty(T + 1, problem.model.nv)
        self.trajectories = {"q": q, "v": v, "tau": np.moveaxis(inputs.tau, 1, 0).copy()}
        if inputs.memory:
            self.trajectories["memory"] = memory = empty(T + 1, problem.remembered)
            flat = [x.reshape(B, math.prod(x.shape[1:])) for x in inputs.memory.values()]
            memory[:, 0] = np.concatenate(flat, -1)
        if (held := problem.constraints) is not None:
            self.trajectories["force"] = empty(T, held.constraints.rows)
        if inputs.states:
            q[...], v[...] = inputs.states
        q[:, 0], v[:, 0] = inputs.q0, inputs.v0
        self.gains, self.cost = empty(T, nu, problem.states) if gains else None, empty()
        self.status, self.iterations = np.zeros((2, B), int)
        self.history = np.full((B, COLUMNS, len(History._fields)), np.nan)

    @property
    def columns(self) -> Columns:
        return {name: np.moveaxis(x, 0, 1) for name, x in self.trajectories.items()}

    def note(self, which: np.ndarray, done: np.ndarray, entries: np.ndarray) -> None:
        """Adds an iteration of these problems to their history, which grows as it needs to."""
        if len(done) and done.max() >= self.history.shape[1]:
            self.history = np.concatenate([self.history, np.full_like(self.history, np.nan)], 1)
        self.history[which, done] = entries

    def take(self, pool: Pool, slots: np.ndarray, status: np.ndarray) -> None:
        """Keeps the problems of slots, which have ended for these reasons, and frees the slots."""
        which = pool.problem[slots]
        for name, x in self.columns.items():
            x[:, which] = pool.now[name][:, slots]
        if self.gains is not None:
            self.gains[which] = np.moveaxis(pool.law["K"][:, slots], 0, 1)
        self.cost[which], self.status[which] = pool.cost[slots], status
        self.iterations[which] = pool.done[slots]
        pool.leave(slots)

    def solution(self) -> Solution:
        shaped = lambda x: x.reshape(self.inputs.lead + x.shape[1:])
        trajectories: dict[str, Any] = {x: shaped(y) for x, y in self.trajectories.items()}
        if "memory" in trajectories:
            trajectories["memory"] = self.problem.recalled(trajectories["memory"])
        columns = 1 + self.iterations.max(initial=0)
        return Solution(
            **trajectories,
            cost=shaped(self.cost),
            converged=shaped(self.status == CONVERGED),
            status=shaped(np.array(WORDS)[self.status]),
            iterations=shaped(self.iterations),
            gains=None if self.gains is None else shaped(self.gains),
            history=History(*map(shaped, np.moveaxis(self.history[:, :columns], -1, 0))),
        )


def _first_costs(problem: ControlProblem, work: Work, columns: Columns, which: slice) -> np.ndarray:
    """Fills the first trajectories of these problems, or the gaps of those that are a guess, and
    returns their costs.
    """
    if not problem.gaps:
        return work.roll_out(columns, which, problem.states)
    model = problem.model
    assert isinstance(model, Model)
    states = columns["q"][1:], columns["v"][1:]
    q, v = (np.empty_like(x) for x in states)
    cost = work.roll_out(columns, which, problem.states, {"q": q, "v": v})
    away = model.difference(states[0], q, threads=work.threads), v - states[1]
    gaps = work.fixed["gap"][:, which]  # of the memory there is none
    gaps[..., : 2 * model.nv] = np.concatenate(away, -1)
    return np.where(np.isfinite(gaps).all((0, 2)), cost, np.nan)


def _solve(
    problem: ControlProblem,
    work: Work,
    results: _Results,
    slots: int,
    progress: Callable[[int, int], Any],
) -> None:
    count = len(results.cost)
    for k in range(0, count, slots):
        which = slice(k, k + slots)
        part = {name: x[:, which] for name, x in results.columns.items()}
        results.cost[which] = _first_costs(problem, work, part, which)
    results.history[:, 0, 0] = results.cost
    results.history[:, 0, -1] = gap_sizes(work.fixed["gap"]) if problem.gaps else 0.0
    finite = np.isfinite(results.cost)
    results.status[~finite] = NO_START
    ended = int(np.sum(~finite))
    pool = Pool(problem, work, results.columns, results.cost, np.flatnonzero(finite), slots)
    while pool.load():
        status, entries = pool.iterate()
        now = np.arange(pool.active)
        results.note(pool.problem[now], pool.done[now], entries)
        gone = now[status != RUNNING]
        results.take(pool, gone, status[gone])
        ended += len(gone)
        if len(gone):
            progress(ended, count)
    if not finite.any():
        progress(ended, count)


def ilqr(
    model: Model,
    q0: ArrayLike,
    v0: ArrayLike,
    tau: ArrayLike,
    dt: ArrayLike,
    cost: Callable[..., Any] | Graph,
    terminal_cost: Callable[..., Any] | Graph | None = None,
    *,
    parameters: Mapping[str, ArrayLike] | None = None,
    references: Mapping[str, ArrayLike] | None = None,
    memory: Mapping[str, Any] | None = None,
    params: Params = None,
    states: tuple[ArrayLike, ArrayLike] | None = None,
    tau_limits: tuple[ArrayLike, ArrayLike] | None = None,
    integrator: Integrator = DEFAULT_INTEGRATOR,
    actuation: Actuated = None,
    constraints: Constraints | None = None,
    active: ArrayLike | None = None,
    anchors: ArrayLike | None = None,
    ground: Ground | None = None,
    law: ContactLaw | None = None,
    hessian: Hessian = "gauss_newton",
    iterations: int = 100,
    tolerance: float | None = None,
    gains: bool = True,
    threads: Threads = None,
    progress: Callable[[int, int], Any] | None = None,
) -> Solution:
    """Minimises sum_t cost(q_t, v_t, tau_t) + terminal_cost(q_T, v_T) over controls tau, with
    (q, v)_{t+1} = model.step(...), for each problem of the leading dimensions.

    Leading dimensions broadcast; if all arrays are float32, results are float32. q0, v0, tau, dt,
    states, tau_limits and params define the number of problems: if they define a single problem,
    all dimensions of a parameter of a cost belong to it. Iterative LQR uses first derivatives of
    the step.

    Raises ValueError and TypeError that name the argument; `Solution.status` says why a problem
    failed.

    Arguments:
        model: the robot
        q0: (..., nq), rad or m. The initial configuration
        v0: (..., nv), rad/s or m/s. The initial velocity
        tau: (..., T, nu), N m or N. The initial controls, such as zeros or an earlier solution
        dt: (...), s. The length of a step: one, or one for each problem
        cost: a function (q, v, tau, **arrays) that `trace` accepts, or a graph from `trace`, which
            saves some milliseconds per call. It gets the parameters and references whose names are
            among its arguments, and as `force` the forces of constraints (rows,) in the step from
            its knot, 0 where they are not active
        terminal_cost: a function (q, v, **arrays), or a graph; None: no cost
        parameters: {name: (..., *shape)}, one for each problem; None: no parameters
        references: {name: (..., T + 1, *shape)}, one for each problem and knot; None: no references
        memory: {name: first values (..., *shape)}, or shapes as 7 or (2, 3) of arrays of zeros,
            that costs read by name and the cost of a knot renews: it returns (residuals, {name:
            next value}); None: no memory
        params: parameters of the robot, as in `Model.step`: one set for all problems, or one for
            each; None: the model's
        states: (q, v), a first guess of the trajectory (..., T + 1, nq) and (..., T + 1, nv), such
            as the initial state at all knots, from which tau need not lead from knot to knot: steps
            close the gaps between them. q0 and v0 take the place of the first rows. None: the
            rollout of tau, which diverges if an arm falls for long
        tau_limits: the smallest and the largest control, each (..., nu); None: the limits of the
            actuators, which `Model.step` enforces in any case
        integrator: as in `Model.step`
        actuation: as in `Model.step`; None: tau are joint forces
        constraints: as in `Model.step`; None: no constraints
        active: (..., T, n), 1 or 0. Which constraints hold at each knot; None: all
        anchors: (..., T, n, 7), m and quaternion. Where constraints hold in the world; None: no
            errors of position
        ground: as in `Model.step`, without constraints beside it. Derivatives say nothing of
            contacts that a larger change would close; a first guess that stands is better than one
            that falls. None: no ground
        law: as in `Model.step`; `fl.Coulomb(erp=1.0)` has no kink at rest (docs/ground.md). None:
            `fl.Coulomb()`
        hessian: "gauss_newton" for costs that return an array of residuals r, whose cost is |r|^2 /
            2 with the Hessian J^T J; "exact" for costs that return a number or residuals, with the
            exact Hessian, damped where it is indefinite
        iterations: the largest number of iterations
        tolerance: a problem has converged when the expected decrease of the cost in a step is at
            most this fraction of the cost, or of a millionth of the first cost. A large constant in
            a cost therefore ends the problem early. None: 1e-9 (float32: 1e-5)
        gains: whether feedback gains are returned, T nu 2 nv numbers for each problem
        threads: largest number of threads; None: as many cores as save time
        progress: a function (done, problems) that is called when problems end; None: no calls

    Examples:
        >>> effort, rest = lambda q, v, tau: 0.1 * tau, lambda q, v: v
        >>> still = fl.ilqr(arm, q, v, np.zeros((20, 2)), dt, cost=effort, terminal_cost=rest)
        >>> bool(still.converged), still.tau.shape
        (True, (20, 2))
    """
    if not isinstance(model, Model):
        raise TypeError(f"model is {shown(model)}: wanted a featherlane.Model")
    if hessian not in HESSIANS:
        raise ValueError(f"hessian is {shown(hessian)}: {one_of(hessian, HESSIANS)}")
    if not is_count(iterations):
        raise ValueError(f"iterations is {shown(iterations)}: wanted a whole number, 1 or more")
    if progress is not None and not callable(progress):
        reason = "wanted a function of (problems that have ended, problems)"
        raise TypeError(f"progress is {shown(progress)}: {reason}")
    actuation = actuation_of(model, actuation)
    held, arrays_held = with_constraints(constraints, active, anchors)
    of_step: dict[str, Any] = held._asdict() if held else {}
    on_ground, _ = with_ground(ground, law)
    if on_ground is not None:
        if held is not None:
            raise ValueError("constraints are given beside a ground: wanted one of them in ilqr")
        of_step = {"ground": ground, "law": law}
    of_robot, changed = in_order(params), params or {}
    model.function("step", integrator=integrator, actuation=actuation, params=of_robot, **of_step)
    check_not_negative(model, "step", changed)
    state, count = {"q0": q0, "v0": v0, "tau": tau, "dt": dt}, threads_asked(threads)
    named = changed, *({} if x is None else x for x in (parameters, references, memory))
    inputs = _inputs(model, actuation, state, states, tau_limits, *named)
    computed = {} if held is None else {"force": (held.constraints.rows,)}
    for (name, shape), array in zip(held.shapes.items() if held else (), arrays_held, strict=True):
        inputs.fixed[name] = _of_knots(name, array, shape, inputs)
    sizes = {"q": model.nq, "v": model.nv, "tau": inputs.tau.shape[-1]}
    shapes = {x: first.shape[1:] for x, first in inputs.memory.items()}
    kind = hessian == "exact", bool(inputs.lead)
    wanted = Wanted(sizes, inputs.shapes, computed, shapes, *kind)
    try:
        costs = cost_graphs(cost, zero if terminal_cost is None else terminal_cost, wanted)
    except (TypeError, ValueError) as error:
        _note_of_warm_start(error, inputs)
        raise
    options = integrator, actuation, "limits" in inputs.fixed, hessian == "exact"
    key, gaps = costs_key(*costs), states is not None
    more = held, gaps, of_robot, tuple(shapes.items())
    problem = ControlProblem(model, *options, key, costs[0], costs[1], *more, ground=on_ground)
    least = _tolerance(tolerance, inputs.tau.dtype)
    work = Work(_compiled(problem), inputs.fixed, int(iterations), least, count)
    most = LARGE_SLOTS if problem.large else SLOTS
    slots = max(1, min(len(inputs.q0), most * (count or physical_cores())))
    results = _Results(problem, inputs, gains)
    with np.errstate(all="ignore"):  # the status says what is not finite
        _solve(problem, work, results, slots, progress or (lambda ended, count: None))
    return results.solution()
