"""The program of a worker: LLVM IR from stdin to object files on stdout, until stdin ends.

A message is a line with its length and then its bytes. The worker's first message says what it
compiles with; a reply of no bytes says that a text could not be compiled. A worker imports nothing
but llvmlite and `targets`, which takes a third of the time of importing this package.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import BinaryIO

from featherlane.backends.llvm import targets


def identity() -> bytes:
    """What code depends on besides its text."""
    from llvmlite import __version__

    return f"{__version__} {targets.host()}".encode()


def send(stream: BinaryIO, message: bytes) -> None:
    """Writes a message."""
    data = memoryview(b"%d\n%b" % (len(message), message))
    while data:
        data = data[stream.write(data) or 0 :]
    stream.flush()


def receive(stream: BinaryIO) -> bytes:
    """Reads a message. Raises EOFError if there is no whole one."""
    size = b""
    while not size.endswith(b"\n"):
        byte = stream.read(1)
        if not byte or len(size) > 20:
            raise EOFError
        size += byte
    message = bytearray()
    while len(message) < int(size):
        part = stream.read(int(size) - len(message))
        if not part:
            raise EOFError
        message += part
    return bytes(message)


def main() -> None:
    """Compiles until there is nothing more to read."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that waits
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what else writes to stdout must not come between replies
    send(replies, identity())
    while True:
        try:
            ir = receive(sys.stdin.buffer).decode()
        except EOFError:
            return
        try:
            image = targets.machine_code(ir, targets.host())
        except Exception:  # whoever asked compiles it again and sees the error
            image = b""
        send(replies, image)
