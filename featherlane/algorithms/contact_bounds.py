"""The rows of contacts and joints in a rigid step, the velocities that they allow at its end, and
their blocks. A contact whose gap g is positive may approach at g / dt, so that it closes at the end
of the step at the earliest; of a penetration the law's share erp is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.contact_points import ContactPoint
from featherlane.algorithms.contact_rows import contact_rows
from featherlane.algorithms.coulomb import Block, ContactBlock, JointBlock
from featherlane.algorithms.frames import placements
from featherlane.algorithms.restitution import Rebound
from featherlane.algorithms.scene import GroundStart, Scene, joints_with_rows
from featherlane.algorithms.sparse_rows import Row
from featherlane.robot.contact_law import Coulomb
from featherlane.robot.spatial import Symmetric
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, maximum, minimum, select


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


def rebound_of(
    start: GroundStart, contacts: Sequence[ContactPoint], before: Scalars, end: Scalars
) -> Rebound:
    """Returns the restitution of a step. before, end: velocities along the rows, without
    impulses.
    """
    raised: list[Scalar] = [0.0] * len(end)
    for n, contact in enumerate(contacts):
        least = approach(contact, start.scene, start.dt)
        raised[3 * n] = rise(contact, start.scene, least, before[3 * n], start.dt)
    return Rebound(raised, [*map(add, before, end)])


def blocks_of(
    start: GroundStart,
    contacts: Sequence[ContactPoint],
    block: Callable[[int], Symmetric],
    diagonal: Callable[[int], Scalar],
) -> list[Block]:
    """Returns the blocks of contacts, then those of joints with limits or dry friction. block,
    diagonal: of S, the block whose rows begin with one, and the entry of a row.
    """
    scene, frictions = start.scene, start.frictions
    blocks: list[Block] = [
        ContactBlock.of(block(3 * n), 3 * n, scene.sliding(contact))
        for n, contact in enumerate(contacts)
    ]
    for i, k in enumerate(joints_with_rows(scene, frictions), 3 * len(contacts)):
        B, bounds = diagonal(i), joint_bounds(scene, k, start.q, start.dt)
        blocks.append(JointBlock((i,), B, 1.0 / B, frictions[k] * start.dt, bounds))
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
