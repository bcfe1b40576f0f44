"""In which order the joints are counted."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from featherlane.robot.loaders.tree import Moving
from featherlane.robot.loaders.words import listed, quoted
from featherlane.robot.model import WORLD

JOINT_ORDERS = ("depth-first", "file", "breadth-first")
JointOrder = str | Sequence[str]


def checked_order(order: JointOrder) -> JointOrder:
    """The order as it was given, or as a tuple of names. Raises ValueError or TypeError."""
    wanted = f"wanted one of {', '.join(map(repr, JOINT_ORDERS))}, or a sequence of joint names"
    if isinstance(order, str):
        if order not in JOINT_ORDERS:
            raise ValueError(f"joint_order is {order!r}; {wanted}")
        return order
    if not isinstance(order, Sequence) or not all(isinstance(name, str) for name in order):
        raise TypeError(f"joint_order is {order!r}; {wanted}")
    return tuple(order)


def permutation(moving: Moving, order: JointOrder, file: Sequence[str]) -> list[int]:
    """Which of the moving joints, given depth-first, comes first, second, ...

    file: the names of the file's joints in its order; a joint of `moving` that is not among them
    stands before the root link. Raises ValueError for names that are not those of the joints, and
    for a child before its parent.
    """
    names, above = [spec.name for spec, _ in moving], [hang.body for _, hang in moving]
    if order == "depth-first":
        return list(range(len(moving)))
    if order == "breadth-first":
        return _by_level(above)
    if order == "file":
        rank = {name: k for k, name in enumerate(file)}
        return _parents_first(above, [rank.get(name, -1) for name in names])
    return _named(names, above, _with_root(order, names, set(file)))


def _by_level(above: Sequence[int]) -> list[int]:
    level = {WORLD: 0}
    for i, parent in enumerate(above):
        level[i] = level[parent] + 1
    return sorted(range(len(above)), key=level.__getitem__)


def _parents_first(above: Sequence[int], rank: Sequence[int]) -> list[int]:
    """By rank, as far as parents come first."""
    below: dict[int, list[int]] = {}
    for i, parent in enumerate(above):
        below.setdefault(parent, []).append(i)
    result: list[int] = []
    ready: list[tuple[int, int]] = []
    place = WORLD
    for _ in above:
        for i in below.get(place, ()):
            heappush(ready, (rank[i], i))
        _, place = heappop(ready)
        result.append(place)
    return result


def _with_root(order: JointOrder, names: Sequence[str], file: set[str]) -> list[str]:
    """Joints that load has put before the root link come first if they are not named."""
    return [name for name in names if name not in file and name not in order] + list(order)


def _named(names: Sequence[str], above: Sequence[int], order: Sequence[str]) -> list[int]:
    at = {name: i for i, name in enumerate(names)}
    unknown = [name for name in order if name not in at]
    given = set(order)
    missing = [name for name in names if name not in given]
    if unknown or missing or len(order) > len(names):
        told = [
            f"not a moving joint: {listed(unknown)}" if unknown else "",
            f"missing: {listed(missing)}" if missing else "",
            "" if len(given) == len(order) else "some names are there twice",
        ]
        said = "; ".join(filter(None, told))
        raise ValueError(f"joint_order must name every moving joint once; {said}")
    position = {at[name]: k for k, name in enumerate(order)}
    for i, parent in enumerate(above):
        if parent != WORLD and position[parent] > position[i]:
            raise ValueError(
                f"joint_order has {quoted(names[i])} before {quoted(names[parent])}, which carries "
                "it; wanted parents before children"
            )
    return sorted(range(len(names)), key=position.__getitem__)
