"""Programs to machine code for the CPU, through the cache of compiled code."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np

from featherlane.backends import progress
from featherlane.backends.cpu.graphs import kernel
from featherlane.backends.cpu.linked import compiled, stored
from featherlane.backends.llvm import jit
from featherlane.errors import CompileError
from featherlane.program.cost import slots
from featherlane.program.lower import checked_dtype, lower
from featherlane.program.program import Program
from featherlane.program.trace import no_garbage

SLOTS = "slots"  # a name in machine code
NAMES = ("loop", SLOTS)


@dataclass(frozen=True, eq=False)
class Kernel:
    """Machine code of one program in one dtype, and the arithmetic instructions of one state.
    parts: the kernels that it calls.
    """

    code: jit.MachineCode
    dtype: np.dtype
    width: int
    parts: tuple[Kernel, ...] = ()

    @cached_property
    def slots(self) -> int:
        """Read from the code: a cached kernel has no program to count."""
        return ctypes.c_int64.from_address(self.code.address_of(SLOTS)).value


# One text is written at a time: under the interpreter's lock two would both be done late, while
# the code of the first can be generated as the second is written.
_writing = RLock()


def _after_fork() -> None:
    """Replaces the lock, which another thread may have held at the fork."""
    global _writing
    _writing = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

LARGE = 3_000  # operations of a program whose code is worth several cores


@contextmanager
def one_text() -> Iterator[None]:
    """Within the context, a thread traces a program and prints its text, while no other thread
    does.
    """
    with _writing, no_garbage():
        progress.step("tracing")
        yield


def lowered(program: Program, dtype: np.dtype) -> Program:
    """A program lowered for this processor. Workers start meanwhile if its code will be large."""
    if program.operations >= LARGE:
        from featherlane.backends.llvm import workers  # loads llvmlite

        workers.prepare()
    progress.step("lowering")
    return lower(program, "cpu", dtype)


def batch_text(program: Program, dtype: np.dtype, width: int) -> str:
    """LLVM IR of a lowered program for batches of states, `width` of them in a vector."""
    return kernel.source(program, dtype, width, jit.widest(dtype) if width == 1 else 1)


def lanes_of(width: int | None, dtype: np.dtype) -> int:
    """The lanes of vectors, by default the processor's most. Raises CompileError."""
    width = jit.widest(dtype) if width is None else width
    if width not in (1, 2, 4, 8, 16):
        raise CompileError(f"width is {width}: wanted 1, 2, 4, 8 or 16 lanes")
    return width


def stored_kernel(key: str, dtype: np.dtype, width: int) -> Kernel | None:
    """The kernel of a key from the cache, None if it has none."""
    code = stored(f"{key} {dtype}", NAMES)
    return None if code is None else Kernel(code, dtype, width)


def compiled_kernel(key: str, dtype: np.dtype, width: int, text: str, program: Program) -> Kernel:
    """Compiles the text of a lowered program, and puts its code into the cache. The code holds the
    number of its instructions, too: in later processes there is no program to count.
    """
    text += f"\n@{SLOTS} = constant i64 {slots(program.kinds)}\n"
    return Kernel(compiled(f"{key} {dtype}", text, NAMES), dtype, width)


def compile_program(
    program: Callable[[], Program], key: str, dtype: Any, width: int | None = None
) -> Kernel:
    """Compiles for this processor; `program` is only called if the cache has no code."""
    dtype = checked_dtype(dtype)
    width = lanes_of(width, dtype)
    key = f"{key} {width}"
    if (known := stored_kernel(key, dtype, width)) is not None:
        return known
    with one_text():
        made = lowered(program(), dtype)
        text = batch_text(made, dtype, width)
    return compiled_kernel(key, dtype, width, text, made)
