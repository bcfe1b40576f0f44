"""What the wrapper takes of a device, as Yosys finds it."""

from __future__ import annotations

from featherlane.backends.fpga.board.wrapper import WrappedCore
from featherlane.backends.fpga.resources import Resources
from featherlane.backends.fpga.verify.synthesis import synthesised

OUTLINE = """\
(* blackbox *)
module {name} (
  input logic clock, input logic reset,
  input logic in_valid, output logic in_ready, input logic [{given}:0] in_data,
  output logic out_valid, input logic out_ready, output logic [{found}:0] out_data
);
endmodule
"""


def wrapper_resources(board: WrappedCore) -> Resources:
    """The resources of the wrapper for UltraScale+ devices, without those of what it is around.
    Raises CompileError if Yosys is missing.
    """
    core = board.core
    outline = OUTLINE.format(name=core.name, given=core.tasks.bits - 1, found=core.results.bits - 1)
    return synthesised({f"{core.name}.sv": outline, **board.wrapper}, board.name)
