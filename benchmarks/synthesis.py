"""Synthesis of a design by Yosys for UltraScale+ devices, module by module, and what each takes.

Yosys maps products to DSP48E2 exactly as they are cut here (`multipliers.Tile`), in units and in
modules of narrow formats (`backends.fixed.narrow`). It packs neither registers nor sums into
DSP48E2, so that LUTs and flip-flops of these are upper bounds. Instances of DSP48E2
(`post_adder`), which have their own registers and sums, are counted as they stand there.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from featherlane.backends import cache as disk
from featherlane.backends.fpga.bitstream.tools import YOSYS, package_version
from featherlane.backends.fpga.module import Module, sources
from featherlane.backends.fpga.resources import Resources
from featherlane.backends.fpga.units import multipliers, post_adder
from featherlane.backends.fpga.verilog import Design
from featherlane.errors import CompileError
from featherlane.program.analysis.modules import classes, modules_of
from featherlane.program.passes.outline import outline

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from circuit_proofs.tools import yosys

SCRIPT = (
    "read_verilog -sv {files}; synth_xilinx -family xcup -flatten -top {top} -noiopad -noclkbuf; "
    "tee -q -o statistics.json stat -json"
)
PRODUCTS = (
    "read_verilog -sv {files}; synth_xilinx -family xcup -top {top} -run begin:coarse; "
    "tee -q -o statistics.json stat -json"
)
# Without the last check of synth_ecp5: it does not find multipliers that are instances
ECP5 = "read_verilog -sv {files}; synth_ecp5 -top {top} -run begin:check; blackbox =A:whitebox; "
CELLS = f"{ECP5} tee -q -o statistics.json stat -json"
LUTS_OF_MEMORY = {"RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM32M": 4, "RAM64M": 4,
                  "RAM32M16": 8, "RAM64M8": 8, "RAM256X1D": 8, "RAM512X1S": 8}  # fmt: skip


def resources_of(cells: Mapping[str, int]) -> Resources:
    """The resources of cells by type, as Yosys counts them."""
    dsps = luts = ffs = memories = large = 0
    for cell, count in cells.items():
        if cell.startswith("DSP48"):
            dsps += count
        elif re.fullmatch(r"LUT[1-6]|LUT6_2|INV|SRL16E|SRLC16E|SRLC32E", cell):
            luts += count
        elif cell in LUTS_OF_MEMORY:
            luts += count * LUTS_OF_MEMORY[cell]
        elif cell.startswith("FD"):
            ffs += count
        elif cell.startswith("RAMB"):
            memories += count * (2 if cell.startswith("RAMB36") else 1)
        elif cell.startswith("URAM288"):
            large += count
        elif cell.startswith("RAM"):
            raise CompileError(f"Yosys uses {cell}, whose LUTs are not known")
    return Resources(dsps, luts, ffs, memories, large)


def synthesised(sources: Mapping[str, str], top: str) -> Resources:
    """Synthesises a module; what was synthesised once is read from the cache of compiled code.
    Raises CompileError if Yosys is missing or does not take the sources.
    """
    return resources_of(_statistics(SCRIPT, sources, top)["design"]["num_cells_by_type"])


def cells_on_ecp5(sources: Mapping[str, str], top: str) -> dict[str, int]:
    """The cells of a module on an ECP5, by type. Errors as of `synthesised`."""
    return dict(_statistics(CELLS, sources, top)["design"]["num_cells_by_type"])


def synthesised_on_ecp5(sources: Mapping[str, str], top: str) -> Resources:
    """The resources of a module on an ECP5. LUTs are places for one: a bit of a carry chain takes
    one, a memory of 16 places of 4 bits takes six.
    """
    return resources_of_ecp5(cells_on_ecp5(sources, top))


def resources_of_ecp5(cells: Mapping[str, int]) -> Resources:
    """The resources of cells of an ECP5 by type, with places for LUTs as above."""
    count = lambda name: cells.get(name, 0)
    luts = count("LUT4") + 2 * count("CCU2C") + 6 * count("TRELLIS_DPR16X4")
    return Resources(count("MULT18X18D"), luts, count("TRELLIS_FF"), count("DP16KD"))


def multipliers_of_parts(sources: Mapping[str, str], top: str) -> dict[str, int]:
    """The DSP48E2 of a module, and of each module inside it on its own; this takes the first steps
    of the synthesis only. Raises CompileError as `synthesised` does.
    """
    modules = _statistics(PRODUCTS, sources, top)["modules"]
    return {
        name.removeprefix("\\"): cells["num_cells_by_type"].get("DSP48E2", 0)
        for name, cells in modules.items()
        if not name.startswith("$")
    }


def _statistics(script: str, sources: Mapping[str, str], top: str) -> dict[str, Any]:
    key = disk.digest(json.dumps([script, top, dict(sources)]).encode())

    def make() -> bytes:
        return yosys(script.format(files=" ".join(sources), top=top), sources, "statistics.json")

    found = disk.fetch_result(f"yosys {package_version(YOSYS)} {key}", make)
    return dict(json.loads(found))


def class_modules(design: Design) -> list[list[str]]:
    """The names of the modules of each class (`analysis.modules.classes`) of a design."""
    graph = design.datapath.graph
    homes = design.netlist.home
    of_call = {
        getattr(tag, "call", 0): home
        for tag, home, args in zip(graph.tag, homes, graph.args, strict=True)
        if args
    }
    found = classes(modules_of(outline(graph)))
    named = [[of_call[module.tag.call] for module in own.members] for own in found]
    return [[name for name in own if name in design.units] for own in named]


def modules_of_unit(design: Design, module: str) -> dict[str, Module]:
    """A module of a design and those inside it, by their names."""
    units = design.units[module]
    inside = [*(m.name for m in units.multipliers), *(unit.name for unit in units.functions)]
    if any(m.adds for m in units.multipliers):
        inside.append(post_adder.NAME)
    cells = {multipliers.cell_registers(m, design.tile) for m in units.multipliers}
    inside += [registers.module for registers in cells if registers]
    names = dict.fromkeys([module, *(f"{design.name}_{unit}" for unit in inside)])
    return {name: design.modules[name] for name in names}


def module_sources(design: Design, module: str) -> dict[str, str]:
    """The files that a module of a design consists of."""
    return sources(modules_of_unit(design, module))
