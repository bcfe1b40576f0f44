"""MJX, MuJoCo on JAX: the smooth part of its dynamics only."""

from __future__ import annotations

from typing import Any

from .base import Case
from .with_frax import LikeMuJoCo
from .with_jax import Formulas, JaxPeer
from .with_mujoco import Robot


class MJXRobot(LikeMuJoCo):
    def __init__(self, case: Case) -> None:
        import jax.numpy as jnp
        from mujoco import mjx
        from mujoco.mjx._src import smooth, support

        robot = Robot.read(case)
        self.change, self.jnp, self.smooth, self.support = robot.change, jnp, smooth, support
        self.model = mjx.put_model(robot.model)
        self.data = mjx.make_data(robot.model)

    def _positions(self, q: Any) -> Any:
        data = self.data.replace(qpos=q)
        return self.smooth.com_pos(self.model, self.smooth.kinematics(self.model, data))

    def _factored(self, q: Any) -> Any:
        data = self.smooth.crb(self.model, self._positions(q))
        return self.smooth.factor_m(self.model, data)

    def inverse_dynamics(self, q: Any, v: Any, a: Any) -> Any:
        data = self._positions(q).replace(qvel=v, qacc=a)
        data = self.smooth.com_vel(self.model, data)
        return self.smooth.rne(self.model, data, flg_acc=True).qfrc_bias

    def forward_dynamics(self, q: Any, v: Any, tau: Any) -> Any:
        data = self.smooth.com_vel(self.model, self._factored(q).replace(qvel=v))
        bias = self.smooth.rne(self.model, data).qfrc_bias
        return self.smooth.solve_m(self.model, data, tau - bias)

    def mass_matrix(self, q: Any) -> Any:
        data = self.smooth.crb(self.model, self._positions(q))
        return self.support.full_m(self.model, data)

    def mass_matrix_inverse(self, q: Any) -> Any:
        import jax

        data, one = self._factored(q), self.jnp.eye(self.model.nv, dtype=q.dtype)
        return jax.vmap(lambda x: self.smooth.solve_m(self.model, data, x))(one)


class MJX(JaxPeer):
    name = "mjx"
    packages = (("mujoco.mjx", "mujoco-mjx"), ("mujoco", "mujoco"))
    settings = "jit(vmap) of kinematics, com_pos, crb, com_vel, rne, factor_m, solve_m; jacrev"

    def formulas(self, case: Case) -> Formulas:
        return MJXRobot(case)
