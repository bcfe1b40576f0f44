"""The algorithms of a function for circuits, where a product takes room and a division time."""

from __future__ import annotations

from featherlane import algorithms
from featherlane.algorithms import deferred
from featherlane.errors import shown
from featherlane.functions.compile import (
    dynamics_graph,
    input_shapes,
    scalar_function,
    solvable,
)
from featherlane.functions.table import Algorithm, Variant, one_output
from featherlane.program.graph import Graph, simplify
from featherlane.program.trace import no_garbage, trace
from featherlane.robot.model import Robot
from featherlane.robot.tree_of import tree_of

DEFERRED, FACTOR = "deferred", "factor"
CIRCUITS: dict[str, dict[str, Algorithm]] = {
    "mass_matrix_inverse": {
        DEFERRED: one_output(deferred.deferred_inverse),
        FACTOR: one_output(algorithms.factored_inverse),
        "mminvgen": one_output(algorithms.mass_matrix_inverse),
    },
    "forward_dynamics": {
        DEFERRED: one_output(deferred.deferred_forward_dynamics),
        FACTOR: one_output(algorithms.factored_forward_dynamics),
        "aba": one_output(algorithms.aba),
    },
    "forward_dynamics_derivatives": {
        DEFERRED: deferred.deferred_forward_dynamics_derivatives,
        FACTOR: algorithms.forward_dynamics_derivatives,
    },
}
"""By function and name; the first has the shortest path, the second the fewest products of arms."""


def algorithm_of(model: Robot, variant: Variant, asked: str | None, proved: bool) -> str | None:
    """Returns the algorithm of a function by name, None if it has one alone. asked: the user's
    choice; else that with the shortest path, of formats that are `proved` the factor, whose ranges
    do not grow. Joints that share coordinates have the package's own choice. Raises ValueError for
    an unknown name.
    """
    known = CIRCUITS.get(variant.name, {})
    if asked is not None and asked not in known:
        wanted = f"wanted {' or '.join(map(repr, known))}" if known else "there is one alone"
        raise ValueError(f"algorithm is {shown(asked)} of {variant.name}: {wanted}")
    if asked is not None or not known or tree_of(model).coupled:
        return asked
    return FACTOR if proved else DEFERRED


def circuit_graph(model: Robot, variant: Variant, algorithm: str | None) -> Graph:
    """Returns the graph of a function by an algorithm, or by the one with the fewest operations."""
    if algorithm is None:
        return dynamics_graph(model, variant)
    run = scalar_function(model, variant, CIRCUITS[variant.name][algorithm])
    assert run is not None, f"{variant.name} is computed by algorithms"
    with solvable(model, variant), no_garbage():
        return simplify(trace(run, input_shapes(model, variant)))
