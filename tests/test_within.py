"""`scalar.within`: nothing on numbers, and a fact about a node for proofs of ranges."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import featherlane as fl
from featherlane.backends import reference
from featherlane.backends.fixed.assign import error_bounds, proved
from featherlane.backends.fixed.evaluate import evaluate, floats
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.fixed.ranges import Interval, intervals
from featherlane.errors import CompileError
from featherlane.program.passes.clamps import clamped, clamps
from featherlane.program.rewrite import rewrite, simplify
from featherlane.program.trace import trace
from featherlane.scalar import Tag, at, call, within

INPUTS = {("x", i): Interval(1.0, 2.0) for i in range(2)}


def inverse(x, low=0.5):
    """1 / p of p = x0^2 - 1.5 x0 x1 + x1^2, which is 0.5 to 2 for x from 1 to 2; intervals give -4
    to 6.5.
    """
    return 1.0 / within(x[0] * x[0] - 1.5 * x[0] * x[1] + x[1] * x[1], low, 2.0)


def graph_of(*options):
    return prepared(trace(lambda x: tagged(lambda y: inverse(y, *options), x), {"x": 2}))


def test_it_is_the_identity_on_numbers_and_traces():
    assert within(2.5, 1, 3) == 2.5
    x = np.ones(3)
    assert within(x, 0, 1) is x
    graph = trace(lambda x: within(x, 0, 1) * 2.0, {"x": ()})
    plain = trace(lambda x: x * 2.0, {"x": ()})
    assert graph.text() == plain.text()
    with pytest.raises(ValueError, match="within got the bounds 2 and 1: wanted low <= high"):
        within(1.5, 2, 1)


def test_facts_survive_changes_of_the_graph():
    def function(x):
        lost = x * 7.0  # noqa: F841, a dead node, so that numbers change
        return fl.sqrt(within(within(x + 1.0, 0.0, 5.0), -1.0, 4.0))

    graph = trace(function, {"x": ()})
    (fact,) = graph.facts
    assert graph.op[fact] == "add"
    assert graph.facts[fact] == (0.0, 4.0)
    small = simplify(graph)
    changed = rewrite(graph, {"sqrt": lambda new, a: new.mul(a, a)})
    for other in (small, changed):
        assert {other.op[k]: x for k, x in other.facts.items()} == {"add": (0.0, 4.0)}
        assert len(other) < len(graph)
    assert small.replaced(op=["input"] * len(small)).facts == {}


def test_a_divisor_with_stated_bounds_is_proved():
    graph = graph_of()
    datapath = proved(graph, INPUTS)
    x = np.random.default_rng(0).uniform(1.0, 2.0, (5000, 2))
    x[:3] = [1, 1], [2, 2], [1, 2]
    results = evaluate(datapath, {"x": x})
    assert not results.overflows
    error = np.abs(floats(datapath, results.integers)["out"] - inverse(x.T)).max()
    assert 0 < error <= error_bounds(datapath, INPUTS)["out"] < 1e-6
    (out,) = graph.outputs["out"].nodes
    assert intervals(graph, INPUTS)[out][:2] == pytest.approx((0.5, 2.0))


def test_without_them_it_is_not():
    graph = graph_of()
    graph.facts.clear()
    with pytest.raises(
        CompileError, match=r"in module Mb3 .*: the range -4 to 6.5 of .* scalar.within"
    ):
        proved(graph, INPUTS)
    with pytest.raises(CompileError, match=r"0, so that the quotient has no bounds"):
        proved(graph_of(0.0), INPUTS)


def test_what_is_stated_has_to_be_possible():
    graph = prepared(
        trace(lambda x: tagged(lambda y: within(abs(y), -2.0, -1.0) * 2.0, x), {"x": ()})
    )
    with pytest.raises(CompileError, match=r"abs in module Mb3 .* is stated within \(-2.0, -1.0\)"):
        proved(graph, {("x", 0): Interval(-3.0, 3.0)})


def cancelled(x):
    """1 / (3 (x0 + x1)), where rounding to 12 bits takes the difference beyond its bounds."""
    return 1.0 / within((x[0] + 4000.0) * 3.0 - (4000.0 - x[1]) * 3.0, 6.0, 12.0)


def test_clamps_prove_what_rounding_would_not():
    graph = prepared(trace(lambda x: tagged(cancelled, x), {"x": 2}))
    datapath = proved(graph, INPUTS, 12)
    x = np.random.default_rng(0).uniform(1.0, 2.0, (5000, 2))
    results = evaluate(datapath, {"x": x})
    assert not results.overflows
    assert len(clamps(datapath.graph)) == 2
    assert 0 < sum(results.clamped.values()) < 5000
    found = floats(datapath, results.integers)["out"]
    assert 0.99 / 12 < found.min() < found.max() < 1.01 / 6


def test_what_rounding_leaves_in_its_bounds_has_no_clamp():
    datapath = proved(prepared(trace(lambda x: tagged(cancelled, x), {"x": 2})), INPUTS, 30)
    assert not clamps(datapath.graph)


def test_clamps_change_nothing_within_the_bounds():
    plain = prepared(trace(lambda x: tagged(inverse, x), {"x": 2}))
    with_clamps = clamped(plain, plain.facts)
    x = np.random.default_rng(0).uniform(1.0, 2.0, (500, 2))
    found = reference.evaluate(with_clamps, {"x": x})["out"]
    assert_array_equal(found, reference.evaluate(plain, {"x": x})["out"])
    assert with_clamps.op.count("select") == 2
    beyond = reference.evaluate(with_clamps, {"x": [[5.0, 1.0], [0.1, 0.1]]})["out"]
    assert_array_equal(beyond, [0.5, 2.0])


def tagged(function, x):
    return at(Tag("M", "b", 2), call, function, x)
