"""Lathrop's arm, and the operations on 3-vectors that his processors execute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from featherlane.robot.spatial import Matrix, Vector, cross, matvec, transpose, unit
from featherlane.scalar import Scalar, at

IDENTITY3: Matrix = (unit(0, 3), unit(1, 3), unit(2, 3))


class ArmLink(NamedTuple):
    """Joint i and link i, counted from 1; O_i is fixed in the link, on the axis of joint i + 1.

    All vectors but u and du are in frame i. The letters are the paper's, with p, r, s for its p*,
    r*, s*, and u for z_{i-1} q'_i.
    """

    rotational: bool
    A: Matrix  # takes coordinates from frame i to frame i - 1
    p: Vector  # from O_{i-1} to O_i
    r: Vector  # from O_i to the centre of mass
    s: Vector  # p + r
    m: Scalar
    J: Matrix  # inertia about the centre of mass
    u: Vector  # the axis times the joint's velocity, in frame i - 1
    du: Vector  # the axis times its acceleration, in frame i - 1


class Tip(NamedTuple):
    """Force f and torque n about O_n that the last link exerts on its surroundings.

    They are in another frame, from which A takes coordinates to the last link's.
    """

    A: Matrix
    f: Vector
    n: Vector


class Arm(NamedTuple):
    """A chain, the motion of its base and the load on its tip."""

    links: Sequence[ArmLink]
    a: Vector  # acceleration of O_0 less gravity
    spin: tuple[Vector, Vector] | None = None  # w and dw of the base; None: it stands still
    tip: Tip | None = None  # None: it is free


class Reaction(NamedTuple):
    """Force f_i and torque n_i, about O_{i-1}, that link i - 1 exerts on link i; in frame i."""

    f: Vector
    n: Vector


ArmAlgorithm = Callable[[Arm], list[Reaction]]


class VectorOperation(NamedTuple):
    """An operation on 3-vectors: its node, the variable that it gives, and its kind."""

    node: str
    variable: str
    kind: str

    def __str__(self) -> str:
        return f"{self.node} {self.variable}"


OPERATIONS: dict[str, Callable[..., Vector]] = {
    "MV": matvec,
    "VC": cross,
    "VA": lambda a, b: a + b,
    "SV": lambda s, a: a * s,
}


class PipelineNode(NamedTuple):
    """The processors for one joint, or for one pair of subchains (the paper's node)."""

    name: str

    def run(self, kind: str, variable: str, *operands: Any) -> Vector:
        return at(VectorOperation(self.name, variable, kind), OPERATIONS[kind], *operands)

    def MV(self, variable: str, A: Matrix, x: Vector) -> Vector:
        return self.run("MV", variable, A, x)

    def VC(self, variable: str, a: Vector, b: Vector) -> Vector:
        return self.run("VC", variable, a, b)

    def VA(self, variable: str, a: Vector, b: Vector) -> Vector:
        return self.run("VA", variable, a, b)

    def SV(self, variable: str, s: Scalar, a: Vector) -> Vector:
        return self.run("SV", variable, s, a)

    def MM(self, variable: str, A: Matrix, B: Matrix) -> Matrix:
        """Multiplies matrices by three matrix-vector products."""
        columns = zip("xyz", transpose(B), strict=True)
        return transpose([self.MV(variable + xyz, A, b) for xyz, b in columns])
