"""Parameters of run time made part of the robot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from featherlane.errors import instead
from featherlane.robot.conditioning import noted
from featherlane.robot.editing.physics import with_gravity, with_physics
from featherlane.robot.model import Robot
from featherlane.robot.parameters import BASE, BODY_PARAMETERS, PARAMETERS, matrix_of_six
from featherlane.robot.parts import Body, Joint, Placement, point_inertia
from featherlane.robot.quaternions import unit_quaternion
from featherlane.robot.rotations import xyzw_rotation
from featherlane.robot.values import inertial, numbers

M = TypeVar("M", bound=Robot)
OF_DOFS = ("armature", "damping", "friction", "stiffness", "spring_reference")
LASTING = tuple(name for name in PARAMETERS if name not in BASE)


def with_parameters(model: M, params: Mapping[str, Any]) -> M:
    """Implements `Editing.with_parameters`."""
    if "inertial" in params and (twice := params.keys() & {*BODY_PARAMETERS[:3]}):
        raise ValueError(
            f"params has 'inertial' and {min(twice)!r}, which it contains: one of them"
        )
    values = {name: _value(model, name, x) for name, x in params.items()}
    if not values:
        return model
    rows = [
        {name: x[i] for name, x in values.items() if PARAMETERS[name][0] == "bodies"}
        for i in range(model.nbodies)
    ]
    new = replace(
        model,
        bodies=tuple(map(_body, model.bodies, rows)),
        joints=tuple(map(_placed, model.joints, rows)),
    )
    if "gravity" in values:
        new = with_gravity(new, values["gravity"].tolist())
    physics: dict[str, Any] = {name: values[name] for name in OF_DOFS if name in values}
    new = with_physics(new, **physics)
    return noted(model, replace(new, notes=model.notes), f"set by the user: {', '.join(values)}")


def _value(model: Robot, name: str, value: Any) -> np.ndarray:
    if name in BASE:
        raise ValueError(
            f"params has {name!r}, a motion of the ground, which is no part of a robot"
        )
    if name not in PARAMETERS:
        raise ValueError(f"params names {name!r}{instead(str(name), LASTING)}")
    of = {"bodies": model.nbodies, "v": model.nv}
    shape = tuple(of[n] if isinstance(n, str) else n for n in PARAMETERS[name])
    shapes = (shape, (*shape[:1], 3, 3)) if name == "inertia" else (shape,)
    return numbers(value, shapes, name, repr(model.name))


def _body(body: Body, values: Mapping[str, np.ndarray]) -> Body:
    """Returns a body with other figures; the others stay."""
    if not values.keys() & {*BODY_PARAMETERS}:
        return body
    figures: dict[str, Any] = {"mass": body.mass, "com": body.com, "inertia": body.inertia}
    figures |= {name: x for name, x in values.items() if name in figures}
    if "inertial" in values:
        m, h, I = (
            values["inertial"][0],
            values["inertial"][1:4],
            matrix_of_six(values["inertial"][4:]),
        )
        com = h / m if m else np.zeros(3)
        figures = {"mass": m, "com": com, "inertia": I - m * point_inertia(com)}
    elif np.shape(figures["inertia"]) == (6,):
        figures["inertia"] = matrix_of_six(figures["inertia"])
    return Body(body.name, *inertial(**figures, where=f"body {body.name!r}"))


def _placed(joint: Joint, values: Mapping[str, np.ndarray]) -> Joint:
    """Returns a joint at another position, in another orientation."""
    R, p = np.array(joint.placement.R), joint.placement.p
    if "orientation" in values:
        if not values["orientation"].any():
            raise ValueError(f"orientation of joint {joint.name!r} is a quaternion of length 0")
        R = xyzw_rotation(unit_quaternion(values["orientation"]))
    return replace(joint, placement=Placement.of(R, values.get("position", p)))
