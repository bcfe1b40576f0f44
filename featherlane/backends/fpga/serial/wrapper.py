"""A design behind a serial line: the link, the self-test and the core, between two pins."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from featherlane.backends.fpga.board.core import StreamCore
from featherlane.backends.fpga.board.packets import PacketLayout, layout_of
from featherlane.backends.fpga.module import Module, named, same, sources
from featherlane.backends.fpga.serial import frames
from featherlane.backends.fpga.serial.host import SerialFacts
from featherlane.backends.fpga.serial.link import MOST_OUTSTANDING, LinkPlan, link
from featherlane.backends.fpga.serial.rate import BITS, ONE, PORT, rate
from featherlane.backends.fpga.serial.self_test import TestPlan, self_test
from featherlane.errors import CompileError


@dataclass(frozen=True)
class SerialCore:
    """A module between two streams behind a UART of 8N1, with a self-test.

    sixteenths: of a clock cycle in a bit of the line (`rate.sixteenths`); pause: the link forgets
    half a frame after 2^pause cycles (`link.pause_of`). The top module has the ports clock, reset
    (synchronous), rx and tx.
    """

    core: StreamCore
    test: TestPlan
    sixteenths: int
    pause: int

    def __post_init__(self) -> None:
        self.core.verify()
        # A task stands in the register that it came in until the next one's payload begins
        if self.core.interval * ONE > 10 * self.sixteenths:
            raise CompileError(
                f"{self.core.name} takes a task every {self.core.interval} cycles, the line a byte "
                f"in {10 * self.sixteenths / ONE:g}: a slower line is wanted"
            )

    @property
    def name(self) -> str:
        """The top module."""
        return f"{self.core.name}_serial"

    @cached_property
    def tasks(self) -> PacketLayout:
        """The layout of a task's word in bytes."""
        return layout_of(self.core.tasks, "packed", 8, self.core.ranges)

    @cached_property
    def results(self) -> PacketLayout:
        """The layout of a result's word in bytes."""
        return layout_of(self.core.results, "packed", 8)

    @cached_property
    def hash(self) -> int:
        """64 bits of the sources, the fields of both streams and the states of the self-test."""
        words = (self.core.tasks.to_json(), self.core.results.to_json())
        test = (self.test.tasks, self.test.mask)
        known: list[Any] = [self.core.hashed_sources, words, test, frames.VERSION]
        digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).digest()
        return int.from_bytes(digest[:8], "little")

    @property
    def plan(self) -> LinkPlan:
        """The numbers of the link."""
        return LinkPlan(
            self.core.tasks.bits,
            self.core.results.bits,
            self.hash,
            self.core.interval,
            min(self.core.under_way, MOST_OUTSTANDING),
            self.sixteenths,
            self.pause,
        )

    @property
    def facts(self) -> SerialFacts:
        """The facts that a host needs; serial.json has them."""
        test = self.test.wanted(self.core.results.bits)
        layouts = self.tasks, self.results
        return SerialFacts(self.name, self.hash, *layouts, test, self.core.functions)

    @cached_property
    def modules(self) -> dict[str, Module]:
        """The modules around the core, by their names."""
        plan = self.plan
        return named(
            link(f"{self.name}_link", plan),
            rate(f"{self.name}_rate", self.sixteenths),
            self_test(f"{self.name}_test", self.test, plan.task_bits, plan.result_bits),
            _top(self.name, self.core, plan),
        )

    @property
    def sources(self) -> dict[str, str]:
        """The text of all modules, by the names of their files."""
        return {**self.core.sources, **sources(self.modules)}


def _top(name: str, core: StreamCore, plan: LinkPlan) -> Module:
    """The top module."""
    module = Module(name, f"{core.name} behind a serial line: see the documentation of the board.")
    module.input("clock", "reset", "rx")
    module.output("tx")
    module.declare("task_data", "in_data", bits=plan.task_bits)
    module.declare("out_data", bits=plan.result_bits)
    module.declare("task_valid", "result_ready", "in_valid", "in_ready", "out_valid")
    module.declare("test_start", "test_running", "test_done")
    module.declare("test_passes", bits=5)
    module.declare("test_cycles", bits=32)
    module.declare("test_signature", bits=8 * frames.SIGNATURE_BYTES)
    module.declare(PORT, bits=BITS)
    module.instance(f"{name}_rate", "rate", same([PORT]))
    streams = ("in_valid", "in_ready", "in_data", "out_valid", "out_data")
    tests = ("start", "passes", "running", "done", "cycles", "signature")
    module.instance(f"{name}_link", "link", {
        **same(("clock", "reset", "rx", PORT, "tx", "task_valid", "task_data")),
        "task_ready": "in_ready",
        "result_valid": "out_valid && !test_running", "result_data": "out_data",
        **same(("result_ready", *(f"test_{port}" for port in tests))),
    })  # fmt: skip
    module.instance(f"{name}_test", "test", {
        **same(("clock", "reset", "task_valid", "task_data", *streams)),
        **{port: f"test_{port}" for port in tests},
    })  # fmt: skip
    module.instance(core.name, "core", {
        **same(("clock", "reset", *streams)), "out_ready": "result_ready || test_running",
    })  # fmt: skip
    module.remarks(core.comments)
    return module
