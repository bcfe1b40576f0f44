"""How many targets are reached, in which time, by inverse kinematics in lanes, pink and mink?

Targets are placements of a frame at random configurations within the limits, so that all can be
reached. All begin at the same random configurations and stop at the same tolerance, at 0.1 mm and
1 mrad. pink (pip install 'pin-pink' 'qpsolvers[daqp]') and mink (pip install mink) solve a
quadratic program with the limits for each step of each target, in a loop in Python with full steps
(dt = 1 s); the best of some values of their damping is shown. Times are processor time of one
thread, from and to the user's arrays. "20 steps" makes 20 steps for all targets, reached or not.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from options import parser, write_json
from robots import machine_lines, say, table

import featherlane as fl
from featherlane.robot.loaders import xml_text

FRAMES = {"iiwa14": "iiwa_link_7", "panda": "panda_hand"}
TOLERANCE = 1e-4, 1e-3
STEPS = 20, 52
DAMPINGS = 1e-4, 1e-2, 1.0  # the lm_damping of peers' tasks
ARM = 7  # joints that move the frame
SHARES = "reached", "of_count"  # of all targets, and of the first ones, which peers get
Row = dict[str, Any]
Solve = Callable[[np.ndarray, np.ndarray, int], np.ndarray]  # (q0, target, steps) -> q


def median_seconds(call: Callable[[], Any], rounds: int) -> float:
    times = []
    for _ in range(rounds + 1):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return statistics.median(times[1:])


def reached(model: fl.Model, frame: str, q: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Whether configurations (..., nq) are within the tolerance and the limits."""
    T = model.frame_placement(q, frame)
    distance = np.linalg.norm(T[..., :3, 3] - targets[..., :3, 3], axis=-1)
    R = np.swapaxes(T[..., :3, :3], -1, -2) @ targets[..., :3, :3]
    angle = 2 * np.arcsin(np.minimum(np.linalg.norm(R - np.eye(3), axis=(-2, -1)) / 8**0.5, 1))
    inside = np.all(np.abs(model.clip(q) - q) < 1e-6, axis=-1)
    return (distance < TOLERANCE[0]) & (angle < TOLERANCE[1]) & inside


def ours(name: str, batch: int, count: int, dtype: str, rounds: int) -> Iterator[Row]:
    model, frame = fl.load(name), FRAMES[name]
    q = model.random_configuration((2, batch), seed=0, dtype=dtype)
    targets = model.frame_placement(q[0], frame)
    solve = partial(model.inverse_kinematics, targets, frame, tolerance=TOLERANCE, threads=1)
    cases: dict[str, dict[str, Any]] = {
        "20 steps": {"restarts": 0, "tolerance": (1e-100, 1e-100)},
        **{f"random start, {n} steps": {"q0": q[1], "restarts": 0, "iterations": n} for n in STEPS},
        "random start, 16 restarts": {"q0": q[1]},
        "start at the centres": {"restarts": 0},
        "start at the centres, 16 restarts": {},
    }
    for case, options in cases.items():
        found = solve(**options)
        seconds = median_seconds(lambda options=options: solve(**options), rounds)
        yield {
            "robot": name,
            "library": f"featherlane, {dtype}",
            "case": case,
            "reached": float(np.mean(found.converged)),
            "of_count": float(np.mean(found.converged[:count])),
            "us": 1e6 * seconds / batch,
        }
    one = partial(model.inverse_kinematics, targets[0], frame, q0=q[1, 0], threads=1)
    seconds = median_seconds(lambda: [one() for _ in range(20)], rounds)
    yield {
        "robot": name,
        "library": f"featherlane, {dtype}",
        "case": "one target, random start",
        "us": 1e6 * seconds / 20,
    }


# Peers: each makes steps for one target


def pink_solver(name: str, frame: str, damping: float) -> Solve:
    import pink
    import pinocchio as pin

    model = pin.buildModelFromXML(xml_text(name)[0].decode())
    data, task = model.createData(), pink.FrameTask(frame, 1.0, 1.0, lm_damping=damping)

    def solve(q0: np.ndarray, target: np.ndarray, steps: int) -> np.ndarray:
        q = pin.neutral(model)
        q[:ARM] = q0[:ARM]
        robot = pink.Configuration(model, data, q)
        task.set_target(pin.SE3(target))
        limits = [robot.model.configuration_limit]
        for _ in range(steps):
            v = pink.solve_ik(robot, [task], 1.0, solver="daqp", limits=limits)
            robot.integrate_inplace(v, 1.0)
            if is_reached(task.compute_error(robot)):
                break
        return robot.q[:ARM]

    return solve


def mink_solver(name: str, frame: str, damping: float) -> Solve:
    import mink
    import mujoco

    text = xml_text(name)[0].decode()
    keep = '<mujoco><compiler fusestatic="false"/></mujoco></robot>'
    model = mujoco.MjModel.from_xml_string(text.replace("</robot>", keep))
    task = mink.FrameTask(frame, "body", 1.0, 1.0, lm_damping=damping)
    robot, limits = mink.Configuration(model), [mink.ConfigurationLimit(model)]

    def solve(q0: np.ndarray, target: np.ndarray, steps: int) -> np.ndarray:
        q = np.zeros(model.nq)
        q[:ARM] = q0[:ARM]
        robot.update(q)
        task.set_target(mink.SE3.from_matrix(target))
        for _ in range(steps):
            v = mink.solve_ik(robot, [task], 1.0, "daqp", limits=limits)
            robot.integrate_inplace(v, 1.0)
            if is_reached(task.compute_error(robot)):
                break
        return robot.q[:ARM].copy()

    return solve


def is_reached(error: np.ndarray) -> bool:
    return bool(
        np.linalg.norm(error[:3]) < TOLERANCE[0] and np.linalg.norm(error[3:]) < TOLERANCE[1]
    )


PEERS = {"pink": pink_solver, "mink": mink_solver}


def peers(name: str, batch: int, count: int) -> Iterator[Row]:
    model, frame = fl.load(name), FRAMES[name]
    q = model.random_configuration((2, batch), seed=0)[:, :count]
    targets = model.frame_placement(q[0], frame)
    for library, make in PEERS.items():
        try:
            solvers = [make(name, frame, damping) for damping in DAMPINGS]
        except ModuleNotFoundError as error:
            say(f"{library}: {error}")
            continue
        for steps in STEPS:
            say(f"{name}: {library}, {steps} steps")
            rows = [_of_peer(model, frame, solve, q[1], targets, steps) for solve in solvers]
            best = max(rows, key=lambda row: row["of_count"])
            case = f"random start, {steps} steps"
            yield {"robot": name, "library": library, "case": case, **best}


def _of_peer(
    model: fl.Model, frame: str, solve: Solve, starts: Any, targets: Any, steps: int
) -> Row:
    found = starts.copy()
    begin = time.process_time()
    for n, (q0, target) in enumerate(zip(starts, targets, strict=True)):
        try:
            found[n, :ARM] = solve(q0, target, steps)
        except Exception as error:  # each has its own for a program without a solution
            say(f"{type(error).__name__}: {error}")
    seconds = time.process_time() - begin
    good = reached(model, frame, found, targets)
    return {"of_count": float(good.mean()), "us": 1e6 * seconds / len(targets)}


def main() -> None:
    options = parser(
        __doc__, robots=("iiwa14", "panda"), batch=8192, count=300, rounds=7, json=None
    ).parse_args()
    rows: list[Row] = []
    for name in options.robots:
        for dtype in ("float64", "float32"):
            rows += ours(name, options.batch, options.count, dtype, options.rounds)
        rows += peers(name, options.batch, options.count)
    print(*machine_lines(), sep="\n")
    print()
    share = lambda row, key: f"{100 * row[key]:.1f} %" if key in row else ""
    cells = [
        [r["robot"], r["library"], r["case"], *(share(r, k) for k in SHARES), f"{r['us']:,.3g}"]
        for r in rows
    ]
    reached = [f"reached of {n}" for n in (options.batch, options.count)]
    print(table(["robot", "library", "case", *reached, "us per target"], cells))
    write_json(options.json, rows, batch=options.batch, tolerance=TOLERANCE)


if __name__ == "__main__":
    main()
