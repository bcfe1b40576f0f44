"""On which of an array's multipliers each product is computed: those of one multiplier read few
different registers, since a multiplexer in front of it grows with what it chooses from.

A schedule says in which cycle a product starts, and any of the multipliers of its kind will do
there. Phase by phase products go to the multipliers that read their operands in other phases
already, those that save most bits first; or stand in the order of one operand, where that takes
less, as of columns of a matrix times vectors.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.arrays.schedule import ScheduledArray
from featherlane.backends.fpga.binding import moved, shared_products
from featherlane.program.analysis.pipeline import Pipeline

ROUNDS = 2  # through all phases: in the next ones less than 1 % is saved
NEVER = -2  # the register of a constant
Source = tuple[int, int]  # a node, and the register that a product reads of it


class _Product(NamedTuple):
    """A product. operands: what both ports of a multiplier read, the wider one first; widths: their
    bits. can_swap: whether they may come the other way round.
    """

    node: int
    operands: tuple[Source, Source]
    widths: tuple[int, int]
    can_swap: bool

    def ports(self, swapped: bool) -> tuple[Source, Source]:
        """The operands at both ports."""
        first, second = self.operands
        return (second, first) if swapped else (first, second)


class _Place(NamedTuple):
    """A product on a multiplier. saves: bits of operands that it reads there in other phases;
    swapped: whether operands are exchanged.
    """

    saves: int
    unit: int
    swapped: bool


def bound(array: ScheduledArray) -> ScheduledArray:
    """Returns the array with its products on other multipliers, in the same cycles."""
    pipeline, datapath = array.pipeline, array.datapath
    if pipeline.interval == 1:
        return array
    places = dict[int, tuple[int, bool]]()
    for nodes in shared_products(pipeline):
        binding = _Binding(pipeline, [_product(datapath, pipeline, k) for k in nodes])
        ways = binding.placed(), binding.in_order()
        best = min(ways, key=binding.cost)
        places |= {k: (place.unit, place.swapped) for k, place in best.items()}
    datapath, pipeline = moved(datapath, pipeline, places)
    return replace(array, datapath=datapath, pipeline=pipeline)


def _product(datapath: Datapath, pipeline: Pipeline, k: int) -> _Product:
    graph, start = datapath.graph, pipeline.start[k]
    number = lambda a: graph.op[a] == "constant"
    source = lambda a: (a, NEVER if number(a) else pipeline.register(a, start))
    # constants, cut to the bits that count, are the narrower ones
    width = lambda a: 0 if number(a) else datapath.format(a).width
    first, second = graph.args[k]
    can_swap = width(first) == width(second)
    if width(first) < width(second):
        first, second = second, first
    return _Product(k, (source(first), source(second)), (width(first), width(second)), can_swap)


class _Binding:
    """The products of one kind on their multipliers."""

    def __init__(self, pipeline: Pipeline, products: Sequence[_Product]) -> None:
        self.phases: defaultdict[int, list[_Product]] = defaultdict(list)
        for product in products:
            self.phases[pipeline.start[product.node] % pipeline.interval].append(product)
        self.count = 1 + max(pipeline.unit[product.node] for product in products)
        self.read: list[tuple[Counter[Source], Counter[Source]]] = [
            (Counter(), Counter()) for _ in range(self.count)
        ]  # of each unit, how often its ports read each source
        self.readers: defaultdict[Source, Counter[int]] = defaultdict(Counter)  # the units
        self.place: dict[int, _Place] = {}
        for product in products:
            self._put(product, _Place(0, pipeline.unit[product.node], False))

    def placed(self) -> dict[int, _Place]:
        """Returns the place of each product by its node."""
        for _ in range(ROUNDS):
            for products in self.phases.values():
                self._place_again(products)
        return self.place

    def in_order(self) -> dict[int, _Place]:
        """Returns the places where products with one operand are beside each other in each phase:
        of columns of a matrix times vectors, whose rows then read one multiplexer.
        """
        every = [product.operands for products in self.phases.values() for product in products]
        fewer = min((0, 1), key=lambda port: len({operands[port] for operands in every}))
        order = lambda product: (product.operands[fewer], product.operands[1 - fewer])
        return {
            product.node: _Place(0, unit, False)
            for products in self.phases.values()
            for unit, product in enumerate(sorted(products, key=order))
        }

    def cost(self, places: Mapping[int, _Place]) -> int:
        """The bits of the inputs of multiplexers, of which ports that read the same have one."""
        reads: defaultdict[tuple[int, int], set[tuple[int, Source]]] = defaultdict(set)
        widths: dict[tuple[int, int], int] = {}
        for phase, products in self.phases.items():
            for product in products:
                place = places[product.node]
                for port, source in enumerate(product.ports(place.swapped)):
                    reads[place.unit, port].add((phase, source))
                    widths[place.unit, port] = product.widths[port]
        alike = {(frozenset(source), widths[key]) for key, source in reads.items()}
        return sum(width * (len({x for _, x in source}) - 1) for source, width in alike)

    def _place_again(self, products: Sequence[_Product]) -> None:
        """Chooses places for the products of a phase again, while all others keep theirs."""
        for product in products:
            self._put(product, self.place[product.node], -1)
        before = {product.node: self.place.pop(product.node) for product in products}
        offers = [(x, n) for n, product in enumerate(products) for x in self._places(product)]
        offers.sort(key=lambda offer: -offer[0].saves)
        free = set(range(self.count))
        for place, n in offers:
            if place.unit in free and products[n].node not in self.place:
                free.remove(place.unit)
                self._put(products[n], place)
        for product in products:
            if product.node not in self.place:
                previous = before[product.node]
                unit = previous.unit if previous.unit in free else min(free)
                free.remove(unit)
                self._put(product, previous._replace(unit=unit, saves=0))

    def _places(self, product: _Product) -> Iterator[_Place]:
        """Yields the units that read an operand of a product already."""
        for unit in {u for source in product.operands for u in self.readers[source]}:
            ways = [_Place(self._saved(product, unit, swapped), unit, swapped)
                    for swapped in (False, True)[: 1 + product.can_swap]]  # fmt: skip
            yield max(ways, key=lambda place: (place.saves, not place.swapped))

    def _saved(self, product: _Product, unit: int, swapped: bool) -> int:
        ports = zip(self.read[unit], product.ports(swapped), product.widths, strict=True)
        return sum(width for read, source, width in ports if read[source])

    def _put(self, product: _Product, place: _Place, times: int = 1) -> None:
        """Counts what a product reads at a place; with times=-1, takes it from there."""
        for read, source in zip(self.read[place.unit], product.ports(place.swapped), strict=True):
            read[source] += times
            self.readers[source][place.unit] += times
            if not self.readers[source][place.unit]:
                del self.readers[source][place.unit]
        if times > 0:
            self.place[product.node] = place
