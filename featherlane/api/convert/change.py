"""A change of coordinates between this package and another library, for one robot.

Theirs are v' = T(q) v, with T made of the rotations that take the body's axes of some joints to
their parent's. Along a motion dT/dt = T W(v), where W(v) = sum_k v_k G_k and the G_k are constant:
all else follows by differentiation, and is written once, below, for all libraries.

    a' = T (a + W v)      tau' = T^-T tau      M' = T^-T M T^-1

Derivatives by q go along their v' with their v', a' or tau' held constant. For a motion e_k of
ours, the columns k of what then changes here are dv = V, dtau = -F (for forward dynamics) and, at
constant a', da = A, with V_k = -G_k v, F_k = -G_k^T tau, A_k = -G_k (a + W v) + B V_k, B = V - W:

    dtau'/dq' = T^-T (dtau/dq + dtau/dv V + M A + F) T^-1    dtau'/dv' = T^-T (dtau/dv + M B) T^-1
    da'/dq' = T (da/dq + da/dv V - M^-1 F - A) T^-1          da'/dv' = T (da/dv - B) T^-1
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.convert.forms import Form
from featherlane.functions.function import common_dtype
from featherlane.robot.joints import JointType, quaternion_turn
from featherlane.robot.model import Model
from featherlane.robot.spatial import skew

Array = np.ndarray

NEEDS = {
    "a": ("v",),
    "dtau_dv": ("v", "M"),
    "dtau_dq": ("v", "a", "tau", "M", "dtau_dv"),
    "da_dv": ("v",),
    "da_dq": ("v", "a", "tau", "da_dv", "da_dtau"),
}


class State(NamedTuple):
    """What was converted: None where nothing was given.

    q (..., nq); v, a, tau (..., nv); M and the derivatives (..., nv, nv), columns along v. dtau_da
    is M, da_dtau its inverse.
    """

    q: Any
    v: Any = None
    a: Any = None
    tau: Any = None
    M: Any = None
    dtau_dq: Any = None
    dtau_dv: Any = None
    da_dq: Any = None
    da_dv: Any = None
    da_dtau: Any = None


class Place(NamedTuple):
    """Where a joint of the model is in the other library's arrays, in our order of entries of v."""

    joint: int
    form: Form
    q: tuple[int, ...]
    v: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Change:
    """How `library` arranges the coordinates of `model`: see the functions of featherlane.convert,
    which make it.
    """

    model: Model
    library: str
    places: tuple[Place, ...]  # one for each joint with coordinates of its own

    # From one to the other

    def to(self, q: Any, **given: Any) -> State:
        """The other library's figures from ours: `State` names them."""
        x = self._checked(self.model.nq, {"q": q, **given})
        T, inverse = self._maps(x.q)
        t = self._terms(x)
        dual = np.swapaxes(inverse, -1, -2)
        return State(
            q=self.to_q(x.q),
            v=_times(T, x.v),
            a=_times(T, _plus(x.a, t.a)),
            tau=_times(dual, x.tau),
            M=_product(dual, x.M, inverse),
            dtau_dq=_product(dual, _plus(x.dtau_dq, t.dtau_dq), inverse),
            dtau_dv=_product(dual, _plus(x.dtau_dv, t.dtau_dv), inverse),
            da_dq=_product(T, _plus(x.da_dq, t.da_dq), inverse),
            da_dv=_product(T, _plus(x.da_dv, t.da_dv), inverse),
            da_dtau=_product(T, x.da_dtau, np.swapaxes(T, -1, -2)),
        )

    def back(self, q: Any, **given: Any) -> State:
        """Our figures from the other library's."""
        x = self._checked(self.nq, {"q": q, **given})
        q = self.from_q(x.q)
        T, inverse = self._maps(q)
        dual = np.swapaxes(T, -1, -2)
        x = State(
            q=q,
            v=_times(inverse, x.v),
            a=_times(inverse, x.a),
            tau=_times(dual, x.tau),
            M=_product(dual, x.M, T),
            dtau_dq=_product(dual, x.dtau_dq, T),
            dtau_dv=_product(dual, x.dtau_dv, T),
            da_dq=_product(inverse, x.da_dq, T),
            da_dv=_product(inverse, x.da_dv, T),
            da_dtau=_product(inverse, x.da_dtau, np.swapaxes(inverse, -1, -2)),
        )
        for names in (("a",), ("dtau_dv", "da_dv"), ("dtau_dq", "da_dq")):  # in order of need
            t = self._terms(x)._asdict()
            x = x._replace(**{name: _plus(getattr(x, name), t[name], -1) for name in names})
        return x

    def to_q(self, q: Any) -> Array:
        """The other library's configuration (..., nq there) from ours (..., nq), with unit
        quaternions.
        """
        q = np.asarray(q)
        result = np.empty((*q.shape[:-1], self.nq), q.dtype if q.dtype.kind == "f" else float)
        for place in self.places:
            kind, first = self.model.types[place.joint], self.model.first_q[place.joint]
            own = q[..., first : first + kind.nq]
            for k in kind.quaternions:
                own = np.concatenate([own[..., :k], _unit(own[..., k : k + 4])], -1)
            result[..., list(place.q)] = place.form.to_q(own)
        return result

    def from_q(self, q: Any) -> Array:
        """Our configuration from the other library's; cosines and sines become angles between -pi
        and pi.
        """
        q = np.asarray(q)
        shape = (*q.shape[:-1], self.model.nq)
        result = np.empty(shape, q.dtype if q.dtype.kind == "f" else float)
        for place in self.places:
            kind, first = self.model.types[place.joint], self.model.first_q[place.joint]
            result[..., first : first + kind.nq] = place.form.from_q(q[..., list(place.q)])
        return result

    def velocity_map(self, q: Any) -> Array:
        """T (..., nv, nv) at our q, with v' = T v."""
        q = np.asarray(q)
        return self._maps(q.astype(np.float32 if q.dtype == np.float32 else float))[0]

    # Sizes and places

    @cached_property
    def nq(self) -> int:
        """The other library's."""
        return sum(place.form.nq for place in self.places)

    @cached_property
    def order(self) -> Array:
        """For each of our entries of v (nv,) its place there."""
        return np.array([k for place in self.places for k in place.v], int)

    def _checked(self, nq: int, given: dict[str, Any]) -> State:
        """As arrays of one dtype: float32 or float64."""
        if given["q"] is None:
            raise TypeError(f"q is None: wanted the configuration, (..., {nq})")
        given = {name: x for name, x in given.items() if x is not None}
        if unknown := set(given) - set(State._fields):
            known = ", ".join(State._fields)
            raise TypeError(f"there is no {min(unknown)!r} to convert: wanted some of {known}")
        dtype, nv = common_dtype(given), self.model.nv
        given = {name: np.asarray(x, dtype) for name, x in given.items()}
        for name, x in given.items():
            wanted = (nq,) if name == "q" else (nv,) if name in ("v", "a", "tau") else (nv, nv)
            if x.shape[x.ndim - len(wanted) :] != wanted:
                raise ValueError(
                    f"{name} has shape {x.shape}, wanted (..., {', '.join(map(str, wanted))})"
                )
            if missing := [other for other in NEEDS.get(name, ()) if other not in given]:
                raise ValueError(
                    f"{name} is converted with the help of {', '.join(NEEDS[name])}: "
                    f"{', '.join(missing)} was not given"
                )
        return State(**given)

    # T and its rate

    def _maps(self, q: Array) -> tuple[Array, Array]:
        """T and its inverse at our q: rows of T and columns of the inverse in their order."""
        nv = self.model.nv
        D = np.broadcast_to(np.eye(nv, dtype=q.dtype), (*q.shape[:-1], nv, nv)).copy()
        for place in self.places:
            if place.form.turned:
                i, k = self.model.first_q[place.joint], self.model.first_v[place.joint]
                kind = self.model.types[place.joint]
                R = _rotation(kind, q[..., i : i + kind.nq])
                for at in place.form.turned:
                    own = slice(k + at, k + at + 3)
                    D[..., own, own] = R
        shift, unshift = (x.astype(q.dtype) for x in self._shift)
        T, inverse = np.empty_like(D), np.empty_like(D)
        T[..., self.order, :] = D @ shift
        inverse[..., :, self.order] = unshift @ np.swapaxes(D, -1, -2)
        return T, inverse

    @cached_property
    def _shift(self) -> tuple[Array, Array]:
        """From velocities of origins to those of centres of mass, and its inverse."""
        forward, backward = np.eye(self.model.nv), np.eye(self.model.nv)
        for place in self.places:
            if place.form.at_com:
                k, com = self.model.first_v[place.joint], self.model.bodies[place.joint].com
                forward[k : k + 3, k + 3 : k + 6] = -np.array(skew(com))
                backward[k : k + 3, k + 3 : k + 6] = np.array(skew(com))
        return forward, backward

    @cached_property
    def _rates(self) -> tuple[list[int], Array]:
        """The entries k of v that turn something, and their G_k (..., nv, nv)."""
        turning, nv, (shift, unshift) = [], self.model.nv, self._shift
        for place in self.places:
            first, kind = self.model.first_v[place.joint], self.model.types[place.joint]
            for k, S in enumerate(kind.S, first):
                if place.form.turned and any(S[:3]):
                    G = np.zeros((nv, nv))
                    for at in place.form.turned:
                        own = slice(first + at, first + at + 3)
                        G[own, own] = np.array(skew(S[:3]), float)
                    turning.append((k, unshift @ G @ shift))
        rates = np.reshape([G for _, G in turning], (len(turning), nv, nv))
        return [k for k, _ in turning], rates

    def _terms(self, x: State) -> _Terms:
        """What is added to ours before T is applied."""
        turning, G = self._rates[0], self._rates[1].astype(x.q.dtype)

        def along(G: Array, y: Array) -> Array:  # column k: -G_k y
            result = np.zeros((*y.shape, self.model.nv), y.dtype)
            result[..., turning] = -np.einsum("kij,...j->...ik", G, y)
            return result

        none = _Terms()
        if x.v is None:
            return none
        W, V = np.einsum("kij,...k->...ij", G, x.v[..., turning]), along(G, x.v)
        B, drift = V - W, _times(W, x.v)
        terms = none._replace(a=drift, da_dv=-B)
        if x.M is not None:
            terms = terms._replace(dtau_dv=x.M @ B)
        if x.a is None or x.tau is None:
            return terms
        A, F = along(G, x.a + drift) + B @ V, along(np.swapaxes(G, -1, -2), x.tau)
        if x.dtau_dv is not None and x.M is not None:
            terms = terms._replace(dtau_dq=x.dtau_dv @ V + x.M @ A + F)
        if x.da_dv is not None and x.da_dtau is not None:
            terms = terms._replace(da_dq=x.da_dv @ V - x.da_dtau @ F - A)
        return terms


class _Terms(NamedTuple):
    a: Any = None
    dtau_dq: Any = None
    dtau_dv: Any = None
    da_dq: Any = None
    da_dv: Any = None


# Arrays that may not have been given


def _plus(x: Any, y: Any, sign: int = 1) -> Any:
    return None if x is None else x + sign * y


def _times(A: Array, x: Any) -> Any:
    return None if x is None else (A @ x[..., None])[..., 0]


def _product(A: Array, x: Any, B: Array) -> Any:
    return None if x is None else A @ x @ B


@np.errstate(all="ignore")  # of a quaternion of length 0: NaN, as everywhere
def _unit(quaternion: Array) -> Array:
    return quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)


def _rotation(kind: JointType, q: Array) -> Array:
    """R (..., 3, 3) of a joint that turns: parent's axes from the body's."""
    if kind.quaternions:
        k = kind.quaternions[0]
        turn = _unit(q[..., k : k + 4])
    else:
        half = q[..., kind.angles[0]] / 2
        zero = np.zeros_like(half)
        turn = np.stack([zero, zero, np.sin(half), np.cos(half)], -1)
    return np.swapaxes(quaternion_turn(turn[..., None, :], np.eye(3, dtype=q.dtype)), -1, -2)
