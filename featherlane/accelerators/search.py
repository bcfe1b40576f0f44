"""The search for designs: of formats, algorithms, arrays and intervals, all that a function, or
several in one design, can have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from featherlane.accelerators.choices import DesignSpec
from featherlane.accelerators.computation import Computation, HasNoArrays, Whole, flat_of
from featherlane.accelerators.designers import Designer, latency_of
from featherlane.accelerators.front import DesignChoice, Front, Point
from featherlane.api.fixed import FITTED, PROVED, UNIFORM, Formats
from featherlane.api.model import Model
from featherlane.api.named_variants import variant_named
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.network.words import moved
from featherlane.backends.fpga.verilog import Design
from featherlane.errors import CompileError
from featherlane.functions.circuits import BOUNDED, CIRCUITS, DEFERRED, FACTOR
from featherlane.robot.tree_of import tree_of

FORMATS = UNIFORM, FITTED, PROVED
INTERVALS = 1, 2, 3, 4, 6, 8, 12, 16
STATES = 500  # over which errors are found
RUNS = 4  # schedules of each design: forward and backward twice


class Space:
    """The designs of the functions of a spec; results are kept. Of several functions a point has
    the longest latency, that of the last one by code, whose words and bits it has too, and the
    largest error of all.
    """

    def __init__(self, model: Model, spec: DesignSpec) -> None:
        self.model, self.spec = model, spec
        self._computations: dict[DesignChoice, Computation | str] = {}
        self._errors: dict[Whole, float] = {}
        self._points: dict[tuple[DesignChoice, int], Point] = {}

    def algorithms(self, format: str) -> tuple[str | None, ...]:
        """The algorithms that a format takes: in proved formats the one that states bounds, if
        there is one; else all others.
        """
        is_proved = Formats.named(format).kind == PROVED
        if self.spec.is_network:
            return (BOUNDED,) if is_proved else (DEFERRED, FACTOR)
        known = CIRCUITS.get(variant_named(self.model, self.spec.label).name, {})
        if not known or tree_of(self.model).coupled:
            return (None,)
        if is_proved and BOUNDED in known:
            return (BOUNDED,)
        return tuple(name for name in known if name != BOUNDED)

    def _algorithms(self, format: str, arrays: str | None) -> tuple[str | None, ...]:
        """The algorithms that are tried by default: in arrays without those whose limbs wait for
        each other.
        """
        return tuple(name for name in self.algorithms(format) if not arrays or name != DEFERRED)

    def front(
        self,
        formats: Sequence[str] = FORMATS,
        intervals: Sequence[int] = INTERVALS,
        algorithms: Sequence[str] | None = None,
        arrays: Sequence[str | None] = (None,),
    ) -> Front:
        """Looks at all designs of some formats, intervals, algorithms (by default all), and
        arrays.
        """
        points, refused = list[Point](), dict[str, str]()
        for kind in arrays:
            for format in formats:
                for algorithm in algorithms or self._algorithms(format, kind):
                    choice = DesignChoice(format, algorithm, kind)
                    computation = self._computation(choice)
                    if isinstance(computation, str):
                        refused[str(choice)] = computation
                        continue
                    points += [self._point(choice, n, computation) for n in intervals]
        device = self.spec.target
        head = self.model.name, self.spec.label, device.name, device.clock
        return Front(*head, tuple(points), refused)

    def spec_of(self, point: Point) -> DesignSpec:
        """The spec of a design that was looked at."""
        sharing = "whole" if point.arrays else self.spec.sharing
        return replace(
            self.spec, **point.choice._asdict(), interval=point.interval, sharing=sharing
        )

    def _computation(self, choice: DesignChoice) -> Computation | str:
        """The computation of a choice, or the reason why there is none."""
        if choice not in self._computations:
            try:
                self._computations[choice] = self._checked(choice)
            except (CompileError, HasNoArrays) as error:
                self._computations[choice] = str(error)
        return self._computations[choice]

    def _checked(self, choice: DesignChoice) -> Computation:
        spec = replace(self.spec, **choice._asdict())
        computation = Computation.of(self.model, spec)
        whole, _ = computation.at(1)
        computation.check_outputs(flat_of(whole).graph)
        if not choice.arrays:
            self._error(computation, whole)
        return computation

    def _error(self, computation: Computation, whole: Whole) -> float:
        if whole not in self._errors:
            self._errors[whole] = computation.error(flat_of(whole), STATES)
        return self._errors[whole]

    def _point(self, choice: DesignChoice, interval: int, computation: Computation) -> Point:
        key = choice, interval
        if key not in self._points:
            self._points[key] = self._look(choice, interval, computation)
        return self._points[key]

    def _look(self, choice: DesignChoice, interval: int, computation: Computation) -> Point:
        """The point of a choice at an interval: the design's resources, latency and error."""
        whole, _ = computation.at(interval)
        error = self._error(computation, whole)
        design, needed, _ = Designer("tried", computation.spec, RUNS).best(whole, interval)
        dsp, luts, ffs, *_ = needed.shares
        words, bits = _moved(design)
        return Point(
            choice.format,
            choice.algorithm,
            interval,
            [*latency_of(design).values()][-1],
            dsp,
            error,
            round(needed.total.dsps),
            luts,
            ffs,
            words,
            bits,
            choice.arrays,
        )


def _moved(design: Design | Network) -> tuple[int, int]:
    """The words and the bits of a task and its results, of the last function of a network."""
    if isinstance(design, Network):
        return [*moved(design).values()][-1]
    return len(design.inputs) + len(design.outputs), design.input_bits + design.output_bits


def kept(model: Model, key: Any, make: Callable[[], Space]) -> Space:
    """The designs of a model by a key: those that were looked at before, or new ones. The model has
    them, for as long as it lives.
    """
    spaces: dict[Any, Space] = vars(model).setdefault("_spaces", {})
    if key not in spaces:
        spaces[key] = make()
    return spaces[key]
