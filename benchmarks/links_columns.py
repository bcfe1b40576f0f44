"""The columns of links_and_groups.py: who computes, and how it is called and timed.

A column has a `name` and two methods. `methods(function)` names the methods that it has, and
`ready(cell, model, states, method)` gives a `Ready`, or raises ValueError where the method does not
take the robot and `Skipped` where it is not to be tried. Another backend is one more such class.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from links_results import Cell

from featherlane.api.model import Model
from featherlane.functions.table import FUNCTIONS

Arrays = Sequence[np.ndarray]
SEED = 1
PEER_METHODS = {"inverse_dynamics": "rnea", "forward_dynamics": "aba"}
PEER_BYTES = 70  # times nv^3: what making a Data took at 400 links
MOST_BYTES = 4e9
WARM = 0.1  # s: shorter calls are made some more times before they are timed
PEER_CHECKED = 4  # states, through the Python API of the same library


def random_states(model: Model, count: int, dtype: str) -> tuple[np.ndarray, ...]:
    """q, v and what goes in besides: a, or tau."""
    rng = np.random.default_rng(SEED)
    q = model.random_configuration(count, seed=rng)
    v, u = rng.uniform(-1, 1, (2, count, model.nv))
    return tuple(x.astype(dtype) for x in (q, v, u))


class Skipped(Exception):
    """A method that is not tried, and why."""


class Ready(Protocol):
    """One method, ready on the states of a cell."""

    def call(self) -> Any:
        """All states once."""

    def results(self) -> np.ndarray:
        """Of the first states, or of all: (at least one, nv)."""

    def ns_per_state(self, seconds: float) -> float:
        """The time of one state, from calls over all states that take about that long."""

    def close(self) -> None: ...


class Column(Protocol):
    name: str
    compiles: bool  # whether the first call does more than the others

    def methods(self, function: str) -> Sequence[str]: ...

    def ready(self, cell: Cell, model: Model, states: Arrays, method: str) -> Ready: ...


class Called:
    """A callable on arrays, timed here."""

    def __init__(self, call: Callable[[], np.ndarray], states: int) -> None:
        self.call, self._states = call, states
        self._last = 0.0

    def _seconds(self, count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            self.call()
        return (time.perf_counter() - start) / count

    def results(self) -> np.ndarray:
        result = self.call()
        self._last = self._seconds(1)  # the first call may still have loaded something
        if self._last < WARM:
            self._last = self._seconds(2)
        return np.atleast_2d(result)

    def ns_per_state(self, seconds: float) -> float:
        """Mean over as many calls as fit, after the last time."""
        count = max(1, min(10_000, round(seconds / self._last)))
        self._last = self._seconds(count)
        return self._last / self._states * 1e9

    def close(self) -> None:
        pass


class Featherlane:
    """The user's methods, one thread. A single state goes in without a leading dimension; results
    of several fill an array that is there already. "auto" is the call that names no method.
    """

    name = "featherlane"
    compiles = True

    def methods(self, function: str) -> Sequence[str]:
        return (*FUNCTIONS[function].methods, "auto")

    def ready(self, cell: Cell, model: Model, states: Arrays, method: str) -> Called:
        options: dict[str, Any] = {} if method == "auto" else {"method": method}
        if cell.states == 1:
            given = [x[0].copy() for x in states]
        else:
            given, options["threads"] = list(states), 1
            options["out"] = np.empty_like(states[1])
        return Called(lambda: getattr(model, cell.function)(*given, **options), cell.states)


class _Loop:
    """Pinocchio's C++ loop, timed by itself."""

    def __init__(self, function: str, robot: Any, make: Callable[[], Any]) -> None:
        self._function, self._robot, self._loop = function, robot, make()

    def call(self) -> None:
        self._loop.ns_per_state(self._function, 1)

    def results(self) -> np.ndarray:
        count = min(PEER_CHECKED, len(self._robot.q))
        return np.stack([self._robot.answers(self._function, k)[0] for k in range(count)])

    def ns_per_state(self, seconds: float) -> float:
        """The program runs the batch once more than it is asked to, and gives the median."""
        start = time.perf_counter()
        found = self._loop.ns_per_state(self._function, 1)
        once = (time.perf_counter() - start) / 2
        passes = min(10_000, int(seconds / once)) - 2
        return self._loop.ns_per_state(self._function, passes) if passes > 0 else found

    def close(self) -> None:
        self._loop.close()


class Pinocchio:
    """The C++ library in a loop over the states, in float64 whatever the others compute in. Its
    `Data` needs memory with the cube of the links.
    """

    name = "pinocchio"
    compiles = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._peers: dict[int, tuple[Any, str]] = {}  # by number of links, with its file
        self.version, self._missing = "none", ""
        self._program = Path()
        try:
            import pinocchio
            from suite.peers.loop import build

            self.version = pinocchio.__version__
            self._program = build()
        except (ImportError, RuntimeError) as error:
            self._missing = str(error)

    def methods(self, function: str) -> Sequence[str]:
        return (PEER_METHODS[function],)

    def ready(self, cell: Cell, model: Model, states: Arrays, method: str) -> _Loop:
        if self._missing:
            raise Skipped(f"no C++ loop ({self._missing})")
        needed = PEER_BYTES * model.nv**3
        if needed > MOST_BYTES:
            raise Skipped(f"memory (its Data needs {needed / 1e9:.0f} GB)")
        from suite.peers.loop import Loop, Robot

        peer, path = self._peer(model)
        robot = Robot(model, peer, *(x.astype(np.float64) for x in states))
        return _Loop(cell.function, robot, lambda: Loop(self._program, model, path, robot))

    def _peer(self, model: Model) -> tuple[Any, str]:
        if model.nv not in self._peers:
            sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
            from peer_models import pinocchio_model

            peer, path = pinocchio_model(model), str(self._folder / f"chain{model.nv}.txt")
            peer.saveToText(path)
            self._peers[model.nv] = peer, path
        return self._peers[model.nv]


def columns(names: Sequence[str], folder: Path | None = None) -> list[Column]:
    """By name, in order. folder: for files that they need while they live."""
    where = folder or Path(tempfile.mkdtemp())
    known: dict[str, Callable[[], Column]] = {
        "featherlane": Featherlane,
        "pinocchio": lambda: Pinocchio(where),
    }
    for name in names:
        if name not in known:
            raise ValueError(f"there is no column {name!r}: wanted some of {', '.join(known)}")
    return [known[name]() for name in names]
