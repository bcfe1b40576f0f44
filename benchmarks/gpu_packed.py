"""Functions with their kernels, inputs and the CPU's results, as files: what a run on a GPU needs,
so that nothing is traced or compiled for the CPU there. `gpu_pack.py` writes them.

A pack is a folder. Each function is an archive (zip, LZMA) of the kernels as JSON, whose texts are
PTX, and of arrays; `index.json` lists them in the order in which they are measured.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gpu_card import Card, DeviceArray

from featherlane.backends.cuda import cached
from featherlane.backends.cuda.calls import DeviceFunction, Rows
from featherlane.backends.cuda.mappings import KernelWork
from featherlane.backends.cuda.parse import Instruction, parsed
from featherlane.backends.cuda.stages import GpuKernels

INDEX = "index.json"
CHAIN = "chain100"  # the robot of many links, for which there are no options
FLOATS = {"f32", "f64"}  # ends of the names of instructions that compute with numbers
MOVES = {"ld", "st", "mov", "cvt", "selp", "setp"}


class Facts(NamedTuple):
    """Which function a file has, for which check of the smoke test it stands (`form`), and what its
    kernels do for a state: bytes of rows that it moves, bytes that it stores to scratch memory and
    loads from it, lines of floating-point arithmetic, and what mappings are compared by.
    """

    file: str
    robot: str
    function: str
    dtype: str
    mapping: str
    form: str
    row_bytes: int
    scratch_bytes: int
    operations: int
    work: KernelWork

    @property
    def row(self) -> dict[str, Any]:
        """Which function it is, as columns of results."""
        return {x: getattr(self, x) for x in ("robot", "function", "dtype", "mapping")}


class Packed(NamedTuple):
    """A function: its kernels, and rows of states: inputs, and the CPU's results."""

    kernels: GpuKernels
    inputs: Sequence[np.ndarray]
    results: Sequence[np.ndarray]

    @property
    def dtype(self) -> np.dtype:
        return self.results[0].dtype

    def function(self, mapping: str) -> DeviceFunction:
        """The object that calls the kernels, as calls of the package do."""
        return DeviceFunction(lambda _: self.kernels, lambda *_: mapping, self.dtype)

    @property
    def row_bytes(self) -> int:
        """The bytes that a state moves in and out."""
        return sum(x[0].nbytes for x in (*self.inputs, *self.results))

    def operations(self) -> int:
        """Lines of floating-point arithmetic that a state executes, where no loop repeats them."""
        return sum(map(_computes, self._lines()))

    def scratch_bytes(self) -> int:
        """What a state stores to scratch memory and loads from it: single numbers, by lines that no
        thread leaves out.
        """
        if not self.kernels.slots:
            return 0
        kind = {4: "f32", 8: "f64"}[self.dtype.itemsize]
        names = (f"ld.global.{kind}", f"st.global.{kind}")
        lines = sum(line.name in names and not line.guard for line in self._lines())
        return lines * self.dtype.itemsize

    def _lines(self) -> list[Instruction]:
        """The lines of all kernels, those of a column as often as there are columns."""
        texts, launches = self.kernels.texts, self.kernels.launches
        return [
            line
            for launch in launches
            for line in parsed(texts[launch.text], launch.kernel).lines * launch.columns
        ]


def _computes(line: Instruction) -> bool:
    return line.parts[-1] in FLOATS and line.parts[0] not in MOVES


def write(folder: Path, facts: Facts, packed: Packed) -> None:
    """Writes a file of the pack, without its line of the index."""
    with zipfile.ZipFile(folder / facts.file, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("kernels.json", cached.written(packed.kernels))
        for name, arrays in (("input", packed.inputs), ("result", packed.results)):
            for k, array in enumerate(arrays):
                image = io.BytesIO()
                np.save(image, np.ascontiguousarray(array))
                archive.writestr(f"{name}_{k}.npy", image.getvalue())


def read(folder: Path, facts: Facts) -> Packed:
    """The function of a file."""
    with zipfile.ZipFile(folder / facts.file) as archive:
        kernels = cached.read(archive.read("kernels.json"))
        arrays = [
            [np.load(io.BytesIO(archive.read(x))) for x in archive.namelist() if x.startswith(name)]
            for name in ("input", "result")
        ]
    return Packed(kernels, *arrays)


def write_index(folder: Path, every: Sequence[Facts], **told: Any) -> None:
    """Lists all files. told: of what they were made from."""
    index = {**told, "files": [facts._asdict() for facts in every]}
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n")


def index(folder: Path) -> list[Facts]:
    """What the files of a pack have, in their order. Raises FileNotFoundError without a pack."""
    path = folder / INDEX
    if not path.exists():
        raise FileNotFoundError(
            f"there is no pack of kernels in {folder}: make it with benchmarks/gpu_pack.py {folder}"
        )
    files = json.loads(path.read_text())["files"]
    return [Facts(**{**x, "work": KernelWork(*x["work"])}) for x in files]


class Resident:
    """A packed function with arrays of so many states on the GPU: those of the pack again and
    again. Results are full of NaN before the first call. pitch: numbers between two rows.
    """

    def __init__(
        self, card: Card, packed: Packed, function: DeviceFunction, batch: int, pitch: int = 0
    ) -> None:
        self.card, self.packed, self.function, self.batch = card, packed, function, batch
        self.inputs = [DeviceArray.of(card, _rows(x, batch, pitch)) for x in packed.inputs]
        widths = [x[0].size + pitch for x in packed.results]
        self.results = [DeviceArray(card, (batch, width), packed.dtype) for width in widths]
        self.rows = [
            Rows(x.address, x.shape[1] * packed.dtype.itemsize)
            for x in (*self.inputs, *self.results)
        ]

    def run(self) -> None:
        """Puts the kernels into the stream."""
        self.function.call(0, self.card.stream, self.rows, self.batch)

    def difference(self) -> str:
        """The difference of the results from the CPU's, bit by bit: "" where there is none."""
        for k, (found, wanted) in enumerate(zip(self.results, self.packed.results, strict=True)):
            if told := _difference(found.numpy(), wanted.reshape(len(wanted), -1)):
                return f"result {k}: {told}"
        return ""

    def free(self) -> None:
        for x in (*self.inputs, *self.results):
            x.free()

    def __enter__(self) -> Resident:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()


def _rows(array: np.ndarray, batch: int, pitch: int) -> np.ndarray:
    """A row for each state, with NaN behind."""
    flat = array.reshape(len(array), -1)
    rows = np.full((batch, flat.shape[1] + pitch), np.nan, array.dtype)
    rows[:, : flat.shape[1]] = flat[np.arange(batch) % len(flat)]
    return rows


def _difference(found: np.ndarray, wanted: np.ndarray) -> str:
    """How rows differ from those that are wanted again and again, and where NaN must be kept behind
    them; "" where they have the same bits.
    """
    words = f"u{found.dtype.itemsize}"
    width = wanted.shape[1]
    differing, worst, first = 0, 0.0, -1
    scale = max(float(np.abs(wanted).max(initial=0.0)), 1e-300)
    for begin in range(0, len(found), len(wanted)):
        part = found[begin : begin + len(wanted)]
        same = part[:, :width].view(words) == wanted[: len(part)].view(words)
        same &= np.isnan(part[:, width:]).all(axis=1, keepdims=True)
        if same.all():
            continue
        if first < 0:
            first = begin + int(np.argmin(same.all(axis=1)))
        differing += int(same.size - np.count_nonzero(same))
        error = float(np.abs(part[:, :width] - wanted[: len(part)]).max())
        worst = max(worst, math.inf if math.isnan(error) else error / scale)
    if not differing:
        return ""
    return f"{differing:,} numbers differ, by {worst:.1e} at most, from state {first} on"
