"""THE table of operations: everything that a graph may hold, and what each operation means.

`evaluate` is the definition, on NumPy arrays of one dtype; every backend must give the same bits.
Nothing else in the package may invent an operation. A row has all that is known of an elementary
function: its derivatives, its symmetry, an exact value, and its `expansion`, the arithmetic that
replaces it before code is generated, so that no backend needs to know it. Two rows have no
`evaluate`: "call" applies a graph that the program keeps once (see `program.program`), and "result"
is one of the scalars that it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from featherlane.program.derivatives import rules
from featherlane.program.derivatives.rules import Rule, piecewise_constant, same, times
from featherlane.program.evaluation import exponent, fma, power_of_two, quarter
from featherlane.program.expansions import sincos, transcendental

Array = Any
Rate = Callable[[Sequence[Array], Sequence[Array]], Array]


class Op(NamedTuple):
    name: str
    arity: int | None  # None: any number of operands
    kind: str  # what cost() counts it as
    evaluate: Callable[..., Array] | None
    meaning: str
    slopes: Rule | None = None  # the derivatives as nodes, see `program.derivatives.rules`
    rate: Rate = lambda x, d: None
    """The derivative of numbers, from the operands x and their derivatives d; None for steps and
    for conditions, which are no numbers. It shares nothing with `slopes`: one tests the other.
    """
    expansion: Callable[..., int] | None = None
    """(graph, form, *operands): the function as arithmetic, see `program.expansions`."""
    symmetry: Literal["", "odd", "even"] = ""  # what the sign of the operand does
    exact: tuple[float, float] | None = None  # an operand, and the value there on every machine

    @property
    def numpy_name(self) -> str:
        """The name of NumPy's function that defines it."""
        assert self.evaluate is not None
        return self.evaluate.__name__


OPS = {
    op.name: op
    for op in (
        Op("input", 0, "data", None, "one entry of an input array"),
        Op("constant", 0, "data", None, "a number known at compile time"),
        Op("call", None, "call", None, "a function of the program, by number, of the operands"),
        Op("result", 1, "data", None, "one of the results of a call, by number"),
        Op(
            "neg",
            1,
            "sign",
            np.negative,
            "-a",
            slopes=lambda g, k, a: (g.neg,),
            rate=lambda x, d: -d[0],
        ),
        Op(
            "abs",
            1,
            "sign",
            np.abs,
            "|a|",
            slopes=rules.of_abs,
            rate=lambda x, d: np.sign(x[0]) * d[0],
        ),
        Op(
            "add",
            2,
            "add",
            np.add,
            "a + b",
            slopes=lambda g, k, a, b: (same, same),
            rate=lambda x, d: d[0] + d[1],
        ),
        Op(
            "sub",
            2,
            "add",
            np.subtract,
            "a - b",
            slopes=lambda g, k, a, b: (same, g.neg),
            rate=lambda x, d: d[0] - d[1],
        ),
        Op(
            "mul",
            2,
            "mul",
            np.multiply,
            "a b",
            slopes=lambda g, k, a, b: (times(g, b), times(g, a)),
            rate=lambda x, d: x[0] * d[1] + d[0] * x[1],
        ),
        Op(
            "fma",
            3,
            "fma",
            fma,
            "a b + c, rounded once",
            slopes=lambda g, k, a, b, c: (times(g, b), times(g, a), same),
            rate=lambda x, d: x[0] * d[1] + d[0] * x[1] + d[2],
        ),
        Op(
            "div",
            2,
            "div",
            np.divide,
            "a / b",
            slopes=rules.of_div,
            rate=lambda x, d: (d[0] - x[0] / x[1] * d[1]) / x[1],
        ),
        Op(
            "sqrt",
            1,
            "sqrt",
            np.sqrt,
            "square root",
            slopes=lambda g, k, a: (times(g, g.div(g.constant(0.5), k)),),
            rate=lambda x, d: d[0] / (2 * np.sqrt(x[0])),
        ),
        Op(
            "sin",
            1,
            "trig",
            np.sin,
            "sine",
            slopes=lambda g, k, a: (times(g, g.cos(a)),),
            rate=lambda x, d: np.cos(x[0]) * d[0],
            expansion=sincos.sin,
            symmetry="odd",
        ),
        Op(
            "cos",
            1,
            "trig",
            np.cos,
            "cosine",
            slopes=lambda g, k, a: (times(g, g.neg(g.sin(a))),),
            rate=lambda x, d: -np.sin(x[0]) * d[0],
            expansion=sincos.cos,
            symmetry="even",
        ),
        Op(
            "exp",
            1,
            "trig",
            np.exp,
            "e^a",
            slopes=lambda g, k, a: (times(g, k),),
            rate=lambda x, d: np.exp(x[0]) * d[0],
            expansion=transcendental.exp,
            exact=(0.0, 1.0),
        ),
        Op(
            "expm1",
            1,
            "trig",
            np.expm1,
            "e^a - 1",
            slopes=lambda g, k, a: (times(g, g.add(k, g.constant(1.0))),),
            rate=lambda x, d: np.exp(x[0]) * d[0],
            expansion=transcendental.expm1,
            exact=(0.0, 0.0),
        ),
        Op(
            "log",
            1,
            "trig",
            np.log,
            "natural logarithm",
            slopes=lambda g, k, a: (rules.reciprocal(g, a),),
            rate=lambda x, d: d[0] / x[0],
            expansion=transcendental.log,
            exact=(1.0, 0.0),
        ),
        Op(
            "log1p",
            1,
            "trig",
            np.log1p,
            "logarithm of 1 + a",
            slopes=lambda g, k, a: (rules.reciprocal(g, g.add(g.constant(1.0), a)),),
            rate=lambda x, d: d[0] / (1 + x[0]),
            expansion=transcendental.log1p,
            exact=(0.0, 0.0),
        ),
        Op(
            "tanh",
            1,
            "trig",
            np.tanh,
            "hyperbolic tangent",
            slopes=rules.of_tanh,
            rate=lambda x, d: d[0] / np.cosh(x[0]) ** 2,
            expansion=transcendental.tanh,
            symmetry="odd",
            exact=(0.0, 0.0),
        ),
        Op(
            "asin",
            1,
            "trig",
            np.arcsin,
            "angle from -pi/2 to pi/2 whose sine is a",
            slopes=rules.of_arc(1.0),
            rate=lambda x, d: d[0] / np.sqrt((1 - x[0]) * (1 + x[0])),
            expansion=transcendental.asin,
            symmetry="odd",
            exact=(0.0, 0.0),
        ),
        Op(
            "acos",
            1,
            "trig",
            np.arccos,
            "angle from 0 to pi whose cosine is a",
            slopes=rules.of_arc(-1.0),
            rate=lambda x, d: -d[0] / np.sqrt((1 - x[0]) * (1 + x[0])),
            expansion=transcendental.acos,
            exact=(1.0, 0.0),
        ),
        Op(
            "atan2",
            2,
            "trig",
            np.arctan2,
            "angle of the vector (b, a), from -pi to pi",
            slopes=rules.of_atan2,
            rate=lambda x, d: (x[1] * d[0] - x[0] * d[1]) / (x[0] ** 2 + x[1] ** 2),
            expansion=transcendental.atan2,
        ),
        Op(
            "power_of_two",
            1,
            "select",
            power_of_two,
            "2^a for integers a of normal numbers",
            slopes=piecewise_constant,
        ),
        Op(
            "exponent",
            1,
            "select",
            exponent,
            "the exponent of a in base 2, as a number",
            slopes=piecewise_constant,
        ),
        Op(
            "copysign",
            2,
            "sign",
            np.copysign,
            "|a| with the sign of b",
            slopes=rules.of_copysign,
            rate=lambda x, d: np.copysign(1.0, x[0]) * np.copysign(1.0, x[1]) * d[0],
        ),
        Op(
            "round",
            1,
            "select",
            np.rint,
            "the nearest integer, halves to even",
            slopes=piecewise_constant,
        ),
        Op(
            "quarter",
            3,
            "select",
            quarter,
            "s, c, -s, -c for k = 0, 1, 2, 3 modulo 4",
            slopes=rules.of_quarter,
            rate=lambda x, d: quarter(x[0], d[1], d[2]),
        ),
        Op(
            "less",
            2,
            "select",
            np.less,
            "whether a < b: a condition, for select alone",
            slopes=piecewise_constant,
        ),
        Op(
            "less_equal",
            2,
            "select",
            np.less_equal,
            "whether a <= b: a condition too",
            slopes=piecewise_constant,
        ),
        Op(
            "select",
            3,
            "select",
            np.where,
            "b if a holds, else c",
            slopes=rules.of_select,
            rate=lambda x, d: np.where(x[0], d[1], d[2]),
        ),
    )
}


def elementary(arity: int) -> list[Op]:
    """Returns the elementary functions of so many operands, which are expanded."""
    return [op for op in OPS.values() if op.expansion and op.arity == arity]


COMMUTES = {"add", "mul"}
CONDITIONS = frozenset({"less", "less_equal"})  # no numbers: only `select` reads them
EXPANDED = frozenset(op.name for op in OPS.values() if op.expansion)
"""Rewritten in terms of the others by `passes.expand`, before code is generated."""
ARITHMETIC = {op.name for op in OPS.values() if op.evaluate}  # of scalars, to a scalar
assert all(OPS[name].slopes for name in ARITHMETIC), "every operation has a derivative"
