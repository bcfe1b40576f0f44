"""MJCF against MuJoCo, which compiles it: dynamics, frames, notes, roots, refusals."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import textbook
from repetition import repeated
from robot_files import robot_file

import featherlane as fl
from featherlane import algorithms
from featherlane.robot.parts import WORLD, Joint, Mimic

mujoco = pytest.importorskip("mujoco")

GEOM = '<geom type="box" size=".1 .2 .3" pos=".05 .02 -.1" euler="10 20 30" density="300"/>'


def mjcf(bodies, rest="", options=""):
    return f"<mujoco {options}>{rest}<worldbody>{bodies}</worldbody></mujoco>"


def body(inside, name="b", attributes=""):
    return f'<body name="{name}" {attributes}>{inside}</body>'


PLACED = 'pos=".1 -.2 .3" euler="20 -30 40"'
OFF = 'pos=".1 .05 -.02"'
MODELS = {
    "hinge": mjcf(body(f'<joint name="j" axis="1 2 3"/>{GEOM}', attributes=PLACED)),
    "anchor and ref": mjcf(
        body(
            f'<joint name="j" axis="1 2 3" {OFF} ref="35"/>{GEOM}<site name="s" {PLACED}/>'
            + body(f'<joint name="k" type="slide" axis="0 1 1" {OFF} ref=".2"/>{GEOM}', "c", PLACED)
            + body(f'<joint name="l" {OFF} ref="-80"/>{GEOM}', "d", PLACED),
            attributes=PLACED,
        )
    ),
    "several joints in a body": mjcf(
        body(
            '<joint name="x" type="slide" axis="1 0 0" ref=".3"/>'
            '<joint name="z" type="slide" axis="0 0 1" damping="2"/>'
            f'<joint name="y" axis="0 1 0" {OFF} ref="20" armature=".2"/>{GEOM}'
            + body(
                f'<joint name="a" axis="1 0 0" {OFF} ref="10"/><joint name="b" axis="0 1 0" '
                f'pos="-.1 .2 0" ref="5"/><joint name="c" axis="1 1 0"/>{GEOM}'
                + body(GEOM, "fixed", PLACED),
                "end",
                PLACED,
            ),
            attributes=PLACED,
        )
    ),
    "ball": mjcf(
        body(
            f'<joint name="j" type="ball" {OFF} damping=".3" armature=".1"/>{GEOM}'
            + body(f'<joint name="s" type="slide"/><joint name="k" type="ball"/>{GEOM}', "c", OFF),
            attributes=PLACED,
        )
    ),
    "free": mjcf(
        body(
            f'<joint name="j" type="free" damping=".3"/>{GEOM}'
            + body(f'<joint name="k" axis="1 1 0" {OFF}/>{GEOM}', "c", PLACED),
            attributes=PLACED,
        )
        + body(f"<freejoint/>{GEOM}", "other", 'pos="1 0 0"'),
    ),
    "radians, euler sequence, defaults, inertials": mjcf(
        '<frame pos="0 0 1" euler=".1 .2 .3"><body name="b" euler=".3 .2 .1" childclass="leg">'
        '<inertial mass="2" pos=".1 0 .2" fullinertia=".3 .4 .5 .01 .02 .03"/><joint name="j"/>'
        '<body name="c" axisangle="1 2 3 .4"><joint name="k" class="knee"/><geom/>'
        '<body name="d" xyaxes="1 .1 0 0 1 .2"><joint name="l" type="slide"/><geom class="foot"/>'
        "</body></body></body></frame>",
        '<compiler angle="radian" eulerseq="ZYx" inertiagrouprange="0 2"/>'
        '<option gravity="1 2 -9"/>'
        '<default><default class="leg"><joint axis="0 1 0" damping=".5" armature=".02" ref=".1"/>'
        '<geom type="capsule" fromto="0 0 0 .1 .2 -.3" size=".04"/><default class="knee">'
        '<joint axis="1 0 1" pos="0 .1 0"/></default><default class="foot">'
        '<geom type="ellipsoid" size=".1 .2 .1" mass="1.5"/></default></default></default>',
    ),
    "armature and damping of actuators": mjcf(
        body(
            f'<joint name="j" axis="1 1 0" damping=".1"/>{GEOM}'
            + body(f'<joint name="k" type="ball"/>{GEOM}', "c", OFF)
        ),
        '<actuator><motor joint="j" gear="3" armature=".5" damping=".7"/>'
        '<motor jointinparent="k" gear="2 1 0 0 0 0" armature=".3"/></actuator>',
    ),
    "total mass, bounds, static bodies between": mjcf(
        body(
            GEOM
            + body(body(f'<joint name="j"/>{GEOM}', "c", OFF) + body(GEOM, "d", OFF), "b", PLACED),
            "base",
            PLACED,
        ),
        '<compiler settotalmass="7" boundinertia=".01" balanceinertia="true"/>',
    ),
    "mesh": mjcf(
        body('<joint name="j" axis="1 1 0"/><geom type="mesh" mesh="m" euler="30 0 0" mass="2"/>'),
        '<asset><mesh name="m" vertex="0 0 0 .3 0 0 0 .4 0 0 0 .5 .2 .2 .2"/></asset>',
    ),
    "forces switched off": mjcf(
        body(f'<joint name="j" damping="3" frictionloss="2"/>{GEOM}', attributes=PLACED),
        '<option><flag gravity="disable" damper="disable" frictionloss="disable"/></option>',
    ),
}
FILES = (
    "boston_dynamics_spot_arm",
    "franka_panda",
    "kuka_iiwa_14",
    "shadow_hand_right",
    "unitree_go2",
    "ur5e",
)
NEWER = "armature and damping of actuators"  # what old releases of MuJoCo do not read


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """MuJoCo writes a log where it runs, when it is called past our loader."""
    monkeypatch.chdir(tmp_path)


def peer_of(source):
    path = isinstance(source, Path)
    make = mujoco.MjModel.from_xml_path if path else mujoco.MjModel.from_xml_string
    peer = make(str(source))
    peer.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    return peer


def full(peer, data):
    M = np.zeros((peer.nv, peer.nv))
    try:
        mujoco.mj_fullM(peer, data, M)
    except TypeError:  # before MuJoCo 4
        mujoco.mj_fullM(peer, M, data.qM)
    return M


def run(algorithm, model, *inputs):
    result = algorithm(model.tree, *([*np.moveaxis(x, -1, 0)] for x in inputs))
    batch = inputs[0].shape[:-1]
    if isinstance(result[0], list):
        return np.stack(
            [np.stack([np.broadcast_to(x, batch) for x in row], -1) for row in result], -2
        )
    return np.stack([np.broadcast_to(x, batch) for x in result], -1)


def close(found, wanted, tolerance=1e-10):
    scale = np.abs(wanted).max(initial=1e-3)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * scale)


def random_states(model, batch=4, seed=0):
    rng = np.random.default_rng(seed)
    q = rng.uniform(-1, 1, (batch, model.nq))
    for kind, k in zip(model.types, model.first_q, strict=True):
        for at in kind.quaternions:
            u = q[:, k + at : k + at + 4]
            u /= np.linalg.norm(u, axis=-1, keepdims=True)
    return q, *rng.normal(size=(2, batch, model.nv))


def check_dynamics(model, peer):
    """q, v, a, tau, M and the frames of bodies and sites, through the documented conversions."""
    q, v, a = random_states(model)
    rubbing = model.friction * v / np.sqrt(v * v + model.friction_velocity**2)
    tau = run(algorithms.rnea, model, q, v, a) - rubbing
    there = fl.convert.to_mujoco(
        model, q, v, a, tau, M=run(algorithms.mass_matrix, model, q), peer=None
    )
    data = mujoco.MjData(peer)
    poses = textbook.poses(model, q)
    for k in range(len(q)):
        data.qpos, data.qvel, data.qacc = there.q[k], there.v[k], there.a[k]
        mujoco.mj_inverse(peer, data)
        close(there.tau[k], data.qfrc_inverse)
        close(there.M[k], full(peer, data))
        for kind, places in (("body", "x"), ("site", "site_x")):
            for i in range(getattr(peer, f"n{kind}")):
                frame = model.frame(getattr(peer, kind)(i).name)
                R, p = np.array(frame.placement.R), np.array(frame.placement.p)
                if frame.body != WORLD:
                    above, at = (x[k] for x in poses[frame.body])
                    R, p = above @ R, at + above @ p
                close(p, getattr(data, f"{places}pos")[i])
                close(R, getattr(data, f"{places}mat")[i].reshape(3, 3))


@pytest.mark.parametrize("name", MODELS)
def test_dynamics_are_mujocos(name):
    try:
        peer = peer_of(MODELS[name])
    except ValueError:
        assert name == NEWER
        pytest.skip("this release of MuJoCo knows no armature of actuators")
    model = fl.load(MODELS[name])
    check_dynamics(model, peer)


@pytest.mark.parametrize("name", repeated([*FILES], 2))
def test_dynamics_of_robots_are_mujocos(name):
    path = robot_file(f"{name}.xml")
    check_dynamics(fl.load(path, mimic="keep"), peer_of(path))


def test_the_methods_of_a_model():
    """Once through compiled code: a chain of joints, a ball, a free root."""
    text = mjcf(body(f"<freejoint/>{GEOM}" + body(f'<joint type="ball"/>{GEOM}', "c", OFF)))
    model, peer = fl.load(text), peer_of(text)
    q, v, a = random_states(model, 3)
    there = fl.convert.to_mujoco(model, q, v, a, model.inverse_dynamics(q, v, a))
    data = mujoco.MjData(peer)
    for k in range(3):
        data.qpos, data.qvel, data.qacc = there.q[k], there.v[k], there.a[k]
        mujoco.mj_inverse(peer, data)
        close(there.tau[k], data.qfrc_inverse)


# Names and order


def test_a_chain_of_joints():
    model = fl.load(MODELS["several joints in a body"])
    assert model.joint_names == ("x", "z", "y", "a", "b", "c")
    assert model.body_names == ("b/x", "b/z", "b/y", "end/a", "end/b", "end")
    assert [b.mass > 0 for b in model.bodies] == [False, False, True, False, False, True]
    assert model.frame("b").body == 2
    assert model.frame("end") == ("end", 5, model.frame("end")[2])
    assert model.frame("fixed").body == 5
    assert any("several joints" in note and "b (x, z, y)" in note for note in model.notes)
    assert any("ref" in note and "x (0.3)" in note for note in model.notes)


def test_the_frame_of_a_body_is_at_the_anchor():
    model = fl.load(mjcf(body(f'<joint name="j" pos="0 .5 0"/>{GEOM}', attributes='pos="1 0 0"')))
    assert model.body_names == ("b/j",)
    np.testing.assert_allclose(model.joints[0].placement.p, (1, 0.5, 0))
    np.testing.assert_allclose(model.frame("b").placement.p, (0, -0.5, 0))


def test_unnamed_and_clashing_names():
    inside = f'<joint/>{GEOM}<site name="w"/><site name="j"/><site/>'
    model = fl.load(mjcf(f"<body>{inside}</body>" + body(f'<joint name="j"/>{GEOM}', "w")))
    assert model.joint_names == ("joint0", "j")
    assert model.body_names == ("body1", "w")
    assert set(model.frame_names) == {"world", "body1", "w", "w/site", "j"}
    assert model.frame("w").body == 1
    assert model.frame("w/site").body == 0
    assert any("without a name" in n and "body1" in n and "joint0" in n for n in model.notes)
    clash = mjcf(body(f'<joint name="j" {OFF}/>{GEOM}' + body(GEOM, "b/j"), "b"))
    assert fl.load(clash).body_names == ("b/j_",)


def test_joints_keep_mujocos_order_until_asked():
    arm = body(f'<joint name="k"/>{GEOM}' + body(f'<joint name="m"/>{GEOM}', "c"), "a")
    text = mjcf(arm + body(f'<joint name="j"/>{GEOM}', "b"), options='model="two arms"')
    model = fl.load(text)
    assert model.joint_names == ("k", "m", "j")
    assert model.name == "two arms"
    assert fl.load(text, joint_order="breadth-first").joint_names == ("k", "j", "m")
    assert fl.load(text, joint_order=["j", "k", "m"]).joint_names == ("j", "k", "m")


def test_unicode():
    model = fl.load(mjcf(body(f'<joint name="関節"/>{GEOM}', "Körper")))
    assert (model.joint_names, model.body_names) == (("関節",), ("Körper",))
    text = mjcf(body(f'<joint name="é"/>{GEOM}'))
    declared = f'<?xml version="1.0" encoding="iso-8859-1"?>{text}'.encode("iso-8859-1")
    assert fl.load(declared).joint_names == ("é",)
    assert fl.load(f'\n <?xml version="1.0"?>\n{text}').joint_names == ("é",)


# Joint physics


def test_limits_and_physics():
    model = fl.load(
        mjcf(
            body(
                '<joint name="j" range="-90 45" armature=".1" damping=".2" frictionloss=".3" '
                f'actuatorfrcrange="-5 4"/><joint name="k" range="0 1" limited="false"/>{GEOM}'
            )
        )
    )
    j, k = model.joints
    np.testing.assert_allclose((*j.lower, *j.upper), np.radians((-90, 45)))
    assert (j.armature, j.damping, j.friction, j.effort) == ((0.1,), (0.2,), (0.3,), 5.0)
    assert (k.lower, k.upper) == ((-np.inf,), (np.inf,))
    assert (k.armature, k.damping, k.friction, k.effort) == ((), (), (), np.inf)
    assert any("friction" in note and "1 joint" in note for note in model.notes)


def test_armature_of_a_free_joint():
    """It is in the body's axes here, in the world's there: equal ones do the same in both."""
    arm = body(f'<joint name="k" axis="0 1 1" armature=".3"/>{GEOM}', "c", PLACED)
    text = mjcf(body(f'<joint name="j" type="free" armature="2"/>{GEOM}{arm}'))
    model, peer = fl.load(text), peer_of(text)
    assert not any("armature" in note for note in model.notes)
    q, v, a = (x[:1] for x in random_states(model))
    tau, M = run(algorithms.rnea, model, q, v, a), run(algorithms.mass_matrix, model, q)
    there, data = fl.convert.to_mujoco(model, q, v, a, tau, M=M), mujoco.MjData(peer)
    data.qpos, data.qvel, data.qacc = there.q[0], there.v[0], there.a[0]
    mujoco.mj_inverse(peer, data)
    close(there.M[0], full(peer, data))
    back = fl.convert.from_mujoco(model, there.q, there.v, tau=data.qfrc_inverse[None]).tau
    close(back, tau)


def test_gravity():
    text = mjcf(body(f"<joint/>{GEOM}"), '<option gravity="1 2 3"/>')
    assert fl.load(text).gravity == (1, 2, 3)
    assert fl.load(text, gravity=(0, 0, -1.6)).gravity == (0, 0, -1.6)
    assert fl.load(MODELS["hinge"]).gravity == (0, 0, -9.81)
    off = fl.load(MODELS["forces switched off"])
    assert off.gravity == (0, 0, 0)
    assert not off.damping.any()
    assert not off.friction.any()
    assert any("switched off" in n and "gravity, damper, frictionloss" in n for n in off.notes)


SPRUNG = {
    "springs": ('type="ball" stiffness="3"', "", "warning: springs of ball and free joints", "j"),
    "curved damping": ('damping="1 2"', "", "warning: damping", "j"),
    "fluid": (
        "",
        '<option density="1.2" viscosity=".1"/>',
        "warning: forces of a fluid",
        "density 1.2, viscosity 0.1",
    ),
    "tendon": (
        "",
        '<tendon><fixed name="t" stiffness="3"><joint joint="j" coef="1"/></fixed></tendon>',
        "warning: stiffness, damping, armature and friction of tendons",
        "t",
    ),
    "idle tendon": (
        "",
        '<tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon>',
        "tendons are ignored",
        "t",
    ),
    "actuator of a tendon": (
        "",
        '<tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon>'
        '<actuator><motor name="m" tendon="t" armature="2"/></actuator>',
        "warning: armature and damping of actuators that act on no joint",
        "m",
    ),
    "curve": (
        "",
        '<equality><joint name="e" joint1="j" joint2="k" polycoef="0 1 2 0 0"/></equality>',
        "warning: equalities other than linear relations between two joints are not applied",
        "joint e (j, k)",
    ),
    "inactive": (
        "",
        '<equality><joint name="e" joint1="j" joint2="k" active="false"/></equality>',
        "inactive equalities are ignored",
        "joint e (j, k)",
    ),
    "margin": ('range="0 1" margin=".1"', "", "limits with a margin", "j"),
    "others": (
        "",
        '<actuator><motor joint="j"/><motor joint="k"/></actuator>'
        '<sensor><jointpos joint="j"/></sensor><keyframe><key qpos="1 2"/></keyframe>'
        '<default><geom contype="0" conaffinity="0"/></default>',
        "ignored",
        "2 geoms, 1 sensor",
    ),
}


@pytest.mark.parametrize("name", SPRUNG)
def test_what_is_not_applied_is_on_the_card(name):
    attributes, rest, title, named = SPRUNG[name]
    inside = f'<joint name="j" {attributes}/>{GEOM}' + body(f'<joint name="k"/>{GEOM}', "c")
    text = mjcf(body(inside), rest)
    try:
        peer_of(text)
    except ValueError as error:
        assert not mujoco.__version__.startswith("4")
        pytest.skip(f"this release of MuJoCo does not read it: {error}")
    told = [note for note in fl.load(text).notes if note.startswith(title)]
    assert len(told) == 1
    assert told[0].endswith(f": {named}")
    plain = fl.load(mjcf(body(f'<joint name="j"/>{GEOM}')))
    assert plain.notes == ()


def test_bodies_with_gravcomp_mocap_and_ball_limits_are_on_the_card():
    ball = f'<joint name="j" type="ball" range="0 90"/>{GEOM}'
    model = fl.load(mjcf(body(ball, attributes='gravcomp="1"') + body("", "m", 'mocap="true"')))
    assert "warning: gravity compensation (gravcomp) is not applied: b" in model.notes
    assert "mocap bodies are fixed: m" in model.notes
    assert "limits of ball joints are not kept: j" in model.notes
    assert model.frame("m").body == WORLD


# Roots


FREE = mjcf(
    body(f'<freejoint name="f"/>{GEOM}' + body(f'<joint name="k"/>{GEOM}', "c"), attributes=PLACED)
)
STILL = mjcf(body(GEOM + body(f'<joint name="k"/>{GEOM}', "c"), attributes=PLACED))


def kinds(model):
    return tuple(joint.type for joint in model.joints)


def test_the_root_is_the_files_or_replaced():
    assert fl.load(FREE).root == "free"
    assert fl.load(STILL).root == "fixed"
    assert fl.load(FREE, root="free").joint_names == ("f", "k")
    for text in (FREE, STILL):
        assert kinds(fl.load(text, root="fixed")) == ("revolute",)
        assert kinds(fl.load(text, root="free")) == ("free", "revolute")
        assert kinds(fl.load(text, root="planar")) == ("planar", "revolute")
        split = fl.load(text, root="free-split")
        assert kinds(split) == ("translation", "spherical", "revolute")
        assert split.root == "free-split"
        assert "world" in split.frame_names
        own = fl.load(text, root=Joint("slide", "prismatic", WORLD))
        assert own.joint_names == ("slide", "k")


def test_a_root_is_as_good_as_the_files_own():
    fixed, still = fl.load(FREE, root="fixed"), fl.load(STILL)
    assert (fixed.joints, fixed.bodies, fixed.frames) == (still.joints, still.bodies, still.frames)
    own, put = fl.load(FREE), fl.load(STILL, root="free")
    assert own.bodies == put.bodies
    assert own.joints[1] == put.joints[1]
    check_dynamics(put, peer_of(FREE))


def refused(text, *told, **options):
    with pytest.raises(fl.ModelError) as caught:
        fl.load(text, **options)
    message = str(caught.value)
    assert "\n" not in message
    for part in told:
        assert part in message, message


def test_roots_that_cannot_be():
    two = mjcf(body(f"<freejoint/>{GEOM}", "a") + body(f"<freejoint/>{GEOM}", "c"))
    assert kinds(fl.load(two)) == ("free", "free")
    assert fl.load(two).root == "fixed"
    refused(two, "root='planar'", "'a', 'c'", root="planar")
    refused(two, "root='fixed'", "'a', 'c'", root="fixed")
    refused("<mujoco/>", "root='free'", "none", root="free")
    refused(MODELS["hinge"], "line 1", "body 'b'", "'j'", "without joints", root="free")
    assert kinds(fl.load(MODELS["hinge"], root="fixed")) == ("revolute",)


# Equalities


def couple(*equalities):
    inside = "".join(
        body(f'<joint name="{j}" ref="{ref}" type="slide"/>{GEOM}', j)
        for j, ref in (("x", 0.3), ("y", -0.2), ("z", 0))
    )
    return mjcf(inside, f"<equality>{''.join(equalities)}</equality>")


def test_joints_that_follow_others():
    line = '<joint joint1="y" joint2="x" polycoef=".1 -2 0 0 0"/>'
    model = fl.load(couple(line, '<joint joint1="z" joint2="y"/>'))
    by_name = {joint.name: joint.mimic for joint in model.joints}
    assert model.nq == 1
    assert by_name["x"] is None
    # y + 0.2 = 0.1 - 2 (x - 0.3), z = y + 0.2
    np.testing.assert_allclose(by_name["y"][1:], (-2, 0.5))
    np.testing.assert_allclose(by_name["z"][1:], (-2, 0.7))
    assert any("softly" in note and "joint equality0 (y, x)" in note for note in model.notes)


def test_mimic_is_what_mujoco_converges_to():
    text = couple('<joint joint1="y" joint2="x" polycoef=".1 -2 0 0 0" solref=".01 1"/>')
    model, peer = fl.load(text), mujoco.MjModel.from_xml_string(text)
    assert model.joints[1].mimic == Mimic("x", -2.0, pytest.approx(0.5))
    data = mujoco.MjData(peer)
    for y, settled in ((-2 * 0.4 + 0.5, True), (-2 * 0.4 + 0.6, False)):
        data.qpos[:2] = 0.4, y
        mujoco.mj_forward(peer, data)
        assert (abs(data.efc_pos[0]) < 1e-12) == settled


def test_followers_project_the_dynamics():
    line = '<equality><joint joint1="j" joint2="k" polycoef=".1 -2 0 0 0"/></equality>'
    text = mjcf(body(f'<joint name="j"/>{GEOM}' + body(f'<joint name="k"/>{GEOM}', "c", OFF)), line)
    model, kept = fl.load(text), fl.load(text, mimic="keep")
    assert (model.nv, kept.nv) == (1, 2)
    assert any('mimic="keep"' in note for note in kept.notes)
    k = np.array([[0.3]])
    both, G = np.array([[0.1 - 2 * 0.3, 0.3]]), np.array([[-2.0], [1.0]])
    M = run(algorithms.mass_matrix, kept, both)[0]
    close(run(algorithms.mass_matrix, model, k)[0], G.T @ M @ G)


def test_a_second_leader_is_told():
    both = '<joint name="{}" joint1="y" joint2="{}"/>'
    model = fl.load(couple(both.format("e", "x"), both.format("f", "z")))
    assert model.nq == 2
    assert any("linear relations" in n and n.endswith("joint f (y, z)") for n in model.notes)


def test_equalities_switched_off_are_ignored():
    off = '<option><flag equality="disable"/></option>'
    model = fl.load(
        couple('<joint joint1="y" joint2="x"/>').replace("<worldbody>", f"{off}<worldbody>")
    )
    assert model.nq == 3
    assert any("inactive" in note for note in model.notes)


LOOP = body(f'<joint name="j"/>{GEOM}', "a") + body(f'<joint name="k"/>{GEOM}<site name="s"/>', "c")
CLOSED = {
    '<connect name="e" body1="a" body2="c" anchor="0 0 0"/>': "connect e (a, c)",
    '<weld body1="a" body2="c"/>': "weld equality0 (a, c)",
    '<weld body1="a"/>': "weld equality0 (a, world)",
}


@pytest.mark.parametrize("constraint", CLOSED)
def test_loops_are_refused_or_dropped(constraint):
    text = mjcf(LOOP, f"<equality>{constraint}</equality>")
    refused(text, "<text>", CLOSED[constraint], 'loops="drop"')
    model = fl.load(text, loops="drop")
    assert model.nv == 2
    assert any(n.startswith("warning") and n.endswith(CLOSED[constraint]) for n in model.notes)
    assert sum(CLOSED[constraint] in note for note in model.notes) == 1
    inactive = text.replace(constraint, constraint.replace("/>", ' active="false"/>'))
    assert any("inactive" in note for note in fl.load(inactive).notes)


HELD = [  # at qpos0 + 0.2
    '<joint name="e" joint1="k" polycoef=".2 1 0 0 0"/>',
    '<joint joint1="k" joint2="j" polycoef=".2 0 0 0 0"/>',
]


@pytest.mark.parametrize("loops", ["refuse", "drop"])
@pytest.mark.parametrize("kind", ["hinge", "slide"])
@pytest.mark.parametrize("constraint", HELD)
def test_equalities_that_hold_a_joint_lock_it(constraint, kind, loops):
    """The robot of MuJoCo with this joint there, and of fl.load with the joint locked."""
    joint = f'<joint name="k" type="{kind}" axis="1 2 3" pos=".1 .2 .3" ref=".5"/>'
    tree = body(f'<joint name="j"/>{GEOM}' + body(joint + GEOM, "c", OFF), "a")
    radian = '<compiler angle="radian"/>'
    text = mjcf(tree, radian)
    model = fl.load(mjcf(tree, f"{radian}<equality>{constraint}</equality>"), loops=loops)
    free = fl.load(text)
    assert model.joint_names == ("j",)
    assert any("equalities hold" in n and n.endswith(": k at 0.7") for n in model.notes)
    locked = free.reduced({"k": 0.7})
    q, v = np.array([0.3]), np.array([1.0])
    close(model.forward_dynamics(q, v, v), locked.forward_dynamics(q, v, v))
    m = mujoco.MjModel.from_xml_string(text)
    d = mujoco.MjData(m)
    d.qpos[:] = 0.3, 0.7
    mujoco.mj_kinematics(m, d)
    close(model.frame_placement(q, "c")[:3, 3], d.body("c").xpos)
    close(model.frame_placement(q, "c")[:3, :3], d.body("c").xmat.reshape(3, 3))


def test_followers_of_a_held_joint_are_held():
    line = '<joint joint1="y" joint2="x" polycoef="1 2 0 0 0"/><joint joint1="x" polycoef=".5"/>'
    model = fl.load(couple(line))
    assert model.joint_names == ("z",)
    assert any(note.endswith("with their followers: x at 0.8") for note in model.notes)
    free = fl.load(couple())  # y + 0.2 = 1 + 2 * 0.5
    q = free.neutral()
    q[[free.joint_names.index("x"), free.joint_names.index("y")]] = 0.8, 1.8
    for name in "xy":
        close(model.frame_placement([0.0], name), free.frame_placement(q, name))
    assert fl.load(couple(line), mimic="keep").joint_names == ("y", "z")
    both = '<joint joint1="y" joint2="x"/><joint name="e" joint1="y" polycoef=".5"/>'
    refused(couple(both), "joint e (y)", 'loops="drop"')
    assert fl.load(couple(both), loops="drop").nq == 2


def test_soft_bodies_are_refused_or_dropped():
    soft = '<flexcomp name="cloth" type="grid" count="3 3 1" spacing=".1 .1 .1" dim="2" mass="1"/>'
    refused(mjcf(soft), "flex cloth", 'loops="drop"')
    assert fl.load(mjcf(soft), loops="drop").nv > 0


def test_loops_must_be_one_of_three():
    with pytest.raises(ValueError, match="loops is 'ignore'; wanted one of 'refuse', 'keep'"):
        fl.load(MODELS["hinge"], loops="ignore")


# What cannot be read


BAD = {
    mjcf('\n<body pos="1 x 3"/>'): ("line 2", "'body'", "'pos'"),
    mjcf('\n\n<body name="b"><joint foo="1"/></body>'): ("line 3", "'joint'", "'foo'"),
    mjcf(body("<joint/>")): ("line 1", "'b'", "mass and inertia"),
    mjcf(body(f'<joint axis="0 0 0"/>{GEOM}')): ("line 1", "axis too small"),
    mjcf(body(f"<joint/>{GEOM}", "a") * 2): ("line 1", "repeated name 'a'"),
    mjcf(body(f"<joint/>{GEOM}", attributes='pos="nan 0 0"')): ("line 1", "'b'", "pos", "nan"),
    mjcf(body(f"<joint/>{GEOM}", attributes='pos="inf 0 0"')): ("line 1", "'b'"),
    mjcf(body(GEOM + body(f"<freejoint/>{GEOM}", "c"))): ("line 1", "free joint", "top level"),
    mjcf(
        body('<joint/><geom type="mesh" mesh="m"/>'),
        '<asset><mesh name="m" file="foo.stl"/></asset>',
    ): (
        "foo.stl",
        "body 'b' has no <inertial>",
    ),
    '<mujoco><include file="nothere.xml"/></mujoco>': ("line 1", "nothere.xml", "by its path"),
    mjcf(body(f"<joint/>{GEOM}"))[:-4]: ("line 1", "not well-formed"),
    mjcf(f'<replicate count="1000000000">{body(GEOM)}</replicate>'): (
        "line 1",
        "<replicate>",
        "3e+09 elements",
    ),
    mjcf('<replicate count="9999">' * 2 + body(GEOM) + "</replicate>" * 2): (
        "<replicate>",
        "e+08 elements",
    ),
    mjcf("", '<asset><hfield name="h" nrow="99999" ncol="99999" size="1 1 1 1"/></asset>'): (
        "hfield 'h'",
        "nrow '99999', ncol '99999'",
    ),
    mjcf('<flexcomp name="f" type="grid" count="9999 9999 9" spacing="1 1 1"/>'): ("flexcomp 'f'",),
    mjcf("<body><geom size='.1'/>" * 3000 + "</body>" * 3000): ("line 1", "nested too deeply"),
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_what_mujoco_refuses_is_a_model_error(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(text, "<text>", *BAD[text])
    refused(text.encode(), *BAD[text])
    path = tmp_path / "robot.xml"
    path.write_text(text)
    refused(path, "robot.xml", *BAD[text])
    assert [file.name for file in tmp_path.iterdir()] == ["robot.xml"]  # and no log of MuJoCo's


def test_a_part_of_a_file_is_refused():
    refused(f"<mujocoinclude>{body(GEOM)}</mujocoinclude>", "load the file that includes it")


def test_files_beside_the_robot_are_found(tmp_path, monkeypatch):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "arm.xml").write_text(
        "<mujoco>" + body(f'<joint name="j"/>{GEOM}') + "</mujoco>"
    )
    (tmp_path / "robot.xml").write_text(mjcf('<include file="parts/arm.xml"/>'))
    monkeypatch.chdir("/")
    model = fl.load(tmp_path / "robot.xml")
    assert (model.name, model.joint_names) == ("robot", ("j",))
    close(model.mass, peer_of(tmp_path / "robot.xml").body_mass.sum())


@pytest.mark.skipif(mujoco.__version__ < "4", reason="older ones do not warn of it")
def test_mujocos_warnings_are_on_the_card(capfd):
    model = fl.load(mjcf(body(f'<joint name="j" armature="-5"/>{GEOM}')))
    assert any(note.startswith("warning: MuJoCo: Inertia matrix") for note in model.notes)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("module", [None, SimpleNamespace(__version__="3.1.0")])
def test_without_mujoco(monkeypatch, module):
    monkeypatch.setitem(sys.modules, "mujoco", module)
    refused(MODELS["hinge"], "<text>", "pip install 'featherlane[mjcf]'")


def nested(count):
    return mjcf("<body><joint/><geom size='.1'/>" * count + "</body>" * count)


@pytest.mark.parametrize("count", [600, 5000])
def test_chains_deeper_than_mujoco_reads(count):
    refused(nested(count), "nested too deeply")


@pytest.mark.parametrize(
    ("prologue", "encoding"),
    [
        ('<?xml version="1.0" encoding="utf-8"?>\n', "utf-8-sig"),
        ('<?xml version="1.0" encoding="us-ascii"?>\n', "ascii"),
        ("\n  ", "utf-8"),
    ],
)
def test_deep_documents_of_plain_encodings(prologue, encoding):
    assert fl.load((prologue + nested(300)).encode(encoding)).nv == 300


BOMB = '<!DOCTYPE m [<!ENTITY a "0"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    ("prologue", "encoding"),
    [
        (BOMB, "utf-8"),
        (BOMB, "utf-16"),
        ("<!DOCTYPE mujoco>", "utf-8"),
        ('<?xml version="1.0" encoding="UTF-7"?>' + BOMB.replace("<!", "+ADwAIQ-"), "utf-8"),
    ],
)
def test_deep_documents_that_may_declare_entities_are_refused(prologue, encoding):
    with pytest.raises(fl.ModelError) as caught:
        fl.load((prologue + nested(300)).encode(encoding))
    assert "XML_PARSE" not in str(caught.value)
    assert any(word in str(caught.value) for word in ("nested too deeply", "not well-formed"))


@pytest.mark.parametrize("depth", repeated([True, False]))
def test_large_robots(depth):
    count = 490 if depth else 2000
    bodies = [f'<body name="b{i}"><joint name="j{i}"/><geom size=".1"/>' for i in range(count)]
    inside = "".join(bodies) + "</body>" * count if depth else "</body>".join(bodies) + "</body>"
    model = fl.load(mjcf(inside))
    assert model.nv == count
    assert "j489" in model.joint_names
    assert str(model)
