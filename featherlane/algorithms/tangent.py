"""Maps between the rates of q and the tangent space in which v lives: dq/dt = N(q) v."""

from __future__ import annotations

from collections.abc import Iterator

from featherlane.algorithms.common import Scalars
from featherlane.robot.joint_type import JointType
from featherlane.robot.model import Robot
from featherlane.scalar import Scalar, call


def _rates(model: Robot, q: Scalars) -> Iterator[tuple[int, int, Scalar]]:
    """Yields the entries of N(q): row, column, value."""
    for i in model.independent:
        kind, first_q, first_v = model.types[i], model.first_q[i], model.first_v[i]
        for row, entries in enumerate(kind.rates(q[first_q : first_q + kind.nq])):
            for column, entry in enumerate(entries):
                yield first_q + row, first_v + column, entry


def configuration_rate(model: Robot, q: Scalars, v: Scalars) -> list[Scalar]:
    """Returns dq/dt = N(q) v, nq scalars."""
    qdot: list[Scalar] = [0.0] * model.nq
    for row, column, entry in _rates(model, q):
        qdot[row] = qdot[row] + entry * v[column]
    return qdot


def _joint_near(kind: JointType, q: Scalars, v: Scalars) -> list[Scalar]:
    near = list(q)
    for row, entries in enumerate(kind.rates(q)):
        for entry, x in zip(entries, v, strict=True):
            near[row] = near[row] + entry * x
    return near


def configuration_near(model: Robot, q: Scalars, v: Scalars) -> list[Scalar]:
    """Returns q + N(q) v, the configuration that v leads to from q, to first order."""
    near: list[Scalar] = [0.0] * model.nq
    for i in model.independent:
        kind, k = model.types[i], model.first_v[i]
        entries = slice(model.first_q[i], model.first_q[i] + kind.nq)
        near[entries] = call(_joint_near, kind, q[entries], v[k : k + kind.nv])
    return near


def tangent_gradient(model: Robot, q: Scalars, g: Scalars) -> list[Scalar]:
    """Returns N(q)^T g, the gradient in the tangent space for a gradient g by q."""
    total: list[Scalar] = [0.0] * model.nv
    for row, column, entry in _rates(model, q):
        total[column] = total[column] + entry * g[row]
    return total


def _inverse_rates(model: Robot, q: Scalars) -> Iterator[tuple[int, int, Scalar]]:
    """Yields the entries of P(q), v = P(q) dq/dt, by the row and column of N(q) = P(q)^+, for
    quaternions of length 1: dq/dt = q w / 2, so that N^T N is 1/4 there, and else 1.
    """
    fours = set()
    for i in model.independent:
        for k in model.types[i].quaternions:
            fours |= set(range(model.first_q[i] + k, model.first_q[i] + k + 4))
    for row, column, entry in _rates(model, q):
        yield row, column, 4.0 * entry if row in fours else entry


def tangent_of_rate(model: Robot, q: Scalars, qdot: Scalars) -> list[Scalar]:
    """Returns the v with which q changes at the rate qdot; quaternions of q have length 1."""
    v: list[Scalar] = [0.0] * model.nv
    for row, column, entry in _inverse_rates(model, q):
        v[column] = v[column] + entry * qdot[row]
    return v


def coordinate_gradient(model: Robot, q: Scalars, g: Scalars) -> list[Scalar]:
    """Returns the gradient by q of a function with gradient g in the tangent space, that does not
    change with the length of quaternions, which is 1 in q.
    """
    total: list[Scalar] = [0.0] * model.nq
    for row, column, entry in _inverse_rates(model, q):
        total[row] = total[row] + entry * g[column]
    return total
