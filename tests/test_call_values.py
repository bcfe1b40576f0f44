"""Calls for one state with numbers, lists, frames, time steps and dicts of wrenches: machine code
takes them as Python would, and hands on what it does not know.
"""

import copy
import gc
import pickle
import sys
from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from test_calls_small import (
    HANDED_ON,
    SEVERAL,
    Watched,
    alone,
    assert_same,
    hands_on,
    held,
    together,
)

import featherlane as fl
from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.backends.cpu import native
from featherlane.backends.cpu.call import cpython
from featherlane.functions.fast_path import MethodSignature, machine_code_call
from featherlane.functions.table import REFERENCES

pytestmark = pytest.mark.skipif(
    not cpython.available(), reason="arrays are laid out in another way"
)
Q, V, TAU = [0.3, -0.2], [1.0, 0.5], [0.1, 0.0]


@pytest.fixture
def arm():
    return fl.load("double_pendulum")


@pytest.fixture(scope="module")
def by_numpy():
    """The same robot, whose calls go through Python."""
    model = fl.load("double_pendulum")

    def call(name, *arrays, **options):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(native.VARIABLE, "numpy")
            return getattr(model, name)(*arrays, **options)

    return call


def python_calls(call):
    """The result of a call, and how many functions of Python it calls."""
    count = 0

    def follow(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(follow)
    try:
        result = call()
    finally:
        sys.setprofile(None)
    return result, count - 1  # without `call` itself


def by_machine_code(function, *arrays, **options):
    """The result of a call that calls no function of Python, but the first time. function: also
    (model, name) of a method, which the first call may replace.
    """
    method = (lambda: getattr(*function)) if isinstance(function, tuple) else lambda: function
    method()(*arrays, **options)
    call = method()
    result, count = python_calls(lambda: call(*arrays, **options))
    assert count == 0
    return result


# Numbers and lists


class Float(float):
    pass


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def mixed(request):
    """(function, dtype): of a number and of arrays with one and two dimensions."""
    f = fl.compile(
        lambda s, x, A: {"y": s * x, "z": A[1, 0] * x[1] + s}, {"s": (), "x": 2, "A": (2, 3)}
    )
    dtype = np.dtype(request.param)
    for states in (1, 2):
        f._form(dtype, states)
    return f, dtype


def test_numbers_and_lists_become_arrays(mixed):
    f, dtype = mixed
    x, A = np.array([0.1, -3.7], dtype), np.arange(6, dtype=dtype).reshape(2, 3) / 7
    numbers = [0.3, 3, -1, 0, 2**52 + 1, -(2**53) + 1, dtype.type(0.3), float("nan"), -0.0]
    lists = [[0.1, -3.7], (0.1, 2), [np.float64(0.1), -1], [0, -0.0], [1e-42, 1e30]]
    nested = [A.tolist(), tuple(A.tolist()), [[1, 2, 3], (4.5, 5, 6)]]
    calls = [(s, x, A) for s in numbers] + [(0.3, y, A) for y in lists]
    calls += [(np.array(0.5, dtype), x, B) for B in nested] + [
        (0.7, [1, 2], A),
        (0.7, x, A.tolist()),
    ]
    calls += [(0.5, np.stack([x, 2 * x, x]), A), (0.5, np.stack([x, x]), A.tolist())]
    for given in calls:
        wanted = f._through_numpy(*given)
        assert_same(alone(f)(*given), wanted)
        assert_same(alone(f)(A=given[2], x=given[1], s=given[0]), wanted)
        out = tuple(map(np.zeros_like, wanted))
        alone(f)(*given, out=out, threads=1)
        assert_same(out, wanted)


def test_values_of_python_that_are_handed_on(mixed):
    f, dtype = mixed
    x, A = np.ones(2, dtype), np.ones((2, 3), dtype)
    other = {np.float64: np.float32, np.float32: np.float64}[dtype.type]
    numbers = [True, 2**53, -(2**60), 10**400, 1j, "1", None, Decimal(1), Float(1), other(1.0)]
    numbers += [np.int64(1), np.bool_(True), [1.0], np.float16(1), {}, object()]
    lists = [[1.0], [1.0] * 3, [1.0, None], [1.0, "2"], [1.0, True], [[1.0], [2.0]]]
    lists += [[1.0, np.float32(2)], [1.0, 10**400], {1.0, 2.0}, range(2), "ab", [1.0, Float(2)]]
    lists += [(1.0,), [], 1.0, [np.ones(1), np.ones(1)]]
    lists += [[x[0], x[1]]] if dtype == np.float32 else []  # np.float64 in a list is as Python's
    for s in numbers:
        assert hands_on(f, s, x, A), s
    for y in lists:
        assert hands_on(f, 0.5, y, A), y
    for B in ([[1.0, 2.0, 3.0]], [[1.0] * 3, [1.0] * 2], [1.0] * 6, [x, x], [[1.0] * 3, 1.0]):
        assert hands_on(f, 0.5, x, B), B
    for arguments in ((), (0.5,), (0.5, x, A, 0.5), (0.5,) * 10_000):
        assert hands_on(f, *arguments)
    assert hands_on(f, 0.5, x, A, wrong=0.5)
    assert hands_on(f, 0.5, x, A, s=0.5)
    assert hands_on(f, 0.5, x, A, threads=0.5)
    assert hands_on(f, 0.5, x, A, out=[0.5, 0.5])
    assert hands_on(f, 0.5, x, A, **{f"n{k}": 0.5 for k in range(200)})


def test_float32_is_only_for_calls_that_ask_for_it(mixed):
    """Numbers and lists alone are float64, also where there is no code for that yet."""
    f, dtype = mixed
    x, A = [1.0, 2.0], [[1.0] * 3] * 2
    assert hands_on(f, 0.1, x, A) == (dtype == np.float32)
    assert f(0.1, x, A).y.dtype == np.float64
    assert hands_on(f, np.float32(0.1), x, A) == (dtype == np.float64)
    assert f(np.float32(0.1), x, A).y.dtype == np.float32
    if dtype == np.float32:
        assert hands_on(f, 1e300, np.float32(x), A)  # NumPy warns of an infinite number
    with pytest.raises(TypeError, match="float32 is not promoted"):
        f(np.float64(0.1), np.float32(x), A)


def test_errors_about_lists_are_those_of_python(arm, by_numpy):
    arm.inverse_dynamics(Q, V, TAU)
    for given in (([0.3], V, TAU), (Q, [1.0, "a"], TAU), (Q, V, [[1.0], [1.0, 2.0]]), (Q, V, None)):
        with pytest.raises((ValueError, TypeError)) as wanted:
            by_numpy("inverse_dynamics", *given)
        with pytest.raises(wanted.type) as found:
            arm.inverse_dynamics(*given)
        assert str(found.value) == str(wanted.value)


def test_no_python_runs_for_lists(arm, by_numpy):
    q = np.array(Q)
    for given in ((Q, V, TAU), (q, V, tuple(TAU)), (q, np.array(V), TAU)):
        found = by_machine_code((arm, "inverse_dynamics"), *given)
        assert_array_equal(found, by_numpy("inverse_dynamics", *given))


def test_a_list_that_shares_no_memory(arm):
    """A result may be what the list was made from."""
    a = arm.inverse_dynamics(Q, V, TAU)
    again = arm.inverse_dynamics(Q, V, a.tolist(), out=a)
    assert again is a
    out = np.array(Q)
    assert arm.inverse_dynamics(out, V, TAU, out=out) is out
    assert_array_equal(out, arm.inverse_dynamics(Q, V, TAU))


# Steps in time


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_are_taken_by_machine_code(arm, by_numpy, dtype):
    q, v, tau = (np.array(x, dtype) for x in (Q, V, TAU))
    for dt in (0.002, 1, np.array(0.002, dtype), dtype(0.002), 1e-30):
        found = by_machine_code((arm, "step"), q, v, tau, dt)
        assert type(found).__name__ == "Step"
        assert_same(found, by_numpy("step", q, v, tau, dt))
        assert_same(by_machine_code((arm, "step"), q, v, dt=dt, tau=tau), found)
    many = np.array([0.1, 0.2, 0.3], dtype)
    arm.step(q, v, tau, many)
    found = by_machine_code((arm, "step"), q, v, tau, many)
    assert_same(found, by_numpy("step", q, v, tau, many))
    for name in ("linearize_step", "linearize_step_reduced"):
        found = by_machine_code((arm, name), q, v, tau, 0.002)
        assert_same(found, by_numpy(name, q, v, tau, 0.002))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers_need_no_arrays(monkeypatch, dtype):
    """A call makes arrays for its results and its wrenches alone."""
    watched = Watched(monkeypatch)
    arm = fl.load("double_pendulum")
    given, f_ext = [np.array(x, dtype) for x in (Q, V, TAU)], wrenches("link1", dtype=dtype)
    arm.step(*given, 0.25, f_ext)

    def arrays_of(*more, **options):
        return watched.counts(lambda: arm.step(*given, *more, **options))["array_new"]

    for dt in (0.25, 1, dtype(0.25)):
        wanted = arm.step(*given, np.array(dt, dtype))
        out = tuple(map(np.zeros_like, wanted))
        assert (arrays_of(dt), arrays_of(dt, out=out), arrays_of(dt, f_ext)) == (2, 0, 3)
        assert_same(out, wanted)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_number_for_all_states_of_a_batch(arm, threads):
    many = [np.repeat([x], 5000, 0) for x in (Q, V, TAU)]
    wanted = arm.step(*many, np.array(0.25), threads=threads)
    assert_same(arm.step(*many, 0.25, threads=threads), wanted)


def test_integrators_are_chosen_by_machine_code(arm, by_numpy):
    q, v, tau = map(np.array, (Q, V, TAU))
    found = {}
    for _ in range(2):
        for integrator in INTEGRATORS:
            options = {"integrator": integrator}
            found[integrator] = by_machine_code((arm, "step"), q, v, tau, 0.1, **options)
            assert_same(found[integrator], by_numpy("step", q, v, tau, 0.1, **options))
    assert not np.array_equal(found["euler"].q, found["rk4"].q)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_that_are_none(arm, dtype):
    q, v, tau = (np.array(x, dtype) for x in (Q, V, TAU))
    arm.step(q, v, tau, 0.1)
    arm.step(q, v, tau, 0.1, integrator="euler")
    tiny = [1e-60, 1e60] if dtype == np.float32 else []
    wrong = [0.0, -0.1, float("nan"), float("inf"), 0, -1, np.array(-0.1, dtype), *tiny]
    wrong += [np.array([0.1, -0.1], dtype), np.array([0.1, np.nan], dtype), dtype(0), None, "a"]
    for dt in wrong:
        for options in ({}, {"integrator": "euler"}):
            with pytest.raises(ValueError, match="dt is"):
                arm.step(q, v, tau, dt, **options)
            with pytest.raises(ValueError, match="dt is"):
                arm.step(q, v, tau, dt=dt, **options)
    with pytest.raises(TypeError):
        arm.step(q, v, tau)
    with pytest.raises(ValueError, match="integrator is 'Euler'"):
        arm.step(q, v, tau, 0.1, integrator="Euler")
    with pytest.raises(TypeError, match="by keyword go"):
        arm.step(q, v, tau, 0.1, None, "euler")


# Frames


FRAMES = ("link1", "link2", "joint2")


def test_frames_are_chosen_by_machine_code(arm, by_numpy):
    """Each by its own function, in any order and however a name was made."""
    q, v, a = map(np.array, (Q, V, TAU))
    for name, arrays in (
        ("jacobian", (q,)),
        ("frame_velocity", (q, v)),
        ("frame_acceleration", (q, v, a)),
        ("jacobian_time_derivative", (q, v)),
    ):
        method = arm, name
        for frame in FRAMES:
            for reference in REFERENCES:
                wanted = by_numpy(name, *arrays, frame, reference)
                copies = "".join([*frame]), "".join([*reference])
                for found in (
                    by_machine_code(method, *arrays, frame, reference),
                    by_machine_code(method, *arrays, *copies),
                    by_machine_code(method, *arrays, frame, reference=reference),
                    by_machine_code(method, *arrays, reference=reference, frame=frame),
                ):
                    assert_array_equal(found, wanted)
            found = by_machine_code(method, *arrays, frame)
            assert_array_equal(found, by_numpy(name, *arrays, frame))
    for frame in FRAMES:
        found = by_machine_code((arm, "frame_placement"), Q, frame)
        assert_array_equal(found, by_numpy("frame_placement", Q, frame))
    out = np.empty((6, 2))
    assert by_machine_code((arm, "jacobian"), q, "link2", out=out) is out
    assert_array_equal(out, by_numpy("jacobian", q, "link2"))


def test_batches_and_dtypes_of_frames(arm, by_numpy):
    many = np.random.default_rng(0).normal(size=(7, 2))
    for q in (many, many.astype(np.float32), np.float32(Q), np.array(Q)):
        found = by_machine_code((arm, "jacobian"), q, "link2", "world")
        assert_same(found, by_numpy("jacobian", q, "link2", "world"))


def test_parameters_are_chosen_by_machine_code(arm, by_numpy):
    name, given = "inverse_dynamics_parameter_derivatives", [*map(np.array, (Q, V, TAU))]
    for options in ({}, {"wrt": "mass"}, {"wrt": "inertial"}):
        found = by_machine_code((arm, name), *given, **options)
        assert_array_equal(found, by_numpy(name, *given, **options))
    assert_array_equal(getattr(arm, name)(*given, "damping"), by_numpy(name, *given, "damping"))


class Name(str):
    def __hash__(self):
        return hash(str(self))

    def __eq__(self, other):
        return str(self) == str(other)


def test_frames_that_are_none(arm, by_numpy):
    q = np.array(Q)
    arm.jacobian(q, "link2")
    for given, options in (
        (("link3",), {}),
        ((None,), {}),
        ((), {}),
        (("link2", "World"), {}),
        (("link2", None), {}),
        (("link2",), {"reference": None}),
        (("link2",), {"frame": "link2"}),
        (("link2", "body", "body"), {}),
        ((["link2", "link3"],), {}),
        ((3,), {}),
    ):
        with pytest.raises((ValueError, TypeError)) as wanted:
            by_numpy("jacobian", q, *given, **options)
        with pytest.raises(wanted.type) as found:
            arm.jacobian(q, *given, **options)
        assert str(found.value) == str(wanted.value)
    assert_array_equal(arm.jacobian(q, Name("link2")), arm.jacobian(q, "link2"))
    assert arm.jacobian(q, ["link1", "link2"]).shape == (2, 6, 2)


def test_a_method_of_frames_is_copied_pickled_and_documented(arm):
    q = np.array(Q)
    J = arm.jacobian(q, "link2")
    for other in (pickle.loads(pickle.dumps(arm)), copy.deepcopy(arm)):
        assert_array_equal(other.jacobian(q, "link2"), J)
    method = pickle.loads(pickle.dumps(arm.jacobian))
    assert_array_equal(method(q, "link2"), J)
    assert "the velocity of the frame is J v" in " ".join(arm.jacobian.__doc__.split())
    function = arm.jacobian
    del arm
    gc.collect()
    assert_array_equal(function(q, "link2"), J)


# Wrenches at frames


def wrenches(*frames, dtype=np.float64):
    rng = np.random.default_rng(len(frames))
    return {frame: rng.normal(size=6).astype(dtype) for frame in frames}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics", SEVERAL])
def test_wrenches_by_frames_are_taken_by_machine_code(arm, by_numpy, name, dtype):
    given, method = [np.array(x, dtype) for x in (Q, V, TAU)], (arm, name)
    sets = [("link2",), ("link1", "link2"), ("link2", "link1"), ("joint2", "link1", "link2")]
    for _ in range(2):
        for frames in sets:
            f_ext = wrenches(*frames, dtype=dtype)
            wanted = by_numpy(name, *given, f_ext)
            assert_same(by_machine_code(method, *given, f_ext), wanted)
            assert_same(by_machine_code(method, *given, f_ext=f_ext), wanted)
            world = by_machine_code(method, *given, f_ext_frame="world", f_ext=f_ext)
            assert_same(world, by_numpy(name, *given, f_ext, f_ext_frame="world"))
            spread = {k: np.repeat(x, 3)[::3] for k, x in f_ext.items()}
            assert_same(by_machine_code(method, *given, spread), wanted)
    assert_same(by_machine_code(method, *given), by_numpy(name, *given))


def test_wrenches_with_lists_and_steps(arm, by_numpy):
    f_ext = {"link2": [1, 0.5, 0, 0, 0, 2.0], "link1": (0,) * 6}
    for given in ((Q, V, TAU, f_ext), (np.array(Q), V, np.array(TAU), f_ext)):
        found = by_machine_code((arm, "forward_dynamics"), *given)
        assert_array_equal(found, by_numpy("forward_dynamics", *given))
    for dt in (0.1, np.array(0.1)):
        for options in ({}, {"integrator": "rk4"}, {"f_ext_frame": "world"}):
            found = by_machine_code((arm, "step"), Q, V, TAU, dt, f_ext, **options)
            assert_same(found, by_numpy("step", Q, V, TAU, dt, f_ext, **options))
    with pytest.raises(ValueError, match="dt is"):
        arm.step(Q, V, TAU, -0.1, f_ext)


def test_axes_of_wrenches_of_bodies_are_chosen_by_machine_code(arm, by_numpy):
    given, f_ext = [*map(np.array, (Q, V, TAU))], np.random.default_rng(0).normal(size=(2, 6))
    for axes in ("world", "body"):
        arrays = (*given, f_ext)
        found = arm.inverse_dynamics(*arrays, f_ext_frame=axes)
        assert_array_equal(found, by_numpy("inverse_dynamics", *arrays, f_ext_frame=axes))
    world = by_machine_code((arm, "inverse_dynamics"), *given, f_ext, f_ext_frame="world")
    assert_array_equal(world, by_numpy("inverse_dynamics", *given, f_ext, f_ext_frame="world"))
    with pytest.raises(TypeError, match="by keyword go"):
        arm.inverse_dynamics(*given, f_ext, "world")


def test_wrenches_that_are_none(arm, by_numpy):
    """Or that Python knows what to do with."""
    q, v, tau = map(np.array, (Q, V, TAU))
    good = wrenches("link2")
    arm.forward_dynamics(q, v, tau, good)
    arm.forward_dynamics(*(x.astype("f4") for x in (q, v, tau)), wrenches("link2", dtype="f4"))
    row = good["link2"]
    for f_ext in (
        {"link3": row},
        {3: row},
        {"link2": row, 3: row},
        {"link2": row[:5]},
        {"link2": None},
        {"link2": "wrench"},
        {"link2": row.astype(complex)},
        {"link2": row.astype("f4")},
        {"link2": [1.0] * 5},
        {"link2": [1.0] * 5 + [None]},
    ):
        with pytest.raises((ValueError, TypeError)) as wanted:
            by_numpy("forward_dynamics", q, v, tau, f_ext)
        with pytest.raises(wanted.type) as found:
            arm.forward_dynamics(q, v, tau, f_ext)
        assert str(found.value) == str(wanted.value)
    for f_ext in (
        {},
        {"link2": row[None]},
        {"link2": [row]},
        {"link2": row.astype(">f8")},
        {"link2": np.arange(6)},
        {"link2": np.stack([row, row])},
        {Name("link2"): row},
        dict.fromkeys(FRAMES, row),
    ):
        found = arm.forward_dynamics(q, v, tau, f_ext)
        assert_array_equal(found, by_numpy("forward_dynamics", q, v, tau, f_ext))
    lists = {"link2": row.tolist()}
    f4 = [x.astype("f4") for x in (q, v, tau)]
    assert arm.forward_dynamics(*f4, lists).dtype == np.float32
    assert arm.forward_dynamics(Q, V, TAU, lists).dtype == np.float64
    with pytest.raises(TypeError, match="float32 is not promoted"):
        arm.forward_dynamics(*f4, good)


def test_a_first_call_with_wrenches_compiles_one_kernel(arm):
    """That of one state: a batch has to ask for the other."""
    f_ext = wrenches("link1", "link2")
    arm.forward_dynamics(Q, V, TAU, f_ext)
    arm.step(Q, V, TAU, 0.1, f_ext)
    for name in ("forward_dynamics", "step"):
        (function,) = arm._fast_paths[name]._branches[*DEFAULTS[name]].functions
        (loops,) = function.loops()
        assert loops.single is not None
        assert loops.batch is None


DEFAULTS = {"forward_dynamics": ("body",), "step": ("implicit_damping", "body")}


def test_second_derivatives_of_one_state_are_one_call(arm, by_numpy):
    """The directions are the states of a batch, and views of its results are returned."""
    f_ext = np.random.default_rng(0).normal(size=(2, 6))
    for dtype in (np.float64, np.float32):
        q, v, a = (np.array(x, dtype) for x in (Q, V, TAU))
        for name, arrays in (
            ("inverse_dynamics_second_derivatives", (q, v, a)),
            ("inverse_dynamics_second_derivatives", (q, v, a, f_ext.astype(dtype))),
            ("inverse_dynamics_hessian", (q, v, a, v)),
            ("forward_dynamics_hessian", (q, v, a, v)),
        ):
            call = lambda name=name, arrays=arrays: getattr(arm, name)(*arrays)
            call()
            found, count = python_calls(call)
            assert count < 10
            assert_same(found, by_numpy(name, *arrays))
            batch = getattr(arm, name)(*(x[None] for x in arrays))
            for x, y in zip(together(found), together(batch), strict=True):
                assert_array_equal(x, y[0])
    with pytest.raises(TypeError, match="float32 is not promoted"):
        arm.inverse_dynamics_second_derivatives(q, v, np.array(TAU))
    with pytest.raises(ValueError, match="v has shape"):
        arm.inverse_dynamics_second_derivatives(q, v[:1], a)


# What it leaves behind


def every_corner(arm):
    """Calls, by what they show, and the objects that they read."""
    arrays = [*map(np.array, (Q, V, TAU))]
    frames, f_ext = [*FRAMES], wrenches("link1", "link2")
    numbers = [0.25, *(float(x) for x in range(1000, 1006))]
    calls = {
        "list": lambda: arm.inverse_dynamics(Q, V, arrays[2]),
        "number": lambda: arm.step(*arrays, numbers[0]),
        "frame": lambda: arm.jacobian(arrays[0], frames[1], "world"),
        "wrenches": lambda: arm.forward_dynamics_derivatives(*arrays, f_ext),
        "lists": lambda: arm.forward_dynamics(Q, V, TAU, {frames[0]: numbers[1:]}),
    }
    return calls, [Q, V, TAU, *arrays, *frames, f_ext, *f_ext.values(), *numbers, None]


def test_references_are_balanced(arm):
    calls, objects = every_corner(arm)
    refused = [
        lambda: arm.inverse_dynamics(Q, V, [1.0, None]),
        lambda: arm.jacobian(Q, "nowhere"),
        lambda: arm.forward_dynamics(Q, V, TAU, {"link1": [1.0] * 5}),
        lambda: arm.step(Q, V, TAU, -0.25),
    ]

    def all_of_them():
        for call in calls.values():
            call()
        for call in refused:
            with pytest.raises((ValueError, TypeError)):
                call()

    for _ in range(3):
        all_of_them()
    gc.collect()
    before = [*map(sys.getrefcount, objects)]
    for _ in range(200):
        all_of_them()
    gc.collect()
    after = [*map(sys.getrefcount, objects)]
    assert all(abs(x - y) < 20 for x, y in zip(before, after, strict=True))


def test_no_memory_for_arrays_of_values(monkeypatch):
    """Every failure is raised, and what was made before is given back."""
    watched = Watched(monkeypatch)
    arm = fl.load("double_pendulum")
    calls, objects = every_corner(arm)
    for name, call in calls.items():
        call()
        wanted = call()
        made = watched.counts(call)
        count = made["array_new"] + made["object_new"]
        assert count > 0
        more = []
        for _ in range(3):  # what is kept is kept in each; other threads disturb one
            before = held(objects)
            for _ in range(20):
                for successes in range(count):
                    watched.fail_after(successes)
                    with pytest.raises(MemoryError):
                        call()
            watched.fail_after(-1)
            more.append(abs(held(objects) - before))
        assert min(more) < 20, name
        assert_same(call(), wanted)


def test_functions_made_for_a_choice_are_told_apart(arm):
    """A front that a choice has led to ignores the option, and no other front takes it."""
    q = np.array(Q)
    f = arm.function("jacobian", frame="link2", reference="world")
    f(q)
    call = machine_code_call(f, lambda *arrays, **options: HANDED_ON)
    assert call(q, frame="link2") is HANDED_ON
    assert call(q, "link2") is HANDED_ON
    chosen = machine_code_call(
        f, lambda *arrays, **options: HANDED_ON, MethodSignature("", ["frame"], ["reference"])
    )
    assert_array_equal(chosen(q, "link2", reference="world"), f(q))
    assert chosen(q, "link2", "world") is HANDED_ON
