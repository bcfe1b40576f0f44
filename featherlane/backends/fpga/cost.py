"""What a pipeline needs of a device: DSPs counted, LUTs and flip-flops estimated.

DSPs follow from the units. LUTs are those of adders, multiplexers in front of shared units and
units; flip-flops and shift registers are those of results that wait, and of units. Registers of
multipliers are counted outside of DSPs, where Yosys leaves them; `packed` of them fit into DSPs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.devices import Device, multiplier, width
from featherlane.backends.fpga.functions import FunctionUnit, multipliers_of
from featherlane.backends.fpga.multipliers import tiles
from featherlane.program.analysis.pipeline import Pipeline


@dataclass(frozen=True)
class Part:
    """What a part of a circuit needs."""

    dsps: float = 0.0
    luts: float = 0.0
    ffs: float = 0.0

    def __add__(self, other: Part) -> Part:
        return Part(self.dsps + other.dsps, self.luts + other.luts, self.ffs + other.ffs)


class Cost(NamedTuple):
    """What a pipeline needs. packed: flip-flops that fit into DSPs; parts: what needs it."""

    device: Device
    parts: dict[str, Part]
    packed: int

    @property
    def total(self) -> Part:
        return sum(self.parts.values(), start=Part())

    @property
    def shares(self) -> Part:
        """The shares of the device, in percent."""
        total, there = self.total, self.device
        return Part(
            100 * total.dsps / there.dsps,
            100 * total.luts / there.luts,
            100 * total.ffs / there.ffs,
        )

    @property
    def fits(self) -> bool:
        return max(self.shares.dsps, self.shares.luts, self.shares.ffs) <= 100

    def __str__(self) -> str:
        rows = [("part", "DSPs", "LUTs", "FFs")]
        for name, part in [*self.parts.items(), ("all", self.total)]:
            rows.append((name, f"{part.dsps:,.0f}", f"{part.luts:,.0f}", f"{part.ffs:,.0f}"))
        shares = [f"{n:.1f} %" for n in (self.shares.dsps, self.shares.luts, self.shares.ffs)]
        rows.append((f"of {self.device.name}", shares[0], shares[1], shares[2]))
        return "\n".join(f"{name:<16}{a:>12}{b:>14}{c:>14}" for name, a, b, c in rows)


def cost(datapath: Datapath, pipeline: Pipeline, device: Device) -> Cost:
    """Returns what a pipeline of a datapath needs of a device. pipeline: of operators of this
    device, `devices.operators`.
    """
    parts: dict[str, Part] = {}
    packed = 0
    units = _units(pipeline)
    for kind, operations in units.items():
        for nodes in operations:
            part, inside = _unit(datapath, pipeline, device, kind, nodes)
            parts[kind] = parts.get(kind, Part()) + part
            packed += inside
    parts["multiplexers"] = Part(0, _multiplexers(datapath, pipeline, device, units.values()))
    parts["waiting"] = _waiting(datapath, pipeline, device)
    # A bit that follows each state, and the phase
    parts["control"] = Part(0, pipeline.interval, pipeline.latency + pipeline.interval)
    return Cost(device, parts, packed)


def _units(pipeline: Pipeline) -> dict[str, list[list[int]]]:
    """Returns for each kind the nodes of each unit."""
    found: dict[str, dict[Hashable, list[int]]] = {}
    for k, operator in enumerate(pipeline.operators):
        if operator:
            own: Hashable = (pipeline.pool[k], pipeline.unit[k]) if operator.shared else k
            found.setdefault(operator.kind, {}).setdefault(own, []).append(k)
    return {kind: list(units.values()) for kind, units in found.items()}


def _unit(
    datapath: Datapath, pipeline: Pipeline, device: Device, kind: str, nodes: list[int]
) -> tuple[Part, int]:
    """Returns what the unit of some nodes needs, and how many of its flip-flops fit into DSPs."""
    operator = pipeline.operators[nodes[0]]
    assert operator is not None
    if kind in device.units:
        own_unit = device.units[kind]
        return Part(_dsps_of(datapath, device, nodes[0], kind), own_unit.luts, own_unit.ffs), 0
    if kind in device.bits:
        bits = width(datapath, nodes[0])
        return Part(0, device.bits[kind] * bits, operator.cycles * bits), 0
    own = multiplier(datapath, device, nodes[0])
    ports = [max(_port(datapath, k, n) for k in nodes) for n in (0, 1)]
    result = max(datapath.format(k).width for k in nodes)
    inside = (operator.cycles - 1) * sum(ports) + result if operator.cycles else 0
    return Part(own.dsps, own.luts, inside), inside


def _dsps_of(datapath: Datapath, device: Device, k: int, kind: str) -> int:
    """Returns the DSPs of a unit for sine and cosine, or for reciprocals."""
    op = "div" if kind == "reciprocal" else "sin"
    given = datapath.format(datapath.graph.args[k][-1])
    unit = FunctionUnit(op, given, datapath.format(k), 0)
    return sum(tiles(m, device.tile) for m in multipliers_of(unit, device.tile))


def _port(datapath: Datapath, k: int, n: int) -> int:
    operands = datapath.graph.args[k]
    return datapath.format(operands[n % len(operands)]).width


def _multiplexers(
    datapath: Datapath, pipeline: Pipeline, device: Device, units: Iterable[list[list[int]]]
) -> float:
    """Returns the LUTs of the multiplexers in front of the ports of shared units. Constants of a
    port are one source, a table of a LUT a bit.
    """
    graph, luts = datapath.graph, 0.0
    for operations in units:
        for nodes in operations:
            for n in range(len(graph.args[nodes[0]]) if len(nodes) > 1 else 0):
                sources, constants = set[tuple[int, int]](), set[int]()
                for k in nodes:
                    a = graph.args[k][n]
                    if graph.op[a] == "constant":
                        constants.add(a)
                    else:
                        sources.add((a, pipeline.register(a, pipeline.start[k])))
                bits = max(_port(datapath, k, n) for k in nodes)
                each = multiplexer(device, len(sources) + bool(constants))
                luts += bits * (each + (len(constants) > 1))
    return luts


def multiplexer(device: Device, sources: int) -> float:
    """The LUTs a bit of a multiplexer."""
    if sources < 2:
        return 0.0
    for n, luts in device.multiplexers:
        if sources <= n:
            return luts
    n, luts = device.multiplexers[-1]
    return luts * (sources - 1) / (n - 1)


def _waiting(datapath: Datapath, pipeline: Pipeline, device: Device) -> Part:
    """Returns the registers of results that wait: chains of flip-flops, or shift registers between
    registers that are read.
    """
    total = Part()
    for k, read in enumerate(registers_read(pipeline)):
        if read:
            given = datapath.formats[k]
            bits = given.width if given else 1
            luts, ffs = _chain(device, read)
            total = total + Part(0, bits * luts, bits * ffs)
    return total


def _chain(device: Device, read: Iterable[int]) -> tuple[int, int]:
    """Returns the LUTs and flip-flops, for a bit, of a chain of which some registers are read."""
    longest, shortest = device.shift_register
    luts = ffs = 0
    before = -1
    for register in sorted(read):
        length = register - before
        if length >= shortest:
            luts += ceil(length / longest)
        else:
            ffs += length
        before = register
    return luts, ffs


def registers_read(pipeline: Pipeline) -> list[set[int]]:
    """Returns for each node the registers of its result that are read, through wires, too."""
    graph = pipeline.graph
    read: list[set[int]] = [set() for _ in range(len(graph))]
    ends = {k for out in graph.outputs.values() for k in out.nodes}
    for k in reversed(range(len(graph))):
        if graph.op[k] == "constant":
            read[k].clear()
            continue
        if k in ends:
            read[k].add(pipeline.register(k, pipeline.latency))
        wires = pipeline.operators[k] is None and graph.args[k]
        for a in graph.args[k]:
            read[a] |= read[k] if wires else {pipeline.register(a, pipeline.start[k])}
        if wires:
            read[k] = set()
        read[k].discard(-1)
    return read
