"""Place and route of a module on an ECP5, whose tools are open, and the clock that it reaches.

All ports stand behind shift registers, so that the paths are those between registers of the module,
and a module with thousands of bits fits the pins.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from synthesis import ECP5

from featherlane.backends import cache as disk
from featherlane.backends.fpga.bitstream.tools import (
    NEXTPNR,
    YOSYS,
    package_version,
    run,
    run_package,
    tool_version,
)
from featherlane.backends.fpga.module import Module, sources
from featherlane.errors import CompileError

OPTIONS = (
    *("--85k", "--package", "CABGA756", "--speed", "8"),
    *("--lpf-allow-unconstrained", "--tmg-ripup"),
)
SEEDS, LIMIT = (1, 2, 3, 4), 600.0  # s for one of them; routing of a few placements does not end
SCRIPT = f"{ECP5} write_json framed.json"


class Placed(NamedTuple):
    """A module on the device: the clock that it reaches in MHz, cells by kind, the seconds that
    the tools took, and the seed of the placement.
    """

    megahertz: float
    cells: dict[str, int]
    seconds: float
    seed: int


def placed(modules: Mapping[str, Module], module: str, megahertz: float = 125.0) -> Placed:
    """Places and routes a module. modules: it and those inside it, by name; megahertz: the clock
    that is aimed at. The first of SEEDS that reaches it is taken, else the fastest.

    Raises CompileError if a tool is missing, or the module does not fit the device.
    """
    files = sources({**modules, "framed": frame(modules[module])})
    facts = [SCRIPT, OPTIONS, megahertz, files]
    versions = package_version(YOSYS), tool_version(NEXTPNR)
    key = f"ecp5 {versions} {disk.digest(json.dumps(facts).encode())}"
    found = json.loads(disk.fetch_result(key, lambda: _report(files, megahertz)))
    clock = _clock(found)
    if clock == inf:
        raise CompileError(f"{module} has no path between registers")
    cells = {name: used["used"] for name, used in found["utilization"].items() if used["used"]}
    return Placed(clock, cells, found["seconds"], found.get("seed", SEEDS[0]))


def _report(files: Mapping[str, str], megahertz: float) -> bytes:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for file, text in files.items():
            (work / file).write_text(text)
        run_package(YOSYS, ["-q", "-p", SCRIPT.format(files=" ".join(files), top="framed")], work)
        best = _best(work, megahertz)
    best["seconds"] = time.monotonic() - began
    return json.dumps(best).encode()


def _best(work: Path, megahertz: float) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    for seed in SEEDS:
        try:
            report = _routed(work, megahertz, seed)
        except TimeoutError:
            continue
        if _clock(report) >= megahertz:
            return report
        found.append(report)
    if not found:
        raise CompileError(f"routing ended with none of {len(SEEDS)} seeds in {LIMIT:g} s each")
    return max(found, key=_clock)


def _routed(work: Path, megahertz: float, seed: int) -> dict[str, Any]:
    """The report of nextpnr on the netlist of a folder. Raises TimeoutError after LIMIT."""
    aim = ("--freq", f"{megahertz:g}", "--seed", str(seed), "--timing-allow-fail")
    files = ("--json", "framed.json", "--report", "report.json", "--quiet")
    run(NEXTPNR, [*OPTIONS, *aim, *files], work, LIMIT)
    return {**json.loads((work / "report.json").read_text()), "seed": seed}


def _clock(report: Mapping[str, Any]) -> float:
    """The clock in MHz of the slowest path between registers, infinite if there is none."""
    return min((clock["achieved"] for clock in report["fmax"].values()), default=inf)


def frame(module: Module) -> Module:
    """The module that stands around another one, with its ports behind shift registers."""
    offsets, ports = {"given": 0, "results": 0}, {"clock": "clock"}
    for name, port in module.ports.items():
        if name != "clock":
            word = "given" if port.kind == "input logic" else "results"
            first, width = offsets[word], 1 if port.bits is None else int(port.bits)
            ports[name] = f"{word}[{first + width - 1}:{first}]"
            offsets[word] += width
    given, results = (max(bits, 2) for bits in offsets.values())
    around = Module("framed", f"{module.name} with its ports behind shift registers")
    around.input("clock", "bit_in")
    around.output("bit_out")
    around.declare("given", bits=given)
    around.declare("results", "taken", bits=results)
    around.declare("load")
    around.declare("count", bits=10)
    around.clocked(f"""
        given <= {{given, bit_in}};
        count <= count + 1'b1;
        load <= count == 0;
        taken <= load ? results : taken << 1;
        bit_out <= taken[{results - 1}];
    """)
    around.instance(module.name, "device", ports)
    return around
