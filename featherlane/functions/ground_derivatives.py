"""Derivatives of steps on the ground, by those of inverse dynamics and of the contacts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.derivatives import inverse_dynamics_derivatives
from featherlane.algorithms.factor import factor
from featherlane.algorithms.implicit_damping import ImplicitTerms
from featherlane.algorithms.mean_accelerations import in_axes_of_beginning, plus_turning_slopes
from featherlane.algorithms.mminv import Rows, mass_matrix
from featherlane.algorithms.sparse_rows import dense
from featherlane.algorithms.tangent import tangent_gradient
from featherlane.functions.table import Variant
from featherlane.functions.wrenches import wrenches_on
from featherlane.program.derivatives.graphs import jacobian
from featherlane.program.graph import Graph
from featherlane.program.trace import call, trace
from featherlane.robot.model import Robot
from featherlane.robot.tree import Tree
from featherlane.robot.tree_of import build_tree, tree_of

Arrays = dict[str, Any]


def _tree(model: Robot, variant: Variant, arrays: Arrays) -> Tree:
    """Returns the tree of a model with the parameters of a variant."""
    if not variant.parameters:
        return tree_of(model)
    return build_tree(model, {name: arrays[name] for name in variant.parameters})


def ground_step_and_derivatives(
    model: Robot, variant: Variant, arrays: Arrays, graphs: Callable[[Variant], Graph]
) -> Arrays:
    """Returns the acceleration, forces, residual and impulses of a step on the ground, and the
    derivatives of the acceleration by q, v and joint forces.
    """
    from featherlane.algorithms import ground_slopes as on_ground  # few need it
    from featherlane.algorithms.ground_steps import dry_frictions

    assert variant.ground is not None
    step = graphs(variant._replace(name=variant.name.removesuffix("_and_derivatives")))
    results = call(step, **{name: arrays[name] for name in step.inputs})
    a, q, v, dt = results["a"], arrays["q"], arrays["v"], arrays["dt"]
    scene = variant.ground.scene(model, **{x: arrays[x] for x in variant.ground.parameters})
    tree, frictions = dry_frictions(_tree(model, variant, arrays), scene)
    end = [x + dt * y for x, y in zip(v, a, strict=True)]
    end = in_axes_of_beginning(tree, v, end, dt)
    solved = on_ground.StepState(q, v, end, results["impulse_next"], dt)
    closing, moved = _kinematics(model, variant, arrays, solved)
    resisting, shifts = tree, None
    if "damped" in variant.name:
        terms = ImplicitTerms.at(tree, q, v, arrays.get("servo_damping", ()))
        resisting, shifts = terms.resisting(tree, dt), terms.shifts(v, a, dt)
    factored = factor(resisting, mass_matrix(resisting, q))
    answer, J = on_ground.ground_response(tree, factored, solved, scene, frictions, closing)
    options = {}
    if variant.wrenches:
        options = wrenches_on(model, tree, variant, q, arrays["f_ext"])
    X_q, X_v = inverse_dynamics_derivatives(tree, q, v, a, **options)
    rate = 1.0 / dt
    X_q = [
        [x - rate * y for x, y in zip(row, pull, strict=True)]
        for row, pull in zip(X_q, moved["pull"], strict=True)
    ]
    for X, diagonal in zip((X_q, X_v), shifts or (), strict=False):
        for k, x in enumerate(diagonal):
            X[k][k] = X[k][k] + x
    by_v = [dense(plus_turning_slopes(tree, v, dt, row), tree.nv) for row in J]
    y_v = [[*map(sum, zip(*pair, strict=True))] for pair in zip(by_v, moved["by_v"], strict=True)]
    slopes = {
        "da_dq": answer.slopes(X_q, moved["closing"], dt),
        "da_dv": answer.slopes(X_v, y_v, dt),
        "da_dtau": answer.P,
    }
    return {"a": a, **slopes, **{name: results[name] for name in results if name != "a"}}


def _kinematics(
    model: Robot, variant: Variant, arrays: Arrays, step: Any
) -> tuple[Scalars, dict[str, Rows]]:
    """Returns the closing velocities of `ground_slopes.contact_kinematics`, and the derivatives of
    both of its results by q, in the tangent space, and of these velocities by v.
    """
    from featherlane.algorithms import ground_slopes as on_ground
    from featherlane.algorithms.ground_steps import dry_frictions

    ground = variant.ground
    assert ground is not None
    names = ("q", "v", "end", "p", "dt")
    values = dict(zip(names, step, strict=True))
    values |= {x: arrays[x] for x in (*variant.parameters, *ground.parameters)}

    def run(*inputs: Any) -> Arrays:
        named = dict(zip(values, inputs, strict=True))
        state = on_ground.StepState(*(named[x] for x in names))
        scene = ground.scene(model, **{x: named[x] for x in ground.parameters})
        tree, frictions = dry_frictions(_tree(model, variant, named), scene)
        pull, closing = on_ground.contact_kinematics(tree, state, scene, frictions)
        return {"pull": pull, "closing": closing}

    graph = trace(run, {name: _shape(x) for name, x in values.items()})
    moved = {
        name: [
            tangent_gradient(model, step.q, row)
            for row in call(jacobian(graph, name, "q"), **values)[f"d{name}_dq"]
        ]
        for name in ("pull", "closing")
    }
    moved["by_v"] = call(jacobian(graph, "closing", "v"), **values)["dclosing_dv"]
    return call(graph, **values)["closing"], moved


def _shape(x: Any) -> tuple[int, ...]:
    """Returns the shape of nested lists of scalars."""
    return (len(x), *_shape(x[0])) if isinstance(x, list | tuple) else ()
