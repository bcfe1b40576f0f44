"""Sums of products as runs: an accumulator adds one product a cycle, exactly, and rounds once.

A run is a tree of sums and signs whose inner nodes nothing else reads. Its terms are its products,
and its other leaves, which are products with one. Inner nodes become fused (`Datapath.fused`):
their integers are exact and the root rounds, so that an accumulator gives the same bits in any
order of the terms, if it keeps all bits from the last one of the products to the root's first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.program.graph import Graph

ACCUMULATOR = 64  # bits that the golden model keeps of an inner sum; circuits need fewer
SUMS = frozenset(["add", "sub", "neg"])


class RunTerm(NamedTuple):
    """A product a b of two nodes, or node a alone. negative: whether it is subtracted."""

    negative: bool
    a: int
    b: int | None = None


class ProductRun(NamedTuple):
    """The terms whose exact sum, at a fraction, a node rounds. initial: what the accumulator starts
    with, an integer at this fraction: half of the root's last place, and constants of the sum.
    """

    root: int
    terms: tuple[RunTerm, ...]
    fraction: int
    initial: int


class _Sum(NamedTuple):
    """The exact sum below a node: its terms, the fraction of its products if it has any, and the
    largest fraction of its other terms.
    """

    terms: int
    products: int | None
    others: int | None

    @property
    def fraction(self) -> int:
        return max(x for x in (self.products, self.others) if x is not None)


def accumulated(datapath: Datapath, most: int) -> Datapath:
    """Returns a datapath whose sums of products are runs of `most` terms or fewer, two at least.

    Where a sum would have more terms, or products of different fractions, its longer operand is a
    separate run, with a rounded result.
    """
    graph, formats, fused = datapath.graph, list(datapath.formats), set[int]()
    candidates = _inner_candidates(graph)
    sums = dict[int, _Sum]()
    for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
        if op == "mul" and k in candidates:
            sums[k] = _Sum(1, sum(datapath.format(a).fraction for a in args), None)
        elif op in SUMS:
            leaves = {a: _Sum(1, None, datapath.format(a).fraction) for a in args}
            inner = {a: sums[a] for a in args if a in candidates}
            while (total := _total([(leaves | inner)[a] for a in args], most)) is None:
                del inner[max(inner, key=lambda a: inner[a].terms)]
            fused |= inner.keys()
            sums[k] = total
    for k in fused:
        formats[k] = Format(ACCUMULATOR, sums[k].fraction)
    return replace(datapath, formats=tuple(formats), fused=datapath.fused | fused)


def _inner_candidates(graph: Graph) -> set[int]:
    """The sums, signs and products that one sum or sign reads, and no output."""
    readers = graph.uses()
    results = {k for out in graph.outputs.values() for k in out.nodes}
    is_read_once = lambda k: [graph.op[n] in SUMS for n in readers[k]] == [True]
    return {
        k for k in range(len(graph)) if is_linear(graph, k) and is_read_once(k) and k not in results
    }


def is_linear(graph: Graph, k: int) -> bool:
    """Tells whether an accumulator computes a node: a sum, a sign, or a product of two numbers."""
    powers = [a for a in graph.args[k] if graph.op[a] == "power_of_two"]
    return graph.op[k] in SUMS or (graph.op[k] == "mul" and not powers)


def _total(operands: list[_Sum], most: int) -> _Sum | None:
    """The sum of exact sums; None if it is no run."""
    terms = sum(x.terms for x in operands)
    products = {x.products for x in operands if x.products is not None}
    others = max((x.others for x in operands if x.others is not None), default=None)
    if terms > max(most, len(operands)) or len(products) > 1:
        return None
    fraction = next(iter(products), None)
    if fraction is not None and others is not None and others > fraction:
        return None
    return _Sum(terms, fraction, others)


def runs_of(datapath: Datapath) -> list[ProductRun]:
    """Returns the runs of a datapath, in the order of their roots. Each sum, sign and product that
    is not fused is the root of one.
    """
    graph = datapath.graph
    roots = [k for k in range(len(graph)) if is_linear(graph, k) and k not in datapath.fused]
    return [_run(datapath, k) for k in roots]


def _run(datapath: Datapath, root: int) -> ProductRun:
    every = [*_terms(datapath, root, negative=False)]
    numbers = [(term.a, term.b) if term.b is not None else (term.a,) for term in every]
    fraction = max(sum(datapath.format(n).fraction for n in pair) for pair in numbers)
    dropped = fraction - datapath.format(root).fraction
    initial = 1 << dropped - 1 if dropped > 0 else 0
    terms = list[RunTerm]()
    for term in every:
        if term.b is None and datapath.graph.op[term.a] == "constant":
            form = datapath.format(term.a)
            addend = round(datapath.graph.value[term.a] / form.step) << fraction - form.fraction
            initial += -addend if term.negative else addend
        else:
            terms.append(term)
    return ProductRun(root, tuple(terms), fraction, initial)


def _terms(datapath: Datapath, k: int, negative: bool) -> Iterator[RunTerm]:
    """Yields the terms of the exact sum of a node."""
    op, args = datapath.graph.op[k], datapath.graph.args[k]
    if op == "mul":
        yield RunTerm(negative, *args)
        return
    for n, a in enumerate(args):
        below = negative ^ (op == "neg" or (op == "sub" and n == 1))
        if a in datapath.fused:
            yield from _terms(datapath, a, below)
        else:
            yield RunTerm(below, a)
