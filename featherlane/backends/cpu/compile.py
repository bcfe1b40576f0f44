"""Programs to machine code for the CPU, through the cache of compiled code."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np

from featherlane.backends import progress
from featherlane.backends.cpu.graphs import kernel
from featherlane.backends.cpu.linked import loaded
from featherlane.backends.llvm import jit
from featherlane.errors import CompileError
from featherlane.program.analysis.counts import of_program, slots
from featherlane.program.lower import checked_dtype, lower
from featherlane.program.program import Program
from featherlane.program.trace import no_garbage

SLOTS = "slots"  # a name in machine code


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
        """Kept in the code: a cached one has no program to count."""
        return ctypes.c_int64.from_address(self.code.address_of(SLOTS)).value


# One text is made at a time: under the interpreter's lock two would both be done late, where the
# code of the first can be generated while the second is made.
_turn = RLock()


def _after_fork() -> None:
    """Another thread of the parent may have had its turn."""
    global _turn
    _turn = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

LARGE = 3_000  # operations of a program whose code is worth several cores


def lowered(program: Callable[[], Program], dtype: np.dtype) -> Program:
    """A program lowered for this processor. Workers start meanwhile if they will be needed."""
    progress.step("tracing")
    traced = program()
    if traced.operations >= LARGE:
        from featherlane.backends.llvm import workers  # loads llvmlite

        workers.prepare()
    progress.step("lowering")
    return lower(traced, "cpu", dtype)


def kernel_of(
    key: str, dtype: np.dtype, width: int, source: Callable[[], tuple[str, Program]]
) -> Kernel:
    """The code of a source, with what it counts, from the cache if it is there."""

    def counted() -> str:
        with _turn, no_garbage():
            text, made = source()
        return text + f"\n@{SLOTS} = constant i64 {slots(of_program(made))}\n"

    return Kernel(loaded(f"{key} {dtype}", counted, ("loop", SLOTS)), dtype, width)


def compile_program(
    program: Callable[[], Program], key: str, dtype: Any, width: int | None = None
) -> Kernel:
    """Compiles for this processor; `program` is only asked for if the cache has no code."""
    dtype = checked_dtype(dtype)
    width = jit.widest(dtype) if width is None else width
    if width not in (1, 2, 4, 8, 16):
        raise CompileError(f"width is {width}: wanted 1, 2, 4, 8 or 16 lanes")
    columns = jit.widest(dtype) if width == 1 else 1

    def source() -> tuple[str, Program]:
        made = lowered(program, dtype)
        return kernel.source(made, dtype, width, columns), made

    return kernel_of(f"{key} {width}", dtype, width, source)
