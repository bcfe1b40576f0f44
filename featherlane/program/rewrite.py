"""Copies of graphs: into another graph, rewritten by rules, in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from featherlane.program.graph import Graph, Output
from featherlane.program.op import ARITHMETIC, COMMUTES

Rule = Callable[..., int]
FOLDED = {"constant", "neg", "mul", "div"}  # operands by which operations fold
Places = Mapping[int, int] | Sequence[int]  # by node of one graph, the node of another


def entered(graph: Graph, into: Graph, k: int, operands: Sequence[int], functions: int = 0) -> int:
    """Enters node k of a graph, with these operands, into another one. functions: what is added to
    the numbers of functions.
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
    """Enters the nodes of a graph into another one, where `inputs`, by (name, position), stand for
    its own inputs; gives the place of each. tagged: whether nodes keep their tags.
    """
    place: list[int] = []
    tag = into.current_tag
    for k, op in enumerate(graph.op):
        if tagged:
            into.current_tag = graph.tag[k]
        if op == "input" and graph.value[k] in inputs:
            place.append(inputs[graph.value[k]])
        else:
            place.append(entered(graph, into, k, [place[a] for a in graph.args[k]]))
    into.current_tag = tag
    return place


def placed(outputs: Mapping[str, Output], place: Places) -> dict[str, Output]:
    """The outputs of a graph whose nodes are at other places."""
    return {
        name: Output(shape, tuple([place[k] for k in nodes]))
        for name, (shape, nodes) in outputs.items()
    }


def rewrite(graph: Graph, rules: Mapping[Any, Rule]) -> Graph:
    """A copy with its live nodes only, each entered by its rule(new_graph, *operands) or as it was.

    A rule is for an operation, by its name, or for one node, by its number. Nodes were
    folded when they were entered: only those are again whose operands a rule has made foldable.
    """
    new, needed, same = Graph(), graph.live(), [False] * len(graph)
    new.inputs = dict(graph.inputs)
    place: dict[int, int] = {}
    enter = {op: getattr(new, op) for op in ARITHMETIC}
    for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
        if not needed[k]:
            continue
        new.current_tag = graph.tag[k]
        operands = [place[a] for a in args]
        if rule := rules.get(k) or rules.get(op):
            place[k] = rule(new, *operands)
            same[k] = new.op[place[k]] not in FOLDED
        elif op not in enter:
            place[k] = entered(graph, new, k, operands)
            same[k] = True
        elif all(same[a] for a in args):
            place[k] = new.node(op, *operands)
            same[k] = True
        else:
            place[k] = enter[op](*operands)
            same[k] = new.op[place[k]] == op
    new.outputs = placed(graph.outputs, place)
    for k, bounds in graph.facts.items():
        if k in place:
            new.state(place[k], *bounds)
    return new


def simplify(graph: Graph, order: Iterable[int] | None = None) -> Graph:
    """A copy with its live nodes only, in the sequence `order`, which must be one of evaluation.

    Nothing is folded: nodes were when they were entered.
    """
    needed, kept = graph.live(), list[int]()
    for k in range(len(graph)) if order is None else order:
        if needed[k] and graph.op[k] != "result":
            kept += (k, *graph.results(k)) if graph.op[k] == "call" else (k,)
    place, args = [-1] * len(graph), list[tuple[int, ...]]()
    for n, k in enumerate(kept):
        place[k] = n
        own = tuple([place[a] for a in graph.args[k]])
        args.append(own[::-1] if graph.op[k] in COMMUTES and own[0] > own[1] else own)
    columns: dict[str, Any] = {
        name: [getattr(graph, name)[k] for k in kept] for name in ("op", "value", "tag")
    }
    columns["facts"] = {place[k]: x for k, x in graph.facts.items() if place[k] >= 0}
    outputs = placed(graph.outputs, place)
    return graph.replaced(args=args, inputs=dict(graph.inputs), outputs=outputs, **columns)
