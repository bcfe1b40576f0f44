"""The conditioning of a robot's mass matrix M, and the card's warnings of singular ones.

The conditioning is kappa = max_i M_ii (M^-1)_ii: the factor by which more inertia resists a joint
while all others are held than while they are free. Unlike cond(M) it does not depend on units.
Functions that divide by M have an error of at most ERROR eps kappa of their largest entry (see
docs/accuracy.md; the figure is fitted by benchmarks/conditioning.py and confirmed on other robots
by tests/test_exact.py).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from math import floor, inf, log10
from typing import NamedTuple, TypeVar

import numpy as np

from featherlane.robot.loaders.words import WARNING
from featherlane.robot.massless import massless_joints, massless_notes
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import Articulated, Transform
from featherlane.robot.tree import Tree
from featherlane.robot.tree_of import tree_of

M = TypeVar("M", bound=Robot)
ERROR = 40.0  # errors of functions that divide by M, in units of eps kappa
DIGITS = {"float64": 2.0**-52, "float32": 2.0**-23}
NEARLY = 0.1 / (ERROR * DIGITS["float32"])  # the conditioning that leaves no digit in float32
PIVOT_NOISE = 1e-12  # relative: a pivot of the mass matrix that is smaller counts as zero
TAKES_PART = 0.1  # the entry of a unit eigenvector from which a joint takes part in its motion
UNIT = np.eye(6)
LARGEST_SHARED = 500  # bodies: the dense mass matrix of more bodies takes long


def singular_notes(model: Robot) -> Iterator[str]:
    """Yields notes on joints that make the mass matrix singular or nearly so at q = 0."""
    yield from massless_notes(model)
    massless = massless_joints(model)
    if tree_of(model).coupled and model.nbodies > LARGEST_SHARED:
        yield f"not checked whether M is singular: over {LARGEST_SHARED} bodies share coordinates"
    kappa = conditioning(model)
    if suspects := [i for i, x in enumerate(kappa) if x == inf and i not in massless]:
        yield (
            f"{WARNING}the mass matrix is singular or not positive definite at q = 0: "
            f"too little inertia resists {_names(model, suspects)}"
        )
    elif NEARLY < (largest := max(kappa, default=0.0)) < inf:
        weakest = [i for i, x in enumerate(kappa) if x > largest / 10]
        left = " and ".join(f"{_digits(largest, eps)} in {name}" for name, eps in DIGITS.items())
        yield (
            f"{WARNING}the mass matrix is nearly singular at q = 0 (conditioning {largest:.0e}): "
            f"correct digits of what divides by it are {left}; "
            f"little inertia resists {_names(model, weakest)}"
        )


def noted(old: M, new: M, *notes: str) -> M:
    """Returns an edited robot with the notes of the old one, those on its own mass matrix in place
    of the old one's, and these.
    """
    outdated, fresh = {*singular_notes(old)}, [*singular_notes(new)]
    kept = [note for note in old.notes if note not in outdated]
    return replace(new, notes=(*fresh, *kept, *notes))


def singular_joints(model: Robot) -> list[str]:
    """Returns the names of the joints that make the mass matrix singular at q = 0."""
    return [model.joints[i].name for i, x in enumerate(conditioning(model)) if x == inf]


def _names(model: Robot, joints: list[int]) -> str:
    return ", ".join(model.joints[i].name for i in joints)


def _digits(kappa: float, eps: float) -> int:
    return max(0, floor(-log10(ERROR * eps * kappa)))


def conditioning(model: Robot) -> list[float]:
    """Returns the largest M_kk (M^-1)_kk of each joint's degrees of freedom at q = 0; infinity
    where M is singular, and 1 for mimic joints and for robots that would take long.
    """
    tree = tree_of(model)
    if tree.coupled:
        ratios = _shared_ratios(model, tree)
        return [
            float(np.max(ratios[list(model.dofs[i])])) if model.joints[i].mimic is None else 1.0
            for i in range(model.nbodies)
        ]
    result = [1.0] * model.nbodies
    for i, ratio in enumerate(_ratios(tree)):
        body = bisect_left(tree.carriers, i)
        result[body] = max(result[body], ratio)
    return result


class _Eliminated(NamedTuple):
    """An eliminated joint, with D = S^T IA S + armature: D^-1, D^-1 U^T and the remaining
    inertia.
    """

    Dinv: np.ndarray
    K: np.ndarray
    IA: np.ndarray


def _ratios(tree: Tree) -> Iterator[float]:
    """Yields the largest M_kk (M^-1)_kk of each body's joint.

    Inward, D_i = S^T IA S with the articulated-body inertia IA (Featherstone 2008, chapter 7); M is
    positive definite if and only if every D_i is. Outward, the bodies' responses to forces on them,
    the inverses of their operational-space inertias (Kreutz-Delgado, Jain and Rodriguez 1992). At
    q = 0, XJ(q) is the identity.
    """
    IA: list[np.ndarray] = [np.array(Articulated.of(inertia).rows) for inertia in tree.inertias]
    IC, X = [I.copy() for I in IA], [_matrix(x) for x in tree.X_tree]
    S = [np.array([freedom.S for freedom in freedoms]).T for freedoms in tree.freedoms]
    armature = [
        np.array([float(tree.armature[f.k]) for f in freedoms]) for freedoms in tree.freedoms
    ]
    joints: list[_Eliminated | None] = [None] * tree.nbodies
    for i in range(tree.nbodies - 1, -1, -1):
        joint = joints[i] = _eliminated(IA[i], IC[i], S[i], np.diag(armature[i]))
        remaining = IA[i] if joint is None else joint.IA
        if (p := tree.parent[i]) != WORLD:
            IA[p] += X[i].T @ remaining @ X[i]
            IC[p] += X[i].T @ IC[i] @ X[i]
    response: list[np.ndarray] = []
    for i, joint in enumerate(joints):
        p = tree.parent[i]
        moved = np.zeros((6, 6)) if p == WORLD else X[i] @ response[p] @ X[i].T
        if joint is not None:
            M = (S[i] * (IC[i] @ S[i])).sum(0) + armature[i]
            inverse = joint.Dinv.diagonal() + (joint.K @ moved * joint.K).sum(1)
            yield float((M * inverse).max())
            rest = UNIT - S[i] @ joint.K
            moved = rest @ moved @ rest.T + S[i] @ joint.Dinv @ S[i].T
        else:
            yield inf
        response.append(moved)


def _eliminated(
    IA: np.ndarray, IC: np.ndarray, S: np.ndarray, armature: np.ndarray
) -> _Eliminated | None:
    """Eliminates a joint; None if D is not positive definite by a margin."""
    U = IA @ S
    D = S.T @ U + armature
    moments = IC.diagonal()
    scale = (S[:3] ** 2).sum(0) * moments[:3].sum() + (S[3:] ** 2).sum(0) * moments[3:].sum()
    if not (D.diagonal() > PIVOT_NOISE * scale).all():
        return None
    root = np.sqrt(D.diagonal())
    scaled = D / root / root[:, None]
    if not np.isfinite(scaled).all():
        return None
    if len(D) > 1:
        if np.linalg.eigvalsh(scaled)[0] <= PIVOT_NOISE:
            return None
        scaled = np.linalg.inv(scaled)
    Dinv = scaled / root / root[:, None]
    K = Dinv @ U.T
    return _Eliminated(Dinv, K, IA - U @ K)


def _shared_ratios(model: Robot, tree: Tree) -> np.ndarray:
    """Returns M_kk (M^-1)_kk where joints share coordinates, from M = sum of J_i^T I_i J_i.

    A row of M is compared with the inertia that its joint would feel if bodies moved rigidly.
    """
    q = [0.0] * model.nq
    for i in model.independent:
        q[model.first_q[i] : model.first_q[i] + model.types[i].nq] = model.types[i].neutral
    if tree.nbodies > LARGEST_SHARED:
        return np.ones(model.nv)
    J: list[np.ndarray] = []
    M, scale = np.diag(model.armature), np.array(model.armature)
    for i, inertia in enumerate(tree.inertias):
        J.append(np.zeros((6, model.nv)))
        if tree.parent[i] != WORLD:
            J[i] += _matrix(tree.joint_transform(i, q)) @ J[tree.parent[i]]
        for freedom in tree.freedoms[i]:
            J[i][:, freedom.k] += freedom.S
        I: np.ndarray = np.array(Articulated.of(inertia).rows)
        M += J[i].T @ I @ J[i]
        trace = np.repeat([np.trace(I[:3, :3]), np.trace(I[3:, 3:])], 3)
        scale += trace @ J[i] ** 2
    return _scaled_ratios(M, scale)


def _scaled_ratios(M: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Returns M_kk (M^-1)_kk; infinity for coordinates that take part in a motion that almost no
    inertia resists.
    """
    root = np.sqrt(np.where(scale > 0, scale, 1.0))
    M = M / root / root[:, None]
    if not np.all(np.isfinite(M)):
        return np.ones(len(M))
    values, vectors = np.linalg.eigh(M)
    weak = values < PIVOT_NOISE
    taking_part = np.sum(vectors[:, weak] ** 2, 1) > TAKES_PART**2
    inverse = np.sum(vectors[:, ~weak] ** 2 / values[~weak], 1)
    return np.where(taking_part, inf, np.diag(M) * inverse)


def _matrix(X: Transform) -> np.ndarray:
    return np.array([X.motion(tuple(unit)) for unit in np.eye(6)]).T
