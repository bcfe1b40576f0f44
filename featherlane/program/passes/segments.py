"""A flat graph cut into segments: graphs that give each other values, and together compute it.

Which node belongs where comes from outside (`analysis.partition`). Nothing is folded or computed
twice, but for constants, powers of two and conditions, of which each segment has its own:
evaluating the segments one after the other gives the values of the flat graph to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from featherlane.errors import CompileError
from featherlane.program.graph import Graph, Output
from featherlane.program.op import COMMUTES, CONDITIONS
from featherlane.program.program import X, Y

COPIED = {"constant", "power_of_two", *CONDITIONS}  # none of these is a number with a format


class GraphSegment(NamedTuple):
    """A part of a flat graph. graph: its input X has the values of the nodes `reads` of the flat
    graph, its output Y those of `gives`. nodes: of each of its nodes the node of the flat graph.
    """

    name: Hashable
    graph: Graph
    reads: tuple[int, ...]
    gives: tuple[int, ...]
    nodes: tuple[int, ...]


def segments(
    graph: Graph, home: Sequence[Hashable], order: Sequence[Hashable]
) -> list[GraphSegment]:
    """Returns the segments of a graph of live nodes in an order in which none needs a later one;
    those without work are left out.

    home: the segment of each node, by name. Raises CompileError for a node that reads one of a
    later segment.
    """
    number = {name: n for n, name in enumerate(order)}
    work: dict[Hashable, list[int]] = {name: [] for name in order}
    for k, args in enumerate(graph.args):
        if args and graph.op[k] not in COPIED:
            work[home[k]].append(k)
    reads: dict[Hashable, dict[int, None]] = {}
    for name, nodes in work.items():
        reads[name] = dict.fromkeys(
            a
            for k in nodes
            for a in _operands(graph, k)
            if graph.op[a] == "input" or home[a] != name
        )
        for a in reads[name]:
            if graph.op[a] != "input" and number[home[a]] > number[name]:
                raise CompileError(
                    f"segment {name} reads node {a} ({graph.op[a]}) of the later {home[a]}"
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
    new, flat = Graph(), dict[int, int]()
    place = dict(zip(reads, new.declare(X, (len(reads),)), strict=True))
    flat.update({own: k for k, own in place.items()})

    def enter(k: int) -> int:
        if k not in place:
            args = [enter(a) for a in graph.args[k]]
            new.current_tag = graph.tag[k]
            place[k] = new.node(graph.op[k], *args, value=graph.value[k])
            flat[place[k]] = k
        return place[k]

    for k in nodes:
        enter(k)
    new.outputs[Y] = Output((len(gives),), tuple(place[k] for k in gives))
    return GraphSegment(
        name, new, tuple(reads), tuple(gives), tuple(flat[n] for n in range(len(new)))
    )


def joined(
    graph: Graph, parts: Sequence[GraphSegment], change: Callable[[GraphSegment], Graph]
) -> tuple[Graph, list[GraphSegment]]:
    """Returns the flat graph of segments that were changed one by one, and the new segments. change
    gives a graph of the same inputs and outputs, which may read fewer entries.
    """
    new, place = Graph(), dict[int, int]()
    new.inputs = dict(graph.inputs)
    for k, op in enumerate(graph.op):
        if not graph.args[k]:
            place[k] = new.node(op, value=graph.value[k])
    made = []
    for part in parts:
        changed, kept = without_unread(change(part))
        reads = tuple(place[part.reads[i]] for i in kept)
        nodes = entered_as_is(changed, new, reads)
        gives = tuple(nodes[k] for k in changed.outputs[Y].nodes)
        place |= dict(zip(part.gives, gives, strict=True))
        made.append(GraphSegment(part.name, changed, reads, gives, tuple(nodes)))
    new.outputs = {
        name: Output(out.shape, tuple(place[k] for k in out.nodes))
        for name, out in graph.outputs.items()
    }
    return new, made


def without_unread(graph: Graph) -> tuple[Graph, list[int]]:
    """Returns a graph without the entries of X that have no node, and those that it keeps."""
    inputs = graph.nodes_of("input")
    kept = sorted(graph.value[k][1] for k in inputs)
    value = list(graph.value)
    for k in inputs:
        value[k] = X, kept.index(value[k][1])
    return graph.replaced(value=value, inputs={X: (len(kept),)}), kept


def entered_as_is(graph: Graph, into: Graph, inputs: Sequence[int]) -> list[int]:
    """Enters the nodes as they are, without folding, and returns their places. What another segment
    computes, too, has a node for each.
    """
    place: list[int] = []
    for k, (op, args, value) in enumerate(zip(graph.op, graph.args, graph.value, strict=True)):
        into.current_tag = graph.tag[k]
        if op == "input":
            place.append(inputs[value[1]])
        else:
            place.append(entered_anew(into, op, [place[a] for a in args], value))
    return place


def entered_anew(into: Graph, op: str, args: Sequence[int], value: Any) -> int:
    """Enters a node that reads others even if there is an equal one; returns its place."""
    if not args:
        return into.node(op, value=value)
    ordered = sorted(args) if op in COMMUTES else args
    into.op.append(op)
    into.args.append(tuple(ordered))
    into.value.append(value)
    into.tag.append(into.current_tag)
    return len(into) - 1


def flow(parts: Sequence[GraphSegment]) -> Mapping[Hashable, set[Hashable]]:
    """Returns of each segment the segments that it reads from."""
    home = {k: part.name for part in parts for k in part.gives}
    return {part.name: {home[k] for k in part.reads if k in home} for part in parts}
