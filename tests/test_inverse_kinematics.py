"""Inverse kinematics: what is found leads to the targets, by the model's own kinematics."""

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose, assert_array_equal
from repetition import repeated

import featherlane as fl
from featherlane.algorithms.inverse_kinematics import solved

IIWA, PANDA = fl.load("iiwa14"), fl.load("panda")
ARMS = {"iiwa14": (IIWA, "iiwa_link_7"), "panda": (PANDA, "panda_hand")}


def errors(model, frame, q, targets):
    """The distance and the angle between a frame and its targets."""
    T = model.frame_placement(q, frame)
    distance = np.linalg.norm(T[..., :3, 3] - targets[..., :3, 3], axis=-1)
    R = np.swapaxes(T[..., :3, :3], -1, -2) @ targets[..., :3, :3]
    # The chord of the angle, which is exact where its cosine is not
    chord = np.linalg.norm(R - np.eye(3), axis=(-2, -1)) / np.sqrt(8)
    return distance, 2 * np.arcsin(np.minimum(chord, 1))


def reachable(model, frame, batch, seed=0, dtype=float):
    return model.frame_placement(model.random_configuration(batch, seed=seed, dtype=dtype), frame)


@pytest.mark.parametrize("robot", ARMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_answers_lead_to_the_targets_within_the_limits(robot, dtype):
    model, frame = ARMS[robot]
    targets = reachable(model, frame, (10, 50), dtype=dtype)
    found = model.inverse_kinematics(targets, frame)
    assert found.q.dtype == found.position_error.dtype == dtype
    assert found.q.shape == (10, 50, model.nq)
    assert found.converged.mean() > 0.98
    distance, angle = errors(model, frame, found.q, targets)
    rounding = 100 * np.finfo(dtype).eps
    assert_allclose(found.position_error, distance, atol=rounding)
    assert_allclose(found.rotation_error, angle, atol=rounding)
    assert_array_equal(
        found.converged, (found.position_error <= 1e-4) & (found.rotation_error <= 1e-3)
    )
    lower, upper = model.position_limits
    assert np.all((found.q >= lower) & (found.q <= upper))
    assert np.all((found.iterations > 0) & (found.iterations <= 20 * 17))


@pytest.mark.parametrize("dtype", repeated([np.float32, np.float64]))
def test_limits_may_be_left_out(dtype):
    targets = reachable(PANDA, "panda_hand", 200, dtype=dtype)
    q0 = PANDA.random_configuration(200, seed=1, dtype=dtype)
    found = PANDA.inverse_kinematics(targets, "panda_hand", q0=q0, limits=False, restarts=0)
    inside = PANDA.inverse_kinematics(targets, "panda_hand", q0=q0, restarts=0)
    assert found.q.dtype == dtype
    assert found.converged.sum() > inside.converged.sum()
    assert np.any(np.abs(PANDA.clip(found.q) - found.q) > 0.1)


def test_tolerances_are_kept():
    targets = reachable(IIWA, "iiwa_link_7", 100)
    found = IIWA.inverse_kinematics(targets, "iiwa_link_7", tolerance=(1e-10, 1e-9))
    distance, angle = errors(IIWA, "iiwa_link_7", found.q, targets)
    assert found.converged.mean() > 0.9
    assert distance[found.converged].max() < 1e-10
    assert angle[found.converged].max() < 1e-9


def test_a_start_at_the_answer_stays():
    q0 = IIWA.random_configuration(20, seed=2)
    found = IIWA.inverse_kinematics(IIWA.frame_placement(q0, "iiwa_link_7"), "iiwa_link_7", q0=q0)
    assert_allclose(found.q, q0, atol=1e-9)


def test_positions_alone():
    targets = reachable(IIWA, "iiwa_link_7", 100)[:, :3, 3]
    found = IIWA.inverse_kinematics(targets, "iiwa_link_7")
    assert found.converged.all()
    assert_allclose(IIWA.frame_placement(found.q, "iiwa_link_7")[:, :3, 3], targets, atol=1e-4)
    assert not found.rotation_error.any()


def test_half_turns_are_found():
    """Where the error has no antisymmetric part: about each axis, exactly."""
    q0 = np.array([0.3, 0.8, -0.4, -1.2, 0.5, 0.9, 0.2])
    start = IIWA.frame_placement(q0, "iiwa_link_7")
    turned = np.array([start @ np.diag([*d, 1.0]) for d in ((1, -1, -1), (-1, 1, -1), (-1, -1, 1))])
    assert IIWA.inverse_kinematics(turned, "iiwa_link_7", q0=q0).converged.all()


# Several frames, free roots, all joints


def test_several_frames_of_a_free_robot():
    """Poses and positions, each of its own frame; quaternions stay unit."""
    robot = fl.load("hyq", root="free")
    feet = [name for name in robot.frame_names if name.endswith("lowerleg")]
    q = robot.random_configuration(100, seed=3)
    targets = {name: robot.frame_placement(q, name)[:, :3, 3] for name in feet}
    targets |= {"base_link_0": robot.frame_placement(q, "base_link_0")}
    found = robot.inverse_kinematics(targets)
    assert len(feet) == 4
    assert found.converged.mean() > 0.95
    for name in feet:
        T = robot.frame_placement(found.q[found.converged], name)
        assert_allclose(T[:, :3, 3], targets[name][found.converged], atol=1e-4)
    distance, angle = errors(robot, "base_link_0", found.q, targets["base_link_0"])
    assert np.all((distance < 1e-4) & (angle < 1e-3), where=found.converged)
    assert_allclose(np.linalg.norm(found.q[:, 3:7], axis=1), 1, atol=1e-12)


JOINTS = [
    ("spherical", "universal", "prismatic", "revolute"),
    ("planar", "helical", "cylindrical", "revolute", "revolute"),
    ("free",),
    ("translation", "spherical"),
]


@pytest.mark.parametrize("kinds", repeated(JOINTS, 2, spread=False), ids=",".join)
def test_all_joints(kinds):
    model = textbook.tree(kinds)
    frame = model.frame_names[-1]
    found = model.inverse_kinematics(reachable(model, frame, 50, seed=4), frame)
    assert found.converged.mean() > 0.9
    distance, angle = errors(model, frame, found.q, reachable(model, frame, 50, seed=4))
    assert np.all((distance < 1e-4) & (angle < 1e-3), where=found.converged)


def test_joints_that_move_no_frame_stay():
    """Also where targets are tried again from other starts."""
    robot = fl.load("hyq")
    q = robot.random_configuration((2, 50), seed=6)
    targets = robot.frame_placement(q[0], "rf_lowerleg")[:, :3, 3]
    targets[:5] += 1.0  # out of reach
    found = robot.inverse_kinematics(targets, "rf_lowerleg", q0=q[1], restarts=3)
    own = [name.startswith("rf_") for name in robot.joint_names]
    assert_array_equal(np.any(found.q != q[1], axis=0), own & np.any(found.q != q[1], axis=0))
    assert found.converged.sum() == 45
    assert found.iterations[:5].min() == 4 * 20


# Posture


def test_a_posture_is_approached_in_the_null_space():
    targets = reachable(IIWA, "iiwa_link_7", 200)
    posture = 0.5 * IIWA.random_configuration(200, seed=5)
    plain = IIWA.inverse_kinematics(targets, "iiwa_link_7")
    near = IIWA.inverse_kinematics(
        targets, "iiwa_link_7", q0=plain.q, posture=posture, iterations=60, restarts=0
    )
    both = plain.converged & near.converged
    assert both.mean() > 0.95
    before, after = (np.linalg.norm(x.q - posture, axis=1)[both] for x in (plain, near))
    assert np.mean(after < before + 1e-3) > 0.9
    assert np.mean(after) < 0.95 * np.mean(before)
    # It ends where J's null space, as far as limits leave it free, is orthogonal to the way left
    inside = both & np.all(np.abs(IIWA.position_limits.upper) - np.abs(near.q) > 1e-3, axis=1)
    q, J = near.q[inside], IIWA.jacobian(near.q[inside], "iiwa_link_7", "world")
    null = np.linalg.svd(J)[2][:, -1]
    assert len(q) > 100
    assert np.median(np.abs(np.sum(null * (posture[inside] - q), axis=1))) < 0.02


# Restarts, and what does not depend on others


def test_restarts_find_more():
    targets = reachable(PANDA, "panda_hand", 400)
    rates = [
        PANDA.inverse_kinematics(targets, "panda_hand", restarts=n).converged.mean()
        for n in (0, 2, 16)
    ]
    assert rates[0] < rates[1] < rates[2]
    assert rates[2] > 0.99


def test_results_do_not_depend_on_the_batch():
    targets = reachable(PANDA, "panda_hand", 300)
    together = PANDA.inverse_kinematics(targets, "panda_hand", threads=2)
    order = np.random.default_rng(0).permutation(300)
    assert together.iterations.max() > 20  # some are restarted
    for part in (order, order[:40], order[:1], np.flatnonzero(together.iterations > 60)[:1]):
        again = PANDA.inverse_kinematics(targets[part], "panda_hand", threads=1)
        for x, y in zip(together, again, strict=True):
            assert_array_equal(x[part], y)
    other = PANDA.inverse_kinematics(targets, "panda_hand", seed=1)
    assert np.any(other.q != together.q)


def test_what_cannot_be_reached_is_said():
    targets = reachable(IIWA, "iiwa_link_7", 20)
    targets[3, :3, 3] = 5, 0, 1
    targets[7, 0, 3] = np.nan
    found = IIWA.inverse_kinematics(targets, "iiwa_link_7", restarts=4)
    assert_array_equal(np.flatnonzero(~found.converged), [3, 7])
    assert np.isfinite(found.q).all()
    arm = IIWA.frame_placement(found.q[3], "iiwa_link_7")[:3, 3]
    assert 3.9 < found.position_error[3] < 4.4  # it is stretched towards the target
    assert_allclose(np.linalg.norm(arm - [5, 0, 1]), found.position_error[3])
    assert np.isinf(found.position_error[7])
    alone = IIWA.inverse_kinematics(np.delete(targets, [3, 7], 0), "iiwa_link_7", restarts=4)
    assert_array_equal(alone.q, np.delete(found.q, [3, 7], 0))


def test_no_frame_hides_the_nan_of_another():
    robot = fl.load("hyq")
    q = robot.random_configuration(3, seed=0)
    legs = ("lf_lowerleg", "rf_lowerleg", "rh_lowerleg")
    for bad in legs:
        targets = {name: robot.frame_placement(q, name)[:, :3, 3] for name in legs}
        targets[bad][1] = np.nan
        found = robot.inverse_kinematics(targets, restarts=1)
        assert_array_equal(found.converged, [True, False, True])
        assert np.isinf(found.position_error[1])


def test_leading_dimensions_broadcast():
    target, q0 = reachable(IIWA, "iiwa_link_7", ()), IIWA.random_configuration((3, 1), seed=6)
    assert IIWA.inverse_kinematics(target, "iiwa_link_7").q.shape == (7,)
    found = IIWA.inverse_kinematics(np.stack([target, target]), "iiwa_link_7", q0=q0)
    assert found.q.shape == (3, 2, 7)
    assert_array_equal(found.q[:, 0], found.q[:, 1])
    assert IIWA.inverse_kinematics(np.zeros((0, 3)), "iiwa_link_7").q.shape == (0, 7)


def test_systems_are_solved():
    rng = np.random.default_rng(0)
    for n in (1, 3, 6, 12):
        A = rng.normal(size=(n, n))
        A, b = A @ A.T + np.eye(n), rng.normal(size=n)
        rows = [list(A[i, : i + 1]) for i in range(n)]
        assert_allclose(solved(rows, b), np.linalg.solve(A, b), rtol=1e-9)


POSE = np.eye(4)
WRONG = [
    ((POSE, "iiwa_link_8"), {}, ValueError, "no frame 'iiwa_link_8'.*iiwa_link_7"),
    ((POSE, None), {}, TypeError, "frame is missing"),
    ((POSE, "iiwa_link_0"), {}, ValueError, "fixed to the ground"),
    (({"iiwa_link_7": POSE}, "iiwa_link_7"), {}, TypeError, "without frame="),
    (({}, None), {}, TypeError, "targets is {}"),
    ((np.zeros(7), "iiwa_link_7"), {}, ValueError, r"targets has shape \(7,\).*poses"),
    ((POSE[:3], "iiwa_link_7"), {}, ValueError, r"targets has shape \(3, 4\).*poses"),
    ((POSE, "iiwa_link_7"), {"q0": np.zeros(6)}, ValueError, "q0 has shape.*nq = 7"),
    ((POSE, "iiwa_link_7"), {"q0": np.zeros(7, "f4")}, TypeError, "float32"),
    ((POSE, "iiwa_link_7"), {"iterations": 0}, ValueError, "iterations is 0"),
    ((POSE, "iiwa_link_7"), {"restarts": -1}, ValueError, "restarts is -1"),
    ((POSE, "iiwa_link_7"), {"seed": None}, ValueError, "seed is None"),
    ((POSE, "iiwa_link_7"), {"tolerance": 1e-3}, ValueError, "tolerance is 0.001"),
    ((POSE, "iiwa_link_7"), {"tolerance": (0, 1)}, ValueError, "two positive numbers"),
    ((POSE, "iiwa_link_7"), {"posture": [0.0] * 7, "posture_gain": 2}, ValueError, "posture_gain"),
    ((POSE, "iiwa_link_7"), {"threads": 0}, ValueError, "threads is 0"),
]


@pytest.mark.parametrize(("arguments", "options", "error", "message"), WRONG)
def test_wrong_arguments_are_named(arguments, options, error, message):
    with pytest.raises(error, match=message):
        IIWA.inverse_kinematics(*arguments, **options)


def test_a_trace_is_refused():
    with pytest.raises(TypeError, match="in a trace"):
        fl.trace(lambda T: IIWA.inverse_kinematics(T, "iiwa_link_7").q, {"T": (4, 4)})


def test_what_is_no_pose_is_refused():
    panda = fl.load("panda")
    q = panda.random_configuration((4, 5), seed=0)
    poses = panda.frame_placement(q, "panda_hand")
    assert panda.inverse_kinematics(poses, "panda_hand").converged.shape == (4, 5)
    mirrored, moved = poses.copy(), poses.copy()
    mirrored[2, 3, :3, 0] *= -1
    moved[1, 0, 3] = (5, 5, 5, 7)
    for wrong, where in (
        (mirrored, r"targets\[2, 3\]"),
        (moved, r"targets\[1, 0\]"),
        (np.swapaxes(poses, -1, -2), r"targets\[0, 0\]"),
        (np.zeros((4, 4)), "targets"),
    ):
        with pytest.raises(ValueError, match=f"{where} is no pose: wanted"):
            panda.inverse_kinematics(wrong, "panda_hand")


def test_quaternions_of_length_0_are_refused():
    free = fl.load("double_pendulum", root="free")
    target = free.frame_placement(free.neutral(), "link2")
    with pytest.raises(ValueError, match="posture has a quaternion of length 0: wanted length 1"):
        free.inverse_kinematics(target, "link2", posture=np.zeros(free.nq))
