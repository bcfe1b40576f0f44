"""Formats of designs: of arrays, whose constants of limbs are inputs, and the checks that a uniform
format holds random states.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from featherlane.api.fixed import (
    FITTED,
    MOST,
    PROVED,
    TRIED,
    UNIFORM,
    Formats,
    checked_ranges,
    entry_bounds,
    input_ranges,
    named_in_ranges,
)
from featherlane.api.model import Model
from featherlane.backends.fixed.assign import fitted, uniform
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import Evaluator, quantised
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.ranges import Bounds
from featherlane.errors import CompileError
from featherlane.functions.fixed import FixedFunction
from featherlane.functions.table import Variant
from featherlane.functions.variants import input_shapes
from featherlane.program.graph import Graph
from featherlane.program.passes.guards import LOST

Sampled = Callable[[], tuple[Mapping[str, np.ndarray], Bounds]]  # gives states, bounds of inputs


def array_formats(
    model: Model, variant: Variant, format: str | None, ranges: Mapping[str, Any] | None
) -> Callable[[Graph, Mapping[str, np.ndarray]], Datapath]:
    """Returns what gives the graph of a function in arrays its formats, see `formats_in_arrays`.
    The arguments are those of `fixed_function`.
    """
    shapes = input_shapes(model, variant)
    intervals = checked_ranges(named_in_ranges(shapes), ranges)

    def sampled() -> tuple[Mapping[str, np.ndarray], Bounds]:
        limits, samples = input_ranges(model, shapes, intervals, variant=variant)
        return samples, entry_bounds(intervals | limits)

    return formats_in_arrays(format, sampled)


def formats_in_arrays(
    format: str | None, sampled: Sampled
) -> Callable[[Graph, Mapping[str, np.ndarray]], Datapath]:
    """Returns what gives a graph for arrays its formats. Inputs that are constants of the robot
    have those that hold the constants, (limbs, entries) by name, of all limbs. sampled: gives the
    states of which formats are fitted. Raises CompileError for proved formats.
    """
    kind, data, small = Formats.named(format)
    if kind == PROVED:
        raise CompileError(
            f"format is {format!r}, which clamps signals: arrays of time-multiplexed limbs have no "
            f"clamps; wanted {FITTED!r}, or one such as {UNIFORM!r}"
        )

    def assign(graph: Graph, constants: Mapping[str, np.ndarray]) -> Datapath:
        if kind != FITTED:
            return uniform(graph, kind)
        samples, bounds = sampled()
        states = len(samples["q"])
        tables = {name: np.broadcast_to(x, (states, *x.shape)) for name, x in constants.items()}
        read = {name: x for name, x in {**samples, **tables}.items() if name in graph.inputs}
        assignment = fitted(graph, read, data, small, inputs=bounds)
        return _with_table_formats(assignment, constants, small)

    return assign


def _with_table_formats(
    datapath: Datapath, constants: Mapping[str, np.ndarray], bits: int
) -> Datapath:
    """Returns a datapath whose inputs that are constants of limbs have formats of so many bits that
    hold those of all limbs.
    """
    graph, forms = datapath.graph, list(datapath.formats)
    for k in graph.nodes_of("input"):
        name, i = graph.value[k]
        if name in constants:
            most = float(np.abs(constants[name][:, i % constants[name].shape[1]]).max())
            forms[k] = Format(bits, bits - 1 - math.frexp(most)[1])
    return replace(datapath, formats=tuple(forms))


def check_not_constant(name: str, model: Model, graph: Graph) -> None:
    """Raises CompileError for a graph of which no result depends on a state."""
    if all(graph.op[k] == "constant" for out in graph.outputs.values() for k in out.nodes):
        raise CompileError(f"{name} of {model.name} is constant: there is nothing to compute")


def _uniform_bits(format: str | None) -> tuple[int, int] | None:
    """Returns the bits before and after the point of one format of all signals; None for others."""
    q_format = re.fullmatch(r"q(-?\d+)\.(-?\d+)", Formats.named(format).kind)
    return q_format and (int(q_format[1]), int(q_format[2]))


def check_step(format: str | None) -> None:
    """Raises ValueError for one format of all signals whose step is larger than 1: units of
    circuits hold a 1, and have no fractions of fewer than 0 bits.
    """
    bits = _uniform_bits(format)
    if bits and bits[1] < 0:
        raise ValueError(
            f"format is {format!r}, whose step is {2 ** -bits[1]}: circuits take no steps above 1; "
            f"wanted bits after the point, as in {UNIFORM!r}"
        )


def check_overflow(
    fixed: FixedFunction,
    model: Model,
    variant: Variant,
    format: str,
    ranges: Mapping[str, tuple[Any, Any]] | None,
) -> None:
    """Raises CompileError for one format of all signals in which random states within the ranges
    overflow, with the nearest one of as many bits in which none does. The other arguments are those
    of `fixed_function`, which gave `fixed`.
    """
    if (bits := _uniform_bits(format)) is None:
        return
    intervals = checked_ranges(named_in_ranges(fixed.inputs), ranges)
    samples = input_ranges(model, fixed.inputs, intervals, 1, TRIED, variant)[1]
    if not (overflows := _overflows(fixed.datapath, samples)):
        return
    before, after = bits
    others = (f"q{before + n}.{after - n}" for n in range(1, min(after, MOST - before - 1) + 1))
    graph = fixed.datapath.graph
    good = next((repr(text) for text in others if _holds(graph, text, samples)), None)
    wanted = [*([f"{good}, which holds them"] if good else []), repr(FITTED), repr(PROVED)]
    raise CompileError(
        f"format {format!r} of {fixed.name} does not hold random states of {model.name} within "
        f"their ranges: {overflows}; wanted {', '.join(wanted)}, or narrower ranges"
    )


def _overflows(datapath: Datapath, samples: Mapping[str, np.ndarray]) -> str:
    """Says what of samples is beyond its format: inputs, or signals; "" if nothing is."""
    integers, saturated = quantised(datapath, samples)
    if saturated:
        most = [f"{name} up to {np.abs(samples[name]).max():.3g}" for name in saturated]
        return f"inputs have {', '.join(most)}"
    overflows = Evaluator(datapath)(integers).overflows.values()
    return f"a signal overflows in {max(overflows)} of {TRIED}" if overflows else ""


def _holds(graph: Graph, format: str, samples: Mapping[str, np.ndarray]) -> bool:
    """Tells whether no sample overflows in one format of all signals, and none is lost."""
    try:
        datapath = uniform(graph, format)
    except CompileError:  # of a constant beyond it
        return False
    integers, saturated = quantised(datapath, samples)
    if saturated:
        return False
    evaluation = Evaluator(datapath)(integers)
    return not evaluation.overflows and not np.any(evaluation.integers.get(LOST, 0))
