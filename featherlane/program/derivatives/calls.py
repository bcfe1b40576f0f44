"""Derivatives of programs of calls along directions, as programs: forward mode.

The function that a call applies becomes one that gives the derivatives of its results as well, from
directions of its operands. Which of those have a direction is part of which function it is: what
does not depend on the variables is computed as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.program.derivatives.graphs import alongside
from featherlane.program.graph import Graph, Output, placed
from featherlane.program.passes.calls_only import calls_only
from featherlane.program.program import GraphFunction, Program, X, Y

Moving = tuple[int, ...]  # the parameters that have a direction


class _Derived(NamedTuple):
    """A function with derivatives. places: of each result of the old function where its derivative
    is: a result ("y"), an operand ("x"), or nowhere, as it is zero.
    """

    number: int
    size: int
    places: list[tuple[str, int] | None]


class _Tangent:
    """The new main graph. own, along: for each node of the old one its value, and the derivative
    where that is not zero.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.main = program, program.main
        self.graph = Graph()
        self.own: dict[int, int] = {}
        self.along: dict[int, int] = {}
        self.functions: list[GraphFunction] = []
        self._derived: dict[tuple[int, Moving], _Derived] = {}

    def declare(self, wrt: Sequence[str], suffix: str) -> None:
        """The inputs, and behind them the directions of those in wrt."""
        values = {v: k for k, v in enumerate(self.main.value) if self.main.op[k] == "input"}
        for name, shape in self.main.inputs.items():
            for i, k in enumerate(self.graph.declare(name, shape)):
                if (name, i) in values:
                    self.own[values[name, i]] = k
        for name in wrt:
            for i, k in enumerate(self.graph.declare(name + suffix, self.main.inputs[name])):
                if (name, i) in values:
                    self.along[values[name, i]] = k

    def add(self, k: int) -> None:
        """One node after another."""
        op, args, value = self.main.op[k], self.main.args[k], self.main.value[k]
        if op == "constant":
            self.own[k] = self.graph.node(op, value=value)
        elif op == "call":
            moving = tuple(i for i, a in enumerate(args) if a in self.along)
            derived = self._function(value, moving)
            operands = [self.own[a] for a in args] + [self.along[args[i]] for i in moving]
            first = self.graph.call(derived.number, operands, derived.size) + 1
            for i, place in enumerate(derived.places):
                self.own[k + 1 + i] = first + i
                if place is not None:
                    which, at = place
                    self.along[k + 1 + i] = first + at if which == Y else operands[at]

    def _function(self, f: int, moving: Moving) -> _Derived:
        if (f, moving) not in self._derived:
            function = self.program.functions[f]
            graph, places = alongside(function.graph, Y, X, moving)
            made = GraphFunction(function.name, graph)
            self._derived[f, moving] = _Derived(len(self.functions), len(made.results), places)
            self.functions.append(made)
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
    graph.outputs = placed(outputs, new.own)
    zero = graph.constant(0.0)
    for name, (shape, nodes) in outputs.items():
        graph.outputs[name + suffix] = Output(shape, tuple(new.along.get(k, zero) for k in nodes))
    return Program(graph, tuple(new.functions))
