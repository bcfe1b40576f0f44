"""The test bench that goes with a design: it feeds words from a file, compares what comes out with
another file, and prints how many states passed and failed.
"""

from __future__ import annotations

from featherlane.backends.fpga.module import Module, same
from featherlane.backends.fpga.statements import Process, Waived


def bench(
    name: str,
    given: int,
    results: int,
    states: int,
    limit: int,
    rest: int,
    clock: float,
    index: str = "taken",
) -> Module:
    """The module of a test bench. given, results: bits of a word; states: words in the files;
    limit: cycles after which it gives up; rest: cycles that it goes on after the last state; clock:
    nanoseconds a cycle; index: the row of the files that a result belongs to.
    """
    module = Module(f"{name}_bench", f"Simulates {name}: {ABOUT}", TIMESCALE)
    _add_parameters(module, states, limit, rest)
    module.constant("GIVEN", given)
    module.constant("RESULTS", results)
    _add_signals(module)
    ports = ("clock", "reset", "in_valid", "in_ready", "in_data", *RESULTS)
    module.instance(name, "device", same(ports))
    module.process(f"initial forever #{clock / 2:g}", "clock = !clock;")
    module.process("initial", START)
    add_counting(module, "always @(posedge clock) if (!reset)", OFFER, _compare(index), END)
    return module


# Verilator wants one for all modules or for none; Icarus has seconds without one
TIMESCALE = """\
`ifndef VERILATOR
`timescale 1ns/1ps
`endif"""
DRAWN = "A system function reads it, which linters do not count."
COUNTS = "A test bench counts in variables, in the order of its statements."
ABOUT = (
    "feeds inputs.hex, compares the results with results.hex, and prints how many states passed "
    "and failed. STALLS: of 256 cycles, so many without a word in, and as many without a reader "
    "behind. WRITE: 1 writes the results and the cycles of both streams into written.txt."
)
RESULTS = ("out_valid", "out_ready", "out_data")


def add_counting(module: Module, head: str, *statements: str) -> None:
    """A process of a test bench that counts what it does in each cycle."""
    module.body.append(Waived("BLKSEQ", COUNTS, (Process(head, statements),)))


def _add_parameters(module: Module, states: int, limit: int, rest: int) -> None:
    module.parameter("STATES", states)
    module.parameter("STALLS", 0)
    module.parameter("SEED", 1)
    module.parameter("WRITE", 0)
    module.parameter("LIMIT", limit, "cycles")
    module.parameter("REST", rest, "cycles after the last state, in which nothing may come")


def _add_signals(module: Module) -> None:
    module.declare("clock", "in_valid", "out_ready", value=0)
    module.declare("reset", value=1)
    module.declare("in_ready", "out_valid")
    module.declare("in_data", bits="GIVEN", value="'0")
    module.declare("out_data", bits="RESULTS")
    module.declare("inputs", bits="GIVEN", size="STATES")
    module.declare("wanted", bits="RESULTS", size="STATES")
    counts = ("given", "taken", "row", "passed", "failed", "cycle", "rest", "file")
    module.declare(*counts, kind="integer", value=0)
    module.declare("state", kind="integer", value="SEED", unread=DRAWN)


START = """
    $readmemh("inputs.hex", inputs);
    if (!WRITE) $readmemh("results.hex", wanted);
    if (WRITE) file = $fopen("written.txt");
    repeat (4) @(negedge clock);
    reset = 0;
"""
OFFER = """
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
"""


def _compare(index: str) -> str:
    """Statements that compare a result with the row of the file that it belongs to."""
    return f"""
        if (out_valid && out_ready) begin
          row = {index};
          if (WRITE) $fdisplay(file, "emitted %0d %h", cycle, out_data);
          else if (taken < STATES && out_data === wanted[row]) passed = passed + 1;
          else begin
            failed = failed + 1;
            if (failed <= 10)
              $display("state %0d: %h, wanted %h", row, out_data, wanted[row]);
          end
          taken = taken + 1;
        end
    """


END = """
    if (taken >= STATES) rest = rest + 1;
    if (rest == REST || cycle == LIMIT) begin
      if (!WRITE)
        $display("%0d states passed, %0d failed, %0d are missing", passed, failed,
                 taken < STATES ? STATES - taken : 0);
      if (!WRITE && (failed > 0 || taken < STATES)) $fatal(1, "the design is wrong");
      $finish;
    end
"""
