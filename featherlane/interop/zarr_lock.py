"""One run at a time writes a store of results.

A file beside the store, NAME.lock, is locked for as long as a run takes. The operating system holds
the lock for the process and drops it with that, however it ends: no run is kept out by a dead one.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HELD = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP}  # of file systems, mostly in networks

if sys.platform == "win32":
    import msvcrt

    BEHIND = 1 << 20  # a locked byte cannot be read there: one behind the text

    def _take(file: int) -> None:
        os.lseek(file, BEHIND, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        os.lseek(file, 0, os.SEEK_SET)
else:
    import fcntl

    def _take(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def only_run(target: Path) -> Iterator[None]:
    """Holds the lock of a store. Raises ValueError that names the process that has it, or for a
    place where nothing can be written.
    """
    path = target.with_name(f"{target.name}.lock")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = _locked(path, target)
    except OSError as error:
        raise ValueError(f"target {target} cannot be written: {error}") from error
    try:
        os.truncate(file, 0)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        os.write(file, f"process {os.getpid()} on {socket.gethostname()} since {since}".encode())
        yield
    finally:
        with suppress(OSError):  # Windows does not remove what is open; the next run takes it
            path.unlink()
        os.close(file)


def _locked(path: Path, target: Path) -> int:
    """Opens and locks a file. Raises ValueError where another process has locked it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _take(file)
        except OSError as error:
            if error.errno in HELD:
                owner = os.read(file, 200).decode(errors="replace") or "another process"
                os.close(file)
                raise ValueError(
                    f"target {target} is being written by {owner}: wait for it, or choose another "
                    "store"
                ) from None
            if error.errno not in NO_LOCKS:
                os.close(file)
                raise
        if _is_same(file, path):
            return file
        os.close(file)  # its owner removed it when it was done: there may be a new one


def _is_same(file: int, path: Path) -> bool:
    """Whether an open file is the one that has this name now."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), os.stat(path))
    return False
