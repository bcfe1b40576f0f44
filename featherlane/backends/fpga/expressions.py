"""The circuits of operations without a unit of their own: an expression of some bits for each, with
the wires that it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fpga.netlist import constant_integer
from featherlane.backends.fpga.shifts import (
    places_to_shift,
    power_operand,
    shift_range,
    shifted_right,
)
from featherlane.backends.fpga.text import (
    Signal,
    constant,
    fitted,
    literal,
    shifted_left,
    signed_width,
    zeros,
)
from featherlane.errors import CompileError


class Wiring(NamedTuple):
    """Wires with their expressions, and the expression of the result, of the format's bits.
    registers: the wires, by name, that are registers; cycles: those between operands and result.
    """

    wires: list[tuple[Signal, str]]
    result: str
    registers: frozenset[str] = frozenset()
    cycles: int = 0


class NodeOperands(NamedTuple):
    """A node that is to be computed of these signals. name: what its wires begin with. cycles:
    registers from operands to result, the last of which stands behind the result.
    """

    datapath: Datapath
    k: int
    name: str
    operands: tuple[Signal, ...]
    cycles: int = 0

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats of the operands."""
        return tuple(self.datapath.format(a) for a in self.datapath.graph.args[self.k])

    @property
    def out(self) -> Format:
        return self.datapath.format(self.k)

    @property
    def halved(self) -> bool:
        """Whether a register stands in the middle."""
        return self.cycles > 1

    def wire(self, suffix: str, width: int, number: bool = True) -> Signal:
        """A wire between operands and result."""
        return Signal(f"{self.name}_{suffix}", width, number)


def circuit(p: NodeOperands) -> Wiring:
    """The circuit of a node. Raises CompileError for an operation that has none."""
    op = p.datapath.graph.op[p.k]
    if op not in CIRCUITS:
        raise CompileError(f"node {p.k}: there is no circuit for {op}")
    return CIRCUITS[op](p)


def _aligned(p: NodeOperands, n: int, m: int) -> tuple[list[str], int, int]:
    """Two operands at one fraction, the larger one's width, and that fraction."""
    a, b = p.formats[n], p.formats[m]
    fraction = max(a.fraction, b.fraction)
    terms = [shifted_left(p.operands[i].name, fraction - of.fraction) for i, of in ((n, a), (m, b))]
    width = max(of.width + fraction - of.fraction for of in (a, b))
    return terms, width, fraction


def _sum(sign: str) -> Callable[[NodeOperands], Wiring]:
    def rule(p: NodeOperands) -> Wiring:
        (a, b), width, fraction = _aligned(p, 0, 1)
        total = p.wire("sum", width + 1)
        return Wiring([(total, f"{a} {sign} {b}")], fitted(total, fraction, p.out))

    return rule


def _negated(p: NodeOperands) -> Wiring:
    (a,), (of,) = p.operands, p.formats
    negative = p.wire("negative", of.width + 1)
    return Wiring([(negative, f"-{a.name}")], fitted(negative, of.fraction, p.out))


def _absolute(p: NodeOperands) -> Wiring:
    (of,) = p.formats
    size, text = _size(p)
    return Wiring([(size, text)], fitted(size, of.fraction, p.out))


def _size(p: NodeOperands) -> tuple[Signal, str]:
    """The magnitude of the operand, in one bit more."""
    (a,), (of,) = p.operands, p.formats
    return p.wire("size", of.width + 1), f"{a.name} < 0 ? -{a.name} : {a.name}"


def _compared(sign: str) -> Callable[[NodeOperands], Wiring]:
    def rule(p: NodeOperands) -> Wiring:
        (a, b), *_ = _aligned(p, 0, 1)
        return Wiring([], f"{a} {sign} {b}")

    return rule


def _selected(p: NodeOperands) -> Wiring:
    condition, a, b = p.operands
    formats = [p.datapath.format(k) for k in p.datapath.graph.args[p.k][1:]]
    named, wires = [], []
    for suffix, signal, of in zip(("if", "else"), (a, b), formats, strict=True):
        chosen = p.wire(suffix, p.out.width)  # a literal has no bits that can be selected
        whole = p.wire(f"{suffix}_all", signal.width)
        wires += [(whole, signal.name), (chosen, fitted(whole, of.fraction, p.out))]
        named.append(chosen.name)
    return Wiring(wires, f"{condition.name} ? {named[0]} : {named[1]}")


def _exponent(p: NodeOperands) -> Wiring:
    """The position of the highest 1 of a number's magnitude, by halving: whether the upper half has
    a 1, then the same in the half that has it. Of three cycles the first one has the magnitude.
    """
    (of,) = p.formats
    size, text = _size(p)
    bits = (of.width - 1).bit_length()
    part = p.wire(f"upper_{bits}", (1 << bits) + 1)
    wires = [(size, text)]
    flags, registers = list[Signal](), frozenset[str]()
    if p.cycles > 2:
        held_size = p.wire("size_held", size.width)
        wires.append((held_size, size.name))
        size, registers = held_size, frozenset([held_size.name])
    wires.append((part, size.name))
    for n in reversed(range(bits)):
        half = 1 << n
        flag, rest = p.wire(f"bit_{n}", 1, number=False), p.wire(f"upper_{n}", half + 1)
        high, low = f"{part.name}[{2 * half - 1}:{half}]", f"{part.name}[{half - 1}:0]"
        wires += [(flag, f"|{high}"), (rest, f"{{1'b0, {flag.name} ? {high} : {low}}}")]
        flags.append(flag)
        part = rest
        if p.halved and n == bits // 2:
            held = [of._replace(name=f"{of.name}_held") for of in (*flags, part)]
            wires += [(to, of.name) for to, of in zip(held, (*flags, part), strict=True)]
            registers |= {to.name for to in held}
            *flags, part = held
    position = p.wire("position", bits + 1)
    wires.append((position, f"{{{', '.join([zeros(1), *(flag.name for flag in flags)])}}}"))
    empty = p.wire("empty", 2)
    wires.append((empty, f"{{1'b0, ~{part.name}[0]}}"))
    total = p.wire("exponent", max(bits, signed_width(of.fraction)) + 2)
    offset = literal(of.fraction, signed_width(of.fraction))
    wires.append((total, f"{position.name} - {offset} - {empty.name}"))
    return Wiring(wires, fitted(total, 0, p.out), registers, p.halved + (p.cycles > 2))


def _power(p: NodeOperands) -> Wiring:
    (a,), (of,) = p.operands, p.formats
    whole = p.wire("given", a.width)
    return Wiring([(whole, a.name)], fitted(whole, of.fraction, p.out))


def _product(p: NodeOperands) -> Wiring:
    """The product of a number with a power of two, a shift; or with a constant one, wires."""
    power = power_operand(p.datapath, p.k)
    return _moved(p) if power is None else _shifted(p, power)


def _shifted(p: NodeOperands, power: int) -> Wiring:
    """A 2^k, from its last bits with zeros behind them, shifted to the right."""
    a, of, k = p.operands[1 - power], p.formats[1 - power], p.operands[power]
    shifts = shift_range(p.datapath, p.k, power)
    whole = p.wire("whole", of.width + shifts.most)
    if shifts.places == 0:  # all shifts to the left are so large that nothing stays
        wires = [(whole, shifted_left(a.name, shifts.most))]
        return Wiring(wires, fitted(whole, 0, p.out._replace(fraction=0)))
    operand = p.wire("operand", of.width) if p.halved else a
    wires = [(whole, shifted_left(operand.name, shifts.most))]
    start = constant(shifts.start, signed_width(shifts.start))
    counting, count = places_to_shift(p.name, shifts, start, k)
    wires += counting
    registers = frozenset[str]()
    if p.halved:
        held = count._replace(name=f"{count.name}_held")
        wires += [(operand, a.name), (held, count.name)]
        count, registers = held, frozenset([operand.name, held.name])
    stages, right = shifted_right(p.name, whole, count, p.out.width)
    result = fitted(right, 0, p.out._replace(fraction=0))
    return Wiring(wires + stages, result, registers, int(p.halved))


class OddFactor(NamedTuple):
    """A constant as odd 2^places; 0 is 0 2^0."""

    odd: int
    places: int


def factor(datapath: Datapath, k: int) -> tuple[int, OddFactor] | None:
    """The operand of a product that is a constant, by its position, if there is one."""
    args = datapath.graph.args[k]
    for n, a in enumerate(args):
        if datapath.graph.op[a] == "constant":
            x = constant_integer(datapath, a)
            places = (x & -x).bit_length() - 1 if x else 0
            return n, OddFactor(x >> places, places)
    return None


def half(shift: int) -> int:
    """The half that is added to a product before that many of its last bits are dropped."""
    return 1 << shift - 1 if shift > 0 else 0


def _moved(p: NodeOperands) -> Wiring:
    """A product by 0, or by a power of two with either sign: shifted wires, no multiplier."""
    by = factor(p.datapath, p.k)
    if by is None or by[1].odd not in (-1, 0, 1):
        raise CompileError(f"node {p.k} is a product without a multiplier")
    n, (odd, places) = by
    a, (x, y) = p.operands[1 - n], p.formats
    fraction = x.fraction + y.fraction - places
    shift = fraction - p.out.fraction
    total = p.wire("product", max(a.width, shift + 1) + 2)
    sign = {1: "", -1: "-", 0: ""}[odd]
    text = f"{sign}{a.name}" if odd else literal(0, 2)
    if odd and half(shift):
        text += f" + {literal(half(shift), shift + 1)}"
    return Wiring([(total, text)], fitted(total, fraction, p.out))


CIRCUITS: dict[str, Callable[[NodeOperands], Wiring]] = {
    "neg": _negated,
    "abs": _absolute,
    "add": _sum("+"),
    "sub": _sum("-"),
    "mul": _product,
    "less": _compared("<"),
    "less_equal": _compared("<="),
    "select": _selected,
    "exponent": _exponent,
    "power_of_two": _power,
}
