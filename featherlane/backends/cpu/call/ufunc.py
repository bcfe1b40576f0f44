"""Generalised ufuncs of NumPy made at run time, from the address of an inner loop.

NumPy's C API is a table of pointers in a capsule; one call of it through ctypes makes a ufunc, so
that the package needs no extension module of its own. Broadcasting, strides, overlap and shape
errors are then NumPy's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from featherlane.backends.cpu.linked import c_table, numpy_c

_FROM_FUNC_AND_DATA_AND_SIGNATURE = 31  # its place in NumPy's ufunc table, fixed by NumPy's ABI
_NO_IDENTITY = -1


def signature(inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]) -> str:
    def shapes(all_of: Sequence[Sequence[int]]) -> str:
        return ",".join("(" + ",".join(map(str, shape)) + ")" for shape in all_of)

    return f"{shapes(inputs)}->{shapes(outputs)}"


def gufunc(
    name: str,
    address: int,
    dtype: np.dtype,
    inputs: Sequence[Sequence[int]],
    outputs: Sequence[Sequence[int]],
) -> tuple[np.ufunc, object]:
    """A generalised ufunc of one dtype, and what must be kept alive as long as it."""
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        *[ctypes.c_void_p] * 3,
        *[ctypes.c_int] * 4,
        *[ctypes.c_char_p] * 2,
        ctypes.c_int,
        ctypes.c_char_p,
    )(c_table(numpy_c._UFUNC_API)[_FROM_FUNC_AND_DATA_AND_SIGNATURE])
    count = len(inputs) + len(outputs)
    loops, data = (ctypes.c_void_p * 1)(address), (ctypes.c_void_p * 1)(None)
    types = ctypes.create_string_buffer(bytes([np.dtype(dtype).num] * count))
    texts = name.encode(), b"", signature(inputs, outputs).encode()
    made = make(
        ctypes.addressof(loops),
        ctypes.addressof(data),
        ctypes.addressof(types),
        1,
        len(inputs),
        len(outputs),
        _NO_IDENTITY,
        texts[0],
        texts[1],
        0,
        texts[2],
    )
    return made, (loops, data, types, texts)
