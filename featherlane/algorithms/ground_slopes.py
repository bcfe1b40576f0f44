"""Derivatives of a step on the ground, by its impulses and the state of each contact.

At the solution a contact is open, sticks or slides, and a joint is free, held or at a limit. With
changes du of the velocities along its rows and dp of its impulses each of them asks for

    Lu du + Lp dp = 0:    dp = 0;    du = 0;    du_n = 0 and d(p_t + mu p_n u_t / |u_t|) = 0.

Constraints have rows, too, whose du is 0. A step keeps dt (ID(q, v, a) - tau) = J^T p.
With X and y, the changes of dt ID - J^T p and of u as the state changes at fixed a, p and tau, K =
J M^-1 and Q = (Lu S + Lp)^-1 Lu,

    dt da = -(M^-1 - K^T Q K) X - K^T Q y.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.constrained import residuals
from featherlane.algorithms.constrained_steps import level_of_step
from featherlane.algorithms.constraints import RowGroup, flat, groups_of, item_masks
from featherlane.algorithms.delassus import RHO, STILL, constrained_system, delassus
from featherlane.algorithms.factor import MassFactor
from featherlane.algorithms.ground_steps import approach, contact_geometry, joint_bounds, rise
from featherlane.algorithms.mean_accelerations import in_axes_of_beginning
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.scene import Scene, joints_with_rows
from featherlane.algorithms.sparse_rows import Row, dense, plus_products, sparse_dot
from featherlane.robot.constraints import Constraints
from featherlane.robot.spatial import dot
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, is_zero, maximum, minimum, select, sqrt

ON_CONE = 1.0 - 1e-5  # of the square of mu p_n: friction that is larger belongs to sliding
LEAST = 1e-24  # (m/s)^2


class StepState(NamedTuple):
    """A step that was solved: q, v, its acceleration, the impulses of contacts and joints, behind
    them those of constraints, and dt.
    """

    q: Scalars
    v: Scalars
    a: Scalars
    p: Scalars
    dt: Scalar

    def end(self, tree: Tree) -> list[Scalar]:
        """Returns the velocity at the end, in the axes of the beginning."""
        same = [x + self.dt * y for x, y in zip(self.v, self.a, strict=True)]
        return in_axes_of_beginning(tree, self.v, same, self.dt)


class EqualityRows(NamedTuple):
    """Equality constraints beside contacts, which of them are active, and their anchors."""

    constraints: Constraints
    active: Scalars | None = None
    anchors: Sequence[Scalars] | None = None

    @property
    def masks(self) -> list[Scalar]:
        """The mask of each row."""
        ones = [1.0] * self.constraints.rows
        return item_masks(self.constraints, self.active) or ones

    def groups(self, tree: Tree, step: StepState) -> list[list[RowGroup]]:
        """Returns the rows, and the residuals of accelerations."""
        level = level_of_step(tree, step.v, step.dt, self.constraints, self.anchors)
        return groups_of(level.at(tree, step.q, step.v, step.a))

    def impulses(
        self, tree: Tree, factored: MassFactor, step: StepState, left: Scalars
    ) -> list[Scalar]:
        """Returns the impulses that carry J^T p = left, of dt (ID - tau) without contacts'."""
        system = constrained_system(factored, self.groups(tree, step), self.masks)
        z = dict(enumerate(factored.inward(left)))
        return system.S.proximal([sparse_dot(row, z) for row in system.scaled])


class StepRows(NamedTuple):
    """The rows of a step: those of a scene, of dry frictions and of constraints."""

    scene: Scene
    frictions: Scalars
    held: EqualityRows | None = None


def all_rows(tree: Tree, step: StepState, around: StepRows) -> list[Row]:
    """Returns the rows of contacts, joints and constraints."""
    _, rows = contact_geometry(tree, step.q, around.scene, around.frictions)
    if around.held is None:
        return rows
    groups = flat(around.held.groups(tree, step))
    held = zip(around.held.masks, (row for group in groups for row in group.rows), strict=True)
    return rows + [{k: mask * x for k, x in row.items()} for mask, row in held]


def contact_kinematics(
    tree: Tree, step: StepState, around: StepRows
) -> tuple[list[Scalar], list[Scalar]]:
    """Returns J^T p, of as many rows as there are impulses, and the velocities of the end along the
    rows, less those at which contacts may approach, limits of joints are met and constraints hold.
    """
    scene, held, end = around.scene, around.held, step.end(tree)
    contacts, rows = contact_geometry(tree, step.q, scene, around.frictions)
    closing = [_along(row, end) for row in rows]
    for n, contact in enumerate(contacts):
        least, before = approach(contact, scene, step.dt), _along(rows[3 * n], step.v)
        more = rise(contact, scene, least, before, step.dt)
        closing[3 * n] = closing[3 * n] - (least + more)
    for n, k in enumerate(joints_with_rows(scene, around.frictions), 3 * len(contacts)):
        if (bounds := joint_bounds(scene, k, step.q, step.dt)) is not None:
            # The row that reads this is that of the bound that the impulse pushes away from
            closing[n] = closing[n] - select(step.p[n] > 0.0, *bounds)
    if held is not None:
        errors = residuals(held.groups(tree, step))
        closing += [mask * step.dt * x for mask, x in zip(held.masks, errors, strict=True)]
    carried = all_rows(tree, step, around)[: len(step.p)]
    return plus_products([0.0] * tree.nv, carried, step.p), closing


def _along(row: Row, v: Scalars) -> Scalar:
    return dot(row.values(), [v[k] for k in row])


class Conditions(NamedTuple):
    """The blocks of Lu and Lp of a contact or joint, its derivatives by `grips`, and what R adds to
    the diagonal of Lp, so that redundant contacts have an answer.
    """

    Lu: Rows
    Lp: Rows
    by_grip: list[Scalar]
    R: list[Scalar]


def contact_conditions(u: Scalars, p: Scalars, mu: Scalar, small: Scalar) -> Conditions:
    """Returns the conditions of a contact. small: R of velocities that are held."""
    across, limit = p[1] * p[1] + p[2] * p[2], mu * p[0]
    opens, slides = p[0] <= 0.0, across >= limit * limit * ON_CONE
    inverse = 1.0 / sqrt(u[1] * u[1] + u[2] * u[2] + LEAST)
    x, y, stiff = u[1] * inverse, u[2] * inverse, mu * p[0] * inverse
    yy, xy, xx = stiff * (y * y), -stiff * (x * y), stiff * (x * x)
    of_state = lambda free, stuck, sliding: select(opens, free, select(slides, sliding, stuck))
    closed, loose = of_state(0.0, 1.0, 1.0), of_state(1.0, 0.0, 1.0)
    Lu = [
        [closed, 0.0, 0.0],
        [0.0, of_state(0.0, 1.0, yy), of_state(0.0, 0.0, xy)],
        [0.0, of_state(0.0, 0.0, xy), of_state(0.0, 1.0, xx)],
    ]
    Lp = [
        [of_state(1.0, 0.0, 0.0), 0.0, 0.0],
        [of_state(0.0, 0.0, mu * x), loose, 0.0],
        [of_state(0.0, 0.0, mu * y), 0.0, loose],
    ]
    by_grip = [0.0, of_state(0.0, 0.0, p[0] * x), of_state(0.0, 0.0, p[0] * y)]
    stuck = of_state(0.0, small, 0.0)
    return Conditions(Lu, Lp, by_grip, [of_state(0.0, small, small), stuck, stuck])


def joint_conditions(
    u: Scalar, p: Scalar, B: Scalar, friction: Scalar, bounds: tuple[Scalar, Scalar] | None
) -> Conditions:
    """Returns the conditions of a joint with a row: free, held by friction, or at a limit."""
    free = u - B * p
    held = minimum(maximum(-free / B, -friction), friction)
    sticks = select(held * held < friction * friction, 1.0, 0.0)
    if bounds is not None:
        end = free + B * held
        stopped = select(end < bounds[0], 1.0, select(end > bounds[1], 1.0, 0.0))
        sticks = maximum(sticks, stopped)
    slips = 1.0 - sticks
    return Conditions([[sticks]], [[slips]], [select(p > 0.0, -slips, slips)], [0.0])


def all_conditions(
    tree: Tree, step: StepState, around: StepRows, closing: Scalars, S: Rows
) -> list[Conditions]:
    """Returns the conditions of all contacts, joints and constraints."""
    scene, frictions, end = around.scene, around.frictions, step.end(tree)
    contacts, _ = contact_geometry(tree, step.q, scene, frictions)
    conditions = []
    for n, contact in enumerate(contacts):
        rows = slice(3 * n, 3 * n + 3)
        trace = S[3 * n][3 * n] + S[3 * n + 1][3 * n + 1] + S[3 * n + 2][3 * n + 2]
        small = trace * RHO + STILL
        conditions.append(
            contact_conditions(closing[rows], step.p[rows], scene.sliding(contact), small)
        )
    for n, k in enumerate(joints_with_rows(scene, frictions), 3 * len(contacts)):
        bounds = joint_bounds(scene, k, step.q, step.dt)
        friction = frictions[k] * step.dt
        conditions.append(joint_conditions(end[k], step.p[n], S[n][n], friction, bounds))
    first = sum(len(one.Lu) for one in conditions)
    for n, mask in enumerate(around.held.masks if around.held else (), first):
        conditions.append(Conditions([[mask]], [[1.0 - mask]], [0.0], [S[n][n] * RHO + STILL]))
    return conditions


def grips(tree: Tree, q: Scalars, dt: Scalar, around: StepRows) -> list[Scalar]:
    """Returns what bounds the impulse along each row: the coefficient of friction along tangents,
    the largest impulse of dry friction in joints, and else 0.
    """
    scene, frictions, held = around.scene, around.frictions, around.held
    contacts, _ = contact_geometry(tree, q, scene, frictions)
    mu = [x for contact in contacts for x in (0.0, *[scene.sliding(contact)] * 2)]
    dry = [frictions[k] * dt for k in joints_with_rows(scene, frictions)]
    return [*mu, *dry, *[0.0] * (held.constraints.rows if held else 0)]


class RowResponse(NamedTuple):
    """G = Lu S + Lp + R of all rows, Lu, the derivatives by `grips`, and R: impulses answer changes
    after a proximal iteration, (Lu S + Lp)^-1 = G^-1 (1 + R G^-1).
    """

    G: Rows
    Lu: Rows
    by_grip: list[Scalar]
    R: list[Scalar]

    @staticmethod
    def of(conditions: Sequence[Conditions], S: Rows) -> RowResponse:
        """Returns the response of rows with the Delassus matrix S."""
        size, first = len(S), 0
        R = [x for one in conditions for x in one.R]
        by_grip = [x for one in conditions for x in one.by_grip]
        G: Rows = []
        Lu: Rows = []
        for one in conditions:
            n = len(one.Lu)
            for by_u, by_p in zip(one.Lu, one.Lp, strict=True):
                row = [dot(by_u, [S[first + j][k] for j in range(n)]) for k in range(size)]
                for j, x in enumerate(by_p):
                    row[first + j] = row[first + j] + x
                G.append(row)
                Lu.append([*[0.0] * first, *by_u, *[0.0] * (size - first - n)])
            first += n
        G = [[*row[:i], row[i] + R[i], *row[i + 1 :]] for i, row in enumerate(G)]
        return RowResponse(G, Lu, by_grip, R)

    def matrix(self) -> Rows:
        """Returns Q."""
        more = [
            [x if is_zero(r) else x + r * y for x, y in zip(row, answer, strict=True)]
            for row, answer, r in zip(self.Lu, solved(self.G, self.Lu), self.R, strict=True)
        ]
        return solved(self.G, more)

    def solve(self, right: Scalars, transposed: bool = False) -> list[Scalar]:
        """Returns (Lu S + Lp)^-1 right, or the product with its transpose."""
        G = [list(column) for column in zip(*self.G, strict=True)] if transposed else self.G
        first = [x for (x,) in solved(G, [[x] for x in right])]
        more = [r * x for r, x in zip(self.R, first, strict=True)]
        return [x + y for x, (y,) in zip(first, solved(G, [[x] for x in more]), strict=True)]


def solved(G: Rows, right: Rows) -> Rows:
    """Returns G^-1 right by Gaussian elimination without pivots."""
    A, B = [list(row) for row in G], [list(row) for row in right]
    for k in range(len(A)):
        inverse = 1.0 / A[k][k]
        A[k] = [*A[k][: k + 1], *[x * inverse for x in A[k][k + 1 :]]]
        B[k] = [x * inverse for x in B[k]]
        for i in range(len(A)):
            if i == k or is_zero(factor := A[i][k]):
                continue
            later = zip(A[i][k + 1 :], A[k][k + 1 :], strict=True)
            A[i] = [*A[i][: k + 1], *[x - factor * y for x, y in later]]
            B[i] = [x - factor * y for x, y in zip(B[i], B[k], strict=True)]
    return B


class GroundResponse(NamedTuple):
    """P = M^-1 - K^T Q K and K^T Q, by which a step answers changes."""

    P: Rows
    KQ: Rows

    def slopes(self, X: Rows, y: Rows, dt: Scalar) -> Rows:
        """Returns da/dx from X / dt and y, with a column for each entry of x."""
        rate = -1.0 / dt
        columns, moved = [*zip(*X, strict=True)], [*zip(*y, strict=True)]
        return [
            [dot(b, d) * rate - dot(p, c) for c, d in zip(columns, moved, strict=True)]
            for p, b in zip(self.P, self.KQ, strict=True)
        ]


class GroundSystem(NamedTuple):
    """The rows J of a step, and what answers changes of their velocities."""

    factored: MassFactor
    J: list[Row]
    S: Rows
    response: RowResponse

    @staticmethod
    def of(
        tree: Tree, factored: MassFactor, step: StepState, around: StepRows, closing: Scalars
    ) -> GroundSystem:
        """Returns the system of a step that was solved."""
        rows = all_rows(tree, step, around)
        lower, _ = delassus(factored, [factored.row_inward(row) for row in rows])
        n = range(len(rows))
        S = [[lower[max(i, j)][min(i, j)] for j in n] for i in n]
        conditions = all_conditions(tree, step, around, closing, S)
        return GroundSystem(factored, rows, S, RowResponse.of(conditions, S))

    def answer(self) -> GroundResponse:
        """Returns P and K^T Q."""
        Q = self.response.matrix()
        K = [self.factored.solve(dense(row, len(self.factored.Dinv))) for row in self.J]
        columns = [*zip(*K, strict=True)]  # of K, for each entry of v
        KQ = [[dot(column, q) for q in zip(*Q, strict=True)] for column in columns]
        P = [
            [m - dot(b, c) for m, c in zip(row, columns, strict=True)]
            for row, b in zip(self.factored.inverted().inverse(), KQ, strict=True)
        ]
        return GroundResponse(P, KQ)

    def moved(self, changes: RowChanges) -> tuple[list[Scalar], list[Scalar]]:
        """Returns dt da and dp."""
        held = self.factored.solve(changes.forces)
        still = [_along(row, held) - y for row, y in zip(self.J, changes.closing, strict=True)]
        by_u = [dot(row, still) for row in self.response.Lu]
        by_grip = zip(self.response.by_grip, changes.grips, strict=True)
        dp = self.response.solve([x - y * g for x, (y, g) in zip(by_u, by_grip, strict=True)])
        return self.factored.solve(plus_products([-x for x in changes.forces], self.J, dp)), dp

    def weighed(self, by_motion: Scalars, by_impulse: Scalars) -> RowChanges:
        """Returns the gradients by changes from those by dt da and dp: the transpose of `moved`."""
        motion, Lu = self.factored.solve(by_motion), self.response.Lu
        right = [_along(row, motion) + g for row, g in zip(self.J, by_impulse, strict=True)]
        weights = self.response.solve(right, transposed=True)
        of_u = [dot(column, weights) for column in zip(*Lu, strict=True)]
        forces = self.factored.solve(plus_products([-x for x in by_motion], self.J, of_u))
        grips = [-w * x for w, x in zip(weights, self.response.by_grip, strict=True)]
        return RowChanges(forces, [-x for x in of_u], grips)


class RowChanges(NamedTuple):
    """Changes of a step's equations at a fixed acceleration and fixed impulses: of dt (ID - tau) -
    J^T p, of the closing velocities, and of `grips`; or gradients by these.
    """

    forces: list[Scalar]
    closing: list[Scalar]
    grips: list[Scalar]
