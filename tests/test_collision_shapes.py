"""Collision shapes: what loaders keep of URDF and MJCF, and that edits carry them."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest

import featherlane as fl
from featherlane.robot.hulls import EXACT, POINTS, extreme_points
from featherlane.robot.loaders import meshes
from featherlane.robot.parts import WORLD, Frame
from featherlane.tools import facts

BALL = fl.CollisionShape("ball", "sphere", (0.1,))
ORIGIN = '<origin xyz="0.1 -0.2 0.3" rpy="0.4 0.5 0.6"/>'
SHAPES = {
    "sphere": ('<sphere radius="0.1"/>', (0.1,)),
    "box": ('<box size="0.2 0.4 0.6"/>', (0.1, 0.2, 0.3)),
    "cylinder": ('<cylinder radius="0.1" length="0.4"/>', (0.1, 0.2)),
    "capsule": ('<capsule radius="0.1" length="0.4"/>', (0.1, 0.2)),
    "hull": ('<mesh filename="package://lost/part.stl" scale="1 2 3"/>', ()),
}
INERTIAL = (
    '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    "</inertial>"
)


def collision(shape, name=""):
    return f"<collision {name}>{ORIGIN}<geometry>{shape}</geometry></collision>"


def urdf(inside, rest=""):
    """A base, a link on a revolute joint, and `tip` fixed to it, which has the collisions."""
    return (
        f'<robot name="r"><link name="base">{collision(SHAPES["box"][0])}</link>'
        f'<link name="arm">{INERTIAL}</link><link name="tip">{inside}</link>'
        '<joint name="j" type="continuous"><parent link="base"/><child link="arm"/>'
        f'<axis xyz="0 1 0"/>{ORIGIN}</joint><joint name="f" type="fixed"><parent link="arm"/>'
        f'<child link="tip"/>{ORIGIN}</joint>{rest}</robot>'
    )


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("kind", SHAPES)
def test_urdf(kind):
    text, size = SHAPES[kind]
    model = fl.load(urdf(collision(text)))
    base, shape = model.collision_shapes
    assert (base.body, base.kind, base.link) == (WORLD, "box", "base")
    assert (shape.name, shape.kind, shape.size) == ("tip", kind, size)
    assert (shape.body, shape.link) == (0, "tip")
    place = base.placement
    wanted = place * place
    assert np.allclose(shape.placement.R, wanted.R)
    assert np.allclose(shape.placement.p, wanted.p)
    if kind == "hull":
        assert shape.mesh == ("package://lost/part.stl", (1.0, 2.0, 3.0))
    assert not any("collision" in note for note in model.notes)


def test_placements_against_pinocchio(tmp_path):
    pin = pytest.importorskip("pinocchio")
    names = ("sphere", "box", "cylinder")
    shapes = "".join(collision(SHAPES[name][0], f'name="{name}"') for name in names)
    (tmp_path / "robot.urdf").write_text(urdf(shapes))
    path = str(tmp_path / "robot.urdf")
    model, peer = fl.load(path), pin.buildModelFromUrdf(path)
    geometry = pin.buildGeomFromUrdf(peer, path, pin.GeometryType.COLLISION)
    data, at = peer.createData(), geometry.createData()
    q = model.random_configuration(seed=0)
    pin.updateGeometryPlacements(peer, data, geometry, at, np.array([np.cos(q[0]), np.sin(q[0])]))
    ours = [*placements(model, q).values()]
    assert len(geometry.geometryObjects) == len(ours) == 4
    for place, T in zip(at.oMg, ours, strict=True):
        assert np.allclose(place.homogeneous, T)


def test_urdf_names_and_friction():
    two = collision(SHAPES["sphere"][0]) + collision(SHAPES["box"][0], 'name="heel"')
    gazebo = '<gazebo reference="{}"><mu1 value="0.7"/><mu2>{}</mu2></gazebo>'
    model = fl.load(urdf(two, gazebo.format("tip", 0.7) + gazebo.format("base", 0.6)))
    assert [shape.name for shape in model.collision_shapes] == ["base", "tip/0", "heel"]
    assert [shape.friction[0] for shape in model.collision_shapes] == [1.0, 0.7, 0.7]
    assert any("mu1 and mu2" in note and note.endswith(": base") for note in model.notes)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ('<sphere radius="-1"/>', r"sphere 'tip': size is \(-1.0,\); wanted \(radius\), m"),
        ('<sphere radius="a"/>', "radius holds 'a'; wanted a finite number"),
        ("<cone/>", "wanted a box, sphere, cylinder, capsule or mesh"),
        ("", "there is no shape in it"),
    ],
)
def test_shapes_that_cannot_be_read_are_noted(shape, said):
    model = fl.load(urdf(collision(shape)))
    assert len(model.collision_shapes) == 1
    (note,) = [note for note in model.notes if note.startswith("collision shapes that are not")]
    assert re.search(said, note)
    assert note in str(model.geometry).splitlines()
    assert note not in str(fl.load(urdf("")).geometry)
    with pytest.raises(ValueError, match="no shape that touches.*" + said + ".*; wanted collision"):
        model.step([0.0], [0.0], [0.0], 1e-3, ground=fl.Ground())
    with pytest.raises(ValueError, match="no collision shape 'tip': the model has base; .*" + said):
        model.step([0.0], [0.0], [0.0], 1e-3, ground=fl.Ground(shapes=("tip",)))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "spere"}, r"spere 'foot': kind is 'spere'.*did you mean 'sphere'"),
        ({"size": (1.0, 2.0)}, r"sphere 'foot': size is \(1.0, 2.0\); wanted \(radius\)"),
        (
            {"friction": (-0.1, 0.0, 0.0)},
            r"sphere 'foot': friction is .*0 is no friction, as is condim=1",
        ),
        ({"size": 0.1}, r"'foot': size is 0.1; wanted \(radius\)"),
        ({"kind": "plane", "size": 0.1}, r"'foot': size is 0.1; wanted \(\)"),
        ({"size": (float("nan"),)}, r"'foot': size is \(nan,\); wanted"),
        ({"margin": float("nan")}, "'foot': margin is nan; wanted a finite number"),
        ({"condim": 2}, "'foot': condim is 2; wanted one of 1, 3, 4, 6"),
        ({"contype": 0.5}, "'foot': contype is 0.5; wanted a whole number"),
        ({"name": 3}, "sphere 3: name is 3; wanted a string"),
        ({"placement": (0, 0, 0)}, r"placement is \(0, 0, 0\); wanted fl.Placement"),
        *[
            ({"solref": x}, "'foot': solref is .*; wanted 2 finite numbers")
            for x in [(0.02, 0), (1, -1), (0, 0), (1,), 0.1, "ab", (1, float("inf"))]
        ],
        *[
            ({"solimp": x}, "'foot': solimp is .*; wanted 5 finite numbers")
            for x in [(0.9, 0.95), (2, 2, 2, 2, 2), (0.9, 0.95, 0.001, 0.5, float("nan"))]
        ],
        *[
            ({"kind": "hull", "size": (), "points": x}, "hull 'foot': points is .*; wanted .n, 3")
            for x in [("a",), 5, None, [(0, 0, 0), (1, 1, None)], [(0, 0, 0), (1, 1)], [(1, 2)]]
        ],
    ],
)
def test_refused(fields, said):
    sphere = fl.CollisionShape("foot", "sphere", (0.1,))
    error = TypeError if {*fields} & {"name", "placement"} else ValueError
    with pytest.raises(error, match=said):
        replace(sphere, **fields)


def test_numbers_of_numpy_and_one_friction():
    shape = replace(BALL, size=np.array([0.2]), friction=0.5, condim=np.int64(4), margin=1)
    assert shape == replace(BALL, size=(0.2,), friction=(0.5, 0.005, 0.0001), condim=4, margin=1.0)
    assert hash(shape)
    assert replace(BALL, solref=(-100, -1)).solref == (-100.0, -1.0)


# MJCF, against the compiled model

CUBE = "0 0 0 1 0 0 0 1 0 0 0 1 1 1 0 1 0 1 0 1 1 1 1 1 .5 .5 .5"
PLACED = 'pos=".1 -.2 .3" euler="20 -30 40"'
MJCF = f"""
<mujoco><asset><mesh name="cube" vertex="{CUBE}"/></asset>
<default><geom friction=".8" margin=".01" gap=".002" solref=".03 .9" solmix="2"/></default>
<worldbody><geom name="floor" type="plane" size="1 1 1"/>
<body name="a" {PLACED}><freejoint name="root"/>
  <geom name="ball" size=".1" {PLACED} condim="4" priority="1"/>
  <geom name="look" size=".1" contype="0" conaffinity="0"/>
  <body name="b" {PLACED}><joint name="x" pos=".1 .2 .3"/><joint name="y" axis="0 1 0"/>
    <geom name="rod" type="capsule" size=".1 .3" {PLACED} contype="2" conaffinity="4"/>
    <geom type="cylinder" size=".1 .3" {PLACED}/>
    <body name="c" {PLACED}><geom name="crate" type="box" size=".1 .2 .3" {PLACED}/>
      <geom name="egg" type="ellipsoid" size=".1 .2 .3" {PLACED}/>
      <geom name="die" type="mesh" mesh="cube" {PLACED}/></body>
  </body></body></worldbody>
<contact><pair geom1="ball" geom2="crate" friction=".5 .4 .3 .2 .1"/>
  <exclude body1="a" body2="c"/></contact></mujoco>
"""


def placements(model, q):
    """The placement in the world of each shape at q, by name."""
    places = {}
    for s in model.collision_shapes:
        frames = (*model.frames, Frame("shape", s.body, s.placement))
        places[s.name] = replace(model, frames=frames).frame_placement(q, "shape")
    return places


def same_places(a, b):
    assert a.keys() == b.keys()
    for name, place in a.items():
        assert np.allclose(place, b[name], atol=1e-12), name


def test_mjcf():
    mujoco = pytest.importorskip("mujoco")
    model = fl.load(MJCF)
    m = mujoco.MjModel.from_xml_string(MJCF)
    d = mujoco.MjData(m)
    q = model.random_configuration(seed=1)
    d.qpos[:] = np.concatenate([q[:3], q[6:7], q[3:6], q[7:]])
    mujoco.mj_kinematics(m, d)
    names = {g: m.geom(g).name or "geom4" for g in range(m.ngeom) if m.geom(g).name != "look"}
    found = placements(model, q)
    for shape, g in zip(model.collision_shapes, names, strict=True):
        geom = m.geom(g)
        assert shape.name == names[g]
        assert np.allclose(found[shape.name][:3, 3], d.geom_xpos[g])
        assert np.allclose(found[shape.name][:3, :3].ravel(), d.geom_xmat[g])
        assert np.allclose(shape.size, geom.size[: len(shape.size)])
        numbers = ("friction", "margin", "gap", "contype", "conaffinity", "condim", "priority")
        for field in (*numbers, "solref", "solimp", "solmix"):
            assert np.array_equal(np.ravel(getattr(shape, field)), getattr(geom, field)), field
    (die,) = [shape for shape in model.collision_shapes if shape.kind == "hull"]
    corners = np.array(die.points) @ np.array(die.placement.R).T + die.placement.p
    assert len(corners) == 8
    assert np.ptp(corners @ np.array(die.placement.R), axis=0).max() < np.sqrt(3) + 1e-6
    (pair,) = model.collision_pairs
    assert (pair.first, pair.second) == ("ball", "crate")
    assert np.array_equal(pair.friction, m.pair_friction[0])
    assert model.collision_exclusions == (("a", "c"),)
    assert "ignored: 1 geom" in model.notes
    with pytest.raises(fl.ModelError, match="sphere 'ball': friction is"):
        fl.load(MJCF.replace('condim="4"', 'condim="4" friction="-1"'))


def test_odd_numbers_of_files_are_those_that_mujoco_takes():
    """MuJoCo's default is in the place of a solref with mixed signs, and solimp is clipped."""
    pytest.importorskip("mujoco")
    odd = 'solref="{}" solimp="2 -1 -.1 3 0"'
    for solref, wanted in [("1 -1", (0.02, 1)), (".02 0", (0.02, 1)), ("0 0", (-1e-15, -1e-15))]:
        text = MJCF.replace('condim="4"', odd.format(solref)).replace(
            'friction=".5 .4 .3 .2 .1"', odd.format(solref)
        )
        model = fl.load(text)
        for x in (model.geometry.shape("ball"), model.collision_pairs[0]):
            assert x.solref == wanted
            assert x.solimp == (1, 0, 0, 1, 1)


def test_meshes_that_are_missing(tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    inertial = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    text = MJCF.replace(f'vertex="{CUBE}"', 'file="lost.obj"')
    text = text.replace('<geom name="crate"', f'{inertial}<geom name="crate"')
    model = fl.load(text)
    (die,) = [shape for shape in model.collision_shapes if shape.kind == "hull"]
    assert (die.points, die.mesh.name) == ((), "cube")
    assert any(note == "collision shapes whose mesh was not read: die" for note in model.notes)


# Edits


def test_edits_carry_shapes():
    pytest.importorskip("mujoco")
    model = fl.load(MJCF)
    q = model.random_configuration(seed=2)
    before = placements(model, q)
    root = {"root": q[:7]}
    same_places(placements(model.reduced({"x": q[7]}), np.delete(q, 7)), before)
    same_places(placements(model.reduced(root), q[7:]), before)
    moved = fl.editing.rerooting(model, "b")
    same_places(placements(moved.model, moved.to(q).q), before)
    renamed = model.renamed(frames=lambda name: f"new_{name}")
    assert {s.link for s in renamed.collision_shapes} == {"new_world", "new_a", "new_b", "new_c"}
    assert renamed.collision_exclusions == (("new_a", "new_c"),)
    assert pickle.loads(pickle.dumps(model)) == model


def test_attached_shapes():
    pytest.importorskip("mujoco")
    arm, tool = fl.load(urdf(collision(SHAPES["sphere"][0]))), fl.load(MJCF)
    whole = fl.attach(arm, tool, "tip", prefix="tool_")
    assert {s.name for s in whole.collision_shapes} >= {"tip", "tool_ball", "tool_floor"}
    assert (whole.collision_pairs[0].first, whole.collision_exclusions) == (
        "tool_ball",
        (("tool_a", "tool_c"),),
    )
    q = whole.random_configuration(seed=3)
    at_tip = whole.frame_placement(q, "tip")
    of_tool = placements(tool.reduced({"root": None}), q[1:])
    found = placements(whole, q)
    for name, place in of_tool.items():
        assert np.allclose(found[f"tool_{name}"], at_tip @ place, atol=1e-12)
    again = fl.attach(whole, fl.load(urdf(collision(SHAPES["sphere"][0]))), "tip")
    assert "r_tip" in [shape.name for shape in again.collision_shapes]


def test_shapes_change_no_machine_code():
    bare, with_shape = (fl.load(urdf(x)) for x in ("", collision(SHAPES["sphere"][0])))
    assert bare.fingerprint == with_shape.fingerprint
    assert bare != with_shape


def test_shapes_are_added_and_removed():
    model = fl.load(urdf(collision(SHAPES["sphere"][0])))
    toe = fl.CollisionShape("toe", "sphere", (0.05,))
    more = model.with_collision_shapes({"tip": toe})
    assert more.collision_shapes[-1] == replace(
        toe, body=0, link="tip", placement=model.frame("tip").placement
    )
    again = more.with_collision_shapes([replace(s, condim=1) for s in more.collision_shapes])
    assert [s.name for s in again.collision_shapes] == ["base", "tip", "toe"]
    assert {s.condim for s in again.collision_shapes} == {1}
    assert more.without_collision_shapes(["toe"]).collision_shapes == model.collision_shapes
    assert more.without_collision_shapes().collision_shapes == ()
    on_body = model.with_collision_shapes(replace(toe, body=0)).collision_shapes[-1]
    assert (on_body.link, on_body.placement.p) == ("arm", (0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"tips": BALL}, "there is no frame 'tips'"),
        ([replace(BALL, body=3)], "sphere 'ball' is on body 3: wanted a number of one of 1"),
        (
            [replace(BALL, link="tip")],
            "is on body -1, and its link 'tip' on body 0: {'tip': shape}",
        ),
        ([BALL, BALL], "two collision shapes are named 'ball'"),
        ("ball", "shapes has 'b': wanted fl.CollisionShape"),
    ],
)
def test_shapes_that_cannot_be_added(shapes, said):
    with pytest.raises((ValueError, TypeError), match=said):
        fl.load(urdf("")).with_collision_shapes(shapes)
    with pytest.raises(ValueError, match=r"no collision shape 'bas' .*'base'"):
        fl.load(urdf("")).without_collision_shapes("bas")


# Hulls


CORNERS = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)])
FACES = np.array([(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)])


def binary_stl(corners, faces):
    triangles = np.zeros(len(faces), meshes.TRIANGLE)
    triangles["vertices"] = corners[faces]
    return bytes(80) + len(faces).to_bytes(4, "little") + triangles.tobytes()


def text_stl(corners, faces):
    vertices = "\n".join(f"  vertex {x} {y} {z}" for x, y, z in corners[faces].reshape(-1, 3))
    return f"solid part\n{vertices}\nendsolid".encode()


def obj(corners, faces):
    rows = [f"v {x} {y} {z}" for x, y, z in corners] + ["vn 9 9 9"]
    return "\n".join(rows + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces]).encode()


@pytest.mark.parametrize(
    ("write", "suffix"), [(binary_stl, "stl"), (text_stl, "STL"), (obj, "obj")]
)
def test_points_are_read_when_they_are_needed(tmp_path, write, suffix):
    (tmp_path / f"part.{suffix}").write_bytes(write(CORNERS, FACES))
    mesh = f'<mesh filename="package://tool/part.{suffix}" scale="1 2 3"/>'
    (tmp_path / "robot.urdf").write_text(urdf(collision(mesh)))
    shape = fl.load(tmp_path / "robot.urdf").collision_shapes[-1]
    assert shape.points == ()
    read = meshes.with_points(shape)
    assert {*read.points} == {tuple(map(float, row)) for row in CORNERS * [1, 2, 3]}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("lost.stl", None, "there is no file package://tool/lost.stl"),
        ("empty.obj", b"f 1 2 3", "has no finite vertices"),
        ("odd.obj", b"v a b c", "could not convert"),
    ],
)
def test_meshes_that_cannot_be_read(tmp_path, name, text, said):
    if text is not None:
        (tmp_path / name).write_bytes(text)
    mesh = f'<mesh filename="package://tool/{name}"/>'
    (tmp_path / "robot.urdf").write_text(urdf(collision(mesh)))
    shape = fl.load(tmp_path / "robot.urdf").collision_shapes[-1]
    with pytest.raises(fl.ModelError, match=f"hull 'tip' has no points: .*{said}.*; put a sphere"):
        meshes.with_points(shape)


def test_extreme_points(rng):
    cube = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
    inside = rng.uniform(-0.99, 0.99, (1000, 3))
    points, short = extreme_points(np.concatenate([inside, cube]))
    assert {*points} == {tuple(map(float, corner)) for corner in cube}
    assert short <= 2 * EXACT
    ball = rng.normal(size=(5000, 3))
    ball /= np.linalg.norm(ball, axis=1)[:, None]
    points, short = extreme_points(ball)
    assert len(points) == POINTS
    directions = rng.normal(size=(2000, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    worst = ((ball @ directions.T).max(0) - (np.array(points) @ directions.T).max(0)).max()
    assert 0.5 * worst < short < 0.3


# The table, the card, the view


def test_the_table():
    model = fl.load(urdf(collision(SHAPES["box"][0]) + collision(SHAPES["hull"][0])))
    lines = str(model.geometry).splitlines()
    assert lines[0].split()[:4] == ["shape", "kind", "on", "body"]
    assert lines[1].split()[:3] == ["base", "box", "(ground)"]
    assert "half 0.1 x 0.2 x 0.3" in lines[2]
    assert "no mesh" not in lines[3]
    assert "mesh package://lost/part.stl" in lines[3]
    assert model.geometry.shape("base") == model.collision_shapes[0]
    card = str(model)
    assert "collision shapes (3), m" in card
    assert "tip/0 (box half 0.1 x 0.2 x 0.3)" in card
    shapes = facts.of_model(model)["collision_shapes"]
    assert [shape["name"] for shape in shapes] == ["base", "tip/0", "tip/1"]
    assert "fl.Ground" not in str(fl.load(urdf("")).without_collision_shapes())


def test_pairs_are_below_the_table():
    pytest.importorskip("mujoco")
    lines = str(fl.load(MJCF).geometry).splitlines()
    assert lines[-2:] == ["pairs: ball with crate", "not touching: a and c"]
    assert any("8 points" in line for line in lines)


def test_meshes_that_are_drawn(tmp_path):
    pytest.importorskip("trimesh")
    from featherlane.interop import shapes

    points = tuple(map(tuple, CORNERS.astype(float).tolist()))
    hull = fl.CollisionShape("hull", "hull", body=0, points=points)
    egg = fl.CollisionShape("egg", "ellipsoid", (0.1, 0.2, 0.3), body=0)
    lost = fl.CollisionShape("lost", "hull", body=0)
    model = fl.load(urdf("")).with_collision_shapes([hull, egg, lost])
    drawn, notes = shapes.collision_meshes(model)
    assert [body for body, _ in drawn] == [WORLD, 0, 0]
    assert np.allclose(drawn[1].mesh.bounds, [[0, 0, 0], [1, 1, 1]])
    assert np.allclose(drawn[2].mesh.extents, [0.2, 0.4, 0.6], atol=1e-2)
    assert [note.split(" has")[0] for note in notes] == ["hull 'lost'"]


@pytest.mark.parametrize(
    ("name", "feet", "lowest"), [("hyq", 4, -0.792), ("g1", 8, -0.79), ("quadruped_arm", 4, -0.69)]
)
def test_bundled_robots_have_feet_at_the_ends_of_their_legs(name, feet, lowest):
    model = fl.load(name, root="free")
    shapes = model.collision_shapes
    assert [shape.kind for shape in shapes] == feet * ["sphere"]
    bodies = model.frame_placement(model.neutral(), [model.body_names[s.body] for s in shapes])
    ends = [
        (body @ [*shape.placement.p, 1])[2] - shape.size[0]
        for body, shape in zip(bodies, shapes, strict=True)
    ]
    np.testing.assert_allclose(ends, lowest, atol=0.005)
