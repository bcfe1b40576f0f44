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

LARGE, SMALL = 2.0**990, 2.0**-900  # between them no intermediate overflows or underflows
HALVES = 134217729.0  # 2^27 + 1 splits a float64 into two halves (Veltkamp)


class _Emitter:
    """The lines of a function on vectors of float64; each method appends instructions and returns
    the name of their value.
    """

    def __init__(self, width: int) -> None:
        self.t = Lanes(np.dtype(np.float64), width)
        self.lines: list[str] = []

    def new(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def floats(self, instruction: str, a: str, b: str) -> str:
        return self.new(f"{instruction} {self.t.vector} {a}, {b}")

    def integers(self, instruction: str, a: str, b: str) -> str:
        return self.new(f"{instruction} {self.t.integers} {a}, {b}")

    def booleans(self, instruction: str, a: str, b: str) -> str:
        return self.new(f"{instruction} {self.t.booleans} {a}, {b}")

    def magnitude(self, a: str) -> str:
        return self.new(f"call {self.t.vector} @llvm.fabs.{self.t.suffix}({self.t.vector} {a})")

    def mask(self, condition: str) -> str:
        return self.new(f"sext {self.t.booleans} {condition} to {self.t.integers}")

    def two_sum(self, a: str, b: str) -> tuple[str, str]:
        """a + b as a rounded sum and its error (Knuth)."""
        s = self.floats("fadd", a, b)
        t = self.floats("fsub", s, a)
        rest = self.floats("fsub", a, self.floats("fsub", s, t))
        return s, self.floats("fadd", rest, self.floats("fsub", b, t))

    def split(self, a: str) -> tuple[str, str]:
        """a as a sum of two numbers of 26 bits (Veltkamp)."""
        c = self.floats("fmul", a, self.t.splat(HALVES))
        high = self.floats("fsub", c, self.floats("fsub", c, a))
        return high, self.floats("fsub", a, high)

    def two_product(self, a: str, b: str) -> tuple[str, str]:
        """a b as a rounded product and its error (Dekker)."""
        p = self.floats("fmul", a, b)
        (ah, al), (bh, bl) = self.split(a), self.split(b)
        rest = p
        for x, y in ((ah, bh), (al, bh), (ah, bl)):
            rest = self.floats("fsub", rest, self.floats("fmul", x, y))
        return p, self.floats("fsub", self.floats("fmul", al, bl), rest)

    def sum_to_odd(self, a: str, b: str) -> str:
        """a + b rounded to odd: truncated where it is inexact, with the last bit set."""
        s, error = self.two_sum(a, b)
        integers, one = self.t.integers, self.t.splat_integer(1)
        bits = self.new(f"bitcast {self.t.vector} {s} to {integers}")
        up = self.floats("fcmp ogt", error, "zeroinitializer")
        positive = self.floats("fcmp ogt", s, "zeroinitializer")
        inexact = self.mask(self.floats("fcmp une", error, "zeroinitializer"))
        step = self.integers("or", self.mask(self.booleans("xor", up, positive)), one)
        even = self.integers("sub", self.integers("and", bits, one), one)
        change = self.integers("and", self.integers("and", step, inexact), even)
        odd = self.integers("add", bits, change)
        return self.new(f"bitcast {integers} {odd} to {self.t.vector}")


def _single(width: int) -> list[str]:
    """The body for float32: a product of two float32 is exact in float64, and a sum rounded to odd
    may be rounded once more.
    """
    code, t = _Emitter(width), Lanes(np.dtype(np.float32), width)
    wide = lambda name: code.new(f"fpext {t.vector} %{name} to {code.t.vector}")
    product, c = code.floats("fmul", wide("a"), wide("b")), wide("c")
    plain, odd = code.floats("fadd", product, c), code.sum_to_odd(product, c)
    finite = code.floats("fcmp one", code.magnitude(plain), code.t.splat(np.inf))
    either = f"{code.t.vector} {odd}, {code.t.vector} {plain}"
    total = code.new(f"select {t.booleans} {finite}, {either}")
    result = code.new(f"fptrunc {code.t.vector} {total} to {t.vector}")
    return [*code.lines, f"ret {t.vector} {result}"]


def _double(width: int) -> list[str]:
    """The body for float64: error-free in all lanes, else through the C library."""
    code = _Emitter(width)
    t = code.t
    high, low = code.two_product("%a", "%b")
    total, total_low = code.two_sum("%c", low)
    v, v_low = code.two_sum(high, total)
    exact = code.floats("fadd", v, code.sum_to_odd(total_low, v_low))
    safe = _in_range(code, high)
    zero = code.floats("fcmp oeq", exact, "zeroinitializer")
    signed = code.floats("fadd", high, "%c")
    result = code.new(f"select {t.booleans} {zero}, {t.vector} {signed}, {t.vector} {exact}")
    all_safe = code.new(f"call i1 @llvm.vector.reduce.and.v{width}i1({t.booleans} {safe})")
    return [
        *code.lines,
        f"br i1 {all_safe}, label %fast, label %slow",
        "fast:",
        f"ret {t.vector} {result}",
        "slow:",
        *_by_library(t),
    ]


def _in_range(code: _Emitter, product: str) -> str:
    """Whether nothing overflows or underflows on the way, by lane."""
    safe = code.floats("fcmp ogt", code.magnitude(product), code.t.splat(SMALL))
    for x in ("%a", "%b"):
        safe = code.booleans("or", safe, code.floats("fcmp oeq", x, "zeroinitializer"))
    for x in ("%a", "%b", "%c", product):
        below = code.floats("fcmp olt", code.magnitude(x), code.t.splat(LARGE))
        safe = code.booleans("and", safe, below)
    return safe


def _by_library(t: Lanes) -> list[str]:
    """Calls the C library's fma for each lane."""
    lines, before = [], "poison"
    for lane in range(t.width):
        for x in "abc":
            lines.append(f"%{x}{lane} = extractelement {t.vector} %{x}, i32 {lane}")
        operands = ", ".join(f"{t.scalar} %{x}{lane}" for x in "abc")
        lines.append(f"%f{lane} = call {t.scalar} @llvm.fma.f{t.bits}({operands})")
        result = f"{t.scalar} %f{lane}, i32 {lane}"
        lines.append(f"%r{lane} = insertelement {t.vector} {before}, {result}")
        before = f"%r{lane}"
    return [*lines, f"ret {t.vector} {before}"]


def source(bits: int, width: int, name: str) -> str:
    """The LLVM IR of a function (a, b, c) -> a b + c, rounded once, on vectors of floats of so many
    bits.
    """
    t = Lanes(np.dtype(f"f{bits // 8}"), width)
    arguments = ", ".join(f"{t.vector} %{x}" for x in "abc")
    lines = [
        f"declare <{width} x double> @llvm.fabs.v{width}f64(<{width} x double>)",
        f"declare i1 @llvm.vector.reduce.and.v{width}i1({t.booleans})",
        "declare double @llvm.fma.f64(double, double, double)",
        f"define {t.vector} @{name}({arguments}) noinline {{",
        *(_single(width) if bits == 32 else _double(width)),
        "}",
    ]
    return "\n".join(lines) + "\n"
