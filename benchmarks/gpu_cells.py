"""What a part of the benchmarks on a GPU is: cells, which are measured one by one until the time of
the part is over. A cell that fails is a row that says so, and the next one goes on.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import gpu_packed
from gpu_card import Card, DeviceArray
from gpu_packed import Facts, Packed, Resident
from robots import Robot, chosen

import featherlane as fl
from featherlane.api.model import Model
from featherlane.backends.cuda.calls import DeviceFunction

Row = dict[str, Any]
MARK = "row: "  # before the lines of a process that are rows as JSON
SAME, DIFFERENT, FAILED, LEFT_OUT = "the same", "DIFFERENT", "failed", "left out"
MOST_BYTES = 16 << 30  # of the arrays of a cell
LOST = 3  # the exit status of a process whose GPU is lost
# Bytes of arrays that take turns, so that they come from memory and not from the L2 cache: it has
# 50 MB on an H100, 60 MB on an H200
BEYOND_CACHE = 256 << 20


class Cell(NamedTuple):
    """Something to measure. facts: the columns that say what it is; measure gives a row of figures,
    or several.
    """

    facts: Row
    measure: Callable[[], Row | Iterable[Row]]


@dataclass
class Bench:
    """What the cells of a part share. deadline: of `time.monotonic`; none begins after it."""

    gpu: Card
    pack: Path
    robots: tuple[str, ...]
    functions: tuple[str, ...]
    deadline: float
    scratch: dict[str, Any] = field(default_factory=dict)  # of a part, from cell to cell

    @property
    def left(self) -> float:
        """Seconds that are left to the part."""
        return self.deadline - time.monotonic()

    def batches(self, *every: int) -> tuple[int, ...]:
        """The batches of a part, in the emulator only the small ones, or 16 in their place."""
        return every if not self.gpu.emulated else tuple(b for b in every if b < 64) or (16,)

    def files(self, form: str | None = None, dtypes: tuple[str, ...] = ()) -> list[Facts]:
        """The functions of the pack that are asked for, those of the chain always. form: of the
        smoke test, "" for others, None for all.
        """
        return [
            x
            for x in gpu_packed.index(self.pack)
            if form is None or x.form == form
            if x.form or not self.robots or x.robot in (*self.robots, gpu_packed.CHAIN)
            if x.form or not self.functions or x.function in self.functions
            if not dtypes or x.dtype in dtypes
        ]

    def loaded(self, facts: Facts) -> tuple[Packed, DeviceFunction]:
        """A function of the pack."""
        return _loaded(self.pack, facts)

    def resident(self, facts: Facts, batch: int, pitch: int = 0) -> Resident:
        """A function of the pack with arrays on the GPU."""
        packed, function = self.loaded(facts)
        return Resident(self.gpu, packed, function, batch, pitch)

    def fits(self, facts: Facts, batch: int) -> bool:
        """Whether the arrays of so many states fit into the memory of a cell."""
        return facts.row_bytes * batch < MOST_BYTES

    def models(self) -> Iterator[tuple[Robot, Model]]:
        """The robots, for what no pack has."""
        for robot in chosen(list(self.robots)):
            yield robot, fl.load(str(robot.urdf), root=robot.root)

    def arrays(self, *data: Any) -> list[DeviceArray]:
        """Arrays of the host on the GPU."""
        return [DeviceArray.of(self.gpu, x) for x in data]


def asked(robot: Robot) -> str:
    """A robot as options and packs name it."""
    return robot.name if robot.root == "fixed" else f"{robot.name}:{robot.root}"


@cache  # the driver loads the kernels of a function once
def _loaded(folder: Path, facts: Facts) -> tuple[Packed, DeviceFunction]:
    packed = gpu_packed.read(folder, facts)
    return packed, packed.function(facts.mapping)


def rows(cells: Iterable[Cell], bench: Bench, first: int = 0) -> Iterator[Row]:
    """The rows of a part from a cell on. Before each cell comes a row with its number as `begun`;
    a row with `lost` says that the GPU is lost to this process, and is the last one.
    """
    for number, cell in enumerate(cells):
        if number < first:
            continue
        if bench.left < 0:
            yield {**cell.facts, "value": f"{LEFT_OUT}, and what follows: time is over"}
            return
        yield {"begun": number, **cell.facts}
        try:
            figures = cell.measure()
            for each in [figures] if isinstance(figures, dict) else figures:
                yield {**cell.facts, **each}
        except Exception as error:
            yield {**cell.facts, "value": f"{FAILED}: {type(error).__name__}: {error}"[:300]}
            if not bench.gpu.works():
                yield {"lost": number}
                return


def print_rows(cells: Iterable[Cell], bench: Bench, first: int) -> None:
    """Prints the rows of a part for the process that waits for them, each as soon as it is there.
    Ends the process if the GPU is lost.
    """
    for row in rows(cells, bench, first):
        print(MARK + json.dumps(row, default=str), flush=True)
        if "lost" in row:
            sys.exit(LOST)
    print(MARK + json.dumps({"ended": True}), flush=True)
