"""Sums of products as runs: an accumulator adds one product a cycle, exactly, and rounds once.

A run is a tree of sums and signs whose inner nodes nothing else reads. Its terms are its products,
and its other leaves, which are products with one. Inner nodes become fused (`Datapath.fused`):
their integers are exact and the root rounds, so that an accumulator gives the same bits in any
order of the terms, if it keeps all bits from the last one of the products to the root's first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from featherlane.backends.fixed.align import EXPONENT, Operands, aligned
from featherlane.backends.fixed.clusters import SUMS, linear_nodes
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.unify import alike
from featherlane.program.graph import Graph

ACCUMULATOR = 64  # bits that the golden model keeps of an inner sum; circuits need fewer


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


def accumulated(datapath: Datapath, most: int, parts: Sequence[str] | None = None) -> Datapath:
    """Returns a datapath whose sums of products are runs of `most` terms or fewer, two at least.

    Where a sum would have more terms, its longer operand is a separate run, with a rounded result.
    Operands whose formats differ are aligned (`align`), in each part that reads them, and clusters
    get common formats (`unify`). parts: of nodes, where the datapath will be cut.
    """
    linear = linear_nodes(datapath.graph)
    fused = _inner_nodes(datapath.graph, linear, most)
    whole = replace(datapath, fused=datapath.fused | fused)
    roots = sorted(linear - whole.fused)
    whole = aligned(whole, {k: [*_operands(whole, k)] for k in roots}, parts)
    formats = list(whole.formats)
    for k in sorted(whole.fused):
        fractions = [(formats[a] or EXPONENT).fraction for a in whole.graph.args[k]]
        exact = sum(fractions) if whole.graph.op[k] == "mul" else max(fractions)
        formats[k] = Format(ACCUMULATOR, exact)
    return alike(replace(whole, formats=tuple(formats)))


def _inner_nodes(graph: Graph, linear: set[int], most: int) -> set[int]:
    """The inner nodes of runs. linear: what accumulators compute."""
    candidates, fused = _inner_candidates(graph, linear), set[int]()
    terms = dict[int, int]()  # of candidates
    for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
        terms[k] = 1
        if op in SUMS and k in linear:
            inner = {a: terms[a] for a in args if a in candidates}
            while (count := sum(inner.get(a, 1) for a in args)) > max(most, len(args)):
                del inner[max(inner, key=lambda a: inner[a])]
            fused |= inner.keys()
            terms[k] = count
    return fused


def _operands(datapath: Datapath, k: int) -> Iterator[Operands]:
    """Yields where the run of a node reads its terms."""
    if datapath.graph.op[k] == "mul":
        yield Operands(k, (0, 1))
        return
    for n, a in enumerate(datapath.graph.args[k]):
        if a in datapath.fused:
            yield from _operands(datapath, a)
        else:
            yield Operands(k, (n,))


def _inner_candidates(graph: Graph, linear: set[int]) -> set[int]:
    """The sums, signs and products that one sum or sign reads, and no output."""
    readers = graph.uses()
    results = {k for out in graph.outputs.values() for k in out.nodes}
    is_read_once = lambda k: [graph.op[n] in SUMS for n in readers[k]] == [True]
    return {k for k in linear if is_read_once(k) and linear.issuperset(readers[k])} - results


def runs_of(datapath: Datapath) -> list[ProductRun]:
    """Returns the runs of a datapath, in the order of their roots. Each sum, sign and product that
    is not fused is the root of one.
    """
    return [_run(datapath, k) for k in sorted(linear_nodes(datapath.graph) - datapath.fused)]


def _run(datapath: Datapath, root: int) -> ProductRun:
    every = [*_terms(datapath, root, negative=False)]
    numbers = [(term.a, term.b) if term.b is not None else (term.a,) for term in every]
    fraction = max(sum(datapath.format(n).fraction for n in pair) for pair in numbers)
    dropped = fraction - datapath.format(root).fraction
    is_nearest = datapath.graph.op[root] == "mul" or datapath.half(root)
    initial = 1 << dropped - 1 if is_nearest and dropped > 0 else 0
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
