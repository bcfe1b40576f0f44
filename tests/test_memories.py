"""Units with operand memories: schedules, circuits and DSPs equal their definitions."""

import subprocess
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from random_datapaths import random_datapath, with_mixed_formats
from repetition import repeated
from test_verilog import check, needs_icarus, needs_verilator, states_of

import featherlane as fl
from featherlane.api.fixed import input_ranges
from featherlane.backends.fixed import align
from featherlane.backends.fixed.align import shift_of
from featherlane.backends.fixed.assign import uniform
from featherlane.backends.fixed.evaluate import Evaluator, quantised
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.runs import accumulated
from featherlane.backends.fpga import devices, pipeline_folder, words
from featherlane.backends.fpga.memories.affinity import groups_of
from featherlane.backends.fpga.memories.design import (
    Formatted,
    memory_design,
    units_without_stream,
)
from featherlane.backends.fpga.memories.operations import INPUT, MULTIPLY, operations_of
from featherlane.backends.fpga.memories.scheduler import PortTimes
from featherlane.backends.fpga.memories.turning import Wait, address, cells
from featherlane.backends.fpga.module import sources
from featherlane.backends.fpga.simulation import simulate
from featherlane.backends.fpga.units import accumulator, carry_cells, multiplier_cell
from featherlane.backends.fpga.units.accumulator import Accumulator
from featherlane.backends.fpga.units.multipliers import Tile
from featherlane.program.graph import Output

DEVICE = devices.load("xcvu9p")
OPS = ["neg", "add", "add", "sub", "mul", "mul", "mul", "times", "trig"]
CLUSTERS = ["abs", "select", "inverse", "power"]
SUMS = ["multiply-add"] * 9  # of a product and another number
CASES = [(seed, interval) for seed in range(24) for interval in (2, 3, 5, 8)]
CASES = sorted(CASES, key=lambda case: (case[0] % 4 != case[1] % 4, case))


def designed(seed, interval, device=DEVICE, size=40, ops=(*OPS, *CLUSTERS)):
    """A design of a random datapath in Q16.16."""
    datapath = uniform(random_datapath(seed, size, ops=ops).graph, "q16.16")
    return memory_design("dut", accumulated(datapath, interval), interval, device)


def mixed(seed, size=40):
    """A random datapath whose formats have different fractions."""
    return with_mixed_formats(random_datapath(seed, size, ops=[*OPS, *SUMS]), seed)


def vectors(design, place, seed, states=60):
    """Writes a design with vectors, and returns the words of inputs and those wanted."""
    inputs = states_of(design.datapath, seed, states)
    outputs = Evaluator(design.datapath)(inputs).integers
    pipeline_folder.write(design, place, inputs, outputs)
    wanted = words.result_values(design.datapath, design.outputs, outputs)
    return words.given_values(design.datapath, design.inputs, inputs), wanted


@needs_icarus
@pytest.mark.parametrize(("seed", "interval"), repeated(CASES, 8))
@pytest.mark.parametrize("device", ["xcvu9p", "ecp5_85k"])
def test_circuits_equal_the_golden_model(tmp_path, seed, interval, device):
    design = designed(seed, interval, devices.load(device))
    given, wanted = vectors(design, tmp_path, seed)
    check(design, simulate.icarus(tmp_path, given, 128 * (seed % 2), seed), wanted)


@needs_icarus
@pytest.mark.parametrize(("seed", "interval"), repeated(CASES, 8))
@pytest.mark.parametrize("device", ["xcvu9p", "ecp5_85k"])
def test_operands_of_different_formats_are_aligned(tmp_path, seed, interval, device):
    runs = accumulated(mixed(seed), interval)
    design = memory_design("dut", runs, interval, devices.load(device))
    given, wanted = vectors(design, tmp_path, seed)
    check(design, simulate.icarus(tmp_path, given, 128 * (seed % 2), seed), wanted)


WITHOUT_BLOCKS = devices.load("ecp5_85k")._replace(blocks=0)


def test_memories_turn_in_many_designs():
    designs = [designed(seed, 5, WITHOUT_BLOCKS, size=90) for seed in range(6)]
    assert sum(any(unit.rotates for unit in design.layouts) for design in designs) > 3
    usual = designed(0, 5, devices.load("ecp5_85k"), size=90)
    assert not any(unit.rotates for unit in usual.layouts)


@needs_icarus
@pytest.mark.parametrize(("seed", "interval"), repeated(CASES, 6))
def test_memories_turn_where_blocks_of_ram_are_scarce(tmp_path, seed, interval):
    design = designed(seed, interval, WITHOUT_BLOCKS, size=90)
    given, wanted = vectors(design, tmp_path, seed)
    check(design, simulate.icarus(tmp_path, given, 128 * (seed % 2), seed), wanted)


@needs_icarus
@pytest.mark.parametrize("seed", [3, 5])
def test_microcode_of_long_intervals_is_in_blocks_of_ram(tmp_path, seed):
    design = designed(seed, 20, devices.load("ecp5_85k"))
    assert all(unit.in_block for unit in design.layouts)
    assert not any(unit.in_block for unit in designed(seed, 20).layouts)  # LUTs have six inputs
    given, wanted = vectors(design, tmp_path, seed)
    check(design, simulate.icarus(tmp_path, given, 128, seed), wanted)


def test_cells_of_memories_that_turn():
    """No two values are in a cell at once, and a memory is hardly larger than what it holds."""
    draw = np.random.default_rng(5)
    for interval in (2, 7, 39):
        waits = dict[int, Wait]()
        for k, written in enumerate(draw.integers(0, 9 * interval, 12)):
            waits[k] = Wait(int(written), int(written + draw.integers(1, 4 * interval)))
        held = sum(wait.read - wait.written for wait in waits.values())
        count = next(n for n in range(1, 99) if cells(waits, interval, n) is not None)
        assert -(-held // interval) <= count <= 1.25 * held / interval + 3
        found = cells(waits, interval, count)
        there = dict[tuple[int, int], int]()
        for k, wait in waits.items():
            for state in range(3 * count):
                for cycle in range(wait.written + 1, wait.read + 1):
                    at = cycle + state * interval
                    turns = at // interval
                    cell = (address(found[k], cycle, interval, count) + turns) % count
                    assert there.setdefault((cell, at), (k, state)) == (k, state)
            first = address(found[k], wait.written, interval, count) + wait.written // interval
            assert (first - found[k]) % count == 0
    assert cells({0: Wait(0, 9)}, 4, 2) is None


def test_operands_are_aligned():
    every = [accumulated(mixed(seed), 8) for seed in range(12)]
    dropped = [shift_of(runs, k) for runs in every for k in range(len(runs.graph))]
    assert len({*dropped} - {None}) > 4
    assert min(n for n in dropped if n is not None) > 0


@cache
def derivatives():
    """The datapath of derivatives of the iiwa14, and states."""
    arm = fl.load("iiwa14")
    fixed = arm.function("inverse_dynamics_derivatives", backend="fixed", format="fitted")
    return fixed.datapath, input_ranges(arm, fixed.inputs, {}, seed=1, states=1000)[1]


def test_results_that_are_zero_but_for_rounding_do_not_overflow():
    """Formats are fitted to what rounding leaves of them in some states; operands that drop places
    leave more.
    """
    datapath, states = derivatives()
    runs = accumulated(datapath, 12)
    integers, saturated = quantised(runs, states)
    assert not saturated
    assert not Evaluator(runs)(integers).overflows


def test_wide_values_that_many_read_have_few_fractions(monkeypatch):
    datapath, _ = derivatives()

    def multiples():
        runs = accumulated(datapath, 12)
        readers = Counter(a for args in runs.graph.args for a in {*args})
        forms = [form for k, form in enumerate(runs.formats) if form and readers[k] >= 8]
        return sum(form.fraction % 4 == 0 for form in forms if form.width >= 20)

    every_fourth = multiples()
    monkeypatch.setattr(align, "GRID", 1)
    assert every_fourth > 1.2 * multiples()


@pytest.mark.parametrize("interval", [3, 8, 20])
def test_groups_of_operations_have_room_on_a_unit(interval):
    runs = accumulated(mixed(3), interval)
    operations, _ = operations_of(runs)
    groups = groups_of(runs, operations, dict.fromkeys([MULTIPLY, INPUT], interval))
    every = sorted(n for group in groups for n in group)
    assert every == [n for n, op in enumerate(operations) if op.kind in (MULTIPLY, INPUT)]
    for group in groups:
        assert len({operations[n].kind for n in group}) == 1
        assert sum(operations[n].cycles for n in group) <= interval
    assert len(groups) < len(every)


@needs_verilator
def test_the_accelerator_computes_its_function():
    arm = fl.load("double_pendulum")
    made = fl.accelerator(arm, "inverse_dynamics_derivatives", interval=6, datapath="memories")
    states = made.samples(40)
    run = made.simulate(states, stalls=64)
    for name, found in zip(made.function.outputs, made.function(**states), strict=True):
        assert (run.results[name] == found).all()
    assert (run.cycles >= made.latency).all()
    assert made.facts["device_multipliers"] == made.cost.total.dsps
    assert made.choices["datapath"] == "memories"


@needs_verilator
@pytest.mark.parametrize("function", ["forward_dynamics", "forward_dynamics_derivatives"])
def test_functions_that_divide_have_units(function):
    arm = fl.load("double_pendulum")
    made = fl.accelerator(arm, function, interval=8, datapath="memories")
    kinds = {unit.kind.split()[0] for unit in made.design.layouts}
    assert kinds >= {"multiply", "input", "reciprocal", "selection"}
    states = made.samples(40)
    run = made.simulate(states, stalls=64)
    integers = Evaluator(made.datapath)(quantised(made.datapath, states)[0]).integers
    for name, wanted in integers.items():
        assert (run.outputs[name] == wanted).all(), name
    assert made.facts["device_multipliers"] == made.cost.total.dsps


@needs_verilator
@pytest.mark.parametrize("chosen", ["q16.16", "fitted"])
def test_several_functions_are_stations_of_such_units(chosen):
    arm = fl.load("double_pendulum")
    made = fl.multifunction(arm, interval=6, format=chosen, datapath="memories")
    assert {station.design.layouts[0].kind for station in made.network.stations.values()}
    tasks = made.tasks(60)
    run = made.simulate(tasks, stalls=64)
    for found, wanted in zip(run.outputs, made.expected(tasks), strict=True):
        assert found.keys() == wanted.keys()
        assert all((found[name] == wanted[name]).all() for name in wanted)
    taken = made.network.first.design.pipeline.taken
    assert taken["M"] < taken["tau"] < taken["da_dq"]  # ports leave as early as they can


def test_ports_and_late_inputs_of_a_schedule():
    datapath = accumulated(uniform(random_datapath(3, 40, ops=OPS).graph, "q16.16"), 5)
    nodes = datapath.graph.outputs["y"].nodes
    outputs = {"early": Output((1,), nodes[:1]), "y": datapath.graph.outputs["y"]}
    datapath = replace(datapath, graph=datapath.graph.replaced(outputs=outputs))
    both = Formatted(datapath, narrowed(datapath))
    times = PortTimes((("early",), ("y",)), {"x": 10})
    made = units_without_stream("dut", both, 5, DEVICE, times, ("x",))
    assert made.pipeline.taken["early"] < made.pipeline.taken["y"] == made.latency
    starts = {made.pipeline.start[k] for k in made.pipeline.graph.nodes_of("input")[:4]}
    assert min(starts) >= 10
    broken = replace(made.schedule, taken={"early": 0})
    with pytest.raises(ValueError, match="too late"):
        broken.verify()


# Schedules


def broken(schedule, number, **columns):
    """The schedule with another write."""
    writes = list(schedule.writes)
    writes[number] = writes[number]._replace(**columns)
    return replace(schedule, writes=writes)


def test_schedules_check_themselves():
    schedule = designed(3, 5, ops=OPS).schedule
    schedule.verify()
    n = next(n for n, op in enumerate(schedule.operations) if len(op.terms) > 1)
    early = [
        tuple(c - 1 for c in reads) if m == n else reads for m, reads in enumerate(schedule.reads)
    ]
    gap = [(*r[:-1], r[-1] + 1) if m == n else r for m, r in enumerate(schedule.reads)]
    same = [schedule.reads[n][:1] * len(r) if m == n else r for m, r in enumerate(schedule.reads)]
    for reads in (early, gap, same):
        with pytest.raises(ValueError, match=r"node|port|unit"):
            replace(schedule, reads=reads).verify()
    with pytest.raises(ValueError, match="too late"):
        replace(schedule, latency=schedule.latency - 1).verify()
    write = schedule.writes[0]
    with pytest.raises(ValueError, match=r"shows another value|takes nodes|takes in"):
        broken(schedule, 0, cycle=write.cycle + 5).verify()
    with pytest.raises(ValueError, match="another unit"):
        broken(schedule, 0, tap=write.tap._replace(unit=write.tap.unit + 1)).verify()


# Choices


def test_datapaths_are_chosen():
    arm = fl.load("double_pendulum")
    both = [
        fl.accelerator(arm, "inverse_dynamics_derivatives", interval=8, datapath=kind)
        for kind in ("shared", "memories", "auto")
    ]
    shared, memories, auto = (max(made.cost.shares) for made in both)
    assert auto == min(shared, memories)


@pytest.mark.parametrize(
    ("choices", "error", "match"),
    [
        ({"datapath": "memory"}, ValueError, "wanted one of 'shared', 'memories', 'auto'"),
        ({"datapath": "memories"}, ValueError, "interval of 2 or more"),
        ({"datapath": "memories", "interval": 4, "arrays": "limbs"}, ValueError,
         "arrays share multipliers"),
    ],
)  # fmt: skip
def test_choices_without_a_design_are_refused(choices, error, match):
    with pytest.raises(error, match=match):
        fl.accelerator(fl.load("double_pendulum"), **choices)


# Accumulators

# The DSP48E2 by the tables of UG579: X, Y, Z, W by OPMODE and the sum by ALUMODE, with the
# registers and inputs that accumulators use.
DSP48E2 = """
module DSP48E2 #(parameter AREG = 0, BREG = 0, ACASCREG = 0, BCASCREG = 0, MREG = 0, PREG = 0,
  CREG = 0, DREG = 0, ADREG = 0, ALUMODEREG = 0, OPMODEREG = 0, INMODEREG = 0, CARRYINREG = 0,
  CARRYINSELREG = 0, AMULTSEL = "A", BMULTSEL = "B", A_INPUT = "DIRECT", B_INPUT = "DIRECT",
  USE_MULT = "MULTIPLY", USE_SIMD = "ONE48") (
  input CLK, input [29:0] A, ACIN, input [17:0] B, BCIN, input [47:0] C, PCIN, input [26:0] D,
  input [8:0] OPMODE, input [3:0] ALUMODE, input [4:0] INMODE, input [2:0] CARRYINSEL,
  input CARRYIN, CARRYCASCIN, MULTSIGNIN, CEA1, CEA2, CEB1, CEB2, CEM, CEP, CEC, CED, CEAD,
  CEALUMODE, CECTRL, CEINMODE, CECARRYIN, RSTA, RSTB, RSTC, RSTD, RSTM, RSTP, RSTALLCARRYIN,
  RSTALUMODE, RSTCTRL, RSTINMODE, output [47:0] P, PCOUT);
  reg signed [26:0] a1, a2; reg signed [17:0] b1, b2; reg signed [44:0] m; reg [47:0] p;
  wire signed [26:0] a = AREG == 0 ? A[26:0] : a2;
  wire signed [17:0] b = BREG == 0 ? B : b2;
  wire [47:0] product = {{3{m[44]}}, m};
  reg [47:0] z, w;
  always @* case (OPMODE[6:4])
    3'b000: z = 0; 3'b001: z = PCIN; 3'b010: z = p; 3'b011: z = C;
    3'b101: z = $signed(PCIN) >>> 17; default: z = 48'bx;
  endcase
  always @* case (OPMODE[8:7]) 2'b00: w = 0; 2'b01: w = p; 2'b11: w = C; default: w = 48'bx; endcase
  wire [47:0] xy = OPMODE[3:0] == 4'b0101 ? product : 48'bx;
  always @(posedge CLK) begin
    if (CEA1) a1 <= A[26:0];
    if (CEA2) a2 <= AREG == 2 ? a1 : A[26:0];
    if (CEB1) b1 <= B;
    if (CEB2) b2 <= BREG == 2 ? b1 : B;
    if (CEM) m <= a * b;
    if (CEP) p <= ALUMODE == 4'b0000 ? z + w + xy + CARRYIN :
                  ALUMODE == 4'b0011 ? z - (w + xy + CARRYIN) : 48'bx;
  end
  assign P = p;
  assign PCOUT = p;
endmodule
"""
# The cells of the ECP5 as Yosys and FPGA-TN-02205 describe them, with what accumulators use
ECP5 = """
module MULT18X18D #(parameter REG_INPUTA_CLK = "NONE", REG_INPUTB_CLK = "NONE",
  REG_PIPELINE_CLK = "NONE", REG_OUTPUT_CLK = "NONE", GSR = "ENABLED") (
  input CLK0, CE0, RST0, SIGNEDA, SIGNEDB, SOURCEA, SOURCEB, input {operands}, output {product});
  wire signed [17:0] a = {{{a_bits}}}, b = {{{b_bits}}};
  reg signed [35:0] p;
  reg signed [17:0] a_1, b_1;
  always @(posedge CLK0) begin
    a_1 <= a; b_1 <= b;
    p <= (REG_INPUTA_CLK == "NONE" ? a : a_1) * (REG_INPUTB_CLK == "NONE" ? b : b_1);
  end
  assign {{{p_bits}}} = p;
endmodule
module CCU2C #(parameter [15:0] INIT0 = 0, INIT1 = 0, parameter INJECT1_0 = "YES",
  INJECT1_1 = "YES") (input CIN, A0, B0, C0, D0, A1, B1, C1, D1, output S0, S1, COUT);
  wire f0 = INIT0[{{D0, C0, B0, A0}}], f1 = INIT1[{{D1, C1, B1, A1}}];
  wire carry = f0 ? CIN : INIT0[{{2'b00, B0, A0}}];
  assign S0 = f0 ^ CIN, S1 = f1 ^ carry, COUT = f1 ? carry : INIT1[{{2'b00, B1, A1}}];
endmodule
""".format(
    operands=", ".join(f"{x}{n}" for x in "ABC" for n in range(18)),
    product=", ".join(f"P{n}" for n in range(36)),
    a_bits=", ".join(f"A{n}" for n in reversed(range(18))),
    b_bits=", ".join(f"B{n}" for n in reversed(range(18))),
    p_bits=", ".join(f"P{n}" for n in reversed(range(36))),
)
SHAPES = [(27, 18), (18, 18), (27, 27), (24, 20), (32, 18), (32, 27), (32, 32), (18, 32), (35, 30)]


def simulated_sums(place, m, synthesis):
    """The sums of random products that the accumulator gives, and those wanted."""
    draw = np.random.default_rng(m.a * 64 + m.b)
    rows, wanted = [], []
    while len(rows) < 600:
        count = draw.integers(1, 8)
        signs = draw.integers(0, 2, count)
        total = 1 << 15
        for n, sign in enumerate(signs):
            ends = n == 0, n == count - 1
            a, b = (extreme(draw, bits) for bits in (m.a, m.b))
            total += -a * b if sign else a * b
            rows.append((a, b, *map(int, ends), int(sign), int(signs[-1])))
        wanted.append(total % (1 << m.bits))
    lines = (" ".join(f"{x:x}" for x in unsigned(row, m)) for row in rows)
    (place / "rows.txt").write_text("\n".join(lines) + "\n")
    modules = [accumulator.module("dut_", m), accumulator.dsp("dut_")]
    if m.cell:
        modules += [multiplier_cell.module("dut_", m.cell), carry_cells.module("dut_", m.bits)]
    files = sources({x.name: x for x in modules})
    widths = {"a": m.a - 1, "b": m.b - 1, "r": m.bits - 1, "bits": m.bits}
    ports = ", ".join(f".{name}({name})" for name in accumulator.controls(m))
    texts = {"start": m.control - m.loads_early, "control": m.control, "ports": ports}
    text = BENCH.format(name=m.name, rows=len(rows), late=m.cycles - 1, **texts, **widths)
    files["bench.sv"] = text
    if synthesis:
        files["primitive.v"] = DSP48E2 + ECP5
    for name, text in files.items():
        (place / name).write_text(text)
    define = ["-DSYNTHESIS"] if synthesis else []
    compile_ = ["iverilog", "-g2012", *define, "-s", "bench", "-o", "a.vvp", *files]
    subprocess.run(compile_, cwd=place, check=True)
    out = subprocess.run(["vvp", "a.vvp"], cwd=place, check=True, capture_output=True, text=True)
    return [int(x, 16) for x in out.stdout.split()], wanted


def extreme(draw, bits):
    """A random number of so many bits, often one of both ends."""
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    return int(draw.choice([least, most, draw.integers(least, most, endpoint=True)]))


def unsigned(row, m):
    a, b, *flags = row
    return a % (1 << m.a), b % (1 << m.b), *flags


BENCH = """
module bench;
  logic clock = 0;
  logic signed [{a}:0] a; logic signed [{b}:0] b; logic signed [{r}:0] sum;
  logic start, last, minus, ends_minus;
  dut_{name} dut (.clock(clock), .a(a), .b(b), .initial_sum({bits}'d32768), {ports}, .sum(sum));
  integer file, n, count;
  logic [63:0] row [0:5];
  logic [3:0] flags [0:2];  // of these operands and those before
  logic [{late}:0] ended = 0;
  initial begin
    file = $fopen("rows.txt", "r");
    for (n = 0; n < {rows} + 8; n++) begin
      for (int k = 0; k < 6; k++) if (n < {rows}) count = $fscanf(file, "%h", row[k]);
      a = row[0]; b = row[1];
      flags[2] = flags[1]; flags[1] = flags[0];
      flags[0] = {{row[2][0], row[3][0], row[4][0], row[5][0]}};
      if ({start} == 0) start = flags[0][3];
      #1;
      if (ended[{late}]) $display("%h", sum);
      #4 clock = 1;
      #1;
      if ({start} != 0) start = flags[{start} == 0 ? 0 : {start} - 1][3];
      {{last, minus, ends_minus}} = flags[{control} - 1][2:0];
      ended = ended << 1; ended[0] = n < {rows} && row[3][0];
      #4 clock = 0;
    end
  end
endmodule
"""


@needs_icarus
@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("synthesis", [False, True])
def test_accumulators_sum_products(tmp_path, a, b, synthesis):
    m = Accumulator(a, b, 48, Tile(27, 18, post_adder=48))
    found, wanted = simulated_sums(tmp_path, m, synthesis)
    assert found == wanted


@needs_icarus
@pytest.mark.parametrize("synthesis", [False, True])
@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.parametrize(("a", "b", "bits"), [(18, 18, 40), (11, 18, 39), (18, 18, 33)])
def test_accumulators_without_post_adders_sum_products(tmp_path, registered, synthesis, a, b, bits):
    m = Accumulator(a, b, bits, Tile(18, 18, registered=registered))
    assert bool(m.cell) == registered
    found, wanted = simulated_sums(tmp_path, m, synthesis)
    assert found == wanted
