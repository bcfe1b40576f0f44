"""The memory layout of CPython's and NumPy's objects, and callables whose body is machine code.

The layouts of NumPy's arrays and of tuples are fixed by their ABIs. They are tested once; where
they differ (or on a Python without the lock that protects these objects), all calls go through
Python.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.cpu import native
from featherlane.backends.cpu.linked import (
    ARRAY_NEW,
    SET_BASE,
    c_table,
    numpy_c,
    python_function,
)
from featherlane.backends.llvm.records import packed, words

RANK = 4  # the most dimensions of one state's array
OPTIONS = ("out", "threads")  # an input of such a name is passed by position


class PyArrayObject(ctypes.Structure):
    """The fields of an array object, by NumPy's definition."""

    _fields_ = [
        ("ob_refcnt", ctypes.c_ssize_t),
        ("ob_type", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("nd", ctypes.c_int),
        ("dimensions", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("base", ctypes.c_void_p),
        ("descr", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    ]


# Bits of an array's flags, by NumPy's definition
NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE, NPY_ARRAY_WARN_ON_WRITE = 0x0100, 0x0400, 1 << 31
NPY_ARRAY_CARRAY = 0x0001 | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE


class PyTupleObject:
    """Bytes to the fields of a tuple; from Python 3.14 on the hash lies before the items."""

    OB_SIZE, OB_HASH, OB_ITEM = 16, 24, tuple.__basicsize__


OB_SVAL = bytes.__basicsize__ - 1  # bytes to the contents of a bytes object
LIST_ITEMS = 24  # bytes to the address of a list's items; its size lies where that of a tuple does
NUMBER = 16  # bytes to the value of a float, np.float64 and np.float32
HALF = 16  # bytes that the check of a quaternion reads at once
NPY_FLOAT, NPY_DOUBLE = np.dtype(np.float32).num, np.dtype(np.float64).num


# The record that the entry point compares the arguments of a function with: the numbers of arrays,
# the address and the number of their dtype, the loops for one state and for more, the states of the
# smallest call that has a loop, of the largest call for one thread and of the smallest call that
# releases the interpreter's lock, the number of strides of the loops, the offset of the records of
# the arrays, the addresses of `pool_ir`'s @share and of its SharedTask (0: larger calls go through
# Python), the most arguments by position, the number of all arguments, the number of the input
# that is a time step, -1 if none is, and the number of the input that has a quaternion, -1 if none
# has, with the bytes to its first half and from there to the second one (float32: 0). These words
# are followed by the strides, known except for the leading dimension, and by an ArrayRecord for
# each array.
CallTable = namedtuple(
    "CallTable",
    "inputs outputs dtype number single loop least most unlocked strides records share task "
    "taken places time_step turning quaternion half",
)
# An array of one state: its dimensions and bytes, the least bytes between states (0 for inputs,
# which may be the same for all), a mask of flags, and the values of these flags. These words are
# followed by the core shape and the strides of a contiguous array of that shape, RANK words each.
ArrayRecord = namedtuple("ArrayRecord", "ndim bytes least mask flags")
SHAPE, DENSE = words(ArrayRecord), words(ArrayRecord) + RANK
RECORD_WORDS = DENSE + RANK
_FASTCALL_WITH_KEYWORDS = 0x0080 | 0x0002


@cache
def available() -> bool:
    """Whether the objects of this interpreter have the layout of this file."""
    if ctypes.sizeof(ctypes.c_void_p) != 8 or native.free_threaded():
        return False
    known = _arrays_are_known, _tuples_are_known, _numbers_are_known
    return sys.implementation.name == "cpython" and all(is_known() for is_known in known)


def _arrays_are_known() -> bool:
    sample = np.arange(6.0).reshape(2, 3)
    fields = PyArrayObject.from_address(id(sample))
    return (
        (fields.ob_type, fields.data) == (id(np.ndarray), sample.ctypes.data)
        and (fields.base, fields.descr) == (id(sample.base), id(sample.dtype))
        and (fields.nd, fields.dimensions[:2], fields.strides[:2]) == (2, [2, 3], [24, 8])
        and fields.flags & NPY_ARRAY_CARRAY == NPY_ARRAY_CARRAY
        and _new_arrays_are_known(sample)
    )


def _new_arrays_are_known(memory: np.ndarray) -> bool:
    """Whether the functions of NumPy's table create a new array and a view of memory as
    expected.
    """
    table = c_table(numpy_c._ARRAY_API)
    pointer, number, thing = ctypes.c_void_p, ctypes.c_int, ctypes.py_object
    new = ctypes.PYFUNCTYPE(
        thing, thing, number, pointer, number, pointer, pointer, number, number, pointer
    )(table[ARRAY_NEW])
    set_base = ctypes.PYFUNCTYPE(number, thing, thing)(table[SET_BASE])
    sizes = (ctypes.c_ssize_t * 2)(2, 3)
    shape = ctypes.addressof(sizes)
    kind, data = np.dtype(np.float64).num, memory.ctypes.data
    fresh = new(np.ndarray, 2, shape, kind, None, None, 0, 0, None)
    view = new(np.ndarray, 2, shape, kind, None, data, 0, NPY_ARRAY_CARRAY, None)
    python_function("Py_IncRef", None, thing)(memory)  # the view takes this reference
    return (
        fresh.shape == (2, 3)
        and fresh.dtype == np.float64
        and fresh.flags.c_contiguous
        and set_base(view, memory) == 0
        and view.flags.writeable
        and view.base is not None
        and np.array_equal(view, memory)
    )


class _Pair(NamedTuple):
    first: object
    second: object


def _tuples_are_known() -> bool:
    pair, text = _Pair(object(), object()), b"16 bytes of text"
    thing = ctypes.py_object
    new = python_function("PyType_GenericAlloc", thing, thing, ctypes.c_ssize_t)
    empty, word = new(_Pair, 0), ctypes.c_ssize_t.from_address
    items = id(pair) + PyTupleObject.OB_ITEM
    return (
        word(id(pair) + PyTupleObject.OB_SIZE).value == 2
        and (word(items).value, word(items + 8).value) == (id(pair.first), id(pair.second))
        and type(empty) is _Pair
        and len(empty) == 0
        and ctypes.string_at(id(text) + OB_SVAL, len(text)) == text
    )


def _numbers_are_known() -> bool:
    """Whether lists and numbers lie in memory as expected."""
    listed = [object(), object()]
    word, double = ctypes.c_ssize_t.from_address, ctypes.c_double.from_address
    items = word(id(listed) + LIST_ITEMS).value
    python, numpy, single = 0.1, np.float64(0.2), np.float32(0.3)
    return (
        word(id(listed) + PyTupleObject.OB_SIZE).value == 2
        and (word(items).value, word(items + 8).value) == (id(listed[0]), id(listed[1]))
        and (double(id(python) + NUMBER).value, double(id(numpy) + NUMBER).value) == (0.1, 0.2)
        and ctypes.c_float.from_address(id(single) + NUMBER).value == float(single)
    )


class CallSpec(NamedTuple):
    """The specification of a callable: the arguments that it takes, and the loops that it runs."""

    single: int  # the address of the loop for one state; 0: such calls go to Python
    loop: int  # the address of the loop for more; 0: such calls go to Python
    dtype: np.dtype
    inputs: Sequence[tuple[int, ...]]
    outputs: Sequence[tuple[int, ...]]
    most: int  # states of the largest call for one thread; larger calls are shared or go to Python
    unlocked: int  # states of the smallest call that releases the interpreter's lock
    share: int = 0  # the address of `pool_ir`'s @share
    task: bytes = b""  # a SharedTask; none if larger calls go to Python
    shapes: Sequence[tuple[int, ...]] = ()  # of all arrays as the loops take them, if others
    by_position: int = 0  # options that may follow the inputs by position
    by_name: int = 0  # further options. All have chosen this callable, and are not read again
    time_step: int = -1  # the number of the input that is a time step
    quaternion: tuple[int, int] = (-1, 0)  # the number of an input, and the entry where one begins


def _dense(shape: Sequence[int], itemsize: int) -> list[int]:
    return [itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _array_words(shape: tuple[int, ...], itemsize: int, output: bool) -> list[int]:
    size, unused = itemsize * math.prod(shape), [0] * (RANK - len(shape))
    flags = NPY_ARRAY_ALIGNED | (NPY_ARRAY_WRITEABLE if output else 0)
    mask = flags | (NPY_ARRAY_WARN_ON_WRITE if output else 0)
    record = ArrayRecord(len(shape), size, size if output else 0, mask, flags)
    return [*record, *shape, *unused, *_dense(shape, itemsize), *unused]


def table(call: CallSpec) -> bytes:
    """The table of a call: a CallTable, the loop's strides, the records of the arrays."""
    shapes, size = [*call.inputs, *call.outputs], call.dtype.itemsize
    strides = [0] * len(shapes) + [
        s for shape in call.shapes or shapes for s in _dense(shape, size)
    ]
    counts = len(call.inputs), len(call.outputs)
    limits = 1 if call.single else 2, call.most if call.loop else 1, call.unlocked
    loop = id(call.dtype), call.dtype.num, call.single, call.loop, *limits
    shared = (call.share, id(call.task) + OB_SVAL) if call.task else (0, 0)
    records = words(CallTable) + len(strides)
    taken = len(call.inputs) + call.by_position
    arguments = taken, len(OPTIONS) + taken + call.by_name, call.time_step
    turning, entry = call.quaternion
    quaternion = turning, entry * size, 4 * size - HALF
    head = CallTable(*counts, *loop, len(strides), records, *shared, *arguments, *quaternion)
    arrays = (_array_words(x, size, k >= len(call.inputs)) for k, x in enumerate(shapes))
    return packed([*head, *strides, *chain(*arrays)])


class BoundSelf(NamedTuple):
    """The `self` of a callable: the Python callable for all other calls, the type in which several
    results are returned, the names of the options and inputs, the table, and an object that must
    outlive the callable.
    """

    pass_on: Callable[..., Any]
    packed: type[tuple]
    names: tuple[str, ...]
    table: bytes
    alive: object

    def __reduce__(self) -> Any:
        return reduced(self)


def reduced(bound: Any) -> Any:
    """Pickles the `self` of a callable as the owner of the Python method that it hands calls on to:
    the callable becomes the method of the same name.
    """
    owner = bound.pass_on.__self__
    is_bound = isinstance(owner, tuple) and hasattr(owner, "pass_on")
    return owner.__reduce__() if is_bound else (_identity, (owner,))


def _identity(x: Any) -> Any:
    return x


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def callable_of(
    call: CallSpec,
    entry: int,
    pass_on: Callable[..., Any],
    packed: type[tuple],
    *,
    name: str,
    doc: str,
    keywords: Sequence[str],
    alive: object,
) -> Callable[..., Any]:
    """The Python callable of a compiled loop.

    entry: the address of `vectorcall.source`'s @call; pass_on: the Python callable for the calls
    that the entry point does not serve; packed: the type in which several results are returned;
    keywords: the names of the inputs, if they may be passed by name; alive: an object that must
    outlive the callable.
    """
    names = tuple(map(sys.intern, (*OPTIONS, *keywords)))
    bound = BoundSelf(pass_on, packed, names, table(call), (alive, call.dtype))
    return builtin(name, entry, doc, bound)


def builtin(name: str, entry: int, doc: str, bound: Any) -> Callable[..., Any]:
    """The Python callable of an entry point, whose `self` is a named tuple that ends with what it
    keeps alive.
    """
    definition = _MethodDef(name.encode(), entry, _FASTCALL_WITH_KEYWORDS, doc.encode())
    pointer, thing = ctypes.c_void_p, ctypes.py_object
    new = python_function("PyCFunction_NewEx", thing, pointer, thing, pointer)
    kept = bound._replace(alive=(bound.alive, definition))
    return new(ctypes.addressof(definition), kept, None)
