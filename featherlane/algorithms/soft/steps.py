"""Steps on the ground under soft constraints: the accelerations that MuJoCo's model gives at the
beginning of a step hold until its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.contact_points import ContactPoint
from featherlane.algorithms.contact_rows import Patch, contact_rows, patches
from featherlane.algorithms.frames import placements
from featherlane.algorithms.scene import GroundStart, Scene, SteppedContacts
from featherlane.algorithms.soft.contacts import ConeModel, SoftContact, Touch, soft_contact
from featherlane.algorithms.soft.dynamics import soft_forward_dynamics
from featherlane.algorithms.soft.equalities import soft_equality
from featherlane.algorithms.soft.joints import dry_friction, soft_limit
from featherlane.algorithms.soft.newton import SoftConstraint
from featherlane.algorithms.soft.softness import Softness
from featherlane.robot.collision_shapes import CollisionShape
from featherlane.robot.constraints import Constraints
from featherlane.robot.contact_law import SoftContacts
from featherlane.robot.parts import WORLD
from featherlane.robot.row_softness import RowSoftness
from featherlane.robot.spatial import Transform, matvec, transpose
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, is_zero, select


class SoftState(NamedTuple):
    """A robot in its surroundings at the beginning of a step."""

    tree: Tree
    q: Scalars
    v: Scalars
    dt: Scalar
    scene: Scene

    @property
    def law(self) -> SoftContacts:
        assert isinstance(self.scene.law, SoftContacts)
        return self.scene.law

    def softness(self, of_file: RowSoftness) -> Softness:
        """Returns the softness of a row that is not a contact's: the law's, or else the file's."""
        return Softness(self.law.solref or of_file.solref, self.law.solimp or of_file.solimp)


def soft_step(
    start: GroundStart,
    constraints: Constraints | None = None,
    active: Scalars | None = None,
    anchors: Sequence[Scalars] | None = None,
) -> SteppedContacts:
    """Returns the acceleration of a step, with forces and the residual, N and N m."""
    tree, q, v, tau, dt, scene, frictions, f_ext = start
    state = SoftState(tree, q, v, dt, scene)
    rows = soft_rows(state, frictions, constraints, active, anchors)
    solution = soft_forward_dynamics(
        tree, q, v, tau, rows.all, scene.law.steps, f_ext, rows.start(state)
    )
    in_world, impulse = rows.results(solution.forces, dt)
    return SteppedContacts(solution.a, in_world, solution.residual, impulse)


class SoftRows(NamedTuple):
    """The constraints of a step: of contacts, at these points; of limits and dry friction of
    joints; and of equalities.
    """

    points: list[ContactPoint]
    contacts: list[SoftContact]
    joints: list[SoftConstraint]
    equalities: list[SoftConstraint]

    @property
    def all(self) -> list[SoftConstraint]:
        return [*(x.constraint for x in self.contacts), *self.joints, *self.equalities]

    def results(
        self, forces: Sequence[Scalars], dt: Scalar
    ) -> tuple[list[list[Scalar]], list[Scalar]]:
        """Returns the forces of contacts in the axes of the world, and the impulses of contacts and
        joints, of the forces along all rows.
        """
        along = [c.forces(f) for c, f in zip(self.contacts, forces, strict=False)]
        count = len(along)
        others = forces[count : count + len(self.joints)]
        impulse = [dt * x for each in (*along, *others) for x in each]
        return [_in_world(point, f) for point, f in zip(self.points, along, strict=True)], impulse

    def start(self, state: SoftState) -> list[list[Scalar]] | None:
        """Returns the forces at which Newton's method begins, from the impulses of the step before:
        0 of constraints that are not active now, and of equalities, which need no start.
        """
        if state.scene.impulse is None:
            return None
        forces = [1.0 / state.dt * x for x in state.scene.impulse]
        result, first = [], 0
        for c in self.all:
            f = forces[first : first + len(c.rows)] or [0.0] * len(c.rows)
            first += len(c.rows)
            result.append([select(c.potential.D > 0.0, x, 0.0) for x in f])
        for contact, f in zip(self.contacts, result, strict=False):
            f[:] = [x / s for x, s in zip(f, contact.scales, strict=True)]
        return result


def soft_rows(
    state: SoftState,
    frictions: Scalars,
    constraints: Constraints | None = None,
    active: Scalars | None = None,
    anchors: Sequence[Scalars] | None = None,
) -> SoftRows:
    """Returns the constraints of a step."""
    poses = placements(state.tree, state.q, range(state.tree.nbodies))
    points = state.scene.contacts(state.tree, poses)
    shared = patches(state.tree, poses, points)
    contacts = [_contact(state, poses, point, shared.get(point[:2])) for point in points]
    held = [] if constraints is None else _held(state, constraints, active, anchors)
    return SoftRows(points, contacts, _of_joints(state, frictions), held)


def _in_world(point: ContactPoint, forces: Scalars) -> list[Scalar]:
    """Returns the force of a contact in the axes of the world."""
    along = [*forces, 0.0, 0.0][:3]
    return list(matvec(transpose(point.frame), along))


def _contact(
    state: SoftState, poses: dict[int, Transform], point: ContactPoint, patch: Patch | None
) -> SoftContact:
    numbers, scene, law = point.pair.numbers, state.scene, state.law
    friction = [*numbers.friction]
    if scene.friction is not None:
        friction[:2] = [scene.friction, scene.friction]
    shapes = point.pair.shape, point.pair.other
    bodies = (s.body if isinstance(s, CollisionShape) else WORLD for s in shapes)
    if patch is None:
        factors = [contact_rows(state.tree, poses, point, numbers.condim)]
    else:
        factors = patch.factors(point, numbers.condim)
    touch = Touch(
        factors[0],
        point.gap - numbers.margin,
        friction[: numbers.condim - 1],
        scene.weights.between(*bodies).linear,
        factors[1:],
    )
    softness = Softness(numbers.solref, numbers.solimp)
    elliptic = law.cone == "elliptic"  # the edges of a pyramid all have the solref of the normal
    across = numbers.solreffriction if elliptic and any(numbers.solreffriction) else None
    cones = ConeModel(law.cone, law.impratio, state.dt)
    return soft_contact(touch, state.v, softness, cones, across)


def _of_joints(state: SoftState, frictions: Scalars) -> list[SoftConstraint]:
    """Returns limits, and then dry frictions, of joints."""
    weights, scene = state.scene.weights.freedoms, state.scene
    limits = []
    for x in scene.limits:
        ends = x.lower + x.softness.margin, x.upper - x.softness.margin
        softness = state.softness(x.softness)
        limits.append(
            soft_limit(x.k, state.q[x.at], state.v[x.k], ends, weights[x.k], softness, state.dt)
        )
    return limits + [
        dry_friction(k, state.v[k], most, weights[k], state.softness(scene.softness[k]), state.dt)
        for k, most in enumerate(frictions)
        if not is_zero(most)
    ]


def _held(
    state: SoftState,
    constraints: Constraints,
    active: Scalars | None,
    anchors: Sequence[Scalars] | None,
) -> list[SoftConstraint]:
    """Returns equality constraints, whose stiffness is 0 where they are inactive."""
    each = zip(
        constraints.places,
        constraints.softness,
        active or (1.0,) * constraints.count,
        anchors or (None,) * constraints.count,
        strict=True,
    )
    rows = []
    for place, of_file, mask, anchor in each:
        numbers = state.softness(of_file), state.dt, of_file.torque_scale, mask, anchor
        rows += soft_equality(state.tree, state.q, state.v, place, state.scene.weights, *numbers)
    return rows
