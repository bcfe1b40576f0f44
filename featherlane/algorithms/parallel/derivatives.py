"""The derivatives of inverse dynamics by scans: the spatial-vector formulas of Singh, Russell and
Wensing (2022), as in `algorithms.derivatives`, with velocities and accelerations from one scan
outwards and all sums over subtrees from one inwards. The rest is local to a pair of joints.
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.algorithms.derivatives import Fixed, Loads, Motion, assembled
from featherlane.algorithms.kinematics import (
    Scalars,
    Wrenches,
    joint_entries,
    link_resistance_slope,
    no_wrenches,
    put_entries,
)
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.parallel.inverse import newton_euler
from featherlane.algorithms.parallel.kinematics import (
    METHOD,
    motions,
    product,
    resting_ground,
)
from featherlane.algorithms.scan import subtree_sum
from featherlane.model import WORLD
from featherlane.scalar import Scalar
from featherlane.spatial import NO_CORIOLIS, ZERO6, Coriolis, Inertia, Transform, Vector
from featherlane.tree import Tree
from featherlane.walk import call


def scanned_derivatives(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
    method: str = METHOD,
    **options: int,
) -> tuple[Rows, Rows]:
    """(dtau/dq, dtau/dv) of `inverse_dynamics_derivatives`, each nv x nv, with the depth of a scan.

    f_ext and fixed as there. method: one of `path_scan`, with its options; ValueError for any
    other.
    """
    ground = ZERO6, resting_ground(tree)
    joints, moving = motions(tree, q, qd, qdd, ground, method, **options)
    X, T = [joint.X for joint in joints], fixed or [NO_CORIOLIS] * tree.nbodies
    bodies = zip(tree.links, moving, f_ext or no_wrenches(tree), T, strict=True)
    own = [call(Subtree.of, link.inertia, m.v, m.a, f, Ti) for link, m, f, Ti in bodies]
    below = subtree_sum(
        Subtree.__add__, Subtree.seen_through, product, own, X, tree.parent, method, **options
    )
    above = [ground if p == WORLD else (moving[p].v, moving[p].a) for p in tree.parent]
    arriving = [call(_arriving, Xi, *motion) for Xi, motion in zip(X, above, strict=True)]
    m = Motion(
        X=X,
        C=[m.X for m in moving],
        vp=[v for v, _ in arriving],
        v=[m.v for m in moving],
        vJ=[joint.v for joint in joints],
        I=[b.I for b in below],
        B2=[b.B2 for b in below],
        slopes=_slopes(tree, qd),
    )
    load = Loads([a for _, a in arriving], [b.f for b in below], [b.T for b in below])
    return assembled(tree, m, load)


def _arriving(X: Transform, v: Vector, a: Vector) -> tuple[Vector, Vector]:
    """The parent's velocity and acceleration in the coordinates of the body."""
    return X.motion(v), X.motion(a)


def _slopes(tree: Tree, qd: Scalars) -> list[Scalar]:
    slopes: list[Scalar] = [0.0] * tree.nv
    for i, link in enumerate(tree.links):
        own = call(link_resistance_slope, link, joint_entries(tree, i, qd))
        put_entries(tree, i, slopes, own)
    return slopes


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
