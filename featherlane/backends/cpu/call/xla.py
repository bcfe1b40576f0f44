"""A handler for XLA's foreign function interface, in machine code, by which JAX programs on the CPU
call kernels without Python.

`source` follows XLA's public header xla/ffi/api/c_api.h: structures only grow at their ends, and
each contains its size. One piece of code serves all kernels: the kernel is in a `HandlerTable`,
which `XlaHandler` sets in each loaded copy. Arrays are in C order; each has the leading dimensions
of the results, or none or ones, and is then the same for all states.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from featherlane.backends.cpu.addresses import address
from featherlane.backends.cpu.compile import Kernel
from featherlane.backends.cpu.linked import loaded_text
from featherlane.backends.llvm.macros import expanded
from featherlane.backends.llvm.records import field, packed, read, words
from featherlane.backends.xla_interface import (
    DTYPES,
    ERROR_SIZE,
    EXECUTE,
    FRAME_END,
    INVALID_ARGUMENT,
    MAJOR,
    METADATA,
    MINOR,
    RESOURCE_EXHAUSTED,
    STATE_TYPE,
)

Shape = tuple[int, ...]


class HandlerTable(NamedTuple):
    """The kernel of a handler; it is followed by an `ArrayTable` for each array, then by the
    strides of the arrays' entries, which the loop expects behind the strides of the states.
    """

    inputs: int
    outputs: int
    dtype: int  # XLA_FFI_DataType
    run: int  # the loop, or the thread pool's @share
    task: int  # the SharedTask, 0 for one thread
    strides: int  # the number of strides, with those of the states


class ArrayTable(NamedTuple):
    rank: int  # dimensions of one state
    entries: int
    bytes: int


# Bytes in XLA_FFI_CallFrame, with its XLA_FFI_Args and XLA_FFI_Rets
EXTENSION, API, STAGE, INPUTS, OUTPUTS = 8, 16, 32, 56, 96
MESSAGES = {
    "wrong_count": "another number of arrays than the function has",
    "wrong_array": "an array of another type or shape than the function has",
    "no_memory": "no memory to work in",
}

HANDLER = f"""
@featherlane_handler_table = dso_local global ptr null

define ptr @handler(ptr %frame) {{
  %extension = field ptr %frame {EXTENSION}
  when ne ptr %extension, null: metadata
  %stage = field i32 %frame {STAGE}
  return ptr null when ne i32 %stage, {EXECUTE}
  %table = load ptr, ptr @featherlane_handler_table
  {read(HandlerTable, "%table", "inputs outputs dtype run:ptr task:ptr strides")}
  %arrays = add i64 %inputs, %outputs
  when ult i64 $(field i64 %frame 0), {FRAME_END}: wrong_count
  when ne i64 $(field i64 %frame {INPUTS}), %inputs: wrong_count
  when ne i64 $(field i64 %frame {OUTPUTS}), %outputs: wrong_count
  %pointers = alloca ptr, i64 %arrays
  %counts = alloca i64, i64 %arrays
  %steps = alloca i64, i64 %strides
  %given = field ptr %frame {INPUTS + 16}
  %results = field ptr %frame {OUTPUTS + 16}
  %sizes = word %table {words(HandlerTable)}
  each %k 0 %arrays
  %is_input = icmp ult i64 %k, %inputs
  %list = select i1 %is_input, ptr %given, ptr %results
  %behind = sub i64 %k, %inputs
  %n = select i1 %is_input, i64 %k, i64 %behind
  %buffer = item ptr %list %n
  %size = record %sizes %k {words(ArrayTable)}
  %count = call i64 @states_of(ptr %buffer, ptr %size, i64 %dtype)
  when slt i64 %count, 0: wrong_array
  put i64 %count %counts %k
  put ptr $(field ptr %buffer 24) %pointers %k
  again %k
  %states = alloca i64
  %batch = item i64 %counts %inputs
  put i64 %batch %states 0
  return ptr null when eq i64 %batch, 0
  each %s 0 %arrays
  %c = item i64 %counts %s
  %one = icmp eq i64 %c, 1
  %fits = icmp eq i64 %c, %batch
  when $(or i1 %one, %fits): fitting, wrong_array
fitting:
  %own = record %sizes %s {words(ArrayTable)}
  %bytes = item i64 %own {field(ArrayTable, "bytes")}
  %step = select i1 %fits, i64 %bytes, i64 0
  put i64 %step %steps %s
  again %s
  %inner = record %sizes %arrays {words(ArrayTable)}
  each %i %arrays %strides
  %from = sub i64 %i, %arrays
  put i64 $(item i64 %inner %from) %steps %i
  again %i
  %failed = at {address("scratch_failures")} 0
  %failures = load atomic i64, ptr %failed monotonic, align 8
  call void %run(ptr %pointers, ptr %states, ptr %steps, ptr %task)
  when ne i64 $(load atomic i64, ptr %failed monotonic, align 8), %failures: no_memory
  ret ptr null
"""

ANSWER = f"""
; What XLA asks when a handler is registered: the version it was made for.
metadata:
  return ptr null when ne i32 $(field i32 %extension 8), {METADATA}
  %asked = field ptr %extension 24
  %told_size = field i64 %asked 0
  %major = at %asked 24
  store i32 {MAJOR}, ptr %major, align 4
  %minor = at %asked 28
  store i32 {MINOR}, ptr %minor, align 4
  %traits = at %asked 32
  store i32 0, ptr %traits, align 4
  return ptr null when ult i64 %told_size, {STATE_TYPE}
  %type = at %asked 40
  store i64 0, ptr %type, align 8
  ret ptr null
"""


def _failing(label: str, message: str) -> str:
    code = RESOURCE_EXHAUSTED if label == "no_memory" else INVALID_ARGUMENT
    return f"""
{label}:
  %{label}.e = call ptr @error(ptr %frame, ptr @{label}_text, i32 {code})
  ret ptr %{label}.e
"""


HELPERS = f"""
define internal ptr @error(ptr %frame, ptr %message, i32 %code) {{
  %api = field ptr %frame 16
  %create = field ptr %api 48
  %args = alloca [4 x i64], align 8
  put i64 {ERROR_SIZE} %args 0
  put ptr null %args 1
  put ptr %message %args 2
  %where = word %args 3
  store i32 %code, ptr %where, align 4
  %made = call ptr %create(ptr %args)
  ret ptr %made
}}

; The product of a buffer's leading dimensions; -1 for a wrong dtype or a wrong number of entries.
define internal i64 @states_of(ptr %buffer, ptr %size, i64 %dtype) {{
  need eq i64 $(zext i32 $(field i32 %buffer 16) to i64), %dtype
  %core = item i64 %size 0
  %entries = item i64 %size 1
  %rank = field i64 %buffer 32
  %dims = field ptr %buffer 40
  need uge i64 %rank, %core
  %lead = sub i64 %rank, %core
  %total = alloca i64
  put i64 1 %total 0
  each %k 0 %lead
  put i64 $(mul i64 $(item i64 %total 0), $(item i64 %dims %k)) %total 0
  again %k
  %states = item i64 %total 0
  put i64 1 %total 0
  each %e %lead %rank
  put i64 $(mul i64 $(item i64 %total 0), $(item i64 %dims %e)) %total 0
  again %e
  need eq i64 $(item i64 %total 0), %entries
  ret i64 %states
no:
  ret i64 -1
}}
"""


def source() -> str:
    """The LLVM IR of @handler."""
    texts = [
        f'@{label}_text = private constant [{len(message) + 1} x i8] c"{message}\\00"'
        for label, message in MESSAGES.items()
    ]
    failing = [_failing(label, message) for label, message in MESSAGES.items()]
    return expanded("\n".join([*texts, HANDLER, ANSWER, *failing, "}", HELPERS]))


class XlaHandler:
    """A handler for one kernel, valid as long as this object lives. share: the address of the
    thread pool's @share, 0 for one thread; task: its SharedTask.
    """

    def __init__(
        self,
        kernel: Kernel,
        inputs: Sequence[Shape],
        outputs: Sequence[Shape],
        share: int = 0,
        task: bytes = b"",
    ) -> None:
        shapes, size = [*inputs, *outputs], kernel.dtype.itemsize
        inner = [s for shape in shapes for s in _strides(shape, size)]
        self._alive = kernel, ctypes.create_string_buffer(task)
        head = HandlerTable(
            inputs=len(inputs),
            outputs=len(outputs),
            dtype=DTYPES[kernel.dtype.name],
            run=share or kernel.code.address,
            task=ctypes.addressof(self._alive[1]) if share else 0,
            strides=len(shapes) + len(inner),
        )
        sizes = [ArrayTable(len(s), math.prod(s), math.prod(s) * size) for s in shapes]
        self._table = ctypes.create_string_buffer(packed([*head, *chain(*sizes), *inner]))
        self._code = loaded_text(source(), ("handler", "featherlane_handler_table"))
        address_of_table = self._code.address_of("featherlane_handler_table")
        ctypes.c_void_p.from_address(address_of_table).value = ctypes.addressof(self._table)
        self.address = self._code.address_of("handler")


def _strides(shape: Shape, size: int) -> tuple[int, ...]:
    return np.empty(shape, f"V{size}").strides
