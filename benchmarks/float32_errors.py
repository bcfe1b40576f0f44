"""Errors of a robot's functions in float32, beside the conditioning of each state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from featherlane.api.model import Model
from featherlane.backends import reference
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.functions.variants import input_shapes
from featherlane.program.lower import lower
from featherlane.tools.check import NOISE, random_states
from featherlane.tools.measures import conditioning, largest_entry

Arrays = dict[str, np.ndarray]
EPS = float(np.finfo(np.float32).eps)


def evaluated(model: Model, name: str, inputs: Arrays, *dtypes: type) -> list[Arrays]:
    """Returns the blocks of a function in each dtype, by the reference interpreter, which gives the
    bits of compiled code. inputs: by name; those that the function does not take are left out.
    """
    variant = Variant(name, None)
    program = dynamics_program(model, variant)
    given = {x: inputs[x] for x in input_shapes(model, variant)}
    return [
        reference.evaluate(lower(program, "cpu", np.dtype(dtype)), given, dtype) for dtype in dtypes
    ]


def float32_errors(
    model: Model, functions: Sequence[str] = tuple(FUNCTIONS), states: int = 20, seed: int = 0
) -> dict[str, float]:
    """Returns the largest error of each function in float32 over random states, in units of eps,
    and of eps times the conditioning for functions that divide by M.

    Errors are relative as those of `check`, against float64 from the same inputs, whose own errors
    are some 1e9 times smaller. An error that is not finite counts as infinite.
    """
    drawn = random_states(model, states, seed, np.dtype(np.float32))
    given = {name: getattr(drawn, name) for name in ("q", "v", "a", "tau")}
    M, inverse = (
        x
        for name in ("mass_matrix", "mass_matrix_inverse")
        for x in evaluated(model, name, given, np.float64)[0].values()
    )
    kappa, force = conditioning(M), float(np.abs(M).max())
    given["minv"] = inverse.astype(np.float32).astype(float)
    result = {}
    for name in functions:
        found, exact = evaluated(model, name, given, np.float32, np.float64)
        largest = {block: largest_entry(x) for block, x in exact.items()}
        unit = 1.0 if FUNCTIONS[name].divides else force
        floor = NOISE * max(unit, *(float(x.max()) for x in largest.values()))
        errors = [
            largest_entry(found[block].astype(float) - x) / np.maximum(largest[block], floor)
            for block, x in exact.items()
        ]
        units = EPS * (kappa if FUNCTIONS[name].divides else 1.0)
        quotient = np.max(errors, axis=0) / units
        result[name] = float(np.nan_to_num(quotient, nan=np.inf).max())
    return result
