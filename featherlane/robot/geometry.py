"""The collision shapes of a robot as one value, which prints as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from featherlane.robot.collision_shapes import SIZES, CollisionPair, CollisionShape, Exclusion
from featherlane.robot.parts import WORLD

TITLES = ("shape", "kind", "on body", "size m", "friction", "condim", "margin m", "groups")
GROUND = "(ground)"
NOT_READ = "collision shapes that are not read"  # titles of notes, of loaders
NOT_KEPT = "geoms of types without a rule for contacts are not kept"


class Geometry(NamedTuple):
    """The collision shapes of a robot, from `model.geometry`: iterable, indexed by name, printable.

    Examples:
        >>> foot = fl.CollisionShape("foot", "sphere", (0.02,))
        >>> print(arm.with_collision_shapes({"link2": foot}).geometry)
        shape  kind    on body  size m       friction          condim  margin m  groups
        foot   sphere  link2    radius 0.02  1, 0.005, 0.0001  3       0         1/1
    """

    shapes: tuple[CollisionShape, ...]
    pairs: tuple[CollisionPair, ...]
    exclusions: tuple[Exclusion, ...]
    bodies: tuple[str, ...]  # their names
    left_out: tuple[str, ...] = ()  # which shapes of the file are not among these, and why

    def shape(self, name: str) -> CollisionShape:
        """Returns the shape of this name. Raises KeyError."""
        return {shape.name: shape for shape in self.shapes}[name]

    def body_of(self, shape: CollisionShape) -> str:
        """Returns the name of the body that carries a shape."""
        return GROUND if shape.body == WORLD else self.bodies[shape.body]

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def dimensions(shape: CollisionShape) -> str:
    """Returns the size of a shape in words, m: "radius 0.02"."""
    if shape.kind == "hull":
        if shape.points:
            return f"{len(shape.points)} points"
        return f"mesh {shape.mesh.name}" if shape.mesh and shape.robot_file else "no mesh"
    names = SIZES[shape.kind]
    if names[:1] == ("half x",):
        return "half " + " x ".join(f"{x:.4g}" for x in shape.size)
    return ", ".join(f"{name} {x:.4g}" for name, x in zip(names, shape.size, strict=True))


def left_out(notes: Iterable[str]) -> tuple[str, ...]:
    """Returns those notes on a robot that name shapes of its file which were not read."""
    return tuple(note for note in notes if note.startswith((NOT_READ, NOT_KEPT)))


def _lines(geometry: Geometry) -> Iterator[str]:
    rows = [TITLES, *(_row(geometry, shape) for shape in geometry.shapes)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
    if geometry.pairs:
        yield f"pairs: {', '.join(f'{a} with {b}' for a, b, *_ in geometry.pairs)}"
    if geometry.exclusions:
        yield f"not touching: {', '.join(f'{a} and {b}' for a, b in geometry.exclusions)}"
    yield from geometry.left_out


def _row(geometry: Geometry, shape: CollisionShape) -> tuple[str, ...]:
    friction = ", ".join(f"{x:.4g}" for x in shape.friction)
    groups = f"{shape.contype:x}/{shape.conaffinity:x}"
    numbers = friction, str(shape.condim), f"{shape.margin:.4g}", groups
    return shape.name, shape.kind, geometry.body_of(shape), dimensions(shape), *numbers
