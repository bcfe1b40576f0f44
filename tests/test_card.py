"""The model card."""

from dataclasses import replace
from itertools import pairwise

import pytest
from repetition import full

import featherlane as fl
from featherlane.api.card import WIDTH, card, portable_card
from featherlane.robot.loaders import bundled, load
from featherlane.robot.parts import Joint

MOMENTS = '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
INERTIAL = f'<inertial><mass value="1"/>{MOMENTS}</inertial>'


def chain(n, name="l{}", type="revolute", extra=""):
    """n links in a row."""
    names = [name.format(i) for i in range(n)]
    links = [f'<link name="{a}">{INERTIAL}</link>' for a in names]
    joints = [
        f'<joint name="j{a}" type="{type}"><parent link="{p}"/><child link="{a}"/>{extra}</joint>'
        for p, a in pairwise(names)
    ]
    return '<robot name="chain">' + "".join(links + joints) + "</robot>"


@pytest.mark.parametrize("name", bundled())
@pytest.mark.parametrize("root", ["fixed", "free", "planar"])
def test_fits_the_page(name, root):
    lines = card(load(name, root=root, loops="keep")).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert all(line == line.rstrip() for line in lines)


def test_str_is_the_card():
    model = fl.load("iiwa14")
    assert str(model) == card(model)
    assert str(model) == str(fl.load("iiwa14"))


def test_head_has_sizes_masses_and_gravity():
    text = card(load("iiwa14"))
    for told in ("iiwa14.urdf", "nbodies 7, nq 7, nv 7", "25.61 kg", "5 kg", "(0, 0, -9.81)"):
        assert told in text


def test_a_row_for_each_joint_in_order():
    model = load("hyq", root="free")
    rows = [line.split() for line in card(model).splitlines() if line.strip()[:1].isdigit()]
    assert [row[1] for row in rows] == list(model.joint_names)
    assert rows[0] == ["0", "root_joint", "free", "(ground)", "0-6", "0-5", "-", "none", "60.978"]
    assert rows[2][1:7] == ["lf_hfe_joint", "revolute", "lf_hipassembly", "8", "7", "z"]


def test_axes_and_limits_are_short():
    limited = '<axis xyz="0 -1 0"/><limit lower="-1.5" upper="2"/>'
    assert "-y    -1.5 .. 2" in card(load(chain(2, extra=limited)))
    assert "(0.6, 0, 0.8)" in card(load(chain(2, extra='<axis xyz="0.6 0 0.8"/>')))


def test_frames_are_grouped_by_body():
    text = card(load("panda"))
    assert "frames (13)" in text
    assert "panda_link7  panda_link7, panda_link8, panda_hand, panda_hand_tcp" in text


def test_warnings_come_first():
    lines = card(load("panda", mimic="keep")).splitlines()
    told = lines[lines.index("notes") + 1 :]
    assert told[0].startswith("  ! mimic is not applied")
    assert "panda_finger_joint2 (1 * panda_finger_joint1)" in " ".join(" ".join(told[:2]).split())
    assert any(line.startswith("  - ") for line in told[1:])


def test_mimic_joints_show_their_leader():
    lines = card(load("panda")).splitlines()
    (row,) = (line.split() for line in lines if line.strip().startswith("8 "))
    assert row[4:6] == ["=7", "=7"]
    at = lines.index("mimic joints, without entries of their own in q and v")
    assert lines[at + 1 : at + 3] == ["  panda_finger_joint2 = 1 * panda_finger_joint1", ""]
    assert "mimic joints" not in card(load("iiwa14"))


def test_joint_physics_are_grouped_by_their_figures():
    lines = card(load("panda")).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("joint physics"))
    assert lines[at + 1].startswith("  damping 0.003  panda_joint1, panda_joint2")
    assert lines[at + 3] == "  damping 0.3    panda_finger_joint1, panda_finger_joint2"
    assert "joint physics" not in card(load(chain(3)))
    everywhere = card(load(chain(3, extra='<dynamics damping="1" friction="0.5"/>')))
    assert "  damping 1, friction 0.5  every joint" in everywhere


def test_the_root_is_told():
    assert "root     free-split, a translation, then" in card(load("iiwa14", root="free-split"))
    own = Joint("lift", "prismatic", -1)
    assert "root     prismatic joint 'lift'" in card(load("iiwa14", root=own))


def test_long_and_odd_names_keep_to_their_line():
    model = load(chain(4, name="n{}&#10;" + "long " * 500), root="free")
    lines = card(model).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) < 40


def test_a_robot_that_does_not_move():
    text = card(load('<robot name="r"><link name="a"/></robot>'))
    assert "nbodies 0, nq 0, nv 0" in text
    assert "! there is no moving joint" in text


@full
def test_two_thousand_bodies():
    model = load(chain(2000, extra='<axis xyz="0 1 1"/>'))
    lines = card(model).splitlines()
    assert len(lines) > 2000


def test_thousands_of_fixed_links_are_cut():
    model = load(chain(2000, type="fixed"), root="free")
    assert len(card(model).splitlines()) < 30
    assert len(model.frames) == 2000


def test_long_names_are_whole():
    """They stand on a line of their own where their column has no room."""
    names = [f"a_link_of_the_robot_with_quite_a_long_name_{i}" for i in range(3)]
    text = chain(4, name="l{}").replace('name="jl1"', f'name="{names[0]}"')
    text = text.replace('"l2"', f'"{names[1]}"').replace('name="jl3"', f'name="{names[2]}"')
    model = load(text, root="free")
    lines = card(model).splitlines()
    assert max(map(len, lines)) <= WIDTH
    for name in names:
        assert any(name in line for line in lines)
    assert f"  3  {names[2]} on {names[1]}" in lines
    at = lines.index(f"  3  {names[2]} on {names[1]}")
    assert lines[at + 1].split() == ["continuous", "9", "8", "x", "none", "1"]
    both = load(text.replace(names[2], names[2] * 2), root="free")
    lines = card(both).splitlines()
    assert f"       on {names[1]}".strip() in map(str.strip, lines)
    assert f"  3  {names[2] * 2}" in lines


@pytest.mark.parametrize("robot", ["atlas", "g1", "hyq", "mobile_arm", "quadruped_arm"])
def test_no_name_of_a_bundled_robot_is_cut(robot):
    model = load(robot, root="free")
    text = card(model).partition("joint physics")[0].partition("frames (")[0]
    carriers = [model.body_names[i] for i in model.parent if i >= 0]
    assert all(name in text for name in (*model.joint_names, *carriers))


def test_a_body_with_a_long_name_is_whole_beside_its_frames():
    name = "body_with_a_name_of_more_than_twenty_eight_characters"
    text = chain(2).replace('"l1"', f'"{name}"')
    fixed = '<link name="tip"/><joint name="end" type="fixed"><parent link="{}"/>'
    text = text.replace("</robot>", fixed.format(name) + '<child link="tip"/></joint></robot>')
    lines = card(load(text)).splitlines()
    at = lines.index("frames (3), by the body that carries them")
    assert f"  {name}" in lines[at:]
    assert f"{name}, tip" in lines[lines.index(f"  {name}", at) + 1]


def test_continuous_joints_are_told():
    assert "  jl1    continuous  (ground)" in card(load(chain(2)))
    limited = card(load(chain(2, extra='<limit lower="-1" upper="1"/>')))
    assert "revolute" in limited
    assert "continuous" not in limited


def test_the_command_line_is_told_of_the_free_root():
    text = " ".join(card(load("iiwa14")).split())
    assert 'fixed to the ground (root="free", on the command line --root free, lets them)' in text
    still = card(load('<robot name="r"><link name="a"/></robot>'))
    assert "--root free" in still


def test_a_card_for_others_has_no_folders(tmp_path):
    file = tmp_path / "arm.urdf"
    file.write_text(chain(2))
    model = replace(fl.load(file), notes=(f"opened '{tmp_path}/a b/mesh.stl' in m/s^2, N s/m",))
    assert str(tmp_path) in card(model)
    text = portable_card(model)
    assert str(tmp_path) not in text
    assert "source   arm.urdf" in text
    assert "mesh.stl' in m/s^2, N s/m" in text
    windows = replace(model, source="C:\\Users\\me\\arm.urdf", notes=("in C:\\Users\\me\\x.stl",))
    assert "Users" not in portable_card(windows)


@pytest.mark.parametrize("target", ["c", "wasm"])
def test_generated_files_have_no_folders(tmp_path, target):
    file = tmp_path / "secret" / "arm.urdf"
    file.parent.mkdir()
    file.write_text(
        chain(2, extra='<axis xyz="0 1 0"/>').replace("<mass", '<origin xyz="1 0 0"/><mass')
    )
    fl.generate(fl.load(file), tmp_path / "out", ["inverse_dynamics"], target=target)
    for written in (tmp_path / "out").iterdir():
        assert b"secret" not in written.read_bytes()
