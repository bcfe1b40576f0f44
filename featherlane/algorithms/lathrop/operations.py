"""What Lathrop takes as given, and the operations on 3-vectors that his processors do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from featherlane.robot.spatial import Matrix, Vector, cross, matvec, transpose, unit
from featherlane.scalar import Scalar, at

NO_TURN: Matrix = (unit(0, 3), unit(1, 3), unit(2, 3))


class Link(NamedTuple):
    """Joint i and link i, counted from 1; O_i is fixed in the link, on the axis of joint i + 1.

    Vectors are in frame i but u and du; the letters are the paper's, with p, r, s for its p*, r*,
    s*, and u for z_{i-1} q'_i.
    """

    rotational: bool
    A: Matrix  # coordinates in frame i - 1 from those in frame i
    p: Vector  # from O_{i-1} to O_i
    r: Vector  # from O_i to the centre of mass
    s: Vector  # p + r
    m: Scalar
    J: Matrix  # inertia about the centre of mass
    u: Vector  # the axis times the joint's velocity, in frame i - 1
    du: Vector  # the axis times its acceleration, in frame i - 1


class Tip(NamedTuple):
    """What the last link exerts on its surroundings: force f and torque n about O_n, in a frame of
    their own; A as for links.
    """

    A: Matrix
    f: Vector
    n: Vector


class Arm(NamedTuple):
    """A chain and what moves it. a: acceleration of O_0 less gravity; spin: angular velocity and
    acceleration of the base, None if it stands still; tip: None if it is free.
    """

    links: Sequence[Link]
    a: Vector
    spin: tuple[Vector, Vector] | None = None
    tip: Tip | None = None


class Reaction(NamedTuple):
    """Force f_i and torque n_i, about O_{i-1}, that link i - 1 exerts on link i; in frame i."""

    f: Vector
    n: Vector


Form = Callable[[Arm], list[Reaction]]


class Step(NamedTuple):
    """An operation on 3-vectors: where, for which variable, and of which kind."""

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


class Node(NamedTuple):
    """The processors of one joint, or of one pair of subchains."""

    name: str

    def run(self, kind: str, variable: str, *operands: Any) -> Vector:
        return at(Step(self.name, variable, kind), OPERATIONS[kind], *operands)

    def MV(self, variable: str, A: Matrix, x: Vector) -> Vector:
        return self.run("MV", variable, A, x)

    def VC(self, variable: str, a: Vector, b: Vector) -> Vector:
        return self.run("VC", variable, a, b)

    def VA(self, variable: str, a: Vector, b: Vector) -> Vector:
        return self.run("VA", variable, a, b)

    def SV(self, variable: str, s: Scalar, a: Vector) -> Vector:
        return self.run("SV", variable, s, a)

    def MM(self, variable: str, A: Matrix, B: Matrix) -> Matrix:
        """Three matrix-vector products."""
        columns = [
            self.MV(variable + xyz, A, b) for xyz, b in zip("xyz", transpose(B), strict=True)
        ]
        return transpose(columns)
