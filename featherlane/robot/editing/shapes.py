"""Collision shapes that are added, replaced or removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from featherlane.robot.collision_shapes import CollisionShape
from featherlane.robot.loaders.words import near, quoted
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD

M = TypeVar("M", bound=Robot)


def with_collision_shapes(model: M, shapes: Any) -> M:
    """Implements `Editing.with_collision_shapes`."""
    if isinstance(shapes, Mapping):
        new = [*_on_frames(model, shapes)]
    else:
        chosen = shapes if isinstance(shapes, Sequence) else (shapes,)
        new = [_on_its_body(model, _checked(shape)) for shape in chosen]
    names = [shape.name for shape in new]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two collision shapes are named {quoted(name)}: names are unique")
    by_name = {s.name: s for s in (*model.collision_shapes, *new)}
    notes = *model.notes, f"collision shapes set by the user: {', '.join(names)}"
    return replace(model, collision_shapes=tuple(by_name.values()), notes=notes)


def without_collision_shapes(model: M, names: Any = None) -> M:
    """Implements `Editing.without_collision_shapes`."""
    known = [shape.name for shape in model.collision_shapes]
    gone = known if names is None else [names] if isinstance(names, str) else [*names]
    for name in gone:
        if name not in known:
            raise ValueError(f"there is no collision shape {quoted(name)}{near(name, known)}")
    return replace(
        model,
        collision_shapes=tuple(s for s in model.collision_shapes if s.name not in gone),
        collision_pairs=tuple(p for p in model.collision_pairs if not {*p[:2]} & {*gone}),
        notes=(*model.notes, f"collision shapes removed: {', '.join(gone)}"),
    )


def _checked(shape: Any) -> CollisionShape:
    if not isinstance(shape, CollisionShape):
        wanted = "fl.CollisionShape(name, kind, size), alone, in a list, or by frames in a dict"
        raise TypeError(f"shapes has {shape!r:.80}: wanted {wanted}")
    return shape


def _on_frames(model: Robot, shapes: Mapping[str, Any]) -> Iterator[CollisionShape]:
    """Yields shapes that are placed on frames, on their bodies."""
    for name, value in shapes.items():
        frame = model.frame(name)
        for shape in value if isinstance(value, list | tuple) else (value,):
            yield replace(_checked(shape), link=name).on(frame.body, frame.placement)


def _on_its_body(model: Robot, shape: CollisionShape) -> CollisionShape:
    """Returns a shape with the name of its body as that of its link, if it has none."""
    if not WORLD <= shape.body < model.nbodies:
        raise ValueError(
            f"{shape.title} is on body {shape.body}: wanted a number of one of {model.nbodies} "
            f"bodies counted from 0, or {WORLD}, the ground"
        )
    if shape.link:
        frame = model.frame(shape.link)
        if frame.body != shape.body:
            raise ValueError(
                f"{shape.title} is on body {shape.body}, and its link {quoted(shape.link)} on body "
                f"{frame.body}: {{{shape.link!r}: shape}} places it on the link"
            )
        return shape
    return shape if shape.body == WORLD else replace(shape, link=model.bodies[shape.body].name)
