"""Derivatives of frames and momentum, regressors of bodies and inertias of frames: against
Pinocchio, differences and NumPy.
"""

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose, assert_array_equal
from repetition import repeated
from test_kinematics import LIKE, close, each_reference, each_twin, twins

import featherlane as fl

H = 1e-6
TREE = textbook.tree(("free", "revolute", "spherical", "prismatic"), (-1, 0, 1, 1), 3, physics=True)


def states(model, batch=4):
    rng = np.random.default_rng(2)
    return model.random_configuration(batch, seed=1), *rng.normal(size=(2, batch, model.nv))


def differences(model, f, q):
    """The derivatives of f(q) by motions in the tangent space, in the last axis."""
    at = lambda motion: f(model.integrate(q, motion))
    ends = [(at(H * e), at(-H * e)) for e in np.eye(model.nv)]
    return np.stack([(high - low) / (2 * H) for high, low in ends], -1)


@each_reference
def test_derivatives_of_frames_are_those_of_their_six_numbers(reference):
    model, frame = TREE, TREE.frame_names[-1]
    q, v, a = states(model)
    of_frame = frame, reference
    found = model.frame_velocity_derivatives(q, v, *of_frame)
    wanted = differences(model, lambda q: model.frame_velocity(q, v, *of_frame), q)
    assert_allclose(found.dvelocity_dq, wanted, atol=1e-7)
    assert_allclose(found.dvelocity_dv, model.jacobian(q, *of_frame), atol=1e-13)
    found = model.frame_acceleration_derivatives(q, v, a, *of_frame)
    move = lambda q, v: model.frame_acceleration(q, v, a, *of_frame)
    wanted = differences(model, lambda q: move(q, v), q)
    assert_allclose(found.dacceleration_dq, wanted, atol=1e-6)
    by_v = [(move(q, v + H * e) - move(q, v - H * e)) / (2 * H) for e in np.eye(model.nv)]
    assert_allclose(found.dacceleration_dv, np.stack(by_v, -1), atol=1e-7)
    assert_allclose(found.dacceleration_da, model.jacobian(q, *of_frame), atol=1e-13)


@pytest.mark.parametrize("reference", repeated(["body", "spatial"]))
@each_twin
def test_derivatives_of_frames_as_in_pinocchio(name, root, reference):
    """But for "world": there, Pinocchio's are not the derivatives of its six numbers."""
    pin, model, peer, theirs, (q, v, a) = twins(name, root)
    where = {"body": pin.LOCAL, "spatial": pin.WORLD}[reference]
    data, frame = peer.createData(), model.frame_names[-1]
    k = peer.getFrameId(frame)
    velocity = model.frame_velocity_derivatives(q, v, frame, reference)
    acceleration = model.frame_acceleration_derivatives(q, v, a, frame, reference)
    for n, x in enumerate(theirs):
        pin.computeForwardKinematicsDerivatives(peer, data, x, v[n], a[n])
        pin.updateFramePlacements(peer, data)
        wanted = [*pin.getFrameVelocityDerivatives(peer, data, k, where)]
        wanted += pin.getFrameAccelerationDerivatives(peer, data, k, where)[1:]
        for x, y in zip((*velocity, *acceleration), wanted, strict=True):
            close(x[n], y, LIKE)


@each_twin
def test_momentum_regressors_and_gravity_as_in_pinocchio(name, root):
    pin, model, peer, theirs, (q, v, a) = twins(name, root)
    frame = model.frame_names[-1]
    Y = model.body_regressor(q, v, a, frame)
    rate, dg = model.centroidal_momentum_rate(q, v, a), model.gravity_torque_derivatives(q)
    dA = model.centroidal_momentum_matrix_time_derivative(q, v)
    for n, x in enumerate(theirs):
        data = peer.createData()
        pin.rnea(peer, data, x, v[n], a[n])
        close(Y[n], pin.frameBodyRegressor(peer, data, peer.getFrameId(frame)), LIKE)
        pin.computeCentroidalMomentumTimeVariation(peer, data, x, v[n], a[n])
        close(rate[n], data.dhg.vector, LIKE)
        pin.dccrba(peer, data, x, v[n])
        close(dA[n], data.dAg, LIKE)
        close(dg[n], pin.computeGeneralizedGravityDerivatives(peer, data, x), LIKE)


def test_momentum_and_gravity_against_differences():
    """Also with spherical joints, springs, and parameters of the robot."""
    q, v, a = states(TREE)
    params = {"mass": 1.5 * TREE.parameters("mass")["mass"]}
    ends = [
        TREE.centroidal_momentum(TREE.integrate(q, h * v), v + h * a, params=params)
        for h in (H, -H)
    ]
    rate = TREE.centroidal_momentum_rate(q, v, a, params=params)
    assert_allclose(rate, (ends[0] - ends[1]) / (2 * H), rtol=1e-6, atol=1e-6)
    dA = TREE.centroidal_momentum_matrix_time_derivative(q, v, params=params)
    A = TREE.centroidal_momentum_matrix(q, params=params)
    assert_allclose(rate, textbook.times(A, a) + textbook.times(dA, v), rtol=1e-11, atol=1e-11)
    springs = TREE.with_physics(stiffness=np.where(np.arange(TREE.nv) == 6, 30.0, 0.0))
    found = springs.gravity_torque_derivatives(q)
    assert_allclose(found, differences(springs, springs.gravity_torque, q), atol=1e-6)


@pytest.mark.parametrize("reference", repeated(["world", "body"]))
def test_the_inertia_of_a_frame_and_its_manipulability(reference):
    model = fl.load("iiwa14")
    q = model.random_configuration(6, seed=0)
    frame = model.frame_names[-1]
    J, Minv = model.jacobian(q, frame, reference), model.mass_matrix_inverse(q)
    mobility = J @ Minv @ J.swapaxes(-1, -2)
    for damping in (0.0, 0.3, np.linspace(0.1, 0.6, 6)):
        shares = np.multiply.outer(np.square(damping), np.eye(6))
        found = model.task_space_inertia(q, frame, reference, damping_factor=damping)
        assert_allclose(found @ (mobility + shares), np.tile(np.eye(6), (6, 1, 1)), atol=1e-9)
        assert_allclose(found, found.swapaxes(-1, -2), rtol=1e-9, atol=1e-9)
    wanted = np.sqrt(np.linalg.det(J @ J.swapaxes(-1, -2)))
    assert_allclose(model.manipulability(q, frame, reference), wanted, rtol=1e-9)
    arm = fl.load("double_pendulum")
    J = arm.jacobian([0.3, 0.4], "link2", reference)
    wanted = np.sqrt(np.linalg.det(J.T @ J))
    assert_allclose(arm.manipulability([0.3, 0.4], "link2", reference), wanted, rtol=1e-12)


def test_a_singular_state_leaves_the_others_alone():
    """At q = 0 the arm is straight, and its hand cannot move along it."""
    model = fl.load("iiwa14")
    q, frame = model.random_configuration(9, seed=0), model.frame_names[-1]
    straight = q.copy()
    straight[4] = 0.0
    alone = model.task_space_inertia(q, frame)
    together = model.task_space_inertia(straight, frame)
    others = np.arange(9) != 4
    assert_array_equal(together[others], alone[others])
    assert not np.abs(together[4]).max() < 1e12
    damped = model.task_space_inertia(straight, frame, damping_factor=0.1)
    assert np.linalg.eigvalsh(damped[4]).max() < 100.0 + 1e-6
    assert_allclose(model.manipulability(straight, frame)[4], 0.0, atol=1e-12)


def test_jacobians_of_functions_in_the_tangent_space():
    model, frame = TREE, TREE.frame_names[-1]
    q, *_ = states(model)
    place = lambda q: model.frame_placement(q, frame)[:3]
    graph = fl.jacobian(place, {"q": model.nq}, tangent=model)
    found = fl.compile(graph)(q)
    assert found.shape == (4, 3, 4, model.nv)
    assert_allclose(
        found,
        differences(model, lambda q: model.frame_placement(q, frame)[..., :3, :], q),
        atol=1e-7,
    )
    energy = fl.gradient(model.potential_energy, {"q": model.nq}, tangent=model, values=True)
    value, gradient = fl.compile(energy)(q)
    assert_allclose(gradient, model.gravity_torque(q), rtol=1e-10, atol=1e-10)
    assert_allclose(value, model.potential_energy(q), rtol=1e-12)
    both = fl.jacobian(
        lambda start, goal, s: s * model.difference(start, goal),
        {"start": model.nq, "goal": model.nq, "s": ()},
        tangent={"start": model, "goal": model},
    )
    by_start, by_goal, by_s = fl.compile(both)(q[0], q[1], 2.0)
    wanted = model.difference_derivatives(q[0], q[1])
    assert_allclose(by_start, 2 * wanted.dv_dq0, atol=1e-9)
    assert_allclose(by_goal, 2 * wanted.dv_dq1, atol=1e-9)
    assert_allclose(by_s, model.difference(q[0], q[1]), atol=1e-12)
    with pytest.raises(ValueError, match=r"q has shape \(3,\): wanted a configuration, \("):
        fl.jacobian(lambda q: q * q, {"q": 3}, tangent=model)
    with pytest.raises(ValueError, match="tangent is of 'q': wanted one of wrt, x"):
        fl.jacobian(lambda x: x * x, {"x": 3}, tangent=model)


def test_several_frames_in_one_call():
    model = fl.load("iiwa14")
    q, v, a = states(model)
    frames = [*model.frame_names[-2:]]
    calls = {
        "frame_velocity_derivatives": (q, v),
        "frame_acceleration_derivatives": (q, v, a),
        "body_regressor": (q, v, a),
        "task_space_inertia": (q,),
        "manipulability": (q,),
    }
    for name, arrays in calls.items():
        each = [getattr(model, name)(*arrays, frame) for frame in (frames, *frames)]
        each = [x if isinstance(x, tuple) else (x,) for x in each]
        for together, *alone in zip(*each, strict=True):
            assert_allclose(together, np.stack(alone, 1), rtol=1e-9, atol=1e-9)
