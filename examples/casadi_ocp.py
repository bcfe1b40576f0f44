"""Swings a double pendulum up with weak motors: an optimal control problem in CasADi, solved by
IPOPT, whose dynamics are the package's fourth-order step.

    pip install 'featherlane[casadi]'
    python examples/casadi_ocp.py [--figure casadi_ocp.svg]
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import casadi
import numpy as np

import featherlane as fl
from featherlane.interop.casadi import to_casadi

ROBOT = "double_pendulum"
DT, STEPS = 0.02, 150  # s
HANGING, UPRIGHT = np.array([np.pi, 0.0]), np.zeros(2)  # rad
SHARE = 0.7  # of the torque that holds the first link level with the second one stretched


class Plan(NamedTuple):
    q: np.ndarray  # (STEPS + 1, 2), rad
    v: np.ndarray  # rad/s
    tau: np.ndarray  # (STEPS, 2), N m
    iterations: int
    success: bool


def strongest(robot: fl.Model) -> np.ndarray:
    """The limits of both torques, N m: too little to lift the pendulum without swinging."""
    level = UPRIGHT + np.pi / 2 * np.eye(2)
    return SHARE * np.abs(np.diag(robot.gravity_torque(level)))


def plan(robot: fl.Model) -> Plan:
    """Multiple shooting: states and torques are unknowns, steps are constraints."""
    step = to_casadi(robot, "step", integrator="rk4")
    limits = strongest(robot)
    problem = casadi.Opti()
    q, v = problem.variable(2, STEPS + 1), problem.variable(2, STEPS + 1)
    tau = problem.variable(2, STEPS)
    moved = step.map(STEPS)(q[:, :-1], v[:, :-1], tau, casadi.repmat(DT, 1, STEPS))
    problem.subject_to(casadi.vec(moved[0] - q[:, 1:]) == 0)
    problem.subject_to(casadi.vec(moved[1] - v[:, 1:]) == 0)
    problem.subject_to(q[:, 0] == HANGING)
    problem.subject_to(v[:, 0] == 0)
    problem.subject_to(q[:, -1] == UPRIGHT)
    problem.subject_to(v[:, -1] == 0)
    for i in range(2):
        problem.subject_to(problem.bounded(-limits[i], tau[i, :], limits[i]))
    effort = casadi.sumsqr(tau / casadi.repmat(limits, 1, STEPS))
    smooth = casadi.sumsqr((tau[:, 1:] - tau[:, :-1]) / casadi.repmat(limits, 1, STEPS - 1))
    problem.minimize(DT * (effort + 10 * smooth))
    part = np.linspace(0, 1, STEPS + 1)
    problem.set_initial(q, np.outer(HANGING, 1 - part) + np.outer(UPRIGHT, part))
    quiet = {"print_time": False, "ipopt.print_level": 0, "ipopt.sb": "yes"}
    problem.solver("ipopt", {**quiet, "ipopt.max_iter": 500})
    try:
        found = problem.solve()
    except RuntimeError:  # IPOPT has found no solution: its last iterate tells where it stood
        found = problem.debug
    facts = problem.stats()
    values = (found.value(x).T for x in (q, v, tau))
    return Plan(*values, facts["iter_count"], facts["success"])


def draw(robot: fl.Model, found: Plan, path: str) -> None:
    from featherlane.tools.figures import pyplot, save

    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    time = DT * np.arange(STEPS + 1)
    for i in range(2):
        left.plot(time, found.q[:, i], label=f"joint {i + 1}")
        right.stairs(found.tau[:, i], time, baseline=None, label=f"joint {i + 1}")
        for side in (-1, 1):
            right.axhline(side * strongest(robot)[i], color=f"C{i}", linestyle=":")
    left.set(xlabel="time, s", ylabel="angle, rad")
    right.set(xlabel="time, s", ylabel="torque, N m (dotted: its limits)")
    left.legend()
    save(figure, path, "A swing of a double pendulum within its limits of torque")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--figure", help="draw the motion into this file")
    args = parser.parse_args()
    robot = fl.load(ROBOT)
    found = plan(robot)
    print(f"torques of at most {strongest(robot).round(2)} N m")
    end = robot.rollout(found.q[0], found.v[0], found.tau, DT, integrator="rk4")
    print(f"{'solved' if found.success else 'not solved'} in {found.iterations} iterations")
    print(f"rolled out, it ends {np.abs(end.q[-1] - UPRIGHT).max():.1e} rad from upright")
    if args.figure:
        draw(robot, found, args.figure)


if __name__ == "__main__":
    main()
