"""Where the nodes of a flat graph belong in a tree of arrays, by the inputs that they depend on.

What depends on an array and on those that carry it is computed in this array; what depends on
several branches, where these come together. Sweeps from the root to the tips and back so fall into
a forward and a backward part of each array, and no two parts wait for each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from featherlane.program.graph import Graph
from featherlane.program.passes.balance import SUMS

NOWHERE = -1  # the array of what no array owns: the ground, on which all arrays stand
Entry = tuple[str, int]  # of an input or an output


class ArrayPlacement(NamedTuple):
    """The part of an array that computes a node. backward: it needs arrays that stand on this one,
    or what they give.
    """

    array: int
    backward: bool = False


def partition(
    graph: Graph, parent: Sequence[int], inputs: Mapping[Entry, int], outputs: Mapping[Entry, int]
) -> list[ArrayPlacement]:
    """Returns the home of each node.

    parent: of each array, NOWHERE for those on the ground; parents come before children. inputs,
    outputs: the arrays of entries; what is left out is nowhere. A sum that only arrays below the
    tips want, of their own terms and a branch's, is theirs: so the terms of all branches meet in
    one place, and branches that are alike give the same.
    """
    lines = _lines(parent)
    found: list[ArrayPlacement] = []
    for op, args, value in zip(graph.op, graph.args, graph.value, strict=True):
        home = ArrayPlacement(inputs.get(value, NOWHERE) if op == "input" else NOWHERE)
        for a in args:
            home = _joined(home, found[a], lines)
        found.append(home)
    return _gathered(graph, found, lines, outputs)


def _lines(parent: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """The arrays from the ground to each one."""
    lines: dict[int, tuple[int, ...]] = {NOWHERE: (NOWHERE,)}
    for array, p in enumerate(parent):
        lines[array] = (*lines[p], array)
    return lines


def _joined(
    x: ArrayPlacement, y: ArrayPlacement, lines: Mapping[int, tuple[int, ...]]
) -> ArrayPlacement:
    """The home of what depends on both."""
    if x.array == y.array:
        return ArrayPlacement(x.array, x.backward or y.backward)
    if len(lines[x.array]) > len(lines[y.array]):
        x, y = y, x
    if x.array in lines[y.array]:
        return x if x.backward else y
    return ArrayPlacement(_meeting(x.array, y.array, lines), True)


def _meeting(a: int, b: int, lines: Mapping[int, tuple[int, ...]]) -> int:
    return [x for x, y in zip(lines[a], lines[b], strict=False) if x == y][-1]


def _gathered(
    graph: Graph,
    found: list[ArrayPlacement],
    lines: Mapping[int, tuple[int, ...]],
    outputs: Mapping[Entry, int],
) -> list[ArrayPlacement]:
    """Moves sums to the arrays that want them."""
    wanted: list[set[int]] = [set() for _ in range(len(graph))]
    for name, out in graph.outputs.items():
        for i, k in enumerate(out.nodes):
            wanted[k].add(outputs.get((name, i), found[k].array))
    for k in reversed(range(len(graph))):
        array, by = found[k].array, wanted[k]
        below = lines[array][:-1] if array != NOWHERE else ()
        if by and by.issubset(below) and graph.op[k] in SUMS:
            others = [found[a].array for a in graph.args[k]]  # of constants: NOWHERE
            if any(a in below for a in others):
                found[k] = ArrayPlacement(max(by, key=below.index), True)
        for a in graph.args[k]:
            wanted[a].add(found[k].array)
    return found
