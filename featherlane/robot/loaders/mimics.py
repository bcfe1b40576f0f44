"""Joints that follow others: a chain of them becomes one leader and q = m q_leader + b."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite

from featherlane.errors import ModelError
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.loaders.specs import JointSpec
from featherlane.robot.loaders.words import WARNING, listed, near, quoted
from featherlane.robot.model import Mimic

MIMIC = ("project", "keep")  # follow their leaders, or are joints like any other
KEEP = '; load with mimic="keep" to make the followers independent joints'


def resolved(joints: Sequence[JointSpec], mimic: str) -> list[JointSpec]:
    """The joints with every leader independent; with "keep", without leaders.

    Raises ModelError for a leader that does not exist or is fixed, for joints of other than one
    degree of freedom, and where followers go round in a circle.
    """
    if mimic == "keep":
        return [replace(joint, mimic=None) for joint in joints]
    # A fixed joint has nothing that could follow.
    moving = [replace(j, mimic=None) if j.type == "fixed" else j for j in joints]
    named = {joint.name: joint for joint in moving}
    done: dict[str, Mimic] = {}
    for joint in moving:
        _follow(joint, named, done)
    return [replace(j, mimic=done[j.name]) if j.mimic else j for j in moving]


def _follow(joint: JointSpec, named: dict[str, JointSpec], done: dict[str, Mimic]) -> None:
    path: dict[str, Mimic] = {}
    while joint.mimic is not None and joint.name not in done:
        if joint.name in path:
            circle = listed([*path, joint.name], " <- ")
            raise ModelError(f"{joint.where}: its mimic goes round in a circle: {circle}{KEEP}")
        path[joint.name] = joint.mimic
        joint = _leader(joint, joint.mimic, named)
    for name, own in reversed(path.items()):
        m, above = own.multiplier, done.get(own.joint, Mimic(own.joint))
        line = Mimic(above.joint, m * above.multiplier, m * above.offset + own.offset)
        if not (isfinite(line.multiplier * line.multiplier) and isfinite(line.offset)):
            raise ModelError(
                f"{named[name].where}: its mimic has figures too large to compute with"
            )
        done[name] = line


def _leader(joint: JointSpec, mimic: Mimic, named: dict[str, JointSpec]) -> JointSpec:
    leader = named.get(mimic.joint)
    if leader is None:
        hint = near(mimic.joint, named)
        raise ModelError(
            f"{joint.where}: it mimics {quoted(mimic.joint)}, which is no joint{hint}{KEEP}"
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
    """What the card says of the joints that follow, as the file has them."""
    followers = [(joint, joint.mimic) for joint in joints if joint.mimic is not None]
    still = [joint.name for joint, line in followers if not line.multiplier]
    if mimic == "keep":
        told = ", ".join(f"{joint.name} ({line})" for joint, line in followers)
        title = f'{WARNING}mimic is not applied (mimic="keep"), these joints are independent: '
        yield from [title + told] if followers else []
    elif still:
        yield f"{WARNING}mimic joints with multiplier 0 do not move: {', '.join(still)}"
