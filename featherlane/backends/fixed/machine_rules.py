"""The instructions of each operation in fixed point: rules of `evaluate`, on vectors of int64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from featherlane.backends.fixed import units
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import WIDEST
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.vector_code import VectorCode

Rule = Callable[[VectorCode, Datapath, int, Sequence[str]], str]
"""Adds the instructions of a node, from the names of its operands, and returns the name of the
result, which is exact and may have more bits than the node's format.
"""


def _negative(t: VectorCode, datapath: Datapath, k: int, names: Sequence[str]) -> str:
    opposite = lambda t, a: t.sub(t.splat(datapath.half(k)), a)
    return _of_one(opposite)(t, datapath, k, names)


def _of_one(change: Callable[[VectorCode, str], str]) -> Rule:
    def rule(t: VectorCode, datapath: Datapath, k: int, names: Sequence[str]) -> str:
        (a,) = datapath.graph.args[k]
        return t.shifted(
            change(t, names[0]), datapath.format(k).fraction - datapath.format(a).fraction
        )

    return rule


def _sum(op: str) -> Rule:
    def rule(t: VectorCode, datapath: Datapath, k: int, names: Sequence[str]) -> str:
        fa, fb = (datapath.format(a).fraction for a in datapath.graph.args[k])
        g = max(fa, fb)
        left = datapath.format(k).fraction - g
        half = datapath.half(k)
        cut = min(-left - bool(half), g - min(fa, fb)) if left < 0 else 0
        x, y = names
        if op == "sub":
            y = t.minus(y)  # before it is cut, as cuts round down
        total = t.add(t.shifted(x, g - fa - cut), t.shifted(y, g - fb - cut))
        if half >> cut:
            total = t.add(total, half >> cut)
        return t.shifted(total, left + cut)

    return rule


def _product(t: VectorCode, datapath: Datapath, k: int, names: Sequence[str]) -> str:
    args, f = datapath.graph.args[k], datapath.format(k).fraction
    for n, operand in enumerate(args):
        if datapath.graph.op[operand] == "power_of_two":
            fraction = datapath.format(args[1 - n]).fraction
            return _scaled(t, names[n], names[1 - n], f - fraction)
    fa, fb = (datapath.format(a).fraction for a in args)
    product, right = t.mul(*names), fa + fb - f
    if right <= 0:
        return t.shifted(product, -right)
    return t.shifted(t.add(t.shifted(product, 1 - right), 1), -1)


def _scaled(t: VectorCode, power: str, x: str, more: int) -> str:
    left = t.add(power, more)
    none, most = f"{t.vector} zeroinitializer", f"{t.vector} {t.splat(63)}"
    right = t.call("smax", f"{t.vector} {t.minus(left)}", none)
    right = t.call("smin", f"{t.vector} {right}", most)
    up = t.call("smax", f"{t.vector} {left}", none)
    up = t.least(up, WIDEST - 1)
    wide = t.op("ashr", t.op("shl", x, up), right)
    lost = t.compared("sge", left, WIDEST)
    some = t.compared("ne", x, 0)
    both = t.put(f"and {t.mask} {lost}, {some}")
    return t.where(both, t.splat(1 << 62), wide)


def _exponent(t: VectorCode, datapath: Datapath, k: int, names: Sequence[str]) -> str:
    f = datapath.format(datapath.graph.args[k][0]).fraction
    zeros = t.call("ctlz", f"{t.vector} {t.magnitude(names[0])}", "i1 false")
    return t.op("sub", t.splat(63 - f), zeros)


def _select(t: VectorCode, datapath: Datapath, k: int, names: Sequence[str]) -> str:
    _, *args = datapath.graph.args[k]
    f = datapath.format(k).fraction
    x, y = (
        t.shifted(name, f - datapath.format(a).fraction)
        for name, a in zip(names[1:], args, strict=True)
    )
    return t.where(names[0], x, y)


def _compared(how: str, strictly: bool) -> Rule:
    def rule(t: VectorCode, datapath: Datapath, k: int, names: Sequence[str]) -> str:
        a, b = (datapath.format(x).fraction for x in datapath.graph.args[k])
        up = lambda x, n: t.minus(t.shifted(t.minus(x), -n)) if n else x
        down = lambda x, n: t.shifted(x, -n)
        first, second = (down, up) if strictly else (up, down)
        x = first(names[0], min(max(a - b, 0), 63))
        return t.compared(how, x, second(names[1], min(max(b - a, 0), 63)))

    return rule


def _reciprocal(t: VectorCode, datapath: Datapath, k: int, names: Sequence[str]) -> str:
    """`units.reciprocal`, line by line."""
    operand, out = datapath.format(datapath.graph.args[k][1]), datapath.format(k)
    h, f, a = units.Reciprocal.of(operand, out).h, operand.fraction, names[1]
    m, ones = t.magnitude(a), (1 << f) - 1
    beyond = t.compared("ne", t.shifted(m, -(f + 1)), 0)
    j = t.where(beyond, t.splat(ones), t.bits(m, ones))
    i = t.shifted(j, units.INDEX - f)
    seed = t.entry("reciprocals", i)
    error = t.op("sub", t.splat(1 << f + units.SEED), t.mul(t.add(j, 1 << f), seed))
    e = t.near(error, f + units.SEED - h)
    square = t.near(e, 8)
    z = t.add(e, t.near(t.mul(square, square), h - 16))
    y = t.near(t.add(t.shifted(seed, h), t.mul(seed, z)), h + units.SEED - out.fraction)
    return t.least(t.where(t.compared("slt", a, 0), t.minus(y), y), out.most)


def sine_cosine(t: VectorCode, a: str, angle: Format, out: Format) -> tuple[str, str]:
    """The sine and the cosine of an angle: `units.sine_cosine`, line by line."""
    n = units.SineCosine.of(angle, out)
    if n.shift < 16:
        u = t.near(t.mul(a, n.turn), n.shift)
    else:
        low = t.add(t.mul(a, n.turn & 0xFFFF), 1 << n.shift - 1)
        u = t.shifted(t.add(t.mul(a, n.turn >> 16), t.shifted(low, -16)), 16 - n.shift)
    rest = n.phase - units.INDEX
    k = t.bits(t.shifted(u, -n.phase), 3)
    i = t.bits(t.shifted(u, -rest), (1 << units.INDEX) - 1)
    d = t.sub(t.bits(u, (1 << rest) - 1), 1 << rest - 1)
    table = f"sines{n.g}"
    s = t.entry(table, i)
    c = t.entry(table, t.op("sub", t.splat((1 << units.INDEX) - 1), i))
    x = t.near(t.mul(d, n.arc), n.arc_shift)
    sine = t.add(s, t.near(t.mul(t.shifted(c, -8), x), n.g - 8))
    cosine = t.sub(c, t.near(t.mul(t.shifted(s, -8), x), n.g - 8))
    if n.second:
        short = t.shifted(x, -8)
        half = t.near(t.mul(short, short), n.g - 15)
        sine = t.sub(sine, t.near(t.mul(t.shifted(s, -18), half), n.g - 18))
        cosine = t.sub(cosine, t.near(t.mul(t.shifted(c, -18), half), n.g - 18))
    sine, cosine = (t.near(y, n.g - out.fraction) for y in (sine, cosine))
    swapped = t.compared("ne", t.bits(k, 1), 0)
    first, second = t.where(swapped, cosine, sine), t.where(swapped, sine, cosine)
    first = t.where(t.compared("sge", k, 2), t.minus(first), first)
    middle = t.compared("ult", t.sub(k, 1), 2)
    second = t.where(middle, t.minus(second), second)
    return t.least(first, out.most), t.least(second, out.most)


RULES: dict[str, Rule] = {
    "neg": _negative,
    "abs": _of_one(lambda t, a: t.magnitude(a)),
    "power_of_two": _of_one(lambda t, a: a),
    "add": _sum("add"),
    "sub": _sum("sub"),
    "mul": _product,
    "div": _reciprocal,
    "exponent": _exponent,
    "select": _select,
    "less": _compared("slt", True),
    "less_equal": _compared("sle", False),
}


def tables(datapath: Datapath) -> list[str]:
    """The tables of reciprocals and sines that the rules of a datapath read."""
    graph, entries = datapath.graph, {"reciprocals": units.reciprocal_table()}
    for k in (*graph.nodes_of("sin"), *graph.nodes_of("cos")):
        g = units.SineCosine.of(datapath.format(graph.args[k][0]), datapath.format(k)).g
        entries[f"sines{g}"] = units.sine_table(g)
    return [
        f"@{name} = internal constant [{len(table)} x i64] [{', '.join(f'i64 {x}' for x in table)}]"
        for name, table in entries.items()
    ]
