"""The warning of rollouts that end in NaN."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.api.stable_steps import stable_steps
from featherlane.robot.model import Robot

CALLER = 4  # frames from the warning to the line of the user: rollout, and what presents it


def warn_if_diverged(model: Robot, moved: Any, inputs: tuple[Any, ...], integrator: str) -> None:
    """Warns if the last state of a rollout is not finite though its inputs are; of NumPy's arrays
    alone: a look at what is on a GPU would wait for it. The text says nothing of the states, so
    that Python shows it once.
    """
    v = moved.v
    if type(v) is not np.ndarray or v.dtype.kind != "f" or np.isfinite(v[..., -1, :]).all():
        return
    if all(np.isfinite(np.asarray(x)).all() for x in inputs):
        on_ground = hasattr(moved, "contact_force")
        advice = ON_GROUND if on_ground else _advice(model, integrator)
        text = _text(model, inputs[-1], integrator, advice)
        warnings.warn(text, RuntimeWarning, stacklevel=CALLER)


ON_GROUND = (
    "on the ground that is mostly a body without shapes that fell through it, or joints that whirl "
    "without armature, damping and limits: look at the states before that row, and at residual; "
    "more shapes in fl.Ground(shapes=...), model.with_physics(armature=0.01, damping=0.1), "
    "law=fl.Coulomb(limits=True) or a shorter dt keep motions finite"
)


def _text(model: Robot, dt: Any, integrator: str, advice: str) -> str:
    return (
        f"rollouts of {model.name!r} with integrator={integrator!r} and dt = {_seconds(dt)} are "
        f"not finite in the end, trajectory.diverged says which and from which row on; {advice}"
    )


def _seconds(dt: Any) -> str:
    least, most = float(np.min(dt)), float(np.max(dt))
    return f"{least:g} s" if least == most else f"{least:g} to {most:g} s"


def _advice(model: Robot, integrator: str) -> str:
    """Names the stiffest joint, or where nothing is stiff the one that whirls first, and what lets
    steps be longer.
    """
    steps = stable_steps(model)
    if steps is None:
        return "its mass matrix has no inverse"
    parts = []
    if steps.resistance and not INTEGRATORS[integrator].damped:
        joint, dt = steps.resistance
        parts.append(
            f"damping and friction of {joint!r} want dt below {dt:.2g} s but with "
            "'implicit_damping'"
        )
    if steps.springs:
        joint, dt = steps.springs
        parts.append(f"the spring of {joint!r} wants dt below {dt:.2g} s")
    if not parts:
        joint, inertia = steps.light
        parts.append(
            f"{joint!r} feels the least inertia, {inertia:.2g} kg m^2 or kg, and whirls: Coriolis "
            "forces are explicit; armature, damping, limits='soft' at load, a shorter dt or, "
            "without a ground, 'rk4' keep motions finite"
        )
    return "; ".join(parts)
