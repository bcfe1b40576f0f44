"""Sums and differences with CCU2C of the ECP5 as instances.

Yosys makes two chains of carries, or a chain and LUTs in front of it, of a sum whose second operand
is added or subtracted. The LUTs of the cell invert this operand for nothing: the sum of two bits
and a carry is a ^ b ^ minus ^ carry, and a carries on where a and b ^ minus are alike
(FPGA-TN-02205, and the model of Yosys).
"""

from __future__ import annotations

from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.statements import (
    OPEN,
    Alternative,
    Assign,
    Instance,
    Statement,
    Waived,
)

CELL = "CCU2C"
TABLE = "16'h96aa"  # with D = 1: a ^ b ^ minus; without C and D: a, which is the carry
PARAMETERS = {"INIT0": TABLE, "INIT1": TABLE, "INJECT1_0": '"NO"', "INJECT1_1": '"NO"'}


def name(bits: int) -> str:
    """The name of the module, behind that of the design."""
    return f"add_subtract_{bits}"


def module(prefix: str, bits: int) -> Module:
    """The module of a sum or a difference of so many bits: s = a + b, or a - b where minus is 1."""
    comment = (
        f"s = a + b, or a - b with minus, by {CELL}. Synthesis takes the cells of the device, any "
        "simulation what they compute."
    )
    adder = Module(prefix + name(bits), comment)
    adder.input("a", "b", bits=bits, signed=True)
    adder.input("minus")
    adder.output("s", bits=bits, signed=True)
    adder.assign("s", "minus ? a - b : a + b")
    pairs = (bits + 1) // 2
    adder.declare("carry", bits=pairs + 1)
    chain: tuple[Statement, ...] = (
        Assign("carry[0]", "minus"),
        *(_pair(n, bits) for n in range(pairs)),
    )
    cells = Waived("PINMISSING", OPEN, chain)
    adder.body = [Alternative("SYNTHESIS", (cells,), tuple(adder.body))]
    adder.unread = UNREAD_CARRY
    return adder


UNREAD_CARRY = "The last carry is not read, and none where the cells are not there."


def _pair(n: int, bits: int) -> Instance:
    """The cell of two bits; behind the last bit it adds zeros."""
    ports = {"CIN": f"carry[{n}]"}
    for half in (0, 1):
        bit = 2 * n + half
        there = bit < bits
        ports |= {f"A{half}": f"a[{bit}]" if there else "1'b0"}
        ports |= {f"B{half}": f"b[{bit}]" if there else "1'b0"}
        ports |= {f"C{half}": "minus", f"D{half}": "1'b1"}
        if there:
            ports[f"S{half}"] = f"s[{bit}]"
    ports["COUT"] = f"carry[{n + 1}]"
    return Instance(CELL, f"bits_{2 * n}", ports, PARAMETERS, {})
