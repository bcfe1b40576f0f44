"""Motions of joints whose configurations are Lie groups with brackets other than 0: planar,
spherical and free joints.

A motion u takes a configuration q to q (+) u, `integrate` of u. Its derivatives by q and by u, in
the tangent spaces, are Ad of exp(-u) and the right Jacobian J_r(u) (Solà and others 2018).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from featherlane.algorithms.common import Scalars
from featherlane.robot.joint_type import JointType
from featherlane.robot.spatial import Vector, dot, unit
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar

# J_r(u)^-1 v = v + [u, v] / 2 + [u, [u, v]] / 12 + ...: Bernoulli's numbers B_n / n! from n = 1
# on, the first one with the other sign (Munthe-Kaas 1998; Iserles and others 2000, section 4.2)
SERIES = (1 / 2, 1 / 12, 0.0, -1 / 720, 0.0, 1 / 30240)


def lie_group_joints(tree: Tree) -> Iterator[tuple[JointType, slice]]:
    """Yields type and entries of v of the joints whose motions do not commute."""
    for kind, _, k in tree.coordinates:
        if kind.commutator is not None:
            yield kind, slice(k, k + kind.nv)


def bracket(kind: JointType, u: Scalars, v: Scalars) -> Vector:
    """Returns [u, v]."""
    assert kind.commutator is not None
    return Vector(kind.commutator(u, v))


def local_rate(tree: Tree, u: Scalars, v: Scalars, series: Sequence[float]) -> list[Scalar]:
    """Returns du/dt = J_r(u)^-1 v at velocity v, by the first terms of its series."""
    rate = list(v)
    for kind, entries in lie_group_joints(tree):
        power = total = Vector(v[entries])
        for coefficient in series:
            power = bracket(kind, u[entries], power)
            total = total + power * coefficient if coefficient else total
        rate[entries] = total
    return rate


def block_times(tree: Tree, blocks: Sequence[Any], x: Scalars) -> list[Scalar]:
    """Returns the block-diagonal matrix with `blocks` at Lie-group joints, 1 elsewhere, times x."""
    result = list(x)
    for (_, entries), block in zip(lie_group_joints(tree), blocks, strict=True):
        result[entries] = [dot(row, x[entries]) for row in block]
    return result


class MotionMaps:
    """The derivatives of the end of a motion u by its beginning and by u, as blocks of the
    Lie-group joints: Ad and J_r, or for a motion of a semi-implicit step those of its own.
    """

    def __init__(self, tree: Tree, u: Scalars, straight: bool = False) -> None:
        kinds = [(kind, u[entries]) for kind, entries in lie_group_joints(tree)]
        joints = [(kind.straight or kind if straight else kind, x) for kind, x in kinds]
        self.tree = tree
        self.adjoints = [kind.adjoint(x) for kind, x in joints]
        self.jacobians = [kind.jacobian(x) for kind, x in joints]

    def change(self, dq: Scalars, du: Scalars) -> list[Scalar]:
        """Returns the change of q (+) u, Ad dq + J_r du."""
        by_q = block_times(self.tree, self.adjoints, dq)
        by_u = block_times(self.tree, self.jacobians, du)
        return [x + y for x, y in zip(by_q, by_u, strict=True)]


class RateMaps:
    """The powers of the bracket, v, [u, v], [u, [u, v]] ..., of which `local_rate` consists."""

    def __init__(self, tree: Tree, u: Scalars, v: Scalars, series: Sequence[float]) -> None:
        self.tree, self.u, self.series, self.powers = tree, u, series, list[list[Vector]]()
        for kind, entries in lie_group_joints(tree):
            powers = [Vector(v[entries])]
            for _ in series[1:]:
                powers.append(bracket(kind, u[entries], powers[-1]))
            self.powers.append(powers)

    def change(self, du: Scalars, dv: Scalars) -> list[Scalar]:
        """Returns the derivative of `local_rate` along du and dv."""
        rate = list(dv)
        for (kind, entries), powers in zip(lie_group_joints(self.tree), self.powers, strict=True):
            change = total = Vector(dv[entries])
            for coefficient, power in zip(self.series, powers, strict=True):
                change = bracket(kind, du[entries], power) + bracket(kind, self.u[entries], change)
                total = total + change * coefficient if coefficient else total
            rate[entries] = total
        return rate


def motion_maps(tree: Tree, u: Scalars) -> tuple[list[Scalar], list[Scalar]]:
    """Returns Ad and J_r of a motion u: the entries of the blocks of all Lie-group joints."""
    maps = MotionMaps(tree, u)
    return _entries(maps.adjoints), _entries(maps.jacobians)


def straight_maps(tree: Tree, u: Scalars) -> tuple[list[Scalar], list[Scalar]]:
    """Returns the maps of the motion u of a semi-implicit step, as `motion_maps` does."""
    maps = MotionMaps(tree, u, straight=True)
    return _entries(maps.adjoints), _entries(maps.jacobians)


def stage_maps(
    tree: Tree, u: Scalars, v: Scalars, series: Sequence[float]
) -> tuple[list[Scalar], ...]:
    """Returns the `motion_maps` of u, and the derivatives of `local_rate` by u and by v: the
    entries of their blocks.
    """
    motions, rates = motion_maps(tree, u), RateMaps(tree, u, v, series)
    still, by_u, by_v = [0.0] * tree.nv, list[Any](), list[Any]()
    for _, entries in lie_group_joints(tree):
        units = [unit(j, tree.nv) for j in range(entries.start, entries.stop)]
        by_u.append(zip(*[rates.change(du, still)[entries] for du in units], strict=True))
        by_v.append(zip(*[rates.change(still, dv)[entries] for dv in units], strict=True))
    return *motions, _entries(by_u), _entries(by_v)


def _entries(blocks: Sequence[Any]) -> list[Scalar]:
    return [x for block in blocks for row in block for x in row]
