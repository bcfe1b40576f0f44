"""Steps of all knots and their derivatives by featherlane: one call of machine code."""

from __future__ import annotations

import time

import numpy as np
from robot import FEET, Quadruped

assert [*FEET] == sorted(FEET)  # the order in which featherlane takes wrenches at frames


class Featherlane:
    """Steps of the fourth order from arrays, with A and B, of (knots, ...) states.

    dtype: in which it computes; results are float64 in any case, as the solver wants them.
    """

    clock = staticmethod(time.thread_time)

    def __init__(self, robot: Quadruped, knots: int, threads: int, dtype: str = "float64") -> None:
        model = robot.model
        self.name = "featherlane" if dtype == "float64" else f"featherlane, {dtype}"
        self.model, self.threads, self.dtype = model, threads, np.dtype(dtype)
        joints = [joint.name for joint in model.joints[1:]]
        self.options = {
            "integrator": "rk4",
            "actuation": model.actuation(joints, clip=False),
            "f_ext_frame": "world",
            "threads": threads,
        }
        nv, self.joints = model.nv, len(joints)
        shapes = ((model.nq,), (nv,), (2 * nv, 2 * nv), (2 * nv, self.joints + 6 * len(FEET)))
        self.out = tuple(np.empty((knots, *shape), self.dtype) for shape in shapes)
        self.doubles = tuple(np.empty((knots, *shape)) for shape in shapes[:3])
        self.B = np.empty((knots, 2 * nv, self.joints + 3 * len(FEET)))
        self.wrenches = np.zeros((len(FEET), knots, 6), self.dtype)

    def _given(self, f: np.ndarray) -> dict[str, np.ndarray]:
        self.wrenches[:, :, :3] = f.swapaxes(0, 1)
        return dict(zip(FEET, self.wrenches, strict=True))

    def linearise(
        self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray, dt: float
    ) -> tuple[np.ndarray, ...]:
        """The next q and v, A (knots, 2 nv, 2 nv) and B (knots, 2 nv, nu + 12) by joint torques u
        and forces f (knots, 4, 3) at the feet, in the world's axes. The next call overwrites them.
        """
        q, v, u = (x.astype(self.dtype, copy=False) for x in (q, v, u))
        self.model.linearize_step(
            q, v, u, dt, self._given(f), by_wrenches=True, out=self.out, **self.options
        )
        return self._delivered()

    def _delivered(self) -> tuple[np.ndarray, ...]:
        """`out` as the solver wants it."""
        *results, B = self.out
        if self.dtype != float:
            for double, single in zip(self.doubles, results, strict=True):
                np.copyto(double, single)
            results = [*self.doubles]
        self.B[:, :, : self.joints] = B[:, :, : self.joints]
        for i in range(len(FEET)):  # forces without moments
            at, own = self.joints + 6 * i, self.joints + 3 * i
            self.B[:, :, own : own + 3] = B[:, :, at : at + 3]
        return (*results, self.B)

    def step(
        self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray, dt: float
    ) -> tuple[np.ndarray, ...]:
        """The next q and v."""
        q, v, u = (x.astype(self.dtype, copy=False) for x in (q, v, u))
        found = self.model.step(q, v, u, dt, self._given(f), **self.options)
        return tuple(x.astype(float, copy=False) for x in found)
