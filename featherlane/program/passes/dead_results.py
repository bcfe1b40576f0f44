"""Dead results of calls, and the operations that only they need, are eliminated.

A scan composes maps of which often only a vector is read in the end. Calls of a function whose live
results are the same share a clone of the function that computes these results alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import compress
from typing import NamedTuple

import numpy as np

from featherlane.program.graph import Graph, Output
from featherlane.program.program import GraphFunction, Program, X, Y
from featherlane.program.rewrite import copied, placed, simplify

FEW = 0.1  # of the calls of a function: fewer are not worth a clone
Mask = bytes  # for each result whether it is read


class _Cut(NamedTuple):
    """The graph of a function for some of its results, and the parameters that these need."""

    graph: Graph
    parameters: tuple[int, ...]


class _Cutter:
    """Clones of functions for some of their results. Parameters that are numbers come last."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._cuts: dict[tuple[int, Mask], _Cut] = {}
        main = program.main
        self.calls = main.nodes_of("call")
        self._numbers: dict[int, set[int]] = {}
        for k in self.calls:
            if main.value[k] not in self._numbers:
                numbers = {i for i, a in enumerate(main.args[k]) if main.op[a] == "constant"}
                self._numbers[main.value[k]] = numbers

    def cut(self, f: int, mask: Mask) -> _Cut:
        if (f, mask) not in self._cuts:
            self._cuts[f, mask] = self._cut(f, mask)
        return self._cuts[f, mask]

    def _cut(self, f: int, mask: Mask) -> _Cut:
        graph = self.program.functions[f].graph
        nodes = tuple(k for k, read in zip(graph.outputs[Y].nodes, mask, strict=True) if read)
        part = simplify(graph.replaced(outputs={Y: Output((len(nodes),), nodes)}))
        used = sorted(v[1] for op, v in zip(part.op, part.value, strict=True) if op == "input")
        numbers = self._numbers[f]
        parameters = sorted(used, key=lambda i: (i in numbers, i))
        new = Graph()
        entries = new.declare(X, (len(parameters),))
        inputs = {(X, i): k for i, k in zip(parameters, entries, strict=True)}
        node_map = copied(part, new, inputs)
        new.outputs = {Y: Output((len(nodes),), tuple(node_map[k] for k in part.outputs[Y].nodes))}
        return _Cut(new, tuple(parameters))


def _masks(
    program: Program, cutter: _Cutter, clones: list[set[Mask]] | None = None
) -> dict[int, Mask]:
    """Returns the mask of live results of each call that has any, the last call first. clones: the
    masks that each function has a clone for, by default all.
    """
    main, masks = program.main, dict[int, Mask]()
    read = bytearray(len(main))
    for _, nodes in main.outputs.values():
        for k in nodes:
            read[k] = 1
    for k in reversed(cutter.calls):
        f, args = main.value[k], main.args[k]
        mask = bytes(read[k + 1 : k + 1 + len(program.functions[f].results)])
        if 1 in mask:
            masks[k] = mask if clones is None else _smallest_superset(mask, clones[f])
            for i in cutter.cut(f, masks[k]).parameters:
                read[args[i]] = 1
    return masks


def _smallest_superset(mask: Mask, known: set[Mask]) -> Mask:
    """The smallest known mask that contains this one; all results if there is none."""
    if mask in known:
        return mask
    wanted = np.frombuffer(mask, bool)
    wider = [m for m in known if not (wanted & ~np.frombuffer(m, bool)).any()]
    return min(wider, key=lambda m: m.count(1), default=b"\1" * len(mask))


def _worth_cloning(program: Program, calls: Iterable[tuple[int, Mask]]) -> list[set[Mask]]:
    """The masks of each function that enough calls have. calls: function and mask of each."""
    counts = Counter(calls)
    total: Counter[int] = Counter()
    for (f, _), n in counts.items():
        total[f] += n
    worth: list[set[Mask]] = [set() for _ in program.functions]
    for (f, mask), n in counts.items():
        if n >= FEW * total[f]:
            worth[f].add(mask)
    return worth


def dead_results(program: Program) -> Program:
    """The program without dead calls and results, and without the parameters that only they need.
    The parameters that are numbers come last in each function.
    """
    main, cutter = program.main, _Cutter(program)
    calls = [(main.value[k], mask) for k, mask in _masks(program, cutter).items()]
    masks = _masks(program, cutter, _worth_cloning(program, calls))
    clones: dict[tuple[int, Mask], int] = {}
    new, node_map = Graph(), [-1] * len(main)
    for name, shape in main.inputs.items():
        new.declare(name, shape)
    for k in (*main.nodes_of("input"), *main.nodes_of("constant")):
        node_map[k] = new.node(main.op[k], value=main.value[k])
    for k in filter(masks.__contains__, cutter.calls):
        key, args = (main.value[k], masks[k]), main.args[k]
        operands = [node_map[args[i]] for i in cutter.cut(*key).parameters]
        count = key[1].count(1)
        first = new.call(clones.setdefault(key, len(clones)), operands, count) + 1
        live = compress(range(k + 1, k + 1 + len(key[1])), key[1])
        for old, result in zip(live, range(first, first + count), strict=True):
            node_map[old] = result
    new.outputs = placed(main.outputs, node_map)
    functions = [
        GraphFunction(program.functions[f].name, cutter.cut(f, mask).graph) for f, mask in clones
    ]
    return Program(new, tuple(functions))
