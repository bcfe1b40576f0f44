"""Checks that links and joints form one tree, and the walk through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from featherlane.errors import ModelError
from featherlane.robot.loaders.specs import FrameSpec, JointSpec, LinkSpec
from featherlane.robot.loaders.words import listed, quoted
from featherlane.robot.parts import IDENTITY, WORLD, Placement

Spec = TypeVar("Spec", LinkSpec, JointSpec, FrameSpec)


class Attachment(NamedTuple):
    """The body that a link or a body is part of (or WORLD), and its placement on it."""

    body: int
    placement: Placement = IDENTITY


Moving = list[tuple[JointSpec, Attachment]]  # moving joints, and where their parent links are


def root_link(links: Sequence[LinkSpec], joints: Sequence[JointSpec], source: str) -> LinkSpec:
    """Returns the root link; raises ModelError where links and joints are not one tree."""
    if not links:
        raise ModelError(f"{source}: it contains no links")
    unique("joint", joints)
    above = _joints_above(unique("link", links), joints)
    roots = [link for link in links if link.name not in above]
    if len(roots) > 1:
        raise ModelError(
            f"{roots[1].where}: the robot has {len(roots)} root links, "
            f"{listed([link.name for link in roots])}; wanted one, and every other link "
            "the child of a joint"
        )
    _check_loops(links, above)
    return roots[0]


def unique(kind: str, specs: Sequence[Spec]) -> dict[str, Spec]:
    """Returns specs by name; raises ModelError for an empty name, or one that two have."""
    seen: dict[str, Spec] = {}
    for spec in specs:
        if not spec.name:
            raise ModelError(f"{spec.where}: its name is empty")
        if spec.name in seen:
            first = seen[spec.name].where
            raise ModelError(f"{spec.where}: the name is taken by another {kind} ({first})")
        seen[spec.name] = spec
    return seen


def _joints_above(links: dict[str, LinkSpec], joints: Sequence[JointSpec]) -> dict[str, JointSpec]:
    """Returns the joint that carries each link but the root."""
    above: dict[str, JointSpec] = {}
    for joint in joints:
        for end, name in (("parent", joint.parent), ("child", joint.child)):
            if name not in links:
                raise ModelError(f"{joint.where}: its {end} link {quoted(name)} does not exist")
        if joint.child in above:
            raise ModelError(
                f"{joint.where}: its child link {quoted(joint.child)} is already the child of "
                f"joint {quoted(above[joint.child].name)}; a link has one parent "
                "(closed loops are not supported)"
            )
        above[joint.child] = joint
    return above


def _check_loops(links: Sequence[LinkSpec], above: dict[str, JointSpec]) -> None:
    reaches_root: set[str] = set()
    for link in links:
        path: dict[str, None] = {}
        name = link.name
        while name in above and name not in reaches_root:
            if name in path:
                loop = list(path)[list(path).index(name) :]
                links_of_loop = listed([*loop, name], " <- ")
                raise ModelError(f"{above[name].where}: its links form a loop: {links_of_loop}")
            path[name] = None
            name = above[name].parent
        reaches_root.update(path)


def attach(ground: str, joints: Sequence[JointSpec]) -> tuple[Moving, dict[str, Attachment]]:
    """Walks depth-first from the ground: the moving joints in order, and where every link is."""
    below: dict[str, list[JointSpec]] = {}
    for joint in joints:
        below.setdefault(joint.parent, []).append(joint)
    moving: Moving = []
    attached = {ground: Attachment(WORLD)}
    stack = below.get(ground, [])[::-1]
    while stack:
        joint = stack.pop()
        body, place = attached[joint.parent]
        if joint.type == "fixed":
            attached[joint.child] = Attachment(body, place * joint.placement)
        else:
            attached[joint.child] = Attachment(len(moving))
            moving.append((joint, Attachment(body, place)))
        stack.extend(below.get(joint.child, [])[::-1])
    del attached[ground]
    return moving, attached
