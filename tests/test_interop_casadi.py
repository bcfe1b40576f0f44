"""Graphs and functions of models as CasADi's functions, with the package's derivatives inside."""

import sys

import numpy as np
import pytest
from repetition import repeated

import featherlane as fl

casadi = pytest.importorskip("casadi", reason="CasADi is not installed: pip install '.[casadi]'")
from featherlane.interop import casadi as interop  # noqa: E402
from featherlane.interop.casadi import to_casadi  # noqa: E402

FLOOR = 2e-13


SMALL = fl.random_tree(2, 1, ("revolute", "spherical"), physics=True, seed=2)
MIXED = ("revolute", "spherical", "planar", "free", "universal")
MODELS = [SMALL, fl.random_tree(3, 1.5, MIXED, physics=True, seed=0)]


@pytest.fixture(scope="module", params=repeated(MODELS), ids=["small", "mixed"])
def model(request):
    return request.param


def state(model):
    q = model.random_configuration(seed=1)
    return [q, *np.random.default_rng(1).normal(size=(2, model.nv))]


def full(made):
    return casadi.DM(made).full()


def error(made, wanted):
    wanted = np.asarray(wanted)
    made = full(made).reshape(wanted.shape)
    return np.abs(made - wanted).max() / (1 + np.abs(wanted).max())


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
def test_dynamics_and_their_jacobians(model, name):
    given = state(model)
    function = to_casadi(model, name)
    result = getattr(model, name)(*given)
    assert error(function(*given), result) < FLOOR
    blocks = function.jacobian()(*given, result)
    derivatives = getattr(model, f"{name}_derivatives")(*given)
    third = derivatives[2] if len(derivatives) == 3 else model.mass_matrix(given[0])
    assert error(blocks[1], derivatives[1]) < FLOOR
    assert error(blocks[2], third) < FLOOR
    plain = to_casadi(model.graph(name))  # without knowing of analytic derivatives
    assert error(blocks[0], plain.jacobian()(*given, result)[0]) < FLOOR
    x = casadi.MX.sym("x", model.nq)  # what an expression's derivative is made of
    both = [casadi.jacobian(function(x, *given[1:]), x), casadi.sumsqr(function(x, *given[1:]))]
    jacobian = casadi.Function("j", [x], [both[0], casadi.gradient(both[1], x)])
    made = jacobian(given[0])
    assert np.array_equal(full(made[0]), full(blocks[0]))
    assert error(made[1], 2 * full(made[0]).T @ result) < FLOOR


def test_analytic_derivatives_are_inside():
    """Figures that do not depend on the machine: CasADi's own Jacobian has 11,598 instructions."""
    arm = fl.load("iiwa14")
    function = to_casadi(arm, "forward_dynamics")
    symbols, results = interop._walked(arm.graph("forward_dynamics"))
    own = casadi.Function("own", [*symbols.values()], results)
    assert function.jacobian().n_instructions() < 0.5 * own.jacobian().n_instructions()


def test_second_derivatives(model):
    q, v, _ = state(model)
    energy = to_casadi(model, "kinetic_energy")
    x = casadi.MX.sym("x", model.nv)
    hessian = casadi.Function("h", [x], [casadi.hessian(energy(q, x), x)[0]])
    assert error(hessian(v), model.mass_matrix(q)) < FLOOR


def test_matrices_wrenches_and_frames(model):
    (q, v, a), rng = state(model), np.random.default_rng(2)
    assert error(to_casadi(model, "mass_matrix")(q), model.mass_matrix(q)) < FLOOR
    frame = model.frame_names[-1]
    jacobian = to_casadi(model, "jacobian", frame=frame, reference="world")
    assert error(jacobian(q), model.jacobian(q, frame, "world")) < FLOOR
    f = rng.normal(size=(model.nbodies, 6))
    loaded = to_casadi(model, "inverse_dynamics", f_ext="world", name="loaded")
    tau = model.inverse_dynamics(q, v, a, f, f_ext_frame="world")
    assert error(loaded(q, v, a, f), tau) < FLOOR
    step = 1e-3 * rng.normal(size=f.shape)  # f enters linearly
    moved = model.inverse_dynamics(q, v, a, f + step, f_ext_frame="world") - tau
    block = full(loaded.jacobian()(q, v, a, f, tau)[3])
    assert error(block @ step.ravel(order="F"), moved) < FLOOR


def test_graphs_of_your_own():
    graph = fl.trace(
        lambda x, s: {"x": [fl.sqrt(x[0]) * s, fl.select(x[1] < s, x[1], 2.0)], "n": abs(x[1])},
        {"x": 2, "s": ()},
    )
    function = to_casadi(graph)
    assert function.name_out() == ["x_out", "n"]
    made = function([4.0, -3.0], 0.5)
    assert np.array_equal(full(made[0]).ravel(), [1.0, -3.0])
    assert made[1] == 3.0
    blocks = function.jacobian()([4.0, -3.0], 0.5, *made)
    assert np.array_equal(full(blocks[0]), [[0.125, 0.0], [0.0, 1.0]])
    assert np.array_equal(full(blocks[2]).ravel(), [0.0, -1.0])


def test_what_is_refused(model):
    with pytest.raises(ValueError, match="function is None: wanted one of inverse_dynamics"):
        to_casadi(model)


def test_without_casadi_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "casadi", None)
    monkeypatch.delitem(sys.modules, "featherlane.interop.casadi")
    with pytest.raises(ImportError, match=r"needs casadi: pip install 'featherlane\[casadi\]'"):
        import featherlane.interop.casadi  # noqa: F401
