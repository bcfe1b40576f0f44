"""Signed distances of spheres, against points that are sampled densely, and their derivatives."""

import numpy as np
import pytest

import featherlane as fl

RNG = np.random.default_rng(4)
SPHERES = np.concatenate([RNG.normal(size=(50, 3)), RNG.uniform(0.05, 0.3, (50, 1))], axis=1)
CAPSULES = np.concatenate([RNG.normal(size=(50, 6)), RNG.uniform(0.05, 0.3, (50, 1))], axis=1)
NORMALS = RNG.normal(size=(50, 3))
PLANES = np.concatenate(
    [NORMALS / np.linalg.norm(NORMALS, axis=1, keepdims=True), RNG.normal(size=(50, 1))], axis=1
)
PAIRS = {
    "sphere_sphere_distance": SPHERES[::-1],
    "sphere_capsule_distance": CAPSULES,
    "sphere_plane_distance": PLANES,
}


def test_distances_of_spheres_and_planes():
    centers = np.linalg.norm(SPHERES[:, :3] - SPHERES[::-1, :3], axis=1)
    wanted = centers - SPHERES[:, 3] - SPHERES[::-1, 3]
    assert np.allclose(fl.sphere_sphere_distance(SPHERES, SPHERES[::-1]), wanted, atol=1e-15)
    height = np.sum(SPHERES[:, :3] * PLANES[:, :3], axis=1) - PLANES[:, 3] - SPHERES[:, 3]
    assert np.allclose(fl.sphere_plane_distance(SPHERES, PLANES), height, atol=1e-15)
    assert fl.sphere_sphere_distance([0, 0, 0, 1.0], [0, 0, 0.5, 1.0]) == -1.5


def test_distances_to_capsules():
    """Those to the nearest of many spheres along the segment; both ends and the middle occur."""
    share = np.linspace(0, 1, 20001)[:, None, None]
    points = (1 - share) * CAPSULES[:, :3] + share * CAPSULES[:, 3:6]
    far = np.linalg.norm(points - SPHERES[:, :3], axis=2)
    assert {0, 20000} < {*far.argmin(0)}
    wanted = far.min(0) - SPHERES[:, 3] - CAPSULES[:, 6]
    assert np.abs(fl.sphere_capsule_distance(SPHERES, CAPSULES) - wanted).max() < 1e-6
    point = np.concatenate([CAPSULES[:, :3], CAPSULES[:, :3], CAPSULES[:, 6:]], axis=1)
    sphere = np.delete(point, [3, 4, 5], axis=1)
    distances = fl.sphere_capsule_distance(SPHERES, point)
    assert np.array_equal(distances, fl.sphere_sphere_distance(SPHERES, sphere))


@pytest.mark.parametrize("name", PAIRS)
def test_derivatives(name):
    function, others = getattr(fl, name), PAIRS[name]
    shapes = {"sphere": 4, "other": others.shape[1]}
    gradient = fl.compile(fl.gradient(lambda a, b: function(a, b), shapes))
    slopes = gradient(SPHERES, others)
    assert np.allclose(np.linalg.norm(slopes[0][:, :3], axis=1), 1)
    h = 1e-6
    for n, size in enumerate(shapes.values()):
        steps = h * np.eye(size)[:, None]
        ahead = [x + (steps if n == k else 0) for k, x in enumerate((SPHERES, others))]
        behind = [x - (steps if n == k else 0) for k, x in enumerate((SPHERES, others))]
        wanted = (function(*ahead) - function(*behind)).T / (2 * h)
        assert np.abs(slopes[n] - wanted).max() < 1e-6


def test_concentric_spheres_have_a_derivative():
    shapes = {"a": 4, "b": 4}
    distance = lambda a, b: fl.sphere_sphere_distance(a, b)
    point = np.array([0.1, 0.2, 0.3, 0.4])
    for mode in ("forward", "reverse"):
        slopes = fl.compile(fl.jacobian(distance, shapes, mode=mode))(point, point)
        assert np.array_equal(slopes, [[0, 0, 0, -1], [0, 0, 0, -1]])
    assert np.isfinite(fl.compile(fl.hessian(distance, shapes))(point, point)).all()


def test_pairs_of_two_sets_in_a_trace():
    shapes = {"a": (3, 4), "b": (5, 7)}
    table = fl.compile(lambda a, b: fl.sphere_capsule_distance(a[:, None], b[None]), shapes)
    wanted = fl.sphere_capsule_distance(SPHERES[:3, None], CAPSULES[None, :5])
    assert wanted.shape == (3, 5)
    assert np.array_equal(table(SPHERES[:3], CAPSULES[:5]), wanted)
