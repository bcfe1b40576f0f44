"""The host's side of a serial line: tasks in frames to a board, and their results back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from numbers import Integral
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, Self

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
from featherlane.backends.fpga.serial import frames
from featherlane.backends.fpga.serial.exchange import Exchange
from featherlane.backends.fpga.serial.self_test import MOST_PASSES, signature_of
from featherlane.backends.fpga.serial.transport import SerialTransport
from featherlane.errors import DeviceError, shown

Array = Any
FACTS_FILE = "serial.json"
NUMBERS = 256  # of tasks in their frames
TRIES = 3  # of a query before a board counts as silent
TEST_WAITS = 200  # reads without an answer before a self-test counts as failed


class SerialFacts(NamedTuple):
    """The facts of a design behind a serial line that a host needs. test: the results that the
    states of the self-test shall have, words of 32 bits (states, words); functions: by name, none
    in files of earlier versions.
    """

    name: str
    hash: int
    tasks: PacketLayout
    results: PacketLayout
    test: Array
    functions: Mapping[str, SelectedFunction] = NO_FUNCTIONS

    @classmethod
    def read(cls, path: str | Path) -> SerialFacts:
        """Reads serial.json, or that of a folder. Raises ValueError for a file that is none."""
        path = Path(path)
        path = path / FACTS_FILE if path.is_dir() else path
        try:
            return cls.from_json(json.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            wanted = f"wanted the {FACTS_FILE} of a bitstream's folder, or this folder"
            raise ValueError(
                f"{str(path)!r} cannot be read ({error.strerror}): {wanted}"
            ) from error
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{str(path)!r} is no {FACTS_FILE} of a design: {error}") from error

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SerialFacts:
        """The facts that `to_json` wrote."""
        tasks, results = layouts_from_json(data, {"tasks": 0, "results": 0}, 8)
        test = np.array(data["test"], np.uint32)
        functions = functions_of_json(data)
        return cls(data["name"], int(data["hash"], 16), tasks, results, test, functions)

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON takes it."""
        return {
            "name": self.name,
            "hash": f"0x{self.hash:016x}",
            "tasks": self.tasks.words.to_json(),
            "results": self.results.words.to_json(),
            **ranges_to_json(self.tasks.ranges),
            "test": self.test.tolist(),
            "functions": dict(self.functions),
        }

    @property
    def payloads(self) -> dict[int, int]:
        """The bytes of the payload of each kind of answer."""
        return frames.answers(self.tasks.words.bits, self.results.words.bits)

    @property
    def longest_frame(self) -> int:
        """The bytes of the longer one of the frames of a task and of its result."""
        sizes = frames.payloads(self.tasks.words.bits, self.results.words.bits)
        return 1 + max(sizes[frames.TASK], sizes[frames.RESULT]) + frames.CRC_BYTES


class SelfTest(NamedTuple):
    """The outcome of a self-test. states: how many ran; cycles: of the clock, from the first state
    in to the last result out; signature, wanted: of all results, the board's and the right one.
    """

    states: int
    cycles: int
    signature: tuple[int, ...]
    wanted: tuple[int, ...]

    @property
    def passed(self) -> bool:
        """The results of all states were right."""
        return self.signature == self.wanted


class SerialDriver(ArrayDriver):
    """A design behind a serial line, as a function of arrays.

    design: its facts, or the folder or file with its serial.json. Raises DeviceError if the board
    does not answer, or holds another design; the line is closed then. A driver may be called from
    several threads, one after the other; `with` closes it.
    """

    facts: SerialFacts

    def __init__(self, design: SerialFacts | str | Path, transport: SerialTransport) -> None:
        self.facts = design if isinstance(design, SerialFacts) else SerialFacts.read(design)
        self.transport = transport
        self._reader = frames.FrameReader(self.facts.payloads)
        self._tag = next(
            (f for f in self.facts.results.words.fields if f.entries[0][0] == TAG), None
        )
        self._lock = RLock()  # frames have numbers, which two runs at once would share
        self._is_idle = False  # nothing that was sent is still to come back
        try:
            transport.quiet()
            self._known = self._checked()  # what the board answered last
        except BaseException:
            transport.close()
            raise

    def _checked(self, answer: dict[str, int] | None = None) -> dict[str, int]:
        """An answer to a query, by default that to one that is sent now. Raises DeviceError unless
        the board has this design.
        """
        facts, answer = self.facts, answer or self.query()
        wanted = {
            "version": frames.VERSION,
            "hash": facts.hash,
            "task_bits": facts.tasks.words.bits,
            "result_bits": facts.results.words.bits,
        }
        for name, value in wanted.items():
            if answer[name] != value:
                raise DeviceError(
                    f"the board is not {facts.name}: its {name} is {answer[name]:#x}, "
                    f"{FACTS_FILE} says {value:#x}; is another bitstream loaded?"
                )
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the line up."""
        self.transport.close()

    def query(self) -> dict[str, int]:
        """The answer to a query: `frames.ANSWER` has the fields. Raises DeviceError for none."""
        with self._lock:
            for _ in range(TRIES):
                self.transport.write(frames.frame(frames.QUERY))
                for frame in self._until_silence(frames.FACTS):
                    if frame.kind == frames.FACTS:
                        return frames.answer_fields(frame.payload)
                self._quiet()
        raise DeviceError(
            f"the board of {self.facts.name} does not answer: is it powered, its bitstream loaded, "
            f"is this its port and baud rate ({self.transport}), and reads no other program there?"
        )

    def _until_silence(self, kind: int) -> Iterable[frames.SerialFrame]:
        """Frames as they come, until none comes any more. kind: of the one that is waited for."""
        size = 1 + self.facts.payloads[kind] + frames.CRC_BYTES
        while received := self.transport.read(size):
            yield from self._reader.frames(received)

    def _quiet(self) -> None:
        """Lets the board forget half a frame, and forgets what came."""
        self.transport.quiet()
        self._reader.clear()

    # Tasks

    def _run(self, batch: TaskBatch, saturate: bool) -> BoardRun:
        modulus = NUMBERS if self._tag is None else min(self._tag.most + 1, NUMBERS)
        numbers = np.arange(batch.tasks) % modulus
        tags = {} if self._tag is None else {TAG: numbers}
        words = np.zeros((batch.tasks, self.facts.tasks.size), np.uint8)
        saturated = self.facts.tasks.encode({**batch.inputs, **tags}, words)
        if saturated and not saturate:
            raise batch.refusal(self.facts.tasks.first_beyond(batch.inputs))
        before, damaged = self._known if self._is_idle else self._idle(), self._reader.damaged
        sent, limit = frames.task_frames(numbers, words), min(before["outstanding"], modulus)
        exchange = Exchange(sent, limit, self._number, self.facts.payloads)
        self._is_idle = False
        self._exchange(exchange, batch.tasks)
        self._known = self._checked(exchange.answer)
        self._is_idle, counters = True, _increments(before, self._known)
        counters["repeated"] = len(exchange.repeated)
        counters["damaged_results"] = self._reader.damaged - damaged
        data = np.frombuffer(b"".join(exchange.results), np.uint8)
        decoded = self.facts.results.decode(data.reshape(batch.tasks, -1))
        return batch.run({n: x for n, x in decoded.items() if n != TAG}, saturated, counters)

    def _exchange(self, exchange: Exchange, tasks: int) -> None:
        """Sends tasks and takes their results, until all have come, and the answer to a query, or
        this alone is lost.
        """
        while not exchange.is_over:
            self.transport.write(exchange.next_frames())
            if not (received := self.transport.read(exchange.expected)):
                if not exchange.waits:
                    return
                self._settle(exchange.lose(), tasks)
            for frame in self._reader.frames(received):
                exchange.take(frame)

    def _number(self, frame: frames.SerialFrame) -> int:
        """The number of the task of a result: its tag, if results may overtake each other. -1 for
        another frame.
        """
        if frame.kind != frames.RESULT:
            return -1
        if self._tag is None:
            return frame.payload[0]
        word = int.from_bytes(frame.payload[1:], "little")
        return word >> self._tag.offset & self._tag.most

    def _idle(self) -> dict[str, int]:
        """The answer to a query of a board that has no task. Raises DeviceError for one that keeps
        a task, or has another design.
        """
        for _ in range(TRIES):
            if not (answer := self._checked())["under_way"]:
                return answer
            self._quiet()
        raise DeviceError(f"{self.facts.name} keeps {answer['under_way']} tasks: reset the board")

    def _settle(self, again: int, tasks: int) -> None:
        """Waits until no task is on the board. again: how many of the tasks were lost twice. Raises
        DeviceError for these, and for a board that keeps one.
        """
        self._quiet()
        answer = self._idle()
        if again:
            counted = ", ".join(f"{answer[name]} {name}" for name in frames.COUNTERS)
            raise DeviceError(
                f"{again} of {tasks} tasks were lost twice; frames that the board dropped: "
                f"{counted}; answers that came damaged: {self._reader.damaged}; is the line noisy, "
                "or its baud rate off?"
            )

    # The self-test

    def self_test(self, passes: int = 0) -> SelfTest:
        """Runs the states in the board's memory 2^passes times at the full rate of the pipeline.
        Raises ValueError for other numbers than 0 to 20, DeviceError for a board that does not
        answer.
        """
        if not isinstance(passes, Integral) or not 0 <= passes <= MOST_PASSES:
            wanted = f"wanted a whole number from 0 to {MOST_PASSES}"
            raise ValueError(f"passes is {shown(passes)}: {wanted}; all states run 2^passes times")
        with self._lock:
            return self._self_test(int(passes))

    def _self_test(self, passes: int) -> SelfTest:
        self.transport.write(frames.frame(frames.TEST, passes))
        for _ in range(TEST_WAITS):
            for frame in self._until_silence(frames.TESTED):
                if frame.kind == frames.TESTED:
                    numbers = np.frombuffer(frame.payload, "<u4").tolist()
                    wanted = signature_of(self.facts.test, passes).tolist()
                    states = len(self.facts.test) << passes
                    return SelfTest(states, numbers[0], tuple(numbers[1:]), tuple(wanted))
        raise DeviceError(f"{self.facts.name} does not answer the self-test: is its reset held?")


def _increments(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """By how much the board's counters went on."""
    return {name: (after[name] - before[name]) % 256 for name in frames.COUNTERS}
