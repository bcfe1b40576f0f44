"""Words of the streams: integers packed into bits and back, and as text that test benches read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.netlist import Field, constant_integer
from featherlane.program.graph import Graph

Array = Any
Entry = tuple[str, int]  # the name of an input or output, and the position in it


def packed(values: Array, fields: Sequence[tuple[int, int]]) -> Array:
    """Words as bytes, the last place first: (states, bytes) for values (states, fields), whole 32
    bits each. fields: width and offset of each, in bits.
    """
    values = np.asarray(values, np.int64)
    size = max((width + offset for width, offset in fields), default=1)
    bits = np.zeros((len(values), -(-size // 32) * 32), np.uint8)
    for n, (width, offset) in enumerate(fields):
        places = np.arange(width)
        bits[:, offset : offset + width] = values[:, n, None] >> places & 1
    return np.packbits(bits, axis=1, bitorder="little")


def unpacked(words: Array, fields: Sequence[tuple[int, int]]) -> Array:
    """Signed integers (states, fields) of words as bytes."""
    bits = np.unpackbits(words, axis=1, bitorder="little").astype(np.int64)
    values = np.empty((len(words), len(fields)), np.int64)
    for n, (width, offset) in enumerate(fields):
        weights = np.left_shift(1, np.arange(width))
        weights[-1] = -weights[-1]  # the sign
        values[:, n] = bits[:, offset : offset + width] @ weights
    return values


def hexadecimal(words: Array, bits: int) -> str:
    """Words as bytes in lines of digits, for $readmemh. bits: those of a word."""
    digits = -(-bits // 4)
    return "".join(f"{row[::-1].tobytes().hex()[-digits:]}\n" for row in words)


def from_hexadecimal(text: str, size: int) -> Array:
    """Words as bytes, `size` of them each, from lines of digits. Raises ValueError for digits that
    are none, as those of bits that are not known.
    """
    rows = [bytes.fromhex(line.zfill(2 * size)[-2 * size :])[::-1] for line in text.split()]
    return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), size)


def places(fields: Sequence[Field]) -> list[tuple[int, int]]:
    """Width and offset of each field."""
    return [(field.signal.width, field.offset) for field in fields]


def entries_of(graph: Graph) -> dict[int, list[Entry]]:
    """The entries of outputs that each node is, several of a symmetric matrix, say."""
    entries: dict[int, list[Entry]] = {}
    for name, out in graph.outputs.items():
        for position, k in enumerate(out.nodes):
            entries.setdefault(k, []).append((name, position))
    return entries


def gathered(entries: Sequence[Entry], arrays: Mapping[str, Array]) -> Array:
    """The integers of entries (tasks, entries), from arrays (tasks, *shape) by name."""
    tasks = max((len(x) for x in arrays.values()), default=1)
    rows = {name: np.asarray(x).reshape(tasks, -1) for name, x in arrays.items()}
    columns = [rows[name][:, position] for name, position in entries]
    return np.stack(columns, axis=1) if columns else np.zeros((tasks, 0), np.int64)


def given_values(datapath: Datapath, fields: Sequence[Field], inputs: Mapping[str, Array]) -> Array:
    """The values of the fields of inputs, from integers (states, *shape) by name."""
    return gathered([datapath.graph.value[field.node] for field in fields], inputs)


def result_values(
    datapath: Datapath, fields: Sequence[Field], outputs: Mapping[str, Array]
) -> Array:
    """The values of the fields of results, from integers (states, *shape) by name."""
    entries = entries_of(datapath.graph)
    return gathered([entries[field.node][0] for field in fields], outputs)


def results_of(datapath: Datapath, fields: Sequence[Field], values: Array) -> dict[str, Array]:
    """The outputs as integers (states, *shape) by name, from the fields of results."""
    return outputs_of(datapath, [field.node for field in fields], values)


def outputs_of(datapath: Datapath, nodes: Sequence[int], values: Array) -> dict[str, Array]:
    """The outputs as integers (tasks, *shape) by name, from the values (tasks, nodes) of some
    nodes; the other ones are constants.
    """
    column = {k: values[:, n] for n, k in enumerate(nodes)}
    outputs = {}
    for name, (shape, entries) in datapath.graph.outputs.items():
        columns = [
            column[k] if k in column else np.full(len(values), constant_integer(datapath, k))
            for k in entries
        ]
        flat = np.stack(columns, axis=1) if columns else np.zeros((len(values), 0), np.int64)
        outputs[name] = flat.reshape(len(values), *shape)
    return outputs
