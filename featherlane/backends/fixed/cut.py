"""Datapaths cut into parts that are computed one after the other, by circuits of their own.

Nothing is computed anew: a value that crosses keeps its node, its format and its tag, and becomes
an output of the part that computes it and an input of those that read it. So the parts, evaluated
in turn, give the integers of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.errors import CompileError
from featherlane.program.graph import Graph, Output
from featherlane.program.op import CONDITIONS

COPIED = {"constant", *CONDITIONS}  # each part has its own: a condition cannot be a result
Entry = tuple[str, int]  # of an input or output, by its name: a position in C order


def nodes_behind(graph: Graph, outputs: Collection[str]) -> set[int]:
    """Returns the nodes of some outputs, by their names, and all that these are computed from."""
    found = {k for name in outputs for k in graph.outputs[name].nodes}
    for k in reversed(range(len(graph))):
        if k in found:
            found |= {*graph.args[k]}
    return found


class CutPart(NamedTuple):
    """A part of a datapath. place: of the nodes of the whole, those that it has."""

    datapath: Datapath
    place: Mapping[int, int]


def cut(datapath: Datapath, parts: Sequence[str]) -> dict[str, Datapath]:
    """Returns the datapaths of `parted`."""
    return {name: part.datapath for name, part in parted(datapath, parts).items()}


def parted(datapath: Datapath, parts: Sequence[str]) -> dict[str, CutPart]:
    """Returns the parts of a datapath by their names, each with the inputs of the whole that it
    reads and the outputs that it gives. parts: the name of the part of each node.

    A value that crosses is called after the part that gives it and the output of the whole that it
    is an entry of, as "pass_M"; values that are no entry of any are entries of one vector, as
    "pass_to_factor", which the part that gives them has as an output. Raises CompileError for parts
    that read each other's values.
    """
    graph = datapath.graph
    _check_order(graph, parts)
    entry = _entries(graph)
    made = {name: _Part(datapath, name, parts) for name in dict.fromkeys(parts)}
    for name, part in made.items():
        for source, nodes in part.crossing.items():
            unnamed = [k for k in nodes if k not in entry]
            vector = f"{source}_to_{name}"
            place = {k: (vector, n) for n, k in enumerate(unnamed)}
            part.read({k: place[k] if k in place else entry[k] for k in nodes}, source, vector)
            if unnamed:
                made[source].outputs[vector] = Output((len(unnamed),), tuple(unnamed))
    return {name: part.made() for name, part in made.items()}


def _entries(graph: Graph) -> dict[int, Entry]:
    """The first output that each node is an entry of."""
    found: dict[int, Entry] = {}
    for name, out in graph.outputs.items():
        for position, k in enumerate(out.nodes):
            found.setdefault(k, (name, position))
    return found


def _check_order(graph: Graph, parts: Sequence[str]) -> None:
    """Raises CompileError where a part reads what is computed from its own values elsewhere."""
    reads: dict[str, set[str]] = {name: set() for name in parts}
    for k, args in enumerate(graph.args):
        for a in args:
            if parts[a] != parts[k] and graph.op[a] not in COPIED | {"input"}:
                reads[parts[k]].add(parts[a])
    done: set[str] = set()
    while ready := {name for name, others in reads.items() if others <= done} - done:
        done |= ready
    if left := sorted(reads.keys() - done):
        raise CompileError(f"parts {', '.join(left)} read each other's values: wanted an order")


class _Part:
    """A part while it is being cut out. crossing: the nodes that it reads, by the part they are
    of.
    """

    def __init__(self, datapath: Datapath, name: str, parts: Sequence[str]) -> None:
        self.whole, self.name = datapath, name
        graph = datapath.graph
        self.own = self._own(parts)
        self.crossing: dict[str, list[int]] = {}
        for k in sorted(self.own):
            for a in graph.args[k]:
                if a not in self.own:
                    nodes = self.crossing.setdefault(parts[a], [])
                    if a not in nodes:
                        nodes.append(a)
        self.named: dict[int, Entry] = {}
        self.inputs = {
            name: shape
            for name, shape in graph.inputs.items()
            if any(graph.op[k] == "input" and graph.value[k][0] == name for k in self.own)
        }
        self.outputs = {
            name: out
            for name, out in graph.outputs.items()
            if any(parts[k] == self.name for k in out.nodes if graph.op[k] != "constant")
        }
        for output in self.outputs.values():
            self.own |= {k for k in output.nodes if graph.op[k] == "constant"}

    def _own(self, parts: Sequence[str]) -> set[int]:
        """The nodes of the part, and inputs, constants and conditions that it reads."""
        graph = self.whole.graph
        found = {k for k, name in enumerate(parts) if name == self.name}
        found = {k for k in found if graph.op[k] not in COPIED | {"input"}}
        for k in reversed(range(len(graph))):
            if k in found:
                found |= {a for a in graph.args[k] if graph.op[a] in COPIED | {"input"}}
        return found

    def read(self, named: Mapping[int, Entry], source: str, vector: str) -> None:
        """Notes what the nodes that cross are called here."""
        unnamed = sum(name == vector for name, _ in named.values())
        for k, (name, position) in named.items():
            own = name if name == vector else f"{source}_{name}"
            self.named[k] = own, position
            outputs = self.whole.graph.outputs
            self.inputs[own] = (unnamed,) if name == vector else outputs[name].shape

    def made(self) -> CutPart:
        whole = self.whole.graph
        graph, formats, place = Graph(), [], dict[int, int]()
        graph.inputs = dict(self.inputs)
        for k in sorted(self.own | self.named.keys()):
            crosses = k in self.named
            place[k] = len(graph)
            graph.op.append("input" if crosses else whole.op[k])
            graph.args.append(() if crosses else tuple(place[a] for a in whole.args[k]))
            graph.value.append(self.named[k] if crosses else whole.value[k])
            graph.tag.append(whole.tag[k])
            if not crosses and k in whole.facts:
                graph.facts[place[k]] = whole.facts[k]
            formats.append(self.whole.formats[k])
        for name, (shape, nodes) in self.outputs.items():
            assert math.prod(shape) == len(nodes), "an output has all its entries"
            graph.outputs[name] = Output(shape, tuple(place[k] for k in nodes))
        assert not self.whole.fused & self.named.keys(), "a fused product is read in its own part"
        fused = frozenset(place[k] for k in self.whole.fused & self.own)
        return CutPart(Datapath(graph, tuple(formats), fused), place)
