"""Wrenches at frames, by name, as one array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.algorithms.derivatives import world_fixed
from featherlane.functions.arguments import alike, lead_of
from featherlane.functions.array_like import WrenchFrame
from featherlane.functions.table import Variant
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD, Frame
from featherlane.robot.spatial import (
    NO_CORIOLIS,
    NO_TURN,
    ZERO6,
    Coriolis,
    Rotation,
    Transform,
    Vector,
    matmul,
    spatial,
)
from featherlane.robot.tree import Tree
from featherlane.robot.walk import outward
from featherlane.scalar import Scalar, Tag, at, call


def stacked(
    wrenches: Mapping[str, Any], others: Mapping[str, Any]
) -> tuple[tuple[str, ...], np.ndarray]:
    """Returns the names of the frames in alphabetical order and their wrenches (..., frames, 6), in
    the dtype that they have in common with `others`, the other arrays of the call. Raises
    ValueError or TypeError naming the frame.
    """
    for name in wrenches:
        if not isinstance(name, str):
            raise TypeError(
                f"f_ext has the key {name!r}: wanted the name of a frame; wrenches on bodies by "
                "their number are one array (..., nbodies, 6)"
            )
    frames = {f"f_ext[{name!r}]": name for name in sorted(wrenches)}
    dtype, arrays_of = alike({label: wrenches[name] for label, name in frames.items()} | {**others})
    arrays = [arrays_of[label] for label in frames]
    hint = "[force; moment] at the frame's origin"
    lead = lead_of(arrays, dict.fromkeys(frames, (6,)), lambda name, shape: hint)
    rows = np.empty((*lead, len(arrays), 6), dtype)
    for k, array in enumerate(arrays):
        rows[..., k, :] = array
    return tuple(frames.values()), rows


WRENCH_FRAMES: tuple[WrenchFrame, ...] = ("body", "world")


def wrenches_on(model: Robot, tree: Tree, variant: Variant, q: list, f_ext: list) -> dict[str, Any]:
    """Returns the options of algorithms for the user's wrenches [force; moment] on bodies or at
    frames: "f_ext", the sum [moment; force] on each body, at the origin and in the axes of its
    turned frame; "fixed", for wrenches in the world's axes, how those sums change as that frame
    turns (`world_fixed`), else None.
    """
    frames = [model.frame(name) for name in variant.at]
    frames = frames or [Frame("", body) for body in range(model.nbodies)]
    E, world = {WORLD: NO_TURN}, variant.wrenches == "world"
    for i in outward(tree, "E") if world else ():
        E[i] = call(_turned_on, tree.joint_transform(i, q).E, E[tree.parent[i]])
    wrenches = [ZERO6] * tree.nbodies
    fixed = [NO_CORIOLIS] * tree.nbodies
    for frame, entries in zip(frames, f_ext, strict=True):
        i, X = tree.point(frame)
        tag = Tag("E", "f", i)
        if i == WORLD:
            continue
        if world:
            X = Transform(NO_TURN, X.r)
            fixed[i] = at(tag, call, _with_fixed, fixed[i], X, entries, E[i])
        turn = E[i] if world else NO_TURN
        wrenches[i] = at(tag, call, _with_wrench, wrenches[i], X, entries, turn)
    return {"f_ext": wrenches, "fixed": fixed if world else None}


def _turned_on(E: Rotation, parent: Rotation) -> Rotation:
    return Rotation(matmul(E.rows, parent.rows))


def _wrench(entries: Sequence[Scalar], E: Rotation) -> Vector:
    """Returns [moment; force] in the axes that E turns to."""
    return spatial(E.to_child(entries[3:]), E.to_child(entries[:3]))


def _with_wrench(total: Vector, X: Transform, entries: Sequence[Scalar], E: Rotation) -> Vector:
    return total + X.force_to_parent(_wrench(entries, E))


def _with_fixed(total: Coriolis, X: Transform, entries: Sequence[Scalar], E: Rotation) -> Coriolis:
    """Adds how the wrench changes in axes that turn, while it keeps still in the world's."""
    return total + X.coriolis_to_parent(world_fixed(_wrench(entries, E)))
