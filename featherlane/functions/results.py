"""The named tuples in which functions return several results."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable
from functools import cache
from keyword import iskeyword
from typing import Any, NamedTuple

import numpy as np


class InverseDynamicsDerivatives(NamedTuple):
    """Derivatives of ID(q, v, a), each (..., nv, nv), columns in the tangent space; dtau/da = M."""

    dtau_dq: np.ndarray
    dtau_dv: np.ndarray


class ForwardDynamicsDerivatives(NamedTuple):
    """Derivatives of FD(q, v, tau), each (..., nv, nv), columns in the tangent space."""

    da_dq: np.ndarray
    da_dv: np.ndarray
    da_dtau: np.ndarray  # M^-1


class InverseDynamicsSecondDerivatives(NamedTuple):
    """Derivatives of the first derivatives of tau = ID(q, v, a), each (..., nv, nv, nv).

    d2tau_dxdy[..., i, j, k] is the derivative by y_k of dtau_i/dx_j, both in the tangent space for
    q: where a joint has a quaternion or a heading, d2tau_dqdq is not symmetric in j and k.
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
    """Results in their named tuple, made anew: of a pickle."""
    return named_results(names)(*values)
