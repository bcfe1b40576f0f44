"""The ends of a serial line on the host: the interface of all, and the one of a port."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from numbers import Real
from os import PathLike
from typing import Any, Protocol, TypeVar

from featherlane.backends.fpga.serial.link import PAUSE_SECONDS
from featherlane.errors import DeviceError, clause, shown

MOST_SECONDS = 60  # without an answer
WRITE_SECONDS = 10.0  # in which a port takes the bytes of a call
T = TypeVar("T")


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
    """A serial port of this computer, by pyserial, which no other driver has at the same time.

    port: as "/dev/ttyUSB0" or "COM3"; baud: of the bitstream; seconds: after which no answer is
    expected. Answers are asked for at once where the system can: adapters of FTDI keep a few bytes
    for 16 ms, else for 1 ms. Raises ImportError if pyserial is missing, ValueError for what is no
    name of a port and no time, DeviceError if the port cannot be opened.
    """

    def __init__(self, port: str | PathLike[str], baud: int, seconds: float = 0.25) -> None:
        if not isinstance(port, str | PathLike) or not str(port):
            raise ValueError(f'port is {shown(port)}: wanted a name, as "/dev/ttyUSB0" or "COM3"')
        real = isinstance(seconds, Real) and not isinstance(seconds, bool)
        if not real or not 0 < seconds <= MOST_SECONDS:
            wanted = f"wanted a time, above 0 and up to {MOST_SECONDS}"
            raise ValueError(f"seconds is {shown(seconds)}: {wanted}")
        try:
            import serial
        except ImportError as error:
            raise ImportError(
                "pyserial is missing, which serial ports need: pip install 'featherlane[serial]'"
            ) from error
        name, options = str(port), {"timeout": float(seconds), "write_timeout": WRITE_SECONDS}
        try:
            self._port: Any = serial.Serial(name, baud, exclusive=True, **options)
        except (OSError, ValueError) as error:  # SerialException is an OSError
            reason = _reason(getattr(error, "errno", None))
            raise DeviceError(
                f"the port {name!r} does not open at {baud} baud: {reason} ({clause(error)})"
            ) from error
        self.baud = baud
        with suppress(AttributeError, ValueError, OSError):
            self._port.set_low_latency_mode(True)  # of Linux, and drivers that have it

    def __str__(self) -> str:
        return f"{self._port.port} at {self.baud:,} baud"

    def write(self, data: bytes) -> None:
        self._called(lambda: self._port.write(data))

    def read(self, count: int) -> bytes:
        first = self._called(lambda: self._port.read(1))
        if not first or count == 1:
            return first
        return first + self._called(lambda: self._port.read(min(count - 1, self._port.in_waiting)))

    def quiet(self) -> None:
        from time import sleep

        self._called(lambda: self._port.flush())
        sleep(3 * PAUSE_SECONDS)
        self._called(lambda: self._port.reset_input_buffer())

    def close(self) -> None:
        self._port.close()

    def _called(self, function: Callable[[], T]) -> T:
        """Calls the port. Raises DeviceError if it fails, as when the board is unplugged."""
        name = self._port.port
        errors: tuple[type[Exception], ...] = (OSError, *_errors_of_terminals())
        if not self._port.is_open:
            raise DeviceError(f"the port {name} is closed: connect again")
        try:
            return function()
        except errors as error:
            raise DeviceError(
                f"the port {name} failed: is the board still plugged in? Then connect again "
                f"({clause(error)})"
            ) from error


def _errors_of_terminals() -> tuple[type[Exception], ...]:
    """The errors of terminals that are no OSError, which pyserial lets through."""
    try:
        from termios import error
    except ImportError:  # of Windows
        return ()
    return (error,)


def _reason(number: int | None) -> str:
    """The probable reason why a port does not open, by the number of the system's error."""
    if number == errno.ENOENT:
        from serial.tools.list_ports import comports

        names = ", ".join(sorted(port.device for port in comports()))
        here = f"ports here are {names}" if names else "this computer has no serial port now"
        return f"there is no such port, {here}; is the board plugged in?"
    if number in (errno.EACCES, errno.EPERM):
        return "this user may not; on Linux its group may, often dialout or uucp"
    if number in (errno.EBUSY, errno.EAGAIN):
        return "another program has it, or a driver that was not closed"
    return "is it a serial port, and is the board plugged in?"
