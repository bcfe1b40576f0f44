"""Datapaths evaluated in integers, against exact arithmetic by the definitions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from repetition import examples

from featherlane.backends.fixed import units
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import CHUNK, Evaluator, evaluate, floats, quantised
from featherlane.backends.fixed.formats import Format
from featherlane.errors import CompileError
from featherlane.program.graph import Graph, Output
from featherlane.program.op import CONDITIONS

MANTISSA = Format(20, 18)


def wrapped(n, form):
    return (n - form.least) % (1 << form.width) + form.least


def exactly(datapath, integers):
    """The integer of each node by the docstring of `datapath`, in fractions, for one state."""
    graph, n = datapath.graph, []
    for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
        form = datapath.formats[k]
        x = [None if datapath.formats[a] is None else numbers(datapath, a, n[a]) for a in args]
        if op == "input":
            n.append(integers[graph.value[k][1]])
        elif op == "constant":
            n.append(round(Fraction(graph.value[k]) * Fraction(2) ** form.fraction))
        elif op in CONDITIONS:
            n.append(x[0] < x[1] if op == "less" else x[0] <= x[1])
        elif op in ("sin", "cos"):
            both = units.sine_cosine(n[args[0]], datapath.formats[args[0]], form)
            n.append(int(both[op == "cos"]))
        elif op == "div":
            n.append(int(units.reciprocal(n[args[1]], datapath.formats[args[1]], form)))
        elif op == "exponent":
            magnitude, fraction = abs(n[args[0]]), datapath.formats[args[0]].fraction
            n.append(wrapped(magnitude.bit_length() - 1 - fraction, form))
        elif op == "power_of_two":
            n.append(wrapped(n[args[0]] // 2 ** datapath.formats[args[0]].fraction, form))
        else:
            n.append(wrapped(fitted(graph, op, args, n, x, form), form))
    return n


def numbers(datapath, a, n):
    power = datapath.graph.op[a] == "power_of_two"
    return Fraction(2) ** n if power else n / Fraction(2) ** datapath.formats[a].fraction


def fitted(graph, op, args, n, x, form):
    scale = Fraction(2) ** form.fraction
    if op == "select":
        return math.floor((x[1] if n[args[0]] else x[2]) * scale)
    if op == "mul":
        powers = any(graph.op[a] == "power_of_two" for a in args)
        return math.floor(x[0] * x[1] * scale + (0 if powers else Fraction(1, 2)))
    results = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "neg": lambda a: -a}
    return math.floor((results | {"abs": abs})[op](*x) * scale)


@st.composite
def datapaths(draw, size=14):
    """A graph of two inputs or more in which each node reads earlier ones, with any formats."""
    widths, fractions = st.integers(4, 32), st.integers(-3, 28)
    form = lambda: Format(draw(widths), draw(fractions))
    graph, formats, numbers = Graph(), [], []

    def enter(op, *args, value=None, form=None):
        k = graph.node(op, *args, value=value)
        if k == len(formats):
            formats.append(form)
            if form is not None and op != "power_of_two":
                numbers.append(k)
        return k

    graph.inputs["x"] = (3,)
    for i in range(3):
        enter("input", value=("x", i), form=form())
    c = draw(st.floats(-100, 100))
    enter("constant", value=c, form=Format(24, 16))
    one = enter("constant", value=1.0, form=Format(4, 2))
    for _ in range(size):
        a, b = draw(st.sampled_from(numbers)), draw(st.sampled_from(numbers))
        op = draw(st.sampled_from(["add", "sub", "mul", "neg", "abs", "sin", "cos", "select", "/"]))
        if op in ("neg", "abs"):
            enter(op, a, form=form())
        elif op in ("sin", "cos"):
            if formats[a].width - formats[a].fraction <= 16:
                enter(op, a, form=Format(20, draw(st.integers(2, 19))))
        elif op == "select":
            condition = enter(draw(st.sampled_from(sorted(CONDITIONS))), a, b)
            enter("select", condition, a, b, form=form())
        elif op == "/":
            exponent = enter("exponent", a, form=Format(8, 0))
            scale = enter(
                "power_of_two", enter("neg", exponent, form=Format(8, 0)), form=Format(9, 0)
            )
            m = enter("mul", scale, a, form=MANTISSA)
            y = enter("div", one, m, form=MANTISSA)
            enter("mul", scale, y, form=form())
        else:
            enter(op, a, b, form=form())
    graph.outputs["y"] = Output((len(numbers),), tuple(numbers))
    return Datapath(graph, tuple(formats))


@settings(max_examples=examples(150), deadline=None)
@given(datapaths(), st.data())
def test_the_integers_are_those_of_the_definition(datapath, data):
    try:
        program = Evaluator(datapath)
    except CompileError:  # fractions too far apart
        assume(False)
    forms = datapath.formats[:3]
    state = st.tuples(*[st.integers(form.least, form.most) for form in forms])
    states = data.draw(st.lists(state, min_size=1, max_size=4))
    results = program({"x": np.array(states, np.int64)})
    for state, found in zip(states, results.integers["y"].tolist(), strict=True):
        wanted = exactly(datapath, state)
        assert found == [wanted[k] for k in datapath.graph.outputs["y"].nodes]


def sums(form, out=None):
    """x0 + x1 in a format."""
    graph = Graph()
    a, b = graph.declare("x", (2,))
    graph.outputs["y"] = Output((), (graph.add(a, b),))
    return Datapath(graph, (form, form, out or form))


def test_overflows_and_saturated_inputs_are_counted():
    datapath = sums(Format(8, 4))
    x = np.array([[3.0, 4.0], [7.0, 4.0], [90.0, -1.0], [-90.0, -90.0], [np.nan, 1.0]])
    results = evaluate(datapath, {"x": x})
    assert_array_equal(floats(datapath, results.integers)["y"], [7.0, -5.0, 7.9375 - 1.0, 0.0, 1.0])
    assert (results.overflows, results.saturated, results.states) == ({2: 2}, {"x": 3}, 5)


def test_inputs_are_rounded_to_even():
    integers, saturated = quantised(sums(Format(8, 0)), {"x": [[0.5, 1.5], [2.5, -0.5]]})
    assert_array_equal(integers["x"], [[0, 2], [2, 0]])
    assert not saturated


def test_states_in_chunks_are_the_same_as_alone():
    datapath, rng = sums(Format(8, 3)), np.random.default_rng(0)
    x = rng.standard_normal((3, CHUNK - 5, 2)) * 20
    results = evaluate(datapath, {"x": x})
    parts = [evaluate(datapath, {"x": row}) for row in x]
    assert_array_equal(results.integers["y"], [part.integers["y"] for part in parts])
    assert results.overflows == sum((part.overflows for part in parts), type(results.overflows)())
    assert results.overflows[2] > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: (g.node("tanh", 0), Format(8, 4)), r"\(tanh\): there is no circuit"),
        (lambda g: (g.node("neg", 0), Format(40, 4)), r"has 40 bits: wanted 2 to 32"),
        (lambda g: (g.constant(9.0), Format(8, 4)), r"constant 9.0: q4.4 does not hold it"),
        (lambda g: (g.node("exponent", 0), Format(8, 4)), "wanted a format without a fraction"),
        (lambda g: (g.node("div", 0, 1), Format(8, 4)), "divides node 0: wanted 1"),
        (lambda g: (g.node("neg", 0), Format(8, 90)), "choose fractions that are closer"),
        (lambda g: (g.node("sin", 0), Format(8, 8)), "cannot hold numbers from -1 to 1"),
    ],
)
def test_what_cannot_be_built_is_refused(change, message):
    graph = Graph()
    graph.declare("x", (2,))
    k, form = change(graph)
    graph.outputs["y"] = Output((), (k,))
    with pytest.raises(CompileError, match=message):
        evaluate(Datapath(graph, (Format(8, 4), Format(8, 4), form)), {"x": np.zeros((1, 2))})


@pytest.mark.parametrize("op", sorted(CONDITIONS))
@pytest.mark.parametrize(("of_a", "of_b"), [(0, 3), (3, 0), (2, 2)])
def test_comparisons_of_all_pairs(op, of_a, of_b):
    graph = Graph()
    a, b = graph.declare("x", (2,))
    condition = graph.node(op, a, b)
    graph.outputs["y"] = Output((), (graph.node("select", condition, a, b),))
    forms = Format(5, of_a), Format(5, of_b)
    datapath = Datapath(graph, (*forms, None, Format(10, 3)))
    x = np.stack(np.meshgrid(np.arange(-16, 16), np.arange(-16, 16)), -1).reshape(-1, 2)
    found = Evaluator(datapath)({"x": x}).integers["y"]
    assert_array_equal(found, [exactly(datapath, row)[3] for row in x.tolist()])
