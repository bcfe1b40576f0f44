"""Checks of a robot's figures: those that are refused, and those that the card warns of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import hypot, isfinite, isinf, isnan

import numpy as np

from featherlane.errors import ModelError
from featherlane.robot.constants import eigenvalues
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.loaders.specs import JointSpec, LinkSpec
from featherlane.robot.loaders.tree import Moving
from featherlane.robot.loaders.words import WARNING, counted, quoted
from featherlane.robot.model import WORLD, Robot
from featherlane.robot.spatial import Articulated, Transform, dot
from featherlane.robot.tree_of import tree_of

INERTIA_DIGITS = 1e-6  # relative: files print inertias with about six digits
PIVOT_NOISE = 1e-12  # relative: a pivot of the mass matrix that is smaller counts as zero
UNIT_NOISE = 1e-9  # by which the length of a unit vector may differ from 1
PARALLEL = 1 - 1e-9  # the cosine from which two axes count as parallel
TAKES_PART = 0.1  # the entry of a unit eigenvector from which a joint takes part in its motion
LARGEST_SHARED = 500  # bodies: the dense mass matrix of more takes long
PER_Q = ("lower", "upper")
PER_V = ("armature", "damping", "friction")
LIMITS = ("velocity", "effort")


def check_joint(spec: JointSpec) -> None:
    """Raises ModelError for figures that are too many or too few for the type, or not finite."""
    if spec.type == "fixed":
        return
    kind = JOINT_TYPES[spec.type]
    for names, wanted, per in (
        (PER_Q, kind.nq, "coordinate"),
        (PER_V, kind.nv, "degree of freedom"),
    ):
        for name in names:
            figures = getattr(spec, name)
            if len(figures) not in (0, wanted):
                raise ModelError(
                    f"{spec.where}: its {name} has {counted(len(figures), 'number')}; a "
                    f"{spec.type} joint has {wanted}, one for each {per}"
                )
            if any(map(isnan, figures)) or (name in PER_V and any(map(isinf, figures))):
                raise ModelError(f"{spec.where}: its {name} is {figures}; wanted finite numbers")
    _check_axes(spec)


def _check_axes(spec: JointSpec) -> None:
    axes = {"axis": spec.axis} if JOINT_TYPES[spec.type].axis else {}
    if spec.type == "universal":
        axes["axis2"] = spec.axis2
    for name, axis in axes.items():
        if len(axis) != 3 or not abs(hypot(*axis) - 1) < UNIT_NOISE:
            raise ModelError(f"{spec.where}: its {name} is {axis}; wanted a unit vector")
    if len(axes) == 2 and abs(sum(a * b for a, b in zip(*axes.values(), strict=True))) > PARALLEL:
        raise ModelError(f"{spec.where}: its axis and axis2 are parallel; wanted two directions")
    if not isfinite(spec.pitch):
        raise ModelError(f"{spec.where}: its pitch is {spec.pitch}; wanted m/rad")


def check_finite(model: Robot, moving: Moving) -> None:
    """Raises ModelError for figures whose sums and products overflow."""
    for joint, body, (spec, _) in zip(model.joints, model.bodies, moving, strict=True):
        com = np.array(body.com)
        figures = [*joint.placement.p, *np.ravel(body.inertia), *com, body.mass * (dot(com, com))]
        figures.append(joint.pitch * joint.pitch * body.mass)
        if not np.all(np.isfinite(figures)):
            raise ModelError(f"{spec.where}: what it moves has figures too large to compute with")
    positions = [frame.placement.p for frame in model.frames]
    physics = [*model.armature, *model.damping, *model.friction]
    if not np.all(np.isfinite(positions)) or not np.all(np.isfinite([model.ground_mass, *physics])):
        raise ModelError(f"{model.source}: its figures are too large to compute with")


def check_inertia(model: Robot, moving: Moving) -> None:
    """Raises ModelError for a joint that moves no inertia: any force accelerates it infinitely.

    A mimic joint moves with its leader; inertia on one of them is enough.
    """
    resists = [body.mass > 0 or bool(np.any(body.inertia)) for body in model.bodies]
    for i in range(model.nbodies - 1, -1, -1):
        if resists[i] and model.parent[i] != WORLD:
            resists[model.parent[i]] = True
    moved = np.array(model.armature > 0)
    for i in range(model.nbodies):
        moved[model.dofs[i].start : model.dofs[i].stop] |= resists[i]
    for i in range(model.nbodies):
        if not all(moved[k] for k in model.dofs[i]):
            raise ModelError(_nothing_resists(moving[i][0]))


def _nothing_resists(spec: JointSpec) -> str:
    return (
        f"{spec.where}: link {quoted(spec.child)} and all links beyond it have no mass and no "
        f"inertia, so nothing resists joint {quoted(spec.name)} and the mass matrix has no "
        "inverse; give the link mass and inertia, or make the joint fixed"
    )


def inertia_notes(links: Iterable[LinkSpec]) -> Iterator[str]:
    """Yields a note for each kind of impossible inertia, with the links that have it."""
    suspects: dict[str, list[str]] = {title: [] for title in SUSPICIONS}
    for link in links:
        moments = np.array(eigenvalues(link.inertia))
        for title, suspicion in SUSPICIONS.items():
            detail = suspicion(link.mass, moments)
            if detail is not None:
                suspects[title].append(link.name + detail)
    return (f"{title}: {', '.join(names)}" for title, names in suspects.items() if names)


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
"""A detail, or None for no suspicion, of a link's mass and ascending principal moments."""


def physics_notes(model: Robot) -> Iterator[str]:
    """Yields a note for each kind of joint physics or limit that is negative."""
    titles = {name: name for name in PER_V} | {name: f"{name} limits" for name in LIMITS}
    for name, title in titles.items():
        negative = [j.name for j in model.joints if np.any(np.array(getattr(j, name)) < 0)]
        if negative:
            yield f"{WARNING}negative {title}: {', '.join(negative)}"


def singular_notes(model: Robot) -> Iterator[str]:
    """Yields a note on joints that make the mass matrix singular or indefinite at q = 0."""
    suspects = _shared_suspects(model) if tree_of(model).coupled else _suspects(model)
    if suspects:
        names = ", ".join(model.joints[i].name for i in sorted(suspects))
        yield (
            f"{WARNING}the mass matrix is singular or not positive definite at q = 0: "
            f"too little inertia resists {names}"
        )


def _suspects(model: Robot) -> set[int]:
    """Returns the joints whose D_i is not positive definite, in M = L^T D L at q = 0.

    D_i = S^T IA S, with the articulated-body inertia IA (Featherstone 2008, chapter 7), and M is
    positive definite if and only if every D_i is. XJ(q) is the identity at q = 0.
    """
    tree = tree_of(model)
    IA: list[np.ndarray] = [np.array(Articulated.of(inertia).rows) for inertia in tree.inertias]
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
            X = _matrix(tree.X_tree[i])
            IA[tree.parent[i]] += X.T @ IA[i] @ X
            IC[tree.parent[i]] += X.T @ IC[i] @ X
    return suspects


def _shared_suspects(model: Robot) -> set[int]:
    """Returns the suspects where joints share coordinates, from M = sum of J_i^T I_i J_i.

    A row of M is compared with the inertia that its joint would feel if bodies moved rigidly.
    """
    tree, q = tree_of(model), [0.0] * model.nq
    for i in model.independent:
        q[model.first_q[i] : model.first_q[i] + model.types[i].nq] = model.types[i].neutral
    if tree.nbodies > LARGEST_SHARED:
        return set()
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
    weak = _weak(M, scale)
    return {i for i in model.independent if weak[list(model.dofs[i])].any()}


def _weak(M: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Tells which coordinates take part in a motion that next to no inertia resists."""
    root = np.sqrt(np.where(scale > 0, scale, 1.0))
    M = M / root / root[:, None]
    if not np.all(np.isfinite(M)):
        return np.zeros(len(M), bool)
    values, vectors = np.linalg.eigh(M)
    return np.asarray(np.sum(vectors[:, values < PIVOT_NOISE] ** 2, 1) > TAKES_PART**2)


def _matrix(X: Transform) -> np.ndarray:
    return np.array([X.motion(tuple(unit)) for unit in np.eye(6)]).T


def _eliminated(
    IA: np.ndarray, IC: np.ndarray, S: np.ndarray, armature: np.ndarray
) -> np.ndarray | None:
    """Returns IA - U D^-1 U^T, or None if D is not positive definite by a margin."""
    U = IA @ S
    D = S.T @ U + armature
    angular, linear = np.trace(IC[:3, :3]), np.trace(IC[3:, 3:])
    scale = np.sum(S[:3] ** 2, 0) * angular + np.sum(S[3:] ** 2, 0) * linear
    if not np.all(np.diag(D) > PIVOT_NOISE * scale):
        return None
    root = np.sqrt(np.diag(D))
    U, D = U / root, D / root / root[:, None]
    if not (np.all(np.isfinite(D)) and np.linalg.eigvalsh(D)[0] > PIVOT_NOISE):
        return None
    return IA - U @ np.linalg.solve(D, U.T)
