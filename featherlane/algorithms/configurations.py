"""The space of configurations: motions by a velocity, and velocities between configurations, joint
by joint, with their derivatives in the tangent spaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from featherlane.algorithms.common import Scalars
from featherlane.robot.joint_type import JointType
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, call

Rows = list[list[Scalar]]
Move = Callable[[Scalars, Scalars], list[Scalar]]


def integrate(tree: Tree, q: Scalars, v: Scalars) -> list[Scalar]:
    """Returns the configuration after one second at the constant velocity v."""
    return _moved(tree, q, v, [kind.integrate for kind, *_ in tree.coordinates])


def integrate_straight(tree: Tree, q: Scalars, u: Scalars) -> list[Scalar]:
    """Returns the configuration after the motion u of a semi-implicit step."""
    moves = [(kind.straight or kind).integrate for kind, *_ in tree.coordinates]
    return _moved(tree, q, u, moves)


def _moved(tree: Tree, q: Scalars, v: Scalars, moves: Sequence[Move]) -> list[Scalar]:
    result: list[Scalar] = [0.0] * len(q)
    for (kind, i, k), move in zip(tree.coordinates, moves, strict=True):
        entries = q[i : i + kind.nq], v[k : k + kind.nv]
        result[i : i + kind.nq] = call(move, *entries)
    return result


def difference(tree: Tree, q0: Scalars, q1: Scalars) -> list[Scalar]:
    """Returns the velocity with which `integrate` leads from q0 to q1."""
    result: list[Scalar] = [0.0] * tree.nv
    for kind, i, k in tree.coordinates:
        entries = q0[i : i + kind.nq], q1[i : i + kind.nq]
        result[k : k + kind.nv] = call(kind.difference, *entries)
    return result


def interpolate(tree: Tree, q0: Scalars, q1: Scalars, fraction: Scalar) -> list[Scalar]:
    """Returns the configuration at a fraction of the way from q0 to q1."""
    return integrate(tree, q0, call(_times, fraction, difference(tree, q0, q1)))


def _times(s: Scalar, x: Scalars) -> list[Scalar]:
    return [s * entry for entry in x]


def _block_diagonal(tree: Tree, v: Scalars, block: Callable[[JointType, Scalars], Any]) -> Rows:
    """Returns the matrix with block(kind, v of the joint) for each joint."""
    rows: Rows = [[0.0] * tree.nv for _ in range(tree.nv)]
    for kind, _, k in tree.coordinates:
        of_joint = call(block, kind, v[k : k + kind.nv])
        for row, entries in zip(rows[k : k + kind.nv], of_joint, strict=True):
            row[k : k + kind.nv] = entries
    return rows


def integrate_derivatives(tree: Tree, q: Scalars, v: Scalars) -> tuple[Rows, Rows]:
    """Returns the derivatives of `integrate` by q and by v, from tangent space to tangent space."""
    return _block_diagonal(tree, v, _adjoint), _block_diagonal(tree, v, _jacobian)


def integrate_straight_derivatives(tree: Tree, u: Scalars) -> tuple[Rows, Rows]:
    """Returns the derivatives of `integrate_straight` by q and by u."""
    return (
        _block_diagonal(tree, u, lambda kind, x: (kind.straight or kind).adjoint(x)),
        _block_diagonal(tree, u, lambda kind, x: (kind.straight or kind).jacobian(x)),
    )


def difference_derivatives(tree: Tree, q0: Scalars, q1: Scalars) -> tuple[Rows, Rows]:
    """Returns the derivatives of `difference` by q0 and by q1."""
    v = difference(tree, q0, q1)
    return _block_diagonal(tree, v, _backwards), _block_diagonal(tree, v, _jacobian_inverse)


def _adjoint(kind: JointType, v: Scalars) -> Any:
    return kind.adjoint(v)


def _jacobian(kind: JointType, v: Scalars) -> Any:
    return kind.jacobian(v)


def _jacobian_inverse(kind: JointType, v: Scalars) -> Any:
    return kind.jacobian_inverse(v)


def _backwards(kind: JointType, v: Scalars) -> Any:
    """Returns how v changes with the configuration that it begins at."""
    return [[-x for x in row] for row in kind.jacobian_inverse([-x for x in v])]
