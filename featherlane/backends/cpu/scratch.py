"""Workspaces of machine code: short ones are on the stack, longer ones are in a pool of this
process between calls, so that a call needs little stack and hardly ever allocates.

If an allocation fails, the loop ends without results and counts that in one word of the process;
callers compare the word before and after, and raise MemoryError. A call that runs at the same time
as a failed one may raise too: results that were not computed are never returned.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from featherlane.backends.cpu.addresses import address
from featherlane.backends.llvm.macros import expanded

PAGE = 4096  # bytes: two addresses a multiple of them apart can slow each other's accesses down
ON_STACK = 2 * PAGE  # the most bytes of all workspaces of a loop that are on the stack
# The pool has classes by size, powers of two. A thread uses one workspace at a time, so a class has
# a slot for each thread that may compute at once. Larger workspaces are returned to the system.
SMALLEST, LARGEST = 14, 22  # the classes: log2 of bytes
PLACES = 16
ALL_PLACES = PLACES * (LARGEST - SMALLEST + 1)

_waiting = (ctypes.c_void_p * ALL_PLACES)()
_failures = ctypes.c_int64()

ALLOCATE = f"""
; Memory that begins with a page, behind the address that the system gave; null if there is none.
define internal ptr @scratch_aligned(i64 %bytes) noinline {{
  %raw = call ptr {address("scratch_new")}(i64 $(add i64 %bytes, {2 * PAGE}))
  when eq ptr %raw, null: failed
  %up = add i64 $(ptrtoint ptr %raw to i64), {2 * PAGE - 1}
  %new = inttoptr i64 $(and i64 %up, -{PAGE}) to ptr
  %behind = at %new -8
  store ptr %raw, ptr %behind, align 8
  ret ptr %new
failed:
  %before = atomicrmw add ptr {address("scratch_failures")}, i64 1 monotonic
  ret ptr null
}}
define internal void @scratch_drop(ptr %workspace) noinline {{
  when eq ptr %workspace, null: nothing
  %behind = at %workspace -8
  call void {address("scratch_free")}(ptr $(load ptr, ptr %behind, align 8))
  br label %nothing
nothing:
  ret void
}}
"""
# A list of free workspaces: `places` slots of `waiting`, from number `first` on
WAITING = """
; One that waits, or null.
define internal ptr @scratch_found() noinline {{
  %waiting = at {waiting} 0
  repeat %k
  %place = word %waiting $(add i64 %k, {first})
  %seen = load atomic ptr, ptr %place monotonic, align 8
  when eq ptr %seen, null: next
  %found = atomicrmw xchg ptr %place, ptr null acquire
  when eq ptr %found, null: next
  ret ptr %found
next:
  again %k {places}
  ret ptr null
}}

; Puts a workspace into the first free place, or gives it back to the system.
define internal void @scratch_give(ptr %workspace) noinline {{
  %waiting = at {waiting} 0
  repeat %k
  %place = word %waiting $(add i64 %k, {first})
  %pair = cmpxchg ptr %place, ptr null, ptr %workspace release monotonic
  when $(extractvalue {{ ptr, i1 }} %pair, 1): kept, next
kept:
  ret void
next:
  again %k {places}
  call void @scratch_drop(ptr %workspace)
  ret void
}}
"""
TAKE = """
; A workspace that waits, or a new one; null if there is no memory.
define internal ptr @scratch_take() noinline {{
  %found = call ptr @scratch_found()
  return ptr %found when ne ptr %found, null
  ret ptr $(call ptr @scratch_aligned(i64 {bytes}))
}}
"""
UNPOOLED = """
define internal ptr @scratch_take() noinline {{
  ret ptr $(call ptr @scratch_aligned(i64 {bytes}))
}}
define internal void @scratch_give(ptr %workspace) noinline {{
  call void @scratch_drop(ptr %workspace)
  ret void
}}
"""


def addresses() -> dict[str, int]:
    """The addresses of the words that all code of this process shares, by their names there."""
    shared = {"scratch_waiting": _waiting, "scratch_failures": _failures}
    return {name: ctypes.addressof(words) for name, words in shared.items()}


@contextmanager
def checked(name: str) -> Iterator[None]:
    """Raises MemoryError if machine code within the context got no memory. name: of the
    function.
    """
    before = _failures.value
    yield
    if _failures.value != before:
        raise MemoryError(f"no memory for the workspace of {name}")


class LoopWorkspaces:
    """The workspaces of a loop, by name, with their sizes in bytes. Each begins with a page:
    otherwise some functions take up to a third longer, depending on where the stack begins
    (docs/performance.md, "What else was tried").
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.starts: dict[str, int] = {}
        self.bytes = 0
        for name, size in sizes.items():
            self.starts[name] = self.bytes
            self.bytes += -(-size // PAGE) * PAGE

    @property
    def on_stack(self) -> bool:
        return self.bytes <= ON_STACK

    def entry(self) -> list[str]:
        """The lines for the entry block of a function."""
        if not self.on_stack:
            return []
        return [f"%scratch = alloca [{max(self.bytes, 1)} x i8], align {PAGE}"]

    def acquire(self, otherwise: str) -> list[str]:
        """The lines that acquire all workspaces; they branch to `otherwise` if there is no
        memory.
        """
        lines = [f"%{name} = at %scratch {start}" for name, start in self.starts.items()]
        if self.on_stack:
            return lines
        take = ["%scratch = call ptr @scratch_take()", f"when eq ptr %scratch, null: {otherwise}"]
        return [*take, *lines]

    def release(self) -> list[str]:
        """The lines that return all workspaces to the pool."""
        return [] if self.on_stack else ["call void @scratch_give(ptr %scratch)"]

    def functions(self) -> str:
        """The functions that the lines of `acquire` and `release` call."""
        if self.on_stack:
            return ""
        size = max((self.bytes - 1).bit_length(), SMALLEST)
        if size > LARGEST:
            return expanded(ALLOCATE + UNPOOLED.format(bytes=self.bytes))
        first, waiting = (size - SMALLEST) * PLACES, address("scratch_waiting")
        lists = WAITING.format(waiting=waiting, first=first, places=PLACES)
        return expanded(ALLOCATE + lists + TAKE.format(bytes=1 << size))
