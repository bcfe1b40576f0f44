"""The table of functions: the inputs and outputs of each, and the algorithms that compute it.

Of several algorithms, the one whose graph has the fewest operations is compiled.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from featherlane import algorithms
from featherlane.algorithms import parallel
from featherlane.algorithms.integrators import Integrator, Tableau
from featherlane.algorithms.late import late
from featherlane.algorithms.parallel import Method
from featherlane.algorithms.rows.derivatives import coriolis_rows, inverse_dynamics_derivative_rows
from featherlane.algorithms.rows.inertia import articulated_rows, inertia_rows
from featherlane.functions.actuation import Actuation, with_actuation
from featherlane.functions.constrained_table import CONSTRAINED
from featherlane.functions.constraint_inputs import ConstraintInputs
from featherlane.functions.dynamics_function import (
    QVA,
    QVT,
    STATE,
    VV,
    DynamicsFunction,
    Q,
    Sizes,
    V,
    named,
    of_frame,
    of_kind,
    of_robot,
    one_output,
    without_fixed,
)
from featherlane.functions.ground_inputs import GROUND_OUTPUTS, GroundInputs
from featherlane.functions.policy import Policy
from featherlane.functions.results import (
    ContactForwardDynamics,
    DifferenceDerivatives,
    Direction,
    ForwardDynamicsDerivatives,
    FrameAccelerationDerivatives,
    FrameVelocityDerivatives,
    Gradients,
    IntegrateDerivatives,
    InverseDynamicsDerivatives,
    LinearStep,
    PolicyTrajectory,
    ReducedStep,
    RolloutGradient,
    Step,
    Trajectory,
)
from featherlane.functions.sensors import Sensors
from featherlane.robot.model import Robot
from featherlane.robot.parameters import PARAMETERS
from featherlane.robot.tree import Tree

REFERENCES = ("body", "world", "spatial")
REFERENCE_HINT = (
    "'body' (the frame's axes, at its origin; LOCAL in Pinocchio), 'world' (the world's axes, at "
    "the frame's origin; LOCAL_WORLD_ALIGNED) or 'spatial' (the world's axes, at the world's "
    "origin; WORLD)"
)


class Variant(NamedTuple):
    """A function with its options; each variant has other kernels."""

    name: str
    wrenches: str | None = None  # the axes of f_ext, if there is one: "body" or "world"
    parameters: tuple[str, ...] = ()  # the parameters that are inputs
    frame: str | tuple[str, ...] | None = None  # several give an output each, stacked
    reference: str | None = None
    wrt: str | None = None  # the parameter of a derivative
    at: tuple[str, ...] = ()  # the frames that f_ext acts at, if not one on each body
    method: str | None = None  # one of the function's `methods`; None: the cheapest algorithm
    integrator: str | None = None  # of steps in time, see algorithms/integrators.py
    actuation: Actuation | None = None  # None: controls are joint forces
    by_wrenches: bool = False  # whether derivatives by controls have columns of f_ext behind
    steps: int = 0  # of a rollout
    policy: Policy | None = None  # the feedback law of a rollout
    every: int = 1  # the steps of a rollout from one state that is kept to the next
    constraints: ConstraintInputs | None = None
    tableau: Tableau | None = None  # of the functions that steps call
    ground: GroundInputs | None = None
    sensors: Sensors | None = None  # what steps give besides their states

    @property
    def frames(self) -> tuple[str, ...]:
        """The frame, or all frames, by name."""
        if self.frame is None:
            return ()
        return self.frame if isinstance(self.frame, tuple) else (self.frame,)


def _not_shared(tree: Tree) -> str | None:
    return parallel.coupling_refusal(tree, "aba")


DERIVATIVES_WITH_LOOPS = (
    "call model.constrained_forward_dynamics_derivatives(q, v, tau, model.loops)"
)
STEPS_WITH_LOOPS = "pass constraints=model.loops"
FUNCTIONS: dict[str, DynamicsFunction] = {
    "inverse_dynamics": DynamicsFunction(
        QVA,
        {"tau": V},
        (one_output(algorithms.rnea),),
        ("f_ext",),
        on_moving_ground=True,
        about="Inverse dynamics: the joint torques that give an acceleration.",
        short="ID",
        derivatives="inverse_dynamics_derivatives",
        jacobians={
            "q": ("inverse_dynamics_derivatives", "dtau_dq"),
            "v": ("inverse_dynamics_derivatives", "dtau_dv"),
            "a": ("mass_matrix", "M"),
        },
        methods={
            "serial": named(Method(algorithms.rnea)),
            "scan": named(Method(parallel.scanned_inverse_dynamics)),
        },
    ),
    "forward_dynamics": DynamicsFunction(
        QVT,
        {"a": V},
        (one_output(algorithms.aba), one_output(algorithms.factored_forward_dynamics)),
        ("f_ext",),
        on_moving_ground=True,
        shared=(one_output(algorithms.factored_forward_dynamics),),
        about="Forward dynamics: the acceleration that joint torques give.",
        short="FD",
        derivatives="forward_dynamics_derivatives",
        jacobians={
            "q": ("forward_dynamics_derivatives", "da_dq"),
            "v": ("forward_dynamics_derivatives", "da_dv"),
            "tau": ("forward_dynamics_derivatives", "da_dtau"),
        },
        divides=True,
        with_loops="call model.constrained_forward_dynamics(q, v, tau, model.loops)",
        lost_as_a_whole=True,
        methods={
            "aba": named(Method(algorithms.aba, _not_shared)),
            **{name: named(method) for name, method in parallel.FORWARD_DYNAMICS.items()},
        },
    ),
    "mass_matrix": DynamicsFunction(
        Q,
        {"M": VV},
        (one_output(algorithms.mass_matrix),),
        about="The mass matrix M(q), symmetric.",
        short="M",
        by_pairs=True,
        rows={None: one_output(inertia_rows)},
    ),
    "mass_matrix_inverse": DynamicsFunction(
        Q,
        {"Minv": VV},
        (one_output(algorithms.mass_matrix_inverse), one_output(algorithms.factored_inverse)),
        shared=(one_output(algorithms.factored_inverse),),
        about="The inverse of the mass matrix, symmetric.",
        short="Minv",
        divides=True,
        lost_as_a_whole=True,
        by_pairs=True,
        rows={None: one_output(articulated_rows)},
    ),
    "inverse_dynamics_derivatives": DynamicsFunction(
        QVA,
        {"dtau_dq": VV, "dtau_dv": VV},
        (algorithms.inverse_dynamics_derivatives,),
        ("f_ext",),
        collect=InverseDynamicsDerivatives,
        about="The derivatives of inverse dynamics by q and v.",
        short="dID",
        by_pairs=True,
        methods={
            "serial": Method(algorithms.inverse_dynamics_derivatives),
            "scan": Method(parallel.scanned_derivatives),
        },
        rows={"serial": inverse_dynamics_derivative_rows, "scan": parallel.scanned_derivative_rows},
    ),
    "forward_dynamics_derivatives": DynamicsFunction(
        QVT,
        {"da_dq": VV, "da_dv": VV, "da_dtau": VV},
        (algorithms.forward_dynamics_derivatives,),
        ("f_ext",),
        collect=ForwardDynamicsDerivatives,
        about="The derivatives of forward dynamics by q, v and tau.",
        short="dFD",
        divides=True,
        with_loops=DERIVATIVES_WITH_LOOPS,
        lost_as_a_whole=True,
        by_pairs=True,
    ),
    "forward_dynamics_derivatives_from": DynamicsFunction(
        {**QVA, "minv": VV},
        {"da_dq": VV, "da_dv": VV},
        (algorithms.forward_dynamics_derivatives_from,),
        ("f_ext",),
        about=(
            "The derivatives of forward dynamics where a and the inverse mass matrix are known."
        ),
        short="diFD",
        divides=True,
        with_loops=DERIVATIVES_WITH_LOOPS,
        by_pairs=True,
    ),
}
OF_ACCELERATIONS = of_kind(
    "of_accelerations",
    {
        "forward_dynamics_derivatives_at": FUNCTIONS["forward_dynamics_derivatives"]._replace(
            inputs=QVA,
            algorithms=(algorithms.forward_dynamics_derivatives_at,),
            about="The derivatives of forward dynamics where a is known.",
            short="",
            lost_as_a_whole=False,
        ),
    },
)


KINEMATICS = of_kind(
    "kinematics",
    {
        "frame_placement": DynamicsFunction(
            Q, {"placement": (4, 4)}, (one_output(algorithms.frame_placement),), ("frame",)
        ),
        "frame_velocity": of_frame(STATE, {"velocity": (6,)}, algorithms.frame_velocity),
        "frame_acceleration": of_frame(QVA, {"acceleration": (6,)}, algorithms.frame_acceleration),
        "jacobian": of_frame(Q, {"J": (6, "v")}, algorithms.jacobian),
        "jacobian_time_derivative": of_frame(
            STATE, {"dJ_dt": (6, "v")}, algorithms.jacobian_time_derivative
        ),
        "center_of_mass": of_robot(Q, {"c": (3,)}, algorithms.center_of_mass),
        "center_of_mass_jacobian": of_robot(Q, {"J": (3, "v")}, algorithms.center_of_mass_jacobian),
        "centroidal_momentum": of_robot(STATE, {"h": (6,)}, algorithms.centroidal_momentum),
        "centroidal_momentum_matrix": of_robot(
            Q, {"A": (6, "v")}, algorithms.centroidal_momentum_matrix
        ),
        "centroidal_momentum_rate": of_robot(
            QVA, {"dh_dt": (6,)}, algorithms.centroidal_momentum_rate
        ),
        "body_regressor": DynamicsFunction(
            QVA, {"Y": (6, 10)}, (one_output(algorithms.body_regressor),), ("frame",)
        ),
        "imu": DynamicsFunction(QVA, {"imu": (6,)}, (one_output(algorithms.imu),), ("frame",)),
        "kinetic_energy": of_robot(STATE, {"T": ()}, algorithms.kinetic_energy),
        "potential_energy": of_robot(Q, {"V": ()}, algorithms.potential_energy),
        "coriolis_matrix": of_robot(
            STATE, {"C": VV}, algorithms.coriolis_matrix, rows={None: one_output(coriolis_rows)}
        ),
        "gravity_torque": of_robot(Q, {"g": V}, algorithms.gravity_torque),
        "bias_force": of_robot(
            STATE, {"tau": V}, algorithms.bias_force, takes=("f_ext",), on_moving_ground=True
        ),
    },
)


TWO_Q: Sizes = {"q0": ("q",), "q1": ("q",)}
CONFIGURATIONS = of_kind(
    "configurations",
    {
        "integrate": of_robot(
            STATE, {"q_next": ("q",)}, algorithms.integrate, derivatives="integrate_derivatives"
        ),
        "difference": of_robot(
            TWO_Q, {"v": V}, algorithms.difference, derivatives="difference_derivatives"
        ),
        "interpolate": of_robot({**TWO_Q, "fraction": ()}, {"q": ("q",)}, algorithms.interpolate),
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
    },
)


DT: Sizes = {"dt": ()}
SLOPES: Sizes = {"da_dq": VV, "da_dv": VV, "da_dtau": VV}
BY_CONTROLS: Sizes = {"da_dq": VV, "da_dv": VV, "da_du": ("v", "columns")}
NEXT: Sizes = {"q_next": ("q",), "v_next": V}
MOVED: Sizes = {**NEXT, "motion": V}  # how it moved, in the tangent space of the beginning
LINEAR: Sizes = {**NEXT, "A": ("2v", "2v"), "B": ("2v", "columns")}
DEFAULT_INTEGRATOR: Integrator = "implicit_damping"
CONTROLLED: Sizes = {**STATE, "tau": ("u",), **DT}
IN_TIME = ("f_ext", "integrator", "actuation", "constraints", "anchors")
ON_GROUND = (*IN_TIME, "ground")
SENSING = (*ON_GROUND, "sensors")
_TRAJECTORY: Sizes = {"q": ("kept", "q"), "v": ("kept", "v")}
_MANY_CONTROLS: Sizes = {**STATE, "tau": ("steps", "u"), **DT}
DIRECTIONS: Sizes = {"dq": V, "dv": V, "dtau": ("u",)}
END_GRADIENTS: Sizes = {"gq_next": V, "gv_next": V}
_GRADIENTS: Sizes = {"gq": V, "gv": V, "gtau": ("u",)}
STEPS = of_kind(
    "steps",
    {
        "step": DynamicsFunction(
            CONTROLLED, NEXT, (), SENSING, collect=Step, derivatives="linearize_step"
        ),
        "linearize_step": DynamicsFunction(CONTROLLED, LINEAR, (), ON_GROUND, collect=LinearStep),
        "linearize_step_reduced": DynamicsFunction(
            CONTROLLED, {**NEXT, **BY_CONTROLS}, (), ON_GROUND, collect=ReducedStep
        ),
        "step_jvp": DynamicsFunction(
            {**CONTROLLED, **DIRECTIONS},
            {"dq_next": V, "dv_next": V},
            (),
            ON_GROUND,
            collect=Direction,
        ),
        "step_vjp": DynamicsFunction(
            {**CONTROLLED, **END_GRADIENTS}, _GRADIENTS, (), ON_GROUND, collect=Gradients
        ),
    },
    divides=True,
    with_loops=STEPS_WITH_LOOPS,
)
# of so many steps, which their variants tell
ROLLOUTS = of_kind(
    "rollouts",
    {
        "rollout": DynamicsFunction(
            _MANY_CONTROLS,
            {f"{k}_kept": size for k, size in _TRAJECTORY.items()},
            (),
            SENSING,
            collect=Trajectory,
        ),
        "rollout_with": DynamicsFunction(
            {**STATE, **DT},
            {**{f"{k}_kept": size for k, size in _TRAJECTORY.items()}, "controls": ("steps", "u")},
            (),
            SENSING,
            collect=PolicyTrajectory,
            public=False,
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
            ON_GROUND,
            collect=RolloutGradient,
            public=False,
        ),
    },
    divides=True,
    with_loops=STEPS_WITH_LOOPS,
)


ON_CONTACTS = of_kind(
    "steps",
    {
        "contact_forward_dynamics": DynamicsFunction(
            CONTROLLED,
            {"a": V, **GROUND_OUTPUTS},
            (
                with_actuation(
                    without_fixed(late("featherlane.algorithms.ground_steps", "ground_step"))
                ),
            ),
            ("f_ext", "actuation", "constraints", "anchors", "ground"),
            collect=ContactForwardDynamics,
            public=False,
        )
    },
    divides=True,
    with_loops=STEPS_WITH_LOOPS,
)


ALONG: Sizes = {"weights": V, "direction": ("3v",)}
PRODUCT: Sizes = {"product": ("3v",)}
OF_FRAME = ("frame", "reference")
# by `derived.py` and `derived_kinematics.py`: no algorithm computes them
DERIVED = of_kind(
    "derived",
    {
        "inverse_dynamics_parameter_derivatives": DynamicsFunction(
            QVA, {"dtau": ("v", "wrt")}, (), ("wrt", "f_ext"), on_moving_ground=True, by_pairs=True
        ),
        "inverse_dynamics_second_derivatives": DynamicsFunction(
            {**QVA, "direction": V},
            dict.fromkeys(("d2tau_dqdq", "d2tau_dvdq", "d2tau_dvdv", "d2tau_dadq"), VV),
            (),
            ("f_ext",),
            by_pairs=True,
        ),
        "frame_velocity_derivatives": DynamicsFunction(
            STATE,
            {"dvelocity_dq": (6, "v"), "dvelocity_dv": (6, "v")},
            (),
            OF_FRAME,
            collect=FrameVelocityDerivatives,
        ),
        "frame_acceleration_derivatives": DynamicsFunction(
            QVA,
            {f"dacceleration_d{x}": (6, "v") for x in "qva"},
            (),
            OF_FRAME,
            collect=FrameAccelerationDerivatives,
        ),
        "gravity_torque_derivatives": DynamicsFunction(Q, {"dg_dq": VV}, (), by_pairs=True),
        "centroidal_momentum_matrix_time_derivative": DynamicsFunction(
            STATE, {"dA_dt": (6, "v")}, ()
        ),
        "task_space_inertia": DynamicsFunction(
            {**Q, "damping_factor": ()}, {"inertia": (6, 6)}, (), OF_FRAME, divides=True
        ),
        "manipulability": DynamicsFunction(Q, {"w": ()}, (), OF_FRAME),
        "inverse_dynamics_hessian_product": DynamicsFunction(QVA | ALONG, PRODUCT, (), ("f_ext",)),
        "forward_dynamics_hessian_product": DynamicsFunction(
            QVT | ALONG,
            PRODUCT,
            (),
            ("f_ext",),
            divides=True,
            with_loops="it does not support constraints",
        ),
    },
)
TABLE = {
    **FUNCTIONS,
    **OF_ACCELERATIONS,
    **KINEMATICS,
    **CONFIGURATIONS,
    **STEPS,
    **DERIVED,
}
"""All of them; `FUNCTIONS` are the seven that are dynamics proper."""
CALLED = {**TABLE, **CONSTRAINED, **ROLLOUTS, **ON_CONTACTS}
BY_NAME = {name: function for name, function in CALLED.items() if function.public}
"""What other frameworks and `featherlane.call` have: functions whose arrays say all of their sizes,
without the policies and trajectories that the other rollouts take.
"""


def shapes(model: Robot, sizes: Sizes, variant: Variant) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of sizes for a variant of a model."""
    n, controls = model.nv, variant.actuation.controls if variant.actuation else model.nv
    of = {"q": model.nq, "v": n, "2v": 2 * n, "3v": 3 * n, "bodies": model.nbodies, "u": controls}
    wrenches = 6 * (len(variant.at) or model.nbodies) if variant.by_wrenches else 0
    of |= {"columns": controls + wrenches}
    of |= {"steps": variant.steps, "steps+1": variant.steps + 1}
    types = (model.types[i] for i in model.independent)
    of |= {"lie_groups": sum(kind.nv**2 for kind in types if kind.commutator is not None)}
    kept = variant.steps // variant.every
    of |= {"kept": kept + 1, "sensed": kept}
    if variant.constraints is not None:
        held = variant.constraints.constraints
        of |= {"rows": held.rows, "constraints": held.count}
    if variant.ground is not None:
        of |= variant.ground.counts(model)
        singles = of["impulses"] - 3 * of["contacts"] + of.get("rows", 0)
        of |= {"blocks": of["contacts"] - (-singles // 3)}

    def number(entry: str | int) -> int:
        if entry == "wrt":
            return math.prod(shapes(model, {"": PARAMETERS[str(variant.wrt)]}, variant)[""])
        return of[entry] if isinstance(entry, str) else entry

    return {name: tuple(map(number, size)) for name, size in sizes.items()}
