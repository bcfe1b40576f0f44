"""Time-multiplexing: isomorphic segments of a datapath on one kernel. Graphs that are equal except
for constants become one graph, which reads the constants that differ from a table, by the number of
the time slot.

Each slot computes the same integers as its segment alone. To this end formats are united:
corresponding nodes of the members have the hull of their formats, in the flat datapath too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import Evaluator
from featherlane.backends.fixed.formats import Format
from featherlane.errors import CompileError
from featherlane.program.graph import Graph, Output
from featherlane.program.op import COMMUTES
from featherlane.program.passes.segments import GraphSegment
from featherlane.program.program import X, Y

Array = Any
Name = TypeVar("Name", bound=Hashable)


class KernelPort(NamedTuple):
    """An entry of a kernel's input. nodes: the node of the flat datapath that each member reads;
    table: for a constant, the integer of each member.
    """

    nodes: tuple[int, ...]
    table: tuple[int, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether all members read the same value."""
        return not self.table and len(set(self.nodes)) == 1


@dataclass(frozen=True, eq=False)
class SlotKernel:
    """One graph for isomorphic segments.

    members: the segments. datapath: of the kernel, with an entry of the input X for each port, and
    the results of a member as output Y; its formats are those of the first member. ports: in the
    order of X. node_map: from nodes of a member's graph to nodes of the kernel.
    """

    members: tuple[GraphSegment, ...]
    datapath: Datapath
    ports: tuple[KernelPort, ...]
    node_map: tuple[int, ...]

    def of(self, members: Sequence[int]) -> SlotKernel:
        """Returns the kernel of some members, by their numbers, in this order."""
        chosen = lambda row: tuple(row[n] for n in members if row)
        ports = tuple(KernelPort(chosen(port.nodes), chosen(port.table)) for port in self.ports)
        return replace(self, members=chosen(self.members), ports=ports)

    @property
    def gives(self) -> list[tuple[int, ...]]:
        """For each entry of Y the node of the flat datapath that each member computes."""
        return list(zip(*(member.gives for member in self.members), strict=True))

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator(self.datapath)

    def __call__(self, known: Mapping[int, Array]) -> dict[int, Array]:
        """Returns the integers (states,) of the members' results, by node of the flat datapath,
        from the integers of the nodes that they read.
        """
        states = len(next(iter(known.values())))
        x = np.empty((len(self.members), states, len(self.ports)), np.int64)
        for i, port in enumerate(self.ports):
            for member in range(len(self.members)):
                x[member, :, i] = port.table[member] if port.table else known[port.nodes[member]]
        y = self._evaluator({X: x}).integers[Y]
        return {
            k: y[member, :, i]
            for i, nodes in enumerate(self.gives)
            for member, k in enumerate(nodes)
        }


# Correspondence


def are_alike(segments: Sequence[GraphSegment]) -> bool:
    """Tells whether segments are equal except for constants, node by node in their order."""
    return not any(_differences(segments))


def _differences(segments: Sequence[GraphSegment]) -> Iterator[str]:
    first, *others = (s.graph for s in segments)
    for other in others:
        if len(other) != len(first) or len(other.outputs[Y].nodes) != len(first.outputs[Y].nodes):
            yield f"{len(first)} and {len(other)} nodes"
            continue
        for k in range(len(first)):
            args, other_args = (
                tuple(sorted(g.args[k])) if g.op[k] in COMMUTES else g.args[k]
                for g in (first, other)
            )
            if first.op[k] != other.op[k] or args != other_args:
                yield f"node {k} ({first.op[k]} and {other.op[k]})"
        if first.outputs[Y].nodes != other.outputs[Y].nodes:
            yield "their results"


def united(datapath: Datapath, groups: Sequence[Sequence[GraphSegment]]) -> Datapath:
    """Returns the datapath in which corresponding nodes of isomorphic segments have one format, the
    `hull` of their formats.
    """
    root = list(range(len(datapath.graph)))

    def find(k: int) -> int:
        while root[k] != k:
            root[k] = k = root[root[k]]
        return k

    for segments in groups:
        for nodes in zip(*(s.nodes for s in segments), strict=True):
            for k in nodes[1:]:
                root[find(k)] = find(nodes[0])
    sets: dict[int, set[Format]] = {}
    for k, form in enumerate(datapath.formats):
        if form is not None:
            sets.setdefault(find(k), set()).add(form)
    hulls = {k: hull(forms) for k, forms in sets.items()}
    formats = tuple(
        None if form is None else hulls[find(k)] for k, form in enumerate(datapath.formats)
    )
    return Datapath(datapath.graph, formats)


def hull(formats: set[Format]) -> Format:
    """Returns the format with the most integer places and the coarsest step of all."""
    before = max(f.width - f.fraction for f in formats)
    fraction = min(f.fraction for f in formats)
    return Format(before + fraction, fraction) if len(formats) > 1 else next(iter(formats))


def slot_kernel(
    datapath: Datapath, segments: Sequence[GraphSegment], tables: Mapping[int, int] | None = None
) -> SlotKernel:
    """Returns the kernel of isomorphic segments of a datapath with `united` formats.

    tables: the integers of inputs that are constant. Raises CompileError for segments that are not
    alike, with the first difference.
    """
    for difference in _differences(segments):
        names = ", ".join(str(s.name) for s in segments)
        raise CompileError(f"segments {names} are not alike: they differ in {difference}")
    ports = [_port(nodes, tables or {}) for nodes in zip(*(s.reads for s in segments), strict=True)]
    first, node_map = segments[0].graph, dict[int, int]()
    new, formats = Graph(), list[Format | None]()
    varying = _varying(datapath, segments)
    entries = new.declare(X, (len(ports) + len(varying),))
    for k in first.nodes_of("input"):
        node_map[k] = entries[first.value[k][1]]
    for i, k in enumerate(varying):
        node_map[k] = entries[len(ports) + i]
        ports.append(KernelPort(tuple(s.nodes[k] for s in segments), varying[k]))
    member_node = {n: k for k, n in node_map.items()}
    formats += [datapath.formats[segments[0].nodes[member_node[n]]] for n in entries]
    for k, (op, args, value) in enumerate(zip(first.op, first.args, first.value, strict=True)):
        if k not in node_map:
            new.current_tag = first.tag[k]
            node_map[k] = new.node(op, *[node_map[a] for a in args], value=value)
            if node_map[k] == len(formats):
                formats.append(datapath.formats[segments[0].nodes[k]])
    out = first.outputs[Y]
    new.outputs[Y] = Output(out.shape, tuple(node_map[k] for k in out.nodes))
    kernel = Datapath(new, tuple(formats))
    return SlotKernel(
        tuple(segments), kernel, tuple(ports), tuple(node_map[k] for k in range(len(first)))
    )


def changed(
    datapath: Datapath,
    kernels: Mapping[Name, SlotKernel],
    change: Callable[[Datapath], Datapath],
) -> tuple[Datapath, dict[Name, SlotKernel]]:
    """Returns a datapath and its kernels with other formats, or fused products. change: from the
    datapath of a kernel to a datapath of the same graph.
    """
    formats, fused = list(datapath.formats), set[int]()
    new_kernels = dict[Name, SlotKernel]()
    for name, kernel in kernels.items():
        new = change(kernel.datapath)
        new_kernels[name] = replace(kernel, datapath=new)
        for member in kernel.members:
            for kernel_node, k in zip(kernel.node_map, member.nodes, strict=True):
                formats[k] = new.formats[kernel_node]
                if kernel_node in new.fused:
                    fused.add(k)
    return Datapath(datapath.graph, tuple(formats), frozenset(fused)), new_kernels


def _port(nodes: tuple[int, ...], tables: Mapping[int, int]) -> KernelPort:
    if all(k in tables for k in nodes):
        return KernelPort(nodes, tuple(tables[k] for k in nodes))
    return KernelPort(nodes)


def _varying(datapath: Datapath, segments: Sequence[GraphSegment]) -> dict[int, tuple[int, ...]]:
    """Returns the integers of the constants that differ, by the nodes of the first segment."""
    integers = {}
    for k in segments[0].graph.nodes_of("constant"):
        values = [s.graph.value[k] for s in segments]
        if len(set(values)) > 1:
            step = datapath.format(segments[0].nodes[k]).step
            integers[k] = tuple(round(x / step) for x in values)
    return integers


# Evaluation


def values(datapath: Datapath, inputs: Mapping[str, Array]) -> dict[int, Array]:
    """Returns the integers of the inputs' nodes and of constants, (states,), from integers (states,
    *shape) by name.
    """
    graph = datapath.graph
    rows = {name: np.asarray(x).reshape(len(x), -1) for name, x in inputs.items()}
    states = max(len(x) for x in rows.values())
    known = {k: rows[graph.value[k][0]][:, graph.value[k][1]] for k in graph.nodes_of("input")}
    for k in graph.nodes_of("constant"):
        integer = round(graph.value[k] / datapath.format(k).step)
        known[k] = np.full(states, integer, np.int64)
    return known


def evaluate(
    datapath: Datapath, kernels: Sequence[SlotKernel], inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Returns the outputs of a datapath as integers (states, *shape), computed by its kernels one
    after the other.
    """
    known = values(datapath, inputs)
    for each in kernels:
        known |= each(known)
    return {
        name: np.stack([known[k] for k in out.nodes], -1).reshape(-1, *out.shape)
        for name, out in datapath.graph.outputs.items()
    }
