"""Clusters that become alike: shifts, reciprocals and comparisons of many formats become those of
one, so that one circuit serves all of them.

A value and the same integer in another format differ by a power of two alone. So a shift may read
any integer as if it had the common format, if its exponent has a constant more; the exponent of a
number in another format is another one by a constant, which shifts subtract again; and both sides
of a comparison may move alike. Values in other formats are products with constant powers of two
that keep all bits, as aligned operands (`align`) are, and take wires.

No bit of any other node changes: an addition of a constant to an exponent, and operands with more
bits of their sign, are all that circuits of several formats need for being one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from featherlane.backends.fixed.align import aligned_from
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.program.graph import Graph
from featherlane.program.op import CONDITIONS
from featherlane.program.rewrite import placed

SHIFT = Format(10, 0)  # of an exponent with a constant more


def alike(datapath: Datapath) -> Datapath:
    """Returns a datapath with the same integers, in which shifts, the exponents that they read and
    comparisons have common formats.
    """
    return _Unifier(datapath).unified()


class _Unifier:
    """The new graph. place: of nodes of the source; more: what the new exponent of a node is more
    than the old one.
    """

    def __init__(self, datapath: Datapath) -> None:
        self.source, self.graph = datapath, Graph()
        self.formats, self.place = list[Format | None](), dict[int, int]()
        self.more = dict[int, int]()
        self.known = dict[tuple[int, Format], int]()  # values in other formats
        graph = datapath.graph
        self.graph.inputs = dict(graph.inputs)
        self.exponents = _hidden(graph)
        self.normal = {graph.args[k][1] for k in graph.nodes_of("div")}
        shifts = [k for k in range(len(graph)) if self._is_shift(k)]
        self.common = _common(datapath, (graph.args[k][self._place(k)] for k in shifts))
        self.results = _common(datapath, shifts)
        exponents = (graph.args[k][0] for k in graph.nodes_of("exponent"))
        self.of_exponents = _common(datapath, exponents)
        compared = (a for k in range(len(graph)) if self._compares(k) for a in graph.args[k])
        self.compared = _common(datapath, compared)

    def _compares(self, k: int) -> bool:
        """Whether a node compares two numbers that are not constants."""
        graph = self.source.graph
        constants = [a for a in graph.args[k] if graph.op[a] == "constant"]
        return graph.op[k] in CONDITIONS and not constants

    def _power(self, k: int) -> int | None:
        """The power of two that a shift reads, if its exponent is one that only shifts see."""
        graph = self.source.graph
        if graph.op[k] != "mul":
            return None
        powers = [a for a in graph.args[k] if graph.op[a] == "power_of_two"]
        hidden = len(powers) == 1 and graph.args[powers[0]][0] in self.exponents
        return powers[0] if hidden else None

    def _place(self, k: int) -> int:
        """The position of the number that a shift reads."""
        return int(self.source.graph.args[k][0] == self._power(k))

    def _is_shift(self, k: int) -> bool:
        return self._power(k) is not None and not self._normalises(k)

    def _normalises(self, k: int) -> bool:
        """Whether a shift normalises a divisor by its exponent."""
        graph, power = self.source.graph, self._power(k)
        if power is None or k not in self.normal:
            return False
        (negative,) = graph.args[power]
        of = graph.args[negative][0] if graph.op[negative] == "neg" else -1
        is_own = graph.op[of] == "exponent" and graph.args[of][0] == self._number(k)
        return of in self.exponents and is_own

    def _number(self, k: int) -> int:
        """The number that a shift reads."""
        return self.source.graph.args[k][self._place(k)]

    # The new graph

    def unified(self) -> Datapath:
        """Enters all nodes."""
        graph = self.source.graph
        for k, op in enumerate(graph.op):
            if op == "power_of_two" and graph.args[k][0] in self.exponents:
                continue  # each reader has one
            self.place[k] = self._entered(k)
        self.graph.outputs = placed(graph.outputs, self.place)
        fused = frozenset(self.place[k] for k in self.source.fused)
        return Datapath(self.graph, tuple(self.formats), fused)

    def _entered(self, k: int) -> int:
        graph, op = self.source.graph, self.source.graph.op[k]
        args = graph.args[k]
        if self._is_shift(k):
            return self._shift(k)
        if self._normalises(k):
            power = self._node(k, "power_of_two", [self._exponent(k)], SHIFT)
            number = self._moved(self._number(k), self.of_exponents)
            return self._node(k, "mul", [number, power], self.source.formats[k])
        if op == "exponent" and k in self.exponents:
            number = self._moved(args[0], self.of_exponents)
            form = self.formats[number]
            assert form is not None, "a number has a format"
            self.more[k] = self.source.format(args[0]).fraction - form.fraction
            return self._node(k, op, [number], SHIFT)
        if k in self.exponents:
            a, *others = (self.more.get(x, 0) for x in args)
            more = {"add": sum([a, *others]), "sub": a - sum(others), "neg": -a}
            self.more[k] = more[op]
            return self._node(k, op, [self.place[x] for x in args], SHIFT)
        if self._compares(k) and not any(self._is_moved(self.place[a]) for a in args):
            fraction = self.source.format(args[0]).fraction
            moved = [
                self._moved(
                    a, Format(self.compared.width, self.source.format(a).fraction - fraction)
                )
                for a in args
            ]
            return self._node(k, op, moved, None)
        form = self.source.formats[k]
        if aligned_from(graph, k) is not None and self._is_moved(self.place[args[0]]):
            assert form is not None, "a number has a format"
            dropped = self.source.format(args[0]).fraction - form.fraction
            return self._in_format(k, self.graph.args[self.place[args[0]]][0], form, dropped)
        return self._node(k, op, [self.place[a] for a in args], form)

    def _exponent(self, k: int) -> int:
        """The new exponent that a shift reads."""
        power = self._power(k)
        assert power is not None, "a shift has a power"
        return self.place[self.source.graph.args[power][0]]

    def _shift(self, k: int) -> int:
        """A shift between the common formats."""
        power, of = self._power(k), self._number(k)
        assert power is not None, "a shift has a power"
        number = self._moved(of, self.common)
        form = self.formats[number]
        assert form is not None, "a number has a format"
        moves = self.source.format(k).fraction - self.source.format(of).fraction
        moves += form.fraction - self.results.fraction
        moves -= self.more.get(self.source.graph.args[power][0], 0)
        constant = self._node(k, "constant", [], SHIFT, float(moves))
        total = self._node(k, "add", [self._exponent(k), constant], SHIFT)
        exact = self._node(k, "power_of_two", [total], SHIFT)
        result = self._node(k, "mul", [number, exact], self.results)
        return self._in_format(k, result, self.source.format(k), 0)

    def _is_moved(self, new: int) -> bool:
        return aligned_from(self.graph, new) is not None

    def _moved(self, k: int, form: Format) -> int:
        """The integer of a node in another format, of as many bits or more."""
        new = self.place[k]
        constant = self.graph.op[new] == "constant"
        if constant or self._is_moved(new) or self.formats[new] == form:
            return new
        if (new, form) not in self.known:
            self.known[new, form] = self._in_format(k, new, form, 0)
        return self.known[new, form]

    def _in_format(self, k: int, new: int, form: Format, dropped: int) -> int:
        """A value of the new graph in another format, without its last bits."""
        of = self.formats[new]
        assert of is not None, "a number has a format"
        exponent = float(of.fraction - dropped - form.fraction)
        constant = self._node(k, "constant", [], SHIFT, exponent)
        power = self._node(k, "power_of_two", [constant], SHIFT)
        return self._node(k, "mul", [new, power], form)

    def _node(
        self, k: int, op: str, args: Iterable[int], form: Format | None, value: Any = None
    ) -> int:
        """Enters a node with the tag of node k of the source, and its value if it is the same."""
        graph = self.source.graph
        value = graph.value[k] if value is None and graph.op[k] == op else value
        for column, x in zip(
            (self.graph.op, self.graph.args, self.graph.value, self.graph.tag, self.formats),
            (op, tuple(args), value, graph.tag[k], form),
            strict=True,
        ):
            column.append(x)  # type: ignore[attr-defined]
        return len(self.formats) - 1


def _common(datapath: Datapath, nodes: Iterable[int]) -> Format:
    """A format with as many bits as that of any of the nodes."""
    width = max((datapath.format(k).width for k in nodes), default=2)
    return Format(width, width - 2)


def _hidden(graph: Graph) -> set[int]:
    """The exponents, and sums of them, that nothing but powers of two reads, or other such sums, if
    nothing but products of numbers reads these powers.
    """
    uses = graph.uses()
    seen = {k for out in graph.outputs.values() for k in out.nodes}
    for k in graph.nodes_of("power_of_two"):
        for n in uses[k]:
            if graph.op[n] != "mul" or graph.args[n].count(k) > 1:
                seen.add(k)
    hidden = {*graph.nodes_of("exponent")}
    constants = {*graph.nodes_of("constant")}
    for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
        if op in ("add", "sub", "neg") and hidden & {*args} and {*args} <= hidden | constants:
            hidden.add(k)
    blind = {*graph.nodes_of("power_of_two")} - seen
    blind |= hidden - {*graph.nodes_of("exponent")}  # sums do not see what they add
    while True:  # what is seen shows what it is computed from
        open_ = {k for k in hidden if k in seen or not blind.issuperset(uses[k])}
        open_ |= {a for k in open_ for a in graph.args[k] if a in hidden}
        if not open_:
            return hidden
        hidden -= open_
        blind -= open_
