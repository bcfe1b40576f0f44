"""A trajectory of the horizon."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Plan:
    """A trajectory from a time on: states at knots, controls between them."""

    begin: float
    dt: float
    q: np.ndarray  # (K + 1, nq)
    v: np.ndarray  # (K + 1, nv)
    u: np.ndarray  # (K, nu)
    f: np.ndarray  # (K, 4, 3)

    def place(self, t: float) -> tuple[int, float]:
        """The knot before a time and the part of the interval that has passed."""
        s = np.clip((t - self.begin) / self.dt, 0.0, len(self.u) - 1e-9)
        return int(s), float(s - int(s))
