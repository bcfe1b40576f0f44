"""Joints that move no inertia: any force would accelerate them infinitely."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from featherlane.robot.loaders.words import WARNING, listed, quoted
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD


def massless_joints(model: Robot) -> list[int]:
    """Returns the joints that move neither mass, nor inertia, nor armature.

    A mimic joint moves with its leader, and inertia on one of them is enough; of joints that share
    their motion, the leader is named.
    """
    resists = [body.mass > 0 or bool(np.any(body.inertia)) for body in model.bodies]
    for i in range(model.nbodies - 1, -1, -1):
        if resists[i] and model.parent[i] != WORLD:
            resists[model.parent[i]] = True
    moved = np.array(model.armature > 0)
    for i in range(model.nbodies):
        moved[model.dofs[i].start : model.dofs[i].stop] |= resists[i]
    return [i for i in model.independent if not all(moved[k] for k in model.dofs[i])]


def massless_notes(model: Robot) -> Iterator[str]:
    """Yields a note on joints that move no inertia, and on the functions that need them locked."""
    if joints := massless_joints(model):
        names = ", ".join(f"{model.joints[i].name} ({model.bodies[i].name})" for i in joints)
        yield (
            f"{WARNING}joints that move no mass and no inertia, so that M has no inverse: forward "
            f"dynamics and steps need them locked (lock= of load, or reduced): {names}"
        )


def massless_refusal(model: Robot, name: str) -> str:
    """Returns the reason why a function that divides by the mass matrix does not exist, or ""."""
    if not (joints := massless_joints(model)):
        return ""
    names = [model.joints[i].name for i in joints]
    what = f"joint {quoted(names[0])} moves" if len(names) == 1 else f"joints {listed(names)} move"
    lock = ", ".join(f"{joint!r}: None" for joint in names[:3]) + ", ..." * (len(names) > 3)
    it = "it" if len(names) == 1 else "them"
    return (
        f"{name} of {quoted(model.name)} divides by the mass matrix, which has no inverse: {what} "
        f"no mass, no inertia and no armature; lock {it} with fl.load(..., lock={{{lock}}}) or "
        "model.reduced, or give the links mass and inertia"
    )
