"""What passes outwards and inwards along a tree, by scans.

A body's motion is that of its parent seen through the joint, and the joint's own: x_i = X_i x_p +
own_i. Such maps compose to maps of the same form, so that all bodies at once follow from one scan;
forces are summed inwards by the transposes (Yang, Wu and Pan 2016, section III). The joint of a
root starts from what is known of the ground, and has the identity for its transform.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add, sub
from typing import NamedTuple, TypeVar

from featherlane.algorithms.aba import Bias, carried_bias, ground_acceleration, parent_bias
from featherlane.algorithms.common import (
    Scalars,
    Wrenches,
    joint_coordinates,
    joint_entries,
    link_motion,
)
from featherlane.algorithms.scan import path_scan, subtree_sum
from featherlane.robot.model import WORLD
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
HERE = Transform(NO_TURN, ZERO3)


def plain(X: Transform) -> Transform:
    """Without the parts that it is made of, so that all that a scan meets has one form."""
    return Transform(X.E, X.r)


def product(nearer: Transform, farther: Transform) -> Transform:
    """Through the one nearer the root, then the other; a scan would pile up their parts."""
    return plain(farther @ nearer)


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


Element = TypeVar("Element", Turned, Moved, Accelerated)


def scanned(
    combine: Callable[[Element, Element], Element],
    ground: Element,
    elements: Sequence[Element],
    tree: Tree,
    method: str,
    **options: int,
) -> list[Element]:
    """`path_scan` of what the joints make of a motion, from that of the ground on.

    ground: its first entry is an identity, and roots get it for theirs: what is scanned is seen
    from the first body of the branch. options: of the method.
    """
    start = [
        type(ground)(ground[0], *call(combine, ground, x)[1:]) if p == WORLD else x
        for x, p in zip(elements, tree.parent, strict=True)
    ]
    return path_scan(combine, start, tree.parent, method, **options)


# Angular velocities


class Spinning(NamedTuple):
    """The joints' transforms, and the angular velocities of each body's parent and its own."""

    X: list[Transform]
    wp: list[Vector]
    w: list[Vector]


def _turning(link: Link, q: Scalars, qd: Scalars) -> tuple[Transform, Vector]:
    """X of a joint, and the angular velocity that it adds."""
    return joint_transform(link, q), split(link_motion(link, qd))[0]


def spinning(tree: Tree, q: Scalars, qd: Scalars, method: str, **options: int) -> Spinning:
    """w_i = E_i w_p + own_i."""
    base = split(tree.base_velocity)[0]
    joints = [
        call(_turning, link, joint_coordinates(tree, i, q), joint_entries(tree, i, qd))
        for i, link in enumerate(tree.links)
    ]
    elements = [Turned(X.E, own) for X, own in joints]
    w = [x.w for x in scanned(turned_on, Turned(NO_TURN, base), elements, tree, method, **options)]
    wp = [base if p == WORLD else w[p] for p in tree.parent]
    return Spinning([X for X, _ in joints], wp, w)


# Velocities and accelerations


def carried_outwards(
    tree: Tree,
    X: Sequence[Transform],
    own: Sequence[Vector],
    base: Vector,
    method: str,
    **options: int,
) -> list[Vector]:
    """x_i = X_i x_p + own_i, and `base` for the ground's."""
    elements = [Moved(plain(Xi), x) for Xi, x in zip(X, own, strict=True)]
    found = scanned(moved_on, Moved(HERE, base), elements, tree, method, **options)
    return [element.x for element in found]


def _moving(link: Link, q: Scalars, qd: Scalars, qdd: Scalars) -> tuple[Transform, Vector, Vector]:
    """X of a joint, and the velocity and the acceleration that it adds."""
    return joint_transform(link, q), link_motion(link, qd), link_motion(link, qdd)


def motions(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    base: tuple[Vector, Vector],
    method: str,
    **options: int,
) -> tuple[list[Accelerated], list[Accelerated]]:
    """(those of the joints alone, those of the bodies): spatial velocities and accelerations, in
    one scan. base: the ground's. X of the latter is from the coordinates of the first body of the
    branch.
    """
    own = [
        Accelerated(
            *call(
                _moving,
                link,
                joint_coordinates(tree, i, q),
                joint_entries(tree, i, qd),
                joint_entries(tree, i, qdd),
            )
        )
        for i, link in enumerate(tree.links)
    ]
    elements = [joint._replace(X=plain(joint.X)) for joint in own]
    ground = Accelerated(HERE, *base)
    return own, scanned(accelerated_on, ground, elements, tree, method, **options)


# Forces


def carried_inwards(
    tree: Tree, X: Sequence[Transform], f: Sequence[Vector], method: str, **options: int
) -> list[Vector]:
    """f_i + the sum over its children of X^T f: the force on each subtree."""
    moves = [plain(x) for x in X]
    return subtree_sum(
        add, Transform.force_to_parent, product, f, moves, tree.parent, method, **options
    )


class Terms(NamedTuple):
    """What a state does without accelerations of its joints, for each body: the accelerations of
    origins as points in space are X a_p + v.c + S qdd, and forces are I a + p.
    """

    X: list[Transform]
    v: list[Bias]
    p: list[Vector]

    def own_forces(self, tree: Tree, f_ext: Wrenches | None) -> list[Vector]:
        """p with wrenches on the bodies."""
        if f_ext is None:
            return self.p
        return [call(sub, p, f) for p, f in zip(self.p, f_ext, strict=True)]


def _bias(link: Link, X: Transform, wp: Vector, w: Vector, qd: Scalars) -> tuple[Bias, Vector]:
    """v and p of a body."""
    v = carried_bias(X, parent_bias(wp), link_motion(link, qd))._replace(w=w)
    return v, link.inertia.wrench(v.U0, ZERO3)


def terms(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    method: str = METHOD,
    **options: int,
) -> Terms:
    """All but one scan, for the angular velocities, is local."""
    X, wp, w = spinning(tree, q, qd, method, **options)
    found = [
        call(_bias, link, X[i], wp[i], w[i], joint_entries(tree, i, qd))
        for i, link in enumerate(tree.links)
    ]
    return Terms(X, [v for v, _ in found], [p for _, p in found])


def ground_of(tree: Tree) -> Vector:
    """The ground's acceleration, its origin's as a point in space, and gravity."""
    return call(ground_acceleration, tree.gravity, tree.base_acceleration)
