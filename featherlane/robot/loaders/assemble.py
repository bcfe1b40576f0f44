"""From links and joints, in any format's or builder's words, to a Model: fixed joints merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from featherlane.errors import ModelError
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.loaders.checks import (
    check_finite,
    check_inertia,
    check_joint,
    inertia_notes,
    physics_notes,
    singular_notes,
)
from featherlane.robot.loaders.mimics import mimic_notes, resolved
from featherlane.robot.loaders.order import JointOrder, permutation
from featherlane.robot.loaders.roots import GROUND, Root, described, root_joints
from featherlane.robot.loaders.specs import EARTH_GRAVITY, INF, FrameSpec, JointSpec, LinkSpec
from featherlane.robot.loaders.tree import Hang, Moving, outward, root_link, unique
from featherlane.robot.loaders.words import WARNING, counted, quoted
from featherlane.robot.model import WORLD, Body, Floats, Frame, Joint, Model, joined

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
) -> Model:
    """The Model of a tree of links.

    A body's frame is that of the link which its joint moves; every link becomes a Frame, and
    `frames` are more of them. root: what stands between the ground and the root link, None for
    "fixed". gravity: m/s^2, None for the Earth's. mimic, joint_order: see `load`; siblings are in
    the order given. Raises ModelError where the links are not one tree, where figures are not
    finite, or where nothing would resist a joint.
    """
    root, gravity = root or "fixed", gravity or EARTH_GRAVITY
    base = root_link(links, joints, source)
    every = resolved([*root_joints(root, base, links, joints), *joints], mimic)
    for spec in every:
        check_joint(spec)
    moving, hangs = _ordered(*outward(GROUND, every), joint_order, [joint.name for joint in joints])
    grouped = _group(links, hangs, len(moving))
    model = Model(
        name,
        joints=tuple(_joint(spec, hang) for spec, hang in moving),
        bodies=tuple(_merge(s.child, grouped[i], hangs) for i, (s, _) in enumerate(moving)),
        frames=tuple(_frames(frames, links, hangs)),
        gravity=gravity,
        root=described(root),
        source=source,
        ground_mass=sum(link.mass for link in grouped[WORLD]),
    )
    check_finite(model, moving)
    check_inertia(model, moving)
    merged = sum(joint.type == "fixed" for joint in joints)
    told = [*_merge_notes(model, merged, grouped[WORLD]), *notes, *mimic_notes(joints, mimic)]
    told += [*inertia_notes(links), *physics_notes(model), *singular_notes(model)]
    warnings_first = sorted(told, key=lambda note: not note.startswith(WARNING))
    return replace(model, notes=tuple(warnings_first))


def _ordered(
    moving: Moving, hangs: dict[str, Hang], order: JointOrder, file: Sequence[str]
) -> tuple[Moving, dict[str, Hang]]:
    """The same in the order of the joints that was asked for."""
    chosen = permutation(moving, order, file)
    new = {WORLD: WORLD} | {old: i for i, old in enumerate(chosen)}
    again = [(spec, hang._replace(body=new[hang.body])) for spec, hang in moving]
    there = {link: hang._replace(body=new[hang.body]) for link, hang in hangs.items()}
    return [again[old] for old in chosen], there


def _frames(
    frames: Sequence[FrameSpec], links: Sequence[LinkSpec], hangs: dict[str, Hang]
) -> Iterator[Frame]:
    """The links' own, then the others."""
    yield from (Frame(link, *hang) for link, hang in hangs.items())
    named = unique("link", links)
    for name, frame in unique("frame", frames).items():
        if name in named:
            raise ModelError(f"{frame.where}: the name is taken by a link ({named[name].where})")
        if frame.link not in named:
            raise ModelError(f"{frame.where}: its link {quoted(frame.link)} does not exist")
        hang = hangs[frame.link]
        yield Frame(name, hang.body, hang.placement * frame.placement)


def _joint(spec: JointSpec, hang: Hang) -> Joint:
    nq = JOINT_TYPES[spec.type].nq
    return Joint(
        spec.name,
        spec.type,
        parent=hang.body,
        placement=hang.placement * spec.placement,
        axis=spec.axis,
        axis2=spec.axis2,
        pitch=spec.pitch,
        mimic=spec.mimic,
        lower=spec.lower or (-INF,) * nq,
        upper=spec.upper or (INF,) * nq,
        velocity=spec.velocity,
        effort=spec.effort,
        armature=spec.armature,
        damping=spec.damping,
        friction=spec.friction,
    )


def _group(
    links: Sequence[LinkSpec], hangs: dict[str, Hang], nbodies: int
) -> dict[int, list[LinkSpec]]:
    """The links with inertia on each body, those on the ground under WORLD."""
    grouped: dict[int, list[LinkSpec]] = {i: [] for i in range(WORLD, nbodies)}
    for link in links:
        if not np.all(np.isfinite([link.mass, *link.com, *np.ravel(link.inertia)])):
            raise ModelError(f"{link.where}: its mass and inertia are not finite numbers")
        if link.mass < 0:
            raise ModelError(f"{link.where}: its mass is {link.mass!r} kg; wanted 0 or more")
        if link.mass or np.any(link.inertia):
            grouped[hangs[link.name].body].append(link)
    return grouped


def _merge(name: str, links: Sequence[LinkSpec], hangs: dict[str, Hang]) -> Body:
    own = [Body(link.name, link.mass, link.com, link.inertia) for link in links]
    places = [hangs[link.name].placement for link in links]
    return joined(name, list(zip(own, places, strict=True)))


def _merge_notes(model: Model, merged: int, ground: Sequence[LinkSpec]) -> Iterator[str]:
    if merged:
        joints = counted(merged, "fixed joint")
        yield f"{joints} merged: links joined so are one body, and each stays a frame"
    if model.ground_mass > 0:
        names = ", ".join(link.name for link in ground if link.mass)
        kg = f"{model.ground_mass:.6g} kg"
        yield f'{kg} do not move, fixed to the ground (root="free" lets them): {names}'
    if not model.joints:
        yield f'{WARNING}there is no moving joint (root="free" lets the whole robot move)'
