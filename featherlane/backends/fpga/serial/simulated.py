"""A design with a serial line in a simulation by Verilator, as a transport of the driver; or many
boards with that design in one simulation, each with its line and its driver.

Boards have one clock. It goes on while all of them wait, for bytes or for a pause to pass, so that
what each driver sends and receives, and when, depends on nothing outside.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import Any, TypeVar

from featherlane.backends.fpga.serial.harness import harness
from featherlane.backends.fpga.serial.rate import ONE
from featherlane.backends.fpga.serial.wrapper import SerialCore
from featherlane.backends.fpga.simulation.simulate import compiled

INSIDE = 10_000  # cycles of a pipeline: more than any has
T = TypeVar("T")


class SimulatedBoards:
    """Boards of a simulated design. library: of `compiled` with `harness`; count: of the boards;
    sixteenths: of a clock cycle in a bit; pause: the link forgets half a frame after 2^pause
    cycles; patience: cycles without a byte after which no answer is expected.
    """

    def __init__(
        self, library: Any, sixteenths: int, pause: int, patience: int, count: int = 1
    ) -> None:
        self._library = _declared(library)
        self._boards = self._library.boards_open(sixteenths)
        self.sixteenths, self.pause, self.patience = sixteenths, pause, patience
        self.lines = tuple(SimulatedLine(self, n) for n in range(count))
        self._running, self._waiting = set(range(count)), set[int]()
        self._over = [Event() for _ in range(count)]
        self._lock = Lock()

    def __del__(self) -> None:
        if boards := getattr(self, "_boards", None):
            self._library.boards_close(boards)

    @property
    def cycles(self) -> int:
        """Clock cycles since the reset."""
        return int(self._library.boards_cycles(self._boards))

    def send(self, board: int, data: bytes) -> None:
        """Sends bytes to a board."""
        self._library.boards_send(self._boards, board, data, len(data))

    def level(self, board: int, high: bool, length: int) -> None:
        """Holds the line of a board at a level for so many sixteenths of a cycle."""
        self._library.boards_level(self._boards, board, int(high), length)

    def take(self, board: int, count: int) -> bytes:
        """Up to `count` of the bytes that have come from a board."""
        received = ctypes.create_string_buffer(count)
        size = self._library.boards_take(self._boards, board, received, count)
        return received.raw[:size]

    def wait(self, board: int, cycles: int, wants_bytes: bool) -> None:
        """Waits for so many cycles after the last byte was sent to a board, or at most so long for
        a byte of it to come. Time goes on once all boards that run wait.
        """
        with self._lock:
            self._over[board].clear()
            self._library.boards_wait(self._boards, board, cycles, int(wants_bytes))
            self._waiting.add(board)
            self._go_on()
        self._over[board].wait()

    def leave(self, board: int) -> None:
        """The others no longer wait for a board."""
        with self._lock:
            self._running.discard(board)
            self._go_on()

    def _go_on(self) -> None:
        if self._waiting and self._waiting >= self._running:
            over = self._library.boards_run(self._boards)
            for board in [n for n in self._waiting if over >> n & 1]:
                self._waiting.remove(board)
                self._over[board].set()


class SimulatedLine:
    """The line of one of the boards of a simulation, as a transport."""

    def __init__(self, boards: SimulatedBoards, number: int) -> None:
        self.boards, self._number = boards, number
        self._is_new = True  # nothing was sent, so that nothing can be left of it

    def __str__(self) -> str:
        return f"a simulation of its pins, {self.boards.sixteenths / ONE:g} cycles a bit"

    def write(self, data: bytes) -> None:
        self._is_new = False
        self.boards.send(self._number, data)

    def level(self, high: bool, bits: float) -> None:
        """Holds the line at a level, behind what was written, for so many bits of it."""
        self._is_new = False
        self.boards.level(self._number, high, round(bits * self.boards.sixteenths))

    def read(self, count: int) -> bytes:
        self.boards.wait(self._number, self.boards.patience, wants_bytes=True)
        return self.boards.take(self._number, count)

    def quiet(self) -> None:
        if self._is_new:
            return
        self.boards.wait(self._number, 2 << self.boards.pause, wants_bytes=False)
        while self.read(256):
            pass

    def close(self) -> None:
        self.boards.leave(self._number)


def side_by_side(
    lines: Sequence[SimulatedLine], work: Callable[[int, SimulatedLine], T]
) -> list[T]:
    """Returns work(number, line) for all lines of boards that are simulated together, each in a
    thread. Raises the first error of one, after the others have ended.
    """

    def one(number: int) -> T:
        try:
            return work(number, lines[number])
        finally:
            lines[number].close()

    with ThreadPoolExecutor(len(lines)) as pool:
        return [future.result() for future in [pool.submit(one, n) for n in range(len(lines))]]


def simulated_line(serial: SerialCore) -> SimulatedLine:
    """The pins of a design before synthesis. Raises CompileError if Verilator is missing."""
    plan = serial.plan
    patience = patience_of(plan.answers, plan.sixteenths)
    library = compiled(serial.name, serial.sources, harness())
    (line,) = SimulatedBoards(library, plan.sixteenths, plan.pause, patience).lines
    return line


def patience_of(payloads: Mapping[int, int], sixteenths: int) -> int:
    """The cycles without a byte after which no answer is expected: those of two answers, besides
    those in the pipeline. payloads: the bytes of each kind of answer.
    """
    return INSIDE + 2 * 10 * (3 + max(payloads.values())) * sixteenths // ONE


def _declared(library: Any) -> Any:
    """The library with the types of its functions."""
    handle, number, count, data = ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_char_p
    types: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
        "open": (handle, (count,)),
        "close": (None, (handle,)),
        "level": (None, (handle, number, count, count)),
        "send": (None, (handle, number, data, count)),
        "wait": (None, (handle, number, count, number)),
        "run": (ctypes.c_uint64, (handle,)),
        "take": (count, (handle, number, data, count)),
        "cycles": (ctypes.c_ulong, (handle,)),
    }
    for name, (result, arguments) in types.items():
        function = getattr(library, f"boards_{name}")
        function.restype, function.argtypes = result, arguments
    return library
