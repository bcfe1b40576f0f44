"""Robots changed: the dynamics of the new one are those of the old, or of a part of it."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose, assert_array_equal
from repetition import full, repeated

import featherlane as fl
from featherlane import convert, editing
from featherlane.api.random_robots import random_rotation
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.parts import WORLD, Body, Frame, Placement
from featherlane.robot.quaternions import matrix_quaternion

BATCH = 4
EVERY = ("free", *(name for name in JOINT_TYPES if name != "free"), "free", "revolute")
PARENTS = (-1, 0, 1, 2, 1, 4, 5, 6, 5, 8, 3)
TURNED = {"spherical", "planar", "free"}  # types whose physics may depend on the direction


def framed(model, seed=5):
    """With frames off the bodies' origins, and one on the ground."""
    rng = np.random.default_rng(seed)
    places = [Placement.of(random_rotation(rng), rng.normal(size=3)) for _ in range(4)]
    bodies = (WORLD, 0, model.nbodies // 2, model.nbodies - 1)
    tools = (Frame(f"tool{k}", *at) for k, at in enumerate(zip(bodies, places, strict=True)))
    return replace(model, frames=(*model.frames, *tools))


def every_type(mimic=None, physics=True, seed=2):
    return framed(textbook.tree(EVERY, PARENTS, seed, physics, mimic))


def states(model, batch=BATCH, seed=0):
    v, a = np.random.default_rng(seed).normal(size=(2, batch, model.nv))
    return model.random_configuration(batch, seed=seed), v, a


def entries(model, names):
    """The entries of v of joints by name."""
    return [k for name in names for k in model.dofs[model.joint_names.index(name)]]


def frame_poses(model, q):
    """R, p of every frame in the world, by name."""
    bodies = {WORLD: (np.eye(3), np.zeros(3))} | dict(enumerate(textbook.poses(model, q)))
    result = {}
    for name, body, place in model.frames:
        R, p = bodies[body]
        result[name] = R @ np.array(place.R), p + textbook.times(R, np.array(place.p))
    return result


def same_frames(one, q1, other, q2, tolerance=1e-12):
    first, second = frame_poses(one, q1), frame_poses(other, q2)
    assert list(first) == list(second)
    for name in first:
        for x, y in zip(first[name], second[name], strict=True):
            assert_allclose(np.broadcast_to(x, y.shape), y, rtol=0, atol=tolerance)


def close(x, wanted, tolerance=1e-12):
    assert x.shape == wanted.shape
    assert_allclose(x, wanted, rtol=0, atol=tolerance * max(np.abs(wanted).max(), 1))


def dynamics_are_pinocchios(pin, model, peer, q, v, a):
    """Inverse dynamics and M of an edited robot are those of Pinocchio's edit."""
    change, data = convert.pinocchio(model, peer), peer.createData()
    there, tau, M = change.to(q, v=v, a=a), textbook.rnea(model, q, v, a), model.mass_matrix(q)
    for k in range(len(q)):
        expected = pin.rnea(peer, data, there.q[k], there.v[k], there.a[k])
        close(change.to(q[k], tau=tau[k]).tau, expected, 1e-10)
        upper = np.triu(pin.crba(peer, data, there.q[k]))
        close(change.to(q[k], M=M[k]).M, upper + np.triu(upper, 1).T, 1e-10)


# Joints locked


def spread(full, part, lock, q):
    """q (..., nq) of the robot that has all joints, from that of the one with some locked."""
    result = np.empty((*q.shape[:-1], full.nq))
    for i in full.independent:
        name, k, n = full.joints[i].name, full.first_q[i], full.types[i].nq
        if name in lock:
            own = full.types[i].neutral if lock[name] is None else lock[name]
        else:
            first = part.first_q[part.joint_names.index(name)]
            own = q[..., first : first + n]
        result[..., k : k + n] = own
    return result


def check_reduced(full, lock):
    part = full.reduced(lock)
    q, v, a = states(part)
    whole = spread(full, part, lock, q)
    kept = entries(full, [part.joints[i].name for i in part.independent])
    v_all, a_all = np.zeros((2, BATCH, full.nv))
    v_all[:, kept], a_all[:, kept] = v, a
    close(textbook.rnea(part, q, v, a), textbook.rnea(full, whole, v_all, a_all)[:, kept])
    close(textbook.mass_matrix(part, q), textbook.mass_matrix(full, whole)[:, kept][:, :, kept])
    same_frames(part, q, full, whole)
    assert_allclose(part.mass + part.ground_mass, full.mass + full.ground_mass)
    return part


POSITIONS = {
    "universal": (0.3, -1.1),
    "cylindrical": (0.8, 0.2),
    "translation": (0.1, -0.2, 0.3),
    "planar": (0.4, 0.1, 2.0),
    "spherical": (0.4, -0.2, 0.1, 0.7),
    "free": (1.0, 2.0, -0.5, 0.1, 0.7, -0.3, 0.2),
}


@pytest.mark.parametrize("number", range(len(EVERY)))
def test_a_locked_joint_of_every_type_in_every_place(number):
    full, kind = every_type(), EVERY[number]
    part = check_reduced(full, {f"joint{number}": POSITIONS.get(kind, 0.7)})
    assert part.nv == full.nv - JOINT_TYPES[kind].nv
    assert f"joint{number}" not in part.joint_names
    assert any(f"joint{number} at " in note for note in part.notes)


def test_many_joints_locked_some_on_others():
    full = every_type()
    for locked in ((0, 1, 2), (1, 4, 5, 9), (2, 3, 10), tuple(range(1, 11))):
        lock = {f"joint{i}": POSITIONS.get(EVERY[i], (-0.4,)) for i in locked}
        part = check_reduced(full, lock)
        assert part.nbodies == full.nbodies - len(locked)
    assert check_reduced(full, {"joint5": None, "joint9": None}).nbodies == 9


def test_the_ground_takes_what_rests():
    full = replace(every_type(), ground=Body("", 2.0))
    part = check_reduced(full, {"joint0": POSITIONS["free"]})
    assert part.ground_mass == pytest.approx(2.0 + full.bodies[0].mass)
    assert "came to rest on the ground" in str(part)
    assert [frame.body for frame in part.frames if frame.name in ("body0", "tool1")] == [WORLD] * 2


def test_followers_stand_still_with_their_leader():
    full = every_type({1: 3, 10: 3})  # before it and behind it
    part = check_reduced(full, {"joint3": 0.6})
    assert part.nbodies == full.nbodies - 3
    check_reduced(full, {"joint2": 0.6})  # and go on moving with it where others are locked
    with pytest.raises(ValueError, match=r"'joint1' has no position.*lock 'joint3'"):
        full.reduced({"joint1": 0.0})


@pytest.mark.parametrize(
    ("name", "root", "locked"),
    [("iiwa14", "fixed", [2, 6]), ("hyq", "free", [2, 3, 9]), ("mobile_arm", "fixed", [1, -1])],
)
def test_pinocchio_reduces_robots_alike(name, root, locked):
    pin = pytest.importorskip("pinocchio")
    full = fl.load(name, root=root).with_physics(0.0, 0.0, 0.0)
    lock = {full.joint_names[i]: 0.3 - 0.1 * i for i in locked}
    path = Path(fl.__file__).parent / "robot/bundled" / f"{name}.urdf"
    free = [pin.JointModelFreeFlyer()] if root == "free" else []
    peer = pin.buildModelFromUrdf(str(path), *free)
    posed = pin.neutral(peer)
    for joint, x in lock.items():
        posed[peer.joints[peer.getJointId(joint)].idx_q] = x
    peer = pin.buildReducedModel(peer, [peer.getJointId(joint) for joint in lock], posed)
    part = full.reduced(lock)
    dynamics_are_pinocchios(pin, part, peer, *states(part))


def test_the_root_that_is_left():
    split = fl.load("double_pendulum", root="free-split")
    slide, ball = split.joint_names[:2]
    free = fl.load("double_pendulum", root="free")
    assert split.reduced({slide: None}).root == "spherical"
    assert split.reduced({ball: None}).root == "translation"
    assert split.reduced({slide: None, ball: None}).root == "fixed"
    assert free.reduced({"root_joint": None}).root == "fixed"
    assert free.reduced({free.joint_names[-1]: 0.1}).root == "free"
    assert free.reduced(dict.fromkeys(free.joint_names)).nv == 0


def test_wrong_positions_are_refused(iiwa, pendulum):
    with pytest.raises(ValueError, match=r"no joint 'iiwa_joint_33'.* among others, iiwa_joint_3"):
        iiwa.reduced({"iiwa_joint_33": 0.0})
    with pytest.raises(ValueError, match="wanted a number"):
        iiwa.reduced({"iiwa_joint_3": (0.0, 1.0)})
    with pytest.raises(ValueError, match="wanted finite"):
        iiwa.reduced({"iiwa_joint_3": np.inf})
    with pytest.raises(ValueError, match=r"shape \(\): wanted 7 numbers, q = \[x y z, qx"):
        pendulum.reduced({"root_joint": 0.0})
    with pytest.raises(ValueError, match="quaternion of length 0"):
        pendulum.reduced({"root_joint": np.zeros(7)})
    with pytest.raises(TypeError, match="lock is list"):
        iiwa.reduced(["iiwa_joint_3"])
    with pytest.raises(TypeError, match="'far'"):
        iiwa.reduced({"iiwa_joint_3": "far"})


def test_degrees_for_radians_are_seen(iiwa):
    part = iiwa.reduced({"iiwa_joint_3": 90.0})
    assert any(n.startswith("warning: locked beyond its limits: iiwa_joint_3") for n in part.notes)
    assert not any(n.startswith("warning") for n in iiwa.reduced({"iiwa_joint_3": 1.5}).notes)
    assert iiwa.reduced({}) == iiwa


# Another root


def check_rerooted(model, body, tolerance=1e-11):
    change = editing.rerooting(model, body)
    new = change.model
    q, v, a = states(model)
    tau, M = textbook.rnea(model, q, v, a), textbook.mass_matrix(model, q)
    there = change.to(q, v, a, tau, M)
    close(textbook.rnea(new, there.q, there.v, there.a), there.tau, tolerance)
    close(textbook.mass_matrix(new, there.q), there.M, tolerance)
    close(textbook.energy(new, there.q, there.v), textbook.energy(model, q, v), tolerance)
    same_frames(new, there.q, model, q, tolerance)
    back = change.back(*there[:5])
    close(model.difference(q, back.q), np.zeros_like(v), tolerance)
    for x, y in zip(back[1:5], (v, a, tau, M), strict=True):
        close(x, y, 10 * tolerance)
    return new, there


@full
@pytest.mark.parametrize("kind", JOINT_TYPES)
def test_a_joint_of_every_type_reversed(kind):
    """In the middle of the path, and at its end."""
    model = framed(textbook.tree(["free", "revolute", kind, "revolute"], seed=3))
    for body in ("body3", "body2"):
        new, _ = check_rerooted(model, body)
        assert new.bodies[0].name == body
        assert new.joints[0].name == "joint0"
        assert sorted(new.joint_names) == sorted(model.joint_names)


def test_trees_of_every_type_from_the_ends_of_three_branches():
    """Each joint is on one of the paths, and beside the others."""
    model = every_type(physics=False)
    for body in ("body7", "body9", "body10"):
        check_rerooted(model, body)


def test_followers_and_leaders_on_the_path_and_off_it():
    model = framed(
        textbook.tree(
            ["free", "revolute", "prismatic", "universal", "helical", "revolute"],
            [-1, 0, 1, 2, 2, 0],
            physics=True,
            mimic={2: 5, 4: 1},
        )
    )
    joints = (replace(model.joints[0], armature=(), damping=(), friction=()), *model.joints[1:])
    model = replace(model, joints=joints)
    for body in ("body3", "body4", "body5"):
        new, _ = check_rerooted(model, body)
        assert {j.name: j.mimic for j in new.joints} == {j.name: j.mimic for j in model.joints}


def test_atlas_from_the_middle_of_its_waist():
    """Dadu-RBD, figure 11: the tree is 9 deep, no longer 11."""

    def depth(model):
        found = []
        for parent in model.parent:
            found.append(1 if parent == WORLD else found[parent] + 1)
        return max(found)

    atlas = fl.load("atlas", root="free")
    new, _ = check_rerooted(atlas, "mtorso")
    assert (depth(atlas), depth(new)) == (11, 9)
    assert depth(new) == min(depth(atlas.rerooted(body)) for body in atlas.body_names)
    assert new.bodies[0].name == "mtorso"
    assert "seen from body mtorso: these joints are reversed: back_bkz, back_bky" in str(new)
    turned = new.joints[new.joint_names.index("back_bkz")]
    assert turned.axis == (0.0, 0.0, -1.0)
    assert (turned.lower, turned.upper) == (atlas.joints[1].lower, atlas.joints[1].upper)


def test_a_quadruped_falls_alike_from_its_foot():
    """Forward dynamics, compiled; and wrenches at frames are the same for both."""
    hyq = fl.load("hyq", root="free")
    change = editing.rerooting(hyq, hyq.body_names[-1])
    q, v, _ = states(hyq)
    tau = np.random.default_rng(1).normal(size=v.shape)
    push = {hyq.frame_names[0]: np.arange(6.0)}
    there = change.to(q, v, tau=tau)
    a = hyq.forward_dynamics(q, v, tau, push)
    wanted = change.to(q, v, a).a
    close(change.model.forward_dynamics(there.q, there.v, there.tau, push), wanted, 1e-9)


def test_a_tree_among_others_on_a_free_joint_of_its_own():
    kinds = ["revolute", "free", "spherical", "prismatic", "helical"]
    model = framed(textbook.tree(kinds, [-1, -1, 1, 0, 2], seed=4))
    new, _ = check_rerooted(model, "body4")
    assert new.joint_names == ("joint0", "joint3", "joint1", "joint4", "joint2")
    assert new.bodies[2].name == "body4"
    assert model.rerooted("body1") is model
    with pytest.raises(ValueError, match="'body3' is in a tree on the revolute joint 'joint0'"):
        model.rerooted("body3")


def test_bodies_that_cannot_be_the_root(iiwa):
    atlas = fl.load("atlas", root="free")
    with pytest.raises(ValueError, match="'left_palm' is a frame on 'l_hand': wanted the name of"):
        atlas.rerooted("left_palm")
    with pytest.raises(ValueError, match=r"no body 'mtors' \(did you mean 'mtorso'"):
        atlas.rerooted("mtors")
    with pytest.raises(ValueError, match='load it with root="free"'):
        iiwa.rerooted(iiwa.body_names[-1])


def with_figures(kind, **figures):
    model = textbook.tree(["free", kind, "revolute"])
    joints = (model.joints[0], replace(model.joints[1], **figures), model.joints[2])
    return replace(model, joints=joints)


@pytest.mark.parametrize(
    ("kind", "figures"),
    repeated(
        [
            ("spherical", {"armature": (0.2, 0.2, 0.2), "damping": (0.3, 0.3, 0.3)}),
            ("universal", {"lower": (-1.0, 0.2), "upper": (1.0, 0.4)}),
            ("translation", {"armature": (0.2, 0.3, 0.4), "damping": (0.3, 0.1, 0.2)}),
            (
                "translation",
                {"friction": (0.2, 0.3, 0.4), "lower": (-1, -2, -3), "upper": (4, 5, 6)},
            ),
            ("universal", {"friction": (0.2, 0.3), "damping": (0.1, 0.6), "armature": (0.4, 0.1)}),
            (
                "cylindrical",
                {"friction": (0.2, 0.3), "damping": (0.1, 0.6), "armature": (0.4, 0.1)},
            ),
        ],
        2,
    ),
)
def test_physics_and_limits_that_both_bodies_see(kind, figures):
    """The limits hold for a configuration of one where they do for that of the other."""
    model = with_figures(kind, **figures)
    new, there = check_rerooted(model, "body2")
    assert not any("dropped" in note for note in new.notes)
    if "lower" in figures:
        joint = new.joints[new.joint_names.index("joint1")]
        k = new.first_q[new.joint_names.index("joint1")]
        own = there.q[:, k : k + joint.kind.nq]
        assert (own >= joint.lower).all()
        assert (own <= joint.upper).all()


@pytest.mark.parametrize(
    ("kind", "figures"),
    repeated(
        [
            ("spherical", {"friction": (0.2, 0.2, 0.2)}),
            ("spherical", {"damping": (0.2, 0.2, 0.3)}),
            ("planar", {"armature": (0.2, 0.2, 0.2)}),
            ("free", {"damping": (0.2,) * 6}),
        ]
    ),
)
def test_physics_that_depend_on_the_body_are_refused(kind, figures):
    (what,) = figures
    with pytest.raises(ValueError, match=f"'joint1' is {kind} and has {what} .*with_physics"):
        with_figures(kind, **figures).rerooted("body2")
    check_rerooted(with_figures(kind, **figures).with_physics(0.0, 0.0, 0.0), "body2")


def test_limits_that_only_one_body_sees_are_dropped_and_told():
    model = with_figures("planar", lower=(-1.0, -1.0, -2.0), upper=(1.0, 1.0, 2.0))
    new, _ = check_rerooted(model, "body2")
    assert new.joints[2].lower == ()
    assert new.notes[-1].startswith("limits dropped")
    assert new.notes[-1].endswith("joint1")


def test_states_in_any_shape_and_float32():
    model = textbook.tree(["free", "spherical", "universal"])
    change = editing.rerooting(model, "body2")
    q, v, _ = states(model, 6)
    batch = change.to(q, v)
    one = change.to(q[0], v[0])
    assert_allclose(one.q, batch.q[0], atol=1e-14)  # NumPy's products: equal to rounding only
    assert_allclose(one.v, batch.v[0], atol=1e-14)
    grid = change.to(q.reshape(2, 3, -1), v[0], tau=v.reshape(2, 3, -1))
    assert grid.q.shape == (2, 3, model.nq)
    assert grid.v.shape == grid.tau.shape == (2, 3, model.nv)
    assert change.to(q[0], v, v).a.shape == (6, model.nv)
    single = change.to(q.astype(np.float32), v.astype(np.float32), v.astype(np.float32))
    assert single.q.dtype == single.v.dtype == single.a.dtype == np.float32
    assert_allclose(single.v, batch.v, atol=2e-5)
    assert change.to(q)[1:] == (None,) * 9


def test_states_that_are_no_states_are_refused():
    change = editing.rerooting(textbook.tree(["free", "revolute"]), "body1")
    q, v, a = states(change.before)
    with pytest.raises(ValueError, match=r"v has shape \(4, 8\), wanted \(..., 7\)"):
        change.to(q, q)
    with pytest.raises(ValueError, match=r"M has shape \(4, 7\), wanted \(..., 7, 7\)"):
        change.to(q, M=v)
    with pytest.raises(ValueError, match="needed to convert a"):
        change.to(q, a=a)
    with pytest.raises(TypeError, match="float32 is not promoted silently"):
        change.to(q, v.astype(np.float32))


def test_quaternions_of_rotations_near_half_a_turn_too():
    rng = np.random.default_rng(0)
    given = rng.normal(size=(200, 4)) * rng.choice([1e-9, 1, 1], (200, 4))
    given /= np.linalg.norm(given, axis=-1, keepdims=True)
    found = matrix_quaternion(textbook.quaternion_matrix(given))
    sign = np.sign(np.sum(found * given, -1, keepdims=True))
    assert_allclose(found * sign, given, atol=1e-14)
    assert (found[:, 3] >= 0).all()


def test_a_trajectory_has_no_jumps_of_its_quaternion():
    """A root that turns over and over; the joint between the two stays within half a turn."""
    model = textbook.tree(["free", "revolute"])
    t = np.linspace(0, 20, 2001)[:, None]
    turn = np.concatenate([0 * t, 0 * t, np.sin(t / 2), np.cos(t / 2)], -1)
    start = model.neutral()
    q = np.concatenate([np.tile(start[:3], (2001, 1)), turn, np.sin(t)], -1)
    there = editing.rerooting(model, "body1").to(q).q
    assert np.abs(np.diff(there, axis=0)).max() < 0.05


# Names


def test_names_by_dict_and_by_function():
    model = every_type({1: 3})
    new = model.renamed({"joint3": "lead"}, lambda name: f"left/{name}", {"tool1": "tip"})
    assert new.joint_names[3] == "lead"
    assert new.joints[1].mimic.joint == "lead"
    assert new.body_names == tuple(f"left/{name}" for name in model.body_names)
    assert "tip" in new.frame_names
    assert "tool1" not in new.frame_names
    assert new.frame("tip")[1:] == model.frame("tool1")[1:]
    assert new.fingerprint == model.fingerprint
    assert new != model
    assert "joint3 -> lead" in str(new)
    swapped = model.renamed({"joint1": "joint3", "joint3": "joint1"})
    assert swapped.joints[1].name == "joint3"
    assert swapped.joints[1].mimic.joint == swapped.joints[3].name == "joint1"
    assert model.renamed() == model
    assert new.renamed(lambda name: name).notes == new.notes


def test_names_that_clash_or_are_none():
    model = every_type()
    with pytest.raises(ValueError, match="'joint1' and 'joint2' would both be named 'joint2'"):
        model.renamed({"joint1": "joint2"})
    with pytest.raises(ValueError, match="frames 'body0' and 'body1' would both be named 'x'"):
        model.renamed(frames=lambda name: "x")
    with pytest.raises(ValueError, match=r"no body 'bdy3' \(did you mean 'body3'"):
        model.renamed(bodies={"bdy3": "x"})
    with pytest.raises(ValueError, match="is empty"):
        model.renamed({"joint1": " "})
    with pytest.raises(TypeError, match="is 3: wanted a str"):
        model.renamed({"joint1": 3})
    with pytest.raises(TypeError, match="new names of joints are list"):
        model.renamed(["a"])


# Physics and gravity


def test_physics_per_degree_of_freedom():
    model = every_type({1: 3, 10: 3})
    rng = np.random.default_rng(0)
    armature, damping = rng.uniform(0, 1, (2, model.nv))
    new = model.with_physics(armature, damping, 0.3, 0.02)
    assert_array_equal(new.armature, armature)
    assert_array_equal(new.damping, damping)
    assert_array_equal(new.friction, np.full(model.nv, 0.3))
    assert new.friction_velocity == 0.02
    kept = model.with_physics(damping=0.0)
    assert_array_equal(kept.armature, model.armature)
    assert not kept.damping.any()
    assert kept.friction_velocity == model.friction_velocity
    assert model.with_physics() is model
    q, v, a = states(model)
    bare = textbook.rnea(model.with_physics(0.0, 0.0, 0.0), q, v, a)
    more = armature * a + damping * v + 0.3 * v / np.sqrt(v * v + 0.02**2)
    close(textbook.rnea(new, q, v, a), bare + more + textbook.turned_momentum(new, v))


def test_physics_that_cannot_be(pendulum):
    with pytest.raises(ValueError, match=r"shape \(9,\): wanted one number, or \(nv,\) = \(8,\)"):
        pendulum.with_physics(armature=np.zeros(pendulum.nq))
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="damping has entries that are negative or not finite"):
            pendulum.with_physics(damping=wrong)
    for wrong in (0.0, -1.0, np.inf, (1.0, 2.0)):
        with pytest.raises(ValueError, match="friction_velocity is"):
            pendulum.with_physics(friction_velocity=wrong)
    with pytest.raises(TypeError, match="'much'"):
        pendulum.with_physics(friction="much")


def test_a_rotor_that_was_all_the_inertia_is_missed():
    """The card warns of a joint that moves no inertia, and no longer where there is none."""
    model = replace(textbook.tree(["revolute", "revolute"]), notes=())
    model = replace(model, bodies=(model.bodies[0], Body("body1")))
    bare = model.with_physics(armature=0.0)
    assert any("move no mass" in note and "joint1" in note for note in bare.notes)
    assert not any("no mass" in note for note in bare.with_physics(armature=0.1).notes)


def test_gravity():
    model = every_type()
    moon = model.with_gravity((0.0, 1.0, -1.62))
    q, v, a = states(model)
    assert moon.gravity == (0.0, 1.0, -1.62)
    close(
        textbook.rnea(moon, q, v, a), textbook.rnea(replace(model, gravity=moon.gravity), q, v, a)
    )
    with pytest.raises(ValueError, match=r"gravity has shape \(\): wanted 3 numbers"):
        model.with_gravity(-9.81)
    with pytest.raises(ValueError, match="finite"):
        model.with_gravity((0, 0, np.nan))


# All edits


def test_edited_robots_are_robots():
    model = every_type(physics=False)
    edits = [
        model.reduced({"joint2": 0.1}),
        model.rerooted("body6"),
        model.renamed({"joint2": "elbow"}),
        model.with_physics(armature=0.5),
        model.with_gravity((0.0, 0.0, 0.0)),
    ]
    for new in edits:
        again = pickle.loads(pickle.dumps(new))
        assert type(new) is fl.Model
        assert again == new
        assert hash(again) == hash(new)
        assert new != model
        assert isinstance(str(new), str)
    assert len({*edits, model}) == 6
    back = edits[0].renamed({"joint1": "a"}).renamed({"a": "joint1"})
    assert back.joints == edits[0].joints


def test_edits_in_a_row():
    """Locked, then seen from elsewhere: as seen from elsewhere, then locked."""
    model = every_type(physics=False)
    one = model.reduced({"joint4": (0.4, 0.1)}).rerooted("body8")
    other = model.rerooted("body8").reduced({"joint4": (0.4, 0.1)})
    q, v, a = states(one)
    assert one.joint_names == other.joint_names
    close(textbook.rnea(one, q, v, a), textbook.rnea(other, q, v, a), 1e-11)
