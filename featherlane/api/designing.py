"""The design of a datapath, or of a network, at an interval: with sums in post-adders, or with sums
of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga import devices
from featherlane.backends.fpga.cost import Cost, cost
from featherlane.backends.fpga.fuse import fused
from featherlane.backends.fpga.network import cost as network_cost
from featherlane.backends.fpga.network.cycles import latencies
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.verilog import Design, design
from featherlane.errors import CompileError
from featherlane.functions.accelerator.network import network
from featherlane.program.analysis.modulo import by_call, by_class, pipelined, whole

SHARING = {"module": by_call, "class": by_class, "whole": whole}
SLACK = 0, 6, 12, 24  # cycles, for sums in post-adders: 12 does for the iiwa14 at 4 and 12


class Designer(NamedTuple):
    """What designs of a datapath have in common. clock: nanoseconds a cycle; runs: schedules that
    are tried for each, as many as `pipelined` likes if None.
    """

    name: str
    device: devices.Device
    clock: float
    runs: int | None = None

    def design(self, datapath: Datapath, interval: int, sharing: str) -> tuple[Design, Cost]:
        """Returns the design of a datapath as it is."""
        narrow = narrowed(datapath)
        pools = SHARING[sharing](narrow.graph)
        operators = devices.operators(narrow, self.device, self.clock)
        timed = narrow.graph, operators, self.clock, interval, pools
        pipeline = pipelined(*timed, runs=self.runs)
        pipeline.verify()
        made = design(self.name, narrow, pipeline, self.device.tile)
        return made, cost(made, self.device)

    def fused(self, datapath: Datapath, slack: int = 0) -> Datapath:
        """Returns the datapath with sums in post-adders, as `fuse.fused`."""
        return fused(datapath, self.device, self.clock, slack)

    def smallest(self, datapath: Datapath, interval: int, sharing: str) -> Cost:
        """Returns the cost with as many sums in post-adders as may be."""
        try:
            return self.design(self.fused(datapath), interval, sharing)[1]
        except CompileError:  # products of several widths on a unit that has no post-adder
            return self.design(datapath, interval, sharing)[1]

    def best(
        self, datapath: Datapath, interval: int, sharing: str
    ) -> tuple[Design, Cost, Datapath]:  # fmt: skip
        """Returns the design, its cost, and the datapath that it computes: with sums in post-adders
        if that makes it no slower, or makes it fit.
        """
        made, needed = self.design(datapath, interval, sharing)
        for slack in SLACK if interval > 1 else SLACK[:1]:
            found = self.fused(datapath, slack)
            if not found.fused:
                break
            try:
                other, its_need = self.design(found, interval, sharing)
            except CompileError:  # as above
                continue
            if its_need.fits and (other.latency <= made.latency or not needed.fits):
                return other, its_need, found
        return made, needed, datapath


class NetworkDesigner(NamedTuple):
    """What networks of some functions have in common. clock: nanoseconds a cycle; spare, tag_bits:
    as of `network`; runs: as of `Designer`.
    """

    name: str
    functions: Collection[str]
    device: devices.Device
    clock: float
    sharing: str
    spare: Sequence[float] = (0.0,)
    tag_bits: int = 16
    runs: int | None = None

    def design(self, datapath: Datapath, interval: int) -> tuple[Network, Cost]:
        """Returns the network of a datapath as it is."""
        pools = SHARING[self.sharing]
        given = self.device, self.clock, interval, pools, self.spare, self.tag_bits, self.runs
        made = network(self.name, narrowed(datapath), self.functions, *given)
        return made, network_cost.cost(made, self.device)

    def fused(self, datapath: Datapath, slack: int = 0) -> Datapath:
        """Returns the datapath with sums in post-adders, as `fuse.fused`."""
        return fused(datapath, self.device, self.clock, slack, ports=True)

    def smallest(self, datapath: Datapath, interval: int) -> Cost:
        """Returns the cost with as many sums in post-adders as may be."""
        try:
            return self.design(self.fused(datapath), interval)[1]
        except CompileError:
            return self.design(datapath, interval)[1]

    def best(self, datapath: Datapath, interval: int) -> tuple[Network, Cost, Datapath]:
        """Returns the network, its cost, and the datapath that it computes: with sums in
        post-adders if that makes no function slower, or makes it fit.
        """
        made, needed = self.design(datapath, interval)
        for slack in SLACK[::2] if interval > 1 else SLACK[:1]:  # networks take longer to schedule
            found = self.fused(datapath, slack)
            if not found.fused:
                break
            try:
                other, its_need = self.design(found, interval)
            except CompileError:
                continue
            if its_need.fits and (not needed.fits or _no_slower(other, made)):
                return other, its_need, found
        return made, needed, datapath


def _no_slower(network: Network, other: Network) -> bool:
    cycles = latencies(other)
    return all(n <= cycles[name] for name, n in latencies(network).items())
