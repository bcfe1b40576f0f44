"""Semi-implicit steps of robots on the ground: impulses of contacts at the velocities of the end.

    M (v' - v) = dt (tau - h) + J^T p,    u = J v'

where p and u meet the law of `coulomb.py`, and v' has the axes of the step's beginning (see
`mean_accelerations.py`). A contact whose gap g is positive may approach at g / dt, so that it
closes at the end of the step at the earliest; of a penetration the law's share erp is taken back.
Closed loops and other equality constraints hold exactly beside contacts: their rows are eliminated
from the Delassus matrix before the sweeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import add, sub
from typing import Any, NamedTuple

from featherlane.algorithms.common import Scalars, Wrenches
from featherlane.algorithms.constrained import residuals
from featherlane.algorithms.constrained_steps import level_of_step
from featherlane.algorithms.constraints import RowGroup, flat, groups_of, item_masks
from featherlane.algorithms.contact_points import ContactPoint
from featherlane.algorithms.contact_rows import contact_rows
from featherlane.algorithms.coulomb import (
    Block,
    ContactBlock,
    ContactSystem,
    JointBlock,
    swept,
    yielding,
)
from featherlane.algorithms.delassus import ConstrainedSystem, constrained_system, delassus
from featherlane.algorithms.factor import MassFactor, factor
from featherlane.algorithms.frames import placements
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
from featherlane.algorithms.mean_accelerations import in_axes_of_beginning
from featherlane.algorithms.mminv import Rows, mass_matrix
from featherlane.algorithms.restitution import Rebound
from featherlane.algorithms.rnea import rnea
from featherlane.algorithms.scene import (
    Scene,
    SteppedContacts,
    joints_with_rows,
    law_frictions,
    restitution_each,
)
from featherlane.algorithms.soft.steps import soft_step
from featherlane.algorithms.sparse_rows import Row, plus_products, sparse_dot
from featherlane.robot.constraints import Constraints
from featherlane.robot.contact_law import Coulomb, SoftContacts
from featherlane.robot.spatial import Symmetric, dot, matvec, transpose
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, maximum, minimum, select, sqrt


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
    def of(
        tree: Tree, q: Scalars, v: Scalars, dt: Scalar, push: Scalars, rows: Sequence[Row]
    ) -> FreeMotion:
        """Returns the motion under dt (tau - h), the push."""
        factored = factor(tree, mass_matrix(tree, q))
        z = factored.inward(push)
        Y = [factored.row_inward(row) for row in rows]
        S, scaled = delassus(factored, Y)
        before = [sparse_dot(row, _numbered(v)) for row in rows]
        changes = [sparse_dot(row, _numbered(z)) for row in scaled]
        same = _numbered(in_axes_of_beginning(tree, v, v, dt))
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


def _twice_mean(
    tree: Tree, v: Scalars, dt: Scalar, groups: Sequence[Sequence[RowGroup]]
) -> list[Scalar]:
    """Returns the sums of the velocities along the rows of constraints before a step and after it,
    when they hold. groups: with the residuals of no acceleration.
    """
    sums = _numbered([*map(add, v, in_axes_of_beginning(tree, v, v, dt))])
    along = [sparse_dot(row, sums) for group in flat(groups) for row in group.rows]
    return [x - dt * y for x, y in zip(along, residuals(groups), strict=True)]


def contact_geometry(
    tree: Tree, q: Scalars, scene: Scene, frictions: Scalars
) -> tuple[list[ContactPoint], list[Row]]:
    """Returns the contact points and the rows of J, three of each contact and one of each joint
    with limits or dry friction.
    """
    poses = placements(tree, q, range(tree.nbodies))
    contacts = scene.contacts(tree, poses)
    rows = [row for contact in contacts for row in contact_rows(tree, poses, contact)]
    return contacts, rows + [{k: 1.0} for k in joints_with_rows(scene, frictions)]


def approach(contact: ContactPoint, scene: Scene, dt: Scalar) -> Scalar:
    """Returns the least normal velocity of a contact at the end of a step, without restitution."""
    law, rate = scene.law, 1.0 / dt
    recovery = minimum(contact.gap * (-law.erp * rate), law.recovery_speed)
    return select(contact.gap < 0.0, recovery, contact.gap * -rate)


def rise(contact: ContactPoint, scene: Scene, least: Scalar, before: Scalar, dt: Scalar) -> Scalar:
    """Returns how much restitution raises the least normal velocity. before: the normal velocity at
    the beginning of the step.
    """
    if not scene.rebounds:
        return 0.0
    rebound = before * -scene.coefficient_of_restitution
    more = select(rebound > 0.0, maximum(rebound - least, 0.0), 0.0)
    return select(contact.gap + dt * before < 0.0, more, 0.0)


def _rebound(
    contacts: Sequence[ContactPoint], scene: Scene, before: Scalars, end: Scalars, dt: Scalar
) -> Rebound:
    """Returns the restitution of a step. before, end: velocities along the rows, without
    impulses.
    """
    raised: list[Scalar] = [0.0] * len(end)
    for n, contact in enumerate(contacts):
        least = approach(contact, scene, dt)
        raised[3 * n] = rise(contact, scene, least, before[3 * n], dt)
    return Rebound(raised, [*map(add, before, end)])


def _blocks(
    scene: Scene,
    contacts: Sequence[ContactPoint],
    frictions: Scalars,
    state: tuple[Scalars, Scalar],
    block: Callable[[int], Symmetric],
    diagonal: Callable[[int], Scalar],
) -> list[Block]:
    """Returns the blocks of contacts, then those of joints with limits or dry friction. state: q
    and dt; block, diagonal: of S, the block whose rows begin with one, and the entry of a row.
    """
    q, dt = state
    blocks: list[Block] = [
        ContactBlock.of(block(3 * n), 3 * n, scene.sliding(contact))
        for n, contact in enumerate(contacts)
    ]
    for i, k in enumerate(joints_with_rows(scene, frictions), 3 * len(contacts)):
        B, bounds = diagonal(i), joint_bounds(scene, k, q, dt)
        blocks.append(JointBlock((i,), B, 1.0 / B, frictions[k] * dt, bounds))
    return blocks


def joint_bounds(scene: Scene, k: int, q: Scalars, dt: Scalar) -> tuple[Scalar, Scalar] | None:
    """Returns the least and the largest velocity of a joint with limits at the end of a step."""
    for limit in scene.limits:
        if limit.k == k:
            lower, upper = limit.lower - q[limit.at], limit.upper - q[limit.at]
            return _limited(scene.law, lower, -1.0, dt), _limited(scene.law, upper, 1.0, dt)
    return None


def _limited(law: Coulomb, way: Scalar, sign: float, dt: Scalar) -> Scalar:
    """Returns the bound of a velocity from the way to a limit; beyond the limit, the way back."""
    rate, speed = 1.0 / dt, law.recovery_speed
    back = minimum(maximum(way * (law.erp * rate), -speed), speed)
    return select(way * sign < 0.0, back, way * rate)


class RigidSolutions(NamedTuple):
    """A step under rigid contacts, and the solutions of the law from which it is: accelerations,
    impulses and restitution, of one or two, see `restitution.py`.
    """

    step: SteppedContacts
    a_each: list[list[Scalar]]
    impulse_each: list[list[Scalar]]
    restitution_each: list[Scalar]


def _rigid_step(*start: Any, **options: Any) -> SteppedContacts:
    """Returns the step of `rigid_solutions`."""
    return rigid_solutions(*start, **options).step


def rigid_solutions(
    tree: Tree,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    dt: Scalar,
    scene: Scene,
    frictions: Scalars,
    constraints: Constraints | None = None,
    active: Scalars | None = None,
    anchors: Sequence[Scalars] | None = None,
    f_ext: Wrenches | None = None,
) -> RigidSolutions:
    """Returns the step of a robot whose joints have these dry frictions beside those of the tree's
    smooth law.
    """
    solutions = 2 if scene.rebounds else 1
    contacts, rows = geometry = contact_geometry(tree, q, scene, frictions)
    if constraints is None and are_long(solutions * scene.law.sweeps, len(rows)):
        system, p, x, ending = _packed(tree, q, v, tau, dt, scene, frictions, geometry, f_ext)
        p, x, residual = ground_sweeps(tree, system, p, x, scene)
        a, forces, p, *each = ground_end_solutions(tree, ending, p, x, dt, scene)
        return RigidSolutions(SteppedContacts(a, forces, residual, p), *each)
    still = [0.0] * tree.nv
    push = [dt * x for x in map(sub, tau, rnea(tree, q, v, still, f_ext))]
    free, held = FreeMotion.of(tree, q, v, dt, push, rows), None
    S, end = free.S, list(free.after)
    if constraints is not None:
        groups = groups_of(level_of_step(tree, v, dt, constraints, anchors).at(tree, q, v, still))
        constrained = constrained_system(free.factored, groups, item_masks(constraints, active))
        held = Held.of(constrained, [dt * x for x in residuals(groups)], free)
        S, end = held.reduced(free)
    rebound = _rebound(contacts, scene, free.before, end, dt) if scene.rebounds else None
    if rebound is not None and held is not None:
        rebound = held.counted(rebound, _twice_mean(tree, v, dt, groups))
    for n, contact in enumerate(contacts):
        end[3 * n] = end[3 * n] - approach(contact, scene, dt)
    of_S = lambda first: Symmetric.of(lambda i, j: S[first + j][first + i])
    blocks = _blocks(scene, contacts, frictions, (q, dt), of_S, lambda i: S[i][i])
    blocks, end = yielding(blocks, end, tree.mass)
    start = [0.0] * len(rows) if scene.impulse is None else scene.impulse
    p, residual, each = swept(ContactSystem(S, end, blocks), start, scene.law.sweeps, rebound)
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


def contact_system(
    tree: Tree,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    dt: Scalar,
    scene: Scene,
    frictions: Scalars,
    f_ext: Wrenches | None = None,
) -> PackedSystem:
    """Returns the system of a step with many contacts; arguments as of `_rigid_step`."""
    geometry = contact_geometry(tree, q, scene, frictions)
    return _packed(tree, q, v, tau, dt, scene, frictions, geometry, f_ext)


def _packed(
    tree: Tree,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    dt: Scalar,
    scene: Scene,
    frictions: Scalars,
    geometry: tuple[Sequence[ContactPoint], Sequence[Row]],
    f_ext: Wrenches | None,
) -> PackedSystem:
    """Returns the system of a step with the contact points and rows of `contact_geometry`."""
    contacts, rows = geometry
    factored = factor(tree, mass_matrix(tree, q))
    Y, still = scaled_rows(factored, rows), [0.0] * tree.nv
    same = _numbered(in_axes_of_beginning(tree, v, v, dt))
    free = [sparse_dot(row, same) for row in rows]
    pushed = factored.inward([dt * y for y in map(sub, tau, rnea(tree, q, v, still, f_ext))])
    x = [y * sqrt(d) for y, d in zip(pushed, factored.Dinv, strict=True)]
    rebound = None
    if scene.rebounds:
        before = [sparse_dot(row, _numbered(v)) for row in rows]
        end = [y + sparse_dot(row, _numbered(x)) for y, row in zip(free, Y, strict=True)]
        rebound = _rebound(contacts, scene, before, end, dt)
    for n, contact in enumerate(contacts):
        free[3 * n] = free[3 * n] - approach(contact, scene, dt)
    of_S = lambda first: block_of_S(Y[first : first + 3])
    blocks = _blocks(scene, contacts, frictions, (q, dt), of_S, lambda i: sparse_dot(Y[i], Y[i]))
    blocks, free = yielding(blocks, free, tree.mass)
    raised = rebound.rise if rebound else [0.0] * len(rows)
    each = [
        FactoredRows(
            [Y[i] for i in block.rows], [free[i] for i in block.rows], block, raised[block.rows[0]]
        )
        for block in blocks
    ]
    p = [0.0] * len(rows) if scene.impulse is None else list(scene.impulse)
    layout = ContactLayout.of(tree, scene, frictions)
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
    **options: Any,
) -> Any:
    """Returns what a step gives, or the system of its contacts, for a tree with dry friction."""
    smooth, frictions = dry_frictions(tree, scene)
    return step(smooth, q, v, tau, dt, scene, frictions, **options)


def _damped(
    step: Callable[..., Any],
    tree: Tree,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    dt: Scalar,
    servo_damping: Scalars = (),
    *,
    scene: Scene,
    **options: Any,
) -> Any:
    """Returns the same with implicit damping."""
    smooth, frictions = dry_frictions(tree, scene)

    def run(tree: Tree, q: Scalars, v: Scalars, tau: Scalars, **options: Any) -> Any:
        return step(tree, q, v, tau, dt, scene, frictions, **options)

    return with_implicit_damping(run)(smooth, q, v, tau, dt, servo_damping, **options)


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
