"""adam: its formulas on JAX. They know a floating base; a fixed root takes the joints' part."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np

from featherlane.robot.quaternions import quaternion_turn

from . import reduced
from .base import Arrays, Case, Unsupported
from .with_jax import Formulas, JaxPeer


class BaseAndJoints(Formulas):
    """A robot whose joints are in our order: the placement of the base, velocities in its axes."""

    free: bool

    def states(self, case: Case) -> list[Any]:
        q, v, u = (x.astype(case.dtype) for x in case.exact())
        return [(self.base(q[:, :7]), q[:, 7:]) if self.free else q, v, u]

    def base(self, pose: np.ndarray) -> Any:
        """Where the base is, from our x y z, qx qy qz qw."""
        return placement(pose)

    def back(self, case: Case, rows: Any, results: Arrays) -> Arrays:
        return results


def placement(pose: np.ndarray) -> np.ndarray:
    """Homogeneous transforms (batch, 4, 4) from x y z, qx qy qz qw (batch, 7)."""
    H = np.zeros((len(pose), 4, 4), pose.dtype)
    turned = quaternion_turn(unit(pose[:, None, 3:]), np.eye(3))
    H[:, :3, :3] = turned.swapaxes(1, 2)
    H[:, :3, 3], H[:, 3, 3] = pose[:, :3], 1.0
    return H


def unit(quaternion: np.ndarray) -> np.ndarray:
    return quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)


class AdamRobot(BaseAndJoints):
    def __init__(self, case: Case) -> None:
        import jax.numpy as jnp
        from adam import Representations
        from adam.jax import KinDynComputations

        self.free, self.jnp = case.model.root == "free", jnp
        names = [case.model.joints[i].name for i in reduced.moving(case.model)]
        gravity = jnp.asarray([*case.model.gravity, 0.0, 0.0, 0.0], case.dtype)
        dtype = jnp.dtype(case.dtype)
        self.robot = KinDynComputations(
            reduced.urdf(case.model), names, dtype=dtype, gravity=gravity
        )
        self.robot.set_frame_velocity_representation(Representations.BODY_FIXED_REPRESENTATION)
        self.root = self.robot.rbdalgos.root_link
        self.n = len(names)

    def _split(self, q: Any) -> tuple[Any, Any]:
        return q if self.free else (self.jnp.eye(4, dtype=q.dtype), q)

    def _velocity(self, v: Any) -> tuple[Any, Any]:
        return (v[:6], v[6:]) if self.free else (self.jnp.zeros(6, v.dtype), v)

    def _bias(self, q: Any, v: Any) -> Any:
        h = self.robot.bias_force(*self._split(q), *self._velocity(v))
        return h if self.free else h[6:]

    def mass_matrix(self, q: Any) -> Any:
        M = self.robot.mass_matrix(*self._split(q))
        return M if self.free else M[6:, 6:]

    def mass_matrix_inverse(self, q: Any) -> Any:
        from jax.scipy.linalg import cho_factor, cho_solve

        M = self.mass_matrix(q)
        return cho_solve(cho_factor(M), self.jnp.eye(len(M), dtype=M.dtype))

    def inverse_dynamics(self, q: Any, v: Any, a: Any) -> Any:
        return self.mass_matrix(q) @ a + self._bias(q, v)

    def forward_dynamics(self, q: Any, v: Any, tau: Any) -> Any:
        if self.free:
            wrench = {self.root: tau[:6]}
            return self.robot.aba(*self._split(q), *self._velocity(v), tau[6:], wrench)
        from jax.scipy.linalg import solve

        return solve(self.mass_matrix(q), tau - self._bias(q, v), assume_a="pos")


class Adam(JaxPeer):
    name = "adam-jax"
    packages = (("adam", "adam-robotics[jax]"),)
    settings = "jit(vmap), jacrev; ID: M a + h; FD: ABA, fixed root M^-1 (tau - h); Minv: Cholesky"

    def refused(self, case: Case) -> Unsupported | None:
        return super().refused(case) or slides(case)

    def formulas(self, case: Case) -> Formulas:
        return AdamRobot(case)


def slides(case: Case) -> Unsupported | None:
    """Why adam does not take a robot with prismatic joints."""
    version = metadata.version("adam-robotics")
    if version == "0.5.0" and "prismatic" in {kind.name for kind in case.model.types}:
        return Unsupported("adam 0.5.0 has prismatic joints with twelve motions instead of six")
    return None
