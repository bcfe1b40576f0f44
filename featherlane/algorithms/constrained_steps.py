"""Accelerations with constraints inside of steps in discrete time.

Integrators of several stages, and Euler's explicit one, hold accelerations. Semi-implicit steps
hold the velocity v' = v + dt a of their end, J v' = -(ERP / dt) e with the error e of position, so
that loops do not drift, and no second derivative of the kinematics is needed. That is J a + g = 0
again, with J (v / dt + w x u) in the place of the rate of J: w x u of free joints takes v' to the
axes of the beginning (robot/straight_motion.py). Constraints of level "acceleration" hold these
in semi-implicit steps too.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import Any, NamedTuple

from featherlane.algorithms.common import Scalars, Wrenches
from featherlane.algorithms.constrained import residuals
from featherlane.algorithms.constrained_derivatives import (
    AccelerationLevel,
    Level,
    Linearised,
    Shifts,
    linearised,
)
from featherlane.algorithms.constraint_slopes import ResidualSlopes
from featherlane.algorithms.constraints import (
    Constrained,
    Gains,
    constrained_at,
    groups_of,
    item_masks,
    user_forces,
)
from featherlane.algorithms.delassus import constrained_system
from featherlane.algorithms.derivatives import Fixed
from featherlane.algorithms.factor import factor
from featherlane.algorithms.forward_derivatives import Columns
from featherlane.algorithms.implicit_damping import ImplicitTerms, with_implicit_damping
from featherlane.algorithms.mean_accelerations import plus_turning_slopes, turning_rates
from featherlane.algorithms.mminv import mass_matrix
from featherlane.algorithms.rnea import rnea
from featherlane.algorithms.sparse_rows import Row
from featherlane.robot.constraints import Constraints
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar

ERP = 0.2  # the share of an error that a step takes back (docs/constraints.md has the drift)


class VelocityLevel(NamedTuple):
    """Constraints of the velocities at the end of a step of dt."""

    tree: Tree
    v: Scalars
    dt: Scalar
    constraints: Constraints
    anchors: Sequence[Scalars] | None = None

    def at(self, model: Tree, q: Scalars, qd: Scalars, qdd: Scalars) -> list[Constrained]:
        """Returns the constraints, with residuals J (qdd + w x u + qd / dt) + ERP / dt^2 e."""
        rate = 1.0 / self.dt
        in_axes = map(add, qdd, turning_rates(model, qd))
        held = [a + rate * v for a, v in zip(in_axes, qd, strict=True)]
        gains, still = Gains(ERP * (rate * rate), 0.0), [0.0] * model.nv
        return constrained_at(model, self.constraints, q, still, held, self.anchors, gains)

    def by_v(
        self, constrained: Sequence[Constrained], J: Sequence[Row], slopes: ResidualSlopes
    ) -> list[Row]:
        """Returns J (1 / dt + d(w x u)/dv)."""
        rate = 1.0 / self.dt
        moved = (plus_turning_slopes(self.tree, self.v, self.dt, row) for row in J)
        return [{k: rate * x for k, x in row.items()} for row in moved]

    def boosted(
        self, constrained: Sequence[Constrained], J: Sequence[Row], by_v: Sequence[Row], c: Columns
    ) -> dict[int, Row]:
        """Returns the columns of A + J c, J / dt: c, -w x u by the velocity, is that of a body
        which keeps its velocity in space.
        """
        rate = 1.0 / self.dt
        return {k: {r: rate * row[k] for r, row in enumerate(J) if k in row} for k in c}


def level_of_step(
    tree: Tree, v: Scalars, dt: Scalar, constraints: Constraints, anchors: Sequence[Scalars] | None
) -> Level:
    """Returns what a semi-implicit step from the velocity v holds."""
    if constraints.level == "velocity":
        return VelocityLevel(tree, v, dt, constraints, anchors)
    return AccelerationLevel(constraints, anchors)


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
) -> tuple[list[Scalar], list[Scalar]]:
    """Returns the acceleration of a semi-implicit step, and its forces: impulses / dt."""
    still = [0.0] * model.nv
    groups = groups_of(level_of_step(model, qd, dt, constraints, anchors).at(model, q, qd, still))
    factored, masks = factor(model, mass_matrix(model, q)), item_masks(constraints, active)
    bias = rnea(model, q, qd, still, f_ext)
    force = [t - h for t, h in zip(tau, bias, strict=True)]
    a, f = constrained_system(factored, groups, masks).solve(force, residuals(groups))
    return a, user_forces(groups, f)


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
) -> Linearised:
    """Returns the acceleration and forces of a semi-implicit step, and their derivatives."""
    level = level_of_step(model, qd, dt, constraints, anchors)
    masks = item_masks(constraints, active)
    return linearised(model, level, (q, qd, tau), masks, f_ext, fixed, shifts)


def damped_constrained_step(
    tree: Tree,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    dt: Scalar,
    servo_damping: Scalars = (),
    **options: Any,
) -> tuple[list[Scalar], list[Scalar]]:
    """Returns the acceleration and forces of a semi-implicit step with implicit damping."""

    def step(
        tree: Tree, q: Scalars, v: Scalars, tau: Scalars, **options: Any
    ) -> tuple[list[Scalar], list[Scalar]]:
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
) -> Linearised:
    """Returns the acceleration and forces of a damped step, and their derivatives."""
    terms = ImplicitTerms.at(tree, q, v, servo_damping)
    state = q, v, terms.left(tau, v, dt), dt
    shifts = lambda a: terms.shifts(v, a, dt)
    return constrained_step_and_derivatives(
        terms.resisting(tree, dt), *state, shifts=shifts, **options
    )
