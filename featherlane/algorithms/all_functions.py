"""The seven functions of Dadu-RBD (2023, table I) by one computation, whose steps they share.

From the motion of the bodies come their loads; from the loads the torques and, by pairs of freedoms
that meet, the derivatives of the torques; from the same pairs M, from M its factor and M^-1, and
from these the acceleration and the derivatives of the acceleration (figure 9 there):

    C = ID(q, v, a),  M,  dC/dq,  dC/dv,  M^-1,  M^-1 (tau - C),  -Minv dC/dq,  -Minv dC/dv

where Minv is an input: the M^-1 of an earlier pass, or known otherwise. So ID, M, M^-1, the
derivatives of ID, and those of FD where a and M^-1 are known, are results of one pass; with a = 0
the pass gives FD; and the derivatives of FD are a second pass, at the acceleration of the first.
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.algorithms.bounded import Ends, bounded_acceleration, inverse
from featherlane.algorithms.common import (
    Scalars,
    Wrenches,
    joint_entries,
    link_resistance,
    put_entries,
)
from featherlane.algorithms.deferred import deferred_factor
from featherlane.algorithms.derivatives import (
    Fixed,
    Loads,
    assembled,
    motion_and_loads,
)
from featherlane.algorithms.factor import factor
from featherlane.algorithms.forward_derivatives import (
    by_free_roots,
    mass_matrix_of_pairs,
    times_inverse,
)
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.rnea import add_torques
from featherlane.algorithms.springs import plus_springs
from featherlane.robot.mass_bounds import MassBounds
from featherlane.robot.spatial import Vector
from featherlane.robot.tree import Link, Tree
from featherlane.robot.walk import outward
from featherlane.scalar import Scalar, Tag, at, call


class AllResults(NamedTuple):
    """The results of one pass; nv scalars, or nv x nv."""

    tau: Scalars  # ID(q, v, a)
    M: Rows
    dtau_dq: Rows
    dtau_dv: Rows
    da_dq: Rows  # -Minv dtau/dq, of the input Minv
    da_dv: Rows
    Minv: Rows  # M^-1, computed
    a: Scalars  # M^-1 (the input tau - tau)


def all_functions(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    tau: Scalars,
    Minv: Rows,
    *,
    method: str,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
    bounds: MassBounds | None = None,
    ends: Ends | None = None,
) -> AllResults:
    """Returns the results of a pass. Minv: its lower half is read. method: of M^-1, "deferred",
    "factor" or "bounded"; the last has `bounds`, and `ends`, the range at which accelerations
    saturate.
    """
    m, load = motion_and_loads(model, q, qd, qdd, f_ext, fixed)
    M = mass_matrix_of_pairs(model, m)
    torques = plus_springs(model, q, qd, _torques(model, load, qd, qdd))
    derivatives = assembled(model, m, load)
    half = [[Minv[max(i, j)][min(i, j)] for j in range(model.nv)] for i in range(model.nv)]
    da = times_inverse(model, half, derivatives, by_free_roots(model, m, load, fixed))
    if method == "bounded":
        assert bounds is not None, "bounded has bounds"
        computed = inverse(model, M, bounds)
        a = at(Tag("L", "f", 0), call, bounded_acceleration, model, computed, tau, torques, ends)
    else:
        L = factor(model, M).inverted() if method == "factor" else deferred_factor(model, M)
        computed, a = L.inverse(), L.acceleration(tau, torques)
    return AllResults(torques, M, *derivatives, *da, computed, a)


def _torques(model: Tree, load: Loads, qd: Scalars, qdd: Scalars) -> Scalars:
    """Returns ID(q, qd, qdd) from the forces of all subtrees."""
    torques: list[Scalar] = [0.0] * model.nv
    for i in outward(model, "R"):
        link, f = model.links[i], load.f[i]
        if all(model.owners[k] == i for k, _ in model.freedoms[i]):
            rates = joint_entries(model, i, qd), joint_entries(model, i, qdd)
            joint_tau = call(_torques_of, link, f, *rates)
        else:  # a joint that follows another one adds to its torque
            joint_tau = call(add_torques, link, f, joint_entries(model, i, torques))
        put_entries(model, i, torques, joint_tau)
    return torques


def _torques_of(link: Link, f: Vector, qd: Scalars, qdd: Scalars) -> Scalars:
    resistance = link_resistance(link, qd)
    of_joint = [I * a + r for I, a, r in zip(link.armature, qdd, resistance, strict=True)]
    return add_torques(link, f, of_joint)
