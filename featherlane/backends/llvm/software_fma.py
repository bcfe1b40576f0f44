"""Fused multiply-adds for processors that have none, in vectors and to the bit.

LLVM would call the C library for each lane, which takes some hundred instructions where the library
has no such instruction either. Here is what the table of operations (`graph/op`) defines, as code:
a float32 goes through float64, whose sum is rounded to odd before it is rounded to float32; a
float64 is an error-free product and error-free sums, of which the small parts are added rounded to
odd (Boldo and Melquiond 2008, algorithm 5). Where those could overflow or underflow, which no robot
does, the C library is asked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from featherlane.backends.llvm.lower import Lanes

LARGE, SMALL = 2.0**990, 2.0**-900  # between them nothing overflows or underflows on the way
HALVES = 134217729.0  # 2^27 + 1, by Veltkamp


class _Text:
    """Lines of a function on vectors of float64."""

    def __init__(self, width: int) -> None:
        self.t = Lanes(np.dtype(np.float64), width)
        self.lines: list[str] = []

    def new(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def number(self, instruction: str, a: str, b: str) -> str:
        return self.new(f"{instruction} {self.t.vector} {a}, {b}")

    def whole(self, instruction: str, a: str, b: str) -> str:
        return self.new(f"{instruction} {self.t.integers} {a}, {b}")

    def both(self, instruction: str, a: str, b: str) -> str:
        return self.new(f"{instruction} <{self.t.width} x i1> {a}, {b}")

    def magnitude(self, a: str) -> str:
        return self.new(f"call {self.t.vector} @llvm.fabs.{self.t.suffix}({self.t.vector} {a})")

    def mask(self, condition: str) -> str:
        return self.new(f"sext <{self.t.width} x i1> {condition} to {self.t.integers}")

    def two_sum(self, a: str, b: str) -> tuple[str, str]:
        """a + b as an unevaluated sum (Knuth)."""
        s = self.number("fadd", a, b)
        t = self.number("fsub", s, a)
        rest = self.number("fsub", a, self.number("fsub", s, t))
        return s, self.number("fadd", rest, self.number("fsub", b, t))

    def split(self, a: str) -> tuple[str, str]:
        """a as a sum of two numbers of 26 bits (Veltkamp)."""
        c = self.number("fmul", a, self.t.splat(HALVES))
        high = self.number("fsub", c, self.number("fsub", c, a))
        return high, self.number("fsub", a, high)

    def two_product(self, a: str, b: str) -> tuple[str, str]:
        """a b as an unevaluated sum (Dekker)."""
        p = self.number("fmul", a, b)
        (ah, al), (bh, bl) = self.split(a), self.split(b)
        rest = p
        for x, y in ((ah, bh), (al, bh), (ah, bl)):
            rest = self.number("fsub", rest, self.number("fmul", x, y))
        return p, self.number("fsub", self.number("fmul", al, bl), rest)

    def sum_to_odd(self, a: str, b: str) -> str:
        """a + b truncated where it is inexact, with the last bit set."""
        s, error = self.two_sum(a, b)
        integers, one = self.t.integers, self.t.splat_integer(1)
        bits = self.new(f"bitcast {self.t.vector} {s} to {integers}")
        up = self.number("fcmp ogt", error, "zeroinitializer")
        positive = self.number("fcmp ogt", s, "zeroinitializer")
        inexact = self.mask(self.number("fcmp une", error, "zeroinitializer"))
        step = self.whole("or", self.mask(self.both("xor", up, positive)), one)
        even = self.whole("sub", self.whole("and", bits, one), one)
        change = self.whole("and", self.whole("and", step, inexact), even)
        odd = self.whole("add", bits, change)
        return self.new(f"bitcast {integers} {odd} to {self.t.vector}")


def _single(width: int) -> list[str]:
    """A product of two float32 is a float64, and a sum rounded to odd may be rounded once more."""
    text, t = _Text(width), Lanes(np.dtype(np.float32), width)
    wide = lambda name: text.new(f"fpext {t.vector} %{name} to {text.t.vector}")
    product, c = text.number("fmul", wide("a"), wide("b")), wide("c")
    plain, odd = text.number("fadd", product, c), text.sum_to_odd(product, c)
    there = text.number("fcmp one", text.magnitude(plain), text.t.splat(np.inf))
    both = f"{text.t.vector} {odd}, {text.t.vector} {plain}"
    total = text.new(f"select <{width} x i1> {there}, {both}")
    result = text.new(f"fptrunc {text.t.vector} {total} to {t.vector}")
    return [*text.lines, f"ret {t.vector} {result}"]


def _double(width: int) -> list[str]:
    text = _Text(width)
    t = text.t
    high, low = text.two_product("%a", "%b")
    sum_, sum_low = text.two_sum("%c", low)
    v, v_low = text.two_sum(high, sum_)
    exact = text.number("fadd", v, text.sum_to_odd(sum_low, v_low))
    plain = text.number("fcmp ogt", text.magnitude(high), t.splat(SMALL))
    for x in ("%a", "%b"):
        plain = text.both("or", plain, text.number("fcmp oeq", x, "zeroinitializer"))
    for x in ("%a", "%b", "%c", high):
        below = text.number("fcmp olt", text.magnitude(x), t.splat(LARGE))
        plain = text.both("and", plain, below)
    zero = text.number("fcmp oeq", exact, "zeroinitializer")
    signed = text.number("fadd", high, "%c")
    result = text.new(f"select <{width} x i1> {zero}, {t.vector} {signed}, {t.vector} {exact}")
    all_ = text.new(f"call i1 @llvm.vector.reduce.and.v{width}i1(<{width} x i1> {plain})")
    return [
        *text.lines,
        f"br i1 {all_}, label %fast, label %slow",
        "fast:",
        f"ret {t.vector} {result}",
        "slow:",
        *_by_library(t),
    ]


def _by_library(t: Lanes) -> list[str]:
    lines, before = [], "poison"
    for lane in range(t.width):
        for x in "abc":
            lines.append(f"%{x}{lane} = extractelement {t.vector} %{x}, i32 {lane}")
        given = ", ".join(f"{t.scalar} %{x}{lane}" for x in "abc")
        lines.append(f"%f{lane} = call {t.scalar} @llvm.fma.f{t.bits}({given})")
        lines.append(
            f"%r{lane} = insertelement {t.vector} {before}, {t.scalar} %f{lane}, i32 {lane}"
        )
        before = f"%r{lane}"
    return [*lines, f"ret {t.vector} {before}"]


def text(bits: int, width: int, name: str) -> str:
    """The LLVM IR of a function (a, b, c) -> a b + c, rounded once, on vectors of floats of so many
    bits.
    """
    t = Lanes(np.dtype(f"f{bits // 8}"), width)
    body: dict[int, Callable[[int], list[str]]] = {32: _single, 64: _double}
    arguments = ", ".join(f"{t.vector} %{x}" for x in "abc")
    return "\n".join(
        [
            f"declare <{width} x double> @llvm.fabs.v{width}f64(<{width} x double>)",
            f"declare i1 @llvm.vector.reduce.and.v{width}i1(<{width} x i1>)",
            "declare double @llvm.fma.f64(double, double, double)",
            f"define {t.vector} @{name}({arguments}) noinline {{",
            *body[bits](width),
            "}",
            "",
        ]
    )
