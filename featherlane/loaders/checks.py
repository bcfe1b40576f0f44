"""Masses and inertias that are refused, and those that are accepted but told on the card."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from featherlane.errors import ModelError
from featherlane.loaders.specs import LinkSpec
from featherlane.loaders.tree import Moving
from featherlane.loaders.words import WARNING, quoted
from featherlane.model import WORLD, Model
from featherlane.spatial import Articulated

INERTIA_DIGITS = 1e-6  # relative: files print inertias with about this many digits
SINGULAR = 1e-12


def check_finite(model: Model, moving: Moving) -> None:
    """Sums and products of figures near the largest float are infinite."""
    for joint, body, (spec, _) in zip(model.joints, model.bodies, moving, strict=True):
        com = np.array(body.com)
        figures = [*joint.placement.p, *np.ravel(body.inertia), *com, body.mass * (com @ com)]
        if not np.all(np.isfinite(figures)):
            raise ModelError(f"{spec.where}: what it moves has figures too large to compute with")
    positions = [frame.placement.p for frame in model.frames]
    if not np.all(np.isfinite(positions)) or not np.isfinite(model.ground_mass):
        raise ModelError(f"{model.source}: its figures are too large to compute with")


def check_inertia(model: Model, moving: Moving) -> None:
    """Refuses a joint that moves nothing with inertia: any force would accelerate it infinitely."""
    resists = [body.mass > 0 or bool(np.any(body.inertia)) for body in model.bodies]
    for i in range(model.nbodies - 1, -1, -1):
        if resists[i] and model.parent[i] != WORLD:
            resists[model.parent[i]] = True
    if not all(resists):
        spec, _ = moving[resists.index(False)]
        raise ModelError(
            f"{spec.where}: link {quoted(spec.child)} and all that hangs on it have no mass and "
            f"no inertia, so nothing resists joint {quoted(spec.name)} and the mass matrix has no "
            'inverse; give the link an <inertial>, or make the joint type="fixed"'
        )


def inertia_notes(links: Iterable[LinkSpec]) -> Iterator[str]:
    """Links whose figures no solid body can have, one note for each way to be impossible."""
    found: dict[str, list[str]] = {title: [] for title in SUSPICIONS}
    for link in links:
        for title, suspicion in SUSPICIONS.items():
            told = suspicion(link.mass, np.linalg.eigvalsh(np.array(link.inertia)))
            if told is not None:
                found[title].append(link.name + told)
    return (f"{title}: {', '.join(names)}" for title, names in found.items() if names)


def _noise(moments: np.ndarray) -> float:
    return INERTIA_DIGITS * float(np.abs(moments).max())


def _negative(mass: float, moments: np.ndarray) -> str | None:
    return f" ({moments[0]:.3g})" if moments[0] < -_noise(moments) else None


def _triangle(mass: float, moments: np.ndarray) -> str | None:
    low, middle, high = np.where(np.abs(moments) < _noise(moments), 0.0, moments)
    broken = low >= 0 and high - low - middle > _noise(moments)
    return f" ({low + middle:.3g} < {high:.3g})" if broken else None


def _massless(mass: float, moments: np.ndarray) -> str | None:
    return "" if mass == 0 and np.any(moments) else None


def _point(mass: float, moments: np.ndarray) -> str | None:
    return "" if mass > 0 and not np.any(moments) else None


SUSPICIONS: dict[str, Callable[[float, np.ndarray], str | None]] = {
    f"{WARNING}negative principal moments of inertia, in kg m^2": _negative,
    f"{WARNING}inertias that break the triangle inequality, I1 + I2 < I3": _triangle,
    f"{WARNING}links with rotational inertia but no mass": _massless,
    "point masses, without rotational inertia": _point,
}
"""What is said of a link, or None, given its mass and its principal moments in ascending order."""


def singular_notes(model: Model) -> Iterator[str]:
    """Joints that make the mass matrix singular or indefinite at q = 0.

    M = L^T D L with D_i = S^T IA S, IA the articulated-body inertia (Featherstone, chapter 7):
    M is positive definite if and only if every D_i is. Joint transforms are 1 at q = 0.
    """
    tree = model.tree
    IA = [np.array(Articulated.of(inertia).rows) for inertia in tree.inertias]
    IC = [I.copy() for I in IA]
    suspects = set()
    for i in range(tree.nbodies - 1, -1, -1):
        armature = [float(tree.armature[freedom.k]) for freedom in tree.freedoms[i]]
        S = np.array([freedom.S for freedom in tree.freedoms[i]]).T
        reduced = _eliminated(IA[i], IC[i], S, np.diag(armature))
        if reduced is None:
            suspects.add(min(body for body, at in enumerate(tree.carriers) if at >= i))
        else:
            IA[i] = reduced
        if tree.parent[i] != WORLD:
            X = np.array([tree.X_tree[i].motion(tuple(unit)) for unit in np.eye(6)]).T
            IA[tree.parent[i]] += X.T @ IA[i] @ X
            IC[tree.parent[i]] += X.T @ IC[i] @ X
    if suspects:
        yield (
            f"{WARNING}the mass matrix is singular or not positive definite at q = 0: "
            f"too little inertia resists {', '.join(model.joints[i].name for i in sorted(suspects))}"
        )


def _eliminated(
    IA: np.ndarray, IC: np.ndarray, S: np.ndarray, armature: np.ndarray
) -> np.ndarray | None:
    """IA - U D^-1 U^T, or None if D is not positive definite by a margin."""
    U = IA @ S
    D = S.T @ U + armature
    angular, linear = np.trace(IC[:3, :3]), np.trace(IC[3:, 3:])
    scale = np.sum(S[:3] ** 2, 0) * angular + np.sum(S[3:] ** 2, 0) * linear
    if not np.all(np.diag(D) > SINGULAR * scale):
        return None
    root = np.sqrt(np.diag(D))
    U, D = U / root, D / root / root[:, None]
    if not (np.all(np.isfinite(D)) and np.linalg.eigvalsh(D)[0] > SINGULAR):
        return None
    return IA - U @ np.linalg.solve(D, U.T)
