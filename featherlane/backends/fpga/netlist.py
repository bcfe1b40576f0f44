"""The signals of a design: what each node is called, in which module it lies, which of its
registers are read, and by whom.

A module computes the nodes of one call. What several calls share lies in a module of its pool,
inputs that are read late in a module of their own.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from functools import cached_property
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.labels import NO_LABELS, Labels, PartLabel, joined
from featherlane.backends.fpga.text import Signal, constant, identifier
from featherlane.errors import CompileError
from featherlane.program.analysis.pipeline import Pipeline
from featherlane.program.graph import Graph
from featherlane.program.op import CONDITIONS

CALL = re.compile(r"_c\d+$")  # behind the name of one of several modules of a tag
WIRE = -1  # the number of the register that is none: the result as it is computed
Unit = tuple[Hashable, str, int]  # pool, kind and number


class Field(NamedTuple):
    """Some bits of a word of a stream: an entry of an input, or a node that is a result."""

    signal: Signal
    node: int
    offset: int

    def of(self, word: str) -> str:
        """Its bits of a word."""
        return f"{word}[{self.offset + self.signal.width - 1}:{self.offset}]"


def constant_integer(datapath: Datapath, k: int) -> int:
    """The integer of a constant. Raises CompileError for one that its format does not hold."""
    value, to = datapath.graph.number(k), datapath.format(k)
    x = None if value is None else round(value * 2.0**to.fraction)
    if x is None or not to.least <= x <= to.most:
        raise CompileError(f"node {k} is the constant {value}, which {to} does not hold")
    return x


class Netlist:
    """The signals and modules of a datapath in a pipeline."""

    def __init__(
        self,
        name: str,
        datapath: Datapath,
        pipeline: Pipeline,
        timely: bool = False,
        labels: Labels = NO_LABELS,
    ) -> None:
        """timely: inputs come in the cycles in which they start, and not all with the first.
        labels: for names and comments.
        """
        self.name, self.datapath, self.pipeline = name, datapath, pipeline
        self.timely, self.labels = timely, labels
        self.graph: Graph = datapath.graph
        self.home = _homes(name, self.graph)
        _check(self.graph, pipeline)

    # Names

    @cached_property
    def _plain(self) -> list[str]:
        names = []
        for k, (op, value) in enumerate(zip(self.graph.op, self.graph.value, strict=True)):
            if op == "input":
                parts = "in", identifier(value[0]), str(value[1]), self.labels.words.get(value)
                names.append("_".join(filter(None, parts)))
            else:
                names.append(f"{_tag(self.graph.tag[k])}_{k}")
        return names

    def signal(self, k: int, register: int = WIRE) -> Signal:
        """The result of a node, or one of its registers."""
        name = self._plain[k] if register == WIRE else f"{self._plain[k]}_r{register}"
        form, label = self.datapath.formats[k], self._labels.get(k, "")
        if form is None:
            return Signal(name, 1, number=False, label=label)
        return Signal(name, form.width, label=label)

    @cached_property
    def _labels(self) -> dict[int, str]:
        """The labels of inputs and results."""
        graph, labels = self.graph, self.labels
        return labels.results(graph) | {k: labels.node(graph, k) for k in graph.nodes_of("input")}

    def origin(self, k: int) -> str:
        """The label of a node, or the place that computes it, for modules that read it."""
        return self._labels.get(k) or self.labels.node(self.graph, k)

    @cached_property
    def module_labels(self) -> dict[str, PartLabel]:
        """The labels of modules, by their names."""
        labels = dict[str, PartLabel]()
        for k, home in enumerate(self.home):
            if self.graph.args[k] and (part := self.labels.part(self.graph.tag[k])):
                labels.setdefault(home, part)
        return labels

    def instance(self, home: str) -> str:
        """The name of a module's instance."""
        label = self.module_labels.get(home)
        return "_".join(filter(None, ("part", home, label and label.word)))

    @property
    def legend(self) -> list[str]:
        """The meanings of the names of modules and signals, as lines of a comment."""
        labels, graph, interval = self.module_labels, self.graph, self.pipeline.interval
        several, rows = [home for home in labels if CALL.search(home)], dict[str, str]()
        names = dict[str, str]()
        for k, home in enumerate(self.home):
            if graph.args[k]:
                names.setdefault(home, _tag(graph.tag[k]))
        for home, label in labels.items():
            rows[names[home]] = f"{names[home]}: {joined([str(label), label.quantities])}"
        if not rows:
            return []
        first = next(iter(rows))
        for name in names.values():
            rows.setdefault(name, f"{name}: for all joints at once")
        number = next(k for k, tag in enumerate(graph.tag) if graph.args[k] and _tag(tag) == first)
        signal = self._plain[number]
        lines = ["Names:", *rows.values()]
        lines.append(f"{signal}: the result of operation {number}, which {first} computes")
        if any(registers - {WIRE} for registers in self.registers):
            lines.append(f"{signal}_r0, _r1 ...: registers behind it, {interval} cycles each")
        if several:
            name = several[0].removeprefix(f"{self.name}_")
            lines.append(f"{name}: one of several modules of {names[several[0]]}, a call each")
        if any("_pool" in home for home in self.unit_home.values()):
            lines.append("pool0 ...: units that operations of several modules share")
        return lines

    def is_constant(self, k: int) -> bool:
        """Whether a node is a constant, which is written where it is read."""
        return self.graph.op[k] == "constant"

    def is_wires(self, k: int) -> bool:
        """Whether a node is only wires behind its operand."""
        return self.pipeline.operators[k] is None and bool(self.graph.args[k])

    def read(self, k: int, cycle: int) -> Signal:
        """The signal that a cycle reads as the result of a node."""
        if self.is_constant(k):
            to = self.datapath.format(k)
            return constant(constant_integer(self.datapath, k), to.width)
        return self.signal(k, self.pipeline.register(k, cycle))

    def cycle(self, k: int, register: int = WIRE) -> int:
        """A cycle in which a register of a node is read."""
        return self.pipeline.ready(k) + (register + 1) * self.pipeline.interval

    def late(self, k: int) -> int:
        """The registers in which an input waits until it starts."""
        return 0 if self.timely else self.pipeline.start[k] // self.pipeline.interval

    def result_of(self, k: int) -> int:
        """The node whose result comes out of the unit of a node: itself, or the sum of a fused
        product.
        """
        return self._sums.get(k, k)

    def unit_cycles(self, k: int) -> int:
        """The cycles of the unit of a node, with those of the sum that it computes, too."""
        return self.pipeline.ready(self.result_of(k)) - self.pipeline.start[k]

    @cached_property
    def _sums(self) -> dict[int, int]:
        """The sum of each fused product."""
        fused = self.datapath.fused
        return {a: k for k, args in enumerate(self.graph.args) for a in args if a in fused}

    # Who reads what

    @cached_property
    def registers(self) -> list[set[int]]:
        """The registers of each node, WIRE among them, that something reads. An input's wire is
        there in any case.
        """
        read = self.pipeline.registers_read
        return [
            registers | {WIRE} if op == "input" else registers
            for op, registers in zip(self.graph.op, read, strict=True)
        ]

    @cached_property
    def unread(self) -> list[int]:
        """The number of last bits of each node that nothing reads: those below the other operand of
        a sum, and below what the sum keeps.
        """
        least = [set[int]() for _ in self.graph.op]
        for out in self.graph.outputs.values():
            for k in out.nodes:
                least[k].add(0)
        for k, args in enumerate(self.graph.args):
            for n, a in enumerate(args):
                inside = self.home[a] == self.home[k]
                least[a].add(self._unread_by(k, n) if inside else 0)
        return [min(bits, default=0) for bits in least]

    def _unread_by(self, k: int, n: int) -> int:
        args = self.graph.args[k]
        if self.graph.op[k] != "add" and (self.graph.op[k] != "sub" or n == 1):
            return 0
        form, other = self.datapath.format(args[n]), self.datapath.format(args[1 - n])
        below = form.fraction - max(other.fraction, self.datapath.format(k).fraction)
        return min(max(below, 0), form.width - 1)

    @cached_property
    def units(self) -> dict[Unit, list[int]]:
        """The nodes of each shared unit."""
        nodes = defaultdict[Unit, list[int]](list)
        for k, operator in enumerate(self.pipeline.operators):
            if operator is not None and operator.shared:
                nodes[self.pipeline.pool[k], operator.kind, self.pipeline.unit[k]].append(k)
        return dict(nodes)

    @cached_property
    def unit_home(self) -> dict[Hashable, str]:
        """The module in which the units of each pool lie."""
        calls = defaultdict[Hashable, set[str]](set)
        for (pool, *_), nodes in self.units.items():
            calls[pool] |= {self.home[k] for k in nodes}
        homes = dict[Hashable, str]()
        for pool, homes_of_pool in calls.items():
            several = f"{self.name}_pool{len(homes)}"
            homes[pool] = several if len(homes_of_pool) > 1 else next(iter(homes_of_pool))
        return homes

    # Words of the streams

    @cached_property
    def inputs(self) -> list[Field]:
        """The fields of a word of the stream of inputs: live entries, in the order of inputs."""
        names = list(self.graph.inputs)
        nodes = self.graph.nodes_of("input")
        nodes.sort(key=lambda k: (names.index(self.graph.value[k][0]), self.graph.value[k][1]))
        return list(_packed((self.signal(k), k) for k in nodes))

    @cached_property
    def outputs(self) -> list[Field]:
        """The fields of a word of the stream of results: each node that is one, once for each cycle
        in which it is read; no constants.
        """
        read = [
            (k, self.pipeline.read_in(name))
            for name, out in self.graph.outputs.items()
            for k in out.nodes
        ]
        live = [(k, cycle) for k, cycle in dict.fromkeys(read) if not self.is_constant(k)]
        return list(_packed((self.read(k, cycle), k) for k, cycle in live))


def _packed(signals: Iterator[tuple[Signal, int]]) -> Iterator[Field]:
    offset = 0
    for signal, k in signals:
        yield Field(signal, k, offset)
        offset += signal.width


def _tag(tag: object) -> str:
    return "main" if tag is None else identifier(str(tag))


def _homes(name: str, graph: Graph) -> list[str]:
    """The module of each node. Conditions without a call lie with their first reader."""
    calls: list[Hashable] = [
        "inputs" if op == "input" else getattr(tag, "call", 0) or _tag(tag)
        for tag, op in zip(graph.tag, graph.op, strict=True)
    ]
    for k in reversed(range(len(graph))):
        for a in graph.args[k]:
            if graph.op[a] in CONDITIONS and not getattr(graph.tag[a], "call", 0):
                calls[a] = calls[k]
    tags = dict[Hashable, str]()
    for k, call in enumerate(calls):
        if graph.args[k]:
            tags.setdefault(call, _tag(graph.tag[k]))
    same = Counter(tags.values())
    title = {call: f"{tag}_c{call}" if same[tag] > 1 else tag for call, tag in tags.items()}
    return [f"{name}_{title.get(call, 'inputs')}" for call in calls]


def _check(graph: Graph, pipeline: Pipeline) -> None:
    """Raises CompileError where a pipeline is not one of this graph, or starts before cycle 0."""
    if len(pipeline.start) != len(graph):
        raise CompileError(
            f"the pipeline has {len(pipeline.start)} nodes, the datapath {len(graph)}"
        )
    if min(pipeline.start, default=0) < 0:
        raise CompileError(f"the pipeline starts in cycle {min(pipeline.start)}: wanted 0 or later")
    _check_times(graph, pipeline)
    for k in graph.nodes_of("power_of_two"):
        readers = [n for n, args in enumerate(graph.args) if k in args]
        if any(graph.op[n] != "mul" for n in readers):
            raise CompileError(f"node {k} (power_of_two) has a reader that is no product")


def _check_times(graph: Graph, pipeline: Pipeline) -> None:
    """Raises CompileError where a node is read before it is there."""
    reads = [(a, pipeline.start[k]) for k, args in enumerate(graph.args) for a in args]
    for name, out in graph.outputs.items():
        reads += [(k, pipeline.read_in(name)) for k in out.nodes]
    for k, cycle in reads:
        if graph.op[k] != "constant" and cycle < pipeline.ready(k):
            raise CompileError(
                f"node {k} is there in cycle {pipeline.ready(k)} and read in cycle {cycle}"
            )
