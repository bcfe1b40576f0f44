"""Joint types: the fields of `JointType` are all that the package knows of a type.

A joint type has nq coordinates and nv degrees of freedom, a motion subspace matrix (the columns
`S`, constant in the child frame, in the order of the user's v), a transform XJ(q), and functions
that integrate and compare its coordinates. Loaders rotate each joint frame so that its axis is z.
Reference: Featherstone 2008, section 4.4 and table 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from featherlane.robot.reversal import OTHER_AXIS, Reversal
from featherlane.robot.spatial import NO_INERTIA, Inertia, Matrix, Transform, Vector, unit
from featherlane.scalar import Scalar

Scalars = Sequence[Scalar]
Rates = list[list[Scalar]]


class JointUnits(NamedTuple):
    """The units of a joint's entries of q, of v and a, and of tau, in words."""

    q: str
    v: str
    tau: str


ANGLE = JointUnits("rad", "rad/s, rad/s^2", "N m")
LENGTH = JointUnits("m", "m/s, m/s^2", "N")


def identity(v: Scalars) -> Matrix:
    """Returns the identity, as large as v."""
    return tuple(unit(k, len(v)) for k in range(len(v)))


def added(q: Scalars, v: Scalars) -> list[Scalar]:
    return [x + y for x, y in zip(q, v, strict=True)]


def subtracted(q0: Scalars, q1: Scalars) -> list[Scalar]:
    return [y - x for x, y in zip(q0, q1, strict=True)]


def identity_rates(q: Scalars) -> Rates:
    """Returns N(q) of dq/dt = v."""
    return np.eye(len(q)).tolist()


class StraightMotion(NamedTuple):
    """Semi-implicit steps of a joint whose linear velocity has the axes of the body, and turns with
    these: see `straight_motion`. `integrate`, `adjoint` and `jacobian` are as those of `JointType`,
    for a motion that turns first and then goes straight on, along its new axes.
    """

    turning: Callable[[Scalars], list[Scalar]]
    """turning(v), w x u: what a lacks of the acceleration in space."""
    turning_slopes: Callable[[Scalars], Matrix]
    """The derivatives of `turning` by v."""
    mean_acceleration: Callable[[Scalars, Scalars, Scalar], list[Scalar]]
    """mean_acceleration(v, a, dt), (v' - v) / dt where v' is the velocity of the end."""
    mean_acceleration_slopes: Callable[[Scalars, Scalars, Scalar], tuple[Matrix, Matrix]]
    """The derivatives of `mean_acceleration` by v and by a."""
    integrate: Callable[[Scalars, Scalars], list[Scalar]]
    adjoint: Callable[[Scalars], Matrix]
    jacobian: Callable[[Scalars], Matrix]


@dataclass(frozen=True, kw_only=True, eq=False)  # each type equals itself alone
class JointType:
    """A type of joint. By default it has one axis, and its coordinates change as v says: dq/dt = v.

    A type whose coordinates form another Lie group has separate functions from `integrate` to
    `commutator`, in the notation of Sola, Deray and Atchuthan, A micro Lie theory for state
    estimation in robotics (2018): q (+) v is `integrate(q, v)`.
    """

    name: str
    description: str
    units: JointUnits
    neutral: tuple[float, ...]
    S: tuple[Vector, ...]
    transform: Callable[[Scalars], Transform]
    """XJ(q): it takes coordinates of the joint's frame on the parent to the child's."""

    integrate: Callable[[Scalars, Scalars], list[Scalar]] = added
    """integrate(q, v) is the configuration after one second at v."""
    difference: Callable[[Scalars, Scalars], list[Scalar]] = subtracted
    """difference(q0, q1) is the v with which `integrate` leads from q0 to q1."""
    rates: Callable[[Scalars], Rates] = identity_rates
    """N(q), nq x nv: dq/dt = N(q) v."""
    adjoint: Callable[[Scalars], Matrix] = identity
    """Ad of exp(-v), nv x nv: takes a tangent vector at q to the tangent space at q (+) v."""
    jacobian: Callable[[Scalars], Matrix] = identity
    """The right Jacobian J_r(v), nv x nv: q (+) (v + dv) is (q (+) v) (+) J_r(v) dv."""
    jacobian_inverse: Callable[[Scalars], Matrix] = identity
    commutator: Callable[[Scalars, Scalars], Scalars] | None = None
    """The Lie bracket [u, v]: the motions u, v, -u and -v one after another, to second order. None
    where motions commute.
    """
    straight: StraightMotion | None = None
    """Semi-implicit steps. None where no linear velocity has axes that turn."""

    angles: tuple[int, ...] = ()  # the indices of the coordinates that are angles in radians
    quaternions: tuple[int, ...] = ()  # the indices of the coordinates where a quaternion begins
    axis: bool = True  # whether the joint has an axis, which loaders rotate to z
    of_pitch: Callable[[float], JointType] | None = None
    """The type for a pitch in m/rad, if this one stands for a family of types."""
    chain: tuple[JointType, ...] = ()
    """The two joints of one degree of freedom, about `axis` and `axis2`, that replace this one in
    a `Tree`.
    """
    regrouped: Callable[[Inertia], Inertia] = lambda inertia: NO_INERTIA
    """The part of a body's inertia that this joint does not move relative to the parent, so that
    it may be counted with the parent: the regrouping of base inertial parameters.
    """
    turning_armature: tuple[int, ...] = ()
    """The degrees of freedom whose armature turns with the body: `algorithms.turned_armature`."""
    reversal: Reversal = OTHER_AXIS

    symbol: Literal["cylinder", "box", "ball"] = "cylinder"  # that a viewer shows
    root_title: str = ""  # what a robot can do on such a root joint, on its card
    unlimited_name: str = ""  # of a joint without limits, on the card: as in URDF

    def __post_init__(self) -> None:
        """Raises ValueError where the default reversal does not hold."""
        along_z = all(not any((S[0], S[1], S[3], S[4])) for S in self.S)
        if self.reversal is OTHER_AXIS and not along_z:
            raise ValueError(
                f"joint type {self.name!r} needs a reversal, as its motion is not about or along z "
                "alone: MIRRORED where the inverse of XJ(q) is XJ(-q), see robot/reversal.py"
            )

    @property
    def nq(self) -> int:
        return len(self.neutral)

    @property
    def nv(self) -> int:
        return len(self.S)

    @property
    def links(self) -> int:
        """The number of links of a `Tree` that a joint of this type moves."""
        return max(1, len(self.chain))

    @property
    def has_plain_rates(self) -> bool:
        """Whether dq/dt = v."""
        return self.rates is identity_rates

    @property
    def goes_anywhere(self) -> bool:
        """Whether the body can be at any position."""
        return {unit(3), unit(4), unit(5)} <= set(self.S)

    def unit_of(self, k: int) -> str:
        """Returns the unit of coordinate k, which is no entry of a quaternion."""
        return "rad" if k in self.angles else "m"
