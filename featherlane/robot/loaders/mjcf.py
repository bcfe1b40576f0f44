"""MJCF, as the compiler of the mujoco package understands it.

MuJoCo resolves defaults, angles, includes and the inertia of geoms; what is read is its compiled
model. Joints come in MuJoCo's order, and q of hinges and slides is its qpos. A body with several
joints becomes a chain of bodies, one for each joint, all but the last without mass. The frame of a
body sits at the anchor of its joint, in the axes of the MJCF body: where the anchor is not that
body's origin, and for all but the last of a chain, it is named "body/joint". Bodies and sites are
frames.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from featherlane.errors import ModelError
from featherlane.robot.loaders.assemble import assemble
from featherlane.robot.loaders.mjcf_compile import Compiled, compiled
from featherlane.robot.loaders.mjcf_notes import (
    BALL,
    FREE,
    HINGE,
    SLIDE,
    check_loops,
    followers,
    geared,
    notes,
    rubbing,
)
from featherlane.robot.loaders.order import JointOrder
from featherlane.robot.loaders.roots import GROUND, Root, described, root_joints
from featherlane.robot.loaders.specs import INF, FrameSpec, JointSpec, LinkSpec
from featherlane.robot.loaders.urdf import xyzw_rotation
from featherlane.robot.loaders.words import listed, quoted, unused
from featherlane.robot.loaders.xml import Element
from featherlane.robot.model import IDENTITY, Floats, Model, Placement

TYPES = ("free", "spherical", "prismatic", "revolute")
SIZES = (6, 3, 1, 1)  # degrees of freedom
WORLD_LINK = "world"
STILL = (0.0, 0.0, 0.0)


@dataclass
class _Parts:
    """What the robot is put together from, gathered body by body."""

    robot: Compiled
    links: list[LinkSpec] = field(default_factory=list)
    joints: list[JointSpec] = field(default_factory=list)
    frames: list[FrameSpec] = field(default_factory=list)
    at: list[tuple[str, Placement]] = field(default_factory=list)
    """For each MJCF body the link that it is part of, and where it is on that."""

    def __post_init__(self) -> None:
        self.taken: set[str | None] = set(self.robot.bodies)
        self.taken_joints: set[str | None] = set(self.robot.joints)


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused by assemble
def read_mjcf(
    document: Element,
    text: str | bytes,
    path: str | None,
    *,
    root: Root | None,
    gravity: Floats | None,
    mimic: str = "project",
    joint_order: JointOrder = "depth-first",
    loops: str = "refuse",
    fallback_name: str = "robot",
) -> Model:
    """The Model of an MJCF text, or of the file at `path`.

    root and gravity: None for the file's own. loops: "refuse" or "drop" constraints that close
    loops. Raises ModelError with MuJoCo's complaint or ours.
    """
    robot = compiled(document, text, path)
    check_loops(robot, loops)
    parts = _parts(robot)
    own = _own_root(robot)
    if root is not None and not (root == own == "free"):
        _put_root(parts, root)
    model = assemble(
        document.node.get("model") or fallback_name,
        parts.links,
        parts.joints,
        parts.frames,
        gravity=_gravity(robot) if gravity is None else gravity,
        mimic=mimic,
        joint_order=joint_order,
        source=document.source,
        notes=notes(robot),
    )
    return replace(model, root=own if root is None else described(root))


def _gravity(robot: Compiled) -> Floats:
    down = STILL if robot.disabled("GRAVITY") else robot.m.opt.gravity
    return tuple(map(float, down))


# Bodies and joints


def _parts(robot: Compiled) -> _Parts:
    parts, coupled, reflected = _Parts(robot), followers(robot), geared(robot)
    parts.links.append(LinkSpec(WORLD_LINK, where=robot.source))
    parts.at.append((WORLD_LINK, IDENTITY))
    for b in range(1, robot.m.nbody):
        _body(parts, b, coupled, reflected)
    for i in range(robot.m.nsite):
        _site(parts, i)
    return parts


def _body(parts: _Parts, b: int, coupled: dict[int, Any], reflected: np.ndarray) -> None:
    """A link for each joint of the body; one on a fixed joint, if there is none."""
    robot, where = parts.robot, parts.robot.where(b)
    m, own = robot.m, robot.bodies[b]
    parent, above = parts.at[m.body_parentid[b]]
    place = above * Placement.of(_rotation(m.body_quat[b]), m.body_pos[b])
    link, origin = own, np.zeros(3)  # where the link is, in the axes of the MJCF body
    if not (joints := robot.joints_of(b)):
        name = unused(f"{own}/fixed", parts.taken_joints)
        parts.joints.append(JointSpec(name, "fixed", parent, own, place, where=where))
    for j in joints:
        kind = int(m.jnt_type[j])
        anchor = m.jnt_pos[j] if kind in (BALL, HINGE) else np.zeros(3)
        at_end = j == joints[-1] and not np.any(anchor)
        link = own if at_end else unused(f"{own}/{robot.joints[j]}", parts.taken)
        step = IDENTITY if kind == FREE else place * _zero(m, j, anchor - origin)
        spec = _joint(robot, j, parent, link, step, reflected)
        parts.joints.append(replace(spec, mimic=coupled.get(j), where=where))
        if j != joints[-1]:
            parts.links.append(LinkSpec(link, where=where))
        parent, place, origin = link, IDENTITY, anchor
    parts.links.append(_link(m, b, link, origin, where))
    parts.at.append((link, Placement.of(np.eye(3), -origin)))
    if link != own:
        parts.frames.append(FrameSpec(own, *parts.at[b], where=where))


def _link(m: Any, b: int, name: str, origin: np.ndarray, where: str) -> LinkSpec:
    R = _rotation(m.body_iquat[b])
    rows = tuple(tuple(map(float, row)) for row in R @ np.diag(m.body_inertia[b]) @ R.T)
    com = tuple(map(float, m.body_ipos[b] - origin))
    return LinkSpec(name, float(m.body_mass[b]), com, rows, where)  # type: ignore[arg-type]


def _zero(m: Any, j: int, shift: np.ndarray) -> Placement:
    """The joint's frame at q = 0, where MuJoCo has the body in place at q = qpos0."""
    kind, axis = m.jnt_type[j], m.jnt_axis[j]
    if kind == BALL:
        return Placement.of(np.eye(3), shift)
    reference = m.qpos0[m.jnt_qposadr[j]]
    if kind == SLIDE:
        return Placement.of(np.eye(3), shift - axis * reference)
    turn = np.array([np.cos(reference / 2), *(-np.sin(reference / 2) * axis)])
    return Placement.of(_rotation(turn), shift)


def _joint(
    robot: Compiled, j: int, parent: str, child: str, placement: Placement, reflected: np.ndarray
) -> JointSpec:
    m, kind = robot.m, int(robot.m.jnt_type[j])
    dofs = slice(int(m.jnt_dofadr[j]), int(m.jnt_dofadr[j]) + SIZES[kind])
    limited = bool(m.jnt_limited[j]) and kind in (SLIDE, HINGE)
    lower, upper = ((float(x),) if limited else () for x in m.jnt_range[j])
    forces = m.jnt_actfrcrange[j] if m.jnt_actfrclimited[j] else [INF]
    damped, rubs = not robot.disabled("DAMPER"), rubbing(robot)
    return JointSpec(
        robot.joints[j],
        TYPES[kind],
        parent,
        child,
        placement,
        axis=tuple(map(float, m.jnt_axis[j])) if kind in (SLIDE, HINGE) else (0.0, 0.0, 1.0),
        lower=lower,
        upper=upper,
        effort=float(np.max(np.abs(forces))),
        armature=_any(m.dof_armature[dofs] + reflected[0][dofs]),
        damping=_any((m.dof_damping[dofs] + reflected[1][dofs]) * damped),
        friction=_any(m.dof_frictionloss[dofs] * rubs),
    )


def _any(values: np.ndarray) -> Floats:
    return tuple(map(float, values)) if np.any(values) else ()


def _site(parts: _Parts, i: int) -> None:
    robot, m = parts.robot, parts.robot.m
    given = robot.mujoco.mj_id2name(m, robot.mujoco.mjtObj.mjOBJ_SITE, i)
    if not given:
        return
    link, above = parts.at[m.site_bodyid[i]]
    name = given if given not in parts.taken else f"{given}/site"
    place = above * Placement.of(_rotation(m.site_quat[i]), m.site_pos[i])
    parts.frames.append(
        FrameSpec(unused(name, parts.taken), link, place, f"{robot.source}: site {quoted(given)}")
    )


def _rotation(wxyz: Any) -> np.ndarray:
    return xyzw_rotation(np.roll(np.asarray(wxyz, float), -1))


# The root


def _tops(robot: Compiled) -> list[int]:
    """The bodies on the world that move or carry what moves; all of them, if nothing does."""
    m = robot.m
    moving = sorted({int(m.body_rootid[b]) for b in m.jnt_bodyid})
    return moving or [b for b in range(1, m.nbody) if m.body_parentid[b] == 0]


def _is_free(robot: Compiled, b: int) -> bool:
    return [int(robot.m.jnt_type[j]) for j in robot.joints_of(b)] == [FREE]


def _own_root(robot: Compiled) -> str:
    tops = _tops(robot)
    return "free" if len(tops) == 1 and _is_free(robot, tops[0]) else "fixed"


def _put_root(parts: _Parts, root: Root) -> None:
    """Puts the root that was asked for in the place of what holds or moves the top body."""
    robot, tops = parts.robot, _tops(parts.robot)
    if root == "fixed" and FREE not in robot.m.jnt_type:
        return
    asked = f"root={described(root)!r} is for a robot that hangs on the world by one body"
    if len(tops) != 1:
        names = listed([robot.bodies[b] for b in tops]) or "none"
        raise ModelError(f"{robot.source}: {asked}; here these do: {names}")
    if (joints := robot.joints_of(tops[0])) and not _is_free(robot, tops[0]):
        names = listed([robot.joints[j] for j in joints])
        raise ModelError(
            f"{robot.where(tops[0])}: {asked} without joints, or with a free joint, which is then "
            f"replaced; this body has {names}: load it without root="
        )
    base = robot.bodies[tops[0]]
    at = next(i for i, joint in enumerate(parts.joints) if joint.child == base)
    old = parts.joints.pop(at)
    parts.joints[at:at] = _root_specs(parts, root, tops[0], old)


def _root_specs(parts: _Parts, root: Root, b: int, old: JointSpec) -> list[JointSpec]:
    m, world = parts.robot.m, WORLD_LINK
    if root == "fixed":
        place = Placement.of(_rotation(m.body_quat[b]), m.body_pos[b])
        name = unused(f"{old.child}/fixed", parts.taken_joints)
        return [JointSpec(name, "fixed", world, old.child, place, where=old.where)]
    base = next(link for link in parts.links if link.name == old.child)
    specs = root_joints(root, base, parts.links, parts.joints)
    parts.links += [LinkSpec(s.child, where=s.where) for s in specs if s.child != base.name]
    return [replace(s, parent=world) if s.parent == GROUND else s for s in specs]
