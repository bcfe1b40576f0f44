"""Kernels of recorded programs: functions of robots of many links.

A block computes some states, and its threads are spread over calls and states: thread t computes
calls for state t modulo the number of states. The code has one part for each function, and goes
through the segments of a schedule (`rounds`), which is a table in the text, as are the records of
all calls. All threads are always in the same segment; warps without a call leave it, and single
threads without one repeat another one's and store nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from featherlane.backends.cuda import rounds as schedules
from featherlane.backends.cuda.kernel_stage import BLOCK_BYTES, MEMORY, Launch
from featherlane.backends.cuda.ptx import HEADER, WARP, Text, divided, entry, straight_line
from featherlane.backends.cuda.rounds import ROW, BlockShape, Round, Segment
from featherlane.backends.cuda.stages import GpuKernels
from featherlane.errors import CompileError
from featherlane.program.call_list import CallList, call_list
from featherlane.program.graph import Graph
from featherlane.program.program import Program, Y

LONGEST = 20_000  # operations of code: the time of the driver's compiler grows faster
NEW_ROUND = 1 << 31  # added to the first word of a segment before which threads wait for each other


def kernels(program: Program, shape: BlockShape, name: str, dtype: np.dtype) -> GpuKernels:
    """The kernel of a program that `lower(program, "cuda steps", dtype)` gave. With one block for
    the same states one launch runs it all, else there is a launch for each round. Raises
    CompileError if the code would be too long.
    """
    dtype, shape, calls = np.dtype(dtype), schedules.checked(shape), call_list(program)
    graphs = schedules.arithmetic(calls, dtype)
    if (length := sum(map(schedules.operations, graphs))) > LONGEST:
        raise CompileError(
            f"{name} has {length:,} operations in {len(graphs)} different steps: a kernel of "
            f"recorded steps has at most {LONGEST:,}"
        )
    rounds = schedules.scheduled(calls, graphs, shape)
    kernel = _LinksKernel(calls, graphs, rounds, name, dtype, shape)
    outputs = {x: out.shape for x, out in program.outputs.items()}
    text = "\n".join([*HEADER, *kernel.lines(), ""])
    return GpuKernels((text,), kernel.launches(), dict(program.inputs), outputs, kernel.slots)


class _Part(NamedTuple):
    """A part of the code, which runs for one number after another. write: its instructions, of the
    registers with the number, and with the condition under which the thread may store.
    """

    write: Callable[[str, str], None]
    label: str


class _LinksKernel:
    """The text of a recorded program. graphs: of its functions, lowered."""

    def __init__(
        self,
        calls: CallList,
        graphs: Sequence[Graph],
        rounds: Sequence[Round],
        name: str,
        dtype: np.dtype,
        shape: BlockShape,
    ) -> None:
        self.calls, self.graphs, self.name, self.shape = calls, graphs, name, shape
        self.text, self.dtype, self.size = Text(dtype), dtype, dtype.itemsize
        self.memory = schedules.memory(calls, rounds, shape.states)
        self.bytes = self.memory.size * self.size
        self.is_shared = shape.blocks == 1 and self.bytes <= BLOCK_BYTES
        self.space = "shared" if self.is_shared else "global"
        self.slots = 0 if self.is_shared else self.memory.size // shape.states
        self.tables: list[str] = []
        self.parts: list[_Part] = []
        functions = self._functions(rounds)
        self.rounds = [self._input_parts(), *functions, self._output_parts()]
        self._begin()
        self._go_through_segments()
        for part in self.parts:
            self._write(part)
        self.text.lines.append(f"{self.over}:")
        self.text.do(f"bra.uni {self.next}")
        self.text.lines.append(f"{self.end}:")
        self.text.do("ret")

    def launches(self) -> tuple[Launch, ...]:
        """All segments at once, or those of one round after another."""
        states, threads, blocks = self.shape
        ends = [*accumulate(map(len, self.rounds), initial=0)]
        if blocks == 1:
            ends = [0, ends[-1]]
        shared = self.bytes if self.is_shared else 0
        return tuple(
            Launch(self.name, threads, shared, states, blocks, arguments=span)
            for span in pairwise(ends)
            if span[0] < span[1]
        )

    def lines(self) -> list[str]:
        pairs = [(("u64", f"a{k}"), ("u64", f"s{k}")) for k in range(self.arrays)]
        arrays = [x for pair in pairs for x in pair]
        others = [("u64", x) for x in ("scratch", "count", "first", "end")]
        memory = [f".extern .shared .align 16 .b8 {MEMORY}[];"] if self.is_shared else []
        return [*memory, *self.tables, *entry(self.name, [*arrays, *others], self.text)]

    # What the parts of the code do

    def _new_part(self, write: Callable[[str, str], None]) -> int:
        """The number of a new part."""
        self.parts.append(_Part(write, self.text.label()))
        return len(self.parts) - 1

    def _functions(self, rounds: Sequence[Round]) -> list[list[tuple[int, int, int]]]:
        """Makes a part of each function; returns the segments of each round: the part, the first
        record, how many.
        """
        order: list[list[int]] = [[] for _ in self.calls.functions]
        ranges = [[_record_range(x, order) for x in segments] for segments in rounds]
        for f, calls in enumerate(order):
            self._new_part(self._function(f, calls))
        return ranges

    def _function(self, f: int, order: Sequence[int]) -> Callable[[str, str], None]:
        """A part that applies a function to its records, whose words each lie together."""
        graph, function, size = self.graphs[f], self.calls.functions[f], self.size
        packed = schedules.records(function, order, self.memory.numbers)
        n, reads = len(order), function.operands.shape[1]
        words = self._table(packed.words.astype(np.uint32))
        constants = self._table(self._bits(packed.constants)) if packed.constants.size else ""
        entries: dict[int, list[int]] = {}
        for i, node in enumerate(graph.outputs[Y].nodes):
            entries.setdefault(node, []).append(i)

        def write(record: str, inside: str) -> None:
            """Writes the function for one record of the tables: its operands, its graph, its
            results.
            """
            t = self.text
            at = self._in_table(words, record, 4)
            numbers = [
                t.set("r", "ld.global.u32", f"[{at}+{4 * n * w}]") for w in range(len(packed.words))
            ]
            places = [*map(self._place, numbers)]
            constants_at = self._in_table(constants, record, size) if constants else ""

            def load(k: int) -> dict[int, str]:
                i = graph.value[k][1]
                if i >= reads:
                    at = f"ld.global.{t.type}", f"[{constants_at}+{(i - reads) * n * size}]"
                else:
                    base, distance = packed.bases[i]
                    at = f"ld.{self.space}.{t.type}", f"[{places[base]}+{distance * size}]"
                return {k: t.set("f", *at)}

            def done(k: int, register: str) -> None:
                for i in entries[k]:
                    to = f"[{places[0]}+{i * ROW * size}]"
                    t.do(f"@{inside} st.{self.space}.{t.type} {to}, {register}")

            straight_line(graph, t, range(len(graph)), entries.keys(), load, done)

        return write

    def _input_parts(self) -> list[tuple[int, int, int]]:
        """Parts that load the rows of inputs and constants, entry by entry, into memory."""
        segments, start = [], 0
        for k, (_, shape) in enumerate(self.calls.inputs):
            segments.append((self._new_part(self._input(k, start)), 0, math.prod(shape)))
            start += math.prod(shape)
        if self.memory.known:
            table = self._table(self._bits(np.array(self.memory.known)))

            def write(entry: str, inside: str) -> None:
                at = f"[{self._in_table(table, entry, self.size)}]"
                x = self.text.set("f", f"ld.global.{self.text.type}", at)
                self._store_entry(entry, start, x, inside)

            segments.append((self._new_part(write), 0, len(self.memory.known)))
        return [segment for segment in segments if segment[2]]

    def _input(self, k: int, start: int) -> Callable[[str, str], None]:
        def write(entry: str, inside: str) -> None:  # threads beyond the last state read its row
            t = self.text
            last = t.set("r", "sub.u32", self.left, 1)
            row = self._row(k, t.set("r", "min.u32", self.state, last))
            at = t.set("w", "mad.wide.u32", entry, self.size, row)
            self._store_entry(entry, start, t.set("f", f"ld.global.{t.type}", f"[{at}]"), inside)

        return write

    def _store_entry(self, entry: str, start: int, x: str, inside: str) -> None:
        """Stores an entry behind the first `start` ones of inputs and constants."""
        t, states = self.text, self.shape.states
        number = t.set("r", "mad.lo.u32", entry, states, t.set("r", "mov.u32", start * states))
        t.do(f"@{inside} st.{self.space}.{t.type} [{self._place(number)}], {x}")

    def _output_parts(self) -> list[tuple[int, int, int]]:
        """Parts that copy results to the rows of the user's arrays."""
        segments = []
        for k, (_, flat) in enumerate(self.calls.outputs, len(self.calls.inputs)):
            if flat:
                table = self._table(np.array([self.memory.of(x) for x in flat], np.uint32))
                segments.append((self._new_part(self._output(k, table)), 0, len(flat)))
        self.arrays = len(self.calls.inputs) + len(self.calls.outputs)
        return segments

    def _output(self, k: int, table: str) -> Callable[[str, str], None]:
        def write(entry: str, inside: str) -> None:
            t = self.text
            number = t.set("r", "ld.global.u32", f"[{self._in_table(table, entry, 4)}]")
            x = t.set("f", f"ld.{self.space}.{t.type}", f"[{self._place(number)}]")
            there = t.set("p", "setp.lt.and.u32", self.state, self.left, inside)
            at = t.set("w", "mad.wide.u32", entry, self.size, self._row(k, self.state))
            t.do(f"@{there} st.global.{t.type} [{at}], {x}")

        return write

    # Addresses

    def _table(self, numbers: np.ndarray) -> str:
        """The name of a table of words, which have 32 or 64 bits."""
        name, bits = f"{self.name}_table{len(self.tables)}", 8 * numbers.itemsize
        words = ", ".join(map(str, numbers.ravel().tolist()))
        self.tables.append(
            f".global .align {numbers.itemsize} .u{bits} {name}[{numbers.size}] = {{{words}}};"
        )
        return name

    def _bits(self, numbers: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # beyond the range of the dtype: infinity
            return numbers.astype(self.dtype).view(np.dtype(f"u{self.size}"))

    def _in_table(self, table: str, k: str, size: int) -> str:
        t = self.text
        return t.set("w", "mad.wide.u32", k, size, t.set("w", "mov.u64", table))

    def _place(self, number: str) -> str:
        """The address of a number in the memory of the block, for the state of the thread."""
        if self.is_shared:
            return self.text.set("r", "mad.lo.u32", number, self.size, self.base)
        return self.text.set("w", "mad.wide.u32", number, self.size, self.base)

    def _row(self, k: int, state: str) -> str:
        """The address of a state's row of array k."""
        t = self.text
        number = t.set("w", "add.u64", self.first, t.set("w", "cvt.u64.u32", state))
        stride = t.set("w", "ld.param.u64", f"[s{k}]")
        return t.set("w", "mad.lo.u64", number, stride, t.set("w", "ld.param.u64", f"[a{k}]"))

    # The loop over segments

    def _begin(self) -> None:
        """Which states and which calls a thread has, and where the memory of its block is."""
        t, (states, threads, _) = self.text, self.shape
        thread, block = t.set("r", "mov.u32", "%tid.x"), t.set("r", "mov.u32", "%ctaid.x")
        tile, slice = divided(t, block, self.shape.blocks)
        self.state = t.set("r", "and.b32", thread, states - 1)
        slot = t.set("r", "shr.u32", thread, states.bit_length() - 1)
        self.slot = t.set("r", "mad.lo.u32", slice, threads // states, slot)
        self.first_of_warp = ""
        if threads > WARP:
            warp = t.set("r", "and.b32", thread, threads - WARP)
            slot = t.set("r", "shr.u32", warp, states.bit_length() - 1)
            self.first_of_warp = t.set("r", "mad.lo.u32", slice, threads // states, slot)
        self.first = t.set("w", "mul.wide.u32", tile, states)
        count = t.set("w", "ld.param.u64", "[count]")
        left = t.set("w", "min.u64", t.set("w", "sub.u64", count, self.first), states)
        self.left = t.set("r", "cvt.u32.u64", left)
        if self.is_shared:
            start = t.set("r", "mov.u32", MEMORY)
            self.base = t.set("r", "mad.lo.u32", self.state, self.size, start)
        else:
            scratch = t.set("w", "ld.param.u64", "[scratch]")
            start = t.set("w", "mad.wide.u32", tile, self.bytes, scratch)
            self.base = t.set("w", "mad.wide.u32", self.state, self.size, start)

    def _go_through_segments(self) -> None:
        """Finds the next segment, waits for other threads where a round begins, and jumps."""
        t = self.text
        self.next, self.over, self.end = t.label(), t.label(), t.label()
        bounds = [t.set("w", "ld.param.u64", f"[{x}]") for x in ("first", "end")]
        at, end = (t.set("r", "cvt.u32.u64", x) for x in bounds)
        t.lines.append(f"{self.next}:")
        t.do(f"@{t.set('p', 'setp.ge.u32', at, end)} bra.uni {self.end}")
        segment = self._in_table(self._table(self._segment_words()), at, 12)
        t.do(f"add.u32 {at}, {at}, 1")
        word, self.first_record, self.records = (
            t.set("r", "ld.global.u32", f"[{segment}+{offset}]") for offset in (0, 4, 8)
        )
        if self._waits:
            go_on = t.label()
            t.do(f"@{t.set('p', 'setp.lt.u32', word, NEW_ROUND)} bra.uni {go_on}")
            t.do("bar.sync 0")
            t.lines.append(f"{go_on}:")
        self._jump(t.set("r", "and.b32", word, NEW_ROUND - 1), range(len(self.parts)))

    @property
    def _waits(self) -> bool:
        """Whether threads wait for others: not if each computes another state, or if there is a
        launch for each round.
        """
        return self.shape.lanes > 1 and self.shape.blocks == 1

    def _segment_words(self) -> np.ndarray:
        words = []
        for r, segments in enumerate(self.rounds):
            for k, (part, first, count) in enumerate(segments):
                new = NEW_ROUND if self._waits and r and not k else 0
                words.append((part + new, first, count))
        return np.array(words, np.uint32).reshape(-1)

    def _jump(self, part: str, parts: range) -> None:
        """Jumps to one of some parts by halving."""
        t = self.text
        if len(parts) == 1:
            t.do(f"bra.uni {self.parts[parts[0]].label}")
            return
        half, above = len(parts) // 2, t.label()
        t.do(f"@{t.set('p', 'setp.ge.u32', part, parts[half])} bra.uni {above}")
        self._jump(part, parts[:half])
        t.lines.append(f"{above}:")
        self._jump(part, parts[half:])

    def _write(self, part: _Part) -> None:
        """A part for all records of a segment, as many side by side as there are lanes."""
        t = self.text
        t.lines.append(f"{part.label}:")
        if self.first_of_warp:
            idle = t.set("p", "setp.ge.u32", self.first_of_warp, self.records)
            t.do(f"@{idle} bra.uni {self.over}")
        done, again = t.set("r", "mov.u32", 0), t.label()
        t.lines.append(f"{again}:")
        record = t.set("r", "add.u32", self.slot, done)
        inside = t.set("p", "setp.lt.u32", record, self.records)
        known = t.set("r", "min.u32", record, t.set("r", "sub.u32", self.records, 1))
        part.write(t.set("r", "add.u32", self.first_record, known), inside)
        t.do(f"add.u32 {done}, {done}, {self.shape.lanes}")
        t.do(f"@{t.set('p', 'setp.lt.u32', done, self.records)} bra.uni {again}")
        t.do(f"bra.uni {self.over}")


def _record_range(segment: Segment, order: list[list[int]]) -> tuple[int, int, int]:
    """The function, the first record and the number of records of a segment, whose calls are put
    behind those before.
    """
    calls = order[segment.function]
    calls += segment.calls
    return segment.function, len(calls) - len(segment.calls), len(segment.calls)
