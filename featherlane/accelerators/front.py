"""The designs around one: their needs and errors, the best among them, and the one that a user's
bounds ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from sys import float_info
from typing import Any, NamedTuple, TypeVar

from featherlane.accelerators.choices import AUTO
from featherlane.accelerators.report.charts import Mark
from featherlane.errors import shown
from featherlane.functions.arguments import is_real

GOALS = "interval", "dsp", "error", "latency", "lut"  # in the order in which they are minimised
FRONT = 4  # the first goals, those of the front
T = TypeVar("T")


class DesignChoice(NamedTuple):
    """The choices that designs of all intervals share."""

    format: str
    algorithm: str | None
    arrays: str | None = None

    def __str__(self) -> str:
        what = "limbs and columns" if self.arrays == AUTO else self.arrays
        shared = f"{what} time-multiplexed" if what else None
        return ", ".join(text for text in (self.format, self.algorithm, shared) if text)


class Point(NamedTuple):
    """A design. interval, latency: clock cycles; dsp, luts, ffs: shares of the device in percent;
    dsps: how many; error: the largest error over random states, of each output a part of the
    largest result there is, and of all outputs the largest, where each sum is rounded (of sums in
    post-adders it is about the same); infinite where a state has no result;
    words, bits: of a state and its results; arrays: their kind, None in one pipeline.
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
        """The figures to minimise, in the order of `GOALS`."""
        return self.interval, self.dsp, self.error, self.latency, self.luts

    @property
    def choice(self) -> DesignChoice:
        """The choices that it shares with designs of other intervals."""
        return DesignChoice(self.format, self.algorithm, self.arrays)

    def __str__(self) -> str:
        return (
            f"interval {self.interval}, {self.dsp:.1f} % of the DSPs, error {self.error:.1e}, "
            f"latency {self.latency} cycles ({self.choice})"
        )


@dataclass(frozen=True)
class Front:
    """Designs of a function. clock: nanoseconds a cycle; points: all that were looked at; refused:
    why others were not made, by format, algorithm and arrays.
    """

    robot: str
    function: str
    device: str
    clock: float
    points: tuple[Point, ...]
    refused: Mapping[str, str]

    @property
    def best(self) -> tuple[Point, ...]:
        """The designs that fit and that no other one equals or beats in interval, DSPs, error and
        latency: the Pareto front. LUTs count as a bound alone: with them nearly all would be here.
        """
        return tuple(pareto([p for p in self.points if p.fits], key=lambda p: p.goals[:FRONT]))

    def within(self, bounds: Mapping[str, float]) -> list[Point]:
        """The designs that fit and keep the bounds, by name of `GOALS`: the best first in what has
        no bound, in the order of `GOALS`, then in what has one. None overflows in random states.
        """
        points = [p for p in self.points if p.fits and _excess(p, bounds) <= 0]
        return sorted(points, key=lambda p: _rank(p, bounds))

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
        described = [f"{f} of {robot} on {on} at {ns:g} ns" for robot, f, on, ns in (came, of)]
        raise ValueError(f"front is of {described[0]}: wanted {described[1]}, as this design is")
    best, choice = {*front.best}, DesignChoice(*(choices[name] for name in DesignChoice._fields))
    return [
        Mark(
            p.interval, p.latency, p.dsp, p.error, p.format,
            str(DesignChoice(p.algorithm or "", None, p.arrays)), p.bits,
            p in best, (p.choice, p.interval) == (choice, interval),
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
        numbers = key(point)
        if not any(all(x <= y for x, y in zip(other, numbers, strict=True)) for other in kept):
            kept.append(numbers)
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


def checked_bounds(**bounds: Any) -> dict[str, float]:
    """Returns the bounds that are given. Raises ValueError for what is no positive number."""
    checked = {}
    for name, most in bounds.items():
        if most is None:
            continue
        if not is_real(most, 0, float_info.max) or not most:
            raise ValueError(f"{name} is {shown(most)}: wanted the most it may be, above 0")
        checked[name] = float(most)
    return checked
