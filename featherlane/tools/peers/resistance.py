"""Damping and dry friction, from a peer whose functions have none.

The torques that joints need to overcome their resistance r(v) = D v + f v / sqrt(v^2 + v_f^2) are
added to the peer's, and its forward dynamics gets tau - r(v); v_f is the model's friction_velocity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from featherlane.robot.model import Robot
from featherlane.tools.peers.common import Blocks, States


class Resisted:
    """Makes a peer of the robot without damping and friction one of the robot with both."""

    def __init__(self, peer: Any, model: Robot) -> None:
        self.peer, self.model, self.version = peer, model, peer.version
        self.functions = peer.functions
        self.adjusted, self.unloaded = peer.adjusted, peer.unloaded
        self.mass_matrix, self.mass_matrix_inverse = peer.mass_matrix, peer.mass_matrix_inverse

    def _speed(self, v: np.ndarray) -> np.ndarray:
        return np.hypot(v, self.model.friction_velocity)

    def _torque(self, v: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.damping * v + self.model.friction * v / self._speed(v))

    def _slope(self, v: np.ndarray) -> np.ndarray:
        """Returns the diagonal matrices dr/dv."""
        smoothed = self.model.friction_velocity**2 / self._speed(v) ** 3
        slopes = self.model.damping + self.model.friction * smoothed
        return np.asarray(slopes[..., None] * np.eye(self.model.nv))

    def _without(self, s: States) -> States:
        return s._replace(tau=s.tau - self._torque(s.v))

    def inverse_dynamics(self, s: States, frame: str | None) -> Blocks:
        return {"tau": self.peer.inverse_dynamics(s, frame)["tau"] + self._torque(s.v)}

    def forward_dynamics(self, s: States, frame: str | None) -> Blocks:
        return dict(self.peer.forward_dynamics(self._without(s), frame))

    def inverse_dynamics_derivatives(self, s: States, frame: str | None) -> Blocks:
        d = self.peer.inverse_dynamics_derivatives(s, frame)
        return {**d, "dtau_dv": d["dtau_dv"] + self._slope(s.v)}

    def forward_dynamics_derivatives(self, s: States, frame: str | None) -> Blocks:
        d = self.peer.forward_dynamics_derivatives(self._without(s), frame)
        return {**d, "da_dv": d["da_dv"] - d["da_dtau"] @ self._slope(s.v)}

    def forward_dynamics_derivatives_from(self, s: States, frame: str | None) -> Blocks:
        d = self.peer.forward_dynamics_derivatives_from(s, frame)
        return {**d, "da_dv": d["da_dv"] - s.minv @ self._slope(s.v)}
