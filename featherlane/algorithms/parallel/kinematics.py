"""What passes outwards and inwards along a tree, by scans.

A body's motion is that of its parent seen through the joint, and the joint's own: x_i = X_i x_p +
own_i. Such maps compose to maps of the same form, so that all bodies at once follow from one scan;
forces are summed inwards by the transposes (Yang, Wu and Pan 2016, section III). The joint of a
root starts from what is known of the ground, and has the identity for its transform.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.aba import Bias, carried_bias
from featherlane.algorithms.kinematics import (
    Scalars,
    Wrenches,
    joint_motion,
    no_wrenches,
    rigid_acceleration,
)
from featherlane.algorithms.scan import path_scan, subtree_sum
from featherlane.model import WORLD
from featherlane.spatial import (
    NO_TURN,
    ZERO3,
    ZERO6,
    Rotation,
    Transform,
    Vector,
    crm,
    matmul,
    spatial,
    split,
)
from featherlane.tree import Tree

METHOD = "jumping"
HERE = Transform(NO_TURN, ZERO3)


def product(nearer: Transform, farther: Transform) -> Transform:
    """Through the one nearer the root, then the other; without the parts that it is made of, for a
    scan would pile them up.
    """
    X = farther @ nearer
    return Transform(X.E, X.r)


class Turned(NamedTuple):
    """w -> E w + own: what joints in a row make of an angular velocity."""

    E: Rotation
    w: Vector


def turned_on(a: Turned, b: Turned) -> Turned:
    """a, then b."""
    return Turned(Rotation(matmul(b.E.rows, a.E.rows)), b.E.to_child(a.w) + b.w)


class Moved(NamedTuple):
    """x -> X x + own: what joints in a row make of a motion vector."""

    X: Transform
    x: Vector


def moved_on(a: Moved, b: Moved) -> Moved:
    """a, then b."""
    return Moved(product(a.X, b.X), b.X.motion(a.x) + b.x)


class Accelerated(NamedTuple):
    """What joints in a row make of a spatial velocity and acceleration: v -> X v + own velocity, a
    -> X a + own acceleration + X v x own velocity: (g, xi2, xi1) of Yang's section III.
    """

    X: Transform
    v: Vector
    a: Vector


def accelerated_on(a: Accelerated, b: Accelerated) -> Accelerated:
    """a, then b: the semidirect product of Yang's equation 13."""
    v = b.X.motion(a.v)
    return Accelerated(product(a.X, b.X), v + b.v, b.X.motion(a.a) + b.a + crm(v, b.v))


def joint_transforms(tree: Tree, q: Scalars) -> list[Transform]:
    return [tree.joint_transform(i, q) for i in range(tree.nbodies)]


def angular_velocities(
    tree: Tree, X: Sequence[Transform], own: Sequence[Vector], base: Vector, method: str
) -> list[Vector]:
    """w_i = E_i w_p + own_i, and `base` for the ground's."""
    elements = [
        Turned(NO_TURN, X[i].E.to_child(base) + own[i]) if p == WORLD else Turned(X[i].E, own[i])
        for i, p in enumerate(tree.parent)
    ]
    return [element.w for element in path_scan(turned_on, elements, tree.parent, method)]


def carried_outwards(
    tree: Tree, X: Sequence[Transform], own: Sequence[Vector], base: Vector, method: str
) -> list[Vector]:
    """x_i = X_i x_p + own_i, and `base` for the ground's."""
    elements = [
        Moved(HERE, X[i].motion(base) + own[i]) if p == WORLD else Moved(X[i], own[i])
        for i, p in enumerate(tree.parent)
    ]
    return [element.x for element in path_scan(moved_on, elements, tree.parent, method)]


def motions(
    tree: Tree,
    X: Sequence[Transform],
    own: Sequence[tuple[Vector, Vector]],
    base: tuple[Vector, Vector],
    method: str,
) -> list[Accelerated]:
    """Spatial velocities and accelerations in one scan; `own`: those that each joint adds, `base`:
    the ground's. X is from the coordinates of the first body of the branch.
    """
    ground = Accelerated(HERE, *base)
    elements = []
    for i, p in enumerate(tree.parent):
        element = Accelerated(X[i], *own[i])
        if p == WORLD:
            element = accelerated_on(ground, element)._replace(X=HERE)
        elements.append(element)
    return path_scan(accelerated_on, elements, tree.parent, method)


def carried_inwards(
    tree: Tree, X: Sequence[Transform], f: Sequence[Vector], method: str
) -> list[Vector]:
    """f_i + the sum over its children of X^T f: the force on each subtree."""
    act = lambda X, f: X.force_to_parent(f)
    return subtree_sum(lambda f, g: f + g, act, product, f, X, tree.parent, method)


class Terms(NamedTuple):
    """What a state does without accelerations of its joints, for each body: the accelerations of
    origins as points in space are X a_p + v.c + S qdd.
    """

    X: list[Transform]
    v: list[Bias]

    def own_forces(self, tree: Tree, f_ext: Wrenches | None) -> list[Vector]:
        """p of f = I a + p + what the children ask."""
        f_ext = no_wrenches(tree) if f_ext is None else f_ext
        bodies = zip(tree.inertias, self.v, f_ext, strict=True)
        return [inertia.wrench(v.U0, ZERO3) - f for inertia, v, f in bodies]


def terms(tree: Tree, q: Scalars, qd: Scalars, base: Vector = ZERO3, method: str = METHOD) -> Terms:
    """All but one scan, for the angular velocities, is local. base: the ground's turn rate."""
    X = joint_transforms(tree, q)
    own = [joint_motion(tree, i, qd) for i in range(tree.nbodies)]
    w = angular_velocities(tree, X, [split(vJ)[0] for vJ in own], base, method)
    v = []
    for i, p in enumerate(tree.parent):
        wp = base if p == WORLD else w[p]
        above = Bias(wp, rigid_acceleration(wp, ZERO3), ZERO6)
        v.append(carried_bias(X[i], above, own[i])._replace(w=w[i]))
    return Terms(X, v)


def resting_ground(tree: Tree) -> Vector:
    """Gravity is an acceleration of the ground."""
    return spatial(ZERO3, -tree.gravity)
