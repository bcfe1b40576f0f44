"""Alignment: the products of a sum get one fraction, so that an accumulator adds them as they are.

Where formats differ, products of one sum have different fractions. The fraction of the sum is the
smallest one; the other products have an operand that drops places, which bits of the sum below what
its result keeps stand for. Dropping places costs wires, or an input of a multiplexer where others
read the whole value. So a value of which all readers drop places is rounded there itself, and what
is left is done by *aligned* operands: products with a power of two that is a constant, rounded down
(`datapath`). Constants have the fraction that each reader wants. Values of many bits that many
products read have fractions that are multiples of `GRID`, so that few numbers of places occur.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import ceil, log2, prod
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.program.graph import Graph
from featherlane.program.rewrite import placed, renumbered

GUARD = 2  # places of an addend below the last place of the sum's result, at least
LEAST = 2  # bits of a format
GRID, READERS, WIDE = 4, 8, 24  # of a value with so many readers and bits, or more
CANCELLED = GRID + 4  # places of a product below the result, at least: fewer are mostly rounding
ERROR = 4  # last places that an operand may be wrong
SUM = 48  # bits of a sum up to the last one of its result, as accumulators have
WHOLE = 2, 4  # places that one narrow or wide operand of a product drops alone; else each half
EXPONENT = Format(8, 0)


class Operands(NamedTuple):
    """The place where a run reads a term: a product, with two operands, or a sum, with the position
    of one that is no product.
    """

    node: int
    places: tuple[int, ...]


def aligned(
    datapath: Datapath,
    runs: Mapping[int, Sequence[Operands]],
    parts: Sequence[str] | None = None,
) -> Datapath:
    """Returns a datapath in which the products of each run have one fraction, and its other terms
    this one or a smaller one. runs: the terms of each root; parts: of nodes, if there are several.
    """
    alignment = _Alignment(datapath, runs)
    alignment.lower()
    return alignment.rebuilt(parts or [""] * len(datapath.graph))


def shift_of(datapath: Datapath, k: int) -> int | None:
    """The places that an aligned operand drops; None for any other node."""
    graph = datapath.graph
    if (a := aligned_from(graph, k)) is None:
        return None
    exponent = round(graph.value[graph.args[graph.args[k][1]][0]])
    return datapath.format(a).fraction - exponent - datapath.format(k).fraction


def aligned_from(graph: Graph, k: int) -> int | None:
    """The node of which an aligned operand has bits; None for any other node."""
    if graph.op[k] != "mul" or graph.op[graph.args[k][1]] != "power_of_two":
        return None
    a, power = graph.args[k]
    return a if graph.op[graph.args[power][0]] == "constant" else None


class _Alignment:
    """The fractions of values and of runs. A value of fewer places has as many bits fewer."""

    def __init__(self, datapath: Datapath, runs: Mapping[int, Sequence[Operands]]) -> None:
        self.datapath, self.graph, self.runs = datapath, datapath.graph, runs
        self.fraction = {k: form.fraction for k, form in enumerate(datapath.formats) if form}
        widths = [datapath.format(k).width for root in runs for k in (root, *self._read(root))]
        self.most = max(widths, default=LEAST) - 2  # places that a power of two moves an addend
        divisors = {k for n in self.graph.nodes_of("div") for k in (n, self.graph.args[n][1])}
        self.normalised = divisors - {*self.graph.nodes_of("constant")}
        self._hold_rounding()
        self._coarsen()
        self.of_run = {root: self._fraction_of(root) for root in sorted(runs)}
        self.first = dict(self.fraction)  # before values drop places

    def _values(self, term: Operands) -> list[int]:
        """The nodes that a term reads."""
        return [self.graph.args[term.node][place] for place in term.places]

    def _read(self, root: int) -> Iterable[int]:
        return (k for term in self.runs[root] for k in self._values(term))

    def _is_constant(self, k: int) -> bool:
        return self.graph.op[k] == "constant"

    def _fraction_of(self, root: int) -> int:
        """The fraction of a run; its result has no more places."""
        products, addends = list[int](), list[int]()
        for term in self.runs[root]:
            values = self._values(term)
            if len(values) > 1:
                products.append(sum(self.fraction[k] for k in values))
            elif not self._is_constant(values[0]):
                addends.append(self.fraction[values[0]])
        whole = min(products, default=max([*addends, self.fraction[root]]))
        room = self.fraction[root] + SUM - self.datapath.format(root).width
        fraction = min([whole, room, *(n + self.most for n in addends)])
        self.fraction[root] = min(self.fraction[root], fraction)
        return fraction

    # Results in which products cancel

    def _hold_rounding(self) -> None:
        """Takes places from results that are smaller than what errors of the operands of their
        products can make, as those that are 0 but for rounding: their format was fitted to the
        rounding of other states. So do results of products with these alone.
        """
        taken = dict[int, int]()
        for root, terms in sorted(self.runs.items()):
            form, bound, inherited = self.datapath.format(root), 0.0, list[int]()
            for values in map(self._values, terms):
                bound += sum(self._rounding(values, n) for n in range(len(values)))
                inherited.append(max(taken.get(k, 0) for k in values))
            places = min(inherited)
            if bound > 0:
                places = max(places, ceil(log2(bound)) - (form.width - 1 - self.fraction[root]))
            if places > 0:
                taken[root] = places
                self.fraction[root] -= places

    def _rounding(self, values: Sequence[int], n: int) -> float:
        """The change of a product or a sum by an error of a few last places of operand n."""
        if self._is_constant(values[n]):
            return 0.0
        others = (self.datapath.format(k) for m, k in enumerate(values) if m != n)
        largest = prod(2.0 ** (form.width - 1 - form.fraction) for form in others)
        return largest * ERROR * 2.0 ** -self.fraction[values[n]]

    # Values of which readers drop places

    def _coarsen(self) -> None:
        """Takes up to GRID - 1 places from wide values that many terms read, where formats differ:
        each number of places that readers drop is an input of a multiplexer.
        """
        uses = self._uses()
        if len({self.fraction[k] for k in uses}) < 2:
            return
        first = dict(self.fraction)
        for k, terms in uses.items():
            if len(terms) < READERS or self.datapath.format(k).width < WIDE:
                continue
            if k not in self.normalised and all(
                sum(first[x] for x in self._values(term)) - first[root] >= CANCELLED
                for root, term in terms
            ):
                self.fraction[k] -= self.fraction[k] % GRID

    def lower(self) -> None:
        """Takes places from values, as many as all their readers drop; those that are read most
        often first.
        """
        uses = self._uses()
        queue, changed = sorted(uses, key=lambda k: (-len(uses[k]), k)), True
        while changed:
            changed = False
            for k in queue:
                dropped = min(self._dropped(k, root, term) for root, term in uses[k])
                if dropped > 0:
                    self.fraction[k] -= dropped
                    changed = True

    def _uses(self) -> dict[int, list[tuple[int, Operands]]]:
        """The terms that read each value, for values that products read and only runs."""
        others = {k for out in self.graph.outputs.values() for k in out.nodes}
        inside = {term.node for terms in self.runs.values() for term in terms}
        for k, args in enumerate(self.graph.args):
            if k not in inside:
                others |= {*args}
        uses = defaultdict[int, list[tuple[int, Operands]]](list)
        for root, terms in self.runs.items():
            for term in terms:
                for k in self._values(term):
                    uses[k].append((root, term))
        return {
            k: found
            for k, found in uses.items()
            if k not in others
            and self.graph.op[k] not in ("sin", "cos", "constant")
            and any(len(term.places) > 1 for _, term in found)
        }

    def _dropped(self, k: int, root: int, term: Operands) -> int:
        """The places of a value that a term does not need."""
        run, values = self.of_run[root], self._values(term)
        if len(values) > 1:
            if k not in self.normalised and self.normalised & {*values}:
                return 0
            surplus = sum(self.fraction[x] for x in values) - run
            return min(surplus, self.fraction[k] - self._least(k, root, values))
        needed = max(run - self.most, self.fraction[root] + GUARD)
        return self.fraction[k] - needed

    def _least(self, k: int, root: int, values: Sequence[int]) -> int:
        """The smallest fraction to which a product lowers an operand: where many places are too
        many, each operand drops a half of them, since the bits left of one alone would be few.
        """
        surplus = sum(self.first[x] for x in values) - self.of_run[root]
        is_wide = all(self.datapath.format(x).width >= WIDE for x in values)
        if surplus <= WHOLE[is_wide] or self.normalised & {*values}:
            return self.first[k] - surplus
        return self.first[k] - (surplus + (k == values[0])) // 2

    # The datapath

    def rebuilt(self, parts: Sequence[str]) -> Datapath:
        """The datapath with these fractions and with aligned operands."""
        operands = self._fractions_of_operands()
        if not operands and all(
            form is None or form.fraction == self.fraction[k]
            for k, form in enumerate(self.datapath.formats)
        ):
            return self.datapath
        formats = [form and self._format(k, form) for k, form in enumerate(self.datapath.formats)]
        return _Rebuilt(self.datapath, formats, operands, parts).datapath()

    def _format(self, k: int, form: Format) -> Format:
        """The format of a node. The result of a run keeps its bits, so that results drop as many
        places of their sums where they can, unless the sum would have more bits than two operands.
        """
        narrow = _with_fraction(form, self.fraction[k])
        if k not in self.of_run:
            return narrow
        room = min(2 * form.width + GUARD, SUM) - (self.of_run[k] - narrow.fraction)
        return narrow._replace(width=max(narrow.width, min(form.width, room)))

    def _fractions_of_operands(self) -> dict[tuple[int, int], int]:
        """The fractions of operands that differ from those of what they read, by node and place.

        A product with a constant takes another constant. Of two values, the one drops places that
        is normalised for a reciprocal, since it needs no bits for larger numbers; else the one that
        most products may take from a value that drops as many.
        """
        fractions = dict[tuple[int, int], int]()
        choices = defaultdict[tuple[int, int], list[tuple[int, int]]](list)
        for root, terms in self.runs.items():
            for term in terms:
                decided = self._lowered_operands(root, term)
                if decided is not None:
                    fractions |= {(term.node, place): n for place, n in decided.items()}
                    continue
                surplus = self._surplus(root, term)
                for place, k in zip(term.places, self._values(term), strict=True):
                    choices[k, surplus].append((term.node, place))
        self._add_choices(fractions, choices)
        return fractions

    def _surplus(self, root: int, term: Operands) -> int:
        """The places that a term has more than its run."""
        return sum(self.fraction[k] for k in self._values(term)) - self.of_run[root]

    def _lowered_operands(self, root: int, term: Operands) -> dict[int, int] | None:
        """The fractions of operands of a term that drop places, by the place of the operand; None
        where either of two values may drop them.
        """
        values, surplus = self._values(term), self._surplus(root, term)
        if surplus <= 0:
            return {}
        places = [*zip(term.places, values, strict=True)]
        first = [n for n, k in places if self._is_constant(k)]
        first += [n for n, k in places if k in self.normalised]
        if first or len(values) == 1:
            place = (first or term.places)[0]
            return {place: self.fraction[self.graph.args[term.node][place]] - surplus}
        least = [self._least(k, root, values) for k in values]
        if sum(least) < self.of_run[root]:
            return None
        wanted = min(least[0], self.fraction[values[0]])  # half of each
        halves = zip(places, (wanted, self.of_run[root] - wanted), strict=True)
        return {place: fraction for (place, k), fraction in halves if fraction < self.fraction[k]}

    def _add_choices(
        self,
        fractions: dict[tuple[int, int], int],
        choices: Mapping[tuple[int, int], Sequence[tuple[int, int]]],
    ) -> None:
        """Adds the fractions of operands where either of two values may drop places. choices: by a
        value and a number of places, the operands that would read it so; the one that most products
        may take comes first.
        """
        left = {choice: len(operands) for choice, operands in choices.items()}
        queue = [(-count, -k, -surplus) for (k, surplus), count in left.items()]
        heapify(queue)
        while queue:  # counts become smaller alone
            count, k, surplus = (-x for x in heappop(queue))
            if (now := left[k, surplus]) < count:
                if now:
                    heappush(queue, (-now, -k, -surplus))
                continue
            for node, place in choices[k, surplus]:
                if (node, 1 - place) not in fractions:
                    fractions[node, place] = self.fraction[k] - surplus
                    left[self.graph.args[node][1 - place], surplus] -= 1


class _Rebuilt:
    """A graph of the same nodes with other formats, with aligned operands and further constants
    between them.
    """

    def __init__(
        self,
        datapath: Datapath,
        formats: Sequence[Format | None],
        operands: Mapping[tuple[int, int], int],
        parts: Sequence[str],
    ) -> None:
        """formats, parts: of the nodes; operands: the fractions of aligned ones, by node and
        position.
        """
        self.source, self.changed, self.operands = datapath, formats, operands
        self.parts = parts
        self.graph, self.formats, self.place = Graph(), list[Format | None](), list[int]()
        self.graph.inputs = dict(datapath.graph.inputs)
        self.known = dict[tuple[int, int, str], int]()  # by value, fraction and part
        self.ones = dict[str, int]()  # powers of two, by part

    def datapath(self) -> Datapath:
        """Enters all nodes."""
        graph = self.source.graph
        for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
            operands = [self._operand(k, n, a) for n, a in enumerate(args)]
            self.place.append(
                self._enter(op, operands, graph.value[k], graph.tag[k], self.changed[k])
            )
        self.graph.outputs = placed(graph.outputs, self.place)
        fused = frozenset(self.place[k] for k in self.source.fused)
        return _live(Datapath(self.graph, tuple(self.formats), fused))

    def _enter(
        self, op: str, args: Iterable[int], value: object, tag: object, form: Format | None
    ) -> int:
        for column, entry in zip(
            (self.graph.op, self.graph.args, self.graph.value, self.graph.tag, self.formats),
            (op, tuple(args), value, tag, form),
            strict=True,
        ):
            column.append(entry)  # type: ignore[attr-defined]
        return len(self.formats) - 1

    def _operand(self, k: int, n: int, a: int) -> int:
        """The operand at position n of a node."""
        fraction = self.operands.get((k, n))
        if fraction is None:
            return self.place[a]
        key = a, fraction, self.parts[k]
        if key not in self.known:
            self.known[key] = self._aligned(*key)
        return self.known[key]

    def _aligned(self, a: int, fraction: int, part: str) -> int:
        """A value, or a constant, with another fraction."""
        graph, of = self.source.graph, self.formats[self.place[a]]
        assert of is not None
        form = _with_fraction(of, fraction)
        if graph.op[a] == "constant":
            x = graph.value[a]
            while not form.least <= round(x / form.step) <= form.most:
                form = Format(form.width + 1, fraction)
            return self._enter("constant", (), x, graph.tag[a], form)
        if part not in self.ones:
            zero = self._enter("constant", (), 0.0, None, EXPONENT)
            self.ones[part] = self._enter("power_of_two", (zero,), None, None, EXPONENT)
        return self._enter("mul", (self.place[a], self.ones[part]), None, graph.tag[a], form)


def _with_fraction(form: Format, fraction: int) -> Format:
    """A format for the same range."""
    return Format(max(form.width + fraction - form.fraction, LEAST), fraction)


def _live(datapath: Datapath) -> Datapath:
    """The datapath without constants that nothing reads any more."""
    kept = [k for k, live in enumerate(datapath.graph.live()) if live]
    graph, place = renumbered(datapath.graph, kept, sorts=False)
    formats = tuple(datapath.formats[k] for k in kept)
    return Datapath(graph, formats, frozenset(place[k] for k in datapath.fused))
