"""Stages of all knots on a design of several functions, by its own cycle model.

A stage is a task of forward dynamics, which the next stage of its knot waits for, and one of the
derivatives at the same state, which is two passes: three passes where the pipeline of `circuit.py`
takes one. The host makes the state of the next stage, whose time is not in these figures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from circuit import ACCELERATION, FORCE, SPEED
from robot import FEET, Quadruped

import featherlane as fl
from featherlane.backends.fpga.network.cycles import run

FORWARD, DERIVATIVES = "forward_dynamics", "forward_dynamics_derivatives"


def stages_on_network(
    robot: Quadruped, knots: int, interval: int, stages: int = 4
) -> dict[str, Any]:
    """Figures of the design, and the microseconds from the first task to the last result."""
    most = {"v": SPEED, "a": ACCELERATION, "f_ext": FORCE}
    ranges = {name: (-np.array(high), np.array(high)) for name, high in most.items()}
    made = fl.multifunction(
        robot.model, [FORWARD, DERIVATIVES], interval=interval, format="fitted", sharing="class",
        algorithm="factor", ranges=ranges, f_ext="world", frames=FEET,
    )  # fmt: skip
    codes = [made.network.codes[name] for name in (FORWARD, DERIVATIVES)]
    tasks, after = list[int](), list[int | None]()
    for stage in range(stages):
        for code in codes:
            waits = code == codes[0] and stage > 0
            before = len(tasks) - 2 * knots
            after += [before + k if waits else None for k in range(knots)]
            tasks += [code] * knots
    found = run(made.network, tasks, after=after)
    row = {"interval": made.interval, "us": 1e-3 * made.clock * int(found.emitted.max())}
    row |= {f"cycles of {name}": cycles for name, cycles in made.latency.items()}
    return row | {f"{name} %": x for name, x in made.cost.shares._asdict().items()}
