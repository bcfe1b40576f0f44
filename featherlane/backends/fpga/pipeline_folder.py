"""The folder of a pipeline: its words of some states, the facts of its streams, its constants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from featherlane.backends.fpga import folder, words
from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.netlist import Field, constant_integer
from featherlane.backends.fpga.report import facts
from featherlane.backends.fpga.simulation.bench import bench
from featherlane.backends.fpga.verilog import Design


def write(
    design: Design,
    path: str | Path,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    further: Mapping[str, Any] | None = None,
    constraints: str = "xdc",
) -> list[Path]:
    """Writes a design with the vectors of some states, and returns the files.

    inputs, outputs: integers (states, *shape) by name; further: what the report says besides, as
    ranges and errors; constraints: their kind. Errors as of `folder.write_files`.
    """
    known = {**facts(design), **(further or {})}
    integers = words.given_values(design.datapath, design.inputs, inputs)
    wanted = words.result_values(design.datapath, design.outputs, outputs)
    contents = folder.FolderContents(
        design.name,
        design.sources,
        design.pipeline.clock,
        _bench(design, len(integers)),
        words.packed(integers, words.places(design.inputs)),
        words.packed(wanted, words.places(design.outputs)),
        (design.input_bits, design.output_bits),
        stream_facts(design),
        {"constants.json": json.dumps(constants(design), indent=1) + "\n"},
        _names(design),
    )
    return folder.write(contents, path, known, constraints)


def _names(design: Design) -> dict[str, str]:
    """The meanings of names of modules and signals, as the top module tells them."""
    return dict(row.split(": ", 1) for row in design.netlist.legend if not row.endswith(":"))


def _bench(design: Design, states: int) -> Module:
    cycles = design.latency + (states + design.depth) * design.interval + 100
    return bench(
        design.name,
        design.input_bits,
        design.output_bits,
        states,
        folder.SLOWEST * cycles,
        design.latency + 2 * design.interval,
        design.pipeline.clock,
    )


def constants(design: Design) -> list[dict[str, Any]]:
    """Each constant: the number, its integer and its format."""
    rows = []
    for k in design.datapath.graph.nodes_of("constant"):
        to = design.datapath.formats[k]
        if to is not None:
            value = design.datapath.graph.number(k)
            x = constant_integer(design.datapath, k)
            rows.append(
                {"node": k, "value": value, "integer": x, "width": to[0], "fraction": to[1]}
            )
    return rows


def stream_facts(design: Design) -> dict[str, Any]:
    """The facts that a program needs to simulate the folder, or to drive the streams."""
    graph = design.datapath.graph
    entries_at = words.entries_of(graph)
    return {
        "name": design.name,
        "interval": design.interval,
        "latency": design.latency,
        "depth": design.depth,
        "clock_ns": design.pipeline.clock,
        "inputs": [_field(design, f, [graph.value[f.node]]) for f in design.inputs],
        "outputs": [_field(design, f, entries_at[f.node]) for f in design.outputs],
        "fixed_outputs": [
            {"entries": entries, "value": graph.number(k)}
            for k, entries in entries_at.items()
            if graph.op[k] == "constant"
        ],
    }


def _field(design: Design, field: Field, entries: list[words.Entry]) -> dict[str, Any]:
    """A field of a word. entries: name of an array and position in it."""
    width, fraction = design.datapath.format(field.node)
    places = {"offset": field.offset, "width": width, "fraction": fraction}
    return {"entries": entries, "label": field.signal.label, **places}
