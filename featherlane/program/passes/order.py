"""The order of evaluation, which decides how many values are live at a time, and so how many stay
in registers.
"""

from __future__ import annotations

from collections.abc import Iterator

from featherlane.program.calls import calls_of
from featherlane.program.graph import Graph
from featherlane.program.rewrite import simplify


def depth_first(graph: Graph, roots: list[int]) -> Iterator[int]:
    """Yields the nodes of each root, operands first, before those of the next root."""
    done = [False] * len(graph)
    for root in roots:
        stack = [root]
        while stack:
            k = stack[-1]
            if done[k]:
                stack.pop()
                continue
            todo = [a for a in graph.args[k] if not done[a]]
            if todo:
                stack.extend(reversed(todo))
            else:
                done[k] = True
                stack.pop()
                yield k


def _roots(graph: Graph) -> list[int]:
    """The nodes that `by_columns` starts from, in order: vectors, the operands of calls and rows of
    other matrices, then the columns of all square matrices, the last column first.
    """
    calls = calls_of(graph)
    rows: list[int] = []
    columns: dict[int, list[int]] = {}
    vectors = [k for group in calls for k in group.shared.values()]
    for group in sorted(calls, key=lambda group: group.single):
        rows += [k for row in group.rows for k in row]
    for shape, nodes in graph.outputs.values():
        if len(shape) == 2 and shape[0] == shape[1]:
            for j in range(shape[1]):
                columns.setdefault(-j, []).extend(nodes[j :: shape[1]])
        else:
            (rows if len(shape) == 2 else vectors).extend(nodes)
    return vectors + rows + [k for j in sorted(columns) for k in columns[j]]


def by_columns(graph: Graph) -> Graph:
    """Returns the graph without dead nodes, in an order that computes matrices column by column,
    so that far fewer values are live at a time. Calls come last, function by function.

    A graph without matrices and calls keeps the order of its algorithm.
    """
    if "call" not in graph.op and all(len(out.shape) < 2 for out in graph.outputs.values()):
        return simplify(graph)
    roots, call_ops = _roots(graph), ("call", "result")
    early = [k for k in roots if graph.op[k] not in call_ops]
    calls = [k for group in calls_of(graph) for k in group.nodes]
    late = [k for k in roots if graph.op[k] in call_ops]
    return simplify(graph, depth_first(graph, early + calls + late))
