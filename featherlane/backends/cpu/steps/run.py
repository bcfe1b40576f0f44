"""Recorded calls as machine code: one program for each number of states."""

from __future__ import annotations

import ctypes
import hashlib
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from featherlane.backends import cache
from featherlane.backends.cpu.call.ufunc import gufunc
from featherlane.backends.cpu.linked import linked
from featherlane.backends.cpu.steps import encode, interpreter
from featherlane.backends.cpu.steps.batching import Layout, links
from featherlane.backends.cpu.steps.calls import CallList, call_list
from featherlane.backends.llvm import jit
from featherlane.program.graph import Graph, graph_key
from featherlane.program.lower import lower
from featherlane.program.program import Program
from featherlane.program.trace import no_garbage


class Running:
    """The calls of a program as machine code, in one dtype and layout."""

    def __init__(
        self, calls: CallList, graphs: Sequence[Graph], layout: Layout, dtype: np.dtype
    ) -> None:
        """graphs: of the functions, lowered for this dtype."""
        self.dtype = dtype
        with no_garbage():
            work = encode.work(calls, layout)
        codes = [c._replace(graph=graph) for c, graph in zip(work.codes, graphs, strict=True)]
        self.work = work = work._replace(codes=codes)
        inputs = [shape for _, shape in calls.inputs]
        outputs = [shape for shape, _ in calls.outputs]
        kinds = repr([(graph_key(code.graph), code.bases) for code in work.codes])
        key = hashlib.sha256(f"{kinds} {layout} {inputs} {outputs}".encode()).hexdigest()
        text = lambda: interpreter.source(work, inputs, outputs, dtype)
        make = lambda: jit.machine_code(text())
        image = cache.fetch(f"calls {key} {dtype} {jit.target()}", make)
        self.code = linked(image, ("loop", "work", "forget"))
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
        place = ctypes.c_int64 * len(interpreter.FILLED)
        place.from_address(self.code.place("work"))[:] = [given[k] for k in interpreter.FILLED]
        clear = ctypes.CFUNCTYPE(None)(self.code.place("forget"))
        weakref.finalize(self, forget, clear, self.code)


def forget(clear: Callable[[], None], alive: object) -> None:
    """Frees the memory of code that nobody has any more."""
    clear()


def block_length(links: int, dtype: Any) -> int:
    """The links of a block, of which every lane of a vector gets one; the first link is before all
    blocks.
    """
    return max(1, -(-(links - 1) // jit.widest(np.dtype(dtype))))


class Recorded:
    """A function of one robot in one dtype: an evaluator of arrays (..., *core shape).

    wide: whether calls that do not wait for each other fill the lanes that states leave; block: how
    many neighbouring links are then meant to be in one lane, by default `block_length`.
    """

    def __init__(
        self, program: Program, dtype: Any, wide: bool = False, block: int | None = None
    ) -> None:
        self.dtype, self.wide = np.dtype(dtype), wide
        self.inputs = list(program.inputs.values())
        self.outputs = [out.shape for out in program.outputs.values()]
        self.links = links(self.inputs)
        self.block = block or block_length(self.links, dtype)
        self.width = jit.widest(self.dtype)
        with no_garbage():
            self.calls = call_list(lower(program, "cpu steps", dtype))
        of_functions = [Program(function.graph) for function in self.calls.functions]
        self.graphs = [lower(function, "cpu", dtype).main for function in of_functions]
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
            made = Running(self.calls, self.graphs, layout, self.dtype)
            self._running.setdefault(states, made)
        return self._running[states]
