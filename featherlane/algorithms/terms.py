"""The terms of the equation of motion one by one, and the kinetic and potential energy."""

from __future__ import annotations

from operator import mul
from typing import NamedTuple

from featherlane.algorithms.centroidal import composites
from featherlane.algorithms.common import Scalars, Wrenches, joint_state, link_motion
from featherlane.algorithms.derivatives import TreeMotion, motion, pairs
from featherlane.algorithms.mminv import Rows, plus_product, square
from featherlane.algorithms.rnea import rnea
from featherlane.algorithms.springs import plus_spring_energy
from featherlane.algorithms.turned_armature import turning_coriolis
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import (
    ZERO3,
    ZERO6,
    Coriolis,
    Inertia,
    Transform,
    Vector,
    crm,
    dot,
    spatial,
)
from featherlane.robot.tree import Link, Tree, joint_transform
from featherlane.robot.walk import outward
from featherlane.scalar import Scalar, call


def kinetic_energy(model: Tree, q: Scalars, qd: Scalars) -> Scalar:
    """Returns 1/2 qd^T M(q) qd, the energy of all bodies and of the armatures."""
    v, twice = {WORLD: ZERO6}, call(_of_armatures, list(model.armature), list(qd))
    for i in outward(model, "E"):
        state = joint_state(model, i, q, qd)
        v[i], twice = call(_of_body, model.links[i], v[model.parent[i]], *state, twice)
    return call(mul, 0.5, twice)


def _of_armatures(armature: Scalars, qd: Scalars) -> Scalar:
    """Returns twice their energy."""
    return dot([I * x for I, x in zip(armature, qd, strict=True)], qd)


def _of_body(
    link: Link, v: Vector, q: Scalars, qd: Scalars, total: Scalar
) -> tuple[Vector, Scalar]:
    """Returns a body's velocity, from its parent's v, and the total with twice its energy."""
    v = joint_transform(link, q).motion(v) + link_motion(link, qd)
    return v, total + dot(v, link.inertia @ v)


def potential_energy(model: Tree, q: Scalars) -> Scalar:
    """Returns -m g . c of the moving mass, 0 for a centre of mass at the world's origin, and the
    energy of the joints' springs.
    """
    of_gravity = call(_minus_dot, model.gravity, composites(model, q)[WORLD].h)
    return plus_spring_energy(model, q, of_gravity)


def _minus_dot(a: Vector, b: Vector) -> Scalar:
    return -dot(a, b)


def gravity_torque(model: Tree, q: Scalars) -> list[Scalar]:
    """Returns g(q) + K (q - q0), the nv torques that hold the robot still."""
    zero = [0.0] * model.nv
    return rnea(model, q, zero, zero)


def bias_force(model: Tree, q: Scalars, qd: Scalars, f_ext: Wrenches | None = None) -> list[Scalar]:
    """Returns C qd + g + resistance(qd) - J^T f_ext, nv scalars: the torques at qdd = 0."""
    return rnea(model, q, qd, [0.0] * model.nv, f_ext)


class CoriolisColumn(NamedTuple):
    """The vectors of one freedom in the Coriolis matrix; I and B are summed over its subtree."""

    S: Vector
    dS: Vector  # v x S, the rate of S
    force: Vector  # B S + I dS
    IS: Vector
    BtS: Vector  # B^T S

    def in_parent_frame(self, C: Transform) -> CoriolisColumn:
        """Takes the vectors to the parent coordinates of the transform C."""
        motions = [C.motion_to_parent(x) for x in self[:2]]
        return CoriolisColumn(*motions, *[C.force_to_parent(x) for x in self[2:]])


def _columns(link: Link, v: Vector, I: Inertia, B2: Coriolis) -> list[CoriolisColumn]:
    """Returns the vectors of a link's freedoms in body coordinates; B2 is 2 B."""
    result = []
    for S in link.S:
        dS, IS = crm(v, S), I @ S
        force = (B2 @ S) * 0.5 + I @ dS
        BtS = spatial(B2.transposed(S) * 0.5, ZERO3)
        result.append(CoriolisColumn(S, dS, force, IS, BtS))
    return result


def _down(total: Scalar, ci: CoriolisColumn, cj: CoriolisColumn) -> Scalar:
    """Adds C_ji, for an ancestor i of j, to a total."""
    return total + dot(cj.BtS, ci.S) + dot(cj.IS, ci.dS)


def coriolis_columns(
    model: Tree, q: Scalars, qd: Scalars
) -> tuple[TreeMotion, list[CoriolisColumn]]:
    """Returns the motion of the bodies, and the vectors of all freedoms."""
    m, columns = motion(model, q, qd), list[CoriolisColumn]()
    for i in outward(model, "D"):
        columns += call(_columns, model.links[i], m.v[i], m.I[i], m.B2[i])
    return m, columns


def coriolis_matrix(model: Tree, q: Scalars, qd: Scalars) -> Rows:
    """Returns C(q, qd), nv x nv, by Christoffel symbols (Echeandia and Wensing 2021).

    C qd is the Coriolis and centrifugal force, and dM/dt = C + C^T. For i an ancestor of j,
    C_ij = S_i . (B S_j + I dS_j) and C_ji = S_j . (B S_i + I dS_i), with B and I of j's subtree.
    """
    C, turning = square(model.nv), turning_coriolis(model, qd)
    for i, j, ci, cj, joint, _ in pairs(model, *coriolis_columns(model, q, qd)):
        C[i][j] = call(plus_product, C[i][j], ci.S, cj.force)
        if joint and j in turning:
            C[i][j] = call(plus_product, C[i][j], ci.S, turning[j])
        if not joint:
            C[j][i] = call(_down, C[j][i], ci, cj)
    return C
