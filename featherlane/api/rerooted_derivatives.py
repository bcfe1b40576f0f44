"""Derivatives of inverse dynamics of a rerooted robot, in the coordinates of the robot before.

With the prime for the rerooted robot, q' and v' = T(q) v, the free joint's rows of T are J, the
Jacobian of the new root body, and of T only J depends on q, by the joints on the path between the
roots. With D_k for the derivative along freedom k,

    tau = T^T tau'(q', v', a')
    dtau/dq_k = (D_k T)^T tau' + T^T (dtau'/dq' T e_k + dtau'/dv' D_k v' + M' D_k a')
    dtau/dv   = T^T (dtau'/dv' T + M' da'/dv)
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.compile import compile
from featherlane.api.derivatives import jacobian
from featherlane.api.rerooting import OTHER, Rerooting, RootView
from featherlane.functions.array_like import ArrayLike
from featherlane.robot.loaders.words import quoted

Array = np.ndarray


class RerootedDerivatives(NamedTuple):
    """dtau/dq and dtau/dv, (..., nv, nv), in the tangent space of q."""

    dtau_dq: Array
    dtau_dv: Array


def derivatives_back(
    change: Rerooting,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    *,
    tau: ArrayLike,
    dtau_dq: ArrayLike,
    dtau_dv: ArrayLike,
    M: ArrayLike,
) -> RerootedDerivatives:
    """Converts derivatives of inverse dynamics to the robot before it was rerooted.

    Raises ValueError where a joint on the path between the roots has several coordinates.

    Arguments:
        change: the conversion between both robots, from `rerooting`
        q: (..., nq), rad or m. The configuration of `change.before`
        v: (..., nv), rad/s or m/s. Its velocity
        a: (..., nv), rad/s^2 or m/s^2. Its acceleration
        tau: (..., nv), N m or N. The joint forces of `change.model` at `change.to(q, v=v, a=a)`
        dtau_dq: (..., nv, nv). Their derivatives by q there
        dtau_dv: (..., nv, nv). Their derivatives by v there
        M: (..., nv, nv). The mass matrix there

    Examples:
        >>> free = fl.load("double_pendulum", root="free")
        >>> change, at, still = fl.editing.rerooting(free, "link2"), free.neutral(), np.zeros(8)
        >>> there = change.to(at, v=still, a=still)
        >>> tau = change.model.inverse_dynamics(*there[:3])
        >>> M = change.model.mass_matrix(there.q)
        >>> d = change.model.inverse_dynamics_derivatives(*there[:3])
        >>> d = {"tau": tau, "M": M, **d._asdict()}
        >>> back = fl.editing.derivatives_back(change, at, still, still, **d)
        >>> np.allclose(back[0], free.inverse_dynamics_derivatives(at, still, still).dtau_dq)
        True
    """
    here, there = change.sides
    for name in sorted(change.reversed):
        if here.kind(name).nq != 1:
            raise ValueError(
                f"joint {quoted(name)} is reversed and has {here.kind(name).nq} coordinates: "
                "derivatives are taken back for joints of one"
            )
    q, v, a, tau, dtau_dq, dtau_dv, M = (
        np.asarray(x, float) for x in (q, v, a, tau, dtau_dq, dtau_dv, M)
    )
    T = change._map(here, there, q)
    dJ, da_dq, da_dv = _of_root(here, q, v, a)
    root = there.v(change.root)
    rest = M @ _rows(T, root, da_dv)
    found_dv = np.swapaxes(T, -1, -2) @ (dtau_dv @ T + rest)
    inside = dtau_dq @ T
    turned = np.zeros_like(inside)
    for name in change.reversed:
        i, k = here.q(name).start, here.v(name).start
        slope = dJ[..., i]  # of J, (..., 6, nv)
        inside[..., k] += (dtau_dv[..., root] @ (slope @ v[..., None]))[..., 0]
        inside[..., k] += (M[..., root] @ da_dq[..., i, None])[..., 0]
        turned[..., k] = (np.swapaxes(slope, -1, -2) @ tau[..., root, None])[..., 0]
    return RerootedDerivatives(turned + np.swapaxes(T, -1, -2) @ inside, found_dv)


def _rows(T: Array, root: slice, rows: Array) -> Array:
    """A matrix like T that has only the free joint's rows."""
    matrix = np.zeros_like(T)
    matrix[..., root, :] = rows
    return matrix


def _of_root(here: RootView, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
    """Returns the derivatives by q of the new root body's Jacobian (..., 6, nv, nq), and those by q
    and v of its acceleration (..., 6, nq), (..., 6, nv).
    """
    results = _kernel(here.model)(q, v, a)
    return results[0], results[1], results[2]


@lru_cache(maxsize=4)
def _kernel(model: Any) -> Any:
    shapes = {"q": (model.nq,), "v": (model.nv,), "a": (model.nv,)}

    def motion(q: Any, v: Any, a: Any) -> dict[str, Any]:
        return {"J": model.jacobian(q, OTHER), "h": model.frame_acceleration(q, v, a, OTHER)}

    graph = jacobian(motion, shapes, wrt=("q", "v"))
    del graph.outputs["dJ_dv"]  # J does not depend on v
    return compile(graph)
