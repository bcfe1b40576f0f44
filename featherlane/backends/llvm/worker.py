"""The program of a worker: LLVM IR from stdin to object files on stdout, until stdin ends.

A message is a line with its length and then its bytes. The worker's first message is `identity()`;
an empty reply says that a text could not be compiled. A worker imports nothing but llvmlite and
`targets`, which takes a third of the time of importing this package.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import BinaryIO

from featherlane.backends.llvm import targets


def identity() -> bytes:
    """The versions and the processor that code depends on besides its text."""
    from llvmlite import __version__

    return f"{__version__} {targets.host()}".encode()


def send(stream: BinaryIO, message: bytes) -> None:
    """Writes a message."""
    data = memoryview(b"%d\n%b" % (len(message), message))
    while data:
        data = data[stream.write(data) or 0 :]
    stream.flush()


def receive(stream: BinaryIO) -> bytes:
    """Reads a message. Raises EOFError if it is incomplete."""
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
    """Compiles texts until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that waits
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output to stdout must not come between replies
    send(replies, identity())
    while True:
        try:
            ir = receive(sys.stdin.buffer).decode()
        except EOFError:
            return
        try:
            image = targets.machine_code(ir, targets.host())
        except Exception:  # the parent compiles it again and sees the error
            image = b""
        send(replies, image)
