"""Assembly of a Robot from links and joints of any format; fixed joints are merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from featherlane.errors import ModelError
from featherlane.robot.conditioning import singular_notes
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.loaders.checks import (
    check_finite,
    check_joint,
    huge_limit_notes,
    inertia_notes,
    physics_notes,
)
from featherlane.robot.loaders.mimics import mimic_notes, resolved
from featherlane.robot.loaders.order import JointOrder, permutation
from featherlane.robot.loaders.roots import GROUND, Root, described, root_joints
from featherlane.robot.loaders.specs import EARTH_GRAVITY, INF, FrameSpec, JointSpec, LinkSpec
from featherlane.robot.loaders.tree import Attachment, Moving, attach, root_link, unique
from featherlane.robot.loaders.words import WARNING, counted, quoted
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD, Body, Floats, Frame, Joint, floats, joined
from featherlane.robot.unlimited import UNLIMITED, lower_limits, upper_limits

FREE_ROOT = 'root="free", on the command line --root free,'

__all__ = ["FrameSpec", "JointSpec", "LinkSpec", "assemble"]


@np.errstate(all="ignore")  # sums and products of huge figures are refused by check_finite
def assemble(
    name: str,
    links: Sequence[LinkSpec],
    joints: Sequence[JointSpec],
    frames: Sequence[FrameSpec] = (),
    *,
    root: Root | None = None,
    gravity: Floats | None = None,
    mimic: str = "project",
    joint_order: JointOrder = "depth-first",
    source: str = "",
    notes: Iterable[str] = (),
) -> Robot:
    """Makes the Robot of a tree of links.

    A body's frame is the frame of the link which its joint moves. Every link becomes a Frame, and
    so do `frames`. root: the joint between the ground and the root link, None for "fixed". gravity:
    m/s^2, None for the Earth's. mimic, joint_order: see `load`; siblings are in the order of
    `joints`. Raises ModelError where the links are not one tree, where figures are not finite.
    """
    root, gravity = root or "fixed", gravity or EARTH_GRAVITY
    base = root_link(links, joints, source)
    every = resolved([*root_joints(root, base, links, joints), *joints], mimic)
    for spec in every:
        check_joint(spec)
    file_order = [joint.name for joint in joints]
    moving, attached = _ordered(*attach(GROUND, every), joint_order, file_order)
    grouped = _group(links, attached, len(moving))
    model = Robot(
        name,
        joints=tuple(_joint(spec, at) for spec, at in moving),
        bodies=tuple(_merge(s.child, grouped[i], attached) for i, (s, _) in enumerate(moving)),
        frames=tuple(_frames(frames, links, attached)),
        gravity=gravity,
        root=described(root),
        source=source,
        ground=_merge("", grouped[WORLD], attached),
        fixed_joints=tuple((j.name, j.child) for j in joints if j.type == "fixed"),
    )
    check_finite(model, moving)
    merged = sum(joint.type == "fixed" for joint in joints)
    card = [*_merge_notes(model, merged, grouped[WORLD]), *notes, *mimic_notes(joints, mimic)]
    card += [*inertia_notes(links), *physics_notes(model), *singular_notes(model)]
    card += huge_limit_notes(spec for spec, _ in moving)
    warnings_first = sorted(card, key=lambda note: not note.startswith(WARNING))
    return replace(model, notes=tuple(warnings_first))


def _ordered(
    moving: Moving, attached: dict[str, Attachment], order: JointOrder, file: Sequence[str]
) -> tuple[Moving, dict[str, Attachment]]:
    """Renumbers moving joints, and the bodies that links are part of, in the order asked for."""
    old_numbers = permutation(moving, order, file)
    new = {WORLD: WORLD} | {old: i for i, old in enumerate(old_numbers)}
    renumbered = [(spec, at._replace(body=new[at.body])) for spec, at in moving]
    links = {link: at._replace(body=new[at.body]) for link, at in attached.items()}
    return [renumbered[old] for old in old_numbers], links


def _frames(
    frames: Sequence[FrameSpec], links: Sequence[LinkSpec], attached: dict[str, Attachment]
) -> Iterator[Frame]:
    """Yields the links' frames, then the others."""
    yield from (Frame(link, *at) for link, at in attached.items())
    named = unique("link", links)
    for name, frame in unique("frame", frames).items():
        if name in named:
            raise ModelError(f"{frame.where}: the name is taken by a link ({named[name].where})")
        if frame.link not in named:
            raise ModelError(f"{frame.where}: its link {quoted(frame.link)} does not exist")
        body, place = attached[frame.link]
        yield Frame(name, body, place * frame.placement)


def _joint(spec: JointSpec, at: Attachment) -> Joint:
    nq = JOINT_TYPES[spec.type].nq
    return Joint(
        spec.name,
        spec.type,
        parent=at.body,
        placement=at.placement * spec.placement,
        axis=spec.axis,
        axis2=spec.axis2,
        pitch=spec.pitch,
        mimic=spec.mimic,
        lower=floats(lower_limits(np.array(spec.lower or (-INF,) * nq))),
        upper=floats(upper_limits(np.array(spec.upper or (INF,) * nq))),
        velocity=spec.velocity if spec.velocity < UNLIMITED else INF,
        effort=spec.effort if spec.effort < UNLIMITED else INF,
        armature=spec.armature,
        damping=spec.damping,
        friction=spec.friction,
        stiffness=spec.stiffness,
        spring_reference=spec.spring_reference,
        limit_softness=spec.limit_softness,
        friction_softness=spec.friction_softness,
    )


def _group(
    links: Sequence[LinkSpec], attached: dict[str, Attachment], nbodies: int
) -> dict[int, list[LinkSpec]]:
    """Returns the links with inertia on each body; those on the ground are under WORLD."""
    grouped: dict[int, list[LinkSpec]] = {i: [] for i in range(WORLD, nbodies)}
    for link in links:
        if not np.all(np.isfinite([link.mass, *link.com, *np.ravel(link.inertia)])):
            raise ModelError(f"{link.where}: its mass and inertia are not finite numbers")
        if link.mass < 0:
            raise ModelError(f"{link.where}: its mass is {link.mass!r} kg; wanted 0 or more")
        if link.mass or np.any(link.inertia):
            grouped[attached[link.name].body].append(link)
    return grouped


def _merge(name: str, links: Sequence[LinkSpec], attached: dict[str, Attachment]) -> Body:
    bodies = [Body(link.name, link.mass, link.com, link.inertia) for link in links]
    return joined(name, [(body, attached[body.name].placement) for body in bodies])


def _merge_notes(model: Robot, merged: int, ground: Sequence[LinkSpec]) -> Iterator[str]:
    if merged:
        joints = counted(merged, "fixed joint")
        yield f"{joints} merged: the links are one body, and each keeps its frame"
    if model.ground_mass > 0:
        names = ", ".join(link.name for link in ground if link.mass)
        kg = f"{model.ground_mass:.6g} kg"
        yield f"{kg} do not move, fixed to the ground ({FREE_ROOT} lets them): {names}"
    if not model.joints:
        yield f"{WARNING}there is no moving joint ({FREE_ROOT} lets the whole robot move)"
