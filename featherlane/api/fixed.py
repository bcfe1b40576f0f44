"""Functions of models in fixed point: the ranges of their inputs, and their formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.configurations import Configurations
from featherlane.backends import reference
from featherlane.backends.fixed.assign import SAMPLES, fitted, proved, uniform
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import Evaluator, floats, quantised
from featherlane.backends.fixed.input_limits import NO_RANGES, flat_ranges
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.fixed.ranges import Bounds, Interval
from featherlane.errors import CompileError, one_of, shown
from featherlane.functions.circuits import (
    BOUNDED,
    CIRCUITS,
    algorithm_of,
    circuit_graph,
    with_rotations,
)
from featherlane.functions.fixed import FixedFunction
from featherlane.functions.table import Variant
from featherlane.functions.variants import input_shapes
from featherlane.program.passes.guards import LOST
from featherlane.robot.tree_of import tree_of

UNIFORM, PROVED, FITTED = "q16.16", "proved", "fitted"
WIDTHS = {PROVED: (32, 32), FITTED: (27, 18)}  # bits of data, and of constants, sines and cosines
LEAST, MOST = 4, 32  # bits
FORMATS = (
    f"{UNIFORM!r} and the like for all signals (2 to 32 bits in all), {PROVED!r}, {FITTED!r}, and "
    f"with {LEAST} to {MOST} bits of signals and of constants 'proved24' or 'fitted24/16'"
)
UNLIMITED = 8.0  # rad or m, and per s: of joints without limits
ACCELERATION = 16.0  # rad/s^2 or m/s^2
WRENCH = 128.0  # N, N m
TRIED, COARSEST = 200, 0.02  # states, and errors of their results, for which formats are useful
ROOM = 2.0  # of inputs whose ranges are sampled
DERIVED = ("tau", "minv")  # inputs that follow from q, v and a
Ends = tuple[np.ndarray, np.ndarray]  # the least and the largest numbers of an input


class Formats(NamedTuple):
    """A format by its name. kind: PROVED, FITTED, or the name itself if it is one of all
    signals. data, small: bits of signals, and of constants, sines and cosines.
    """

    kind: str
    data: int = 0
    small: int = 0

    @property
    def is_assigned(self) -> bool:
        """Formats are assigned to signals for ranges of inputs, beyond which they may not do."""
        return self.kind in (PROVED, FITTED)

    @classmethod
    def named(cls, text: str | None) -> Formats:
        """Reads a name, by default UNIFORM. Raises ValueError for what is none."""
        chosen = UNIFORM if text is None else text
        if isinstance(chosen, str) and re.fullmatch(r"q-?\d+\.-?\d+", chosen):
            return cls(chosen)
        match = isinstance(chosen, str) and re.fullmatch(
            rf"({PROVED}|{FITTED})(?:(\d+)(?:/(\d+))?)?", chosen
        )
        if not match:
            raise ValueError(f"format is {shown(text)}: wanted one of {FORMATS}")
        data, small = WIDTHS[match[1]]
        if match[2]:
            data = int(match[2])
            small = int(match[3]) if match[3] else min(data, small)
        if not LEAST <= small <= data <= MOST:
            few = f"{LEAST} to {MOST} bits, of constants no more than of signals"
            raise ValueError(f"format is {shown(text)}: wanted {few}; formats are {FORMATS}")
        return cls(match[1], data, small)


def fixed_function(
    model: Configurations,
    variant: Variant,
    format: str | None,
    ranges: Mapping[str, tuple[Any, Any]] | None,
    algorithm: str | None = None,
) -> FixedFunction:
    """Returns a function of a model in fixed point; see `Model.function`. algorithm: a name of
    `functions.circuits.CIRCUITS`.
    """
    if variant.constraints is not None:
        raise CompileError(
            f"{variant.name} takes no constraints in fixed point: the regularisation of redundant "
            "rows is 1e-6 of their inertia, which the formats do not resolve"
        )
    chosen = Formats.named(format)
    function = model._function(variant)
    origin = fixed_function, (model, variant, format, ranges, algorithm)
    if (
        chosen.kind == PROVED
        and BOUNDED in CIRCUITS.get(variant.name, {})
        and tree_of(model).coupled
    ):
        raise CompileError(
            f"{variant.name} of {model.name} has no proved format: its joints share coordinates, "
            f"and no bounds of its pivots are known; wanted {FITTED!r}, or one such as {UNIFORM!r}"
        )
    algorithm = algorithm_of(model, variant, algorithm, chosen.kind == PROVED)
    intervals = checked_ranges(named_in_ranges(function.inputs), ranges)
    make = partial(_datapath, model, variant, algorithm, chosen, intervals)
    limits = cache(lambda: input_ranges(model, function.inputs, intervals, variant=variant)[0])
    bounds = lambda: entry_bounds(limits())
    assigned = lambda: flat_ranges(limits()) if chosen.is_assigned else NO_RANGES
    return FixedFunction(function, make, bounds, algorithm, origin, ranges=assigned)


def _datapath(
    model: Configurations,
    variant: Variant,
    algorithm: str | None,
    format: Formats,
    intervals: dict[str, Ends],
) -> Datapath:
    limits, samples = input_ranges(model, input_shapes(model, variant), intervals, variant=variant)
    bounds = entry_bounds(intervals | limits)
    with np.errstate(over="ignore", invalid="ignore"):  # formats refuse what is not finite
        graph = circuit_graph(model, variant, algorithm, bounds)
    if format.kind == PROVED:
        graph = prepared(with_rotations(model, graph))
        with np.errstate(over="ignore", invalid="ignore"):
            datapath = proved(graph, bounds, format.data, format.small)
        _check_digits(variant.name, datapath, {name: x[:TRIED] for name, x in samples.items()})
        return datapath
    graph = prepared(graph)
    if format.kind == FITTED:
        return fitted(graph, samples, format.data, format.small, inputs=bounds)
    return uniform(graph, format.kind)


def _check_digits(name: str, datapath: Datapath, samples: Mapping[str, np.ndarray]) -> None:
    """Raises CompileError where formats that rule out overflow leave no digits for results."""
    exact = reference.evaluate(datapath.graph, samples)
    computed = floats(datapath, Evaluator(datapath)(quantised(datapath, samples)[0]).integers)
    for output in exact.keys() - {LOST}:
        error = np.abs(computed[output] - exact[output]).reshape(len(exact[output]), -1).max(-1)
        largest, wrong = float(np.abs(exact[output]).max()), float(np.median(error))
        if not wrong <= COARSEST * largest:
            raise CompileError(
                f"formats of {name} that are proved free of overflow leave errors of {wrong:.2g} "
                f"(median) in {output}, which is up to {largest:.2g}: intervals do not bound it "
                f"well; wanted {FITTED!r}, one such as {UNIFORM!r}, more bits, or narrower ranges"
            )


def named_in_ranges(inputs: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of what may have a range: inputs, and the accelerations that follow from
    torques, beyond whose range signals saturate.
    """
    return {**inputs, "a": inputs["tau"]} if "tau" in inputs else dict(inputs)


def entry_bounds(limits: Mapping[str, Ends]) -> Bounds:
    """Returns the bounds of each entry of each input."""
    return {
        (name, i): Interval(float(low), float(high))
        for name, ends in limits.items()
        for i, (low, high) in enumerate(zip(*(x.ravel() for x in ends), strict=True))
    }


def checked_ranges(
    inputs: Mapping[str, tuple[int, ...]], ranges: Mapping[str, tuple[Any, Any]] | None
) -> dict[str, Ends]:
    """Returns the bounds that a user gives, in the shapes of the inputs. Raises ValueError for an
    unknown name, and for what are no bounds.
    """
    checked = {}
    if not isinstance(ranges, Mapping | None):
        raise TypeError(f"ranges is {shown(ranges)}: wanted (low, high) by the name of an input")
    for name, ends in ({} if ranges is None else ranges).items():
        if name not in inputs:
            raise ValueError(f"ranges names {name!r}: {one_of(name, inputs)}")
        wanted = f"wanted (low, high), finite numbers or arrays of shape {inputs[name]}, low < high"
        try:
            low, high = (np.broadcast_to(np.asarray(x, np.float64), inputs[name]) for x in ends)
        except (TypeError, ValueError):
            low = high = np.array(np.nan)
        if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
            raise ValueError(f"ranges[{name!r}] is {shown(ends)}: {wanted}")
        checked[name] = low, high
    return checked


def input_ranges(
    model: Configurations,
    inputs: Mapping[str, tuple[int, ...]],
    intervals: Mapping[str, Ends],
    seed: int = 0,
    states: int = SAMPLES + SAMPLES // 3,
    variant: Variant | None = None,
) -> tuple[dict[str, Ends], dict[str, np.ndarray]]:
    """Returns the bounds of each input, and sampled states within them. variant: tells the axes and
    frames of wrenches, if f_ext is an input.

    Bounds that are missing: the model's limits for q and v (without one, 8 rad or m, and per s; 1
    for entries of quaternions), 16 rad/s^2 or m/s^2 for a, 128 N or N m for f_ext, and twice
    what samples have for tau = ID(q, v, a, f_ext) and minv = M(q)^-1. Raises ValueError for an
    input that has none of these and is not in `intervals`.
    """
    defaults = _limits(model, inputs)
    limits = {name: intervals.get(name) or defaults.get(name) for name in inputs}
    rng, count = np.random.default_rng(seed), states
    motion = {name: intervals.get(name) or defaults[name] for name in ("q", "v", "a")}
    samples = {name: _drawn(rng, ends, count) for name, ends in motion.items()}
    turns = _quaternions(model)
    units = np.clip(model.random_configuration(count, seed=rng), *motion["q"])
    samples["q"] = np.where(turns, units, samples["q"])
    for name in inputs:
        if (ends := limits[name]) is None and name not in DERIVED:
            raise ValueError(f"ranges lacks {name!r}: wanted its (low, high)")
        if ends is not None and name not in (*motion, *DERIVED):
            samples[name] = _drawn(rng, ends, count)
    for name in [name for name in inputs if name in DERIVED]:
        derived = _derived(model, name, samples, variant)
        most = ROOM * np.abs(derived).max(0)
        limits[name] = low, high = limits[name] or (-most, most)
        samples[name] = derived.clip(low, high)
    known = {name: ends for name, ends in limits.items() if ends is not None}
    return known, {name: samples[name] for name in inputs}


def _drawn(rng: np.random.Generator, ends: Ends, count: int) -> np.ndarray:
    low, high = ends
    return rng.uniform(low, high, (count, *low.shape))


def _derived(
    model: Configurations, name: str, samples: Mapping[str, np.ndarray], variant: Variant | None
) -> np.ndarray:
    if name == "minv":
        return model._function(Variant("mass_matrix_inverse"))(samples["q"])  # type: ignore[no-any-return]
    axes, frames = (variant.wrenches, variant.at) if variant else (None, ())
    balance = model._function(Variant("inverse_dynamics", axes, at=frames))
    return balance(*[samples[name] for name in balance.inputs])  # type: ignore[no-any-return]


def _quaternions(model: Configurations) -> np.ndarray:
    """Tells which entries of q are those of quaternions."""
    turns = np.zeros(model.nq, bool)
    for first in model.first_of_quaternions:
        turns[first : first + 4] = True
    return turns


def _limits(model: Configurations, inputs: Mapping[str, tuple[int, ...]]) -> dict[str, Ends]:
    """Returns the bounds of inputs that a model knows or has by default."""
    free = np.where(_quaternions(model), 1.0, UNLIMITED)
    low, high = model.position_limits
    low, high = np.where(np.isfinite(low), low, -free), np.where(np.isfinite(high), high, free)
    v = np.where(np.isfinite(model.velocity_limits), model.velocity_limits, UNLIMITED)
    a = np.full(model.nv, ACCELERATION)
    wrench = np.full(inputs.get("f_ext", ()), WRENCH)
    return {"q": (low, high), "v": (-v, v), "a": (-a, a), "f_ext": (-wrench, wrench)}
