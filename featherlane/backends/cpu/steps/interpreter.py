"""Recorded calls as machine code: one function for each piece, and one that runs programs.

The code is the inner loop of a generalised ufunc, as that of one graph is (`backends.cpu`). It runs
the program for one group of states after another, in a memory that threads take and give back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from featherlane.backends.cpu.steps.batching import Layout
from featherlane.backends.cpu.steps.encode import COLLECT, Code, Work
from featherlane.backends.cpu.steps.scratch import FILLED, KEPT, filled, functions, word
from featherlane.backends.llvm.lower import Lanes, constants, declarations, straight_line
from featherlane.program.program import Y

__all__ = ["FILLED", "KEPT", "source"]

# Programs


def _offset(name: str, record: str, entry: int, base: str, scalar: str) -> list[str]:
    """Makes %name point to base + the number at an entry of the record."""
    return [
        f"%{name}.a = getelementptr inbounds i32, ptr %{record}, i64 {entry}",
        f"%{name}.i = load i32, ptr %{name}.a, align 4",
        f"%{name}.x = sext i32 %{name}.i to i64",
        f"%{name} = getelementptr inbounds {scalar}, ptr %{base}, i64 %{name}.x",
    ]


def _piece(code: Code, t: Lanes, number: int, splat: bool) -> list[str]:
    """@piece{number}(memory, constants, records, count). splat: constants are the same in all
    lanes.
    """
    numbers = 2 + len({base.number for base in code.bases})
    wanted: dict[int, list[int]] = {}
    for i, node in enumerate(code.graph.outputs[Y].nodes):
        wanted.setdefault(node, []).append(i)

    def load(k: int, name: str) -> list[str]:
        entry = code.graph.value[k][1] - len(code.bases)
        if entry < 0:
            base = code.bases[entry]
            at = f"{name}.at = getelementptr inbounds {t.scalar}, ptr %b{base.number}"
            return [
                f"{at}, i64 {base.distance}",
                f"{name} = load {t.vector}, ptr {name}.at, align {t.dtype.itemsize}",
            ]
        step = entry if splat else entry * t.width
        at = f"{name}.at = getelementptr inbounds {t.scalar}, ptr %constant, i64 {step}"
        if not splat:
            load = f"{name} = load {t.vector}, ptr {name}.at, align {t.dtype.itemsize}"
            return [at, load]
        return [
            at,
            f"{name}.s = load {t.scalar}, ptr {name}.at, align {t.dtype.itemsize}",
            f"{name}.v = insertelement {t.vector} poison, {t.scalar} {name}.s, i32 0",
            f"{name} = shufflevector {t.vector} {name}.v, {t.vector} poison, "
            f"<{t.width} x i32> zeroinitializer",
        ]

    def store(k: int, name: str) -> list[str]:
        lines = []
        for i in wanted.get(k, ()):
            at = f"%o{k}.{i}"
            step = i * t.width
            lines.append(f"{at} = getelementptr inbounds {t.scalar}, ptr %out, i64 {step}")
            lines.append(f"store {t.vector} {name}, ptr {at}, align {t.bytes}")
        return lines

    lines = _offset("constant", "record", 1, "constants", t.scalar)
    for b in range(numbers - 2):
        lines += _offset(f"b{b}", "record", 2 + b, "memory", t.scalar)
    lines += [*straight_line(code.graph, t, load, store), "br label %done"]
    return _for_records(f"piece{number}(ptr %memory, ptr %constants", t, numbers, lines)


def _for_records(function: str, t: Lanes, numbers: int, body: list[str]) -> list[str]:
    """A function over records of so many numbers. The body finds %record and %out, and goes on to
    %done. function: its name and first arguments.
    """
    return [
        f"define internal void @{function}, ptr %records, i64 %count) noinline {{",
        "entry:",
        "%stop = icmp eq ptr %memory, null",
        "br label %again",
        "again:",
        "%n = phi i64 [ 0, %entry ], [ %next, %done ]",
        f"%m = mul i64 %n, {numbers}",
        "%record = getelementptr inbounds i32, ptr %records, i64 %m",
        *_offset("out", "record", 0, "memory", t.scalar),
        *body,
        "done:",
        "%next = add i64 %n, 1",
        "%more = icmp slt i64 %next, %count",
        "br i1 %more, label %again, label %leave",
        "leave:",
        "ret void",
        "}",
    ]


def _collect(t: Lanes, layout: Layout) -> list[str]:
    """@collect(memory, records, count): a vector for each entry, lane after lane."""
    lanes, states = layout.calls, layout.states
    part = t.of(states) if states > 1 else t.scalar
    lines = [
        "%entries.a = getelementptr inbounds i32, ptr %record, i64 1",
        "%entries.i = load i32, ptr %entries.a, align 4",
        "%entries = sext i32 %entries.i to i64",
    ]
    for lane in range(lanes):
        lines += _offset(f"l{lane}", "record", 2 + lane, "memory", t.scalar)
    lines += [
        "br label %entry.of",
        "entry.of:",
        "%e = phi i64 [ 0, %again ], [ %e1, %entry.of ]",
        f"%at = mul i64 %e, {t.width}",
        f"%to = getelementptr inbounds {t.scalar}, ptr %out, i64 %at",
    ]
    for lane in range(lanes):
        lines += [
            f"%p{lane} = getelementptr inbounds {t.scalar}, ptr %l{lane}, i64 %at",
            f"%x{lane} = load {part}, ptr %p{lane}, align {t.dtype.itemsize}",
            f"%t{lane} = getelementptr inbounds {t.scalar}, ptr %to, i64 {lane * states}",
        ]
    if states > 1:
        lines += [
            f"store {part} %x{lane}, ptr %t{lane}, align {t.dtype.itemsize}"
            for lane in range(lanes)
        ]
    else:
        before = "poison"
        for lane in range(lanes):
            lines.append(
                f"%v{lane} = insertelement {t.vector} {before}, {part} %x{lane}, i32 {lane}"
            )
            before = f"%v{lane}"
        lines.append(f"store {t.vector} {before}, ptr %to, align {t.bytes}")
    lines += [
        "%e1 = add i64 %e, 1",
        "%more.e = icmp slt i64 %e1, %entries",
        "br i1 %more.e, label %entry.of, label %done",
    ]
    return _for_records("collect(ptr %memory", t, 2 + lanes, lines)


def _run(codes: Sequence[Code], layout: Layout) -> list[str]:
    """@run(memory, constants, program, end): the interpreter of programs."""
    sizes = [2 + layout.calls, *[2 + len({b.number for b in code.bases}) for code in codes]]
    lines = [
        "define internal void @run(ptr %memory, ptr %constants, ptr %program, ptr %end) noinline {",
        "entry:",
        "br label %next",
        "next:",
        "%at = phi ptr [ %program, %entry ]"
        + "".join(f", [ %at{k}, %do{k} ]" for k in range(len(sizes))),
        "%more = icmp ult ptr %at, %end",
        "br i1 %more, label %one, label %leave",
        "one:",
        "%function = load i32, ptr %at, align 4",
        "%count.a = getelementptr inbounds i32, ptr %at, i64 1",
        "%count.i = load i32, ptr %count.a, align 4",
        "%count = sext i32 %count.i to i64",
        "%records = getelementptr inbounds i32, ptr %at, i64 2",
        "switch i32 %function, label %leave [",
        *[f"i32 {k}, label %do{k}" for k in range(len(sizes))],
        "]",
    ]
    for k, size in enumerate(sizes):
        arguments = "ptr %memory, " + ("" if k == COLLECT else "ptr %constants, ")
        name = "collect" if k == COLLECT else f"piece{k}"
        lines += [
            f"do{k}:",
            f"call void @{name}({arguments}ptr %records, i64 %count)",
            f"%size{k} = mul i64 %count, {size}",
            f"%at{k} = getelementptr inbounds i32, ptr %records, i64 %size{k}",
            "br label %next",
        ]
    return [*lines, "leave:", "ret void", "}"]


# The user's arrays


def _rows(t: Lanes, states: int) -> list[str]:
    """%r{s}: the rows of a group; lanes left over have the last state again."""
    lines = []
    for s in range(states):
        lines += [
            f"%r{s}.n = add i64 %first, {s}",
            f"%r{s}.there = icmp slt i64 %r{s}.n, %last",
            f"%r{s}.k = select i1 %r{s}.there, i64 %r{s}.n, i64 %last",
            f"%r{s}.o = mul i64 %r{s}.k, %step",
            f"%r{s} = getelementptr inbounds i8, ptr %rows, i64 %r{s}.o",
        ]
    return lines


def _entries(t: Lanes, body: list[str]) -> list[str]:
    """For each entry of an array of two dimensions: %at is where it lies in the memory, %o how far
    it is from the beginning of a row.
    """
    return [
        "br label %line",
        "line:",
        "%i = phi i64 [ 0, %entry ], [ %i1, %over ]",
        "%start = mul i64 %i, %stride0",
        "%before = mul i64 %i, %columns",
        "br label %each",
        "each:",
        "%j = phi i64 [ 0, %line ], [ %j1, %each ]",
        "%k = add i64 %before, %j",
        "%further = mul i64 %j, %stride1",
        "%o = add i64 %start, %further",
        "%at.a = getelementptr inbounds i32, ptr %places, i64 %k",
        "%at.i = load i32, ptr %at.a, align 4",
        "%at.x = sext i32 %at.i to i64",
        f"%at = getelementptr inbounds {t.scalar}, ptr %memory, i64 %at.x",
        *body,
        "%j1 = add i64 %j, 1",
        "%more = icmp slt i64 %j1, %columns",
        "br i1 %more, label %each, label %over",
        "over:",
        "%i1 = add i64 %i, 1",
        "%another = icmp slt i64 %i1, %lines",
        "br i1 %another, label %line, label %leave",
        "leave:",
        "ret void",
        "}",
    ]


MOVES = (
    "ptr %memory, ptr %places, ptr %rows, i64 %step, i64 %first, i64 %last, i64 %lines, "
    "i64 %columns, i64 %stride0, i64 %stride1"
)


def _pack(t: Lanes, states: int) -> list[str]:
    """@pack: rows of the user's array into the memory, each entry to its place."""
    part, body, before = t.of(states), [], "poison"
    for s in range(states):
        body += [
            f"%p{s} = getelementptr inbounds i8, ptr %r{s}, i64 %o",
            f"%x{s} = load {t.scalar}, ptr %p{s}, align {t.dtype.itemsize}",
            f"%v{s} = insertelement {part} {before}, {t.scalar} %x{s}, i32 {s}",
        ]
        before = f"%v{s}"
    body.append(f"store {part} {before}, ptr %at, align {t.dtype.itemsize}")
    head = [f"define internal void @pack({MOVES}) noinline {{", "entry:"]
    return [*head, *_rows(t, states), *_entries(t, body)]


def _unpack(t: Lanes, states: int) -> list[str]:
    """@unpack: results, each from its place, into rows of the user's array."""
    part = t.of(states)
    body = [f"%v = load {part}, ptr %at, align {t.dtype.itemsize}"]
    for s in range(states):
        body += [
            f"%x{s} = extractelement {part} %v, i32 {s}",
            f"%p{s} = getelementptr inbounds i8, ptr %r{s}, i64 %o",
            f"store {t.scalar} %x{s}, ptr %p{s}, align {t.dtype.itemsize}",
        ]
    head = [f"define internal void @unpack({MOVES}) noinline {{", "entry:"]
    return [*head, *_rows(t, states), *_entries(t, body)]


def _move(name: str, k: int, shape: tuple[int, ...], taken: int, cores: int) -> list[str]:
    """The call of @pack or @unpack for one array. cores: where its own strides begin."""
    lines, columns = (1, 1, *shape)[-2:]
    strides = [f"%core{k}.{axis}" for axis in range(len(shape))]
    stride0, stride1 = ["0"] * (2 - len(shape)) + strides
    places = "given" if name == "pack" else "results"
    text = [
        line
        for axis in range(len(shape))
        for line in word(f"core{k}.{axis}", "i64", "%steps", cores + axis)
    ]
    return [
        *text,
        f"%m{k} = getelementptr inbounds i32, ptr %{places}, i64 {taken}",
        f"call void @{name}(ptr %memory, ptr %m{k}, ptr %rows{k}, i64 %step{k}, i64 %first, "
        f"i64 %last, i64 {lines}, i64 {columns}, i64 {stride0}, i64 {stride1})",
    ]


Shapes = Sequence[tuple[int, ...]]


def _loop(t: Lanes, layout: Layout, inputs: Shapes, outputs: Shapes) -> list[str]:
    """@loop, with the signature of the inner loop of a generalised ufunc."""
    states, every = layout.states, [*inputs, *outputs]
    lines = [*functions(), *_pack(t, states), *_unpack(t, states)]
    lines += ["define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %unused) {", "entry:"]
    lines += ["%batch = load i64, ptr %dims, align 8", "%last = sub i64 %batch, 1"]
    for name in ("constants", "program", "end", "given", "results"):
        lines += filled(name)
    for k in range(len(every)):
        lines += word(f"rows{k}", "ptr", "%args", k) + word(f"step{k}", "i64", "%steps", k)
    lines += [
        "%some = icmp sgt i64 %batch, 0",
        "br i1 %some, label %begin, label %leave",
        "begin:",
        "%memory = call ptr @take()",
        "br label %group",
        "group:",
        "%first = phi i64 [ 0, %begin ], [ %next, %group ]",
    ]
    cores, taken = len(every), 0
    for k, shape in enumerate(every):
        if k == len(inputs):
            taken = 0
            lines.append("call void @run(ptr %memory, ptr %constants, ptr %program, ptr %end)")
        lines += _move("pack" if k < len(inputs) else "unpack", k, shape, taken, cores)
        cores, taken = cores + len(shape), taken + math.prod(shape)
    return [
        *lines,
        f"%next = add i64 %first, {states}",
        "%more = icmp slt i64 %next, %batch",
        "br i1 %more, label %group, label %over",
        "over:",
        "call void @give(ptr %memory)",
        "br label %leave",
        "leave:",
        "ret void",
        "}",
    ]


def source(work: Work, inputs: Shapes, outputs: Shapes, dtype: np.dtype) -> str:
    """The LLVM IR of @loop and @forget."""
    layout = work.layout
    t = Lanes(np.dtype(dtype), layout.width)
    lines = declarations(t) + constants([code.graph for code in work.codes], t)
    for k, code in enumerate(work.codes, 1):
        lines += _piece(code, t, k, splat=layout.calls == 1)
    lines += _collect(t, layout) + _run(work.codes, layout) + _loop(t, layout, inputs, outputs)
    return "\n".join(lines) + "\n"
