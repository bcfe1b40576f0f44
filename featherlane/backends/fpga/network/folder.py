"""The folder of a network: words of tasks, and the facts that a program needs to make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from featherlane.backends.fpga import folder
from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.network import words
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.network.verilog import Circuit
from featherlane.backends.fpga.simulation.bench import bench
from featherlane.backends.fpga.simulation.simulate import Folder

Array = Any


def write(
    circuit: Circuit,
    path: str | Path,
    tasks: tuple[Array, Array],
    facts: Mapping[str, Any],
    constraints: str = "xdc",
) -> list[Path]:
    """Writes a network with tasks, and returns the files. tasks: the words of inputs and of
    results, a row for each task, whose tag is its number; facts: the report. Errors as of
    `folder.write_files`.
    """
    network, plan = circuit.network, words.layout(circuit.network)
    contents = folder.FolderContents(
        network.name,
        circuit.sources,
        network.clock,
        _bench(network, len(tasks[0])),
        *tasks,
        (plan.input_bits, plan.result_bits),
        stream_facts(network),
        {},
    )
    return folder.write(contents, path, facts, constraints)


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
    """The test bench for so many tasks, in which the tag of a result is its row in the file."""
    plan = words.layout(network)
    first, bits = plan.tag
    cycles = _cycles(network) + 2 * tasks * network.interval + 100
    return bench(
        network.name,
        plan.input_bits,
        plan.result_bits,
        tasks,
        folder.SLOWEST * cycles,
        _cycles(network),
        network.clock,
        f"32'(out_data[{first + bits - 1}:{first}])",
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
