"""Generalised ufuncs of NumPy, created at run time from the address of an inner loop.

One call of NumPy's C API through ctypes creates a ufunc. Broadcasting, strides, overlap and shape
errors are then NumPy's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from featherlane.backends.cpu.linked import c_table, numpy_c

# PyUFunc_FromFuncAndDataAndSignature in NumPy's table of its ufunc API, fixed by its ABI
_FROM_FUNC_AND_DATA_AND_SIGNATURE = 31
_NO_IDENTITY = -1


Shapes = Sequence[Sequence[int]]


def signature(inputs: Shapes, outputs: Shapes) -> str:
    """The core shapes as NumPy writes them: "(7),(7)->(7,7)"."""

    def shapes(side: Shapes) -> str:
        return ",".join("(" + ",".join(map(str, shape)) + ")" for shape in side)

    return f"{shapes(inputs)}->{shapes(outputs)}"


def gufunc(
    name: str, address: int, dtype: np.dtype, inputs: Shapes, outputs: Shapes
) -> tuple[np.ufunc, object]:
    """A generalised ufunc of one dtype, and an object that must live as long as it."""
    pointer, number, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
    kinds = *[pointer] * 3, *[number] * 4, *[text] * 2, number, text
    function = c_table(numpy_c._UFUNC_API)[_FROM_FUNC_AND_DATA_AND_SIGNATURE]
    create = ctypes.PYFUNCTYPE(ctypes.py_object, *kinds)(function)
    arrays = len(inputs) + len(outputs)
    loops, data = (ctypes.c_void_p * 1)(address), (ctypes.c_void_p * 1)(None)
    types = ctypes.create_string_buffer(bytes([np.dtype(dtype).num] * arrays))
    texts = name.encode(), b"", signature(inputs, outputs).encode()
    tables = ctypes.addressof(loops), ctypes.addressof(data), ctypes.addressof(types)
    counts = 1, len(inputs), len(outputs), _NO_IDENTITY
    ufunc = create(*tables, *counts, *texts[:2], 0, texts[2])
    return ufunc, (loops, data, types, texts)
