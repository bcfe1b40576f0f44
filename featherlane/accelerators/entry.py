"""`featherlane.accelerator`: makes an accelerator from choices, or searches for the choices."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from featherlane.accelerators.accelerator import Accelerator
from featherlane.accelerators.bitstreams import Bitstream
from featherlane.accelerators.build_options import BuildOptions
from featherlane.accelerators.choices import (
    ALL_FUNCTIONS,
    ARRAYS,
    AUTO,
    BOARD_CLOCK,
    BOARD_POOLS,
    LIMBS,
    NETWORK,
    SLOWEST,
    DesignSpec,
    check_choices,
)
from featherlane.accelerators.designs import accelerator as of_function
from featherlane.accelerators.designs import designed, name_of_top
from featherlane.accelerators.designs import multifunction as of_functions
from featherlane.accelerators.front import GOALS, Front, Point, checked_bounds
from featherlane.accelerators.organise.pass_graph import SHARES
from featherlane.accelerators.search import FORMATS, INTERVALS, Space, kept
from featherlane.api.model import Model
from featherlane.api.presented import explained
from featherlane.backends import stages
from featherlane.backends.fpga import boards
from featherlane.backends.fpga.bitstream.build import LIMIT, NotRoutedError
from featherlane.errors import CompileError, no_attribute, one_of, shown
from featherlane.functions.arguments import is_count
from featherlane.functions.circuits import DEFERRED, FACTOR

UNITS = {
    "interval": " cycles", "latency": " cycles", "error": "",
    "dsp": " % of the DSPs", "lut": " % of the LUTs",
}  # fmt: skip
FLAT = (None,)  # arrays that are tried
TRIES = 3  # intervals of a build whose routing fails
F = TypeVar("F", bound=Callable[..., Any])


def _search(method: F) -> F:
    """A method whose errors name it as users write it."""
    method.__qualname__ = f"accelerator.{method.__name__}"
    return explained(method)


class Accelerators:
    """Makes accelerators: fixed-point pipelines for FPGAs that compute functions of robots.

    `accelerator(model, function, interval=, format=, ...)` makes an accelerator with these choices,
    `accelerator.design(model, function, dsp=, interval=, error=, latency=, lut=)` searches for the
    choices, and `accelerator.front(model, function)` returns all designs of the search. Without a
    function, the last two consider all seven functions in one design. `accelerator.build` makes the
    bitstream of a function for a board.

    Examples:
        >>> made = fl.accelerator(arm, "inverse_dynamics", interval=2)
        >>> made.function(q, v, a).shape, made.interval
        ((2,), 2)
    """

    __call__ = staticmethod(of_function)
    # Help and editors would take the first argument for self.
    __signature__ = signature(of_function)

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(name, "accelerator", ("design", "front", "build"), "fl.accelerator.")

    @_search
    def design(
        self,
        model: Model,
        function: str | None = None,
        *,
        dsp: float | None = None,
        interval: float | None = None,
        error: float | None = None,
        latency: float | None = None,
        lut: float | None = None,
        formats: Sequence[str] = FORMATS,
        intervals: Sequence[int] = INTERVALS,
        algorithms: Sequence[str] | None = None,
        arrays: Sequence[str | None] = FLAT,
        device: str = "xcvu9p",
        delays: str | None = None,
        clock: float = 125.0,
        sharing: str = "module",
        ranges: Mapping[str, tuple[Any, Any]] | None = None,
        name: str | None = None,
    ) -> Accelerator:
        """Returns the best accelerator within bounds.

        The design is the best one in the quantities without a bound, in the order interval, DSPs,
        error, latency, LUTs, and then in those with a bound: with dsp= and error= the one with the
        smallest interval, with interval= and error= the one with the fewest DSPs, with interval=
        and dsp= the most accurate one.

        Raises CompileError if no design is within the bounds, naming the nearest one, and
        ValueError for invalid bounds or candidates.

        Arguments:
            model: the robot
            function: a name, as in `accelerator`; None: all seven functions in one design, as in
                `multifunction`, whose latency is that of the derivatives of forward dynamics
            dsp: largest number of DSPs, in percent of the device; None: no bound
            interval: largest number of cycles from one state to the next, 1 to 4096; None: no bound
            error: largest error over 500 random states, of each output relative to its largest
                result; None: no bound
            latency: largest number of cycles from inputs to results; None: no bound
            lut: largest number of LUTs, in percent of the device, by an estimate; None: no bound
            formats: candidates of the format, as in `accelerator`
            intervals: candidates of the interval, and the bound, if it is a whole number
            algorithms: candidates of the algorithm, as in `accelerator`; None: all of the function
            arrays: candidates for `arrays` of `accelerator`; (None, "limbs", "columns") also
                considers arrays, which need fewer LUTs for more cycles, if they exist for the
                function, format and algorithm. For all functions, (None, "auto")
            device: a name in `backends.fpga.devices`
            delays: the name of one of the device's delay models; None: its first one
            clock: MHz
            sharing: operations that may share multipliers, as in `accelerator`
            ranges: {input: (low, high)}, as in `accelerator`; None: the model's limits
            name: the name of the top module; None: from the robot and the function

        Examples:
            >>> tried = {"formats": ["q16.16"], "intervals": [1, 4]}
            >>> found = fl.accelerator.design(arm, "inverse_dynamics", dsp=10, **tried)
            >>> found.interval
            1
        """
        bounds = checked_bounds(dsp=dsp, interval=interval, error=error, latency=latency, lut=lut)
        tried = _tried(intervals, interval)
        space = _space(model, function, device, delays, clock, sharing, ranges)
        formats, algorithms = _formats_and_algorithms(formats, algorithms)
        kinds = _arrays(arrays, function)
        # Without a bound of the interval the smallest one that has a design has the best.
        for step in [tried] if interval is not None else [[n] for n in tried]:
            for point in space.front(formats, step, algorithms, kinds).within(bounds):
                accelerator = designed(model, space.spec_of(point), name)
                dsps, luts, *_ = accelerator.cost.shares  # the search's, but for other schedules
                if dsps <= bounds.get("dsp", 100) and luts <= bounds.get("lut", 100):
                    return accelerator
        raise CompileError(_refusal(space.front(formats, tried, algorithms, kinds), bounds))

    @_search
    def front(
        self,
        model: Model,
        function: str | None = None,
        *,
        formats: Sequence[str] = FORMATS,
        intervals: Sequence[int] = INTERVALS,
        algorithms: Sequence[str] | None = None,
        arrays: Sequence[str | None] = FLAT,
        device: str = "xcvu9p",
        delays: str | None = None,
        clock: float = 125.0,
        sharing: str = "module",
        ranges: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> Front:
        """Returns the designs of a function, or of all seven functions in one (None), with their
        intervals, latencies, resources and errors. Its `best` are the designs that no other design
        equals or beats in all of these. For an arm, a design of inverse dynamics takes about a
        second, and a design of derivatives some seconds.

        Arguments:
            model: the robot
            function: a name, as in `accelerator`; None: all seven functions in one design, as in
                `multifunction`, whose latency is that of the derivatives of forward dynamics
            formats: candidates of the format, as in `accelerator`
            intervals: candidates of the interval
            algorithms: candidates of the algorithm, as in `accelerator`; None: all of the function
            arrays: candidates for `arrays` of `accelerator`; (None, "limbs", "columns") also
                considers arrays, which need fewer LUTs for more cycles, if they exist for the
                function, format and algorithm. For all functions, (None, "auto")
            device: a name in `backends.fpga.devices`
            delays: the name of one of the device's delay models; None: its first one
            clock: MHz
            sharing: operations that may share multipliers, as in `accelerator`
            ranges: {input: (low, high)}, as in `accelerator`; None: the model's limits

        Examples:
            >>> tried = {"formats": ["q16.16"], "intervals": [1, 4]}
            >>> front = fl.accelerator.front(arm, "inverse_dynamics", **tried)
            >>> len(front.best)
            2
        """
        space = _space(model, function, device, delays, clock, sharing, ranges)
        formats, algorithms = _formats_and_algorithms(formats, algorithms)
        tried, kinds = _tried(intervals, None), _arrays(arrays, function)
        return space.front(formats, tried, algorithms, kinds)

    @_search
    def build(
        self,
        model: Model,
        function: str | Sequence[str] = "inverse_dynamics",
        *,
        board: str,
        folder: str | Path,
        interval: int | Literal["auto"] = "auto",
        seeds: Sequence[int] = (1,),
        limit: float = LIMIT,
        verify: int = 0,
        baud: int | None = None,
        progress: Callable[[str], object] | None = None,
        **choices: Any,
    ) -> Bitstream:
        """Builds the bitstream of a function for a board, or of several, and returns it with the
        clock that it reached: `accelerator` or `multifunction` with `board=`, and `bitstream` of
        the result.

        Raises CompileError for a tool that is missing, and for a design that is not routed.

        Arguments:
            model: the robot
            function: a name, as in `accelerator`, or some of the names of `multifunction`, for all
                of these behind one serial port
            board: a name in `backends.fpga.boards`, such as "ulx3s"
            folder: where the files are written
            interval: clock cycles from one state to the next; "auto" as in `accelerator`, or the
                first of the next ones that is routed
            seeds: seeds of placement, as in `bitstream`
            limit: the longest time of a routing, s of a processor, as in `bitstream`
            verify: states that the routed netlist computes in a simulation, as in `bitstream`
            baud: of the serial port. None: the rate that the board's is documented to do
            progress: called with each stage as it begins, in words: formats, schedules, sources,
                tools, the simulation; None: nothing is
            choices: other arguments of `accelerator`, or of `multifunction`

        Examples:
            >>> built = fl.accelerator.build(arm, "mass_matrix", board="ulx3s", folder="built")
            >>> built.megahertz > 60
            True
        """
        make: Callable[..., Accelerator] = (
            of_function if isinstance(function, str) else of_functions
        )
        clock, named = choices.get("clock"), choices.get("name")
        check_choices(model, 1, BOARD_POOLS, BOARD_CLOCK if clock is None else clock)
        short = function if isinstance(function, str) else NETWORK
        options: dict[str, Any] = {"seeds": seeds, "limit": limit, "verify": verify, "baud": baud}
        BuildOptions.checked(  # before schedules of minutes
            folder, board=boards.board(board), megahertz=BOARD_CLOCK if clock is None else clock,
            name=name_of_top(model, short, named), **options,
        )  # fmt: skip
        with stages.told_to(progress):
            design = make(model, function, board=board, interval=interval, **choices)
            last = design.interval + (TRIES - 1 if isinstance(interval, str) else 0)
            while True:
                try:
                    return design.bitstream(folder, **options)
                except NotRoutedError as error:
                    if design.interval >= last:
                        raise
                    stages.begin(f"interval {design.interval + 1} is next: {error}")
                choices |= {"board": board, "interval": design.interval + 1}
                design = make(model, function, **choices)


def _space(
    model: Model,
    function: str | None,
    device: str,
    delays: str | None,
    clock: float,
    sharing: str,
    ranges: Mapping[str, tuple[Any, Any]] | None,
) -> Space:
    """The space of designs of a function, or of all for None. Raises TypeError or ValueError."""
    check_choices(model, 1, sharing, clock)
    if function is not None and not isinstance(function, str):
        raise TypeError(f"function is {shown(function)}: wanted the name of a function, or None")
    spec = DesignSpec(
        tuple(SHARES) if function is None else (function,),
        is_network=function is None,
        device=device,
        delays=delays,
        clock=float(clock),
        sharing=sharing,
        ranges={} if ranges is None else ranges,
    )
    target = spec.target
    with np.printoptions(threshold=sys.maxsize, precision=17):  # all entries, exactly
        written = repr(ranges)
    key = function, target.name, target.model, target.clock, sharing, written
    return kept(model, key, lambda: Space(model, spec))


def _formats_and_algorithms(formats: Any, algorithms: Any) -> tuple[list[str], list[str] | None]:
    """The formats and algorithms that are tried; None: all algorithms."""
    chosen = None if algorithms is None else _names("algorithms", algorithms, [DEFERRED, FACTOR])
    return _names("formats", formats, FORMATS), chosen


def _names(argument: str, names: Any, known: Sequence[str]) -> list[str]:
    """The names that are tried, each once. Raises ValueError unless it is a list of names."""
    listed = _several(argument, names, known)
    for name in listed:
        if not isinstance(name, str):
            raise ValueError(f"{argument} has {shown(name)}: wanted names, as {shown(known)}")
    return [*dict.fromkeys(listed)]


def _arrays(arrays: Any, function: str | None) -> list[str | None]:
    """The kinds of arrays that are tried. Raises ValueError for other ones."""
    known = [None, AUTO] if function is None else [None, *ARRAYS]
    kinds = _several("arrays", arrays, known)
    for kind in kinds:
        if kind not in known:
            of = "all functions" if function is None else "a function"
            raise ValueError(f"arrays of {of} has {shown(kind)}: {one_of(kind, known)}")
    return [*dict.fromkeys(kinds)]


def _several(name: str, values: Any, known: Sequence[Any]) -> list[Any]:
    """The values that are tried, as a list. Raises ValueError for none, and for a text."""
    listed = [] if isinstance(values, str) or not isinstance(values, Iterable) else [*values]
    if not listed:
        raise ValueError(f"{name} is {shown(values)}: wanted a list of some, as {shown(known)}")
    return listed


def _tried(intervals: Sequence[int], most: float | None) -> list[int]:
    """The intervals up to a bound, with the bound. Raises ValueError for what is no interval."""
    listed = _several("intervals", intervals, INTERVALS)
    for n in listed:
        if not is_count(n) or n > SLOWEST:
            raise ValueError(
                f"intervals has {shown(n)}: wanted whole numbers of cycles, 1 to {SLOWEST}"
            )
    tried = {*map(int, listed)}
    if most is None:
        return sorted(tried)
    if not 1 <= most <= SLOWEST:
        raise ValueError(f"interval is {shown(most)}: wanted the most it may be, 1 to {SLOWEST}")
    return sorted({n for n in tried if n <= most} | {int(most)})


def _refusal(front: Front, bounds: Mapping[str, float]) -> str:
    """The message for bounds that no design keeps to, which names the nearest design, or the
    smallest.
    """
    asked = ", ".join(f"{name} up to {most:g}{UNITS[name]}" for name, most in bounds.items())
    refusal = f"no design of {front.function} of {front.robot} has {asked or 'room'}"
    nearest: Point | None = front.nearest(bounds)
    if nearest is None:
        smallest = min(front.points, key=lambda p: max(p.dsp, p.luts, p.ffs), default=None)
        if smallest is None:
            return f"{refusal}: {'; '.join(front.refused.values())}"
        sharing = AUTO if front.function == ALL_FUNCTIONS else LIMBS
        untried = smallest.luts > 100 and not any(point.arrays for point in front.points)
        fewer = f", arrays={[sharing]} fewer LUTs where limbs are alike" if untried else ""
        return (
            f"{refusal}: none fits {front.device}; the smallest has {smallest}, "
            f"{smallest.luts:.0f} % of the LUTs and {smallest.ffs:.0f} % of the flip-flops: "
            f"longer intervals= need less{fewer}"
        )
    if not isfinite(nearest.error):
        return f"{refusal}: random states overflow, or are lost, in all that fit, as in {nearest}"
    missed = [
        name
        for name, figure in zip(GOALS, nearest.goals, strict=True)
        if name in bounds and figure > bounds[name]
    ]
    if not missed:  # the design has more than the search expected
        missed = [name for name in ("dsp", "lut") if name in bounds]
    luts = f", {nearest.luts:.2g} % of the LUTs" if "lut" in missed else ""
    return f"{refusal}: the nearest misses {' and '.join(missed)}, with {nearest}{luts}"


accelerator = Accelerators()
