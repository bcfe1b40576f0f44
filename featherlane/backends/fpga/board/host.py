"""The host's side of a board: arrays into buffers of the DMA, packets through it, results back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fpga.board.batch import BoardRun, TaskBatch
from featherlane.backends.fpga.board.core import (
    NO_FUNCTIONS,
    TAG,
    SelectedFunction,
    functions_of_json,
)
from featherlane.backends.fpga.board.driver import ArrayDriver
from featherlane.backends.fpga.board.packets import (
    PacketLayout,
    layouts_from_json,
    ranges_to_json,
)
from featherlane.backends.fpga.board.registers import (
    MAGIC,
    REGISTER,
    REGISTERS,
    VERSION,
    mask,
    set_bits,
)
from featherlane.backends.fpga.board.transport import BoardTransport
from featherlane.errors import DeviceError, clause, instead, shown

Array = Any
WAITS = 1000  # reads of the status before a reset is given up
COUNTERS = [register.name for register in REGISTERS if register.kind == "counter"]


class BoardFacts(NamedTuple):
    """The facts of a board that a host needs: layouts of both streams, the design's hash, and
    its functions by name, none in files of earlier versions.
    """

    name: str
    hash: int
    tasks: PacketLayout
    results: PacketLayout
    functions: Mapping[str, SelectedFunction] = NO_FUNCTIONS

    @classmethod
    def read(cls, path: str | Path) -> BoardFacts:
        """Reads board.json, or that of a folder. Raises ValueError for a file that is none."""
        path = Path(path)
        path = path / "board.json" if path.is_dir() else path
        try:
            return cls.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{str(path)!r} is no board.json of a design: {error}") from error

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BoardFacts:
        """The facts that `to_json` wrote."""
        tasks, results = layouts_from_json(data, data["lane"], data["stream_bits"])
        return cls(data["name"], int(data["hash"], 16), tasks, results, functions_of_json(data))

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON takes it."""
        return {
            "name": self.name,
            "hash": f"0x{self.hash:016x}",
            "stream_bits": self.tasks.width,
            "lane": {"tasks": self.tasks.lane, "results": self.results.lane},
            "task_bytes": self.tasks.size,
            "result_bytes": self.results.size,
            "tasks": self.tasks.words.to_json(),
            "results": self.results.words.to_json(),
            "functions": dict(self.functions),
            **ranges_to_json(self.tasks.ranges),
            "registers": {register.name: register.address for register in REGISTERS},
        }


class BoardDriver(ArrayDriver):
    """A design on a board, as a function of arrays.

    board: its facts, or the folder or file with its board.json. tasks_per_packet: the most tasks in
    one transfer of the DMA, whose buffers are allocated once. Raises DeviceError if the board holds
    another design.
    """

    facts: BoardFacts

    def __init__(
        self,
        board: BoardFacts | str | Path,
        transport: BoardTransport,
        tasks_per_packet: int = 4096,
    ) -> None:
        whole = isinstance(tasks_per_packet, Integral) and not isinstance(tasks_per_packet, bool)
        if not whole or tasks_per_packet < 1:
            message = f"tasks_per_packet is {shown(tasks_per_packet)}"
            raise ValueError(f"{message}: wanted a whole number, 1 or more")
        self.facts = board if isinstance(board, BoardFacts) else BoardFacts.read(board)
        self.transport, self.tasks_per_packet = transport, int(tasks_per_packet)
        self._lock = RLock()  # two runs at once would share buffers
        self._check_design()
        fields = self.facts.tasks.words.fields
        self._tag = next((f for f in fields if f.entries[0][0] == TAG), None)
        self._given = transport.allocate(self.facts.tasks.size * self.tasks_per_packet)
        self._found = transport.allocate(self.facts.results.size * self.tasks_per_packet)
        self.reset()

    def _check_design(self) -> None:
        """Raises DeviceError unless the registers say that the board has this design."""
        facts = self.facts
        wanted = {
            "magic": MAGIC,
            "version": VERSION,
            "hash_low": facts.hash & 0xFFFFFFFF,
            "hash_high": facts.hash >> 32,
        }
        for name, value in wanted.items():
            if (answer := self.read(name)) != value:
                raise DeviceError(
                    f"the board is not {facts.name}: {name} is 0x{answer:08x}, board.json says "
                    f"0x{value:08x}; is another bitstream loaded?"
                )

    # Registers

    def read(self, register: str) -> int:
        """A register by its name. Raises ValueError for a name that none has."""
        return self.transport.read(_address(register))

    def write(self, register: str, value: int) -> None:
        """Writes a register by its name. Raises ValueError for a name that none has."""
        self.transport.write(_address(register), value)

    def counters(self) -> dict[str, int]:
        """All counters by name."""
        return {name: self.read(name) for name in COUNTERS}

    def reset(self) -> None:
        """Forgets what is under way, in the DMA and in the design, and clears errors and counters.
        Raises DeviceError if the reset does not end.
        """
        self.transport.stop()
        self.write("control", mask("control", "reset", "clear"))
        self._wait_for_reset()

    def flush(self) -> None:
        """Forgets what is under way while the DMA goes on: a packet that is coming in is dropped,
        one that is going out ends early. Raises DeviceError if the DMA does not end it.
        """
        self.write("control", mask("control", "flush"))
        self._wait_for_reset()

    def _wait_for_reset(self) -> None:
        for _ in range(WAITS):
            if not self.read("status") & mask("status", "resetting"):
                return
        raise DeviceError(f"{self.facts.name} is still resetting: does the DMA run?")

    # Tasks

    def _run(self, batch: TaskBatch, saturate: bool) -> BoardRun:
        words = np.zeros((batch.tasks, self.facts.tasks.size), np.uint8)
        saturated = dict[str, int]()
        for part in self._packets(batch.tasks):
            for name, count in self._encoded(batch, part, words[part]).items():
                saturated[name] = saturated.get(name, 0) + count
        if saturated and not saturate:
            raise batch.refusal(self.facts.tasks.first_beyond(batch.inputs))
        before = self.counters()
        parts = [self._packet(words[part]) for part in self._packets(batch.tasks)]
        counters = {n: (x - before[n]) & 0xFFFFFFFF for n, x in self.counters().items()}
        results = {
            name: np.concatenate([part[name] for part in parts])
            for name in self.facts.results.words.shapes
            if name in parts[0]
        }
        return batch.run(results, saturated, counters)

    def _packets(self, tasks: int) -> list[slice]:
        """The tasks of each packet."""
        starts = range(0, tasks, self.tasks_per_packet)
        return [slice(n, min(n + self.tasks_per_packet, tasks)) for n in starts]

    def _tags(self, tasks: int) -> Array:
        """The tags of the tasks of a packet."""
        assert self._tag is not None, "the caller has asked"
        return np.arange(tasks) & self._tag.most

    def _encoded(self, batch: TaskBatch, part: slice, words: Array) -> dict[str, int]:
        """Writes the words of the tasks of a packet, and counts entries beyond their formats."""
        inputs = {name: x[part] for name, x in batch.inputs.items()}
        tags = {} if self._tag is None else {TAG: self._tags(len(words))}
        return self.facts.tasks.encode({**inputs, **tags}, words)

    def _packet(self, words: Array) -> dict[str, Array]:
        """The results of one packet of tasks, whose words these are."""
        tasks, size = len(words), self.facts.results.size
        tasks_in, buffer = self._given[: words.size], self._found[: tasks * size]
        tasks_in[...] = words.reshape(-1)
        self.write("packet_tasks", tasks)
        try:
            received = self.transport.transfer(tasks_in, buffer)
        except (TimeoutError, OSError) as error:
            errors = self._errors()
            self.reset()
            raise DeviceError(f"{clause(error)}{errors}; the board was reset") from error
        errors = self._errors()
        if received != buffer.size or errors:
            self.reset()
            raise DeviceError(
                f"{received} bytes of results came of {tasks} tasks, wanted {buffer.size}{errors}; "
                "the board was reset"
            )
        results = self.facts.results.decode(buffer.reshape(tasks, size))
        return results if self._tag is None else _in_order(results, self._tags(tasks))

    def _errors(self) -> str:
        """The errors that the board reports, as the end of a message."""
        names = set_bits("errors", self.read("errors"))
        meanings = {bit.name: bit.meaning for bit in REGISTER["errors"].bits}
        return "".join(f"; error {name!r}: {meanings[name].rstrip('.')}" for name in names)


def _address(register: str) -> int:
    """The address of a register. Raises ValueError for a name that none has."""
    if not isinstance(register, str) or register not in REGISTER:
        close = instead(str(register), REGISTER)
        raise ValueError(f"there is no register {shown(register)}{close}")
    return REGISTER[register].address


def _in_order(results: Mapping[str, Array], tags: Array) -> dict[str, Array]:
    """Results in the order of tasks with these tags. Where a tag comes again, results with it have
    the order of their tasks: as many as there are tags are never under way.
    """
    order = np.empty(len(tags), np.int64)
    order[np.argsort(tags, kind="stable")] = np.argsort(results[TAG], kind="stable")
    return {name: x[order] for name, x in results.items() if name != TAG}
