"""The backward step of iterative LQR for large robots: derivatives of a step and its cost by
kernels, and then the Riccati step as a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from featherlane.backends.cpu.compile import Kernel, compile_program
from featherlane.backends.cpu.sequence.kernel import compile_plan
from featherlane.backends.llvm import jit
from featherlane.backends.progress import compiling
from featherlane.functions.function import Function, KernelsByDtype
from featherlane.functions.optimal_control import OF_ROBOT, ControlProblem, gathered
from featherlane.functions.results import named_results
from featherlane.functions.riccati import Feedback, held_rows, limited_minimum
from featherlane.functions.riccati_plan import RiccatiSizes, Shape, riccati_plan
from featherlane.program.array import trace
from featherlane.program.program import Program
from featherlane.program.rewrite import simplify

Array = Any  # traced


class PiecewiseSlopes:
    """The kernel `slopes` of a problem for which that would be too long: derivatives of the step
    and of the cost by a kernel each, put together by NumPy.
    """

    def __init__(self, problem: ControlProblem, linear: Any, expanded: Any) -> None:
        """linear: `linearize_step` of the model; expanded: the compiled `expansion`."""
        self.linear, self.expanded = linear, expanded
        self.inputs, self.outputs = problem.inputs("slopes"), problem.sizes.work_shapes
        self.params, self.size = problem.params, problem.sizes
        self.first = np.r_[problem.states : problem.sizes.all, : problem.states]  # of [du; dx]

    def __call__(self, *arrays: np.ndarray, out: Any, threads: int | None) -> None:
        x = dict(zip(self.inputs, arrays, strict=True))
        arrays_out = dict(zip(self.outputs, out, strict=True))
        steps, cost = arrays_out["steps"], arrays_out["cost"]
        of_step = x | {name: x[OF_ROBOT.format(name)] for name in self.params}
        *_, A, B = self.linear(*[of_step[name] for name in self.linear.inputs], threads=threads)
        named = [x[name] for name in self.expanded.inputs]
        gradient, hessian, *renewal = self.expanded(*named, threads=threads)
        n, m = A.shape[-1], B.shape[-1]
        steps[:, :n, : m + n], steps[:, :n, m + n :] = np.concatenate([B, A], -1), 0.0
        for slopes in renewal:
            steps[:, n:] = slopes[..., self.first]
        if "gap" in x:
            arrays_out["shift"][...] = x["gap"][..., None]
        ordered = hessian[..., self.first[:, None], self.first]
        cost[...] = self.size.packed_cost(gradient[..., self.first], ordered)


def backward_of(problem: ControlProblem) -> tuple[Any, ...]:
    """Returns the kernels of a backward step, in their order."""
    if not problem.large:
        return (problem.function("backward"),)
    riccati = riccati_function(problem.sizes)
    if problem.fused:
        return problem.function("slopes"), riccati
    options: dict[str, Any] = {"integrator": problem.integrator, "actuation": problem.actuation}
    options["params"] = problem.params
    if (held := problem.constraints) is not None:
        options |= held._asdict()
    if problem.ground is not None:
        options |= {"ground": problem.ground.ground, "law": problem.ground.law}
    linear = problem.model.function("linearize_step", **options)  # type: ignore[attr-defined]
    return PiecewiseSlopes(problem, linear, problem.function("expansion")), riccati


@lru_cache(maxsize=16)
def riccati_function(size: RiccatiSizes) -> Function:
    """Returns the plan of these sizes as a function of batches."""
    plan = riccati_plan(size, lanes=1)  # of which the arrays are those for all lanes
    parts = [("sums", _sums, size.sums_inputs)]
    if size.limited:
        parts.append(("bounded", _bounded, size.bounded_inputs))

    def compiled(dtype: np.dtype) -> Kernel:
        with compiling(f"riccati of ilqr, {size.states} states ({dtype})"):
            kernels = [_compiled_part(size, *part, dtype) for part in parts]
            of_lanes = riccati_plan(size, jit.widest(dtype))
            return compile_plan(of_lanes, kernels, f"riccati {size}", dtype, single=False)

    collect = named_results(tuple(plan.outputs))
    return Function("riccati", plan.inputs, plan.outputs, KernelsByDtype(compiled), collect)


def _compiled_part(
    size: RiccatiSizes,
    name: str,
    function: Callable[[RiccatiSizes, Mapping[str, Array]], dict[str, Array]],
    shapes: dict[str, Shape],
    dtype: np.dtype,
) -> Kernel:
    def run(*arrays: Array) -> dict[str, Array]:
        return function(size, dict(zip(shapes, arrays, strict=True)))

    return compile_program(
        lambda: Program(simplify(trace(run, shapes))), f"riccati {name} {size}", dtype
    )


def _symmetric(upper: Array) -> Array:
    """Returns a matrix whose lower triangle is that of the upper one."""
    return np.where(np.tri(len(upper), dtype=bool), upper.T, upper)


def _sums(size: RiccatiSizes, x: Mapping[str, Array]) -> dict[str, Array]:
    """Gathers what is expected of the feedback at a knot, see `riccati.Crossed`."""
    m, k, definite = size.controls, x["k_now"], x["definite"]
    Quu, Qu = _symmetric(x["eliminated"][:, :m]), x["eliminated"][:, m]
    if size.limited:
        convex = np.all(np.diagonal(Quu) + x["damping"] > 0.0)  # of what is held, too
        definite = np.where((definite > 0.0) & ~convex, 0.0, definite)
    slope, curvature = Qu @ k, k @ (Quu @ k)
    if size.gaps:
        gap, (gradient, share) = x["gap"], x["ahead"].T
        ahead = x["eliminated"][:, m + 1] @ k + share @ gap
        slope = slope + gradient @ gap - ahead
        curvature = curvature + 2.0 * ahead - (share - x["share"]) @ gap
    magnitude = np.sum(np.abs(np.diagonal(Quu)))
    law = Feedback(k, None, slope, curvature, magnitude, definite)
    return {"sums_before": gathered(x["sums"], law)}


def _bounded(size: RiccatiSizes, x: Mapping[str, Array]) -> dict[str, Array]:
    """Finds the controls between limits, and the rows that are eliminated in place of theirs."""
    m, z = size.controls, size.all
    H = _symmetric(x["rows"][:, :m]) + np.eye(m) * x["damping"]
    low, high = x["limits"]
    k, free, _ = limited_minimum(x["rows"][:, z], H, low - x["tau"], high - x["tau"])
    behind = x["rows"][:, z] + H @ k
    right = np.concatenate([x["rows"][:, m:z], behind[:, None], x["rows"][:, z + 1 :]], -1)
    rows = np.concatenate([held_rows(H, free), right * free[:, None]], -1)
    return {"free_rows": rows, "k_now": k}
