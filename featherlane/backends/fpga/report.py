"""The report of a design: latency, interval, units, registers and formats, as data and text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from featherlane.backends.fpga.netlist import WIRE
from featherlane.backends.fpga.units.functions import multipliers_of
from featherlane.backends.fpga.units.multipliers import Multiplier, Tile, tiles
from featherlane.backends.fpga.verilog import Design


def module_tiles(design: Design, module: str, tile: Tile | None = None) -> int:
    """The device's multipliers that a module takes."""
    tile = tile or design.tile
    units = design.units[module]
    inside = [m for unit in units.functions for m in multipliers_of(unit, tile)]
    return sum(tiles(m, tile) for m in [*units.multipliers, *inside]) + units.accumulating


def register_bits(design: Design) -> int:
    """The bits of all registers that hold results for later cycles."""
    return sum(
        netlist.signal(k).width * (max(registers) + 1)
        for netlist in [circuit.netlist for circuit in design.pipelines]
        for k, registers in enumerate(netlist.registers)
        if registers and max(registers) > WIRE and not netlist.is_wires(k)
    )


def structure(designs: Sequence[Design]) -> dict[str, Any]:
    """The operations, units, registers and formats of pipelines, as data that JSON takes."""
    graphs = [design.datapath.graph for design in designs]
    modules = [(design, module) for design in designs for module in design.units]
    units = (unit.name for design, module in modules for unit in design.units[module].functions)
    formats = (str(x) for design in designs for x in design.datapath.formats if x is not None)
    leaves = ("input", "constant")
    return {
        "operations": dict(Counter(op for graph in graphs for op in graph.op if op not in leaves)),
        "multipliers": _multipliers(
            sum((design.multipliers for design in designs), start=Counter[Multiplier]())
        ),
        "function_units": dict(Counter(units)),
        "device_multipliers": sum(module_tiles(*module) for module in modules),
        "register_bits": sum(map(register_bits, designs)),
        "formats": dict(Counter(formats).most_common()),
        "modules": len(modules),
    }


def facts(design: Design) -> dict[str, Any]:
    """The report of a pipeline as data that JSON takes."""
    pipeline = design.pipeline
    return {
        "name": design.name,
        "clock_ns": pipeline.clock,
        "interval": design.interval,
        "latency": design.latency,
        "latency_us": design.latency * pipeline.clock * 1e-3,
        "tasks_per_second": pipeline.throughput,
        "tasks_in_flight": design.depth,
        "input_bits": design.input_bits,
        "output_bits": design.output_bits,
        "fifo_bits": design.depth * design.output_bits,
        **structure([design]),
    }


def _multipliers(counts: Mapping[Multiplier, int]) -> dict[str, int]:
    """The number of multipliers by their operands' widths."""
    count = Counter[str]()
    for m, n in counts.items():
        by = " by constants" if m.constant is not None else ""
        count[f"{m.a}x{m.b}{by}, {m.cycles} cycles"] += n
    return dict(count.most_common())


def report(known: Mapping[str, Any]) -> str:
    """The report as text."""
    return "\n".join([*_lines(known, ""), ""])


def _lines(known: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yields a line for each number, with those of a group below its name."""
    for key, value in known.items():
        head = f"{indent}{key.replace('_', ' ') if not indent else key}:"
        if isinstance(value, Mapping):
            yield head
            yield from _lines(value, indent + "  ")
        else:
            yield f"{head} {_number(value)}"


def _number(x: Any) -> str:
    if x is None:
        return "none"
    if isinstance(x, list) and all(isinstance(word, str) for word in x):
        return ", ".join(x) or "none"
    return f"{x:,.6g}" if isinstance(x, float) else f"{x:,}" if isinstance(x, int) else str(x)
