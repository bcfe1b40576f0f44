"""Limits as arrays, `clip`, joints by name, and the types of arguments."""

import inspect
import subprocess
import sys

import numpy as np
import pytest
from documents import ROOT
from repetition import full

import featherlane as fl
from featherlane.api.limits import PositionLimits

INF = np.inf


def gripper(**follower):
    """A finger of 0 to 0.04 m that others follow, on a spherical joint."""
    b = fl.ModelBuilder("gripper")
    b.link("base")
    for name in ("palm", "finger", "other"):
        b.link(name, mass=1.0, inertia=np.eye(3))
    b.joint("wrist", "spherical", "base", "palm", velocity=2.0, effort=5.0)
    slide = {"type": "prismatic", "axis": (1, 0, 0)}
    limits = {"lower": 0.0, "upper": 0.04, "velocity": 0.2, "effort": 20.0}
    b.joint("finger", parent="palm", child="finger", **slide, **limits)
    b.joint("other", parent="palm", child="other", **slide, **follower)
    return b.build()


def test_limits_are_in_the_order_of_q_and_v():
    model = gripper(lower=-1.0)
    assert model.joint_names == ("wrist", "finger", "other")
    assert isinstance(model.position_limits, PositionLimits)
    lower, upper = model.position_limits
    assert lower.tolist() == [-INF] * 4 + [0.0, -1.0]
    assert upper.tolist() == [INF] * 4 + [0.04, INF]
    assert model.velocity_limits.tolist() == [2.0] * 3 + [0.2, INF]
    assert model.effort_limits.tolist() == [5.0] * 3 + [20.0, INF]


@pytest.mark.parametrize(
    ("ratio", "offset", "narrowed", "speed"),
    [(1.0, 0.0, (0.0, 0.03), 0.1), (-2.0, 0.05, (0.01, 0.03), 0.05), (0.0, 0.0, (0.0, 0.04), 0.2)],
)
def test_followers_narrow_the_limits_of_their_leader(ratio, offset, narrowed, speed):
    limits = {"lower": -0.01, "upper": 0.03, "velocity": 0.1, "effort": 1.0}
    model = gripper(mimic=fl.Mimic("finger", ratio, offset), **limits)
    lower, upper = model.position_limits
    np.testing.assert_allclose((lower[4], upper[4]), narrowed, atol=1e-15)
    assert model.velocity_limits[3] == speed
    assert model.effort_limits[3] == 20.0
    assert (model.nq, model.nv) == (5, 4)


@pytest.mark.parametrize("robot", ["iiwa14", "panda", "quadruped_arm", "mobile_arm"])
def test_random_configurations_lie_within_the_limits(robot):
    model = fl.load(robot, root="free")
    lower, upper = model.position_limits
    assert lower.shape == upper.shape == (model.nq,)
    assert model.velocity_limits.shape == model.effort_limits.shape == (model.nv,)
    assert np.isinf(lower[:7]).all()
    for dtype in (np.float64, np.float32):
        q = model.random_configuration(100, seed=0, dtype=dtype)
        assert ((lower <= q) & (q <= upper)).all()
        assert np.array_equal(model.clip(q), q)


def test_limits_without_room_count_as_none():
    model = gripper(lower=0.5, upper=0.5)
    assert (model.position_limits.lower[5], model.position_limits.upper[5]) == (-INF, INF)


def test_limits_of_zero_count_as_none():
    model = fl.load("double_pendulum")
    assert model.joint("joint1").effort == model.joint("joint1").velocity == 0.0
    assert np.isinf([*model.effort_limits, *model.velocity_limits]).all()
    assert np.abs(model.random_velocity(100, seed=0)).max() > 0.9
    motor = model.actuation(["joint1"])
    assert (
        np.abs(model.linearize_step(np.zeros(2), np.zeros(2), [0.5], 0.01, actuation=motor).B).max()
        > 0
    )
    for kind in ("effort", "velocity"):
        assert f"{kind} limits of 0, which count as none: joint1, joint2" in model.notes
    follower = gripper(mimic=fl.Mimic("finger"), velocity=0.0)
    assert follower.velocity_limits[3] == 0.2


def test_limits_are_read_only():
    model = fl.load("iiwa14")
    for array in (*model.position_limits, model.velocity_limits, model.effort_limits):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


def test_clip_moves_configurations_into_the_limits():
    model = gripper()
    q = np.array([[3.0, 0.0, 0.0, 4.0, -1.0, 9.0], [0.0, 0.0, 0.0, 1.0, 0.01, np.nan]])
    found = model.clip(q)
    np.testing.assert_array_equal(found, [[3, 0, 0, 4, 0.0, 9], [0, 0, 0, 1, 0.01, np.nan]])
    assert q[0, 4] == -1.0
    assert model.clip([0, 0, 0, 1, 2, 3]).tolist() == [0, 0, 0, 1, 0.04, 3]
    with pytest.raises(ValueError, match=r"q has shape \(3,\), wanted \(\.\.\., 6\)"):
        model.clip(np.zeros(3))


def test_clip_in_a_trace():
    model = gripper()
    q = np.array([[3.0, 0.0, 0.0, 4.0, -1.0, 9.0], [0.0, 0.0, 0.0, 1.0, 0.05, np.nan]])
    for dtype in (np.float64, np.float32):
        found = fl.compile(lambda q: model.clip(2 * q), {"q": 6})(q.astype(dtype))
        np.testing.assert_array_equal(found, np.clip(2 * q, *model.position_limits).astype(dtype))
    many = fl.compile(lambda q: model.clip(q), {"q": (2, 6)})(q)
    np.testing.assert_array_equal(many, model.clip(q))
    graph = fl.trace(lambda q: model.clip(q), {"q": 6})
    assert graph.op.count("less") == 2  # of the two limits: nothing is computed where there is none
    with pytest.raises(ValueError, match=r"q has shape \(3,\), wanted \(\.\.\., 6\)"):
        fl.trace(lambda q: model.clip(q), {"q": 3})


def test_clipped_float32_is_within_limits_that_it_cannot_represent():
    model = gripper()
    for high in (9.0, -9.0):
        q = model.clip(np.full(6, high, np.float32))
        assert q.dtype == np.float32
        assert 0.0 <= float(q[4]) <= 0.04
    assert float(np.float32(0.04)) < 0.04 or float(model.clip(np.full(6, 9.0, "f4"))[4]) < 0.04
    huge = gripper(lower=-1e300, upper=1e300)
    assert np.isfinite(huge.clip(np.full(6, np.inf, np.float32))[5])


def test_joints_by_name():
    model = fl.load("panda")
    assert model.joint("panda_joint4") is model.joints[3]
    with pytest.raises(ValueError, match=r"there is no joint 'joint4'.*panda_joint4"):
        model.joint("joint4")
    with pytest.raises(ValueError, match=r"there is no joint 4"):
        model.joint(4)


# Types


def test_no_array_of_a_public_method_is_untyped():
    arrays = {"q", "v", "a", "tau", "q0", "q1", "minv", "weights", "direction", "f_ext"}
    checked = 0
    for name, method in inspect.getmembers(fl.Model, inspect.isfunction):
        if not name.startswith("_"):
            for argument in inspect.signature(method).parameters.values():
                if argument.name in arrays and argument.annotation != "str | None":
                    assert "ArrayLike" in argument.annotation or argument.annotation == "Wrenches"
                    checked += 1
    assert checked > 60


RIGHT = """
import numpy as np
import featherlane as fl

class Tensor:
    def __dlpack__(self, stream: object = None) -> object: ...

model = fl.load("iiwa14")
x, f32 = np.zeros(7), np.zeros((3, 7), np.float32)
wrench = {"iiwa_link_ee": np.zeros(6)}
model.inverse_dynamics(x, [0.0] * 7, [[1, 2.0], [3, 4]], f_ext=wrench, params={"mass": [1.0] * 7})
model.forward_dynamics(Tensor(), f32, [x, x], f_ext=x, out=f32, threads=2)
model.integrate(x, 0.5 * x)
model.function("mass_matrix")(x, out=x)
"""
WRONG = """
import featherlane as fl

model = fl.load("iiwa14")
model.mass_matrix(None)
model.mass_matrix({"q": [1.0]})
model.mass_matrix("0 0 0 0 0 0 0")
model.integrate(1j, [0.0])
model.inverse_dynamics([0.0], [0.0], [0.0], f_ext={1: [0.0]})
model.clip({0.0})
fl.convert.to_mujoco(model, None)
model.function("mass_matrix")(None)
"""


@full  # half a minute without mypy's cache
def test_mypy_takes_arrays_and_refuses_other_types(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--follow-imports=silent"]
    found = subprocess.run(
        [*command, str(tmp_path / "right.py"), str(tmp_path / "wrong.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    told = [line for line in found.stdout.splitlines() if ": error:" in line]
    lines = [int(line.partition("wrong.py:")[2].partition(":")[0] or 0) for line in told]
    assert sorted(set(lines)) == list(range(5, 13)), found.stdout + found.stderr
