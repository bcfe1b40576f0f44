"""The vectors of WebAssembly, of 128 bits: each holds the same scalar of two states
in float64, of four in float32; and the operations of the table as instructions on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from featherlane.backends.wasm.encode import get, integer, put, simd

WHOLE = 0x0C  # a whole vector as a constant
AND, OR, XOR, BITSELECT = (simd(x) for x in (0x4E, 0x50, 0x51, 0x52))


class WasmLanes(NamedTuple):
    """A type of vectors: the bits of its numbers and of their fractions, and the codes of its
    instructions.
    """

    bits: int
    fraction: int
    operations: Mapping[str, int]
    load_zero: int  # loads the first lane, clears the others
    load_lane: int
    store_lane: int
    constant: bytes  # pushes a number onto the stack
    splat: int  # that number in all lanes
    shift_left: int  # of integers
    shift_right: int
    negate: int

    @property
    def width(self) -> int:
        return 128 // self.bits

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return self.bits // 8

    @property
    def align(self) -> int:
        """The logarithm of the bytes of a number."""
        return self.size.bit_length() - 1

    @property
    def bias(self) -> int:
        return (1 << self.bits - self.fraction - 2) - 1

    def packed(self, x: float) -> bytes:
        with np.errstate(over="ignore"):
            return np.dtype(f"<f{self.size}").type(x).tobytes()

    def number(self, x: float) -> bytes:
        """One number in all lanes; as a whole vector it takes more bytes and as much time."""
        return self.constant + self.packed(x) + simd(self.splat)

    def pattern(self, bits: int) -> bytes:
        """A vector that has these bits in each lane."""
        return simd(WHOLE) + bits.to_bytes(self.size, "little") * self.width


def _from(first: int) -> dict[str, int]:
    """The codes of the instructions that have the same order for both types."""
    names = ("abs", "neg", "", "sqrt", "add", "sub", "mul", "div")
    return {name: first + n for n, name in enumerate(names) if name}


LANES = {
    np.dtype(np.float64): WasmLanes(
        bits=64,
        fraction=52,
        operations={**_from(0xEC), "less": 0x49, "less_equal": 0x4B, "round": 0x94},
        load_zero=0x5D,
        load_lane=0x57,
        store_lane=0x5B,
        constant=b"\x44",
        splat=0x14,
        shift_left=0xCB,
        shift_right=0xCD,
        negate=0xC1,
    ),
    np.dtype(np.float32): WasmLanes(
        bits=32,
        fraction=23,
        operations={**_from(0xE0), "less": 0x43, "less_equal": 0x45, "round": 0x6A},
        load_zero=0x5C,
        load_lane=0x56,
        store_lane=0x5A,
        constant=b"\x43",
        splat=0x13,
        shift_left=0xAB,
        shift_right=0xAD,
        negate=0xA1,
    ),
}


# Operations of several instructions: (lanes, scratch local, code of each operand) -> code. Nothing
# else is evaluated between the writing and the reading of the scratch local.


def _quarter(t: WasmLanes, scratch: int, k: bytes, s: bytes, c: bytes) -> bytes:
    """Adding 1.5 2^m puts the integer k into the low bits of the number: bit 0 selects c, bit 1
    negates.
    """
    low = k + t.number(1.5 * 2.0**t.fraction) + simd(t.operations["add"]) + _tee(scratch)
    odd = low + t.pattern(1) + AND + simd(t.negate)  # all ones or none
    sign = get(scratch) + t.pattern(2) + AND + integer(t.bits - 2) + simd(t.shift_left)
    return c + s + odd + BITSELECT + sign + XOR


def _tee(local: int) -> bytes:
    return put(local) + get(local)


def _power_of_two(t: WasmLanes, scratch: int, k: bytes) -> bytes:
    """2^k: adding 1.5 2^m and the bias puts the exponent's bits into the low bits of the number."""
    shifted = k + t.number(1.5 * 2.0**t.fraction + t.bias) + simd(t.operations["add"])
    return shifted + integer(t.fraction) + simd(t.shift_left)


def _exponent(t: WasmLanes, scratch: int, a: bytes) -> bytes:
    """The bits of the exponent as the low bits of 2^m + exponent + bias."""
    whole = t.bias + t.fraction << t.fraction  # the bits of 2^m
    bits = a + integer(1) + simd(t.shift_left) + integer(t.fraction + 1) + simd(t.shift_right)
    biased = bits + t.pattern(whole) + OR + t.number(2.0**t.fraction + t.bias)
    return biased + simd(t.operations["sub"])


def _copysign(t: WasmLanes, scratch: int, a: bytes, b: bytes) -> bytes:
    return a + b + t.pattern((1 << t.bits - 1) - 1) + BITSELECT


SEVERAL: dict[str, Callable[..., bytes]] = {
    "quarter": _quarter,
    "power_of_two": _power_of_two,
    "exponent": _exponent,
    "copysign": _copysign,
    "select": lambda t, scratch, condition, a, b: a + b + condition + BITSELECT,
}


def operation(t: WasmLanes, op: str, operands: list[bytes], scratch: int) -> bytes:
    """The code of an operation. scratch: a local that it may use."""
    if op in SEVERAL:
        return SEVERAL[op](t, scratch, *operands)
    return b"".join(operands) + simd(t.operations[op])
