"""MJCF whose meshes, textures and other files are missing, pointers of Git LFS, or broken."""

import numpy as np
import pytest

import featherlane as fl

pytest.importorskip("mujoco")

ASSETS = """<asset><mesh name="shell" file="shell.stl"/><mesh file="fit.obj" scale="2 2 2"/>
<texture name="t" type="2d" file="t.png"/><texture name="sky" type="skybox" fileup="up.png"/>
<material name="m" texture="t"/><hfield name="hills" file="hills.png" size="1 1 1 1"/>
<skin file="skin.skn"/></asset>
<default><default class="visual"><geom type="mesh" mesh="shell" material="m"/></default>
</default>"""
INERTIAL = '<inertial pos="0 0 0.1" mass="1" diaginertia="0.01 0.01 0.002"/>'
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"
CUBE = "".join(f"v {x} {y} {z}\n" for x in (0, 1) for y in (0, 1) for z in (0, 1)) + (
    "f 1 2 4 3\nf 5 7 8 6\nf 1 5 6 2\nf 3 4 8 7\nf 1 3 7 5\nf 2 6 8 4\n"
)


def arm(inertial=INERTIAL, assets=ASSETS, geoms='<geom class="visual" name="g"/>', rest=""):
    ground = '<geom type="hfield" hfield="hills"/><geom class="visual"/>' * (assets == ASSETS)
    inside = f'<joint name="j" axis="0 1 0"/>{geoms}<body name="tip">{INERTIAL}</body>'
    world = f'{ground}<body name="upper" pos="1 0 0">{inertial}{inside}</body>'
    return f'<mujoco model="arm">{assets}<worldbody>{world}</worldbody>{rest}</mujoco>'


def plain(**options):
    return arm(assets="", geoms='<geom name="g" size="1" mass="0"/>', **options)


def same(model, expected):
    assert (model.joints, model.bodies) == (expected.joints, expected.bodies)
    assert {*model.frame_names} == {*expected.frame_names}
    assert model.ground_mass == expected.ground_mass


@pytest.mark.parametrize("content", [None, POINTER, "not a mesh", ""])
def test_assets_that_no_inertia_needs(content, tmp_path, monkeypatch):
    for name in ("shell.stl", "fit.obj", "t.png", "up.png", "hills.png", "skin.skn"):
        if content is not None:
            (tmp_path / name).write_text(content)
    geoms = '<geom class="visual" name="g"/><geom type="box" mesh="fit"/>'
    pair = '<contact><pair geom1="g" geom2="g2"/></contact>'
    text = arm(geoms=geoms + '<geom name="g2" size=".1"/>', rest=pair)
    (tmp_path / "arm.xml").write_text(text)
    monkeypatch.chdir(tmp_path)
    for source in ("arm.xml", text):
        model = fl.load(source)
        same(model, fl.load(plain()))
        (note,) = (n for n in model.notes if "assets without a part in dynamics are not read" in n)
        assert ":" in note


def test_assets_that_can_be_read_are_no_note(tmp_path, monkeypatch):
    (tmp_path / "shell.obj").write_text(CUBE)
    assets = '<asset><mesh name="shell" file="shell.obj"/></asset>'
    monkeypatch.chdir(tmp_path)
    model = fl.load(arm(assets=assets, geoms='<geom type="mesh" mesh="shell"/>'))
    assert not any("assets" in note for note in model.notes)


def test_an_inertia_that_needs_a_missing_mesh(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = "body 'upper' has no <inertial>, so that its inertia comes from the mesh 'shell.stl'"
    with pytest.raises(fl.ModelError, match=told):
        fl.load(arm(inertial=""))
    (tmp_path / "shell.stl").write_text(POINTER)
    (tmp_path / "arm.xml").write_text(arm(inertial=""))
    with pytest.raises(fl.ModelError, match=told + "; this is a pointer of Git LFS"):
        fl.load("arm.xml")
    always = arm().replace("<asset>", '<compiler inertiafromgeom="true"/><asset>')
    with pytest.raises(fl.ModelError, match=told):
        fl.load(always)


def test_a_needed_mesh_is_read_while_others_are_missing(tmp_path, monkeypatch):
    """The inertia of a cube of 1 m and 1000 kg / m^3."""
    (tmp_path / "cube.obj").write_text(CUBE)
    monkeypatch.chdir(tmp_path)
    assets = ASSETS.replace("<asset>", '<asset><mesh name="cube" file="cube.obj"/>', 1)
    geoms = '<geom type="mesh" mesh="cube"/><geom class="visual" mass="0"/>'
    model = fl.load(arm(inertial="", assets=assets, geoms=geoms))
    body = model.bodies[0]
    assert body.mass == pytest.approx(1001.0)
    assert np.allclose(np.multiply(body.com, body.mass), [500, 500, 500.1])


def test_shapes_without_mass_need_no_mesh(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    box = '<geom name="g" type="box" size=".1 .2 .3" mass="2"/>'
    expected = fl.load(arm(inertial="", assets="", geoms=box))
    for visual in ('mass="0"', 'density="0"', 'group="7"'):
        geoms = f'{box}<geom class="visual" {visual}/>'
        assets = '<compiler inertiagrouprange="0 5"/>' + ASSETS
        same(fl.load(arm(inertial="", assets=assets, geoms=geoms)), expected)


def test_a_base_that_is_to_move_needs_its_mesh(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (
        f'<mujoco>{ASSETS}<worldbody><body name="base"><geom class="visual"/><body name="b">'
        f'{INERTIAL}<joint name="j"/></body></body></worldbody></mujoco>'
    )
    model = fl.load(text)
    assert (model.nv, model.ground_mass) == (1, 0.0)
    with pytest.raises(fl.ModelError, match="body 'base' has no <inertial>"):
        fl.load(text, root="free")


def test_other_faults_keep_their_own_message(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fl.ModelError, match=r"line \d+.*axis too small") as caught:
        fl.load(arm().replace('axis="0 1 0"', 'axis="0 0 0"'))
    assert "inertial" not in str(caught.value)


def test_a_mesh_that_no_asset_has():
    geoms = '<geom type="mesh" mesh="none"/>'
    with pytest.raises(fl.ModelError, match="there is no mesh 'none' among the assets"):
        fl.load(arm(geoms=geoms))
