"""Implicit derivatives of accelerations under soft constraints.

The acceleration a of a step solves F = ID(q, v, a) - tau - J^T f(y) = 0 with y = J a - a_ref, whose
derivative by a is the matrix of Newton's last step, H = M + J^T C J. So

    da/dtau = H^-1,    da/dx = -H^-1 dF/dx at fixed a, for x = q and v.
"""

from __future__ import annotations

from operator import add
from typing import Any

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.mean_accelerations import turning_rates
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.soft.newton import pushed, reached, stiffened
from featherlane.algorithms.soft.sparse_factor import SparseFactor, sparse_factor
from featherlane.algorithms.soft.steps import SoftRows, SoftState, soft_rows
from featherlane.algorithms.sparse_rows import sparse
from featherlane.scalar import Scalar


def constraint_push(state: SoftState, a: Scalars, frictions: Scalars, **held: Any) -> list[Any]:
    """Returns J^T f of the constraints of a step with the acceleration a."""
    rows = soft_rows(state, frictions, **held)
    return pushed(rows.all, _forces(rows, state, a), len(a))


def contact_results(
    state: SoftState, a: Scalars, frictions: Scalars, **held: Any
) -> tuple[list[list[Scalar]], list[Scalar]]:
    """Returns the forces of contacts in the axes of the world, and the impulses of contacts and
    joints, of a step with the acceleration a.
    """
    rows = soft_rows(state, frictions, **held)
    return rows.results(_forces(rows, state, a), state.dt)


def _forces(rows: SoftRows, state: SoftState, a: Scalars) -> list[list[Scalar]]:
    y = reached(rows.all, [*map(add, a, turning_rates(state.tree, state.v))])
    return [c.potential.forces(x) for c, x in zip(rows.all, y, strict=True)]


def stiffened_factor(
    state: SoftState, M: Rows, a: Scalars, frictions: Scalars, **held: Any
) -> SparseFactor:
    """Returns the factor of H at the acceleration a. M: the mass matrix of the step."""
    rows = soft_rows(state, frictions, **held).all
    y = reached(rows, [*map(add, a, turning_rates(state.tree, state.v))])
    curvatures = [c.potential.curvature(x) for c, x in zip(rows, y, strict=True)]
    lower = [sparse(row[: k + 1]) for k, row in enumerate(M)]
    return sparse_factor(stiffened(lower, rows, curvatures))


def slopes(H: SparseFactor, by_state: Rows) -> Rows:
    """Returns -H^-1 of a matrix of derivatives of F."""
    columns = [[-x for x in column] for column in zip(*by_state, strict=True)]
    return [list(row) for row in zip(*map(H.solve, columns), strict=True)]


def inverse(H: SparseFactor, n: int) -> Rows:
    """Returns H^-1."""
    return slopes(H, [[-1.0 if i == j else 0.0 for j in range(n)] for i in range(n)])
