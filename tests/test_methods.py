"""Algorithms by name, as users ask for them; that they are right is for test_parallel.py."""

from dataclasses import replace

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose
from repetition import full, repeated

import featherlane as fl
from featherlane.functions import kernels as variant_kernels
from featherlane.functions.table import FUNCTIONS
from featherlane.robot.parts import WORLD


@pytest.fixture(scope="module")
def chain():
    return fl.chain(5, 1)


@pytest.fixture(scope="module")
def state():
    return np.random.default_rng(0).normal(size=(3, 7, 5))


@pytest.mark.parametrize("method", FUNCTIONS["inverse_dynamics"].methods)
def test_inverse_dynamics(chain, state, method):
    wanted = chain.inverse_dynamics(*state)
    assert_allclose(chain.inverse_dynamics(*state, method=method), wanted, rtol=0, atol=1e-11)
    found = chain.inverse_dynamics_derivatives(*state, method=method)
    for x, y in zip(found, chain.inverse_dynamics_derivatives(*state), strict=True):
        assert_allclose(x, y, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", repeated([*FUNCTIONS["forward_dynamics"].methods], 3))
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
        ("hyq", lambda m, x: m.forward_dynamics(x, x, x, method="cfa"), "branches; use 'aba', 'js"),
        ("hyq", lambda m, x: m.forward_dynamics(x, x, x, method="crba"), "'crba': wanted one of"),
        ("hyq", lambda m, x: m.inverse_dynamics(x, x, x, method="aba"), "'serial', 'scan'"),
        ("panda", lambda m, x: m.forward_dynamics(x, x, x, method="aba"), "'keep'.*; use 'jsiia'$"),
    ],
)
def test_what_a_method_does_not_take_is_refused(robot, call, told):
    model = fl.load(robot)
    with pytest.raises(ValueError, match=told):
        call(model, np.zeros(model.nv))


@full
@pytest.mark.parametrize("long", repeated([False, True]))
def test_a_ground_that_moves(monkeypatch, long):
    """A robot on a body of no mass that is carried along, without the body."""
    if long:
        monkeypatch.setattr(variant_kernels, "LONG", 1)
    model = fl.chain(6, 2)
    rng = np.random.default_rng(0)
    q, v, a = rng.normal(size=(3, 5, 6))
    base = {name: rng.normal(size=(5, 6)) for name in ("base_velocity", "base_acceleration")}
    still = model.inverse_dynamics(q, v, a)
    wanted = on_a_moving_body(model, q, v, a, **base)
    for method in ("auto", "serial", "scan"):
        tau = model.inverse_dynamics(q, v, a, params=base, method=method)
        assert_allclose(tau, wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())
        assert np.abs(tau - still).max() > 1
    for method in ("auto", "aba", "jsiia", "abia", "cfa", "dca"):
        found = model.forward_dynamics(q, v, wanted, params=base, method=method)
        assert_allclose(found, a, rtol=0, atol=1e-8)
    with pytest.raises(ValueError, match="mass_matrix takes no base_velocity"):
        model.function("mass_matrix", params=("base_velocity",))


def on_a_moving_body(model, q, v, a, base_velocity, base_acceleration):
    """tau of the textbook for the same robot on a free joint of no inertia."""
    root = fl.Joint("root", "free", WORLD)
    moved = [replace(joint, parent=joint.parent + 1) for joint in model.joints]
    bodies = fl.Body("carrier"), *model.bodies
    floating = replace(model, joints=(root, *moved), bodies=bodies, frames=())
    n = len(q)
    place = np.tile([0, 0, 0, 0, 0, 0, 1.0], (n, 1))
    velocity, acceleration = base_velocity.copy(), base_acceleration.copy()
    acceleration[:, :3] -= np.cross(velocity[:, 3:], velocity[:, :3])  # to a spatial one
    state = [np.hstack(x) for x in ((place, q), (velocity, v), (acceleration, a))]
    return textbook.rnea(floating, *state)[:, 6:]


def test_auto_is_a_method_of_functions_and_graphs(chain, state):
    function = chain.function("inverse_dynamics", method="auto")
    assert np.array_equal(function(*state), chain.inverse_dynamics(*state))
    assert chain.graph("forward_dynamics", method="auto").outputs
    with pytest.raises(TypeError, match=r"method is \['scan'\]: wanted a name"):
        chain.inverse_dynamics(*state, method=["scan"])


@full
@pytest.mark.parametrize("n", repeated([20, 60]))
def test_derivatives_by_scans_of_longer_robots(n):
    model = fl.chain(n, 3)
    state = np.random.default_rng(1).normal(size=(3, 2, n))
    found = model.inverse_dynamics_derivatives(*state, method="scan")
    for x, y in zip(found, model.inverse_dynamics_derivatives(*state), strict=True):
        assert_allclose(x, y, rtol=0, atol=1e-11 * np.abs(y).max())
    with pytest.raises(fl.CompileError, match="width is 3"):
        fl.chain(60, 3).function("inverse_dynamics", width=3)
