"""Derivatives of a robot's dynamics by dual numbers: without a step, so that stiff friction has
derivatives too.
"""

from __future__ import annotations

import numpy as np

from featherlane.api.model import Model
from featherlane.backends import dual
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_program


def state_derivatives(
    model: Model, variant: Variant, inputs: dict[str, np.ndarray], columns: np.ndarray
) -> list[np.ndarray]:
    """Returns the derivatives of a function of (q, v, u) by q, in the tangent space, and by v, each
    (states, nv, columns).

    variant: of inverse or forward dynamics. inputs: its arrays (states, n) by name. columns: the
    degrees of freedom along which derivatives are taken.
    """
    program, still = dynamics_program(model, variant), np.zeros(inputs["v"].shape)
    along = np.zeros((len(columns), *still.shape))
    along[np.arange(len(columns)), :, columns] = 1.0
    motion = {"q": inputs["q"], "v": still}
    moved = dual.evaluate(dynamics_program(model, Variant("integrate")), motion, {"v": along})[1]
    rates = (dual.evaluate(program, inputs, x)[1] for x in ({"q": moved["q_next"]}, {"v": along}))
    return [np.moveaxis(x, 0, -1) for rate in rates for x in rate.values()]
