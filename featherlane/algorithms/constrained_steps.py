"""Accelerations with constraints inside of steps in discrete time.

Integrators of several stages, and Euler's explicit one, hold accelerations. Semi-implicit steps
hold the velocity v' = v + dt a of their end, J v' = -(ERP / dt) e with the error e of position, so
that loops do not drift, and no second derivative of the kinematics is needed. That is J a + g = 0
again, with J v / dt in the place of the rate of J.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from featherlane.algorithms.common import Scalars, Wrenches
from featherlane.algorithms.constrained import (
    constrained_forward_dynamics,
    residuals,
)
from featherlane.algorithms.constrained_derivatives import (
    Shifts,
    constrained_forward_dynamics_derivatives,
    differentiated,
    plus_times_known,
)
from featherlane.algorithms.constraint_slopes import ResidualSlopes
from featherlane.algorithms.constraints import (
    Constrained,
    Gains,
    Row,
    constrained_at,
    groups_of,
    item_masks,
)
from featherlane.algorithms.delassus import constrained_system
from featherlane.algorithms.derivatives import Fixed
from featherlane.algorithms.factor import factor
from featherlane.algorithms.forward_derivatives import Columns
from featherlane.algorithms.implicit_damping import ImplicitTerms, with_implicit_damping
from featherlane.algorithms.mminv import Rows, mass_matrix
from featherlane.algorithms.rnea import rnea
from featherlane.robot.constraints import Constraints
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar

ERP = 0.2  # the share of an error that a step takes back (docs/constraints.md has the drift)


class VelocityLevel(NamedTuple):
    """Constraints of the velocities at the end of a step of dt."""

    constraints: Constraints
    dt: Scalar
    anchors: Sequence[Scalars] | None = None

    def at(self, model: Tree, q: Scalars, qd: Scalars, qdd: Scalars) -> list[Constrained]:
        """Returns the constraints, with residuals J (qdd + qd / dt) + ERP / dt^2 e."""
        rate = 1.0 / self.dt
        held = [a + rate * v for a, v in zip(qdd, qd, strict=True)]
        gains, still = Gains(ERP * (rate * rate), 0.0), [0.0] * model.nv
        return constrained_at(model, self.constraints, q, still, held, self.anchors, gains)

    def by_v(
        self, constrained: Sequence[Constrained], J: Sequence[Row], slopes: ResidualSlopes
    ) -> list[Row]:
        """Returns J / dt."""
        rate = 1.0 / self.dt
        return [{k: rate * x for k, x in row.items()} for row in J]

    def boosted(
        self, constrained: Sequence[Constrained], J: Sequence[Row], by_v: Sequence[Row], c: Columns
    ) -> dict[int, Row]:
        """Returns the columns of A + J c."""
        return plus_times_known(J, by_v, c)


def constrained_step(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    dt: Scalar,
    constraints: Constraints,
    active: Scalars | None = None,
    anchors: Sequence[Scalars] | None = None,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
) -> tuple[list[Scalar]]:
    """Returns the acceleration of a semi-implicit step."""
    still = [0.0] * model.nv
    groups = groups_of(VelocityLevel(constraints, dt, anchors).at(model, q, qd, still))
    factored, masks = factor(model, mass_matrix(model, q)), item_masks(constraints, active)
    bias = rnea(model, q, qd, still, f_ext)
    force = [t - h for t, h in zip(tau, bias, strict=True)]
    a, _ = constrained_system(factored, groups, masks).solve(force, residuals(groups))
    return (a,)


def constrained_step_and_derivatives(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    dt: Scalar,
    constraints: Constraints,
    active: Scalars | None = None,
    anchors: Sequence[Scalars] | None = None,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
    shifts: Shifts | None = None,
) -> tuple[list[Scalar], Rows, Rows, Rows]:
    """Returns the acceleration of a semi-implicit step, and its derivatives by q, v and tau."""
    level, masks = VelocityLevel(constraints, dt, anchors), item_masks(constraints, active)
    slopes = differentiated(model, level, (q, qd, tau), masks, f_ext, fixed, shifts)
    return slopes.a, slopes.da_dq, slopes.da_dv, slopes.da_dtau


def constrained_acceleration(
    model: Tree, *state: Any, fixed: Fixed = None, **options: Any
) -> tuple[list[Scalar]]:
    """Returns the acceleration of `constrained_forward_dynamics` alone."""
    return (constrained_forward_dynamics(model, *state, **options)[0],)


def constrained_acceleration_and_derivatives(
    model: Tree, *state: Any, **options: Any
) -> tuple[list[Scalar], Rows, Rows, Rows]:
    """Returns the acceleration, and its derivatives by q, v and tau."""
    slopes = constrained_forward_dynamics_derivatives(model, *state, **options)
    return slopes.a, slopes.da_dq, slopes.da_dv, slopes.da_dtau


def damped_constrained_step(
    tree: Tree,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    dt: Scalar,
    servo_damping: Scalars = (),
    **options: Any,
) -> tuple[list[Scalar]]:
    """Returns the acceleration of a semi-implicit step with implicit damping."""

    def step(
        tree: Tree, q: Scalars, v: Scalars, tau: Scalars, **options: Any
    ) -> tuple[list[Scalar]]:
        return constrained_step(tree, q, v, tau, dt, **options)

    return with_implicit_damping(step)(tree, q, v, tau, dt, servo_damping, **options)


def damped_constrained_step_and_derivatives(
    tree: Tree,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    dt: Scalar,
    servo_damping: Scalars = (),
    **options: Any,
) -> tuple[list[Scalar], Rows, Rows, Rows]:
    """Returns the acceleration of a damped step, and its derivatives by q, v and tau."""
    terms = ImplicitTerms.at(tree, q, v, servo_damping)
    state = q, v, terms.left(tau, v, dt), dt
    shifts = lambda a: terms.shifts(v, a, dt)
    return constrained_step_and_derivatives(
        terms.resisting(tree, dt), *state, shifts=shifts, **options
    )
