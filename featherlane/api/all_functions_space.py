"""The designs that all seven functions of a robot together can have."""

from __future__ import annotations

from functools import partial

from featherlane.api.design_space import (
    RUNS,
    STATES,
    Choice,
    Cuts,
    Made,
    Point,
    Ranges,
    Space,
    relative_error,
)
from featherlane.api.designing import NetworkDesigner
from featherlane.api.fixed import PROVED, Formats, checked_ranges, entry_bounds, input_ranges
from featherlane.api.model import Model
from featherlane.api.multifunction import datapath_of
from featherlane.api.pass_ranges import shapes_of
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga import devices
from featherlane.backends.fpga.network.cycles import latencies
from featherlane.backends.fpga.page.page import moved
from featherlane.functions.accelerator.graph import SHARES, function_datapath
from featherlane.functions.circuits import BOUNDED, DEFERRED, FACTOR
from featherlane.functions.fixed import FixedFunction
from featherlane.functions.table import Variant

DFD = "forward_dynamics_derivatives"
FUNCTIONS = tuple(SHARES)


class AllFunctionsSpace(Space):
    """The designs of all functions together. Of a point the latency is the longest one, that of the
    derivatives of forward dynamics, words and bits are theirs, and the error is the largest of all
    functions.
    """

    def __init__(
        self, model: Model, device: devices.Device, clock: float, sharing: str, ranges: Ranges
    ) -> None:
        super().__init__(model, DFD, device, clock, sharing, ranges)
        self.function = "all functions"
        self.given = checked_ranges(shapes_of(model), ranges)

    def algorithms(self, format: str) -> tuple[str | None, ...]:
        return (BOUNDED,) if Formats.named(format).kind == PROVED else (DEFERRED, FACTOR)

    def _computed(self, format: str, algorithm: str | None) -> Made:
        assert algorithm is not None
        datapath = datapath_of(self.model, FUNCTIONS, format, algorithm, self.given)
        error = max(self._error(datapath, name) for name in FUNCTIONS)
        return Made(datapath, error)

    def _error(self, datapath: Datapath, name: str) -> float:
        own = self.model._function(Variant(name))
        limits, states = input_ranges(self.model, shapes_of(self.model), self.given, 1, STATES)
        bounds = partial(entry_bounds, limits)
        fixed = FixedFunction(own, partial(function_datapath, datapath, name), bounds)
        return relative_error(fixed, {name: states[name] for name in own.inputs})

    def _look(self, choice: Choice, interval: int, made: Made | Cuts) -> Point:
        assert isinstance(made, Made), "arrays of one function"
        given = self.device, self.clock, self.sharing, FUNCTIONS
        designer = NetworkDesigner("tried", *given, runs=RUNS)
        found, needed, _ = designer.best(made.datapath, interval)
        dsp, luts, ffs, _ = needed.shares
        figures = interval, latencies(found)[DFD], dsp, made.error
        needs = round(needed.total.dsps), luts, ffs
        return Point(choice.format, choice.algorithm, *figures, *needs, *moved(found)[DFD])
