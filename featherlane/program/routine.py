"""Routines: a graph whose repeated parts are kept once and run over columns.

A flat graph of 60,000 operations is more code than a processor can fetch in the time that it can
compute it. Where an algorithm says `repeat`, a `Recorder` keeps the repeated function as a graph of
its own. What a program computes is defined by `inline`, which gives the flat graph of the same
operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from featherlane.errors import CompileError
from featherlane.program.graph import Graph, Output
from featherlane.program.passes.recompute import apart
from featherlane.program.trace import Node, trace


class Program(NamedTuple):
    """A main graph, and routines that run after it.

    Routine k has the inputs "shared" and "each" and the output "result". The main graph brings, as
    outputs, the array "shared k" and the rows of "each k", one for each call; the results of all
    calls are its input "result k", which only its outputs may name: also what later routines read.
    """

    main: Graph
    routines: list[Graph]

    def map(self, change: Callable[[Graph], Graph]) -> Program:
        return Program(change(self.main), [change(routine) for routine in self.routines])

    def names(self, k: int) -> tuple[str, str, str]:
        return f"shared {k}", f"each {k}", f"result {k}"

    def calls(self, k: int) -> int:
        """How often routine k is called."""
        return self.main.outputs[self.names(k)[1]].shape[0]

    @property
    def operations(self) -> int:
        """Of the flat graph, up to what folds only there."""
        each = [self.calls(k) * r.cost().operations for k, r in enumerate(self.routines)]
        return self.main.cost().operations + sum(each)

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        own = {self.names(k)[2] for k in range(len(self.routines))}
        return {name: shape for name, shape in self.main.inputs.items() if name not in own}

    @property
    def outputs(self) -> dict[str, Output]:
        own = {name for k in range(len(self.routines)) for name in self.names(k)[:2]}
        return {name: out for name, out in self.main.outputs.items() if name not in own}


class Recorder:
    """What the loops of an algorithm tell while it is traced: the stages, and the functions that
    are repeated.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.routines: list[Graph] = []
        self.handed: list[int] = []  # nodes; a routine of one call computes what comes after them

    def enter(self, stage: Any) -> None:
        self.graph.current_stage = stage

    def repeat(
        self,
        function: Callable[..., Sequence[Any]],
        shared: Sequence[Any],
        columns: Sequence[Sequence[Any]],
    ) -> list[list[Any]]:
        """function(shared, column) for each column, as calls of one routine."""
        routine = trace(function, {"shared": len(shared), "each": len(columns[0])})
        out = routine.outputs.pop("out")
        routine.outputs["result"] = out
        names = Program(self.graph, self.routines).names(len(self.routines))
        self.routines.append(routine)
        self.graph.outputs[names[0]] = Output((len(shared),), self._nodes(shared))
        each = [x for column in columns for x in column]
        self.graph.outputs[names[1]] = Output((len(columns), len(columns[0])), self._nodes(each))
        results = self.graph.declare(names[2], (len(columns), *out.shape))
        known = [routine.number(k) for k in out.nodes]
        width = len(known)
        return [
            [
                Node(self.graph, results[c * width + i]) if x is None else x
                for i, x in enumerate(known)
            ]
            for c in range(len(columns))
        ]

    def hand_over(self, scalars: Sequence[Any]) -> None:
        """From here on: what the columns of routines need is computed apart from the rest."""
        if self.handed or self.routines:
            raise CompileError("hand_over comes once, before all that is repeated")
        self.handed = [x.k for x in scalars if isinstance(x, Node)]
        self.routines.append(Graph())

    def part(self) -> None:
        """Makes a routine of what computes the columns."""
        if not self.handed:
            return
        program = Program(self.graph, self.routines)
        rows = [program.names(k)[1] for k in range(1, len(self.routines))]
        read = dict.fromkeys(n for name in rows for n in self.graph.outputs[name].nodes)
        roots = [n for n in read if self.graph.args[n]]
        self.routines[0], given = apart(self.graph, roots, self.handed)
        shared, each, result = program.names(0)
        found = dict(zip(roots, self.graph.declare(result, (1, len(roots))), strict=True))
        for name in rows:
            shape, nodes = self.graph.outputs[name]
            self.graph.outputs[name] = Output(shape, tuple(found.get(n, n) for n in nodes))
        self.graph.outputs |= {
            shared: Output((0,), ()),
            each: Output((1, len(given)), tuple(given)),
        }

    def _nodes(self, scalars: Sequence[Any]) -> tuple[int, ...]:
        return tuple(x.k if isinstance(x, Node) else self.graph.constant(x) for x in scalars)


def record(function: Callable[..., Any], inputs: Any, listen: Any) -> Program:
    """As `trace`, with the repeated functions as routines. listen(recorder) is a context."""
    recorders: list[Recorder] = []

    def listening(graph: Graph) -> Any:
        recorders.append(Recorder(graph))
        return listen(recorders[0])

    main = trace(function, inputs, listening)
    recorders[0].part()
    program = Program(main, recorders[0].routines)
    results = {program.names(k)[2] for k in range(len(program.routines))}
    for op, args in zip(program.main.op, program.main.args, strict=True):
        for a in args:
            value = program.main.value[a]
            if program.main.op[a] == "input" and value[0] in results:
                raise CompileError(
                    f"{op} works on a routine's result: routines run after the main graph"
                )
    return program


def _copy(graph: Graph, into: Graph, known: dict[tuple[str, int], int]) -> list[int]:
    """Enters a graph's nodes into another, with its inputs replaced by nodes already there; gives
    their places.
    """
    place: list[int] = []
    for op, args, value in zip(graph.op, graph.args, graph.value, strict=True):
        if op == "input":
            place.append(known.get(value, -1))
        else:
            place.append(into.node(op, *[place[a] for a in args], value=value))
    return place


def inline(program: Program) -> Graph:
    """The flat graph of the same operations in the same order, so with the same bits."""
    flat = Graph()
    known: dict[tuple[str, int], int] = {}
    for name, shape in program.inputs.items():
        known |= {(name, i): k for i, k in enumerate(flat.declare(name, shape))}
    place = _copy(program.main, flat, known)

    def at(n: int) -> int:
        """Where a node of the main graph is, or the result of a routine that it stands for."""
        return known.get(program.main.value[n], place[n])

    for k, routine in enumerate(program.routines):
        shared, each, result = (program.names(k)[i] for i in range(3))
        handed = {("shared", i): at(n) for i, n in enumerate(program.main.outputs[shared].nodes)}
        calls, size = program.main.outputs[each].shape
        for call in range(calls):
            row = program.main.outputs[each].nodes[call * size : (call + 1) * size]
            inside = _copy(routine, flat, handed | {("each", i): at(n) for i, n in enumerate(row)})
            nodes = routine.outputs["result"].nodes
            known |= {(result, call * len(nodes) + i): inside[n] for i, n in enumerate(nodes)}
    for name, out in program.outputs.items():
        flat.outputs[name] = Output(out.shape, tuple(map(at, out.nodes)))
    return flat
