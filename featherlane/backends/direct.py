"""One state without detours: a callable of CPython whose body is machine code.

A call of a ufunc costs a microsecond, more than the dynamics of an arm. `text` gives the LLVM IR of
a function with CPython's fast calling convention that looks at its arguments itself: if they are
contiguous NumPy arrays of exactly the right dtype and shape, it makes the results and runs the loop
for one state; in every other case it hands all on to a Python callable. The layout of NumPy's
arrays is fixed by its ABI; it is tested once, and without it (or on a Python without the lock that
protects these objects) nothing is built.
"""

from __future__ import annotations

import ctypes
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from featherlane.backends.ufunc import _numpy_c, c_table

# Offsets in an array object, from the definition of PyArrayObject_fields
_TYPE, _DATA, _NDIM, _DIMS, _STRIDES, _DTYPE, _FLAGS = 8, 16, 24, 32, 40, 56, 64
_ALIGNED_FLAG = 0x0100
_TUPLE_ITEMS = 24
_ARRAY_NEW = 93  # the place of PyArray_New in NumPy's table
_FASTCALL_WITH_KEYWORDS = 0x0080 | 0x0002


def _array_new() -> int:
    return c_table(_numpy_c._ARRAY_API)[_ARRAY_NEW]


@cache
def available() -> bool:
    """Whether arrays lie in memory as this file believes."""
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    sample = np.arange(6.0).reshape(2, 3)
    pair = _Self((sample, None))

    def word(offset: int, base: int = id(sample), kind: Any = ctypes.c_ssize_t) -> int:
        return kind.from_address(base + offset).value

    return (
        word(_TYPE) == id(np.ndarray)
        and word(_DATA) == sample.ctypes.data
        and word(_NDIM, kind=ctypes.c_int) == 2
        and [word(8 * k, word(_DIMS)) for k in range(2)] == [2, 3]
        and [word(8 * k, word(_STRIDES)) for k in range(2)] == [24, 8]
        and word(_DTYPE) == id(np.dtype(np.float64))
        and bool(word(_FLAGS, kind=ctypes.c_int) & _ALIGNED_FLAG)
        and word(_TUPLE_ITEMS, id(pair)) == id(sample)
        and _makes_arrays()
    )


def _makes_arrays() -> bool:
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        ctypes.py_object,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_int,
        *[ctypes.c_void_p] * 2,
        *[ctypes.c_int] * 2,
        ctypes.c_void_p,
    )(_array_new())
    shape = (ctypes.c_ssize_t * 2)(2, 3)
    made = make(
        np.ndarray, 2, ctypes.addressof(shape), np.dtype(np.float32).num, None, None, 0, 0, None
    )
    return made.shape == (2, 3) and made.dtype == np.float32 and made.flags.c_contiguous


def symbols() -> dict[str, int]:
    """The addresses that the code of `text` is linked with."""
    python = ctypes.pythonapi

    def address(function: Any) -> int:
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    return {
        "array_type": id(np.ndarray),
        "float64_type": id(np.dtype(np.float64)),
        "float32_type": id(np.dtype(np.float32)),
        "array_new": _array_new(),
        "vectorcall": address(python.PyObject_Vectorcall),
        "decref": address(python.Py_DecRef),
        "scratch_new": address(python.PyMem_RawMalloc),
        "scratch_free": address(python.PyMem_RawFree),
    }


def _contiguous(shape: Sequence[int], itemsize: int) -> list[int]:
    return [itemsize * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]


class _Text:
    """Lines of the function, with fresh names and a way to turn back."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%u{self.count}"

    def load(self, kind: str, base: str, offset: int) -> str:
        at, value = self.name(), self.name()
        self.lines.append(f"{at} = getelementptr inbounds i8, ptr {base}, i64 {offset}")
        self.lines.append(f"{value} = load {kind}, ptr {at}, align 4")
        return value

    def require(self, kind: str, value: str, wanted: str | int) -> None:
        test, label = self.name(), f"ok{self.count}"
        self.lines.append(f"{test} = icmp eq {kind} {value}, {wanted}")
        self.lines.append(f"br i1 {test}, label %{label}, label %pass_on")
        self.lines.append(f"{label}:")

    def array(self, argument: str, shape: Sequence[int], dtype: np.dtype) -> str:
        """The data of an argument, which must be a contiguous array of this shape and dtype."""
        self.require("ptr", self.load("ptr", argument, _TYPE), "@array_type")
        self.require("ptr", self.load("ptr", argument, _DTYPE), f"@{dtype.name}_type")
        self.require("i32", self.load("i32", argument, _NDIM), len(shape))
        for offset, wanted in ((_DIMS, shape), (_STRIDES, _contiguous(shape, dtype.itemsize))):
            list_at = self.load("ptr", argument, offset)
            for axis, number in enumerate(wanted):
                self.require("i64", self.load("i64", list_at, 8 * axis), number)
        flag = self.name()
        flags = self.load("i32", argument, _FLAGS)
        self.lines.append(f"{flag} = and i32 {flags}, {_ALIGNED_FLAG}")
        self.require("i32", flag, _ALIGNED_FLAG)
        return self.load("ptr", argument, _DATA)


def text(inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]], dtype: np.dtype) -> str:
    """The function @call, for a module that holds @loop."""
    t, dtype = _Text(), np.dtype(dtype)
    steps = [0] * (len(inputs) + len(outputs))
    for shape in (*inputs, *outputs):
        steps += _contiguous(shape, dtype.itemsize)
    t.require("ptr", "%keywords", "null")
    t.require("i64", "%count", len(inputs))
    data = [
        t.array(t.load("ptr", "%arguments", 8 * k), shape, dtype) for k, shape in enumerate(inputs)
    ]
    made: list[str] = []
    for k, shape in enumerate(outputs):
        array, failed = t.name(), t.name()
        t.lines.append(
            f"{array} = call ptr @array_new(ptr @array_type, i32 {len(shape)}, ptr @shape{k}, "
            f"i32 {dtype.num}, ptr null, ptr null, i32 0, i32 0, ptr null)"
        )
        t.lines += [
            f"{failed} = icmp eq ptr {array}, null",
            f"br i1 {failed}, label %fail{k}, label %made{k}",
        ]
        t.lines += [
            f"fail{k}:",
            *[f"call void @decref(ptr {other})" for other in made],
            "ret ptr null",
            f"made{k}:",
        ]
        made.append(array)
        data.append(t.load("ptr", array, _DATA))
    for k, pointer in enumerate(data):
        t.lines += [
            f"%to{k} = getelementptr inbounds ptr, ptr %pointers, i64 {k}",
            f"store ptr {pointer}, ptr %to{k}",
        ]
    t.lines.append("call void @loop(ptr %pointers, ptr @one, ptr @steps, ptr null)")
    if len(made) == 1:
        t.lines.append(f"ret ptr {made[0]}")
    else:
        for k, array in enumerate(made):
            t.lines += [
                f"%r{k} = getelementptr inbounds ptr, ptr %results, i64 {k}",
                f"store ptr {array}, ptr %r{k}",
            ]
        collect = t.load("ptr", "%self", _TUPLE_ITEMS + 8)
        t.lines.append(
            f"%all = call ptr @vectorcall(ptr {collect}, ptr %results, i64 {len(made)}, ptr null)"
        )
        t.lines += [f"call void @decref(ptr {array})" for array in made] + ["ret ptr %all"]
    t.lines.append("pass_on:")
    other = t.load("ptr", "%self", _TUPLE_ITEMS)
    t.lines.append(
        f"%passed = call ptr @vectorcall(ptr {other}, ptr %arguments, i64 %count, ptr %keywords)"
    )

    def numbers(values: Sequence[int]) -> str:
        return f"[{len(values)} x i64] [{', '.join(f'i64 {v}' for v in values)}]"

    constants = [
        f"@one = private constant {numbers([1])}",
        f"@steps = private constant {numbers(steps)}",
    ]
    constants += [
        f"@shape{k} = private constant {numbers(shape)}" for k, shape in enumerate(outputs)
    ]
    declared = [
        f"@{name} = external global i8" for name in ("array_type", "float64_type", "float32_type")
    ]
    declared += [
        "declare ptr @array_new(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)",
        "declare ptr @vectorcall(ptr, ptr, i64, ptr)",
        "declare void @decref(ptr)",
    ]
    head = [
        "define ptr @call(ptr %self, ptr %arguments, i64 %count, ptr %keywords) {",
        "entry:",
        f"%pointers = alloca [{len(data)} x ptr], align 8",
        f"%results = alloca [{len(made)} x ptr], align 8",
    ]
    return "\n".join([*constants, *declared, *head, *t.lines, "ret ptr %passed", "}", ""])


class _Self(tuple):
    """What @call finds as its self; a pickle of the callable becomes the method of the same name of
    the object that its Python twin belongs to.
    """

    __slots__ = ()

    def __reduce__(self) -> Any:
        owner = self[0].__self__
        return owner.__reduce__() if isinstance(owner, _Self) else (_itself, (owner,))


def _itself(x: Any) -> Any:
    return x


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def callable_at(
    address: int,
    name: str,
    doc: str,
    pass_on: Callable[..., Any],
    collect: Callable[..., Any],
    alive: object,
) -> Callable[..., Any]:
    """The Python callable of a compiled @call; it keeps `alive` alive."""
    definition = _MethodDef(name.encode(), address, _FASTCALL_WITH_KEYWORDS, doc.encode())
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p],
    )
    self = _Self((pass_on, collect, alive, definition))
    return make(ctypes.addressof(definition), self, None)
