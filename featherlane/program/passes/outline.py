"""Outlining: a flat graph cut into the calls that computed it, the inverse of `inline`.

Calls that are retained while an algorithm is traced do not fold across each other, which costs 1.2
to 2.2 times the multiplications (docs/dev/modules.md). A graph that was traced flat has folded, and
the tags of its nodes still name the calls that computed them: cut by tag, the graph is a program
again, without a duplicate of any operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from featherlane.errors import CompileError
from featherlane.program.graph import Graph, Output, graph_key
from featherlane.program.op import ARITHMETIC, CONDITIONS
from featherlane.program.program import GraphFunction, Program, X, Y
from featherlane.program.rewrite import placed, simplify

COPIED = {"constant", *CONDITIONS}  # into each module that reads them: conditions are no results


class _CallNodes(NamedTuple):
    """The nodes that a call computed."""

    tag: Any
    nodes: list[int]
    reads: list[int]  # operands from outside: inputs, and nodes of other calls
    results: list[int]  # the nodes that other calls or outputs read


def joints(program: Program) -> Program:
    """Returns the program of the outermost calls of an algorithm that was traced flat, folded
    across them: the joints as modules. Raises CompileError as `outline` does.
    """
    return outline(simplify(program.main))


def outline(graph: Graph) -> Program:
    """Returns the program whose main graph has nothing but calls, of one function for each module.
    A node belongs to the call that computed it first, whose number is in its tag. Equal modules
    share one function.

    A call reads results of earlier calls, so that no calls wait for each other. Raises CompileError
    for a node that no call computed, and for a node that reads a node of a later call.
    """
    ends = {k for out in graph.outputs.values() for k in out.nodes}
    main, node_map = _leaves(graph, ends)
    functions: list[GraphFunction] = []
    numbers: dict[str, int] = {}  # of functions, by their graphs
    for part in _cuts(graph, ends):
        module = _module(graph, part)
        number = numbers.setdefault(graph_key(module), len(functions))
        if number == len(functions):
            functions.append(GraphFunction(str(part.tag), module))
        main.current_tag = part.tag
        first = main.call(number, [node_map[a] for a in part.reads], len(part.results)) + 1
        node_map |= {k: first + n for n, k in enumerate(part.results)}
    main.outputs = placed(graph.outputs, node_map)
    return Program(main, tuple(functions))


def _leaves(graph: Graph, ends: set[int]) -> tuple[Graph, dict[int, int]]:
    """Returns a main graph with the inputs and the constants among the outputs, and the new node
    of each.
    """
    main, node_map = Graph(), dict[int, int]()
    for name, shape in graph.inputs.items():
        main.declare(name, shape)
    for k, op in enumerate(graph.op):
        if op == "input" or (op == "constant" and k in ends):
            node_map[k] = main.node(op, value=graph.value[k])
    return main, node_map


def _cuts(graph: Graph, ends: set[int]) -> list[_CallNodes]:
    """Returns the calls in their order. ends: the nodes of outputs."""
    calls: dict[int, list[int]] = {}
    call_of: dict[int, int] = {}
    for k, needed in enumerate(graph.live()):
        if needed and graph.args[k] and graph.op[k] not in COPIED:
            call_of[k] = _call(graph, k)
            calls.setdefault(call_of[k], []).append(k)
    reads = {n: _reads(graph, nodes, call_of) for n, nodes in sorted(calls.items())}
    read = ends.union(*reads.values())
    return [
        _CallNodes(
            graph.tag[calls[n][0]], calls[n], reads_of_call, [k for k in calls[n] if k in read]
        )
        for n, reads_of_call in reads.items()
    ]


def _call(graph: Graph, k: int) -> int:
    op, number = graph.op[k], getattr(graph.tag[k], "call", 0)
    if op not in ARITHMETIC:
        raise CompileError(f"node {k} is a {op}: only flat graphs can be cut into calls")
    if not number:
        raise CompileError(f"node {k} ({op}) was computed outside of all calls")
    return number


def _reads(graph: Graph, nodes: list[int], call_of: Mapping[int, int]) -> list[int]:
    call, reads = call_of[nodes[0]], dict[int, None]()
    for k in nodes:
        for a in _operands(graph, k):
            if call_of.get(a, 0) > call:
                raise CompileError(f"node {k} of call {call} reads node {a} of call {call_of[a]}")
            if call_of.get(a) != call:
                reads[a] = None
    return list(reads)


def _operands(graph: Graph, k: int) -> Iterator[int]:
    """Yields the operands of a node, and of the conditions among them; no constants."""
    for a in graph.args[k]:
        if graph.op[a] in CONDITIONS:
            yield from _operands(graph, a)
        elif graph.op[a] != "constant":
            yield a


def _module(graph: Graph, part: _CallNodes) -> Graph:
    new = Graph()
    node_map = dict(zip(part.reads, new.declare(X, (len(part.reads),)), strict=True))

    def enter(k: int) -> int:
        if k not in node_map:
            node_map[k] = new.node(graph.op[k], *map(enter, graph.args[k]), value=graph.value[k])
        return node_map[k]

    for k in part.nodes:
        enter(k)
    new.outputs[Y] = Output((len(part.results),), tuple(node_map[k] for k in part.results))
    return new
