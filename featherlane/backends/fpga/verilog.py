"""The design of a datapath in a pipeline: its modules, those of its units, and a stream around
them.

Nothing is decided here: what is computed says the `Datapath`, when and where the `Pipeline`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga import stream
from featherlane.backends.fpga.labels import NO_LABELS, Labels
from featherlane.backends.fpga.module import Module, named, sources
from featherlane.backends.fpga.netlist import Field, Netlist
from featherlane.backends.fpga.netlist_writer import NetlistWriter
from featherlane.backends.fpga.part import OperandChoice
from featherlane.backends.fpga.shared import ProductUnit
from featherlane.backends.fpga.shared_shifter import ShifterUnit
from featherlane.backends.fpga.text import KEYWORDS, identifier
from featherlane.backends.fpga.units import functions, multiplier_cell, multipliers, post_adder
from featherlane.backends.fpga.units.functions import FunctionUnit
from featherlane.backends.fpga.units.multipliers import DSP48E2, Multiplier, Tile
from featherlane.errors import shown
from featherlane.program.analysis.pipeline import Pipeline


class ModuleUnits(NamedTuple):
    """The units and multiplexers of a module. choices: by the name of the result; control:
    registers of the phase and of places in rings; accumulating: the device's multipliers that
    accumulate; places: bits of the counters of places in rings; shifters: those that are shared.
    """

    products: list[ProductUnit]
    functions: list[FunctionUnit]
    choices: dict[str, OperandChoice]
    control: int
    accumulating: int = 0
    places: int = 0
    shifters: tuple[ShifterUnit, ...] = ()

    @property
    def multipliers(self) -> list[Multiplier]:
        return [unit.multiplier for unit in self.products]


LONGEST = 100  # letters of a name: files have names with more in them


@dataclass(frozen=True)
class Design:
    """The modules of a design, by their names, and what a user of them must know.

    inputs, outputs: the fields of a word of each stream. depth: states that may be under way, in
    the datapath and the FIFO of results. units: of the modules that can be synthesised on their
    own.
    """

    name: str
    modules: dict[str, Module]
    datapath: Datapath
    pipeline: Pipeline
    inputs: list[Field]
    outputs: list[Field]
    depth: int
    tile: Tile
    units: dict[str, ModuleUnits]
    timely: bool = False  # inputs come in the cycles in which they start
    labels: Labels = NO_LABELS  # for names and comments

    @cached_property
    def sources(self) -> dict[str, str]:
        """The text of all modules, by the names of their files."""
        return sources(self.modules)

    @property
    def netlist(self) -> Netlist:
        """The signals of the datapath."""
        return Netlist(self.name, self.datapath, self.pipeline, self.timely, self.labels)

    @property
    def pipelines(self) -> tuple[Design, ...]:
        """The designs of which it consists: itself, if it is one pipeline."""
        return (self,)

    @property
    def large(self) -> int:
        """The memories larger than blocks of RAM (UltraRAMs) that it takes."""
        return 0

    @property
    def interval(self) -> int:
        return self.pipeline.interval

    @property
    def latency(self) -> int:
        return self.pipeline.latency

    @property
    def multipliers(self) -> Counter[Multiplier]:
        """The number of each multiplier."""
        return Counter(m for units in self.units.values() for m in units.multipliers)

    @property
    def input_bits(self) -> int:
        """Bits of a word of inputs."""
        return stream.bits(self.inputs)

    @property
    def output_bits(self) -> int:
        """Bits of a word of results."""
        return stream.bits(self.outputs)


def check_name(name: object) -> None:
    """Raises ValueError for what is no name of a module."""
    if not isinstance(name, str) or identifier(name) != name or not 0 < len(name) <= LONGEST:
        wanted = f"wanted letters, digits and _, a letter first, {LONGEST} at most"
        raise ValueError(f"name is {shown(name)}: {wanted}")
    if name in KEYWORDS:
        raise ValueError(f"name is {name!r}: that is a word of SystemVerilog")


def design(
    name: str,
    datapath: Datapath,
    pipeline: Pipeline,
    tile: Tile = DSP48E2,
    depth: int | None = None,
    labels: Labels = NO_LABELS,
) -> Design:
    """Returns the design of a datapath in a pipeline. tile: the multipliers of the device. depth:
    states that may be under way; as many as never make the datapath wait, if None. labels: for
    names and comments.

    Raises CompileError for a pipeline that is not one of this graph, and for what no circuit
    computes, ValueError for what is no name.
    """
    check_name(name)
    depth = stream.full_depth(pipeline) if depth is None else depth
    bare = without_stream(name, datapath, pipeline, tile, timely=False, labels=labels)
    return replace(bare, modules=bare.modules | stream.modules(bare.netlist, depth), depth=depth)


def without_stream(
    name: str,
    datapath: Datapath,
    pipeline: Pipeline,
    tile: Tile = DSP48E2,
    timely: bool = True,
    labels: Labels = NO_LABELS,
) -> Design:
    """Returns a datapath in a pipeline alone, the module "<name>_datapath" and those inside it.
    timely: inputs come in the cycles in which they start. Errors as of `design`.
    """
    check_name(name)
    netlist = Netlist(name, datapath, pipeline, timely, labels)
    writer = NetlistWriter(netlist, tile)
    units = {
        name: ModuleUnits(
            units.products,
            units.functions,
            part.choices,
            part.control,
            places=part.places,
            shifters=tuple(units.shifters),
        )
        for name, part in writer.parts.items()
        for units in [writer.units[name]]
    }
    modules = writer.modules() | named(*_unit_modules(f"{name}_", units.values(), tile))
    words = netlist.inputs, netlist.outputs
    return Design(name, modules, datapath, pipeline, *words, 0, tile, units, timely, labels)


def _unit_modules(prefix: str, units: Collection[ModuleUnits], tile: Tile) -> Iterator[Module]:
    """The modules of multipliers and functions, each once."""
    kinds = sorted({m for each in units for m in each.multipliers}, key=str)
    for m in kinds:
        module = post_adder.module if m.adds else multipliers.module
        yield module(prefix, m, tile)
    if any(m.adds for m in kinds):
        yield post_adder.dsp(prefix)
    for registers in sorted({r for m in kinds if (r := multipliers.cell_registers(m, tile))}):
        yield multiplier_cell.module(prefix, registers)
    for unit in sorted({unit for each in units for unit in each.functions}, key=str):
        yield functions.module(prefix, unit, tile)
