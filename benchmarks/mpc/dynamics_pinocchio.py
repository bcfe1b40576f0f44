"""Steps of all knots and their derivatives by Pinocchio, compiled, on threads over the knots."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

import numpy as np
from robot import FEET, Quadruped
from suite.peers.native import LONG, POINTER, made, shared_library
from suite.peers.with_pinocchio import DEFINITIONS, EIGEN, LIBRARIES, NATIVE, prefix

SOURCE = Path(__file__).parent / "dynamics_pinocchio.cpp"


def _recipe() -> tuple[str, list[str], list[str]]:
    """The source, and what the compiler and the linker are told. Raises RuntimeError where
    Pinocchio or Eigen's headers are missing.
    """
    at = prefix()
    if at is None:
        raise RuntimeError("Pinocchio is not installed: pip install pin")
    places = (at / "include/eigen3", *EIGEN)
    eigen = next((x for x in places if (x / "Eigen/Core").exists()), None)
    if eigen is None:
        raise RuntimeError("Eigen's headers were not found: apt-get install libeigen3-dev")
    flags = ["-std=c++17", "-O3", "-DNDEBUG", *DEFINITIONS, *NATIVE]
    flags += [f"-I{at}/include", f"-I{eigen}"]
    return SOURCE.read_text(), flags, [f"-L{at}/lib", *LIBRARIES, f"-Wl,-rpath,{at}/lib"]


def library() -> Path:
    """The path of the compiled code, built when first needed: a minute or more."""
    return shared_library(*_recipe())[0]


class Pinocchio:
    """The same interface as Featherlane's."""

    name = "Pinocchio"
    clock = staticmethod(time.thread_time)

    def __init__(self, robot: Quadruped, knots: int, threads: int) -> None:
        self._library = ctypes.CDLL(str(library()))
        types = ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int
        given = robot.urdf.encode(), "\n".join(FEET).encode(), threads
        self._horizon = POINTER(made(self._library, types, *given))
        self._library.run.argtypes = (
            POINTER,
            LONG,
            *[POINTER] * 4,
            ctypes.c_double,
            *[POINTER] * 4,
        )
        model = robot.model
        self.threads, nv, columns = threads, model.nv, model.nv - 6 + 3 * len(FEET)
        shapes = ((model.nq,), (nv,), (2 * nv, 2 * nv), (2 * nv, columns))
        self.out = tuple(np.empty((knots, *shape)) for shape in shapes)

    def _run(self, given: tuple[np.ndarray, ...], dt: float, out: tuple[np.ndarray, ...]) -> None:
        arrays = [np.ascontiguousarray(x, float) for x in given]
        pointers = [x.ctypes.data for x in out] + [None] * (4 - len(out))
        inputs = [x.ctypes.data for x in arrays]
        self._library.run(self._horizon, len(arrays[0]), *inputs, dt, *pointers)

    def linearise(
        self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray, dt: float
    ) -> tuple[np.ndarray, ...]:
        """The next q and v, A and B. The next call overwrites them."""
        self._run((q, v, u, f), dt, self.out)
        return self.out

    def step(
        self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray, dt: float
    ) -> tuple[np.ndarray, ...]:
        """The next q and v."""
        out = np.empty_like(q), np.empty_like(v)
        self._run((q, v, u, f), dt, out)
        return out

    def __del__(self) -> None:
        if horizon := getattr(self, "_horizon", None):
            self._library.destroy(horizon)
