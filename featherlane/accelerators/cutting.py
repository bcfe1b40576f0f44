"""Functions of a robot cut into arrays, for designs in which limbs or columns take turns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

from featherlane.accelerators.organise.arrays import Arrays
from featherlane.accelerators.organise.functions_organisation import FunctionsOrganiser
from featherlane.accelerators.organise.organisation import Organisation, Organiser
from featherlane.accelerators.organise.pass_graph import SHARES
from featherlane.accelerators.organise.streams import Streamed, streamed
from featherlane.accelerators.ranges import pass_formats
from featherlane.api.fixed import Ends, array_formats
from featherlane.api.model import Model
from featherlane.backends.fpga.devices import Device
from featherlane.errors import CompileError, one_of
from featherlane.functions.circuits import CIRCUITS, FACTOR
from featherlane.functions.table import Variant
from featherlane.program.trace import COLUMNS
from featherlane.robot.tree_of import tree_of

LIMBS = "limbs"
ARRAYS = (LIMBS, "columns")  # what takes turns
AUTO = "auto"  # limbs and columns, where they help: of several functions in one design


def of_arrays(function: str, algorithm: str | None) -> str | None:
    """The algorithm of a function in arrays, if none is asked for: limbs wait for each other where
    divisions come last.
    """
    divides = FACTOR in CIRCUITS.get(function, {})
    return FACTOR if divides and algorithm is None else algorithm


class HasNoArrays(ValueError):
    """A function has nothing that could take turns in this way."""


class FunctionCutter:
    """Cuts a function into arrays at any interval; what intervals share is made once.

    arrays: one of ARRAYS; format, ranges: as of `fixed_function`; algorithm: as it resolved it.
    Raises HasNoArrays for a function without them, CompileError and ValueError
    for other things that arrays do not compute.
    """

    def __init__(
        self,
        model: Model,
        variant: Variant,
        format: str,
        ranges: Mapping[str, tuple[Any, Any]] | None,
        algorithm: str | None,
        arrays: str,
        device: Device,
    ) -> None:
        if variant.wrenches:
            raise ValueError(f"f_ext is {variant.wrenches!r}: arrays take no wrenches")
        if "v" in model._function(variant).inputs:
            check_friction(model)
        self.model, self.variant, self.algorithm, self.arrays = model, variant, algorithm, arrays
        self._assign = array_formats(model, variant, format, ranges)
        self._organiser: Organiser | None = None
        if arrays == LIMBS:
            if variant.name not in SHARES:
                raise HasNoArrays(
                    f"arrays is {arrays!r}, but function is {variant.name!r}: "
                    f"{one_of(variant.name, SHARES)}"
                )
            self._organiser = Organiser(
                model,
                variant.name,
                root=model.bodies[0].name,  # it stays where it is
                device=device,
                algorithm=algorithm,
                assign=self._assign,
            )

    def at(self, interval: int) -> tuple[Arrays | Streamed, Organisation | None]:
        """Returns the function in arrays at an interval, and the organisation of limbs."""
        if self._organiser is None:
            return self._columns, None
        found = self._organiser.at(interval)
        return found.design, found

    @cached_property
    def _columns(self) -> Streamed:
        name = self.variant.name
        found = streamed(self.model, name, COLUMNS, self.algorithm, self._assign)
        if len(found.kernels) == 1:
            raise HasNoArrays(
                f"arrays is 'columns', but {name} has none of products with M^-1: wanted "
                + ("'limbs'" if name in SHARES else "None")
            )
        return found


def functions_in_arrays(
    model: Model,
    functions: Collection[str],
    format: str,
    given: Mapping[str, Ends],
    algorithm: str,
    device: Device,
) -> FunctionsOrganiser:
    """Returns what cuts several functions into arrays at any interval. given: ranges of inputs.
    Raises ValueError or CompileError for what arrays do not compute.
    """
    assign = pass_formats(model, format, given)
    if algorithm != FACTOR:
        raise ValueError(
            f"algorithm is {algorithm!r}: in arrays limbs would wait for each other; "
            f"wanted {FACTOR!r}"
        )
    check_friction(model)
    if tree_of(model).coupled:
        raise CompileError(
            f"joints of {model.name!r} share coordinates, which arrays do not take: "
            "wanted arrays=None"
        )
    return FunctionsOrganiser(model, functions, device, assign)


def check_friction(model: Model) -> None:
    """Raises CompileError for a robot whose joints have friction, springs or soft limits."""
    if model.stiffness.any():
        raise CompileError(
            f"{model.name} has joint springs, which arrays do not compute: "
            "model.with_physics(stiffness=0) has none"
        )
    if any(joint.limit_stiffness for joint in model.joints):
        raise CompileError(
            f"{model.name} has soft limits, which arrays do not compute: "
            "model.with_soft_limits(stiffness=0) has none"
        )
    if any(any(joint.friction) for joint in model.joints):
        raise CompileError(
            f"{model.name} has joint friction, which arrays do not compute: "
            "model.with_physics(friction=0) has none"
        )
