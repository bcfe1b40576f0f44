"""Units for sine, cosine and reciprocals: what `backends.fixed.units` defines, as pipelines.

The names of values are those of that module's docstring.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from featherlane.backends.fixed import units
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.text import literal, signed_width, zeros
from featherlane.backends.fpga.units.multipliers import Multiplier, Tile, product
from featherlane.backends.fpga.units.staged import Staged, StagedUnit

INDEX, SEED = units.INDEX, units.SEED


class FunctionUnit(NamedTuple):
    """A unit for "sin" and "cos", or for "div". cycles: registers between operand and result."""

    op: str
    given: Format
    out: Format
    cycles: int

    @property
    def name(self) -> str:
        """The name of the module, behind that of the design."""
        kind = "reciprocal" if self.op == "div" else "sine_cosine"
        places = "_".join(f"{w}_{f}".replace("-", "m") for w, f in (self.given, self.out))
        return f"{kind}_{places}_{self.cycles}"


def module(prefix: str, unit: FunctionUnit, tile: Tile) -> Module:
    """The module of a unit."""
    return written(unit, tile, prefix).module()


def multipliers_of(unit: FunctionUnit, tile: Tile) -> list[Multiplier]:
    """The multipliers inside a unit."""
    return written(unit, tile).multipliers


def written(unit: FunctionUnit, tile: Tile, prefix: str = "") -> _Writer:
    """A unit while it is being written, with its multipliers and chains of registers."""
    rule, what = {
        "div": (_reciprocal, "1 / a for 1 <= |a| < 2"),
        "sin": (_sine_cosine, "sine and cosine of a"),
    }[unit.op]
    writer = _Writer(prefix + unit.name, f"{what}: {unit.given} to {unit.out}", tile)
    rule(writer, unit)
    return writer


def cuts(cycles: int, order: Iterable[int], places: int) -> list[int]:
    """Registers at each of the places where a unit can be cut. order: the places by importance;
    what is left over stands at the first one again.
    """
    counts = [0] * places
    order = list(order)
    for n in range(cycles):
        counts[order[n % len(order)]] += 1
    return counts


class _Writer(StagedUnit):
    """A unit whose stages are numbered places, with what its arithmetic needs."""

    def __init__(self, name: str, comment: str, tile: Tile) -> None:
        super().__init__(name, comment)
        self.tile = tile
        self.multipliers: list[Multiplier] = []
        self.tables: list[tuple[tuple[int, ...], int]] = []  # entries and bits, for each read
        self.rounded = 0  # bits of sums that round

    def registers(self, counts: list[int]) -> None:
        self._cuts = iter(counts)

    def place(self) -> None:
        """A place where registers may stand."""
        self.cut(next(self._cuts))

    def near(self, name: str, value: Staged, shift: int) -> Staged:
        """value / 2^shift to the nearest integer, halves upwards, in all bits that this has."""
        if shift == 0:
            return value
        width, read = value.signal.width, self.read(value)
        self.ignore(value, shift - 1)
        if shift > width:
            return self.wire(name, 1, "1'b0")
        self.rounded += max(width - shift, 0)
        text = f"{read} + {literal(1 << shift - 1, shift + 1)}"
        rounded = self.wire(f"{name}_rounded", max(width, shift + 1) + 1, text)
        return self.wire(name, rounded.signal.width - shift, self.top(rounded, shift))

    def top(self, value: Staged, shift: int) -> str:
        """The bits of a value from a place upwards, signed."""
        return f"$signed({self.read(value)}[{value.signal.width - 1}:{shift}])"

    def product(self, name: str, a: Staged, b: Staged | int) -> Staged:
        """The product of two values, or of one and a constant."""
        m = self.multiplier(a, b)
        return product(self, name, m, a, b, self.tile)

    def long_product(self, name: str, a: Staged, b: int, bits: int) -> Staged:
        """The last bits of the product with a wide constant, with a place in front of its sum."""
        m = self.multiplier(a, b, bits)
        return product(self, name, m, a, b, self.tile, self.place)

    def multiplier(self, a: Staged, b: Staged | int, bits: int | None = None) -> Multiplier:
        """The multiplier of a product, of which so many bits are wanted, or all."""
        constant = b if isinstance(b, int) else None
        width = signed_width(b) if isinstance(b, int) else b.signal.width
        whole = a.signal.width + width
        m = Multiplier(a.signal.width, width, min(bits or whole, whole), 0, constant)
        self.multipliers.append(m)
        return m

    def resized(self, name: str, value: Staged, width: int) -> Staged:
        """The last bits of a value, or the value with more bits of its sign."""
        read, bits = self.read(value), value.signal.width
        if width == bits:
            return value
        return self.wire(name, width, f"{read}[{width - 1}:0]" if width < bits else read)

    def positive(self, name: str, value: Staged, first: int, count: int) -> Staged:
        """Bits of a value as a number that is not negative."""
        bits = f"{self.read(value)}[{first + count - 1}:{first}]"
        return self.wire(name, count + 1, f"{{1'b0, {bits}}}")

    def table(self, name: str, entries: tuple[int, ...], width: int) -> None:
        """A table that is read like a memory."""
        self.circuit.declare(name, bits=width, size=len(entries))
        digits = -(-width // 4)
        rows = [f"{name}[{n}] = {width}'h{x:0{digits}x};" for n, x in enumerate(entries)]
        lines = [" ".join(rows[n : n + 4]) for n in range(0, len(rows), 4)]
        self.circuit.process("initial", *lines)
        self._table = entries, width

    def looked_up_in(self, name: str, width: int, text: str) -> Staged:
        """An entry of the table, not negative, in one bit more than it has."""
        self.tables.append(self._table)
        value = self.wire(name, width, f"{{1'b0, {text}}}")
        self.ignore(value, 1)  # the sign, which is always 0
        return value

    def limited(self, name: str, value: Staged, out: Format) -> Staged:
        """A value whose only number beyond a format is one above it."""
        width = value.signal.width
        if signed_width(1 << out.fraction) <= out.width:
            return self.resized(name, value, out.width)
        read = self.read(value)
        assert width > out.width, "a bit tells the number beyond from all others"
        beyond = f"!{read}[{width - 1}] && {read}[{out.width - 1}]"
        text = f"{beyond} ? {literal(out.most, width)} : {read}"
        whole = self.wire(f"{name}_limited", width, text, luts=1)
        return self.resized(name, whole, out.width)


def _sine_cosine(u: _Writer, unit: FunctionUnit) -> None:
    """Writes sine and cosine: the angle in turns is a product, its quadrant and leading bits choose
    table entries, and polynomials of its last bits correct these.
    """
    n = units.SineCosine.of(unit.given, unit.out)
    # The result, the table, the products, the angle in turns, the square, the products behind it,
    # the sums, the angle, the rounded sums, the products that the angle in turns is the sum of
    order = (9, 3, 6, 2, 4, 5, 7, 0, 8, 1)
    u.registers(cuts(unit.cycles, order, 10))
    a = u.input("a", unit.given.width)
    u.place()
    turned = u.long_product("turned", a, n.turn, n.shift + n.phase + 2)
    u.place()
    whole = u.near("whole_turns", turned, n.shift)
    U = u.resized("u", whole, n.phase + 2)
    quadrant = u.wire("k", 2, f"{u.read(U)}[{n.phase + 1}:{n.phase}]")
    rest = n.phase - INDEX
    s, c = _sine_table(u, U, n)
    top, low = f"{u.read(U)}[{rest - 1}]", f"{u.read(U)}[{rest - 2}:0]"
    d = u.wire("d", rest, f"$signed({{~{top}, {low}}})")  # e - 2^(rest - 1): its first bit inverted
    u.place()
    scaled = u.product("scaled", d, n.arc)
    u.place()
    x = u.resized("x", u.near("near_x", scaled, n.arc_shift), n.g - 8)
    squares = _half_square(u, x, n) if n.second else None
    u.place()
    sine, cosine = _linear(u, n, s, c, x)
    products = _second(u, n, s, c, squares) if squares else None
    u.place()
    g = n.g
    p, r = (u.near(f"near_{v}", y, g - 8) for v, y in (("p", sine), ("r", cosine)))
    plus, minus = (f"{u.read(s)} + {u.read(p)}", f"{u.read(c)} - {u.read(r)}")
    if products:
        ps, pc = (
            u.near(f"near_{v}", y, g - 18) for v, y in zip(("ps", "pc"), products, strict=True)
        )
        plus, minus = f"{plus} - {u.read(ps)}", f"{minus} - {u.read(pc)}"
    sums = 2 if products else 1
    full = (
        u.wire("full_sine", g + 2, plus, luts=sums),
        u.wire("full_cosine", g + 2, minus, luts=sums),
    )
    u.place()
    _turned_back(u, unit.out, full, quadrant, g - unit.out.fraction)


def _sine_table(u: _Writer, angle: Staged, n: units.SineCosine) -> tuple[Staged, Staged]:
    """The table's sine and cosine."""
    u.table("sines", units.sine_table(n.g), n.g)
    index = f"{u.read(angle)}[{n.phase - 1}:{n.phase - INDEX}]"
    s = u.looked_up_in("s", n.g + 1, f"sines[{index}]")
    c = u.looked_up_in("c", n.g + 1, f"sines[~{index}]")
    return s, c


def _linear(
    u: _Writer, n: units.SineCosine, s: Staged, c: Staged, x: Staged
) -> tuple[Staged, Staged]:  # fmt: skip
    top_c, top_s = (u.positive(f"{v}_linear", y, 8, n.g - 8) for v, y in (("c", c), ("s", s)))
    return u.product("p", top_c, x), u.product("r", top_s, x)


def _half_square(u: _Writer, x: Staged, n: units.SineCosine) -> Staged:
    """Half of the square of x."""
    part = u.wire("x_top", n.g - 16, u.top(x, 8))
    square = u.product("square", part, part)
    return u.resized("half_square", u.near("near_square", square, n.g - 15), n.g - 18)


def _second(
    u: _Writer, n: units.SineCosine, s: Staged, c: Staged, square: Staged
) -> tuple[Staged, Staged]:  # fmt: skip
    tops = [u.positive(f"{v}_second", y, 18, n.g - 18) for v, y in (("s", s), ("c", c))]
    return u.product("ps", tops[0], square), u.product("pc", tops[1], square)


def _turned_back(
    u: _Writer,
    out: Format,
    full: tuple[Staged, Staged],
    quadrant: Staged,
    shift: int,
) -> None:
    """The results, by the quadrant."""
    sine, cosine = (
        u.near(f"rounded_{v}", y, shift) for v, y in zip(("sine", "cosine"), full, strict=True)
    )
    u.place()
    k, s, c = u.read(quadrant), u.read(sine), u.read(cosine)
    width = sine.signal.width + 1
    first = u.wire("first", width, f"{k}[0] ? {c} : {s}", luts=1)
    second = u.wire("second", width, f"{k}[0] ? {s} : {c}", luts=1)
    f, g = u.read(first), u.read(second)
    signed_first = u.wire("signed_sine", width, f"{k}[1] ? -{f} : {f}", luts=2)
    turned = f"{k}[1] != {k}[0] ? -{g} : {g}"
    signed_second = u.wire("signed_cosine", width, turned, luts=2)
    results = [
        u.limited(f"last_{v}", y, out)
        for v, y in (("sine", signed_first), ("cosine", signed_second))
    ]
    u.place()
    u.output("sine", out.width, results[0])
    u.output("cosine", out.width, results[1])


def _reciprocal(u: _Writer, unit: FunctionUnit) -> None:
    """Writes 1 / a: a table gives a first approximation of 1 / mantissa, which is corrected by
    powers of its error.
    """
    h, f = units.Reciprocal.of(unit.given, unit.out).h, unit.given.fraction
    # The result, the table, the error, the last product, the square, the sums
    u.registers(cuts(unit.cycles, (8, 1, 3, 7, 5, 2, 6, 4, 0), 9))
    a = u.input("a", unit.given.width)
    u.place()
    negative = u.wire("negative", 1, f"{u.read(a)}[{unit.given.width - 1}]", number=False)
    j = _mantissa(u, a, unit.given)
    seed = _seed_table(u, j, f)
    u.place()
    m = u.wire("m", f + 2, f"{{2'b01, {u.read(j)}[{f - 1}:0]}}" if f else "2'sb01")
    my = u.product("m_seed", m, seed)
    u.place()
    one = literal(1 << f + SEED, f + SEED + 2)
    whole = u.wire("error", f + SEED + 3, f"{one} - {u.read(my)}", luts=1)
    u.place()
    e = u.resized("e", u.near("near_e", u.resized("e_all", whole, f + 9), f + SEED - h), h - 8)
    x = u.resized("x", u.near("near_x", e, 8), h - 16)
    u.place()
    square = u.product("square", x, x)
    u.place()
    text = f"{u.read(e)} + {u.read(u.near('near_square', square, h - 16))}"
    z = u.wire("z", h - 8, text, luts=1)
    u.place()
    yz = u.product("seed_z", seed, z)
    u.place()
    text = f"$signed({{{u.read(seed)}, {zeros(h)}}}) + {u.read(yz)}"
    total = u.wire("y_all", h + SEED + 2, text, luts=1)
    y = u.near("y", total, h + SEED - unit.out.fraction)
    sign, value = u.read(negative), u.read(y)
    signed = u.wire("signed_y", y.signal.width + 1, f"{sign} ? -{value} : {value}", luts=2)
    last = u.limited("last", signed, unit.out)
    u.place()
    u.output("result", unit.out.width, last)


def _mantissa(u: _Writer, a: Staged, form: Format) -> Staged:
    """|A| without its leading one, in one bit more than that has."""
    w, f, read = form.width, form.fraction, u.read(a)
    size = u.wire("size", w + 1, f"{read}[{w - 1}] ? -{read} : {read}", luts=2)
    if f == 0:
        return u.wire("j", 1, "1'b0")
    name = u.read(size)
    beyond = f"|{name}[{w}:{f + 1}]"
    text = f"{{1'b0, {beyond} ? {{{f}{{1'b1}}}} : {name}[{f - 1}:0]}}"
    return u.wire("j", f + 1, text, luts=1)


def _seed_table(u: _Writer, j: Staged, f: int) -> Staged:
    """The table's reciprocal of 1 + j."""
    u.table("seeds", units.reciprocal_table(), SEED)
    if f == 0:
        index = zeros(INDEX)
    elif f >= INDEX:
        index = f"{u.read(j)}[{f - 1}:{f - INDEX}]"
    else:
        index = f"{{{u.read(j)}[{f - 1}:0], {zeros(INDEX - f)}}}"
    return u.looked_up_in("seed", SEED + 1, f"seeds[{index}]")
