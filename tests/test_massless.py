"""Robots with joints that move no mass: only what divides by the mass matrix refuses."""

import re

import numpy as np
import pytest

import featherlane as fl
from featherlane.functions.functions_of import functions_of
from featherlane.functions.table import CALLED, CONSTRAINED
from featherlane.tools.bench import bench
from featherlane.tools.check import check
from featherlane.tools.cli import main

INERTIAL = (
    '<inertial><origin xyz="0.1 0 0.2"/><mass value="{m}"/>'
    '<inertia ixx="{m}" ixy="0" ixz="0" iyy="{m}" iyz="0" izz="{m}"/></inertial>'
)
GRIPPER = """<robot name="gripper"><link name="base"/>
<link name="palm">{heavy}</link><link name="tip">{light}</link><link name="pad"/>
<joint name="turn" type="continuous"><parent link="base"/><child link="palm"/>
<axis xyz="0 1 0"/></joint>
<joint name="stroke" type="{kind}"><parent link="palm"/><child link="tip"/><origin xyz="0.3 0 0"/>
<axis xyz="1 0 0"/><limit lower="0" upper="0.1" velocity="1" effort="1"/></joint>
<joint name="end" type="fixed"><parent link="tip"/><child link="pad"/>
<origin xyz="0 0 0.1"/></joint>
</robot>"""


def gripper(light="", kind="prismatic"):
    return GRIPPER.format(heavy=INERTIAL.format(m=1), light=light, kind=kind)


@pytest.fixture(scope="module")
def model():
    return fl.load(gripper())


@pytest.fixture
def state(model):
    rng = np.random.default_rng(0)
    return model.random_configuration(8, seed=1), *rng.normal(size=(2, 8, 2))


def told(model):
    return [note for note in model.notes if "move no mass" in note]


def test_a_massless_leaf_is_a_warning(model):
    assert model.joint_names == ("turn", "stroke")
    (note,) = told(model)
    assert note.startswith("warning: joints that move no mass and no inertia")
    assert note.endswith(": stroke (tip)")
    assert "lock=" in str(model)
    assert not any("singular" in note for note in model.notes)


def test_what_does_not_divide_by_the_mass_matrix_is_right(model, state):
    """The same as with next to no mass, which is continuous there."""
    q, v, a = state
    light = fl.load(gripper(INERTIAL.format(m=1e-14)))
    tau = model.inverse_dynamics(q, v, a)
    assert not tau[:, 1].any()
    np.testing.assert_allclose(tau, light.inverse_dynamics(q, v, a), rtol=1e-9, atol=1e-12)
    M = model.mass_matrix(q)
    assert not M[:, 1].any()
    np.testing.assert_allclose(M, light.mass_matrix(q), rtol=1e-9, atol=1e-12)
    for mine, its in zip(
        model.inverse_dynamics_derivatives(q, v, a),
        light.inverse_dynamics_derivatives(q, v, a),
        strict=True,
    ):
        np.testing.assert_allclose(mine, its, rtol=1e-9, atol=1e-12)
    J = model.jacobian(q, "pad", "world")
    np.testing.assert_array_equal(J, light.jacobian(q, "pad", "world"))
    axis = np.stack([np.cos(q[:, 0]), 0 * q[:, 0], -np.sin(q[:, 0])], -1)
    np.testing.assert_allclose(J[:, :3, 1], axis, atol=1e-15)


def test_inverse_kinematics_moves_a_massless_joint(model, state):
    goal = model.frame_placement(state[0], "pad")
    found = model.inverse_kinematics(goal, "pad")
    assert found.converged.all()
    np.testing.assert_allclose(found.q, state[0], atol=2e-3)


@pytest.mark.parametrize("name", sorted(CALLED))
def test_only_what_divides_by_the_mass_matrix_refuses(model, name):
    takes = CALLED[name].takes
    options = {"frame": "pad", "reference": "body", "wrt": "mass"}
    options = {key: value for key, value in options.items() if key in takes}
    if "rollout" in name:
        options["steps"] = 2
    if name in CONSTRAINED:
        options["constraints"] = model.constraints([fl.Rod("pad", "palm", 0.3)])
    if name == "rollout_with":
        options["policy"] = fl.load("double_pendulum").policy(lambda q, v, t: q)
    if not CALLED[name].divides:
        function = model.function(name, **options)
        arrays = [np.full((3, *shape), 0.05) for shape in function.inputs.values()]
        results = function(*arrays)
        for x in results if isinstance(results, tuple) else (results,):
            assert np.isfinite(x).all()
        return
    with pytest.raises(fl.ModelError) as caught:
        model.function(name, **options)
    message = str(caught.value)
    for word in (name, "joint 'stroke' moves no mass", "lock={'stroke': None}", "model.reduced"):
        assert word in message


def test_methods_refuse_as_functions_do(model):
    q = v = np.zeros(2)
    calls = (
        lambda: model.forward_dynamics(q, v, v),
        lambda: model.forward_dynamics_derivatives(q, v, a=v, minv=np.eye(2)),
        lambda: model.step(q, v, v, 0.01),
        lambda: model.rollout(q, v, np.zeros((3, 2)), 0.01),
        lambda: model.function("forward_dynamics", backend="fixed"),
        lambda: fl.accelerator(model, "mass_matrix_inverse"),
        lambda: fl.multifunction(model),
    )
    for call in calls:
        with pytest.raises(fl.ModelError, match="joint 'stroke' moves no mass"):
            call()


def test_a_locked_joint_gives_everything_back(state):
    """At load, or by reduced: the same robot as with the joint fixed in the file."""
    q, v, a = (x[:, :1] for x in state)
    fixed = fl.load(re.sub(' xyz="0.3 0 0"', ' xyz="0.35 0 0"', gripper(kind="fixed")))
    for robot in (
        fl.load(gripper(), lock={"stroke": 0.05}),
        fl.load(gripper()).reduced({"stroke": 0.05}),
    ):
        assert robot.joint_names == ("turn",)
        assert told(robot) == []
        np.testing.assert_allclose(
            robot.forward_dynamics(q, v, a), fixed.forward_dynamics(q, v, a), rtol=1e-14
        )
        np.testing.assert_allclose(
            robot.frame_placement(q, "pad"), fixed.frame_placement(q, "pad"), atol=1e-15
        )


def test_locks_are_checked_at_load():
    with pytest.raises(ValueError, match="strok"):
        fl.load(gripper(), lock={"strok": 0.0})
    with pytest.raises(TypeError, match="lock is list"):
        fl.load(gripper(), lock=["stroke"])


def test_inertia_from_elsewhere_serves(model, state):
    """Armature, or masses that are given as parameters."""
    q, v, tau = state
    geared = model.with_physics(armature=0.1)
    assert told(geared) == []
    accelerated = geared.forward_dynamics(q, v, tau)
    np.testing.assert_allclose(geared.inverse_dynamics(q, v, accelerated), tau, atol=1e-12)
    mass = {"mass": np.array([1.0, 2.0])}
    accelerated = model.forward_dynamics(q, v, tau, params=mass)
    np.testing.assert_allclose(
        model.inverse_dynamics(q, v, accelerated, params=mass), tau, atol=1e-12
    )


def test_several_joints_are_named():
    text = gripper(kind="revolute").replace(INERTIAL.format(m=1), "")
    model = fl.load(text, root="free")
    assert told(model)[0].endswith(": root_joint (base), turn (palm), stroke (tip)")
    with pytest.raises(fl.ModelError, match="joints 'root_joint', 'turn', 'stroke' move no mass"):
        model.forward_dynamics(model.neutral(), np.zeros(8), np.zeros(8))
    assert model.frame_placement(model.neutral(), "pad")[0, 3] == 0.3


def test_mass_on_the_axis_resists_nothing():
    """The message names the joint, and no function that only the package knows."""
    about_z = INERTIAL.replace("0.1 0 0.2", "0.3 0 0").replace('ixx="{m}"', 'ixx="0"')
    model = fl.load(gripper(light=about_z.format(m=1), kind="revolute"))
    for name in ("forward_dynamics", "step"):
        with pytest.raises(fl.CompileError, match="too little inertia resists stroke; lock") as why:
            model.compile([name])
        assert "damped" not in str(why.value)


def test_in_the_builder_and_for_mimic_joints():
    b = fl.ModelBuilder()
    b.link("base")
    for name in ("rod", "other"):
        b.link(name)
    b.joint("swing", "revolute", "base", "rod")
    b.joint("follower", "revolute", "rod", "other", mimic="swing")
    assert told(b.build())[0].endswith(": swing (rod)")


# The command line

LEFT_OUT = "left out what divides by M, which has no inverse: no mass is moved by stroke"


@pytest.fixture
def file(tmp_path):
    (tmp_path / "gripper.urdf").write_text(gripper())
    return str(tmp_path / "gripper.urdf")


def test_bench_leaves_out_what_divides_by_the_mass_matrix(model):
    report = bench(model, 8, ("float64",))
    assert [s.function for s in report.speeds] == list(functions_of(model))
    assert [check.name for check in report.checks] == ["ID(a) - ID(0) = M a", "dID of dual numbers"]
    assert report.passed
    assert LEFT_OUT in str(report)
    assert functions_of(fl.load("double_pendulum")) == tuple(fl.FUNCTIONS)


def test_check_leaves_it_out_too(file):
    pytest.importorskip("pinocchio")
    report = check(file, states=3)
    assert report.passed
    assert {row.function for row in report.rows} == {
        *("inverse_dynamics", "mass_matrix", "inverse_dynamics_derivatives")
    }
    assert LEFT_OUT in str(report)
    with pytest.raises(fl.ModelError, match="joint 'stroke' moves no mass"):
        check(file, states=3, functions=["forward_dynamics"])


def test_operations_are_counted_and_code_is_written_of_the_rest(file, capsys, tmp_path):
    assert main(["info", file, "--cost"]) == 0
    printed = capsys.readouterr().out
    assert "  inverse_dynamics  " in printed
    assert "  forward_dynamics  " not in printed
    generate = ["generate", file, "--output", str(tmp_path / "code")]
    with pytest.warns(UserWarning, match=LEFT_OUT):
        assert main(generate) == 0
    assert "inverse_dynamics" in (header := (tmp_path / "code/gripper.h").read_text())
    assert "gripper_forward_dynamics" not in header
    assert main([*generate, "--function", "forward_dynamics"]) == 2
    assert "joint 'stroke' moves no mass" in capsys.readouterr().err
