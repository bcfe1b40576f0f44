"""The limits of positions, velocities and forces as arrays: the user's attributes and `clip`."""

from __future__ import annotations

from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from featherlane.api.compiled import Compiled
from featherlane.functions.arguments import TRACED, alike, lead_of
from featherlane.functions.array_like import ArrayLike
from featherlane.functions.shape_hints import shape_hint
from featherlane.robot.parts import Joint
from featherlane.robot.unlimited import largest, lower_limits, upper_limits


class PositionLimits(NamedTuple):
    """The least and the largest values of the entries of q, each (nq,)."""

    lower: np.ndarray
    upper: np.ndarray


def _range(joint: Joint) -> tuple[np.ndarray, np.ndarray]:
    """Returns the limits of a joint, infinite where it has none."""
    none = np.full(joint.kind.nq, np.inf)
    lower, upper = joint.lower or -none, joint.upper or none
    return lower_limits(np.array(lower)), upper_limits(np.array(upper))


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def rounded_into(limits: PositionLimits, dtype: np.dtype) -> PositionLimits:
    """Returns the limits in a dtype, rounded inwards, where that leaves a number between them."""
    lower, upper = (x.astype(dtype) for x in limits)
    inner_lower = np.where(lower < limits.lower, np.nextafter(lower, np.inf), lower)
    inner_upper = np.where(upper > limits.upper, np.nextafter(upper, -np.inf), upper)
    room = inner_lower <= inner_upper
    return PositionLimits(np.where(room, inner_lower, lower), np.where(room, inner_upper, upper))


class Limits(Compiled):
    """The limits of a `featherlane.Model`, infinite where the robot's file has none, 0 (of
    velocities and forces), or a number from 1e8 on: exporters write these where there is no limit.
    """

    @cached_property
    def _followers(self) -> dict[str, list[Joint]]:
        """The mimic joints that move, by the name of the joint that they follow."""
        followers: dict[str, list[Joint]] = {}
        for joint in self.joints:
            if joint.mimic and joint.mimic.multiplier:
                followers.setdefault(joint.mimic.joint, []).append(joint)
        return followers

    def _limits(self, joint: Joint) -> tuple[np.ndarray, np.ndarray]:
        """Returns a joint's limits, narrowed to those of its followers where that leaves room."""
        lower, upper = _range(joint)
        for follower in self._followers.get(joint.name, ()):
            _, ratio, offset = follower.mimic  # type: ignore[misc]
            ends = (np.array(_range(follower)) - offset) / ratio
            low = np.maximum(lower, lower_limits(ends.min(0)))
            high = np.minimum(upper, upper_limits(ends.max(0)))
            if np.all(low < high):
                lower, upper = low, high
        return lower, upper

    @cached_property
    def position_limits(self) -> PositionLimits:
        """The position limits (lower, upper), each (nq,), in m and rad, in the order of q. They are
        narrowed where a mimic joint would reach its limits first. They are infinite for
        quaternions, for coordinates without limits or with limits of 1e8 and more, and where the
        lower limit is not below the upper limit.
        """
        lower, upper = np.full(self.nq, -np.inf), np.full(self.nq, np.inf)
        for n in self.independent:
            kind, i = self.types[n], self.first_q[n]
            low, high = self._limits(self.joints[n])
            turns = {first + k for first in kind.quaternions for k in range(4)}
            for k in range(kind.nq):
                if low[k] < high[k] and k not in turns:
                    lower[i + k], upper[i + k] = low[k], high[k]
        return PositionLimits(_read_only(lower), _read_only(upper))

    @cached_property
    def velocity_limits(self) -> np.ndarray:
        """The largest |v| (nv,), in m/s and rad/s, in the order of v, narrowed where a mimic joint
        would reach its limit first. All entries of one joint have the joint's limit. Limits are
        infinite for joints without a limit, and where the file has 0, or 1e8 and more, which many
        exporters write for unknown limits. `model.joint(name).velocity` is the number in the file,
        but infinite from 1e8 on.
        """
        limits = np.full(self.nv, np.inf)
        for n in self.independent:
            joint = self.joints[n]
            shared = [
                largest(follower.velocity) / abs(follower.mimic.multiplier)  # type: ignore[union-attr]
                for follower in self._followers.get(joint.name, ())
            ]
            limits[self.dofs[n]] = largest(min([largest(joint.velocity), *shared]))
        return _read_only(limits)

    @cached_property
    def effort_limits(self) -> np.ndarray:
        """The largest |tau| (nv,), in N and N m, in the order of v. All entries of one joint have
        the joint's limit. A mimic joint has no limit, since the motor of its leader moves both.
        Limits are infinite for joints without a limit, with a limit of 0, or of 1e8 and more, as in
        `velocity_limits`. A joint without a motor is left out of `actuation`.
        """
        limits = np.full(self.nv, np.inf)
        for n in self.independent:
            limits[self.dofs[n]] = largest(self.joints[n].effort)
        return _read_only(limits)

    def clip(self, q: ArrayLike) -> np.ndarray:
        """Returns the configurations (..., nq), rad or m, moved into `position_limits`. Quaternions
        and NaN stay as they are. For velocities and forces, use `np.clip(v, -model.velocity_limits,
        model.velocity_limits)` and `effort_limits` in the same way.

        For float32, limits are rounded inwards. In a trace they are float64 constants, which a
        float32 kernel rounds to the nearest number.

        Examples:
            >>> fl.load("panda").clip(np.full(8, 10.0))[:2]
            array([2.8973, 1.7628])
        """
        dtype, arrays = alike({"q": q})
        lead_of(arrays.values(), {"q": (self.nq,)}, partial(shape_hint, self, None))
        if dtype == TRACED:
            return self._clip_traced(arrays["q"])
        return np.clip(arrays["q"], *rounded_into(self.position_limits, dtype))

    def _clip_traced(self, q: np.ndarray) -> np.ndarray:
        """Clips a traced array, without operations for limits that are infinite."""
        q = q.copy()
        for limit, inside in zip(self.position_limits, (np.maximum, np.minimum), strict=True):
            has = np.isfinite(limit)
            q[..., has] = inside(q[..., has], limit[has])
        return q
