"""Functions of long robots on GPUs: algorithms recorded as calls, over the threads of blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from featherlane.backends.cuda.driver import Properties
from featherlane.backends.cuda.links import kernels
from featherlane.backends.cuda.products import with_negative_products
from featherlane.backends.cuda.ptx import WARP
from featherlane.backends.cuda.rounds import THREADS, BlockShape
from featherlane.backends.cuda.stages import GpuKernels
from featherlane.errors import CompileError
from featherlane.functions.gpu import OnGPU
from featherlane.functions.long.derivatives import AT
from featherlane.functions.long.recording import OPTIONS, WIDE
from featherlane.functions.table import TABLE, Variant
from featherlane.functions.tracing import dynamics_program, scalar_function
from featherlane.functions.variants import input_shapes, output_shapes
from featherlane.program.lower import lower, traced
from featherlane.program.program import Program
from featherlane.program.trace import no_garbage
from featherlane.robot.model import Robot
from featherlane.robot.tree import is_chain
from featherlane.robot.tree_of import tree_of

BLOCKS = 128  # about as many as a GPU has multiprocessors: more states than that share blocks
MOST_PAIRS = 25_000  # of joints on one path, of which matrices take a call each or more
DERIVATIVES = ("forward_dynamics_derivatives", AT)


MAPPINGS = (
    *(f"links:{1 << k}" for k in range(WARP.bit_length())),
    *(f"links:1/{blocks}" for blocks in (2, 4, 8)),  # several blocks for one state
)


class LongOnGPU(OnGPU):
    """A function of a long robot on GPUs: threads lie over states and links."""

    def __init__(
        self, key: str, model: Robot, variant: Variant, mapping: str | None = None
    ) -> None:
        self.model, self.variant = model, variant
        super().__init__(key, lambda: dynamics_program(model, variant), mapping, MAPPINGS)

    def mapped(self, mapping: str) -> LongOnGPU:
        return LongOnGPU(self.key, self.model, self.variant, mapping)

    def choose(
        self, kernels_of_mapping: Callable[[str], GpuKernels], states: int, device: Properties
    ) -> str:
        return f"links:{_block_states(states, device.multiprocessors)}"

    def kernels(self, mapping: str, name: str, dtype: np.dtype) -> GpuKernels:
        states, _, blocks = mapping.removeprefix("links:").partition("/")
        meant = BLOCKS * int(states), int(blocks or 1)
        return long_kernels(self.model, self.variant, name, dtype, *meant)


def long_kernels(
    model: Robot,
    variant: Variant,
    name: str,
    dtype: Any,
    states: int = BLOCKS * WARP,
    blocks: int = 1,
) -> GpuKernels:
    """The kernels of a function of a long robot, for any number of states, but meant for calls with
    `states` states. name: of the kernels; blocks: that share the calls of the same states, with a
    launch for each round. Raises CompileError for what has none.
    """
    dtype = np.dtype(dtype)
    with no_garbage():
        written = kernels(*long_program(model, variant, dtype, states, blocks), name, dtype)
    if variant.name in DERIVATIVES:
        return with_negative_products(written, [*TABLE[variant.name].outputs][-1], name, dtype)
    return written


def long_program(
    model: Robot, variant: Variant, dtype: Any, states: int, blocks: int = 1
) -> tuple[Program, BlockShape]:
    """The recorded program of the kernels, lowered, and their shape; see
    `long_kernels`. Products follow it for derivatives of forward dynamics.
    """
    label = f"{variant.name} of {model.name!r} on a GPU"
    variant = _with_method(model, variant, states)
    _check_size(model, variant, label)
    shape = _shape(model, variant, states)._replace(blocks=blocks)
    run = _recorded(model, variant, shape, label)
    program = traced(run, input_shapes(model, variant), "cuda steps")
    return lower(program, "cuda steps", dtype), shape


def _block_states(states: int, blocks: int = BLOCKS) -> int:
    """The states of a block: few, so that all multiprocessors have work."""
    return min(1 << max(-(-states // blocks) - 1, 0).bit_length(), WARP)


def _with_method(model: Robot, variant: Variant, states: int) -> Variant:
    """A variant with the method that "auto" stands for: on chains scans, unless there are so many
    states that threads need no links.
    """
    if variant.method is not None or variant.name not in ("inverse_dynamics", "forward_dynamics"):
        return variant
    if variant.name == "inverse_dynamics":
        wide = is_chain(tree_of(model)) and _block_states(states) < WARP
        return variant._replace(method="scan" if wide else "serial")
    return variant if tree_of(model).coupled else variant._replace(method="aba")


def _shape(model: Robot, variant: Variant, states: int) -> BlockShape:
    """States and threads of a block. Serial methods on a chain have nothing side by side."""
    states_of_block = _block_states(states)
    serial = variant.method in ("serial", "aba") and is_chain(tree_of(model))
    return BlockShape(states_of_block, WARP if serial or states_of_block == WARP else THREADS)


def _recorded(
    model: Robot, variant: Variant, shape: BlockShape, label: str
) -> Callable[..., dict[str, Any]]:
    """The function of scalars that is recorded."""
    if variant.name in DERIVATIVES:
        return _derivatives(model, variant)
    options: dict[str, Any] = {}
    if variant.method in WIDE:
        options = scan_options(tree_of(model).nbodies, shape.lanes)
        options |= OPTIONS.get((variant.name, str(variant.method)), {})
    run = scalar_function(model, variant, **options)
    if run is None:
        raise CompileError(f"{label}: it is made of other functions, which have kernels")
    return run


def scan_options(links: int, lanes: int) -> dict[str, Any]:
    """The options by which scans share so many links among lanes."""
    block = -(-(links - 1) // lanes)
    if block <= 1:
        return {"method": "kogge_stone"}
    return {"method": "reduce_then_scan", "block": block}


def _derivatives(model: Robot, variant: Variant) -> Callable[..., dict[str, Any]]:
    """dtau/dq, dtau/dv and M^-1 at the accelerations: products of them follow."""
    names, parameters = tuple(output_shapes(model, variant)), len(variant.parameters)
    method = None if tree_of(model).coupled else "aba"
    forward = scalar_function(model, variant._replace(name="forward_dynamics", method=method))
    inverse = scalar_function(model, variant._replace(name="inverse_dynamics_derivatives"))
    matrix = Variant("mass_matrix_inverse", parameters=variant.parameters)
    minv = scalar_function(model, matrix)
    assert forward is not None
    assert inverse is not None
    assert minv is not None

    def run(q: Any, v: Any, a: Any, *others: Any) -> dict[str, Any]:
        if variant.name != AT:
            (a,) = forward(q, v, a, *others).values()
        first = inverse(q, v, a, *others).values()
        last = minv(q, *others[len(others) - parameters :]).values()
        return dict(zip(names, (*first, *last), strict=True))

    return run


def _check_size(model: Robot, variant: Variant, label: str) -> None:
    """Raises CompileError for what would take minutes to make."""
    if variant.method == "jsiia":
        raise CompileError(
            f"{label}: no kernels by method 'jsiia', whose factorisation has other steps for each "
            "link; use 'aba', 'abia', 'cfa' or 'dca'"
        )
    pairs = sum(map(len, tree_of(model).above))
    matrix = any(len(core) > 1 for core in output_shapes(model, variant).values())
    if matrix and pairs > MOST_PAIRS:
        raise CompileError(
            f"{label}: {pairs:,} pairs of joints lie on one path, kernels of matrices are made for "
            f"{MOST_PAIRS:,}; use the CPU, or inverse_dynamics and forward_dynamics"
        )
