"""Machine code linked with what it calls: functions and objects of CPython and NumPy, by address.

NumPy's C API is a table of pointers in a capsule, CPython's functions are in the process: so the
package needs no extension module of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from featherlane.backends.llvm.jit import Code

try:
    from numpy._core import _multiarray_umath as numpy_c  # type: ignore[attr-defined]
except ImportError:  # NumPy 1
    from numpy.core import _multiarray_umath as numpy_c  # type: ignore[no-redef]

ARRAY_NEW, SET_BASE = 93, 282  # indices in NumPy's array table, fixed by NumPy's ABI


def c_table(capsule: object) -> ctypes.Array:
    """The table of function pointers in a capsule of NumPy's."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(get(capsule, None), ctypes.POINTER(ctypes.c_void_p))  # type: ignore[return-value]


def symbols() -> dict[str, int]:
    """The addresses of what emitted code may call or compare with, by the names used in it."""
    python, numpy = ctypes.pythonapi, c_table(numpy_c._ARRAY_API)

    def address(function: Any) -> int:
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    return {
        "array_type": id(np.ndarray),
        "tuple_type": id(tuple),
        "float64_type": id(np.dtype(np.float64)),
        "float32_type": id(np.dtype(np.float32)),
        "int_type": id(int),
        "py_none": id(None),
        "py_one": id(1),
        "array_new": numpy[ARRAY_NEW],
        "array_set_base": numpy[SET_BASE],
        "object_new": address(python.PyType_GenericAlloc),
        "vectorcall": address(python.PyObject_Vectorcall),
        "incref": address(python.Py_IncRef),
        "decref": address(python.Py_DecRef),
        "int_value": address(python.PyLong_AsSsize_t),
        "error_clear": address(python.PyErr_Clear),
        "gil_release": address(python.PyEval_SaveThread),
        "gil_take": address(python.PyEval_RestoreThread),
        "scratch_new": address(python.PyMem_RawMalloc),
        "scratch_free": address(python.PyMem_RawFree),
    }


def linked(image: bytes, names: Sequence[str] = ("loop",)) -> Code:
    """An object file in memory, with the addresses of `names`."""
    return Code(image, names, symbols())
