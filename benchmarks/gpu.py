"""How fast is a GPU, for which batch, and beside whom? Results are checked before all timing.

In this order, until `--minutes` are over: bits of all functions against the CPU; questions on which
the design rests (`gpu_questions.py`); rates of batches whose arrays stay on the GPU, beside what
its memory and its arithmetic allow; latency of small batches, plain and as a CUDA graph; NumPy
arrays that go over and come back; peers on the same GPU (`suite/peers/on_gpu.py`); the CPU of the
same machine; the partitions of a gradient between CPU and GPU (`gpu_partitions.py`); and links by
groups of states. Without a GPU the emulator takes its place: all of it runs on few states and is
checked, and times mean nothing.
"""

from __future__ import annotations

import csv
import math
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import gpu_partitions
import gpu_questions
import numpy as np
from gpu_card import Card, DeviceArray, card
from options import parser, write_json
from robots import Robot, States, as_tuple, chosen, machine_lines, say, table
from suite.peers.base import Case, Unsupported
from suite.peers.on_gpu import GPU_PEERS
from suite.peers.with_jax import PLATFORM

import featherlane as fl
from featherlane.api.model import Model
from featherlane.backends.cuda.calls import Rows
from featherlane.functions.long.on_gpu import LongOnGPU
from featherlane.functions.table import Variant

ROBOTS = ("iiwa14", "hyq:free", "go2:free", "atlas:free", "g1:free")
NAMES = (
    "inverse_dynamics",
    "forward_dynamics",
    "mass_matrix",
    "mass_matrix_inverse",
    "inverse_dynamics_derivatives",
    "forward_dynamics_derivatives",
)
BATCHES = (1, 16, 256, 4096, 65_536, 1_048_576)
LATENCY = (1, 16, 64, 256)
MOST_BYTES = 16 << 30  # of the arrays of a cell
STEPS = 32  # of rollouts
SEVERAL = 8  # calls of a CUDA graph whose time is taken
ROUNDS = 5
FLOAT32 = 1e-2  # relative, of results of peers: beyond it they compute something else
Row = dict[str, Any]


class Bench:
    """What all parts share."""

    def __init__(self, gpu: Card, robots: list[tuple[Robot, Model]], args: Any) -> None:
        self.gpu, self.robots, self.args = gpu, robots, args
        self.names = args.functions or NAMES
        self.begin(1.0)
        self.batches = [b for b in BATCHES if not gpu.emulated or b < 64]

    def begin(self, share: float) -> None:
        """Begins a part, which may take a share of all minutes."""
        self.deadline = time.monotonic() + 60 * self.args.minutes * share

    @property
    def over(self) -> bool:
        """Whether the time of the part is over; the rest is left out."""
        if time.monotonic() <= self.deadline:
            return False
        say("  time is over, the rest of this part is left out")
        return True

    def cells(self, batches: Any) -> Iterator[tuple[Robot, Model, str, str, int]]:
        """Robots, functions, dtypes and batches, the batch last in turn, until time is over."""
        for batch in batches:
            for robot, model in self.robots:
                for name in self.names:
                    for dtype in ("float32", "float64"):
                        if self.over:
                            return
                        if _bytes(model, name, dtype) * batch < MOST_BYTES:
                            yield robot, model, name, dtype, batch

    def prepared(self, model: Model, name: str, dtype: str, batch: int) -> Prepared:
        return Prepared(self.gpu, model, name, dtype, batch)

    def median(self, work: Callable[[], object], least: float = 0.02) -> float:
        """Seconds of `work` on the GPU."""
        once = self.gpu.seconds(work, 1)
        times = max(min(math.ceil(least / ROUNDS / max(once, 1e-7)), 1000), 1)
        return float(np.median([self.gpu.seconds(work, times) for _ in range(ROUNDS)]))


def _bytes(model: Model, name: str, dtype: str) -> int:
    """What a state moves in and out."""
    return model.function(name).numbers * np.dtype(dtype).itemsize


class Prepared:
    """A function of a robot on arrays that stay on the GPU."""

    def __init__(self, gpu: Card, model: Model, name: str, dtype: str, batch: int) -> None:
        few = States.random(model, min(batch, 4096)).inputs(model, name, dtype)
        repeats = -(-batch // len(few[0]))
        self.host = [np.tile(x, (repeats, 1))[:batch] for x in few]
        self.function = model.function(name)
        self.given = [DeviceArray(gpu, x) for x in self.host]
        shapes = ((batch, *core) for core in self.function.outputs.values())
        self.out = [DeviceArray(gpu, np.zeros(shape, dtype)) for shape in shapes]
        self.results = self.out if len(self.out) > 1 else self.out[0]

    def run(self) -> None:
        self.function(*self.given, out=self.results)

    def __enter__(self) -> Prepared:
        return self

    def __exit__(self, *_: object) -> None:
        for x in (*self.given, *self.out):
            x.free()


def check(bench: Bench) -> Iterator[Row]:
    """Results of the GPU have the bits of the CPU's."""
    for robot, model, name, dtype, batch in bench.cells((1, 33)):
        with bench.prepared(model, name, dtype, batch) as cell:
            cell.run()
            found = [x.numpy() for x in cell.out]
            wanted = as_tuple(cell.function(*cell.host))
        same = all(np.array_equal(x, y) for x, y in zip(found, wanted, strict=True))
        yield row(robot, name, dtype, batch, value="the same" if same else "DIFFERENT")
    for robot, model in bench.robots[:1]:
        yield _check_rollout(bench, robot, model)


def _check_rollout(bench: Bench, robot: Robot, model: Model) -> Row:
    states, rng = States.random(model, 33), np.random.default_rng(0)
    given = [states.q, states.v, rng.normal(size=(33, STEPS // 8, model.nv)), np.full(33, 1e-3)]
    function = model._function(Variant("rollout", integrator="rk4", steps=STEPS // 8))
    out = [DeviceArray(bench.gpu, np.zeros((33, *core))) for core in function.outputs.values()]
    arrays = [DeviceArray(bench.gpu, x) for x in given]
    function(*arrays, out=out)
    pairs = zip(out, function(*given), strict=True)
    same = all(np.array_equal(x.numpy(), y) for x, y in pairs)
    for x in (*arrays, *out):
        x.free()
    return row(robot, "rollout", "float64", 33, value="the same" if same else "DIFFERENT")


def rates(bench: Bench) -> Iterator[Row]:
    """States a second, and the share of what memory and arithmetic allow. Calls are replayed as a
    CUDA graph, or Python would be what is timed.
    """
    bandwidth = gpu_questions.bandwidth(bench.gpu)
    arithmetic = gpu_questions.arithmetic(bench.gpu)
    for robot, model, name, dtype, batch in bench.cells(bench.batches):
        with bench.prepared(model, name, dtype, batch) as cell:
            cell.run()
            several = 1 if bench.gpu.emulated else SEVERAL
            with bench.gpu.graph(partial(_repeat, cell.run, several)) as replay:
                seconds = bench.median(replay) / several
        operations = model.graph(name).cost().operations * (2 if dtype == "float64" else 1)
        moved = _bytes(model, name, dtype) * batch / seconds / bandwidth
        yield row(
            robot,
            name,
            dtype,
            batch,
            seconds=seconds,
            states_per_second=batch / seconds,
            share_of_memory=moved,
            share_of_arithmetic=operations * batch / seconds / arithmetic,
        )


def _repeat(work: Callable[[], object], times: int) -> None:
    for _ in range(times):
        work()


def latency(bench: Bench) -> Iterator[Row]:
    """Microseconds of a call with few states, plain and replayed as a CUDA graph."""
    for robot, model, name, dtype, batch in bench.cells(LATENCY):
        if dtype == "float64" or (bench.gpu.emulated and batch > 1):
            continue
        with bench.prepared(model, name, dtype, batch) as cell:
            cell.run()
            plain = bench.median(cell.run)
            with bench.gpu.graph(cell.run) as replay:
                replayed = bench.median(replay)
        yield row(robot, name, dtype, batch, seconds=replayed, plain_seconds=plain)


def copies(bench: Bench) -> Iterator[Row]:
    """NumPy arrays over and back."""
    for robot, model, name, dtype, batch in bench.cells(bench.batches[1:]):
        if dtype == "float64":
            continue
        few = States.random(model, min(batch, 4096)).inputs(model, name, dtype)
        given = [np.tile(x, (-(-batch // len(few[0])), 1))[:batch] for x in few]
        function = model.function(name, device="cuda")
        out = as_tuple(function(*given))
        results = out if len(out) > 1 else out[0]
        yield row(
            robot,
            name,
            dtype,
            batch,
            seconds=_by_the_clock(lambda f=function, x=given, y=results: f(*x, out=y)),
        )


def peers(bench: Bench) -> Iterator[Row]:
    """Other packages on this GPU, checked against ours on the CPU."""
    os.environ[PLATFORM] = "cuda"
    for peer in GPU_PEERS:
        if (why := peer.missing()) is not None or bench.gpu.emulated:
            say(f"{peer.name}: left out, {why or 'there is no GPU'}")
            continue
        for robot, model, name, dtype, batch in bench.cells((256, 65_536)):
            if dtype not in peer.precisions:
                continue
            yield row(
                robot,
                name,
                dtype,
                batch,
                who=peer.name,
                **_peer(peer, robot, model, name, dtype, batch),
            )


def _peer(peer: Any, robot: Robot, model: Model, name: str, dtype: str, batch: int) -> Row:
    states = States.random(model, batch)
    case = Case(model, str(robot.urdf), name, dtype, *states)
    try:
        prepared = peer.prepare(case)
        if isinstance(prepared, Unsupported):
            return {"value": prepared.why}
        prepared.run()
        few = np.arange(min(batch, 64))
        wanted = as_tuple(model.function(name)(*[x[few] for x in case.given()]))
        pairs = zip(prepared.answers(few), wanted, strict=False)
        error = max(float(np.abs(x - y).max() / np.abs(y).max()) for x, y in pairs)
        if not error < FLOAT32:
            return {"value": f"another result: {error:.0e}"}
        seconds = _by_the_clock(lambda: prepared.run(10)) / 10
        prepared.close()
        return {"seconds": seconds, "states_per_second": batch / seconds, "value": f"{error:.0e}"}
    except Exception as error:
        return {"value": f"failed: {type(error).__name__}: {error}"[:200]}


def cpu(bench: Bench) -> Iterator[Row]:
    """The CPU of this machine, all cores."""
    for robot, model, name, dtype, batch in bench.cells(bench.batches[2:5] or (16,)):
        few = States.random(model, min(batch, 4096)).inputs(model, name, dtype)
        given = [np.tile(x, (-(-batch // len(few[0])), 1))[:batch] for x in few]
        function = model.function(name)
        out = as_tuple(function(*given))
        results = out if len(out) > 1 else out[0]
        seconds = _by_the_clock(lambda f=function, x=given, y=results: f(*x, out=y))
        yield row(
            robot, name, dtype, batch, seconds=seconds, states_per_second=batch / seconds, who="CPU"
        )


def _by_the_clock(work: Callable[[], object], least: float = 0.05) -> float:
    """Seconds of what waits for its own end."""
    work()
    found = list[float]()
    while len(found) < 3 or (sum(found) < least and len(found) < 1000):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return float(np.median(found))


def questions(bench: Bench) -> Iterator[Row]:
    models = [model for _, model in bench.robots]
    yield from gpu_questions.answers(bench.gpu, models, bench.median)


def partitions(bench: Bench) -> Iterator[Row]:
    robot, model = bench.robots[0]
    for found in gpu_partitions.measured(model, bench.gpu.emulated):
        yield row(robot, "forward_dynamics_derivatives", "float32", **found)


def row(robot: Robot, name: str, dtype: str, batch: int, **figures: Any) -> Row:
    """A line of the results."""
    return {"robot": robot.title, "function": name, "dtype": dtype, "batch": batch, **figures}


def links(bench: Bench) -> Iterator[Row]:
    """Links by groups of states, as in Yang, Wu and Pan (2016), by method."""
    lengths, groups = ((16, 64, 256, 1024), (1, 16, 256, 4096))
    if bench.gpu.emulated:
        lengths, groups = (16,), (1,)
    for count, batch in product(lengths, groups):
        model = fl.chain(count, seed=1)
        for name, methods in METHODS.items():
            for method in methods:
                if bench.over:
                    return
                mapping = f"links:{min(max(batch // 128, 1), 32)}"
                function = LongOnGPU(
                    f"benchmark {name} {method} {count}",
                    model,
                    Variant(name, method=method),
                    mapping,
                ).function(name, np.dtype(np.float32))
                states = States.random(model, batch).inputs(model, name, "float32")
                arrays = [DeviceArray(bench.gpu, x) for x in (*states, np.zeros_like(states[0]))]
                rows = [Rows(x.address, 4 * count) for x in arrays]
                run = partial(function.call, 0, bench.gpu.stream, rows, batch)
                run()
                seconds = bench.median(run)
                for x in arrays:
                    x.free()
                yield {
                    "robot": f"chain of {count}",
                    "function": f"{name}, {method}",
                    "dtype": "float32",
                    "batch": batch,
                    "seconds": seconds,
                    "states_per_second": batch / seconds,
                }


METHODS = {
    "inverse_dynamics": ("serial", "scan"),
    "forward_dynamics": ("aba", "abia", "cfa", "dca"),
}
# Each part and its share of the minutes
PARTS: dict[str, tuple[Callable[[Bench], Iterator[Row]], float]] = {
    "check": (check, 0.15),
    "questions": (questions, 0.15),
    "rates": (rates, 0.25),
    "latency": (latency, 0.05),
    "copies": (copies, 0.05),
    "peers": (peers, 0.2),
    "cpu": (cpu, 0.05),
    "partitions": (partitions, 0.05),
    "links": (links, 0.05),
}


def main() -> None:
    options = parser(__doc__, robots=ROBOTS, functions=NAMES, minutes=8.0, csv=None, json=None)
    options.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    args = options.parse_args()
    gpu = card()
    say(gpu.name)
    robots = [(robot, fl.load(str(robot.urdf), root=robot.root)) for robot in chosen(args.robots)]
    bench, found = Bench(gpu, robots, args), list[Row]()
    for part in args.parts:
        print(f"\n{part}")
        run, share = PARTS[part]
        bench.begin(share)
        for figures in run(bench):
            found.append({"part": part, **figures})
            say("  ".join(_text(x) for x in figures.values()))
            if args.csv:
                _write_csv(args.csv, found)
        own = [each for each in found if each["part"] == part]
        columns = list(dict.fromkeys(key for each in own for key in each if key != "part"))
        print(table(columns, [[_text(each.get(c, "")) for c in columns] for each in own]))
    print("\n" + "\n".join([gpu.name, *machine_lines()]))
    write_json(args.json, found, gpu=gpu.name)
    if any(each.get("value") == "DIFFERENT" for each in found):
        raise SystemExit("results differ from the CPU's")


def _write_csv(path: Path, found: list[Row]) -> None:
    """All rows so far: what was measured is kept if the run is cut off."""
    columns = list(dict.fromkeys(key for each in found for key in each))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(found)


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
