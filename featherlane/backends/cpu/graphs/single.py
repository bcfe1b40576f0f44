"""The CPU, one state at a time: its numbers go from the user's arrays into the lanes of vectors,
and from there into the results, without a stop between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from featherlane.backends.cpu.graphs.blocks import cut
from featherlane.backends.cpu.graphs.loop import ON_STACK, scratch
from featherlane.backends.llvm.lower import Lanes, constants, declarations, straight_line, vector_at
from featherlane.program.passes.pack import Packed

Shown = tuple[int, int, int]  # an array, the entry of it that shows a node, and the lane
STORED = 32  # bytes of constants that are stored at once


class _Code:
    """What blocks have in common: the arrays, and the places of what passes from one to another."""

    def __init__(self, packed: Packed, t: Lanes) -> None:
        self.packed, self.t = packed, t
        graph = packed.graph
        self.shapes = [*graph.inputs.values(), *[out.shape for out in graph.outputs.values()]]
        self.inputs = len(graph.inputs)
        self.number = {name: n for n, name in enumerate(graph.inputs)}
        self.blocks, self.slots = cut(graph, ())
        self.kept = {k: slot for block in self.blocks for k, slot in block.kept.items()}
        self.shown: dict[int, list[Shown]] = {}
        for n, (name, out) in enumerate(graph.outputs.items(), self.inputs):
            for at, (k, lane) in enumerate(zip(out.nodes, packed.lanes[name], strict=True)):
                self.shown.setdefault(k, []).append((n, at, lane))

    @property
    def rows(self) -> list[str]:
        """Pointers to the arrays of one state: no result overlaps anything else."""
        return [f"ptr noalias %r{n}" for n in range(len(self.shapes))]

    def at(self, to: str, array: int, entry: int) -> str:
        return f"{to} = getelementptr inbounds {self.t.scalar}, ptr %r{array}, i64 {entry}"

    def load(self, k: int, name: str) -> list[str] | None:
        graph, t = self.packed.graph, self.t
        if graph.op[k] == "input":
            array, entries = graph.value[k]
            return self._input(name, self.number[array], entries)
        if k not in self.kept:
            return None
        where = vector_at(t, f"{name}.at", "%kept", self.kept[k])
        return [where, f"{name} = load {t.vector}, ptr {name}.at, align {t.bytes}"]

    def _input(self, name: str, array: int, entries: int | Sequence[int]) -> list[str]:
        t = self.t
        each = [entries] if isinstance(entries, int) else entries
        lines: list[str] = []
        found = "poison"
        for lane, entry in enumerate(dict.fromkeys(each)):
            lines.append(self.at(f"{name}.p{lane}", array, entry))
            lines.append(
                f"{name}.s{lane} = load {t.scalar}, ptr {name}.p{lane}, align {t.dtype.itemsize}"
            )
            scalar = f"{t.scalar} {name}.s{lane}"
            lines.append(f"{name}.v{lane} = insertelement {t.vector} {found}, {scalar}, i32 {lane}")
            found = f"{name}.v{lane}"
        limbs = list(dict.fromkeys(each))
        order = [limbs.index(each[lane % len(each)]) for lane in range(t.width)]
        mask = ", ".join(f"i32 {lane}" for lane in order)
        last = f"shufflevector {t.vector} {found}, {t.vector} poison, <{t.width} x i32> <{mask}>"
        return [*lines, f"{name} = {last}"]

    def store(self, k: int, name: str) -> list[str]:
        t, lines = self.t, []
        if k in self.kept:
            lines.append(vector_at(t, f"%k{k}", "%kept", self.kept[k]))
            lines.append(f"store {t.vector} {name}, ptr %k{k}, align {t.bytes}")
        if self.packed.graph.op[k] == "constant":
            return lines + self._constant(k)
        for n, (array, entry, lane) in enumerate(self.shown.get(k, ())):
            to = f"%o{k}.{n}"
            lines.append(self.at(to, array, entry))
            lines.append(f"{to}.x = extractelement {t.vector} {name}, i32 {lane}")
            lines.append(f"store {t.scalar} {to}.x, ptr {to}, align {t.dtype.itemsize}")
        return lines

    def _constant(self, k: int) -> list[str]:
        """In all its places, side by side in as few stores as can be: most are the zeros of
        matrices.
        """
        t, x, lines = self.t, self.t.number(float(self.packed.graph.value[k])), []
        for n, (array, first, size) in enumerate(
            _runs(self.shown.get(k, ()), STORED // t.dtype.itemsize)
        ):
            row = ", ".join([f"{t.scalar} {x}"] * size)
            lines.append(self.at(f"%o{k}.{n}", array, first))
            lines.append(f"store {t.of(size)} <{row}>, ptr %o{k}.{n}, align {t.dtype.itemsize}")
        return lines


def _runs(shown: Sequence[Shown], most: int) -> list[tuple[int, int, int]]:
    """Entries side by side of one array: where they begin and how many they are."""
    runs: list[tuple[int, int, int]] = []
    for array, entry, _ in shown:
        last, first, size = runs[-1] if runs else (-1, 0, 0)
        if last == array and entry == first + size and size < most:
            runs[-1] = array, first, size + 1
        else:
            runs.append((array, entry, 1))
    return runs


def _block(code: _Code, number: int) -> list[str]:
    block = code.blocks[number]
    nodes = range(block.first, block.last)
    arguments = ", ".join([*code.rows, "ptr noalias %kept"])
    return [
        f"define internal void @block{number}({arguments}) noinline {{",
        "%stop = icmp eq ptr %kept, null",  # never, see straight_line
        *straight_line(code.packed.graph, code.t, code.load, code.store, nodes),
        "br label %leave",
        "leave:",
        "ret void",
        "}",
    ]


COPY = """
; Rows of entries, with the bytes between rows and between entries on both sides.
define internal void @copy(ptr %to, ptr %from, i64 %rows, i64 %columns,
                           i64 %to1, i64 %to2, i64 %from1, i64 %from2) noinline {
entry:
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %ti = mul i64 %i, %to1
  %fi = mul i64 %i, %from1
  br label %column
column:
  %j = phi i64 [ 0, %row ], [ %j1, %column ]
  %tj = mul i64 %j, %to2
  %fj = mul i64 %j, %from2
  %t = add i64 %ti, %tj
  %f = add i64 %fi, %fj
  %a = getelementptr inbounds i8, ptr %to, i64 %t
  %b = getelementptr inbounds i8, ptr %from, i64 %f
  %x = load SCALAR, ptr %b, align ALIGN
  store SCALAR %x, ptr %a, align ALIGN
  %j1 = add i64 %j, 1
  %columns_left = icmp slt i64 %j1, %columns
  br i1 %columns_left, label %column, label %next
next:
  %i1 = add i64 %i, 1
  %rows_left = icmp slt i64 %i1, %rows
  br i1 %rows_left, label %row, label %done
done:
  ret void
}
declare ptr @scratch_new(i64)
declare void @scratch_free(ptr)
"""


def _strides(code: _Code) -> list[str]:
    """Base pointers and strides; %dense: whether the entries of all arrays are side by side."""
    lines: list[str] = []
    known, place = "true", len(code.shapes)
    for n, shape in enumerate(code.shapes):
        lines += [
            f"%a{n} = getelementptr inbounds ptr, ptr %args, i64 {n}",
            f"%base{n} = load ptr, ptr %a{n}, align 8",
            f"%s{n} = getelementptr inbounds i64, ptr %steps, i64 {n}",
            f"%step{n} = load i64, ptr %s{n}, align 8",
        ]
        expected = code.t.dtype.itemsize
        for axis in reversed(range(len(shape))):
            at = f"{n}.{axis}"
            lines += [
                f"%c{at} = getelementptr inbounds i64, ptr %steps, i64 {place + axis}",
                f"%core{at} = load i64, ptr %c{at}, align 8",
                f"%is{at} = icmp eq i64 %core{at}, {expected}",
                f"%dense{at} = and i1 {known}, %is{at}",
            ]
            known = f"%dense{at}"
            expected *= shape[axis]
        place += len(shape)
    return [*lines, f"%dense = or i1 {known}, false"]


def _copied(code: _Code, n: int, back: bool) -> str:
    """One array of one state, to where its entries are side by side, or back."""
    shape, size = code.shapes[n], code.t.dtype.itemsize
    rows, columns = (1, 1, *shape)[-2:]
    own = ["0", "0", *[f"%core{n}.{axis}" for axis in range(len(shape))]][-2:]
    theirs = f"ptr %row{n}", f"i64 {own[0]}, i64 {own[1]}"
    ours = f"ptr %near{n}", f"i64 {columns * size}, i64 {size}"
    (to, to_steps), (source, source_steps) = (theirs, ours) if back else (ours, theirs)
    counts = f"i64 {rows}, i64 {columns}"
    return f"call void @copy({to}, {source}, {counts}, {to_steps}, {source_steps})"


def _loop(code: _Code) -> list[str]:
    """@loop: state by state. Arrays whose entries are not side by side are copied."""
    sizes = [math.prod(shape) * code.t.dtype.itemsize for shape in code.shapes]
    starts = [0, *accumulate(sizes)]
    arrays, parts = range(len(sizes)), {"kept": code.slots * code.t.bytes, "near": starts[-1]}
    given = ", ".join([f"ptr %r{n}" for n in arrays] + ["ptr %kept"])
    return [
        "define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) {",
        "entry:",
        *[line for part in parts.items() for line in scratch(*part)],
        "%n = load i64, ptr %dims, align 8",
        *_strides(code),
        *[f"%near{n} = getelementptr inbounds i8, ptr %near, i64 {starts[n]}" for n in arrays],
        "%any = icmp sgt i64 %n, 0",
        "br i1 %any, label %state, label %end",
        "state:",
        "%b = phi i64 [ 0, %entry ], [ %b1, %done ]",
        *[f"%far{n} = mul i64 %b, %step{n}" for n in arrays],
        *[f"%row{n} = getelementptr inbounds i8, ptr %base{n}, i64 %far{n}" for n in arrays],
        "br i1 %dense, label %go, label %gather",
        "gather:",
        *[_copied(code, n, back=False) for n in arrays[: code.inputs]],
        "br label %go",
        "go:",
        *[f"%r{n} = select i1 %dense, ptr %row{n}, ptr %near{n}" for n in arrays],
        *[f"call void @block{k}({given})" for k in range(len(code.blocks))],
        "br i1 %dense, label %done, label %scatter",
        "scatter:",
        *[_copied(code, n, back=True) for n in arrays[code.inputs :]],
        "br label %done",
        "done:",
        "%b1 = add i64 %b, 1",
        "%more = icmp slt i64 %b1, %n",
        "br i1 %more, label %state, label %end",
        "end:",
        *[f"call void @scratch_free(ptr %{p}.raw)" for p, size in parts.items() if size > ON_STACK],
        "ret void",
        "}",
    ]


def source(packed: Packed, lanes: int, dtype: np.dtype) -> str:
    """The LLVM IR of a loop over states, one by one, in vectors of so many lanes."""
    t = Lanes(np.dtype(dtype), lanes)
    code = _Code(packed, t)
    lines = declarations(t) + constants([packed.graph], t)
    for number in range(len(code.blocks)):
        lines += _block(code, number)
    copy = COPY.replace("SCALAR", t.scalar).replace("ALIGN", str(t.dtype.itemsize))
    return "\n".join([*lines, *_loop(code)]) + copy
