"""Checks the functions of a robot by the identities between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.model import Model
from featherlane.tools.timing import Progress, inputs

STATES = 32


class Check(NamedTuple):
    """The error of an identity in the worst state, relative to the largest entry, and its bound."""

    name: str
    dtype: str
    error: float
    bound: float

    @property
    def passed(self) -> bool:
        return self.error <= self.bound


class _Results:
    """The results of all functions at the same random states. tau belongs to a, tau0 to a = 0."""

    def __init__(self, model: Model, dtype: Any) -> None:
        given = inputs(model, STATES, dtype)
        q, v, a = given["q"], given["v"], given["a"]
        self.model, self.q, self.v, self.a = model, q, v, a
        self.tau = model.inverse_dynamics(q, v, a, threads=1)
        self.tau0 = model.inverse_dynamics(q, v, 0 * a, threads=1)
        self.fd = model.forward_dynamics(q, v, self.tau, threads=1)
        self.M = model.mass_matrix(q, threads=1)
        self.Minv = model.mass_matrix_inverse(q, threads=1)
        self.dID = model.inverse_dynamics_derivatives(q, v, a, threads=1)
        self.dFD = model.forward_dynamics_derivatives(q, v, self.tau, threads=1)
        self.diFD = model.forward_dynamics_derivatives(q, v, a=a, minv=self.Minv, threads=1)[:2]
        self.condition = np.linalg.cond(self.M.astype(float))


def largest_entry(x: np.ndarray) -> np.ndarray:
    """The largest absolute entry of an array in each state."""
    return np.abs(x.astype(float)).reshape(len(x), -1).max(axis=1)


def _largest(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.max([largest_entry(part) for part in parts], axis=0)


def _product(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    return A.astype(float) @ x.astype(float)


def _inverse_error(s: _Results) -> np.ndarray:
    return largest_entry(_product(s.M, s.Minv) - np.eye(s.model.nv))


def _round_trip(s: _Results) -> np.ndarray:
    scale = np.maximum(largest_entry(s.a), largest_entry(s.tau) / largest_entry(s.M))
    return largest_entry(s.fd.astype(float) - s.a) / scale


def _linear(s: _Results) -> np.ndarray:
    change = s.tau.astype(float) - s.tau0
    return largest_entry(change - _product(s.M, s.a[..., None])[..., 0]) / largest_entry(s.tau)


def _through_inverse(s: _Results, parts: Sequence[np.ndarray]) -> np.ndarray:
    errors = [got + _product(s.Minv, d) for got, d in zip(parts, s.dID, strict=False)]
    return _largest(errors) / _largest(parts)


def _inverses(s: _Results) -> np.ndarray:
    third = largest_entry(s.dFD[2].astype(float) - s.Minv) / largest_entry(s.Minv)
    return np.maximum(_through_inverse(s, s.dFD), third)


def _by_differences(
    model: Model, function: Callable[..., Any], q: np.ndarray, v: np.ndarray, u: np.ndarray
) -> list[np.ndarray]:
    """d function / dq and dv: central differences of fourth order along the tangent directions."""
    eps = float(np.finfo(q.dtype).eps)
    h = eps**0.2
    steps = np.eye(model.nv)[:, None, :] * h  # direction, state, entry
    weights = ((1, 8.0), (-1, -8.0), (2, -1.0), (-2, 1.0))
    results = []
    for of in ("q", "v"):
        total: Any = 0.0
        for k, weight in weights:
            move = (k * steps).astype(q.dtype)
            at_q = model.integrate(q, move) if of == "q" else q
            at_v = v + move if of == "v" else v
            total = total + weight * function(at_q, at_v, u, threads=1).astype(float)
        results.append(np.moveaxis(total / (12 * h), 0, -1))
    return results


def _differences(s: _Results, which: str) -> np.ndarray:
    name = "inverse_dynamics" if which == "dID" else "forward_dynamics"
    known, u = (s.dID[:2], s.a) if which == "dID" else (s.dFD[:2], s.tau)
    found = _by_differences(s.model, getattr(s.model, name), s.q, s.v, u)
    errors = [x - y for x, y in zip(known, found, strict=True)]
    return _largest(errors) / _largest(found)


class _Identity(NamedTuple):
    name: str
    error: Callable[[_Results], np.ndarray]
    allowed: float  # the bound is allowed * eps**order, with eps of the dtype
    order: float = 1.0
    inverse: bool = False  # the bound is also multiplied by cond(M)


IDENTITIES = (
    _Identity("ID(a) - ID(0) = M a", _linear, 100),
    _Identity("FD(ID(a)) = a", _round_trip, 10, inverse=True),
    _Identity("M Minv = 1", _inverse_error, 10, inverse=True),
    _Identity("dFD = -Minv dID, and Minv", _inverses, 10, inverse=True),
    _Identity("diFD = -Minv dID", lambda s: _through_inverse(s, s.diFD), 10, inverse=True),
    _Identity("dID = differences of ID", lambda s: _differences(s, "dID"), 1e3, 0.8),
    _Identity("dFD = differences of FD", lambda s: _differences(s, "dFD"), 1e3, 0.8, True),
)


def self_check(model: Model, dtypes: Sequence[str], progress: Progress) -> Iterator[Check]:
    """Yields the check of each identity between the seven functions, in each dtype, at random
    states. The bound of an identity that contains an inverse of M grows with cond(M).
    """
    for dtype in dtypes:
        progress(f"self-check in {dtype}")
        with np.errstate(all="ignore"):  # NaN and infinities fail the check
            results = _Results(model, np.dtype(dtype))
            errors = [identity.error(results) for identity in IDENTITIES]
        eps = float(np.finfo(dtype).eps)
        for identity, error in zip(IDENTITIES, errors, strict=True):
            error = np.nan_to_num(error, nan=np.inf)
            bound = identity.allowed * eps**identity.order
            bounds = bound * (results.condition if identity.inverse else np.ones(STATES))
            worst = int(np.argmax(error / bounds))
            yield Check(identity.name, dtype, float(error[worst]), float(bounds[worst]))
