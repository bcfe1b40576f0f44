"""Graphs prepared for circuits: guards as flags, divisions by normalised numbers."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import featherlane as fl
from featherlane.backends.fixed.datapath import OPERATIONS
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.reference import evaluate, values
from featherlane.errors import CompileError
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_graph
from featherlane.program.passes.guards import flagged
from featherlane.program.passes.outline import outline
from featherlane.program.passes.reciprocals import normalised
from featherlane.program.trace import trace
from featherlane.scalar import Tag, at, call, unless_lost

ROBOTS = [("double_pendulum", "fixed"), ("iiwa14", "fixed"), ("hyq", "free")]
SMALL = ("inverse_dynamics", "forward_dynamics", "mass_matrix_inverse")


@pytest.mark.parametrize(("name", "root"), ROBOTS)
@pytest.mark.parametrize("function", SMALL)
def test_prepared_graphs_compute_the_same(name, root, function):
    graph = dynamics_graph(fl.load(name, root=root), Variant(function))
    made = prepared(graph)
    assert set(made.op) <= OPERATIONS
    assert all(made.live())
    rng = np.random.default_rng(1)
    states = {x: rng.standard_normal((50, *shape)) for x, shape in graph.inputs.items()}
    wanted, found = evaluate(graph, states), evaluate(made, states)
    for output, x in wanted.items():
        # Sums in another order: their rounding, by the conditioning of these states
        assert_allclose(found[output], x, rtol=0, atol=1e-13 * np.abs(x).max())
    assert not found.get("lost", np.zeros(1)).any()
    modules = outline(made)
    for output, x in evaluate(modules, states).items():
        assert_array_equal(x, found[output])


def guarded(pivots):
    """1 / pivot of each, in calls of their own."""
    one = lambda pivot: [unless_lost(1.0 / pivot, pivot, 1.0)]
    return [at(Tag("M", "b", i), call, one, pivot)[0] for i, pivot in enumerate(pivots)]


def test_lost_pivots_are_counted():
    graph = flagged(trace(guarded, {"pivots": 3}))
    pivots = [[1.0, 2.0, 4.0], [1.0, 1e-18, 4.0], [1e-18, 1.0, 1e-20]]
    found = evaluate(graph, {"pivots": pivots})
    assert_array_equal(found["lost"], [[0], [1], [2]])
    assert_array_equal(found["out"], 1.0 / np.array(pivots))
    counted = [k for k, op in enumerate(graph.op) if op == "select"]
    assert [graph.tag[k].call for k in counted] == [1, 2, 3]


def test_a_free_base_without_orientation_is_lost():
    graph = prepared(dynamics_graph(fl.load("hyq", root="free"), Variant("inverse_dynamics")))
    states = {x: np.ones((2, *shape)) for x, shape in graph.inputs.items()}
    states["q"][1, 3:7] = 0.0
    assert_array_equal(evaluate(graph, states)["lost"], [[0], [1]])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.where(x < 0.0, np.nan, x), "gives NaN where its condition holds"),
        (lambda x: x + np.nan, r"is NaN, read by node \d+ \(add\)"),
        (lambda x: np.nan, "is NaN, an output"),
    ],
)
def test_nan_elsewhere_is_refused(function, message):
    with pytest.raises(CompileError, match=message):
        flagged(fl.trace(function, {"x": ()}))


def divisions(x, y):
    return [x[0] / y, x[1] / y, 3.0 / y, x[0] / 4.0]


@pytest.mark.parametrize("y", [3.0, -0.37, 2.0**-20, -(2.0**40)])
def test_equal_divisors_share_a_reciprocal(y):
    graph = normalised(trace(divisions, {"x": 2, "y": ()}))
    x = np.array([0.7, -19.0])
    found = evaluate(graph, {"x": x, "y": y})["out"]
    assert_allclose(found, [*(x / y), 3.0 / y, x[0] / 4.0], rtol=4e-16)
    (divided,) = graph.nodes_of("div")
    m = values(graph, {"x": x, "y": y})[graph.args[divided][1]]
    assert 1 <= abs(m) < 2
    assert math.frexp(m)[0] == math.frexp(y)[0]


def test_what_has_no_circuit_is_refused_by_name_and_place():
    tagged = lambda x: at(Tag("R", "f", 4), call, lambda x: fl.tanh(x), x)
    with pytest.raises(
        CompileError, match=r"tanh in module Rf5 .joint 5.: there is no circuit for"
    ):
        prepared(trace(tagged, {"x": ()}))
    with pytest.raises(CompileError, match=r"\(add\) was computed outside of all calls"):
        prepared(trace(lambda x: x + 1.0, {"x": ()}))
