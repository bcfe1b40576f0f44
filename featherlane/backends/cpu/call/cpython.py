"""How CPython's and NumPy's objects lie in memory, and callables whose body is machine code.

The layout of NumPy's arrays and of tuples is fixed by their ABI. It is tested once, and without it
(or on a Python without the lock that protects these objects) all calls go through Python.
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.cpu.linked import ARRAY_NEW, SET_BASE, c_table, numpy_c

RANK = 4  # dimensions of one state's array at most


class Array:
    """Offsets in an array object, from the definition of PyArrayObject_fields."""

    TYPE, DATA, NDIM, DIMS, STRIDES, BASE, DTYPE, FLAGS = 8, 16, 24, 32, 40, 48, 56, 64


class Flag:
    """Bits of the flags of an array."""

    ALIGNED, WRITEABLE, WARN_ON_WRITE = 0x0100, 0x0400, 1 << 31
    CARRAY = 0x0001 | ALIGNED | WRITEABLE


class Tuple:
    """Offsets in a tuple; where there is room before the items, the hash is kept there."""

    SIZE, HASH, ITEMS = 16, 24, tuple.__basicsize__


class Self:
    """Items of the tuple that a callable is bound to, and where the bytes of one of them begin."""

    PASS_ON, PACKED, NAMES, TABLE = range(4)
    BYTES = bytes.__basicsize__ - 1


class Head:
    """Words of a function's table; behind them are `STRIDES` words for the loop's strides, which
    are known up to those of the leading dimension, and a record for each array. `TASK` is null, or
    what `SHARE` takes as the data of a loop.
    """

    INPUTS, OUTPUTS, DTYPE, NUMBER, LOOP, MOST, UNLOCKED, STRIDES, RECORDS = range(9)
    SHARE, TASK, SIZE = range(9, 12)


class Record:
    """Words that describe one array: `FLAGS` are wanted among those in `MASK`, `LEAST` bytes lie
    between states.
    """

    NDIM, BYTES, LEAST, MASK, FLAGS, SHAPE = range(6)
    DENSE = SHAPE + RANK
    SIZE = DENSE + RANK


_FASTCALL_WITH_KEYWORDS = 0x0080 | 0x0002


def _array_new() -> int:
    return c_table(numpy_c._ARRAY_API)[ARRAY_NEW]


@cache
def available() -> bool:
    """Whether objects lie in memory as this file believes."""
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    return sys.implementation.name == "cpython" and _arrays_are_known() and _tuples_are_known()


def _word(base: int, offset: int, kind: Any = ctypes.c_ssize_t) -> int:
    return kind.from_address(base + offset).value


def _arrays_are_known() -> bool:
    sample = np.arange(6.0).reshape(2, 3)
    at = id(sample)
    words = {
        Array.TYPE: id(np.ndarray),
        Array.DATA: sample.ctypes.data,
        Array.BASE: id(sample.base),
        Array.DTYPE: id(np.dtype(np.float64)),
    }
    return (
        all(_word(at, offset) == wanted for offset, wanted in words.items())
        and _word(at, Array.NDIM, ctypes.c_int) == 2
        and [_word(_word(at, Array.DIMS), 8 * k) for k in range(2)] == [2, 3]
        and [_word(_word(at, Array.STRIDES), 8 * k) for k in range(2)] == [24, 8]
        and _word(at, Array.FLAGS, ctypes.c_int) & Flag.CARRAY == Flag.CARRAY
        and _arrays_are_made(sample)
    )


def _arrays_are_made(memory: np.ndarray) -> bool:
    table = c_table(numpy_c._ARRAY_API)
    pointer, number, thing = ctypes.c_void_p, ctypes.c_int, ctypes.py_object
    make = ctypes.PYFUNCTYPE(
        thing, thing, number, pointer, number, pointer, pointer, number, number, pointer
    )(table[ARRAY_NEW])
    sizes = (ctypes.c_ssize_t * 2)(2, 3)
    shape = ctypes.addressof(sizes)
    kind, data = np.dtype(np.float64).num, memory.ctypes.data
    fresh = make(np.ndarray, 2, shape, kind, None, None, 0, 0, None)
    view = make(np.ndarray, 2, shape, kind, None, data, 0, Flag.CARRAY, None)
    keep = ctypes.PYFUNCTYPE(number, thing, thing)(table[SET_BASE])
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))  # which the view takes
    return (
        fresh.shape == (2, 3)
        and fresh.dtype == np.float64
        and fresh.flags.c_contiguous
        and keep(view, memory) == 0
        and view.flags.writeable
        and view.base is not None
        and np.array_equal(view, memory)
    )


class _Pair(NamedTuple):
    first: object
    second: object


def _tuples_are_known() -> bool:
    pair, text = _Pair(object(), object()), b"16 bytes of text"
    make = ctypes.pythonapi.PyType_GenericAlloc
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_ssize_t]
    none = make(_Pair, 0)
    return (
        _word(id(pair), Tuple.SIZE) == 2
        and _word(id(pair), Tuple.ITEMS) == id(pair.first)
        and _word(id(pair), Tuple.ITEMS + 8) == id(pair.second)
        and type(none) is _Pair
        and len(none) == 0
        and ctypes.string_at(id(text) + Self.BYTES, len(text)) == text
    )


class Call(NamedTuple):
    """What a callable compares its arguments with, and the loop that it runs."""

    loop: int  # an address
    dtype: np.dtype
    inputs: Sequence[tuple[int, ...]]
    outputs: Sequence[tuple[int, ...]]
    most: int  # states of a call for one thread; those with more are shared or handed on
    unlocked: int  # states from which on the interpreter's lock is given to others meanwhile
    share: int = 0  # the address of `team.source`'s @share
    task: bytes = b""  # what it shares; none if calls with more states are handed on


def _dense(shape: Sequence[int], itemsize: int) -> list[int]:
    return [itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _record(shape: tuple[int, ...], itemsize: int, output: bool) -> list[int]:
    size, spare = itemsize * math.prod(shape), [0] * (RANK - len(shape))
    flags = Flag.ALIGNED | (Flag.WRITEABLE if output else 0)
    mask = flags | (Flag.WARN_ON_WRITE if output else 0)
    start = [len(shape), size, size if output else 0, mask, flags]
    return [*start, *shape, *spare, *_dense(shape, itemsize), *spare]


def table(call: Call) -> bytes:
    """A call as the front reads it, see `Head`."""
    shapes, size = [*call.inputs, *call.outputs], call.dtype.itemsize
    strides = [0] * len(shapes) + [s for shape in shapes for s in _dense(shape, size)]
    words = [0] * Head.SIZE
    words[Head.INPUTS], words[Head.OUTPUTS] = len(call.inputs), len(call.outputs)
    words[Head.DTYPE], words[Head.NUMBER] = id(call.dtype), call.dtype.num
    words[Head.LOOP], words[Head.MOST], words[Head.UNLOCKED] = call.loop, call.most, call.unlocked
    if call.task:
        words[Head.SHARE], words[Head.TASK] = call.share, id(call.task) + Self.BYTES
    words[Head.STRIDES], words[Head.RECORDS] = len(strides), Head.SIZE + len(strides)
    words += strides
    for k, shape in enumerate(shapes):
        words += _record(shape, size, k >= len(call.inputs))
    return struct.pack(f"{len(words)}q", *words)


class _Self(tuple):
    """What the front finds as its self; a pickle of the callable becomes the method of the same
    name of the object that its Python twin belongs to.
    """

    __slots__ = ()

    def __reduce__(self) -> Any:
        owner = self[Self.PASS_ON].__self__
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


def callable_of(
    call: Call,
    front: int,
    pass_on: Callable[..., Any],
    packed: type[tuple],
    *,
    name: str,
    doc: str,
    keywords: Sequence[str],
    alive: object,
) -> Callable[..., Any]:
    """The Python callable of a compiled loop.

    front: the address of `front.source`'s @call. pass_on: gets all calls that are nothing for it.
    packed: what several results are returned in. keywords: the inputs by name, if they may be given
    so. alive: is kept alive.
    """
    definition = _MethodDef(name.encode(), front, _FASTCALL_WITH_KEYWORDS, doc.encode())
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p],
    )
    names = tuple(map(sys.intern, ("out", "threads", *keywords)))
    self = _Self((pass_on, packed, names, table(call), (alive, call.dtype, definition)))
    return make(ctypes.addressof(definition), self, None)
