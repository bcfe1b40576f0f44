"""Dynamics, written once over scalars of any kind. Plain functions (model, scalars) -> scalars.

`v`, `a`, `tau` are flat sequences of nv scalars and `q` of nq, in the user's order; wrenches are
one [moment; force] for each body in its turned frame (`Model.turns`); matrices are nested lists.
"""

from featherlane.algorithms.aba import aba
from featherlane.algorithms.derivatives import (
    forward_dynamics_derivatives,
    forward_dynamics_derivatives_from,
    inverse_dynamics_derivatives,
)
from featherlane.algorithms.factor import factored_forward_dynamics, factored_inverse
from featherlane.algorithms.mminv import mass_matrix, mass_matrix_inverse
from featherlane.algorithms.rnea import rnea

__all__ = [
    "aba",
    "factored_forward_dynamics",
    "factored_inverse",
    "forward_dynamics_derivatives",
    "forward_dynamics_derivatives_from",
    "inverse_dynamics_derivatives",
    "mass_matrix",
    "mass_matrix_inverse",
    "rnea",
]
