"""Binding: the unit of each operation, so that the operands of a port come from few units.

The memory of a port is written from the outputs of units, through a multiplexer with an input for
each output that gives an operand there. Operations that belong together (`affinity`) begin on one
unit; then operations are moved, or exchanged with one of a unit that has no room, while what adds
inputs is accepted less and less often (Kirkpatrick et al., Optimization by simulated annealing,
1983).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, exp
from typing import NamedTuple, TypeVar

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.memories.affinity import groups_of
from featherlane.backends.fpga.memories.operations import (
    INPUT,
    MULTIPLY,
    OUTPUTS,
    PORTS,
    UnitOperation,
    has_product,
    operands,
)

SWEEPS = 24, 120  # rounds over all operations, at least and at most
MOVES = 400_000  # that are tried, if these rounds allow it
CANDIDATES = 12  # units that are tried for an operation in a round
WARM, COLD = 1.0, 0.08  # temperatures of the first round and of the last one, in inputs

PLACES = 64 * OUTPUTS  # of a unit: its outputs, with up to 63 places dropped
Key = TypeVar("Key")
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
    fill: float = 0.88,
) -> Binding:
    """Returns the binding of operations at an interval, for which runs are not longer. fill: the
    share of the cycles of units that operations take; more leave moves no room.
    """
    binder = _Binder(datapath, operations, interval, fill)
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
    """A unit for an operation, with the ports of its operands, and the inputs of multiplexers that
    it adds.
    """

    added: int
    unit: int
    swapped: tuple[bool, ...]


class _Binder:
    """Operations and their units, while operations are moved.

    unit: of each operation, -1 for none yet. inputs: of each port, the reads from each source.
    Sources are numbered: where unit u shows a value is PLACES u + at, with `at` of the value. kept:
    of each unit, its runs by the places that their results drop of the sum. cycles: of operations.
    """

    def __init__(
        self,
        datapath: Datapath,
        operations: Sequence[UnitOperation],
        interval: int,
        fill: float,
    ) -> None:
        self.datapath, self.operations, self.interval = datapath, operations, interval
        self.kinds = kinds = _units(operations, interval, fill)
        self.unit = [-1] * len(operations)
        self.swapped: list[tuple[bool, ...]] = [()] * len(operations)
        self.inputs: list[Counter[int]] = [Counter() for _ in range(PORTS * len(kinds))]
        self.cycles = [operation.cycles for operation in operations]
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
        self.on = [list[int]() for _ in kinds]  # movable operations by their units

    # First placement

    def place_all(self) -> None:
        """Places the operations, those that belong together on one unit as far as there is room."""
        kinds = MULTIPLY, INPUT
        groups = groups_of(self.datapath, self.operations, dict.fromkeys(kinds, self.interval))
        groups += [[n] for n, op in enumerate(self.operations) if op.kind not in kinds]
        cycles = lambda group: sum(self.cycles[n] for n in group)
        unit, left = dict[int, int](), list[int]()
        for group in sorted(groups, key=lambda group: (-cycles(group), group)):
            place = self._with_room(self.operations[group[0]].kind, cycles(group))
            if place is None:
                left += group
                continue
            self.free[place] -= cycles(group)
            unit |= dict.fromkeys(group, place)
        for n in sorted(left, key=lambda n: (-self.cycles[n], n)):
            operation = self.operations[n]
            place = self._with_room(operation.kind, operation.cycles)
            unit[n] = self._added(operation.kind) if place is None else place
            self.free[unit[n]] -= operation.cycles
        for n, operation in enumerate(self.operations):
            self.source |= {k: PLACES * unit[n] + self.at[k] for k in operation.gives}
        self.free = [self.interval] * len(self.kinds)
        for n in range(len(self.operations)):
            self._put(n, self._placement(n, unit[n]))
        for n in self.movable:
            self.on[unit[n]].append(n)
        self.multipliers = [u for u, kind in enumerate(self.kinds) if kind == MULTIPLY]

    def _with_room(self, kind: str, cycles: int) -> int | None:
        """The unit with the least room that operations have there, None if there is none."""
        units = (u for u, of in enumerate(self.kinds) if of == kind and self.free[u] >= cycles)
        return min(units, key=lambda u: self.free[u], default=None)

    def _added(self, kind: str) -> int:
        """A further unit."""
        self.kinds.append(kind)
        self.free.append(self.interval)
        self.inputs += [Counter() for _ in range(PORTS)]
        self.kept.append(Counter())
        self.on.append([])
        return len(self.kinds) - 1

    def _placement(self, n: int, unit: int) -> _Placement:
        """The better ports for the operands of an operation at a unit, term by term."""
        if self.kinds[unit] != MULTIPLY:  # all such units are alike, and read what is there
            return _Placement(0, unit, (False,) * len(self.reads[n]))
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
        kept, drops = self.kept[unit], self.drops[n]
        slices = drops is not None and bool(kept) and drops not in kept
        return _Placement(len(new[0]) + len(new[1]) + slices, unit, tuple(swapped))

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
                    add_to(port, self.source[value], sign)
        if (drops := self.drops[n]) is not None:
            add_to(self.kept[unit], drops, sign)
        self.free[unit] -= sign * self.cycles[n]
        self.unit[n], self.swapped[n] = (unit, swapped) if sign > 0 else (-1, ())
        if sign > 0:
            for k in self.operations[n].gives:
                self.source[k] = PLACES * unit + self.at[k]

    # Moves

    def sweep(self, temperature: float) -> None:
        """Tries to move each operation of multipliers, in random order."""
        self.random.shuffle(self.movable)
        for n in self.movable:
            choices = [*self._choices(n)]
            if choices:
                self._try(n, *min(choices)[1:], temperature)

    def _choices(self, n: int) -> Iterator[tuple[int, int, int]]:
        """Yields candidates for an operation: the inputs that it adds there, the unit, and the
        operation that makes room there, -1 if there is room.
        """
        old, cycles = self.unit[n], self.cycles[n]
        for unit in self._candidates(n) - {old}:
            least, most = cycles - self.free[unit], cycles + self.free[old]
            others = [m for m in self.on[unit] if least <= self.cycles[m] <= most]
            if least <= 0 or others:
                other = -1 if least <= 0 else self.random.choice(others)
                yield self._placement(n, unit).added, unit, other

    def _try(self, n: int, unit: int, other: int, temperature: float) -> None:
        """Moves an operation, another one in exchange for it; or leaves both where they are."""
        old, moved = self.unit[n], [(n, unit)] if other < 0 else [(other, self.unit[n]), (n, unit)]
        added, before = 0, list[tuple[int, _Placement]]()
        for m, to in moved:
            before.append((m, _Placement(0, self.unit[m], self.swapped[m])))
            added += self._relocate(m, to)
        if added > 0 and self.random.random() > exp(-added / temperature):
            for m, placement in reversed(before):
                self._relocate(m, placement.unit, placement)
            return
        for m, to in moved:
            self.on[old if to == unit else unit].remove(m)
            self.on[to].append(m)

    def _relocate(self, n: int, unit: int, wanted: _Placement | None = None) -> int:
        """Places an operation on another unit and returns the inputs that this adds. wanted: the
        placement there, by default the best.
        """
        ports, old = self._ports_that_read(n), self.unit[n]
        self._put(n, _Placement(0, old, self.swapped[n]), -1)
        new = wanted or self._placement(n, unit)
        added = new.added - self._placement(n, old).added + self._moved(ports, old, unit)
        self._put(n, new)
        for port, reads in ports.items():
            for at, count in reads.items():
                add_to(self.inputs[port], PLACES * old + at, -count)
                add_to(self.inputs[port], PLACES * unit + at, count)
        return added

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

    def _moved(self, ports: Mapping[int, Counter[int]], old: int, new: int) -> int:
        """The inputs that ports have more if they read results from another unit."""
        added = 0
        for port, reads in ports.items():
            inputs = self.inputs[port]
            for at, count in reads.items():
                added -= inputs[PLACES * old + at] == count
                added += PLACES * new + at not in inputs
        return added


def _dropped(datapath: Datapath, operation: UnitOperation) -> int | None:
    """The places that the result of a run drops of its sum; None for an operation that adapts to
    others of its unit.
    """
    if operation.kind != MULTIPLY or not has_product(operation):
        return None
    return operation.fraction - datapath.format(operation.gives[0]).fraction


def add_to(counts: Counter[Key], key: Key, more: int) -> None:
    """Adds to a count; a count of 0 is left out."""
    counts[key] += more
    if not counts[key]:
        del counts[key]
