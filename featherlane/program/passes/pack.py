"""One state in the lanes of vectors: what a graph does alike for several limbs, done at once.

Nodes that are twins become one node of a packed graph, with a limb in each lane. All others stay
what they are, with the same number in all lanes. Every number is computed by the same operation
from the same numbers as in the graph itself, so it has the same bits.

Nodes of a packed graph are those of a graph, but a constant may be a tuple, by lane, an input may
have a tuple of positions, and two operations more move numbers between lanes, see `MOVES`.
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

Place = tuple[int, int | None]  # a node of the packed graph, and the limb in it if not all are one


def _shuffle(a: Any, b: Any, lanes: tuple[int, ...]) -> Any:
    return np.concatenate([a, b], axis=-1)[..., list(lanes)]


def _flip(a: Any, negated: tuple[bool, ...]) -> Any:
    return np.where(negated, -a, a)


MOVES: dict[str, Callable[..., Any]] = {"shuffle": _shuffle, "flip": _flip}
"""shuffle: a choice among the lanes of a, then those of b; flip: a, negated in some lanes. These
define both, for arrays whose last axis are the lanes, and for the value of the node: which.
"""


class Packed(NamedTuple):
    """A graph in lanes; lanes[output]: for each entry the lane of its node that shows it."""

    graph: Graph
    lanes: dict[str, tuple[int, ...]]

    @property
    def operations(self) -> int:
        """The number of arithmetic instructions and moves; signs are folded into their users."""
        rows = zip(self.graph.op, self.graph.args, strict=True)
        return sum(bool(args) and op != "neg" for op, args in rows)


class _Packing:
    """A packed graph while it grows."""

    def __init__(self, graph: Graph, twins: Correspondence, lanes: int) -> None:
        self.graph, self.new, self.terms = graph, Graph(), Terms(graph)
        self.new.inputs = dict(graph.inputs)
        self.limbs = len(twins[0]) if twins else 1
        self.lanes = range(lanes)
        self.unit = {k: members for members in groups(graph, self.terms, twins) for k in members}
        self.place: dict[int, Place] = {}

    def needed(self, k: int) -> Iterator[int]:
        """Yields the nodes that must be placed before node k and its twins."""
        for member in self.unit.get(k, (k,)):
            if member in self.terms.of:
                yield from (a for a, _ in self.terms.of[member].operands)

    def enter(self, k: int) -> None:
        """Places node k and its twins; a node without twins is repeated for each limb."""
        members = self.unit.get(k)
        if members is None:
            self.place[k] = self._node((k,) * self.limbs), None
            return
        node = self._node(members)
        self.place |= {member: (node, limb) for limb, member in enumerate(members)}

    def _node(self, members: Members) -> int:
        first = members[0]
        op, value = self.graph.op[first], self.graph.value[first]
        if self.graph.args[first]:
            return self._computed(members)
        if op == "input" and len(set(members)) > 1:
            value = value[0], self._by_lane([self.graph.value[k][1] for k in members])
        return self.new.node(op, value=value)

    def _by_lane(self, of_limbs: Sequence[Any]) -> tuple[Any, ...]:
        """Returns a value for each lane; lanes beyond the last limb repeat the first ones."""
        return tuple(of_limbs[lane % self.limbs] for lane in self.lanes)

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
        """The operands of each term, those that may be exchanged in the order of the first's."""
        first = terms[0].operands

        def fits(operands: tuple[Signed, ...]) -> int:
            pairs = zip(first, operands, strict=True)
            return sum(self._alike(a, b) for (a, _), (b, _) in pairs)

        def best(term: Term) -> tuple[Signed, ...]:
            a, b, *rest = term.operands
            return max(term.operands, (b, a, *rest), key=fits)

        return [best(term) if term.exchangeable else term.operands for term in terms]

    def _alike(self, a: int, b: int) -> bool:
        constant = self.graph.op[a] == self.graph.op[b] == "constant"
        return constant or self.unit.get(a, (a,)) == self.unit.get(b, (b,))

    def _sum(self, a: Sequence[Signed], b: Sequence[Signed]) -> int:
        for x, y in ((a, b), (b, a)):
            if all(negated for _, negated in y) and not any(negated for _, negated in x):
                return self.new.node("sub", self._operand(x), self._operand(_signed(y, ())))
        return self.new.node("add", self._operand(a), self._operand(b))

    def _product(self, a: Sequence[Signed], b: Sequence[Signed]) -> list[list[Signed]]:
        """The factors, with all signs on one: on constants, if it has them."""
        signs = [x != y for (_, x), (_, y) in zip(a, b, strict=True)]
        if all(self.graph.op[k] == "constant" for k, _ in b):
            a, b = b, a
        return [_signed(a, signs), _signed(b, ())]

    # Operands

    def _operand(self, limbs: Sequence[Signed]) -> int:
        """The node with a number for each limb."""
        nodes, signs = zip(*limbs, strict=True)
        if all(self.graph.op[k] == "constant" for k in nodes):
            return self._constant(nodes, signs)
        if self.graph.op[nodes[0]] in CONDITIONS:  # a condition is no number, that could be moved
            return self._computed(nodes)
        whole = self._gathered([self.place[k] for k in nodes])
        if all(signs):
            return self.new.neg(whole)
        return self.new.node("flip", whole, value=self._by_lane(signs)) if any(signs) else whole

    def _constant(self, nodes: Sequence[int], signs: Sequence[bool]) -> int:
        values = [self.graph.value[k] for k in nodes]
        pairs = zip(values, signs, strict=True)
        values = [-x if negated and x != "nan" else x for x, negated in pairs]
        same = len(set(map(str, values))) == 1  # 0.0 is not -0.0
        return self.new.node("constant", value=values[0] if same else self._by_lane(values))

    def _gathered(self, places: Sequence[Place]) -> int:
        """The node with a number from each of these places."""
        by_lane = self._by_lane(places)
        wanted = [
            lane if limb is None else lane - lane % self.limbs + limb
            for lane, (_, limb) in zip(self.lanes, by_lane, strict=True)
        ]
        first, *others = dict.fromkeys(node for node, _ in places)
        if not others:
            if wanted == list(self.lanes):
                return first
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

    def shown(self, k: int) -> tuple[int, int]:
        """The node that shows node k of the graph, and its lane."""
        source, negated = self.terms.plain[k]
        node, limb = self.place[source]
        return self.new.neg(node) if negated else node, limb or 0


def _signed(limbs: Sequence[Signed], signs: Sequence[bool]) -> list[Signed]:
    """With these signs, or none."""
    return [(k, bool(signs) and signs[limb]) for limb, (k, _) in enumerate(limbs)]


def pack(graph: Graph, twins: Correspondence, lanes: int) -> Packed:
    """A graph in vectors of so many lanes, a multiple of the limbs; twins: see `graph.twins`."""
    packing = _Packing(graph, twins, lanes)
    for root in range(len(graph)):
        stack = [packing.terms.plain[root][0]]
        while stack:
            todo = [a for a in packing.needed(stack[-1]) if a not in packing.place]
            if todo:
                stack += todo[::-1]
                continue
            k = stack.pop()
            if k not in packing.place:
                packing.enter(k)
    lanes_of = {}
    for name, out in graph.outputs.items():
        shown = [packing.shown(k) for k in out.nodes]
        packing.new.outputs[name] = Output(out.shape, tuple(node for node, _ in shown))
        lanes_of[name] = tuple(lane for _, lane in shown)
    return Packed(packing.new, lanes_of)
