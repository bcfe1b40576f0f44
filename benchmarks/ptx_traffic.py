"""How many bytes do kernels for GPUs move, and how many instructions do they run, for a state?

Nothing runs on a GPU. The emulator runs each kernel for two tiles of 32 states and notes every
access to memory; those of other tiles are the same, further on, which is checked. caches.py says
which of them miss the caches of an H100, of which it takes a part: so many multiprocessors, as much
of the L2, and as many states of the 65,536. Registers are those of `ptxas`, which must be found;
spills are not counted. Bounds are states a second by 2.7 TB/s of memory, 5.5 TB/s of the L2, and by
the instructions that all multiprocessors can issue. --order tiles numbers the warps of a column one
after the other, as grids were until version 1.3, instead of the columns of a tile.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from caches import L2, LINE, Gpu, Stream, Touch, Traffic, Work, run
from options import parser
from ptx_assembled import Case, alone, by_ptxas
from robots import DTYPES, chosen, machine_lines, say, table

import featherlane as fl
from featherlane.backends.cuda.kernel_stage import Launch
from featherlane.backends.cuda.ptx import WARP
from featherlane.backends.cuda.stages import GpuKernels

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from gpu_emulator.launch import Launched
from gpu_emulator.memory import FIRST, GUARD, Memory

ROBOTS = ("iiwa14", "hyq:free", "atlas:free", "g1:free")
STATES = 65_536
MEMORY, CACHE = 2.7e12, 5.5e12  # bytes a second of an H100
ISSUES = 132 * 4 * 1.75e9 * WARP  # instructions of threads a second


class Accesses:
    """Stands for `Uses` in the emulator: notes the accesses of each warp, as (array, line, mask,
    written) in lines of the array.
    """

    def __init__(self, memory: Memory, starts: Sequence[int]) -> None:
        self.memory, self.starts = memory, np.array(starts)
        self.of: dict[int, list[dict[tuple[int, int, bool], int]]] = {}
        self.line, self.parts = "", 0  # of the last instruction, and how many numbers of it follow

    def barrier(self, whole_block: bool) -> None:
        self.line = ""

    def load(self, words: Any, threads: Any, line: str) -> None:
        self._note(words, threads, line, False)

    def store(self, words: Any, threads: Any, line: str) -> None:
        self._note(words, threads, line, True)

    def _note(self, words: Any, threads: Any, line: str, written: bool) -> None:
        """An instruction that moves several numbers a thread comes number by number."""
        if line != self.line or not self.parts:
            self.line = line
            self.parts = next((k for k in (4, 2) if f".v{k}." in line), 1)
            for warp in np.unique(threads // WARP):
                self.of.setdefault(int(warp), []).append({})
        self.parts -= 1
        byte = words[:, 0].astype(np.int64) * 4
        array = np.searchsorted(self.starts, byte, "right") - 1
        at, bits = byte - self.starts[array], (1 << 4 * words.shape[1]) - 1
        for warp, a, x in zip(*(y.tolist() for y in (threads // WARP, array, at)), strict=True):
            lines = self.of[warp][-1]
            key = a, x // LINE, written
            lines[key] = lines.get(key, 0) | bits << x % LINE


class _Counted(list[Any]):
    """Lines of a kernel, which count how often they are run."""

    runs = 0

    def __getitem__(self, at: Any) -> Any:
        self.runs += 1
        return super().__getitem__(at)


class Traced:
    """Kernels of a function, run for two tiles of states. streams: for each launch, by column and
    warp; instructions: of each launch, those of a warp for a column.
    """

    def __init__(
        self, kernels: GpuKernels, dtype: np.dtype, inputs: Mapping[str, np.ndarray]
    ) -> None:
        self.memory, self.starts, self.sizes = Memory(), list[int](), list[int]()
        self.kernels, self.dtype, self.count = kernels, dtype, 2 * kernels.launches[0].states
        arrays = [np.ascontiguousarray(inputs[x], dtype) for x in kernels.inputs]
        arrays += [np.zeros((self.count, *s), dtype) for s in kernels.outputs.values()]
        places = [self._place(x) for x in arrays]
        strides = [x.nbytes // self.count for x in arrays]
        scratch = self._place(np.zeros(self.count * kernels.slots + 1, dtype))
        values = [y for pair in zip(places, strides, strict=True) for y in pair]
        self.values = [*values, scratch, self.count]
        self.streams, self.instructions = list[list[list[Stream]]](), list[int]()
        for launch in kernels.launches:
            self._run(launch)

    def _place(self, array: np.ndarray) -> int:
        """Puts an array at the beginning of a line."""
        while True:
            address = self.memory.place(np.zeros(1, np.uint8))
            if (address + 3 * GUARD) % LINE == 0:  # where the next array will begin
                break
        address = self.memory.place(array)
        self.starts.append(address - FIRST)
        return address

    def _run(self, launch: Launch) -> None:
        self.starts.append(len(self.memory.bytes))  # of the tables of this text
        launched = Launched(
            self.kernels.texts[launch.text],
            launch.kernel,
            [*self.values, *launch.arguments],
            self.memory,
            blocks=launch.blocks(self.count),
            threads=launch.threads,
            shared=launch.shared,
        )
        frame = launched.gangs[0].frames[0]
        lines = _Counted(frame.code.lines)
        frame.code = frame.code._replace(lines=lines)
        launched.uses = accesses = Accesses(self.memory, self.starts)
        launched.run()
        self.instructions.append(lines.runs)
        warps = launch.threads // WARP // launch.pairs

        def of(tile: int, column: int, warp: int) -> list[dict[tuple[int, int, bool], int]]:
            return accesses.of.get((tile * launch.columns + column) * warps + warp, [])

        self.streams.append(
            [
                [_stream(of(0, c, w), of(1, c, w)) for w in range(warps)]
                for c in range(launch.columns)
            ]
        )


def _stream(first: Sequence[Any], second: Sequence[Any]) -> Stream:
    """The accesses of a warp for any tile, from those for two tiles."""
    return [
        [_touch(*pair) for pair in zip(sorted(a.items()), sorted(b.items()), strict=True)]
        for a, b in zip(first, second, strict=True)
    ]


def _touch(first: Any, second: Any) -> Touch:
    (array, line, written), mask = first
    (array_then, line_then, written_then), mask_then = second
    if (array, written, mask) != (array_then, written_then, mask_then):
        raise RuntimeError("accesses for two tiles differ in more than the place")
    return (array << 40) + line, line_then - line, mask, written


def order(launch: Launch, tiles: int, first: str) -> list[tuple[int, int]]:
    """Tiles and columns in the order of their warps in the grid."""
    if first == "columns":
        return [*product(range(tiles), range(launch.columns))]
    return [(tile, c) for c, tile in product(range(launch.columns), range(tiles))]


def traffic(traced: Traced, name: str, first: str, of: int) -> Iterator[dict[str, Any]]:
    """A row for each kernel, in bytes and instructions for a state."""
    gpu = Gpu().part(of)
    l2, whole = L2(gpu.l2), [*alone(traced.kernels)]
    for k, launch in enumerate(traced.kernels.launches):
        case = Case(name, name, "lanes", traced.dtype.name, whole[k], launch)
        registers = by_ptxas(case, "sm_90", "ptxas")["registers"]
        warps, tiles = launch.threads // WARP, STATES // of // launch.states
        resident = gpu.resident(warps, registers, launch.shared)
        pairs = order(launch, tiles, first)
        work = Work(launch.kernel, traced.streams[k], pairs, launch.pairs, resident, launch.shared)
        moved, states = run(work, gpu, l2), tiles * launch.states
        if launch is traced.kernels.launches[-1]:
            l2.flush()
        yield {
            "kernel": launch.kernel,
            "columns": launch.columns,
            "warps of a multiprocessor": resident * warps,
            "instructions": traced.instructions[k] * launch.columns,
            **{x: y / states for x, y in vars(moved).items()},
        }


def summed(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All kernels of a function, and what bounds its states a second, in millions."""
    total = {x: sum(row[x] for row in rows) for x in ("instructions", *vars(Traffic()))}
    return {
        **total,
        "by memory": MEMORY / (total["read"] + total["written"]) / 1e6,
        "by L2": CACHE / (total["l2_read"] + total["l2_written"]) / 1e6,
        "by instructions": ISSUES / total["instructions"] / 1e6,
    }


def main() -> None:
    options = parser(__doc__, robots=ROBOTS, csv=None)
    options.add_argument("--functions", nargs="+", default=["forward_dynamics_derivatives"])
    options.add_argument("--dtypes", nargs="+", default=["float32"], choices=DTYPES)
    options.add_argument("--order", default="columns", choices=("columns", "tiles"))
    options.add_argument("--part", type=int, default=12, metavar="N", help="1/N of the GPU")
    args = options.parse_args()
    found, sums = list[dict[str, Any]](), list[dict[str, Any]]()
    for robot, name, dtype in product(chosen(args.robots), args.functions, args.dtypes):
        model = fl.load(str(robot.urdf), root=robot.root)
        say(f"{robot.title}, {name}, {dtype}")
        gpu = model.function(name).gpu
        assert gpu is not None
        kernels = gpu.kernels("lanes", name, np.dtype(dtype))
        rng = np.random.default_rng(0)
        inputs = {x: rng.normal(size=(2 * WARP, *shape)) for x, shape in kernels.inputs.items()}
        about = {"robot": robot.title, "function": name, "dtype": dtype, "order": args.order}
        rows = [*traffic(Traced(kernels, np.dtype(dtype), inputs), name, args.order, args.part)]
        found += [{**about, **row} for row in rows]
        sums.append({**about, **summed(rows)})
    for rows in (found, sums):
        print(table([*rows[0]], [[_text(x) for x in row.values()] for row in rows]), "\n")
    print("\n".join(machine_lines()))
    if args.csv:
        with args.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*found[0]])
            writer.writeheader()
            writer.writerows({x: _text(y) for x, y in row.items()} for row in found)


def _text(value: Any) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
