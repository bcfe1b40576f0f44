"""Robots with collision shapes, and states of them in contact, for soft contacts."""

import numpy as np

LEG = """
<body name="{n} hip" pos="{x} {y} 0"><joint name="{n} hip" axis="1 0 0" range="-.8 .8"/>
  <geom type="capsule" size=".03" fromto="0 0 0 0 {w} 0" mass=".6" contype="0" conaffinity="0"/>
  <body pos="0 {w} 0"><joint name="{n} thigh" axis="0 1 0" range="-1 2.5"/>
    <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2" mass="1" contype="0" conaffinity="0"/>
    <body pos="0 0 -.2"><joint name="{n} knee" axis="0 1 0" range="-2.6 -.8"/>
      <geom type="capsule" size=".01" fromto="0 0 0 0 0 -.2" mass=".2" contype="0" conaffinity="0"/>
      <geom name="{n}" type="sphere" size=".02" pos="0 0 -.2" mass=".05" condim="{condim}"/>
</body></body></body>
"""
FEET = (("FL", 0.2, 0.1), ("FR", 0.2, -0.1), ("RL", -0.2, 0.1), ("RR", -0.2, -0.1))
QUADRUPED = """
<mujoco><compiler angle="radian" autolimits="true"/><option cone="{cone}" impratio="{impratio}"
    tolerance="0" iterations="100" ls_iterations="100"/>
<default><joint frictionloss=".1" armature=".01" damping=".1"/>
  <geom friction=".8 .02 .01" solref=".015 .9" solimp=".85 .95 .002 .4 2.5"/></default>
<worldbody><geom name="floor" type="plane" size="0 0 1" pos="0 0 .1" euler=".1 .05 0"/>
  <body name="base" pos="0 0 .4"><freejoint/>
    <geom name="trunk" type="box" size=".25 .1 .05" mass="8"/>{legs}</body></worldbody></mujoco>
"""


def quadruped(cone="elliptic", condim=3, impratio=1):
    legs = [LEG.format(n=n, x=x, y=y, w=y / 2, condim=condim) for n, x, y in FEET]
    return QUADRUPED.format(cone=cone, impratio=impratio, legs="".join(legs))


GRIPPER = """
<mujoco><compiler angle="radian" autolimits="true"/><option cone="elliptic" tolerance="0"
    iterations="100" ls_iterations="100"/>
<default><geom friction=".9 .01 .002" condim="4"/><joint axis="0 1 0" damping=".05"/></default>
<worldbody><geom name="table" type="plane" size="0 0 1"/>
  <body name="palm" pos="0 0 .25"><joint name="lift" type="slide" axis="0 0 1" range="-.1 .1"/>
    <geom type="box" size=".06 .03 .02" mass=".4" contype="0" conaffinity="0"/>
    <body name="left" pos=".05 0 -.02"><joint name="left" range="-.5 .6" armature=".001"
        frictionloss=".02"/>
      <geom name="left" type="capsule" size=".012" fromto="0 0 -.02 0 0 -.1" mass=".05"/></body>
    <body name="right" pos="-.05 0 -.02"><joint name="right" range="-.6 .5" armature=".001"
        frictionloss=".02"/>
      <geom name="right" type="capsule" size=".012" fromto="0 0 -.02 0 0 -.1" mass=".05"/></body>
  </body>
  <body name="ball" pos="0 0 .13"><freejoint/>
    <geom name="ball" type="sphere" size=".035" mass=".1" condim="6"/></body>
</worldbody>
<equality><joint joint1="left" joint2="right" polycoef="0 -1 .2 0 0"/></equality></mujoco>
"""


def quadruped_states(model, n):
    rng, spread = np.random.default_rng(1), np.resize([0.02, 0.1, 0.3], (n, 1))
    q = np.tile(model.neutral(), (n, 1))
    q[:, 2] = 0.46 - rng.uniform(0, 0.06, n)
    q[:, 7:] = np.tile([0, 0.8, -1.5], 4)
    q = model.integrate(q, rng.normal(size=(n, 18)) * spread * np.array([0, 0, 0, *[1.0] * 15]))
    v = rng.normal(size=(n, 18)) * rng.choice([0.1, 1], (n, 1))
    return q, v, rng.normal(size=(n, 18)) * np.repeat([0, 5], [6, 12])


def gripper_states(model, n):
    rng = np.random.default_rng(1)
    q = np.tile(model.neutral(), (n, 1))
    q[:, :3] = rng.uniform([-0.1, -0.1, -0.4], [0.02, 0.4, 0.1], (n, 3))
    q[:, 3:6] = rng.uniform([-0.02, -0.01, 0.03], [0.02, 0.01, 0.16], (n, 3))
    v = rng.normal(size=(n, 9)) * rng.choice([0.05, 0.5], (n, 1))
    return q, v, rng.normal(size=(n, 9)) * np.array([5, 1, 1, 0, 0, 0, 0, 0, 0])


def loose_states(model, n):
    rng = np.random.default_rng(1)
    q = np.tile(model.neutral(), (n, 1))
    q = model.integrate(q, rng.normal(size=(n, 18)) * np.resize([0, 0, 0, 1, 1, 1], 18))
    for at, (name, half, radius) in enumerate(HALVES):
        R = model.frame_placement(q, name)[:, :3, :3]
        height = np.abs(R[:, 2]) @ half + radius
        q[:, 7 * at] = at
        q[:, 7 * at + 2] = height - rng.uniform(-0.002, 0.01, n)
    return q, rng.normal(size=(n, 18)) * rng.choice([0.1, 1], (n, 1)), rng.normal(size=(n, 18))


HALVES = ("sphere", (0, 0, 0), 0.1), ("capsule", (0, 0, 0.1), 0.05), ("box", (0.1, 0.08, 0.06), 0)
"""Half extents along a body's axes, and the radius around them, m."""

LOOSE = """
<mujoco><option cone="elliptic" tolerance="0" iterations="100" ls_iterations="100"/>
<default><geom friction=".7 .01 .002" solref=".02 1.1"/></default>
<worldbody><geom name="table" type="plane" size="0 0 1"/>
  <body name="sphere" pos="0 0 .1"><freejoint/>
    <geom name="sphere" type="sphere" size=".1" mass="1" condim="4"/></body>
  <body name="capsule" pos="1 0 .1"><freejoint/>
    <geom name="capsule" type="capsule" size=".05 .1" mass=".5" condim="6"/></body>
  <body name="box" pos="2 0 .1"><freejoint/>
    <geom name="box" type="box" size=".1 .08 .06" mass="2"/></body>
</worldbody></mujoco>
"""

SCENES = {"gripper": (GRIPPER, gripper_states), "loose bodies": (LOOSE, loose_states)}
"""MJCF files, and functions of a model and a number of states."""
