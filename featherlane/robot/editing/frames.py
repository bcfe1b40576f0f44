"""New frames on the links of a robot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from featherlane.robot.loaders.words import quoted
from featherlane.robot.model import Robot
from featherlane.robot.parts import Frame
from featherlane.robot.values import placement_of

M = TypeVar("M", bound=Robot)


def with_frame(model: M, name: str, on: str, xyz: Any, rpy: Any, R: Any) -> M:
    """Implements `Editing.with_frame`."""
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"the name of the frame is {name!r}: wanted a text")
    if name in model.frame_names:
        raise ValueError(f"there is a frame {quoted(name)} already: names are unique")
    carrier = model.frame(on)
    place = carrier.placement * placement_of(xyz, rpy, R, f"frame {quoted(name)}")
    frame = Frame(name, carrier.body, place)
    notes = *model.notes, f"frame {name} added on {on}"
    return replace(model, frames=(*model.frames, frame), notes=notes)
