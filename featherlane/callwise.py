"""Functions of long robots: an algorithm recorded as calls of few steps, and run as a program.

A graph of 2,000 links is more code than can be compiled or fetched. Recorded, it is some dozen
pieces of code, each as long as one link's step, and a list of what they are applied to.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
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
    """A recording as machine code, in one dtype and layout."""

    def __init__(self, calls: Calls, layout: Layout, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.work = work = backend.work(calls, layout)
        sizes = (
            [math.prod(shape) for _, shape in calls.inputs.values()],
            [math.prod(shape) for shape, _ in calls.results.values()],
        )
        codes = [
            code._replace(graph=lowered(Program(code.graph, []), self.dtype).main)
            for code in work.codes
        ]
        key = repr([(graph_key(code.graph), code.bases) for code in codes])
        name = hashlib.sha256(f"{key} {layout} {sizes}".encode()).hexdigest()
        text = lambda: backend.source(work._replace(codes=codes), sizes, self.dtype)
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


STREAMS = 2  # blocks of links in each lane: one computes while the other waits


def block_length(links: int, dtype: Any) -> int:
    """The links of a block, of which every lane of a vector gets a few."""
    return -(-links // (STREAMS * machine.widest(np.dtype(dtype))))


class Recorded:
    """A function of one robot in one dtype: an evaluator of arrays (..., *core shape).

    wide: whether calls that do not wait for each other fill the lanes that states leave; what reads
    neighbouring inputs is then meant to be cut in blocks of `block_length`.
    """

    def __init__(self, calls: Calls, dtype: Any, wide: bool = False) -> None:
        self.calls, self.dtype, self.wide = calls, np.dtype(dtype), wide
        self.inputs = [shape for _, shape in calls.inputs.values()]
        self.outputs = [shape for shape, _ in calls.results.values()]
        self.width = machine.widest(self.dtype)
        self._running: dict[int, Running] = {}

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        """As a generalised ufunc: leading dimensions broadcast."""
        lead = out[0].shape[: out[0].ndim - len(self.outputs[0])]
        given = [_rows(x, lead, core) for x, core in zip(arrays, self.inputs, strict=True)]
        made = [_rows(x, lead, core) for x, core in zip(out, self.outputs, strict=True)]
        if any(np.may_share_memory(x, y) for x in given for y in made):
            given = [x.copy() for x in given]
        if len(made[0]):
            self.running(len(made[0]))(given, made)
        for x, y in zip(out, made, strict=True):
            if not np.may_share_memory(x, y):
                x[...] = y.reshape(x.shape)

    def running(self, batch: int) -> Running:
        """The code for so many states."""
        states = min(1 << (batch - 1).bit_length(), self.width) if self.wide else self.width
        if states not in self._running:
            links = min(map(math.prod, self.inputs))
            span = block_length(links, self.dtype) * STREAMS * states
            made = Running(self.calls, Layout(self.width, states, span), self.dtype)
            self._running.setdefault(states, made)
        return self._running[states]


def _rows(x: np.ndarray, lead: tuple[int, ...], core: tuple[int, ...]) -> np.ndarray:
    """(states, entries), the entries beside each other: a view where that can be."""
    rows = np.broadcast_to(x, lead + core) if x.shape != lead + core else x
    rows = rows.reshape(math.prod(lead), math.prod(core))
    return rows if rows.strides[1] == x.itemsize else np.ascontiguousarray(rows)
