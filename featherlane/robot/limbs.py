"""Limbs that are alike: subtrees of the same joints on one body, such as legs, arms and fingers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from featherlane.robot.model import WORLD, Model

Twins = list[tuple[tuple[str, int], ...]]  # entries of inputs that play the same part, by limb
COUNTS = (4, 2)  # limbs that are taken together: as many as vectors have lanes


def _children(model: Model) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for i, parent in enumerate(model.parent):
        children.setdefault(parent, []).append(i)
    return children


def alike(model: Model, count: int) -> list[tuple[int, ...]]:
    """The joints that play the same part in so many limbs, first joints first. Limbs are as long as
    can be: of two hands the fingers belong to the hands.
    """
    children = _children(model)
    subtree: dict[int, list[int]] = {}
    shape: dict[int, Any] = {}
    for i in reversed(range(model.nbodies)):
        below = children.get(i, [])
        joint = model.joints[i]
        subtree[i] = [i, *[k for c in below for k in subtree[c]]]
        shape[i] = joint.type, joint.mimic is None, tuple(shape[c] for c in below)

    def found(body: int) -> Iterator[tuple[int, ...]]:
        by_shape: dict[Any, list[int]] = {}
        for i in children.get(body, ()):
            by_shape.setdefault(shape[i], []).append(i)
        for roots in by_shape.values():
            whole = len(roots) // count * count
            for first in range(0, whole, count):
                limbs = roots[first : first + count]
                yield from zip(*[subtree[i] for i in limbs], strict=True)
            for i in roots[whole:]:
                yield from found(i)

    return list(found(WORLD))


def count(model: Model, most: int) -> int:
    """How many limbs to take together, `most` at most: those that save most. 1 if none are
    alike.
    """
    saved = {n: len(alike(model, n)) * (n - 1) for n in COUNTS if n <= most}
    return max(saved, key=lambda n: saved[n], default=1) if any(saved.values()) else 1


def twins(model: Model, sizes: Mapping[str, tuple[str | int, ...]], count: int) -> Twins:
    """The entries of inputs of these sizes ("q", "v" or "bodies" by numbers) that belong to joints
    or bodies alike in so many limbs.
    """
    result: Twins = []
    for joints in alike(model, count):
        for name, (kind, *rest) in sizes.items():
            each = math.prod(n for n in rest if isinstance(n, int))
            if kind not in ("q", "v", "bodies") or any(isinstance(n, str) for n in rest):
                continue
            starts = [_entries(model, str(kind), i) for i in joints]
            for k in range(len(starts[0]) * each):
                result.append(tuple((name, own.start * each + k) for own in starts))
    return result


def _entries(model: Model, kind: str, i: int) -> range:
    """Those of a joint, or of its body; a mimic joint has none."""
    if kind == "bodies":
        return range(i, i + 1)
    first, joint = (model.first_q if kind == "q" else model.first_v)[i], model.joints[i]
    size = joint.kind.nq if kind == "q" else joint.kind.nv
    return range(first, first + size * (joint.mimic is None))
