"""What a joint allows, and what not: the forces through joints by which `cfa` describes a chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.parallel.dense import IDENTITY, ZERO, inverse, minus, outer, plus
from featherlane.robot.spatial import ZERO6, Matrix, Vector, dot
from featherlane.scalar import Scalar, call, is_zero, sqrt


class Basis(NamedTuple):
    """How the force on a link is made up: T tau + unknown x. The first unknowns may be more than
    needed, then `redundant` is the projector on what of them must vanish; the last `geared` ones
    belong to armatures.
    """

    T: Sequence[Vector]
    unknown: Sequence[Vector]
    redundant: Matrix
    geared: int


def joint_basis(S: Sequence[Vector], armature: Sequence[Scalar], moving: bool) -> Basis:
    """Of a joint's S; moving: whether S changes with the state."""
    T, unknown, redundant = call(_moving, S) if moving else (_dual(S), _complement(S), ())
    rotors = [(t, x) for t, x in zip(T, armature, strict=True) if not is_zero(x)]
    geared = call(_geared, rotors)
    return Basis(T, [*unknown, *geared], redundant, len(geared))


def _moving(S: Sequence[Vector]) -> tuple[Sequence[Vector], Sequence[Vector], Matrix]:
    """T, the unknown forces and the redundant ones."""
    T, redundant = _dual(S), ZERO
    for s, t in zip(S, T, strict=True):
        redundant = plus(redundant, outer(s, t))
    return T, minus(IDENTITY, redundant), redundant


def _geared(rotors: Sequence[tuple[Vector, Scalar]]) -> list[Vector]:
    return [T * sqrt(armature) for T, armature in rotors]


def _dual(S: Sequence[Vector]) -> list[Vector]:
    """T in the span of S with T^T S = 1."""
    gram = inverse(tuple(Vector([dot(s, t) for t in S]) for s in S))
    return [combined(S, row) for row in gram]


def _complement(S: Sequence[Vector]) -> list[Vector]:
    """What is orthogonal to a constant S, as orthonormal vectors: unit vectors where S is made of
    such.
    """
    Q = np.linalg.qr(np.array(S, float).T)[0]
    found: list[Vector] = []
    while Q.shape[1] < 6:
        rest = np.eye(6) - Q @ Q.T
        k = int(np.argmax(np.diag(rest).round(12)))
        r = rest[:, k] / np.sqrt(rest[k, k])
        Q = np.column_stack([Q, r])
        found.append(Vector(map(float, r)))
    return found


def combined(vectors: Sequence[Vector], factors: Scalars) -> Vector:
    total = ZERO6
    for x, s in zip(vectors, factors, strict=True):
        total = total + x * s
    return total
