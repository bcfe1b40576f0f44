"""Clearances of robots that spheres cover, and inverse kinematics that keeps clear of obstacles."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import featherlane as fl

PANDA, HAND = fl.load("panda"), "panda_hand"
COVER = [
    ("panda_link0", (0.0, 0.0, 0.05), 0.12),
    ("panda_link2", (0.0, -0.12, 0.0), 0.08),
    ("panda_link4", (0.0, 0.0, 0.03), 0.07),
    ("panda_link5", (0.0, 0.08, -0.08), 0.06),
    fl.BodySphere("panda_link5", (0.0, 0.0, -0.24), 0.07),
    ("panda_link6", (0.08, 0.0, 0.0), 0.06),
    ("panda_hand", (0.0, 0.06, 0.03), 0.04),
    ("panda_hand", (0.0, -0.06, 0.03), 0.04),
]
OBSTACLES = {
    "spheres": np.array([[0.4, 0.2, 0.6, 0.15], [0.3, -0.3, 0.5, 0.15]]),
    "capsules": np.array([[0.6, 0.0, 0.0, 0.6, 0.0, 0.35, 0.06]]),
    "planes": np.array([[0.0, 0.0, 1.0, 0.0]]),
}
AVOID = fl.Avoidance(COVER, **OBSTACLES)


def centers(model, q, cover):
    """The centres (..., spheres, 3) in the world."""
    T = model.frame_placement(q, [frame for frame, *_ in cover])
    local = np.array([center for _, center, _ in cover])
    return (T[..., :3, :3] @ local[:, :, None])[..., 0] + T[..., :3, 3]


def from_obstacles(points, radii, spheres=(), capsules=(), planes=()):
    """The distances (..., n) of spheres to obstacles in NumPy, in the order of `clearances`."""
    columns = [
        np.linalg.norm(points - s[:3], axis=-1) - radii - s[3] for s in np.reshape(spheres, (-1, 4))
    ]
    for c in np.reshape(capsules, (-1, 7)):
        a, u = c[:3], c[3:6] - c[:3]
        share = np.clip((points - a) @ u / (u @ u), 0, 1)[..., None]
        columns.append(np.linalg.norm(points - a - share * u, axis=-1) - radii - c[6])
    columns += [points @ p[:3] - p[3] - radii for p in np.reshape(planes, (-1, 4))]
    return np.stack(columns, axis=-1)


def in_numpy(model, q, cover, obstacles, pairs):
    points, radii = centers(model, q, cover), np.array([radius for *_, radius in cover])
    moving = [i for i, (frame, *_) in enumerate(cover) if model.frame(frame).body >= 0]
    apart = from_obstacles(points[..., moving, :], radii[moving], **obstacles)
    i, j = np.transpose(pairs)
    own = np.linalg.norm(points[..., i, :] - points[..., j, :], axis=-1) - radii[i] - radii[j]
    return np.concatenate([apart.reshape(*q.shape[:-1], -1), own], axis=-1)


def pairs_of(model, avoid):
    """The pairs of spheres, read from the names of clearances."""
    names = model.clearance_names(avoid)
    return [(int(a.split()[-1]), int(b.split()[-1])) for a, b in names if "[" not in b]


# Clearances


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_clearances_are_the_distances(dtype):
    q = PANDA.random_configuration((3, 5), seed=0, dtype=dtype)
    avoid = fl.Avoidance(COVER, **{kind: x.astype(dtype) for kind, x in OBSTACLES.items()})
    found, pairs = PANDA.clearances(q, avoid), pairs_of(PANDA, avoid)
    assert found.dtype == dtype
    assert found.shape == (3, 5, len(PANDA.clearance_names(avoid)))
    wanted = in_numpy(PANDA, q.astype(float), COVER, OBSTACLES, pairs)
    assert_allclose(found, wanted, atol=20 * np.finfo(dtype).eps)


def test_clearances_are_those_of_coal():
    coal = pytest.importorskip("coal")
    q = PANDA.random_configuration(20, seed=1)
    found = PANDA.clearances(q, AVOID)[:, : 7 * 4].reshape(20, 7, 4)
    place, request = coal.Transform3s, coal.DistanceRequest(True, True)
    obstacles = [(coal.Sphere(s[3]), place(np.eye(3), s[:3])) for s in OBSTACLES["spheres"]]
    for capsule in OBSTACLES["capsules"]:  # upright
        shape = coal.Capsule(capsule[6], capsule[5] - capsule[2])
        obstacles.append((shape, place(np.eye(3), (capsule[:3] + capsule[3:6]) / 2)))
    obstacles += [(coal.Halfspace(p[:3], p[3]), place()) for p in OBSTACLES["planes"]]
    for k, points in enumerate(centers(PANDA, q, COVER[1:])):
        for i, point in enumerate(points):
            ball, at = coal.Sphere(COVER[1 + i][2]), place(np.eye(3), point)
            for j, (shape, where) in enumerate(obstacles):
                apart = coal.distance(ball, at, shape, where, request, coal.DistanceResult())
                assert abs(found[k, i, j] - apart) < 1e-6


def test_pairs_are_of_distant_bodies():
    avoid = fl.Avoidance(COVER)
    bodies, pairs = [PANDA.frame(x[0]).body for x in COVER], pairs_of(PANDA, avoid)
    apart = {(i, j) for i in range(8) for j in range(i + 1, 8) if abs(bodies[i] - bodies[j]) > 1}
    clear = PANDA.clearances(PANDA.neutral(), fl.Avoidance(COVER, pairs=sorted(apart))) > 0
    assert not clear.all()  # some touch
    assert pairs == [pair for pair, ok in zip(sorted(apart), clear, strict=True) if ok]
    assert pairs_of(PANDA, fl.Avoidance(COVER, pairs=[(7, 1)])) == [(7, 1)]


def test_clearances_have_derivatives_in_traces():
    """By q and by obstacles, and of second order; the same numbers as without a trace."""

    def distances(q, spheres):
        return PANDA.clearances(q, fl.Avoidance(COVER, spheres, planes=OBSTACLES["planes"]))

    shapes = {"q": 8, "spheres": (2, 4)}
    q, spheres = PANDA.random_configuration(10, seed=2), OBSTACLES["spheres"]
    assert_array_equal(fl.compile(distances, shapes)(q, spheres), distances(q, spheres))
    slopes = fl.compile(fl.jacobian(distances, shapes))(q, spheres)
    for n, x in enumerate((q, spheres)):
        steps = 1e-6 * np.eye(x[0].size if n == 0 else x.size)
        steps = steps.reshape(-1, 1, *(x.shape[1:] if n == 0 else x.shape))
        ahead, behind = ([q, spheres] for _ in range(2))
        ahead[n], behind[n] = x + steps, x - steps
        wanted = (distances(*ahead) - distances(*behind)) / 2e-6
        found = slopes[n].reshape(10, wanted.shape[-1], -1)
        assert_allclose(found, np.moveaxis(wanted, 0, -1), atol=1e-7)
    least = fl.hessian(lambda q: np.min(distances(q, spheres)), {"q": 8})
    assert np.isfinite(fl.compile(least)(q)).all()


# Spheres for a robot

PLACE = fl.Placement.of(fl.matrix_from_rpy([0.3, -0.7, 1.1]), [0.1, 0.0, 0.2])
CUBE = tuple((x, y, z) for x in (-0.1, 0.2) for y in (0.0, 0.1) for z in (-0.3, 0.3))
SHAPES = [
    ("sphere", {"size": (0.1,)}, lambda x: np.linalg.norm(x, axis=1) <= 0.1),
    (
        "capsule",
        {"size": (0.05, 0.2)},
        lambda x: np.hypot(np.hypot(*x[:, :2].T), np.maximum(abs(x[:, 2]) - 0.2, 0)) <= 0.05,
    ),
    (
        "cylinder",
        {"size": (0.05, 0.2)},
        lambda x: (np.hypot(*x[:, :2].T) <= 0.05) & (abs(x[:, 2]) <= 0.2),
    ),
    (
        "ellipsoid",
        {"size": (0.1, 0.3, 0.05)},
        lambda x: np.sum((x / [0.1, 0.3, 0.05]) ** 2, 1) <= 1,
    ),
    ("box", {"size": (0.3, 0.1, 0.05)}, lambda x: np.all(abs(x) <= [0.3, 0.1, 0.05], axis=1)),
    ("hull", {"points": CUBE}, lambda x: np.all((x >= CUBE[0]) & (x <= CUBE[-1]), axis=1)),
]


@pytest.mark.parametrize("fit", [1.05, 1.5])
@pytest.mark.parametrize(("kind", "size", "inside"), SHAPES, ids=[kind for kind, *_ in SHAPES])
def test_spheres_cover_collision_shapes(kind, size, inside, fit):
    arm = fl.load("double_pendulum")
    shape = fl.CollisionShape("shape", kind, placement=PLACE, **size)
    spheres = arm.with_collision_shapes({"link2": shape}).body_spheres(0.01, fit)
    spheres = [sphere for sphere in spheres if sphere.frame == "link2"]
    points = np.random.default_rng(0).uniform(-0.5, 0.5, (100_000, 3))
    points = points[inside(points)] @ np.array(PLACE.R).T + PLACE.p
    assert len(points) > 100
    away = [np.linalg.norm(points - center, axis=1) - radius for _, center, radius in spheres]
    assert np.min(away, axis=0).max() <= 1e-9
    assert len(spheres) > 3 or fit > 1.1 or kind == "sphere"


def test_spheres_along_the_bones_of_bodies_without_shapes():
    """They hold what is near each line from a body's origin to its joint, and to its frames."""
    spheres, q = PANDA.body_spheres(0.06), PANDA.random_configuration(seed=3)
    points, radii = centers(PANDA, q, spheres), np.array([x.radius for x in spheres])
    names = ["panda_link0", *PANDA.joint_names[:7], HAND, "panda_hand_tcp"]
    T = PANDA.frame_placement(q, names)
    for start, end in zip(T[:-1, :3, 3], T[1:, :3, 3], strict=True):
        across = np.linalg.svd((end - start)[None])[2][1:]
        for share in np.linspace(0, 1, 21):
            for side in 0.0599 * np.concatenate([across, -across]):
                away = np.linalg.norm(points - start - share * (end - start) - side, axis=1)
                assert np.min(away - radii) <= 0
    assert radii.max() <= 1.25 * 0.06
    assert len(PANDA.body_spheres(0.06, 1.1)) > len(spheres)
    assert len(PANDA.clearance_names(fl.Avoidance(spheres))) > 100


# Inverse kinematics


def clear_targets(avoid, count, seed=0, params=None):
    """Placements of the hand at configurations that are clear by a centimetre more."""
    q = PANDA.random_configuration(8 * count, seed=seed)
    least = PANDA.clearances(q, avoid, params=params).min(-1)
    q = q[least > avoid.margin + 0.01][:count]
    assert len(q) == count
    return PANDA.frame_placement(q, HAND, params=params)


@pytest.mark.parametrize("margin", [0.0, 0.03])
def test_answers_are_clear_and_lead_to_the_targets(margin):
    avoid = fl.Avoidance(COVER, **OBSTACLES, margin=margin)
    targets = clear_targets(avoid, 2000)
    plain = PANDA.inverse_kinematics(targets, HAND)
    assert np.isinf(plain.clearance).all()
    targets = targets[PANDA.clearances(plain.q, avoid).min(-1) < margin]  # others need no effort
    assert len(targets) > 50
    found = PANDA.inverse_kinematics(targets, HAND, avoid=avoid)
    assert found.converged.mean() > 0.95
    least = in_numpy(PANDA, found.q, COVER, OBSTACLES, pairs_of(PANDA, avoid)).min(-1)
    assert_allclose(found.clearance, least, atol=1e-14)
    assert np.all(least[found.converged] >= margin)
    away = np.abs(PANDA.frame_placement(found.q, HAND) - targets)
    assert away[found.converged].max() < 1e-3
    assert_array_equal(PANDA.clip(found.q), found.q)


def test_obstacles_of_each_target():
    """Targets with obstacles of their own get what each of them gets alone, by the same code."""
    targets = clear_targets(AVOID, 6)
    spheres = OBSTACLES["spheres"] + 0.05 * np.random.default_rng(0).normal(size=(6, 2, 4))
    spheres[..., 3] = 0.1
    together = PANDA.inverse_kinematics(targets, HAND, avoid=fl.Avoidance(COVER, spheres))
    solvers = len(PANDA._solvers)
    for k in range(6):
        avoid = fl.Avoidance(COVER, spheres[k].tolist())
        alone = PANDA.inverse_kinematics(targets[k], HAND, avoid=avoid)
        for x, y in zip(together, alone, strict=True):
            assert_array_equal(x[k], y)
    assert len(PANDA._solvers) == solvers


def test_a_target_inside_of_an_obstacle_is_not_reached():
    targets = clear_targets(AVOID, 5)
    spheres = np.zeros((5, 1, 4))
    spheres[:, 0, 0] = 5.0  # far away
    spheres[2, 0] = [*targets[2, :3, 3], 0.2]
    avoid = fl.Avoidance(COVER, spheres)
    found = PANDA.inverse_kinematics(targets, HAND, avoid=avoid, restarts=3)
    assert_array_equal(found.converged, [True, True, False, True, True])
    assert found.position_error[2] > 0.1
    assert np.isfinite(found.q).all()


def test_joints_that_move_no_frame_do_not_give_way():
    robot = fl.load("hyq")
    legs = [f"{leg}_lowerleg" for leg in ("lf", "rf", "lh", "rh")]
    cover = [(leg, (0.0, 0.0, -0.1), 0.1) for leg in legs]
    q0 = robot.clip(robot.neutral())
    lower = robot.frame_placement(q0, legs)[:, :3, 3]
    avoid = fl.Avoidance(cover, spheres=[[*lower[1], 0.05], [5.0, 0.0, 0.0, 0.1]])
    target = lower[0] + [0.05, 0.0, 0.05]
    found = robot.inverse_kinematics(target, legs[0], q0=q0, avoid=avoid, restarts=1)
    moved = [name for name, x in zip(robot.joint_names, found.q != q0, strict=True) if x]
    assert moved
    assert all(name.startswith("lf_") for name in moved)
    assert not found.converged
    assert found.clearance < 0  # the other leg is in the obstacle


@pytest.mark.parametrize("avoid", [None, AVOID])
def test_placements_of_joints_are_parameters(avoid):
    params = PANDA.parameters("position", "orientation")
    params["position"][4] += [0.02, 0.0, 0.03]
    params["orientation"][5] = fl.quaternion_product(
        params["orientation"][5], fl.quaternion_from_rpy([0.05, 0.02, 0.0])
    )
    changed = PANDA.with_parameters(params)
    targets = changed.frame_placement(PANDA.random_configuration(40, seed=4), HAND)
    options = {"avoid": avoid, "restarts": 3}
    found = PANDA.inverse_kinematics(targets, HAND, params=params, **options)
    wanted = changed.inverse_kinematics(targets, HAND, **options)
    assert found.converged.mean() > (0.85 if avoid is None else 0.3)
    assert_array_equal(found.converged, wanted.converged)
    assert_allclose(found.clearance, wanted.clearance, atol=1e-3)
    away = np.abs(changed.frame_placement(found.q, HAND) - targets)
    assert away[found.converged].max() < 1e-3
    each = {name: np.stack([x] * 40) for name, x in params.items()}
    again = PANDA.inverse_kinematics(targets, HAND, params=each, **options)
    assert_array_equal(again.q, found.q)


# Wrong arguments

WRONG = [
    ({"body_spheres": [("panda_link9", (0, 0, 0), 0.1)]}, "no frame 'panda_link9'.*panda_link"),
    ({"body_spheres": [(HAND, (0, 0, 0), -0.1)]}, r"body_spheres\[0\] has radius -0.1: wanted"),
    ({"body_spheres": [(HAND, (0, 0), 0.1)]}, r"body_spheres\[0\] is .*wanted \(frame, centre"),
    ({"body_spheres": [HAND]}, r"body_spheres\[0\] is 'panda_hand': wanted"),
    ({"body_spheres": []}, "body_spheres is empty"),
    ({"body_spheres": {HAND: 0.1}}, "body_spheres is .*wanted a list"),
    ({"spheres": [0.1, 0.2, 0.3, 0.1]}, r"spheres has shape \(4,\): wanted \(..., n, 4\)"),
    ({"capsules": [[0.1, 0.2, 0.3, 0.1]]}, r"capsules has shape \(1, 4\): wanted \(..., n, 7\)"),
    ({"spheres": [[1.0, 0, 0, 0.1], [1.0, 0, 0, -0.1]]}, r"spheres\[1\] has radius -0.1"),
    ({"planes": [[0.0, 0, 2, 0]]}, r"planes\[0\] has a normal of length 2.0: wanted 1"),
    ({"planes": None, "pairs": ()}, "avoid has nothing to keep clear of"),
    ({"pairs": [(0, 8)]}, r"pairs has \(0, 8\): wanted two different numbers.*0 to 7"),
    ({"pairs": "none"}, "pairs is 'none'"),
    ({"pairs": [3]}, r"pairs is \[3\]: wanted pairs"),
    ({"margin": -0.1}, "margin is -0.1: wanted metres"),
    ({"margin": np.inf}, "margin is inf: wanted metres, finite"),
    ({"spheres": [[0, np.nan, 0, 1]]}, r"spheres\[0\] has \[.*nan.*\]: wanted numbers"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_wrong_surroundings_are_named(changes, message):
    avoid = fl.Avoidance(**({"body_spheres": COVER, "planes": [[0, 0, 1, 0]]} | changes))
    for call in (
        lambda: PANDA.clearances(PANDA.neutral(), avoid),
        lambda: PANDA.inverse_kinematics(np.eye(4), HAND, avoid=avoid),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()


def test_other_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"radius is -0\.1: wanted metres"):
        PANDA.body_spheres(-0.1)
    with pytest.raises(ValueError, match="fit is 1: wanted a number above 1"):
        PANDA.body_spheres(0.1, fit=1)
    with pytest.raises(TypeError, match=r"avoid is \[.*wanted fl.Avoidance"):
        PANDA.inverse_kinematics(np.eye(4), HAND, avoid=COVER)
    with pytest.raises(ValueError, match="params has 'mass': placements depend on position and"):
        PANDA.inverse_kinematics(np.eye(4), HAND, params={"mass": np.ones(9)})
    with pytest.raises(ValueError, match=r"position has shape \(3,\), wanted \(..., 9, 3\)"):
        PANDA.inverse_kinematics(np.eye(4), HAND, params={"position": np.ones(3)})
    far = fl.Avoidance(COVER, np.ones((3, 2, 4)))
    with pytest.raises(ValueError, match=r"lead.*spheres \(3,\)"):
        PANDA.inverse_kinematics(np.stack([np.eye(4)] * 2), HAND, avoid=far)
