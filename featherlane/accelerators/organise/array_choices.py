"""The arrays of an organisation: their names, limbs and operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from featherlane.accelerators.organise.arrays import ArrayPart, Arrays
from featherlane.backends.fixed.slots import SlotKernel
from featherlane.backends.fpga.arrays.schedule import folding
from featherlane.robot.chains import Alike, Chain
from featherlane.robot.parts import WORLD


class ArrayChoice(NamedTuple):
    """An array of an organisation.

    name: of its limbs; parent: the number of the array that carries it, WORLD for none. limbs: the
    joints of each by name. lanes: circuits beside each other; slots: limbs time-multiplexed on
    one; interval: cycles of a slot. products, additions: of one circuit, both directions together;
    separate: products if each limb had a circuit of its own.
    """

    name: str
    parent: int
    limbs: tuple[tuple[str, ...], ...]
    lanes: int
    slots: int
    interval: int
    products: int
    additions: int
    separate: int

    @property
    def is_shared(self) -> bool:
        return self.slots > 1


def array_choices(
    cut: Arrays, unshared: Arrays, kept: set[int], interval: int
) -> Iterator[ArrayChoice]:
    """Yields the arrays: of a group that shares a circuit one, of others one for each limb."""
    numbers: dict[int, int] = {}  # by chain
    names = [joint.name for joint in cut.model.joints]
    count = 0
    for number, group in enumerate(cut.groups):
        sets = [group.members] if number in kept else [(c,) for c in group.members]
        for members in sets:
            slots, lanes, slot_cycles = folding(len(members), interval)
            limbs = [_joints(cut.chains[c], cut, names) for c in members]
            first = group.members.index(members[0])
            kernels = _of(cut, number, None if number in kept else first)
            alone = [k for part, k in unshared.kernels.items() if part.group == number]
            yield ArrayChoice(
                _named(limbs),
                numbers.get(cut.chains[members[0]].parent, WORLD),
                tuple(limbs),
                lanes,
                slots,
                slot_cycles,
                sum(k.datapath.graph.op.count("mul") for k in kernels),
                sum(k.datapath.graph.op.count(op) for k in kernels for op in ("add", "sub")),
                sum(k.datapath.graph.op.count("mul") for k in alone)
                // (1 if number in kept else len(group.members)),
            )
            numbers |= dict.fromkeys(members, count)
            count += 1


def _of(cut: Arrays, number: int, member: int | None) -> list[SlotKernel]:
    """The kernels of a group, or of one of its members."""

    def belongs(part: ArrayPart) -> bool:
        return part.group == number and part.member in (None, member) and not part.sums

    return [kernel for part, kernel in cut.kernels.items() if belongs(part)]


def _joints(chain: Chain, cut: Arrays, names: Sequence[str]) -> tuple[str, ...]:
    """The joints of a chain by name; a universal joint, which is two to the algorithms, once."""
    carriers = cut.carriers
    return tuple(names[i] for i, body in enumerate(carriers) if body in chain.bodies)


def group_name(cut: Arrays, group: Alike) -> str:
    """The name of all limbs of a group."""
    names = [joint.name for joint in cut.model.joints]
    return _named([_joints(cut.chains[c], cut, names) for c in group.members])


def _named(limbs: Sequence[Sequence[str]]) -> str:
    """The words that the names of the joints of each limb share, or its first joint."""
    return ", ".join(_common(limb) for limb in limbs)


def _common(joints: Sequence[str]) -> str:
    words = [name.split("_") for name in joints]
    shared = [w for w in words[0] if w != "joint" and all(w in others for others in words)]
    return "_".join(shared) or joints[0]
