"""Long robots through the user's model: every function and method against the textbook, and where
that has none against the same robot as one piece of code.
"""

import pickle
from itertools import product

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose, assert_array_equal
from repetition import full, repeated

import featherlane as fl
from featherlane.backends.cpu.compile import Kernel
from featherlane.backends.cpu.steps.run import StepEvaluator
from featherlane.functions import kernels as variant_kernels
from featherlane.functions.fast_path import machine_code_call
from featherlane.functions.long.choose import FastestMethod
from featherlane.functions.table import KINEMATICS, TABLE
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.tree_of import build_tree

INVERSE = ["auto", *TABLE["inverse_dynamics"].methods]
FORWARD = ["auto", *TABLE["forward_dynamics"].methods]
ROBOTS = {
    "chain": fl.random_tree(6, 1, ("revolute",), seed=1, physics=True),
    "types": textbook.tree(
        tuple(JOINT_TYPES), [-1, 0, 0, 1, -1, 4, 4, 5, 5][: len(JOINT_TYPES)], 3, physics=True
    ),
    "bushy": fl.random_tree(7, 2.5, ("revolute",), roots=2, seed=4),
    "mimic": fl.random_tree(
        8, 1.6, ("revolute", "helical"), mimic=0.3, roots=2, seed=5, physics=True
    ),
    "one": fl.chain(1, 3),
}


def refused(model, name):
    """Whether a method of forward dynamics is not for this robot."""
    if name == "auto":
        return False
    method = TABLE["forward_dynamics"].methods[name]
    return method.refusal(build_tree(model, regroup=method.regroup)) is not None


@pytest.fixture(autouse=True, scope="module")
def every_robot_is_long():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variant_kernels, "LONG", 1)
        yield


@pytest.fixture(params=repeated(["types", "mimic", "chain", "bushy", "one"]), scope="module")
def model(request):
    return fresh(ROBOTS[request.param])


def fresh(model):
    """Without the functions that were compiled for it."""
    return fl.Model(**model._fields())


def sample(model, batch, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    q = model.random_configuration(batch, seed=rng)
    return [x.astype(dtype) for x in (q, *rng.normal(size=(2, *q.shape[:-1], model.nv)))]


def wrenches(model, *batch):
    return np.random.default_rng(7).normal(size=(*batch, model.nbodies, 6))


def close(found, wanted, tolerance=1e-12):
    assert found.shape == wanted.shape
    assert_allclose(found, wanted, rtol=0, atol=tolerance * max(1, np.abs(wanted).max()))


def condition(model, q):
    return np.linalg.cond(textbook.mass_matrix(model, q)).max()


# Dynamics


@pytest.mark.parametrize("method", INVERSE)
def test_inverse_dynamics_is_the_textbook(model, method):
    q, v, a = sample(model, 11)
    wanted = textbook.rnea(model, q, v, a)
    close(model.inverse_dynamics(q, v, a, method=method), wanted)
    close(model.inverse_dynamics(q[3], v[3], a[3], method=method), wanted[3])
    f = wrenches(model, 11)
    pushed = textbook.rnea(model, q, v, a, f)
    close(model.inverse_dynamics(q, v, a, f, method=method), pushed)


@pytest.mark.parametrize("method", repeated(FORWARD, 3))
def test_forward_dynamics_is_the_textbook(model, method):
    if refused(model, method):
        with pytest.raises(ValueError, match=f"method='{method}' cannot handle"):
            model.forward_dynamics(*sample(model, 2), method=method)
        return
    q, v, a = sample(model, 5)
    tolerance = 1e-13 * condition(model, q)
    tau = textbook.rnea(model, q, v, a)
    close(model.forward_dynamics(q, v, tau, method=method), a, tolerance)
    close(model.forward_dynamics(q[3], v[3], tau[3], method=method), a[3], tolerance)


@pytest.mark.parametrize("method", FORWARD)
def test_forward_dynamics_under_wrenches(method):
    model = fl.chain(4, 2)
    q, v, a = sample(model, 3)
    f = wrenches(model, 3)
    tau = textbook.rnea(model, q, v, a, f)
    close(model.forward_dynamics(q, v, tau, f, method=method), a, 1e-13 * condition(model, q))


def test_mass_matrices_are_the_textbook(model):
    q, _, _ = sample(model, (2, 3))
    wanted = textbook.mass_matrix(model, q)
    M, inverse = model.mass_matrix(q), model.mass_matrix_inverse(q)
    close(M, wanted)
    identity = np.broadcast_to(np.eye(model.nv), wanted.shape)
    close(inverse @ wanted, identity, 1e-14 * condition(model, q))
    assert_array_equal(model.mass_matrix(q[1, 2]), M[1, 2])
    assert_array_equal(model.mass_matrix_inverse(q[1, 2]), inverse[1, 2])


@pytest.mark.parametrize("frame", repeated(["world", "body"]))
@pytest.mark.parametrize("robot", repeated(["mimic", "chain"]))
def test_wrenches_at_frames_and_in_the_axes_of_the_world(robot, frame):
    model = fresh(ROBOTS[robot])
    q, v, a = sample(model, 3)
    f, turned = np.zeros((2, 3, model.nbodies, 6))
    body = model.nbodies - 1
    f[:, body] = given = wrenches(model, 3)[:, body]
    R = textbook.poses(model, q)[body][0]
    turn = lambda x: np.einsum("bji,bj->bi", R, x)
    turned[:, body] = np.concatenate([turn(given[:, :3]), turn(given[:, 3:])], -1)
    wanted = textbook.rnea(model, q, v, a, f if frame == "body" else turned)
    close(model.inverse_dynamics(q, v, a, f, f_ext_frame=frame), wanted)
    at = {model.bodies[body].name: given}
    close(model.inverse_dynamics(q, v, a, at, f_ext_frame=frame), wanted)
    tolerance = 1e-13 * condition(model, q)
    close(model.forward_dynamics(q, v, wanted, at, f_ext_frame=frame), a, tolerance)


@pytest.mark.parametrize(
    "names", repeated([("mass", "gravity", "com", "inertia"), ("inertial",)], spread=False)
)
def test_parameters_as_inputs(names, monkeypatch):
    """Of each state its own."""
    model = textbook.tree(("spherical", "revolute"), seed=3, physics=True)
    q, v, tau = sample(model, 3)
    factors = np.random.default_rng(1).uniform(1, 1.1, 3)
    own = model.parameters(*names).items()
    params = {k: x * factors.reshape(-1, *[1] * x.ndim) for k, x in own}
    heavy = {k: x for k, x in params.items() if k != "gravity"}
    long = fresh(model)
    found = [
        *[long.inverse_dynamics(q, v, tau, params=params, method=m) for m in INVERSE],
        *[long.forward_dynamics(q, v, tau, params=params, method=m) for m in ("aba", "jsiia")],
        long.mass_matrix(q, params=heavy),
        long.mass_matrix_inverse(q, params=heavy),
    ]
    monkeypatch.setattr(variant_kernels, "LONG", 1000)
    wanted = [
        *[model.inverse_dynamics(q, v, tau, params=params)] * len(INVERSE),
        *[model.forward_dynamics(q, v, tau, params=params)] * 2,
        model.mass_matrix(q, params=heavy),
        model.mass_matrix_inverse(q, params=heavy),
    ]
    for x, y in zip(found, wanted, strict=True):
        close(x, y, 1e-13 * condition(model, q))


@pytest.mark.parametrize(
    "name", repeated(["orientation", "friction", "position", "armature", "damping"], 2)
)
def test_parameters_of_joints(name):
    model, (q, v, a) = fresh(ROBOTS["chain"]), sample(ROBOTS["chain"], 3)
    wanted = textbook.rnea(model, q, v, a)
    params = model.parameters(name)
    close(model.inverse_dynamics(q, v, a, params=params), wanted)
    close(model.forward_dynamics(q, v, wanted, params=params), a, 1e-9)


def test_stiffness_as_an_input_has_a_slope():
    model, stiffness = fl.chain(3, 1), np.array([1.0, 2.0, 3.0])
    q, v, a = sample(model, 3)
    bare = model.inverse_dynamics_derivatives(q, v, a).dtau_dq
    sprung = model.inverse_dynamics_derivatives(q, v, a, params={"stiffness": stiffness}).dtau_dq
    close(sprung - bare, np.broadcast_to(np.diag(stiffness), bare.shape))


@full
def test_in_float32():
    model = fl.chain(3, 1)
    given = sample(model, 18, np.float32)
    exact = [x.astype(float) for x in given]
    rounding = 1e-6 * condition(model, exact[0])
    for function, methods in (("inverse_dynamics", INVERSE), ("forward_dynamics", FORWARD)):
        wanted = getattr(model, function)(*exact)
        for method, rows in product(methods, (slice(None), 3)):
            found = getattr(model, function)(*[x[rows] for x in given], method=method)
            assert found.dtype == np.float32
            close(found, wanted[rows], rounding)
    M, inverse = model.mass_matrix(given[0]), model.mass_matrix_inverse(given[0])
    assert M.dtype == inverse.dtype == np.float32
    close(M, textbook.mass_matrix(model, exact[0]), 1e-5)
    close(M @ inverse, np.broadcast_to(np.eye(model.nv), M.shape), rounding)


# Kinematics and the terms of the equation of motion


@pytest.mark.parametrize("name", repeated([*KINEMATICS], 7))
def test_kinematics_are_those_of_the_short_robot(name, monkeypatch):
    model = textbook.tree(("revolute", "revolute"), seed=2, physics=True)
    function = KINEMATICS[name]
    given = sample(model, 5)[: len(function.inputs)]
    options = {"frame": model.frame_names[-1]} if "frame" in function.takes else {}
    references = ["body", "world", "spatial"] if "reference" in function.takes else [None]
    run = lambda m: [
        getattr(m, name)(*given, **options, **({"reference": r} if r else {})) for r in references
    ]
    found = run(fresh(model))
    monkeypatch.setattr(variant_kernels, "LONG", 1000)
    for x, y in zip(found, run(fresh(model)), strict=True):
        close(x, y)


def test_kinematics_are_the_textbook(model):
    q, v, a = sample(model, 4)
    poses, rates = textbook.poses(model, q), textbook.velocities(model, q, v)
    for body in {0, model.nbodies // 2, model.nbodies - 1}:
        name = model.bodies[body].name
        T = model.frame_placement(q, name)
        close(T[:, :3, :3], poses[body][0])
        close(T[:, :3, 3], poses[body][1])
        velocity = np.broadcast_to(np.roll(rates[body], 3, -1), (4, 6))
        close(np.einsum("bij,bj->bi", model.jacobian(q, name), v), velocity)
    masses = np.array([body.mass for body in model.bodies])
    places = [
        p + textbook.times(R, np.array(body.com))
        for body, (R, p) in zip(model.bodies, poses, strict=True)
    ]
    close(model.center_of_mass(q), np.einsum("p,pbi->bi", masses, places) / masses.sum())
    close(model.bias_force(q, v), textbook.rnea(model, q, v, 0 * a))
    energy = model.potential_energy(q) + model.kinetic_energy(q, v)
    own = 0.5 * np.sum(model.armature * v * v, -1)  # which the textbook leaves to the motors
    close(energy, textbook.energy(model, q, v) + own)


# Arrays


@pytest.mark.parametrize(
    ("function", "method"),
    repeated(
        [
            ("inverse_dynamics", "scan"),
            ("forward_dynamics", "aba"),
            ("forward_dynamics", "jsiia"),
            ("inverse_dynamics", "serial"),
            ("forward_dynamics", "abia"),
            ("forward_dynamics", "cfa"),
        ],
        3,
    ),
)
def test_states_do_not_depend_on_their_place(function, method):
    model = fl.chain(4, 1)
    q, v, x = sample(model, 37)
    run = lambda *arrays, **how: getattr(model, function)(*arrays, method=method, **how)
    whole = run(q, v, x)
    for n in (0, 5, 36):
        assert_array_equal(run(q[n], v[n], x[n]), whole[n])
    for rows in (slice(3), slice(30, 37), slice(20, None, -2)):
        assert_array_equal(run(q[rows], v[rows], x[rows], threads=2), whole[rows])
    out = np.empty((model.nv, 37)).T  # not contiguous
    assert run(q, v, x, out=out) is out
    assert_array_equal(out, whole)
    assert_array_equal(run(q, v, x, out=x.copy(), threads=3), whole)
    spread = run(q[:3, None], v[:2], x[0])
    assert_array_equal(spread[2, 1], run(q[2], v[1], x[0]))
    assert run(q[:0], v[:0], x[:0]).shape == (0, model.nv)
    x[7, 0] = np.nan
    spoilt = run(q, v, x)
    assert np.isnan(spoilt[7]).any()
    assert_array_equal(np.delete(spoilt, 7, 0), np.delete(whole, 7, 0))


@pytest.mark.parametrize("method", repeated(["serial", "scan"]))
def test_single_states_go_straight_to_the_code(method):
    model = fresh(ROBOTS["types"])
    function = model.function("inverse_dynamics", method=method)
    assert function.loops() == []
    q, v, a = sample(model, 3)
    wanted = [function(*x) for x in zip(q, v, a, strict=True)]
    assert [bool(loops.single) for loops in function.loops()] == [True]
    alone = machine_code_call(function, function.__call__)
    assert type(alone).__name__ == "builtin_function_or_method"
    for n in range(3):
        assert_array_equal(alone(q[n], v[n], a[n]), wanted[n])
    assert_array_equal(alone(q[:, ::-1][0, ::-1], v[0], a[0]), wanted[0])
    assert_array_equal(alone(q, v, a), wanted)  # handed on
    with pytest.raises(ValueError, match="v has shape"):
        alone(q[0], np.zeros(model.nv + 1), a[0])
    for _ in range(2):
        model.forward_dynamics(q[0], v[0], a[0])
    assert type(model.forward_dynamics).__name__ == "builtin_function_or_method"
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.inverse_dynamics(q, v, a, method=method), wanted)


def test_what_does_not_fit_is_refused(model):
    q, v, a = sample(model, 3)
    with pytest.raises(ValueError, match="v has shape"):
        model.inverse_dynamics(q, np.zeros((3, model.nv + 1)), a)
    with pytest.raises(ValueError, match="q has shape"):
        model.mass_matrix(np.zeros(model.nq + 1))
    with pytest.raises(ValueError, match="do not broadcast"):
        model.forward_dynamics(q, v[:2], a)
    with pytest.raises(ValueError, match="f_ext has shape"):
        model.inverse_dynamics(q, v, a, np.zeros((model.nbodies + 1, 6)))
    with pytest.raises(TypeError, match="float32 is not promoted"):
        model.inverse_dynamics(q.astype(np.float32), v, a)
    with pytest.raises(ValueError, match="out for tau has shape"):
        model.inverse_dynamics(q, v, a, out=np.zeros((2, model.nv)))
    with pytest.raises(ValueError, match="method of inverse_dynamics is 'fast'"):
        model.inverse_dynamics(q, v, a, method="fast")


def test_robots_are_long_from_some_links_on(monkeypatch):
    """From half as many if they are chains."""
    star = fl.random_tree(6, np.inf, ("revolute",), seed=1)
    for model, most, kind in (
        (fl.chain(6, 1), 13, Kernel),
        (fl.chain(6, 1), 12, StepEvaluator),
        (star, 7, Kernel),
        (star, 6, StepEvaluator),
    ):
        monkeypatch.setattr(variant_kernels, "LONG", most)
        function = fl.Model(**model._fields()).function("inverse_dynamics", method="serial")
        function.ufunc(float)
        ((run, kernel, _),) = function._compiled.values()
        assert isinstance(kernel or run, kind)
    assert isinstance(fl.chain(6, 1).function("inverse_dynamics").ufunc(float), FastestMethod)


# Robots that are long

TREE = fl.random_tree(150, 1.4, ("revolute",), seed=2, physics=True)


@full
@pytest.mark.parametrize(
    ("robot", "methods"),
    [
        (fl.chain(200, 1), ("jsiia", "abia", "cfa")),
        (TREE, ("jsiia", "abia", "dca")),
    ],
    ids=["chain", "tree"],
)
def test_methods_agree_on_long_robots(robot, methods):
    q, v, tau = sample(robot, 9)
    a = robot.forward_dynamics(q, v, tau, method="aba")
    for method in INVERSE:
        close(robot.inverse_dynamics(q, v, a, method=method), tau, 1e-9)
    for method in methods:
        close(robot.forward_dynamics(q, v, tau, method=method), a, 1e-9)
    M, inverse = robot.mass_matrix(q[0]), robot.mass_matrix_inverse(q[0])
    close(M @ inverse, np.eye(robot.nv), 1e-9)
    close(inverse @ tau[0] + robot.forward_dynamics(q[0], v[0], 0 * tau[0]), a[0], 1e-9)


@full
def test_two_thousand_links():
    model = fl.chain(2000, 1)
    q, v, a = 0.01 * np.random.default_rng(0).normal(size=(3, 8, 2000))
    run = {
        "serial": lambda: model.inverse_dynamics(q, v, a, method="serial"),
        "scan": lambda: model.inverse_dynamics(q, v, a, method="scan"),
        "aba": lambda: model.forward_dynamics(q, v, found["serial"], method="aba"),
    }
    found = {}
    for name, function in run.items():
        found[name] = function()
    close(found["scan"], found["serial"], 1e-10)
    back = model.inverse_dynamics(q, v, found["aba"], method="serial")
    close(back, found["serial"], 1e-7)
    work = model.function("inverse_dynamics", method="serial").ufunc(float).loop(8).program
    assert work.size < 2000 * 50 * work.layout.width
