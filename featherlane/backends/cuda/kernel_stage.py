"""The description of a kernel: its stage of the work, its columns, and how it is launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from featherlane.program.graph import Graph

MEMORY = "memory"  # the shared memory of a block
SHARED = f".extern .shared .align 16 .b8 {MEMORY}[];"
BLOCK_BYTES = 48 << 10  # of shared memory that every processor has without being asked for more

Shape = tuple[int, ...]
Key = tuple[str, str]  # of one of the user's arrays: "input" or "output", and its name
Entry = tuple[Key, int]


class ColumnSlots(NamedTuple):
    """Calls of one function, side by side. All read the same slots of a thread, except for their
    operands, which lie `size` slots apart, and each writes `results` slots.
    """

    calls: int
    each: int  # the slot where the operands of the first call begin
    size: int
    result: int  # the slot where the results of the first call begin
    results: int


class KernelStage(NamedTuple):
    """The work of one kernel: `nodes` of a graph. By node: inputs are entries of the user's
    arrays, numbers, slots, or operands of a column; stores are the slots that keep a value, behind
    those of the column if there are columns; outputs are the entries of the user's arrays that
    take a value.
    """

    graph: Graph
    nodes: range
    inputs: Mapping[int, Entry]
    numbers: Mapping[int, float]
    slots: Mapping[int, int]
    operands: Mapping[int, int]
    stores: Mapping[int, Sequence[int]]
    outputs: Mapping[int, Sequence[Entry]]
    columns: ColumnSlots | None = None


class Launch(NamedTuple):
    """A kernel and how it is launched. threads, shared: of a block, and its bytes of shared memory;
    states: of a tile, for which values lie side by side; columns: shares of the work on each tile;
    text: which of the texts has it; arguments: behind the others; pairs: of a tile and a column,
    that a block computes.
    """

    kernel: str
    threads: int
    shared: int
    states: int
    columns: int
    text: int = 0
    arguments: tuple[int, ...] = ()
    pairs: int = 1

    def blocks(self, states: int) -> int:
        """The blocks for so many states. They are numbered in one dimension, the columns of a tile
        one after the other: blocks start in this order, so that the columns of a tile are computed
        at about one time and find what they share in the caches.
        """
        tiles = -(-states // self.states)
        return -(-tiles * self.columns // self.pairs)
