"""A long graph cut into blocks of code, each of which runs over several vectors of states.

Long straight-line code is limited by instruction fetch: beyond the processor's cache of decoded
instructions they arrive at 16 bytes a cycle, beyond the second-level cache at half of that. And
LLVM spills values without regard to who reads them next. So the values that later blocks read are
in slots of memory, which are reused after their last read, and a block is fetched once for a few
vectors (docs/performance.md, "Prediction: long code waits for its own text").
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import pairwise
from typing import NamedTuple

from featherlane.backends.cpu.graphs.areas import BlockAllocator
from featherlane.program.graph import Graph
from featherlane.program.op import CONDITIONS

SIZE = 512  # operations of a block; 1,024 to 100,000 are within 5 % or slower (docs/performance.md)
REMATERIALISED = {"neg", *CONDITIONS}  # cheap: computed again in each block that reads them


class CodeBlock(NamedTuple):
    """Nodes first <= k < last of a graph, and the slots of its values that later blocks read."""

    first: int
    last: int
    kept: dict[int, int]


def read(graph: Graph, first: int, last: int, stored: Container[int]) -> set[int]:
    """The nodes before `first` whose values the nodes from `first` to `last` read from memory.
    stored: the nodes that are in memory anyway.
    """
    nodes: set[int] = set()
    todo = [a for k in range(first, last) for a in graph.args[k] if a < first]
    while todo:
        a = todo.pop()
        if graph.op[a] in REMATERIALISED and a not in stored:
            todo += graph.args[a]
        elif graph.op[a] not in ("input", "constant"):
            nodes.add(a)
    return nodes


def _edges(graph: Graph, size: int) -> Iterator[int]:
    """Yields the first node of each block of `size` operations, and the end of the last."""
    count = 0
    yield 0
    for k, args in enumerate(graph.args):
        if count == size and args:
            count = 0
            yield k
        count += bool(args)
    yield len(graph)


def cut(graph: Graph, stored: Container[int], size: int = SIZE) -> tuple[list[CodeBlock], int]:
    """The blocks of a graph, and the slots that they need. stored: as in `read`."""
    spans = list(pairwise(_edges(graph, size)))
    last_read: dict[int, int] = {}
    for number, span in enumerate(spans):
        for a in read(graph, *span, stored):
            if a not in stored:
                last_read[a] = number
    blocks: list[CodeBlock] = []
    slots = BlockAllocator()
    ending: dict[int, list[int]] = {}  # slots, by the block that reads them last
    for number, (first, last) in enumerate(spans):
        kept = {}
        for k in range(first, last):
            if k in last_read:
                kept[k] = slots.take(1)
                ending.setdefault(last_read[k], []).append(kept[k])
        blocks.append(CodeBlock(first, last, kept))
        for slot in ending.pop(number, []):
            slots.release(slot, 1)
    return blocks, slots.size
