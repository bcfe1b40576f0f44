"""A robot as a stick figure: points that its configuration places, and the lines between them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from featherlane.algorithms.frames import frame_placement
from featherlane.program.graph import Graph
from featherlane.program.rewrite import simplify
from featherlane.program.trace import trace
from featherlane.robot.model import Robot
from featherlane.robot.parts import IDENTITY, Frame, Placement
from featherlane.robot.tree_of import tree_of

SHORT = 1e-3  # m: a frame nearer to its body's origin gives no line


class Figure(NamedTuple):
    """graph: q (nq,) -> points (n, 3) in the world's axes, m, and rotations (nbodies, 3, 3) of the
    bodies, whose origins are the first points; lines: pairs of points by number, where -1 stands
    for the world's origin.
    """

    graph: Graph
    lines: list[tuple[int, int]]


def figure(model: Robot) -> Figure:
    """The origins of all bodies, each with a line from its parent's; behind them, for each body
    that carries no other, the point of its frames and collision shapes that is farthest out.
    """
    places = [Frame("", n) for n in range(model.nbodies)]
    lines = [(parent, n) for n, parent in enumerate(model.parent)]
    for n in range(model.nbodies):
        if n not in model.parent and (end := _farthest(model, n)):
            lines.append((n, len(places)))
            places.append(end)

    def run(q: Any) -> dict[str, Any]:
        tree = tree_of(model)
        placed = [frame_placement(tree, q, tree.point(place)) for place in places]
        bodies = placed[: model.nbodies]
        return {
            "points": [[row[3] for row in T[:3]] for T in placed],
            "rotations": [[row[:3] for row in T[:3]] for T in bodies],
        }

    return Figure(simplify(trace(run, {"q": (model.nq,)})), lines)


def _farthest(model: Robot, body: int) -> Frame | None:
    """The frame or shape of a body that is farthest from its origin, or its centre of mass."""
    places = [frame.placement for frame in model.frames if frame.body == body]
    places += [shape.placement for shape in model.collision_shapes if shape.body == body]
    places.append(Placement(IDENTITY.R, model.bodies[body].com))
    farthest = max(places, key=lambda place: np.linalg.norm(place.p))
    return Frame("", body, farthest) if np.linalg.norm(farthest.p) > SHORT else None
