"""The designs that a function of a robot can have: formats, algorithms, arrays and intervals, what
each needs and how exact it is, the best among them, and the one that a user's bounds ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from sys import float_info
from typing import Any, NamedTuple, TypeVar

import numpy as np

from featherlane.accelerators.cutting import AUTO, FunctionCutter, HasNoArrays, of_arrays
from featherlane.accelerators.designers import ArrayDesigner, Designer
from featherlane.accelerators.organise.arrays import Arrays
from featherlane.accelerators.organise.streams import Streamed
from featherlane.accelerators.report.charts import Mark
from featherlane.api.fixed import (
    FITTED,
    PROVED,
    UNIFORM,
    Formats,
    check_not_constant,
    checked_ranges,
    fixed_function,
    input_ranges,
    named_in_ranges,
)
from featherlane.api.model import Model
from featherlane.api.names import variant_named
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga import devices
from featherlane.errors import CompileError, shown
from featherlane.functions.arguments import is_real
from featherlane.functions.circuits import BOUNDED, CIRCUITS, DEFERRED
from featherlane.functions.fixed import FixedFunction
from featherlane.functions.table import Variant
from featherlane.robot.tree_of import tree_of

FORMATS = UNIFORM, FITTED, PROVED
INTERVALS = 1, 2, 3, 4, 6, 8, 12, 16
STATES = 500  # over which errors are found
RUNS = 4  # schedules of each design: forward and backward twice
GOALS = "interval", "dsp", "error", "latency", "lut"  # in the order in which they are minimised
TOGETHER = "all functions"  # the name of a design of all of them
FRONT = 4  # the first goals, those of the front
Ranges = Mapping[str, tuple[Any, Any]] | None
T = TypeVar("T")


class DesignChoice(NamedTuple):
    """What the designs of all intervals share."""

    format: str
    algorithm: str | None
    arrays: str | None = None

    def __str__(self) -> str:
        what = "limbs and columns" if self.arrays == AUTO else self.arrays
        turns = f"{what} in turn" if what else None
        return ", ".join(told for told in (self.format, self.algorithm, turns) if told)


class Point(NamedTuple):
    """A design. interval, latency: clock cycles; dsp, luts, ffs: shares of the device in percent;
    dsps: how many; error: the largest error over random states, of each output a part of the
    largest result there is, and of all outputs the largest, where each sum is rounded (of sums in
    post-adders it is about the same); infinite where a state has no result;
    words, bits: of a state and its results; arrays: what takes turns, None in one pipeline.
    """

    format: str
    algorithm: str | None
    interval: int
    latency: int
    dsp: float
    error: float
    dsps: int
    luts: float
    ffs: float
    words: int
    bits: int
    arrays: str | None = None

    @property
    def fits(self) -> bool:
        """Whether the device holds it."""
        return max(self.dsp, self.luts, self.ffs) <= 100

    @property
    def goals(self) -> tuple[float, ...]:
        """What is to be small, in the order of `GOALS`."""
        return self.interval, self.dsp, self.error, self.latency, self.luts

    @property
    def choice(self) -> DesignChoice:
        """What it shares with the designs of other intervals."""
        return DesignChoice(self.format, self.algorithm, self.arrays)

    def __str__(self) -> str:
        return (
            f"interval {self.interval}, {self.dsp:.1f} % of the DSPs, error {self.error:.1e}, "
            f"latency {self.latency} cycles ({self.choice})"
        )


@dataclass(frozen=True)
class Front:
    """Designs of a function. clock: nanoseconds a cycle; points: all that were looked at; refused:
    why others were not made, by format, algorithm and what takes turns.
    """

    robot: str
    function: str
    device: str
    clock: float
    points: tuple[Point, ...]
    refused: Mapping[str, str]

    @property
    def best(self) -> tuple[Point, ...]:
        """Those that fit and that no other one equals or beats in interval, DSPs, error and
        latency: the Pareto front. LUTs count as a bound alone: with them nearly all would be here.
        """
        return tuple(pareto([p for p in self.points if p.fits], key=lambda p: p.goals[:FRONT]))

    def within(self, bounds: Mapping[str, float]) -> list[Point]:
        """Those that fit and keep the bounds, by name of `GOALS`: the best first in what has no
        bound, in the order of `GOALS`, then in what has one. None overflows in random states.
        """
        found = [p for p in self.points if p.fits and _excess(p, bounds) <= 0]
        return sorted(found, key=lambda p: _rank(p, bounds))

    def nearest(self, bounds: Mapping[str, float]) -> Point | None:
        """The one that misses its worst bound by the smallest part; None if none fits."""
        fitting = [p for p in self.points if p.fits]
        return min(fitting, key=lambda p: (_excess(p, bounds), _rank(p, bounds)), default=None)


def marks(
    front: Front, of: tuple[str, str, str, float], choices: Mapping[str, Any], interval: int
) -> list[Mark]:
    """The designs that fit, for charts. of: the robot, the function, the device and the clock that
    they are drawn for; choices: those of its own design, by name. Raises TypeError for what is no
    front, ValueError for that of something else.
    """
    if not isinstance(front, Front):
        raise TypeError(f"front is {shown(front)}: wanted what accelerator.front returns, or None")
    came = front.robot, front.function, front.device, front.clock
    if came != of:
        told = [f"{f} of {robot} on {on} at {ns:g} ns" for robot, f, on, ns in (came, of)]
        raise ValueError(f"front is of {told[0]}: wanted {told[1]}, as this design is")
    best, own = {*front.best}, DesignChoice(*(choices[name] for name in DesignChoice._fields))
    return [
        Mark(
            p.interval, p.latency, p.dsp, p.error, p.format,
            str(DesignChoice(p.algorithm or "", None, p.arrays)), p.bits,
            p in best, (p.choice, p.interval) == (own, interval),
        )
        for p in front.points
        if p.fits
    ]  # fmt: skip


def pareto(points: Iterable[T], key: Callable[[T], tuple[float, ...]]) -> Iterator[T]:
    """Yields the points that no other equals or beats in all numbers of their keys, sorted by key;
    of equal points the first.
    """
    kept = list[tuple[float, ...]]()
    for point in sorted(points, key=key):  # what beats a point stands before it
        own = key(point)
        if not any(all(x <= y for x, y in zip(other, own, strict=True)) for other in kept):
            kept.append(own)
            yield point


def _rank(point: Point, bounds: Mapping[str, float]) -> tuple[float, ...]:
    named = dict(zip(GOALS, point.goals, strict=True))
    free = [named[name] for name in GOALS if name not in bounds]
    return *free, *(named[name] for name in GOALS if name in bounds)


def _excess(point: Point, bounds: Mapping[str, float]) -> float:
    """By which part of it a point misses its worst bound; 0 or less of one that keeps them all, and
    infinite of one that overflows in random states.
    """
    if not isfinite(point.error):
        return inf
    named = dict(zip(GOALS, point.goals, strict=True))
    return max((named[name] / most - 1 for name, most in bounds.items()), default=0.0)


def checked_bounds(**given: Any) -> dict[str, float]:
    """Returns the bounds that are given. Raises ValueError for what is no positive number."""
    found = {}
    for name, most in given.items():
        if most is None:
            continue
        if not is_real(most, 0, float_info.max) or not most:
            raise ValueError(f"{name} is {shown(most)}: wanted the most it may be, above 0")
        found[name] = float(most)
    return found


class Made(NamedTuple):
    """A function in a format by an algorithm: what all its designs share."""

    datapath: Datapath
    error: float

    def at(self, interval: int) -> tuple[Datapath, float]:
        """What is computed at an interval, and its error."""
        return self.datapath, self.error


class Cuts:
    """Functions in arrays, which may be other ones at another interval. cut: what is computed at an
    interval; error: that of the whole of it.
    """

    def __init__(
        self, cut: Callable[[int], Arrays | Streamed], error: Callable[[Datapath], float]
    ) -> None:
        self._cut, self._error = cut, error
        self._errors: dict[Arrays | Streamed, float] = {}

    def at(self, interval: int) -> tuple[Arrays | Streamed, float]:
        """What is computed at an interval, and its error."""
        cut = self._cut(interval)
        if cut not in self._errors:
            self._errors[cut] = self._error(cut.whole)
        return cut, self._errors[cut]


class Space:
    """The designs of a function of a model on a device at a clock. What was made is kept."""

    def __init__(
        self,
        model: Model,
        function: str,
        device: devices.Device,
        sharing: str,
        ranges: Ranges,
    ) -> None:
        self.model, self.function, self.ranges = model, function, ranges
        self.device, self.sharing = device, sharing
        self.variant: Variant = variant_named(model, function)
        self._made: dict[DesignChoice, Made | Cuts | str] = {}
        self._points: dict[tuple[DesignChoice, int], Point] = {}

    def algorithms(self, format: str) -> tuple[str | None, ...]:
        """Those that a format takes: in proved formats the one that states bounds, if there is one;
        else all others.
        """
        known = CIRCUITS.get(self.variant.name, {})
        if not known or tree_of(self.model).coupled:
            return (None,)
        if Formats.named(format).kind == PROVED and BOUNDED in known:
            return (BOUNDED,)
        return tuple(name for name in known if name != BOUNDED)

    def _algorithms(self, format: str, arrays: str | None) -> tuple[str | None, ...]:
        """Those that are tried if none are named: in arrays without those whose limbs wait for each
        other.
        """
        known = self.algorithms(format)
        return tuple(name for name in known if not arrays or name != DEFERRED)

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
        for turns in arrays:
            for format in formats:
                for algorithm in algorithms or self._algorithms(format, turns):
                    choice = DesignChoice(format, algorithm, turns)
                    made = self._function(choice)
                    if isinstance(made, str):
                        refused[str(choice)] = made
                        continue
                    points += [self._point(choice, n, made) for n in intervals]
        named = self.model.name, self.function, self.device.name
        return Front(*named, self.device.clock, tuple(points), refused)

    def _function(self, choice: DesignChoice) -> Made | Cuts | str:
        """A function in a format by an algorithm, or in arrays, or why there is none."""
        if choice not in self._made:
            try:
                self._made[choice] = (
                    self._cut(choice) if choice.arrays else self._computed(*choice[:2])
                )
            except CompileError as error:
                self._made[choice] = str(error)
        return self._made[choice]

    def _computed(self, format: str, algorithm: str | None) -> Made:
        fixed = fixed_function(self.model, self.variant, format, self.ranges, algorithm)
        check_not_constant(self.function, self.model, fixed.datapath.graph)
        states = _states(fixed, self.model, self.ranges)
        return Made(fixed.datapath, relative_error(fixed, states))

    def _cut(self, choice: DesignChoice) -> Cuts:
        format, algorithm, arrays = choice
        given = self.model, self.variant, format, self.ranges
        fixed = fixed_function(*given, of_arrays(self.variant.name, algorithm))
        try:
            cutter = FunctionCutter(*given, fixed.algorithm, str(arrays), self.device)
            cut, _ = cutter.at(1)
        except HasNoArrays as why:
            raise CompileError(str(why)) from why
        check_not_constant(self.function, self.model, cut.whole.graph)

        def error(whole: Datapath) -> float:
            states = _states(fixed, self.model, self.ranges)
            return relative_error(fixed.computed_by(whole), states)

        return Cuts(lambda interval: cutter.at(interval)[0], error)

    def _point(self, choice: DesignChoice, interval: int, made: Made | Cuts) -> Point:
        key = choice, interval
        if key not in self._points:
            self._points[key] = self._look(choice, interval, made)
        return self._points[key]

    def _look(self, choice: DesignChoice, interval: int, made: Made | Cuts) -> Point:
        computed, error = made.at(interval)
        found, needed, _ = self._designer(choice.arrays).best(computed, interval)
        latency, words, bits = self._timing(found)
        dsp, luts, ffs, _ = needed.shares
        figures = interval, latency, dsp, error
        needs = round(needed.total.dsps), luts, ffs
        return Point(choice.format, choice.algorithm, *figures, *needs, words, bits, choice.arrays)

    def _designer(self, arrays: str | None) -> Any:
        """What makes designs, in a hurry."""
        designer: Any = ArrayDesigner if arrays else Designer
        return designer("tried", self.device, self.sharing, RUNS)

    def _timing(self, made: Any) -> tuple[int, int, int]:
        """Cycles of a design, words and bits of a state and its results."""
        words = len(made.inputs) + len(made.outputs)
        return made.latency, words, made.input_bits + made.output_bits


def _states(fixed: FixedFunction, model: Model, ranges: Ranges) -> dict[str, np.ndarray]:
    """Random states within the ranges of the inputs."""
    given = checked_ranges(named_in_ranges(fixed.inputs), ranges)
    return input_ranges(model, fixed.inputs, given, 1, STATES)[1]


def relative_error(fixed: FixedFunction, states: Mapping[str, np.ndarray]) -> float:
    """The largest error of each output over states, a part of the largest result: of all outputs
    the largest; infinite where a state is lost or overflows.
    """
    errors = fixed.errors(**states)
    assert fixed.report is not None
    if fixed.report.lost or fixed.report.overflows or fixed.report.saturated:
        return inf
    each = [x / (errors.magnitude[name] or 1.0) for name, x in errors.largest.items()]
    return max(each) if all(map(isfinite, each)) else inf


def kept(model: Model, key: Any, make: Callable[[], Space]) -> Space:
    """The designs of a model by a key: those that were looked at before, or new ones. The model has
    them, for as long as it lives.
    """
    own: dict[Any, Space] = vars(model).setdefault("_spaces", {})
    if key not in own:
        own[key] = make()
    return own[key]
