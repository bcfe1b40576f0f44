"""Zarr: `map_store` computes a function for all states of a store, chunk by chunk, into another.

A run that was killed goes on with the chunks that it has not finished. A chunk of a result is a
file that is written under another name and then renamed, so that a chunk is finished if all of its
files are there. Attributes of the store of results say from what they are computed (docs/scale.md).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.model import Model
from featherlane.errors import clause, shown
from featherlane.functions.array_like import WrenchFrame
from featherlane.interop.executors import ChunkExecutor, check_scheduler, executor_of
from featherlane.interop.packed import PackedFunction, prepared
from featherlane.interop.wrapped import required
from featherlane.interop.zarr_inputs import (
    arrays_of,
    check_apart,
    chunk_of,
    dtype_of,
    folder_of,
    function_of,
    inputs_of,
    states_of,
)
from featherlane.interop.zarr_lock import only_run
from featherlane.interop.zarr_results import begin, facts_of, unfinished

zarr = required("zarr", "dask")
Progress = Callable[[str], None]


class Job(NamedTuple):
    """The description of a run that each worker gets."""

    function: PackedFunction
    source: str
    target: str
    inputs: tuple[tuple[str, bool], ...]  # names, and whether an array has a row for each state
    dtype: str
    identity: str  # stores are opened once in each process, for this run


class MapReport(NamedTuple):
    """Summary of a run. kept: states whose results were there already; moved: bytes read and
    written in this run; left: arrays of the store that the function does not read.
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
        rate = (
            f"{computed / self.seconds:,.0f} states/s, {self.moved / self.seconds / 1e6:,.0f} MB/s"
        )
        lines = [
            f"{self.function} of {self.robot}, {self.dtype}: {', '.join(self.inputs)} -> "
            f"{', '.join(self.outputs)}"
        ]
        if computed:
            lines.append(
                f"{computed:,} states in {self.seconds:.3g} s ({rate}), in chunks of {self.chunk:,}"
            )
        if self.kept == self.states:
            lines.append(f"nothing to do: all {self.kept:,} states were finished before")
        elif self.kept:
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
    f_ext_frame: WrenchFrame = "body",
    progress: Progress = lambda step: None,
) -> MapReport:
    """Computes a function for all states of a Zarr group in a folder, into a new group.

    Raises ValueError or TypeError that names the array or argument, also for numbers that are not
    finite, and RuntimeError that says which chunk of a store cannot be read or written.

    Arguments:
        model: the robot
        function: a name as in `Model.compile` ("forward_dynamics_derivatives", "step:rk4",
            "rollout:32")
        source: a group with an array (B, ...) for each input of the function, under the name of the
            input; an array without the dimension B holds for all states. f_ext and parameters
            (`Model.parameters`) are read if they exist and the function takes them
        target: the new group, which gets an uncompressed array (B, ...) for each output. A target
            that an interrupted run has left is completed; one that another run is writing is
            refused
        dtype: float32 or float64; None: that of the arrays
        chunk: number of states in a chunk; None: that of the source if it is not too large
        workers: number of threads or processes; None: all physical cores
        scheduler: "threads", "processes", the address of a Dask scheduler, or a
            `distributed.Client`
        f_ext_frame: "body" or "world". The axes of f_ext
        progress: a function that is called with the progress of the run

    Examples:
        >>> import zarr
        >>> from featherlane.interop.zarr import map_store
        >>> states = zarr.open_group("states.zarr", mode="w")
        >>> states["q"] = np.zeros((1000, arm.nq))
        >>> report = map_store(arm, "mass_matrix", "states.zarr", "inertia.zarr")
        >>> zarr.open_group("inertia.zarr", mode="r")["M"].shape
        (1000, 2, 2)
    """
    start = time.monotonic()
    if not isinstance(model, Model):
        raise TypeError(f"model is {shown(model)}: wanted a Model, as fl.load gives it")
    if not isinstance(function, str):
        raise TypeError(f"function is {shown(function)}: wanted the name of a function")
    check_scheduler(scheduler, workers)
    path, results = folder_of("source", source), folder_of("target", target)
    arrays = arrays_of(path)
    check_apart(path, arrays, results)
    batched = function_of(model, function, arrays, f_ext_frame)
    used = inputs_of(batched, arrays, path)
    kind = dtype_of(used, dtype, path)
    states = states_of(batched, used, path)
    rows = chunk_of(batched, used, kind, states, chunk)
    inputs = tuple((name, x.ndim > len(batched.inputs[name])) for name, x in used.items())
    facts = facts_of(model, function, batched, f_ext_frame, kind, rows, used, path)
    identity = os.urandom(8).hex()
    job = Job(PackedFunction.of(batched), str(path), str(results), inputs, str(kind), identity)
    with only_run(results):
        begin(results, batched, states, rows, kind, facts)
        with _os_errors():
            firsts = unfinished(results, batched, states, rows)
            todo = [(first, min(rows, states - first)) for first in firsts]
            computed = sum(count for _, count in todo)
            if todo:
                what = f"{function} of {model.name}"
                _compute(job, todo, executor_of(scheduler, workers), what, states, progress)
    return MapReport(
        model.name,
        function,
        str(kind),
        inputs=[*used],
        outputs=[*batched.outputs],
        left=sorted({*arrays} - {*used}),
        states=states,
        kept=states - computed,
        chunk=rows,
        moved=batched.numbers * kind.itemsize * computed,
        seconds=time.monotonic() - start,
    )


def _compute(
    job: Job,
    todo: list[tuple[int, int]],
    opening: AbstractContextManager[ChunkExecutor],
    what: str,
    states: int,
    progress: Progress,
) -> None:
    """Computes the chunks todo, (first state, count), where `opening` says."""
    kept, done = states - sum(count for _, count in todo), 0
    with opening as chunks:
        progress(f"compiling {what}")
        single = any(count == 1 for _, count in todo)
        chunks.executor.submit(prepared, job.function, job.dtype, single).result()
        begun = time.monotonic()
        for count in chunks.results(compute_chunk, [(job, *call) for call in todo]):
            done += count
            progress(_progress_text(what, states, kept, done, time.monotonic() - begun))


# What workers do


def compute_chunk(job: Job, first: int, count: int) -> int:
    """Reads the states of a chunk, evaluates the function and writes its results."""
    source, target = _opened(job)
    at = slice(first, first + count)
    inputs = []
    for name, has_rows in job.inputs:
        stored = np.asarray(_read(source[name], at if has_rows else ..., job.source))
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and refused below
            x = np.asarray(stored, job.dtype)
        _check_finite(name, x, stored, first if has_rows else None)
        inputs.append(x)
    computed = job.function.unpacked()(*inputs, threads=1)
    results = computed if isinstance(computed, tuple) else (computed,)
    for array, x in zip(target.values(), results, strict=True):
        array[at] = x
    return count


def _read(array: Any, at: Any, store: str) -> Any:
    """Some rows of an array, or all of it. Raises RuntimeError that names them if their files are
    broken.
    """
    try:
        return array[at]
    except (RuntimeError, ValueError) as error:  # of decompression; of a wrong number of bytes
        rows = f", states {at.start:,} to {at.stop - 1:,}" if isinstance(at, slice) else ""
        raise RuntimeError(f"{store}: {array.basename}{rows} cannot be read: {error}") from error


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


def _check_finite(name: str, x: np.ndarray, stored: np.ndarray, first: int | None) -> None:
    """Raises ValueError that says where a number is not finite, and what is stored there. Sums tell
    in a fraction of the time of a test of each number.
    """
    with np.errstate(all="ignore"):
        if math.isfinite(x.sum()):
            return
    wrong = np.argwhere(~np.isfinite(x))
    if len(wrong):
        place = [int(k) for k in wrong[0]]
        value = stored[tuple(place)]
        wanted = f"{x.dtype} cannot hold it" if np.isfinite(value) else "wanted finite numbers"
        where = "" if first is None else f" of state {first + place.pop(0):,}"
        entry = f" at entry {', '.join(map(str, place))}" if place else ""
        raise ValueError(f"{name} is {value}{entry}{where}: {wanted}")


def _progress_text(what: str, states: int, before: int, done: int, seconds: float) -> str:
    rate = done / seconds
    left = (states - before - done) / rate
    return f"{what}: {before + done:,} of {states:,} states, {rate:,.0f}/s, {left:,.0f} s left"


@contextmanager
def _os_errors() -> Iterator[None]:
    """Errors of files as RuntimeError: what was written stays, and the run can go on."""
    try:
        yield
    except OSError as error:
        raise RuntimeError(
            f"{clause(error)}; finished chunks stay, the same call goes on with the rest"
        ) from error
