"""Functions of frames and momentum that follow from the graphs of others: derivatives, and what
controllers make of Jacobians.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from featherlane.algorithms.frames import path
from featherlane.algorithms.tangent import configuration_rate, tangent_gradient
from featherlane.functions.table import Variant
from featherlane.program.derivatives.graphs import directional, jacobian
from featherlane.program.graph import Graph
from featherlane.program.linear_systems import determinant, eliminated_symmetric
from featherlane.program.trace import call
from featherlane.robot.model import Robot
from featherlane.robot.spatial import dot, transpose
from featherlane.robot.tree_of import tree_of
from featherlane.scalar import select, sqrt

TracedInputs = dict[str, Any]  # inputs by name, as nested lists of traced scalars
Graphs = Callable[[Variant], Graph]  # the graph of another function of the model
SPACE = 6  # the rows of a Jacobian


def _derivatives(of: str, out: str, wrt: Sequence[str]) -> Callable[..., TracedInputs]:
    """Returns a function that differentiates an output of a function by its inputs, by q in the
    tangent space.
    """

    def derive(
        model: Robot, variant: Variant, inputs: TracedInputs, graphs: Graphs
    ) -> TracedInputs:
        base = graphs(variant._replace(name=of))
        results = {}
        for x in wrt:
            rows = call(jacobian(base, out, x), **inputs)[f"d{out}_d{x}"]
            if x == "q":
                rows = [tangent_gradient(model, inputs["q"], row) for row in rows]
            results[f"d{out}_d{x}"] = rows
        return results

    return derive


def gravity_derivatives(
    model: Robot, variant: Variant, inputs: TracedInputs, graphs: Graphs
) -> TracedInputs:
    """Returns dg/dq, the derivative of inverse dynamics at rest."""
    still = dict.fromkeys(("v", "a"), [0.0] * model.nv)
    first = graphs(variant._replace(name="inverse_dynamics_derivatives"))
    return {"dg_dq": call(first, **inputs, **still)["dtau_dq"]}


def momentum_matrix_rate(
    model: Robot, variant: Variant, inputs: TracedInputs, graphs: Graphs
) -> TracedInputs:
    """Returns dA/dt, the derivative of the matrix of momentum along dq/dt = N(q) v."""
    base = graphs(variant._replace(name="centroidal_momentum_matrix"))
    inputs["q_direction"] = configuration_rate(model, inputs["q"], inputs["v"])
    return {"dA_dt": call(directional(base, "A", "q"), **inputs)["A_direction"]}


def task_space_inertia(
    model: Robot, variant: Variant, inputs: TracedInputs, graphs: Graphs
) -> TracedInputs:
    """Returns (J M^-1 J^T + damping_factor^2)^-1, by elimination without pivots."""
    J = call(graphs(variant._replace(name="jacobian")), **inputs)["J"]
    plain = variant._replace(name="mass_matrix_inverse", frame=None, reference=None)
    Minv, damping = call(graphs(plain), **inputs)["Minv"], inputs["damping_factor"]
    JMinv = [[dot(row, column) for column in Minv] for row in J]
    mobility = [[dot(row, other) for other in J] for row in JMinv]
    for k, row in enumerate(mobility):
        row[k] = row[k] + damping * damping
    system, zero = eliminated_symmetric(mobility), damping * 0.0
    units = [[zero + float(i == k) for i in range(SPACE)] for k in range(SPACE)]
    return {"inertia": [system.solve(unit) for unit in units]}  # of a symmetric matrix


def manipulability(
    model: Robot, variant: Variant, inputs: TracedInputs, graphs: Graphs
) -> TracedInputs:
    """Returns sqrt(det(J J^T)), or sqrt(det(J^T J)) where fewer than six freedoms move the frame.
    Where it is zero, its derivative is taken as zero, too.
    """
    rows, tree = call(graphs(variant._replace(name="jacobian")), **inputs)["J"], tree_of(model)
    (frame,) = variant.frames
    body = tree.point(model.frame(frame)).body
    moving = sorted({k for i in path(tree, body) for k, _ in tree.freedoms[i]})
    rows = [[row[k] for k in moving] for row in rows]
    if len(moving) < SPACE:
        rows = [*transpose(rows)]
    det = determinant([[dot(row, other) for other in rows] for row in rows]) if moving else 0.0
    positive = det > 0.0
    return {"w": select(positive, sqrt(select(positive, det, 1.0)), 0.0)}


DERIVE_KINEMATICS = {
    "frame_velocity_derivatives": _derivatives("frame_velocity", "velocity", ("q", "v")),
    "frame_acceleration_derivatives": _derivatives(
        "frame_acceleration", "acceleration", ("q", "v", "a")
    ),
    "gravity_torque_derivatives": gravity_derivatives,
    "centroidal_momentum_matrix_time_derivative": momentum_matrix_rate,
    "task_space_inertia": task_space_inertia,
    "manipulability": manipulability,
}
