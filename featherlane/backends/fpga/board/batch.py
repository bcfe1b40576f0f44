"""A batch of tasks for a driver: arrays with one leading dimension, and results with those that
the inputs had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fixed.bad_entries import BeyondFormat, EntryPlace, not_a_number
from featherlane.backends.fixed.input_limits import NO_RANGES, Ranges
from featherlane.backends.fpga.board.core import TAG, SelectedFunction, Words
from featherlane.errors import clause, shown, turned, wrong_dtype, wrong_shape
from featherlane.program.passes.guards import LOST

Array = Any


class BoardRun(NamedTuple):
    """The results of a batch on a board. results: numbers (..., *shape) by name; saturated: entries
    of each input beyond its range or format; lost: results that mean nothing, because a pivot was
    lost; counters: by how much those of the board went on, modulo 2^32.
    """

    results: dict[str, Array]
    saturated: dict[str, int]
    lost: int
    counters: dict[str, int]


class TaskBatch(NamedTuple):
    """Tasks: lead, their leading dimensions; inputs, arrays (tasks, *shape) by name; shapes, of
    these as they were passed.
    """

    lead: tuple[int, ...]
    inputs: dict[str, Array]
    shapes: dict[str, tuple[int, ...]]

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return int(np.prod(self.lead))

    def place(self, name: str, task: int, position: int) -> EntryPlace:
        """An entry of an input of a task."""
        core = self.inputs[name].shape[1:]
        return EntryPlace(name, self.shapes[name], core, self.lead, task, position)

    def of_readers(
        self, selector: str, functions: Iterable[SelectedFunction], ranges: Ranges
    ) -> TaskBatch:
        """The batch with zeros for what the functions of its tasks do not read, or the numbers
        nearest to them in their ranges.
        """
        inputs, codes = dict(self.inputs), self.inputs[selector]
        for function in functions:
            rows = codes == function.code
            for name in inputs.keys() - {*function.inputs, selector}:
                x, unread = inputs[name], np.zeros(self.inputs[name].shape[1:])
                if name in ranges:
                    unread = np.clip(unread.ravel(), *ranges[name]).reshape(unread.shape)
                if (x[rows] != unread).any():
                    inputs[name] = x.astype(np.float64)
                    inputs[name][rows] = unread
        return self._replace(inputs=inputs)

    def check_numbers(self) -> None:
        """Raises ValueError for a NaN."""
        for name, x in self.inputs.items():
            if np.isnan(x).any():
                raise not_a_number(self.place(name, *_first(np.isnan(x))))

    def refusal(self, beyond: BeyondFormat) -> ValueError:
        """The error for an entry beyond its range or format."""
        place = self.place(beyond.name, beyond.state, beyond.position)
        return beyond.error(place, "; saturate=True takes the nearest number in it")

    def run(
        self, results: Mapping[str, Array], saturated: dict[str, int], counters: dict[str, int]
    ) -> BoardRun:
        """The run of the batch. results: arrays (tasks, *shape) by name."""
        shaped = {name: x.reshape(self.lead + x.shape[1:]) for name, x in results.items()}
        lost = int(np.count_nonzero(np.nan_to_num(shaped[LOST]))) if LOST in shaped else 0
        return BoardRun(shaped, saturated, lost, counters)


def check_names(inputs: Any, wanted: Collection[str], whose: str = "") -> None:
    """Raises ValueError unless inputs are by these names. whose: as " of mass_matrix"."""
    names = f"{', '.join(wanted)}{whose}"
    if not isinstance(inputs, Mapping):
        raise ValueError(f"inputs is {shown(inputs)}: wanted a dict of arrays, {names} by name")
    if inputs.keys() != {*wanted}:
        came = ", ".join(map(str, inputs)) or "nothing"
        raise ValueError(f"inputs has {came}: wanted {names} by name")


def check_saturate(saturate: Any) -> None:
    """Raises ValueError for what is not True or False: other words may mean either."""
    if not isinstance(saturate, bool | np.bool_):
        raise ValueError(f"saturate is {shown(saturate)}: wanted True or False")


def batch_of(
    words: Words,
    inputs: Mapping[str, Any],
    functions: Iterable[SelectedFunction] = (),
    ranges: Ranges = NO_RANGES,
) -> TaskBatch:
    """The batch of inputs, arrays (..., *shape) by name whose leading dimensions broadcast. Tags
    are the driver's. functions: those that words select; what they do not read may be anything.
    ranges: of inputs. Raises ValueError for inputs that are none, for NaN, and for codes that no
    function has.
    """
    shapes = {n: shape for n, shape in words.shapes.items() if n != TAG}
    check_names(inputs, shapes)
    arrays = {name: _numbers(name, inputs[name], shape) for name, shape in shapes.items()}
    leads = {name: x.shape[: x.ndim - len(shapes[name])] for name, x in arrays.items()}
    try:
        lead = np.broadcast_shapes(*leads.values())
    except ValueError:
        each = ", ".join(f"{name} {lead}" for name, lead in leads.items())
        raise ValueError(f"leading dimensions do not broadcast: {each}") from None
    if not (tasks := int(np.prod(lead))):
        raise ValueError(f"inputs has leading dimensions {lead}: wanted a task, or more")
    batch = TaskBatch(lead, {
        name: np.broadcast_to(arrays[name], lead + shape).reshape(tasks, *shape)
        for name, shape in shapes.items()
    }, {name: x.shape for name, x in arrays.items()})  # fmt: skip
    if (selector := words.selector) is not None:
        codes = sorted({field.when for field in words.fields if field.when is not None})
        unknown = ~np.isin(batch.inputs[selector], codes)
        if unknown.any():
            task, position = _first(unknown)
            code = f"{batch.place(selector, task, position)} is {batch.inputs[selector][task]:g}"
            listed = ", ".join(map(str, codes))
            raise ValueError(f"{code}: wanted the code of a function, one of {listed}")
        batch = batch.of_readers(selector, functions, ranges)
    batch.check_numbers()
    return batch


def _numbers(name: str, x: Any, shape: tuple[int, ...]) -> Array:
    """An input as an array. Raises ValueError for what are no real numbers of the shape."""
    if isinstance(x, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array: masks have no meaning here, fill it first")
    try:
        array = np.asarray(x)
    except (TypeError, ValueError) as error:  # of lists of unequal lengths, and memory of a GPU
        raise ValueError(f"{name} is not an array of numbers: {clause(error)}") from error
    if array.dtype.kind not in "fiub":
        raise ValueError(wrong_dtype(name, x, array.dtype))
    if array.shape[array.ndim - len(shape) :] != shape:
        is_turned = len(shape) == 1 and array.shape[:1] == shape and array.ndim == 2
        raise ValueError(wrong_shape(name, array.shape, shape, turned(name) if is_turned else ""))
    return array


def _first(flags: Array) -> tuple[int, int]:
    """The task and the position of the first entry (tasks, *shape) that has a flag."""
    task, position = np.unravel_index(flags.argmax(), (len(flags), flags[0].size))
    return int(task), int(position)
