"""Trajectory optimisation whose dynamics, or their derivatives alone, are computed in fixed point.

The iiwa14 moves from rest to rest: iterative LQR with a line search, for many starts at once, as
Plancher et al. (2021, section IV-C) did for one. The optimiser asks a `Dynamics` for what it needs,
so that only this differs between formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from fixed_loop_formats import AMPLE, KINDS_OF_DERIVATIVES, Figures, Job, few

import featherlane as fl
from featherlane.api.fixed import fixed_function
from featherlane.api.model import Model
from featherlane.functions.table import Variant

DT, KNOTS = 0.01, 64
REACH = 0.55  # of the joints' limits
W_Q, W_V, W_TAU = 1.0, 0.1, 1e-4  # weights of a knot, times dt
END_Q, END_V = 1000.0, 10.0
MOST, SMALL = 30, 1e-8  # iterations; promised decrease, in parts of the cost, that ends them
FIRST, LAST = 1e-3, 1e3  # damping, in mean entries of the Hessian's diagonal
ARRIVED = 0.01  # rad, of all joints at the end
LENGTHS = 0.5 ** np.arange(8)  # of the line search
GRADIENT = "forward_dynamics_derivatives_from"
RANGES: dict[str, dict[str, Any]] = {  # of what the optimiser passes through
    GRADIENT: {"a": (-2048.0, 2048.0)},  # rad/s^2, of the light last link
    "forward_dynamics": {"a": (-2048.0, 2048.0), "tau": (-1024.0, 1024.0)},
    "mass_matrix_inverse": {},
}
CASES = ("derivatives", "all dynamics")  # what is in fixed point
OF_A_KIND = (6, 10, 14, 18)  # bits of one kind of signals of the derivatives
Array = np.ndarray
Trajectory = tuple[Array, Array, Array]  # q and v (..., T + 1, nv), tau (..., T, nv)


class Dynamics(NamedTuple):
    """What the optimiser asks for, of states in rows: accelerations (q, v, tau), M^-1 (q), and the
    derivatives of the accelerations (q, v, a, M^-1).
    """

    acceleration: Callable[[Array, Array, Array], Array]
    inverse: Callable[[Array], Array]
    gradient: Callable[[Array, Array, Array, Array], tuple[Array, Array]]


class Task(NamedTuple):
    """Moves from q0 to goal, each (starts, nv), both at rest."""

    model: Model
    q0: Array
    goal: Array


def task(starts: int) -> Task:
    model, rng = fl.load("iiwa14"), np.random.default_rng(7)
    return Task(model, *(REACH * model.random_configuration(starts, seed=rng) for _ in range(2)))


def exact(model: Model) -> Dynamics:
    return Dynamics(
        model.forward_dynamics,
        model.mass_matrix_inverse,
        lambda q, v, a, minv: model.forward_dynamics_derivatives(q, v, a=a, minv=minv)[:2],
    )


def single(model: Model, whole: bool) -> Dynamics:
    """Derivatives, or all, in float32."""
    own, cast = exact(model), lambda f: lambda *x: f(*(y.astype(np.float32) for y in x))
    numbers = lambda f: lambda *x: cast(f)(*x).astype(np.float64)
    gradient = lambda *x: tuple(y.astype(np.float64) for y in cast(own.gradient)(*x))
    if whole:
        return Dynamics(numbers(own.acceleration), numbers(own.inverse), gradient)
    return own._replace(gradient=gradient)


def in_fixed_point(
    model: Model, format: str, whole: bool, algorithm: str | None = None
) -> tuple[Dynamics, list[Any]]:
    """Derivatives, or all, in a format; with the functions that tell what happened in them.

    algorithm: of the derivatives, "body" for that of the papers.
    """
    made = lambda name, *algorithm: _Counted(_function(model, name, format, *algorithm))
    gradient = made(GRADIENT, algorithm)
    if not whole:
        return exact(model)._replace(gradient=gradient), [gradient]
    all_of_them = made("forward_dynamics"), made("mass_matrix_inverse"), gradient
    return Dynamics(*all_of_them), list(all_of_them)


@lru_cache(maxsize=3)
def _function(model: Model, name: str, format: str, algorithm: str | None = None) -> Any:
    return fixed_function(model, Variant(name), format, RANGES[name], algorithm).saturating()


class _Counted:
    """A function in fixed point, and how many of its states met trouble in all calls."""

    def __init__(self, function: Any) -> None:
        self.function, self.states, self.overflows, self.saturated, self.lost = function, 0, 0, 0, 0

    def __call__(self, *arrays: Array) -> Any:
        results = self.function(*arrays)
        report = self.function.report
        self.states += report.states
        self.overflows += sum(report.overflows.values())
        self.saturated += sum(report.saturated.values())
        self.lost += report.lost
        return results


class Found(NamedTuple):
    """Of each start: the cost of the controls with their gains, in float64; iterations; how far the
    end is from the goal (rad); and the trajectories.
    """

    cost: Array
    iterations: Array
    miss: Array
    q: Array
    v: Array
    tau: Array


def costs(goal: Array, q: Array, v: Array, tau: Array) -> Array:
    """The costs of trajectories (..., T + 1, n), (..., T + 1, n) and (..., T, n)."""
    off = q - goal[..., None, :]
    squares = lambda x: np.einsum("...ti,...ti->...", x, x)
    knots = W_Q * squares(off[..., :-1, :]) + W_V * squares(v[..., :-1, :]) + W_TAU * squares(tau)
    end = END_Q * np.square(off[..., -1, :]).sum(-1) + END_V * np.square(v[..., -1, :]).sum(-1)
    return 0.5 * (DT * knots + end)


def roll_out(
    dynamics: Dynamics,
    q0: Array,
    law: Callable[[int, Array, Array], Array],
    v0: Array | float = 0.0,
    steps: int = KNOTS,
) -> Trajectory:
    """Semi-implicit steps under a law (t, q, v)."""
    q, v = (np.zeros((steps + 1, *q0.shape)) for _ in range(2))
    tau = np.zeros((steps, *q0.shape))
    q[0], v[0] = q0, v0
    for t in range(steps):
        tau[t] = law(t, q[t], v[t])
        a = dynamics.acceleration(q[t], v[t], tau[t])
        v[t + 1] = v[t] + DT * a
        q[t + 1] = q[t] + DT * v[t + 1]
    return tuple(np.moveaxis(x, 0, -2) for x in (q, v, tau))  # type: ignore[return-value]


def linearised(dynamics: Dynamics, q: Array, v: Array, tau: Array) -> tuple[Array, Array]:
    """A (..., T, 2n, 2n) and B (..., T, 2n, n) along trajectories."""
    q, v, n = q[..., :-1, :], v[..., :-1, :], q.shape[-1]
    minv = dynamics.inverse(q)
    by_q, by_v = dynamics.gradient(q, v, dynamics.acceleration(q, v, tau), minv)
    A, B = np.empty((*tau.shape[:-1], 2 * n, 2 * n)), np.empty((*tau.shape[:-1], 2 * n, n))
    one = np.eye(n)
    A[..., n:, :n], A[..., n:, n:], B[..., n:, :] = DT * by_q, one + DT * by_v, DT * minv
    A[..., :n, :n] = one + DT * A[..., n:, :n]
    A[..., :n, n:], B[..., :n, :] = DT * A[..., n:, n:], DT * B[..., n:, :]
    return A, B


def backward(
    goal: Array, trajectory: Trajectory, A: Array, B: Array, damping: Array
) -> tuple[Array, Array, Array]:
    """Steps k (S, T, n), gains K (S, T, n, 2n), promised decreases (S,), by Riccati's recursion."""
    q, v, tau = trajectory
    starts, n = goal.shape
    weights = np.r_[np.full(n, W_Q), np.full(n, W_V)] * DT
    ends = np.r_[np.full(n, END_Q), np.full(n, END_V)]
    x = np.concatenate([q - goal[:, None], v], -1)
    P, p = np.broadcast_to(np.diag(ends), (starts, 2 * n, 2 * n)), ends * x[:, -1]
    k, K = np.empty(tau.shape), np.empty((*tau.shape, 2 * n))
    promised, one = np.zeros(starts), np.eye(n)
    for t in range(tau.shape[1] - 1, -1, -1):
        a, b = A[:, t], B[:, t]
        at, bt = a.swapaxes(1, 2), b.swapaxes(1, 2)
        Pa, Pb = P @ a, P @ b
        g = W_TAU * DT * tau[:, t] + (bt @ p[..., None])[..., 0]
        H = bt @ Pb + W_TAU * DT * one
        scale = np.trace(H, axis1=1, axis2=2) / n
        damped = H + (damping * scale)[:, None, None] * one
        G = bt @ Pa
        both = -np.linalg.solve(damped, np.concatenate([g[..., None], G], -1))
        k[:, t], K[:, t] = both[..., 0], both[..., 1:]
        Kt, kt = K[:, t].swapaxes(1, 2), k[:, t, :, None]
        promised -= ((g[:, None] @ kt) + 0.5 * (kt.swapaxes(1, 2) @ H @ kt))[:, 0, 0]
        more = Kt @ (H @ kt + g[..., None]) + G.swapaxes(1, 2) @ kt
        p = weights * x[:, t] + (at @ p[..., None] + more)[..., 0]
        GK = G.swapaxes(1, 2) @ K[:, t]
        P = np.diag(weights) + at @ Pa + Kt @ H @ K[:, t] + GK + GK.swapaxes(1, 2)
        P = 0.5 * (P + P.swapaxes(1, 2))
    return k, K, promised


def optimise(task: Task, dynamics: Dynamics) -> Found:
    """Minimises the cost from gravity's torques on, and executes what it found in float64."""
    model, S = task.model, len(task.q0)
    held = model.gravity_torque(task.q0)
    q, v, tau = roll_out(dynamics, task.q0, lambda t, q, v: held)
    cost = finite(costs(task.goal, q, v, tau))
    gains = np.zeros((S, KNOTS, model.nv, 2 * model.nv))
    damping, iterations = np.zeros(S), np.zeros(S, int)
    active = np.isfinite(cost)
    for _ in range(MOST):
        at = np.flatnonzero(active)
        if not len(at):
            break
        now = q[at], v[at], tau[at]
        A, B = linearised(dynamics, *now)
        good = np.isfinite(A).all((1, 2, 3)) & np.isfinite(B).all((1, 2, 3))
        A[~good], B[~good] = 0.0, 0.0
        k, K, promised = backward(task.goal[at], now, A, B, damping[at])
        new = tried(dynamics, (now[0][:, 0], now[1][:, 0]), now, k, K)
        found = finite(costs(task.goal[at], *new))  # (lengths, starts)
        best = found.argmin(0)
        rows = np.arange(len(at))
        lower = (found[best, rows] < cost[at]) & good
        for x, y in zip((q, v, tau), new, strict=True):
            x[at[lower]] = y[best, rows][lower]
        gains[at[good]] = K[good]
        cost[at[lower]] = found[best, rows][lower]
        iterations[at] += 1
        damping[at] = np.where(lower, damping[at] * 0.1, np.maximum(30.0 * damping[at], FIRST))
        damping[damping < FIRST] = 0.0
        active[at] = (promised > SMALL * cost[at]) & (damping[at] < LAST)
    return _executed(task, q, v, tau, gains, iterations)


def tried(
    dynamics: Dynamics, start: tuple[Array, Array], now: Trajectory, k: Array, K: Array
) -> Trajectory:
    """The trajectories of all lengths of a step, (lengths, starts, ...)."""
    q, v, tau = now
    q0, v0 = (np.broadcast_to(x, (len(LENGTHS), *x.shape)) for x in start)
    law = lambda t, q_now, v_now: (
        follow(t, q, v, tau, K, q_now, v_now) + (LENGTHS[:, None, None] * k[:, t])
    )
    with np.errstate(all="ignore"):
        return roll_out(dynamics, q0, law, v0, tau.shape[1])


def follow(t: int, q: Array, v: Array, tau: Array, K: Array, q_now: Array, v_now: Array) -> Array:
    off = np.concatenate([q_now - q[:, t], v_now - v[:, t]], -1)
    return tau[:, t] + (K[:, t] @ off[..., None])[..., 0]


def _executed(task: Task, q: Array, v: Array, tau: Array, gains: Array, iterations: Array) -> Found:
    """The controls with their gains on the robot in float64: of exact dynamics the same again."""
    robot = exact(task.model)
    with np.errstate(all="ignore"):
        law = lambda t, q_now, v_now: follow(t, q, v, tau, gains, q_now, v_now)
        done = roll_out(robot, task.q0, law)
        miss = np.abs(done[0][:, -1] - task.goal).max(-1)
        return Found(finite(costs(task.goal, *done)), iterations, miss, *done)


def finite(x: Array) -> Array:
    return np.where(np.isfinite(x), x, np.inf)


# What is run


def formats(every: int) -> list[str]:
    """Those of one for all signals, 8 to 24 bits before the point and 2 to 24 behind it, as far as
    32 bits go, and q12.5; and those of one for each signal. every: bits from one to the next.
    """
    grid = [(i, f) for i in range(8, 25, every) for f in range(24, 1, -every) if i + f <= 32]
    data = [16, 20, 24, 32, 10, 12, 14, 18, 27][: 4 if every > 2 else None]
    return [
        *dict.fromkeys(f"q{i}.{f}" for i, f in [(16, 16), (12, 5), *grid]),
        *(f"fitted{n}/{min(n, 18)}" for n in data),
        *(f"fitted{n}/12" for n in data if n > 12),
        *(f"proved{n}" for n in data if n > 14),
    ]


def jobs(starts: int, every: int) -> Iterator[Job]:
    """Derivatives, and all dynamics, in each format."""
    known = task(starts)
    best = cache(lambda: optimise(known, exact(known.model)))

    def run(format: str, whole: bool, algorithm: str | None = None) -> Figures:
        functions = list[Any]()
        if format == "float64":
            found = best()
        elif format == "float32":
            found = optimise(known, single(known.model, whole))
        else:
            dynamics, functions = in_fixed_point(known.model, format, whole, algorithm)
            found = optimise(known, dynamics)
        return _figures(found, best(), functions)

    yield Job("optimiser", "float64", lambda: _checked(known, best()))
    grid = [(16, 16), *((i, f) for i in (12, 10, 8) for f in (5, 2, 12, 8, 3))]
    for i, f in grid[: 1 if every > 2 else None]:
        yield Job("derivatives, body frames", f"q{i}.{f}", partial(run, f"q{i}.{f}", False, "body"))
    for whole, case in enumerate(CASES):
        for format in ("float64", "float32", *formats(every)):
            yield Job(case, format, partial(run, format, bool(whole)))


def kinds_jobs(starts: int) -> Iterator[Job]:
    """Derivatives in which one kind of signals has few bits."""
    known = task(starts)
    model, best = known.model, cache(lambda: optimise(known, exact(known.model)))

    def run(name: str, bits: int) -> Figures:
        ample = _function(model, GRADIENT, AMPLE)
        gradient = _Counted(few(model, ample, KINDS_OF_DERIVATIVES[name], bits))
        found = optimise(known, exact(model)._replace(gradient=gradient))
        return _figures(found, best(), [gradient])

    for name in KINDS_OF_DERIVATIVES:
        for bits in OF_A_KIND:
            yield Job("derivatives, one kind", f"{name}: {bits}", partial(run, name, bits))


def _checked(task: Task, found: Found) -> Figures:
    """How far the costs are from those of `fl.ilqr`, which minimises the same."""

    def knot(q: Any, v: Any, tau: Any, goal: Any) -> Any:
        parts = zip((W_Q, W_V, W_TAU), (q - goal, v, tau), strict=True)
        return np.concatenate([np.sqrt(DT * w) * x for w, x in parts])

    def end(q: Any, v: Any, goal: Any) -> Any:
        return np.concatenate([np.sqrt(END_Q) * (q - goal), np.sqrt(END_V) * v])

    held = np.repeat(task.model.gravity_torque(task.q0)[:, None], KNOTS, 1)
    parameters = {"goal": task.goal}
    still = np.zeros_like(task.q0)
    own = fl.ilqr(task.model, task.q0, still, held, DT, knot, end, parameters=parameters)
    yield "converged, of fl.ilqr", float(own.converged.mean())
    yield "cost, largest relative difference", float(np.abs(found.cost / own.cost - 1.0).max())


def _figures(found: Found, best: Found, functions: list[Any]) -> Figures:
    more = found.cost / best.cost - 1.0
    yield "share at the goal", float(np.mean(found.miss < ARRIVED))
    yield "share within 1 %", float(np.mean(more <= 0.01))
    yield "cost, median excess", float(np.median(more))
    yield "cost, largest excess", float(np.max(more))
    yield "iterations, median", float(np.median(found.iterations))
    yield "iterations, most", float(np.max(found.iterations))
    yield "miss, median, rad", float(np.median(found.miss))
    for f in functions:
        for figure in ("overflows", "saturated", "lost"):
            yield f"{figure} a state, {f.function.name}", getattr(f, figure) / max(f.states, 1)
