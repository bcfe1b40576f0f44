"""Sensors of steps and rollouts: readings out of the call that steps, and laws that read them."""

import pickle

import numpy as np
import pytest
from ground_robots import DT, LEGS, ball, quadruped, standing
from numpy.testing import assert_allclose, assert_array_equal

import featherlane as fl

GROUND = fl.Ground(friction=0.8)
FEET = [f"{leg}_foot" for leg in LEGS]


def readings(step, goal):
    model = quadruped()
    return {
        "imu": model.imu(step.q, step.v, step.a, "trunk"),
        "feet": np.stack([step.force_on(foot) for foot in FEET]),
        "flags": np.stack([step.touches(f"{leg}_shank") for leg in LEGS]),
        "miss": step.q_next[2] - goal,
    }


def sensors():
    return quadruped().sensors(readings, GROUND, {"goal": ()})


def options(goal=0.3):
    return {"ground": GROUND, "sensors": sensors(), "parameters": {"goal": goal}}


@pytest.mark.parametrize("every", [1, 5])
def test_rollouts_read_their_steps(every):
    """Readings are those of each step that is kept, and of functions called on its state."""
    model, (q, v), goal = quadruped(), standing(6), np.linspace(0.2, 0.4, 6)
    tau = np.random.default_rng(0).normal(size=(6, 20, model.nv)) * [*[0] * 6, *[3] * 8]
    moved = model.rollout(q, v, tau, DT, every=every, **options(goal))
    last = slice(every - 1, None, every)
    assert_array_equal(moved.feet, moved.contact_force[:, last])
    assert_array_equal(moved.flags, (moved.contact_force[:, last, :, 2] > 0) + 0.0)
    assert 0.05 < moved.flags.mean() < 1
    assert_array_equal(moved.miss, moved.q[:, 1:, 2] - goal[:, None])
    before = model.rollout(q, v, tau, DT, ground=GROUND)
    gyro = model.frame_velocity(before.q[:, :-1][:, last], before.v[:, :-1][:, last], "trunk")
    assert_allclose(moved.imu[..., 3:], gyro[..., 3:], atol=1e-12)
    if every == 1:
        step = model.step(q, v, tau[:, 0], DT, **options(goal))
        assert_array_equal(step.imu, moved.imu[:, 0])


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("hold", [1, 2])
def test_laws_read_the_step_before(hold, every):
    model, (q, v) = quadruped(), standing(6)

    def law(q, v, t, feet, scale):
        return np.append(np.zeros(6), scale * np.tile(feet[:, 2], 2))

    law = model.policy(law, {"scale": ()}, sensors={"feet": (4, 3)}, hold=hold)
    given = options()
    given["parameters"] |= {"scale": 1e-3}
    first = np.full((4, 3), 10.0)
    moved = model.rollout_with(law, q, v, DT, 12, every=every, memory={"feet": first}, **given)
    assert_allclose(moved.tau[:, 0, 6:], 0.01)
    read = moved.contact_force[:, hold - 1 : -1 : hold, :, 2]
    assert read.max() > 1
    assert_array_equal(moved.tau[:, hold::hold, 6:], np.tile(1e-3 * read, 2))
    assert moved.feet.shape == (6, 12 // every, 4, 3)
    assert_array_equal(pickle.loads(pickle.dumps(moved)).feet, moved.feet)


def test_traced_rollouts_read_their_steps():
    """A rollout inside a trace is one copy of a step after the other, with the same readings."""
    model, (q, v) = ball(), (np.array([0, 0, 0.09, 0, 0, 0, 1.0]), np.array([0.1, 0, 0, 0, 0, 0]))
    read = model.sensors(lambda step: {"up": step.force_on("ball")[2]}, GROUND)
    law = model.policy(
        lambda q, v, t, up: np.append(np.zeros(3), [up, 0.0, 0.0]), sensors={"up": ()}
    )

    def function(q, v):
        moved = model.rollout_with(law, q, v, DT, 4, every=2, ground=GROUND, sensors=read)
        return {"q": moved.q, "up": moved.up, "tau": moved.tau}

    traced, moved = fl.compile(function, {"q": 7, "v": 6})(q, v), function(q, v)
    for name, array in moved.items():
        assert_allclose(getattr(traced, name), array, rtol=1e-12)
    assert moved["tau"][1, 3] > 1


def test_inertial_sensors_are_those_of_mujoco():
    """The accelerometer and gyro of a site in soft contact, and the sum of forces on its feet."""
    mujoco = pytest.importorskip("mujoco")
    text = f"""<mujoco><option timestep="{DT}"/><worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="body" pos="0 0 0.12"><freejoint/><geom type="box" size=".1 .1 .05" mass="2"
    contype="0" conaffinity="0"/><site name="imu" pos=".03 .02 .01" euler="20 30 40"/>
    <geom name="a" type="sphere" size=".03" pos=".1 0 -.1" mass=".1"/>
    <body name="leg" pos="0 0 -.05"><joint axis="0 1 0" damping="0.1"/>
    <geom name="b" type="sphere" size=".03" pos="-.1 0 -.05" mass=".1"/></body></body></worldbody>
    <sensor><accelerometer site="imu"/><gyro site="imu"/></sensor></mujoco>"""
    model, peer = fl.load(text), mujoco.MjModel.from_xml_string(text)
    ground, rng = fl.Ground(surfaces="file"), np.random.default_rng(0)
    read = model.sensors(
        lambda step: {
            "imu": model.imu(step.q, step.v, step.a, "imu"),
            "feet": np.stack([step.force_on(name) for name in ("a", "leg")]),
        },
        ground,
    )
    q = model.integrate(model.neutral(), 0.1 * rng.normal(size=(20, 7)) * [1, 1, 0, 1, 1, 1, 1])
    q[:, 2] = 0.12
    v, tau = rng.normal(size=(2, 20, 7))
    law = fl.SoftContacts(steps=20)
    moved = model.step(
        q, v, tau, DT, ground=ground, law=law, sensors=read, integrator="semi_implicit"
    )
    there, data = fl.convert.to_mujoco(model, q, v=v, tau=tau), mujoco.MjData(peer)
    touches = 0
    for k, (qpos, qvel, force) in enumerate(zip(there.q, there.v, there.tau, strict=True)):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = qpos, qvel, force
        mujoco.mj_forward(peer, data)
        assert_allclose(moved.imu[k], data.sensordata, rtol=1e-6, atol=1e-5)
        feet, local = np.zeros((2, 3)), np.zeros(6)
        for n, contact in enumerate(data.contact):
            mujoco.mj_contactForce(peer, data, n, local)
            name = peer.geom(contact.geom[1]).name
            feet[["a", "b"].index(name)] += contact.frame.reshape(3, 3).T @ local[:3]
        touches += len(data.contact)
        assert_allclose(moved.feet[k], feet, rtol=1e-6, atol=1e-5)
    assert touches > 10


def test_a_body_that_touches_another_is_pushed_back():
    """The force on the other shape of a pair is the opposite one."""
    text = """<mujoco><worldbody>
    <body name="left" pos="0 0 1"><freejoint/><geom name="l" type="sphere" size=".1"
    mass="1"/></body>
    <body name="right" pos=".19 0 1"><freejoint/><geom name="r" type="sphere" size=".1"
    mass="1"/></body></worldbody></mujoco>"""
    model, ground = fl.load(text), fl.Ground(pairs=[("l", "r")], shapes=())
    read = model.sensors(
        lambda step: {x: step.force_on(x) for x in ("l", "r", "left", "right")}, ground
    )
    q = np.array([[0, 0, 1, 0, 0, 0, 1.0], [0.19, 0, 1, 0, 0, 0, 1]]).ravel()
    moved = model.step(q, np.zeros(12), np.zeros(12), DT, ground=ground, sensors=read)
    assert_array_equal(moved.left, -moved.right)
    assert_array_equal(moved.l, moved.left)
    assert_array_equal(moved.r, moved.right)
    assert moved.right[0] > 1
    assert [names[3:] for names in model.contact_names(ground)] == [("l", "left", "left")]


def in_the_air(model, **given):
    return model.step(model.neutral(), np.zeros(6), np.zeros(6), DT, **given)


def test_errors_of_sensors_name_what_is_wanted():
    model, read = ball(), ball().sensors(lambda step: {"up": step.force_on("ball")[2]}, GROUND)
    for given, error, text in (
        ({"sensors": read}, ValueError, "sensors read 1 contacts.*ground of the call"),
        ({"sensors": len}, TypeError, r"wanted those that model.sensors\(function\) returns"),
        ({"parameters": {"a": 1.0}}, TypeError, "parameters has a: wanted those of sensors"),
        ({"sensors": sensors(), "ground": GROUND}, TypeError, "misses goal"),
        (options(), ValueError, "sensors read nq = 15"),
    ):
        with pytest.raises(error, match=text):
            in_the_air(model, **given)
    for function, ground, error, text in (
        (lambda step: {"x": step.force_on("bal")}, GROUND, ValueError, "on 'bal'.*did you mean"),
        (lambda step: {"x": step.force_on("ball")}, None, ValueError, "no contacts: wanted model"),
        (lambda step: step.q, GROUND, TypeError, "wanted a dict of arrays by name"),
        (lambda step: {"residual": step.q}, GROUND, ValueError, "'residual': wanted a name"),
        (lambda q, v: {"x": q}, GROUND, TypeError, "wanted one of the inputs"),
        (lambda step: {"x": step.q}, "floor", TypeError, r"ground is 'floor': wanted fl.Ground"),
    ):
        with pytest.raises(error, match=text):
            model.sensors(function, ground)
    law = model.policy(lambda q, v, t, up: np.zeros(6), sensors={"up": 3})
    with pytest.raises(ValueError, match="reads the sensor 'up' of shape"):
        model.rollout_with(law, model.neutral(), np.zeros(6), DT, 2, ground=GROUND, sensors=read)
