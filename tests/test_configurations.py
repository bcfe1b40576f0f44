"""Configurations: integrate and difference as functions, their derivatives, random velocities."""

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose, assert_array_equal
from repetition import repeated

import featherlane as fl
from featherlane.backends import dual
from featherlane.robot import exponential
from featherlane.robot.joints import JOINT_TYPES

CURVED = ("free", "spherical", "planar")
ANGLES = (0.0, 1e-300, 1e-9, 1e-3, 0.999, 1.001, 2.0, 3.1, np.pi)


def moves(model, angle, batch=20):
    """Configurations, and velocities whose rotations have this angle."""
    rng = np.random.default_rng(0)
    q, v = model.random_configuration(batch, seed=rng), rng.normal(size=(batch, model.nv))
    for kind, k in zip(model.types, model.first_v, strict=True):
        if kind.name == "planar":
            v[:, k + 2] = angle * np.sign(v[:, k + 2])
        elif kind.name in CURVED:
            own = v[:, k + kind.nv - 3 : k + kind.nv]
            own *= angle / np.linalg.norm(own, axis=-1, keepdims=True)
    return q, v


def pushed(model, name, values, names, directions):
    """A function of configurations and how it changes, by dual numbers, in tangent spaces."""
    rates = {}
    for key, d in zip(names, directions, strict=True):
        is_velocity = key == "v"
        N = None if is_velocity else textbook.tangent(model, values[key])
        rates[key] = d if is_velocity else textbook.times(N, d)
    value, rate = dual.evaluate(model.graph(name), values, rates)
    (output,) = value
    value, rate = value[output], rate[output]
    if output == "v":
        return value, rate
    return value, textbook.times(np.linalg.pinv(textbook.tangent(model, value)), rate)


@pytest.mark.parametrize("kind", JOINT_TYPES)
@pytest.mark.parametrize("angle", ANGLES)
def test_derivatives_of_integrate(kind, angle):
    model = textbook.tree((kind,))
    q, v = moves(model, angle)
    d = np.random.default_rng(1).normal(size=(2, *v.shape))
    value, wanted = pushed(model, "integrate", {"q": q, "v": v}, "qv", d)
    assert_allclose(model.integrate(q, v), value, atol=1e-15)
    J = model.integrate_derivatives(q, v)
    found = sum(textbook.times(x, y) for x, y in zip(J, d, strict=True))
    assert_allclose(found, wanted, atol=2e-13)
    assert np.isfinite(J).all()


@pytest.mark.parametrize("kind", JOINT_TYPES)
@pytest.mark.parametrize("angle", ANGLES)
def test_derivatives_of_difference_undo_those_of_integrate(kind, angle):
    """d(difference(q0, integrate(q0, v))) = dv, whatever moves."""
    model = textbook.tree((kind,))
    q, v = moves(model, min(angle, np.pi - 1e-3))
    q1 = model.integrate(q, v)
    by_q, by_v = model.integrate_derivatives(q, v)
    by_q0, by_q1 = model.difference_derivatives(q, q1)
    identity = np.broadcast_to(np.eye(model.nv), by_v.shape)
    assert_allclose(by_q1 @ by_v, identity, atol=1e-12)
    assert_allclose(by_q0 + by_q1 @ by_q, 0 * identity, atol=1e-12)
    at_pi = model.difference_derivatives(q, model.integrate(q, moves(model, np.pi)[1]))
    assert np.isfinite(at_pi).all()


@pytest.mark.parametrize("kind", CURVED)
def test_derivatives_of_difference(kind):
    model = textbook.tree((kind,))
    q0, q1 = (model.random_configuration(50, seed=seed) for seed in (1, 2))
    d = np.random.default_rng(1).normal(size=(2, 50, model.nv))
    _, wanted = pushed(model, "difference", {"q0": q0, "q1": q1}, ("q0", "q1"), d)
    J = model.difference_derivatives(q0, q1)
    found = sum(textbook.times(x, y) for x, y in zip(J, d, strict=True))
    assert_allclose(found, wanted, atol=1e-11 * np.abs(wanted).max())


def test_pinocchio_has_the_same_derivatives():
    pin = pytest.importorskip("pinocchio")
    model = textbook.tree(("free",))
    q, v = moves(model, 1.2, 3)
    peer = pin.Model()
    peer.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root")
    for k in range(3):
        J = model.integrate_derivatives(q[k], v[k])
        for own, theirs in zip(J, pin.dIntegrate(peer, q[k], v[k]), strict=True):
            assert_allclose(own, theirs, atol=1e-12)
        q1 = model.integrate(q[k], v[k])
        J = model.difference_derivatives(q[k], q1)
        for own, theirs in zip(J, pin.dDifference(peer, q[k], q1), strict=True):
            assert_allclose(own, theirs, atol=1e-12)


def test_series_and_closed_forms_meet():
    """Each coefficient, on both sides of where series end, beside sums of many terms."""
    from math import factorial

    for name, first in (
        ("sinc", 1),
        ("versine", 2),
        ("cubic", 3),
        ("_quartic", 4),
        ("_quintic", 5),
    ):
        for x2 in (0.0, 1e-20, 0.5, 1 - 1e-9, 1 + 1e-9, 2.0, 9.0):
            wanted = sum((-1) ** n * x2**n / factorial(2 * n + first) for n in range(40))
            assert getattr(exponential, name)(x2) == pytest.approx(wanted, rel=2e-14)


def test_interpolation():
    model = textbook.tree(("free", "planar", "spherical"))
    q0, q1 = (model.random_configuration(10, seed=seed) for seed in (1, 2))
    ends = model.interpolate(q0, q1, np.array([[0.0], [1.0]]))
    for end, q in zip(ends, (q0, q1), strict=True):
        assert_allclose(model.difference(end, q), 0, atol=1e-14)
    half = model.interpolate(q0, q1, 0.5)
    assert_allclose(model.difference(q0, half), model.difference(half, q1), atol=1e-14)


@pytest.mark.parametrize("dtype", repeated([np.float32, np.float64], 2))
def test_they_are_functions_like_all_others(dtype):
    model = fl.load("atlas", root="free")
    q = model.random_configuration(300, seed=0).astype(dtype)
    v = 0.5 * np.random.default_rng(0).normal(size=(300, model.nv)).astype(dtype)
    q1 = model.integrate(q, v)
    assert q1.dtype == dtype
    out = np.empty_like(q1)
    assert model.integrate(q, v, out=out, threads=3) is out
    assert_array_equal(out, q1)
    assert_array_equal(model.integrate(q[7], v[7]), q1[7])
    eps = np.finfo(dtype).eps
    assert_allclose(np.linalg.norm(q1[:, 3:7], axis=-1), 1, atol=4 * eps)
    assert_allclose(model.difference(q, q1), v, atol=100 * eps)


def test_random_velocities_are_within_the_limits():
    model = fl.load("iiwa14")
    v = model.random_velocity((1000,), seed=0)
    limits = np.array([joint.velocity for joint in model.joints])
    assert (np.abs(v) <= limits).all()
    assert (np.abs(v).max(0) > 0.98 * limits).all()
    assert np.abs(textbook.tree(("free",)).random_velocity(100, seed=0)).max() <= 1
    assert model.random_velocity(dtype=np.float32).dtype == np.float32
    with pytest.raises(TypeError, match="float32 or float64"):
        model.random_velocity(dtype=int)
