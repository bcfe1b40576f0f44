"""`featherlane.accelerator`: a function of a robot as a pipeline in fixed point for an FPGA."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil, isfinite, prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

import featherlane
from featherlane.accelerators.board import SEEDS, STALLS, Board
from featherlane.accelerators.cutting import ARRAYS, FunctionCutter, of_arrays
from featherlane.accelerators.designers import SHARING, ArrayDesigner, Designer
from featherlane.accelerators.organise.organisation import Organisation
from featherlane.accelerators.report import page
from featherlane.accelerators.report import trace as traces
from featherlane.accelerators.report.boxes import boxes
from featherlane.accelerators.report.charts import Mark
from featherlane.accelerators.report.drawing import legend, svg
from featherlane.accelerators.search import Front, marks
from featherlane.api.fixed import (
    Ends,
    check_not_constant,
    check_overflow,
    checked_ranges,
    fixed_function,
    input_ranges,
    named_in_ranges,
)
from featherlane.api.model import Model
from featherlane.api.names import variant_named
from featherlane.backends.cache import digest
from featherlane.backends.fixed.evaluate import Evaluator, floats, quantised
from featherlane.backends.fpga import devices, folder, words
from featherlane.backends.fpga.board.core import core_of
from featherlane.backends.fpga.board.wrapper import WrappedCore
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.report import facts, report
from featherlane.backends.fpga.resources import Resources
from featherlane.backends.fpga.simulation import simulate
from featherlane.backends.fpga.verilog import Design, check_name
from featherlane.errors import CompileError, one_of, shown
from featherlane.functions.arguments import alike, counted, is_count, is_real, lead_of, whole
from featherlane.functions.array_like import WrenchFrame
from featherlane.functions.fixed import FixedFunction
from featherlane.functions.shape_hints import shape_hint
from featherlane.functions.table import Variant
from featherlane.functions.variants import check_variant
from featherlane.functions.wrenches import WRENCH_FRAMES
from featherlane.program.analysis.pipeline import Pipeline

LINK = 32.0  # bytes a nanosecond between memory and the streams, as Dadu-RBD (2023) has
SIMULATORS = {"verilator": simulate.verilator, "icarus": simulate.icarus}
LONGEST, SLOWEST = 256, 4096  # cycles of an interval: that are tried, that may be asked for
STATES = 1000  # over which errors are reported
STREAM = 2  # cycles that the streams add to a pipeline's latency


class Run(NamedTuple):
    """What a simulation gives. outputs: integers (..., *shape) by name, "lost" among them; results:
    the numbers that they stand for; accepted, emitted: the clock cycles in which each state, in C
    order, went in and its result came out; saturated: entries of each input beyond its format;
    design: a digest of the sources that were simulated.
    """

    outputs: dict[str, np.ndarray]
    results: dict[str, np.ndarray]
    accepted: np.ndarray
    emitted: np.ndarray
    saturated: Mapping[str, int]
    design: str

    @property
    def cycles(self) -> np.ndarray:
        """Clock cycles from the acceptance of each state to its result."""
        return self.emitted - self.accepted


@dataclass(frozen=True, eq=False)
class Accelerator:
    """A function of a robot as a pipeline for a device; `accelerator` makes it.

    function: what it computes, callable as any `Function`, to the bit. design: the sources in
    SystemVerilog. cost: what it needs of the device. choices: by the names of `accelerator`'s
    arguments, which makes the same again of them, `ranges` and `name`. variant: the function with
    the axes and frames of its wrenches. organisation: of its arrays, if it has some.

    Examples:
        >>> made = fl.accelerator(arm, "inverse_dynamics", interval=4)
        >>> states = made.samples(100)
        >>> made.function(**states).shape
        (100, 2)
    """

    name: str
    model: Model
    function: FixedFunction
    device: devices.Device
    design: Design
    cost: DesignCost
    ranges: Mapping[str, tuple[Any, Any]]
    choices: Mapping[str, Any]
    variant: Variant
    organisation: Organisation | None = None

    @property
    def interval(self) -> int:
        """Cycles from one state to the next."""
        return self.pipeline.interval

    @property
    def latency(self) -> int:
        """Cycles from the inputs of a state to its results, without its way through the streams."""
        return self.pipeline.latency

    @property
    def pipeline(self) -> Pipeline:
        """When and where each operation runs; of arrays, when values cross between them."""
        return self.design.pipeline

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The report as data."""
        needed, known = self.cost.total, facts(self.design)
        moved = 4 * sum(len(x) for x in (self.design.inputs, self.design.outputs)) / LINK
        errors = self.function.errors(**self.samples(STATES))
        happened = self.function.report
        assert happened is not None
        return {
            "robot": self.model.name,
            **self.choices,
            "joints": list(self.model.joint_names),
            "ranges": {name: [x.tolist() for x in ends] for name, ends in self._limits.items()},
            "made_by": f"featherlane {featherlane.__version__}",
            "device": self.device.name,
            "delays": self.device.model,
            **known,
            "latency_with_words_us": self.pipeline.time + moved * 1e-3,
            "states_per_second_with_words": min(self.pipeline.throughput, 1e9 / moved),
            "needs": {name: round(n) for name, n in _counted(needed)},  # LUTs, FFs: estimates
            "percent_of_device": dict(_counted(self.cost.shares)),
            "states_of_errors": STATES,
            "overflows_in_them": sum(happened.overflows.values()),  # of signals
            "clamped_in_them": sum(happened.clamped.values()),
            "saturated_in_them": sum(happened.saturated.values()),  # entries of inputs
            "lost_of_them": happened.lost,  # states without results
            "largest_error": _finite(errors.largest),
            "median_error": _finite(errors.median),
            "largest_result": _finite(errors.magnitude),
            "proved_bound_of_errors": {
                name: None if bound is None or bound > errors.magnitude[name] else bound
                for name, bound in _finite(self.function.error_bounds()).items()
            },
        }

    @cached_property
    def _digest(self) -> str:
        """Tells designs apart: the same for the same sources."""
        return digest(json.dumps(self.design.sources).encode())

    @property
    def summary(self) -> str:
        """A line with the main figures."""
        return (
            f"interval {self.interval}, latency {self.latency} cycles of {self.pipeline.clock:g} "
            f"ns, {self.cost.told(1)}"
        )

    def __str__(self) -> str:
        """The report as text."""
        return report(self.facts)

    def write(self, folder_: str | Path, states: int = 20) -> list[Path]:
        """Writes the sources, constants, a test bench with vectors of some states, constraints and
        reports (JSON, text) into a folder and returns the files. `iverilog -g2012 *.sv` there makes
        a simulation that says how many states passed. Raises ValueError for a folder that cannot be
        written to, or holds another design.
        """
        vectors = self._vectors(counted("states", states))
        constraints = self.device.constraints
        return folder.write(self.design, folder_, *vectors, self.facts, constraints)

    def report(self, file: str | Path, front: Front | None = None) -> Path:
        """Writes a page about the design, which needs no other file, for a browser: its arrays and
        modules, the timeline of its pipeline, how busy units are, what modules need, errors with
        bounds, the designs around it and the roof of words. Returns the file.

        front: the designs around it, as `accelerator.front` gives them for this function, device
        and clock; their search takes a second or so for each, minutes for derivatives of an arm, so
        that there are none by default. Raises TypeError for what is no front, ValueError for that
        of another function and for a file that cannot be written.
        """
        around = [] if front is None else self._marks(front)
        robot = page.Robot(self.model.name, self.model.joint_names, self.model.parent)
        told = None if self.organisation is None else figure_of(self.organisation)
        given = self.design, self.cost, robot, self.facts, around, LINK, told
        return written(file, page.page(*given))

    def _marks(self, front: Front) -> list[Mark]:
        """The designs of a front, for charts. Raises ValueError for those of something else."""
        function, clock = self.choices["function"], self.pipeline.clock
        of = self.model.name, function, self.device.name, clock
        return marks(front, of, self.choices, self.interval)

    def trace(self, file: str | Path, tasks: int = 16, run: Run | None = None) -> Path:
        """Writes a trace, which https://ui.perfetto.dev opens: tasks on their way through words,
        modules and FIFO, by the cycle. Returns the file.

        tasks: how many, which come as fast as they are taken; run: of a simulation, with its stalls
        instead. Raises TypeError for what is no run, ValueError for that of another design and for
        a file that cannot be written.
        """
        tasks = counted("tasks", tasks)
        if run is None:
            accepted = [n * self.interval for n in range(tasks)]
            emitted = [n + self.latency + STREAM for n in accepted]
        elif not isinstance(run, Run):
            raise TypeError(f"run is {shown(run)}: wanted what simulate returns, or None")
        elif run.design != self._digest:
            raise ValueError(f"run is of another design: wanted a simulation of {self.name}")
        else:
            accepted, emitted = run.accepted.tolist(), run.emitted.tolist()
        found = traces.spans(boxes(self.design, self.cost), self.latency, accepted, emitted)
        told = {"design": self.name, "summary": self.summary}
        data = traces.trace([*found], self.pipeline.clock, told)
        return written(file, json.dumps(data, separators=(",", ":")) + "\n")

    def simulate(
        self,
        inputs: Mapping[str, Any],
        simulator: str = "verilator",
        stalls: int = 0,
        seed: int = 1,
    ) -> Run:
        """Simulates the sources for states, clock cycle by clock cycle.

        inputs: arrays (..., *shape) by name; leading dimensions broadcast. simulator: "verilator"
        or "icarus". stalls: of 256 cycles, how many both streams pause, at random; 0 is back to
        back. seed: of the pauses. Raises CompileError if the simulator is not installed, ValueError
        for a NaN.
        """
        if not isinstance(simulator, str) or simulator not in SIMULATORS:
            raise ValueError(f"simulator is {shown(simulator)}: {one_of(simulator, SIMULATORS)}")
        stalls, seed = whole("stalls", stalls, *STALLS), whole("seed", seed, *SEEDS)
        lead, states = self._states(inputs)
        made = self.design
        given, saturated = quantised(made.datapath, states)
        values = words.given_values(made.datapath, made.inputs, given)
        with TemporaryDirectory() as place:
            folder.write(made, place, *self._vectors(1))  # a simulation needs no report
            found = SIMULATORS[simulator](place, values, stalls, seed)
        integers = words.results_of(made.datapath, made.outputs, found.values)
        numbers = floats(made.datapath, integers)
        outputs, results = (
            {name: x.reshape(lead + x.shape[1:]) for name, x in values.items()}
            for values in (integers, numbers)
        )
        return Run(outputs, results, found.accepted, found.emitted, saturated, self._digest)

    def board(self, width: int = 128, layout: str = "packed") -> Board:
        """The design between AXI4-Stream ports with TDATA of `width` bits and registers on
        AXI4-Lite, with a driver for the host (docs/board.md). layout: "packed", entries bit by bit,
        or "words", each in 32 bits with its sign. Raises ValueError for other ones.
        """
        if not is_count(width):
            raise ValueError(f"width is {shown(width)}: wanted bits of TDATA, as 64 or 128")
        return Board(
            WrappedCore(core_of(self.design), int(width), layout),
            self._samples_and_results,
            self.device.part,
        )

    def _samples_and_results(
        self, states: int
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Random states within the ranges of the inputs, and their results, as numbers."""
        datapath, inputs = self.function.datapath, self.samples(states)
        integers = Evaluator(datapath)(quantised(datapath, inputs)[0]).integers
        return inputs, floats(datapath, integers)

    def _states(self, inputs: Mapping[str, Any]) -> tuple[tuple[int, ...], dict[str, np.ndarray]]:
        """Returns the leading dimensions of inputs, and the inputs with these as one."""
        shapes = self.function.inputs
        if not isinstance(inputs, Mapping) or inputs.keys() != shapes.keys():
            came = ", ".join(inputs) if isinstance(inputs, Mapping) else shown(inputs)
            raise ValueError(f"inputs has {came or 'nothing'}: wanted {', '.join(shapes)} by name")
        _, arrays = alike({name: inputs[name] for name in shapes})
        lead = lead_of(arrays.values(), shapes, partial(shape_hint, self.model, None))
        if not prod(lead):
            raise ValueError(f"inputs has leading dimensions {lead}: wanted a state, or more")
        states = {
            name: np.broadcast_to(x, lead + shapes[name]).reshape(prod(lead), *shapes[name])
            for name, x in arrays.items()
        }
        for name, x in states.items():
            if np.isnan(x).any():
                raise ValueError(f"{name} has a NaN: a circuit has numbers alone")
        return lead, {name: x.astype(np.float64) for name, x in states.items()}

    @cached_property
    def _given(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """`ranges`, in the shapes of the inputs."""
        return checked_ranges(named_in_ranges(self.function.inputs), self.ranges)

    @property
    def _limits(self) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
        """The least and the largest numbers of each input."""
        return {**self._given, **self._drawn(1)[0]}

    def samples(self, states: int) -> dict[str, np.ndarray]:
        """Random states within the ranges of the inputs, by name. Raises ValueError for a number
        of states that is none.
        """
        return self._drawn(counted("states", states))[1]

    def _drawn(self, states: int) -> tuple[dict[str, Ends], dict[str, np.ndarray]]:
        given = self.function.inputs, self._given, 1, states
        return input_ranges(self.model, *given, variant=self.variant)

    def _vectors(self, states: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Random states and their results, as integers."""
        datapath = self.function.datapath
        integers, _ = quantised(datapath, self.samples(states))
        return integers, Evaluator(datapath)(integers).integers


def accelerator(
    model: Model,
    function: str = "inverse_dynamics",
    *,
    interval: int = 1,
    format: str = "q16.16",
    device: str = "xcvu9p",
    delays: str | None = None,
    clock: float = 125.0,
    sharing: str = "module",
    algorithm: str | None = None,
    ranges: Mapping[str, tuple[Any, Any]] | None = None,
    f_ext: WrenchFrame | None = None,
    frames: Sequence[str] = (),
    name: str | None = None,
    arrays: str | None = None,
) -> Accelerator:
    """Returns a function of a robot as a pipeline in fixed point, which takes a new state every
    `interval` clock cycles.

    function: the name of one of `Model`'s functions, as `generate` takes it. format: "q16.16" or
    alike for all signals, "proved": 32 bits each with binary points that rule out overflow for
    inputs within `ranges`, or "fitted": 27 bits, 18 for constants, sines and cosines, with binary
    points from sampled states; "proved24" and "fitted24/16" have so many bits. device, delays: a
    name of `backends.fpga.devices`, and one of its models of delays. clock: MHz. sharing: which
    operations may share multipliers: those of a
    "module" (the work of a joint), of a "class" of modules that are alike, or of the "whole".
    algorithm: of M^-1, forward dynamics and its derivatives, "deferred" (divisions once at the end,
    the shortest path), "factor" (the fewest products) or "bounded" (with bounds from mechanics,
    what proved formats take); also "mminvgen" of M^-1 and "aba" of forward dynamics. Of the
    derivatives of inverse dynamics, and those of forward dynamics from M^-1, "common" (sums over
    subtrees, dot products in one frame: the fewest products) or "body" (column by column in body
    frames, as in the papers: a shorter path); of inverse dynamics and its derivatives "scan"
    (prefix sums: the shortest path). ranges: (low, high) of inputs by name; by default the model's
    limits, and what `Model.function(backend="fixed")` states; in proved formats also of
    accelerations "a" that follow from torques, and saturate. f_ext: None, or the axes ("body" or
    "world") of an additional input, wrenches [force; moment] on the bodies (nbodies, 6) or at
    `frames` (frames, 6), by name and in this order, for whose entries 128 N or N m are expected.
    name: of the top module, by default the robot's and the function's. arrays: None for one
    pipeline; "limbs" for one of the robot's trunk and of each arm and leg, where those that are
    alike take turns on one if that needs less: fewer LUTs and flip-flops for more cycles (of the
    functions of `multifunction`); or "columns" for one of the columns of products with M^-1, in
    turn (of derivatives of forward dynamics). Both without f_ext and proved formats; `sharing` is
    then "whole" in each array, and algorithms that divide are "factor" by default.

    Sums are computed with one of their products, and rounded once, in the post-adders of DSPs,
    where the device has any and results do not come later for it; the result's `function` rounds
    as its circuit does.

    Raises CompileError for what no circuit computes, for a signal without bounds, for one format of
    all signals in which random states overflow, with one in which none does, and for a design that
    the device cannot hold, with the interval that would do.

    Examples:
        >>> made = fl.accelerator(arm, "inverse_dynamics", interval=2)
        >>> made.latency, made.interval
        (18, 2)
    """
    check_choices(model, interval, sharing, clock)
    if not isinstance(function, str):
        raise TypeError(f"function is {shown(function)}: wanted the name of a function")
    from featherlane.backends.c.names import identifier

    variant = with_wrenches(variant_named(model, function), f_ext, frames)
    check_variant(model, variant)
    if arrays not in (None, *ARRAYS):
        wanted = "wanted None, 'limbs' or 'columns' ('auto' is for fl.multifunction)"
        raise ValueError(f"arrays is {shown(arrays)}: {wanted}")
    if arrays:
        algorithm = of_arrays(variant.name, algorithm)
    fixed = fixed_function(model, variant, format, ranges, algorithm)
    target = devices.load(device, delays, 1e3 / clock)
    top = identifier(f"{model.name}_{function}") if name is None else name
    check_name(top)
    choices = {
        "function": function, "interval": int(interval), "format": format, "device": device,
        "delays": target.model, "clock": float(clock),
        "sharing": "whole" if arrays else sharing,
        "algorithm": fixed.algorithm, "f_ext": f_ext, "frames": [*frames], "arrays": arrays,
    }  # fmt: skip
    if arrays:
        return _in_arrays(top, model, fixed, variant, target, choices, ranges)
    check_not_constant(function, model, fixed.datapath.graph)
    check_overflow(fixed, model, variant, format, ranges)
    made, needed, computed = _fitting(top, fixed, target, int(interval), sharing)
    return Accelerator(top, model, computed, target, made, needed, ranges or {}, choices, variant)


def _in_arrays(
    name: str,
    model: Model,
    fixed: FixedFunction,
    variant: Variant,
    device: devices.Device,
    choices: Mapping[str, Any],
    ranges: Mapping[str, tuple[Any, Any]] | None,
) -> Accelerator:
    """Returns a function as arrays. Raises CompileError if these do not fit."""
    interval = choices["interval"]
    given = fixed.algorithm, choices["arrays"], device
    cutter = FunctionCutter(model, variant, choices["format"], ranges, *given)
    cut, found = cutter.at(interval)
    check_not_constant(variant.name, model, cut.whole.graph)
    check_overflow(fixed.computed_by(cut.whole), model, variant, choices["format"], ranges)
    designer = ArrayDesigner(name, device, "whole")
    made, needed, cut = designer.best(cut, interval)
    if not needed.fits:
        quick = replace(designer, runs=1)
        would, _ = interval_that_fits(quick, cut, interval, needed)
        raise CompileError(
            f"{variant.name} in arrays at interval {interval} takes {needed.told(0)}: {would}; "
            "formats with fewer bits need less of all"
        )
    computed = fixed.computed_by(cut.whole)
    return Accelerator(
        name, model, computed, device, made, needed, ranges or {}, choices, variant, found
    )


def figure_of(organisation: Organisation) -> page.Figure:
    """The drawing of the arrays of a design, with the reasons for them."""
    return page.Figure(svg(organisation), (*legend(), *organisation.reasons))


def with_wrenches(variant: Variant, f_ext: Any, frames: Any) -> Variant:
    """Returns a variant with wrenches in axes, at frames. Raises ValueError or TypeError for what
    tells none.
    """
    several = isinstance(frames, Iterable) and not isinstance(frames, str)
    if not several or not all(isinstance(name, str) for name in frames):
        raise TypeError(f"frames is {shown(frames)}: wanted a list of names of frames")
    if f_ext not in (None, *WRENCH_FRAMES):
        raise ValueError(f"f_ext is {shown(f_ext)}: wanted None, 'body' or 'world'")
    if frames and f_ext is None:
        raise ValueError("frames without f_ext: wanted the axes of wrenches, f_ext='body' or alike")
    if len({*frames}) < len(frames):
        raise ValueError(f"frames is {shown(frames)}: wanted each frame once")
    return variant._replace(wrenches=f_ext, at=tuple(frames))


def check_choices(model: Any, interval: Any, sharing: Any, clock: Any) -> None:
    """Raises TypeError or ValueError for choices that no design has."""
    if not isinstance(model, Model):
        raise TypeError(f"model is {shown(model)}: wanted a Model, as fl.load gives it")
    if not is_count(interval) or interval > SLOWEST:
        raise ValueError(
            f"interval is {shown(interval)}: wanted a whole number of cycles, 1 to {SLOWEST}"
        )
    if not isinstance(sharing, str) or sharing not in SHARING:
        raise ValueError(f"sharing is {shown(sharing)}: {one_of(sharing, SHARING)}")
    if not is_real(clock, 1, 2000):
        raise ValueError(f"clock is {shown(clock)}: wanted MHz, from 1 to 2000")


def _fitting(
    name: str,
    fixed: FixedFunction,
    device: devices.Device,
    interval: int,
    sharing: str,
) -> tuple[Design, DesignCost, FixedFunction]:
    """Returns the design at an interval, its cost, and the function as it computes it: with sums in
    post-adders where that makes it no slower, or else makes it fit. Raises CompileError if it does
    not fit.
    """
    designer = Designer(name, device, sharing)
    made, needed, datapath = designer.best(fixed.datapath, interval)
    if needed.fits:
        own = datapath is fixed.datapath
        return made, needed, fixed if own else fixed.computed_by(datapath)
    would, tried = interval_that_fits(designer, fixed.datapath, interval, needed)
    if sharing != "whole":
        fewer = max(interval, min(tried, LONGEST // 4))
        if replace(designer, sharing="whole").smallest(fixed.datapath, fewer).fits:
            would += f', sharing="whole" at interval {fewer} does'
    raise CompileError(
        f"{fixed.name} at interval {interval} takes {needed.told(0)}: {would}; formats with fewer "
        "bits need fewer DSPs"
    )


def interval_that_fits(
    designer: Any, datapath: Any, interval: int, needed: DesignCost
) -> tuple[str, int]:
    """Returns what to say of the first interval that is found to fit, and the last that was tried:
    what is shared shrinks as the interval grows. needed: at an interval that does not.
    """
    tried = interval
    while not needed.fits and tried < LONGEST:
        tried = max(tried + 1, ceil(tried * min(max(needed.shares) / 100, 2)))
        needed = designer.smallest(datapath, tried)
    if needed.fits:
        return f"interval {tried} fits", tried
    return f"no interval up to {LONGEST} fits either", tried


def _finite(found: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers by name, None for those that JSON has not."""
    return {name: x if isfinite(x) else None for name, x in found.items()}


def _counted(x: Resources) -> list[tuple[str, float]]:
    """What a design takes of a device, by name."""
    return [("dsps", x.dsps), ("luts", x.luts), ("ffs", x.ffs)]


def written(file: str | Path, text: str) -> Path:
    """Writes a file. Raises ValueError if that is not possible, TypeError for what is no path."""
    path = folder.checked_path("file", file)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"file {str(file)!r} cannot be written: {error}") from error
    return path
