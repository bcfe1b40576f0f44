"""Functions of a robot by texts, as command lines and lists have them."""

from __future__ import annotations

from typing import Any

from featherlane.errors import instead
from featherlane.functions.table import TABLE, Variant
from featherlane.robot.model import Robot

OPTIONS = ("frame", "reference", "wrt", "integrator")  # in texts


def variant_named(model: Robot, text: str) -> Variant:
    """The variant that a text such as "jacobian:tool0" or "jacobian:tool0:world" names. Names of
    frames may contain colons.
    """
    name, _, rest = text.partition(":")
    if name not in TABLE:
        raise ValueError(f"there is no function {name!r}{instead(name, TABLE)}")
    takes = [what for what in TABLE[name].takes if what in OPTIONS]
    frames = [f for f in model.frame_names if f"{rest}:".startswith(f"{f}:")]
    frame = max(frames, key=len, default="")
    options = [frame, *rest[len(frame) + 1 :].split(":")] if frame else rest.split(":")
    options = [option for option in options if option]
    given: dict[str, Any] = dict(zip(takes, options, strict=False))
    if "frame" in takes and not options:
        raise ValueError(f"{name} takes a frame: write {name}:FRAME")
    if len(options) > len(takes):
        wanted = ":".join([name, *map(str.upper, takes)])
        raise ValueError(f"function is {text!r}: wanted {wanted}")
    if "reference" in takes:
        given.setdefault("reference", "body")
    return Variant(name, **given)
