"""Runs: sums of products that are exact until they are rounded once."""

from collections import Counter

import numpy as np
import pytest
from random_datapaths import random_datapath, with_mixed_formats

import featherlane as fl
from featherlane.api.fixed import input_ranges
from featherlane.backends.fixed.align import shift_of
from featherlane.backends.fixed.assign import uniform
from featherlane.backends.fixed.evaluate import Evaluator, evaluate, floats
from featherlane.backends.fixed.machine import MachineEvaluator
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.fixed.runs import accumulated, runs_of
from featherlane.program.trace import trace
from featherlane.scalar import Tag, at

LINEAR = ["neg", "add", "add", "sub", "sub", "mul", "mul", "mul", "times"]


def linear_datapath(seed, size=60):
    """Sums and products in Q16.16."""
    return uniform(random_datapath(seed, size, ops=LINEAR).graph, "q16.16")


def integers(datapath, states=50, seed=0):
    """Random inputs, small enough for most sums to stay within their format."""
    draw, inputs = np.random.default_rng(seed), {}
    for name, shape in datapath.graph.inputs.items():
        drawn = draw.integers(-(1 << 18), 1 << 18, (states, *shape))
        codes = datapath.input_codes[name]
        ends = (end.astype(np.int64).reshape(shape) for end in (codes.least, codes.most))
        inputs[name] = drawn.clip(*ends)
    return inputs


def mixed_datapath(seed, size=60):
    """Sums and products in formats with different fractions."""
    return with_mixed_formats(random_datapath(seed, size, ops=LINEAR), seed)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("most", [2, 5, 12])
@pytest.mark.parametrize("made", [linear_datapath, mixed_datapath])
def test_a_run_is_its_exact_sum_rounded_once(seed, most, made):
    datapath = accumulated(made(seed), most)
    graph, inputs = datapath.graph, integers(datapath)
    rows = {name: x.reshape(len(x), -1) for name, x in inputs.items()}
    golden = Evaluator(datapath)
    values = [None] * len(graph)
    for k, known in golden.values(rows, Counter()):
        values[k] = np.asarray(known[k])
    exact = lambda k: np.broadcast_to(values[k], 50).astype(object)  # integers of any size
    runs = runs_of(datapath)
    for run in runs:
        total = np.full(50, run.initial, object)
        for negative, a, b in run.terms:
            fraction = sum(datapath.format(n).fraction for n in (a, b) if n is not None)
            product = exact(a) * (1 if b is None else exact(b)) * 2 ** (run.fraction - fraction)
            total = total - product if negative else total + product
        form = datapath.format(run.root)
        finer = max(form.fraction - run.fraction, 0)
        dropped = max(run.fraction - form.fraction, 0)
        rounded = np.array([(x << finer) >> dropped for x in total])
        half = 1 << form.width - 1
        wrapped = np.array([(x + half) % (2 * half) - half for x in rounded])
        assert (wrapped == exact(run.root)).all()
    assert max(len(run.terms) for run in runs) <= most


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("made", [linear_datapath, mixed_datapath])
def test_other_evaluations_of_runs_agree(seed, made):
    datapath = accumulated(made(seed), 8)
    inputs, golden = integers(datapath), Evaluator(datapath)
    wanted = golden(inputs).integers["y"]
    assert (Evaluator(narrowed(datapath))(inputs).integers["y"] == wanted).all()
    assert (MachineEvaluator(golden)(inputs).integers["y"] == wanted).all()


def test_a_dot_product_is_one_run_and_is_rounded_to_nearest():
    dot = lambda a, b: sum(x * y for x, y in zip(a, b, strict=True))
    tag = Tag("D", "f", 0, 1)
    graph = prepared(trace(lambda a, b: at(tag, dot, a, b), {"a": 5, "b": 5}))
    datapath = accumulated(uniform(graph, "q16.16"), 8)
    (run,) = runs_of(datapath)
    assert len(run.terms) == 5
    assert run.initial == 1 << 15
    inputs = {"a": np.full((1, 5), 1 << 8), "b": np.full((1, 5), 3 << 4)}  # 5 times 0.1875 steps
    assert Evaluator(datapath)(inputs).integers["out"].tolist() == [1]  # 0.94, and not 5 times 0
    assert Evaluator(uniform(graph, "q16.16"))(inputs).integers["out"].tolist() == [0]


def test_products_of_a_run_have_one_fraction():
    arm = fl.load("double_pendulum")
    fitted = arm.function("inverse_dynamics", backend="fixed", format="fitted").datapath
    datapath = accumulated(fitted, 8)
    aligned = [k for k in range(len(datapath.graph)) if shift_of(datapath, k)]
    assert aligned
    for run in runs_of(datapath):
        products = {
            datapath.format(term.a).fraction + datapath.format(term.b).fraction
            for term in run.terms
            if term.b is not None
        }
        assert len(products) <= 1


def test_alignment_costs_no_accuracy():
    arm = fl.load("iiwa14")
    circuit = arm.function("inverse_dynamics", backend="fixed", format="fitted18")
    inputs = input_ranges(arm, dict(circuit.datapath.graph.inputs), {})[1]
    exact = arm.function("inverse_dynamics")(**inputs)
    errors = []
    for datapath in (circuit.datapath, accumulated(circuit.datapath, 16)):
        result = evaluate(datapath, inputs)
        assert not result.overflows
        found = floats(datapath, result.integers)["tau"]
        errors.append(np.sqrt(np.mean((found - exact) ** 2)))
    each_sum, runs = errors
    assert 0 < runs < each_sum
