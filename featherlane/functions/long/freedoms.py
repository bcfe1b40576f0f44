"""Matrices over the freedoms of long robots: how freedoms lie in the tree, and plans that make
matrices of numbers that belong to one freedom each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from featherlane.algorithms.rows.inertia import depth_first
from featherlane.backends.cpu.matrices import tables
from featherlane.backends.cpu.matrices.plan import MatrixEvaluator, MatrixJob, MatrixPlan, PlanStage
from featherlane.backends.cpu.steps.run import StepEvaluator
from featherlane.functions.long.recording import recording
from featherlane.functions.table import TABLE, Variant
from featherlane.functions.variants import input_shapes
from featherlane.robot.model import Robot
from featherlane.robot.tree import Tree
from featherlane.robot.tree_of import tree_of

Index = tuple[int | slice, ...]


def states(
    arrays: Sequence[np.ndarray], cores: Sequence[int], lead: tuple[int, ...], together: int = 0
) -> Iterator[tuple[Index, list[np.ndarray]]]:
    """The index of one state after another, or of up to `together` states along the last leading
    dimension, and their arrays. cores: for each array the dimensions of one state; lead: the
    leading dimensions, to which arrays broadcast.
    """
    whole = [
        np.broadcast_to(x, lead + x.shape[x.ndim - core :])
        for x, core in zip(arrays, cores, strict=True)
    ]
    slices = range(0, lead[-1], together) if lead and together else None
    for at in np.ndindex(lead if slices is None else lead[:-1]):
        parts = [at] if slices is None else [(*at, slice(n, n + together)) for n in slices]
        for part in parts:
            yield part, [x[part] for x in whole]


def offsets(widths: Sequence[int]) -> list[int]:
    """Returns the start of each part of a row, from the widths of the parts."""
    return [0, *accumulate(widths)][:-1]


class Freedoms(NamedTuple):
    """The relations between the freedoms of a tree, counted body by body, as (n, n) masks.

    before[i, j]: i's body is an ancestor of j's; joint: they belong to one joint; same: i = j.
    owners: the entry of v that each belongs to, None if they are in order.
    """

    before: np.ndarray
    joint: np.ndarray
    same: np.ndarray
    owners: np.ndarray | None


def _unless_in_order(owners: np.ndarray) -> np.ndarray | None:
    return None if np.array_equal(owners, np.arange(len(owners))) else owners


def masks(tree: Tree) -> Freedoms:
    owners = np.array([k for freedoms in tree.freedoms for k, _ in freedoms])
    body = np.array([i for i, freedoms in enumerate(tree.freedoms) for _ in freedoms])
    before = np.zeros((len(body), len(body)), bool)
    for i, line in enumerate(tree.above):
        before[list(line), i] = True
    joint, same = body[:, None] == body, np.eye(len(body), dtype=bool)
    return Freedoms(before & ~joint, joint, same, _unless_in_order(owners))


def sweep_order(tree: Tree) -> tuple[tables.SweepOrder, np.ndarray | None]:
    """The freedoms in depth-first order, and the entry of v of each, None if they are in order."""
    order = [n for i in depth_first(tree) for n, _ in tree.numbered[i]]
    place = {n: k for k, n in enumerate(order)}
    lines = [tree.above[n] for n in order]
    parent = [place[line[1]] if len(line) > 1 else -1 for line in lines]
    end = list(range(1, len(order) + 1))
    for k in reversed(range(len(order))):
        if parent[k] >= 0:
            end[parent[k]] = max(end[parent[k]], end[k])
    owners = [k for freedoms in tree.freedoms for k, _ in freedoms]
    return tables.SweepOrder(parent, end), _unless_in_order(np.array([owners[n] for n in order]))


def matrix_size(run: StepEvaluator) -> int:
    """The rows of matrices that jobs make of the numbers of freedoms which a recording gives."""
    return tables.padded_size(run.outputs[0][0], run.dtype)


def pipeline(
    model: Robot,
    variant: Variant,
    stages: Sequence[PlanStage],
    jobs: Sequence[MatrixJob],
    size: int,
    owners: np.ndarray | None = None,
    room: Mapping[str, int] = {},
) -> MatrixEvaluator:
    """The evaluator of a variant whose outputs are matrices over the freedoms. owners: as in
    Freedoms, for the rows as jobs fill them; size and room: as in MatrixPlan.
    """
    outputs = dict.fromkeys(TABLE[variant.name].outputs, owners)
    plan = MatrixPlan(input_shapes(model, variant), outputs, model.nv, size, stages, jobs, room)
    return MatrixEvaluator(plan, stages[0].run.dtype)


def products(
    model: Robot, variant: Variant, dtype: Any, parts: Sequence[Sequence[tables.MaskedProduct]]
) -> MatrixEvaluator:
    """The evaluator of matrices that are products of numbers of freedoms. parts: for each output,
    which numbers of the rows, from the first output of the recording, meet which numbers of the
    columns, from one output of the recording.
    """
    run = recording(model, variant, dtype, TABLE[variant.name].rows[variant.method])
    size, rows = matrix_size(run), tuple(f"rows{k}" for k in range(len(parts)))
    jobs = [
        MatrixJob(tables.products(part, size, run.dtype), rows[0], rows_of_part, name)
        for part, rows_of_part, name in zip(parts, rows, TABLE[variant.name].outputs, strict=True)
    ]
    stage = PlanStage(run, tuple(input_shapes(model, variant)), rows)
    return pipeline(model, variant, [stage], jobs, size, masks(tree_of(model)).owners)
