"""Ranges of signals and their formats: uniform, by sampling, and proved by intervals."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import featherlane as fl
from featherlane.backends.fixed.assign import (
    SAMPLES,
    constant_format,
    fitted,
    holding,
    proved,
    uniform,
)
from featherlane.backends.fixed.evaluate import evaluate, floats
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.fixed.ranges import Interval, intervals
from featherlane.backends.reference import values
from featherlane.errors import CompileError
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_graph
from featherlane.program.passes.reciprocals import normalised
from featherlane.program.trace import trace


def bounds(**ends):
    """Bounds of inputs: a pair for all entries of each."""
    return {
        (name, i): Interval(*map(float, pair)) for name, (n, pair) in ends.items() for i in range(n)
    }


def drawn(graph, inputs, count, seed=0):
    """States within the bounds of their inputs, their ends among them."""
    rng = np.random.default_rng(seed)
    states = {}
    for name, shape in graph.inputs.items():
        ends = np.array([inputs[name, i][:2] for i in range(math.prod(shape))])
        x = rng.uniform(*ends.T, (count, len(ends)))
        corner = rng.random(x.shape) < 0.2
        x[corner] = np.where(rng.random(x.shape) < 0.5, *ends.T)[corner]
        states[name] = x.reshape(count, *shape)
    return states


def several(q, x):
    c, s = fl.cos(q[0]), fl.sin(q[0])
    square = x[0] * x[0] + 0.5
    turned = [c * x[1] + s * x[2], c * x[2] - s * x[1]]
    chosen = fl.select(x[1] < x[2], abs(x[1]), -x[0])
    return [square, *turned, chosen, c * c + s * s - 1.0, x[0] / square, 1.0 / (-2.0 - square)]


@pytest.mark.parametrize("ends", [(-3.0, 3.0), (0.3, 0.9), (2.0, 7.0), (-9.0, -8.5)])
def test_intervals_hold_all_values(ends):
    graph = normalised(trace(several, {"q": 2, "x": 3}))
    inputs = bounds(q=(2, ends), x=(3, (-1.5, 4.0)))
    states = drawn(graph, inputs, 2000)
    for boxes in (1, 64):
        found = intervals(graph, inputs, boxes=boxes)
        for x, value in zip(found, values(graph, states), strict=True):
            if x is not None:
                assert x.low <= np.min(value)
                assert np.max(value) <= x.high


def test_intervals_are_tight_where_they_can_be():
    graph = normalised(trace(several, {"q": 2, "x": 3}))
    found = intervals(graph, bounds(q=(2, (-9.0, 9.0)), x=(3, (-1.5, 4.0))))
    square, turned, other, _, _, quotient, negative = graph.outputs["out"].nodes
    assert found[square].low == pytest.approx(0.5)
    assert found[square].high == pytest.approx(16.5)
    assert found[turned].high == found[other].high == pytest.approx(math.hypot(4.0, 4.0))
    assert found[quotient].high == pytest.approx(8.0)
    assert found[negative][:2] == pytest.approx((-0.4, -1 / 18.5))


def test_a_divisor_without_bounds_is_named():
    graph = prepared_division()
    with pytest.raises(
        CompileError, match=r"exponent in module Mb3 \(joint 3\): the range -1 to 1"
    ):
        proved(graph, bounds(x=(1, (-1.0, 1.0))))
    proved(graph, bounds(x=(1, (0.5, 1.0))))


def prepared_division():
    from featherlane.scalar import Tag, at, call

    return prepared(trace(lambda x: at(Tag("M", "b", 2), call, lambda y: 1.0 / y, x[0]), {"x": 1}))


@pytest.mark.parametrize("width", [18, 32])
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("iiwa14", "inverse_dynamics_derivatives"),
        ("iiwa14", "mass_matrix"),
        ("double_pendulum", "forward_dynamics_derivatives_from"),
    ],
)
def test_proved_formats_never_overflow(name, function, width):
    graph = prepared(dynamics_graph(fl.load(name), Variant(function)))
    ends = {"q": (-2.0, 2.0), "v": (-5.0, 5.0), "a": (-9.0, 9.0), "minv": (-50.0, 50.0)}
    inputs = bounds(**{x: (math.prod(n), ends[x]) for x, n in graph.inputs.items()})
    datapath = proved(graph, inputs, width)
    assert {f.width for f in datapath.formats if f is not None} <= {width, 8}
    results = evaluate(datapath, drawn(graph, inputs, 3000))
    assert not results.overflows
    assert not results.saturated


def test_proved_bounds_hold_the_rounding_before_them():
    """c^2 + s^2 - 1 is rounding alone, and so is what a tight format must hold."""
    graph = prepared(
        tagged(lambda q: (fl.cos(q) * fl.cos(q) + fl.sin(q) * fl.sin(q) - 1.0) * q * q)
    )
    for make in (
        lambda: proved(graph, bounds(q=(1, (-3.0, 3.0))), 12),
        lambda: fitted(graph, drawn(graph, bounds(q=(1, (-3.0, 3.0))), SAMPLES), 16, 12),
    ):
        datapath = make()
        states = drawn(graph, bounds(q=(1, (-3.0, 3.0))), 20000, seed=3)
        results = evaluate(datapath, states)
        assert not results.overflows
        assert np.abs(floats(datapath, results.integers)["out"]).max() > 0


def tagged(function):
    from featherlane.scalar import Tag, at, call

    return trace(lambda q: at(Tag("R", "f", 0), call, function, q), {"q": ()})


def test_fitted_formats_have_their_widths():
    graph = prepared(dynamics_graph(fl.load("iiwa14"), Variant("inverse_dynamics")))
    inputs = bounds(q=(7, (-2.0, 2.0)), v=(7, (-5.0, 5.0)), a=(7, (-9.0, 9.0)))
    datapath = fitted(graph, drawn(graph, inputs, SAMPLES), inputs=inputs)
    for op, form in zip(graph.op, datapath.formats, strict=True):
        assert form.width == (18 if op in ("sin", "cos", "constant") else 27)
        if op in ("sin", "cos"):
            assert form.fraction == 17
    found = {graph.value[k][0]: datapath.format(k) for k in graph.nodes_of("input")}
    assert found == {"q": Format(27, 24), "v": Format(27, 23), "a": Format(27, 22)}
    assert not evaluate(datapath, drawn(graph, inputs, 20000, seed=5)).overflows


def test_counts_of_lost_pivots_have_room_for_all():
    graph = prepared(dynamics_graph(fl.load("iiwa14"), Variant("mass_matrix_inverse")))
    inputs = bounds(q=(7, (-2.0, 2.0)))
    datapath = fitted(graph, drawn(graph, inputs, SAMPLES))
    (lost,) = graph.outputs["lost"].nodes
    assert datapath.format(lost) == Format(4, 0)


@pytest.mark.parametrize(
    ("interval", "form"),
    [
        ((0.0, 1.0), Format(8, 6)),
        ((-1.0, 0.99), Format(8, 7)),
        ((-1.0, 0.999), Format(8, 6)),
        ((0.0, 1000.0), Format(8, -3)),
        ((0.0, 0.0), Format(8, 8)),
        ((0.0, 2.0**-30), Format(8, 36)),
    ],
)
def test_the_format_of_an_interval(interval, form):
    assert holding(Interval(*interval), 8) == form


@pytest.mark.parametrize("value", [1.0, -1.0, 0.5, 9.81, -1e-3, 127.9, 0.0, 0.9999999])
def test_constants_use_all_bits(value):
    form = constant_format(value, 18)
    n = round(value / form.step)
    assert form.least < n <= form.most
    assert value == 0 or abs(n) >= 1 << 16
    assert abs(n * form.step - value) <= form.step / 2


def test_uniform_formats():
    graph = prepared(dynamics_graph(fl.load("double_pendulum"), Variant("mass_matrix_inverse")))
    datapath = uniform(graph, "q12.10")
    plain = {"add", "sub", "sin", "cos", "input", "constant", "select"}
    for op, form in zip(graph.op, datapath.formats, strict=True):
        assert (form == Format(22, 10)) >= (op in plain)
    with pytest.raises(
        ValueError, match=r"format is 'q40.2': wanted one such as 'q16.16', of 2 to"
    ):
        uniform(graph, "q40.2")
    with pytest.raises(
        CompileError, match=r"constant 9.81 is beyond q3.13: wanted 5 .*, as q5.11 has"
    ):
        uniform(prepared(tagged(lambda q: q * 9.81)), "q3.13")


def test_samples_are_counted():
    graph = prepared(tagged(lambda q: q * 2.5))
    with pytest.raises(ValueError, match=r"samples has \[10\] states: wanted 3000 or more"):
        fitted(graph, {"q": np.zeros(10)})
    assert_array_equal(fitted(graph, {"q": np.zeros(SAMPLES)}).graph.op, graph.op)
