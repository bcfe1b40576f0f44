"""Contacts as soft constraints, with elliptic or pyramidal friction cones."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Literal, NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.soft.newton import SoftConstraint, velocities
from featherlane.algorithms.soft.potentials import (
    EllipticCone,
    OneSided,
    Potential,
    PyramidalCone,
)
from featherlane.algorithms.soft.softness import Softness, stiffness_of
from featherlane.algorithms.sparse_rows import Row
from featherlane.robot.parts import Floats
from featherlane.scalar import Scalar, maximum, select

LEAST_FRICTION = 1e-5
LEAST_SLOPE = 1e-3  # of a pyramid's edges in their stiffness
Cone = Literal["elliptic", "pyramidal"]


class ConeModel(NamedTuple):
    """The numbers that all contacts share.

    impratio: how much larger impedances of friction are than those of normals; time_step: s, of
    which time constants are at least twice as long.
    """

    cone: Cone = "pyramidal"
    impratio: float = 1.0
    time_step: Scalar = 0.002


class Touch(NamedTuple):
    """The state of a contact. rows: of velocities along its normal and its tangents, then of
    angular velocities about them, as many as its condim; gap: m, less the margin; friction: the
    coefficient of each row but the first; weight: the inverse inertia of its bodies, 1/kg;
    factors: those of a `SoftConstraint`.
    """

    rows: list[Row]
    gap: Scalar
    friction: Sequence[Scalar]
    weight: float
    factors: Sequence[list[Row]] = ()


class SoftContact(NamedTuple):
    """A contact as a constraint. scales: of the constraint's rows, in the contact's."""

    constraint: SoftConstraint
    scales: list[Scalar]

    def forces(self, f: Scalars) -> list[Scalar]:
        """Returns the forces along the contact's rows, N, and about them, N m."""
        return [s * x for s, x in zip(self.scales, f, strict=True)]


def soft_contact(
    touch: Touch, qd: Scalars, softness: Softness, model: ConeModel, across: Floats | None = None
) -> SoftContact:
    """Returns a contact as a constraint, which is inactive while its gap is positive.

    across: the solref of the rows of friction, if another.
    """
    normal = softness.gains(model.time_step)
    tangents = normal if across is None else softness._replace(solref=across).gains(model.time_step)
    impedance, moved = softness.impedance(touch.gap), velocities(touch.rows, touch.factors, qd)
    damping = [normal.d, *[tangents.d] * len(touch.friction)]
    reference = [-b * u for b, u in zip(damping, moved, strict=True)]
    reference[0] = reference[0] - normal.p * impedance * touch.gap
    D = select(touch.gap < 0.0, stiffness_of(impedance, touch.weight), 0.0)
    potential, scales = _potential(D, [maximum(x, LEAST_FRICTION) for x in touch.friction], model)
    rows = [{k: s * x for k, x in row.items()} for s, row in zip(scales, touch.rows, strict=True)]
    reference = [s * x for s, x in zip(scales, reference, strict=True)]
    return SoftContact(SoftConstraint(rows, reference, potential, touch.factors), scales)


def _potential(
    D: Scalar, friction: Sequence[Scalar], model: ConeModel
) -> tuple[Potential, list[Scalar]]:
    """Returns the potential of a contact, and the factors that make an elliptic cone round.

    With the sliding coefficient mu, all edges of a pyramid have the regularisation of the first
    one, whose inverse inertia is 1 + mu^2 times the normal's, times 2 mu^2 / impratio. They are as
    stiff as those of mu = 1e-3 at most: that moves most accelerations by less than 1e-7 of them,
    where edges 1e9 times stiffer than the normal lose all digits of float32.
    """
    if not friction:
        return OneSided(D), [1.0]
    mu = friction[0] * (1.0 / sqrt(model.impratio))
    if model.cone == "elliptic":
        return EllipticCone(D, mu), [1.0, *[x / mu for x in friction]]
    stiffest = maximum(mu, LEAST_SLOPE)
    of_edge = 2.0 * stiffest * stiffest * (1.0 + friction[0] * friction[0])
    return PyramidalCone(D / of_edge, friction), [1.0] * (1 + len(friction))
