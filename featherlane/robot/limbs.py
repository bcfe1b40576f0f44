"""Equal limbs: isomorphic subtrees on one body, such as legs, arms and fingers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD
from featherlane.robot.walk import children

EntriesByLimb = list[tuple[tuple[str, int], ...]]  # entries of inputs that correspond, by limb
COUNTS = (4, 2)  # limbs that may share a vector of so many lanes (docs/performance.md)


def alike(model: Robot, count: int) -> list[tuple[int, ...]]:
    """Returns the joints that correspond in `count` isomorphic limbs, first joints first.

    Limbs are as long as possible: with two equal hands, fingers belong to the hands.
    """
    below = children(model.parent)
    subtree: dict[int, list[int]] = {}
    shape: dict[int, Any] = {}
    for i in reversed(range(model.nbodies)):
        joint = model.joints[i]
        subtree[i] = [i, *[k for c in below[i] for k in subtree[c]]]
        shape[i] = joint.type, joint.mimic is None, tuple(shape[c] for c in below[i])

    def corresponding(body: int) -> Iterator[tuple[int, ...]]:
        by_shape: dict[Any, list[int]] = {}
        for i in below[body]:
            by_shape.setdefault(shape[i], []).append(i)
        for roots in by_shape.values():
            whole = len(roots) // count * count
            for first in range(0, whole, count):
                limbs = roots[first : first + count]
                yield from zip(*[subtree[i] for i in limbs], strict=True)
            for i in roots[whole:]:
                yield from corresponding(i)

    return list(corresponding(WORLD))


def count(model: Robot, most: int) -> int:
    """Returns the number of limbs, up to `most`, that share vectors with the largest saving, or
    1.
    """
    saved = {n: len(alike(model, n)) * (n - 1) for n in COUNTS if n <= most}
    return max(saved, key=lambda n: saved[n], default=1) if any(saved.values()) else 1


def corresponding_entries(
    model: Robot, sizes: Mapping[str, tuple[str | int, ...]], count: int
) -> EntriesByLimb:
    """Returns the entries of inputs that belong to corresponding joints or bodies of limbs.

    sizes: of each input; entries are per "q", per "v" or per one of the "bodies".
    """
    result: EntriesByLimb = []
    for joints in alike(model, count):
        for name, size in sizes.items():
            kind, *rest = size or (1,)  # the same number for all limbs
            width = math.prod(n for n in rest if isinstance(n, int))
            if kind not in ("q", "v", "bodies") or any(isinstance(n, str) for n in rest):
                continue
            entries = [_entries(model, str(kind), i) for i in joints]
            for k in range(len(entries[0]) * width):
                result.append(tuple((name, joint.start * width + k) for joint in entries))
    return result


def _entries(model: Robot, kind: str, i: int) -> range:
    """Returns the entries of a joint, or of its body; a mimic joint has no entries."""
    if kind == "bodies":
        return range(i, i + 1)
    first, joint = (model.first_q if kind == "q" else model.first_v)[i], model.joints[i]
    size = joint.kind.nq if kind == "q" else joint.kind.nv
    return range(first, first + size * (joint.mimic is None))
