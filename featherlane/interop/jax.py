"""JAX: `wrap(model)` has every function of a model on JAX arrays, with derivatives of any order.

All functions are one primitive, whose parameter says which. Its derivative along tangents is the
primitive again, linear in the tangents, and the transpose of that is another function
(`functions.operations`), so that reverse mode forms no Jacobians. XLA calls the kernels through
its foreign function interface, or Python where it has another version of that interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from featherlane.api.model import Model
from featherlane.functions.operations import Operation
from featherlane.functions.table import Variant
from featherlane.functions.variants import check_variant
from featherlane.interop.wrapped import WrappedModel, in_front, required
from featherlane.interop.xla_calls import PLATFORMS, checked_lead, compute

if TYPE_CHECKING:
    from jax import Array

jax = required("jax", "jax")
jnp = jax.numpy
core, ad, batching, mlir = (
    required(f"jax.{name}", "jax")
    for name in ("extend.core", "interpreters.ad", "interpreters.batching", "interpreters.mlir")
)
Arrays = Sequence[Any]
evaluate = core.Primitive("featherlane")
evaluate.multiple_results = True


def wrap(model: Model) -> WrappedModel[Array]:
    """Returns the functions of a model on JAX arrays, on the CPU or a GPU, differentiable with
    respect to all of their arrays (for q, its nq entries). Results are float32 unless 64 bits are
    enabled in JAX.

    Arguments:
        model: the robot

    Examples:
        >>> from featherlane.interop import jax as interop
        >>> interop.wrap(arm).inverse_dynamics(q, v, a).shape
        (2,)
    """

    def run(variant: Variant, arrays: Arrays) -> Arrays:
        check_variant(model, variant)
        values = [jnp.asarray(x) for x in arrays]
        dtype = jnp.result_type(*values, jnp.float32)
        return evaluate.bind(*[x.astype(dtype) for x in values], op=Operation(model, variant))

    return WrappedModel(model, run, wrap)


@evaluate.def_abstract_eval
def _shapes(*arrays: Any, op: Operation) -> list[Any]:
    lead = checked_lead(op, [x.shape for x in arrays])
    return [arrays[0].update(shape=(*lead, *shape)) for shape in op.outputs.values()]


mlir.register_lowering(evaluate, mlir.lower_fun(compute, multiple_results=True))
for _platform in PLATFORMS:
    _compute = partial(compute, platform=_platform)
    mlir.register_lowering(
        evaluate, mlir.lower_fun(_compute, multiple_results=True), platform=_platform
    )
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
    """The transpose of a linear map: cotangents of its linear inputs, the last ones."""
    linear = [k for k, x in enumerate(arrays) if ad.is_undefined_primal(x)]
    whole = [jnp.zeros(w.aval.shape, w.aval.dtype) if type(w) is ad.Zero else w for w in weights]
    cotangents = evaluate.bind(*arrays[: linear[0]], *whole, op=op.transposed)
    shapes = [arrays[k].aval.shape for k in linear]
    return [None] * linear[0] + [_sum_to(x, s) for x, s in zip(cotangents, shapes, strict=True)]


def _batched(arrays: Arrays, dims: Sequence[Any], op: Operation) -> tuple[Arrays, list[int]]:
    """Puts the mapped dimension in front of all leading ones."""
    shapes = in_front([x.shape for x in arrays], dims, op.inputs)
    each = zip(arrays, dims, shapes, strict=True)
    moved = [x if d is None else jnp.moveaxis(x, d, 0).reshape(shape) for x, d, shape in each]
    results = evaluate.bind(*moved, op=op)
    return results, [0] * len(results)


ad.primitive_jvps[evaluate] = _along
ad.primitive_transposes[evaluate] = _transpose
batching.primitive_batchers[evaluate] = _batched
