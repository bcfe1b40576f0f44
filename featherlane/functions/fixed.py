"""Functions of robots in fixed point: what an accelerator gives, with the signature of the CPU's
functions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import Evaluator, floats, quantised
from featherlane.functions import arguments
from featherlane.functions.function import Function
from featherlane.program.passes.guards import LOST


class Report(NamedTuple):
    """What happened in a call. overflows: in how many states each node of `datapath.graph`
    overflowed. saturated: entries of each input that were beyond its format. lost: states whose
    results are NaN, since a pivot was lost to rounding or an input was NaN.
    """

    states: int
    overflows: Counter[int]
    saturated: Counter[str]
    lost: int


class Errors(NamedTuple):
    """Differences from float64: of the states' largest errors the median and the largest, and the
    largest magnitude of the results in float64, each by output. States with NaN do not count.
    """

    median: dict[str, float]
    largest: dict[str, float]
    magnitude: dict[str, float]


class FixedFunction(Function):
    """A function computed in fixed point, to the bit as a circuit with this datapath does.

    Calls take and give what the function in float64 does; `threads=` has no effect. Inputs beyond
    their formats saturate. States where a pivot is lost to rounding, or an input is NaN, give NaN.
    `report` tells what happened in the last call.
    """

    def __init__(
        self,
        function: Function,
        datapath: Callable[[], Datapath],
        origin: tuple[Callable[..., Any], tuple[Any, ...]] | None = None,
    ) -> None:
        """function: what is computed, in float64. datapath: makes the datapath."""
        self._function, self._make = function, datapath
        self._program: Evaluator | None = None
        self.report: Report | None = None

        def kernel(dtype: np.dtype) -> Any:
            return lambda *arrays, out: self._computed(arrays, out)

        shapes = function.inputs, function.outputs
        explain = function.explain
        super().__init__(function.name, *shapes, kernel, function.packed, explain, origin=origin)

    @property
    def datapath(self) -> Datapath:
        """The graph and the format of each node."""
        return self._evaluator().datapath

    def _evaluator(self) -> Evaluator:
        if self._program is None:
            self._program = Evaluator(self._make())
        return self._program

    def _threads(self, asked: int | None, states: int, dtype: np.dtype) -> int:
        arguments.threads_asked(asked)
        return 1

    def _computed(self, arrays: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> None:
        """Fills the results of a call."""
        program = self._evaluator()
        core = len(next(iter(self.outputs.values())))
        lead = out[0].shape[: out[0].ndim - core]
        given = {
            name: np.broadcast_to(x, lead + shape)
            for (name, shape), x in zip(self.inputs.items(), arrays, strict=True)
        }
        integers, saturated = quantised(program.datapath, given)
        results = program(integers)
        numbers = floats(program.datapath, results.integers)
        lost = numbers[LOST][..., 0] > 0 if LOST in numbers else np.zeros(lead, bool)
        for name, x in given.items():
            lost |= np.isnan(x).any(tuple(range(len(lead), len(lead) + len(self.inputs[name]))))
        for name, x in zip(self.outputs, out, strict=True):
            x[...] = numbers[name]
            x[lost] = np.nan
        states = math.prod(lead)
        self.report = Report(states, results.overflows, saturated, int(np.count_nonzero(lost)))

    def errors(self, *arrays: Any, **named: Any) -> Errors:
        """Returns the differences from float64 at states, given as in a call."""
        found, exact = (f(*arrays, **named) for f in (self, self._function))
        if len(self.outputs) == 1:
            found, exact = (found,), (exact,)
        errors = Errors({}, {}, {})
        for (name, shape), x, y in zip(self.outputs.items(), found, exact, strict=True):
            x, y = (z.reshape(-1, math.prod(shape)).astype(np.float64) for z in (x, y))
            known = ~np.isnan(x + y).any(-1)
            each = np.abs(x - y)[known].max(-1, initial=0.0)
            errors.median[name] = float(np.median(each)) if len(each) else math.nan
            errors.largest[name] = float(each.max(initial=0.0))
            errors.magnitude[name] = float(np.abs(y[known]).max(initial=0.0))
        return errors
