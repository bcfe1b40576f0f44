"""What a design is: latency, interval, units, registers and formats, as data and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from featherlane.backends.fpga.netlist import WIRE
from featherlane.backends.fpga.units.functions import multipliers_of
from featherlane.backends.fpga.units.multipliers import Multiplier, Tile, tiles
from featherlane.backends.fpga.verilog import Design


def module_tiles(design: Design, module: str, tile: Tile | None = None) -> int:
    """The device's multipliers that a module takes."""
    tile = tile or design.tile
    own = design.units[module]
    inside = [m for unit in own.functions for m in multipliers_of(unit, tile)]
    return sum(tiles(m, tile) for m in [*own.multipliers, *inside])


def register_bits(design: Design) -> int:
    """The bits of all registers that hold results for later cycles."""
    return sum(
        netlist.signal(k).width * (max(registers) + 1)
        for netlist in [circuit.netlist for circuit in design.pipelines]
        for k, registers in enumerate(netlist.registers)
        if registers and max(registers) > WIRE and not netlist.is_wires(k)
    )


def facts(design: Design) -> dict[str, Any]:
    """The report as data that JSON takes."""
    pipeline, graph = design.pipeline, design.datapath.graph
    widths = Counter(str(to) for to in design.datapath.formats if to is not None)
    return {
        "name": design.name,
        "clock_ns": pipeline.clock,
        "interval": design.interval,
        "latency": design.latency,
        "latency_us": design.latency * pipeline.clock * 1e-3,
        "states_per_second": 1e9 / (pipeline.clock * design.interval),
        "states_under_way": design.depth,
        "operations": dict(Counter(op for op in graph.op if op not in ("input", "constant"))),
        "multipliers": _multipliers(design.multipliers),
        "functions": dict(Counter(u.name for own in design.units.values() for u in own.functions)),
        "device_multipliers": sum(module_tiles(design, module) for module in design.units),
        "register_bits": register_bits(design),
        "input_bits": design.input_bits,
        "output_bits": design.output_bits,
        "fifo_bits": design.depth * design.output_bits,
        "formats": dict(widths.most_common()),
        "modules": len(design.units),
    }


def _multipliers(found: Mapping[Multiplier, int]) -> dict[str, int]:
    """How many there are by their operands' widths."""
    count = Counter[str]()
    for m, n in found.items():
        by = " by constants" if m.constant is not None else ""
        count[f"{m.a}x{m.b}{by}, {m.cycles} cycles"] += n
    return dict(count.most_common())


def report(known: Mapping[str, Any]) -> str:
    """The report as text."""
    lines = []
    for key, value in known.items():
        shown = key.replace("_", " ")
        if isinstance(value, Mapping):
            lines.append(f"{shown}:")
            lines += [f"  {name}: {_number(x)}" for name, x in value.items()]
        else:
            lines.append(f"{shown}: {_number(value)}")
    return "\n".join([*lines, ""])


def _number(x: Any) -> str:
    if x is None:
        return "none"
    return f"{x:,.6g}" if isinstance(x, float) else f"{x:,}" if isinstance(x, int) else str(x)
