"""Calls of one step as a stream through one kernel: the columns of a product with M^-1, the pairs
of freedoms in derivatives.

A step that an algorithm calls again and again, with other values each time, is one graph: nothing
folds in it that a single call would let fold. Its calls are time-multiplexed on one kernel, as
limbs are that are alike. The rest of the algorithm comes before them, between them and behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from featherlane.accelerators.organise.arrays import Assign, in_q16
from featherlane.algorithms import derivatives
from featherlane.backends.fixed import slots
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.prepare import DELAYS, rewritten
from featherlane.backends.fixed.slots import SlotKernel
from featherlane.functions.circuits import CIRCUITS, algorithm_of
from featherlane.functions.table import Variant
from featherlane.functions.tracing import scalar_function
from featherlane.functions.variants import input_shapes
from featherlane.program.graph import Graph, Output
from featherlane.program.passes.balance import balanced
from featherlane.program.passes.segments import (
    GraphSegment,
    entered_as_is,
    segments,
    without_unread,
)
from featherlane.program.program import Program, X, Y
from featherlane.program.rewrite import copied, entered, placed, simplify
from featherlane.program.trace import COLUMNS, Policy, program_of
from featherlane.robot.model import Robot
from featherlane.scalar import Tag

RESULTS, OPERANDS = "results of calls", "operands of calls"


def pairs(function: Any, tag: Any) -> bool:
    """The policy that keeps pairs of freedoms in derivatives of inverse dynamics."""
    return function is derivatives._in_line


STREAMS: Mapping[str, Policy] = {"columns": COLUMNS, "pairs": pairs}


class KernelKey(NamedTuple):
    """The key of a kernel, and its dependency level: calls of one kind, by a number from 0 on, or
    the work beside calls (-1).
    """

    level: int
    kind: int = -1


@dataclass(frozen=True, eq=False)
class Streamed:
    """A function of which the calls of some steps are streams. datapath: the flat definition;
    kernels: in an order in which none needs a later one.
    """

    model: Robot
    function: str
    datapath: Datapath
    kernels: Mapping[KernelKey, SlotKernel]

    @property
    def whole(self) -> Datapath:
        """The flat definition, which has no constants of limbs."""
        return self.datapath

    @property
    def fused(self) -> frozenset[int]:
        """The products that are computed with their sums."""
        return self.datapath.fused

    def changed(self, change: Callable[[Datapath], Datapath]) -> Streamed:
        """Returns the streams with other formats, or fused products, in their kernels. change:
        gives a datapath of the same graph.
        """
        flat, kernels = slots.changed(self.datapath, self.kernels, change)
        return replace(self, datapath=flat, kernels=kernels)


class KeptCall(NamedTuple):
    """A call that stays: its function, how many calls come before it, and its operands and the
    first of its results among those of all calls.
    """

    function: int
    level: int
    operands: range
    results: range


def streamed(
    model: Robot,
    function: str,
    kept: Policy = COLUMNS,
    algorithm: str | None = None,
    assign: Assign = in_q16,
) -> Streamed:
    """Returns a function of a robot with calls of some steps as streams.

    kept: which calls, as the policy of a trace says it (see STREAMS). algorithm, assign: as of
    `arrays.arrays`.
    """
    variant = Variant(function)
    name = algorithm_of(model, variant, algorithm, proved=False)
    chosen = None if name is None else CIRCUITS[function][name]
    run = scalar_function(model, variant, chosen)
    assert run is not None, f"{function} is computed by algorithms"
    program = program_of(run, input_shapes(model, variant), kept)
    main, calls, graphs = without_calls(program)
    flat, calls_and_rest = _cut(rewritten(simplify(main)), calls, graphs)
    alike = {key: list(alike_segments) for key, alike_segments in kinds(calls_and_rest)}
    datapath = slots.united(assign(flat, {}), [*alike.values()])
    datapath = slots.united(narrowed(datapath), [*alike.values()])
    kernels = {
        key: slots.slot_kernel(datapath, alike_segments) for key, alike_segments in alike.items()
    }
    return Streamed(model, function, datapath, kernels)


def without_calls(program: Program) -> tuple[Graph, list[KeptCall], list[Graph]]:
    """Returns the main graph with inputs in the place of results of calls, and their operands as an
    output; the calls; and the graphs of their functions, without operands that are the same number
    in all calls. Calls whose results are numbers are none.
    """
    main, new = program.main, Graph()
    folded = [
        _folded(f.graph, numbers_of)
        for f, numbers_of in zip(program.functions, _same(program), strict=True)
    ]
    place, level = dict[int, int](), dict[int, int]()
    operands, calls, results = list[int](), list[KeptCall](), 0
    for k, (op, args, value) in enumerate(zip(main.op, main.args, main.value, strict=True)):
        new.current_tag = main.tag[k]
        if op == "result":
            continue
        if op != "call":
            place[k] = entered(main, new, k, [place[a] for a in args])
            level[place[k]] = max((level[place[a]] for a in args), default=0)
            continue
        graph, read = folded[value]
        arguments = [place[args[i]] for i in read]
        numbers = _numbers(graph, new, arguments)
        if numbers is not None:
            gives = [new.constant(x) for x in numbers]
        else:
            span = range(results, results + len(main.results(k)))
            gives = [new.node("input", value=(RESULTS, i)) for i in span]
            first, results = len(operands), span.stop
            operands += arguments
            at = max(level[a] for a in arguments)
            level |= dict.fromkeys(gives, at + 1)
            calls.append(KeptCall(value, at, range(first, len(operands)), span))
        for result, given_node in zip(main.results(k), gives, strict=True):
            place[result] = given_node
            level.setdefault(given_node, 0)
    new.inputs = {**main.inputs, RESULTS: (results,)}
    new.outputs = {
        **placed(main.outputs, place),
        OPERANDS: Output((len(operands),), tuple(operands)),
    }
    return new, calls, [graph for graph, _ in folded]


def _same(program: Program) -> list[dict[int, float]]:
    """Returns for each function the operands that are one number in all of its calls."""
    main = program.main
    arguments: list[list[tuple[int, ...]]] = [[] for _ in program.functions]
    for k in main.nodes_of("call"):
        arguments[main.value[k]].append(main.args[k])
    return [
        {
            i: number
            for i, operands in enumerate(zip(*calls, strict=True))
            if len(set(operands)) == 1 and (number := main.number(operands[0])) is not None
        }
        for calls in arguments
    ]


def _folded(graph: Graph, numbers: Mapping[int, float]) -> tuple[Graph, list[int]]:
    """Returns a function's graph with numbers for some operands, and the operands that it reads."""
    new = Graph()
    operands = new.declare(X, graph.inputs[X])
    places = {(X, i): k for i, k in enumerate(operands)}
    places |= {(X, i): new.constant(x) for i, x in numbers.items()}
    place = copied(graph, new, places)
    new.outputs = placed(graph.outputs, place)
    return without_unread(simplify(new))


def _numbers(graph: Graph, into: Graph, operands: list[int]) -> list[float] | None:
    """The results of a call if all of them are numbers."""
    new, place = Graph(), list[int]()
    for k, op in enumerate(graph.op):
        if op == "input":
            x = into.number(operands[graph.value[k][1]])
            place.append(new.constant(x) if x is not None else new.node(op, value=graph.value[k]))
        else:
            place.append(entered(graph, new, k, [place[a] for a in graph.args[k]]))
    numbers = [new.number(place[k]) for k in graph.outputs[Y].nodes]
    return [x for x in numbers if x is not None] if None not in numbers else None


def _cut(
    main: Graph, calls: list[KeptCall], graphs: list[Graph]
) -> tuple[Graph, list[tuple[KernelKey, GraphSegment]]]:
    """Returns the flat graph, and its segments: a call each, and the work beside them by level."""
    home, flat = _homes(main, calls), _FlatGraph.of(main)
    levels = range(max((key.level for key in home), default=0) + 1)
    rest = {part.name: part for part in segments(main, home, [KernelKey(n) for n in levels])}
    circuits = [circuit_of_step(graph) for graph in graphs]
    for level in levels:
        if part := rest.get(KernelKey(level)):
            flat.add_part(level, part)
        for call in calls:
            if call.level == level:
                flat.add_call(call, circuits[call.function])
    return flat.graph(), flat.segments


@dataclass(frozen=True)
class _FlatGraph:
    """A graph of calls while it becomes flat. place: the flat node of each node of `main`; inputs:
    the nodes of `main` that are results of calls, by their numbers. segments: those of `flat`.
    """

    main: Graph
    flat: Graph
    place: dict[int, int]
    inputs: dict[int, int]
    segments: list[tuple[KernelKey, GraphSegment]]

    @classmethod
    def of(cls, main: Graph) -> _FlatGraph:
        """The flat graph of inputs and constants alone."""
        flat, place, inputs = Graph(), dict[int, int](), dict[int, int]()
        flat.inputs = {name: x for name, x in main.inputs.items() if name != RESULTS}
        for k, (op, value) in enumerate(zip(main.op, main.value, strict=True)):
            if op == "input" and value[0] == RESULTS:
                inputs[value[1]] = k
            elif not main.args[k]:
                place[k] = flat.node(op, value=value)
        return cls(main, flat, place, inputs, [])

    def add_part(self, level: int, part: GraphSegment) -> None:
        """Adds the work beside the calls of a level."""
        reads = [self.place[k] for k in part.reads]
        gives = self._enter(KernelKey(level), balanced(part.graph, DELAYS), reads)
        self.place.update(zip(part.gives, gives, strict=True))

    def add_call(self, call: KeptCall, circuit: Graph) -> None:
        """Adds a call. circuit: the graph of its function."""
        operands = self.main.outputs[OPERANDS].nodes
        reads = [self.place[operands[i]] for i in call.operands]
        gives = self._enter(KernelKey(call.level, call.function), circuit, reads)
        for i, k in zip(call.results, gives, strict=True):
            if i in self.inputs:
                self.place[self.inputs[i]] = k

    def _enter(self, key: KernelKey, graph: Graph, reads: list[int]) -> tuple[int, ...]:
        """Adds a graph that reads flat nodes, as a segment, and returns its results."""
        graph, kept = without_unread(graph)
        reads = [reads[i] for i in kept]
        nodes = entered_as_is(graph, self.flat, reads)
        gives = tuple(nodes[k] for k in graph.outputs[Y].nodes)
        self.segments.append((key, GraphSegment(key, graph, tuple(reads), gives, tuple(nodes))))
        return gives

    def graph(self) -> Graph:
        """The flat graph, with the outputs of the graph of calls."""
        self.flat.outputs = {
            name: Output(out.shape, tuple(self.place[k] for k in out.nodes))
            for name, out in self.main.outputs.items()
            if name != OPERANDS
        }
        return self.flat


def _homes(main: Graph, calls: list[KeptCall]) -> list[KernelKey]:
    """Returns the level of each node of the work beside the calls: results of a call are a level
    above its operands.
    """
    after = {(RESULTS, i): call.level + 1 for call in calls for i in call.results}
    home: list[KernelKey] = []
    for args, value in zip(main.args, main.value, strict=True):
        home.append(KernelKey(max((home[a].level for a in args), default=after.get(value, 0))))
    return home


def circuit_of_step(graph: Graph) -> Graph:
    """Returns the graph of a step ready for circuits. Its nodes get a tag: steps that are traced
    alone have none.
    """
    return balanced(rewritten(graph.replaced(tag=[Tag("X", "c", 0, 1)] * len(graph))), DELAYS)


def kinds(
    parts: list[tuple[KernelKey, GraphSegment]],
) -> Iterator[tuple[KernelKey, list[GraphSegment]]]:
    """Yields the segments of each kernel: calls of one level that are alike."""
    number = 0
    for level in dict.fromkeys(key.level for key, _ in parts):
        of_level = [(key, segment) for key, segment in parts if key.level == level]
        for key, segment in of_level:
            if key.kind < 0:
                yield key, [segment]
        alike: list[list[GraphSegment]] = []
        for key, segment in of_level:
            if key.kind >= 0:
                for kind in alike:
                    if slots.are_alike([kind[0], segment]):
                        kind.append(segment)
                        break
                else:
                    alike.append([segment])
        for kind in alike:
            yield KernelKey(level, number), kind
            number += 1
