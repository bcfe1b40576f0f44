"""Derivatives of inverse dynamics as products of matrices, for robots of many links.

What two freedoms ask of each other are dot products of vectors that belong to each alone, all seen
from the first body of their branch (`derivatives.Columns`). With those as rows of matrices, a
freedom and all that it meets are the entries of a product.
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.algorithms.derivatives import Columns, Loads, Motion, columns
from featherlane.algorithms.mminv import Rows
from featherlane.spatial import Transform
from featherlane.tree import Tree
from featherlane.walk import call


class ByPosition(NamedTuple):
    """Rows of all freedoms, one behind the other: their widths.

    dtau_i/dq_j is S_i . onto_j of an ancestor i by j, below_i . above_j of j's descendant i, and
    S_i . own_j within a joint.
    """

    S: int = 6
    onto: int = 6
    below: int = 12
    above: int = 12
    own: int = 6


class ByVelocity(NamedTuple):
    """dtau_i/dv_j is S_i . onto_j of an ancestor i by j or within a joint, and below_i . above_j of
    j's descendant i, where below is what it is by position, as far as above is wide; slope is what
    the joint's resistance adds to the diagonal.
    """

    onto: int = 6
    above: int = 9
    slope: int = 1


def _rows(C: Transform, local: Columns) -> tuple[list, list]:
    """Of a freedom, seen through C."""
    c = local.seen_by(C)
    below = [*c.IS, *c.BtS[:3], *c.TtS[:3]]
    above = [*c.ddpsi, *c.psi[:3], *c.S[:3]]
    by_position = [*c.S, *c.dq, *below, *above, *c.own]
    return by_position, [*c.dv, *c.rate, *c.S[:3]]


def factors(model: Tree, m: Motion, load: Loads) -> tuple[Rows, Rows]:
    """The rows of `ByPosition` and `ByVelocity` of all freedoms, in place of `assembled`."""
    slopes = dict(enumerate(m.slopes))
    owners = [(i, k) for i, own in enumerate(model.freedoms) for k, _ in own]
    by_position, by_velocity = [], []
    for (i, k), local in zip(owners, columns(model, m, load), strict=True):
        q, v = call(_rows, m.C[i], local)
        by_position.append(q)
        by_velocity.append([*v, slopes.pop(k, 0.0)])
    return by_position, by_velocity
