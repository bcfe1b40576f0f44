"""Which vector of the scratch each value of a program lives in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from featherlane.backends.cpu.graphs.areas import Area, placed
from featherlane.backends.cpu.graphs.blocks import Block, cut
from featherlane.backends.cpu.graphs.loop import ArraySlots
from featherlane.backends.llvm.lower import Lanes
from featherlane.errors import CompileError
from featherlane.program.calls import Calls, calls_of
from featherlane.program.graph import Graph, Output
from featherlane.program.program import Program, Y

WARM = 80 << 10  # bytes of scratch that a round of tiles may use: little more than the first cache
MOST = 4  # tiles of a round
LONG = 24_000  # operations whose code does not stay in the second-level cache, so that
SHARED = 256 << 10  # bytes of scratch there are worth it for two tiles to share its way
Value = tuple[int, int]  # a step, and a node of its graph
Place = tuple[int, int]  # an area, and how many vectors behind its beginning
Read = tuple[str, int]  # a base, and the vector behind it


class Columns(NamedTuple):
    """Where the calls of a function lie, the columns, in groups of as many as its vectors hold:
    entry i of all columns of a group side by side. The last group may repeat its last column.
    """

    groups: int
    size: int  # operands of a column
    each: int  # the vector where those of the first begin
    result: int


class Step(NamedTuple):
    """A graph as it runs on a tile: once, in blocks, or whole for groups of columns."""

    graph: Graph
    lanes: Lanes
    reads: Mapping[int, Read]  # inputs, by node
    stores: Mapping[int, list[int]]  # vectors by node, behind "%result" if there are columns
    blocks: list[Block]
    columns: Columns | None


class Layout:
    """The main graph is step 0, the calls of each function are one more step. The user's inputs
    have a part of the scratch for themselves; all else lies in areas of the other part, which
    overlap where they are not needed by the same steps.
    """

    def __init__(self, program: Program, lanes: Lanes, columns: Lanes) -> None:
        self.program, self.lanes, self.columns = program, lanes, columns
        self.group = columns.width // lanes.width  # columns
        self.inputs, self._slots = _input_slots(program.main, program.inputs)
        self.calls = calls_of(program.main)
        self._main = _before_calls(program.main, self.calls)
        self._end = len(self.calls) + 1  # the step that writes the user's arrays
        self._areas: list[Area] = []
        self._places: dict[Value, list[Place]] = {}
        self._results = {n: value for k in range(len(self.calls)) for n, value in self._given(k)}
        self._once(self._wanted())
        self._each = {k + 1: self._columns_of(k) for k in self._repeated()}
        blocks = [self._cut(step) for step in range(self._end)]
        self._start, size = placed(self._areas)
        self.steps = [self._step(step, own) for step, own in enumerate(blocks)]
        self.outputs = list(self._outputs())
        self.input_vectors = self._apart(len(self._slots))
        self.vectors = self._apart(size)
        self.tiles = self._tiles()

    def _repeated(self) -> list[int]:
        """The functions that have several calls."""
        return [k for k, own in enumerate(self.calls) if not own.single]

    def _padded(self, k: int) -> int:
        """The columns of a function, with those that fill its last group."""
        return -(-len(self.calls[k].nodes) // self.group) * self.group

    def _in_group(self, size: int, column: int, entry: int) -> int:
        group, inside = divmod(column, self.group)
        return (group * size + entry) * self.group + inside

    def _area(self, size: int, first: int, last: int) -> int:
        self._areas.append(Area(size, first, last))
        return len(self._areas) - 1

    def _graph(self, step: int) -> Graph:
        if not step:
            return self._main
        return self.program.functions[self.calls[step - 1].function].graph

    def _given(self, k: int) -> Iterator[tuple[int, Value]]:
        """The results of the calls of a function, as nodes of main, and what each is. Those of
        columns are numbered through, and stay.
        """
        nodes, main = self._graph(k + 1).outputs[Y].nodes, self.program.main
        if k not in self._repeated():
            (call,) = self.calls[k].nodes
            yield from zip(main.results(call), ((k + 1, node) for node in nodes), strict=True)
            return
        area = self._area(len(nodes) * self._padded(k), k + 1, self._end)
        for c, call in enumerate(self.calls[k].nodes):
            for i, result in enumerate(main.results(call)):
                n = c * len(nodes) + i
                self._places[k + 1, n] = [(area, self._in_group(len(nodes), c, i))]
                yield result, (k + 1, n)

    def _source(self, node: int) -> Value:
        """Where a node of the main graph comes from."""
        return self._results.get(node, (0, node))

    def _wanted(self) -> Iterator[tuple[int, int]]:
        """Nodes of the main graph that need a place, each with a step that reads them: what columns
        share, what a single call reads, what outputs show.
        """
        for k, own in enumerate(self.calls):
            nodes = [*own.shared.values()]
            if own.single:
                nodes += [n for n in own.rows[0] if self.program.main.value[n] not in self._slots]
            yield from ((n, k + 1) for n in nodes)
        for out in self.program.outputs.values():
            yield from ((n, self._end) for n in out.nodes)
        yield from ((n, self._end) for n in self._zero())

    def _zero(self) -> list[int]:
        """The node whose zeros outputs show as such. At most one: constants are interned, and -0.0
        is another, which has to be turned like the rest.
        """
        main = self.program.main
        shown = {n for out in main.outputs.values() for n in out.nodes}
        return [n for n in shown if str(main.number(n)) == "0.0"]

    def _once(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Places for values that need but one. Those needed by the same steps share an area."""
        last: dict[Value, int] = {}
        for node, reader in wanted:
            if (value := self._source(node)) not in self._places:
                last[value] = max(last.get(value, 0), reader)
        alike: dict[tuple[int, int], list[Value]] = {}
        for value, reader in last.items():
            alike.setdefault((value[0], reader), []).append(value)
        for steps, values in alike.items():
            area = self._area(len(values), *steps)
            self._places |= {value: [(area, i)] for i, value in enumerate(values)}

    def _columns_of(self, k: int) -> int:
        """The area of what the columns of a function read."""
        rows, size = self.calls[k].rows, len(self.calls[k].varying)
        values = [[self._source(n) for n in row] for row in rows]
        if any(step - 1 in self._repeated() for row in values for step, _ in row):
            raise CompileError("columns read the results of columns: only outputs may")
        first = min((step for row in values for step, _ in row), default=0)
        area = self._area(size * self._padded(k), first, k + 1)
        for c in range(self._padded(k)):
            for i, value in enumerate(values[min(c, len(rows) - 1)]):
                place = area, self._in_group(size, c, i)
                self._places.setdefault(value, []).append(place)
        return area

    def _cut(self, step: int) -> list[Block]:
        """A step in blocks: what they keep is needed by nobody else."""
        graph = self._graph(step)
        if step in self._each:
            return [Block(0, len(graph), {})]
        blocks, kept = cut(graph, {node for s, node in self._places if s == step})
        area = self._area(kept, step, step)
        for block in blocks:
            self._places |= {(step, k): [(area, slot)] for k, slot in block.kept.items()}
        return blocks

    def _vectors(self, value: Value) -> list[int]:
        return [self._start[area] + i for area, i in self._places[value]]

    def _step(self, step: int, blocks: list[Block]) -> Step:
        graph, reads = self._graph(step), self._reads(step)
        if step not in self._each:
            stores = {value[1]: self._vectors(value) for value in self._places if value[0] == step}
            return Step(graph, self.lanes, reads, stores, blocks, None)
        results: dict[int, list[int]] = {}
        for i, node in enumerate(graph.outputs[Y].nodes):
            results.setdefault(node, []).append(i)
        first = self._vectors((step, 0))[0]
        groups = self._padded(step - 1) // self.group
        size = len(self.calls[step - 1].varying)
        columns = Columns(groups, size, self._start[self._each[step]], first)
        return Step(graph, self.columns, reads, results, blocks, columns)

    def _reads(self, step: int) -> dict[int, Read]:
        """Where the inputs of a step lie."""
        graph = self._graph(step)
        inputs = [node for node, op in enumerate(graph.op) if op == "input"]
        if step:
            return {node: self._read(self.calls[step - 1], graph.value[node][1]) for node in inputs}
        return {node: ("%i", self._slots[graph.value[node]]) for node in inputs}

    def _read(self, own: Calls, parameter: int) -> Read:
        """A parameter of the function that these calls call."""
        if parameter not in own.shared and not own.single:
            return "%each", own.varying.index(parameter)
        node = own.rows[0][parameter] if own.single else own.shared[parameter]
        if own.single and self.program.main.value[node] in self._slots:
            return "%i", self._slots[self.program.main.value[node]]
        return "%o", self._vectors(self._source(node))[0]

    def _outputs(self) -> Iterator[ArraySlots]:
        nothing = [self._vectors(self._source(n))[0] for n in self._zero()]
        for name, out in self.program.outputs.items():
            slots = tuple(self._vectors(self._source(n))[0] for n in out.nodes)
            yield ArraySlots(name, out.shape, slots, *nothing)

    def _apart(self, count: int) -> int:
        """Vectors from one tile to the next: whole cache lines, an odd number of them, so that
        tiles do not compete for the same lines of the cache.
        """
        line = max(64 // self.lanes.bytes, 1)
        return (-(-count // line) | 1) * line

    def _tiles(self) -> int:
        """The tiles of a round: as many as the caches take."""
        size = (self.vectors + self.input_vectors) * self.lanes.bytes
        code = sum(len(step.graph) for step in self.steps if step.columns is None)
        if code > LONG and 2 * size <= SHARED:
            return 2
        return max(n for n in (1, 2, MOST) if n == 1 or n * size <= WARM)


def _before_calls(main: Graph, calls: Sequence[Calls]) -> Graph:
    """The main graph without its calls, with what they read as one more output."""
    end = main.op.index("call") if calls else len(main)
    for k in range(end, len(main)):
        if main.op[k] not in ("call", "result"):
            raise CompileError(f"{main.op[k]} works on a result: calls come after the main graph")
    columns = {name: getattr(main, name)[:end] for name in ("op", "args", "value", "tag")}
    read = [n for own in calls for n in (*own.shared.values(), *chain(*own.rows)) if n < end]
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
