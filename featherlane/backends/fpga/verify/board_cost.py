"""What the wrapper takes of a device, as Yosys finds it."""

from __future__ import annotations

from featherlane.backends.fpga.board.wrapper import WrappedCore
from featherlane.backends.fpga.module import Module, sources
from featherlane.backends.fpga.resources import Resources
from featherlane.backends.fpga.stream import add_stream_ports
from featherlane.backends.fpga.verify.synthesis import synthesised


def wrapper_resources(board: WrappedCore) -> Resources:
    """The resources of the wrapper for UltraScale+ devices, without those of what it is around.
    Raises CompileError if Yosys is missing.
    """
    core = board.core
    outline = Module(core.name, directive="(* blackbox *)")
    add_stream_ports(outline, core.results.bits, core.tasks.bits)
    return synthesised(sources({core.name: outline, **board.modules}), board.name)
