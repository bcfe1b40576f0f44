"""On which of the shared multipliers each product of a pipeline is computed.

A schedule says in which cycle a product starts, and any of the multipliers will do there that has
no other product in that phase. A multiplexer in front of a multiplier grows with the registers that
it chooses from, and wires with the modules that these lie in: products that read the same
registers, or are of the same module, go to the same multiplier. Starting from the numbers of the
schedule, products of one phase are exchanged as long as that saves something.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.program.analysis.pipeline import Pipeline

ROUNDS = 4  # through all phases: later ones save less than 1 %
# Bits of a multiplexer that a module more is worth. Of the iiwa14's forward dynamics at interval 16
# multiplexers choose from a quarter fewer bits with 0, and a sixth fewer with 30, but multipliers
# then serve 40 % fewer modules
MODULE = 30
Source = tuple[Hashable, int]  # a node and the register that is read of it; a number for constants


class _Product(NamedTuple):
    """A product. operands: the sources at both ports, the wider one first; widths: their bits;
    can_swap: whether they may come the other way round; module: the call that it is of.
    """

    operands: tuple[Source, Source]
    widths: tuple[int, int]
    can_swap: bool
    module: Hashable

    def reads(self, swapped: bool) -> Iterator[tuple[Hashable, int]]:
        """The sources by port, and the module, with the bits that each counts."""
        first, second = self.operands[::-1] if swapped else self.operands
        yield (0, first), self.widths[0]
        yield (1, second), self.widths[1]
        yield self.module, MODULE


class _Place(NamedTuple):
    """The multiplier of a product. swapped: whether its operands are exchanged."""

    unit: int
    swapped: bool


def bound(datapath: Datapath, pipeline: Pipeline) -> tuple[Datapath, Pipeline]:
    """Returns a datapath with some operands of products exchanged, and its pipeline with products
    on other multipliers, in the same cycles.
    """
    if pipeline.interval == 1:
        return datapath, pipeline
    places = dict[int, _Place]()
    for nodes in shared_products(pipeline):
        places |= _Binding(datapath, pipeline, nodes).improved()
    return moved(datapath, pipeline, places)


def shared_products(pipeline: Pipeline) -> Iterable[list[int]]:
    """The products that any multiplier of some may compute, for each pool and kind of these."""
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for k, operator in enumerate(pipeline.operators):
        if operator is not None and operator.shared and pipeline.graph.op[k] == "mul":
            groups[pipeline.pool[k], operator.kind].append(k)
    return groups.values()


def moved(
    datapath: Datapath, pipeline: Pipeline, places: Mapping[int, tuple[int, bool]]
) -> tuple[Datapath, Pipeline]:
    """Returns both with products on other multipliers, in the same cycles. places: of each product
    its multiplier, and whether its operands are exchanged.
    """
    units, args = [*pipeline.unit], [*pipeline.graph.args]
    for k, (unit, swapped) in places.items():
        units[k] = unit
        if swapped:
            args[k] = args[k][::-1]
    graph = pipeline.graph.replaced(args=args)
    rebound = replace(pipeline, graph=graph, unit=tuple(units))
    rebound.verify()
    return replace(datapath, graph=graph), rebound


def _product(datapath: Datapath, pipeline: Pipeline, k: int) -> _Product:
    graph = datapath.graph

    def source(a: int) -> Source:
        number = graph.number(a)
        return (number, 0) if number is not None else (f"node {a}", _register(pipeline, a, k))

    def width(a: int) -> int:  # of constants few bits go through multiplexers
        return 2 if graph.op[a] == "constant" else datapath.format(a).width

    first, second = graph.args[k]
    can_swap = width(first) == width(second)
    if width(first) < width(second):
        first, second = second, first
    module = f"module {getattr(graph.tag[k], 'call', 0)}"
    sources, widths = (source(first), source(second)), (width(first), width(second))
    return _Product(sources, widths, can_swap, module)


def _register(pipeline: Pipeline, a: int, k: int) -> int:
    return pipeline.register(a, pipeline.start[k])


class _Binding:
    """The products of one kind on their multipliers."""

    def __init__(self, datapath: Datapath, pipeline: Pipeline, nodes: Sequence[int]) -> None:
        self.products = {k: _product(datapath, pipeline, k) for k in nodes}
        self.place = {k: _Place(pipeline.unit[k], False) for k in nodes}
        count = 1 + max(place.unit for place in self.place.values())
        self.read = [Counter[Hashable]() for _ in range(count)]  # of each unit, how often
        self.readers: defaultdict[Hashable, set[int]] = defaultdict(set)  # the units
        self.phases: defaultdict[int, dict[int, int]] = defaultdict(dict)  # nodes by unit
        for k, place in self.place.items():
            self.phases[pipeline.start[k] % pipeline.interval][place.unit] = k
            self._note(k, place, 1)

    def improved(self) -> dict[int, _Place]:
        """Returns the place of each product, by its node."""
        for _ in range(ROUNDS):
            if not sum(self._exchanged(phase) for phase in self.phases.values()):
                break
        return self.place

    def _exchanged(self, phase: dict[int, int]) -> int:
        """Moves products of a phase to units that read more of what they read, and the products of
        those units to theirs. Returns how many were moved.
        """
        moved = 0
        for k in [*phase.values()]:
            for unit in self._units_alike(k):
                if self._exchange(phase, k, unit):
                    moved += 1
                    break
        return moved

    def _units_alike(self, k: int) -> list[int]:
        """The other units that read something that a product reads."""
        ways = (False, True)[: 1 + self.products[k].can_swap]
        names = {name for swapped in ways for name, _ in self.products[k].reads(swapped)}
        units = {unit for name in names for unit in self.readers[name]}
        return sorted(units - {self.place[k].unit})

    def _exchange(self, phase: dict[int, int], k: int, unit: int) -> bool:
        """Exchanges a product with that of a unit, if there is one in its phase. Returns False, and
        leaves all as it was, if that does not save anything.
        """
        before, other = self.place[k], phase.get(unit)
        there = None if other is None else self.place[other]
        cost = self._taken(k) + (0 if other is None else self._taken(other))
        now, then = self._best(k, unit), None if other is None else self._best(other, before.unit)
        saves = now[0] + (then[0] if then else 0) < cost
        self._note(k, now[1] if saves else before, 1)
        if other is not None and there is not None and then is not None:
            self._note(other, then[1] if saves else there, 1)
        if saves:
            phase[unit] = k
            if other is None:
                del phase[before.unit]
            else:
                phase[before.unit] = other
        return saves

    def _taken(self, k: int) -> int:
        """Takes a product from its unit, and returns the bits that this saves."""
        place = self.place[k]
        self._note(k, place, -1)
        return self._cost(k, place)

    def _best(self, k: int, unit: int) -> tuple[int, _Place]:
        """The bits that a product adds to a unit, and how."""
        ways = (_Place(unit, False), _Place(unit, True))[: 1 + self.products[k].can_swap]
        return min((self._cost(k, place), place) for place in ways)

    def _cost(self, k: int, place: _Place) -> int:
        read = self.read[place.unit]
        return sum(bits for name, bits in self.products[k].reads(place.swapped) if not read[name])

    def _note(self, k: int, place: _Place, times: int) -> None:
        """Counts what a product reads at a place; with times=-1, takes it from there."""
        read = self.read[place.unit]
        for name, _ in self.products[k].reads(place.swapped):
            read[name] += times
            if read[name]:
                self.readers[name].add(place.unit)
            else:
                self.readers[name].discard(place.unit)
        if times > 0:
            self.place[k] = place
