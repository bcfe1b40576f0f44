"""A free root as two joints, a translation and a spherical one (Dadu-RBD, 2023, section V-C)."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from featherlane.robot.loaders.words import quoted
from featherlane.robot.model import Robot
from featherlane.robot.named_configurations import NamedConfiguration
from featherlane.robot.parts import IDENTITY, WORLD, Body, Joint

M = TypeVar("M", bound=Robot)
TRANSLATION, ROTATION = "_translation", "_rotation"  # behind the name of the free joint


def split_root(model: M) -> M:
    """Returns the robot with its free root joint as a translation, which carries a body without
    mass, and a spherical joint on it.

    q stays as it is. With R the rotation of the root body, the velocity of the translation is R
    times the linear velocity of the free joint, and its force R times the linear force. Raises
    ValueError if the first joint is not free, is not the only one on the ground, or has damping,
    friction, or armature that differs between its lines: these are in the axes of the body.
    """
    first, *others = model.joints
    if first.type != "free" or any(joint.parent == WORLD for joint in others):
        raise ValueError(
            f"joint {quoted(first.name)} is {first.type}: wanted a free joint that carries the "
            'whole robot, load it with root="free"'
        )
    along, around = first.armature[:3], first.armature[3:]
    if any((*first.damping, *first.friction)) or len(set(along)) > 1:
        raise ValueError(
            f"joint {quoted(first.name)} has damping, friction, or armature that differs between "
            "its lines, which are in the axes of its body: with_physics sets them to zero"
        )
    carrier, spin = first.name + TRANSLATION, first.name + ROTATION
    translation = Joint(carrier, "translation", WORLD, first.placement, armature=along)
    rotation = Joint(spin, "spherical", 0, armature=around)
    frames = [f if f.body == WORLD else f._replace(body=f.body + 1) for f in model.frames]
    return replace(
        model,
        joints=(translation, rotation, *(replace(j, parent=j.parent + 1) for j in others)),
        bodies=(Body(first.name + TRANSLATION), *model.bodies),
        frames=tuple(frames),
        collision_shapes=tuple(
            s if s.body == WORLD else s.on(s.body + 1, IDENTITY) for s in model.collision_shapes
        ),
        named_configurations=tuple(_split(c, first.name) for c in model.named_configurations),
    )


def _split(configuration: NamedConfiguration, free: str) -> NamedConfiguration:
    """Returns the configuration with the entries of the free joint on its two joints."""
    joints = []
    for name, q in configuration.joints:
        parts = [(name + TRANSLATION, q[:3]), (name + ROTATION, q[3:])]
        joints += parts if name == free else [(name, q)]
    return configuration._replace(joints=tuple(joints))
