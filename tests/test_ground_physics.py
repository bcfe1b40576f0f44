"""The ground by physics: bodies whose motion has a formula, balances, and many falling robots."""

import numpy as np
import pytest
from ground_robots import DT, RADIUS, ball, block, quadruped, standing
from numpy.testing import assert_allclose, assert_array_equal
from repetition import repeated

import featherlane as fl

G, SLOPE = 9.81, 0.3  # m/s^2, rad


def slope(friction, angle=SLOPE):
    """A plane that falls along x."""
    return fl.Ground(normal=(np.sin(angle), 0.0, np.cos(angle)), friction=friction)


def on_slope(q, angle=SLOPE):
    """States of a root with its origin at a height over the level ground, on the slope instead."""
    turned = np.array(q)
    turned[:3] = q[2] * np.array([np.sin(angle), 0.0, np.cos(angle)])
    turned[3:7] = [0.0, np.sin(angle / 2), 0.0, np.cos(angle / 2)]
    return turned


def still(model, steps):
    return np.zeros((steps, model.nv))


def test_a_ball_rolls_on_at_its_speed():
    q, v = np.array([0, 0, RADIUS, 0, 0, 0, 1.0]), np.array([1.0, 0, 0, 0, 1 / RADIUS, 0])
    moved = ball().rollout(q, v, still(ball(), 2500), DT, ground=fl.Ground())
    assert_allclose(np.linalg.norm(moved.v[:, :3], axis=1), 1.0, rtol=1e-10)
    assert_allclose(moved.q[-1, :3], [5.0, 0, RADIUS], rtol=1e-10, atol=1e-12)


def test_a_ball_that_slides_comes_to_roll_at_five_sevenths():
    q, v, mu = np.array([0, 0, RADIUS, 0, 0, 0, 1.0]), np.array([1.0, 0, 0, 0, 0, 0]), 0.4
    moved = ball().rollout(q, v, still(ball(), 200), DT, ground=fl.Ground(friction=mu))
    speed = np.linalg.norm(moved.v[:, :3], axis=1)
    rolls = 2 / 7 / (mu * G)  # s
    t = DT * np.arange(201)
    assert_allclose(speed[t < rolls], 1 - mu * G * t[t < rolls], rtol=1e-9)
    assert_allclose(speed[t > rolls + DT], 5 / 7, rtol=1e-9)
    assert_allclose(moved.v[-1, 4], 5 / 7 / RADIUS, rtol=1e-9)


@pytest.mark.parametrize("mu", [0.5, 0.05])
def test_a_ball_rolls_down_a_slope(mu):
    """At 5/7 g sin, or with friction below 2/7 tan at g (sin - mu cos)."""
    text = f"""<mujoco><worldbody><body><freejoint/><geom type="sphere" size="{RADIUS}" mass="2"
        friction="{mu} 0 0"/></body></worldbody></mujoco>"""
    model = fl.load(text)
    q = on_slope([0, 0, RADIUS, 0, 0, 0, 1.0])
    moved = model.rollout(q, np.zeros(6), still(model, 500), DT, ground=slope(mu))
    wanted = 5 / 7 * G * np.sin(SLOPE) if mu > 0.2 else G * (np.sin(SLOPE) - mu * np.cos(SLOPE))
    assert_allclose(np.linalg.norm(moved.v[-1, :3]), wanted, rtol=1e-9)


@pytest.mark.parametrize("share", [0.999, 1.02])
def test_a_block_sticks_below_its_friction_angle_and_slides_above(share):
    mu, angle = 1.0, np.pi / 4 * share
    q = on_slope([0, 0, 0.05, 0, 0, 0, 1.0], angle)
    moved = block().rollout(q, np.zeros(6), still(block(), 500), DT, ground=slope(mu, angle))
    speed = np.linalg.norm(moved.v[-1, :3])
    if share < 1:
        assert speed < 1e-9
        assert_allclose(moved.q[-1], q, atol=1e-5)
    else:
        assert_allclose(speed, G * (np.sin(angle) - mu * np.cos(angle)), rtol=2e-3)


def test_momenta_change_by_the_forces_of_contacts():
    """dt (m g + sum f), and about the middle dt sum r x f, of a ball that bounces and slides."""
    rng = np.random.default_rng(0)
    q, v = np.tile([0, 0, RADIUS + 0.05, 0, 0, 0, 1.0], (8, 1)), rng.normal(size=(8, 6))
    law = fl.Coulomb(restitution=0.6)
    moved = ball().rollout(q, v, np.zeros((8, 300, 6)), DT, ground=fl.Ground(), law=law)
    assert (moved.contact_force[..., 2] > 0).any(1).all()
    turn = np.stack([ball().frame_placement(x, "ball")[:, :3, :3] for x in moved.q])
    p, w = (np.einsum("ntij,ntj->nti", turn, moved.v[..., k : k + 3]) for k in (0, 3))
    force = moved.contact_force[:, :, 0]
    pushed = DT * (force + 2.0 * np.array([0, 0, -G]))
    assert_allclose(2.0 * np.diff(p, axis=1), pushed, atol=1e-10)
    middle = -0.5 * (moved.q[:, :-1, 2] + RADIUS)  # contacts are midway between the surfaces
    moment = np.cross(middle[..., None] * np.array([0, 0, 1.0]), force)
    assert_allclose(0.4 * 2.0 * RADIUS**2 * np.diff(w, axis=1), DT * moment, atol=1e-12)


def energy(model, q, v):
    return model.kinetic_energy(q, v) + model.potential_energy(q)


def test_a_sliding_block_loses_the_work_of_its_friction():
    """A step's mean velocity is the one that friction works against."""
    q, v = np.array([0, 0, 0.05, 0, 0, 0, 1.0]), np.array([2.0, 0.5, 0, 0, 0, 0])
    moved = block().rollout(q, v, still(block(), 150), DT, ground=fl.Ground(friction=0.5))
    force = moved.contact_force.sum(1)
    mean = 0.5 * (moved.v[1:, :3] + moved.v[:-1, :3])
    lost = np.diff(energy(block(), moved.q, moved.v))
    assert (lost[:10] < 0).all()
    assert_allclose(lost, DT * np.sum(force * mean, -1), atol=1e-12)


def test_a_thrown_box_keeps_momenta_and_flies_on_a_parabola():
    box = fl.load("""<mujoco><worldbody><body name="box"><freejoint/>
        <geom type="box" size="0.1 0.2 0.3" mass="1"/></body></worldbody></mujoco>""")
    q, v = np.array([0, 0, 1, 0, 0, 0, 1.0]), np.array([3.0, 0, 5, 2, 10, -4])
    errors = []
    for steps in (1000, 2000):
        moved = box.rollout(q, v, np.zeros((steps, 6)), 1 / steps)
        t = np.arange(steps + 1) / steps
        z = 1 + 5 * t - 0.5 * G * t * (t + 1 / steps)
        assert_allclose(moved.q[:, :3], np.stack([3 * t, 0 * t, z], -1), atol=1e-11)
        spin = box.centroidal_momentum(moved.q, moved.v)[:, 3:]
        errors.append(np.linalg.norm(spin[-1] - spin[0]) / np.linalg.norm(spin[0]))
    assert errors[0] < 0.02  # of the explicit w x I w, of first order
    assert np.log2(errors[0] / errors[1]) == pytest.approx(1, abs=0.2)


def test_a_top_precesses_on_its_tip():
    """At the slow rate of steady precession: m g l = I w3 O - A O^2 cos, about the tip."""
    mass, length, across, along = 0.5, 0.06, 2e-4, 4e-4  # kg, m, kg m^2 about the centre of mass
    tip = 1e-5
    top = fl.load(f"""<mujoco><worldbody><body name="top"><freejoint/>
        <inertial pos="0 0 0" mass="{mass}" diaginertia="{across} {across} {along}"/>
        <geom type="sphere" size="{tip}" pos="0 0 {-length}" friction="2 0 0"/>
        </body></worldbody></mujoco>""")
    tilt, spin = 0.3, 150.0
    A = across + mass * length**2
    a, b, c = A * np.cos(tilt), -along * spin, mass * G * length
    rate = (-b - np.sqrt(b * b - 4 * a * c)) / (2 * a)
    w = rate * np.array([-np.sin(tilt), 0, np.cos(tilt)])
    w[2] = spin
    q = np.array([length * np.sin(tilt), 0, length * np.cos(tilt) + tip, 0, 0, 0, 1.0])
    q[3:7] = [0, np.sin(tilt / 2), 0, np.cos(tilt / 2)]
    v = np.concatenate([np.cross(w, [0, 0, length]), w])
    dt, steps = 2e-4, 5000
    moved = top.rollout(q, v, np.zeros((steps, 6)), dt, ground=fl.Ground(friction=2.0))
    axis = top.frame_placement(moved.q, "top")[:, :3, 2]
    turned = np.unwrap(np.arctan2(axis[:, 1], axis[:, 0]))
    assert_allclose(turned[-1], rate * dt * steps, rtol=0.01)
    assert_allclose(np.arccos(axis[:, 2]), tilt, atol=0.04)  # the explicit w x I w


def row_of_balls(gap, n=4):
    """Balls without friction on the ground in a row along x, and the names of their pairs."""
    bodies = "".join(
        f'<body name="b{k}" pos="0 0 0"><freejoint/><geom name="b{k}" type="sphere" '
        f'size="{RADIUS}" mass="1" friction="0 0 0"/></body>'
        for k in range(n)
    )
    model = fl.load(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    pairs = [(f"b{k}", f"b{k + 1}") for k in range(n - 1)]
    q = np.tile([0, 0, RADIUS, 0, 0, 0, 1.0], n)
    q[::7] = np.arange(n) * (2 * RADIUS + gap)
    return model, fl.Ground(friction=0.0, pairs=pairs), q


def test_newtons_cradle_of_balls_that_are_apart():
    """Each collision has its own step: the last ball leaves with the velocity of the first."""
    model, ground, q = row_of_balls(gap=0.003)
    v = np.zeros(model.nv)
    v[0] = 1.0
    law = fl.Coulomb(restitution=1.0)
    moved = model.rollout(q, v, still(model, 30), DT, ground=ground, law=law)
    assert_allclose(moved.v[-1, ::6], [0, 0, 0, 1.0], atol=1e-9)


def test_balls_that_touch_collide_at_once():
    """Newton's law for all contacts at the same time is not the cradle: of three, the first goes
    back with a third of its velocity.
    """
    model, ground, q = row_of_balls(gap=0.0, n=3)
    v = np.zeros(model.nv)
    v[0] = 1.0
    law = fl.Coulomb(restitution=1.0, sweeps=60)
    moved = model.rollout(q, v, still(model, 5), DT, ground=ground, law=law)
    assert_allclose(moved.v[-1, ::6], [-1 / 3, 2 / 3, 2 / 3], atol=1e-6)


@pytest.mark.parametrize("dt", repeated([DT, 0.001], 1))
def test_limp_robots_fall_and_lie(dt):
    """Their legs, without torques, become straight and wedge: sweeps diverge there, and energy does
    not grow. Feet stay above the ground but for the millimetres in which they begin.
    """
    model = quadruped()
    q, v = standing(256, seed=0)
    q[:, 2] += np.linspace(0, 0.5, 256)
    moved = model.rollout(q, v, np.zeros((256, 500, model.nv)), dt, ground=fl.Ground())
    assert np.isfinite(moved.q).all()
    assert moved.residual.max() > 0.1
    E = energy(model, moved.q, moved.v)
    assert (E.max(1) < E[:, 0] + 0.5).all()  # J, of 35: the error of flights at this step


def lowest(model, q):
    """The height of the lowest foot's underside."""
    heights = []
    for shape in model.collision_shapes:
        frame = model.frame(shape.link).placement
        at = np.transpose(frame.R) @ (np.array(shape.placement.p) - frame.p)
        X = model.frame_placement(q, shape.link)
        heights.append((X[..., 2, :3] @ at + X[..., 2, 3] - shape.size[0]).min())
    return min(heights)


MOTORS = {"armature": 0.02, "damping": 0.5}  # kg m^2, N m s, which the files of these have not
FALLS = [("go2", {}, 100, 500), ("go2", {}, 1000, 1000), ("hyq", MOTORS, 1000, 1000),
         ("g1", MOTORS, 1000, 1000)]  # fmt: skip


@pytest.mark.parametrize(("name", "physics", "count", "steps"), repeated(FALLS, 1))
def test_robots_fall_under_random_torques(name, physics, count, steps):
    """They stay finite, and their feet are at most 20 mm in the ground."""
    model, rng = fl.load(name, root="free").with_physics(**physics), np.random.default_rng(0)
    turn = np.zeros((count, model.nv))
    turn[:, 3:6] = 0.3 * rng.normal(size=(count, 3))
    turn[:, 6:] = 0.2 * rng.normal(size=(count, model.nv - 6))
    q = model.integrate(np.tile(model.neutral(), (count, 1)), turn)
    q[:, 2] += 1 + 0.5 * rng.random(count)
    v = 0.5 * rng.normal(size=(count, model.nv))
    most = np.linspace(0, 5 if name == "g1" else 20, count)[:, None, None]  # N m
    tau = np.zeros((count, steps, model.nv))
    tau[..., 6:] = most * np.repeat(rng.normal(size=(count, steps // 50, model.nv - 6)), 50, 1)
    moved = model.rollout(q, v, tau, DT, ground=fl.Ground())
    assert (moved.diverged < 0).all()
    assert (moved.contact_force[..., 2] > 0).any()
    assert lowest(model, moved.q) > -0.02


def test_each_environment_has_its_bits():
    """Whatever the size of the batch, the threads and the neighbours."""
    model = quadruped()
    q, v = standing(37, seed=5)
    tau = np.random.default_rng(1).normal(size=(37, 40, model.nv)) * [*[0] * 6, *[3] * 8]
    run = lambda rows, **options: model.rollout(
        q[rows], v[rows], tau[rows], DT, ground=fl.Ground(), **options
    )
    whole, order = run(slice(None)), np.random.default_rng(2).permutation(37)
    others = {
        "threads": (run(slice(None), threads=2), slice(None)),
        "neighbours": (run(order), order),
        "batch": (run(slice(30, 31)), slice(30, 31)),
        "many": (run(np.tile(order, 9)), np.tile(order, 9)),
    }
    for moved, rows in others.values():
        for x, y in zip(moved[:4], whole[:4], strict=True):
            assert_array_equal(x, y[rows])
