"""Derivatives of a step on the ground, by its impulses and the state of each contact.

At the solution a contact is open, sticks or slides, and a joint is free, held or at a limit. With
changes du of the velocities along its rows and dp of its impulses each of them asks for

    Lu du + Lp dp = 0:    dp = 0;    du = 0;    du_n = 0 and d(p_t + mu p_n u_t / |u_t|) = 0.

Constraints have rows, too, whose du is 0. A step keeps dt (ID(q, v, a) - tau) = J^T p. Changes of
dt ID - J^T p and of u, as the state changes at fixed a, p and tau, are answered by velocities and
impulses as `row_elimination.py` eliminates these conditions, for matrices and for single vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.constrained import residuals
from featherlane.algorithms.constrained_steps import level_of_step
from featherlane.algorithms.constraints import RowGroup, flat, groups_of, item_masks
from featherlane.algorithms.contact_bounds import approach, contact_geometry, joint_bounds, rise
from featherlane.algorithms.delassus import RHO, STILL, constrained_system, delassus
from featherlane.algorithms.factor import MassFactor
from featherlane.algorithms.mean_accelerations import in_axes_of_beginning
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.row_elimination import RowBlock, RowLaw, RowResponse, in_blocks
from featherlane.algorithms.scene import Scene, joints_with_rows
from featherlane.algorithms.sparse_rows import Row, combined, dense, plus_products, sparse_dot
from featherlane.robot.constraints import Constraints
from featherlane.robot.spatial import dot
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, maximum, minimum, select, sqrt

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


class ContactState(NamedTuple):
    """1 for a contact that is closed, and for one that sticks, else 0; the direction in which one
    slides, its friction, and mu p_n / |u_t|, both 0 unless it slides.
    """

    closed: Scalar
    sticks: Scalar
    x: Scalar
    y: Scalar
    mu: Scalar
    stiff: Scalar

    @staticmethod
    def of(u: Scalars, p: Scalars, mu: Scalar) -> ContactState:
        """Returns the state of a contact with these velocities and impulses."""
        across, limit = p[1] * p[1] + p[2] * p[2], mu * p[0]
        opens, slides = p[0] <= 0.0, across >= limit * limit * ON_CONE
        inverse = 1.0 / sqrt(u[1] * u[1] + u[2] * u[2] + LEAST)
        of_state = lambda other, sliding: select(opens, other, select(slides, sliding, other))
        return ContactState(
            select(opens, 0.0, 1.0),
            select(opens, 0.0, select(slides, 0.0, 1.0)),
            of_state(1.0, u[1] * inverse),
            of_state(0.0, u[2] * inverse),
            of_state(0.0, mu),
            of_state(0.0, limit * inverse),
        )

    def turns(self, first: int = 0) -> list[Row]:
        """Returns the rows along the normal, across the direction of sliding and along it, as sums
        of the contact's rows, of which the first has this number.
        """
        y, z = first + 1, first + 2
        return [{first: 1.0}, {y: -self.y, z: self.x}, {y: self.x, z: self.y}]

    def laws(self, small: Scalar) -> list[RowLaw]:
        """Returns the laws of these rows. small: R of velocities that are held."""
        held = _law(self.sticks, small)
        return [_law(self.closed, small), held._replace(w=self.sticks + self.stiff), held]

    def by_grip(self, p: Scalar) -> list[Scalar]:
        """Returns how impulses fall with mu. p: the normal one."""
        slips = (self.closed - self.sticks) * p
        return [0.0, slips * self.x, slips * self.y]

    def block(self, J: Rows, changes: Rows, small: Scalar) -> RowBlock:
        """Returns the rows of the contact as a block that is eliminated."""
        turned = lambda rows: [
            [dot(turn.values(), entries) for entries in zip(*(rows[k] for k in turn), strict=True)]
            for turn in self.turns()
        ]
        return RowBlock(turned(J), turned(changes), self.laws(small), self.mu)


def _law(held: Scalar, small: Scalar) -> RowLaw:
    """Returns the law of a row that is held (1) or not (0)."""
    return RowLaw(held, 1.0 - held, held * (small * small))


class RowState(NamedTuple):
    """1 for a row of a joint or of a constraint that is held, else 0, and the sign of friction
    against which a joint moves.
    """

    held: Scalar
    against: Scalar = 0.0

    @staticmethod
    def of_joint(
        u: Scalar, p: Scalar, B: Scalar, friction: Scalar, bounds: tuple[Scalar, Scalar] | None
    ) -> RowState:
        """Returns the state of a joint with a row: free, held by friction, or at a limit."""
        free = u - B * p
        held = minimum(maximum(-free / B, -friction), friction)
        sticks = select(held * held < friction * friction, 1.0, 0.0)
        if bounds is not None:
            end = free + B * held
            stopped = select(end < bounds[0], 1.0, select(end > bounds[1], 1.0, 0.0))
            sticks = maximum(sticks, stopped)
        return RowState(sticks, select(p > 0.0, sticks - 1.0, 1.0 - sticks))


class RowStates(NamedTuple):
    """The states of all contacts and single rows, with the R that keeps each of them solvable."""

    contacts: list[tuple[ContactState, Scalar]]
    singles: list[tuple[RowState, Scalar]]

    @staticmethod
    def of(
        tree: Tree, step: StepState, around: StepRows, closing: Scalars, diagonal: Scalars
    ) -> RowStates:
        """Returns the states at the solution of a step. diagonal: of the Delassus matrix."""
        scene, frictions, end = around.scene, around.frictions, step.end(tree)
        contacts, _ = contact_geometry(tree, step.q, scene, frictions)
        states, singles = list[tuple[ContactState, Scalar]](), list[RowState]()
        for n, contact in enumerate(contacts):
            rows = slice(3 * n, 3 * n + 3)
            x, y, z = diagonal[rows]
            state = ContactState.of(closing[rows], step.p[rows], scene.sliding(contact))
            states.append((state, (x + y + z) * RHO + STILL))
        first = 3 * len(contacts)
        for n, k in enumerate(joints_with_rows(scene, frictions), first):
            bounds, dry = joint_bounds(scene, k, step.q, step.dt), frictions[k] * step.dt
            singles.append(RowState.of_joint(end[k], step.p[n], diagonal[n], dry, bounds))
        singles += [RowState(mask) for mask in (around.held.masks if around.held else ())]
        least = [x * RHO + STILL for x in diagonal[first:]]
        return RowStates(states, [*zip(singles, least, strict=True)])

    def turns(self) -> list[Row]:
        """Returns the rows that are eliminated as sums of those of a step."""
        turns = [row for n, (state, _) in enumerate(self.contacts) for row in state.turns(3 * n)]
        return [*turns, *({n: 1.0} for n, _ in enumerate(self.singles, len(turns)))]

    def laws(self) -> list[RowLaw]:
        """Returns the laws of these rows."""
        of_contacts = [law for state, small in self.contacts for law in state.laws(small)]
        return of_contacts + self._single_laws

    def by_grip(self, p: Scalars) -> list[Scalar]:
        """Returns how the impulses p fall with `grips`."""
        of_contacts = [
            x
            for (state, _), normal in zip(self.contacts, p[::3], strict=False)
            for x in state.by_grip(normal)
        ]
        return [*of_contacts, *(one.against for one, _ in self.singles)]

    @property
    def _single_laws(self) -> list[RowLaw]:
        return [_law(one.held, small) for one, small in self.singles]

    def blocks(self, J: Rows, changes: Rows) -> list[RowBlock]:
        """Returns the blocks of rows that are eliminated. changes: along each row."""
        blocks = list[RowBlock]()
        for n, (state, small) in enumerate(self.contacts):
            rows = slice(3 * n, 3 * n + 3)
            blocks.append(state.block(J[rows], changes[rows], small))
        first = 3 * len(blocks)
        return [*blocks, *in_blocks(J[first:], changes[first:], self._single_laws)]


def grips(tree: Tree, q: Scalars, dt: Scalar, around: StepRows) -> list[Scalar]:
    """Returns what bounds the impulse along each row: the coefficient of friction along tangents,
    the largest impulse of dry friction in joints, and else 0.
    """
    scene, frictions, held = around.scene, around.frictions, around.held
    contacts, _ = contact_geometry(tree, q, scene, frictions)
    mu = [x for contact in contacts for x in (0.0, *[scene.sliding(contact)] * 2)]
    dry = [frictions[k] * dt for k in joints_with_rows(scene, frictions)]
    return [*mu, *dry, *[0.0] * (held.constraints.rows if held else 0)]


class GroundSystem(NamedTuple):
    """The rows J of a step, how its impulses fall with `grips`, and what answers changes of their
    velocities: rows T J are eliminated, whose impulses act along N J.
    """

    factored: MassFactor
    J: list[Row]
    by_grip: list[Scalar]
    T: list[Row]
    N: list[Row]
    response: RowResponse

    @staticmethod
    def of(
        tree: Tree, factored: MassFactor, step: StepState, around: StepRows, closing: Scalars
    ) -> GroundSystem:
        """Returns the system of a step that was solved."""
        rows = all_rows(tree, step, around)
        inward = [factored.row_inward(row) for row in rows]
        states = RowStates.of(tree, step, around, closing, _diagonal(factored, inward))
        T = states.turns()
        lower, _ = delassus(factored, [combined(turn, inward) for turn in T])
        n = range(len(T))
        S, N = [[lower[max(i, j)][min(i, j)] for j in n] for i in n], [*T]
        for k, (state, _) in enumerate(states.contacts):
            first, last = 3 * k, 3 * k + 2
            N[first] = combined({first: 1.0, last: -state.mu}, T)
            for row in S:
                row[first] = row[first] - state.mu * row[last]
        response = RowResponse.of(S, states.laws())
        return GroundSystem(factored, rows, states.by_grip(step.p), T, N, response)

    def moved(self, changes: RowChanges) -> tuple[list[Scalar], list[Scalar]]:
        """Returns dt da and dp."""
        forces = [-x for x in changes.forces]
        dp = [-x * y for x, y in zip(self.by_grip, changes.grips, strict=True)]
        free = self.factored.solve(plus_products(forces, self.J, dp))
        u = [_along(row, free) + y for row, y in zip(self.J, changes.closing, strict=True)]
        answers = self.response.solve([_along(row, u) for row in self.T])
        dp = plus_products(dp, self.N, [-x for x in answers])
        return self.factored.solve(plus_products(forces, self.J, dp)), dp

    def weighed(self, by_motion: Scalars, by_impulse: Scalars) -> RowChanges:
        """Returns the gradients by changes from those by dt da and dp: the transpose of `moved`."""
        motion = self.factored.solve(by_motion)
        by_dp = [_along(row, motion) + w for row, w in zip(self.J, by_impulse, strict=True)]
        weights = self.response.solve([_along(row, by_dp) for row in self.N], transposed=True)
        of_u = plus_products([0.0] * len(self.J), self.T, weights)
        forces = self.factored.solve(plus_products([-x for x in by_motion], self.J, of_u))
        free = [w - _along(row, forces) for row, w in zip(self.J, by_impulse, strict=True)]
        grips = [-x * y for x, y in zip(self.by_grip, free, strict=True)]
        return RowChanges(forces, [-x for x in of_u], grips)


def _diagonal(factored: MassFactor, inward: Sequence[Row]) -> list[Scalar]:
    """Returns the diagonal of the Delassus matrix of rows that were taken inward."""
    return [sparse_dot(Y, {k: factored.Dinv[k] * x for k, x in Y.items()}) for Y in inward]


class RowChanges(NamedTuple):
    """Changes of a step's equations at a fixed acceleration and fixed impulses: of dt (ID - tau) -
    J^T p, of the closing velocities, and of `grips`; or gradients by these.
    """

    forces: list[Scalar]
    closing: list[Scalar]
    grips: list[Scalar]


def row_blocks(
    tree: Tree,
    factored: MassFactor,
    step: StepState,
    around: StepRows,
    closing: Scalars,
    changes: Rows,
) -> list[RowBlock]:
    """Returns the rows of a step that was solved in blocks, in which they are eliminated. changes:
    of the closing velocities.
    """
    rows = all_rows(tree, step, around)
    diagonal = _diagonal(factored, [factored.row_inward(row) for row in rows])
    states = RowStates.of(tree, step, around, closing, diagonal)
    return states.blocks([dense(row, tree.nv) for row in rows], changes)
