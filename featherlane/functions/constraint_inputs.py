"""Constraints of a function, and which arrays it takes with them."""

from __future__ import annotations

from typing import Any, NamedTuple

from featherlane.robot.constraints import Constraints, FramePair

Shape = tuple[str | int, ...]


class ConstraintInputs(NamedTuple):
    """The constraints of a variant, and whether `active` and `anchors` are inputs."""

    constraints: Constraints
    active: bool = False
    anchors: bool = False

    @property
    def sizes(self) -> dict[str, Shape]:
        """The inputs, after those that the function has without constraints."""
        sizes: dict[str, Shape] = {"active": ("constraints",)} if self.active else {}
        return sizes | ({"anchors": ("constraints", 7)} if self.anchors else {})

    def options(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Returns the options of algorithms, with the inputs that are taken out of the others."""
        return {"constraints": self.constraints, **{name: inputs.pop(name) for name in self.sizes}}


def constraints_in(named: dict[str, Any]) -> tuple[ConstraintInputs | None, tuple[Any, ...]]:
    """Takes constraints, active and anchors out of the named arguments of a call, see
    `with_constraints`.
    """
    return with_constraints(*(named.pop(x, None) for x in ("constraints", "active", "anchors")))


def with_constraints(
    constraints: Any, active: Any = None, anchors: Any = None
) -> tuple[ConstraintInputs | None, tuple[Any, ...]]:
    """Returns the constraints of a call, if there are any, and the arrays that come with them.
    Raises TypeError.
    """
    if constraints is None:
        if active is None and anchors is None:
            return None, ()
        name = "anchors" if active is None else "active"
        raise TypeError(f"{name} is given without constraints: wanted both, or neither")
    if not isinstance(constraints, Constraints):
        kind = type(constraints).__name__
        raise TypeError(f"constraints is {kind}: wanted those that model.constraints(...) returns")
    built = ConstraintInputs(constraints, active is not None, anchors is not None)
    return built, tuple(x for x in (active, anchors) if x is not None)


def check_anchors(inputs: ConstraintInputs, positions: bool) -> None:
    """Raises ValueError for gains of position without anchors, and for anchors without gains.
    positions: whether the function reads positions whatever the gains.
    """
    c = inputs.constraints
    held = [
        i for i, place in enumerate(c.places) if isinstance(place, FramePair) and place.anchored
    ]
    pulled = held if positions else [i for i in held if c.kp[i]]
    if pulled and not inputs.anchors:
        why = "its position in the world" if positions else f"kp = {c.kp[pulled[0]]:g}"
        raise ValueError(
            f"anchors is missing: {c.names[pulled[0]]} has {why}, which is measured from a "
            f"placement [x y z, qx qy qz qw] in anchors (..., {c.count}, 7)"
        )
    if inputs.anchors and not pulled:
        raise ValueError(
            "anchors has no effect: no constraint to the world has kp; give kp to "
            "model.constraints(...), or no anchors"
        )
