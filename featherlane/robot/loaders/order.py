"""The order of the joints in q, v and the model."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from featherlane.errors import did_you_mean
from featherlane.robot.loaders.tree import Moving
from featherlane.robot.loaders.words import listed, quoted
from featherlane.robot.parts import WORLD
from featherlane.robot.walk import children, depths

JOINT_ORDERS = ("depth-first", "file", "breadth-first")
JointOrder = str | Sequence[str]
"""The name of an order, or the names of all moving joints."""


def checked_order(order: JointOrder) -> JointOrder:
    """Returns an order's name, or a tuple of joint names; raises ValueError or TypeError."""
    wanted = f"wanted one of {', '.join(map(repr, JOINT_ORDERS))}, or a sequence of joint names"
    if isinstance(order, str):
        if order not in JOINT_ORDERS:
            raise ValueError(
                f"joint_order is {order!r}; {wanted}{did_you_mean(order, JOINT_ORDERS)}"
            )
        return order
    if not isinstance(order, Sequence) or not all(isinstance(name, str) for name in order):
        raise TypeError(f"joint_order is {order!r}; {wanted}")
    return tuple(order)


def permutation(moving: Moving, order: JointOrder, file: Sequence[str]) -> list[int]:
    """Returns the indices of the moving joints, which come depth-first, in the order asked for.

    file: the names of the file's joints in its order; a moving joint that is not among them is a
    root joint that `load` has added. Raises ValueError for names that are not those of the joints,
    and for a child before its parent.
    """
    names, parents = [spec.name for spec, _ in moving], [at.body for _, at in moving]
    if order == "depth-first":
        return list(range(len(moving)))
    if order == "breadth-first":
        return sorted(range(len(moving)), key=depths(parents).__getitem__)
    if order == "file":
        rank = {name: k for k, name in enumerate(file)}
        return _parents_first(parents, [rank.get(name, -1) for name in names])
    added = [name for name in names if name not in set(file) and name not in order]
    return _named(names, parents, [*added, *order])


def _parents_first(parents: Sequence[int], rank: Sequence[int]) -> list[int]:
    """Sorts by rank, as far as parents come first."""
    below = children(parents)
    result: list[int] = []
    ready: list[tuple[int, int]] = []
    last = WORLD
    for _ in parents:
        for i in below[last]:
            heappush(ready, (rank[i], i))
        _, last = heappop(ready)
        result.append(last)
    return result


def _named(names: Sequence[str], parents: Sequence[int], order: Sequence[str]) -> list[int]:
    index = {name: i for i, name in enumerate(names)}
    unknown = [name for name in order if name not in index]
    ordered = set(order)
    missing = [name for name in names if name not in ordered]
    if unknown or missing or len(order) > len(names):
        faults = [
            f"not a moving joint: {listed(unknown)}" if unknown else "",
            f"missing: {listed(missing)}" if missing else "",
            "" if len(ordered) == len(order) else "some names are there twice",
        ]
        fault = "; ".join(filter(None, faults))
        raise ValueError(f"joint_order must name every moving joint once; {fault}")
    position = {index[name]: k for k, name in enumerate(order)}
    for i, parent in enumerate(parents):
        if parent != WORLD and position[parent] > position[i]:
            raise ValueError(
                f"joint_order has {quoted(names[i])} before {quoted(names[parent])}, which carries "
                "it; wanted parents before children"
            )
    return sorted(range(len(names)), key=position.__getitem__)
