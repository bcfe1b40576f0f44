"""A board simulated by Verilator, as a transport of the driver."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from featherlane.backends.fpga.board.harness import HARNESS
from featherlane.backends.fpga.board.wrapper import WrappedCore
from featherlane.backends.fpga.simulation.simulate import compiled
from featherlane.errors import CompileError

Array = Any
OKAY = 0
ANSWERS = {2: "SLVERR", 3: "DECERR", -1: "no answer"}


class SimulatedBoard:
    """A wrapped design behind a simulated DMA and a master of AXI4-Lite.

    stalls: of 256 cycles, so many without a beat, on both streams, at random. burst: beats that the
    DMA moves at once; pause: the most cycles between two bursts. limit: cycles after which a
    transfer is given up. Every cycle checks the protocol on all outputs: what is offered stays as
    it is until it is taken. Raises CompileError if Verilator is missing.
    """

    def __init__(
        self,
        board: WrappedCore,
        stalls: int = 0,
        burst: int = 16,
        pause: int = 0,
        seed: int = 1,
        limit: int = 1_000_000,
    ) -> None:
        self.limit, self._rate = limit, board.rate
        self._library = _declared(compiled(board.name, board.sources, HARNESS))
        self._board = self._library.board_open(board.width // 8)
        self._library.board_pauses(self._board, seed, stalls, burst, pause)

    def __del__(self) -> None:
        if getattr(self, "_board", None):
            self._library.board_close(self._board)

    def __str__(self) -> str:
        rate = self._rate
        return f"a simulation of its streams, a task in {rate.cycles} cycles of {rate.clock:g} ns"

    @property
    def cycles(self) -> int:
        """Clock cycles since the board was made."""
        return int(self._library.board_cycles(self._board))

    # Registers

    def read(self, address: int) -> int:
        """A register. Raises OSError for an answer that is an error."""
        value = ctypes.c_uint()
        self._check(self._library.board_read(self._board, address, ctypes.byref(value)), address)
        return value.value

    def write(self, address: int, value: int, strobe: int = 0xF) -> None:
        """Writes a register. strobe: which bytes. Raises OSError for an answer that is an error."""
        self._check(self._library.board_write(self._board, address, value, strobe), address)

    def _check(self, answer: int, address: int) -> None:
        if answer != OKAY:
            raise OSError(f"register 0x{address:02x}: {ANSWERS.get(answer, answer)}")

    # DMA

    def allocate(self, size: int) -> Array:
        """A buffer of bytes."""
        return np.zeros(size, np.uint8)

    def start(self, given: Array, room: int) -> None:
        """Begins to send bytes as one packet and to receive one of `room` bytes at most."""
        given = np.ascontiguousarray(given)
        self._library.board_start(self._board, given.ctypes.data, given.size, room)

    def wait(self, results: Array, limit: int | None = None) -> int:
        """Goes on until both packets have ended; returns the bytes received. Raises TimeoutError if
        they have not within so many cycles, OSError if there is no room for the results.
        """
        limit = self.limit if limit is None else limit
        answer = self._library.board_wait(self._board, limit)
        if violations := self._library.board_violations(self._board):
            raise CompileError(f"the board broke its promises on its streams {violations} times")
        if answer == 1:
            raise TimeoutError(f"the DMA has not ended after {limit} cycles")
        if answer:
            raise OSError(f"the packet of results has more than {results.size} bytes")
        return int(self._library.board_taken(self._board, results.ctypes.data))

    def transfer(self, given: Array, results: Array) -> int:
        """Sends a packet and receives one, as `BoardTransport.transfer`."""
        self.start(given, results.size)
        return self.wait(results)

    def stop(self) -> None:
        """Resets the DMA: what it sends and receives ends at once."""
        self._library.board_stop(self._board)


def _declared(library: Any) -> Any:
    """The library with the types of its functions."""
    handle, number, count = ctypes.c_void_p, ctypes.c_uint, ctypes.c_long
    types: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
        "open": (handle, (count,)),
        "close": (None, (handle,)),
        "pauses": (None, (handle, *(ctypes.c_ulong,) * 4)),
        "write": (count, (handle, number, number, number)),
        "read": (count, (handle, number, ctypes.POINTER(number))),
        "start": (None, (handle, handle, count, count)),
        "wait": (count, (handle, count)),
        "taken": (count, (handle, handle)),
        "stop": (None, (handle,)),
        "cycles": (ctypes.c_ulong, (handle,)),
        "violations": (ctypes.c_ulong, (handle,)),
    }
    for name, (result, arguments) in types.items():
        function = getattr(library, f"board_{name}")
        function.restype, function.argtypes = result, arguments
    return library
