"""Bodies of all kinds of shapes that rest, land and collide, by the laws of physics."""

import warnings

import numpy as np
import pytest

import featherlane as fl
from featherlane.functions.ground_inputs import GroundInputs

WEIGHT = 9.81
CUBE = [(x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)]
LYING = fl.Placement.of([[0, 0, 1], [0, 1, 0], [-1, 0, 0]], (0, 0, 0))
SHAPES = {  # and the height of the centre at rest
    "sphere": (fl.CollisionShape("s", "sphere", (0.1,), 0), 0.1),
    "capsule": (fl.CollisionShape("s", "capsule", (0.05, 0.2), 0, LYING), 0.05),
    "ellipsoid": (fl.CollisionShape("s", "ellipsoid", (0.2, 0.2, 0.1), 0), 0.1),
    "cylinder": (fl.CollisionShape("s", "cylinder", (0.1, 0.2), 0), 0.2),
    "box": (fl.CollisionShape("s", "box", (0.1, 0.2, 0.15), 0), 0.15),
    "hull": (fl.CollisionShape("s", "hull", (), 0, points=(*CUBE, (0.0, 0.0, 0.0))), 0.1),
}


def ball(name="ball"):
    inertia = '<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/>'
    link = f'<link name="{name}"><inertial><mass value="1"/>{inertia}</inertial></link>'
    return fl.load(f'<robot name="{name}">{link}</robot>', root="free")


def fallen(model, height, ground, steps=600, **options):
    q = model.neutral()
    q[2::7] = height
    tau = np.zeros((steps, model.nv))
    return model.rollout(q, np.zeros(model.nv), tau, 0.002, ground=ground, **options)


@pytest.mark.parametrize("kind", SHAPES)
def test_bodies_come_to_rest(kind):
    shape, height = SHAPES[kind]
    fall = fallen(ball().with_collision_shapes(shape), height + 0.2, fl.Ground())
    assert fall.q[-1, 2] == pytest.approx(height, abs=1e-6)
    assert np.abs(fall.v[-1]).max() < 1e-9
    assert np.allclose(fall.contact_force[-1].sum(0), [0, 0, WEIGHT])
    assert fall.q[:, 2].min() > height - 1e-6


def test_each_environment_has_a_terrain():
    model = ball().with_collision_shapes(SHAPES["sphere"][0])
    ground = fl.Ground(surfaces=fl.HeightField((-1, 1), (-1, 1), (3, 2)))
    heights = np.zeros((4, 3, 2)) + np.array([0.0, 0.1, -0.2, 0.3])[:, None, None]
    q = np.tile(model.neutral(), (4, 1))
    q[:, 2] = 0.6
    fall = model.rollout(q, np.zeros((4, 6)), np.zeros((4, 600, 6)), 0.002, ground=ground,
                         ground_params={"heights": heights})  # fmt: skip
    assert np.allclose(fall.q[:, -1, 2], 0.1 + heights[:, 0, 0])
    with pytest.raises(ValueError, match="ground_params needs heights"):
        model.rollout(q, np.zeros((4, 6)), np.zeros((4, 2, 6)), 0.002, ground=ground)


def test_a_sphere_lands_on_a_box():
    place = fl.Placement.of(np.eye(3), (0.0, 0.0, 0.3))
    crate = fl.CollisionShape("crate", "box", (0.2, 0.2, 0.1), placement=place)
    model = ball().with_collision_shapes(SHAPES["sphere"][0])
    fall = fallen(model, 0.8, fl.Ground(surfaces=[crate]))
    assert fall.q[-1, 2] == pytest.approx(0.3 + 0.1 + 0.1, abs=1e-6)
    assert np.allclose(fall.contact_force[-1], [[0, 0, WEIGHT]])


def test_shapes_of_one_robot_collide():
    """Two spheres of one mass swap velocities, and keep the momentum."""
    text = """<mujoco><option gravity="0 0 0"/><worldbody>
    <body name="a"><freejoint/><geom name="a" size=".1" mass="1" friction="0"/></body>
    <body name="b"><freejoint/><geom name="b" size=".1" mass="1" friction="0"/></body>
    </worldbody></mujoco>"""
    pytest.importorskip("mujoco")
    model = fl.load(text)
    ground = fl.Ground(shapes=(), pairs=[("a", "b")])
    q, v = model.neutral(), np.zeros(12)
    q[7], v[0] = 0.5, 1.0
    law = fl.Coulomb(restitution=1.0)
    after = model.rollout(q, v, np.zeros((400, 12)), 0.001, ground=ground, law=law)
    assert np.allclose(after.v[-1], [0] * 6 + [1] + [0] * 5, atol=1e-9)
    along = after.v[:, 0] + after.v[:, 6]
    assert np.allclose(along, 1.0, atol=1e-12)
    assert after.contact_force.shape[-2:] == (1, 3)
    apart = after.q[:, 7] - after.q[:, 0]
    assert apart.min() > 0.2 - 1e-9


def test_another_shape_is_another_kernel():
    """Robots that differ in shapes alone have one fingerprint, and rest at their own heights."""
    small, large = (
        ball().with_collision_shapes(fl.CollisionShape("s", "sphere", (r,), 0)) for r in (0.1, 0.2)
    )
    assert small.fingerprint == large.fingerprint
    heights = [fallen(model, 0.3, fl.Ground()).q[-1, 2] for model in (small, large)]
    assert np.allclose(heights, [0.1, 0.2])


def test_many_contact_points_are_told():
    shapes = [fl.CollisionShape(f"c{k}", "cylinder", (0.1, 0.2), 0) for k in range(7)]
    model = ball().with_collision_shapes(shapes)
    with pytest.warns(RuntimeWarning, match=r"28 contact points on 7 shapes .*'c0'"):
        GroundInputs(fl.Ground(), fl.SoftContacts()).counts(model)
    with warnings.catch_warnings(action="error"):  # rigid steps have sweeps in a loop
        GroundInputs(fl.Ground(), fl.Coulomb()).counts(model)


def test_sweeps_over_many_contacts_that_are_no_loop_are_told():
    """Before they are compiled, which takes minutes: here the warning ends the call."""
    shapes = [fl.CollisionShape(f"c{k}", "cylinder", (0.1, 0.2), 0) for k in range(7)]
    model = ball().with_collision_shapes(shapes)
    state = model.neutral(), np.zeros(6), np.zeros(6), 0.002
    held = model.constraints([fl.Pin("ball", axes="z")])
    with warnings.catch_warnings(action="error"):
        for name in ("step", "linearize_step"):
            with pytest.raises(RuntimeWarning, match=r"28 contact points .*square.*'foot'"):
                getattr(model, name)(*state, ground=fl.Ground(), constraints=held)
        model.step(*state, ground=fl.Ground())


def test_friction_that_the_law_leaves_out_is_told():
    tire = fl.CollisionShape("tire", "sphere", (0.1,), 0, condim=6)
    model = ball().with_collision_shapes([tire, fl.CollisionShape("rim", "sphere", (0.05,), 0)])
    with pytest.warns(RuntimeWarning, match=r"contacts of 'tire' have condim 6: .*rolling"):
        GroundInputs(fl.Ground(), fl.Coulomb()).counts(model)
    with warnings.catch_warnings(action="error"):
        GroundInputs(fl.Ground(), fl.SoftContacts()).counts(model)
        GroundInputs(fl.Ground(shapes=("rim",)), fl.Coulomb()).counts(model)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bodies_that_are_kilometres_deep_rise(dtype):
    """At the speed of recovery, 1 m/s, shared between rising and rolling."""
    model = ball().with_collision_shapes(fl.CollisionShape("s", "sphere", (0.1,), 0))
    q, v = np.tile(model.neutral(), (3, 1)).astype(dtype), np.zeros((3, 6), dtype)
    q[:, 2], v[:, 0] = (-10.0, -1e3, -1e6), 0.3
    run = model.rollout(q, v, np.zeros((3, 20, 6), dtype), 0.002, ground=fl.Ground())
    assert (np.abs(run.v[:, -1, 2] - 1) < 0.1).all()
    assert run.residual.max() < 1e-3
