"""Calls replaced by what they compute. This is what a program means."""

from __future__ import annotations

from featherlane.program.graph import Graph, Output, entered
from featherlane.program.program import Program, Y
from featherlane.program.trace import FLAT, Policy


def inline(program: Program, policy: Policy = FLAT) -> Program:
    """The program in which only those calls of the main graph stay of which policy(function, tag)
    says so. The nodes of a call have its tag, and fold with what is around them.
    """
    new, main = Graph(), program.main
    new.inputs = dict(main.inputs)
    place: list[int] = []
    results: dict[int, list[int]] = {}  # of each call that is gone, by its number in main
    for k, (op, args) in enumerate(zip(main.op, main.args, strict=True)):
        new.current_tag = main.tag[k]
        if op == "call" and not policy(program.functions[main.value[k]], main.tag[k]):
            results[k] = body(program, main.value[k], [place[a] for a in args], new)
            place.append(-1)
        elif op == "result" and args[0] in results:
            place.append(results[args[0]][main.value[k]])
        else:
            place.append(entered(main, new, k, [place[a] for a in args]))
    new.current_tag = None
    for name, (shape, nodes) in main.outputs.items():
        new.outputs[name] = Output(shape, tuple(place[k] for k in nodes))
    return Program(new, program.functions, tuple(place[k] for k in program.boundary))


def body(program: Program, number: int, operands: list[int], into: Graph) -> list[int]:
    """Enters what a function computes of these operands, and gives the nodes of its results."""
    graph = program.functions[number].graph
    place: list[int] = []
    results: dict[int, list[int]] = {}
    for k, (op, args, value) in enumerate(zip(graph.op, graph.args, graph.value, strict=True)):
        if op == "input":
            place.append(operands[value[1]])
        elif op == "call":
            results[k] = body(program, value, [place[a] for a in args], into)
            place.append(-1)
        elif op == "result":
            place.append(results[args[0]][value])
        else:
            place.append(entered(graph, into, k, [place[a] for a in args]))
    return [place[k] for k in graph.outputs[Y].nodes]


def flat(program: Program) -> Graph:
    """The graph of a program without calls."""
    return inline(program).main
