"""Fused multiply-adds for processors without such an instruction: vectorised, exact to the bit.

LLVM would call the C library for each lane, which takes some hundred instructions where the library
has to emulate it too. This is the definition of the table of operations (`program/op`) as code. A
float32 product is exact in float64; the sum is rounded to odd there, then to float32. In float64
the product and the sums are error-free pairs, whose small parts are added and rounded to odd (Boldo
and Melquiond 2008, algorithm 5). Where those could overflow or underflow, which no robot does, the
C library is called. What this costs is in docs/processors.md.
"""

from __future__ import annotations

import numpy as np

from featherlane.backends.llvm.lower import Lanes
from featherlane.backends.llvm.macros import expanded

LARGE, SMALL = 2.0**990, 2.0**-900  # between them no intermediate overflows or underflows
HALVES = 134217729.0  # 2^27 + 1 splits a float64 into two halves (Veltkamp)

# D are vectors of double, I of integers and B of booleans, with as many lanes


def _two_sum(t: Lanes, s: str, a: str, b: str) -> str:
    """s and s.error: a + b as a rounded sum and its error (Knuth)."""
    D = t.vector
    return f"""
  {s} = fadd {D} {a}, {b}
  {s}.t = fsub {D} {s}, {a}
  {s}.rest = fsub {D} {a}, $(fsub {D} {s}, {s}.t)
  {s}.error = fadd {D} {s}.rest, $(fsub {D} {b}, {s}.t)"""


def _split(t: Lanes, a: str) -> str:
    """a.high and a.low: a as a sum of two numbers of 26 bits (Veltkamp)."""
    D = t.vector
    return f"""
  {a}.c = fmul {D} {a}, {t.splat(HALVES)}
  {a}.high = fsub {D} {a}.c, $(fsub {D} {a}.c, {a})
  {a}.low = fsub {D} {a}, {a}.high"""


def _two_product(t: Lanes, p: str, a: str, b: str) -> str:
    """p and p.error: a b as a rounded product and its error (Dekker)."""
    D = t.vector
    return f"""
  {p} = fmul {D} {a}, {b}{_split(t, a)}{_split(t, b)}
  {p}.0 = fsub {D} {p}, $(fmul {D} {a}.high, {b}.high)
  {p}.1 = fsub {D} {p}.0, $(fmul {D} {a}.low, {b}.high)
  {p}.2 = fsub {D} {p}.1, $(fmul {D} {a}.high, {b}.low)
  {p}.error = fsub {D} $(fmul {D} {a}.low, {b}.low), {p}.2"""


def _sum_to_odd(t: Lanes, to: str, a: str, b: str) -> str:
    """a + b rounded to odd: truncated where it is inexact, with the last bit set."""
    D, I, B = t.vector, t.integers, t.booleans
    s, one = f"{to}.sum", t.splat_integer(1)
    return f"""{_two_sum(t, s, a, b)}
  {to}.bits = bitcast {D} {s} to {I}
  {to}.up = fcmp ogt {D} {s}.error, zeroinitializer
  {to}.positive = fcmp ogt {D} {s}, zeroinitializer
  {to}.inexact = sext {B} $(fcmp une {D} {s}.error, zeroinitializer) to {I}
  {to}.step = or {I} $(sext {B} $(xor {B} {to}.up, {to}.positive) to {I}), {one}
  {to}.even = sub {I} $(and {I} {to}.bits, {one}), {one}
  {to}.change = and {I} $(and {I} {to}.step, {to}.inexact), {to}.even
  {to} = bitcast {I} $(add {I} {to}.bits, {to}.change) to {D}"""


def _magnitude(t: Lanes, a: str) -> str:
    D = t.vector
    return f"$(call {D} @llvm.fabs.{t.suffix}({D} {a}))"


def _single(t: Lanes) -> str:
    """The body for float32: the product is exact in float64, the sum is rounded to odd first."""
    D, B = t.vector, t.booleans
    narrow = Lanes(np.dtype(np.float32), t.width).vector
    return f"""
  %product = fmul {D} $(fpext {narrow} %a to {D}), $(fpext {narrow} %b to {D})
  %wide = fpext {narrow} %c to {D}
  %plain = fadd {D} %product, %wide{_sum_to_odd(t, "%odd", "%product", "%wide")}
  %finite = fcmp one {D} {_magnitude(t, "%plain")}, {t.splat(np.inf)}
  ret {narrow} $(fptrunc {D} $(select {B} %finite, {D} %odd, {D} %plain) to {narrow})"""


def _double(t: Lanes) -> str:
    """The body for float64: error-free if all lanes are in range, else by the C library."""
    D, B = t.vector, t.booleans
    return f"""{_two_product(t, "%high", "%a", "%b")}{_two_sum(t, "%total", "%c", "%high.error")}
{_two_sum(t, "%v", "%high", "%total")}{_sum_to_odd(t, "%odd", "%total.error", "%v.error")}
  %exact = fadd {D} %v, %odd{_in_range(t)}
  %zero = fcmp oeq {D} %exact, zeroinitializer
  %signed = fadd {D} %high, %c
  %result = select {B} %zero, {D} %signed, {D} %exact
  when $(call i1 @llvm.vector.reduce.and.v{t.width}i1({B} %safe)): fast, slow
fast:
  ret {D} %result
slow:{_by_library(t)}"""


def _in_range(t: Lanes) -> str:
    """safe: whether nothing overflows or underflows on the way, by lane."""
    D, B = t.vector, t.booleans
    below = lambda x: f"$(fcmp olt {D} {_magnitude(t, x)}, {t.splat(LARGE)})"
    return f"""
  %normal = fcmp ogt {D} {_magnitude(t, "%high")}, {t.splat(SMALL)}
  %normal.a = or {B} %normal, $(fcmp oeq {D} %a, zeroinitializer)
  %normal.b = or {B} %normal.a, $(fcmp oeq {D} %b, zeroinitializer)
  %below.a = and {B} %normal.b, {below("%a")}
  %below.b = and {B} %below.a, {below("%b")}
  %below.c = and {B} %below.b, {below("%c")}
  %safe = and {B} %below.c, {below("%high")}"""


def _by_library(t: Lanes) -> str:
    """Calls the C library's fma for each lane."""
    D = t.vector
    lines, before = [""], "poison"
    for lane in range(t.width):
        a, b, c = (f"double $(extractelement {D} %{x}, i32 {lane})" for x in "abc")
        lines.append(f"%f{lane} = call double @llvm.fma.f64({a}, {b}, {c})")
        lines.append(f"%r{lane} = insertelement {D} {before}, double %f{lane}, i32 {lane}")
        before = f"%r{lane}"
    return "\n".join([*lines, f"ret {D} {before}"])


def source(bits: int, width: int, name: str) -> str:
    """The LLVM IR of (a, b, c) -> a b + c, rounded once, on vectors of floats of so many bits."""
    t, v = Lanes(np.dtype(np.float64), width), Lanes(np.dtype(f"f{bits // 8}"), width).vector
    D, B = t.vector, t.booleans
    text = f"""
declare {D} @llvm.fabs.{t.suffix}({D})
declare i1 @llvm.vector.reduce.and.v{width}i1({B})
declare double @llvm.fma.f64(double, double, double)
define {v} @{name}({v} %a, {v} %b, {v} %c) noinline {{{_single(t) if bits == 32 else _double(t)}
}}
"""
    return expanded(text)
