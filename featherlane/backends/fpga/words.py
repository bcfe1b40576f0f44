"""Words of the streams: integers packed into bits and back, and as text that test benches read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.netlist import Field, constant_integer

Array = Any


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


def given_values(datapath: Datapath, fields: Sequence[Field], inputs: Mapping[str, Array]) -> Array:
    """The values of the fields of inputs, from integers (states, *shape) by name."""
    columns = []
    for field in fields:
        name, position = datapath.graph.value[field.node]
        x = np.asarray(inputs[name])
        columns.append(x.reshape(len(x), -1)[:, position])
    states = max((len(x) for x in inputs.values()), default=1)
    return np.stack(columns, axis=1) if columns else np.zeros((states, 0), np.int64)


def results_of(datapath: Datapath, fields: Sequence[Field], values: Array) -> dict[str, Array]:
    """The outputs as integers (states, *shape) by name, from the fields of results."""
    column = {field.node: values[:, n] for n, field in enumerate(fields)}
    outputs = {}
    for name, (shape, nodes) in datapath.graph.outputs.items():
        entries = [
            column[k] if k in column else np.full(len(values), constant_integer(datapath, k))
            for k in nodes
        ]
        flat = np.stack(entries, axis=1) if entries else np.zeros((len(values), 0), np.int64)
        outputs[name] = flat.reshape(len(values), *shape)
    return outputs


def result_values(
    datapath: Datapath, fields: Sequence[Field], outputs: Mapping[str, Array]
) -> Array:
    """The values of the fields of results, from integers (states, *shape) by name."""
    place = {
        k: (name, n)
        for name, out in datapath.graph.outputs.items()
        for n, k in enumerate(out.nodes)
    }
    columns = []
    for field in fields:
        name, n = place[field.node]
        x = np.asarray(outputs[name])
        columns.append(x.reshape(len(x), -1)[:, n])
    return np.stack(columns, axis=1)
