"""Writes a netlist as modules: one for each call, and one that connects them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from featherlane.backends.fpga import stream
from featherlane.backends.fpga.expressions import NodeOperands, Wiring, circuit
from featherlane.backends.fpga.module import Module, named, same
from featherlane.backends.fpga.netlist import CALL, WIRE, Netlist
from featherlane.backends.fpga.part import MOST_COPIES, Part
from featherlane.backends.fpga.shared import FUNCTIONS, Units, what
from featherlane.backends.fpga.text import Signal, identifier
from featherlane.backends.fpga.units.multipliers import Ring, Tile
from featherlane.errors import CompileError


def _stretches(before: int, register: int, ring: Ring | None) -> Iterator[tuple[int, int]]:
    """Yields the registers that are there between two of them, and the last one: the number of each
    and how many registers it stands for, more than one at the end of a ring.
    """
    while before < register:
        left = register - before
        count = min(left, ring.longest) if ring and left >= ring.shortest else 1
        before += count
        yield before, count


class NetlistWriter:
    """Writes the modules of a netlist. parts, units: the modules by name, and their units."""

    def __init__(self, netlist: Netlist, tile: Tile) -> None:
        self.netlist, self.tile = netlist, tile
        # The first state comes late enough: copies of the phase are right two cycles after a reset
        self.copies = tile.trees and not netlist.timely
        self.parts: dict[str, Part] = {}
        self.units: dict[str, Units] = {}
        self._pairs: dict[object, list[int]] = self._find_pairs()
        for k, registers in enumerate(netlist.registers):
            if registers and not netlist.is_constant(k):
                self._node(k)
        for n, ((pool, kind, _), nodes) in enumerate(netlist.units.items()):
            part = self._part(netlist.unit_home[pool])
            name = f"unit_{identifier(kind)}_{n}"
            self.units[part.name].share(part, name, nodes)

    def _part(self, name: str) -> Part:
        if name not in self.parts:
            self.parts[name] = Part(name, self.netlist, self.copies)
            self.units[name] = Units(self.netlist, self.tile)
        return self.parts[name]

    # Nodes

    def _node(self, k: int) -> None:
        """Writes a node: as wires, on the unit that it follows, or with a unit of its own."""
        operator, registers = self.netlist.pipeline.operators[k], self.netlist.registers[k]
        if self.netlist.graph.op[k] == "input":
            self._input(k)
        elif self.netlist.is_wires(k):
            for register in sorted(registers):
                self._wires(k, register)
            return
        elif operator is None:
            raise CompileError(f"node {k} ({self.netlist.graph.op[k]}) has no operator")
        elif k in self.netlist.datapath.fused:
            return
        elif operator.follows >= 0:
            self._follow(k)
        elif not operator.shared:
            self._compute(k, operator.cycles)
        self._capture(k, max(registers))

    def _capture(self, k: int, last: int) -> None:
        """The registers of a node up to the last one that is read."""
        if last == WIRE:
            return
        part, ready = self._part(self.netlist.home[k]), self.netlist.pipeline.ready(k)
        source, before = part.read(k, ready), WIRE
        for register in sorted(self.netlist.registers[k] - {WIRE}):
            for to, count in _stretches(before, register, self.tile.ring):
                signal = self.netlist.signal(k, to)
                if count > 1:
                    source = part.ring(signal, source.name, count, ready)
                else:
                    source = part.capture(signal, source.name, ready)
            before = register

    def _wires(self, k: int, register: int) -> None:
        part, signal = self._part(self.netlist.home[k]), self.netlist.signal(k, register)
        cycle = self.netlist.cycle(k, register)
        part.assign(signal, self._circuit(part, k, signal.name, cycle).result)

    def _circuit(self, part: Part, k: int, name: str, cycle: int, cycles: int = 0) -> Wiring:
        operands = tuple(part.read(a, cycle) for a in self.netlist.graph.args[k])
        wiring = circuit(NodeOperands(self.netlist.datapath, k, name, operands, cycles))
        for wire, text in wiring.wires:
            (part.delay if wire.name in wiring.registers else part.assign)(wire, text)
        return wiring

    def _compute(self, k: int, cycles: int) -> None:
        """A node on a unit of its own."""
        part = self._part(self.netlist.home[k])
        units, signal = self.units[part.name], self.netlist.signal(k)
        if self.netlist.graph.op[k] in FUNCTIONS:
            first, *also = self._pairs.get(self._pair_key(k), [k])
            if k == first:
                units.function(part, k, also)
        elif units.takes_unit(k):
            units.multiply(part, k)
        else:
            start = self.netlist.pipeline.start[k]
            wiring = self._circuit(part, k, signal.name, start, cycles)
            self._registered(part, k, signal, wiring.result, cycles - wiring.cycles)

    def _follow(self, k: int) -> None:
        """A sum on the unit of a product, if no other operations share that."""
        operator = self.netlist.pipeline.operators[k]
        assert operator is not None
        product = self.netlist.graph.args[k][operator.follows]
        first = self.netlist.pipeline.operators[product]
        if first is not None and not first.shared:
            part = self._part(self.netlist.home[k])
            self.units[part.name].multiply(part, product)

    def _registered(self, part: Part, k: int, signal: Signal, text: str, cycles: int) -> None:
        """An expression with registers behind it."""
        if cycles == 0:
            part.assign(signal, text, what(self.netlist, k))
            return
        for n in range(cycles):
            last = n == cycles - 1
            wire = signal if last else signal._replace(name=f"{signal.name}_stage{n + 1}")
            part.delay(wire, text)
            text = wire.name

    def _find_pairs(self) -> dict[object, list[int]]:
        """The nodes that one unit, of their own, computes: the sine and cosine of one angle."""
        pairs = dict[object, list[int]]()
        for op in ("sin", "cos"):
            for k in self.netlist.graph.nodes_of(op):
                pairs.setdefault(self._pair_key(k), []).append(k)
        return pairs

    def _pair_key(self, k: int) -> object:
        netlist, op = self.netlist, self.netlist.graph.op[k]
        if op == "div":
            return k
        home, start = netlist.home[k], netlist.pipeline.start[k]
        operator = netlist.pipeline.operators[k]
        return home, start, netlist.graph.args[k], netlist.datapath.format(k), operator

    def _input(self, k: int) -> None:
        """An input that arrives later than the first cycles, behind registers."""
        interval, signal = self.netlist.pipeline.interval, self.netlist.signal(k)
        late = self.netlist.late(k)
        if late:
            part = self._part(self.netlist.home[k])
            source = signal._replace(name=f"{signal.name}_given")
            part.reads[source.name] = source
            for n in range(late):
                delayed = signal._replace(name=f"{signal.name}_late{n + 1}")
                source = part.capture(delayed, source.name, interval - 1)
            part.assign(signal, source.name)

    # Modules

    def modules(self) -> dict[str, Module]:
        """The modules of all parts, and the one that connects them."""
        outside = {field.signal.name for field in self.netlist.outputs}
        wanted = outside.union(*(({s.name for s in part.needs}) for part in self.parts.values()))
        gives = {
            name: [s for s in part.drives.values() if s.name in wanted]
            for name, part in self.parts.items()
        }
        parts = [part.module(gives[name], self._comment(name)) for name, part in self.parts.items()]
        for part in parts:
            part.legend = self._legend(part.name)
        return named(*parts, self._connected(gives))

    def _comment(self, name: str) -> str:
        counts = Counter(
            self.netlist.graph.op[k]
            for k, home in enumerate(self.netlist.home)
            if home == name and self.netlist.graph.args[k]
        )
        shown = ", ".join(f"{count} {op}" for op, count in sorted(counts.items()))
        counted = f"{name}: {shown or 'registers and shared units'}"
        label = self.netlist.module_labels.get(name)
        return f"{counted}; {label}" if label else counted

    def _legend(self, name: str) -> list[str]:
        """The quantities that a module computes, or the modules that share its units."""
        netlist = self.netlist
        if label := netlist.module_labels.get(name):
            what = "Part of" if CALL.search(name) else "Computes"
            return [f"{what}: {label.quantities}."] if label.quantities else []
        nodes = [
            k
            for unit, of_unit in netlist.units.items()
            if netlist.unit_home[unit[0]] == name
            for k in of_unit
        ]
        homes = dict.fromkeys(netlist.home[k].removeprefix(f"{netlist.name}_") for k in nodes)
        return [f"Units of {len(nodes)} operations of {', '.join(homes)}."] if nodes else []

    def _connected(self, gives: dict[str, list[Signal]]) -> Module:
        """The module that connects the parts with each other and with the words. gives: signals of
        parts.
        """
        netlist, bits = self.netlist, max((self.netlist.pipeline.interval - 1).bit_length(), 1)
        comment = f"The modules of {netlist.name} and the wires between them"
        module = stream.datapath(netlist, bits, comment)
        module.legend = netlist.legend if netlist.timely else ()  # of streams, their module's
        phases = self._add_phases(module, bits) if self.copies else {}
        for field in netlist.inputs:
            signal = field.signal
            if netlist.late(field.node):
                signal = signal._replace(name=f"{signal.name}_given")
            module.declare_signal(signal)
            module.assign(signal.name, field.of("given"), signal.label)
        for signals in gives.values():
            for signal in signals:
                module.declare_signal(signal)
        for field in netlist.outputs:
            module.assign(field.of("results"), field.signal.name, field.signal.label)
        for name, part in self.parts.items():
            ports = ["clock", *(part.phase_ports if part.has_phases else [])]
            ports += [signal.name for signal in (*part.needs, *gives[name])]
            connected = same(ports) | phases.get(name, {})
            module.instance(name, self.netlist.instance(name), connected)
        return module

    def _add_phases(self, module: Module, bits: int) -> dict[str, dict[str, str]]:
        """Adds registers of the phase, each of which few copies read. Returns which one each port
        of each part reads.
        """
        phases = dict[str, dict[str, str]]()
        count, free = 0, 0
        for name, part in self.parts.items():
            left = len(part.phase_copies) if part.has_phases else 0
            for port in part.phase_ports if left else ():
                loads = min(left, MOST_COPIES)
                if loads > free:
                    count, free = count + 1, MOST_COPIES
                left, free = left - loads, free - loads
                phases.setdefault(name, {})[port] = f"phase_{count - 1}"
        for n in range(count):
            register = module.declare(f"phase_{n}", bits=bits, attribute="keep")
            module.clocked(f"{register} <= phase_next;")
        return phases
