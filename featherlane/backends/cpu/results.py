"""Memory for results. New memory costs a page fault for every 4 kB, up to three times the time of
the computation (docs/performance.md, "Results in fresh memory"). So the memory of results that the
program has dropped is reused.

A large result is a view of a block, an array of bytes to which this module holds a reference. While
that is the only reference, no result and no view of one is alive, and the block serves the next
result. The count of references is the whole bookkeeping: nothing runs when a result is dropped, by
whatever thread. Cached blocks, in use or not, have at most `limit()` bytes together. A new block
beyond that replaces the oldest ones, which from then on belong to their results alone.

Machine code searches `_words` for a block, with the interpreter's lock held; if there is none, it
calls `new_block`. Without that lock (on a free-threaded build) counts may be wrong for a moment,
and no block is cached.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any

import numpy as np

from featherlane.backends import cores
from featherlane.backends.cpu import native
from featherlane.backends.cpu.addresses import address
from featherlane.backends.cpu.strides import LINE, SMALL
from featherlane.backends.llvm.records import field, read, words

VARIABLE = "FEATHERLANE_RESULTS"  # the limit: a size such as 2G, or "off"
SHARE = 8  # the limit is this part of the memory
UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
# For blocks smaller than SHORT, Python's part in caching one costs more than the page faults. Where
# no block is free, machine code creates an array that is not cached, except for one in SKIPPED:
# that suffices for a loop, and results that the program collects take no longer than before.
SHORT, SKIPPED = 1 << 20, 32
SLACK = 4  # a block serves results that leave at most this part of it unused
BLOCKS = 64  # cached at most
UNKNOWN = (1 << 63) - 1  # the limit before `limit` was first called
NPY_UINT8 = np.dtype(np.uint8).num

# The words that machine code reads: the limit; the number of slots behind these words that were
# ever used; how often machine code missed a block
Head = namedtuple("Head", "limit slots missed")
Slot = namedtuple("Slot", "size block")  # its bytes, 0 if it has no free block; its address
_words = (ctypes.c_int64 * (words(Head) + BLOCKS * words(Slot)))(UNKNOWN)
_blocks: list[Any] = [None] * BLOCKS
_oldest = 0  # the slot that the next new block takes
_lock = RLock()  # of changes by Python: reentrant, as signal handlers may call functions

FUNCTIONS = f"""
; A kept block of at least so many bytes that is not in use, or null.
define internal ptr @kept_block(i64 %bytes) noinline {{
  %head = at {address("result_words")} 0
  {read(Head, "%head", "slots")}
  %first = word %head {words(Head)}
  %slack = udiv i64 %bytes, {SLACK}
  each %k 0 %slots
  %slot = record %first %k {words(Slot)}
  {read(Slot, "%slot", "size block:ptr")}
  when ugt i64 $(sub i64 %size, %bytes), %slack: next
  %count = field i32 %block 0
  when ne i32 %count, 1: next
  call void {address("incref")}(ptr %block)
  ret ptr %block
next:
  again %k
  ret ptr null
}}

; A block of at least so many bytes, as a new reference; null with the error set if there is none.
; It is kept if the limit allows it, and if it is not short.
define internal ptr @block(i64 %bytes) noinline {{
  %arguments = alloca ptr
  %kept = call ptr @kept_block(i64 %bytes)
  return ptr %kept when ne ptr %kept, null
  %head = at {address("result_words")} 0
  {read(Head, "%head", "limit missed")}
  when ugt i64 %bytes, %limit: plain
  put i64 $(add i64 %missed, 1) %head {field(Head, "missed")}
  %odd = icmp ne i64 $(urem i64 %missed, {SKIPPED}), 0
  when $(and i1 %odd, $(icmp ult i64 %bytes, {SHORT})): plain, keep
plain:
  %length = alloca i64
  put i64 %bytes %length 0
  %type = at {address("array_type")} 0
  %array = call ptr {address("array_new")}(ptr %type, i32 1, ptr %length, i32 {NPY_UINT8}, ptr null,
                                           ptr null, i32 0, i32 0, ptr null)
  ret ptr %array
keep:
  %number = call ptr {address("int_new")}(i64 %bytes)
  need ne ptr %number, null
  put ptr %number %arguments 0
  %function = at {address("result_block")} 0
  %new = call ptr {address("vectorcall")}(ptr %function, ptr %arguments, i64 1, ptr null)
  call void {address("decref")}(ptr %number)
  ret ptr %new
no:
  ret ptr null
}}
"""


def size_of(text: str) -> int:
    """The bytes of a size such as 500M. Raises ValueError for other texts."""
    match = re.fullmatch(r"(\d{1,15})([kMGT]?)B?", text.strip())
    if not match:
        raise ValueError(f"is {text!r}; wanted bytes, or a size such as 500M or 2G")
    return int(match[1]) * UNITS[match[2]]


def limit() -> int:
    """The most bytes of all blocks together. Raises ValueError for a wrong FEATHERLANE_RESULTS."""
    if _words[0] == UNKNOWN:
        _words[0] = _chosen_limit()
    return _words[0]


def _chosen_limit() -> int:
    if not _counts_are_known():
        return 0
    text = os.environ.get(VARIABLE, "").strip()
    if text.lower() in ("off", "none"):
        return 0
    try:
        return size_of(text) if text else memory() // SHARE
    except ValueError as error:
        raise ValueError(f"{VARIABLE} {error}, or off") from None


def memory() -> int:
    """The bytes of memory that this process may use: of the machine, of its control groups, and of
    the limit of its address space.
    """
    return min(_physical(), *_group_limits(), _address_space())


def _physical() -> int:
    if sys.platform == "win32":
        kilobytes = ctypes.c_uint64()
        ctypes.WinDLL("kernel32").GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes))
        return kilobytes.value << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _group_limits() -> Iterator[int]:
    for folder in cores.control_groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):  # of version 2 and version 1
            limit_text = cores.system_text(folder / name).strip()
            if limit_text.isdecimal():
                yield int(limit_text)


def _address_space() -> int:
    with suppress(ImportError, AttributeError):  # not on Windows
        import resource

        if (most := resource.getrlimit(resource.RLIMIT_AS)[0]) != resource.RLIM_INFINITY:
            return most
    return UNKNOWN


def _count(address: int) -> int:
    """The references to the object at this address: the first 32 bits of each, in all versions."""
    return ctypes.c_uint32.from_address(address).value


def _counts_are_known() -> bool:
    """Whether the count of references tells if a block is in use."""
    if sys.implementation.name != "cpython" or native.free_threaded():
        return False
    held: list[np.ndarray] = [np.empty(8, np.uint8)]
    address = id(held[0])
    counts = [_count(address)]
    held.append(held[0][2:].view(np.int8)[1:])  # its base is the block itself
    counts.append(_count(address))
    del held[1]
    return [*counts, _count(address)] == [1, 2, 1]


def _slots(name: str) -> list[int]:
    """A field of all slots that were ever used."""
    first = words(Head) + field(Slot, name)
    return _words[first : words(Head) + words(Slot) * _words[1] : words(Slot)]


def _set(k: int, size: int) -> None:
    """Sets the size of the block of a slot. 0 hides it from machine code, which may run in other
    threads.
    """
    _words[words(Head) + words(Slot) * k] = size


def _taken(size: int) -> int | None:
    """Takes a cached block of at least so many bytes that is not in use: hides it from machine code
    and returns its slot, or None if there is none.
    """
    for k, block_size in enumerate(_slots("size")):
        if 0 <= block_size - size <= size // SLACK:
            _set(k, 0)
            if _count(id(_blocks[k])) == 1:
                return k
            _set(k, block_size)
    return None


def new_block(size: int) -> np.ndarray:
    """An array of so many bytes for a result, cached for later ones if the limit allows it."""
    if size > limit():
        return np.empty(size, np.uint8)
    with _lock:
        k = _emptied_slot(size)
        try:
            block = np.empty(size, np.uint8)
        except MemoryError:
            empty_cache()
            block = np.empty(size, np.uint8)
        _blocks[k] = block
        _words[words(Head) + words(Slot) * k + 1] = id(block)
        _words[1] = max(_words[1], k + 1)
        _set(k, size)
        return block


def _emptied_slot(size: int) -> int:
    """An empty slot, after the oldest blocks were dropped so that so many bytes fit the limit."""
    global _oldest
    k, _oldest = _oldest, (_oldest + 1) % BLOCKS
    _drop(k)
    others = k
    while sum(_slots("size")) + size > limit():
        others = (others + 1) % BLOCKS
        _drop(others)
    return k


def _drop(k: int) -> int:
    """Removes a block from the cache. Returns the bytes that this frees."""
    if (block := _blocks[k]) is None:
        return 0
    _set(k, 0)
    _blocks[k] = None
    return block.nbytes if _count(id(block)) == 1 else 0


def empty_cache() -> int:
    """Frees the memory of dropped results. Returns the number of bytes."""
    with _lock:
        return sum(_drop(k) for k in range(BLOCKS))


@contextmanager
def limited(size: int | None) -> Iterator[None]:
    """Within the context, sets another limit if `size` is not None, and starts without blocks."""
    before = limit()
    if size is not None:
        empty_cache()
        _words[0] = size
    try:
        yield
    finally:
        _words[0] = before


def fresh(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array for a result. Large ones begin on a cache line."""
    size = math.prod(shape) * dtype.itemsize
    if size < SMALL:
        return np.empty(shape, dtype)
    with _lock:
        if (k := _taken(size + LINE)) is None:
            return _view(new_block(size + LINE), shape, dtype)
        block = _blocks[k]
        try:
            return _view(block, shape, dtype)
        finally:
            _set(k, len(block))


def _view(block: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The array that begins with the first cache line of a block."""
    return np.ndarray(shape, dtype, block, -block.__array_interface__["data"][0] % LINE)


def addresses() -> dict[str, int]:
    """The addresses of the objects of this module that machine code uses, by their names there."""
    return {"result_words": ctypes.addressof(_words), "result_block": id(new_block)}


def _after_fork() -> None:
    """Replaces the lock, which another thread may have held at the fork."""
    global _lock
    _lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
