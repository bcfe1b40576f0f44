"""Steps in time that are stable, from a robot's damping, friction and springs at one state.

With M a = -R v, explicit methods shrink the velocity while dt < 2 / r, where r is the largest
eigenvalue of M^-1 R; with M a = -K q, semi-implicit ones are stable while dt < 2 / sqrt(s), where s
is that of M^-1 K (the table of docs/time_steps.md). At rest friction f resists with f / v_f.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from featherlane.algorithms import mass_matrix
from featherlane.robot.model import Robot
from featherlane.robot.tree_of import tree_of


class Stiff(NamedTuple):
    """The joint that moves the most in the stiffest mode, and the largest stable dt, s."""

    joint: str
    dt: float


class StableSteps(NamedTuple):
    """The stiffest joints of a robot; None where it has no such forces.

    resistance: of damping and friction, for explicit methods. springs: for all methods. light: the
    joint that feels the least inertia, kg m^2 or kg, and that inertia.
    """

    resistance: Stiff | None
    springs: Stiff | None
    light: tuple[str, float]


def stable_steps(model: Robot) -> StableSteps | None:
    """Returns the stable steps about the neutral position; None where M has no inverse, and where
    damping or stiffness are beyond what its modes can be computed of, 1e150 and the like.
    """
    q = [x for i in model.independent for x in model.types[i].neutral]
    M = np.array(mass_matrix(tree_of(model), q), float)
    resistance = model.damping + model.friction / model.friction_velocity
    try:
        half = np.linalg.inv(np.linalg.cholesky(M))
        damped = _stiffest(model, half, resistance, 1.0)
        sprung = _stiffest(model, half, model.stiffness, 0.5)
    except np.linalg.LinAlgError:
        return None
    inertia = 1 / np.sum(half * half, 0)
    k = int(np.argmin(inertia))
    return StableSteps(damped, sprung, (_joint_of(model, k), float(inertia[k])))


def _stiffest(model: Robot, half: np.ndarray, D: np.ndarray, power: float) -> Stiff | None:
    """Returns the stiffest mode of M^-1 D, M^-1 = half^T half, and dt = 2 / eigenvalue^power."""
    if not np.any(D > 0):
        return None
    values, vectors = np.linalg.eigh(half * D @ half.T)
    if not values[-1] > 0:
        return None
    share = D * (half.T @ vectors[:, -1]) ** 2
    return Stiff(_joint_of(model, int(np.argmax(share))), 2 / float(values[-1]) ** power)


def _joint_of(model: Robot, k: int) -> str:
    """Returns the joint that entry k of v belongs to."""
    return next(model.joints[i].name for i in model.independent if k in model.dofs[i])
