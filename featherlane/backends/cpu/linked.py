"""Machine code in memory, with the addresses of functions and objects of CPython and NumPy.

NumPy's C API is a table of pointers in a capsule, and CPython's functions are in the process: so
the package needs no compiled extension module.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from featherlane.backends import cache
from featherlane.backends.cpu import addresses, results, scratch
from featherlane.backends.llvm import jit
from featherlane.errors import CompileError

try:
    from numpy._core import _multiarray_umath as numpy_c  # type: ignore[attr-defined]
except ImportError:  # NumPy 1
    from numpy.core import _multiarray_umath as numpy_c  # type: ignore[no-redef]

# PyArray_New and PyArray_SetBaseObject in NumPy's table of its array API, fixed by its ABI
ARRAY_NEW, SET_BASE = 93, 282


def c_table(capsule: object) -> ctypes.Array:
    """The table of function pointers in one of NumPy's capsules."""
    get = python_function(
        "PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
    )
    return ctypes.cast(get(capsule, None), ctypes.POINTER(ctypes.c_void_p))  # type: ignore[return-value]


def python_function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A function of CPython with these types. The types of attributes of `ctypes.pythonapi` are
    shared with every package of the process, so they are not changed.
    """
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


def function_address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def symbols() -> dict[str, int]:
    """The addresses of functions, objects and words that emitted code uses, by name."""
    python, numpy = ctypes.pythonapi, c_table(numpy_c._ARRAY_API)
    functions = {
        "object_new": python.PyType_GenericAlloc,
        "vectorcall": python.PyObject_Vectorcall,
        "dict_get": python.PyDict_GetItemWithError,
        "dict_next": python.PyDict_Next,
        "incref": python.Py_IncRef,
        "decref": python.Py_DecRef,
        "int_value": python.PyLong_AsSsize_t,
        "int_new": python.PyLong_FromSsize_t,
        "error_clear": python.PyErr_Clear,
        "error_occurred": python.PyErr_Occurred,
        "error_no_memory": python.PyErr_NoMemory,
        "gil_release": python.PyEval_SaveThread,
        "gil_take": python.PyEval_RestoreThread,
        "scratch_new": python.PyMem_RawMalloc,
        "scratch_free": python.PyMem_RawFree,
    }
    types = np.ndarray, tuple, list, dict, str, int, float, np.float64, np.float32
    return {
        **dict(zip(addresses.OBJECTS, map(id, (*types, None, 1)), strict=True)),
        "array_new": numpy[ARRAY_NEW],
        "array_set_base": numpy[SET_BASE],
        **{name: function_address(function) for name, function in functions.items()},
        **scratch.addresses(),
        **results.addresses(),
    }


def machine_code(ir: str) -> bytes:
    """Compiles LLVM IR, and the table of addresses that it uses, to an object file for the host."""
    return jit.machine_code(addresses.with_table(ir))


def linked(image: bytes, names: Sequence[str] = ("loop",)) -> jit.MachineCode:
    """Loads an object file of `machine_code` into memory and fills its table of addresses.

    names: the symbols whose addresses are wanted.
    """
    if not addresses.is_used(image):
        return jit.MachineCode(image, names)
    code, by_name = jit.MachineCode(image, (*names, addresses.TABLE)), symbols()
    table = (ctypes.c_void_p * len(addresses.NAMES)).from_address(code.address_of(addresses.TABLE))
    table[:] = [by_name[name] for name in addresses.NAMES]
    return code


def stored(key: str, names: Sequence[str]) -> jit.MachineCode | None:
    """Loads the code of a key from the cache, None if it has none."""
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        raise CompileError("this Python is a 32-bit program: machine code is for 64 bits")
    image = cache.read(f"{key} {jit.target()}")
    return None if image is None else linked(image, names)


def compiled(key: str, ir: str, names: Sequence[str]) -> jit.MachineCode:
    """Compiles LLVM IR, puts its code into the cache under a key, and loads it. The IR may depend
    on the key and on `cache.facts` alone.
    """
    image = machine_code(ir)
    cache.write(f"{key} {jit.target()}", image)
    return linked(image, names)


def loaded(key: str, source: Callable[[], str], names: Sequence[str]) -> jit.MachineCode:
    """Loads the code of a key from the cache, or compiles the LLVM IR that `source` returns."""
    return stored(key, names) or compiled(key, source(), names)


def loaded_text(ir: str, names: Sequence[str]) -> jit.MachineCode:
    """Loads the code of LLVM IR from the cache, with the digest of the text as key, or compiles
    it.
    """
    return loaded(f"text {cache.digest(ir.encode())}", lambda: ir, names)
