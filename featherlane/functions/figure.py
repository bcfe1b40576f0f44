"""A robot as a stick figure: points that its configuration places, and the lines between them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from featherlane.algorithms.frames import frame_placement
from featherlane.program.graph import Graph, simplify
from featherlane.program.trace import trace
from featherlane.robot.model import WORLD, Frame, Robot
from featherlane.robot.tree_of import tree_of

SHORT = 1e-3  # m: a frame nearer to its body's origin gives no line


class Figure(NamedTuple):
    """graph: q (nq,) -> points (n, 3) in the world's axes, m; lines: pairs of points by number,
    where -1 stands for the world's origin.
    """

    graph: Graph
    lines: list[tuple[int, int]]


def figure(model: Robot) -> Figure:
    """The origins of all bodies, each with a line from its parent's; behind them, for each body
    that carries no other, the point of its frames that is farthest out.
    """
    places = [Frame("", n) for n in range(model.nbodies)]
    lines = [(parent, n) for n, parent in enumerate(model.parent)]
    for n in sorted({*range(model.nbodies)} - {*model.parent}):
        end = _farthest(model, n)
        if end is not None:
            lines.append((n, len(places)))
            places.append(end)

    def run(q: Any) -> dict[str, Any]:
        tree = tree_of(model)
        placed = [frame_placement(tree, q, tree.point(place)) for place in places]
        return {"points": [[row[3] for row in T[:3]] for T in placed]}

    return Figure(simplify(trace(run, {"q": (model.nq,)})), [(a, b) for a, b in lines])


def _farthest(model: Robot, body: int) -> Frame | None:
    """The frame of a body that is farthest from its origin, or its centre of mass."""
    frames = [frame for frame in model.frames if frame.body == body != WORLD]
    placement = lambda p: Frame("", body)._replace(
        placement=Frame("", body).placement._replace(p=p)
    )
    frames.append(placement(model.bodies[body].com))
    reach = [float(np.linalg.norm(frame.placement.p)) for frame in frames]
    return frames[int(np.argmax(reach))] if max(reach) > SHORT else None
