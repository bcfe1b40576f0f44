"""The folder of a network as its users get it: sources, a test bench with tasks, constraints, and
what a program that makes its words must know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from featherlane.backends.fpga import words as plain
from featherlane.backends.fpga.folder import (
    CONSTRAINTS,
    FACTS,
    SLOWEST,
    VECTORS,
    WANTED,
    write_files,
)
from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.network import words
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.network.verilog import Circuit
from featherlane.backends.fpga.simulation.bench import bench
from featherlane.backends.fpga.simulation.simulate import Folder

Array = Any


def write(
    circuit: Circuit,
    folder: str | Path,
    tasks: tuple[Array, Array],
    facts: Mapping[str, Any],
    constraints: str = "xdc",
) -> list[Path]:
    """Writes a network with tasks, and returns the files. tasks: the words of inputs and of
    results, a row for each task, whose tag is its number; facts: the report. Errors as of
    `folder.write` of a design.
    """
    network, (inputs, wanted) = circuit.network, tasks
    plan = words.layout(network)
    texts = {
        **circuit.sources,
        f"{network.name}_bench.sv": _bench(network, len(inputs)).text,
        VECTORS: plain.hexadecimal(inputs, plan.input_bits),
        WANTED: plain.hexadecimal(wanted, plan.result_bits),
        f"{network.name}.{constraints}": CONSTRAINTS[constraints].format(
            name=network.name, clock=network.clock, frequency=1e3 / network.clock
        ),
        FACTS: json.dumps({**stream_facts(network), "report": facts}, indent=1) + "\n",
    }
    return write_files(texts, folder, network.name)


def simulated(circuit: Circuit) -> Folder:
    """A network as a simulation takes it."""
    network = circuit.network
    plan, latency = words.layout(network), _cycles(network)
    sources = {**circuit.sources, f"{network.name}_bench.sv": _bench(network, 1).text}
    ends = [(plan.input_bits, 0)], [(plan.result_bits, 0)]
    return Folder(network.name, sources, latency, network.interval, *ends)


def _cycles(network: Network) -> int:
    """Cycles that a task takes at most, where no other one is under way."""
    around = sum(x.latency + 2 * x.interval + 4 for x in network.stations.values())
    return 2 * around


def _bench(network: Network, tasks: int) -> Module:
    plan = words.layout(network)
    first, bits = plan.tag
    cycles = _cycles(network) + 2 * tasks * network.interval + 100
    return bench(
        network.name,
        plan.input_bits,
        plan.result_bits,
        tasks,
        SLOWEST * cycles,
        _cycles(network),
        network.clock,
        f"out_data[{first + bits - 1}:{first}]",
    )


def stream_facts(network: Network) -> dict[str, Any]:
    """The facts that a program needs to drive the streams: the fields of each function's words."""
    plan = words.layout(network)
    head = {"code": _bits(*plan.code), "tag": _bits(*plan.tag)}
    return {
        "name": network.name,
        "interval": network.interval,
        "depth": network.depth,
        "clock_ns": network.clock,
        "input_bits": plan.input_bits,
        "result_bits": plan.result_bits,
        **head,
        "functions": {
            name: {
                "code": code,
                "inputs": _places(plan.inputs[name]),
                "results": _places(plan.results[name]),
            }
            for name, code in network.codes.items()
        },
    }


def _bits(offset: int, width: int) -> dict[str, int]:
    return {"offset": offset, "width": width}


def _places(places: Sequence[words.WordEntry]) -> list[dict[str, Any]]:
    return [
        {"entry": list(p.entry), "offset": p.offset, "width": p.width, "fraction": p.fraction}
        for p in places
    ]
