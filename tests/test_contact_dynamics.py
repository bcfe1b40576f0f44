"""Accelerations and contact forces of states on the ground, without a step."""

import mujoco_states
import numpy as np
import pytest
from ground_robots import DT, LEGS, ball, on_legs, quadruped, standing
from numpy.testing import assert_allclose, assert_array_equal

import featherlane as fl

GROUND = fl.Ground(friction=0.8)
ON_FLOOR = on_legs(*LEGS).replace(
    "<worldbody>", '<worldbody><geom name="floor" type="plane" size="0 0 1"/>'
)


def test_soft_contacts_accelerate_as_in_mujoco():
    """Accelerations are qacc of mj_forward, forces those of its contacts: of feet, and limits."""
    mujoco = pytest.importorskip("mujoco")
    text = ON_FLOOR.replace(
        "<compiler", '<option timestep="0.002" tolerance="0" iterations="100"/><compiler'
    )
    model, peer = fl.load(text), mujoco.MjModel.from_xml_string(text)
    q, v = standing(100)
    tau = np.random.default_rng(3).normal(size=v.shape) * [*[0] * 6, *[3] * 8]
    fd = model.contact_forward_dynamics(
        q, v, tau, DT, ground=fl.Ground(surfaces="file"), law=fl.SoftContacts(steps=12)
    )
    expected, contacts = mujoco_states.accelerations(model, peer, q, v, tau)
    errors = np.linalg.norm(fd.a - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert np.quantile(errors, 0.99) < 1e-9
    assert (contacts > 0).sum() > 30
    there, data = fl.convert.to_mujoco(model, q, v=v, tau=tau), mujoco.MjData(peer)
    for k in np.argsort(errors)[:20]:
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = there.q[k], there.v[k], there.tau[k]
        mujoco.mj_forward(peer, data)
        total, local = np.zeros(3), np.zeros(6)
        for n, contact in enumerate(data.contact):
            mujoco.mj_contactForce(peer, data, n, local)
            total += contact.frame.reshape(3, 3).T @ local[:3]
        assert_allclose(fd.contact_force[k].sum(0), total, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("law", [fl.Coulomb(), fl.SoftContacts()])
def test_accelerations_are_those_of_semi_implicit_steps(law):
    model, (q, v) = quadruped(), standing(20)
    constraints = model.constraints([fl.Coupling("FL_hip", "FR_hip", (0.0, 1.0))])
    tau = np.random.default_rng(1).normal(size=v.shape)
    options = {"ground": GROUND, "law": law, "constraints": constraints}
    options |= {"ground_params": {"friction": 0.5}, "params": {"damping": np.full(14, 0.2)}}
    fd = model.contact_forward_dynamics(q, v, tau, DT, **options)
    read = model.sensors(lambda step: {"acceleration": step.a}, GROUND)
    step = model.step(q, v, tau, DT, integrator="semi_implicit", sensors=read, **options)
    assert_array_equal(fd.a, step.acceleration)
    assert_array_equal(fd.contact_force, step.contact_force)
    assert_array_equal(fd.residual, step.residual)
    assert (fd.contact_force[..., 2] > 0).any()


ACTUATED = ON_FLOOR.replace(
    "</mujoco>",
    """<actuator>
<motor joint="FL_hip" gear="10" ctrlrange="-1 1"/>
<position joint="FR_hip" kp="40" kv="2"/>
<velocity joint="RL_knee" kv="3" forcerange="-2 2"/>
</actuator></mujoco>""",
)


def test_controls_accelerate_as_in_mujoco():
    """With the file's actuators they are qacc of mj_forward with ctrl: a motor, and servos that
    read q and v.
    """
    mujoco = pytest.importorskip("mujoco")
    text = ACTUATED.replace(
        "<compiler", '<option timestep="0.002" tolerance="0" iterations="100"/><compiler'
    )
    model, peer = fl.load(text), mujoco.MjModel.from_xml_string(text)
    q, v = standing(30)
    u = np.random.default_rng(5).normal(size=(len(q), 3))
    options = {"ground": fl.Ground(surfaces="file"), "law": fl.SoftContacts(steps=12)}
    fd = model.contact_forward_dynamics(q, v, u, DT, actuation="file", **options)
    there, data, expected = fl.convert.to_mujoco(model, q, v=v), mujoco.MjData(peer), []
    for qpos, qvel, ctrl in zip(there.q, there.v, u, strict=True):
        data.qpos[:], data.qvel[:], data.ctrl[:], data.qacc_warmstart[:] = qpos, qvel, ctrl, 0
        mujoco.mj_forward(peer, data)
        expected.append(data.qacc.copy())
    a = fl.convert.from_mujoco(model, there.q, v=there.v, a=np.array(expected)).a
    errors = np.linalg.norm(fd.a - a, axis=1) / np.linalg.norm(a, axis=1)
    assert np.quantile(errors, 0.9) < 1e-9
    still = model.contact_forward_dynamics(q, v, 0 * u, DT, actuation="file", **options)
    assert (np.abs(still.a - fd.a).max(1) > 1).all()


@pytest.mark.parametrize("law", [fl.Coulomb(), fl.SoftContacts()])
def test_controls_are_those_of_a_step(law):
    model, (q, v) = fl.load(ACTUATED), standing(20)
    u = np.random.default_rng(2).normal(size=(len(q), 3))
    options = {"ground": GROUND, "law": law, "actuation": "file"}
    fd = model.contact_forward_dynamics(q, v, u, DT, **options)
    read = model.sensors(lambda step: {"acceleration": step.a}, GROUND, actuation="file")
    step = model.step(q, v, u, DT, integrator="semi_implicit", sensors=read, **options)
    assert_array_equal(fd.a, step.acceleration)
    assert_array_equal(fd.contact_force, step.contact_force)
    motor = model.actuation(["FL_hip", "RR_knee"], gear=[3.0, 2.0], clip=False)
    tau = np.zeros_like(v)
    tau[:, [6, 13]] = u[:, :2] * [3.0, 2.0]
    of_motor = model.contact_forward_dynamics(
        q, v, u[:, :2], DT, ground=GROUND, law=law, actuation=motor
    )
    assert_allclose(
        of_motor.a, model.contact_forward_dynamics(q, v, tau, DT, ground=GROUND, law=law).a,
        rtol=1e-9, atol=1e-9,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"tau has shape \(20, 3\)"):
        model.contact_forward_dynamics(q, v, u, DT, ground=GROUND, law=law)


def test_impulses_of_an_impact_are_forces_over_the_step():
    """A ball that falls onto the ground at 3 m/s stops within the step: a and f are means."""
    model, v = ball(), np.array([0, 0, -3.0, 0, 0, 0])
    q = np.array([0, 0, 0.1, 0, 0, 0, 1.0])
    for dt in (1e-3, 1e-2):
        fd = model.contact_forward_dynamics(q, v, np.zeros(6), dt, ground=GROUND)
        assert_allclose(fd.a[2], 3 / dt)
        assert_allclose(fd.contact_force[0], [0, 0, 2 * (3 / dt + 9.81)], atol=1e-9)


def test_accelerations_on_the_ground_in_traces():
    model, (q, v) = ball(), (np.array([0, 0, 0.1, 0, 0, 0, 1.0]), np.zeros(6))

    def up(q, v):
        return model.contact_forward_dynamics(q, v, np.zeros(6), DT, ground=GROUND).contact_force[0]

    assert_allclose(fl.compile(up, {"q": 7, "v": 6})(q, v), [0, 0, 2 * 9.81], atol=1e-12)


def test_errors_name_the_ground():
    model, still = ball(), np.zeros(6)
    with pytest.raises(TypeError, match="ground is None: wanted"):
        model.contact_forward_dynamics(model.neutral(), still, still, DT, ground=None)
    with pytest.raises(TypeError, match="law is 'soft': wanted"):
        model.contact_forward_dynamics(model.neutral(), still, still, DT, ground=GROUND, law="soft")
    with pytest.raises(TypeError, match=r"law is the class fl.Coulomb: .* as in fl.Coulomb\(\)"):
        model.step(model.neutral(), still, still, DT, ground=GROUND, law=fl.Coulomb)
