"""Robot files that are dropped on the page: its reader and dynamics in Node, beside the package."""

import json
import shutil
import subprocess

import numpy as np
import pytest

import featherlane as fl
from featherlane.backends.wasm.files import READER, page_text
from featherlane.robot.loaders.robots import text

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not there, which runs JavaScript")

CALL = """
import { readFileSync } from 'node:fs'
const { file, states } = JSON.parse(readFileSync('given.json'))
try {
  const robot = await open(fromRobotFile(file)), results = { about: robot.about }
  for (const name of Object.keys(robot.about.functions)) {
    results[name] = states.map(state => {
      const inputs = Object.keys(robot.about.functions[name].inputs)
      const given = Object.fromEntries(inputs.map(key => [key, state[key]]))
      const found = Object.entries(robot[name](given))
      return Object.fromEntries(found.map(([key, x]) => [key, [...x]]))
    })
  }
  console.log(JSON.stringify(results))
} catch (error) {
  console.log(JSON.stringify({ error: error.message }))
}
"""


def in_node(folder, file, states=()):
    """The results of every function of a dropped file, or the error."""
    script = page_text("loader.mjs") + "".join(page_text(name) for name in READER) + CALL
    (folder / "run.mjs").write_text(script)
    (folder / "given.json").write_text(
        json.dumps({"file": file.decode() if isinstance(file, bytes) else file, "states": states})
    )
    done = subprocess.run([NODE, "run.mjs"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def compare(folder, file, robot, tolerance=1e-10):
    """Compares torques, mass matrix, step and points of bodies at three states."""
    rng = np.random.default_rng(0)
    states = [
        {"q": robot.random_configuration(1, seed=k)[0].tolist(), "dt": [1e-3]}
        | {name: rng.standard_normal(robot.nv).tolist() for name in ("v", "a", "tau")}
        for k in range(3)
    ]
    results = in_node(folder, file, states)
    assert "error" not in results, results
    names = [robot.joints[i].name for i in robot.independent]
    assert [c["name"] for c in results["about"]["coordinates"]] == names
    step = robot.function("step")
    for k, state in enumerate(states):
        q, v, a, tau = (np.array(state[name]) for name in ("q", "v", "a", "tau"))
        wanted = {
            "tau": robot.inverse_dynamics(q, v, a),
            "M": robot.mass_matrix(q).ravel(),
            **dict(zip(("q_next", "v_next"), step(q, v, tau, 1e-3), strict=True)),
        }
        given = results["inverse_dynamics"][k] | results["mass_matrix"][k] | results["step"][k]
        for name, value in wanted.items():
            scale = max(1.0, np.abs(value).max())
            assert np.allclose(given[name], value, rtol=0, atol=tolerance * scale), name
    return results


ROBOTS = ["double_pendulum", "iiwa14", "panda", "hyq", "go2", "so101", "openarm"]


@pytest.mark.parametrize("name", ROBOTS)
def test_urdf_files_as_the_package_computes_them(name, tmp_path):
    compare(tmp_path, text(name), fl.load(name))


MJCF = """
<mujoco model="arm">
  <compiler angle="degree" eulerseq="zyx"/>
  <option gravity="0 1 -9.7"/>
  <default>
    <joint damping="0.1"/>
    <geom density="500"/>
    <default class="strong">
      <joint armature="0.02" frictionloss="0.3"/>
      <default class="soft"><joint stiffness="3" springref="10"/></default>
    </default>
  </default>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body name="base" pos="0 0 0.1" childclass="strong">
      <geom type="cylinder" size="0.1 0.05"/>
      <body name="lift" euler="10 20 30">
        <joint name="a" axis="0 0 1" pos="0.1 0 0" range="-90 90"/>
        <joint name="b" type="slide" axis="1 1 0" ref="0.2" range="-0.3 0.4"/>
        <joint name="c" axis="0 1 0" pos="0 0.2 0.1" class="soft" ref="15"/>
        <geom type="capsule" fromto="0 0 0 0.1 0.2 0.5" size="0.04"/>
        <geom type="box" size="0.1 0.02 0.03" pos="0.1 0 0" quat="1 2 3 4" mass="0.4"/>
        <geom type="ellipsoid" size="0.1 0.02 0.03" zaxis="0 1 1" contype="0" conaffinity="0"/>
        <body name="end" pos="0 0 0.5" xyaxes="0 1 0 -1 0.2 0">
          <joint name="d" axis="1 0 0"/>
          <inertial pos="0.1 0 0" mass="0.7" fullinertia="0.02 0.03 0.04 0.001 0.002 0.003"/>
          <geom type="sphere" size="0.05"/>
        </body>
        <body name="other" axisangle="0 0 2 45">
          <joint name="e" axis="0 1 0"/>
          <inertial pos="0 0.1 0" mass="0.5" diaginertia="0.01 0.02 0.02" quat="1 1 0 0"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def test_an_mjcf_file_as_mujoco_compiles_it(tmp_path):
    pytest.importorskip("mujoco")
    results = compare(tmp_path, MJCF, fl.load(MJCF), 1e-9)
    kinds = [shape["kind"] for shape in results["about"]["shapes"]]
    assert kinds == ["cylinder", "capsule", "box", "sphere"]
    limits = [(c["lower"], c["upper"]) for c in results["about"]["coordinates"]]
    assert np.allclose(limits[:2], [(-np.pi / 2, np.pi / 2), (-0.3, 0.4)])


URDF = """<robot name="arm">
  <link name="base"/>
  <link name="arm"><inertial>
    <mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>
  </inertial></link>
  <joint name="elbow" type="{type}">
    <parent link="base"/><child link="{child}"/><axis xyz="{axis}"/>
  </joint>
</robot>"""
GOOD = {"type": "revolute", "child": "arm", "axis": "0 0 1"}


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        (URDF.format(**GOOD | {"type": "floating"}), "cannot move a floating joint"),
        (URDF.format(**GOOD | {"child": "leg"}), "its child is 'leg', which is no link"),
        (URDF.format(**GOOD | {"axis": "0 0 x"}), "line 7: axis: xyz holds '0 0 x'"),
        (URDF.format(**GOOD | {"axis": "${a} 0 0"}), "xacro file must be expanded first"),
        (URDF.format(**GOOD).replace("</robot>", ""), "line 1: <robot> has no end"),
        (URDF.format(**GOOD).replace("<parent", "<<parent"), "line 7: not well-formed XML"),
        (MJCF.replace('name="d" axis', 'name="d" type="ball" axis'), "cannot move a ball joint"),
        (MJCF.replace('"capsule" fromto="0 0 0 0.1 0.2 0.5"', '"mesh" mesh="m"'), "of a mesh"),
        ("<sdf/>", "starts with <sdf>"),
        ("no robot", "there is no XML in it"),
        (URDF.format(**GOOD | {"type": "fixed"}), "no joint of it moves"),
        (URDF.format(**GOOD).replace("inertial", "visual"), "joint 'elbow' moves no mass"),
    ],
)
def test_files_that_the_page_refuses(file, complaint, tmp_path):
    assert complaint in in_node(tmp_path, file)["error"]


def test_a_free_base_is_held_and_told(tmp_path):
    file = MJCF.replace('<geom type="cylinder"', '<freejoint/><geom type="cylinder"')
    about = in_node(tmp_path, file)["about"]
    assert len(about["coordinates"]) == 5
    assert "base is free in the file: here it is held where it is" in about["card"]


POLE = """
<robot name="pole"><link name="rail"/><link name="cart"><inertial><mass value="1"/>
  <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="pole"><inertial><origin xyz="0 0 0.5"/><mass value="1"/>
  <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="slide" type="prismatic"><parent link="rail"/><child link="cart"/><axis xyz="1 0 0"/>
  <limit lower="-15" upper="15" effort="1" velocity="1"/></joint>
<joint name="turn" type="continuous"><parent link="cart"/><child link="pole"/><axis xyz="0 1 0"/>
</joint></robot>
"""


def test_a_body_that_carries_no_other_is_drawn_to_its_centre_of_mass(tmp_path):
    state = {"q": [0.3, 0.7], "v": [0, 0], "a": [0, 0], "tau": [0, 0], "dt": [1e-3]}
    results = in_node(tmp_path, POLE, [state])
    assert results["about"]["lines"] == [[-1, 0], [0, 1], [1, 2], [2, 3]]
    tip = results["figure"][0]["points"][-3:]
    assert np.allclose(tip, [0.3 + 0.5 * np.sin(0.7), 0, 0.5 * np.cos(0.7)])


def test_a_base_that_is_free_in_the_file_has_no_line_to_the_ground(tmp_path):
    file = """<mujoco><worldbody><body name="trunk" pos="0 0 1"><freejoint/>
      <geom type="box" size="0.2 0.1 0.1" mass="1"/><body name="leg" pos="0.2 0 0">
      <joint name="hip"/><geom type="sphere" size="0.1" pos="0 0 -0.3" mass="1"/></body></body>
      </worldbody></mujoco>"""
    about = in_node(tmp_path, file)["about"]
    assert about["held"] is True
    assert all(a >= 0 for a, _ in about["lines"])
    held = in_node(tmp_path, file.replace("<freejoint/>", ""))["about"]
    assert held["held"] is False
    assert [-1, 0] in held["lines"]


def test_meshes_are_left_out_and_told(tmp_path):
    mesh = '<visual><geometry><mesh filename="package://a/arm.stl"/></geometry></visual><inertial>'
    about = in_node(tmp_path, URDF.format(**GOOD).replace("<inertial>", mesh))["about"]
    assert about["notes"] == ["not read: meshes (1)"]
    assert "not read: meshes (1)" in about["card"]
