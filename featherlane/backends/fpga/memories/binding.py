"""Binding: the unit of each operation, so that the operands of a port come from few units.

The memory of a port is written from the outputs of units, through a multiplexer with an input for
each output that gives an operand there. Operations are bound in the order of evaluation, each to
the unit where it adds the fewest inputs; then operations are moved, while moves that add inputs are
accepted less and less often (Kirkpatrick et al., Optimization by simulated annealing, 1983).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import ceil, exp
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.memories.operations import (
    MULTIPLY,
    OUTPUTS,
    PORTS,
    UnitOperation,
    has_product,
    operands,
)

SWEEPS = 50, 200  # rounds over all operations, at least and at most
MOVES = 500_000  # that are tried, if these rounds allow it
CANDIDATES = 12  # units that are tried for an operation in a round
WARM, COLD = 1.0, 0.05  # temperatures of the first round and of the last one
# The cost of a multiplexer by its inputs, in LUTs a bit, and of a further input: a LUT of six
# inputs takes four of them, one of four inputs two
COSTS = {
    6: ((0.0, 0.3, 1.0, 1.2, 1.4, 2.6, 3.2, 3.8, 4.4), 0.6),
    4: ((0.0, 0.3, 1.0, 1.8, 2.0), 0.5),
}

PLACES = 64 * OUTPUTS  # of a unit: its outputs, with up to 63 places dropped
Port = tuple[int, int]  # a unit, and the number of its operand


class Binding(NamedTuple):
    """kinds: of each unit. unit: of each operation. swapped: for each term of an operation, whether
    the ports of its operands are exchanged.
    """

    kinds: tuple[str, ...]
    unit: tuple[int, ...]
    swapped: tuple[tuple[bool, ...], ...]


def bound(
    datapath: Datapath,
    operations: Sequence[UnitOperation],
    interval: int,
    inputs: int = 6,
    fill: float = 0.88,
) -> Binding:
    """Returns the binding of operations at an interval, for which runs are not longer. inputs: of a
    LUT; fill: the share of the cycles of units that operations take; more leave moves no room.
    """
    binder = _Binder(datapath, operations, interval, (inputs, fill))
    binder.place_all()
    least, most = SWEEPS
    sweeps = max(least, min(most, MOVES // max(len(binder.movable), 1)))
    for sweep in range(sweeps):
        binder.sweep(WARM * (COLD / WARM) ** (sweep / sweeps))
    number = {u: n for n, u in enumerate(sorted({*binder.unit}))}  # without units that do nothing
    kinds = tuple(binder.kinds[u] for u in number)
    return Binding(kinds, tuple(number[u] for u in binder.unit), tuple(binder.swapped))


def _units(operations: Sequence[UnitOperation], interval: int, fill: float) -> list[str]:
    """The kinds of the units: as few as have room for the operations at this share."""
    cycles = Counter[str]()
    for operation in operations:
        cycles[operation.kind] += operation.cycles
    return [kind for kind, n in sorted(cycles.items()) for _ in range(ceil(n / interval / fill))]


class _Placement(NamedTuple):
    """A unit for an operation, with the ports of its operands, and what that adds to the costs of
    multiplexers.
    """

    added: float
    unit: int
    swapped: tuple[bool, ...]


class _Binder:
    """Operations and their units, while operations are moved.

    unit: of each operation, -1 for none yet. inputs: of each port, the reads from each source.
    Sources are numbered: where unit u shows a value is PLACES u + at, with `at` of the value. kept:
    of each unit, its runs by the places that their results drop of the sum.
    """

    def __init__(
        self,
        datapath: Datapath,
        operations: Sequence[UnitOperation],
        interval: int,
        options: tuple[int, float],
    ) -> None:
        """options: inputs and fill, as of `bound`."""
        self.datapath, self.operations, self.interval = datapath, operations, interval
        inputs, fill = options
        self.kinds = kinds = _units(operations, interval, fill)
        self.costs = COSTS[inputs]
        self.unit = [-1] * len(operations)
        self.swapped: list[tuple[bool, ...]] = [()] * len(operations)
        self.inputs: list[Counter[int]] = [Counter() for _ in range(PORTS * len(kinds))]
        self.free = [interval] * len(kinds)
        self.source = dict[int, int]()  # of each value
        self.at = {
            k: place.output + OUTPUTS * place.shift
            for operation in operations
            for k, place in operation.places(datapath).items()
        }
        self.kept = [Counter[int]() for _ in kinds]
        self.drops = [_dropped(datapath, operation) for operation in operations]
        self.reads = [
            [operands(datapath, term) for term in operation.terms] for operation in operations
        ]
        self.readers = defaultdict[int, list[int]](list)  # the operations that read each value
        for n, terms in enumerate(self.reads):
            for value in dict.fromkeys(k for pair in terms for k in pair if k is not None):
                self.readers[value].append(n)
        self.read_at = defaultdict[int, list[tuple[int, int, int]]](list)
        for n, terms in enumerate(self.reads):  # operation, term and place
            for m, values in enumerate(terms):
                for place, k in enumerate(values):
                    if k is not None:
                        self.read_at[k].append((n, m, place))
        self.random = random.Random(0)
        self.movable = [n for n, op in enumerate(operations) if op.kind == MULTIPLY]
        self.multipliers = [u for u, kind in enumerate(kinds) if kind == MULTIPLY]

    def cost(self, inputs: int) -> float:
        """The cost of a multiplexer of so many inputs."""
        few, more = self.costs
        return few[inputs] if inputs < len(few) else few[-1] + more * (inputs + 1 - len(few))

    # First placement

    def place_all(self) -> None:
        """Places the operations in their order; multipliers are entered one after the other."""
        readers = defaultdict[int, set[int]](set)  # the units that read each source
        for n, operation in enumerate(self.operations):
            values = [k for pair in self.reads[n] for k in pair if k is not None]
            if operation.kind == MULTIPLY:
                near = Counter(u for k in values for u in readers[self.source[k]])
                units = [
                    u
                    for u, _ in near.most_common()
                    if self.kinds[u] == MULTIPLY and self.free[u] >= operation.cycles
                ]
                fresh = [u for u in self.multipliers if self.free[u] == self.interval][:1]
                units = units[:CANDIDATES] + fresh or [self._with_room(operation)]
            else:
                units = [self._with_room(operation)]
            self._put(n, min(self._placement(n, u) for u in units))
            for k in values:
                readers[self.source[k]].add(self.unit[n])

    def _with_room(self, operation: UnitOperation) -> int:
        """The first unit with room for an operation, a new one if there is none."""
        for u, kind in enumerate(self.kinds):
            if kind == operation.kind and self.free[u] >= operation.cycles:
                return u
        self.kinds.append(operation.kind)
        self.free.append(self.interval)
        self.inputs += [Counter() for _ in range(PORTS)]
        self.kept.append(Counter())
        if operation.kind == MULTIPLY:
            self.multipliers.append(len(self.kinds) - 1)
        return len(self.kinds) - 1

    def _placement(self, n: int, unit: int) -> _Placement:
        """The better ports for the operands of an operation at a unit, term by term."""
        if self.kinds[unit] != MULTIPLY:  # all such units are alike, and read what is there
            return _Placement(0.0, unit, (False,) * len(self.reads[n]))
        first, second = self.inputs[PORTS * unit : PORTS * unit + 2]
        new: tuple[set[int], set[int]] = set(), set()
        swapped = []
        for a, b in self.reads[n]:
            straight = self._new(a, first, new[0]) + self._new(b, second, new[1])
            crossed = self._new(b, first, new[0]) + self._new(a, second, new[1])
            swap = b is not None and crossed < straight
            swapped.append(swap)
            ports = zip((b, a) if swap else (a, b), (first, second), new, strict=True)
            for value, port, more in ports:
                if value is not None and self.source[value] not in port:
                    more.add(self.source[value])
        added = sum(
            self.cost(len(port) + len(more)) - self.cost(len(port))
            for port, more in zip((first, second), new, strict=True)
        )
        kept, drops = self.kept[unit], self.drops[n]
        if drops is not None and kept and drops not in kept:
            added += self.cost(len(kept) + 1) - self.cost(len(kept))
        return _Placement(added, unit, tuple(swapped))

    def _new(self, value: int | None, port: Counter[int], more: set[int]) -> bool:
        """Whether a value comes from a source that a port does not have yet."""
        return value is not None and (s := self.source[value]) not in port and s not in more

    def _put(self, n: int, placement: _Placement, sign: int = 1) -> None:
        """Places an operation, or with sign -1 takes it away."""
        _, unit, swapped = placement
        for values, swap in zip(self.reads[n], swapped, strict=True):
            for place, value in enumerate(values):
                if value is not None:
                    port = self.inputs[PORTS * unit + (place ^ swap)]
                    _count(port, self.source[value], sign)
        if (drops := self.drops[n]) is not None:
            _count(self.kept[unit], drops, sign)
        self.free[unit] -= sign * self.operations[n].cycles
        self.unit[n], self.swapped[n] = (unit, swapped) if sign > 0 else (-1, ())
        if sign > 0:
            for k in self.operations[n].gives:
                self.source[k] = PLACES * unit + self.at[k]

    # Moves

    def sweep(self, temperature: float) -> None:
        """Tries to move each operation of multipliers, in random order."""
        self.random.shuffle(self.movable)
        for n in self.movable:
            self._move(n, temperature)

    def _move(self, n: int, temperature: float) -> None:
        old = _Placement(0.0, self.unit[n], self.swapped[n])
        ports = self._ports_that_read(n)
        self._put(n, old, -1)
        old = self._placement(n, old.unit)
        best: _Placement | None = None
        for unit in self._candidates(n):
            if self.free[unit] >= self.operations[n].cycles and unit != old.unit:
                placement = self._placement(n, unit)
                change = placement.added - old.added + self._moved(ports, old.unit, unit)
                if best is None or change < best.added:
                    best = placement._replace(added=change)
        if best is None or self.random.random() > exp(min(-best.added / temperature, 0.0)):
            self._put(n, old)
            return
        self._put(n, best)
        for port, reads in ports.items():
            for at, count in reads.items():
                _count(self.inputs[port], PLACES * old.unit + at, -count)
                _count(self.inputs[port], PLACES * best.unit + at, count)

    def _candidates(self, n: int) -> set[int]:
        """Units of operations that read what operation n reads, or whose results are read together
        with this one, and others.
        """
        choose, units = self.random.choice, set[int]()
        values = [k for pair in self.reads[n] for k in pair if k is not None]
        gives = self.operations[n].gives
        result = choose(gives) if len(gives) > 1 else gives[0]
        for _ in range(CANDIDATES):
            kind = self.random.random()
            if kind < 0.5:
                units.add(self.unit[choose(self.readers[choose(values)])])
            elif kind < 0.9 and self.readers[result]:
                sibling = choose(choose(self.reads[choose(self.readers[result])]))
                units.add(-1 if sibling is None else self.source[sibling] // PLACES)
            else:
                units.add(choose(self.multipliers))
        return {u for u in units if u >= 0 and self.kinds[u] == MULTIPLY}

    def _ports_that_read(self, n: int) -> dict[int, Counter[int]]:
        """The ports that read results of an operation: their reads by where these are shown."""
        ports = defaultdict[int, Counter[int]](Counter)
        for result in self.operations[n].gives:
            for reader, term, place in self.read_at[result]:
                port = PORTS * self.unit[reader] + (place ^ self.swapped[reader][term])
                ports[port][self.at[result]] += 1
        return ports

    def _moved(self, ports: Mapping[int, Counter[int]], old: int, new: int) -> float:
        """The change of the costs of ports that read results from another unit."""
        change = 0.0
        for port, reads in ports.items():
            inputs = self.inputs[port]
            after = len(inputs)
            for at, count in reads.items():
                after -= inputs[PLACES * old + at] == count
                after += PLACES * new + at not in inputs
            change += self.cost(after) - self.cost(len(inputs))
        return change


def _dropped(datapath: Datapath, operation: UnitOperation) -> int | None:
    """The places that the result of a run drops of its sum; None for an operation that adapts to
    others of its unit.
    """
    if operation.kind != MULTIPLY or not has_product(operation):
        return None
    return operation.fraction - datapath.format(operation.gives[0]).fraction


def _count(counts: Counter[int], key: int, more: int) -> None:
    """Adds to a count; a count of 0 is left out."""
    counts[key] += more
    if not counts[key]:
        del counts[key]
