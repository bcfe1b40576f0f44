"""Isomorphic nodes: the operations of a graph that each of several equal limbs does once.

Corresponding inputs play the same part in each limb, such as the angles of the left and the right
knee. A search goes from them towards the outputs: nodes of the same operation, whose operands
correspond or are constants, correspond too. A mirrored limb may read another coordinate of the
trunk; so where operands outside of the limbs differ, the search accepts any such operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from featherlane.program.graph import Graph
from featherlane.program.op import COMMUTES

Entry = tuple[str, int]  # of an input
Correspondence = Sequence[tuple[Entry, ...]]  # entries that correspond, one for each limb
Signed = tuple[int, bool]  # a node, and whether it is negated
Members = tuple[int, ...]  # nodes, by limb
CONSTANT, ANY = (-1, 0), (-2, 0)  # the keys of constant operands and of operands outside of limbs
LEVELS = ((False, True), (False, False), (True, True), (True, False))
"""The searches, the strictest first: whether any operand outside of the limbs is accepted, and
whether corresponding nodes must have the same users.
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
        """The nodes by their longest path from the inputs: none reads another of its row."""
        height: dict[int, int] = {}
        rows: list[list[int]] = []
        for k, term in self.of.items():
            height[k] = max(height.get(a, -1) for a, _ in term.operands) + 1
            if height[k] == len(rows):
                rows.append([])
            rows[height[k]].append(k)
        return rows

    def roles(self, graph: Graph) -> list[int]:
        """A number for each node, equal for nodes whose users apply the same operations to them."""
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
    """The limb and the group of each node that has corresponding nodes."""

    def __init__(self, graph: Graph, matches: Correspondence) -> None:
        self.constant = [op == "constant" for op in graph.op]
        self.size = len(matches[0]) if matches else 1
        self.groups: list[Members] = []
        self.group: dict[int, int] = {}
        self.limb: dict[int, int] = {}
        entries = {v: k for k, v in enumerate(graph.value) if graph.op[k] == "input"}
        for limbs in matches:
            if all(entry in entries for entry in limbs):
                self.enter(tuple(entries[entry] for entry in limbs))

    def enter(self, members: Members) -> None:
        for limb, k in enumerate(members):
            self.group[k], self.limb[k] = len(self.groups), limb
        self.groups.append(members)

    def limb_of(self, term: Term) -> tuple[int, bool] | None:
        """The limb of the operand whose group is the oldest, and whether all operands are of it."""
        last = len(self.groups)
        operands = [
            (self.group.get(k, last), self.limb[k]) for k, _ in term.operands if k in self.limb
        ]
        if not operands:
            return None
        oldest = min(operands, key=lambda operand: operand[0])
        return oldest[1], len({limb for _, limb in operands}) == 1

    def key(self, term: Term, limb: int, loose: bool) -> tuple[Any, ...]:
        """Returns a key that corresponding terms share: operands by their groups, and by their
        limbs relative to the limb of the term.
        """
        keys = []
        for k, _ in term.operands:
            if k in self.group:
                keys.append((self.group[k], (self.limb[k] - limb) % self.size))
            else:
                keys.append(CONSTANT if self.constant[k] else ANY if loose else (-3 - k, 0))
        n = term.exchangeable
        return (term.op, *sorted(keys[:n]), *keys[n:])


def groups(graph: Graph, terms: Terms, matches: Correspondence) -> list[Members]:
    """The groups of isomorphic nodes, inputs among them. Members of a group are equally far from
    the inputs, so groups have no circular dependencies.
    """
    if not matches:
        return []
    limbs, roles = _Limbs(graph, matches), terms.roles(graph)

    def sizes(k: int) -> list[float]:
        """Returns the magnitudes of constant operands, which match nodes of equal keys: limbs have
        similar masses and lengths.
        """
        numbers = [graph.number(a) for a, _ in terms.of[k].operands]
        return [abs(x) for x in numbers if x is not None]

    for row in terms.rows():
        limb_of = {k: oldest for k in row if (oldest := limbs.limb_of(terms.of[k]))}
        rest = list(limb_of)
        for loose, by_role in LEVELS:
            by_key: dict[Any, list[list[int]]] = {}
            for k in rest:
                limb = limb_of[k][0]
                key = limbs.key(terms.of[k], limb, loose), roles[k] if by_role else 0
                by_key.setdefault(key, [[] for _ in range(limbs.size)])[limb].append(k)
            for by_limb in by_key.values():
                for members in zip(*(sorted(some, key=sizes) for some in by_limb), strict=False):
                    limbs.enter(members)
            rest = [k for k in rest if k not in limbs.group]
        limbs.limb.update({k: limb_of[k][0] for k in rest if limb_of[k][1]})
    return limbs.groups
