"""The named tuples in which functions return several results."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable
from functools import cache
from keyword import iskeyword
from typing import Any, NamedTuple

import numpy as np


class InverseDynamicsDerivatives(NamedTuple):
    """Derivatives of ID(q, v, a), each (..., nv, nv), with columns in the tangent space; dtau/da =
    M.

    Examples:
        >>> dtau_dq, dtau_dv = arm.inverse_dynamics_derivatives(q, v, a)
    """

    dtau_dq: np.ndarray
    dtau_dv: np.ndarray


class ForwardDynamicsDerivatives(NamedTuple):
    """Derivatives of FD(q, v, tau), each (..., nv, nv), with columns in the tangent space.

    Examples:
        >>> da_dq, da_dv, da_dtau = arm.forward_dynamics_derivatives(q, v, tau)
    """

    da_dq: np.ndarray
    da_dv: np.ndarray
    da_dtau: np.ndarray  # M^-1


class InverseDynamicsSecondDerivatives(NamedTuple):
    """Derivatives of the first derivatives of tau = ID(q, v, a), each (..., nv, nv, nv).

    d2tau_dxdy[..., i, j, k] is the derivative of dtau_i/dx_j with respect to y_k, both in the
    tangent space for q. Where a joint has a quaternion or a heading, d2tau_dqdq is not symmetric in
    j and k.
    """

    d2tau_dqdq: np.ndarray
    d2tau_dvdq: np.ndarray
    d2tau_dvdv: np.ndarray
    d2tau_dadq: np.ndarray  # dM_ij/dq_k


@cache
def named_results(names: tuple[str, ...]) -> type[tuple]:
    """The named tuple of several results; a plain tuple where a name is none of Python's."""
    if len(names) < 2 or any(not name.isidentifier() or name[0] == "_" for name in names):
        return tuple
    if any(map(iskeyword, names)):
        return tuple
    base: Any = namedtuple("Results", names)  # type: ignore[misc]
    reduce = lambda self: (results_of, (names, tuple(self)))
    return type("Results", (base,), {"__slots__": (), "__reduce__": reduce})


def results_of(names: tuple[str, ...], values: Iterable[Any]) -> Any:
    """Results in their named tuple, built anew from a pickle."""
    return named_results(names)(*values)


class IntegrateDerivatives(NamedTuple):
    """Derivatives of the configuration integrate(q, v), in its tangent space, with respect to q, in
    the tangent space of q, and v: each (..., nv, nv).
    """

    dq_next_dq: np.ndarray
    dq_next_dv: np.ndarray


class DifferenceDerivatives(NamedTuple):
    """Derivatives of difference(q0, q1) with respect to q0 and q1, in their tangent spaces, each
    (..., nv, nv).
    """

    dv_dq0: np.ndarray
    dv_dq1: np.ndarray


class FrameVelocityDerivatives(NamedTuple):
    """Derivatives of the velocity of a frame with respect to q, in the tangent space, and v, each
    (..., 6, nv); the latter is the Jacobian.
    """

    dvelocity_dq: np.ndarray
    dvelocity_dv: np.ndarray


class FrameAccelerationDerivatives(NamedTuple):
    """Derivatives of the acceleration of a frame with respect to q, in the tangent space, v and a,
    each (..., 6, nv); the last is the Jacobian.
    """

    dacceleration_dq: np.ndarray
    dacceleration_dv: np.ndarray
    dacceleration_da: np.ndarray


class Step(NamedTuple):
    """The state after a step in time: q (..., nq) and v (..., nv)."""

    q: np.ndarray
    v: np.ndarray


GROUND_FIELDS = ("contact_force", "residual", "impulse")


class GroundStep(NamedTuple):
    """The state after a step on the ground: q (..., nq) and v (..., nv); the force on the body at
    each contact, contact_force (..., contacts, 3), N, in the world's axes, zero where it does not
    touch; residual (...), m/s or rad/s, by how much the last sweep changed a velocity; and the
    impulses (..., impulses), N s and N m s, with which the next step can begin.
    """

    q: np.ndarray
    v: np.ndarray
    contact_force: np.ndarray
    residual: np.ndarray
    impulse: np.ndarray


class ContactForwardDynamics(NamedTuple):
    """The acceleration a (..., nv) of a state on the ground, with contact_force, residual and
    impulse as in `GroundStep`.
    """

    a: np.ndarray
    contact_force: np.ndarray
    residual: np.ndarray
    impulse: np.ndarray


class LinearStep(NamedTuple):
    """The state after a step, and its derivatives: A (..., 2 nv, 2 nv) with respect to x = [dq; dv]
    in the tangent space, and B (..., 2 nv, nu) with respect to the controls.
    """

    q: np.ndarray
    v: np.ndarray
    A: np.ndarray
    B: np.ndarray


class ReducedStep(NamedTuple):
    """The state after a step, and the derivatives of the acceleration in it, each (..., nv, nv) or
    (..., nv, nu), of which A and B consist.
    """

    q: np.ndarray
    v: np.ndarray
    da_dq: np.ndarray
    da_dv: np.ndarray
    da_du: np.ndarray


class Direction(NamedTuple):
    """The derivatives of the state after a step along a direction, each (..., nv)."""

    dq: np.ndarray
    dv: np.ndarray


class Gradients(NamedTuple):
    """The gradients with respect to the state before a step, in its tangent space, and the
    controls.
    """

    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray


def first_not_finite(*arrays: np.ndarray) -> np.ndarray:
    """Returns, of arrays (..., rows, entries), the first row with an entry that is not finite."""
    bad = ~np.logical_and.reduce([np.isfinite(x).all(-1) for x in arrays])
    return np.where(bad.any(-1), bad.argmax(-1), -1)


class Trajectory(NamedTuple):
    """The states of a rollout, including the first: q (..., T + 1, nq), v (..., T + 1, nv)."""

    q: np.ndarray
    v: np.ndarray

    @property
    def diverged(self) -> np.ndarray:
        """(...), of each rollout: the first row of q and v that is not finite, -1 if all are."""
        return first_not_finite(self.q, self.v)


class GroundTrajectory(NamedTuple):
    """The states of a rollout on the ground, as in `Trajectory`, with contact_force (..., T,
    contacts, 3) and residual (..., T) of each step, and impulse after the last one, see
    `GroundStep`.
    """

    q: np.ndarray
    v: np.ndarray
    contact_force: np.ndarray
    residual: np.ndarray
    impulse: np.ndarray

    diverged = Trajectory.diverged


class PolicyTrajectory(NamedTuple):
    """The states of a rollout, as in `Trajectory`, and the controls of its policy (..., T, nu)."""

    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray

    @property
    def diverged(self) -> np.ndarray:
        """(...), of each rollout: the first row of q and v that is not finite, -1 if all are."""
        return first_not_finite(self.q, self.v)


@cache
def with_fields(base: type[tuple], more: tuple[str, ...]) -> type[tuple]:
    """Returns the named tuple that has the fields of `base`, and others behind: the memory of a
    policy after the last step, contacts, and the arrays of sensors.
    """
    fields: Any = namedtuple(base.__name__, (*base._fields, *more))  # type: ignore[attr-defined, misc]
    reduce = lambda self: (built_with_fields, (base, more, tuple(self)))
    body = {"__slots__": (), "__reduce__": reduce, "__doc__": base.__doc__}
    if diverged := getattr(base, "diverged", None):
        body["diverged"] = diverged
    return type(base.__name__, (fields,), body)


def built_with_fields(base: type[tuple], more: tuple[str, ...], values: Iterable[Any]) -> Any:
    """Returns such a named tuple, built anew from a pickle."""
    return with_fields(base, more)(*values)


class RolloutGradient(NamedTuple):
    """The gradients with respect to the first state of a rollout, each (..., nv), and to all
    controls (..., T, nu).
    """

    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray


class InverseKinematics(NamedTuple):
    """Configurations for targets: q (..., nq); converged (...), whether all frames are within the
    tolerance, and clear of obstacles by the margin; the largest errors of the frames, (...) in m
    and in rad (0 for points); iterations (...), the number of steps from all starts; clearance
    (...), the least distance in m from obstacles and of the robot's own spheres, infinite without
    `avoid`.
    """

    q: np.ndarray
    converged: np.ndarray
    position_error: np.ndarray
    rotation_error: np.ndarray
    iterations: np.ndarray
    clearance: np.ndarray


class ConstrainedForwardDynamics(NamedTuple):
    """The acceleration a (..., nv) under constraints, and the constraint forces (..., rows)."""

    a: np.ndarray
    force: np.ndarray


class ConstrainedForwardDynamicsDerivatives(NamedTuple):
    """The acceleration a (..., nv) and forces (..., rows) under constraints, and the derivatives of
    both with respect to q, v and tau: (..., nv, nv) and (..., rows, nv), for q in the tangent
    space.
    """

    a: np.ndarray
    force: np.ndarray
    da_dq: np.ndarray
    da_dv: np.ndarray
    da_dtau: np.ndarray
    dforce_dq: np.ndarray
    dforce_dv: np.ndarray
    dforce_dtau: np.ndarray


class Impulse(NamedTuple):
    """The velocity v (..., nv) after an impact, and the impulses (..., rows), N s and N m s."""

    v: np.ndarray
    impulse: np.ndarray


class ImpulseDerivatives(NamedTuple):
    """The velocity v (..., nv) after an impact and the impulses (..., rows), and the derivatives of
    both with respect to q and to v before the impact: (..., nv, nv) and (..., rows, nv).
    """

    v: np.ndarray
    impulse: np.ndarray
    dv_dq: np.ndarray
    dv_dv: np.ndarray
    dimpulse_dq: np.ndarray
    dimpulse_dv: np.ndarray


class ConstrainedInverseDynamics(NamedTuple):
    """The joint forces tau (..., nv) and constraint forces (..., rows)."""

    tau: np.ndarray
    force: np.ndarray


class ClosedConfiguration(NamedTuple):
    """Configurations q (..., nq) that satisfy the constraints; converged (...), whether all errors
    are within the tolerance; the largest of them (...), m or rad.
    """

    q: np.ndarray
    converged: np.ndarray
    error: np.ndarray
