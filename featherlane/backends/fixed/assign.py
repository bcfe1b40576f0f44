"""Formats for the signals of a graph: uniform, by sampled ranges, or proved by intervals.

Some formats are the same in all three: exponents have 8 bits; a mantissa has two bits before the
point (its sign and 1), and its reciprocal one. Unless all signals have one format, sines and
cosines have one bit before the point, and constants use all of their bits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.ranges import Bounds, Interval, intervals, mantissa_of, place
from featherlane.errors import CompileError
from featherlane.program.graph import Graph
from featherlane.program.op import CONDITIONS, OPS
from featherlane.program.passes.clamps import clamped
from featherlane.program.rewrite import simplify

EXPONENT = Format(8, 0)
FINEST = 48  # the largest fraction
APART = 28  # binary places by which a result may be finer than an operand of its sum
NEARLY = 0.5  # share of stated bounds by which rounding may exceed them without a clamp
SAMPLES = 3000  # the fewest states for sampled ranges: fewer miss the tails


def uniform(graph: Graph, text: str) -> Datapath:
    """Returns a datapath whose signals all have the same format, such as "q16.16": the bits before
    and after the point. Raises CompileError for a constant that it does not hold.
    """
    match = re.fullmatch(r"q(-?\d+)\.(-?\d+)", text)
    if match is None or not 2 <= int(match[1]) + int(match[2]) <= 32:
        raise ValueError(f"format is {text!r}: wanted one such as 'q16.16', of 2 to 32 bits in all")
    form = Format(int(match[1]) + int(match[2]), int(match[2]))
    formats = [_special(graph, k, form.width) or form for k in range(len(graph))]
    constants = [graph.value[k] for k in graph.nodes_of("constant")]
    beyond = [x for x in constants if not form.least <= round(x / form.step) <= form.most]
    if beyond:
        most = max(beyond, key=abs)
        bits = _bits_before(abs(most))
        other = f", as q{bits}.{form.width - bits} has" if bits <= form.width else ""
        raise CompileError(
            f"the constant {most:.6g} is beyond {form}: wanted {bits} bits before the point{other}"
        )
    trigonometric = {"sin", "cos"} & set(graph.op)
    if trigonometric and form.fraction >= form.width:
        raise CompileError(f"{form} does not hold sines and cosines: wanted a bit before the point")
    return _datapath(graph, formats)


def _bits_before(largest: float) -> int:
    return math.frexp(largest)[1] + 1


def _datapath(graph: Graph, formats: list[Format]) -> Datapath:
    return Datapath(
        graph,
        tuple(None if op in CONDITIONS else f for op, f in zip(graph.op, formats, strict=True)),
    )


def _special(graph: Graph, k: int, width: int) -> Format | None:
    """Returns the format of a node whose operation determines its range, else None."""
    op, args = graph.op[k], graph.args[k]
    if op in ("exponent", "power_of_two") or (op == "neg" and graph.op[args[0]] == "exponent"):
        return EXPONENT
    if op == "div":
        return Format(width, width - 1)
    if mantissa_of(graph, k) is not None:
        return Format(width, width - 2)
    return None


def holding(interval: Interval, width: int) -> Format:
    """Returns the format of this width with the smallest step that holds an interval, rounded
    outwards to the step. Raises CompileError for an interval without bounds.
    """
    if not math.isfinite(interval.largest):
        raise CompileError(
            f"a signal is up to {interval.largest}: wanted narrower ranges of inputs, or limits of "
            "joints"
        )
    form = Format(width, min(width - math.frexp(interval.largest)[1], FINEST))
    while not _holds(form, interval):
        form = Format(width, form.fraction - 1)
    return form


def _holds(form: Format, x: Interval) -> bool:
    low, high = math.floor(x.low / form.step), math.ceil(x.high / form.step)
    return form.least <= low and high <= form.most


def constant_format(value: float, width: int) -> Format:
    """Returns the format in which a constant uses all bits."""
    fraction = min(width - math.frexp(value)[1], FINEST)
    while not abs(round(value * 2.0**fraction)) < 1 << width - 1:
        fraction -= 1
    return Format(width, fraction)


def _exact_fraction(graph: Graph, k: int, formats: list[Format]) -> int:
    """Returns the fraction at which a node's result is exact."""
    f = [formats[a].fraction for a in graph.args[k] if graph.op[a] not in CONDITIONS]
    return sum(f) if graph.op[k] == "mul" else max(f, default=FINEST)


def _finest(graph: Graph, k: int, formats: list[Format]) -> int:
    """Returns the largest fraction that a node's format should have."""
    if any(graph.op[a] == "power_of_two" for a in graph.args[k]):
        return FINEST
    exact = _exact_fraction(graph, k, formats)
    if graph.op[k] in ("add", "sub", "select"):
        operands = [a for a in graph.args[k] if graph.op[a] not in CONDITIONS]
        return min(exact, min(formats[a].fraction for a in operands) + APART)
    return exact


def _clamped(form: Format, finest: int) -> Format:
    return form if form.fraction <= finest else Format(form.width, finest)


# Formats by sampling


def fitted(
    graph: Graph,
    samples: Mapping[str, Any],
    data: int = 27,
    small: int = 18,
    guard: int = 2,
    inputs: Bounds | None = None,
) -> Datapath:
    """Returns a datapath in which each signal has the format of its range over sampled states.

    samples: inputs in float64, of shape (states, *shape), 3,000 states or more. data: bits of
    signals; small: bits of constants, sines and cosines; guard: further bits before the point
    beyond those that samples need. inputs: bounds of entries of inputs, which need no guard bits,
    since inputs saturate.

    The range of a signal is the larger of its ranges in float64 and in fixed point, after the
    rounding of all signals before it: a signal that cancels, such as sin^2 + cos^2 - 1, consists of
    rounding errors.
    """
    states = {len(np.asarray(samples[name])) for name in graph.inputs}
    if len(states) != 1 or min(states) < SAMPLES:
        raise ValueError(f"samples has {sorted(states)} states: wanted {SAMPLES} or more of each")
    sampled = _Sampled(graph, samples, data, small, guard, inputs or {})
    for k in range(len(graph)):
        sampled.enter(k)
    return _datapath(graph, sampled.formats)


class _Sampled:
    """The nodes entered so far, over sampled states: their formats, their values in float64, and
    their values with every signal rounded to its format.
    """

    def __init__(
        self,
        graph: Graph,
        samples: Mapping[str, Any],
        data: int,
        small: int,
        guard: int,
        inputs: Bounds,
    ) -> None:
        self.graph, self.data, self.small, self.guard = graph, data, small, guard
        self.inputs = inputs
        self.samples = {
            name: np.asarray(samples[name], np.float64).reshape(-1, math.prod(shape))
            for name, shape in graph.inputs.items()
        }
        self.formats: list[Format] = []
        self.exact: list[Any] = []
        self.rounded: list[Any] = []
        self.counts = counts(graph)
        self.last_use = {a: k for k, args in enumerate(graph.args) for a in args}

    def enter(self, k: int) -> None:
        op, value, args = self.graph.op[k], self.graph.value[k], self.graph.args[k]
        if op == "input":
            exact = rounded = self.samples[value[0]][:, value[1]]
        elif op == "constant":
            exact = rounded = value
        else:
            evaluate = OPS[op].evaluate
            assert evaluate is not None
            with np.errstate(all="ignore"):
                exact = evaluate(*[self.exact[a] for a in args])
                rounded = evaluate(*[self.rounded[a] for a in args])
        form = self._format(k, exact, rounded)
        self.formats.append(form)
        self.exact.append(exact)
        self.rounded.append(rounded if op in CONDITIONS else _rounded(rounded, form, op))
        for a in args:
            if self.last_use[a] == k:
                self.exact[a] = self.rounded[a] = None

    def _format(self, k: int, exact: Any, rounded: Any) -> Format:
        graph, op = self.graph, self.graph.op[k]
        if special := _special(graph, k, self.data):
            return special
        if op == "constant":
            return constant_format(graph.value[k], self.small)
        if op in ("sin", "cos"):
            return Format(self.small, self.small - 1)
        if op in CONDITIONS:
            return EXPONENT
        if op == "input" and graph.value[k] in self.inputs:
            return holding(self.inputs[graph.value[k]], self.data)
        if k in self.counts:
            return Format(self.counts[k].bit_length() + 1, 0)
        largest = max(float(np.max(np.abs(x))) for x in (exact, rounded))
        if not math.isfinite(largest):
            raise CompileError(
                f"{place(graph, k)} is {largest} in some of the samples: what divides it is 0 in "
                f"{self.data} bits, or ranges are too large; wanted narrower ones, or more bits"
            )
        larger = largest * 2.0**self.guard
        form = holding(Interval(-larger, larger), self.data)
        return _clamped(form, _finest(graph, k, self.formats))


def _rounded(x: Any, form: Format, op: str) -> Any:
    if op in ("exponent", "power_of_two"):
        return x
    return np.floor(x / form.step + (0.5 if op in ("mul", "input", "constant") else 0)) * form.step


def counts(graph: Graph) -> dict[int, int]:
    """Returns the largest value of each counting node, a `select` between 0 and 1 or a sum of such
    nodes: samples seldom reach it.
    """
    most: dict[int, int] = {}
    for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
        if op == "add" and all(a in most for a in args):
            most[k] = sum(most[a] for a in args)
        elif op == "select" and {graph.number(a) for a in args[1:]} <= {0.0, 1.0}:
            most[k] = 1
    return most


# Formats proved by intervals


def proved(graph: Graph, inputs: Bounds, width: int = 32, small: int | None = None) -> Datapath:
    """Returns a datapath in which no signal can overflow while inputs are within their bounds: each
    format holds the interval of its signal, with all rounding before it. A signal that rounding may
    take beyond the bounds that the algorithm states is clamped to them.

    width: bits of all signals; small: of constants, sines and cosines, by default `width`. Raises
    CompileError, with its name, for a divisor without bounds.
    """
    beyond: list[int] = []
    _proved_formats(graph, inputs, width, small or width, beyond)
    graph = simplify(clamped(graph, beyond))
    return _datapath(graph, _proved_formats(graph, inputs, width, small or width))


def _proved_formats(
    graph: Graph, inputs: Bounds, width: int, small: int, beyond: list[int] | None = None
) -> list[Format]:
    """Returns the format of each node. beyond: a list to which the nodes are appended that exceed
    their stated bounds; their users then read them as if they were clamped.
    """
    formats: list[Format] = []

    def seen(k: int, interval: Interval) -> Interval:
        while len(formats) < k:  # conditions and powers of two
            formats.append(EXPONENT)
        formats.append(_proved(graph, k, interval, width, small, formats))
        computed = _as_computed(graph, k, interval, formats)
        least, most = graph.facts.get(k, (-np.inf, np.inf))
        if beyond is None or not graph.args[k] or not _beyond(computed, least, most):
            return computed
        beyond.append(k)
        low, high = (np.clip(x, least, most) for x in computed[:2])
        return Interval(low, high, np.minimum(computed.error, most - least))

    intervals(graph, inputs, seen, lambda k: _unit_error(graph, k, formats))
    return formats + [EXPONENT] * (len(graph) - len(formats))


def _beyond(x: Interval, least: float, most: float) -> bool:
    """Tells whether a signal exceeds stated bounds by so much that its format, or a quotient with
    it, would change.
    """
    low, high, _ = x.hull
    tolerance = NEARLY * min(
        [most - least, *[abs(end) for end in (least, most) if least * most > 0]]
    )
    return low < least - tolerance or high > most + tolerance


def _proved(
    graph: Graph, k: int, interval: Interval, width: int, small: int, formats: list[Format]
) -> Format:
    """Returns the format of a node, from its interval and the formats of the nodes before it."""
    op = graph.op[k]
    if op == "constant":
        return constant_format(interval.low, small)
    if op in ("sin", "cos"):
        return Format(small, small - 1)
    if special := _special(graph, k, width):
        return special
    form = holding(interval.hull, width)
    return form if op == "input" else _clamped(form, _finest(graph, k, formats))


def error_bounds(datapath: Datapath, inputs: Bounds) -> dict[str, float]:
    """Returns for each output a bound of the error of its entries, for inputs within their bounds;
    infinite if a signal may overflow.
    """
    graph, overflows = datapath.graph, False
    formats = [EXPONENT if form is None else form for form in datapath.formats]

    def seen(k: int, interval: Interval) -> Interval:
        nonlocal overflows
        fits = graph.op[k] in SATURATE or mantissa_of(graph, k) is not None
        overflows |= not fits and not _holds(formats[k], interval.hull)
        return _as_computed(graph, k, interval, formats, nearest)

    nearest = frozenset(k for k in range(len(graph)) if datapath.fused and datapath.half(k))
    bounds = intervals(graph, inputs, seen, lambda k: _unit_error(graph, k, formats, nearest))
    errors = {
        name: max((x.error for k in out.nodes if (x := bounds[k]) is not None), default=0.0)
        for name, out in graph.outputs.items()
    }
    return dict.fromkeys(errors, math.inf) if overflows else errors


SATURATE = {"sin", "cos", "div", "input"}  # results are clamped to the format: no overflow
UNITS = {"sin", "cos", "div"}
UNIT_ERROR = 3  # last places of sines, cosines and reciprocals, see `units`


def _unit_error(graph: Graph, k: int, formats: list[Format], nearest: Container[int] = ()) -> float:
    """Returns the error of a node's result against the exact result for its operands. nearest: sums
    that are rounded to nearest.
    """
    op, step = graph.op[k], formats[k].step
    if op in UNITS:
        return UNIT_ERROR * step
    if op == "input":
        return step / 2
    powers = any(graph.op[a] == "power_of_two" for a in graph.args[k])
    if not powers and formats[k].fraction >= _exact_fraction(graph, k, formats):
        return 0.0
    return step / 2 if (op == "mul" and not powers) or k in nearest else step


def _as_computed(
    graph: Graph, k: int, x: Interval, formats: list[Format], nearest: Container[int] = ()
) -> Interval:
    """Returns the bounds of a signal after its rounding."""
    op, form = graph.op[k], formats[k]
    if op == "constant":
        value = round(x.low / form.step) * form.step
        return Interval(value, value, abs(value - x.low))
    more = UNIT_ERROR if op in UNITS else 0
    low, high = np.floor(x.low / form.step) - more, np.ceil(x.high / form.step) + more
    return Interval(
        np.maximum(low, form.least) * form.step,
        np.minimum(high, form.most) * form.step,
        x.error + _unit_error(graph, k, formats, nearest),
    )
