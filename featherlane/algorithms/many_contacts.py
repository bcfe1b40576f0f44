"""Steps with many contacts, whose sweeps go without the Delassus matrix S.

With M = L^T D L and Y = J L^-1 D^-1/2, S = Y Y^T. Beside the impulses p, the sweeps keep

    x = D^-1/2 L^-T (dt (tau - h) + J^T p),    u = J v + Y x,    dt a = L^-1 D^-1/2 x

with v in the axes of the beginning (`mean_accelerations.py`). A contact reads u from its three rows
of Y, whose entries are those of the joints that move it, and adds Y^T dp to x. A sweep takes 4
operations for each entry of Y, where S takes 2 for each pair of rows. A step consists of three
functions, which pass lists of scalars: what the sweeps read, the sweeps, as often as they are
repeated, and the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import add, sub
from typing import Any, NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.contact_points import ContactPoint
from featherlane.algorithms.coulomb import (
    Block,
    ContactBlock,
    JointBlock,
    part_without_gain,
    residual_of,
)
from featherlane.algorithms.factor import MassFactor
from featherlane.algorithms.frames import path
from featherlane.algorithms.restitution import Rebound, shortened
from featherlane.algorithms.scene import (
    Scene,
    joints_with_rows,
    law_frictions,
    restitution_each,
)
from featherlane.algorithms.sparse_rows import Row, plus_products, sparse_dot
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import Symmetric, Vector, cross, dot, matvec, transpose
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, maximum, select, sqrt

LONG = 40_000  # operations of all sweeps with S, from which on there is no S


class FactoredRows(NamedTuple):
    """The rows of Y of a contact or joint, its velocities J v, its block, and how much restitution
    raises its least velocity.
    """

    Y: list[Row]
    free: list[Scalar]
    block: Block
    rise: Scalar = 0.0

    @property
    def raised(self) -> FactoredRows:
        """These rows with restitution, which raises the least velocity."""
        return self._replace(free=[self.free[0] - self.rise, *self.free[1:]])

    def velocities(self, x: Scalars) -> list[Scalar]:
        """Returns u."""
        entries = dict(enumerate(x))
        return [b + sparse_dot(row, entries) for b, row in zip(self.free, self.Y, strict=True)]


def scaled_rows(factored: MassFactor, rows: Sequence[Row]) -> list[Row]:
    """Returns Y."""
    roots = [sqrt(x) for x in factored.Dinv]
    inward = [factored.row_inward(row) for row in rows]
    return [{k: y * roots[k] for k, y in row.items()} for row in inward]


def block_of_S(Y: Sequence[Row]) -> Symmetric:
    """Returns the block of S of three rows of Y."""
    return Symmetric.of(lambda i, j: sparse_dot(Y[i], Y[j]))


# The lists that functions pass: scalars one after the other, whose places follow from the robot and
# the pairs of shapes


# Of a contact or joint, behind its rows of Y: the names of its scalars, and how many there are
Sizes = Mapping[str, int]
CONTACT: Sizes = {"free": 3, "friction": 1, "B": 6, "inverse": 6, "slip": 1, "closing": 1}
JOINT: Sizes = {"free": 1, "friction": 1, "B": 1, "inverse": 1, "bounds": 2}


class ContactLayout(NamedTuple):
    """The entries of v in which the rows of Y of each contact, and of each joint, are not 0;
    whether these joints have limits; and whether contacts rebound, so that sweeps go without
    restitution and with it.
    """

    contacts: list[list[int]]
    joints: list[list[int]]
    has_limits: list[bool]
    rebounds: bool

    @staticmethod
    def of(tree: Tree, scene: Scene, frictions: Scalars) -> ContactLayout:
        """Returns the layout of a robot in its surroundings."""
        joints, limited = joints_with_rows(scene, frictions), {limit.k for limit in scene.limits}
        return ContactLayout(
            [
                _with_ancestors(tree, _moving(tree, contact.body, contact.other))
                for contact in scene.neutral_contacts(tree)
            ],
            [_with_ancestors(tree, [k]) for k in joints],
            [k in limited for k in joints],
            scene.rebounds,
        )

    @property
    def system_size(self) -> int:
        """The scalars of `packed_system`."""
        each, of_joint = sum(CONTACT.values()) + self.rebounds, sum(JOINT.values())
        contacts = sum(3 * len(entries) + each for entries in self.contacts)
        return contacts + sum(len(entries) + of_joint for entries in self.joints)

    def ending_size(self, tree: Tree) -> int:
        """The scalars of `packed_ending`."""
        rows = 6 * len(self.contacts) + self.solutions * self.rows + 2 * len(self.joints)
        return rows + tree.nv + sum(map(len, tree.ancestors))

    @property
    def rows(self) -> int:
        """The number of rows, and of impulses."""
        return 3 * len(self.contacts) + len(self.joints)

    def is_long(self, sweeps: int) -> bool:
        """Tells whether so many sweeps are a loop, see `are_long`."""
        return are_long(self.solutions * sweeps, self.rows)

    @property
    def solutions(self) -> int:
        """The number of solutions: without restitution, and with it if there is any."""
        return 2 if self.rebounds else 1

    @property
    def operations(self) -> int:
        """The operations of a sweep, about."""
        contacts = sum(12 * len(entries) + 75 for entries in self.contacts)
        joints = sum(4 * len(entries) + 10 for entries in self.joints)
        return self.solutions * (contacts + joints)


def are_long(sweeps: int, rows: int) -> bool:
    """Tells whether all sweeps with S would be code that takes 3 s or more to compile."""
    return 2 * sweeps * rows**2 > LONG


def _moving(tree: Tree, body: int, other: int) -> list[int]:
    """Returns the freedoms of the joints that carry one of two bodies."""
    bodies = [i for b in (body, other) if b != WORLD for i in path(tree, b)]
    return [k for i in bodies for k, _ in tree.freedoms[i]]


def _with_ancestors(tree: Tree, freedoms: Iterable[int]) -> list[int]:
    return sorted({a for k in freedoms for a in tree.ancestors[k]})


def packed_system(layout: ContactLayout, each: Sequence[FactoredRows]) -> list[Scalar]:
    """Returns what sweeps read: rows, velocities and block of each contact and joint."""
    packed: list[Scalar] = []
    for entries, rows in zip([*layout.contacts, *layout.joints], each, strict=True):
        packed += [row.get(k, 0.0) for row in rows.Y for k in entries]
        packed += _numbers(rows)
    if layout.rebounds:
        packed += [rows.rise for rows in each[: len(layout.contacts)]]
    return packed


def _numbers(rows: FactoredRows) -> list[Scalar]:
    """Returns the scalars of CONTACT or JOINT."""
    free, block = rows.free, rows.block
    if isinstance(block, ContactBlock):
        return [*free, block.friction, *block.B, *block.inverse, block.slip, block.closing]
    return [*free, block.friction, block.B, block.inverse, *(block.bounds or (0.0, 0.0))]


def _named(sizes: Sizes, scalars: Iterator[Scalar]) -> dict[str, list[Scalar]]:
    """Returns the next scalars by their names."""
    return {name: [*islice(scalars, n)] for name, n in sizes.items()}


def unpacked_system(layout: ContactLayout, packed: Scalars) -> list[FactoredRows]:
    """Returns the rows and blocks whose scalars `packed_system` gave."""
    scalars, each = iter(packed), list[FactoredRows]()
    for n, entries in enumerate(layout.contacts):
        Y, x = _rows(entries, 3, scalars), _named(CONTACT, scalars)
        friction, slip, closing = (x[name][0] for name in ("friction", "slip", "closing"))
        B, inverse, place = (
            Symmetric(*x["B"]),
            Symmetric(*x["inverse"]),
            (3 * n, 3 * n + 1, 3 * n + 2),
        )
        block = ContactBlock(place, friction, B, inverse, slip, closing)
        each.append(FactoredRows(Y, x["free"], block))
    first = 3 * len(layout.contacts)
    for n, (entries, limited) in enumerate(zip(layout.joints, layout.has_limits, strict=True)):
        Y, x = _rows(entries, 1, scalars), _named(JOINT, scalars)
        low, high = x["bounds"]
        B, inverse, friction = (x[name][0] for name in ("B", "inverse", "friction"))
        bounds = (low, high) if limited else None
        joint = JointBlock((first + n,), B, inverse, friction, bounds)
        each.append(FactoredRows(Y, x["free"], joint))
    rises = [*scalars] + [0.0] * len(each)
    return [rows._replace(rise=rise) for rows, rise in zip(each, rises, strict=False)]


def _rows(entries: Sequence[int], n: int, scalars: Iterator[Scalar]) -> list[Row]:
    return [dict(zip(entries, islice(scalars, len(entries)), strict=True)) for _ in range(n)]


def packed_ending(
    factored: MassFactor,
    contacts: Sequence[ContactPoint],
    each: Sequence[FactoredRows],
    x: Scalars,
) -> list[Scalar]:
    """Returns what the end reads: two axes of each contact, J v, the ways back from both limits of
    joints, x without impulses, L, and the roots of 1 / D.
    """
    frames = chain.from_iterable((*contact.frame[0], *contact.frame[1]) for contact in contacts)
    free = chain.from_iterable(one.free for one in each)
    joints = (one.block for one in each if isinstance(one.block, JointBlock))
    back = chain.from_iterable((joint.way_back(1.0), joint.way_back(-1.0)) for joint in joints)
    L = chain.from_iterable(row.values() for row in factored.L)
    return [*frames, *free, *back, *x, *L, *map(sqrt, factored.Dinv)]


# The functions of sweeps, and of the end


def _sweep(each: Sequence[FactoredRows], p: list[Scalar], x: list[Scalar]) -> None:
    """Changes p and x by one sweep."""
    for one in each:
        before = [p[i] for i in one.block.rows]
        after = one.block.solved(one.velocities(x), before)
        change = [a - b for a, b in zip(after, before, strict=True)]
        x[:] = plus_products(x, one.Y, change)
        for i, impulse in zip(one.block.rows, after, strict=True):
            p[i] = impulse


def swept_without_matrix(
    each: Sequence[FactoredRows], p: Scalars, x: Scalars, sweeps: int
) -> tuple[list[Scalar], list[Scalar], Scalar]:
    """Returns p, x and the residual after so many sweeps, see `coulomb.swept`."""
    after, moved = list(p), list(x)
    before = after
    for _ in range(sweeps):
        before = list(after)
        _sweep(each, after, moved)
    return after, moved, residual_of([one.block for one in each], after, before)


def ground_sweeps(
    tree: Tree, system: Scalars, p: Scalars, x: Scalars, scene: Scene
) -> tuple[list[Scalar], list[Scalar], Scalar]:
    """Returns p, x and the residual after the sweeps of the law. With restitution, p and x without
    it come first, then those with it.
    """
    layout, sweeps = ContactLayout.of(tree, scene, law_frictions(tree, scene)), scene.law.sweeps
    each = unpacked_system(layout, system)
    if not layout.rebounds:
        return swept_without_matrix(each, p, x, sweeps)
    raised, rows, n = [one.raised for one in each], layout.rows, tree.nv
    settled = swept_without_matrix(each, p[:rows], x[:n], sweeps)
    returned = swept_without_matrix(raised, p[rows:], x[n:], sweeps)
    residual = maximum(settled[2], returned[2])
    return settled[0] + returned[0], settled[1] + returned[1], residual


def ground_end(tree: Tree, *solution: Any, **options: Any) -> tuple[Any, ...]:
    """Returns the acceleration of a step, the forces of contacts in the axes of the world, and the
    impulses, see `coulomb.without_gain`. solution, options: of `ground_end_solutions`.
    """
    return ground_end_solutions(tree, *solution, **options)[:3]


def ground_end_solutions(
    tree: Tree, ending: Scalars, p: Scalars, x: Scalars, dt: Scalar, scene: Scene
) -> tuple[Any, ...]:
    """Returns the results of `ground_end`, and accelerations, impulses and restitution of the
    solutions that a step consists of.
    """
    scalars, rate, n = iter(ending), 1.0 / dt, tree.nv
    take = lambda n: [*islice(scalars, n)]
    contacts = len(scene.neutral_contacts(tree))
    returned = p[len(p) // 2 :], x[n:]
    if scene.rebounds:
        p, x = p[: len(p) // 2], x[:n]
        rebound = Rebound([], take(len(p)))
    axes, free = [(take(3), take(3)) for _ in range(contacts)], take(len(p))
    for i in range(3 * contacts, len(p)):
        upward, downward = take(2)
        free[i] = free[i] - select(p[i] > 0.0, upward, downward)
    begin = take(n)
    L = [dict(zip(line, islice(scalars, len(line)), strict=True)) for _, *line in tree.ancestors]
    factored = MassFactor(L, list(scalars), tree)
    change = [a - b for a, b in zip(x, begin, strict=True)]  # Y^T p
    part = part_without_gain(dot(p, free) + dot(change, begin), dot(change, change))
    p, change = [part * y for y in p], [part * y for y in change]
    impulses, changes = list[Scalars]([p]), [change]
    if scene.rebounds:
        impulses.append(returned[0])
        changes.append([*map(sub, returned[1], begin)])
        p, change = _rebounding(rebound, p, change, impulses[1], changes[1])
    accelerate = lambda moved: [rate * a for a in factored.outward([*map(add, begin, moved)])]
    forces = []
    for n, (normal, along) in enumerate(axes):
        frame = Vector(normal), Vector(along), cross(normal, along)
        forces.append([rate * f for f in matvec(transpose(frame), p[3 * n : 3 * n + 3])])
    each = [*map(accelerate, changes)], impulses, restitution_each(scene)
    return accelerate(change), forces, p, *each


def _rebounding(
    rebound: Rebound, p: Scalars, change: Scalars, returned: Scalars, returned_change: Scalars
) -> tuple[list[Scalar], list[Scalar]]:
    """Returns p and Y^T p with as much restitution as adds no energy, see `restitution.py`. change,
    returned_change: Y^T p of the impulses without restitution and of Newton's.
    """
    dp, dx = ([*map(sub, a, b)] for a, b in ((returned, p), (returned_change, change)))
    share = rebound.share(p, dp, (dot(change, change), dot(dx, change), dot(dx, dx)))
    return shortened(returned, dp, share), shortened(returned_change, dx, share)
