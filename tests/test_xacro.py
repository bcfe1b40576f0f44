"""Arguments, packages and complaints of xacro files."""

import os
from importlib.util import find_spec

import pytest

import featherlane as fl
from featherlane.tools.cli import main

pytest.importorskip("xacrodoc")

HAND = """<robot xmlns:xacro="http://www.ros.org/wiki/xacro">
<xacro:macro name="hand" params="name parent mass:=0.5">
  <link name="${name}"><inertial><mass value="${mass}"/>
    <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="${izz}"/></inertial></link>
  <joint name="${name}_joint" type="continuous">
    <parent link="${parent}"/><child link="${name}"/></joint>
</xacro:macro></robot>
"""
ARM = """<?xml version="1.0"?>
<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
<xacro:arg name="prefix" default=""/>
<xacro:arg name="heavy" default="false"/>
<xacro:include filename="$(find hand_description)/urdf/hand.xacro"/>
<xacro:property name="izz" value="2"/>
<link name="$(arg prefix)base"/>
<xacro:if value="$(arg heavy)"><xacro:property name="mass" value="7"/></xacro:if>
<xacro:unless value="$(arg heavy)"><xacro:property name="mass" value="1"/></xacro:unless>
<xacro:hand name="$(arg prefix)hand" parent="$(arg prefix)base" mass="${mass}"/>
</robot>
"""


def write_package(folder, name, file, text):
    (folder / "urdf").mkdir(parents=True)
    (folder / "package.xml").write_text(f"<package><name>{name}</name></package>")
    (folder / "urdf" / file).write_text(text)
    return folder / "urdf" / file


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """A folder with the package of the hand, under another name than the folder's."""
    for variable in ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH"):
        monkeypatch.delenv(variable, raising=False)
    write_package(tmp_path / "ws" / "src" / "hand", "hand_description", "hand.xacro", HAND)
    return tmp_path / "ws"


@pytest.fixture
def arm(workspace):
    """The file of an arm, whose package is beside that of its hand."""
    return write_package(workspace / "src" / "arm", "arm", "arm.urdf.xacro", ARM)


@pytest.fixture
def lonely(workspace, tmp_path):
    """A function that writes the arm's file, or another one, where no package is around it."""

    def write(old="", new=""):
        assert old in ARM
        file = tmp_path / "elsewhere" / "arm.xacro"
        file.parent.mkdir(exist_ok=True)
        file.write_text(ARM.replace(old, new))
        return file

    return write


# Arguments


def test_arguments(arm):
    assert fl.load(arm).joint_names == ("hand_joint",)
    model = fl.load(arm, xacro_args={"prefix": "left_", "heavy": True})
    assert (model.joint_names, model.mass) == (("left_hand_joint",), 7)
    assert fl.load(arm).mass == 1  # nothing is left of the last expansion


def test_arguments_of_a_text():
    text = '<robot name="$(arg n)" xmlns:xacro="x"><link name="a"/></robot>'
    assert fl.load(text, xacro_args={"n": 3}).name == "3"


def test_arguments_that_the_file_does_not_read(arm):
    told = r"names 'prefixx', which the file does not read \(did you mean 'prefix'\?\); it reads"
    with pytest.raises(fl.ModelError, match=told):
        fl.load(arm, xacro_args={"prefixx": "left_"})
    with pytest.raises(fl.ModelError, match=r"takes no xacro_args \('prefix'\): it is not a xacro"):
        fl.load("iiwa14", xacro_args={"prefix": "left_"})
    for wrong in (3, [("prefix", "left_")], {1: 2}):
        with pytest.raises(TypeError, match=r"xacro_args is .*: wanted a dict"):
            fl.load(arm, xacro_args=wrong)
    with pytest.raises(TypeError, match=r"xacro_args\['prefix'\] is None: leave it out"):
        fl.load(arm, xacro_args={"prefix": None})


def test_arguments_on_the_command_line(arm, capsys):
    assert main(["info", str(arm), "--root", "free", "prefix:=left_"]) == 0
    assert "left_hand_joint" in capsys.readouterr().out
    assert main(["info", "prefix:=", str(arm)]) == 0
    assert " hand_joint" in capsys.readouterr().out
    assert main(["info", str(arm), "no:=1"]) == 2
    assert "xacro_args names 'no'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["list", "prefix:=left_"])
    assert "'prefix:=left_' is one argument too many" in capsys.readouterr().err


def test_arguments_for_checks(arm):
    pytest.importorskip("pinocchio")
    from featherlane.tools.check import check

    report = check(arm, states=2, functions=["mass_matrix"], xacro_args={"heavy": "true"})
    assert report.passed


# Packages


def test_packages_around_the_file(arm):
    """The package of the hand is known by its package.xml, beside that of the arm."""
    assert fl.load(arm).nv == 1


def test_packages_beside_the_file_by_the_name_of_their_folder(lonely):
    file = lonely()
    write_package(file.parent / "hand_description", "other", "hand.xacro", HAND)
    assert fl.load(file).nv == 1


@pytest.mark.parametrize("place", ["", "src", "src/hand"])
def test_packages_in_the_users_folders(lonely, workspace, place):
    file = lonely()
    with pytest.raises(fl.ModelError, match="there is no package 'hand_description'"):
        fl.load(file)
    assert fl.load(file, packages=[workspace / place]).nv == 1
    with pytest.raises(fl.ModelError):  # nothing is kept
        fl.load(file)
    with pytest.raises(TypeError, match=r"packages is '.*: wanted a list of folders"):
        fl.load(file, packages=str(workspace))
    with pytest.raises(TypeError, match="packages holds None: wanted paths of folders"):
        fl.load(file, packages=[None])
    with pytest.raises(ValueError, match=r"packages holds '.*arm.xacro', which is no folder"):
        fl.load(file, packages=[file])


def test_packages_on_the_command_line(lonely, workspace, capsys):
    file = str(lonely())
    assert main(["info", file]) == 2
    assert "--packages FOLDER" in capsys.readouterr().err
    assert main(["info", file, "--packages", str(workspace)]) == 0
    assert "hand_joint" in capsys.readouterr().out
    assert main(["info", file, "--packages", "nowhere"]) == 2
    assert "packages holds 'nowhere', which is no folder" in capsys.readouterr().err


def test_packages_for_checks_and_pages(lonely, workspace):
    from featherlane.tools.check import check

    file, folders = lonely(), {"packages": [workspace]}
    if find_spec("pinocchio"):
        assert check(file, states=2, functions=["mass_matrix"], **folders).passed
    if find_spec("viser"):
        from featherlane.interop import view

        page = view.show(fl.load(file, **folders), source=file, **folders)
        page.close()


def test_packages_where_ros_looks(lonely, workspace, tmp_path, monkeypatch):
    file = lonely()
    folders = os.pathsep.join([str(tmp_path / "nowhere"), str(workspace / "src")])
    monkeypatch.setenv("ROS_PACKAGE_PATH", folders)
    assert fl.load(file).nv == 1
    monkeypatch.delenv("ROS_PACKAGE_PATH")
    share = tmp_path / "install" / "share" / "hand_description"
    write_package(share, "hand_description", "hand.xacro", HAND)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "install"))
    assert fl.load(file).nv == 1


def test_the_users_folders_come_first(arm, tmp_path):
    heavier = HAND.replace('value="${mass}"', 'value="50"')
    write_package(tmp_path / "mine" / "hand", "hand_description", "hand.xacro", heavier)
    assert fl.load(arm, packages=[tmp_path / "mine"]).mass == 50
    assert fl.load(arm).mass == 1


# Complaints


@pytest.mark.parametrize(
    ("old", "new", "file", "line", "words"),
    [
        ('<xacro:property name="izz" value="2"/>', "", "hand.xacro", 4, ["macro 'hand'", "izz"]),
        ("<xacro:hand ", "<xacro:hnd ", "arm.xacro", 10, ["unknown macro", "hnd"]),
        ('parent="$(arg prefix)base" ', "", "arm.xacro", 10, ["macro 'hand'", "[parent]"]),
        ("/urdf/hand", "/urdf/hnd", "arm.xacro", 5, ["No such file", "hnd.xacro"]),
        ("$(arg prefix)hand", "$(arg pre)hand", "arm.xacro", 10, ["argument pre"]),
        ("hand_description)", "hnd_description)", "arm.xacro", 5, ["packages=[...]"]),
        ('value="2"/>', 'value="${1 / 0}"/>', "arm.xacro", 6, ["division by zero"]),
    ],
)
def test_complaints_name_file_line_and_macro(lonely, workspace, old, new, file, line, words):
    with pytest.raises(fl.ModelError) as caught:
        fl.load(lonely(old, new), packages=[workspace])
    message = str(caught.value)
    assert f"{file}, line {line}: xacro cannot expand it" in message
    for word in words:
        assert word in message


def test_a_failed_expansion_leaves_nothing_behind(lonely, workspace):
    """xacro keeps its stacks of files and macros in the module."""
    for _ in range(2):
        with pytest.raises(
            fl.ModelError, match=r"hand\.xacro, line 4: .* \(in the macro 'hand'\):"
        ):
            fl.load(lonely('<xacro:property name="izz" value="2"/>'), packages=[workspace])
        assert fl.load(lonely(), packages=[workspace]).nv == 1


def test_mjcf_is_expanded_too(tmp_path):
    pytest.importorskip("mujoco")
    text = (
        '<mujoco xmlns:xacro="http://www.ros.org/wiki/xacro"><worldbody><body name="b">'
        '<joint name="$(arg n)"/><geom size="${1 / 10}"/></body></worldbody></mujoco>'
    )
    assert fl.load(text, xacro_args={"n": "hinge"}).joint_names == ("hinge",)
