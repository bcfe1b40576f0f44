"""Dynamics, written once over scalars of any kind. Plain functions (model, scalars) -> scalars.

`v`, `a`, `tau` are flat sequences of nv scalars and `q` of nq, in the user's order; wrenches are
one [moment; force] for each body in its turned frame (`Model.turns`); matrices are nested lists.
"""

from featherlane.algorithms.aba import aba
from featherlane.algorithms.centroidal import (
    center_of_mass,
    center_of_mass_jacobian,
    centroidal_momentum,
    centroidal_momentum_matrix,
    centroidal_momentum_rate,
)
from featherlane.algorithms.configurations import (
    difference,
    difference_derivatives,
    integrate,
    integrate_derivatives,
    interpolate,
)
from featherlane.algorithms.derivatives import inverse_dynamics_derivatives
from featherlane.algorithms.factor import factored_forward_dynamics, factored_inverse
from featherlane.algorithms.forward_derivatives import (
    forward_dynamics_and_derivatives,
    forward_dynamics_derivatives,
    forward_dynamics_derivatives_at,
    forward_dynamics_derivatives_from,
)
from featherlane.algorithms.frames import (
    frame_acceleration,
    frame_placement,
    frame_velocity,
    imu,
    jacobian,
    jacobian_time_derivative,
)
from featherlane.algorithms.late import late
from featherlane.algorithms.mminv import mass_matrix, mass_matrix_inverse
from featherlane.algorithms.rnea import rnea
from featherlane.algorithms.terms import (
    bias_force,
    coriolis_matrix,
    gravity_torque,
    kinetic_energy,
    potential_energy,
)

body_regressor = late("featherlane.algorithms.regressor", "body_regressor")
closing_step = late("featherlane.algorithms.constrained_inverse", "closing_step")
constrained_forward_dynamics = late(
    "featherlane.algorithms.constrained", "constrained_forward_dynamics"
)
constrained_forward_dynamics_derivatives = late(
    "featherlane.algorithms.constrained_derivatives", "constrained_forward_dynamics_derivatives"
)
constrained_inverse_dynamics = late(
    "featherlane.algorithms.constrained_inverse", "constrained_inverse_dynamics"
)
constraint_error = late("featherlane.algorithms.constraints", "constraint_error")
constraint_jacobian = late("featherlane.algorithms.constraints", "constraint_jacobian")
delassus_matrix = late("featherlane.algorithms.constrained", "delassus_matrix")
impulse = late("featherlane.algorithms.constrained", "impulse")
impulse_derivatives = late("featherlane.algorithms.impulse_slopes", "impulse_derivatives")

__all__ = [
    "aba",
    "bias_force",
    "body_regressor",
    "center_of_mass",
    "center_of_mass_jacobian",
    "centroidal_momentum",
    "centroidal_momentum_matrix",
    "centroidal_momentum_rate",
    "closing_step",
    "constrained_forward_dynamics",
    "constrained_forward_dynamics_derivatives",
    "constrained_inverse_dynamics",
    "constraint_error",
    "constraint_jacobian",
    "coriolis_matrix",
    "delassus_matrix",
    "difference",
    "difference_derivatives",
    "factored_forward_dynamics",
    "factored_inverse",
    "forward_dynamics_and_derivatives",
    "forward_dynamics_derivatives",
    "forward_dynamics_derivatives_at",
    "forward_dynamics_derivatives_from",
    "frame_acceleration",
    "frame_placement",
    "frame_velocity",
    "gravity_torque",
    "impulse",
    "impulse_derivatives",
    "imu",
    "integrate",
    "integrate_derivatives",
    "interpolate",
    "inverse_dynamics_derivatives",
    "jacobian",
    "jacobian_time_derivative",
    "kinetic_energy",
    "mass_matrix",
    "mass_matrix_inverse",
    "potential_energy",
    "rnea",
]
