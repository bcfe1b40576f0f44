"""The design of a datapath, or of a network, at an interval: with sums in post-adders, or with sums
of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from featherlane.accelerators.organise.array_stations import StationArrays
from featherlane.accelerators.organise.arrays import Arrays
from featherlane.accelerators.organise.network import array_network, network
from featherlane.accelerators.organise.streams import Streamed
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga import devices
from featherlane.backends.fpga.arrays.design import ArrayDesign, array_design
from featherlane.backends.fpga.arrays.design import cost as array_cost
from featherlane.backends.fpga.arrays.schedule import scheduled
from featherlane.backends.fpga.cost import DesignCost, cost
from featherlane.backends.fpga.fuse import fused
from featherlane.backends.fpga.network import cost as network_cost
from featherlane.backends.fpga.network.cycles import latencies
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.verilog import Design, design
from featherlane.errors import CompileError
from featherlane.program.analysis.modulo import by_call, by_class, pipelined, whole

SHARING = {"module": by_call, "class": by_class, "whole": whole}
SLACK = 0, 6, 12, 24  # cycles, for sums in post-adders: 12 does for the iiwa14 at 4 and 12
Whole = TypeVar("Whole", Datapath, Arrays | Streamed, StationArrays)  # what is computed
Made = TypeVar("Made")
OneLatency = TypeVar("OneLatency", bound=Design)


@dataclass(frozen=True)
class _Chooser(ABC, Generic[Whole, Made]):
    """Chooses sums in post-adders, or of their own, for what `design` makes. slacks: cycles, those
    of `fuse.fused` that are tried. Designers have `runs`: schedules that are tried for each design,
    as many as `pipelined` likes if None.
    """

    slacks: ClassVar[tuple[int, ...]] = SLACK

    name: str
    device: devices.Device
    sharing: str

    @abstractmethod
    def design(self, datapath: Whole, interval: int) -> tuple[Made, DesignCost]:
        """Returns the design of a datapath as it is."""

    @abstractmethod
    def no_slower(self, made: Made, other: Made) -> bool:
        """Whether a design gives all results as early as another one."""

    @abstractmethod
    def fused(self, datapath: Whole, slack: int = 0) -> Whole:
        """Returns the datapath with sums in post-adders, as `fuse.fused`."""

    def smallest(self, datapath: Whole, interval: int) -> DesignCost:
        """Returns the cost with as many sums in post-adders as may be."""
        try:
            return self.design(self.fused(datapath), interval)[1]
        except CompileError:  # products of several widths on a unit that has no post-adder
            return self.design(datapath, interval)[1]

    def best(self, datapath: Whole, interval: int) -> tuple[Made, DesignCost, Whole]:
        """Returns the design, its cost, and the datapath that it computes: with sums in post-adders
        if that makes it no slower, or makes it fit.
        """
        made, needed = self.design(datapath, interval)
        for slack in self.slacks if interval > 1 else self.slacks[:1]:
            found = self.fused(datapath, slack)
            if not found.fused:
                break
            try:
                other, its_need = self.design(found, interval)
            except CompileError:  # as above
                continue
            if its_need.fits and (not needed.fits or self.no_slower(other, made)):
                return other, its_need, found
        return made, needed, datapath


@dataclass(frozen=True)
class _PipelineChooser(_Chooser[Whole, OneLatency]):
    """Chooses among designs that have one latency."""

    runs: int | None = None

    def no_slower(self, made: OneLatency, other: OneLatency) -> bool:
        return made.latency <= other.latency


@dataclass(frozen=True)
class Designer(_PipelineChooser[Datapath, Design]):
    """Makes designs of a datapath."""

    def fused(self, datapath: Datapath, slack: int = 0) -> Datapath:
        return fused(datapath, self.device, slack)

    def design(self, datapath: Datapath, interval: int) -> tuple[Design, DesignCost]:
        narrow = narrowed(datapath)
        pools = SHARING[self.sharing](narrow.graph)
        operators = devices.operators(narrow, self.device)
        timed = narrow.graph, operators, self.device.clock, interval, pools
        pipeline = pipelined(*timed, runs=self.runs)
        pipeline.verify()
        made = design(self.name, narrow, pipeline, self.device.tile)
        return made, cost(made, self.device)


@dataclass(frozen=True)
class ArrayDesigner(_PipelineChooser[Arrays | Streamed, ArrayDesign]):
    """Makes designs of arrays, each of which shares its units as a whole."""

    def fused(self, datapath: Arrays | Streamed, slack: int = 0) -> Arrays | Streamed:
        return datapath.changed(lambda own: fused(own, self.device, slack))

    def design(self, datapath: Arrays | Streamed, interval: int) -> tuple[ArrayDesign, DesignCost]:
        whole, kernels = datapath.whole, [*datapath.kernels.values()]
        found = scheduled(whole, kernels, interval, self.device, self.runs)
        made = array_design(self.name, whole, found, interval, self.device.tile)
        return made, array_cost(made, self.device)


@dataclass(frozen=True)
class _NetworkChooser(_Chooser[Whole, Network]):
    """Chooses among networks of some functions. spare, tag_bits: as of `network`."""

    slacks = SLACK[::2]  # networks take longer to schedule

    functions: Collection[str]
    spare: Sequence[float] = (0.0,)
    tag_bits: int = 16
    runs: int | None = None

    def no_slower(self, made: Network, other: Network) -> bool:
        cycles = latencies(other)
        return all(n <= cycles[name] for name, n in latencies(made).items())


@dataclass(frozen=True)
class NetworkDesigner(_NetworkChooser[Datapath]):
    """Makes networks whose stations are pipelines."""

    def fused(self, datapath: Datapath, slack: int = 0) -> Datapath:
        return fused(datapath, self.device, slack, ports=True)

    def design(self, datapath: Datapath, interval: int) -> tuple[Network, DesignCost]:
        pools = SHARING[self.sharing]
        given = self.device, interval, pools, self.spare, self.tag_bits, self.runs
        made = network(self.name, narrowed(datapath), self.functions, *given)
        return made, network_cost.cost(made, self.device)


@dataclass(frozen=True)
class ArrayNetworkDesigner(_NetworkChooser[StationArrays]):
    """Makes networks whose stations are arrays, each of which shares its units as a whole."""

    def fused(self, datapath: StationArrays, slack: int = 0) -> StationArrays:
        options = self.device, slack
        return datapath.changed(lambda own: fused(own, *options, narrows=False))

    def design(self, datapath: StationArrays, interval: int) -> tuple[Network, DesignCost]:
        options = self.device, interval, self.tag_bits, self.runs
        made = array_network(self.name, datapath, self.functions, *options)
        return made, network_cost.cost(made, self.device)
