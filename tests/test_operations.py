"""Products of Jacobians with tangents and adjoints, for every function of the table."""

import numpy as np
import pytest
import textbook

import featherlane as fl
from featherlane.backends import reference
from featherlane.functions.differentiated import DERIVATIVES, function_of, graph_of
from featherlane.functions.operations import Operation, bound
from featherlane.functions.table import TABLE, Variant
from featherlane.program.derivatives.products import adjoints, tangents
from featherlane.robot.parameters import PARAMETERS


@pytest.fixture(scope="module")
def robot():
    return fl.random_tree(2, 1, ("spherical", "planar"), physics=True, seed=2)


def variant_of(robot, name, **options):
    takes = TABLE[name].takes
    options |= {"frame": robot.frame_names[-1]} if "frame" in takes else {}
    options |= {"reference": "world"} if "reference" in takes else {}
    options |= {"wrt": "gravity"} if "wrt" in takes else {}
    # At any dt, negative ones too: implicit damping takes positive ones
    options |= {"integrator": "semi_implicit"} if "integrator" in takes else {}
    return Variant(name, **options)


def values(robot, shapes, rng):
    """Random inputs; quaternions have any length but zero."""
    given = {x: rng.normal(size=shape) for x, shape in shapes.items()}
    for name in {"q", "q0", "q1"} & given.keys():
        given[name] = robot.random_configuration(seed=int(rng.integers(99))) * 1.3
    for name in PARAMETERS.keys() & given.keys():
        given[name] = robot.parameters(name)[name]
    return given


def evaluated(graph, given):
    made = reference.evaluate(graph, given)
    return [np.asarray(made[x]) for x in graph.outputs]


def check(robot, op, rng):
    """The tangents against differences, and the adjoints against the tangents."""
    given = values(robot, op.inputs, rng)
    graph, wrt = graph_of(op), tuple(op.inputs)
    directions = {x: rng.normal(size=shape) for x, shape in op.inputs.items()}
    forward, backward = op.tangents(wrt), op.adjoints(wrt)
    moved = evaluated(graph_of(forward), given | {f"d1_{x}": d for x, d in directions.items()})
    h = 1e-5
    ends = [evaluated(graph, {x: given[x] + s * h * directions[x] for x in given}) for s in (1, -1)]
    for exact, high, low in zip(moved, *ends, strict=True):
        error = np.abs(exact - (high - low) / (2 * h)).max()
        assert error < 1e-5 * (1 + np.abs(exact).max() + np.abs(high).max())
    weights = {f"w1_{x}": rng.normal(size=shape) for x, shape in op.outputs.items()}
    pulled = evaluated(graph_of(backward), given | weights)
    left = sum(np.vdot(w, m) for w, m in zip(weights.values(), moved, strict=True))
    right = sum(np.vdot(p, directions[x]) for p, x in zip(pulled, wrt, strict=True))
    assert left == pytest.approx(right, rel=1e-10)
    assert {k: np.shape(x) for k, x in zip(backward.outputs, pulled, strict=True)} == {
        **backward.outputs
    }


@pytest.mark.parametrize("name", TABLE)
def test_derivatives_of_every_function(robot, name):
    if name == "manipulability":  # zero in all states of the other robot
        robot = fl.load("double_pendulum")
    check(robot, Operation(robot, variant_of(robot, name)), np.random.default_rng(1))


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
def test_derivatives_by_wrenches_and_parameters(robot, name):
    options = {"wrenches": "world", "parameters": ("inertial", "gravity", "damping")}
    check(robot, Operation(robot, Variant(name, **options)), np.random.default_rng(2))


def test_special_derivatives_are_cheaper_and_equal():
    robot, rng = fl.load("iiwa14"), np.random.default_rng(3)
    for name in [*filter("step".__ne__, DERIVATIVES)]:  # steps have special ones on the ground
        op = Operation(robot, Variant(name))
        wrt = tuple(op.inputs)
        for made, derive in ((op.tangents(wrt), tangents), (op.adjoints(wrt), adjoints)):
            plain, special = derive(graph_of(op), wrt, made.prefix), graph_of(made)
            assert special.cost().operations < plain.cost().operations
            given = values(robot, made.inputs, rng)
            for x, y in zip(evaluated(special, given), evaluated(plain, given), strict=True):
                assert np.allclose(x, y, rtol=1e-9, atol=1e-9)
        some = op.adjoints(("tau",))  # M^-1 times the weights
        given = values(robot, some.inputs, rng)
        (pulled,) = evaluated(graph_of(some), given)
        assert np.allclose(robot.mass_matrix(given["q"]) @ pulled, given["w1_a"])


def test_second_derivatives_and_transposes():
    robot, rng = fl.load("double_pendulum"), np.random.default_rng(4)
    op = Operation(robot, Variant("inverse_dynamics"))
    first = op.adjoints(("q", "v"))
    assert first.transposed == op.tangents(("q", "v"))
    assert first.transposed.transposed == first
    second = first.tangents(("q", "w1_tau"))
    assert [*second.inputs] == ["q", "v", "a", "w1_tau", "d2_q", "d2_w1_tau"]
    given = values(robot, second.inputs, rng)
    product = function_of(second)(*given.values())[0]
    hessian = robot.inverse_dynamics_hessian(*[given[x] for x in ("q", "v", "a", "w1_tau")])
    d = robot.inverse_dynamics_derivatives(given["q"], given["v"], given["a"])
    wanted = hessian[:2, :2] @ given["d2_q"] + d.dtau_dq.T @ given["d2_w1_tau"]
    assert np.allclose(product, wanted)
    assert function_of(second) is function_of(second)


@pytest.mark.parametrize(
    ("args", "named", "error", "message"),
    [
        ((1, 2), {}, TypeError, "inverse_dynamics misses a: wanted q, v, a"),
        ((1, 2), {"qdd": 3}, TypeError, "inverse_dynamics got an unknown 'qdd': qdd is a$"),
        ((1, 2, 3, 4, 5), {}, TypeError, "got 5 arguments, wanted q, v, a, f_ext"),
        ((1, 2, 3), {"g": 1}, TypeError, "got an unknown 'g'"),
        ((1, 2, 3), {"params": {"weight": 1}}, ValueError, "params names 'weight'"),
        ((1, 2, 3, {"hand": 1}), {}, TypeError, r"f_ext is a dict: wanted an array"),
    ],
)
def test_wrong_arguments_are_named(args, named, error, message):
    with pytest.raises(error, match=message):
        bound("inverse_dynamics", args, named)


def test_arguments_become_a_variant_and_its_arrays():
    params = {"gravity": "g", "mass": "m"}
    assert bound("inverse_dynamics", ("q", "v"), {"a": "a", "f_ext": "f", "params": params}) == (
        Variant("inverse_dynamics", "body", ("mass", "gravity")),
        ("q", "v", "a", "f", "m", "g"),
    )
    assert bound("jacobian", ("q", "hand"), {}) == (
        Variant("jacobian", frame="hand", reference="body"),
        ("q",),
    )
    assert bound("forward_dynamics", "qvt", {"method": "auto", "f_ext_frame": "world"}) == (
        Variant("forward_dynamics"),
        ("q", "v", "t"),
    )


# Rollouts, whose derivatives are plans


ROLLOUT = Variant("rollout", "world", ("mass",), integrator="rk4", steps=6)


@pytest.mark.parametrize("every", [1, 3])
def test_derivatives_of_rollouts(robot, every):
    op, rng = Operation(robot, ROLLOUT._replace(every=every)), np.random.default_rng(3)
    given = {**values(robot, op.inputs, rng), "dt": 0.01}
    directions = {x: rng.normal(size=shape) for x, shape in op.inputs.items()}
    weights = [rng.normal(size=shape) for shape in op.outputs.values()]
    for wrt in (tuple(op.inputs), ("tau",), ("dt", "v")):
        d = {x: directions[x] for x in wrt}
        moved = function_of(op.tangents(wrt))(*given.values(), *d.values())
        h = 1e-5
        high, low = (
            function_of(op)(*[x + s * h * d.get(k, 0.0) for k, x in given.items()]) for s in (1, -1)
        )
        for exact, x, y in zip(moved, high, low, strict=True):
            assert np.allclose(exact, (x - y) / (2 * h), rtol=1e-6, atol=1e-8)
        pulled = function_of(op.adjoints(wrt))(*given.values(), *weights)
        pulled = pulled if isinstance(pulled, tuple) else (pulled,)
        left = sum(np.vdot(w, m) for w, m in zip(weights, moved, strict=True))
        right = sum(np.vdot(p, d[x]) for p, x in zip(pulled, wrt, strict=True))
        assert left == pytest.approx(right, rel=1e-11)
    with pytest.raises(NotImplementedError, match=r"first derivatives only: .* call step of the"):
        op.tangents(["q"]).adjoints(["v"])


@pytest.mark.parametrize("joints", [("revolute", "prismatic"), ("free", "spherical")])
def test_the_adjoints_of_a_rollout_are_its_gradient(joints):
    """In the tangent space; bit by bit the same for any number of states."""
    model, steps, batch = textbook.tree(joints, seed=1), 5, 37
    rng = np.random.default_rng(0)
    q, v = model.random_configuration(batch, seed=0), rng.normal(size=(batch, model.nv))
    tau = rng.normal(size=(batch, steps, model.nv))
    moved = model.rollout(q, v, tau, 0.01)
    weights = [rng.normal(size=x.shape) for x in moved]
    N = textbook.tangent(model, moved.q)
    g = textbook.times(N.swapaxes(-1, -2), weights[0])
    wanted = model.rollout_gradient(moved, tau, 0.01, g, weights[1])
    rollout = Operation(model, Variant("rollout", steps=steps))
    run = function_of(rollout.adjoints(("q", "v", "tau")))
    by_q, *others = run(q, v, tau, 0.01, *weights)
    first = textbook.times(N[:, 0].swapaxes(-1, -2), by_q)
    for x, y in zip((first, *others), wanted, strict=True):
        assert np.allclose(x, y, rtol=0, atol=1e-12 * max(1.0, np.abs(y).max()))
    for pick in (3, slice(0, 1), slice(2, 11)):
        again = run(*[x[pick] for x in (q, v, tau)], 0.01, *[w[pick] for w in weights])
        for x, y in zip(again, (by_q, *others), strict=True):
            assert np.array_equal(x, y[pick])
    single = run(
        *[x.astype(np.float32) for x in (q, v, tau)], 0.01, *[w.astype(np.float32) for w in weights]
    )
    assert single[2].dtype == np.float32
    assert np.allclose(single[2], others[1], atol=1e-4 * np.abs(others[1]).max())
