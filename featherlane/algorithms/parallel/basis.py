"""The directions that a joint allows and resists: bases of the forces through it, for `cfa`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.parallel.dense import IDENTITY6, ZERO66, inverse, minus, outer
from featherlane.robot.constants import orthonormal
from featherlane.robot.spatial import ZERO6, Matrix, Vector, dot, plus, transpose, unit
from featherlane.scalar import Scalar, call, is_zero, sqrt


class ForceBasis(NamedTuple):
    """A basis of the force through a joint, T tau + unknown x.

    Where S changes with the state, the first six columns of `unknown` span more than is needed, and
    `redundant` is the projector on the part of x that must vanish. The last `geared` columns belong
    to armatures.
    """

    T: Sequence[Vector]
    unknown: Sequence[Vector]
    redundant: Matrix
    geared: int


def joint_basis(S: Sequence[Vector], armature: Sequence[Scalar], moving: bool) -> ForceBasis:
    """Returns the basis for a joint's S; moving: whether S changes with the state."""
    T, unknown, redundant = call(_projectors, S) if moving else (_dual(S), _complement(S), ())
    rotors = [(t, x) for t, x in zip(T, armature, strict=True) if not is_zero(x)]
    geared = call(_geared, rotors)
    return ForceBasis(T, [*unknown, *geared], redundant, len(geared))


def _projectors(S: Sequence[Vector]) -> tuple[Sequence[Vector], Sequence[Vector], Matrix]:
    """Returns T, 1 - S T^T, whose rows span the constraint forces, and the projector S T^T."""
    T, redundant = _dual(S), ZERO66
    for s, t in zip(S, T, strict=True):
        redundant = plus(redundant, outer(s, t))
    return T, minus(IDENTITY6, redundant), redundant


def _geared(rotors: Sequence[tuple[Vector, Scalar]]) -> list[Vector]:
    return [T * sqrt(armature) for T, armature in rotors]


def _dual(S: Sequence[Vector]) -> list[Vector]:
    """Returns T in the span of S with T^T S = 1."""
    gram = inverse(tuple(Vector([dot(s, t) for t in S]) for s in S))
    return [combined(S, row) for row in gram]


def _complement(S: Sequence[Vector]) -> list[Vector]:
    """Returns an orthonormal basis of all that is orthogonal to a constant S.

    It consists of unit vectors where S does.
    """
    known = orthonormal(S)
    while len(known) < 6:
        lengths = [round(1.0 - dot(column, column), 12) for column in transpose(known)]
        farthest = max(range(6), key=lengths.__getitem__)  # the first of the unit vectors left out
        known = orthonormal([*known, unit(farthest)])
    return known[len(S) :]


def combined(vectors: Sequence[Vector], factors: Scalars) -> Vector:
    """Returns the linear combination of vectors with these factors."""
    total = ZERO6
    for x, s in zip(vectors, factors, strict=True):
        total = total + x * s
    return total
