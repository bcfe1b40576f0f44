"""Stages of all knots on a design of several functions, by its own cycle model.

A stage is a task of forward dynamics, which the next stage of its knot waits for, and one of the
derivatives at the same state, which is two passes: three passes where the pipeline of `circuit.py`
takes one. The state of the next stage is made on the device, too, or by the host between calls.
With the chain rule on the device, the array of `chain_circuit.py` takes each stage of a knot when
its derivatives and the stage before are there: serial sub-tasks, as in Dadu-RBD (2023), figure 13.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from chain_circuit import BASE, ChainTimes, chain_array
from chain_rule import STAGES
from circuit import ACCELERATION, FORCE, INTERVAL, SPEED
from circuit_time import LINK, WORD
from robot import FEET, Quadruped
from robots import say

import featherlane as fl
from featherlane.backends.fpga.network.cycles import run

FORWARD, DERIVATIVES = "forward_dynamics", "forward_dynamics_derivatives"
Array = np.ndarray


class Emitted(NamedTuple):
    """The cycles in which results leave the network, (stages, knots)."""

    accelerations: Array
    derivatives: Array | None


@dataclass(frozen=True, eq=False)
class NetworkTimes:
    """Times of stages on a design of both functions."""

    design: Any

    @cached_property
    def _known(self) -> dict[Any, float]:
        return {}

    def seconds(
        self, tasks: int, words: tuple[int, int], stages: int = 1, turn: int = 0,
        derivatives: bool = True,
    ) -> float:  # fmt: skip
        """From the first input of knots to the last result; arguments as of `Times.seconds`."""
        key = tasks, words, stages, turn, derivatives
        if key not in self._known:
            found = self.emitted(tasks, words[0], stages, turn, derivatives)
            last = found.accelerations if found.derivatives is None else found.derivatives
            self._known[key] = self._moved(last.ravel(), words[1])
        return self._known[key]

    def chained(self, tasks: int, words: tuple[int, int], turn: int, chain: ChainTimes) -> float:
        """From the first input of knots to the last words of A and B. words: of a knot's inputs,
        and of its A and B.
        """
        key = tasks, words, turn, chain
        if key not in self._known:
            found = self.emitted(tasks, words[0], len(STAGES), turn).derivatives
            assert found is not None
            self._known[key] = self._moved(chained(found, chain), words[1])
        return self._known[key]

    def emitted(
        self, knots: int, words: int, stages: int, turn: int, derivatives: bool = True
    ) -> Emitted:
        """Raises ValueError for so few knots that the state of a stage is not there in time."""
        network, clock = self.design.network, self.design.clock
        own = (FORWARD, DERIVATIVES) if derivatives else (FORWARD,)
        size = len(own) * knots
        codes = [network.codes[name] for name in own for _ in range(knots)] * stages
        came = [ceil((k + 1) * words * WORD / LINK / clock) for k in range(knots)]
        arrivals = (came * len(own) + [0] * (size * (stages - 1)))[: size * stages]
        state = [[None] * knots, *([*range(s * size, s * size + knots)] for s in range(stages - 1))]
        after = [before for stage in state for _ in own for before in stage]
        found = run(network, codes, arrivals, after)
        # (stages, functions, knots)
        accepted, emitted = (
            x.reshape(stages, len(own), knots) for x in (found.accepted, found.emitted)
        )
        waited = accepted[1:] - emitted[:-1, :1]
        if waited.size and waited.min() < turn:
            raise ValueError(f"{knots} knots do not cover the {turn} cycles between two stages")
        return Emitted(emitted[:, 0], emitted[:, 1] if derivatives else None)

    def _moved(self, ready: Array, words: int) -> float:
        """The seconds until the last of these results is in memory: they take the link in turn."""
        clock, moved, link = self.design.clock, words * WORD / LINK, 0.0
        for cycle in np.sort(ready):
            link = max(link, cycle * clock) + moved
        return float(1e-9 * link)


def chained(ready: Array, chain: ChainTimes) -> Array:
    """The cycles in which the chain rule's last column of each knot is out. ready: those in which
    derivatives are, (stages, knots). The first stage has no products: its changes are its slopes.
    """
    free, out = 0, ready[0]
    for stage in ready[1:]:
        begin = np.maximum(stage, out)
        out = np.empty_like(begin)
        for knot in np.argsort(begin, kind="stable"):
            free = max(free, int(begin[knot])) + chain.stage
            out[knot] = free + chain.latency
    return out


def network_design(robot: Quadruped, interval: int = INTERVAL, file: Path | None = None) -> Any:
    """The design of both functions: a minute or two. file: where it is kept."""
    if file is not None and file.exists():
        return pickle.loads(file.read_bytes())
    most = {"v": SPEED, "a": ACCELERATION, "f_ext": FORCE}
    ranges = {name: (-np.array(high), np.array(high)) for name, high in most.items()}
    say(f"a design of {FORWARD} and {DERIVATIVES}")
    made = fl.multifunction(
        robot.model, [FORWARD, DERIVATIVES], interval=interval, format="fitted", sharing="class",
        algorithm="factor", ranges=ranges, f_ext="world", frames=FEET,
    )  # fmt: skip
    if file is not None:
        file.write_bytes(pickle.dumps(made))
    return made


def columns_of(freedoms: int) -> int:
    """The columns of a stage: by q and v, by torques and by forces of point feet; and the products
    of M^-1 that give the slopes by forces, which take their turns on the same array.
    """
    forces = 3 * len(FEET)
    return 2 * freedoms + freedoms - BASE + 2 * forces


def network_rows(design: Any, knots: int, moved: tuple[int, int], turn: int) -> Iterable[Any]:
    """Yields figures of the design, and of the chain rule behind it at each of some intervals."""
    times, model = NetworkTimes(design), design.model
    shares = {f"{name} %": x for name, x in design.cost.shares._asdict().items()}
    yield {
        "what": "network", "interval": design.interval, **design.latency,
        "us": 1e6 * times.seconds(knots, moved, len(STAGES), turn),
        "us, accelerations alone": 1e6 * times.seconds(knots, moved, len(STAGES), turn, False),
        **shares,
    }  # fmt: skip
    n = model.nv
    entries = 2 * n * (2 * n + n - BASE + 3 * len(FEET))
    for interval in (1, 2):
        chain, needed = chain_array(n, columns_of(n), interval)
        yield {
            "what": "with the chain rule", **chain._asdict(),
            "us": 1e6 * times.chained(knots, (moved[0], entries), turn, chain),
            **{f"{name} %": x for name, x in needed.shares._asdict().items()},
        }  # fmt: skip
