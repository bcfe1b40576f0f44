"""The closed loop: the plan of one iteration after the other, followed by the joints' controllers.

Between two plans the joints get the planned torques and are held near the planned angles and
speeds by proportional and derivative terms, as whole-body controllers do in practice. A plan that
was computed from the state at time t is followed from t + delay on, where `delay` is a fixed or
measured time of an iteration, and the next iteration begins then.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from plan import Plan
from plant import TIMESTEP, Plant
from robot import HAND
from solver import Solver

STIFFNESS, DAMPING = 150.0, 6.0  # N m/rad and N m s/rad
PUSH = 40.0  # N for 0.2 s every 2 s


class Record(NamedTuple):
    """The results of a run, at the times of iterations."""

    time: np.ndarray
    base: np.ndarray  # (n, 3)
    base_wanted: np.ndarray  # (n,) along x
    hand: np.ndarray  # (n, 3)
    hand_wanted: np.ndarray  # (n, 3)
    rates: np.ndarray  # of control steps a second
    fallen: bool

    @property
    def stood(self) -> float:
        """Seconds until the robot fell, or all."""
        return float(self.time[-1])

    @property
    def speed(self) -> float:
        """The mean speed forwards after the first two seconds, in m/s."""
        after = self.time > 2.0
        way, times = self.base[after, 0], self.time[after]
        return float((way[-1] - way[0]) / (times[-1] - times[0])) if after.sum() > 1 else np.nan

    @property
    def hand_error(self) -> float:
        """Its root mean square after the first two seconds, in metres."""
        after = self.time > 2.0
        error = self.hand[after] - self.hand_wanted[after]
        return float(np.sqrt(np.mean(np.sum(error * error, 1)))) if after.any() else np.nan


def follow(plan: Plan, t: float, angles: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    """Torques at time t."""
    k, s = plan.place(t)
    q = plan.q[k, 7:] + s * (plan.q[k + 1, 7:] - plan.q[k, 7:])
    v = plan.v[k, 6:] + s * (plan.v[k + 1, 6:] - plan.v[k, 6:])
    return plan.u[k] + STIFFNESS * (q - angles) + DAMPING * (v - speeds)


def closed_loop(
    solver: Solver,
    plant: Plant,
    seconds: float,
    period: float | None = None,
    pushes: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> Record:
    """Runs until the time is over or the robot has fallen.

    period: seconds between plans; without it, the running median of the measured times of
    iterations, rounded up to the plant's steps.
    """
    model, task = solver.model, solver.formulation.task
    q, v = plant.state()
    plan = solver.first_plan(0.0, q, v)
    for _ in range(3):
        plan = solver.iterate(plan, 0.0, q, v)
    rows: list[tuple[np.ndarray, ...]] = []
    told = 0.0
    while plant.time < seconds and not plant.fallen():
        begin = plant.time
        q, v = plant.state()
        new = solver.iterate(plan, begin, q, v)
        taken = statistics.median(sum(each.values()) for each in solver.times[-51:])
        steps = max(1, int(np.ceil((taken if period is None else period) / TIMESTEP - 1e-9)))
        for _ in range(steps):
            t = plant.time
            on = pushes and t > 2.0 and t % 2.0 < 0.2
            plant.step(follow(plan, t, *plant.joints()), PUSH * on * plant.pushes[int(t / 2)])
        plan = new
        at = np.array(begin)
        way = task.forward(at)[0]
        wanted = solver.formulation.hand_place + task.hand(at) + [way, 0.0, 0.0]
        hand = model.frame_placement(q, HAND)[:3, 3]
        rows.append((at, q[:3], way, hand, wanted, np.array(1 / (steps * TIMESTEP))))
        if begin >= told:
            off = np.linalg.norm(hand - wanted)
            say(f"{begin:5.2f} s: base {q[:3].round(3)}, hand off by {off:.3f} m")
            told += 1.0
    return Record(*(np.array(column) for column in zip(*rows, strict=True)), plant.fallen())
