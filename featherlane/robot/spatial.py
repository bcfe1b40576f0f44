"""Featherstone's spatial algebra on scalars of any kind, in the order [angular; linear].

Motion and force vectors are six scalars in a `Vector`; a rigid body is (m, h, S): its mass, its
first moment h = m c and its second moment S = integral of x x^T dm. S is used instead of the
rotational inertia I = tr(S) 1 - S because it is what moves most cheaply between frames: zeros stay
zeros.

Reference: R. Featherstone, Rigid Body Dynamics Algorithms (2008), chapters 2 and A.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from featherlane.scalar import Scalar


class Vector(tuple):
    """A short column of scalars with elementwise + and -, and scalar *."""

    __slots__ = ()

    def __add__(self, other: Sequence[Scalar]) -> Vector:  # type: ignore[override]
        return Vector([x + y for x, y in zip(self, other, strict=True)])

    def __sub__(self, other: Sequence[Scalar]) -> Vector:
        return Vector([x - y for x, y in zip(self, other, strict=True)])

    def __neg__(self) -> Vector:
        return Vector([-x for x in self])

    def __mul__(self, s: Scalar) -> Vector:  # type: ignore[override]
        return Vector([x * s for x in self])

    __rmul__ = __mul__


ZERO3 = Vector((0.0, 0.0, 0.0))
ZERO6 = Vector((0.0,) * 6)


def unit(k: int, n: int = 6) -> Vector:
    """The k-th unit vector of length n."""
    return Vector(1.0 if i == k else 0.0 for i in range(n))


def dot(a: Iterable[Scalar], b: Iterable[Scalar]) -> Scalar:
    total: Scalar = 0.0
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total


def cross(a: Sequence[Scalar], b: Sequence[Scalar]) -> Vector:
    return Vector((a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]))


def spatial(angular: Sequence[Scalar], linear: Sequence[Scalar]) -> Vector:
    return Vector((*angular, *linear))


def split(x: Sequence[Scalar]) -> tuple[Vector, Vector]:
    """The angular and the linear half."""
    return Vector(x[:3]), Vector(x[3:])


def crm(v: Sequence[Scalar], m: Sequence[Scalar]) -> Vector:
    """v x m: the rate of a motion vector m that moves with velocity v."""
    (w, vo), (a, b) = split(v), split(m)
    return spatial(cross(w, a), cross(w, b) + cross(vo, a))


def crf(v: Sequence[Scalar], f: Sequence[Scalar]) -> Vector:
    """v x* f: the rate of a force vector f that moves with velocity v."""
    (w, vo), (n, g) = split(v), split(f)
    return spatial(cross(w, n) + cross(vo, g), cross(w, g))


class Symmetric(NamedTuple):
    """A symmetric 3 x 3 matrix."""

    xx: Scalar
    xy: Scalar
    xz: Scalar
    yy: Scalar
    yz: Scalar
    zz: Scalar

    @property
    def rows(self) -> tuple[Vector, Vector, Vector]:
        xx, xy, xz, yy, yz, zz = self
        return Vector((xx, xy, xz)), Vector((xy, yy, yz)), Vector((xz, yz, zz))

    @property
    def trace(self) -> Scalar:
        return self.xx + self.yy + self.zz

    def __add__(self, other: Sequence[Scalar]) -> Symmetric:  # type: ignore[override]
        return Symmetric(*[x + y for x, y in zip(self, other, strict=True)])


NOTHING = Symmetric(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
Matrix = tuple[Vector, ...]  # rows
NO_MATRIX: Matrix = (ZERO3, ZERO3, ZERO3)


def matvec(A: Iterable[Sequence[Scalar]], x: Sequence[Scalar]) -> Vector:
    return Vector([dot(row, x) for row in A])


def transpose(A: Sequence[Sequence[Scalar]]) -> Matrix:
    return tuple(Vector(column) for column in zip(*A, strict=True))


def matmul(A: Sequence[Sequence[Scalar]], B: Sequence[Sequence[Scalar]]) -> Matrix:
    columns = transpose(B)
    return tuple(Vector([dot(row, column) for column in columns]) for row in A)


def skew(p: Sequence[Scalar]) -> Matrix:
    """The matrix of p x."""
    x, y, z = p
    return Vector((0.0, -z, y)), Vector((z, 0.0, -x)), Vector((-y, x, 0.0))


class Rotation:
    """Coordinates of a child frame from those of its parent: the rows of E."""

    def __init__(self, rows: Matrix) -> None:
        self.rows = rows

    def to_child(self, x: Sequence[Scalar]) -> Vector:
        return matvec(self.rows, x)

    def to_parent(self, x: Sequence[Scalar]) -> Vector:
        return matvec(transpose(self.rows), x)

    def matrix_to_parent(self, A: Matrix) -> Matrix:
        """E^T A E."""
        R = transpose(self.rows)
        return matmul(matmul(R, A), self.rows)

    def symmetric_to_parent(self, A: Symmetric) -> Symmetric:
        R = transpose(self.rows)
        T = matmul(R, A.rows)
        return Symmetric(*[dot(T[i], R[j]) for i in range(3) for j in range(i, 3)])


NO_TURN = Rotation((unit(0, 3), unit(1, 3), unit(2, 3)))


class RotationZ(Rotation):
    """A turn by an angle about z, given by its cosine and sine; matrices cost a third of the
    general product.
    """

    def __init__(self, c: Scalar, s: Scalar) -> None:
        super().__init__((Vector((c, s, 0.0)), Vector((-s, c, 0.0)), Vector((0.0, 0.0, 1.0))))
        self.c, self.s = c, s

    def _pair(self, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
        return self.c * x - self.s * y, self.s * x + self.c * y

    def matrix_to_parent(self, A: Matrix) -> Matrix:
        # The trace and the antisymmetric part of the xy block do not turn, the rest turns by twice
        # the angle.
        (a, b, az), (d, e, dz), (za, zd, zz) = A
        turn = self.s * (a - e) + self.c * (b + d)
        sine, cosine = self.s * turn, self.c * turn
        az, dz = self._pair(az, dz)
        za, zd = self._pair(za, zd)
        return (
            Vector((a - sine, cosine - d, az)),
            Vector((cosine - b, e + sine, dz)),
            Vector((za, zd, zz)),
        )

    def symmetric_to_parent(self, A: Symmetric) -> Symmetric:
        turn = self.s * (A.xx - A.yy) + (self.c + self.c) * A.xy
        sine = self.s * turn
        xz, yz = self._pair(A.xz, A.yz)
        return Symmetric(A.xx - sine, self.c * turn - A.xy, xz, A.yy + sine, yz, A.zz)


class Inertia(NamedTuple):
    """A rigid body about the origin of its frame: mass m, first moment h, second moment S."""

    m: Scalar
    h: Vector
    S: Symmetric

    def __add__(self, other: Inertia) -> Inertia:  # type: ignore[override]
        return Inertia(self.m + other.m, self.h + other.h, self.S + other.S)

    def rotational(self) -> Symmetric:
        """The rotational inertia tr(S) 1 - S."""
        xx, xy, xz, yy, yz, zz = self.S
        return Symmetric(yy + zz, -xy, -xz, xx + zz, -yz, xx + yy)

    def __matmul__(self, v: Sequence[Scalar]) -> Vector:
        """I v: the momentum of the body at velocity v (or its force at acceleration v)."""
        w, vo = split(v)
        return spatial(
            matvec(self.rotational().rows, w) + cross(self.h, vo), vo * self.m + cross(w, self.h)
        )

    def wrench(self, U: Matrix, a: Vector) -> Vector:
        """Newton's and Euler's equations: the wrench that gives the points x of the body the
        acceleration a + U x.

        U = dw x + w x w x; a is the acceleration of the frame's origin as a point in space. Force m
        a + U h, moment h x a + the axial vector of U S (Balafoutis and Patel 1991, section 4.2).
        """
        US = matmul(U, self.S.rows)
        axial = Vector((US[2][1] - US[1][2], US[0][2] - US[2][0], US[1][0] - US[0][1]))
        return spatial(axial + cross(self.h, a), a * self.m + matvec(U, self.h))


NO_INERTIA = Inertia(0.0, ZERO3, NOTHING)


class Coriolis(NamedTuple):
    """The matrix B(I, v) = 1/2 [(v x*) I - I (v x) + (I v) xbar*] of Singh, Russell and Wensing
    (2022).

    Written out, with the points of the body moving at x' = v + w x x, it is [[tr(D) 1 - D, 0], [-P
    x, 0]]: D = integral of x' x^T dm, P = integral of x' dm. Twelve numbers instead of 36, and they
    add over bodies.
    """

    P: Vector
    D: Matrix

    @staticmethod
    def of(inertia: Inertia, v: Sequence[Scalar]) -> Coriolis:
        w, vo = split(v)
        wS = [cross(w, row) for row in inertia.S.rows]  # columns of w x S, S being symmetric
        D = tuple(Vector([vo[i] * inertia.h[j] + wS[j][i] for j in range(3)]) for i in range(3))
        return Coriolis(vo * inertia.m + cross(w, inertia.h), D)

    def __add__(self, other: Coriolis) -> Coriolis:  # type: ignore[override]
        return Coriolis(
            self.P + other.P, tuple(x + y for x, y in zip(self.D, other.D, strict=True))
        )

    def block(self) -> Matrix:
        """tr(D) 1 - D."""
        (a, b, c), (d, e, f), (g, h, i) = self.D
        return Vector((e + i, -b, -c)), Vector((-d, a + i, -f)), Vector((-g, -h, a + e))

    def __matmul__(self, x: Sequence[Scalar]) -> Vector:
        """B x."""
        w, _ = split(x)
        return spatial(matvec(self.block(), w), cross(w, self.P))

    def transposed(self, x: Sequence[Scalar]) -> Vector:
        """The angular half of B^T x; its linear half is zero."""
        w, vo = split(x)
        return matvec(transpose(self.block()), w) + cross(self.P, vo)


NO_CORIOLIS = Coriolis(ZERO3, NO_MATRIX)


class Articulated(NamedTuple):
    """A symmetric 6 x 6 inertia [[I, H], [H^T, M]], as articulated bodies have it (Featherstone,
    chapter 7).
    """

    I: Symmetric
    H: Matrix
    M: Symmetric

    @staticmethod
    def of(inertia: Inertia) -> Articulated:
        m = inertia.m
        return Articulated(inertia.rotational(), skew(inertia.h), Symmetric(m, 0.0, 0.0, m, 0.0, m))

    def __add__(self, other: Articulated) -> Articulated:  # type: ignore[override]
        H = tuple(x + y for x, y in zip(self.H, other.H, strict=True))
        return Articulated(self.I + other.I, H, self.M + other.M)

    @property
    def rows(self) -> Matrix:
        I, H, M = self.I.rows, self.H, self.M.rows
        upper = [Vector((*I[i], *H[i])) for i in range(3)]
        lower = [Vector((H[0][i], H[1][i], H[2][i], *M[i])) for i in range(3)]
        return (*upper, *lower)

    def __matmul__(self, v: Sequence[Scalar]) -> Vector:
        return matvec(self.rows, v)

    def minus_outer(self, u: Sequence[Scalar], w: Sequence[Scalar]) -> Articulated:
        """IA - u w^T, for u w^T symmetric."""
        rows = self.rows
        A = [[rows[i][j] - u[i] * w[j] if j >= i else None for j in range(6)] for i in range(6)]
        return Articulated(
            Symmetric(*[A[i][j] for i in range(3) for j in range(i, 3)]),
            tuple(Vector(A[i][3:]) for i in range(3)),
            Symmetric(*[A[i][j] for i in range(3, 6) for j in range(i, 6)]),
        )


class Transform:
    """The change of coordinates from a parent frame to a child frame (the book's X = rot(E)
    xlt(r)).

    E: rotation, child from parent coordinates; r: the child's origin in the parent's coordinates. A
    product keeps its two parts: inertias move through one after the other, which is cheaper than
    through both at once, because a joint turns about z and the tree's own rotations are mostly
    permutations.
    """

    def __init__(
        self, E: Rotation, r: Vector, parts: tuple[Transform, Transform] | None = None
    ) -> None:
        self.E, self.r, self.parts = E, r, parts

    def __matmul__(self, other: Transform) -> Transform:
        """First `other`, then `self`, as matrices multiply."""
        E = Rotation(matmul(self.E.rows, other.E.rows))
        return Transform(E, other.r + other.E.to_parent(self.r), (self, other))

    def motion(self, v: Sequence[Scalar]) -> Vector:
        """A motion vector in child coordinates."""
        w, vo = split(v)
        return spatial(self.E.to_child(w), self.E.to_child(vo + cross(w, self.r)))

    def motion_to_parent(self, v: Sequence[Scalar]) -> Vector:
        w, vo = split(v)
        w = self.E.to_parent(w)
        return spatial(w, self.E.to_parent(vo) + cross(self.r, w))

    def force_to_parent(self, f: Sequence[Scalar]) -> Vector:
        """A force vector in parent coordinates (the book's X^T f)."""
        n, g = split(f)
        g = self.E.to_parent(g)
        return spatial(self.E.to_parent(n) + cross(self.r, g), g)

    def inertia_to_parent(self, inertia: Inertia) -> Inertia:
        """A rigid body seen from the parent frame."""
        if self.parts:
            first, then = self.parts
            return then.inertia_to_parent(first.inertia_to_parent(inertia))
        m, r = inertia.m, self.r
        h = self.E.to_parent(inertia.h)
        g = h + r * m
        S = self.E.symmetric_to_parent(inertia.S)
        moved = Symmetric(*[h[i] * r[j] + r[i] * g[j] for i in range(3) for j in range(i, 3)])
        return Inertia(m, g, S + moved)

    def coriolis_to_parent(self, B: Coriolis) -> Coriolis:
        if self.parts:
            first, then = self.parts
            return then.coriolis_to_parent(first.coriolis_to_parent(B))
        P, r = self.E.to_parent(B.P), self.r
        D = self.E.matrix_to_parent(B.D)
        return Coriolis(P, tuple(D[i] + r * P[i] for i in range(3)))

    def articulated_to_parent(self, IA: Articulated) -> Articulated:
        """X^T IA X, Featherstone's equation 2.66 block by block."""
        if self.parts:
            first, then = self.parts
            return then.articulated_to_parent(first.articulated_to_parent(IA))
        E, rx = self.E, skew(self.r)
        I, H, M = E.symmetric_to_parent(IA.I), E.matrix_to_parent(IA.H), E.symmetric_to_parent(IA.M)
        G = tuple(x + y for x, y in zip(H, matmul(rx, M.rows), strict=True))
        old, new = matmul(rx, transpose(H)), matmul(rx, transpose(G))
        moved = Symmetric(*[old[j][i] + new[i][j] for i in range(3) for j in range(i, 3)])
        return Articulated(I + moved, G, M)
