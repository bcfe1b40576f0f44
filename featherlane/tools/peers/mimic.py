"""Robots with mimic joints, from a peer that takes every joint for independent.

With the velocities u of the robot, all joints move with v = G u, where G is constant. Equal power
gives tau_u = G^T tau and M_u = G^T M G, and likewise the derivatives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from featherlane.robot.model import Robot
from featherlane.tools.peers.common import Blocks, States

SomeModel = TypeVar("SomeModel", bound=Robot)


def independent(model: SomeModel) -> SomeModel:
    """Returns the robot with its mimic joints made independent."""
    return replace(model, joints=tuple(replace(joint, mimic=None) for joint in model.joints))


class Projected:
    """Makes a peer of `independent(model)` a peer of the model."""

    def __init__(self, peer: Any, model: Robot) -> None:
        self.peer, self.model, self.version = peer, model, peer.version
        self.functions = peer.functions
        self.adjusted, self.unloaded = peer.adjusted, peer.unloaded
        free = independent(model)
        self.G = np.zeros((free.nv, model.nv))
        self.Gq, self.offset = np.zeros((free.nq, model.nq)), np.zeros(free.nq)
        for i, joint in enumerate(model.joints):
            ratio, offset = joint.mimic[1:] if joint.mimic else (1.0, 0.0)
            for k in range(joint.kind.nv):
                self.G[free.first_v[i] + k, model.first_v[i] + k] = ratio
            for k in range(joint.kind.nq):
                self.Gq[free.first_q[i] + k, model.first_q[i] + k] = ratio
                self.offset[free.first_q[i] + k] = offset

    def _all(self, s: States) -> States:
        """Returns the states of all joints; tau is zero, for it does not determine all torques."""
        v = s.v @ self.G.T
        return s._replace(q=s.q @ self.Gq.T + self.offset, v=v, a=s.a @ self.G.T, tau=0 * v)

    def _ours(self, matrix: np.ndarray) -> np.ndarray:
        return self.G.T @ matrix @ self.G

    def inverse_dynamics(self, s: States, frame: str | None) -> Blocks:
        return {"tau": self.peer.inverse_dynamics(self._all(s), frame)["tau"] @ self.G}

    def mass_matrix(self, s: States, frame: str | None) -> Blocks:
        return {"M": self._ours(self.peer.mass_matrix(self._all(s), frame)["M"])}

    def mass_matrix_inverse(self, s: States, frame: str | None) -> Blocks:
        """Returns M^-1; a pseudo-inverse for a singular M, whose states `check` leaves out."""
        return {"Minv": np.linalg.pinv(self.mass_matrix(s, frame)["M"], hermitian=True)}

    def forward_dynamics(self, s: States, frame: str | None) -> Blocks:
        minv = self.mass_matrix_inverse(s, None)["Minv"]
        bias = self.inverse_dynamics(s._replace(a=0 * s.a), frame)["tau"]
        return {"a": (minv @ (s.tau - bias)[..., None])[..., 0]}

    def inverse_dynamics_derivatives(self, s: States, frame: str | None) -> Blocks:
        blocks = self.peer.inverse_dynamics_derivatives(self._all(s), frame)
        return {name: self._ours(block) for name, block in blocks.items()}

    def forward_dynamics_derivatives(self, s: States, frame: str | None) -> Blocks:
        minv = self.mass_matrix_inverse(s, None)["Minv"]
        a = self.forward_dynamics(s, frame)["a"]
        d = self.forward_dynamics_derivatives_from(s._replace(a=a, minv=minv), frame)
        return {**d, "da_dtau": minv}

    def forward_dynamics_derivatives_from(self, s: States, frame: str | None) -> Blocks:
        d = self.inverse_dynamics_derivatives(s, frame)
        return {"da_dq": -s.minv @ d["dtau_dq"], "da_dv": -s.minv @ d["dtau_dv"]}
