"""How fast are functions of more states than memory holds: from disk to disk, and reduced?

Stores are written into --folder, used, and removed, one after the other. A run is the command
`featherlane map`, a process of its own: its time ends when its results are on the disk (fsync), and
its input has been dropped from the page cache before. It is compared with the same function of one
chunk in memory, on as many threads, before and after it; and with the time in which the disk reads
and writes files of the same sizes past the page cache (O_DIRECT). Norms are computed by Dask in
this package's kernel (blocks never leave it) and by Dask's own norm of blocks. Runs with 1, 2 and 4
workers read from the page cache and are compared with calls in memory on 1, 2 and 2 threads.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from options import loaded, parser, write_json
from robots import States, machine_lines, say, table

import featherlane as fl
from featherlane.backends.cores import physical_cores
from featherlane.interop.wrapped import required

BLOCK = 8 << 20  # bytes of one read or write past the page cache
MOST_WRITTEN = 8 << 30  # bytes that are written to measure the disk
SECONDS = 2.0  # of calls in memory
CORES = physical_cores()


class Case(NamedTuple):
    robot: str
    function: str
    dtype: str
    states: int
    chunk: int

    @property
    def model(self) -> fl.Model:
        return loaded(self.robot)

    @property
    def title(self) -> str:
        return f"{self.function} of {self.robot}, {self.dtype}"


DFD = "forward_dynamics_derivatives"
ID = Case("iiwa14", "inverse_dynamics", "float64", 100_000_000, 100_000)
BLOCKS = Case("atlas:free", DFD, "float32", 1_000_000, 2_000)
NORMS = Case("atlas:free", DFD, "float32", 10_000_000, 4_000)
WAYS = {"kernel": (1, 20_000), "blocks": (10, 4_000)}  # a part of the states, and those of a chunk
MANY = ID._replace(states=10_000_000)
WORKERS = [(place, n) for place in ("threads", "processes") for n in (1, 2, 4)]


def main() -> None:
    words = parser(__doc__, json=None)
    words.add_argument("--folder", type=Path, default=Path("scale"), help="for stores: 45 GB")
    words.add_argument("--size", type=float, default=1.0, help="0.01: a hundredth of the states")
    words.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    words.add_argument("--norms-of", nargs=3, help="what this script calls itself with")
    args = words.parse_args()
    if args.norms_of:
        print(json.dumps(_norms_of(*args.norms_of)))
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for part in args.parts:
        for row in PARTS[part](args.folder, args.size):
            say(json.dumps(row))
            rows.append({"part": part, **row})
        print(_shown([row for row in rows if row["part"] == part]), end="\n\n", flush=True)
    print("\n".join(machine_lines()))
    write_json(args.json, rows, size=args.size)


def _shown(rows: list[dict[str, Any]]) -> str:
    names = [name for name in rows[0] if name != "part"]
    show = lambda x: f"{x:,}" if isinstance(x, int) else f"{x:.3g}" if isinstance(x, float) else x
    return table(names, [[show(row[name]) for name in names] for row in rows])


# What is measured


def disk_to_disk(case: Case) -> Callable[[Path, float], Iterator[dict[str, Any]]]:
    def measure(folder: Path, size: float) -> Iterator[dict[str, Any]]:
        states = int(case.states * size)
        with _store(case, folder, states) as source:
            target = folder / "out.zarr"
            read = _bandwidth(_files(source), _read)
            _drop(source)
            before, load = _in_memory(case, CORES), os.getloadavg()[0]
            start = time.monotonic()
            report, used = _mapped(case, source, target, "--workers", str(CORES))
            computed = time.monotonic() - start
            _flush(target)
            seconds = time.monotonic() - start
            after = _in_memory(case, CORES)
            sizes = [file.stat().st_size for file in _files(target)]
            shutil.rmtree(target)
            written = _bandwidth(_some(sizes), lambda n: _write(folder, n))
        bound = _bytes(source, case, states) / read + sum(sizes) / written
        yield {
            "case": case.title, "states": states, "GB": report["moved"] / 1e9,
            "s": seconds, "s without fsync": computed,
            **_shares(states, seconds, used, before, after),
            "disk reads GB/s": read / 1e9, "writes GB/s": written / 1e9,
            "share of the disk": bound / seconds, "peak MB": used.peak / 1e6,
            "chunk": report["chunk"], "load": load,
        }  # fmt: skip

    return measure


def norms(folder: Path, size: float) -> Iterator[dict[str, Any]]:
    with _store(NORMS, folder, int(NORMS.states * size)) as source:
        for way, (part, _) in WAYS.items():
            _drop(source)
            states = int(NORMS.states * size) // part
            before, load = _in_memory(NORMS, CORES), os.getloadavg()[0]
            words = [sys.executable, __file__, "--norms-of", str(source), way, str(states)]
            answer, used = _process(words)
            used = used._replace(own=answer["CPU s"], system=answer["system s"])
            shares = _shares(states, answer["s"], used, before, _in_memory(NORMS, CORES))
            yield {
                "case": f"norms of {NORMS.title}", "by": way, "states": states, **answer, **shares,
                "GB of blocks": states * 3 * NORMS.model.nv**2 * 4 / 1e9,
                "peak MB": used.peak / 1e6, "load": load,
            }  # fmt: skip


def _norms_of(source: str, way: str, states: str) -> dict[str, float]:
    """The largest norm of each block over the first states of a store."""
    dask, da = required("dask", "dask"), required("dask.array", "dask")
    from featherlane.interop.dask import apply, wrap

    model, rows = NORMS.model, WAYS[way][1]
    group = required("zarr", "dask").open_group(source, mode="r")
    arrays = (da.from_array(group[x], chunks=(rows, -1)) for x in ("q", "v", "tau"))
    q, v, tau = (x[: int(states)] for x in arrays)
    if way == "kernel":

        def norms(q: Any, v: Any, tau: Any) -> dict[str, Any]:
            blocks = fl.call(model, DFD, q, v, tau)
            return {f"norm_{name}": fl.sqrt((x * x).sum()) for name, x in blocks._asdict().items()}

        function = fl.compile(norms, {"q": (model.nq,), "v": (model.nv,), "tau": (model.nv,)})
        function.prepare(NORMS.dtype)
        each = apply(function, q, v, tau)
    else:
        model.compile([DFD], dtype=NORMS.dtype)
        blocks = wrap(model).forward_dynamics_derivatives(q, v, tau)
        each = [da.linalg.norm(x, axis=(1, 2)) for x in blocks]
    start, begun = time.monotonic(), os.times()
    with dask.config.set(scheduler="threads", num_workers=CORES):
        largest = float(max(dask.compute(*[x.max() for x in each])))
    used = [after - before for after, before in zip(os.times()[:2], begun[:2], strict=True)]
    seconds = time.monotonic() - start
    return {"s": seconds, "CPU s": used[0], "system s": used[1], "largest": largest}


def workers(folder: Path, size: float) -> Iterator[dict[str, Any]]:
    states = int(MANY.states * size)
    with _store(MANY, folder, states) as source, _store(MANY, folder, MANY.chunk, "one") as one:
        for place, count in WORKERS:
            words = "--scheduler", place, "--workers", str(count)
            begins, used_by_one = _mapped(MANY, one, folder / "out.zarr", *words)
            shutil.rmtree(folder / "out.zarr")
            before = _in_memory(MANY, min(count, CORES))
            report, used = _mapped(MANY, source, folder / "out.zarr", *words)
            shutil.rmtree(folder / "out.zarr")
            after = _in_memory(MANY, min(count, CORES))
            used = used._replace(
                own=used.own - used_by_one.own, system=used.system - used_by_one.system
            )
            seconds = report["seconds"] - begins["seconds"]
            yield {
                "case": MANY.title, "workers": f"{count} {place}", "states": states,
                "s": report["seconds"], "of which one chunk": begins["seconds"],
                **_shares(states - MANY.chunk, seconds, used, before, after),
                "load": os.getloadavg()[0],
            }  # fmt: skip


PARTS = {
    "workers": workers,
    "id": disk_to_disk(ID),
    "dfd": disk_to_disk(BLOCKS),
    "norms": norms,
}


class Speed(NamedTuple):
    """rate: states a second by the clock; cost: processor seconds of a state."""

    rate: float
    cost: float


class Used(NamedTuple):
    """What a process has used: its own processor seconds, those of the system for it (files and
    memory), and bytes of memory at its peak.
    """

    own: float
    system: float
    peak: int


def _shares(states: int, seconds: float, used: Used, *memory: Speed) -> dict[str, float]:
    """A run beside calls in memory before and behind it, by the clock and by processor time, which
    other programs on the machine change less.
    """
    rate, cost = (sum(x) / len(memory) for x in zip(*memory, strict=True))
    return {
        "states/s": states / seconds,
        "in memory": rate,
        "share": states / seconds / rate,
        "CPU ns": 1e9 * used.own / states,
        "the system's": 1e9 * used.system / states,
        "in memory CPU ns": 1e9 * cost,
    }


def _in_memory(case: Case, threads: int) -> Speed:
    """One chunk in memory again and again: the median of all calls, and their processor time."""
    model = case.model
    function = model.function(case.function)
    given = States.random(model, case.chunk).inputs(model, case.function, case.dtype)
    out = tuple(np.empty((case.chunk, *core), case.dtype) for core in function.outputs.values())
    run = lambda: function(*given, out=out if len(out) > 1 else out[0], threads=threads)
    run()
    times, begun, end = list[float](), time.process_time(), time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    used = time.process_time() - begun
    return Speed(case.chunk / median(times), used / (len(times) * case.chunk))


def _mapped(case: Case, source: Path, target: Path, *words: str) -> tuple[dict[str, Any], Used]:
    """Runs `featherlane map`, and returns what it tells and what it has used."""
    robot, _, root = case.robot.partition(":")
    head = [sys.executable, "-m", "featherlane", "map", robot, case.function]
    names = [str(source), str(target), "--root", root or "fixed", "--chunk", str(case.chunk)]
    return _process([*head, *names, "--json", *words])


def _process(words: list[str]) -> tuple[dict[str, Any], Used]:
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        answer = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(words)} has failed")
    return json.loads(answer), Used(usage.ru_utime, usage.ru_stime, usage.ru_maxrss * 1024)


# Stores and files


@contextlib.contextmanager
def _store(case: Case, folder: Path, states: int, name: str = "in") -> Iterator[Path]:
    """A group of random states, of which every chunk is another one, removed behind."""
    path, model = folder / f"{name}.zarr", case.model
    shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(folder / "out.zarr", ignore_errors=True)
    group = required("zarr", "dask").create_group(path)
    inputs = model.function(case.function).inputs
    arrays = {
        x: group.create_array(
            x, shape=(states, *core), chunks=(case.chunk, *core), dtype=case.dtype, compressors=None
        )
        for x, core in inputs.items()
    }
    rng, q = np.random.default_rng(0), model.random_configuration(case.chunk, seed=0)
    for first in range(0, states, case.chunk):
        count = min(case.chunk, states - first)
        for x, array in arrays.items():
            turned = np.roll(q, first // case.chunk, axis=0) if x == "q" else None
            rows = rng.random((count, *inputs[x]), case.dtype) - 0.5 if turned is None else turned
            array[first : first + count] = rows[:count]
    _flush(path)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _files(store: Path) -> list[Path]:
    return [file for file in store.rglob("*") if file.is_file()]


def _bytes(source: Path, case: Case, states: int) -> int:
    inputs = case.model.function(case.function).inputs.values()
    return states * sum(map(np.prod, inputs)) * np.dtype(case.dtype).itemsize


def _flush(store: Path) -> None:
    """Waits until all files are on the disk."""
    for file in _files(store):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())


def _drop(store: Path) -> None:
    """Takes files out of the page cache."""
    for file in _files(store):
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _some(sizes: Iterable[int]) -> Iterator[int]:
    total = 0
    for size in sizes:
        total += size
        if total > MOST_WRITTEN:
            return
        yield size


def _bandwidth(items: Iterable[Any], move: Callable[[Any], int]) -> float:
    """Bytes a second, on as many threads as there are cores."""
    start = time.monotonic()
    with ThreadPoolExecutor(CORES) as threads:
        return sum(threads.map(move, items)) / (time.monotonic() - start)


def _read(file: Path) -> int:
    """Reads a file past the page cache, and returns its size."""
    descriptor, buffer, total = os.open(file, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, BLOCK), 0
    try:
        while count := os.readv(descriptor, [buffer]):
            total += count
            if count < BLOCK:
                break
        return total
    finally:
        os.close(descriptor)


def _write(folder: Path, size: int) -> int:
    """Writes a file of a size past the page cache, in whole pages, and removes it."""
    file = folder / f"{os.urandom(8).hex()}.disk"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT
    descriptor, buffer = os.open(file, flags, 0o600), mmap.mmap(-1, BLOCK)
    try:
        for first in range(0, size, BLOCK):
            count = -(-min(BLOCK, size - first) // mmap.PAGESIZE) * mmap.PAGESIZE
            os.writev(descriptor, [memoryview(buffer)[:count]])
        os.fsync(descriptor)
        return size
    finally:
        os.close(descriptor)
        file.unlink()


if __name__ == "__main__":
    main()
