"""Matrices over the joints of robots of many links, whose entries are made of numbers that belong
to one freedom each: what is recorded, where two freedoms meet, and where results go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.algorithms.rows.inertia import depth_first
from featherlane.backends.cpu.matrices import tables
from featherlane.backends.cpu.matrices.plan import Job, Pipeline, Plan, Stage
from featherlane.backends.cpu.steps.run import Recorded
from featherlane.functions.compile import input_shapes
from featherlane.functions.long.recording import recording
from featherlane.functions.table import ROWS, TABLE, Variant
from featherlane.robot.model import Model
from featherlane.robot.tree import Tree
from featherlane.robot.tree_of import tree_of

Dimensions = tuple[int, ...]
Place = tuple[int | slice, ...]


def states(
    arrays: Sequence[np.ndarray], cores: Sequence[int], lead: Dimensions, together: int = 0
) -> Iterator[tuple[Place, list[np.ndarray]]]:
    """One state after another, or up to so many of the last dimension: where they are in the
    leading dimensions, and their arrays. cores: how many dimensions of each are no leading ones.
    """
    whole = [
        np.broadcast_to(x, lead + x.shape[x.ndim - core :])
        for x, core in zip(arrays, cores, strict=True)
    ]
    slices = range(0, lead[-1], together) if lead and together else None
    for at in np.ndindex(lead if slices is None else lead[:-1]):
        places = [at] if slices is None else [(*at, slice(n, n + together)) for n in slices]
        for place in places:
            yield place, [x[place] for x in whole]


def numbers_of(run: Recorded) -> int:
    """The size of matrices made of what is recorded of each freedom."""
    return tables.size(run.outputs[0][0], run.dtype)


class Freedoms(NamedTuple):
    """Those of a tree, body by body, and how they meet, as (n, n) masks.

    before[i, j]: i's body is an ancestor of j's; joint: they are in one joint; owners: the entry of
    v of each, None if they are in order.
    """

    before: np.ndarray
    joint: np.ndarray
    owners: np.ndarray | None

    @property
    def same(self) -> np.ndarray:
        return np.eye(len(self.joint), dtype=bool)


def _unless_in_order(owners: np.ndarray) -> np.ndarray | None:
    return None if np.array_equal(owners, np.arange(len(owners))) else owners


def freedoms(tree: Tree) -> Freedoms:
    owners = np.array([k for own in tree.freedoms for k, _ in own])
    body = np.array([i for i, own in enumerate(tree.freedoms) for _ in own])
    before = np.zeros((len(body), len(body)), bool)
    for i, line in enumerate(tree.above):
        before[list(line), i] = True
    joint = body[:, None] == body
    return Freedoms(before & ~joint, joint, _unless_in_order(owners))


def sweep_order(tree: Tree) -> tuple[tables.Order, np.ndarray | None]:
    """The freedoms of the bodies of `depth_first`, and the entry of v of each, None if they are in
    order.
    """
    each = [n for i in depth_first(tree) for n, _ in tree.numbered[i]]
    where = {n: k for k, n in enumerate(each)}
    lines = [tree.above[n] for n in each]
    parent = [where[line[1]] if len(line) > 1 else -1 for line in lines]
    end = list(range(1, len(each) + 1))
    for k in reversed(range(len(each))):
        if parent[k] >= 0:
            end[parent[k]] = max(end[parent[k]], end[k])
    owners = [k for own in tree.freedoms for k, _ in own]
    return tables.Order(parent, end), _unless_in_order(np.array([owners[n] for n in each]))


Meetings = Sequence[tables.Meeting]


def products(
    model: Model, variant: Variant, dtype: Any, of_matrices: Sequence[Meetings]
) -> Pipeline:
    """Matrices whose entries are made of two freedoms each. of_matrices: for each output, which
    numbers these bring, of those that one output of the recording has, and for rows the first.
    """
    run = recording(model, variant, dtype, ROWS[variant.name, variant.method])
    size, inputs = numbers_of(run), input_shapes(model, variant)
    rows = tuple(f"rows{k}" for k in range(len(of_matrices)))
    owners = freedoms(tree_of(model)).owners
    outputs = TABLE[variant.name].outputs
    made = [
        Job(tables.products(meetings, size, run.dtype), rows[0], own, name)
        for meetings, own, name in zip(of_matrices, rows, outputs, strict=True)
    ]
    stages = [Stage(run, tuple(inputs), rows)]
    plan = Plan(inputs, dict.fromkeys(outputs, owners), model.nv, size, stages, made)
    return Pipeline(plan, run.dtype)
