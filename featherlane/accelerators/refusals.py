"""The message for a design that does not fit its device: what it takes, which interval fits, and
what else would help.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from featherlane.accelerators.choices import LONGEST, MEMORIES, SHARED
from featherlane.accelerators.computation import Whole
from featherlane.accelerators.designers import LONGEST_ON_BOARDS, Designer, interval_that_fits
from featherlane.backends import stages
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga import boards, devices
from featherlane.backends.fpga.cost import DesignCost
from featherlane.errors import CompileError

# Products of 32 bits take four multipliers of 18 bits: formats help no further
MOST_BY_FORMATS = 4.0


class TooSmallError(CompileError):
    """A design that the device cannot hold. interval: the smallest one that fits, None for none."""

    def __init__(self, message: str, interval: int | None) -> None:
        super().__init__(message)
        self.interval = interval

    def __reduce__(self) -> tuple[Any, ...]:
        return TooSmallError, (str(self), self.interval)


def refusal(designer: Designer, whole: Whole, needed: DesignCost) -> TooSmallError:
    """The error of a design that does not fit, with an interval that does. needed: what it takes at
    the interval of the designer's spec.
    """
    spec, interval = designer.spec, designer.spec.interval
    is_pipeline = isinstance(whole, Datapath) and not spec.is_network
    quick = replace(designer, looks=True, runs=designer.runs if is_pipeline else 1)
    subject = spec.label if isinstance(whole, Datapath) else f"{spec.label} in arrays"
    if spec.is_network:
        subject = f"{len(spec.functions)} functions"
    takes, it, does = ("take", "they", "do") if spec.is_network else ("takes", "it", "does")
    stages.begin(f"{subject} {does} not fit at interval {interval}: search for one that fits")
    fitting, tried, last = interval_that_fits(quick, whole, interval, needed)
    if fitting:
        shares = needed.percentages(0, limits=True)
        parts = [
            f"{subject} at interval {interval} {takes} {shares}{_times(needed)}: interval {tried} "
            "fits"
        ]
    else:
        upto = f"any interval from {interval} to" if tried > interval else "interval"
        at_it = f"at {tried} " if tried > interval else ""
        parts = [
            f"{subject} {does} not fit {last.device.name} at {upto} {tried}: {at_it}{it} {takes} "
            f"{last.shares_in_words(0, limits=True)}{_times(last)}"
        ]
    if not fitting and spec.board is not None:
        parts += _larger_board(quick, whole) or _larger_device(last)
    if is_pipeline and spec.sharing != "whole" and spec.datapath == SHARED:
        longer = max(interval, min(tried, LONGEST // 4))
        shared = replace(quick, spec=replace(spec, sharing="whole"))
        if shared.quick(whole, longer).fits:
            parts.append(f'sharing="whole" at interval {longer} fits')
    parts += _fewer(quick, whole, needed if fitting else last, bool(fitting))
    return TooSmallError("; ".join(parts), fitting)


def _fewer(designer: Designer, whole: Whole, worst: DesignCost, fits: bool) -> list[str]:
    """Choices that need less of the device, in clauses of a message. worst: the cost in that;
    fits: whether an interval does.
    """
    spec, is_flat = designer.spec, isinstance(whole, Datapath)
    of, clauses = "fewer DSPs" if is_flat or spec.is_network else "less of all", list[str]()
    if spec.board is not None and worst.shares.luts > worst.most[1]:
        of = "fewer LUTs"
        units = replace(designer, spec=replace(spec, datapath=MEMORIES))
        if spec.datapath == SHARED and not fits and units.least(whole, LONGEST_ON_BOARDS).fits:
            clauses.append('datapath="memories" needs fewer LUTs at long intervals')
    if spec.board is None and spec.is_network and is_flat and worst.shares.luts > 100:
        clauses.append("arrays='auto' needs fewer LUTs at long intervals")
    if worst.excess <= MOST_BY_FORMATS:
        clauses.append(f"formats with fewer bits need {of}")
    return clauses


def _larger_board(designer: Designer, whole: Whole) -> list[str]:
    """The board with the most LUTs as a clause of a message, if a design that does not fit on the
    board of the spec fits there.
    """
    largest = max(boards.tables().values(), key=lambda board: board.target(None, 1.0).luts)
    spec = replace(designer.spec, board=largest.key, device=largest.device, delays=None)
    if spec.target.luts <= designer.spec.target.luts:
        return []
    there, interval = replace(designer, spec=spec), spec.interval
    fitting, *_ = interval_that_fits(there, whole, interval, there.quick(whole, interval))
    known = [b.name for b in boards.tables().values() if b.device == largest.device]
    return [f"on the {' or '.join(known)} interval {fitting} fits"] if fitting else []


def _larger_device(needed: DesignCost) -> list[str]:
    """The largest device as a clause of a message, and how much more it has."""
    key = max(devices.names(), key=lambda name: devices.load(name).luts)
    largest, there = devices.load(key), needed.device
    if largest.luts <= there.luts:
        return []
    dsps, luts = largest.dsps / there.dsps, largest.luts / there.luts
    has = f"has {dsps:.0f} times the DSPs and {luts:.0f} times the LUTs"
    return [f"device={key!r}, which open tools do not route, {has}"]


def _times(needed: DesignCost) -> str:
    """The factor by which a design is larger than what open tools route, where that is not all of a
    device. It is more than one, and does not read as one.
    """
    if min(needed.most) == 100:
        return ""
    factor = needed.excess
    digits = f"{factor:.0f}" if factor >= 10 else f"{factor:.{2 if factor >= 1.1 else 3}g}"
    return f", {digits} times what open tools route"
