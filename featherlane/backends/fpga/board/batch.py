"""A batch of tasks for a driver: arrays with one leading dimension, and results with those that
the inputs had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fpga.board.core import TAG, SelectedFunction, Words
from featherlane.errors import shown
from featherlane.program.passes.guards import LOST

Array = Any


class BoardRun(NamedTuple):
    """The results of a batch on a board. results: numbers (..., *shape) by name; saturated: entries
    of each input beyond its format; lost: results that mean nothing, because a pivot was lost;
    counters: by how much those of the board went on, modulo 2^32.
    """

    results: dict[str, Array]
    saturated: dict[str, int]
    lost: int
    counters: dict[str, int]


class TaskBatch(NamedTuple):
    """Tasks: lead, their leading dimensions; inputs, arrays (tasks, *shape) by name."""

    lead: tuple[int, ...]
    inputs: dict[str, Array]

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return int(np.prod(self.lead))

    def run(
        self, results: Mapping[str, Array], saturated: dict[str, int], counters: dict[str, int]
    ) -> BoardRun:
        """The run of the batch. results: arrays (tasks, *shape) by name."""
        shaped = {name: x.reshape(self.lead + x.shape[1:]) for name, x in results.items()}
        lost = int(np.count_nonzero(np.nan_to_num(shaped[LOST]))) if LOST in shaped else 0
        return BoardRun(shaped, saturated, lost, counters)


def inputs_of_function(
    words: Words, inputs: Mapping[str, Any], function: str, selected: SelectedFunction
) -> dict[str, Any]:
    """The inputs of tasks of one function of a design of several: with its number, and zeros for
    what only other functions read. Raises ValueError for inputs that are not the function's.
    """
    assert words.selector is not None, "designs of several functions select"
    if not isinstance(inputs, Mapping) or inputs.keys() != {*selected.inputs}:
        came = ", ".join(inputs) if isinstance(inputs, Mapping) else shown(inputs)
        wanted = ", ".join(selected.inputs)
        raise ValueError(f"inputs has {came or 'nothing'}: wanted {wanted} of {function} by name")
    others = {name: np.zeros(shape) for name, shape in words.shapes.items() if name != TAG}
    return {**others, **inputs, words.selector: selected.code}


def batch_of(words: Words, inputs: Mapping[str, Any]) -> TaskBatch:
    """The batch of inputs, arrays (..., *shape) by name whose leading dimensions broadcast. Tags
    are the driver's. Raises ValueError for inputs that are none and NaN.
    """
    shapes = {n: shape for n, shape in words.shapes.items() if n != TAG}
    if not isinstance(inputs, Mapping) or inputs.keys() != shapes.keys():
        came = ", ".join(inputs) if isinstance(inputs, Mapping) else shown(inputs)
        raise ValueError(f"inputs has {came or 'nothing'}: wanted {', '.join(shapes)} by name")
    arrays = {name: np.asarray(x) for name, x in inputs.items()}
    leads = []
    for name, shape in shapes.items():
        x = arrays[name]
        if x.dtype.kind not in "fiub" or x.shape[x.ndim - len(shape) :] != shape:
            wanted = f"numbers of shape (..., {', '.join(map(str, shape))})"
            raise ValueError(f"{name} has shape {x.shape} of {x.dtype}: wanted {wanted}")
        if np.isnan(x).any():
            raise ValueError(f"{name} has a NaN: a circuit has numbers alone")
        leads.append(x.shape[: x.ndim - len(shape)])
    try:
        lead = np.broadcast_shapes(*leads)
    except ValueError:
        each = ", ".join(f"{name} {lead}" for name, lead in zip(shapes, leads, strict=True))
        raise ValueError(f"leading dimensions do not broadcast: {each}") from None
    if not (tasks := int(np.prod(lead))):
        raise ValueError(f"inputs has leading dimensions {lead}: wanted a task, or more")
    return TaskBatch(lead, {
        name: np.broadcast_to(arrays[name], lead + shape).reshape(tasks, *shape)
        for name, shape in shapes.items()
    })  # fmt: skip
