"""The steps of integrators in discrete time, and of their derivatives, between evaluations of the
dynamics.

`rate` is the velocity of the configuration in local coordinates u about the q that a step began
with: q(t) = integrate(q, u(t)). In them Runge-Kutta methods have their order on every joint type
(Munthe-Kaas 1998); of the series of du/dt in v, terms of third order and beyond are left out, which
is enough for order 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.configurations import integrate
from featherlane.robot.joint_type import JointType
from featherlane.robot.spatial import Vector, dot
from featherlane.robot.tree import Tree
from featherlane.scalar import COLUMN, Scalar, repeat

Rows = list[list[Scalar]]
Moved = tuple[list[Scalar], list[Scalar], list[Scalar]]


def _plus(a: Scalars, b: Scalars, s: Scalar) -> list[Scalar]:
    """Returns a + s b."""
    return [x + s * y for x, y in zip(a, b, strict=True)]


def _times(s: Scalar, a: Scalars) -> list[Scalar]:
    return [s * x for x in a]


def advance(tree: Tree, q: Scalars, rate: Scalars, v: Scalars, a: Scalars, dt: Scalar) -> Moved:
    """Returns q after dt at the velocity `rate`, v after dt at a, and the motion."""
    u = _times(dt, rate)
    return integrate(tree, q, u), _plus(v, a, dt), u


def advance_semi_implicitly(tree: Tree, q: Scalars, v: Scalars, a: Scalars, dt: Scalar) -> Moved:
    """Returns q after dt at the velocity of the step's end, that velocity, and the motion."""
    v_next = _plus(v, a, dt)
    u = _times(dt, v_next)
    return integrate(tree, q, u), v_next, u


# Runge-Kutta methods


def local_rate(tree: Tree, u: Scalars, v: Scalars) -> list[Scalar]:
    """Returns du/dt at velocity v: v + [u, v] / 2 + [u, [u, v]] / 12."""
    rate = list(v)
    for kind, k in _curved(tree):
        own = slice(k, k + kind.nv)
        first = Vector(_commutator(kind, u[own], v[own]))
        rate[own] = (
            Vector(v[own]) + first * 0.5 + Vector(_commutator(kind, u[own], first)) * (1 / 12)
        )
    return rate


def _curved(tree: Tree) -> Iterator[tuple[JointType, int]]:
    """Yields type and first entry of v of the joints whose motions do not commute."""
    for kind, _, k in tree.coordinates:
        if kind.commutator is not None:
            yield kind, k


def _commutator(kind: JointType, u: Scalars, v: Scalars) -> Scalars:
    assert kind.commutator is not None
    return kind.commutator(u, v)


def stage(fraction: float) -> Callable[..., Any]:
    """Makes the function that goes from a step's beginning to a stage at this fraction of it, with
    the rate and the acceleration of the stage before: its state and rate, and the motion to it.
    """

    def to_stage(
        tree: Tree, q: Scalars, v: Scalars, rate: Scalars, a: Scalars, dt: Scalar
    ) -> tuple[list[Scalar], ...]:
        h = fraction * dt
        u, v_stage = _times(h, rate), _plus(v, a, h)
        return integrate(tree, q, u), v_stage, local_rate(tree, u, v_stage), u

    return to_stage


def _weighted(first: Scalars, second: Scalars, third: Scalars, fourth: Scalars) -> list[Scalar]:
    """Returns the mean of four stages with weights 1, 2, 2, 1 (Kutta 1901)."""
    each = zip(first, second, third, fourth, strict=True)
    return [(w + z + 2.0 * (x + y)) * (1 / 6) for w, x, y, z in each]


def runge_kutta(tree: Tree, q: Scalars, v: Scalars, dt: Scalar, *stages: Scalars) -> Moved:
    """Returns the end of a step, and its motion. stages: the rates of the last three, the
    accelerations of all.
    """
    rate, a = _weighted(v, *stages[:3]), _weighted(*stages[3:])
    return advance(tree, q, rate, v, a, dt)


# Their derivatives


def _mapped(tree: Tree, matrices: Sequence[Any], rows: Rows) -> Rows:
    """Returns the block-diagonal matrix of curved joints' `matrices` (1 elsewhere) times `rows`."""
    result = list(rows)
    for (kind, k), matrix in zip(_curved(tree), matrices, strict=True):
        own = rows[k : k + kind.nv]
        columns = list(zip(*own, strict=True))
        result[k : k + kind.nv] = [[dot(row, column) for column in columns] for row in matrix]
    return result


def _maps(tree: Tree, u: Scalars) -> tuple[list[Any], list[Any]]:
    """Returns how configurations after a motion u change with those before, and with u: matrices of
    the curved joints.
    """
    own = [(kind, u[k : k + kind.nv]) for kind, k in _curved(tree)]
    return [kind.adjoint(x) for kind, x in own], [kind.jacobian(x) for kind, x in own]


def add_gradients(
    tree: Tree, gq: Scalars, gv: Scalars, more_q: Scalars, more_v: Scalars
) -> tuple[list[Scalar], list[Scalar]]:
    """Returns the sums of gradients by configuration and velocity."""
    return _plus(gq, more_q, 1.0), _plus(gv, more_v, 1.0)


def _unit_rows(n: int, scale: Scalar = 1.0) -> Rows:
    return [[scale if i == j else 0.0 for j in range(n)] for i in range(n)]


def _scaled_rows(s: Scalar, A: Sequence[Scalars]) -> Rows:
    return [_times(s, row) for row in A]


def _sum_rows(A: Sequence[Scalars], B: Sequence[Scalars]) -> Rows:
    return [[x + y for x, y in zip(a, b, strict=True)] for a, b in zip(A, B, strict=True)]


def _beside(*blocks: Sequence[Scalars]) -> Rows:
    """Returns matrices of as many rows side by side."""
    return [[x for row in rows for x in row] for rows in zip(*blocks, strict=True)]


def linear_step(semi_implicit: bool) -> Callable[..., Any]:
    """Makes the function that ends a step of Euler's methods: its state, A and B."""

    def linearized(
        tree: Tree, q: Scalars, v: Scalars, a: Scalars, dt: Scalar, *slopes: Sequence[Scalars]
    ) -> tuple[list[Scalar], list[Scalar], Rows, Rows]:
        by_q, by_v, by_u = [_scaled_rows(dt, rows) for rows in slopes]
        by_v = _sum_rows(_unit_rows(tree.nv), by_v)
        v_next = _plus(v, a, dt)
        u = _times(dt, v_next if semi_implicit else v)
        before, moved = _maps(tree, u)
        A_q, A_v = _mapped(tree, before, _unit_rows(tree.nv)), _unit_rows(tree.nv)
        B_q: Rows = [[0.0] * len(row) for row in by_u]
        if semi_implicit:
            A_v, B_q = by_v, _mapped(tree, moved, _scaled_rows(dt, by_u))
            A_q = _sum_rows(A_q, _mapped(tree, moved, _scaled_rows(dt, by_q)))
        A_v = _mapped(tree, moved, _scaled_rows(dt, A_v))
        A = [*_beside(A_q, A_v), *_beside(by_q, by_v)]
        return integrate(tree, q, u), v_next, A, [*B_q, *by_u]

    return linearized


def _accelerated(slopes: Scalars, n: int, dq: Scalars, dv: Scalars, du: Scalars) -> list[Scalar]:
    """Returns da = da/dq dq + da/dv dv + da/du du. slopes: the rows of the first two matrices."""
    half = n * n
    return [
        dot(slopes[n * i : n * i + n], dq) + dot(slopes[half + n * i : half + n * i + n], dv) + x
        for i, x in enumerate(du)
    ]


class _Motions:
    """What the columns of a stage's sensitivities share: the motion u to the stage and its v."""

    def __init__(self, tree: Tree, u: Scalars, v: Scalars) -> None:
        self.tree, self.u, self.v = tree, u, v
        self.maps = _maps(tree, u)
        self.turned = [
            _commutator(kind, u[k : k + kind.nv], v[k : k + kind.nv]) for kind, k in _curved(tree)
        ]

    def pack(self) -> list[Scalar]:
        curved = [k + i for kind, k in _curved(self.tree) for i in range(kind.nv)]
        matrices = [x for which in self.maps for M in which for row in M for x in row]
        pairs = [x[k] for x in (self.u, self.v) for k in curved]
        return [*pairs, *matrices, *[x for own in self.turned for x in own]]

    @staticmethod
    def unpack(tree: Tree, packed: Scalars) -> _Motions:
        entries, motions = iter(packed), object.__new__(_Motions)
        curved = list(_curved(tree))

        def vector(n: int) -> list[Scalar]:
            return [next(entries) for _ in range(n)]

        def sparse() -> list[Scalar]:
            x: list[Scalar] = [0.0] * tree.nv
            for kind, k in curved:
                x[k : k + kind.nv] = vector(kind.nv)
            return x

        motions.tree, motions.u, motions.v = tree, sparse(), sparse()
        matrices = lambda: [[vector(kind.nv) for _ in range(kind.nv)] for kind, _ in curved]
        motions.maps = matrices(), matrices()
        motions.turned = [vector(kind.nv) for kind, _ in curved]
        return motions

    def moved(self, dq: Scalars, du: Scalars) -> list[Scalar]:
        """Returns how the stage's configuration changes with the step's first one and with u."""
        before, after = (
            [row for (row,) in _mapped(self.tree, maps, [[x] for x in d])]
            for maps, d in zip(self.maps, (dq, du), strict=True)
        )
        return [x + y for x, y in zip(before, after, strict=True)]

    def rate(self, du: Scalars, dv: Scalars) -> list[Scalar]:
        """Returns the derivative of `local_rate`."""
        rate = list(dv)
        for (kind, k), turned in zip(_curved(self.tree), self.turned, strict=True):
            own = slice(k, k + kind.nv)
            first = Vector(_commutator(kind, du[own], self.v[own]))
            first = first + _commutator(kind, self.u[own], dv[own])
            second = Vector(_commutator(kind, du[own], turned))
            second = second + _commutator(kind, self.u[own], first)
            rate[own] = Vector(dv[own]) + first * 0.5 + second * (1 / 12)
        return rate


def motion_maps(tree: Tree, u: Scalars, v: Scalars) -> tuple[list[Scalar], ...]:
    """Returns, of each curved joint, how the configuration after a motion u changes with the one
    before and with u, and how `local_rate` changes with u and v: the entries of its matrices.
    """
    motions = _Motions(tree, u, v)
    zero = [0.0] * tree.nv
    by_u, by_v = list[Scalar](), list[Scalar]()
    for kind, k in _curved(tree):
        moves = [[1.0 if i == j else 0.0 for i in range(tree.nv)] for j in range(k, k + kind.nv)]
        own = slice(k, k + kind.nv)
        by_u += _flat(_transposed([motions.rate(move, zero)[own] for move in moves]))
        by_v += _flat(_transposed([motions.rate(zero, move)[own] for move in moves]))
    return _flat(*motions.maps[0]), _flat(*motions.maps[1]), by_u, by_v


def _columns(*matrices: Sequence[Scalars]) -> list[list[Scalar]]:
    """Returns for each column its entries in all of the matrices."""
    return [
        [x for part in parts for x in part]
        for parts in zip(*map(_transposed, matrices), strict=True)
    ]


def _transposed(A: Sequence[Scalars]) -> Rows:
    return [list(column) for column in zip(*A, strict=True)]


def _parted(flat: Scalars, n: int) -> list[Scalars]:
    return [flat[i : i + n] for i in range(0, len(flat), n)]


def _bases(n: int, controls: int) -> tuple[Rows, Rows]:
    """Returns how q and v of a step's beginning change with [q, v, controls]: [1 0 0], [0 1 0]."""
    I, O, U = _unit_rows(n), _unit_rows(n, 0.0), [[0.0] * controls for _ in range(n)]
    return _beside(I, O, U), _beside(O, I, U)


def _in_columns(by_u: Sequence[Scalars]) -> Rows:
    """Returns da/du beside zeros, where the columns of q and v are."""
    n = len(by_u)
    return _beside(_unit_rows(n, 0.0), _unit_rows(n, 0.0), by_u)


def first_sensitivities(fraction: float) -> Callable[..., Any]:
    """Makes the function that gives how the state and the rate of the second stage change with a
    step's [q, v, controls], from the slopes of the first acceleration.
    """

    def sensitivities(
        tree: Tree, u: Scalars, v_stage: Scalars, dt: Scalar, *slopes: Sequence[Scalars]
    ) -> tuple[Rows, Rows, Rows]:
        h = fraction * dt
        motions = _Motions(tree, u, v_stage)
        base_q, base_v = map(_transposed, _bases(tree.nv, len(slopes[2][0])))
        found = []
        for dq, dv, da in zip(base_q, base_v, _transposed(_beside(*slopes)), strict=True):
            du, dv_stage = _times(h, dv), _plus(dv, da, h)
            found.append((motions.moved(dq, du), dv_stage, motions.rate(du, dv_stage)))
        Dq, Dv, Dr = (_transposed(columns) for columns in zip(*found, strict=True))
        return Dq, Dv, Dr

    return sensitivities


def next_sensitivities(fraction: float) -> Callable[..., Any]:
    """Makes the function that gives how a stage's acceleration changes with a step's [q, v,
    controls], and how state and rate of the next stage do.
    """

    def sensitivities(
        tree: Tree,
        u: Scalars,
        v_stage: Scalars,
        dt: Scalar,
        by_q: Rows,
        by_v: Rows,
        by_u: Rows,
        Dq: Rows,
        Dv: Rows,
        Dr: Rows,
    ) -> tuple[Rows, ...]:
        n, h = tree.nv, fraction * dt
        slopes = _flat(by_q, by_v)
        packed = _Motions(tree, u, v_stage).pack()

        def column(shared: Scalars, entries: Scalars) -> list[Scalar]:
            h, motions = shared[0], _Motions.unpack(tree, shared[1 + 2 * n * n :])
            dq, dv, dr, du, base_q, base_v = _parted(entries, n)
            da = _accelerated(shared[1:], n, dq, dv, du)
            moved, dv_next = _times(h, dr), _plus(base_v, da, h)
            return [*da, *motions.moved(base_q, moved), *dv_next, *motions.rate(moved, dv_next)]

        columns = _columns(Dq, Dv, Dr, _in_columns(by_u), *_bases(n, len(by_u[0])))
        found = repeat(column, [h, *slopes, *packed], columns, [COLUMN] * len(columns))
        parted = [_parted(entries, n) for entries in found]
        return tuple(_transposed(columns) for columns in zip(*parted, strict=True))

    return sensitivities


Ended = tuple[Scalars, Scalars, Rows, Rows]


def _end(
    tree: Tree,
    state: tuple[Scalars, Scalars, Scalars],
    shared: Scalars,
    entries: Sequence[Sequence[Scalars]],
    changes: Callable[..., tuple[list[Scalar], list[Scalar]]],
) -> Ended:
    """Returns the end of a step, A and B. state: q, the motion u of the whole step, and v at its
    end. changes(shared, *entries of a column) gives how u and that v change.
    """
    n, (q, u, v_next) = tree.nv, state
    packed = _Motions(tree, u, v_next).pack()

    def column(all_shared: Scalars, own: Scalars) -> list[Scalar]:
        motions = _Motions.unpack(tree, all_shared[len(shared) :])
        base_q, *others = _parted(own, n)
        du, dv = changes(all_shared, *others)
        return [*motions.moved(base_q, du), *dv]

    columns = _columns(_bases(n, len(entries[0][0]) - 2 * n)[0], *entries)
    found = repeat(column, [*shared, *packed], columns, [COLUMN] * len(columns))
    return integrate(tree, q, u), v_next, _transposed(found[: 2 * n]), _transposed(found[2 * n :])


def _flat(*matrices: Rows) -> list[Scalar]:
    return [x for rows in matrices for row in rows for x in row]


def linear_runge_kutta(tree: Tree, q: Scalars, v: Scalars, dt: Scalar, *stages: Any) -> Ended:
    """Returns the end of a step, A and B. stages: as in `runge_kutta`; then the derivatives of the
    first acceleration by q, v and controls, those of the second and third by all three, those of
    the rates of the last three stages, and the derivatives of the last acceleration by its q, v and
    controls, with those of its state.
    """
    rates, a, first, middle, Dr, last, at_last = (
        stages[:3], stages[3:7], stages[7:10], stages[10:12], stages[12:15], stages[15:18],
        stages[18:],
    )  # fmt: skip
    n = tree.nv
    u, v_next = _times(dt, _weighted(v, *rates)), _plus(v, _weighted(*a), dt)

    def changes(shared: Scalars, *own: Scalars) -> tuple[list[Scalar], list[Scalar]]:
        dt, (dq, dv, du, a1, a2, a3, *rates) = shared[0], own
        da = _weighted(a1, a2, a3, _accelerated(shared[1:], n, dq, dv, du))
        return _times(dt, _weighted(*rates)), _plus(rates[0], da, dt)

    by_v = _bases(n, len(last[2][0]))[1]
    entries = [*at_last, _in_columns(last[2]), _beside(*first), *middle, by_v, *Dr]
    return _end(tree, (q, u, v_next), [dt, *_flat(*last[:2])], entries, changes)


def linear_midpoint(
    tree: Tree, q: Scalars, v: Scalars, v_middle: Scalars, a: Scalars, dt: Scalar, *slopes: Any
) -> Ended:
    """Returns the end of a step, A and B. slopes: the derivatives of a, the acceleration in the
    middle, by q, v and controls there, and of that q and v by those of the beginning.
    """
    n, (by_q, by_v, by_u, *at_middle) = tree.nv, slopes

    def changes(shared: Scalars, *own: Scalars) -> tuple[list[Scalar], list[Scalar]]:
        dt, (dq, dv, du, base_v) = shared[0], own
        da = _accelerated(shared[1:], n, dq, dv, du)
        return _times(dt, dv), _plus(base_v, da, dt)

    entries = [*at_middle, _in_columns(by_u), _bases(n, len(by_u[0]))[1]]
    state = q, _times(dt, v_middle), _plus(v, a, dt)
    return _end(tree, state, [dt, *_flat(by_q, by_v)], entries, changes)
