"""Operations as graphs, as sources for GPUs and as compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from featherlane.backends.cpu.compile import Kernel, compile_program
from featherlane.backends.cpu.sequence.kernel import compile_plan
from featherlane.functions.function import Function, KernelsByDtype
from featherlane.functions.gpu import OnGPU, Source, source_of
from featherlane.functions.kernels import variant_kernel
from featherlane.functions.operations import TANGENTS, Operation
from featherlane.functions.rollout_derivatives import Sum, derivative_plan
from featherlane.functions.steps import solved_step
from featherlane.functions.tracing import dynamics_graph
from featherlane.functions.variants import variant_key
from featherlane.program.derivatives.products import adjoints, tangents
from featherlane.program.graph import Graph
from featherlane.program.plan import Composite
from featherlane.program.program import Program
from featherlane.program.trace import call, trace


def function_of(op: Operation) -> Function:
    """The compiled function of an operation, which its model keeps."""
    model: Any = op.model
    if not op.steps:
        return model._function(op.variant)
    kept = model.__dict__.setdefault("_derivatives", {})
    key = op.variant, op.steps
    if key not in kept:
        kept.setdefault(key, _compiled(op))
    return kept[key]


def _compiled(op: Operation) -> Function:
    key = f"{variant_key(op.model, op.variant)} {op.steps}"

    def kernel(dtype: np.dtype) -> Kernel:
        if op.variant.steps:
            return _rollout_kernel(op, key, dtype)
        return compile_program(lambda: Program(graph_of(op)), key, dtype)

    name = "_".join((op.variant.name, *(step.mode for step in op.steps)))
    on_gpu = OnGPU(f"{key} derivative", lambda: source(op))
    return Function(name, op.inputs, op.outputs, KernelsByDtype(kernel, gpu=on_gpu))


def _rollout_kernel(op: Operation, key: str, dtype: np.dtype) -> Kernel:
    """The kernel of the first derivative of a rollout."""
    plan, pieces = derivative_plan(op)
    parts = [_piece_kernel(piece, dtype) for piece in pieces]
    return compile_plan(plan, parts, f"{key} plan", dtype, False)


def _piece_kernel(piece: Operation | Sum, dtype: np.dtype) -> Kernel:
    if isinstance(piece, Sum):
        return compile_program(piece.program, piece.key, dtype)
    if not piece.steps:
        return variant_kernel(piece.model, piece.variant, dtype)
    kernel = function_of(piece).kernel(dtype)
    assert kernel is not None, "steps of robots of any length have kernels"
    return kernel


def source(op: Operation | Sum) -> Source:
    """The program of an operation, or the plan of programs, that GPUs run."""
    if isinstance(op, Sum):
        return op.program()
    if not op.steps:
        return source_of(op.model, op.variant)
    if op.variant.steps:
        plan, pieces = derivative_plan(op)
        return Composite(plan, [source(piece) for piece in pieces])
    return Program(graph_of(op))


def graph_of(op: Operation) -> Graph:
    """The graph of an operation, which is that of the function itself without steps."""
    if not op.steps:
        return dynamics_graph(op.model, op.variant)
    mode, wrt = op.steps[-1]
    special = DERIVATIVES.get(op.variant.name) if len(op.steps) == 1 else None
    if special is not None and (graph := special(op)) is not None:
        return graph
    derive = tangents if mode == TANGENTS else adjoints
    return derive(graph_of(op.before), wrt, op.prefix)


def _solved(op: Operation) -> Graph:
    """A derivative of forward dynamics: that of inverse dynamics at the same state, solved with the
    mass matrix, in fewer operations than the derivative of the articulated-body algorithm.

    ID(q, v, FD(q, v, tau)) = tau, so M da = dtau - dID; its transpose weights ID with -M^-1 w.
    """
    mode, wrt = op.steps[0]
    base = op.variant._replace(method=None)
    forward = dynamics_graph(op.model, base)
    inverse = dynamics_graph(op.model, base._replace(name="inverse_dynamics"))
    solve, prefix = tangents(forward, ["tau"], "d_"), op.prefix
    others = [x for x in wrt if x != "tau"]
    of = (tangents if mode == TANGENTS else adjoints)(inverse, others, prefix)

    def along(*inputs: Any) -> dict[str, Any]:
        values = dict(zip(op.inputs, inputs, strict=True))
        force = values.get(f"{prefix}tau", [0.0] * op.model.nv)
        if others:
            a = call(forward, **values)["a"]
            moved = call(of, **values, a=a)[f"{prefix}tau"]
            force = [t - m for t, m in zip(force, moved, strict=True)]
        return {f"{prefix}a": call(solve, **values, d_tau=force)["d_a"]}

    def weighted(*inputs: Any) -> dict[str, Any]:
        values = dict(zip(op.inputs, inputs, strict=True))
        force = call(solve, **values, d_tau=values[f"{prefix}a"])["d_a"]
        gradients = {f"{prefix}tau": force}
        if others:
            a = call(forward, **values)["a"]
            weight = {f"{prefix}tau": [-x for x in force]}
            gradients |= call(of, **values, a=a, **weight)
        return {prefix + x: gradients[prefix + x] for x in wrt}

    return trace(along if mode == TANGENTS else weighted, op.inputs)


def _of_contacts(op: Operation) -> Graph | None:
    """A derivative of a step on the ground, by the equations that it solves. None for others.

    Residuals, and the impulses at which sweeps begin, have none.
    """
    if op.variant.ground is None:
        return None
    (mode, wrt), prefix = op.steps[0], op.prefix
    graphs = partial(dynamics_graph, op.model)

    def run(*inputs: Any) -> dict[str, Any]:
        values = dict(zip(op.inputs, inputs, strict=True))
        step = solved_step(op.model, op.variant, values, graphs)
        if mode == TANGENTS:
            moved = step.along({x: values[prefix + x] for x in wrt})
        else:
            weights = {x: values[prefix + x] for x in op.before.outputs}
            moved = step.backwards(weights, wrt)
        return {x: moved[x.removeprefix(prefix)] for x in op.outputs}

    return trace(run, op.inputs)


DERIVATIVES: dict[str, Callable[[Operation], Graph | None]] = {
    "forward_dynamics": _solved,
    "step": _of_contacts,
}
"""First derivatives that are cheaper than differentiating the function's graph."""
