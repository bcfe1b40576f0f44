"""Formats narrowed to the bits that the integers of a datapath use.

A sine in Q16.16 is between -2^16 and 2^16: 18 bits hold it, and the 14 bits above them repeat its
sign. A circuit with these bits wastes registers and multipliers, and synthesis drops some of them,
so that it uses fewer resources than were counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.program.op import CONDITIONS

LEAST = 2  # bits of a format


class IntegerSpan(NamedTuple):
    """The integers from low to high."""

    low: int
    high: int

    @property
    def width(self) -> int:
        """The bits of a signed number that hold them."""
        return max((x if x >= 0 else ~x).bit_length() for x in self) + 1


def narrowed(datapath: Datapath) -> Datapath:
    """Returns a datapath that computes the same integers, in formats of the same fractions without
    bits that only repeat the sign.

    Bounds are those of integer intervals: inputs may be any number of their format. Inputs,
    constants, operands and results of units, and exponents keep their formats.
    """
    graph = datapath.graph
    fixed = {
        a
        for op, args in zip(graph.op, graph.args, strict=True)
        for a in args
        if op in ("sin", "cos", "div", "exponent", "power_of_two")
    }
    spans: list[IntegerSpan] = []
    formats: list[Format | None] = []
    for k, (op, args, form) in enumerate(zip(graph.op, graph.args, datapath.formats, strict=True)):
        if form is None or op in CONDITIONS:
            spans.append(IntegerSpan(0, 1))
            formats.append(None)
            continue
        whole = IntegerSpan(form.least, form.most)
        if op == "constant":
            spans.append(_constant(graph.value[k], form))
            formats.append(form)
            continue
        span = whole
        if op in RULES and not any(graph.op[a] == "power_of_two" for a in args):
            operands = [_operand(datapath, spans, a) for a in args]
            half = [datapath.half(k)] if op in ("add", "sub", "neg") else []
            span = _within(RULES[op](form, *operands, *half), whole)
        narrow = op in RULES and k not in fixed
        spans.append(span)
        formats.append(Format(max(span.width, LEAST), form.fraction) if narrow else form)
    return Datapath(graph, tuple(formats), datapath.fused)


Operand = tuple[IntegerSpan, int]  # with its fraction


def _operand(datapath: Datapath, spans: list[IntegerSpan], k: int) -> Operand:
    form = datapath.formats[k]
    return spans[k], form.fraction if form else 0


def _constant(value: float, form: Format) -> IntegerSpan:
    integer = round(value * 2.0**form.fraction)
    return IntegerSpan(integer, integer)


def _within(span: IntegerSpan, whole: IntegerSpan) -> IntegerSpan:
    """The span, or the span of the whole format where an overflow is possible."""
    return span if whole.low <= span.low and span.high <= whole.high else whole


def _shifted(x: int, places: int) -> int:
    return x << places if places >= 0 else x >> -places


def _fitted(span: IntegerSpan, fraction: int, to: Format) -> IntegerSpan:
    return IntegerSpan(*(_shifted(x, to.fraction - fraction) for x in span))


def _sum(sign: int) -> Callable[..., IntegerSpan]:
    def rule(to: Format, x: Operand, y: Operand, half: int) -> IntegerSpan:
        (a, fa), (b, fb) = x, y
        if sign < 0:
            b = IntegerSpan(-b.high, -b.low)
        g = max(fa, fb)
        total = IntegerSpan(
            *((p << g - fa) + (q << g - fb) + half for p, q in zip(a, b, strict=True))
        )
        return _fitted(total, g, to)

    return rule


def _product(to: Format, x: Operand, y: Operand) -> IntegerSpan:
    (a, fa), (b, fb) = x, y
    corners = [p * q for p in a for q in b]
    dropped = fa + fb - to.fraction
    half = 1 << dropped - 1 if dropped > 0 else 0
    return _fitted(IntegerSpan(min(corners) + half, max(corners) + half), fa + fb, to)


def _negated(to: Format, x: Operand, half: int) -> IntegerSpan:
    a, fraction = x
    return _fitted(IntegerSpan(half - a.high, half - a.low), fraction, to)


def _magnitude(to: Format, x: Operand) -> IntegerSpan:
    a, fraction = x
    return _fitted(IntegerSpan(max(a.low, -a.high, 0), max(-a.low, a.high)), fraction, to)


def _selected(to: Format, condition: Operand, x: Operand, y: Operand) -> IntegerSpan:
    a, b = (_fitted(span, fraction, to) for span, fraction in (x, y))
    return IntegerSpan(min(a.low, b.low), max(a.high, b.high))


def _sine(to: Format, angle: Operand) -> IntegerSpan:
    one = 1 << max(to.fraction, 0)
    return IntegerSpan(-one, min(one, to.most))


RULES: dict[str, Callable[..., IntegerSpan]] = {
    "neg": _negated,
    "abs": _magnitude,
    "add": _sum(1),
    "sub": _sum(-1),
    "mul": _product,
    "select": _selected,
    "sin": _sine,
    "cos": _sine,
}
