"""Parameters at run time, derivatives by them, the regressor, second derivatives and Hessians."""

from dataclasses import replace

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose
from repetition import full, repeated

import featherlane as fl
from featherlane.api.random_robots import random_rotation
from featherlane.robot.parameters import PARAMETERS
from featherlane.robot.parts import Frame, Placement
from featherlane.robot.quaternions import matrix_quaternion

BATCH = 3
TREES = {
    "arm": textbook.tree(("revolute", "helical", "prismatic"), seed=1, physics=True),
    "multi": textbook.tree(("spherical", "revolute", "planar"), (-1, 0, 0), 2, True),
    "chain": textbook.tree(("free", "universal", "cylindrical"), seed=3),
    "mimic": textbook.tree(("revolute",) * 4, (-1, 0, 0, 1), 4, True, {2: 1}),
}
MASSES = ("mass", "com", "inertia")


@pytest.fixture(scope="module", params=repeated([*TREES]))
def model(request):
    return TREES[request.param]


@pytest.fixture(scope="module")
def state(model):
    rng = np.random.default_rng(0)
    return model.random_configuration(BATCH, seed=rng), *rng.normal(size=(3, BATCH, model.nv))


def close(x, wanted, tolerance=1e-10):
    assert_allclose(x, wanted, rtol=0, atol=tolerance * max(np.abs(wanted).max(), 1e-3))


def differences(function, x, h=1e-5):
    """d function(x) / dx by central differences of fourth order, entries of x last."""
    columns = []
    for unit in h * np.eye(x.size).reshape(x.size, *x.shape):
        at = {n: function(x + n * unit) for n in (-2, -1, 1, 2)}
        columns.append((8 * (at[1] - at[-1]) - at[2] + at[-2]) / (12 * h))
    return np.stack(columns, -1)


def other_robot(model, seed=1):
    """A robot with other constants, and these constants as parameters."""
    rng = np.random.default_rng(seed)
    joints, bodies = [], []
    for joint, body in zip(model.joints, model.bodies, strict=True):
        place = Placement.of(random_rotation(rng), rng.normal(size=3))
        joints.append(replace(joint, placement=place))
        A = rng.normal(size=(3, 3))
        rows = tuple(map(tuple, A @ A.T))
        com = tuple(rng.normal(size=3))
        bodies.append(replace(body, mass=rng.uniform(1, 2), com=com, inertia=rows))
    down = tuple(rng.normal(size=3))
    changed = replace(model, joints=tuple(joints), bodies=tuple(bodies), gravity=down)
    return changed, changed.parameters()


# Parameters


@pytest.mark.parametrize("bodies", repeated([MASSES, ("inertial",)], spread=False))
def test_parameters_make_another_robot_of_the_same_code(model, state, bodies):
    other, values = other_robot(model)
    q, v, a, tau = state
    params = {name: values[name] for name in (*bodies, "position", "orientation", "gravity")}
    close(model.inverse_dynamics(q, v, a, params=params), other.inverse_dynamics(q, v, a))
    close(model.mass_matrix(q, params=params), other.mass_matrix(q))
    tolerance = 1e-10 * np.linalg.cond(other.mass_matrix(q)).max()
    found = model.forward_dynamics(q, v, tau, params=params)
    close(found, other.forward_dynamics(q, v, tau), tolerance)


def test_joint_physics_as_parameters(model, state):
    q, v, a, _ = state
    rng = np.random.default_rng(2)
    params = {name: rng.uniform(size=model.nv) for name in ("armature", "damping", "friction")}
    smooth = v / np.sqrt(v**2 + model.friction_velocity**2)
    none = {name: np.zeros(model.nv) for name in params}
    change = params["armature"] * a + params["damping"] * v + params["friction"] * smooth
    for joint, dofs in zip(model.joints, model.dofs, strict=True):
        if joint.type == "free":  # the momentum A v along its lines turns with the body
            line, turn = slice(dofs[0], dofs[3]), slice(dofs[3], dofs[5] + 1)
            momentum = params["armature"][line] * v[:, line]
            change[:, line] += np.cross(v[:, turn], momentum)
            change[:, turn] += np.cross(v[:, line], momentum)
    bare = model.inverse_dynamics(q, v, a, params=none)
    close(model.inverse_dynamics(q, v, a, params=params), bare + change)
    M = model.mass_matrix(q, params={"armature": params["armature"]})
    close(M, model.mass_matrix(q, params={"armature": none["armature"]})
          + np.diag(params["armature"]))  # fmt: skip


def test_one_set_for_all_states_or_one_for_each(model, state):
    q, v, a, _ = state
    mass = model.parameters("mass")["mass"] * np.linspace(1, 2, BATCH)[:, None]
    each = model.inverse_dynamics(q, v, a, params={"mass": mass})
    for k in range(BATCH):
        one = model.inverse_dynamics(q, v, a, params={"mass": mass[k]})
        assert np.array_equal(one[k], each[k])
        assert np.array_equal(model.inverse_dynamics(q[k], v[k], a[k], params={"mass": mass[k]}),
                              each[k])  # fmt: skip


def test_new_values_need_no_new_code(model, state):
    q, v, a, _ = state
    model.inverse_dynamics(q, v, a, params=model.parameters("mass", "gravity"))
    count = len(model.__dict__["_functions"])
    turned = dict(reversed(model.parameters("mass", "gravity").items()))
    first = model.inverse_dynamics(q, v, a, params=turned)
    turned["gravity"] = 2 * turned["gravity"]
    assert np.abs(model.inverse_dynamics(q, v, a, params=turned) - first).max() > 1e-3
    assert len(model.__dict__["_functions"]) == count


def test_only_what_is_made_run_time_costs_operations(iiwa):
    cost = {p: iiwa.graph("inverse_dynamics", params=(p,) if p else ()).cost().operations
            for p in ("", "gravity", "mass", "com", "inertial", "position")}  # fmt: skip
    assert cost[""] < cost["gravity"] < cost["mass"] < cost["inertial"] < 2 * cost[""]
    assert cost["position"] < 2 * cost[""]


def test_parameters_in_float32(iiwa):
    rng = np.random.default_rng(0)
    q, v, a = rng.normal(size=(3, 5, 7)).astype(np.float32)
    params = {k: x.astype(np.float32) for k, x in iiwa.parameters(*MASSES).items()}
    found = iiwa.inverse_dynamics(q, v, a, params=params)
    assert found.dtype == np.float32
    close(found, iiwa.inverse_dynamics(q, v, a), 1e-5)
    with pytest.raises(TypeError, match="mass"):
        iiwa.inverse_dynamics(q, v, a, params=iiwa.parameters("mass"))


@pytest.mark.parametrize(
    ("params", "told"),
    [({"masses": 1}, "masses"), ({"inertial": 1, "mass": 2}, "inertial"),
     ({"mass": np.ones(3)}, r"mass has shape \(3,\), wanted \(..., 7\)"),
     ({"gravity": [1.0, 2.0]}, "gravity has shape")],
)  # fmt: skip
def test_wrong_parameters_are_refused(iiwa, params, told):
    with pytest.raises(ValueError, match=told):
        iiwa.inverse_dynamics(*np.zeros((3, 7)), params=params)


def test_negative_masses_are_refused_where_m_is_divided_by():
    hyq = fl.load("hyq")
    mass, armature = (hyq.parameters(name)[name] for name in ("mass", "armature"))
    q, v, tau = np.zeros((3, 5, 12))
    mass, armature = np.tile(mass, (5, 1)), armature - 0.1
    mass[3, 2] = -1.0
    told = r"params\['mass'\] is -1.0 for body 'lf_lowerleg': wanted 0 or more, {} divides"
    for name in ("forward_dynamics", "forward_dynamics_derivatives"):
        with pytest.raises(ValueError, match=told.format(name)):
            getattr(hyq, name)(q, v, tau, params={"mass": mass})
    with pytest.raises(
        ValueError, match="for joint 'lf_haa_joint': wanted 0 or more, step divides"
    ):
        hyq.step(q, v, tau, 1e-3, params={"armature": armature.tolist()})
    assert np.isfinite(hyq.inverse_dynamics(q, v, tau, params={"mass": mass})).all()


@pytest.mark.parametrize("name", ["forward_dynamics", "mass_matrix_inverse"])
def test_a_state_whose_m_is_indefinite_is_nan_as_a_whole(name):
    """Identified inertias may make it so. Other limbs of a fixed root would have numbers."""
    hyq = fl.load("hyq")
    inertial = np.tile(hyq.parameters("inertial")["inertial"], (3, 1, 1))
    inertial[1, 2, 4:] = -1.0
    function = hyq.function(name, params=("inertial",))
    states = np.zeros((len(function.inputs) - 1, 3, 12))
    found = function(*states, inertial)
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[[0, 2]]).all()
    close(found[0], hyq.function(name)(*states)[0])


def test_parameters_that_are_no_dict_are_refused(iiwa):
    with pytest.raises(TypeError, match="dict"):
        iiwa.inverse_dynamics(*np.zeros((3, 7)), params=[1.0])


@pytest.mark.parametrize("angle", [0, 1e-9, 1.0, np.pi - 1e-9, np.pi])
def test_quaternions_of_rotations_of_any_angle(angle):
    axis = np.array([0.6, 0.0, -0.8])
    R = textbook.turn(axis, np.array(angle))
    quaternion = matrix_quaternion(R)
    assert quaternion[3] >= 0
    assert_allclose(textbook.quaternion_matrix(quaternion), R, atol=3e-16 * 10)


# Derivatives by them


def test_tau_is_linear_in_the_inertial_parameters(model, state):
    q, v, a, _ = state
    Y = model.inverse_dynamics_regressor(q, v, a)
    assert Y.shape == (BATCH, model.nv, 10 * model.nbodies)
    bare = {name: np.zeros(model.nv) for name in ("armature", "damping", "friction")}
    pi = np.random.default_rng(3).normal(size=(model.nbodies, 10))  # of no real body
    tau = model.inverse_dynamics(q, v, a, params={"inertial": pi, **bare})
    close(Y @ pi.ravel(), tau)
    own = model.parameters("inertial")["inertial"]
    close(Y @ own.ravel(), model.inverse_dynamics(q, v, a, params=bare))


@pytest.mark.parametrize("wrt", repeated([*PARAMETERS], 4))
def test_derivatives_by_every_parameter(model, state, wrt):
    q, v, a, tau = state
    p = model.parameters(wrt)[wrt] if wrt == "inertial" else model.parameters()[wrt]
    inverse = lambda p: model.inverse_dynamics(q, v, a, params={wrt: p})
    # The compiled function: differences at 0 take negative figures, which methods refuse
    compiled = model.function("forward_dynamics", params=[wrt])
    forward = lambda p: compiled(q, v, tau, p)
    found = model.inverse_dynamics_parameter_derivatives(q, v, a, wrt)
    close(found, differences(inverse, p, 1e-3), 1e-8)
    found = model.forward_dynamics_parameter_derivatives(q, v, tau, wrt)
    close(found, differences(forward, p, 1e-4), 1e-6)


@pytest.mark.parametrize("where", repeated(["frames", "bodies"]))
@pytest.mark.parametrize("frame", repeated(["world", "body"]))
def test_derivatives_by_placements_with_external_forces(where, frame):
    model = TREES["mimic"]
    rng = np.random.default_rng(0)
    q, v, tau = rng.normal(size=(3, BATCH, model.nv))
    model, f_ext = pushes(model, where)
    for wrt in ("position", "orientation"):
        p = model.parameters(wrt)[wrt]
        forward = lambda p, wrt=wrt: model.forward_dynamics(
            q, v, tau, f_ext, f_ext_frame=frame, params={wrt: p}
        )
        found = model.forward_dynamics_parameter_derivatives(
            q, v, tau, wrt, f_ext, f_ext_frame=frame
        )
        close(found, differences(forward, p, 1e-4), 1e-6)


def test_derivatives_by_one_parameter_at_values_of_others(model, state):
    q, v, a, _ = state
    other, values = other_robot(model)
    params = {name: values[name] for name in (*MASSES, "position", "orientation", "gravity")}
    for wrt in ("com", "inertial"):
        found = model.inverse_dynamics_parameter_derivatives(q, v, a, wrt, params={
            name: x for name, x in params.items() if wrt != "inertial" or name not in MASSES
        })  # fmt: skip
        close(found, other.inverse_dynamics_parameter_derivatives(q, v, a, wrt))


def test_a_regressor_of_two_kinds_of_masses_is_refused(iiwa):
    with pytest.raises(ValueError, match="inertial"):
        iiwa.inverse_dynamics_parameter_derivatives(
            *np.zeros((3, 7)), "mass", params=iiwa.parameters("inertial")
        )
    with pytest.raises(ValueError, match="wrt names 'masses'"):
        iiwa.inverse_dynamics_parameter_derivatives(*np.zeros((3, 7)), "masses")


# Second derivatives


def along(model, function, q, h=1e-4):
    """Its derivative in the tangent space of q, direction last."""
    columns = []
    for unit in h * np.eye(model.nv):
        at = {n: function(model.integrate(q, n * unit)) for n in (-2, -1, 1, 2)}
        columns.append((8 * (at[1] - at[-1]) - at[2] + at[-2]) / (12 * h))
    return np.stack(columns, -1)


def pushes(model, where):
    """No wrenches, or wrenches on all bodies or at two frames that are not at their origins."""
    rng = np.random.default_rng(5)
    if where == "nowhere":
        return model, None
    if where == "bodies":
        return model, rng.normal(size=(BATCH, model.nbodies, 6))
    place = [Placement.of(random_rotation(rng), rng.normal(size=3)) for _ in range(2)]
    frames = (*model.frames, Frame("left", 1, place[0]), Frame("right", 2, place[1]))
    return replace(model, frames=frames), {
        k: rng.normal(size=(BATCH, 6)) for k in ("right", "left")
    }


@pytest.mark.parametrize(
    ("where", "frame"),
    repeated(
        [
            ("nowhere", "body"),
            ("frames", "world"),
            ("frames", "body"),
            ("bodies", "body"),
            ("bodies", "world"),
        ],
        2,
    ),
)
def test_second_derivatives_are_those_of_the_first(model, state, where, frame):
    q, v, a, _ = state
    model, f_ext = pushes(model, where)
    options = {"f_ext": f_ext, "f_ext_frame": frame}
    second = model.inverse_dynamics_second_derivatives(q, v, a, **options)
    first = lambda q, v: model.inverse_dynamics_derivatives(q, v, a, **options)
    close(second.d2tau_dqdq, along(model, lambda q: first(q, v).dtau_dq, q), 1e-8)
    close(second.d2tau_dvdq, along(model, lambda q: first(q, v).dtau_dv, q), 1e-8)
    close(second.d2tau_dadq, along(model, model.mass_matrix, q), 1e-8)
    by_v = [
        (first(q, v + h).dtau_dv - first(q, v - h).dtau_dv) / 2e-5 for h in 1e-5 * np.eye(model.nv)
    ]
    close(second.d2tau_dvdv, np.stack(by_v, -1), 1e-6)


def test_second_derivatives_are_symmetric_where_coordinates_are_plain():
    model, rng = TREES["arm"], np.random.default_rng(0)
    q, v, a = rng.normal(size=(3, BATCH, model.nv))
    second = model.inverse_dynamics_second_derivatives(q, v, a)
    close(second.d2tau_dqdq, np.swapaxes(second.d2tau_dqdq, -1, -2))
    close(second.d2tau_dvdv, np.swapaxes(second.d2tau_dvdv, -1, -2))
    H = model.forward_dynamics_hessian(q, v, a, rng.normal(size=(BATCH, model.nv)))
    close(H, np.swapaxes(H, -1, -2))


def test_hessians_are_the_derivatives_of_gradients(model, state):
    q, v, a, tau = state
    w = np.random.default_rng(1).normal(size=(BATCH, model.nv))

    def inverse(q, v, a):
        d = model.inverse_dynamics_derivatives(q, v, a)
        return np.concatenate([(w[:, None] @ x)[:, 0] for x in (*d, model.mass_matrix(q))], -1)

    def forward(q, v, tau):
        d = model.forward_dynamics_derivatives(q, v, tau)
        return np.concatenate([(w[:, None] @ x)[:, 0] for x in d], -1)

    for gradient, third, H in (
        (inverse, a, model.inverse_dynamics_hessian(q, v, a, w)),
        (forward, tau, model.forward_dynamics_hessian(q, v, tau, w)),
    ):
        by_q = along(model, lambda q, g=gradient, x=third: g(q, v, x), q)
        steps = 1e-5 * np.eye(model.nv)
        by_v = [(gradient(q, v + h, third) - gradient(q, v - h, third)) / 2e-5 for h in steps]
        by_x = [(gradient(q, v, third + h) - gradient(q, v, third - h)) / 2e-5 for h in steps]
        wanted = np.concatenate([by_q, np.stack(by_v, -1), np.stack(by_x, -1)], -1)
        close(H, wanted, 1e-5)


def test_hessian_products_are_products(model, state):
    q, v, _, tau = state
    rng = np.random.default_rng(1)
    w, d = rng.normal(size=(BATCH, model.nv)), rng.normal(size=(BATCH, 3 * model.nv))
    H = model.forward_dynamics_hessian(q, v, tau, w)
    product = model.forward_dynamics_hessian_product(q, v, tau, w, d)
    close(product, (H @ d[..., None])[..., 0], 1e-9)


@full
def test_second_derivatives_of_parameters_shapes_and_single_states(iiwa):
    q, v, a = np.random.default_rng(0).normal(size=(3, 7))
    params = {"mass": 2 * iiwa.parameters("mass")["mass"]}
    one = iiwa.inverse_dynamics_second_derivatives(q, v, a, params=params)
    assert one.d2tau_dqdq.shape == (7, 7, 7)
    heavy = fl.Model(**{**iiwa._fields(), "bodies": tuple(
        replace(body, mass=2 * body.mass) for body in iiwa.bodies)})  # fmt: skip
    close(one.d2tau_dqdq, heavy.inverse_dynamics_second_derivatives(q, v, a).d2tau_dqdq)
    single = iiwa.inverse_dynamics_hessian(*np.ones((4, 7), np.float32))
    assert (single.shape, single.dtype) == ((21, 21), np.float32)


def test_what_does_not_fit_is_named_as_it_was_given(iiwa):
    q = np.zeros(7)
    with pytest.raises(ValueError, match=r"direction has shape \(20,\), wanted \(..., 21\)"):
        iiwa.forward_dynamics_hessian_product(q, q, q, q, np.zeros(20))
    with pytest.raises(ValueError, match=r"direction has shape \(\)"):
        iiwa.forward_dynamics_hessian_product(q, q, q, q, 3)
    with pytest.raises(ValueError, match=r"weights has shape \(6,\), wanted \(..., 7\)"):
        iiwa.forward_dynamics_hessian(q, q, q, np.zeros(6))
    with pytest.raises(ValueError, match=r"q has shape \(\), wanted \(..., 7\)"):
        iiwa.inverse_dynamics_second_derivatives(1.0, q, q)


def test_a_robot_that_nothing_resists_is_named():
    joint = fl.Joint("j", "revolute", -1)
    idle = fl.Model("idle", (joint,), (fl.Body("b", 1.0, (0.0, 0.0, 1.0)),))
    with pytest.raises(fl.CompileError, match="'idle' is singular"):
        idle.forward_dynamics([0.0], [0.0], [1.0])


def test_order_and_points_of_inertias_are_those_of_the_reference(iiwa):
    """Of docs/reference/dynamics.md, by the kinetic energy of a body that is thrown."""
    low = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]  # Ixx, Ixy, Iyy, Ixz, Iyz, Izz
    rng = np.random.default_rng(0)
    c, root = rng.normal(size=3), rng.normal(size=(3, 3))
    I, m = root @ root.T + np.eye(3), 2.0
    body = fl.Body("b", m, tuple(c), tuple(map(tuple, I)))
    thrown = fl.Model("thrown", (fl.Joint("j", "free", -1),), (body,))
    given = thrown.parameters()
    assert_allclose(given["inertia"][0], [I[k] for k in low])
    about_origin = I + m * (c @ c * np.eye(3) - np.outer(c, c))
    assert_allclose(given["inertial"][0], [m, *(m * c), *[about_origin[k] for k in low]])

    other = 3.0 * I + np.diag([0.1, 0.2, 0.3])
    spin = np.array([0.0, 0.0, 0.0, *rng.normal(size=3)])
    q, w, at_center = thrown.neutral(), spin[3:], np.cross(spin[3:], c)
    energy = thrown.kinetic_energy(q, spin, params={"inertia": [[other[k] for k in low]]})
    assert_allclose(energy, (w @ other @ w + m * at_center @ at_center) / 2)
