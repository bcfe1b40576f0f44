"""The circuits of clusters: pipelines that take operands in each cycle."""

from __future__ import annotations

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga.devices import Device, operators
from featherlane.backends.fpga.verilog import Design, without_stream
from featherlane.program.analysis.modulo import pipelined


def cluster_design(name: str, datapath: Datapath, device: Device) -> Design:
    """Returns the circuit of the datapath of a cluster (`fixed.clusters`). Raises CompileError for
    an operation without a circuit.
    """
    narrow = narrowed(datapath)
    pipeline = pipelined(narrow.graph, operators(narrow, device), device.clock, 1)
    pipeline.verify()
    return without_stream(name, narrow, pipeline, device.tile)
