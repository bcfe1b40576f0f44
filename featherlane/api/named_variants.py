"""Functions of a robot by texts, as command lines and lists have them."""

from __future__ import annotations

from typing import Any

from featherlane.errors import instead
from featherlane.functions.table import CALLED, CONSTRAINED, TABLE, Variant
from featherlane.robot.model import Robot

OPTIONS = ("frame", "reference", "wrt", "integrator")  # in texts
NAMED = {**TABLE, **{name: CALLED[name] for name in ("rollout", "rollout_gradient")}}


def variant_named(model: Robot, text: str) -> Variant:
    """The variant that a text such as "jacobian:tool0", "jacobian:tool0:world", "step:rk4" or
    "rollout:32:rk4" (of 32 steps) names. Names of frames may contain colons.
    """
    name, _, rest = text.partition(":")
    if name in CONSTRAINED:
        raise ValueError(
            f"{name} needs constraints, which a text cannot give: wanted a graph, as from "
            f"model.graph({name!r}, constraints=...); circuits have no constraints"
        )
    if name not in NAMED:
        raise ValueError(f"there is no function {name!r}{instead(name, NAMED)}")
    takes = [what for what in NAMED[name].takes if what in OPTIONS]
    if name not in TABLE:
        takes = ["steps", *takes]
    frames = [f for f in model.frame_names if f"{rest}:".startswith(f"{f}:")]
    frame = max(frames, key=len, default="")
    options = [frame, *rest[len(frame) + 1 :].split(":")] if frame else rest.split(":")
    options = [option for option in options if option]
    fields: dict[str, Any] = dict(zip(takes, options, strict=False))
    if "frame" in takes and not options:
        raise ValueError(f"{name} takes a frame: write {name}:FRAME")
    if len(options) > len(takes):
        wanted = ":".join([name, *map(str.upper, takes)])
        raise ValueError(f"function is {text!r}: wanted {wanted}")
    if "steps" in takes:
        if not (steps := fields.get("steps", "")).isdecimal() or not int(steps):
            raise ValueError(f"function is {text!r}: wanted {name}:STEPS, as in {name}:32")
        fields["steps"] = int(steps)
    if "reference" in takes:
        fields.setdefault("reference", "body")
    return Variant(name, **fields)
