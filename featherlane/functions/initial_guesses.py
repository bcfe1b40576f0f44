"""First configurations for the searches of inverse kinematics."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

DRAWN = 64  # configurations at a time
AROUND = 0.7  # of the way from the centre to a limit: where they are


class FirstConfigurations:
    """First configurations of searches: the user's q0, if there is one, the centres of the limits,
    then random configurations around them, the same for all targets and any number of restarts.
    """

    def __init__(
        self,
        model: Any,
        first: np.ndarray | None,
        seed: int,
        limits: Any,
        moves: np.ndarray,
    ) -> None:
        """model: with `neutral` and `random_configuration`. limits: its `position_limits` in the
        dtype of the search. moves: whether entries of q move a frame; others are the same in all
        starts.
        """
        self.model, self.first, self.seed = model, first, seed
        self.limits, self.moves = limits, moves

    def __call__(self, k: int, rows: np.ndarray) -> np.ndarray:
        """Returns start number k for some rows of the targets."""
        stays = self.center if self.first is None else self.first[rows]
        if self.first is not None and k == 0:
            return stays
        n = k - (self.first is not None)  # of the starts that all targets have
        start = self._drawn(n - 1) if n else self.center
        return np.where(self.moves, start, np.broadcast_to(stays, (len(rows), len(start))))

    @cached_property
    def _has_center(self) -> np.ndarray:
        return np.isfinite(self.limits.upper - self.limits.lower)

    @cached_property
    def center(self) -> np.ndarray:
        lower, upper = self.limits
        center = np.clip(self.model.neutral(lower.dtype), lower, upper)
        has = self._has_center
        center[has] = 0.5 * (lower[has] + upper[has])
        return center

    @cached_property
    def _random(self) -> tuple[np.random.Generator, list[np.ndarray]]:
        return np.random.default_rng(self.seed), []

    def _drawn(self, k: int) -> np.ndarray:
        (rng, drawn), center = self._random, self.center
        while k >= len(drawn):
            drawn += [*self.model.random_configuration(DRAWN, seed=rng, dtype=center.dtype)]
        share = center.dtype.type(AROUND)
        return np.where(self._has_center, center + share * (drawn[k] - center), drawn[k])
