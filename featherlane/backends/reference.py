"""The interpreter: it defines the results of a graph, to the bit. All backends are tested against
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.program.graph import Graph
from featherlane.program.op import OPS
from featherlane.program.program import GraphFunction, Program, X, Y

Array = Any
Functions = Sequence[GraphFunction]
DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def _dtype(dtype: Any) -> np.dtype[Any]:
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind not in DTYPES:
        raise TypeError(f"dtype is {kind}: wanted float64 or float32")
    return kind


def _check_names(graph: Graph, inputs: Mapping[str, Any]) -> None:
    takes = f"the graph takes {', '.join(graph.inputs) or 'none'}"
    if missing := [name for name in graph.inputs if name not in inputs]:
        raise ValueError(f"input {missing[0]!r} is missing: {takes}")
    if unknown := [name for name in inputs if name not in graph.inputs]:
        raise ValueError(f"input {unknown[0]!r} is unknown: {takes}")


def _split(name: str, x: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An input of shape (..., *shape) as (..., entries)."""
    if x.dtype.kind not in "fiu":
        raise TypeError(f"input {name!r} holds {x.dtype}: wanted real numbers")
    batch = x.shape[: max(x.ndim - len(shape), 0)]
    if x.shape != batch + shape:
        wanted = ", ".join(["...", *map(str, shape)])
        raise ValueError(f"input {name!r} has shape {x.shape}: wanted ({wanted})")
    return x.astype(dtype).reshape(*batch, math.prod(shape))


def _entries(graph: Graph, inputs: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Array]:
    _check_names(graph, inputs)
    with np.errstate(over="ignore"):  # a float64 beyond all float32 is infinite there
        return {
            name: _split(name, np.asarray(inputs[name]), shape, dtype)
            for name, shape in graph.inputs.items()
        }


def _batch(entries: Mapping[str, Array]) -> tuple[int, ...]:
    """The leading dimensions of all inputs, broadcast."""
    batches = {name: x.shape[:-1] for name, x in entries.items()}
    try:
        return np.broadcast_shapes(*batches.values())
    except ValueError:
        batches_of_inputs = ", ".join(f"{batch} of {name!r}" for name, batch in batches.items())
        wrong = "the leading dimensions of the inputs do not broadcast"
        raise ValueError(f"{wrong}: {batches_of_inputs}") from None


def _called(
    functions: Functions, number: int, operands: Sequence[Array], dtype: np.dtype[Any]
) -> Any:
    """The results of a function of these scalars."""
    graph = functions[number].graph
    entries = {X: np.stack(operands, -1) if operands else np.empty(0, dtype)}
    known = [values for _, values in _nodes(graph, entries, dtype, functions)][-1]
    return [known[k] for k in graph.outputs[Y].nodes]


def _nodes(
    graph: Graph, entries: Mapping[str, Array], dtype: np.dtype[Any], functions: Functions
) -> Iterator[tuple[int, list[Array]]]:
    """Yields each node's number with the list of values so far, which the caller may drop entries
    of.
    """
    known: list[Array] = []
    for k, (op, args, value) in enumerate(zip(graph.op, graph.args, graph.value, strict=True)):
        if op == "constant":
            known.append(dtype.type(value))
        elif op == "input":
            name, position = value
            known.append(entries[name][..., position])
        elif op == "call":
            operands = np.broadcast_arrays(*(known[a] for a in args)) if args else []
            known.append(_called(functions, value, operands, dtype))
        elif op == "result":
            known.append(known[args[0]][value])
        else:
            evaluate = OPS[op].evaluate
            assert evaluate is not None
            with np.errstate(all="ignore"):  # inf and NaN are results like others
                known.append(evaluate(*(known[a] for a in args)))
        yield k, known


def values(graph: Graph, inputs: Mapping[str, Any], dtype: Any = np.float64) -> list[Array]:
    """The value of every node, by its number: scalars or arrays that broadcast to the batch."""
    dtype = _dtype(dtype)
    entries = _entries(graph, inputs, dtype)
    _batch(entries)
    return [known[k] for k, known in _nodes(graph, entries, dtype, ())]


def evaluate(
    program: Graph | Program, inputs: Mapping[str, Any], dtype: Any = np.float64
) -> dict[str, Array]:
    """The outputs by name, each of shape (..., *shape), everything computed in `dtype`.

    inputs: an array of shape (..., *shape) for each input of the program, of which the leading
    dimensions broadcast. Raises ValueError or TypeError for an input that is missing, unknown, of
    another shape or not of real numbers.
    """
    dtype = _dtype(dtype)
    whole = program if isinstance(program, Program) else Program(program)
    graph, functions = whole.main, whole.functions
    entries = _entries(graph, inputs, dtype)
    batch = _batch(entries)
    results = {
        name: np.empty((*batch, len(out.nodes)), dtype) for name, out in graph.outputs.items()
    }
    last_use = {a: k for k, args in enumerate(graph.args) for a in args}
    entries_of: dict[int, list[Array]] = {}
    for name, out in graph.outputs.items():
        for i, k in enumerate(out.nodes):
            entries_of.setdefault(k, []).append(results[name][..., i : i + 1])
    for k, known in _nodes(graph, entries, dtype, functions):
        for entry in entries_of.get(k, ()):
            entry[..., 0] = known[k]
        for a in graph.args[k]:
            if last_use[a] == k:
                known[a] = None
    return {name: x.reshape(batch + graph.outputs[name].shape) for name, x in results.items()}
