"""How much faster than crocoddyl is an iteration of `featherlane.ilqr` for quadrupeds that trot?

The problem is that of examples/quadruped_trot.py from many initial states, with contacts that hold
accelerations, J a + dJ/dt v + J v / dt = 0, as both packages have them. Both solvers minimise the
same costs from the same first trajectories: motions that hold velocities are solved, and are
followed by their feedback in steps that hold accelerations. Both run on one thread and one core,
alternating, in processor time. crocoddyl runs in C++, one problem after the other. It needs
`crocoddyl==3.2.1 pin==4.0.0 libpinocchio==4.0.0`: with newer ones of libpinocchio it returns
garbage.
"""

from __future__ import annotations

import os
import runpy
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from ilqr import limit_vectors, seconds
from options import parser, write_json
from robots import KNOWN, machine_lines, say, table

TROT = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "examples/quadruped_trot.py"))
)
ROBOT, DT, KNOTS, LEGS, WEIGHTS = TROT.robot, TROT.DT, TROT.KNOTS, TROT.LEGS, TROT.WEIGHTS
FEET = ROBOT.constraints(TROT.feet, kd=1 / DT, level="acceleration")
FIRST, ITERATIONS = 60, 100
Row = dict[str, Any]


def initial(batch: int) -> np.ndarray:
    """Configurations about the standing one, the first of them that one."""
    rng = np.random.default_rng(0)
    away = 0.001 * rng.normal(size=(batch, ROBOT.nv))
    away[0] = 0.0
    return ROBOT.integrate(np.tile(TROT.standing(), (batch, 1)), away)


class Trajectories(NamedTuple):
    """First trajectories of a batch: q and v have KNOTS + 1 rows, controls KNOTS."""

    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray


def followed(trot: Any, q0: np.ndarray) -> Trajectories:
    """First trajectories: open loops would not do, as rounding grows to decimetres along them."""
    lead = TROT.solve(trot, q0, iterations=FIRST, threads=1)
    options = {"integrator": "semi_implicit", "constraints": FEET, "actuation": TROT.motors}
    q, v, tau = [q0], [np.zeros((len(q0), ROBOT.nv))], []
    for k in range(KNOTS):
        away = [ROBOT.difference(lead.q[:, k], q[-1]), v[-1] - lead.v[:, k]]
        tau.append(lead.tau[:, k] + np.einsum("bij,bj->bi", lead.gains[:, k], np.hstack(away)))
        step = ROBOT.step(q[-1], v[-1], tau[-1], DT, active=trot.active[k], **options)
        q.append(step.q)
        v.append(step.v)
    return Trajectories(*(np.stack(x, 1) for x in (q, v, tau)))


def solved(trot: Any, q0: np.ndarray, tau: np.ndarray, dtype: str) -> Any:
    options = {"constraints": FEET, "iterations": ITERATIONS, "threads": 1}
    return TROT.solve(trot, q0.astype(dtype), tau, **options)


class Crocoddyl:
    """The problem in C++, of which the first state is replaced."""

    def __init__(self, trot: Any) -> None:
        import crocoddyl
        import pinocchio as pin

        text = KNOWN["hyq"].urdf.read_text(encoding="utf-8")
        peer = pin.buildModelFromXML(text, pin.JointModelFreeFlyer())
        if [*peer.names[2:]] != [*ROBOT.joint_names[1:]]:
            raise ImportError("joints in another order")
        place = pin.SE3(np.eye(3), np.array([0.33, 0, 0]))
        for leg in LEGS:
            on = peer.getFrameId(f"{leg}_lowerleg")
            frame = peer.frames[on]
            at = frame.placement * place
            foot = pin.Frame(f"{leg}_foot", frame.parentJoint, on, at, pin.FrameType.OP_FRAME)
            peer.addFrame(foot)
        self.state, self.trot = crocoddyl.StateMultibody(peer), trot
        self.actuation = crocoddyl.ActuationModelFloatingBase(self.state)
        self.ids = [peer.getFrameId(f"{leg}_foot") for leg in LEGS]
        models = [self._knot(k) for k in range(KNOTS)]
        self.problem = crocoddyl.ShootingProblem(self.state.zero(), models, self._end())
        self.problem.nthreads = 1
        self.solver = crocoddyl.SolverDDP(self.problem)
        self.solver.th_stop = 1e-9

    def _motion(self, costs: Any, k: int, nu: int, scale: float) -> None:
        import crocoddyl

        forward = np.concatenate([[self.trot.speed[k]], np.zeros(ROBOT.nv - 1)])
        wanted = np.concatenate([self.trot.posture[k], forward])
        w = np.repeat([WEIGHTS["base"], WEIGHTS["joints"], WEIGHTS["v"]], [6, 12, 18])
        activation = crocoddyl.ActivationModelWeightedQuad(scale * w**2)
        residual = crocoddyl.ResidualModelState(self.state, wanted, nu)
        model = crocoddyl.CostModelResidual(self.state, activation, residual)
        costs.addCost("motion", model, 1.0)

    def _knot(self, k: int) -> Any:
        import crocoddyl
        import pinocchio as pin

        state, nu = self.state, self.actuation.nu
        contacts = crocoddyl.ContactModelMultiple(state, nu)
        costs = crocoddyl.CostModelSum(state, nu)
        self._motion(costs, k, nu, 1.0 / DT)  # the integrator multiplies costs by dt
        effort = crocoddyl.CostModelResidual(state, crocoddyl.ResidualModelControl(state, nu))
        costs.addCost("tau", effort, WEIGHTS["tau"] ** 2 / DT)
        sides = crocoddyl.FrictionCone(np.eye(3), TROT.FRICTION, 4, False)
        bounds = crocoddyl.ActivationBounds(sides.lb, sides.ub)
        inside = crocoddyl.ActivationModelQuadraticBarrier(bounds)
        for i, (leg, frame) in enumerate(zip(LEGS, self.ids, strict=True)):
            if self.trot.active[k, i]:
                contact = crocoddyl.ContactModel3D(
                    state, frame, np.zeros(3), pin.LOCAL_WORLD_ALIGNED, nu, np.array([0, 1 / DT])
                )
                contacts.addContact(leg, contact)
                pressed = crocoddyl.ResidualModelContactFrictionCone(state, frame, sides, nu)
                cost = crocoddyl.CostModelResidual(state, inside, pressed)
                costs.addCost(f"{leg}_cone", cost, WEIGHTS["cone"] ** 2 / DT)
            if k and not self.trot.active[k - 1, i]:
                place = self.trot.places[k, i]
                away = crocoddyl.ResidualModelFrameTranslation(state, frame, place, nu)
                cost = crocoddyl.CostModelResidual(state, away)
                costs.addCost(f"{leg}_place", cost, WEIGHTS["feet"] ** 2 / DT)
        dynamics = crocoddyl.DifferentialActionModelContactFwdDynamics(
            state, self.actuation, contacts, costs, 0.0, True
        )
        return crocoddyl.IntegratedActionModelEuler(dynamics, DT)

    def _end(self) -> Any:
        import crocoddyl

        nu = self.actuation.nu
        costs = crocoddyl.CostModelSum(self.state, nu)
        self._motion(costs, KNOTS, nu, 100.0)
        free = crocoddyl.DifferentialActionModelFreeFwdDynamics(self.state, self.actuation, costs)
        return crocoddyl.IntegratedActionModelEuler(free, 0.0)

    def solve(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> tuple[float, int, float]:
        """The cost, the number of iterations and the seconds, from a trajectory: its controls alone
        lead elsewhere, as rounding grows to centimetres along it.
        """
        states, controls = list(np.concatenate([q, v], 1)), list(tau)
        self.problem.x0 = states[0]
        begin = time.process_time()
        self.solver.solve(states, controls, ITERATIONS, False)
        return self.solver.cost, self.solver.iter + 1, time.process_time() - begin


def compared(batch: int, rounds: int) -> list[Row]:
    """A row for crocoddyl, and one for each dtype."""
    trot, q0, rows = TROT.plan(), initial(batch), list[Row]()
    first = followed(trot, q0)
    calls: dict[str, Callable[[], Any]] = {
        dtype: lambda dtype=dtype: solved(trot, q0, first.tau, dtype)
        for dtype in ("float64", "float32")
    }
    try:
        peer = Crocoddyl(trot)
    except ImportError as error:
        say(f"without crocoddyl: {error}")
        peer = None
    ends = {dtype: call() for dtype, call in calls.items()}  # compiled by now
    times: dict[str, list[float]] = {name: [] for name in (*calls, "crocoddyl")}
    theirs = np.zeros((batch, 3))
    for _ in range(rounds):
        for dtype, call in calls.items():
            times[dtype].append(seconds(call)[1])
        if peer:
            theirs[:] = [
                peer.solve(*each) for each in zip(first.q, first.v, first.tau, strict=True)
            ]
            times["crocoddyl"].append(theirs[:, 2].sum())
    for name, each in times.items():
        if not each:
            continue
        taken, ours = statistics.median(each), ends.get(name)
        count = theirs[:, 1].sum() if ours is None else ours.iterations.sum()
        row: Row = {"by": name, "ms": 1e3 * taken, "iterations": count / batch}
        row["us_knot"] = 1e6 * taken / count / KNOTS
        if ours is not None:
            row["converged"] = float(ours.converged.mean())
        if ours is not None and peer:
            apart = np.abs(ours.cost / theirs[:, 0] - 1)
            per_iteration = statistics.median(times["crocoddyl"]) / theirs[:, 1].sum()
            row |= {"faster_iteration": per_iteration / (taken / count)}
            row |= {"within_1e-6": float(np.mean(apart < 1e-6)), "median_apart": np.median(apart)}
            row["least_apart"] = float(apart.min())
        rows.append(row)
    return rows


def main() -> None:
    arguments = parser(__doc__, batch=64, rounds=3, bits=512, json=None).parse_args()
    limit_vectors(arguments.bits)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows = compared(arguments.batch, arguments.rounds)
    columns = {
        "ms": ".1f", "iterations": ".1f", "us_knot": ".2f", "converged": ".3f",
        "faster_iteration": ".1f", "within_1e-6": ".3f", "median_apart": ".1e",
        "least_apart": ".1e",
    }  # fmt: skip
    shown = lambda row, key, form: format(row[key], form) if key in row else ""
    lines = [[row["by"], *(shown(row, *x) for x in columns.items())] for row in rows]
    print("\n".join(machine_lines()))
    print(f"{arguments.batch} quadrupeds, {KNOTS} knots, one thread\n")
    print(table(["by", *columns], lines))
    write_json(arguments.json, rows, bits=arguments.bits, knots=KNOTS)


if __name__ == "__main__":
    sys.exit(main())
