"""Semi-implicit steps of robots on the ground: impulses of contacts at the velocities of the end.

    M (v' - v) = dt (tau - h) + J^T p,    u = J v'

where p and u meet the law of `coulomb.py`, and v' has the axes of the step's beginning (see
`mean_accelerations.py`). `contact_bounds.py` has the velocities that contacts allow. Closed loops
and other equality constraints hold exactly beside contacts: their rows are eliminated from the
Delassus matrix before the sweeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import add
from typing import Any, NamedTuple

from featherlane.algorithms.common import Scalars, Wrenches
from featherlane.algorithms.constrained import residuals
from featherlane.algorithms.constrained_steps import level_of_step
from featherlane.algorithms.constraints import RowGroup, flat, groups_of, item_masks
from featherlane.algorithms.contact_bounds import (
    approach,
    blocks_of,
    contact_geometry,
    rebound_of,
)
from featherlane.algorithms.contact_points import ContactPoint
from featherlane.algorithms.coulomb import (
    ContactSystem,
    swept,
    yielding,
)
from featherlane.algorithms.delassus import ConstrainedSystem, constrained_system, delassus
from featherlane.algorithms.factor import MassFactor, factor
from featherlane.algorithms.implicit_damping import with_implicit_damping
from featherlane.algorithms.many_contacts import (
    ContactLayout,
    FactoredRows,
    are_long,
    block_of_S,
    ground_end_solutions,
    ground_sweeps,
    packed_ending,
    packed_system,
    scaled_rows,
)
from featherlane.algorithms.mminv import Rows, mass_matrix
from featherlane.algorithms.restitution import Rebound
from featherlane.algorithms.scene import (
    GroundStart,
    Scene,
    SteppedContacts,
    law_frictions,
    restitution_each,
)
from featherlane.algorithms.soft.steps import soft_step
from featherlane.algorithms.sparse_rows import Row, plus_products, sparse_dot
from featherlane.robot.constraints import Constraints
from featherlane.robot.contact_law import Coulomb, SoftContacts
from featherlane.robot.spatial import Symmetric, dot, matvec, transpose
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, sqrt


class FreeMotion(NamedTuple):
    """The rows of contacts and joints in a step without impulses: z = dt L^-T (tau - h), Y = J L^-1
    and Y D^-1, S, and the velocities J v along the rows at the beginning and at the end.
    """

    factored: MassFactor
    z: list[Scalar]
    Y: list[Row]
    scaled: list[Row]
    S: Rows
    before: list[Scalar]
    after: list[Scalar]

    @staticmethod
    def of(start: GroundStart, push: Scalars, rows: Sequence[Row]) -> FreeMotion:
        """Returns the motion under dt (tau - h), the push."""
        factored = factor(start.tree, mass_matrix(start.tree, start.q))
        z = factored.inward(push)
        Y = [factored.row_inward(row) for row in rows]
        S, scaled = delassus(factored, Y)
        before = [sparse_dot(row, _numbered(start.v)) for row in rows]
        changes = [sparse_dot(row, _numbered(z)) for row in scaled]
        same = _numbered(start.in_axes_of_beginning)
        after = [sparse_dot(row, same) for row in rows]
        return FreeMotion(factored, z, Y, scaled, S, before, [*map(add, after, changes)])


def _numbered(x: Scalars) -> Row:
    return dict(enumerate(x))


class Held(NamedTuple):
    """Equality constraints beside contacts: their system; each contact row's products C with their
    rows, and W = S_e^-1 C; and the impulses that hold them without contacts.
    """

    system: ConstrainedSystem
    C: Rows
    W: Rows
    impulse: list[Scalar]

    @staticmethod
    def of(system: ConstrainedSystem, residual: Scalars, free: FreeMotion) -> Held:
        """Returns what holds constraints with these velocities at the beginning of a step."""
        changes = [sparse_dot(row, _numbered(free.z)) for row in system.scaled]
        end = [*map(add, system.masked(residual), changes)]
        C = [[sparse_dot(row, y) for y in system.Y] for row in free.scaled]
        W = [system.S.proximal(row) for row in C]
        return Held(system, C, W, [-x for x in system.S.proximal(end)])

    def reduced(self, free: FreeMotion) -> tuple[Rows, list[Scalar]]:
        """Returns S and the velocities of contacts to which the constraints yield."""
        S = [
            [s - dot(c, w) for s, w in zip(row, self.W, strict=False)]
            for row, c in zip(free.S, self.C, strict=True)
        ]
        return S, [x + dot(c, self.impulse) for x, c in zip(free.after, self.C, strict=True)]

    def counted(self, rebound: Rebound, twice_mean: Scalars) -> Rebound:
        """Returns restitution that counts the work of constraints. twice_mean: the sums of the
        velocities along their rows before and after a step.
        """
        each = [x - dot(w, twice_mean) for x, w in zip(rebound.twice_mean, self.W, strict=True)]
        return rebound._replace(twice_mean=each, by_constraints=dot(self.impulse, twice_mean))

    def impulses(self, p: Scalars) -> list[Scalar]:
        """Returns the impulses of the constraints beside those of contacts."""
        total = list(self.impulse)
        for x, row in zip(p, self.W, strict=True):
            total = [t - w * x for t, w in zip(total, row, strict=True)]
        return total


def _twice_mean(start: GroundStart, groups: Sequence[Sequence[RowGroup]]) -> list[Scalar]:
    """Returns the sums of the velocities along the rows of constraints before a step and after it,
    when they hold. groups: with the residuals of no acceleration.
    """
    sums = _numbered([*map(add, start.v, start.in_axes_of_beginning)])
    along = [sparse_dot(row, sums) for group in flat(groups) for row in group.rows]
    return [x - start.dt * y for x, y in zip(along, residuals(groups), strict=True)]


class RigidSolutions(NamedTuple):
    """A step under rigid contacts, and the solutions of the law from which it is: accelerations,
    impulses and restitution, of one or two, see `restitution.py`.
    """

    step: SteppedContacts
    a_each: list[list[Scalar]]
    impulse_each: list[list[Scalar]]
    restitution_each: list[Scalar]


def _rigid_step(start: GroundStart, **held: Any) -> SteppedContacts:
    """Returns the step of `rigid_solutions`."""
    return rigid_solutions(start, **held).step


def rigid_solutions(
    start: GroundStart,
    constraints: Constraints | None = None,
    active: Scalars | None = None,
    anchors: Sequence[Scalars] | None = None,
) -> RigidSolutions:
    """Returns a step under rigid contacts, with its solutions."""
    tree, q, v, dt, scene = start.tree, start.q, start.v, start.dt, start.scene
    solutions = 2 if scene.rebounds else 1
    contacts, rows = geometry = contact_geometry(tree, q, scene, start.frictions)
    if constraints is None and are_long(solutions * scene.law.sweeps, len(rows)):
        system, p, x, ending = _packed(start, geometry)
        p, x, residual = ground_sweeps(tree, system, p, x, scene)
        a, forces, p, *each = ground_end_solutions(tree, ending, p, x, dt, scene)
        return RigidSolutions(SteppedContacts(a, forces, residual, p), *each)
    free, held = FreeMotion.of(start, start.push, rows), None
    S, end = free.S, list(free.after)
    if constraints is not None:
        still = [0.0] * tree.nv
        groups = groups_of(level_of_step(tree, v, dt, constraints, anchors).at(tree, q, v, still))
        constrained = constrained_system(free.factored, groups, item_masks(constraints, active))
        held = Held.of(constrained, [dt * x for x in residuals(groups)], free)
        S, end = held.reduced(free)
    rebound = rebound_of(start, contacts, free.before, end) if scene.rebounds else None
    if rebound is not None and held is not None:
        rebound = held.counted(rebound, _twice_mean(start, groups))
    for n, contact in enumerate(contacts):
        end[3 * n] = end[3 * n] - approach(contact, scene, dt)
    of_S = lambda first: Symmetric.of(lambda i, j: S[first + j][first + i])
    blocks = blocks_of(start, contacts, of_S, lambda i: S[i][i])
    blocks, end = yielding(blocks, end, tree.mass)
    p = [0.0] * len(rows) if scene.impulse is None else list(scene.impulse)
    p, residual, each = swept(ContactSystem(S, end, blocks), p, scene.law.sweeps, rebound)
    rate = 1.0 / dt

    def acceleration(p: Scalars) -> list[Scalar]:
        z = plus_products(free.z, free.Y, p)
        if held is not None:
            z = plus_products(z, held.system.Y, held.impulses(p))
        return [rate * x for x in free.factored.outward(z)]

    step = SteppedContacts(acceleration(p), contact_forces(contacts, p, rate), residual, p)
    return RigidSolutions(step, [*map(acceleration, each)], each, restitution_each(scene))


class PackedSystem(NamedTuple):
    """The scalars that functions of a step with many contacts pass, see `many_contacts`: what the
    sweeps read, p and x at their beginning, and what the end reads.
    """

    system: list[Scalar]
    p: list[Scalar]
    x: list[Scalar]
    ending: list[Scalar]


def contact_system(start: GroundStart) -> PackedSystem:
    """Returns the system of a step with many contacts."""
    geometry = contact_geometry(start.tree, start.q, start.scene, start.frictions)
    return _packed(start, geometry)


def _packed(
    start: GroundStart, geometry: tuple[Sequence[ContactPoint], Sequence[Row]]
) -> PackedSystem:
    """Returns the system of a step with the contact points and rows of `contact_geometry`."""
    tree, scene, (contacts, rows) = start.tree, start.scene, geometry
    factored = factor(tree, mass_matrix(tree, start.q))
    Y = scaled_rows(factored, rows)
    same = _numbered(start.in_axes_of_beginning)
    free = [sparse_dot(row, same) for row in rows]
    pushed = factored.inward(start.push)
    x = [y * sqrt(d) for y, d in zip(pushed, factored.Dinv, strict=True)]
    rebound = None
    if scene.rebounds:
        before = [sparse_dot(row, _numbered(start.v)) for row in rows]
        end = [y + sparse_dot(row, _numbered(x)) for y, row in zip(free, Y, strict=True)]
        rebound = rebound_of(start, contacts, before, end)
    for n, contact in enumerate(contacts):
        free[3 * n] = free[3 * n] - approach(contact, scene, start.dt)
    of_S = lambda first: block_of_S(Y[first : first + 3])
    blocks = blocks_of(start, contacts, of_S, lambda i: sparse_dot(Y[i], Y[i]))
    blocks, free = yielding(blocks, free, tree.mass)
    raised = rebound.rise if rebound else [0.0] * len(rows)
    each = [
        FactoredRows(
            [Y[i] for i in block.rows], [free[i] for i in block.rows], block, raised[block.rows[0]]
        )
        for block in blocks
    ]
    p = [0.0] * len(rows) if scene.impulse is None else list(scene.impulse)
    layout = ContactLayout.of(tree, scene, start.frictions)
    system = packed_system(layout, each)
    ending = packed_ending(factored, contacts, each, x)
    begin = plus_products(x, Y, p)
    if rebound is not None:
        return PackedSystem(system, p + p, begin + begin, rebound.twice_mean + ending)
    return PackedSystem(system, p, begin, ending)


STEPS: dict[type, Callable[..., SteppedContacts]] = {Coulomb: _rigid_step, SoftContacts: soft_step}


def contact_forces(
    contacts: Sequence[ContactPoint], p: Scalars, rate: Scalar
) -> list[list[Scalar]]:
    """Returns the forces in the axes of the world."""
    each = (p[3 * n : 3 * n + 3] for n in range(len(contacts)))
    return [
        [rate * x for x in matvec(transpose(contact.frame), impulse)]
        for contact, impulse in zip(contacts, each, strict=True)
    ]


def dry_frictions(tree: Tree, scene: Scene) -> tuple[Tree, list[Scalar]]:
    """Returns the tree without its smooth friction, and the largest friction of each entry of v, if
    the law has rows for it.
    """
    frictions = law_frictions(tree, scene)
    return (replace(tree, frictions=[()] * tree.nv) if scene.law.friction_loss else tree), frictions


def _undamped(
    step: Callable[..., Any],
    tree: Tree,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    dt: Scalar,
    *,
    scene: Scene,
    f_ext: Wrenches | None = None,
    **held: Any,
) -> Any:
    """Returns what a step gives, or the system of its contacts, for a tree with dry friction."""
    smooth, frictions = dry_frictions(tree, scene)
    return step(GroundStart(smooth, q, v, tau, dt, scene, frictions, f_ext), **held)


def _damped(step: Callable[..., Any], tree: Tree, *state: Any, scene: Scene, **options: Any) -> Any:
    """Returns the same with implicit damping. state: also the damping of servos."""
    smooth, frictions = dry_frictions(tree, scene)
    dt = state[3]

    def run(
        tree: Tree,
        q: Scalars,
        v: Scalars,
        tau: Scalars,
        f_ext: Wrenches | None = None,
        **held: Any,
    ) -> Any:
        return step(GroundStart(tree, q, v, tau, dt, scene, frictions, f_ext), **held)

    return with_implicit_damping(run)(smooth, *state, **options)


def ground_step(tree: Tree, *state: Any, scene: Scene, **options: Any) -> SteppedContacts:
    """Returns a semi-implicit step on the ground. state: q, v, tau, dt; options: constraints,
    active, anchors, f_ext.
    """
    return _undamped(STEPS[type(scene.law)], tree, *state, scene=scene, **options)


def damped_ground_step(tree: Tree, *state: Any, scene: Scene, **options: Any) -> SteppedContacts:
    """Returns a step on the ground with implicit damping. state: q, v, tau, dt, servo_damping."""
    return _damped(STEPS[type(scene.law)], tree, *state, scene=scene, **options)


def ground_step_solutions(tree: Tree, *state: Any, scene: Scene, **options: Any) -> Any:
    """Returns a `ground_step` under rigid contacts and, behind it, its solutions."""
    step, *each = _undamped(rigid_solutions, tree, *state, scene=scene, **options)
    return *step, *each


def damped_ground_step_solutions(tree: Tree, *state: Any, scene: Scene, **options: Any) -> Any:
    """Returns a `damped_ground_step` under rigid contacts and, behind it, its solutions."""
    step, *each = _damped(rigid_solutions, tree, *state, scene=scene, **options)
    return *step, *each


def ground_system(tree: Tree, *state: Any, scene: Scene, **options: Any) -> PackedSystem:
    """Returns the contacts of a `ground_step`. options: f_ext."""
    return _undamped(contact_system, tree, *state, scene=scene, **options)


def damped_ground_system(tree: Tree, *state: Any, scene: Scene, **options: Any) -> PackedSystem:
    """Returns the contacts of a `damped_ground_step`. options: f_ext."""
    return _damped(contact_system, tree, *state, scene=scene, **options)
