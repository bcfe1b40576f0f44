"""The algorithms of a function for circuits, where a product takes room and a division time."""

from __future__ import annotations

from typing import Any

from featherlane import algorithms
from featherlane.algorithms import body_frames, bounded, deferred
from featherlane.algorithms.common import Scalars
from featherlane.algorithms.mminv import Rows
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.fixed.ranges import Bounds, intervals
from featherlane.errors import one_of, shown
from featherlane.functions.dynamics_function import Algorithm, one_output
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.functions.tracing import dynamics_graph, scalar_function, solvable
from featherlane.functions.variants import input_shapes
from featherlane.program.graph import Graph
from featherlane.program.node import Node
from featherlane.program.passes.clamps import clamped
from featherlane.program.rewrite import simplify
from featherlane.program.trace import no_garbage, trace
from featherlane.robot.mass_bounds import MassBounds, mass_bounds
from featherlane.robot.model import Robot
from featherlane.robot.quaternions import quaternion_rotation
from featherlane.robot.spatial import dot
from featherlane.robot.tree import Tree
from featherlane.robot.tree_of import tree_of


def _from_half(algorithm: Algorithm) -> Algorithm:
    """The algorithm with M^-1 read from its lower half: words of inputs limit what can be fed."""

    def run(
        model: Tree, q: Scalars, qd: Scalars, qdd: Scalars, Minv: Rows, *others: Any, **options: Any
    ) -> Any:
        half = [[Minv[max(i, j)][min(i, j)] for j in range(len(Minv))] for i in range(len(Minv))]
        return algorithm(model, q, qd, qdd, half, *others, **options)

    return run


def _in_body_axes(algorithm: Algorithm) -> Algorithm:
    """The algorithm without `fixed`: wrenches turn with their bodies, see `algorithm_of`."""

    def run(*inputs: Any, fixed: Any = None, **options: Any) -> Any:
        assert fixed is None, "wrenches are in the axes of bodies"
        return algorithm(*inputs, **options)

    return run


DEFERRED, FACTOR, BOUNDED, BODY = "deferred", "factor", "bounded", "body"
BY_JOINT = BOUNDED, "mminvgen", "aba"  # they eliminate the freedoms of one joint after the other
SQUARE = 0.5, 4.0  # of the squares of lengths of quaternions, whose entries are from -1 to 1
CIRCUITS: dict[str, dict[str, Algorithm]] = {
    "mass_matrix_inverse": {
        DEFERRED: one_output(deferred.deferred_inverse),
        FACTOR: one_output(algorithms.factored_inverse),
        BOUNDED: one_output(bounded.bounded_inverse),
        "mminvgen": one_output(algorithms.mass_matrix_inverse),
    },
    "forward_dynamics": {
        DEFERRED: one_output(deferred.deferred_forward_dynamics),
        FACTOR: one_output(algorithms.factored_forward_dynamics),
        BOUNDED: one_output(bounded.bounded_forward_dynamics),
        "aba": one_output(algorithms.aba),
    },
    "forward_dynamics_derivatives": {
        DEFERRED: deferred.deferred_forward_dynamics_derivatives,
        FACTOR: algorithms.forward_dynamics_derivatives,
        BOUNDED: bounded.bounded_forward_dynamics_derivatives,
    },
    "inverse_dynamics": {
        "serial": FUNCTIONS["inverse_dynamics"].methods["serial"].algorithm,
        "scan": FUNCTIONS["inverse_dynamics"].methods["scan"].algorithm,
    },
    "inverse_dynamics_derivatives": {
        "common": algorithms.inverse_dynamics_derivatives,
        BODY: _in_body_axes(body_frames.body_derivatives),
        "scan": FUNCTIONS["inverse_dynamics_derivatives"].methods["scan"].algorithm,
    },
    "forward_dynamics_derivatives_from": {
        "common": _from_half(algorithms.forward_dynamics_derivatives_from),
        BODY: _from_half(_in_body_axes(body_frames.body_forward_dynamics_derivatives_from)),
    },
}
"""By function and name; the first is the default, but for formats that are proved."""


def algorithm_of(model: Robot, variant: Variant, asked: str | None, proved: bool) -> str | None:
    """Returns the algorithm of a function by name, None if it has one alone. asked: the user's
    choice; else the first, or, of formats that are `proved`, the one that states bounds. Joints
    that share coordinates have the package's choice. Raises ValueError for an unknown name, and
    for what joints that share coordinates do not have.
    """
    known, coupled = CIRCUITS.get(variant.name, {}), tree_of(model).coupled
    if asked is not None and asked not in [*known]:  # of any type
        wanted = one_of(asked, known) if known else "it has one algorithm, leave algorithm out"
        raise ValueError(f"algorithm is {shown(asked)} of {variant.name}: {wanted}")
    if asked in BY_JOINT and coupled:
        raise ValueError(
            f"algorithm is {asked!r}: joints of {model.name!r} share coordinates, so that none can "
            f"be eliminated alone; wanted {FACTOR!r}, {DEFERRED!r} or None"
        )
    if asked == BODY and variant.wrenches == "world":
        raise ValueError(
            f"algorithm is {asked!r} with f_ext in the world's axes: it takes wrenches in the axes "
            f"of bodies alone; wanted f_ext='body', or another algorithm"
        )
    if asked is not None or not known or coupled:
        return asked
    return BOUNDED if proved and BOUNDED in known else next(iter(known))


def circuit_graph(model: Robot, variant: Variant, algorithm: str | None, inputs: Bounds) -> Graph:
    """Returns the graph of a function by an algorithm, or by the one with the fewest operations.

    inputs: the bounds of entries of inputs, on which depend those that are stated of signals; of
    the accelerations too, if they have a range and are no input.
    """
    if algorithm is None:
        return dynamics_graph(model, variant)
    options: dict[str, Any] = {}
    if algorithm == BOUNDED:
        options["bounds"] = mass_bounds_of(model, inputs)
        if "tau" in input_shapes(model, variant) and ("a", 0) in inputs:
            options["ends"] = [inputs["a", i][:2] for i in range(model.nv)]
    run = scalar_function(model, variant, CIRCUITS[variant.name][algorithm], **options)
    assert run is not None, f"{variant.name} is computed by algorithms"
    with solvable(model, variant), no_garbage():
        return simplify(trace(run, input_shapes(model, variant)))


def mass_bounds_of(model: Robot, inputs: Bounds) -> MassBounds:
    """Returns what mechanics tells of M^-1, with the largest M_kk by intervals."""
    graph = prepared(with_rotations(model, dynamics_graph(model, Variant("mass_matrix"))))
    bounds, n = intervals(graph, inputs), model.nv
    diagonal = [bounds[k] for k in graph.outputs["M"].nodes[:: n + 1]]
    q = [inputs["q", i] for i in range(model.nq)]
    largest = [x.hull.high for x in diagonal if x is not None]
    return mass_bounds(model, largest, ([x.low for x in q], [x.high for x in q]))


def with_rotations(model: Robot, graph: Graph) -> Graph:
    """Returns a graph with bounds for the rotations that its quaternions stand for: of the squares
    of their lengths, which are clamped, and of entries, which are from -1 to 1. So shorter
    quaternions turn by less, and nothing divides by 0.
    """
    graph, squares = simplify(graph), list[int]()
    for first in model.first_of_quaternions:
        read = [graph.node("input", value=("q", i)) for i in range(first, first + 4)]
        quaternion = [Node(graph, k) for k in read]
        squares.append(dot(quaternion, quaternion).k)  # equal nodes are one
        graph.state(squares[-1], *SQUARE)
        for row in quaternion_rotation(*quaternion).rows:
            for entry in row:
                graph.state(entry.k, -1.0, 1.0)
    return clamped(graph, squares)
