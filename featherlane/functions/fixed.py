"""Functions of robots in fixed point: what an accelerator gives, with the signature of the CPU's
functions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fixed.assign import error_bounds
from featherlane.backends.fixed.bad_entries import EntryPlace
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import (
    Evaluator,
    Results,
    first_beyond,
    floats,
    quantised,
)
from featherlane.backends.fixed.input_limits import NO_RANGES, InputLimits, Ranges, limits_of
from featherlane.backends.fixed.machine import SECONDS, MachineEvaluator
from featherlane.backends.fixed.ranges import Bounds
from featherlane.backends.progress import compiling
from featherlane.errors import CompileError
from featherlane.functions.function import Form, Function, KernelsByDtype
from featherlane.program.passes.guards import LOST

PART = 1 << 16  # states at a time, whose integers need memory
SATURATE = "; saturating() of the function takes the nearest number in it"


class Report(NamedTuple):
    """Overflows and clamps of a call. overflows: in how many states each node of `datapath.graph`
    overflowed. clamped: in how many states each node was clamped: to bounds that are proved of its
    exact value, which brings it nearer, or to a range that the user states. saturated: entries of
    each input that were beyond its range, or its format. lost: states whose results are NaN, since
    a pivot was lost to rounding or an input was NaN.
    """

    states: int
    overflows: Counter[int]
    clamped: Counter[int]
    saturated: Counter[str]
    lost: int


class Errors(NamedTuple):
    """Differences from float64: of the states' largest errors the median and the largest, and the
    largest magnitude of the results in float64, each by output. States with NaN do not count.
    """

    median: dict[str, float]
    largest: dict[str, float]
    magnitude: dict[str, float]


class GoldenModel:
    """The evaluators of a datapath: a node at a time in NumPy, in machine code once that has taken
    as long as compiling does. make: of the datapath, when it is first read.
    """

    def __init__(self, name: str, make: Callable[[], Datapath]) -> None:
        self._name, self._make = name, make
        self.machine: MachineEvaluator | None = None
        self._seconds = 0.0  # in which NumPy computed

    @cached_property
    def evaluator(self) -> Evaluator:
        """The evaluator in NumPy."""
        return Evaluator(self._make())

    def compile(self) -> None:
        """Compiles machine code now."""
        if self.machine is None:
            with compiling(f"{self._name} in fixed point"):
                self.machine = MachineEvaluator(self.evaluator)

    def __call__(self, integers: dict[str, np.ndarray]) -> Results:
        """Evaluates the datapath, by whichever evaluator is due."""
        if self.machine is None and self._seconds > SECONDS * len(self.evaluator.datapath.graph):
            self.compile()
        if self.machine is not None:
            return self.machine(integers)
        start = perf_counter()
        results = self.evaluator(integers)
        self._seconds += perf_counter() - start
        return results


class FixedFunction(Function):
    """A function computed in fixed point, to the bit as a circuit with this datapath does.

    Calls take and give what the function in float64 does; `threads=` has no effect. A call raises
    ValueError for an entry of an input beyond the range that formats were assigned for, or in
    uniform formats beyond its format (`limits` has both); `saturating` returns the function that
    takes the nearest number in it. States where a pivot is lost to rounding, or an input is NaN,
    give NaN. `report` tells what happened in the last call.

    A node at a time in NumPy at first; in machine code, with the same results, when that has taken
    as long as compiling does, or when `compile` is called.
    """

    def __init__(
        self,
        function: Function,
        datapath: Callable[[], Datapath] | GoldenModel,
        bounds: Callable[[], Bounds],
        algorithm: str | None = None,
        origin: tuple[Callable[..., Any], tuple[Any, ...]] | None = None,
        saturates: bool = False,
        ranges: Callable[[], Ranges] = lambda: NO_RANGES,
    ) -> None:
        """function: what is computed, in float64. datapath: makes the datapath, or has it. bounds:
        gives those of the inputs. algorithm: its name, if there are several. saturates: whether
        entries of inputs beyond their limits are taken, as `saturating` says. ranges: gives those
        that formats were assigned for, if they were.
        """
        self.algorithm = algorithm
        self._function, self._bounds, self._saturates = function, bounds, saturates
        self._make_ranges = ranges
        if not isinstance(datapath, GoldenModel):
            datapath = GoldenModel(function.name, datapath)
        self._golden = datapath
        self.report: Report | None = None

        def kernel(dtype: np.dtype) -> Any:
            return lambda *arrays, out: self._computed(arrays, out)

        super().__init__(
            function.name,
            function.inputs,
            function.outputs,
            KernelsByDtype(kernel),
            function.packed,
            function.explain,
            origin,
        )

    @property
    def datapath(self) -> Datapath:
        """The graph and the format of each node."""
        return self._golden.evaluator.datapath

    @cached_property
    def _ranges(self) -> Ranges:
        return self._make_ranges()

    @cached_property
    def _limits(self) -> dict[str, InputLimits]:
        return limits_of(self.datapath, self._ranges)

    @property
    def limits(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The least and the largest number of each entry of each input that a call takes: the range
        that formats were assigned for, or what a uniform format holds. NaN stands for entries that
        are not read and have no range.
        """
        ends = {}
        for name, shape in self.inputs.items():
            if name in self._ranges:
                pair: Any = self._ranges[name]
            else:
                step, *codes = self.datapath.input_codes[name]
                with np.errstate(invalid="ignore"):
                    pair = [x * step for x in codes]
            low, high = (np.reshape(x, shape) for x in pair)
            ends[name] = low, high
        return ends

    def saturating(self) -> FixedFunction:
        """Returns the function whose inputs take the nearest number within their limits where they
        are beyond them, as for a loop whose states may leave their ranges; `report.saturated`
        counts them.
        """
        origin = (FixedFunction.saturating, (self,))
        shared = self._function, self._golden, self._bounds, self.algorithm
        return FixedFunction(*shared, origin, saturates=True, ranges=lambda: self._ranges)

    def computed_by(self, datapath: Datapath) -> FixedFunction:
        """Returns the function as another datapath of it computes it."""
        origin = (FixedFunction.computed_by, (self, datapath))
        shared = self._bounds, self.algorithm, origin
        make, ranges = lambda: datapath, lambda: self._ranges
        return FixedFunction(self._function, make, *shared, ranges=ranges)

    def error_bounds(self) -> dict[str, float]:
        """Returns a bound of the error of each output for all inputs within their ranges, proved by
        intervals; infinite if a signal may overflow, or a divisor be 0.
        """
        try:
            with np.errstate(invalid="ignore"):  # infinite bounds times 0
                bounds = error_bounds(self.datapath, self._bounds())
                return {name: bounds[name] for name in self.outputs}
        except CompileError:  # of a divisor whose interval contains 0
            return dict.fromkeys(self.outputs, math.inf)

    def compile(self) -> None:
        """Compiles machine code now, so that no later call waits for it: for control loops."""
        self._golden.compile()

    def _threads(self, asked: int | None, states: int, form: Form) -> int:
        return 1

    def _computed(self, arrays: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> None:
        """Fills the results of a call."""
        datapath = self.datapath
        core = len(next(iter(self.outputs.values())))
        lead = out[0].shape[: out[0].ndim - core]
        states = math.prod(lead)
        inputs = {
            name: np.broadcast_to(x, lead + shape).reshape(states, *shape)
            for (name, shape), x in zip(self.inputs.items(), arrays, strict=True)
        }
        report = Report(states, Counter(), Counter(), Counter(), 0)
        results = [
            np.empty((states, *shape), x.dtype)
            for x, shape in zip(out, self.outputs.values(), strict=True)
        ]
        shapes = dict(zip(self.inputs, (x.shape for x in arrays), strict=True))

        for start in range(0, states, PART):
            part = slice(start, start + PART)
            rows = {name: x[part] for name, x in inputs.items()}
            integers, saturated = quantised(datapath, rows, self._limits)
            if saturated and not self._saturates:
                beyond = first_beyond(datapath, inputs, self._ranges)
                name, state, position, *_ = beyond
                entry = name, shapes[name], self.inputs[name], lead, state, position
                raise beyond.error(EntryPlace(*entry), SATURATE)
            report = report._replace(saturated=report.saturated + saturated)
            report = self._of_part(integers, rows, [x[part] for x in results], report)
        for x, result in zip(results, out, strict=True):
            result[...] = x.reshape(result.shape)
        self.report = report

    def _of_part(
        self,
        integers: dict[str, np.ndarray],
        inputs: dict[str, np.ndarray],
        out: Sequence[np.ndarray],
        report: Report,
    ) -> Report:
        """Fills the results of some states, and returns the report with what happened in them."""
        results = self._golden(integers)
        numbers = floats(self.datapath, results.integers)
        lost = np.zeros(results.states, bool)
        if LOST in numbers:
            lost |= numbers[LOST][..., 0] > 0
        for x in inputs.values():
            lost |= np.isnan(x.reshape(results.states, -1)).any(-1)
        for name, x in zip(self.outputs, out, strict=True):
            x[...] = numbers[name]
            x[lost] = np.nan
        return Report(
            report.states,
            report.overflows + results.overflows,
            report.clamped + results.clamped,
            report.saturated,
            report.lost + int(np.count_nonzero(lost)),
        )

    def errors(self, *arrays: Any, **named: Any) -> Errors:
        """Returns the differences from float64 at states, which are passed as in a call; entries
        beyond their limits saturate.
        """
        fixed = self.saturating()
        results, exact = (f(*arrays, **named) for f in (fixed, self._function))
        self.report = fixed.report
        if len(self.outputs) == 1:
            results, exact = (results,), (exact,)
        errors = Errors({}, {}, {})
        for (name, shape), x, y in zip(self.outputs.items(), results, exact, strict=True):
            x, y = (z.reshape(-1, math.prod(shape)).astype(np.float64) for z in (x, y))
            known = ~np.isnan(x + y).any(-1)
            each = np.abs(x - y)[known].max(-1, initial=0.0)
            each = each if len(each) else np.array([math.nan])  # no state has results
            errors.median[name] = float(np.median(each))
            errors.largest[name] = float(each.max())
            errors.magnitude[name] = float(np.abs(y[~np.isnan(y).any(-1)]).max(initial=0.0))
        return errors
