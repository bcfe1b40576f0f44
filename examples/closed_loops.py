"""A four-bar linkage and a gripper, both closed by pins, each driven by one torque for 10 s. The
pins are constraints, and the largest error of each method of integration is printed.

    python examples/closed_loops.py [--figure closed_loops.svg]
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np

import featherlane as fl

DT, STEPS = 1e-3, 10000  # s; 10 s
GAINS = {"kp": 1e4, "kd": 200.0}  # 1/s^2, 1/s
METHODS: dict[str, tuple[str, dict[str, Any]]] = {  # integrator, options of the constraints
    "of velocities": ("semi_implicit", {}),
    "of accelerations": ("semi_implicit", {"level": "acceleration"}),
    "of accelerations, gains": ("semi_implicit", {"level": "acceleration", **GAINS}),
    "rk4": ("rk4", {}),
    "rk4, gains": ("rk4", GAINS),
}
GROUND, CRANK, COUPLER, ROCKER = 0.35, 0.1, 0.35, 0.3  # m: the shortest bar can go round
KNUCKLE = "robotiq_85_left_knuckle_joint"
STIFFNESS, DAMPING = 2.0, 0.05  # N m/rad, N m s/rad, of the gripper's motor


class Run(NamedTuple):
    q: np.ndarray  # (steps, nq)
    error: np.ndarray  # (steps,), of the pins, m or the sine of an angle


def four_bar() -> fl.Model:
    """A crank, a coupler and a rocker, which a pin at the end of the coupler closes to a loop."""
    b = fl.ModelBuilder("four_bar")
    b.link("base")
    for name, length in (("crank", CRANK), ("coupler", COUPLER), ("rocker", ROCKER)):
        moment = length**2 / 12
        b.link(name, mass=1.0, com=(length / 2, 0, 0), inertia=(1e-4, moment, moment))
        b.frame(f"{name}_end", on=name, xyz=(length, 0, 0))
    b.joint("drive", "revolute", "base", "crank", axis=(0, -1, 0), damping=0.1)
    b.joint("knee", "revolute", "crank", "coupler", xyz=(CRANK, 0, 0), axis=(0, -1, 0))
    b.joint("swing", "revolute", "base", "rocker", xyz=(GROUND, 0, 0), axis=(0, -1, 0))
    pin = fl.Hinge("coupler_end", "rocker_end", axis=(0, 1, 0))
    return b.build().with_loops([pin])


def gripper() -> fl.Model:
    """The bundled Robotiq 2F-85, with frames where its fingers touch, as it is drawn here: a
    pin closes a parallelogram in each finger.
    """
    robot = fl.load("robotiq_2f_85", loops="keep").with_physics(damping=1e-3)
    for side, sign in (("left", -1), ("right", 1)):
        link = f"robotiq_85_{side}_finger_tip_link"
        robot = robot.with_frame(f"robotiq_85_{side}_end", on=link, xyz=(sign * 0.0253, 0, 0.033))
    return robot


def crank_torque(robot: fl.Model, time: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A constant torque on the crank (nv,), N m."""
    return np.array([1.2, 0.0, 0.0])


def grip_torque(robot: fl.Model, time: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The torque of the gripper's one motor (nv,), which opens and closes it every 2 s, N m."""
    k = robot.first_v[robot.joint_names.index(KNUCKLE)]
    wanted = 0.4 - 0.4 * np.cos(np.pi * time)
    tau = np.zeros(robot.nv)
    tau[k] = STIFFNESS * (wanted - q[k]) - DAMPING * v[k]
    return tau


def drive(robot: fl.Model, torque: Any, q: np.ndarray, method: str, steps: int = STEPS) -> Run:
    """Drives a robot from rest at q, and returns its configurations and the errors of its pins."""
    integrator, options = METHODS[method]
    loops = robot.constraints(robot.loops, **options)
    path, v = [], np.zeros(robot.nv)
    for k in range(steps):
        tau = torque(robot, DT * k, q, v)
        q, v = robot.step(q, v, tau, DT, integrator=integrator, constraints=loops)
        path.append(q)
    error = np.abs(robot.constraint_error(np.array(path), loops)).max(-1)
    return Run(np.array(path), error)


def machines() -> dict[str, tuple[fl.Model, Any, np.ndarray]]:
    """By name: the robot, its torque and where it starts."""
    linkage, grip = four_bar(), gripper()
    start = linkage.close(np.array([0.5, 0.5, 1.5]), linkage.loops)
    assert start.converged
    return {
        "four-bar": (linkage, crank_torque, start.q),
        "gripper": (grip, grip_torque, grip.neutral()),
    }


def bars(name: str) -> list[list[str]]:
    """The frames that the lines of a drawing connect."""
    if name == "four-bar":
        return [["base", "crank_end", "coupler_end", "rocker"]]
    pin = "{}_pin/robotiq_85_{}_finger_tip_link"
    parts = "{}_inner_knuckle_link", pin, "{}_end", "{}_finger_tip_link", "{}_knuckle_link"
    sides = ("left", "right")
    return [["robotiq_85_" + part.format(side, side) for part in parts] for side in sides]


def draw(runs: dict[tuple[str, str], Run], path: str) -> None:
    from featherlane.tools.figures import BLUE, FAINT, HUES, pyplot, save

    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.8), layout="constrained")
    robots, method = machines(), next(iter(METHODS))
    for ax, (name, (robot, *_)) in zip(axes, robots.items(), strict=False):
        q = runs[name, method].q
        for when, alpha in ((1000, 1.0), (1400, 0.6), (1900, 0.3)):
            for chain in bars(name):
                points = [robot.frame_placement(q[when], f)[[0, 2], 3] for f in chain]
                ax.plot(*np.transpose(points), "o-", color=BLUE, alpha=alpha, markersize=3.5)
        ax.set(title=name, xlabel="x, m", ylabel="z, m", aspect="equal")
        ax.locator_params(nbins=5)
    end = robots["four-bar"][0].frame_placement(runs["four-bar", method].q, "coupler_end")
    axes[0].plot(end[:, 0, 3], end[:, 2, 3], color=FAINT, linewidth=0.8, zorder=0)
    for name, hue in zip(METHODS, HUES, strict=False):
        error = runs["four-bar", name].error
        axes[2].semilogy(DT * np.arange(1, len(error) + 1), error, color=hue, label=name)
    axes[2].set(title="error of the four-bar's pin", xlabel="time, s", ylabel="m, rad")
    figure.legend(loc="outside lower center", ncols=len(METHODS))
    title = "A four-bar linkage and a gripper, closed by pins, and the errors of a pin"
    save(figure, path, title, narrow=3.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--figure", help="draw the machines and the errors into this file")
    args = parser.parse_args()
    runs = {}
    for name, (robot, torque, q) in machines().items():
        for method in METHODS:
            runs[name, method] = run = drive(robot, torque, q, method)
            print(f"{name:9} {method:24} largest error {run.error.max():.1e}")
    if args.figure:
        draw(runs, args.figure)


if __name__ == "__main__":
    main()
