"""The robot as a whole: its centre of mass, and its momentum about it.

Reference: Orin, Goswami and Lee, Centroidal dynamics of a humanoid robot (2013). All in world axes;
the mass that counts is that which moves. Results are in the user's order, [linear; angular].
"""

from __future__ import annotations

from featherlane.algorithms.frames import linear_first, matrix, placements
from featherlane.algorithms.kinematics import Scalars, joint_motion
from featherlane.algorithms.mminv import Rows
from featherlane.model import WORLD
from featherlane.scalar import Scalar
from featherlane.spatial import ZERO6, Inertia, Transform, Vector, cross, split
from featherlane.tree import Tree
from featherlane.walk import inward, outward


def composites(model: Tree, q: Scalars) -> dict[int, Inertia]:
    """The inertia of each body's subtree in its own frame; of all that moves, for the WORLD."""
    I = {WORLD: model.ground, **dict(enumerate(model.inertias))}
    for i in inward(model, "C"):
        p = model.parent[i]
        I[p] = I[p] + model.joint_transform(i, q).inertia_to_parent(I[i])
    return I


def per_mass(whole: Inertia) -> Scalar:
    if isinstance(whole.m, float) and not whole.m:
        raise ValueError("the robot has no mass that moves, and so no centre of mass")
    return 1.0 / whole.m


def center_of_mass(model: Tree, q: Scalars) -> Vector:
    """c, the centre of the moving mass in the world."""
    whole = composites(model, q)[WORLD]
    return whole.h * per_mass(whole)


def center_of_mass_jacobian(model: Tree, q: Scalars) -> Rows:
    """3 x nv: dc/dt is this times qd. The linear momentum of a subtree, over the mass of all."""
    I, X = composites(model, q), placements(model, q, range(model.nbodies))
    scale, columns = per_mass(I[WORLD]), []
    for i in outward(model, "C"):
        for k, S in model.freedoms[i]:
            _, momentum = split(I[i] @ S)
            columns.append((k, X[i].E.to_parent(momentum * scale)))
    return matrix(columns, 3, model.nv)


def centroidal_momentum_matrix(model: Tree, q: Scalars) -> Rows:
    """A, 6 x nv: the momentum about the centre of mass is A qd."""
    I, X = composites(model, q), placements(model, q, range(model.nbodies))
    c, columns = I[WORLD].h * per_mass(I[WORLD]), []
    for i in outward(model, "C"):
        at_centre = Transform(X[i].E, X[i].r - c)
        for k, S in model.freedoms[i]:
            columns.append((k, linear_first(at_centre.force_to_parent(I[i] @ S))))
    return matrix(columns, 6, model.nv)


def centroidal_momentum(model: Tree, q: Scalars, qd: Scalars) -> list[Scalar]:
    """The momentum of all bodies, about the centre of mass."""
    v, h = {WORLD: ZERO6}, {WORLD: ZERO6}
    for i in outward(model, "C"):
        X = model.joint_transform(i, q)
        v[i] = X.motion(v[model.parent[i]]) + joint_motion(model, i, qd)
        h[i] = model.inertias[i] @ v[i]
    for i in inward(model, "C"):
        p = model.parent[i]
        h[p] = h[p] + model.joint_transform(i, q).force_to_parent(h[i])
    angular, linear = split(h[WORLD])
    return [*linear, *(angular - cross(center_of_mass(model, q), linear))]
