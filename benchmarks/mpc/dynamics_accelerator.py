"""Steps of all knots and their derivatives where an accelerator computes the dynamics.

What the accelerator does takes the time that its cycle model says, by a clock of its own; what the
host does is done, and takes the processor's time: words of inputs and results, the states between
stages, the chain rule. The accelerator's numbers are those of float64, rounded to its words, or
with `golden` those of the circuit to the bit, which take seconds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from chain_rule import STAGES, chain_rule, piece, products
from circuit import INPUTS, RESULTS, VARIANT, Circuit
from circuit_time import LINK, WORD, Times
from dynamics_featherlane import Featherlane
from network_time import Behind, NetworkTimes
from robot import FEET, Quadruped
from words import Decoder, Encoder

from featherlane.functions.table import Variant

EXCHANGE = 2e-6  # s that words take to come into motion, each time (assumed)
TURN = 100  # cycles for the state of the next stage behind one pipeline (assumed)
TILE = 64  # knots whose results the host turns into numbers at once, in its caches
STEPS = 2.0**-21, 2.0**-26  # of words of A and B, where the accelerator makes them
Arrays = tuple[np.ndarray, ...]


class Clock:
    """Processor time of this thread, but the modelled time for what stands for other hardware."""

    def __init__(self) -> None:
        self.more = 0.0

    def __call__(self) -> float:
        return time.thread_time() + self.more

    @contextmanager
    def takes(self, seconds: float) -> Iterator[None]:
        """What happens inside takes this long, whatever that says of its parts."""
        begin, before = time.thread_time(), self.more
        yield
        self.more = before + seconds - (time.thread_time() - begin)


class Accelerated(Featherlane):
    """The accelerator computes accelerations and their derivatives, the host all else."""

    made, does = "accelerator", "dynamics"

    def __init__(
        self, robot: Quadruped, knots: int, circuit: Circuit, times: Times | NetworkTimes,
        dtype: str = "float64", golden: bool = False, turn: int = TURN,
    ) -> None:  # fmt: skip
        """dtype: in which the host computes. golden: whether numbers are those of the circuit.
        turn: cycles for the state of the next stage, where the accelerator makes it.
        """
        super().__init__(robot, knots, 1, dtype)
        self.turn = turn
        self.circuit, self.times, self.golden, self.knots = circuit, times, golden, knots
        self.name = f"{self.made}, {self.does}" + (f", {dtype}" if dtype != "float64" else "")
        self.clock, self.events, model = Clock(), Counter[str](), robot.model
        self.variant = Variant(
            "linearize_step", "world", at=FEET, integrator="rk4",
            actuation=self.options["actuation"], by_wrenches=True,
        )  # fmt: skip
        self._chain = chain_rule(model, self.variant)
        self._exact = piece(model, VARIANT)
        self._to_stage = [piece(model, Variant(f"to_{x}_stage")) for x in ("half", "half", "full")]
        self._end = piece(model, Variant("runge_kutta"))
        self._encode = Encoder(circuit.datapath, INPUTS)
        self._whole, self._alone = (
            Decoder.of(circuit.datapath, names) for names in (RESULTS, RESULTS[:1])
        )
        self._tile = [self._whole.empty(TILE, self.dtype) for _ in STAGES]
        self._accelerations = [self._alone.empty(knots, self.dtype) for _ in STAGES]
        sizes = model.nq, model.nv, model.nv, 6 * len(FEET)
        ends = np.cumsum(sizes)
        self._state = np.zeros((knots, ends[-1]), self.dtype)
        self._parts = [self._state[:, end - n : end] for n, end in zip(sizes, ends, strict=True)]
        self._f_ext = self._parts[3].reshape(knots, len(FEET), 6)
        self._sent = np.empty((knots, self._encode.count), np.int32)

    # What the accelerator does

    def _words(self, derivatives: bool) -> np.ndarray:
        """The words that it gives for those that it was sent."""
        motion = self._parts[:3]
        if self.golden:
            given = dict(zip(INPUTS, (*motion, self._f_ext), strict=True))
            numbers, happened = self.circuit(derivatives, given)
            self.events["saturated"] += sum(happened.saturated.values())
            for k, count in happened.overflows.items():
                self.events["overflows"] += count
                self.events[f"in {self.circuit.told(derivatives, k)}"] += count
        else:
            exact = (x.astype(float) for x in (*motion, self._f_ext))
            numbers = dict(zip(RESULTS, self._exact(*exact, threads=1), strict=True))
        names = RESULTS if derivatives else RESULTS[:1]
        flat = [numbers[name].reshape(self.knots, -1) for name in names]
        return (self._whole if derivatives else self._alone).words_of(np.concatenate(flat, 1))

    def moved(self, derivatives: bool) -> tuple[int, int]:
        """The words of a knot's inputs and results."""
        return self._encode.count, (self._whole if derivatives else self._alone).count

    # What the host does

    def _begin(self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray) -> Arrays:
        """Writes the words of knots, and returns q, v and u in its dtype."""
        to_q, to_v, tau, _ = self._parts
        to_q[:], to_v[:], tau[:, 6:], self._f_ext[..., :3] = q, v, u, f
        self._encode(self._state, self._sent)
        return tuple(x.astype(self.dtype, copy=False) for x in (q, v, u))

    def _computed(
        self, derivatives: bool, q: np.ndarray, v: np.ndarray, dt: np.ndarray
    ) -> tuple[list[np.ndarray], Arrays]:
        """The words of all stages, and the rates of the last three with all accelerations: stage by
        stage, since the host makes the state of each.
        """
        words = self.moved(derivatives)
        taken = self.times.seconds(self.knots, words, derivatives=derivatives) + EXCHANGE
        every, rates = list[np.ndarray](), [v]
        for k in range(len(STAGES)):
            with self.clock.takes(taken):
                every.append(self._words(derivatives))
            self._alone(every[k], self._accelerations[k])
            if k < 3:
                found = self._to_stage[k](q, v, rates[k], self._accelerations[k], dt, threads=1)
                self._parts[0][:], self._parts[1][:], rate, _ = found
                rates.append(rate)
                self._encode(self._state, self._sent)
        return every, (*rates[1:], *self._accelerations)

    def linearise(
        self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray, dt: float
    ) -> Arrays:
        states, step = self._begin(q, v, u, f), np.asarray(dt, self.dtype)
        every, _ = self._computed(True, *states[:2], step)
        n = self.model.nv
        for k in range(0, self.knots, TILE):
            knots = slice(k, min(k + TILE, self.knots))
            given = []
            for words, numbers in zip(every, self._tile, strict=True):
                part = numbers[: knots.stop - k]
                self._whole(words[knots], part)
                matrices = part[:, n:].reshape(len(part), 3, n, n)
                given += [part[:, :n], *matrices.swapaxes(0, 1)]
            own = *(x[knots] for x in states), step, self._f_ext[knots]
            self._chain(*own, *given, out=tuple(x[knots] for x in self.out), threads=1)
        return self._delivered()

    def step(self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray, dt: float) -> Arrays:
        q, v, _ = self._begin(q, v, u, f)
        step = np.asarray(dt, self.dtype)
        _, stages = self._computed(False, q, v, step)
        found = self._end(q, v, step, *stages, threads=1)
        return tuple(x.astype(float, copy=False) for x in found[:2])


class WithStages(Accelerated):
    """The accelerator makes the states between stages, too (Dadu-RBD 2023, figure 13): all four
    stages of all knots are in its pipeline at once.
    """

    does = "dynamics and stages"

    def _computed(
        self, derivatives: bool, q: np.ndarray, v: np.ndarray, dt: np.ndarray
    ) -> tuple[list[np.ndarray], Arrays]:
        words = self.moved(derivatives)
        stages = len(STAGES), self.turn, derivatives
        taken = self.times.seconds(self.knots, words, *stages) + EXCHANGE
        with self.clock.takes(taken):
            return super()._computed(derivatives, q, v, dt)


class WithChainRule(WithStages):
    """The accelerator has the chain rule behind its dynamics, and sends A and B: an estimate."""

    does = "all"

    def __init__(self, *given: Any, multipliers: float, **options: Any) -> None:
        """multipliers: of the chain rule's products."""
        super().__init__(*given, **options)
        n, controls = self.model.nv, self.B.shape[2]
        self._sizes = 2 * n * 2 * n, 2 * n * controls
        steps, entries = np.repeat(STEPS, self._sizes), sum(self._sizes)
        self._matrices = Decoder(steps, range(entries), np.zeros(entries))
        self._numbers = np.empty((self.knots, entries))
        self._cycles = products(self.model, self.variant) / multipliers

    def linearise(
        self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray, dt: float
    ) -> Arrays:
        self._begin(q, v, u, f)
        with self.clock.takes(self._taken() + EXCHANGE):
            *state, A, B = Featherlane.linearise(self, q, v, u, f, dt)
            flat = [x.reshape(self.knots, -1) for x in (A, B)]
            words = self._matrices.words_of(np.concatenate(flat, 1))
        self._matrices(words, self._numbers)
        parts = np.split(self._numbers, self._sizes[:1], 1)
        return *state, *(x.reshape(y.shape) for x, y in zip(parts, (A, B), strict=True))

    def _taken(self) -> float:
        """The seconds from the words of inputs to those of A and B."""
        assert isinstance(self.times, Times), "an estimate for a pipeline"
        moved = WORD * (self._encode.count + self._matrices.count) / LINK / self.times.clock
        each = max(len(STAGES) * self.times.interval, self._cycles, moved)
        first = len(STAGES) * (self.times.latency + self.turn) + self._cycles
        return 1e-9 * (first + self.knots * each) * self.times.clock


class OnNetwork(WithStages):
    """A design of several functions has the dynamics, and the states between stages."""

    made = "network"


class NetworkWithChainRule(WithChainRule):
    """A design of several functions with the array of the chain rule behind it."""

    made = "network"

    def __init__(self, *given: Any, behind: Behind, **options: Any) -> None:
        super().__init__(*given, multipliers=1.0, **options)
        self._behind = behind

    def _taken(self) -> float:
        assert isinstance(self.times, NetworkTimes), "an array behind a network"
        words = self._encode.count, self._matrices.count + self.model.nq + self.model.nv
        return self.times.chained(self.knots, words, self._behind.state, self._behind.chain[0])
