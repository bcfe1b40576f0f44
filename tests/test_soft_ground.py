"""Steps on the ground under soft contacts: the accelerations of MuJoCo for the same file."""

from itertools import product

import mujoco_states
import numpy as np
import pytest
from free_roots import acceleration
from numpy.testing import assert_allclose, assert_array_equal
from soft_files import GRIPPER, gripper_states, quadruped, quadruped_states

import featherlane as fl
from featherlane.algorithms.contact_rows import contact_rows, patches
from featherlane.algorithms.frames import placements
from featherlane.algorithms.sparse_rows import dense
from featherlane.functions.ground_inputs import GroundInputs
from featherlane.robot.tree_of import tree_of

mujoco = pytest.importorskip("mujoco")

SCENES = {
    "elliptic": (quadruped(), quadruped_states, {}),
    "pyramidal, with torsion and rolling": (
        quadruped("pyramidal", 6, 2), quadruped_states, {"cone": "pyramidal", "impratio": 2}
    ),
    "gripper": (GRIPPER, gripper_states, {"pairs": "file"}),
}  # fmt: skip
"""Files, states, and options of the ground and law."""


@pytest.mark.parametrize("name", SCENES)
def test_steps_accelerate_as_in_mujoco(name):
    text, states, options = SCENES[name]
    options = {**options}
    model, peer = fl.load(text, loops="keep"), mujoco.MjModel.from_xml_string(text)
    ground = fl.Ground(surfaces="file", pairs=options.pop("pairs", ()))
    law = fl.SoftContacts(**{"cone": "elliptic", "steps": 12, **options})
    q, v, tau = states(model, 200)
    expected, contacts = mujoco_states.accelerations(model, peer, q, v, tau)
    dt = peer.opt.timestep
    moved = model.step(q, v, tau, dt, ground=ground, law=law, integrator="semi_implicit",
                       constraints=model.loops)  # fmt: skip
    a = acceleration(model, q, v, moved, dt)
    errors = np.linalg.norm(a - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert np.quantile(errors, 0.99) < 1e-9
    assert (contacts > 0).mean() > 0.5
    assert np.median(moved.residual) < 1e-9


LIMBS = """<mujoco><worldbody><body name="upper">{joint}
<geom name="a" type="capsule" fromto="0 0 0 0 0 -1" size=".05"/>
<body name="lower" pos="0 0 -1"><joint axis="0 1 1"/><joint axis="1 0 0"/>
<geom type="box" pos="0 0 -.5" size=".1 .2 .3"/>
<geom name="b" type="capsule" fromto="0 0 0 0 0 -1" size=".05"/>
</body></body></worldbody></mujoco>"""
SLOPE = (0.6, 0.0, 0.8)
ON_BOTH = fl.Ground(normal=SLOPE, pairs=(("a", "b"),))


@pytest.mark.parametrize(
    ("text", "ground", "counts"),
    [
        pytest.param(
            quadruped(), fl.Ground(normal=SLOPE), (1, 3), id="single points of a free root"
        ),
        pytest.param(
            LIMBS.format(joint='<joint axis="0 1 0"/>'),
            ON_BOTH,
            (3, 4, 6),
            id="several points of a fixed root",
        ),
        pytest.param(
            LIMBS.format(joint="<freejoint/>"), ON_BOTH, (3, 4, 6), id="several of a free root"
        ),
    ],
)
def test_rows_of_contacts_are_the_products_of_their_factors(text, ground, counts):
    model, rng = fl.load(text), np.random.default_rng(3)
    tree, q = tree_of(model), model.integrate(model.neutral(), rng.normal(size=model.nv))
    poses = placements(tree, q, range(tree.nbodies))
    points = GroundInputs(ground, fl.SoftContacts()).points(model)
    of_bodies = patches(tree, poses, points)
    assert of_bodies
    for point, count in product(points, counts):
        rows_of_v = np.eye(model.nv)
        for rows in reversed(of_bodies[point[:2]].factors(point, count)):
            rows_of_v = np.array([dense(row, len(rows_of_v)) for row in rows]) @ rows_of_v
        J = [dense(row, model.nv) for row in contact_rows(tree, poses, point, count)]
        assert_allclose(rows_of_v, J, atol=1e-12)


def test_a_ball_rests_where_soft_contact_carries_its_weight():
    ball = fl.load('<mujoco><worldbody><body><freejoint/><geom size=".1" mass="2"/></body>'
                   "</worldbody></mujoco>")  # fmt: skip
    q, v = np.array([0, 0, 0.12, 0, 0, 0, 1.0]), np.zeros(6)
    law = fl.SoftContacts()
    fall = ball.rollout(q, v, np.zeros((2000, 6)), 0.002, ground=fl.Ground(), law=law)
    assert_allclose(fall.contact_force[-1], [[0, 0, 2 * 9.81]], atol=1e-6)
    assert 0.099 < fall.q[-1, 2] < 0.1
    assert fall.residual.max() < 1e-9
    assert_array_equal(fall.contact_force[0], 0)


def test_lanes_and_threads_do_not_change_bits():
    model = fl.load(quadruped())
    q, v, tau = quadruped_states(model, 37)
    law, ground = fl.SoftContacts(cone="elliptic", steps=4), fl.Ground(height=0.1)
    each = [model.step(*x, 0.002, ground=ground, law=law) for x in zip(q, v, tau, strict=True)]
    many = model.step(q, v, tau, 0.002, ground=ground, law=law, threads=2)
    for field in many._fields:
        assert_array_equal(getattr(many, field), [getattr(x, field) for x in each])


def test_friction_of_each_environment():
    ball = fl.load('<mujoco><worldbody><body><freejoint/><geom size=".1" mass="2"/></body>'
                   "</worldbody></mujoco>")  # fmt: skip
    q, v = np.array([0, 0, 0.0995, 0, 0, 0, 1.0]), np.array([10.0, 0, 0, 0, 0, 0])
    mu = np.array([0.2, 0.4, 0.8])
    law = fl.SoftContacts(cone="elliptic", steps=12)
    own = {"ground_params": {"friction": mu}}
    moved = ball.step(q, v, np.zeros(6), 0.002, ground=fl.Ground(), law=law, **own)
    assert_allclose(moved.contact_force[:, 0, 0], -mu * moved.contact_force[:, 0, 2], rtol=1e-9)


@pytest.mark.parametrize(
    ("field", "error", "text"),
    [
        ({"cone": "round"}, ValueError, "cone is 'round'"),
        ({"impratio": 0.0}, ValueError, "impratio is 0.0"),
        ({"steps": 0}, ValueError, "steps is 0"),
        ({"limits": 1}, TypeError, "limits is 1"),
        ({"solimp": (0.9, 0.95)}, ValueError, "wanted 5 finite numbers"),
        ({"solimp": (2, 2, 2, 2, 2)}, ValueError, "wanted 5 finite numbers"),
        ({"solref": (0, 0)}, ValueError, "wanted 2 finite numbers"),
        ({"solref": (-1, 1)}, ValueError, "wanted 2 finite numbers"),
        ({"solref": 0.1}, ValueError, "solref is 0.1; wanted 2 finite numbers"),
        ({"impratio": True}, ValueError, "impratio is True"),
    ],
)
def test_bad_fields_are_refused(field, error, text):
    with pytest.raises(error, match=text):
        fl.SoftContacts(**field)


def test_soft_contacts_have_no_restitution():
    model = fl.load(quadruped())
    q, v, tau = quadruped_states(model, 1)
    own = {"ground_params": {"restitution": 0.5}, "law": fl.SoftContacts()}
    with pytest.raises(ValueError, match="restitution, which soft contacts do not have"):
        model.step(q, v, tau, 0.002, ground=fl.Ground(), **own)


def test_derivatives_are_those_of_differences():
    ball = fl.load('<mujoco><worldbody><body><freejoint/><geom size=".1" mass="2"/></body>'
                   "</worldbody></mujoco>")  # fmt: skip
    ground, law = fl.Ground(), fl.SoftContacts(cone="elliptic", steps=5)
    q, v, tau = (
        np.array([0, 0, 0.0997, 0, 0, 0, 1.0]),
        np.array([0.3, 0, -0.1, 0, 1, 0]),
        np.zeros(6),
    )
    options = {"ground": ground, "law": law}
    direction = np.random.default_rng(0).normal(size=(3, 6))
    slope = ball.step_jvp(q, v, tau, 0.002, *direction, **options)
    ends = [
        ball.step(ball.integrate(q, h * direction[0]), v + h * direction[1], tau + h * direction[2],
                  0.002, **options).v
        for h in (1e-6, -1e-6)
    ]  # fmt: skip
    assert_allclose(slope.dv, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-7)
    weights = np.random.default_rng(1).normal(size=(2, 6))
    gradient = ball.step_vjp(q, v, tau, 0.002, *weights, **options)
    assert_allclose(np.sum(gradient * direction), np.sum(weights * slope), rtol=1e-12)


def test_linear_steps_have_the_derivatives_of_the_solution():
    model, _, q, v, tau = soft_rows()
    options = {"ground": fl.Ground(height=-9), "law": fl.SoftContacts(), "constraints": model.loops}
    linear = model.linearize_step(q, v, tau, 0.002, **options)
    d = np.random.default_rng(0).normal(size=(3, *v.shape))
    slope = (linear.A @ np.hstack(d[:2])[..., None] + linear.B @ d[2][..., None])[:, 11:, 0]
    ends = [
        model.step(model.integrate(q, h * d[0]), v + h * d[1], tau + h * d[2], 0.002, **options).v
        for h in (1e-6, -1e-6)
    ]
    difference = (ends[0] - ends[1]) / 2e-6
    errors = np.abs(slope - difference).max(1) / np.abs(difference).max(1)
    assert np.quantile(errors, 0.95) < 1e-6, "kinks are rare"


def test_steps_begin_at_the_forces_of_the_step_before():
    model = fl.load(quadruped())
    q, v, tau = (x[:64] for x in quadruped_states(model, 192))
    options = {"ground": fl.Ground(height=0.1), "law": fl.SoftContacts(cone="elliptic", steps=2)}
    start = lambda step: {"ground_params": {"impulse": step.impulse}}
    cold = again = model.step(q, v, tau, 0.002, **options)
    for _ in range(4):
        again = model.step(q, v, tau, 0.002, **options, **start(again))
    assert (cold.residual > 1e-6).mean() > 0.2
    assert np.quantile(again.residual, 0.95) < 1e-8
    zero = cold._replace(impulse=0 * cold.impulse)
    zero = model.step(q, v, tau, 0.002, **options, **start(zero))
    assert_allclose(zero.v, cold.v, rtol=1e-9, atol=1e-12)
    two = model.rollout(q, v, np.stack([tau, tau], 1), 0.002, **options)
    after = model.step(zero.q, zero.v, tau, 0.002, **options, **start(zero))
    assert_array_equal(two.v[:, -1], after.v)


BALL = '<mujoco><worldbody><body><freejoint/><geom size=".1" mass="2"/></body></worldbody></mujoco>'


@pytest.mark.parametrize("mu", [0.0, 1e-4, 1e-3])
def test_low_friction_in_float32(mu):
    ball, law, ground = fl.load(BALL), fl.SoftContacts(), fl.Ground(friction=mu)
    state = np.array([0, 0, 0.05, 0, 0, 0, 1.0]), np.ones(6), np.zeros(6)
    exact = ball.step(*state, 0.002, ground=ground, law=law).v
    single = ball.step(*(x.astype("f4") for x in state), 0.002, ground=ground, law=law).v
    assert_allclose(single, exact, atol=2e-3)


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("friction", ["0", ".001", ".5"])
def test_pairs_have_the_solreffriction_of_elliptic_cones(cone, friction):
    text = f"""<mujoco><option cone="{cone}" tolerance="0" iterations="100"/><worldbody>
        <geom name="floor" type="plane" size="1 1 1"/><body pos="0 0 .1"><freejoint/>
        <geom name="ball" size=".1" mass="2"/></body></worldbody><contact><pair geom1="floor"
        geom2="ball" solreffriction=".1 2" friction="{friction} {friction}"/></contact></mujoco>"""
    model, peer = fl.load(text), mujoco.MjModel.from_xml_string(text)
    q, v = np.array([[0, 0, 0.099, 0, 0, 0, 1.0]]), np.array([[0.3, 0.1, -0.1, 0.2, 0, 0]])
    a, _ = mujoco_states.accelerations(model, peer, q, v, 0 * v)
    law = fl.SoftContacts(cone=cone, steps=12)
    moved = model.step(q, v, 0 * v, 0.002, ground=fl.Ground(surfaces="file"), law=law,
                       integrator="semi_implicit")  # fmt: skip
    assert_allclose(acceleration(model, q, v, moved, 0.002), a, atol=1e-7 * np.abs(a).max())


SOFT_ROWS = """
<mujoco><compiler angle="radian" autolimits="true"/>
<option tolerance="0" iterations="100" ls_iterations="100"><flag contact="disable"/></option>
<default><joint solreflimit=".03 .8" solimplimit=".7 .9 .05 .5 2" solreffriction=".01 1.2"
    solimpfriction=".8 .95 .01 .4 1.5" axis="0 1 0"/><geom size=".05 .2" type="capsule"/>
  <equality solref=".05 .7" solimp=".6 .97 .02 .3 3"/></default>
<worldbody>
  <body name="a" pos="0 0 1"><joint name="a" range="-.3 .4" margin=".05" frictionloss=".5"/><geom/>
    <body pos="0 0 .4"><joint name="b" type="slide" axis="1 0 .2" range="-.1 .1"/><geom/>
      <body name="c" pos=".1 0 .2"><joint name="c" axis="1 0 0" frictionloss="2" armature=".01"/>
        <geom euler=".5 0 0"/></body></body></body>
  <body name="d"><joint name="d" solreflimit="-900 -20" range="-.2 .2"/><geom/>
    <body name="e" pos="0 0 .4"><joint name="e" axis="1 0 0" frictionloss="1"/><geom/></body></body>
  <body name="f" pos="0 0 3"><freejoint/><geom euler=".5 0 0"/></body>
</worldbody>
<equality>
  <joint joint1="c" joint2="e" polycoef=".1 .2 .3 0 0" solref="-500 -30"/>
  <connect body1="a" body2="d" anchor=".1 0 .2"/>
  <weld body1="c" body2="f" torquescale=".6" solimp=".7 .9 .1 .5 2"/>
</equality></mujoco>
"""


def soft_rows():
    model = fl.load(SOFT_ROWS, loops="keep")
    rng, scale = np.random.default_rng(4), np.array([0.3, 0.1, 1, 0.3, 1, *[0.3] * 6])
    q = model.integrate(np.tile(model.neutral(), (200, 1)), rng.normal(size=(200, 11)) * scale)
    q[:, 5:8] += model.frame_placement(q, "c")[:, :3, 3]
    v, tau = rng.normal(size=(2, 200, 11)) * [[[0.3]], [[3.0]]]
    v[::2] *= 0.01
    return model, mujoco.MjModel.from_xml_string(SOFT_ROWS), q, v, tau


def test_limits_friction_and_equalities_are_as_soft_as_in_their_file():
    model, peer, q, v, tau = soft_rows()
    expected, _ = mujoco_states.accelerations(model, peer, q, v, tau)
    options = {"ground": fl.Ground(height=-9), "constraints": model.loops}

    def errors(**law):
        moved = model.step(
            q, v, tau, 0.002, **options, integrator="semi_implicit", law=fl.SoftContacts(**law)
        )
        a = acceleration(model, q, v, moved, 0.002)
        return np.linalg.norm(a - expected, axis=1) / np.linalg.norm(expected, axis=1)

    assert errors().max() < 1e-9
    assert np.median(errors(solref=(0.02, 1.0))) > 1e-3, "the law's in place of the file's"


def test_edits_keep_how_soft_loops_are():
    model = soft_rows()[0]
    kept = model.with_loops(model.loops).renamed(joints={"c": "gamma"})
    assert kept.loops.softness == model.loops.softness
    assert model.loops.softness[1].torque_scale == 0.6


ROLLING = """
<mujoco><option cone="elliptic" tolerance="0" iterations="100" ls_iterations="100"/><worldbody>
  <geom name="floor" type="plane" size="0 0 1"/><body name="body" pos="0 0 .3"><freejoint/>
  <geom type="capsule" size=".05 .1" mass="1" condim="6"/></body></worldbody></mujoco>
"""


def test_a_tumbling_body_goes_the_way_of_mujoco():
    model, peer = fl.load(ROLLING), mujoco.MjModel.from_xml_string(ROLLING)
    v = np.random.default_rng(2).normal(size=(4, 6)) * [1, 1, 1, 5, 5, 5]
    q = np.tile([0, 0, 0.3, 0, 0, 0, 1.0], (4, 1))
    options = {"ground": fl.Ground(surfaces="file"), "law": fl.SoftContacts(cone="elliptic")}
    path = model.rollout(
        q, v, np.zeros((4, 500, 6)), 0.002, integrator="semi_implicit", **options
    ).q
    there, data = fl.convert.to_mujoco(model, q, v=v), mujoco.MjData(peer)
    for ours, qpos, qvel in zip(path, there.q, there.v, strict=True):
        mujoco.mj_resetData(peer, data)
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_step(peer, data, 500)
        assert_allclose(fl.convert.to_mujoco(model, ours[-1]).q, data.qpos, atol=1e-9)
