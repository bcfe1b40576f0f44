"""A change of coordinates between this package and another library, for one robot.

The other library's velocities are v' = T(q) v. T consists of the rotations from a joint's body axes
to its parent's axes, for the joints whose velocities the libraries express in different axes. Along
a motion dT/dt = T W(v), where W(v) = sum_k v_k G_k with constant G_k. All else follows by
differentiation, and is written once, below, for all libraries.

    a' = T (a + W v)      tau' = T^-T tau      M' = T^-T M T^-1

The other library's derivatives by q are taken along v', with v', a' or tau' held constant. Along a
unit motion e_k our v, tau and a then change by the columns k of V, of -F (in forward dynamics) and
of A (at constant a'): V_k = -G_k v, F_k = -G_k^T tau, A_k = -G_k (a + W v) + B V_k, B = V - W.

    dtau'/dq' = T^-T (dtau/dq + dtau/dv V + M A + F) T^-1    dtau'/dv' = T^-T (dtau/dv + M B) T^-1
    da'/dq' = T (da/dq + da/dv V - M^-1 F - A) T^-1          da'/dv' = T (da/dv - B) T^-1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.convert.forms import Convention
from featherlane.errors import did_you_mean
from featherlane.functions.arguments import alike, as_array, lead_of
from featherlane.functions.array_like import ArrayLike
from featherlane.robot.joint_type import JointType
from featherlane.robot.model import Robot
from featherlane.robot.quaternions import quaternion_turn, unit_quaternion
from featherlane.robot.spatial import skew

Array = np.ndarray

VECTORS = ("v", "a", "tau")  # (..., nv); all others but q are (..., nv, nv)
NEEDS = {  # what the conversion of an array reads besides
    "a": ("v",),
    "dtau_dv": ("v", "M"),
    "dtau_dq": ("v", "a", "tau", "M", "dtau_dv"),
    "da_dv": ("v",),
    "da_dq": ("v", "a", "tau", "da_dv", "da_dtau"),
}
IN_ORDER = (("a",), ("dtau_dv", "da_dv"), ("dtau_dq", "da_dq"))  # each needs those before it


class State(NamedTuple):
    """Converted arrays; None for those that were not passed.

    q (..., nq); v, a, tau (..., nv); M and the derivatives (..., nv, nv), columns along v. dtau_da
    is M, da_dtau its inverse.

    Examples:
        >>> free = fl.load("double_pendulum", root="free")
        >>> fl.convert.to_drake(free, free.neutral(), v=np.ones(8)).v.shape
        (8,)
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


def state_of(arrays: Mapping[str, Any], nq: int, nv: int) -> State:
    """Makes a State of arrays, float32 or float64; raises ValueError for other shapes."""
    _, named = alike({name: x for name, x in arrays.items() if x is not None})
    for name, x in named.items():
        core = (nq,) if name == "q" else (nv,) if name in VECTORS else (nv, nv)
        lead_of([x], {name: core}, lambda name, shape: "")
    return State(**named)


class JointEntries(NamedTuple):
    """The indices of a joint's entries in the other library's q and v, v in our order."""

    joint: int
    convention: Convention
    q: tuple[int, ...]
    v: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Change:
    """The conversion between coordinates of `model` and those of `library`, from
    featherlane.convert.

    Examples:
        >>> free = fl.load("double_pendulum", root="free")
        >>> change = fl.convert.mujoco(free)
        >>> there = change.to(free.neutral(), v=np.ones(8))
        >>> change.back(there.q, v=there.v).v
        array([1., 1., 1., 1., 1., 1., 1., 1.])
    """

    model: Robot
    library: str
    places: tuple[JointEntries, ...]  # one for each joint that mimics no other

    def to(self, q: ArrayLike, **arrays: ArrayLike | None) -> State:
        """Returns the other library's arrays for ours, by the names of `State`."""
        x = self._checked(self.model.nq, {"q": q, **arrays})
        T, inverse = self._maps(x.q)
        x = _plus(x, self._terms(x), [name for names in IN_ORDER for name in names])
        return _mapped(x, T, inverse)._replace(q=self.to_q(x.q))

    def back(self, q: ArrayLike, **arrays: ArrayLike | None) -> State:
        """Returns our arrays for the other library's."""
        x = self._checked(self.nq, {"q": q, **arrays})
        q = self.from_q(x.q)
        T, inverse = self._maps(q)
        x = _mapped(x, inverse, T)._replace(q=q)
        for names in IN_ORDER:
            x = _plus(x, self._terms(x), names, -1)
        return x

    def to_q(self, q: ArrayLike) -> Array:
        """Returns the other library's q for ours (..., nq), with unit quaternions."""
        q = as_array("q", q)
        result = np.empty((*q.shape[:-1], self.nq), q.dtype if q.dtype.kind == "f" else float)
        for place in self.places:
            kind, x = self.model.types[place.joint], q[..., self._q(place.joint)]
            for k in kind.quaternions:
                x = np.concatenate([x[..., :k], unit_quaternion(x[..., k : k + 4])], -1)
            result[..., list(place.q)] = place.convention.to_q(x)
        return result

    def from_q(self, q: ArrayLike) -> Array:
        """Returns our q for the other library's, with angles between -pi and pi for (cos, sin)."""
        q = as_array("q", q)
        shape = (*q.shape[:-1], self.model.nq)
        result = np.empty(shape, q.dtype if q.dtype.kind == "f" else float)
        for place in self.places:
            result[..., self._q(place.joint)] = place.convention.from_q(q[..., list(place.q)])
        return result

    def _q(self, joint: int) -> slice:
        first = self.model.first_q[joint]
        return slice(first, first + self.model.types[joint].nq)

    def velocity_map(self, q: ArrayLike) -> Array:
        """Returns T (..., nv, nv) at our q, with v' = T v."""
        q = as_array("q", q)
        return self._maps(q.astype(np.float32 if q.dtype == np.float32 else float))[0]

    @cached_property
    def nq(self) -> int:
        """The size of the other library's q."""
        return sum(place.convention.nq for place in self.places)

    @cached_property
    def order(self) -> Array:
        """The index in the other library's v of each of our entries (nv,)."""
        return np.array([k for place in self.places for k in place.v], int)

    def _checked(self, nq: int, arrays: dict[str, Any]) -> State:
        """Returns a State of the arrays; raises TypeError or ValueError where one is missing."""
        if arrays["q"] is None:
            raise TypeError(f"q is None: wanted the configuration, (..., {nq})")
        names = [name for name, x in arrays.items() if x is not None]
        if unknown := set(names) - set(State._fields):
            known = ", ".join(State._fields)
            meant = did_you_mean(min(unknown), State._fields)
            raise TypeError(
                f"there is no {min(unknown)!r} to convert: wanted some of {known}{meant}"
            )
        state = state_of(arrays, nq, self.model.nv)
        for name in names:
            needs = NEEDS.get(name, ())
            if missing := [other for other in needs if other not in names]:
                helped = f"{name} is converted with the help of {', '.join(needs)}"
                raise ValueError(f"{helped}: {', '.join(missing)} was not given")
        return state

    # T and its rate

    def _maps(self, q: Array) -> tuple[Array, Array]:
        """Returns T and its inverse at our q; rows of T are in the other library's order."""
        nv = self.model.nv
        D = np.broadcast_to(np.eye(nv, dtype=q.dtype), (*q.shape[:-1], nv, nv)).copy()
        for place in self.places:
            if place.convention.turned:
                k = self.model.first_v[place.joint]
                R = _rotation(self.model.types[place.joint], q[..., self._q(place.joint)])
                for at in place.convention.turned:
                    entries = slice(k + at, k + at + 3)
                    D[..., entries, entries] = R
        shift, unshift = (x.astype(q.dtype) for x in self._shift)
        T, inverse = np.empty_like(D), np.empty_like(D)
        T[..., self.order, :] = D @ shift
        inverse[..., :, self.order] = unshift @ np.swapaxes(D, -1, -2)
        return T, inverse

    @cached_property
    def _shift(self) -> tuple[Array, Array]:
        """Returns the map from velocities of origins to centres of mass, and its inverse."""
        forward, backward = np.eye(self.model.nv), np.eye(self.model.nv)
        for place in self.places:
            if place.convention.at_com:
                k, com = self.model.first_v[place.joint], self.model.bodies[place.joint].com
                forward[k : k + 3, k + 3 : k + 6] = -np.array(skew(com))
                backward[k : k + 3, k + 3 : k + 6] = np.array(skew(com))
        return forward, backward

    @cached_property
    def _rates(self) -> tuple[list[int], Array]:
        """Returns the entries k of v with a G_k that is not zero, and these G_k (..., nv, nv)."""
        turning, nv, (shift, unshift) = [], self.model.nv, self._shift
        for place in self.places:
            first, kind = self.model.first_v[place.joint], self.model.types[place.joint]
            for k, S in enumerate(kind.S, first):
                if place.convention.turned and any(S[:3]):
                    G = np.zeros((nv, nv))
                    for at in place.convention.turned:
                        entries = slice(first + at, first + at + 3)
                        G[entries, entries] = np.array(skew(S[:3]), float)
                    turning.append((k, unshift @ G @ shift))
        rates = np.reshape([G for _, G in turning], (len(turning), nv, nv))
        return [k for k, _ in turning], rates

    def _terms(self, x: State) -> dict[str, Array]:
        """Returns what is added to our arrays before T is applied, by their names."""
        turning, G = self._rates[0], self._rates[1].astype(x.q.dtype)

        def along(G: Array, y: Array) -> Array:  # column k: -G_k y
            result = np.zeros((*y.shape, self.model.nv), y.dtype)
            result[..., turning] = -np.einsum("kij,...j->...ik", G, y)
            return result

        if x.v is None:
            return {}
        W, V = np.einsum("kij,...k->...ij", G, x.v[..., turning]), along(G, x.v)
        B, drift = V - W, times(W, x.v)
        terms = {"a": drift, "da_dv": -B}
        if x.M is not None:
            terms["dtau_dv"] = x.M @ B
        if x.a is None or x.tau is None:
            return terms
        A, F = along(G, x.a + drift) + B @ V, along(np.swapaxes(G, -1, -2), x.tau)
        if x.dtau_dv is not None and x.M is not None:
            terms["dtau_dq"] = x.dtau_dv @ V + x.M @ A + F
        if x.da_dv is not None and x.da_dtau is not None:
            terms["da_dq"] = x.da_dv @ V - x.da_dtau @ F - A
        return terms


# Arrays that may be None


def _plus(x: State, terms: dict[str, Array], names: Sequence[str], sign: int = 1) -> State:
    """Adds terms to the named arrays that are not None."""
    arrays = {name: y for name in names if (y := getattr(x, name)) is not None}
    return x._replace(**{name: y + sign * terms[name] for name, y in arrays.items()})


def _mapped(x: State, T: Array, inverse: Array) -> State:
    """Maps velocities by T, and with them all arrays but q."""
    dual = np.swapaxes(inverse, -1, -2)
    return State(
        q=x.q,
        v=times(T, x.v),
        a=times(T, x.a),
        tau=times(dual, x.tau),
        M=_product(dual, x.M, inverse),
        dtau_dq=_product(dual, x.dtau_dq, inverse),
        dtau_dv=_product(dual, x.dtau_dv, inverse),
        da_dq=_product(T, x.da_dq, inverse),
        da_dv=_product(T, x.da_dv, inverse),
        da_dtau=_product(T, x.da_dtau, np.swapaxes(T, -1, -2)),
    )


def times(A: Array, x: Any) -> Any:
    return None if x is None else (A @ x[..., None])[..., 0]


def _product(A: Array, x: Any, B: Array) -> Any:
    return None if x is None else A @ x @ B


def _rotation(kind: JointType, q: Array) -> Array:
    """Returns R (..., 3, 3) of a joint, which takes the body's axes to the parent's."""
    if kind.quaternions:
        k = kind.quaternions[0]
        turn = unit_quaternion(q[..., k : k + 4])
    else:
        half = q[..., kind.angles[0]] / 2
        zero = np.zeros_like(half)
        turn = np.stack([zero, zero, np.sin(half), np.cos(half)], -1)
    return np.swapaxes(quaternion_turn(turn[..., None, :], np.eye(3, dtype=q.dtype)), -1, -2)
