"""Formats without bits that repeat the sign."""

import numpy as np
import pytest
from random_datapaths import random_datapath
from repetition import full

from featherlane.backends.fixed.assign import uniform
from featherlane.backends.fixed.evaluate import Evaluator
from featherlane.backends.fixed.narrow import narrowed
from featherlane.program.rewrite import simplify
from featherlane.program.trace import trace
from featherlane.scalar import cos, sin


def integers(datapath, states, seed):
    """Random integers of the inputs' formats, their ends among them, by name."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in datapath.graph.inputs.items():
        found[name] = np.zeros((states, *shape), np.int64)
    for k in datapath.graph.nodes_of("input"):
        name, n = datapath.graph.value[k]
        form = datapath.format(k)
        column = rng.integers(form.least, form.most + 1, states)
        column[:2] = rng.permutation([form.least, form.most])
        found[name].reshape(states, -1)[:, n] = column
    return found


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(s, marks=full) for s in range(4, 40))])
def test_narrow_formats_hold_the_same_integers(seed):
    datapath = random_datapath(seed)
    narrow = narrowed(datapath)
    given = integers(datapath, 2000, seed)
    wanted, found = (Evaluator(own)(given).integers for own in (datapath, narrow))
    for name, x in wanted.items():
        np.testing.assert_array_equal(found[name], x)
    for own, other in zip(datapath.formats, narrow.formats, strict=True):
        assert (own is None) == (other is None)
        if own is not None:
            assert other.fraction == own.fraction
            assert other.width <= max(own.width, 2)


def test_sines_in_a_wide_format_are_narrow():
    """In Q16.16 a sine has 18 bits, a product of two as many, and their sum one more."""
    products = lambda x: sin(x[0]) * cos(x[1]) + sin(x[1]) * cos(x[0])
    graph = simplify(trace(lambda x: {"y": [products(x)]}, {"x": 2}))
    narrow = narrowed(uniform(graph, "q16.16"))
    widths = {op: {narrow.format(k).width for k in graph.nodes_of(op)} for op in set(graph.op)}
    assert widths == {"input": {32}, "sin": {18}, "cos": {18}, "mul": {18}, "add": {19}}
