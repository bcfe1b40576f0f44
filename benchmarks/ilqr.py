"""How much faster than crocoddyl does `featherlane.ilqr` solve many problems of optimal control?

An arm reaches random points with its flange, from random configurations at rest; a quadruped and a
humanoid in flight turn to a posture. Both solvers minimise the same cost in semi-implicit steps
from the same first controls, on one thread and one core, in turns, in processor time. The steps are
the same for arms; free roots keep their linear velocity in space here and in their own axes in
crocoddyl, so those costs differ by some 0.1 %. crocoddyl runs its solver and its models in C++, one
problem after the other; what its calls do in Python (lists of states) is timed too, below a
hundredth. It needs `crocoddyl==3.2.1 pin==4.0.0 libpinocchio==4.0.0`: with newer ones of
libpinocchio it returns garbage.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from options import parser, write_json
from robots import KNOWN, Robot, machine_lines, say, table

import featherlane as fl
from featherlane.api.model import Model
from featherlane.backends.llvm import binding, targets

DT, KNOTS = 0.01, 64
REACH = {"state": 0.1, "controls": 1e-3, "target": 1.0}  # weights of a knot, times dt
REACH_END = {"state": 0.1, "controls": 0.0, "target": 1e3}
POSTURE = {"state": 10.0, "controls": 1e-2, "target": 0.0}
POSTURE_END = {"state": 100.0, "controls": 0.0, "target": 0.0}
Row = dict[str, Any]


class Task(NamedTuple):
    """Problems of one robot, in float64. frame: what reaches the target, if anything does."""

    name: str
    robot: Robot
    model: Model
    weights: tuple[dict[str, float], dict[str, float]]  # of a knot, of the end
    x_wanted: tuple[np.ndarray, np.ndarray]  # q and v
    frame: str
    q0: np.ndarray
    v0: np.ndarray
    tau: np.ndarray
    targets: np.ndarray
    joints: tuple[str, ...] | None  # that have a motor; None for all

    @property
    def count(self) -> int:
        return len(self.q0)


def reaching(batch: int) -> Task:
    robot = KNOWN["iiwa14"]
    model, rng, frame = robot.model(), np.random.default_rng(1), "iiwa_link_7"
    q0 = 0.7 * model.random_configuration(batch, seed=1)
    there = q0 + rng.uniform(-0.7, 0.7, q0.shape)
    targets = model.frame_placement(there, frame)[:, :3, 3]
    tau = np.repeat(model.gravity_torque(q0)[:, None], KNOTS, 1)
    still = np.zeros(model.nv)
    wanted = (still, still)
    weights = (REACH, REACH_END)
    return Task("reach", robot, model, weights, wanted, frame, q0, 0 * q0, tau, targets, None)


def turning(batch: int, name: str = "hyq") -> Task:
    robot = KNOWN[name]._replace(root="free")
    model, rng = robot.model(), np.random.default_rng(1)
    wanted = model.random_configuration(1, seed=3)[0]
    wanted[:7], wanted[7:] = [0, 0, 0, 0, 0, 0, 1], 0.3 * wanted[7:]
    moves = 0.4 * rng.normal(size=(batch, model.nv))
    v0 = 0.2 * rng.normal(size=(batch, model.nv))
    v0[:, 2] += 0.5 * DT * KNOTS * 9.81  # a jump that ends where it began
    tau = np.zeros((batch, KNOTS, model.nv - 6))
    q0 = model.integrate(np.repeat(wanted[None], batch, 0), moves)
    joints = tuple(model.joint_names[1:])
    still, weights = np.zeros(model.nv), (POSTURE, POSTURE_END)
    nowhere = np.zeros((batch, 3))
    return Task(
        f"turn {name}", robot, model, weights, (wanted, still), model.frame_names[-1], q0, v0, tau,
        nowhere, joints,
    )  # fmt: skip


# featherlane


def residuals(task: Task, weights: dict[str, float], scale: float) -> Callable[..., Any]:
    """The residuals of a knot, or of the end."""
    w = {name: np.sqrt(scale * x) for name, x in weights.items()}
    q_wanted, v_wanted = task.x_wanted

    def of(q: Any, v: Any, target: Any, tau: Any = None) -> Any:
        parts = [w["state"] * task.model.difference(q_wanted, q), w["state"] * (v - v_wanted)]
        if w["controls"] and tau is not None:
            parts.append(w["controls"] * tau)
        if w["target"]:
            at = task.model.frame_placement(q, task.frame)[:3, 3]
            parts.append(w["target"] * (at - target))
        return np.concatenate(parts)

    return of


def solved(task: Task, dtype: str = "float64", which: slice = slice(None)) -> Any:
    of_knot, of_end = residuals(task, task.weights[0], DT), residuals(task, task.weights[1], 1.0)
    arrays = [x[which].astype(dtype) for x in (task.q0, task.v0, task.tau, task.targets)]
    model, joints = task.model, task.joints
    return fl.ilqr(
        model,
        *arrays[:3],
        DT,
        lambda q, v, tau, target: of_knot(q, v, target, tau),
        lambda q, v, target: of_end(q, v, target),
        parameters={"target": arrays[3]},
        actuation=None if joints is None else model.actuation(joints, clip=False),
        threads=1,
    )


# crocoddyl


class Crocoddyl:
    """One problem in C++, of which the first state and the target are replaced."""

    def __init__(self, task: Task) -> None:
        import crocoddyl
        import pinocchio as pin

        free = task.robot.root == "free"
        text = task.robot.urdf.read_text(encoding="utf-8")
        peer = pin.buildModelFromXML(text, *([pin.JointModelFreeFlyer()] if free else []))
        if [*peer.names[1:]][-peer.njoints + 1 + free :] != [*task.model.joint_names][free:]:
            raise ImportError("joints in another order")
        state = crocoddyl.StateMultibody(peer)
        kind = crocoddyl.ActuationModelFloatingBase if free else crocoddyl.ActuationModelFull
        self.task, actuation = task, kind(state)
        frame = peer.getFrameId(task.frame)
        self.reach = crocoddyl.ResidualModelFrameTranslation(
            state, frame, np.zeros(3), actuation.nu
        )
        wanted = np.concatenate(task.x_wanted)

        def action(weights: dict[str, float], dt: float) -> Any:
            costs, nu = crocoddyl.CostModelSum(state, actuation.nu), actuation.nu
            residual = {
                "state": crocoddyl.ResidualModelState(state, wanted, nu),
                "controls": crocoddyl.ResidualModelControl(state, nu),
                "target": self.reach,
            }
            for name, weight in weights.items():
                if weight:
                    costs.addCost(name, crocoddyl.CostModelResidual(state, residual[name]), weight)
            free_dynamics = crocoddyl.DifferentialActionModelFreeFwdDynamics
            dynamics = free_dynamics(state, actuation, costs)
            return crocoddyl.IntegratedActionModelEuler(dynamics, dt)  # q' = q + dt v'

        knot, end = action(task.weights[0], DT), action(task.weights[1], 0.0)
        self.problem = crocoddyl.ShootingProblem(state.zero(), [knot] * KNOTS, end)
        self.problem.nthreads = 1
        self.solver = crocoddyl.SolverDDP(self.problem)
        self.solver.th_stop = 1e-9

    def solve(self, k: int) -> tuple[float, int, float]:
        """Problem k: its cost, iterations and seconds."""
        task, problem = self.task, self.problem
        problem.x0 = np.concatenate([task.q0[k], task.v0[k]])
        self.reach.reference = task.targets[k]
        tau = list(task.tau[k])
        states = problem.rollout(tau)
        begin = time.process_time()
        self.solver.solve(states, tau, 100, True)
        return self.solver.cost, self.solver.iter + 1, time.process_time() - begin


# Both


def seconds(call: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.process_time()
    found = call()
    return found, time.process_time() - begin


def compared(task: Task, rounds: int) -> Iterator[Row]:
    """A row for each dtype, and one for crocoddyl."""
    try:
        peer = Crocoddyl(task)
    except ImportError as error:
        say(f"without crocoddyl: {error}")
        peer = None
    calls: dict[str, Callable[[], Any]] = {
        dtype: partial(solved, task, dtype) for dtype in ("float64", "float32")
    }
    ends = {dtype: call() for dtype, call in calls.items()}  # compiled by now
    times: dict[str, list[float]] = {name: [] for name in (*calls, "crocoddyl")}
    theirs = np.zeros((task.count, 2))
    for _ in range(rounds):
        for dtype, call in calls.items():
            times[dtype].append(seconds(call)[1])
        total = 0.0
        for k in range(task.count if peer else 0):
            *theirs[k], own = peer.solve(k)  # type: ignore[union-attr]
            total += own
        times["crocoddyl"].append(total)
    taken = {name: statistics.median(each) for name, each in times.items()}
    if peer:
        each = theirs[:, 1].sum()
        yield {
            "task": task.name, "problems": task.count, "what": "crocoddyl",
            "ms": 1e3 * taken["crocoddyl"], "iterations": each / task.count,
            "us_knot": 1e6 * taken["crocoddyl"] / each / KNOTS,
        }  # fmt: skip
    for dtype, end in ends.items():
        total = end.iterations.sum()
        row = {"task": task.name, "problems": task.count, "what": dtype, "ms": 1e3 * taken[dtype]}
        row |= {"iterations": total / task.count, "converged": float(end.converged.mean())}
        row["us_knot"] = 1e6 * taken[dtype] / total / KNOTS
        if peer:
            apart = np.abs(end.cost / theirs[:, 0] - 1)
            per_iteration = taken["crocoddyl"] / theirs[:, 1].sum() / (taken[dtype] / total)
            row |= {"faster": taken["crocoddyl"] / taken[dtype], "faster_iteration": per_iteration}
            row |= {"within_1e-6": float(np.mean(apart < 1e-6))}
            row |= {"median_apart": float(np.median(apart)), "p99_apart": np.quantile(apart, 0.99)}
        yield row


def limit_vectors(bits: int) -> None:
    """Compiles for a processor like this one with vectors of 256 bits."""
    if bits == 256:
        has = {k: x and "avx512" not in k for k, x in binding.get_host_cpu_features().items()}
        real = targets.host()
        narrow = targets.host_target(real.triple, real.cpu, has)
        targets.host = lambda: narrow  # type: ignore[assignment]
        os.environ["FEATHERLANE_WORKERS"] = "off"  # other processes would compile for this one


def main() -> None:
    arguments = parser(__doc__, batch=512, rounds=3, bits=512, json=None).parse_args()
    limit_vectors(arguments.bits)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    batch, rounds = arguments.batch, arguments.rounds
    humanoids = [turning(min(batch, 32), name) for name in ("g1", "atlas", "talos")]
    single = reaching(1), turning(1), turning(1, "g1")
    tasks = reaching(batch), turning(min(batch, 128)), *humanoids, *single
    rows = [row for task in tasks for row in compared(task, rounds)]
    shown = lambda row, key, form: format(row[key], form) if key in row else ""
    columns = {
        "ms": ".1f", "iterations": ".1f", "us_knot": ".2f", "converged": ".3f", "faster": ".1f",
        "faster_iteration": ".1f", "within_1e-6": ".3f", "median_apart": ".1e", "p99_apart": ".1e",
    }  # fmt: skip
    lines = [
        [
            f"{row['task']}, {row['problems']}",
            row["what"],
            *(shown(row, *x) for x in columns.items()),
        ]
        for row in rows
    ]
    print("\n".join(machine_lines()))
    print(f"vectors of at most {arguments.bits} bits, {KNOTS} knots, one thread\n")
    print(table(["problems", "by", *columns], lines))
    write_json(arguments.json, rows, bits=arguments.bits, knots=KNOTS)


if __name__ == "__main__":
    sys.exit(main())
