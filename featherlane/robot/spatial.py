"""Featherstone's spatial algebra on scalars of any kind, in the order [angular; linear].

Motion and force vectors are `Vector`s of six scalars. A rigid body is (m, h, S): its mass, its
first moment h = m c and its second moment S = integral of x x^T dm. The second moment replaces the
rotational inertia I = tr(S) 1 - S because it takes fewer operations to change its frame: zero
entries stay zero.

Reference: R. Featherstone, Rigid Body Dynamics Algorithms (2008), chapter 2 and appendix A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from featherlane.scalar import Scalar


class Vector(tuple):
    """A column of scalars: + and - act entry by entry, * scales all entries."""

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
    """Returns the k-th unit vector of length n."""
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
    """Returns the angular and the linear half of a spatial vector."""
    return Vector(x[:3]), Vector(x[3:])


def crm(v: Sequence[Scalar], m: Sequence[Scalar]) -> Vector:
    """Returns v x m, the rate of a motion vector m carried along with velocity v (section 2.9)."""
    (w, vo), (a, b) = split(v), split(m)
    return spatial(cross(w, a), cross(w, b) + cross(vo, a))


def crf(v: Sequence[Scalar], f: Sequence[Scalar]) -> Vector:
    """Returns v x* f, the rate of a force vector f carried along with velocity v (section 2.9)."""
    (w, vo), (n, g) = split(v), split(f)
    return spatial(cross(w, n) + cross(vo, g), cross(w, g))


class Symmetric(NamedTuple):
    """A symmetric 3 x 3 matrix, by its upper triangle."""

    xx: Scalar
    xy: Scalar
    xz: Scalar
    yy: Scalar
    yz: Scalar
    zz: Scalar

    @staticmethod
    def of(entry: Callable[[int, int], Scalar]) -> Symmetric:
        """Makes the matrix with entry(i, j) in row i and column j, for i <= j."""
        return Symmetric(*[entry(i, j) for i in range(3) for j in range(i, 3)])

    @property
    def rows(self) -> tuple[Vector, Vector, Vector]:
        xx, xy, xz, yy, yz, zz = self
        return Vector((xx, xy, xz)), Vector((xy, yy, yz)), Vector((xz, yz, zz))

    @property
    def trace(self) -> Scalar:
        return self.xx + self.yy + self.zz

    def __add__(self, other: Sequence[Scalar]) -> Symmetric:  # type: ignore[override]
        return Symmetric(*[x + y for x, y in zip(self, other, strict=True)])


ZERO_SYMMETRIC = Symmetric(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
Matrix = tuple[Vector, ...]  # rows


def plus(A: Matrix, B: Matrix) -> Matrix:
    return tuple(a + b for a, b in zip(A, B, strict=True))


def matvec(A: Iterable[Sequence[Scalar]], x: Sequence[Scalar]) -> Vector:
    return Vector([dot(row, x) for row in A])


def transpose(A: Sequence[Sequence[Scalar]]) -> Matrix:
    return tuple(Vector(column) for column in zip(*A, strict=True))


def matmul(A: Sequence[Sequence[Scalar]], B: Sequence[Sequence[Scalar]]) -> Matrix:
    columns = transpose(B)
    return tuple(Vector([dot(row, column) for column in columns]) for row in A)


def skew(p: Sequence[Scalar]) -> Matrix:
    """Returns the 3 x 3 matrix of p x, the cross product with p."""
    x, y, z = p
    return Vector((0.0, -z, y)), Vector((z, 0.0, -x)), Vector((-y, x, 0.0))


class Rotation:
    """The rotation matrix E that takes a parent frame's coordinates to a child frame's."""

    def __init__(self, rows: Matrix) -> None:
        self.rows = rows

    def to_child(self, x: Sequence[Scalar]) -> Vector:
        return matvec(self.rows, x)

    def to_parent(self, x: Sequence[Scalar]) -> Vector:
        return matvec(transpose(self.rows), x)

    def matrix_to_parent(self, A: Matrix) -> Matrix:
        """Returns E^T A E."""
        R = transpose(self.rows)
        return matmul(matmul(R, A), self.rows)

    def symmetric_to_parent(self, A: Symmetric) -> Symmetric:
        R = transpose(self.rows)
        T = matmul(R, A.rows)
        return Symmetric.of(lambda i, j: dot(T[i], R[j]))


NO_TURN = Rotation((unit(0, 3), unit(1, 3), unit(2, 3)))


class RotationZ(Rotation):
    """A rotation about z by its cosine and sine: E^T A E costs a third of the general product."""

    def __init__(self, c: Scalar, s: Scalar) -> None:
        super().__init__((Vector((c, s, 0.0)), Vector((-s, c, 0.0)), Vector((0.0, 0.0, 1.0))))
        self.c, self.s = c, s

    def _pair(self, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
        return self.c * x - self.s * y, self.s * x + self.c * y

    def matrix_to_parent(self, A: Matrix) -> Matrix:
        # A rotation leaves the trace and the antisymmetric part of the xy block as they are, and
        # turns the rest of that block by twice the angle.
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
    """A rigid body's mass m, first moment h and second moment S about its frame's origin."""

    m: Scalar
    h: Vector
    S: Symmetric

    def __add__(self, other: Inertia) -> Inertia:  # type: ignore[override]
        return Inertia(self.m + other.m, self.h + other.h, self.S + other.S)

    def rotational(self) -> Symmetric:
        """Returns the rotational inertia tr(S) 1 - S about the frame's origin."""
        xx, xy, xz, yy, yz, zz = self.S
        return Symmetric(yy + zz, -xy, -xz, xx + zz, -yz, xx + yy)

    def __matmul__(self, v: Sequence[Scalar]) -> Vector:
        """Returns I v: the momentum at velocity v, or the force I a for an acceleration a."""
        w, vo = split(v)
        return spatial(
            matvec(self.rotational().rows, w) + cross(self.h, vo), vo * self.m + cross(w, self.h)
        )

    def wrench(self, U: Matrix, a: Vector) -> Vector:
        """Returns the wrench that accelerates each point x of the body by a + U x (Newton, Euler).

        U = dw x + w x w x; a is the classical acceleration of the frame's origin. The force is
        m a + U h, the moment h x a + the axial vector of U S (Balafoutis and Patel 1991, section
        4.2).
        """
        US = matmul(U, self.S.rows)
        axial = Vector((US[2][1] - US[1][2], US[0][2] - US[2][0], US[1][0] - US[0][1]))
        return spatial(axial + cross(self.h, a), a * self.m + matvec(U, self.h))


NO_INERTIA = Inertia(0.0, ZERO3, ZERO_SYMMETRIC)


class Coriolis(NamedTuple):
    """B(I, v) = 1/2 [(v x*) I - I (v x) + (I v) xbar*] of Singh, Russell and Wensing (2022).

    With points x of the body that move at x' = v + w x x, B is

        [[tr(D) 1 - D, 0], [-P x, 0]],    D = integral of x' x^T dm,    P = integral of x' dm.

    These are twelve numbers instead of 36; those of a composite body are the sums over its bodies.
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
        return Coriolis(self.P + other.P, plus(self.D, other.D))

    def block(self) -> Matrix:
        """Returns tr(D) 1 - D."""
        (a, b, c), (d, e, f), (g, h, i) = self.D
        return Vector((e + i, -b, -c)), Vector((-d, a + i, -f)), Vector((-g, -h, a + e))

    def __matmul__(self, x: Sequence[Scalar]) -> Vector:
        w, _ = split(x)
        return spatial(matvec(self.block(), w), cross(w, self.P))

    def transposed(self, x: Sequence[Scalar]) -> Vector:
        """Returns the angular half of B^T x, whose linear half is zero."""
        w, vo = split(x)
        return matvec(transpose(self.block()), w) + cross(self.P, vo)


NO_CORIOLIS = Coriolis(ZERO3, (ZERO3, ZERO3, ZERO3))


class Articulated(NamedTuple):
    """An articulated-body inertia, the symmetric 6 x 6 matrix [[I, H], [H^T, M]] (section 7.1)."""

    I: Symmetric
    H: Matrix
    M: Symmetric

    @staticmethod
    def of(inertia: Inertia) -> Articulated:
        m = inertia.m
        return Articulated(inertia.rotational(), skew(inertia.h), Symmetric(m, 0.0, 0.0, m, 0.0, m))

    @staticmethod
    def of_rows(rows: Sequence[Sequence[Scalar]]) -> Articulated:
        """Makes the inertia from a 6 x 6 matrix, of which it reads the upper triangle."""
        return Articulated(
            Symmetric.of(lambda i, j: rows[i][j]),
            tuple(Vector(rows[i][3:]) for i in range(3)),
            Symmetric.of(lambda i, j: rows[3 + i][3 + j]),
        )

    def __add__(self, other: Articulated) -> Articulated:  # type: ignore[override]
        H = plus(self.H, other.H)
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
        """Returns IA - u w^T, where u w^T is symmetric."""
        rows = self.rows
        A = [[rows[i][j] - u[i] * w[j] if j >= i else None for j in range(6)] for i in range(6)]
        return Articulated.of_rows(A)


class Transform:
    """The coordinate transform from a parent frame to a child frame, X = rot(E) xlt(r) (2.8).

    E takes parent coordinates to child coordinates; r is the child's origin in parent coordinates.
    A product keeps its two parts, because transforming an inertia by one and then by the other
    takes fewer operations than by both at once: a joint rotates about z, and the rotations of
    X_tree are mostly signed permutations.
    """

    def __init__(
        self, E: Rotation, r: Vector, parts: tuple[Transform, Transform] | None = None
    ) -> None:
        self.E, self.r, self.parts = E, r, parts

    def __matmul__(self, other: Transform) -> Transform:
        """Returns the transform that applies `other` first, then `self`, as matrices multiply."""
        E = Rotation(matmul(self.E.rows, other.E.rows))
        return Transform(E, other.r + other.E.to_parent(self.r), (self, other))

    def inverse(self) -> Transform:
        """Returns the transform from child to parent coordinates."""
        return Transform(Rotation(transpose(self.E.rows)), -self.E.to_child(self.r))

    def motion(self, v: Sequence[Scalar]) -> Vector:
        """Takes a motion vector from parent to child coordinates, X v."""
        w, vo = split(v)
        return spatial(self.E.to_child(w), self.E.to_child(vo + cross(w, self.r)))

    def motion_to_parent(self, v: Sequence[Scalar]) -> Vector:
        """Takes a motion vector from child to parent coordinates, X^-1 v."""
        w, vo = split(v)
        w = self.E.to_parent(w)
        return spatial(w, self.E.to_parent(vo) + cross(self.r, w))

    def force_to_parent(self, f: Sequence[Scalar]) -> Vector:
        """Takes a force vector from child to parent coordinates, X^T f."""
        n, g = split(f)
        g = self.E.to_parent(g)
        return spatial(self.E.to_parent(n) + cross(self.r, g), g)

    def inertia_to_parent(self, inertia: Inertia) -> Inertia:
        """Takes a rigid-body inertia to parent coordinates, X^T I X (equation 2.66)."""
        if self.parts:
            first, then = self.parts
            return then.inertia_to_parent(first.inertia_to_parent(inertia))
        m, r = inertia.m, self.r
        h = self.E.to_parent(inertia.h)
        g = h + r * m
        S = self.E.symmetric_to_parent(inertia.S)
        return Inertia(m, g, S + Symmetric.of(lambda i, j: h[i] * r[j] + r[i] * g[j]))

    def coriolis_to_parent(self, B: Coriolis) -> Coriolis:
        """Takes a Coriolis matrix to parent coordinates, X^T B X."""
        if self.parts:
            first, then = self.parts
            return then.coriolis_to_parent(first.coriolis_to_parent(B))
        P, r = self.E.to_parent(B.P), self.r
        D = self.E.matrix_to_parent(B.D)
        return Coriolis(P, tuple(D[i] + r * P[i] for i in range(3)))

    def articulated_to_parent(self, IA: Articulated) -> Articulated:
        """Takes an articulated-body inertia to parent coordinates, X^T IA X, block by block."""
        if self.parts:
            first, then = self.parts
            return then.articulated_to_parent(first.articulated_to_parent(IA))
        E, rx = self.E, skew(self.r)
        I, H, M = E.symmetric_to_parent(IA.I), E.matrix_to_parent(IA.H), E.symmetric_to_parent(IA.M)
        G = plus(H, matmul(rx, M.rows))
        rxH, rxG = matmul(rx, transpose(H)), matmul(rx, transpose(G))
        return Articulated(I + Symmetric.of(lambda i, j: rxH[j][i] + rxG[i][j]), G, M)
