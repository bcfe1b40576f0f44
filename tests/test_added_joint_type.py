"""A joint type is one row of a table: a type that the package does not have is added by its row
alone and works everywhere. It is a lead screw, a helical joint whose coordinate is the advance in
metres: the same robot with helical joints, at q / lead, is the oracle.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_c import HOSTS, checked
from test_every_backend import BACKENDS, BATCH, same_bits

import featherlane as fl
from featherlane import scalar
from featherlane.api.browser import facts
from featherlane.api.card import card
from featherlane.backends import reference
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.program.lower import lower
from featherlane.robot import joints
from featherlane.robot.group_coordinates import rotation_about_z
from featherlane.robot.joint_type import ANGLE, LENGTH, JointType
from featherlane.robot.loaders.roots import checked_root
from featherlane.robot.parts import Joint
from featherlane.robot.quaternions import quaternion_rotation
from featherlane.robot.reversal import MIRRORED, OTHER_AXIS
from featherlane.robot.spatial import Transform, Vector

NAME = "lead_screw"
DT, STEP = 1e-3, 1e-6


def lead_screw(lead):
    """Turns by q / lead while it advances by q, in metres."""
    turn = 1 / lead
    return JointType(
        name=NAME,
        description="a screw along its axis, in metres of advance",
        units=LENGTH,
        neutral=(0.0,),
        S=(joints.TURN * turn + joints.SLIDE,),
        transform=lambda q: Transform(rotation_about_z(turn * q[0]), Vector((0.0, 0.0, q[0]))),
        of_pitch=lead_screw,
    )


@pytest.fixture(autouse=True)
def _added(monkeypatch):
    monkeypatch.setitem(joints.JOINT_TYPES, NAME, lead_screw(1.0))


def robot(root=NAME):
    """A free or a screwed root, three lead screws behind it, and a spherical joint."""
    model = fl.random_tree(5, 1.5, (NAME,), physics=True, seed=11)
    branch = fl.random_tree(5, 1.5, ("spherical",), physics=True, seed=11).joints[2]
    changed = [replace(joint, friction=(), lower=(-0.2,), upper=(0.3,)) for joint in model.joints]
    changed[2] = replace(branch, friction=())
    if root == "free":
        changed[0] = Joint("joint0", "free", -1)
    return replace(model, joints=tuple(changed), root=root)


def oracle(model):
    """The robot with helical joints, dq of these by dq of the model, and the same for v."""
    changed, by_q, by_v = [], np.ones(model.nq), np.ones(model.nv)
    for i, joint in enumerate(model.joints):
        if joint.type == NAME:
            p = joint.pitch
            by_q[model.first_q[i]] = by_v[model.first_v[i]] = 1 / p
            physics = {
                x: tuple(np.array(getattr(joint, x)) * p * p) for x in ("armature", "damping")
            }
            joint = replace(joint, type="helical", lower=(), upper=(), **physics)
        changed.append(joint)
    return replace(model, joints=tuple(changed)), by_q, by_v


def states(model, count=3, seed=0):
    rng = np.random.default_rng(seed)
    q = model.random_configuration(count, seed=rng)
    return q, *(rng.normal(size=(count, model.nv)) for _ in range(2))


def close(x, wanted, relative=1e-9):
    assert_allclose(x, wanted, rtol=0, atol=relative * np.abs(wanted).max())


def slopes(function, q, v, x, model):
    """Returns d function / dq and d function / dv (nv, nv) at one state by central differences."""
    steps = STEP * np.eye(model.nv)
    ends = [model.integrate(q, steps), model.integrate(q, -steps)]
    same = np.broadcast_to(v, (model.nv, model.nv)), np.broadcast_to(x, (model.nv, model.nv))
    by_q = function(ends[0], *same) - function(ends[1], *same)
    qs = np.broadcast_to(q, (model.nv, model.nq))
    by_v = function(qs, v + steps, same[1]) - function(qs, v - steps, same[1])
    return by_q.T / (2 * STEP), by_v.T / (2 * STEP)


@pytest.mark.parametrize("root", [NAME, "free"])
def test_dynamics_and_kinematics_are_those_of_helical_joints(root):
    model = robot(root)
    twin, by_q, by_v = oracle(model)
    q, v, a = states(model)
    tau = model.inverse_dynamics(q, v, a)
    there = q * by_q, v * by_v
    close(tau, twin.inverse_dynamics(*there, a * by_v) * by_v)
    close(model.forward_dynamics(q, v, tau), a)
    close(model.mass_matrix(q), by_v[:, None] * twin.mass_matrix(there[0]) * by_v)
    M = model.mass_matrix(q) @ model.mass_matrix_inverse(q)
    close(M, np.broadcast_to(np.eye(model.nv), M.shape))
    for frame in model.frame_names[-2:]:
        close(model.frame_placement(q, frame), twin.frame_placement(there[0], frame))
        close(model.jacobian(q, frame), twin.jacobian(there[0], frame) * by_v)
    Y = model.inverse_dynamics_regressor(q, v, a)
    close(Y, by_v[:, None] * twin.inverse_dynamics_regressor(*there, a * by_v))
    close(model.integrate(q, v) * by_q, twin.integrate(*there))
    close(model.difference(q[0], q[1:]) * by_v, twin.difference(there[0][0], there[0][1:]))


def test_derivatives_are_differences():
    model = robot("free")
    q, v, a = states(model, 1)
    tau = model.inverse_dynamics(q, v, a)
    for analytic, function, x in (
        (model.inverse_dynamics_derivatives, model.inverse_dynamics, a),
        (model.forward_dynamics_derivatives, model.forward_dynamics, tau),
    ):
        by_q, by_v = slopes(function, q[0], v[0], x[0], model)
        exact = analytic(q, v, x)
        close(exact[0][0], by_q, 1e-6)
        close(exact[1][0], by_v, 1e-6)


@pytest.mark.parametrize("integrator", ["semi_implicit", "implicit_damping", "rk4"])
def test_steps_rollouts_and_their_derivatives(integrator):
    model = robot()
    twin, by_q, by_v = oracle(model)
    q, v, tau = (x[0] for x in states(model))
    along = model.rollout(q, v, np.tile(tau, (20, 1)), DT, integrator=integrator)
    other = twin.rollout(
        q * by_q, v * by_v, np.tile(tau / by_v, (20, 1)), DT, integrator=integrator
    )
    close(along.q * by_q, other.q)
    close(along.v * by_v, other.v)
    step = lambda q, v, tau: model.step(q, v, tau, DT, integrator=integrator)
    linear = model.linearize_step(q, v, tau, DT, integrator=integrator)
    n = model.nv
    by_q, by_v = slopes(lambda *state: step(*state).v, q, v, tau, model)
    close(linear.A[n:, :n], by_q, 1e-5)
    close(linear.A[n:, n:], by_v, 1e-5)


def test_bits_on_every_backend():
    model, name = robot(), "forward_dynamics"
    program = lower(dynamics_program(model, Variant(name)), "cpu", np.float64)
    q, v, tau = states(model, BATCH)
    inputs = {"q": q, "v": v, "tau": tau}
    (wanted,) = reference.evaluate(program, inputs, np.float64).values()
    for backend in ("cpu", "cpu, one state", "cuda, lanes", "cuda, team:4"):
        found = BACKENDS[backend](partial(model.function, name), inputs)
        same_bits(found[0] if isinstance(found, tuple) else found, wanted)


def test_c_with_its_units(tmp_path):
    functions = ["inverse_dynamics", "forward_dynamics_derivatives", "step"]
    files = fl.generate(robot(), tmp_path, functions, name="screws", states=2)
    assert checked(HOSTS[1], tmp_path, files, "-O0").count(" ok") == len(functions)
    assert f"{NAME}: q m; v, a m/s, m/s^2; tau N" in files[0].read_text()


def test_other_roots_limits_and_peers():
    model = robot("free")
    change = fl.editing.rerooting(model, model.body_names[3])
    q, v, a = states(model)
    tau = model.inverse_dynamics(q, v, a)
    there = change.to(q, v=v, a=a, tau=tau)
    close(change.model.inverse_dynamics(there.q, there.v, there.a), there.tau)
    assert [model.joint(name).type for name in change.reversed] == [NAME] * 2
    low, high = model.position_limits
    assert set(low[7:8]) == {-0.2}
    assert (model.random_configuration(50, seed=1)[:, 7:8] <= high[7:8]).all()
    stopped = model.with_soft_limits()
    assert {j.limit_width for j in stopped.joints if j.type == NAME} == {1e-3}
    for library, convert in (("MuJoCo", fl.convert.mujoco), ("RBDL", fl.convert.rbdl)):
        with pytest.raises(ValueError, match=f"is {NAME}: {library} has no such joint, or"):
            convert(model)


def skew_revolute(reversal):
    """Turns about the axis (0.6, 0, 0.8) of the joint's frame."""

    def transform(q):
        s, c = scalar.sin(0.5 * q[0]), scalar.cos(0.5 * q[0])
        return Transform(quaternion_rotation(0.6 * s, 0.0, 0.8 * s, c), Vector((0.0, 0.0, 0.0)))

    return JointType(
        name=NAME,
        description="a turn about a skew axis, in radians",
        units=ANGLE,
        neutral=(0.0,),
        S=(Vector((0.6, 0.0, 0.8, 0.0, 0.0, 0.0)),),
        transform=transform,
        angles=(0,),
        reversal=reversal,
    )


def test_a_skew_axis_works_from_another_root_and_needs_its_reversal(monkeypatch):
    monkeypatch.setitem(joints.JOINT_TYPES, NAME, skew_revolute(MIRRORED))
    model = robot("free")
    q, v, a = states(model)
    tau = model.inverse_dynamics(q, v, a)
    close(model.forward_dynamics(q, v, tau), a)
    change = fl.editing.rerooting(model, model.body_names[3])
    there = change.to(q, v=v, a=a, tau=tau)
    close(change.model.inverse_dynamics(there.q, there.v, there.a), there.tau)
    with pytest.raises(ValueError, match="needs a reversal"):
        skew_revolute(OTHER_AXIS)


def test_cards_sliders_viewers_and_builders():
    model = robot()
    assert f"{NAME} " in card(model)
    assert "m/rad" in card(model)
    sliders = facts(model, "screws")["coordinates"]
    assert [x["unit"] for x in sliders] == ["m"] * 4
    assert sliders[0]["upper"] == 0.3
    b = fl.ModelBuilder("press")
    b.link("frame")
    b.link("ram", mass=2.0)
    b.joint("screw", NAME, "frame", "ram", pitch=0.01)
    assert_allclose(b.build().mass_matrix([0.0]), [[2.0]])
    with pytest.raises(ValueError, match="a lead_screw one with its pitch"):
        checked_root(NAME)


def test_in_fixed_point():
    """The error of the datapath's results is that of its format."""
    made = fl.accelerator(robot(), "inverse_dynamics", interval=32, format="fitted")
    q, v, a = states(made.model, 50)
    wanted = made.model.inverse_dynamics(q, v, a)
    got = made.function(q, v, a)
    assert np.abs(got - wanted).max() < 0.05 * np.abs(wanted).max()
