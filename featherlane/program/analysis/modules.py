"""The modules of an outlined program, and their classes: modules that one circuit can compute by
time-multiplexing.

Two modules are of one class if they do the same operations on the same pattern of operands. Values
of constants and signs of operands and results are not compared: the circuit reads both as data.
Equal limbs, and mirrored ones, share their classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from featherlane.program.cost import kinds_of
from featherlane.program.graph import Graph
from featherlane.program.passes.isomorphism import Terms
from featherlane.program.program import Program, Y


class Submodule(NamedTuple):
    """A call of an outlined program: its tag, its function's graph, and its operands and results,
    nodes of main.
    """

    tag: Any
    graph: Graph
    operands: tuple[int, ...]
    results: tuple[int, ...]

    @property
    def multiplications(self) -> int:
        kinds = kinds_of(self.graph)
        return kinds["mul"] + kinds["fma"]


class ModuleClass(NamedTuple):
    """Modules that are equal except for constants and signs. size: the operations of each, without
    signs.
    """

    members: tuple[Submodule, ...]
    size: int

    @property
    def multiplications(self) -> int:
        """The multiplications of each member."""
        return self.members[0].multiplications


def modules_of(program: Program) -> list[Submodule]:
    """Returns the calls of a program in their order."""
    main = program.main
    return [
        Submodule(main.tag[k], program.functions[main.value[k]].graph, args, tuple(main.results(k)))
        for k, (op, args) in enumerate(zip(main.op, main.args, strict=True))
        if op == "call"
    ]


def classes(modules: Iterable[Submodule]) -> list[ModuleClass]:
    """Returns the classes of modules, in the order of their first members."""
    # The canonical form of each form in the order of its graph: canonical orders are costly
    forms: dict[Form, Form] = {}
    members: dict[Form, list[Submodule]] = {}
    for module in modules:
        pattern = Pattern.of(module.graph)
        plain = pattern.form(range(len(pattern.labels)))
        if plain not in forms:
            forms[plain] = pattern.form(canonical_order(pattern))
        members.setdefault(forms[plain], []).append(module)
    return [
        ModuleClass(tuple(equal), sum(bool(operands) for _, operands in form))
        for form, equal in members.items()
    ]


CONSTANT = -1
Label = tuple[str, int, int]
Form = tuple[tuple[Label, tuple[int, ...]], ...]


class Pattern(NamedTuple):
    """The operations of a graph without constants and signs.

    labels: of each node its operation, the number of times that it is a result, and the number of
    its leading operands that commute. operands: nodes, or CONSTANT.
    """

    labels: list[Label]
    operands: list[tuple[int, ...]]

    @classmethod
    def of(cls, graph: Graph) -> Pattern:
        terms = Terms(graph)
        inputs = graph.nodes_of("input")
        number = {k: n for n, k in enumerate([*inputs, *terms.of])}
        results = [number[terms.plain[k][0]] for k in graph.outputs[Y].nodes]
        labels: list[Label] = [("input", results.count(number[k]), 0) for k in inputs]
        operands: list[tuple[int, ...]] = [() for _ in inputs]
        for k, term in terms.of.items():
            labels.append((term.op, results.count(number[k]), term.exchangeable))
            operands.append(tuple(number.get(a, CONSTANT) for a, _ in term.operands))
        return cls(labels, operands)

    def form(self, order: Iterable[int]) -> Form:
        """Returns the nodes in an order, with operands by their positions in it. Graphs with equal
        forms have equal patterns: the orders map one to the other.
        """
        order = list(order)
        position = {k: n for n, k in enumerate(order)} | {CONSTANT: CONSTANT}
        return tuple((self.labels[k], self._operands(k, position)) for k in order)

    def _operands(self, k: int, position: dict[int, int]) -> tuple[int, ...]:
        operands, n = [position[a] for a in self.operands[k]], self.labels[k][2]
        return (*sorted(operands[:n]), *operands[n:])

    def links(self) -> list[list[tuple[int, int]]]:
        """Returns for each node its operands and users, as (role, node). Operands have roles from 0
        up, the same role if they commute; users have roles from -1 down.
        """
        links: list[list[tuple[int, int]]] = [[] for _ in self.labels]
        for k, operands in enumerate(self.operands):
            for position, a in enumerate(operands):
                role = 0 if position < self.labels[k][2] else position
                if a != CONSTANT:
                    links[k].append((role, a))
                    links[a].append((-1 - role, k))
        return links


def canonical_order(pattern: Pattern) -> list[int]:
    """Returns the nodes in an order that does not depend on their numbers, except among nodes that
    nothing distinguishes.

    By colour refinement (McKay, Practical graph isomorphism, 1981): nodes of one colour whose
    neighbours differ in colour get different colours; where all neighbours agree, one node is
    individualised. If two such nodes are not equivalent after all, equal patterns may get different
    orders and count as two classes. Patterns that differ never count as one class.
    """
    cells, colour = _Cells(pattern), 0
    while colour < len(cells.nodes):
        if len(cells.nodes[colour]) > 1:
            cells.individualise_one(colour)
        else:
            colour += 1
    return [k for (k,) in cells.nodes]


class _Cells:
    """The nodes of each colour. Colours depend on the pattern alone, not on numbers of nodes."""

    def __init__(self, pattern: Pattern) -> None:
        labels = [(*label, ops.count(CONSTANT)) for label, ops in zip(*pattern, strict=True)]
        self.links = pattern.links()
        self.colour = [0] * len(labels)
        self.nodes = [list(range(len(labels)))]
        self._split(0, labels.__getitem__)
        self._refine(range(len(labels)))

    def individualise_one(self, colour: int) -> None:
        one = self.nodes[colour][0]
        self._refine(self._split(colour, one.__eq__))

    def _refine(self, changed: Iterable[int]) -> None:
        """Splits colours until all nodes of one have neighbours of the same colours."""
        while changed:
            touched = sorted({self.colour[b] for k in changed for _, b in self.links[k]})
            changed = [k for colour in touched for k in self._split(colour, self._around)]

    def _around(self, k: int) -> tuple[tuple[int, int], ...]:
        return tuple(sorted((role, self.colour[b]) for role, b in self.links[k]))

    def _split(self, colour: int, key: Callable[[int], Any]) -> list[int]:
        """Gives nodes with different keys different colours, and returns the nodes with a new
        colour: all but the largest group of one key, which keeps the old colour.
        """
        parts: dict[Any, list[int]] = {}
        for k in self.nodes[colour]:
            parts.setdefault(key(k), []).append(k)
        ordered = [parts[x] for x in sorted(parts)]
        ordered.remove(largest := max(ordered, key=len))
        self.nodes[colour] = largest
        for part in ordered:
            for k in part:
                self.colour[k] = len(self.nodes)
            self.nodes.append(part)
        return [k for part in ordered for k in part]
