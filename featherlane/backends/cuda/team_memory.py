"""Where a team keeps values: which ones leave their warp, in which slots, and when outputs leave.

Slots lie in shared memory as long as there are some, and in scratch memory then. A value that only
its own warp takes stays in a register.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from featherlane.backends.cuda.schedule import Schedule

NONE = -1  # no slot


class TeamLayout(NamedTuple):
    """Slots of shared and scratch memory by node, and their numbers. fills: by phase, values that
    come to shared slots only to be shown; shows: by phase, the values that outputs show then, with
    their shared slots; phases: how many of all.
    """

    shared: dict[int, int]
    shared_slots: int
    scratch: dict[int, int]
    scratch_slots: int
    fills: dict[int, dict[int, int]]
    shows: dict[int, dict[int, int]]
    phases: int


class _Slots:
    """Slots that are given again once they are free, `most` at most."""

    def __init__(self, most: float) -> None:
        self.most, self.count = most, 0
        self.free: list[int] = []

    def take(self) -> int:
        """A free slot, or NONE."""
        if self.free:
            return self.free.pop()
        if self.count >= self.most:
            return NONE
        self.count += 1
        return self.count - 1


def layout(schedule: Schedule, shown: Collection[int], capacity: int) -> TeamLayout:
    """The layout of a schedule whose nodes `shown` go to outputs, with so many slots of shared
    memory.
    """
    last, phases, shown = _last_taken(schedule), schedule.phases, set(shown)
    shared, scratch = _Slots(capacity), _Slots(float("inf"))
    places: dict[int, int] = {}
    far: dict[int, int] = {}
    shows: dict[int, dict[int, int]] = {}
    ends: dict[int, list[int]] = {}  # by phase, the nodes whose slots nothing takes after it
    waiting: list[int] = []
    for p, phase in enumerate(phases):
        if len(waiting) >= capacity // 3:
            _show(waiting, p, places, shows, last, ends)
        for k in ends.pop(p - 1, ()):
            if k in places:
                shared.free.append(places[k])
            else:
                scratch.free.append(far[k])
        nodes = [k for own in phase for k in own]
        for k in sorted(nodes, key=lambda k: k not in shown):
            if k not in shown and k not in last:
                continue
            slot = shared.take()
            if slot == NONE:
                far[k] = scratch.take()
            else:
                places[k] = slot
            if k in shown and k in places:
                waiting.append(k)
            elif k not in shown:
                ends.setdefault(last[k], []).append(k)
    if waiting:
        _show(waiting, len(phases), places, shows, last, ends)
    end = len(phases) + bool(len(phases) in shows)
    fills = _fill([k for k in sorted(shown) if k not in places], end, capacity, shows)
    count = max([shared.count, *(slot + 1 for own in fills.values() for slot in own.values())])
    end = max([len(phases), *(p + 1 for p in shows)])
    return TeamLayout(places, count, far, scratch.count, fills, shows, end)


def _last_taken(schedule: Schedule) -> dict[int, int]:
    """The last phase in which another warp takes a value, for those that others take."""
    last: dict[int, int] = {}
    places = schedule.places
    for k, own in schedule.needs.items():
        phase, warp = places[k]
        for a in own:
            if places[a][1] != warp:
                last[a] = max(last.get(a, 0), phase)
    return last


def _show(
    waiting: list[int],
    p: int,
    places: Mapping[int, int],
    shows: dict[int, dict[int, int]],
    last: Mapping[int, int],
    ends: dict[int, list[int]],
) -> None:
    """Lets outputs show all values that wait, in a phase."""
    shows[p] = {k: places[k] for k in waiting}
    for k in waiting:
        ends.setdefault(max(p, last.get(k, 0)), []).append(k)
    waiting.clear()


def _fill(
    late: Sequence[int], first: int, capacity: int, shows: dict[int, dict[int, int]]
) -> dict[int, dict[int, int]]:
    """Lets values that have no place in shared memory come there, to one half of it while the other
    half is shown.
    """
    fills, size = dict[int, dict[int, int]](), max(capacity // 2, 1)
    for n, start in enumerate(range(0, len(late), size)):
        own = {k: size * (n % 2) + i for i, k in enumerate(late[start : start + size])}
        fills[first + n] = shows[first + n + 1] = own
    return fills
