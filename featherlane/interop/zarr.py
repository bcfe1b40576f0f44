"""Zarr: `map_store` computes a function for all states of a store, chunk by chunk, into another.

A run that was killed goes on with the chunks that it has not finished. A chunk of a result is a file
that is written under another name and then renamed, so that a chunk is finished if all of its files
are there. Attributes of the store of results say from what they are computed (docs/scale.md).
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import featherlane
from featherlane.api.model import Model
from featherlane.api.names import variant_named
from featherlane.backends.cores import physical_cores
from featherlane.backends.package_text import package_hash
from featherlane.functions.arguments import alike, counted, lead_of
from featherlane.functions.function import Function
from featherlane.interop.packed import PackedFunction, prepared
from featherlane.interop.wrapped import required
from featherlane.program.lower import checked_dtype
from featherlane.robot.parameters import PARAMETERS

zarr = required("zarr", "dask")
ATTRIBUTE = "featherlane map"  # of a store of results: what they are computed from
LARGEST = 64 << 20  # bytes of the inputs and results of a chunk, if its size is not chosen
AHEAD = 2  # chunks for each thread of a worker that are handed out: one to compute, one to come
PARTIAL = "*.partial"  # files that a killed writer leaves behind
Progress = Callable[[str], None]


class Job(NamedTuple):
    """What a worker knows of a run."""

    function: PackedFunction
    source: str
    target: str
    inputs: tuple[tuple[str, bool], ...]  # names, and whether an array has a row for each state
    dtype: str
    chunk: int
    identity: str  # stores are opened once in each process, for this run


class Report(NamedTuple):
    """What a run did. kept: states whose results were there already; moved: bytes read and written
    in this run; left: arrays of the store that the function does not read.
    """

    robot: str
    function: str
    dtype: str
    inputs: list[str]
    outputs: list[str]
    left: list[str]
    states: int
    kept: int
    chunk: int
    moved: int
    seconds: float

    def __str__(self) -> str:
        computed = self.states - self.kept
        rate = f"{computed / self.seconds:,.0f} states/s, {self.moved / self.seconds / 1e6:,.0f} MB/s"
        lines = [
            f"{self.function} of {self.robot}, {self.dtype}: {', '.join(self.inputs)} -> "
            f"{', '.join(self.outputs)}",
            f"{computed:,} states in {self.seconds:.3g} s ({rate}), in chunks of {self.chunk:,}",
        ]
        if self.kept:
            lines.append(f"{self.kept:,} states were finished before")
        if self.left:
            lines.append(f"not read: {', '.join(self.left)}")
        return "\n".join(lines)


def map_store(
    model: Model,
    function: str,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    dtype: Any = None,
    chunk: int | None = None,
    workers: int | None = None,
    scheduler: Any = "threads",
    f_ext_frame: str = "body",
    progress: Progress = lambda step: None,
) -> Report:
    """Computes a function for all states of a Zarr group in a folder, into a new group.

    function: a name as in `Model.compile` ("forward_dynamics_derivatives", "step:rk4",
    "rollout:32"). source: a group with an array (B, ...) for each input of the function, by its
    name; one without the B is the same for all states. f_ext and parameters (`Model.parameters`)
    are read if they are there and the function takes them. target: gets an array (B, ...) for each
    output, uncompressed; one that an interrupted run has left is finished. dtype: float32 or float64,
    by default that of the arrays. chunk: states of a chunk, by default those of a chunk of the
    source if that is not too large. workers: threads or processes, by default all physical cores.
    scheduler: "threads", "processes", the address of a Dask scheduler, or a `distributed.Client`.
    progress: is told how far the run is.

    Raises ValueError or TypeError that names the array or argument, for numbers that are not
    finite too, and RuntimeError if a store cannot be read or written.
    """
    start = time.monotonic()
    path, results = Path(source).expanduser().resolve(), Path(target).expanduser().resolve()
    if path == results:
        raise ValueError(f"the results would overwrite their inputs: {path}")
    arrays = _arrays_of(path)
    made = _function(model, function, arrays, f_ext_frame)
    used = _inputs(made, arrays, path)
    kind = _dtype(used, dtype, path)
    states = _states(made, used, path)
    rows = _chunk(made, used, kind, states, chunk)
    inputs = tuple((name, x.ndim > len(made.inputs[name])) for name, x in used.items())
    facts = _facts(model, function, made, f_ext_frame, kind, rows, used, path)
    job = Job(
        PackedFunction.of(made), str(path), str(results), inputs, str(kind), rows, os.urandom(8).hex()
    )
    with _os_errors():
        _begin(results, made, states, rows, kind, facts)
        todo = [*_unfinished(results, made, states, rows)]
        computed = sum(min(rows, states - first) for first in todo)
        what = f"{function} of {model.name}"
        if todo:
            single = any(min(rows, states - first) == 1 for first in todo)
            with _executor(scheduler, workers) as (executor, at_once):
                progress(f"compiling {what}")
                executor.submit(prepared, job.function, str(kind), single).result()
                for done in _computed(executor, at_once, job, todo, states):
                    progress(_told(what, states, states - computed, done, time.monotonic() - start))
    numbers = made.numbers * computed
    return Report(
        model.name, function, str(kind), [*used], [*made.outputs], sorted({*arrays} - {*used}), states,
        states - computed, rows, numbers * kind.itemsize, time.monotonic() - start,
    )  # fmt: skip


# What a run reads: the arrays, their sizes and their dtype


def _arrays_of(path: Path) -> dict[str, Any]:
    """The arrays of a group, by name."""
    try:
        group = zarr.open_group(path, mode="r")
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{path}: wanted a folder with a Zarr group, there is none") from None
    except zarr.errors.ContainsArrayError:
        raise ValueError(f"{path} is a Zarr array: wanted a group with an array for each input") from None
    return dict(sorted(group.arrays()))


def _function(model: Model, text: str, arrays: Iterable[str], axes: str) -> Function:
    """The function, with f_ext and the parameters that are among the arrays."""
    variant = variant_named(model, text)
    known = {*arrays}
    plain = model._function(variant)
    if "f_ext" in known and "f_ext" in _takes(variant.name):
        variant = variant._replace(wrenches=axes)
    parameters = tuple(x for x in PARAMETERS if x in known and x not in plain.inputs)
    return model._function(variant._replace(parameters=parameters))


def _takes(name: str) -> tuple[str, ...]:
    from featherlane.functions.table import CALLED

    return CALLED[name].takes


def _inputs(function: Function, arrays: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The arrays that the function reads, in its order."""
    missing = [name for name in function.inputs if name not in arrays]
    if missing:
        names = ", ".join(function.inputs)
        has = ", ".join(arrays) or "none"
        raise ValueError(
            f"{path} has no array {missing[0]!r}: {function.name} reads {names}; it has {has}"
        )
    return {name: arrays[name] for name in function.inputs}


def _dtype(arrays: Mapping[str, Any], asked: Any, path: Path) -> np.dtype:
    """The dtype to compute in: the one asked for, or that of the arrays."""
    empty = {name: np.empty(0, x.dtype) for name, x in arrays.items()}
    if asked is not None:
        for name, x in empty.items():  # refuses what is no real number
            alike({name: x})
        return checked_dtype(asked)
    try:
        return alike(empty)[0]
    except TypeError as error:
        raise TypeError(f"{path}: {error}; or choose one with dtype=") from None


def _states(function: Function, arrays: Mapping[str, Any], path: Path) -> int:
    """The number of states. Raises ValueError for arrays of wrong shapes."""
    lead_of(arrays.values(), function.inputs, function.explain, most=1)
    lengths = {
        name: x.shape[0] for name, x in arrays.items() if x.ndim > len(function.inputs[name])
    }
    if len({*lengths.values()}) > 1:
        told = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise ValueError(f"the arrays of {path} have different lengths: {told}; wanted one for all")
    states = max(lengths.values(), default=0)
    if not states:
        raise ValueError(f"{path} has no states: wanted arrays of shape (B, ...) with B > 0")
    return states


def _chunk(
    function: Function, arrays: Mapping[str, Any], dtype: np.dtype, states: int, asked: int | None
) -> int:
    """The states of a chunk: those of a chunk of the inputs, or a part of it if that is large."""
    if asked is not None:
        return min(counted("chunk", asked), states)
    rows = max(
        (x.chunks[0] for name, x in arrays.items() if x.ndim > len(function.inputs[name])), default=1
    )
    most = max(LARGEST // (function.numbers * dtype.itemsize), 1)
    return min(math.ceil(rows / math.ceil(rows / most)), states)


# What the results are computed from


def _facts(
    model: Model, text: str, function: Function, axes: str, dtype: np.dtype, chunk: int,
    arrays: Mapping[str, Any], path: Path,
) -> dict[str, Any]:  # fmt: skip
    """All that the results depend on, with names that an error can show."""
    return {
        "version": f"{featherlane.__version__} {package_hash()[:16]}",
        "robot": f"{model.name} {model.fingerprint[:16]}",
        "function": f"{text}({', '.join(function.inputs)})" + f" in {axes} axes" * ("f_ext" in arrays),
        "places": _digest(repr([(f.name, *model.frame(f.name)[1:]) for f in model.frames])),
        "dtype": str(dtype),
        "chunk": chunk,
        **{f"input {name}": _identity(path / name) for name in arrays},
    }


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _identity(folder: Path) -> str:
    """The files of an array: their names, sizes and the times when they were last written."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            status = os.stat(os.path.join(place, name))
            found.append((os.path.relpath(os.path.join(place, name), folder), status.st_size, status.st_mtime_ns))
    return _digest(repr(sorted(found)))


def _begin(
    target: Path, function: Function, states: int, chunk: int, dtype: np.dtype, facts: Mapping[str, Any]
) -> None:
    """Creates the store of results, or finds the one of an interrupted run."""
    if target.exists():
        _check_same(target, facts)
        for leftover in target.rglob(PARTIAL):
            leftover.unlink(missing_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f"{target.name}.{os.urandom(8).hex()}.part")
    try:
        group = zarr.create_group(draft, attributes={ATTRIBUTE: facts})
        for name, core in function.outputs.items():
            group.create_array(
                name,
                shape=(states, *core),
                chunks=(chunk, *core),
                dtype=dtype,
                compressors=None,
                config={"write_empty_chunks": True},
            )
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _check_same(target: Path, facts: Mapping[str, Any]) -> None:
    """Raises ValueError if a store is not what an interrupted run with the same facts has left."""
    try:
        before = zarr.open_group(target, mode="r").attrs.get(ATTRIBUTE)
    except (FileNotFoundError, NotADirectoryError, zarr.errors.ContainsArrayError):
        before = None
    if not isinstance(before, dict):
        raise ValueError(f"{target} is there and no run of featherlane map has made it")
    for name in {**before, **facts}:
        if before.get(name) != facts.get(name):
            what = "was written again since" if name.startswith("input") else (
                f"was {before.get(name)}, now it is {facts.get(name)}"
            )
            raise ValueError(
                f"{target} has results of another run: {name} {what}; go on with what it was begun "
                "with, or choose another store"
            )


def _unfinished(target: Path, function: Function, states: int, chunk: int) -> Iterator[int]:
    """The first states of the chunks of which some result is not there yet."""
    group = zarr.open_group(target, mode="r")
    arrays = {name: group[name] for name in function.outputs}
    for k, first in enumerate(range(0, states, chunk)):
        keys = (
            target / name / x.metadata.encode_chunk_key((k,) + (0,) * (x.ndim - 1))
            for name, x in arrays.items()
        )
        if not all(map(os.path.exists, keys)):
            yield first


# What workers do


def compute_chunk(job: Job, first: int, count: int) -> int:
    """Reads the states of a chunk, evaluates the function and writes its results."""
    source, target = _opened(job)
    at = slice(first, first + count)
    given = []
    for name, has_rows in job.inputs:
        x = np.asarray(source[name][at] if has_rows else source[name][...], job.dtype)
        _check_finite(name, x, first if has_rows else None)
        given.append(x)
    made = job.function.unpacked()(*given, threads=1)
    results = made if isinstance(made, tuple) else (made,)
    for (name, _), x in zip(target.items(), results, strict=True):
        target[name][at] = x
    return count


@lru_cache(2)
def _opened(job: Job) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays of both stores."""
    source, target = zarr.open_group(job.source, mode="r"), zarr.open_group(job.target, mode="r+")
    outputs = job.function.unpacked().outputs
    options = {"write_empty_chunks": True}
    return (
        {name: source[name] for name, _ in job.inputs},
        {name: target[name].with_config(options) for name in outputs},
    )


def _check_finite(name: str, x: np.ndarray, first: int | None) -> None:
    """Raises ValueError that says where a number is not finite. Sums tell in a fraction of the
    time of a test of each number.
    """
    with np.errstate(all="ignore"):
        if math.isfinite(x.sum()):
            return
    wrong = np.argwhere(~np.isfinite(x))
    if len(wrong):
        place = [int(k) for k in wrong[0]]
        value = x[tuple(place)]
        where = "" if first is None else f" of state {first + place.pop(0):,}"
        entry = f" at entry {', '.join(map(str, place))}" if place else ""
        raise ValueError(f"{name} is {value}{entry}{where}: wanted finite numbers")


# How chunks come to workers


@contextmanager
def _executor(scheduler: Any, workers: int | None) -> Iterator[tuple[Executor, int]]:
    """Where chunks are computed, and how many at once."""
    count = physical_cores() if workers is None else counted("workers", workers)
    if scheduler == "threads":
        executor = ThreadPoolExecutor(count)
        try:
            yield executor, count
        finally:
            executor.shutdown(cancel_futures=True)
        return
    distributed = required("distributed", "dask")
    if isinstance(scheduler, distributed.Client):
        yield scheduler.get_executor(pure=False), sum(scheduler.nthreads().values())
        return
    if scheduler == "processes":
        place = distributed.LocalCluster(
            n_workers=count, threads_per_worker=1, dashboard_address=None
        )
    elif isinstance(scheduler, str) and ":" in scheduler:
        place = scheduler
    else:
        raise ValueError(
            f"scheduler is {scheduler!r}: wanted 'threads', 'processes', an address such as "
            "tcp://host:8786, or a distributed.Client"
        )
    with distributed.Client(place) as client:
        try:
            yield client.get_executor(pure=False), max(sum(client.nthreads().values()), 1)
        finally:
            if scheduler == "processes":
                place.close()


def _computed(
    executor: Executor, at_once: int, job: Job, todo: list[int], states: int
) -> Iterator[int]:
    """Computes chunks, some of them handed out at a time, and yields the states done so far."""
    done, rest, running = 0, iter(todo), set[Future[int]]()
    try:
        while True:
            for first in rest:
                count = min(job.chunk, states - first)
                running.add(executor.submit(compute_chunk, job, first, count))
                if len(running) >= AHEAD * at_once:
                    break
            if not running:
                return
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            done += sum(future.result() for future in finished)
            yield done
    finally:
        for future in running:
            future.cancel()


def _told(what: str, states: int, before: int, done: int, seconds: float) -> str:
    left = (states - before - done) / done * seconds
    return f"{what}: {before + done:,} of {states:,} states, {done / seconds:,.0f}/s, {left:,.0f} s left"


@contextmanager
def _os_errors() -> Iterator[None]:
    """Errors of files as RuntimeError: what was written stays, and the run can go on."""
    try:
        yield
    except OSError as error:
        raise RuntimeError(f"{error}; finished chunks stay, the same call goes on with the rest") from error
