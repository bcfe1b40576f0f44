"""The signals of modules of which bits are not read, and text that hashes do not know."""

import pytest

from featherlane.backends.fpga.module import COMMON, DROPPED, NOT_READ, Module
from featherlane.backends.fpga.statements import UNREAD, Alternative, Assign, BitConcatenation
from featherlane.backends.fpga.unread import unread

WIDTHS = {"a": 8, "b": 8, "c": 4, "flag": 1, "sum": 9}


def module():
    made = Module("some", unread="a reason")
    made.input("clock", "flag")
    made.input("a", "b", bits=8)
    made.declare("c", bits=4)
    made.declare("sum", bits=9)
    made.output("out", bits=4)
    return made


def unread_in(made):
    return {*unread(made.body, WIDTHS, ["clock", "flag", "a", "b"])}


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("a", {"b", "flag"}),
        ("a[7:0]", {"b", "flag"}),
        ("a[6:0]", {"a", "b", "flag"}),
        ("{a[7:4], a[3:1], a[0]} + b", {"flag"}),
        ("{a[7:4], a[3], a[1:0]} + b", {"a", "flag"}),
        ("a[b[1:0]]", {"b", "flag"}),
        ("flag ? 8'hb : 8'ha", {"a", "b"}),
        ("flag ? a : $signed({b[7:1], 1'b0})", {"b"}),
    ],
)
def test_expressions_read_bits(value, left):
    made = module()
    made.assign("sum", value)
    assert unread_in(made) == left | {"sum", "c"}


def test_a_wire_takes_the_bits_that_it_has():
    made = module()
    made.declare("low", bits=6)
    made.assign("low", "a")
    widths = {**WIDTHS, "low": 6}
    assert "a" in unread(made.body, widths, ["a"])
    assert "a" not in unread([Assign("sum", "a")], widths, ["a"])


@pytest.mark.parametrize(
    "lines",
    [
        ("c <= a[3:0];", "if (flag) sum <= c + b;"),
        ("case (flag)", "  1: c <= sum[3:0];", "  default: sum[4:0] <= {c, 1'b0};", "endcase"),
        ("if (a <= b) {sum, c} <= {5'd0, a};", "else c <= c + 1'b1;"),
    ],
)
def test_processes_drive_what_stands_before_an_arrow(lines):
    made = module()
    made.clocked(*lines)
    left = unread_in(made)
    assert "sum" in left
    assert "c" not in left


def test_a_signal_at_one_port_is_driven_there_and_at_two_is_read():
    made = module()
    made.instance("adder", "first", {"x": "a", "y": "b + 1'b1", "sum": "sum"})
    assert unread_in(made) == {"sum", "c", "flag"}
    made.instance("other", "second", {"x": "sum", "enable": "flag", "z": "c[3:0]", "w": "c"})
    assert unread_in(made) == set()


def test_both_alternatives_have_to_read():
    made = module()
    made.body.append(
        Alternative("SYNTHESIS", (Assign("c", "a"),), (Assign("c", "b + sum + flag + c"),))
    )
    assert unread_in(made) == {"a", "b", "flag", "sum", "c"}


def test_waivers_stand_at_the_declarations_that_need_them():
    made = module()
    made.assign("sum", "a + b")
    made.assign("out", "flag ? sum[8:5] : c")
    made.clocked("c <= a[3:0];")
    off, on = (f"/* verilator lint_{word} UNUSEDSIGNAL */" for word in ("off", "on"))
    lines = f"  {off}  // a reason\n  logic [8:0] sum;\n  {on}\n"
    assert f"  logic [3:0] c;\n{lines}" in made.text
    assert made.text.count(off) == 1
    made.legend = ["c: what it is", "sum: " + "a long text " * 10]
    assert "// c: what it is\n// sum: a long text" in made.text
    assert "what it is" not in made.hashed
    made.legend = []
    assert made.hashed == made.text.replace(lines, "  logic [8:0] sum;\n").replace(
        "module some (", f"// a reason\n{off}\nmodule some ("
    ).replace("[8:0] sum;\n", f"[8:0] sum;\n{on}\n")


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        ("0 0 1 0", "4'h2"),
        ("0 0 x[2] x[1] x[0] 0", "2'b0, x[2:0], 1'b0"),
        ("x[2] x[2] x[1] x[1] 1 0", "{2{x[2]}}, {2{x[1]}}, 2'h2"),
        ("x[2] x[1] x[1]", "x[2:1], x[1]"),
        ("x[1] x[2] y[1] y[0] x[0]", "x[1], x[2], y[1:0], x[0]"),
        ("x x 0", "{2{x}}, 1'b0"),
    ],
)
def test_bits_are_written_as_words(bits, words):
    parts = tuple(f"1'b{x}" if x in "01" else x for x in bits.split())
    word = BitConcatenation("y", parts)
    assert word.lines("") == [f"assign y = $signed({{{words}}});"]
    made = Module("some")
    made.body.append(word)
    listed = ", ".join(parts)
    assert f"  assign y = $signed({{{listed}}});\n" in made.hashed


def test_reasons_tell_what_is_not_read_at_all():
    made = module()
    made.unread = UNREAD
    made.assign("out", "a[7:4]")
    made.assign("c", "b[7:4] + sum[3:0]")
    off, on = (f"/* verilator lint_{word} UNUSEDSIGNAL */" for word in ("off", "on"))
    dropped, common, not_read = (f"  {off}  // {x}\n" for x in (DROPPED, COMMON, NOT_READ))
    assert f"{common}  input logic clock,\n  input logic flag,\n  {on}\n" in made.text
    assert f"{dropped}  input logic [7:0] a,\n  input logic [7:0] b,\n" in made.text
    assert f"{not_read}  logic [3:0] c;\n  {on}\n{dropped}" in made.text
