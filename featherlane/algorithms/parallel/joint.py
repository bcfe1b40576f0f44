"""A joint of known torque, eliminated: how accelerations and forces pass through it."""

from __future__ import annotations

from typing import NamedTuple

from featherlane.algorithms.aba import Eliminated, eliminate_freedom
from featherlane.algorithms.common import Scalars
from featherlane.algorithms.parallel.dense import ZERO66, minus, outer
from featherlane.robot.spatial import (
    ZERO6,
    Articulated,
    Matrix,
    Vector,
    dot,
    matvec,
    plus,
    transpose,
)
from featherlane.robot.tree import Link, Tree
from featherlane.scalar import Scalar


class SolvedJoint(NamedTuple):
    """A joint whose degrees of freedom are eliminated, the last first as in `aba`.

    IA is what is left of the body's inertia: the inertia that the parent feels.
    """

    S: list[Vector]
    freedoms: list[Eliminated]
    IA: Articulated

    def forces(self, p: Vector, tau: Scalars) -> tuple[list[Scalar], Vector]:
        """Returns u of each degree of freedom, and the bias force on the parent; p: the body's."""
        u: list[Scalar] = []
        for S, e, t in zip(self.S[::-1], self.freedoms[::-1], tau[::-1], strict=True):
            u.insert(0, t - dot(S, p) + e.u)  # e.u is 0, or NaN where no inertia resists
            p = p + e.U * (e.Dinv * u[0])
        return u, p

    def accelerations(self, a: Vector, u: Scalars) -> tuple[list[Scalar], Vector]:
        """Returns qdd, and a + S qdd."""
        qdd = []
        for S, e, x in zip(self.S, self.freedoms, u, strict=True):
            qdd.append(e.Dinv * (x - dot(e.U, a)))
            a = a + S * qdd[-1]
        return qdd, a

    def through(self, A: Matrix) -> Matrix:
        """Returns N A for accelerations A, by columns: what passes through the joint at tau = 0."""
        for S, e in zip(self.S, self.freedoms, strict=True):
            A = minus(A, outer(S, matvec(transpose(A), e.U) * e.Dinv))
        return A

    def compliance(self) -> Matrix:
        """Returns Phi: the body's acceleration by a force on it, while the parent is at rest."""
        Phi = ZERO66
        for n, (S, e) in enumerate(zip(self.S, self.freedoms, strict=True)):
            later = SolvedJoint(self.S[n + 1 :], self.freedoms[n + 1 :], self.IA)
            (t,) = transpose(later.through(tuple(Vector([x]) for x in S)))
            Phi = plus(Phi, outer(t * e.Dinv, t))
        return Phi


def solved_joint(link: Link, IA: Articulated) -> SolvedJoint:
    """Eliminates a link's joint, where the body's articulated inertia is IA."""
    freedoms: list[Eliminated] = []
    for S, armature in zip(link.S[::-1], link.armature[::-1], strict=True):
        e, IA, _ = eliminate_freedom(IA, ZERO6, S, 0.0, armature, link.load)
        freedoms.insert(0, e)
    return SolvedJoint(list(link.S), freedoms, IA)


def coupling_refusal(tree: Tree, method: str) -> str | None:
    """Returns why a method that eliminates joint by joint refuses a tree, if it does."""
    if not tree.coupled:
        return None
    return (
        f"{method} solves joint by joint, and mimic joints share their coordinates (but for "
        "load(mimic='keep'))"
    )


def refuse(refusal: str | None) -> None:
    """Raises ValueError if there is a reason to refuse."""
    if refusal:
        raise ValueError(refusal)
