"""Which entries of a cost's Hessian may differ from zero, by what its terms depend on.

A posture couples no two joints, and a frame those on its path alone: of the 4,950 entries on and
above the diagonal that G1 has with its controls, a posture has 114.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from featherlane.functions.policy import Shapes
from featherlane.program.derivatives.graphs import derivative_inputs
from featherlane.program.graph import Graph
from featherlane.robot.model import Robot

Runs = tuple[tuple[int, int, int], ...]  # row, first column, number of columns


def dense_runs(size: int) -> Runs:
    """Returns all entries on and above the diagonal."""
    return tuple((row, row, size - row) for row in range(size))


def hessian_runs(robot: Robot, cost: Graph, controls: int, memory: Shapes = ()) -> Runs:
    """Returns the entries on and above the diagonal of the Hessian by [dtau; dq; dv; dm] that may
    differ from zero, of a cost with inputs q, v, tau, its memory and maybe force, which changes
    with all.
    """
    entries, size = _positions(robot, controls), controls + 2 * robot.nv
    for name, shape in memory:
        count = math.prod(shape)
        entries |= {(name, k): [size + k] for k in range(count)}
        size += count
    rows = [0] * size  # whose bits are columns
    for depends in derivative_inputs(cost, _terms(cost)):
        term = set().union(*[entries.get(x, ()) for x in depends])
        if term and any(name == "force" for name, _ in depends):
            return dense_runs(size)
        columns = sum(1 << k for k in term)
        for k in term:
            rows[k] |= columns
    return tuple(run for k, columns in enumerate(rows) for run in _runs(k, columns >> k << k))


def _positions(robot: Robot, controls: int) -> dict[tuple[str, int], Sequence[int]]:
    """Returns where in [dtau; dq; dv] an entry of an input has derivatives: an entry of q of a
    joint has them by all motions of the joint.
    """
    n, first = robot.nv, controls
    positions: dict[tuple[str, int], Sequence[int]] = {("tau", k): [k] for k in range(controls)}
    positions |= {("v", k): [first + n + k] for k in range(n)}
    for i in robot.independent:
        kind, start = robot.types[i], first + robot.first_v[i]
        moves = range(start, start + kind.nv)
        positions |= {("q", robot.first_q[i] + k): moves for k in range(kind.nq)}
    return positions


def _terms(cost: Graph) -> list[int]:
    """Returns the nodes of residuals, or of the addends of a number: of two of them the Hessian of
    the cost has no product.
    """
    out = cost.outputs["out"]
    if out.shape:
        return [*out.nodes]
    terms, nodes = list[int](), [*out.nodes]
    while nodes:
        k = nodes.pop()
        if cost.op[k] in ("add", "sub", "neg"):
            nodes += cost.args[k]
        else:
            terms.append(k)
    return terms


def _runs(row: int, columns: int) -> Iterable[tuple[int, int, int]]:
    """Yields the runs of consecutive bits."""
    while columns:
        first = (columns & -columns).bit_length() - 1
        count = (~(columns >> first) & ((columns >> first) + 1)).bit_length() - 1
        yield row, first, count
        columns &= ~(((1 << count) - 1) << first)
