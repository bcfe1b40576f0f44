"""Clusters: what they compute is what the whole computes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st
from random_datapaths import random_datapath
from test_runs import integers

import featherlane as fl
from featherlane.backends.fixed.align import aligned_from
from featherlane.backends.fixed.assign import uniform
from featherlane.backends.fixed.clusters import (
    MOST_RESULTS,
    OPERAND,
    RESULT,
    clusters_of,
    datapath_of,
    linear_nodes,
)
from featherlane.backends.fixed.evaluate import Evaluator
from featherlane.backends.fixed.runs import accumulated
from featherlane.backends.fixed.unify import alike
from featherlane.errors import CompileError
from featherlane.program.op import CONDITIONS


def known_values(datapath, inputs):
    """The integers of all nodes."""
    rows = {name: x.reshape(len(x), -1) for name, x in inputs.items()}
    states = len(next(iter(rows.values())))
    values = [None] * len(datapath.graph)
    for k, known in Evaluator(datapath).values(rows, Counter()):
        values[k] = np.broadcast_to(known[k], states)
    return values


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.booleans())
def test_clusters_compute_what_the_whole_computes(seed, is_uniform):
    datapath = random_datapath(seed, 60)
    if is_uniform:
        datapath = accumulated(uniform(datapath.graph, "q16.16"), 5)
    graph = datapath.graph
    try:
        values = known_values(datapath, integers(datapath))
    except CompileError:  # random formats whose products the golden model refuses
        reject()
    done = linear_nodes(graph) | {*graph.nodes_of("input"), *graph.nodes_of("constant")}
    done |= {k for k in range(len(graph)) if graph.op[k] in CONDITIONS}
    done |= {k for k in range(len(graph)) if aligned_from(graph, k) is not None}
    done |= {k for k in graph.nodes_of("power_of_two") if graph.op[graph.args[k][0]] == "constant"}
    for cluster in clusters_of(graph):
        assert len(cluster.gives) <= MOST_RESULTS
        assert max(cluster.operands) < min(cluster.gives)
        alone = datapath_of(datapath, cluster)
        rows = {OPERAND: np.stack([values[k] for k in cluster.operands], 1)}
        found = Evaluator(alone)(rows).integers[RESULT]
        for n, k in enumerate(cluster.gives):
            assert (found[:, n] == values[k]).all()
        done |= {*cluster.nodes}
    assert done == {*range(len(graph))}


@pytest.mark.parametrize("robot", ["double_pendulum", "iiwa14"])
def test_reciprocals_of_a_robot_are_alike(robot):
    arm = fl.load(robot)
    datapath = arm.function("forward_dynamics", backend="fixed", format="q16.16").datapath
    clusters = clusters_of(datapath.graph)
    counts = Counter(cluster.name(datapath.graph) for cluster in clusters)
    divisions = len(datapath.graph.nodes_of("div"))
    assert counts["reciprocal"] == counts["selection"] == divisions > 0
    assert counts["sine_cosine"] == len(datapath.graph.nodes_of("sin"))
    assert counts.keys() <= {"reciprocal", "selection", "sine_cosine", "shift"}
    reciprocals = [c for c in clusters if c.name(datapath.graph) == "reciprocal"]
    assert all(len(c.operands) == 1 for c in reciprocals)
    ops = {tuple(datapath_of(datapath, c).graph.op) for c in reciprocals}
    assert len(ops) <= 2  # the last one's power is read by nothing else


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6))
def test_clusters_of_other_formats_become_alike(seed):
    ops = ["abs", "select", "inverse", "power", "inverse", "power", "mul", "add"]
    datapath = random_datapath(seed, 40, ops=ops)
    try:
        wanted = Evaluator(datapath)(integers(datapath)).integers
    except CompileError:
        reject()
    unified = alike(datapath)
    found = Evaluator(unified)(integers(datapath)).integers
    for name in wanted:
        assert (found[name] == wanted[name]).all()
    kinds = [
        {str(datapath_of(d, c).formats) + c.name(d.graph) for c in clusters_of(d.graph)}
        for d in (datapath, unified)
    ]
    before, after = map(len, kinds)
    event("fewer kinds" if after < before else "as many kinds")


def test_shifts_of_fitted_formats_have_one_circuit():
    arm = fl.load("iiwa14")
    datapath = arm.function("forward_dynamics", backend="fixed", format="fitted18").datapath
    counts = []
    for d in (datapath, accumulated(datapath, 16)):
        names = {(c.name(d.graph), datapath_of(d, c).formats) for c in clusters_of(d.graph)}
        counts.append(Counter(name for name, _ in names))
    assert counts[0]["shift"] > 4
    assert counts[0]["reciprocal"] == counts[0]["selection"] == 5
    assert counts[1] == {"sine_cosine": 1, "reciprocal": 1, "shift": 1, "selection": 1}
