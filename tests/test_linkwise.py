"""Loops over links: the steps of RNEA and ABA, compiled once for robots of any length."""

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose

import featherlane as fl
from featherlane import compiled, linkwise

SINGLE = ("revolute", "prismatic", "helical", "universal")
TREES = {
    "chain": fl.chain(30, 1),
    "tree": fl.random_tree(20, 1.7, SINGLE, seed=2, roots=2, physics=True),
    "alike": fl.chain(9, 3, ("prismatic",)),
    "one": fl.chain(1, 3),
}


@pytest.fixture(autouse=True)
def every_robot_is_long(monkeypatch):
    monkeypatch.setattr(compiled, "LONG", 1)


@pytest.fixture(params=TREES)
def model(request):
    fresh = TREES[request.param]
    return fl.Model(**fresh._fields())  # without the functions of other tests


def sample(model, batch, dtype=np.float64):
    rng = np.random.default_rng(0)
    q = model.random_configuration(batch, seed=rng)
    return [x.astype(dtype) for x in (q, *rng.normal(size=(3, *q.shape[:-1], model.nv)))]


@pytest.mark.parametrize("batch", [1, 8, 21])
def test_loops_are_the_textbook(model, batch):
    q, v, a, _ = sample(model, batch)
    tau = model.inverse_dynamics(q, v, a)
    assert isinstance(model.function("inverse_dynamics").ufunc(float), linkwise.LinkFunction)
    wanted = textbook.rnea(model, q, v, a)
    assert_allclose(tau, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    found = model.forward_dynamics(q, v, tau)
    tolerance = 1e-13 * np.linalg.cond(textbook.mass_matrix(model, q)).max()
    assert_allclose(found, a, rtol=0, atol=max(tolerance, 1e-12) * np.abs(a).max())


def test_states_do_not_depend_on_their_place(model):
    q, v, a, _ = sample(model, 37)
    tau = model.inverse_dynamics(q, v, a)
    assert np.array_equal(model.inverse_dynamics(q[5], v[5], a[5]), tau[5])
    assert np.array_equal(model.inverse_dynamics(q[30:], v[30:], a[30:], threads=2), tau[30:])
    out = np.empty((model.nv, 37)).T  # not contiguous
    assert model.inverse_dynamics(q, v, a, out=out) is out
    assert np.array_equal(out, tau)
    still = model.inverse_dynamics(q[:, None], v[:2], a[0])
    assert still.shape == (37, 2, model.nv)
    assert np.array_equal(still[4, 1], model.inverse_dynamics(q[4], v[1], a[0]))
    assert model.inverse_dynamics(q[:0], v[:0], a[:0]).shape == (0, model.nv)


def test_parts_of_a_batch_are_its_states(model, monkeypatch):
    q, v, a, _ = sample(model, 40)
    tau = model.inverse_dynamics(q, v, a)
    monkeypatch.setattr(linkwise, "WORKING", 1)
    other = fl.Model(**model._fields())
    assert np.array_equal(other.inverse_dynamics(q, v, a), tau)


def test_in_float32(model):
    q, v, a, _ = sample(model, 20, np.float32)
    tau = model.inverse_dynamics(q, v, a)
    assert tau.dtype == np.float32
    wanted = textbook.rnea(model, *(x.astype(float) for x in (q, v, a)))
    assert_allclose(tau, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_wrong_shapes_are_refused(model):
    q, _, a, _ = sample(model, 3)
    with pytest.raises(ValueError, match="v has shape"):
        model.inverse_dynamics(q, np.zeros((3, model.nv + 1)), a)


def test_what_has_no_single_steps_is_one_piece_of_code():
    model = textbook.tree(("spherical", "revolute"), seed=1)
    assert "spherical" in linkwise.refusal(model.tree)
    q, v, a, _ = sample(model, 3)
    assert_allclose(model.inverse_dynamics(q, v, a), textbook.rnea(model, q, v, a), atol=1e-10)
    shared = textbook.tree(("revolute",) * 3, seed=1, mimic={2: 0})
    assert "coordinates" in linkwise.refusal(shared.tree)


def test_two_thousand_links(monkeypatch):
    monkeypatch.undo()
    model = fl.chain(2000, 1)
    rng = np.random.default_rng(0)
    q, v, a = 0.01 * rng.normal(size=(3, 8, 2000))
    tau = model.inverse_dynamics(q, v, a)
    back = model.inverse_dynamics(q, v, model.forward_dynamics(q, v, tau))
    assert_allclose(back, tau, rtol=0, atol=1e-7 * np.abs(tau).max())
