"""What an adapter is: a peer prepares a case once, and then runs it as often as it is timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from featherlane.api.model import Model
from featherlane.functions.table import FUNCTIONS

Arrays = tuple[np.ndarray, ...]
Rows = slice | np.ndarray
FLOAT64, FLOAT32 = "float64", "float32"


@dataclass(frozen=True, eq=False)
class Case:
    """One function of one robot on one batch of states.

    model: the robot without damping and friction, joints that follow others independent
    (`robots.Robot.model`). source: the path of its URDF. name: a function of the model that gives
    vectors or (nv, nv) blocks. q (batch, nq), v and u (batch, nv), u being a or tau: float64 arrays
    in our conventions; for float32 they are rounded to it. threads: 1, or as many as may be used.
    """

    model: Model
    source: str
    name: str
    dtype: str
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    threads: int = 1

    @property
    def batch(self) -> int:
        return len(self.q)

    def given(self) -> Arrays:
        """What the function takes, in its dtype: q; q, v, u."""
        count = len(FUNCTIONS[self.name].inputs)
        return tuple(np.ascontiguousarray(x, self.dtype) for x in (self.q, self.v, self.u)[:count])

    def exact(self) -> Arrays:
        """q, v and u in float64, rounded first to the dtype of the case."""
        return tuple(x.astype(self.dtype).astype(np.float64) for x in (self.q, self.v, self.u))

    def empty(self) -> list[np.ndarray]:
        """Arrays for the results."""
        sizes = FUNCTIONS[self.name].outputs.values()
        shapes = [(self.batch, *[self.model.nv] * len(size)) for size in sizes]
        return [np.empty(shape, self.dtype) for shape in shapes]


@dataclass(frozen=True)
class Unsupported:
    """A case that a peer does not compute, and why."""

    why: str


@dataclass
class Prepared:
    """A case ready to be run.

    passes(n) computes the whole batch n times and stores the results; collect(rows) gives those of
    the last pass, for some of the states, in our conventions. compile_seconds: what the first call
    needed besides its work. settings: how it runs, for the reader of the results.
    """

    passes: Callable[[int], Any]
    collect: Callable[[Rows], Arrays]
    compile_seconds: float = 0.0
    settings: str = ""
    release: Callable[[], None] = field(default=lambda: None)

    def run(self, passes: int = 1) -> None:
        self.passes(passes)

    def answers(self, rows: np.ndarray | None = None) -> Arrays:
        """The results of the last run, of all states or of those asked for (rows, ...), in our
        order and conventions.
        """
        return self.collect(slice(None) if rows is None else rows)

    def close(self) -> None:
        """Gives back what is not memory of Python's: processes, libraries, files."""
        self.release()


class Peer(Protocol):
    """An adapter; the same library called in another way is a peer of its own.

    heavy: preparing a case takes seconds.
    """

    name: str
    precisions: tuple[str, ...] = (FLOAT64,)
    heavy: bool = False

    def version(self) -> str:
        """Of the library, where it is installed."""

    def setup(self) -> None:
        """Builds what all cases share, minutes once; `prepare` does it otherwise."""
        return None

    def built(self) -> bool:
        """Whether `setup` has nothing left to do."""
        return True

    def missing(self) -> str | None:
        """Why it cannot run here, with what to install; None where it can."""

    def prepare(self, case: Case) -> Prepared | Unsupported:
        """Raises whatever goes wrong: the case is then `failed`."""


def lacks(*packages: tuple[str, str]) -> str | None:
    """What has to be installed, from pairs of a module and the pip name that brings it."""
    absent = [pip for module, pip in packages if not _there(module)]
    return f"not installed: pip install {' '.join(dict.fromkeys(absent))}" if absent else None


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False
