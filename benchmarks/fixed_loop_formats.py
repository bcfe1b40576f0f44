"""What is run in which format, and datapaths in which one kind of signals alone has few bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.model import Model
from featherlane.backends.fixed.assign import constant_format
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.ranges import mantissa_of
from featherlane.functions.fixed import FixedFunction
from featherlane.program.graph import Graph

Figures = Iterator[tuple[str, float]]  # by name


class Job(NamedTuple):
    """A run of a case in a format. It raises CompileError for a format that cannot be built."""

    case: str
    format: str
    run: Callable[[], Figures]


AMPLE = "fitted32/32"
LEAST = 2  # bits of a format
Kind = Callable[[Graph, int], bool]  # whether a node is of a kind


def _tagged(*names: str) -> Kind:
    """Signals of algorithms by name and direction, as in the papers: "Rf", "Db"."""

    def kind(graph: Graph, k: int) -> bool:
        tag = graph.tag[k]
        computed = graph.op[k] not in ("input", "constant", "sin", "cos")
        return computed and tag is not None and tag.algorithm + tag.direction in names

    return kind


def _input(*names: str) -> Kind:
    return lambda graph, k: graph.op[k] == "input" and graph.value[k][0] in names


GIVEN: dict[str, Kind] = {
    "angles q": _input("q"),
    "velocities v": _input("v"),
    "accelerations a": _input("a"),
    "sines and cosines": lambda graph, k: graph.op[k] in ("sin", "cos"),
    "constants of the robot": lambda graph, k: graph.op[k] == "constant",
}
KINDS: dict[str, Kind] = {
    **GIVEN,
    "motions and forces of links (Rf)": _tagged("Rf"),
    "sums of forces to the root (Rb)": _tagged("Rb"),
}
"""Kinds of signals of inverse dynamics."""
KINDS_OF_DERIVATIVES: dict[str, Kind] = {
    **GIVEN,
    "M^-1": _input("minv"),
    "motions and forces of links (Df)": _tagged("Df"),
    "sums of forces to the root (Db)": _tagged("Db"),
    "products with M^-1 (Pc)": _tagged("Pc"),
}
"""Kinds of signals of the derivatives of forward dynamics from M^-1."""


def inverse_jobs(
    case: str,
    model: Model,
    ranges: Any,
    formats: list[str],
    run: Callable[[Callable[[], Any]], Figures],
    bits: Iterable[int],
) -> Iterator[Job]:
    """A controller with inverse dynamics in all formats, then with one kind of signals in few bits.

    run: of a controller with the function that it is given. bits: of one kind.
    """
    exact = model.inverse_dynamics
    made = partial(model.function, "inverse_dynamics", backend="fixed", ranges=ranges)
    yield Job(case, "float64", lambda: run(lambda: exact))
    yield Job(case, "float32", lambda: run(lambda: _in_float32(exact)))
    for format in formats:
        yield Job(case, format, partial(run, lambda form=format: _compiled(made(format=form))))
    ample = cache(lambda: made(format=AMPLE))
    for name in KINDS:
        for n in bits:
            make = lambda name=name, n=n: few(model, ample(), KINDS[name], n)
            yield Job(case, f"{name}: {n}", partial(run, make))


def _in_float32(function: Any) -> Any:
    return lambda *x: function(*(y.astype(np.float32) for y in x)).astype(np.float64)


def _compiled(function: FixedFunction) -> FixedFunction:
    """The function for loops, whose states may leave their ranges."""
    function.compile()
    return function.saturating()


def few(model: Model, ample: FixedFunction, kind: Kind, bits: int) -> FixedFunction:
    """A function whose signals of one kind have so many bits, and all others ample ones."""
    datapath = fewer(ample.datapath, kind, bits)
    return _compiled(FixedFunction(model.function(ample.name), lambda: datapath, dict))


def fewer(datapath: Datapath, kind: Kind, bits: int) -> Datapath:
    """Returns a datapath whose formats of one kind lose their last bits, so that they hold the same
    range in coarser steps.
    """
    graph = datapath.graph
    bound = {a for k in graph.nodes_of("div") for a in (*graph.args[k], k)}  # units' formats

    def form(k: int) -> Format | None:
        own = datapath.formats[k]
        if own is None or own.width <= bits or k in bound or not kind(graph, k):
            return own
        if graph.op[k] in ("exponent", "power_of_two") or mantissa_of(graph, k) is not None:
            return own
        if graph.op[k] == "constant":
            return constant_format(graph.value[k], bits) if graph.value[k] else own
        return Format(bits, own.fraction - (own.width - bits))

    return Datapath(graph, tuple(form(k) for k in range(len(graph))))
