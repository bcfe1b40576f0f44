"""Checks the functions of a robot by the identities between them, and derivatives by dual numbers.

Errors are those of accelerations x sqrt(M_ii) and of forces / sqrt(M_ii): in such coordinates a
light finger counts as much as the base that carries it, and units do not matter. What divides by
the mass matrix M loses digits by kappa = max_i M_ii (M^-1)_ii (docs/accuracy.md). States in which
that leaves none, because M is nearly singular or not positive definite, are left out there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.model import Model
from featherlane.functions.table import Variant
from featherlane.robot.massless import massless_joints
from featherlane.tools.exact_derivatives import state_derivatives
from featherlane.tools.measures import conditioning, largest_entry
from featherlane.tools.timing import Progress, inputs

STATES = 32
COLUMNS = 64  # of derivatives that are compared with dual numbers, at most
LOOSE = 0.1  # a larger bound says nothing


class Check(NamedTuple):
    """The error of an identity in the worst state, and its bound there."""

    name: str
    dtype: str
    error: float
    bound: float
    states: int = STATES  # in which it was checked

    @property
    def passed(self) -> bool:
        return not self.states or self.error <= self.bound


class _Results:
    """The results of all functions at the same random states. tau belongs to a, tau0 to a = 0.

    What divides by the mass matrix is computed when an identity asks for it.
    """

    def __init__(self, model: Model, dtype: Any) -> None:
        drawn = inputs(model, STATES, dtype)
        q, v, a = drawn["q"], drawn["v"], drawn["a"]
        self.model, self.q, self.v, self.a = model, q, v, a
        self.tau = model.inverse_dynamics(q, v, a, threads=1)
        self.tau0 = model.inverse_dynamics(q, v, 0 * a, threads=1)
        self.M = model.mass_matrix(q, threads=1)
        self.dID = model.inverse_dynamics_derivatives(q, v, a, threads=1)
        self.conditioning = conditioning(self.M)
        inertia = np.abs(np.diagonal(self.M.astype(float), axis1=1, axis2=2))
        self.root = np.sqrt(np.where(inertia > 0, inertia, 1.0))
        self.slopes = self.force(*self.dID[:2], self.M)  # forces may cancel: M is their measure

    @cached_property
    def fd(self) -> np.ndarray:
        return self.model.forward_dynamics(self.q, self.v, self.tau, threads=1)

    @cached_property
    def Minv(self) -> np.ndarray:
        return self.model.mass_matrix_inverse(self.q, threads=1)

    @cached_property
    def dFD(self) -> tuple[np.ndarray, ...]:
        return self.model.forward_dynamics_derivatives(self.q, self.v, self.tau, threads=1)

    @cached_property
    def diFD(self) -> tuple[np.ndarray, ...]:
        q, v, a, minv = self.q, self.v, self.a, self.Minv
        return self.model.forward_dynamics_derivatives(q, v, a=a, minv=minv, threads=1)[:2]

    def force(self, *parts: np.ndarray) -> np.ndarray:
        """Returns the largest entry in each state of forces, or of columns of forces."""
        return np.max([largest_entry(_columns(x) / self.root[..., None]) for x in parts], axis=0)

    def acceleration(self, *parts: np.ndarray) -> np.ndarray:
        """Returns the largest entry in each state of accelerations, or of columns of them."""
        return np.max([largest_entry(_columns(x) * self.root[..., None]) for x in parts], axis=0)


def _columns(x: np.ndarray) -> np.ndarray:
    return x.astype(float).reshape(*x.shape[:2], -1)


def _product(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Returns A x for vectors or matrices x, in float64."""
    return np.asarray((A.astype(float) @ _columns(x)).reshape(x.shape))


def _linear(s: _Results) -> np.ndarray:
    change = s.tau.astype(float) - s.tau0
    return s.force(change - _product(s.M, s.a)) / s.force(s.tau, s.tau0)


def _round_trip(s: _Results) -> np.ndarray:
    error = s.acceleration(s.fd.astype(float) - s.a)
    return error / np.maximum(s.acceleration(s.a), s.force(s.tau, s.tau0))


def _inverse_error(s: _Results) -> np.ndarray:
    rest = _product(s.M, s.Minv) - np.eye(s.model.nv)
    return s.force(rest * s.root[:, None, :])


def _through_inverse(s: _Results, parts: Sequence[np.ndarray]) -> np.ndarray:
    errors = [x + _product(s.Minv, d) for x, d in zip(parts, s.dID, strict=False)]
    return s.acceleration(*errors) / np.maximum(s.acceleration(*parts), s.slopes)


def _inverses(s: _Results) -> np.ndarray:
    third = s.acceleration(s.dFD[2].astype(float) - s.Minv) / s.acceleration(s.Minv)
    return np.maximum(_through_inverse(s, s.dFD[:2]), third)


def _by_dual_numbers(s: _Results, name: str, **u: np.ndarray) -> list[np.ndarray]:
    """Returns the errors of derivatives by q and v, and the exact ones, in some columns."""
    nv = s.model.nv
    columns = np.random.default_rng(0).permutation(nv)[:COLUMNS]
    values = {x: array.astype(float) for x, array in {"q": s.q, "v": s.v, **u}.items()}
    exact = state_derivatives(s.model, Variant(name), values, columns)
    compiled = s.dID if name == "inverse_dynamics" else s.dFD
    return [*(x[..., columns] - y for x, y in zip(compiled, exact, strict=False)), *exact]


def _inverse_derivatives(s: _Results) -> np.ndarray:
    *errors, dq, dv = _by_dual_numbers(s, "inverse_dynamics", a=s.a)
    return s.force(*errors) / np.maximum(s.force(dq, dv), s.slopes)


def _forward_derivatives(s: _Results) -> np.ndarray:
    *errors, dq, dv = _by_dual_numbers(s, "forward_dynamics", tau=s.tau)
    return s.acceleration(*errors) / np.maximum(s.acceleration(dq, dv), s.slopes)


class _Identity(NamedTuple):
    name: str
    error: Callable[[_Results], np.ndarray]
    allowed: float  # in units of eps of the dtype
    inverse: bool = False  # whether the bound is also multiplied by the conditioning


IDENTITIES = (
    _Identity("ID(a) - ID(0) = M a", _linear, 100),
    _Identity("FD(ID(a)) = a", _round_trip, 100, inverse=True),
    _Identity("M Minv = 1", _inverse_error, 100, inverse=True),
    _Identity("dFD = -Minv dID, and Minv", _inverses, 100, inverse=True),
    _Identity("diFD = -Minv dID", lambda s: _through_inverse(s, s.diFD), 100, inverse=True),
    _Identity("dID of dual numbers", _inverse_derivatives, 100),
    _Identity("dFD of dual numbers", _forward_derivatives, 100, inverse=True),
)


def self_check(model: Model, dtypes: Sequence[str], progress: Progress) -> Iterator[Check]:
    """Yields the check of each identity between the seven functions, in each dtype, at random
    states; without those of M^-1 where joints move no mass, or loops hold the robot.
    """
    inverts = not (massless_joints(model) or model.loop_closures)
    identities = [identity for identity in IDENTITIES if inverts or not identity.inverse]
    for dtype in dtypes:
        progress(f"self-check in {dtype}")
        with np.errstate(all="ignore"):  # NaN and infinities fail the check
            results = _Results(model, np.dtype(dtype))
            errors = [identity.error(results) for identity in identities]
        for identity, error in zip(identities, errors, strict=True):
            factor = results.conditioning if identity.inverse else np.ones(STATES)
            bounds = identity.allowed * float(np.finfo(dtype).eps) * factor
            yield _worst(identity.name, dtype, np.nan_to_num(error, nan=np.inf), bounds)


def _worst(name: str, dtype: str, error: np.ndarray, bounds: np.ndarray) -> Check:
    """Returns the check of the state whose error is the largest part of its bound."""
    states = np.flatnonzero(bounds < LOOSE)
    if not len(states):
        return Check(name, dtype, float("nan"), float("nan"), 0)
    worst = states[np.argmax(error[states] / bounds[states])]
    return Check(name, dtype, float(error[worst]), float(bounds[worst]), len(states))
