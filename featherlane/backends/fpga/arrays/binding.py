"""On which of an array's multipliers each product is computed: those of one multiplier read few
different registers, since a multiplexer in front of it grows with what it chooses from.

A schedule says in which cycle a product starts, and any of the multipliers of its kind will do
there. Phase by phase products go to the multipliers that read their operands in other phases
already, those that save most bits first; and again, until each phase has seen all others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.arrays.schedule import Array
from featherlane.program.analysis.pipeline import Pipeline

ROUNDS = 2  # through all phases: in the next ones less than 1 % is saved
Source = Hashable  # a node, and the register that a product reads of it


class _Product(NamedTuple):
    """A product. operands: what both ports of a multiplier read, the wider one first; widths: their
    bits. turns: whether they may come the other way round.
    """

    node: int
    operands: tuple[Source, Source]
    widths: tuple[int, int]
    turns: bool


class _Place(NamedTuple):
    """A product on a multiplier. saves: bits of operands that it reads there in other phases;
    turned: whether operands are exchanged.
    """

    saves: int
    unit: int
    turned: bool


def bound(array: Array) -> Array:
    """Returns the array with its products on other multipliers, in the same cycles."""
    pipeline, datapath = array.pipeline, array.datapath
    if pipeline.interval == 1:
        return array
    groups: defaultdict[Hashable, list[_Product]] = defaultdict(list)
    for k, operator in enumerate(pipeline.operators):
        if operator is not None and operator.shared and pipeline.graph.op[k] == "mul":
            groups[pipeline.pool[k], operator.kind].append(_product(datapath, pipeline, k))
    units, args = [*pipeline.unit], [*pipeline.graph.args]
    for products in groups.values():
        for k, place in _Binding(pipeline, products).placed().items():
            units[k] = place.unit
            if place.turned:
                args[k] = args[k][::-1]
    graph = pipeline.graph.replaced(args=args)
    found = replace(pipeline, graph=graph, unit=tuple(units))
    found.verify()
    return replace(array, datapath=replace(datapath, graph=graph), pipeline=found)


def _product(datapath: Datapath, pipeline: Pipeline, k: int) -> _Product:
    graph, start = datapath.graph, pipeline.start[k]
    number = lambda a: graph.op[a] == "constant"
    source = lambda a: (a, None if number(a) else pipeline.register(a, start))
    # constants, cut to the bits that count, are the narrower ones
    width = lambda a: 0 if number(a) else datapath.format(a).width
    first, second = graph.args[k]
    turns = width(first) == width(second)
    if width(first) < width(second):
        first, second = second, first
    return _Product(k, (source(first), source(second)), (width(first), width(second)), turns)


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

    def _place_again(self, products: Sequence[_Product]) -> None:
        """Places the products of a phase, where all others stay."""
        for product in products:
            self._put(product, self.place[product.node], -1)
        before = {product.node: self.place.pop(product.node) for product in products}
        offers = [(place, n) for n, own in enumerate(products) for place in self._places(own)]
        offers.sort(key=lambda offer: -offer[0].saves)
        free = set(range(self.count))
        for place, n in offers:
            if place.unit in free and products[n].node not in self.place:
                free.remove(place.unit)
                self._put(products[n], place)
        for product in products:
            if product.node not in self.place:
                own = before[product.node]
                unit = own.unit if own.unit in free else min(free)
                free.remove(unit)
                self._put(product, own._replace(unit=unit, saves=0))

    def _places(self, product: _Product) -> Iterator[_Place]:
        """Yields the units that read an operand of a product already."""
        for unit in {u for own in product.operands for u in self.readers[own]}:
            ways = [_Place(self._saved(product, unit, turned), unit, turned)
                    for turned in (False, True)[: 1 + product.turns]]  # fmt: skip
            yield max(ways, key=lambda place: (place.saves, not place.turned))

    def _saved(self, product: _Product, unit: int, turned: bool) -> int:
        operands = product.operands[::-1] if turned else product.operands
        ports = zip(self.read[unit], operands, product.widths, strict=True)
        return sum(width for read, own, width in ports if read[own])

    def _put(self, product: _Product, place: _Place, times: int = 1) -> None:
        """Notes a product in its place; or takes it away, -1 times."""
        operands = product.operands[::-1] if place.turned else product.operands
        for read, own in zip(self.read[place.unit], operands, strict=True):
            read[own] += times
            self.readers[own][place.unit] += times
            if not self.readers[own][place.unit]:
                del self.readers[own][place.unit]
        if times > 0:
            self.place[product.node] = place
