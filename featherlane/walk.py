"""How the algorithms walk a tree of bodies, and who may follow them.

On floats the loops are plain iterators. A tracer learns from them which joint and direction is
being computed, and which function is repeated over columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from featherlane.tree import Tree


class Stage(NamedTuple):
    """A submodule of Dadu-RBD: one pass ("R", "D", "M" ...), forward or backward, at one joint
    (counted from 0).
    """

    algorithm: str
    direction: str
    joint: int

    def __str__(self) -> str:
        return f"{self.algorithm}{self.direction}{self.joint + 1}"


on_stage: ContextVar[Any] = ContextVar("on_stage", default=None)
"""What a tracer wants called with each Stage that a loop enters, and with None when it ends."""


on_repeat: ContextVar[Any] = ContextVar("on_repeat", default=None)
"""What a tracer wants called instead of the loop of `repeat`."""


def repeat(function: Any, shared: Any, columns: Any) -> list:
    """function(shared, column) for each column: lists of scalars to a list of scalars.

    All columns have one length, and the function uses nothing but its arguments: a compiler may
    keep it once.
    """
    instead = on_repeat.get()
    return instead(function, shared, columns) if instead else [function(shared, c) for c in columns]


on_hand_over: ContextVar[Any] = ContextVar("on_hand_over", default=None)
"""What a tracer wants called with the scalars of `hand_over`."""


def hand_over(scalars: Any) -> None:
    """Tells that these few scalars, and the inputs, are all that columns which are repeated later
    need of what came before: a compiler may compute the rest twice instead of keeping it.
    """
    if listen := on_hand_over.get():
        listen(scalars)


on_call: ContextVar[Any] = ContextVar("on_call", default=None)
"""What a recorder wants called instead of the function of `call`."""


def call(function: Any, *arguments: Any) -> Any:
    """function(*arguments): a step that many links have in common.

    The function is one of a module, uses nothing but its arguments, and neither looks at the
    values of scalars nor changes what it is given: a recorder may keep it once and note what it is
    applied to. Arguments and result are nested tuples, lists, dicts and objects of scalars; whole
    numbers, texts and objects without scalars are part of which step it is.
    """
    instead = on_call.get()
    return instead(function, *arguments) if instead else function(*arguments)


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
