"""Graphs and functions of models as CasADi's functions, with the package's derivatives inside."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from repetition import repeated

import featherlane as fl

casadi = pytest.importorskip("casadi", reason="CasADi is not installed: pip install '.[casadi]'")
from featherlane.interop import casadi as interop  # noqa: E402
from featherlane.interop.casadi import to_casadi  # noqa: E402
from featherlane.program.graph import Graph, Output  # noqa: E402
from featherlane.program.op import CONDITIONS, OPS  # noqa: E402
from tests.documents import blocks  # noqa: E402

FLOOR = 2e-13
TRACES = Path(__file__).parents[1] / "docs" / "traces.md"
NUMBERS = (-np.inf, -3.5, -2.5, -1.0, -0.5, -0.3, -0.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.5, np.inf)
NUMBERS = (*NUMBERS, 0.49999999999999994, -1.4999999999999998, 4503599627370495.5, np.nan)
WHOLE = (-5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 1000.0)


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


def one_operation(op, arity):
    """A graph of one operation, whose truth value is chosen to be 1 or 0."""
    graph = Graph()
    places = [graph.declare(f"x{i}", ())[0] for i in range(arity)]
    k = (
        graph.node(op, *places)
        if op != "select"
        else graph.select(graph.less(*places[:2]), *places[1:])
    )
    if op in CONDITIONS:
        k = graph.select(k, graph.constant(1.0), graph.constant(0.0))
    graph.outputs["out"] = Output((), (k,))
    return graph


COMPUTED = [op for op in OPS.values() if op.evaluate and op.name != "exponent"]


@pytest.mark.parametrize("op", COMPUTED, ids=lambda op: op.name)
def test_each_operation_of_the_table(op):
    function = to_casadi(one_operation(op.name, op.arity))
    first = WHOLE if op.name in ("power_of_two", "quarter") else NUMBERS
    given = np.array([*itertools.product(first, *[NUMBERS] * (op.arity - 1))]).T
    if op.name == "select":
        wanted = np.where(given[0] < given[1], given[1], given[2])
    else:
        with np.errstate(all="ignore"):
            wanted = op.evaluate(*given)
    made = full(function(*[x[None] for x in given]))[0]
    if op.kind == "trig" or op.name == "fma":
        assert np.allclose(made, wanted, rtol=1e-14, atol=1e-15, equal_nan=True)
    else:
        assert np.array_equal(made, wanted, equal_nan=True)


def test_an_operation_that_casadi_lacks():
    with pytest.raises(fl.CompileError, match="CasADi has no operation 'exponent'"):
        to_casadi(one_operation("exponent", 1))


def of_choices(q, x):
    """Functions of NumPy that are made of comparisons and rounding."""
    return {
        "clipped": np.clip(np.minimum(q, 0.3) + np.maximum(q, -0.2), -1, 1),
        "signs": np.sign(q) + np.where(q <= x, 1.0, 2.0) + np.where(q == x, 4.0, 8.0),
        "rounded": np.floor(q) + np.rint(q) + np.mod(q, 1.5),
        "unknown": np.where(np.isnan(q * x), 1.0, 0.0),
    }


def test_functions_made_of_comparisons():
    graph = fl.trace(of_choices, {"q": 4, "x": ()})
    function = to_casadi(graph)
    q = np.array([-2.5, 0.5, 0.1, 1.7])
    for x in (0.5, np.nan):
        for made, (name, wanted) in zip(function(q, x), of_choices(q, x).items(), strict=True):
            assert np.allclose(full(made).ravel(), wanted, rtol=1e-15, atol=0), name
    jacobians = function.jacobian()(q, 0.5, *function(q, 0.5))
    wanted = fl.compile(fl.jacobian(graph))(q, 0.5)
    for made, block in zip(jacobians, wanted, strict=True):
        assert np.array_equal(full(made).ravel(), block.ravel(order="F"))


def test_the_controller_of_the_documents():
    text = next(code for _, code, _ in blocks(TRACES) if "def controller" in code)
    names = {"np": np, "fl": fl, "arm": fl.load("iiwa14")}
    exec(text.split("control = fl.compile")[0], names)
    controller = names["controller"]
    shapes = {
        **dict.fromkeys(("q", "v", "q_wanted", "v_wanted", "a_wanted"), 7),
        "kp": (),
        "kd": (),
    }
    function = to_casadi(fl.trace(controller, shapes))
    given = *np.random.default_rng(0).normal(size=(5, 7)), 100.0, 20.0
    made, wanted = function(*given), controller(*given)
    assert error(made[0], wanted["tau"]) < FLOOR
    assert made[1] == wanted["saturated"]


def test_what_is_refused(model):
    with pytest.raises(ValueError, match="there is no function None; wanted one of inverse_dyn"):
        to_casadi(model)


def test_without_casadi_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "casadi", None)
    monkeypatch.delitem(sys.modules, "featherlane.interop.casadi")
    with pytest.raises(ImportError, match=r"needs casadi: pip install 'featherlane\[casadi\]'"):
        import featherlane.interop.casadi  # noqa: F401
