"""A graph as one step of a loop over links: code whose size does not grow with their number.

The step is one link, for `width` states in lanes. Its carry comes from the parent and goes to the
link (outward), or comes from the link and is added to the parent (inward): so trees need no more
than chains. Arrays lie as the loop reads them, (groups, links, entries, lanes), without transposes;
constants are (links, entries), the same in all lanes. The carry, and an output named "sum" that is
to be the carry of the way back, have a row for the ground before those of the links.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
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


def _step(graph: Graph, t: Lanes, pointers: list[str], outward: bool) -> list[str]:
    """@step: one link. Pointers are named after the arrays, %to is where the carry goes."""
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


def _arrays(graph: Graph) -> dict[str, Place]:
    """All arrays by the names of their pointers: i. and o. for inputs and outputs."""
    inputs, outputs = _places(graph)
    arrays = {f"i.{name}": place for name, place in inputs.items()}
    return arrays | {f"o.{name}": place for name, place in outputs.items() if name != CARRY}


def _of_group(t: Lanes, name: str, place: Place) -> list[str]:
    """The pointer to the rows of a group, %name.g, for all arrays but the constants."""
    if name == f"i.{CONSTANT}":
        return []
    return [
        f"%{name}.r = mul i64 %g, {'%n1' if name[2:] in ROOTED else '%n'}",
        f"%{name}.e = mul i64 %{name}.r, {place.size}",
        _at(t, f"%{name}.g", f"%{name}.base", f"%{name}.e"),
    ]


def _of_link(t: Lanes, name: str, place: Place, outward: bool) -> list[str]:
    """The pointer to the entries of a link, %name."""
    if name == f"i.{CONSTANT}":
        at = f"%{name} = getelementptr inbounds {t.scalar}, ptr %{name}.base, i64 %{name}.k"
        return [f"%{name}.k = mul i64 %k, {place.size}", at]
    row = "%own" if name[2:] in ROOTED else "%k"
    if outward and name == f"i.{CARRY}":
        row = "%above"
    return [
        f"%{name}.k = mul i64 {row}, {place.size}",
        _at(t, f"%{name}", f"%{name}.g", f"%{name}.k"),
    ]


def source(graph: Graph, dtype: np.dtype, width: int, outward: bool) -> str:
    """The LLVM IR of `loop(arrays, groups, links, parents)`; parents are numbers of links, -1 for
    the ground, whose row of the carry is the first.
    """
    t = Lanes(np.dtype(dtype), width)
    arrays = _arrays(graph)
    pointers = [f"ptr %{name}" for name in [*arrays, "to"]]
    lines = [*declarations(t), *_step(graph, t, pointers, outward)]
    lines += ["define void @loop(ptr %arrays, i64 %groups, i64 %n, ptr %parents) {", "entry:"]
    for name, place in arrays.items():
        lines.append(f"%{name}.a = getelementptr inbounds ptr, ptr %arrays, i64 {place.number}")
        lines.append(f"%{name}.base = load ptr, ptr %{name}.a, align 8")
    lines += ["%n1 = add i64 %n, 1", "%last = sub i64 %n, 1"]
    lines += ["br label %group", "group:", "%g = phi i64 [ 0, %entry ], [ %g1, %next ]"]
    lines += [line for name, place in arrays.items() for line in _of_group(t, name, place)]
    lines += [
        "br label %link",
        "link:",
        "%s = phi i64 [ 0, %group ], [ %s1, %link ]",
        "%k = add i64 %s, 0" if outward else "%k = sub i64 %last, %s",
        "%parent.at = getelementptr inbounds i64, ptr %parents, i64 %k",
        "%parent = load i64, ptr %parent.at, align 8",
        "%above = add i64 %parent, 1",
        "%own = add i64 %k, 1",
    ]
    lines += [line for name, place in arrays.items() for line in _of_link(t, name, place, outward)]
    carry = arrays[f"i.{CARRY}"]
    lines += [
        f"%to.k = mul i64 {'%own' if outward else '%above'}, {carry.size}",
        _at(t, "%to", f"%i.{CARRY}.g", "%to.k"),
        f"call void @step({', '.join(pointers)})",
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
        self.bound(arrays, groups, parents)()

    def bound(
        self, arrays: Mapping[str, np.ndarray], groups: int, parents: np.ndarray
    ) -> Callable[[], None]:
        """The call with these arrays, for when it is made often."""
        names: Sequence[str] = [*self.inputs, *(n for n in self.outputs if n != CARRY)]
        kept = [arrays[name] for name in names]
        table = (ctypes.c_void_p * len(names))(*[x.ctypes.data for x in kept])
        at = ctypes.addressof(table), groups, len(parents), parents.ctypes.data

        def call() -> None:
            self._call(*at)

        call.memory = table, kept, parents  # type: ignore[attr-defined]
        return call
