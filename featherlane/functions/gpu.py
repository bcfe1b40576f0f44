"""Functions on GPUs: programs, and plans of programs, as kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from featherlane.errors import one_of
from featherlane.functions.sequences import is_planned, planned
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.program.lower import lower
from featherlane.program.plan import Composite
from featherlane.program.program import Program
from featherlane.robot.model import Robot

if TYPE_CHECKING:
    from featherlane.backends.cuda.calls import DeviceFunction
    from featherlane.backends.cuda.driver import Properties
    from featherlane.backends.cuda.stages import GpuKernels

Source = Program | Composite
MAPPINGS = ("lanes", "team:2", "team:4", "team:8")
OF_PLANS = ("lanes",)


class OnGPU:
    """A function on GPUs. key: of its code in the cache; source: returns the program or the plan;
    mapping: of work to threads, None for the one that is expected to be the fastest; mappings: that
    there are.
    """

    def __init__(
        self,
        key: str,
        source: Callable[[], Source],
        mapping: str | None = None,
        mappings: Sequence[str] = MAPPINGS,
    ) -> None:
        self.key, self.source, self.fixed, self.mappings = key, source, mapping, tuple(mappings)
        if mapping is not None:
            self._check(mapping)

    def mapped(self, mapping: str) -> OnGPU:
        """A copy that uses one mapping."""
        return OnGPU(self.key, self.source, mapping, self.mappings)

    def function(self, name: str, dtype: np.dtype) -> DeviceFunction:
        """The function that calls the kernels on a device. name: of the kernels."""
        from featherlane.backends.cuda.calls import DeviceFunction

        choose = self.choose if self.fixed is None else lambda *_: self.fixed
        return DeviceFunction(lambda mapping: self._cached(mapping, name, dtype), choose, dtype)

    def _cached(self, mapping: str, name: str, dtype: np.dtype) -> GpuKernels:
        from featherlane.backends.cuda.cached import cached_kernels

        make = lambda: self.kernels(mapping, name, dtype)
        return cached_kernels(f"{self.key} {mapping} {name} {dtype}", make)

    def choose(
        self, kernels_of_mapping: Callable[[str], GpuKernels], states: int, device: Properties
    ) -> str:
        """The mapping for so many states. kernels_of_mapping: returns the kernels of a mapping."""
        from featherlane.backends.cuda import teams
        from featherlane.backends.cuda.mappings import warps_for

        if device.shared < teams.MEMORY_BYTES:  # compute capability 7.5
            return "lanes"
        warps = warps_for(kernels_of_mapping("lanes").work, states, device.multiprocessors)
        return "lanes" if warps == 1 else f"team:{warps}"

    def kernels(self, mapping: str, name: str, dtype: np.dtype) -> GpuKernels:
        """The kernels of a mapping, which are generated now."""
        from featherlane.backends.cuda import teams

        source = self.source()
        if mapping == "lanes":
            return kernels_of(source, name, dtype)
        assert isinstance(source, Program)  # plans have lanes only
        return teams.kernels(lower(source, "cuda", dtype), name, dtype, int(mapping[5:]))

    def _check(self, mapping: str) -> None:
        """Raises ValueError for a mapping that there is not."""
        if mapping not in self.mappings:
            raise ValueError(f"mapping is {mapping!r}: {one_of(mapping, self.mappings)}")


def source_of(model: Robot, variant: Variant) -> Source:
    """Returns the program of a function, or its plan; of robots that are not long."""
    if not is_planned(model, variant):
        return dynamics_program(model, variant)
    plan, variants = planned(model, variant)
    return Composite(plan, [source_of(model, piece) for piece in variants])


def kernels_of(source: Source, name: str, dtype: np.dtype) -> GpuKernels:
    """The kernels of a program or a plan."""
    from featherlane.backends.cuda import plans, stages

    if isinstance(source, Composite):
        return plans.kernels(_lowered(source, dtype), name, dtype)
    return stages.kernels(lower(source, "cuda", dtype), name, dtype)


def _lowered(composite: Composite, dtype: np.dtype) -> Composite:
    """A plan whose programs are lowered, with loops where they repeat themselves."""
    from featherlane.backends.cuda.rolled import rolled

    inside = lambda piece: (
        _lowered(piece, dtype)
        if isinstance(piece, Composite)
        else rolled(lower(piece, "cuda in order", dtype), dtype)
    )
    return composite._replace(pieces=[*map(inside, composite.pieces)])
