"""The memory layout of a team: values that other warps read, their slots, and when outputs leave.

Slots lie in shared memory as long as there are some, and in scratch memory then. A value that only
the warp that computes it reads stays in a register.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from featherlane.backends.cuda.schedule import Schedule

NONE = -1  # no slot


class TeamLayout(NamedTuple):
    """Slots of shared and scratch memory by node, and their numbers. fills: by phase, values that
    are stored to shared slots only to be copied out; copies_out: by phase, the values that are
    copied to outputs then, with their shared slots; phases: how many of all.
    """

    shared: dict[int, int]
    shared_slots: int
    scratch: dict[int, int]
    scratch_slots: int
    fills: dict[int, dict[int, int]]
    copies_out: dict[int, dict[int, int]]
    phases: int


class _Slots:
    """Slots that are reused once they are free, `most` at most."""

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


def layout(schedule: Schedule, output_nodes: Collection[int], capacity: int) -> TeamLayout:
    """The layout of a schedule. output_nodes: nodes that go to outputs; capacity: slots of shared
    memory.
    """
    last, phases, output_nodes = _last_taken(schedule), schedule.phases, set(output_nodes)
    shared, scratch = _Slots(capacity), _Slots(float("inf"))
    places: dict[int, int] = {}
    far: dict[int, int] = {}
    copies_out: dict[int, dict[int, int]] = {}
    ends: dict[int, list[int]] = {}  # by phase, the nodes whose slots nothing takes after it
    waiting: list[int] = []
    for p, phase in enumerate(phases):
        if len(waiting) >= capacity // 3:
            _copy_out(waiting, p, places, copies_out, last, ends)
        for k in ends.pop(p - 1, ()):
            if k in places:
                shared.free.append(places[k])
            else:
                scratch.free.append(far[k])
        nodes = [k for values in phase for k in values]
        for k in sorted(nodes, key=lambda k: k not in output_nodes):
            if k not in output_nodes and k not in last:
                continue
            slot = shared.take()
            if slot == NONE:
                far[k] = scratch.take()
            else:
                places[k] = slot
            if k in output_nodes and k in places:
                waiting.append(k)
            elif k not in output_nodes:
                ends.setdefault(last[k], []).append(k)
    if waiting:
        _copy_out(waiting, len(phases), places, copies_out, last, ends)
    end = len(phases) + bool(len(phases) in copies_out)
    fills = _fill([k for k in sorted(output_nodes) if k not in places], end, capacity, copies_out)
    count = max(
        [shared.count, *(slot + 1 for values in fills.values() for slot in values.values())]
    )
    end = max([len(phases), *(p + 1 for p in copies_out)])
    return TeamLayout(places, count, far, scratch.count, fills, copies_out, end)


def _last_taken(schedule: Schedule) -> dict[int, int]:
    """The last phase in which another warp takes a value, for those that others take."""
    last: dict[int, int] = {}
    places = schedule.places
    for k, operands in schedule.needs.items():
        phase, warp = places[k]
        for a in operands:
            if places[a][1] != warp:
                last[a] = max(last.get(a, 0), phase)
    return last


def _copy_out(
    waiting: list[int],
    p: int,
    places: Mapping[int, int],
    copies_out: dict[int, dict[int, int]],
    last: Mapping[int, int],
    ends: dict[int, list[int]],
) -> None:
    """Copies all values that wait to the outputs, in phase p."""
    copies_out[p] = {k: places[k] for k in waiting}
    for k in waiting:
        ends.setdefault(max(p, last.get(k, 0)), []).append(k)
    waiting.clear()


def _fill(
    late: Sequence[int], first: int, capacity: int, copies_out: dict[int, dict[int, int]]
) -> dict[int, dict[int, int]]:
    """Stores values that have no slot in shared memory to one half of it, while the other half is
    copied out.
    """
    fills, size = dict[int, dict[int, int]](), max(capacity // 2, 1)
    for n, start in enumerate(range(0, len(late), size)):
        slots = {k: size * (n % 2) + i for i, k in enumerate(late[start : start + size])}
        fills[first + n] = copies_out[first + n + 1] = slots
    return fills
