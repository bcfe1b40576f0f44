"""Random numbers of many environments, each from a seed and a counter of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from featherlane.errors import shown

GAMMA = np.uint64(0x9E3779B97F4A7C15)
ROUNDS = (  # shifts and factors of SplitMix64's finaliser (Steele, Lea and Flood 2014)
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
    (np.uint64(31), np.uint64(1)),
)
LARGEST = 2**64 - 1


class RandomStreams:
    """Uniform numbers of environments by SplitMix64: those of one environment depend on its seed,
    and on how many it has drawn, not on its neighbours. Without seeds they are unpredictable.
    """

    def __init__(self, count: int) -> None:
        self.state = np.random.SeedSequence().generate_state(count, np.uint64)

    def seed(self, seeds: Sequence[int | None], mask: np.ndarray) -> np.ndarray:
        """Begins the streams of the environments in a mask that have a seed anew, and returns which
        these are.
        """
        rows = [i for i, seed in enumerate(seeds) if mask[i] and seed is not None]
        self.state[rows] = _mixed(np.array([seeds[i] for i in rows], np.uint64))
        return np.array(rows, int)

    def draw(self, rows: Any, count: int, dtype: Any) -> np.ndarray:
        """Returns numbers in [0, 1) (len(rows), count), the next ones of these environments."""
        bits = 24 if dtype == np.float32 else 53
        steps = GAMMA * np.arange(1, count + 1, dtype=np.uint64)
        words = _mixed(self.state[rows][:, None] + steps)
        self.state[rows] += steps[-1]
        return (words >> np.uint64(64 - bits)).astype(dtype) * dtype(2.0**-bits)


def checked_seeds(seed: Any, count: int) -> list[int | None]:
    """Returns the seed of each environment: seed + i of one number, None for those that keep their
    stream. Raises ValueError for anything but None, a number, or a list of so many of them.
    """
    if seed is None:
        return [None] * count
    seeds = [seed + i for i in range(count)] if _is_whole(seed) else seed
    wanted = f"wanted None, an integer, or one of them for each of the {count} environments"
    if not isinstance(seeds, Sequence | np.ndarray) or len(seeds) != count:
        raise ValueError(f"seed is {shown(seed)}: {wanted}")
    for x in seeds:
        if x is not None and not (_is_whole(x) and 0 <= x <= LARGEST):
            raise ValueError(f"seed has {shown(x)}: {wanted}, from 0 to 2^64 - 1")
    return [*seeds]


def _is_whole(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _mixed(words: np.ndarray) -> np.ndarray:
    for shift, factor in ROUNDS:
        words = (words ^ (words >> shift)) * factor
    return words
