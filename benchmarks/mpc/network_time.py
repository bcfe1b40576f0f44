"""Stages of all knots on a design of several functions, by its own cycle model.

A stage is a task of forward dynamics, which the next stage of its knot waits for, and one of the
derivatives at the same state, which is two passes: three passes where the pipeline of `circuit.py`
takes one. The state of the next stage is made on the device, too (`stage_circuit.py`), or by the
host between calls. With the chain rule on the device, the array of `chain_circuit.py` takes each
stage of a knot when its derivatives, the maps to the next stage and the stage before are there:
serial sub-tasks, as in Dadu-RBD (2023), figure 13.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from chain_circuit import BASE, ChainTimes, chain_array
from chain_columns import fitted_array
from chain_rule import STAGES
from circuit import ACCELERATION, FORCE, INTERVAL, SPEED
from circuit_time import LINK, WORD
from robot import FEET, Quadruped
from robots import say
from stage_circuit import NEXT_STATE, PieceTimes, stage_pieces

import featherlane as fl
from featherlane.backends.fpga.cost import DesignCost
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

    def chained(
        self, tasks: int, words: tuple[int, int], state: PieceTimes, chain: ChainTimes
    ) -> float:
        """From the first input of knots to the last words of A and B. words: of a knot's inputs,
        and of its results; state: times of the circuit that makes the next stage's state and maps.
        """
        key = tasks, words, state, chain
        if key not in self._known:
            found = self.emitted(tasks, words[0], len(STAGES), state.latency)
            assert found.derivatives is not None
            maps = passed(found.accelerations, state)
            ready = np.maximum(found.derivatives, maps)
            self._known[key] = self._moved(chained(ready, chain), words[1])
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


def passed(ready: Array, piece: PieceTimes) -> Array:
    """The cycles in which a circuit has done tasks that are ready in these cycles."""
    free, done = 0, np.empty_like(ready)
    for task in np.argsort(ready, axis=None, kind="stable"):
        begin = max(free, int(ready.flat[task]))
        free, done.flat[task] = begin + piece.interval, begin + piece.latency
    return done


def chained(ready: Array, chain: ChainTimes) -> Array:
    """The cycles in which the chain rule's last column of each knot is out. ready: those in which
    derivatives and maps are, (stages, knots).
    """
    free, out = 0, np.zeros_like(ready[0])
    for stage in ready:
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


@dataclass(frozen=True)
class Behind:
    """What lies behind the network, for steps with A and B: times and needs of the circuits that
    make the next stage's state and the feet's Jacobians, and of the chain rule's array.
    """

    pieces: Mapping[str, tuple[PieceTimes, DesignCost]]
    chain: tuple[ChainTimes, DesignCost]

    @property
    def state(self) -> PieceTimes:
        """Of the circuit that makes the next stage's state and maps."""
        return self.pieces[NEXT_STATE][0]

    @property
    def costs(self) -> dict[str, DesignCost]:
        """By the name of each circuit."""
        return {name: cost for name, (_, cost) in self.pieces.items()} | {"chain": self.chain[1]}


def behind(robot: Quadruped, interval: int = INTERVAL, columns: int = 1) -> Behind:
    """The circuits behind a network. columns: cycles from one column to the next in the array."""
    chain = chain_array(fitted_array(robot), columns_of(robot.model.nv), columns)
    return Behind(stage_pieces(robot, interval), chain)


def network_rows(
    design: Any, knots: int, moved: tuple[int, int], options: Iterable[Behind]
) -> Iterable[Any]:
    """Yields figures of the design, of circuits behind it, and of all together."""
    times, model = NetworkTimes(design), design.model
    n = model.nv
    words = 2 * n * (2 * n + n - BASE + 3 * len(FEET)) + model.nq + n  # A, B and the next state
    for number, own in enumerate(options):
        if not number:
            turn = own.state.latency
            yield {
                "what": "network", "interval": design.interval, **design.latency,
                "us": 1e6 * times.seconds(knots, moved, len(STAGES), turn),
                "us, accelerations alone": 1e6
                * times.seconds(knots, moved, len(STAGES), turn, False),
                **_shares([design.cost]),
            }  # fmt: skip
            for name, (piece, cost) in own.pieces.items():
                yield {"what": name, **piece._asdict(), **_shares([cost])}
        yield {"what": "chain", **own.chain[0]._asdict(), **_shares([own.chain[1]])}
        us = 1e6 * times.chained(knots, (moved[0], words), own.state, own.chain[0])
        yield {"what": "all", "us": us, **_shares([design.cost, *own.costs.values()])}


def _shares(costs: Iterable[DesignCost]) -> dict[str, float]:
    shares = [cost.shares._asdict() for cost in costs]
    return {f"{name} %": sum(own[name] for own in shares) for name in shares[0]}
