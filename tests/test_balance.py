"""Sums as balanced trees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from repetition import examples, repeated

import featherlane as fl
from featherlane.backends.reference import evaluate
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_graph
from featherlane.program.analysis.modules import modules_of
from featherlane.program.cost import kinds_of
from featherlane.program.graph import Graph, Output
from featherlane.program.passes.balance import balanced
from featherlane.program.passes.outline import outline
from featherlane.program.trace import trace
from featherlane.scalar import Tag, at, call

D0 = {"mul": 3, "add": 1, "sub": 1, "neg": 1, "sin": 8, "cos": 8, "div": 10}
D1 = {**D0, "add": 0.5, "sub": 0.5, "neg": 0.5}
ROBOTS = [("iiwa14", "fixed"), ("hyq", "free"), ("atlas", "free")]


def depth(graph, delays):
    """The cycles until all outputs are there, where delays are whole cycles."""
    times = []
    for op, args in zip(graph.op, graph.args, strict=True):
        times.append(max((times[a] for a in args), default=0) + delays.get(op, 0))
    return max(times[k] for out in graph.outputs.values() for k in out.nodes)


def traced(function, inputs):
    return trace(lambda x: {"y": function(x)}, {"x": inputs})


@pytest.mark.parametrize("terms", [2, 3, 7, 8, 9])
def test_a_chain_becomes_a_tree(terms):
    graph = traced(lambda x: [sum(x[k] for k in range(1, terms)) - x[0]], terms)
    new = balanced(graph, D0)
    assert depth(new, D0) == int(np.ceil(np.log2(terms)))
    assert kinds_of(new)["add"] == terms - 1


def test_late_operands_come_last():
    graph = traced(lambda x: [x[0] * x[1] * x[2] + x[3] + x[4] + x[5] + x[6]], 7)
    assert depth(balanced(graph, D0), D0) == 7
    late = balanced(trace(lambda x, y: {"z": [x[0] + y[0] + y[1]]}, {"x": 1, "y": 2}), D0, {"x": 9})
    (last,) = late.outputs["z"].nodes
    assert [late.value[a] for a in late.args[last] if late.op[a] == "input"] == [("x", 0)]


def test_additions_chained_in_a_cycle_do_not_straddle_cycles():
    """The product is there last, so that it is added last."""
    third = {**D0, "add": 0.4}
    graph = traced(lambda x: [x[0] + x[1] + x[2] + x[3] * x[4]], 5)
    new = balanced(graph, third)
    last = new.args[new.outputs["y"].nodes[0]]
    assert "mul" in [new.op[a] for a in last]


def test_results_that_others_read_stay():
    def function(x):
        shared = x[0] + x[1] + x[2]
        return [shared, shared + x[3] + x[4]]

    new = balanced(traced(function, 5), D0)
    assert kinds_of(new)["add"] == 4
    first, second = new.outputs["y"].nodes
    assert first in new.args[second]


@settings(deadline=None, max_examples=examples(60))
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_random_graphs_keep_their_values(seed, size):
    rng = np.random.default_rng(seed)
    graph = Graph()
    nodes = [*graph.declare("x", (4,)), graph.constant(0.5)]
    for _ in range(size):
        op = str(rng.choice(["add", "sub", "neg", "add", "sub", "mul"]))
        operands = [nodes[k] for k in rng.integers(len(nodes), size=1 if op == "neg" else 2)]
        nodes.append(getattr(graph, op)(*operands))
    ends = rng.choice(nodes[4:], size=3)
    graph.outputs["y"] = Output((3,), tuple(int(k) for k in ends))
    new = balanced(graph, D0)
    x = {"x": rng.integers(-3, 4, size=(5, 4)).astype(float) / 2}
    scale = 1 + np.abs(evaluate(graph, x)["y"]).max()
    assert_allclose(evaluate(new, x)["y"], evaluate(graph, x)["y"], rtol=0, atol=1e-9 * scale)
    assert len(new) == sum(new.live())
    assert kinds_of(new)["add"] <= kinds_of(graph)["add"]


def test_a_partial_sum_belongs_to_the_call_that_has_its_operands():
    def function(x):
        first = at(Tag("A", "f", 0), call, lambda: [x[0] * x[1], x[1] * x[2], x[3]])
        return at(Tag("A", "f", 1), call, lambda: [first[2] + first[0] + first[1]])

    new = balanced(traced(function, 4), D0)
    one, two = modules_of(outline(new))
    assert (kinds_of(one.graph)["add"], kinds_of(two.graph)["add"]) == (1, 1)


@pytest.mark.parametrize(
    ("name", "root", "function"), repeated([(*r, f) for r in ROBOTS for f in fl.FUNCTIONS], 7)
)
def test_functions_of_robots(states, name, root, function):
    """The same values up to rounding with no more operations, and modules can still be cut."""
    model = fl.load(name, root=root)
    graph = dynamics_graph(model, Variant(function))
    new = balanced(graph, D1)
    assert kinds_of(new)["mul"] == kinds_of(graph)["mul"]
    assert kinds_of(new)["add"] <= kinds_of(graph)["add"]
    assert kinds_of(new)["sign"] <= kinds_of(graph)["sign"]
    modules = modules_of(outline(new))
    assert sum(module.multiplications for module in modules) == kinds_of(graph)["mul"]
    given = states(model, function, 5)
    expected = evaluate(graph, given)
    for name, value in evaluate(new, given).items():
        assert_allclose(value, expected[name], rtol=0, atol=1e-9 * np.abs(expected[name]).max())
