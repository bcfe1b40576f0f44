"""Surroundings of a robot in a step on the ground: shapes that touch, and the law of contact."""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub
from typing import Any, NamedTuple

from featherlane.algorithms.common import Scalars, Wrenches
from featherlane.algorithms.contact_points import ContactPoint, contact_points
from featherlane.algorithms.frames import placements
from featherlane.algorithms.mean_accelerations import in_axes_of_beginning
from featherlane.algorithms.rnea import rnea
from featherlane.algorithms.soft.inverse_weights import NO_WEIGHTS, InverseWeights
from featherlane.robot.contact_law import Coulomb
from featherlane.robot.ground import HeightField
from featherlane.robot.row_softness import DEFAULT_SOFTNESS, RowSoftness
from featherlane.robot.shape_pairs import ShapePair
from featherlane.robot.spatial import Transform, Vector
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, is_zero


class JointLimit(NamedTuple):
    """The limits of a joint of one freedom: entry k of v, `at` of q. softness: of soft contacts."""

    k: int
    at: int
    lower: float
    upper: float
    softness: RowSoftness = DEFAULT_SOFTNESS


class Scene(NamedTuple):
    """The pairs of shapes that touch, the law of contact, and limits of joints that are rows of it.
    friction and restitution of all contacts, the height of the ground and the heights of a height
    field may be inputs; impulse: at which the sweeps begin. Soft contacts have weights, and the
    softness of the dry friction of each entry of v.
    """

    pairs: Sequence[ShapePair]
    law: Any  # a `ContactLaw`
    limits: Sequence[JointLimit] = ()
    friction: Scalar | None = None
    restitution: Scalar | None = None
    height: Scalar = 0.0
    heights: Sequence[Scalars] = ()
    impulse: Scalars | None = None
    weights: InverseWeights = NO_WEIGHTS
    softness: Sequence[RowSoftness] = ()

    @property
    def rebounds(self) -> bool:
        """Whether contacts have a restitution, or may have one."""
        return isinstance(self.law, Coulomb) and not is_zero(self.coefficient_of_restitution)

    @property
    def coefficient_of_restitution(self) -> Scalar:
        """The share of the speed of an impact with which bodies part, of all contacts."""
        return self.law.restitution if self.restitution is None else self.restitution

    def sliding(self, contact: ContactPoint) -> Scalar:
        """Returns the coefficient of sliding friction of a contact."""
        return contact.friction[0] if self.friction is None else self.friction

    def contacts(self, tree: Tree, poses: dict[int, Transform]) -> list[ContactPoint]:
        """Returns the contact points, for a ground that is higher by `height`."""
        if is_zero(self.height):
            return contact_points(tree, poses, self.pairs, self.heights)
        raised = Vector((0.0, 0.0, self.height))
        lower = {i: Transform(X.E, X.r - raised) for i, X in poses.items()}
        points = contact_points(tree, lower, self.pairs, self.heights)
        return [contact._replace(point=contact.point + raised) for contact in points]

    def neutral_contacts(self, tree: Tree) -> list[ContactPoint]:
        """Returns the contact points in the neutral configuration, as numbers. Heights that are
        inputs are 0.
        """
        neutral = [x for kind, _, _ in tree.coordinates for x in kind.neutral]
        fields = (pair.other for pair in self.pairs if isinstance(pair.other, HeightField))
        nx, ny = next((field.shape for field in fields), (0, 0))
        poses = placements(tree, neutral, range(tree.nbodies))
        return contact_points(tree, poses, self.pairs, [[0.0] * ny] * nx)


class SteppedContacts(NamedTuple):
    """The acceleration of a step on the ground; the force on the body at each contact, N, in the
    world; the residual of the law's solution, of sweeps m/s or rad/s, of soft contacts N or N m;
    and the impulses of contacts, along their rows, and of joints, N s and N m s.
    """

    a: list[Scalar]
    contact_force: list[list[Scalar]]
    residual: Scalar
    impulse: list[Scalar]


class GroundStart(NamedTuple):
    """A robot at the beginning of a step on the ground: its tree, without the smooth friction of
    joints that have dry friction; its state, joint forces, the length of the step, its
    surroundings, the largest dry friction of each entry of v, and external wrenches.
    """

    tree: Tree
    q: Scalars
    v: Scalars
    tau: Scalars
    dt: Scalar
    scene: Scene
    frictions: Scalars
    f_ext: Wrenches | None = None

    @property
    def push(self) -> list[Scalar]:
        """The impulses dt (tau - h) of a step without contacts."""
        h = rnea(self.tree, self.q, self.v, [0.0] * self.tree.nv, self.f_ext)
        return [self.dt * x for x in map(sub, self.tau, h)]

    @property
    def in_axes_of_beginning(self) -> list[Scalar]:
        """v in the axes of the step's beginning at its end, where it stays the same in space."""
        return in_axes_of_beginning(self.tree, self.v, self.v, self.dt)


def law_frictions(tree: Tree, scene: Scene) -> list[Scalar]:
    """Returns the largest dry friction of each entry of v, 0 unless the law has rows for it."""
    if not scene.law.friction_loss:
        return [0.0] * tree.nv
    return [sum((f for f, _ in each), start=0.0) for each in tree.frictions]


def joints_with_rows(scene: Scene, frictions: Scalars) -> list[int]:
    """Returns the entries of v that have a row: those with limits, or with dry friction."""
    limited = {limit.k for limit in scene.limits}
    return [k for k, f in enumerate(frictions) if k in limited or not is_zero(f)]


def restitution_each(scene: Scene) -> list[Scalar]:
    """Returns the coefficients of restitution of the solutions that a step consists of."""
    return [0.0, scene.coefficient_of_restitution] if scene.rebounds else [0.0]
