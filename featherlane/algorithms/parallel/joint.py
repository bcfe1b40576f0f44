"""A joint that is solved for: how accelerations and forces pass it when its torque is given."""

from __future__ import annotations

from typing import NamedTuple

from featherlane.algorithms.aba import Eliminated, eliminate
from featherlane.algorithms.common import Scalars, link_resistance
from featherlane.algorithms.parallel.dense import ZERO, minus, outer, plus
from featherlane.robot.spatial import ZERO6, Articulated, Matrix, Vector, dot, matvec, transpose
from featherlane.robot.tree import Link, Tree
from featherlane.scalar import Scalar


class SolvedJoint(NamedTuple):
    """The degrees of freedom of a joint, eliminated from the inertia of the body that it moves, the
    last first as in `aba`; IA is what the parent feels of that inertia.
    """

    S: list[Vector]
    solved: list[Eliminated]
    IA: Articulated

    def forces(self, p: Vector, tau: Scalars) -> tuple[list[Scalar], Vector]:
        """u of each degree of freedom, and the force at rest that the parent feels, where the body
        asks for p.
        """
        u: list[Scalar] = []
        for S, e, t in zip(self.S[::-1], self.solved[::-1], tau[::-1], strict=True):
            u.insert(0, t - dot(S, p) + e.u)  # e.u is 0, or NaN for a joint that nothing resists
            p = p + e.U * (e.Dinv * u[0])
        return u, p

    def accelerations(self, a: Vector, u: Scalars) -> tuple[list[Scalar], Vector]:
        """qdd, and a with S qdd added."""
        qdd = []
        for S, e, x in zip(self.S, self.solved, u, strict=True):
            qdd.append(e.Dinv * (x - dot(e.U, a)))
            a = a + S * qdd[-1]
        return qdd, a

    def through(self, A: Matrix) -> Matrix:
        """N A: what is left of accelerations A, column by column, when the joint gives way."""
        for S, e in zip(self.S, self.solved, strict=True):
            A = minus(A, outer(S, matvec(transpose(A), e.U) * e.Dinv))
        return A

    def compliance(self) -> Matrix:
        """Phi: the acceleration that a force on the body makes, the parent at rest."""
        Phi = ZERO
        for n, (S, e) in enumerate(zip(self.S, self.solved, strict=True)):
            later = SolvedJoint(self.S[n + 1 :], self.solved[n + 1 :], self.IA)
            (t,) = transpose(later.through(tuple(Vector([x]) for x in S)))
            Phi = plus(Phi, outer(t * e.Dinv, t))
        return Phi


def solved_joint(link: Link, IA: Articulated) -> SolvedJoint:
    """That of a body, with the inertia IA."""
    solved: list[Eliminated] = []
    for S, armature in zip(link.S[::-1], link.armature[::-1], strict=True):
        e, IA, _ = eliminate(IA, ZERO6, S, 0.0, armature, link.load)
        solved.insert(0, e)
    return SolvedJoint(list(link.S), solved, IA)


def link_accelerating(link: Link, qd: Scalars, tau: Scalars) -> list[Scalar]:
    """A joint's tau without what resistance takes of it."""
    return [t - r for t, r in zip(tau, link_resistance(link, qd), strict=True)]


def coupling_refusal(tree: Tree, method: str) -> str | None:
    """Why a tree whose bodies share coordinates is not for an elimination joint by joint."""
    if not tree.coupled:
        return None
    return (
        f"{method} solves joint by joint, and mimic joints share their coordinates (but for "
        "load(mimic='keep'))"
    )


def refuse(refusal: str | None) -> None:
    """Raises ValueError if there is something to refuse."""
    if refusal:
        raise ValueError(refusal)
