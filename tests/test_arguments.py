"""What users pass to functions: dtypes, masks, shapes, names, and errors that teach."""

import array
import ast
import copy
import inspect
import pickle
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from repetition import full

import featherlane as fl

SECOND = {  # functions that work on a direction for each column of a result
    "inverse_dynamics_second_derivatives": 3,
    "inverse_dynamics_hessian": 4,
    "forward_dynamics_hessian": 4,
}


@pytest.fixture(scope="module")
def arm():
    return fl.load("double_pendulum")


@pytest.fixture(scope="module")
def six():
    """nv = nbodies = 6."""
    return fl.chain(6, seed=1)


def same(x, y):
    for a, b in zip(several(x), several(y), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def several(x):
    return x if isinstance(x, tuple) else (x,)


# Dtypes


class Stored:
    """An array of another package that NumPy can convert."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.astype(dtype)


@pytest.mark.parametrize("stored", [Stored, lambda x: array.array("d", x), memoryview, lambda x: x])
def test_what_stores_numbers_has_a_dtype(arm, stored):
    """As an array of NumPy has: float64 is not demoted beside float32."""
    q, v = np.array([0.1, 0.7]), np.array([-0.3, 0.4])
    same(arm.inverse_dynamics(q, v, stored(v)), arm.inverse_dynamics(q, v, v))
    with pytest.raises(TypeError, match=r"q is float32 but a is float64"):
        arm.inverse_dynamics(q.astype(np.float32), v.astype(np.float32), stored(v))


def test_what_stores_single_numbers_is_single(arm):
    q = np.array([0.1, 0.7], np.float32)
    same(arm.mass_matrix(Stored(q)), arm.mass_matrix(q))
    with pytest.raises(TypeError, match="v is float32 but q is float64"):
        arm.kinetic_energy(np.zeros(2), Stored(q))


def test_scalars_of_numpy_have_a_dtype_and_those_of_python_have_none():
    scale = fl.compile(lambda x, s: [s * y for y in x], {"x": 3, "s": ()})
    x = np.ones(3, np.float32)
    assert scale(x, 2.0).dtype == scale(x, 2).dtype == scale(x, np.float32(2)).dtype == x.dtype
    with pytest.raises(TypeError, match="x is float32 but s is float64"):
        scale(x, np.float64(2))


def second(model, name, dtype=np.float64, batch=()):
    """A function of directions, and arguments for it."""
    rng = np.random.default_rng(0)
    given = rng.normal(size=(SECOND[name], *batch, model.nv)).round(1).astype(dtype)
    return getattr(model, name), list(given)


@pytest.mark.parametrize("name", SECOND)
def test_lists_and_integers_follow_the_arrays_beside_them(arm, name):
    function, given = second(arm, name, np.float32)
    given[1] = np.array([1, 2], np.float32)
    wanted = function(*given)
    assert all(x.dtype == np.float32 for x in several(wanted))
    same(function(given[0], [1, 2], *given[2:]), wanted)
    same(function(given[0], np.array([1, 2]), *given[2:]), wanted)
    with pytest.raises(TypeError, match="q is float32 but v is float64"):
        function(given[0], np.array([1.0, 2.0]), *given[2:])
    f_ext = np.zeros((2, 6), np.float32)
    f_ext[1, 2] = 3
    pushed = function(*given, f_ext)
    same(function(*given, f_ext.tolist()), pushed)
    same(function(*given, {"link2": [0, 0, 3, 0, 0, 0]}), pushed)
    mass = arm.parameters("mass")["mass"].astype(np.float32)
    heavy = function(*given, params={"mass": mass})
    same(function(*given, params={"mass": mass.tolist()}), heavy)


def test_wrenches_at_frames_follow_the_arrays_beside_them(arm):
    q, v, a = np.random.default_rng(0).normal(size=(3, 5, 2)).astype(np.float32)
    push = np.array([0, 0, 3, 0, 0, 0], np.float32)
    wanted = arm.inverse_dynamics(q, v, a, {"link2": push})
    assert wanted.dtype == np.float32
    for wrench in (push.tolist(), push.astype(int)):
        same(arm.inverse_dynamics(q, v, a, {"link2": wrench}), wanted)
    both = {"link1": [0, 0, 0, 0, 0, 0], "link2": push}
    np.testing.assert_allclose(arm.inverse_dynamics(q, v, a, both), wanted, rtol=1e-5)
    with pytest.raises(TypeError, match=r"q is float32 but f_ext\['link2'\] is float64"):
        arm.inverse_dynamics(q, v, a, {"link2": push.astype(float)})
    minv = arm.mass_matrix_inverse(q)
    out = tuple(np.empty((5, 2, 2), np.float32) for _ in range(3))
    found = arm.forward_dynamics_derivatives(q, v, a=a, minv=minv, f_ext=both, out=out)
    same(found, arm.forward_dynamics_derivatives(q, v, a=a, minv=minv, f_ext=both))
    assert all(x is y for x, y in zip(found, out, strict=True))


def test_a_direction_follows_the_arrays_beside_it(arm):
    q, v, tau, w = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    along = np.array([1, 2, 3, 4, 5, 6])
    wanted = arm.forward_dynamics_hessian_product(q, v, tau, w, along.astype(np.float32))
    assert wanted.dtype == np.float32
    same(arm.forward_dynamics_hessian_product(q, v, tau, w, along), wanted)
    same(arm.forward_dynamics_hessian_product(q, v, tau, w, along.tolist()), wanted)
    with pytest.raises(TypeError, match="q is float32 but direction is float64"):
        arm.forward_dynamics_hessian_product(q, v, tau, w, along.astype(float))


# Masks and arrays of others


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("position", range(4))
def test_masks_are_refused(arm, name, position):
    function, given = second(arm, name)
    given.append(np.zeros((2, 6)))
    position = position if position < len(given) else -1
    given[position] = np.ma.array(given[position], mask=True)
    with pytest.raises(TypeError, match="is a masked array"):
        function(*given)


def test_masks_of_directions_wrenches_and_parameters_are_refused(arm):
    function, given = second(arm, "forward_dynamics_hessian")
    wrench, mass = np.ma.zeros(6), np.ma.array(arm.parameters("mass")["mass"])
    with pytest.raises(TypeError, match=r"f_ext\['link2'\] is a masked array"):
        function(*given, {"link2": wrench})
    with pytest.raises(TypeError, match="mass is a masked array"):
        function(*given, params={"mass": mass})
    with pytest.raises(TypeError, match="direction is a masked array"):
        arm.forward_dynamics_hessian_product(*given, np.ma.zeros(6))
    with pytest.raises(TypeError, match="q is a masked array"):
        fl.convert.mujoco(arm).to_q(np.ma.zeros(2))
    with pytest.raises(TypeError, match="Y is a masked array"):
        fl.identification.base_parameters(np.ma.ones((4, 2)))


def foreign(package, kind):
    """An array of a package that need not be installed."""
    methods = {"__module__": f"{package}.some.module", "__dlpack__": lambda self: None}
    if package == "jaxlib":
        methods["__array__"] = lambda self: np.zeros(2)
    return type(kind, (), methods)()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (foreign("torch", "Tensor"), r"v is a torch.Tensor on another device.*pass v.cpu\(\)"),
        (foreign("cupy", "ndarray"), r"v is a cupy.ndarray on another device.*pass v.get\(\)"),
        (foreign("numba", "DeviceNDArray"), r"v is a numba.*pass v.copy_to_host\(\)"),
        (foreign("jaxlib", "ArrayImpl"), r"v is a jaxlib.ArrayImpl on another.*a copy on the CPU"),
        (foreign("jax", "JVPTracer"), r"v is a jax.JVPTracer.*no numbers.*interop.jax.wrap"),
        (foreign("other", "Array"), r"v is a other.Array on another.*a copy on the CPU"),
    ],
)
def test_hints_are_what_works_for_a_package(arm, value, message):
    with pytest.raises(TypeError, match=message):
        arm.kinetic_energy(np.zeros(2), value)


class Lent:
    """An array on the CPU of a package that need not be installed."""

    def __init__(self, array, requires_grad=False):
        self.array, self.requires_grad = array, requires_grad

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __array_namespace__(self):
        return SimpleNamespace(from_dlpack=Lent)


def test_arrays_of_other_packages_come_back_as_they_went_in(arm):
    q, v, a = np.random.default_rng(0).normal(size=(3, 5, 2))
    minv = arm.mass_matrix_inverse(q)
    tau = arm.inverse_dynamics(Lent(q), v, Lent(a))
    assert type(tau) is Lent
    assert np.array_equal(tau.array, arm.inverse_dynamics(q, v, a))
    made = arm.forward_dynamics_derivatives(Lent(q), Lent(v), a=Lent(a), minv=Lent(minv))
    wanted = arm.forward_dynamics_derivatives(q, v, a=a, minv=minv)
    assert type(made) is type(wanted)
    assert all(np.array_equal(x.array, y) for x, y in zip(made, wanted, strict=True))
    for shape in ((5, 2, 2), (2, 5, 2, 2)):  # with two leading dimensions through NumPy
        out = Lent(np.zeros(shape))
        assert arm.mass_matrix(np.broadcast_to(q, shape[:-1]), out=out) is out
        assert np.array_equal(out.array, np.broadcast_to(arm.mass_matrix(q), shape))
    assert arm.kinetic_energy(Lent(q[0]), Lent(v[0])).array.shape == ()


def test_arrays_whose_results_would_be_lost_are_refused(arm):
    q = np.zeros(2)
    with pytest.raises(TypeError, match=r"v is a .*gradient: use featherlane.interop.torch.wrap"):
        arm.kinetic_energy(q, Lent(q, requires_grad=True))
    other = type("Other", (Lent,), {"__module__": "other"})
    with pytest.raises(TypeError, match=r"q is a .*Lent but v is a other.Other: wanted arrays of"):
        arm.kinetic_energy(Lent(q), other(q))
    without = type("Without", (Lent,), {"__array_namespace__": None, "__module__": "other"})
    with pytest.raises(TypeError, match=r"no from_dlpack: pass np.from_dlpack\(q\)"):
        arm.gravity_torque(without(q))
    frozen = q.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="out for g is read-only"):
        arm.gravity_torque(Lent(q), out=Lent(frozen))


# Shapes and names


def test_wrenches_are_named_by_texts(arm):
    q = np.zeros(2)
    for wrenches in ({0: np.zeros(6), "link2": np.zeros(6)}, {1: np.zeros(6)}, {None: q}):
        with pytest.raises(TypeError, match=r"f_ext has the key .*wanted the name of a frame"):
            arm.inverse_dynamics(q, q, q, wrenches)
    with pytest.raises(ValueError, match=r"f_ext\['link2'\] has shape \(5,\), wanted \(..., 6\)"):
        arm.inverse_dynamics(q, q, q, {"link2": np.zeros(5)})
    wrenches = {"link1": np.zeros((2, 6)), "link2": np.zeros((3, 6))}
    with pytest.raises(ValueError, match=r"do not broadcast: f_ext\['link1'\] \(2,\), f_ext"):
        arm.inverse_dynamics(q, q, q, wrenches)


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="arrays of NumPy 1 have 32 dimensions"
)
def test_leading_dimensions_are_up_to_32(arm):
    wide, wider = np.zeros((1,) * 32 + (2,)), np.zeros((1,) * 40 + (2,))
    push = {"link2": np.zeros((1,) * 32 + (6,))}
    assert arm.inverse_dynamics(wide, wide, wide, push).shape == wide.shape
    assert arm.forward_dynamics_derivatives(wide, wide, wide)[0].shape == (*wide.shape, 2)
    assert arm.integrate(wide, wide).shape == wide.shape
    w = np.zeros(2)
    for call in (
        lambda q: arm.inverse_dynamics(w, w, q),
        lambda q: arm.mass_matrix(q),
        lambda q: arm.integrate(q, w),
        lambda q: arm.difference(q, w),
        lambda q: arm.forward_dynamics_derivatives(q, w, a=w, minv=np.eye(2)),
    ):
        with pytest.raises(ValueError, match="has 40 leading dimensions, wanted at most 32"):
            call(wider)
    with pytest.raises(ValueError, match=r"f_ext\['link2'\] has 40 leading dimensions"):
        arm.inverse_dynamics(w, w, w, {"link2": np.zeros((1,) * 40 + (6,))})
    assert arm.inverse_dynamics_hessian(wide[0], w, w, w).shape == (1,) * 31 + (6, 6)
    with pytest.raises(ValueError, match="q has 32 leading dimensions, wanted at most 31"):
        arm.inverse_dynamics_hessian(wide, w, w, w)


@full
def test_wrenches_on_six_bodies_are_no_directions(six):
    """Where both have the same shape: once compiled too."""
    q, v, a = np.random.default_rng(0).normal(size=(3, 6, 6))
    f_ext = np.random.default_rng(1).normal(size=(6, 6))
    wanted = six.inverse_dynamics_second_derivatives(q, v, a, f_ext)
    six.inverse_dynamics_second_derivatives(q, v, a)
    for _ in range(2):
        found = six.inverse_dynamics_second_derivatives(q, v, a, f_ext)
        assert type(found) is type(wanted)
        same(found, wanted)


# Functions


@pytest.mark.parametrize("batch", [(), (1,), (5,)])
def test_functions_take_inputs_by_name(arm, batch):
    f = arm.function("inverse_dynamics")
    q, v, a = np.random.default_rng(0).normal(size=(3, *batch, 2))
    wanted = f(q, v, a)
    for _ in range(2):  # the second is a call of machine code
        same(f(a=a, v=v, q=q), wanted)
        same(f(q, a=a, v=v), wanted)
        out = np.empty_like(wanted)
        assert f(q, v, a=a, out=out, threads=1) is out
        same(out, wanted)
    for given, options, match in (
        ((q,), {"v": v}, "misses a: wanted 3: q, v, a"),
        ((q, v), {"v": v}, "got a second 'v', wanted 3: q, v, a"),
        ((q, v), {"b": v}, "got an unknown 'b', wanted 3: q, v, a"),
        ((q, v, a, a), {}, "got 4 arrays, wanted 3: q, v, a"),
    ):
        with pytest.raises(TypeError, match=match):
            f(*given, **options)


def test_signatures_tell_the_inputs(arm):
    f = arm.function("inverse_dynamics")
    assert str(inspect.signature(f)) == "(q, v, a, *, out=None, threads=None)"
    assert callable(f)
    for name in ("out", "lambda", "1"):
        strange = fl.compile(fl.trace(lambda x: x[0], {name: 1}))
        assert str(inspect.signature(strange)) == "(*arrays, out=None, threads=None)"
        assert strange(np.ones((2, 1))).tolist() == [1.0, 1.0]


def test_inputs_that_are_called_as_options_are_given_by_position():
    f = fl.compile(lambda out, threads, self: [out[0] + threads[0], self[0]],
                   {"out": 1, "threads": 1, "self": 1})  # fmt: skip
    x = np.arange(3.0)[:, None]
    wanted = np.concatenate([x + 2 * x, 3 * x], 1)
    for _ in range(2):
        result = np.empty((3, 2))
        same(f(x, 2 * x, 3 * x), wanted)
        same(f(x, 2 * x, self=3 * x, out=result, threads=1), wanted)
        same(result, wanted)


def test_pickled_functions_of_models(arm):
    q, v, a = np.random.default_rng(0).normal(size=(3, 5, 2))
    for f, given in (
        (arm.function("inverse_dynamics"), (q, v, a)),
        (arm.function("inverse_dynamics", width=1), (q, v, a)),
        (arm.function("jacobian", frame="link2", reference="world"), (q,)),
        (arm.function("inverse_dynamics", params=("gravity",)), (q, v, a, [0.0, 0.0, -1.6])),
    ):
        wanted = f(*given)
        f(*[x[0] if np.ndim(x) > 1 else x for x in given])
        for again in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f), copy.copy(f)):
            assert repr(again) == repr(f)
            same(again(*given), wanted)
    assert pickle.loads(pickle.dumps(arm.function("mass_matrix"))).compiled == ()
    model, f = pickle.loads(pickle.dumps((arm, arm.function("mass_matrix"))))
    assert model.function("mass_matrix") is f


def test_pickled_functions_of_ones_own():
    counts = Counter()

    def twice(x, A):
        counts["traced"] += 1
        return {"y": fl.sin(x[0]) * A[1][0], "z": [x[1], fl.select(x[0] < 0, x[1], 2.0)]}

    f = fl.compile(twice, {"x": 2, "A": (2, 2)})
    x, A = np.random.default_rng(0).normal(size=(4, 2)), np.ones((2, 2))
    wanted = f(x, A)
    again = pickle.loads(pickle.dumps(f))
    same(again(x, A), wanted)
    assert (again.name, counts["traced"]) == ("twice", 1)
    narrow = fl.compile(twice, {"x": 2, "A": (2, 2)}, width=1)
    same(pickle.loads(pickle.dumps(narrow))(x, A), wanted)


# Robots


@pytest.mark.parametrize(
    ("wrong", "near"), [("iwa14", "iiwa14"), ("Atlas", "atlas"), ("hyq.urdf", "hyq")]
)
def test_names_of_robots_that_are_nearly_right(wrong, near):
    with pytest.raises(fl.ModelError, match=f"did you mean '{near}'"):
        fl.load(wrong)


def test_files_that_are_nearly_there(tmp_path):
    (tmp_path / "walker7.urdf").write_text("<robot/>")
    with pytest.raises(fl.ModelError, match=r"did you mean 'walker7\.urdf'"):
        fl.load(tmp_path / "walker.urdf")
    for far in (tmp_path / "something else", tmp_path / "nowhere" / "walker7.urdf", "q" * 30):
        with pytest.raises(fl.ModelError) as told:
            fl.load(far)
        assert "did you mean" not in str(told.value)


# Configurations


@pytest.mark.parametrize("root", ["fixed", "free"])
def test_configurations_in_a_dtype(root):
    model = fl.load("iiwa14", root=root)
    for dtype in (np.float32, "float32", np.float64):
        neutral = model.neutral(dtype)
        assert neutral.dtype == np.dtype(dtype)
        assert np.array_equal(neutral, model.neutral())
        q = model.random_configuration((50, 2), seed=1, dtype=dtype)
        assert q.dtype == np.dtype(dtype)
        assert np.array_equal(q, model.random_configuration((50, 2), seed=1).astype(dtype))
    assert model.neutral().dtype == model.random_configuration().dtype == np.float64
    longdouble = {np.dtype(np.longdouble)} - {np.dtype(np.float64)}  # on Windows they are the same
    for dtype in (int, np.float16, complex, *longdouble):
        with pytest.raises(TypeError, match="wanted float32 or float64"):
            model.neutral(dtype)
        with pytest.raises(TypeError, match="wanted float32 or float64"):
            model.random_configuration(dtype=dtype)


def test_rounded_configurations_stay_in_the_limits():
    """Which few numbers of float32 are between."""
    builder = fl.ModelBuilder("narrow")
    builder.link("base")
    builder.link("arm", mass=1.0, com=(0.1, 0.0, 0.0), inertia=np.eye(3))
    low, high = 0.1, 0.1 + 3e-8
    builder.joint("joint", "revolute", "base", "arm", lower=low, upper=high)
    q = builder.build().random_configuration(1000, seed=0, dtype=np.float32)
    assert ((q >= low) & (q <= high)).all()


def test_differences_of_angles_and_orientations(arm):
    """Angles change by their difference as it is; what has no turns to count, the shortest way."""
    q0, q1 = np.zeros(2), np.array([6 * np.pi, -4.0])
    assert np.array_equal(arm.difference(q0, q1), q1)
    planar = fl.load("double_pendulum", root="planar")
    q0, q1 = planar.neutral(), planar.neutral()
    q1[2] = 1.5 * np.pi
    np.testing.assert_allclose(planar.difference(q0, q1)[2], -0.5 * np.pi, atol=1e-12)
    free = fl.load("double_pendulum", root="free")
    q0, v = free.neutral(), np.zeros(8)
    v[3:6] = 0.0, 0.0, 1.5 * np.pi
    found = free.difference(q0, free.integrate(q0, v))
    np.testing.assert_allclose(found[3:6], [0, 0, -0.5 * np.pi], atol=1e-12)


# Arguments in each other's place


@pytest.fixture(scope="module")
def flyer():
    """nq = 9, nv = 8, nbodies = 3."""
    return fl.load("double_pendulum", root="free")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, q, v: m.inverse_dynamics(v, q, v), "q and v seem to be exchanged: .* q, v, a$"),
        (lambda m, q, v: m.step(v, q, v, 0.01), "q and v seem to be exchanged: the order is q, v"),
        (lambda m, q, v: m.step(q, v, 0.01, v), "tau and dt seem to be|dt and the number before"),
        (lambda m, q, v: m.step(q, v, 0.01, v + 1), "tau and dt seem to be exchanged"),
        (lambda m, q, v: m.forward_dynamics(q, q, v), "v has shape .*this is the size of q"),
        (lambda m, q, v: m.mass_matrix(v), "q has shape .*this is the size of v"),
        (lambda m, q, v: m.mass_matrix(np.zeros((9, 50))), r"states go in rows, pass q\.T"),
        (lambda m, q, v: m.inverse_dynamics(q, np.zeros((8, 50)), v), r"in rows, pass v\.T"),
        (lambda m, q, v: m.inverse_dynamics(q, v, v, np.zeros((4, 6))),
         r"the ground has none .*f_ext\[1:\]"),
        (lambda m, q, v: m.inverse_dynamics(q, v, v, np.zeros((6, 3))), r"np\.swapaxes\(f_ext"),
        (lambda m, q, v: m.jacobian("link2", q), "frame is array.*arrays come first"),
        (lambda m, q, v: m.frame(None), "frame is None: wanted the name of a frame$"),
        (lambda m, q, v: m.joint(2), "joint is 2: wanted the name of a joint$"),
    ],
)  # fmt: skip
def test_arguments_in_each_others_place(flyer, call, message):
    with pytest.raises(ValueError, match=message):
        call(flyer, flyer.neutral(), np.zeros(8))


def test_controls_with_steps_in_columns(arm):
    with pytest.raises(ValueError, match=r"tau has shape \(2, 50\).*go in rows, pass tau\.T"):
        arm.rollout(np.zeros(2), np.zeros(2), np.zeros((2, 50)), 0.01)


def test_no_message_ends_one_sentence_and_begins_another():
    """ ".;" or ":;" come from two templates that do not fit together."""
    wrong = re.compile(r"[.:,;]\s*;|;\s*[.:,]|::|\?\?| ,|\.\.(?!\.)(?<!\.\.\.)")
    found = {
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in PACKAGE.rglob("*.py")
        for line, text in templates(path.read_text(encoding="utf-8"))
        if wrong.search(text)
    }
    assert found == set()


PACKAGE = Path(fl.__file__).parent


def templates(source):
    """The texts of errors that a file raises, with its values as "x"."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args:
                yield node.lineno, text_of(argument)


def text_of(node):
    """A text as it is written, with values that are put in as "x": errors end with a period."""
    if isinstance(node, ast.FormattedValue):
        return "." if isinstance(node.value, ast.Name) and node.value.id == "error" else "x"
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return "x"
