"""Calls of drivers, whatever lies between the host and the board: arrays by name, the function that
tasks want, and results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any, NamedTuple, Protocol

import numpy as np

from featherlane.backends.fpga.board.batch import (
    BoardRun,
    TaskBatch,
    batch_of,
    check_names,
    check_saturate,
)
from featherlane.backends.fpga.board.core import TAG, SelectedFunction
from featherlane.backends.fpga.board.packets import PacketLayout
from featherlane.errors import did_you_mean, one_of, shown

Array = Any
OPTIONS = ("function", "saturate")


class DesignFacts(Protocol):
    """Facts of a design that a host knows: its name, the layouts of both streams, and its functions
    by name, none in files of earlier versions.
    """

    @property
    def name(self) -> str: ...

    @property
    def tasks(self) -> PacketLayout: ...

    @property
    def results(self) -> PacketLayout: ...

    @property
    def functions(self) -> Mapping[str, SelectedFunction]: ...


class TaskCall(NamedTuple):
    """A call, checked. inputs: of the words, with the code of each task's function; results: the
    names of those that the functions have, None for all.
    """

    inputs: Mapping[str, Any]
    results: set[str] | None


class ArrayDriver(ABC):
    """A design on a board, as a function of arrays."""

    facts: DesignFacts
    transport: Any
    _lock: RLock  # two runs at once would share buffers, and numbers of tasks

    def __repr__(self) -> str:
        functions = ", ".join(self.facts.functions) or "a function without a name"
        return f"<{type(self).__name__} of {self.facts.name}: {functions}; {self.transport}>"

    def __call__(
        self,
        inputs: Mapping[str, Any] | None = None,
        function: str | Sequence[str] | None = None,
        *rest: Any,
        saturate: bool = False,
        **arrays: Any,
    ) -> dict[str, Array]:
        """Returns the results by name, as `run` does, without what else is known."""
        return self.run(inputs, function, *rest, saturate=saturate, **arrays).results

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        function: str | Sequence[str] | None = None,
        *rest: Any,
        saturate: bool = False,
        **arrays: Any,
    ) -> BoardRun:
        """Runs tasks through the board.

        inputs: arrays (..., *shape) by name, whose leading dimensions broadcast; or `arrays`, these
        by keyword. function: of a design of several, the name of the one that all tasks want, or an
        array of names, one for each task, which broadcasts too; inputs and results are then those
        of these functions. None: the design's only one, or inputs has an array "function" with the
        code of each task's (`facts.functions`), and the inputs of all.

        An entry beyond the range that its format was assigned for, or beyond a uniform format, is
        refused before anything is sent, or, with saturate, takes the nearest number in it, which is
        counted. Tags are the driver's, which puts results in the order of tasks; entries that a
        result has not are NaN, and entries that a task's function does not read may be anything.
        The counters are those of the board, and of a serial line how many tasks were sent once more
        because a frame was damaged on its way ("repeated"), and how many results came damaged
        ("damaged_results").

        Raises ValueError for inputs that are none, beyond their ranges or NaN, and for a function
        that the design has not; DeviceError for what the board reports, after a reset, for a DMA
        that does not end, and for a board that falls silent, or loses a task twice; TypeError for
        arguments that are none.
        """
        check_saturate(saturate)
        states = _states(inputs, arrays)
        if rest and isinstance(states, Mapping):
            wanted = "wanted inputs and function by position, saturate= by keyword"
            raise TypeError(f"a third argument is {shown(rest[0])}: {wanted}")
        call = call_of(self.facts, states, function)
        tasks, functions = self.facts.tasks, self.facts.functions.values()
        batch = batch_of(tasks.words, call.inputs, functions, tasks.ranges)
        with self._lock:
            run = self._run(batch, bool(saturate))
        if call.results is None:
            return run
        results = {name: x for name, x in run.results.items() if name in call.results}
        return run._replace(results=results)

    @abstractmethod
    def _run(self, batch: TaskBatch, saturate: bool) -> BoardRun:
        """Runs a batch. Errors as of `run`."""


def _states(inputs: Any, arrays: Mapping[str, Any]) -> Any:
    """The inputs, passed as a dict or by keyword. Raises TypeError for both together."""
    if inputs is None and arrays:
        return arrays
    for name in arrays:
        wanted = "wanted all arrays in inputs, or all by keyword"
        raise TypeError(f"{name}= beside inputs: {wanted}{did_you_mean(name, OPTIONS)}")
    return inputs


def call_of(facts: DesignFacts, inputs: Any, function: Any) -> TaskCall:
    """The call with these arguments. Raises ValueError for a function that the design has not, and
    for inputs that are not those of the functions.
    """
    words, functions = facts.tasks.words, facts.functions
    if not isinstance(inputs, Mapping):
        check_names(inputs, [n for n in words.shapes if n not in (TAG, words.selector)])
    if words.selector is None:
        if function is not None:
            _codes(function, functions)
        return TaskCall(inputs, None)
    if function is None:
        if functions and words.selector not in inputs:
            raise _no_function("function", function, functions)
        return TaskCall(inputs, None)
    codes, names = _codes(function, functions)
    read = dict.fromkeys(x for name in names for x in functions[name].inputs)
    check_names(inputs, read, f" of {' and '.join(names)}")
    others = {name: np.zeros(shape) for name, shape in words.shapes.items() if name != TAG}
    results = facts.results.words
    carried = set().union(*(results.names(functions[name].code) for name in names))
    return TaskCall({**others, **inputs, words.selector: codes}, carried - {results.selector, TAG})


def _codes(function: Any, functions: Mapping[str, SelectedFunction]) -> tuple[Array, list[str]]:
    """The codes of functions by name, an array as theirs, and the names, each once. Raises
    ValueError for a name that the design has not.
    """
    wanted = np.array(function, dtype=object)
    for place, name in np.ndenumerate(wanted):
        if not isinstance(name, str) or name not in functions:
            raise _no_function(f"function{[*place] or ''}", name, functions)
    if not wanted.size:
        raise _no_function("function", function, functions)
    codes = [functions[name].code for name in wanted.flat]
    return np.reshape(codes, wanted.shape), [*dict.fromkeys(wanted.flat)]


def _no_function(
    argument: str, value: Any, functions: Mapping[str, SelectedFunction]
) -> ValueError:
    """The error for a function that the design has not."""
    if not functions:
        wanted = "the design has one function, leave it out"
    elif len(functions) == 1:
        wanted = f"wanted {next(iter(functions))!r}, the one that the design has"
    else:
        wanted = one_of(value, functions)
    return ValueError(f"{argument} is {shown(value)}: {wanted}")
