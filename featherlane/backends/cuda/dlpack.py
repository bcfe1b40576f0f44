"""Arrays by the DLPack protocol: where the numbers of another package's array lie on a device.

Structures are those of dlpack.h, version 1.0 and the ones before. A capsule is only looked at and
never taken over: the array stays its owner's, who frees it when the capsule is dropped.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

CUDA, MANAGED = 2, 13  # kDLCUDA, kDLCUDAManaged
VERSION = (1, 0)  # the newest that is read; its minor versions only add
READ_ONLY = 1  # a flag of the versioned structure
KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}  # DLDataTypeCode


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


class DeviceArray(NamedTuple):
    """An array on a device. strides: in bytes, None in C order; capsule: what keeps it alive."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: np.dtype
    device: int
    writable: bool
    capsule: object


_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def read(value: Any, stream: int) -> DeviceArray:
    """Reads an array on a device; its package makes the stream wait until its numbers are there.

    Raises TypeError for capsules and dtypes that are not known.
    """
    try:
        capsule = value.__dlpack__(stream=stream, max_version=VERSION)
    except TypeError:  # a package that knows no versions
        capsule = value.__dlpack__(stream=stream)
    if _is_valid(capsule, b"dltensor_versioned"):
        whole = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if whole.major != VERSION[0]:
            raise TypeError(f"its DLPack version is {whole.major}.{whole.minor}, wanted 1")
        tensor, writable = whole.tensor, not whole.flags & READ_ONLY
    elif _is_valid(capsule, b"dltensor"):
        tensor, writable = _Tensor.from_address(_pointer(capsule, b"dltensor")), True
    else:
        raise TypeError("__dlpack__ gave no DLPack capsule")
    shape = tuple(tensor.shape[: tensor.dimensions])
    size, strides = tensor.bits // 8, None
    if tensor.strides:
        strides = tuple(size * stride for stride in tensor.strides[: tensor.dimensions])
    address, device = tensor.data + tensor.offset, tensor.device
    return DeviceArray(address, shape, strides, _dtype(tensor), device, writable, capsule)


def _dtype(tensor: _Tensor) -> np.dtype:
    kind, bits = KINDS.get(tensor.code), tensor.bits
    if kind is None or tensor.lanes != 1 or bits % 8:
        layout = f"code {tensor.code}, {bits} bits, {tensor.lanes} lanes"
        raise TypeError(f"its dtype in DLPack is {layout}: wanted float32 or float64")
    return np.dtype(f"{kind}{bits // 8}")
