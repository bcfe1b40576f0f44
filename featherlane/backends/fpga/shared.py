"""Units in a module: multipliers, and units for sine, cosine and reciprocals, with the multiplexers
in front of those that are shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from featherlane.backends.fpga.expressions import factor, half, power_operand
from featherlane.backends.fpga.netlist import Netlist
from featherlane.backends.fpga.part import Part
from featherlane.backends.fpga.text import Signal, constant, fitted, moved, signed_width, wrapped
from featherlane.backends.fpga.units.functions import FunctionUnit
from featherlane.backends.fpga.units.multipliers import Multiplier, Tile
from featherlane.backends.fpga.units.post_adder import chain
from featherlane.errors import CompileError

FUNCTIONS = {"sin": "sine", "cos": "cosine", "div": "result"}  # their ports


class Product(NamedTuple):
    """A product on a multiplier: the wider operand first, bits that are dropped at its end, and
    bits of the sum with half up to the highest one that the result keeps. minus: whether it is
    subtracted from what stands in the place of half.
    """

    a: Signal
    b: Signal
    fraction: int
    shift: int
    result: int
    minus: bool = False


class ProductUnit(NamedTuple):
    """A multiplier in a module. operands: the signals at its ports; low: the first bit of the
    result that is read; moving: bits of half that are not the same for all products.
    """

    multiplier: Multiplier
    operands: tuple[str, ...]
    low: int
    moving: int


@dataclass
class Units:
    """The units of a design, noted while it is written."""

    netlist: Netlist
    tile: Tile
    products: list[ProductUnit] = field(default_factory=list)
    functions: list[FunctionUnit] = field(default_factory=list)

    def cycles(self, k: int) -> int:
        """The cycles of a node, with those of the sum on its unit."""
        pipeline = self.netlist.pipeline
        return pipeline.ready(self.netlist.result_of(k)) - pipeline.start[k]

    def takes_unit(self, k: int) -> bool:
        """Whether a node has a unit of its own: a product that is neither a shift nor wires, a
        function.
        """
        op, datapath = self.netlist.graph.op[k], self.netlist.datapath
        if op in FUNCTIONS:
            return True
        if op != "mul" or power_operand(datapath, k) is not None:
            return False
        constant = factor(datapath, k)
        return constant is None or constant[1].odd not in (-1, 0, 1)

    # Products

    def multiply(self, part: Part, k: int) -> None:
        """A multiplier for one product, with its sum if that is fused."""
        constant_operand = factor(self.netlist.datapath, k)
        odd = constant_operand[1].odd if constant_operand else None
        product = self._product(part, k)
        a, b = product.a, product.b
        if a.value is not None:
            a, b = b, a  # the constant is wider
        m = Multiplier(a.width, b.width, product.result, self.cycles(k), odd)
        m = self._adding(m, {k: product})
        signal = self.netlist.signal(self.netlist.result_of(k))
        result = part.declare(Signal(f"{signal.name}_product", m.result))
        ports = {"clock": "clock", "a": a.name}
        if odd is None:
            ports["b"] = b.name
        ports |= {"half": self._half(part, k, product, m).name, "result": result.name}
        part.instance(f"{self.netlist.name}_{m.name}", f"multiply_{signal.name}", ports)
        part.assign(signal, self._fitted(result, product, k), self._what(k))
        names = (a.name,) if odd is not None else (a.name, b.name)
        self._note(m, names, {k: product})

    def share(self, part: Part, name: str, nodes: Sequence[int]) -> None:
        """A unit for several nodes, in each phase for one of them."""
        if self.netlist.graph.op[nodes[0]] in FUNCTIONS:
            self._share_function(part, name, nodes)
        else:
            self._share_multiplier(part, name, nodes)

    def _share_multiplier(self, part: Part, name: str, nodes: Sequence[int]) -> None:
        for k in nodes:
            if (op := self.netlist.graph.op[k]) != "mul" or self._is_shift(k):
                raise CompileError(
                    f"node {k} ({op}) is shared: there are shared units for products, sines, "
                    "cosines and reciprocals alone"
                )
        products = {k: self._product(part, k) for k in nodes}
        m = Multiplier(
            max(p.a.width for p in products.values()),
            max(p.b.width for p in products.values()),
            max(p.result for p in products.values()),
            self._same_cycles(nodes),
        )
        m = self._adding(m, products)
        phases = self._phases(nodes)
        operands = {}
        for port, width in (("a", m.a), ("b", m.b)):
            sources = {phase: getattr(products[k], port) for phase, (k, *_) in phases.items()}
            operands[port] = part.choose(Signal(f"{name}_{port}", width), sources).name
        late = {(phase + m.half_cycle) % part.interval: k for phase, (k, *_) in phases.items()}
        halves = {phase: self._half(part, k, products[k], m) for phase, k in late.items()}
        added = part.choose(Signal(f"{name}_half", m.result), halves)
        result = part.declare(Signal(f"{name}_result", m.result))
        ports = {"clock": "clock", **operands, "half": added.name, "result": result.name}
        if m.adds == "either":
            signs = {phase: _flag(products[k].minus) for phase, k in late.items()}
            ports["minus"] = part.choose(Signal(f"{name}_minus", 1, False), signs).name
        part.instance(f"{self.netlist.name}_{m.name}", name, ports)
        for k in nodes:
            text = self._fitted(result, products[k], k)
            part.assign(self.netlist.signal(self.netlist.result_of(k)), text, self._what(k))
        self._note(m, tuple(operands.values()), products)

    def _adding(self, m: Multiplier, products: Mapping[int, Product]) -> Multiplier:
        """The multiplier with its post-adder, if the device has one that can take its sums. Raises
        CompileError if it has not, but a product is fused.
        """
        signs = {product.minus for product in products.values()}
        adder = m._replace(
            adds="either" if len(signs) > 1 else "minus" if True in signs else "plus"
        )
        if chain(adder, self.tile) is not None:
            return adder
        if fused := sorted(self.netlist.datapath.fused.intersection(products)):
            raise CompileError(f"node {fused[0]} is a fused product: there is no post-adder for it")
        return m

    def _half(self, part: Part, k: int, product: Product, m: Multiplier) -> Signal:
        """The number that a unit adds to a product, or subtracts it from: half and the addend."""
        datapath, total = self.netlist.datapath, self.netlist.result_of(k)
        if total == k:
            return constant(half(product.shift), m.result)
        added = half(product.shift) if datapath.half(total) else 0
        n = datapath.fused_operand(total)
        assert n is not None
        other = datapath.graph.args[total][1 - n]
        c = part.read(other, self.netlist.pipeline.start[total])
        places = product.fraction - datapath.format(other).fraction
        if places < 0:
            raise CompileError(f"node {total}: its addend is finer than its product")
        if c.value is not None:
            return constant(wrapped((c.value << places) + added, m.result), m.result)
        name = f"{self.netlist.signal(total).name}_addend"
        signal = Signal(name, c.width + places, constant=places)
        return part.assign(signal, moved(c, places, added))

    def _note(
        self, m: Multiplier, operands: tuple[str, ...], products: Mapping[int, Product]
    ) -> None:
        unread = self.netlist.unread
        first = [max(p.shift + unread[self.netlist.result_of(k)], 0) for k, p in products.items()]
        halves = {half(p.shift) for p in products.values()}
        moving = len(halves - {0}) if len(halves) > 1 else 0
        self.products.append(ProductUnit(m, operands, min(*first, m.result - 1), moving))

    def _is_shift(self, k: int) -> bool:
        return power_operand(self.netlist.datapath, k) is not None

    def _product(self, part: Part, k: int) -> Product:
        """The product of a node. Of a constant, only the bits from its first to its last one are
        multiplied.
        """
        datapath, start = self.netlist.datapath, self.netlist.pipeline.start[k]
        args = datapath.graph.args[k]
        fraction = sum(datapath.format(a).fraction for a in args)
        if (constant_operand := factor(datapath, k)) is not None:
            n, (odd, places) = constant_operand
            width = max(signed_width(odd), 2)
            signals = [part.read(args[1 - n], start), constant(odd, width)]
            fraction -= places
        else:
            signals = [part.read(a, start) for a in args]
        signals.sort(key=lambda signal: -signal.width)
        total = self.netlist.result_of(k)
        to = datapath.format(total)
        shift = fraction - to.fraction
        kept = max(shift + to.width, 2)
        if total != k:
            minus = datapath.graph.op[total] == "sub"
            return Product(signals[0], signals[1], fraction, shift, kept, minus)
        width = sum(signal.width for signal in signals)
        whole = width if shift <= width - 2 else shift + 2
        return Product(signals[0], signals[1], fraction, shift, min(whole, kept))

    def _fitted(self, result: Signal, product: Product, k: int) -> str:
        to = self.netlist.datapath.format(self.netlist.result_of(k))
        return fitted(result, product.fraction, to)

    def _what(self, k: int) -> str:
        return what(self.netlist, self.netlist.result_of(k))

    # Functions

    def function(self, part: Part, k: int, also: Sequence[int]) -> None:
        """A unit for one function; also: the cosine, or sine, of the same angle."""
        signal = self.netlist.signal(k)
        operand = part.read(self._argument(k), self.netlist.pipeline.start[k])
        self._place(part, f"compute_{signal.name}", [k, *also], operand.name)

    def _share_function(self, part: Part, name: str, nodes: Sequence[int]) -> None:
        """A unit for each pair of formats among the nodes."""
        kinds = dict[FunctionUnit, list[int]]()
        for k in nodes:
            kinds.setdefault(self._unit(k), []).append(k)
        self._same_cycles(nodes)
        for n, (unit, nodes_of_kind) in enumerate(kinds.items()):
            own_name = f"{name}_{n}" if n else name
            start = self.netlist.pipeline.start
            sources = {
                phase: part.read(self._argument(k), start[k])
                for phase, (k, *_) in self._phases(nodes_of_kind).items()
            }
            operand = part.choose(Signal(f"{own_name}_a", unit.given.width), sources)
            self._place(part, own_name, nodes_of_kind, operand.name)

    def _place(self, part: Part, name: str, nodes: Sequence[int], operand: str) -> None:
        """The instance of a function's unit and the wires of its results."""
        unit, op = self._unit(nodes[0]), self.netlist.graph.op
        ports = {"clock": "clock", "a": operand}
        outputs = ("result",) if unit.op == "div" else ("sine", "cosine")
        for port in outputs:
            ports[port] = part.declare(Signal(f"{name}_{port}", unit.out.width)).name
        part.instance(f"{self.netlist.name}_{unit.name}", name, ports)
        for k in nodes:
            part.assign(self.netlist.signal(k), ports[FUNCTIONS[op[k]]], self._what(k))
        self.functions.append(unit)

    def _argument(self, k: int) -> int:
        graph = self.netlist.graph
        if graph.op[k] != "div":
            return graph.args[k][0]
        one, a = graph.args[k]
        if graph.number(one) != 1.0:
            raise CompileError(f"node {k} divides node {one}: there are units for 1 / a alone")
        return a

    def _unit(self, k: int) -> FunctionUnit:
        datapath = self.netlist.datapath
        op = "div" if datapath.graph.op[k] == "div" else "sin"
        form = datapath.format(self._argument(k))
        return FunctionUnit(op, form, datapath.format(k), self.cycles(k))

    # Phases

    def _phases(self, nodes: Sequence[int]) -> dict[int, list[int]]:
        """The nodes that start in each phase: one, or functions of one operand."""
        start, graph = self.netlist.pipeline.start, self.netlist.graph
        phases = dict[int, list[int]]()
        for k in nodes:
            same = phases.setdefault(start[k] % self.netlist.pipeline.interval, [])
            if same and (graph.op[k] not in ("sin", "cos") or not self._is_pair(same[0], k)):
                raise CompileError(f"nodes {same[0]} and {k} want one unit in one phase")
            same.append(k)
        return dict(sorted(phases.items()))

    def _is_pair(self, a: int, b: int) -> bool:
        start, graph = self.netlist.pipeline.start, self.netlist.graph
        return start[a] == start[b] and graph.args[a] == graph.args[b]

    def _same_cycles(self, nodes: Sequence[int]) -> int:
        cycles = {self.cycles(k) for k in nodes}
        if len(cycles) > 1:
            raise CompileError(f"nodes {nodes[0]} and others share a unit, with cycles {cycles}")
        return cycles.pop()


def _flag(holds: bool) -> Signal:
    """A condition that is known."""
    return Signal(f"1'b{int(holds)}", 1, number=False, value=int(holds))


def what(netlist: Netlist, k: int) -> str:
    """A comment: the operation and when its result is there."""
    to = netlist.datapath.formats[k]
    shown = f" {to}" if to else ""
    return f"{netlist.graph.op[k]}{shown}, in cycle {netlist.pipeline.ready(k)}"
