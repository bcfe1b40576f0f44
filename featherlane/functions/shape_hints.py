"""Hints in errors: the likely confusion behind an input of a wrong shape."""

from __future__ import annotations

from featherlane.errors import turned
from featherlane.functions.actuation import Actuation
from featherlane.functions.constraint_inputs import INPUTS
from featherlane.robot.model import Robot
from featherlane.robot.parameters import PARAMETERS


def shape_hint(model: Robot, actuation: Actuation | None, name: str, shape: tuple[int, ...]) -> str:
    """The likely confusion behind the wrong shape of an input. actuation: of the function."""
    last = shape[-1] if shape else None
    if actuation and name in ("tau", "dtau"):
        return _controls_hint(model, actuation)
    if name == "f_ext":
        return _wrenches_hint(model, shape)
    if name in ("restitution", *INPUTS):
        return "one for each of the constraints, in their order, see print(constraints)"
    if name == "direction":
        return f"the model has nv = {model.nv}, as many entries along each of q, v and tau"
    if name in PARAMETERS:
        return f"model.parameters({name!r}) has the model's own"
    if name not in ("q", "q0", "q1", "v", "a", "tau"):
        return ""
    wanted = "nq" if name.startswith("q") else "nv"
    size = f"the model has {wanted} = {getattr(model, wanted)}"
    if len(shape) == 2 and shape[0] == getattr(model, wanted):
        return f"{size}; {turned(name)}"
    if model.nq == model.nv:
        return size
    free = "a free joint takes 7 entries of q (position, quaternion xyzw) and 6 of v"
    other, size_of_other = ("v", model.nv) if wanted == "nq" else ("q", model.nq)
    if last == size_of_other:
        return f"{size}; this is the size of {other}. {free[0].upper()}{free[1:]}"
    return f"{size}; {free}" if any(t.name == "free" for t in model.types) else size


def _wrenches_hint(model: Robot, shape: tuple[int, ...]) -> str:
    expected = f"one [force; moment] for each of the {model.nbodies} moving bodies"
    if shape[-2:] == (model.nbodies + 1, 6):
        return f"{expected}; the ground has none (of Pinocchio's universe: pass f_ext[1:])"
    turned = shape[-2:] == (6, model.nbodies)
    return f"{expected}; they go in rows, pass np.swapaxes(f_ext, -1, -2)" if turned else expected


def _controls_hint(model: Robot, actuation: Actuation) -> str:
    joint_names = {k: model.joints[i].name for i in model.independent for k in model.dofs[i]}
    driven = (dict.fromkeys(joint_names[k] for k, *_ in x.gears) for x in actuation.actuators)
    names = ", ".join(map(" and ".join, driven))
    count = "1 control" if actuation.controls == 1 else f"{actuation.controls} controls"
    return f"the actuation has {count}, of {names}"
