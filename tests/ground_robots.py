"""Robots for tests of the ground: a ball, a block on four points, a quadruped."""

from functools import cache

import numpy as np

import featherlane as fl

RADIUS = 0.1
DT = 0.002
BALL = f"""<mujoco><worldbody><body name="ball"><freejoint/>
<geom name="ball" type="sphere" size="{RADIUS}" mass="2" friction="0.4 0 0"/>
</body></worldbody></mujoco>"""
CORNERS = [(x, y) for x in (-0.2, 0.2) for y in (-0.1, 0.1)]
BLOCK = f"""<mujoco><worldbody><body name="block"><freejoint/>
<inertial pos="0 0 0" mass="3" diaginertia="0.02 0.05 0.06"/>
{"".join(f'<geom type="sphere" size="0.01" pos="{x} {y} -0.04"/>' for x, y in CORNERS)}
</body></worldbody></mujoco>"""


def _leg(name: str, x: float, y: float) -> str:
    return f"""<body name="{name}_thigh" pos="{x} {y} 0">
<joint name="{name}_hip" axis="0 1 0" range="-2 2" damping="0.1" frictionloss="0.1"/>
<inertial pos="0 0 -0.1" mass="0.6" diaginertia="0.003 0.003 0.0005"/>
<body name="{name}_shank" pos="0 0 -0.2"><joint name="{name}_knee" axis="0 1 0" range="-2.5 -0.3"
damping="0.1" frictionloss="0.1"/><inertial pos="0 0 -0.1" mass="0.2"
diaginertia="0.001 0.001 0.0001"/>
<geom name="{name}_foot" type="sphere" size="0.02" pos="0 0 -0.2" friction="0.8 0 0"/>
</body></body>"""


LEGS = {"FL": (0.2, 0.1), "FR": (0.2, -0.1), "RL": (-0.2, 0.1), "RR": (-0.2, -0.1)}


def on_legs(*names: str) -> str:
    return f"""<mujoco><compiler angle="radian"/><worldbody><body name="trunk"><freejoint/>
<inertial pos="0 0 0" mass="6" diaginertia="0.03 0.1 0.11"/>
{"".join(_leg(name, *LEGS[name]) for name in names)}
</body></worldbody></mujoco>"""


@cache
def ball() -> fl.Model:
    return fl.load(BALL)


@cache
def block() -> fl.Model:
    return fl.load(BLOCK)


@cache
def quadruped() -> fl.Model:
    return fl.load(on_legs(*LEGS))


@cache
def biped() -> fl.Model:
    """Returns the robot on two of its legs, whose step has half as many contacts."""
    return fl.load(on_legs("FL", "RR"))


STANCE = np.tile([0.6, -1.2], 4)
HEIGHT = 0.2 * np.cos(0.6) * 2 + 0.02  # of the trunk in that stance


def standing(n: int, seed: int = 0, model: fl.Model | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Returns states of robots on their feet, or a little above and below, in motion. model: by
    default the quadruped.
    """
    rng, model = np.random.default_rng(seed), model or quadruped()
    q = np.tile(model.neutral(), (n, 1))
    q[:, 2] = HEIGHT + rng.uniform(-0.005, 0.01, n)
    q[:, 3:7] += 0.02 * rng.normal(size=(n, 4))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    legs = model.nq - 7
    q[:, 7:] = STANCE[:legs] + 0.05 * rng.normal(size=(n, legs))
    return q, 0.5 * rng.normal(size=(n, model.nv))


@cache
def posture() -> tuple[fl.Model, object]:
    """Returns the quadruped and a law that holds its stance."""
    model = quadruped()

    def law(q, v, t, gain):
        return np.concatenate([np.zeros(6), gain * (STANCE - q[7:]) - 1.0 * v[6:]])

    return model, model.policy(law, {"gain": ()})
