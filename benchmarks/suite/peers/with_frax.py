"""frax: all links at once, by products with the mask of ancestors."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from featherlane import convert

from . import reduced
from .base import Arrays, Case, Unsupported
from .with_jax import Formulas, JaxPeer

FIELDS = {
    "inverse_dynamics": ("a", "tau"),
    "forward_dynamics": ("tau", "a"),
    "mass_matrix": ("a", "M"),
    "mass_matrix_inverse": ("a", "da_dtau"),
}


class LikeMuJoCo(Formulas):
    """A robot in MuJoCo's conventions, joints in an order of the library's own.

    change: from our conventions to the library's.
    """

    change: convert.Change

    def states(self, case: Case) -> list[Any]:
        q, v, u = case.exact()
        kind = FIELDS.get(case.name, ("a", ""))[0] if case.model.root == "free" else "a"
        if case.model.root == "free":
            there = self.change.to(q, v=v, **{kind: u})
            arrays = (there.q, there.v, getattr(there, kind))
        else:
            arrays = (q[:, self.inverse], v[:, self.inverse], u[:, self.inverse])
        return [np.ascontiguousarray(x, case.dtype) for x in arrays]

    @property
    def inverse(self) -> np.ndarray:
        """For each of the library's entries of v its place here."""
        return np.argsort(self.change.order)

    def back(self, case: Case, rows: Any, results: Arrays) -> Arrays:
        order = self.change.order
        if case.model.root != "free":
            return tuple(
                x[:, order] if x.ndim == 2 else x[:, order[:, None], order[None, :]]
                for x in results
            )
        q, v, _ = (x[rows] for x in self.states(case))
        kind = FIELDS[case.name][1]
        given = {kind: results[0].astype(np.float64)}
        here = self.change.back(q.astype(float), v=v.astype(float), **given)
        return (getattr(here, kind),)


class FraxRobot(LikeMuJoCo):
    def __init__(self, case: Case) -> None:
        from frax.core.robot import Robot

        free = case.model.root == "free"
        names = [case.model.joints[i].name for i in reduced.moving(case.model)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "robot.urdf"
            path.write_text(reduced.urdf(case.model))
            self.robot = Robot(
                str(path), joint_ordering=names, floating_base="quaternion" if free else None
            )
        self.change = convert.mujoco(case.model)
        self.gravity = np.array([*(-g for g in case.model.gravity), 0.0, 0.0, 0.0])

    def inverse_dynamics(self, q: Any, v: Any, a: Any) -> Any:
        return self.robot.rnea(q, v, a, self.gravity.astype(q.dtype), None)

    def forward_dynamics(self, q: Any, v: Any, tau: Any) -> Any:
        return self.robot.forward_dynamics(q, v, tau, None)

    def mass_matrix(self, q: Any) -> Any:
        return self.robot.mass_matrix(q)

    def mass_matrix_inverse(self, q: Any) -> Any:
        return self.robot.mass_matrix_inverse(self.robot.mass_matrix(q))


class Frax(JaxPeer):
    name = "frax"
    packages = (("frax", "frax"),)
    settings = "jit(vmap), jacrev for derivatives; Minv: its inverse of its M"

    def refused(self, case: Case) -> Unsupported | None:
        if tuple(case.model.gravity) != (0.0, 0.0, -9.81):
            return Unsupported("its gravity is 9.81")
        return super().refused(case)

    def formulas(self, case: Case) -> Formulas:
        return FraxRobot(case)
