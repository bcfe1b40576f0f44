"""Other inertias for good: of a body, and of a payload at a frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

from featherlane.robot.conditioning import noted
from featherlane.robot.editing.reroot import body_number
from featherlane.robot.loaders.checks import inertia_notes
from featherlane.robot.loaders.specs import LinkSpec
from featherlane.robot.loaders.words import quoted
from featherlane.robot.model import Robot
from featherlane.robot.parts import IDENTITY, WORLD, Body, joined
from featherlane.robot.values import inertial

M = TypeVar("M", bound=Robot)


def with_inertial(model: M, body: str, **figures: Any) -> M:
    """Implements `Editing.with_inertial`."""
    i, where = body_number(model, body), f"body {quoted(body)}"
    old = model.bodies[i]
    changed = {name: x for name, x in figures.items() if x is not None}
    if not changed:
        return model
    named = {"mass": old.mass, "com": old.com, "inertia": old.inertia} | changed
    new = Body(body, *inertial(**named, where=where))
    notes = _doubts(new), f"set by the user: {', '.join(changed)} of {body}"
    return noted(model, _with_body(model, i, new), *notes[0], notes[1])


def with_payload(model: M, frame: str, mass: Any, com: Any, inertia: Any) -> M:
    """Implements `Editing.with_payload`."""
    at = model.frame(frame)
    load = Body(f"payload on {frame}", *inertial(mass, com, inertia, f"payload on {quoted(frame)}"))
    carrier = model.ground if at.body == WORLD else model.bodies[at.body]
    together = joined(carrier.name, [(carrier, IDENTITY), (load, at.placement)])
    text = f"payload of {load.mass:.6g} kg on {frame}"
    return noted(model, _with_body(model, at.body, together), *_doubts(load), text)


def _with_body(model: M, i: int, body: Body) -> M:
    """Returns the robot with another body i, or another body on the ground for WORLD."""
    if i == WORLD:
        return replace(model, ground=body)
    return replace(model, bodies=(*model.bodies[:i], body, *model.bodies[i + 1 :]))


def _doubts(body: Body) -> Iterator[str]:
    return inertia_notes([LinkSpec(body.name, body.mass, body.com, body.inertia)])
