"""Bounds from mechanics on what the elimination of the mass matrix gives, and formats that they
prove.
"""

import numpy as np
import pytest
from repetition import repeated

import featherlane as fl
from featherlane.api.fixed import input_ranges
from featherlane.program.passes.clamps import clamps
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.mass_bounds import mass_bounds

TYPES = [[*JOINT_TYPES], ["revolute", "prismatic", "helical"], ["revolute", "universal"]]
ROBOTS = [("iiwa14", "fixed"), ("hyq", "free"), ("double_pendulum", "fixed"), ("atlas", "free")]
STATES = 2000


def eliminated(M):
    """D and L of M = L^T D L, and the entries that are left before each elimination."""
    n = M.shape[-1]
    L, S, left = np.broadcast_to(np.eye(n), M.shape).copy(), M.copy(), [M.copy()]
    D = np.empty(M.shape[:-1])
    for k in reversed(range(n)):
        D[:, k] = S[:, k, k]
        L[:, k, :k] = S[:, k, :k] / D[:, k, None]
        S[:, :k, :k] -= L[:, k, :k, None] * S[:, k, None, :k]
        S[:, k, :] = S[:, :, k] = 0.0
        left.append(S.copy())
    return D, L, left


def matrix(bound, n):
    return np.array([[bound(i, j) for j in range(n)] for i in range(n)])


def check(model, states=STATES):
    q = model.random_configuration(states, seed=1)
    M, n = model.mass_matrix(q), model.nv
    D, L, left = eliminated(M)
    W, Minv = np.linalg.inv(L), np.linalg.inv(M)
    bounds = mass_bounds(model, M.diagonal(0, 1, 2).max(0), (q.min(0), q.max(0)))
    assert (np.array(bounds.D) <= D).all()
    assert (np.array(bounds.M) * (1 + 1e-9) >= D).all()
    lower = np.tril_indices(n, -1)
    products = np.einsum("sij,sjk->sijk", W, L)
    for x, bound in (
        *[(S, bounds.entry) for S in left],
        (L, bounds.factor),
        (W, bounds.inverted),
        (products.max(2), bounds.inverted),
        (W / D[:, None], bounds.scaled),
        (Minv, bounds.inverse),
        ((W[:, :, None] * W[:, None] / D[:, None, None]).max(-1), bounds.inverse),
    ):
        assert (np.abs(x).max(0) <= matrix(bound, n) * (1 + 1e-9))[lower].all(), bound
    assert (Minv.diagonal(0, 1, 2) <= np.array(bounds.Minv) * (1 + 1e-9)).all()
    return bounds, D, Minv.diagonal(0, 1, 2)


@pytest.mark.parametrize(("name", "root"), repeated(ROBOTS, 2))
def test_robots_stay_within_their_bounds(name, root):
    bounds, D, Minv = check(fl.load(name, root=root))
    assert np.isfinite(bounds.Minv).all()
    assert (D.min(0) / bounds.D).min() < 1.5  # some of them are reached
    assert (Minv.max(0) / bounds.Minv).max() > 0.5


@pytest.mark.parametrize("seed", repeated([*range(12)], 3))
def test_random_trees_stay_within_their_bounds(seed):
    model = fl.random_tree(6, 1.5, TYPES[seed % 3], physics=seed % 2 == 0, seed=seed)
    bounds, _, _ = check(model, 1000)
    assert (np.array(bounds.D) > 0).any()


PROVED = [  # how much smaller errors are than those of Q16.16, and whether there are clamps
    ("iiwa14", "fixed", "mass_matrix_inverse", 100, True),
    ("iiwa14", "fixed", "forward_dynamics", 10, True),
    ("double_pendulum", "fixed", "mass_matrix_inverse", 1000, False),
    ("double_pendulum", "fixed", "forward_dynamics", 10, False),
    ("hyq", "free", "inverse_dynamics", 100, True),
    ("iiwa14", "fixed", "forward_dynamics_derivatives", 0.5, True),
    ("hyq", "free", "mass_matrix_inverse", 100, True),
    ("hyq", "free", "forward_dynamics_derivatives_from", 50, True),
]


@pytest.mark.parametrize(("name", "root", "function", "better", "some"), repeated(PROVED, 4))
def test_functions_that_divide_have_proved_formats(name, root, function, better, some):
    model = fl.load(name, root=root)
    errors = {}
    for form in ("proved", "q16.16"):
        made = model.function(function, backend="fixed", format=form)
        states = input_ranges(model, made.inputs, {}, 3, 10_000)[1]
        errors[form] = max(made.errors(**states).largest.values())
        if form == "proved":
            assert not made.report.overflows
            assert not made.report.clamped
            assert not made.report.lost
            assert bool(clamps(made.datapath.graph)) == some
    assert errors["proved"] * better < errors["q16.16"]


def test_no_quaternion_within_its_range_overflows():
    model = fl.load("hyq", root="free")
    made = model.function("inverse_dynamics", backend="fixed", format="proved")
    states = input_ranges(model, made.inputs, {}, 3, 2000)[1]
    rng = np.random.default_rng(0)
    states["q"][:, 3:7] = rng.uniform(-1, 1, (2000, 4)) * rng.choice([1.0, 0.1], (2000, 1))
    made(**states)
    assert not made.report.overflows
    assert sum(made.report.clamped.values()) > 500  # short ones
    long = np.linalg.norm(states["q"][:, 3:7], axis=-1) > 0.75
    assert max(made.errors(**{name: x[long] for name, x in states.items()}).largest.values()) < 1e-3


def test_accelerations_saturate_at_their_range():
    model = fl.load("double_pendulum")
    made = model.function(
        "forward_dynamics", backend="fixed", format="proved", ranges={"a": (-8.0, 8.0)}
    )
    states = input_ranges(model, made.inputs, {}, 3, 2000)[1]
    found, exact = made(**states), model.forward_dynamics(**states)
    assert np.abs(found - exact.clip(-8.0, 8.0)).max() < 0.01
    assert sum(made.report.clamped.values()) == np.count_nonzero(np.abs(exact) > 8.0)
    assert not made.report.overflows


@pytest.mark.parametrize(
    ("function", "algorithm"),
    [
        ("forward_dynamics", "bounded"),
        ("forward_dynamics", "aba"),
        ("mass_matrix_inverse", "mminvgen"),
    ],
)
def test_what_shares_coordinates_is_not_eliminated_joint_by_joint(function, algorithm):
    model = fl.random_tree(4, joint_types=["revolute"], mimic=0.5, seed=1)
    with pytest.raises(ValueError, match=rf"'{algorithm}': joints of 'tree4' share coordinates"):
        fl.accelerator(model, function, algorithm=algorithm)
