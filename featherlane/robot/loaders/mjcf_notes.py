"""Couplings, inertia behind gears, loops of an MJCF file, and its notes for the card."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from featherlane.errors import ModelError
from featherlane.robot.geometry import NOT_KEPT
from featherlane.robot.loaders.mjcf_actuators import (
    BALL,
    FREE,
    HINGE,
    SLIDE,
    left_out,
    motors,
    on_joints,
    servos,
)
from featherlane.robot.loaders.mjcf_compile import CompiledMjcf
from featherlane.robot.loaders.mjcf_shapes import colliding, hulls_without_mesh, unread_shapes
from featherlane.robot.loaders.words import WARNING, counted, listed
from featherlane.robot.parts import Mimic

CLOSING = ("CONNECT", "WELD")  # equalities, of mjtEq
SOFT = "flex"
IGNORED = {  # objects without a part in motion, and their counts
    "sensor": "nsensor",
    "camera": "ncam",
    "light": "nlight",
    "skin": "nskin",
}


# Equalities


def _equalities(robot: CompiledMjcf, *kinds: str, active: bool = True) -> list[int]:
    m, types = robot.m, robot.mujoco.mjtEq
    wanted = [int(getattr(types, f"mjEQ_{kind}", -1)) for kind in kinds]
    off = robot.disabled("CONSTRAINT") or robot.disabled("EQUALITY")
    return [
        i
        for i in range(m.neq)
        if m.eq_type[i] in wanted and (bool(m.eq_active0[i]) and not off) == active
    ]


def _kind(robot: CompiledMjcf, i: int) -> str:
    return robot.mujoco.mjtEq(int(robot.m.eq_type[i])).name.removeprefix("mjEQ_")


def _all_kinds(robot: CompiledMjcf) -> list[str]:
    return [name.removeprefix("mjEQ_") for name in robot.mujoco.mjtEq.__members__]


def _is_line(robot: CompiledMjcf, i: int) -> bool:
    """Tells whether an equality is linear, y - y0 = c0 + c1 (x - x0), and of two joints."""
    coefficients = robot.m.eq_data[i][:5]
    return robot.m.eq_obj2id[i] >= 0 and coefficients[1] != 0 and not np.any(coefficients[2:])


def _coupled(robot: CompiledMjcf) -> dict[int, int]:
    """Returns the equality that couples each joint that follows another."""
    first: dict[int, int] = {}
    for i in _equalities(robot, "JOINT"):
        if _is_line(robot, i):
            first.setdefault(int(robot.m.eq_obj1id[i]), i)
    return first


def followers(robot: CompiledMjcf) -> dict[int, Mimic]:
    """Returns the laws of joints that follow others by a linear equality, relative to qpos0."""
    m, laws = robot.m, {}
    for j, i in _coupled(robot).items():
        leader = int(m.eq_obj2id[i])
        y0, x0 = (m.qpos0[m.jnt_qposadr[k]] for k in (j, leader))
        c0, c1 = m.eq_data[i][:2]
        laws[j] = Mimic(robot.joints[leader], float(c1), float(y0 + c0 - c1 * x0))
    return laws


def check_loops(robot: CompiledMjcf, loops: str) -> None:
    """Raises ModelError for constraints and bodies that a tree of rigid bodies cannot have, unless
    they are dropped.
    """
    if loops == "drop" or not (loose := _loose(robot)):
        return
    soft_only = all(name.startswith(SOFT) for name in loose)
    keep = "" if soft_only else 'loops="keep" to have constraints in model.loops, or with '
    raise ModelError(
        f"{robot.source}: bodies are closed into loops or soft: {listed(loose)}; load with {keep}"
        'loops="drop" to leave these out'
    )


def _loose(robot: CompiledMjcf) -> list[str]:
    """Describes what closes loops or holds joints, unless it is kept: 'weld grip (hand, cup)'; and
    soft bodies.
    """
    soft = [f"{SOFT} {robot.name('flex', i)}" for i in range(getattr(robot.m, "nflex", 0))]
    loops = [] if robot.keeps_loops else [*closing(robot), *_held_again(robot)]
    return [equality_in_words(robot, i) for i in loops] + soft


def closing(robot: CompiledMjcf) -> list[int]:
    """Returns the equalities that close loops of bodies."""
    return _equalities(robot, *CLOSING)


def _held_again(robot: CompiledMjcf) -> list[int]:
    """Returns the equalities that hold a joint which follows another, or is held already."""
    held = _held_alone(robot).values()
    return [i for i in _holding(robot) if i not in held]


def coupling(robot: CompiledMjcf) -> list[int]:
    """Returns the equalities of joints that make no mimic joint and no fixed one."""
    applied = {*_coupled(robot).values(), *_held_alone(robot).values()}
    return [i for i in _equalities(robot, "JOINT") if i not in applied]


def _held_alone(robot: CompiledMjcf) -> dict[int, int]:
    """Returns the equality that holds each joint, but for joints that also follow another."""
    followers, held = _coupled(robot), dict[int, int]()
    for i in _holding(robot):
        if (j := int(robot.m.eq_obj1id[i])) not in followers:
            held.setdefault(j, i)
    return held


def held_joints(robot: CompiledMjcf, with_followers: bool) -> dict[int, float]:
    """Returns the positions of joints that equalities hold, and of those that follow them."""
    m = robot.m
    held = {
        j: float(m.qpos0[m.jnt_qposadr[j]] + m.eq_data[i][0]) for j, i in _held_alone(robot).items()
    }
    laws = followers(robot) if with_followers else {}
    for _ in laws:  # a follower may follow another one
        for j, law in laws.items():
            leader = robot.joints.index(law.joint)
            if leader in held:
                held[j] = law.multiplier * held[leader] + law.offset
    return held


def _held(robot: CompiledMjcf) -> list[str]:
    return [f"{robot.joints[j]} at {q:.6g}" for j, q in held_joints(robot, False).items()]


def _holding(robot: CompiledMjcf) -> list[int]:
    """Returns the equalities that hold one joint where it is, as a weld does."""
    m = robot.m
    return [
        i
        for i in _equalities(robot, "JOINT")
        if m.eq_obj2id[i] < 0 or not np.any(m.eq_data[i][1:5])
    ]


def equality_in_words(robot: CompiledMjcf, i: int) -> str:
    m = robot.m
    kind, name = _kind(robot, i).lower(), robot.name("equality", i)
    objects = {"joint": "joint", "tendon": "tendon"}.get(kind, "body")
    if robot.mujoco.mjtObj(int(m.eq_objtype[i])).name == "mjOBJ_SITE":
        objects = "site"
    ends = [robot.name(objects, int(k)) for k in (m.eq_obj1id[i], m.eq_obj2id[i]) if k >= 0]
    return f"{kind} {name} ({', '.join(ends)})"


# Actuators


def _transmissions(robot: CompiledMjcf) -> Iterator[tuple[int, bool]]:
    """Yields actuators with armature or damping, and whether they act on a joint."""
    armature, damping = robot.array("actuator_armature"), robot.array("actuator_damping")
    for i in range(len(armature)):
        if armature[i] or np.any(damping[i]):
            yield i, bool(on_joints(robot)[i])


def geared(robot: CompiledMjcf) -> np.ndarray:
    """Returns the armature and damping of actuators, reflected through their gears, (2, nv)."""
    m, reflected = robot.m, np.zeros((2, robot.m.nv))
    for i, on_joint in _transmissions(robot):
        if on_joint:
            dofs = m.dof_jntid == m.actuator_trnid[i][0]
            ratio = m.actuator_gear[i][0] ** 2
            of_actuator = [[m.actuator_armature[i]], [m.actuator_damping[i]]]
            reflected[:, dofs] += ratio * np.array(of_actuator)
    return reflected


def has_friction(robot: CompiledMjcf) -> bool:
    """Tells whether the file leaves friction switched on."""
    return not (robot.disabled("FRICTIONLOSS") or robot.disabled("CONSTRAINT"))


# Notes


def notes(robot: CompiledMjcf) -> Iterator[str]:
    """Yields the card's notes on the file."""
    yield from (f"{WARNING}MuJoCo: {' '.join(text.split())}" for text in robot.warnings)
    for title, names_of in {**WARNINGS, **REMARKS}.items():
        if names := names_of(robot):
            yield f"{WARNING * (title in WARNINGS)}{title}: {', '.join(names)}"
    sizes = {what: getattr(robot.m, size) for what, size in IGNORED.items()}
    sizes = {"geom": robot.m.ngeom - len(colliding(robot)), **sizes}
    ignored = [counted(n, what) for what, n in sizes.items() if n]
    if ignored:
        yield f"ignored: {', '.join(ignored)}"


def _named(robot: CompiledMjcf, kind: str, which: Any) -> list[str]:
    """Returns the names of the objects whose row of `which` is not zero."""
    rows = np.asarray(which, float)
    names = {"body": robot.bodies, "joint": robot.joints}.get(kind)
    chosen = np.flatnonzero(rows.reshape(len(rows), -1).any(1)) if rows.size else ()
    return [names[i] if names else robot.name(kind, int(i)) for i in chosen]


def _springs(robot: CompiledMjcf) -> list[str]:
    if robot.disabled("SPRING"):
        return []
    several = np.isin(robot.m.jnt_type, (BALL, FREE))
    return _named(robot, "joint", robot.m.jnt_stiffness * several)


def _curved_springs(robot: CompiledMjcf) -> list[str]:
    poly = robot.array("jnt_stiffnesspoly")
    return [] if robot.disabled("SPRING") else _named(robot, "joint", poly)


def _curved_damping(robot: CompiledMjcf) -> list[str]:
    if robot.disabled("DAMPER") or not len(poly := robot.array("dof_dampingpoly")):
        return []
    joints = robot.m.dof_jntid[np.any(poly, 1)]
    return [robot.joints[j] for j in dict.fromkeys(joints.tolist())] + _named(
        robot, "actuator", robot.array("actuator_dampingpoly")
    )


def _tendons(robot: CompiledMjcf) -> list[str]:
    """Names the tendons with a spring, damping, inertia or friction."""
    fields = ("stiffness", "damping", "armature", "frictionloss", "stiffnesspoly", "dampingpoly")
    names = [n for f in fields for n in _named(robot, "tendon", robot.array(f"tendon_{f}"))]
    return list(dict.fromkeys(names))


def _fluid(robot: CompiledMjcf) -> list[str]:
    fields = ("density", "viscosity")
    return [f"{f} {x:g}" for f in fields if (x := getattr(robot.m.opt, f))]


def _actuators(robot: CompiledMjcf, on_joints: bool) -> list[str]:
    return [robot.name("actuator", i) for i, on in _transmissions(robot) if on == on_joints]


def _other_equalities(robot: CompiledMjcf) -> list[str]:
    others = [k for k in _all_kinds(robot) if k not in CLOSING and not k.startswith("FLEX")]
    applied = {*_coupled(robot).values(), *_holding(robot)}
    applied |= {*coupling(robot)} if robot.keeps_loops else set()
    return [equality_in_words(robot, i) for i in _equalities(robot, *others) if i not in applied]


def _chains(robot: CompiledMjcf) -> list[str]:
    return [
        f"{robot.bodies[b]} ({', '.join(robot.joints[j] for j in robot.joints_of(b))})"
        for b in range(robot.m.nbody)
        if len(robot.joints_of(b)) > 1
    ]


def _anchored(robot: CompiledMjcf) -> list[str]:
    turns = np.isin(robot.m.jnt_type, (BALL, HINGE))
    return _named(robot, "joint", np.any(robot.m.jnt_pos, 1) & turns)


def _referred(robot: CompiledMjcf) -> list[str]:
    m = robot.m
    single = [j for j in range(m.njnt) if m.jnt_type[j] in (SLIDE, HINGE)]
    references = ((robot.joints[j], m.qpos0[m.jnt_qposadr[j]]) for j in single)
    return [f"{name} ({x:g})" for name, x in references if x]


def _friction(robot: CompiledMjcf) -> list[str]:
    rough = np.unique(robot.m.dof_jntid[robot.m.dof_frictionloss != 0])
    return [counted(len(rough), "joint")] if len(rough) and has_friction(robot) else []


def _idle_tendons(robot: CompiledMjcf) -> list[str]:
    names = [robot.name("tendon", i) for i in range(robot.m.ntendon)]
    return [name for name in names if name not in _tendons(robot)]


def _disabled(robot: CompiledMjcf) -> list[str]:
    flags = ("GRAVITY", "SPRING", "DAMPER", "FRICTIONLOSS", "CONSTRAINT", "EQUALITY")
    return [flag.lower() for flag in flags if robot.disabled(flag)]


NamesOf = Callable[[CompiledMjcf], list[str]]

WARNINGS: dict[str, NamesOf] = {  # where the motion differs from MuJoCo's
    "loop closures and soft bodies are dropped, as asked": _loose,
    "springs of ball and free joints are not applied": _springs,
    "springs are applied without the terms of higher order in q": _curved_springs,
    "damping is applied without the terms of higher order in v": _curved_damping,
    "gravity compensation (gravcomp) is not applied": lambda r: _named(
        r, "body", r.m.body_gravcomp
    ),
    "stiffness, damping, armature and friction of tendons are not applied": _tendons,
    "forces of a fluid are not applied": _fluid,
    "forces of plugins are not applied": lambda r: _named(
        r, "body", np.asarray(r.array("body_plugin")) >= 0
    ),
    "armature and damping of actuators that act on no joint are not applied": lambda r: _actuators(
        r, False
    ),
    'servos act only where actuation="file" is passed': servos,
    "actuators that are not applied": left_out,
    "equalities other than linear relations between two joints are not applied": _other_equalities,
}
REMARKS: dict[str, NamesOf] = {
    "switched off by the file": _disabled,
    "equalities of joints, which MuJoCo keeps softly, are exact": lambda r: [
        equality_in_words(r, i) for i in _coupled(r).values()
    ],
    "loops, which MuJoCo keeps softly, are exact, but for fl.SoftContacts": (
        lambda r: [equality_in_words(r, i) for i in [*closing(r), *coupling(r)] if r.keeps_loops]
    ),
    "joints that equalities hold are fixed there (rad, m), with their followers": _held,
    NOT_KEPT: unread_shapes,
    "collision shapes whose mesh was not read": hulls_without_mesh,
    "assets without a part in dynamics are not read": lambda r: [r.unread] * bool(r.unread),
    "inactive equalities are ignored": lambda r: [
        equality_in_words(r, i) for i in _equalities(r, *_all_kinds(r), active=False)
    ],
    "friction, in MuJoCo a constraint, is a smooth function of v": _friction,
    "armature and damping of actuators are counted with their joints": lambda r: _actuators(
        r, True
    ),
    'motors act where actuation="file" is passed': motors,
    "bodies of several joints are chains, all but the last without mass": _chains,
    "frames of bodies are at the anchors of these joints": _anchored,
    "joints with a ref, q there": _referred,
    "mocap bodies are fixed": lambda r: _named(r, "body", r.m.body_mocapid >= 0),
    "limits of ball joints are not kept": lambda r: _named(
        r, "joint", np.asarray(r.m.jnt_limited) & (r.m.jnt_type == BALL)
    ),
    "limits with a margin": lambda r: _named(
        r, "joint", np.asarray(r.m.jnt_limited) * r.m.jnt_margin
    ),
    "tendons are ignored": _idle_tendons,
    "without a name, called by their number": lambda r: list(r.unnamed),
}
