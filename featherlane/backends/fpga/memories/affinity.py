"""Groups of operations that belong on one unit, since they read from the same ones and are read
together.

Pairs of groups are joined, each group once a round, those first that save most inputs of
multiplexers for their size, as multilevel partitioning does it (Karypis and Kumar, A fast and high
quality multilevel scheme for partitioning irregular graphs, 1998).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import sqrt

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.memories.operations import UnitOperation, operands

NEIGHBOURS = 64  # groups that each one of a set is compared with; sets of hundreds are rare


def groups_of(
    datapath: Datapath,
    operations: Sequence[UnitOperation],
    room: Mapping[str, int],
) -> list[list[int]]:
    """Returns groups of the operations of some kinds, by their numbers: each of one kind, and of as
    many cycles as there is room for on a unit of this kind, or fewer.
    """
    groups = _Groups(datapath, operations, room)
    while groups.join():
        pass
    return [*groups.members.values()]


class _Groups:
    """Groups, while they grow. of: the group of each operation. members, size, kind: operations,
    cycles and kind of each group. reads: of each operation the sources of its operands, as
    operation and place.
    """

    def __init__(
        self,
        datapath: Datapath,
        operations: Sequence[UnitOperation],
        room: Mapping[str, int],
    ) -> None:
        self.room, self.kind = room, [operation.kind for operation in operations]
        source = {
            k: (n, place)
            for n, operation in enumerate(operations)
            for k, place in operation.places(datapath).items()
        }
        self.reads = [
            {source[k] for term in op.terms for k in operands(datapath, term) if k is not None}
            for op in operations
        ]
        self.of = [*range(len(operations))]
        self.size = [operation.cycles for operation in operations]
        self.members = {n: [n] for n, kind in enumerate(self.kind) if kind in room}

    def join(self) -> bool:
        """Joins pairs of groups, each group once, and returns whether there were any."""
        saved, joined = self._saved(), set[int]()

        def merit(pair: tuple[int, int]) -> tuple[float, int]:
            sizes = [self.size[n] for n in pair]
            return -saved[pair] / sqrt(sizes[0] * sizes[1]), sum(sizes)

        for a, b in sorted(saved, key=merit):
            if a not in joined and b not in joined:
                joined |= {a, b}
                self.size[a] += self.size[b]
                for n in self.members[b]:
                    self.of[n] = a
                self.members[a] += self.members.pop(b)
        return bool(joined)

    def _saved(self) -> Mapping[tuple[int, int], int]:
        """The inputs of multiplexers that are saved if two groups are on one unit, for pairs that
        have room there: sources that both read, and groups that read both.
        """
        readers, sources = defaultdict[object, set[int]](set), defaultdict[object, set[int]](set)
        for n, reads in enumerate(self.reads):
            for m, place in reads:
                readers[self.of[m], place].add(self.of[n])
                sources[self.of[n], place].add(self.of[m])
        saved = Counter[tuple[int, int]]()
        for near in (*readers.values(), *sources.values()):
            saved.update(self._pairs(near))
        return saved

    def _pairs(self, near: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yields the pairs among groups that can be joined."""
        order = sorted(n for n in near if n in self.members)
        for i, a in enumerate(order):
            for b in order[i + 1 : i + 1 + NEIGHBOURS]:
                kind, size = self.kind[a], self.size[a] + self.size[b]
                if self.kind[b] == kind and size <= self.room[kind]:
                    yield a, b
