"""Multipliers that accumulate: a sum of products, one product a cycle.

On a device with post-adders, each piece of the product has a DSP48E2 that accumulates it, P = P +-
A B. With the last product of a sum, a DSP also adds the sum of the DSP before it, shifted by 17
bits where its place is 17 bits further, so that the whole sum is in the last one. Each DSP works a
cycle later than the one before it.

Elsewhere, an adder of logic stands behind the multiplier, which has the register of its product
inside where it is an instance. The register of the sum takes the initial sum in the cycle before
the first product is added, so that no multiplexer stands in the chain of carries: what reads a sum
takes it from this chain, in the cycle of its last product.

What is used of the DSP48E2 (UG579) besides `post_adder`: Z is P, and W is P where Z is PCIN.
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.text import zeros
from featherlane.backends.fpga.units import carry_cells, dsp48e2, multiplier_cell
from featherlane.backends.fpga.units.dsp48e2 import BITS, DspMode
from featherlane.backends.fpga.units.multiplier_cell import CellRegisters
from featherlane.backends.fpga.units.multipliers import Multiplier, Tile, tiles
from featherlane.backends.fpga.units.post_adder import STEP

INSIDE = CellRegisters(operands=1, partial=0, product=1)  # a block of RAM is slow in front of it
NAME = "accumulating_dsp"  # the file and the module of one DSP, behind the name of the design


class Stage(NamedTuple):
    """A DSP of a chain: the operands at its wide port and at its narrow one, as expressions of a
    and b, and by how many bits its place is further than that of the stage before.
    """

    wide: str
    narrow: str
    step: int


class Accumulator(NamedTuple):
    """A multiplier of operands of `a` and `b` bits that sums products in `bits` bits, 48 at most.
    tile: the multiplier of the device.
    """

    a: int
    b: int
    bits: int
    tile: Tile

    @property
    def name(self) -> str:
        """The name of the module, behind that of the design."""
        return f"accumulate_{self.a}x{self.b}_{self.bits}"

    @property
    def stages(self) -> list[Stage]:
        """The DSPs of the product; none where it is an expression."""
        return _stages(self.a, self.b) if self.tile.post_adder else []

    @property
    def cell(self) -> CellRegisters | None:
        """The registers inside an instance of the device's multiplier; None without an instance."""
        fits = max(self.a, self.b) <= multiplier_cell.OPERAND
        return INSIDE if self.tile.registered and fits and self.dsps else None

    @property
    def loads_early(self) -> bool:
        """Whether the initial sum is taken in the cycle before that of the first product."""
        return not self.stages

    @property
    def control(self) -> int:
        """The cycles from operands to their control."""
        return self.cell.operands + 1 if self.cell else 1

    @property
    def cycles(self) -> int:
        """The cycles from the last operands to the sum."""
        return self.control + len(self.stages)

    @property
    def dsps(self) -> int:
        """The device's multipliers that it takes."""
        product = Multiplier(self.a, self.b, self.bits, 2)
        return len(self.stages) or tiles(product, self.tile)


def _stages(a: int, b: int) -> list[Stage]:
    """The pieces of a product. An operand of up to 27 bits is one piece; the other one has one of
    up to 18 bits, or a second one from bit 17 on. Of two wider operands, one has a second piece
    from bit 26 on, and of its product with the other operand only the last bits matter.
    """
    (wide, x), (narrow, y) = sorted(((a, "a"), (b, "b")), reverse=True)
    if wide <= 27 and narrow <= 18:
        return [Stage(x, y, 0)]
    if narrow <= 27:
        whole, split, bits = (x, y, narrow) if wide <= 27 else (y, x, wide)
        return [Stage(whole, _low(split), 0), Stage(whole, _high(split, bits), STEP)]
    first = f"$signed({{1'b0, {x}[25:0]}})"
    upper = f"$signed({{{x}[{wide - 1}:26], {zeros(26 - STEP)}}})"
    second = Stage(first, _high(y, narrow), STEP)
    return [Stage(first, _low(y), 0), second, Stage(f"$signed({y}[26:0])", upper, 0)]


def _low(operand: str) -> str:
    return f"$signed({{1'b0, {operand}[{STEP - 1}:0]}})"


def _high(operand: str, bits: int) -> str:
    return f"$signed({operand}[{bits - 1}:{STEP}])"


def module(prefix: str, m: Accumulator) -> Module:
    """The module of an accumulator. Its control comes `control` cycles behind the operands:
    `start` begins a sum at `initial_sum`, `last` ends it, `minus` subtracts the product, and
    `ends_minus` tells that the last product of the sum is subtracted. Without post-adders, `start`
    and `initial_sum` come a cycle earlier.
    """
    comment = f"initial_sum + a b + ..., {m.bits} bits, {m.cycles} cycles behind the last operands"
    circuit = Module(prefix + m.name, comment)
    circuit.input("clock")
    circuit.input("a", bits=m.a, signed=True)
    circuit.input("b", bits=m.b, signed=True)
    circuit.input("initial_sum", bits=m.bits, signed=True)
    circuit.input(*controls(m))
    circuit.output("sum", bits=m.bits, signed=True)
    if m.stages:
        _add_chain(circuit, prefix, m)
    else:
        _add_logic(circuit, prefix, m)
    circuit.waive_widths()
    return circuit


def controls(m: Accumulator) -> tuple[str, ...]:
    """The ports of control."""
    return ("start", "minus") if m.loads_early else ("start", "last", "minus", "ends_minus")


def _add_logic(circuit: Module, prefix: str, m: Accumulator) -> None:
    """A multiplier and an adder of logic, one chain of carries: the device's cells invert what is
    subtracted. Without cells, the carry into the sum comes from a bit below both operands.
    """
    bits = multiplier_cell.PRODUCT if m.cell else m.a + m.b
    circuit.declare("product", bits=bits, signed=True)
    circuit.declare("total", "added", bits=m.bits, signed=True)
    circuit.assign("added", f"product[{m.bits - 1}:0]" if m.bits < bits else "product")
    if m.cell:
        circuit.declare("wide_a", "wide_b", bits=multiplier_cell.OPERAND, signed=True)
        circuit.assign("wide_a", "a")
        circuit.assign("wide_b", "b")
        ports = {"clock": "clock", "a": "wide_a", "b": "wide_b", "p": "product"}
        circuit.instance(prefix + m.cell.module, "multiplier", ports)
        ports = {"a": "total", "b": "added", "minus": "minus", "s": "sum"}
        circuit.instance(prefix + carry_cells.name(m.bits), "adder", ports)
    else:
        circuit.declare("chain", bits=m.bits + 1)
        inverted = f"added ^ {{{m.bits}{{minus}}}}"
        circuit.assign("chain", f"{{total, 1'b1}} + {{{inverted}, minus}}")
        circuit.clocked("product <= a * b;")
        circuit.assign("sum", f"chain[{m.bits}:1]")
    circuit.clocked("total <= start ? initial_sum : sum;")


def _add_chain(circuit: Module, prefix: str, m: Accumulator) -> None:
    """DSPs that accumulate pieces of the product, and the bits of the sum in each."""
    place, parts, count = 0, list[str](), len(m.stages)
    control = {name: name for name in ("start", "last", "minus")}
    circuit.declare("whole", bits=BITS, signed=True)
    circuit.assign("whole", "initial_sum")
    for n, stage in enumerate(m.stages):
        circuit.declare(f"wide_{n}", bits=27, signed=True)
        circuit.declare(f"narrow_{n}", bits=18, signed=True)
        circuit.declare(f"p_{n}", f"chain_{n}", bits=BITS, signed=True)
        circuit.assign(f"wide_{n}", stage.wide)
        circuit.assign(f"narrow_{n}", stage.narrow)
        if n == 1:
            circuit.declare("minus_now")
            circuit.assign("minus_now", "last ? minus : minus ^ ends_minus")
            control["minus"] = "minus_now"
        if n:
            for name, text in control.items():
                control[name] = _delayed(circuit, f"{name}_{n}", text)
        wide, narrow = f"wide_{n}", f"narrow_{n}"
        for later in range(max(n - 2, 0)):  # a DSP has two registers for each operand
            wide = _delayed(circuit, f"wide_{n}_{later + 1}", wide, 27)
            narrow = _delayed(circuit, f"narrow_{n}_{later + 1}", narrow, 18)
        if stage.step:
            low = f"p_{n - 1}[{STEP - 1}:0]"
            for later in range(count - n):
                low = _delayed(circuit, f"low_{n}_{later + 1}", low, STEP)
            parts.insert(0, low)
            place += stage.step
        ports = {
            "clock": "clock", "a": wide, "b": narrow, "c": "whole",
            "chain_in": f"chain_{n - 1}" if n else f"{BITS}'sd0",
            **control, "p": f"p_{n}", "chain_out": f"chain_{n}",
        }  # fmt: skip
        chain = (2 if stage.step else 1) if n else 0
        parameters = {"OPERANDS": min(n, 2), "CHAIN": chain}
        circuit.instance(prefix + NAME, f"dsp_{n}", ports, parameters)
    top = f"p_{count - 1}[{m.bits - place - 1}:0]"
    circuit.assign("sum", f"{{{', '.join([top, *parts])}}}")


def _delayed(circuit: Module, name: str, source: str, bits: int | None = None) -> str:
    """A signal a cycle later."""
    circuit.declare(name, bits=bits, signed=bits is not None)
    circuit.clocked(f"{name} <= {source};")
    return name


def dsp(prefix: str) -> Module:
    """The module of one DSP: that of the device in synthesis, else what it computes."""
    return dsp48e2.module(prefix + NAME, ABOUT, MODE, _add_model)


ABOUT = (
    "A DSP48E2 that accumulates: p = p +- a b, from c (CHAIN 0) or from 0 at the start of a sum. "
    "With the last product, p = z +- (p + a b), where z is chain_in or chain_in >> 17 (CHAIN 1, "
    "2). OPERANDS: registers in front of the product. Synthesis takes that of the device, any "
    "simulation what it computes."
)
BEGUN = "CHAIN == 0 ? 3'b011 : 3'b000"
MODE = DspMode(
    parameters={"OPERANDS": 0, "CHAIN": 0},
    control=("start", "last", "minus"),
    product=1,
    sum=1,
    w="CHAIN != 0 && last && !start ? 2'b01 : 2'b00",
    z=f"CHAIN != 0 && last ? (CHAIN == 1 ? 3'b001 : 3'b101) : start ? ({BEGUN}) : 3'b010",
    carry="1'b0",
)


def _add_model(module: Module) -> None:
    """The model of the DSP for simulations."""
    module.declare("a_1", "a_2", bits=27, signed=True)
    module.declare("b_1", "b_2", bits=18, signed=True)
    module.declare("product", bits=45, signed=True)
    module.declare("first", "previous", "z", "total", bits=BITS, signed=True)
    a, b = (f"(OPERANDS == 0 ? {x} : OPERANDS == 1 ? {x}_1 : {x}_2)" for x in "ab")
    module.assign("first", "CHAIN == 0 ? c : 48'sd0")
    module.assign("previous", "start ? first : total")
    module.assign("z", "CHAIN == 1 ? chain_in : chain_in >>> 17")
    module.clocked(
        "a_1 <= a;", "a_2 <= a_1;", "b_1 <= b;", "b_2 <= b_1;", f"product <= {a} * {b};",
        """
        if (CHAIN != 0 && last) total <= minus ? z - (previous + product) : z + previous + product;
        else total <= minus ? previous - product : previous + product;
        """,
    )  # fmt: skip
    module.assign("p", "total")
    module.assign("chain_out", "total")
