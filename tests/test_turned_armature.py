"""The armature along the lines of a free joint, which turns with its body: every algorithm against
the textbook, derivatives against dual numbers, and what is conserved.
"""

import numpy as np
import pytest
import textbook
from free_roots import acceleration
from numpy.testing import assert_allclose, assert_array_equal
from repetition import repeated

import featherlane as fl
from featherlane import algorithms
from featherlane.accelerators.organise.limbs import Limbs
from featherlane.algorithms.body_frames import body_derivatives
from featherlane.functions import kernels as variant_kernels
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.robot.chains import chains, groups
from featherlane.robot.editing.split_root import split_root
from featherlane.robot.tree_of import tree_of
from featherlane.tools.exact_derivatives import state_derivatives

ROBOTS = {
    "root": textbook.tree(["free", "revolute"], seed=1, physics=True),
    "inner": textbook.tree(["revolute", "free"], seed=2, physics=True),
}
BOX = """<mujoco><worldbody><body><joint name="root" type="free" armature="0.04"/>
  <geom type="box" size=".1 .2 .3" mass="1"/></body></worldbody></mujoco>"""


CASES = [("root", "short"), ("inner", "long"), ("root", "long"), ("inner", "short")]


@pytest.fixture(params=repeated(CASES, 2, spread=False), ids=" ".join)
def model(request, monkeypatch):
    """A robot as one piece of code, or in the recorded steps of long ones."""
    robot, length = request.param
    if length == "long":
        monkeypatch.setattr(variant_kernels, "LONG", 1)
    return fl.Model(**ROBOTS[robot]._fields())


def sample(model, n=4):
    rng = np.random.default_rng(0)
    q = model.random_configuration(n, seed=rng)
    return q, *rng.normal(size=(2, n, model.nv))


def close(found, wanted, tolerance=1e-12):
    assert_allclose(found, wanted, rtol=0, atol=tolerance * max(1, np.abs(wanted).max()))


def isotropic(model, along=0.7):
    """The robot with equal armatures along each free joint's lines, without resistance."""
    armature = model.armature.copy()
    for kind, first in zip(model.types, model.first_v, strict=True):
        if kind.name == "free":
            armature[first : first + 3] = along
    return model.with_physics(armature=armature, damping=0.0, friction=0.0)


def test_no_force_is_needed_where_the_origin_moves_straight_on():
    """MuJoCo's qacc is 0 there. Equal armatures have no moment, not even by rounding."""
    box, q = fl.load(BOX), [0, 0, 0, 0, 0, 0, 1]
    assert_array_equal(
        box.inverse_dynamics(q, [1, 0, 0, 0, 0, 2], [0, -2, 0, 0, 0, 0])[:3], [0, 0, 9.81]
    )
    bare, v = box.with_physics(armature=0.0), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    assert_array_equal(box.bias_force(q, v)[3:], bare.bias_force(q, v)[3:])


def test_all_methods_are_the_textbook(model):
    q, v, a = sample(model)
    tau = textbook.rnea(model, q, v, a)
    for method in FUNCTIONS["inverse_dynamics"].methods:
        close(model.inverse_dynamics(q, v, a, method=method), tau)
    for method in FUNCTIONS["forward_dynamics"].methods:
        close(model.forward_dynamics(q, v, tau, method=method), a, 1e-10)


def test_derivatives_are_those_of_dual_numbers(model):
    q, v, a = sample(model)
    along, tau = np.arange(model.nv), model.inverse_dynamics(q, v, a)
    still = np.zeros((len(q), model.nbodies, 6))
    variant, given = Variant("inverse_dynamics", "serial"), {"q": q, "v": v, "a": a, "f_ext": still}
    exact = state_derivatives(model, variant, given, along)
    for method in FUNCTIONS["inverse_dynamics_derivatives"].methods:
        for x, y in zip(
            model.inverse_dynamics_derivatives(q, v, a, method=method), exact, strict=True
        ):
            close(x, y)
    variant, given = (
        Variant("forward_dynamics", "aba"),
        {"q": q, "v": v, "tau": tau, "f_ext": still},
    )
    forward = state_derivatives(model, variant, given, along)
    for x, y in zip(model.forward_dynamics_derivatives(q, v, tau), forward, strict=False):
        close(x, y, 1e-10)
    known = {"a": a, "minv": model.mass_matrix_inverse(q)}
    for x, y in zip(model.forward_dynamics_derivatives(q, v, **known), forward, strict=False):
        close(x, y, 1e-10)


def test_derivatives_column_by_column_in_body_frames(model):
    q, v, a = sample(model, 1)
    by_columns = body_derivatives(tree_of(model), q[0], v[0], a[0])
    for x, y in zip(by_columns, model.inverse_dynamics_derivatives(q[0], v[0], a[0]), strict=True):
        close(np.array(x, float), y)


def test_second_derivatives(model):
    q, v, a = sample(model, 1)
    d, h = np.random.default_rng(1).normal(size=model.nv), 1e-5
    found = model.inverse_dynamics_second_derivatives(q, v, a).d2tau_dvdv @ d
    ahead, behind = [model.inverse_dynamics_derivatives(q, v + s * d, a)[1] for s in (h, -h)]
    close(found, (ahead - behind) / (2 * h), 1e-8)


def test_the_coriolis_matrix(model):
    """dM/dt = C + C^T, to which armature adds nothing, and C v is the force."""
    model = model.with_physics(damping=0.0, friction=0.0)
    q, v, _ = sample(model)
    C, light = model.coriolis_matrix(q, v), model.with_physics(armature=0.0)
    force = model.bias_force(q, v) - model.gravity_torque(q)
    close(np.einsum("bij,bj->bi", C, v), force)
    armature = C - light.coriolis_matrix(q, v)
    assert np.abs(armature).max() > 0.1
    close(armature + np.swapaxes(armature, 1, 2), np.zeros_like(C))


def test_armature_as_an_input(model):
    q, v, a = sample(model)
    light, params = model.with_physics(armature=0.0), model.parameters("armature")
    tau = model.inverse_dynamics(q, v, a)
    close(light.inverse_dynamics(q, v, a, params=params), tau)
    close(light.forward_dynamics(q, v, tau, params=params), a, 1e-10)
    close(light.coriolis_matrix(q, v, params=params), model.coriolis_matrix(q, v))
    found = light.inverse_dynamics_derivatives(q, v, a, params=params)
    for x, y in zip(found, model.inverse_dynamics_derivatives(q, v, a), strict=True):
        close(x, y)
    columns = model.inverse_dynamics_parameter_derivatives(q, v, a, "armature")
    close(columns @ model.armature, tau - light.inverse_dynamics(q, v, a))


def test_energy_and_momentum_are_conserved():
    """Without gravity and forces. The momentum is that of the bodies, and a R v of the root."""
    model = isotropic(ROBOTS["root"]).with_gravity((0, 0, 0))
    q, v, _ = sample(model)
    qs, vs = model.rollout(q, v, np.zeros((4, 100, model.nv)), 0.002, integrator="rk4")[:2]
    energy = model.kinetic_energy(qs, vs)
    close(energy[:, -1], energy[:, 0], 1e-8)

    def momentum(q, v):
        R, _ = textbook.poses(model, q)[0]
        own = 0.7 * np.einsum("...ij,...j->...i", R, v[..., :3])
        return model.centroidal_momentum(q, v)[..., :3] + own

    start = momentum(q, v)
    close(momentum(qs[:, -1], vs[:, -1]), start, 1e-8)


def test_implicit_damping_does_not_turn():
    """(M + dt D) a = tau - C v - g - D v: dt D is in the place of M's armature, without a force."""
    model, dt = ROBOTS["root"].with_physics(friction=0.0), 0.1
    q, v, tau = sample(model)
    after = model.step(q, v, tau, dt, integrator="implicit_damping")
    M = model.mass_matrix(q) + dt * np.diag(model.damping)
    wanted = np.linalg.solve(M, (tau - model.bias_force(q, v))[..., None])[..., 0]
    close(acceleration(model, q, v, after, dt), wanted, 1e-10)


def test_split_roots_have_it_along_the_axes_of_the_world():
    model = isotropic(ROBOTS["root"])
    split = split_root(model)
    q, v, a = sample(model)
    R = textbook.poses(model, q)[0][0]
    R = np.array(model.joints[0].placement.R).T @ R
    turned = lambda x: np.concatenate([textbook.times(R, x[:, :3]), x[:, 3:]], 1)
    spin = np.concatenate([np.cross(v[:, 3:6], v[:, :3]), 0 * v[:, 3:]], 1)
    tau = split.inverse_dynamics(q, turned(v), turned(a + spin))
    close(tau, turned(model.inverse_dynamics(q, v, a)))
    with pytest.raises(ValueError, match="armature that differs between its lines"):
        split_root(ROBOTS["root"].with_physics(damping=0.0, friction=0.0))


def test_alike_limbs_read_it_from_a_table():
    """A limb without it is not alike."""
    robot = textbook.tree(["free", "revolute"] * 3, [-1, 0, -1, 2, -1, 4])
    armature = np.random.default_rng(0).uniform(0.1, 1, robot.nv)
    armature[:3] = 0
    tree = tree_of(robot.with_physics(armature=armature))
    limbs = Limbs(tree, chains(tree), groups(tree, chains(tree)))
    assert limbs.constants
    read = limbs.with_inputs({name: x.tolist() for name, x in limbs.constants.items()})
    assert [len(x) for x in read.turned_armature] == [0, 0, 3, 0, 3, 0]
    q, v, a = (x[0] for x in sample(robot))
    close(algorithms.rnea(read, q, v, a), algorithms.rnea(tree, q, v, a))
