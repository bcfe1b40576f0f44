"""Graphs lowered to LLVM IR, shared by every LLVM target: each value is a vector that holds the
same scalar of `width` states.

The text is written once, from a checked graph. No fast-math flag is ever set: every operation is
rounded as the reference rounds it, so that results have the same bits for every width, lane and
machine.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from featherlane.program.graph import Graph


@dataclass(frozen=True)
class Lanes:
    """The type of a vector value: `width` lanes of a floating-point dtype."""

    dtype: np.dtype[Any]
    width: int

    @property
    def bits(self) -> int:
        return self.dtype.itemsize * 8

    @cached_property
    def scalar(self) -> str:
        return "double" if self.bits == 64 else "float"

    @cached_property
    def vector(self) -> str:
        return self.of(self.width)

    def of(self, count: int) -> str:
        """The vector type of `count` scalars."""
        return f"<{count} x {self.scalar}>"

    @property
    def integers(self) -> str:
        """The vector type of as many integers of the same size."""
        return f"<{self.width} x i{self.bits}>"

    @property
    def booleans(self) -> str:
        """The vector type of a comparison."""
        return f"<{self.width} x i1>"

    @property
    def exponents(self) -> tuple[int, int]:
        """The bits of the fraction, and the bias of the exponent."""
        return (52, 1023) if self.bits == 64 else (23, 127)

    @cached_property
    def bytes(self) -> int:
        return self.width * self.dtype.itemsize

    @cached_property
    def suffix(self) -> str:
        """The ending of the names of LLVM's intrinsics on this type."""
        return f"v{self.width}f{self.bits}"

    def number(self, x: float) -> str:
        """A constant in LLVM's hexadecimal form, which is a double's for both dtypes."""
        with np.errstate(over="ignore"):  # beyond the range of the dtype: infinity
            value = float(self.dtype.type(x))
        return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"

    def splat(self, x: float) -> str:
        return "<" + ", ".join([f"{self.scalar} {self.number(x)}"] * self.width) + ">"

    def constant(self, x: Any) -> str:
        """A vector constant: one number in all lanes, or a tuple of one for each lane."""
        if not isinstance(x, tuple):
            return self.splat(float(x))
        return "<" + ", ".join(f"{self.scalar} {self.number(float(y))}" for y in x) + ">"

    def constant_name(self, x: Any) -> str:
        """The global that holds a constant as a whole vector."""
        numbers = x if isinstance(x, tuple) else (x,)
        return f"@k{'.'.join(self.number(float(y)) for y in numbers)}.{self.suffix}"

    def splat_integer(self, x: int) -> str:
        return "<" + ", ".join([f"i{self.bits} {x}"] * self.width) + ">"

    def lane_mask(self, lanes: Iterable[int]) -> str:
        """The third operand of a shufflevector."""
        indices = [f"i32 {lane}" for lane in lanes]
        return f"<{len(indices)} x i32> <{', '.join(indices)}>"


def _binary(instruction: str) -> Callable[..., list[str]]:
    return lambda t, to, a, b: [f"{to} = {instruction} {t.vector} {a}, {b}"]


def _intrinsic(name: str) -> Callable[..., list[str]]:
    def lines(t: Lanes, to: str, *args: str) -> list[str]:
        operands = ", ".join(f"{t.vector} {a}" for a in args)
        return [f"{to} = call {t.vector} @llvm.{name}.{t.suffix}({operands})"]

    return lines


def _quarter(t: Lanes, to: str, k: str, s: str, c: str) -> list[str]:
    """The sine of an angle that is k quarter turns beyond one with sine s and cosine c: an odd k
    takes c, bit 1 of k negates. Adding 1.5 2^m puts the integer k into the low bits of the number.
    """
    v, i, one, two = t.vector, t.integers, t.splat_integer(1), t.splat_integer(2)
    return [
        f"{to}.m = fadd {v} {k}, {t.splat(1.5 * 2.0 ** (52 if t.bits == 64 else 23))}",
        f"{to}.k = bitcast {v} {to}.m to {i}",
        f"{to}.o = and {i} {to}.k, {one}",
        f"{to}.odd = icmp ne {i} {to}.o, zeroinitializer",
        f"{to}.x = select {t.booleans} {to}.odd, {v} {c}, {v} {s}",
        f"{to}.h = and {i} {to}.k, {two}",
        f"{to}.sign = shl {i} {to}.h, {t.splat_integer(t.bits - 2)}",
        f"{to}.b = bitcast {v} {to}.x to {i}",
        f"{to}.r = xor {i} {to}.b, {to}.sign",
        f"{to} = bitcast {i} {to}.r to {v}",
    ]


def _power_of_two(t: Lanes, to: str, k: str) -> list[str]:
    """2^k: adding 1.5 2^m and the bias puts the exponent's bits into the low bits of the number."""
    v, i, (fraction, bias) = t.vector, t.integers, t.exponents
    return [
        f"{to}.m = fadd {v} {k}, {t.splat(1.5 * 2.0**fraction + bias)}",
        f"{to}.k = bitcast {v} {to}.m to {i}",
        f"{to}.b = shl {i} {to}.k, {t.splat_integer(fraction)}",
        f"{to} = bitcast {i} {to}.b to {v}",
    ]


def _exponent(t: Lanes, to: str, a: str) -> list[str]:
    """The exponent, from its bits as the low bits of 2^m + exponent + bias. AVX2 converts integers
    of 32 bits only, so no conversion of integers is used.
    """
    v, i, (fraction, bias) = t.vector, t.integers, t.exponents
    whole = bias + fraction << fraction  # the bits of 2^m
    return [
        f"{to}.b = bitcast {v} {a} to {i}",
        f"{to}.u = shl {i} {to}.b, {t.splat_integer(1)}",  # without the sign
        f"{to}.e = lshr {i} {to}.u, {t.splat_integer(fraction + 1)}",
        f"{to}.w = or {i} {to}.e, {t.splat_integer(whole)}",
        f"{to}.n = bitcast {i} {to}.w to {v}",
        f"{to} = fsub {v} {to}.n, {t.splat(2.0**fraction + bias)}",
    ]


LOWER: dict[str, Callable[..., list[str]]] = {
    "neg": lambda t, to, a: [f"{to} = fneg {t.vector} {a}"],
    "abs": _intrinsic("fabs"),
    "add": _binary("fadd"),
    "sub": _binary("fsub"),
    "mul": _binary("fmul"),
    "div": _binary("fdiv"),
    "fma": _intrinsic("fma"),
    "sqrt": _intrinsic("sqrt"),
    "round": _intrinsic("rint"),
    "less": _binary("fcmp olt"),
    "less_equal": _binary("fcmp ole"),
    "power_of_two": _power_of_two,
    "exponent": _exponent,
    "copysign": _intrinsic("copysign"),
    "select": lambda t, to, c, a, b: [
        f"{to} = select {t.booleans} {c}, {t.vector} {a}, {t.vector} {b}"
    ],
    "quarter": _quarter,
}
fma = LOWER["fma"]  # (lanes, to, a, b, c) -> the line that makes `to` a b + c, rounded once


def _shuffle(t: Lanes, to: str, a: str, b: str, lanes: tuple[int, ...]) -> list[str]:
    return [f"{to} = shufflevector {t.vector} {a}, {t.vector} {b}, {t.lane_mask(lanes)}"]


def _flip(t: Lanes, to: str, a: str, negated: tuple[bool, ...]) -> list[str]:
    """Flips the sign bit of the lanes that are negated."""
    signs = ", ".join(f"i{t.bits} {-(1 << (t.bits - 1)) if x else 0}" for x in negated)
    return [
        f"{to}.b = bitcast {t.vector} {a} to {t.integers}",
        f"{to}.f = xor {t.integers} {to}.b, <{signs}>",
        f"{to} = bitcast {t.integers} {to}.f to {t.vector}",
    ]


# Moves between lanes, in packed graphs alone (`program/passes/pack`): their last argument is the
# value of the node
MOVES: dict[str, Callable[..., list[str]]] = {"shuffle": _shuffle, "flip": _flip}
INTRINSICS = {
    "fabs": 1,
    "fma": 3,
    "sqrt": 1,
    "rint": 1,
    "copysign": 2,
}  # and how many operands they take


def declarations(t: Lanes) -> list[str]:
    return [
        f"declare {t.vector} @llvm.{name}.{t.suffix}({', '.join([t.vector] * arity)})"
        for name, arity in INTRINSICS.items()
    ]


def vector_at(t: Lanes, name: str, base: str, slot: int) -> str:
    """The line that makes `name` point to a vector of the workspace."""
    return f"{name} = getelementptr inbounds {t.vector}, ptr {base}, i64 {slot}"


def scalar_at(t: Lanes, name: str, base: str, index: str | int) -> str:
    """The line that makes `name` point to a scalar of an array."""
    return f"{name} = getelementptr inbounds {t.scalar}, ptr {base}, i64 {index}"


def load_vector(t: Lanes, name: str, base: str, slot: int, align: int | None = None) -> list[str]:
    """Loads a vector of the workspace."""
    where = vector_at(t, f"{name}.at", base, slot)
    return [where, f"{name} = load {t.vector}, ptr {name}.at, align {align or t.bytes}"]


def store_vector(
    t: Lanes, name: str, value: str, base: str, slot: int, align: int | None = None
) -> list[str]:
    """Stores a vector of the workspace, to which `name` then points."""
    where = vector_at(t, name, base, slot)
    return [where, f"store {t.vector} {value}, ptr {name}, align {align or t.bytes}"]


def load_entries(t: Lanes, name: str, base: str, index: str | int) -> list[str]:
    """Loads a vector that begins at an entry of an array."""
    where = scalar_at(t, f"{name}.at", base, index)
    return [where, f"{name} = load {t.vector}, ptr {name}.at, align {t.dtype.itemsize}"]


def store_entries(t: Lanes, name: str, value: str, base: str, index: str | int) -> list[str]:
    """Stores a vector that begins at an entry of an array, to which `name` then points."""
    where = scalar_at(t, name, base, index)
    return [where, f"store {t.vector} {value}, ptr {name}, align {t.dtype.itemsize}"]


def broadcast(t: Lanes, name: str, at: str) -> list[str]:
    """Loads the scalar at an address into all lanes of `name`."""
    return [
        f"{name}.s = load {t.scalar}, ptr {at}, align {t.dtype.itemsize}",
        f"{name}.v = insertelement {t.vector} poison, {t.scalar} {name}.s, i32 0",
        f"{name} = shufflevector {t.vector} {name}.v, {t.vector} poison, "
        f"<{t.width} x i32> zeroinitializer",
    ]


# Bytes of the vectors whose constants are loaded whole from memory, as an operand of the
# instruction that uses them: 6 to 8 % fewer instructions (docs/performance.md, "What else was
# tried"). x86 spends an instruction on spreading a number over 256 bits; over 512 bits the
# instruction that uses it does so, and for 128 LLVM itself keeps whole vectors.
WHOLE_CONSTANTS = 32
# Operations of a basic block; 32 to 1,000 are within 5 % or slower (docs/performance.md)
BASIC_BLOCK = 128
LONGEST_STORE = 256  # lines of the stores of one value in a basic block


def constants(graphs: Iterable[Graph], t: Lanes) -> list[str]:
    """The constants of some graphs as globals, where the code loads them from memory."""
    if t.bytes != WHOLE_CONSTANTS:
        return []
    leaves = [(g.op[k], g.value[k]) for g in graphs for k in range(len(g))]
    globals_ = {t.constant_name(x): t.constant(x) for op, x in leaves if op == "constant"}
    kind = f"private unnamed_addr constant {t.vector}"
    return [f"{name} = {kind} {value}, align {t.bytes}" for name, value in globals_.items()]


Load = Callable[[int, str], list[str] | None]
Store = Callable[[int, str], list[str]]


def straight_line(
    graph: Graph, t: Lanes, load: Load, store: Store, nodes: range | None = None
) -> list[str]:
    """The instructions of a graph, or of its `nodes`, in order.

    load(node, name) returns the lines that load an input entry, or a node before `nodes`, into
    `name`, or None for a node to be computed again. store(node, name) is called once for each node,
    as soon as its value is computed.

    The code is cut into basic blocks, for two reasons that show in the assembly: inputs are loaded
    again in each block that needs them instead of being spilled and reloaded, and LLVM's time for a
    block grows with the square of its length. LLVM would merge consecutive blocks, so each ends
    with `next n`, a branch that is never taken, to the label %leave, as `targets.BRANCHES` has it.
    """
    nodes = range(len(graph)) if nodes is None else nodes
    outputs = {k for out in graph.outputs.values() for k in out.nodes}
    code = _StraightLine(graph, t, load, nodes.start)
    for k in nodes:
        if graph.args[k]:
            code.compute(k)
        elif k in outputs:
            code.load_leaf(k)
        if graph.args[k] or k in outputs:
            code.store(store(k, code.name[k]))
        if code.count == BASIC_BLOCK:
            code.end_block()
    return code.lines


def never(pointer: str) -> str:
    """The line in front of straight-line code with the condition of its branches: that a pointer is
    null, which it is not.
    """
    return f"never {pointer}"


class _StraightLine:
    """Straight-line code under construction: names of values, and inputs the basic block has
    loaded.
    """

    def __init__(self, graph: Graph, t: Lanes, load: Load, first: int) -> None:
        self.graph, self.t, self.load_node, self.first = graph, t, load, first
        self.name: dict[int, str] = {}
        self.lines: list[str] = []
        self.count = self._block = 0
        self._loaded: set[int] = set()
        self._constants = itertools.count()

    def load_leaf(self, a: int) -> None:
        """Makes a value that these nodes do not compute available in the current basic block."""
        graph, t = self.graph, self.t
        if graph.op[a] == "constant":
            self.name[a] = t.constant(graph.value[a])
            if t.bytes == WHOLE_CONSTANTS:
                at, self.name[a] = t.constant_name(graph.value[a]), f"%c{next(self._constants)}"
                self.lines.append(f"{self.name[a]} = load {t.vector}, ptr {at}, align {t.bytes}")
        elif (graph.op[a] == "input" or a < self.first) and a not in self._loaded:
            self._loaded.add(a)
            name = self.name[a] = f"%x{a}.{self._block}"
            lines = self.load_node(a, name)
            if lines is None:
                for b in graph.args[a]:
                    self.load_leaf(b)
                lines = LOWER[graph.op[a]](t, name, *[self.name[b] for b in graph.args[a]])
            self.lines += lines

    def compute(self, k: int) -> None:
        op, args = self.graph.op[k], self.graph.args[k]
        for a in args:
            self.load_leaf(a)
        operands = [self.name[a] for a in args]
        self.name[k] = f"%x{k}"
        if op in MOVES:
            self.lines += MOVES[op](self.t, self.name[k], *operands, self.graph.value[k])
        else:
            self.lines += LOWER[op](self.t, self.name[k], *operands)
        self.count += 1

    def store(self, lines: list[str]) -> None:
        """Adds the lines that store a value: those of zeros of large matrices are thousands."""
        for first in range(0, len(lines), LONGEST_STORE):
            if first:
                self.end_block()
            self.lines += lines[first : first + LONGEST_STORE]

    def end_block(self) -> None:
        self.count, self._block, self._loaded = 0, self._block + 1, set()
        self.lines += [f"next {self._block}", f"block{self._block}:"]
