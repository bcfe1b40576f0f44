"""Matrices over the joints of chains: time of a state, beside Pinocchio's C++ loop, one thread.

Ours and the peer alternate within each of several rounds; figures are medians of the processor's
time. Pinocchio computes in float64. Errors are relative to the largest entry of a block, against
Pinocchio too.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from links_columns import Pinocchio, random_states
from options import parser
from suite.peers.loop import Loop, Robot, largest_error

import featherlane as fl
from featherlane.api.model import Model

FUNCTIONS = {
    "mass_matrix": 1,
    "mass_matrix_inverse": 1,
    "inverse_dynamics_derivatives": 3,
    "forward_dynamics_derivatives": 3,
}
SHORT = dict(zip(FUNCTIONS, ("M", "Minv", "dID", "dFD"), strict=True))
LINKS, STATES, ROUNDS = (50, 100, 200), (1, 64, 1024), 5
LEAST = 0.02  # s of one figure
SEED = 1


class Ours:
    """One function of a chain at some states, results in arrays that are there already."""

    def __init__(self, model: Model, name: str, given: list[np.ndarray]) -> None:
        self._function, self._given = model.function(name), given
        self.out = [
            np.empty((*given[0].shape[:-1], model.nv, model.nv), given[0].dtype)
            for _ in self._function.outputs
        ]
        self._states = len(given[0])
        self._count = 1
        self.first = self._seconds()
        self._count = max(1, round(LEAST / self._seconds()))

    def _seconds(self) -> float:
        start = time.process_time()
        for _ in range(self._count):
            self._function(*self._given, out=tuple(self.out), threads=1)
        return (time.process_time() - start) / self._count

    def ns_per_state(self) -> float:
        return self._seconds() / self._states * 1e9


class Theirs:
    """Pinocchio on chains of some lengths."""

    def __init__(self, folder: Path) -> None:
        self._column = Pinocchio(folder)

    def robot(self, model: Model, given: Any) -> tuple[Robot, Loop]:
        peer, path = self._column._peer(model)
        robot = Robot(model, peer, *given)
        return robot, Loop(self._column._program, model, path, robot)


def error(ours: Ours, robot: Robot, name: str) -> float:
    """Of the first states."""
    count = min(3, len(robot.q))
    expected = [robot.answers(name, k) for k in range(count)]
    return largest_error(
        [x[:count] for x in ours.out], [np.stack(x) for x in zip(*expected, strict=True)]
    )


def row(model: Model, states: int, name: str, peer: tuple[Robot, Loop], rounds: int) -> str:
    robot, loop = peer
    every = random_states(model, states, "float64")[: FUNCTIONS[name]]
    ours = {t: Ours(model, name, [x.astype(t) for x in every]) for t in ("float64", "float32")}
    theirs: list[float] = []
    times: dict[str, list[float]] = {t: [] for t in ours}
    passes = 1 if states > 64 else 5
    for _ in range(rounds):
        theirs.append(loop.ns_per_state(name, passes))
        for t, our in ours.items():
            times[t].append(our.ns_per_state())
    told = [f"{median(theirs) / 1e3:9.1f}"]
    for t, our in ours.items():
        ratio = median(theirs) / median(times[t])
        told.append(f"{median(times[t]) / 1e3:9.2f} ({ratio:5.1f}x) {error(our, robot, name):.0e}")
    first = ours["float64"].first
    return f"| {SHORT[name]:4} | {model.nv:5} | {states:6} | {' | '.join(told)} | {first:5.2f} |"


def main() -> None:
    sizes = {"links": LINKS, "batch": STATES, "functions": tuple(FUNCTIONS)}
    args = parser(__doc__, **sizes, rounds=ROUNDS).parse_args()
    print("| | links | states | Pinocchio, us | float64, us | float32, us | first call, s |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        theirs = Theirs(Path(folder))
        for links in args.links:
            model = fl.chain(links, SEED)
            for states in args.batch:
                peer = theirs.robot(model, random_states(model, states, "float64"))
                for name in args.functions:
                    print(row(model, states, name, peer, args.rounds), flush=True)
                peer[1].close()


if __name__ == "__main__":
    main()
