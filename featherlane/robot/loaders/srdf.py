"""Group states of SRDF files, as named configurations of a robot."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TypeVar

from featherlane.errors import ModelError
from featherlane.robot.loaders.documents import root_element
from featherlane.robot.loaders.files import Source
from featherlane.robot.loaders.words import listed, quoted
from featherlane.robot.model import Robot
from featherlane.robot.named_configurations import NamedConfiguration
from featherlane.robot.parts import Floats

M = TypeVar("M", bound=Robot)


def with_group_states(robot: M, source: Source) -> M:
    """Returns the robot with the group states of an SRDF file as named configurations.

    States of the same name of several groups are one configuration; joints that the robot does not
    have, or that follow others, are left out, with a note. Raises ModelError with the file and line
    where it is no SRDF, where a state gives a joint two positions, or another number of values than
    the joint has coordinates.
    """
    if isinstance(source, str | os.PathLike) and _is_path_of_nothing(source):
        raise ModelError(f"srdf is {quoted(os.fsdecode(source))}: there is no such file")
    root = root_element(source)
    if root.tag != "robot":
        raise root.error("an SRDF file starts with <robot>")
    sizes = {robot.joints[i].name: robot.types[i].nq for i in robot.independent}
    states: dict[str, dict[str, Floats]] = {}
    unknown: list[str] = []
    for state in (child for child in root.children() if child.tag == "group_state"):
        joints = states.setdefault(state.text("name"), {})
        for element in (child for child in state.children() if child.tag == "joint"):
            name = element.text("name")
            if name not in sizes:
                unknown.append(name)
                continue
            values = element.numbers("value", count=sizes[name])
            if joints.setdefault(name, values) != values:
                raise element.error(
                    f"joint {quoted(name)} is at {joints[name]} in another group of this state"
                )
    if not states:
        raise ModelError(f"{root.source}: there is no <group_state> in it")
    named = [NamedConfiguration(name, tuple(joints.items())) for name, joints in states.items()]
    taken = {configuration.name for configuration in named}
    kept = [c for c in robot.named_configurations if c.name not in taken]
    note = "joints of group states that do not move by themselves are left out"
    notes = (f"{note}: {listed(list(dict.fromkeys(unknown)))}",) if unknown else ()
    return replace(robot, named_configurations=(*kept, *named), notes=(*robot.notes, *notes))


def _is_path_of_nothing(source: str | os.PathLike[str]) -> bool:
    """Whether a source is no XML, and names no file."""
    path = os.fsdecode(source)
    return not path.lstrip("\ufeff \t\r\n").startswith("<") and not os.path.exists(path)
