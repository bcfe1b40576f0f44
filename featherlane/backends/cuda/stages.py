"""A program as kernels that run one after the other.

A graph that fits into registers, and that the driver's compiler takes quickly, is one kernel. A
longer one is cut into stretches; calls of one function, the columns, are one kernel, in which a
warp computes some of the calls for its states. What one kernel computes and another needs is kept
in slots of scratch memory. Results of columns, and outputs that would leave sector by sector in
several kernels, leave with last kernels, one for each output, which copy them from their slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise, starmap
from typing import NamedTuple

import numpy as np

from featherlane.backends.cuda.column_groups import columns_of_a_thread, grouped
from featherlane.backends.cuda.kernel import stage_kernel
from featherlane.backends.cuda.kernel_stage import (
    SHARED,
    ColumnSlots,
    Entry,
    KernelStage,
    Key,
    Launch,
    Shape,
)
from featherlane.backends.cuda.mappings import KernelWork
from featherlane.backends.cuda.ptx import HEADER
from featherlane.backends.cuda.sectors import copied
from featherlane.errors import CompileError
from featherlane.program.calls import calls_of
from featherlane.program.graph import Graph
from featherlane.program.op import CONDITIONS
from featherlane.program.program import Program, Y

# Operations from which a graph is cut: the time of the driver's compiler grows faster than their
# number, and should stay below 3 s for a kernel, which may have 1.4 times as many by SLACK
LONGEST = 5_000
SLACK = 0.2  # of a stretch: how far from equal lengths it is cut, where fewer values are alive
Value = tuple[int, int]  # a step, and a node of its graph


class GpuKernels(NamedTuple):
    """PTX texts, each compiled alone, and the launches one after the other. inputs,
    outputs: names and shapes of one state; slots: numbers of scratch memory for one state.
    Arguments of each kernel: the address and the bytes from state to state of each array, inputs
    first; the address of the scratch memory of whole groups of 32 states; the number of states.
    work: by which mappings are compared.
    """

    texts: tuple[str, ...]
    launches: tuple[Launch, ...]
    inputs: Mapping[str, Shape]
    outputs: Mapping[str, Shape]
    slots: int
    work: KernelWork = KernelWork(0, 0, 1)

    @property
    def text(self) -> str:
        """All texts as one, for tools that take one."""
        head = [*HEADER, *([SHARED] if any(SHARED in text for text in self.texts) else [])]
        lines = (line for text in self.texts for line in text.split("\n"))
        return "\n".join([*head, *(line for line in lines if line and line not in head), ""])


def kernels(program: Program, name: str, dtype: np.dtype) -> GpuKernels:
    """The kernels of a lowered program."""
    dtype = np.dtype(dtype)
    arrays = arrays_of(program)
    stages, slots = stages_of(program, longest(dtype))
    if scattered := copied(stages, dtype, arrays):
        stages, slots = stages_of(program, longest(dtype), scattered)
    stages = [grouped(x, columns_of_a_thread(x, longest(dtype))) for x in stages]
    written = [
        stage_kernel(stage, one, dtype, arrays, slots)
        for stage, one in zip(stages, names(name, len(stages)), strict=True)
    ]
    each = [len(stage.nodes) for stage in stages]
    total = sum(n * launch.columns for n, (_, launch) in zip(each, written, strict=True))
    return together(program, written, slots, KernelWork(sum(each), total, len(written)))


def longest(dtype: np.dtype) -> int:
    """LONGEST in a dtype: numbers of 64 bits take the driver's compiler longer."""
    return LONGEST if dtype.itemsize == 4 else LONGEST * 7 // 10


def names(name: str, count: int) -> list[str]:
    """The names of the kernels of a function."""
    return [f"{name}_{k}" for k in range(count)] if count > 1 else [name]


def arrays_of(program: Program) -> dict[Key, Shape]:
    """The user's arrays, inputs first."""
    arrays: dict[Key, Shape] = {("input", x): shape for x, shape in program.inputs.items()}
    return arrays | {("output", x): out.shape for x, out in program.outputs.items()}


def together(
    program: Program, written: Sequence[tuple[list[str], Launch]], slots: int, work: KernelWork
) -> GpuKernels:
    """Kernels of a program, one text each."""
    texts = tuple("\n".join([*HEADER, SHARED, *lines, ""]) for lines, _ in written)
    launches = tuple(launch._replace(text=k) for k, (_, launch) in enumerate(written))
    outputs = {x: out.shape for x, out in program.outputs.items()}
    return GpuKernels(texts, launches, dict(program.inputs), outputs, slots, work)


def stages_of(
    program: Program, longest: int, copies: Set[str] = frozenset()
) -> tuple[list[KernelStage], int]:
    """The stages of a lowered program, of so many operations at most, and the slots of scratch
    memory that they share. copies: outputs of which the last stage copies all entries, besides the
    results of columns.
    """
    return _Stages(program, longest, copies).stages()


class _Stretch(NamedTuple):
    """Nodes of the graph of a step that one kernel computes."""

    step: int
    nodes: range


def _alive(graph: Graph, end: int) -> list[int]:
    """Counts, before each node up to `end`, the computed values that later nodes need."""
    last = {a: k for k in range(end) for a in graph.args[k] if graph.args[a]}
    change = np.zeros(end + 2, np.int64)
    for a, k in last.items():
        change[a + 1] += 1
        change[k + 1] -= 1
    return np.cumsum(change).tolist()


def _entry(main: Graph, node: int) -> Entry:
    """The entry of the user's arrays that an input of the main graph is."""
    name, entry = main.value[node]
    return ("input", name), entry


class _Stages:
    """The stages of a program in the making. Step 0 is the main graph up to its calls, and each
    function that is called is one more; a value is a node of the graph of a step.
    """

    def __init__(self, program: Program, longest: int, copies: Set[str]) -> None:
        self.program, self.main, self.longest = program, program.main, longest
        self.copies = copies
        self.calls = calls_of(self.main)
        end = self.main.op.index("call") if self.calls else len(self.main)
        if any(self.main.op[k] not in ("call", "result") for k in range(end, len(self.main))):
            raise CompileError("an operation works on a result: calls come after the main graph")
        self.graphs = [self.main, *(program.functions[c.function].graph for c in self.calls)]
        self.columns = {n: c for n, c in enumerate(self.calls, 1) if not c.single}
        self.stretches = [*self._cut(0, end)]
        for n, graph in enumerate(self.graphs[1:], 1):
            whole = [_Stretch(n, range(len(graph)))]
            self.stretches += whole if n in self.columns else self._cut(n, len(graph))
        self._find_results()
        self.stage_of = dict[Value, int]()  # the stretch that computes a value
        for s, (step, nodes) in enumerate(self.stretches):
            self.stage_of |= {(step, k): s for k in nodes}

    def _cut(self, step: int, end: int) -> Iterator[_Stretch]:
        """Stretches of about equal length, cut where few values are alive."""
        parts = -(-end // self.longest) or 1
        alive, slack = _alive(self.graphs[step], end), int(SLACK * end / parts)
        cuts = [0]
        for middle in (end * n // parts for n in range(1, parts)):
            cuts.append(min(range(middle - slack, middle + slack + 1), key=alive.__getitem__))
        for nodes in starmap(range, pairwise([*cuts, end])):
            yield _Stretch(step, nodes)

    def _find_results(self) -> None:
        """The values of single calls, and the (step, call, entry) of columns, by nodes of main."""
        self.single, self.of_column = dict[int, Value](), dict[int, tuple[int, int, int]]()
        for step, calls in enumerate(self.calls, 1):
            for c, call in enumerate(calls.nodes):
                for i, result in enumerate(self.main.results(call)):
                    if calls.single:
                        self.single[result] = step, self.graphs[step].outputs[Y].nodes[i]
                    else:
                        self.of_column[result] = step, c, i

    def _operand(self, step: int, node: int) -> Value:
        """The value that a node of the graph of a step stands for: that of an argument, where it is
        a parameter. Leaves of the main graph stand for themselves.
        """
        graph = self.graphs[step]
        if step and graph.op[node] == "input":
            calls, parameter = self.calls[step - 1], graph.value[node][1]
            node = calls.rows[0][parameter] if calls.single else calls.shared[parameter]
            return self.single.get(node, (0, node))
        return step, node

    def _is_leaf(self, value: Value) -> bool:
        return self.graphs[value[0]].op[value[1]] in ("input", "constant")

    def _varies(self, step: int, node: int) -> bool:
        """Whether a node is a parameter in which the columns of a step differ."""
        graph = self.graphs[step]
        calls = self.columns.get(step)
        return (
            calls is not None
            and graph.op[node] == "input"
            and graph.value[node][1] in calls.varying
        )

    def _needed(self, stretch: _Stretch) -> list[int]:
        """The nodes that a stretch needs and does not compute, but for constants. Conditions, which
        are no numbers, are computed again.
        """
        graph, nodes = self.graphs[stretch.step], stretch.nodes
        used = {a for k in nodes for a in graph.args[k]}
        again = {a for a in used if a < nodes.start and graph.op[a] in CONDITIONS}
        used = (used - again) | {b for a in again for b in graph.args[a]}
        used |= {k for k in self._wanted(stretch.step) if k in nodes}
        outside = (a for a in used if a < nodes.start or graph.op[a] == "input")
        return sorted(a for a in outside if graph.op[a] != "constant")

    def _wanted(self, step: int) -> set[int]:
        """The results of columns."""
        return {*self.graphs[step].outputs[Y].nodes} if step in self.columns else set()

    def stages(self) -> tuple[list[KernelStage], int]:
        """The stages, and the slots of scratch memory."""
        self._assign_slots()
        self.stores, self.outputs = self._stores(), self._output_entries()
        stages = [self._stage(s) for s in range(len(self.stretches))]
        return [*stages, *self._last_stages()], self.slots

    def _assign_slots(self) -> None:
        """Assigns slots to values that several stretches need; a slot is free again after the last
        stretch that needs its value.
        """
        last: dict[Value, int] = {}
        for s, stretch in enumerate(self.stretches):
            for node in self._needed(stretch):
                if not self._varies(stretch.step, node):
                    value = self._operand(stretch.step, node)
                    if not self._is_leaf(value):
                        last[value] = s
        last |= dict.fromkeys(self._copied_values(), len(self.stretches))
        self.slot, self.slots, free = dict[Value, int](), 0, list[int]()
        for s in range(len(self.stretches)):
            for value in sorted(v for v in last if self.stage_of[v] == s):
                if not free:
                    free, self.slots = [self.slots], self.slots + 1
                self.slot[value] = free.pop()
            free += [self.slot[value] for value in last if last[value] == s]
        self.areas: dict[int, ColumnSlots] = {}
        for step, calls in self.columns.items():
            size, results = len(calls.varying), len(self.graphs[step].outputs[Y].nodes)
            count, start = len(calls.nodes), self.slots
            self.areas[step] = ColumnSlots(count, start, size, start + count * size, results)
            self.slots += count * (size + results)

    def _stores(self) -> dict[Value, list[int]]:
        """The slots of each value: for later stretches, and one for each column that reads it."""
        stores = {value: [slot] for value, slot in self.slot.items()}
        for step, calls in self.columns.items():
            area = self.areas[step]
            for c, row in enumerate(calls.rows):
                for i, node in enumerate(row):
                    value = self.single.get(node, (0, node))
                    stores.setdefault(value, []).append(area.each + c * area.size + i)
        return stores

    def _output_entries(self) -> dict[Value, list[Entry]]:
        """The entries of outputs that take a value, except for those that the last stage copies."""
        outputs: dict[Value, list[Entry]] = {}
        for name, out in self.program.outputs.items():
            for e, node in enumerate(out.nodes):
                if node not in self.of_column and name not in self.copies:
                    outputs.setdefault(self.single.get(node, (0, node)), []).append(
                        (("output", name), e)
                    )
        return outputs

    def _copied_values(self) -> Iterator[Value]:
        """The values that the last stage copies, but for leaves and results of columns."""
        for name in self.copies:
            for node in self.program.outputs[name].nodes:
                value = self.single.get(node, (0, node))
                if node not in self.of_column and not self._is_leaf(value):
                    yield value

    def _stage(self, s: int) -> KernelStage:
        """The operands of a stage by where they lie, and the slots and outputs that its values go
        to.
        """
        step, nodes = self.stretches[s]
        graph, columns = self.graphs[step], self.areas.get(step)
        inputs, numbers, slots = dict[int, Entry](), dict[int, float](), dict[int, int]()
        operands: dict[int, int] = {}
        for node in self._needed(self.stretches[s]):
            if self._varies(step, node):
                operands[node] = self.columns[step].varying.index(graph.value[node][1])
                continue
            value = self._operand(step, node)
            if not self._is_leaf(value):
                slots[node] = self.slot[value]
            elif self.main.op[value[1]] == "input":
                inputs[node] = _entry(self.main, value[1])
            else:
                numbers[node] = float(self.main.value[value[1]])
        kept = {v: at for v, at in self.stores.items() if v[0] == step and v[1] in nodes}
        stores = {node: at for (_, node), at in kept.items()}
        if columns is not None:
            stores = {}
            for i, node in enumerate(graph.outputs[Y].nodes):
                stores.setdefault(node, []).append(i)
        outputs = {v[1]: to for v, to in self.outputs.items() if v[0] == step and v[1] in nodes}
        inputs |= {
            k: _entry(graph, k) for k in (*stores, *outputs) if not step and graph.op[k] == "input"
        }
        return KernelStage(graph, nodes, inputs, numbers, slots, operands, stores, outputs, columns)

    def _last_stages(self) -> Iterator[KernelStage]:
        """Copies of entries from slots to the user's arrays, a stage for each array, in the order
        of entries, so that the sectors of a row are written as a whole: a value that several
        entries show is loaded for each.
        """
        for name, out in self.program.outputs.items():
            graph, outputs = Graph(), dict[int, list[Entry]]()
            inputs, numbers, slots = dict[int, Entry](), dict[int, float](), dict[int, int]()
            for e, node in enumerate(out.nodes):
                if node not in self.of_column and name not in self.copies:
                    continue
                k = graph.node("input", value=(name, e))
                outputs[k] = [(("output", name), e)]
                step, x = self.single.get(node, (0, node))
                if node in self.of_column:
                    slots[k] = self._column_slot(node)
                elif (step, x) in self.slot:
                    slots[k] = self.slot[step, x]
                elif self.graphs[step].op[x] == "constant":
                    numbers[k] = float(self.graphs[step].value[x])
                else:
                    inputs[k] = _entry(self.main, x)
            if outputs:
                yield KernelStage(graph, range(len(graph)), inputs, numbers, slots, {}, {}, outputs)

    def _column_slot(self, node: int) -> int:
        """The slot of a result of a column."""
        step, c, i = self.of_column[node]
        area = self.areas[step]
        return area.result + c * area.results + i
