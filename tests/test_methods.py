"""Algorithms by name, as users ask for them; that they are right is for test_parallel.py."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import featherlane as fl
from featherlane.functions import METHODS


@pytest.fixture(scope="module")
def chain():
    return fl.chain(5, 1)


@pytest.fixture(scope="module")
def state():
    return np.random.default_rng(0).normal(size=(3, 7, 5))


@pytest.mark.parametrize("method", METHODS["inverse_dynamics"])
def test_inverse_dynamics(chain, state, method):
    wanted = chain.inverse_dynamics(*state)
    assert_allclose(chain.inverse_dynamics(*state, method=method), wanted, rtol=0, atol=1e-11)
    found = chain.inverse_dynamics_derivatives(*state, method=method)
    for x, y in zip(found, chain.inverse_dynamics_derivatives(*state), strict=True):
        assert_allclose(x, y, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", METHODS["forward_dynamics"])
def test_forward_dynamics(chain, state, method):
    q, v, a = state
    f_ext = np.random.default_rng(1).normal(size=(7, 5, 6))
    tau = chain.inverse_dynamics(q, v, a, f_ext)
    found = chain.forward_dynamics(q, v, tau, f_ext, method=method)
    assert_allclose(found, a, rtol=0, atol=1e-8)
    assert chain.forward_dynamics(*np.float32([q, v, tau]), method=method).dtype == np.float32


def test_scans_are_less_deep(chain):
    long = fl.chain(32, 1)
    serial = long.graph("inverse_dynamics", method="serial").cost()
    scanned = long.graph("inverse_dynamics", method="scan").cost()
    assert scanned.depth < serial.depth / 3
    assert scanned.operations > serial.operations
    assert long.graph("inverse_dynamics").cost().operations == serial.operations


@pytest.mark.parametrize(
    ("robot", "call", "told"),
    [
        ("hyq", lambda m, x: m.forward_dynamics(x, x, x, method="cfa"), "branches: use 'dca'"),
        ("hyq", lambda m, x: m.forward_dynamics(x, x, x, method="crba"), "'crba': wanted one of"),
        ("hyq", lambda m, x: m.inverse_dynamics(x, x, x, method="aba"), "'serial', 'scan'"),
        ("panda", lambda m, x: m.forward_dynamics(x, x, x, method="aba"), "'jsiia' takes that"),
    ],
)
def test_what_a_method_does_not_take_is_refused(robot, call, told):
    model = fl.load(robot)
    with pytest.raises(ValueError, match=told):
        call(model, np.zeros(model.nv))
