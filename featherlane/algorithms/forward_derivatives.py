"""Analytic derivatives of forward dynamics, in the tangent space of q, from those of inverse
dynamics: da/dx = -M^-1 dtau/dx (Carpentier and Mansard 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from featherlane.algorithms.derivatives import (
    Fixed,
    assembled,
    columns,
    inverse_dynamics_derivatives,
    loads,
    motion,
    pairs,
)
from featherlane.algorithms.factor import factor
from featherlane.algorithms.kinematics import Scalars, Wrenches, no_wrenches
from featherlane.algorithms.mminv import Rows, add_pair, square
from featherlane.algorithms.rnea import rnea
from featherlane.scalar import Scalar
from featherlane.spatial import dot
from featherlane.tree import Tree
from featherlane.walk import repeat


def _supports(model: Tree) -> dict[tuple[int, ...], list[int]]:
    """The columns of a derivative that have their entries in the same rows: j, what is before it
    and behind it.
    """
    supports: dict[tuple[int, ...], list[int]] = {}
    for j, line in enumerate(model.ancestors):
        behind = [i for i in range(j, model.nv) if j in model.ancestors[i]]
        supports.setdefault(tuple(sorted({*line, *behind})), []).append(j)
    return supports


def _through(
    model: Tree,
    inverse: Callable[[Scalars, Scalars], list[Scalar]],
    packed: Scalars,
    derivatives: Sequence[Rows],
) -> list[Rows]:
    """-M^-1 times derivatives of inverse dynamics, by columns; inverse(packed, b) is M^-1 b."""
    products = [square(model.nv) for _ in derivatives]
    for rows, js in reversed(_supports(model).items()):

        def column(shared: Scalars, b: Scalars, rows: tuple[int, ...] = rows) -> list[Scalar]:
            right: list[Scalar] = [0.0] * model.nv
            for i, x in zip(rows, b, strict=True):
                right[i] = -x
            return inverse(shared, right)

        pairs = list(zip(products, derivatives, strict=True))
        places = [(P, D, j) for j in reversed(js) for P, D in pairs]
        solved = repeat(column, packed, [[D[i][j] for i in rows] for _, D, j in places])
        for (P, _, j), x in zip(places, solved, strict=True):
            for i in range(model.nv):
                P[i][j] = x[i]
    return products


def forward_dynamics_derivatives(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
) -> tuple[Rows, Rows, Rows]:
    """(da/dq, da/dv, da/dtau) = (-M^-1 dtau/dq, -M^-1 dtau/dv, M^-1) at a = FD(q, qd, tau)."""
    f_ext = f_ext or no_wrenches(model)
    m = motion(model, q, qd)
    M = square(model.nv, model.armature)
    for i, j, ci, cj, joint, same in pairs(model, m, columns(model, m, None)):
        if not joint or same or i < j:
            add_pair(M, i, j, dot(ci.S, cj.IS), same)
    factored = factor(model, M)
    bias = rnea(model, q, qd, [0.0] * model.nv, f_ext)
    qdd = factored.solve([t - b for t, b in zip(tau, bias, strict=True)])
    dq, dv = assembled(model, m, loads(model, m, qdd, f_ext, fixed))
    inverted = factored.inverted()
    solve = lambda packed, b: inverted.unpack(packed).solve(b)
    da_dq, da_dv = _through(model, solve, inverted.pack(), (dq, dv))
    return da_dq, da_dv, inverted.inverse()


def forward_dynamics_derivatives_from(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    Minv: Rows,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
) -> tuple[Rows, Rows]:
    """(da/dq, da/dv) where the acceleration and the inverse mass matrix are known: diFD of
    Dadu-RBD, table I.

    Entries of Minv between branches that meet only at the ground are zero, and not read.
    """
    derivatives = inverse_dynamics_derivatives(model, q, qd, qdd, f_ext, fixed)
    n, root = model.nv, [line[-1] for line in model.ancestors]

    def product(packed: Scalars, b: Scalars) -> list[Scalar]:
        same = [[k for k in range(n) if root[k] == root[i]] for i in range(n)]
        return [sum((packed[n * i + k] * b[k] for k in same[i]), start=0.0) for i in range(n)]

    da_dq, da_dv = _through(model, product, [x for row in Minv for x in row], derivatives)
    return da_dq, da_dv
