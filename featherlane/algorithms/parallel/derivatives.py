"""The derivatives of inverse dynamics by scans: the spatial-vector formulas of Singh, Russell and
Wensing (2022), as in `algorithms.derivatives`, with velocities and accelerations from one scan
outwards and all sums over subtrees from one inwards. The rest is local to a pair of joints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from featherlane.algorithms.common import (
    Scalars,
    Wrenches,
    joint_entries,
    link_resistance_slope,
    no_wrenches,
    put_entries,
)
from featherlane.algorithms.derivatives import Fixed, Loads, Motion, assembled
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.parallel.inverse import newton_euler
from featherlane.algorithms.parallel.kinematics import (
    METHOD,
    Accelerated,
    ground_of,
    motions,
    product,
)
from featherlane.algorithms.rows.derivatives import derivative_rows
from featherlane.algorithms.scan import subtree_sum
from featherlane.robot.model import WORLD
from featherlane.robot.spatial import NO_CORIOLIS, ZERO6, Coriolis, Inertia, Transform, Vector
from featherlane.robot.tree import Link, Tree
from featherlane.scalar import Scalar, call


def scanned_derivatives(tree: Tree, *state: Any, **options: Any) -> tuple[Rows, Rows]:
    """Returns (dtau/dq, dtau/dv) of `inverse_dynamics_derivatives`, each nv x nv, with the depth
    of a scan. The arguments are those of `scanned_motion_and_loads`.
    """
    return assembled(tree, *scanned_motion_and_loads(tree, *state, **options))


def scanned_derivative_rows(tree: Tree, *state: Any, **options: Any) -> tuple[Rows, Rows]:
    """Returns the numbers of each freedom of which products make the derivatives, see
    `rows.derivatives`. The arguments are those of `scanned_motion_and_loads`.
    """
    return derivative_rows(tree, *scanned_motion_and_loads(tree, *state, **options))


def scanned_motion_and_loads(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
    method: str = METHOD,
    **options: int,
) -> tuple[Motion, Loads]:
    """Returns `motion_and_loads`, by scans. method: one of `path_scan`, with its options;
    ValueError for any other.
    """
    ground = ZERO6, ground_of(tree)
    joints, moving = motions(tree, q, qd, qdd, ground, method, **options)
    X = [joint.X for joint in joints]
    T: Sequence[Coriolis | None] = fixed or [None] * tree.nbodies
    bodies = zip(tree.links, moving, f_ext or no_wrenches(tree), T, strict=True)
    alone = [call(Subtree.of, link.inertia, m.v, m.a, f, Ti) for link, m, f, Ti in bodies]
    below = subtree_sum(
        Subtree.__add__, Subtree.seen_through, product, alone, X, tree.parent, method, **options
    )
    vp, ap, slopes = _arrivals(tree, X, moving, ground, qd)
    m = Motion(
        X=X,
        C=[m.X for m in moving],
        vp=vp,
        v=[m.v for m in moving],
        vJ=[joint.v for joint in joints],
        I=[b.I for b in below],
        B2=[b.B2 for b in below],
        slopes=slopes,
    )
    return m, Loads(ap, [b.f for b in below], [b.T or NO_CORIOLIS for b in below])


def _arriving(
    link: Link, X: Transform, v: Vector, a: Vector, qd: Scalars
) -> tuple[Vector, Vector, list[Scalar]]:
    """The parent's velocity and acceleration in the coordinates of the body, and the joint's
    slopes.
    """
    return X.motion(v), X.motion(a), link_resistance_slope(link, qd)


def _arrivals(
    tree: Tree,
    X: Sequence[Transform],
    moving: Sequence[Accelerated],
    ground: tuple[Vector, Vector],
    qd: Scalars,
) -> tuple[list[Vector], list[Vector], list[Scalar]]:
    """vp, ap and slopes as `Motion` and `Loads` have them."""
    vp, ap = [], []
    slopes: list[Scalar] = [0.0] * tree.nv
    for i, (p, link) in enumerate(zip(tree.parent, tree.links, strict=True)):
        above = ground if p == WORLD else (moving[p].v, moving[p].a)
        v, a, own = call(_arriving, link, X[i], *above, joint_entries(tree, i, qd))
        vp.append(v)
        ap.append(a)
        put_entries(tree, i, slopes, own)
    return vp, ap, slopes


class Subtree(NamedTuple):
    """What derivatives need of a body or a subtree: see `Motion` and `Loads`."""

    I: Inertia
    B2: Coriolis
    f: Vector
    T: Coriolis | None  # None: nothing is fixed

    @staticmethod
    def of(inertia: Inertia, v: Vector, a: Vector, wrench: Vector, T: Coriolis | None) -> Subtree:
        """A body alone, at its spatial velocity and acceleration."""
        f = newton_euler(inertia, v, a) - wrench
        return Subtree(inertia, Coriolis.of(inertia, v + v), f, T)

    def __add__(self, other: Subtree) -> Subtree:  # type: ignore[override]
        T = self.T + other.T if self.T and other.T else None
        return Subtree(self.I + other.I, self.B2 + other.B2, self.f + other.f, T)

    @staticmethod
    def seen_through(X: Transform, b: Subtree) -> Subtree:
        """The same in the coordinates that X starts from."""
        T = X.coriolis_to_parent(b.T) if b.T else None
        B2 = X.coriolis_to_parent(b.B2)
        return Subtree(X.inertia_to_parent(b.I), B2, X.force_to_parent(b.f), T)
