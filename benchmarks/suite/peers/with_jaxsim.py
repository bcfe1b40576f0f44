"""JaxSim: its RNEA, ABA, CRBA and inverse of M, velocities of the base in its own axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import reduced
from .base import Arrays, Case, Unsupported
from .with_adam import BaseAndJoints, unit
from .with_jax import Formulas, JaxPeer


class JaxSimRobot(BaseAndJoints):
    derivative = "jacfwd"  # three times as fast through its scans

    def __init__(self, case: Case) -> None:
        import jax.numpy as jnp
        import jaxsim.api as js

        self.free, self.js, self.jnp = case.model.root == "free", js, jnp
        self.model = js.model.JaxSimModel.build_from_model_description(
            reduced.sdf(case.model), is_urdf=False, gravity=-case.model.gravity[2]
        )
        names = [case.model.joints[i].name for i in reduced.moving(case.model)]
        joints = [list(self.model.joint_names()).index(name) for name in names]
        base = range(6) if self.free else range(0)
        self.order = np.array([*base, *(k + len(base) for k in joints)])  # there, of our entries

    def states(self, case: Case) -> list[Any]:
        q, v, u = super().states(case)
        at = np.argsort(self.order)
        if self.free:
            return [(q[0], q[1][:, at[6:] - 6]), v[:, at], u[:, at]]
        return [q[:, at], v[:, at], u[:, at]]

    def base(self, pose: np.ndarray) -> np.ndarray:
        """x y z, qw qx qy qz."""
        quaternion = unit(pose[:, 3:])
        return np.concatenate([pose[:, :3], quaternion[:, 3:], quaternion[:, :3]], axis=1)

    def back(self, case: Case, rows: Any, results: Arrays) -> Arrays:
        at = self.order
        return tuple(x[:, at] if x.ndim == 2 else x[:, at[:, None], at[None, :]] for x in results)

    def _data(self, q: Any, v: Any = None) -> Any:
        given: dict[str, Any] = {}
        if self.free:
            pose, q = q
            given = {"base_position": pose[:3], "base_quaternion": pose[3:]}
        if v is not None:
            given["joint_velocities"] = v[6:] if self.free else v
            if self.free:
                given |= {"base_linear_velocity": v[:3], "base_angular_velocity": v[3:6]}
        return self.js.data.JaxSimModelData.build(
            self.model,
            joint_positions=q,
            velocity_representation=self.js.common.VelRepr.Body,
            **given,
        )

    def inverse_dynamics(self, q: Any, v: Any, a: Any) -> Any:
        base, joints = (a[:6], a[6:]) if self.free else (None, a)
        force, tau = self.js.model.inverse_dynamics(
            self.model, self._data(q, v), joint_accelerations=joints, base_acceleration=base
        )
        return self.jnp.concatenate([force, tau]) if self.free else tau

    def forward_dynamics(self, q: Any, v: Any, tau: Any) -> Any:
        data, forces = self._data(q, v), None
        if self.free:
            forces = self.jnp.zeros((self.model.number_of_links(), 6), tau.dtype)
            forces = forces.at[0].set(tau[:6])
        base, joints = self.js.model.forward_dynamics_aba(
            self.model, data, joint_forces=tau[6:] if self.free else tau, link_forces=forces
        )
        return self.jnp.concatenate([base, joints]) if self.free else joints

    def mass_matrix(self, q: Any) -> Any:
        return self._own(self.js.model.free_floating_mass_matrix(self.model, self._data(q)))

    def mass_matrix_inverse(self, q: Any) -> Any:
        if not self.free:
            from jax.scipy.linalg import cho_factor, cho_solve

            M = self.mass_matrix(q)
            return cho_solve(cho_factor(M), self.jnp.eye(len(M), dtype=M.dtype))
        return self.js.model.free_floating_mass_matrix_inverse(self.model, self._data(q))

    def _own(self, matrix: Any) -> Any:
        return matrix if self.free else matrix[6:, 6:]


class JaxSim(JaxPeer):
    name = "jaxsim"
    packages = (("jaxsim", "jaxsim"),)
    settings = "jit(vmap), jacfwd for derivatives; Minv of a fixed root: Cholesky of its M"

    def refused(self, case: Case) -> Unsupported | None:
        if tuple(case.model.gravity[:2]) != (0.0, 0.0):
            return Unsupported("its gravity is along z")
        return super().refused(case)

    def formulas(self, case: Case) -> Formulas:
        return JaxSimRobot(case)
