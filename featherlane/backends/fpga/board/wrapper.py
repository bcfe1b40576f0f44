"""AXI around a module between two streams: beats to words, words to beats, ends of packets,
registers, and resets that leave nothing behind.

Every packet that comes in gives one packet of results, of as many tasks, whatever is wrong with it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from featherlane.backends.fpga.board import registers
from featherlane.backends.fpga.board.beats import receiver, sender
from featherlane.backends.fpga.board.core import StreamCore
from featherlane.backends.fpga.board.packets import (
    LAYOUTS,
    WIDTHS,
    PacketLayout,
    Rate,
    layout_of,
    rate_of,
)
from featherlane.backends.fpga.board.top import owed_bits, top
from featherlane.backends.fpga.module import Module, named, sources
from featherlane.errors import shown


@dataclass(frozen=True)
class WrappedCore:
    """A module between AXI streams of `width` bits, with registers. layout: "packed" or "words"."""

    core: StreamCore
    width: int
    layout: str

    def __post_init__(self) -> None:
        if self.width not in WIDTHS:
            raise ValueError(
                f"width is {shown(self.width)}: wanted bits of TDATA, one of "
                f"{', '.join(map(str, WIDTHS))}"
            )
        if self.layout not in LAYOUTS:
            wanted = " or ".join(map(repr, LAYOUTS))
            raise ValueError(f"layout is {shown(self.layout)}: wanted {wanted}")
        self.core.verify()
        if self.layout == "words" and (self.core.tasks.selector or self.core.results.selector):
            reason = "words of different fields, as those of several functions, are only packed"
            raise ValueError(f"layout is 'words': {reason}")

    @property
    def name(self) -> str:
        """The top module."""
        return f"{self.core.name}_axi"

    @cached_property
    def tasks(self) -> PacketLayout:
        """The layout of tasks in packets."""
        return layout_of(self.core.tasks, self.layout, self.width, self.core.ranges)

    @cached_property
    def results(self) -> PacketLayout:
        """The layout of results in packets."""
        return layout_of(self.core.results, self.layout, self.width)

    @property
    def rate(self) -> Rate:
        """The cycles and bytes of a task, and the part that limits them."""
        return rate_of(self.core, self.tasks, self.results)

    @cached_property
    def hash(self) -> int:
        """64 bits of the sources, the fields of both streams and the layout."""
        words = (self.core.tasks.to_json(), self.core.results.to_json())
        known = [self.core.hashed_sources, words, self.width, self.layout, registers.VERSION]
        digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).digest()
        return int.from_bytes(digest[:8], "little")

    @property
    def constants(self) -> dict[str, int]:
        """The registers that never change."""
        return {
            "magic": registers.MAGIC,
            "version": registers.VERSION,
            "hash_low": self.hash & 0xFFFFFFFF,
            "hash_high": self.hash >> 32,
            "stream_bits": self.width,
            "interval": self.core.interval,
            "clock_khz": round(1e6 / self.core.clock),
            "task_beats": self.tasks.beats,
            "task_entries": len(self.core.tasks.fields),
            "task_lane": self.tasks.lane,
            "result_beats": self.results.beats,
            "result_entries": len(self.core.results.fields),
            "result_lane": self.results.lane,
        }

    @cached_property
    def modules(self) -> dict[str, Module]:
        """The modules around the core, by their names."""
        name, owed = self.name, owed_bits(self.core.under_way)
        return named(
            receiver(f"{name}_receive", self.tasks),
            sender(f"{name}_send", self.results, owed),
            registers.module(f"{name}_registers", self.constants),
            top(name, self.core, self.tasks, self.results),
        )

    @property
    def sources(self) -> dict[str, str]:
        """The text of all modules, by the names of their files."""
        return {**self.core.sources, **sources(self.modules)}
