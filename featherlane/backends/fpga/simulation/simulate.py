"""Simulation of the folder of a design, by Verilator or by Icarus Verilog.

The two simulators share no code, so that each checks the other.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends import cache as disk
from featherlane.backends.fpga import words
from featherlane.backends.fpga.simulation.driver import DRIVER
from featherlane.errors import CompileError

Array = Any
PACKAGES = {"verilator": "verilator", "g++": "g++", "iverilog": "iverilog", "vvp": "iverilog"}
SMALL = 1 << 20  # bytes of C++ that are compiled at once: the headers alone take seconds
# Without the tree of bit operations: Verilator 5.006 loses a bit of a ^ b ^ !a
FLAGS = [
    "--cc", "--prefix", "Vdesign", "-Mdir", "made", "-Wno-fatal", "-Wno-lint", "-Wno-style", "-O3",
    "--x-assign", "fast", "--x-initial", "fast", "--noassert", "-fno-const-bit-op-tree",
]  # of Verilator  # fmt: skip
OPTIONS = ["-std=c++17", "-fPIC", "-DVL_TIME_CONTEXT", "-w"]  # of the compiler, for all files
FAST = ["-O1", "-shared", "-pthread"]  # for what runs in each cycle
SLOW = ["-O0", "-c"]  # for what runs once
# A design of more text than this, in bytes, becomes files of C++ that are compiled each on its own:
# as one unit the derivatives of Atlas in arrays, 16 MB, were not compiled in hours.
LARGE = 2 << 20
# Operations of a file and of a function: functions of 20,000 need more than 8 MB of stack.
SPLIT = ["--output-split", "60000", "--output-split-cfuncs", "2000"]
LIMIT = 1000  # cycles for each state, besides the latency: a simulation that takes more hangs


class Simulation(NamedTuple):
    """The results, a row for each state, and the cycles in which words went in and out."""

    values: Array
    accepted: Array
    emitted: Array


class Streams(NamedTuple):
    """The words of results as bytes, a row for each, in the order in which they came, and the
    cycles in which words went in and out.
    """

    words: Array
    accepted: Array
    emitted: Array


def tool(name: str) -> str:
    """The path of a program. Raises CompileError, which names its package, if it is missing."""
    if (path := shutil.which(name)) is None:
        raise CompileError(
            f"{name} is not installed: simulations need it (Debian, Ubuntu: apt install "
            f"{PACKAGES[name]})"
        )
    return path


def run(command: list[str], folder: Path) -> str:
    """Runs a program in a folder and returns its output. Raises CompileError if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()[:5]
        raise CompileError(f"{Path(command[0]).name} failed: {' | '.join(lines)}")
    return done.stdout


class Folder(NamedTuple):
    """The sources of a design, and the fields of its words, by width and offset."""

    name: str
    sources: dict[str, str]
    latency: int
    interval: int
    inputs: list[tuple[int, int]]
    outputs: list[tuple[int, int]]

    @classmethod
    def read(cls, folder: str | Path) -> Folder:
        """Reads what `folder.write` wrote."""
        folder = Path(folder)
        facts = json.loads((folder / "design.json").read_text())
        sources = {path.name: path.read_text() for path in sorted(folder.glob("*.sv"))}
        fields = ([(f["width"], f["offset"]) for f in facts[key]] for key in ("inputs", "outputs"))
        return cls(facts["name"], sources, facts["latency"], facts["interval"], *fields)

    @property
    def input_bits(self) -> int:
        """Bits of a word of inputs."""
        return _bits(self.inputs)

    @property
    def output_bits(self) -> int:
        """Bits of a word of results."""
        return _bits(self.outputs)

    def limit(self, states: int) -> int:
        """The cycles after which a simulation is given up."""
        return LIMIT * (states + 10) * self.interval + 10 * self.latency


def _bits(fields: list[tuple[int, int]]) -> int:
    return max((width + offset for width, offset in fields), default=1)


# Icarus


def icarus(folder: str | Path, values: Array, stalls: int = 0, seed: int = 1) -> Simulation:
    """Simulates states in Icarus Verilog. values: integers (states, fields of inputs); stalls: of
    256 cycles, so many without a word in, and as many without a reader behind.

    Raises CompileError if Icarus is missing, does not take the sources, or finds bits that are not
    known.
    """
    device = Folder.read(folder)
    streams = in_icarus(device, words.packed(values, device.inputs), stalls, seed)
    return found_values(device, streams)


def found_values(device: Folder, streams: Streams) -> Simulation:
    """The numbers in the words of results."""
    return Simulation(
        words.unpacked(streams.words, device.outputs), streams.accepted, streams.emitted
    )


def in_icarus(device: Folder, inputs: Array, stalls: int = 0, seed: int = 1) -> Streams:
    """Simulates words as bytes, a row for each state, in Icarus Verilog; see `icarus`."""
    compiler, runner = tool("iverilog"), tool("vvp")
    states = len(inputs)
    with tempfile.TemporaryDirectory() as name:
        work, bench = Path(name), f"{device.name}_bench"
        for source, text in device.sources.items():
            (work / source).write_text(text)
        (work / "inputs.hex").write_text(words.hexadecimal(inputs, device.input_bits))
        settings = {
            "STATES": states, "STALLS": stalls, "SEED": seed, "WRITE": 1,
            "LIMIT": device.limit(states),
        }  # fmt: skip
        chosen = [f"-P{bench}.{key}={value}" for key, value in settings.items()]
        run([compiler, "-g2012", "-s", bench, *chosen, "-o", "a.vvp", *device.sources], work)
        run([runner, "-n", "a.vvp"], work)
        return _written((work / "written.txt").read_text(), device, states)


def _written(text: str, device: Folder, states: int) -> Streams:
    rows = [line.split() for line in text.splitlines()]
    accepted = [int(row[1]) for row in rows if row[0] == "accepted"]
    emitted = [row for row in rows if row[0] == "emitted"]
    _check_count(len(emitted), states)
    size = -(-device.output_bits // 32) * 4
    try:
        results = words.from_hexadecimal("\n".join(row[2] for row in emitted), size)
    except ValueError:
        raise CompileError("results have bits that are not known (x)") from None
    cycles = np.array([int(row[1]) for row in emitted])
    return Streams(results, np.array(accepted), cycles)


def _check_count(count: int, states: int) -> None:
    if count != states:
        raise CompileError(f"{count} of {states} states came out of the stream")


# Verilator


def verilator(folder: str | Path, values: Array, stalls: int = 0, seed: int = 1) -> Simulation:
    """Simulates states in C++ that Verilator makes of the sources; arguments as of `icarus`.

    The library is kept in the cache of compiled code. Raises CompileError if Verilator or a C++
    compiler is missing, or does not take the sources.
    """
    device = Folder.read(folder)
    streams = in_verilator(device, words.packed(values, device.inputs), stalls, seed)
    return found_values(device, streams)


def in_verilator(
    device: Folder, inputs: Array, stalls: int = 0, seed: int = 1, behind: Array | None = None
) -> Streams:
    """Simulates words as bytes, a row for each state; see `verilator`. behind: how many results
    must be out before each state is offered.
    """
    states = len(inputs)
    results = np.zeros((states, -(-device.output_bits // 32) * 4), np.uint8)
    accepted, emitted = np.zeros((2, states), np.int64)
    run_states = library(device).simulate
    run_states.restype = ctypes.c_long
    inputs = np.ascontiguousarray(inputs)
    waits = None if behind is None else np.ascontiguousarray(behind, np.int64)
    pointers = [
        None if x is None else x.ctypes.data_as(ctypes.c_void_p)
        for x in (inputs, results, accepted, emitted, waits)
    ]
    count = run_states(
        *pointers,
        *(ctypes.c_long(n) for n in (inputs.shape[1], results.shape[1], states)),
        *(ctypes.c_ulong(n) for n in (seed, stalls, device.limit(states))),
    )
    _check_count(count, states)
    return Streams(results, accepted, emitted)


def library(device: Folder) -> ctypes.CDLL:
    """The design as a library of C++."""
    sources = {n: text for n, text in device.sources.items() if not n.endswith("_bench.sv")}
    return compiled(device.name, sources, DRIVER)


def compiled(top: str, sources: Mapping[str, str], driver: str) -> ctypes.CDLL:
    """A module, which is Vdesign in C++, with the C++ of a driver around it, as a library."""
    large = SPLIT if _is_large(sources) else []
    facts = [*_tools(), FLAGS, FAST, *large, top, driver, dict(sources)]
    key = f"verilator {disk.digest(json.dumps(facts).encode())}"
    code = disk.fetch_result(key, lambda: _build(top, sources, driver))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "design.so"
        path.write_bytes(code)
        return ctypes.CDLL(str(path))


@cache
def _tools() -> list[str]:
    """The tools that a library depends on besides its sources and options."""
    versions = [run([tool(name), "--version"], Path.cwd()) for name in ("verilator", "g++")]
    return [sys.platform, platform.machine(), *versions, *OPTIONS]


def _build(name: str, sources: Mapping[str, str], driver: str) -> bytes:
    """Compiles a design. Raises CompileError if Verilator or the compiler does not take it."""
    program = tool("verilator")
    is_large = _is_large(sources)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        for source, text in sources.items():
            (work / source).write_text(text)
        (work / "driver.cpp").write_text(driver)
        (work / "runtime.o").write_bytes(_runtime())
        split = SPLIT if is_large else []
        run([program, *FLAGS, *split, "--top-module", name, *sources], work)
        files = sorted((work / "made").glob("*.cpp"))
        objects = _compiled_apart(files, work) if is_large else _compiled_together(files, work)
        command = [tool("g++"), *_options(), "-Imade", *FAST, "-o", "design.so", "driver.cpp"]
        run([*command, "runtime.o", *objects], work)
        return (work / "design.so").read_bytes()


def _is_large(sources: Mapping[str, str]) -> bool:
    return sum(map(len, sources.values())) > LARGE


def _compiled_together(files: Sequence[Path], work: Path) -> list[str]:
    """Compiles what runs once, if it is much; what runs in each cycle is included in the driver,
    which is optimised. Returns the objects.
    """
    small = sum(path.stat().st_size for path in files) < SMALL
    slow = [path.name for path in files if "Slow" in path.name and not small]
    fast = [path.name for path in files if path.name not in slow]
    with (work / "driver.cpp").open("a") as file:
        file.write("".join(f'#include "made/{n}"\n' for n in fast))
    if not slow:
        return []
    (work / "slow.cpp").write_text("".join(f'#include "made/{n}"\n' for n in slow))
    run([tool("g++"), *_options(), "-Imade", *SLOW, "slow.cpp", "-o", "slow.o"], work)
    return ["slow.o"]


def _compiled_apart(files: Sequence[Path], work: Path) -> list[str]:
    """Compiles each file on its own, as many at a time as there are processors. Returns the
    objects.
    """
    command = [tool("g++"), *_options(), "-Imade"]

    def compile_file(path: Path) -> str:
        options = SLOW if "Slow" in path.name else ["-O1", "-c"]
        run([*command, *options, f"made/{path.name}", "-o", f"{path.stem}.o"], work)
        return f"{path.stem}.o"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [*pool.map(compile_file, files)]


def _options() -> list[str]:
    root = _root()
    return [*OPTIONS, f"-I{root}/include", f"-I{root}/include/vltstd"]


@cache
def _root() -> str:
    return run([tool("verilator"), "--getenv", "VERILATOR_ROOT"], Path.cwd()).strip()


@cache
def _runtime() -> bytes:
    """Verilator's own library, compiled once."""

    def make() -> bytes:
        with tempfile.TemporaryDirectory() as name:
            work = Path(name)
            text = ""
            for source in ("verilated.cpp", "verilated_threads.cpp"):
                if (Path(_root()) / "include" / source).exists():
                    text += f'#include "{source}"\n'
            (work / "runtime.cpp").write_text(text)
            run([tool("g++"), *_options(), "-O0", "-c", "runtime.cpp", "-o", "runtime.o"], work)
            return (work / "runtime.o").read_bytes()

    key = disk.digest(json.dumps(_tools()).encode())
    return disk.fetch_result(f"verilator runtime {key}", make)
