"""Functions of long robots: an algorithm recorded as calls of few steps, and run as a program.

A graph of 2,000 links is more code than can be compiled or fetched. Recorded, it is some dozen
pieces of code, each as long as one link's step, and a list of what they are applied to.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from featherlane import cache
from featherlane.backends import calls as backend
from featherlane.backends import machine, programs
from featherlane.backends.lanes import Layout, links
from featherlane.backends.ufunc import gufunc
from featherlane.compiler import graph_key, input_shapes, lowered, scalar_function
from featherlane.functions import Variant
from featherlane.graph.calls import Calls, record
from featherlane.graph.prune import Pieces, prune
from featherlane.graph.routine import Program
from featherlane.model import Model
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


@contextmanager
def _no_garbage() -> Iterator[None]:
    """While many objects are made of which none is garbage: looking for some again and again would
    take longer than making them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def recorded(function: Callable[..., Any], inputs: Shapes) -> Calls:
    """The calls of a function of scalars."""
    with _no_garbage():
        return record(function, inputs, _listening)


class Running:
    """A recording as machine code, in one dtype and layout."""

    def __init__(self, calls: Calls, pieces: Pieces, layout: Layout, dtype: np.dtype) -> None:
        self.dtype = dtype
        with _no_garbage():
            self.work = work = programs.work(calls, pieces, layout)
        inputs = [shape for _, shape in calls.inputs.values()]
        outputs = [shape for shape, _ in calls.results.values()]
        codes = [
            code._replace(graph=lowered(Program(code.graph, []), dtype).main) for code in work.codes
        ]
        kinds = repr([(graph_key(code.graph), code.bases) for code in codes])
        key = hashlib.sha256(f"{kinds} {layout} {inputs} {outputs}".encode()).hexdigest()
        text = lambda: backend.source(work._replace(codes=codes), inputs, outputs, dtype)
        make = lambda: machine.machine_code(text())
        image = cache.fetch(f"calls {key} {dtype} {machine.target()}", make)
        self.code = machine.Code(image, ("loop", "work", "forget"))
        self._fill()
        self.ufunc, self._alive = gufunc("recorded", self.code.address, dtype, inputs, outputs)

    def _fill(self) -> None:
        """Hands the program to the code."""
        work = self.work
        start = np.zeros(work.size, self.dtype)
        for at, x in work.numbers.items():
            start[at : at + work.layout.width] = x
        constants = work.constants.astype(self.dtype)
        self._kept = constants, start
        of = lambda array: array.ctypes.data
        given = {
            "constants": of(constants),
            "program": of(work.program),
            "end": of(work.program) + work.program.nbytes,
            "given": of(work.given),
            "results": of(work.results),
            "bytes": start.nbytes,
            "start": of(start),
        }
        place = ctypes.c_int64 * len(backend.FILLED)
        place.from_address(self.code.place("work"))[:] = [given[k] for k in backend.FILLED]
        clear = ctypes.CFUNCTYPE(None)(self.code.place("forget"))
        weakref.finalize(self, forget, clear, self.code)


def forget(clear: Callable[[], None], alive: object) -> None:
    """Frees the memory of code that nobody has any more."""
    clear()


def block_length(links: int, dtype: Any) -> int:
    """The links of a block, of which every lane of a vector gets one; the first link is before all
    blocks.
    """
    return max(1, -(-(links - 1) // machine.widest(np.dtype(dtype))))


class Recorded:
    """A function of one robot in one dtype: an evaluator of arrays (..., *core shape).

    wide: whether calls that do not wait for each other fill the lanes that states leave; block: how
    many neighbouring links are then meant to be in one lane, by default `block_length`.
    """

    def __init__(
        self, calls: Calls, dtype: Any, wide: bool = False, block: int | None = None
    ) -> None:
        self.calls, self.dtype, self.wide = calls, np.dtype(dtype), wide
        self.links = links([shape for _, shape in calls.inputs.values()])
        self.block = block or block_length(self.links, dtype)
        self.inputs = [shape for _, shape in calls.inputs.values()]
        self.outputs = [shape for shape, _ in calls.results.values()]
        self.width = machine.widest(self.dtype)
        self.pieces = prune(calls)
        self._running: dict[int, Running] = {}

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        """As a generalised ufunc: leading dimensions broadcast."""
        batch = math.prod(out[0].shape[: out[0].ndim - len(self.outputs[0])])
        self.running(batch).ufunc(*arrays, out=tuple(out))

    @property
    def single(self) -> Running | None:
        """What runs single states, if it was needed."""
        return self._running.get(1)

    def running(self, batch: int) -> Running:
        """The code for so many states: with lanes for them alone, which take no more memory than
        they need, or with links in the others.
        """
        states = min(1 << max(batch - 1, 0).bit_length(), self.width)
        if states not in self._running:
            blocks = -(-self.links // self.block)
            span = self.block * -(-blocks * states // self.width)
            layout = Layout(self.width if self.wide else states, states, span)
            made = Running(self.calls, self.pieces, layout, self.dtype)
            self._running.setdefault(states, made)
        return self._running[states]


HALVED = 3  # leading binary digits of a length that are kept
WIDE = ("scan", "abia", "cfa", "dca")  # the methods that are parallel in the links
OPTIONS: dict[tuple[str, str], dict[str, Any]] = {  # what makes a recorded method faster
    ("inverse_dynamics", "scan"): {"together": True},  # transforms are composed once, not twice
    ("forward_dynamics", "cfa"): {"elimination": "cyclic_reduction"},
}


def recording(model: Model, variant: Variant, dtype: Any, **options: Any) -> Recorded:
    """One algorithm of a robot. options: further arguments of it."""
    wide, block = variant.method in WIDE, None
    if wide and "method" not in options:
        block = block_length(model.tree.nbodies, dtype)
        if variant.method == "cfa":
            block = _halving(block)
        options |= {"method": "reduce_then_scan", "block": block}
        options |= OPTIONS.get((variant.name, str(variant.method)), {})
    function = scalar_function(model, variant, **options)
    assert function is not None
    return Recorded(recorded(function, input_shapes(model, variant)), dtype, wide, block)


def _halving(block: int) -> int:
    """A length not much longer that can be halved often, as cyclic reduction does: else the links
    that are left are others in each lane.
    """
    step = 1 << max(block.bit_length() - HALVED, 0)
    return -(-block // step) * step
