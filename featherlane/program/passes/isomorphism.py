"""Isomorphic nodes: the operations of a graph that are done once for each of several equal limbs.

Twins are inputs that play the same part in each limb, such as the angles of the left and the right
knee. A search goes from them towards the outputs: nodes of the same operation, whose operands are
twins or constants, are twins too. A mirrored limb may read another coordinate of the trunk; so
where no node has the same operand without a twin, the search accepts any such operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from featherlane.program.graph import Graph
from featherlane.program.op import COMMUTES

Entry = tuple[str, int]  # of an input
Correspondence = Sequence[tuple[Entry, ...]]  # by limb
Signed = tuple[int, bool]  # a node, and whether it is negated
Members = tuple[int, ...]  # nodes, by limb
CONSTANT, ANY = (-1, 0), (-2, 0)  # what an operand is like
LEVELS = ((False, True), (False, False), (True, True), (True, False))
"""The searches for twins, the strictest first: whether any operand without a twin is accepted, and
whether twins must have the same users.
"""


class Term(NamedTuple):
    """An operation with its operands and their signs; a subtraction is a sum with one negated."""

    op: str
    operands: tuple[Signed, ...]

    @property
    def exchangeable(self) -> int:
        """The number of leading operands that commute."""
        return 2 if self.op in COMMUTES or self.op == "fma" else 0


class Terms:
    """The term of each operation, by the number of its node; and for each node the node that it
    negates, or itself.
    """

    def __init__(self, graph: Graph) -> None:
        self.of: dict[int, Term] = {}
        self.plain: list[Signed] = []
        for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
            operands = [self.plain[a] for a in args]
            if op == "neg":
                source, negated = operands[0]
                self.plain.append((source, not negated))
                continue
            self.plain.append((k, False))
            if op == "sub":
                operands[1] = operands[1][0], not operands[1][1]
            if args:
                self.of[k] = Term("add" if op == "sub" else op, tuple(operands))

    def rows(self) -> list[list[int]]:
        """The nodes by the longest way from the inputs: none needs another of its row."""
        height: dict[int, int] = {}
        rows: list[list[int]] = []
        for k, term in self.of.items():
            height[k] = max(height.get(a, -1) for a, _ in term.operands) + 1
            if height[k] == len(rows):
                rows.append([])
            rows[height[k]].append(k)
        return rows

    def roles(self, graph: Graph) -> list[int]:
        """Equal for nodes whose users do the same with them."""
        users: list[list[str]] = [[] for _ in self.plain]
        for name, out in graph.outputs.items():
            for k in out.nodes:
                users[self.plain[k][0]].append(name)
        roles = [0] * len(users)
        for k in reversed(range(len(users))):
            roles[k] = hash(tuple(sorted(users[k])))
            term = self.of.get(k)
            for at, (a, _) in enumerate(term.operands if term else ()):
                users[a].append(f"{term.op} {at > 1} {roles[k]}")  # type: ignore[union-attr]
        return roles


class _Limbs:
    """The limb and the group of twins of each node that has twins."""

    def __init__(self, graph: Graph, twins: Correspondence) -> None:
        self.constant = [op == "constant" for op in graph.op]
        self.size = len(twins[0]) if twins else 1
        self.groups: list[Members] = []
        self.group: dict[int, int] = {}
        self.limb: dict[int, int] = {}
        entries = {v: k for k, v in enumerate(graph.value) if graph.op[k] == "input"}
        for limbs in twins:
            if all(entry in entries for entry in limbs):
                self.enter(tuple(entries[entry] for entry in limbs))

    def enter(self, members: Members) -> None:
        for limb, k in enumerate(members):
            self.group[k], self.limb[k] = len(self.groups), limb
        self.groups.append(members)

    def limb_of(self, term: Term) -> tuple[int, bool] | None:
        """The limb of the operand whose group is the oldest, and whether no other is in it."""
        last = len(self.groups)
        found = [
            (self.group.get(k, last), self.limb[k]) for k, _ in term.operands if k in self.limb
        ]
        if not found:
            return None
        oldest = min(found, key=lambda place: place[0])
        return oldest[1], len({limb for _, limb in found}) == 1

    def key(self, term: Term, limb: int, loose: bool) -> tuple[Any, ...]:
        """Returns a key that the terms of twins share: operands by their groups, and by their limbs
        relative to the limb of the term.
        """
        found = []
        for k, _ in term.operands:
            if k in self.group:
                found.append((self.group[k], (self.limb[k] - limb) % self.size))
            else:
                found.append(CONSTANT if self.constant[k] else ANY if loose else (-3 - k, 0))
        n = term.exchangeable
        return (term.op, *sorted(found[:n]), *found[n:])


def groups(graph: Graph, terms: Terms, twins: Correspondence) -> list[Members]:
    """The groups of nodes that may be computed at once, inputs among them. Members of one are as
    far from the inputs as each other, so no group needs another that needs it.
    """
    if not twins:
        return []
    limbs, roles = _Limbs(graph, twins), terms.roles(graph)

    def sizes(k: int) -> list[float]:
        """Returns the magnitudes of constant operands, by which twins are matched where keys are
        equal: limbs have similar masses and lengths.
        """
        found = [graph.number(a) for a, _ in terms.of[k].operands]
        return [abs(x) for x in found if x is not None]

    for row in terms.rows():
        place = {k: found for k in row if (found := limbs.limb_of(terms.of[k]))}
        left = list(place)
        for loose, by_role in LEVELS:
            alike: dict[Any, list[list[int]]] = {}
            for k in left:
                limb = place[k][0]
                key = limbs.key(terms.of[k], limb, loose), roles[k] if by_role else 0
                alike.setdefault(key, [[] for _ in range(limbs.size)])[limb].append(k)
            for by_limb in alike.values():
                for members in zip(*(sorted(some, key=sizes) for some in by_limb), strict=False):
                    limbs.enter(members)
            left = [k for k in left if k not in limbs.group]
        limbs.limb.update({k: place[k][0] for k in left if place[k][1]})
    return limbs.groups
