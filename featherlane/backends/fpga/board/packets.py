"""Packets of AXI4-Stream: how the fields of a word lie in beats, as bits for the circuit and as
bytes for the host.

A packet is a number of tasks one after the other; its last beat has TLAST. A task begins at a beat
and takes a whole number of them. Bit 0 of a task is bit 0 of its first beat, the lowest bit of its
first byte in memory. There are two layouts:

- "packed": fields lie bit by bit as in the words of the module, without gaps;
- "words": each field has a word of 32 bits, 64 if one is wider, with its sign or zeros above it.

The circuit knows whether an entry fits its field only in "words".
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fixed.bad_entries import BeyondFormat
from featherlane.backends.fixed.input_limits import (
    NO_RANGES,
    InputLimits,
    Ranges,
    beyond_limits,
    entry_limits,
)
from featherlane.backends.fpga.board.core import StreamCore, WordField, Words

LAYOUTS = ("packed", "words")
WIDTHS = (8, 16, 32, 64, 128, 256, 512, 1024)  # bits of TDATA
Array = Any


class PacketLayout(NamedTuple):
    """The positions of fields in the beats of a task, or of a result.

    places: the first bit and the bits of each field. lane: bits of each word of memory; 0 where
    fields are packed. width: bits of a beat. ranges: those that formats of inputs were assigned
    for, if they were.
    """

    words: Words
    lane: int
    width: int
    ranges: Ranges = NO_RANGES

    @property
    def places(self) -> list[tuple[int, int]]:
        """The first bit of each field, and how many bits it has there."""
        fields = self.words.fields
        if not self.lane:
            return [(field.offset, field.width) for field in fields]
        return [(n * self.lane, self.lane) for n in range(len(fields))]

    @property
    def bits(self) -> int:
        """Bits that mean something, one at least."""
        return max((first + count for first, count in self.places), default=1)

    @property
    def beats(self) -> int:
        """Beats of a task."""
        return -(-self.bits // self.width)

    @property
    def size(self) -> int:
        """Bytes of a task."""
        return self.beats * self.width // 8

    @property
    def last_bytes(self) -> int:
        """Bytes of the last beat that have bits of the task."""
        return -(-(self.bits - (self.beats - 1) * self.width) // 8)

    # Bytes of the host

    def encode(self, inputs: Mapping[str, Array], buffer: Array) -> dict[str, int]:
        """Writes tasks into bytes (tasks, size) and returns how many entries of each input were
        beyond their fields or ranges, without those where none was: such entries saturate.

        inputs: float64 or integers (tasks, *shape) by name, without NaN. Entries of the inputs that
        no field of their task has are not sent.
        """
        tasks, saturated = len(buffer), dict[str, int]()
        memory = np.zeros((-(-self.size // 8), tasks), np.uint64)
        flat = {name: np.reshape(x, (tasks, -1)) for name, x in inputs.items()}
        for field, (first, count) in zip(self.words.fields, self.places, strict=True):
            name, position = field.entries[0]
            rows = self._rows(flat, field.when)
            if field.when is not None and not rows.any():
                continue  # its array need not be there
            values, outside = integers(flat[name][rows, position], field, self._limits(field))
            if beyond := int(np.count_nonzero(outside)):
                saturated[name] = saturated.get(name, 0) + beyond
            _insert(memory, values.view(np.uint64), first, count, rows)
        whole = np.ascontiguousarray(memory.T.astype("<u8", copy=False)).view(np.uint8)
        buffer[...] = whole[:, : self.size]
        return saturated

    def first_beyond(self, inputs: Mapping[str, Array]) -> BeyondFormat:
        """The first entry beyond its field, or its range. inputs: as of `encode`, which has counted
        some.
        """
        tasks = len(next(iter(inputs.values())))
        flat = {name: np.reshape(x, (tasks, -1)) for name, x in inputs.items()}
        for field in self.words.fields:
            name, position = field.entries[0]
            if name not in flat:  # a tag
                continue
            numbers = np.arange(tasks)[self._rows(flat, field.when)]
            _, outside = integers(flat[name][numbers, position], field, self._limits(field))
            if outside.any():
                task, step = int(numbers[outside.argmax()]), 2.0**-field.fraction
                ends, value = (field.least * step, field.most * step), flat[name][task, position]
                return beyond_limits(ends, self.ranges, name, task, position, float(value))
        raise AssertionError("encode has counted entries beyond their fields")

    def _limits(self, field: WordField) -> InputLimits:
        """The integers that a field of a task takes."""
        entry = field.entries[0]
        return entry_limits(field.least, field.most, 2.0**-field.fraction, self.ranges, *entry)

    def _rows(self, flat: Mapping[str, Array], when: int | None) -> Any:
        """The words whose selector is a number; all of them for None."""
        selector = self.words.selector
        return slice(None) if when is None or selector is None else flat[selector][:, 0] == when

    def decode(self, buffer: Array) -> dict[str, Array]:
        """Results of bytes (tasks, size), as float64 (tasks, *shape) by name; NaN for entries that
        no field of their word has.
        """
        tasks = len(buffer)
        padded = np.zeros((tasks, -(-self.size // 8) * 8), np.uint8)
        padded[:, : self.size] = buffer
        memory = np.ascontiguousarray(padded.view("<u8").T)
        shapes = self.words.shapes
        flat = {name: np.full((tasks, prod(shape)), np.nan) for name, shape in shapes.items()}
        fields = zip(self.words.fields, self.places, strict=True)
        for field, (first, _) in sorted(fields, key=lambda pair: pair[0].when is not None):
            rows = self._rows(flat, field.when)
            values = _extract(memory, first, field.width, field.signed, rows)
            for name, position in field.entries:
                flat[name][rows, position] = values * 2.0**-field.fraction
        for name, position, value, when in self.words.constants:
            flat[name][self._rows(flat, when), position] = value
        return {name: flat[name].reshape(tasks, *shape) for name, shape in shapes.items()}


def layout_of(words: Words, layout: str, width: int, ranges: Ranges = NO_RANGES) -> PacketLayout:
    """The layout of a stream's words."""
    wide = any(field.width > 32 for field in words.fields)
    lane = 0 if layout == "packed" else 64 if wide else 32
    return PacketLayout(words, lane, width, ranges)


def ranges_to_json(ranges: Ranges) -> dict[str, Any]:
    """The ranges of a design's inputs as an entry of its facts; none without ranges."""
    return {"ranges": dict(ranges)} if ranges else {}


def layouts_from_json(
    data: Mapping[str, Any], lanes: Mapping[str, int], width: int
) -> tuple[PacketLayout, PacketLayout]:
    """The layouts of tasks and of results in a design's facts, with the ranges that
    `ranges_to_json` wrote; without them in facts of designs before it.
    """
    ranges: Ranges = {
        name: (tuple(map(float, low)), tuple(map(float, high)))
        for name, (low, high) in data.get("ranges", {}).items()
    }
    tasks, results = (Words.from_json(data[key]) for key in ("tasks", "results"))
    given = PacketLayout(tasks, lanes["tasks"], width, ranges)
    return given, PacketLayout(results, lanes["results"], width)


def integers(x: Array, field: WordField, limits: InputLimits) -> tuple[Array, Array]:
    """The nearest integers of a field for numbers, and which numbers were beyond its limits."""
    nearest = np.asarray(x)
    if nearest.dtype.kind == "i" and not field.fraction:
        nearest = nearest.astype(np.int64, copy=False)
    else:
        nearest = np.rint(nearest.astype(np.float64) * 2.0**field.fraction)
    inside = np.clip(nearest, limits.least, limits.most).astype(np.int64)
    return inside, limits.outside(nearest)


def _insert(memory: Array, values: Array, first: int, count: int, rows: Array) -> None:
    """Puts the last `count` bits of values into rows of words of 64 bits (words, tasks)."""
    word, place = divmod(first, 64)
    kept = values & np.uint64((1 << count) - 1)
    memory[word, rows] |= kept << np.uint64(place)
    if place + count > 64:
        memory[word + 1, rows] |= kept >> np.uint64(64 - place)


def _extract(memory: Array, first: int, count: int, signed: bool, rows: Array) -> Array:
    """The integers of `count` bits in rows of words of 64 bits (words, tasks)."""
    word, place = divmod(first, 64)
    bits = memory[word, rows] >> np.uint64(place)
    if place + count > 64:
        bits |= memory[word + 1, rows] << np.uint64(64 - place)
    bits = bits << np.uint64(64 - count)
    return bits.view(np.int64) >> (64 - count) if signed else bits >> np.uint64(64 - count)


class Rate(NamedTuple):
    """The limits of a stream of tasks: cycles that a task takes in the module, in its beats and in
    those of its result; bytes moved, and the share of their bits that mean something.
    """

    interval: int
    task_beats: int
    result_beats: int
    clock: float
    bytes_in: int
    bytes_out: int
    used_in: float
    used_out: float

    @property
    def cycles(self) -> int:
        """Cycles from one task to the next."""
        return max(self.interval, self.task_beats, self.result_beats)

    @property
    def per_second(self) -> float:
        """Tasks a second."""
        return 1e9 / (self.clock * self.cycles)

    @property
    def limit(self) -> str:
        """The part that takes the most cycles: the pipeline, the beats of tasks or of results."""
        if self.cycles == self.interval:
            return "the pipeline"
        return "beats of tasks" if self.cycles == self.task_beats else "beats of results"


def rate_of(core: StreamCore, tasks: PacketLayout, results: PacketLayout) -> Rate:
    """The rate of a module behind streams of these layouts."""
    used = [_used(x) / (8 * x.size) for x in (tasks, results)]
    beats, sizes = (tasks.beats, results.beats), (tasks.size, results.size)
    return Rate(core.interval, *beats, core.clock, *sizes, *used)


def _used(layout: PacketLayout) -> int:
    """Bits of a word that fields have, of the longest one if there are several kinds."""
    fields = layout.words.fields
    choices = {field.when for field in fields}
    return max(sum(f.width for f in fields if f.when in (None, x)) for x in choices)
