"""The work of a host before and after a circuit: words of 32 bits, compiled."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from suite.peers.native import LONG, POINTER, shared_library

from featherlane.backends.fixed.datapath import Datapath

SOURCE = Path(__file__).with_suffix(".cpp")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-DNDEBUG")
INT = ctypes.c_int
DTYPES = np.dtype("float64"), np.dtype("float32")


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(shared_library(SOURCE.read_text(), FLAGS)[0]))
    for dtype in DTYPES:
        decode, encode = (getattr(library, f"{way}_{dtype}") for way in ("decode", "encode"))
        decode.argtypes = LONG, POINTER, INT, POINTER, INT, POINTER, INT, POINTER
        encode.argtypes = LONG, POINTER, INT, POINTER, INT, *[POINTER] * 4
    return library


def _address(x: np.ndarray) -> int:
    assert x.flags.c_contiguous
    return x.__array_interface__["data"][0]  # type: ignore[no-any-return]


class Encoder:
    """Inputs of states as words: those entries that a circuit reads."""

    def __init__(self, datapath: Datapath, names: Sequence[str]) -> None:
        graph, first = datapath.graph, {}
        for name in names:
            first[name] = sum(int(np.prod(graph.inputs[x])) for x in first)
        nodes = graph.nodes_of("input")
        places = [graph.value[k] for k in nodes]
        self.read = np.array([first[name] + i for name, i in places], np.int32)
        formats = [datapath.format(k) for k in nodes]
        self.inverse = np.array([1 / form.step for form in formats])
        self.least, self.most = (
            np.array([getattr(form, x) for form in formats], float) for x in ("least", "most")
        )
        self.count = len(nodes)
        self.tables = [*map(_address, (self.inverse, self.least, self.most))]
        self.runs = {dtype: getattr(_library(), f"encode_{dtype}") for dtype in DTYPES}

    def __call__(self, states: np.ndarray, words: np.ndarray) -> None:
        """states: (n, entries of all inputs)."""
        count, entries = states.shape
        tables = _address(self.read), self.count, *self.tables, _address(words)
        self.runs[states.dtype](count, _address(states), entries, *tables)


class Decoder:
    """Words of results as numbers: those entries that are sent, one after another."""

    def __init__(self, steps: np.ndarray, sent: Sequence[int], constants: np.ndarray) -> None:
        """steps: what 1 stands for, of each entry. constants: the numbers of those not sent."""
        self.steps, self.sent, self.constants = steps, np.array(sent), constants
        runs = [[*run] for _, run in groupby(enumerate(sent), lambda pair: pair[1] - pair[0])]
        self.runs = np.array([(run[0][1], run[0][0], len(run)) for run in runs], np.int32)
        self.tables: dict[np.dtype, tuple[Any, ...]] = {}
        for dtype in DTYPES:
            own = steps.astype(dtype)
            tables = _address(self.runs), len(runs), _address(own), len(own)
            self.tables[dtype] = getattr(_library(), f"decode_{dtype}"), tables, own

    @classmethod
    def of(cls, datapath: Datapath, names: Sequence[str]) -> Decoder:
        """Of results of a circuit."""
        graph = datapath.graph
        nodes = [k for name in names for k in graph.outputs[name].nodes]
        sent = [e for e, k in enumerate(nodes) if graph.op[k] != "constant"]
        steps = np.array([datapath.format(k).step for k in nodes])
        return cls(steps, sent, np.array([graph.number(k) or 0.0 for k in nodes]))

    @property
    def count(self) -> int:
        """The words of a state."""
        return len(self.sent)

    def empty(self, states: int, dtype: np.dtype) -> np.ndarray:
        """The places of numbers, with those that are constant."""
        return np.tile(self.constants.astype(dtype), (states, 1))

    def words_of(self, numbers: np.ndarray) -> np.ndarray:
        """The nearest words: what a circuit would send."""
        found = np.rint(numbers[:, self.sent] / self.steps[self.sent])
        return np.ascontiguousarray(found.clip(-(2.0**31), 2.0**31 - 1), np.int32)

    def __call__(self, words: np.ndarray, to: np.ndarray) -> None:
        """words: (n, the sent ones, and others behind). to: (n, entries), from `empty`."""
        run, tables, _ = self.tables[to.dtype]
        run(len(words), _address(words), words.shape[1], *tables, _address(to))
