"""Damping, dry friction and springs, from a peer whose functions have none.

The torques that joints need to overcome their resistance r(q, v) = D v + f v / sqrt(v^2 + v_f^2) +
K (q - q0) are added to the peer's, and its forward dynamics gets tau - r; v_f is the model's
friction_velocity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from featherlane.robot.model import Robot
from featherlane.tools.peers.common import Blocks, States


class Resisted:
    """Makes a peer of the robot without damping, friction and springs one of the robot with them.

    model: without joints that follow others.
    """

    def __init__(self, peer: Any, model: Robot) -> None:
        self.peer, self.model, self.version = peer, model, peer.version
        self.functions = peer.functions
        self.adjusted, self.unloaded = peer.adjusted, peer.unloaded
        self.mass_matrix, self.mass_matrix_inverse = peer.mass_matrix, peer.mass_matrix_inverse

    def _speed(self, v: np.ndarray) -> np.ndarray:
        return np.hypot(v, self.model.friction_velocity)

    def _torque(self, s: States) -> np.ndarray:
        resistance = self.model.damping * s.v + self.model.friction * s.v / self._speed(s.v)
        # an entry of q for each of v; springs read those of joints of one degree of freedom alone
        joints = zip(self.model.first_q, self.model.types, strict=True)
        q = s.q[
            ..., [first + min(k, kind.nq - 1) for first, kind in joints for k in range(kind.nv)]
        ]
        return np.asarray(resistance + self.model.stiffness * (q - self.model.spring_reference))

    def _slope(self, v: np.ndarray) -> np.ndarray:
        """Returns the diagonal matrices dr/dv."""
        smoothed = self.model.friction_velocity**2 / self._speed(v) ** 3
        slopes = self.model.damping + self.model.friction * smoothed
        return np.asarray(slopes[..., None] * np.eye(self.model.nv))

    def _without(self, s: States) -> States:
        return s._replace(tau=s.tau - self._torque(s))

    def inverse_dynamics(self, s: States, frame: str | None) -> Blocks:
        return {"tau": self.peer.inverse_dynamics(s, frame)["tau"] + self._torque(s)}

    def forward_dynamics(self, s: States, frame: str | None) -> Blocks:
        return dict(self.peer.forward_dynamics(self._without(s), frame))

    def inverse_dynamics_derivatives(self, s: States, frame: str | None) -> Blocks:
        d = self.peer.inverse_dynamics_derivatives(s, frame)
        dtau_dq = d["dtau_dq"] + np.diag(self.model.stiffness)
        return {**d, "dtau_dq": dtau_dq, "dtau_dv": d["dtau_dv"] + self._slope(s.v)}

    def forward_dynamics_derivatives(self, s: States, frame: str | None) -> Blocks:
        d = self.peer.forward_dynamics_derivatives(self._without(s), frame)
        return {**d, **self._slopes(d, s.v, d["da_dtau"])}

    def forward_dynamics_derivatives_from(self, s: States, frame: str | None) -> Blocks:
        d = self.peer.forward_dynamics_derivatives_from(s, frame)
        return {**d, **self._slopes(d, s.v, s.minv)}

    def _slopes(self, d: Blocks, v: np.ndarray, minv: np.ndarray) -> Blocks:
        """Returns da/dq and da/dv of the peer less M^-1 times the slopes of the resistance."""
        da_dq = d["da_dq"] - minv * self.model.stiffness
        return {"da_dq": da_dq, "da_dv": d["da_dv"] - minv @ self._slope(v)}
