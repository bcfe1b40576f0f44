"""Which nodes of a graph are one operation done for several limbs.

The twins of a graph are inputs that play the same part: the angle of the left knee and of the right
one. From them upward, nodes of the same operation on operands that are twins, or constants, are
twins too. Trunk and limbs also meet, and what a mirrored limb takes of the trunk is another
coordinate: an operand that has no twin may be any, where a search for the same one has failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from featherlane.program.graph import Graph
from featherlane.program.op import COMMUTES

Entry = tuple[str, int]  # of an input
Twins = Sequence[tuple[Entry, ...]]  # by limb
Signed = tuple[int, bool]  # a node, and whether it is negated
Members = tuple[int, ...]  # nodes, by limb
CONSTANT, ANY = (-1, 0), (-2, 0)  # what an operand is like
LEVELS = ((False, True), (False, False), (True, True), (True, False))
"""How twins are looked for: with any operand that has no twin or not; by what they are for or not.
The surest first.
"""


class Term(NamedTuple):
    """What a node does to which others: a subtraction is a sum, and signs are apart."""

    op: str
    operands: tuple[Signed, ...]

    @property
    def exchangeable(self) -> int:
        """How many of the operands, the first ones, may change places."""
        return 2 if self.op in COMMUTES or self.op == "fma" else 0


class Terms:
    """The term of each node that computes, by its number, and what each node is without an outer
    sign.
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
    """Which limb nodes belong to, and which group of twins, if they have any."""

    def __init__(self, graph: Graph, twins: Twins) -> None:
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
        """What a term is like, seen from its limb."""
        found = []
        for k, _ in term.operands:
            if k in self.group:
                found.append((self.group[k], (self.limb[k] - limb) % self.size))
            else:
                found.append(CONSTANT if self.constant[k] else ANY if loose else (-3 - k, 0))
        n = term.exchangeable
        return (term.op, *sorted(found[:n]), *found[n:])


def groups(graph: Graph, terms: Terms, twins: Twins) -> list[Members]:
    """The groups of nodes that may be computed at once, inputs among them. Members of one are as
    far from the inputs as each other, so no group needs another that needs it.
    """
    if not twins:
        return []
    limbs, roles = _Limbs(graph, twins), terms.roles(graph)

    def sizes(k: int) -> list[float]:
        """What tells twins from others like them: limbs weigh much the same."""
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
