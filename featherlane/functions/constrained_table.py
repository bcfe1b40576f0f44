"""The rows of functions of constrained robots, see `functions.table`."""

from __future__ import annotations

from typing import Any

from featherlane import algorithms
from featherlane.functions.actuation import Actuation
from featherlane.functions.dynamics_function import (
    QVA,
    QVT,
    STATE,
    VV,
    DynamicsFunction,
    Q,
    Size,
    V,
    of_kind,
    one_output,
    without_fixed,
)
from featherlane.functions.results import (
    ConstrainedForwardDynamics,
    ConstrainedForwardDynamicsDerivatives,
    ConstrainedInverseDynamics,
    Impulse,
    ImpulseDerivatives,
)
from featherlane.robot.tree import Tree


def _of_actuated(
    tree: Tree,
    *inputs: Any,
    actuation: Actuation | None = None,
    fixed: Any = None,
    **options: Any,
) -> tuple[Any, ...]:
    """Constrained inverse dynamics with the joints of an actuation, by default with all joints of
    one degree of freedom.
    """
    if actuation is None:
        actuated = frozenset(k for kind, _, k in tree.coordinates if kind.nv == 1)
    else:
        actuated = actuation.freedoms
    extended: dict[str, Any] = {**options, "actuated": actuated}
    return algorithms.constrained_inverse_dynamics(tree, *inputs, **extended)


ROWS_OF: Size = ("rows",)  # of constraints
ROWS_BY_V: Size = ("rows", "v")
LOOPS_AMONG_CONSTRAINTS = "pass model.loops"
CONSTRAINED = of_kind(
    "constrained",
    {
        "constrained_forward_dynamics": DynamicsFunction(
            QVT,
            {"a": V, "force": ROWS_OF},
            (without_fixed(algorithms.constrained_forward_dynamics),),
            ("constraints", "anchors", "f_ext"),
            collect=ConstrainedForwardDynamics,
            divides=True,
            with_loops=LOOPS_AMONG_CONSTRAINTS,
            derivatives="constrained_forward_dynamics_derivatives",
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
            divides=True,
            with_loops=LOOPS_AMONG_CONSTRAINTS,
        ),
        "impulse": DynamicsFunction(
            {**STATE, "restitution": ("constraints",)},
            {"v_next": V, "impulse": ROWS_OF},
            (algorithms.impulse,),
            ("constraints",),
            usual={"restitution": 0.0},
            collect=Impulse,
            divides=True,
            with_loops=LOOPS_AMONG_CONSTRAINTS,
            derivatives="impulse_derivatives",
        ),
        "impulse_derivatives": DynamicsFunction(
            {**STATE, "restitution": ("constraints",)},
            {
                **{"v_next": V, "impulse": ROWS_OF, "dv_dq": VV, "dv_dv": VV},
                **{"dimpulse_dq": ROWS_BY_V, "dimpulse_dv": ROWS_BY_V},
            },
            (algorithms.impulse_derivatives,),
            ("constraints",),
            usual={"restitution": 0.0},
            collect=ImpulseDerivatives,
            divides=True,
            with_loops=LOOPS_AMONG_CONSTRAINTS,
        ),
        "constrained_inverse_dynamics": DynamicsFunction(
            {**QVA, "weights": ROWS_OF},
            {"tau": V, "force": ROWS_OF},
            (_of_actuated,),
            ("constraints", "actuation", "f_ext"),
            usual={"weights": 1.0},
            collect=ConstrainedInverseDynamics,
            divides=True,
            with_loops=LOOPS_AMONG_CONSTRAINTS,
        ),
        "closing_step": DynamicsFunction(
            Q,
            {"q_next": ("q",), "error": ROWS_OF},
            (algorithms.closing_step,),
            ("constraints", "anchors"),
            divides=True,
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
            divides=True,
        ),
    },
)
