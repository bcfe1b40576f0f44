"""The stream around a datapath: words of inputs in, words of results out, each with valid and
ready.

The datapath never waits. A state is let in only while there is a place for its result in the FIFO
behind it: credits count the places that are neither taken nor promised. One bit travels along with
each state and puts its results into the FIFO.
"""

from __future__ import annotations

from collections.abc import Sequence

from featherlane.backends.fpga.netlist import Field, Netlist
from featherlane.program.analysis.pipeline import Pipeline

EXTRA = 4  # cycles of a credit besides the latency: input register, FIFO, the counter itself

CONTROL = """\
// Credits, phases and the FIFO of results; see the module that has it for the datapath.
module {name}_stream #(
  parameter INTERVAL = 1,  // cycles from one state to the next
  parameter LATENCY = 1,   // the cycle of a state in which its results are there
  parameter DEPTH = 4,     // states in the datapath and the FIFO together
  parameter PHASE_BITS = 1,
  parameter COUNT_BITS = 3,
  parameter WIDTH = 8      // bits of the results
) (
  input logic clock,
  input logic reset,
  input logic in_valid,
  output logic in_ready,
  output logic out_valid,
  input logic out_ready,
  output logic [WIDTH-1:0] out_data,
  output logic [PHASE_BITS-1:0] phase_next,
  input logic [WIDTH-1:0] results
);
  // The phase in which a state can be let in is the last one: its own cycle 0 has phase 0.
  localparam [PHASE_BITS-1:0] LAST_PHASE = INTERVAL - 1;
  localparam [COUNT_BITS-1:0] LAST_PLACE = DEPTH - 1;
  logic [PHASE_BITS-1:0] phase;
  logic [COUNT_BITS-1:0] credits, count, first, last;
  logic [LATENCY:0] travelling;  // bit n: a state is in its cycle n
  logic accepted, arrived, emitted;
  logic [WIDTH-1:0] fifo [0:DEPTH-1];

  assign phase_next = reset || phase == LAST_PHASE ? '0 : phase + 1'b1;
  assign in_ready = !reset && phase == LAST_PHASE && credits != 0;
  assign accepted = in_valid && in_ready;
  assign arrived = travelling[LATENCY];
  assign out_valid = count != 0;
  assign out_data = fifo[first];
  assign emitted = out_valid && out_ready;

  always_ff @(posedge clock) begin
    phase <= phase_next;
    if (reset) begin
      travelling <= '0;
      credits <= DEPTH;
      count <= '0;
      first <= '0;
      last <= '0;
    end else begin
      travelling <= (travelling << 1) | accepted;
      if (accepted != emitted) credits <= accepted ? credits - 1'b1 : credits + 1'b1;
      if (arrived != emitted) count <= arrived ? count + 1'b1 : count - 1'b1;
      if (arrived) last <= last == LAST_PLACE ? '0 : last + 1'b1;
      if (emitted) first <= first == LAST_PLACE ? '0 : first + 1'b1;
    end
    if (arrived) fifo[last] <= results;
  end
endmodule
"""
TOP = """\
// A stream of inputs to a stream of results: a state every {interval} cycles, results in cycle
// {latency}. A word is taken where valid and ready are both 1. reset is synchronous.
module {name} (
  input logic clock,
  input logic reset,
  input logic in_valid,
  output logic in_ready,
  input logic [{given}:0] in_data,
  output logic out_valid,
  input logic out_ready,
  output logic [{results}:0] out_data
);
  logic [{phase}:0] phase_next;
  logic [{given}:0] given;
  logic [{results}:0] results;

  always_ff @(posedge clock) if (in_valid && in_ready) given <= in_data;

  {name}_datapath datapath (
    .clock(clock), .phase_next(phase_next), .given(given), .results(results)
  );
  {name}_stream #(
    .INTERVAL({interval}), .LATENCY({latency}), .DEPTH({depth}),
    .PHASE_BITS({phase_bits}), .COUNT_BITS({count_bits}), .WIDTH({width})
  ) stream (
    .clock(clock), .reset(reset), .in_valid(in_valid), .in_ready(in_ready),
    .out_valid(out_valid), .out_ready(out_ready), .out_data(out_data),
    .phase_next(phase_next), .results(results)
  );
endmodule
"""


def bits(fields: Sequence[Field]) -> int:
    """The bits of a word, one at least."""
    return max((field.offset + field.signal.width for field in fields), default=1)


def full_depth(pipeline: Pipeline) -> int:
    """As many states under way as make the datapath never wait for credits."""
    return -(-(pipeline.latency + EXTRA) // pipeline.interval) + 1


def sources(netlist: Netlist, depth: int) -> dict[str, str]:
    """The modules around the datapath, by the names of their files."""
    pipeline, width = netlist.pipeline, bits(netlist.outputs)
    phase_bits = max((pipeline.interval - 1).bit_length(), 1)
    text = TOP.format(
        name=netlist.name,
        interval=pipeline.interval,
        latency=pipeline.latency,
        depth=depth,
        given=bits(netlist.inputs) - 1,
        results=width - 1,
        width=width,
        phase=phase_bits - 1,
        phase_bits=phase_bits,
        count_bits=depth.bit_length(),
    )
    control = CONTROL.format(name=netlist.name)
    return {f"{netlist.name}_stream.sv": control, f"{netlist.name}.sv": text}
