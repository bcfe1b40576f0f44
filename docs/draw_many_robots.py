"""Many robots, one call: some fall, some walk by a learned policy, some follow their targets

Writes docs/many_robots.svg, a moving picture. Each crowd is one batch: the falls are one call of
`rollout_with` on the ground, the arms another one, and all that walk take each step in one call.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from crowds import LEGS, crowd, quadruped, rows_of_floor, spots
from scene import Limbs, Scene, sampled

import featherlane as fl
from featherlane.tools.figures import BLUE, GREEN, ORANGE, PINK

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "examples"))
walk_policy, walking = map(import_module, ("walk_policy", "walking"))

SECONDS, PICTURES, DT = 4.0, 55, 0.002  # of the loop; key frames; s
SCENE = Scene(960, 480, np.array([0.0, -4.0, 1.75]), 800.0, 118.0, SECONDS)
ROWS = (1, 2, 3, 4, 6, 8, 10)  # robots of a crowd, from the nearest row to the farthest
CROWD = sum(ROWS)
STANCE = np.array([0.0, 0.8, -1.6] * 4)  # rad
ARM, HAND = "iiwa14", "iiwa_link_7"


def falls() -> np.ndarray:
    """Configurations (pictures, robots, 19) of quadrupeds that are dropped, all in one call."""
    trunk = fl.CollisionShape("trunk", "box", (0.19, 0.06, 0.057))
    knees = {f"{leg}_calf": fl.CollisionShape(f"{leg} knee", "sphere", (0.025,)) for leg in LEGS}
    robot = walking.go2().robot.with_collision_shapes({"base": trunk} | knees)
    rng = np.random.default_rng(4)
    q, v = np.zeros((CROWD, robot.nq)), np.zeros((CROWD, robot.nv))
    turns = rng.normal(size=(CROWD, 4))
    q[:, 2] = rng.uniform(0.7, 1.25, CROWD)
    q[:, 3:7] = turns / np.linalg.norm(turns, axis=1, keepdims=True)
    q[:, 7:] = STANCE + rng.uniform(-0.4, 0.4, (CROWD, 12))
    v[:, 3:6] = rng.uniform(-3, 3, (CROWD, 3))
    weak = robot.policy(lambda q, v, t: np.append(np.zeros(6), 12 * (STANCE - q[7:]) - 0.5 * v[6:]))
    moved = robot.rollout_with(weak, q, v, DT, int(SECONDS / DT), ground=fl.Ground())
    return sampled(moved.q, PICTURES, axis=1)


def walks() -> np.ndarray:
    """Configurations (pictures, robots, 19) of quadrupeds that walk along x, from x = y = 0, each
    at its own speed.
    """
    act = walk_policy.network_of(dict(np.load(walk_policy.LEARNED)))
    commands = np.outer(np.random.default_rng(1).uniform(0.45, 0.75, CROWD), [1, 0, 0])
    begin, steps = 25, int(SECONDS / walking.DT / walking.SUBSTEPS)  # they stand at first
    states = walk_policy.walk(walking.go2(), act, commands, begin + steps)
    q = np.stack([state.q for state, _ in states])[begin:]
    q[..., :2] -= q[0, :, :2]
    return sampled(q, PICTURES, axis=0)


def target(t: Any, phase: Any) -> list[Any]:
    """A point on a lying eight in front of an arm, m in its axes."""
    angle = 2 * np.pi * (t / SECONDS + phase)
    return [0.5 * np.cos(angle), -0.45 + 0 * angle, 0.7 + 0.24 * np.sin(2 * angle)]


def follows() -> tuple[np.ndarray, np.ndarray]:
    """Configurations (pictures, arms, 7) of arms, all in one call, and their targets (pictures,
    arms, 3). A spring pulls each hand to its target, and torques carry the weight.
    """
    arm = fl.load(ARM)

    def pull(q: Any, v: Any, t: Any, phase: Any) -> Any:
        J = arm.jacobian(q, HAND, "world")[:3]
        error = np.stack(target(t, phase)) - arm.frame_placement(q, HAND)[:3, 3]
        return arm.gravity_torque(q) + J.T @ (900 * error - 60 * (J @ v)) - 2 * v

    phase = np.random.default_rng(2).uniform(size=CROWD)
    q = np.tile([-np.pi / 2, 0.5, 0, -1.5, 0, 0.6, 0], (CROWD, 1))
    law, steps = arm.policy(pull, {"phase": ()}), int(2 * SECONDS / DT)
    moved = arm.rollout_with(law, q, 0 * q, DT, steps, parameters={"phase": phase})
    times = np.linspace(0, SECONDS, PICTURES)[:, None]
    second = moved.q[:, steps // 2 :]  # the second time around, each arm is at its target
    return sampled(second, PICTURES, axis=1), np.stack(target(times, phase), -1)


def manipulator(q: np.ndarray, aims: np.ndarray) -> list[Limbs]:
    """Limbs of an iiwa14 with configurations (pictures, 7), and its targets (pictures, 3)."""
    model = fl.load(ARM)
    line = np.stack([model.frame_placement(q, f"iiwa_link_{i}")[:, :3, 3] for i in range(8)], 1)
    foot = line[:, :2] * [1, 1, 0.4]
    parts = [(foot, 0.19), (line[:, 1:6], 0.11), (line[:, 5:], 0.075)]
    limbs = [Limbs(points[:, None], thickness) for points, thickness in parts]
    return [*limbs, Limbs(aims[:, None, None], 0.1, PINK)]


def crowds() -> list[list[list[Limbs]]]:
    """The limbs of all robots that fall, walk and follow, where they are."""
    q, walked, (reached, aims) = falls(), walks(), follows()
    heading = -2.1  # rad, of those that walk: to the reader, and to the left
    c, s = np.cos(heading), np.sin(heading)
    turned, straight = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]), np.eye(3)
    starts = spots(SCENE, ROWS, 1, 3) + np.array([0.5, 1.9, 0])  # m
    limbs = [
        ([quadruped(q[:, i]) for i in range(CROWD)], straight, spots(SCENE, ROWS, 0, 3)),
        ([quadruped(walked[:, i]) for i in range(CROWD)], turned, starts),
        (
            [manipulator(reached[:, i], aims[:, i]) for i in range(CROWD)],
            straight,
            spots(SCENE, ROWS, 2, 3),
        ),
    ]
    return [
        [[x.placed(X, spot) for x in robot] for robot, spot in zip(robots, places, strict=True)]
        for robots, X, places in limbs
    ]


def main() -> None:
    fallen, walkers, arms = crowds()
    body = [
        SCENE.floor(np.linspace(-12, 12, 25), rows_of_floor(SCENE, len(ROWS))),
        SCENE.restarted(
            crowd(SCENE, ROWS, fallen, "a", ORANGE) + crowd(SCENE, ROWS, walkers, "b", BLUE)
        ),
        crowd(SCENE, ROWS, arms, "c", GREEN),
    ]
    middle = SCENE.width / 2
    words = [
        SCENE.text(middle - 70, 44, "many robots,", 38),
        SCENE.text(middle + 117, 44, "one call", 38),
    ]
    for k, (word, hue) in enumerate((("fall", ORANGE), ("walk", BLUE), ("follow", GREEN))):
        words.append(SCENE.text(SCENE.width * (2 * k + 1) / 6, 104, f"they {word}", 32, hue))
    title = (__doc__ or "").partition("\n")[0]
    text = SCENE.svg(title, "\n".join(body), words)
    (DOCS / "many_robots.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
