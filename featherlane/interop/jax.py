"""JAX: `wrap(model)` has every function of a model on JAX arrays, with derivatives of any order.

All functions are one primitive, whose parameter says which. Its derivative along tangents is the
primitive again, linear in the tangents, and the transpose of that is a function of its own
(`functions.operations`), so that reverse mode forms no Jacobians. XLA calls the kernels through
its foreign function interface, or Python where it has another version of that interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from featherlane.api.model import Model
from featherlane.backends.cpu.call import xla
from featherlane.functions.operations import Operation
from featherlane.functions.table import Variant
from featherlane.interop.texts import text_of, text_of_model
from featherlane.interop.wrapped import WrappedModel, lead_ranks, required

jax = required("jax", "jax")
jnp, ffi = jax.numpy, jax.ffi
core, ad, batching, mlir = (
    required(f"jax.{name}", "jax")
    for name in ("extend.core", "interpreters.ad", "interpreters.batching", "interpreters.mlir")
)
HEADER = "xla/ffi/api/c_api.h"
Arrays = Sequence[Any]
evaluate = core.Primitive("featherlane")
evaluate.multiple_results = True


def wrap(model: Model) -> WrappedModel:
    """The functions of a model on JAX arrays on the CPU, differentiable by all of them (q by its
    nq entries). float32 unless JAX has 64 bits enabled.
    """

    def run(variant: Variant, arrays: Arrays) -> tuple[Any, ...]:
        model._checked(variant)
        made = [jnp.asarray(x) for x in arrays]
        dtype = jnp.result_type(*made, jnp.float32)
        return tuple(evaluate.bind(*[x.astype(dtype) for x in made], op=Operation(model, variant)))

    return WrappedModel(model, run)


def _lead(op: Operation, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    ranks = lead_ranks(shapes, op.inputs)
    for (name, wanted), shape, n in zip(op.inputs.items(), shapes, ranks, strict=True):
        if n < 0 or tuple(shape[n:]) != wanted:
            told = ", ".join(["...", *map(str, wanted)])
            raise ValueError(f"{name} has shape {tuple(shape)}, wanted ({told})")
    return np.broadcast_shapes(*[shape[:n] for shape, n in zip(shapes, ranks, strict=True)])


@evaluate.def_abstract_eval
def _shapes(*arrays: Any, op: Operation) -> list[Any]:
    lead = _lead(op, [x.shape for x in arrays])
    return [arrays[0].update(shape=(*lead, *shape)) for shape in op.outputs.values()]


# Evaluation


def _compute(*arrays: Any, op: Operation) -> list[Any]:
    """Calls XLA's handler, whose inputs have all leading dimensions or none; or Python."""
    lead = _lead(op, [x.shape for x in arrays])
    pairs = zip(arrays, op.inputs.values(), strict=True)
    whole = [x if x.shape == c else jnp.broadcast_to(x, (*lead, *c)) for x, c in pairs]
    dtype = np.dtype(arrays[0].dtype)
    results = [jax.ShapeDtypeStruct((*lead, *c), dtype) for c in op.outputs.values()]
    target = _target(op, dtype)
    if target is not None:
        return ffi.ffi_call(target, results, vmap_method="broadcast_all")(*whole)
    return jax.pure_callback(_in_python(op), results, *whole, vmap_method="broadcast_all")


def _in_python(op: Operation) -> Any:
    def run(*arrays: Any) -> tuple[Any, ...]:
        made = op.function()(*map(np.asarray, arrays))
        return made if isinstance(made, tuple) else (made,)

    return run


_handlers: dict[str, xla.Handler] = {}  # by their names, for good: XLA keeps their addresses


@cache
def _target(op: Operation, dtype: np.dtype) -> str | None:
    """The name of a function among XLA's targets; None where XLA cannot call it."""
    if not xla.is_known(xla.versions(Path(ffi.include_dir()) / HEADER)):
        return None
    steps = [f"{step.mode} {' '.join(step.wrt)}" for step in op.steps]
    name = "\n".join([text_of(text_of_model(op.model), op.variant), *steps, dtype.name])
    if name in _handlers:  # of an equal model
        return name
    handler = op.function().xla_handler(dtype)
    if handler is None:  # long robots are evaluated step by step
        return None
    try:
        ffi.register_ffi_target(name, ffi.pycapsule(handler.address), platform="cpu")
    except Exception:  # XLA's error has no public name, and refuses versions that it does not know
        return None
    _handlers[name] = handler
    return name


mlir.register_lowering(evaluate, mlir.lower_fun(_compute, multiple_results=True))
_jitted = jax.jit(lambda *arrays, op: evaluate.bind(*arrays, op=op), static_argnames="op")
evaluate.def_impl(lambda *arrays, op: _jitted(*arrays, op=op))


# Derivatives


def _sum_to(x: Any, shape: tuple[int, ...]) -> Any:
    """The transpose of broadcasting from a shape."""
    more = x.ndim - len(shape)
    axes = [k for k, n in enumerate(x.shape) if k < more or shape[k - more] != n]
    return x.sum(axes).reshape(shape) if axes else x


def _along(primals: Arrays, tangents: Arrays, op: Operation) -> tuple[Arrays, Arrays]:
    named = dict(zip(op.inputs, tangents, strict=True))
    moving = {k: t for k, t in named.items() if type(t) is not ad.Zero}
    results = evaluate.bind(*primals, op=op)
    return results, evaluate.bind(*primals, *moving.values(), op=op.tangents(tuple(moving)))


def _transpose(weights: Arrays, *arrays: Any, op: Operation) -> Arrays:
    """What the weights of a linear map's results say of its linear inputs, the last ones."""
    linear = [k for k, x in enumerate(arrays) if ad.is_undefined_primal(x)]
    whole = [
        jnp.zeros(w.aval.shape, w.aval.dtype) if type(w) is ad.Zero else w for w in weights
    ]
    made = evaluate.bind(*arrays[: linear[0]], *whole, op=op.transposed)
    shapes = [arrays[k].aval.shape for k in linear]
    return [None] * linear[0] + [_sum_to(x, s) for x, s in zip(made, shapes, strict=True)]


def _batched(arrays: Arrays, dims: Sequence[Any], op: Operation) -> tuple[Arrays, list[int]]:
    """Puts the mapped dimension in front of all leading ones."""
    ranks = lead_ranks([x.shape for x in arrays], op.inputs)
    mapped = [d is not None for d in dims]
    most = max(n - has for n, has in zip(ranks, mapped, strict=True))
    moved = []
    for x, d, n, has in zip(arrays, dims, ranks, mapped, strict=True):
        front = jnp.moveaxis(x, d, 0) if has else x
        ones = [1] * (most - n + 1) if has else []
        moved.append(front.reshape(front.shape[:1] + (*ones,) + front.shape[1:]) if ones else front)
    made = evaluate.bind(*moved, op=op)
    return made, [0] * len(made)


ad.primitive_jvps[evaluate] = _along
ad.primitive_transposes[evaluate] = _transpose
batching.primitive_batchers[evaluate] = _batched
