"""Directional derivatives of programs of calls, as programs: forward mode.

Each function gets a version that also returns the derivatives of its results, from the directions
of its operands. There is one version for each set of operands that have a direction, so that
nothing is differentiated that does not depend on the variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.program.derivatives.graphs import alongside
from featherlane.program.graph import Graph, Output
from featherlane.program.passes.calls_only import calls_only
from featherlane.program.program import GraphFunction, Program, X, Y
from featherlane.program.rewrite import placed

Moving = tuple[int, ...]  # the parameters of a function that have a direction


class _Derived(NamedTuple):
    """A function with derivatives. sources: for each result of the original function, its
    derivative: a result ("y", i), an operand ("x", i), or None where it is zero.
    """

    number: int
    size: int
    sources: list[tuple[str, int] | None]


class _Tangent:
    """The new main graph. values, tangents: the node of the value of each original node, and the
    node of its derivative where that is not zero.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.main = program, program.main
        self.graph = Graph()
        self.values: dict[int, int] = {}
        self.tangents: dict[int, int] = {}
        self.functions: list[GraphFunction] = []
        self._derived: dict[tuple[int, Moving], _Derived] = {}

    def declare(self, wrt: Sequence[str], suffix: str) -> None:
        """Declares the inputs, and behind them the directions of the inputs in wrt."""
        entries = {v: k for k, v in enumerate(self.main.value) if self.main.op[k] == "input"}
        for name, shape in self.main.inputs.items():
            for i, k in enumerate(self.graph.declare(name, shape)):
                if (name, i) in entries:
                    self.values[entries[name, i]] = k
        for name in wrt:
            for i, k in enumerate(self.graph.declare(name + suffix, self.main.inputs[name])):
                if (name, i) in entries:
                    self.tangents[entries[name, i]] = k

    def add(self, k: int) -> None:
        """Enters the value and the derivative of the next node."""
        op, args, value = self.main.op[k], self.main.args[k], self.main.value[k]
        if op == "constant":
            self.values[k] = self.graph.node(op, value=value)
        elif op == "call":
            moving = tuple(i for i, a in enumerate(args) if a in self.tangents)
            derived = self._function(value, moving)
            operands = [self.values[a] for a in args] + [self.tangents[args[i]] for i in moving]
            first = self.graph.call(derived.number, operands, derived.size) + 1
            for i, source in enumerate(derived.sources):
                self.values[k + 1 + i] = first + i
                if source is not None:
                    kind, at = source
                    self.tangents[k + 1 + i] = first + at if kind == Y else operands[at]

    def _function(self, f: int, moving: Moving) -> _Derived:
        if (f, moving) not in self._derived:
            function = self.program.functions[f]
            graph, sources = alongside(function.graph, Y, X, moving)
            differentiated = GraphFunction(function.name, graph)
            self._derived[f, moving] = _Derived(
                len(self.functions), len(differentiated.results), sources
            )
            self.functions.append(differentiated)
        return self._derived[f, moving]


def tangent(program: Program, wrt: Sequence[str], suffix: str = "_direction") -> Program:
    """The program with derivatives: inputs named in wrt have a further input "<name>_direction" of
    the same shape behind all others, every output a further one "<name>_direction", the derivative
    along them.
    """
    program = calls_only(program)
    new = _Tangent(program)
    new.declare(wrt, suffix)
    for k in range(len(program.main)):
        new.add(k)
    graph, outputs = new.graph, program.main.outputs
    graph.outputs = placed(outputs, new.values)
    zero = graph.constant(0.0)
    for name, (shape, nodes) in outputs.items():
        graph.outputs[name + suffix] = Output(
            shape, tuple(new.tangents.get(k, zero) for k in nodes)
        )
    return Program(graph, tuple(new.functions))
