"""Collision shapes: spheres, capsules, cylinders, boxes, ellipsoids, planes and convex hulls on the
bodies of a robot, with friction, margins and groups as MuJoCo has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Literal, NamedTuple

from featherlane.errors import one_of
from featherlane.robot.parts import IDENTITY, WORLD, Floats, Frame, Placement

ShapeKind = Literal["plane", "sphere", "capsule", "ellipsoid", "cylinder", "box", "hull"]
SIZES: dict[str, tuple[str, ...]] = {  # the entries of `size`, m, as in MuJoCo
    "plane": (),
    "sphere": ("radius",),
    "capsule": ("radius", "half length"),
    "ellipsoid": ("half x", "half y", "half z"),
    "cylinder": ("radius", "half length"),
    "box": ("half x", "half y", "half z"),
    "hull": (),
}


class MeshFile(NamedTuple):
    """The mesh of a hull that has not been read: its name in the robot's file, and its scale."""

    name: str
    scale: Floats = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class CollisionShape:
    """A shape that touches the ground and other shapes, in the frame of a body; lengths in m.

    size: ("radius",) of a sphere, radius and half length along z of a capsule (without its caps) or
    a cylinder, three half lengths of a box or an ellipsoid; nothing of a plane, whose outside is
    +z, and of a hull, which has `points` instead. The numbers for contacts are MuJoCo's, with its
    defaults where a file has none. Raises ValueError that names the shape.

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
    friction: Floats = (1.0, 0.005, 0.0001)  # sliding; torsional, m; rolling, m
    margin: float = 0.0  # m: soft contacts exert forces where shapes are nearer than this
    gap: float = 0.0  # m: kept with the shape; as in MuJoCo 4, it has no effect on forces
    contype: int = 1
    conaffinity: int = 1
    condim: int = 3  # 1: without friction; 3: sliding; 4: torsional; 6: rolling
    priority: int = 0
    solref: Floats = (0.02, 1.0)
    solimp: Floats = (0.9, 0.95, 0.001, 0.5, 2.0)
    solmix: float = 1.0
    robot_file: str = field(default="", compare=False)  # from which names of meshes are looked up

    def __post_init__(self) -> None:
        if self.kind not in SIZES:
            raise ValueError(f"{self.title}: kind is {self.kind!r}; {one_of(self.kind, SIZES)}")
        wanted = SIZES[self.kind]
        numbers = all(isfinite(x) and x >= 0 for x in self.size)
        if len(self.size) != len(wanted) or not numbers:
            lengths = f"({', '.join(wanted)}), m, finite and 0 or more" if wanted else "()"
            raise ValueError(f"{self.title}: size is {self.size}; wanted {lengths}")
        if len(self.friction) != 3 or not all(isfinite(x) and x >= 0 for x in self.friction):
            raise ValueError(
                f"{self.title}: friction is {self.friction}; wanted the sliding, torsional and "
                "rolling coefficients, 0 or more; (0, 0, 0) or condim=1 is no friction"
            )

    @property
    def title(self) -> str:
        """The shape in messages: "sphere 'foot'"."""
        return f"{self.kind} {self.name!r}"

    def on(self, body: int, place: Placement) -> CollisionShape:
        """Returns the shape on a body on which the frame of its old body is placed."""
        if place == IDENTITY:
            return self if body == self.body else replace(self, body=body)
        return replace(self, body=body, placement=place * self.placement)


class CollisionPair(NamedTuple):
    """Two shapes that touch, by name, whatever their groups are, with the numbers of their contact
    (MJCF's <pair>). friction: two sliding, one torsional, two rolling coefficients.

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
    solref: Floats = (0.02, 1.0)
    solreffriction: Floats = (0.0, 0.0)  # zeros: as solref
    solimp: Floats = (0.9, 0.95, 0.001, 0.5, 2.0)


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
