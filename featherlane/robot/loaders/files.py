"""Reading of robot files: regular files only, of bounded size."""

from __future__ import annotations

import os
import stat

Source = str | bytes | os.PathLike[str]
"""The path of a robot's file, its XML text, or the name of a robot."""
LARGEST_FILE = 32_000_000  # bytes of one file or text
# A FIFO that takes a file's place between the check and open() must not block; and Windows must
# not change line ends.
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def content(path: str) -> bytes:
    """Returns the bytes of a regular file.

    Raises OSError, and ValueError for anything else than a regular file and for a file larger
    than LARGEST_FILE, before a byte is read.
    """
    check_regular(os.stat(path), LARGEST_FILE)
    with open(os.open(path, FLAGS | getattr(os, "O_CLOEXEC", 0)), "rb") as file:
        check_regular(os.fstat(file.fileno()), LARGEST_FILE)
        data = file.read(LARGEST_FILE + 1)  # files of /proc, and those being written, have any size
    check_length(len(data), LARGEST_FILE)
    return data or b""  # None: nothing can be read now, as of /proc/kmsg


def check_regular(status: os.stat_result, largest: int) -> None:
    """Raises ValueError for anything else than a regular file of at most `largest` bytes."""
    if not stat.S_ISREG(status.st_mode):
        kind = next((name for is_kind, name in KINDS if is_kind(status.st_mode)), "no file")
        raise ValueError(f"it is {kind}; wanted a regular file")
    check_length(status.st_size, largest)


def check_length(length: int, largest: int = LARGEST_FILE) -> None:
    if length > largest:
        raise ValueError(f"it has {length:,} bytes; wanted {largest:,} or fewer")
