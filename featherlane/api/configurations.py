"""The space of configurations: the user's methods."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from featherlane.api.limits import Limits
from featherlane.api.soft_limits import with_soft_limits
from featherlane.errors import instead
from featherlane.functions.arguments import F32, F64
from featherlane.functions.array_like import ArrayLike, Out, Threads
from featherlane.functions.results import DifferenceDerivatives, IntegrateDerivatives
from featherlane.robot.joint_type import JointType

Pair = tuple[np.ndarray, np.ndarray] | None
FAR = 1e3  # m between the limits of a slide from which on 2 m within them are drawn

if TYPE_CHECKING:  # np.random is slow to import
    Seed = int | np.random.Generator | None
    """The seed of random numbers, or NumPy's generator of them."""


C = TypeVar("C", bound="Configurations")


def _batch_shape(batch: Any) -> tuple[int, ...]:
    """Returns the user's number or tuple of numbers as a shape, checked."""
    sizes = (batch,) if isinstance(batch, int | np.integer) else batch
    complaint = f"batch is {batch!r}: wanted a whole number, or a tuple of them"
    try:
        lead = tuple(map(index, sizes))
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


class _Named(dict[str, np.ndarray]):
    """Configurations by name, whose error for an unknown name lists those that there are."""

    def __missing__(self, name: object) -> np.ndarray:
        if not self:
            raise KeyError(f"no configuration {name!r}: the robot's files name none")
        raise KeyError(f"no configuration {name!r}{instead(name, self)}")


class Configurations(Limits):
    """The space of configurations of a `featherlane.Model`."""

    def _own_coordinates(self) -> list[tuple[JointType, int, int]]:
        """Returns type, first entry of q and of v of each joint that follows no other."""
        return [(self.types[i], self.first_q[i], self.first_v[i]) for i in self.independent]

    @cached_property
    def configurations(self) -> Mapping[str, np.ndarray]:
        """The named configurations (nq,), in rad and m: the keyframes of an MJCF file and the group
        states of an SRDF file (see `load`). Joints without a position in them are neutral.

        Examples:
            >>> dict(arm.configurations)
            {}
        """
        starts = {self.joints[i].name: self.first_q[i] for i in self.independent}
        named = {}
        for name, joints in self.named_configurations:
            q = np.concatenate([np.zeros(0), *(self.types[i].neutral for i in self.independent)])
            for joint, values in joints:
                if joint in starts:
                    q[starts[joint] : starts[joint] + len(values)] = values
            q.flags.writeable = False
            named[name] = q
        return MappingProxyType(_Named(named))

    def integrate(
        self, q: ArrayLike, v: ArrayLike, *, out: Out = None, threads: Threads = None
    ) -> np.ndarray:
        """Returns the configuration (..., nq) after one second with the constant velocity v: for a
        step of dt, pass v * dt. Quaternions may have any length whose square neither overflows nor
        underflows to zero; results have length 1.

        Examples:
            >>> free = fl.load("double_pendulum", root="free")
            >>> free.integrate(free.neutral(), [0, 0, 1, 0, 0, 0, 0, 0])[:3]  # 1 m/s along z
            array([0., 0., 1.])
        """
        return self._call("integrate", (q, v), None, out, threads)

    def difference(
        self, q0: ArrayLike, q1: ArrayLike, *, out: Out = None, threads: Threads = None
    ) -> np.ndarray:
        """Returns the velocity (..., nv) with which `integrate` goes from q0 to q1 in one second.

        Quaternions and the heading of a planar joint turn the shortest way, by pi at most. Other
        angles change by q1 - q0: a revolute joint turns three times from 0 to 6 pi.

        Examples:
            >>> np.allclose(arm.difference(q, arm.integrate(q, v)), v)
            True
        """
        return self._call("difference", (q0, q1), None, out, threads)

    def interpolate(
        self,
        q0: ArrayLike,
        q1: ArrayLike,
        fraction: ArrayLike,
        *,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns the configuration (..., nq) at a fraction (...) of the way from q0 (at 0) to q1
        (at 1), in rad and m, along the motion that `difference` gives; other fractions extrapolate.

        Examples:
            >>> arm.interpolate([0.0, 0.0], [1.0, 2.0], 0.5)
            array([0.5, 1. ])
        """
        return self._call("interpolate", (q0, q1, fraction), None, out, threads)

    def integrate_derivatives(
        self, q: ArrayLike, v: ArrayLike, *, out: Pair = None, threads: Threads = None
    ) -> IntegrateDerivatives:
        """Returns the derivatives of `integrate` with respect to q and v, each (..., nv, nv), from
        tangent space to tangent space: integrate(integrate(q, d), v) is integrate(integrate(q, v),
        dq_next_dq d) to first order. Pinocchio's dIntegrate.

        Examples:
            >>> arm.integrate_derivatives(q, v).dq_next_dv
            array([[1., 0.],
                   [0., 1.]])
        """
        return self._call("integrate_derivatives", (q, v), None, out, threads)

    def difference_derivatives(
        self, q0: ArrayLike, q1: ArrayLike, *, out: Pair = None, threads: Threads = None
    ) -> DifferenceDerivatives:
        """Returns the derivatives of `difference` with respect to q0 and q1, each (..., nv, nv), in
        their tangent spaces. Pinocchio's dDifference.

        Examples:
            >>> arm.difference_derivatives(q, q + v).dv_dq0
            array([[-1.,  0.],
                   [ 0., -1.]])
        """
        return self._call("difference_derivatives", (q0, q1), None, out, threads)

    def neutral(self, dtype: Any = float) -> np.ndarray:
        """Returns the neutral configuration (nq,): zeros (rad, m), and quaternions (0, 0, 0, 1).

        dtype: float64 or float32; raises TypeError for others.

        Examples:
            >>> fl.load("double_pendulum", root="free").neutral()
            array([0., 0., 0., 0., 0., 0., 1., 0., 0.])
        """
        coordinates = [x for kind, _, _ in self._own_coordinates() for x in kind.neutral]
        return np.array(coordinates, _real(dtype))

    def _bounds(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the bounds between which the coordinates of joint n are drawn: its limits, or,
        where these are far apart, an interval inside them of twice the reach (pi or 1 m) next to
        zero.
        """
        kind, (lower, upper) = self.types[n], self._limits(self.joints[n])
        turns = np.isin(np.arange(kind.nq), kind.angles)
        reach, most = np.where(turns, np.pi, 1.0), np.where(turns, 4 * np.pi, FAR)
        absent = ~(lower < upper)
        lower, upper = np.where(absent, -np.inf, lower), np.where(absent, np.inf, upper)
        wide = ~(upper - lower < most)
        start = np.clip(-reach, lower, upper - 2 * reach)
        end = np.minimum(start + 2 * reach, upper)
        return np.where(wide, start, lower), np.where(wide, end, upper)

    def with_soft_limits(
        self: C,
        stiffness: ArrayLike | None = None,
        damping: ArrayLike | None = None,
        width: float | None = None,
    ) -> C:
        """Returns the robot with soft stops: beyond a position limit, a force pushes a joint with
        one degree of freedom back, in all dynamics, steps and derivatives. Inside the limits the
        force is exactly zero.

        At a depth x beyond a limit the force is stiffness (x - width / 2). From x = 0 to x = width
        a parabola replaces it, and the damping grows from zero to its full value. stiffness (N
        m/rad or N/m), damping (N m s/rad or N s/m): a number for all joints with limits, or (nv,).
        The default stiffness is 1e4/s^2 times the joint's inertia m at the neutral position within
        the limits; the default damping is 2 sqrt(m stiffness), which does not bounce. stiffness=0
        removes the stops. width: rad or m, by default 0.01 rad and 0.001 m. `model.joint(name)` has
        the values of each joint. Raises ValueError for robots without limits, and for values of
        joints without limits.

        Examples:
            >>> stopped = fl.load("panda").with_soft_limits(stiffness=500.0)
            >>> stopped.joints[0].limit_stiffness, stopped.joints[0].limit_width
            (500.0, 0.01)
        """
        q = self.clip(self.neutral())
        return with_soft_limits(self, q.tolist(), stiffness, damping, width)

    def random_configuration(
        self, batch: int | tuple[int, ...] = (), *, seed: Seed = None, dtype: Any = float
    ) -> np.ndarray:
        """Returns configurations (*batch, nq), uniform between the limits, with uniform
        orientations. Without limits, angles are drawn from a full revolution, and slides and
        positions from -1 to 1 m. With only one limit, or with limits at least two revolutions or 1
        km apart, they are drawn from a full revolution or 2 m within the limits.

        dtype: float64, or float32 for the same numbers, rounded into the limits. Raises TypeError
        for other dtypes, TypeError or ValueError for an invalid batch.

        Examples:
            >>> arm.random_configuration((3, 100), seed=1).shape
            (3, 100, 2)
        """
        rng, lead, dtype = np.random.default_rng(seed), _batch_shape(batch), _real(dtype)
        q = np.empty((*lead, self.nq), dtype)
        for n in self.independent:
            kind, i = self.types[n], self.first_q[n]
            low, high = self._bounds(n)
            drawn = rng.uniform(low, high, (*lead, kind.nq)).astype(dtype)
            drawn = np.where(drawn > high, np.nextafter(drawn, -np.inf), drawn)
            q[..., i : i + kind.nq] = np.where(drawn < low, np.nextafter(drawn, np.inf), drawn)
            for k in kind.quaternions:
                turn = rng.normal(size=(*lead, 4))
                q[..., i + k : i + k + 4] = turn / np.linalg.norm(turn, axis=-1, keepdims=True)
        return q

    def random_velocity(
        self, batch: int | tuple[int, ...] = (), *, seed: Seed = None, dtype: Any = float
    ) -> np.ndarray:
        """Returns velocities (*batch, nv), uniform within the velocity limits of the joints, or
        between -1 and 1 (rad/s or m/s) where there is none.

        dtype: float64, or float32 for the same numbers. Raises as `random_configuration` does.

        Examples:
            >>> arm.random_velocity(100, seed=1).shape
            (100, 2)
        """
        rng, lead, dtype = np.random.default_rng(seed), _batch_shape(batch), _real(dtype)
        most = np.where(np.isfinite(self.velocity_limits), self.velocity_limits, 1.0)
        return rng.uniform(-most, most, (*lead, self.nv)).astype(dtype)
