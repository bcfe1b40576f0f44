"""A robot to look at: the scene that a browser is sent, without one."""

import sys

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose
from repetition import repeated

import featherlane as fl
from featherlane.tools import cli

URDF = """
<robot name="drawn">
  <material name="red"><color rgba="1 0 0 1"/></material>
  <link name="base"><visual><geometry><box size="0.2 0.4 0.6"/></geometry></visual></link>
  <joint name="slide" type="prismatic">
    <parent link="base"/><child link="carriage"/><origin xyz="0 0 1"/><axis xyz="1 0 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/>
  </joint>
  <link name="carriage">
    <visual>
      <origin xyz="0 0 0.5" rpy="0 1.5707963267948966 0"/>
      <geometry><cylinder radius="0.1" length="1"/></geometry><material name="red"/>
    </visual>
    <visual><geometry><mesh filename="package://tool/part.stl" scale="2 2 2"/></geometry></visual>
    <visual><geometry><mesh filename="package://tool/lost.stl"/></geometry></visual>
    <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
</robot>"""


def test_a_missing_extra_is_named(monkeypatch, capsys):
    for name in ("featherlane.interop.view", "featherlane.interop.shapes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "trimesh", None)
    monkeypatch.setitem(sys.modules, "viser", None)
    assert cli.main(["view", "iiwa14"]) == 2
    assert "pip install 'featherlane[view]'" in capsys.readouterr().err


@pytest.fixture
def interop():
    pytest.importorskip("viser", reason="viser is not installed: pip install '.[view]'")
    from featherlane.interop import shapes, view

    return shapes, view


@pytest.fixture
def shown(interop):
    """`show`, whose pages are closed at the end."""
    pages = []

    def call(*args, **options):
        pages.append(interop[1].show(*args, **{"port": 8765, **options}))
        return pages[-1]

    yield call
    for page in pages:
        page.close()


def test_bodies_are_where_kinematics_puts_them(interop):
    model = textbook.tree(("free", "universal", "prismatic", "spherical", "revolute"))
    q = model.random_configuration(5, seed=0)
    placements = interop[1].body_placements(model, q)
    for frame in model.frames:
        if frame.body >= 0:
            own = np.eye(4)
            own[:3, :3], own[:3, 3] = frame.placement
            expected = model.frame_placement(q, frame.name)
            assert_allclose(placements[:, frame.body] @ own, expected, atol=1e-12)


@pytest.mark.parametrize("name", repeated(["hyq", "panda", "atlas", "mobile_arm"]))
def test_bones_lead_from_joint_to_joint(name, interop):
    model = fl.load(name, root="free")
    shapes = interop[0].skeleton(model)
    assert {shape.body for shape in shapes} == {*range(model.nbodies)}
    for joint in model.joints[1:]:
        end, body = np.array(joint.placement.p), joint.parent
        bounds = [shape.mesh.bounds for shape in shapes if shape.body == body]
        assert any(np.all((low <= end) & (end <= high)) for low, high in bounds)


def test_ellipsoids_have_the_inertia_of_their_bodies(interop):
    model = fl.load("quadruped_arm")
    found = interop[0].inertia_ellipsoids(model)
    assert len(found) == sum(body.mass > 0 for body in model.bodies)
    for n, mesh in found:
        body = model.bodies[n]
        mesh.density = body.mass / mesh.volume
        assert_allclose(mesh.center_mass, body.com, atol=1e-6)
        moments = [np.linalg.eigvalsh(J) for J in (mesh.moment_inertia, body.inertia)]
        assert_allclose(*moments, rtol=0.05, atol=0.05 * moments[1].max())


def test_visuals_of_a_urdf(tmp_path, interop):
    shapes, _ = interop
    tool = tmp_path / "tool"
    tool.mkdir()
    shapes.trimesh.creation.box(extents=(1, 1, 1)).export(tool / "part.stl")
    path = tmp_path / "robots" / "drawn.urdf"
    path.parent.mkdir()
    path.write_text(URDF)
    model = fl.load(path)
    found, notes = shapes.visuals(model, path)
    (ground, box), (_, cylinder), (body, part) = found
    assert (ground, body) == (-1, 0)
    assert_allclose(box.extents, [0.2, 0.4, 0.6])
    assert_allclose(cylinder.bounds, [[-0.5, -0.1, 0.4], [0.5, 0.1, 0.6]], atol=1e-3)
    assert tuple(cylinder.visual.material.baseColorFactor) == (255, 0, 0, 255)
    assert_allclose(part.extents, [2, 2, 2])
    assert notes == ["carriage: there is no file package://tool/lost.stl"]
    renamed = model.renamed(frames=lambda name: name.upper())
    assert shapes.visuals(renamed, path) == ([], [])


def test_visuals_of_an_mjcf(tmp_path, interop):
    pytest.importorskip("mujoco")
    path = tmp_path / "robot.xml"
    path.write_text("""
    <mujoco><worldbody><geom type="plane" size="1 1 1"/><body name="arm" pos="0 0 1">
      <joint name="turn" axis="0 1 0"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
      <geom type="capsule" fromto="0 0 0 0 0 2" size="0.1" rgba="0 1 0 1"/>
      <geom type="box" size="0.1 0.2 0.3" pos="1 0 0"/><geom type="sphere" size="1" group="4"/>
    </body></worldbody></mujoco>""")
    (n, capsule), (_, box) = interop[0].visuals(fl.load(path), path)[0]
    assert n == 0
    assert_allclose(capsule.bounds, [[-0.1, -0.1, -0.1], [0.1, 0.1, 2.1]], atol=1e-6)
    assert_allclose(box.bounds, [[0.9, -0.2, -0.3], [1.1, 0.2, 0.3]], atol=1e-9)


def test_a_robot_of_a_file_is_drawn_as_the_file_says(tmp_path, shown):
    path = tmp_path / "drawn.urdf"
    path.write_text(URDF)
    page = shown(fl.load(path))
    assert [note.split(":")[0] for note in page.notes] == ["carriage", "carriage"]
    with pytest.raises(fl.ModelError, match="there is no file"):
        shown(fl.load("panda"), source=tmp_path / "lost.urdf")


def test_bodies_that_cannot_be_drawn_are_bones(tmp_path, interop):
    """A base whose mesh is lost, and a tip with mass and no visual; a massless link stays bare."""
    path = tmp_path / "robot.urdf"
    links = """
      <link name="bare"/><link name="tip"><inertial><origin xyz="0 0 0.2"/><mass value="1"/>
        <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
      <joint name="a" type="continuous"><parent link="carriage"/><child link="bare"/></joint>
      <joint name="b" type="continuous"><parent link="bare"/><child link="tip"/></joint>
    </robot>"""
    lost = '<mesh filename="package://tool/base.stl"/>'
    text = URDF.replace('<box size="0.2 0.4 0.6"/>', lost).replace("</robot>", links)
    path.write_text(text)
    model = fl.load(path)
    drawn, notes = interop[0].drawn_shapes(model, path)
    assert {shape.body for shape in drawn} == {-1, 0, model.frame("tip").body}
    base = next(shape.mesh for shape in drawn if shape.body == -1)
    assert base.bounds[0][2] <= 0
    assert base.bounds[1][2] >= 1  # up to the joint of the carriage
    assert [note.split(":")[0] for note in notes] == ["base", "carriage", "carriage"]


def test_a_configuration_is_drawn_and_moved(shown):
    model = fl.load("panda")
    page = shown(model)
    assert str(page.server.get_port()) in repr(page)
    q = model.random_configuration(seed=0)
    page.update(q)
    T = model.frame_placement(q, "panda_link7")
    body = page.bodies[model.frame("panda_link7").body]
    assert_allclose(body.position, T[:3, 3], atol=1e-9)
    x, y, z = T[:3, :3].T @ T[:3, :3] @ body.wxyz[1:]
    assert_allclose([x, y, z], T[:3, :3] @ [x, y, z], atol=1e-9)  # along the axis of the turn


def test_a_rollout_is_played(shown):
    model = fl.load("double_pendulum")
    states = model.rollout([0.3, 0.2], [0.0, 0.0], np.zeros((30, 2)), 0.01)
    page = shown(model, states, dt=0.01)
    assert len(page.bodies) == 2
    for _ in range(100):  # at most 10 s
        if np.any(page.q != states.q[0]):
            break
        page._closed.wait(0.1)
    assert any(np.array_equal(page.q, q) for q in states.q[1:])


@pytest.mark.parametrize(
    ("q", "options", "message"),
    [
        (np.zeros(3), {}, r"q has shape \(3,\), wanted \(2,\), \(T, 2\)"),
        (np.zeros((3, 4, 5, 2)), {}, r"or \(robots, T, 2\)"),
        (np.zeros((4, 2)), {"dt": 0}, "dt is 0: wanted positive seconds"),
        (np.zeros((4, 2)), {"dt": True}, "dt is True: wanted positive seconds"),
        ([np.nan, 0], {}, "q has a NaN or an infinity"),
        (np.zeros(2), {"port": 70000}, "port is 70000: wanted a whole number from 1 to 65535"),
        (np.zeros(2), {"host": "no such host"}, "host is 'no such host': wanted a name"),
    ],
)
def test_wrong_arguments_are_named(q, options, message, shown):
    with pytest.raises(ValueError, match=message):
        shown(fl.load("double_pendulum"), q, **options)


def test_the_command_shows_a_page_until_it_is_ended(monkeypatch, capsys, interop):
    monkeypatch.setattr(interop[1].View, "wait", interop[1].View.close)
    assert cli.main(["view", "double_pendulum", "--port", "8770"]) == 0
    assert "http://localhost:877" in capsys.readouterr().out
