"""A humanoid that stands on two feet and squats, by inverse dynamics with constraints: at each step
the feedback law asks for an acceleration, takes the nearest one that the feet allow (Gauss's
principle), and gives the motors the torques and the ground the smallest forces that cause it.

    python examples/standing_humanoid.py [--figure docs/standing_humanoid.svg]
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np

import featherlane as fl

DT, PERIOD = 1e-3, 2.0  # s; of a step of simulation, and of a squat
STRAIGHT, BENT = 0.2, 0.75  # rad: half of the knee's angle
STIFFNESS, DAMPING = 100.0, 20.0  # 1/s^2, 1/s: of errors that the feedback law corrects
MOMENTS = 20.0  # weight of moments under the feet (N m) beside that of forces (N)
PAYLOAD = 2.0  # kg on the torso, of which the feedback law knows nothing
SIDES = ("left", "right")


class Squat(NamedTuple):
    """What is wanted at each step: configurations, velocities and accelerations."""

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray


class Stand(NamedTuple):
    """A simulated squat: for each step, and each robot of a batch."""

    time: np.ndarray
    height: np.ndarray  # of the pelvis, m
    error: np.ndarray  # of the height, m
    torque: np.ndarray  # of the motors, N m
    force: np.ndarray  # of both feet: [force; moment] on each
    drift: np.ndarray  # of the feet, m


def humanoid() -> tuple[fl.Model, fl.Constraints]:
    """The bundled G1 with both feet welded to the ground."""
    robot = fl.load("g1", root="free")
    return robot, robot.constraints([fl.Weld(f"{side}_ankle_roll_link") for side in SIDES])


def squat(robot: fl.Model, steps: int) -> Squat:
    """A squat whose feet stay where they are: the pelvis goes where the legs put it."""
    time = DT * np.arange(steps + 2)  # the last two are for differences
    half = STRAIGHT + (BENT - STRAIGHT) * (1 - np.cos(2 * np.pi * time / PERIOD)) / 2
    q = np.tile(robot.neutral(), (len(time), 1))
    for side in SIDES:
        for name, factor in (("hip_pitch", -1), ("knee", 2), ("ankle_pitch", -1)):
            k = robot.joint_names.index(f"{side}_{name}_joint")
            q[:, robot.first_q[k]] = factor * half
    foot = robot.frame_placement(q, "left_ankle_roll_link")[:, :3, 3]
    q[:, [0, 2]] -= (foot - foot[0])[:, [0, 2]]
    v = robot.difference(q[:-1], q[1:]) / DT
    return Squat(q[:-2], v[:-1], np.diff(v, axis=0) / DT)


def feedback(robot: fl.Model, feet: fl.Constraints) -> Any:
    """The law: torques of the motors, zero for the pelvis, which has none."""
    weights = np.tile([1.0] * 3 + [MOMENTS] * 3, len(SIDES))

    def law(q, v, t, goal, speed, acceleration):
        wish = acceleration + DAMPING * (speed - v) + STIFFNESS * robot.difference(q, goal)
        everywhere = robot.inverse_dynamics(q, v, wish)  # as if the pelvis had motors
        a = robot.constrained_forward_dynamics(q, v, everywhere, feet).a
        tau = robot.constrained_inverse_dynamics(q, v, a, feet, weights=weights).tau
        return np.concatenate([np.zeros(6), tau[6:]])

    shapes = {"goal": robot.nq, "speed": robot.nv, "acceleration": robot.nv}
    return robot.policy(law, references=shapes)


def stand(robot: fl.Model, feet: fl.Constraints, steps: int, payloads: np.ndarray) -> Stand:
    """Squats of robots with payloads, kg, under one feedback law."""
    wanted = squat(robot, steps)
    mass = np.tile(robot.parameters("mass")["mass"], (len(payloads), 1))
    mass[:, robot.body_names.index("torso_link")] += payloads
    path = robot.rollout_with(
        feedback(robot, feet), np.tile(wanted.q[0], (len(payloads), 1)), 0 * wanted.v[0], DT, steps,
        references={"goal": wanted.q, "speed": wanted.v, "acceleration": wanted.a},
        constraints=feet, params={"mass": mass},
    )  # fmt: skip
    q, v, tau = path.q[:, :-1], path.v[:, :-1], path.tau
    params = {"mass": mass[:, None]}
    force = robot.constrained_forward_dynamics(q, v, tau, feet, params=params).force
    place = robot.frame_placement(q, "left_ankle_roll_link")[..., :3, 3]
    drift = np.linalg.norm(place - place[:, :1], axis=-1)
    error = q[..., 2] - wanted.q[:, 2]
    return Stand(DT * np.arange(steps), q[..., 2], error, tau[..., 6:], force, drift)


def pressure(force: np.ndarray) -> np.ndarray:
    """Where the ground carries each foot, m in front of its ankle: (..., feet)."""
    feet = force.reshape(*force.shape[:-1], len(SIDES), 6)
    return -feet[..., 4] / feet[..., 2]


def draw(robot: fl.Model, run: Stand, path: str) -> None:
    from featherlane.tools.figures import pyplot, save

    plt = pyplot()
    figure, axes = plt.subplots(3, 1, figsize=(7, 7), sharex=True, layout="constrained")
    height, motors, ground = axes
    height.plot(run.time, run.height[0] - run.error[0], "k:", label="wanted")
    height.plot(run.time, run.height[0], label="no payload")
    height.plot(run.time, run.height[-1], label=f"{PAYLOAD:g} kg on the torso")
    height.set(ylabel="pelvis, m")
    limits = robot.effort_limits[6:]
    for name in ("hip_pitch", "knee", "ankle_pitch"):
        k = robot.first_v[robot.joint_names.index(f"left_{name}_joint")] - 6
        label = f"{name.replace('_', ' ')}, of {limits[k]:.0f} N m"
        motors.plot(run.time, run.torque[-1, :, k] / limits[k], label=label)
    motors.set(ylabel="torque / limit", ylim=(-1, 1))
    ground.plot(run.time, run.force[-1, :, 2], label="left foot, upward")
    ground.plot(run.time, run.force[-1, :, 8], "--", label="right foot, upward")
    ground.set(ylabel="force, N", xlabel="time, s", ylim=(0, None))
    for ax in axes:
        ax.legend(loc="lower center", fontsize="small")
    title = "A squat: height of the pelvis, torques beside their limits, ground forces"
    save(figure, path, title, narrow=2.4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--figure", help="draw the squats into this file")
    args = parser.parse_args()
    robot, feet = humanoid()
    run = stand(robot, feet, int(2 * PERIOD / DT), np.array([0.0, PAYLOAD]))
    share = np.abs(run.torque) / robot.effort_limits[6:]
    print(f"the pelvis moves by {np.ptp(run.height[0]):.3f} m", end="")
    print(f", and is at most {1e3 * np.abs(run.error).max(1).round(5)} mm from where it should be")
    print(f"torques are at most {share.max():.2f} of their limits")
    print(f"feet move by at most {1e3 * run.drift.max():.1e} mm")
    centre = pressure(run.force)
    ends = f"{1e3 * centre.min():.0f} to {1e3 * centre.max():.0f}"
    print(f"the ground carries them {ends} mm in front of their ankles")
    if args.figure:
        draw(robot, run, args.figure)


if __name__ == "__main__":
    main()
