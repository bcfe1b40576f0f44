"""Implicit derivatives of unrolled linear systems: of A x = b, A dx = db - dA x.

A graph keeps a record of each system that it solves. A sweep that comes to a recorded solution
solves for its tangents or adjoints by the elimination that is there, instead of following the
operations of the elimination (Griewank and Walther, Evaluating Derivatives, 2nd edition, 2008,
chapter 15). These solutions are recorded too, so that second derivatives are implicit as well. A
record is not part of a graph's meaning: where one is lost, the operations have the same
derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from featherlane.program.graph import Graph
from featherlane.program.linear_systems import Elimination, Rows
from featherlane.program.node import Condition, Node

Rates = Sequence[dict[int, int]]  # for each node its tangents or adjoints by number


def _numbers(nodes: Any) -> Any:
    """Returns nested lists of nodes as nested tuples of their numbers."""
    if isinstance(nodes, bool):
        return nodes
    if isinstance(nodes, Node):
        return nodes.holds if isinstance(nodes, Condition) else nodes.k
    return tuple(map(_numbers, nodes))


def _renumbered(numbers: Any, new: Callable[[int], Any]) -> Any:
    if isinstance(numbers, bool):
        return numbers
    return new(numbers) if isinstance(numbers, int) else tuple(_renumbered(x, new) for x in numbers)


class LinearSystem(NamedTuple):
    """A system that a graph solves, A x = b or A^T x = b, by the numbers of its nodes.

    exchanges to reciprocals: those of the `Elimination` of A.
    """

    matrix: tuple[tuple[int, ...], ...]
    right: tuple[int, ...]
    solution: tuple[int, ...]
    is_transposed: bool
    exchanges: Any
    multiples: Any
    upper: Any
    reciprocals: Any

    def renumbered(self, new: Callable[[int], int]) -> LinearSystem:
        """The system in a graph where nodes have new numbers."""
        return LinearSystem(*[_renumbered(x, new) for x in self])

    def is_usable(self, graph: Graph) -> bool:
        """Whether the solution consists of operations that come after A and b."""
        first, n = min(self.solution), len(self.solution)
        operands = chain(self.right, *self.matrix)
        return (
            n > 1
            and len(set(self.solution)) == n
            and all(graph.args[k] for k in self.solution)
            and max(operands) < first
        )

    def entry(self, i: int, j: int) -> int:
        """The node of the coefficient of x[j] in equation i."""
        return self.matrix[j][i] if self.is_transposed else self.matrix[i][j]

    def elimination(self, graph: Graph) -> Elimination:
        node = lambda k: Node(graph, k)
        condition = lambda k: Condition(graph, k)
        parts = self.multiples, self.upper, self.reciprocals
        return Elimination(
            _renumbered(self.exchanges, condition), *[_renumbered(x, node) for x in parts]
        )


def solved(
    A: Rows, elimination: Elimination, b: Sequence[Node], is_transposed: bool = False
) -> list[Node]:
    """Returns the solution of A x = b, or A^T x = b, and records the system in the graph."""
    x = elimination.solve_transposed(b) if is_transposed else elimination.solve(b)
    graph = x[0].graph
    numbers = [_numbers(part) for part in (A, b, x, is_transposed, *elimination)]
    if (system := LinearSystem(*numbers)).is_usable(graph):
        graph.systems.append(system)
    return x


class LinearSystems:
    """The usable systems of a graph, by the first node of their solutions. Each node is of one
    solution at most.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.solutions = graph, set[int]()
        self.by_first: dict[int, LinearSystem] = {}
        for system in graph.systems:
            if system.is_usable(graph) and self.solutions.isdisjoint(system.solution):
                self.solutions.update(system.solution)
                self.by_first[min(system.solution)] = system

    def tangents(self, k: int, tangents: Rates) -> Iterator[tuple[int, int, int]]:
        """Yields (node, number, tangent) of the solution that begins at node k."""
        if (system := self.by_first.get(k)) is None:
            return
        operands = chain(system.right, *system.matrix)
        numbers = sorted({number for a in operands for number in tangents[a]})
        rights = [
            [self._residual(system, i, t, tangents) for i, _ in _rows(system)] for t in numbers
        ]
        for number, x in zip(numbers, self._solve(system, rights, False), strict=True):
            for node, tangent in zip(system.solution, x, strict=True):
                yield node, number, tangent.k

    def _residual(self, system: LinearSystem, i: int, number: int, tangents: Rates) -> Node:
        """Returns db - dA x of equation i."""
        g = self.graph
        total = tangents[system.right[i]].get(number, g.constant(0.0))
        for j, x in _rows(system):
            if (rate := tangents[system.entry(i, j)].get(number)) is not None:
                total = g.sub(total, g.mul(rate, x))
        return Node(g, total)

    def adjoints(
        self, k: int, adjoints: Rates, active: Sequence[int]
    ) -> Iterator[tuple[int, int, int]]:
        """Yields (node, number, share of its adjoint) of the operands of the solution that begins
        at node k, as far as they are active: y of b and -y x^T of A, where A^T y is the adjoint
        of x.
        """
        if (system := self.by_first.get(k)) is None:
            return
        g, zero = self.graph, self.graph.constant(0.0)
        numbers = sorted({number for x in system.solution for number in adjoints[x]})
        rights = [[Node(g, adjoints[x].get(t, zero)) for x in system.solution] for t in numbers]
        for number, y in zip(numbers, self._solve(system, rights, True), strict=True):
            for i, share in enumerate(y):
                if active[system.right[i]]:
                    yield system.right[i], number, share.k
                for j, x in _rows(system):
                    if active[a := system.entry(i, j)]:
                        yield a, number, g.neg(g.mul(share.k, x))

    def _solve(
        self, system: LinearSystem, rights: list[list[Node]], transposed: bool
    ) -> list[list[Node]]:
        """Returns the solutions for several right sides; for more than rows, by the inverse."""
        n, elimination = len(system.right), system.elimination(self.graph)
        A: Rows = _renumbered(system.matrix, lambda k: Node(self.graph, k))
        solution = lambda b: solved(A, elimination, b, system.is_transposed != transposed)
        if len(rights) <= n:
            return [solution(b) for b in rights]
        one, zero = (Node(self.graph, self.graph.constant(x)) for x in (1.0, 0.0))
        columns = [solution([one if i == j else zero for i in range(n)]) for j in range(n)]
        return [_combined(columns, b) for b in rights]


def _rows(system: LinearSystem) -> Iterator[tuple[int, int]]:
    """Returns the entries of x, as (index, node)."""
    return iter(enumerate(system.solution))


def _combined(columns: Sequence[Sequence[Node]], factors: Sequence[Node]) -> list[Node]:
    total = [x * factors[0] for x in columns[0]]
    for column, factor in zip(columns[1:], factors[1:], strict=True):
        total = [x + y * factor for x, y in zip(total, column, strict=True)]
    return total
