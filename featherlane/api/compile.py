"""`featherlane.compile`: your own functions of arrays, compiled for batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from featherlane.backends.cpu.compile import compile_program
from featherlane.functions.function import Function
from featherlane.functions.results import named_results
from featherlane.program.array import trace
from featherlane.program.graph import Graph, graph_key, simplify
from featherlane.program.program import Program


def compile_function(
    function: Callable[..., Any] | Graph,
    inputs: Mapping[str, Any] | None = None,
    *,
    width: int | None = None,
) -> Function:
    """Compiles your own function of arrays, or a graph, to a batched `Function`.

    function: as in `trace`, with `inputs` giving the shape of each argument by name; or a traced
    (or differentiated) Graph. Several results come in a named tuple, with the names of the outputs.
    width: lanes of a vector, by default the processor's most. A pickle of the result contains the
    graph, not the Python function.
    """
    if isinstance(function, Graph):
        graph, name = simplify(function), "graph"
    elif inputs is None:
        raise TypeError(
            "inputs is missing: name the shape of each argument, as in {'q': 7, 'A': (3, 3)}"
        )
    else:
        graph, name = simplify(trace(function, inputs)), getattr(function, "__name__", "function")
    return _of_graph(graph, name, width)


def _of_graph(graph: Graph, name: str, width: int | None) -> Function:
    outputs = {k: out.shape for k, out in graph.outputs.items()}
    for kind, sizes in (("input", graph.inputs), ("output", outputs)):
        for which, shape in sizes.items():
            if 0 in shape or len(shape) > 2:
                wanted = "wanted up to two dimensions, none of them 0"
                raise ValueError(f"{kind} {which!r} has shape {shape}: {wanted}")
    key, program = graph_key(graph), Program(graph)
    kernel = lambda dtype: compile_program(lambda: program, key, dtype, width)
    origin = _of_graph, (graph, name, width)
    collect = named_results(tuple(outputs))
    return Function(name, graph.inputs, outputs, kernel, collect, origin=origin, graph=lambda: graph)
