"""The iiwa14 under controllers whose dynamics are in fixed point; the robot itself is in float64.

Computed torque at 1 kHz follows sines with the inverse dynamics; a predictive controller at 100 Hz
goes from target to target with one iteration of iterative LQR a period.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import fixed_loop_trajectories as optimiser
import numpy as np
from fixed_loop_formats import Figures, Job, inverse_jobs

import featherlane as fl
from featherlane.api.model import Model

DT = 1e-3  # s, of the simulation
FREQUENCY = 20.0  # rad/s, of the errors under computed torque, critically damped
SETTLED = 0.5  # s, from which errors count
AVERAGED = 21  # steps: what is faster than their mean is ripple
FEW = range(6, 23, 4)  # bits of one kind of signals
RANGES = {"a": (-128.0, 128.0)}  # rad/s^2
Array = np.ndarray


class Run(NamedTuple):
    """A closed loop of `robots` robots. error, tau: (steps, robots, nv), rad and N m."""

    error: Array
    tau: Array


def ripple(tau: Array) -> float:
    """The root mean square of what is faster than about 25 Hz in torques (steps, ...)."""
    sums = np.cumsum(np.concatenate([np.zeros((1, *tau.shape[1:])), tau]), 0)
    mean = (sums[AVERAGED:] - sums[:-AVERAGED]) / AVERAGED
    half = AVERAGED // 2
    return rms(tau[half : half + len(mean)] - mean)


def rms(x: Array) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


def figures(run: Run, best: Run) -> Figures:
    first = round(SETTLED / DT)
    with np.errstate(all="ignore"):
        yield "error, rms, rad", rms(run.error[first:])
        yield "error over float64, rms, rad", rms((run.error - best.error)[first:])
        yield "error, largest, rad", float(np.abs(run.error[first:]).max())
        yield "ripple, rms, N m", ripple(run.tau[first:])
        yield "torque, largest, N m", float(np.abs(run.tau[first:]).max())


# Computed torque


def sines(model: Model, robots: int) -> Callable[[float], tuple[Array, Array, Array]]:
    """References: q, v and a at a time, of up to 1 rad/s about configurations."""
    rng = np.random.default_rng(3)
    middle = 0.5 * model.random_configuration(robots, seed=rng)
    size, phase = (rng.uniform(*ends, middle.shape) for ends in ((0.2, 0.5), (0, 2 * np.pi)))
    w = rng.uniform(1.0, 6.0, middle.shape)
    return lambda t: (
        middle + size * np.sin(w * t + phase),
        size * w * np.cos(w * t + phase),
        -size * w * w * np.sin(w * t + phase),
    )


def computed_torque(model: Model, inverse: Any, robots: int, seconds: float) -> Run:
    reference = sines(model, robots)
    q, v, _ = reference(0.0)
    rng = np.random.default_rng(4)
    q = q + 0.05 * rng.standard_normal(q.shape)
    errors, taus = [], []
    for step in range(round(seconds / DT)):
        q_wanted, v_wanted, a_wanted = reference(step * DT)
        errors.append(q - q_wanted)
        a = a_wanted - FREQUENCY**2 * errors[-1] - 2.0 * FREQUENCY * (v - v_wanted)
        taus.append(inverse(q, v, a))
        v = v + DT * model.forward_dynamics(q, v, taus[-1])
        q = q + DT * v
    return Run(np.array(errors), np.array(taus))


# Predictive control

PERIOD, HORIZON = 10, 32  # steps of the simulation; knots of optimiser.DT
STAY = 0.6  # s at a target
assert PERIOD * DT == optimiser.DT


def predictive(model: Model, dynamics: optimiser.Dynamics, robots: int, seconds: float) -> Run:
    rng = np.random.default_rng(5)
    q = 0.4 * model.random_configuration(robots, seed=rng)
    stays = round(seconds / STAY)
    goals = [q + rng.uniform(-0.4, 0.4, q.shape) for _ in range(stays)]
    v, held = np.zeros_like(q), model.gravity_torque(q)
    plan = optimiser.roll_out(dynamics, q, lambda t, q, v: held, v, HORIZON)
    errors, taus = [], []
    gains = np.zeros((*plan[2].shape, 2 * model.nv))
    for step in range(round(seconds / optimiser.DT)):
        goal = goals[min(int(step * optimiser.DT / STAY), stays - 1)]
        plan, gains = improved(dynamics, goal, (q, v), plan, gains)
        tau = np.nan_to_num(plan[2][:, 0]).clip(-model.effort_limits, model.effort_limits)
        for _ in range(PERIOD):
            errors.append(q - goal)
            taus.append(tau)
            v = v + DT * model.forward_dynamics(q, v, tau)
            q = q + DT * v
        shift = lambda x: np.concatenate([x[:, 1:], x[:, -1:]], 1)
        plan, gains = tuple(map(shift, plan)), shift(gains)  # type: ignore[assignment]
    return Run(np.array(errors), np.array(taus))


def improved(
    dynamics: optimiser.Dynamics,
    goal: Array,
    start: tuple[Array, Array],
    plan: optimiser.Trajectory,
    gains: Array,
) -> tuple[optimiser.Trajectory, Array]:
    """A plan from where the robots are after one iteration, with its gains."""
    q, v, tau = plan
    with np.errstate(all="ignore"):
        law = lambda t, q_now, v_now: optimiser.follow(t, q, v, tau, gains, q_now, v_now)
        now = optimiser.roll_out(dynamics, start[0], law, start[1], HORIZON)
    cost = optimiser.finite(optimiser.costs(goal, *now))
    now = tuple(map(np.nan_to_num, now))  # type: ignore[assignment]
    A, B = (np.nan_to_num(x) for x in optimiser.linearised(dynamics, *now))
    k, K, _ = optimiser.backward(goal, now, A, B, np.zeros(len(goal)))
    new = optimiser.tried(dynamics, start, now, k, K)
    found = optimiser.finite(optimiser.costs(goal, *new))
    best, rows = found.argmin(0), np.arange(len(goal))
    lower = found[best, rows] < cost
    chosen = lambda x, y: np.where(lower[:, None, None], x[best, rows], y)
    return tuple(map(chosen, new, now)), K  # type: ignore[return-value]


# What is run


def formats(quick: bool) -> list[str]:
    """Those of one for all signals, by bits behind and before the point, and one for each."""
    bits = [2, 4, 6, 8, 9, 10, 11, 12, 14, 16, 20]
    whole, data = [9, 10, 11, 14, 16], [12, 14, 16, 18, 20, 22, 24, 27, 32]
    each = [f"{kind}{n}" for kind in ("fitted", "proved") for n in data]
    every = 4 if quick else 1
    return [*(f"q12.{f}" for f in bits), *(f"q{i}.16" for i in whole), *each][::every]


def torque_jobs(robots: int, seconds: float, quick: bool) -> Iterator[Job]:
    """Computed torque in all formats, then with one kind of signals in few bits."""
    model = fl.load("iiwa14")
    best = cache(lambda: computed_torque(model, model.inverse_dynamics, robots, seconds))

    def run(make: Callable[[], Any]) -> Figures:
        return figures(computed_torque(model, make(), robots, seconds), best())

    yield from inverse_jobs(
        "arm, computed torque", model, RANGES, formats(quick), run, FEW[:: 2 if quick else 1]
    )


def predictive_jobs(robots: int, seconds: float, quick: bool) -> Iterator[Job]:
    """Predictive control with derivatives, and with all dynamics, in all formats."""
    model = fl.load("iiwa14")
    best = cache(lambda: predictive(model, optimiser.exact(model), robots, seconds))

    def run(format: str, whole: bool) -> Figures:
        if format == "float64":
            return figures(best(), best())
        dynamics = optimiser.single(model, whole)
        if format != "float32":
            dynamics, functions = optimiser.in_fixed_point(model, format, whole)
            for f in functions:
                f.function.compile()
        return figures(predictive(model, dynamics, robots, seconds), best())

    few = re.compile(r"q12\.(4|8|12|16)|q16\.16|fitted(20|24|27)|proved32")
    for format in ("float64", "float32", *filter(few.fullmatch, formats(quick))):
        for whole, what in enumerate(optimiser.CASES):
            yield Job(f"arm, predictive, {what}", format, partial(run, format, bool(whole)))
