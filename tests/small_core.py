"""A small module between two streams, written by hand, with which the wrapper is tested."""

import numpy as np

from featherlane.backends.fpga.board.core import KnownEntry, StreamCore, WordField, Words

SOURCE = """\
// op 0: y = x, 1: y = 2x, 2: y = -x, 3: y = 0. Three places, each of which moves on when it can.
module tiny (
  input logic clock, input logic reset,
  input logic in_valid, output logic in_ready, input logic [20:0] in_data,
  output logic out_valid, input logic out_ready, output logic [19:0] out_data
);
  logic [2:0] valid;
  logic [20:0] first, second, third;
  logic move1, move2, move3;
  logic signed [10:0] x;
  logic signed [12:0] y;
  assign move3 = !valid[2] || out_ready;
  assign move2 = !valid[1] || move3;
  assign move1 = !valid[0] || move2;
  assign in_ready = move1;
  always_ff @(posedge clock) begin
    if (move1) begin first <= in_data; valid[0] <= in_valid; end
    if (move2) begin second <= first; valid[1] <= valid[0]; end
    if (move3) begin third <= second; valid[2] <= valid[1]; end
    if (reset) valid <= '0;
  end
  assign x = third[20:10];
  always_comb case (third[1:0])
    0: y = x;
    1: y = x <<< 1;
    2: y = -x;
    default: y = '0;
  endcase
  assign out_valid = valid[2];
  assign out_data = {x == -11'sd1024, y, third[7:2]};
endmodule
"""

OVERTAKING = """\
// As tiny, but tasks of op 3 wait in no place: they overtake those that do.
module tiny (
  input logic clock, input logic reset,
  input logic in_valid, output logic in_ready, input logic [20:0] in_data,
  output logic out_valid, input logic out_ready, output logic [19:0] out_data
);
  logic slow_valid, slow_ready, fast;
  logic [19:0] slow_data;
  assign fast = in_valid && in_data[1:0] == 3;
  assign in_ready = fast ? out_ready : slow_ready;
  assign out_valid = fast || slow_valid;
  assign out_data = fast ? {in_data[20:10] == 11'h400, 13'b0, in_data[7:2]} : slow_data;
  tiny_slow slow (
    .clock(clock), .reset(reset), .in_valid(in_valid && !fast), .in_ready(slow_ready),
    .in_data(in_data), .out_valid(slow_valid), .out_ready(out_ready && !fast),
    .out_data(slow_data)
  );
endmodule
"""


def entry(name, offset, width, fraction=0, signed=True):
    return WordField(((name, 0),), offset, width, fraction, signed)


def small_core():
    tasks = (entry("op", 0, 2, 0, False), entry("tag", 2, 6, 0, False), entry("x", 10, 11, 4))
    results = (entry("tag", 0, 6, 0, False), entry("y", 6, 13, 4), entry("lost", 19, 1, 0, False))
    return StreamCore(
        "tiny",
        {"tiny.sv": SOURCE},
        Words(tasks, {"op": (), "tag": (), "x": ()}),
        Words(results, {"tag": (), "y": (), "lost": ()}),
        interval=1,
        under_way=3,
        clock=8.0,
    )


def overtaking_core():
    """Results come in another order than tasks; their tags tell which is which."""
    sources = {
        "tiny.sv": OVERTAKING,
        "tiny_slow.sv": SOURCE.replace("module tiny", "module tiny_slow"),
    }
    return small_core()._replace(sources=sources, under_way=4)


SELECTING = """\
module either (
  input logic clock, input logic reset,
  input logic in_valid, output logic in_ready, input logic [16:0] in_data,
  output logic out_valid, input logic out_ready, output logic [16:0] out_data
);
  assign in_ready = out_ready;
  assign out_valid = in_valid;
  assign out_data = in_data;
endmodule
"""


def selecting_core():
    """Words have two numbers of 8 bits, or one of 16, which come out as they are."""

    def words(short, long):
        fields = [entry("kind", 0, 1, 0, False)]
        fields += [WordField(((short, n),), 1 + 8 * n, 8, 2, when=0) for n in (0, 1)]
        fields += [WordField(((long, 0),), 1, 16, 1, when=1)]
        shapes = {"kind": (), short: (2,), long: (2,)}
        return Words(tuple(fields), shapes, (KnownEntry(long, 1, 3.5, 1),), "kind")

    sources, streams = {"either.sv": SELECTING}, (words("x", "z"), words("y", "w"))
    return StreamCore("either", sources, *streams, interval=1, under_way=1, clock=8.0)


def tasks_of(count, seed=0):
    """Random tasks by name."""
    draw = np.random.default_rng(seed)
    return {
        "op": draw.integers(0, 4, count),
        "tag": draw.integers(0, 64, count),
        "x": draw.integers(-1024, 1024, count) / 16,
    }


def results_of(tasks):
    """What the module computes."""
    factor = np.array([1, 2, -1, 0])[tasks["op"]]
    return {"y": factor * tasks["x"], "lost": np.float64(tasks["x"] == -64)}


def without_tags(tasks):
    """What a driver takes, which has tags of its own."""
    return {name: x for name, x in tasks.items() if name != "tag"}
