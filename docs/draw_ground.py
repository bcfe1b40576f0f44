"""The ground: balls bounce, quadrupeds stand under a law of their joints, others fall without

Writes docs/ground.svg, a moving picture. Each crowd is one call.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from crowds import crowd, quadruped, rows_of_floor, spots, walking
from scene import Limbs, Scene, sampled

import featherlane as fl
from featherlane.tools.figures import BLUE, GREEN, ORANGE

SECONDS, PICTURES, DT = 3.0, 46, 0.002  # of the loop; key frames; s
SCENE = Scene(960, 440, np.array([0.0, -4.0, 1.55]), 780.0, 118.0, SECONDS)
ROWS = (1, 2, 3, 4, 5)  # robots of a crowd, from the nearest row to the farthest
CROWD, STEPS = sum(ROWS), int(SECONDS / DT)
STANCE = np.array([0.0, 0.8, -1.6] * 4)  # rad
RADIUS = 0.14  # m, of a ball


def dropped(robot: fl.Model, tilt: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """States of a crowd of quadrupeds above the ground, each with a heading and a tilt, rad."""
    rng = np.random.default_rng(seed)
    q, v = np.zeros((CROWD, robot.nq)), np.zeros((CROWD, robot.nv))
    q[:, 2] = rng.uniform(0.5, 0.75, CROWD)
    turn = np.stack([*rng.uniform(-tilt, tilt, (2, CROWD)), rng.uniform(-3, 3, CROWD)], -1)
    q[:, 3:7] = fl.quaternion_from_rpy(turn)
    q[:, 7:] = STANCE + rng.uniform(-0.3, 0.3, (CROWD, 12))
    return q, v


def quadrupeds(stiffness: float, damping: float, tilt: float, seed: int) -> list[list[Limbs]]:
    """A crowd whose joints are held to the stance, N m/rad and N m s/rad."""
    trunk = fl.CollisionShape("trunk", "box", (0.19, 0.06, 0.057))
    robot = walking.go2().robot.with_collision_shapes({"base": trunk})
    law = robot.policy(
        lambda q, v, t: np.append(np.zeros(6), stiffness * (STANCE - q[7:]) - damping * v[6:])
    )
    q, v = dropped(robot, tilt, seed)
    moved = sampled(
        robot.rollout_with(law, q, v, DT, STEPS, ground=fl.Ground()).q, PICTURES, axis=1
    )
    return [quadruped(moved[:, i]) for i in range(CROWD)]


def balls() -> list[list[Limbs]]:
    """A crowd of balls with different coefficients of restitution."""
    ball = fl.load(f"""<mujoco><worldbody><body name="ball"><freejoint/>
    <geom type="sphere" size="{RADIUS}" mass="1"/></body></worldbody></mujoco>""")
    q, v = np.tile([0.0, 0, 1, 0, 0, 0, 1], (CROWD, 1)), np.zeros((CROWD, 6))
    q[:, 2] = np.random.default_rng(0).uniform(0.6, 1.2, CROWD)
    law = fl.Coulomb(restitution=0.85)
    still = np.zeros((STEPS, 6))
    moved = sampled(ball.rollout(q, v, still, DT, ground=fl.Ground(), law=law).q, PICTURES, axis=1)
    return [[Limbs(moved[:, i, None, None, :3], 2 * RADIUS)] for i in range(CROWD)]


def main() -> None:
    crowds = (
        ("bounce", balls(), GREEN),
        ("stand", quadrupeds(40, 1.0, 0.15, 3), BLUE),
        ("fall", quadrupeds(3, 0.3, 0.6, 5), ORANGE),
    )
    parts, words = [], []
    for column, (word, robots, hue) in enumerate(crowds):
        places = spots(SCENE, ROWS, column, len(crowds))
        placed = [
            [limb.placed(np.eye(3), at) for limb in robot]
            for robot, at in zip(robots, places, strict=True)
        ]
        parts.append(crowd(SCENE, ROWS, placed, word[0], hue))
        x = SCENE.width * (2 * column + 1) / (2 * len(crowds))
        words.append(SCENE.text(x, 104, f"they {word}", 32, hue))
    middle = SCENE.width / 2
    words.append(SCENE.text(middle - 125, 44, "rigid contact,", 38))
    words.append(SCENE.text(middle + 140, 44, "Coulomb friction", 38))
    floor = SCENE.floor(np.linspace(-12, 12, 25), rows_of_floor(SCENE, len(ROWS)))
    title = (__doc__ or "").partition("\n")[0]
    text = SCENE.svg(title, floor + SCENE.restarted("\n".join(parts)), words)
    Path(__file__).with_name("ground.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
