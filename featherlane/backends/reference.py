"""The interpreter: what a graph means, to the bit. Every other backend is tested against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from featherlane.graph.graph import Graph
from featherlane.graph.op import OPS

Array = Any
DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def _dtype(dtype: Any) -> np.dtype[Any]:
    if np.dtype(dtype) not in DTYPES:
        raise TypeError(f"a graph was to be evaluated in {np.dtype(dtype)}: wanted float64 or float32")
    return np.dtype(dtype)


def _entries(graph: Graph, inputs: Mapping[str, Any], dtype: np.dtype[Any]) -> tuple[dict[str, Array], tuple[int, ...]]:
    """Each input as (..., entries), and the batch: the leading dimensions of all inputs, broadcast."""
    if missing := graph.inputs.keys() - inputs.keys():
        raise ValueError(f"input {min(missing)!r} is missing: the graph has {', '.join(graph.inputs)}")
    if unknown := inputs.keys() - graph.inputs.keys():
        raise ValueError(f"input {min(unknown)!r} is unknown: the graph has {', '.join(graph.inputs) or 'none'}")
    entries, batches = {}, {}
    for name, shape in graph.inputs.items():
        x = np.asarray(inputs[name])
        if x.dtype.kind not in "fiu":
            raise TypeError(f"input {name!r} holds {x.dtype}: wanted real numbers")
        split = x.ndim - len(shape)
        if split < 0 or x.shape[split:] != shape:
            wanted = ", ".join(["...", *map(str, shape)])
            raise ValueError(f"input {name!r} has shape {x.shape}: wanted ({wanted})")
        batches[name] = x.shape[:split]
        entries[name] = x.astype(dtype).reshape(*batches[name], -1 if x.size else int(np.prod(shape)))
    try:
        return entries, np.broadcast_shapes(*batches.values())
    except ValueError:
        given = ", ".join(f"{batch} of {name!r}" for name, batch in batches.items())
        raise ValueError(f"the leading dimensions of the inputs do not broadcast: {given}") from None


def _nodes(graph: Graph, entries: Mapping[str, Array], dtype: np.dtype[Any]) -> Iterator[tuple[int, list[Array]]]:
    """Each node's number in turn, with the list of the values so far: it may be cleared of those not wanted."""
    known: list[Array] = []
    for k, (op, args, value) in enumerate(zip(graph.op, graph.args, graph.value, strict=True)):
        if op == "constant":
            known.append(dtype.type(value))
        elif op == "input":
            name, position = value
            known.append(entries[name][..., position])
        else:
            evaluate = OPS[op].evaluate
            assert evaluate is not None
            with np.errstate(all="ignore"):  # inf and NaN are results like others
                known.append(evaluate(*(known[a] for a in args)))
        yield k, known


def values(graph: Graph, inputs: Mapping[str, Any], dtype: Any = np.float64) -> list[Array]:
    """The value of every node by its number, as scalars or arrays that broadcast to the batch: for debugging."""
    dtype = _dtype(dtype)
    entries, _ = _entries(graph, inputs, dtype)
    known: list[Array] = []
    for _, known in _nodes(graph, entries, dtype):
        pass
    return known


def evaluate(graph: Graph, inputs: Mapping[str, Any], dtype: Any = np.float64) -> dict[str, Array]:
    """The outputs by name, each of shape (..., *shape) and of `dtype`, in which everything is computed.

    inputs: for each input of the graph an array of shape (..., *shape); the leading dimensions broadcast.
    Raises ValueError or TypeError for an input that is missing, unknown, of another shape, or not of real numbers.
    """
    dtype = _dtype(dtype)
    entries, batch = _entries(graph, inputs, dtype)
    last_use = [0] * len(graph)
    for k, args in enumerate(graph.args):
        for a in args:
            last_use[a] = k
    wanted = {k for out in graph.outputs.values() for k in out.nodes}
    known: list[Array] = []
    for k, known in _nodes(graph, entries, dtype):
        for a in graph.args[k]:
            if last_use[a] == k and a not in wanted:
                known[a] = None
    results = {}
    for name, out in graph.outputs.items():
        result = results[name] = np.empty((*batch, len(out.nodes)), dtype)
        for i, k in enumerate(out.nodes):
            result[..., i] = known[k]
        results[name] = result.reshape(*batch, *out.shape)
    return results
