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
from featherlane.robot.loaders.words import WARNING, counted
from featherlane.robot.model import Robot
from featherlane.robot.spatial import dot
from featherlane.robot.unlimited import UNLIMITED

INERTIA_DIGITS = 1e-6  # relative: files print inertias with about six digits
UNIT_NOISE = 1e-9  # by which the length of a unit vector may differ from 1
PARALLEL = 1 - 1e-9  # the cosine from which two axes count as parallel
PER_Q = ("lower", "upper")
PHYSICS = ("armature", "damping", "friction", "stiffness")
PER_V = (*PHYSICS, "spring_reference")
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
    if any(spec.stiffness) and kind.nv != 1:
        raise ModelError(
            f"{spec.where}: it is {spec.type} and has a spring; wanted a joint of one degree of "
            "freedom"
        )
    _check_axes(spec)


def _check_axes(spec: JointSpec) -> None:
    axes = {"axis": spec.axis} if JOINT_TYPES[spec.type].axis else {}
    if JOINT_TYPES[spec.type].chain:
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
    physics = [x for name in PER_V for x in getattr(model, name)]
    if not np.all(np.isfinite(positions)) or not np.all(np.isfinite([model.ground_mass, *physics])):
        raise ModelError(f"{model.source}: its figures are too large to compute with")


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
    """Yields a note for each kind of joint physics or limit that is negative, or a limit of 0."""
    titles = {name: name for name in PHYSICS} | {name: f"{name} limits" for name in LIMITS}
    for name, title in titles.items():
        negative = [j.name for j in model.joints if np.any(np.array(getattr(j, name)) < 0)]
        if negative:
            yield f"{WARNING}negative {title}: {', '.join(negative)}"
    for name in LIMITS:
        zero = [joint.name for joint in model.joints if getattr(joint, name) == 0]
        if zero:
            yield f"{name} limits of 0, which count as none: {', '.join(zero)}"


def huge_limit_notes(specs: Iterable[JointSpec]) -> Iterator[str]:
    """Yields a note on limits so large that they mean none, each with its largest figure."""
    names = []
    for spec in specs:
        limits = (*spec.lower, *spec.upper, *(getattr(spec, name) for name in LIMITS))
        most = max((abs(x) for x in limits if isfinite(x)), default=0.0)
        if most >= UNLIMITED:
            names.append(f"{spec.name} ({most:.3g})")
    if names:
        yield f"limits from {UNLIMITED:g} on, which count as none: {', '.join(names)}"
