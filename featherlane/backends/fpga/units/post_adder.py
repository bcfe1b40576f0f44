"""Products and sums in DSP48E2: multiply-adds as instances, chained where a product takes several.

A product of wide operands is a chain of DSPs. Each adds its own product of pieces to what it gets
from the one before, shifted by 17 bits where its place is 17 bits further: all sums are inside. The
first one adds the last 46 bits of the addend, and the last one the bits above, so that no sum has
more than 48 bits (or, of a result of 48 bits or fewer, the first one adds all of it: what is lost
in it lies beyond the result).

What is used of the DSP48E2 (UG579): signed 27x18 products, AREG = BREG of 0 to 2, MREG, PREG; X and
Y the product, Z one of C, PCIN and PCIN >> 17, W 0 or C, chosen once; ALUMODE 0000, Z + W + X + Y +
CIN, or 0011, Z - (W + X + Y + CIN). Control inputs and C have no registers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.text import Signal, literal, shifted_left, signed_width
from featherlane.backends.fpga.units import dsp48e2
from featherlane.backends.fpga.units.dsp48e2 import BITS, DspMode
from featherlane.backends.fpga.units.multipliers import (
    Multiplier,
    Piece,
    Tile,
    cut,
    is_wires,
    kept_bits,
    part_of,
    piece_of,
)
from featherlane.backends.fpga.units.staged import Staged, StagedUnit

STEP = 17  # by so many bits the chain of adders shifts
LOW = 46  # bits of the addend in the first DSP, if the result has more than the adder
NAME = "dsp"  # the file and the module of one DSP, behind the name of the design


class DspStep(NamedTuple):
    """A DSP of a chain. a, b: the pieces that it multiplies, which stand `offset` bits up; base:
    the place of its result's first bit.
    """

    a: Piece
    b: Piece
    offset: int
    base: int


class DspChain(NamedTuple):
    """DSPs in their order, and the product of pieces that takes too few bits for one."""

    steps: list[DspStep]
    rest: DspStep | None

    @property
    def base(self) -> int:
        return self.steps[-1].base


def registers(cycles: int) -> tuple[int, int, int]:
    """The registers of operands, products and sums for 0 to 4 cycles."""
    return max(min(cycles - 1, 1), 0) + (cycles == 4), int(cycles > 2), int(cycles > 0)


def chain(m: Multiplier, tile: Tile) -> DspChain | None:
    """The chain of DSPs of a multiplier; None where there is none: products with pieces that are
    wires, results of more bits than the adder reaches.
    """
    if not tile.post_adder or m.cycles > 4:
        return None
    pieces_a, pieces_b = cut(m, tile)
    steps, rest = list[DspStep](), list[DspStep]()
    for p in pieces_a:
        for q in pieces_b:
            width = q.width
            if m.constant is not None:
                part = part_of(m.constant, q)
                if is_wires(abs(part)):
                    return None
                width = signed_width(part)
            offset = p.first + q.first
            step = DspStep(p, q, offset, offset // STEP * STEP)
            if (kept := kept_bits(m, p, q, width)) > 0:
                (steps if kept >= tile.least else rest).append(step)
    steps.sort(key=lambda step: step.offset)
    whole = len(rest) < 2 and (len(steps) > 1 or not rest) and bool(steps)
    if not whole or steps[0].base or any(step.offset < steps[-1].base for step in rest):
        return None
    gaps = {b.base - a.base for a, b in pairwise(steps)}
    reach = steps[-1].base + BITS if len(steps) > 1 else BITS
    if gaps - {0, STEP} or m.result > reach or not all(_fits(step, tile) for step in steps):
        return None
    return DspChain(steps, rest[0] if rest else None)


def _fits(step: DspStep, tile: Tile) -> bool:
    """Whether the wider piece has room to be shifted to its place."""
    narrow, wide = sorted((step.a.width, step.b.width))
    return narrow <= tile.b and wide + step.offset - step.base <= tile.a


def module(prefix: str, m: Multiplier, tile: Tile) -> Module:
    """The module of a multiplier with its sum."""
    dsps = chain(m, tile)
    assert dsps is not None, f"{m.name} has no chain of DSPs"
    return _Writer(prefix, m, tile, dsps).module()


class _Writer(StagedUnit):
    """The module of a chain while it is being written."""

    def __init__(self, prefix: str, m: Multiplier, tile: Tile, chain: DspChain) -> None:
        sign = {"plus": "+", "minus": "-", "either": "+-"}[m.adds]
        comment = f"half {sign} a b in {m.cycles} cycles; half is read in cycle {m.half_cycle}"
        super().__init__(prefix + m.name, comment)
        self.prefix, self.m, self.tile, self.chain = prefix, m, tile, chain
        self.of_operands, self.of_products, self.of_sums = registers(m.cycles)
        self._write()

    def _write(self) -> None:
        """Writes ports, operands, products and sums of the chain, with registers at its cuts."""
        m, (steps, rest) = self.m, self.chain
        a = self.input("a", m.a)
        b = self.input("b", m.b) if m.constant is None else m.constant
        self.half = self.input("half", m.result, always=True).signal.name
        self.minus = {"plus": "1'b0", "minus": "1'b1"}.get(m.adds, "minus")
        if m.adds == "either":
            self.input("minus", 1, always=True)
        for n, step in enumerate(steps):
            x, y = self._operands(step, a, b)
            self.wire(f"wide_{n}", self.tile.a, x)
            self.wire(f"narrow_{n}", self.tile.b, y)
        self.cut(self.of_operands)
        product = self._product(rest, a, b) if rest else None
        self.cut(self.of_products)
        addends = self._addends(product)
        parts = []
        for n, step in enumerate(steps):
            parts.append(self._dsp(n, addends[n]))
            if n + 1 < len(steps) and steps[n + 1].base > step.base:
                low = self.wire(f"low_{n}", STEP, f"p_{n}[{STEP - 1}:0]")
                parts[-1] = low
            elif n + 1 < len(steps):
                parts.pop()
        self.cut(self.of_sums)
        last = parts.pop()._replace(stage=self.stage)
        top = f"{self.read(last)}[{m.result - self.chain.base - 1}:0]"
        pieces = [top, *(self.read(low) for low in reversed(parts))]
        total = self.wire("total", m.result, f"{{{', '.join(pieces)}}}")
        self.output("result", m.result, total)

    def _operands(self, step: DspStep, a: Staged, b: Staged | int) -> tuple[str, str]:
        """The pieces at the ports of a DSP, the wider one at the wide one."""
        left = piece_of(Signal(self.read(a), self.m.a), step.a)
        if isinstance(b, Staged):
            right, width = piece_of(Signal(self.read(b), self.m.b), step.b), step.b.width
        else:
            part = part_of(b, step.b)
            width = signed_width(part)
            right = literal(part, width)
        x, y = (left, right) if step.a.width >= width else (right, left)
        return shifted_left(x, step.offset - step.base), y

    def _product(self, rest: DspStep, a: Staged, b: Staged | int) -> tuple[Staged, int]:
        """The product of pieces outside of DSPs, and its place."""
        left = piece_of(Signal(self.read(a), self.m.a), rest.a)
        if isinstance(b, Staged):
            right = piece_of(Signal(self.read(b), self.m.b), rest.b)
        else:
            part = part_of(b, rest.b)
            right = literal(part, signed_width(part))
        kept = self.m.result - rest.offset
        return self.wire("rest", kept, f"{left} * {right}"), rest.offset

    def _addends(self, product: tuple[Staged, int] | None) -> list[str | None]:
        """The addend of each DSP at C. That of the last of several has the sign of its product, so
        that the bits of half are inverted: with the carry, ~x is -x.
        """
        m, count = self.m, len(self.chain.steps)
        addends: list[str | None] = [None] * count
        if m.result <= BITS:
            addends[0] = self._addend("half_0", self.half)
        else:
            addends[0] = self._addend("half_0", f"$signed({{2'b0, {self.half}[{LOW - 1}:0]}})")
        terms = []
        if m.result > BITS:
            high = f"$signed({self.half}[{m.result - 1}:{LOW}])"
            above = self._addend("above", shifted_left(high, LOW - self.chain.base))
            signed = {"1'b0": above, "1'b1": f"~{above}"}
            terms.append(signed.get(self.minus, f"({above} ^ {{{BITS}{{minus}}}})"))
        if product:
            value, offset = product
            moved = offset - self.chain.base
            text = self._addend("rest_there", shifted_left(self.read(value), moved))
            terms.append(text)
        if terms:
            addends[-1] = self._addend("half_last", " + ".join(terms))
        return addends

    def _addend(self, name: str, text: str) -> str:
        return self.wire(name, BITS, text).signal.name

    def _dsp(self, n: int, addend: str | None) -> Staged:
        """The instance of a DSP, and its result."""
        steps, last = self.chain.steps, n + 1 == len(self.chain.steps)
        moved = n > 0 and steps[n].base > steps[n - 1].base
        parameters = {
            "OPERANDS": self.of_operands,
            "PRODUCT": self.of_products,
            "SUM": self.of_sums if last else 0,
            "Z": (2 if moved else 1) if n else 0,
            "W": int(n > 0 and addend is not None),
        }
        carry = self.minus if n and last and self.m.result > BITS else "1'b0"
        result = Signal(f"p_{n}", BITS)
        ports = {
            "clock": "clock", "a": f"wide_{n}", "b": f"narrow_{n}", "c": addend or f"{BITS}'sd0",
            "chain_in": f"chain_{n - 1}" if n else f"{BITS}'sd0", "minus": self.minus,
            "carry": carry, "p": result.name, "chain_out": f"chain_{n}",
        }  # fmt: skip
        self.circuit.declare(result.name, ports["chain_out"], bits=BITS, signed=True)
        self.circuit.instance(self.prefix + NAME, f"dsp_{n}", ports, parameters)
        return Staged(result, self.stage)


def dsp(prefix: str) -> Module:
    """The module of one DSP: the device's own in synthesis, else what it computes."""
    return dsp48e2.module(prefix + NAME, ABOUT, MODE, _add_model)


ABOUT = (
    "A DSP48E2: p = Z + W + a b + carry, or Z - (W + a b + carry) if minus, where Z is c, chain_in "
    "or chain_in >> 17 (0, 1, 2), and W is 0 or c (0, 1). OPERANDS, PRODUCT, SUM: registers of "
    "each. Synthesis takes the device's own one, any simulation what it computes."
)
MODE = DspMode(
    parameters={"OPERANDS": 1, "PRODUCT": 1, "SUM": 1, "Z": 0, "W": 0},
    control=("minus", "carry"),
    product="PRODUCT",
    sum="SUM",
    w="W == 1 ? 2'b11 : 2'b00",
    z="Z == 0 ? 3'b011 : Z == 1 ? 3'b001 : 3'b101",
    carry="carry",
)


def _add_model(module: Module) -> None:
    """The model of the DSP for simulations."""
    module.declare("a_1", "a_2", bits=27, signed=True)
    module.declare("b_1", "b_2", bits=18, signed=True)
    module.declare("product", "product_1", bits=45, signed=True)
    module.declare("wide", "z", "w", "total", "total_1", bits=BITS, signed=True)
    module.clocked(
        "a_1 <= a;", "a_2 <= a_1;", "b_1 <= b;", "b_2 <= b_1;", "product_1 <= product;",
        "total_1 <= total;",
    )  # fmt: skip
    a, b = (f"(OPERANDS == 0 ? {x} : OPERANDS == 1 ? {x}_1 : {x}_2)" for x in "ab")
    module.assign("product", f"{a} * {b}")
    module.assign("wide", "PRODUCT == 0 ? product : product_1")
    module.assign("z", "Z == 0 ? c : Z == 1 ? chain_in : chain_in >>> 17")
    module.assign("w", "W == 0 ? 48'sd0 : c")
    added = "(w + wide + {47'b0, carry})"
    module.assign("total", f"minus ? z - {added} : z + {added}")
    module.assign("p", "SUM == 0 ? total : total_1")
    module.assign("chain_out", "p")
