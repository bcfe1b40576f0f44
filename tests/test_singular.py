"""Singular systems give NaN, by every method, and only they do."""

import numpy as np
import pytest
from repetition import full, repeated

import featherlane as fl
from featherlane.algorithms.elimination import ELIMINATIONS, eliminate

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
METHODS = ("auto", "aba", "jsiia", "abia", "cfa", "dca")


def wrist(before, after, seed):
    """A chain with three axes through one point and no mass between them, and the number of the
    second: at 0 and pi, the first and the third are one.
    """
    rng, builder = np.random.default_rng(seed), fl.ModelBuilder("wrist")
    builder.link("link0")
    total = before + 3 + after
    for n in range(1, total + 1):
        inside = n - before in (1, 2)
        A, m = rng.normal(size=(3, 3)), float(np.exp(rng.normal()))
        solid = {
            "mass": m,
            "com": tuple(0.2 * rng.normal(size=3)),
            "inertia": m * (0.02 * A @ A.T + 1e-3 * np.eye(3)),
        }
        builder.link(f"link{n}", **({} if inside else solid))
        axis = {1: (0, 0, 1), 2: (0, 1, 0), 3: (0, 0, 1)}.get(n - before, tuple(rng.normal(size=3)))
        place = (0, 0, 0) if n - before in (2, 3) else tuple(0.3 * rng.normal(size=3))
        ends = f"link{n - 1}", f"link{n}"
        builder.joint(f"joint{n}", "revolute", *ends, axis=axis, xyz=place)
    return builder.build(), before + 1


more_dtypes = pytest.mark.parametrize("dtype", repeated([np.float64, np.float32]))


@more_dtypes
@pytest.mark.parametrize("where", repeated([np.pi, 0.0]))
@pytest.mark.parametrize(("before", "after"), repeated([(0, 0), (2, 1)]))
def test_a_locked_wrist_has_no_accelerations(before, after, where, dtype):
    model, second = wrist(before, after, seed=before)
    q, v, tau = np.random.default_rng(0).normal(size=(3, 10, model.nv)).astype(dtype)
    free = model.forward_dynamics(q, v, tau)
    assert np.isfinite(free).all()
    q[::2, second] = where
    for method in METHODS:
        found = model.forward_dynamics(q, v, tau, method=method)
        assert np.isnan(found[::2]).any(-1).all(), method
        assert np.isfinite(found[1::2]).all(), method
    inverse = model.mass_matrix_inverse(q)
    assert np.isnan(inverse[::2]).any((1, 2)).all()
    assert np.isfinite(inverse[1::2]).all()
    derivatives = model.forward_dynamics_derivatives(q, v, tau)
    assert np.isnan(derivatives.da_dq[::2]).any((1, 2)).all()


@full
@pytest.mark.parametrize(
    ("links", "seed", "dtype"), repeated([(12, 9, np.float64), (60, 16, np.float32)])
)
def test_four_slides_on_one_mass(links, seed, dtype):
    """The last four joints of these chains, of which the first three then carry no mass."""
    model = fl.chain(links, seed=seed, joint_types=("revolute", "prismatic"))
    assert [joint.type for joint in model.joints[-4:]] == ["prismatic"] * 4
    params = model.parameters("inertial")
    params["inertial"][-4:-1] = 0.0
    params = {name: x.astype(dtype) for name, x in params.items()}
    state = np.random.default_rng(0).normal(size=(3, 6, links)).astype(dtype)
    for method in METHODS:
        found = model.forward_dynamics(*state, params=params, method=method)
        assert np.isnan(found).any(-1).all(), method
    assert (
        np.isnan(model.function("mass_matrix_inverse", params=params)(state[0], *params.values()))
        .any((1, 2))
        .all()
    )


@full
@pytest.mark.parametrize("method", repeated([*METHODS]))
def test_masses_over_six_orders_are_regular(method):
    model = fl.chain(20, seed=3)
    orders = 10.0 ** np.random.default_rng(1).uniform(-3, 3, size=20)
    params = model.parameters("mass", "inertia")
    params["mass"] *= orders
    params["inertia"] *= orders[:, None]
    q, v, tau = np.random.default_rng(0).normal(size=(3, 50, 20))
    assert np.isfinite(model.forward_dynamics(q, v, tau, params=params, method=method)).all()


@pytest.mark.parametrize("method", ELIMINATIONS)
def test_singular_blocks_have_no_solution(method):
    rng, found = np.random.default_rng(0), []
    for _ in range(20):
        A = rng.normal(size=(24, 23))
        A[np.abs(np.subtract.outer(np.arange(24) // 4, np.arange(23) // 4)) > 0] = 0.0
        M = A @ A.T
        D = [M[i : i + 4, i : i + 4] for i in range(0, 24, 4)]
        U = [M[i : i + 4, i + 4 : i + 8] for i in range(0, 20, 4)]
        lists = [[list(map(list, block)) for block in blocks] for blocks in (D, U)]
        x = eliminate(*lists, [[np.float64(1.0)] * 4] * 6, method)
        found.append(np.isnan(np.array(x)).any())
    assert np.mean(found) > 0.8  # a pivot of bad conditioned blocks may hide among its errors
