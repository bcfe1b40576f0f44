"""The space of configurations: the user's methods."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from featherlane.api.limits import Limits
from featherlane.functions.arguments import F32, F64, alike, lead_of
from featherlane.functions.array_like import ArrayLike
from featherlane.robot.joints import JointType

if TYPE_CHECKING:  # np.random is slow to import
    Seed = int | np.random.Generator | None


def _batch_shape(batch: Any) -> tuple[int, ...]:
    """Returns the user's number or tuple of numbers as a shape, checked."""
    told = (batch,) if isinstance(batch, int | np.integer) else batch
    complaint = f"batch is {batch!r}: wanted a whole number, or a tuple of them"
    try:
        lead = tuple(map(index, told))
    except TypeError:
        raise TypeError(complaint) from None
    if any(n < 0 for n in lead):
        raise ValueError(f"{complaint}, not negative")
    return lead


def _real(dtype: Any) -> np.dtype:
    """Returns the dtype of configurations, checked."""
    if np.dtype(dtype) not in (F32, F64):
        raise TypeError(f"dtype is {np.dtype(dtype)}: wanted float32 or float64")
    return np.dtype(dtype)


class Configurations(Limits):
    """The space of configurations of a `featherlane.Model`."""

    def _parts(self, **given: Any) -> tuple[np.ndarray, ...]:
        """Returns configurations and velocities: checked, broadcast, in their common dtype."""
        _, arrays = alike(given)
        cores = {name: (self.nv if name == "v" else self.nq,) for name in arrays}
        lead = lead_of(arrays.values(), cores, self._explain)
        return tuple(np.broadcast_to(x, lead + cores[k]) for k, x in arrays.items())

    def _own_coordinates(self) -> list[tuple[JointType, int, int]]:
        """Returns type, first entry of q and of v of each joint that follows no other."""
        return [(self.types[i], self.first_q[i], self.first_v[i]) for i in self.independent]

    def integrate(self, q: ArrayLike, v: ArrayLike) -> np.ndarray:
        """Returns the configuration (..., nq) after one second with the constant velocity v: for a
        step of dt, pass v * dt. Quaternions may have any length but zero; results have length 1.
        """
        q, v = self._parts(q=q, v=v)
        result = np.empty(q.shape, q.dtype)
        for kind, i, k in self._own_coordinates():
            moved = kind.integrate(q[..., i : i + kind.nq], v[..., k : k + kind.nv])
            result[..., i : i + kind.nq] = moved
        return result

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> np.ndarray:
        """Returns the velocity (..., nv) with which `integrate` goes from q0 to q1 in one second.

        Quaternions and the heading of a planar joint turn the shortest way, by pi at most. Other
        angles change by q1 - q0: a revolute joint turns three times from 0 to 6 pi.
        """
        q0, q1 = self._parts(q0=q0, q1=q1)
        result = np.empty((*q0.shape[:-1], self.nv), q0.dtype)
        for kind, i, k in self._own_coordinates():
            at = slice(i, i + kind.nq)
            result[..., k : k + kind.nv] = kind.difference(q0[..., at], q1[..., at])
        return result

    def neutral(self, dtype: Any = float) -> np.ndarray:
        """Returns the neutral configuration (nq,): zeros, and quaternions (0, 0, 0, 1).

        dtype: float64 or float32; raises TypeError for others.
        """
        own = [x for kind, _, _ in self._own_coordinates() for x in kind.neutral]
        return np.array(own, _real(dtype))

    def _bounds(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the bounds between which the coordinates of joint n are drawn: its limits, or,
        where these are far apart, an interval inside them of twice the reach (pi or 1 m) next to
        zero.
        """
        kind, (lower, upper) = self.types[n], self._limits(self.joints[n])
        turns = np.isin(np.arange(kind.nq), kind.angles)
        reach, most = np.where(turns, np.pi, 1.0), np.where(turns, 4 * np.pi, np.inf)
        absent = ~(lower < upper)
        lower, upper = np.where(absent, -np.inf, lower), np.where(absent, np.inf, upper)
        wide = ~(upper - lower < most)
        start = np.clip(-reach, lower, upper - 2 * reach)
        end = np.minimum(start + 2 * reach, upper)
        return np.where(wide, start, lower), np.where(wide, end, upper)

    @np.errstate(over="ignore")  # limits near the largest float count as none
    def random_configuration(
        self, batch: int | tuple[int, ...] = (), *, seed: Seed = None, dtype: Any = float
    ) -> np.ndarray:
        """Returns configurations (*batch, nq), uniform between the limits, with uniform
        orientations. Without limits, angles are drawn from a full turn, slides and positions from
        -1 to 1 m. With only one limit, or limits two turns apart or more, they are drawn from a
        full turn or 2 m within the limits.

        dtype: float64, or float32 for the same numbers, rounded into the limits. Raises TypeError
        for other dtypes, TypeError or ValueError for an invalid batch.
        """
        rng, lead, dtype = np.random.default_rng(seed), _batch_shape(batch), _real(dtype)
        q = np.empty((*lead, self.nq), dtype)
        for n in self.independent:
            kind, i = self.types[n], self.first_q[n]
            low, high = self._bounds(n)
            own = rng.uniform(low, high, (*lead, kind.nq)).astype(dtype)
            own = np.where(own > high, np.nextafter(own, -np.inf), own)
            q[..., i : i + kind.nq] = np.where(own < low, np.nextafter(own, np.inf), own)
            for k in kind.quaternions:
                turn = rng.normal(size=(*lead, 4))
                q[..., i + k : i + k + 4] = turn / np.linalg.norm(turn, axis=-1, keepdims=True)
        return q
