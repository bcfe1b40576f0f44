"""The chain rule through the stages of a step in time as a circuit: a column each few cycles.

The matrices of a stage stay in registers while the columns of its change stream through: from Dq,
Dv and Dr, by which a column moves the stage's q, v and rate, the array gives Da = da/dq Dq + da/dv
Dv + da/du, the changes of the next stage, and the sums over stages from which A and B are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from circuit import CLOCK, DEVICE

from featherlane.backends.fixed.assign import uniform
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.fpga import devices
from featherlane.backends.fpga.cost import Cost, cost
from featherlane.backends.fpga.verilog import design
from featherlane.program.analysis.modulo import pipelined, whole
from featherlane.program.graph import simplify
from featherlane.program.trace import trace
from featherlane.scalar import Tag, at, call

FORMAT = "q13.14"  # 27 bits, as the data of the dynamics have
BASE = 6  # freedoms on a curved space, whose changes are moved by matrices of 6 x 6


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


def _stage(
    da_dq: Any, da_dv: Any, moved: Any, by_rate: Any, by_v: Any, part: Any, share: Any, Dq: Any,
    Dv: Any, Dr: Any, da_du: Any, unit: Any, sum_v: Any, sum_r: Any,
) -> dict[str, Any]:  # fmt: skip
    """A column of a stage. part: of the step, to the next stage; share: of the stage in the step;
    unit: the column of the identity by q, then by v.
    """
    n = len(Dq)
    Da = plus(products(da_dq, Dq), products(da_dv, Dv), da_du)
    next_v = plus([part * x for x in Da], unit[n:])
    base = products(moved, Dr[:BASE]) + list(Dr[BASE:])
    next_q = plus([part * x for x in base], unit[:n])
    turned = plus(products(by_rate, Dr[:BASE]), products(by_v, next_v[:BASE]))
    return {
        "Dq": next_q,
        "Dv": next_v,
        "Dr": turned + next_v[BASE:],
        "sum_v": plus(sum_v, [share * x for x in Da]),
        "sum_r": plus(sum_r, [share * x for x in Dr]),
    }


@cache
def chain_array(freedoms: int, columns: int, interval: int) -> tuple[ChainTimes, Cost]:
    """The schedule of the array and what it needs of the device, with all its matrices."""
    n, m = freedoms, BASE
    shapes = {
        "da_dq": (n, n), "da_dv": (n, n), "moved": (m, m), "by_rate": (m, m), "by_v": (m, m),
        "part": (), "share": (), "Dq": n, "Dv": n, "Dr": n, "da_du": n, "unit": 2 * n, "sum_v": n,
        "sum_r": n,
    }  # fmt: skip

    def run(*given: Any) -> Any:
        return at(Tag("C", "f", 0), call, _stage, *given)

    graph = prepared(simplify(trace(run, shapes)))
    device, datapath = devices.load(DEVICE), narrowed(uniform(graph, FORMAT))
    operators = devices.operators(datapath, device, CLOCK)
    pools = whole(datapath.graph)
    pipeline = pipelined(datapath.graph, operators, CLOCK, interval, pools, runs=1)
    pipeline.verify()
    made = design("chain", datapath, pipeline, device.tile)
    return ChainTimes(interval, pipeline.latency, columns), cost(made, device)
