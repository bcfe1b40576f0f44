"""Newton's method for accelerations a under soft constraints:

    minimise  1/2 (a - a_free)^T M (a - a_free) + sum_c s_c(J_c a - a_ref,c)                (1)

which is convex, so that the minimum is unique. With the slopes g = ds/dy and the curvatures C of
the potentials at y = J a - a_ref, a step p is

    (M + J^T C J) p = -J^T (r + g),    a = a_free + M^-1 J^T r                              (2)

where r, the constraints' part of M (a - a_free), is kept in the place of a: it follows a step of
length t by r - t (r + g + C J p), and at the minimum r = -g is the constraints' force. Steps have
the length that a search along p finds: Newton's method for one variable, within the interval known
to hold the minimum. All lanes take the same number of steps, and rest where they have converged.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import add
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.soft.potentials import Potential
from featherlane.algorithms.soft.sparse_factor import sparse_factor
from featherlane.algorithms.sparse_rows import Row, plus_products, sparse_dot
from featherlane.robot.spatial import dot
from featherlane.scalar import Scalar, maximum, minimum, select

SEARCHES = 2  # of the length of a step, see `_Line.minimum`
LONGEST = 8.0  # step, in Newton's
EDGE = 0.1  # of the interval that holds the minimum: the secant does not go nearer to an end
NEAR = 1e-10  # of the first step's decrease: from there on steps are Newton's, of length 1
LEAST = 1e-30  # of a curvature and a difference of slopes that are divided by


class SoftConstraint(NamedTuple):
    """A constraint: its rows of J, their reference accelerations, and its potential. With factors,
    J is the product of `rows` and of these, from the left to the right. Constraints of the same
    bodies share the last one, and H = M + J^T C J has its product with the sum of theirs.
    """

    rows: list[Row]
    reference: list[Scalar]
    potential: Potential
    factors: Sequence[list[Row]] = ()


class SoftSolution(NamedTuple):
    """Accelerations, the forces of each constraint along its rows, and the residual: the largest
    entry of M (a - a_free) - J^T f, in N and N m.
    """

    a: list[Scalar]
    forces: list[list[Scalar]]
    residual: Scalar


class _Rows(NamedTuple):
    """Vectors with an entry for each row of the constraints, as one list for each constraint."""

    each: list[list[Scalar]]

    def plus(self, t: Scalar, other: _Rows) -> _Rows:
        pairs = zip(self.each, other.each, strict=True)
        return _Rows([[x + t * y for x, y in zip(a, b, strict=True)] for a, b in pairs])

    def dot(self, other: _Rows) -> Scalar:
        return sum((dot(a, b) for a, b in zip(self.each, other.each, strict=True)), start=0.0)


def _slopes(constraints: Sequence[SoftConstraint], y: _Rows) -> _Rows:
    return _Rows(
        [[-f for f in c.potential.forces(x)] for c, x in zip(constraints, y.each, strict=True)]
    )


def _times_matrix(C: Rows, x: Scalars) -> list[Scalar]:
    """Returns C x, for the lower half of a symmetric C."""
    n = range(len(x))
    return [dot([C[max(i, j)][min(i, j)] for j in n], x) for i in n]


def reached(constraints: Sequence[SoftConstraint], a: Scalars) -> list[list[Scalar]]:
    """Returns y = J a - a_ref."""
    moved = _moved(constraints, a).each
    return [
        [x - b for x, b in zip(row, c.reference, strict=True)]
        for row, c in zip(moved, constraints, strict=True)
    ]


def _moved(constraints: Sequence[SoftConstraint], a: Scalars) -> _Rows:
    """Returns J a."""
    return _Rows([velocities(c.rows, c.factors, a) for c in constraints])


def velocities(rows: Sequence[Row], factors: Sequence[Sequence[Row]], v: Scalars) -> list[Scalar]:
    """Returns the product of rows, factors and v."""
    for matrix in [*reversed(factors), rows]:
        entries = dict(enumerate(v))
        v = [sparse_dot(row, entries) for row in matrix]
    return [*v]


def pushed(constraints: Sequence[SoftConstraint], f: Sequence[Scalars], n: int) -> list[Scalar]:
    """Returns J^T f."""
    total: list[Scalar] = [0.0] * n
    shared: dict[int, tuple[list[Row], list[Scalar]]] = {}
    for c, forces in zip(constraints, f, strict=True):
        for rows, after in pairwise([c.rows, *c.factors]):
            forces = plus_products([0.0] * len(after), rows, forces)
        if c.factors:
            last = c.factors[-1]
            _, sums = shared.setdefault(id(last), (last, [0.0] * len(last)))
            sums[:] = map(add, sums, forces)
        else:
            total = plus_products(total, c.rows, forces)
    for last, forces in shared.values():
        total = plus_products(total, last, forces)
    return total


def stiffened(
    M: Sequence[Row], constraints: Sequence[SoftConstraint], curvatures: Sequence[Rows]
) -> list[Row]:
    """Returns the lower half of M + J^T C J."""
    H = {k: dict(row) for k, row in enumerate(M)}
    shared: dict[int, tuple[list[Row], dict[int, Row]]] = {}
    for c, C in zip(constraints, curvatures, strict=True):
        product = _congruent(C, c.rows)
        for rows in c.factors[:-1]:
            product = _through(product, rows)
        if c.factors:
            last = c.factors[-1]
            _add(shared.setdefault(id(last), (last, {}))[1], product)
        else:
            _add(H, product)
    for last, product in shared.values():
        _add(H, _through(product, last))
    return [*H.values()]


def _add(total: dict[int, Row], lower: dict[int, Row]) -> None:
    """Adds the lower half of a matrix to another one."""
    for k, row in lower.items():
        sums = total.setdefault(k, {})
        for j, x in row.items():
            sums[j] = sums.get(j, 0.0) + x


def _through(lower: dict[int, Row], rows: Sequence[Row]) -> dict[int, Row]:
    """Returns the lower half of Y^T A Y for the lower half of A and the rows of Y."""
    of = sorted(lower)
    A = [[lower[k].get(j, 0.0) for j in of[: n + 1]] for n, k in enumerate(of)]
    return _congruent(A, [rows[k] for k in of])


def _congruent(C: Rows, rows: Sequence[Row]) -> dict[int, Row]:
    """Returns the lower half of Y^T C Y for the rows of Y, by the columns that have entries."""
    columns = sorted({k for row in rows for k in row})
    by_column = {k: [row.get(k, 0.0) for row in rows] for k in columns}
    product: dict[int, Row] = {}
    for n, k in enumerate(columns):
        Cx = _times_matrix(C, by_column[k])
        product[k] = {j: dot(Cx, by_column[j]) for j in columns[: n + 1]}
    return product


class _Line(NamedTuple):
    """The objective (1) along a step: its slope is `slope` + t `curvature` and what the potentials
    add at y + t d. first: the slope at t = 0; scale: the one of the first step of all.
    """

    constraints: Sequence[SoftConstraint]
    y: _Rows
    d: _Rows
    slope: Scalar
    curvature: Scalar
    first: Scalar
    scale: Scalar

    def at(self, t: Scalar) -> tuple[Scalar, Scalar]:
        """Returns the slope and the curvature at t."""
        y = self.y.plus(t, self.d)
        slope, curvature = self.slope + t * self.curvature, self.curvature
        for c, x, d in zip(self.constraints, y.each, self.d.each, strict=True):
            first, second = c.potential.along(x, d)
            slope, curvature = slope + first, curvature + second
        return slope, curvature

    def minimum(self) -> Scalar:
        """Returns the length of the step, from t = 1 on: by Newton's method for one variable, or,
        where that leaves the nearer half of the interval that holds the minimum, by the secant over
        the interval, clipped to its inner part. It is exactly 1 near the end, where a quotient of
        rounding errors would also spoil derivatives.
        """
        t: Scalar = 1.0
        low: Scalar = 0.0
        high: Scalar = LONGEST
        of_low, of_high = self.first, 0.0  # slopes, 0 where that of an end is not known
        for _ in range(SEARCHES):
            slope, curvature = self.at(t)
            falls = slope < 0.0
            low, of_low = select(falls, t, low), select(falls, slope, of_low)
            high, of_high = select(falls, high, t), select(falls, of_high, slope)
            length = high - low
            share = -of_low / maximum(of_high - of_low, LEAST)
            share = select(of_high > 0.0, minimum(maximum(share, EDGE), 1.0 - EDGE), 0.5)
            newton, middle = t - slope / maximum(curvature, LEAST), low + 0.5 * length
            inside = low + share * length
            t = select(falls, select(newton <= middle, newton, inside),
                       select(middle <= newton, newton, inside))  # fmt: skip
        return select(self.first < NEAR * self.scale, t, 1.0)


class NewtonState(NamedTuple):
    """Accelerations a, y = J a - a_ref, and r with M (a - a_free) = J^T r. scale: the slope of the
    objective along the first step of all.
    """

    a: list[Scalar]
    y: _Rows
    r: _Rows
    scale: Scalar = 0.0


class _Step(NamedTuple):
    """A step p, its part d = J p of y, C d, and r + g + C d. slope: of the objective along it, at
    its beginning: (r + g) . d, which is -p^T (M + J^T C J) p.
    """

    p: list[Scalar]
    d: _Rows
    stiff: _Rows
    change: _Rows
    slope: Scalar


def _full_step(
    M: Sequence[Row],
    constraints: Sequence[SoftConstraint],
    state: NewtonState,
    g: _Rows,
    curvatures: Sequence[Rows],
) -> _Step:
    """Solves (2)."""
    unbalanced = state.r.plus(1.0, g)
    force = [-x for x in pushed(constraints, unbalanced.each, len(state.a))]
    p = sparse_factor(stiffened(M, constraints, curvatures)).solve(force)
    d = _moved(constraints, p)
    Cd = _Rows([_times_matrix(C, x) for C, x in zip(curvatures, d.each, strict=True)])
    return _Step(p, d, Cd, unbalanced.plus(1.0, Cd), -dot(force, p))


def _after(state: NewtonState, t: Scalar, step: _Step) -> NewtonState:
    """Returns the state after a step of length t."""
    a = [x + t * p for x, p in zip(state.a, step.p, strict=True)]
    return NewtonState(a, state.y.plus(t, step.d), state.r.plus(-t, step.change), state.scale)


def newton_step(
    M: Sequence[Row], constraints: Sequence[SoftConstraint], state: NewtonState
) -> NewtonState:
    """Returns the state after a step of Newton's method."""
    g = _slopes(constraints, state.y)
    curvatures = [c.potential.curvature(y) for c, y in zip(constraints, state.y.each, strict=True)]
    step = _full_step(M, constraints, state, g, curvatures)
    return _after(state, _line(constraints, state, step).minimum(), step)


def _line(constraints: Sequence[SoftConstraint], state: NewtonState, step: _Step) -> _Line:
    """Returns the objective along a step."""
    of_mass = -(step.slope + step.stiff.dot(step.d))  # p^T M p
    slope = state.r.dot(step.d)
    return _Line(constraints, state.y, step.d, slope, of_mass, step.slope, state.scale)


def _all_stuck(constraints: Sequence[SoftConstraint], y: _Rows) -> tuple[_Rows, list[Rows]]:
    """Returns slopes and curvatures as if all active constraints stuck and held both ways."""
    curvatures = [c.potential.stuck(len(c.rows)) for c in constraints]
    slopes = [_times_matrix(C, x) for C, x in zip(curvatures, y.each, strict=True)]
    return _Rows(slopes), curvatures


def beginning(
    M: Sequence[Row], constraints: Sequence[SoftConstraint], free: Scalars
) -> NewtonState:
    """Returns the state in which all active constraints stick and hold in both directions: one
    linear system away, and two to four steps nearer to the minimum than a_free.
    """
    y = _Rows(reached(constraints, free))
    state = NewtonState(list(free), y, _Rows([[0.0] * len(c.rows) for c in constraints]))
    step = _full_step(M, constraints, state, *_all_stuck(constraints, y))
    return _after(state, 1.0, step)._replace(scale=step.slope)


def continuation(
    M: Sequence[Row],
    constraints: Sequence[SoftConstraint],
    a: Scalars,
    start: Sequence[Scalars],
) -> NewtonState:
    """Returns the state after a step of Newton's method from the forces r, the start, which lead
    from a_free to a; where they all are 0, the state of `beginning`.
    """
    y, r = _Rows(reached(constraints, a)), _Rows([list(f) for f in start])
    warm = r.dot(r) > 0.0
    of_stuck, C = _all_stuck(constraints, y)
    g = _Rows(_either(warm, _slopes(constraints, y).each, of_stuck.each))
    each = zip(constraints, y.each, C, strict=True)
    curvatures = [_either(warm, c.potential.curvature(x), rows) for c, x, rows in each]
    step = _full_step(M, constraints, NewtonState(list(a), y, r), g, curvatures)
    work = r.dot(y)
    scale = step.slope - maximum(work, -work)
    state = NewtonState(list(a), y, r, scale)
    return _after(state, select(warm, _line(constraints, state, step).minimum(), 1.0), step)


def _either(condition: Scalar, A: Rows, B: Rows) -> Rows:
    """Returns A where a condition holds, and else B."""
    rows = zip(A, B, strict=True)
    return [[select(condition, x, y) for x, y in zip(*pair, strict=True)] for pair in rows]


def minimised(
    M: Sequence[Row],
    a: Scalars,
    constraints: Sequence[SoftConstraint],
    steps: int,
    start: Sequence[Scalars] | None = None,
) -> SoftSolution:
    """Returns the minimum of (1). M: the rows of its lower half; a: a_free, or, with forces at
    which Newton's method starts, the acceleration under them.
    """
    if start is None:
        state = beginning(M, constraints, a)
    else:
        state = continuation(M, constraints, a, start)
    for _ in range(steps):
        state = newton_step(M, constraints, state)
    g = _slopes(constraints, state.y)
    residual: Scalar = 0.0
    for x in pushed(constraints, state.r.plus(1.0, g).each, len(a)):
        residual = maximum(residual, maximum(x, -x))
    return SoftSolution(state.a, [[-x for x in slopes] for slopes in g.each], residual)
