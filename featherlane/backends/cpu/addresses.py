"""The table of addresses that emitted code refers to: functions and objects of CPython and NumPy,
and words that all code of this process shares.

The table is part of each object file and filled after loading. Symbols for the linker would be
wrong on systems whose code reaches 4 GB in each direction: the heap and the libraries of a process
can be further away.
"""

from __future__ import annotations

TABLE = "featherlane_addresses"
OBJECTS = (
    "array_type",
    "tuple_type",
    "list_type",
    "dict_type",
    "text_type",
    "int_type",
    "float_type",
    "float64_type",
    "float32_type",
    "py_none",
    "py_one",
)
NAMES = (
    *OBJECTS,
    "array_new",
    "array_set_base",
    "object_new",
    "vectorcall",
    "dict_get",
    "dict_next",
    "incref",
    "decref",
    "int_value",
    "int_new",
    "error_clear",
    "error_occurred",
    "error_no_memory",
    "gil_release",
    "gil_take",
    "scratch_new",
    "scratch_free",
    "scratch_waiting",
    "scratch_failures",
    "result_words",
    "result_block",
)


def address(name: str) -> str:
    """The macro for the address of a name, which can be called if it is a function's. The table
    does not change while code runs, so that LLVM may load an address once or several times.
    """
    entry = f"getelementptr (ptr, ptr @{TABLE}, i64 {NAMES.index(name)})"
    return f"$(load ptr, ptr {entry}, align 8, !invariant.load !{{}})"


def with_table(ir: str, entries: str = "zeroinitializer") -> str:
    """LLVM IR with the table, if it uses the table. dso_local: code addresses it relative to the
    instruction pointer.
    """
    if f"@{TABLE}" not in ir:
        return ir
    return f"{ir}\n@{TABLE} = dso_local global [{len(NAMES)} x ptr] {entries}, align 8\n"


def is_used(image: bytes) -> bool:
    """Whether an object file has the table: the names of its symbols are plain text."""
    return TABLE.encode() in image
