"""PTX functions on matrices in scratch memory, where each thread has one: plans call them.

Sums have the order of those on the CPU, and so their bits. A number of a matrix and the one in the
next column are a row of 32 numbers apart, one for each thread of the warp.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from featherlane.backends.cuda import rows
from featherlane.backends.cuda.ptx import WARP, Text, function

TILE = 4  # rows and columns whose sums are accumulated together


class _Function:
    """A function in the making: its registers for parameters, by name."""

    def __init__(self, dtype: np.dtype, **parameters: str) -> None:
        self.text, self.parameters = Text(dtype), [*parameters.items()]
        self.row = WARP * dtype.itemsize
        text = self.text
        self.registers = {
            x: text.set(k, f"ld.param.{text.kind(k)}", f"[{x}]") for x, k in self.parameters
        }

    def __getitem__(self, name: str) -> str:
        return self.registers[name]

    def bytes(self, name: str) -> str:
        """The bytes from row to row of a matrix."""
        return self.text.set("r", "mul.lo.u32", self[f"{name}_pitch"], self.row)

    def lines(self, name: str) -> list[str]:
        return function(name, self.parameters, self.text)


def functions(name: str, dtype: np.dtype) -> dict[str, list[str]]:
    """The functions NAME_multiply, NAME_scale, NAME_add, NAME_clear and NAME_diagonal."""
    written = {
        "multiply": _multiply(dtype),
        "scale": _entries(dtype, "scale"),
        "add": _entries(dtype, "add"),
        "clear": _entries(dtype, "clear"),
        "diagonal": _diagonal(dtype),
    }
    return {f"{name}_{what}": f.lines(f"{name}_{what}") for what, f in written.items()}


def _multiply(dtype: np.dtype) -> _Function:
    """Adds a product of two matrices to a third, of a multiple of four columns."""
    sizes = dict.fromkeys(("rows", "inner", "columns"), "r")
    matrices = {"c": "w", "c_pitch": "r", "a": "w", "a_pitch": "r", "b": "w", "b_pitch": "r"}
    f = _Function(dtype, **matrices, **sizes)
    t = f.text
    steps = {x: f.bytes(x) for x in "abc"}
    whole = t.set("r", "and.b32", f["rows"], -TILE & 0xFFFFFFFF)
    rest = t.set("r", "sub.u32", f["rows"], whole)
    for count, times, first in ((TILE, whole, "0"), (1, rest, whole)):
        skip = t.label()
        t.do(f"@{t.set('p', 'setp.eq.u32', times, 0)} bra {skip}")
        with t.loop(times, count) as r:
            row = t.set("r", "add.u32", r, first)
            c = t.set("w", "mad.wide.u32", row, steps["c"], f["c"])
            a = t.set("w", "mad.wide.u32", row, steps["a"], f["a"])
            with t.loop(f["columns"], TILE) as j:
                _sums(f, steps, count, c, a, j)
        t.lines.append(f"{skip}:")
    return f


def _sums(f: _Function, steps: dict[str, str], count: int, c: str, a: str, j: str) -> None:
    """So many rows by four columns, from the addresses of rows on."""
    t, row = f.text, f.row
    to = t.set("w", "mad.wide.u32", j, row, c)
    right = t.set("w", "mad.wide.u32", j, row, f["b"])
    each = [*product(range(count), range(TILE))]
    row_starts = [t.set("w", "mad.wide.u32", steps["c"], r, to) for r in range(count)]
    sums = {(r, k): rows.load(t, "global", 1, f"{row_starts[r]}+{k * row}")[0] for r, k in each}
    left = [t.set("w", "mad.wide.u32", steps["a"], r, a) for r in range(count)]
    with t.loop(f["inner"]):
        x = [rows.load(t, "global", 1, f"{at}+0")[0] for at in left]
        y = [rows.load(t, "global", 1, f"{right}+{k * row}")[0] for k in range(TILE)]
        for (r, k), total in sums.items():
            t.do(f"fma.rn.{t.type} {total}, {x[r]}, {y[k]}, {total}")
        for at in left:
            t.do(f"add.u64 {at}, {at}, {row}")
        t.do(f"mad.wide.u32 {right}, {steps['b']}, 1, {right}")
    for (r, k), total in sums.items():
        rows.store(t, "global", [total], f"{row_starts[r]}+{k * row}")


def _entries(dtype: np.dtype, what: str) -> _Function:
    """Number by number: c becomes s a ("scale"), c + s a ("add") or zero ("clear")."""
    source = {} if what == "clear" else {"a": "w", "a_pitch": "r"}
    factor = {} if what == "clear" else {"s": "f"}
    f = _Function(dtype, c="w", c_pitch="r", **source, rows="r", columns="r", **factor)
    t = f.text
    names = ["c", *(["a"] if source else [])]
    steps = {x: f.bytes(x) for x in names}
    with t.loop(f["rows"]) as r:
        at = {x: t.set("w", "mad.wide.u32", r, steps[x], f[x]) for x in names}
        with t.loop(f["columns"]):
            c = f"{at['c']}+0"
            if what == "clear":
                value = t.number(0.0)
            else:
                value = rows.load(t, "global", 1, f"{at['a']}+0")[0]
            if what == "scale":
                value = t.set("f", f"mul.rn.{t.type}", f["s"], value)
            if what == "add":
                old = rows.load(t, "global", 1, c)[0]
                value = t.set("f", f"fma.rn.{t.type}", f["s"], value, old)
            rows.store(t, "global", [value], c)
            for x in names:
                t.do(f"add.u64 {at[x]}, {at[x]}, {f.row}")
    return f


def _diagonal(dtype: np.dtype) -> _Function:
    """Adds s to the entries of a diagonal."""
    f = _Function(dtype, c="w", c_pitch="r", size="r", s="f")
    t = f.text
    step = t.set("r", "add.u32", f.bytes("c"), f.row)
    with t.loop(f["size"]) as k:
        at = t.set("w", "mad.wide.u32", k, step, f["c"])
        old = rows.load(t, "global", 1, f"{at}+0")[0]
        rows.store(t, "global", [t.set("f", f"add.rn.{t.type}", old, f["s"])], f"{at}+0")
    return f
