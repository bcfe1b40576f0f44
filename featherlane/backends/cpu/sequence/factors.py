"""Factors of symmetric matrices of one state after another, with neighbouring columns in the lanes:
rows are scaled and added by the functions of `matrices`.
"""

from __future__ import annotations

from featherlane.backends.llvm.lower import Lanes
from featherlane.backends.llvm.macros import expanded

ROUNDING = 16  # units in the last place below which a pivot is nothing but rounding


def functions(t: Lanes) -> str:
    """The LLVM IR of @factor, @substitute and @mirror."""
    texts = [_factor(t), _substitute(t), _mirror(t)]
    root = f"declare {t.scalar} @llvm.sqrt.f{t.bits}({t.scalar})"
    return "\n".join([root, *map(expanded, texts)])


def _entry(t: Lanes, name: str, matrix: str, row: str, column: str) -> str:
    """Lines that set %name to the address of an entry, and %name.row to that of its row."""
    return f"""
  %{name}.o = mul i64 {row}, %{matrix}.pitch
  %{name}.row = getelementptr inbounds {t.scalar}, ptr %{matrix}, i64 %{name}.o
  %{name} = getelementptr inbounds {t.scalar}, ptr %{name}.row, i64 {column}"""


def _pivot(t: Lanes) -> str:
    """Lines that set %inverse to that of the square root of %pivot, or to 1 where it is not
    positive, and renew %state: 1, or what the first pivot says that is not positive, or lost beside
    the diagonal: 0 if it is a number, -1 if not.
    """
    s, zero, one = t.scalar, *map(Lanes(t.dtype, 1).number, (0.0, 1.0))
    less, minus = map(Lanes(t.dtype, 1).number, (1 / ROUNDING, -1.0))
    return f"""
  %seen = fadd {s} %whole, $(fmul {s} %pivot, {less})
  %kept = fcmp ogt {s} %seen, %whole
  %positive = fcmp ogt {s} %pivot, {zero}
  %good = and i1 %kept, %positive
  %bad = select i1 $(fcmp ord {s} %pivot, %pivot), {s} {zero}, {s} {minus}
  %verdict = select i1 %good, {s} {one}, {s} %bad
  %before = load {s}, ptr %state, align {t.dtype.itemsize}
  %failed = fcmp olt {s} %before, {one}
  %now = select i1 %failed, {s} %before, {s} %verdict
  store {s} %now, ptr %state, align {t.dtype.itemsize}
  %safe = select i1 %positive, {s} %pivot, {s} {one}
  %root = call {s} @llvm.sqrt.f{t.bits}({s} %safe)
  %inverse = fdiv {s} {one}, %root"""


def _factor(t: Lanes) -> str:
    """@factor: rows of L^T and what is right of it, from whole vectors of columns on. Entries left
    of the diagonal are changed and mean nothing.
    """
    s, size, whole = t.scalar, t.dtype.itemsize, -t.width
    return f"""
define internal void @factor(ptr %a, i64 %a.pitch, ptr %d, i64 %d.pitch, ptr %state, i64 %unused,
                             i64 %size, i64 %columns) noinline {{
  each %j 0 %size{_entry(t, "p", "a", "%j", "%j")}{_entry(t, "w", "d", "%j", "%j")}
  %pivot = load {s}, ptr %p, align {size}
  %whole = load {s}, ptr %w, align {size}{_pivot(t)}
  %j.at = and i64 %j, {whole}
  %j.from = getelementptr inbounds {s}, ptr %p.row, i64 %j.at
  %j.columns = sub i64 %columns, %j.at
  call void @scale(ptr %j.from, i64 0, ptr %j.from, i64 0, i64 1, i64 %j.columns, {s} %inverse)
  store {s} %inverse, ptr %p, align {size}
  %first = add i64 %j, 1
  each %i %first %size
  %u.at = getelementptr inbounds {s}, ptr %p.row, i64 %i
  %u = load {s}, ptr %u.at, align {size}
  %minus = fneg {s} %u
  %i.at = and i64 %i, {whole}{_entry(t, "to", "a", "%i", "%i.at")}
  %from = getelementptr inbounds {s}, ptr %p.row, i64 %i.at
  %i.columns = sub i64 %columns, %i.at
  call void @add(ptr %to, i64 0, ptr %from, i64 0, i64 1, i64 %i.columns, {s} %minus)
  again %i
  again %j
  ret void
}}
"""


def _substitute(t: Lanes) -> str:
    """@substitute: rows of x from the last to the first."""
    s, size = t.scalar, t.dtype.itemsize
    return f"""
define internal void @substitute(ptr %x, i64 %x.pitch, ptr %u, i64 %u.pitch, i64 %size,
                                 i64 %columns) noinline {{
  each %m 1 $(add i64 %size, 1)
  %j = sub i64 %size, %m{_entry(t, "d", "u", "%j", "%j")}{_entry(t, "from", "x", "%j", "0")}
  %inverse = load {s}, ptr %d, align {size}
  call void @scale(ptr %from, i64 0, ptr %from, i64 0, i64 1, i64 %columns, {s} %inverse)
  each %i 0 %j{_entry(t, "f", "u", "%i", "%j")}{_entry(t, "to", "x", "%i", "0")}
  %factor = load {s}, ptr %f, align {size}
  %minus = fneg {s} %factor
  call void @add(ptr %to, i64 0, ptr %from, i64 0, i64 1, i64 %columns, {s} %minus)
  again %i
  again %m
  ret void
}}
"""


def _mirror(t: Lanes) -> str:
    """@mirror: entry by entry."""
    s, size = t.scalar, t.dtype.itemsize
    return f"""
define internal void @mirror(ptr %a, i64 %a.pitch, i64 %size) noinline {{
  each %i 0 %size
  each %j 0 %i{_entry(t, "to", "a", "%i", "%j")}{_entry(t, "from", "a", "%j", "%i")}
  %x = load {s}, ptr %from, align {size}
  store {s} %x, ptr %to, align {size}
  again %j
  again %i
  ret void
}}
"""
