"""`featherlane.compile`: your own functions of arrays, compiled for batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.backends.cpu.compile import Kernel, compile_program
from featherlane.backends.cpu.threads.share import Evaluator
from featherlane.functions.device_copies import copied
from featherlane.functions.function import Function, KernelsByDtype
from featherlane.functions.gpu import OnGPU
from featherlane.functions.results import named_results
from featherlane.program.array import trace
from featherlane.program.graph import Graph, Output, graph_key
from featherlane.program.program import Program
from featherlane.program.rewrite import simplify

MATRIX = 2  # dimensions that kernels take


def compile(
    function: Callable[..., Any] | Graph,
    inputs: Mapping[str, Any] | None = None,
    *,
    width: int | None = None,
    device: str | None = None,
    mapping: str | None = None,
) -> Function:
    """Compiles your own function of arrays, or a graph, to a batched `Function`.

    Several results are returned as a named tuple with the names of the outputs. A pickle of the
    result contains the graph, not the Python function. Raises TypeError or ValueError as `trace`
    does, and for shapes with a dimension of 0.

    Arguments:
        function: a function of arrays, as in `trace`, or a traced or differentiated graph
        inputs: {name: shape} of the function; None: those of the graph
        width: lanes of a vector; None: as many as the processor has
        device: "cpu", "cuda" or, if there are several, "cuda:1"; None: where arrays are
        mapping: "lanes", "team:4" or "links:8": how states are mapped to a GPU; None: the fastest

    Examples:
        >>> reach = fl.compile(lambda q: arm.center_of_mass(q)[2], {"q": 2})
        >>> reach(np.zeros((1000, 2))).shape
        (1000,)
    """
    if isinstance(function, Graph):
        graph, name = simplify(function), "graph"
    elif inputs is None:
        raise TypeError(
            "inputs is missing: name the shape of each argument, as in {'q': 7, 'A': (3, 3)}"
        )
    else:
        graph, name = simplify(trace(function, inputs)), getattr(function, "__name__", "function")
    return copied(_of_graph(graph, name, width).mapped(mapping), device)


def _of_graph(graph: Graph, name: str, width: int | None) -> Function:
    outputs = {k: out.shape for k, out in graph.outputs.items()}
    for kind, sizes in (("input", graph.inputs), ("output", outputs)):
        for which, shape in sizes.items():
            if 0 in shape:
                raise ValueError(f"{kind} {which!r} has shape {shape}: wanted no dimension of 0")
    key, program = graph_key(graph), Program(graph)
    deep = any(len(shape) > MATRIX for shape in (*graph.inputs.values(), *outputs.values()))
    origin = _of_graph, (graph, name, width)

    def kernel(dtype: np.dtype) -> Kernel | Evaluator:
        if deep:
            return _Reshaped(graph, width)
        return compile_program(lambda: program, key, dtype, width)

    collect, shapes = named_results(tuple(outputs)), (graph.inputs, outputs)
    kernels = KernelsByDtype(kernel, lambda: graph, OnGPU(key, lambda: program))
    return Function(name, *shapes, kernels, collect, origin=origin)


class _Reshaped:
    """An evaluator of a graph with arrays of three dimensions or more: the kernel of the function
    `flat` has them flat. Machine code calls it for arrays whose entries lie one after another.
    """

    def __init__(self, graph: Graph, width: int | None) -> None:
        self.inputs = [*graph.inputs.values()]
        flat = graph.replaced(
            inputs={name: _flat(shape) for name, shape in graph.inputs.items()},
            outputs={name: Output(_flat(shape), k) for name, (shape, k) in graph.outputs.items()},
        )
        self.outputs = [shape for shape, _ in graph.outputs.values()]
        self.flat = _of_graph(flat, "flat", width)

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        inputs = [_reshaped(x, shape) for x, shape in zip(arrays, self.inputs, strict=True)]
        results = [_reshaped(x, shape) for x, shape in zip(out, self.outputs, strict=True)]
        self.flat(*inputs, out=results, threads=1)
        for x, result in zip(out, results, strict=True):
            if not np.may_share_memory(x, result):  # a copy, where no view has this shape
                x[...] = result.reshape(x.shape)


def _flat(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if len(shape) <= MATRIX else (math.prod(shape),)


def _reshaped(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return x.reshape(x.shape[: x.ndim - len(shape)] + _flat(shape))
