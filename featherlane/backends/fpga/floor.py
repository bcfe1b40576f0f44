"""The least that a design takes of a device, whatever its schedule: multipliers that have one
product a cycle, and circuits that operations do not share. It takes a moment, where a schedule of a
large robot takes a minute, and so tells early what no interval makes fit.
"""

from __future__ import annotations

from math import ceil

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.cost import DesignCost, circuit_luts
from featherlane.backends.fpga.devices import Device, operators, significant
from featherlane.backends.fpga.resources import Resources


def least_cost(datapath: Datapath, interval: int, device: Device, apart: bool) -> DesignCost:
    """Returns the multipliers and LUTs that a design of shared multipliers takes at least.

    datapath: in the formats of the circuit; apart: as of `devices.operators`. Raises CompileError
    for an operator that does not fit a cycle.
    """
    luts = 0.0
    for k, unit in enumerate(operators(datapath, device, apart)):
        if unit and not unit.shared and unit.follows < 0:
            luts += circuit_luts(datapath, device, k, unit.kind)
    parts = {
        ("", "add"): Resources(luts=luts),
        ("", "multiply"): _multipliers(datapath, interval, device),
    }
    return DesignCost(device, parts, 0, interval > 1, is_least=True)


def least_cost_of_memories(datapath: Datapath, interval: int, device: Device) -> DesignCost:
    """Returns the multipliers that a design of units with operand memories takes at least."""
    parts = {("", "multiply"): _multipliers(datapath, interval, device)}
    return DesignCost(device, parts, 0, interval > 1, is_least=True)


def _multipliers(datapath: Datapath, interval: int, device: Device) -> Resources:
    """One multiplier of the device for each product of two numbers, that serves one a cycle; wider
    products take more. Those of few bits are in LUTs.
    """
    graph, least = datapath.graph, device.tile.least
    products = sum(
        sum(significant(datapath, a) for a in graph.args[k]) >= least
        and datapath.format(k).width >= least
        for k, unit in enumerate(operators(datapath, device))
        if unit and unit.shared and graph.op[k] == "mul"
    )
    return Resources(dsps=ceil(products / interval))
