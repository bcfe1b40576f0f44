"""Units in a module: multipliers, and units for sine, cosine and reciprocals, with the multiplexers
in front of those that are shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from featherlane.backends.fpga.expressions import factor, half
from featherlane.backends.fpga.netlist import Netlist
from featherlane.backends.fpga.part import Part
from featherlane.backends.fpga.shared_shifter import SharedShifter, ShifterUnit
from featherlane.backends.fpga.shifts import power_operand
from featherlane.backends.fpga.text import (
    Signal,
    constant,
    fitted,
    moved,
    signed_width,
    wrapped,
)
from featherlane.backends.fpga.units.functions import FunctionUnit
from featherlane.backends.fpga.units.multipliers import Multiplier, Tile
from featherlane.backends.fpga.units.post_adder import chain
from featherlane.errors import CompileError

FUNCTIONS = {"sin": "sine", "cos": "cosine", "div": "result"}  # their ports


class Product(NamedTuple):
    """A product as a multiplier computes it: a b + addend, or addend - a b if `minus`.

    a: the wider operand. fraction: bits of a b behind the point; shift: how many of them the result
    drops, so that an addend of 2^(shift - 1), half of its last bit, rounds to nearest. result: bits
    of the sum, up to the highest one that the result keeps.
    """

    a: Signal
    b: Signal
    fraction: int
    shift: int
    result: int
    minus: bool = False


class ProductUnit(NamedTuple):
    """A multiplier in a module. operands: the signals at its ports; low: the first bit of its
    result that is read; moving: bits of its addend that are not the same for all products; half:
    the first bit that the half of a product is added to, `result` if there is none.
    """

    multiplier: Multiplier
    operands: tuple[str, ...]
    low: int
    moving: int
    half: int


@dataclass
class Units:
    """The units of a design, noted while it is written."""

    netlist: Netlist
    tile: Tile
    products: list[ProductUnit] = field(default_factory=list)
    functions: list[FunctionUnit] = field(default_factory=list)
    shifters: list[ShifterUnit] = field(default_factory=list)

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
        m = Multiplier(a.width, b.width, product.result, self.netlist.unit_cycles(k), odd)
        m = self._with_post_adder(m, {k: product})
        signal = self.netlist.signal(self.netlist.result_of(k))
        result = part.declare(Signal(f"{signal.name}_product", m.result))
        ports = {"clock": "clock", "a": a.name}
        if odd is None:
            ports["b"] = b.name
        ports |= {"half": self._addend(part, k, product, m).name, "result": result.name}
        part.instance(f"{self.netlist.name}_{m.name}", f"multiply_{signal.name}", ports)
        part.assign(signal, self._fitted(result, product, k), self._comment(k))
        names = (a.name,) if odd is not None else (a.name, b.name)
        self._record(m, names, {k: product})

    def share(self, part: Part, name: str, nodes: Sequence[int]) -> None:
        """A unit for several nodes, in each phase for one of them."""
        if self.netlist.graph.op[nodes[0]] in FUNCTIONS:
            self._share_function(part, name, nodes)
        elif self._is_power_of_two(nodes[0]):
            self._share_shifter(part, name, nodes)
        else:
            self._share_multiplier(part, name, nodes)

    def _share_multiplier(self, part: Part, name: str, nodes: Sequence[int]) -> None:
        """A multiplier for several products, in each phase for the one that starts there."""
        self._check_products(nodes)
        products = {k: self._product(part, k) for k in nodes}
        m = Multiplier(
            max(p.a.width for p in products.values()),
            max(p.b.width for p in products.values()),
            max(p.result for p in products.values()),
            self._same_cycles(nodes),
        )
        m = self._with_post_adder(m, products)
        first = {phase: k for phase, (k, *_) in self._phases(nodes).items()}
        operands, trees = {}, self.tile.trees
        for port, width in (("a", m.a), ("b", m.b)):
            sources = {phase: getattr(products[k], port) for phase, k in first.items()}
            operands[port] = part.choose(Signal(f"{name}_{port}", width), sources, name, trees).name
        adding = {(phase + m.half_cycle) % part.interval: k for phase, k in first.items()}
        addends = {phase: self._addend(part, k, products[k], m) for phase, k in adding.items()}
        addend = part.choose(Signal(f"{name}_half", m.result), addends, name, trees)
        result = part.declare(Signal(f"{name}_result", m.result))
        ports = {"clock": "clock", **operands, "half": addend.name, "result": result.name}
        if m.adds == "either":
            signs = {phase: _flag(products[k].minus) for phase, k in adding.items()}
            ports["minus"] = part.choose(Signal(f"{name}_minus", 1, False), signs, name, trees).name
        part.instance(f"{self.netlist.name}_{m.name}", name, ports)
        for k in nodes:
            text = self._fitted(result, products[k], k)
            part.assign(self.netlist.signal(self.netlist.result_of(k)), text, self._comment(k))
        self._record(m, tuple(operands.values()), products)

    def _check_products(self, nodes: Sequence[int]) -> None:
        """Raises CompileError unless all nodes are products that need a multiplier."""
        for k in nodes:
            if (op := self.netlist.graph.op[k]) != "mul" or self._is_power_of_two(k):
                raise CompileError(
                    f"node {k} ({op}) is shared: there are shared units for products, sines, "
                    "cosines and reciprocals alone"
                )

    def _with_post_adder(self, m: Multiplier, products: Mapping[int, Product]) -> Multiplier:
        """Adds to a multiplier the device's post-adder, if that can take the sums of its products.
        Raises CompileError for a fused product where there is none.
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

    def _addend(self, part: Part, k: int, product: Product, m: Multiplier) -> Signal:
        """The addend of a product: half of the result's last bit, to round, and the other operand
        of the sum that the product is fused with.
        """
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

    def _record(
        self, m: Multiplier, operands: tuple[str, ...], products: Mapping[int, Product]
    ) -> None:
        """Records a multiplier that is written, for the cost of the design."""
        unread = self.netlist.unread
        first = [max(p.shift + unread[self.netlist.result_of(k)], 0) for k, p in products.items()]
        halves = {half(p.shift) for p in products.values()}
        moving = len(halves - {0}) if len(halves) > 1 else 0
        low, lowest = min(*first, m.result - 1), min(halves - {0}, default=1 << m.result)
        start = lowest.bit_length() - 1
        self.products.append(ProductUnit(m, operands, low, moving, start))

    def _is_power_of_two(self, k: int) -> bool:
        """Whether a product is a shift, which needs no multiplier."""
        return power_operand(self.netlist.datapath, k) is not None

    def _product(self, part: Part, k: int) -> Product:
        """The product of a node, with operands that the part reads in the cycle of its start."""
        a, b, fraction = self._operands(part, k)
        graph, total = self.netlist.graph, self.netlist.result_of(k)  # the sum of a fused product
        to = self.netlist.datapath.format(total)
        shift = fraction - to.fraction
        kept = max(shift + to.width, 2)
        if total != k:
            return Product(a, b, fraction, shift, kept, minus=graph.op[total] == "sub")
        width = a.width + b.width
        rounded = max(width, shift + 2)  # half may be above all bits of the product
        return Product(a, b, fraction, shift, min(rounded, kept))

    def _operands(self, part: Part, k: int) -> tuple[Signal, Signal, int]:
        """The factors of a node, the wider one first, and the fraction of their product. A constant
        is an odd number times 2^places: only the odd number is multiplied.
        """
        datapath, start = self.netlist.datapath, self.netlist.pipeline.start[k]
        args = datapath.graph.args[k]
        fraction = sum(datapath.format(a).fraction for a in args)
        if (constant_operand := factor(datapath, k)) is None:
            signals = [part.read(a, start) for a in args]
        else:
            n, (odd, places) = constant_operand
            signals = [part.read(args[1 - n], start), constant(odd, max(signed_width(odd), 2))]
            fraction -= places
        a, b = sorted(signals, key=lambda signal: -signal.width)
        return a, b, fraction

    def _fitted(self, result: Signal, product: Product, k: int) -> str:
        """The bits of a unit's result that the format of a node keeps."""
        to = self.netlist.datapath.format(self.netlist.result_of(k))
        return fitted(result, product.fraction, to)

    def _comment(self, k: int) -> str:
        return what(self.netlist, self.netlist.result_of(k))

    # Shifts

    def _share_shifter(self, part: Part, name: str, nodes: Sequence[int]) -> None:
        """A shifter for several products with powers of two."""
        first = {phase: k for phase, (k, *_) in self._phases(nodes).items()}
        shifter = SharedShifter(self.netlist, part, name, first, self.tile.trees)
        self.shifters.append(shifter.write(nodes, {k: self._comment(k) for k in nodes}))

    # Functions

    def function(self, part: Part, k: int, also: Sequence[int]) -> None:
        """A unit for one function; also: the cosine, or sine, of the same angle."""
        signal = self.netlist.signal(k)
        operand = part.read(self._operand_of_function(k), self.netlist.pipeline.start[k])
        self._add_function(part, f"compute_{signal.name}", [k, *also], operand.name)

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
                phase: part.read(self._operand_of_function(k), start[k])
                for phase, (k, *_) in self._phases(nodes_of_kind).items()
            }
            operand = part.choose(
                Signal(f"{own_name}_a", unit.given.width), sources, own_name, self.tile.trees
            )
            self._add_function(part, own_name, nodes_of_kind, operand.name)

    def _add_function(self, part: Part, name: str, nodes: Sequence[int], operand: str) -> None:
        """Adds a function's unit to a part, and assigns its results to the nodes."""
        unit, op = self._unit(nodes[0]), self.netlist.graph.op
        ports = {"clock": "clock", "a": operand}
        outputs = ("result",) if unit.op == "div" else ("sine", "cosine")
        for port in outputs:
            ports[port] = part.declare(Signal(f"{name}_{port}", unit.out.width)).name
        part.instance(f"{self.netlist.name}_{unit.name}", name, ports)
        for k in nodes:
            part.assign(self.netlist.signal(k), ports[FUNCTIONS[op[k]]], self._comment(k))
        self.functions.append(unit)

    def _operand_of_function(self, k: int) -> int:
        """The angle of a sine or cosine, and a of 1 / a."""
        graph = self.netlist.graph
        if graph.op[k] != "div":
            return graph.args[k][0]
        one, a = graph.args[k]
        if graph.number(one) != 1.0:
            raise CompileError(f"node {k} divides node {one}: there are units for 1 / a alone")
        return a

    def _unit(self, k: int) -> FunctionUnit:
        """The unit that computes a function, in the formats of a node and of its operand."""
        datapath = self.netlist.datapath
        op = "div" if datapath.graph.op[k] == "div" else "sin"
        form = datapath.format(self._operand_of_function(k))
        return FunctionUnit(op, form, datapath.format(k), self.netlist.unit_cycles(k))

    # Phases

    def _phases(self, nodes: Sequence[int]) -> dict[int, list[int]]:
        """The nodes that start in each phase: one, or functions of one operand."""
        start, graph = self.netlist.pipeline.start, self.netlist.graph
        phases = dict[int, list[int]]()
        for k in nodes:
            same = phases.setdefault(start[k] % self.netlist.pipeline.interval, [])
            if same and (
                graph.op[k] not in ("sin", "cos") or not self._are_of_one_angle(same[0], k)
            ):
                raise CompileError(f"nodes {same[0]} and {k} want one unit in one phase")
            same.append(k)
        return dict(sorted(phases.items()))

    def _are_of_one_angle(self, a: int, b: int) -> bool:
        """Whether one unit can give two nodes, a sine and a cosine, at once."""
        start, graph = self.netlist.pipeline.start, self.netlist.graph
        return start[a] == start[b] and graph.args[a] == graph.args[b]

    def _same_cycles(self, nodes: Sequence[int]) -> int:
        """The cycles that all nodes take. Raises CompileError where they differ."""
        cycles = {self.netlist.unit_cycles(k) for k in nodes}
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
