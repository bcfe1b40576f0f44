"""Loops: constraints that belong to a robot, by names, so that every edit carries them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.polynomial import Polynomial

from featherlane.robot.constraint_types import (
    Constraint,
    Coupling,
    LoopClosure,
    Rod,
    name_of,
)
from featherlane.robot.constraints import Constraints, constraints_on
from featherlane.robot.loaders.words import WARNING
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD, Frame, floats

R = TypeVar("R", bound=Robot)
CLOSED = 1e-6  # m, of an error that is not worth a warning


def loops_on(robot: Robot) -> Constraints | None:
    """Returns the constraints of a robot's loops; None for a robot without loops."""
    if not robot.loop_closures:
        return None
    items, kp, kd, softness = zip(*robot.loop_closures, strict=True)
    return replace(constraints_on(robot, items, kp, kd), softness=softness)


def loop_closures(robot: Robot, constraints: Constraints) -> tuple[LoopClosure, ...]:
    """Returns constraints of a robot as its loops. Names of joints become those of the frames that
    they carry, which stay where they are when the joints are reversed.
    """
    carried = {
        joint.name: body.name for joint, body in zip(robot.joints, robot.bodies, strict=True)
    }
    carried |= dict(robot.fixed_joints)
    frames = {name: name for name in robot.frame_names}
    frames = {name: x for name, x in carried.items() if x in frames} | frames
    joints = {name: name for name in robot.joint_names}
    items = (renamed_constraint(item, joints, frames) for item in constraints.items)
    return tuple(map(LoopClosure, items, constraints.kp, constraints.kd, constraints.softness))


# Edits


def renamed_constraint(
    item: Constraint, joints: Mapping[str, str], frames: Mapping[str, str]
) -> Constraint:
    """Returns a constraint of the same robot with other names. Frames that are not among those
    given, as of fixed joints, keep their names.
    """
    if isinstance(item, Coupling):
        leader = None if item.leader is None else joints[item.leader]
        return replace(item, joint=joints[item.joint], leader=leader)
    moved = replace(item, frame=frames.get(item.frame, item.frame))
    return replace(moved, to=frames.get(item.to, item.to)) if item.to else moved


class LinearJoint(NamedTuple):
    """A joint whose position is multiplier q + offset, with q of an independent joint; without an
    independent joint, it stands at the offset.
    """

    independent: str | None
    multiplier: float = 1.0
    offset: float = 0.0


def coupling_of(
    joint: LinearJoint, leader: LinearJoint | None, polynomial: Polynomial
) -> Coupling | None:
    """Returns the coupling of independent joints by which `joint` follows a polynomial of `leader`;
    None if neither can move. Raises ValueError for equations that no `Coupling` expresses: of one
    joint with itself, and where a joint that stands still would follow a polynomial of degree 2.
    """
    y, x = joint, leader or LinearJoint(None)
    inner = Polynomial([x.offset, x.multiplier if x.independent else 0.0])
    law = polynomial(inner).trim()
    if y.independent is None and x.independent is None:
        return None
    if y.independent == x.independent:
        raise ValueError(f"both of its joints move with {y.independent!r}")
    if y.independent is None:
        c0, c1 = (*law.coef, 0.0)[:2]
        if law.degree() != 1:
            raise ValueError(f"its joint stands still, and {x.independent!r} follows no line")
        return Coupling(str(x.independent), None, (float((y.offset - c0) / c1),))
    coefficients = floats(((law - y.offset) / y.multiplier).coef)
    return Coupling(y.independent, x.independent, coefficients)


def with_locked(model: Robot, locked: Mapping[str, float]) -> tuple[LoopClosure, ...]:
    """Returns the loops of a robot whose joints are locked at positions: couplings lose the joints
    that stand still. Raises ValueError that names the coupling.
    """
    closures = []
    for closure in model.loop_closures:
        item: Constraint | None = closure.constraint
        if isinstance(item, Coupling) and {item.joint, item.leader} & {*locked}:
            ends = [
                LinearJoint(None, offset=locked[name]) if name in locked else LinearJoint(name)
                for name in (item.joint, item.leader)
                if name is not None
            ]
            law, leader = Polynomial(item.polynomial), ends[1] if len(ends) > 1 else None
            try:
                item = coupling_of(ends[0], leader, law)
            except ValueError as error:
                raise ValueError(
                    f"{name_of(closure.constraint)}: {error} (lock both of its joints, or neither)"
                ) from None
        closures += [] if item is None else [closure._replace(constraint=item)]
    return tuple(closures)


def without_rigid_loops(model: R) -> R:
    """Returns the robot without loops whose two sides are on one body; notes name them."""
    kept, dropped, open_ = [], [], []
    for closure in model.loop_closures:
        item = closure.constraint
        sides = None if isinstance(item, Coupling) else _sides(model, item.frame, item.to)
        if sides is None or sides[0].body != sides[1].body:
            kept.append(closure)
            continue
        dropped.append(name_of(item))
        gap = _gap(*sides, item.length if isinstance(item, Rod) else 0.0)
        open_ += [f"{name_of(item)} ({gap:.3g} m)"] if gap > CLOSED else []
    if not dropped:
        return model
    notes = [f"loops within one body are dropped: {', '.join(dropped)}"]
    if open_:
        notes.insert(0, f"{WARNING}loops within one body that are not closed: {', '.join(open_)}")
    return replace(model, loop_closures=tuple(kept), notes=(*model.notes, *notes))


def _sides(model: Robot, frame: str, to: str | None) -> tuple[Frame, Frame]:
    return model.frame(frame), Frame("", WORLD) if to is None else model.frame(to)


def _gap(frame: Frame, to: Frame, length: float) -> float:
    """Returns by how much the distance of two origins on one body differs from a length, m."""
    distance = np.linalg.norm(np.subtract(frame.placement.p, to.placement.p))
    return abs(float(distance) - length)
