"""PTX text: the operations of a graph, one line each, and kernels around them.

A thread computes one state, as a lane of a vector does on the CPU. Operations are rounded as the
reference rounds them (`.rn`, no `.ftz`, no contraction), so that results have the same bits. One
text serves every processor of compute capability 7.0 and more.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager

import numpy as np

from featherlane.program.graph import Graph

HEADER = [".version 6.4", ".target sm_70", ".address_size 64"]
WARP = 32  # threads that run in step
RELOAD = 64  # nodes without a use after which a value is loaded again, and takes no register
REGISTERS = {"f": "f", "b": "b", "r": "u32", "w": "u64", "p": "pred"}  # kinds and their types


class Text:
    """The lines of a kernel in the making, and the registers that they use.

    Kinds of registers: f holds a number of the dtype, b its bits, r and w integers of 32 and 64
    bits, p a condition.
    """

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = np.dtype(dtype)
        self.bits = 8 * self.dtype.itemsize
        self.lines: list[str] = []
        self.count: Counter[str] = Counter()

    def new(self, kind: str) -> str:
        """The name of a register that nothing has used."""
        self.count[kind] += 1
        return f"%{kind}{self.count[kind] - 1}"

    def label(self) -> str:
        self.count["label"] += 1
        return f"$L{self.count['label']}"

    def do(self, line: str) -> None:
        self.lines.append(f"{line};")

    def set(self, kind: str, instruction: str, *operands: str | int) -> str:
        """Runs an instruction, and returns the new register with its result."""
        to = self.new(kind)
        self.do(f"{instruction} {', '.join([to, *map(str, operands)])}")
        return to

    @contextmanager
    def loop(self, times: int | str, step: int = 1) -> Iterator[str]:
        """Repeats the instructions of the `with` block for 0, step, ... below `times`, at least
        once. Yields the register that counts.
        """
        k, again = self.set("r", "mov.u32", 0), self.label()
        self.lines.append(f"{again}:")
        yield k
        self.do(f"add.u32 {k}, {k}, {step}")
        self.do(f"@{self.set('p', 'setp.lt.u32', k, times)} bra {again}")

    @property
    def type(self) -> str:
        return f"f{self.bits}"

    def number(self, x: float) -> str:
        """A constant by its bits."""
        if self.bits == 64:
            return f"0d{struct.unpack('>Q', struct.pack('>d', x))[0]:016X}"
        with np.errstate(over="ignore"):  # beyond the range of the dtype: infinity
            return f"0f{int(np.float32(x).view(np.uint32)):08X}"

    def registers(self) -> list[str]:
        """The declarations of all registers."""
        used = (kind for kind in REGISTERS if self.count[kind])
        return [f".reg .{self.kind(x)} %{x}<{self.count[x]}>;" for x in used]

    def kind(self, x: str) -> str:
        """The type of a kind of registers."""
        return f"{REGISTERS[x]}{self.bits}" if x in "fb" else REGISTERS[x]


def entry(name: str, parameters: Sequence[tuple[str, str]], text: Text) -> list[str]:
    """The lines of a kernel. parameters: types and names."""
    declared = ",\n".join(f".param .{kind} {name}" for kind, name in parameters)
    return [f".visible .entry {name}(\n{declared}\n)", "{", *text.registers(), *text.lines, "}"]


def function(name: str, parameters: Sequence[tuple[str, str]], text: Text) -> list[str]:
    """The lines of a function that kernels call. parameters: names and kinds of registers."""
    declared = ",\n".join(f".param .{text.kind(kind)} {x}" for x, kind in parameters)
    return [f".func {name}(\n{declared}\n)", "{", *text.registers(), *text.lines, "ret;", "}"]


def divided(t: Text, number: str, by: int) -> tuple[str, str]:
    """The quotient and the rest of a register below 2^31 and a constant, as ptxas would divide: for
    2^(L-1) < by <= 2^L, the factor 2^(31+L) / by, rounded up, makes the product less than 2^(31+L)
    too large in units of 1 / by.
    """
    if by == 1:
        return number, "0"
    shift = 31 + (by - 1).bit_length()
    product = t.set("w", "mul.wide.u32", number, -(-(1 << shift) // by))
    quotient = t.set("r", "cvt.u32.u64", t.set("w", "shr.u64", product, shift))
    return quotient, t.set("r", "sub.u32", number, t.set("r", "mul.lo.u32", quotient, by))


Emit = Callable[..., str]  # (text, operands) -> the register of the result


def _plain(instruction: str) -> Emit:
    return lambda t, *operands: t.set("f", f"{instruction}.{t.type}", *operands)


def _compare(how: str) -> Emit:
    return lambda t, a, b: t.set("p", f"setp.{how}.{t.type}", a, b)


def _shifted(t: Text, k: str, more: float = 0.0) -> str:
    """The bits of k + 1.5 2^m + more, whose last ones are those of the integer k + more."""
    shift = t.number(1.5 * 2.0 ** (52 if t.bits == 64 else 23) + more)
    return t.set("b", f"mov.b{t.bits}", t.set("f", f"add.rn.{t.type}", k, shift))


def _quarter(t: Text, k: str, s: str, c: str) -> str:
    """An odd k takes c, and bit 1 of k negates."""
    bits, b = _shifted(t, k), f"b{t.bits}"
    odd = t.set("p", f"setp.ne.{b}", t.set("b", f"and.{b}", bits, 1), 0)
    x = t.set("b", f"mov.{b}", t.set("f", f"selp.{t.type}", c, s, odd))
    sign = t.set("b", f"shl.{b}", t.set("b", f"and.{b}", bits, 2), t.bits - 2)
    return t.set("f", f"mov.{b}", t.set("b", f"xor.{b}", x, sign))


def _power_of_two(t: Text, k: str) -> str:
    fraction, bias = (52, 1023) if t.bits == 64 else (23, 127)
    shifted = t.set("b", f"shl.b{t.bits}", _shifted(t, k, bias), fraction)
    return t.set("f", f"mov.b{t.bits}", shifted)


def _exponent(t: Text, a: str) -> str:
    """The bits of the exponent as the low bits of 2^m + exponent + bias."""
    fraction, bias = (52, 1023) if t.bits == 64 else (23, 127)
    b = f"b{t.bits}"
    unsigned = t.set("b", f"shl.{b}", t.set("b", f"mov.{b}", a), 1)
    low = t.set("b", f"shr.{b}", unsigned, fraction + 1)
    number = t.set("f", f"mov.{b}", t.set("b", f"or.{b}", low, bias + fraction << fraction))
    return t.set("f", f"sub.rn.{t.type}", number, t.number(2.0**fraction + bias))


EMIT: dict[str, Emit] = {
    "neg": _plain("neg"),
    "abs": _plain("abs"),
    "add": _plain("add.rn"),
    "sub": _plain("sub.rn"),
    "mul": _plain("mul.rn"),
    "div": _plain("div.rn"),
    "fma": _plain("fma.rn"),
    "sqrt": _plain("sqrt.rn"),
    "round": lambda t, a: t.set("f", f"cvt.rni.{t.type}.{t.type}", a),
    "less": _compare("lt"),
    "less_equal": _compare("le"),
    "select": lambda t, condition, a, b: t.set("f", f"selp.{t.type}", a, b, condition),
    "copysign": lambda t, a, b: t.set("f", f"copysign.{t.type}", b, a),
    "power_of_two": _power_of_two,
    "exponent": _exponent,
    "quarter": _quarter,
}


def straight_line(
    graph: Graph,
    t: Text,
    nodes: Iterable[int],
    wanted: Set[int],
    load: Callable[[int], Mapping[int, str]],
    done: Callable[[int, str], None],
    reload: Callable[[int], int] = lambda k: RELOAD,
) -> None:
    """The instructions of some nodes of a graph, in order. load: loads an input, or a node from
    before, into a register, and neighbours with it; done: takes each `wanted` node and its
    register; reload: how many nodes without a use of it a value from `load` waits in
    its register.
    """
    computed: dict[int, str] = {}
    loaded: dict[int, tuple[str, int]] = {}  # and when it was last used

    def value(k: int, now: int) -> str:
        if k in computed:
            return computed[k]
        if graph.op[k] == "constant":
            return t.number(float(graph.value[k]))
        if k not in loaded or now - loaded[k][1] > reload(k):
            loaded.update({other: (x, now) for other, x in load(k).items()})
        register = loaded[k][0]
        loaded[k] = register, now
        return register

    for now, k in enumerate(nodes):
        if graph.args[k]:
            computed[k] = EMIT[graph.op[k]](t, *(value(a, now) for a in graph.args[k]))
        if k in wanted:
            done(k, value(k, now))
