"""The constants of a robot that may be inputs of its functions instead."""

from __future__ import annotations

import numpy as np

from featherlane.robot.model import Robot
from featherlane.robot.parts import point_inertia
from featherlane.robot.quaternions import matrix_quaternion

PARAMETERS = {  # the axes of each parameter's shape
    "mass": ("bodies",),
    "com": ("bodies", 3),
    "inertia": ("bodies", 6),
    "inertial": ("bodies", 10),
    "position": ("bodies", 3),
    "orientation": ("bodies", 4),
    "gravity": (3,),
    "armature": ("v",),
    "damping": ("v",),
    "friction": ("v",),
    "stiffness": ("v",),
    "spring_reference": ("v",),
    "base_velocity": (6,),
    "base_acceleration": (6,),
}
BASE = ("base_velocity", "base_acceleration")
BODY_PARAMETERS = ("mass", "com", "inertia", "inertial")


def parameter_value(model: Robot, name: str) -> np.ndarray:
    """Returns the model's value of a parameter, the entry of `Model.parameters`."""
    of_bodies = {
        "mass": lambda body: body.mass,
        "com": lambda body: body.com,
        "inertia": lambda body: _six(np.array(body.inertia)),
        "inertial": lambda body: _ten(body.mass, np.array(body.com), np.array(body.inertia)),
    }
    of_joints = {
        "position": lambda joint: joint.placement.p,
        "orientation": lambda joint: matrix_quaternion(np.array(joint.placement.R)),
    }
    if name in of_bodies:
        return np.array([of_bodies[name](body) for body in model.bodies], float)
    if name in of_joints:
        return np.array([of_joints[name](joint) for joint in model.joints], float)
    if name in BASE:
        return np.zeros(6)
    return np.array(getattr(model, name), float)


def _six(I: np.ndarray) -> np.ndarray:
    return I[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]


def matrix_of_six(six: np.ndarray) -> np.ndarray:
    """Returns the symmetric matrix (3, 3) of xx, xy, yy, xz, yz, zz."""
    return six[np.array([[0, 1, 3], [1, 2, 4], [3, 4, 5]])]


def _ten(m: float, c: np.ndarray, I: np.ndarray) -> np.ndarray:
    return np.array([m, *(m * c), *_six(I + m * point_inertia(c))])
