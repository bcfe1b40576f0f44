"""Inputs of a run: the arrays of a Zarr group, their sizes and their dtype."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from featherlane.api.model import Model
from featherlane.api.named_variants import variant_named
from featherlane.errors import clause, one_of, shown
from featherlane.functions.arguments import alike, counted, lead_of
from featherlane.functions.function import Function
from featherlane.functions.table import CALLED
from featherlane.functions.wrenches import WRENCH_FRAMES
from featherlane.interop.wrapped import required
from featherlane.program.lower import checked_dtype
from featherlane.robot.parameters import PARAMETERS

zarr = required("zarr", "dask")
LARGEST = 64 << 20  # bytes of the inputs and results of a chunk, if its size is not chosen


def folder_of(name: str, store: Any) -> Path:
    """The folder of a store. Raises TypeError unless `store` is a path."""
    if not isinstance(store, str | os.PathLike):
        raise TypeError(f"{name} is {shown(store)}: wanted the path of a folder")
    return Path(store).expanduser().resolve()


def arrays_of(path: Path) -> dict[str, Any]:
    """The arrays of a group, by name."""
    try:
        return dict(sorted(zarr.open_group(path, mode="r").arrays()))
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{path}: wanted a folder with a Zarr group, there is none") from None
    except zarr.errors.ContainsArrayError:
        raise ValueError(
            f"{path} is a Zarr array: wanted a group with an array for each input"
        ) from None
    except ValueError as error:  # what is no JSON, no group of this format
        raise ValueError(f"{path}: its description cannot be read: {error}") from error


def check_apart(source: Path, arrays: Iterable[str], target: Path) -> None:
    """Raises ValueError if results would be written over their inputs, or among their files."""
    if source == target:
        raise ValueError(f"the results would overwrite their inputs: {source}")
    for name in arrays:
        if source / name in target.parents:
            raise ValueError(f"target {target} is inside of the input {name}: wanted another place")


def function_of(model: Model, text: str, arrays: Iterable[str], axes: str) -> Function:
    """The function, with f_ext and the parameters that are among the arrays."""
    if axes not in WRENCH_FRAMES:
        raise ValueError(f"f_ext_frame is {axes!r}: {one_of(axes, WRENCH_FRAMES)}")
    variant = variant_named(model, text)
    known = {*arrays}
    plain = model._function(variant)
    if "f_ext" in known and "f_ext" in CALLED[variant.name].takes:
        variant = variant._replace(wrenches=axes)
    parameters = tuple(x for x in PARAMETERS if x in known and x not in plain.inputs)
    return model._function(variant._replace(parameters=parameters))


def inputs_of(function: Function, arrays: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The arrays that the function reads, in its order."""
    missing = [name for name in function.inputs if name not in arrays]
    if missing:
        names = ", ".join(function.inputs)
        has = ", ".join(arrays) or "none"
        raise ValueError(
            f"{path} has no array {missing[0]!r}: {function.name} reads {names}; it has {has}"
        )
    return {name: arrays[name] for name in function.inputs}


def dtype_of(arrays: Mapping[str, Any], asked: Any, path: Path) -> np.dtype:
    """The dtype to compute in: the one asked for, or that of the arrays."""
    empty = {name: np.empty(0, x.dtype) for name, x in arrays.items()}
    for name, x in empty.items():  # refuses what is no real number
        try:
            alike({name: x})
        except TypeError as error:
            raise TypeError(f"{path}: {error}") from None
    if asked is not None:
        return checked_dtype(asked)
    try:
        return alike(empty)[0]
    except TypeError as error:
        raise TypeError(f"{path}: {clause(error)}; or choose one with dtype=") from None


def states_of(function: Function, arrays: Mapping[str, Any], path: Path) -> int:
    """The number of states. Raises ValueError for arrays of wrong shapes."""
    for name, x in arrays.items():
        lead_of([x], {name: function.inputs[name]}, function.explain, most=1)
    lengths = {
        name: x.shape[0] for name, x in arrays.items() if x.ndim > len(function.inputs[name])
    }
    if len({*lengths.values()}) > 1:
        listed = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise ValueError(
            f"the arrays of {path} have different lengths: {listed}; wanted one for all"
        )
    states = max(lengths.values(), default=0)
    if not states:
        raise ValueError(f"{path} has no states: wanted arrays of shape (B, ...) with B > 0")
    return states


def chunk_of(
    function: Function, arrays: Mapping[str, Any], dtype: np.dtype, states: int, asked: int | None
) -> int:
    """The states of a chunk: those of a chunk of the inputs, or a part of it if that is large."""
    if asked is not None:
        return min(counted("chunk", asked), states)
    rows = max(
        (x.chunks[0] for name, x in arrays.items() if x.ndim > len(function.inputs[name])),
        default=1,
    )
    most = max(LARGEST // (function.numbers * dtype.itemsize), 1)
    return min(math.ceil(rows / math.ceil(rows / most)), states)
