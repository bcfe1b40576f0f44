"""First derivatives of the dynamics of robots of many links, and the Coriolis matrix.

What belongs to a single freedom is recorded (`algorithms.derivative_products`); the entries of a
derivative are products of matrices of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.algorithms.derivative_products import (
    ByCoriolis,
    ByPosition,
    ByVelocity,
    coriolis_factors,
    factors,
)
from featherlane.callwise import recording
from featherlane.columns import forward_dynamics, mass_matrix_inverse, states
from featherlane.functions import Variant
from featherlane.model import Model
from featherlane.tree import Tree

TOGETHER = 64  # states whose factors are in memory at once


class Meetings(NamedTuple):
    """Which freedoms meet, as (n, n) masks and pairs.

    behind[i, j]: j's body is an ancestor of i's; apart: neither is of the other, None if no two
    are; joint: the pairs within joints; owners: the entry of v of each, None if they are in order.
    """

    behind: np.ndarray
    apart: np.ndarray | None
    joint: tuple[np.ndarray, ...]
    owners: np.ndarray | None


def meetings(tree: Tree) -> Meetings:
    owners = np.array([k for own in tree.freedoms for k, _ in own])
    body = np.array([i for i, own in enumerate(tree.freedoms) for _ in own])
    behind = np.zeros((len(body), len(body)), bool)
    for i, line in enumerate(tree.above):
        behind[i, list(line)] = True
    joint = body[:, None] == body
    behind &= ~joint
    apart = ~(behind | behind.T | joint)
    in_order = np.array_equal(owners, np.arange(tree.nv))
    return Meetings(
        behind, apart if apart.any() else None, joint.nonzero(), None if in_order else owners
    )


def _split(rows: np.ndarray, widths: Sequence[int]) -> list[np.ndarray]:
    """Views of columns."""
    return np.split(rows, np.cumsum(widths)[:-1], axis=-1)


class _Products:
    """Matrices whose entries are of two freedoms each, from rows that belong to one."""

    def __init__(self, model: Model, variant: Variant, dtype: Any, assemble: Any) -> None:
        self.run = recording(model, variant, dtype, assemble=assemble)
        self.cores = [len(core) for core in self.run.inputs]
        self.meetings = meetings(model.tree)

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        for at, own in states(arrays, self.cores, out[0].shape[:-2], TOGETHER):
            results = [x[at] for x in out]
            lead = results[0].shape[:-2]
            rows = [np.empty(lead + size, out[0].dtype) for size in self.run.outputs]
            self.run(*own, out=rows)
            for n in np.ndindex(lead):
                self.products([x[n] for x in rows], [x[n] for x in results])

    def products(self, rows: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> None:
        """Of one state."""
        raise NotImplementedError

    def entries(
        self,
        S: np.ndarray,
        onto: np.ndarray,
        below: np.ndarray,
        above: np.ndarray,
        out: np.ndarray,
    ) -> np.ndarray:
        """For each two freedoms, in `out` if that has their order."""
        behind, apart, _, owners = self.meetings
        to = None if owners is not None else out
        entries = np.matmul(S, onto.T, out=to)
        np.copyto(entries, below @ above.T, where=behind)
        if apart is not None:
            entries[apart] = 0.0
        return entries

    def put(self, entries: np.ndarray, out: np.ndarray) -> None:
        """Freedoms that share coordinates share entries."""
        k = self.meetings.owners
        if k is not None:
            out[...] = 0.0
            np.add.at(out, (k[:, None], k), entries)


class InverseDerivatives(_Products):
    """dtau/dq and dtau/dv."""

    def __init__(self, model: Model, variant: Variant, dtype: Any) -> None:
        variant = variant._replace(method=variant.method or "serial")
        super().__init__(model, variant, dtype, factors)

    def products(self, rows: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> None:
        S, onto, below, above, own = _split(rows[0], ByPosition())
        entries = self.entries(S, onto, below, above, out[0])
        i, j = self.meetings.joint
        entries[i, j] = np.einsum("nk,nk->n", S[i], own[j])
        self.put(entries, out[0])
        onto, above, slope = _split(rows[1], ByVelocity())
        entries = self.entries(S, onto, below[:, : above.shape[1]], above, out[1])
        i = np.arange(len(entries))
        entries[i, i] += slope[:, 0]
        self.put(entries, out[1])


class CoriolisMatrix(_Products):
    def __init__(self, model: Model, variant: Variant, dtype: Any) -> None:
        super().__init__(model, variant, dtype, coriolis_factors)

    def products(self, rows: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> None:
        S, onto, below, above = _split(rows[0], ByCoriolis())
        self.put(self.entries(S, onto, below, above, out[0]), out[0])


class DerivativesFrom:
    """da/dq and da/dv of a state with known M^-1: -M^-1 dtau/dx."""

    def __init__(self, model: Model, variant: Variant, dtype: Any) -> None:
        inverse = variant._replace(name="inverse_dynamics_derivatives")
        self.derivatives = InverseDerivatives(model, inverse, dtype)

    def __call__(
        self,
        q: np.ndarray,
        v: np.ndarray,
        a: np.ndarray,
        minv: np.ndarray,
        *others: np.ndarray,
        out: Sequence[np.ndarray],
    ) -> None:
        self.derivatives(q, v, a, *others, out=out)
        minv = np.broadcast_to(minv, out[0].shape)
        for at in np.ndindex(out[0].shape[:-2]):
            for dx in out:
                np.negative(minv[at] @ dx[at], out=dx[at])


class ForwardDerivatives:
    """da/dq, da/dv and da/dtau = M^-1, at a = FD(q, v, tau)."""

    def __init__(self, model: Model, variant: Variant, dtype: Any) -> None:
        inverse = Variant("mass_matrix_inverse", parameters=variant.parameters)
        self.forward = forward_dynamics(model, variant._replace(name="forward_dynamics"), dtype)
        self.inverse = mass_matrix_inverse(model, inverse, dtype)
        self.through = DerivativesFrom(model, variant, dtype)
        self.parameters = len(variant.parameters)

    def __call__(
        self,
        q: np.ndarray,
        v: np.ndarray,
        tau: np.ndarray,
        *others: np.ndarray,
        out: Sequence[np.ndarray],
    ) -> None:
        a = np.empty(out[0].shape[:-1], out[0].dtype)
        self.forward(q, v, tau, *others, out=[a])
        self.inverse(q, *others[len(others) - self.parameters :], out=[out[2]])
        self.through(q, v, a, out[2], *others, out=out[:2])
