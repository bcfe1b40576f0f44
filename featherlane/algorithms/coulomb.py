"""Impulses of contacts with Coulomb friction, by Gauss-Seidel sweeps over blocks.

Impulses p change the velocities u along the rows of contacts and joints: u = b + S p, with the
Delassus matrix S = J M^-1 J^T. A contact with the friction coefficient mu asks for

    0 <= p_n,   0 <= u_n,   p_n u_n = 0,   |p_t| <= mu p_n,   p_t = -mu p_n u_t / |u_t| if |u_t| > 0

where b_n is less the velocity at which the bodies may approach. A sweep solves contact after
contact with the impulses of the others as they are. With the block B of S and the velocity c that
a contact has without its impulse,

    it sticks, p = -B^-1 c, if that is in the cone;
    else it slides, p = p_n (1, mu d), B_nn p_n + mu p_n B_nt d = -c_n, or opens, p = 0.

The direction d of friction is that of p_t - u_t / lambda, with the largest eigenvalue lambda of
B_tt: at the solution it is opposite to u_t (Hwangbo, Lee and Hutter 2018 look for d by bisection).
A row of a joint, whose velocity shall be within bounds against dry friction, is solved exactly.

Sweeps need not converge, as where friction wedges a straight leg: see `without_gain`. A contact
along whose normal nothing moves, as of a straight leg below a fixed hip, takes no part: `yielding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.delassus import RHO, STILL
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.restitution import Rebound, shortened
from featherlane.robot.spatial import Symmetric, dot, matvec
from featherlane.scalar import Scalar, is_zero, maximum, minimum, select, sqrt

LEAST = 1e-24  # (N s)^2: of the square of a length that is divided by
NO_SLOPE = 1e-36  # N s / kg: of a contact that nothing moves; not 0 in float32, too
SMALLEST_SLOPE = 0.1  # of B_nn: friction that would turn over or wedge the body counts so far
SINGULAR = 1e-4  # of the trace of B, and
HEAVY = 1e3  # times the robot's mass: a contact with less B_nn and more 1 / B_nn does not yield
FAR = 1e6  # m/s, at which it opens


class ContactBlock(NamedTuple):
    """The three rows of a contact, its friction, the block of S, (B + R)^-1 and 1 / lambda; and
    the velocity, m/s, at which it closes because it does not yield.
    """

    rows: tuple[int, int, int]
    friction: Scalar
    B: Symmetric
    inverse: Symmetric
    slip: Scalar
    closing: Scalar = 0.0

    @staticmethod
    def of(B: Symmetric, first: int, friction: Scalar) -> ContactBlock:
        """Returns the block B of S whose rows begin with this one."""
        small = B.trace * RHO + STILL  # where joints move the point along fewer than three lines
        A = B + Symmetric(small, 0.0, 0.0, small, 0.0, small)
        half, skewed = 0.5 * (A.yy + A.zz), 0.5 * (A.yy - A.zz)
        slip = 1.0 / (half + sqrt(skewed * skewed + A.yz * A.yz))
        return ContactBlock((first, first + 1, first + 2), friction, B, _inverse(A), slip)

    @property
    def diagonal(self) -> tuple[Scalar, ...]:
        """The entries of S on the diagonal."""
        return self.B.xx, self.B.yy, self.B.zz

    def solved(self, u: Scalars, p: Scalars) -> list[Scalar]:
        """Returns the impulses of the contact, from its velocities and the impulses until now."""
        stick = [x - y for x, y in zip(p, matvec(self.inverse.rows, u), strict=True)]
        limit = self.friction * stick[0]
        across = stick[1] * stick[1] + stick[2] * stick[2]
        slide = self._sliding(u[0] - dot(self.B.rows[0], p), u, p)
        held = [select(across <= limit * limit, x, y) for x, y in zip(stick, slide, strict=True)]
        return [select(stick[0] >= 0.0, x, y) for x, y in zip(held, slide, strict=True)]

    def way_back(self, p: Scalar) -> Scalar:
        """Returns 0: b is less the velocity at which contacts part."""
        return 0.0

    def _sliding(self, c: Scalar, u: Scalars, p: Scalars) -> list[Scalar]:
        """Returns the impulses of sliding; zeros if the contact opens, c >= 0."""
        mu, B = self.friction, self.B
        y, z = p[1] - u[1] * self.slip, p[2] - u[2] * self.slip
        length = sqrt(y * y + z * z + LEAST)
        slope = maximum(B.xx * length + mu * (B.xy * y + B.xz * z), SMALLEST_SLOPE * B.xx * length)
        k = maximum(-c, 0.0) / (slope + NO_SLOPE)
        share = minimum(k * mu, 1.0)
        return [k * length, share * y, share * z]


def _inverse(A: Symmetric) -> Symmetric:
    """Returns the inverse of a positive definite matrix, by its adjugate."""
    xx, xy, xz, yy, yz, zz = A
    a, b, c = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    inverse = 1.0 / (xx * a + xy * b + xz * c)
    d, e, f = xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
    return Symmetric(*[x * inverse for x in (a, b, c, d, e, f)])


class JointBlock(NamedTuple):
    """The row of a joint: its entry of S, the impulse of dry friction, and the least and largest
    velocity, None without limits.
    """

    rows: tuple[int]
    B: Scalar
    inverse: Scalar
    friction: Scalar
    bounds: tuple[Scalar, Scalar] | None

    @property
    def diagonal(self) -> tuple[Scalar, ...]:
        """The entry of S."""
        return (self.B,)

    def solved(self, u: Scalars, p: Scalars) -> list[Scalar]:
        """Returns the impulse of friction and limit together."""
        free = end = u[0] - self.B * p[0]
        if not is_zero(self.friction):
            held = minimum(maximum(-free * self.inverse, -self.friction), self.friction)
            end = free + self.B * held
        if self.bounds is not None:
            end = minimum(maximum(end, self.bounds[0]), self.bounds[1])
        return [(end - free) * self.inverse]

    def way_back(self, p: Scalar) -> Scalar:
        """Returns the velocity of the way back from a limit, on the side that p acts on."""
        if self.bounds is None:
            return 0.0
        least, largest = self.bounds
        return select(p > 0.0, maximum(least, 0.0), minimum(largest, 0.0))


Block = ContactBlock | JointBlock


def yielding(blocks: Sequence[Block], b: Scalars, mass: Scalar) -> tuple[list[Block], list[Scalar]]:
    """Returns blocks and b in which contacts open that do not yield along their normals, but by
    impulses without measure. mass: of the robot. A free root yields at least by 1 / mass.
    """
    after, b = list[Block](), list(b)
    for block in blocks:
        if isinstance(block, ContactBlock):
            B, n = block.B, block.rows[0]
            is_kept = maximum(B.xx - SINGULAR * B.trace, B.xx * mass - 1.0 / HEAVY) > 0.0
            block = block._replace(closing=select(is_kept, 0.0, maximum(-b[n], 0.0)))
            b[n] = select(is_kept, b[n], FAR)
        after.append(block)
    return after, b


class ContactSystem(NamedTuple):
    """The lower half of S, b, and the blocks of rows."""

    S: Rows
    b: Sequence[Scalar]
    blocks: Sequence[Block]

    def velocity(self, i: int, p: Scalars) -> Scalar:
        """Returns u_i = b_i + S_i p."""
        u = self.b[i]
        for j, x in enumerate(p):
            u = u + self.S[max(i, j)][min(i, j)] * x
        return u

    def change(self, i: int, p: Scalars) -> Scalar:
        """Returns S_i p."""
        total: Scalar = 0.0
        for j, x in enumerate(p):
            total = total + self.S[max(i, j)][min(i, j)] * x
        return total


def _sweep(system: ContactSystem, p: Scalars) -> list[Scalar]:
    """Returns the impulses after one sweep."""
    p = list(p)
    for block in system.blocks:
        u = [system.velocity(i, p) for i in block.rows]
        solved = block.solved(u, [p[i] for i in block.rows])
        for i, x in zip(block.rows, solved, strict=True):
            p[i] = x
    return p


def without_gain(system: ContactSystem, p: Scalars) -> list[Scalar]:
    """Returns the impulses p, or less of them where they would add kinetic energy, as sweeps that
    diverge do.

    The multiple s = -p.b / p.S p of p takes most energy, and 2 s none: below 1/2, p adds energy. A
    solution has s >= 1, as p.u <= 0. The way back from limits of joints, which b has not, is apart.
    """
    work: Scalar = 0.0
    square: Scalar = 0.0
    for block in system.blocks:
        for i in block.rows:
            work = work + p[i] * (system.b[i] - block.way_back(p[i]))
            square = square + p[i] * system.change(i, p)
    part = part_without_gain(work, square)
    return [part * x for x in p]


def part_without_gain(work: Scalar, square: Scalar) -> Scalar:
    """Returns the part of impulses p that `without_gain` keeps, from p.b and p.S p."""
    share = maximum(-work / (square + LEAST), 0.0)
    return select(share < 0.5, share, 1.0)


class SweptImpulses(NamedTuple):
    """The impulses of a step, the residual, m/s or rad/s, and the solutions from which the impulses
    are: of the law without restitution, and behind it with Newton's if contacts rebound.
    """

    p: list[Scalar]
    residual: Scalar
    each: list[list[Scalar]]


def swept(
    system: ContactSystem, p: Scalars, sweeps: int, rebound: Rebound | None = None
) -> SweptImpulses:
    """Returns the impulses after so many sweeps, `without_gain`, with the residual of the last
    sweep, see `residual_of`. rebound: of contacts with restitution, which are swept without it and
    with it.
    """
    after, residual = _repeated(system, p, sweeps)
    settled = without_gain(system, after)
    if rebound is None:
        return SweptImpulses(settled, residual, [settled])
    lowered = [b - rise for b, rise in zip(system.b, rebound.rise, strict=True)]
    returned, other = _repeated(system._replace(b=lowered), p, sweeps)
    change = [x - y for x, y in zip(returned, settled, strict=True)]
    rows = range(len(change))
    S_p, S_change = ([system.change(i, x) for i in rows] for x in (settled, change))
    products = dot(settled, S_p), dot(change, S_p), dot(change, S_change)
    share = rebound.share(settled, change, products)
    both = [settled, returned]
    return SweptImpulses(shortened(returned, change, share), maximum(residual, other), both)


def _repeated(system: ContactSystem, p: Scalars, sweeps: int) -> tuple[list[Scalar], Scalar]:
    """Returns the impulses after so many sweeps, and the residual."""
    after, before = list(p), list(p)
    for _ in range(sweeps):
        before = after
        after = _sweep(system, before)
    return after, residual_of(system.blocks, after, before)


def residual_of(blocks: Sequence[Block], after: Scalars, before: Scalars) -> Scalar:
    """Returns the largest change of a velocity by the impulse along it from p before to after, or
    the largest velocity at which a contact closes that does not yield.
    """
    residual: Scalar = 0.0
    for block in blocks:
        if isinstance(block, ContactBlock):
            residual = maximum(residual, block.closing)
        for i, B in zip(block.rows, block.diagonal, strict=True):
            change = (after[i] - before[i]) * B
            residual = maximum(residual, maximum(-change, change))  # 0.0, not -0.0, if equal
    return residual
