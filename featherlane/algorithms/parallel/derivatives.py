"""The derivatives of inverse dynamics by scans, with the formulas of `algorithms.derivatives`.

One scan outward gives velocities and accelerations, one scan inward all sums over subtrees. The
rest concerns a pair of joints at a time (Singh, Russell and Wensing 2022).
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
from featherlane.algorithms.derivatives import Fixed, Loads, TreeMotion, assembled
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.parallel.inverse import newton_euler
from featherlane.algorithms.parallel.kinematics import (
    METHOD,
    AccelerationMap,
    TreeScans,
    ground_of,
    product,
    velocities_and_accelerations,
)
from featherlane.algorithms.rows.derivatives import derivative_rows
from featherlane.algorithms.springs import spring_slopes
from featherlane.algorithms.turned_armature import turning_slopes
from featherlane.robot.parts import WORLD
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
) -> tuple[TreeMotion, Loads]:
    """Returns `motion_and_loads`, by scans. method: one of `path_scan`, with its options;
    ValueError for any other.
    """
    ground, scans = (ZERO6, ground_of(tree)), TreeScans(tree.parent, method, options)
    joints, bodies = velocities_and_accelerations(tree, q, qd, qdd, ground, scans)
    X = [joint.X for joint in joints]
    T: Sequence[Coriolis | None] = fixed or [None] * tree.nbodies
    each = zip(tree.links, bodies, f_ext or no_wrenches(tree), T, strict=True)
    alone = [call(Subtree.of, link.inertia, m.v, m.a, f, Ti) for link, m, f, Ti in each]
    below = scans.over_subtrees(Subtree.to_parent, product, alone, X)
    vp, ap, slopes = _seen_from_bodies(tree, X, bodies, ground, qd)
    springs = spring_slopes(tree, q, qd, slopes)
    m = TreeMotion(
        X=X,
        C=[m.X for m in bodies],
        vp=vp,
        v=[m.v for m in bodies],
        vJ=[joint.v for joint in joints],
        I=[b.I for b in below],
        B2=[b.B2 for b in below],
        slopes=slopes,
        springs=springs,
        turning=turning_slopes(tree, qd),
    )
    return m, Loads(ap, [b.f for b in below], [b.T or NO_CORIOLIS for b in below])


def _seen_from_body(
    link: Link, X: Transform, v: Vector, a: Vector, qd: Scalars
) -> tuple[Vector, Vector, list[Scalar]]:
    """Returns the parent's v and a in body coordinates, and the joint's resistance slopes."""
    return X.motion(v), X.motion(a), link_resistance_slope(link, qd)


def _seen_from_bodies(
    tree: Tree,
    X: Sequence[Transform],
    bodies: Sequence[AccelerationMap],
    ground: tuple[Vector, Vector],
    qd: Scalars,
) -> tuple[list[Vector], list[Vector], list[Scalar]]:
    """Returns vp, ap and slopes of `TreeMotion` and `Loads`."""
    vp, ap = [], []
    slopes: list[Scalar] = [0.0] * tree.nv
    for i, (p, link) in enumerate(zip(tree.parent, tree.links, strict=True)):
        parent = ground if p == WORLD else (bodies[p].v, bodies[p].a)
        v, a, entries = call(_seen_from_body, link, X[i], *parent, joint_entries(tree, i, qd))
        vp.append(v)
        ap.append(a)
        put_entries(tree, i, slopes, entries)
    return vp, ap, slopes


class Subtree(NamedTuple):
    """The fields of `TreeMotion` and `Loads` that are summed, of a body or a subtree."""

    I: Inertia
    B2: Coriolis
    f: Vector
    T: Coriolis | None  # None where no wrench is fixed in the world

    @staticmethod
    def of(inertia: Inertia, v: Vector, a: Vector, wrench: Vector, T: Coriolis | None) -> Subtree:
        """Returns the fields of one body at its spatial velocity and acceleration."""
        f = newton_euler(inertia, v, a) - wrench
        return Subtree(inertia, Coriolis.of(inertia, v + v), f, T)

    def __add__(self, other: Subtree) -> Subtree:  # type: ignore[override]
        T = self.T + other.T if self.T and other.T else None
        return Subtree(self.I + other.I, self.B2 + other.B2, self.f + other.f, T)

    @staticmethod
    def to_parent(X: Transform, b: Subtree) -> Subtree:
        T = X.coriolis_to_parent(b.T) if b.T else None
        B2 = X.coriolis_to_parent(b.B2)
        return Subtree(X.inertia_to_parent(b.I), B2, X.force_to_parent(b.f), T)
