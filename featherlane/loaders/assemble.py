"""From links and joints, in any format's or builder's words, to a Model: fixed joints merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from featherlane.errors import ModelError
from featherlane.joints import JOINT_TYPES
from featherlane.loaders.checks import check_finite, check_inertia, inertia_notes, singular_notes
from featherlane.loaders.specs import INF, JointSpec, LinkSpec
from featherlane.loaders.tree import Hang, outward, root_link
from featherlane.loaders.words import WARNING, counted
from featherlane.model import IDENTITY, WORLD, Body, Floats, Frame, Joint, Model

__all__ = ["ROOTS", "JointSpec", "LinkSpec", "assemble"]

ROOTS = ("fixed", "free", "planar")


@np.errstate(all="ignore")  # sums and products of huge figures are refused by check_finite
def assemble(
    name: str,
    links: Sequence[LinkSpec],
    joints: Sequence[JointSpec],
    *,
    root: str = "fixed",
    gravity: Floats = (0.0, 0.0, -9.81),
    source: str = "",
    notes: Iterable[str] = (),
) -> Model:
    """The Model of a tree of links; joints come out depth-first, siblings in the order given.

    A body's frame is that of the link which its joint moves; every link becomes a Frame. `root`
    puts a joint of that type, named "root_joint", between the ground and the root link ("fixed":
    none, the root link is the ground). gravity is in m/s^2. Raises ModelError where the links are
    not one tree, where figures are not finite, or where nothing would resist a joint.
    """
    base = root_link(links, joints, source)
    moving, hangs = outward(base, joints, root)
    grouped = _group(links, hangs, len(moving))
    model = Model(
        name,
        joints=tuple(_joint(spec, hang) for spec, hang in moving),
        bodies=tuple(_merge(s.child, grouped[i], hangs) for i, (s, _) in enumerate(moving)),
        frames=tuple(Frame(link, *hang) for link, hang in hangs.items()),
        gravity=gravity,
        root=root,
        source=source,
        ground_mass=sum(link.mass for link in grouped[WORLD]),
    )
    check_finite(model, moving)
    check_inertia(model, moving)
    merged = sum(joint.type == "fixed" for joint in joints)
    told = [*_merge_notes(model, merged, grouped[WORLD]), *notes]
    told += [*inertia_notes(links), *singular_notes(model)]
    warnings_first = sorted(told, key=lambda note: not note.startswith(WARNING))
    return replace(model, notes=tuple(warnings_first))


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
    """One body from links rigidly joined: parallel axes about the common centre of mass."""
    parts = [_moved(link, hangs[link.name]) for link in links]
    if len(parts) == 1:  # the file's own figures, unrounded
        mass, com, inertia = parts[0]
    else:
        mass = sum(m for m, _, _ in parts)
        com = sum((m * c for m, c, _ in parts), np.zeros(3)) / (mass or 1.0)
        inertia = sum((J + m * _spread(c - com) for m, c, J in parts), np.zeros((3, 3)))
    rows = tuple(tuple(map(float, row)) for row in inertia)
    return Body(name, float(mass), tuple(map(float, com)), rows)  # type: ignore[arg-type]


def _moved(link: LinkSpec, hang: Hang) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia of a link in the frame of its body."""
    com, inertia = np.array(link.com), np.array(link.inertia)
    if hang.placement == IDENTITY:
        return link.mass, com, inertia
    R = np.array(hang.placement.R)
    return link.mass, np.array(hang.placement.p) + R @ com, R @ inertia @ R.T


def _spread(d: np.ndarray) -> np.ndarray:
    """The rotational inertia of a unit mass at d."""
    return np.asarray(d @ d * np.eye(3) - np.outer(d, d))


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
