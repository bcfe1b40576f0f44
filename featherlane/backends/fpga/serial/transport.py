"""The ends of a serial line on the host: the interface of all, and the one of a port."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Protocol

from featherlane.backends.fpga.serial.link import PAUSE_SECONDS
from featherlane.errors import DeviceError


class SerialTransport(Protocol):
    """Bytes to a board and from it."""

    def write(self, data: bytes) -> None:
        """Sends bytes."""

    def read(self, count: int) -> bytes:
        """Up to `count` bytes: those that have come, at least one; none if none comes for longer
        than a board takes to answer.
        """

    def quiet(self) -> None:
        """Sends nothing for so long that the board forgets half a frame, and forgets what came."""

    def close(self) -> None:
        """Gives the line up."""


class SerialPort:
    """A serial port of this computer, by pyserial. port: as "/dev/ttyUSB0" or "COM3"; baud: of the
    bitstream; seconds: after which no answer is expected. Answers are asked for at once where the
    system can: adapters of FTDI keep a few bytes for 16 ms, else for 1 ms.

    Raises ImportError if pyserial is missing, DeviceError if the port cannot be opened.
    """

    def __init__(self, port: str, baud: int, seconds: float = 0.25) -> None:
        try:
            import serial
        except ImportError as error:
            raise ImportError(
                "pyserial is missing, which serial ports need: pip install 'featherlane[serial]'"
            ) from error
        self.baud = baud
        self._errors: Any = serial.SerialException
        try:
            self._port: Any = serial.Serial(port, baud, timeout=seconds, write_timeout=10.0)
        except (self._errors, ValueError) as error:
            raise DeviceError(
                f"the port {port!r} does not open at {baud} baud; is the board plugged in, and "
                f"may this user open the port? {error}"
            ) from error
        with suppress(AttributeError, ValueError, OSError):
            self._port.set_low_latency_mode(True)  # of Linux, and drivers that have it

    def __str__(self) -> str:
        return f"{self._port.port} at {self.baud:,} baud"

    def write(self, data: bytes) -> None:
        self._called(self._port.write, data)

    def read(self, count: int) -> bytes:
        first = self._called(self._port.read, 1)
        more = min(count - 1, self._called(lambda: self._port.in_waiting))
        return first + self._called(self._port.read, more) if first and more > 0 else first

    def quiet(self) -> None:
        from time import sleep

        self._called(self._port.flush)
        sleep(3 * PAUSE_SECONDS)
        self._called(self._port.reset_input_buffer)

    def close(self) -> None:
        self._port.close()

    def _called(self, function: Any, *arguments: Any) -> Any:
        """Calls the port. Raises DeviceError if it fails, as when the board is unplugged."""
        try:
            return function(*arguments)
        except self._errors as error:
            raise DeviceError(f"the port {self._port.port} failed: {error}") from error
