"""Derivatives of long robots: recorded calls along directions, and products of matrices."""

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose
from repetition import full, repeated

import featherlane as fl
from featherlane.backends.cpu.steps.run import StepEvaluator
from featherlane.functions import kernels as variant_kernels
from featherlane.functions.table import Variant
from featherlane.functions.tracing import scalar_function
from featherlane.program.derivatives.calls import tangent
from featherlane.program.program import Program
from featherlane.program.trace import STEPS, program_of
from featherlane.scalar import call, cos, sin, sqrt

RNG = np.random.default_rng(0)


def recorded(function, inputs):
    return program_of(function, inputs, STEPS)


def mixed(x, y, c):
    return [sin(x) * y + c, x / (y * y + 1.0), x, sqrt(x * x + c * c), -y]


def shifted(x, c):
    return [x + c, cos(x)]


def network(rng, length):
    """A function of random calls, of which some depend on x, some on y, some on both."""
    chosen = [(*rng.integers(0, 6 + k, 2), rng.uniform(0.5, 1)) for k in range(length)]

    def run(x, y):
        known = [*x, *y]
        for k, (i, j, c) in enumerate(chosen):
            if k % 3:
                known += call(mixed, known[i], known[j], float(c))[k % 2 :]
            else:
                known += call(shifted, known[i], float(c))
        return {"far": known[-7:], "near": [*x[:2], 2.0, *y[:1]]}

    return run


def evaluate(calls, *arrays):
    shapes = [shape for shape, _ in calls.outputs.values()]
    dtype = np.dtype(np.float64)
    out = [np.empty(shape, dtype) for shape in shapes]
    StepEvaluator(calls, dtype)(*arrays, out=out)
    return dict(zip(calls.outputs, out, strict=True))


@pytest.mark.parametrize("wrt", [("x",), ("y",), ("x", "y")])
@pytest.mark.parametrize("seed", range(3))
def test_tangents_are_differences(wrt, seed):
    rng = np.random.default_rng(seed)
    calls = recorded(network(rng, 25), {"x": (3,), "y": (3,)})
    given = dict(zip("xy", rng.normal(size=(2, 3)), strict=True))
    directions = {name: rng.normal(size=3) for name in wrt}
    new = tangent(calls, wrt)
    assert list(new.inputs) == ["x", "y", *(f"{name}_direction" for name in wrt)]
    found = evaluate(new, *given.values(), *directions.values())
    plain, h = evaluate(calls, *given.values()), 1e-6

    def at(step):
        moved = {name: x + step * directions.get(name, 0.0) for name, x in given.items()}
        return evaluate(calls, *moved.values())

    plus, minus = at(h), at(-h)
    for name in calls.outputs:
        difference = (plus[name] - minus[name]) / (2 * h)
        assert_allclose(found[name], plain[name], rtol=1e-15, atol=0)
        scale = max(1.0, np.abs(difference).max())
        assert_allclose(found[f"{name}_direction"], difference, atol=1e-7 * scale)


def test_what_does_not_depend_has_no_calls():
    calls = recorded(network(np.random.default_rng(1), 25), {"x": (3,), "y": (3,)})
    still = tangent(calls, ())
    shape, along = still.outputs["far_direction"]
    assert shape == (7,)
    assert [still.main.number(k) for k in along] == [0.0] * 7
    assert sum(still.times()) == sum(calls.times())
    along = tangent(calls, ("x",))
    assert [along.main.number(k) for k in along.outputs["near_direction"].nodes[2:]] == [0.0, 0.0]


# Long robots. What is compiled as one graph is the reference: it has tests of its own.

ROBOTS = {
    "types": textbook.tree(
        ("helical", "cylindrical", "universal", "planar", "free"), [-1, 0, 0, 1, -1], 3
    ),
    "mimic": textbook.tree(
        ("revolute", "prismatic", "revolute", "spherical", "prismatic"),
        [-1, 0, 1, 1, -1],
        5,
        physics=True,
        mimic={2: 0, 4: 1},
    ),
    "small": textbook.tree(("revolute", "planar", "spherical"), seed=2, physics=True),
}


def robots(*names):
    """The fixture for some of them."""
    return pytest.mark.parametrize("pair", repeated(names), indirect=True)


def loads(model, axes):
    parameters = model.parameters("gravity", "armature") if axes == "world" else None
    f_ext = RNG.normal(size=(model.nbodies, 6))
    return {"f_ext": f_ext, "f_ext_frame": axes, "params": parameters}


@pytest.fixture(params=repeated([*ROBOTS]), scope="module")
def pair(request):
    """One robot twice: as one graph, and as a long one."""
    fields = ROBOTS[request.param]._fields()
    return fl.Model(**fields), fl.Model(**fields)


def compare(monkeypatch, pair, call, rtol=1e-11):
    short, long = pair
    monkeypatch.setattr(variant_kernels, "LONG", 1000)
    expected = call(short)
    monkeypatch.setattr(variant_kernels, "LONG", 1)
    for x, y in zip(call(long), expected, strict=True):
        assert_allclose(x, y, rtol=0, atol=rtol * max(1.0, np.abs(y).max()))


def state(model, batch=3):
    return model.random_configuration(batch), *RNG.normal(size=(2, batch, model.nv))


@pytest.mark.parametrize("axes", repeated(["world", "body"]))
def test_first_derivatives(monkeypatch, pair, axes):
    x, given = state(pair[0]), loads(pair[0], axes)
    for method in ("auto", "scan"):
        options = given | {"method": method}
        compare(monkeypatch, pair, lambda m, o=options: m.inverse_dynamics_derivatives(*x, **o))


@robots("small", "mimic")
def test_first_derivatives_of_forward_dynamics(monkeypatch, pair):
    x, given = state(pair[0]), loads(pair[0], "world")
    compare(monkeypatch, pair, lambda m: m.forward_dynamics_derivatives(*x, **given))


@robots("small")
def test_derivatives_with_a_known_inverse(monkeypatch, pair):
    q, v, a = state(pair[0])
    name = "forward_dynamics_derivatives_from"
    Minv = np.linalg.inv(pair[0].mass_matrix(q))
    compare(monkeypatch, pair, lambda m: m.function(name)(q, v, a, Minv))


@full
@robots("small")
def test_leading_dimensions_broadcast(monkeypatch, pair):
    q, v, a = state(pair[0], 2)
    x = q[:, None], v[None, :], a[0]
    compare(monkeypatch, pair, lambda m: m.inverse_dynamics_derivatives(*x))
    compare(monkeypatch, pair, lambda m: m.forward_dynamics_derivatives(*x))


def test_matrices(monkeypatch, pair):
    q, v, _ = state(pair[0])
    params = {name: 1.1 * x for name, x in pair[0].parameters("mass", "gravity").items()}
    compare(monkeypatch, pair, lambda m: [m.mass_matrix(q, params=params)])
    compare(monkeypatch, pair, lambda m: [m.mass_matrix_inverse(q, params=params)])
    compare(monkeypatch, pair, lambda m: [m.coriolis_matrix(q, v)])


@robots("mimic")
@pytest.mark.parametrize("p", repeated(["inertial", "orientation", "friction"]))
def test_derivatives_by_parameters(monkeypatch, pair, p):
    x, given = state(pair[0]), loads(pair[0], "body")
    given["params"] = {"mass": 1.1 * pair[0].parameters("mass")["mass"]}
    name = "inverse_dynamics_parameter_derivatives"
    compare(monkeypatch, pair, lambda m: [getattr(m, name)(*x, p, **given)])


@full
@robots("small")
def test_second_derivatives(monkeypatch, pair):
    x, given = state(pair[0], 1), loads(pair[0], "world")
    compare(monkeypatch, pair, lambda m: m.inverse_dynamics_second_derivatives(*x, **given))


@full
@robots("small", "mimic")
def test_hessians_of_forward_dynamics(monkeypatch, pair):
    x, weights = state(pair[0], 1), RNG.normal(size=pair[0].nv)
    compare(monkeypatch, pair, lambda m: [m.forward_dynamics_hessian(*x, weights)])


@full
@robots("small")
def test_hessians_of_inverse_dynamics(monkeypatch, pair):
    x, given = state(pair[0], 1), loads(pair[0], "body")
    weights = RNG.normal(size=pair[0].nv)
    compare(monkeypatch, pair, lambda m: [m.inverse_dynamics_hessian(*x, weights, **given)])


@full
def test_a_chain_of_150():
    """Products of matrices seen from the root, against columns that stay in the links' frames."""
    model = fl.chain(150, seed=1)
    x = RNG.normal(size=(3, 150))
    found = model.inverse_dynamics_derivatives(*x)
    scanned = model.inverse_dynamics_derivatives(*x, method="scan")
    variant = Variant("inverse_dynamics", method="serial")
    shapes = dict.fromkeys("qva", (150,))
    calls = recorded(scalar_function(model, variant), shapes)
    for name, dx, other in zip("qv", found, scanned, strict=True):
        columns = tangent(calls, (name,))
        along = {"dx": columns.outputs["tau_direction"]}
        columns = Program(columns.main.replaced(outputs=along), columns.functions)
        expected = np.empty((150, 150))
        StepEvaluator(columns, np.float64)(*x, np.eye(150), out=[expected.T])
        for result in (dx, other):
            assert_allclose(result, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
