"""Step programs as machine code: a function for each function of the program, and an interpreter of
the words.

The code is the inner loop of a generalised ufunc, like the code of a graph (`graphs/kernel`). It
runs the program for one group of states after another, in a workspace from a pool.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from featherlane.backends.cpu.graphs.gather import (
    argument,
    each_entry,
    first_strides,
    matrix_strides,
)
from featherlane.backends.cpu.loaded import LoopWords
from featherlane.backends.cpu.steps.batching import LaneLayout
from featherlane.backends.cpu.steps.encode import COLLECT, StepCode, StepProgram
from featherlane.backends.cpu.steps.scratch import functions
from featherlane.backends.llvm import lower
from featherlane.backends.llvm.lower import Lanes
from featherlane.backends.llvm.macros import expanded
from featherlane.backends.llvm.records import field, word
from featherlane.program.program import Y

PROGRAM = ("constants", "program", "end", "inputs", "results")  # addresses among the LoopWords


def _integer(name: str, words: str, k: str | int) -> list[str]:
    """Loads word k of a list of 32-bit numbers into %name, as an i64."""
    at = f"$(getelementptr inbounds i32, ptr %{words}, i64 {k})"
    return [f"%{name} = sext i32 $(load i32, ptr {at}, align 4) to i64"]


def _offset(t: Lanes, name: str, base: str, words: str, k: str | int) -> list[str]:
    """Sets %name to base + word k of a list."""
    return [
        *_integer(f"{name}.x", words, k),
        lower.scalar_at(t, f"%{name}", f"%{base}", f"%{name}.x"),
    ]


def _signature(function: int) -> str:
    """A function of the interpreter, by number, with its parameters."""
    if function == COLLECT:
        return "@collect(ptr %memory, ptr %records, i64 %count)"
    return f"@piece{function}(ptr %memory, ptr %constants, ptr %records, i64 %count)"


def _for_records(t: Lanes, function: int, size: int, body: list[str]) -> str:
    """A function whose body runs for each record of so many words, with %record and %out."""
    lines = [
        f"define internal void {_signature(function)} noinline {{",
        lower.never("%memory"),
        "repeat %n",
        f"%record = getelementptr inbounds i32, ptr %records, i64 $(mul i64 %n, {size})",
        *_offset(t, "out", "memory", "record", 0),
        *body,
        "again %n %count",
        "br label %leave",
        "leave:",
        "ret void",
        "}",
    ]
    return expanded("\n".join(lines))


def _piece(t: Lanes, code: StepCode, number: int, splat: bool) -> str:
    """A function's graph, run on records. splat: constants are the same in all lanes."""
    wanted: dict[int, list[int]] = {}
    for i, node in enumerate(code.graph.outputs[Y].nodes):
        wanted.setdefault(node, []).append(i)

    def load(k: int, name: str) -> list[str]:
        entry = code.graph.value[k][1] - len(code.bases)
        if entry < 0:
            base = code.bases[entry]
            return lower.load_entries(t, name, f"%b{base.number}", base.distance)
        if not splat:
            return lower.load_entries(t, name, "%constant", entry * t.width)
        at = f"{name}.at"
        return [lower.scalar_at(t, at, "%constant", entry), *lower.broadcast(t, name, at)]

    def store(k: int, name: str) -> list[str]:
        stores = [lower.store_vector(t, f"%o{k}.{i}", name, "%out", i) for i in wanted.get(k, ())]
        return [line for lines in stores for line in lines]

    lines = _offset(t, "constant", "constants", "record", 1)
    for b in range(code.size - 2):
        lines += _offset(t, f"b{b}", "memory", "record", 2 + b)
    return _for_records(
        t, number, code.size, lines + lower.straight_line(code.graph, t, load, store)
    )


def _collect(t: Lanes, layout: LaneLayout) -> str:
    """@collect(memory, records, count): a vector for each entry, lane after lane."""
    lanes, states, align = range(layout.calls), layout.states, t.dtype.itemsize
    part = t.of(states) if states > 1 else t.scalar
    lines = _integer("entries", "record", 1)
    for lane in lanes:
        lines += _offset(t, f"l{lane}", "memory", "record", 2 + lane)
    lines += ["repeat %e", f"%at = mul i64 %e, {t.width}", lower.scalar_at(t, "%to", "%out", "%at")]
    for lane in lanes:
        lines.append(lower.scalar_at(t, f"%p{lane}", f"%l{lane}", "%at"))
        lines.append(f"%x{lane} = load {part}, ptr %p{lane}, align {align}")
        lines.append(lower.scalar_at(t, f"%t{lane}", "%to", lane * states))
    if states > 1:
        lines += [f"store {part} %x{lane}, ptr %t{lane}, align {align}" for lane in lanes]
    else:
        lines += _vector_of_lanes(t.vector, part, layout.calls)
        lines.append(f"store {t.vector} %vector, ptr %to, align {t.bytes}")
    return _for_records(t, COLLECT, layout.record, [*lines, "again %e %entries"])


def _vector_of_lanes(vector: str, scalar: str, lanes: int) -> list[str]:
    """%vector of the scalars %x0, %x1, ..."""
    names = ["poison", *[f"%v{lane}" for lane in range(lanes - 1)], "%vector"]
    return [
        f"{names[k + 1]} = insertelement {vector} {names[k]}, {scalar} %x{k}, i32 {k}"
        for k in range(lanes)
    ]


def _run(codes: Sequence[StepCode], layout: LaneLayout) -> str:
    """@run(memory, constants, program, end): the interpreter of programs."""
    sizes = list(enumerate([layout.record, *[code.size for code in codes]]))
    lines = [
        "define internal void @run(ptr %memory, ptr %constants, ptr %program, ptr %end) noinline {",
        "entry:",
        "br label %next",
        "next:",
        "%at = phi ptr [ %program, %entry ]" + "".join(f", [ %at{k}, %do{k} ]" for k, _ in sizes),
        "when ult ptr %at, %end: one, leave",
        "one:",
        "%function = load i32, ptr %at, align 4",
        *_integer("count", "at", 1),
        "%records = getelementptr inbounds i32, ptr %at, i64 2",
        "switch i32 %function, label %leave [",
        *[f"i32 {k}, label %do{k}" for k, _ in sizes],
        "]",
    ]
    for k, size in sizes:
        lines += [
            f"do{k}:",
            f"call void {_signature(k)}",
            f"%size{k} = mul i64 %count, {size}",
            f"%at{k} = getelementptr inbounds i32, ptr %records, i64 %size{k}",
            "br label %next",
        ]
    return expanded("\n".join([*lines, "leave:", "ret void", "}"]))


# The user's arrays


def _mover(t: Lanes, name: str, states: int, body: list[str]) -> str:
    """@pack or @unpack. The body runs for each entry, which is a vector at %at of the workspace,
    and at offset %o of %r0, %r1, ...: the rows of a group of states, whose last row is repeated for
    missing states.
    """
    lines = [
        f"define internal void @{name}(ptr %memory, ptr %places, ptr %rows, i64 %step, "
        "i64 %first, i64 %last, i64 %size1, i64 %size2, i64 %step1, i64 %step2) noinline {"
    ]
    for s in range(states):
        lines += [
            f"%n{s} = add i64 %first, {s}",
            f"%k{s} = select i1 $(icmp slt i64 %n{s}, %last), i64 %n{s}, i64 %last",
            f"%r{s} = at %rows $(mul i64 %k{s}, %step)",
        ]
    entries = each_entry("\n".join([*_offset(t, "at", "memory", "places", "%e"), *body]))
    return expanded("\n".join([*lines, entries, "ret void", "}"]))


def _pack(t: Lanes, states: int) -> str:
    """@pack: rows of the user's array into the workspace, each entry to its address."""
    part, align, body = t.of(states), t.dtype.itemsize, []
    for s in range(states):
        body += [f"%p{s} = at %r{s} %o", f"%x{s} = load {t.scalar}, ptr %p{s}, align {align}"]
    body += _vector_of_lanes(part, t.scalar, states)
    return _mover(t, "pack", states, [*body, f"store {part} %vector, ptr %at, align {align}"])


def _unpack(t: Lanes, states: int) -> str:
    """@unpack: results, each from its address, into rows of the user's array."""
    part, align = t.of(states), t.dtype.itemsize
    body = [f"%v = load {part}, ptr %at, align {align}"]
    for s in range(states):
        body += [
            f"%x{s} = extractelement {part} %v, i32 {s}",
            f"%p{s} = at %r{s} %o",
            f"store {t.scalar} %x{s}, ptr %p{s}, align {align}",
        ]
    return _mover(t, "unpack", states, body)


def _move(name: str, n: int, shape: tuple[int, ...], places: str, stride: int) -> list[str]:
    """Calls @pack or @unpack for array n. places: the table of the addresses of its entries;
    stride: the number of its first core stride.
    """
    sizes, strides = (1, 1, *shape)[-2:], matrix_strides(n, len(shape))
    loads = [word(f"core{n}.{axis}", "i64", "%steps", stride + axis) for axis in range(len(shape))]
    matrix = ", ".join(f"i64 {x}" for x in (*sizes, *strides))
    return [
        *[line for lines in loads for line in lines],
        f"call void @{name}(ptr %memory, ptr $({places}), ptr %base{n}, i64 %step{n}, i64 %first, "
        f"i64 %last, {matrix})",
    ]


Shapes = Sequence[tuple[int, ...]]


def _moves(name: str, places: str, shapes: Shapes, arrays: range, strides: list[int]) -> list[str]:
    """Moves some of the arrays. places: the table of the addresses of their entries."""
    lines, count = [], 0
    for n in arrays:
        at = f"getelementptr inbounds i32, ptr %{places}, i64 {count}"
        lines += _move(name, n, shapes[n], at, strides[n])
        count += math.prod(shapes[n])
    return lines


def _loop(t: Lanes, states: int, inputs: Shapes, outputs: Shapes) -> str:
    """@loop, with the signature of the inner loop of a generalised ufunc."""
    shapes, taken = [*inputs, *outputs], len(inputs)
    strides, arrays = first_strides(shapes), range(len(shapes))
    lines = [
        "define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %unused) {",
        "%batch = load i64, ptr %dims, align 8",
        "%last = sub i64 %batch, 1",
        *[f"%{name} = item ptr @work {field(LoopWords, name)}" for name in PROGRAM],
        *[line for n in arrays for line in argument(n)],
        "when sgt i64 %batch, 0: begin, leave",
        "begin:",
        "%memory = call ptr @scratch_take()",
        "when ne ptr %memory, null: start, leave",
        "start:",
        "br label %group",
        "group:",
        "%first = phi i64 [ 0, %start ], [ %next, %group ]",
        *_moves("pack", "inputs", shapes, arrays[:taken], strides),
        "call void @run(ptr %memory, ptr %constants, ptr %program, ptr %end)",
        *_moves("unpack", "results", shapes, arrays[taken:], strides),
        f"%next = add i64 %first, {states}",
        "when slt i64 %next, %batch: group, over",
        "over:",
        "call void @scratch_give(ptr %memory)",
        "br label %leave",
        "leave:",
        "ret void",
        "}",
    ]
    return expanded("\n".join(lines))


def source(program: StepProgram, inputs: Shapes, outputs: Shapes, dtype: np.dtype) -> str:
    """The LLVM IR of @loop and @forget."""
    layout, codes = program.layout, program.codes
    t = Lanes(np.dtype(dtype), layout.width)
    pieces = [_piece(t, code, k, splat=layout.calls == 1) for k, code in enumerate(codes, 1)]
    parts = [
        *lower.declarations(t),
        *lower.constants([code.graph for code in codes], t),
        *pieces,
        _collect(t, layout),
        _run(codes, layout),
        functions(),
        _pack(t, layout.states),
        _unpack(t, layout.states),
        _loop(t, layout.states, inputs, outputs),
    ]
    return "\n".join(parts) + "\n"
