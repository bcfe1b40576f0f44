"""The test bench that goes with a design: it feeds words from a file, compares what comes out with
another file, and prints how many states passed and failed.
"""

from __future__ import annotations

BENCH = """\
// Simulates {name}: feeds inputs.hex, compares the results with results.hex, and prints how many
// states passed and failed. STALLS: of 256 cycles, so many without a word in, and as many without a
// reader behind. WRITE: 1 writes the results and the cycles of both streams into written.txt.
`timescale 1ns/1ps
module {name}_bench;
  parameter STATES = {states};
  parameter STALLS = 0;
  parameter SEED = 1;
  parameter WRITE = 0;
  parameter LIMIT = {limit};  // cycles
  parameter REST = {rest};  // cycles after the last state, in which nothing may come
  localparam GIVEN = {given}, RESULTS = {results};

  logic clock = 0, reset = 1;
  logic in_valid = 0, out_ready = 0;
  logic in_ready, out_valid;
  logic [GIVEN-1:0] in_data = '0;
  logic [RESULTS-1:0] out_data;
  logic [GIVEN-1:0] inputs [0:STATES-1];
  logic [RESULTS-1:0] wanted [0:STATES-1];
  integer given = 0, taken = 0, passed = 0, failed = 0, cycle = 0, rest = 0, file = 0;
  integer state = SEED;

  {name} device (
    .clock(clock), .reset(reset), .in_valid(in_valid), .in_ready(in_ready), .in_data(in_data),
    .out_valid(out_valid), .out_ready(out_ready), .out_data(out_data)
  );

  always #{half} clock = !clock;

  initial begin
    $readmemh("inputs.hex", inputs);
    if (!WRITE) $readmemh("results.hex", wanted);
    if (WRITE) file = $fopen("written.txt");
    repeat (4) @(negedge clock);
    reset = 0;
  end

  always @(posedge clock) if (!reset) begin
    cycle = cycle + 1;
    if (in_valid && in_ready) begin
      if (WRITE) $fdisplay(file, "accepted %0d", cycle);
      given = given + 1;
    end
    if (!in_valid || in_ready) begin
      in_valid <= given < STATES && ($random(state) & 255) >= STALLS;
      in_data <= inputs[given];
    end
    out_ready <= ($random(state) & 255) >= STALLS;
    if (out_valid && out_ready) begin
      if (WRITE) $fdisplay(file, "emitted %0d %h", cycle, out_data);
      else if (taken < STATES && out_data === wanted[{index}]) passed = passed + 1;
      else begin
        failed = failed + 1;
        if (failed <= 10)
          $display("state %0d: %h, wanted %h", {index}, out_data, wanted[{index}]);
      end
      taken = taken + 1;
    end
    if (taken >= STATES) rest = rest + 1;
    if (rest == REST || cycle == LIMIT) begin
      if (!WRITE)
        $display("%0d states passed, %0d failed, %0d are missing", passed, failed,
                 taken < STATES ? STATES - taken : 0);
      if (!WRITE && (failed > 0 || taken < STATES)) $fatal(1, "the design is wrong");
      $finish;
    end
  end
endmodule
"""


def bench(
    name: str,
    given: int,
    results: int,
    states: int,
    limit: int,
    rest: int,
    clock: float,
    index: str = "taken",
) -> str:
    """The text of a test bench. given, results: bits of a word; states: words in the files; limit:
    cycles after which it gives up; rest: cycles that it goes on after the last state; clock:
    nanoseconds a cycle; index: the row of the files that a result belongs to.
    """
    return BENCH.format(
        name=name,
        given=given,
        results=results,
        states=states,
        limit=limit,
        rest=rest,
        half=f"{clock / 2:g}",
        index=index,
    )
