"""What right answers are: Pinocchio's Python API on some states of a batch, in float64.

Where Pinocchio is not installed or does not load the robot, ours in float64 stands in, and the
results say so: peers and float32 are then compared with it, but it is compared with nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from featherlane.api.model import Model
from featherlane.functions.table import CALLED
from featherlane.robot.loaders import xml_text
from featherlane.tools.check import NOISE
from featherlane.tools.peers import PEERS, States

from .robots import Robot

CHECKED = 24  # states of a batch, the first and the last among them
# Far above rounding, since it is here to find nonsense, and relative to a block's largest entry
ALLOWED = {"float64": 1e-8, "float32": 1e-3}
SLACK = 100.0  # times eps cond(M), where M is divided by


class Expected(NamedTuple):
    """Right answers at some states of a batch."""

    rows: np.ndarray  # which states
    blocks: tuple[np.ndarray, ...]
    condition: np.ndarray  # of M, in each


class Verdict(NamedTuple):
    error: float  # of the worst state, relative to its largest entry; infinite for NaN
    allowed: float
    singular: bool = False  # M is, in this dtype and at every state: there is nothing to compare

    @property
    def right(self) -> bool:
        return self.singular or self.error <= self.allowed


class Oracle:
    """Right answers for one robot. `kind` says whose, `independent` whether they are not ours."""

    def __init__(self, robot: Robot, model: Model) -> None:
        self._model, self._peer = model, None
        text, path = xml_text(robot.urdf)
        try:
            self._peer = PEERS["pinocchio"](text, model, True, path)
            self.kind = f"Pinocchio {self._peer.version}, Python"
        except RuntimeError:
            self.kind = "featherlane float64"
        self.independent = self._peer is not None

    def expected(self, name: str, q: np.ndarray, v: np.ndarray, u: np.ndarray) -> Expected:
        """At some of the given states: (batch, n) each, u being a or tau."""
        rows = np.unique(np.linspace(0, len(q) - 1, CHECKED).astype(int))
        q, v, u = (x[rows].astype(np.float64) for x in (q, v, u))
        M = self._blocks("mass_matrix", q, v, u)[0]
        return Expected(rows, self._blocks(name, q, v, u), np.linalg.cond(M))

    def _blocks(
        self, name: str, q: np.ndarray, v: np.ndarray, u: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        if self._peer is not None:
            none = np.empty((len(q), 0))
            blocks = getattr(self._peer, name)(States(q, v, u, u, none, none), None)
            return tuple(blocks[key] for key in self._model.function(name).outputs)
        function = self._model.function(name)
        result = function(*(q, v, u)[: len(function.inputs)])
        return result if isinstance(result, tuple) else (result,)


def judge(got: Sequence[np.ndarray], expected: Expected, name: str, dtype: str) -> Verdict:
    """got: the same states, block by block."""
    base, eps = ALLOWED[dtype], float(np.finfo(dtype).eps)
    allowed = np.full(len(expected.rows), base)
    used = np.full(len(expected.rows), True)
    if CALLED[name].divides:
        allowed = np.maximum(base, SLACK * eps * expected.condition)
        used = eps * expected.condition <= 1  # else no digit is left
    if not used.any():
        return Verdict(0.0, 1.0, singular=True)
    largest = [_largest(block) for block in expected.blocks]
    floor = NOISE * max(float(x[used].max()) for x in largest)
    error = np.zeros(len(expected.rows))
    for x, block, size in zip(got, expected.blocks, largest, strict=True):
        with np.errstate(all="ignore"):
            difference = _largest(x.astype(np.float64) - block) / np.maximum(size, floor)
        error = np.maximum(error, np.nan_to_num(difference, nan=np.inf))
    error[~used] = 0.0
    worst = int(np.argmax(error / allowed))
    return Verdict(float(error[worst]), float(allowed[worst]))


def _largest(block: np.ndarray) -> np.ndarray:
    """The largest entry of each state."""
    return np.abs(block.reshape(len(block), -1)).max(axis=1)
