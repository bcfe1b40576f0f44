"""The plant: the robot in MuJoCo, from the same text, with spheres as feet, a plane and motors."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from lxml import etree
from robot import FEET, FOOT_RADIUS, Quadruped

import featherlane as fl
from featherlane.robot.model import Robot

TIMESTEP = 0.001  # s
FRICTION = 0.8
FALLEN = 0.25  # m, the height below which the robot has fallen
COMPILER = ("fusestatic", "discardvisual", "balanceinertia", "inertiafromgeom")


def model_of(robot: Quadruped) -> Any:
    """Returns MuJoCo's model of the robot on the ground."""
    tree = etree.fromstring(robot.urdf)
    options = dict.fromkeys(COMPILER, "false")
    etree.SubElement(etree.SubElement(tree, "mujoco"), "compiler", options)
    spec = mujoco.MjSpec.from_string(etree.tostring(tree, encoding="unicode"))
    root: Robot = robot.model
    spec.worldbody.first_body().add_joint(name=root.joints[0].name, type=mujoco.mjtJoint.mjJNT_FREE)
    # A light foot under a heavy body sinks by centimetres into MuJoCo's default ground
    size = {"condim": 3, "friction": [FRICTION, 0.005, 0.0001]}
    size |= {"solref": [0.004, 1.0], "solimp": [0.99, 0.999, 0.001, 0.5, 2.0]}
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], **size)
    for foot in FEET:
        sphere = {"type": mujoco.mjtGeom.mjGEOM_SPHERE, "size": [FOOT_RADIUS, 0, 0], "mass": 0.0}
        spec.body(foot).add_geom(**sphere, **size)
    for joint, effort in zip(root.joints[1:], root.effort_limits[6:], strict=True):
        motor = spec.add_actuator(name=joint.name, target=joint.name)
        motor.trntype = mujoco.mjtTrn.mjTRN_JOINT
        motor.ctrllimited, motor.ctrlrange = True, [-effort, effort]
    spec.option.timestep = TIMESTEP
    spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 10.0
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return spec.compile()


class Plant:
    """The simulated robot, and its state in featherlane's layout."""

    def __init__(self, robot: Quadruped, seed: int) -> None:
        self.robot, self.peer = robot, model_of(robot)
        self.data = mujoco.MjData(self.peer)
        self.change = fl.convert.mujoco(robot.model, self.peer)
        rng = np.random.default_rng(seed)
        q = robot.stance.copy()
        q[7:] += 0.02 * rng.normal(size=len(q) - 7)
        q[2] += FOOT_RADIUS - min(robot.model.frame_placement(q, foot)[2, 3] for foot in FEET)
        there = self.change.to(q, v=0.02 * rng.normal(size=robot.model.nv))
        self.data.qpos, self.data.qvel = there.q, there.v
        names = [joint.name for joint in robot.model.joints[1:]]
        joints = [self.peer.joint(name) for name in names]
        self.q_at = np.array([joint.qposadr[0] for joint in joints])
        self.v_at = np.array([joint.dofadr[0] for joint in joints])
        self.trunk = self.peer.joint(robot.model.joints[0].name).bodyid
        self.pushes = rng.uniform(-1.0, 1.0, (1000, 2))

    @property
    def time(self) -> float:
        return float(self.data.time)

    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """(q, v) in featherlane's layout."""
        here = self.change.back(self.data.qpos.copy(), v=self.data.qvel.copy())
        return here.q, here.v

    def joints(self) -> tuple[np.ndarray, np.ndarray]:
        """Angles and speeds of the joints, in featherlane's order."""
        return self.data.qpos[self.q_at], self.data.qvel[self.v_at]

    def step(self, torques: np.ndarray, push: np.ndarray) -> None:
        """A millisecond with these joint torques and a horizontal force (2,) on the trunk."""
        self.data.ctrl = torques
        self.data.xfrc_applied[self.trunk, :2] = push
        mujoco.mj_step(self.peer, self.data)

    def fallen(self) -> bool:
        """Whether the trunk is low, or on its side."""
        _, x, y, _ = self.data.qpos[3:7]
        return bool(self.data.qpos[2] < FALLEN or 1 - 2 * (x * x + y * y) < 0.5)

    def mass_matrix_error(self) -> float:
        """The largest relative difference between MuJoCo's mass matrix and featherlane's."""
        mujoco.mj_forward(self.peer, self.data)
        M = np.empty((self.peer.nv, self.peer.nv))
        mujoco.mj_fullM(self.peer, self.data, M)
        back = self.change.back(self.data.qpos.copy(), M=M).M
        own = self.robot.model.mass_matrix(self.state()[0])
        return float(np.abs(back - own).max() / np.abs(own).max())
