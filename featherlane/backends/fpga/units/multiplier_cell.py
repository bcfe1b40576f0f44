"""Multipliers with their registers: MULT18X18D of the ECP5 as instances.

Yosys leaves the registers of operands and products in the fabric. The cell has them inside, which
takes no flip-flops and is faster, since no wire of the fabric stands between multiplier and
register. What is used of it (TN1267): signed 18x18 products, registers of the operands, one behind
the partial products (the pipeline register) and one of the product.
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.statements import OPEN, Alternative, Instance, Waived
from featherlane.backends.fpga.text import Signal
from featherlane.backends.fpga.units.staged import Staged, StagedUnit

NAME = "MULT18X18D"
OPERAND, PRODUCT = 18, 36  # bits
UNREAD_MODEL = "Signals of the arithmetic are not read where the primitive is in its place."


class CellRegisters(NamedTuple):
    """The registers inside a multiplier cell, 0 or 1 each: of the operands, behind the partial
    products, and of the product.
    """

    operands: int
    partial: int
    product: int

    @classmethod
    def of(cls, before: int, behind: int) -> CellRegisters:
        """The registers that a cell can take of those before and behind a product."""
        return cls(min(before, 1), int(behind > 1), int(behind > 0))

    @property
    def behind(self) -> int:
        return self.partial + self.product

    @property
    def module(self) -> str:
        """The name of the module, behind that of the design."""
        return f"cell_{self.operands}{self.partial}{self.product}"


def instance(
    unit: StagedUnit, prefix: str, registers: CellRegisters, name: str, kept: int, a: str, b: str
) -> Staged:
    """The last bits of a product in a unit, by an instance of the module of a multiplier; its
    operands' registers are those in front of the unit's present stage. a, b: expressions.
    """
    ports = {"clock": "clock"}
    for port, text in (("a", a), ("b", b)):
        ports[port] = unit.wire(f"{name}_{port}", OPERAND, text).signal.name
    whole = Signal(f"{name}_whole", PRODUCT)
    ports["p"] = unit.circuit.declare_signal(whole)
    unit.circuit.instance(prefix + registers.module, f"{name}_cell", ports)
    product = unit.wire(name, kept, f"{whole.name}[{kept - 1}:0]")
    return product._replace(stage=unit.stage + registers.behind)


def module(prefix: str, registers: CellRegisters) -> Module:
    """The module of a multiplier: the device's primitive in synthesis, else its arithmetic."""
    comment = (
        f"A {NAME}: p = a b, with {registers.operands} register of the operands and "
        f"{registers.behind} of the product. Synthesis takes the primitive, any simulation "
        "what it computes."
    )
    cell = Module(prefix + registers.module, comment)
    cell.input("clock")
    cell.input("a", "b", bits=OPERAND, signed=True)
    cell.output("p", bits=PRODUCT, signed=True)
    _add_model(cell, registers)
    primitive = Waived("PINMISSING", OPEN, (_primitive(registers),))
    cell.body = [Alternative("SYNTHESIS", (primitive,), tuple(cell.body))]
    cell.unread = UNREAD_MODEL
    return cell


def _primitive(registers: CellRegisters) -> Instance:
    """The device's primitive; what is not used of it is 0."""
    operands, partial, product = ('"CLK0"' if there else '"NONE"' for there in registers)
    parameters: dict[str, int | str] = {
        "REG_INPUTA_CLK": operands, "REG_INPUTB_CLK": operands, "REG_PIPELINE_CLK": partial,
        "REG_OUTPUT_CLK": product, "GSR": '"DISABLED"',
    }  # fmt: skip
    ports = {
        "CLK0": "clock", "RST0": "1'b0", "SIGNEDA": "1'b1", "SIGNEDB": "1'b1",
        "SOURCEA": "1'b0", "SOURCEB": "1'b0",
        **{f"{name.upper()}{n}": f"{name}[{n}]" for name in "ab" for n in range(OPERAND)},
        **{f"C{n}": "1'b0" for n in range(OPERAND)},
        **{f"P{n}": f"p[{n}]" for n in range(PRODUCT)},
    }  # fmt: skip
    return Instance(NAME, "multiplier", ports, parameters, {"CE0": "1'b1"})


def _add_model(cell: Module, registers: CellRegisters) -> None:
    """The model of the multiplier for simulations."""
    a, b = "a", "b"
    if registers.operands:
        cell.declare("a_1", "b_1", bits=OPERAND, signed=True)
        cell.clocked("a_1 <= a;", "b_1 <= b;")
        a, b = "a_1", "b_1"
    cell.declare("product_0", bits=PRODUCT, signed=True)
    cell.assign("product_0", f"{a} * {b}")
    for n in range(registers.behind):
        cell.declare(f"product_{n + 1}", bits=PRODUCT, signed=True)
        cell.clocked(f"product_{n + 1} <= product_{n};")
    cell.assign("p", f"product_{registers.behind}")
