"""The cache of compiled code on disk. An entry that is damaged, truncated, compiled from other
facts or may come from another user is compiled again, never executed.

The folder is $FEATHERLANE_CACHE, or `featherlane` in the user's cache folder. Without a writable
folder, code is compiled anew in each process and nothing else changes; FEATHERLANE_CACHE=off does
the same on purpose.

An entry begins with a line that holds its key and all other facts that code depends on: the text of
this package, the versions of Python, NumPy and the compiler. Reading compares the whole line.
"""

from __future__ import annotations

import contextlib
import os
import platform
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

MAGIC = b"featherlane code 3"
OFF = ("off", "none", "0", "")
ENTRY, PART = ".code", ".part"  # finished files, and files that are being written
LIMIT, PRUNED = "limit", "pruned"  # files: the largest size in bytes, and when it was last enforced
MOST_BYTES = 1 << 30  # of all entries, if no limit was set
# The folder is listed, and its size bounded, at the first write of a process an hour after the last
# time, and after each so many bytes that a process has written
PRUNED_EVERY_SECONDS, PRUNED_EVERY_BYTES = 3600, 1 << 26
ABANDONED = 60  # s after which a file that is being written belongs to a writer that was killed
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
# O_NONBLOCK: opening a FIFO does not wait; O_NOFOLLOW: an entry is no link
READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
SAFE = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))
_written = 0  # bytes since the folder was last listed
_IMPORTED = time.time()


def folder() -> Path | None:
    """The folder of the cache, None if there is none."""
    chosen = os.environ.get("FEATHERLANE_CACHE")
    try:
        if chosen:
            return None if chosen.strip().lower() in OFF else Path(chosen).expanduser()
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # the user has no home folder, or there is no such user
        return None
    return base / "featherlane"


@cache
def facts() -> dict[str, str]:
    """The facts that compiled code depends on besides its key."""
    from featherlane.backends.package_text import package_hash  # once the package is imported

    return {
        "package": package_hash(),
        "python": f"{sys.implementation.name} {sys.hexversion:x} {getattr(sys, 'abiflags', '')}",
        "machine": f"{sys.platform} {platform.machine()} {sys.maxsize.bit_length() + 1}",
        **{package: _version(package) for package in ("numpy", "llvmlite")},
    }


def _version(package: str) -> str:
    """The attribute __version__ of a package: reading its metadata takes 20 ms."""
    return str(getattr(import_module(package), "__version__", "unknown"))


def read(key: str) -> bytes | None:
    """The code of a key, None if there is none that can be trusted."""
    directory = folder()
    return None if directory is None or _was_replaced() else _read(directory, _header(key, facts()))


def write(key: str, code: bytes) -> None:
    """Writes the code of a key, unless another package may have replaced this one."""
    directory = folder()
    if directory is not None and not _was_replaced() and not is_replaced():
        _write(directory, _header(key, facts()), code)


def fetch(key: str, make: Callable[[], bytes]) -> bytes:
    """The code of a key: read from disk, or compiled by `make` and written there."""
    code = read(key)
    if code is None:
        code = make()
        write(key, code)
    return code


def fetch_result(key: str, make: Callable[[], bytes]) -> bytes:
    """The result of an external tool. Its key holds everything that it depends on: the text of this
    package has no influence.
    """
    directory, header = folder(), _header(key, {})
    result = None if directory is None else _read(directory, header)
    if result is None:
        result = make()
        if directory is not None:
            _write(directory, header, result)
    return result


def _header(key: str, facts: Mapping[str, str]) -> bytes:
    return _line({"key": key, "facts": facts})


def _read(directory: Path, header: bytes) -> bytes | None:
    with contextlib.suppress(OSError), _Folder(directory) as opened:
        return opened.read_code(_entry_name(header), header)
    return None


def _entry_name(header: bytes) -> str:
    return digest(header) + ENTRY


def is_replaced() -> bool:
    """Whether the package on disk may differ from the package that was imported."""
    from featherlane.backends.package_text import last_change  # once the package is imported

    return last_change() > _IMPORTED


@cache
def _was_replaced() -> bool:
    """Whether the package had been replaced when `facts` took its hash: then no entry is read."""
    facts()
    return is_replaced()


def _write(directory: Path, header: bytes, code: bytes) -> None:
    """Writes an entry; a folder that cannot be written is no error."""
    with contextlib.suppress(OSError):
        _make_folder(directory)
        with _Folder(directory) as opened:
            if opened.only_ours:
                content = b"\n".join([MAGIC, header, _seal(header, code), code])
                opened.write(_entry_name(header), content)
                opened.prune_if_due(len(code))
                return
        warnings.warn(
            f"{directory} can be written by other users: no compiled code is cached there",
            stacklevel=2,
        )


def _make_folder(directory: Path) -> None:
    """Makes a folder and its parents, which nobody else may read."""
    missing = [p for p in (directory, *directory.parents) if not p.exists()]
    for path in reversed(missing):
        path.mkdir(PRIVATE_FOLDER, exist_ok=True)


def digest(data: bytes) -> str:
    """The SHA-256 of data."""
    from hashlib import sha256  # loads OpenSSL

    return sha256(data).hexdigest()


def _line(value: object) -> bytes:
    from json import dumps  # slow to import

    return dumps(value).encode()


def _seal(header: bytes, code: bytes) -> bytes:
    return digest(header + b"\n" + code).encode()


def _is_only_ours(status: os.stat_result) -> bool:
    """Whether nobody but this user can have written a file or folder."""
    if os.name != "posix":
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


class StoredFile(NamedTuple):
    """A file of the cache. used: the time of its last use, in seconds."""

    name: str
    used: float
    size: int


class _Folder:
    """The folder of the cache, held open. On POSIX its files are reached through its descriptor, so
    that nobody can exchange the folder between a check and the access after it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
        self.descriptor = os.open(path, flags) if os.name == "posix" else None
        status = path.stat() if self.descriptor is None else os.fstat(self.descriptor)
        self.only_ours = _is_only_ours(status)

    def __enter__(self) -> _Folder:
        return self

    def __exit__(self, *_: object) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def _at(self, name: str) -> str:
        return name if self.descriptor is not None else str(self.path / name)

    def _open(self, name: str, flags: int) -> int:
        return os.open(self._at(name), flags | SAFE, PRIVATE_FILE, dir_fd=self.descriptor)

    def read(self, name: str) -> bytes | None:
        """The contents of a regular file that is only ours, None for any other; marks it as used.

        The descriptor that is checked is the one that is read.
        """
        if not self.only_ours:
            return None
        with open(self._open(name, READ), "rb") as file:
            status = os.fstat(file.fileno())
            if not (stat.S_ISREG(status.st_mode) and _is_only_ours(status)):
                return None
            with contextlib.suppress(OSError):
                os.utime(file.fileno() if os.utime in os.supports_fd else self.path / name)
            return file.read()

    def read_code(self, name: str, header: bytes) -> bytes | None:
        """The code of an entry, None if there is none that can be trusted."""
        try:
            magic, entry_header, digest, code = (self.read(name) or b"").split(b"\n", 3)
        except (OSError, ValueError):
            return None
        known = magic == MAGIC and entry_header == header
        return code if known and digest == _seal(header, code) else None

    def write(self, name: str, content: bytes) -> None:
        """Writes a file by renaming a finished one; a failure leaves no file behind."""
        part = f"{name}.{os.urandom(8).hex()}{PART}"
        try:
            with open(self._open(part, WRITE), "wb") as file:
                file.write(content)
            at = self.descriptor
            os.replace(self._at(part), self._at(name), src_dir_fd=at, dst_dir_fd=at)
        except OSError:
            self.delete(part)
            raise

    def delete(self, name: str) -> None:
        """Deletes a file, if it is there and can be deleted."""
        with contextlib.suppress(OSError):
            os.unlink(self._at(name), dir_fd=self.descriptor)

    def files(self, ending: str) -> list[StoredFile]:
        """The files with an ending, the most recently used first."""
        where = self.path if self.descriptor is None else self.descriptor
        files = []
        with os.scandir(where) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # another process has deleted it meanwhile
                    if entry.name.endswith(ending):
                        status = entry.stat(follow_symlinks=False)
                        files.append(StoredFile(entry.name, status.st_mtime, status.st_size))
        return sorted(files, key=lambda file: file.used, reverse=True)

    def limit(self) -> int:
        """The size that all entries together may have, in bytes."""
        try:
            return int(self.read(LIMIT) or MOST_BYTES)
        except (OSError, ValueError):
            return MOST_BYTES

    def prune_if_due(self, size: int) -> None:
        """Prunes if much was written since, or the last time is long ago. size: bytes just
        written.
        """
        global _written
        _written += size
        try:
            status = os.stat(self._at(PRUNED), dir_fd=self.descriptor, follow_symlinks=False)
            due = not 0 <= time.time() - status.st_mtime < PRUNED_EVERY_SECONDS
        except OSError:
            due = True
        if due or _written >= PRUNED_EVERY_BYTES:
            _written = 0
            self.prune()

    def prune(self) -> None:
        """Deletes the least recently used entries beyond the limit, and files of killed writers."""
        self.write(PRUNED, b"")
        for file in self.files(PART):
            if time.time() - file.used > ABANDONED:
                self.delete(file.name)
        total, limit = 0, self.limit()
        for file in self.files(ENTRY):
            total += file.size
            if total > limit:
                self.delete(file.name)

    def headers(self) -> Iterator[tuple[StoredFile, bytes]]:
        """The entries, each with its first line."""
        for file in self.files(ENTRY):
            with contextlib.suppress(OSError), open(self._open(file.name, READ), "rb") as entry:
                magic, header = entry.readline(100), entry.readline(1 << 20)
                yield file, header.rstrip(b"\n") if magic.rstrip(b"\n") == MAGIC else b""


class Summary(NamedTuple):
    """The contents of a cache in figures. size, limit: in bytes; current: entries that this
    installation can use. Other entries are of other versions.
    """

    folder: Path
    entries: int
    current: int
    size: int
    limit: int


def summary() -> Summary | None:
    """A summary of the cache, None if it is switched off. Raises OSError if it cannot be read."""
    directory = folder()
    if directory is None:
        return None
    if not directory.exists():
        return Summary(directory, 0, 0, 0, MOST_BYTES)
    ours = tuple(b'"facts": ' + _line(x) + b"}" for x in (facts(), {}))
    with _Folder(directory) as opened:
        entries = [*opened.headers()]
        current = sum(header.endswith(ours) for _, header in entries)
        size = sum(file.size for file, _ in entries)
        return Summary(directory, len(entries), current, size, opened.limit())


def clear() -> int:
    """Deletes all entries and returns their number. Raises OSError if it cannot read the folder."""
    directory = folder()
    if directory is None or not directory.exists():
        return 0
    with _Folder(directory) as opened:
        entries = opened.files(ENTRY)
        for file in (*entries, *opened.files(PART)):
            opened.delete(file.name)
        opened.delete(PRUNED)
    return len(entries)


def set_limit(size: int) -> None:
    """Sets the limit in bytes of all entries together. Raises OSError if the folder
    cannot be written.
    """
    directory = folder()
    if directory is not None:
        _make_folder(directory)
        with _Folder(directory) as opened:
            opened.write(LIMIT, str(size).encode())
            opened.prune()
