"""Pinocchio: compiled loops over its C++ functions, its Python API, and its own parallel calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from featherlane import convert

from .base import FLOAT32, Arrays, Case, Peer, Prepared, Unsupported, lacks
from .native import HERE, Loop, OfLibraries, Recipe, compiler, made, shared_library

SOURCE = HERE / "pinocchio_loop.cpp"
EIGEN = (Path("/usr/include/eigen3"), Path("/usr/local/include/eigen3"))
DEFINITIONS = (
    "-DPINOCCHIO_WITH_URDFDOM",
    "-DBOOST_FUSION_INVOKE_MAX_ARITY=12",
    "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
    "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30",
)
LIBRARIES = (
    "-lpinocchio_parsers",
    "-lpinocchio_default",
    "-lboost_serialization",
    "-lboost_filesystem",
)
# With the alignment of the wheel's libraries, which were built for less
NATIVE = ("-march=native", "-DEIGEN_MAX_ALIGN_BYTES=16", "-DEIGEN_MALLOC_ALREADY_ALIGNED=1")
SYMMETRIC = {"mass_matrix": 0, "mass_matrix_inverse": 0, "forward_dynamics_derivatives": 2}


def prefix() -> Path | None:
    """Where the wheel keeps headers and libraries."""
    spec = find_spec("pinocchio")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parents[4]


class Robot(NamedTuple):
    """A robot in Pinocchio, and the order of our entries of v there."""

    model: Any
    change: convert.Change

    @staticmethod
    def read(model: Any, source: str) -> Robot:
        import pinocchio as pin

        root = [pin.JointModelFreeFlyer()] if model.root == "free" else []
        peer = pin.buildModelFromUrdf(source, *root)
        return Robot(peer, convert.pinocchio(model, peer))

    def states(self, q: np.ndarray, v: np.ndarray, u: np.ndarray) -> list[np.ndarray]:
        """In Pinocchio's layout."""
        there = [self.change.to_q(q), np.empty_like(v), np.empty_like(u)]
        there[1][:, self.change.order], there[2][:, self.change.order] = v, u
        return [np.ascontiguousarray(x) for x in there]

    def back(self, blocks: list[np.ndarray], by_column: bool = True) -> Arrays:
        """Results in our order; matrices of the compiled loop are stored column by column."""
        order = self.change.order
        turned = (x.swapaxes(1, 2) if by_column and x.ndim == 3 else x for x in blocks)
        return tuple(
            x[:, order] if x.ndim == 2 else x[:, order[:, None], order[None, :]] for x in turned
        )


class _Pinocchio(Peer):
    def missing(self) -> str | None:
        return lacks(("pinocchio", "pin"))

    def version(self) -> str:
        return metadata.version("pin")


class CompiledLoop(OfLibraries, _Pinocchio):
    """Pinocchio's functions in a loop of ours over the batch, split over threads."""

    def __init__(self, name: str, precisions: tuple[str, ...], flags: tuple[str, ...] = ()) -> None:
        self.name, self.precisions, self.flags = name, precisions, flags

    def missing(self) -> str | None:
        absent = super().missing()
        if absent:
            return absent
        if compiler("clang++", "g++") is None:
            return "there is no clang++ or g++"
        needed = (("Eigen/Core", "Eigen's", [*EIGEN, prefix() / "include/eigen3"]),)  # type: ignore[operator]
        needed += (("pinocchio/multibody.hpp", "Pinocchio's", [prefix() / "include"]),)  # type: ignore[operator]
        for header, whose, places in needed:
            if not any((place / header).exists() for place in places):
                return f"{whose} headers were not found (apt-get install libeigen3-dev)"
        return None

    def recipes(self) -> list[Recipe]:
        """Of the loops of both precisions."""
        return [self._recipe(dtype) for dtype in self.precisions]

    def library(self, dtype: str) -> Path:
        """Built when first needed: a minute or two."""
        return shared_library(*self._recipe(dtype))[0]

    def _recipe(self, dtype: str) -> Recipe:
        scalar = "float" if dtype == FLOAT32 else "double"
        return self.recipe(SOURCE, "-O3", *self.flags, f"-DSCALAR={scalar}")

    @staticmethod
    def recipe(source: Path, optimized: str, *more: str) -> Recipe:
        """The text of a source, and what the compiler and the linker are told."""
        at = prefix()
        assert at is not None
        eigen = next(x for x in (at / "include/eigen3", *EIGEN) if (x / "Eigen/Core").exists())
        flags = ["-std=c++17", optimized, "-DNDEBUG", *DEFINITIONS, *more]
        flags += [f"-I{at}/include", f"-I{eigen}"]
        link = [f"-L{at}/lib", *LIBRARIES, f"-Wl,-rpath,{at}/lib"]
        return source.read_text(), flags, link

    def loop(self, dtype: str, source: str, free: bool, threads: int) -> Loop:
        types = (ctypes.c_char_p, ctypes.c_int, ctypes.c_int)
        given = (source.encode(), int(free), threads)
        return Loop(self.library(dtype), lambda library: made(library, types, *given))

    def prepare(self, case: Case) -> Prepared | Unsupported:
        loop = self.loop(case.dtype, case.source, case.model.root == "free", case.threads)
        return on_arrays(loop, case, " ".join(["clang++ -O3", *self.flags]))


def on_arrays(loop: Loop, case: Case, settings: str, seconds: float = 0.0) -> Prepared:
    """A loop with the states and the results of a case, in Pinocchio's layout. seconds: that
    compiling it took.
    """
    robot = Robot.read(case.model, case.source)
    inputs = [x.astype(case.dtype) for x in robot.states(*case.exact())]
    outputs = case.empty()
    return Prepared(
        loop.passes(case.name, inputs, outputs),
        lambda rows: robot.back([x[rows] for x in outputs]),
        seconds,
        settings,
        loop.close,
    )


class PythonAPI(_Pinocchio):
    """Pinocchio's Python API, one state at a time, results stored in arrays."""

    name = "pinocchio-python"

    def prepare(self, case: Case) -> Prepared | Unsupported:
        if case.threads > 1:
            return Unsupported("its calls hold Python's lock")
        robot = Robot.read(case.model, case.source)
        outputs = case.empty()
        states = list(zip(*robot.states(*case.exact()), strict=True))
        call = calls(robot.model)[case.name]

        def passes(count: int) -> None:
            for _ in range(count):
                for k, state in enumerate(states):
                    for block, result in zip(outputs, call(*state), strict=True):
                        block[k] = result

        return Prepared(
            passes,
            lambda rows: robot.back(full(case.name, [x[rows] for x in outputs]), False),
            settings="a loop",
        )


def calls(model: Any) -> dict[str, Callable[..., Any]]:
    """Its functions of one state by name, each giving a tuple of blocks; upper triangles only."""
    import pinocchio as pin

    data = model.createData()
    return {
        "inverse_dynamics": lambda q, v, a: (pin.rnea(model, data, q, v, a),),
        "forward_dynamics": lambda q, v, tau: (pin.aba(model, data, q, v, tau),),
        "mass_matrix": lambda q, v, u: (pin.crba(model, data, q),),
        "mass_matrix_inverse": lambda q, v, u: (pin.computeMinverse(model, data, q),),
        "inverse_dynamics_derivatives": lambda q, v, a: pin.computeRNEADerivatives(
            model, data, q, v, a
        )[:2],
        "forward_dynamics_derivatives": lambda q, v, tau: pin.computeABADerivatives(
            model, data, q, v, tau
        ),
    }


def full(name: str, blocks: list[np.ndarray]) -> list[np.ndarray]:
    """Symmetric results with both triangles."""
    at = SYMMETRIC.get(name)
    if at is None:
        return blocks
    upper = np.triu(blocks[at])
    return [*blocks[:at], upper + np.triu(upper, 1).swapaxes(1, 2), *blocks[at + 1 :]]


class InParallel(_Pinocchio):
    """`rneaInParallel` and `abaInParallel`: columns of states, over OpenMP's threads."""

    name = "pinocchio-in-parallel"

    def prepare(self, case: Case) -> Prepared | Unsupported:
        import pinocchio as pin

        names = {"inverse_dynamics": "rneaInParallel", "forward_dynamics": "abaInParallel"}
        if case.name not in names:
            return Unsupported("only rneaInParallel and abaInParallel exist")
        function = getattr(pin, names[case.name], None)
        if function is None:
            return Unsupported("this build of Pinocchio has no OpenMP")
        robot = Robot.read(case.model, case.source)
        pool = pin.ModelPool(robot.model, case.threads)
        q, v, u = (np.asfortranarray(x.T) for x in robot.states(*case.exact()))
        result = np.zeros_like(u, order="F")

        def passes(count: int) -> None:
            for _ in range(count):
                function(case.threads, pool, q, v, u, result)

        return Prepared(passes, lambda rows: robot.back([result.T[rows]]), settings="results given")
