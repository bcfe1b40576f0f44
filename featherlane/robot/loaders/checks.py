"""Figures that are refused, and those that are accepted but told on the card."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import hypot, isfinite, isinf, isnan

import numpy as np

from featherlane.errors import ModelError
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.loaders.specs import JointSpec, LinkSpec
from featherlane.robot.loaders.tree import Moving
from featherlane.robot.loaders.words import WARNING, counted, quoted
from featherlane.robot.model import WORLD, Model
from featherlane.robot.spatial import Articulated, Transform
from featherlane.robot.tree_of import tree_of

INERTIA_DIGITS = 1e-6  # relative: files print inertias with about this many digits
SINGULAR = 1e-12
UNIT_NOISE = 1e-9
PARALLEL = 1 - 1e-9
TAKES_PART = 0.1  # of a unit vector
LARGEST_SHARED = 500  # bodies: the dense mass matrix of more takes long
PER_Q = ("lower", "upper")
PER_V = ("armature", "damping", "friction")
LIMITS = ("velocity", "effort")


def check_joint(spec: JointSpec) -> None:
    """Refuses figures that are not as many as the type of joint wants, or not finite."""
    if spec.type == "fixed":
        return
    kind = JOINT_TYPES[spec.type]
    for names, wanted, per in (
        (PER_Q, kind.nq, "coordinate"),
        (PER_V, kind.nv, "degree of freedom"),
    ):
        for name in names:
            given = getattr(spec, name)
            if len(given) not in (0, wanted):
                raise ModelError(
                    f"{spec.where}: its {name} has {counted(len(given), 'number')}; a {spec.type} "
                    f"joint has {wanted}, one for each {per}"
                )
            if any(map(isnan, given)) or (name in PER_V and any(map(isinf, given))):
                raise ModelError(f"{spec.where}: its {name} is {given}; wanted finite numbers")
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


def check_finite(model: Model, moving: Moving) -> None:
    """Sums and products of figures near the largest float are infinite."""
    for joint, body, (spec, _) in zip(model.joints, model.bodies, moving, strict=True):
        com = np.array(body.com)
        figures = [*joint.placement.p, *np.ravel(body.inertia), *com, body.mass * (com @ com)]
        figures.append(joint.pitch * joint.pitch * body.mass)
        if not np.all(np.isfinite(figures)):
            raise ModelError(f"{spec.where}: what it moves has figures too large to compute with")
    positions = [frame.placement.p for frame in model.frames]
    physics = [*model.armature, *model.damping, *model.friction]
    if not np.all(np.isfinite(positions)) or not np.all(np.isfinite([model.ground_mass, *physics])):
        raise ModelError(f"{model.source}: its figures are too large to compute with")


def check_inertia(model: Model, moving: Moving) -> None:
    """Refuses a joint that moves nothing with inertia: any force would accelerate it infinitely.

    A mimic joint moves with its leader, and one of them with inertia is enough.
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
        f"{spec.where}: link {quoted(spec.child)} and all that hangs on it have no mass and "
        f"no inertia, so nothing resists joint {quoted(spec.name)} and the mass matrix has no "
        "inverse; give the link mass and inertia, or make the joint fixed"
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


def physics_notes(model: Model) -> Iterator[str]:
    """Joint physics and limits that no machine has."""
    negative = {
        w: [j.name for j in model.joints if min(getattr(j, w), default=0) < 0] for w in PER_V
    }
    for what in LIMITS:
        negative[f"{what} limits"] = [j.name for j in model.joints if getattr(j, what) < 0]
    for title, names in negative.items():
        if names:
            yield f"{WARNING}negative {title}: {', '.join(names)}"


def singular_notes(model: Model) -> Iterator[str]:
    """Joints that make the mass matrix singular or indefinite at q = 0."""
    suspects = _shared_suspects(model) if tree_of(model).coupled else _suspects(model)
    if suspects:
        names = ", ".join(model.joints[i].name for i in sorted(suspects))
        yield (
            f"{WARNING}the mass matrix is singular or not positive definite at q = 0: "
            f"too little inertia resists {names}"
        )


def _suspects(model: Model) -> set[int]:
    """M = L^T D L with D_i = S^T IA S, IA the articulated-body inertia (Featherstone, chapter 7):
    M is positive definite if and only if every D_i is. Joint transforms are 1 at q = 0.
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


def _shared_suspects(model: Model) -> set[int]:
    """The same where bodies share coordinates: M itself, J_i^T I_i J_i over all bodies.

    The rows of M are measured by the inertia that the joints would have if they moved it rigidly.
    """
    tree, q = tree_of(model), [0.0] * model.nq
    for i in model.independent:
        q[model.first_q[i] : model.first_q[i] + model.types[i].nq] = model.types[i].neutral
    if tree.nbodies > LARGEST_SHARED:
        return set()
    J: list[np.ndarray] = []
    M, scale = np.diag(model.armature), np.array(model.armature)
    for i, inertia in enumerate(tree.inertias):
        own = np.zeros((6, model.nv))
        if tree.parent[i] != WORLD:
            own += _matrix(tree.joint_transform(i, q)) @ J[tree.parent[i]]
        for freedom in tree.freedoms[i]:
            own[:, freedom.k] += freedom.S
        I: np.ndarray = np.array(Articulated.of(inertia).rows)
        M += own.T @ I @ own
        trace = np.repeat([np.trace(I[:3, :3]), np.trace(I[3:, 3:])], 3)
        scale += trace @ own**2
        J.append(own)
    weak = _weak(M, scale)
    return {i for i in model.independent if weak[list(model.dofs[i])].any()}


def _weak(M: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Which coordinates take part in a motion that next to nothing resists."""
    root = np.sqrt(np.where(scale > 0, scale, 1.0))
    M = M / root / root[:, None]
    if not np.all(np.isfinite(M)):
        return np.zeros(len(M), bool)
    values, vectors = np.linalg.eigh(M)
    return np.asarray(np.any(np.abs(vectors[:, values < SINGULAR]) > TAKES_PART, 1))


def _matrix(X: Transform) -> np.ndarray:
    return np.array([X.motion(tuple(unit)) for unit in np.eye(6)]).T


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
