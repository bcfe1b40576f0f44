"""The tasks of `walking.py` with `mujoco.rollout` as their physics, for comparison: what observes,
rewards and ends episodes is compiled as before, and takes the states that MuJoCo gives.
"""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory
from typing import Any

import mujoco
import numpy as np
from mujoco.rollout import Rollout
from walking import DT, PUSH, PUSHED, SUBSTEPS, Walking

import featherlane as fl
from featherlane.interop.gymnasium import TracedVectorEnv

SUFFIX = "_servo"


class Elsewhere(Walking):
    """The task of another, whose steps are computed elsewhere: their results take the place of the
    noise.
    """

    def __init__(self, task: Walking) -> None:
        super().__init__(task.robot, task.gait)
        self.sizes = [self.robot.nq, self.robot.nv, self.robot.nv - 6, len(self.gait.feet)]
        self.noise = sum(self.sizes)

    def advance(self, state: Any, action: Any, noise: Any) -> Any:
        q, v, tau, touching = np.split(noise, np.cumsum(self.sizes)[:-1])
        clock = state.clock + DT * SUBSTEPS / self.gait.period
        return state._replace(
            q=q, v=v, tau=tau, touching=touching, action=action, clock=clock - np.floor(clock)
        )


class MujocoEnv(TracedVectorEnv):
    """A vector environment whose physics is `mujoco.rollout`. All have the friction and the masses
    of one model.
    """

    def __init__(self, task: Walking, num_envs: int, *, threads: int | None = None, **options: Any):
        super().__init__(Elsewhere(task), num_envs, threads=threads, **options)
        self.model = model_of(task)
        threads = threads or len(os.sched_getaffinity(0))
        self.pool = Rollout(nthread=threads)
        self.data = [mujoco.MjData(self.model) for _ in range(threads)]
        self.rng = np.random.default_rng(0)

    def draw_noise(self, actions: np.ndarray) -> np.ndarray:
        """Returns the states, torques and contacts after a step of all robots."""
        task, n, (q, v, *_) = self.task, self.num_envs, self.state
        push = PUSH * (self.rng.random((n, 1)) < PUSHED) * self.rng.uniform(-1, 1, (n, 2))
        v = np.concatenate([v[:, :2] + push, v[:, 2:]], axis=1)
        there = fl.convert.to_mujoco(task.robot, q.astype(float), v.astype(float))
        first = np.concatenate([np.zeros((n, 1)), there.q, there.v], axis=1)
        offsets = np.zeros((n, len(task.gait.stance)))
        offsets[:, : task.actions] = actions
        controls = np.repeat((task.gait.stance + task.gait.scale * offsets)[:, None], SUBSTEPS, 1)
        states, sensors = self.pool.rollout([self.model] * n, self.data, first, controls)
        q, v = np.split(states[:, -1, 1 : 1 + self.model.nq + self.model.nv], [self.model.nq], 1)
        back = fl.convert.from_mujoco(task.robot, q, v)
        tau, touching = np.split(sensors[:, -1], [task.robot.nv - 6], 1)
        touching = np.max(touching.reshape(n, len(task.gait.feet), -1), axis=2) > 0
        return np.concatenate([back.q, back.v, tau, touching], 1).astype(self.dtype)


def model_of(task: Walking) -> mujoco.MjModel:
    """The robot on a plane, with servos, and sensors of their torques and of feet that touch."""
    robot = task.robot
    with TemporaryDirectory() as folder:
        robot.to_urdf(file := f"{folder}/robot.urdf")
        spec = mujoco.MjSpec.from_file(file)
    spec.option.timestep = DT
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.body(robot.body_names[0]).add_freejoint()
    for i, name in enumerate(robot.joint_names[1:]):
        joint, v = spec.joint(name), 6 + i
        joint.armature, joint.damping = robot.armature[v], [robot.damping[v], 0, 0]
        kp, kd, most = task.gait.kp[i], task.gait.kd[i], robot.effort_limits[v]
        servo = spec.add_actuator(name=name + SUFFIX, target=name, forcerange=[-most, most])
        servo.trntype, servo.gainprm[0] = mujoco.mjtTrn.mjTRN_JOINT, kp
        servo.biastype, servo.biasprm[:3] = mujoco.mjtBias.mjBIAS_AFFINE, [0, -kp, -kd]
        servo.forcelimited = True
        torque = spec.add_sensor(type=mujoco.mjtSensor.mjSENS_ACTUATORFRC, objname=name + SUFFIX)
        torque.objtype = mujoco.mjtObj.mjOBJ_ACTUATOR
    for geom in spec.geoms:  # they touch the ground alone
        geom.contype, geom.conaffinity = 0, 1
    for i, shape in enumerate(robot.collision_shapes):
        body = spec.body(robot.body_names[shape.body])
        size = [1.1 * shape.size[0], 0, 0]
        body.add_site(name=f"foot{i}", pos=shape.placement.p, size=size)
        touch = spec.add_sensor(type=mujoco.mjtSensor.mjSENS_TOUCH, objname=f"foot{i}")
        touch.objtype = mujoco.mjtObj.mjOBJ_SITE
    plane = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    plane.friction[0], plane.priority = 0.7, 1
    return spec.compile()
