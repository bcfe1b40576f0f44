"""Collision shapes of a URDF file: <collision>, with the friction of Gazebo's elements.

A shape that cannot be read is left out, with a note: dynamics do not need it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from featherlane.errors import ModelError
from featherlane.robot.collision_shapes import CollisionShape, MeshFile
from featherlane.robot.loaders.urdf_placements import origin_of
from featherlane.robot.loaders.words import unused
from featherlane.robot.loaders.xml import Element
from featherlane.robot.parts import Floats

FRICTION = CollisionShape.friction  # with the torsional and rolling coefficients of MuJoCo


def collision_shapes(
    robot: Element, unread: list[str], ambiguous: list[str]
) -> Iterator[CollisionShape]:
    """Yields the shapes of a file, placed on their links. unread: takes what could not be read;
    ambiguous: the names of links whose two coefficients of friction differ.
    """
    sliding, taken = _sliding(robot, ambiguous), set[str | None]()
    for link in robot.children():
        if link.tag != "link" or not (name := link.node.get("name")):
            continue
        elements = [e for e in link.children() if e.tag == "collision"]
        for k, element in enumerate(elements):
            in_file = element.node.get("name")
            title = unused(in_file or (f"{name}/{k}" if len(elements) > 1 else name), taken)
            friction = (sliding.get(name, FRICTION[0]), *FRICTION[1:])
            try:
                yield _shape(element, title, name, friction)
            except ModelError as error:
                unread.append(str(error))
            except ValueError as error:  # of the shape itself
                unread.append(f"{element.where}: {error}")


def _shape(element: Element, name: str, link: str, friction: Floats) -> CollisionShape:
    geometry = element.required("geometry")
    shape = next(geometry.children(), None)
    if shape is None:
        raise geometry.error("there is no shape in it")
    kind, lengths, mesh = _dimensions(shape)
    source = element.source.removesuffix(" (expanded)")  # of xacro
    return CollisionShape(
        name,
        kind,
        lengths,
        placement=origin_of(element),
        link=link,
        mesh=mesh,
        friction=friction,
        robot_file=os.path.abspath(source) if mesh else "",
    )


def _dimensions(shape: Element) -> tuple[Any, Floats, MeshFile | None]:
    """Returns the kind of a shape, its size, with halves of URDF's lengths, and its mesh."""
    if shape.tag == "box":
        return "box", tuple(x / 2 for x in shape.numbers("size")), None
    if shape.tag == "sphere":
        return "sphere", (shape.number("radius"),), None
    if shape.tag in ("cylinder", "capsule"):
        return shape.tag, (shape.number("radius"), shape.number("length") / 2), None
    if shape.tag == "mesh":
        scale = shape.numbers("scale", "1 1 1")
        return "hull", (), MeshFile(shape.text("filename"), scale)
    raise shape.error("this is no shape of URDF; wanted a box, sphere, cylinder, capsule or mesh")


def _sliding(robot: Element, ambiguous: list[str]) -> dict[str, float]:
    """Returns the sliding friction that Gazebo's elements give links: mu1 and mu2, if equal."""
    values: dict[str, set[float]] = {}
    for element in robot.children():
        link = element.node.get("reference")
        if element.tag != "gazebo" or not link:
            continue
        for mu in element.node.iterchildren("mu1", "mu2"):
            try:
                values.setdefault(link, set()).add(float(mu.get("value") or mu.text or ""))
            except ValueError:
                values.setdefault(link, set()).update((float("nan"),))
    ambiguous += [link for link, pair in values.items() if len(pair) > 1]
    return {link: next(iter(pair)) for link, pair in values.items() if len(pair) == 1}
