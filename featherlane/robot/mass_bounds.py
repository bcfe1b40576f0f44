"""Bounds of the entries of factors and inverse of the mass matrix, at all configurations.

With M = L^T D L (Featherstone 2008, section 6.5), W = L^-1 and M^-1 = W D^-1 W^T, all of these are
minima of v^T M v, twice the kinetic energy plus what the armatures have, and bodies have no
negative energy:

    D_k                the least with v_k = 1 while what is before k is held: at least what the body
                       that k moves has alone, at most M_kk
    S_ij, of M after   |S_ij| <= sqrt(S_ii S_jj) <= sqrt(M_ii M_jj): S is positive definite, and
    eliminations       each elimination takes from its diagonal
    L_ki = S_ki / D_k  |L_ki| <= sqrt(S_ii / D_k), and |L_ki S_kj| <= sqrt(M_ii M_jj)
    1 / (M^-1)_kk      the least with v_k = 1 while all else is free: at least what the body of k
                       and its parent have, one against the other
    (M^-1)_ij          |(M^-1)_ij| <= sqrt((M^-1)_ii (M^-1)_jj)
    W_ik               (M^-1)_ii is the sum of all W_ik^2 / D_k: |W_ik| <= sqrt(D_k (M^-1)_ii),
                       |W_ij L_jk| <= sqrt(M_kk (M^-1)_ii), and
                       |W_ik W_jk / D_k| <= sqrt((M^-1)_ii (M^-1)_jj)

Bounds of M_kk are inputs, from interval arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, exp, inf, pi, sqrt
from typing import NamedTuple

import numpy as np

from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import Articulated, Transform, crm
from featherlane.robot.tree import Tree
from featherlane.robot.tree_of import build_tree

ROUNDING = 1e-5  # relative, of the numbers in here; its square: of what they are differences of
POINTS = 100_000  # on the range of a joint, at most
CHANGE = 0.02  # relative, of the energy between two of them
WEAKEST = 1e-12  # relative: inertias with a smaller eigenvalue count as singular


class MassBounds(NamedTuple):
    """Bounds by entries of v, infinite or 0 where none is known."""

    M: Sequence[float]  # the largest M_kk
    D: Sequence[float]  # the least D_k
    Minv: Sequence[float]  # the largest (M^-1)_kk

    def entry(self, i: int, j: int) -> float:
        """Returns a bound of |M_ij|, and of what eliminations leave of it."""
        return sqrt(self.M[i] * self.M[j])

    def factor(self, k: int, i: int) -> float:
        """Returns a bound of |L_ki|."""
        return sqrt(self.M[i] / self.D[k]) if self.D[k] > 0 else inf

    def inverted(self, i: int, k: int) -> float:
        """Returns a bound of |W_ik|, and of |W_ij L_jk|."""
        return sqrt(self.M[k] * self.Minv[i])

    def scaled(self, i: int, k: int) -> float:
        """Returns a bound of |W_ik / D_k|."""
        return sqrt(self.Minv[i] / self.D[k]) if self.D[k] > 0 else inf

    def inverse(self, i: int, j: int) -> float:
        """Returns a bound of |(M^-1)_ij|."""
        return sqrt(self.Minv[i] * self.Minv[j])


def unbounded(nv: int) -> MassBounds:
    """Returns bounds of which `scalar.within` states none."""
    return MassBounds([inf] * nv, [-inf] * nv, [inf] * nv)


def mass_bounds(
    model: Robot, largest: Sequence[float], q: tuple[Sequence[float], Sequence[float]]
) -> MassBounds:
    """Returns the bounds of a robot whose bodies share no coordinates.

    largest: bounds of M_kk. q: the least and the largest value of each coordinate, which slides are
    within; turns may be any.
    """
    tree = build_tree(model, regroup=False)
    least, most = [0.0] * tree.nv, [inf] * tree.nv
    for i, freedoms in enumerate(tree.freedoms):
        k = [freedom.k for freedom in freedoms]
        S = np.array([freedom.S for freedom in freedoms], float).T
        armature = np.diag([float(tree.armature[n]) for n in k])
        alone = S.T @ _inertia(tree, i) @ S + armature
        for n, pivot in zip(k, _pivots(alone), strict=True):
            least[n] = max(pivot, 0.0) * (1 - ROUNDING)
        for n, x in zip(k, _mobility(tree, i, S, armature, alone, q), strict=True):
            most[n] = x * (1 + ROUNDING)
    return MassBounds(list(largest), least, most)


def _inertia(tree: Tree, i: int) -> np.ndarray:
    return np.array(Articulated.of(tree.inertias[i]).rows, float)


def _pivots(H: np.ndarray) -> Iterator[float]:
    """Yields the pivots of a small matrix from which the last entries are eliminated first: those
    of D in L^T D L; 0 for what nothing resists.
    """
    for k in range(len(H)):
        rest = H[k + 1 :, k + 1 :]
        taken = 0.0 if k == len(H) - 1 else H[k, k + 1 :] @ np.linalg.pinv(rest) @ H[k + 1 :, k]
        yield 0.0 if _weak(rest) else H[k, k] * (1 - ROUNDING**2) - taken


def _weak(H: np.ndarray) -> bool:
    """Tells whether a matrix counts as singular."""
    return len(H) > 0 and np.linalg.eigvalsh(H)[0] <= WEAKEST * np.trace(H)


def _mobility(
    tree: Tree,
    i: int,
    S: np.ndarray,
    armature: np.ndarray,
    alone: np.ndarray,
    q: tuple[Sequence[float], Sequence[float]],
) -> list[float]:
    """Returns bounds of (M^-1)_kk of a joint's freedoms; infinity where none is known."""
    if tree.parent[i] == WORLD:
        return [inf] * len(alone) if _weak(alone) else list(np.diag(np.linalg.inv(alone)))
    if len(alone) > 1:
        resistance = _round_parent(tree, i, S) + armature
        return [inf] * len(alone) if _weak(resistance) else list(np.diag(np.linalg.inv(resistance)))
    resisted = _against_parent(tree, i, S[:, 0], q) + armature[0, 0]
    return [1.0 / resisted if resisted > 0 else inf]


def _round_parent(tree: Tree, i: int, S: np.ndarray) -> np.ndarray:
    """Returns a bound, at any rotation, of the energies of a body against its parent for a joint
    that rotates about a point: the parent has at least those of a round body, c times as heavy.
    """
    I, to_parent = _inertia(tree, i), np.linalg.inv(_matrix(tree.X_tree[i]))
    J = to_parent.T @ _inertia(tree, tree.parent[i]) @ to_parent
    round_ = np.repeat([np.trace(J[:3, :3]) / 3, J[3, 3]], 3)
    if np.any(S[3:]) or not (round_ > 0).all():
        return np.zeros((S.shape[1], S.shape[1]))
    root = np.sqrt(round_)
    c = max(np.linalg.eigvalsh(J / root / root[:, None])[0], 0.0) * (1 - ROUNDING)
    if c <= WEAKEST:
        return np.zeros((S.shape[1], S.shape[1]))
    momentum = I @ S
    return (1 - ROUNDING**2) * S.T @ momentum - momentum.T @ np.linalg.pinv(
        I + np.diag(c * round_)
    ) @ momentum


def _against_parent(
    tree: Tree, i: int, S: np.ndarray, q: tuple[Sequence[float], Sequence[float]]
) -> float:
    """Returns a bound of twice the least energy of a body and its parent whose relative motion is
    S, at any position of the joint: with the inertias I and J of both, in one frame,

        min over p of (p + S)^T I (p + S) + p^T J p = S^T I S - S^T I (I + J)^-1 I S

    As the joint moves by x, J becomes exp(x A)^T J exp(x A), A = S x, whose energies change by at
    most a factor of exp(2 c |x|), c the norm of J^(1/2) A J^(-1/2): some positions tell of all. To
    turn I backwards instead of J is the same, so that the smaller c serves.
    """
    I, J = _inertia(tree, i), _matrix(tree.X_tree[i])
    to_parent = np.linalg.inv(J)
    J = to_parent.T @ _inertia(tree, tree.parent[i]) @ to_parent
    A = np.array([crm(S.tolist(), unit) for unit in np.eye(6).tolist()]).T
    moved, still, A = min((J, I, A), (I, J, -A), key=lambda way: _rate(way[0], A))
    rate, (k, multiplier, offset) = _rate(moved, A), tree.sources[i][0]
    low, high = sorted(multiplier * end[k] + offset for end in q)
    if not np.any(S[3:]):
        low, high = -pi, pi
    if not rate < inf or not high - low < inf:
        return 0.0
    count = min(ceil(rate * (high - low) / CHANGE) + 1, POINTS)
    step = (high - low) / count
    energy = _relative_energy(still, moved, S, A, low + step * (np.arange(count) + 0.5))
    return float(energy.min()) * exp(-rate * step)


def _rate(J: np.ndarray, A: np.ndarray) -> float:
    """Returns the norm of J^(1/2) A J^(-1/2); infinity for a singular J."""
    values, vectors = np.linalg.eigh(J)
    if values[0] <= WEAKEST * values[-1]:
        return inf
    root = np.sqrt(values)
    return float(np.linalg.norm((root[:, None] * (vectors.T @ A @ vectors)) / root, 2))


def _relative_energy(
    I: np.ndarray, J: np.ndarray, S: np.ndarray, A: np.ndarray, x: np.ndarray
) -> np.ndarray:
    """Returns S^T I S - S^T I (I + J(x))^-1 I S at positions x."""
    turn = _exponential(A, x)
    momentum = I @ S
    both = I + np.swapaxes(turn, 1, 2) @ J @ turn
    taken = np.linalg.solve(both, np.broadcast_to(momentum[:, None], (len(x), 6, 1)))[..., 0]
    return (1 - ROUNDING**2) * (S @ momentum) - taken @ momentum


def _exponential(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Returns exp(x A) of a screw A = S x with an axis of length 1, where A^5 = -2 A^3 - A, or of a
    slide, where A^2 = 0.
    """
    x = x[:, None, None]
    A2, A3, A4 = A @ A, A @ A @ A, np.linalg.matrix_power(A, 4)
    if not A2.any():
        return np.eye(6) + x * A
    s, c = np.sin(x), np.cos(x)
    return (
        np.eye(6)
        + (1.5 * s - 0.5 * x * c) * A
        + (2 - 2 * c - 0.5 * x * s) * A2
        + (0.5 * s - 0.5 * x * c) * A3
        + (1 - c - 0.5 * x * s) * A4
    )


def _matrix(X: Transform) -> np.ndarray:
    return np.array([X.motion(unit) for unit in np.eye(6).tolist()], float).T
