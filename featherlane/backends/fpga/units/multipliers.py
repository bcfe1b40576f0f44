"""Multipliers: products cut into what one multiplier of the device takes, and summed in stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.text import Signal, literal, shifted_left, signed_width
from featherlane.backends.fpga.units import multiplier_cell
from featherlane.backends.fpga.units.multiplier_cell import CellRegisters
from featherlane.backends.fpga.units.staged import Staged, StagedUnit


class Ring(NamedTuple):
    """Memories of LUTs in which long delays go round. longest, shortest: the registers that one is
    taken for, that behind it among them.
    """

    longest: int
    shortest: int


class Tile(NamedTuple):
    """The parts of a device that the text of a design depends on.

    a, b: the operands of a signed multiplier, in bits. least: a product of fewer bits is made of
    other logic. post_adder: the bits of the adder behind it, if products are instances that add
    (`post_adder`). registered: whether products with registers are instances that have these inside
    (`multiplier_cell`). Else synthesis finds multipliers in expressions. ring: None where synthesis
    finds shift registers in chains of registers. trees: whether multiplexers are trees of choices
    between two, by a coded selector, which the device has cells for. joins: whether multiplexers
    of many inputs are instances of cells that join LUTs of six inputs (`choices`). vivado: whether
    attributes that AMD Vivado knows stand beside those of Yosys.
    """

    a: int
    b: int
    least: int = 9
    post_adder: int = 0
    registered: bool = False
    ring: Ring | None = None
    trees: bool = False
    joins: bool = False
    vivado: bool = False


DSP48E2 = Tile(27, 18)
MULT18X18D = Tile(18, 18)


class Multiplier(NamedTuple):
    """a b + half in `result` bits. constant: the value of b where it is one, an odd number of at
    least two bits. cycles: registers between operands and result. adds: "" for a product; for the
    sum of it and any number in the place of half, in the device's post-adder, "plus" or "minus" by
    the sign of the product, and "either" if a port says which.
    """

    a: int
    b: int
    result: int
    cycles: int
    constant: int | None = None
    adds: str = ""

    @property
    def half_cycle(self) -> int:
        """The cycle, from that of the operands, in which half is read."""
        return max(self.cycles - 1, 0)

    @property
    def name(self) -> str:
        """The name of the module, behind that of the design."""
        by = f"{self.b}" if self.constant is None else f"c{self.constant}".replace("-", "m")
        sign = f"_{self.adds}" if self.adds else ""
        return f"mul_{self.a}x{by}_{self.result}_{self.cycles}{sign}"


class Piece(NamedTuple):
    """The bits of an operand from `first` upwards; the last piece of an operand has its sign."""

    first: int
    bits: int
    signed: bool

    @property
    def width(self) -> int:
        """The bits that it takes as a signed number: one more if it is unsigned."""
        return self.bits + (not self.signed)


def pieces(width: int, most: int) -> list[Piece]:
    """An operand in pieces that are signed numbers of `most` bits at most."""
    low = max(-(-(width - most) // (most - 1)), 0)
    parts = [Piece(n * (most - 1), most - 1, False) for n in range(low)]
    return [*parts, Piece(low * (most - 1), width - low * (most - 1), True)]


def cut(m: Multiplier, tile: Tile) -> tuple[list[Piece], list[Piece]]:
    """The pieces of both operands, so that the products are as few as possible."""
    ways = [(pieces(m.a, p), pieces(m.b, q)) for p, q in ((tile.a, tile.b), (tile.b, tile.a))]
    return min(ways, key=lambda way: len(way[0]) * len(way[1]))


def part_of(x: int, piece: Piece) -> int:
    """A piece of a constant."""
    return x >> piece.first if piece.signed else (x >> piece.first) & ((1 << piece.bits) - 1)


def is_wires(x: int) -> bool:
    """Whether a product with x needs no multiplier: 0 and powers of two."""
    return x & (x - 1) == 0


class PieceProduct(NamedTuple):
    """The product of a piece of each operand. indices: those of the pieces; part: the second piece
    where it is a constant's; kept: the bits of the product that the result has.
    """

    indices: tuple[int, int]
    a: Piece
    b: Piece
    part: int | None
    kept: int

    @property
    def offset(self) -> int:
        """The place of its first bit in the result."""
        return self.a.first + self.b.first

    def takes_tile(self, tile: Tile) -> bool:
        """Whether it is computed by a multiplier of the device."""
        return self.kept >= tile.least and (self.part is None or not is_wires(abs(self.part)))


def piece_products(m: Multiplier, tile: Tile) -> Iterator[PieceProduct]:
    """Yields the products of pieces that are not 0 and of which the result has some bits."""
    pieces_a, pieces_b = cut(m, tile)
    for n, p in enumerate(pieces_a):
        for k, q in enumerate(pieces_b):
            part = None if m.constant is None else part_of(m.constant, q)
            width = q.width if part is None else signed_width(part)
            kept = kept_bits(m, p, q, width)
            if kept > 0 and part != 0:
                yield PieceProduct((n, k), p, q, part, kept)


def tiles(m: Multiplier, tile: Tile = DSP48E2) -> int:
    """The device's multipliers that a multiplier takes."""
    return sum(product.takes_tile(tile) for product in piece_products(m, tile))


def kept_bits(m: Multiplier, p: Piece, q: Piece, width: int) -> int:
    """The bits of the product of two pieces, the second one in so many bits, that the result has;
    0 or fewer for none.
    """
    return min(p.width + width, m.result - p.first - q.first)


def levels(m: Multiplier, tile: Tile) -> int:
    """The levels of sums behind the products of pieces, one at least: half is added there."""
    pieces_a, pieces_b = cut(m, tile)
    return max((len(pieces_a) * len(pieces_b) - 1).bit_length(), 1)


def stages(cycles: int, sums: int) -> tuple[int, int, list[int]]:
    """Registers before the products, behind them, and behind each of so many levels of sums; the
    last level adds half. First comes the result's, then the operands', the products', the sums' in
    their order; what is left over stands behind the products.
    """
    behind = [0] * sums
    before, products, left = 0, 0, cycles
    if left:
        behind[-1], left = 1, left - 1
    if left:
        before, left = 1, left - 1
    if left:
        products, left = 1, left - 1
    for n in range(sums - 1):
        if left:
            behind[n], left = 1, left - 1
    return before, products + left, behind


class _Term(NamedTuple):
    value: Staged
    offset: int  # its place in the sum

    @property
    def end(self) -> int:
        return self.offset + self.value.signal.width


def module(prefix: str, m: Multiplier, tile: Tile) -> Module:
    """The module of a multiplier."""
    comment = f"a b + half in {m.cycles} cycles; half is read in cycle {m.half_cycle}"
    unit = StagedUnit(prefix + m.name, comment)
    a = unit.input("a", m.a)
    b = unit.input("b", m.b) if m.constant is None else m.constant
    half = unit.input("half", m.result, always=True)
    before, behind, sums = stages(m.cycles, levels(m, tile))
    unit.cut(before)
    registers = cell_registers(m, tile)
    cell = partial(multiplier_cell.instance, unit, prefix, registers) if registers else None
    terms = _products(unit, "product", m, a, b, tile, cell)
    unit.cut(behind)
    for level in range(len(sums) - 1):
        terms = _pairs(unit, terms, f"sum_{level}")
        unit.cut(sums[level])
    text = " + ".join([*(_placed(unit, term, 0) for term in terms), unit.read(half)])
    total = unit.wire("total", m.result, text)
    unit.cut(sums[-1])
    unit.output("result", m.result, total)
    return unit.module()


def cell_registers(m: Multiplier, tile: Tile) -> CellRegisters | None:
    """The registers inside the instances of a multiplier; None if it consists of expressions."""
    before, behind, _ = stages(m.cycles, levels(m, tile))
    registers = CellRegisters.of(before, behind)
    return registers if tile.registered and any(registers) and tiles(m, tile) else None


def product(
    unit: StagedUnit,
    name: str,
    m: Multiplier,
    a: Staged,
    b: Staged | int,
    tile: Tile,
    between: Callable[[], None] = lambda: None,
) -> Staged:
    """The product of two values, or of one and a constant, in a unit. between: called between the
    products of pieces and their sum; it may end the stage.
    """
    terms = _products(unit, f"{name}_part", m, a, b, tile)
    between()
    while len(terms) > 1:
        terms = _pairs(unit, terms, f"{name}_sum_{len(terms)}")
    return unit.wire(name, m.result, _placed(unit, terms[0], 0))


def _products(
    unit: StagedUnit,
    name: str,
    m: Multiplier,
    a: Staged,
    b: Staged | int,
    tile: Tile,
    cell: Callable[[str, int, str, str], Staged] | None = None,
) -> list[_Term]:
    """The products of pieces. cell: gives one by an instance, which has the registers in front of
    products inside, so that it takes the operands themselves.
    """
    terms = []
    for piece in piece_products(m, tile):
        title = f"{name}_{piece.indices[0]}_{piece.indices[1]}"
        if cell and piece.takes_tile(tile):
            value = cell(title, piece.kept, *_factors(m, piece, a, b, lambda x: x.signal.name))
        else:
            left, right = _factors(m, piece, a, b, unit.read)
            value = unit.wire(title, piece.kept, f"{left} * {right}")
        terms.append(_Term(value, piece.offset))
    return terms


def _factors(
    m: Multiplier, piece: PieceProduct, a: Staged, b: Staged | int, read: Callable[[Staged], str]
) -> tuple[str, str]:
    """The pieces of both operands. read: gives the name of a value."""
    left = piece_of(Signal(read(a), m.a), piece.a)
    if isinstance(b, Staged):
        return left, piece_of(Signal(read(b), m.b), piece.b)
    assert piece.part is not None, "the second operand is a constant"
    return left, literal(piece.part, signed_width(piece.part))


def piece_of(of: Signal, p: Piece) -> str:
    if p.bits == of.width:
        return of.name
    bits = f"{of.name}[{p.first + p.bits - 1}:{p.first}]"
    return f"$signed({bits})" if p.signed else f"$signed({{1'b0, {bits}}})"


def _pairs(unit: StagedUnit, terms: list[_Term], name: str) -> list[_Term]:
    """The sums of neighbouring terms."""
    sums = []
    for n in range(0, len(terms) - 1, 2):
        x, y = sorted(terms[n : n + 2], key=lambda term: term.offset)
        width = max(x.end, y.end) - x.offset + 1
        text = f"{unit.read(x.value)} + {_placed(unit, y, x.offset)}"
        sums.append(_Term(unit.wire(f"{name}_{n // 2}", width, text), x.offset))
    return sums + terms[len(terms) - len(terms) % 2 :]


def _placed(unit: StagedUnit, term: _Term, offset: int) -> str:
    return shifted_left(unit.read(term.value), term.offset - offset)
