"""What peers on JAX share: vmap over the batch, jit, and derivatives by jacrev or jacfwd."""

from __future__ import annotations

import hashlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import numpy as np

from featherlane.functions.table import FUNCTIONS

from . import reduced
from .base import FLOAT32, FLOAT64, Arrays, Case, Peer, Prepared, Unsupported, lacks
from .native import kept

PLATFORM = "FEATHERLANE_BENCHMARK_JAX"  # where JAX computes: "cuda" in benchmarks on GPUs
COORDINATES = "derivatives by coordinates, not along the motions of a free root"


class Formulas(ABC):
    """A robot in a library: its functions of one state, and the way to its conventions and back.

    q is what the library takes for a configuration, an array or a tuple of arrays; v, a and tau
    are likewise. derivative: what is faster here, of "jacrev" and "jacfwd".
    """

    derivative = "jacrev"

    @abstractmethod
    def states(self, case: Case) -> list[Any]:
        """q, v and u of the whole batch in the library's conventions, as NumPy arrays."""

    @abstractmethod
    def back(self, case: Case, rows: Any, results: Arrays) -> Arrays:
        """Results of some of the states in our conventions."""

    @abstractmethod
    def inverse_dynamics(self, q: Any, v: Any, a: Any) -> Any: ...

    @abstractmethod
    def forward_dynamics(self, q: Any, v: Any, tau: Any) -> Any: ...

    @abstractmethod
    def mass_matrix(self, q: Any) -> Any: ...

    @abstractmethod
    def mass_matrix_inverse(self, q: Any) -> Any: ...

    def inverse_dynamics_derivatives(self, q: Any, v: Any, a: Any) -> Any:
        return self._derivative()(self.inverse_dynamics, (0, 1))(q, v, a)

    def forward_dynamics_derivatives(self, q: Any, v: Any, tau: Any) -> Any:
        return self._derivative()(self.forward_dynamics, (0, 1, 2))(q, v, tau)

    def _derivative(self) -> Any:
        import jax

        return getattr(jax, self.derivative)


class JaxPeer(Peer):
    """A library of JAX functions of one state, on the CPU."""

    packages: tuple[tuple[str, str], ...]  # modules, and what brings them
    settings: str
    precisions, heavy = (FLOAT64, FLOAT32), True

    def formulas(self, case: Case) -> Formulas:
        """The robot of a case, in its dtype."""
        raise NotImplementedError

    def refused(self, case: Case) -> Unsupported | None:
        if "derivatives" in case.name and case.model.root != "fixed":
            return Unsupported(COORDINATES)
        return reduced.refused(case)

    def missing(self) -> str | None:
        return lacks(*self.packages, ("jax", "jax jaxlib"))

    def version(self) -> str:
        package = self.packages[0][1].partition("[")[0]
        return f"{metadata.version(package)} (jax {metadata.version('jax')})"

    def prepare(self, case: Case) -> Prepared | Unsupported:
        if (why := self.refused(case)) is not None:
            return why
        with precision(case.dtype):
            formulas = self.formulas(case)
            given = on_device(formulas.states(case), len(FUNCTIONS[case.name].inputs))
            passes, last, seconds = compiled(getattr(formulas, case.name), given, case.dtype)
        found = {str(x.dtype) for x in blocks(last)}
        if found != {case.dtype}:
            raise RuntimeError(f"asked for {case.dtype}, it gives {', '.join(sorted(found))}")
        flags = os.environ.get("XLA_FLAGS", "")
        told = (self.name, self.version(), case.model.fingerprint, case.name, case.dtype)
        seconds = at_first((*told, case.batch, flags), seconds)

        def answers(rows: Any) -> Arrays:
            return formulas.back(case, rows, tuple(np.asarray(x)[rows] for x in blocks(last)))

        return Prepared(passes, answers, seconds, self.settings, last.clear)


def blocks(last: list[Any]) -> tuple[Any, ...]:
    """The last results, one or several."""
    return tuple(last[0]) if isinstance(last[0], tuple | list) else (last[0],)


def at_first(key: tuple[Any, ...], seconds: float) -> float:
    """The seconds that compiling took when it was done, since JAX keeps the code on disk."""
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    file = kept("jax") / f"{digest}.seconds"
    if file.exists():
        return float(file.read_text())
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file.write_text(f"{seconds:.3f}")
    return seconds


@contextmanager
def precision(dtype: str) -> Iterator[None]:
    """JAX with 64 bits or without, whatever a library has set."""
    import jax

    jax.config.update("jax_platforms", os.environ.get(PLATFORM, "cpu"))
    if not hasattr(jax, "enable_x64"):  # adam's extra asks for JAX 0.6
        from jax.experimental import enable_x64
    else:
        enable_x64 = jax.enable_x64
    with enable_x64(dtype == FLOAT64):
        yield


def on_device(states: list[Any], count: int) -> list[Any]:
    import jax

    return [jax.tree.map(jax.device_put, x) for x in states[:count]]


def compiled(
    function: Callable[..., Any], given: list[Any], dtype: str
) -> tuple[Callable[[int], None], list[Any], float]:
    """The function over a batch: its passes, a list with the last results, and the seconds that
    its first call took longer than the next.
    """
    import jax

    jax.config.update("jax_compilation_cache_dir", str(kept("jax")))

    batched = jax.jit(jax.vmap(function))
    last: list[Any] = [None]

    def passes(count: int) -> None:
        with precision(dtype):
            for _ in range(count):
                last[0] = jax.block_until_ready(batched(*given))

    times = []
    for _ in range(2):
        start = time.perf_counter()
        passes(1)
        times.append(time.perf_counter() - start)
    return passes, last, times[0] - times[1]
