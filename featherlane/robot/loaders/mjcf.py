"""MJCF, read as the compiled model of the mujoco package.

MuJoCo's compiler resolves defaults, angles, includes and the inertia of geoms. Joints come in
MuJoCo's order, and q of hinges and slides is its qpos. A body with several joints becomes a chain
of bodies, one for each joint, all but the last without mass. The frame of a body is at the anchor
of its joint, in the axes of the MJCF body. Where the anchor is not the MJCF body's origin, and for
all but the last body of a chain, the frame is named "body/joint". MJCF bodies and sites are frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from featherlane.errors import ModelError
from featherlane.robot.actuators import on_joints
from featherlane.robot.collision_shapes import placed_on
from featherlane.robot.constants import rotated_matrix
from featherlane.robot.constraint_types import LoopClosure
from featherlane.robot.contact_numbers import row_softness
from featherlane.robot.loaders.assemble import assemble
from featherlane.robot.loaders.loops import loop_frames
from featherlane.robot.loaders.mjcf_actuators import efforts, joint_actuators, keyframes
from featherlane.robot.loaders.mjcf_compile import CompiledMjcf, compiled
from featherlane.robot.loaders.mjcf_loops import joint_couplings, loop_specs
from featherlane.robot.loaders.mjcf_notes import (
    BALL,
    FREE,
    HINGE,
    SLIDE,
    check_loops,
    followers,
    geared,
    has_friction,
    held_joints,
    notes,
)
from featherlane.robot.loaders.mjcf_shapes import (
    collision_exclusions,
    collision_pairs,
    collision_shapes,
)
from featherlane.robot.loaders.roots import GROUND, Root, described, root_joints
from featherlane.robot.loaders.specs import FrameSpec, JointSpec, LinkSpec
from featherlane.robot.loaders.words import listed, quoted, unused
from featherlane.robot.loaders.xml import Element
from featherlane.robot.loops import without_rigid_loops
from featherlane.robot.model import Robot
from featherlane.robot.parts import IDENTITY, Floats, Placement, floats, rows3
from featherlane.robot.rotations import xyzw_rotation
from featherlane.robot.row_softness import DEFAULT_SOFTNESS
from featherlane.scalar import sine_cosine

MJ_TYPES = ("free", "spherical", "prismatic", "revolute")  # by mjtJoint
MJ_DOFS = (6, 3, 1, 1)
WORLD_LINK = "world"


class _Actuated(NamedTuple):
    """Figures of joints that come from their actuators: of each freedom, and of each joint."""

    armature: np.ndarray
    damping: np.ndarray
    effort: np.ndarray


@dataclass
class _Parts:
    """The links, joints and frames of the robot, collected body by body."""

    robot: CompiledMjcf
    links: list[LinkSpec] = field(default_factory=list)
    joints: list[JointSpec] = field(default_factory=list)
    frames: list[FrameSpec] = field(default_factory=list)
    at: list[tuple[str, Placement]] = field(default_factory=list)
    """For each MJCF body the link that it is part of, and its placement on it."""
    sites: dict[int, tuple[str, str, Placement]] = field(default_factory=dict)
    """For each site with a name that of its frame, its link, and its placement on it."""

    def __post_init__(self) -> None:
        self.taken: set[str | None] = set(self.robot.bodies)
        self.taken_joints: set[str | None] = set(self.robot.joints)


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused by assemble
def read_mjcf(
    document: Element,
    text: str | bytes,
    path: str | None,
    loops: str,
    fallback_name: str,
    options: Mapping[str, Any],
) -> Robot:
    """Makes the Model of an MJCF text, or of the file at `path`.

    loops: "refuse", "keep" or "drop", for constraints that close loops. options: root, gravity,
    mimic and joint_order of `assemble`; None stands for the root and gravity of the file. Raises
    ModelError with MuJoCo's complaint or one of this module.
    """
    root = options["root"]
    robot = compiled(document, text, path, every=root not in (None, "fixed"))
    robot = replace(robot, keeps_loops=loops == "keep")
    check_loops(robot, loops)
    parts = _parts(robot)
    held = held_joints(robot, options["mimic"] == "project")
    _hold(parts, held)
    closures = _loops(parts) if robot.keeps_loops else []
    file_root = _file_root(robot)
    if root is not None and not (root == file_root == "free"):
        _put_root(parts, root)
    model = assemble(
        document.node.get("model") or fallback_name,
        parts.links,
        parts.joints,
        parts.frames,
        source=document.source,
        notes=notes(robot),
        **{**options, "root": None, "gravity": options["gravity"] or _gravity(robot)},
    )
    if robot.keeps_loops:
        closures += joint_couplings(robot, model, held)
    read = replace(
        model,
        root=file_root if root is None else described(root),
        loop_closures=tuple(closures),
        **_of_moving_joints(robot, model),
        **_collisions(robot, model),
    )
    return without_rigid_loops(read)


def _of_moving_joints(robot: CompiledMjcf, model: Robot) -> dict[str, Any]:
    """Returns the actuators and named configurations of the joints that the model has."""
    single = {joint.name: joint.name for joint in model.joints if joint.kind.nv == 1}
    sizes = {joint.name: joint.kind.nq for joint in model.joints}
    configurations = []
    for keyframe in keyframes(robot):
        kept = {name: name for name, q in keyframe.joints if sizes.get(name) == len(q)}
        configurations.append(keyframe.of_joints(kept))
    return {
        "actuators": on_joints(joint_actuators(robot), single),
        "named_configurations": tuple(configurations),
    }


def _collisions(robot: CompiledMjcf, model: Robot) -> dict[str, Any]:
    """Returns the collision shapes of the file on the bodies of the model. Raises ModelError for
    figures that no contact can have.
    """
    try:
        shapes = placed_on(model.frames, collision_shapes(robot))
    except ValueError as error:
        raise ModelError(f"{robot.source}: {error}") from None
    return {
        "collision_shapes": shapes,
        "collision_pairs": tuple(collision_pairs(robot)),
        "collision_exclusions": tuple(collision_exclusions(robot)),
    }


def _gravity(robot: CompiledMjcf) -> Floats:
    return floats(np.zeros(3) if robot.disabled("GRAVITY") else robot.m.opt.gravity)


# Bodies and joints


def _hold(parts: _Parts, held: dict[int, float]) -> None:
    """Makes joints that equalities hold fixed ones, at their positions."""
    positions = {parts.robot.joints[j]: q for j, q in held.items()}
    for n, spec in enumerate(parts.joints):
        if spec.name in positions:
            place = spec.placement * _displacement(spec, positions[spec.name])
            fixed = JointSpec(spec.name, "fixed", spec.parent, spec.child, place, where=spec.where)
            parts.joints[n] = fixed


def _displacement(spec: JointSpec, q: float) -> Placement:
    """Returns where a hinge or a slide at q has its child's frame."""
    axis = np.array(spec.axis)
    if spec.type == "prismatic":
        return Placement.of(np.eye(3), axis * q)
    s, c = sine_cosine(q / 2)
    return _placement([c, *(s * axis)], np.zeros(3))


def _parts(robot: CompiledMjcf) -> _Parts:
    parts, coupled = _Parts(robot), followers(robot)
    armature, damping = geared(robot)
    figures = _Actuated(armature, damping, efforts(robot))
    parts.links.append(LinkSpec(WORLD_LINK, where=robot.source))
    parts.at.append((WORLD_LINK, IDENTITY))
    for b in range(1, robot.m.nbody):
        _body(parts, b, coupled, figures)
    for i in range(robot.m.nsite):
        _site(parts, i)
    return parts


def _loops(parts: _Parts) -> list[LoopClosure]:
    """Adds the frames of loops, and returns their constraints."""
    robot = parts.robot
    bodies = {b: (robot.bodies[b], *at) for b, at in enumerate(parts.at)}
    bodies[0] = (WORLD_LINK, *parts.at[0])
    frames, closures = loop_frames(loop_specs(robot, bodies, parts.sites), parts.taken)
    parts.frames += frames
    return closures


def _body(parts: _Parts, b: int, coupled: dict[int, Any], figures: _Actuated) -> None:
    """Adds a link for each joint of a body, or one link on a fixed joint if it has none."""
    robot, where = parts.robot, parts.robot.where(b)
    m, body = robot.m, robot.bodies[b]
    parent, parent_place = parts.at[m.body_parentid[b]]
    place = parent_place * _placement(m.body_quat[b], m.body_pos[b])
    link, origin = body, np.zeros(3)  # the link's origin in the axes of the MJCF body
    if not (joints := robot.joints_of(b)):
        name = unused(f"{body}/fixed", parts.taken_joints)
        parts.joints.append(JointSpec(name, "fixed", parent, body, place, where=where))
    for j in joints:
        kind = int(m.jnt_type[j])
        anchor = m.jnt_pos[j] if kind in (BALL, HINGE) else np.zeros(3)
        at_end = j == joints[-1] and not np.any(anchor)
        link = body if at_end else unused(f"{body}/{robot.joints[j]}", parts.taken)
        frame = IDENTITY if kind == FREE else place * _joint_frame(m, j, anchor - origin)
        spec = _joint(robot, j, parent, link, frame, figures)
        parts.joints.append(replace(spec, mimic=coupled.get(j), where=where))
        if j != joints[-1]:
            parts.links.append(LinkSpec(link, where=where))
        parent, place, origin = link, IDENTITY, anchor
    parts.links.append(_link(m, b, link, origin, where))
    parts.at.append((link, Placement.of(np.eye(3), -origin)))
    if link != body:
        parts.frames.append(FrameSpec(body, *parts.at[b], where=where))


def _link(m: Any, b: int, name: str, origin: np.ndarray, where: str) -> LinkSpec:
    R, moments = _rotation(m.body_iquat[b]).tolist(), np.diag(m.body_inertia[b]).tolist()
    inertia = rows3(rotated_matrix(R, moments))
    return LinkSpec(name, float(m.body_mass[b]), floats(m.body_ipos[b] - origin), inertia, where)


def _joint_frame(m: Any, j: int, shift: np.ndarray) -> Placement:
    """Returns the joint's frame at q = 0; in MuJoCo the body is in place at q = qpos0."""
    kind, axis = m.jnt_type[j], m.jnt_axis[j]
    if kind == BALL:
        return Placement.of(np.eye(3), shift)
    reference = m.qpos0[m.jnt_qposadr[j]]
    if kind == SLIDE:
        return Placement.of(np.eye(3), shift - axis * reference)
    s, c = sine_cosine(float(reference / 2))
    return _placement([c, *(-s * axis)], shift)


def _joint(
    robot: CompiledMjcf,
    j: int,
    parent: str,
    child: str,
    placement: Placement,
    figures: _Actuated,
) -> JointSpec:
    m, kind = robot.m, int(robot.m.jnt_type[j])
    dofs = slice(int(m.jnt_dofadr[j]), int(m.jnt_dofadr[j]) + MJ_DOFS[kind])
    limited = bool(m.jnt_limited[j]) and kind in (SLIDE, HINGE)
    lower, upper = ((float(x),) if limited else () for x in m.jnt_range[j])
    stiffness, reference = _spring(robot, j)
    damped, frictional = not robot.disabled("DAMPER"), has_friction(robot)
    limit = row_softness(m.jnt_solref[j], m.jnt_solimp[j])
    friction = row_softness(m.dof_solref[dofs.start], m.dof_solimp[dofs.start])
    return JointSpec(
        robot.joints[j],
        MJ_TYPES[kind],
        parent,
        child,
        placement,
        axis=floats(m.jnt_axis[j]) if kind in (SLIDE, HINGE) else (0.0, 0.0, 1.0),
        lower=lower,
        upper=upper,
        effort=float(figures.effort[j]),
        armature=_any(m.dof_armature[dofs] + figures.armature[dofs]),
        damping=_any((m.dof_damping[dofs] + figures.damping[dofs]) * damped),
        friction=_any(m.dof_frictionloss[dofs] * frictional),
        stiffness=stiffness,
        spring_reference=reference,
        limit_softness=limit._replace(margin=float(m.jnt_margin[j]))
        if limited
        else DEFAULT_SOFTNESS,
        friction_softness=friction if np.any(m.dof_frictionloss[dofs]) else DEFAULT_SOFTNESS,
    )


def _spring(robot: CompiledMjcf, j: int) -> tuple[Floats, Floats]:
    """Returns the stiffness of a joint's spring, and the position in which it is relaxed."""
    m = robot.m
    if robot.disabled("SPRING") or not m.jnt_stiffness[j] or m.jnt_type[j] not in (SLIDE, HINGE):
        return (), ()
    return floats([m.jnt_stiffness[j]]), floats([m.qpos_spring[m.jnt_qposadr[j]]])


def _any(values: np.ndarray) -> Floats:
    return floats(values) if np.any(values) else ()


def _site(parts: _Parts, i: int) -> None:
    robot, m = parts.robot, parts.robot.m
    site = robot.mujoco.mj_id2name(m, robot.mujoco.mjtObj.mjOBJ_SITE, i)
    if not site:
        return
    link, body_place = parts.at[m.site_bodyid[i]]
    name = unused(site if site not in parts.taken else f"{site}/site", parts.taken)
    place = body_place * _placement(m.site_quat[i], m.site_pos[i])
    parts.frames.append(FrameSpec(name, link, place, f"{robot.source}: site {quoted(site)}"))
    parts.sites[i] = name, link, place


def _rotation(wxyz: Any) -> np.ndarray:
    return xyzw_rotation(np.roll(np.asarray(wxyz, float), -1))


def _placement(wxyz: Any, position: Any) -> Placement:
    return Placement.of(_rotation(wxyz), position)


# The root


def _tops(robot: CompiledMjcf) -> list[int]:
    """Returns the bodies on the world that move or carry moving ones; all, if nothing moves."""
    m = robot.m
    moving = sorted({int(m.body_rootid[b]) for b in m.jnt_bodyid})
    return moving or [b for b in range(1, m.nbody) if m.body_parentid[b] == 0]


def _is_free(robot: CompiledMjcf, b: int) -> bool:
    return [int(robot.m.jnt_type[j]) for j in robot.joints_of(b)] == [FREE]


def _file_root(robot: CompiledMjcf) -> str:
    tops = _tops(robot)
    return "free" if len(tops) == 1 and _is_free(robot, tops[0]) else "fixed"


def _put_root(parts: _Parts, root: Root) -> None:
    """Puts a root in the place of the joint that holds or moves the top body."""
    robot, tops = parts.robot, _tops(parts.robot)
    if root == "fixed" and FREE not in robot.m.jnt_type:
        return
    asked = f"root={described(root)!r} is for a robot with one body on the world"
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
        place = _placement(m.body_quat[b], m.body_pos[b])
        name = unused(f"{old.child}/fixed", parts.taken_joints)
        return [JointSpec(name, "fixed", world, old.child, place, where=old.where)]
    base = next(link for link in parts.links if link.name == old.child)
    specs = root_joints(root, base, parts.links, parts.joints)
    parts.links += [LinkSpec(s.child, where=s.where) for s in specs if s.child != base.name]
    return [replace(s, parent=world) if s.parent == GROUND else s for s in specs]
