"""Steps in discrete time and their derivatives: against dual numbers, MuJoCo and each other."""

import warnings
from dataclasses import replace

import changes
import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose, assert_array_equal
from repetition import full, repeated
from test_worst_case import Outside

import featherlane as fl
from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.functions import kernels as variant_kernels
from featherlane.functions import sequences
from featherlane.functions.table import Variant

BATCH = 5
ORDER = {"semi_implicit": 1, "euler": 1, "implicit_damping": 1, "midpoint": 2, "rk4": 4}
TREES = [
    textbook.tree(("free", "revolute"), seed=1, physics=True),
    textbook.tree(("spherical", "helical"), seed=4, physics=True),
    textbook.tree(("planar", "prismatic"), seed=5, physics=True),
    textbook.tree(("universal", "cylindrical", "translation"), (-1, 0, 1), seed=5, physics=True),
    textbook.tree(("free", "prismatic", "revolute", "revolute"), (-1, 0, 1, 1), 2, mimic={3: 2}),
]
ARM = textbook.tree(("revolute", "prismatic", "revolute", "revolute"), seed=2, physics=True)
every_integrator = pytest.mark.parametrize("integrator", INTEGRATORS)


def types(model):
    return "-".join(kind.name for kind in model.types)


trees = pytest.mark.parametrize("model", repeated(TREES, spread=False), ids=types)


def sample(model, batch=BATCH, seed=0):
    rng = np.random.default_rng(seed)
    q = model.random_configuration(batch, seed=rng)
    v, tau = rng.normal(size=(2, batch, model.nv))
    return q, v, tau, rng.uniform(0.005, 0.02, batch)


def close(x, wanted, tolerance):
    assert_allclose(x, wanted, rtol=0, atol=tolerance * max(1.0, np.abs(wanted).max()))


TURNS = [  # every integrator on the first robot, and each robot by two integrators, in turn
    *((TREES[0], integrator) for integrator in INTEGRATORS),
    *((tree, [*INTEGRATORS][n % len(INTEGRATORS)]) for n, tree in enumerate(TREES[1:])),
    *((tree, [*INTEGRATORS][n - 1]) for n, tree in enumerate(TREES[1:])),
]


@pytest.mark.parametrize(
    ("model", "integrator"),
    repeated(TURNS, len(INTEGRATORS)),
    ids=lambda x: x if isinstance(x, str) else types(x),
)
def test_derivatives_of_a_step_are_those_of_dual_numbers(model, integrator):
    q, v, tau, dt = sample(model)
    rng = np.random.default_rng(1)
    moves = rng.normal(size=(3, BATCH, model.nv))
    f_ext = rng.normal(size=(BATCH, model.nbodies, 6))
    given, options = (q, v, tau, dt), {"f_ext": f_ext, "integrator": integrator}
    end, wanted = changes.of_step(model, *given, moves, **options)
    linear = model.linearize_step(*given, **options)
    close(linear.q, end["q_next"], 1e-12)
    close(linear.v, end["v_next"], 1e-12)
    close(changes.by_matrices(linear, moves), wanted, 1e-11)
    forward = np.concatenate(model.step_jvp(*given, *moves, **options), -1)
    close(forward, wanted, 1e-11)
    weights = rng.normal(size=(2, BATCH, model.nv))
    back = model.step_vjp(*given, *weights, **options)
    one = np.sum(np.concatenate(weights, -1) * forward, -1)
    other = sum(np.sum(g * d, -1) for g, d in zip(back, moves, strict=True))
    assert_allclose(one, other, rtol=1e-12, atol=1e-12 * np.abs(forward).max())


@trees
@every_integrator
def test_the_slope_of_the_error_is_the_order(model, integrator):
    q, v, tau, _ = sample(model, 3, seed=2)
    v, tau, time = 0.5 * v, 0.5 * tau, 0.1

    def end(steps, integrator):
        controls = np.repeat(tau[:, None], steps, 1)
        found = model.rollout(q, v, controls, time / steps, integrator=integrator, every=steps)
        return found.q[:, -1], found.v[:, -1]

    best = end(640, "rk4")
    errors = []
    counts = (5, 10) if integrator == "rk4" else (40, 80)
    for steps in counts:
        q1, v1 = end(steps, integrator)
        errors.append(np.abs([model.difference(best[0], q1), v1 - best[1]]).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(ORDER[integrator], abs=0.35)


def test_quaternions_stay_unit():
    model = textbook.tree(("free", "spherical"), seed=1)
    q, v = model.random_configuration(seed=0), np.random.default_rng(0).normal(size=model.nv)
    for dtype in (np.float64, np.float32):
        tau = np.zeros((100_000, model.nv), dtype)
        found = model.rollout(q.astype(dtype), v.astype(dtype), tau, 1e-3, every=1000)
        assert np.isfinite(found.q).all()
        for at in (3, 7):
            lengths = np.linalg.norm(found.q[1:, at : at + 4], axis=-1)
            assert np.abs(lengths - 1).max() < 4 * np.finfo(dtype).eps


# MuJoCo

HINGES = """
<mujoco><option timestep="0.002"/><worldbody><body pos="0 0 1">
  <joint name="a" type="hinge" axis="0 1 0" damping="0.3" armature="0.02"/>
  <inertial pos="0.1 0 0.2" mass="1.5" diaginertia="0.02 0.03 0.01"/>
  <body pos="0.2 0 0.4">
    <joint name="b" type="slide" axis="1 0 0" damping="0.5"/>
    <inertial pos="0 0.1 0" mass="0.7" diaginertia="0.01 0.02 0.015"/>
    <body pos="0 0.3 0"><joint name="c" type="hinge" axis="0 0 1" damping="0.2"/>
      <inertial pos="0.1 0.05 0" mass="0.4" diaginertia="0.004 0.003 0.005"/></body>
    <body pos="0 -0.3 0"><joint name="d" type="hinge" axis="1 1 0" armature="0.01"/>
      <inertial pos="0.1 0.05 0" mass="0.5" diaginertia="0.004 0.003 0.005"/></body>
  </body></body></worldbody></mujoco>"""
FLOATING = """
<mujoco><worldbody><body pos="0 0 1"><freejoint name="root"/>
  <inertial pos="0 0 0" mass="1.5" diaginertia="0.02 0.03 0.01"/>
  <body pos="0.2 0 0.4"><joint name="b" type="ball" damping="0.05"/>
    <inertial pos="0 0.1 0" mass="0.7" diaginertia="0.01 0.02 0.015"/></body>
</body></worldbody></mujoco>"""


def mujoco_end(xml, dt, qpos, qvel, force, steps, integrator, implicit=False):
    mujoco = pytest.importorskip("mujoco")
    peer = mujoco.MjModel.from_xml_string(xml)
    peer.opt.timestep = dt
    peer.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator}")
    peer.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    if not implicit:
        peer.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
    data = mujoco.MjData(peer)
    data.qpos, data.qvel, data.qfrc_applied = qpos, qvel, force
    for _ in range(steps):
        mujoco.mj_step(peer, data)
    return data.qpos.copy(), data.qvel.copy()


@pytest.mark.parametrize(
    ("integrator", "there", "implicit"),
    [("semi_implicit", "EULER", False), ("implicit_damping", "EULER", True), ("rk4", "RK4", False)],
)
def test_hinges_and_slides_step_as_in_mujoco(integrator, there, implicit):
    model, rng, dt = fl.load(HINGES), np.random.default_rng(0), 0.002
    q, v, tau = rng.normal(size=(3, model.nv))
    found = model.rollout(q, v, np.tile(tau, (50, 1)), dt, integrator=integrator)
    for steps in (1, 2, 10, 50):
        wanted = mujoco_end(HINGES, dt, q, v, tau, steps, there, implicit)
        assert_allclose(found.q[steps], wanted[0], atol=1e-9)
        assert_allclose(found.v[steps], wanted[1], atol=1e-9)


def difference_from_mujoco(dt, steps, integrator, there, implicit=False):
    """The largest difference of q and v at the end of flights, from MuJoCo's."""
    model, rng = fl.load(FLOATING), np.random.default_rng(1)
    q, v = model.random_configuration(seed=rng), rng.normal(size=model.nv)
    change = fl.convert.mujoco(model)
    state = change.to(q[None], v=v[None])
    still = np.zeros((steps, model.nv))
    found = model.rollout(q, v, still, dt, integrator=integrator)
    qpos, qvel = mujoco_end(FLOATING, dt, state.q[0], state.v[0], 0.0, steps, there, implicit)
    back = change.back(qpos[None], v=qvel[None])
    moved = model.difference(back.q[0], found.q[-1])
    return np.abs([moved, found.v[-1] - back.v[0]]).max()


@pytest.mark.parametrize(
    ("integrator", "implicit"), [("semi_implicit", False), ("implicit_damping", True)]
)
def test_floating_robots_step_as_in_mujoco(integrator, implicit):
    """The linear velocity of a free body stays as it is in space, whatever its turn."""
    for steps in (1, 100):
        assert difference_from_mujoco(0.005, steps, integrator, "EULER", implicit) < 1e-9


def test_floating_robots_come_to_where_mujocos_come():
    """Of the fourth order MuJoCo's stages are others: the difference falls with dt."""
    differences = [difference_from_mujoco(0.2 / n, n, "rk4", "RK4") for n in (20, 40)]
    assert np.log2(differences[0] / differences[1]) > 3.6
    assert differences[1] < 0.1


# Plans of kernels, rollouts


@pytest.fixture
def planned(monkeypatch):
    """A function that loads models whose steps are plans of kernels, however small they are."""

    def load(model):
        monkeypatch.setattr(sequences, "FLAT", 0)
        monkeypatch.setattr(variant_kernels, "_kernels", {})
        return fl.Model(**model._fields())

    return load


PLANS = [  # implicit damping and the fourth order have steps of their own among the matrices
    *((integrator, "tiles", np.float64) for integrator in INTEGRATORS),
    ("implicit_damping", "matrices", np.float64),
    ("rk4", "matrices", np.float64),
    *((x, "matrices", np.float64) for x in INTEGRATORS if x not in ("implicit_damping", "rk4")),
    ("rk4", "tiles", np.float32),
    ("implicit_damping", "matrices", np.float32),
]


@pytest.mark.parametrize(("integrator", "how", "dtype"), repeated(PLANS, len(INTEGRATORS) + 2))
def test_plans_give_what_flat_code_gives(integrator, how, dtype, planned, monkeypatch):
    """matrices: with sensitivities state by state, as of robots with curved joints."""
    matrices = how == "matrices"
    monkeypatch.setattr(sequences, "in_tiles", lambda model: not matrices)
    types = ("spherical", "prismatic") if matrices else ("revolute", "helical")
    model = textbook.tree(types, seed=1, physics=True)
    given = [x.astype(dtype) for x in sample(model, 70)]
    options = {"integrator": integrator}
    flat = [*model.step(*given, **options), *model.linearize_step(*given, **options)]
    other = planned(model)
    for one in (False, True):
        own = [x[3] for x in given] if one else given
        found = [*other.step(*own, **options), *other.linearize_step(*own, **options)]
        for x, wanted in zip(found, flat, strict=True):
            close(x, wanted[3] if one else wanted, 100 * np.finfo(dtype).eps)
    batch = other.linearize_step(*given, **options)
    for x, wanted in zip(
        other.linearize_step(*[x[3] for x in given], **options), batch, strict=True
    ):
        assert_array_equal(x, wanted[3])


@every_integrator
@pytest.mark.parametrize("every", [1, 3])
def test_a_rollout_is_its_steps(integrator, every):
    model, steps = TREES[0], 6
    q, v, tau, dt = sample(model, 37)
    tau = np.random.default_rng(5).normal(size=(37, steps, model.nv))
    f_ext = np.random.default_rng(6).normal(size=(37, steps, model.nbodies, 6))
    options = {"integrator": integrator, "f_ext_frame": "world"}
    found = model.rollout(q, v, tau, dt, f_ext, every=every, **options)
    assert found.q.shape == (37, steps // every + 1, model.nq)
    for k in range(steps):
        if k % every == 0:
            assert_array_equal(found.q[:, k // every], q)
            assert_array_equal(found.v[:, k // every], v)
        q, v = model.step(q, v, tau[:, k], dt, f_ext[:, k], **options)
    assert_array_equal(found.q[:, -1], q)
    assert_array_equal(found.v[:, -1], v)


@pytest.mark.parametrize("dtype", repeated([np.float64, np.float32]))
def test_the_bits_of_a_state_do_not_depend_on_its_batch(dtype):
    model, steps = fl.load("double_pendulum", root="free"), 5
    rng = np.random.default_rng(0)
    q = model.random_configuration(300, seed=0).astype(dtype)
    v = rng.normal(size=(300, model.nv)).astype(dtype)
    tau = rng.normal(size=(300, steps, model.nv)).astype(dtype)
    g = rng.normal(size=(2, 300, steps + 1, model.nv)).astype(dtype)

    def results(pick, threads=1):
        moved = model.rollout(q[pick], v[pick], tau[pick], 1e-2, threads=threads)
        back = model.rollout_gradient(moved, tau[pick], 1e-2, *g[:, pick], threads=threads)
        linear = model.linearize_step(
            q[pick], v[pick], tau[pick][..., 0, :], 1e-2, integrator="midpoint", threads=threads
        )
        return [*moved, *back, *linear]

    whole = results(slice(None))
    for threads in (2, 3):
        for x, y in zip(results(slice(None), threads), whole, strict=True):
            assert_array_equal(x, y)
    for pick in (slice(0, 1), slice(5, 8), slice(100, 165), 7):
        for x, y in zip(results(pick), whole, strict=True):
            assert_array_equal(x, y[pick])


@trees
def test_a_rollouts_gradient_is_that_of_its_steps(model):
    steps = 4
    q, v, _, dt = sample(model)
    rng = np.random.default_rng(1)
    tau, d = rng.normal(size=(2, BATCH, steps, model.nv))
    gq, gv = rng.normal(size=(2, BATCH, steps + 1, model.nv))
    dq, dv = rng.normal(size=(2, BATCH, model.nv))
    found = model.rollout(q, v, tau, dt)
    back = model.rollout_gradient(found, tau, dt, gq, gv)
    one = sum(
        np.sum(g * x, tuple(range(1, x.ndim))) for g, x in zip(back, (dq, dv, d), strict=True)
    )
    other = np.zeros(BATCH)
    for k in range(steps + 1):
        other += np.sum(gq[:, k] * dq + gv[:, k] * dv, -1)
        if k < steps:
            dq, dv = model.step_jvp(found.q[:, k], found.v[:, k], tau[:, k], dt, dq, dv, d[:, k])
    assert_allclose(one, other, rtol=1e-11)


def test_fewer_controls_through_actuators():
    chosen = [1, 3, 2]
    model = replace(ARM, joints=tuple(replace(joint, effort=100.0) for joint in ARM.joints))
    names = [model.joints[k].name for k in chosen]
    gear = np.array([2.0, -3.0, 0.5])
    actuation = model.actuation(names, gear)
    q, v, _, dt = sample(model)
    u = np.random.default_rng(0).normal(size=(BATCH, 3)) * [1, 1, 1e6]
    limits = np.full(3, 100.0)
    tau = np.zeros((BATCH, model.nv))
    tau[:, chosen] = np.clip(u * gear, -limits, limits)
    for integrator in ("semi_implicit", "midpoint"):
        options = {"integrator": integrator}
        found = model.linearize_step(q, v, u, dt, actuation=actuation, **options)
        wanted = model.linearize_step(q, v, tau, dt, **options)
        close(found.q, wanted.q, 1e-14)
        close(found.A, wanted.A, 1e-13)
        free = np.abs(u * gear) < limits
        B = wanted.B[..., chosen] * gear * free[:, None]
        assert not free[:, 2].any()
        assert free[:, :2].all()
        close(found.B, B, 1e-13)
        g = np.random.default_rng(1).normal(size=(2, BATCH, model.nv))
        back = model.step_vjp(q, v, u, dt, *g, actuation=actuation, **options)
        close(back.tau, textbook.times(np.swapaxes(B, -1, -2), np.concatenate(g, -1)), 1e-12)
    unlimited = model.actuation(names, gear, clip=False)
    free = model.step(q, v, u, dt, actuation=unlimited)
    assert np.abs(free.v - found.v).max() > 1


@pytest.mark.parametrize("integrator", ["implicit_damping", "semi_implicit", "midpoint"])
def test_controls_of_a_matrix_are_forces_of_many_joints(integrator):
    """Behind a motor of one joint: B u as joint forces, and B in the derivatives."""
    model, rng = ARM, np.random.default_rng(0)
    B = rng.normal(size=(model.nv, 3)) * (rng.random((model.nv, 3)) < 0.6)
    least, largest = [-1.0, -2.0, -np.inf], 0.5
    name = model.joints[1].name
    actuation = model.actuation([name], 2.0, clip=False, matrix=B, limits=(least, largest))
    assert actuation.controls == 4
    q, v, _, dt = sample(model)
    u = rng.normal(size=(BATCH, 4))
    whole = np.column_stack([2.0 * np.eye(model.nv)[:, 1], B])
    clipped = np.column_stack([u[:, :1], np.clip(u[:, 1:], least, largest)])
    tau, inside = clipped @ whole.T, u == clipped
    assert 0 < inside[:, 1:].mean() < 1
    found = model.linearize_step(q, v, u, dt, integrator=integrator, actuation=actuation)
    wanted = model.linearize_step(q, v, tau, dt, integrator=integrator)
    for x, y in zip(found[:3], wanted[:3], strict=True):
        close(x, y, 1e-13)
    close(found.B, wanted.B @ (whole * inside[:, None]), 1e-13)
    run = model.rollout(q, v, np.stack([u] * 3, 1), dt, integrator=integrator, actuation=actuation)
    close(run.q, model.rollout(q, v, np.stack([tau] * 3, 1), dt, integrator=integrator).q, 1e-12)
    g = rng.normal(size=(2, BATCH, model.nv))
    back = model.step_vjp(q, v, u, dt, *g, integrator=integrator, actuation=actuation)
    close(back.tau, textbook.times(np.swapaxes(found.B, -1, -2), np.concatenate(g, -1)), 1e-12)


def test_matrices_that_are_no_actuation():
    arm = fl.load("double_pendulum", root="free")
    B = np.ones((arm.nv, 2))
    for options, message in (
        ({"matrix": B.T}, r"matrix has shape \(2, 8\): wanted \(nv, nu\) = .* pass matrix.T"),
        ({"matrix": B[:3]}, r"matrix has shape \(3, 2\)"),
        ({"matrix": B * [1, 0]}, "column 1 of matrix is zero"),
        ({"matrix": B * np.nan}, "not finite"),
        ({"matrix": B, "limits": (1, -1)}, "least controls below the largest"),
        ({"matrix": B, "limits": ([1, 2, 3], 4)}, r"limits have shapes \(3,\) and \(\)"),
        ({"matrix": B, "limits": 3.0}, r"limits is 3.0: wanted \(least, largest\)"),
    ):
        with pytest.raises(ValueError, match=message):
            arm.actuation(**options)
    with pytest.raises(TypeError, match="limits are those of a matrix"):
        arm.actuation(["joint1"], limits=(-1, 1))
    pair = arm.actuation(matrix=B)
    with pytest.raises(ValueError, match=r"2 controls, of root_joint and joint1 and joint2, root"):
        arm.step(arm.neutral(), np.zeros(8), np.zeros(8), 0.01, actuation=pair)
    still, ground = np.zeros(8), arm.constraints([fl.Weld("base_link")])
    with pytest.raises(ValueError, match="a control drives several joints"):
        arm.constrained_inverse_dynamics(arm.neutral(), still, still, ground, actuation=pair)


@pytest.mark.parametrize(
    ("axes", "integrator"),
    repeated(
        [
            ("body", "implicit_damping"),
            ("world", "midpoint"),
            ("world", "implicit_damping"),
            ("body", "midpoint"),
        ],
        2,
    ),
)
def test_columns_of_wrenches(axes, integrator):
    """B with columns of f_ext, beside the vjp of J^T f that joint forces would be."""
    model = ARM
    q, v, tau, dt = sample(model)
    frames = sorted((model.frame_names[1], model.frame_names[-1]))
    rng = np.random.default_rng(0)
    f_ext = {name: rng.normal(size=(BATCH, 6)) for name in frames}
    options = {"integrator": integrator, "f_ext_frame": axes}
    actuation = model.actuation(model.joint_names[:3], 2.0, clip=False)
    u = tau[:, :3]
    found = model.linearize_step(
        q, v, u, dt, f_ext, actuation=actuation, by_wrenches=True, **options
    )
    plain = model.linearize_step(q, v, u, dt, f_ext, actuation=actuation, **options)
    assert found.B.shape == (BATCH, 2 * model.nv, 3 + 12)
    close(found.A, plain.A, 1e-14)
    close(found.B[..., :3], plain.B, 1e-14)
    h, move = 1e-4, rng.normal(size=(BATCH, 12))
    ends = []
    for side in (1, -1):
        there = {
            name: f_ext[name] + side * h * move[:, 6 * k : 6 * k + 6]
            for k, name in enumerate(frames)
        }
        ends.append(model.step(q, v, u, dt, there, actuation=actuation, **options))
    wanted = [(high - low) / (2 * h) for high, low in zip(*ends, strict=True)]
    found = textbook.times(found.B[..., 3:], move)
    close(found, np.concatenate(wanted, -1), 1e-9)
    with pytest.raises(ValueError, match="by_wrenches is True without f_ext"):
        model.linearize_step(q, v, tau, dt, by_wrenches=True)


def test_a_feedback_law_in_a_rollout():
    model, steps, dt = textbook.tree(("free", "revolute"), seed=2), 12, 0.01
    n = model.nv

    def law(q, v, t, gain, target):
        return [gain * (target[k] - q[k % 3]) - v[k] * fl.cos(t) for k in range(n)]

    policy = model.policy(law, {"gain": (), "target": n})
    q, v, *_ = sample(model, 9)
    gain, target = np.linspace(0.1, 2, 9), np.random.default_rng(0).normal(size=n)
    given = {"target": target, "gain": gain}
    found = model.rollout_with(policy, q, v, dt, steps, parameters=given)
    thin = model.rollout_with(policy, q, v, dt, steps, parameters=given, every=4)
    assert_array_equal(thin.q, found.q[:, ::4])
    assert_array_equal(thin.tau, found.tau)
    for k in range(steps):
        tau = gain[:, None] * (target - q[:, [i % 3 for i in range(n)]]) - v * np.cos(k * dt)
        assert_allclose(found.tau[:, k], tau, rtol=1e-11, atol=1e-12)
        q, v = model.step(q, v, found.tau[:, k], dt)
    assert_allclose(found.q[:, -1], q, rtol=1e-12, atol=1e-13)
    again = model.policy(law, {"gain": (), "target": n})
    assert again == policy
    assert hash(again) == hash(policy)


def test_nothing_is_called_between_steps(planned, monkeypatch):
    """However many steps: what machine code asks of CPython and the system is as much."""
    outside, model = Outside(monkeypatch), planned(TREES[0])
    assert sequences.is_planned(model, Variant("linearize_step", integrator="rk4"))
    for name, options in (("rollout", {}), ("rollout_gradient", {}), ("linearize_step", {})):
        found = []
        for steps in (3, 30):
            options = {"steps": steps} if "rollout" in name else {"integrator": "rk4"}
            call = prepared(model, model.function(name, **options))
            for _ in range(3):
                call()
            counts = outside.of(call)
            found.append({k: n for k, n in counts.items() if not k.startswith("gil")})
        assert found[0] == found[1], name
        assert set(found[0]) == {"incref", "object_new"}, name  # the tuple of the results


def prepared(model, function, batch=8):
    """A call of a function with arrays of its own."""
    rng, given = np.random.default_rng(0), []
    for key, shape in function.inputs.items():
        if key == "q":
            given.append(model.random_configuration((batch, *shape[:-1]), seed=0))
        else:
            given.append(np.array(0.01) if key == "dt" else rng.normal(size=(batch, *shape)))
    out = tuple(np.empty((batch, *shape)) for shape in function.outputs.values())
    return lambda: function(*given, out=out, threads=1)


# Through the table: graphs, your own functions, generated C


def test_steps_in_your_own_functions():
    model = fl.load("iiwa14")
    step = model.graph("step", integrator="midpoint")
    q, v, tau, dt = sample(model)

    def cost(q, v, tau, dt):
        end = fl.call(step, q=q, v=v, tau=tau, dt=dt)
        return sum(x * x for x in [*end["q_next"], *end["v_next"]])

    function = fl.compile(cost, {"q": 7, "v": 7, "tau": 7, "dt": ()})
    end = model.step(q, v, tau, dt, integrator="midpoint")
    assert_allclose(function(q, v, tau, dt), np.sum(np.square(end), (0, -1)), rtol=1e-12)


@full
@pytest.mark.parametrize("name", ["linearize_step", "rollout"])
def test_the_table_has_graphs_of_all(name):
    model = TREES[1]
    options = {"steps": 3} if name == "rollout" else {}
    graph = model.graph(name, integrator="rk4", **options)
    q, v, tau, dt = sample(model)
    given = np.repeat(tau[:, None], 3, 1) if options else tau
    found = fl.compile(graph)(q, v, given, dt)
    wanted = getattr(model, name)(q, v, given, dt, integrator="rk4")
    for x, y in zip(found, wanted, strict=True):
        close(x, y, 1e-12)


# What users get wrong


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dt": 0.0}, "dt is 0.0: wanted positive"),
        ({"dt": -0.1}, "positive"),
        ({"dt": np.nan}, "finite"),
        ({"dt": np.array([0.1, np.inf])}, "finite"),
        ({"dt": None}, "positive"),
        ({"integrator": "rk5"}, "'rk4'"),
        ({"tau": np.zeros((2, 3))}, r"tau has shape \(2, 3\), wanted \(..., 2\)"),
        ({"actuation": "joint1"}, "model.actuation"),
    ],
)
def test_what_a_step_does_not_take(change, message):
    model = fl.load("double_pendulum")
    given = {"q": np.zeros((2, 2)), "v": np.zeros((2, 2)), "tau": np.zeros((2, 2)), "dt": 0.1}
    with pytest.raises((ValueError, TypeError), match=message):
        model.step(**given | change)


def test_what_rollouts_and_actuators_do_not_take():
    model = fl.load("double_pendulum", root="free")
    q, v = model.neutral(), np.zeros(model.nv)
    with pytest.raises(ValueError, match="every is 2: wanted a whole number that divides 3"):
        model.rollout(q, v, np.zeros((3, model.nv)), 0.1, every=2)
    with pytest.raises(ValueError, match=r"tau has shape \(8,\): wanted \(..., T, n\)"):
        model.rollout(q, v, np.zeros(model.nv), 0.1)
    with pytest.raises(ValueError, match="no joint 'joint3'"):
        model.actuation(["joint3"])
    with pytest.raises(ValueError, match="one v"):
        model.actuation([model.joints[0].name])
    with pytest.raises(ValueError, match="gear"):
        model.actuation(["joint1"], 0.0)
    with pytest.raises(ValueError, match=r"gives an array of shape \(2,\): wanted \(8,\)"):
        model.policy(lambda q, v, t: [q[0], v[0]])
    with pytest.raises(TypeError, match=r"model\.policy"):
        model.rollout_with(print, q, v, 0.1, 3)


def test_an_unstable_rollout_gives_its_nan():
    """Explicit Euler on the iiwa14, whose last link is light and damped, beyond dt = 12.5 ms."""
    model = fl.load("iiwa14")
    q = np.full(model.nq, 0.3)

    def fastest(dt, integrator):
        tau = np.tile(model.gravity_torque(q), (300, 1))
        return np.abs(model.rollout(q, 0 * q + 0.1, tau, dt, integrator=integrator).v).max()

    assert fastest(0.01, "euler") < 40
    assert np.isnan(fastest(0.02, "euler"))
    assert fastest(0.02, "implicit_damping") < 40


# Arguments as users have them


@pytest.mark.parametrize(
    ("law", "wanted"),
    [
        (lambda q, v, t, K: -K @ q - 0.1 * v, lambda q, v, K: -K @ q - 0.1 * v),
        (
            lambda q, v, t, K: np.clip(-q, -0.1, 0.1) + K[0],
            lambda q, v, K: np.clip(-q, -0.1, 0.1) + K[0],
        ),
        (lambda q, v, t, K: (q + v)[::-1] * K[1, 1], lambda q, v, K: (q + v)[::-1] * K[1, 1]),
    ],
    ids=["gains", "clip", "slices"],
)
def test_feedback_laws_compute_with_arrays_as_numpy_does(law, wanted):
    model = fl.load("double_pendulum")
    q, v, K = np.array([0.1, 0.2]), np.array([0.3, 0.4]), np.array([[2.0, 0.5], [0.0, 3.0]])
    policy = model.policy(law, {"K": (2, 2)})
    found = model.rollout_with(policy, q, v, 0.01, 1, parameters={"K": K})
    assert_allclose(found.tau[0], wanted(q, v, K), rtol=1e-15)
    with pytest.raises(ValueError, match=r"shape \(1,\): wanted \(2,\) controls"):
        model.policy(lambda q, v, t: 2 * q[:1])


def test_rollouts_of_feedback_laws_take_parameters_of_the_robot():
    model = fl.load("double_pendulum")
    q, v, _, _ = sample(model, 1)
    policy = model.policy(lambda q, v, t: -q)
    for gravity in ([0, 0, 0.0], [0, 0, -1.62]):
        params = {"gravity": np.array(gravity)}
        found = model.rollout_with(policy, q, v, 0.01, 3, params=params)
        again = model.rollout(q, v, found.tau, 0.01, params=params)
        assert_array_equal(found.q, again.q)


def test_columns_of_wrenches_that_come_as_an_array():
    model = fl.load("double_pendulum")
    q, v, tau, _ = sample(model)
    wrenches = np.zeros((model.nbodies, 6))
    found = model.linearize_step(q, v, tau, 0.01, wrenches, by_wrenches=True)
    assert found.B.shape == (BATCH, 2 * model.nv, model.nv + 6 * model.nbodies)
    with pytest.raises(ValueError, match="by_wrenches is True without f_ext"):
        model.linearize_step(q, v, tau, 0.01, {}, by_wrenches=True)


@pytest.mark.parametrize("number", [0.01, np.float64(0.01), np.array(0.01), [0.01] * BATCH])
def test_a_time_step_of_any_kind_gives_the_same_bits(number):
    model = fl.load("double_pendulum")
    q, v, tau, _ = sample(model)
    wanted = model.step(q, v, tau, np.full(BATCH, 0.01))
    for call in (model.step, model.function("step")):
        for x, y in zip(call(q, v, tau, number), wanted, strict=True):
            assert_array_equal(x, y)
    single = [x.astype(np.float32) for x in (q, v, tau)]
    assert model.function("step")(*single, 0.01)[0].dtype == np.float32


@pytest.mark.parametrize(
    "number", [0.0, -0.1, np.nan, np.inf, [0.1, -0.1], [0.1, np.nan], "x", None]
)
def test_time_steps_are_positive_and_finite(number):
    model = fl.load("double_pendulum")
    with pytest.raises(ValueError, match=r"dt is .*: wanted positive, finite seconds"):
        model.step(np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((2, 2)), number)


PENDULUM = fl.load("double_pendulum")
Q, TAU, GOOD = np.zeros(2), np.zeros((10, 2)), np.zeros((11, 2))
ONE_MOTOR = PENDULUM.actuation(["joint2"])


def rolled(**options):
    return PENDULUM.rollout(Q, Q, TAU, 0.01, **options)


def gradient(trajectory, tau=TAU):
    return PENDULUM.rollout_gradient(trajectory, tau, 0.01, GOOD, GOOD)


def stepped(dt, dtype=float, **options):
    return PENDULUM.step(*[Q.astype(dtype)] * 3, dt, **options)


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (
            lambda: stepped(0.01, integrator=["rk4"]),
            ValueError,
            "integrator is ['rk4']: wanted one of 'implicit_damping', 'semi_implicit'",
        ),
        (lambda: PENDULUM.function(["step"]), ValueError, "there is no function ['step']"),
        (
            lambda: PENDULUM.inverse_dynamics_parameter_derivatives(Q, Q, Q, ["mass"]),
            ValueError,
            "wrt names ['mass']",
        ),
        (
            lambda: stepped(0.01, actuation=["joint1"]),
            TypeError,
            "actuation is ['joint1']: wanted one from model.actuation(...)",
        ),
        (
            lambda: stepped(0.01, actuation=ONE_MOTOR),
            ValueError,
            "tau has shape (2,), wanted (..., 1): the actuation has 1 control, of joint2",
        ),
        (
            lambda: rolled(actuation=ONE_MOTOR),
            ValueError,
            "tau has shape (10, 2), wanted (..., 10, 1): the actuation has 1 control, of joint2",
        ),
        (
            lambda: PENDULUM.actuation(["joint1", "joint2"], gear=[1, 2, 3]),
            ValueError,
            "gear is [1, 2, 3]: wanted one number, or one for each of the 2 joints",
        ),
        (
            lambda: PENDULUM.actuation(["joint1"], gear="high"),
            ValueError,
            "gear is 'high': wanted one number, or one for each of the 1 joints",
        ),
        (lambda: PENDULUM.actuation([0]), TypeError, "joints has 0: wanted names of joints"),
        (lambda: PENDULUM.actuation(0), TypeError, "joints has 0: wanted names of joints"),
        (
            lambda: gradient(rolled(every=2)),
            ValueError,
            "trajectory has 6 states for 10 steps of tau: wanted 11, every state, as rollout",
        ),
        (
            lambda: gradient(3),
            TypeError,
            "trajectory is 3: wanted the (q, v) that model.rollout(...) gave",
        ),
        (lambda: gradient((GOOD,)), TypeError, "wanted the (q, v) that model.rollout(...) gave"),
        (
            lambda: PENDULUM.rollout(Q, Q, [[1, 2], [3]], 0.01),
            ValueError,
            "tau is not an array of numbers: ",
        ),
        (
            lambda: gradient(rolled(), [[1, 2], [3]]),
            ValueError,
            "tau is not an array of numbers: ",
        ),
        (
            lambda: PENDULUM.policy(lambda q, v: q, {"gain": ()}),
            TypeError,
            "function takes (q, v): wanted one of the inputs, by position, (q, v, t, gain=)",
        ),
        (lambda: rolled(every=True), ValueError, "every is True: wanted a whole number"),
        (lambda: stepped(10**400), ValueError, f"dt is 1{'0' * 56}...: wanted positive, finite"),
        (lambda: stepped(10**5000), ValueError, "dt is of type int: wanted positive, finite"),
        (
            lambda: stepped(1e60, np.float32),
            ValueError,
            "dt is 1e+60: wanted positive, finite seconds in float32, one or one for each state",
        ),
        (lambda: stepped([1e60], "f4"), ValueError, "dt is [1e+60]: wanted positive, finite"),
        (lambda: stepped(1e-60, np.float32), ValueError, "finite seconds in float32"),
        (lambda: stepped([1e-60, 0.1], "f4"), ValueError, "finite seconds in float32"),
    ],
)
def test_wrong_arguments_are_told_in_one_sentence(call, error, told):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error) as caught:
            call()
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_steps_in_time_that_are_just_good():
    for dtype in (np.float32, np.float64):
        info = np.finfo(dtype)
        for dt in (float(info.smallest_subnormal), 1, np.float64(0.01) if dtype is float else 0.01):
            assert stepped(dt, dtype).q.dtype == dtype


@pytest.mark.parametrize("integrator", ["rk4", "midpoint"])
def test_controls_of_a_policy_hold_over_the_stages_of_a_step(integrator):
    """Also where the law depends on the time, which stages in between would see."""
    arm, law = fl.load("double_pendulum"), lambda q, v, t: np.cos(9 * t) - 5 * q - v
    q, v, dt = np.array([0.4, -0.3]), np.zeros(2), 0.05
    run = arm.rollout_with(arm.policy(law), q, v, dt, 4, integrator=integrator)
    for k in range(4):
        q, v = arm.step(q, v, law(q, v, k * dt), dt, integrator=integrator)
        np.testing.assert_allclose(run.q[k + 1], q, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(run.v[k + 1], v, rtol=1e-12, atol=1e-14)
