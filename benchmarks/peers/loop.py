"""Pinocchio as a peer, on the states that we compute: a C++ loop built here, or its Python API."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pinocchio as pin

from featherlane import convert
from featherlane.cache import folder
from featherlane.dynamics import Model

SOURCE = Path(__file__).parent / "pinocchio_loop.cpp"
PREFIX = Path(pin.__file__).parents[4]
EIGEN = (PREFIX / "include/eigen3", Path("/usr/include/eigen3"), Path("/usr/local/include/eigen3"))
FLAGS = [
    "-std=c++17",
    "-O3",
    "-DNDEBUG",
    "-DPINOCCHIO_WITH_URDFDOM",
    "-DBOOST_FUSION_INVOKE_MAX_ARITY=12",
    "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
    "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30",
]
LIBRARIES = [
    "-lpinocchio_parsers",
    "-lpinocchio_default",
    "-lboost_serialization",
    "-lboost_filesystem",
]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def example_robot(path: str) -> Path:
    """Where example-robot-data keeps a robot, if it is installed."""
    return PREFIX / "share/example-robot-data/robots" / path


def compiler() -> str | None:
    return next((c for c in map(shutil.which, ("clang++", "g++")) if c), None)


def build() -> Path:
    """The program, built or from the cache. Raises RuntimeError saying what is missing."""
    cxx = compiler()
    if cxx is None:
        raise RuntimeError("there is no clang++ or g++")
    eigen = next((path for path in EIGEN if (path / "Eigen/Core").exists()), None)
    if eigen is None:
        raise RuntimeError("Eigen's headers were not found")
    if not (PREFIX / "include/pinocchio").exists():
        raise RuntimeError(f"Pinocchio's headers are not in {PREFIX}")
    includes = [f"-I{PREFIX}/include", f"-I{eigen}"]
    link = [f"-L{PREFIX}/lib", *LIBRARIES, f"-Wl,-rpath,{PREFIX}/lib"]
    key = f"{SOURCE.read_text()} {cxx} {FLAGS} {includes} {link} {pin.__version__}"
    directory = (folder() or Path(tempfile.mkdtemp())) / "peers"
    program = directory / f"pinocchio_loop_{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    if not program.exists():
        say(f"building the C++ loop with {cxx} (about 40 s)")
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = program.with_suffix(".new")
        command = [cxx, *FLAGS, *includes, str(SOURCE), "-o", str(made), *link]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            why = [line for line in done.stderr.splitlines() if "error" in line]
            raise RuntimeError(f"the C++ loop does not compile: {(why or ['?'])[0]}")
        made.rename(program)
    return program


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

    def call(self, name: str, k: int = 0) -> Callable[[], Any]:
        """A call of the Python API with one state."""
        m, d, q, v, u = self.model, self.data, self.q[k], self.v[k], self.u[k]
        return {
            "inverse_dynamics": lambda: pin.rnea(m, d, q, v, u),
            "forward_dynamics": lambda: pin.aba(m, d, q, v, u),
            "mass_matrix": lambda: pin.crba(m, d, q),
            "mass_matrix_inverse": lambda: pin.computeMinverse(m, d, q),
            "inverse_dynamics_derivatives": lambda: pin.computeRNEADerivatives(m, d, q, v, u),
            "forward_dynamics_derivatives": lambda: pin.computeABADerivatives(m, d, q, v, u),
        }[name]

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
    """The C++ loop over the states of a robot: one process, asked for one figure at a time."""

    kind = "C++"

    def __init__(self, program: Path, model: Model, source: str, robot: Robot) -> None:
        with tempfile.NamedTemporaryFile(suffix=".states", delete=False) as file:
            for array in (robot.q, robot.v, robot.u):
                file.write(array.astype(np.float64).tobytes())
        self._states = Path(file.name)
        arguments = [program, source, model.root, file.name, str(len(robot.q))]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True)

    def ns_per_state(self, name: str, passes: int) -> float:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{name} {passes}\n")
        stdin.flush()
        return float(stdout.readline())

    def close(self) -> None:
        self._process.communicate()
        self._states.unlink(missing_ok=True)


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
            start = time.perf_counter()
            for call in calls:
                call()
            return (time.perf_counter() - start) / len(calls) * 1e9

        one()
        return median(one() for _ in range(passes))

    def close(self) -> None:
        pass


def largest_error(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Relative to the largest entry of each block."""
    pairs = zip(got, expected, strict=True)
    return max(float(np.abs(x - y).max() / (np.abs(y).max() or 1.0)) for x, y in pairs)
