"""Between the coordinates q and the tangent space that v lives in: dq/dt = N(q) v."""

from __future__ import annotations

from collections.abc import Iterator

from featherlane.algorithms.common import Scalars
from featherlane.robot.joints import JointType
from featherlane.robot.model import Model
from featherlane.scalar import Scalar, call


def _rates(model: Model, q: Scalars) -> Iterator[tuple[int, int, Scalar]]:
    """The entries of N(q): row, column, value."""
    for i in model.independent:
        kind, at, k = model.types[i], model.first_q[i], model.first_v[i]
        for row, entries in enumerate(kind.rates(q[at : at + kind.nq])):
            for column, entry in enumerate(entries):
                yield at + row, k + column, entry


def configuration_rate(model: Model, q: Scalars, v: Scalars) -> list[Scalar]:
    """N(q) v: dq/dt, nq scalars."""
    qdot: list[Scalar] = [0.0] * model.nq
    for row, column, entry in _rates(model, q):
        qdot[row] = qdot[row] + entry * v[column]
    return qdot


def _near(kind: JointType, q: Scalars, v: Scalars) -> list[Scalar]:
    """`configuration_near` of a joint."""
    near = list(q)
    for row, entries in enumerate(kind.rates(q)):
        for entry, x in zip(entries, v, strict=True):
            near[row] = near[row] + entry * x
    return near


def configuration_near(model: Model, q: Scalars, v: Scalars) -> list[Scalar]:
    """q + N(q) v: where v leads from q, to first order."""
    near: list[Scalar] = [0.0] * model.nq
    for i in model.independent:
        kind, at, k = model.types[i], model.first_q[i], model.first_v[i]
        own = call(_near, kind, q[at : at + kind.nq], v[k : k + kind.nv])
        near[at : at + kind.nq] = own
    return near


def tangent_gradient(model: Model, q: Scalars, g: Scalars) -> list[Scalar]:
    """N(q)^T g: the gradient in the tangent space of a function whose gradient by q is g."""
    total: list[Scalar] = [0.0] * model.nv
    for row, column, entry in _rates(model, q):
        total[column] = total[column] + entry * g[row]
    return total
