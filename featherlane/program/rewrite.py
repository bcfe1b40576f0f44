"""Copies of graphs: into another graph, rewritten by rules, in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from featherlane.program.graph import Graph, Output
from featherlane.program.op import ARITHMETIC, COMMUTES

Rule = Callable[..., int]
FOLDED = {"constant", "neg", "mul", "div"}  # operands by which operations fold
NodeMap = Mapping[int, int] | Sequence[int]  # from nodes of one graph to nodes of another


def entered(graph: Graph, into: Graph, k: int, operands: Sequence[int], functions: int = 0) -> int:
    """Enters node k of a graph, with these operands, into another one. functions: an offset added
    to the numbers of functions.
    """
    op, value = graph.op[k], graph.value[k]
    if op == "call":
        return into.call(value + functions, operands, len(graph.results(k)))
    if op == "result":
        return operands[0] + 1 + value
    if value is None:
        return getattr(into, op)(*operands)
    return into.node(op, value=value)


def copied(graph: Graph, into: Graph, inputs: Mapping[Any, int], tagged: bool = True) -> list[int]:
    """Enters the nodes of a graph into another one, and returns the new node of each. inputs: nodes
    that replace the graph's inputs, by (name, position). tagged: whether nodes keep their tags.
    """
    node_map: list[int] = []
    tag = into.current_tag
    for k, op in enumerate(graph.op):
        if tagged:
            into.current_tag = graph.tag[k]
        if op == "input" and graph.value[k] in inputs:
            node_map.append(inputs[graph.value[k]])
        else:
            node_map.append(entered(graph, into, k, [node_map[a] for a in graph.args[k]]))
    into.current_tag = tag
    into.systems += [system.renumbered(node_map.__getitem__) for system in graph.systems]
    return node_map


def placed(outputs: Mapping[str, Output], node_map: NodeMap) -> dict[str, Output]:
    """The outputs of a graph whose nodes have new numbers."""
    return {
        name: Output(shape, tuple([node_map[k] for k in nodes]))
        for name, (shape, nodes) in outputs.items()
    }


def rewrite(graph: Graph, rules: Mapping[Any, Rule]) -> Graph:
    """A copy with its live nodes only, each entered by its rule(new_graph, *operands) or unchanged.

    A rule is for an operation, by its name, or for one node, by its number. Nodes were folded when
    they were entered: they are folded again only if a rule has changed an operand to a foldable
    one.
    """
    new, needed, same = Graph(), graph.live(), [False] * len(graph)
    new.inputs = dict(graph.inputs)
    node_map: dict[int, int] = {}
    enter = {op: getattr(new, op) for op in ARITHMETIC}
    for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
        if not needed[k]:
            continue
        new.current_tag = graph.tag[k]
        operands = [node_map[a] for a in args]
        if rule := rules.get(k) or rules.get(op):
            node_map[k] = rule(new, *operands)
            same[k] = new.op[node_map[k]] not in FOLDED
        elif op not in enter:
            node_map[k] = entered(graph, new, k, operands)
            same[k] = True
        elif all(same[a] for a in args):
            node_map[k] = new.node(op, *operands)
            same[k] = True
        else:
            node_map[k] = enter[op](*operands)
            same[k] = new.op[node_map[k]] == op
    new.outputs = placed(graph.outputs, node_map)
    for k, bounds in graph.facts.items():
        if k in node_map:
            new.state(node_map[k], *bounds)
    return new


def simplify(graph: Graph, order: Iterable[int] | None = None) -> Graph:
    """A copy with its live nodes only, in the sequence `order`, which must be one of evaluation.

    Nothing is folded: nodes were folded when they were entered.
    """
    needed, kept = graph.live(), list[int]()
    for k in range(len(graph)) if order is None else order:
        if needed[k] and graph.op[k] != "result":
            kept += (k, *graph.results(k)) if graph.op[k] == "call" else (k,)
    return renumbered(graph, kept)[0]


def renumbered(
    graph: Graph, kept: Sequence[int], sorts: bool = True
) -> tuple[Graph, Sequence[int]]:
    """A copy with these nodes only, in this sequence; and the number of each node in it, -1 where
    it is left out. sorts: operands that commute come in the order of their numbers.
    """
    node_map, args = [-1] * len(graph), list[tuple[int, ...]]()
    for n, k in enumerate(kept):
        node_map[k] = n
        operands = tuple([node_map[a] for a in graph.args[k]])
        turns = sorts and graph.op[k] in COMMUTES and operands[0] > operands[1]
        args.append(operands[::-1] if turns else operands)
    columns: dict[str, Any] = {
        name: [getattr(graph, name)[k] for k in kept] for name in ("op", "value", "tag")
    }
    columns["facts"] = {node_map[k]: x for k, x in graph.facts.items() if node_map[k] >= 0}
    outputs = placed(graph.outputs, node_map)
    new = graph.replaced(args=args, inputs=dict(graph.inputs), outputs=outputs, **columns)
    new.systems = [*_live_systems(graph, new, node_map)]
    return new, node_map


def _live_systems(graph: Graph, new: Graph, node_map: Sequence[int]) -> Iterator[Any]:
    """The linear systems of a graph whose nodes are all live, but for numbers."""

    def place(k: int) -> int:
        if node_map[k] < 0 and (number := graph.number(k)) is not None:
            return new.constant(number)
        if node_map[k] < 0:
            raise LookupError(k)
        return node_map[k]

    for system in graph.systems:
        with suppress(LookupError):
            yield system.renumbered(place)
