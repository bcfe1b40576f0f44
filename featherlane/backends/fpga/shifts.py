"""Shifters: products with a power of two that depends on data.

How far they shift follows from the exponents that there can be, which are those of a number, or of
its reciprocal: a number of 18 bits has 19 of the 256 exponents of a format with eight bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.text import Signal, bits_of, signed_width
from featherlane.errors import CompileError


def power_operand(datapath: Datapath, k: int) -> int | None:
    """The operand of a product that is a power of two that depends on data, by its position; None
    if there is none. Raises CompileError if both are.
    """
    ops = [datapath.graph.op[a] for a in datapath.graph.args[k]]
    if ops.count("power_of_two") == 2:
        raise CompileError(
            f"node {k} is a product of two powers of two: there is no circuit for it"
        )
    return ops.index("power_of_two") if "power_of_two" in ops else None


class Exponents(NamedTuple):
    """The least and the largest value that an exponent can have."""

    least: int
    most: int


def exponents(datapath: Datapath, k: int) -> Exponents:
    """The exponents of a power of two: where they are those of a number, or of its reciprocal, the
    ones that its format can have; else all that their format holds.
    """
    form, (a,) = datapath.format(k), datapath.graph.args[k]
    formats = [form, datapath.format(a)]
    negative = datapath.graph.op[a] == "neg"
    if negative:
        (a,) = datapath.graph.args[a]
        formats.append(datapath.format(a))
    if datapath.graph.op[a] == "exponent":
        of = datapath.format(datapath.graph.args[a][0])
        least, most = -of.fraction - 1, of.width - 1 - of.fraction
        if negative:
            least, most = -most, -least
        if all(f.least <= min(least, -most) and max(most, -least) <= f.most for f in formats):
            return Exponents(least, most)
    return Exponents(form.least, form.most)


class ShiftRange(NamedTuple):
    """A product of a number and 2^k: `most` zeros are put behind it, and it is shifted to the
    right by start - k, at most by `places`, or not at all where that is negative, if it can be.
    """

    most: int
    places: int
    start: int
    clamped: bool


def shift_range(datapath: Datapath, k: int, power: int) -> ShiftRange:
    """The shifts of a product with a power of two. power: the position of that operand."""
    args, out = datapath.graph.args[k], datapath.format(k)
    exponent = exponents(datapath, args[power])
    offset = out.fraction - datapath.format(args[1 - power]).fraction
    left = max(exponent.most + offset, 0)
    most = min(out.width, left)  # no bit stays of what is shifted further
    places = max(most - (exponent.least + offset), 0)
    return ShiftRange(most, places, most - offset, left > most)


def common_range(ranges: Iterable[ShiftRange]) -> ShiftRange:
    """The shifts of a unit for products with these. Each of them needs another start (`start_in`)
    in it.
    """
    ranges = list(ranges)
    most = max(r.most for r in ranges)
    places = max(r.places + most - r.most for r in ranges)
    start = max((start_in(r, most) for r in ranges), key=signed_width)
    return ShiftRange(most, places, start, any(r.clamped for r in ranges))


def start_in(shifts: ShiftRange, most: int) -> int:
    """The start of shifts where so many zeros are put behind the number."""
    return shifts.start + most - shifts.most


def places_to_shift(
    name: str, shifts: ShiftRange, start: Signal, exponent: Signal
) -> tuple[list[tuple[Signal, str]], Signal]:
    """The wires that make the number of places by which a number is shifted to the right, and that
    number. name: what those of the wires begin with.
    """
    width = max(start.width, exponent.width) + 1
    by = Signal(f"{name}_by", max(width, shifts.places.bit_length() + 1))
    count = Signal(f"{name}_count", shifts.places.bit_length())
    last = f"{by.name}[{count.width - 1}:0]"
    text = f"{by.name} < 0 ? '0 : {last}" if shifts.clamped else last
    return [(by, f"{start.name} - {exponent.name}"), (count, text)], count


def shifted_right(
    name: str, whole: Signal, count: Signal, width: int
) -> tuple[list[tuple[Signal, str]], Signal]:
    """The stages of a shifter, and its result in so many bits. The longest shift is the first one:
    each stage has only the bits that those behind it can bring to the result.
    """
    stages = list[tuple[Signal, str]]()
    widths = stage_bits(count.width, whole.width, width)
    for n, bits in zip(reversed(range(count.width)), widths, strict=True):
        stage = Signal(f"{name}_right_{n}", bits)
        moved, stays = (bits_of(whole, first, bits) for first in (1 << n, 0))
        stages.append((stage, f"{count.name}[{n}] ? {moved} : {stays}"))
        whole = stage
    return stages, whole


def stage_bits(stages: int, whole: int, width: int) -> list[int]:
    """The bits of each stage. whole: those of what is shifted; width: those of the result."""
    return [min(width + (1 << n) - 1, whole) for n in reversed(range(stages))]
