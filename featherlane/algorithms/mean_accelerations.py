"""The mean accelerations of semi-implicit steps, (v' - v) / dt.

They are the accelerations of the beginning, but for joints whose linear velocity turns with their
bodies: see robot/straight_motion.py. Contacts and constraints act on v + dt (a + `turning_rates`),
the velocity of the end in the axes of the beginning.
"""

from __future__ import annotations

from collections.abc import Iterator

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.sparse_rows import Row
from featherlane.robot.joint_type import StraightMotion
from featherlane.robot.spatial import dot
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, call, is_zero


def straight_joints(tree: Tree) -> Iterator[tuple[StraightMotion, slice]]:
    """Yields motion and entries of v of the joints whose linear velocities turn."""
    for kind, _, k in tree.coordinates:
        if kind.straight is not None:
            yield kind.straight, slice(k, k + kind.nv)


def turning_rates(tree: Tree, v: Scalars) -> list[Scalar]:
    """Returns w x u on the linear entries of such joints, and 0 on others."""
    rates: list[Scalar] = [0.0] * tree.nv
    for motion, entries in straight_joints(tree):
        rates[entries] = motion.turning(v[entries])
    return rates


def in_axes_of_beginning(tree: Tree, v: Scalars, end: Scalars, dt: Scalar) -> list[Scalar]:
    """Returns the velocity of the end, in the axes of the beginning, from end = v + dt a."""
    result = list(end)
    for motion, entries in straight_joints(tree):
        rates = motion.turning(v[entries])
        result[entries] = [x + dt * y for x, y in zip(end[entries], rates, strict=True)]
    return result


def plus_turning_slopes(tree: Tree, v: Scalars, dt: Scalar, row: Row) -> Row:
    """Returns the derivative by v of the product of a row with `in_axes_of_beginning`, where
    end = v + dt a at a fixed a.
    """
    result = dict(row)
    for motion, entries in straight_joints(tree):
        places = range(entries.start, entries.stop)
        along = [row.get(k, 0.0) for k in places]
        for k, column in zip(
            places, zip(*motion.turning_slopes(v[entries]), strict=True), strict=True
        ):
            if not is_zero(more := dot(along, column)):
                result[k] = row.get(k, 0.0) + dt * more
    return result


def mean_acceleration(tree: Tree, v: Scalars, a: Scalars, dt: Scalar) -> list[Scalar]:
    """Returns (v' - v) / dt."""
    mean = list(a)
    for motion, entries in straight_joints(tree):
        mean[entries] = call(motion.mean_acceleration, v[entries], a[entries], dt)
    return mean


def mean_acceleration_slopes(
    tree: Tree, v: Scalars, a: Scalars, dt: Scalar, by_q: Rows, by_v: Rows, by_u: Rows
) -> tuple[Rows, Rows, Rows]:
    """Returns the derivatives of mean accelerations, of those of accelerations by q, v and u."""
    results = [list(row) for row in by_q], [list(row) for row in by_v], [list(row) for row in by_u]
    for motion, entries in straight_joints(tree):
        own, of_a = call(motion.mean_acceleration_slopes, v[entries], a[entries], dt)
        for rows in results:
            columns = [*zip(*rows[entries], strict=True)]
            rows[entries] = [[dot(row, x) for x in columns] for row in of_a]
        for row, more in zip(results[1][entries], own, strict=True):
            row[entries] = [x + y for x, y in zip(row[entries], more, strict=True)]
    return results
