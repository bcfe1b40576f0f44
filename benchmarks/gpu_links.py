"""Part of `gpu.py`: links by groups of states, as in Yang, Wu and Pan (2016), by method."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache, partial
from itertools import product

import numpy as np
from gpu_card import DeviceArray
from gpu_cells import Bench, Cell, Row
from robots import States

import featherlane as fl
from featherlane.api.model import Model
from featherlane.backends.cuda.calls import DeviceFunction, Rows
from featherlane.functions.long.on_gpu import LongOnGPU
from featherlane.functions.table import Variant

LENGTHS, GROUPS = (64, 16, 256, 1024), (1, 256, 4096, 16)
METHODS = {
    "inverse_dynamics": ("serial", "scan"),
    "forward_dynamics": ("aba", "abia", "cfa", "dca"),
}
MOST_STATES = 32  # of a block


def links(bench: Bench) -> Iterator[Cell]:
    """Each method for chains of so many links, and so many states."""
    lengths, groups = ((8,), (1,)) if bench.gpu.emulated else (LENGTHS, GROUPS)
    methods = [(name, method) for name, every in METHODS.items() for method in every]
    for count, batch, (name, method) in product(lengths, groups, methods):
        mapping = f"links:{min(max(batch // 128, 1), MOST_STATES)}"
        told = {"robot": f"chain of {count}", "function": name, "who": method, "dtype": "float32"}
        call = partial(_time, bench, count, batch, Variant(name, method=method), mapping)
        yield Cell({**told, "mapping": mapping, "batch": batch}, call)


@cache
def _chain(count: int) -> Model:
    return fl.chain(count, seed=1)


@cache  # for several numbers of states
def _function(count: int, variant: Variant, mapping: str) -> DeviceFunction:
    key = f"benchmark {variant.name} {variant.method} {count}"
    on_gpu = LongOnGPU(key, _chain(count), variant, mapping)
    return on_gpu.function(variant.name, np.dtype(np.float32))


def _time(bench: Bench, count: int, batch: int, variant: Variant, mapping: str) -> Row:
    function, model = _function(count, variant, mapping), _chain(count)
    states = States.random(model, batch).inputs(model, variant.name, "float32")
    with ExitStack() as stack:
        arrays = [DeviceArray.of(bench.gpu, x) for x in states]
        arrays.append(DeviceArray(bench.gpu, (batch, model.nv), np.float32))
        for x in arrays:
            stack.callback(x.free)
        rows = [Rows(x.address, 4 * count) for x in arrays]
        seconds = bench.gpu.launched(partial(function.call, 0, bench.gpu.stream, rows, batch))
    return {"seconds": seconds, "states_per_second": batch / seconds}
