"""The named tuples of results for type checkers, generic in the type of their arrays: NumPy's, or
those of the framework that a model is wrapped for. At run time they are plain: frameworks take
named tuples apart whose only base is `tuple`.
"""

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple

import numpy as np
from typing_extensions import TypeVar

Array = TypeVar("Array", default=np.ndarray)

def named_results(names: tuple[str, ...]) -> type[tuple]: ...
def with_fields(base: type[tuple], more: tuple[str, ...]) -> type[tuple]: ...
def built_with_fields(base: type[tuple], more: tuple[str, ...], values: Iterable[Any]) -> Any: ...
def results_of(names: tuple[str, ...], values: Iterable[Any]) -> Any: ...

class InverseDynamicsDerivatives(NamedTuple, Generic[Array]):
    dtau_dq: Array
    dtau_dv: Array

class ForwardDynamicsDerivatives(NamedTuple, Generic[Array]):
    da_dq: Array
    da_dv: Array
    da_dtau: Array

class InverseDynamicsSecondDerivatives(NamedTuple, Generic[Array]):
    d2tau_dqdq: Array
    d2tau_dvdq: Array
    d2tau_dvdv: Array
    d2tau_dadq: Array

class IntegrateDerivatives(NamedTuple, Generic[Array]):
    dq_next_dq: Array
    dq_next_dv: Array

class DifferenceDerivatives(NamedTuple, Generic[Array]):
    dv_dq0: Array
    dv_dq1: Array

class FrameVelocityDerivatives(NamedTuple, Generic[Array]):
    dvelocity_dq: Array
    dvelocity_dv: Array

class FrameAccelerationDerivatives(NamedTuple, Generic[Array]):
    dacceleration_dq: Array
    dacceleration_dv: Array
    dacceleration_da: Array

GROUND_FIELDS: tuple[str, ...]

class Step(NamedTuple, Generic[Array]):
    q: Array
    v: Array
    # of steps on the ground, whose results are `GroundStep`s
    @property
    def contact_force(self) -> Array: ...
    @property
    def residual(self) -> Array: ...
    @property
    def impulse(self) -> Array: ...

class ContactForwardDynamics(NamedTuple, Generic[Array]):
    a: Array
    contact_force: Array
    residual: Array
    impulse: Array

class GroundStep(NamedTuple, Generic[Array]):
    q: Array
    v: Array
    contact_force: Array
    residual: Array
    impulse: Array

class LinearStep(NamedTuple, Generic[Array]):
    q: Array
    v: Array
    A: Array
    B: Array

class ReducedStep(NamedTuple, Generic[Array]):
    q: Array
    v: Array
    da_dq: Array
    da_dv: Array
    da_du: Array

class Direction(NamedTuple, Generic[Array]):
    dq: Array
    dv: Array

class Gradients(NamedTuple, Generic[Array]):
    q: Array
    v: Array
    tau: Array

class Trajectory(NamedTuple, Generic[Array]):
    q: Array
    v: Array
    @property
    def diverged(self) -> np.ndarray: ...
    # of rollouts on the ground, whose results are `GroundTrajectory`s
    @property
    def contact_force(self) -> Array: ...
    @property
    def residual(self) -> Array: ...
    @property
    def impulse(self) -> Array: ...
    def __getattr__(self, name: str) -> Array: ...  # of sensors

class GroundTrajectory(NamedTuple, Generic[Array]):
    q: Array
    v: Array
    contact_force: Array
    residual: Array
    impulse: Array
    @property
    def diverged(self) -> np.ndarray: ...

class PolicyTrajectory(NamedTuple, Generic[Array]):
    q: Array
    v: Array
    tau: Array
    @property
    def diverged(self) -> np.ndarray: ...
    def __getattr__(self, name: str) -> Array: ...  # of memory, contacts and sensors

class RolloutGradient(NamedTuple, Generic[Array]):
    q: Array
    v: Array
    tau: Array

class InverseKinematics(NamedTuple, Generic[Array]):
    q: Array
    converged: Array
    position_error: Array
    rotation_error: Array
    iterations: Array
    clearance: Array

class ConstrainedForwardDynamics(NamedTuple, Generic[Array]):
    a: Array
    force: Array

class ConstrainedForwardDynamicsDerivatives(NamedTuple, Generic[Array]):
    a: Array
    force: Array
    da_dq: Array
    da_dv: Array
    da_dtau: Array
    dforce_dq: Array
    dforce_dv: Array
    dforce_dtau: Array

class Impulse(NamedTuple, Generic[Array]):
    v: Array
    impulse: Array

class ImpulseDerivatives(NamedTuple, Generic[Array]):
    v: Array
    impulse: Array
    dv_dq: Array
    dv_dv: Array
    dimpulse_dq: Array
    dimpulse_dv: Array

class ConstrainedInverseDynamics(NamedTuple, Generic[Array]):
    tau: Array
    force: Array

class ClosedConfiguration(NamedTuple, Generic[Array]):
    q: Array
    converged: Array
    error: Array
