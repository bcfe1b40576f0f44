"""A graph of operations as an algorithm enters them, before any of them is folded.

The callee of a retained call is traced into one: when the call is inlined after all, its operations
fold with the operands of this call, exactly as if the algorithm had been traced without calls.
"""

from __future__ import annotations

from collections.abc import Callable

from featherlane.program.graph import Graph
from featherlane.program.op import ARITHMETIC
from featherlane.program.rewrite import entered


class UnfoldedGraph(Graph):
    """A graph whose operations neither fold nor merge: each one is a new node."""

    def append(self, op: str, operands: tuple[int, ...]) -> int:
        """Appends a node of an operation, and returns its number."""
        self.op.append(op)
        self.args.append(operands)
        self.value.append(None)
        self.tag.append(self.current_tag)
        return len(self.op) - 1

    def fold_into(self, graph: Graph) -> list[int]:
        """Enters all nodes into a graph that folds, and returns the new node of each."""
        node_map: list[int] = []
        for k, args in enumerate(self.args):
            node_map.append(entered(self, graph, k, [node_map[a] for a in args]))
        return node_map


def _appending(op: str) -> Callable[..., int]:
    return lambda self, *operands: self.append(op, operands)


for _op in ARITHMETIC:
    setattr(UnfoldedGraph, _op, _appending(_op))
