"""Estimates by which an organisation is chosen: the resources of a kernel, without a schedule."""

from __future__ import annotations

from collections import Counter
from math import ceil

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.slots import SlotKernel
from featherlane.backends.fpga.devices import Device, operators, width
from featherlane.backends.fpga.piece_costs import multiplexer
from featherlane.backends.fpga.resources import Resources


def share(x: Resources, device: Device) -> float:
    return x.dsps / device.dsps + x.luts / device.luts


def kernel_estimate(kernel: SlotKernel, interval: int, device: Device) -> Resources:
    """The resources of a kernel's operations, without a schedule: each kind of multiplier as often
    as the interval asks for, with a multiplexer of so many sources for both operands; all adders.
    """
    datapath = kernel.datapath
    counts = Counter(o._replace(region=None) for o in operators(datapath, device) if o)
    dsps = luts = 0.0
    for operator, count in counts.items():
        if operator.shared and operator.kind.startswith("multiply"):
            multiplier = next(m for m in device.multipliers if m.kind == operator.kind)
            units, sources = ceil(count / interval), min(count, interval)
            choice = multiplexer(device, {*map(str, range(sources))}, (interval - 1).bit_length())
            dsps += units * multiplier.dsps
            luts += units * choice * sum(multiplier.widths)
    return Resources(dsps, luts + _adders(datapath))


def _adders(datapath: Datapath) -> float:
    graph = datapath.graph
    return sum(width(datapath, k) for k, op in enumerate(graph.op) if op in ("add", "sub", "neg"))
