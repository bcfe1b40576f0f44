"""The automatic choices for a robot's functions: their expected costs beside measured ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.model import Model
from featherlane.backends.cores import physical_cores
from featherlane.backends.cpu.compile import Kernel
from featherlane.backends.cpu.cost_model import CallCost
from featherlane.backends.cpu.graphs.layout import MOST, SHARED, WARM, MemoryLayout, memory_layout
from featherlane.backends.llvm.lower import Lanes
from featherlane.functions.lanes import cheapest, in_lanes
from featherlane.functions.table import TABLE, Variant
from featherlane.functions.tracing import candidates, dynamics_program
from featherlane.program.lower import lower
from featherlane.program.passes.pack import operations
from featherlane.program.program import Program
from featherlane.tools.timing import SHORT, Progress, Speed

LEGEND = [
    "choices: the alternative that was taken, and the expected cost of each alternative; the cost",
    "that this run measured is in brackets.",
    "threads: for a call with all states while the other threads sleep. Sleeping threads are woken",
    "if that costs at most a tenth. lanes: of a vector in the kernel for a single state; they hold",
    "limbs of equal structure, or columns of a matrix. tiles: vectors that pass through the code",
    f"together, in up to {WARM >> 10} KB of memory; 2 in up to {SHARED >> 10} KB for code that",
    "exceeds the caches. algorithm: the one with the fewest operations. code: recorded steps for",
    "robots of 100 links, chains of 50, and matrices with 1,250 pairs of joints on one path;",
    "one graph for all others.",
    "The cost model was fitted on one machine. Only ratios of costs decide.",
]


class ExplainedChoice(NamedTuple):
    """One decision. expected: the cost of each alternative in `unit`; measured: of those timed."""

    function: str
    dtype: str
    what: str
    taken: str
    unit: str
    expected: Mapping[str, float]
    measured: Mapping[str, float] = {}

    def __str__(self) -> str:
        costs = ", ".join(map(self._cost, self.expected))
        return f"{self.what:10}{self.taken:12} {costs} {self.unit}".rstrip()

    def _cost(self, name: str) -> str:
        cost = f" ({_short(self.measured[name])})" if name in self.measured else ""
        return f"{name}: {_short(self.expected[name])}{cost}"


def _short(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


@dataclass(frozen=True)
class Explanation:
    """The choices of a run. batch: the largest number of states in a call."""

    batch: int
    choices: tuple[ExplainedChoice, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"batch": self.batch, "choices": [c._asdict() for c in self.choices]}

    def sections(self) -> Iterator[list[str]]:
        """The lines of each part of the text."""
        yield LEGEND
        for dtype in dict.fromkeys(c.dtype for c in self.choices):
            yield [dtype, *_lines(c for c in self.choices if c.dtype == dtype)]


def _lines(choices: Iterable[ExplainedChoice]) -> Iterator[str]:
    last = None
    for c in choices:
        yield f"  {SHORT[c.function] if c.function != last else '':5}{c}"
        last = c.function


def explain(model: Model, speeds: Iterable[Speed], threads: int, progress: Progress) -> Explanation:
    """The choices for functions that were timed. threads: those that `Speed.states_per_us` used."""
    choices: list[ExplainedChoice] = []
    batch = 0
    for s in speeds:
        progress(f"explaining {SHORT[s.function]} in {s.dtype}")
        batch = max(batch, s.batch)
        choices += _of_function(model, s, threads)
    return Explanation(batch, tuple(choices))


def _of_function(model: Model, s: Speed, threads: int) -> Iterator[ExplainedChoice]:
    function, dtype = model.function(s.function), np.dtype(s.dtype)
    kernel = function.kernel(dtype)
    where = s.function, s.dtype
    if kernel is None:
        yield ExplainedChoice(*where, "code", "recorded", "", {"links": model.nbodies})
        return
    load = function.load(kernel)
    yield _threads(s, load, threads)
    program = lower(dynamics_program(model, Variant(s.function)), "cpu", dtype)
    yield _lanes(model, s, program)
    yield _tiles(s, program, kernel)
    if len(TABLE[s.function].algorithms) > 1:
        graphs = candidates(model, Variant(s.function))
        counts: dict[str, float] = {name: g.cost().operations for name, g in graphs.items()}
        yield ExplainedChoice(
            *where, "algorithm", min(counts, key=counts.__getitem__), "operations", counts
        )


def _threads(s: Speed, load: CallCost, threads: int) -> ExplainedChoice:
    taken = load.threads(s.batch, physical_cores())
    counts = sorted({1, threads, taken})
    expected = {str(n): load.seconds(s.batch, n) * 1e6 for n in counts}
    measured = {str(threads): s.batch / s.states_per_us, "1": s.ns_per_state * s.batch * 1e-3}
    return ExplainedChoice(s.function, s.dtype, "threads", str(taken), "us", expected, measured)


def _lanes(model: Model, s: Speed, program: Program) -> ExplainedChoice:
    """The lanes of the kernel for a single state."""
    where, dtype = (s.function, s.dtype, "lanes"), np.dtype(s.dtype)
    if program.functions:
        return ExplainedChoice(*where, "columns", "", {})
    packed = in_lanes(model, Variant(s.function), program.main, dtype)
    counts = {"1": float(operations(program.main))}
    counts |= {str(lanes): float(code.operations) for lanes, code in packed.items()}
    return ExplainedChoice(*where, str(cheapest(packed)), "operations", counts)


def layout_of(program: Program, kernel: Kernel) -> MemoryLayout:
    """The layout of the kernel of a lowered program."""
    lanes = Lanes(kernel.dtype, kernel.width)
    return memory_layout(program, lanes, lanes)


def _tiles(s: Speed, program: Program, kernel: Kernel) -> ExplainedChoice:
    layout = layout_of(program, kernel)
    size = (layout.vectors + layout.input_vectors) * layout.lanes.bytes
    expected = {str(n): n * size / 1024 for n in (1, 2, MOST)}
    return ExplainedChoice(s.function, s.dtype, "tiles", str(layout.tiles), "KB", expected)
