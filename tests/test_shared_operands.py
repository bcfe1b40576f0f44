"""What shared multipliers choose among: which products go to one, and multiplexers as trees."""

import json
import re
import shutil
from collections import defaultdict
from functools import cache

import numpy as np
import pytest
from repetition import repeated

import featherlane as fl
from featherlane.accelerators import designers
from featherlane.backends.fpga import devices
from featherlane.backends.fpga.bitstream import build
from featherlane.backends.fpga.bitstream.tools import YOSYS, run_yosys, tool_version
from featherlane.backends.fpga.piece_costs import tree
from featherlane.backends.fpga.statements import MOST_LEAVES, ChoiceTree
from featherlane.errors import CompileError

SOURCES = [*range(1, 20), 31, 32, 33]
BITS = 12

needs_icarus = pytest.mark.skipif(
    not (shutil.which("iverilog")),
    reason="iverilog is not installed",
)


@cache
def design(board="ulx3s"):
    """Inverse dynamics of a double pendulum, whose products share multipliers."""
    where = {"board": board} if board else {"device": "ecp5_85k", "sharing": "whole"}
    return fl.accelerator(
        fl.load("double_pendulum"), "inverse_dynamics", interval=6, **where, format="fitted18"
    )


def arm():
    """Inverse dynamics of an arm, with 32 multipliers for 247 products."""
    return fl.accelerator(fl.load("iiwa14"), "inverse_dynamics", interval=8, board="ulx3s")


def sources_of(made):
    """The names that the ports of each multiplier read, with the widths of the ports."""
    return [
        (choice.width, {source.name for _, source in choice.sources})
        for units in made.design.units.values()
        for choice in units.choices.values()
        if not choice.phase.endswith("_phase")
    ]


def bits_of(made):
    return sum(width * (len(names) - 1) for width, names in sources_of(made))


def modules_of(made):
    """By multiplier, the calls whose products it computes."""
    pipeline, modules = made.pipeline, defaultdict(set)
    for k, operator in enumerate(pipeline.operators):
        if operator and operator.shared and pipeline.graph.op[k] == "mul":
            modules[operator.kind, pipeline.unit[k]].add(pipeline.graph.tag[k].call)
    return modules


def test_products_of_a_multiplier_read_few_registers_of_few_modules(monkeypatch):
    made = arm()
    made.pipeline.verify()
    monkeypatch.setattr(designers, "bound", lambda datapath, pipeline: (datapath, pipeline))
    unbound = arm()
    assert made.pipeline.start == unbound.pipeline.start
    assert made.pipeline.units == unbound.pipeline.units
    assert bits_of(made) < 0.9 * bits_of(unbound)
    count = lambda each: sum(map(len, modules_of(each).values()))
    assert count(made) < 0.8 * count(unbound)
    states = made.samples(30)
    assert np.array_equal(made.function(**states), unbound.function(**states))


@needs_icarus
def test_a_design_with_trees_gives_the_bits_of_its_function():
    made = design()
    assert any("_select" in text for text in made.design.sources.values())
    assert not any("_select" in text for text in design(None).design.sources.values())
    (name,), states = made.function.outputs, made.samples(40)
    run = made.simulate(states, "icarus", stalls=60)
    np.testing.assert_array_equal(run.results[name], made.function(**states))


def chosen(text, number):
    """The signal that a tree takes for a number, and the leaves of the tree from left to right."""
    tokens = re.findall(r"\w+\[\d+\]|\w+|[()?:]", text.split("=", 1)[1])
    leaves = []

    def read():
        if (token := tokens.pop(0)) != "(":
            leaves.append(token)
            return token
        bit = int(re.search(r"\[(\d+)\]", tokens.pop(0))[1])
        assert tokens.pop(0) == "?"
        high = read()
        assert tokens.pop(0) == ":"
        low = read()
        assert tokens.pop(0) == ")"
        return high if number >> bit & 1 else low

    return read(), leaves


@pytest.mark.parametrize("count", SOURCES)
def test_a_tree_takes_each_signal_by_its_number(count):
    names = tuple(f"x{n}" for n in range(count))
    text = "\n".join(ChoiceTree("y", "number", names).lines(""))
    assert [chosen(text, n)[0] for n in range(count)] == [*names]
    leaves = chosen(text, 0)[1]
    assert {*leaves} == {*names}
    pairs = [*zip(leaves[::2], leaves[1::2], strict=False)]
    assert len({*pairs}) == len(pairs)
    assert all(a != b for a, b in pairs)
    if count <= MOST_LEAVES and count in (3, 4, 6, 7, 8, 12, 13, 14, 15, 16):
        assert len(leaves) == 1 << (count - 1).bit_length()
    else:
        assert len(leaves) == count


@pytest.mark.parametrize("count", repeated([7, 16, 2, 3, 5], 2))
def test_luts_of_trees_are_those_of_yosys(count, tmp_path):
    try:
        tool_version(YOSYS)
    except CompileError as error:
        pytest.skip(str(error))
    names = tuple(f"x{n}" for n in range(count))
    inputs = "".join(f", input logic [{BITS - 1}:0] {name}" for name in names)
    bits = (count - 1).bit_length()
    lines = ChoiceTree("y", "number", names).lines("")
    (tmp_path / "top.sv").write_text(
        f"module top(input logic clock, input logic [{bits - 1}:0] number{inputs}, "
        f"output logic [{BITS - 1}:0] kept);\n  logic [{BITS - 1}:0] y;\n"
        + "\n".join(lines)
        + "\n  always_ff @(posedge clock) kept <= y;\nendmodule\n"
    )
    (tmp_path / build.MULTIPLEXERS.name).write_text(build.MULTIPLEXERS.read_text())
    run_yosys(build.synthesis_script(["top.sv"], "top"), tmp_path)
    cells = json.loads((tmp_path / "top.json").read_text())["modules"]["top"]["cells"].values()
    assert sum(cell["type"] == "LUT4" for cell in cells) == BITS * tree(count)


def test_ways_to_and_from_units_of_several_calls_are_long():
    """A sum behind a product of its own call waits for a link too, if calls share multipliers."""
    made = arm()
    assert devices.APART in {unit.region for unit in made.pipeline.operators if unit}
    datapath, device = made.datapath, made.spec.target
    near, far = (devices.operators(datapath, device, apart) for apart in (False, True))
    longer = defaultdict(int)
    for here, there, args in zip(near, far, datapath.graph.args, strict=True):
        if there is None:
            continue
        assert (there.region == devices.APART) == there.shared
        assert here.region != devices.APART
        reads = {far[a].shared for a in args if far[a]}
        waits = there.before + there.after > here.before + here.after
        longer[there.kind] += waits
        if there.kind == "add" and True in reads:
            assert waits
    assert longer.pop("add") > 50
    assert sum(longer.values()) > 50  # products of what sums give
