"""Inlining: calls replaced by the operations of their functions. It defines what programs mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from featherlane.program.graph import Graph
from featherlane.program.program import GraphFunction, Program, X, Y
from featherlane.program.rewrite import entered, placed
from featherlane.program.trace import FLAT, Policy


def inline(program: Program, policy: Policy = FLAT) -> Program:
    """The program in which the main graph retains the calls that policy(function, tag) chooses, and
    the others are inlined. Their nodes have the tag of the call, and fold with those around them.
    """
    new, main = Graph(), program.main
    new.inputs = dict(main.inputs)
    node_map = _enter(program.functions, main, new, {}, policy)
    new.outputs = placed(main.outputs, node_map)
    return Program(new, program.functions, tuple(node_map[k] for k in program.boundary))


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
    """Enters the nodes of a graph, with `inputs` in place of its inputs, and returns the new node
    of each. If there are `inputs`, the graph is a function's: its nodes get the tag of the call.
    """
    node_map: list[int] = []
    results: dict[int, list[int]] = {}  # of each inlined call
    for k, (op, args, value) in enumerate(zip(graph.op, graph.args, graph.value, strict=True)):
        if not inputs:
            into.current_tag = graph.tag[k]
        if op == "call" and not policy(functions[value], graph.tag[k]):
            called = functions[value].unfolded
            called = functions[value].graph if called is None else called
            operands = {(X, i): node_map[a] for i, a in enumerate(args)}
            inner = _enter(functions, called, into, operands, FLAT)
            results[k] = [inner[n] for n in called.outputs[Y].nodes]
            node_map.append(-1)
        elif op == "result" and args[0] in results:
            node_map.append(results[args[0]][value])
        elif op == "input" and inputs:
            node_map.append(inputs[value])
        else:
            node_map.append(entered(graph, into, k, [node_map[a] for a in args]))
    return node_map
