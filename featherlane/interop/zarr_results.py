"""The store of a run's results: what they are computed from, and which chunks are finished."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from featherlane.api.model import Model
from featherlane.backends.package_text import package_hash
from featherlane.errors import clause
from featherlane.functions.function import Function
from featherlane.interop.wrapped import required
from featherlane.version import __version__

zarr = required("zarr", "dask")
ATTRIBUTE = "featherlane map"  # of a store of results: what they are computed from
PARTIAL = "*.partial"  # files that a killed writer leaves behind


def facts_of(
    model: Model, text: str, function: Function, axes: str, dtype: np.dtype, chunk: int,
    arrays: Mapping[str, Any], path: Path,
) -> dict[str, Any]:  # fmt: skip
    """All that the results depend on, with names that an error can show."""
    return {
        "version": f"{__version__} {package_hash()[:16]}",
        "robot": f"{model.name} {model.fingerprint[:16]}",
        "function": f"{text}({', '.join(function.inputs)})"
        + f" in {axes} axes" * ("f_ext" in arrays),
        "places": _digest(repr([(f.name, *model.frame(f.name)[1:]) for f in model.frames])),
        "dtype": str(dtype),
        "chunk": chunk,
        **{f"input {name}": _identity(path / name) for name in arrays},
    }


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _identity(folder: Path) -> str:
    """The files of an array: their names, sizes and the times when they were last written."""
    arrays = []
    for place, _, names in os.walk(folder):
        for name in names:
            status = os.stat(os.path.join(place, name))
            arrays.append(
                (
                    os.path.relpath(os.path.join(place, name), folder),
                    status.st_size,
                    status.st_mtime_ns,
                )
            )
    return _digest(repr(sorted(arrays)))


def begin(
    target: Path,
    function: Function,
    states: int,
    chunk: int,
    dtype: np.dtype,
    facts: Mapping[str, Any],
) -> None:
    """Creates the store of results, or finds the one of an interrupted run. Raises ValueError for
    one of another run, and for a place where nothing can be written.
    """
    try:
        if target.exists():
            _check_same(target, facts)
            _check_arrays(target, function, states, chunk, dtype)
            for leftover in target.rglob(PARTIAL):
                leftover.unlink(missing_ok=True)
        else:
            _create(target, function, states, chunk, dtype, facts)
    except OSError as error:
        raise ValueError(f"target {target} cannot be written: {error}") from error


def _create(
    target: Path,
    function: Function,
    states: int,
    chunk: int,
    dtype: np.dtype,
    facts: Mapping[str, Any],
) -> None:
    """Creates the store under another name, and renames it when it is whole."""
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
    except ValueError as error:  # what is no JSON, no group of this format
        raise ValueError(f"{target}: its description cannot be read: {clause(error)}") from error
    if not isinstance(before, dict):
        raise ValueError(f"{target} is there and no run of featherlane map wrote it")
    for name in {**before, **facts}:
        if before.get(name) != facts.get(name):
            what = (
                "was written again since"
                if name.startswith("input")
                else (f"was {before.get(name)}, now it is {facts.get(name)}")
            )
            raise ValueError(
                f"{target} has results of another run: {name} {what}; go on with what it was begun "
                "with, or choose another store"
            )


def _check_arrays(
    target: Path, function: Function, states: int, chunk: int, dtype: np.dtype
) -> None:
    """Raises ValueError unless the arrays are as `_create` wrote them: a store that someone changed
    since would take results that do not fit.
    """
    hint = "remove the store, or choose another one"
    try:
        arrays = dict(zarr.open_group(target, mode="r").arrays())
    except ValueError as error:  # what is no JSON, no array of this format
        message = f"{target}: the description of an array cannot be read: {clause(error)}"
        raise ValueError(f"{message}; {hint}") from error
    for name, core in function.outputs.items():
        if name not in arrays:
            raise ValueError(f"{target} has lost its array {name}: {hint}")
        x = arrays[name]
        was, wanted = (x.shape, x.chunks, x.dtype), ((states, *core), (chunk, *core), dtype)
        if was != wanted:
            message = "{} has shape {}, chunks {}, dtype {}".format(name, *was)
            expected = "was created with shape {}, chunks {}, dtype {}".format(*wanted)
            raise ValueError(f"{target}: {message}, and {expected}: {hint}")


def unfinished(target: Path, function: Function, states: int, chunk: int) -> Iterator[int]:
    """The first states of the chunks of which some result is not there yet, or not whole: a system
    that stops, by a loss of power, may leave files without what was written to them.
    """
    group = zarr.open_group(target, mode="r")
    arrays = [group[name] for name in function.outputs]
    sizes = [math.prod(x.chunks) * x.dtype.itemsize for x in arrays]  # they are not compressed
    for k, first in enumerate(range(0, states, chunk)):
        files = (
            target / x.basename / x.metadata.encode_chunk_key((k,) + (0,) * (x.ndim - 1))
            for x in arrays
        )
        if any(_size(file) != size for file, size in zip(files, sizes, strict=True)):
            yield first


def _size(file: Path) -> int:
    """The bytes of a file, -1 if there is none."""
    try:
        return os.stat(file).st_size
    except FileNotFoundError:
        return -1
