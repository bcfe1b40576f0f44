"""Mimic joints: a chain of followers is resolved to q = multiplier q_leader + offset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite

from featherlane.errors import ModelError
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.loaders.specs import JointSpec
from featherlane.robot.loaders.words import WARNING, listed, near, quoted
from featherlane.robot.parts import Mimic

MIMIC = ("project", "keep")  # mimic joints follow their leaders, or are independent
KEEP = '; load with mimic="keep" to make the followers independent joints'


def resolved(joints: Sequence[JointSpec], mimic: str) -> list[JointSpec]:
    """Returns the joints, where every follower names an independent leader; none for "keep".

    Raises ModelError for a leader that does not exist or is fixed, for joints of other than one
    degree of freedom, and for followers in a circle.
    """
    if mimic == "keep":
        return [replace(joint, mimic=None) for joint in joints]
    # A fixed joint does not move, so that it cannot follow.
    moving = [replace(j, mimic=None) if j.type == "fixed" else j for j in joints]
    named = {joint.name: joint for joint in moving}
    laws: dict[str, Mimic] = {}
    for joint in moving:
        _resolve(joint, named, laws)
    return [replace(j, mimic=laws[j.name]) if j.mimic else j for j in moving]


def _resolve(joint: JointSpec, named: dict[str, JointSpec], laws: dict[str, Mimic]) -> None:
    """Adds the law of a joint, and those of the followers between it and its leader, to `laws`."""
    path: dict[str, Mimic] = {}
    while joint.mimic is not None and joint.name not in laws:
        if joint.name in path:
            circle = listed([*path, joint.name], " <- ")
            raise ModelError(f"{joint.where}: its mimic goes round in a circle: {circle}{KEEP}")
        path[joint.name] = joint.mimic
        joint = _leader(joint, joint.mimic, named)
    for name, (followed, multiplier, offset) in reversed(path.items()):
        leader, m, b = laws.get(followed, Mimic(followed))
        law = Mimic(leader, multiplier * m, multiplier * b + offset)
        if not (isfinite(law.multiplier * law.multiplier) and isfinite(law.offset)):
            raise ModelError(
                f"{named[name].where}: its mimic has figures too large to compute with"
            )
        laws[name] = law


def _leader(joint: JointSpec, mimic: Mimic, named: dict[str, JointSpec]) -> JointSpec:
    leader = named.get(mimic.joint)
    if leader is None:
        hint = near(mimic.joint, named)
        raise ModelError(
            f"{joint.where}: it mimics {quoted(mimic.joint)}, which is not a joint{hint}{KEEP}"
        )
    for one, what in ((joint, "it"), (leader, f"its leader {quoted(leader.name)}")):
        if one.type == "fixed":
            raise ModelError(f"{joint.where}: {what} is fixed and has no position to follow{KEEP}")
        if JOINT_TYPES[one.type].nv != 1:
            raise ModelError(
                f"{joint.where}: it mimics {quoted(leader.name)}, but {what} is of type "
                f"{one.type}; mimic joints and their leaders have one degree of freedom{KEEP}"
            )
    return leader


def mimic_notes(joints: Sequence[JointSpec], mimic: str) -> Iterator[str]:
    """Yields the card's notes on the followers of the file."""
    followers = [(joint.name, joint.mimic) for joint in joints if joint.mimic is not None]
    still = [name for name, law in followers if not law.multiplier]
    if mimic == "keep" and followers:
        names = ", ".join(f"{name} ({law})" for name, law in followers)
        yield f'{WARNING}mimic is not applied (mimic="keep"), these joints are independent: {names}'
    elif mimic != "keep" and still:
        yield f"{WARNING}mimic joints with multiplier 0 do not move: {', '.join(still)}"
