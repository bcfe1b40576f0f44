"""Collision shapes: spheres, capsules, cylinders, boxes, ellipsoids, planes and convex hulls on the
bodies of a robot, with friction, margins and groups as MuJoCo has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Literal, NamedTuple

from featherlane.errors import one_of, shown
from featherlane.robot.contact_numbers import (
    FRICTION,
    checked_friction,
    checked_points,
    checked_solimp,
    checked_solref,
    finite_numbers,
    is_number,
    is_whole,
)
from featherlane.robot.parts import IDENTITY, WORLD, Floats, Frame, Placement
from featherlane.robot.row_softness import SOLIMP, SOLREF

ShapeKind = Literal["plane", "sphere", "capsule", "ellipsoid", "cylinder", "box", "hull"]
"""The kind of a shape."""
SIZES: dict[str, tuple[str, ...]] = {  # the entries of `size`, m, as in MuJoCo
    "plane": (),
    "sphere": ("radius",),
    "capsule": ("radius", "half length"),
    "ellipsoid": ("half x", "half y", "half z"),
    "cylinder": ("radius", "half length"),
    "box": ("half x", "half y", "half z"),
    "hull": (),
}
CONDIMS = (1, 3, 4, 6)


class MeshFile(NamedTuple):
    """The mesh of a hull that has not been read: its name in the robot's file, and its scale."""

    name: str
    scale: Floats = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class CollisionShape:
    """A shape that touches the ground and other shapes, in the frame of a body; lengths in m.

    The numbers for contacts are MuJoCo's, with its defaults where a file has none. Raises
    ValueError or TypeError that names the shape.

    Arguments:
        name: the name of the shape
        kind: "sphere", "capsule", "cylinder", "box", "ellipsoid", "plane" or "hull"
        size: m: the radius of a sphere; radius and half length along z of a capsule (without its
            caps) or a cylinder; three half lengths of a box or an ellipsoid; nothing of a plane,
            whose outside is +z, and of a hull
        body: the number of the body that carries it; -1 is the world
        placement: the pose of the shape in the frame of the body
        link: the name of the link in the robot's file
        points: (3,) each, m. The vertices of a hull
        mesh: the file of a hull that was not read; None: there is none
        friction: sliding, torsional (m) and rolling (m) coefficients
        margin: distance below which there is a contact, m
        gap: part of the margin without a force, m
        contype: bits of the groups to which the shape belongs
        conaffinity: bits of the groups that it touches
        condim: the number of rows of a contact: 1 (no friction), 3, 4 or 6
        priority: the shape of the higher priority determines friction and softness
        solref: MuJoCo's softness: time constant, s, and damping ratio; or, both negative, stiffness
            and damping
        solimp: MuJoCo's impedance: dmin, dmax, width (m), midpoint and power
        solmix: weight of this shape's softness in the mean of both
        robot_file: the file that the shape is from

    Examples:
        >>> foot = fl.CollisionShape("foot", "sphere", (0.02,), body=1)
        >>> foot.kind, foot.size, foot.friction
        ('sphere', (0.02,), (1.0, 0.005, 0.0001))
    """

    name: str
    kind: ShapeKind
    size: Floats = ()
    body: int = WORLD
    placement: Placement = IDENTITY  # of the shape's frame on its body
    link: str = ""  # the frame of the robot on which its file has the shape
    points: tuple[Floats, ...] = ()  # of a hull: extreme points, in the frame of the shape
    mesh: MeshFile | None = None  # of a hull without points, which are read where they are needed
    friction: Floats = FRICTION  # sliding; torsional, m; rolling, m; or the sliding one alone
    margin: float = 0.0  # m: soft contacts exert forces where shapes are nearer than this
    gap: float = 0.0  # m: kept with the shape; as in MuJoCo 4, it has no effect on forces
    contype: int = 1
    conaffinity: int = 1
    condim: int = 3  # 1: without friction; 3: sliding; 4: torsional; 6: rolling
    priority: int = 0
    solref: Floats = SOLREF
    solimp: Floats = SOLIMP
    solmix: float = 1.0
    robot_file: str = field(default="", compare=False)  # from which names of meshes are looked up

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in SIZES:
            raise ValueError(f"{self.title}: kind is {self.kind!r}; {one_of(self.kind, SIZES)}")
        wanted, size = SIZES[self.kind], finite_numbers(self.size)
        if size is None or len(size) != len(wanted) or any(x < 0 for x in size):
            lengths = f"({', '.join(wanted)}), m, finite and 0 or more" if wanted else "()"
            raise ValueError(f"{self.title}: size is {shown(self.size)}; wanted {lengths}")
        object.__setattr__(self, "size", size)
        for name, (accepts, text, convert) in _FIELDS.items():
            x = getattr(self, name)
            if not accepts(x):
                error = ValueError if is_number(x) and not is_whole(x) else TypeError
                raise error(f"{self.title}: {name} is {shown(x)}; wanted {text}")
            object.__setattr__(self, name, convert(x))
        if self.condim not in CONDIMS:
            raise ValueError(
                f"{self.title}: condim is {self.condim}; {one_of(self.condim, CONDIMS)}"
            )
        for name, check in _CHECKS.items():
            object.__setattr__(self, name, check(getattr(self, name), self.title))

    @property
    def title(self) -> str:
        """The shape in messages: "sphere 'foot'"."""
        return f"{self.kind} {self.name!r}"

    def on(self, body: int, place: Placement) -> CollisionShape:
        """Returns the shape on a body on which the frame of its old body is placed."""
        if place == IDENTITY:
            return self if body == self.body else replace(self, body=body)
        return replace(self, body=body, placement=place * self.placement)


def _is_finite(x: Any) -> bool:
    return is_number(x) and isfinite(x)


_FIELDS: dict[str, tuple[Any, str, Any]] = {  # the test of a value, its text, the type kept
    "name": (lambda x: isinstance(x, str), "a string", str),
    "placement": (
        lambda x: isinstance(x, Placement),
        "fl.Placement.of(rotation matrix, origin in m)",
        lambda x: x,
    ),
    **dict.fromkeys(("margin", "gap", "solmix"), (_is_finite, "a finite number", float)),
    **dict.fromkeys(
        ("body", "contype", "conaffinity", "condim", "priority"), (is_whole, "a whole number", int)
    ),
}
_CHECKS: dict[str, Any] = {
    "points": checked_points,
    "friction": checked_friction,
    "solref": checked_solref,
    "solimp": checked_solimp,
}


class CollisionPair(NamedTuple):
    """Two shapes that touch, by name, whatever their groups are, with the numbers of their contact
    (MJCF's `<pair>`).

    Arguments:
        first: the name of a shape
        second: the name of the other shape
        condim: the number of rows of a contact: 1 (no friction), 3, 4 or 6
        friction: two sliding, one torsional (m) and two rolling (m) coefficients
        margin: distance below which there is a contact, m
        gap: part of the margin without a force, m
        solref: MuJoCo's softness: time constant, s, and damping ratio; or, both negative, stiffness
            and damping
        solreffriction: the same of the rows of friction; zeros take `solref`
        solimp: MuJoCo's impedance: dmin, dmax, width (m), midpoint and power

    Examples:
        >>> fl.CollisionPair("left_foot", "right_foot", condim=1).margin
        0.0
    """

    first: str
    second: str
    condim: int = 3
    friction: Floats = (1.0, 1.0, 0.005, 0.0001, 0.0001)
    margin: float = 0.0
    gap: float = 0.0  # m: kept with the pair; as in MuJoCo 4, it has no effect on forces
    solref: Floats = SOLREF
    solreffriction: Floats = (0.0, 0.0)  # zeros, or a pyramidal cone: as solref
    solimp: Floats = SOLIMP


Exclusion = tuple[str, str]  # two links whose shapes do not touch one another


def placed_on(
    frames: Iterable[Frame], shapes: Iterable[CollisionShape]
) -> tuple[CollisionShape, ...]:
    """Returns shapes on bodies, from shapes that are placed on the links of their names."""
    links = {frame.name: frame for frame in frames}
    return tuple(shape.on(*links[shape.link][1:]) for shape in shapes)


def with_links(
    shapes: Sequence[CollisionShape], frames: Mapping[str, str]
) -> tuple[CollisionShape, ...]:
    """Returns shapes with the new names of their links."""
    return tuple(
        shape if frames.get(shape.link, shape.link) == shape.link
        else replace(shape, link=frames[shape.link])
        for shape in shapes
    )  # fmt: skip
