"""What is chosen for a robot's functions, what that was expected to cost, and what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.model import Model
from featherlane.backends.cpu.compile import Kernel, lowered
from featherlane.backends.cpu.cost_model import CallCost
from featherlane.backends.cpu.graphs.layout import MOST, SHARED, WARM, Layout
from featherlane.backends.llvm.lower import Lanes
from featherlane.functions.compile import candidates, cheapest, dynamics_program, in_lanes
from featherlane.functions.function import physical_cores
from featherlane.functions.table import TABLE, Variant
from featherlane.program.graph import Graph
from featherlane.program.routine import Program
from featherlane.tools.timing import SHORT, Progress, Speed

LEGEND = [
    "choices: what was taken of which alternatives, with the cost that is expected of each; in",
    "brackets what this run measured. threads: of a call of all states if the rest sleep; they",
    "are woken where that costs a tenth at most. lanes: of the vectors for a single state, if such",
    "calls come first: those of limbs that are alike, one, or as many as columns of a matrix fill.",
    "tiles: vectors that go through the code together, in up to "
    f"{WARM >> 10} KB of memory, or for more",
    f"code than the caches keep 2 in {SHARED >> 10} KB. algorithm: the one with fewest operations.",
    "code: recorded steps for robots of 100 links, chains of 50, and matrices with 1,250 pairs of",
    "joints on one path; else one graph.",
    "The constants behind the costs are those of one machine: only their ratios choose.",
]


class Choice(NamedTuple):
    """expected: of each alternative, by its name, in `unit`; measured: of some of them."""

    function: str
    dtype: str
    what: str
    taken: str
    unit: str
    expected: Mapping[str, float]
    measured: Mapping[str, float]

    def __str__(self) -> str:
        told = ", ".join(map(self._told, self.expected))
        return f"{self.what:10}{self.taken:12} {told} {self.unit}".rstrip()

    def _told(self, name: str) -> str:
        found = f" ({_short(self.measured[name])})" if name in self.measured else ""
        return f"{name}: {_short(self.expected[name])}{found}"


def _short(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


@dataclass(frozen=True)
class Explanation:
    batch: int
    choices: tuple[Choice, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"batch": self.batch, "choices": [c._asdict() for c in self.choices]}

    def sections(self) -> Iterator[list[str]]:
        """The text, in parts."""
        yield LEGEND
        for dtype in dict.fromkeys(c.dtype for c in self.choices):
            yield [dtype, *_lines(c for c in self.choices if c.dtype == dtype)]


def _lines(choices: Iterable[Choice]) -> Iterator[str]:
    last = None
    for c in choices:
        yield f"  {SHORT[c.function] if c.function != last else '':5}{c}"
        last = c.function


def explain(model: Model, speeds: Iterable[Speed], threads: int, progress: Progress) -> Explanation:
    """The choices behind measured speeds. threads: those of `Speed.all_threads`."""
    choices: list[Choice] = []
    batch = 0
    for s in speeds:
        progress(f"explaining {SHORT[s.function]} in {s.dtype}")
        batch = max(batch, s.batch)
        choices += _of_function(model, s, threads)
    return Explanation(batch, tuple(choices))


def _of_function(model: Model, s: Speed, threads: int) -> Iterator[Choice]:
    function, dtype = model.function(s.function), np.dtype(s.dtype)
    kernel = function.kernel(dtype)
    where = s.function, s.dtype
    if kernel is None:
        yield Choice(*where, "code", "recorded", "", {"links": model.nbodies}, {})
        return
    load = function.load(kernel)
    yield _threads(s, load, threads)
    program = lowered(dynamics_program(model, Variant(s.function)), dtype)
    yield _lanes(model, s, program)
    yield _tiles(s, program, kernel)
    if len(TABLE[s.function].algorithms) > 1:
        yield _algorithm(s, candidates(model, Variant(s.function)))


def _threads(s: Speed, load: CallCost, threads: int) -> Choice:
    counts = sorted({1, threads, load.threads(s.batch, physical_cores())})
    expected = {str(n): load.seconds(s.batch, n) * 1e6 for n in counts}
    measured = {str(threads): s.batch / s.all_threads, "1": s.one_thread * s.batch * 1e-3}
    taken = str(load.threads(s.batch, physical_cores()))
    return Choice(s.function, s.dtype, "threads", taken, "us", expected, measured)


def _lanes(model: Model, s: Speed, program: Program) -> Choice:
    """Of a single state."""
    where, dtype = (s.function, s.dtype, "lanes"), np.dtype(s.dtype)
    if program.routines:
        return Choice(*where, "columns", "", {}, {})
    packed = in_lanes(model, Variant(s.function), program.main, dtype)
    counts = {str(lanes): float(found.operations) for lanes, found in packed.items()}
    return Choice(*where, str(cheapest(packed)), "operations", counts, {})


def layout_of(program: Program, kernel: Kernel) -> Layout:
    """What the kernel of a lowered program goes by."""
    lanes = Lanes(kernel.dtype, kernel.width)
    return Layout(program, lanes, lanes)


def _tiles(s: Speed, program: Program, kernel: Kernel) -> Choice:
    layout = layout_of(program, kernel)
    size = (layout.vectors + layout.input_vectors) * layout.lanes.bytes
    expected = {str(n): n * size / 1024 for n in (1, 2, MOST)}
    return Choice(s.function, s.dtype, "tiles", str(layout.tiles), "KB", expected, {})


def _algorithm(s: Speed, graphs: Mapping[str, Graph]) -> Choice:
    counts: dict[str, float] = {name: g.cost().operations for name, g in graphs.items()}
    taken = min(counts, key=lambda name: counts[name])
    return Choice(s.function, s.dtype, "algorithm", taken, "operations", counts, {})
