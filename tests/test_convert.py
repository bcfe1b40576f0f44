"""To other libraries' conventions and back: by formula, and against the libraries themselves."""

import functools
import warnings
from dataclasses import replace

import numpy as np
import peer_models
import pytest
import textbook
from numpy.testing import assert_allclose

import featherlane as fl
from featherlane import algorithms, convert
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.parts import IDENTITY
from featherlane.robot.quaternions import quaternion_product, quaternion_turn

LIBRARIES = ("mujoco", "drake", "isaac", "isaac_link", "rbdl", "pinocchio")
LACKS = {
    "mujoco": {"helical"},
    "isaac": {"helical", "spherical", "planar"},
    "isaac_link": {"helical", "spherical", "planar"},
}
STEP = 1e-6


def robot(kinds, parents=None, seed=0, physics=False, mimic=None):
    """A random robot whose free joints, and planar ones, are where and as other libraries have
    them; universal joints turn about x, then y.
    """
    model = textbook.tree(kinds, parents, seed, physics, mimic)
    joints = []
    for joint in model.joints:
        if joint.type == "free":
            joint = replace(joint, placement=IDENTITY)
        if joint.type == "planar":
            joint = replace(joint, axis=(0.0, 0.0, 1.0))
        if joint.type == "universal":
            joint = replace(joint, axis=(1.0, 0.0, 0.0), axis2=(0.0, 1.0, 0.0))
        joints.append(replace(joint, friction=()))
    return replace(model, joints=tuple(joints))


def every_type(library, seed=1, physics=False):
    """A tree with all types that a library knows, the free joint at the root."""
    known = {*JOINT_TYPES} - LACKS.get(library, set()) - {"free"}
    kinds = ("free", *sorted(known), "revolute")
    return robot(kinds, (-1, 0, 1, 0, 3, 4, 3, 6, 7, 0)[: len(kinds)], seed, physics)


def scalars(x):
    return [x[..., i] for i in range(x.shape[-1])]


def run(algorithm, model, *inputs):
    """An algorithm on arrays (batch, n): results with the batch in front."""
    result = algorithm(model.tree, *map(scalars, inputs))
    batch = inputs[0].shape[0]

    def gather(x):
        if isinstance(x, list | tuple):
            return np.stack([gather(y) for y in x], 1)
        return np.broadcast_to(x, batch)

    return tuple(map(gather, result)) if isinstance(result, tuple) else gather(result)


@functools.cache
def everything(model, batch=3, seed=0):
    """A State of ours with every block, float64."""
    rng = np.random.default_rng(seed)
    q = model.random_configuration(batch, seed=rng)
    v, a = rng.normal(size=(2, batch, model.nv))
    tau = run(algorithms.rnea, model, q, v, a)
    dtau_dq, dtau_dv = run(algorithms.inverse_dynamics_derivatives, model, q, v, a)
    d = run(algorithms.forward_dynamics_derivatives, model, q, v, tau)
    return convert.State(q, v, a, tau, run(algorithms.mass_matrix, model, q), dtau_dq, dtau_dv, *d)


def to(library, model, state, **options):
    given = state._asdict()
    return getattr(convert, f"to_{library}")(model, given.pop("q"), **given, **options)


def back(library, model, state, **options):
    given = state._asdict()
    return getattr(convert, f"from_{library}")(model, given.pop("q"), **given, **options)


def close(x, wanted, tolerance=1e-11):
    assert x.shape == wanted.shape
    assert_allclose(x, wanted, rtol=0, atol=tolerance * max(np.abs(wanted).max(), 1e-3))


every_library = pytest.mark.parametrize("library", LIBRARIES)


# By formula


@every_library
def test_there_and_back_is_where_one_was(library):
    model = every_type(library, physics=True)
    ours = everything(model)
    theirs = to(library, model, ours)
    for x, y, name in zip(back(library, model, theirs), ours, ours._fields, strict=True):
        if name == "q":
            close(model.difference(y, x), np.zeros_like(ours.v))
        else:
            close(x, y, 1e-9)


@every_library
def test_power_energy_and_inverses_do_not_depend_on_coordinates(library):
    model = every_type(library)
    ours = everything(model)
    theirs = to(library, model, ours)
    close(np.sum(theirs.tau * theirs.v, -1), np.sum(ours.tau * ours.v, -1))
    energy = [np.einsum("bi,bij,bj->b", x.v, x.M, x.v) for x in (ours, theirs)]
    close(*energy)
    one = np.broadcast_to(np.eye(model.nv), theirs.M.shape)
    close(theirs.M @ theirs.da_dtau, one, 1e-8)
    close(theirs.da_dv, -theirs.da_dtau @ theirs.dtau_dv, 1e-7)
    close(theirs.da_dq, -theirs.da_dtau @ theirs.dtau_dq, 1e-7)


@every_library
def test_accelerations_are_rates_of_velocities(library):
    model = every_type(library)
    ours = everything(model)
    change = getattr(convert, library)(model)

    def velocity(t):
        """Along the motion with constant a that is at q and v when t is 0."""
        v = ours.v + t * ours.a
        return change.to(model.integrate(ours.q, t * (ours.v + v) / 2), v=v).v

    rate = (velocity(STEP) - velocity(-STEP)) / (2 * STEP)
    close(to(library, model, ours).a, rate, 1e-7)


@every_library
def test_derivatives_hold_the_other_librarys_variables_constant(library):
    """Central differences of their functions, made of ours and the conversion of q, v, a, tau."""
    model = every_type(library, physics=True)
    ours = everything(model, batch=1)
    change = getattr(convert, library)(model)
    theirs = to(library, model, ours)
    T, n = change.velocity_map(ours.q)[0], model.nv
    rows = [np.repeat(x, n, 0) for x in theirs[:4]]
    steps = STEP * np.eye(n)

    def tau(sign, what):
        q, v, a, _ = rows
        q = model.integrate(ours.q, sign * steps @ np.linalg.inv(T).T) if what == "q" else q
        q = change.to_q(q) if what == "q" else q
        here = change.back(q, v=v + sign * steps * (what == "v"), a=a)
        result = run(algorithms.rnea, model, *here[:3])
        return change.to(here.q, tau=result).tau

    def a(sign, what):
        q, v, _, tau = rows
        q = model.integrate(ours.q, sign * steps @ np.linalg.inv(T).T) if what == "q" else q
        q = change.to_q(q) if what == "q" else q
        here = change.back(q, v=v + sign * steps * (what == "v"), tau=tau)
        result = run(algorithms.factored_forward_dynamics, model, here.q, here.v, here.tau)
        return change.to(here.q, v=here.v, a=result).a

    for function, name in ((tau, "dtau"), (a, "da")):
        for what in "qv":
            found = (function(1, what) - function(-1, what)).T / (2 * STEP)
            close(getattr(theirs, f"{name}_d{what}")[0], found, 1e-6)


def rate_of_q(library, kind, seed=0):
    """dq/dt there, by differences, and q and v there, for a robot of one joint."""
    model = robot((kind,), seed=seed)
    rng = np.random.default_rng(seed)
    q, v = model.random_configuration(4, seed=rng), rng.normal(size=(4, model.nv))
    change = getattr(convert, library)(model)
    ahead, behind = (change.to_q(model.integrate(q, t * v)) for t in (STEP, -STEP))
    there = change.to(q, v=v)
    return (ahead - behind) / (2 * STEP), there.q, there.v, model


def half_product(a, b):
    """Half the product of a quaternion x y z w and a rotation rate, or of these."""
    as_quaternion = [np.pad(x, ((0, 0), (0, 4 - x.shape[-1]))) for x in (a, b)]
    return quaternion_product(*as_quaternion) / 2


def xyzw(wxyz):
    return np.roll(wxyz, -1, -1)


def test_mujocos_free_and_ball_joints():
    """qvel of a free joint: the rate of its position, and the rate of turn in the body's axes."""
    rate, q, v, _ = rate_of_q("mujoco", "free")
    close(rate[:, :3], v[:, :3], 1e-8)
    close(xyzw(rate[:, 3:]), half_product(xyzw(q[:, 3:]), v[:, 3:]), 1e-8)
    rate, q, v, _ = rate_of_q("mujoco", "spherical")
    close(xyzw(rate), half_product(xyzw(q), v), 1e-8)


def test_drakes_free_and_ball_joints():
    """Quaternion and position; angular then linear velocity, both in the world's axes."""
    rate, q, v, _ = rate_of_q("drake", "free")
    close(xyzw(rate[:, :4]), half_product(v[:, :3], xyzw(q[:, :4])), 1e-8)
    close(rate[:, 4:], v[:, 3:], 1e-8)
    rate, q, v, _ = rate_of_q("drake", "spherical")
    (_, p, y), zero = q.T, np.zeros(4)
    yaw = np.stack([zero, zero, np.sin(y / 2), np.cos(y / 2)], -1)
    axes = [np.eye(3)[[2] * 4], quaternion_turn(yaw, np.eye(3)[[1] * 4])]
    pitch = np.stack([zero, np.sin(p / 2), zero, np.cos(p / 2)], -1)
    axes.append(quaternion_turn(quaternion_product(yaw, pitch), np.eye(3)[[0] * 4]))
    close(sum(rate[:, 2 - k, None] * axis for k, axis in enumerate(axes)), v, 1e-8)


def test_isaacs_root():
    """The pose of the root link; its velocity at the centre of mass, or at the link's origin."""
    for library in ("isaac", "isaac_link"):
        rate, q, v, model = rate_of_q(library, "free")
        close(xyzw(rate[:, 3:]), half_product(v[:, 3:], xyzw(q[:, 3:])), 1e-8)
        com = np.array(model.bodies[0].com) if library == "isaac" else np.zeros(3)
        arm = quaternion_turn(xyzw(q[:, 3:]), np.broadcast_to(com, (4, 3)))
        close(rate[:, :3] + np.cross(v[:, 3:], arm), v[:, :3], 1e-8)


def test_rbdls_quaternions_end_last():
    rate, q, v, _ = rate_of_q("rbdl", "free")
    close(rate[:, :3], v[:, :3], 1e-8)
    close(rate[:, 3:], half_product(q[:, 3:], v[:, 3:]), 1e-8)
    model = robot(("free", "revolute", "spherical", "prismatic"))
    q = np.arange(1.0, 14.0)
    q[3:7], q[8:12] = (0.5, 0.5, -0.5, 0.5), (-0.5, 0.5, 0.5, -0.5)
    there = convert.to_rbdl(model, q).q
    assert there.tolist() == [1, 2, 3, 0.5, 0.5, -0.5, 8, -0.5, 0.5, 0.5, 13, 0.5, -0.5]
    assert_allclose(convert.from_rbdl(model, there).q, q, atol=1e-15)


@pytest.mark.parametrize("library", ["mujoco", "drake", "rbdl"])
def test_planar_joints_move_along_the_parents_axes(library):
    rate, _, v, _ = rate_of_q(library, "planar")
    close(rate, v, 1e-8)


# Order, sizes, types and errors


def test_isaacs_joints_are_breadth_first_or_as_named():
    model = robot(("free", "revolute", "prismatic", "revolute", "revolute"), (-1, 0, 1, 0, 3))
    tau = np.arange(10.0)
    assert convert.to_isaac(model, model.neutral(), tau=tau).tau[6:].tolist() == [6, 8, 7, 9]
    names = ["joint4", "joint2", "joint3", "joint1"]
    there = convert.to_isaac(model, model.neutral(), tau=tau, peer=names)
    assert there.tau[6:].tolist() == [9, 7, 8, 6]
    back = convert.from_isaac(model, there.q, tau=there.tau, peer=names)
    assert back.tau.tolist() == tau.tolist()


def test_derivatives_are_permuted_with_the_joints():
    model = robot(("revolute", "free", "planar", "prismatic"), (-1, 0, 0, 1))
    ours = everything(model)
    names = ["joint3", "joint1", "joint0", "joint2"]
    straight, permuted = to("drake", model, ours), to("drake", model, ours, peer=names)
    order = [10, *range(1, 7), 0, 7, 8, 9]
    assert_allclose(permuted.dtau_dq, straight.dtau_dq[:, order][:, :, order], atol=1e-12)
    close(back("drake", model, permuted, peer=names).da_dq, ours.da_dq, 1e-9)


def test_other_joints_are_refused():
    model = robot(("revolute", "prismatic"))
    with pytest.raises(ValueError, match=r"in one of the two models only, or .* elbow, joint1"):
        convert.to_drake(model, np.zeros(2), peer=["joint0", "elbow"])
    with pytest.raises(ValueError, match=r"elbow, joint1; model.renamed gives joints other names"):
        convert.to_drake(model, np.zeros(2), peer=["joint0", "elbow"])
    with pytest.raises(ValueError, match="named twice: joint1"):
        convert.to_drake(model, np.zeros(2), peer=["joint0", "joint1", "joint1"])
    follows = robot(("revolute", "prismatic"), mimic={1: 0})
    with pytest.raises(ValueError, match="joint1: mimic joints"):
        convert.to_mujoco(follows, np.zeros(1), peer=["joint0", "joint1"])
    with pytest.raises(ValueError, match="'joint1' is helical: MuJoCo has no such joint"):
        convert.mujoco(robot(("revolute", "helical")))


def test_what_is_missing_or_wrong_is_named():
    model = robot(("free",))
    q, v, M = model.neutral(), np.zeros(6), np.eye(6)
    with pytest.raises(ValueError, match=r"^a is converted with the help of v"):
        convert.to_mujoco(model, q, a=v)
    with pytest.raises(ValueError, match=r"dtau_dv .* M was not given"):
        convert.from_mujoco(model, q, v, dtau_dv=M)
    with pytest.raises(ValueError, match=r"v has shape \(7,\), wanted \(..., 6\)"):
        convert.to_mujoco(model, q, q)
    with pytest.raises(ValueError, match=r"M has shape \(6,\), wanted \(..., 6, 6\)"):
        convert.to_mujoco(model, q, M=v)
    with pytest.raises(TypeError, match="there is no 'mass' to convert: wanted some of q, v"):
        convert.to_mujoco(model, q, mass=M)
    with pytest.raises(TypeError, match=r"q is None: wanted the configuration, \(..., 7\)"):
        convert.to_mujoco(model, None, v)


def test_a_wrong_peer_is_named():
    model = robot(("free",))
    for peer in (3, "joint0", [3]):
        with pytest.raises(TypeError, match=r"peer is .*: wanted an MjModel, or the names of MuJ"):
            convert.mujoco(model, peer)
        with pytest.raises(TypeError, match=r"peer is .*: wanted the names of Isaac Lab's joints"):
            convert.to_isaac(model, model.neutral(), peer=peer)
        with pytest.raises(TypeError, match=r"peer is .*: wanted a pinocchio.Model"):
            convert.pinocchio(model, peer)


@every_library
def test_batches_and_dtypes(library):
    model = every_type(library)
    q = model.random_configuration((2, 3), seed=0)
    v = np.random.default_rng(0).normal(size=(3, model.nv))
    there = getattr(convert, f"to_{library}")(model, q, v)
    assert there.v.shape == (2, 3, model.nv)
    assert there.M is None
    one = getattr(convert, f"to_{library}")(model, q[1, 2], v[2])
    assert_allclose(there.v[1, 2], one.v, rtol=1e-14)
    single = getattr(convert, f"to_{library}")(model, q.astype("f4"), v.astype("f4"))
    assert single.q.dtype == single.v.dtype == np.float32
    assert_allclose(single.v, there.v, atol=1e-5)
    returned = getattr(convert, f"from_{library}")(model, single.q, single.v)
    assert returned.v.dtype == np.float32
    with pytest.raises(TypeError, match="q is float32 but v is float64: float32 is not promoted"):
        getattr(convert, f"to_{library}")(model, q.astype("f4"), v)
    assert getattr(convert, f"to_{library}")(model, q.astype("f4"), v[0].tolist()).v.dtype == "f4"


@every_library
def test_quaternions_of_any_length_become_unit_quaternions(library):
    model = robot(("free", "revolute"))
    q = model.random_configuration(seed=0)
    longer = q.copy()
    longer[3:7] *= 3
    v = np.ones(7)
    one, three = (getattr(convert, f"to_{library}")(model, x, v) for x in (q, longer))
    assert_allclose(three.q, one.q, atol=1e-15)
    assert_allclose(three.v, one.v, atol=1e-15)


@every_library
def test_a_quaternion_of_length_zero_is_nan_and_no_warning(library):
    model = robot(("free", "revolute"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        there = getattr(convert, f"to_{library}")(model, np.zeros(8), np.ones(7))
        here = getattr(convert, f"from_{library}")(model, np.zeros(len(there.q)), np.ones(7))
    assert np.isnan(there.q).sum() == 4
    if library != "pinocchio":  # its velocities are ours
        assert np.isnan(there.v).any()
        assert np.isnan(here.v).any()


def test_followers_have_no_coordinates():
    model = robot(("free", "revolute", "revolute", "prismatic"), mimic={2: 1})
    ours = everything(model)
    assert model.nv == 8
    for library in LIBRARIES:
        close(back(library, model, to(library, model, ours)).dtau_dq, ours.dtau_dq, 1e-9)


def test_robots_that_do_not_move_have_nothing_to_convert():
    model = fl.load("<robot name='post'><link name='base'/></robot>")
    there = convert.to_mujoco(model, [], [], [], M=np.empty((0, 0)))
    assert there.q.shape == there.a.shape == (0,)
    assert there.M.shape == (0, 0)


def test_large_robots_take_no_cube_of_their_size():
    model = robot(("free", *["revolute"] * 400))
    assert convert.mujoco(model)._rates[1].shape == (3, model.nv, model.nv)
    assert convert.isaac(model).order.tolist() == list(range(model.nv))


# Against the libraries


def mujoco_there(model, q, v, a):
    """tau by mj_inverse, M, and derivatives of tau by finite differences of MuJoCo's own."""
    mujoco = pytest.importorskip("mujoco")
    peer = peer_models.mujoco_model(model)
    data = mujoco.MjData(peer)
    tau, M = np.empty_like(v), np.empty((len(q), model.nv, model.nv))
    blocks = np.empty((3, len(q), model.nv, model.nv))
    for k in range(len(q)):
        data.qpos, data.qvel, data.qacc = q[k], v[k], a[k]
        mujoco.mj_inverse(peer, data)
        tau[k] = data.qfrc_inverse
        mujoco.mj_fullM(peer, data, M[k])
        by = [np.empty((model.nv, model.nv)) for _ in range(3)]
        mujoco.mjd_inverseFD(peer, data, STEP, False, *by, None, None, None, None)
        blocks[:, k] = [x.T for x in by]
    return peer, tau, M, blocks


@pytest.mark.parametrize("seed", range(3))
def test_mujoco_itself(seed):
    """Every type that it knows, with armature and damping where it has them for the same motion:
    a ball joint has one value for all directions, and armature along other axes is another.
    """
    model, joints = every_type("mujoco", seed, physics=True), []
    for joint in model.joints:
        if joint.type in ("free", "planar"):
            joint = replace(joint, armature=(), damping=())
        if joint.type == "spherical":
            joint = replace(joint, armature=(0.3,) * 3, damping=(0.4,) * 3)
        joints.append(joint)
    model = replace(model, joints=tuple(joints))
    ours = everything(model, seed=seed)
    there = to("mujoco", model, ours)
    _, tau, M, (by_q, by_v, by_a) = mujoco_there(model, *there[:3])
    close(there.M, M, 1e-12)
    close(there.tau, tau, 1e-11)
    close(there.dtau_dq, by_q, 1e-5)
    close(there.dtau_dv, by_v, 1e-5)
    close(there.M, by_a, 1e-5)
    here = back("mujoco", model, there._replace(tau=tau, M=M))
    close(here.tau, ours.tau)
    close(here.dtau_dq, ours.dtau_dq, 1e-9)


def test_mujocos_forward_dynamics():
    """da_dq and da_dv by differences of mj_forward, in steps of mj_integratePos."""
    mujoco = pytest.importorskip("mujoco")
    model = every_type("mujoco", 5)
    ours = everything(model, batch=1)
    there = to("mujoco", model, ours)
    peer = peer_models.mujoco_model(model)
    data = mujoco.MjData(peer)

    def qacc(q_step, v_step):
        data.qpos = there.q[0]
        mujoco.mj_integratePos(peer, data.qpos, q_step, 1.0)
        data.qvel, data.qfrc_applied = there.v[0] + v_step, there.tau[0]
        mujoco.mj_forward(peer, data)
        return data.qacc.copy()

    steps, zero = STEP * np.eye(model.nv), np.zeros(model.nv)
    close(qacc(zero, zero), there.a[0], 1e-9)
    by_q = [(qacc(s, zero) - qacc(-s, zero)) / (2 * STEP) for s in steps]
    by_v = [(qacc(zero, s) - qacc(zero, -s)) / (2 * STEP) for s in steps]
    close(there.da_dq[0], np.array(by_q).T, 1e-5)
    close(there.da_dv[0], np.array(by_v).T, 1e-5)


def test_an_mjmodel_tells_the_order_of_joints():
    pytest.importorskip("mujoco")
    model = robot(("free", "revolute", "planar", "prismatic"), (-1, 0, 0, 1))
    peer = peer_models.mujoco_model(model)
    names = [peer.joint(j).name for j in range(peer.njnt)]
    depth_first = ["joint0", "joint1", "joint3", "joint2_TX", "joint2_TY", "joint2_RZ"]
    assert names == depth_first
    ours = everything(model)
    there = to("mujoco", model, ours, peer=peer)
    _, tau, M, _ = mujoco_there(model, *there[:3])
    close(there.tau, tau)
    close(there.M, M)


UNNAMED = """<mujoco><worldbody>
<body><freejoint/><geom size=".1"/><body><joint axis="0 1 0"/><geom size=".1"/>
<body><joint name="joint2"/><joint/><geom size=".1"/></body></body></body></worldbody></mujoco>"""


def test_joints_without_a_name_are_numbered_as_by_load():
    mujoco = pytest.importorskip("mujoco")
    peer, model = mujoco.MjModel.from_xml_string(UNNAMED), fl.load(UNNAMED)
    assert model.joint_names == ("joint0", "joint1", "joint2", "joint3")
    q = model.random_configuration(seed=0)
    assert_allclose(convert.to_mujoco(model, q, peer=peer).q, convert.to_mujoco(model, q).q)
    with pytest.raises(ValueError, match=r"only, or named twice: a, joint3; model.renamed"):
        convert.mujoco(robot(("free", "revolute", "revolute", "revolute")).renamed(
            joints={"joint3": "a"}), peer)  # fmt: skip


def test_the_one_free_root_may_have_another_name():
    mujoco, pin = pytest.importorskip("mujoco"), pytest.importorskip("pinocchio")
    peer, model = mujoco.MjModel.from_xml_string(UNNAMED), fl.load(UNNAMED)
    base = model.renamed(joints={"joint0": "base"})
    q = model.random_configuration(seed=0)
    there = convert.to_mujoco(model, q, peer=peer).q
    assert_allclose(convert.to_mujoco(base, q, peer=peer).q, there)
    theirs = peer_models.pinocchio_model(model)
    assert isinstance(theirs, pin.Model)
    there = convert.to_pinocchio(model, q, peer=theirs).q
    assert_allclose(convert.to_pinocchio(base, q, peer=theirs).q, there)


def test_a_free_root_that_an_mjmodel_lacks_is_refused():
    mujoco = pytest.importorskip("mujoco")
    peer = mujoco.MjModel.from_xml_string(UNNAMED.replace("<freejoint/>", ""))
    with pytest.raises(ValueError, match="in one of the two models only"):
        convert.mujoco(fl.load(UNNAMED), peer)
    assert convert.mujoco(fl.load(UNNAMED), ["joint1", "joint2", "joint3"]).nq == 10


@pytest.mark.parametrize("seed", range(2))
def test_drake_itself(seed):
    """Inverse dynamics, the mass matrix, and derivatives by differences."""
    pytest.importorskip("pydrake")
    from pydrake.multibody.tree import MultibodyForces

    kinds = ("free", "revolute", "spherical", "planar", "universal", "helical", "prismatic")
    model = robot(kinds, (-1, 0, 0, 1, 2, 3, 4), seed)
    plant = peer_models.drake_plant(model)
    context = plant.CreateDefaultContext()
    joints = [plant.GetJointByName(name) for name in model.joint_names]
    names = [j.name() for j in sorted(joints, key=lambda joint: joint.velocity_start())]
    ours = everything(model, batch=2, seed=seed)
    there = to("drake", model, ours, peer=names)
    assert plant.num_positions() == there.q.shape[-1]

    def inverse(q, v, a):
        plant.SetPositions(context, q)
        plant.SetVelocities(context, v)
        forces = MultibodyForces(plant)
        plant.CalcForceElementsContribution(context, forces)
        return plant.CalcInverseDynamics(context, a, forces)

    for k, (q, v, a) in enumerate(zip(*there[:3], strict=True)):
        close(inverse(q, v, a), there.tau[k])
        close(plant.CalcMassMatrix(context), there.M[k])
        steps = STEP * np.eye(model.nv)
        moved = [plant.MapVelocityToQDot(context, step) for step in steps]
        by_q = [(inverse(q + d, v, a) - inverse(q - d, v, a)) / (2 * STEP) for d in moved]
        by_v = [(inverse(q, v + s, a) - inverse(q, v - s, a)) / (2 * STEP) for s in steps]
        close(there.dtau_dq[k], np.array(by_q).T, 1e-6)
        close(there.dtau_dv[k], np.array(by_v).T, 1e-6)


def test_names_on_the_package():
    assert fl.convert is convert
    assert set(dir(convert)) >= {f"{way}_{name}" for way in ("to", "from") for name in LIBRARIES}
    assert "w x y z" in fl.convert.from_mujoco.__doc__
