"""Programs whose graph repeats itself, as plans with a loop over the iterations.

The driver's compiler takes the straight code of twenty sweeps of contacts, or of eight steps of
Newton's method, several times longer than a loop around one of them. Its operations are those of
the graph, so that results have the same bits. What iterations pass lies in two arrays, of which
each iteration reads one and writes the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from featherlane.backends.cuda.stages import longest
from featherlane.program.analysis.repetition import Repetition, repetition
from featherlane.program.graph import Graph, Output
from featherlane.program.op import CONDITIONS
from featherlane.program.passes.order import by_columns
from featherlane.program.plan import Composite, KernelRun, Loop, Plan, PlanStep, Use
from featherlane.program.program import Program
from featherlane.program.rewrite import placed

SHARED, EVEN, ODD = "of all iterations", "of even iterations", "of odd iterations"
WORTH = 0.2  # of what is compiled quickly: a loop that saves fewer operations is none


def rolled(program: Program, dtype: np.dtype) -> Program | Composite:
    """Returns a lowered program in the order of its trace with a loop, if it is long and its graph
    repeats itself, and otherwise in the order of kernels.
    """
    graph, most = program.main, longest(np.dtype(dtype))
    if program.functions or len(graph) <= most:
        return program.map(by_columns)
    loop = repetition(graph)
    if loop is None or loop.saved < WORTH * most:
        return program.map(by_columns)
    pieces = _Pieces.of(graph, loop)
    if pieces is None:
        return program.map(by_columns)
    before, iteration, after = (Program(by_columns(x)) for x in pieces)
    return Composite(_plan(program, pieces, len(loop.nodes)), [before, iteration, after])


def _plan(program: Program, pieces: _Pieces, iterations: int) -> Plan:
    """Returns a plan with the loop."""
    shapes = {x: out.shape for piece in pieces[:2] for x, out in piece.outputs.items()}
    temporaries = {SHARED: shapes[SHARED], EVEN: shapes[EVEN], ODD: shapes[EVEN]}
    turned = {EVEN: ODD, ODD: EVEN}
    uses = lambda piece, names: tuple(
        Use(names.get(x, x)) for x in (*pieces[piece].inputs, *pieces[piece].outputs)
    )
    run, back = KernelRun(1, uses(1, {})), KernelRun(1, uses(1, turned))
    odd = iterations % 2
    steps: list[PlanStep] = [
        KernelRun(0, uses(0, {})),
        Loop("iteration", iterations // 2, (run, back)),
        *([run] if odd else []),
        KernelRun(2, uses(2, {} if odd else turned)),
    ]
    outputs = {x: out.shape for x, out in program.outputs.items()}
    return Plan(dict(program.inputs), outputs, steps, temporaries)


class _Pieces(NamedTuple):
    """The graphs before, in and after the loop. An iteration reads EVEN and writes ODD; the graph
    after it reads both.
    """

    before: Graph
    iteration: Graph
    after: Graph

    @staticmethod
    def of(graph: Graph, loop: Repetition) -> _Pieces | None:
        """Returns the pieces of a graph; None if what comes after the loop reads values that the
        last two iterations have not computed.
        """
        ahead, last = ({k: p for p, k in nodes.items()} for nodes in loop.nodes[-2:])
        early = {k for nodes in loop.nodes[:-2] for k in nodes.values()}
        ends = [k for out in graph.outputs.values() for k in out.nodes]
        shared = [*_numbers(graph, loop.shared)]
        prepared = _needed(graph, [*shared, *loop.first.values()], {})
        later = _numbers(graph, _read(graph, ends, {*ahead, *last, *prepared}))
        places, more = {*loop.first}, []
        for k in later:
            if k in last or k in ahead:
                places.add(last[k] if k in last else ahead[k])
            elif k in prepared:
                more.append(k)
            elif k in early:
                return None
        zero, each = graph.constant(0.0), sorted(places)
        first = [loop.first.get(p, zero) for p in each]
        then, now = ([nodes[p] for p in each] for nodes in loop.nodes[-2:])
        before = {SHARED: list(dict.fromkeys([*shared, *more])), EVEN: first}
        inside = {SHARED: before[SHARED], EVEN: then}
        return _Pieces(
            _piece(graph, _vectors(before), {}),
            _piece(graph, _vectors({ODD: now}), inside),
            _piece(graph, graph.outputs, {**inside, ODD: now}),
        )


def _vectors(arrays: Mapping[str, Sequence[int]]) -> dict[str, Output]:
    return {name: Output((len(nodes),), tuple(nodes)) for name, nodes in arrays.items()}


def _needed(graph: Graph, ends: Iterable[int], stops: Collection[int]) -> set[int]:
    """Returns the nodes that results need, without those at which the search stops. Conditions,
    which are no numbers, are computed again.
    """
    reached, waiting = set[int](), [*ends]
    while waiting:
        k = waiting.pop()
        if k not in reached and (k not in stops or graph.op[k] in CONDITIONS):
            reached.add(k)
            waiting += graph.args[k]
    return reached


def _read(graph: Graph, ends: Sequence[int], stops: Collection[int]) -> list[int]:
    """Returns the nodes at which the search stops."""
    needed = _needed(graph, ends, stops)
    return sorted(({*ends} | {a for k in needed for a in graph.args[k]}) - needed)


def _numbers(graph: Graph, nodes: Iterable[int]) -> Iterator[int]:
    """Yields the nodes that are computed; for conditions the numbers that they compare."""
    for k in nodes:
        if graph.op[k] in CONDITIONS:
            yield from _numbers(graph, graph.args[k])
        elif graph.args[k]:
            yield k


def _piece(
    graph: Graph, outputs: Mapping[str, Output], arrays: Mapping[str, Sequence[int]]
) -> Graph:
    """Returns a part of a graph. arrays: the nodes that are not computed in it, by the arrays where
    they lie.
    """
    lies = {k: (name, n) for name, nodes in arrays.items() for n, k in enumerate(nodes)}
    ends = [k for out in outputs.values() for k in out.nodes]
    needed, read = sorted(_needed(graph, ends, lies)), _read(graph, ends, lies)
    inputs = [graph.value[k][0] for k in needed if graph.op[k] == "input"]
    new, node_map = Graph(), dict[int, int]()
    for name in dict.fromkeys([*inputs, *(lies[k][0] for k in read)]):
        new.declare(name, (len(arrays[name]),) if name in arrays else graph.inputs[name])
    node_map = {k: new.node("input", value=lies[k]) for k in read}
    for k in needed:
        node_map[k] = new.node(
            graph.op[k], *(node_map[a] for a in graph.args[k]), value=graph.value[k]
        )
    new.outputs = placed(outputs, node_map)
    return new
