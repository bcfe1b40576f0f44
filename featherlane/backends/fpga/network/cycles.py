"""The cycle model of a network: in which clock cycle each station takes each task, and each result
leaves.

It moves tasks, not numbers, by the rules of the circuit: a word that is put into a link in one
cycle can be taken in the next one; a station takes in its last phase; what it gives in cycle c of a
task is put into links c + 1 cycles after the task was taken; a result stands in a register of
ENCODE for a cycle at least. Where links are sliced, a word is taken from memory a few cycles
(`Slicing.cycles`) before it stands in a register: at the head of its link, before the cycle in
which a late input is taken, or after the turn of a result has come. Cycles count from 1, the first
one after reset, as in simulations of the circuit, whose stamps are the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fpga.network.structure import DECODE, Channel, Network, Station
from featherlane.errors import CompileError

Array = Any
WORD = (1 << 64) - 1
HANGS = 1000  # cycles for each task, beside the latency, after which a run is given up


class Taken(NamedTuple):
    """A station takes a task in a cycle, with a micro-instruction."""

    station: str
    cycle: int
    task: int
    instruction: int


class Timeline(NamedTuple):
    """The course of tasks, by their numbers. accepted, emitted: the cycles in which each came
    and its result left; taken: what stations took, in the order of cycles; most: the words that
    each link held at most.
    """

    accepted: Array
    emitted: Array
    taken: tuple[Taken, ...]
    most: Mapping[str, int]

    @property
    def cycles(self) -> Array:
        """Clock cycles from the acceptance of each task to its result."""
        return self.emitted - self.accepted


class Stalls:
    """Random pauses of both streams, those of the driver of simulated circuits. often: of 256
    cycles, how many pause.
    """

    def __init__(self, often: int, seed: int = 1) -> None:
        self.often = often
        self._state = seed * 0x9E3779B97F4A7C15 & WORD | 1

    def goes(self) -> bool:
        """Whether the next cycle of a stream does not pause (xorshift)."""
        x = self._state
        x ^= x << 13 & WORD
        x ^= x >> 7
        x ^= x << 17 & WORD
        self._state = x
        return (x >> 24 & 255) >= self.often


class _Step(NamedTuple):
    """The work of a station on a task of one micro-instruction. late: links that it takes from, and
    how many cycles later; puts: links, when, and the micro-instruction there.
    """

    prompt: tuple[str, ...]
    late: tuple[tuple[str, int], ...]
    puts: tuple[tuple[str, int, int], ...]


def _step(network: Network, station: Station, instruction: int) -> _Step:
    """The words that a station takes and puts for a micro-instruction, and the cycles after its
    start.
    """
    prompt, late = [], []
    for link in network.into(station.name):
        if instruction in link.takes and link.depth:
            cycle = station.inputs[link.target.port].cycle
            if cycle:
                ahead = network.slices.cycles if link.sliced else 0
                late.append((link.name, cycle - ahead))
            else:
                prompt.append(link.name)
    puts = [
        (link.name, station.outputs[link.source.port].cycle + 1, _next(link, instruction))
        for link in network.out_of(station.name)
        if instruction in link.puts
    ]
    return _Step(tuple(prompt), tuple(late), tuple(puts))


def _next(link: Channel, instruction: int) -> int:
    return link.becomes.get(instruction, instruction)


def run(
    network: Network,
    tasks: Sequence[int],
    arrivals: Sequence[int] | None = None,
    after: Sequence[int | None] | None = None,
    stalls: Stalls | None = None,
) -> Timeline:
    """Returns what happens to tasks that are offered in their order, as soon as the one before was
    taken.

    tasks: the code of each. arrivals: the cycle before which each is not offered. after: the task
    whose result must be out before each is offered, one before it, None for none. Raises
    CompileError for tasks that wait for ever.
    """
    return _Run(network, tasks, arrivals, after, stalls or Stalls(0)).timeline()


class _Run:
    def __init__(
        self,
        network: Network,
        tasks: Sequence[int],
        arrivals: Sequence[int] | None,
        after: Sequence[int | None] | None,
        stalls: Stalls,
    ) -> None:
        self.network, self.tasks, self.stalls = network, tasks, stalls
        self.arrivals, self.after = arrivals, after
        n = len(tasks)
        self.accepted, self.emitted = [0] * n, [0] * n
        self.taken: list[Taken] = []
        self.steps: dict[tuple[str, int], _Step] = {}
        self.links: dict[str, deque[tuple[int, int]]] = {name: deque() for name in network.links}
        self.slow = network.slicing.cycles if network.slicing else 0  # from memory to register
        self.stored = {  # cycles in which words were put, of links whose head is a register
            name: deque[int]()
            for name, link in network.links.items()
            if link.sliced and not network.gives_slices(link)
        }
        self.taken_from = dict.fromkeys(self.stored, 0)  # the cycle of the last word
        self.most = Counter[str]()
        self.puts = defaultdict[int, list[tuple[str, int, int]]](list)  # by the cycle
        self.late = defaultdict[int, list[str]](list)
        self.credits, self.offered, self.given, self.out = network.depth, False, 0, 0
        self.held: int | None = None  # the task whose result stands in the register of ENCODE
        self.whole = 0  # the cycle from which on all of it does
        self.order = deque(network.leading)  # round robin: the link that goes first now
        self.side = [link for link in network.out_of(DECODE) if link.depth]
        self.stations = [
            (station, station.entries, station.offset) for station in network.stations.values()
        ]

    def timeline(self) -> Timeline:
        n, cycle = len(self.tasks), 0
        limit = self._limit()
        while self.out < n:
            cycle += 1
            self._cycle(cycle)
            if cycle > limit:
                waiting = n - self.out
                raise CompileError(f"{waiting} of {n} tasks are not done after {cycle} cycles")
        accepted, emitted = (np.array(cycles, np.int64) for cycles in (self.accepted, self.emitted))
        return Timeline(accepted, emitted, tuple(self.taken), dict(self.most))

    def _limit(self) -> int:
        around = sum(station.latency + station.interval + 8 for station, *_ in self.stations)
        last = max(self.arrivals, default=0) if self.arrivals is not None else 0
        return last + (len(self.tasks) + 10) * (HANGS * self.network.interval + 2 * around)

    def _cycle(self, cycle: int) -> None:
        """Advances the model by a clock cycle: late words are taken, a result leaves, stations take
        tasks.
        """
        if not self.offered and self._may_offer(cycle):
            self.offered = self.stalls.goes()
        ready = self.stalls.goes()
        for name in self.late.pop(cycle, ()):
            self._pop(name, cycle)
        freed = self._encode(cycle, ready)
        accepted, interval = False, self.network.interval
        for station, entries, offset in self.stations:
            if (cycle + offset) % interval == 0:
                for name in entries:
                    if (head := self._head(station, name, cycle)) is not None:
                        self._take(station, name, cycle, *head)
                        accepted |= not self.network.links[name].depth
                        break
        self.credits += freed - accepted
        for name, task, instruction in self.puts.pop(cycle, ()):
            link = self.links[name]
            link.append((task, instruction))
            if name in self.stored:
                self.stored[name].append(cycle)
            if len(link) > self.most[name]:
                self.most[name] = len(link)

    def _may_offer(self, cycle: int) -> bool:
        n = self.given
        if n >= len(self.tasks) or (self.arrivals is not None and cycle < self.arrivals[n]):
            return False
        before = self.after[n] if self.after is not None else None
        return before is None or 0 < self.emitted[before] < cycle

    def _pop(self, name: str, cycle: int) -> tuple[int, int]:
        if not self.links[name]:
            raise CompileError(f"link {name} is empty where a word is taken")
        if name in self.stored:
            self.stored[name].popleft()
            self.taken_from[name] = cycle
        return self.links[name].popleft()

    def _is_there(self, name: str, cycle: int) -> bool:
        """Whether a link has a word that a station can take now."""
        if name not in self.stored:
            return bool(self.links[name])
        if not self.stored[name]:
            return False
        read = max(self.stored[name][0] + 1, self.taken_from[name])
        return cycle >= read + self.slow

    def _encode(self, cycle: int, ready: bool) -> bool:
        """The result that is out, and the next one; tells whether a place is free again."""
        if self.held is not None:
            if not ready or cycle < self.whole:
                return False
            self.emitted[self.held] = cycle
            self.out += 1
            self.held = None
        for n, name in enumerate(self.order):
            if self.links[name]:
                task, instruction = self.links[name][0]
                names = self.network.results[instruction]
                if all(self.links[other] for other in names):
                    for other in names:
                        self._pop(other, cycle)
                    self.held = task
                    self.whole = cycle + self.slow if self.network.slices_results else cycle
                    self.order.rotate(-n - 1)
                    return True
        return False

    def _step(self, station: Station, instruction: int) -> _Step:
        key = station.name, instruction
        if key not in self.steps:
            self.steps[key] = _step(self.network, station, instruction)
        return self.steps[key]

    def _head(self, station: Station, entry: str, cycle: int) -> tuple[int, int] | None:
        """The task, and its micro-instruction, that an entry of a station has ready."""
        if not self.network.links[entry].depth:
            if not self.offered or not self.credits:
                return None
            return self.given, self.tasks[self.given]
        if not self._is_there(entry, cycle):
            return None
        task, instruction = self.links[entry][0]
        prompt = self._step(station, instruction).prompt
        there = all(self._is_there(name, cycle) for name in prompt)
        return (task, instruction) if there else None

    def _take(self, station: Station, entry: str, cycle: int, task: int, instruction: int) -> None:
        """Lets a station take a task from an entry, and schedules the words that it takes and puts
        later.
        """
        step = self._step(station, instruction)
        for name in step.prompt:
            self._pop(name, cycle)
        for name, later in step.late:
            self.late[cycle + later].append(name)
        for name, later, then in step.puts:
            self.puts[cycle + later].append((name, task, then))
        self.taken.append(Taken(station.name, cycle, task, instruction))
        if not self.network.links[entry].depth:
            self.accepted[task] = cycle
            self.given, self.offered = self.given + 1, False
            for link in self.side:
                if instruction in link.puts:
                    self.puts[cycle].append((link.name, task, instruction))


def latencies(network: Network) -> dict[str, int]:
    """Returns for each function the cycles from the acceptance of a task to its result, where no
    other task is under way.
    """
    return {name: int(run(network, [code]).cycles[0]) for name, code in network.codes.items()}
