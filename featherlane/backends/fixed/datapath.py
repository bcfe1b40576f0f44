"""The computation of a circuit: a graph with a format for each of its values.

The integers of a node follow from those of its operands. Let an operand be A / 2^fa, and the node's
format (w, f). Then "fit Y at g" is Y 2^(f - g), rounded down (an arithmetic shift), of which the
last w bits are kept in two's complement; an overflow is where that changes the number.

    constant      the nearest integer, halves to even; one that the format does not hold is refused
    input         the nearest integer, halves to even, or the nearest that the format holds
    neg, abs      fit -A, |A| at fa
    add, sub      fit A 2^(g - fa) +- B 2^(g - fb) at g = max(fa, fb)
    mul           fit A B + half at fa + fb, where half is 2^(fa + fb - f - 1), or 0 if f >= fa + fb
    less, ...     of A 2^(g - fa) and B 2^(g - fb): a condition has no format
    select        fit A or B at the fraction of A or B
    sin, cos      see `units.sine_cosine`
    exponent      floor(log2 |A|) - fa; -fa - 1 where A is 0. Its format has no fraction
    power_of_two  its integer is the exponent k, not 2^k: its format has no fraction
    mul by one    fit A at fa - k: a shift by a number of places that depends on data
    div           1 / A for A normalised, 1 <= |A / 2^fa| < 2: see `units.reciprocal`

A *fused* product is not rounded: its format holds all A B at fa + fb, and its one reader, a sum of
it and C with fc <= fa + fb, rounds once:

    add, sub      fit C 2^(fa + fb - fc) +- A B + half at fa + fb, with half as that of a product,
                  but 0 if fc > f: the circuit adds half where bits of C are zeros

A fused sum, or sign, is exact too, so that all of a tree of sums of products is rounded once, by
its root (`runs`). Its integer is known modulo 2^64, as that of the root is modulo 2^w.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from featherlane.backends.fixed.formats import Format
from featherlane.program.graph import Graph

OPERATIONS = frozenset(
    [
        *("input", "constant", "neg", "abs", "add", "sub", "mul", "div", "sin", "cos"),
        *("exponent", "power_of_two", "less", "less_equal", "select"),
    ]
)


class Codes(NamedTuple):
    """The steps and the limits of the formats of an input's entries, each (entries,) in float64.
    Entries that no node reads have an infinite step and limits 0, so that their integer is 0.
    """

    step: np.ndarray
    least: np.ndarray
    most: np.ndarray


@dataclass(frozen=True, eq=False)
class Datapath:
    """A graph of OPERATIONS, each node live and tagged by its call (`passes.outline`), and the
    format of each node; None for conditions. fused: products, and sums of such, that are not
    rounded.
    """

    graph: Graph
    formats: tuple[Format | None, ...]
    fused: frozenset[int] = frozenset()

    def format(self, k: int) -> Format:
        """The format of a node that is a number."""
        form = self.formats[k]
        assert form is not None, f"node {k} is a condition"
        return form

    def fused_operand(self, k: int) -> int | None:
        """The position of the operand of a sum that is a fused product, if there is one."""
        return next((n for n, a in enumerate(self.graph.args[k]) if a in self.fused), None)

    def half(self, k: int) -> int:
        """The rounding constant of the sum of a fused product and another number, or of both."""
        args = self.graph.args[k]
        exact = [self.format(a).fraction for a in args if a in self.fused]
        if not exact:
            return 0
        fraction = self.format(k).fraction
        if any(self.format(a).fraction > fraction for a in args if a not in self.fused):
            return 0
        dropped = max(exact) - fraction
        return 1 << dropped - 1 if dropped > 0 else 0

    @cached_property
    def input_codes(self) -> Mapping[str, Codes]:
        """The formats of the entries of each input."""
        codes = {}
        for name, shape in self.graph.inputs.items():
            codes[name] = Codes(*np.zeros((3, math.prod(shape))))
            codes[name].step[:] = math.inf
        for k in self.graph.nodes_of("input"):
            (name, i), form = self.graph.value[k], self.format(k)
            for x, end in zip(codes[name], (form.step, form.least, form.most), strict=True):
                x[i] = end
        return codes

    @cached_property
    def output_steps(self) -> Mapping[str, np.ndarray]:
        """The steps of the entries of each output, in its shape."""
        return {
            name: np.array([self.format(k).step for k in out.nodes]).reshape(out.shape)
            for name, out in self.graph.outputs.items()
        }
