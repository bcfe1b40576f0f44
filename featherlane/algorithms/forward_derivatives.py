"""Analytic derivatives of forward dynamics, in the tangent space of q, from those of inverse
dynamics: da/dx = -M^-1 dtau/dx (Carpentier and Mansard 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from featherlane.algorithms.common import Scalars, Wrenches, no_wrenches, put_entries
from featherlane.algorithms.derivatives import (
    Fixed,
    Loads,
    TreeMotion,
    assembled,
    columns,
    loads,
    motion,
    motion_and_loads,
    pairs,
)
from featherlane.algorithms.factor import MassFactor, factor
from featherlane.algorithms.mminv import Rows, add_pair, square
from featherlane.algorithms.rnea import rnea
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import Vector, crm, dot, split
from featherlane.robot.tree import Link, Tree
from featherlane.robot.walk import outward
from featherlane.scalar import Scalar, Tag, boundary, call, is_zero, repeat


def _supports(model: Tree) -> dict[tuple[int, ...], list[int]]:
    """Returns the columns of a derivative, grouped by the rows of their entries: column j has them
    in row j and in the rows of j's ancestors and descendants.
    """
    supports: dict[tuple[int, ...], list[int]] = {}
    for j, line in enumerate(model.ancestors):
        behind = [i for i in range(j, model.nv) if j in model.ancestors[i]]
        supports.setdefault(tuple(sorted({*line, *behind})), []).append(j)
    return supports


Columns = dict[int, list[Scalar]]
Shifts = Callable[[Scalars], Sequence[Scalars]]


def by_free_roots(model: Tree, m: TreeMotion, load: Loads, fixed: Fixed) -> tuple[Columns, Columns]:
    """Returns the columns of da/dq for the pose of a free root, and of da/dv for its linear
    velocity.

    Both change the motion of the whole robot only by how gravity, or a velocity that is fixed in
    space, turns in the axes of its first body: dtau/dx = M c, c = a_p x S or v x S, da/dx = -c.
    """
    by_pose: Columns = {}
    by_slide: Columns = {}
    for i in outward(model, "D"):
        freedoms = model.freedoms[i]
        physics = [x for k, _ in freedoms for x in (model.armature[k], m.slopes[k])]
        if model.parent[i] != WORLD or len(freedoms) < 6 or not all(map(is_zero, physics)):
            continue
        for k, S in freedoms:
            if fixed is None:
                by_pose[k] = _column(model, i, S, load.ap[i])
            if all(map(is_zero, split(S)[0])):
                by_slide[k] = _column(model, i, S, m.v[i])
    return by_pose, by_slide


def _along_freedoms(link: Link, S: Vector, x: Vector) -> list[Scalar]:
    """Returns the components of S x x along the freedoms of a free joint."""
    product = crm(S, x)
    return [dot(axis, product) for axis in link.S]


def _column(model: Tree, i: int, S: Vector, x: Vector) -> list[Scalar]:
    """Returns the column whose only entries are those of body i's free joint, S x x."""
    column: list[Scalar] = [0.0] * model.nv
    put_entries(model, i, column, call(_along_freedoms, model.links[i], S, x))
    return column


def _through(
    model: Tree,
    inverse: Callable[[Scalars, Scalars], list[Scalar]],
    packed: Scalars,
    derivatives: tuple[Rows, Rows],
    known: tuple[Columns, Columns],
) -> tuple[Rows, Rows]:
    """Returns (da/dq, da/dv), -M^-1 times the derivatives of inverse dynamics, column by column.

    inverse(packed, b) gives M^-1 b. known: columns of the result.
    """
    products = square(model.nv), square(model.nv)
    for rows, js in reversed(_supports(model).items()):

        def column(shared: Scalars, b: Scalars, rows: tuple[int, ...] = rows) -> list[Scalar]:
            right: list[Scalar] = [0.0] * model.nv
            for i, x in zip(rows, b, strict=True):
                right[i] = -x
            return inverse(shared, right)

        triples = list(zip(products, derivatives, known, strict=True))
        places = [(P, D, j) for j in reversed(js) for P, D, ready in triples if j not in ready]
        tags = [Tag("P", "c", model.owners[j]) for *_, j in places]
        solved = repeat(column, packed, [[D[i][j] for i in rows] for _, D, j in places], tags)
        for (P, _, j), x in zip(places, solved, strict=True):
            _put_column(P, j, x)
    for P, ready in zip(products, known, strict=True):
        for j, x in ready.items():
            _put_column(P, j, x)
    return products


def _put_column(M: Rows, j: int, column: Scalars) -> None:
    for row, x in zip(M, column, strict=True):
        row[j] = x


def forward_dynamics_derivatives(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
) -> tuple[Rows, Rows, Rows]:
    """Returns (da/dq, da/dv, da/dtau) = (-M^-1 dtau/dq, -M^-1 dtau/dv, M^-1), with
    a = FD(q, qd, tau).
    """
    return forward_dynamics_and_derivatives(model, q, qd, tau, f_ext, fixed)[1:]


def forward_dynamics_and_derivatives(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
    shifts: Shifts = lambda qdd: (),
) -> tuple[list[Scalar], Rows, Rows, Rows]:
    """Returns a = FD(q, qd, tau) and its three derivatives. shifts: returns what dtau/dq and
    dtau/dv gain on their diagonals, from a.
    """
    f_ext = f_ext or no_wrenches(model)
    m = motion(model, q, qd)
    factored = factor(model, mass_matrix_of_pairs(model, m))
    bias = rnea(model, q, qd, [0.0] * model.nv, f_ext)
    qdd = factored.acceleration(tau, bias)
    return qdd, *_solved(model, m, factored, qdd, f_ext, fixed, shifts(qdd))


def forward_dynamics_derivatives_at(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
) -> tuple[Rows, Rows, Rows]:
    """Returns (da/dq, da/dv, da/dtau) at a known acceleration qdd, with the factor of M."""
    m = motion(model, q, qd)
    factored = factor(model, mass_matrix_of_pairs(model, m))
    return _solved(model, m, factored, qdd, f_ext or no_wrenches(model), fixed)


def mass_matrix_of_pairs(model: Tree, m: TreeMotion) -> Rows:
    """Returns the mass matrix from the columns of a motion, whose derivatives need them too."""
    M = square(model.nv, model.armature)
    for i, j, ci, cj, joint, same in pairs(model, m, columns(model, m, None)):
        if not joint or same or i < j:
            add_pair(M, i, j, ci.S, cj.IS, same)
    return M


def _solved(
    model: Tree,
    m: TreeMotion,
    factored: MassFactor,
    qdd: Scalars,
    f_ext: Wrenches,
    fixed: Fixed,
    shifts: Sequence[Scalars] = (),
) -> tuple[Rows, Rows, Rows]:
    """Returns (da/dq, da/dv, da/dtau), solving for each column of dtau/dx with the factor of M.
    shifts: as those of `forward_dynamics_and_derivatives`.
    """
    boundary(qdd)
    load = loads(model, m, qdd, f_ext, fixed)
    inverted = factored.inverted()
    solve = lambda packed, b: inverted.unpack(packed).solve(b)
    known, derivatives = by_free_roots(model, m, load, fixed), assembled(model, m, load)
    for rows, diagonal in zip(derivatives, shifts, strict=False):
        for k, x in enumerate(diagonal):
            rows[k][k] = rows[k][k] + x
    da_dq, da_dv = _through(model, solve, inverted.pack(), derivatives, known)
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
    """Returns (da/dq, da/dv) where the acceleration and the inverse mass matrix are known: diFD
    of Dadu-RBD, table I.
    """
    m, load = motion_and_loads(model, q, qd, qdd, f_ext, fixed)
    known, derivatives = by_free_roots(model, m, load, fixed), assembled(model, m, load)
    return times_inverse(model, Minv, derivatives, known)


def times_inverse(
    model: Tree, Minv: Rows, derivatives: tuple[Rows, Rows], known: tuple[Columns, Columns]
) -> tuple[Rows, Rows]:
    """Returns -M^-1 times the derivatives of inverse dynamics. known: columns of the result.

    Entries of Minv between branches that meet only at the ground are zero, and not read.
    """
    n, root = model.nv, [line[-1] for line in model.ancestors]

    def product(packed: Scalars, b: Scalars) -> list[Scalar]:
        same = [[k for k in range(n) if root[k] == root[i]] for i in range(n)]
        return [sum((packed[n * i + k] * b[k] for k in same[i]), start=0.0) for i in range(n)]

    packed = [x for row in Minv for x in row]
    return _through(model, product, packed, derivatives, known)
