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


@pytest.mark.parametrize(("limits", "at"), [('lower="0.5" upper="0.50"', "0.5"), ("", "0")])
def test_the_card_lists_limits_without_room(limits, at):
    model = fl.load(
        '<robot name="slide"><link name="base"/><link name="cart"/>'
        '<joint name="j" type="prismatic"><parent link="base"/><child link="cart"/>'
        f'<limit {limits} velocity="1" effort="1"/></joint></robot>'
    )
    assert f"lower limit equal to the upper one, taken as unlimited: j ({at})" in model.notes


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


def test_joints_by_name():
    model = fl.load("panda")
    assert model.joint("panda_joint4") is model.joints[3]
    with pytest.raises(ValueError, match=r"there is no joint 'joint4'.*panda_joint4"):
        model.joint("joint4")
    with pytest.raises(ValueError, match=r"joint is 4: wanted the name of a joint"):
        model.joint(4)


# Types


def test_no_array_of_a_public_method_is_untyped():
    arrays = {"q", "v", "a", "tau", "q0", "q1", "minv", "weights", "direction", "f_ext"}
    words = ("str | None", "WrenchFrame | None")  # f_ext of `function` and `graph`
    checked = 0
    for name, method in inspect.getmembers(fl.Model, inspect.isfunction):
        if not name.startswith("_"):
            for argument in inspect.signature(method).parameters.values():
                if argument.name in arrays and argument.annotation not in words:
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


# Limits that mean none

HUGE = ("1e9", "1e16", "3.4028234663852886e38", "1.7976931348623157e308", "1e999", "inf")


def cart(low, high, rate):
    """A slide and two turns, the first two with limits that are given."""
    inertial = (
        '<inertial><origin xyz="0.1 0 0.2"/><mass value="2"/>'
        '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
    )
    limits = [f'lower="{low}" upper="{high}" velocity="{rate}" effort="{rate}"'] * 2
    joints = [
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{name}_link"/>'
        f'<origin xyz="0.4 0 0"/><axis xyz="{axis}"/><limit {limit}/></joint>'
        for name, kind, parent, axis, limit in zip(
            ("x", "r", "s"),
            ("prismatic", "revolute", "revolute"),
            ("base", "x_link", "r_link"),
            ("1 0 0", "0 0 1", "0 1 0"),
            [*limits, 'lower="-1" upper="1" velocity="2" effort="3"'],
            strict=True,
        )
    ]
    links = [f'<link name="{name}_link">{inertial}</link>' for name in "xrs"]
    return f'<robot name="cart"><link name="base"/>{"".join(links + joints)}</robot>'


@pytest.mark.parametrize("huge", HUGE)
def test_huge_limits_are_as_none(huge):
    """Positions, velocities, efforts, in both dtypes: the same robot as with infinite ones."""
    model, without = fl.load(cart("-" + huge, huge, huge)), fl.load(cart("-inf", "inf", "inf"))
    assert model.joints == without.joints
    assert model.position_limits.lower.tolist() == [-INF, -INF, -1.0]
    assert model.position_limits.upper.tolist() == [INF, INF, 1.0]
    assert model.velocity_limits.tolist() == [INF, INF, 2.0]
    assert model.effort_limits.tolist() == [INF, INF, 3.0]
    told = [note for note in model.notes if "which count as none" in note]
    assert [note.partition(": ")[2] for note in told] == (
        [] if np.isinf(float(huge)) else [f"x ({float(huge):.3g}), r ({float(huge):.3g})"]
    )
    assert "3.4e+38" not in str(model).split("notes")[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_states_and_inverse_kinematics_of_huge_limits(dtype):
    model = fl.load(cart("-1e16", "1e16", "1e16"))
    q = model.random_configuration(100, seed=0, dtype=dtype)
    v = model.random_velocity(100, seed=0, dtype=dtype)
    assert np.abs(q).max(0)[0] <= 1.0
    assert np.abs(q).max() <= np.pi
    assert np.abs(v).max() <= 2.0
    goal = model.frame_placement(q, "s_link")
    found = model.inverse_kinematics(goal, "s_link")  # warnings are errors
    assert found.converged.all()
    assert np.abs(found.q).max() < 100


def test_one_huge_limit_leaves_the_other():
    model = fl.load(cart("-1e9", "0.5", "1"))
    assert (model.joint("x").lower, model.joint("x").upper) == ((-INF,), (0.5,))
    q = model.random_configuration(100, seed=0)
    assert (q[:, 0] <= 0.5).all()
    assert (q[:, 0] >= -1.5).all()


def test_limits_a_kilometre_apart_are_not_drawn_from():
    model = fl.load(cart("-1e6", "1e6", "1"))
    assert model.position_limits.upper[0] == 1e6
    assert np.abs(model.random_configuration(100, seed=0)[:, 0]).max() <= 1.0


def test_a_follower_that_hardly_moves_gives_its_leader_no_huge_limit():
    model = gripper(mimic=fl.Mimic("finger", 1e-12, 0.0), lower=-1.0, upper=1.0, velocity=1.0)
    b = fl.ModelBuilder("two")
    b.link("base")
    for name in ("leader", "follower"):
        b.link(name, mass=1.0, inertia=np.eye(3))
    b.joint("leader", "revolute", "base", "leader")
    law = fl.Mimic("leader", 1e-12, 0.0)
    b.joint("follower", "revolute", "leader", "follower", mimic=law, lower=-1.0, upper=1.0)
    assert model.position_limits.upper[4] == 0.04
    assert np.isinf(b.build().position_limits.upper).all()


def test_huge_limits_of_mjcf_are_as_none():
    pytest.importorskip("mujoco")
    text = (
        "<mujoco><worldbody><body><joint name='x' type='slide' range='-1e10 1e10' limited='true' "
        "actuatorfrclimited='true' actuatorfrcrange='-1e30 1e30'/><geom size='.1'/></body>"
        "</worldbody></mujoco>"
    )
    joint = fl.load(text).joint("x")
    assert (joint.lower, joint.upper, joint.effort) == ((-INF,), (INF,), INF)
