"""What must hold for any robot, on random trees with every joint type in every position.

The algorithms run here as plain NumPy, on whole batches; that compiled code gives the bits of the
same graph is for test_backend.py, and a few trees below go all the way.
"""

from dataclasses import replace

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose
from repetition import full, repeated

import featherlane as fl
from featherlane import algorithms
from featherlane.api.random_robots import chain, random_tree
from featherlane.backends.reference import evaluate
from featherlane.program.derivatives.graphs import jacobian
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.parts import Placement

BATCH = 3
KINDS = list(JOINT_TYPES)
CHAINS = [  # every type behind every other, at the root, between and at the tip
    textbook.tree((a, b, KINDS[(i + j) % len(KINDS)]), seed=i, physics=(i + j) % 3 == 0)
    for i, a in enumerate(KINDS)
    for j, b in enumerate(KINDS)
]
BRANCHED = [random_tree(6, 1.5, seed=seed, roots=1 + seed % 3) for seed in range(8)]
STARS = [random_tree(5, np.inf, seed=seed) for seed in range(2)]
MIMIC = [  # followers behind, before and beside their leaders, and in other branches
    textbook.tree(("revolute",) * 3, seed=1, mimic={2: 0}),
    textbook.tree(("prismatic", "free", "helical"), seed=2, mimic={0: 2}, physics=True),
    textbook.tree(("revolute",) * 6, (-1, 0, 0, 1, 2, 4), 3, mimic={4: 3, 2: 1}),
    textbook.tree(("spherical", "revolute", "universal", "prismatic", "helical", "revolute"),
                  (-1, 0, 0, 1, 2, -1), 4, True, {3: 1, 4: 1, 5: 1}),
]  # fmt: skip
TREES = [*CHAINS, *BRANCHED, *STARS]
ALL = [*TREES, *MIMIC]
SMALL = [
    textbook.tree(("free", "revolute", "planar", "prismatic"), (-1, 0, 0, 1), seed=1),
    textbook.tree(("spherical", "universal", "helical"), (-1, 0, 0), seed=4, physics=True),
    textbook.tree(("cylindrical", "translation", "helical"), (-1, 0, 1), seed=5, mimic={}),
    textbook.tree(("planar", "free", "prismatic", "revolute"), (-1, 0, 1, 1), seed=2),
    textbook.tree(("prismatic", "planar", "revolute", "revolute"), (-1, -1, 0, 1), seed=3),
    textbook.tree(
        ("revolute", "spherical", "prismatic", "helical"), (-1, 0, 1, 0), 6, True, {3: 0}
    ),
]
EVERY_TYPE = 3  # of these have joints of every type
ROUND = CHAINS[1 :: len(KINDS) + 1]  # each type, at the root or behind it
FEW = [*ROUND, BRANCHED[0], MIMIC[3]]
EPS = np.finfo(float).eps


def few_first(cases):
    """Cases (model, ...), with those of FEW as representatives."""
    few = [case for case in cases if case[0] in FEW]
    return repeated([*few, *(case for case in cases if case[0] not in FEW)], len(few))


def name(model):
    letters = "".join(kind.name[:2] for kind in model.types)
    return f"{letters}-{'.'.join(map(str, model.parent))}"


every_tree = pytest.mark.parametrize("model", ALL, ids=name)
trees_alone = pytest.mark.parametrize("model", TREES, ids=name)
few_trees = pytest.mark.parametrize(
    "model", repeated([*FEW, *(m for m in ALL if m not in FEW)], len(FEW)), ids=name
)
small_trees = pytest.mark.parametrize("model", repeated(SMALL, EVERY_TYPE), ids=name)


def sample(model, batch=BATCH, seed=0):
    rng = np.random.default_rng(seed)
    q = model.random_configuration(batch, seed=rng)
    return q, *rng.normal(size=(3, batch, model.nv))


def scalars(x, depth=1):
    """(..., n) or (..., m, n) as nested lists of arrays (...)."""
    if depth == 2:
        return [scalars(x[..., i, :]) for i in range(x.shape[-2])]
    return [x[..., i] for i in range(x.shape[-1])]


def array(nested, batch=(BATCH,)):
    """Nested lists of arrays (...) as one array (..., m, n)."""
    if isinstance(nested, (list, tuple)):
        return np.stack([array(x, batch) for x in nested], axis=len(batch))
    return np.broadcast_to(nested, batch)


def run(algorithm, model, *args):
    lists = [scalars(x) for x in args]
    result, batch = algorithm(model.tree, *lists), args[0].shape[:-1]
    if isinstance(result, tuple):
        return tuple(array(x, batch) for x in result)
    return array(result, batch)


def close(x, wanted, tolerance=1e-11):
    """Equal relative to the largest entry."""
    assert_allclose(x, wanted, rtol=0, atol=tolerance * max(np.abs(wanted).max(), 1e-3))


def conditioned(model, q, times=100):
    return max(1e-11, times * EPS * np.linalg.cond(textbook.mass_matrix(model, q)).max())


@every_tree
def test_inverse_dynamics_is_that_of_the_textbook(model):
    q, v, a, _ = sample(model)
    close(run(algorithms.rnea, model, q, v, a), textbook.rnea(model, q, v, a))


@every_tree
def test_the_mass_matrix_is_that_of_the_textbook_and_positive_definite(model):
    q, *_ = sample(model)
    M = run(algorithms.mass_matrix, model, q)
    close(M, textbook.mass_matrix(model, q))
    assert np.array_equal(M, np.swapaxes(M, -1, -2))
    assert np.linalg.eigvalsh(M).min() > 0


@pytest.mark.parametrize(
    ("model", "inverse"),
    few_first(
        [(model, algorithms.mass_matrix_inverse) for model in TREES]
        + [(model, algorithms.factored_inverse) for model in ALL]
    ),
)
def test_the_inverse_mass_matrix_inverts(model, inverse):
    q, *_ = sample(model)
    M, Minv = run(algorithms.mass_matrix, model, q), run(inverse, model, q)
    assert np.array_equal(Minv, np.swapaxes(Minv, -1, -2))
    scale = np.linalg.norm(M, axis=(-2, -1)) * np.linalg.norm(Minv, axis=(-2, -1))
    error = np.abs(M @ Minv - np.eye(model.nv)).max(axis=(-2, -1))
    assert np.all(error < 100 * EPS * scale)


@pytest.mark.parametrize(
    ("model", "forward"),
    few_first(
        [(model, algorithms.aba) for model in TREES]
        + [(model, algorithms.factored_forward_dynamics) for model in ALL]
    ),
)
def test_forward_dynamics_undoes_inverse_dynamics(model, forward):
    q, v, a, _ = sample(model)
    tau = run(algorithms.rnea, model, q, v, a)
    close(run(forward, model, q, v, tau), a, conditioned(model, q))


def complex_step(function, model, q, x):
    """The derivative of function(q, x) by the tangent of q and by x, columns last: exact."""
    step, n = 1e-30, model.nv
    G = np.swapaxes(textbook.tangent(model, q), -1, -2)  # (batch, nv, nq)
    by_q = run(function, model, q[:, None] + 1j * step * G, x[:, None] + 0 * G[..., :1])
    by_x = run(function, model, q[:, None] + 0j * G, x[:, None] + 1j * step * np.eye(n))
    return (np.swapaxes(d.imag / step, -1, -2) for d in (by_q, by_x))


@few_trees
def test_inverse_dynamics_derivatives_are_those_of_the_complex_step(model):
    q, v, a, _ = sample(model)
    rnea = lambda tree, q, v: algorithms.rnea(tree, q, v, [x[:, None] for x in scalars(a)])
    dq, dv = run(algorithms.inverse_dynamics_derivatives, model, q, v, a)
    for found, wanted in zip((dq, dv), complex_step(rnea, model, q, v), strict=True):
        close(found, wanted)


@few_trees
def test_forward_dynamics_derivatives_are_those_of_the_complex_step(model):
    q, v, _, tau = sample(model)
    forward = algorithms.factored_forward_dynamics
    fd = lambda tree, q, v: forward(tree, q, v, [x[:, None] for x in scalars(tau)])
    dq, dv, dtau = run(algorithms.forward_dynamics_derivatives, model, q, v, tau)
    tolerance = conditioned(model, q)
    for found, wanted in zip((dq, dv), complex_step(fd, model, q, v), strict=True):
        close(found, wanted, tolerance)
    close(dtau, run(algorithms.factored_inverse, model, q), tolerance)


@few_trees
def test_forward_dynamics_derivatives_come_from_those_of_inverse_dynamics(model):
    q, v, _, tau = sample(model)
    a = run(algorithms.factored_forward_dynamics, model, q, v, tau)
    minv = run(algorithms.factored_inverse, model, q)
    dtau = run(algorithms.inverse_dynamics_derivatives, model, q, v, a)
    direct = run(algorithms.forward_dynamics_derivatives, model, q, v, tau)
    given = algorithms.forward_dynamics_derivatives_from(
        model.tree, *map(scalars, (q, v, a)), scalars(minv, 2)
    )
    known = run(algorithms.forward_dynamics_derivatives_at, model, q, v, a)
    tolerance = conditioned(model, q, 1000)
    for k in range(2):
        close(array(given[k]), -minv @ dtau[k], 1e-12)
        close(direct[k], -minv @ dtau[k], tolerance)
        close(known[k], -minv @ dtau[k], tolerance)
    close(known[2], minv, tolerance)


@small_trees
def test_derivatives_are_those_of_the_graphs_autodiff(model):
    q, v, a, tau = sample(model)
    G = textbook.tangent(model, q)
    tolerance = conditioned(model, q)
    for function, derivatives, third, x in (
        ("inverse_dynamics", "inverse_dynamics_derivatives", "a", a),
        ("forward_dynamics", "forward_dynamics_derivatives", "tau", tau),
    ):
        graph = model.graph(function)
        (out,) = graph.outputs
        given = {"q": q, "v": v, third: x}
        by = {}
        for wrt in given:
            (by[wrt],) = evaluate(jacobian(graph, out, wrt), given).values()
        found = evaluate(model.graph(derivatives), given)
        close(found[f"d{out}_dq"], by["q"] @ G, tolerance)
        close(found[f"d{out}_dv"], by["v"], tolerance)
        if third == "tau":
            close(found["da_dtau"], by["tau"], tolerance)
        else:
            close(run(algorithms.mass_matrix, model, q), by["a"])


def test_derivatives_against_finite_differences_through_integrate():
    model = SMALL[0]
    q, v, a, _ = sample(model)
    found = run(algorithms.inverse_dynamics_derivatives, model, q, v, a)[0]
    h = 1e-3
    weights = {-3: -1 / 60, -2: 3 / 20, -1: -3 / 4, 1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
    for k, unit in enumerate(np.eye(model.nv)):
        total = sum(
            weight * textbook.rnea(model, model.integrate(q, n * h * unit), v, a)
            for n, weight in weights.items()
        )
        close(found[..., k], total / h, 1e-8)


# External forces


@pytest.fixture(scope="module", params=repeated(SMALL, EVERY_TYPE), ids=name)
def pushed(request):
    """A compiled tree, a state and wrenches."""
    model = request.param
    f_ext = np.random.default_rng(5).normal(size=(BATCH, model.nbodies, 6))
    return model, *sample(model), f_ext


def in_body_frames(model, q, f_ext):
    parts = []
    for i, (R, _) in enumerate(textbook.poses(model, q)):
        E = np.swapaxes(R, -1, -2)
        force, moment = f_ext[..., i, :3], f_ext[..., i, 3:]
        parts.append(np.concatenate([textbook.times(E, force), textbook.times(E, moment)], -1))
    return np.stack(parts, -2)


@pytest.mark.parametrize("frame", ["body", "world"])
def test_external_forces_do_the_power_that_they_should(pushed, frame):
    model, q, v, a, _, f_ext = pushed
    change = model.inverse_dynamics(q, v, a, f_ext, f_ext_frame=frame)
    change = change - model.inverse_dynamics(q, v, a)
    power = 0.0
    for i, ((R, _), motion) in enumerate(
        zip(textbook.poses(model, q), textbook.velocities(model, q, v), strict=True)
    ):
        linear, angular = motion[..., 3:], motion[..., :3]
        if frame == "world":
            linear, angular = textbook.times(R, linear), textbook.times(R, angular)
        power = power + np.sum(f_ext[..., i, :3] * linear + f_ext[..., i, 3:] * angular, -1)
    assert_allclose(np.sum(change * v, -1), -power, rtol=1e-11, atol=1e-11)


def test_external_forces_in_both_frames_are_those_of_the_textbook(pushed):
    model, q, v, a, _, f_ext = pushed
    body = in_body_frames(model, q, f_ext)
    wanted = textbook.rnea(model, q, v, a, body)
    close(model.inverse_dynamics(q, v, a, body), wanted)
    close(model.inverse_dynamics(q, v, a, f_ext, f_ext_frame="world"), wanted)
    tolerance = conditioned(model, q)
    close(model.forward_dynamics(q, v, wanted, body), a, tolerance)
    close(model.forward_dynamics(q, v, wanted, f_ext, f_ext_frame="world"), a, tolerance)


@pytest.mark.parametrize("frame", repeated(["world", "body"]))
def test_derivatives_with_external_forces(pushed, frame):
    """f_ext stays as it is in its frame while q moves: fourth-order differences."""
    model, q, v, a, _, f_ext = pushed
    found = model.inverse_dynamics_derivatives(q, v, a, f_ext, f_ext_frame=frame)
    tau = lambda q: model.inverse_dynamics(q, v, a, f_ext, f_ext_frame=frame)
    h = 1e-3
    for k, unit in enumerate(np.eye(model.nv)):
        at = {n: tau(model.integrate(q, n * h * unit)) for n in (-2, -1, 1, 2)}
        close(found.dtau_dq[..., k], (8 * (at[1] - at[-1]) - at[2] + at[-2]) / (12 * h), 1e-8)
    minv = model.mass_matrix_inverse(q)
    d = model.forward_dynamics_derivatives(q, v, a=a, minv=minv, f_ext=f_ext, f_ext_frame=frame)
    close(d.da_dq, -minv @ found.dtau_dq, 1e-12)
    tau = model.inverse_dynamics(q, v, a, f_ext, f_ext_frame=frame)
    d = model.forward_dynamics_derivatives(q, v, tau, f_ext, f_ext_frame=frame)
    close(d.da_dq, -minv @ found.dtau_dq, conditioned(model, q, 1000))


def test_no_external_force_is_no_force(pushed):
    model, q, v, a, _, f_ext = pushed
    for frame in ("body", "world"):
        tau = model.inverse_dynamics(q, v, a, 0 * f_ext, f_ext_frame=frame)
        close(tau, model.inverse_dynamics(q, v, a), 1e-15)


# Compiled functions


@small_trees
def test_compiled_functions_are_the_algorithms(model):
    q, v, a, tau = sample(model, 20)
    tolerance = conditioned(model, q, 1000)
    minv = model.mass_matrix_inverse(q)
    close(model.inverse_dynamics(q, v, a), textbook.rnea(model, q, v, a))
    close(model.mass_matrix(q), textbook.mass_matrix(model, q))
    close(model.forward_dynamics(q, v, model.inverse_dynamics(q, v, a)), a, tolerance)
    close(minv, np.linalg.inv(textbook.mass_matrix(model, q)), tolerance)
    a = model.forward_dynamics(q, v, tau)
    direct = model.forward_dynamics_derivatives(q, v, tau)
    given = model.forward_dynamics_derivatives(q, v, a=a, minv=minv)
    inverse = model.inverse_dynamics_derivatives(q, v, a)
    for x, y in zip(direct, given, strict=True):
        close(x, y, tolerance)
    close(direct.da_dq, -minv @ inverse.dtau_dq, tolerance)


@full
@pytest.mark.parametrize("model", repeated(SMALL[:3]), ids=name)
def test_compiled_functions_in_float32(model):
    """Relative errors of a few hundred roundings, times the condition where M is inverted."""
    q, v, a, tau = sample(model, 20)
    eps = np.finfo(np.float32).eps
    condition = np.linalg.cond(textbook.mass_matrix(model, q)).max()
    for name, x in (
        ("inverse_dynamics", (q, v, a)),
        ("forward_dynamics", (q, v, tau)),
        ("mass_matrix", (q,)),
        ("mass_matrix_inverse", (q,)),
        ("inverse_dynamics_derivatives", (q, v, a)),
        ("forward_dynamics_derivatives", (q, v, tau)),
    ):
        function = getattr(model, name)
        single = function(*[np.float32(y) for y in x])
        exact = function(*[np.float32(y).astype(float) for y in x])
        plain = name.startswith("inverse") or name == "mass_matrix"
        tolerance = 100 * eps * (1 if plain else condition)
        for one, other in zip(np.atleast_2d(single), np.atleast_2d(exact), strict=True):
            assert one.dtype == np.float32
            close(one, other, tolerance)


@full
def test_energy_is_conserved():
    """A floating tree with every joint type swings freely; a commutator-free method of fourth
    order (Celledoni, Marthinsen and Owren 2003) keeps its energy up to O(dt^4)."""
    types = ("free", "universal", "planar", "spherical", "helical", "cylindrical", "translation")
    model = textbook.tree(types, (-1, 0, 0, 1, 1, 2, 3), seed=3)
    q0 = model.random_configuration(4, seed=1)
    v0 = np.random.default_rng(2).normal(size=(4, model.nv))
    start = textbook.energy(model, q0, v0)

    def drift(steps, duration=0.4):
        q, v, h, zero = q0, v0, duration / steps, np.zeros_like(v0)
        move, push = model.integrate, lambda q, v: model.forward_dynamics(q, v, zero)
        for _ in range(steps):
            k1, a1 = v, push(q, v)
            q2, k2 = move(q, h / 2 * k1), v + h / 2 * a1
            a2 = push(q2, k2)
            q3, k3 = move(q, h / 2 * k2), v + h / 2 * a2
            a3 = push(q3, k3)
            q4, k4 = move(q2, h * k3 - h / 2 * k1), v + h * a3
            a4 = push(q4, k4)
            q = move(q, h / 12 * (3 * k1 + 2 * k2 + 2 * k3 - k4))
            q = move(q, h / 12 * (-k1 + 2 * k2 + 2 * k3 + 3 * k4))
            v = v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        kinetic = 0.5 * np.einsum("bi,bij,bj->b", v, model.mass_matrix(q), v)
        assert_allclose(
            kinetic, textbook.energy(replace(model, gravity=(0, 0, 0)), q, v), rtol=1e-11
        )
        return np.abs(textbook.energy(model, q, v) - start).max() / np.abs(start).max()

    coarse, fine = drift(100), drift(200)
    assert fine < 1e-7
    assert coarse / fine > 10


# Configurations


def integrate(model, q, v):
    return run(algorithms.integrate, model, q, v)


def difference(model, q0, q1):
    return run(algorithms.difference, model, q0, q1)


@every_tree
def test_difference_and_integrate_undo_each_other(model):
    q0, q1 = model.random_configuration((2, 20), seed=4)
    v = difference(model, q0, q1)
    same_place(model, integrate(model, q0, v), q1)
    small = 1e-6 * np.random.default_rng(1).normal(size=v.shape)
    assert_allclose(difference(model, q0, integrate(model, q0, small)), small, atol=1e-15)
    assert_allclose(difference(model, q0, q0), 0 * v, atol=1e-15)


@small_trees
def test_compiled_configurations_are_the_algorithms(model):
    q0, q1 = model.random_configuration((2, 20), seed=4)
    v = model.difference(q0, q1)
    assert_allclose(v, difference(model, q0, q1), atol=1e-14)
    assert_allclose(model.integrate(q0, v), integrate(model, q0, v), atol=1e-14)


def same_place(model, q0, q1, tolerance=1e-11):
    for (R0, p0), (R1, p1) in zip(
        textbook.poses(model, q0), textbook.poses(model, q1), strict=True
    ):
        assert_allclose(R0, R1, atol=tolerance)
        assert_allclose(p0, p1, atol=tolerance)


@pytest.mark.parametrize("kind", JOINT_TYPES)
@pytest.mark.parametrize(
    "angle", [0, 1e-300, 1e-12, 1e-7, 1e-3, 0.0316, 0.0317, 1, 3, np.pi - 1e-3]
)
def test_moves_by_turns_of_any_size(kind, angle):
    model = textbook.tree((kind,))
    rng = np.random.default_rng(0)
    q, v = model.random_configuration(50, seed=rng), rng.normal(size=(50, model.nv))
    if kind in ("free", "spherical"):
        v[:, -3:] *= angle / np.linalg.norm(v[:, -3:], axis=-1, keepdims=True)
    elif kind == "planar":
        v[:, 2] = angle * np.sign(v[:, 2])
    assert_allclose(model.difference(q, model.integrate(q, v)), v, atol=1e-11, rtol=1e-11)
    half = model.integrate(model.integrate(q, v / 2), v / 2)  # one-parameter subgroup
    same_place(model, half, model.integrate(q, v), 1e-13)


@pytest.mark.parametrize("gap", [0, 1e-15, 1e-9, 1e-5])
def test_half_turns(gap):
    model = textbook.tree(("free",))
    rng = np.random.default_rng(3)
    q, v = model.random_configuration(50, seed=rng), rng.normal(size=(50, 6))
    v[:, 3:] *= (np.pi - gap) / np.linalg.norm(v[:, 3:], axis=-1, keepdims=True)
    q1 = model.integrate(q, v)
    found = model.difference(q, q1)
    assert np.linalg.norm(found[:, 3:], axis=-1).max() <= np.pi + 1e-14
    same_place(model, model.integrate(q, found), q1)


@every_tree
def test_a_velocity_moves_the_bodies_as_it_says(model):
    """integrate and the motion subspaces mean the same v."""
    q, v, *_ = sample(model)
    h = 1e-3
    at = {n: textbook.poses(model, integrate(model, q, n * h * v)) for n in (-2, -1, 1, 2)}
    here = textbook.poses(model, q)
    for i, motion in enumerate(textbook.velocities(model, q, v)):
        R, _ = here[i]
        rates = [(8 * (at[1][i][k] - at[-1][i][k]) - at[2][i][k] + at[-2][i][k]) / (12 * h)
                 for k in (0, 1)]  # fmt: skip
        assert_allclose(rates[0], R @ textbook.skew(motion[..., :3]), atol=1e-8)
        assert_allclose(rates[1], textbook.times(R, motion[..., 3:]), atol=1e-8)


@every_tree
def test_the_tangent_map_is_the_derivative_of_integrate(model):
    q, v, *_ = sample(model)
    h = 1e-3
    at = {n: integrate(model, q, n * h * v) for n in (-2, -1, 1, 2)}
    rate = (8 * (at[1] - at[-1]) - at[2] + at[-2]) / (12 * h)
    assert_allclose(rate, textbook.times(textbook.tangent(model, q), v), atol=1e-9)


def test_a_quaternion_of_any_length_is_as_good_as_its_unit():
    model = SMALL[0]
    q, v, a, _ = sample(model)
    longer = q.copy()
    longer[:, 3:7] *= np.array([[0.5], [3.0], [1e-3]])
    for name_, args in (("inverse_dynamics", (v, a)), ("mass_matrix", ())):
        close(getattr(model, name_)(longer, *args), getattr(model, name_)(q, *args), 1e-14)
    close(model.integrate(longer, v), model.integrate(q, v), 1e-14)
    assert_allclose(model.difference(longer, q), 0 * v, atol=1e-15)


def test_configurations_keep_their_batch_and_type():
    model = SMALL[0]
    q, v = model.random_configuration((2, 1, 3), seed=0), np.zeros((5, 1, model.nv))
    assert model.integrate(q, v).shape == (2, 5, 3, model.nq)
    assert model.difference(q, q[0]).shape == (2, 1, 3, model.nv)
    assert model.integrate(q[0, 0, 0], v[0, 0]).shape == (model.nq,)
    single = model.integrate(q.astype(np.float32), v.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(single, model.integrate(q, v), atol=1e-5)
    assert model.difference(single, single).dtype == np.float32
    assert np.array_equal(q, model.random_configuration((2, 1, 3), seed=0))


# Robots whose numbers are special


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("axis", np.eye(3))
@pytest.mark.parametrize("kind", JOINT_TYPES)
def test_axes_along_the_frame(kind, axis, sign):
    axis = tuple(map(float, sign * axis))
    model = chain(3, 1)
    joints = tuple(replace(joint, type=kind, axis=axis) for joint in model.joints)
    model = replace(model, joints=joints)
    q, v, a, _ = sample(model)
    close(run(algorithms.rnea, model, q, v, a), textbook.rnea(model, q, v, a))
    for i in range(3):
        B = textbook.plane(model, i)
        assert_allclose(B @ B.T, np.eye(3), atol=1e-15)
        assert np.linalg.det(B) > 0
        last = model.joints[i].axis2 if kind == "universal" else axis
        assert not JOINT_TYPES[kind].axis or np.array_equal(B[:, 2], last)


@pytest.mark.parametrize("off", [5e-12, 1e-9, 3.67e-6, 1e-4])
@pytest.mark.parametrize("kind", ["revolute", "planar"])
def test_right_angles_that_a_file_rounds_are_still_rotations(kind, off):
    """1.5708 is off by 3.67e-6: its cosine is kept, and its sine is not quite 1."""
    c, s = np.cos(np.pi / 2 + off), np.sin(np.pi / 2 + off)
    base, R = chain(3, 1), np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    joints = tuple(
        replace(joint, type=kind, placement=Placement.of(R, (0.1, 0, 0)), axis=(0.0, -s, c))
        for joint in base.joints
    )
    model = replace(base, joints=joints)
    for E in (*model.tree.turns, *(X.E for X in model.tree.X_tree)):
        rows = np.array(E.rows, float)
        assert_allclose(rows @ rows.T, np.eye(3), atol=1e-15)
    q, v, a, _ = sample(model)
    tolerance = 1e-10 if off < 1e-11 else 1e-13
    close(run(algorithms.rnea, model, q, v, a), textbook.rnea(model, q, v, a), tolerance)


def test_two_rounded_right_angles_are_still_a_rotation():
    """rpy="3.14159 0 3.14159": the product of both errors, 7e-12, is no noise."""
    R = textbook.turn(np.array([0, 0, 1.0]), np.array(3.14159))
    R = R @ textbook.turn(np.array([1.0, 0, 0]), np.array(3.14159))
    joints = tuple(
        replace(joint, placement=Placement.of(R, (0.1, 0, 0)), axis=(0.0, 0.0, 1.0))
        for joint in chain(3, 1).joints
    )
    model = replace(chain(3, 1), joints=joints)
    for X in model.tree.X_tree:
        rows = np.array(X.E.rows, float)
        assert_allclose(rows @ rows.T, np.eye(3), atol=2e-15)
    q, v, a, _ = sample(model)
    close(run(algorithms.rnea, model, q, v, a), textbook.rnea(model, q, v, a), 1e-13)


def test_gravity_of_any_direction():
    model = replace(SMALL[0], gravity=(1.0, -2.0, 3.0))
    q, v, a, _ = sample(model)
    close(run(algorithms.rnea, model, q, v, a), textbook.rnea(model, q, v, a))


# The generator


def test_random_trees_are_reproducible_and_varied():
    assert random_tree(9, 2, seed=3) == random_tree(9, 2, seed=3)
    assert random_tree(9, 2, seed=3) != random_tree(9, 2, seed=4)
    assert random_tree(7, 2, seed=0).parent == (-1, 0, 0, 1, 1, 2, 2)
    assert random_tree(5, roots=5, seed=0).parent == (-1,) * 5
    assert chain(4, 0).parent == (-1, 0, 1, 2)
    assert {kind.name for kind in random_tree(60, seed=0).types} == set(JOINT_TYPES)
    assert {kind.name for kind in chain(9, 0, ("planar",)).types} == {"planar"}


def test_random_bodies_could_be_built():
    for body in random_tree(50, seed=0).bodies:
        moments = np.linalg.eigvalsh(body.inertia)
        assert body.mass > 0
        assert moments.min() > 0
        assert moments.max() < moments.sum() - moments.max()


@pytest.mark.parametrize(
    "arguments", [{"n": 0}, {"n": 3, "branching": 0.5}, {"n": 3, "roots": 4},
                  {"n": 3, "joint_types": ("ball",)}, {"n": 3, "joint_types": ()}],
)  # fmt: skip
def test_impossible_trees_are_refused(arguments):
    with pytest.raises(ValueError, match="wanted"):
        random_tree(**arguments)


def test_trees_are_models():
    assert isinstance(chain(2, 0), fl.Model)
    assert "tree2" in str(chain(2, 0))
