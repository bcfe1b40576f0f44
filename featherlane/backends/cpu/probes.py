"""Kernels that do one thing as fast as the processor can: what other kernels are measured by."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from featherlane.backends.cpu.linked import linked
from featherlane.backends.llvm import jit
from featherlane.backends.llvm.lower import Lanes, declarations, vector_at

CHAINS = (12, 24)  # independent sums: as many as 16 registers hold, or 32
UNROLLED = 4  # steps of every chain in one turn of the loop
VECTORS = 8  # that one turn of a loop over memory moves


def multiply_adds(t: Lanes, chains: int) -> list[str]:
    """@multiply_add_N(ptr to two vectors, turns): x += a b in registers, which nobody waits for but
    the next of its chain.
    """
    each = range(chains)
    lines = [
        f"define void @multiply_add_{chains}(ptr %at, i64 %turns) {{",
        "entry:",
        vector_at(t, "%next", "%at", 1),
        f"%a = load {t.vector}, ptr %at, align {t.bytes}",
        f"%b = load {t.vector}, ptr %next, align {t.bytes}",
        "br label %turn",
        "turn:",
        "%n = phi i64 [ 0, %entry ], [ %n1, %turn ]",
    ]
    lines += [f"%x{c}.0 = phi {t.vector} [ %a, %entry ], [ %x{c}.{UNROLLED}, %turn ]" for c in each]
    for step in range(UNROLLED):
        for c in each:
            given = f"{t.vector} %a, {t.vector} %b, {t.vector} %x{c}.{step}"
            call = f"call {t.vector} @llvm.fma.{t.suffix}({given})"
            lines.append(f"%x{c}.{step + 1} = {call}")
    lines += ["%n1 = add i64 %n, 1", "%more = icmp slt i64 %n1, %turns"]
    lines += ["br i1 %more, label %turn, label %done", "done:", f"%s0 = fadd {t.vector} %a, %b"]
    for c in each:
        lines.append(f"%s{c + 1} = fadd {t.vector} %s{c}, %x{c}.{UNROLLED}")
    return [*lines, f"store {t.vector} %s{chains}, ptr %at, align {t.bytes}", "ret void", "}"]


def _reads(t: Lanes) -> tuple[list[str], list[str], list[str]]:
    """What a turn begins with, does, and what comes after the last: the exclusive or of all."""
    v, each = t.integers, range(VECTORS)
    first = [f"%s{c} = phi {v} [ %x, %time ], [ %t{c}, %turn ]" for c in each]
    turn, after = [], [f"%u0 = xor {v} %x, %t0"]
    for c in each:
        turn.append(f"%v{c} = load {v}, ptr %p{c}, align {t.bytes}")
        turn.append(f"%t{c} = xor {v} %s{c}, %v{c}")
    after += [f"%u{c} = xor {v} %u{c - 1}, %t{c}" for c in each[1:]]
    return first, turn, [*after, f"store {v} %u{VECTORS - 1}, ptr %at, align {t.bytes}"]


def _writes(t: Lanes, past: str = "") -> tuple[list[str], list[str], list[str]]:
    store = f"store {t.integers} %x, ptr"
    return [], [f"{store} %p{c}, align {t.bytes}{past}" for c in range(VECTORS)], []


MEMORY: dict[str, Callable[[Lanes], tuple[list[str], list[str], list[str]]]] = {
    "read": _reads,
    "write": _writes,
    "stream": lambda t: _writes(t, ", !nontemporal !0"),  # past the caches
}


def over_memory(t: Lanes, name: str) -> list[str]:
    """@name(array, bytes, times, ptr to a vector): one of MEMORY over an array, so many times."""
    first, turn, after = MEMORY[name](t)
    return [
        f"define void @{name}(ptr %array, i64 %bytes, i64 %times, ptr %at) {{",
        "entry:",
        f"%x = load {t.integers}, ptr %at, align {t.bytes}",
        "br label %time",
        "time:",
        "%k = phi i64 [ 0, %entry ], [ %k1, %passed ]",
        "br label %turn",
        "turn:",
        "%o = phi i64 [ 0, %time ], [ %o1, %turn ]",
        *first,
        "%to = getelementptr inbounds i8, ptr %array, i64 %o",
        *[vector_at(t, f"%p{c}", "%to", c) for c in range(VECTORS)],
        *turn,
        f"%o1 = add i64 %o, {VECTORS * t.bytes}",
        "%more = icmp slt i64 %o1, %bytes",
        "br i1 %more, label %turn, label %passed",
        "passed:",
        *after,
        "%k1 = add i64 %k, 1",
        "%again = icmp slt i64 %k1, %times",
        "br i1 %again, label %time, label %done",
        "done:",
        "fence seq_cst",
        "ret void",
        "}",
    ]


def _functions(lines: list[str], signatures: dict[str, Any]) -> dict[str, Callable[..., None]]:
    """Machine code of this processor, which lives as long as the functions."""
    code = linked(jit.machine_code("\n".join(lines)), tuple(signatures))

    def function(name: str) -> Callable[..., None]:
        call = signatures[name](code.place(name))
        return lambda *arguments, alive=code: call(*arguments)

    return {name: function(name) for name in signatures}


@cache
def arithmetic(dtype: np.dtype) -> dict[int, Callable[[int, int], None]]:
    """By the number of chains: a function of (address of two vectors, turns) that makes
    chains UNROLLED multiply-adds of a widest vector in each turn.
    """
    t = Lanes(dtype, jit.widest(dtype))
    lines = declarations(t) + [line for chains in CHAINS for line in multiply_adds(t, chains)]
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    made = _functions(lines, {f"multiply_add_{chains}": kind for chains in CHAINS})
    return dict(zip(CHAINS, made.values(), strict=True))


@cache
def memory() -> dict[str, Callable[[int, int, int, int], None]]:
    """By the names of MEMORY: functions of (address of an array, bytes, times, address of a
    vector). Arrays begin on a cache line; their bytes are a multiple of 512.
    """
    t = Lanes(np.dtype(np.float64), jit.widest(np.dtype(np.float64)))
    lines = [line for name in MEMORY for line in over_memory(t, name)]
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(None, pointer, number, number, pointer)
    return _functions([*lines, "!0 = !{i32 1}"], dict.fromkeys(MEMORY, kind))
