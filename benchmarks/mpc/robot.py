"""The robot of the experiment: the quadruped with an arm, with feet and a stance."""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple

import numpy as np
from lxml import etree

import featherlane as fl
from featherlane.api.model import Model

LEGS = ("front_left", "front_right", "rear_left", "rear_right")
FEET = tuple(f"{leg}_foot" for leg in LEGS)
HAND = "arm_link_wr1"
FOOT_RADIUS = 0.03
SHANK = 0.3365  # m from the knee to the centre of the foot's sphere
HEIGHT = 0.48  # m from the ground to the root
ARM = {"arm_sh1": -1.9, "arm_el0": 1.9, "arm_wr0": 0.5}  # rad


class Quadruped(NamedTuple):
    """A robot with point feet, described for everyone by one text."""

    urdf: str  # with a link without mass for each foot
    model: Model
    stance: np.ndarray  # q of standing
    weight: float  # N


def quadruped() -> Quadruped:
    """Returns the bundled quadruped with an arm, with feet at the ends of its legs."""
    path = resources.files("featherlane").joinpath("robot/bundled/quadruped_arm.urdf")
    tree = etree.fromstring(path.read_bytes())
    for leg, foot in zip(LEGS, FEET, strict=True):
        etree.SubElement(tree, "link", name=foot)
        joint = etree.SubElement(tree, "joint", name=f"{foot}_mount", type="fixed")
        etree.SubElement(joint, "origin", xyz=f"0 0 {-SHANK}", rpy="0 0 0")
        etree.SubElement(joint, "parent", link=f"{leg}_lower_leg")
        etree.SubElement(joint, "child", link=foot)
    urdf = etree.tostring(tree, encoding="unicode")
    model = fl.load(urdf, root="free")
    mass = sum(body.mass for body in model.bodies)
    return Quadruped(urdf, model, standing(model), 9.81 * mass)


def standing(model: Model) -> np.ndarray:
    """Returns the q in which the feet stand below the hips and the hand is held before the body."""
    q = model.neutral()
    first = {joint.name: model.first_q[i] for i, joint in enumerate(model.joints)}
    for leg in LEGS:
        hip, knee = first[f"{leg}_hip_y"], first[f"{leg}_knee"]
        low, high = -2.5, -0.3
        for _ in range(60):  # the knee by bisection, the hip so that the foot is below it
            bend = (low + high) / 2
            q[knee], q[hip] = bend, 0.0
            foot = model.frame_placement(q, f"{leg}_foot")[:3, 3]
            at = model.frame_placement(q, f"{leg}_upper_leg")[:3, 3]
            reach = np.hypot(*(foot - at)[[0, 2]])
            low, high = (bend, high) if reach < HEIGHT - FOOT_RADIUS else (low, bend)
        q[hip] = np.arctan2(foot[0] - at[0], at[2] - foot[2])
    for name, angle in ARM.items():
        q[first[name]] = angle
    q[2] = HEIGHT
    return q
