"""Matrices over the joints of long robots: tiles and sweeps by themselves, and through the user's
model against the same robot as one piece of code.
"""

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose, assert_array_equal
from repetition import full, repeated

import featherlane as fl
from featherlane.backends.cpu.matrices import tables
from featherlane.backends.cpu.matrices.plan import MatrixEvaluator, MatrixJob, MatrixPlan
from featherlane.functions import kernels as variant_kernels
from featherlane.functions.long.freedoms import sweep_order

DTYPES = [np.float64, np.float32]
BREADTH = [-1, 0, 0, 1, 2, 1, 2, 3]  # bodies that hang on one are not next to it
ROBOTS = {
    "chain": fl.chain(9, 1),
    "limbs": textbook.tree(
        ("revolute", "revolute", "spherical", *["revolute"] * 4),
        [-1, 0, 1, 2, 1, -1, 5],
        3,
        physics=True,
    ),
    "hands": textbook.tree(
        ("revolute", "revolute", "spherical", *["revolute"] * 10),
        [-1, 0, 1, 2, 1, 4, 4, 6, 0, -1, 9, 10, 9],
        3,
        physics=True,
    ),
    "breadth": textbook.tree(
        ("revolute", "spherical", *["revolute"] * 6), BREADTH, 3, physics=True
    ),
    "mimic": fl.random_tree(
        8, 1.6, ("revolute", "helical"), mimic=0.3, roots=2, seed=5, physics=True
    ),
}
more_robots = pytest.mark.parametrize(
    "robot", repeated(["limbs", "hands", "mimic", "chain", "breadth"])
)
MATRICES = {
    "mass_matrix": 1,
    "mass_matrix_inverse": 1,
    "coriolis_matrix": 2,
    "inverse_dynamics_derivatives": 3,
    "forward_dynamics_derivatives": 3,
}

MORE = (
    "forward_dynamics_derivatives_at",
    "forward_dynamics_derivatives_from",
    "inverse_dynamics_hessian_product",
    "forward_dynamics_hessian_product",
)


def fresh(model):
    """Without the functions that were compiled for it."""
    return fl.Model(**model._fields())


@pytest.fixture
def long(monkeypatch):
    """What makes a robot long."""

    def make(model):
        monkeypatch.setattr(variant_kernels, "LONG", 1)
        made = fresh(model)
        for name in (*MATRICES, *MORE):
            assert made.function(name) is made.function(name)
        monkeypatch.setattr(variant_kernels, "LONG", 1000)
        return made

    return make


def sample(model, batch, count, dtype=np.float64):
    rng = np.random.default_rng(2)
    q = model.random_configuration(batch, seed=rng)
    lead = q.shape[:-1]
    return [x.astype(dtype) for x in (q, *rng.normal(size=(2, *lead, model.nv)))][:count]


def blocks(result):
    return result if isinstance(result, tuple) else (result,)


def close(found, wanted, tolerance):
    assert found.shape == wanted.shape
    assert_allclose(found, wanted, rtol=0, atol=tolerance * max(1, np.abs(wanted).max()))


# Programs by themselves


def run(program, dtype, n, size, arrays, room=None):
    """c of a program applied to arrays a and b of three states."""
    inputs = {name: x.shape[1:] for name, x in arrays.items()}
    other = "b" if "b" in arrays else "room" if room else None
    plan = MatrixPlan(
        inputs, {"c": None}, n, size, [], [MatrixJob(program, "a", other, "c")], room or {}
    )
    out = np.full((3, n, n), np.nan, dtype)
    MatrixEvaluator(plan, np.dtype(dtype))(*arrays.values(), out=[out])
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 7, 16, 37])
def test_tiles_are_products_where_freedoms_meet(n, dtype):
    rng = np.random.default_rng(n)
    size = tables.padded_size(n, np.dtype(dtype))
    kind = rng.integers(0, 3, (n, n))
    kind[n // 2 :, : n // 3] = 2  # tiles of zeros, and of one kind
    kind[: n // 2, n // 2 :] = 1
    rows = rng.normal(size=(3, 11, size)).astype(dtype)
    meetings = [tables.MaskedProduct(kind == 0, 0, 4, 3), tables.MaskedProduct(kind == 1, 2, 5, 6)]
    program = tables.products(meetings, size, np.dtype(dtype))
    found = run(program, dtype, n, size, {"a": rows, "b": rows})
    x = rows[..., :n].swapaxes(1, 2).astype(float)
    first = x[..., 0:3] @ x[..., 4:7].swapaxes(1, 2)
    second = x[..., 2:8] @ x[..., 5:11].swapaxes(1, 2)
    wanted = np.where(kind == 0, first, np.where(kind == 1, second, 0.0))
    close(found, wanted, 20 * np.finfo(dtype).eps)
    assert (found[:, kind == 2] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 16, 45])
def test_tiles_are_products_of_matrices(n, dtype):
    size = tables.padded_size(n, np.dtype(dtype))
    a, b = np.random.default_rng(n).normal(size=(2, 3, size, size)).astype(dtype)
    found = run(tables.dense_product(size, n, np.dtype(dtype)), dtype, n, size, {"a": a, "b": b})
    wanted = a[:, :n, :n].astype(float) @ b[:, :n, :n]
    close(found, wanted, n * np.finfo(dtype).eps)


@pytest.mark.parametrize("n", [16, 19])
def test_a_mirror(n):
    size = tables.padded_size(n, np.dtype(float))
    a = np.random.default_rng(n).normal(size=(3, size, size))
    inverse = tables.dense_product(size, n, np.dtype(float))
    unit = np.broadcast_to(np.eye(size), a.shape).copy()
    plan = MatrixPlan(
        {"a": (size, size), "b": (size, size)},
        {"c": None},
        n,
        size,
        [],
        [
            MatrixJob(inverse, "a", "b", "c"),
            MatrixJob(tables.mirroring(size, np.dtype(float)), "a", None, "c"),
        ],
    )
    out = np.empty((3, n, n))
    MatrixEvaluator(plan, np.dtype(float))(a, unit, out=[out])
    above = np.triu(a[:, :n, :n])
    assert_array_equal(out, above + np.triu(above, 1).swapaxes(1, 2))


# Through the model


def test_the_robots_have_every_order():
    def swept(name):
        return sweep_order(ROBOTS[name].tree)[1] is None

    assert swept("chain")
    assert swept("limbs")
    assert swept("hands")
    assert not swept("breadth")
    assert ROBOTS["mimic"].tree.coupled


@more_robots
def test_matrices_are_the_textbook_and_those_of_the_short_robot(robot, long):
    model, short = long(ROBOTS[robot]), fresh(ROBOTS[robot])
    q, v, tau = sample(model, (2, 5), 3)
    M, inverse = textbook.mass_matrix(model, q), model.mass_matrix_inverse(q)
    tolerance = 1e-14 * np.linalg.cond(M).max()
    close(model.mass_matrix(q), M, 1e-12)
    close(inverse, np.linalg.inv(M), tolerance)
    a = model.forward_dynamics(q, v, tau)
    found = model.inverse_dynamics_derivatives(q, v, a)
    for x, y in zip(found, short.inverse_dynamics_derivatives(q, v, a), strict=True):
        close(x, y, 1e-11)
    *da, last = model.forward_dynamics_derivatives(q, v, tau)
    close(last, inverse, tolerance)
    for x, y in zip(da, found, strict=True):
        close(x, -inverse @ y, tolerance)


@full
@pytest.mark.parametrize("robot", repeated(["limbs", "breadth"]))
def test_a_state_has_the_same_bits_everywhere(robot, long):
    model = long(ROBOTS[robot])
    n = model.nv
    for name, count in MATRICES.items():
        given = sample(model, 39, count)
        whole = blocks(getattr(model, name)(*given))
        single = blocks(getattr(model, name)(*[x[7] for x in given]))
        some = blocks(getattr(model, name)(*[x[30:33] for x in given], threads=2))
        out = tuple(np.empty((39, n, 2 * n))[..., ::-2] for _ in whole)
        getattr(model, name)(*given, out=out if len(out) > 1 else out[0])
        for x, one, three, spread in zip(whole, single, some, out, strict=True):
            assert_array_equal(one, x[7])
            assert_array_equal(three, x[30:33])
            assert_array_equal(spread, x)
        assert blocks(getattr(model, name)(*[x[:0] for x in given]))[0].shape == (0, n, n)
    M, inverse = model.mass_matrix(given[0]), model.mass_matrix_inverse(given[0])
    assert_array_equal(M, M.swapaxes(1, 2))
    assert_array_equal(inverse, inverse.swapaxes(1, 2))


@pytest.mark.parametrize("robot", repeated(["mimic", "limbs"]))
@pytest.mark.parametrize("name", repeated([*MATRICES, *MORE], 4))
def test_strides_change_no_bit(name, robot, long):
    """Those of inputs and of results: rows or columns first, forwards or backwards."""
    function = long(ROBOTS[robot]).function(name)
    rng, lead = np.random.default_rng(4), (3,)
    given = [rng.normal(size=lead + core) for core in function.inputs.values()]
    wanted = blocks(function(*given))
    turned = [x[..., ::-1].copy()[..., ::-1] for x in given]
    columns = [np.asfortranarray(x) for x in given]
    for arrays in (turned, columns):
        for x, y in zip(blocks(function(*arrays)), wanted, strict=True):
            assert_array_equal(x, y)
    out = tuple(np.empty(x.shape[::-1])[::-1].T for x in wanted)
    function(*given, out=out)
    for x, y in zip(out, wanted, strict=True):
        assert_array_equal(x, y)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("robot", repeated(["limbs", "mimic"]))
def test_results_may_lie_where_an_input_was(robot, threads, long):
    """Also where one step writes what the next one reads, with one thread as with several."""
    model = long(ROBOTS[robot])
    q, v, tau = sample(model, 6, 3)
    wanted = model.forward_dynamics_derivatives(q, v, tau)
    out = tuple(np.empty_like(x) for x in wanted)
    memory, given = out[2].reshape(-1), []
    for x in (q, v, tau):
        inside, memory = memory[: x.size].reshape(x.shape), memory[x.size :]
        inside[...] = x
        given.append(inside)
    model.forward_dynamics_derivatives(*given, out=out, threads=threads)
    for x, y in zip(out, wanted, strict=True):
        assert_array_equal(x, y)
    torque = tau.copy()
    model.forward_dynamics(q, v, torque, out=torque, threads=threads)
    assert_array_equal(torque, model.forward_dynamics(q, v, tau))


@more_robots
def test_forward_derivatives_at_known_accelerations(robot, long):
    model, short = long(ROBOTS[robot]), fresh(ROBOTS[robot])
    q, v, tau = sample(model, 5, 3)
    tolerance = 1e-14 * np.linalg.cond(textbook.mass_matrix(model, q)).max()
    a = model.forward_dynamics(q, v, tau)
    known = model.forward_dynamics_derivatives(q, v, a=a)
    for x, y in zip(known, model.forward_dynamics_derivatives(q, v, tau), strict=True):
        close(x, y, tolerance)
    for x, y in zip(known, short.forward_dynamics_derivatives(q, v, a=a), strict=True):
        close(x, y, tolerance)
    one = model.forward_dynamics_derivatives(q[3], v[3], a=a[3])
    out = tuple(np.empty_like(x) for x in known)
    out[2][:, 0] = a  # results may lie where an input is
    model.forward_dynamics_derivatives(q, v, a=out[2][:, 0], out=out)
    for x, y, z in zip(known, one, out, strict=True):
        assert_array_equal(y, x[3])
        assert_array_equal(z, x)


@full
def test_in_float32(long):
    model = long(ROBOTS["limbs"])
    for name, count in MATRICES.items():
        given = sample(model, 5, count, np.float32)
        found = blocks(getattr(model, name)(*given))
        wanted = blocks(getattr(model, name)(*[x.astype(float) for x in given]))
        for x, y in zip(found, wanted, strict=True):
            assert x.dtype == np.float32
            close(x, y, 2e-3)


def test_parameters_and_wrenches(long):
    model, short = long(ROBOTS["chain"]), fresh(ROBOTS["chain"])
    given = sample(model, 5, 3)
    f = np.random.default_rng(7).normal(size=(5, model.nbodies, 6))
    params = model.parameters("mass", "damping")
    params["mass"] = params["mass"] * np.linspace(1, 1.5, 5)[:, None]
    for name in ("inverse_dynamics_derivatives", "forward_dynamics_derivatives"):
        found, wanted = (
            getattr(m, name)(*given, f, f_ext_frame="world", params=params) for m in (model, short)
        )
        for x, y in zip(found, wanted, strict=True):
            close(x, y, 1e-9)


def test_a_singular_state_gives_nan(long):
    robot = fl.chain(6, seed=1, joint_types=("revolute", "prismatic"))
    masses = robot.parameters("mass", "com", "inertia")
    masses["mass"][-1], masses["inertia"][-1] = 0.0, 0.0
    model = long(robot)
    q, *_ = sample(model, 4, 1)
    assert np.isnan(model.mass_matrix_inverse(q, params=masses)).all()
    assert np.isfinite(model.mass_matrix_inverse(q)).all()
