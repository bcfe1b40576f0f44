"""The golden model: a datapath evaluated over many states in integers, to the bit.

`datapath` defines the result of each operation. All intermediate results fit into int64: formats
have 32 bits at most, and a number whose last places have no influence is shifted before it is
added.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fixed import units
from featherlane.backends.fixed.bad_entries import BeyondFormat
from featherlane.backends.fixed.datapath import OPERATIONS, Datapath
from featherlane.backends.fixed.input_limits import (
    NO_RANGES,
    InputLimits,
    Ranges,
    beyond_limits,
    limits_of,
)
from featherlane.errors import CompileError
from featherlane.program.op import CONDITIONS
from featherlane.program.passes.clamps import clamps

CHUNK = 4096  # states at a time: the live values, a few hundred, stay in the cache
WIDEST = 32  # bits of a format
Array = Any
Computed = Callable[..., Array]  # of operands as integers, to the integer before the last w bits


class Results(NamedTuple):
    """The results of a datapath for `states` states.

    integers: the outputs by name, of shape (..., *shape). overflows: the number of states in which
    each node overflowed. clamped: the number of states in which each clamp returned its bound.
    saturated: the number of entries of each input that exceeded their limits. Counts of 0 are left
    out.
    """

    integers: dict[str, Array]
    overflows: Counter[int]
    clamped: Counter[int]
    saturated: Counter[str]
    states: int


def evaluate(datapath: Datapath, inputs: Mapping[str, Any]) -> Results:
    """Returns the outputs for inputs in float64, each of shape (..., *shape); the leading
    dimensions are equal. Raises CompileError for a datapath that cannot be built.
    """
    program = Evaluator(datapath)
    integers, saturated = quantised(datapath, inputs)
    results = program(integers)
    return results._replace(saturated=saturated)


def quantised(
    datapath: Datapath, inputs: Mapping[str, Any], limits: Mapping[str, InputLimits] | None = None
) -> tuple[dict[str, Array], Counter[str]]:
    """Returns inputs as integers, and the number of entries of each that exceeded their limits,
    by default those of their formats. Entries that no node reads, and NaN, become 0.
    """
    integers, saturated = dict[str, Array](), Counter[str]()
    for name, ends in (limits or limits_of(datapath)).items():
        nearest = _nearest(datapath, name, inputs[name])
        inside = nearest.clip(ends.least, ends.most)
        integers[name] = inside.astype(np.int64).reshape(np.shape(inputs[name]))
        saturated[name] = int(np.count_nonzero(ends.outside(nearest)))
    return integers, +saturated


def _nearest(datapath: Datapath, name: str, x: Any) -> Array:
    """Returns an input as whole numbers (..., entries) of steps."""
    step = datapath.input_codes[name].step
    x = np.asarray(x, np.float64)
    flat = x.reshape(*x.shape[: x.ndim - len(datapath.graph.inputs[name])], len(step))
    with np.errstate(invalid="ignore", over="ignore"):
        nearest = np.rint(flat / step)
    nearest[np.isnan(nearest)] = 0.0
    return nearest


def first_beyond(
    datapath: Datapath, inputs: Mapping[str, Any], ranges: Ranges = NO_RANGES
) -> BeyondFormat:
    """Returns the first entry of inputs (states, *shape) beyond its format, or its range if it has
    one, of which `quantised` has counted some.
    """
    for name, limits in limits_of(datapath, ranges).items():
        nearest = _nearest(datapath, name, inputs[name])
        if (outside := limits.outside(nearest)).any():
            state, n = (int(at) for at in np.argwhere(outside)[0])
            value = float(np.reshape(inputs[name], nearest.shape)[state, n])
            step, least, most = (float(x[n]) for x in datapath.input_codes[name])
            return beyond_limits((least * step, most * step), ranges, name, state, n, value)
    raise AssertionError("quantised has counted entries beyond their formats")


def floats(datapath: Datapath, integers: Mapping[str, Array]) -> dict[str, Array]:
    """Returns outputs as float64, which holds them exactly."""
    return {name: integers[name] * steps for name, steps in datapath.output_steps.items()}


class Evaluator:
    """A datapath as functions of integers, one for each node."""

    def __init__(self, datapath: Datapath) -> None:
        self.datapath = datapath
        graph = datapath.graph
        _check(datapath)
        self.clamps = clamps(graph)
        self.computed = [
            RULES[op](datapath, k) if op in RULES else None for k, op in enumerate(graph.op)
        ]
        last_use = {a: k for k, args in enumerate(graph.args) for a in args}
        ends = {k for out in graph.outputs.values() for k in out.nodes}
        self.dropped: list[list[int]] = [[] for _ in graph.op]
        for a, k in last_use.items():
            if a not in ends:
                self.dropped[k].append(a)

    def __call__(self, integers: Mapping[str, Array]) -> Results:
        """Returns the outputs for inputs as integers of their formats."""
        graph = self.datapath.graph
        shapes = [x.shape[: x.ndim - len(graph.inputs[name])] for name, x in integers.items()]
        lead = shapes[0] if shapes else ()
        states = math.prod(lead)
        rows = {
            name: integers[name].reshape(states, math.prod(shape))
            for name, shape in graph.inputs.items()
        }
        results = {
            name: np.empty((states, len(out.nodes)), np.int64)
            for name, out in graph.outputs.items()
        }
        overflows, clamped = Counter[int](), Counter[int]()
        for start in range(0, states, CHUNK):
            part = slice(start, start + CHUNK)
            inside = {name: x[part] for name, x in rows.items()}
            known = self._last_known(inside, overflows, clamped)
            for name, out in graph.outputs.items():
                for i, k in enumerate(out.nodes):
                    results[name][part, i] = known[k]
        shaped = {name: x.reshape(lead + graph.outputs[name].shape) for name, x in results.items()}
        return Results(shaped, +overflows, +clamped, Counter(), states)

    def _last_known(
        self, rows: Mapping[str, Array], overflows: Counter[int], clamped: Counter[int]
    ) -> list[Array]:
        """Returns the values of the outputs' nodes, by number."""
        known: list[Array] = []
        for k, known in self.values(rows, overflows):
            if (condition := self.clamps.get(k)) is not None:
                clamped[k] += int(np.count_nonzero(known[condition]))
            for a in self.dropped[k]:
                known[a] = None
        return known

    def values(
        self, rows: Mapping[str, Array], overflows: Counter[int]
    ) -> Iterator[tuple[int, list[Array]]]:
        """Yields each node's number with the list of values so far, which the caller may drop
        entries of.

        rows: the entries of each input, (states, entries). overflows: counted up.
        """
        datapath, graph = self.datapath, self.datapath.graph
        states = len(next(iter(rows.values()))) if rows else 1
        pairs: dict[Any, Array] = {}  # the sine and the cosine of an angle, until both are read
        known: list[Array] = []
        for k, (op, args, value) in enumerate(zip(graph.op, graph.args, graph.value, strict=True)):
            if op == "constant":
                known.append(np.int64(round(value / datapath.format(k).step)))
            elif op == "input":
                known.append(rows[value[0]][:, value[1]])
            elif op in ("sin", "cos"):
                known.append(self._sine_or_cosine(k, known[args[0]], pairs))
            elif op in CONDITIONS or k in datapath.fused:
                known.append(self._of(k, known))
            else:
                exact, width = self._of(k, known), datapath.format(k).width
                known.append(last_bits(exact, width))
                if known[k] is not exact:
                    lost = int(np.count_nonzero(known[k] != exact))
                    overflows[k] += lost if np.ndim(exact) else lost * states
            yield k, known

    def _of(self, k: int, known: list[Array]) -> Array:
        computed = self.computed[k]
        assert computed is not None
        with np.errstate(over="ignore"):
            return computed(*[known[a] for a in self.datapath.graph.args[k]])

    def _sine_or_cosine(self, k: int, angle: Array, pairs: dict[Any, Array]) -> Array:
        (a,), out = self.datapath.graph.args[k], self.datapath.format(k)
        op = self.datapath.graph.op[k]
        if (a, out, op) not in pairs:
            both = units.sine_cosine(angle, self.datapath.format(a), out)
            pairs |= {(a, out, "sin"): both[0], (a, out, "cos"): both[1]}
        return pairs.pop((a, out, op))


def last_bits(x: Array, width: int) -> Array:
    """The last bits of integers in two's complement; x itself if all integers have so few bits."""
    half = 1 << width - 1
    if np.min(x, initial=0) >= -half and np.max(x, initial=0) < half:
        return x
    return ((x + half) & (2 * half - 1)) - half


def _check(datapath: Datapath) -> None:
    """Raises CompileError for a datapath that no circuit computes."""
    graph = datapath.graph
    for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
        where = f"node {k} ({op})"
        if op not in OPERATIONS:
            raise CompileError(f"{where}: there is no circuit for {op}")
        if op in CONDITIONS:
            continue
        form = datapath.format(k)
        widest = 2 * WIDEST if k in datapath.fused else WIDEST
        if not 2 <= form.width <= widest:
            raise CompileError(f"{where} has {form.width} bits: wanted 2 to {widest}")
        if op == "constant":
            _check_constant(datapath, k)
        if op in ("sin", "cos"):
            units.SineCosine.of(datapath.format(args[0]), form)
        if op in ("exponent", "power_of_two") and form.fraction:
            raise CompileError(f"{where} is {form}: wanted a format without a fraction")
        if op == "div" and graph.number(args[0]) != 1.0:
            raise CompileError(f"{where} divides node {args[0]}: wanted 1, see `prepared`")
        powers = [a for a in args if graph.op[a] == "power_of_two"]
        if powers and (op != "mul" or len(powers) > 1):
            raise CompileError(f"{where} reads node {powers[0]} (power_of_two): only a mul may")


def _check_constant(datapath: Datapath, k: int) -> None:
    value, form = datapath.graph.number(k), datapath.format(k)
    if value is None or not form.least <= round(value / form.step) <= form.most:
        raise CompileError(f"node {k} is the constant {value}: {form} does not hold it")


# The rules of operations on integers


def _shifted(x: Array, left: int) -> Array:
    """x 2^left, rounded down."""
    return x << left if left > 0 else x >> min(-left, 63) if left < 0 else x


def _check_width(datapath: Datapath, k: int, bits: int) -> None:
    """Raises CompileError for intermediate results that int64 does not hold."""
    if bits > 63:
        formats = [datapath.formats[a] for a in datapath.graph.args[k]]
        names = ", ".join(str(form) for form in formats if form is not None)
        raise CompileError(
            f"node {k} ({datapath.graph.op[k]}) of {names} to {datapath.format(k)} has {bits} bits "
            "on its way, wanted 63 at most: choose fractions that are closer to each other"
        )


def _negative(datapath: Datapath, k: int) -> Computed:
    half = datapath.half(k)
    return _of_one(lambda x: half - x)(datapath, k)


def _of_one(change: Callable[[Array], Array]) -> Callable[[Datapath, int], Computed]:
    def rule(datapath: Datapath, k: int) -> Computed:
        (a,) = datapath.graph.args[k]
        left = datapath.format(k).fraction - datapath.format(a).fraction
        if a not in datapath.fused:
            _check_width(datapath, k, datapath.format(a).width + 1 + max(left, 0))
        return lambda x: _shifted(change(x), left)

    return rule


def _sum(sign: int) -> Callable[[Datapath, int], Computed]:
    def rule(datapath: Datapath, k: int) -> Computed:
        a, b = (datapath.format(x) for x in datapath.graph.args[k])
        g = max(a.fraction, b.fraction)
        left = datapath.format(k).fraction - g
        half = datapath.half(k)
        # The finer operand is cut first: by the places beyond the other operand's last place, the
        # result's last place and the place of half, which have no influence
        cut = min(-left - bool(half), g - min(a.fraction, b.fraction)) if left < 0 else 0
        left_a, left_b = g - a.fraction - cut, g - b.fraction - cut
        bits = max(a.width + left_a, b.width + left_b, 0) + 1
        if datapath.fused.isdisjoint([k, *datapath.graph.args[k]]):
            _check_width(datapath, k, bits + max(left, 0))
        return lambda x, y: _shifted(
            _shifted(x, left_a) + _shifted(y if sign > 0 else -y, left_b) + (half >> cut),
            left + cut,
        )

    return rule


def _product(datapath: Datapath, k: int) -> Computed:
    args, f = datapath.graph.args[k], datapath.format(k).fraction
    for n, operand in enumerate(args):
        if datapath.graph.op[operand] == "power_of_two":
            return _scaled(datapath.format(args[1 - n]).fraction, f, n)
    a, b = (datapath.format(x) for x in args)
    right = a.fraction + b.fraction - f
    _check_width(datapath, k, a.width + b.width + max(-right, 0) - 1)
    if right <= 0:
        return lambda x, y: x * y << -right
    # (x y + 2^(right - 1)) >> right, without the sum's carry
    return lambda x, y: (x * y >> min(right - 1, 63)) + 1 >> 1


def _scaled(fraction: int, f: int, position: int) -> Computed:
    """x 2^power at a fraction f, for x at `fraction`. position: of the power among the operands."""

    def computed(*operands: Array) -> Array:
        power, x = operands[position], operands[1 - position]
        left = power + (f - fraction)
        right = np.minimum(np.maximum(-left, 0), 63)
        wide = (x << np.clip(left, 0, WIDEST - 1)) >> right
        # A shift by 32 bits or more clears the last 32 bits, but is an overflow unless x is 0
        return np.where((left >= WIDEST) & (x != 0), 1 << 62, wide)

    return computed


def _exponent(datapath: Datapath, k: int) -> Computed:
    f = datapath.format(datapath.graph.args[k][0]).fraction
    return lambda x: np.frexp(np.abs(x).astype(np.float64))[1].astype(np.int64) - 1 - f


def _select(datapath: Datapath, k: int) -> Computed:
    _, *args = datapath.graph.args[k]
    f = datapath.format(k).fraction
    left_a, left_b = (f - datapath.format(a).fraction for a in args)
    bits = [
        datapath.format(a).width + max(n, 0) for a, n in zip(args, (left_a, left_b), strict=True)
    ]
    if max(bits) > 63:
        raise CompileError(f"node {k} (select): the fractions of its operands are too far apart")
    return lambda holds, x, y: np.where(holds, _shifted(x, left_a), _shifted(y, left_b))


def _compared(strictly: bool) -> Callable[[Datapath, int], Computed]:
    def rule(datapath: Datapath, k: int) -> Computed:
        a, b = (datapath.format(x).fraction for x in datapath.graph.args[k])
        # x < y 2^n is floor(x / 2^n) < y, x <= y 2^n is ceil(x / 2^n) <= y, and so on
        up = lambda x, n: -(-x >> min(n, 63))
        down = lambda x, n: x >> min(n, 63)
        if strictly:
            return lambda x, y: down(x, max(a - b, 0)) < up(y, max(b - a, 0))
        return lambda x, y: up(x, max(a - b, 0)) <= down(y, max(b - a, 0))

    return rule


def _reciprocal(datapath: Datapath, k: int) -> Computed:
    operand, out = datapath.format(datapath.graph.args[k][1]), datapath.format(k)
    units.Reciprocal.of(operand, out)
    return lambda one, x: units.reciprocal(x, operand, out)


RULES: dict[str, Callable[[Datapath, int], Computed]] = {
    "neg": _negative,
    "abs": _of_one(np.abs),
    "power_of_two": _of_one(np.positive),
    "add": _sum(1),
    "sub": _sum(-1),
    "mul": _product,
    "div": _reciprocal,
    "exponent": _exponent,
    "select": _select,
    "less": _compared(True),
    "less_equal": _compared(False),
}
