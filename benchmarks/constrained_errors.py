"""Errors of constrained forward dynamics in float32, by the conditioning of S = J M^-1 J^T.

    python benchmarks/constrained_errors.py [--states 512]

Each row is a decade of the condition number of S, its rows scaled to a unit diagonal and redundant
directions left out, over random states of several robots. Errors are those of accelerations and of
forces against float64 from the same inputs, relative to the largest entry of each state.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

import featherlane as fl

REDUNDANT = 1e-9  # eigenvalues of the scaled S below it belong to redundant rows


def cases() -> Iterator[tuple[str, fl.Model, fl.Constraints]]:
    """Yields robots with constraints: points, welds and a closed loop."""
    for name, root, ends, kind in (
        ("hyq", "free", "lowerleg", fl.Pin),
        ("quadruped_arm", "free", "lower_leg", fl.Pin),
        ("g1", "free", "ankle_roll_link", fl.Weld),
        ("atlas", "free", "foot", fl.Weld),
        ("iiwa14", "fixed", "link_7", fl.Pin),
        ("panda", "fixed", "hand_tcp", fl.Weld),
    ):
        robot = fl.load(name, root=root)
        items = [kind(frame) for frame in robot.frame_names if ends in frame]
        yield name, robot, robot.constraints(items)
    robot = fl.load("g1", root="free")
    hands = fl.Pin("left_wrist_yaw_link", "right_wrist_yaw_link")
    yield "g1, hand in hand", robot, robot.constraints([hands])


def conditions(S: np.ndarray) -> np.ndarray:
    """Returns the condition number of each S without its redundant directions."""
    scale = np.sqrt(np.maximum(np.einsum("nii->ni", S), 1e-30))
    values = np.linalg.eigvalsh(S / scale[:, :, None] / scale[:, None, :])
    least = np.where(values > REDUNDANT, values, np.inf).min(1)
    return values[:, -1] / least


def errors(
    robot: fl.Model, constraints: fl.Constraints, states: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the condition numbers, and the errors of accelerations and of forces."""
    rng = np.random.default_rng(0)
    q = robot.random_configuration(states, seed=0).astype(np.float32)
    v, tau = rng.normal(size=(2, states, robot.nv)).astype(np.float32)
    single = robot.constrained_forward_dynamics(q, v, tau, constraints)
    double = [x.astype(float) for x in (q, v, tau)]
    exact = robot.constrained_forward_dynamics(*double, constraints)
    wrong = [np.abs(x - y).max(1) / np.abs(y).max(1) for x, y in zip(single, exact, strict=True)]
    return conditions(robot.delassus_matrix(double[0], constraints)), *wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--states", type=int, default=512, help="random states of each robot")
    args = parser.parse_args()
    parts = []
    for name, robot, constraints in cases():
        parts.append(errors(robot, constraints, args.states))
        condition, a, force = parts[-1]
        print(
            f"{name}: condition {np.median(condition):.0e}, {condition.max():.0e} at most; ", end=""
        )
        print(f"accelerations {np.median(a):.0e}, {a.max():.0e}; ", end="")
        print(f"forces {np.median(force):.0e}, {force.max():.0e}")
    condition, a, force = (np.concatenate(x) for x in zip(*parts, strict=True))
    print("| condition of S | states | a, median | worst | forces, median | worst |")
    for decade in range(8):
        own = (condition >= 10**decade) & (condition < 10 ** (decade + 1))
        if own.any():
            figures = [x for e in (a, force) for x in (np.median(e[own]), e[own].max())]
            row = " | ".join(f"{x:.0e}" for x in figures)
            print(f"| 1e{decade} to 1e{decade + 1} | {own.sum()} | {row} |")


if __name__ == "__main__":
    main()
