"""The folder of a design as its users get it: sources, a test bench with vectors, constraints, and
reports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from featherlane.backends.fpga import words
from featherlane.backends.fpga.netlist import Field, constant_integer
from featherlane.backends.fpga.report import facts, report
from featherlane.backends.fpga.simulation.bench import bench
from featherlane.backends.fpga.stream import bits
from featherlane.backends.fpga.verilog import Design
from featherlane.errors import shown

FACTS, VECTORS, WANTED = "design.json", "inputs.hex", "results.hex"
BOARD_FACTS = "board.json"
KNOWN = {FACTS: "a design", BOARD_FACTS: "a board"}
SLOWEST = 64  # cycles of the test bench to each one that a design without stalls takes
CONSTRAINTS = {
    "xdc": """\
# The clock of {name}: {clock:g} ns. Pins and input and output delays are those of your board.
create_clock -name clock -period {clock:.3f} [get_ports clock]
# create_clock on the port of your clock, and constraints of a block diagram, replace the line above
set_input_delay -clock clock 0.0 [get_ports -filter {{DIRECTION == IN && NAME != "clock"}}]
set_output_delay -clock clock 0.0 [get_ports -filter {{DIRECTION == OUT}}]
""",
    "lpf": """\
# The clock of {name}: {clock:g} ns. Pins are those of your board.
FREQUENCY PORT "clock" {frequency:.3f} MHZ;
""",
}


def write(
    design: Design,
    folder: str | Path,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    further: Mapping[str, Any] | None = None,
    constraints: str = "xdc",
) -> list[Path]:
    """Writes a design with the vectors of some states, and returns the files.

    inputs, outputs: integers (states, *shape) by name; further: what the report says besides, as
    ranges and errors; constraints: their kind. `iverilog -g2012 *.sv` in the folder makes a
    simulation of them. Sources of an earlier design of this name are removed. Raises ValueError for
    a folder with another one, whose sources would be simulated too, and for one that cannot be
    written to.
    """
    texts = files(design, inputs, outputs, further or {}, constraints)
    return write_files(texts, folder, design.name)


def write_files(texts: Mapping[str, str], folder: str | Path, design: str) -> list[Path]:
    """Writes texts by the names of their files, and returns the files. Sources of an earlier design
    of this name are removed. Raises ValueError for a folder with another one, for a design where
    its board lies and the other way round, and for a folder that cannot be written to.
    """
    folder = checked_path("folder", folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for known, what in KNOWN.items():
            if known not in texts and (folder / known).exists():
                reason = "a design and its board need a folder each, because both have test benches"
                raise ValueError(f"folder {str(folder)!r} holds {what} ({known}): {reason}")
        for old in _sources(folder, design):
            old.unlink()
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"folder {str(folder)!r} cannot be written to: {error}") from error
    return [folder / name for name in texts]


def checked_path(name: str, path: Any) -> Path:
    """Returns a path. Raises TypeError for what is none, and ValueError for an empty text, which
    Path takes for the folder where the program runs.
    """
    if not isinstance(path, str | PathLike):
        raise TypeError(f"{name} is {shown(path)}: wanted a path, as text or pathlib.Path")
    if path == "":
        raise ValueError(f"{name} is '': wanted a path; '.' is the folder where the program runs")
    return Path(path)


def _sources(folder: Path, name: str) -> list[Path]:
    """The sources in a folder. Raises ValueError if they are of a design of another name."""
    present = sorted(folder.glob("*.sv"))
    others = [
        path.name
        for path in present
        if path.stem != name and path.stem[: len(name) + 1] != f"{name}_"
    ]
    if others:
        reason = "each design needs a folder of its own, because all sources there are simulated"
        raise ValueError(f"folder {str(folder)!r} holds {others[0]} of another design: {reason}")
    return present


def files(
    design: Design,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    further: Mapping[str, Any],
    constraints: str,
) -> dict[str, str]:
    """The text of each file."""
    integers = words.given_values(design.datapath, design.inputs, inputs)
    wanted = words.result_values(design.datapath, design.outputs, outputs)
    states = len(integers)
    cycles = design.latency + (states + design.depth) * design.interval + 100
    simulated = bench(
        design.name,
        design.input_bits,
        design.output_bits,
        states,
        SLOWEST * cycles,
        design.latency + 2 * design.interval,
        design.pipeline.clock,
    )
    known = {**facts(design), **further}
    return {
        **design.sources,
        f"{design.name}_bench.sv": simulated.text,
        VECTORS: _digits(integers, design.inputs),
        WANTED: _digits(wanted, design.outputs),
        f"{design.name}.{constraints}": CONSTRAINTS[constraints].format(
            name=design.name, clock=design.pipeline.clock, frequency=1e3 / design.pipeline.clock
        ),
        "constants.json": json.dumps(constants(design), indent=1) + "\n",
        FACTS: json.dumps({**stream_facts(design), "report": known}, indent=1) + "\n",
        "report.txt": report(known),
    }


def _digits(values: np.ndarray, fields: list[Field]) -> str:
    return words.hexadecimal(words.packed(values, words.places(fields)), bits(fields))


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
    where: dict[int, list[list[Any]]] = {}
    for name, out in graph.outputs.items():
        for n, k in enumerate(out.nodes):
            where.setdefault(k, []).append([name, n])
    return {
        "name": design.name,
        "interval": design.interval,
        "latency": design.latency,
        "depth": design.depth,
        "clock_ns": design.pipeline.clock,
        "inputs": [_field(design, f, [list(graph.value[f.node])]) for f in design.inputs],
        "outputs": [_field(design, f, where[f.node]) for f in design.outputs],
        "fixed_outputs": [
            {"entries": entries, "value": graph.number(k)}
            for k, entries in where.items()
            if graph.op[k] == "constant"
        ],
    }


def _field(design: Design, field: Field, entries: list[list[Any]]) -> dict[str, Any]:
    """A field of a word. entries: name of an array and position in it."""
    width, fraction = design.datapath.format(field.node)
    return {"entries": entries, "offset": field.offset, "width": width, "fraction": fraction}
