"""The derivatives of inverse dynamics by scans: the spatial-vector formulas of Singh, Russell and
Wensing (2022), as in `algorithms.derivatives`, with velocities and accelerations from one scan
outwards and all sums over subtrees from one inwards. The rest is local to a pair of joints.
"""

from __future__ import annotations

from operator import add
from typing import NamedTuple

from featherlane.algorithms.derivatives import Fixed, Loads, Motion, assembled
from featherlane.algorithms.kinematics import (
    Scalars,
    Wrenches,
    joint_motion,
    no_wrenches,
    resistance_slope,
)
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.parallel.inverse import newton_euler
from featherlane.algorithms.parallel.kinematics import (
    METHOD,
    joint_transforms,
    motions,
    product,
    resting_ground,
)
from featherlane.algorithms.scan import subtree_sum
from featherlane.model import WORLD
from featherlane.spatial import NO_CORIOLIS, ZERO6, Coriolis, Inertia, Transform, Vector
from featherlane.tree import Tree


def scanned_derivatives(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
    method: str = METHOD,
) -> tuple[Rows, Rows]:
    """(dtau/dq, dtau/dv) of `inverse_dynamics_derivatives`, each nv x nv, with the depth of a scan.

    f_ext and fixed as there. method: one of `path_scan`; ValueError for any other.
    """
    bodies, X = range(tree.nbodies), joint_transforms(tree, q)
    f_ext, ground = f_ext or no_wrenches(tree), resting_ground(tree)
    vJ = [joint_motion(tree, i, qd) for i in bodies]
    own = [(vJ[i], joint_motion(tree, i, qdd)) for i in bodies]
    moving = motions(tree, X, own, (ZERO6, ground), method)
    T = fixed or [NO_CORIOLIS] * tree.nbodies
    below = [Subtree.of(tree.inertias[i], m.v, m.a, f_ext[i], T[i]) for i, m in enumerate(moving)]
    below = subtree_sum(add, Subtree.seen_through, product, below, X, tree.parent, method)
    above = [(ZERO6, ground) if p == WORLD else (moving[p].v, moving[p].a) for p in tree.parent]
    m = Motion(
        X=X,
        C=[m.X for m in moving],
        vp=[X[i].motion(v) for i, (v, _) in enumerate(above)],
        v=[m.v for m in moving],
        vJ=vJ,
        I=[b.I for b in below],
        B2=[b.B2 for b in below],
        slopes=[resistance_slope(tree, k, v) for k, v in enumerate(qd)],
    )
    ap = [X[i].motion(a) for i, (_, a) in enumerate(above)]
    return assembled(tree, m, Loads(ap, [b.f for b in below], [b.T for b in below]))


class Subtree(NamedTuple):
    """What derivatives need of a body or a subtree: see `Motion` and `Loads`."""

    I: Inertia
    B2: Coriolis
    f: Vector
    T: Coriolis

    @staticmethod
    def of(inertia: Inertia, v: Vector, a: Vector, wrench: Vector, T: Coriolis) -> Subtree:
        """A body alone, at its spatial velocity and acceleration."""
        f = newton_euler(inertia, v, a) - wrench
        return Subtree(inertia, Coriolis.of(inertia, v + v), f, T)

    def __add__(self, other: Subtree) -> Subtree:  # type: ignore[override]
        return Subtree(self.I + other.I, self.B2 + other.B2, self.f + other.f, self.T + other.T)

    @staticmethod
    def seen_through(X: Transform, b: Subtree) -> Subtree:
        """The same in the coordinates that X starts from."""
        B2, T = X.coriolis_to_parent(b.B2), X.coriolis_to_parent(b.T)
        return Subtree(X.inertia_to_parent(b.I), B2, X.force_to_parent(b.f), T)
