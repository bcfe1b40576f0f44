"""Assigns each value of a program to a vector of the scratch memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from featherlane.backends.cpu.graphs.areas import Area, allocate_areas
from featherlane.backends.cpu.graphs.blocks import CodeBlock, cut
from featherlane.backends.cpu.graphs.loop import ArraySlots
from featherlane.backends.cpu.strides import LINE
from featherlane.backends.llvm.lower import Lanes
from featherlane.errors import CompileError
from featherlane.program.calls import Calls, calls_of
from featherlane.program.graph import Graph, Output
from featherlane.program.program import Program, Y

WARM = 80 << 10  # bytes of scratch that a round of tiles may use: little more than the first cache
MOST = 4  # tiles of a round
# The code of so many operations exceeds the second-level cache: then two tiles share one fetch of
# it, if their scratch has at most SHARED bytes
LONG = 24_000
SHARED = 256 << 10
Value = tuple[int, int]  # a step, and a node of its graph
Slot = tuple[int, int]  # an area, and the offset in it, in vectors
Read = tuple[str, int]  # a base, and the offset from it, in vectors


class ColumnLayout(NamedTuple):
    """The layout of the calls of a function, the columns, in groups of as many as a vector holds:
    entry i of all columns of a group side by side. The last group may repeat its last column.
    """

    groups: int
    size: int  # operands of a column
    each: int  # the first vector of the operands of the first group
    result: int  # the first vector of the results of the first group


class TileStep(NamedTuple):
    """A graph as it runs on a tile: once, in blocks, or whole for groups of columns."""

    graph: Graph
    lanes: Lanes
    reads: Mapping[int, Read]  # inputs, by node
    stores: Mapping[int, list[int]]  # vectors by node, from "%result" on if there are columns
    blocks: list[CodeBlock]
    columns: ColumnLayout | None


class MemoryLayout(NamedTuple):
    """The layout of a tile's values: the user's inputs in one part of the scratch, all other values
    in the other part, where values whose lifetimes do not overlap share memory.
    """

    lanes: Lanes
    inputs: list[ArraySlots]
    outputs: list[ArraySlots]
    steps: list[TileStep]
    input_vectors: int  # from one tile to the next
    vectors: int

    @property
    def tiles(self) -> int:
        """The tiles of a round: as many as the caches take."""
        size = (self.vectors + self.input_vectors) * self.lanes.bytes
        code = sum(len(step.graph) for step in self.steps if step.columns is None)
        if code > LONG and 2 * size <= SHARED:
            return 2
        return max(n for n in (1, 2, MOST) if n == 1 or n * size <= WARM)


def memory_layout(program: Program, lanes: Lanes, columns: Lanes) -> MemoryLayout:
    """Lays out the main graph as step 0 and the calls of each function as a further step: lifetimes
    of values first, then their memory, then the steps that read and write it.
    """
    values = _Lifetimes(program, columns.width // lanes.width)
    values.add_results()
    values.add_operands()
    each = {k: values.add_columns(k) for k, calls in enumerate(values.calls, 1) if not calls.single}
    blocks = {step: values.cut(step) for step in range(values.end) if step not in each}
    start, size = allocate_areas(values.areas)
    memory = {value: [start[a] + i for a, i in at] for value, at in values.slots.items()}
    inputs, slots = _input_slots(program.main, program.inputs)
    steps_of = _Steps(values, memory, slots)
    steps = {k: steps_of.blocks(k, lanes, cuts) for k, cuts in blocks.items()}
    steps |= {k: steps_of.columns(k, columns, start[area]) for k, area in each.items()}
    in_order, outputs = [steps[k] for k in sorted(steps)], list(steps_of.outputs())
    strides = (_odd_lines(lanes, count) for count in (len(slots), size))
    return MemoryLayout(lanes, inputs, outputs, in_order, *strides)


class _Lifetimes:
    """The values of a program that need memory, in areas of values with equal lifetimes. The calls
    of a function, its columns, run in groups.
    """

    def __init__(self, program: Program, group: int) -> None:
        self.program, self.group = program, group
        self.calls = calls_of(program.main)
        self.main = _before_calls(program.main, self.calls)
        self.end = len(self.calls) + 1  # the step that writes the user's arrays
        self.areas: list[Area] = []
        self.slots: dict[Value, list[Slot]] = {}
        self._results: dict[int, Value] = {}

    def graph(self, step: int) -> Graph:
        if not step:
            return self.main
        return self.program.functions[self.calls[step - 1].function].graph

    def source(self, node: int) -> Value:
        """Returns the value, in main or as a result of a call, that a node of main stands for."""
        return self._results.get(node, (0, node))

    def padded(self, step: int) -> int:
        """The columns of a step, with those that fill its last group."""
        return -(-len(self.calls[step - 1].nodes) // self.group) * self.group

    def _in_group(self, size: int, column: int, entry: int) -> int:
        group, inside = divmod(column, self.group)
        return (group * size + entry) * self.group + inside

    def _area(self, size: int, first: int, last: int) -> int:
        self.areas.append(Area(size, first, last))
        return len(self.areas) - 1

    def add_results(self) -> None:
        """Records the results of calls. Results of a single call are nodes of its step; results of
        columns are numbered, and live until the end.
        """
        for step, calls in enumerate(self.calls, 1):
            nodes, results = self.graph(step).outputs[Y].nodes, self.program.main.results
            if calls.single:
                pairs = zip(results(calls.nodes[0]), nodes, strict=True)
                self._results |= {result: (step, node) for result, node in pairs}
                continue
            area = self._area(len(nodes) * self.padded(step), step, self.end)
            for c, call in enumerate(calls.nodes):
                for i, result in enumerate(results(call)):
                    value = self._results[result] = step, c * len(nodes) + i
                    self.slots[value] = [(area, self._in_group(len(nodes), c, i))]

    def zero(self) -> list[int]:
        """The node of the constant 0.0 of outputs, whose tiles are stored without being transposed.
        At most one: constants are interned, and -0.0 is another node, which is transposed.
        """
        main = self.program.main
        shown = {n for out in main.outputs.values() for n in out.nodes}
        return [n for n in shown if str(main.number(n)) == "0.0"]

    def _read(self) -> Iterator[tuple[int, int]]:
        """Yields the nodes of main that columns share or that single calls or outputs read, each
        with the step that reads it.
        """
        main = self.program.main
        for step, calls in enumerate(self.calls, 1):
            single = calls.rows[0] if calls.single else []
            computed = [n for n in single if main.op[n] != "input"]
            yield from ((n, step) for n in (*calls.shared.values(), *computed))
        shown = [n for out in self.program.outputs.values() for n in out.nodes]
        yield from ((n, self.end) for n in (*shown, *self.zero()))

    def add_operands(self) -> None:
        """Adds the values that need one slot. Values with equal lifetimes share an area."""
        last: dict[Value, int] = {}
        for node, reader in self._read():
            if (value := self.source(node)) not in self.slots:
                last[value] = max(last.get(value, 0), reader)
        by_lifetime: dict[tuple[int, int], list[Value]] = {}
        for value, reader in last.items():
            by_lifetime.setdefault((value[0], reader), []).append(value)
        for steps, values in by_lifetime.items():
            area = self._area(len(values), *steps)
            self.slots |= {value: [(area, i)] for i, value in enumerate(values)}

    def add_columns(self, step: int) -> int:
        """The area of the operands of the columns of a step."""
        rows, size = self.calls[step - 1].rows, len(self.calls[step - 1].varying)
        values = [[self.source(n) for n in row] for row in rows]
        sources = {source for row in values for source, _ in row}
        if any(source and not self.calls[source - 1].single for source in sources):
            raise CompileError("columns read the results of columns: only outputs may")
        area = self._area(size * self.padded(step), min(sources, default=0), step)
        for c in range(self.padded(step)):
            for i, value in enumerate(values[min(c, len(rows) - 1)]):
                self.slots.setdefault(value, []).append((area, self._in_group(size, c, i)))
        return area

    def cut(self, step: int) -> list[CodeBlock]:
        """A step in blocks. The values that pass between them live within this step."""
        blocks, kept = cut(self.graph(step), {node for s, node in self.slots if s == step})
        area = self._area(kept, step, step)
        for block in blocks:
            self.slots |= {(step, k): [(area, slot)] for k, slot in block.kept.items()}
        return blocks


class _Steps(NamedTuple):
    """Builds the steps. memory: the vectors of each value; slots: the vectors of inputs."""

    values: _Lifetimes
    memory: Mapping[Value, list[int]]
    slots: Mapping[tuple[str, int], int]

    def _vector(self, node: int) -> int:
        """The vector of a node of main."""
        return self.memory[self.values.source(node)][0]

    def blocks(self, step: int, lanes: Lanes, blocks: list[CodeBlock]) -> TileStep:
        """A step that runs once for each tile, in blocks."""
        stores = {value[1]: at for value, at in self.memory.items() if value[0] == step}
        return TileStep(self.values.graph(step), lanes, self.reads(step), stores, blocks, None)

    def columns(self, step: int, lanes: Lanes, each: int) -> TileStep:
        """The step of a function with columns. each: the first vector of their operands."""
        graph, results = self.values.graph(step), dict[int, list[int]]()
        for i, node in enumerate(graph.outputs[Y].nodes):
            results.setdefault(node, []).append(i)
        groups = self.values.padded(step) // self.values.group
        size = len(self.values.calls[step - 1].varying)
        columns = ColumnLayout(groups, size, each, self.memory[step, 0][0])
        return TileStep(graph, lanes, self.reads(step), results, [], columns)

    def reads(self, step: int) -> dict[int, Read]:
        """Returns the base and offset of each input of a step."""
        graph = self.values.graph(step)
        inputs = graph.nodes_of("input")
        if not step:
            return {node: ("%i", self.slots[graph.value[node]]) for node in inputs}
        calls = self.values.calls[step - 1]
        return {node: self._read(calls, graph.value[node][1]) for node in inputs}

    def _read(self, calls: Calls, parameter: int) -> Read:
        """The base and offset of a parameter of the function of these calls."""
        if parameter not in calls.shared and not calls.single:
            return "%each", calls.varying.index(parameter)
        node = calls.rows[0][parameter] if calls.single else calls.shared[parameter]
        value = self.values.program.main.value[node]
        if calls.single and value in self.slots:
            return "%i", self.slots[value]
        return "%o", self._vector(node)

    def outputs(self) -> Iterator[ArraySlots]:
        nothing = [self._vector(n) for n in self.values.zero()]
        for name, out in self.values.program.outputs.items():
            yield ArraySlots(name, out.shape, tuple(map(self._vector, out.nodes)), *nothing)


def _odd_lines(lanes: Lanes, count: int) -> int:
    """The vectors rounded up to an odd number of cache lines, so that tiles map to different
    sets.
    """
    line = max(LINE // lanes.bytes, 1)
    return (-(-count // line) | 1) * line


def _before_calls(main: Graph, calls: Sequence[Calls]) -> Graph:
    """The main graph without its calls, with their operands as a further output."""
    end = main.op.index("call") if calls else len(main)
    for k in range(end, len(main)):
        if main.op[k] not in ("call", "result"):
            raise CompileError(f"{main.op[k]} works on a result: calls come after the main graph")
    columns = {name: getattr(main, name)[:end] for name in ("op", "args", "value", "tag")}
    read = [n for group in calls for n in (*group.shared.values(), *chain(*group.rows)) if n < end]
    outputs = {**main.outputs, "": Output((len(read),), tuple(read))}
    return main.replaced(**columns, outputs=outputs)


def _input_slots(
    graph: Graph, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[list[ArraySlots], dict[tuple[str, int], int]]:
    arrays: list[ArraySlots] = []
    loads: dict[tuple[str, int], int] = {}
    for name, shape in shapes.items():
        slots = tuple(range(len(loads), len(loads) + int(np.prod(shape))))
        arrays.append(ArraySlots(name, shape, slots))
        loads |= {(name, i): slot for i, slot in enumerate(slots)}
    return arrays, loads
