"""Contact points of shapes with the ground and one another, against MuJoCo and by their meaning."""

import pickle

import numpy as np
import pytest

import featherlane as fl
from featherlane.algorithms.contact_points import contact_points
from featherlane.algorithms.frames import placements
from featherlane.robot.shape_pairs import combined, shape_pairs

mujoco = pytest.importorskip("mujoco")

CORNERS = [(x, y, z) for x in (-0.2, 0.2) for y in (-0.1, 0.1) for z in (0.1, 0.15)]
HULL = fl.CollisionShape("hull", "hull", body=0, points=(*CORNERS, (0.0, 0.0, 0.2)))
SHAPES = {
    "sphere": 'type="sphere" size=".12"',
    "capsule": 'type="capsule" size=".08 .2"',
    "ellipsoid": 'type="ellipsoid" size=".1 .2 .15"',
    "cylinder": 'type="cylinder" size=".1 .2"',
    "box": 'type="box" size=".1 .2 .15"',
}
NUMBERS = 'friction=".3 .02 .001" margin=".02" solref=".03 .8" solimp=".8 .9 .01 .4 3" solmix="2"'
PLACED = 'pos=".05 -.1 .07" euler="20 -30 40"'
ON = {
    "plane": '<geom name="floor" type="plane" size="1 1 1" condim="1" friction=".4 .01 .002"/>',
    "slope": f'<geom name="floor" type="plane" size="1 1 1" {PLACED}/>',
    "box": '<geom name="floor" type="box" size=".3 .4 .2" pos=".05 .02 -.1" euler="20 -30 40"/>',
}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def scene(moving, ground):
    return (
        f"<mujoco><worldbody>{ground}<body><freejoint/>"
        f'<geom name="moving" {moving} {PLACED} {NUMBERS}/></body></worldbody></mujoco>'
    )


def points_of(model, q, ground, heights=()):
    poses = placements(model.tree, q.tolist(), range(model.tree.nbodies))
    return contact_points(model.tree, poses, shape_pairs(model, ground), heights)


def contacts_of(m, q):
    """MuJoCo's contacts of free bodies at a configuration."""
    d = mujoco.MjData(m)
    d.qpos[:] = np.concatenate(
        [q.reshape(-1, 7)[:, :3], q.reshape(-1, 7)[:, [6, 3, 4, 5]]], 1
    ).ravel()
    mujoco.mj_forward(m, d)
    return [d.contact[i] for i in range(d.ncon)]


def same_contacts(points, contacts, sign=1.0):
    """Each contact of MuJoCo is one of the points, and those that it does not have are apart."""
    left = list(points)
    for contact in contacts:
        nearest = min(left, key=lambda p: np.linalg.norm(np.subtract(p.point, contact.pos)))
        left.remove(nearest)
        assert np.allclose(nearest.point, contact.pos, atol=1e-9)
        assert np.isclose(nearest.gap, contact.dist, atol=1e-9)
        frame = contact.frame.reshape(3, 3)
        assert np.allclose(nearest.frame[0], sign * frame[0], atol=1e-9)
        assert np.allclose(nearest.frame[1], frame[1], atol=1e-8)
        assert np.allclose(nearest.frame[2], sign * frame[2], atol=1e-8)
        numbers = nearest.pair.numbers
        assert numbers.condim == contact.dim
        assert np.allclose(numbers.friction, contact.friction)
        assert np.allclose(numbers.solref, contact.solref)
        assert np.allclose(numbers.solimp, contact.solimp)
        assert np.isclose(numbers.margin, contact.includemargin)
    for point in left:
        assert point.gap > point.pair.numbers.margin
    return len(contacts)


def random_states(model, count, spread):
    q = model.random_configuration(count, seed=3)
    q.reshape(count, -1, 7)[..., :3] *= spread / np.abs(q.reshape(count, -1, 7)[..., :3]).max()
    return q


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("surface", ["plane", "slope"])
def test_on_planes(kind, surface):
    text = scene(SHAPES[kind], ON[surface])
    model, m = fl.load(text), mujoco.MjModel.from_xml_string(text)
    ground = fl.Ground(surfaces="file")
    count = sum(
        same_contacts(points_of(model, q, ground), contacts_of(m, q))
        for q in random_states(model, 60, 0.3)
    )
    assert count > 40


def test_a_sphere_on_a_box():
    text = scene(SHAPES["sphere"], ON["box"])
    model, m = fl.load(text), mujoco.MjModel.from_xml_string(text)
    ground = fl.Ground(surfaces="file")
    count = sum(
        same_contacts(points_of(model, q, ground), contacts_of(m, q), -1.0)
        for q in random_states(model, 100, 0.5)
    )
    assert count > 40


def outside(points):
    """Whether the axis of a capsule, whose nearest point is the first, is outside of a box."""
    return points[0].gap > -0.079


@pytest.mark.parametrize("lying", [1e-2, None])
def test_a_capsule_on_a_box(lying, rng):
    """In general, and along the faces of the box but for some angle."""
    box = ON["box"] if lying is None else '<geom name="floor" type="box" size=".3 .4 .2"/>'
    moving = f'<geom name="moving" {SHAPES["capsule"]}/>'
    text = f"<mujoco><worldbody>{box}<body><freejoint/>{moving}</body></worldbody></mujoco>"
    model, m = fl.load(text), mujoco.MjModel.from_xml_string(text)
    numbers = []
    for q in random_states(model, 150, 0.6):
        if lying is not None:
            angle = rng.uniform(-3, 3)
            axis = rng.choice([[np.cos(angle), np.sin(angle), 0.0], [1.0, 0, 0], [0, 1.0, 0]])
            q[3:6], q[6] = axis + lying * rng.normal(size=3), 1.0  # its z is across that axis
            q[3:7] /= np.linalg.norm(q[3:7])
            q[2] = 0.28 - 0.01 * rng.random()
        points = points_of(model, q, fl.Ground(surfaces="file"))
        assert len(points) == 2
        if outside(points):
            numbers.append(same_contacts(points, contacts_of(m, q), -1.0))
    assert np.bincount(numbers, minlength=3)[1:].min() > 5


TWO = (
    '<mujoco><worldbody><body name="a"><freejoint/><geom name="one" {} {} {}/></body>'
    '<body name="b"><freejoint/><geom name="two" {} {}/></body></worldbody></mujoco>'
)


@pytest.mark.parametrize("kinds", [("sphere", "sphere"), ("capsule", "sphere"),
                                   ("sphere", "capsule"), ("capsule", "capsule")])  # fmt: skip
def test_pairs(kinds):
    first, second = (SHAPES[kind] for kind in kinds)
    text = TWO.format(first, PLACED, NUMBERS, second, 'pos="0 .1 0"')
    model, m = fl.load(text), mujoco.MjModel.from_xml_string(text)
    count = 0
    for ground in (
        fl.Ground(pairs="file", shapes=()),
        fl.Ground(pairs=[("two", "one")], shapes=()),
    ):
        count = sum(
            same_contacts(points_of(model, q, ground), contacts_of(m, q))
            for q in random_states(model, 60, 0.12)
        )
        assert count > 20


def test_capsules_that_are_parallel(rng):
    """Two points of the part that lies beside the other; one, or twice the same, at ends."""
    text = TWO.format(SHAPES["capsule"], "", "", 'type="capsule" size=".05 .12"', "")
    model, m = fl.load(text), mujoco.MjModel.from_xml_string(text)
    numbers = []
    for q in random_states(model, 60, 0.1):
        turn = fl.matrix_from_quaternion(q[3:7])
        angle = rng.uniform(-3, 3)
        q[7:10] = q[:3] + turn @ [0.1 * np.cos(angle), 0.1 * np.sin(angle), rng.uniform(-0.4, 0.4)]
        q[10:] = q[3:7] + rng.choice([0.0, 1e-7, 2e-5, 1e-2]) * rng.normal(size=4)
        q[10:] /= np.linalg.norm(q[10:])
        points = points_of(model, q, fl.Ground(pairs="file", shapes=()))
        numbers.append(same_contacts(points, contacts_of(m, q)))
    assert np.bincount(numbers, minlength=3)[1:].min() > 5
    q[7:] = q[:7]  # in the same place
    points = points_of(model, q, fl.Ground(pairs="file", shapes=()))
    assert np.allclose([point.gap for point in points], -0.13)
    assert all(np.isfinite([*p.point, *p.frame[0], *p.frame[1]]).all() for p in points)


def test_capsules_whose_axes_cross():
    """In one plane, as those of planar mechanisms, the normal is that of the plane."""
    text = TWO.format(SHAPES["capsule"], "", "", SHAPES["capsule"], "")
    model, m = fl.load(text), mujoco.MjModel.from_xml_string(text)
    ground = fl.Ground(pairs="file", shapes=())
    q = model.neutral()
    for angle in (0.3, 1.0, -0.7):
        q[:3] = 0.05 * np.sin(angle), 0.0, 0.05 * np.cos(angle)
        q[3:7] = 0.0, np.sin(angle / 2), 0.0, np.cos(angle / 2)
        assert same_contacts(points_of(model, q, ground), contacts_of(m, q)) == 1


# Hulls and height fields


def test_a_hull_on_a_plane(rng):
    corners = np.array([(x, y, z) for x in (-0.1, 0.1) for y in (-0.05, 0.05) for z in (0, 0.08)])
    sole = fl.CollisionShape("sole", "hull", body=0, points=tuple(map(tuple, corners.tolist())))
    model = fl.load("double_pendulum", root="free").with_collision_shapes([sole])
    q = model.neutral()
    q[2] = 0.01
    points = points_of(model, q, fl.Ground())
    assert len(points) == 4
    assert np.allclose(sorted(tuple(p.point) for p in points), sorted(
        (x, y, 0.005) for x, y, z in corners if not z))  # fmt: skip
    for q in model.random_configuration(20, seed=4):
        points = points_of(model, q, fl.Ground())
        R = fl.matrix_from_quaternion(q[3:7])
        assert np.isclose(min(p.gap for p in points), (corners @ R.T + q[:3])[:, 2].min())


def test_height_fields(rng):
    heights = rng.uniform(-0.1, 0.1, (4, 3))
    field = fl.HeightField((0.0, 0.6), (-0.2, 0.2), heights)
    ball = fl.CollisionShape("ball", "sphere", (0.05,), body=0)
    model = fl.load("double_pendulum", root="free").with_collision_shapes([ball])
    q = model.neutral()
    for _ in range(20):
        i, k = rng.integers(3), rng.integers(2)
        a, b = rng.uniform(size=2)
        q[:3] = 0.2 * (i + a), 0.2 * (k + b) - 0.2, 0.3
        corners = heights[i : i + 2, k : k + 2]
        height = np.array([1 - a, a]) @ corners @ [1 - b, b]
        by_x, by_y = np.array([-5, 5]) @ corners @ [1 - b, b], [1 - a, a] @ corners @ [-5, 5]
        normal = np.array([-by_x, -by_y, 1.0]) / np.linalg.norm([by_x, by_y, 1.0])
        (point,) = points_of(model, q, fl.Ground(surfaces=field))
        assert np.allclose(point.frame[0], normal)
        assert np.isclose(point.gap, (0.3 - height) * normal[2] - 0.05)
        inputs = fl.HeightField((0.0, 0.6), (-0.2, 0.2), (4, 3))
        (same,) = points_of(model, q, fl.Ground(surfaces=inputs), heights.tolist())
        assert np.allclose([same.gap, *same.point], [point.gap, *point.point])
    q[:3] = 5.0, 0.0, 0.3
    (point,) = points_of(model, q, fl.Ground(surfaces=field))
    assert point.frame[0][0] == 0
    q[1] = -5.0
    (point,) = points_of(model, q, fl.Ground(surfaces=field))
    assert np.allclose([*point.frame[0], point.gap], [0, 0, 1, 0.25 - heights[3, 0]])


def test_height_fields_are_keys(rng):
    heights = rng.normal(size=(40, 50))
    one, other = (fl.HeightField((0, 1), (0, 1), heights.copy()) for _ in range(2))
    again = pickle.loads(pickle.dumps(one))
    assert {one: 1}[other] == {one: 1}[again] == 1
    assert hash(one) == hash(other) == hash(again)
    assert one != fl.HeightField((0, 1), (0, 1), -heights)


def test_a_plane_and_a_ramp_are_the_same():
    """A field that is a plane gives the points of that plane, for all kinds of shapes."""
    ramp = fl.HeightField((-2.0, 2.0), (-2.0, 2.0), [[-1.0, -1.0], [1.0, 1.0]])
    slope = fl.Ground(normal=(-0.5, 0.0, 1.0))
    sole = 'type="box" size=".2 .1 .02"'
    models = [fl.load(scene(shape, "")) for shape in (*SHAPES.values(), sole)]
    for model in (*models, models[0].with_collision_shapes([HULL])):
        for q in random_states(model, 10, 0.5):
            on_plane, on_field = (
                points_of(model, q, ground) for ground in (slope, fl.Ground(surfaces=(ramp,)))
            )
            for a, b in zip(on_plane, on_field, strict=True):
                assert np.allclose(a.point, b.point)
                assert np.allclose(a.frame, b.frame)
                assert np.isclose(a.gap, b.gap)


def test_a_cylinder_rolls_down_a_ramp():
    ramp = fl.HeightField((-3.0, 3.0), (-1.0, 1.0), [[1.5, 1.5], [-1.5, -1.5]])
    lying = fl.Placement.of([[1, 0, 0], [0, 0, -1], [0, 1, 0]], (0, 0, 0))
    model = fl.load(scene(SHAPES["sphere"], "")).without_collision_shapes()
    model = model.with_collision_shapes([fl.CollisionShape("c", "cylinder", (0.1, 0.2), 0, lying)])
    q = model.neutral()
    q[2] = 0.1 / np.cos(np.arctan(0.5))
    points = points_of(model, q, fl.Ground(surfaces=ramp))
    assert np.allclose([point.gap for point in points][:2], 0.0)


def test_shapes_of_one_name_have_their_places():
    """A surface with the name of a shape is where it is, not where that shape is."""
    place = fl.Placement.of(np.eye(3), (5.0, 0.0, 0.0))
    crate = fl.CollisionShape("ball", "box", (0.1, 0.1, 0.1), placement=place)
    model = feet(BALL)
    (point,) = points_of(model, model.neutral(), fl.Ground(surfaces=crate))
    assert np.isclose(point.gap, 5.0 - 0.1 - 0.1)


def test_traced_points_have_derivatives():
    """The gap's slope along q is the velocity of the point along the normal."""
    model = fl.load(scene(SHAPES["cylinder"], ""))

    def gaps(q):
        poses = placements(model.tree, list(q), range(model.tree.nbodies))
        return [p.gap for p in contact_points(model.tree, poses, shape_pairs(model, fl.Ground()))]

    q = random_states(model, 5, 0.3)
    compiled = fl.compile(gaps, {"q": (7,)})
    slopes = fl.compile(fl.jacobian(gaps, {"q": (7,)}, wrt="q"))(q)
    for k in range(7):
        step = 1e-6 * np.eye(7)[k]
        difference = (np.array(compiled(q + step)) - compiled(q - step)) / 2e-6
        assert np.allclose(np.squeeze(slopes)[..., k], difference, atol=1e-6)


# What is refused


def feet(*shapes):
    return fl.load("double_pendulum", root="free").with_collision_shapes(shapes)


FLOOR = fl.CollisionShape("ground", "plane")
BALL = fl.CollisionShape("ball", "sphere", (0.1,), body=0)
CRATE = fl.CollisionShape("crate", "box", (0.1, 0.1, 0.1), body=1)
EGG = fl.CollisionShape("egg", "ellipsoid", (0.1, 0.1, 0.2), body=0)
APART = fl.CollisionShape("ball", "sphere", (0.1,), body=0, contype=0, conaffinity=0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fl.Ground(friction=-1), "friction is -1; wanted the sliding"),
        (lambda: fl.Ground(height=np.nan), "height is nan: wanted finite"),
        (lambda: fl.Ground(height="a"), "height is 'a': wanted finite"),
        (lambda: fl.Ground(height=1j), "height is 1j: wanted finite"),
        (lambda: fl.Ground(normal="abc"), "normal is 'abc': wanted three"),
        (lambda: fl.Ground(friction="0.5"), "friction is '0.5'; wanted the sliding"),
        (lambda: fl.Ground(shapes=3), "shapes is 3: wanted names"),
        (lambda: fl.Ground(pairs=None), "pairs is None: wanted 'file', or"),
        (lambda: fl.Ground(pairs="all"), "pairs is 'all': wanted 'file', or"),
        (lambda: fl.Ground(surfaces=3), "surfaces is 3: wanted 'file', or"),
        (lambda: fl.Ground(surfaces=None), "surfaces is None: wanted 'file', or"),
        (lambda: fl.Ground(surfaces="flat"), "surfaces is 'flat': wanted 'file', or"),
        (lambda: fl.Ground(surfaces=np.zeros(3)), r"surfaces has .*0\.0.*: wanted 'file', or"),
        (lambda: fl.HeightField("ab", (0, 1), (2, 2)), r"x is 'ab'; wanted \(lower"),
        (lambda: fl.HeightField(1, (0, 1), (2, 2)), r"x is 1; wanted \(lower"),
        (lambda: fl.HeightField((0, 1), (0, 1), "abc"), r"heights is 'abc'; wanted an array"),
        (lambda: fl.HeightField((0, 1), (0, 1), [[0, 1], [2]]), r"heights is \[\[0, 1\], \[2\]\];"),
        (
            lambda: fl.HeightField((0, 1), (0, 1), np.zeros((2, 2, 2))),
            r"heights has shape \(2, 2, 2",
        ),
        (lambda: fl.HeightField((0, 1), (0, 1), (np.nan, 2)), r"heights is \(nan, 2\); wanted an"),
        (lambda: fl.HeightField((0, 1), (0, 1), (2.7, 3.2)), r"\(2.7, 3.2\), .* wanted whole numb"),
        (
            lambda: shape_pairs(feet(BALL), fl.Ground(surfaces="file")),
            "surfaces is 'file', and .* has no collision shape in the world",
        ),
        (
            lambda: shape_pairs(
                feet(BALL), fl.Ground(surfaces=fl.CollisionShape("log", "cylinder", (0.1, 0.2)))
            ),
            "with cylinder 'log' has no rule: wanted surfaces of the kinds plane, height field",
        ),
        (lambda: fl.Ground(normal=(0, 0, 0)), "normal is .*: wanted three"),
        (lambda: fl.Ground(shapes="foot"), "shapes is 'foot': wanted names"),
        (lambda: fl.Ground(pairs=["foot"]), "pairs has 'foot': wanted 'file', or"),
        (lambda: fl.Ground(pairs=[("a", "b"), ("b", "a")]), r"\('a', 'b'\) 2 times: wanted once"),
        (lambda: fl.Ground(shapes=("a", "a")), "shapes has 'a' 2 times: wanted once each"),
        (lambda: fl.Ground(surfaces=[FLOOR, FLOOR]), "surfaces, by name, has 'ground' 2 times"),
        (lambda: fl.Ground(surfaces=[3]), "surfaces has 3: wanted 'file', or"),
        (lambda: fl.Ground(surfaces=[BALL]), "sphere 'ball', on body 0: wanted the world"),
        (lambda: fl.Ground(1.0, surfaces=[fl.HeightField((0, 1), (0, 1), (2, 2))]), "height and n"),
        (lambda: fl.HeightField((0, 1), (0, 1), [[0.0]]), r"heights has shape \(1, 1\)"),
        (lambda: fl.HeightField((1, 0), (0, 1), (2, 2)), r"x is \(1, 0\); wanted \(lower"),
        (lambda: shape_pairs(feet(), fl.Ground()), "has no shape that touches the ground"),
        (lambda: shape_pairs(feet(BALL), fl.Ground(shapes=("bal",))), "no collision shape 'bal'"),
        (
            lambda: shape_pairs(feet(BALL, CRATE), fl.Ground(pairs=[("ball", "crate")])),
            "contact of box 'crate' with sphere 'ball' has no rule: .* sphere or capsule; leave",
        ),
        (
            lambda: shape_pairs(feet(BALL), fl.Ground(shapes=())),
            r"no shape that touches the ground: shapes is \(\); wanted names of 'ball', or None",
        ),
        (
            lambda: shape_pairs(feet(APART), fl.Ground()),
            "groups or exclusions keep off 'ball'; wanted their names as shapes=",
        ),
        (
            lambda: shape_pairs(feet(EGG, CRATE), fl.Ground(pairs=[("crate", "egg")])),
            "box 'crate' with ellipsoid 'egg' has no rule: the kind ellipsoid touches planes",
        ),
        (
            lambda: shape_pairs(feet(fl.CollisionShape("h", "hull", body=0)), fl.Ground()),
            "hull 'h' has no points: its mesh was not read; put a sphere",
        ),
    ],
)
def test_refused(make, said):
    with pytest.raises((ValueError, TypeError), match=said):
        make()


def test_iterators_are_read_once():
    ground = fl.Ground(shapes=iter(["a", "b"]), pairs=iter([("a", "b")]), surfaces=iter([FLOOR]))
    assert (ground.shapes, ground.pairs) == (("a", "b"), (("a", "b"),))
    assert ground.surfaces == (FLOOR,)


def test_which_shapes_touch():
    text = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>
    <body name="a"><freejoint/><geom name="p" size=".1"/><geom name="q" size=".1" contype="2"
    conaffinity="2"/><body name="b"><joint/><geom name="r" size=".1"/><body name="c"><joint/>
    <geom name="s" size=".1"/></body></body></body></worldbody>
    <contact><exclude body1="world" body2="b"/>
    <pair geom1="q" geom2="s" friction=".5 .4 .3 .2 .1"/></contact></mujoco>"""
    model = fl.load(text)
    names = lambda **options: [x.names for x in shape_pairs(model, fl.Ground(**options))]
    assert names() == [("p", "ground"), ("s", "ground")]
    assert names(surfaces="file") == [("p", "floor"), ("s", "floor")]
    assert names(shapes=("q",)) == [("q", "ground")]
    assert names(shapes=(), pairs="file") == [("s", "p"), ("s", "q")]
    (pair,) = shape_pairs(model, fl.Ground(shapes=(), pairs=[("s", "q")]))
    assert pair.numbers.friction == (0.5, 0.4, 0.3, 0.2, 0.1)
    (pair,) = shape_pairs(model, fl.Ground(shapes=("p",), friction=0.25))
    assert pair.numbers.three == (0.25, 0.0, 0.0)


def test_priorities_and_weights():
    a = fl.CollisionShape("a", "sphere", (1.0,), friction=(0.2, 0.1, 0.1), priority=1, condim=6)
    b = fl.CollisionShape("b", "sphere", (1.0,), solref=(-100.0, -5.0), solmix=0.0)
    assert combined(a, b).friction == (0.2, 0.2, 0.1, 0.1, 0.1)
    assert combined(a, b).condim == 6
    same = fl.CollisionShape("c", "sphere", (1.0,))
    assert combined(b, same).solref == (-100.0, -5.0)
    assert combined(b, same).solimp == same.solimp
