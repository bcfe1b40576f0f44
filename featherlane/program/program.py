"""Programs: a graph that may call functions, which are graphs that the program keeps once.

A processor fetches the code of a flat graph of 60,000 operations more slowly than it could compute
it, and a robot of 1,000 links has a few dozen different steps. `passes.inline` defines what a
program means: it returns the flat graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from featherlane.program.cost import Kinds, kinds_of, operations, times
from featherlane.program.graph import Graph, Output

X, Y = "x", "y"  # the input and the output of functions


class GraphFunction(NamedTuple):
    """A graph with one input "x" (n,) and one output "y" (m,), which may call functions before it
    in the program.

    unfolded: the same as its operations were entered, which `passes.inline` enters for each call;
    None once a pass has changed the graph.
    """

    name: str
    graph: Graph
    unfolded: Graph | None = None

    @property
    def parameters(self) -> int:
        return self.graph.inputs[X][0]

    @property
    def results(self) -> tuple[int, ...]:
        """The nodes of the results."""
        return self.graph.outputs[Y].nodes


@dataclass(frozen=True, eq=False)
class Program:
    """A main graph with the inputs and outputs of the whole, and the functions that it calls.

    boundary: the nodes of main from which, with the inputs, everything that calls read can be
    computed; see `passes.recompute`.
    """

    main: Graph
    functions: tuple[GraphFunction, ...] = ()
    boundary: tuple[int, ...] = ()

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        return self.main.inputs

    @property
    def outputs(self) -> dict[str, Output]:
        return self.main.outputs

    @property
    def graphs(self) -> list[Graph]:
        """The graphs of the functions, then main: each is called by later ones only."""
        return [*(f.graph for f in self.functions), self.main]

    def map(self, change: Callable[[Graph], Graph]) -> Program:
        """Applies a change to main and to each function; the boundary is not retained."""
        functions = tuple(GraphFunction(f.name, change(f.graph)) for f in self.functions)
        return Program(change(self.main), functions)

    def times(self) -> list[int]:
        """The number of times that each function runs."""
        times = [0] * len(self.functions) + [1]
        for n, graph in reversed([*enumerate(self.graphs)]):
            for f, calls in Counter(_called(graph)).items():
                times[f] += times[n] * calls
        return times[:-1]

    @property
    def operations(self) -> int:
        """Additions and multiplications of the flat graph, except for folds that inlining
        allows.
        """
        each = zip(self.times(), self.functions, strict=True)
        return operations(self.main) + sum(n * operations(f.graph) for n, f in each)

    @property
    def kinds(self) -> Kinds:
        """The operations by kind: functions count as often as they are called."""
        total = kinds_of(self.main)
        for function, count in zip(self.functions, self.times(), strict=True):
            total += times(kinds_of(function.graph), count)
        return total

    def __str__(self) -> str:
        functions = [f"f{n} {f.name}:\n{f.graph.text()}\n" for n, f in enumerate(self.functions)]
        return "\n".join([*functions, self.main.text()])


def _called(graph: Graph) -> list[Any]:
    return [value for op, value in zip(graph.op, graph.value, strict=True) if op == "call"]
