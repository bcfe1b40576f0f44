"""Functions that no algorithm computes: derivatives of the graphs of other functions.

Each is traced as an algorithm is, and calls graphs of `program/derivatives/graphs`. The
derivatives by q are taken in the tangent space, along dq/dt = N(q) v.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from featherlane.algorithms.tangent import configuration_rate, tangent_gradient
from featherlane.functions.table import Variant
from featherlane.program.derivatives.graphs import directional, jacobian, pullback
from featherlane.program.graph import Graph
from featherlane.program.trace import call, trace
from featherlane.robot.model import Robot
from featherlane.robot.parameters import BODY_PARAMETERS, parameter_value

TracedInputs = dict[str, Any]  # inputs by name, as nested lists of traced scalars
Graphs = Callable[[Variant], Graph]  # the graph of another function of the model


def with_parameter(variant: Variant, p: str) -> Variant:
    """Returns inverse dynamics with p as the last input, in place of those that p holds too."""
    replaced = {p, *BODY_PARAMETERS} if p == "inertial" else {p}
    others = (name for name in variant.parameters if name not in replaced)
    return variant._replace(name="inverse_dynamics", parameters=(*others, p), wrt=None)


def parameter_derivatives(
    model: Robot, variant: Variant, inputs: TracedInputs, graphs: Graphs
) -> TracedInputs:
    """Returns dtau/dp, nv x the entries of the parameter p, in reverse mode: one sweep for each
    entry of tau, through the bodies that its joint carries.
    """
    p = str(variant.wrt)
    base = graphs(with_parameter(variant, p))
    value = {p: parameter_value(model, p).tolist()}  # the model's, if p is no input
    rows = call(jacobian(base, "tau", p, "reverse"), **value | inputs)[f"dtau_d{p}"]
    return {"dtau": [_flat(row) for row in rows]}


def _flat(row: Any) -> list[Any]:
    return [x for part in row for x in _flat(part)] if isinstance(row, list) else [row]


def second_derivatives(
    model: Robot, variant: Variant, inputs: TracedInputs, graphs: Graphs
) -> TracedInputs:
    """Returns derivatives along one direction: of dtau/dq, dtau/dv, M by q, and of dtau/dv by v."""
    direction = inputs.pop("direction")
    first = graphs(variant._replace(name="inverse_dynamics_derivatives"))
    mass = graphs(Variant("mass_matrix", parameters=variant.parameters))
    inputs["q_direction"] = configuration_rate(model, inputs["q"], direction)
    inputs["v_direction"] = direction

    def along(graph: Graph, of: str, wrt: str) -> Any:
        return call(directional(graph, of, wrt), **inputs)[f"{of}_direction"]

    return {
        "d2tau_dqdq": along(first, "dtau_dq", "q"),
        "d2tau_dvdq": along(first, "dtau_dv", "q"),
        "d2tau_dvdv": along(first, "dtau_dv", "v"),
        "d2tau_dadq": along(mass, "M", "q"),
    }


def hessian_product(
    of: str,
    third: str,
    out: str,
    model: Robot,
    variant: Variant,
    inputs: TracedInputs,
    graphs: Graphs,
) -> TracedInputs:
    """Returns the derivative along one direction of the gradient of weights . f by (q, v, third),
    where f is the output `out` of the function `of`: reverse mode, then forward mode.
    """
    base = graphs(variant._replace(name=of))
    wanted, weight = ("q", "v", third), f"{out}_weight"

    def gradient(*inputs: Any) -> dict[str, Any]:
        named = dict(zip(shapes, inputs, strict=True))
        parts = {x: call(pullback(base, out, x), **named)[f"{x}_weight"] for x in wanted}
        return {"g": [*tangent_gradient(model, named["q"], parts["q"]), *parts["v"], *parts[third]]}

    shapes = {**base.inputs, weight: (model.nv,)}
    graph = trace(gradient, shapes)
    inputs[weight] = inputs.pop("weights")
    direction, n = inputs.pop("direction"), model.nv
    directions = {x: direction[k * n : (k + 1) * n] for k, x in enumerate(wanted)}
    directions["q"] = configuration_rate(model, inputs["q"], directions["q"])
    product = [0.0] * (3 * model.nv)
    for x, direction in directions.items():
        share = call(directional(graph, "g", x), **inputs, **{f"{x}_direction": direction})
        product = [p + s for p, s in zip(product, share["g_direction"], strict=True)]
    return {"product": product}


DERIVE: dict[str, Callable[[Robot, Variant, TracedInputs, Graphs], TracedInputs]] = {
    "inverse_dynamics_parameter_derivatives": parameter_derivatives,
    "inverse_dynamics_second_derivatives": second_derivatives,
    "inverse_dynamics_hessian_product": partial(hessian_product, "inverse_dynamics", "a", "tau"),
    "forward_dynamics_hessian_product": partial(hessian_product, "forward_dynamics", "tau", "a"),
}
