"""Velocities, accelerations and forces of all bodies of a tree by scans.

A body's motion is its parent's, in coordinates behind the joint, plus that of the joint:
x_i = X_i x_p + xJ_i. Such affine maps compose to maps of the same form, so that one scan gives the
motion of all bodies; forces are summed inward with the transposed maps (Yang, Wu and Pan 2016,
section III). At a root the map is applied to the ground's motion, and its transform becomes the
identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, sub
from typing import Any, NamedTuple, TypeVar

from featherlane.algorithms.aba import Bias, carried_bias, parent_bias
from featherlane.algorithms.common import (
    Scalars,
    Wrenches,
    ground_acceleration,
    joint_entries,
    joint_state,
    link_motion,
)
from featherlane.algorithms.scan import path_scan, subtree_sum
from featherlane.algorithms.scan.lists import Combine
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import (
    NO_TURN,
    ZERO3,
    Rotation,
    Transform,
    Vector,
    crm,
    matmul,
    split,
)
from featherlane.robot.tree import Link, Tree, joint_transform
from featherlane.scalar import call

METHOD = "jumping"
NO_MOTION = Transform(NO_TURN, ZERO3)


class TreeScans(NamedTuple):
    """The scans of a tree by one method of `path_scan` and `subtree_sum`, with its options."""

    parent: Sequence[int]
    method: str
    options: dict[str, int]

    def along_paths(self, combine: Combine, elements: Sequence[Any]) -> list[Any]:
        return path_scan(combine, elements, self.parent, self.method, **self.options)

    def over_subtrees(
        self, act: Combine, compose: Combine, elements: Sequence[Any], moves: Sequence[Any]
    ) -> list[Any]:
        parent, method, options = self
        return subtree_sum(add, act, compose, elements, moves, parent, method, **options)


def plain(X: Transform) -> Transform:
    """Drops the two parts of a product, so that all transforms in a scan have one form."""
    return Transform(X.E, X.r)


def product(nearer: Transform, farther: Transform) -> Transform:
    """Returns the transform through `nearer`, the one nearer the root, and then `farther`."""
    return plain(farther @ nearer)


class AngularMap(NamedTuple):
    """The map w -> E w + w_J of an angular velocity through joints in series."""

    E: Rotation
    w: Vector

    def then(self, b: AngularMap) -> AngularMap:
        return AngularMap(Rotation(matmul(b.E.rows, self.E.rows)), b.E.to_child(self.w) + b.w)


class MotionMap(NamedTuple):
    """The map x -> X x + x_J of a motion vector through joints in series."""

    X: Transform
    x: Vector

    def then(self, b: MotionMap) -> MotionMap:
        return MotionMap(product(self.X, b.X), b.X.motion(self.x) + b.x)


class AccelerationMap(NamedTuple):
    """The map of a spatial velocity and acceleration through joints in series.

    v -> X v + v_J, a -> X a + a_J + X v x v_J: (g, xi2, xi1) of Yang's section III-B.
    """

    X: Transform
    v: Vector
    a: Vector

    def then(self, b: AccelerationMap) -> AccelerationMap:
        """Composes two maps by the semidirect product of Yang's equation 13."""
        v = b.X.motion(self.v)
        return AccelerationMap(
            product(self.X, b.X), v + b.v, b.X.motion(self.a) + b.a + crm(v, b.v)
        )


Map = TypeVar("Map", AngularMap, MotionMap, AccelerationMap)


def scanned(ground: Map, maps: Sequence[Map], scans: TreeScans) -> list[Map]:
    """Composes the joints' maps along the paths from the ground, whose motion is `ground`.

    The first entry of `ground` is an identity, and so is that of the roots' maps: results are maps
    from the coordinates of the branch's first body.
    """
    then = type(ground).then
    start = [
        type(ground)(ground[0], *call(then, ground, x)[1:]) if p == WORLD else x
        for x, p in zip(maps, scans.parent, strict=True)
    ]
    return scans.along_paths(then, start)


# Angular velocities


def _rotating(link: Link, q: Scalars, qd: Scalars) -> tuple[Transform, Vector]:
    """Returns X of a joint, and the angular velocity that it adds."""
    return joint_transform(link, q), split(link_motion(link, qd))[0]


def angular_velocities(
    tree: Tree, q: Scalars, qd: Scalars, scans: TreeScans
) -> tuple[list[Transform], list[Vector], list[Vector]]:
    """Returns, for each body, X of its joint, its parent's angular velocity and the body's."""
    base = split(tree.base_velocity)[0]
    links = enumerate(tree.links)
    joints = [call(_rotating, link, *joint_state(tree, i, q, qd)) for i, link in links]
    maps = [AngularMap(X.E, w) for X, w in joints]
    w = [x.w for x in scanned(AngularMap(NO_TURN, base), maps, scans)]
    return [X for X, _ in joints], [base if p == WORLD else w[p] for p in tree.parent], w


# Velocities and accelerations


def scanned_motions(
    X: Sequence[Transform], joints: Sequence[Vector], ground: Vector, scans: TreeScans
) -> list[Vector]:
    """Returns x_i = X_i x_p + joints_i of all bodies, where the ground's x is `ground`."""
    maps = [MotionMap(plain(Xi), x) for Xi, x in zip(X, joints, strict=True)]
    return [x.x for x in scanned(MotionMap(NO_MOTION, ground), maps, scans)]


def _moving(link: Link, q: Scalars, qd: Scalars, qdd: Scalars) -> tuple[Transform, Vector, Vector]:
    """Returns X of a joint, and the velocity and acceleration that it adds."""
    return joint_transform(link, q), link_motion(link, qd), link_motion(link, qdd)


def velocities_and_accelerations(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    ground: tuple[Vector, Vector],
    scans: TreeScans,
) -> tuple[list[AccelerationMap], list[AccelerationMap]]:
    """Returns the maps of the joints, and by one scan the maps that hold the bodies' v and a.

    ground: its spatial velocity and acceleration.
    """
    joints = [
        AccelerationMap(*call(_moving, link, *joint_state(tree, i, q, qd, qdd)))
        for i, link in enumerate(tree.links)
    ]
    maps = [joint._replace(X=plain(joint.X)) for joint in joints]
    return joints, scanned(AccelerationMap(NO_MOTION, *ground), maps, scans)


# Forces


def subtree_forces(X: Sequence[Transform], f: Sequence[Vector], scans: TreeScans) -> list[Vector]:
    """Returns f_i + the sum of X^T f over its children: the force on each subtree."""
    return scans.over_subtrees(Transform.force_to_parent, product, f, [plain(x) for x in X])


class BiasTerms(NamedTuple):
    """The bias terms of each body, at qdd = 0: classical accelerations of origins are
    X a_p + v.c + S qdd, and forces are I a + p.
    """

    X: list[Transform]
    v: list[Bias]
    p: list[Vector]

    def net_forces(self, f_ext: Wrenches | None) -> list[Vector]:
        """Returns p less the wrenches on the bodies."""
        if f_ext is None:
            return self.p
        return [call(sub, p, f) for p, f in zip(self.p, f_ext, strict=True)]


def _bias(link: Link, X: Transform, wp: Vector, w: Vector, qd: Scalars) -> tuple[Bias, Vector]:
    """Returns v and p of a body."""
    v = carried_bias(X, parent_bias(wp), link_motion(link, qd))._replace(w=w)
    return v, link.inertia.wrench(v.U0, ZERO3)


def bias_terms(tree: Tree, q: Scalars, qd: Scalars, scans: TreeScans) -> BiasTerms:
    """Computes all terms body by body from one scan, that of the angular velocities."""
    X, wp, w = angular_velocities(tree, q, qd, scans)
    biases = [
        call(_bias, link, X[i], wp[i], w[i], joint_entries(tree, i, qd))
        for i, link in enumerate(tree.links)
    ]
    return BiasTerms(X, [v for v, _ in biases], [p for _, p in biases])


def ground_of(tree: Tree) -> Vector:
    """Returns the ground's acceleration: its origin's classical acceleration less gravity."""
    return call(ground_acceleration, tree.gravity, tree.base_acceleration)
