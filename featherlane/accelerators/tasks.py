"""Tasks of designs with several functions: checked, as words of the streams, and their results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.accelerators.organise.pass_graph import SHARES, function_datapath, variant_of
from featherlane.api.model import Model
from featherlane.backends.fixed.bad_entries import EntryPlace, not_a_number
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import Evaluator, first_beyond, floats, quantised
from featherlane.backends.fixed.input_limits import NO_RANGES, Ranges, limits_of
from featherlane.backends.fpga.network import words
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.simulation.simulate import Streams
from featherlane.backends.fpga.words import outputs_of
from featherlane.errors import CompileError, one_of, shown
from featherlane.functions.table import Variant
from featherlane.functions.variants import input_shapes


class Task(NamedTuple):
    """A function by name, and its inputs, of one state each, by name."""

    function: str
    inputs: Mapping[str, Any]


class TaskRun(NamedTuple):
    """The results of a simulation of tasks, by their numbers. outputs: integers by name, "lost"
    among them where something divides; results: the numbers that they stand for; accepted, emitted:
    the clock cycles in which each task went in and its result came out.
    """

    outputs: tuple[dict[str, np.ndarray], ...]
    results: tuple[dict[str, np.ndarray], ...]
    accepted: np.ndarray
    emitted: np.ndarray

    @property
    def cycles(self) -> np.ndarray:
        """Clock cycles from the acceptance of each task to its result."""
        return self.emitted - self.accepted


class Batch(NamedTuple):
    """Tasks as integers. names: the function of each; rows: the numbers of the tasks of each
    function; integers: their inputs (tasks, *shape) by name.
    """

    names: list[str]
    rows: dict[str, list[int]]
    integers: dict[str, dict[str, np.ndarray]]


def _place(key: str, x: np.ndarray, position: int) -> EntryPlace:
    """An entry of an input of a task, which has one state."""
    return EntryPlace(key, x.shape, x.shape, (), 0, position)


class TaskWords:
    """Words of the tasks of a network. A task's tag is its number, as far as it has bits."""

    def __init__(
        self,
        model: Model,
        network: Network,
        datapath: Datapath,
        wrenches: Variant,
        ranges: Ranges = NO_RANGES,
    ) -> None:
        """datapath: a pass, in the formats of the circuit. wrenches: inverse dynamics with their
        axes and frames. ranges: those that formats of inputs were assigned for, if they were.
        """
        self.ranges = ranges
        self.model, self.network, self._whole, self._wrenches = model, network, datapath, wrenches
        self._evaluators: dict[str, Evaluator] = {}

    def evaluator(self, function: str) -> Evaluator:
        """The golden model of a function, in the formats of the circuit."""
        if function not in self._evaluators:
            self._evaluators[function] = Evaluator(function_datapath(self._whole, function))
        return self._evaluators[function]

    def batch(self, tasks: Sequence[Any]) -> Batch:
        """Tasks as integers. Raises ValueError for what is no task."""
        listed_tasks = listed("tasks", tasks)
        checked = [self._checked(n, task) for n, task in enumerate(listed_tasks)]
        batch = Batch([name for name, _ in checked], {}, {})
        for n, name in enumerate(batch.names):
            batch.rows.setdefault(name, []).append(n)
        for name, rows in batch.rows.items():
            datapath = self.evaluator(name).datapath
            states = {
                key: np.stack([checked[n][1][key] for n in rows]) for key in datapath.graph.inputs
            }
            limits = limits_of(datapath, self.ranges)
            batch.integers[name], saturated = quantised(datapath, states, limits)
            if saturated:
                beyond = first_beyond(datapath, states, self.ranges)
                error = beyond.error(_place(beyond.name, states[beyond.name][0], beyond.position))
                raise ValueError(f"task {rows[beyond.state]} ({name}): {error}")
        return batch

    def _checked(self, n: int, task: Any) -> tuple[str, dict[str, np.ndarray]]:
        """A task's function and its inputs as arrays. Raises ValueError that names task n."""
        try:
            name, inputs = task
        except (TypeError, ValueError):
            wanted = "wanted (function, inputs by name)"
            raise ValueError(f"task {n} is {shown(task)}: {wanted}") from None
        check_function(name, self.network.codes)
        shapes = input_shapes(self.model, variant_of(name, self._wrenches))
        if not isinstance(inputs, Mapping) or inputs.keys() != shapes.keys():
            came = ", ".join(inputs) if isinstance(inputs, Mapping) else shown(inputs)
            wanted = f"wanted {', '.join(shapes)}"
            raise ValueError(f"task {n} ({name}) has {came or 'nothing'}: {wanted}")
        arrays = {}
        for key, shape in shapes.items():
            x = np.asarray(inputs[key], np.float64)
            if x.shape != shape:
                raise ValueError(f"task {n} ({name}): {key} has shape {x.shape}, wanted {shape}")
            if np.isnan(x).any():
                place = _place(key, x, int(np.isnan(x).argmax()))
                raise ValueError(f"task {n} ({name}): {not_a_number(place)}")
            arrays[key] = x
        return name, arrays

    def tags(self, count: int) -> np.ndarray:
        """The tags of so many tasks."""
        return np.arange(count) & (1 << self.network.tag_bits) - 1

    def packed(self, batch: Batch) -> np.ndarray:
        """The words of inputs as bytes, a row for each task."""
        tags = self.tags(len(batch.names))
        return words.packed(self.network, batch.names, tags, batch.integers)

    def expected(self, batch: Batch) -> list[dict[str, np.ndarray]]:
        """The results of the circuit for tasks, as integers by name, by the golden model."""
        results: list[dict[str, np.ndarray]] = [{} for _ in batch.names]
        for name, outputs in self._results(batch).items():
            for n, of_task in zip(batch.rows[name], _by_task(outputs), strict=True):
                results[n] = of_task
        return results

    def _results(self, batch: Batch) -> dict[str, dict[str, np.ndarray]]:
        """The results of the golden model by function, as integers (tasks, *shape) by name."""
        return {name: self.evaluator(name)(x).integers for name, x in batch.integers.items()}

    def wanted(self, batch: Batch) -> np.ndarray:
        """The words of results as bytes, a row for each task, by the golden model."""
        in_pass = {
            name: {SHARES[name].of_pass[output]: x for output, x in outputs.items()}
            for name, outputs in self._results(batch).items()
        }
        tags = self.tags(len(batch.names))
        return words.packed(self.network, batch.names, tags, in_pass, results=True)

    def run(self, batch: Batch, streams: Streams) -> TaskRun:
        """The results of a simulation by task: those of one function come in order. Raises
        CompileError for a tag that is not the task's.
        """
        count, tags = len(batch.names), self.tags(len(batch.names))
        outputs: list[dict[str, np.ndarray]] = [{} for _ in range(count)]
        results: list[dict[str, np.ndarray]] = [{} for _ in range(count)]
        emitted = np.zeros(count, np.int64)
        for name, came in words.unpacked(self.network, streams.words).items():
            rows = batch.rows.get(name, [])
            for n, tag in zip(rows, came.tags, strict=True):
                if tags[n] != tag:
                    raise CompileError(f"task {n} ({name}) has tag {tags[n]}, its result {tag}")
            datapath, emitted[rows] = self.evaluator(name).datapath, streams.emitted[came.rows]
            integers = outputs_of(datapath, self._nodes(name), came.values)
            numbers = floats(datapath, integers)
            for n, *of_task in zip(rows, _by_task(integers), _by_task(numbers), strict=True):
                outputs[n], results[n] = of_task
        return TaskRun(tuple(outputs), tuple(results), streams.accepted, emitted)

    def _nodes(self, function: str) -> list[int]:
        """The node of a function's datapath of each number in a word of its results."""
        graph, share = self.evaluator(function).datapath.graph, SHARES[function]
        entries = [place.entry for place in words.layout(self.network).results[function]]
        return [
            graph.outputs[share.outputs.get(name, name)].nodes[position]
            for name, position in entries
        ]


def _by_task(arrays: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """Yields the arrays of each task, from arrays (tasks, *shape) by name."""
    for rows in zip(*arrays.values(), strict=True):
        yield dict(zip(arrays, rows, strict=True))


# Arguments


def check_function(name: Any, functions: Sequence[str] | Mapping[str, Any], hint: str = "") -> None:
    """Raises ValueError for the name of a function that a design has not. hint: its end."""
    if not isinstance(name, str) or name not in functions:
        raise ValueError(f"function is {shown(name)}: {one_of(name, functions)}{hint}")


def listed(name: str, values: Any, least: int = 1) -> list[Any]:
    """Returns the entries of an argument. Raises ValueError for a text, and for fewer of them."""
    several = isinstance(values, Iterable) and not isinstance(values, str)
    entries = [*values] if several else []
    if not several or len(entries) < least:
        came = "empty" if several else shown(values)
        raise ValueError(f"{name} is {came}: wanted a list" + " of one, or more" * (least > 0))
    return entries


def check_arrivals(arrivals: Any, count: int) -> None:
    """Raises ValueError for what are no cycles, one for each of so many tasks."""
    for n, cycle in enumerate(_one_each("arrivals", arrivals, count)):
        if not _is_whole(cycle, math.inf):
            raise ValueError(
                f"arrivals[{n}] is {shown(cycle)}: wanted a cycle, a whole number from 0"
            )


def check_after(after: Any, count: int) -> None:
    """Raises ValueError unless each of so many tasks waits for none, or for one before it."""
    for n, before in enumerate(_one_each("after", after, count)):
        if before is not None and not _is_whole(before, n):
            wanted = f"wanted None, or the number of a task before task {n}, which come in order"
            raise ValueError(f"after[{n}] is {shown(before)}: {wanted}")


def _one_each(name: str, values: Any, count: int) -> list[Any]:
    """The values of an argument that has one for each task, of which there are `count`."""
    try:
        listed = [] if values is None else [*values]
    except TypeError:
        listed = [values]
    if values is not None and len(listed) != count:
        wanted = f"wanted one for each of {count} tasks"
        raise ValueError(f"{name} is {shown(values)}: {wanted}")
    return listed


def _is_whole(value: Any, end: float) -> bool:
    """Whether a value is a whole number from 0 to below `end`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and bool(0 <= value < end)
