"""Columns of the product with M^-1 in a design of several functions: time-multiplexed or each on a
circuit, by what takes less of the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from featherlane.accelerators.organise.estimates import kernel_estimate, share
from featherlane.accelerators.organise.streams import KernelKey
from featherlane.backends.fixed.slots import SlotKernel
from featherlane.backends.fpga.arrays.schedule import folding
from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.resources import NOTHING, Resources


def are_columns_multiplexed(
    columns: Mapping[KernelKey, SlotKernel], interval: int, device: Device, reasons: list[str]
) -> bool:
    """Tells whether columns of the product with M^-1 take less of the device time-multiplexed."""
    kernels = [*columns.values()]
    if not kernels:
        return False
    if all(folding(len(kernel.members), interval).slots == 1 for kernel in kernels):
        reasons.append(
            f"Columns of products with M^-1: separate, since an interval of {interval} leaves no "
            "time for multiplexing."
        )
        return False
    shared = sum((_multiplexed(k, interval, device) for k in kernels), start=NOTHING)
    separate = sum((_unshared(k, interval, device) for k in kernels), start=NOTHING)
    takes, instead = share(shared, device), share(separate, device)
    count = sum(len(kernel.members) for kernel in kernels)
    reasons.append(
        f"{count} columns of products with M^-1: "
        f"{'time-multiplexed' if takes < instead else 'separate'}: "
        f"{shared.dsps:,.0f} DSPs and {shared.luts:,.0f} LUTs time-multiplexed on {len(kernels)} "
        f"arrays, {separate.dsps:,.0f} and {separate.luts:,.0f} apart (estimated)."
    )
    return takes < instead


def split_columns(
    columns: Mapping[KernelKey, SlotKernel],
    interval: int,
    device: Device,
    reasons: list[str],
) -> dict[KernelKey, SlotKernel]:
    """Returns the kernels of columns, those split in two or more that take less of the device so:
    24 columns at an interval of 32 leave a quarter of the phases empty, 16 and 8 leave none.
    """
    kernels: list[SlotKernel] = []
    cost = lambda kernel: share(_multiplexed(kernel, interval, device), device)
    for kernel in columns.values():
        ways = [[*_of_sizes(kernel, sizes)] for sizes in _sizes(len(kernel.members), interval)]
        best = min(ways, key=lambda split: sum(map(cost, split)))
        kernels += best
        if len(best) > 1:
            sizes = " and ".join(str(len(split.members)) for split in best)
            reasons.append(
                f"{len(kernel.members)} of these columns: {sizes} on arrays of their own, which "
                "leaves fewer phases empty."
            )
    return {KernelKey(0, n): kernel for n, kernel in enumerate(kernels)}


def _sizes(members: int, interval: int) -> Iterator[list[int]]:
    """Yields ways to split members: none, or the largest divisors of the interval first."""
    sizes, left = list[int](), members
    while left:
        yield [*sizes, left]
        largest = next(n for n in range(left, 0, -1) if interval % n == 0)
        sizes.append(largest)
        left -= largest


def _of_sizes(kernel: SlotKernel, sizes: Sequence[int]) -> Iterator[SlotKernel]:
    """Yields the kernels of so many members each."""
    first = 0
    for size in sizes:
        yield kernel.of(range(first, first + size))
        first += size


def _multiplexed(kernel: SlotKernel, interval: int, device: Device) -> Resources:
    _, lanes, slot_cycles = folding(len(kernel.members), interval)
    one = kernel_estimate(kernel, slot_cycles, device)
    return Resources(one.dsps * lanes, one.luts * lanes)


def _unshared(kernel: SlotKernel, interval: int, device: Device) -> Resources:
    one, count = kernel_estimate(kernel, interval, device), len(kernel.members)
    return Resources(one.dsps * count, one.luts * count)
