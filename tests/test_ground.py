"""Steps and rollouts on the ground: laws of physics, and the law of contact itself."""

import numpy as np
import pytest
from free_roots import acceleration, in_axes_of_beginning
from ground_robots import (
    DT,
    RADIUS,
    ball,
    block,
    posture,
    quadruped,
    standing,
)

import featherlane as fl

GROUND, G = fl.Ground(friction=0.8), 9.81


def free_run(model, q, v, steps, **options):
    tau = np.zeros((*q.shape[:-1], steps, model.nv))
    return model.rollout(q, v, tau, DT, ground=GROUND, **options)


def test_a_ball_bounces_with_its_restitution():
    """Peaks go down by e^2, but for the way of a step; the energy that e = 0 leaves is none."""
    model, e = ball(), np.array([0.0, 0.5, 0.9])
    q, v = np.tile([0, 0, 1 + RADIUS, 0, 0, 0, 1.0], (3, 1)), np.zeros((3, 6))
    moved = free_run(model, q, v, 600, ground_params={"restitution": e})
    height = moved.q[:, :, 2] - RADIUS
    first = np.argmax(moved.contact_force[:, :, 0, 2] > 0, axis=1)
    assert np.abs(first * DT - np.sqrt(2 / G)).max() < 2 * DT
    peaks = [height[k, first[k] + 1 :][:400].max() for k in range(3)]
    assert np.abs(peaks - e**2).max() < 0.02
    assert height.min() > -1e-9
    assert np.abs(moved.v[0, first[0] + 2 :]).max() < 1e-9


def test_a_sliding_ball_begins_to_roll():
    """A homogeneous ball that slides at v0 rolls at 5/7 v0 after 2/7 v0 / (mu g)."""
    model, v0 = ball(), 1.0
    q, v = np.array([0, 0, RADIUS, 0, 0, 0, 1.0]), np.array([v0, 0, 0, 0, 0, 0])
    moved = free_run(model, q, v, 300, ground_params={"friction": 0.4})
    speed = np.diff(moved.q[:, 0]) / DT
    slip = speed - moved.v[1:, 4] * RADIUS  # of the body's axis y, which stays horizontal
    rolls = int(np.argmax(np.abs(slip) < 1e-3))
    assert abs(rolls * DT - 2 / 7 * v0 / (0.4 * G)) < 3 * DT
    assert np.abs(speed[rolls:] - 5 / 7 * v0).max() < 0.02
    assert np.abs(slip[rolls:]).max() < 0.01


def test_a_block_slides_beyond_the_friction_angle():
    """On a slope a block stays while tan(angle) < mu, and else slides at g (sin - mu cos)."""
    model, mu = block(), 0.5
    angle = np.arctan(mu) + np.array([-0.2, -0.01, 0.01, 0.2])
    q = np.tile([0, 0, 0.05, 0, 0, 0, 1.0], (4, 1))
    slope = {"gravity": G * np.stack([np.sin(angle), 0 * angle, -np.cos(angle)], -1)}
    moved = free_run(
        model,
        q,
        np.zeros((4, 6)),
        200,
        params=slope,
        ground_params={"friction": mu},
    )
    a = np.maximum(G * (np.sin(angle) - mu * np.cos(angle)), 0)
    # A push that barely slides is solved over the first steps
    assert np.abs(moved.v[:, -1, 0] - a * 200 * DT).max() < 1e-3
    force = moved.contact_force[:, -1].sum(1)
    assert np.allclose(force[:, 2], 3 * G * np.cos(angle), rtol=1e-9)
    sliding = a > 0
    assert np.allclose(-force[sliding, 0] / force[sliding, 2], mu, rtol=1e-9)
    assert np.allclose(-force[~sliding, 0] / force[~sliding, 2], np.tan(angle[~sliding]))


def test_a_standing_robot_carries_its_weight():
    model, law = posture()
    q, v = standing(8)
    gain = {"gain": np.linspace(40, 80, 8)}
    moved = model.rollout_with(law, q, v, DT, 1500, parameters=gain, ground=GROUND)
    weight = moved.contact_force[:, -200:, :, 2].sum(-1).mean(-1)
    assert np.abs(weight / (model.mass * G) - 1).max() < 1e-3
    assert moved.residual[:, -1].max() < 1e-6


def energy(model, q, v):
    return model.kinetic_energy(q, v) + model.potential_energy(q)


def test_falling_robots_lose_energy_and_stay_above_the_ground():
    model = quadruped()
    q, v = standing(32)
    q[:, 2] += np.linspace(0, 0.5, 32)
    moved = free_run(model, q, v, 500)
    assert np.isfinite(moved.q).all()
    feet = [model.frame_placement(moved.q, f"{leg}_shank") for leg in ("FL", "FR", "RL", "RR")]
    lowest = min((foot[..., 2, 3] - 0.2 * foot[..., 2, 2] - 0.02).min() for foot in feet)
    assert lowest > -6e-3  # some of the first states are 5 mm in the ground
    E = energy(model, moved.q[:, 1:], moved.v[:, 1:])
    assert (E.max(1) < E[:, 0] + 0.3).all()  # J, the error of free flight at this step


def contact_jacobians(model, q):
    """Returns J of the lowest points of the feet, (n, 4, 3, nv), and their gaps."""
    J, gap = [], []
    for leg in ("FL", "FR", "RL", "RR"):
        X, of_frame = (
            model.frame_placement(q, f"{leg}_shank"),
            model.jacobian(q, f"{leg}_shank", "world"),
        )
        arm = X[:, :3, 2] * -0.2
        gap.append(X[:, 2, 3] + arm[:, 2] - 0.02)
        arm[:, 2] -= 0.02 + 0.5 * gap[-1]  # midway to the ground
        turned = np.cross(of_frame[:, 3:], arm[:, :, None], axis=1)
        J.append(of_frame[:, :3] + turned)
    return np.stack(J, 1), np.stack(gap, 1)


def test_impulses_meet_the_law_of_coulomb():
    """M (v' - v) = dt (tau - h) + J^T p with impulses in the cone, gaps that stay open, no work of
    normal impulses, and friction against the velocity where a foot slides.
    """
    model, mu = quadruped(), 0.8
    q, v = standing(200, seed=1)
    tau = np.random.default_rng(2).normal(size=v.shape) * [*[0] * 6, *[3] * 8]
    after = model.step(q, v, tau, DT, ground=GROUND, integrator="semi_implicit")
    assert np.median(after.residual) < 1e-7
    solved = after.residual < 1e-11
    assert solved.sum() > 40
    q, v, tau = q[solved], v[solved], tau[solved]
    after = type(after)(*(x[solved] for x in after))
    J, gap = contact_jacobians(model, q)
    f, u = after.contact_force, np.einsum("ncij,nj->nci", J, in_axes_of_beginning(model, q, after))
    M, h = model.mass_matrix(q), model.bias_force(q, v)
    left = np.einsum("nij,nj->ni", M, acceleration(model, q, v, after, DT)) + h
    assert np.abs(left - tau - np.einsum("ncij,nci->nj", J, f)).max() < 1e-7
    least = np.where(gap > 0, -gap / DT, np.minimum(-0.2 * gap / DT, 1.0))
    excess, normal = u[..., 2] - least, f[..., 2]
    tangential = np.linalg.norm(f[..., :2], axis=-1)
    assert excess.min() > -1e-9
    assert normal.min() >= 0
    assert np.abs(excess * normal).max() < 1e-7
    assert (tangential <= mu * normal * (1 + 1e-12) + 1e-9).all()
    speed = np.linalg.norm(u[..., :2], axis=-1)
    slides = (speed > 1e-6) & (normal > 1e-6)
    sticks = (normal > 1e-6) & ~slides
    assert slides.sum() > 9
    assert sticks.sum() > 9
    assert (normal == 0).sum() > 9
    wanted = -mu * normal[slides, None] * u[slides][:, :2] / speed[slides, None]
    assert np.abs(f[slides][:, :2] - wanted).max() < 1e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bits_do_not_depend_on_batch_threads_and_neighbours(dtype):
    model = quadruped()
    q, v = (x.astype(dtype) for x in standing(37))
    tau, dt = np.zeros((37, 20, model.nv), dtype), dtype(DT)
    run = lambda rows, threads: model.rollout(
        q[rows], v[rows], tau[rows], dt, ground=GROUND, threads=threads
    )
    whole = run(np.arange(37), 2)
    order = np.random.default_rng(0).permutation(37)
    for x, y, z in zip(whole, run(order, 1), run(np.array([5]), 1), strict=True):
        assert x.dtype == dtype
        assert np.array_equal(x[order], y)
        assert np.array_equal(x[5:6], z)
    one = model.rollout(q[5], v[5], tau[5], dt, ground=GROUND)
    assert all(np.array_equal(x[5], y) for x, y in zip(whole, one, strict=True))


def test_a_rollout_repeats_steps_from_their_impulses():
    model, law = posture()
    q, v = standing(3)
    moved = model.rollout_with(law, q, v, DT, 12, parameters={"gain": 60.0}, ground=GROUND)
    kept = model.rollout(q, v, moved.tau, DT, ground=GROUND, every=4)
    impulse = np.zeros((3, 12))
    for k in range(12):
        after = model.step(
            q, v, moved.tau[:, k], DT, ground=GROUND, ground_params={"impulse": impulse}
        )
        q, v, impulse = after.q, after.v, after.impulse
        assert np.allclose(moved.contact_force[:, k], after.contact_force, rtol=1e-9, atol=1e-9)
        assert np.allclose(moved.residual[:, k], after.residual, rtol=1e-9, atol=1e-12)
    for x, y in ((moved.q, q), (moved.v, v)):
        assert np.allclose(x[:, -1], y, rtol=1e-12, atol=1e-12)
    assert np.allclose(kept.q, moved.q[:, ::4], atol=1e-12)
    assert np.allclose(kept.impulse, impulse, atol=1e-12)
    first = model.rollout(q, v, moved.tau, DT, ground=GROUND, ground_params={"impulse": impulse})
    assert not np.array_equal(first.q, model.rollout(q, v, moved.tau, DT, ground=GROUND).q)


def test_each_environment_has_its_own_ground_and_masses():
    model, n = block(), 3
    height, mass = np.array([-0.3, 0.0, 0.2]), np.array([[1.0], [2.0], [5.0]])
    q = np.tile([0, 0, 0.05, 0, 0, 0, 1.0], (n, 1))
    q[:, 2] += height
    scale = {"mass": mass}
    moved = free_run(model, q, np.zeros((n, 6)), 20, params=scale, ground_params={"height": height})
    assert np.abs(moved.q[:, -1, 2] - q[:, 2]).max() < 1e-12
    assert np.allclose(moved.contact_force[:, -1].sum(1)[:, 2], mass[:, 0] * G)


def test_heights_of_each_environment_are_those_of_constant_fields():
    """A block on a hilly field whose heights are inputs moves as on each field of constants."""
    model, rng = block(), np.random.default_rng(6)
    heights = 0.05 * rng.uniform(size=(3, 4, 3))
    q = np.tile([0.1, 0.05, 0.12, 0, 0, 0, 1.0], (3, 1))
    v, tau = rng.normal(size=(3, 6)) * 0.3, np.zeros((3, 60, 6))
    field = lambda z: fl.Ground(surfaces=[fl.HeightField((-1.0, 1.0), (-1.0, 1.0), z)])
    many = model.rollout(q, v, tau, DT, ground=field((4, 3)), ground_params={"heights": heights})
    assert (many.contact_force[..., 2] > 0).any((1, 2)).all()
    for k in range(3):
        one = model.rollout(q[k], v[k], tau[k], DT, ground=field(heights[k]))
        assert np.allclose(many.q[k], one.q, atol=1e-9)
        assert np.allclose(many.contact_force[k], one.contact_force, rtol=1e-6, atol=1e-6)


def test_each_environment_has_its_friction_restitution_gains_and_masses():
    """All in one call, as each alone: the arrays of the law, of the robot and of the ground."""
    model, law = posture()
    q, v = standing(3, seed=8)
    gain, mass = np.array([40.0, 60.0, 90.0]), model.parameters("mass")["mass"]
    params = {"mass": mass * np.array([[0.8], [1.0], [1.3]])}
    of_ground = {"friction": np.array([0.2, 0.5, 0.9]), "restitution": np.array([0.0, 0.1, 0.3])}
    run = lambda k: model.rollout_with(
        law, q[k], v[k], DT, 40, ground=GROUND, parameters={"gain": gain[k]},
        params={"mass": params["mass"][k]}, ground_params={x: a[k] for x, a in of_ground.items()},
    )  # fmt: skip
    many = run(slice(None))
    assert (many.contact_force > 0).any()
    for k in range(3):
        assert np.array_equal(many.q[k], run(k).q)


def test_traces_step_on_the_ground():
    model = quadruped()
    q, v = standing(4)
    tau = np.zeros((4, model.nv))

    def foot_forces(q, v, tau):
        after = model.step(q, v, tau, DT, ground=GROUND)
        return {"v": after.v, "force": after.contact_force}

    traced = fl.compile(foot_forces, {"q": model.nq, "v": model.nv, "tau": model.nv})(q, v, tau)
    after = model.step(q, v, tau, DT, ground=GROUND)
    assert np.allclose(traced.v, after.v, rtol=1e-12, atol=1e-12)
    assert np.allclose(traced.force, after.contact_force, rtol=1e-9, atol=1e-9)
    named = fl.call(model, "step", q, v, tau, DT, ground=GROUND)
    assert np.array_equal(named.v, after.v)
    function = model.function("step", ground=GROUND)
    assert np.array_equal(function(q, v, tau, DT).v, after.v)


def test_derivatives_along_directions_are_those_of_linear_steps():
    """However few sweeps there are: all are derivatives of the equations."""
    model = quadruped()
    q, v = standing(20, seed=4)
    rng = np.random.default_rng(5)
    (dq, dv, du), (gq, gv) = rng.normal(size=(3, *v.shape)), rng.normal(size=(2, *v.shape))
    state, options = (q, v, 0 * v, DT), {"ground": GROUND, "law": fl.Coulomb(sweeps=5)}
    assert (model.step(*state, **options).residual > 1e-6).any()
    linear = model.linearize_step(*state, **options)
    both = np.concatenate([linear.A, linear.B], -1)
    along = np.einsum("nij,nj->ni", both, np.hstack([dq, dv, du]))
    found = np.hstack(model.step_jvp(*state, dq, dv, du, **options))
    errors = np.abs(found - along).max(1) / np.abs(along).max(1)
    assert np.median(errors) < 1e-14
    assert errors.max() < 1e-10  # of weak pivots, whose rounding errors grow
    back = np.einsum("nij,ni->nj", both, np.hstack([gq, gv]))
    found = np.hstack(model.step_vjp(*state, gq, gv, **options))
    errors = np.abs(found - back).max(1) / np.abs(back).max(1)
    assert np.median(errors) < 1e-14
    assert errors.max() < 1e-10


def test_linear_steps_are_those_of_differences():
    """Where the sweeps came to the solution; a few contacts change within the differences."""
    model, h = quadruped(), 1e-6
    q, v = standing(60, seed=4)
    tau = np.random.default_rng(2).normal(size=v.shape) * [*[0] * 6, *[3] * 8]
    solved = model.step(q, v, tau, DT, ground=GROUND).residual < 1e-10
    assert solved.sum() > 20
    q, v, tau = q[solved], v[solved], tau[solved]
    linear = model.linearize_step(q, v, tau, DT, ground=GROUND)
    touching = model.step(q, v, tau, DT, ground=GROUND).contact_force[..., 2] > 0
    assert touching.mean() > 0.1
    n, columns = model.nv, []
    for k in range(3 * n):
        dq, dv, du = (np.tile(np.eye(3 * n)[k, part], (len(q), 1)) for part in _thirds(n))
        ends = [
            model.step(model.integrate(q, s * dq), v + s * dv, tau + s * du, DT, ground=GROUND)
            for s in (h, -h)
        ]
        change = model.difference(ends[1].q, ends[0].q), ends[0].v - ends[1].v
        columns.append(np.hstack(change) / (2 * h))
    differences = np.stack(columns, -1)
    exact = np.concatenate([linear.A, linear.B], -1)
    error = np.abs(exact - differences).max((1, 2)) / np.abs(differences).max((1, 2))
    assert np.median(error) < 1e-7
    assert (error < 1e-4).mean() > 0.9


def _thirds(n):
    return slice(0, n), slice(n, 2 * n), slice(2 * n, 3 * n)


def test_jax_differentiates_steps_by_friction_too():
    jax = pytest.importorskip("jax", reason="jax is not installed")
    from featherlane.interop.jax import wrap

    model, wrapped, h = ball(), wrap(ball()), np.float32(1e-2)
    q = np.array([0, 0, RADIUS, 0, 0, 0, 1], np.float32)
    v = np.array([1, 0, -1, 0, 0, 0], np.float32)
    tau, dt = np.zeros(6, np.float32), np.float32(DT)
    at = lambda of, mu: of.step(q, v, tau, dt, ground=GROUND, ground_params={"friction": mu}).v[0]
    mu = np.float32(0.2)
    slope = jax.grad(lambda x: at(wrapped, x))(mu)
    difference = (at(model, mu + h) - at(model, mu - h)) / (2 * h)
    assert difference < -0.1
    assert abs(slope - difference) < 1e-3


def test_balls_on_a_line_exchange_their_velocities():
    """With e = 1 and equal masses, and m1 v1 + m2 v2 holds for others; no surface is touched."""
    ball = """<body name="{0}" pos="{1} 0 1"><joint name="{0}" type="slide" axis="1 0 0"/>
<geom name="{0}" type="sphere" size="0.1" mass="{2}"/></body>"""
    text = ball.format("a", 0, 1) + ball.format("b", 0.3, 1)
    model = fl.load(f"<mujoco><worldbody>{text}</worldbody></mujoco>")
    ground = fl.Ground(height=-5, pairs=[("a", "b")])
    mass, e = np.array([[1.0, 1.0], [1.0, 3.0]]), np.array([1.0, 0.5])
    q, v = np.zeros((2, 2)), np.array([[1.0, 0.0], [2.0, -1.0]])
    moved = model.rollout(
        q, v, np.zeros((2, 200, 2)), DT, ground=ground,
        params={"mass": mass}, ground_params={"restitution": e},
    )  # fmt: skip
    after, approach = moved.v[:, -1], v[:, 0] - v[:, 1]
    assert np.allclose((mass * after).sum(1), (mass * v).sum(1), rtol=1e-12)
    assert np.allclose(after[:, 1] - after[:, 0], e * approach, rtol=1e-12)


def test_joints_stop_at_limits_and_stick_by_dry_friction():
    model = quadruped()
    law = fl.Coulomb(limits=True, friction_loss=True, sweeps=8)
    q = np.array([0, 0, 20.0, 0, 0, 0, 1, *np.tile([0.0, -0.4], 4)])
    still, tau = np.zeros(model.nv), np.zeros((400, model.nv))
    tau[:, 7::2] = 0.5  # against the knees' upper limit, in the air
    knees = model.rollout(q, still, tau, DT, ground=GROUND, law=law).q[:, 8::2]
    assert np.abs(knees[-1] + 0.3).max() < 1e-9
    assert knees.max() < -0.3 + 1e-9
    tau[:, 7::2] = 0.09  # less than dry friction
    assert (
        np.abs(model.rollout(q, still, tau, DT, ground=GROUND, law=law).v[100:, 6:]).max() < 1e-12
    )
    smooth = model.rollout(q, still, tau, DT, ground=GROUND)
    assert np.abs(smooth.v[:, 6:]).max() > 1e-3


def test_constraints_hold_beside_contacts():
    """Knees that follow the hips, with one of the couplings switched off."""
    model = quadruped()
    legs = ("FL", "FR", "RL", "RR")
    c = model.constraints([fl.Coupling(f"{x}_knee", f"{x}_hip", (0.0, -2.0)) for x in legs])
    q, v = standing(6)
    q[:, 8::2] = -2 * q[:, 7::2]
    active = np.ones((6, 4))
    active[3, 1] = 0
    tau, law = np.zeros_like(v), fl.Coulomb(sweeps=30)
    options = {"ground": GROUND, "constraints": c, "law": law}
    after = model.step(q, v, tau, DT, active=active, **options)
    error = after.v[:, 7::2] + 2 * after.v[:, 6::2]
    assert np.abs(error[active == 1]).max() < 1e-9
    assert abs(error[3, 1]) > 1e-3
    assert after.contact_force[..., 2].max() > 1
    # Contacts meet their law beside the constraints
    J, gap = contact_jacobians(model, q)
    u = np.einsum("ncij,nj->nci", J, in_axes_of_beginning(model, q, after))
    excess = u[..., 2] - np.where(gap > 0, -gap / DT, np.minimum(-0.2 * gap / DT, 1.0))
    solved = after.residual < 1e-11
    assert solved.sum() > 2
    assert excess[solved].min() > -1e-9
    assert np.abs(excess * after.contact_force[..., 2])[solved].max() < 1e-6


def test_errors_name_the_argument():
    model = quadruped()
    q, v = standing(1)
    tau = np.zeros_like(v)
    step = lambda **options: model.step(q, v, tau, DT, **options)
    with pytest.raises(ValueError, match="semi_implicit"):
        step(ground=GROUND, integrator="rk4")
    with pytest.raises(TypeError, match=r"ground is 0.0: wanted fl\.Ground"):
        step(ground=0.0)
    with pytest.raises(TypeError, match="law needs a ground"):
        step(law=fl.Coulomb())
    with pytest.raises(ValueError, match=r"'frictoin'.*friction"):
        step(ground=GROUND, ground_params={"frictoin": 0.5})
    with pytest.raises(ValueError, match=r"has -0\.5: wanted finite numbers of 0 or more"):
        step(ground=GROUND, ground_params={"friction": -0.5})
    with pytest.raises(ValueError, match="restitution of ground_params has 2: wanted numbers from"):
        step(ground=GROUND, ground_params={"restitution": [0.0, 2.0]})
    with pytest.raises(ValueError, match="height of ground_params has nan: wanted finite numbers"):
        step(ground=GROUND, ground_params={"height": np.nan})
    with pytest.raises(ValueError, match="no shape that touches the ground"):
        fl.load("double_pendulum").step([0, 0], [0, 0], [0, 0], DT, ground=GROUND)
    for wrong in ({"sweeps": 0}, {"erp": 2.0}, {"restitution": -1}, {"recovery_speed": np.inf}):
        with pytest.raises(ValueError, match=min(wrong)):
            fl.Coulomb(**wrong)


def test_laws_take_numbers_of_numpy():
    law = fl.Coulomb(sweeps=np.int64(5), restitution=np.float32(0.5), limits=np.True_)
    assert law == fl.Coulomb(sweeps=5, restitution=0.5, limits=True)
    assert repr(law) == repr(fl.Coulomb(sweeps=5, restitution=0.5, limits=True))
    for field in ({"erp": True}, {"sweeps": True}, {"sweeps": 1.5}, {"recovery_speed": True}):
        with pytest.raises(ValueError, match=next(iter(field))):
            fl.Coulomb(**field)


def test_the_residual_in_the_air_is_not_minus_zero():
    model = ball()
    q = np.array([0, 0, 1.0, 0, 0, 0, 1])
    residual = model.step(q, np.zeros(6), np.zeros(6), DT, ground=GROUND).residual
    assert str(residual) == "0.0"
