"""Inverse kinematics of a panda between two walls, clear of them, of a ball and of itself: the
spheres that cover the arm, drawn at a solution without obstacles and at one that avoids them.

    python examples/clear_of_obstacles.py [--figure clear_of_obstacles.svg]
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np

import featherlane as fl
from featherlane.tools.figures import pyplot, save

HAND = "panda_hand"
BALL = [0.45, 0.1, 0.55, 0.12]  # x, y, z, radius, m
WALL = 0.3  # m from the middle
PLANES = [[0.0, 0.0, 1.0, 0.0], [0.0, -1.0, 0.0, -WALL], [0.0, 1.0, 0.0, -WALL]]
MARGIN = 0.01  # m


class Solutions(NamedTuple):
    plain: Any  # of inverse_kinematics, for targets (n, 4, 4)
    clear: Any
    gaps: np.ndarray  # (n,), m: the clearance of the plain ones


def avoidance(arm: fl.Model) -> fl.Avoidance:
    """The spheres of the arm, 6 cm around its bones, and what they keep clear of."""
    spheres = arm.body_spheres(0.06, fit=1.5)
    return fl.Avoidance(spheres, spheres=[BALL], planes=PLANES, margin=MARGIN)


def solve(arm: fl.Model, count: int = 1000) -> Solutions:
    """Solutions for targets that can be reached clear of everything."""
    avoid = avoidance(arm)
    q = arm.random_configuration(40 * count, seed=0)
    q = q[arm.clearances(q, avoid).min(axis=-1) > MARGIN][:count]
    targets = arm.frame_placement(q, HAND)
    plain = arm.inverse_kinematics(targets, HAND)
    clear = arm.inverse_kinematics(targets, HAND, avoid=avoid, restarts=64)
    return Solutions(plain, clear, arm.clearances(plain.q, avoid).min(axis=-1))


def centers(arm: fl.Model, q: np.ndarray, spheres: list[fl.BodySphere]) -> np.ndarray:
    """The centres (spheres, 3) in the world at q (nq,)."""
    T = arm.frame_placement(q, [sphere.frame for sphere in spheres])
    local = np.array([sphere.center for sphere in spheres])
    return np.einsum("sij,sj->si", T[:, :3, :3], local) + T[:, :3, 3]


def draw(arm: fl.Model, solutions: Solutions, path: str) -> None:
    """The target whose plain solution is deepest in an obstacle, seen along x and along y."""
    plt = pyplot()
    reached = solutions.plain.converged & solutions.clear.converged
    n = int(np.argmin(np.where(reached, solutions.gaps, np.inf)))
    spheres = arm.body_spheres(0.06, fit=1.5)
    figure, views = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
    for view, (i, label) in zip(views, ((1, "y, m"), (0, "x, m")), strict=True):
        for q, color in ((solutions.plain.q[n], "C1"), (solutions.clear.q[n], "C0")):
            for center, sphere in zip(centers(arm, q, spheres), spheres, strict=True):
                place = center[i], center[2]
                view.add_patch(plt.Circle(place, sphere.radius, color=color, alpha=0.35, lw=0))
        view.add_patch(plt.Circle((BALL[i], BALL[2]), BALL[3], color="C3", alpha=0.6, lw=0))
        view.axhline(0, color="C3")
        view.plot([], [], "o", color="C1", label="without obstacles")
        view.plot([], [], "o", color="C0", label="avoiding them")
        view.set(xlabel=label, ylabel="z, m", aspect="equal", xlim=(-0.8, 0.8), ylim=(-0.1, 1.2))
    for x in (-WALL, WALL):
        views[0].axvline(x, color="C3")
    views[1].legend()
    save(figure, path, "Solutions for one target, with the spheres of the arm", narrow=4.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--figure", help="draw a solution into this file")
    args = parser.parse_args()
    arm = fl.load("panda")
    solutions = solve(arm)
    good = solutions.plain.converged & (solutions.gaps >= MARGIN)
    print(f"{good.mean():.1%} of {len(good)} targets reached and clear without knowing obstacles")
    print(f"{solutions.clear.converged.mean():.1%} with them")
    print(f"least distance {solutions.clear.clearance[solutions.clear.converged].min():.4f} m")
    if args.figure:
        draw(arm, solutions, args.figure)


if __name__ == "__main__":
    main()
