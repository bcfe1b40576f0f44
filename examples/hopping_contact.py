"""Hoppers on the ground, which is a wrench that the user traces: a spring with smooth ends and
friction that creeps. What it can do: thousands of hoppers at once, and exact derivatives through
impacts. What it can't: feet sink in, creep where they should stick, and need small steps.

    python examples/hopping_contact.py [--figure hopping_contact.svg]
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np

import featherlane as fl

DT, STEPS = 1e-4, 30000  # s; 3 s
STIFFNESS, SOFT = 1e5, 2e-4  # N/m; m, over which the ground begins
LOSS = 0.4  # s/m: of Hunt and Crossley's (1975) damping, that grows with the force
FRICTION, DRAG = 0.8, 1000.0  # coefficient; N s/m of slow feet: more is unstable at this DT
GAINS = np.array([0, 0, 250.0, 250]), np.array([0, 0, 4.0, 4])  # N m/rad, N m s/rad
KNEE = -1.3, -0.4  # rad, in the air and pushed off at full strength
TURN = 0.12  # rad s/m, by which the hip sets the foot against drifting


class Run(NamedTuple):
    height: np.ndarray  # of the hip (steps, hoppers), m
    foot: np.ndarray  # its height
    slide: np.ndarray  # its speed along the ground, m/s
    force: np.ndarray  # from below, N


def hopper(slope: float = 0.0) -> fl.Model:
    """A body on two slides, with a leg of two links, on ground that falls by an angle, rad."""
    b = fl.ModelBuilder("hopper")
    for name, mass, moment in (("ground", 0, 0), ("rail", 0, 0), ("body", 5.0, 0.05)):
        b.link(name, mass=mass, inertia=(moment,) * 3)
    for name, mass in (("thigh", 0.6), ("shank", 0.3)):
        b.link(name, mass=mass, com=(0, 0, -0.15), inertia=(mass * 0.0075,) * 2 + (mass * 1e-3,))
    b.joint("x", "prismatic", "ground", "rail", axis=(1, 0, 0))
    b.joint("z", "prismatic", "rail", "body", axis=(0, 0, 1))
    b.joint("hip", "revolute", "body", "thigh", axis=(0, 1, 0))
    b.joint("knee", "revolute", "thigh", "shank", xyz=(0, 0, -0.3), axis=(0, 1, 0))
    b.frame("foot", on="shank", xyz=(0, 0, -0.3))
    return b.build(gravity=(9.81 * np.sin(slope), 0, -9.81 * np.cos(slope)))


def ground(position: Any, velocity: Any) -> tuple[Any, Any]:
    """The force (3,) of the ground on a point, m and m/s; the second result is its part along z."""
    depth = -position[2] / SOFT
    sunk = SOFT * (np.maximum(depth, 0) + np.log1p(np.exp(-np.abs(depth))))  # no corner at 0
    up = STIFFNESS * sunk * np.maximum(1 - LOSS * velocity[2], 0)
    along = velocity[:2]
    slow = 1 + DRAG**2 * (along @ along) / (FRICTION * up + 1e-9) ** 2
    sideways = -DRAG * along / np.sqrt(slow)  # at most the friction's force
    return np.stack([sideways[0], sideways[1], up]), up


def make_step(robot: fl.Model):
    """One step of a hopper, to be traced. push: how far the knee stretches, 0 to 1."""

    def step(q, v, push):
        foot = robot.frame_placement(q, "foot")[:3, 3]
        moving = robot.frame_velocity(q, v, "foot", reference="world")[:3]
        force, up = ground(foot, moving)
        stance = np.tanh(up / 20) * (1 + np.tanh(v[1] / 0.05)) / 2  # on the ground and rising
        knee = KNEE[0] + push * stance * (KNEE[1] - KNEE[0])
        wanted = np.stack([0 * knee, 0 * knee, -knee / 2 - TURN * v[0], knee])
        tau = GAINS[0] * (wanted - q) - GAINS[1] * v
        wrench = np.concatenate([force, np.zeros(3)])
        moved = robot.step(q, v, tau, DT, {"foot": wrench}, f_ext_frame="world")
        return {"q": moved.q, "v": moved.v, "foot": foot[2], "slide": moving[0], "up": up}

    return step


def start(hoppers: int, drop: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Hoppers at rest with their feet so many metres above the ground."""
    q = np.tile([0, 0.6 * np.cos(KNEE[0] / 2) + drop, -KNEE[0] / 2, KNEE[0]], (hoppers, 1))
    return q, np.zeros((hoppers, 4))


def hop(robot: fl.Model, push: np.ndarray, steps: int = STEPS) -> Run:
    """Lets hoppers hop, one for each push."""
    step = fl.compile(make_step(robot), {"q": 4, "v": 4, "push": ()})
    (q, v), rows = start(len(push)), []
    for _ in range(steps):
        height = q[:, 1]
        q, v, foot, slide, up = step(q, v, push)
        rows.append((height, foot, slide, up))
    return Run(*np.array(rows).swapaxes(0, 1))


def height_by_push(robot: fl.Model, push: float, steps: int) -> tuple[float, float]:
    """The height of the hip after some steps, and its derivative by the push, through contacts."""
    graph = fl.jvp(make_step(robot), {"q": 4, "v": 4, "push": ()}, wrt=("q", "v", "push"))
    tangent = fl.compile(graph)
    (q, v), dq, dv = (x[0] for x in start(1)), np.zeros(4), np.zeros(4)
    for _ in range(steps):
        found = tangent(q, v, push, dq, dv, 1.0)
        q, v, dq, dv = found.q, found.v, found.q_direction, found.v_direction
    return q[1], dq[1]


def creep(slope: float, seconds: float = 1.0) -> float:
    """The speed of a foot, m/s, that should stick on a slope: friction would hold it."""
    return float(hop(hopper(slope), np.zeros(1), int(seconds / DT)).slide[-1, 0])


def draw(run: Run, pushes: np.ndarray, path: str) -> None:
    from featherlane.tools.figures import pyplot, save

    plt = pyplot()
    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 5), sharex=True, layout="constrained")
    time = DT * np.arange(len(run.height))
    for push, height, foot in zip(pushes, run.height.T, run.foot.T, strict=True):
        above.plot(time, height, label=f"push {push:.2f}")
        below.plot(time, 1000 * np.minimum(foot, 0))
    above.set(ylabel="hip, m")
    above.legend(ncols=3)
    below.set(xlabel="time, s", ylabel="foot in the ground, mm")
    save(figure, path, "Hops after pushes: the hip, and the foot in the ground")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--figure", help="draw some hoppers into this file")
    args = parser.parse_args()
    robot, pushes = hopper(), np.array([0.0, 0.15, 0.3])
    run = hop(robot, pushes)
    print(f"highest hip {run.height[STEPS // 2 :].max(0).round(2)} m for pushes {pushes}")
    print(f"a foot that stands is {-1e3 * run.foot[-1, 0]:.1f} mm in the ground, ", end="")
    print(f"one that lands {-1e3 * run.foot.min():.1f} mm")
    print(f"on a slope of 20 degrees, where it should stick, it creeps at {creep(0.35):.4f} m/s")
    for seconds in (0.3, 1.0):
        steps, eps = int(seconds / DT), 1e-6
        exact = height_by_push(robot, 0.2, steps)[1]
        beside = [height_by_push(robot, 0.2 + x, steps)[0] for x in (eps, -eps)]
        print(f"after {seconds} s: d height / d push {exact:.6f} m, ", end="")
        print(f"by differences {(beside[0] - beside[1]) / (2 * eps):.6f}")
    if args.figure:
        draw(run, pushes, args.figure)


if __name__ == "__main__":
    main()
