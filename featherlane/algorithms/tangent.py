"""Between the coordinates q and the tangent space that v lives in: dq/dt = N(q) v."""

from __future__ import annotations

from collections.abc import Iterator

from featherlane.algorithms.kinematics import Scalars
from featherlane.model import Model
from featherlane.scalar import Scalar


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


def tangent_gradient(model: Model, q: Scalars, g: Scalars) -> list[Scalar]:
    """N(q)^T g: the gradient in the tangent space of a function whose gradient by q is g."""
    total: list[Scalar] = [0.0] * model.nv
    for row, column, entry in _rates(model, q):
        total[column] = total[column] + entry * g[row]
    return total
