"""Datapaths cut into parts that separate circuits compute one after the other.

Nothing is computed twice: a value that crosses a cut keeps its node, its format and its tag, and
becomes an output of the part that computes it and an input of the parts that read it. So the parts,
evaluated one after another, compute the integers of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.errors import CompileError
from featherlane.program.graph import Graph, Output
from featherlane.program.op import CONDITIONS

COPIED = {"constant", *CONDITIONS}  # into each part that reads them: conditions are no results
Entry = tuple[str, int]  # of an input or output, by its name: a position in C order


def nodes_behind(graph: Graph, outputs: Collection[str]) -> set[int]:
    """Returns the nodes of some outputs, by their names, and all nodes that they depend on."""
    nodes = {k for name in outputs for k in graph.outputs[name].nodes}
    for k in reversed(range(len(graph))):
        if k in nodes:
            nodes |= {*graph.args[k]}
    return nodes


class CutPart(NamedTuple):
    """A part of a datapath. node_map: from nodes of the whole to nodes of the part."""

    datapath: Datapath
    node_map: Mapping[int, int]


def cut(datapath: Datapath, parts: Sequence[str]) -> dict[str, Datapath]:
    """Returns the datapaths of `parted`."""
    return {name: part.datapath for name, part in parted(datapath, parts).items()}


def parted(datapath: Datapath, parts: Sequence[str]) -> dict[str, CutPart]:
    """Returns the parts of a datapath by their names, each with the inputs of the whole that it
    reads and the outputs that it computes. parts: the name of the part of each node.

    A value that crosses a cut and is an entry of an output of the whole is named after the part
    that computes it and that output, as "pass_M". The other values that cross are entries of one
    vector, as "pass_to_factor", an output of the part that computes them. Raises CompileError for
    parts that read each other's values.
    """
    graph = datapath.graph
    _check_order(graph, parts)
    entry = _entries(graph)
    cutters = {name: _Part(datapath, name, parts) for name in dict.fromkeys(parts)}
    for name, part in cutters.items():
        for source, nodes in part.crossing.items():
            unnamed = [k for k in nodes if k not in entry]
            vector = f"{source}_to_{name}"
            position = {k: (vector, n) for n, k in enumerate(unnamed)}
            part.read(
                {k: position[k] if k in position else entry[k] for k in nodes}, source, vector
            )
            if unnamed:
                cutters[source].outputs[vector] = Output((len(unnamed),), tuple(unnamed))
    return {name: part.built() for name, part in cutters.items()}


def _entries(graph: Graph) -> dict[int, Entry]:
    """The first entry of an output that each node is."""
    entries: dict[int, Entry] = {}
    for name, out in graph.outputs.items():
        for position, k in enumerate(out.nodes):
            entries.setdefault(k, (name, position))
    return entries


def _check_order(graph: Graph, parts: Sequence[str]) -> None:
    """Raises CompileError for parts that depend on each other."""
    reads: dict[str, set[str]] = {name: set() for name in parts}
    for k, args in enumerate(graph.args):
        for a in args:
            if parts[a] != parts[k] and graph.op[a] not in COPIED | {"input"}:
                reads[parts[k]].add(parts[a])
    done: set[str] = set()
    while ready := {name for name, others in reads.items() if others <= done} - done:
        done |= ready
    if circular := sorted(reads.keys() - done):
        raise CompileError(f"parts {', '.join(circular)} read each other's values: wanted an order")


class _Part:
    """A part under construction. nodes: of the whole, that it has; crossing: the nodes that it
    reads from other parts, by part.
    """

    def __init__(self, datapath: Datapath, name: str, parts: Sequence[str]) -> None:
        self.whole, self.name = datapath, name
        graph = datapath.graph
        self.nodes = self._nodes(parts)
        self.crossing: dict[str, list[int]] = {}
        for k in sorted(self.nodes):
            for a in graph.args[k]:
                if a not in self.nodes:
                    nodes = self.crossing.setdefault(parts[a], [])
                    if a not in nodes:
                        nodes.append(a)
        self.named: dict[int, Entry] = {}
        self.inputs = {
            name: shape
            for name, shape in graph.inputs.items()
            if any(graph.op[k] == "input" and graph.value[k][0] == name for k in self.nodes)
        }
        self.outputs = {
            name: out
            for name, out in graph.outputs.items()
            if any(parts[k] == self.name for k in out.nodes if graph.op[k] != "constant")
        }
        for output in self.outputs.values():
            self.nodes |= {k for k in output.nodes if graph.op[k] == "constant"}

    def _nodes(self, parts: Sequence[str]) -> set[int]:
        """The nodes of the part, with the inputs, constants and conditions that it reads."""
        graph = self.whole.graph
        nodes = {k for k, name in enumerate(parts) if name == self.name}
        nodes = {k for k in nodes if graph.op[k] not in COPIED | {"input"}}
        for k in reversed(range(len(graph))):
            if k in nodes:
                nodes |= {a for a in graph.args[k] if graph.op[a] in COPIED | {"input"}}
        return nodes

    def read(self, named: Mapping[int, Entry], source: str, vector: str) -> None:
        """Declares the nodes that cross from another part as entries of inputs."""
        unnamed = sum(name == vector for name, _ in named.values())
        for k, (name, position) in named.items():
            input_name = name if name == vector else f"{source}_{name}"
            self.named[k] = input_name, position
            outputs = self.whole.graph.outputs
            self.inputs[input_name] = (unnamed,) if name == vector else outputs[name].shape

    def built(self) -> CutPart:
        whole = self.whole.graph
        graph, formats, node_map = Graph(), [], dict[int, int]()
        graph.inputs = dict(self.inputs)
        for k in sorted(self.nodes | self.named.keys()):
            crosses = k in self.named
            node_map[k] = len(graph)
            graph.op.append("input" if crosses else whole.op[k])
            graph.args.append(() if crosses else tuple(node_map[a] for a in whole.args[k]))
            graph.value.append(self.named[k] if crosses else whole.value[k])
            graph.tag.append(whole.tag[k])
            if not crosses and k in whole.facts:
                graph.facts[node_map[k]] = whole.facts[k]
            formats.append(self.whole.formats[k])
        for name, (shape, nodes) in self.outputs.items():
            assert math.prod(shape) == len(nodes), "an output has all its entries"
            graph.outputs[name] = Output(shape, tuple(node_map[k] for k in nodes))
        assert not self.whole.fused & self.named.keys(), (
            "a fused product is read in the part that computes it"
        )
        fused = frozenset(node_map[k] for k in self.whole.fused & self.nodes)
        return CutPart(Datapath(graph, tuple(formats), fused), node_map)
