"""PyTorch: `wrap(model)` has every function of a model on tensors, with derivatives of any order.

All functions of all models are one custom operator: its first argument says which function, and
its derivative is the operator itself with another function, so that derivatives have derivatives.
Tensors are float32 or float64, on the CPU or a GPU, and are read and returned without a copy, on a
GPU on PyTorch's current stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from featherlane.api.model import Model
from featherlane.functions.differentiated import function_of
from featherlane.functions.operations import Operation
from featherlane.functions.table import Variant
from featherlane.interop.texts import adjoints, operation, tangents, text_of, text_of_model
from featherlane.interop.wrapped import WrappedModel, in_front, lead_of, required

if TYPE_CHECKING:
    from torch import Tensor

torch = required("torch", "torch")
forward_ad = import_module("torch.autograd.forward_ad")
unwrap_dead_wrappers = import_module("torch._functorch.utils").unwrap_dead_wrappers
Tensor = torch.Tensor
PLAIN = (Tensor, torch.nn.Parameter)
Tensors = list[Any]
DEVICES = ("cpu", "cuda", "meta")
SCHEMA = "(str function, Tensor[] arrays) -> Tensor[]"


def wrap(model: Model) -> WrappedModel[Tensor]:
    """The functions of a model on tensors, differentiable by all of them (q by its nq entries).

    Arguments:
        model: the robot

    Examples:
        >>> import torch
        >>> from featherlane.interop import torch as interop
        >>> q = torch.tensor([0.3, -0.5], dtype=torch.float64, requires_grad=True)
        >>> interop.wrap(arm).potential_energy(q).backward()
        >>> np.allclose(q.grad, arm.gravity_torque(q.detach().numpy()))
        True
    """
    text, texts = text_of_model(model) if isinstance(model, Model) else "", dict[Variant, str]()

    def run(variant: Variant, arrays: Sequence[Any]) -> Sequence[Any]:
        if variant not in texts:
            texts[variant] = text_of(text, variant)
        return _run(texts[variant], _tensors(arrays))

    return WrappedModel(model, run, wrap)


def _tensors(arrays: Sequence[Any]) -> Tensors:
    """The arrays as tensors on one device; numbers and lists go to that of the first tensor, and
    take its dtype.
    """
    first = next((x for x in arrays if isinstance(x, Tensor)), None)
    dtype, device = (torch.float64, "cpu") if first is None else (first.dtype, first.device)
    tensors = [
        x
        if isinstance(x, Tensor) and x.dtype != torch.bool
        else torch.as_tensor(x, dtype=dtype, device=device)
        for x in arrays
    ]
    for x in tensors:
        if x.device.type not in DEVICES:
            raise TypeError(f"a tensor is on {x.device}: wanted the CPU or CUDA, pass .cpu()")
        if x.device != tensors[0].device:
            listed = ", ".join(str(x.device) for x in tensors)
            raise TypeError(f"tensors are on the devices {listed}: wanted one for all")
        if x.dtype != dtype or dtype not in (torch.float32, torch.float64):
            listed = ", ".join(str(x.dtype) for x in tensors)
            raise TypeError(f"tensors have the dtypes {listed}: wanted float32 or float64 for all")
    return tensors


@torch.library.custom_op("featherlane::evaluate", mutates_args=(), schema=SCHEMA)
def evaluate(function: str, arrays: Tensors) -> Tensors:
    op = operation(function)
    if _is_on_gpu(arrays[0]):
        results = function_of(op)(*_even([x.detach() for x in arrays], op))
        return [*results] if isinstance(results, tuple) else [results]
    return _on_cpu(op, arrays)


def _on_cpu(op: Operation, arrays: Sequence[Any]) -> Tensors:
    """The results of an operation with tensors on the CPU."""
    values = [(x.detach() if x.requires_grad else x).numpy() for x in arrays]
    results = function_of(op)(*values)
    return [torch.from_numpy(x) for x in (results if isinstance(results, tuple) else (results,))]


def _is_on_gpu(x: Any) -> bool:
    return x.device.type == "cuda"


def _even(arrays: Tensors, op: Operation) -> Tensors:
    """The tensors with states that lie evenly in memory, as kernels on GPUs read them: a state for
    all others stays one, what is broadcast otherwise is copied.
    """
    lead = lead_of([x.shape for x in arrays], op.inputs, torch.broadcast_shapes)
    pairs = zip(arrays, op.inputs.values(), strict=True)
    ones = [x.shape[: x.ndim - len(core)].numel() == 1 for x, core in pairs]
    return [
        (x if one else x.expand(*lead, *core)).contiguous()
        for x, core, one in zip(arrays, op.inputs.values(), ones, strict=True)
    ]


@evaluate.register_fake
def _shapes(function: str, arrays: Tensors) -> Tensors:
    op = operation(function)
    lead = lead_of([x.shape for x in arrays], op.inputs, torch.broadcast_shapes)
    return [arrays[0].new_empty((*lead, *core)) for core in op.outputs.values()]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Sequence[Any]) -> None:
    ctx.function, arrays = inputs
    ctx.shapes = [x.shape for x in output]
    ctx.save_for_backward(*arrays)


def _gradients(ctx: Any, weights: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
    arrays, pairs = ctx.saved_tensors, zip(weights, ctx.shapes, strict=True)
    filled = [arrays[0].new_zeros(shape) if w is None else w for w, shape in pairs]
    gradients = iter(_run(adjoints(ctx.function, wanted), [*arrays, *filled]))
    each = zip(arrays, wanted, strict=True)
    return [next(gradients).sum_to_size(x.shape) if needed else None for x, needed in each]


def _backward(ctx: Any, weights: Tensors) -> tuple[None, Tensors]:
    return None, _gradients(ctx, weights, ctx.needs_input_grad[1])


def _batched(info: Any, in_dims: Any, function: str, arrays: Tensors) -> tuple[Tensors, list[int]]:
    """Puts the mapped dimension in front of all leading ones."""
    shapes = in_front([x.shape for x in arrays], in_dims[1], operation(function).inputs)
    each = zip(arrays, in_dims[1], shapes, strict=True)
    moved = [x if d is None else x.movedim(d, 0).reshape(shape) for x, d, shape in each]
    results = list(_run(function, moved))
    return results, [0] * len(results)


evaluate.register_autograd(_backward, setup_context=_keep)
evaluate.register_vmap(_batched)


class _Evaluate(torch.autograd.Function):  # type: ignore[name-defined, misc]
    """The operator for `torch.func` and forward mode, for which operators register nothing."""

    @staticmethod
    def forward(function: str, *arrays: Any) -> tuple[Any, ...]:
        return tuple(evaluate(function, list(arrays)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        _keep(ctx, (inputs[0], inputs[1:]), output)
        ctx.save_for_forward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *weights: Any) -> tuple[Any, ...]:
        return None, *_gradients(ctx, weights, ctx.needs_input_grad[1:])

    @staticmethod
    def jvp(ctx: Any, _: None, *directions: Any) -> tuple[Any, ...]:
        text = tangents(ctx.function, [d is not None for d in directions])
        moving = [d for d in directions if d is not None]
        return tuple(_run(text, [*ctx.saved_tensors, *moving]))

    @staticmethod
    def vmap(info: Any, in_dims: Any, function: str, *arrays: Any) -> tuple[Any, Any]:
        results, dims = _batched(info, (None, in_dims[1:]), function, list(arrays))
        return tuple(results), tuple(dims)


class _EvaluateAtOnce(torch.autograd.Function):  # type: ignore[name-defined, misc]
    """The function of a call that autograd alone sees, without the dispatch of an operator."""

    @staticmethod
    def forward(ctx: Any, function: str, *arrays: Any) -> tuple[Any, ...]:
        results = _on_cpu(operation(function), arrays)
        _keep(ctx, (function, arrays), results)
        return tuple(results)

    backward = _Evaluate.backward


def _is_eager(arrays: Sequence[Any]) -> bool:
    """Whether nothing but autograd sees a call: no transform, dual number or mode that traces, and
    plain tensors on the CPU.
    """
    return (
        not torch._C._are_functorch_transforms_active()
        and not torch._C._len_torch_dispatch_stack()
        and forward_ad._current_level < 0
        and all(type(x) in PLAIN and x.is_cpu for x in arrays)
    )


def _run(function: str, arrays: Sequence[Any]) -> Sequence[Any]:
    """Evaluates a function where autograd, transforms or `torch.compile` see it."""
    if torch.compiler.is_compiling():
        return evaluate(function, arrays)
    if not _is_eager(arrays):
        return _Evaluate.apply(function, *arrays)
    arrays = unwrap_dead_wrappers(tuple(arrays))  # tensors of transforms that have ended
    if torch.is_grad_enabled() and any(x.requires_grad for x in arrays):
        return _EvaluateAtOnce.apply(function, *arrays)
    return _on_cpu(operation(function), arrays)
