"""The designs that all seven functions of a robot together can have."""

from __future__ import annotations

from functools import partial
from typing import Any

from featherlane.accelerators.cutting import functions_in_arrays
from featherlane.accelerators.designers import ArrayNetworkDesigner, NetworkDesigner
from featherlane.accelerators.multifunction import check_constants, datapath_of
from featherlane.accelerators.organise.pass_graph import SHARES, function_datapath
from featherlane.accelerators.ranges import shapes_of
from featherlane.accelerators.report.page import moved
from featherlane.accelerators.search import (
    RUNS,
    STATES,
    TOGETHER,
    Cuts,
    DesignChoice,
    Made,
    Ranges,
    Space,
    relative_error,
)
from featherlane.api.fixed import PROVED, Formats, checked_ranges, entry_bounds, input_ranges
from featherlane.api.model import Model
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga import devices
from featherlane.backends.fpga.network.cycles import latencies
from featherlane.errors import CompileError
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

    def __init__(self, model: Model, device: devices.Device, sharing: str, ranges: Ranges) -> None:
        super().__init__(model, DFD, device, sharing, ranges)
        self.function = TOGETHER
        self.given = checked_ranges(shapes_of(model), ranges)

    def algorithms(self, format: str) -> tuple[str | None, ...]:
        return (BOUNDED,) if Formats.named(format).kind == PROVED else (DEFERRED, FACTOR)

    def _computed(self, format: str, algorithm: str | None) -> Made:
        assert algorithm is not None
        datapath = datapath_of(self.model, FUNCTIONS, format, algorithm, self.given)
        return Made(datapath, self._largest_error(datapath))

    def _cut(self, choice: DesignChoice) -> Cuts:
        given = choice.format, self.given, str(choice.algorithm), self.device
        try:
            cut = functions_in_arrays(self.model, FUNCTIONS, *given)
        except ValueError as why:  # of an algorithm
            raise CompileError(str(why)) from why
        check_constants(self.model.name, FUNCTIONS, cut.at(1).design.whole.graph)
        return Cuts(lambda interval: cut.at(interval).design, self._largest_error)

    def _largest_error(self, datapath: Datapath) -> float:
        return max(self._error(datapath, name) for name in FUNCTIONS)

    def _error(self, datapath: Datapath, name: str) -> float:
        own = self.model._function(Variant(name))
        limits, states = input_ranges(self.model, shapes_of(self.model), self.given, 1, STATES)
        bounds = partial(entry_bounds, limits)
        fixed = FixedFunction(own, partial(function_datapath, datapath, name), bounds)
        return relative_error(fixed, {name: states[name] for name in own.inputs})

    def _designer(self, arrays: str | None) -> Any:
        designer: Any = ArrayNetworkDesigner if arrays else NetworkDesigner
        return designer("tried", self.device, self.sharing, FUNCTIONS, runs=RUNS)

    def _timing(self, made: Any) -> tuple[int, int, int]:
        return latencies(made)[DFD], *moved(made)[DFD]
