"""A design with a serial line in a simulation by Verilator, as a transport of the driver."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from featherlane.backends.fpga.serial.harness import harness
from featherlane.backends.fpga.serial.rate import ONE
from featherlane.backends.fpga.serial.wrapper import SerialCore
from featherlane.backends.fpga.simulation.simulate import compiled

INSIDE = 10_000  # cycles of a pipeline: more than any has


class SimulatedLine:
    """The pins of a simulated design. library: of `compiled` with `harness`; sixteenths: of a clock
    cycle in a bit; pause: the link forgets half a frame after 2^pause cycles; patience: cycles
    without a byte after which no answer is expected.
    """

    def __init__(self, library: Any, sixteenths: int, pause: int, patience: int) -> None:
        self._library = _declared(library)
        self._line = self._library.line_open(sixteenths)
        self.sixteenths, self.pause, self.patience = sixteenths, pause, patience
        self._is_new = True  # nothing was sent, so that nothing can be left of it

    def __del__(self) -> None:
        self.close()

    def __str__(self) -> str:
        return f"a simulation of its pins, {self.sixteenths / ONE:g} cycles a bit"

    @property
    def cycles(self) -> int:
        """Clock cycles since the reset."""
        return int(self._library.line_cycles(self._line))

    def write(self, data: bytes) -> None:
        self._is_new = False
        self._library.line_send(self._line, data, len(data))

    def level(self, high: bool, bits: float) -> None:
        """Holds the line at a level, behind what was written, for so many bits of it."""
        self._is_new = False
        self._library.line_level(self._line, int(high), round(bits * self.sixteenths))

    def read(self, count: int) -> bytes:
        received = ctypes.create_string_buffer(count)
        size = self._library.line_receive(self._line, received, count, self.patience)
        return received.raw[:size]

    def quiet(self) -> None:
        if self._is_new:
            return
        self._library.line_run(self._line, 2 << self.pause)
        while self.read(256):
            pass

    def close(self) -> None:
        if getattr(self, "_line", None):
            self._library.line_close(self._line)
            self._line = None


def simulated_line(serial: SerialCore) -> SimulatedLine:
    """The pins of a design before synthesis. Raises CompileError if Verilator is missing."""
    library = compiled(serial.name, serial.sources, harness())
    plan = serial.plan
    patience = patience_of(plan.answers, plan.sixteenths)
    return SimulatedLine(library, plan.sixteenths, plan.pause, patience)


def patience_of(payloads: Mapping[int, int], sixteenths: int) -> int:
    """The cycles without a byte after which no answer is expected: those of two answers, besides
    those in the pipeline. payloads: the bytes of each kind of answer.
    """
    return INSIDE + 2 * 10 * (3 + max(payloads.values())) * sixteenths // ONE


def _declared(library: Any) -> Any:
    """The library with the types of its functions."""
    handle, count = ctypes.c_void_p, ctypes.c_long
    types: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
        "open": (handle, (count,)),
        "close": (None, (handle,)),
        "level": (None, (handle, count, count)),
        "send": (None, (handle, ctypes.c_char_p, count)),
        "receive": (count, (handle, ctypes.c_char_p, count, count)),
        "run": (None, (handle, count)),
        "cycles": (ctypes.c_ulong, (handle,)),
    }
    for name, (result, arguments) in types.items():
        function = getattr(library, f"line_{name}")
        function.restype, function.argtypes = result, arguments
    return library
