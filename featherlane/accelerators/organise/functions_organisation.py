"""The organisation of several functions of a robot in one design by the robot's structure: limbs
that are alike in turn in the sweeps of both stations, and columns in turn in the product with M^-1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from featherlane.accelerators.organise.array_stations import StationArrays, station_arrays
from featherlane.accelerators.organise.arrays import COMPUTED, Assign, in_q16
from featherlane.accelerators.organise.organisation import (
    KeptCuts,
    Organisation,
    array_choices,
    groups_in_turn,
    kernel_estimate,
    share,
)
from featherlane.accelerators.organise.streams import Turn
from featherlane.backends.fixed.slots import SlotKernel
from featherlane.backends.fpga.arrays.schedule import turns
from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.resources import NOTHING, Resources
from featherlane.robot.model import Robot


class FunctionsOrganiser:
    """Makes the organisations of functions of a robot at several intervals, which share their cuts;
    M^-1 is by the factor of M.

    functions: some of those of `fl.multifunction`; assign: gives the formats.
    """

    def __init__(
        self,
        model: Robot,
        functions: Collection[str],
        device: Device,
        assign: Assign = in_q16,
    ) -> None:
        self.model, self.functions = model, functions
        self.device = device
        cut = partial(station_arrays, model, functions, assign=assign)
        self._cuts = KeptCuts[StationArrays](cut, in_turn=False)

    def at(self, interval: int) -> Organisation:
        """Returns the organisation at an interval, cycles from one task to the next. Its `design`
        is a StationArrays; what the arrays have of products is of both stations' sweeps together.
        """
        apart, together, reasons = self._cuts.apart, self._cuts.together, list[str]()
        given = interval, self.device, reasons
        kept = groups_in_turn(together, apart, *given)
        in_turn = _columns_in_turn(together, *given)
        members = frozenset(together.groups[number] for number in kept)
        columns = {"in_turn": in_turn} if together.columns else {}
        made = self._cuts.shared(members, **columns)
        if in_turn:
            made = replace(made, columns=split_columns(made.columns, *given))
        found = tuple(array_choices(made, apart, kept, interval))
        head = self.model, self.model, f"{len(self.functions)} functions", interval, COMPUTED, ()
        return Organisation(*head, found, made, tuple(reasons))


def _columns_in_turn(
    together: StationArrays, interval: int, device: Device, reasons: list[str]
) -> bool:
    """Tells whether columns of the product with M^-1 take less of the device in turn."""
    kernels = [*together.columns.values()]
    if not kernels:
        return False
    if all(turns(len(kernel.members), interval).slots == 1 for kernel in kernels):
        reasons.append(
            f"Columns of products with M^-1: separate, since an interval of {interval} has no time "
            "for turns."
        )
        return False
    shared = sum((_in_turn(k, interval, device) for k in kernels), start=NOTHING)
    separate = sum((_apart(k, interval, device) for k in kernels), start=NOTHING)
    takes, instead = share(shared, device), share(separate, device)
    count = sum(len(kernel.members) for kernel in kernels)
    reasons.append(
        f"{count} columns of products with M^-1: {'in turn' if takes < instead else 'separate'}: "
        f"{shared.dsps:,.0f} DSPs and {shared.luts:,.0f} LUTs in turn on {len(kernels)} arrays, "
        f"{separate.dsps:,.0f} and {separate.luts:,.0f} apart (estimated)."
    )
    return takes < instead


def split_columns(
    columns: Mapping[Turn, SlotKernel],
    interval: int,
    device: Device,
    reasons: list[str],
) -> dict[Turn, SlotKernel]:
    """Returns the kernels of columns, those split in two or more that take less of the device so:
    24 columns at an interval of 32 leave a quarter of the phases empty, 16 and 8 leave none.
    """
    found: list[SlotKernel] = []
    cost = lambda kernel: share(_in_turn(kernel, interval, device), device)
    for kernel in columns.values():
        ways = [[*_of_sizes(kernel, sizes)] for sizes in _sizes(len(kernel.members), interval)]
        best = min(ways, key=lambda own: sum(map(cost, own)))
        found += best
        if len(best) > 1:
            sizes = " and ".join(str(len(own.members)) for own in best)
            reasons.append(
                f"{len(kernel.members)} of these columns: {sizes} on arrays of their own, which "
                "leaves fewer phases empty."
            )
    return {Turn(0, n): kernel for n, kernel in enumerate(found)}


def _sizes(members: int, interval: int) -> Iterator[list[int]]:
    """Yields ways to split members: none, or the largest divisors of the interval first."""
    found, left = list[int](), members
    while left:
        yield [*found, left]
        largest = next(n for n in range(left, 0, -1) if interval % n == 0)
        found.append(largest)
        left -= largest


def _of_sizes(kernel: SlotKernel, sizes: Sequence[int]) -> Iterator[SlotKernel]:
    """Yields the kernels of so many members each."""
    first = 0
    for size in sizes:
        yield kernel.of(range(first, first + size))
        first += size


def _in_turn(kernel: SlotKernel, interval: int, device: Device) -> Resources:
    _, lanes, turn = turns(len(kernel.members), interval)
    one = kernel_estimate(kernel, turn, device)
    return Resources(one.dsps * lanes, one.luts * lanes)


def _apart(kernel: SlotKernel, interval: int, device: Device) -> Resources:
    one, count = kernel_estimate(kernel, interval, device), len(kernel.members)
    return Resources(one.dsps * count, one.luts * count)
