"""Partitions a flat graph among a tree of arrays, by the inputs that each node depends on.

A node that depends on an array and its ancestors is computed in this array; a node that depends on
several branches is computed where these meet. Sweeps from the root to the tips and back so fall
into a forward and a backward part of each array, without circular dependencies between parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from featherlane.program.graph import Graph
from featherlane.program.passes.balance import SUMS

NOWHERE = -1  # the ground, on which all arrays stand: the array of inputs that belong to none
Entry = tuple[str, int]  # of an input or an output


class ArrayPlacement(NamedTuple):
    """The part of an array that computes a node. backward: whether the node depends on descendants
    of the array.
    """

    array: int
    backward: bool = False


def partition(
    graph: Graph, parent: Sequence[int], inputs: Mapping[Entry, int], outputs: Mapping[Entry, int]
) -> list[ArrayPlacement]:
    """Returns the placement of each node.

    parent: of each array, NOWHERE for arrays on the ground; parents come before children. inputs,
    outputs: the arrays of entries, NOWHERE by default. A sum that only ancestors of its array read,
    and that has a term of theirs, is placed in the ancestor: so the terms of all branches meet in
    one array, and isomorphic branches send the same values.
    """
    ancestors = _ancestors(parent)
    placements: list[ArrayPlacement] = []
    for op, args, value in zip(graph.op, graph.args, graph.value, strict=True):
        placement = ArrayPlacement(inputs.get(value, NOWHERE) if op == "input" else NOWHERE)
        for a in args:
            placement = _joined(placement, placements[a], ancestors)
        placements.append(placement)
    return _move_sums(graph, placements, ancestors, outputs)


def _ancestors(parent: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """The arrays from the ground to each array, itself included."""
    ancestors: dict[int, tuple[int, ...]] = {NOWHERE: (NOWHERE,)}
    for array, p in enumerate(parent):
        ancestors[array] = (*ancestors[p], array)
    return ancestors


def _joined(
    x: ArrayPlacement, y: ArrayPlacement, ancestors: Mapping[int, tuple[int, ...]]
) -> ArrayPlacement:
    """The placement of a node that depends on both."""
    if x.array == y.array:
        return ArrayPlacement(x.array, x.backward or y.backward)
    if len(ancestors[x.array]) > len(ancestors[y.array]):
        x, y = y, x
    if x.array in ancestors[y.array]:
        return x if x.backward else y
    return ArrayPlacement(_meeting(x.array, y.array, ancestors), True)


def _meeting(a: int, b: int, ancestors: Mapping[int, tuple[int, ...]]) -> int:
    return [x for x, y in zip(ancestors[a], ancestors[b], strict=False) if x == y][-1]


def _move_sums(
    graph: Graph,
    placements: list[ArrayPlacement],
    ancestors: Mapping[int, tuple[int, ...]],
    outputs: Mapping[Entry, int],
) -> list[ArrayPlacement]:
    """Moves sums to the ancestors that read them."""
    readers: list[set[int]] = [set() for _ in range(len(graph))]
    for name, out in graph.outputs.items():
        for i, k in enumerate(out.nodes):
            readers[k].add(outputs.get((name, i), placements[k].array))
    for k in reversed(range(len(graph))):
        array, arrays = placements[k].array, readers[k]
        below = ancestors[array][:-1] if array != NOWHERE else ()
        if arrays and arrays.issubset(below) and graph.op[k] in SUMS:
            others = [placements[a].array for a in graph.args[k]]  # of constants: NOWHERE
            if any(a in below for a in others):
                placements[k] = ArrayPlacement(max(arrays, key=below.index), True)
        for a in graph.args[k]:
            readers[a].add(placements[k].array)
    return placements
