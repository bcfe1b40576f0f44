"""Forward dynamics under soft constraints."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, sub

from featherlane.algorithms.common import Scalars, Wrenches
from featherlane.algorithms.factor import factor
from featherlane.algorithms.mminv import mass_matrix
from featherlane.algorithms.rnea import rnea
from featherlane.algorithms.soft.newton import SoftConstraint, SoftSolution, minimised
from featherlane.algorithms.sparse_rows import sparse
from featherlane.robot.spatial import cross
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar


def turning_rates(tree: Tree, qd: Scalars) -> list[Scalar]:
    """Returns w x v on the linear entries of free joints, and 0 on others.

    The acceleration of a free body that J multiplies is that of its velocity in axes of the world,
    as in MuJoCo, so that the law is Galilean invariant: R (dv/dt + w x v).
    """
    rates: list[Scalar] = [0.0] * tree.nv
    for kind, _, k in tree.coordinates:
        if kind.name == "free":
            rates[k : k + 3] = cross(qd[k + 3 : k + 6], qd[k : k + 3])
    return rates


def soft_forward_dynamics(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    constraints: Sequence[SoftConstraint],
    steps: int,
    f_ext: Wrenches | None = None,
) -> SoftSolution:
    """Returns the acceleration under soft constraints, after so many steps of Newton's method.

    Friction of the tree's joints that is among the constraints must not be in the tree.
    """
    M, turning = mass_matrix(tree, q), turning_rates(tree, qd)
    bias = rnea(tree, q, qd, [0.0] * tree.nv, f_ext)
    free = map(add, factor(tree, M).acceleration(tau, bias), turning)
    lower = [sparse(row[: k + 1]) for k, row in enumerate(M)]
    solution = minimised(lower, [*free], constraints, steps)
    return solution._replace(a=[*map(sub, solution.a, turning)])
