"""The convex potentials s(y) of soft constraints, whose forces are -ds/dy.

y = J a - a_ref is how much a constraint's rows accelerate beyond their reference. Each potential
has its forces and the matrix of its second derivatives, which is positive semidefinite and jumps
between zones. A stiffness D of 0 makes a constraint inactive: force and matrix are exactly 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.mminv import Rows
from featherlane.robot.spatial import dot
from featherlane.scalar import Scalar, maximum, minimum, select, sqrt

LEAST = 1e-30  # of the square of a sliding acceleration that is divided by


class Potential(Protocol):
    """A potential of some rows, with the stiffness D."""

    @property
    def D(self) -> Scalar: ...

    def forces(self, y: Scalars) -> list[Scalar]:
        """Returns -ds/dy."""

    def curvature(self, y: Scalars) -> Rows:
        """Returns the lower half of d2s/dy2."""

    def stuck(self, rows: int) -> Rows:
        """Returns the lower half of d2s/dy2 in the zone where all its rows stick."""

    def along(self, y: Scalars, d: Scalars) -> tuple[Scalar, Scalar]:
        """Returns the first and the second derivative of s(y + t d) by t, at t = 0."""


class TwoSided(NamedTuple):
    """1/2 D |y|^2 of rows that hold in both directions."""

    D: Scalar

    def forces(self, y: Scalars) -> list[Scalar]:
        return [-self.D * x for x in y]

    def curvature(self, y: Scalars) -> Rows:
        return self.stuck(len(y))

    def stuck(self, rows: int) -> Rows:
        return [[*[0.0] * i, self.D] for i in range(rows)]

    def along(self, y: Scalars, d: Scalars) -> tuple[Scalar, Scalar]:
        return self.D * dot(y, d), self.D * dot(d, d)


class OneSided(NamedTuple):
    """1/2 D min(y, 0)^2 of a row that pushes only: a contact without friction, or a lower limit;
    with side = -1 of one that pulls only, 1/2 D max(y, 0)^2.
    """

    D: Scalar
    side: Scalar = 1.0

    def forces(self, y: Scalars) -> list[Scalar]:
        return [select(self._holds(y), -self.D * y[0], 0.0)]

    def curvature(self, y: Scalars) -> Rows:
        return [[select(self._holds(y), self.D, 0.0)]]

    def stuck(self, rows: int) -> Rows:
        return [[self.D]]

    def along(self, y: Scalars, d: Scalars) -> tuple[Scalar, Scalar]:
        holds, Dd = self._holds(y), self.D * d[0]
        return select(holds, y[0], 0.0) * Dd, select(holds, Dd * d[0], 0.0)

    def _holds(self, y: Scalars) -> Scalar:
        return self.side * y[0] < 0.0


class DryFriction(NamedTuple):
    """1/2 D y^2 near y = 0, and from where its force is `most` on a straight line."""

    D: Scalar
    most: Scalar

    def forces(self, y: Scalars) -> list[Scalar]:
        return [minimum(maximum(-self.D * y[0], -self.most), self.most)]

    def curvature(self, y: Scalars) -> Rows:
        return [[select(self._sticks(y), self.D, 0.0)]]

    def stuck(self, rows: int) -> Rows:
        return [[self.D]]

    def along(self, y: Scalars, d: Scalars) -> tuple[Scalar, Scalar]:
        [force] = self.forces(y)
        return force * -d[0], select(self._sticks(y), self.D * (d[0] * d[0]), 0.0)

    def _sticks(self, y: Scalars) -> Scalar:
        force = -self.D * y[0]
        return maximum(force, -force) < self.most


class EllipticCone(NamedTuple):
    """1/2 D times the square of the distance to the cone y_0 >= mu |y_T| of a contact whose
    friction rows are scaled so that it is round; y_0 is along the normal.
    """

    D: Scalar
    mu: Scalar

    def forces(self, y: Scalars) -> list[Scalar]:
        zone = self._zone(y)
        along = -self.mu * zone.depth
        inside = [zone.depth, *[along * n for n in zone.n]]
        return [
            self.D * select(zone.separates, 0.0, select(zone.sticks, -x, f))
            for x, f in zip(y, inside, strict=True)
        ]

    def curvature(self, y: Scalars) -> Rows:
        """Returns D [[c, g n^T], [g n, a 1 + b n n^T]]: w w^T / (1 + mu^2) with w = (1, -mu n) on
        the cone's side, and mu depth / |y_T| across it.
        """
        zone, mu = self._zone(y), self.mu
        D, n = select(zone.separates, 0.0, self.D), zone.n
        side = 1.0 / (1.0 + mu * mu)
        across = select(zone.sticks, 1.0, mu * zone.depth * zone.inverse)
        c = D * select(zone.sticks, 1.0, side)
        g = D * select(zone.sticks, 0.0, -mu * side)
        b = D * select(zone.sticks, 0.0, mu * mu * side - across)
        a = D * across
        rows: Rows = [[c]]
        for i, x in enumerate(n):
            rows.append([g * x, *[b * (x * n[j]) for j in range(i)], a + b * (x * x)])
        return rows

    def stuck(self, rows: int) -> Rows:
        return [[*[0.0] * i, self.D] for i in range(rows)]

    def along(self, y: Scalars, d: Scalars) -> tuple[Scalar, Scalar]:
        zone, mu = self._zone(y), self.mu
        radial, square = dot(zone.n, d[1:]), dot(d[1:], d[1:])
        off = d[0] - mu * radial  # the change of the depth, times -(1 + mu^2)
        turning = mu * zone.depth * zone.inverse * (square - radial * radial)
        slope = select(zone.sticks, dot(y, d), -zone.depth * off)
        curvature = select(
            zone.sticks, d[0] * d[0] + square, off * off * (1.0 / (1.0 + mu * mu)) + turning
        )
        D = select(zone.separates, 0.0, self.D)
        return D * slope, D * curvature

    def _zone(self, y: Scalars) -> _Zone:
        square = maximum(sum((x * x for x in y[2:]), start=y[1] * y[1]), LEAST)
        length = sqrt(square)
        inverse = 1.0 / length
        depth = (self.mu * length - y[0]) * (1.0 / (1.0 + self.mu * self.mu))
        sticks, separates = self.mu * y[0] + length <= 0.0, depth <= 0.0
        return _Zone(depth, [x * inverse for x in y[1:]], inverse, sticks, separates)


class _Zone(NamedTuple):
    """The place of y: outside of the cone by `depth` along its axis from the nearest point, in the
    direction n across, in the polar cone (sticks) or in the cone itself (separates).
    """

    depth: Scalar
    n: list[Scalar]
    inverse: Scalar  # 1 / |y_T|
    sticks: Scalar
    separates: Scalar


class PyramidalCone(NamedTuple):
    """The sum of 1/2 D min(y_0 +- mu_i y_i, 0)^2 over the edges of a pyramid."""

    D: Scalar
    mu: Sequence[Scalar]

    def forces(self, y: Scalars) -> list[Scalar]:
        normal: Scalar = 0.0
        across: list[Scalar] = []
        for mu, x in zip(self.mu, y[1:], strict=True):
            up, down = (self.D * maximum(-edge, 0.0) for edge in (y[0] + mu * x, y[0] - mu * x))
            normal = normal + (up + down)
            across.append(mu * (up - down))
        return [normal, *across]

    def curvature(self, y: Scalars) -> Rows:
        normal: Scalar = 0.0
        rows: Rows = []
        for i, (mu, x) in enumerate(zip(self.mu, y[1:], strict=True)):
            up, down = (select(e < 0.0, self.D, 0.0) for e in (y[0] + mu * x, y[0] - mu * x))
            normal = normal + (up + down)
            rows.append([mu * (up - down), *[0.0] * i, mu * mu * (up + down)])
        return [[normal], *rows]

    def stuck(self, rows: int) -> Rows:
        twice = 2.0 * self.D
        across = [[*[0.0] * i, mu * mu * twice] for i, mu in enumerate(self.mu, 1)]
        return [[twice * float(len(self.mu))], *across]

    def along(self, y: Scalars, d: Scalars) -> tuple[Scalar, Scalar]:
        slope: Scalar = 0.0
        curvature: Scalar = 0.0
        for edge, change in zip(self._edges(y), self._edges(d), strict=True):
            yields = select(edge < 0.0, change, 0.0)
            slope, curvature = slope + edge * yields, curvature + change * yields
        return self.D * slope, self.D * curvature

    def _edges(self, y: Scalars) -> list[Scalar]:
        across = [mu * x for mu, x in zip(self.mu, y[1:], strict=True)]
        return [edge for x in across for edge in (y[0] + x, y[0] - x)]
