"""The host processor: the width of its vectors, and LLVM IR compiled into memory."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from itertools import count
from threading import Lock
from typing import Any

import numpy as np

from featherlane.backends import progress
from featherlane.backends.llvm import binding as llvm
from featherlane.backends.llvm import pieces, targets


def widest(dtype: np.dtype) -> int:
    """The lanes of the host's widest vectors."""
    return targets.host().widest(dtype)


def target() -> str:
    """The host in LLVM's names, for the keys of the cache."""
    host = targets.host()
    return f"{host.triple} {host.cpu} {host.features}"


def machine_code(ir: str) -> bytes:
    """Compiles LLVM IR for the host to an object file. Large texts are compiled in pieces on
    several cores, and the object files are joined.
    """
    from featherlane.backends.llvm import workers  # loads llvmlite

    texts = pieces.cut(targets.with_branches(ir, targets.host()))
    report = lambda done: progress.step(f"code, {done} of {len(texts)} pieces")
    return joined(workers.object_files(texts, report))


# Object files of one text, joined to one image
_MAGIC = b"featherlane objects\n"


def joined(images: list[bytes]) -> bytes:
    """Object files as one sequence of bytes."""
    if len(images) == 1:
        return images[0]
    sizes = struct.pack(f"<{len(images) + 1}Q", len(images), *map(len, images))
    return b"".join([_MAGIC, sizes, *images])


def parted(image: bytes) -> Iterator[bytes]:
    """Yields the object files of `joined`."""
    if not image.startswith(_MAGIC):
        yield image
        return
    (count,) = struct.unpack_from("<Q", image, len(_MAGIC))
    at = len(_MAGIC) + 8 * (count + 1)
    for size in struct.unpack_from(f"<{count}Q", image, len(_MAGIC) + 8):
        yield image[at : at + size]
        at += size


LIBRARIES = 16  # libraries that one session links


class _Session:
    """A session of LLVM's linker in memory. llvmlite frees the code of a library that is no longer
    used, but the library itself (9 kB) only with its session: so each links a few libraries.
    """

    _newest: _Session | None = None
    _lock = Lock()
    _names = count()

    def __init__(self) -> None:
        targets.target_machine(targets.host())  # initialises LLVM
        # JITLink keeps sections close together, so that constants are addressed relative to
        # the code: 1 to 6 % faster, and large code loads 2.5 times faster (docs/performance.md,
        # "What else was tried"). On Windows RuntimeDyld links, which may place them far apart.
        self.jit = llvm.create_lljit_compiler(use_jit_link=os.name != "nt")
        self.remaining = LIBRARIES

    @classmethod
    def newest(cls) -> _Session:
        """The session that the next library is linked in."""
        with cls._lock:
            if cls._newest is None or not cls._newest.remaining:
                cls._newest = cls()
            cls._newest.remaining -= 1
            return cls._newest

    def link(self, builder: llvm.JITLibraryBuilder) -> llvm.ResourceTracker:
        return builder.link(self.jit, f"featherlane{next(_Session._names)}")


def _locks() -> list[Any]:
    """The locks that a thread holds while it is in LLVM, in the order in which they are taken."""
    of_llvmlite = getattr(llvm.ffi.lib, "_lock", None)  # llvmlite has no function for it
    return [_Session._lock, *([] if of_llvmlite is None else [of_llvmlite])]


def _before_fork() -> None:
    """Waits until no thread is in LLVM: a lock held at the fork would never be released there."""
    for lock in _locks():
        lock.__enter__()


def _after_fork() -> None:
    for lock in reversed(_locks()):
        lock.__exit__(None, None, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )


class MachineCode:
    """Object files loaded into memory, where they stay as long as this object lives.

    image: the result of `machine_code`. names: the symbols whose addresses are looked up. Functions
    of the C library that LLVM itself calls, such as memcpy, are those of the process.
    """

    def __init__(self, image: bytes, names: Sequence[str]) -> None:
        session = _Session.newest()
        builder = llvm.JITLibraryBuilder().add_current_process()
        for part in parted(image):
            builder = builder.add_object_img(part)
        for name in names:
            builder = builder.export_symbol(name)
        self._library = session.link(builder)
        self._session = session  # freed with its last library
        self._addresses = {name: int(self._library[name]) for name in names}

    def address_of(self, name: str) -> int:
        """The address of one of the symbols `names`."""
        return self._addresses[name]

    @property
    def address(self) -> int:
        """The address of the inner loop."""
        return self._addresses["loop"]
