"""The package's dynamics inside of crocoddyl: action models in Python, the first of which takes A
and B of all knots in one call. It pays for fourth-order steps. For Euler's, calls from C++ into
Python take more than the dynamics save; `fl.ilqr` solves many problems fast.

    pip install crocoddyl==3.2.1 pin==4.0.0 libpinocchio==4.0.0
    python examples/crocoddyl_dynamics.py
"""

from __future__ import annotations

import argparse
from importlib.resources import files
from time import process_time
from typing import Any

import crocoddyl
import numpy as np
import pinocchio as pin

import featherlane as fl

ROBOT, KNOTS, DT = "iiwa14", 64, 0.01
START, GOAL = np.zeros(7), np.array([0.5, 0.6, -0.4, -0.8, 0.3, 0.5, 0.2])
WEIGHTS = {"q": 1.0, "v": 0.1, "tau": 1e-3}  # of squares; at the end 100 times those of the state
METHODS = {"semi_implicit": "Euler", "rk4": "RK4"}  # crocoddyl's RK4 has costs of its stages, too


class Knots:
    """All knots of a problem: their derivatives, computed when the first one is asked for its own.

    crocoddyl gives an action model its own state only, so that the others' come from the solver.
    """

    def __init__(self, arm: fl.Model, integrator: str) -> None:
        self.arm, self.integrator = arm, integrator
        self.solver: Any = None
        self.A: Any = None
        self.B: Any = None

    def linearise(self) -> None:
        x, u = np.array(list(self.solver.xs))[:-1], np.array(list(self.solver.us))
        found = self.arm.linearize_step(x[:, :7], x[:, 7:], u, DT, integrator=self.integrator)
        self.A, self.B = found.A, found.B


class Action(crocoddyl.ActionModelAbstract):
    """A knot, k of them before it; the last one (k = KNOTS) has no control."""

    def __init__(self, state: Any, knots: Knots, k: int) -> None:
        self.last = k == KNOTS
        super().__init__(state, 0 if self.last else 7)
        self.knots, self.k = knots, k
        scale = 100 if self.last else DT
        self.weights = scale * np.repeat([WEIGHTS["q"], WEIGHTS["v"]], 7)

    def calc(self, data: Any, x: np.ndarray, u: Any = None) -> None:
        error = x - np.append(GOAL, np.zeros(7))
        data.cost = 0.5 * error @ (self.weights * error)
        data.xnext = x
        if not self.last and u is not None:
            data.cost += 0.5 * DT * WEIGHTS["tau"] * u @ u
            knots = self.knots
            moved = knots.arm.step(x[:7], x[7:], u, DT, integrator=knots.integrator)
            data.xnext = np.concatenate(moved)

    def calcDiff(self, data: Any, x: np.ndarray, u: Any = None) -> None:
        data.Lx = self.weights * (x - np.append(GOAL, np.zeros(7)))
        data.Lxx = np.diag(self.weights)
        if not self.last and u is not None:
            if self.k == 0:
                self.knots.linearise()
            data.Fx, data.Fu = self.knots.A[self.k], self.knots.B[self.k]
            data.Lu, data.Luu = DT * WEIGHTS["tau"] * u, DT * WEIGHTS["tau"] * np.eye(7)


def ours(state: Any, integrator: str) -> Any:
    """A solver with the package's dynamics."""
    arm = fl.load(ROBOT).with_physics(damping=0.0)  # crocoddyl has none
    knots = Knots(arm, integrator)
    actions = [Action(state, knots, k) for k in range(KNOTS + 1)]
    start = np.append(START, np.zeros(7))
    solver = crocoddyl.SolverDDP(crocoddyl.ShootingProblem(start, actions[:-1], actions[-1]))
    knots.solver = solver
    return solver


def theirs(state: Any, integrator: str) -> Any:
    """A solver with crocoddyl's own models, of the same problem."""
    actuation = crocoddyl.ActuationModelFull(state)

    def action(scale: float, last: bool) -> Any:
        costs = crocoddyl.CostModelSum(state, 7)
        squares = crocoddyl.ActivationModelWeightedQuad(
            scale * np.repeat([WEIGHTS["q"], WEIGHTS["v"]], 7)
        )
        goal = crocoddyl.ResidualModelState(state, np.append(GOAL, np.zeros(7)), 7)
        costs.addCost("state", crocoddyl.CostModelResidual(state, squares, goal), 1.0)
        if not last:
            effort = crocoddyl.CostModelResidual(state, crocoddyl.ResidualModelControl(state, 7))
            costs.addCost("effort", effort, WEIGHTS["tau"])
        free = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)
        if integrator == "rk4" and not last:
            return crocoddyl.IntegratedActionModelRK(free, crocoddyl.RKType.four, DT)
        return crocoddyl.IntegratedActionModelEuler(free, 0.0 if last else DT)

    start = np.append(START, np.zeros(7))
    problem = crocoddyl.ShootingProblem(start, [action(1, False)] * KNOTS, action(100, True))
    problem.nthreads = 1
    return crocoddyl.SolverDDP(problem)


def solved(make: Any, state: Any, integrator: str) -> tuple[float, int, float]:
    """Returns the cost, the iterations and ms an iteration; compiled before."""
    for _ in range(2):
        solver = make(state, integrator)
        before = process_time()
        solver.solve([], [], 100)
    return solver.cost, solver.iter, 1e3 * (process_time() - before) / max(solver.iter, 1)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.split("\n\n")[0]).parse_args()
    text = (files("featherlane.robot.bundled") / f"{ROBOT}.urdf").read_text()
    state = crocoddyl.StateMultibody(pin.buildModelFromXML(text))
    for integrator, name in METHODS.items():
        for who, make in (("featherlane", ours), ("crocoddyl", theirs)):
            cost, iterations, each = solved(make, state, integrator)
            print(f"{name:6}{who:12} cost {cost:.8f}, {iterations} iterations of {each:.2f} ms")


if __name__ == "__main__":
    main()
