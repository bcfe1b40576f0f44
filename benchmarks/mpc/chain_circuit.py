"""The chain rule through the stages of a step in time as a circuit: a column each few cycles.

The matrices of a stage stay in registers while the columns of its change stream through: from Dq,
Dv and Dr, by which a column moves the stage's q, v and rate, the array gives Da = da/dq Dq + da/dv
Dv + da/du, the changes of the next stage, and the sums over stages. At the end of a step these
sums move the state as a rate does: the changes that the last stage gives are columns of A and B.

A product of a column's 27 bits with an entry of a matrix of 18 bits takes one DSP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from circuit import DEVICE, GUARD

from featherlane.accelerators.choices import DesignSpec
from featherlane.accelerators.designers import Designer
from featherlane.backends.fixed.assign import fitted
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.fpga.cost import DesignCost
from featherlane.program.graph import Graph
from featherlane.program.rewrite import simplify
from featherlane.program.trace import trace
from featherlane.scalar import Tag, at, call

BASE = 6  # freedoms on a curved space, whose changes are moved by matrices of 6 x 6
SMALL, ROOM = 18, 1  # bits of what a stage multiplies its columns by; beyond what samples need
OF_STAGE = "da_dq", "da_dv", "moved", "by_rate", "by_v", "part", "share"


class ChainTimes(NamedTuple):
    """Of the array: cycles from one column to the next, and of a column through it. columns: that
    one stage of a knot takes.
    """

    interval: int
    latency: int
    columns: int

    @property
    def stage(self) -> int:
        """Cycles from one stage of a knot to the next one."""
        return self.interval * self.columns


def dot(row: Sequence[Any], column: Sequence[Any]) -> Any:
    total = row[0] * column[0]
    for x, y in zip(row[1:], column[1:], strict=True):
        total = total + x * y
    return total


def products(matrix: Sequence[Sequence[Any]], column: Sequence[Any]) -> list[Any]:
    return [dot(row, column) for row in matrix]


def plus(*columns: Sequence[Any]) -> list[Any]:
    return [sum(own[1:], own[0]) for own in zip(*columns, strict=True)]


def stage_column(
    da_dq: Any, da_dv: Any, moved: Any, by_rate: Any, by_v: Any, part: Any, share: Any, Dq: Any,
    Dv: Any, Dr: Any, da_du: Any, unit: Any, sum_v: Any, sum_r: Any, end_v: Any, end_r: Any,
) -> dict[str, Any]:  # fmt: skip
    """A column of a stage. part: of the step, to the next stage; share: of the stage in the step;
    unit: the column of the identity by q, moved, then by v; end: in the last stage, whose part is
    its share, the sums, and else zeros.
    """
    n = len(Dq)
    Da = plus(products(da_dq, Dq), products(da_dv, Dv), da_du)
    next_v = plus([part * x for x in Da], end_v, unit[n:])
    motion = plus([part * x for x in Dr], end_r)
    turned = plus(products(by_rate, motion[:BASE]), products(by_v, next_v[:BASE]))
    return {
        "Dq": plus(products(moved, motion[:BASE]) + list(motion[BASE:]), unit[:n]),
        "Dv": next_v,
        "Dr": turned + next_v[BASE:],
        "sum_v": plus(sum_v, [share * x for x in Da]),
        "sum_r": plus(sum_r, [share * x for x in Dr]),
    }


def chain_graph(freedoms: int) -> Graph:
    """The graph of a column."""
    n, m = freedoms, BASE
    sizes = (n, n), (n, n), (m, m), (m, m), (m, m), (), ()
    shapes: dict[str, Any] = dict(zip(OF_STAGE, sizes, strict=True))
    shapes |= dict.fromkeys(("Dq", "Dv", "Dr", "da_du"), n) | {"unit": 2 * n}
    shapes |= dict.fromkeys(("sum_v", "sum_r", "end_v", "end_r"), n)
    made = trace(lambda *given: at(Tag("C", "f", 0), call, stage_column, *given), shapes)
    return prepared(simplify(made))


def chain_datapath(freedoms: int, columns: Mapping[str, np.ndarray]) -> Datapath:
    """The array in formats fitted to columns of stages."""
    graph = chain_graph(freedoms)
    wide = fitted(graph, {name: columns[name] for name in graph.inputs}, guard=GUARD)
    formats = list(wide.formats)
    for k in graph.nodes_of("input"):
        if graph.value[k][0] in OF_STAGE:
            width, fraction = wide.format(k)
            formats[k] = Format(SMALL, fraction - width + SMALL + GUARD - ROOM)
    return narrowed(Datapath(graph, tuple(formats)))


def chain_array(datapath: Datapath, columns: int, interval: int) -> tuple[ChainTimes, DesignCost]:
    """The schedule of the array and what it needs of the device, with all its matrices."""
    designer = Designer("chain", DesignSpec(device=DEVICE, sharing="whole"), runs=1)
    made, needed = designer.design(datapath, interval)
    return ChainTimes(interval, made.latency, columns), needed
