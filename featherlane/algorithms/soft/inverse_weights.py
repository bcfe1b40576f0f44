"""Inverse inertias that MuJoCo puts in the place of the diagonal of J M^-1 J^T.

They belong to one configuration, MuJoCo's qpos0: the mean over a body's three directions of
how much its centre of mass accelerates by a unit force, and over its three axes by a unit moment;
and the diagonal of M^-1, in which three entries of a free or ball joint have their mean.
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.factor import MassFactor, factor
from featherlane.algorithms.frames import jacobian
from featherlane.algorithms.mminv import Rows, mass_matrix
from featherlane.algorithms.sparse_rows import sparse
from featherlane.robot.model import Robot
from featherlane.robot.parts import IDENTITY, Frame, Placement
from featherlane.robot.tree import Tree
from featherlane.robot.tree_of import tree_of


class BodyWeight(NamedTuple):
    """Inverse inertias of a body by a force (1/kg) and by a moment (1/(kg m^2))."""

    linear: float
    angular: float


NO_WEIGHT = BodyWeight(0.0, 0.0)


class InverseWeights(NamedTuple):
    """The inverse inertias of a robot's bodies, and of the entries of v."""

    bodies: tuple[BodyWeight, ...]
    freedoms: tuple[float, ...]

    def between(self, *bodies: int) -> BodyWeight:
        """Returns the sums of those of some bodies, of which the ground has none."""
        each = [self.bodies[i] if i >= 0 else NO_WEIGHT for i in bodies]
        return BodyWeight(sum(w.linear for w in each), sum(w.angular for w in each))


NO_WEIGHTS = InverseWeights((), ())


def inverse_weights(robot: Robot, q: Scalars | None = None) -> InverseWeights:
    """Returns the inverse inertias of a robot at a configuration, by default the neutral one."""
    tree = tree_of(robot)
    if q is None:
        q = [x for kind, _, _ in tree.coordinates for x in kind.neutral]
    factored = factor(tree, mass_matrix(tree, q))
    bodies = []
    for i, body in enumerate(robot.bodies):
        centre = Frame("", i, Placement(IDENTITY.R, body.com))
        J = jacobian(tree, q, tree.point(centre), "body")
        bodies.append(BodyWeight(_mean(factored, J[:3]), _mean(factored, J[3:])))
    return InverseWeights(tuple(bodies), _of_freedoms(tree, factored))


def _of_freedoms(tree: Tree, factored: MassFactor) -> tuple[float, ...]:
    weights: list[float] = []
    for kind, _, first in tree.coordinates:
        together = 3 if kind.nv % 3 == 0 else 1
        for k in range(first, first + kind.nv, together):
            rows = [[float(i == k + n) for i in range(tree.nv)] for n in range(together)]
            weights += together * [_mean(factored, rows)]
    return tuple(weights)


def _mean(factored: MassFactor, rows: Rows) -> float:
    """Returns the mean of row M^-1 row^T over some rows."""
    total = 0.0
    for row in rows:
        y = factored.row_inward(sparse(row))
        total += sum(x * x * factored.Dinv[k] for k, x in y.items())
    return total / len(rows)
