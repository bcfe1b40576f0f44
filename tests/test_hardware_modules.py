"""Modules of hardware as data: what they print, and what can change before they are printed."""

import shutil
import subprocess

import pytest
from circuit_proofs.changed import with_attribute, with_inputs_of

from featherlane.backends.fpga.module import Module, same
from featherlane.backends.fpga.statements import Alternative, Assign
from featherlane.errors import CompileError

needs_icarus = pytest.mark.skipif(not shutil.which("iverilog"), reason="iverilog is not installed")


def counter():
    """Counts by a step, in a register of `WIDTH` bits."""
    made = Module("counter", "Counts")
    made.parameter("WIDTH", 8, "bits")
    made.input("clock", "reset")
    made.output("count", bits="WIDTH")
    made.declare("next", bits="WIDTH")
    made.assign("next", "reset ? '0 : count + 1'b1")
    made.clocked("count <= next;")
    return made


def bench(module, extra=""):
    """Prints the count of three clocks."""
    made = Module("bench")
    made.declare("clock", value=0)
    made.declare("reset", value=1)
    made.declare("enable", value=1)
    made.declare("count", bits=4)
    ports = [name for name in module.ports if name != "count"]
    made.instance(module.name, "device", {**same(ports), "count": "count"}, {"WIDTH": 4})
    clock = '#1 clock = 1; #1 clock = 0; $display("%0d", count);'
    made.process("initial", clock, "reset = 0;", clock, extra, clock)
    return made


def printed(folder, *modules):
    """What a simulation of modules prints, in lines."""
    (folder / "all.sv").write_text("".join(module.text for module in modules))
    command = ["iverilog", "-g2012", "-s", "bench", "-o", "a.vvp", "all.sv"]
    subprocess.run(command, cwd=folder, check=True)
    run = subprocess.run(["vvp", "a.vvp"], cwd=folder, check=True, capture_output=True, text=True)
    return run.stdout.split()


@needs_icarus
def test_registers_wait_for_an_enable(tmp_path):
    assert printed(tmp_path, counter(), bench(counter())) == ["0", "1", "2"]
    waiting = counter().with_enable()
    assert printed(tmp_path, waiting, bench(waiting, "enable = 0;")) == ["0", "1", "1"]


def test_modules_inside_wait_with_those_around():
    made = Module("around")
    made.input("clock", "a")
    made.instance("inside", "one", same(("clock", "a")))
    made.instance("DSP", "two", {"CLK": "clock"}, enables={"CE": "SUM == 1"})
    assert ".clock(clock), .a(a)" in made.text
    text = made.with_enable().text
    assert ".clock(clock), .enable(enable), .a(a)" in text
    assert ".CE(enable && (SUM == 1))" in text
    assert ".CE(SUM == 1)" in made.text


def test_a_name_is_declared_once():
    made = Module("m")
    made.output("y", bits=2)
    assert made.declare("y", bits=2) == "y"
    made.declare("a", "b", bits=3)
    made.declare("c", comment="alone")
    assert made.text.split("\n")[1:6] == [
        "  output logic [1:0] y", ");", "  logic [2:0] a, b;", "  logic c;  // alone", "endmodule",
    ]  # fmt: skip


def test_a_name_has_one_width():
    made = Module("m")
    made.input("y", bits=2)
    with pytest.raises(CompileError, match="m has two signals y, of 2 and 1 bits"):
        made.declare("y")


def test_changes_leave_the_module_as_it_was():
    made = counter()
    text = made.text
    made.instance("inside", "one", {"clock": "clock"})
    changed = with_inputs_of(with_attribute(made, "next", "keep"), "one", "free")
    assert "(* keep *) logic [WIDTH-1:0] next;" in changed.text
    assert "input logic free" in changed.text
    assert ".free(free)" in changed.text
    made.body.pop()
    assert made.text == text


def test_lines_are_no_longer_than_a_page_is_wide():
    made = Module("m", "A comment of many words. " * 9)
    names = [f"signal_with_a_long_name_{n}" for n in range(30)]
    made.declare(*names, bits=8)
    made.instance("inside", "one", same(names))
    assert max(map(len, made.text.split("\n"))) <= 100


def test_statements_for_some_tools():
    made = Module("m")
    made.declare("x")
    made.body.append(Alternative("SYNTHESIS", (Assign("x", "1"),), (Assign("x", "0"),)))
    assert "`ifdef SYNTHESIS\n  assign x = 1;\n  `else\n  assign x = 0;\n  `endif" in made.text
