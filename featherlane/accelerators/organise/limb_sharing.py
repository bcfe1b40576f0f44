"""The decision which limbs are time-multiplexed on one circuit: where that takes less."""

from __future__ import annotations

from featherlane.accelerators.organise.array_choices import group_name
from featherlane.accelerators.organise.arrays import Arrays
from featherlane.accelerators.organise.estimates import kernel_estimate, share
from featherlane.backends.fpga.arrays.schedule import folding
from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.resources import NOTHING, Resources
from featherlane.robot.chains import Alike


def multiplexed_groups(
    fully_shared: Arrays,
    unshared: Arrays,
    interval: int,
    device: Device,
    reasons: list[str],
) -> set[int]:
    """Returns the groups whose limbs take less of the device on one time-multiplexed circuit; adds
    the reasons.
    """
    options = fully_shared, unshared, interval, device, reasons
    return {
        number
        for number, group in enumerate(fully_shared.groups)
        if len(group.members) > 1 and _is_cheaper(number, group, *options)
    }


def _is_cheaper(
    number: int,
    group: Alike,
    fully_shared: Arrays,
    unshared: Arrays,
    interval: int,
    device: Device,
    reasons: list[str],
) -> bool:
    """Tells whether alike limbs take less of the device on one time-multiplexed circuit."""
    name, count = group_name(fully_shared, group), len(group.members)
    slots, lanes, slot_cycles = folding(count, interval)
    kernels = [
        k for part, k in fully_shared.kernels.items() if part.group == number and not part.sums
    ]
    if any(len(k.members) != count for k in kernels):
        reasons.append(f"{name}: separate, since their graphs are not alike.")
        return False
    if slots == 1:
        why = f"an interval of {interval} leaves no time for multiplexing"
        reasons.append(f"{name}: separate, since {why}.")
        return False
    shared = sum((kernel_estimate(k, slot_cycles, device) for k in kernels), start=NOTHING)
    shared = Resources(shared.dsps * lanes, shared.luts * lanes)
    alone = [k for part, k in unshared.kernels.items() if part.group == number]
    separate = sum((kernel_estimate(k, interval, device) for k in alone), start=NOTHING)
    takes, instead = share(shared, device), share(separate, device)
    figures = f"{shared.dsps:,.0f} DSPs and {shared.luts:,.0f} LUTs time-multiplexed, "
    figures += f"{separate.dsps:,.0f} and {separate.luts:,.0f} apart (estimated)"
    reasons.append(f"{name}: {'one array' if takes < instead else 'separate'}: {figures}.")
    return takes < instead
