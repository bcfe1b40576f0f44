"""The seven functions that a robot has: those without M^-1 where joints move no mass, and those
that do not depend on loops where it has loops.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from featherlane.functions.table import FUNCTIONS
from featherlane.robot.massless import massless_joints
from featherlane.robot.model import Robot


def functions_of(model: Robot) -> tuple[str, ...]:
    """Returns the names of the seven functions, without those that divide by M if it has no
    inverse, and those that need the robot's loops.
    """
    massless, loops = massless_joints(model), model.loop_closures
    return tuple(
        name
        for name, f in FUNCTIONS.items()
        if not (massless and f.divides) and not (loops and f.with_loops)
    )


def left_out(model: Robot) -> Iterator[str]:
    """Yields a line on the functions that a robot does not have, if there are any."""
    if joints := massless_joints(model):
        names = ", ".join(model.joints[i].name for i in joints)
        yield f"left out what divides by M, which has no inverse: no mass is moved by {names}"
    if model.loop_closures:
        names = ", ".join(name for name, f in FUNCTIONS.items() if f.with_loops)
        yield f"left out what needs the robot's loops as constraints: {names}"


def usual_functions(model: Robot) -> tuple[str, ...]:
    """Returns `functions_of`, where a caller names none, and warns of those that are left out."""
    for line in left_out(model):
        warnings.warn(f"{model.name}: {line}", stacklevel=3)
    return functions_of(model)
