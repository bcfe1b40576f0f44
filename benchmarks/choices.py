"""What featherlane chooses by itself against the best measured choice: threads, lanes, tiles, and
the algorithm.

    python benchmarks/choices.py --robots iiwa14 atlas:free --csv choices.csv > choices.md
    python benchmarks/choices.py --calibrate

One thread is timed by the processor's clock, which other programs on the machine disturb less;
several threads by the wall's, of which the fastest counts: for that they need cores that nobody
else uses for once. Alternatives take turns. A choice that loses more than 10 % is
measured again, twice at most, and the last result counts. Of threads, "auto" is what a plain call
does; "woken" is the same with a pause before each call, in which workers fall asleep. --calibrate
fits the constants of featherlane/choice.py to one thread's times and prints how well they predict
them.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

import numpy as np
from options import parser
from robots import DEFAULT, DTYPES, FUNCTIONS, SHORT, chosen, machine_lines, outputs, say, table

from featherlane.api.model import Model
from featherlane.backends.cores import physical_cores
from featherlane.backends.cpu.compile import Kernel, compile_program
from featherlane.backends.cpu.cost_model import LATE
from featherlane.backends.cpu.graphs.layout import MOST, MemoryLayout
from featherlane.functions.function import Function, KernelsByDtype
from featherlane.functions.kernels import SINGLE, variant_kernel
from featherlane.functions.table import Variant
from featherlane.functions.tracing import candidates, dynamics_program
from featherlane.program.lower import lower
from featherlane.program.program import Program
from featherlane.tools.explain import layout_of
from featherlane.tools.timing import inputs

BATCHES = (1, 16, 256, 4096, 32768)
BYTES = 1 << 28  # of a call's arrays at most
SECONDS, LEAST, MOST_TIMES = 0.02, 5, 200  # for each alternative of a cell
PAUSE = 0.002  # seconds: workers sleep then
WALL = 0.25  # seconds by the wall's clock: until the other cores were free once
GOAL = 1.1
AGAIN = 2
TILED = ("FD", "Minv", "dID", "dFD")  # the others have little code
Call = Callable[[], object]
Clock = Callable[[], int]


class Cell(NamedTuple):
    """times: ns per state of each alternative."""

    robot: str
    function: str
    dtype: str
    batch: int
    what: str
    taken: str
    times: Mapping[str, float]

    @property
    def loss(self) -> float:
        return self.times[self.taken] / min(self.times.values())


def in_turns(calls: Mapping[str, Call], clock: Clock, pause: float = 0.0) -> dict[str, float]:
    """ns of each: the lower quartile of some times; of the wall's clock the fastest of more, if
    there is no pause before each.
    """
    wall = clock is time.perf_counter_ns
    seconds, most = (WALL, 20 * MOST_TIMES) if wall else (SECONDS, MOST_TIMES)
    times: dict[str, list[int]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    end = time.perf_counter() + seconds * len(calls)
    for k in range(most):
        if k >= LEAST and time.perf_counter() > end:
            break
        for name, call in calls.items():
            if pause:
                time.sleep(pause)
            start = clock()
            call()
            times[name].append(clock() - start)
    return {
        name: float(np.quantile(t, 0.0 if wall and not pause else 0.25))
        for name, t in times.items()
    }


class Case(NamedTuple):
    """A function of a robot in one dtype."""

    robot: str
    model: Model
    function: Function
    dtype: np.dtype

    def times(
        self,
        calls: Mapping[str, Callable[..., object]],
        batch: int,
        clock: Clock,
        pause: float = 0.0,
    ) -> dict[str, float]:
        given = [*inputs(self.model, batch, self.dtype, tuple(self.function.inputs)).values()]
        out = outputs(self.model, self.function.name, batch, self.dtype)
        loops = max(1, 64 // batch)  # single states are short for a clock

        def repeated(call: Callable[..., object]) -> Call:
            return lambda: [call(*given, out=out) for _ in range(loops)]

        found = in_turns({name: repeated(call) for name, call in calls.items()}, clock, pause)
        return {name: t / batch / loops for name, t in found.items()}

    def cell(
        self, what: str, taken: str, calls: Mapping[str, Callable[..., object]], batch: int
    ) -> Cell:
        wall, pause = what in ("threads", "woken"), PAUSE if what == "woken" else 0.0
        clock = time.perf_counter_ns if wall else time.thread_time_ns
        where = self.robot, SHORT[self.function.name], self.dtype.name, batch
        for _ in range(1 + AGAIN):
            found = Cell(*where, what, taken, self.times(calls, batch, clock, pause))
            if found.loss <= GOAL:
                break
        return found

    def of(self, kernel: Kernel) -> Callable[..., object]:
        """Another kernel as the function, in one thread."""
        f = self.function
        made = Function(f.name, f.inputs, f.outputs, KernelsByDtype(lambda dtype: kernel))
        return lambda *given, out: made(*given, out=out, threads=1)

    def batches(self, least: int = 1) -> list[int]:
        size = self.function.load(self.function.kernel(self.dtype)).moved
        return [b for b in BATCHES if b >= least and b * size <= BYTES]


def threads(case: Case, what: str = "threads") -> Iterator[Cell]:
    calls: dict[str, Callable[..., object]] = {
        str(n): lambda *given, out, n=n: case.function(*given, out=out, threads=n)
        for n in sorted({1, physical_cores()})
    }
    calls["auto"] = lambda *given, out: case.function(*given, out=out)
    for batch in case.batches(16) if physical_cores() > 1 else ():
        yield case.cell(what, "auto", calls, batch)


def woken(case: Case) -> Iterator[Cell]:
    yield from threads(case, "woken")


def lanes(case: Case) -> Iterator[Cell]:
    """Of whole vectors, and of a single state, for which there is code of its own."""
    model, name = case.model, case.function.name
    widest = case.function.kernel(case.dtype).width
    calls = {}
    for width in (1 << k for k in range(widest.bit_length())):
        run = model.function(name, width=width)
        run.ufunc(case.dtype)
        calls[str(width)] = lambda *given, out, run=run: run(*given, out=out, threads=1)
    yield case.cell("lanes", str(widest), calls, widest)
    own = variant_kernel(model, Variant(name), case.dtype, SINGLE)
    yield case.cell("lanes", "own", {**calls, "own": case.of(own)}, 1)


@contextmanager
def _rounds_of(tiles: int) -> Iterator[None]:
    own = MemoryLayout.tiles
    MemoryLayout.tiles = property(lambda self: tiles)  # type: ignore[method-assign]
    try:
        yield
    finally:
        MemoryLayout.tiles = own  # type: ignore[method-assign]


def tiles(case: Case) -> Iterator[Cell]:
    program = dynamics_program(case.model, Variant(case.function.name))
    taken = layout_of(lower(program, "cpu", case.dtype), case.function.kernel(case.dtype)).tiles
    calls = {}
    for count in (1, 2, MOST):
        key = f"{count} tiles {case.model.fingerprint} {case.function.name}"
        with _rounds_of(count):
            calls[str(count)] = case.of(compile_program(lambda: program, key, case.dtype))
    for batch in case.batches(256):
        yield case.cell("tiles", str(taken), calls, batch)


def algorithm(case: Case) -> Iterator[Cell]:
    graphs = candidates(case.model, Variant(case.function.name))
    if len(graphs) < 2:
        return
    taken = min(graphs, key=lambda name: graphs[name].cost().operations)
    calls = {}
    for name, graph in graphs.items():
        key = f"{name} {case.model.fingerprint}"
        made = compile_program(lambda graph=graph: Program(graph), key, case.dtype)
        calls[name] = case.of(made)
    for batch in case.batches():
        yield case.cell("algorithm", taken, calls, batch)


def cells(case: Case, whats: Iterable[str]) -> Iterator[Cell]:
    ways = {f.__name__: f for f in (threads, woken, lanes, tiles, algorithm)}
    for what in whats:
        if what != "tiles" or SHORT[case.function.name] in TILED:
            yield from ways[what](case)


WHATS = ("algorithm", "tiles", "lanes", "threads", "woken")


def summary(found: list[Cell]) -> str:
    rows = []
    for what in WHATS:
        losses = [c.loss for c in found if c.what == what]
        if losses:
            over = [sum(x > limit for x in losses) for limit in (1.05, GOAL)]
            worst = f"{max(losses):.2f}"
            rows.append([what, str(len(losses)), *map(str, over), f"{median(losses):.2f}", worst])
    return table(["choice", "cells", "over 5 %", "over 10 %", "median", "worst"], rows)


def misses(found: list[Cell]) -> str:
    rows = [
        [c.robot, c.function, c.dtype, f"{c.batch:,}", c.what, c.taken, _times(c), f"{c.loss:.2f}"]
        for c in found
        if c.loss > GOAL
    ]
    names = ["robot", "function", "dtype", "states", "choice", "taken", "ns per state", "loss"]
    return table(names, rows) if rows else "None loses more than 10 %."


def _times(c: Cell) -> str:
    return ", ".join(f"{name}: {t:.4g}" for name, t in c.times.items())


def calibrate(cases: Iterable[Case]) -> None:
    """Prints SLOT and BYTE of the least relative squares, how they predict, and the lateness of a
    worker that sleeps.
    """
    rows, times, extra = [], [], []
    for case in cases:
        load = case.function.load(case.function.kernel(case.dtype))
        one = {"1": lambda *x, out, f=case.function: f(*x, out=out, threads=1)}
        for batch in case.batches(256):
            t = case.times(one, batch, time.thread_time_ns)["1"]
            rows.append([load.slots / load.width, load.moved])
            times.append(t)
        two = one | {"2": lambda *x, out, f=case.function: f(*x, out=out, threads=2)}
        batch = max(case.batches(256))
        t = case.times(two, batch, time.perf_counter_ns, PAUSE)
        extra.append(batch * 1e-3 * (2 * t["2"] - t["1"]))
    A, t = np.array(rows), np.array(times)
    found, *_ = np.linalg.lstsq(A / t[:, None], np.ones(len(t)), rcond=None)
    ratio = A @ found / t
    print(f"SLOT {found[0]:.3f} ns, BYTE {found[1]:.4f} ns: {len(t)} cells, predicted / measured")
    print("5 %, 50 %, 95 %:", *(f"{x:.2f}" for x in np.quantile(ratio, (0.05, 0.5, 0.95))))
    quick = np.quantile(extra, 0.05)
    print(f"LATE here, 5 % and median: {quick:.0f}, {median(extra):.0f} us (taken: ", end="")
    print(f"{LATE * 1e6:.0f} us); on busy cores it is the scheduler's time")


def main() -> None:
    arguments = parser(__doc__, robots=DEFAULT, csv=None)
    arguments.add_argument("--what", nargs="+", choices=WHATS, default=WHATS)
    arguments.add_argument("--calibrate", action="store_true")
    args = arguments.parse_args()

    def cases() -> Iterator[Case]:
        for robot in chosen(args.robots):
            model = robot.model()
            for name in FUNCTIONS:
                for dtype in map(np.dtype, DTYPES):
                    say(f"{robot.title}: {SHORT[name]} {dtype}")
                    case = Case(robot.name, model, model.function(name), dtype)
                    if case.function.kernel(dtype) is not None:  # else recorded steps, see links.md
                        yield case

    if args.calibrate:
        calibrate(cases())
        return
    found = [cell for case in cases() for cell in cells(case, args.what)]
    print("\n".join(machine_lines()), "", summary(found), "", misses(found), sep="\n")
    if args.csv:
        with args.csv.open("w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow([*Cell._fields[:-1], "ns_per_state", "loss"])
            for c in found:
                rows.writerow([*c[:-1], _times(c), f"{c.loss:.3f}"])


if __name__ == "__main__":
    sys.exit(main())
