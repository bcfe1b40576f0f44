"""Passes keep what a graph means: fused multiply-adds, the grammar, derivatives."""

from importlib import import_module
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featherlane.backends.reference import evaluate
from featherlane.errors import CompileError
from featherlane.program import trace as trace_policies
from featherlane.program.derivatives.graphs import directional, jacobian, pullback
from featherlane.program.graph import Graph, Output
from featherlane.program.lower import TARGETS, traced
from featherlane.program.op import OPS
from featherlane.program.passes.expand import expand
from featherlane.program.passes.fma import fuse
from featherlane.program.rewrite import simplify
from featherlane.program.trace import trace
from featherlane.program.verify import verify
from featherlane.scalar import call, cos, select, sin, sqrt


def test_the_consumers_of_the_table_of_targets_are_there():
    """And every folder of a backend that reads programs is one of them."""
    consumers = {target.consumer for target in TARGETS.values()}
    for name in consumers:
        import_module(f"featherlane.{name}")
    folders = {".".join(name.split(".")[:2]) for name in consumers}
    assert {"backends.reference", "backends.cpu", "backends.c"} <= folders


def double(x):
    return [2.0 * a for a in x]


def test_the_policy_of_a_target_decides_which_calls_stay():
    def function(x):
        return {"y": call(double, x)}

    kept = {name: bool(traced(function, {"x": 2}, name).functions) for name in TARGETS}
    assert kept == {name: target.policy is trace_policies.STEPS for name, target in TARGETS.items()}


# Random functions: each step makes a value of the values before it, and keeps it of moderate size

STEPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / (2.5 + sin(b)),
    "sqrt": lambda a, b: sqrt(1.0 + a * a),
    "sin": lambda a, b: sin(a),
    "cos": lambda a, b: cos(b),
    "neg": lambda a, b: -a,
    "constant": lambda a, b: 0.75 * a,
}
SIZE, RESULTS = 4, 3


@st.composite
def functions(draw):
    """A function of SIZE scalars of any kind, complex numbers too, that gives RESULTS scalars."""
    steps = [
        (draw(st.sampled_from(sorted(STEPS))), draw(st.integers(0, k)), draw(st.integers(0, k)))
        for k in range(SIZE - 1, SIZE + draw(st.integers(RESULTS, 20)))
    ]

    def function(x):
        values = list(x)
        for k, (step, a, b) in enumerate(steps):
            value = STEPS[step](values[a], values[b])
            values.append(value if k % 3 else sin(value))
        return values[-RESULTS:]

    return function


def by_complex_step(function, x):
    """The Jacobian of an analytic function, to rounding (Squire and Trapp 1998)."""
    h = 1e-200
    columns = [function(x + 1j * h * e) for e in np.eye(len(x))]
    return np.array([[np.imag(y) / h for y in column] for column in columns]).T


POINT = np.array([0.3, -0.7, 1.1, 0.45])


def close(a, b):
    return np.allclose(a, b, rtol=1e-10, atol=1e-10 * max(1.0, np.max(np.abs(b))))


def run(graph, **inputs):
    verify(graph)
    (result,) = evaluate(graph, inputs).values()
    return result


# Every pass leaves the values alone


@given(functions())
def test_passes_keep_the_values(function):
    g = trace(function, {"x": SIZE})
    wanted = run(g, x=POINT)
    assert close(wanted, np.array(function(POINT), dtype=float))
    assert np.array_equal(run(simplify(g), x=POINT), wanted)
    assert close(run(fuse(g), x=POINT), wanted)
    assert close(run(expand(g, np.float64), x=POINT), wanted)
    assert close(run(fuse(expand(g, np.float64)), x=POINT), wanted)
    assert str(fuse(g)) == str(fuse(g))


# Fused multiply-adds


def fused(function, n=6):
    g = fuse(trace(lambda x: function(*x), {"x": n}))
    verify(g)
    return g


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (lambda a, b, c, *_: a * b + c, {"fma": 1}),
        (lambda a, b, c, *_: c + a * b, {"fma": 1}),
        (lambda a, b, c, *_: a * b - c, {"fma": 1}),
        (lambda a, b, c, *_: c - a * b, {"fma": 1}),
        (lambda a, b, c, d, *_: a * b + c * d, {"fma": 1, "mul": 1}),
        (lambda a, b, c, d, *_: a * b - c * d, {"fma": 1, "mul": 1}),
        (lambda a, b, c, d, e, f: a * b + c * d + e * f, {"fma": 2, "mul": 1}),
        (lambda a, b, c, d, *_: [a * b + c, a * b - d], {"fma": 2}),
        (lambda a, b, c, *_: [a * b + c, a * b], {"add": 1, "mul": 1}),
        (lambda a, b, c, *_: a * b + c + sin(a * b), {"mul": 1, "add": 2, "trig": 1}),
        (lambda a, b, *_: a * b + a * b, {"mul": 1, "add": 1}),
        (lambda a, b, c, *_: select(a * b < c, a, b), {"mul": 1, "select": 2}),
        # a b in two sums loses to c d and e f, in one of them each
        (lambda a, b, c, d, e, f: [a * b + c * d, a * b + e * f], {"fma": 2, "mul": 1}),
    ],
)
def test_products_go_into_sums(function, kinds):
    assert fused(function).cost().kinds == kinds


def test_signs_of_fused_products():
    for function in (
        lambda a, b, c: a * b + c,
        lambda a, b, c: a * b - c,
        lambda a, b, c: c - a * b,
        lambda a, b, c: a * -b - c,
        lambda a, b, c: -(a * b) - c * a,
        lambda a, b, c: c - 2.0 * a,
    ):
        g = fused(function, 3)
        assert "fma" in g.op
        assert evaluate(g, {"x": [2.0, 3.0, 5.0]})["out"] == function(2.0, 3.0, 5.0)


def test_a_sum_is_rounded_once():
    g = fused(lambda a, b, c: a * b + c, 3)
    x = [1 + 2.0**-30, 1 - 2.0**-30, -1.0]
    assert evaluate(g, {"x": x})["out"] == -(2.0**-60)


def test_fuse_leaves_what_is_fused():
    g = fused(lambda a, b, c, d, *_: a * b + c * d)
    assert fuse(g).text() == g.text()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6))
def test_as_many_products_as_possible_disappear(pairs):
    """Against all choices, where no product is in more than two sums."""
    count = [sum(p in pair for pair in pairs) for p in range(6)]
    pairs = [(p, q) for p, q in dict.fromkeys(map(tuple, map(sorted, pairs))) if p != q]
    if max(count) > 2 or not pairs:
        return
    function = lambda *x: [x[p] * x[p + 6] + x[q] * x[q + 6] for p, q in pairs]
    used = sorted({p for pair in pairs for p in pair})
    best = max(
        size
        for size in range(len(used) + 1)
        for chosen in combinations(used, size)
        if not any(p in chosen and q in chosen for p, q in pairs)
    )
    assert fused(function, 12).cost().kinds["mul"] == len(used) - best


def test_fuse_takes_large_graphs():
    def function(x):
        values = list(x)
        for k in range(50_000):
            values.append(values[k] * values[-1] + values[k // 2])
        return values[-1]

    g = trace(function, {"x": 3})
    h = fuse(g)
    assert h.op.count("fma") == 50_000


# The grammar


def legal():
    g = Graph()
    a, b = g.declare("x", (2,))
    g.outputs["out"] = Output((2,), (g.select(g.less(a, b), g.add(a, b), g.constant(2)), a))
    return g  # 0, 1: inputs, 2: less, 3: add, 4: constant, 5: select


def spoil(column, k, value):
    def change(g):
        getattr(g, column)[k] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (spoil("op", 3, "plus"), r"node 3 \(plus\): no such operation"),
        (spoil("args", 3, (0,)), r"node 3 \(add\): it has 1 operands, wanted 2"),
        (spoil("args", 4, (0,)), r"node 4 \(constant\): it has 1 operands, wanted 0"),
        (spoil("args", 3, (0, 3)), r"node 3 \(add\): its operand 3 is not an earlier node"),
        (spoil("args", 3, (0, -1)), r"node 3 \(add\): its operand -1 is not an earlier node"),
        (spoil("args", 3, (0, 2)), r"node 3 \(add\): its operand 2 is a condition"),
        (spoil("args", 5, (3, 3, 4)), r"node 5 \(select\): its condition is node 3, add"),
        (spoil("args", 5, (2, 2, 4)), r"node 5 \(select\): its operand 2 is a condition"),
        (spoil("value", 4, 2), r"node 4 \(constant\): its value is 2, wanted a float"),
        (spoil("value", 4, float("nan")), r"node 4 \(constant\): its value is nan"),
        (spoil("value", 3, 1.0), r"node 3 \(add\): it has the value 1.0"),
        (spoil("value", 0, ("y", 0)), r"node 0 \(input\): there is no input 'y'"),
        (spoil("value", 0, ("x", 2)), r"node 0 \(input\): input 'x' .* has no entry 2"),
        (spoil("value", 0, 7), r"node 0 \(input\): its value is 7, wanted a name"),
        (spoil("outputs", "out", Output((3,), (5, 0))), "'out' .* has 2 entries, wanted 3"),
        (spoil("outputs", "out", Output((), (6,))), "'out' has the entry 6: there is no such"),
        (spoil("outputs", "out", Output((), (2,))), r"'out' has the entry 2 \(less\)"),
        (lambda g: g.tag.pop(), "columns of the graph differ in length"),
    ],
)
def test_illegal_graphs_are_refused(change, message):
    g = legal()
    verify(g)
    change(g)
    with pytest.raises(CompileError, match=message):
        verify(g)


def test_only_allowed_operations():
    g = trace(lambda x: sin(x) + 1.0, {"x": ()})
    verify(g, allowed=OPS)
    allowed = OPS.keys() - {"sin", "cos"}
    with pytest.raises(CompileError, match=r"node 1 \(sin\): this operation is not allowed"):
        verify(g, allowed)
    verify(expand(g, np.float32), allowed)


# Derivatives


@given(functions(), st.sampled_from(["forward", "reverse", "auto"]))
def test_jacobian_against_the_complex_step(function, mode):
    g = trace(function, {"x": SIZE})
    wanted = by_complex_step(function, POINT)
    for stage in (g, fuse(g), fuse(expand(g, np.float64))):
        d = jacobian(stage, "out", "x", mode)
        assert d.outputs.keys() == {"dout_dx"}
        assert d.outputs["dout_dx"].shape == (RESULTS, SIZE)
        assert close(run(d, x=POINT), wanted)
        assert close(run(fuse(d), x=POINT), wanted)


@given(functions(), st.integers(0, 2**32))
def test_products_with_the_jacobian(function, seed):
    g = trace(function, {"x": SIZE})
    wanted = by_complex_step(function, POINT)
    direction, weight = np.random.default_rng(seed).normal(size=(2, SIZE))
    weight = weight[:RESULTS]
    forward, reverse = directional(g, "out", "x"), pullback(g, "out", "x")
    assert forward.outputs["out_direction"].shape == (RESULTS,)
    assert reverse.outputs["x_weight"].shape == (SIZE,)
    assert close(run(forward, x=POINT, x_direction=direction), wanted @ direction)
    assert close(run(reverse, x=POINT, out_weight=weight), weight @ wanted)


@settings(max_examples=20)
@given(functions())
def test_second_derivatives_are_symmetric(function):
    g = trace(lambda x: sum(function(x)[1:], function(x)[0]), {"x": SIZE})
    hessian = jacobian(jacobian(g, "out", "x", "reverse"), "dout_dx", "x")
    H = run(hessian, x=POINT)
    assert H.shape == (SIZE, SIZE)
    assert np.allclose(H, H.T, rtol=1e-8, atol=1e-8 * max(1.0, np.max(np.abs(H))))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("x", [-1.3, 0.4, 2.2])
def test_pieces(mode, x):
    function = lambda x: [abs(x), select(x < 1.0, x * x, 3.0 * x), abs(x - 1.0) * x]
    d = jacobian(trace(function, {"x": ()}), "out", "x", mode)
    s = np.sign(x - 1.0)
    wanted = [np.sign(x), 2 * x if x < 1 else 3.0, s * x + abs(x - 1.0)]
    assert np.allclose(run(d, x=x), wanted, rtol=1e-14)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_piecewise_constants_pass_nothing(mode):
    g = Graph()
    (x,) = g.declare("x", ())
    k = g.round(x)
    g.outputs["out"] = Output((3,), (k, g.mul(k, x), g.quarter(k, x, g.mul(x, x))))
    d = jacobian(g, "out", "x", mode)
    assert np.array_equal(run(d, x=1.25), [0.0, 1.0, 2.5])
    assert np.array_equal(run(d, x=1.75), [0.0, 2.0, -1.0])


def test_forward_mode_ignores_the_branch_left_out():
    g = trace(lambda x: select(x > 0.0, sqrt(x), 0.0), {"x": ()})
    assert run(jacobian(g, "out", "x", "forward"), x=0.0) == 0.0
    assert run(jacobian(g, "out", "x", "forward"), x=4.0) == 0.25


@pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])
def test_zeros_cost_nothing(mode):
    g = trace(lambda x, y: {"z": [a * b for a, b in zip(x, y, strict=True)]}, {"x": 5, "y": 5})
    d = jacobian(g, "z", "x", mode)
    assert d.cost().operations == 0
    y = np.arange(5.0)
    assert np.array_equal(run(d, x=y, y=y), np.diag(y))
    constant = jacobian(trace(lambda x: [1.0, 2.0], {"x": (2, 2)}), "out", "x", mode)
    assert np.array_equal(run(constant, x=np.ones((2, 2))), np.zeros((2, 2, 2)))


def test_auto_takes_the_mode_with_fewer_operations():
    wide = trace(lambda x: sum(a * a * a for a in x), {"x": 20})
    tall = trace(lambda x: [sin(x) * x / (k + x) for k in range(20)], {"x": ()})
    for g in (wide, tall):
        modes = ("auto", "forward", "reverse")
        auto, *others = (jacobian(g, "out", "x", mode).cost().operations for mode in modes)
        assert auto <= min(others)


def test_an_entry_returned_twice():
    g = trace(lambda x: [x, x * x, x], {"x": ()})
    for mode in ("forward", "reverse"):
        assert np.array_equal(run(jacobian(g, "out", "x", mode), x=3.0), [1.0, 6.0, 1.0])
    assert run(pullback(g, "out", "x"), x=3.0, out_weight=[1.0, 10.0, 100.0]) == 161.0


def test_derivatives_keep_the_stage():
    g = Graph()
    (x,) = g.declare("x", ())
    g.current_tag = "here"
    g.outputs["out"] = Output((), (g.mul(g.mul(x, x), x),))
    for mode in ("forward", "reverse"):
        stages = jacobian(g, "out", "x", mode).cost().stages
        assert stages.keys() == {"here"}


def test_wrong_requests_are_refused():
    g = trace(lambda x: {"y": [x, x]}, {"x": ()})
    with pytest.raises(ValueError, match="no output 'z' to differentiate: the graph has y"):
        jacobian(g, "z", "x")
    with pytest.raises(ValueError, match="no input 'z' to differentiate by: the graph has x"):
        jacobian(g, "y", "z")
    with pytest.raises(ValueError, match="mode is 'both'"):
        jacobian(g, "y", "x", "both")
