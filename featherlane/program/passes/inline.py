"""Calls replaced by what they compute. This is what a program means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from featherlane.program.graph import Graph, entered, placed
from featherlane.program.program import GraphFunction, Program, X, Y
from featherlane.program.trace import FLAT, Policy


def inline(program: Program, policy: Policy = FLAT) -> Program:
    """The program in which only those calls of the main graph stay of which policy(function, tag)
    says so. The nodes of a call have its tag, and fold with what is around them.
    """
    new, main = Graph(), program.main
    new.inputs = dict(main.inputs)
    place = _enter(program.functions, main, new, {}, policy)
    new.outputs = placed(main.outputs, place)
    return Program(new, program.functions, tuple(place[k] for k in program.boundary))


def flat(program: Program) -> Graph:
    """The graph of a program without calls."""
    return inline(program).main


def _enter(
    functions: Sequence[GraphFunction],
    graph: Graph,
    into: Graph,
    inputs: Mapping[tuple[str, int], int],
    policy: Policy,
) -> list[int]:
    """Enters the nodes of a graph, with `inputs` in place of its own, and gives the place of each.
    Nodes of a function, which has inputs, keep the tag of its call.
    """
    place: list[int] = []
    results: dict[int, list[int]] = {}  # of each call that is gone
    for k, (op, args, value) in enumerate(zip(graph.op, graph.args, graph.value, strict=True)):
        if not inputs:
            into.current_tag = graph.tag[k]
        if op == "call" and not policy(functions[value], graph.tag[k]):
            called = functions[value].graph
            operands = {(X, i): place[a] for i, a in enumerate(args)}
            inner = _enter(functions, called, into, operands, FLAT)
            results[k] = [inner[n] for n in called.outputs[Y].nodes]
            place.append(-1)
        elif op == "result" and args[0] in results:
            place.append(results[args[0]][value])
        elif op == "input" and inputs:
            place.append(inputs[value])
        else:
            place.append(entered(graph, into, k, [place[a] for a in args]))
    return place
