"""The interpreter on dual numbers: its rules, leading dimensions, programs with calls."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_reference import EXAMPLES

from featherlane.backends import dual, reference
from featherlane.program.graph import Graph, Output
from featherlane.program.op import ARITHMETIC, CONDITIONS, OPS
from featherlane.program.passes.inline import inline
from featherlane.program.program import GraphFunction, Program
from featherlane.program.trace import trace

SMOOTH = ("sqrt", "sin", "cos", "exp", "expm1", "log", "log1p", "tanh", "asin", "acos", "atan2")
STEPS = ("round", "power_of_two", "exponent")


def test_every_operation_has_a_rule():
    assert EXAMPLES.keys() == ARITHMETIC - CONDITIONS


@pytest.mark.parametrize(
    "op", [*SMOOTH, "abs", "neg", "add", "sub", "mul", "div", "fma", "copysign"]
)
def test_rules_are_the_derivatives(op):
    """Beside central differences, whose error is some h^2."""
    h, rng = 1e-5, np.random.default_rng(0)
    x = rng.uniform(0.2, 0.8, (OPS[op].arity, 50))
    if op in ("neg", "add", "sub", "mul", "div", "abs", "copysign"):
        x *= rng.choice([-1.0, 1.0], x.shape)
    d = rng.normal(size=x.shape)
    evaluate = OPS[op].evaluate
    differences = (evaluate(*(x + h * d)) - evaluate(*(x - h * d))) / (2 * h)
    assert_allclose(OPS[op].rate(x, d), differences, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("op", STEPS)
def test_steps_have_no_derivative(op):
    g = Graph()
    (x,) = g.declare("x", ())
    g.outputs["y"] = Output((), (g.node(op, x),))
    values = {"x": np.array([1.2, 3.7])}
    value, rate = dual.evaluate(g, values, {"x": np.ones(2)})
    assert_array_equal(value["y"], reference.evaluate(g, {"x": values["x"]})["y"])
    assert_array_equal(rate["y"], np.zeros(2))


def test_a_selection_takes_the_derivative_of_what_it_takes():
    g = Graph()
    x, y = g.declare("x", (2,))
    whole = g.node("round", x)
    turned = g.node("quarter", whole, x, y)
    root = g.node("select", g.node("less", x, y), g.node("sqrt", x), y)
    g.outputs["out"] = Output((2,), (turned, root))
    values = {"x": np.array([[1.0, 4.0], [-1.0, -4.0]])}
    _, rate = dual.evaluate(g, values, {"x": np.array([[1.0, 10.0], [1.0, 10.0]])})
    assert_array_equal(rate["out"], [[10.0, 0.5], [-10.0, 10.0]])


def test_directions_lead_the_states():
    def product(A, x):
        rows = [sum(a * b for a, b in zip(row, x, strict=True)) for row in A]
        return {"y": rows, "one": 1.0}

    g = trace(product, {"A": (2, 3), "x": 3})
    rng = np.random.default_rng(0)
    A, x, along = rng.normal(size=(5, 2, 3)), rng.normal(size=(5, 3)), rng.normal(size=(4, 5, 3))
    value, rate = dual.evaluate(g, {"A": A, "x": x}, {"x": along})
    assert_allclose(value["y"], (A @ x[..., None])[..., 0])
    assert_allclose(rate["y"], (A @ along[..., None])[..., 0])
    assert (value["one"].shape, rate["one"].shape) == ((5,), (4, 5))


def test_calls_are_entered():
    f = Graph()
    a, b = f.declare("x", (2,))
    f.outputs["y"] = Output((2,), (f.node("mul", a, b), f.node("sin", a)))
    g = Graph()
    x = g.declare("x", (2,))
    first = g.call(0, x, 2)
    second = g.call(0, [first + 1, first + 2], 2)
    g.outputs["y"] = Output((2,), (second + 1, second + 2))
    program = Program(g, (GraphFunction("f", f),))
    rng = np.random.default_rng(0)
    values, along = {"x": rng.normal(size=(6, 2))}, {"x": rng.normal(size=(6, 2))}
    for found, flat in zip(
        dual.evaluate(program, values, along),
        dual.evaluate(inline(program), values, along),
        strict=True,
    ):
        assert_array_equal(found["y"], flat["y"])
    x, d = values["x"].T, along["x"].T
    p, s = x[0] * x[1], np.sin(x[0])
    dp, ds = x[0] * d[1] + d[0] * x[1], np.cos(x[0]) * d[0]
    rate = dual.evaluate(program, values, along)[1]["y"]
    assert_allclose(rate, np.stack([p * ds + dp * s, np.cos(p) * dp], -1), rtol=1e-12)
