"""Dynamics of long robots: an algorithm recorded as calls of few steps, and run as a program.

A graph of 2,000 links is more code than can be compiled or fetched. Recorded, it is some dozen
pieces of code, each as long as one link's step, and a list of what they are applied to.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from featherlane import cache
from featherlane.backends import calls as backend
from featherlane.backends import machine
from featherlane.backends.lanes import Layout
from featherlane.compiler import graph_key, lowered
from featherlane.function import aligned
from featherlane.graph.calls import Calls, record
from featherlane.graph.routine import Program
from featherlane.walk import on_call

Shapes = Mapping[str, tuple[int, ...]]


@contextmanager
def _listening(call: Callable[..., Any]) -> Iterator[None]:
    """While an algorithm is recorded; the steps inside a step belong to it."""

    def outermost(function: Callable[..., Any], *arguments: Any) -> Any:
        inside = on_call.set(None)
        try:
            return call(function, *arguments)
        finally:
            on_call.reset(inside)

    token = on_call.set(outermost)
    try:
        yield
    finally:
        on_call.reset(token)


def recorded(function: Callable[..., Any], inputs: Shapes) -> Calls:
    """The calls of a function of scalars."""
    return record(function, inputs, _listening)


class Running:
    """A recording as machine code, in one dtype and layout: (*arrays, out=) on rows."""

    def __init__(self, calls: Calls, layout: Layout, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.work = work = backend.work(calls, layout)
        sizes = [
            [int(np.prod(shape)) for _, shape in part.values()]
            for part in (calls.inputs, {k: (0, shape) for k, (shape, _) in calls.results.items()})
        ]
        codes = [
            code._replace(graph=lowered(Program(code.graph, []), self.dtype).main)
            for code in work.codes
        ]
        key = repr([(graph_key(code.graph), code.bases) for code in codes])
        name = hashlib.sha256(f"{key} {layout} {sizes}".encode()).hexdigest()
        text = lambda: backend.source(work._replace(codes=codes), tuple(sizes), self.dtype)
        make = lambda: machine.machine_code(text())
        image = cache.fetch(f"calls {name} {self.dtype} {machine.target()}", make)
        self.code = machine.Code(image, ("loop",))
        given = [ctypes.c_void_p] * 6 + [ctypes.c_int64]
        self._loop: Any = ctypes.CFUNCTYPE(None, *given)(self.code.address)  # releases the GIL
        self._constants = aligned(work.constants.shape, self.dtype)
        self._constants[...] = work.constants
        self._memory = threading.local()
        start = work.program.ctypes.data
        self._fixed = (
            self._constants.ctypes.data,
            start,
            start + work.program.nbytes,
            work.results.ctypes.data,
        )

    def __call__(self, arrays: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> None:
        """arrays and out: (states, entries) of the dtype, entries beside each other."""
        memory = self._own_memory()
        given = np.array(
            [x for a in (*arrays, *out) for x in (_address(a), a.strides[0])], np.int64
        )
        self._loop(memory, *self._fixed, _address(given), len(arrays[0]))

    def _own_memory(self) -> int:
        """That of this thread, kept: fresh pages cost as much as the computation."""
        if not hasattr(self._memory, "array"):
            array = aligned((self.work.size,), self.dtype)
            array[...] = 0.0
            for at, x in self.work.numbers.items():
                array[at : at + self.work.layout.width] = x
            self._memory.array, self._memory.address = array, array.ctypes.data
        return self._memory.address


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
