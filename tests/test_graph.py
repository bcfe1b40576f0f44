"""The graph: interning, folding, tracing of functions, rewriting and cost."""

import math

import numpy as np
import pytest

import featherlane as fl
from featherlane.backends.reference import evaluate
from featherlane.program.graph import Graph, Output
from featherlane.program.op import OPS
from featherlane.program.rewrite import rewrite, simplify
from featherlane.program.trace import trace
from featherlane.scalar import select


def line(function, n=3):
    """The last node of a function's graph, as text without its number."""
    names = {f"x{i}": () for i in range(n)}
    g = trace(lambda *x: function(*x[: function.__code__.co_argcount]), names)
    return g.text().splitlines()[g.outputs["out"].nodes[0]].split(" = ")[1]


# Interning


def test_equal_nodes_are_one():
    g = trace(lambda x, y: {"a": x * y + y, "b": x * y + y, "c": y + y * x}, {"x": (), "y": ()})
    assert len(g) == 4
    assert {out.nodes for out in g.outputs.values()} == {(3,)}


def test_constants_are_interned_by_value():
    g = Graph()
    assert g.constant(2) == g.constant(2.0) == g.constant(np.float32(2))
    assert g.constant(-0.0) == g.constant(0.0)
    assert g.constant(math.nan) == g.constant(-math.nan)
    assert g.number(g.constant(math.nan)) is None
    assert g.number(g.constant(-0.0)) == 0.0


def test_operands_of_sub_and_div_do_not_commute():
    assert line(lambda a, b: b / a) == "div %1 %0"
    assert line(lambda a, b: b * a) == "mul %0 %1"


# Folding, rule by rule: x0, x1, x2 are nodes %0, %1, %2


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda a: a + 0, "input x0[0]"),
        (lambda a: 0 + a, "input x0[0]"),
        (lambda a: a - 0, "input x0[0]"),
        (lambda a: a * 1, "input x0[0]"),
        (lambda a: a / 1, "input x0[0]"),
        (lambda a: 0 - -a, "input x0[0]"),
        (lambda a: a * 0, "constant 0.0"),
        (lambda a: 0 / a, "constant 0.0"),
        (lambda a: a - a, "constant 0.0"),
        (lambda a: a + -a, "constant 0.0"),
        (lambda a: a / a, "constant 1.0"),
        (lambda a: a * (1 / a), "constant 1.0"),
        (lambda a, b: a * (b * (1 / a)), "input x1[0]"),
        (lambda a: 0 - a, "neg %0"),
        (lambda a: a * -1, "neg %0"),
        (lambda a, b: a + -b, "sub %0 %1"),
        (lambda a, b: -a + b, "sub %1 %0"),
        (lambda a, b: a - -b, "add %0 %1"),
        (lambda a, b: -(a * b) + a * b, "constant 0.0"),
        (lambda a, b: (a - b) + (b - a), "constant 0.0"),
        (lambda a, b: (-a) * (-b), "mul %0 %1"),
        (lambda a, b: -((-a) * b), "mul %0 %1"),
        (lambda a: -((-a).sin()), "sin %0"),
        (lambda a: (-a).cos(), "cos %0"),
        (lambda a: abs(-a), "abs %0"),
        (lambda a, b, c: select(a < b, c, c), "input x2[0]"),
        (lambda a: (a * 0 + 4).sqrt(), "constant 2.0"),
        (lambda a: (a * 0 + 4).cos() - math.cos(4), "constant 0.0"),
        (lambda a, b: select(a * 0 < b * 0 + 1, a, b), "input x0[0]"),
        (lambda a, b: select(a * 0 > b * 0 + 1, a, b), "input x1[0]"),
        (lambda a: a**0, "constant 1.0"),
        (lambda a: a**1, "input x0[0]"),
        (lambda a: a**2, "mul %0 %0"),
        (lambda a: +a, "input x0[0]"),
    ],
)
def test_folding(function, wanted):
    assert line(function) == wanted


def test_signs_leave_products_and_differences():
    assert line(lambda a, b: a * -b).startswith("neg")
    assert line(lambda a: a * -3.0).startswith("neg")
    g = trace(lambda a, b: {"d": a - b, "e": b - a, "s": -a - b}, {"a": (), "b": ()})
    assert sorted(simplify(g).op) == ["add", "input", "input", "neg", "neg", "sub"]


def test_fma_folds():
    g = Graph()
    a, b, c = g.declare("x", (3,))
    one, zero = g.constant(1), g.constant(0)
    assert g.fma(one, b, c) == g.add(b, c)
    assert g.fma(a, g.constant(-1), c) == g.sub(c, a)
    assert g.fma(zero, b, c) == c
    assert g.fma(a, b, zero) == g.mul(a, b)
    assert g.op[g.fma(a, b, c)] == "fma"


def test_constants_without_a_real_result_are_left_to_the_backend():
    for op, x in [("sqrt", -1.0), ("sin", math.inf), ("cos", math.inf), ("round", -math.inf)]:
        g = Graph()
        assert g.op[getattr(g, op)(g.constant(x))] == op
    g = Graph()
    assert g.op[g.div(g.constant(1), g.constant(0))] == "div"
    assert g.number(g.round(g.constant(2.5))) == 2.0
    assert g.op[g.add(g.constant(math.nan), g.constant(1))] == "add"


# Tracing


def test_shapes_of_inputs_and_outputs():
    def function(q, A, s):
        assert [len(row) for row in A] == [3, 3]
        return {
            "scalar": s,
            "row": q,
            "matrix": [[s * x for x in row] for row in A],
            "tuple": (s, 1),
        }

    g = trace(function, {"q": 2, "A": (2, 3), "s": ()})
    assert g.inputs == {"q": (2,), "A": (2, 3), "s": ()}
    shapes = {name: out.shape for name, out in g.outputs.items()}
    assert shapes == {"scalar": (), "row": (2,), "matrix": (2, 3), "tuple": (2,)}
    assert repr(g) == (
        "<Graph (q[2], A[2, 3], s[]) -> (scalar[], row[2], matrix[2, 3], tuple[2]): 16 nodes>"
    )


def test_numbers_of_numpy_take_part():
    g = trace(lambda x: np.float64(2) * x + np.int64(1) - np.float32(0.5), {"x": ()})
    assert [v for v in g.value if isinstance(v, float)] == [2.0, 1.0, 0.5]
    g = trace(lambda x: np.array([x, x]) * np.array([2.0, 3.0]), {"x": ()})
    assert g.outputs["out"].shape == (2,)


@pytest.mark.parametrize(
    "branch",
    [
        lambda x: x if x > 0 else -x,
        lambda x: max(x, 0.0),
        lambda x: 1.0 if x == 0 else x,
        lambda x: 1.0 if x != 0 else x,
        lambda x: x and 1.0,
        lambda x: float(x),
        lambda x: [1.0, 2.0][x],
    ],
)
def test_a_branch_on_a_scalar_is_refused(branch):
    with pytest.raises(TypeError, match="is not known while tracing"):
        trace(branch, {"x": ()})


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: [[x, x], [x]], ValueError, "output 'out' is ragged"),
        (lambda x: [x, [x]], ValueError, "output 'out' is ragged"),
        (lambda x: None, TypeError, "output 'out' is NoneType: wanted scalars, arrays or lists"),
        (lambda x: {"a": x, "b": "no"}, TypeError, "output 'b' is str"),
        (lambda x: {"a": {"b": x}}, TypeError, "output 'a' is dict"),
        (lambda x: 1j, TypeError, "output 'out' is complex"),
        (lambda x: x + "1", TypeError, "combined with str '1'"),
        (lambda x: x * 1j, TypeError, "combined with complex"),
        (lambda x: np.complex128(1j) * x, TypeError, "combined with complex"),
        (lambda x: x**math.inf, TypeError, "raised to inf"),
        (lambda x: x ** "a", TypeError, "combined with str 'a': wanted a number"),
    ],
)
def test_wrong_functions_are_refused(function, error, message):
    with pytest.raises(error, match=message):
        trace(function, {"x": ()})


def test_scalars_of_two_traces_do_not_mix():
    kept = []
    trace(lambda x: kept.append(x) or x, {"x": ()})
    with pytest.raises(ValueError, match="different traces"):
        trace(lambda x: x + kept[0], {"x": ()})
    with pytest.raises(ValueError, match="output 'out' holds a scalar of a different trace"):
        trace(lambda x: kept[0], {"x": ()})


def test_an_input_is_declared_once():
    g = Graph()
    g.declare("x", ())
    with pytest.raises(ValueError, match="declared twice"):
        g.declare("x", (2,))


def test_select_on_numbers_and_arrays():
    assert select(1.0 < 2.0, 3.0, 4.0) == 3.0
    assert isinstance(select(1.0 < 2.0, 3.0, 4.0), float)
    assert np.array_equal(select(np.array([True, False]), 1.0, 2.0), [1.0, 2.0])
    assert line(lambda a: select(2.0 < 1.0, 5.0, a)) == "input x0[0]"


# Text


def test_text_has_a_line_for_each_node_and_output():
    g = Graph()
    a, b = g.declare("x", (2,))
    g.current_tag = "first"
    g.outputs["y"] = Output((), (g.sub(g.mul(g.constant(2), b), a),))
    assert g.text().splitlines() == [
        "%0 = input x[0]",
        "%1 = input x[1]",
        "%2 = constant 2.0  ; first",
        "%3 = mul %1 %2  ; first",
        "%4 = sub %3 %0  ; first",
        "y = %4",
    ]


def test_printing_a_graph_is_a_summary():
    graph = fl.load("iiwa14").graph("forward_dynamics")
    summary = str(graph).splitlines()
    assert summary[0] == repr(graph)
    assert summary[1] == str(graph.cost())
    assert len(summary) == 3
    assert len(graph.text().splitlines()) == len(graph) + 1


# Reading and rewriting


def test_live_nodes_and_uses():
    g = Graph()
    a, b = g.declare("x", (2,))
    dead, kept = g.mul(a, a), g.add(a, b)
    g.outputs["out"] = Output((), (kept,))
    assert g.live() == [True, True, False, True]
    assert g.uses() == [[dead, dead, kept], [kept], [], []]
    small = simplify(g)
    assert small.op == ["input", "input", "add"]
    assert small.inputs == g.inputs


def test_rewrite_by_operation_by_node_and_by_order():
    g = trace(lambda x, y: (x + y) * (x - y), {"x": (), "y": ()})
    swapped = rewrite(g, {"add": Graph.sub, "sub": Graph.add})
    assert swapped.op == ["input", "input", "sub", "add", "mul"]
    by_node = rewrite(g, {2: Graph.mul, "add": Graph.sub})
    assert by_node.op == ["input", "input", "mul", "sub", "mul"]
    reordered = simplify(g, iter([1, 0, 3, 2, 4]))
    assert reordered.op == ["input", "input", "sub", "add", "mul"]
    assert reordered.value[0] == ("y", 0)


def test_stages_follow_their_nodes():
    g = Graph()
    (a,) = g.declare("x", (1,))
    g.current_tag = "here"
    k = g.mul(a, a)
    g.current_tag = "there"
    assert g.mul(a, a) == k
    g.outputs["out"] = Output((), (g.add(k, a),))
    assert simplify(g).tag == [None, "here", "there"]


# Cost


def test_cost_by_kind_and_depth():
    def function(x, y, z):
        r = (x * x + y * y).sqrt()
        return {"r": r, "a": x.sin() / r, "b": select(x < y, -z, abs(z))}

    cost = trace(function, {"x": (), "y": (), "z": ()}).cost()
    assert cost.kinds == {"mul": 2, "add": 1, "sqrt": 1, "trig": 1, "div": 1, "select": 2}
    assert cost.operations == 3
    assert cost.depth == 4  # mul, add, sqrt, div


def test_cost_counts_a_fused_operation_twice_and_dead_nodes_never():
    g = Graph()
    a, b, c = g.declare("x", (3,))
    g.mul(b, c)
    g.outputs["out"] = Output((), (g.fma(a, b, c),))
    assert g.cost().kinds == {"fma": 1}
    assert g.cost().operations == 2
    assert str(g.cost()).startswith("2 operations (1 fma), depth 1")


def test_live_values():
    chain = trace(lambda x: ((x + 1.0) * 2.0 + 3.0) * 4.0, {"x": ()})
    assert chain.cost().live == 1
    tree = trace(lambda a, b: (a + b) * (a - b) + (a * b) * (a / b), {"a": (), "b": ()})
    # a + b, a - b -> their product, a b, a / b -> the two products
    assert tree.cost().live == 3
    assert trace(lambda a: a, {"a": ()}).cost().live == 0


def test_cost_by_stage():
    g = Graph()
    a, b = g.declare("x", (2,))
    g.current_tag = "one"
    k = g.mul(a, b)
    g.current_tag = "two"
    g.outputs["out"] = Output((), (g.mul(g.add(k, a), g.neg(b)),))
    assert g.cost().stages == {"one": {"mul": 1}, "two": {"add": 1, "mul": 1}}


def test_the_table_is_complete():
    data = {"input", "constant", "call", "result"}
    assert {name for name, op in OPS.items() if op.evaluate is None} == data
    assert all(name == op.name for name, op in OPS.items())


@pytest.mark.parametrize("power", [0, 1, 2, 5, 13, -1, -3, 0.5])
def test_powers(power):
    graph = trace(lambda x: x**power, {"x": ()})
    assert np.allclose(evaluate(graph, {"x": 1.7})["out"], 1.7**power, rtol=1e-14)
    assert len(graph) < 12
