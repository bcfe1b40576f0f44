"""The joints and links of a robot as labels of a circuit: of its inputs, results and modules."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from featherlane.backends.fpga.labels import Entry, Labels, PartLabel, PlaceLabel, shown, word
from featherlane.program.graph import Graph
from featherlane.program.passes.guards import LOST
from featherlane.robot.model import Robot
from featherlane.robot.tree_of import tree_of
from featherlane.scalar import Tag

WRENCH = "fx", "fy", "fz", "mx", "my", "mz"
PASSES = {  # by the first letter of a tag
    "A": "articulated bodies",
    "C": "sums over subtrees",
    "D": "derivatives",
    "E": "wrenches",
    "L": "the factor of M",
    "M": "M or its inverse",
    "P": "the product with M^-1",
    "R": "recursive Newton-Euler",
    "W": "the inverse of the factor of M",
}
QUANTITIES = {  # by pass and direction
    "Ab": "articulated inertia and bias force",
    "Af": "velocity, bias force and acceleration of the link",
    "Db": "inertia of all that the joint carries, and derivatives of torques",
    "Df": "velocity of the link, and derivatives of its motion and force",
    "Ef": "wrenches on the link",
    "Lb": "the factor of M, and forces through it",
    "Lf": "accelerations through the factor of M",
    "Mb": "inertia of all that the joint carries, and entries of M or its inverse",
    "Mf": "entries of M^-1 that need those of the parent; places of links",
    "Pc": "columns of derivatives times M^-1",
    "Rb": "torque of the joint, and the force that goes on to the parent",
    "Rf": "velocity, acceleration and force of the link",
    "Wf": "entries of the inverse of the factor of M",
}
DIRECTIONS = {"f": "outward", "b": "inward", "c": "columns"}


def labels_of(model: Robot, graph: Graph, frames: Sequence[str] = ()) -> Labels:
    """Returns the labels of a graph of functions of a robot. frames: those with wrenches, none for
    all bodies.
    """
    shapes = {**graph.inputs, **{name: out.shape for name, out in graph.outputs.items()}}
    entries = dict[Entry, str]()
    for name, shape in shapes.items():
        entries |= _entries(model, name, shape, frames or model.body_names)
    words = {
        (name, n): word(_owner(model, name, n))
        for name, shape in graph.inputs.items()
        if shape == _vector(model, name)
        for n in range(shape[0])
    }
    tags = {str(tag): tag for k, tag in enumerate(graph.tag) if graph.args[k] and tag is not None}
    joints = {text: joint for text, tag in tags.items() if (joint := _joint(model, tag)) >= 0}
    parts = {text: _part(model, tags[text], joint) for text, joint in joints.items()}
    return Labels(entries, words, parts)


def _vector(model: Robot, name: str) -> tuple[int, ...]:
    """The shape of a vector with an entry for each coordinate, or degree of freedom."""
    return (model.nq if name == "q" else model.nv,)


def _owner(model: Robot, name: str, n: int) -> str:
    """The joint that entry n of q, or of a vector as long as v, belongs to."""
    return model.joint_names[_place(model, name, n)[0]]


def _place(model: Robot, name: str, n: int) -> tuple[int, int, int]:
    """The joint of an entry, its number among the entries of this joint, and how many there are."""
    for i in model.independent:
        first, size = (
            (model.first_q[i], model.types[i].nq)
            if name == "q"
            else (model.dofs[i].start, model.types[i].nv)
        )
        if first <= n < first + size:
            return i, n - first, size
    raise AssertionError(f"{model.name} has no entry {n} of {name}")


def _coordinate(model: Robot, name: str, n: int) -> str:
    """The joint of an entry, and which of its entries that is, if it has several."""
    joint, entry, size = _place(model, name, n)
    of = f" ({entry + 1} of {size})" if size > 1 else ""
    return f"{shown(model.joint_names[joint])}{of}"


def _entries(
    model: Robot, name: str, shape: tuple[int, ...], places: Sequence[str]
) -> Iterator[tuple[Entry, str]]:
    """Yields the label of each entry of an input or result. places: of wrenches."""
    if shape == () and name == LOST:
        yield (name, 0), "if it is not 0, the other results are meaningless"
    elif name == "f_ext":
        for n, (place, part) in enumerate(product(places, WRENCH)):
            yield (name, n), f"{part} of f_ext at link or frame {shown(place)}"
    elif shape == _vector(model, name):
        for n in range(shape[0]):
            yield (name, n), f"{name} of joint {_coordinate(model, name, n)}"
    elif shape == (model.nv, model.nv):
        named = [_coordinate(model, name, n) for n in range(model.nv)]
        for n, (row, column) in enumerate(product(named, named)):
            yield (name, n), f"{name} of joints {row}, {column}"
    else:
        for n in range(prod(shape)):
            yield (name, n), f"{name}[{n}]"


def _joint(model: Robot, tag: object) -> int:
    """The joint of a tag, -1 for none. Tags count the bodies of the tree, of which a universal
    joint has two; the factor solves for all joints at once at the first one.
    """
    if not isinstance(tag, Tag) or tag.algorithm not in PASSES:
        return -1
    carriers = tree_of(model).carriers
    for_all = tag[:3] == ("L", "f", 0)
    return -1 if for_all or not 0 <= tag.joint <= carriers[-1] else bisect_left(carriers, tag.joint)


def _part(model: Robot, tag: Tag, joint: int) -> PartLabel:
    """The label of the operations of a tag, at a joint."""
    title = f"{PASSES[tag.algorithm]}, {DIRECTIONS[tag.direction]}"
    name = model.joint_names[joint]
    short, link = f"joint {shown(name)}", f"link {shown(model.body_names[joint])}"
    places = (PlaceLabel(f"{short}, {link}", short, word(name)),)
    return PartLabel(title, places, QUANTITIES.get(tag.algorithm + tag.direction, ""))
