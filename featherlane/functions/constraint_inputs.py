"""Constraints of a function, and which arrays it takes with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from featherlane.errors import shown
from featherlane.functions.arguments import numbers_of
from featherlane.functions.dynamics_function import DynamicsFunction
from featherlane.robot.constraint_types import name_of
from featherlane.robot.constraints import Constraints, FramePair
from featherlane.robot.loaders.words import counted, listed
from featherlane.robot.model import Robot

Shape = tuple[str | int, ...]
INPUTS: dict[str, Shape] = {
    "active": ("constraints",),
    "anchors": ("constraints", 7),
    "kp": ("constraints",),
    "kd": ("constraints",),
}
GAINS = ("kp", "kd")
NEGATIVE = {
    "kp": "a negative gain would drive errors of position apart",
    "kd": "a negative gain would drive errors of velocity apart",
    "restitution": "0 stops the motion along rows, 1 turns it back",
}


class ConstraintInputs(NamedTuple):
    """The constraints of a variant, and which of `INPUTS` are inputs."""

    constraints: Constraints
    active: bool = False
    anchors: bool = False
    kp: bool = False
    kd: bool = False

    @property
    def sizes(self) -> dict[str, Shape]:
        """The inputs, after those that the function has without constraints."""
        return {name: size for name, size in INPUTS.items() if getattr(self, name)}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs."""
        count = self.constraints.count
        return {
            name: tuple(n if isinstance(n, int) else count for n in size)
            for name, size in self.sizes.items()
        }

    def options(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Returns the options of algorithms, with the inputs that are taken out of the others.
        Gains that are inputs take the place of the constraints' numbers.
        """
        arrays = {name: inputs.pop(name) for name in self.sizes}
        kp, kd = (arrays.pop(x, getattr(self.constraints, x)) for x in GAINS)
        return {"constraints": replace(self.constraints, kp=tuple(kp), kd=tuple(kd)), **arrays}


def with_inputs(constraints: Constraints | None, *inputs: bool) -> ConstraintInputs | None:
    """Returns constraints, if there are any. inputs: in the order of `INPUTS`. Raises TypeError for
    arrays in their place.
    """
    for name, x in zip(INPUTS, inputs, strict=False):
        if not isinstance(x, bool):
            raise TypeError(f"{name} is {x!r}: wanted True, which makes it an input, or False")
    return ConstraintInputs(constraints, *inputs) if constraints else None


def constraints_in(named: dict[str, Any]) -> tuple[ConstraintInputs | None, tuple[Any, ...]]:
    """Takes constraints and their arrays out of the named arguments of a call, see
    `with_constraints`.
    """
    return with_constraints(*(named.pop(x, None) for x in ("constraints", *INPUTS)))


def with_constraints(
    constraints: Any, *values: Any
) -> tuple[ConstraintInputs | None, tuple[Any, ...]]:
    """Returns the constraints of a call, if there are any, and the arrays that come with them.
    values: arrays or None, in the order of `INPUTS`. Raises TypeError.
    """
    arrays = {name: x for name, x in zip(INPUTS, values, strict=False) if x is not None}
    if constraints is None:
        if not arrays:
            return None, ()
        raise TypeError(f"{min(arrays)} is given without constraints: wanted both, or neither")
    if not isinstance(constraints, Constraints):
        kind = type(constraints).__name__
        raise TypeError(f"constraints is {kind}: wanted those that model.constraints(...) returns")
    check_active(arrays.get("active"))
    check_placements(constraints, arrays.get("anchors"))
    for name in GAINS:
        check_not_negative(name, arrays.get(name))
        if isinstance(arrays.get(name), Real):
            arrays[name] = [float(arrays[name])] * constraints.count
    return ConstraintInputs(constraints, **dict.fromkeys(arrays, True)), tuple(arrays.values())


def with_usual(function: DynamicsFunction, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a call with the inputs that it leaves out, and with a number
    repeated for each row or constraint.
    """
    constraints, filled = arguments.get("constraints"), dict(arguments)
    if isinstance(constraints, Constraints):
        counts = {("rows",): constraints.rows, ("constraints",): constraints.count}
        for name, usual in function.usual.items():
            x = usual if filled.get(name) is None else filled[name]
            (check_weights if name == "weights" else partial(check_not_negative, name))(x)
            if isinstance(x, Real):
                x = [float(x)] * counts[function.inputs[name]]  # type: ignore[index]
            filled[name] = x
    return filled


def check_active(active: Any) -> None:
    """Raises ValueError for masks with numbers other than 0 and 1: they would scale rows, and leave
    wrong accelerations that look right. Traced ones pass.
    """
    if not (others := _values(active) - {0, 1}):
        return
    raise ValueError(
        f"active has {min(others, key=str)!r}: wanted 1 for constraints that hold, 0 for others; "
        "a contact of some softness is not a constraint"
    )


def _values(x: Any) -> set[Any]:
    """Returns the numbers of an array or of lists of numbers, of large arrays at most one that is
    neither 0 nor 1.
    """
    if isinstance(x, list | tuple):
        return set().union(*map(_values, x))
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        if x.size > 256:
            x = x[(x != 0) & (x != 1)][:1]
        return {*x.ravel().tolist()}
    return {x} if isinstance(x, int | float) else set()


def check_weights(weights: Any) -> None:
    """Raises ValueError for numbers that are not positive and finite; traced ones pass."""
    numbers = numbers_of(weights)
    if numbers is not None and not ((numbers > 0) & (numbers < np.inf)).all():
        raise ValueError(
            f"weights is {shown(weights)}: wanted positive, finite numbers; a large weight makes a "
            "force small, and active=0 removes the forces of a constraint"
        )


def check_not_negative(name: str, x: Any) -> None:
    """Raises ValueError for gains and restitutions that are negative or not finite; traced ones
    pass.
    """
    numbers = numbers_of(x)
    if numbers is not None and not (good := (numbers >= 0) & (numbers < np.inf)).all():
        raise ValueError(
            f"{name} has {numbers[~good][0].item()!r}: wanted finite numbers, 0 or more; "
            f"{NEGATIVE[name]}"
        )


def check_placements(constraints: Constraints, anchors: Any) -> None:
    """Raises ValueError for a quaternion of length 0 in the anchor of a constraint on orientation;
    traced anchors pass.
    """
    numbers = numbers_of(anchors)
    if numbers is None or numbers.shape[-2:] != (constraints.count, 7):
        return
    turned = [isinstance(x, FramePair) and bool(x.angular) for x in constraints.places]
    zero = np.argwhere((numbers[..., 3:] == 0).all(-1) & turned)
    if len(zero):
        *state, k = zero[0].tolist()
        place = f" in state {', '.join(map(str, state))}" if state else ""
        raise ValueError(
            f"anchors has a quaternion of length 0 for {constraints.names[k]}{place}: wanted "
            "[x y z, qx qy qz qw] with a quaternion of length 1, as [0, 0, 0, 1]"
        )


def check_anchors(inputs: ConstraintInputs, positions: bool) -> None:
    """Raises ValueError for gains of position without anchors, and for anchors without gains.
    positions: whether the function reads positions whatever the gains.
    """
    c = inputs.constraints
    held = [
        i for i, place in enumerate(c.places) if isinstance(place, FramePair) and place.anchored
    ]
    pulled = held if positions or inputs.kp else [i for i in held if c.kp[i]]
    if pulled and not inputs.anchors:
        gain = "as an argument" if inputs.kp else f"= {c.kp[pulled[0]]:g}"
        why = "its position in the world" if positions else f"kp {gain}"
        raise ValueError(
            f"anchors is missing: {c.names[pulled[0]]} has {why}, which is measured from a "
            f"placement [x y z, qx qy qz qw] in anchors (..., {c.count}, 7)"
        )
    if inputs.anchors and not pulled:
        raise ValueError(
            "anchors has no effect: no constraint to the world has kp; give kp to "
            "model.constraints(...), or no anchors"
        )


def check_loops(model: Robot, name: str, constraints: Constraints | None, instead: str) -> None:
    """Raises ValueError for a function whose results would be wrong without the loops of a robot.
    instead: what a user calls to have them.
    """
    items = [closure.constraint for closure in model.loop_closures]
    missing = [i for i in items if constraints is None or i not in constraints.items]
    if not missing:
        return
    loops, names = counted(len(items), "loop"), listed([*map(name_of, missing)])
    if constraints is None:
        problem = f"{name} of {model.name!r} would not keep its {loops}: {instead}"
    else:
        problem = (
            f"constraints are without {names}, of the {loops} of {model.name!r}: wanted "
            "model.loops, or model.constraints([*model.loops.items, ...])"
        )
    raise ValueError(f"{problem}; model.without_loops() is the robot without them")
