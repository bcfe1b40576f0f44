"""Graph to LLVM IR: one vector value holds the same scalar of `width` states. Shared by every LLVM
target.

Text is made once, here, from a checked graph. No fast-math flag is ever set: each operation is
rounded as the reference rounds it, so that results have the same bits for every width, lane and
machine.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from featherlane.program.graph import Graph


@dataclass(frozen=True)
class Lanes:
    """The type of one vector value: `width` numbers of a dtype."""

    dtype: np.dtype[Any]
    width: int

    @property
    def bits(self) -> int:
        return self.dtype.itemsize * 8

    @property
    def scalar(self) -> str:
        return "double" if self.bits == 64 else "float"

    @property
    def vector(self) -> str:
        return self.of(self.width)

    def of(self, count: int) -> str:
        return f"<{count} x {self.scalar}>"

    @property
    def integers(self) -> str:
        return f"<{self.width} x i{self.bits}>"

    @property
    def bytes(self) -> int:
        return self.width * self.dtype.itemsize

    @property
    def suffix(self) -> str:
        """How intrinsics on this type are named."""
        return f"v{self.width}f{self.bits}"

    def number(self, x: float) -> str:
        """A constant in LLVM's hexadecimal form, which is that of a double for both dtypes."""
        value = float(self.dtype.type(x))
        return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"

    def splat(self, x: float) -> str:
        return "<" + ", ".join([f"{self.scalar} {self.number(x)}"] * self.width) + ">"

    def constant(self, x: Any) -> str:
        """A number in all lanes, or one for each."""
        if not isinstance(x, tuple):
            return self.splat(float(x))
        return "<" + ", ".join(f"{self.scalar} {self.number(float(y))}" for y in x) + ">"

    def kept(self, x: Any) -> str:
        """The name of a constant that is kept in memory as a whole vector."""
        each = x if isinstance(x, tuple) else (x,)
        return f"@k{'.'.join(self.number(float(y)) for y in each)}.{self.suffix}"

    def splat_integer(self, x: int) -> str:
        return "<" + ", ".join([f"i{self.bits} {x}"] * self.width) + ">"


def _binary(instruction: str) -> Callable[..., list[str]]:
    return lambda t, to, a, b: [f"{to} = {instruction} {t.vector} {a}, {b}"]


def _intrinsic(name: str) -> Callable[..., list[str]]:
    def lines(t: Lanes, to: str, *args: str) -> list[str]:
        operands = ", ".join(f"{t.vector} {a}" for a in args)
        return [f"{to} = call {t.vector} @llvm.{name}.{t.suffix}({operands})"]

    return lines


def _quarter(t: Lanes, to: str, k: str, s: str, c: str) -> list[str]:
    """Adding 1.5 2^m puts the integer k into the low bits of the number: odd swaps, the second bit
    negates.
    """
    v, i, one, two = t.vector, t.integers, t.splat_integer(1), t.splat_integer(2)
    return [
        f"{to}.m = fadd {v} {k}, {t.splat(1.5 * 2.0 ** (52 if t.bits == 64 else 23))}",
        f"{to}.k = bitcast {v} {to}.m to {i}",
        f"{to}.o = and {i} {to}.k, {one}",
        f"{to}.odd = icmp ne {i} {to}.o, zeroinitializer",
        f"{to}.x = select <{t.width} x i1> {to}.odd, {v} {c}, {v} {s}",
        f"{to}.h = and {i} {to}.k, {two}",
        f"{to}.sign = shl {i} {to}.h, {t.splat_integer(t.bits - 2)}",
        f"{to}.b = bitcast {v} {to}.x to {i}",
        f"{to}.r = xor {i} {to}.b, {to}.sign",
        f"{to} = bitcast {i} {to}.r to {v}",
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
    "select": lambda t, to, c, a, b: [
        f"{to} = select <{t.width} x i1> {c}, {t.vector} {a}, {t.vector} {b}"
    ],
    "quarter": _quarter,
}


def _shuffle(t: Lanes, to: str, a: str, b: str, lanes: tuple[int, ...]) -> list[str]:
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    pair = f"{t.vector} {a}, {t.vector} {b}"
    return [f"{to} = shufflevector {pair}, <{t.width} x i32> <{mask}>"]


def _flip(t: Lanes, to: str, a: str, negated: tuple[bool, ...]) -> list[str]:
    signs = ", ".join(f"i{t.bits} {-(1 << (t.bits - 1)) if x else 0}" for x in negated)
    return [
        f"{to}.b = bitcast {t.vector} {a} to {t.integers}",
        f"{to}.f = xor {t.integers} {to}.b, <{signs}>",
        f"{to} = bitcast {t.integers} {to}.f to {t.vector}",
    ]


MOVES: dict[str, Callable[..., list[str]]] = {"shuffle": _shuffle, "flip": _flip}
"""Of packed graphs alone, see `graph.pack`; they take the value of their node too."""
INTRINSICS = {"fabs": 1, "fma": 3, "sqrt": 1, "rint": 1}


def vector_at(t: Lanes, name: str, base: str, slot: int) -> str:
    """The line that makes `name` point to a vector of the scratch."""
    return f"{name} = getelementptr inbounds {t.vector}, ptr {base}, i64 {slot}"


def declarations(t: Lanes) -> list[str]:
    return [
        f"declare {t.vector} @llvm.{name}.{t.suffix}({', '.join([t.vector] * arity)})"
        for name, arity in INTRINSICS.items()
    ]


IN_MEMORY = 32  # bytes of vectors whose constants are loaded whole, as part of what uses them
"""x86 spends an instruction on spreading a number over 256 bits; over 512 it does so on the way,
and for 128 LLVM itself keeps them so.
"""
BLOCK = 128  # operations of a basic block


def constants(graphs: Iterable[Graph], t: Lanes) -> list[str]:
    """The numbers of some graphs in memory, for code that loads them."""
    if t.bytes != IN_MEMORY:
        return []
    leaves = [(g.op[k], g.value[k]) for g in graphs for k in range(len(g))]
    known = {t.kept(x): t.constant(x) for op, x in leaves if op == "constant"}
    given = f"private unnamed_addr constant {t.vector}"
    return [f"{name} = {given} {splat}, align {t.bytes}" for name, splat in known.items()]


def straight_line(
    graph: Graph,
    t: Lanes,
    load: Callable[[int, str], list[str] | None],
    store: Callable[[int, str], list[str]],
    nodes: range | None = None,
) -> list[str]:
    """The instructions of a graph, or of its `nodes`. load(node, name) fetches an input entry, or
    a node before them, into a name, and gives None for what has to be computed again;
    store(node, name) is asked for once for each node, as soon as its value is there.

    The code is cut into basic blocks, for two reasons seen in the assembly: inputs are fetched
    again in each block that needs them instead of being spilled and reloaded, and LLVM's time per
    block grows with the square of its length. Blocks that just follow each other LLVM would join
    again: between them stands a branch on %stop, which never holds, to the label %leave.
    """
    nodes = range(len(graph)) if nodes is None else nodes
    wanted = {k for out in graph.outputs.values() for k in out.nodes}
    name: dict[int, str] = {}
    lines: list[str] = []
    fetched: set[int] = set()
    count = block = 0
    uses = itertools.count()

    def fetch(a: int) -> None:
        """Brings a value that is not of these nodes into this basic block."""
        if graph.op[a] == "constant":
            name[a] = t.constant(graph.value[a])
            if t.bytes == IN_MEMORY:
                at, name[a] = t.kept(graph.value[a]), f"%c{next(uses)}"
                lines.append(f"{name[a]} = load {t.vector}, ptr {at}, align {t.bytes}")
        elif (graph.op[a] == "input" or a < nodes.start) and a not in fetched:
            fetched.add(a)
            name[a] = f"%x{a}.{block}"
            found = load(a, name[a])
            if found is None:
                for b in graph.args[a]:
                    fetch(b)
                found = LOWER[graph.op[a]](t, name[a], *[name[b] for b in graph.args[a]])
            lines.extend(found)

    for k in nodes:
        op, args = graph.op[k], graph.args[k]
        if args:
            for a in args:
                fetch(a)
            name[k] = f"%x{k}"
            operands = [name[a] for a in args]
            if op in MOVES:
                lines += MOVES[op](t, name[k], *operands, graph.value[k])
            else:
                lines += LOWER[op](t, name[k], *operands)
            count += 1
        elif k in wanted:
            fetch(k)
        if args or k in wanted:
            lines += store(k, name[k])
        if count == BLOCK:
            count, block, fetched = 0, block + 1, set()
            lines += [f"br i1 %stop, label %leave, label %block{block}", f"block{block}:"]
    return lines
