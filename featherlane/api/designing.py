"""The design of a datapath at an interval: with sums in post-adders, or with sums of their own."""

from __future__ import annotations

from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga import devices
from featherlane.backends.fpga.cost import Cost, cost
from featherlane.backends.fpga.fuse import fused
from featherlane.backends.fpga.verilog import Design, design
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
            other, its_need = self.design(found, interval, sharing)
            if its_need.fits and (other.latency <= made.latency or not needed.fits):
                return other, its_need, found
        return made, needed, datapath
