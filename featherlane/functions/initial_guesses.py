"""First configurations for the searches of inverse kinematics."""

from __future__ import annotations

from typing import Any

import numpy as np

DRAWN = 64  # configurations at a time
AROUND = 0.7  # of the way from the centre to a limit: where they are


def initial_guesses(
    model: Any, first: np.ndarray | None, seed: int, limits: Any, moves: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first start of all targets (targets, nq), or of each (1, nq), and all starts
    (count, nq), NaN where they are as in the first one.

    They are the user's q0, `first`, if there is one, the centres of the limits, then random
    configurations around them, the same for all targets and any number of starts. model: with
    `neutral` and `random_configuration`. limits: its `position_limits` in the dtype of the search.
    moves: whether entries of q move a frame.
    """
    has_center = np.isfinite(limits.upper - limits.lower)
    center = np.clip(model.neutral(limits.lower.dtype), *limits)
    center[has_center] = 0.5 * (limits.lower[has_center] + limits.upper[has_center])
    drawn = _drawn(model, seed, center.dtype, count)
    near = np.where(has_center, center + center.dtype.type(AROUND) * (drawn - center), drawn)
    starts = np.concatenate([center[None], near])
    if first is not None:
        starts = np.concatenate([center[None], starts])  # in place of the first, which is not read
    starts = np.where(moves, starts[:count], center.dtype.type(np.nan))
    starts[0] = np.nan
    return center[None] if first is None else first, starts


def _drawn(model: Any, seed: int, dtype: np.dtype, count: int) -> np.ndarray:
    """Returns random configurations, `count` or more. The model stores the latest ones: to draw
    them takes a third of the time of a call with one target.
    """
    (stored, drawn) = model.__dict__.get("_drawn", (None, ()))
    if stored != (seed, dtype) or len(drawn) < count:
        rng = np.random.default_rng(seed)
        blocks = range(-(-count // DRAWN))
        drawn = np.concatenate(
            [model.random_configuration(DRAWN, seed=rng, dtype=dtype) for _ in blocks]
        )
        model.__dict__["_drawn"] = (seed, dtype), drawn
    return drawn
