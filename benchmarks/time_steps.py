"""What do steps in time, their derivatives and rollouts cost, beside the dynamics, MuJoCo's
rollouts and crocoddyl's integrated models?

All on one thread, in batches, from and to the user's arrays. MuJoCo's `rollout` runs the same
controls with contacts and constraints off; crocoddyl's fourth-order integrator computes calc and
calcDiff of a model with free forward dynamics and no costs, knot by knot in C++, called through
its problem of as many knots. crocoddyl needs libpinocchio 4.0.0; where it is not installed its
column is empty.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from options import parser, write_json
from robots import Robot, chosen, machine_lines, say, table

from featherlane.api.model import Model
from featherlane.tools.peers.mujoco import MuJoCo

ROBOTS = ("iiwa14", "go2:free", "quadruped_arm:free")
STEPS, DT = 32, 0.001
Call = Callable[[], Any]
Row = dict[str, Any]


def timed(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    """Median seconds of each call; all take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(each) for name, each in times.items()}


def prepared(model: Model, name: str, states: dict[str, np.ndarray], **options: Any) -> Call:
    """A call of a function with results of its own."""
    function = model.function(name, **options)
    given = [states[key] for key in function.inputs]
    lead = given[0].shape[:1]
    out = tuple(np.empty((*lead, *core), given[0].dtype) for core in function.outputs.values())
    if len(out) == 1:
        return lambda: function(*given, out=out[0], threads=1)
    return lambda: function(*given, out=out, threads=1)


def states_of(model: Model, batch: int, dtype: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    states = {
        "q": model.random_configuration(batch, seed=0),
        "v": 0.1 * rng.normal(size=(batch, model.nv)),
        "tau": 0.1 * rng.normal(size=(batch, model.nv)),
        "dt": np.full(batch, DT),
    }
    return {name: x.astype(dtype) for name, x in states.items()}


def steps(model: Model, batch: int, dtype: str, rounds: int) -> Iterator[Row]:
    """Steps and their derivatives beside the dynamics."""
    states = states_of(model, batch, dtype)
    calls = {
        "FD": prepared(model, "forward_dynamics", states),
        "dFD": prepared(model, "forward_dynamics_derivatives", states),
        "integrate": prepared(model, "integrate", states),
        "step": prepared(model, "step", states),
        "step, rk4": prepared(model, "step", states, integrator="rk4"),
        "A, B reduced, euler": prepared(
            model, "linearize_step_reduced", states, integrator="euler"
        ),
        "A, B, euler": prepared(model, "linearize_step", states, integrator="euler"),
        "A, B": prepared(model, "linearize_step", states),
        "A, B, rk4": prepared(model, "linearize_step", states, integrator="rk4"),
    }
    found = timed(calls, rounds)
    for name, seconds in found.items():
        base = "dFD" if name.startswith(("A", "dFD")) else "FD"
        ratio = seconds / found[base]
        yield {"what": name, "us": 1e6 * seconds / batch, "beside": base, "ratio": ratio}


def rollouts(robot: Robot, model: Model, batch: int, dtype: str, rounds: int) -> Iterator[Row]:
    """Rollouts beside MuJoCo's, and their gradients."""
    states = states_of(model, batch, dtype)
    tau = np.repeat(states["tau"][:, None], STEPS, 1)
    states |= {"tau": tau}
    found = model.rollout(states["q"], states["v"], tau, states["dt"], threads=1)
    rng = np.random.default_rng(1)
    gradients = rng.normal(size=(2, batch, STEPS + 1, model.nv)).astype(dtype)
    back = {**states, **found._asdict(), "gq": gradients[0], "gv": gradients[1]}
    calls = {
        "rollout": prepared(model, "rollout", states, steps=STEPS),
        "gradient": prepared(model, "rollout_gradient", back, steps=STEPS),
    }
    if (peer := _mujoco(robot, model, states)) is not None:
        calls["MuJoCo"] = peer
    times = timed(calls, rounds)
    each = 1e6 / batch / STEPS
    yield {"what": "rollout", "us": times["rollout"] * each}
    ratio = times["gradient"] / times["rollout"]
    yield {
        "what": "its gradient",
        "us": times["gradient"] * each,
        "beside": "rollout",
        "ratio": ratio,
    }
    if "MuJoCo" in times:
        ratio = times["MuJoCo"] / times["rollout"]
        yield {"what": "MuJoCo", "us": times["MuJoCo"] * each, "beside": "rollout", "ratio": ratio}


def _mujoco(robot: Robot, model: Model, states: dict[str, np.ndarray]) -> Call | None:
    try:
        import mujoco
        from mujoco.rollout import rollout

        text = robot.urdf.read_bytes()
        peer = MuJoCo(text, model)
    except (ImportError, RuntimeError) as error:
        say(f"{robot.title}: without MuJoCo, {error}")
        return None
    there = peer.change.to(states["q"].astype(float), v=states["v"].astype(float))
    peer.peer.opt.timestep = DT
    peer.peer.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    batch = len(there.q)
    first = np.concatenate([np.zeros((batch, 1)), there.q, there.v], 1)
    kind = mujoco.mjtState.mjSTATE_QFRC_APPLIED
    size = mujoco.mj_stateSize(peer.peer, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    first = np.pad(first, ((0, 0), (0, size - first.shape[1])))
    control = states["tau"].astype(float)
    data = mujoco.MjData(peer.peer)
    out = np.empty((batch, STEPS, size))
    return lambda: rollout(
        [peer.peer] * batch, data, first, control, control_spec=int(kind), state=out, nstep=STEPS
    )


def crocoddyl_rk4(robot: Robot, model: Model, batch: int, rounds: int) -> Iterator[Row]:
    """A, B of the fourth-order method beside crocoddyl's."""
    try:
        import crocoddyl
        import pinocchio as pin
    except ImportError as error:
        say(f"{robot.title}: without crocoddyl, {error}")
        return
    root = [pin.JointModelFreeFlyer()] if robot.root == "free" else []
    peer = pin.buildModelFromXML(robot.urdf.read_text(), *root)
    state = crocoddyl.StateMultibody(peer)
    actuation = crocoddyl.ActuationModelFull(state) if not root else (
        crocoddyl.ActuationModelFloatingBase(state)
    )  # fmt: skip
    costs = crocoddyl.CostModelSum(state, actuation.nu)
    free = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)
    action = crocoddyl.IntegratedActionModelRK(free, crocoddyl.RKType.four, DT)
    knots = min(batch, 128)
    problem = crocoddyl.ShootingProblem(state.zero(), [action] * knots, action)
    problem.nthreads = 1
    xs, us = [state.rand() for _ in range(knots + 1)], [np.zeros(actuation.nu)] * knots
    states = states_of(model, batch, "float64")

    def peers() -> None:
        problem.calc(xs, us)
        problem.calcDiff(xs, us)

    ours = prepared(model, "linearize_step", states, integrator="rk4")
    times = timed({"ours": ours, "crocoddyl": peers}, rounds)
    theirs, mine = 1e6 * times["crocoddyl"] / knots, 1e6 * times["ours"] / batch
    yield {"what": "crocoddyl, rk4", "us": theirs, "beside": "A, B, rk4", "ratio": theirs / mine}


def main() -> None:
    arguments = parser(
        __doc__, robots=ROBOTS, batch=512, dtype="float64", rounds=9, json=None
    ).parse_args()
    rows: list[Row] = []
    for robot in chosen(arguments.robots):
        model = robot.model()
        given = arguments.batch, arguments.dtype, arguments.rounds
        found = [
            *steps(model, *given),
            *rollouts(robot, model, *given),
            *crocoddyl_rk4(robot, model, arguments.batch, arguments.rounds),
        ]
        rows += [{"robot": robot.title, **row} for row in found]
    lines = [
        [r["robot"], r["what"], f"{r['us']:.3f}", r.get("beside", ""), f"{r.get('ratio', 1):.2f}"]
        for r in rows
    ]
    print("\n".join(machine_lines()))
    head = ["robot", "what", "us a state", "beside", "times"]
    print(f"{arguments.batch} states, {arguments.dtype}, one thread; rollouts of {STEPS} steps\n")
    print(table(head, lines))
    write_json(arguments.json, rows, batch=arguments.batch, dtype=arguments.dtype)


if __name__ == "__main__":
    main()
