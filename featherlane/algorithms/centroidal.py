"""The centre of mass of the robot, and its momentum about it.

All results are in world axes, in the user's order [linear; angular]; the mass is the moving mass.
Reference: Orin, Goswami and Lee, Centroidal dynamics of a humanoid robot (2013).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add, mul, truediv
from typing import Any

from featherlane.algorithms.common import Scalars, add_force, joint_state, link_motion
from featherlane.algorithms.frames import body_acceleration, linear_first, matrix, placements
from featherlane.algorithms.mminv import Rows
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import (
    ZERO6,
    Inertia,
    Symmetric,
    Transform,
    Vector,
    crf,
    cross,
    split,
)
from featherlane.robot.tree import Link, Tree, joint_transform
from featherlane.robot.walk import inward, outward
from featherlane.scalar import Scalar, call


def _with_subtree(X: Transform, I: Inertia, parent: Inertia) -> tuple[Vector, Symmetric]:
    """Returns the first and second moment of a parent with a child's subtree added."""
    whole = parent + X.inertia_to_parent(I)
    return whole.h, whole.S


def composites(model: Tree, q: Scalars) -> dict[int, Inertia]:
    """Returns each body's composite inertia, that of its subtree; under WORLD that of the robot.

    Masses are summed in a separate step: as constants of the robot they stay numbers.
    """
    I = {WORLD: model.ground, **dict(enumerate(model.inertias))}
    for i in inward(model, "C"):
        p, X = model.parent[i], model.joint_transform(i, q)
        I[p] = Inertia(call(add, I[p].m, I[i].m), *call(_with_subtree, X, I[i], I[p]))
    return I


def _per_mass(whole: Inertia) -> Scalar:
    if isinstance(whole.m, float) and not whole.m:
        raise ValueError("the robot has no moving mass, and so no centre of mass")
    return call(truediv, 1.0, whole.m)


def _centre(whole: Inertia) -> Vector:
    return call(mul, whole.h, _per_mass(whole))


def center_of_mass(model: Tree, q: Scalars) -> Vector:
    """Returns c, the centre of the moving mass in the world."""
    return _centre(composites(model, q)[WORLD])


def _columns(
    model: Tree, step: Callable[..., list], X: dict[int, Transform], I: dict[int, Inertia], x: Any
) -> list[tuple[int, Sequence[Scalar]]]:
    """Returns step(link, X, I, x), a vector for each freedom of a link, with its index."""
    columns: list[tuple[int, Sequence[Scalar]]] = []
    for i in outward(model, "C"):
        vectors = call(step, model.links[i], X[i], I[i], x)
        columns += zip((k for k, _ in model.freedoms[i]), vectors, strict=True)
    return columns


def _linear_momenta(link: Link, X: Transform, I: Inertia, scale: Scalar) -> list[Vector]:
    """Returns a subtree's linear momentum, scaled, for each freedom of its first joint."""
    return [X.E.to_parent(split(I @ S)[1] * scale) for S in link.S]


def center_of_mass_jacobian(model: Tree, q: Scalars) -> Rows:
    """Returns J, 3 x nv, of dc/dt = J qd: momenta of subtrees, divided by the whole mass."""
    I, X = composites(model, q), placements(model, q, range(model.nbodies))
    return matrix(_columns(model, _linear_momenta, X, I, _per_mass(I[WORLD])), 3, model.nv)


def _momenta(link: Link, X: Transform, I: Inertia, c: Vector) -> list[list[Scalar]]:
    """Returns a subtree's momentum about c for each freedom of its first joint."""
    at_centre = Transform(X.E, X.r - c)
    return [linear_first(at_centre.force_to_parent(I @ S)) for S in link.S]


def centroidal_momentum_matrix(model: Tree, q: Scalars) -> Rows:
    """Returns A, 6 x nv: the momentum about the centre of mass is A qd."""
    I, X = composites(model, q), placements(model, q, range(model.nbodies))
    return matrix(_columns(model, _momenta, X, I, _centre(I[WORLD])), 6, model.nv)


def _body_momentum(
    link: Link, v: Vector, q: Scalars, qd: Scalars
) -> tuple[Transform, Vector, Vector]:
    """Returns a body's X, velocity and momentum, from its parent's velocity."""
    X = joint_transform(link, q)
    v = X.motion(v) + link_motion(link, qd)
    return X, v, link.inertia @ v


def _about_centre(h: Vector, c: Vector) -> list[Scalar]:
    angular, linear = split(h)
    return [*linear, *(angular - cross(c, linear))]


def centroidal_momentum(model: Tree, q: Scalars, qd: Scalars) -> list[Scalar]:
    """Returns the momentum of all bodies about the centre of mass, A qd, without forming A."""
    X, v, h = {}, {WORLD: ZERO6}, {WORLD: ZERO6}
    for i in outward(model, "C"):
        state = joint_state(model, i, q, qd)
        X[i], v[i], h[i] = call(_body_momentum, model.links[i], v[model.parent[i]], *state)
    for i in inward(model, "C"):
        p = model.parent[i]
        h[p] = call(add_force, X[i], h[i], h[p])
    return call(_about_centre, h[WORLD], center_of_mass(model, q))


def _force(
    link: Link, v: Vector, a: Vector, q: Scalars, qd: Scalars, qdd: Scalars
) -> tuple[Transform, Vector, Vector, Vector]:
    """Returns a body's X, velocity, acceleration and rate of momentum, from its parent's v, a."""
    v, a = body_acceleration(link, v, a, q, qd, qdd)
    return joint_transform(link, q), v, a, link.inertia @ a + crf(v, link.inertia @ v)


def centroidal_momentum_rate(model: Tree, q: Scalars, qd: Scalars, qdd: Scalars) -> list[Scalar]:
    """Returns dh/dt = A qdd + dA/dt qd, the sum of all external wrenches about the centre of mass,
    gravity included, that the motion needs.
    """
    X, v, a = {}, {WORLD: ZERO6}, {WORLD: ZERO6}
    f = {WORLD: ZERO6}
    for i in outward(model, "C"):
        p, state = model.parent[i], joint_state(model, i, q, qd, qdd)
        X[i], v[i], a[i], f[i] = call(_force, model.links[i], v[p], a[p], *state)
    for i in inward(model, "C"):
        p = model.parent[i]
        f[p] = call(add_force, X[i], f[i], f[p])
    return call(_about_centre, f[WORLD], center_of_mass(model, q))
