"""What does the assembler make of the kernels for GPUs: registers, spills, code, its own time?

Nothing is run: `ptxas` (of the CUDA toolkit, or of the package nvidia-cuda-nvcc) must be found. For
each function the figures are those of its largest kernel, and the number of kernels; the time is
the processor's, of all of them together. With --teams, kernels of one warp and of teams: the depth
is that of the graph, the efficiency is operations / (warps x operations of the longest warp of each
phase), and the longest line counts the longest warp's instructions, with loads, stores and copies.
The time is an estimate in instructions of a warp, for few states.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from options import parser, write_json
from robots import Robot, chosen, machine_lines, say, table

import featherlane as fl
from featherlane.api.model import Model
from featherlane.backends.cuda import stages, teams
from featherlane.functions.compile import dynamics_program
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.program.lower import lower
from featherlane.program.program import Program

DTYPES = ["float32", "float64"]
ROBOTS = ("iiwa14", "hyq:free", "atlas:free")
NUMBERS = {
    "registers": r"Used (\d+) registers",
    "spilled, B": r"(\d+) bytes spill stores",
}


def assembled(text: str, target: str) -> dict[str, Any]:
    """The figures of PTX for a processor."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.ptx")
        path.write_text(text)
        start = os.times().children_user
        done = subprocess.run(
            ["ptxas", "-v", f"-arch={target}", str(path), "-o", f"{folder}/kernel.cubin"],
            capture_output=True,
            text=True,
        )
        seconds = os.times().children_user - start
        if done.returncode:
            raise RuntimeError(done.stderr)
        size = Path(folder, "kernel.cubin").stat().st_size
    found = {name: [int(x) for x in re.findall(p, done.stderr)] for name, p in NUMBERS.items()}
    return {
        **{name: max(numbers) for name, numbers in found.items()},
        "spilled in all, B": sum(found["spilled, B"]),
        "file, kB": size / 1e3,
        "ptxas, s": seconds,
    }


def rows(
    robot: Robot, model: Model, target: str, names: list[str], dtypes: list[str], sizes: list[int]
) -> Iterator[dict[str, Any]]:
    for name, dtype, warps in product(names, dtypes, [1, *sizes]):
        say(f"{robot.title}, {name}, {dtype}, {warps} warps")
        program = lower(dynamics_program(model, Variant(name)), "cuda", dtype)
        if warps == 1:
            made = stages.kernels(program, name, np.dtype(dtype))
        else:
            made = teams.kernels(program, name, np.dtype(dtype), warps)
        yield {
            "robot": robot.title,
            "function": name,
            "dtype": dtype,
            **(_work(program, dtype, warps) if sizes else {}),
            "kernels": len(made.launches),
            "scratch, B": made.slots * np.dtype(dtype).itemsize,
            "shared, kB": max(launch.shared for launch in made.launches) / 1024,
            **assembled(made.texts, target),
        }


def _work(program: Program, dtype: str, warps: int) -> dict[str, Any]:
    """The work of a team, or of one warp."""
    work = teams.estimate(program, np.dtype(dtype), warps)
    return {
        "warps": warps,
        "operations": work.operations,
        "depth": sum(graph.cost().depth for graph in program.graphs),
        "efficiency": work.operations / warps / work.path,
        "longest line": work.longest,
        "barriers": work.barriers,
        "time": work.time,
    }


def main() -> None:
    options = parser(__doc__, robots=ROBOTS, functions=FUNCTIONS, dtype=DTYPES, json=None)
    options.add_argument("--arch", default="sm_90", help="the processor (%(default)s)")
    options.add_argument("--teams", type=int, nargs="+", default=[], help="warps of teams: 2 to 8")
    args = options.parse_args()
    if shutil.which("ptxas") is None:
        sys.exit("ptxas is not found: it is part of the CUDA toolkit")
    found: list[dict[str, Any]] = []
    for robot in chosen(args.robots):
        model = fl.load(str(robot.urdf), root=robot.root)
        found += rows(
            robot, model, args.arch, args.functions or [*FUNCTIONS], args.dtype, args.teams
        )
    columns = [*found[0]]
    print(table(columns, [[_text(row[c]) for c in columns] for row in found]))
    print("\n" + "\n".join(machine_lines()))
    write_json(args.json, found, arch=args.arch)


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
