"""A model whose functions, by their names, take a framework's arrays: common to all frameworks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from featherlane.api.model import Model
from featherlane.errors import no_attribute
from featherlane.functions.arguments import counted
from featherlane.functions.operations import bound
from featherlane.functions.policy import Policy, checked_policy
from featherlane.functions.results import (
    ConstrainedForwardDynamics,
    ConstrainedForwardDynamicsDerivatives,
    ConstrainedInverseDynamics,
    DifferenceDerivatives,
    Direction,
    ForwardDynamicsDerivatives,
    FrameAccelerationDerivatives,
    FrameVelocityDerivatives,
    Gradients,
    Impulse,
    ImpulseDerivatives,
    IntegrateDerivatives,
    InverseDynamicsDerivatives,
    LinearStep,
    PolicyTrajectory,
    ReducedStep,
    Step,
    Trajectory,
)
from featherlane.functions.sensors import Sensors, split_parameters
from featherlane.functions.table import BY_NAME, Variant
from featherlane.functions.variants import actuation_of, results_type

Array = TypeVar("Array")  # of the framework
Run = Callable[[Variant, Sequence[Any]], Sequence[Any]]


def required(module: str, extra: str) -> Any:
    """Imports a framework, or says which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        message = f"featherlane.interop.{extra} needs {module}: pip install 'featherlane[{extra}]'"
        raise ImportError(message) from error


class WrappedModel(Generic[Array]):
    """A model whose attributes are the functions of the model for arrays of another package.

    Each function takes the arguments of `model.function(name)`: arrays with leading dimensions that
    broadcast, and f_ext, f_ext_frame, params, frame, reference, wrt and method like the model's
    methods. It returns one array, or the function's tuple.

    The wrapped model and its functions can be pickled and copied, for spawned workers of a data
    loader and for modules that hold them. The copy contains the model, but no compiled code.
    """

    if TYPE_CHECKING:  # `__init__` sets them
        inverse_dynamics: Callable[..., Array]
        forward_dynamics: Callable[..., Array]
        mass_matrix: Callable[..., Array]
        mass_matrix_inverse: Callable[..., Array]
        inverse_dynamics_derivatives: Callable[..., InverseDynamicsDerivatives[Array]]
        forward_dynamics_derivatives: Callable[..., ForwardDynamicsDerivatives[Array]]
        forward_dynamics_derivatives_from: Callable[..., tuple[Array, Array]]
        forward_dynamics_derivatives_at: Callable[..., ForwardDynamicsDerivatives[Array]]
        frame_placement: Callable[..., Array]
        frame_velocity: Callable[..., Array]
        frame_acceleration: Callable[..., Array]
        imu: Callable[..., Array]
        jacobian: Callable[..., Array]
        jacobian_time_derivative: Callable[..., Array]
        center_of_mass: Callable[..., Array]
        center_of_mass_jacobian: Callable[..., Array]
        centroidal_momentum: Callable[..., Array]
        centroidal_momentum_matrix: Callable[..., Array]
        centroidal_momentum_matrix_time_derivative: Callable[..., Array]
        centroidal_momentum_rate: Callable[..., Array]
        body_regressor: Callable[..., Array]
        frame_velocity_derivatives: Callable[..., FrameVelocityDerivatives[Array]]
        frame_acceleration_derivatives: Callable[..., FrameAccelerationDerivatives[Array]]
        task_space_inertia: Callable[..., Array]
        manipulability: Callable[..., Array]
        gravity_torque_derivatives: Callable[..., Array]
        kinetic_energy: Callable[..., Array]
        potential_energy: Callable[..., Array]
        coriolis_matrix: Callable[..., Array]
        gravity_torque: Callable[..., Array]
        bias_force: Callable[..., Array]
        integrate: Callable[..., Array]
        difference: Callable[..., Array]
        interpolate: Callable[..., Array]
        integrate_derivatives: Callable[..., IntegrateDerivatives[Array]]
        difference_derivatives: Callable[..., DifferenceDerivatives[Array]]
        step: Callable[..., Step[Array]]
        linearize_step: Callable[..., LinearStep[Array]]
        linearize_step_reduced: Callable[..., ReducedStep[Array]]
        step_jvp: Callable[..., Direction[Array]]
        step_vjp: Callable[..., Gradients[Array]]
        inverse_dynamics_parameter_derivatives: Callable[..., Array]
        inverse_dynamics_second_derivatives: Callable[..., tuple[Array, Array, Array, Array]]
        inverse_dynamics_hessian_product: Callable[..., Array]
        forward_dynamics_hessian_product: Callable[..., Array]
        constrained_forward_dynamics: Callable[..., ConstrainedForwardDynamics[Array]]
        constrained_forward_dynamics_derivatives: Callable[
            ..., ConstrainedForwardDynamicsDerivatives[Array]
        ]
        impulse: Callable[..., Impulse[Array]]
        impulse_derivatives: Callable[..., ImpulseDerivatives[Array]]
        constrained_inverse_dynamics: Callable[..., ConstrainedInverseDynamics[Array]]
        closing_step: Callable[..., tuple[Array, Array]]
        constraint_jacobian: Callable[..., Array]
        constraint_error: Callable[..., Array]
        delassus_matrix: Callable[..., Array]
        rollout: Callable[..., Trajectory[Array]]

    def __init__(
        self, model: Model, run: Run, wrap: Callable[[Model], WrappedModel[Array]]
    ) -> None:
        """run: computes a function of a framework's arrays. wrap: a function of a module, or a
        partial of one, by which unpickling makes this again of the model.
        """
        if not isinstance(model, Model):
            raise TypeError(f"model is {model!r}: wanted a Model, as fl.load gives it")
        self.model, self._run, self._wrap = model, run, wrap
        self._variants: dict[tuple[Any, ...], Variant] = {}  # of calls with arrays and texts alone
        for name in BY_NAME:
            setattr(self, name, partial(_call, self, name))

    def __reduce__(self) -> tuple[Callable[[Model], WrappedModel[Array]], tuple[Model]]:
        return self._wrap, (self.model,)

    def __repr__(self) -> str:
        return f"<{self.model!r} for another framework>"

    def rollout_with(
        self,
        policy: Policy,
        q0: Any,
        v0: Any,
        dt: Any,
        steps: int,
        f_ext: Any = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        references: Mapping[str, Any] | None = None,
        memory: Mapping[str, Any] | None = None,
        sensors: Sensors | None = None,
        **options: Any,
    ) -> PolicyTrajectory[Array]:
        """Returns the states and controls of a rollout with a feedback law, as the model's method
        does, with first derivatives with respect to all arrays of the law too.
        """
        of_policy, sensing = split_parameters(sensors, parameters, checked_policy(policy))
        values = policy.in_order(of_policy, references, memory)
        options |= {"policy": policy, "steps": counted("steps", steps), "f_ext": f_ext}
        return _evaluated(self, *bound("rollout_with", (q0, v0, dt), options, values, sensing))

    if not TYPE_CHECKING:  # type checkers would take any name for a function

        def __getattr__(self, name: str) -> Any:  # what __init__ has not set
            if name in Model.__dataclass_fields__ or hasattr(Model, name):
                raise AttributeError(
                    f"{name} is an attribute of the model: wrap(model).model.{name}"
                )
            raise no_attribute(name, "a wrapped model", BY_NAME, "wrap(model).")


def _call(wrapped: WrappedModel[Any], name: str, /, *args: Any, **named: Any) -> Any:
    """Calls a function. The texts behind the arrays of a call choose its variant."""
    texts = [x for x in args if type(x) is str]
    arrays: Sequence[Any] = args[: len(args) - len(texts)]
    if any(type(x) is not str for x in (*named.values(), *args[len(arrays) :])):
        return _evaluated(wrapped, *bound(name, args, named))
    key = (name, len(arrays), *texts, *named.items())
    if key in wrapped._variants:
        return _collected(wrapped, wrapped._variants[key], arrays)
    variant, inputs = bound(name, args, named)
    variant = _of_model(wrapped.model, variant)
    if not variant.wrenches and not variant.steps and [*map(id, inputs)] == [*map(id, arrays)]:
        wrapped._variants[key] = variant
    return _collected(wrapped, variant, inputs)


def _evaluated(wrapped: WrappedModel[Any], variant: Variant, arrays: Sequence[Any]) -> Any:
    return _collected(wrapped, _of_model(wrapped.model, variant), arrays)


def _of_model(model: Model, variant: Variant) -> Variant:
    """The variant with the actuation that it names."""
    return variant._replace(actuation=actuation_of(model, variant.actuation))


def _collected(wrapped: WrappedModel[Any], variant: Variant, arrays: Sequence[Any]) -> Any:
    results = wrapped._run(variant, arrays)
    if len(results) == 1:
        return results[0]
    collect = results_type(variant)
    return tuple(results) if collect is None else collect(*results)


def lead_ranks(shapes: Sequence[Sequence[int]], cores: Mapping[str, tuple[int, ...]]) -> list[int]:
    """The number of leading dimensions of each array."""
    return [len(s) - len(core) for s, core in zip(shapes, cores.values(), strict=True)]


def lead_of(
    shapes: Sequence[Sequence[int]],
    cores: Mapping[str, tuple[int, ...]],
    broadcast: Callable[..., Any] = np.broadcast_shapes,
) -> Any:
    """The leading dimensions of results."""
    pairs = zip(shapes, lead_ranks(shapes, cores), strict=True)
    return broadcast(*[tuple(shape[:n]) for shape, n in pairs])


def in_front(
    shapes: Sequence[Sequence[int]],
    dims: Sequence[int | None],
    cores: Mapping[str, tuple[int, ...]],
) -> list[tuple[int, ...]]:
    """The shapes of arrays whose mapped dimension, if they have one, comes in front of all leading
    ones.
    """
    ranks = [n - (d is not None) for n, d in zip(lead_ranks(shapes, cores), dims, strict=True)]
    orders = []
    for shape, d, n in zip(shapes, dims, ranks, strict=True):
        axes = [*shape]
        front = [] if d is None else [axes.pop(d), *[1] * (max(ranks) - n)]
        orders.append((*front, *axes))
    return orders
