"""Forward dynamics under soft constraints."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, sub

from featherlane.algorithms.common import Scalars, Wrenches
from featherlane.algorithms.factor import factor
from featherlane.algorithms.mean_accelerations import turning_rates
from featherlane.algorithms.mminv import mass_matrix
from featherlane.algorithms.rnea import rnea
from featherlane.algorithms.soft.newton import SoftConstraint, SoftSolution, minimised, pushed
from featherlane.algorithms.sparse_rows import sparse
from featherlane.robot.tree import Tree


def soft_forward_dynamics(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    constraints: Sequence[SoftConstraint],
    steps: int,
    f_ext: Wrenches | None = None,
    start: Sequence[Scalars] | None = None,
) -> SoftSolution:
    """Returns the acceleration under soft constraints, after so many steps of Newton's method.

    Those of free bodies that J multiplies are accelerations in space, dv/dt + w x v, as in MuJoCo,
    so that the law is Galilean invariant. Friction of the tree's joints that is among the
    constraints must not be in the tree. start: forces of each constraint near the solution, as
    those of the time step before.
    """
    M, turning = mass_matrix(tree, q), turning_rates(tree, qd)
    bias = rnea(tree, q, qd, [0.0] * tree.nv, f_ext)
    if start is not None:
        tau = [*map(add, tau, pushed(constraints, start, tree.nv))]
    a = map(add, factor(tree, M).acceleration(tau, bias), turning)
    lower = [sparse(row[: k + 1]) for k, row in enumerate(M)]
    solution = minimised(lower, [*a], constraints, steps, start)
    return solution._replace(a=[*map(sub, solution.a, turning)])
