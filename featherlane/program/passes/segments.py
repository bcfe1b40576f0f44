"""A flat graph cut into segments: graphs that pass values to each other, and together compute it.

The segment of each node is an input (see `analysis.partition`). Nothing is folded, and nothing is
computed twice, except constants, powers of two and conditions, which each segment copies:
evaluating the segments one after the other gives the values of the flat graph to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from featherlane.errors import CompileError
from featherlane.program.graph import Graph, Output
from featherlane.program.op import COMMUTES, CONDITIONS
from featherlane.program.program import X, Y

COPIED = {"constant", "power_of_two", *CONDITIONS}  # none of these is a number with a format


class GraphSegment(NamedTuple):
    """A part of a flat graph. reads, gives: the nodes of the flat graph that its input X and its
    output Y stand for; nodes: the node of the flat graph that each of its nodes is.
    """

    name: Hashable
    graph: Graph
    reads: tuple[int, ...]
    gives: tuple[int, ...]
    nodes: tuple[int, ...]


def segments(
    graph: Graph, segment_of: Sequence[Hashable], order: Sequence[Hashable]
) -> list[GraphSegment]:
    """Returns the segments of a graph of live nodes that compute anything.

    segment_of: the name of each node's segment. order: the names, in an order in which none reads a
    later one. Raises CompileError for a node that reads a node of a later segment.
    """
    number = {name: n for n, name in enumerate(order)}
    work: dict[Hashable, list[int]] = {name: [] for name in order}
    for k, args in enumerate(graph.args):
        if args and graph.op[k] not in COPIED:
            work[segment_of[k]].append(k)
    reads: dict[Hashable, dict[int, None]] = {}
    for name, nodes in work.items():
        reads[name] = dict.fromkeys(
            a
            for k in nodes
            for a in _operands(graph, k)
            if graph.op[a] == "input" or segment_of[a] != name
        )
        for a in reads[name]:
            if graph.op[a] != "input" and number[segment_of[a]] > number[name]:
                raise CompileError(
                    f"segment {name} reads node {a} ({graph.op[a]}) of the later {segment_of[a]}"
                )
    ends = {k for out in graph.outputs.values() for k in out.nodes}.union(*reads.values())
    return [
        _segment(graph, name, nodes, [*reads[name]], [k for k in nodes if k in ends])
        for name, nodes in work.items()
        if nodes
    ]


def _operands(graph: Graph, k: int) -> Iterator[int]:
    """Yields the operands of a node, and of the conditions among them; no constants."""
    for a in graph.args[k]:
        if graph.op[a] != "input" and graph.op[a] in COPIED:
            yield from _operands(graph, a)
        else:
            yield a


def _segment(
    graph: Graph, name: Hashable, nodes: Sequence[int], reads: Sequence[int], gives: Sequence[int]
) -> GraphSegment:
    """The nodes of a part as a graph of what it reads, with their numbers in the whole graph."""
    new, flat = Graph(), dict[int, int]()
    node_map = dict(zip(reads, new.declare(X, (len(reads),)), strict=True))
    flat.update({n: k for k, n in node_map.items()})

    def enter(k: int) -> int:
        if k not in node_map:
            args = [enter(a) for a in graph.args[k]]
            new.current_tag = graph.tag[k]
            node_map[k] = new.node(graph.op[k], *args, value=graph.value[k])
            flat[node_map[k]] = k
        return node_map[k]

    for k in nodes:
        enter(k)
    new.outputs[Y] = Output((len(gives),), tuple(node_map[k] for k in gives))
    return GraphSegment(
        name, new, tuple(reads), tuple(gives), tuple(flat[n] for n in range(len(new)))
    )


def joined(
    graph: Graph, parts: Sequence[GraphSegment], change: Callable[[GraphSegment], Graph]
) -> tuple[Graph, list[GraphSegment]]:
    """Returns the flat graph of segments that were changed one by one, and the new segments. change
    returns a graph of the same inputs and outputs, which may read fewer entries.
    """
    new, node_map = Graph(), dict[int, int]()
    new.inputs = dict(graph.inputs)
    for k, op in enumerate(graph.op):
        if not graph.args[k]:
            node_map[k] = new.node(op, value=graph.value[k])
    new_segments = []
    for part in parts:
        changed, kept = without_unread(change(part))
        reads = tuple(node_map[part.reads[i]] for i in kept)
        nodes = entered_as_is(changed, new, reads)
        gives = tuple(nodes[k] for k in changed.outputs[Y].nodes)
        node_map |= dict(zip(part.gives, gives, strict=True))
        new_segments.append(GraphSegment(part.name, changed, reads, gives, tuple(nodes)))
    new.outputs = {
        name: Output(out.shape, tuple(node_map[k] for k in out.nodes))
        for name, out in graph.outputs.items()
    }
    return new, new_segments


def without_unread(graph: Graph) -> tuple[Graph, list[int]]:
    """Returns a graph without the entries of X that it does not read, and the entries it reads."""
    inputs = graph.nodes_of("input")
    kept = sorted(graph.value[k][1] for k in inputs)
    value = list(graph.value)
    for k in inputs:
        value[k] = X, kept.index(value[k][1])
    return graph.replaced(value=value, inputs={X: (len(kept),)}), kept


def entered_as_is(graph: Graph, into: Graph, inputs: Sequence[int]) -> list[int]:
    """Enters the nodes without folding, and returns the new node of each. Operations that several
    segments compute get a node for each segment.
    """
    node_map: list[int] = []
    for k, (op, args, value) in enumerate(zip(graph.op, graph.args, graph.value, strict=True)):
        into.current_tag = graph.tag[k]
        if op == "input":
            node_map.append(inputs[value[1]])
        else:
            node_map.append(entered_anew(into, op, [node_map[a] for a in args], value))
    return node_map


def entered_anew(into: Graph, op: str, args: Sequence[int], value: Any) -> int:
    """Enters an operation even if the graph has an equal one; returns the new node."""
    if not args:
        return into.node(op, value=value)
    ordered = sorted(args) if op in COMMUTES else args
    into.op.append(op)
    into.args.append(tuple(ordered))
    into.value.append(value)
    into.tag.append(into.current_tag)
    return len(into) - 1
