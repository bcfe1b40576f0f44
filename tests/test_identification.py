"""Base parameters, bodies that can exist, and the identification of the example."""

import runpy

import numpy as np
import pytest
import textbook
from documents import ROOT
from numpy.testing import assert_allclose
from repetition import repeated

import featherlane as fl
from featherlane.api.identification import (
    base_parameters,
    consistent_parameters,
    inertial_of,
    parameter_names,
    pseudo_inertia,
)

TREES = {
    "multi": textbook.tree(("spherical", "revolute", "planar"), (-1, 0, 0), 2),
    "universal": textbook.tree(("universal", "cylindrical", "helical"), seed=3),
    "mimic": textbook.tree(("revolute",) * 4, (-1, 0, 0, 1), 4, mimic={2: 1}),
}


def rows(model, count=60, seed=0):
    """The regressor of random states, stacked."""
    rng = np.random.default_rng(seed)
    v, a = rng.normal(size=(2, count, model.nv))
    Y = model.inverse_dynamics_regressor(model.random_configuration(count, seed=rng), v, a)
    return Y.reshape(-1, Y.shape[-1])


def masses_at_points(bodies=1, seed=0):
    """Random bodies of eight point masses: inertial parameters (bodies, 10) by sums."""
    rng = np.random.default_rng(seed)
    m, x = rng.uniform(0.1, 1, (bodies, 8)), rng.normal(size=(bodies, 8, 3))
    square = np.eye(3) * (x**2).sum(-1)[..., None, None] - x[..., :, None] * x[..., None, :]
    I = np.einsum("ik,ikab->iab", m, square)
    six = [I[:, a, b] for a, b in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))]
    return np.column_stack([m.sum(1), np.einsum("ik,ika->ia", m, x), *six]), m, x


# Base parameters


def two_links():
    """Two rods of length 0.7 m that turn about horizontal axes, in the plane of x and z."""
    b = fl.ModelBuilder("arm")
    b.link("base")
    for name in ("upper", "lower"):
        b.link(name, mass=1.0, com=(0.3, 0.0, 0.1), inertia=(0.1, 0.1, 0.1))
    b.joint("first", "revolute", "base", "upper", axis=(0, 1, 0))
    b.joint("second", "revolute", "upper", "lower", xyz=(0.7, 0, 0), axis=(0, 1, 0))
    return b.build()


def test_the_two_link_arm_has_the_base_parameters_of_the_textbooks():
    model = two_links()
    base, names = base_parameters(rows(model)), parameter_names(model)
    found = [{names[j]: row[j].round(12) for j in np.flatnonzero(row)} for row in base.combinations]
    assert found == [
        {"mx upper": 1.0, "m lower": 0.7},
        {"mz upper": 1.0},
        {"Iyy upper": 1.0, "m lower": 0.49},
        {"mx lower": 1.0},
        {"mz lower": 1.0},
        {"Iyy lower": 1.0},
    ]
    assert [names[k] for k in base.alone] == ["mz upper", "mx lower", "mz lower", "Iyy lower"]
    assert "m upper" in (names[k] for k in base.without_effect)
    assert "m lower" not in (names[k] for k in base.without_effect)


@pytest.mark.parametrize("name", TREES)
def test_base_parameters_give_the_torques_of_any_other_state(name):
    model = TREES[name]
    base, Y = base_parameters(rows(model)), rows(model, seed=1)
    unit = Y / np.maximum(np.linalg.norm(Y, axis=0), 1e-12)
    assert len(base.columns) == np.linalg.matrix_rank(unit, 1e-9) < Y.shape[1]
    pi = np.random.default_rng(2).normal(size=Y.shape[1])
    wanted = Y @ pi
    tau = Y[:, base.columns] @ (base.combinations @ pi)
    assert_allclose(tau, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())
    again = base_parameters(Y)
    assert np.array_equal(base.columns, again.columns)
    assert_allclose(base.combinations, again.combinations, rtol=0, atol=1e-7)


def test_the_iiwa_has_43_and_armature_adds_five(iiwa):
    q, v, a = np.random.default_rng(0).normal(size=(3, 60, 7))
    Y = iiwa.inverse_dynamics_regressor(q, v, a)
    assert base_parameters(Y).combinations.shape == (43, 70)
    armature = iiwa.inverse_dynamics_parameter_derivatives(q, v, a, "armature")
    base = base_parameters(np.concatenate([Y, armature], -1))
    assert list(base.columns[43:]) == [72, 73, 74, 75, 76]
    for own, column in ((9, 70), (19, 71)):  # Izz of the first two links turn with no other joint
        row = base.combinations[list(base.columns).index(own)]
        assert row[column] == pytest.approx(1)


def test_alone_and_without_effect_mean_what_they_say(iiwa):
    Y = rows(iiwa)
    base = base_parameters(Y)
    assert np.abs(Y[:, base.without_effect]).max() < 1e-10
    seen = np.linalg.pinv(Y, 1e-10) @ Y  # the projection on what the rows tell
    told = np.flatnonzero(np.abs(seen.diagonal() - 1) < 1e-8)
    assert np.array_equal(base.alone, told)


def test_a_free_root_shows_all_of_its_body():
    model = textbook.tree(("free", "revolute", "revolute"), seed=5)
    base = base_parameters(rows(model))
    assert np.array_equal(base.columns[:10], np.arange(10))
    assert base.combinations.shape == (10 + 7 + 7, 30)


def test_states_at_rest_tell_less(iiwa):
    q = iiwa.random_configuration(60, seed=0)
    still = base_parameters(iiwa.inverse_dynamics_regressor(q, 0 * q, 0 * q))
    moving = base_parameters(rows(iiwa))
    assert 0 < len(still.columns) < len(moving.columns)
    rest = still.combinations - still.combinations[:, moving.columns] @ moving.combinations
    assert np.abs(rest).max() < 1e-9  # combinations of those that motion shows


def test_other_units_give_the_same_combinations(iiwa):
    Y = rows(iiwa)
    unit = 10.0 ** np.random.default_rng(0).uniform(-3, 3, 70)
    base, scaled = base_parameters(Y), base_parameters(Y * unit)
    assert np.array_equal(base.columns, scaled.columns)
    back = scaled.combinations / unit * unit[scaled.columns, None]
    assert_allclose(back, base.combinations, rtol=0, atol=1e-8)


def test_nothing_to_identify_is_no_error():
    base = base_parameters(np.zeros((5, 3)))
    assert base.combinations.shape == (0, 3)
    assert list(base.without_effect) == [0, 1, 2]


@pytest.mark.parametrize("Y", [np.ones(3), np.full((4, 2), np.nan)])
def test_what_is_no_regressor_is_refused(Y):
    with pytest.raises(ValueError, match="Y has shape"):
        base_parameters(Y)


# Possible bodies


def test_pseudo_inertia_is_the_second_moment_of_mass():
    inertial, m, x = masses_at_points(5)
    points = np.concatenate([x, np.ones_like(x[..., :1])], -1)
    P = np.einsum("ik,ika,ikb->iab", m, points, points)
    assert_allclose(pseudo_inertia(inertial), P, atol=1e-13)
    assert_allclose(inertial_of(P), inertial, atol=1e-13)
    assert np.linalg.eigvalsh(P).min() > 0


def test_a_body_that_breaks_the_triangle_inequality_is_not_possible():
    plate = np.array([1, 0, 0, 0, 1, 0, 1, 0, 0, 2.0])  # Ixx + Iyy = Izz: flat
    assert_allclose(np.linalg.eigvalsh(pseudo_inertia(plate))[0], 0, atol=1e-15)
    assert np.linalg.eigvalsh(pseudo_inertia(plate + 0.01 * np.eye(10)[9]))[0] < 0


@pytest.mark.parametrize(("function", "shape"), [(pseudo_inertia, (3, 9)), (inertial_of, (3, 3))])
def test_wrong_shapes_are_refused(function, shape):
    with pytest.raises(ValueError, match="shape"):
        function(np.zeros(shape))


# Parameters of possible bodies


def objective(Y, tau, prior, weight, x):
    P, P0 = (pseudo_inertia(p.reshape(-1, 10)) for p in (x[: prior.size], prior))
    ratio = np.linalg.solve(P0, P)
    D = np.trace(ratio, axis1=1, axis2=2) - np.linalg.slogdet(ratio)[1] - 4
    return np.sum((Y @ x - tau) ** 2) / 2 + weight * D.sum()


def noisy(model, sigma=2.0, prior_seed=7):
    """Whitened rows and torques of random states, with noise that leaves least squares absurd."""
    rng = np.random.default_rng(3)
    Y, true = rows(model) / sigma, model.parameters("inertial")["inertial"]
    tau = Y @ true.ravel() + rng.normal(size=len(Y))
    A = np.eye(4) + 0.1 * np.random.default_rng(prior_seed).normal(size=(model.nbodies, 4, 4))
    return Y, tau, inertial_of(A @ pseudo_inertia(true) @ np.swapaxes(A, -1, -2))


@pytest.mark.parametrize("weight", repeated([1.0, 0.01, 1e4]))
def test_it_is_the_minimum_and_possible(iiwa, weight):
    Y, tau, prior = noisy(iiwa)
    x = consistent_parameters(Y, tau, prior, weight=weight)
    assert np.linalg.eigvalsh(pseudo_inertia(x.reshape(7, 10))).min() > 0
    least = objective(Y, tau, prior, weight, x)
    assert least < objective(Y, tau, prior, weight, prior.ravel())
    steps = 1e-3 * prior[:, :1] * np.random.default_rng(0).normal(size=(50, 7, 10))
    for step in np.concatenate([steps, -steps]).reshape(100, 70) / 1e2:
        assert objective(Y, tau, prior, weight, x + step) > least
    free = np.linalg.lstsq(Y, tau, rcond=1e-9)[0].reshape(7, 10)
    assert np.linalg.eigvalsh(pseudo_inertia(free)).min() < 0


def test_without_data_it_is_the_prior(iiwa):
    prior = noisy(iiwa)[2]
    x = consistent_parameters(np.zeros((0, 70)), np.zeros(0), prior)
    assert_allclose(x, prior.ravel(), atol=1e-12)


def test_with_all_data_it_is_the_truth_whatever_the_prior():
    true, prior = masses_at_points(2)[0], masses_at_points(2, seed=1)[0]
    Y = 1e5 * np.random.default_rng(0).normal(size=(60, 23))
    whole = np.array([*true.ravel(), 1.0, -2.0, 3.0])  # what is behind the bodies is free
    x = consistent_parameters(Y, Y @ whole, prior)
    assert_allclose(x, whole, rtol=0, atol=1e-6)


def test_the_result_does_not_depend_on_frames_or_units(iiwa):
    Y, tau, prior = noisy(iiwa)
    A = np.eye(4) + 0.3 * np.random.default_rng(1).normal(size=(4, 4))
    change = lambda x: inertial_of(A @ pseudo_inertia(x) @ A.T)
    T = np.kron(np.eye(7), change(np.eye(10)).T)
    x = consistent_parameters(Y, tau, prior)
    changed = consistent_parameters(Y @ np.linalg.inv(T), tau, change(prior))
    assert_allclose(changed, T @ x, rtol=0, atol=1e-6 * np.abs(x).max())


def test_a_weight_that_counts_for_nothing_is_refused(iiwa):
    Y, tau, prior = noisy(iiwa)
    with pytest.raises(ValueError, match="give the prior more weight"):
        consistent_parameters(Y, tau, prior, weight=1e-15)


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"prior": np.ones(10)}, "prior has shape"), ({"Y": np.ones((3, 60))}, r"10 \* nbodies = 70"),
     ({"tau": np.ones(4)}, r"tau \(4,\)"), ({"weight": 0}, "weight is 0"),
     ({"Y": np.eye(3, 72)}, "the 2 columns of Y after the bodies' are linearly dependent"),
     ({"prior": np.ones((7, 10))}, "body . of the prior is not possible")],
)  # fmt: skip
def test_wrong_arguments_are_refused(iiwa, changes, told):
    own = {"Y": np.ones((3, 70)), "tau": np.ones(3), "prior": iiwa.parameters("inertial")}
    own["prior"] = own["prior"]["inertial"]
    with pytest.raises(ValueError, match=told):
        consistent_parameters(**own | changes)


# The example (what it prints is checked with the documents)


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(ROOT / "examples" / "identify_iiwa.py")


@pytest.fixture(scope="module")
def base(example, iiwa):
    states = example["Motion"](*np.random.default_rng(0).normal(size=(3, 100, 7)))
    return base_parameters(example["regressor"](iiwa, states))


def test_the_motion_is_its_own_derivative_and_within_limits(example, iiwa):
    series = example["random_series"](iiwa, np.random.default_rng(0), 3)
    t = np.linspace(0, example["PERIOD"], 20001)
    q, v, a = example["fourier"](series, t)
    for x, dx in ((q, v), (v, a)):
        assert_allclose(np.gradient(x, t, axis=-2)[:, 1:-1], dx[:, 1:-1], atol=1e-6)
    assert np.abs(v).max() <= 1.01 * example["SPEED"]
    assert np.all(np.abs(q) < [joint.upper[0] for joint in iiwa.joints])


def test_smoothing_leaves_the_noise_of_the_band(example, iiwa):
    rng = np.random.default_rng(0)
    series = example["random_series"](iiwa, rng, 1)[0]
    angles, _ = example["measure"](iiwa, series, rng)
    t = np.arange(0, example["PERIOD"], 1 / example["RATE"])
    found, wanted = example["smoothed"](angles), example["fourier"](series, t)
    w = 2 * np.pi / example["PERIOD"] * np.arange(1, example["BAND"] + 1)
    for k, (x, y) in enumerate(zip(found, wanted, strict=True)):
        white = example["ANGLE_NOISE"] ** 2 / angles[..., 0].size
        expected = np.sqrt(white * ((k == 0) + 2 * np.sum(w ** (2 * k))))
        assert np.sqrt(np.mean((x - y) ** 2)) == pytest.approx(expected, rel=0.25)


def test_the_search_finds_a_more_exciting_motion(example, iiwa, base):
    rng = np.random.default_rng(0)
    many = example["information"](iiwa, base, example["random_series"](iiwa, rng, 50))
    best = example["exciting"](iiwa, base, rng)
    assert example["information"](iiwa, base, best) > many.max() + 10


def test_errors_are_what_their_standard_deviations_say(example, iiwa, base):
    """Over several experiments: (estimate - truth) / sd has the mean square 1."""
    friction = example["FRICTION"]["friction"]
    own = iiwa.parameters("inertial")["inertial"].ravel()
    truth = base.combinations @ np.concatenate([own, iiwa.damping, friction])
    squares = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        series = example["random_series"](iiwa, rng, 1)[0]
        Y, tau = example["weighted_rows"](iiwa, *example["measure"](iiwa, series, rng))
        found, covariance = example["least_squares"](Y[::2], tau[::2], base)
        error = found - truth
        squares.append(error @ np.linalg.solve(covariance, error) / len(error))
    assert 0.75 < np.mean(squares) < 1.25  # 228 degrees of freedom: 1 +- 0.09


def test_what_is_no_array_is_named():
    with pytest.raises(TypeError, match="Y is 'x': wanted an array of numbers"):
        fl.identification.base_parameters("x")
    with pytest.raises(TypeError, match=r"inertial is \[None, 'a'\]: wanted"):
        fl.identification.pseudo_inertia([None, "a"])
    with pytest.raises(TypeError, match="P is 'P': wanted"):
        fl.identification.inertial_of("P")
    with pytest.raises(TypeError, match="prior is 'b': wanted"):
        fl.identification.consistent_parameters(np.eye(10), np.ones(10), "b")
