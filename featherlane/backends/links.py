"""A graph as one step of a loop over links: code whose size does not grow with their number.

The step is one link, for `width` states in lanes. Its carry comes from the parent and goes to the
link (outward), or comes from the link and is added to the parent (inward): so trees need no more
than chains. Arrays lie as the loop reads them, (groups, links, entries, lanes), without transposes;
constants are (links, entries), the same in all lanes. The carry, and an output named "sum" that is
to be the carry of the way back, have a row for the ground before those of the links.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.cpu import LEAVE, NEVER
from featherlane.backends.llvm import Lanes, declarations, straight_line, vector_at
from featherlane.graph.graph import Graph

CARRY, CONSTANT = "carry", "constant"
ROOTED = (CARRY, "sum")  # arrays with a row for the ground before those of the links


class Place(NamedTuple):
    """An array of the loop: its number among the arguments, and its entries of one link."""

    number: int
    size: int


def _places(graph: Graph) -> tuple[dict[str, Place], dict[str, Place]]:
    """Of the inputs and the outputs; the carry is both."""
    sizes = {name: int(np.prod(shape)) for name, shape in graph.inputs.items()}
    inputs = {name: Place(k, size) for k, (name, size) in enumerate(sizes.items())}
    others = [name for name in graph.outputs if name != CARRY]
    numbers = {CARRY: inputs[CARRY].number} | {n: len(inputs) + k for k, n in enumerate(others)}
    outputs = {name: Place(numbers[name], len(out.nodes)) for name, out in graph.outputs.items()}
    return inputs, outputs


def _step(graph: Graph, t: Lanes, outward: bool) -> list[str]:
    """@step: one link. Pointers are named after the arrays, %to is where the carry goes."""
    inputs, outputs = _places(graph)
    stores: dict[int, list[tuple[str, int]]] = {}
    for name, out in graph.outputs.items():
        for slot, node in enumerate(out.nodes):
            stores.setdefault(node, []).append(("to" if name == CARRY else f"o.{name}", slot))

    def load(k: int, name: str) -> list[str]:
        which, entry = graph.value[k]
        if which != CONSTANT:
            where = vector_at(t, f"{name}.at", f"%i.{which}", entry)
            return [where, f"{name} = load {t.vector}, ptr {name}.at, align {t.bytes}"]
        return [
            f"{name}.at = getelementptr inbounds {t.scalar}, ptr %i.{which}, i64 {entry}",
            f"{name}.s = load {t.scalar}, ptr {name}.at, align {t.dtype.itemsize}",
            f"{name}.v = insertelement {t.vector} poison, {t.scalar} {name}.s, i32 0",
            f"{name} = shufflevector {t.vector} {name}.v, {t.vector} poison, "
            f"<{t.width} x i32> zeroinitializer",
        ]

    def store(k: int, name: str) -> list[str]:
        lines = []
        for n, (base, slot) in enumerate(stores.get(k, ())):
            at, value = f"%s{k}.{n}", name
            lines.append(vector_at(t, at, f"%{base}", slot))
            if base == "to" and not outward:
                lines.append(f"{at}.old = load {t.vector}, ptr {at}, align {t.bytes}")
                lines.append(f"{at}.sum = fadd {t.vector} {at}.old, {name}")
                value = f"{at}.sum"
            lines.append(f"store {t.vector} {value}, ptr {at}, align {t.bytes}")
        return lines

    pointers = [f"ptr %i.{name}" for name in inputs] + ["ptr %to"]
    pointers += [f"ptr %o.{name}" for name in outputs if name != CARRY]
    return [
        f"define internal void @step({', '.join(pointers)}) noinline {{",
        NEVER.replace("%out", "%to"),
        *straight_line(graph, t, load, store),
        "ret void",
        *LEAVE,
        "}",
    ]


def _at(t: Lanes, name: str, base: str, index: str) -> str:
    return f"{name} = getelementptr inbounds {t.vector}, ptr {base}, i64 {index}"


def source(graph: Graph, dtype: np.dtype, width: int, outward: bool) -> str:
    """The LLVM IR of `loop(arrays, groups, links, parents)`; parents are numbers of links, -1 for
    the ground, whose row of the carry is the first.
    """
    t = Lanes(np.dtype(dtype), width)
    inputs, outputs = _places(graph)
    lines = [*declarations(t), *_step(graph, t, outward)]
    lines += ["define void @loop(ptr %arrays, i64 %groups, i64 %n, ptr %parents) {", "entry:"]
    arrays = {f"i.{name}": place for name, place in inputs.items()}
    arrays |= {f"o.{name}": place for name, place in outputs.items() if name != CARRY}
    for name, place in arrays.items():
        lines.append(f"%{name}.a = getelementptr inbounds ptr, ptr %arrays, i64 {place.number}")
        lines.append(f"%{name}.base = load ptr, ptr %{name}.a, align 8")
    lines += ["%n1 = add i64 %n, 1", "%last = sub i64 %n, 1"]
    lines += ["br label %group", "group:", "%g = phi i64 [ 0, %entry ], [ %g1, %next ]"]
    for name, place in arrays.items():
        rows = "%n1" if name[2:] in ROOTED else "%n"
        if name == f"i.{CONSTANT}":
            continue
        lines.append(f"%{name}.r = mul i64 %g, {rows}")
        lines.append(f"%{name}.e = mul i64 %{name}.r, {place.size}")
        lines.append(_at(t, f"%{name}.g", f"%{name}.base", f"%{name}.e"))
    lines += ["br label %link", "link:", "%s = phi i64 [ 0, %group ], [ %s1, %link ]"]
    lines.append("%k = add i64 %s, 0" if outward else "%k = sub i64 %last, %s")
    lines += [
        "%parent.at = getelementptr inbounds i64, ptr %parents, i64 %k",
        "%parent = load i64, ptr %parent.at, align 8",
        "%above = add i64 %parent, 1",
        "%own = add i64 %k, 1",
    ]
    given = []
    for name, place in arrays.items():
        if name == f"i.{CONSTANT}":
            lines.append(f"%{name}.k = mul i64 %k, {place.size}")
            lines.append(
                f"%{name} = getelementptr inbounds {t.scalar}, ptr %{name}.base, i64 %{name}.k"
            )
        else:
            row = "%own" if name[2:] in ROOTED else "%k"
            row = "%above" if outward and name == f"i.{CARRY}" else row
            lines.append(f"%{name}.k = mul i64 {row}, {place.size}")
            lines.append(_at(t, f"%{name}", f"%{name}.g", f"%{name}.k"))
    carry = f"i.{CARRY}"
    lines.append(f"%to.k = mul i64 {'%own' if outward else '%above'}, {inputs[CARRY].size}")
    lines.append(_at(t, "%to", f"%{carry}.g", "%to.k"))
    given = [f"ptr %i.{name}" for name in inputs] + ["ptr %to"]
    given += [f"ptr %o.{name}" for name in outputs if name != CARRY]
    lines += [
        f"call void @step({', '.join(given)})",
        "%s1 = add i64 %s, 1",
        "%more = icmp slt i64 %s1, %n",
        "br i1 %more, label %link, label %next",
        "next:",
        "%g1 = add i64 %g, 1",
        "%again = icmp slt i64 %g1, %groups",
        "br i1 %again, label %group, label %end",
        "end:",
        "ret void",
        "}",
    ]
    return "\n".join(lines)


class Loop:
    """The machine code of one loop, called with arrays by name."""

    def __init__(self, graph: Graph, address: int) -> None:
        self.inputs, self.outputs = _places(graph)
        given = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
        self._call: Any = ctypes.CFUNCTYPE(None, *given)(address)  # releases the GIL

    def __call__(self, arrays: Mapping[str, np.ndarray], groups: int, parents: np.ndarray) -> None:
        """arrays: for every input and output of the graph, contiguous and aligned to a cache line;
        the carry (groups, links + 1, entries, lanes) is changed in place.
        """
        names: Sequence[str] = [*self.inputs, *(n for n in self.outputs if n != CARRY)]
        table = (ctypes.c_void_p * len(names))(*[arrays[name].ctypes.data for name in names])
        self._call(ctypes.addressof(table), groups, len(parents), parents.ctypes.data)
