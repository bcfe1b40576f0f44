"""How algorithms walk a tree of bodies: plain loops, which tell a tracer the joint they are at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from featherlane.scalar import Tag, tracer


class Bodies(Protocol):
    @property
    def nbodies(self) -> int: ...


def _tagged(joints: Iterable[int], algorithm: str, direction: str) -> Iterator[int]:
    following = tracer.get()
    if following is None:
        yield from joints
        return
    for i in joints:
        following.enter(Tag(algorithm, direction, i))
        yield i
    following.enter(None)


def outward(model: Bodies, algorithm: str = "") -> Iterator[int]:
    """The bodies from the root to the tips."""
    return _tagged(range(model.nbodies), algorithm, "f")


def inward(model: Bodies, algorithm: str = "") -> Iterator[int]:
    """The bodies from the tips to the root."""
    return _tagged(range(model.nbodies - 1, -1, -1), algorithm, "b")
