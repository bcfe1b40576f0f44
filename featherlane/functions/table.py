"""The table of functions: the inputs and outputs of each, and the algorithms that compute it.

Of several algorithms, the one whose graph has the fewest operations is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

from featherlane import algorithms
from featherlane.algorithms import parallel
from featherlane.algorithms.parallel import Method
from featherlane.algorithms.parallel.derivatives import scanned_derivative_rows
from featherlane.algorithms.rows.derivatives import coriolis_rows, inverse_dynamics_derivative_rows
from featherlane.algorithms.rows.inertia import articulated_rows, inertia_rows
from featherlane.functions.actuation import Actuation
from featherlane.functions.array_like import Integrator
from featherlane.functions.constraint_inputs import ConstraintInputs
from featherlane.functions.policy import Policy
from featherlane.functions.results import (
    ConstrainedForwardDynamics,
    ConstrainedForwardDynamicsDerivatives,
    ConstrainedInverseDynamics,
    DifferenceDerivatives,
    Direction,
    ForwardDynamicsDerivatives,
    Gradients,
    Impulse,
    ImpulseDerivatives,
    IntegrateDerivatives,
    InverseDynamicsDerivatives,
    LinearStep,
    PolicyTrajectory,
    ReducedStep,
    RolloutGradient,
    Step,
    Trajectory,
)
from featherlane.robot.model import Robot
from featherlane.robot.parameters import PARAMETERS
from featherlane.robot.tree import Tree

Size = tuple[str | int, ...]  # of "q", "v", "bodies" and numbers
Sizes = dict[str, Size]
Algorithm = Callable[..., tuple[Any, ...]]  # (tree, *inputs, **what `takes` names) -> outputs


REFERENCES = ("body", "world", "spatial")
REFERENCE_HINT = (
    "'body' (the frame's axes, at its origin; LOCAL in Pinocchio), 'world' (the world's axes, at "
    "the frame's origin; LOCAL_WORLD_ALIGNED) or 'spatial' (the world's axes, at the world's "
    "origin; WORLD)"
)


class DynamicsFunction(NamedTuple):
    """inputs, outputs: sizes by name. takes: which options a variant may have besides:
    "f_ext", "frame", "reference", "wrt" and others.
    """

    inputs: Sizes
    outputs: Sizes
    algorithms: tuple[Algorithm, ...]
    takes: tuple[str, ...] = ()
    shared: tuple[Algorithm, ...] | None = None
    """The algorithms for trees whose bodies share coordinates, where those differ."""
    collect: type[tuple] | None = None  # the named tuple of several results


class Variant(NamedTuple):
    """A function with its options; each variant has kernels of its own."""

    name: str
    wrenches: str | None = None  # the axes of f_ext, if it is given: "body" or "world"
    parameters: tuple[str, ...] = ()  # the parameters that are inputs
    frame: str | None = None
    reference: str | None = None
    wrt: str | None = None  # the parameter of a derivative
    at: tuple[str, ...] = ()  # the frames that f_ext acts at, if not one on each body
    method: str | None = None  # an algorithm by name, see METHODS; None: the cheapest
    integrator: str | None = None  # of steps in time, see INTEGRATORS
    actuation: Actuation | None = None  # None: controls are joint forces
    by_wrenches: bool = False  # whether derivatives by controls have columns of f_ext behind
    steps: int = 0  # of a rollout
    policy: Policy | None = None  # the feedback law of a rollout
    every: int = 1  # the steps of a rollout from one state that is kept to the next
    constraints: ConstraintInputs | None = None


def one_output(algorithm: Callable[..., Any]) -> Algorithm:
    """Returns the one output in a tuple, and ignores `fixed`, which only derivatives read."""

    @wraps(algorithm)
    def run(tree: Any, *inputs: Any, fixed: Any = None, **options: Any) -> tuple[Any, ...]:
        return (algorithm(tree, *inputs, **options),)

    return run


def without_fixed(algorithm: Callable[..., Any]) -> Algorithm:
    """Ignores `fixed`, which only derivatives read, for an algorithm of several outputs."""

    @wraps(algorithm)
    def run(tree: Any, *inputs: Any, fixed: Any = None, **options: Any) -> tuple[Any, ...]:
        return algorithm(tree, *inputs, **options)

    return run


V: Size = ("v",)
VV: Size = ("v", "v")
Q: Sizes = {"q": ("q",)}
STATE: Sizes = {**Q, "v": V}
QVA: Sizes = {**STATE, "a": V}
QVT: Sizes = {**STATE, "tau": V}
FUNCTIONS: dict[str, DynamicsFunction] = {
    "inverse_dynamics": DynamicsFunction(
        QVA, {"tau": V}, (one_output(algorithms.rnea),), ("f_ext",)
    ),
    "forward_dynamics": DynamicsFunction(
        QVT,
        {"a": V},
        (one_output(algorithms.aba), one_output(algorithms.factored_forward_dynamics)),
        ("f_ext",),
        shared=(one_output(algorithms.factored_forward_dynamics),),
    ),
    "mass_matrix": DynamicsFunction(Q, {"M": VV}, (one_output(algorithms.mass_matrix),)),
    "mass_matrix_inverse": DynamicsFunction(
        Q,
        {"Minv": VV},
        (one_output(algorithms.mass_matrix_inverse), one_output(algorithms.factored_inverse)),
        shared=(one_output(algorithms.factored_inverse),),
    ),
    "inverse_dynamics_derivatives": DynamicsFunction(
        QVA,
        {"dtau_dq": VV, "dtau_dv": VV},
        (algorithms.inverse_dynamics_derivatives,),
        ("f_ext",),
        collect=InverseDynamicsDerivatives,
    ),
    "forward_dynamics_derivatives": DynamicsFunction(
        QVT,
        {"da_dq": VV, "da_dv": VV, "da_dtau": VV},
        (algorithms.forward_dynamics_derivatives,),
        ("f_ext",),
        collect=ForwardDynamicsDerivatives,
    ),
    "forward_dynamics_derivatives_from": DynamicsFunction(
        {**QVA, "minv": VV},
        {"da_dq": VV, "da_dv": VV},
        (algorithms.forward_dynamics_derivatives_from,),
        ("f_ext",),
    ),
}
OF_ACCELERATIONS: dict[str, DynamicsFunction] = {  # what a method calls by another name
    "forward_dynamics_derivatives_at": FUNCTIONS["forward_dynamics_derivatives"]._replace(
        inputs=QVA, algorithms=(algorithms.forward_dynamics_derivatives_at,)
    ),
}


def _of_frame(inputs: Sizes, output: Sizes, algorithm: Callable[..., Any]) -> DynamicsFunction:
    return DynamicsFunction(inputs, output, (one_output(algorithm),), ("frame", "reference"))


def _of_robot(inputs: Sizes, output: Sizes, algorithm: Callable[..., Any]) -> DynamicsFunction:
    return DynamicsFunction(inputs, output, (one_output(algorithm),))


KINEMATICS: dict[str, DynamicsFunction] = {
    "frame_placement": DynamicsFunction(
        Q, {"placement": (4, 4)}, (one_output(algorithms.frame_placement),), ("frame",)
    ),
    "frame_velocity": _of_frame(STATE, {"velocity": (6,)}, algorithms.frame_velocity),
    "frame_acceleration": _of_frame(QVA, {"acceleration": (6,)}, algorithms.frame_acceleration),
    "jacobian": _of_frame(Q, {"J": (6, "v")}, algorithms.jacobian),
    "jacobian_time_derivative": _of_frame(
        STATE, {"dJ_dt": (6, "v")}, algorithms.jacobian_time_derivative
    ),
    "center_of_mass": _of_robot(Q, {"c": (3,)}, algorithms.center_of_mass),
    "center_of_mass_jacobian": _of_robot(Q, {"J": (3, "v")}, algorithms.center_of_mass_jacobian),
    "centroidal_momentum": _of_robot(STATE, {"h": (6,)}, algorithms.centroidal_momentum),
    "centroidal_momentum_matrix": _of_robot(
        Q, {"A": (6, "v")}, algorithms.centroidal_momentum_matrix
    ),
    "kinetic_energy": _of_robot(STATE, {"T": ()}, algorithms.kinetic_energy),
    "potential_energy": _of_robot(Q, {"V": ()}, algorithms.potential_energy),
    "coriolis_matrix": _of_robot(STATE, {"C": VV}, algorithms.coriolis_matrix),
    "gravity_torque": _of_robot(Q, {"g": V}, algorithms.gravity_torque),
    "bias_force": DynamicsFunction(
        STATE, {"tau": V}, (one_output(algorithms.bias_force),), ("f_ext",)
    ),
}


TWO_Q: Sizes = {"q0": ("q",), "q1": ("q",)}
CONFIGURATIONS: dict[str, DynamicsFunction] = {
    "integrate": _of_robot(STATE, {"q_next": ("q",)}, algorithms.integrate),
    "difference": _of_robot(TWO_Q, {"v": V}, algorithms.difference),
    "interpolate": _of_robot({**TWO_Q, "fraction": ()}, {"q": ("q",)}, algorithms.interpolate),
    "integrate_derivatives": DynamicsFunction(
        STATE,
        {"dq_next_dq": VV, "dq_next_dv": VV},
        (algorithms.integrate_derivatives,),
        collect=IntegrateDerivatives,
    ),
    "difference_derivatives": DynamicsFunction(
        TWO_Q,
        {"dv_dq0": VV, "dv_dq1": VV},
        (algorithms.difference_derivatives,),
        collect=DifferenceDerivatives,
    ),
}


def _of_actuated(
    tree: Tree, *inputs: Any, actuation: Actuation, fixed: Any = None, **options: Any
) -> tuple[Any, ...]:
    """Constrained inverse dynamics with the joints of an actuation."""
    given: dict[str, Any] = {**options, "actuated": [x.freedom for x in actuation.actuators]}
    return algorithms.constrained_inverse_dynamics(tree, *inputs, **given)


ROWS_OF: Size = ("rows",)  # of constraints
ROWS_BY_V: Size = ("rows", "v")
CONSTRAINED: dict[str, DynamicsFunction] = {
    "constrained_forward_dynamics": DynamicsFunction(
        QVT,
        {"a": V, "force": ROWS_OF},
        (without_fixed(algorithms.constrained_forward_dynamics),),
        ("constraints", "anchors", "f_ext"),
        collect=ConstrainedForwardDynamics,
    ),
    "constrained_forward_dynamics_derivatives": DynamicsFunction(
        QVT,
        {
            **{"a": V, "force": ROWS_OF, "da_dq": VV, "da_dv": VV, "da_dtau": VV},
            **{"dforce_dq": ROWS_BY_V, "dforce_dv": ROWS_BY_V, "dforce_dtau": ROWS_BY_V},
        },
        (algorithms.constrained_forward_dynamics_derivatives,),
        ("constraints", "anchors", "f_ext"),
        collect=ConstrainedForwardDynamicsDerivatives,
    ),
    "impulse": DynamicsFunction(
        {**STATE, "restitution": ("constraints",)},
        {"v_next": V, "impulse": ROWS_OF},
        (algorithms.impulse,),
        ("constraints",),
        collect=Impulse,
    ),
    "impulse_derivatives": DynamicsFunction(
        {**STATE, "restitution": ("constraints",)},
        {
            **{"v_next": V, "impulse": ROWS_OF, "dv_dq": VV, "dv_dv": VV},
            **{"dimpulse_dq": ROWS_BY_V, "dimpulse_dv": ROWS_BY_V},
        },
        (algorithms.impulse_derivatives,),
        ("constraints",),
        collect=ImpulseDerivatives,
    ),
    "constrained_inverse_dynamics": DynamicsFunction(
        {**QVA, "weights": ROWS_OF},
        {"tau": V, "force": ROWS_OF},
        (_of_actuated,),
        ("constraints", "actuation", "f_ext"),
        collect=ConstrainedInverseDynamics,
    ),
    "closing_step": DynamicsFunction(
        Q,
        {"q_next": ("q",), "error": ROWS_OF},
        (algorithms.closing_step,),
        ("constraints", "anchors"),
    ),
    "constraint_jacobian": DynamicsFunction(
        Q, {"J": ROWS_BY_V}, (one_output(algorithms.constraint_jacobian),), ("constraints",)
    ),
    "constraint_error": DynamicsFunction(
        Q,
        {"error": ROWS_OF},
        (one_output(algorithms.constraint_error),),
        ("constraints", "anchors"),
    ),
    "delassus_matrix": DynamicsFunction(
        Q,
        {"S": ("rows", "rows")},
        (one_output(algorithms.delassus_matrix),),
        ("constraints",),
    ),
}


DT: Sizes = {"dt": ()}
SLOPES: Sizes = {"da_dq": VV, "da_dv": VV, "da_dtau": VV}
BY_CONTROLS: Sizes = {"da_dq": VV, "da_dv": VV, "da_du": ("v", "columns")}
NEXT: Sizes = {"q_next": ("q",), "v_next": V}
MOVED: Sizes = {**NEXT, "motion": V}  # how it moved, in the tangent space of the beginning
LINEAR: Sizes = {**NEXT, "A": ("2v", "2v"), "B": ("2v", "columns")}
BY_ALL: Size = ("v", "2v+columns")  # derivatives by [q, v, controls]
DEFAULT_INTEGRATOR: Integrator = "implicit_damping"
INTEGRATORS = ("implicit_damping", "semi_implicit", "euler", "rk4", "midpoint")
CONTROLLED: Sizes = {**STATE, "tau": ("u",), **DT}
IN_TIME = ("f_ext", "integrator", "actuation", "constraints", "anchors")
_TRAJECTORY: Sizes = {"q": ("kept", "q"), "v": ("kept", "v")}
_MANY_CONTROLS: Sizes = {**STATE, "tau": ("steps", "u"), **DT}
_DIRECTIONS: Sizes = {"dq": V, "dv": V, "dtau": ("u",)}
_GRADIENTS: Sizes = {"gq": V, "gv": V, "gtau": ("u",)}
STEPS: dict[str, DynamicsFunction] = {
    "step": DynamicsFunction(CONTROLLED, NEXT, (), IN_TIME, collect=Step),
    "linearize_step": DynamicsFunction(CONTROLLED, LINEAR, (), IN_TIME, collect=LinearStep),
    "linearize_step_reduced": DynamicsFunction(
        CONTROLLED, {**NEXT, **BY_CONTROLS}, (), IN_TIME, collect=ReducedStep
    ),
    "step_jvp": DynamicsFunction(
        {**CONTROLLED, **_DIRECTIONS}, {"dq_next": V, "dv_next": V}, (), IN_TIME, collect=Direction
    ),
    "step_vjp": DynamicsFunction(
        {**CONTROLLED, "gq_next": V, "gv_next": V}, _GRADIENTS, (), IN_TIME, collect=Gradients
    ),
}
ROLLOUTS: dict[str, DynamicsFunction] = {  # of so many steps, which their variants tell
    "rollout": DynamicsFunction(
        _MANY_CONTROLS, {f"{k}_kept": size for k, size in _TRAJECTORY.items()}, (), IN_TIME,
        collect=Trajectory,
    ),
    "rollout_with": DynamicsFunction(
        {**STATE, **DT},
        {**{f"{k}_kept": size for k, size in _TRAJECTORY.items()}, "controls": ("steps", "u")},
        (), IN_TIME, collect=PolicyTrajectory,
    ),
    "rollout_gradient": DynamicsFunction(
        {
            "q": ("steps+1", "q"),
            "v": ("steps+1", "v"),
            "tau": ("steps", "u"),
            **DT,
            "gq": ("steps+1", "v"),
            "gv": ("steps+1", "v"),
        },
        {"gq0": V, "gv0": V, "gtau": ("steps", "u")},
        (),
        IN_TIME,
        collect=RolloutGradient,
    ),
}  # fmt: skip


def _not_shared(tree: Tree) -> str | None:
    return parallel.coupling_refusal(tree, "aba")


def _named(method: Method) -> Method:
    return method._replace(algorithm=one_output(method.algorithm))


METHODS: dict[str, dict[str, Method]] = {
    "inverse_dynamics": {
        "serial": _named(Method(algorithms.rnea)),
        "scan": _named(Method(parallel.scanned_inverse_dynamics)),
    },
    "forward_dynamics": {
        "aba": _named(Method(algorithms.aba, _not_shared)),
        **{name: _named(method) for name, method in parallel.FORWARD_DYNAMICS.items()},
    },
    "inverse_dynamics_derivatives": {
        "serial": Method(algorithms.inverse_dynamics_derivatives),
        "scan": Method(parallel.scanned_derivatives),
    },
}
"""Algorithms that may be asked for by name: serial ones, and those of `algorithms.parallel`."""

ROWS: dict[tuple[str, str | None], Algorithm] = {  # by function and method
    ("mass_matrix", None): one_output(inertia_rows),
    ("mass_matrix_inverse", None): one_output(articulated_rows),
    ("coriolis_matrix", None): one_output(coriolis_rows),
    ("inverse_dynamics_derivatives", "serial"): inverse_dynamics_derivative_rows,
    ("inverse_dynamics_derivatives", "scan"): scanned_derivative_rows,
}
"""Algorithms that give a row of numbers for each freedom, of which products make the matrices."""


ALONG: Sizes = {"weights": V, "direction": ("3v",)}
PRODUCT: Sizes = {"product": ("3v",)}
DERIVED: dict[str, DynamicsFunction] = {  # by `derived.py`: no algorithm computes them
    "inverse_dynamics_parameter_derivatives": DynamicsFunction(
        QVA, {"dtau": ("v", "wrt")}, (), ("wrt", "f_ext")
    ),
    "inverse_dynamics_second_derivatives": DynamicsFunction(
        {**QVA, "direction": V},
        dict.fromkeys(("d2tau_dqdq", "d2tau_dvdq", "d2tau_dvdv", "d2tau_dadq"), VV),
        (),
        ("f_ext",),
    ),
    "inverse_dynamics_hessian_product": DynamicsFunction(QVA | ALONG, PRODUCT, (), ("f_ext",)),
    "forward_dynamics_hessian_product": DynamicsFunction(QVT | ALONG, PRODUCT, (), ("f_ext",)),
}
TABLE = {
    **FUNCTIONS,
    **OF_ACCELERATIONS,
    **KINEMATICS,
    **CONFIGURATIONS,
    **STEPS,
    **DERIVED,
}
"""All of them; `FUNCTIONS` are the seven that are dynamics proper."""
CALLED = {**TABLE, **CONSTRAINED, **ROLLOUTS}
BY_NAME = {**TABLE, **CONSTRAINED, "rollout": ROLLOUTS["rollout"]}
"""What other frameworks and `featherlane.call` have: functions whose arrays say all of their sizes,
without the policies and trajectories that the other rollouts take.
"""

DIVIDES = {
    *(name for name in TABLE if name.startswith("forward_dynamics")),
    *("mass_matrix_inverse", *STEPS, *ROLLOUTS),
    *(name for name in CONSTRAINED if not name.startswith("constraint_")),
}
"""The functions that divide by the mass matrix."""


def shapes(model: Robot, sizes: Sizes, variant: Variant) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of sizes for a variant of a model."""
    n, controls = model.nv, variant.actuation.controls if variant.actuation else model.nv
    of = {"q": model.nq, "v": n, "2v": 2 * n, "3v": 3 * n, "bodies": model.nbodies, "u": controls}
    wrenches = 6 * (len(variant.at) or model.nbodies) if variant.by_wrenches else 0
    of |= {"columns": controls + wrenches, "2v+columns": 2 * n + controls + wrenches}
    of |= {"steps": variant.steps, "steps+1": variant.steps + 1}
    curved = (model.types[i] for i in model.independent)
    of |= {"curved": sum(kind.nv**2 for kind in curved if kind.commutator is not None)}
    of |= {"kept": variant.steps // variant.every + 1}
    if variant.constraints is not None:
        held = variant.constraints.constraints
        of |= {"rows": held.rows, "constraints": held.count}

    def number(entry: str | int) -> int:
        if entry == "wrt":
            return math.prod(shapes(model, {"": PARAMETERS[str(variant.wrt)]}, variant)[""])
        return of[entry] if isinstance(entry, str) else entry

    return {name: tuple(map(number, size)) for name, size in sizes.items()}
