"""The ground of a robot's page in the browser: its step, and where the robot stands."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from featherlane.api.model import Model
from featherlane.api.stances import stance
from featherlane.errors import shown
from featherlane.functions.ground_inputs import GroundInputs
from featherlane.functions.kernels import is_long
from featherlane.functions.table import Variant
from featherlane.program.graph import Graph
from featherlane.robot.collision_shapes import CollisionShape
from featherlane.robot.contact_law import Coulomb
from featherlane.robot.ground import Ground

AUTO: Literal["auto"] = "auto"
PageGround = Ground | Literal["auto"] | None
POINTS = 16  # contact points of a step that nobody asked for; each adds some 45 kB to a module


class StepOnGround(NamedTuple):
    """A page's step, and the ground that it counts; or None, and why it counts none."""

    step: str | Graph
    ground: Ground | None = None
    why: str = ""

    def facts(self, model: Model) -> dict[str, Any]:
        """Returns what the page tells of the ground, and the configuration in which a robot with a
        free root begins on it.
        """
        if self.ground is None or isinstance(self.step, str):
            return {"ground": {"points": 0, "why": self.why}}
        points, *_ = self.step.outputs["contact_force"].shape
        ground: dict[str, Any] = {"points": points, "height": self.ground.height}
        if self.ground.shapes is not None:
            ground["shapes"] = [len(self.ground.shapes), len(model.collision_shapes)]
        facts: dict[str, Any] = {"ground": ground}
        if floats(model):
            facts["stance"] = stance(model, self.ground).tolist()
        return facts


def floats(model: Model) -> bool:
    """Returns whether the first joint is free."""
    return bool(model.types) and model.types[0].name == "free"


def step_on_page(
    model: Model, step: str | Graph | None, ground: PageGround, limit: int | None
) -> StepOnGround:
    """Returns the step of a page. step: that of the caller, which stays as it is; ground: as in
    `generate`; limit: the largest number of operations, which a step on the ground does not keep.
    Raises TypeError for what is no ground, ValueError for a ground beside a step without one.
    """
    if not (
        ground is None or isinstance(ground, Ground) or (isinstance(ground, str) and ground == AUTO)
    ):
        raise TypeError(f"ground is {shown(ground)}: wanted fl.Ground(...), 'auto' or None")
    if step is not None:
        return _of_caller(step, ground)
    if isinstance(ground, str):
        ground, why = _automatic(model, limit)
    else:
        why = "generate was called with ground=None"
    if ground is None:
        return StepOnGround("step", None, why)
    return StepOnGround(model.graph("step", ground=ground, ground_params=["impulse"]), ground)


def _of_caller(step: str | Graph, ground: PageGround) -> StepOnGround:
    """Returns the caller's step with the ground on which its robot begins."""
    if isinstance(step, Graph) and "contact_force" in step.outputs:
        return StepOnGround(step, ground if isinstance(ground, Ground) else Ground())
    if isinstance(ground, Ground):
        raise ValueError(
            "ground is passed, and the step among functions has none: wanted one of them, or "
            '{"step": model.graph("step", ground=..., ground_params=["impulse"])}'
        )
    return StepOnGround(step, None, "generate was asked for this step by name")


def _automatic(model: Model, limit: int | None) -> tuple[Ground | None, str]:
    """Returns the plane z = 0, which all shapes touch, or those on the last bodies of limbs, or the
    farthest one of each of these; or None, and why.
    """
    if not floats(model):
        return None, "its root is fixed"
    if limit is not None or is_long(model, Variant("step")):
        return None, "its code would be too long"
    if not model.collision_shapes:
        return None, "its file has no collision shapes"
    try:
        points = _inputs(Ground()).points(model)
    except ValueError as error:  # no shape touches a plane
        return None, str(error)
    if len(points) <= POINTS:
        return Ground(), ""
    touching = [*dict.fromkeys(point.pair.shape for point in points)]
    last = [shape for shape in touching if shape.body not in model.parent]
    tips = {shape.body: shape for shape in sorted(last, key=_distance)}  # the farthest of each
    for shapes in filter(None, (last, [*tips.values()])):
        ground = Ground(shapes=tuple(shape.name for shape in shapes))
        if len(_inputs(ground).points(model)) <= POINTS:
            return ground, ""
    why = f"its shapes have {len(points)} contact points with it, more than {POINTS}"
    return None, f"{why}; name those that matter in ground=fl.Ground(shapes=[...])"


def _distance(shape: CollisionShape) -> float:
    """Returns the distance of a shape from the joint of its body, m."""
    return float(np.linalg.norm(shape.placement.p))


def _inputs(ground: Ground) -> GroundInputs:
    return GroundInputs(ground, Coulomb())
