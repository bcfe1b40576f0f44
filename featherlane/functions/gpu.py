"""What runs on GPUs for a function: programs, and plans of programs, as kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from featherlane.functions.compile import dynamics_program
from featherlane.functions.sequences import is_planned, planned
from featherlane.functions.table import Variant
from featherlane.program.lower import lower
from featherlane.program.plan import Composite
from featherlane.program.program import Program
from featherlane.robot.model import Robot

if TYPE_CHECKING:
    from featherlane.backends.cuda.stages import Kernels

Source = Program | Composite


class OnGPU(NamedTuple):
    """A function that GPUs can run. key: of its code in the cache; source: makes what computes it."""

    key: str
    source: Callable[[], Source]

    def kernels(self, name: str, dtype: np.dtype) -> Kernels:
        """The kernels, from the cache or made now. name: of the kernels."""
        from featherlane.backends.cuda.cached import cached_kernels

        make = lambda: kernels_of(self.source(), name, dtype)
        return cached_kernels(f"{self.key} {name} {dtype}", make)


def source_of(model: Robot, variant: Variant) -> Source:
    """What computes a function of a robot that is not long."""
    if not is_planned(model, variant):
        return dynamics_program(model, variant)
    plan, variants = planned(model, variant)
    return Composite(plan, [source_of(model, piece) for piece in variants])


def kernels_of(source: Source, name: str, dtype: np.dtype) -> Kernels:
    """The kernels of a program or a plan."""
    from featherlane.backends.cuda import plans, stages

    if isinstance(source, Composite):
        return plans.kernels(_lowered(source, dtype), name, dtype)
    return stages.kernels(lower(source, "cuda", dtype), name, dtype)


def _lowered(composite: Composite, dtype: np.dtype) -> Composite:
    inside = lambda piece: (
        _lowered(piece, dtype) if isinstance(piece, Composite) else lower(piece, "cuda", dtype)
    )
    return composite._replace(pieces=[*map(inside, composite.pieces)])
