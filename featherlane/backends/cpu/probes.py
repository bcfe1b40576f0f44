"""Kernels that reach one limit of the processor, with which other kernels are compared
(docs/performance.md, "The ruler").
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.cpu.linked import linked, machine_code
from featherlane.backends.llvm import jit
from featherlane.backends.llvm.lower import Lanes, declarations, fma, load_vector, vector_at
from featherlane.backends.llvm.macros import expanded

CHAINS = (12, 24)  # independent sums: as many as 16 vector registers hold, or 32
UNROLLED = 4  # multiply-adds of every sum in one iteration of the loop
VECTORS = 8  # vectors loaded or stored in one iteration of a loop over memory


def multiply_adds(t: Lanes, chains: int) -> list[str]:
    """@multiply_add_N(two vectors, turns): N independent sums x += a b, which hide latency."""
    sums, last = range(chains), UNROLLED
    lines = [
        f"define void @multiply_add_{chains}(ptr %at, i64 %turns) {{",
        f"%a = load {t.vector}, ptr %at, align {t.bytes}",
        *load_vector(t, "%b", "%at", 1),
        "repeat %n",
        *[
            f"%x{c}.0 = phi {t.vector} [ %a, %n.before ], [ %x{c}.{UNROLLED}, %n.end ]"
            for c in sums
        ],
    ]
    for step in range(UNROLLED):
        for c in sums:
            lines += fma(t, f"%x{c}.{step + 1}", "%a", "%b", f"%x{c}.{step}")
    lines += ["again %n %turns", f"%s0 = fadd {t.vector} %a, %b"]
    lines += [f"%s{c + 1} = fadd {t.vector} %s{c}, %x{c}.{last}" for c in sums]
    lines += [f"store {t.vector} %s{chains}, ptr %at, align {t.bytes}", "ret void", "}"]
    return expanded("\n".join(lines)).split("\n")


class MemoryLoop(NamedTuple):
    """The code of a loop over memory: before a pass, in each iteration, and after a pass."""

    before: list[str]
    body: list[str]
    after: list[str]


def _reads(t: Lanes) -> MemoryLoop:
    """Loads every vector, and stores the exclusive or of all so that no load is dead."""
    v, vectors = t.integers, range(VECTORS)
    before = [f"%s{c} = phi {v} [ %x, %k.body ], [ %t{c}, %turn ]" for c in vectors]
    body, after = [], [f"%u0 = xor {v} %x, %t0"]
    for c in vectors:
        body.append(f"%v{c} = load {v}, ptr %p{c}, align {t.bytes}")
        body.append(f"%t{c} = xor {v} %s{c}, %v{c}")
    after += [f"%u{c} = xor {v} %u{c - 1}, %t{c}" for c in vectors[1:]]
    after.append(f"store {v} %u{VECTORS - 1}, ptr %at, align {t.bytes}")
    return MemoryLoop(before, body, after)


def _writes(t: Lanes, hint: str = "") -> MemoryLoop:
    store = f"store {t.integers} %x, ptr"
    return MemoryLoop([], [f"{store} %p{c}, align {t.bytes}{hint}" for c in range(VECTORS)], [])


MEMORY: dict[str, Callable[[Lanes], MemoryLoop]] = {
    "read": _reads,
    "write": _writes,
    "stream": lambda t: _writes(t, ", !nontemporal !0"),
}


def over_memory(t: Lanes, name: str) -> list[str]:
    """@name(array, bytes, times, ptr to a vector): one of MEMORY over an array, so many times."""
    loop = MEMORY[name](t)
    lines = [
        f"define void @{name}(ptr %array, i64 %bytes, i64 %times, ptr %at) {{",
        f"%x = load {t.integers}, ptr %at, align {t.bytes}",
        "repeat %k",
        "br label %turn",
        "turn:",
        "%o = phi i64 [ 0, %k.body ], [ %o1, %turn ]",
        *loop.before,
        "%to = at %array %o",
        *[vector_at(t, f"%p{c}", "%to", c) for c in range(VECTORS)],
        *loop.body,
        f"%o1 = add i64 %o, {VECTORS * t.bytes}",
        "when slt i64 %o1, %bytes: turn, passed",
        "passed:",
        *loop.after,
        "again %k %times",
        "fence seq_cst",
        "ret void",
        "}",
    ]
    return expanded("\n".join(lines)).split("\n")


def _functions(lines: list[str], signatures: dict[str, Any]) -> dict[str, Callable[..., None]]:
    """Compiles the lines into functions of ctypes, each of which keeps the code alive."""
    code = linked(machine_code("\n".join(lines)), tuple(signatures))

    def function(name: str) -> Callable[..., None]:
        call = signatures[name](code.address_of(name))
        return lambda *arguments, alive=code: call(*arguments)

    return {name: function(name) for name in signatures}


@cache
def arithmetic(dtype: np.dtype) -> dict[int, Callable[[int, int], None]]:
    """For each number of CHAINS a function of (address of two vectors, iterations), which does
    chains UNROLLED multiply-adds of the widest vectors in each iteration.
    """
    t = Lanes(dtype, jit.widest(dtype))
    lines = declarations(t) + [line for chains in CHAINS for line in multiply_adds(t, chains)]
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    functions = _functions(lines, {f"multiply_add_{chains}": kind for chains in CHAINS})
    return dict(zip(CHAINS, functions.values(), strict=True))


@cache
def memory() -> dict[str, Callable[[int, int, int, int], None]]:
    """For each name of MEMORY a function of (address of an array, bytes, times, address of a
    vector). Arrays begin on a cache line; their bytes are a multiple of 512.
    """
    t = Lanes(np.dtype(np.float64), jit.widest(np.dtype(np.float64)))
    lines = [line for name in MEMORY for line in over_memory(t, name)]
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(None, pointer, number, number, pointer)
    return _functions([*lines, "!0 = !{i32 1}"], dict.fromkeys(MEMORY, kind))
