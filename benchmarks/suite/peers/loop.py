"""Pinocchio for the scripts that time it alone: the compiled loop, or its Python API."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pinocchio as pin

from featherlane import convert
from featherlane.api.model import Model
from featherlane.functions.table import FUNCTIONS

from .base import FLOAT64
from .native import Loop as Batch
from .native import made
from .with_pinocchio import CompiledLoop

COMPILED = CompiledLoop("pinocchio-cpp", (FLOAT64,))


def build() -> Path:
    """The loop's library, built or from the cache. Raises RuntimeError saying what is missing."""
    if (why := COMPILED.missing()) is not None:
        raise RuntimeError(why)
    return COMPILED.library(FLOAT64)


class Robot:
    """A robot in Pinocchio, from a URDF or as a model of its own, with the given states in its
    layout.
    """

    def __init__(
        self, model: Model, source: str | pin.Model, q: np.ndarray, v: np.ndarray, u: np.ndarray
    ) -> None:
        root = [pin.JointModelFreeFlyer()] if model.root == "free" else []
        read = isinstance(source, str)
        self.model = pin.buildModelFromUrdf(source, *root) if read else source
        self.data = self.model.createData()
        change = convert.pinocchio(model, self.model)
        self.order, self.q = change.order, change.to_q(q)
        self.v, self.u = np.empty_like(v), np.empty_like(u)
        self.v[:, self.order], self.u[:, self.order] = v, u

    def function(self, name: str, k: int = 0) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """A function of the Python API, and its arguments for one state."""
        function, count = {
            "inverse_dynamics": (pin.rnea, 3),
            "forward_dynamics": (pin.aba, 3),
            "mass_matrix": (pin.crba, 1),
            "mass_matrix_inverse": (pin.computeMinverse, 1),
            "inverse_dynamics_derivatives": (pin.computeRNEADerivatives, 3),
            "forward_dynamics_derivatives": (pin.computeABADerivatives, 3),
        }[name]
        state = self.q[k], self.v[k], self.u[k]
        return function, (self.model, self.data, *state[:count])

    def call(self, name: str, k: int = 0) -> Callable[[], Any]:
        """A call of the Python API with one state."""
        function, given = self.function(name, k)
        return lambda: function(*given)

    def answers(self, name: str, k: int) -> tuple[np.ndarray, ...]:
        """The results of one state, in our order of joints, symmetric matrices full."""
        result = self.call(name, k)()
        blocks = result[:2] if name == "inverse_dynamics_derivatives" else result
        blocks = [np.array(x) for x in (blocks if isinstance(blocks, tuple | list) else (blocks,))]
        if name in ("mass_matrix", "mass_matrix_inverse", "forward_dynamics_derivatives"):
            blocks[-1] = np.triu(blocks[-1]) + np.triu(blocks[-1], 1).T
        at = np.ix_(self.order, self.order)
        return tuple(x[self.order] if x.ndim == 1 else x[at] for x in blocks)


class Loop:
    """The compiled loop over the states of a robot, in one thread.

    source: a URDF, or a model that Pinocchio saved as text (.txt), whose root is part of it.
    """

    kind = "C++"

    def __init__(self, library: Path, model: Model, source: str, robot: Robot) -> None:
        types = (ctypes.c_char_p, ctypes.c_int, ctypes.c_int)
        given = (source.encode(), int(model.root == "free"), 1)
        self._batch = Batch(library, lambda x: made(x, types, *given))
        self._inputs = [np.ascontiguousarray(x, np.float64) for x in (robot.q, robot.v, robot.u)]
        self._calls: dict[str, Callable[[int], None]] = {}

    def ns_per_state(self, name: str, passes: int) -> float:
        """The median of some passes, after one that fills the caches."""
        call = self._calls.get(name) or self._prepare(name)
        call(1)
        times = []
        for _ in range(passes):
            start = time.process_time()
            call(1)
            times.append(time.process_time() - start)
        return median(times) / len(self._inputs[0]) * 1e9

    def _prepare(self, name: str) -> Callable[[int], None]:
        batch, nv = self._inputs[1].shape
        sizes = FUNCTIONS[name].outputs.values()
        outputs = [np.empty((batch, *[nv] * len(size))) for size in sizes]
        self._calls[name] = self._batch.passes(name, self._inputs, outputs)
        return self._calls[name]

    def close(self) -> None:
        self._batch.close()


class PythonLoop:
    """The fallback: a Python loop over the first states of the batch."""

    kind = "Python"
    most = 512

    def __init__(self, robot: Robot) -> None:
        self._robot = robot

    def ns_per_state(self, name: str, passes: int) -> float:
        """Of a Python loop; the results are dropped."""
        calls = [self._robot.call(name, k) for k in range(min(self.most, len(self._robot.q)))]

        def one() -> float:
            start = time.process_time()
            for call in calls:
                call()
            return (time.process_time() - start) / len(calls) * 1e9

        one()
        return median(one() for _ in range(passes))

    def close(self) -> None:
        pass


def largest_error(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Relative to the largest entry of each block."""
    pairs = zip(got, expected, strict=True)
    return max(float(np.abs(x - y).max() / (np.abs(y).max() or 1.0)) for x, y in pairs)
