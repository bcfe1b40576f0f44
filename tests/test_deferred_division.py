"""M^-1, and what is computed with it, without a chain of reciprocals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from repetition import repeated

import featherlane as fl
from featherlane.algorithms.deferred import (
    deferred_factor,
    deferred_forward_dynamics,
    deferred_forward_dynamics_derivatives,
    deferred_inverse,
)
from featherlane.algorithms.factor import factored_inverse
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.reference import evaluate, values
from featherlane.program.analysis.modules import modules_of
from featherlane.program.passes.outline import outline
from featherlane.program.rewrite import simplify
from featherlane.program.trace import trace
from featherlane.robot.tree_of import tree_of
from featherlane.scalar import scale_to_one

ROBOTS = [("hyq", "free"), ("iiwa14", "fixed"), ("atlas", "free"), ("double_pendulum", "fixed")]
robots = pytest.mark.parametrize(("name", "root"), repeated(ROBOTS, 2))


def of_q(model, algorithm):
    tree = tree_of(model)
    return simplify(trace(lambda q: {"Minv": algorithm(tree, q)}, {"q": model.nq}))


def close(x, expected):
    assert_allclose(x, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@robots
def test_the_inverse_of_the_mass_matrix(name, root):
    model = fl.load(name, root=root)
    q = model.random_configuration(5, seed=1)
    graph = of_q(model, deferred_inverse)
    expected = model.mass_matrix_inverse(q)
    close(evaluate(graph, {"q": q})["Minv"], expected)
    close(evaluate(prepared(graph), {"q": q})["Minv"], expected)
    assert modules_of(outline(prepared(graph)))


@robots
def test_forward_dynamics_and_its_derivatives(states, name, root):
    model = fl.load(name, root=root)
    given, tree = states(model, "forward_dynamics", 4), tree_of(model)

    def both(q, v, tau):
        derivatives = deferred_forward_dynamics_derivatives(tree, q, v, tau)
        return {
            "a": deferred_forward_dynamics(tree, q, v, tau),
            **dict(zip("qvt", derivatives, strict=True)),
        }

    sizes = {name: x.shape[-1] for name, x in given.items()}
    found = evaluate(simplify(trace(both, sizes)), given)
    close(found["a"], model.forward_dynamics(**given))
    expected = model.forward_dynamics_derivatives(**given)
    for name, x in zip("qvt", expected, strict=True):
        close(found[name], x)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_branches_that_are_not_numbered_one_after_the_other(seed):
    model = fl.random_tree(7, 1.5, ["revolute", "spherical"], physics=True, seed=seed)
    q = model.random_configuration(5, seed=seed)
    found = deferred_inverse(tree_of(model), [*q.T])
    found = np.array([[x + np.zeros(5) for x in row] for row in found])
    close(np.moveaxis(found, -1, 0), np.linalg.inv(model.mass_matrix(q)))


def divisions(graph):
    """The most divisions in a chain."""
    longest = []
    for op, args in zip(graph.op, graph.args, strict=True):
        longest.append(max((longest[a] for a in args), default=0) + (op == "div"))
    return max(longest)


@pytest.mark.parametrize(("name", "root"), ROBOTS[:2])
def test_no_reciprocal_waits_for_another(name, root):
    model = fl.load(name, root=root)
    assert divisions(of_q(model, deferred_inverse)) == 1
    assert divisions(of_q(model, factored_inverse)) > 4


@pytest.mark.parametrize(("name", "root", "bits"), [("iiwa14", "fixed", 7), ("hyq", "free", 18)])
def test_numbers_grow_by_a_bit_for_each_entry_below(name, root, bits):
    """What is eliminated stays below 2^n times the largest entry of M, for n entries below."""
    model = fl.load(name, root=root)
    q = model.random_configuration(200, seed=0)
    graph = prepared(of_q(model, deferred_inverse))
    known = values(graph, {"q": q})
    largest = np.abs(model.mass_matrix(q)).max()
    pivots = [graph.args[k][0] for k in graph.nodes_of("exponent")]
    assert len(pivots) >= 5
    assert max(np.abs(known[k]).max() for k in pivots) < 2.0**bits * largest


def test_a_singular_matrix_gives_nan():
    tree = tree_of(fl.load("double_pendulum"))
    with np.errstate(divide="ignore"):
        assert np.isnan(deferred_factor(tree, [[1.0, 1.0], [1.0, 1.0]]).Dinv[0])
    assert np.isfinite(deferred_factor(tree, [[2.0, 1.0], [1.0, 1.0]]).Dinv).all()


def test_the_scale_that_normalises_a_number():
    x = np.array([1.0, -3.5, 0.2, 1e-30, 2.0**40])
    scaled = np.abs(x * scale_to_one(x))
    assert ((scaled >= 1) & (scaled < 2)).all()
    function = lambda x: {"y": [scale_to_one(x[0])], "z": [scale_to_one(x[0] * 0 + 5.0)]}
    graph = trace(function, {"x": 1})
    assert_allclose(evaluate(graph, {"x": x[:, None]})["y"][:, 0], scale_to_one(x), rtol=0)
    assert graph.number(graph.outputs["z"].nodes[0]) == 0.25
