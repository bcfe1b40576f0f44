"""The arithmetic of a design, before any circuit: the datapath of one function, or of a pass of
several, in its formats, flat or cut into arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property
from math import inf, isfinite
from typing import Any

import numpy as np

from featherlane.accelerators.choices import COLUMNS, LIMBS, DesignSpec, with_wrenches
from featherlane.accelerators.formats import (
    array_formats,
    check_not_constant,
    check_overflow,
    check_step,
)
from featherlane.accelerators.organise.array_stations import StationArrays
from featherlane.accelerators.organise.arrays import Arrays
from featherlane.accelerators.organise.organisation import (
    Organisation,
    Organiser,
    function_organiser,
    functions_organiser,
)
from featherlane.accelerators.organise.pass_graph import (
    METHODS,
    NO_WRENCHES,
    SHARES,
    all_functions_graph,
    function_datapath,
    outputs_of,
    variant_of,
)
from featherlane.accelerators.organise.streams import Streamed, streamed
from featherlane.accelerators.ranges import pass_formats, pass_ranges, shapes_of
from featherlane.api.fixed import (
    FITTED,
    PROVED,
    Ends,
    Formats,
    checked_ranges,
    entry_bounds,
    fixed_function,
    input_ranges,
    named_in_ranges,
)
from featherlane.api.model import Model
from featherlane.api.named_variants import variant_named
from featherlane.backends.fixed.assign import fitted, proved, uniform
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.input_limits import NO_RANGES, Ranges, flat_ranges
from featherlane.errors import CompileError, one_of, shown
from featherlane.functions.circuits import BOUNDED, CIRCUITS, DEFERRED, FACTOR
from featherlane.functions.fixed import FixedFunction
from featherlane.functions.table import CALLED, Variant
from featherlane.functions.variants import check_variant
from featherlane.program.graph import Graph
from featherlane.program.trace import COLUMNS as KEPT_COLUMNS
from featherlane.robot.tree_of import tree_of

Whole = Datapath | Arrays | Streamed
Cut = tuple[Whole, Organisation | None]


class HasNoArrays(ValueError):
    """A function, or its algorithm, has nothing to time-multiplex in this way."""


class Computation(ABC):
    """The arithmetic of designs of one spec at all intervals; what these share is computed once.

    variant: the function, or inverse dynamics for several, with the axes and frames of f_ext.
    """

    def __init__(self, model: Model, spec: DesignSpec, variant: Variant) -> None:
        self.model, self.spec, self.variant = model, spec, variant

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model, self.spec)

    @staticmethod
    def of(model: Model, spec: DesignSpec) -> Computation:
        """The computation of a spec. Raises ValueError or CompileError for choices without one."""
        check_step(spec.format)
        kind = PassComputation if spec.is_network else FunctionComputation
        return kind(model, spec)

    @property
    @abstractmethod
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of all inputs, by name."""

    @property
    @abstractmethod
    def flat(self) -> Datapath:
        """The datapath without arrays."""

    @abstractmethod
    def cut(self, interval: int) -> Cut:
        """The arrays at an interval, and the organisation of limbs, if these are organised."""

    @abstractmethod
    def check_outputs(self, graph: Graph) -> None:
        """Raises CompileError for results that do not depend on the state."""

    @abstractmethod
    def function(self, name: str, datapath: Datapath) -> FixedFunction:
        """A function as a datapath of the whole computes it."""

    def check_overflow(self, datapath: Datapath) -> None:  # noqa: B027, networks clamp between passes
        """Raises CompileError for one format of all signals in which random states overflow."""

    def at(self, interval: int) -> Cut:
        """Returns the datapath, or the arrays at an interval and their organisation."""
        return self.cut(interval) if self.spec.arrays else (self.flat, None)

    @cached_property
    def ranges(self) -> dict[str, Ends]:
        """The ranges of the spec, in the shapes of the inputs."""
        return checked_ranges(named_in_ranges(self.shapes), self.spec.ranges)

    @cached_property
    def limits(self) -> Mapping[str, Ends]:
        """The least and the largest numbers of each input."""
        inputs = input_ranges(self.model, self.shapes, self.ranges, variant=self.variant)[0]
        return {**self.ranges, **inputs}

    @cached_property
    def assigned_ranges(self) -> Ranges:
        """The ranges that formats of inputs were assigned for; none of a uniform format."""
        is_assigned = Formats.named(self.spec.format).is_assigned
        return flat_ranges(self.limits) if is_assigned else NO_RANGES

    def drawn(self, states: int, seed: int = 1) -> tuple[dict[str, Ends], dict[str, np.ndarray]]:
        """The limits of inputs, and random states within them."""
        options = self.shapes, self.ranges, seed, states
        return input_ranges(self.model, *options, variant=self.variant)

    def error(self, datapath: Datapath, states: int) -> float:
        """The largest error of each output over random states, a part of the largest result: of all
        outputs the largest; infinite where a state is lost or overflows.
        """
        samples = self.drawn(states)[1]
        functions = (self.function(name, datapath) for name in self.spec.functions)
        return max(relative_error(f, {name: samples[name] for name in f.inputs}) for f in functions)


def _check_no_integrator(function: str, variant: Variant) -> None:
    """Raises CompileError for steps, rollouts and their derivatives: pipelines consist of the calls
    of a function's recursions, and integrators compute outside of these.
    """
    if "integrator" in CALLED[variant.name].takes:
        raise CompileError(
            f"function is {function!r}: steps in time have no circuit; wanted 'forward_dynamics', "
            "or its derivatives, with an integrator on the host"
        )


class FunctionComputation(Computation):
    """The arithmetic of one function."""

    def __init__(self, model: Model, spec: DesignSpec) -> None:
        (name,) = spec.functions
        variant = with_wrenches(variant_named(model, name), spec.f_ext, spec.frames)
        check_variant(model, variant)
        _check_no_integrator(name, variant)
        algorithm = spec.algorithm
        if spec.arrays and algorithm is None and FACTOR in CIRCUITS.get(variant.name, {}):
            algorithm = FACTOR  # with divisions at the end, limbs would wait for each other
        self.fixed = fixed_function(model, variant, spec.format, spec.ranges, algorithm)
        super().__init__(model, replace(spec, algorithm=self.fixed.algorithm), variant)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self.fixed.inputs

    @property
    def flat(self) -> Datapath:
        return self.fixed.datapath

    def check_outputs(self, graph: Graph) -> None:
        check_not_constant(self.spec.label, self.model, graph)

    def check_overflow(self, datapath: Datapath) -> None:
        function = self.function(self.spec.label, datapath)
        check_overflow(function, self.model, self.variant, self.spec.format, self.spec.ranges)

    def function(self, name: str, datapath: Datapath) -> FixedFunction:
        fixed = self.fixed
        return (
            fixed.computed_by(datapath)
            if self.spec.arrays or datapath is not fixed.datapath
            else fixed
        )

    def cut(self, interval: int) -> Cut:
        if self.spec.arrays == COLUMNS:
            return self._columns, None
        organisation = self._limbs.at(interval)
        return organisation.design, organisation

    @cached_property
    def _limbs(self) -> Organiser[Arrays]:
        """The organiser of one function's limbs. Raises HasNoArrays where the function has none."""
        model, name = self.model, self.variant.name
        self._check_arrays()
        if name not in SHARES:
            raise HasNoArrays(
                f"arrays is {LIMBS!r}, but function is {name!r}: {one_of(name, SHARES)}"
            )
        return function_organiser(
            model,
            name,
            root=model.bodies[0].name,  # it stays where it is
            device=self.spec.target,
            algorithm=self.spec.algorithm,
            assign=self._assign,
        )

    @cached_property
    def _columns(self) -> Streamed:
        self._check_arrays()
        name = self.variant.name
        columns = streamed(self.model, name, KEPT_COLUMNS, self.spec.algorithm, self._assign)
        if len(columns.kernels) == 1:
            raise HasNoArrays(
                f"arrays is {COLUMNS!r}, but {name} has none of products with M^-1: wanted "
                + (repr(LIMBS) if name in SHARES else "None")
            )
        return columns

    def _check_arrays(self) -> None:
        if self.variant.wrenches:
            raise ValueError(f"f_ext is {self.variant.wrenches!r}: arrays take no wrenches")
        if "v" in self.model._function(self.variant).inputs:
            check_friction(self.model)

    @property
    def _assign(self) -> Callable[..., Datapath]:
        return array_formats(self.model, self.variant, self.spec.format, self.spec.ranges)


class PassComputation(Computation):
    """The arithmetic of one pass of several functions."""

    def __init__(self, model: Model, spec: DesignSpec) -> None:
        variant = with_wrenches(NO_WRENCHES, spec.f_ext, spec.frames)
        check_variant(model, variant)
        algorithm = spec.algorithm
        if algorithm is None:
            is_proved = Formats.named(spec.format).kind == PROVED
            algorithm = FACTOR if spec.arrays else BOUNDED if is_proved else DEFERRED
        if algorithm not in METHODS:
            raise ValueError(f"algorithm is {shown(algorithm)}: {one_of(algorithm, METHODS)}")
        super().__init__(model, replace(spec, algorithm=algorithm), variant)

    @cached_property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return shapes_of(self.model, self.variant)

    @cached_property
    def flat(self) -> Datapath:
        """A pass with its formats. Samples are of tasks of both kinds: with an acceleration, and
        with the torques for one.
        """
        model, method, functions = self.model, str(self.spec.algorithm), self.spec.functions
        kind, data, small = Formats.named(self.spec.format)
        samples, bounds = pass_ranges(model, self.ranges, self.variant)
        if method == BOUNDED and tree_of(model).coupled:
            raise CompileError(
                f"algorithm is {method!r}: joints of {model.name!r} share coordinates"
            )
        graph = all_functions_graph(model, functions, method, bounds, self.variant)
        self.check_outputs(graph)
        if kind == PROVED:
            return proved(graph, bounds, data, small)
        if kind == FITTED:
            read = {name: samples[name] for name in graph.inputs}
            return fitted(graph, read, data, small, inputs=bounds)
        return uniform(graph, kind)

    def check_outputs(self, graph: Graph) -> None:
        check_constants(self.model.name, self.spec.functions, graph)

    def function(self, name: str, datapath: Datapath) -> FixedFunction:
        exact = self.model._function(variant_of(name, self.variant))
        make = lambda: function_datapath(datapath, name)
        bounds = lambda: entry_bounds(self.limits)
        origin = PassComputation.function, (self, name, datapath)
        ranges = lambda: self.assigned_ranges
        return FixedFunction(exact, make, bounds, self.spec.algorithm, origin, ranges=ranges)

    def cut(self, interval: int) -> Cut:
        organisation = self._arrays.at(interval)
        return organisation.design, organisation

    @cached_property
    def _arrays(self) -> Organiser[StationArrays]:
        """The organiser of a network's stations. Raises HasNoArrays, and CompileError for a robot
        whose joints share coordinates.
        """
        model, spec = self.model, self.spec
        assign = pass_formats(model, spec.format, self.ranges)
        if spec.algorithm != FACTOR:
            raise HasNoArrays(
                f"algorithm is {spec.algorithm!r}: in arrays limbs would wait for each other; "
                f"wanted {FACTOR!r}"
            )
        check_friction(model)
        if tree_of(model).coupled:
            raise CompileError(
                f"joints of {model.name!r} share coordinates, which arrays do not take: "
                "wanted arrays=None"
            )
        return functions_organiser(model, spec.functions, spec.target, assign)


def flat_of(whole: Whole) -> Datapath:
    """The flat datapath of arrays, or the datapath itself."""
    return whole if isinstance(whole, Datapath) else whole.whole


def relative_error(fixed: FixedFunction, states: Mapping[str, np.ndarray]) -> float:
    """The largest error of each output over states, a part of the largest result: of all outputs
    the largest; infinite where a state is lost or overflows.
    """
    errors = fixed.errors(**states)
    assert fixed.report is not None
    if fixed.report.lost or fixed.report.overflows or fixed.report.saturated:
        return inf
    each = [x / (errors.magnitude[name] or 1.0) for name, x in errors.largest.items()]
    return max(each) if all(map(isfinite, each)) else inf


def check_constants(robot: str, functions: Collection[str], graph: Graph) -> None:
    """Raises CompileError for functions of which an output is constant, or a value that they are
    computed from: no stream has it; and where nothing depends on the state.
    """
    if not {"q", "v", "f_ext"} & {graph.value[k][0] for k in graph.nodes_of("input")}:
        wanted = "wanted fl.accelerator, a function at a time, for what is not constant"
        raise CompileError(f"no function of {robot} depends on q or v: {wanted}")
    constant = {
        output
        for output, (_, nodes) in graph.outputs.items()
        if all(graph.op[k] == "constant" for k in nodes)
    }
    left = [name for name in functions if not constant & {*outputs_of([name])}]
    if len(left) < len(functions):
        out = ", ".join(name for name in functions if name not in left)
        wanted = f"wanted functions={left}" if left else "nothing is left to compute"
        raise CompileError(f"constant outputs in {out} of {robot}, or what they need: {wanted}")


def check_friction(model: Model) -> None:
    """Raises CompileError for a robot whose joints have friction, springs or soft limits."""
    for has, forces, without in (
        (model.stiffness.any(), "joint springs", "with_physics(stiffness=0)"),
        (
            any(joint.limit_stiffness for joint in model.joints),
            "soft limits",
            "with_soft_limits(stiffness=0)",
        ),
        (
            any(any(joint.friction) for joint in model.joints),
            "joint friction",
            "with_physics(friction=0)",
        ),
    ):
        if has:
            raise CompileError(
                f"{model.name} has {forces}, which arrays do not compute: model.{without} has none"
            )
