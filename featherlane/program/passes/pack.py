"""SLP packing: isomorphic operations of several limbs, for one state, in the lanes of one vector.

Isomorphic nodes become one node of a packed graph, with a limb in each lane. The other nodes are
copied, with the same number in all lanes. Every number is computed by the same operation from the
same numbers as in the original graph, so it has the same bits.

A packed graph differs from a graph in three ways: a constant may be a tuple with a number for each
lane, an input may have a tuple of positions, and two more operations move numbers between lanes,
see `MOVES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.program.graph import Graph, Output
from featherlane.program.op import CONDITIONS
from featherlane.program.passes.isomorphism import (
    Correspondence,
    Members,
    Signed,
    Term,
    Terms,
    groups,
)

LimbValue = tuple[int, int | None]  # a packed node and the limb in it, None if all lanes are equal


def _shuffle(a: Any, b: Any, lanes: tuple[int, ...]) -> Any:
    return np.concatenate([a, b], axis=-1)[..., list(lanes)]


def _flip(a: Any, negated: tuple[bool, ...]) -> Any:
    return np.where(negated, -a, a)


MOVES: dict[str, Callable[..., Any]] = {"shuffle": _shuffle, "flip": _flip}
"""shuffle: a choice among the lanes of a, then of b; flip: a, negated in some lanes. The functions
define both, for arrays whose last axis is the lanes; the last argument is the value of the node.
"""


class Packed(NamedTuple):
    """A graph in lanes. lanes[output]: for each entry, the lane of its node that holds it."""

    graph: Graph
    lanes: dict[str, tuple[int, ...]]

    @property
    def operations(self) -> int:
        return operations(self.graph)


def operations(graph: Graph) -> int:
    """The number of arithmetic instructions and moves; signs fold into the nodes that read them."""
    return sum(bool(args) and op != "neg" for op, args in zip(graph.op, graph.args, strict=True))


class _Packing:
    """A packed graph under construction."""

    def __init__(self, graph: Graph, matches: Correspondence, lanes: int) -> None:
        self.graph, self.new, self.terms = graph, Graph(), Terms(graph)
        self.new.inputs = dict(graph.inputs)
        self.limbs = len(matches[0]) if matches else 1
        self.lanes = range(lanes)
        self.group = {k: members for members in groups(graph, self.terms, matches) for k in members}
        self.value_of: dict[int, LimbValue] = {}

    def needed(self, k: int) -> Iterator[int]:
        """Yields the nodes that must be entered before node k and the nodes isomorphic to it."""
        for member in self.group.get(k, (k,)):
            if member in self.terms.of:
                yield from (a for a, _ in self.terms.of[member].operands)

    def enter(self, k: int) -> None:
        """Enters node k and the nodes isomorphic to it; a single node is the same in all lanes."""
        members = self.group.get(k)
        if members is None:
            self.value_of[k] = self._node((k,)), None
            return
        node = self._node(members)
        self.value_of |= {member: (node, limb) for limb, member in enumerate(members)}

    def _node(self, members: Members) -> int:
        first = members[0]
        op, value = self.graph.op[first], self.graph.value[first]
        if self.graph.args[first]:
            return self._computed(members)
        if op == "input" and len(set(members)) > 1:
            value = value[0], self._by_lane([self.graph.value[k][1] for k in members])
        return self.new.node(op, value=value)

    def _by_lane(self, of_limbs: Sequence[Any]) -> tuple[Any, ...]:
        """Returns a value for each lane; lanes beyond the last limb repeat those of the first
        limbs.
        """
        return tuple(of_limbs[lane % len(of_limbs)] for lane in self.lanes)

    # The same operation for all limbs

    def _computed(self, members: Members) -> int:
        terms = [self.terms.of[k] for k in members]
        op, columns = terms[0].op, [*map(list, zip(*self._aligned(terms), strict=True))]
        if op == "add":
            return self._sum(*columns)
        if op in ("mul", "fma"):
            columns[:2] = self._product(*columns[:2])
        return self.new.node(op, *map(self._operand, columns))

    def _aligned(self, terms: Sequence[Term]) -> list[tuple[Signed, ...]]:
        """The operands of each term; operands that commute in the order that fits the first
        term.
        """
        first = terms[0].operands

        def fits(operands: tuple[Signed, ...]) -> int:
            pairs = zip(first, operands, strict=True)
            return sum(self._alike(a, b) for (a, _), (b, _) in pairs)

        def best(term: Term) -> tuple[Signed, ...]:
            a, b, *rest = term.operands
            return max(term.operands, (b, a, *rest), key=fits)

        others = (best(term) if term.exchangeable else term.operands for term in terms[1:])
        return [first, *others]

    def _alike(self, a: int, b: int) -> bool:
        constant = self.graph.op[a] == self.graph.op[b] == "constant"
        return constant or self.group.get(a, (a,)) == self.group.get(b, (b,))

    def _sum(self, a: Sequence[Signed], b: Sequence[Signed]) -> int:
        for x, y in ((a, b), (b, a)):
            if all(negated for _, negated in y) and not any(negated for _, negated in x):
                return self.new.node("sub", self._operand(x), self._operand(_signed(y, ())))
        return self.new.node("add", self._operand(a), self._operand(b))

    def _product(self, a: Sequence[Signed], b: Sequence[Signed]) -> list[list[Signed]]:
        """The factors of a product, with all signs on one factor: on the constants, if it has
        any.
        """
        signs = [x != y for (_, x), (_, y) in zip(a, b, strict=True)]
        if all(self.graph.op[k] == "constant" for k, _ in b):
            a, b = b, a
        return [_signed(a, signs), _signed(b, ())]

    # Operands

    def _operand(self, limbs: Sequence[Signed]) -> int:
        """The node with a number for each limb, or with one number for all."""
        if len(limbs) == 1:
            return self._repeated(*limbs[0])
        nodes, signs = zip(*limbs, strict=True)
        if all(self.graph.op[k] == "constant" for k in nodes):
            return self._constant(nodes, signs)
        if (
            self.graph.op[nodes[0]] in CONDITIONS
        ):  # conditions cannot be shuffled: computed in place
            return self._computed(nodes)
        whole = self._gathered([self.value_of[k] for k in nodes])
        if all(signs):
            return self.new.neg(whole)
        return self.new.node("flip", whole, value=self._by_lane(signs)) if any(signs) else whole

    def _repeated(self, k: int, negated: bool) -> int:
        """The node with one number in all lanes, as most operands are."""
        op = self.graph.op[k]
        if op == "constant":
            return self._constant((k,), (negated,))
        if op in CONDITIONS:
            return self._computed((k,))
        node, limb = self.value_of[k]
        if limb is not None:
            lanes = tuple(lane - lane % self.limbs + limb for lane in self.lanes)
            node = self.new.node("shuffle", node, node, value=lanes)
        return self.new.neg(node) if negated else node

    def _constant(self, nodes: Sequence[int], signs: Sequence[bool]) -> int:
        values = [self.graph.value[k] for k in nodes]
        pairs = zip(values, signs, strict=True)
        values = [-x if negated and x != "nan" else x for x, negated in pairs]
        same = len(set(map(str, values))) == 1  # 0.0 is not -0.0
        return self.new.node("constant", value=values[0] if same else self._by_lane(values))

    def _gathered(self, sources: Sequence[LimbValue]) -> int:
        """The node that gathers a number for each limb, by a shuffle for each further source
        node.
        """
        first = sources[0][0]
        if all(source in ((first, None), (first, n)) for n, source in enumerate(sources)):
            return first
        by_lane = self._by_lane(sources)
        wanted = [
            lane if limb is None else lane - lane % self.limbs + limb
            for lane, (_, limb) in zip(self.lanes, by_lane, strict=True)
        ]
        first, *others = dict.fromkeys(node for node, _ in sources)
        if not others:
            return self.new.node("shuffle", first, first, value=tuple(wanted))
        whole = first
        for other in others:
            choice = list(self.lanes)
            for lane, (node, _) in zip(self.lanes, by_lane, strict=True):
                if node == other:
                    choice[lane] = len(self.lanes) + wanted[lane]
                elif node == whole == first:
                    choice[lane] = wanted[lane]
            whole = self.new.node("shuffle", whole, other, value=tuple(choice))
        return whole

    def entry(self, k: int) -> tuple[int, int]:
        """The packed node that holds node k of the graph, and its lane."""
        source, negated = self.terms.plain[k]
        node, limb = self.value_of[source]
        return self.new.neg(node) if negated else node, limb or 0


def _signed(limbs: Sequence[Signed], signs: Sequence[bool]) -> list[Signed]:
    """The nodes with these signs, or with none."""
    return [(k, bool(signs) and signs[limb]) for limb, (k, _) in enumerate(limbs)]


def pack(graph: Graph, matches: Correspondence, lanes: int) -> Packed:
    """A graph in vectors of so many lanes, a multiple of the limbs. matches: corresponding
    entries.
    """
    packing = _Packing(graph, matches, lanes)
    for root in range(len(graph)):
        stack = [packing.terms.plain[root][0]]
        while stack:
            todo = [a for a in packing.needed(stack[-1]) if a not in packing.value_of]
            if todo:
                stack += todo[::-1]
                continue
            k = stack.pop()
            if k not in packing.value_of:
                packing.enter(k)
    lanes_of = {}
    for name, out in graph.outputs.items():
        entries = [packing.entry(k) for k in out.nodes]
        packing.new.outputs[name] = Output(out.shape, tuple(node for node, _ in entries))
        lanes_of[name] = tuple(lane for _, lane in entries)
    return Packed(packing.new, lanes_of)
