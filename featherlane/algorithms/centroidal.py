"""The robot as a whole: its centre of mass, and its momentum about it.

Reference: Orin, Goswami and Lee, Centroidal dynamics of a humanoid robot (2013). All in world axes;
the mass that counts is that which moves. Results are in the user's order, [linear; angular].
"""

from __future__ import annotations

from collections.abc import Sequence

from featherlane.algorithms.common import Scalars, joint_coordinates, joint_entries, link_motion
from featherlane.algorithms.frames import linear_first, matrix, placements
from featherlane.algorithms.mminv import Rows
from featherlane.robot.model import WORLD
from featherlane.robot.spatial import ZERO6, Inertia, Symmetric, Transform, Vector, cross, split
from featherlane.robot.tree import Link, Tree, joint_transform
from featherlane.robot.walk import inward, outward
from featherlane.scalar import Scalar, call


def _with_subtree(X: Transform, I: Inertia, parent: Inertia) -> tuple[Vector, Symmetric]:
    whole = parent + X.inertia_to_parent(I)
    return whole.h, whole.S


def composites(model: Tree, q: Scalars) -> dict[int, Inertia]:
    """The inertia of each body's subtree in its own frame; of all that moves, for the WORLD."""
    I = {WORLD: model.ground, **dict(enumerate(model.inertias))}
    for i in inward(model, "C"):
        p, X = model.parent[i], model.joint_transform(i, q)
        I[p] = Inertia(I[p].m + I[i].m, *call(_with_subtree, X, I[i], I[p]))
    return I


def per_mass(whole: Inertia) -> Scalar:
    if isinstance(whole.m, float) and not whole.m:
        raise ValueError("the robot has no mass that moves, and so no centre of mass")
    return 1.0 / whole.m


def center_of_mass(model: Tree, q: Scalars) -> Vector:
    """c, the centre of the moving mass in the world."""
    whole = composites(model, q)[WORLD]
    return whole.h * per_mass(whole)


def _linear_momenta(link: Link, X: Transform, I: Inertia, scale: Scalar) -> list[Vector]:
    """Of a subtree, for each freedom of its first joint."""
    return [X.E.to_parent(split(I @ S)[1] * scale) for S in link.S]


def center_of_mass_jacobian(model: Tree, q: Scalars) -> Rows:
    """3 x nv: dc/dt is this times qd. The linear momentum of a subtree, over the mass of all."""
    I, X = composites(model, q), placements(model, q, range(model.nbodies))
    scale = per_mass(I[WORLD])
    columns: list[tuple[int, Sequence[Scalar]]] = []
    for i in outward(model, "C"):
        momenta = call(_linear_momenta, model.links[i], X[i], I[i], scale)
        columns += zip((k for k, _ in model.freedoms[i]), momenta, strict=True)
    return matrix(columns, 3, model.nv)


def _momenta(link: Link, X: Transform, I: Inertia, c: Vector) -> list[list[Scalar]]:
    """Of a subtree about c, for each freedom of its first joint."""
    at_centre = Transform(X.E, X.r - c)
    return [linear_first(at_centre.force_to_parent(I @ S)) for S in link.S]


def centroidal_momentum_matrix(model: Tree, q: Scalars) -> Rows:
    """A, 6 x nv: the momentum about the centre of mass is A qd."""
    I, X = composites(model, q), placements(model, q, range(model.nbodies))
    c = I[WORLD].h * per_mass(I[WORLD])
    columns: list[tuple[int, Sequence[Scalar]]] = []
    for i in outward(model, "C"):
        momenta = call(_momenta, model.links[i], X[i], I[i], c)
        columns += zip((k for k, _ in model.freedoms[i]), momenta, strict=True)
    return matrix(columns, 6, model.nv)


def _moving(link: Link, v: Vector, q: Scalars, qd: Scalars) -> tuple[Transform, Vector, Vector]:
    """X, the velocity and the momentum of a body, from its parent's velocity."""
    X = joint_transform(link, q)
    v = X.motion(v) + link_motion(link, qd)
    return X, v, link.inertia @ v


def _handed_on(X: Transform, h: Vector, parent: Vector) -> Vector:
    return parent + X.force_to_parent(h)


def _about_centre(h: Vector, c: Vector) -> list[Scalar]:
    angular, linear = split(h)
    return [*linear, *(angular - cross(c, linear))]


def centroidal_momentum(model: Tree, q: Scalars, qd: Scalars) -> list[Scalar]:
    """The momentum of all bodies, about the centre of mass."""
    X, v, h = {}, {WORLD: ZERO6}, {WORLD: ZERO6}
    for i in outward(model, "C"):
        own = joint_coordinates(model, i, q), joint_entries(model, i, qd)
        X[i], v[i], h[i] = call(_moving, model.links[i], v[model.parent[i]], *own)
    for i in inward(model, "C"):
        p = model.parent[i]
        h[p] = call(_handed_on, X[i], h[i], h[p])
    return call(_about_centre, h[WORLD], center_of_mass(model, q))
