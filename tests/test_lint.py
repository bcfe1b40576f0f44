"""Emitted SystemVerilog has no warnings in Verilator, with all of them on."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import black_boxes
import pytest

import featherlane as fl
from featherlane.backends.fpga.module import NO_RESET, ONE_CLOCK, RESET, Module

needs_verilator = pytest.mark.skipif(
    not shutil.which("verilator"), reason="verilator is not installed"
)
DESIGNS = {
    "pipeline": {"function": "inverse_dynamics", "interval": 4},
    "divisions": {"function": "forward_dynamics", "interval": 1, "format": "fitted18"},
    "ecp5": {"function": "inverse_dynamics", "device": "ecp5_85k", "interval": 2},
    "shared on a board": {"function": "inverse_dynamics", "board": "ulx3s", "interval": 6},
    "arrays": {"function": "inverse_dynamics", "interval": 8, "arrays": "limbs"},
    "memories": {"function": "inverse_dynamics", "interval": 6, "datapath": "memories"},
    "memories of narrow sums": {
        "function": "inverse_dynamics", "interval": 12, "format": "fitted", "datapath": "memories",
    },
    "memories of 27 bits": {
        "function": "forward_dynamics_derivatives_from", "interval": 10, "datapath": "memories",
    },
    "memories of many inputs": {
        "function": "forward_dynamics_derivatives_from", "interval": 24, "datapath": "memories",
    },
    "memories, ECP5": {
        "function": "inverse_dynamics", "interval": 8, "datapath": "memories",
        "format": "fitted18", "device": "ecp5_85k",
    },
    "memories in blocks, ECP5": {
        "function": "forward_dynamics_derivatives_from", "interval": 24, "datapath": "memories",
        "format": "fitted18", "device": "ecp5_85k",
    },
    "memories on a board": {
        "function": "forward_dynamics", "interval": 13, "datapath": "memories", "board": "ulx3s",
    },
    "board": {"function": "inverse_dynamics", "board": "ulx3s"},
}  # fmt: skip
OF_MEMORIES = [kind for kind in DESIGNS if "memories" in kind]


@cache
def sources_of(kind):
    """The texts of a small design."""
    return fl.accelerator(fl.load("double_pendulum"), **DESIGNS[kind]).design.sources


@cache
def two_functions():
    """The texts of two functions as stations of units with operand memories."""
    functions = ["inverse_dynamics", "mass_matrix"]
    made = fl.multifunction(fl.load("double_pendulum"), functions, interval=12, datapath="memories")
    return made.circuit.sources


def warnings(folder, sources, *options):
    """The warnings for the modules of a design, one a line. options: of Verilator."""
    for name, text in sources.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = ["verilator", "--lint-only", "-Wall", "-sv", "-Wno-fatal", *options, *sources]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return re.findall(r"^%\w+-\w+: .*", done.stderr, re.MULTILINE)


@needs_verilator
@pytest.mark.parametrize("kind", DESIGNS)
def test_designs_have_no_warnings(tmp_path, kind):
    assert warnings(tmp_path, sources_of(kind)) == []


def synthesised(folder, sources):
    """The warnings for what synthesis reads: cells of the device are in the place of models."""
    folder.mkdir(exist_ok=True)
    (folder / "cells.v").write_text(black_boxes.text(), encoding="utf-8")
    return warnings(folder, sources, "-DSYNTHESIS", "-v", "cells.v")


@needs_verilator
@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        ("pipeline", "DSP48E2"), ("memories", "DSP48E2"), ("board", "MULT18X18D"),
        ("memories, ECP5", "CCU2C"), ("memories on a board", "MULT18X18D"),
        ("memories of many inputs", "MUXF7"),
    ],
)  # fmt: skip
def test_what_synthesis_reads_has_no_warnings(tmp_path, kind, cell):
    sources = sources_of(kind)
    assert any(re.search(rf"^ *{cell} ", text, re.MULTILINE) for text in sources.values())
    assert synthesised(tmp_path, sources) == []


@needs_verilator
def test_the_top_module_of_a_board_has_no_warnings(tmp_path):
    """With its PLL, reset and serial link; a pin that the PLL has not is an error."""
    made = fl.accelerator(fl.load("double_pendulum"), "mass_matrix", board="ulx3s")
    sources = made.board_design.sources
    assert synthesised(tmp_path, sources) == []
    top = f"{made.name}_top.sv"
    wrong = {**sources, top: sources[top].replace(".CLKOS(", ".CLKOX(")}
    with pytest.raises(subprocess.CalledProcessError):
        synthesised(tmp_path / "wrong", wrong)


@needs_verilator
def test_the_list_of_a_folder_has_no_warnings(tmp_path):
    """Outside of synthesis the oscillator is in the place of the PLL: no cell is missing."""
    made = fl.accelerator(fl.load("double_pendulum"), "mass_matrix", board="ulx3s")
    assert warnings(tmp_path, made.board_design.sources) == []


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("CCU2C", "ccu2c_sim.vh"),
        ("EHXPLLL", "cells_bb_ecp5.v"),
        ("MULT18X18D", "cells_bb_ecp5.v"),
        ("MUXF7", "xilinx/cells_sim.v"),
        ("MUXF8", "xilinx/cells_sim.v"),
        ("MUXF9", "xilinx/cells_sim.v"),
    ],
)
def test_black_boxes_have_the_ports_of_yosys(name, file):
    yosys = pytest.importorskip("pyosys", reason="pyosys is not installed")
    share = Path(yosys.__file__).parent / "share"
    text = next(share.rglob(file)).read_text(encoding="utf-8")
    ports = re.search(rf"^module {name}\((.*?)\);", text, re.DOTALL | re.MULTILINE)[1]
    names = re.findall(r"\w+", re.sub(r"\(\*.*?\*\)", "", ports))
    cell = black_boxes.CELLS[name]
    assert {*names} - {"input", "output", "wire"} == {*cell.inputs, *cell.outputs}


@cache
def seven_functions():
    """The texts of all functions in a network."""
    made = fl.multifunction(fl.load("double_pendulum"), interval=4, format="proved")
    return made.circuit.sources


@needs_verilator
def test_networks_have_no_warnings(tmp_path):
    assert warnings(tmp_path, seven_functions()) == []


FOLDERS = {
    "pipeline": lambda: pendulum(),
    "network": lambda: fl.multifunction(fl.load("double_pendulum"), interval=8),
    "AXI": lambda: pendulum().board(128),
}


def pendulum():
    return fl.accelerator(fl.load("double_pendulum"), "inverse_dynamics", interval=4)


@needs_verilator
@pytest.mark.parametrize("kind", FOLDERS)
def test_the_lists_of_a_folder_have_no_warnings(tmp_path, kind):
    """The list for simulations has all sources, the test bench last; the other one has not it."""
    FOLDERS[kind]().write(tmp_path, 5)
    listed, simulated = (
        (tmp_path / name).read_text(encoding="utf-8").split() for name in ("files.f", "bench.f")
    )
    assert sorted(simulated) == sorted(path.name for path in tmp_path.glob("*.sv"))
    assert simulated[:-1] == listed
    assert simulated[-1].endswith("_bench.sv")
    for options in (["-f", "files.f"], ["--timing", "-f", "bench.f"]):
        command = ["verilator", "--lint-only", "-Wall", *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


DECLARED = re.compile(r"^ *(?:\(\*.*?\*\) )?(?:(?:in|out)put )?logic\b(.*)", re.MULTILINE)


def signals(text):
    """The names that lines of a module declare."""
    for line in DECLARED.findall(text):
        yield from re.findall(r"\w+", re.sub(r"//.*|\[.*?\]|\bsigned\b|=[^,;]*", "", line))


@needs_verilator
@pytest.mark.parametrize(
    "kind", ["pipeline", "memories", "memories on a board", "shared on a board", "network"]
)
def test_signals_that_are_read_are_not_waived(tmp_path, kind):
    """Without waivers Verilator names the same signals, here or in what synthesis reads."""
    sources = seven_functions() if kind == "network" else sources_of(kind)
    bare = {name: re.sub(r".*lint_(off|on) UNUSEDSIGNAL.*", "", x) for name, x in sources.items()}
    found = [*warnings(tmp_path, bare), *synthesised(tmp_path / "synthesis", bare)]
    told = {re.search(r"(\w+\.sv):\d.*'(\w+)'", line).groups() for line in found}
    pattern = r"lint_off UNUSEDSIGNAL \*/[^\n]*\n(.*?)/\* verilator lint_on UNUSEDSIGNAL"
    waived = {
        (name, signal)
        for name, text in sources.items()
        for part in re.findall(pattern, text, re.DOTALL)
        for signal in signals(part)
    }
    assert waived == told
    assert 0 < len(waived) < 0.25 * sum(len([*signals(text)]) for text in sources.values())


@needs_verilator
def test_networks_of_operand_memories_have_no_warnings(tmp_path):
    assert warnings(tmp_path, two_functions()) == []


@pytest.mark.skipif(not shutil.which("iverilog"), reason="Icarus Verilog is not installed")
@pytest.mark.parametrize("kind", [*OF_MEMORIES, "network"])
def test_icarus_has_nothing_to_say_of_operand_memories(tmp_path, kind):
    """No constant selects in an always_comb, which it takes for reads of all bits."""
    sources = two_functions() if kind == "network" else sources_of(kind)
    for name, text in sources.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = ["iverilog", "-g2012", "-o", "design.vvp", *sources]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""


def stray_blanks(sources):
    """The files with blanks at the end of a line, or two empty lines."""
    return [name for name, text in sources.items() if re.search(r"[ \t]\n|\n\n\n", text)]


@pytest.mark.parametrize("kind", DESIGNS)
def test_emitted_files_have_no_stray_blanks(kind):
    assert stray_blanks(sources_of(kind)) == []


def test_files_of_a_board_have_no_stray_blanks():
    made = fl.accelerator(fl.load("double_pendulum"), "inverse_dynamics", board="ulx3s")
    assert stray_blanks(made.board_design.sources) == []
    assert stray_blanks(made.board(128).wrapped.sources) == []


@needs_verilator
def test_the_wrapper_of_a_board_has_no_warnings(tmp_path):
    made = fl.accelerator(fl.load("double_pendulum"), "inverse_dynamics", interval=4)
    assert warnings(tmp_path, made.board(128).wrapped.sources) == []


@needs_verilator
def test_warnings_are_found(tmp_path):
    text = "module wide (input logic [3:0] a, output logic [7:0] b);\n  assign b = a;\nendmodule\n"
    (warning,) = warnings(tmp_path, {"wide.sv": text})
    assert "WIDTH" in warning


def test_each_waiver_has_a_reason_and_an_end():
    """A comment stands above or beside it, and the next one ends it."""
    for kind in ("pipeline", "memories"):
        for text in sources_of(kind).values():
            lines = [line.strip() for line in text.splitlines()]
            waivers = [n for n, line in enumerate(lines) if "verilator lint_" in line]
            assert len(waivers) % 2 == 0
            for first, end in zip(waivers[::2], waivers[1::2], strict=True):
                waiver, beside, reason = lines[first].partition("  // ")
                assert reason if beside else lines[first - 1].startswith("// ")
                assert lines[end] == waiver.replace("lint_off", "lint_on")


@needs_verilator
@pytest.mark.parametrize("kind", ["shared on a board", "memories on a board", "ecp5"])
def test_waivers_of_widths_hide_no_truncated_signal(tmp_path, kind):
    """Without them, Verilator tells of operands that are extended, and of products and sums of
    pieces of wide numbers, of which only the last bits matter.
    """
    bare = {
        name: re.sub(r".*lint_(off|on) WIDTH .*", "", x) for name, x in sources_of(kind).items()
    }
    found = [line for line in warnings(tmp_path, bare) if "WIDTH" in line]
    assert found
    for line in found:
        wanted, what, given = re.search(r"expects (\d+).*'s (\w+).*generates (\d+)", line).groups()
        assert int(wanted) > int(given) or what in ("MULS", "ADD"), line


def test_waivers_of_widths_end_where_widths_are_equal():
    module = Module("some")
    for name, bits in {"a": 4, "b": 4, "wide": 8}.items():
        module.declare(name, bits=bits, signed=True)
    module.assign("wide", "a + b")
    for n in range(8):
        module.assign("a", f"$signed({{wide[{n}], {{2{{b[0]}}}}, 1'b0}})")
    module.assign("b", "wide")
    module.waive_widths()
    inside, after = module.text.split("/* verilator lint_on WIDTH */")
    assert "assign wide = a + b;" in inside
    assert "assign a" not in inside
    assert "assign b = wide[3:0];" in after
    assert "lint_off" not in after


def test_files_tell_their_clock_and_their_reset():
    for name, text in sources_of("pipeline").items():
        head, _, ports = text.partition("\nmodule ")
        assert ("input logic clock" in ports) == (ONE_CLOCK in head), name
        assert ("input logic reset" in ports) == (RESET in head), name
        assert (NO_RESET in head) == (ONE_CLOCK in head and RESET not in head), name


def test_streams_tell_how_often_they_take_a_state():
    for kind, often in (("divisions", "every cycle"), ("pipeline", "every 4 cycles")):
        text = " ".join(" ".join(sources_of(kind).values()).replace("// ", "").split())
        assert f"a state {often}, results in cycle" in text
