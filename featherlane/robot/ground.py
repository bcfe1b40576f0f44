"""The ground that robots stand on, and which of their shapes touch it and one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, Literal

import numpy as np

from featherlane.errors import shown
from featherlane.robot.collision_shapes import CollisionShape
from featherlane.robot.contact_numbers import FRICTION, checked_friction, real_array
from featherlane.robot.parts import WORLD, Floats, Placement, floats

IN_FILE: Literal["file"] = "file"
LARGEST_GRID = 4096  # heights of a field: each one costs four operations for each contact point


@dataclass(frozen=True)
class HeightField:
    """Terrain above a rectangle: `heights[i][k]`, m, at the i-th of equal steps along x and the
    k-th along y, bilinear in between and constant beyond the edges.

    Raises ValueError that names the field.

    Arguments:
        x: the ends of the rectangle along x, m
        y: the ends of the rectangle along y, m
        heights: (nx, ny), m; or the shape (nx, ny) alone, if heights are inputs, which differ
            between environments
        friction: sliding, torsional (m) and rolling (m) coefficients
        name: the name in the names of contacts

    Examples:
        >>> ramp = fl.HeightField((0.0, 2.0), (-1.0, 1.0), [[0.0, 0.0], [0.5, 0.5]])
        >>> ramp.shape
        (2, 2)
    """

    x: tuple[float, float]
    y: tuple[float, float]
    heights: Any
    friction: Floats = FRICTION
    name: str = "height field"

    def __post_init__(self) -> None:
        array = real_array(self.heights)
        if array is None or not np.isfinite(array).all():
            raise ValueError(f"{self.name!r}: heights is {shown(self.heights)}; wanted an array "
                             "(nx, ny) of finite metres, or its shape")  # fmt: skip
        are_inputs = array.shape == (2,)
        if are_inputs and (array % 1).any():
            raise ValueError(f"{self.name!r}: heights is {shown(self.heights)}, which would be "
                             "the shape of an array; wanted whole numbers (nx, ny)")  # fmt: skip
        shape = tuple(map(int, array)) if are_inputs else array.shape
        if len(shape) != 2 or min(shape) < 2 or shape[0] * shape[1] > LARGEST_GRID:
            raise ValueError(
                f"{self.name!r}: heights has shape {shape}; wanted (nx, ny), 2 or more along each, "
                f"and {LARGEST_GRID} in all: a coarser grid, or the part that the robot reaches"
            )
        for axis in ("x", "y"):
            interval = getattr(self, axis)
            ends = real_array(interval)
            if ends is None or ends.shape != (2,) or not -np.inf < ends[0] < ends[1] < np.inf:
                raise ValueError(
                    f"{self.name!r}: {axis} is {shown(interval)}; wanted (lower, upper) in m"
                )
            object.__setattr__(self, axis, floats(ends))
        heights = shape if are_inputs else tuple(map(floats, array))
        object.__setattr__(self, "heights", heights)
        object.__setattr__(self, "friction", checked_friction(self.friction, self.name))

    @cached_property
    def _hash(self) -> int:
        """The hash of the numbers alone, which is the same in every process: it is pickled, too."""
        return hash((self.x, self.y, self.heights))

    def __hash__(self) -> int:
        return self._hash

    @property
    def shape(self) -> tuple[int, int]:
        """The number of heights along x and along y."""
        if self.are_inputs:
            return self.heights  # type: ignore[no-any-return]
        return len(self.heights), len(self.heights[0])

    @property
    def are_inputs(self) -> bool:
        """Whether the heights come with each state, instead of being constants."""
        return isinstance(self.heights[0], int)

    @property
    def kind(self) -> str:
        """The name of the kind, beside those of shapes."""
        return "height field"

    @property
    def title(self) -> str:
        """The height field in messages."""
        return f"height field {self.name!r}"

    @property
    def as_plane(self) -> CollisionShape:
        """A plane with the same numbers for contacts."""
        return CollisionShape(self.name, "plane", link="world", friction=self.friction)


Surface = CollisionShape | HeightField
"""What the robot stands on besides the plane."""


@dataclass(frozen=True)
class Ground:
    """The surfaces that shapes of a robot touch, and pairs of its shapes that touch.

    Raises ValueError or TypeError that names the field. docs/ground.md has the rules.

    Arguments:
        height: m. Without surfaces, the ground is the plane through (0, 0, height)
        shapes: names of the shapes that touch the ground; None: all on moving bodies whose groups
            match
        normal: (3,), of any length. The outside of the plane
        friction: the sliding coefficient, or sliding, torsional (m) and rolling (m), of every
            contact with the ground; None: MuJoCo's rule, the larger of both coefficients, those of
            the higher priority
        surfaces: `HeightField`s and `CollisionShape`s on the world, which are planes, boxes,
            spheres or capsules; "file" takes those of the robot's file
        pairs: names of two shapes, spheres or capsules on moving bodies, that touch one another;
            "file" takes those of the robot's file, its contact pairs and all spheres and capsules
            whose groups match, but for exclusions, parents and children

    Examples:
        >>> fl.Ground(friction=0.8).friction
        (0.8, 0.005, 0.0001)
        >>> fl.Ground(pairs=[("left_foot", "right_foot")]).pairs
        (('left_foot', 'right_foot'),)
    """

    height: float = 0.0
    shapes: tuple[str, ...] | None = None
    normal: Floats = (0.0, 0.0, 1.0)
    friction: Any = None
    surfaces: tuple[Surface, ...] | Literal["file"] = ()
    pairs: tuple[tuple[str, str], ...] | Literal["file"] = ()

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            object.__setattr__(self, name, check(getattr(self, name)))
        if self.surfaces and (self.height or self.normal != (0.0, 0.0, 1.0)):
            raise ValueError(
                "height and normal are those of a ground without surfaces: wanted one or the other"
            )

    @property
    def planes(self) -> tuple[Surface, ...] | Literal["file"]:
        """The surfaces, or the plane of a ground without any."""
        return self.surfaces or (plane("ground", (0.0, 0.0, self.height), self.normal),)

    @property
    def height_field(self) -> HeightField | None:
        """The height field whose heights are inputs, if there is one."""
        fields = (x for x in self.surfaces if isinstance(x, HeightField) and x.are_inputs)
        return next(fields, None)


def plane(name: str, point: Any, normal: Any, **numbers: Any) -> CollisionShape:
    """Returns a plane through a point, m, solid below its normal. numbers: of contacts, fields of
    `CollisionShape`.
    """
    z = np.asarray(normal, float) / np.linalg.norm(normal)
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x /= np.linalg.norm(x)
    R = np.eye(3) if z[2] == 1 else np.column_stack([x, np.cross(z, x), z])
    return CollisionShape(name, "plane", placement=Placement.of(R, point), link="world", **numbers)


# Checks of fields


def _entries(of: str, value: Any, wanted: str) -> tuple[Any, ...]:
    """Returns the entries of a tuple, list or iterator. Raises TypeError that names the field."""
    try:
        if not isinstance(value, str):
            return tuple(value)
    except TypeError:
        pass
    raise TypeError(f"{of} is {shown(value)}: wanted {wanted}")


def _friction(value: Any) -> Floats | None:
    return None if value is None else checked_friction(value, "ground")


def _height(value: Any) -> float:
    number = real_array(value)
    if isinstance(value, bool) or number is None or number.ndim or not isfinite(number):
        raise ValueError(f"height is {shown(value)}: wanted finite metres")
    return float(number)


def _normal(value: Any) -> Floats:
    numbers = real_array(value)
    length = 0.0 if numbers is None else float(np.linalg.norm(numbers))
    if np.size(numbers) != 3 or not 0 < length < np.inf:
        raise ValueError(f"normal is {shown(value)}: wanted three finite numbers, not all 0")
    return floats(np.ravel(numbers) / length)


def _names(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    wanted = "names of shapes, as in ('foot',)"
    names = _entries("shapes", value, wanted)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"shapes is {shown(value)}: wanted {wanted}")
    _check_once("shapes", names)
    return names


def _surfaces(value: Any) -> tuple[Surface, ...] | Literal["file"]:
    if isinstance(value, str) and value == IN_FILE:
        return IN_FILE
    if isinstance(value, CollisionShape | HeightField):
        value = (value,)
    wanted = "'file', or a tuple of fl.HeightField and fl.CollisionShape"
    surfaces: tuple[Surface, ...] = _entries("surfaces", value, wanted)
    for surface in surfaces:
        if not isinstance(surface, CollisionShape | HeightField):
            raise TypeError(f"surfaces has {shown(surface)}: wanted {wanted}")
        if isinstance(surface, CollisionShape) and surface.body != WORLD:
            raise ValueError(f"surfaces has {surface.title}, on body {surface.body}: wanted the "
                             f"world, body={WORLD}")  # fmt: skip
    if sum(isinstance(x, HeightField) and x.are_inputs for x in surfaces) > 1:
        raise ValueError("surfaces has two height fields whose heights are inputs: wanted one")
    _check_once("surfaces, by name,", [surface.name for surface in surfaces])
    return surfaces


def _check_once(of: str, names: Sequence[Any]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{of} has {shown(name)} {names.count(name)} times: wanted once each")


def _pairs(value: Any) -> tuple[tuple[str, str], ...] | Literal["file"]:
    if isinstance(value, str) and value == IN_FILE:
        return IN_FILE
    wanted = "'file', or pairs of names, as in [('left_foot', 'right_foot')]"
    entries = _entries("pairs", value, wanted)
    for pair in entries:
        names = pair if isinstance(pair, tuple | list) else ()
        if len(names) != 2 or not all(isinstance(name, str) for name in names):
            raise TypeError(f"pairs has {shown(pair)}: wanted {wanted}")
    pairs = tuple((first, second) for first, second in entries)
    _check_once("pairs, in either order,", [tuple(sorted(pair)) for pair in pairs])
    return pairs


_CHECKS: dict[str, Any] = {
    "height": _height,
    "normal": _normal,
    "friction": _friction,
    "shapes": _names,
    "surfaces": _surfaces,
    "pairs": _pairs,
}
