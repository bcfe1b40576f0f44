"""Graphs and functions of models as CasADi's functions, with the package's derivatives inside."""

import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from repetition import repeated

import featherlane as fl

casadi = pytest.importorskip("casadi", reason="CasADi is not installed: pip install '.[casadi]'")
from featherlane.functions.table import BY_NAME  # noqa: E402
from featherlane.interop import casadi as interop  # noqa: E402
from featherlane.interop import casadi_functions as functions  # noqa: E402
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
    function = to_casadi(arm, "forward_dynamics", inline=True)
    own = function.expand("own").jacobian()
    assert function.jacobian().n_instructions() < 0.5 * own.n_instructions()


def lagrangian(function, given, weights):
    """The gradient and the Hessian of weights . function by all inputs together."""
    x = casadi.MX.sym("x", sum(map(len, given)))
    parts = casadi.vertsplit(x, np.cumsum([0, *map(len, given)]).tolist())
    scalar = casadi.dot(casadi.DM(weights), function(*parts))
    hessian, gradient = casadi.hessian(scalar, x)
    return casadi.Function("h", [x], [gradient, hessian])


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
def test_second_derivatives_of_dynamics(model, name, inline):
    given, weights = state(model), np.random.default_rng(3).normal(size=model.nv)
    function = to_casadi(model, name, inline=inline)
    calls = lagrangian(function, given, weights)
    own = lagrangian(function.expand(), given, weights)  # CasADi's derivatives
    for made, wanted in zip(calls(np.concatenate(given)), own(np.concatenate(given)), strict=True):
        assert error(made, full(wanted)) < FLOOR


def test_hessians_are_those_of_the_package():
    arm = fl.random_tree(3, 1, ("revolute", "prismatic"), physics=True, seed=4)
    given, weights = state(arm), np.random.default_rng(3).normal(size=arm.nv)
    _, hessian = lagrangian(to_casadi(arm, "forward_dynamics"), given, weights)(
        np.concatenate(given)
    )
    assert error(hessian, arm.forward_dynamics_hessian(*given, weights)) < FLOOR


def test_second_derivatives(model):
    q, v, _ = state(model)
    energy = to_casadi(model, "kinetic_energy")
    x = casadi.MX.sym("x", model.nv)
    hessian = casadi.Function("h", [x], [casadi.hessian(energy(q, x), x)[0]])
    assert error(hessian(v), model.mass_matrix(q)) < FLOOR


def options_of(model, name):
    """Options with which a function of the table has arrays of fixed shapes."""
    anchors = "anchors" in BY_NAME[name].takes
    pin = fl.Pin(model.frame_names[-1], axes="z")
    held = model.constraints([pin], kp=2.0 if anchors else 0.0, kd=3.0)
    every = {"frame": model.frame_names[-1], "reference": "world", "wrt": "mass"}
    chosen = {what: every[what] for what in every if what in BY_NAME[name].takes}
    if BY_NAME[name].kind == "constrained":
        chosen |= {"constraints": held, "anchors": anchors}
    return chosen | ({"steps": 2} if "rollout" in name else {})


@pytest.mark.parametrize("name", repeated([*BY_NAME], 2))
def test_adjoints_of_each_function_are_products_with_its_jacobians(name):
    function, rng = to_casadi(SMALL, name, **options_of(SMALL, name)), np.random.default_rng(4)
    given = [
        casadi.DM(0.01 if x == "dt" else rng.normal(size=function.size_in(x)))
        for x in function.name_in()
    ]
    results, n = function.call(given), function.n_in()
    weights = [casadi.DM(rng.normal(size=y.shape)) for y in results]
    jacobians = function.jacobian().call([*given, *results])
    for i, adjoint in enumerate(function.reverse(1).call([*given, *results, *weights])):
        pairs = zip(jacobians[i::n], weights, strict=True)
        wanted = sum(full(J).T @ full(casadi.vec(w)) for J, w in pairs)
        assert error(casadi.vec(adjoint), wanted) < 1e-8  # constrained ones have weak directions


def test_third_derivatives():
    function = to_casadi(fl.trace(lambda x: [x[0] ** 3 * x[1]], {"x": 2}))
    x = casadi.MX.sym("x", 2)
    second = casadi.jacobian(casadi.jacobian(function(x), x), x)
    third = casadi.Function("third", [x], [casadi.jacobian(second[0, 0], x)])
    assert np.array_equal(full(third([2.0, 5.0])), [[30.0, 12.0]])


@pytest.mark.parametrize("limit", ["LARGEST_COMPILED", "MOST_ADJOINTS"])
def test_large_derivatives_are_expressions(limit, monkeypatch):
    arm = fl.random_tree(2, 1, ("revolute",), physics=True, seed=5)
    given, weights = state(arm), np.ones(arm.nv)
    wanted = lagrangian(to_casadi(arm, "forward_dynamics"), given, weights)(np.concatenate(given))
    monkeypatch.setattr(functions if limit == "LARGEST_COMPILED" else interop, limit, 0)
    function = to_casadi(arm, "forward_dynamics", name="large")
    made = lagrangian(function, given, weights)(np.concatenate(given))
    for x, y in zip(made, wanted, strict=True):
        assert error(x, full(y)) < FLOOR


def test_jacobians_are_sparse():
    function = to_casadi(fl.trace(lambda x, y: np.sin(x) + y[0], {"x": 3, "y": 2}))
    blocks = function.jacobian().sparsity_out
    assert blocks(0) == casadi.Sparsity.diag(3)
    assert blocks(1) == casadi.Sparsity.triplet(3, 2, [0, 1, 2], [0, 0, 0])
    second = function.reverse(1).jacobian()
    assert second.sparsity_out("jac_adj_x_x") == casadi.Sparsity.diag(3)
    assert second.nnz_out("jac_adj_x_y") == 0
    matrix = fl.trace(lambda x: [[x[0], 1.0, 0.0], [2.0, 3.0, x[1] * x[1]]], {"x": 2})
    value, made = to_casadi(matrix)([3.0, 4.0]), to_casadi(matrix).jacobian()([3.0, 4.0], 0)
    assert np.array_equal(full(value), [[3, 1, 0], [2, 3, 16]])
    assert np.array_equal(full(made), [[1, 0], *[[0, 0]] * 4, [0, 8]])
    assert made.nnz() == 2


def test_a_function_without_derivatives():
    function = to_casadi(fl.trace(lambda x: np.floor(x), {"x": 2}))
    x = casadi.MX.sym("x", 2)
    assert function.jacobian().nnz_out() == 0
    both = [casadi.jacobian(function(x), x), casadi.gradient(casadi.sumsqr(function(x)), x)]
    for made in casadi.Function("both", [x], both)([1.5, 2.5]):
        assert not full(made).any()


# Calls as operations: `expand`, inlined calls, generated code, other processes


def test_calls_become_operations():
    function = to_casadi(SMALL, "inverse_dynamics")
    given = state(SMALL)
    symbols = [casadi.SX.sym(x, *function.size_in(x)) for x in function.name_in()]
    scalar = casadi.Function("scalar", symbols, [function(*symbols)])
    assert error(scalar(*given), SMALL.inverse_dynamics(*given)) < FLOOR
    assert "inverse_dynamics" not in str(scalar(*symbols))  # not a call
    mixed = [casadi.MX.sym(x, *function.size_in(x)) for x in function.name_in()]
    (result,) = function.call(mixed, True, False)
    inlined = casadi.Function("inlined", mixed, [result])
    assert inlined.n_instructions() > 50
    assert error(inlined(*given), SMALL.inverse_dynamics(*given)) < FLOOR
    whole = casadi.Function("whole", mixed, [function(*mixed)])
    assert whole.n_instructions() < 10
    assert whole.expand().n_instructions() > 50


def squares(function, given):
    """The sum of squares of a function, with its gradient and Hessian, of all inputs."""
    calls = lagrangian(lambda *x: function(*x) ** 2, given, np.ones(function.numel_out(0)))
    return calls, np.concatenate(given)


def test_inline_can_be_saved_and_generated(tmp_path):
    given = state(SMALL)
    calls, x = squares(to_casadi(SMALL, "forward_dynamics", inline=True), given)
    wanted, _ = squares(to_casadi(SMALL, "forward_dynamics"), given)
    calls.save(str(tmp_path / "calls.casadi"))
    loaded = casadi.Function.load(str(tmp_path / "calls.casadi"))
    for made, each in zip(loaded(x), wanted(x), strict=True):
        assert error(made, full(each)) < FLOOR
    if not (compiler := shutil.which("cc")):
        pytest.skip("no C compiler")
    source, library = str(tmp_path / "h.c"), str(tmp_path / "h.so")
    generator = casadi.CodeGenerator("h.c")
    generator.add(calls)
    generator.generate(f"{tmp_path}/")
    subprocess.run([compiler, "-shared", "-fPIC", source, "-o", library], check=True)
    for made, each in zip(casadi.external("h", library)(x), wanted(x), strict=True):
        assert error(made, full(each)) < FLOOR


def test_calls_on_several_threads():
    function, n = to_casadi(SMALL, "inverse_dynamics", name="threads"), 8
    x = casadi.MX.sym("x", SMALL.nv, n)
    given = [np.tile(each[:, None], n) for each in state(SMALL)]
    values = [
        casadi.Function("j", [x], [casadi.jacobian(many(given[0], x, given[2]), x)])(given[1])
        for many in (function.map(n, "thread", 2), function.map(n))
    ]
    assert np.array_equal(full(values[0]), full(values[1]))


def test_derivatives_outlive_their_function():
    x = casadi.MX.sym("x", SMALL.nv)
    q, v, a = state(SMALL)
    tau = to_casadi(SMALL, "inverse_dynamics", name="forgotten")(q, x, a)
    jacobian = casadi.Function("j", [x], [casadi.jacobian(tau, x)])
    assert error(jacobian(v), SMALL.inverse_dynamics_derivatives(q, v, a).dtau_dv) < FLOOR


@pytest.mark.parametrize("inline", [False, True])
def test_later_processes_trace_nothing(inline, monkeypatch, tmp_path):
    """The cache on disk has the functions, the sparsity of their Jacobians and the code."""
    monkeypatch.setenv("FEATHERLANE_CACHE", str(tmp_path))
    arm = fl.random_tree(2, 1, ("revolute",), physics=True, seed=6)
    given, weights = state(arm), np.ones(arm.nv)
    use = lambda: lagrangian(to_casadi(arm, "forward_dynamics", inline=inline), given, weights)
    first = use()(np.concatenate(given))
    monkeypatch.setattr(functions, "_callbacks", {})
    monkeypatch.setattr(interop, "_model_derivatives", None)  # a process that must not trace
    for made, wanted in zip(use()(np.concatenate(given)), first, strict=True):
        assert np.array_equal(full(made), full(wanted))


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
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'frme'"):
        to_casadi(model, "jacobian", frme="tip")
    with pytest.raises(ValueError, match="reference is 'wrld'"):
        to_casadi(model, "jacobian", frame=model.frame_names[0], reference="wrld")


def test_without_casadi_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "casadi", None)
    for name in ("casadi", "casadi_functions", "casadi_expressions"):
        monkeypatch.delitem(sys.modules, f"featherlane.interop.{name}")
    with pytest.raises(ImportError, match=r"needs casadi: pip install 'featherlane\[casadi\]'"):
        import featherlane.interop.casadi  # noqa: F401
