"""The inputs of one pass of several functions of a robot: the shapes of all inputs, random states
within their ranges, and the formats that hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from featherlane.accelerators.formats import formats_in_arrays
from featherlane.accelerators.organise.arrays import Assign
from featherlane.accelerators.organise.pass_graph import NO_WRENCHES
from featherlane.api.fixed import Ends, entry_bounds, input_ranges
from featherlane.api.model import Model
from featherlane.backends.fixed.ranges import Bounds
from featherlane.functions.table import Variant
from featherlane.functions.variants import input_shapes


class PassRanges(NamedTuple):
    """The inputs of a pass. samples: random states, of tasks of both kinds: with an
    acceleration, and with the torques for one; bounds: of entries of inputs.
    """

    samples: dict[str, np.ndarray]
    bounds: Bounds


def shapes_of(model: Model, wrenches: Variant = NO_WRENCHES) -> dict[str, tuple[int, ...]]:
    """The shapes of all inputs that functions have."""
    n, of_wrenches = model.nv, input_shapes(model, wrenches)
    return {"q": (model.nq,), "v": (n,), "a": (n,), "tau": (n,), "minv": (n, n), **of_wrenches}


def pass_ranges(
    model: Model, ranges: Mapping[str, Ends], wrenches: Variant = NO_WRENCHES
) -> PassRanges:
    """Returns random states and bounds. ranges: ranges of inputs by name; wrenches: the axes and
    frames of f_ext.
    """
    limits, samples = input_ranges(model, shapes_of(model, wrenches), {**ranges}, variant=wrenches)
    still = {**samples, "a": np.zeros_like(samples["a"])}
    both = {name: np.concatenate([x, still[name]]) for name, x in samples.items()}
    return PassRanges(both, entry_bounds({**ranges, **limits}))


def pass_formats(model: Model, format: str, ranges: Mapping[str, Ends]) -> Assign:
    """Returns what gives the graph of a pass in arrays its formats. ranges: ranges of inputs by
    name. Raises CompileError for proved formats.
    """
    return formats_in_arrays(format, lambda: pass_ranges(model, ranges))
