"""The least that a design takes of a device, whatever its schedule: multipliers, each of which has
one product a cycle, circuits that operations do not share, and units with operand memories. It
takes a moment, where a schedule of a large robot takes ten seconds, and so tells early what no
interval makes fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import ceil
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.runs import accumulated
from featherlane.backends.fixed.slots import SlotKernel
from featherlane.backends.fpga import cost as of_design
from featherlane.backends.fpga.arrays.schedule import folding
from featherlane.backends.fpga.cost import DesignCost, circuit_luts
from featherlane.backends.fpga.devices import Device, operators, significant
from featherlane.backends.fpga.memories.clusters import cluster_design
from featherlane.backends.fpga.memories.operations import (
    MULTIPLY,
    UnitOperation,
    operands,
    operations_of,
)
from featherlane.backends.fpga.piece_costs import carried
from featherlane.backends.fpga.resources import NOTHING, Resources
from featherlane.backends.fpga.units.accumulator import Accumulator
from featherlane.backends.fpga.units.multipliers import Tile

SHORTEST_ADDRESS = 4  # bits, of a ring of 16 values
FUSED = ("add", "sub")

LOOKED = 256, 64  # intervals whose runs serve all intervals that are no shorter than these


class Floor:
    """The least that designs of a datapath take of a device, at any interval. What does not depend
    on the interval is computed once.

    parts: of nodes, as of `runs.accumulated`.
    """

    def __init__(
        self, datapath: Datapath, device: Device, parts: Sequence[str] | None = None
    ) -> None:
        self.datapath, self.device, self._parts = datapath, device, parts
        self._circuits, self._units = dict[bool, float](), dict[int, LeastUnits]()

    def shared(self, interval: int, apart: bool) -> DesignCost:
        """Returns what a design of shared multipliers takes at least. apart: as of
        `devices.operators`. Raises CompileError for an operator that does not fit a cycle.
        """
        if apart not in self._circuits:
            self._circuits[apart] = _circuits(self._narrow, self.device, apart)
        parts = {
            ("", "add"): Resources(luts=self._circuits[apart]),
            ("", "multiply"): Resources(dsps=ceil(self._products / interval)),
        }
        return DesignCost(self.device, parts, 0, interval > 1, is_least=True)

    def memories(self, interval: int) -> DesignCost:
        """Returns what a design of units with operand memories takes at least: the multipliers of
        its products, and if these fit, what its units need. Raises CompileError for an operation
        without a circuit.
        """
        products = Resources(dsps=ceil(self._products / interval))
        parts = {("", "multiply"): products}
        least = DesignCost(self.device, parts, 0, shared=True, is_least=True)
        return self._units_at(interval).at(interval) if least.fits else least

    @cached_property
    def _narrow(self) -> Datapath:
        """The datapath in the formats of circuits."""
        return narrowed(self.datapath)

    @cached_property
    def _products(self) -> int:
        return _products(self._narrow, self.device)

    def _units_at(self, interval: int) -> LeastUnits:
        """The units at an interval: those of a longer one if no run there is longer than this."""
        for longest in (*(n for n in LOOKED if n > interval), interval):
            if longest not in self._units:
                runs = accumulated(self.datapath, longest, self._parts)
                self._units[longest] = LeastUnits.of(runs, self.device)
            if (units := self._units[longest]).longest <= interval:
                break
        return units


class Floors:
    """The floors of datapaths, each computed once for a device."""

    def __init__(self) -> None:
        self._known = list[Floor]()

    def of(self, datapath: Datapath, device: Device, parts: Sequence[str] | None) -> Floor:
        """Returns the floor of a datapath on a device."""
        for floor in self._known:
            if floor.datapath is datapath and floor.device == device:
                return floor
        self._known.append(Floor(datapath, device, parts))
        return self._known[-1]


# Shared multipliers


def least_cost_of_arrays(
    kernels: Iterable[SlotKernel], interval: int, device: Device
) -> DesignCost:
    """Returns the multipliers and LUTs that arrays take at least: each lane of a kernel has its
    circuits, and computes the products of a slot after the other.
    """
    dsps, luts = 0, 0.0
    for kernel in kernels:
        lanes = folding(len(kernel.members), interval)
        dsps += lanes.lanes * ceil(_products(kernel.datapath, device) / lanes.interval)
        luts += lanes.lanes * _circuits(kernel.datapath, device, apart=False)
    parts = {("", "add"): Resources(luts=luts), ("", "multiply"): Resources(dsps=dsps)}
    return DesignCost(device, parts, 0, interval > 1, is_least=True)


def _products(datapath: Datapath, device: Device) -> int:
    """The products that take a multiplier of the device for a cycle, wider ones several. Those of
    few bits are in LUTs.
    """
    graph, least = datapath.graph, device.tile.least
    return sum(
        sum(significant(datapath, a) for a in graph.args[k]) >= least
        and datapath.format(k).width >= least
        for k, unit in enumerate(operators(datapath, device))
        if unit and unit.shared and graph.op[k] == "mul"
    )


def _circuits(datapath: Datapath, device: Device, apart: bool) -> float:
    """The LUTs of operations that have their circuits alone. Where post-adders take sums, each
    product may save one of them.
    """
    luts, sums, products = 0.0, list[float](), 0
    for k, unit in enumerate(operators(datapath, device, apart)):
        if unit and not unit.shared and unit.follows < 0:
            of_node = circuit_luts(datapath, device, k, unit.kind)
            if device.tile.post_adder and datapath.graph.op[k] in FUSED:
                sums.append(of_node)
            else:
                luts += of_node
        elif unit and unit.shared and datapath.graph.op[k] == "mul":
            products += 1
    return luts + sum(sorted(sums)[: max(len(sums) - products, 0)])


# Units with operand memories


class RunNeeds(NamedTuple):
    """The least that a unit needs for a run: its cycles, multipliers, bits of the sum and of the
    result.
    """

    cycles: int
    dsps: int
    sum: int
    result: int


@dataclass(frozen=True, eq=False)
class LeastUnits:
    """The least that the units of a datapath with runs (`runs.accumulated`) need at any interval
    that is not shorter than its longest run.

    runs: the needs of each; clusters: by kind, how many there are, and the resources of a unit.
    """

    device: Device
    runs: Sequence[RunNeeds]
    clusters: Mapping[str, tuple[int, Resources]]

    @classmethod
    def of(cls, datapath: Datapath, device: Device) -> LeastUnits:
        """The needs of a datapath. Raises CompileError for an operation without a circuit."""
        narrow = narrowed(datapath)
        operations, kinds = operations_of(datapath)
        needs = [
            _run_needs(datapath, narrow, operation, device.tile)
            for operation in operations
            if operation.kind == MULTIPLY
        ]
        clusters = {
            kind: (
                sum(operation.kind == kind for operation in operations),
                of_design.cost(cluster_design("least", inside, device), device).total,
            )
            for kind, inside in kinds.items()
        }
        return cls(device, needs, clusters)

    @property
    def longest(self) -> int:
        """The cycles of the longest run."""
        return max((run.cycles for run in self.runs), default=1)

    @cached_property
    def _sorted(self) -> dict[str, list[int]]:
        """The multipliers, sums and results of runs, once for each cycle, the most first."""
        return {
            name: sorted(
                (getattr(run, name) for run in self.runs for _ in range(run.cycles)), reverse=True
            )
            for name in ("dsps", "sum", "result")
        }

    def at(self, interval: int) -> DesignCost:
        """Returns what the units need: one has the most of any of its runs, whose cycles are no
        more than the interval; so the n-th largest unit has as much as the run of cycle n x
        interval, where the largest come first.
        """
        device = self.device
        dsps, sums, results = (self._sorted[name][::interval] for name in self._sorted)
        luts = sum(_least_accumulator(bits, device).luts for bits in sums)
        ffs = sum(_least_accumulator(bits, device).ffs for bits in sums)
        parts = {
            ("", "multiply"): Resources(sum(dsps), luts, ffs),
            ("", "results"): Resources(ffs=sum(results)),
            ("", "memories"): Resources(luts=len(sums) * _least_address(device)),
        }
        for kind, (count, unit) in self.clusters.items():
            parts["", kind] = _times(unit, ceil(count / interval))
        return DesignCost(device, parts, 0, shared=True, is_least=True)


def _run_needs(
    datapath: Datapath, narrow: Datapath, operation: UnitOperation, tile: Tile
) -> RunNeeds:
    root = operation.gives[0]
    result = narrow.format(root).width
    bits = max(operation.fraction - datapath.format(root).fraction, 0) + result
    dsps = 0
    for term in operation.run:
        widths = [2 if k is None else narrow.format(k).width for k in operands(datapath, term)]
        dsps = max(dsps, _multipliers(widths[0], widths[1], bits, tile))
    return RunNeeds(operation.cycles, dsps, bits, result)


@cache
def _multipliers(a: int, b: int, bits: int, tile: Tile) -> int:
    return Accumulator(a, b, bits, tile).dsps


def _least_accumulator(bits: int, device: Device) -> Resources:
    """The adder and the register of a sum of so many bits, none in a post-adder."""
    return NOTHING if device.tile.post_adder else Resources(luts=carried(device, bits), ffs=bits)


def _least_address(device: Device) -> int:
    """The LUTs of the address of a memory."""
    return 0 if device.joins else carried(device, SHORTEST_ADDRESS)


def _times(needed: Resources, units: int) -> Resources:
    return Resources(*(units * n for n in needed))
