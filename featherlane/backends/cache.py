"""The cache of compiled code on disk. An entry that is damaged, truncated or may come from another
user is compiled again, never executed.

The folder is $FEATHERLANE_CACHE, or `featherlane` in the user's cache folder. Without a folder that
can be written, code is compiled anew in each process and nothing else changes;
FEATHERLANE_CACHE=off does the same on purpose.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

MAGIC = b"featherlane code 2"
OFF = ("off", "none", "0", "")
MOST_BYTES = 1 << 30  # of all entries; beyond them the least recently used are deleted


def folder() -> Path | None:
    """The folder of the cache, None if there is none."""
    chosen = os.environ.get("FEATHERLANE_CACHE")
    if chosen:
        return None if chosen.strip().lower() in OFF else Path(chosen).expanduser()
    try:
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # the user has no home folder
        return None
    return base / "featherlane"


@cache
def _build() -> str:
    """Returns the hash of this package's text and the versions of the compiler and of NumPy."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    for package in ("llvmlite", "numpy"):
        with contextlib.suppress(PackageNotFoundError):
            digest.update(f"{package} {version(package)}".encode())
    return digest.hexdigest()


def _only_ours(path: Path) -> bool:
    """Whether nobody but this user can have written a file or folder."""
    if os.name != "posix":
        return True
    status = path.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _digest(path: Path, code: bytes) -> bytes:
    """The checksum of an entry with its name, so that a renamed entry is not another key's."""
    return hashlib.sha256(path.stem.encode() + b"\n" + code).hexdigest().encode()


def _read(path: Path) -> bytes | None:
    """The code of an entry, None if there is none that can be trusted."""
    try:
        if not (_only_ours(path) and _only_ours(path.parent)):
            return None
        magic, digest, code = path.read_bytes().split(b"\n", 2)
    except (OSError, ValueError):
        return None
    return code if magic == MAGIC and digest == _digest(path, code) else None


def _write(path: Path, code: bytes) -> None:
    """Writes an entry by renaming a finished file; a folder that cannot be written is no error."""
    temporary = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _only_ours(path.parent):
            warnings.warn(
                f"{path.parent} can be written by other users: no compiled code is cached there",
                stacklevel=2,
            )
            return
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(b"\n".join([MAGIC, _digest(path, code), code]))
        os.replace(temporary, path)
        _prune(path.parent)
    except OSError:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _prune(directory: Path) -> None:
    """Deletes the least recently used entries beyond MOST_BYTES."""
    entries = sorted(
        ((f.stat().st_mtime, f.stat().st_size, f) for f in directory.glob("*.code")), reverse=True
    )
    total = 0
    for _, size, file in entries:
        total += size
        if total > MOST_BYTES:
            file.unlink(missing_ok=True)


def fetch(key: str, make: Callable[[], bytes]) -> bytes:
    """The code of a key: read from disk, or compiled by `make` and written there."""
    directory = folder()
    if directory is None:
        return make()
    path = directory / (hashlib.sha256(f"{_build()} {key}".encode()).hexdigest() + ".code")
    code = _read(path)
    if code is None:
        code = make()
        _write(path, code)
    else:
        with contextlib.suppress(OSError):
            os.utime(path)
    return code
