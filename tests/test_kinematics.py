"""Frames, momentum, energies and the terms of the equation of motion, tied to finite differences of
the placement, to identities, and to Pinocchio.
"""

import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose
from repetition import repeated

import featherlane as fl
from featherlane import convert
from featherlane.api.random_robots import random_rotation
from featherlane.functions.table import KINEMATICS, REFERENCES
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.parts import WORLD, Frame, Placement

STEP = 1e-5
LIKE = 1e-9  # Pinocchio keeps the file's rounding of right angles, 5e-12
BATCH = 5
MIXED = ["free", "universal", "spherical", "planar", "helical", "cylindrical", "translation"]


def with_tools(base, seed=3):
    """Frames anywhere: on the last body, on a body of the middle, and on the ground."""
    rng = np.random.default_rng(seed)
    bodies = {"tool": base.nbodies - 1, "elbow": base.nbodies // 2, "table": WORLD}
    frames = tuple(
        Frame(name, body, Placement.of(random_rotation(rng), rng.normal(size=3)))
        for name, body in bodies.items()
    )
    fields = {f.name: getattr(base, f.name) for f in dataclasses.fields(base)}
    return fl.Model(**{**fields, "frames": base.frames + frames})


@functools.cache
def robot(kind):
    if kind == "mixed":  # every other type, with branches
        types, parents = [*MIXED, "revolute", "prismatic"], [-1, 0, 1, 2, 1, 4, 5, 6, 6]
        return with_tools(textbook.tree(types, parents, physics=True))
    if kind == "mimic":
        types = ["revolute", "prismatic", "revolute", "helical", "revolute"]
        mimic = {2: 0, 4: 0, 3: 1}
        return with_tools(textbook.tree(types, [-1, 0, 1, 1, 3], mimic=mimic, physics=True))
    return with_tools(textbook.tree(["revolute", kind, "revolute"]))


@functools.cache
def moving(kind):
    """A robot and states of it: model, q, v, a."""
    model, rng = robot(kind), np.random.default_rng(0)
    q = model.random_configuration(BATCH, seed=1)
    v, a = rng.normal(size=(2, BATCH, model.nv))
    return model, q, v, a


def ahead(model, q, v, a, t):
    """q and v a short time later, to second order."""
    return model.integrate(q, t * v + t * t / 2 * a), v + t * a


def rate(f, model, q, v, a):
    """df/dt along the motion, by central differences."""
    after, before = (f(*ahead(model, q, v, a, t)) for t in (STEP, -STEP))
    return (after - before) / (2 * STEP)


def times(A, x):
    return np.einsum("...ij,...j->...i", A, x)


def axial(W):
    """The vector of a skew-symmetric matrix."""
    return np.stack([W[..., 2, 1], W[..., 0, 2], W[..., 1, 0]], -1)


def motion_of(T, dT, reference):
    """[linear; angular], from a placement and its derivative and nothing else."""
    R, p, dp = T[..., :3, :3], T[..., :3, 3], dT[..., :3, 3]
    w = axial(dT[..., :3, :3] @ np.swapaxes(R, -1, -2))
    if reference == "spatial":
        dp = dp - np.cross(w, p)
    if reference == "body":
        dp, w = times(np.swapaxes(R, -1, -2), dp), times(np.swapaxes(R, -1, -2), w)
    return np.concatenate([dp, w], -1)


def close(x, y, tolerance=1e-10):
    scale = max(1.0, np.abs(y).max())
    np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * scale)


EACH_TYPE = ["mixed", "mimic", *JOINT_TYPES]  # the first has joints of every type
each_type = pytest.mark.parametrize("kind", repeated(EACH_TYPE, 2))
each_reference = pytest.mark.parametrize("reference", repeated([*REFERENCES], 2))
each_robot = pytest.mark.parametrize("kind", repeated(["mimic", "mixed"]))


# Placements, and all that follows from them


@each_type
def test_placements_are_those_of_the_textbook(kind):
    model, q, _, _ = moving(kind)
    for name in ("tool", model.body_names[-1]):
        _, i, place = model.frame(name)
        R, p = textbook.poses(model, q)[i]
        T = model.frame_placement(q, name)
        close(T[..., :3, :3], R @ np.array(place.R))
        close(T[..., :3, 3], p + R @ np.array(place.p))
        assert np.array_equal(T[..., 3, :], np.broadcast_to([0, 0, 0, 1], (BATCH, 4)))


@each_reference
@each_type
def test_jacobian_is_the_slope_of_the_placement(kind, reference):
    model, q, _, _ = moving(kind)
    steps = STEP * np.eye(model.nv)
    at = [model.frame_placement(model.integrate(q[:, None], h), "tool") for h in (steps, -steps)]
    T, slope = model.frame_placement(q, "tool")[:, None], (at[0] - at[1]) / (2 * STEP)
    columns = motion_of(T, slope, reference)
    close(model.jacobian(q, "tool", reference), np.swapaxes(columns, -1, -2), 1e-8)


@each_reference
@each_robot
def test_motion_is_the_rate_of_the_placement(kind, reference):
    model, q, v, a = moving(kind)
    velocity = model.frame_velocity(q, v, "tool", reference)
    place = lambda q, v: model.frame_placement(q, "tool")
    T = model.frame_placement(q, "tool")
    close(velocity, motion_of(T, rate(place, model, q, v, a), reference), 1e-8)
    told = lambda q, v: model.frame_velocity(q, v, "tool", reference)
    close(model.frame_acceleration(q, v, a, "tool", reference), rate(told, model, q, v, a), 1e-8)
    J = lambda q, v: model.jacobian(q, "tool", reference)
    dJ = rate(J, model, q, v, np.zeros_like(a))
    close(model.jacobian_time_derivative(q, v, "tool", reference), dJ, 1e-8)


@each_reference
@each_robot
def test_velocity_and_acceleration_are_those_of_the_jacobian(kind, reference):
    model, q, v, a = moving(kind)
    J = model.jacobian(q, "tool", reference)
    dJ = model.jacobian_time_derivative(q, v, "tool", reference)
    close(model.frame_velocity(q, v, "tool", reference), times(J, v))
    close(model.frame_acceleration(q, v, a, "tool", reference), times(J, a) + times(dJ, v))


def test_an_accelerometer_reads_as_documented():
    """At rest it reads what holds it: 9.81 upwards; hanging from a turning link, w^2 r inwards."""
    model = fl.load("double_pendulum")
    tip, still = model.frame_names[-1], np.zeros(model.nv)
    v = np.array([3.0, 0.0])
    for velocity in (still, v):
        q = model.neutral()
        T = model.frame_placement(q, tip)
        linear = model.frame_acceleration(q, velocity, still, tip, "world")[:3]
        J, p = model.jacobian(q, tip, "world"), T[:3, 3]
        axis = J[3:, 0]
        hinge = model.frame_placement(q, model.body_names[0])[:3, 3]
        arm = (p - hinge) - axis * (axis @ (p - hinge))
        close(linear, -(velocity[0] ** 2) * arm)
        reading = T[:3, :3].T @ (linear - np.array(model.gravity))
        close(T[:3, :3] @ reading, [0, 0, 9.81] - velocity[0] ** 2 * arm)


@each_reference
def test_the_ground_stays_where_it_is(reference):
    model, q, v, a = moving("mixed")
    place = model.frame("table").placement
    T = model.frame_placement(q, "table")
    close(T[..., :3, :3], np.broadcast_to(place.R, (BATCH, 3, 3)))
    close(T[..., :3, 3], np.broadcast_to(place.p, (BATCH, 3)))
    close(model.frame_placement(q[0], "table"), T[0])
    for moved in (
        model.jacobian(q, "table", reference),
        model.jacobian_time_derivative(q, v, "table", reference),
        model.frame_velocity(q, v, "table", reference),
        model.frame_acceleration(q, v, a, "table", reference),
    ):
        assert not moved.any()


def test_only_the_way_to_the_frame_is_computed():
    model = robot("mixed")
    near, far = (
        model.graph("jacobian", frame=f, reference="world").cost().operations
        for f in ("body0", "tool")
    )
    assert near < 100 < 600 < far
    branch = model.jacobian(model.neutral(), "body8")
    assert branch[:, model.dofs[8]].any()
    assert not branch[:, model.dofs[7]].any()


# The robot as a whole


@each_robot
def test_center_of_mass(kind):
    model, q, v, _ = moving(kind)
    c = sum(
        body.mass * (p + R @ np.array(body.com))
        for body, (R, p) in zip(model.bodies, textbook.poses(model, q), strict=True)
    )
    close(model.center_of_mass(q), c / model.mass)
    still = np.zeros_like(v)
    velocity = rate(lambda q, v: model.center_of_mass(q), model, q, v, still)
    close(times(model.center_of_mass_jacobian(q), v), velocity, 1e-8)


@each_robot
def test_momentum_is_that_of_the_bodies(kind):
    model, q, v, _ = moving(kind)
    total, c = 0.0, model.center_of_mass(q)
    motions = textbook.velocities(model, q, v)
    for body, (R, p), motion in zip(model.bodies, textbook.poses(model, q), motions, strict=True):
        n, f = np.split(times(textbook.spatial_inertia(body), motion), 2, axis=-1)
        n, f = times(R, n), times(R, f)
        total = total + np.concatenate([f, n + np.cross(p - c, f)], -1)
    close(model.centroidal_momentum(q, v), total)
    close(times(model.centroidal_momentum_matrix(q), v), total)
    close(model.mass * times(model.center_of_mass_jacobian(q), v), total[..., :3])


def test_momentum_of_a_free_robot_is_conserved():
    """About the centre of mass it does not change whatever the joints do; linear by gravity."""
    model, q, v, _ = moving("mixed")
    tau = np.random.default_rng(2).normal(size=v.shape)
    tau[..., :6] = 0.0
    loose = [dataclasses.replace(model.joints[0], armature=(), damping=(), friction=())]
    model = dataclasses.replace(model, joints=(*loose, *model.joints[1:]))
    a = model.forward_dynamics(q, v, tau)
    change = rate(model.centroidal_momentum, model, q, v, a)
    weight = model.mass * np.array(model.gravity)
    close(change, np.broadcast_to([*weight, 0, 0, 0], change.shape), 1e-7)


@each_robot
def test_energies(kind):
    model, q, v, a = moving(kind)
    T = model.kinetic_energy(q, v)
    close(T, 0.5 * np.einsum("bi,bij,bj->b", v, model.mass_matrix(q), v))
    V = model.potential_energy(q)
    close(V, -model.mass * model.center_of_mass(q) @ np.array(model.gravity))
    power = np.sum(model.inverse_dynamics(q, v, a) * v, -1)
    lost = v * textbook.resistance(model, v)
    energy = lambda q, v: model.kinetic_energy(q, v) + model.potential_energy(q)
    close(rate(energy, model, q, v, a), power - lost.sum(-1), 1e-7)


@each_type
def test_gravity_is_the_gradient_of_the_potential(kind):
    model, q, v, _ = moving(kind)
    steps = STEP * np.eye(model.nv)
    V = [model.potential_energy(model.integrate(q[:, None], h)) for h in (steps, -steps)]
    close(model.gravity_torque(q), (V[0] - V[1]) / (2 * STEP), 1e-8)
    close(model.gravity_torque(q), model.inverse_dynamics(q, 0 * v, 0 * v))


@each_type
def test_coriolis_matrix(kind):
    model, q, v, _ = moving(kind)
    C = model.coriolis_matrix(q, v)
    dM = rate(lambda q, v: model.mass_matrix(q), model, q, v, 0 * v)
    close(C + np.swapaxes(C, -1, -2), dM, 1e-7)
    resists = textbook.resistance(model, v)
    bias = model.bias_force(q, v)
    close(times(C, v) + model.gravity_torque(q) + resists, bias)
    close(bias, model.inverse_dynamics(q, v, 0 * v))


@pytest.mark.parametrize("kind", ["revolute", "helical", "mimic"])
def test_coriolis_matrix_is_that_of_christoffel(kind):
    """Where v is the rate of q: C_ij = sum_k (dM_ij/dq_k + dM_ik/dq_j - dM_jk/dq_i) v_k / 2."""
    model, q, v, _ = moving(kind)
    steps = STEP * np.eye(model.nv)
    M = [model.mass_matrix(q[:, None] + h) for h in (steps, -steps)]
    slope = (M[0] - M[1]) / (2 * STEP)  # [k, i, j]
    symbols = np.einsum("bkij->bijk", slope) + np.einsum("bjik->bijk", slope) - slope
    close(model.coriolis_matrix(q, v), times(symbols, v[:, None]) / 2, 1e-7)


# Wrenches at frames


def some_wrenches(batch=(BATCH,)):
    rng = np.random.default_rng(7)
    return {name: rng.normal(size=(*batch, 6)) for name in ("tool", "elbow", "table", "body1")}


def through_jacobians(model, q, wrenches, axes):
    return sum(
        times(np.swapaxes(model.jacobian(q, name, axes), -1, -2), wrench)
        for name, wrench in wrenches.items()
    )


@pytest.mark.parametrize("axes", repeated(["world", "body"]))
@pytest.mark.parametrize("kind", repeated(["mimic", "free"]))
def test_wrenches_at_frames_are_felt_through_the_jacobian(kind, axes):
    model, q, v, a = moving(kind)
    pushes = some_wrenches()
    felt = through_jacobians(model, q, pushes, axes)
    tau = model.inverse_dynamics(q, v, a)
    close(tau - model.inverse_dynamics(q, v, a, pushes, f_ext_frame=axes), felt)
    close(model.forward_dynamics(q, v, tau - felt, pushes, f_ext_frame=axes), a, 1e-9)
    close(model.bias_force(q, v) - model.bias_force(q, v, pushes, f_ext_frame=axes), felt)


@pytest.mark.parametrize("axes", ["body", "world"])
def test_a_dense_wrench_is_one_at_a_body(axes):
    model, q, v, a = moving("mixed")
    dense = np.random.default_rng(4).normal(size=(BATCH, model.nbodies, 6))
    named = {f"body{i}": dense[:, i] for i in range(model.nbodies)}
    wanted = model.inverse_dynamics(q, v, a, dense, f_ext_frame=axes)
    close(model.inverse_dynamics(q, v, a, named, f_ext_frame=axes), wanted)


@pytest.mark.parametrize(("kind", "axes"), repeated([("mimic", "body"), ("free", "world")]))
def test_derivatives_hold_wrenches_at_frames_as_they_were_given(kind, axes):
    model, q, v, a = moving(kind)
    pushes = some_wrenches(())
    given = {"f_ext": pushes, "f_ext_frame": axes}
    steps = STEP * np.eye(model.nv)
    slow = lambda f, x: np.swapaxes(
        np.subtract(*[f(model.integrate(q[:, None], h), x[:, None]) for h in (steps, -steps)])
        / (2 * STEP),
        -1,
        -2,
    )
    d = model.inverse_dynamics_derivatives(q, v, a, **given)
    close(d.dtau_dq, slow(lambda q, a: model.inverse_dynamics(q, v[:, None], a, **given), a), 1e-7)
    tau = model.inverse_dynamics(q, v, a, **given)
    d = model.forward_dynamics_derivatives(q, v, tau, **given)
    f = lambda q, tau: model.forward_dynamics(q, v[:, None], tau, **given)
    close(d.da_dq, slow(f, tau), 1e-6)
    minv = model.mass_matrix_inverse(q)
    out = tuple(np.empty_like(x) for x in d)
    again = model.forward_dynamics_derivatives(q, v, a=a, minv=minv, out=out, **given)
    assert again.da_dq is out[0]
    close(again.da_dq, d.da_dq, 1e-9)
    close(again.da_dv, d.da_dv, 1e-9)


def test_wrenches_at_frames_that_do_not_fit():
    model, q, v, a = moving("mixed")
    with pytest.raises(ValueError, match=r"no frame 'toll'.*tool"):
        model.inverse_dynamics(q, v, a, {"toll": np.zeros(6)})
    with pytest.raises(ValueError, match=r"f_ext\['tool'\] has shape \(3,\), wanted \(..., 6\)"):
        model.inverse_dynamics(q, v, a, {"tool": np.zeros(3)})
    with pytest.raises(TypeError, match=r"is float32 but q is float64"):
        model.inverse_dynamics(q, v, a, {"tool": np.zeros(6, np.float32)})
    with pytest.raises(ValueError, match="f_ext_frame is 'spatial'"):
        model.bias_force(q, v, {"tool": np.zeros(6)}, f_ext_frame="spatial")


# As all functions: batches, dtypes, out, threads, parameters


def call(model, name, q, v, a, **options):
    states = {"q": q, "v": v, "a": a}
    takes = KINEMATICS[name].takes
    frame = ({"frame": "tool"} if "frame" in takes else {}) | (
        {"reference": "world"} if "reference" in takes else {}
    )
    return getattr(model, name)(*[states[k] for k in KINEMATICS[name].inputs], **frame, **options)


@pytest.mark.parametrize("name", repeated([*KINEMATICS], 7))
def test_batches_and_single_states(name):
    """A state has the same bits alone, in a batch, spread over threads, and in `out`."""
    model, q, v, a = moving("mimic")
    batch = call(model, name, q, v, a)
    for i in range(BATCH):
        for _ in range(2):  # the second time without detours
            alone = call(model, name, q[i], v[i], a[i])
            assert alone.shape == batch.shape[1:]
            assert np.array_equal(alone, batch[i])
    out = np.empty_like(batch)
    assert call(model, name, q, v, a, out=out, threads=2) is out
    assert np.array_equal(out, batch)
    square = call(model, name, q[:, None], v[None], a[None])
    assert square.shape == (BATCH, BATCH if "v" in KINEMATICS[name].inputs else 1, *batch.shape[1:])
    diagonal = square[range(BATCH), range(BATCH) if "v" in KINEMATICS[name].inputs else 0]
    assert np.array_equal(diagonal, batch)


@pytest.mark.parametrize("name", repeated([*KINEMATICS], 7))
def test_single_precision(name):
    model, *state = moving("mimic")
    exact = call(model, name, *state)
    single = call(model, name, *[x.astype(np.float32) for x in state])
    assert single.dtype == np.float32
    close(single, exact, 1e-5)


@pytest.mark.parametrize("name", repeated([*KINEMATICS], 5))
def test_parameters_at_run_time(name):
    """Those of another robot, and the result is the other robot's."""
    model, *state = moving("revolute")
    other = dataclasses.replace(
        model,
        gravity=(1.0, 2.0, -3.0),
        bodies=tuple(
            dataclasses.replace(b, mass=2 * b.mass, com=b.com[::-1]) for b in model.bodies
        ),
        joints=tuple(
            dataclasses.replace(j, placement=Placement(j.placement.R, j.placement.p[::-1]))
            for j in model.joints
        ),
    )
    params = {
        "mass": np.array([b.mass for b in other.bodies]),
        "com": np.array([b.com for b in other.bodies]),
        "gravity": np.array(other.gravity),
        "position": np.array([j.placement.p for j in other.joints]),
    }
    wanted = call(other, name, *state)
    close(call(model, name, *state, params=params), wanted)
    assert np.abs(call(model, name, *state) - wanted).max() > 1e-3


def test_wrenches_at_frames_that_parameters_move():
    model, q, v, a = moving("free")
    params = {"position": np.array([j.placement.p[::-1] for j in model.joints])}
    pushes = some_wrenches()
    felt = sum(
        times(np.swapaxes(model.jacobian(q, name, "world", params=params), -1, -2), wrench)
        for name, wrench in pushes.items()
    )
    free = model.inverse_dynamics(q, v, a, params=params)
    pushed = model.inverse_dynamics(q, v, a, pushes, f_ext_frame="world", params=params)
    close(free - pushed, felt)


def test_unknown_frames_and_references():
    model, q, v, _ = moving("mixed")
    with pytest.raises(ValueError, match=r"there is no frame 'tol'.*tool"):
        model.jacobian(q, "tol")
    with pytest.raises(ValueError) as error:
        model.frame_velocity(q, v, "tool", "local")
    told = ["'body'", "'world'", "'spatial'", "LOCAL in", "LOCAL_WORLD_ALIGNED)", "WORLD)"]
    assert [text for text in told if text not in str(error.value)] == []
    with pytest.raises(ValueError, match="q has shape"):
        model.frame_placement(q[:, 1:], "tool")


def test_a_robot_without_mass_has_no_centre():
    model = robot("mixed")
    bodies = tuple(
        dataclasses.replace(b, mass=0.0, com=(0.0,) * 3, inertia=((0.0,) * 3,) * 3)
        for b in model.bodies
    )
    with pytest.raises(ValueError, match="no moving mass"):
        dataclasses.replace(model, bodies=bodies).center_of_mass(model.neutral())


# Against Pinocchio


@functools.cache
def twins(name, root):
    """A bundled robot here and in Pinocchio, and states of both."""
    pin = pytest.importorskip("pinocchio")
    model = fl.load(name, root=root)
    kinds = {"fixed": (), "free": (pin.JointModelFreeFlyer,)}
    text = (Path(fl.__file__).parent / "robot/bundled" / f"{name}.urdf").read_text()
    peer = pin.buildModelFromXML(text, *[kind() for kind in kinds[root]])
    rng = np.random.default_rng(5)
    q = model.random_configuration(3, seed=5)
    v, a = rng.normal(size=(2, 3, model.nv))
    change = convert.pinocchio(model, peer)
    order = change.order.tolist()
    assert order == list(range(model.nv)), "the tests below read v in one order"
    return pin, model, peer, change.to_q(q), (q, v, a)


each_twin = pytest.mark.parametrize(
    ("name", "root"), repeated([("hyq", "free"), ("iiwa14", "fixed")])
)


@each_reference
@each_twin
def test_frames_as_in_pinocchio(name, root, reference):
    pin, model, peer, theirs, (q, v, a) = twins(name, root)
    names = {"body": pin.LOCAL, "world": pin.LOCAL_WORLD_ALIGNED, "spatial": pin.WORLD}
    data, where = peer.createData(), names[reference]
    frame = model.frame_names[-1]
    k = peer.getFrameId(frame)
    T, J = model.frame_placement(q, frame), model.jacobian(q, frame, reference)
    dJ = model.jacobian_time_derivative(q, v, frame, reference)
    velocity = model.frame_velocity(q, v, frame, reference)
    acceleration = model.frame_acceleration(q, v, a, frame, reference)
    for n, x in enumerate(theirs):
        pin.computeJointJacobiansTimeVariation(peer, data, x, v[n])
        pin.forwardKinematics(peer, data, x, v[n], a[n])
        pin.updateFramePlacements(peer, data)
        close(T[n], data.oMf[k].homogeneous, LIKE)
        close(J[n], pin.getFrameJacobian(peer, data, k, where), LIKE)
        close(dJ[n], pin.getFrameJacobianTimeVariation(peer, data, k, where), LIKE)
        close(velocity[n], pin.getFrameVelocity(peer, data, k, where).vector, LIKE)
        classical = reference == "world"
        get = pin.getFrameClassicalAcceleration if classical else pin.getFrameAcceleration
        close(acceleration[n], get(peer, data, k, where).vector, LIKE)


@each_twin
def test_the_whole_robot_as_in_pinocchio(name, root):
    pin, model, peer, theirs, (q, v, _) = twins(name, root)
    for n, x in enumerate(theirs):
        data, now = peer.createData(), (q[n], v[n])
        close(model.center_of_mass(q[n]), pin.centerOfMass(peer, data, x), LIKE)
        close(model.center_of_mass_jacobian(q[n]), pin.jacobianCenterOfMass(peer, data, x), LIKE)
        close(model.centroidal_momentum_matrix(q[n]), pin.ccrba(peer, data, x, v[n]), LIKE)
        close(model.centroidal_momentum(*now), data.hg.vector, LIKE)
        close(model.kinetic_energy(*now), pin.computeKineticEnergy(peer, data, x, v[n]), LIKE)
        close(model.potential_energy(q[n]), pin.computePotentialEnergy(peer, data, x), LIKE)
        close(model.gravity_torque(q[n]), pin.computeGeneralizedGravity(peer, data, x), LIKE)
        C = pin.computeCoriolisMatrix(peer, data, x, v[n])
        close(model.coriolis_matrix(*now) @ v[n], C @ v[n], LIKE)


# Several frames at once


def test_several_frames_are_those_of_single_calls():
    model = fl.load("hyq", root="free")
    frames = ["rf_lowerleg", "base_link_0", "lf_upperleg", "rf_lowerleg"]
    v, a = np.random.default_rng(0).normal(size=(2, 4, model.nv))
    q = model.random_configuration(4, seed=0)
    calls = {
        "frame_velocity": (q, v),
        "frame_acceleration": (q, v, a),
        "jacobian": (q,),
        "jacobian_time_derivative": (q, v),
    }
    for name, arrays in calls.items():
        for reference in ("body", "world", "spatial"):
            found = getattr(model, name)(*arrays, frames, reference)
            single = [getattr(model, name)(*arrays, frame, reference) for frame in frames]
            assert_allclose(found, np.stack(single, 1), rtol=0, atol=1e-12)
    every = model.frame_placement(q, model.frame_names)
    wanted = [model.frame_placement(q, frame) for frame in model.frame_names]
    assert_allclose(every, np.stack(wanted, 1), rtol=0, atol=1e-12)
    assert model.frame_placement(q, ["base_link_0"]).shape == (4, 1, 4, 4)
    out = np.empty((4, 4, 6, model.nv))
    assert model.jacobian(q, frames, out=out) is out


def test_several_frames_in_traces_and_by_name():
    model = fl.load("iiwa14")
    frames = list(model.frame_names[-3:])
    q = model.random_configuration(5, seed=0)
    wanted = model.jacobian(q, frames, "world")
    traced = fl.compile(lambda q: model.jacobian(q, frames, "world"), {"q": 7})
    assert_allclose(traced(q), wanted, rtol=0, atol=1e-14)
    called = fl.compile(
        lambda q: fl.call(model, "jacobian", q, frame=frames, reference="world"), {"q": 7}
    )
    assert_allclose(called(q), wanted, rtol=0, atol=1e-14)
    function = model.function("jacobian", frame=frames, reference="world")
    assert function.outputs == {"J": (3, 6, 7)}
    alone = [model.graph("jacobian", frame=frame, reference="world") for frame in frames]
    together = model.graph("jacobian", frame=frames, reference="world")
    assert together.cost().operations < sum(graph.cost().operations for graph in alone)


def test_frames_that_are_none():
    model = fl.load("double_pendulum")
    with pytest.raises(ValueError, match="no frame 'link3'"):
        model.jacobian(np.zeros(2), ["link2", "link3"])
    with pytest.raises(ValueError, match="wanted the name of a frame"):
        model.jacobian(np.zeros(2), [])
