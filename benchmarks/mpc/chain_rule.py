"""The part of a host in steps of the fourth order where an accelerator computes the dynamics.

The same plan of kernels and products as in `model.linearize_step`, with accelerations and their
derivatives as inputs in place of the kernel that computes them: so both take the same time for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from featherlane.api.model import Model
from featherlane.backends.cpu.sequence.kernel import compile_plan
from featherlane.functions.function import Function, KernelsByDtype
from featherlane.functions.kernels import RobotKernels, variant_kernel
from featherlane.functions.sequences import planned
from featherlane.functions.table import Variant
from featherlane.functions.variants import input_shapes, output_shapes, variant_key
from featherlane.program.plan import Copy, KernelRun, Matrices, Multiply, Plan, PlanStep, Use

DYNAMICS = "forward_dynamics_and_derivatives"
STAGES = ("1", "2", "3", "4")


def piece(model: Model, variant: Variant) -> Function:
    """A function that steps consist of, as one of arrays."""
    shapes = input_shapes(model, variant), output_shapes(model, variant)
    return Function(variant.name, *shapes, RobotKernels(model, variant))


def products(model: Model, variant: Variant) -> int:
    """The multiplications of the chain rule's products of matrices, for one state."""
    steps = [step for step in planned(model, variant)[0].steps if isinstance(step, Matrices)]
    work = [x for step in steps for x in step.work if isinstance(x, Multiply)]
    return sum(x.rows * x.inner * x.columns for x in work)


def chain_rule(model: Model, variant: Variant) -> Function:
    """The next q and v, A and B from the inputs of `linearize_step` and, behind them, a, da_dq,
    da_dv and da_dtau of each of the four stages. variant: of linearize_step.
    """
    plan, variants = planned(model, variant)
    dynamics = [piece.name for piece in variants].index(DYNAMICS)
    parts = [piece for piece in variants if piece.name != DYNAMICS]
    number = {old: parts.index(piece) for old, piece in enumerate(variants) if old != dynamics}
    names = [f"{what}{k}" for k in STAGES for what in ("a", "da_dq", "da_dv", "da_dtau")]
    inputs = {**plan.inputs, **{name: plan.shapes[name] for name in names}}
    copied = {name: f"{name}_given" for name in names if name[:5] in ("da_dq", "da_dv")}
    inputs = {copied.get(name, name): shape for name, shape in inputs.items()}
    begin: list[PlanStep] = [Copy(Use(given), Use(name)) for name, given in copied.items()]
    steps = [
        step._replace(kernel=number[step.kernel]) if isinstance(step, KernelRun) else step
        for step in plan.steps
        if not (isinstance(step, KernelRun) and step.kernel == dynamics)
    ]
    temporaries = {k: x for k, x in plan.temporaries.items() if k not in inputs}
    made = Plan(inputs, plan.outputs, [*begin, *steps], temporaries, plan.scratch)
    assert all(isinstance(step, KernelRun | Copy | Matrices) for step in made.steps)
    key = f"chain rule of {variant_key(model, variant)}"

    def kernel(dtype: np.dtype) -> Any:
        kernels = [variant_kernel(model, part, dtype) for part in parts]
        return compile_plan(made, kernels, key, dtype, False)

    return Function("chain_rule", made.inputs, made.outputs, KernelsByDtype(kernel))
