"""The description of a robot in a WebAssembly library, and the functions that its page calls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from featherlane.api.card import portable_card
from featherlane.api.model import Model
from featherlane.api.page_ground import PageGround, StepOnGround, step_on_page
from featherlane.functions.figure import figure
from featherlane.program.graph import Graph
from featherlane.robot.collision_shapes import CollisionShape
from featherlane.robot.parts import Joint
from featherlane.version import __version__

ON_PAGE = ("inverse_dynamics", "mass_matrix", "step")  # what a page computes, besides the figure
FREE = ("vx", "vy", "vz", "ωx", "ωy", "ωz")  # the entries of v of a free joint
UNLIMITED = {"rad": math.pi, "m": 1.0}  # the ends of a slider without limits


def with_page(
    named: Mapping[str, str | Graph], model: Model, ground: PageGround, limit: int | None
) -> tuple[dict[str, str | Graph], StepOnGround]:
    """Returns functions with those that a page needs and that are not among them, and its step with
    the ground; see `step_on_page`.
    """
    step = step_on_page(model, named.get("step"), ground, limit)
    more = {name: step.step if name == "step" else name for name in ON_PAGE if name not in named}
    if "figure" not in named:
        more["figure"] = figure(model).graph
    return {**named, **more}, step


def facts(model: Model | None, name: str, step: StepOnGround | None = None) -> dict[str, Any]:
    """The description of a module in JSON: the robot's card, its coordinates, its figure."""
    entries: dict[str, Any] = {"name": name, "featherlane": __version__}
    if model is None:
        return entries
    neutral = np.asarray(model.neutral()).tolist()
    entries |= step.facts(model) if step else {}
    return entries | {
        "card": portable_card(model),
        "nq": model.nq,
        "nv": model.nv,
        "neutral": neutral,
        "lines": figure(model).lines,
        "coordinates": [each for i in model.independent for each in _coordinates(model, i)],
        "velocities": [name for i in model.independent for name in _velocities(model, i)],
        "shapes": [_shape(shape) for shape in model.collision_shapes if shape.size],
    }


def _velocities(model: Model, i: int) -> list[str]:
    """The names of a joint's entries of v."""
    joint, kind = model.joints[i], model.types[i]
    if kind.nv == 1:
        return [joint.name]
    ends = FREE if kind.name == "free" else [str(k + 1) for k in range(kind.nv)]
    return [f"{joint.name} {end}" for end in ends]


def _shape(shape: CollisionShape) -> dict[str, Any]:
    """A collision shape that is drawn on its body: all but planes and hulls, which have no size."""
    place = {"R": np.ravel(shape.placement.R).tolist(), "p": list(shape.placement.p)}
    return {"body": shape.body, "kind": shape.kind, "size": list(shape.size), **place}


def _coordinates(model: Model, i: int) -> list[dict[str, Any]]:
    """The entries of q of a joint that a slider can move: those that change as fast as v says."""
    joint, kind = model.joints[i], model.types[i]
    sliders = []
    for k in range(kind.nq if kind.has_plain_rates else 0):
        unit = kind.unit_of(k)
        low, high = _ends(joint, k, UNLIMITED[unit])
        sliders.append(
            {
                "name": f"{joint.name} {k + 1}" if kind.nq > 1 else joint.name,
                "unit": unit,
                "q": model.first_q[i] + k,
                "v": model.first_v[i] + k,
                "lower": low,
                "upper": high,
            }
        )
    return sliders


def _ends(joint: Joint, k: int, unlimited: float) -> tuple[float, float]:
    """The ends of the slider of entry k. Limits of 0 and 0 stand for none in some files."""
    low, high = (ends[k] if k < len(ends) else math.inf for ends in (joint.lower, joint.upper))
    if math.isfinite(low) and math.isfinite(high) and low < high:
        return low, high
    return -unlimited, unlimited
