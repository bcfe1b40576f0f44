"""How the algorithms walk a tree of bodies, and who may follow them.

On floats the loops are plain iterators. A tracer learns from them which joint and direction is
being computed, and which function is repeated over columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from featherlane.robot.tree import Tree
from featherlane.scalar import Stage, on_stage


def _staged(joints: Any, algorithm: str, direction: str) -> Iterator[int]:
    enter = on_stage.get()
    if enter is None:
        yield from joints
        return
    for i in joints:
        enter(Stage(algorithm, direction, i))
        yield i
    enter(None)


def outward(model: Tree, algorithm: str = "") -> Iterator[int]:
    """The bodies from the root to the tips."""
    return _staged(range(model.nbodies), algorithm, "f")


def inward(model: Tree, algorithm: str = "") -> Iterator[int]:
    """The bodies from the tips to the root."""
    return _staged(range(model.nbodies - 1, -1, -1), algorithm, "b")
