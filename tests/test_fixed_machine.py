"""Datapaths in machine code, against the golden model: the same integers and the same counts."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from random_datapaths import random_datapath
from repetition import examples
from test_post_adder import fused_datapath

import featherlane as fl
from featherlane.api.fixed import input_ranges
from featherlane.backends.fixed import machine
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import Evaluator, quantised
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.machine import MachineEvaluator
from featherlane.errors import CompileError
from featherlane.functions import fixed
from featherlane.program.graph import Graph, Output
from featherlane.program.op import CONDITIONS
from featherlane.program.passes.clamps import clamped


def assert_equal(datapath, integers):
    golden = Evaluator(datapath)
    wanted, found = golden(integers), MachineEvaluator(golden)(integers)
    for name, x in wanted.integers.items():
        assert_array_equal(found.integers[name], x)
    assert found[1:] == wanted[1:]
    return wanted


@pytest.mark.parametrize("seed", range(examples(32)))
def test_random_datapaths(seed, monkeypatch):
    """In blocks of 8 nodes, so that values pass through the workspace; full vectors and rests."""
    monkeypatch.setattr(machine, "BLOCK", 8)
    datapath = random_datapath(seed, size=60)
    rng, forms = np.random.default_rng(seed), [datapath.format(k) for k in range(4)]
    ends = [form.least for form in forms], [form.most + 1 for form in forms]
    x = rng.integers(*ends, (2, 13, 4)) >> rng.integers(0, 20, (2, 13, 1))
    x[0, :2] = [form.least for form in forms], [form.most for form in forms]
    try:
        results = assert_equal(datapath, {"x": x})
    except CompileError as error:
        pytest.skip(f"this datapath cannot be built: {error}")
    assert results.states == 26


@pytest.mark.parametrize("seed", range(examples(8)))
def test_fused_products(seed):
    """Products that are not rounded before they are added."""
    datapath = fused_datapath(seed)
    rng, forms = np.random.default_rng(seed), [datapath.format(k) for k in range(4)]
    x = rng.integers([form.least for form in forms], [form.most + 1 for form in forms], (40, 4))
    assert datapath.fused
    assert_equal(datapath, {"x": x >> rng.integers(0, 20, (40, 1))})


@pytest.mark.parametrize("form", ["q12.6", "proved"])
def test_functions_of_robots(form):
    """With overflows, and without."""
    arm = fl.load("double_pendulum")
    function = arm.function("forward_dynamics", backend="fixed", format=form)
    given = input_ranges(arm, function.inputs, {}, states=301)[1]
    given["v"] *= 20 if form == "q12.6" else 1
    integers, _ = quantised(function.datapath, given)
    results = assert_equal(function.datapath, integers)
    assert bool(results.overflows) == (form == "q12.6")
    assert_equal(function.datapath, {name: x[:0] for name, x in integers.items()})
    assert_equal(function.datapath, {name: x[0] for name, x in integers.items()})


def test_clamps_that_act_are_counted():
    graph = Graph()
    a, b = graph.declare("x", (2,))
    product = graph.mul(a, b)
    graph.state(product, -2.0, 1.0)
    graph.outputs["y"] = Output((), (product,))
    graph = clamped(graph, [product])
    formats = [None if op in CONDITIONS else Format(16, 8) for op in graph.op]
    x = np.random.default_rng(0).integers(-1000, 1000, (77, 2))
    results = assert_equal(Datapath(graph, tuple(formats)), {"x": x})
    assert len(results.clamped) == 2


def test_a_function_is_compiled_when_it_pays(monkeypatch):
    arm = fl.load("double_pendulum")
    function = arm.function("forward_dynamics", backend="fixed", format="q12.6")
    given = input_ranges(arm, function.inputs, {}, states=50)[1]
    wanted, report = function(**given), function.report
    assert function._golden.machine is None
    monkeypatch.setattr(fixed, "SECONDS", 0.0)
    assert_array_equal(function(**given), wanted)
    assert function._golden.machine is not None
    assert function.report == report
