"""The named tuples in which functions return several results."""

from __future__ import annotations

from typing import NamedTuple

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


class IntegrateDerivatives(NamedTuple):
    """Derivatives of the configuration integrate(q, v), in its tangent space, by q in the tangent
    space of q and by v: each (..., nv, nv).
    """

    dq_next_dq: np.ndarray
    dq_next_dv: np.ndarray


class DifferenceDerivatives(NamedTuple):
    """Derivatives of difference(q0, q1) by q0 and q1, in their tangent spaces, each
    (..., nv, nv).
    """

    dv_dq0: np.ndarray
    dv_dq1: np.ndarray
