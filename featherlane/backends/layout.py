"""Which vector of the scratch each value of a program lives in."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from featherlane.backends.blocks import Block, cut
from featherlane.backends.llvm import Lanes
from featherlane.backends.loop import Array
from featherlane.graph.graph import Graph
from featherlane.graph.routine import Program

WARM = 80 << 10  # bytes of scratch that a round of tiles may use: little more than the first cache
MOST = 4  # tiles of a round


class Layout:
    """Inputs are in one part of the scratch, all that is computed in the other: `loads` and
    `stores` are places of inputs, and of nodes of the main graph.

    The columns of routine k lie in groups of as many as a vector of the routine holds: entry i of
    all columns of a group side by side, from `each[k]` on; so do the results from `result[k]` on.
    """

    def __init__(self, program: Program, lanes: Lanes, columns: Lanes) -> None:
        self.program, self.lanes, self.columns = program, lanes, columns
        self.group = columns.width // lanes.width  # columns
        main = program.main
        self.inputs, self.loads = _input_slots(main, program.inputs)
        self.stores: dict[int, list[int]] = {}
        self._size = 0
        self.each: list[int] = []
        self.result: list[int] = []
        results: dict[tuple[str, int], int] = {}
        for k in range(len(program.routines)):
            results |= self._columns_of(k)
        shown = {n for out in main.outputs.values() for n in out.nodes}
        # At most one: constants are interned. -0.0 is another, and has to be turned like the rest
        nothing = [self._once(n) for n in shown if str(main.number(n)) == "0.0"]
        self.outputs = [
            Array(name, out.shape, tuple(self._shown(n, results) for n in out.nodes), *nothing)
            for name, out in program.outputs.items()
        ]
        self.blocks: list[Block]
        self.blocks, kept = cut(main, self.stores)
        for block in self.blocks:
            self.stores |= {k: [self._size + slot] for k, slot in block.kept.items()}
        self._size += kept
        self.input_vectors = self._apart(len(self.loads))
        self.vectors = self._apart(self._size)
        self.tiles = self._tiles()

    def groups(self, k: int) -> int:
        """The groups of columns of a routine; the last may repeat its last column."""
        return -(-self.program.calls(k) // self.group)

    def _columns_of(self, k: int) -> dict[tuple[str, int], int]:
        """Places for what a routine reads, and those of its results."""
        main, (shared, each, result) = self.program.main, self.program.names(k)
        for node in main.outputs[shared].nodes:
            self._once(node)
        calls, size = main.outputs[each].shape
        padded = self.groups(k) * self.group
        self.each.append(self._take(size * padded))
        for c in range(padded):
            for i in range(size):
                node = main.outputs[each].nodes[min(c, calls - 1) * size + i]
                place = self._in_group(self.each[k], size, c, i)
                self.stores.setdefault(node, []).append(place)
        gives = int(np.prod(main.inputs[result])) // calls
        self.result.append(self._take(gives * padded))
        places = range(calls * gives)
        return {
            (result, n): self._in_group(self.result[k], gives, *divmod(n, gives)) for n in places
        }

    def _in_group(self, first: int, size: int, column: int, entry: int) -> int:
        group, inside = divmod(column, self.group)
        return first + (group * size + entry) * self.group + inside

    def _take(self, count: int) -> int:
        self._size += count
        return self._size - count

    def _shown(self, node: int, results: dict[tuple[str, int], int]) -> int:
        value = self.program.main.value[node]
        return results[value] if value in results else self._once(node)

    def _once(self, node: int) -> int:
        """The place of a value that needs but one."""
        if node not in self.stores:
            self.stores[node] = [self._take(1)]
        return self.stores[node][0]

    def _apart(self, count: int) -> int:
        """Vectors from one tile to the next: whole cache lines, an odd number of them, so that
        tiles do not compete for the same lines of the cache.
        """
        line = max(64 // self.lanes.bytes, 1)
        return (-(-count // line) | 1) * line

    def _tiles(self) -> int:
        """The tiles of a round: as many as the caches take."""
        size = (self.vectors + self.input_vectors) * self.lanes.bytes
        return max(n for n in (1, 2, MOST) if n == 1 or n * size <= WARM)


def _input_slots(
    graph: Graph, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[list[Array], dict[tuple[str, int], int]]:
    arrays: list[Array] = []
    loads: dict[tuple[str, int], int] = {}
    for name, shape in shapes.items():
        slots = tuple(range(len(loads), len(loads) + int(np.prod(shape))))
        arrays.append(Array(name, shape, slots))
        loads |= {(name, i): slot for i, slot in enumerate(slots)}
    return arrays, loads
