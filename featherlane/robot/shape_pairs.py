"""Which shapes of a robot touch which surfaces and one another, and the numbers of each contact.

The numbers of two shapes are combined as in MuJoCo 4: those of the shape of higher priority; of
equal priorities the larger condim and friction, solref and solimp weighted by solmix (the smaller
solref where one is negative). Margins are added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from featherlane.errors import nearest
from featherlane.robot.collision_shapes import CollisionPair, CollisionShape
from featherlane.robot.geometry import left_out
from featherlane.robot.ground import IN_FILE, Ground, HeightField, Surface
from featherlane.robot.loaders.meshes import with_points
from featherlane.robot.loaders.words import listed
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD, Floats, floats

ROUND = ("sphere", "capsule")
SHAPES = ("sphere", "capsule", "ellipsoid", "cylinder", "box", "hull")
TOUCHING = {  # kinds of shapes that touch a surface, or another shape, of this kind
    "plane": SHAPES,
    "height field": SHAPES,
    "box": ROUND,
    "sphere": ROUND,
    "capsule": ROUND,
}
ORDER = ("plane", "height field", *SHAPES)  # of mjtGeom: the first geom of a contact comes first
LEAST = 1e-15  # mjMINVAL


class ContactNumbers(NamedTuple):
    """The numbers of a contact. friction: two sliding, one torsional, two rolling coefficients;
    margin: m, of the gap from which on there are forces.
    """

    condim: int
    friction: Floats
    margin: float
    solref: Floats
    solreffriction: Floats
    solimp: Floats

    @property
    def three(self) -> Floats:
        """The sliding, torsional and rolling coefficients that the contact's condim keeps."""
        kept = self.condim >= 3, self.condim >= 4, self.condim >= 6
        return tuple(self.friction[k] if x else 0.0 for k, x in zip((0, 2, 3), kept, strict=True))


class ContactNames(NamedTuple):
    """The names of a shape at a contact point, its link and its body; and of the surface or shape
    that it touches, which has no link and no body, "", if it is not on the robot.
    """

    shape: str
    link: str
    body: str
    other: str
    other_link: str = ""
    other_body: str = ""


class ShapePair(NamedTuple):
    """A shape on a moving body, and the surface or shape that it touches."""

    shape: CollisionShape
    other: Surface
    numbers: ContactNumbers

    @property
    def names(self) -> tuple[str, str]:
        """The names of both."""
        return self.shape.name, self.other.name

    def named_on(self, robot: Robot) -> ContactNames:
        """Returns the names of both, and of their links and bodies."""
        names: list[str] = []
        for x in (self.shape, self.other):
            if isinstance(x, CollisionShape) and x.body != WORLD:
                names += [x.name, x.link, robot.body_names[x.body]]
            else:
                names += [x.name, "", ""]
        return ContactNames(*names)


def combined(a: CollisionShape, b: CollisionShape) -> ContactNumbers:
    """Returns the numbers of a contact of two shapes."""
    margin = a.margin + b.margin
    if a.priority != b.priority:
        first = a if a.priority > b.priority else b
        numbers = first.condim, first.friction, first.solref, first.solimp
    else:
        share = _share(a.solmix, b.solmix)
        friction = floats(map(max, a.friction, b.friction))
        condim, solimp = max(a.condim, b.condim), _mixed(a.solimp, b.solimp, share)
        numbers = condim, friction, _solref(a, b, share), solimp
    condim, (slide, torsion, roll), solref, solimp = numbers
    friction = slide, slide, torsion, roll, roll
    return ContactNumbers(condim, friction, margin, solref, (0.0, 0.0), solimp)


def _share(a: float, b: float) -> float:
    """Returns the weight of the first of two shapes."""
    if a >= LEAST and b >= LEAST:
        return a / (a + b)
    return 0.5 if a < LEAST and b < LEAST else float(a >= LEAST)


def _mixed(a: Floats, b: Floats, share: float) -> Floats:
    return floats(share * x + (1 - share) * y for x, y in zip(a, b, strict=True))


def _solref(a: CollisionShape, b: CollisionShape, share: float) -> Floats:
    if a.solref[0] > 0 and b.solref[0] > 0:
        return _mixed(a.solref, b.solref, share)
    return floats(map(min, a.solref, b.solref))


def _of_pair(pair: CollisionPair) -> ContactNumbers:
    solver = pair.solref, pair.solreffriction, pair.solimp
    return ContactNumbers(pair.condim, pair.friction, pair.margin, *solver)


# Pairs


def shape_pairs(robot: Robot, ground: Ground) -> tuple[ShapePair, ...]:
    """Returns the shapes that touch the ground, each with each surface, then pairs of shapes of the
    robot. Raises ValueError that names a shape which is unknown, without points, or of a kind
    without a rule.
    """
    in_file = {frozenset(pair[:2]): pair for pair in robot.collision_pairs}
    pairs = [*_on_ground(robot, ground, in_file), *_of_robot(robot, ground, in_file)]
    if not pairs and ground.surfaces == IN_FILE and not _in_world(robot):
        raise ValueError(
            f"surfaces is 'file', and {robot.name!r} has no collision shape in the world: wanted a "
            "file with a geom of the world, or surfaces=(), which is a plane"
        )
    if not pairs:
        raise ValueError(
            f"{robot.name!r} has no shape that touches the ground: {_shapes_wanted(robot, ground)}"
        )
    for pair in pairs:
        _check_rule(pair)
    return tuple(pair._replace(shape=with_points(pair.shape)) for pair in pairs)


def _shapes_wanted(robot: Robot, ground: Ground) -> str:
    """Says what makes a robot touch a ground that none of its shapes touches."""
    moving = [shape.name for shape in robot.collision_shapes if shape.body != WORLD]
    if moving and ground.shapes is None:
        return f"groups or exclusions keep off {listed(moving)}; wanted their names as shapes="
    if moving:
        return f"shapes is {ground.shapes}; wanted names of {listed(moving)}, or None for all"
    missing = "".join(f"{note}; " for note in left_out(robot.notes))
    return (
        f"{missing}wanted collision shapes on moving bodies, as model.with_collision_shapes([...]) "
        "adds them"
    )


InFile = Mapping[frozenset[str], CollisionPair]


def _on_ground(robot: Robot, ground: Ground, in_file: InFile) -> Iterator[ShapePair]:
    surfaces = ground.planes
    if surfaces == IN_FILE:
        surfaces = _in_world(robot)
    moving = [s for s in robot.collision_shapes if s.body != WORLD]
    chosen = moving if ground.shapes is None else [_named(robot, n) for n in ground.shapes]
    for surface in surfaces:
        like = surface.as_plane if isinstance(surface, HeightField) else surface
        for shape in chosen:
            pair = in_file.get(frozenset((shape.name, surface.name)))
            of_file = ground.surfaces == IN_FILE and pair is not None
            if not of_file and ground.shapes is None and not _meet(robot, shape, like):
                continue
            numbers = _of_pair(pair) if of_file and pair else combined(shape, like)
            if ground.friction is not None:
                slide, torsion, roll = ground.friction
                friction = slide, slide, torsion, roll, roll
                numbers = numbers._replace(friction=friction, condim=max(numbers.condim, 3))
            yield ShapePair(shape, surface, numbers)


def _in_world(robot: Robot) -> tuple[CollisionShape, ...]:
    return tuple(s for s in robot.collision_shapes if s.body == WORLD)


def _of_robot(robot: Robot, ground: Ground, in_file: InFile) -> Iterator[ShapePair]:
    shapes = [s for s in robot.collision_shapes if s.body != WORLD]
    if ground.pairs != IN_FILE:
        for names in ground.pairs:
            a, b = (_named(robot, name) for name in names)
            pair = in_file.get(frozenset(names))
            yield _ordered(robot, a, b, _of_pair(pair) if pair else combined(a, b))
        return
    for k, b in enumerate(shapes):
        for a in shapes[:k]:
            pair = in_file.get(frozenset((a.name, b.name)))
            both_round = a.kind in ROUND and b.kind in ROUND
            if pair is not None:
                yield _ordered(robot, a, b, _of_pair(pair))
            elif both_round and _meet(robot, a, b) and not _adjacent(robot, a.body, b.body):
                yield _ordered(robot, a, b, combined(a, b))


def _ordered(
    robot: Robot, a: CollisionShape, b: CollisionShape, numbers: ContactNumbers
) -> ShapePair:
    """Returns two shapes as a pair whose normal is that of MuJoCo, from its first geom on."""
    if a.body == b.body:
        body = robot.body_names[a.body]
        raise ValueError(f"pair {a.name!r}, {b.name!r}: both are on body {body!r}; wanted two")
    place = {s.name: n for n, s in enumerate(robot.collision_shapes)}
    first, second = sorted((a, b), key=lambda s: (ORDER.index(s.kind), place[s.name]))
    return ShapePair(second, first, numbers)


def _named(robot: Robot, name: str) -> CollisionShape:
    """Returns the shape on a moving body of this name."""
    shapes = {s.name: s for s in robot.collision_shapes}
    shape = shapes.get(name)
    if shape is None:
        known = ", ".join(nearest(name, [*shapes], 5, 0.5) or [*shapes][:12]) or "none"
        missing = "".join(f"; {note}" for note in left_out(robot.notes))
        raise ValueError(f"there is no collision shape {name!r}: the model has {known}{missing}")
    if shape.body == WORLD:
        raise ValueError(f"{shape.title} is on the ground: wanted a shape on a moving body")
    return shape


def _meet(robot: Robot, a: CollisionShape, b: CollisionShape) -> bool:
    """Tells whether the groups of two shapes match, and no exclusion of the file names them."""
    excluded = {frozenset(links) for links in robot.collision_exclusions}
    groups = a.contype & b.conaffinity or b.contype & a.conaffinity
    return bool(groups) and a.body != b.body and frozenset((a.link, b.link)) not in excluded


def _adjacent(robot: Robot, a: int, b: int) -> bool:
    """Tells whether a joint, or joints in a row on bodies without mass, connect two bodies."""
    return a == _carrier(robot, b) or b == _carrier(robot, a)


def _carrier(robot: Robot, body: int) -> int:
    parent = robot.parent[body]
    while parent != WORLD and robot.bodies[parent].mass == 0:
        parent = robot.parent[parent]
    return parent if parent != WORLD else robot.nbodies


def _check_rule(pair: ShapePair) -> None:
    """Raises ValueError unless contacts of these kinds have a rule."""
    kinds = TOUCHING.get(pair.other.kind, ())
    if not kinds and isinstance(pair.other, CollisionShape) and pair.other.body == WORLD:
        raise ValueError(
            f"contact of {pair.shape.title} with {pair.other.title} has no rule: wanted surfaces "
            f"of the kinds {', '.join(TOUCHING)}; put one of them in its place by surfaces=[...]"
        )
    if pair.shape.kind not in kinds:
        wanted = " or ".join(kinds) or "planes and height fields alone"
        raise ValueError(
            f"contact of {pair.shape.title} with {pair.other.title} has no rule: the kind "
            f"{pair.other.kind} touches {wanted}; leave it out by shapes= and pairs=, or put "
            "a sphere or capsule in its place by model.with_collision_shapes([...])"
        )
