"""Functions of long robots: an algorithm recorded as calls of few steps, and run as a program.

A graph of 2,000 links is more code than can be compiled or fetched. StepEvaluator, it is some dozen
pieces of code, each as long as one link's step, and a list of what they are applied to.
"""

from __future__ import annotations

from typing import Any

from featherlane.backends.cpu.steps.run import StepEvaluator, block_length
from featherlane.functions.dynamics_function import Algorithm
from featherlane.functions.table import Variant
from featherlane.functions.tracing import scalar_function
from featherlane.functions.variants import input_shapes
from featherlane.program.lower import traced
from featherlane.program.trace import no_garbage
from featherlane.robot.model import Robot
from featherlane.robot.tree_of import tree_of

HALVED = 3  # leading binary digits of a length that are kept
WIDE = ("scan", "abia", "cfa", "dca")  # the methods that are parallel in the links
OPTIONS: dict[tuple[str, str], dict[str, Any]] = {  # what makes a recorded method faster
    ("inverse_dynamics", "scan"): {"together": True},  # transforms are composed once, not twice
    ("forward_dynamics", "cfa"): {"elimination": "cyclic_reduction"},
}


def recording(
    model: Robot, variant: Variant, dtype: Any, algorithm: Algorithm | None = None, **options: Any
) -> StepEvaluator:
    """One algorithm of a robot, see `scalar_function`. options: further arguments of it."""
    wide, block = variant.method in WIDE, None
    if wide and "method" not in options:
        block = block_length(tree_of(model).nbodies, dtype)
        if variant.method == "cfa":
            block = _halving(block)
        options |= {"method": "reduce_then_scan", "block": block}
        options |= OPTIONS.get((variant.name, str(variant.method)), {})
    function = scalar_function(model, variant, algorithm, **options)
    assert function is not None
    with no_garbage():
        program = traced(function, input_shapes(model, variant), "cpu steps")
        return StepEvaluator(program, dtype, wide, block)


def _halving(block: int) -> int:
    """Returns the next length that cyclic reduction can halve often, alike in all lanes."""
    step = 1 << max(block.bit_length() - HALVED, 0)
    return -(-block // step) * step
