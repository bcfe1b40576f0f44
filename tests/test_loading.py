"""What load does with any file: mimic joints, roots, orders, descriptions, xacro, size."""

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from repetition import full, repeated
from robot_files import robot_file

import featherlane as fl
from featherlane import algorithms
from featherlane.api.card import card
from featherlane.api.model import held
from featherlane.errors import ModelError
from featherlane.robot.loaders import ROOTS, load
from featherlane.robot.parts import WORLD, Joint, Mimic, Placement
from featherlane.robot.tree_of import tree_of

INERTIAL = (
    '<inertial><origin xyz="0.1 0.2 0.3"/><mass value="{m}"/>'
    '<inertia ixx="1" ixy="0.1" ixz="0" iyy="1.5" iyz="0.2" izz="2"/></inertial>'
)


def link(name, mass=1.0):
    return f'<link name="{name}">{INERTIAL.format(m=mass)}</link>'


def joint(name, parent, child, inside="", type="revolute"):
    ends = f'<parent link="{parent}"/><child link="{child}"/><origin xyz="0.3 0 0.1" rpy="1 0 2"/>'
    return f'<joint name="{name}" type="{type}">{ends}<axis xyz="0 0.6 0.8"/>{inside}</joint>'


def mimic(leader, multiplier=1.0, offset=0.0):
    return f'<mimic joint="{leader}" multiplier="{multiplier}" offset="{offset}"/>'


def robot(*elements):
    return '<robot name="r">' + "\n".join(elements) + "</robot>"


def star(*joints):
    """Joints (name, mimic) that each carry a link on the base."""
    elements = [link("base")]
    for name, inside in joints:
        elements += [link(f"l_{name}"), joint(name, "base", f"l_{name}", inside)]
    return robot(*elements)


def refused(text, *words, **options):
    with pytest.raises(ModelError) as caught:
        load(text, **options)
    for word in words:
        assert word in str(caught.value)


def state(model, batch=5, seed=0):
    rng = np.random.default_rng(seed)
    user = held(model)
    v, a = rng.normal(size=(2, batch, model.nv))
    return user.random_configuration(batch, seed=rng), v, a


def inverse_dynamics(model, q, v, a):
    rows = algorithms.rnea(tree_of(model), q.T, v.T, a.T)
    return np.stack(np.broadcast_arrays(*rows), -1)


def mass_matrix(model, q):
    rows = algorithms.mass_matrix(tree_of(model), q.T)
    lead = q.shape[:-1]
    return np.stack([np.stack([np.broadcast_to(x, lead) for x in row], -1) for row in rows], -2)


def without_physics(model):
    bare = [replace(j, armature=(), damping=(), friction=()) for j in model.joints]
    return replace(model, joints=tuple(bare))


def projected(kept, model):
    """G and the offsets of v_kept = G v, q_kept = G q + offset, for joints of one DOF."""
    G, offset = np.zeros((kept.nv, model.nv)), np.zeros(kept.nv)
    for i, j in enumerate(model.joints):
        G[kept.first_v[i], model.first_v[i]] = j.mimic.multiplier if j.mimic else 1
        offset[kept.first_v[i]] = j.mimic.offset if j.mimic else 0
    return G, offset


# Mimic


CHAIN = robot(
    *map(link, "abcde"),
    joint("j1", "a", "b", mimic("j3", -0.5, 0.2)),  # before its leader
    joint("j2", "b", "c", mimic("j1", 2, 0.1), "prismatic"),  # follows a follower
    joint("j3", "c", "d", '<dynamics damping="0.3" friction="0.2"/>'),
    joint("j4", "a", "e"),
)


def test_a_chain_of_mimics_has_one_leader():
    model = load(CHAIN)
    assert (model.nq, model.nv, model.nbodies) == (2, 2, 4)
    assert model.joints[0].mimic == Mimic("j3", -0.5, 0.2)
    assert model.joints[1].mimic == Mimic("j3", -1.0, 0.5)
    assert model.independent == (2, 3)
    assert model.first_q == (0, 0, 0, 1)


@pytest.mark.parametrize("order", ["depth-first", "breadth-first", ["j4", "j1", "j2", "j3"]])
def test_dynamics_of_mimics_are_those_of_independent_joints_projected(order):
    model, kept = load(CHAIN, joint_order=order), load(CHAIN, mimic="keep", joint_order=order)
    G, offset = projected(kept, model)
    q, v, a = state(model)
    assert np.allclose(
        mass_matrix(model, q), G.T @ mass_matrix(kept, q @ G.T + offset) @ G, rtol=1e-12
    )
    full = inverse_dynamics(kept, q @ G.T + offset, v @ G.T, a @ G.T)
    assert np.allclose(inverse_dynamics(model, q, v, a), full @ G, rtol=1e-11, atol=1e-12)


def pinocchios(theirs, q, v, a):
    """tau and M of each state. crba leaves what is in the data: each state has its own."""
    pin = pytest.importorskip("pinocchio")
    theirs.armature[:] = 0
    tau = [pin.rnea(theirs, theirs.createData(), *x) for x in zip(q, v, a, strict=True)]
    upper = [np.triu(pin.crba(theirs, theirs.createData(), x)) for x in q]
    return np.array(tau), np.array([U + np.triu(U, 1).T for U in upper])


def against_pinocchio(build, source, understood=True):
    """Pinocchio's own mimic joints, where it takes the robot; its independent ones, projected."""
    model, kept = (without_physics(load(source, mimic=mimic)) for mimic in ("project", "keep"))
    q, v, a = state(model)
    tau, M = inverse_dynamics(model, q, v, a), mass_matrix(model, q)
    G, offset = projected(kept, model)
    theirs = build(str(source))
    assert list(theirs.names)[1:] == list(model.joint_names)
    full, inertia = pinocchios(theirs, q @ G.T + offset, v @ G.T, a @ G.T)
    assert np.allclose(full @ G, tau, rtol=1e-9, atol=1e-9)
    assert np.allclose(G.T @ inertia @ G, M, rtol=1e-9, atol=1e-9)
    if understood:
        theirs = build(str(source), True)
        full, inertia = pinocchios(theirs, q, v, a)
        assert np.allclose(full, tau, rtol=1e-9, atol=1e-9)
        assert np.allclose(inertia, M, rtol=1e-9, atol=1e-9)


def test_mimic_is_pinocchios():
    pin = pytest.importorskip("pinocchio")
    against_pinocchio(
        pin.buildModelFromXML,robot(
        *map(link, "abcd"),
        joint("j1", "a", "b", '<limit lower="-1" upper="1" velocity="1" effort="1"/>'),
        joint("j2", "b", "c", mimic("j1", -1.5, 0.2) + '<limit velocity="1" effort="1"/>'),
        joint("j3", "c", "d", '<limit lower="-1" upper="1" velocity="1" effort="1"/>', "prismatic"),
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("name", "example", "understood"),
    [
        ("panda", "panda_description/urdf/panda.urdf", True),
        ("baxter", "baxter_description/urdf/baxter.urdf", True),
        ("talos", "talos_data/robots/talos_full_v2.urdf", False),
        ("robotiq_2f_85", None, False),
    ],
)
def test_mimic_robots_are_pinocchios(name, example, understood):
    """Pinocchio takes no leader that comes after its follower."""
    pin = pytest.importorskip("pinocchio")
    file = robot_file(f"{name}.urdf", example)
    against_pinocchio(pin.buildModelFromUrdf, file, understood)


def test_mimic_that_cannot_be_is_refused_by_line_and_joint():
    refused(star(("a", mimic("b")), ("b", mimic("a"))), "line 3", "'a'", "circle", 'mimic="keep"')
    refused(star(("a", mimic("a"))), "circle", "'a' <- 'a'")
    refused(star(("elbow", ""), ("b", mimic("elbo"))), "line 5: joint 'b'", "'elbo'", "'elbow'")
    planar = joint("p", "base", "l", type="planar")
    follows = joint("f", "l", "m", mimic("p"))
    text = robot(*map(link, ("base", "l", "m")), planar, follows)
    refused(text, "joint 'f'", "its leader 'p' is of type planar", "one degree of freedom")
    follows = joint("f", "l", "m", mimic("w"), "floating")
    welded = joint("w", "base", "l", type="fixed")
    refused(robot(*map(link, ("base", "l", "m")), welded, follows), "joint 'f'", "of type free")
    follows = follows.replace("floating", "revolute")
    refused(robot(*map(link, ("base", "l", "m")), welded, follows), "leader 'w' is fixed")
    refused(star(("a", ""), ("b", mimic("a", 1e200))), "joint 'b'", "too large")


def test_what_is_refused_can_be_kept():
    model = load(star(("a", mimic("b")), ("b", mimic("a"))), mimic="keep")
    assert model.nv == 2
    assert 'warning: mimic is not applied (mimic="keep")' in model.notes[0]
    assert "a (1 * b), b (1 * a)" in model.notes[0]


def test_a_fixed_joint_follows_nobody():
    welded = joint("w", "base", "l", mimic("no such joint"), "fixed")
    model = load(robot(link("base"), link("l"), link("m"), welded, joint("j", "l", "m")))
    assert any("mimic of fixed joints, ignored: w" in note for note in model.notes)


def test_multiplier_zero_stands_still():
    model = load(star(("a", ""), ("b", mimic("a", 0, 0.7))))
    assert "multiplier 0 do not move: b" in model.notes[0]
    still = load(star(("a", ""), ("b", "")), mimic="keep")
    q, v, a = state(model)
    rest = np.zeros_like(q)
    full = inverse_dynamics(still, np.c_[q, rest + 0.7], np.c_[v, rest], np.c_[a, rest])
    assert np.allclose(inverse_dynamics(model, q, v, a), full[:, :1], rtol=1e-12)


def test_a_follower_needs_no_inertia_of_its_own():
    massless = star(("a", ""), ("b", mimic("a"))).replace(link("l_b"), '<link name="l_b"/>')
    model = load(massless)
    assert model.nv == 1
    assert not any("singular" in note for note in model.notes)
    assert any("move no mass" in note for note in load(massless, mimic="keep").notes)


def test_followers_that_undo_each_other_are_singular():
    slides = joint("a", "base", "l", type="prismatic"), joint("b", "l", "m", type="prismatic")
    back = slides[1].replace("</joint>", mimic("a", -1) + "</joint>").replace("1 0 2", "0 0 0")
    back = back.replace("0.3 0 0.1", "0 0 0")
    text = robot(link("base"), '<link name="l"/>', link("m"), slides[0], back)
    assert any("singular" in note and "resists a" in note for note in load(text).notes)
    assert not any("singular" in note for note in load(text.replace('"-1"', '"-2"')).notes)


def test_random_configurations_keep_to_the_limits_of_followers():
    limits = '<limit lower="-1" upper="1"/>'
    text = star(("a", limits), ("b", limits + mimic("a", -4, 0.2)))
    q = fl.load(text).random_configuration(1000, seed=0)
    assert -0.2 <= q.min() < -0.19
    assert 0.29 < q.max() <= 0.3


TURN = 2 * np.pi


@pytest.mark.parametrize(
    ("type", "limits", "low", "high"),
    [
        ("revolute", {"lower": 5}, 5, 5 + TURN),
        ("revolute", {"upper": -5}, -5 - TURN, -5),
        ("revolute", {"lower": -1}, -1, -1 + TURN),
        ("revolute", {"lower": -20}, -np.pi, np.pi),
        ("revolute", {"lower": 10, "upper": 90}, 10, 10 + TURN),
        ("revolute", {"lower": -3, "upper": 5}, -3, 5),
        ("revolute", {"lower": 1, "upper": 1}, -np.pi, np.pi),
        ("prismatic", {"lower": 5}, 5, 7),
        ("prismatic", {"upper": -5}, -7, -5),
        ("prismatic", {"lower": -50, "upper": 70}, -50, 70),
        ("prismatic", {}, -1, 1),
    ],
)
def test_random_configurations_keep_to_limits_on_one_side(type, limits, low, high):
    b = fl.ModelBuilder()
    b.link("base")
    b.link("rod", mass=1, inertia=(1, 1, 1))
    b.joint("j", type, "base", "rod", **limits)
    q = b.build().random_configuration(1000, seed=0)
    assert low <= q.min() < low + 0.01 * (high - low)
    assert high - 0.01 * (high - low) < q.max() <= high


def test_wrong_batches_of_random_configurations():
    for batch in (3.0, "3", (2, 1.5)):
        with pytest.raises(TypeError, match=r"batch is .*: wanted a whole number, or a tuple"):
            fl.load("iiwa14").random_configuration(batch)
    with pytest.raises(ValueError, match="batch is -1"):
        fl.load("iiwa14").random_configuration(-1)


# Roots


@pytest.mark.parametrize("root", ROOTS)
def test_every_root(root):
    model = load(star(("a", ""), ("b", "")), root=root)
    types = {"fixed": [], "free-split": ["translation", "spherical"]}.get(root, [root])
    assert [j.type for j in model.joints] == [*types, "revolute", "revolute"]
    assert model.root == root
    assert model.ground_mass == (1 if root == "fixed" else 0)
    assert card(model)


def test_split_root_has_a_body_without_mass():
    model = load(star(("a", "")), root="free-split")
    assert model.joint_names == ("root_translation", "root_joint", "a")
    assert model.body_names == ("root_translation", "base", "l_a")
    assert (model.nq, model.nv, model.parent) == (8, 7, (WORLD, 0, 1))
    assert model.bodies[0].mass == 0


def test_split_root_agrees_with_the_free_one():
    """v = [R^T v_world; w]: docs/conventions.md, the free joint in two."""
    text = star(("a", ""), ("b", mimic("a", -1)), ("c", ""))
    free, split = load(text, root="free"), load(text, root="free-split")
    q, v, a = state(free)
    T = np.tile(np.eye(free.nv), (len(q), 1, 1))
    T[:, :3, :3] = [rotation(x) for x in q[:, 3:7]]
    there = np.einsum("bij,bj->bi", T, v)
    ahead = a.copy()
    ahead[:, :3] += np.cross(v[:, 3:6], v[:, :3])
    ahead = np.einsum("bij,bj->bi", T, ahead)
    tau, other = inverse_dynamics(free, q, v, a), inverse_dynamics(split, q, there, ahead)
    assert np.allclose(other, np.einsum("bij,bj->bi", T, tau), rtol=1e-11, atol=1e-11)
    assert np.allclose(mass_matrix(split, q), T @ mass_matrix(free, q) @ np.swapaxes(T, 1, 2))
    rows = algorithms.factored_forward_dynamics(tree_of(split), q.T, there.T, other.T)
    solved = np.stack(np.broadcast_arrays(*rows), -1)
    assert np.allclose(solved, ahead, rtol=1e-9, atol=1e-9)


def rotation(quaternion):
    x, y, z, w = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def test_a_joint_of_your_own_as_root():
    place = Placement.of(np.eye(3), (0, 0, 2))
    own = Joint("lift", "prismatic", WORLD, place, (0, 1, 0), lower=(0,), upper=(1,), damping=(3,))
    model = fl.load(star(("a", "")), root=own)
    assert model.joints[0] == own
    assert model.root == "prismatic joint 'lift'"
    assert model.bodies[0].name == "base"
    screw = load(star(("a", "")), root=replace(own, type="helical", pitch=0.1))
    assert screw.joints[0].pitch == 0.1


def test_wrong_roots():
    text, own = star(("a", "")), Joint("lift", "prismatic", WORLD)
    with pytest.raises(ValueError, match=r"'helical'.*'free'.*Joint of your own"):
        load(text, root="helical")
    with pytest.raises(ValueError, match="Joint of your own, a universal one with its pitch or ax"):
        load(text, root="universal")
    with pytest.raises(TypeError, match="root is of type int"):
        load(text, root=3)
    with pytest.raises(ValueError, match="parent 0"):
        load(text, root=replace(own, parent=0))
    with pytest.raises(ValueError, match="'hinge'"):
        load(text, root=replace(own, type="hinge"))
    refused(text, "'a'", "which the robot has", root=replace(own, name="a"))
    refused(text, "root joint 'lift'", "unit vector", root=replace(own, axis=(0, 0, 2)))
    refused(text, "lower has 2 numbers", "has 1", root=replace(own, lower=(0, 1), upper=(1, 1)))
    refused(text, "damping", "finite", root=replace(own, damping=(float("nan"),)))
    parallel = replace(own, type="universal", axis2=(0, 0, -1))
    refused(text, "parallel", root=parallel)


# Order


BUSHY = robot(
    *map(link, ("base", "p", "q", "r", "s", "t")),
    joint("z", "base", "p"),
    joint("late", "t", "s"),  # before the joint that carries it
    joint("b", "base", "r"),
    joint("weld", "r", "t", type="fixed"),
    joint("a", "p", "q"),
)


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("depth-first", ["b", "late", "z", "a"]),
        ("breadth-first", ["b", "z", "late", "a"]),
        ("file", ["z", "b", "late", "a"]),
        (["z", "a", "b", "late"], ["z", "a", "b", "late"]),
    ],
)
def test_orders(order, names):
    model = load(BUSHY, joint_order=order)
    assert list(model.joint_names) == names
    plain = load(BUSHY)
    at = [model.joint_names.index(name) for name in plain.joint_names]
    assert [model.bodies[i] for i in at] == list(plain.bodies)
    assert all(model.parent[i] < i for i in range(4))
    named = {f.name: (f.body != WORLD and model.bodies[f.body].name) for f in model.frames}
    assert named == {f.name: (f.body != WORLD and plain.bodies[f.body].name) for f in plain.frames}
    q, v, a = state(plain)
    there = np.argsort(at)
    tau = inverse_dynamics(model, q[:, there], v[:, there], a[:, there])
    assert np.allclose(tau, inverse_dynamics(plain, q, v, a)[:, there], rtol=1e-12)


def test_orders_with_a_root_joint():
    for order in ("file", "breadth-first", ["z", "b", "late", "a"]):
        names = load(BUSHY, root="free-split", joint_order=order).joint_names
        assert names[:3] == ("root_translation", "root_joint", names[2])
    named = ["root_joint", "z", "b", "late", "a"]
    assert list(load(BUSHY, root="free", joint_order=named).joint_names) == named


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (["late", "b", "z", "a"], "'late' before 'b', which carries it"),
        (["z", "b", "late"], "missing: 'a'"),
        (["z", "b", "late", "a", "weld"], "not a moving joint: 'weld'"),
        (["z", "b", "late", "a", "a"], "twice"),
        ("alphabetical", "wanted one of 'depth-first'"),
    ],
)
def test_wrong_orders(order, words):
    with pytest.raises(ValueError, match=words):
        load(BUSHY, joint_order=order)


def test_an_order_is_text_or_names():
    for order in (3, [1, 2], None):
        with pytest.raises(TypeError, match="joint_order"):
            load(BUSHY, joint_order=order)


# robot_descriptions


@pytest.fixture
def descriptions(monkeypatch, tmp_path):
    """descriptions(name, **attributes): a module of a robot_descriptions that is made up."""
    package = ModuleType("robot_descriptions")
    package.__path__ = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, "robot_descriptions", package)

    def add(name, **attributes):
        (tmp_path / f"{name}.py").write_text("")
        module = ModuleType(f"robot_descriptions.{name}")
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return add


def test_a_description_is_loaded_by_its_name(descriptions, tmp_path):
    file = tmp_path / "toy.urdf"
    file.write_text(CHAIN)
    descriptions("toy_description", URDF_PATH=str(file), MJCF_PATH="not this one")
    model = fl.load("toy_description", root="free")
    assert (model.name, model.nv, model.source) == ("r", 8, str(file))


def test_a_description_in_mjcf(descriptions, tmp_path):
    pytest.importorskip("mujoco")
    file = tmp_path / "toy.xml"
    file.write_text(
        '<mujoco model="toy"><worldbody><body><joint/><geom size="1"/></body></worldbody></mujoco>'
    )
    descriptions("toy_mj_description", MJCF_PATH=str(file))
    assert fl.load("toy_mj_description").nv == 1


def test_a_description_in_xacro(descriptions, tmp_path, xacrodoc):
    file = tmp_path / "toy.urdf.xacro"
    file.write_text(XACRO)
    given = {"XACRO_PATH": str(file), "XACRO_ARGS": {"m": "4"}}
    descriptions("toy_description", **given, XACRO_PACKAGE_PATHS={"toy": str(tmp_path)})
    assert fl.load("toy_description").mass == 4


def test_unknown_descriptions(descriptions, monkeypatch):
    descriptions("toy_description")
    refused("toy_description", "none of URDF_PATH")
    refused("tooy_description", "knows no 'tooy_description'", "'toy_description'")
    monkeypatch.setitem(sys.modules, "robot_descriptions", None)
    refused("go2_description", "'go2_description'", "pip install 'featherlane[descriptions]'")


def test_a_description_that_cannot_be_fetched(monkeypatch, tmp_path):
    (tmp_path / "robot_descriptions").mkdir()
    (tmp_path / "robot_descriptions/__init__.py").write_text("")
    (tmp_path / "robot_descriptions/far_description.py").write_text("raise OSError('no network')")
    (tmp_path / "robot_descriptions/odd_description.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "robot_descriptions", raising=False)
    refused("far_description", "could not fetch 'far_description'", "no network")
    refused("odd_description", "cannot load 'odd_description'", "no_such_module")
    monkeypatch.delitem(sys.modules, "robot_descriptions", raising=False)


def test_a_file_of_that_name_comes_first(descriptions, monkeypatch, tmp_path):
    descriptions("toy_description", URDF_PATH="/nowhere")
    (tmp_path / "toy_description").write_text(CHAIN)
    monkeypatch.chdir(tmp_path)
    assert load("toy_description").nv == 2


# xacro


XACRO = """<robot name="x" xmlns:xacro="http://www.ros.org/wiki/xacro">
<xacro:arg name="m" default="2"/>
<link name="a"/><link name="b"><inertial><mass value="$(arg m)"/>
<inertia ixx="${1 + 1}" ixy="0" ixz="0" iyy="2" iyz="0" izz="2"/></inertial></link>
<joint name="j" type="revolute"><parent link="a"/><child link="b"/></joint></robot>"""


@pytest.fixture
def xacrodoc(monkeypatch):
    """The package, or what stands for it where it is not installed."""
    try:
        import xacrodoc

        return xacrodoc
    except ImportError:
        monkeypatch.setitem(
            sys.modules, "xacrodoc", SimpleNamespace(XacroDoc=Expander, packages=Packages)
        )
        monkeypatch.setitem(sys.modules, "xacrodoc.packages", Packages)


class Expander:
    def __init__(self, text, subargs):
        text = text.replace("$(arg m)", subargs.get("m", "2")).replace("${1 + 1}", "2.0")
        self.text = text.replace('<xacro:arg name="m" default="2"/>', "")

    @classmethod
    def from_string(cls, text, subargs, resolve_packages):
        return cls(text, subargs)

    @classmethod
    def from_includes(cls, includes, name, subargs, resolve_packages):
        if "${1 / 0}" in Path(includes[0]).read_text():
            raise ZeroDivisionError("division by zero")
        return cls(Path(includes[0]).read_text(), subargs)

    def to_urdf_string(self):
        return self.text


class Packages:
    walk_up_from = staticmethod(lambda path: None)
    update_package_cache = staticmethod(lambda paths: None)


def test_xacro_is_expanded(xacrodoc, tmp_path):
    file = tmp_path / "toy.urdf.xacro"
    file.write_text(XACRO)
    for source in (XACRO, XACRO.encode(), file, str(file)):
        model = fl.load(source)
        assert (model.name, model.nv, model.mass) == ("x", 1, 2)
        assert model.bodies[0].inertia[0][0] == 2
    assert model.source == f"{file} (expanded)"


def test_xacro_that_cannot_be_expanded(xacrodoc, tmp_path):
    file = tmp_path / "toy.xacro"
    file.write_text(XACRO.replace("1 + 1", "1 / 0"))
    refused(file, "toy.xacro", "xacro cannot expand it", "division by zero")
    file.write_text(XACRO.replace('type="revolute"', 'type="no"'))
    refused(file, "toy.xacro (expanded), line", "joint 'j'", "'no'")


def test_xacro_without_xacrodoc(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "xacrodoc", None)
    refused(XACRO, "line 2", "xacro", "pip install 'featherlane[xacro]'")


def test_includes_beside_the_file_are_found(tmp_path):
    pytest.importorskip("xacrodoc")
    head = '<robot xmlns:xacro="http://www.ros.org/wiki/xacro" name="two &amp; &quot;x&quot;">'
    (tmp_path / "part.xacro").write_text(XACRO)
    (tmp_path / "whole.xacro").write_text(head + '<xacro:include filename="part.xacro"/></robot>')
    assert fl.load(tmp_path / "whole.xacro").name == 'two & "x"'


# Size


def large(parent, n=2000, follow=False):
    links = [link(f"l{i}") for i in range(n)]
    inside = '<dynamics damping="0.1"/>'
    joints = [
        joint(f"j{i}", f"l{parent(i)}", f"l{i}", inside + (mimic("j1", 0.5) * (follow and i > 1)))
        for i in range(1, n)
    ]
    return robot(*links, *joints)


@full
@pytest.mark.parametrize("follow", repeated([True, False]), ids=["mimic", "independent"])
@pytest.mark.parametrize("parent", repeated([lambda i: i - 1, lambda i: 0]), ids=["chain", "star"])
def test_two_thousand_bodies_load_and_print(parent, follow):
    text = large(parent, follow=follow)
    for order in ("depth-first", "file", "breadth-first"):
        model = load(text, joint_order=order, root="free")
        assert len(card(model)) > 100_000
    assert model.nv == 6 + (1 if follow else 1999)
    kept = fl.load(text, mimic="keep", joint_order=list(model.joint_names[1:]))
    assert kept.random_configuration(seed=0).shape == (1999,)


# Models made by hand


def test_a_model_made_by_hand_is_checked():
    one = fl.Joint("j", "revolute", WORLD)
    body = fl.Body("b", 1.0)
    assert fl.Model("x", (one,), (body,)).nv == 1
    wrong = {
        "there are 1 joints and 0 bodies": ((one,), ()),
        "'j' is joint 0 and has parent 3": ((replace(one, parent=3),), (body,)),
        "'j' is joint 0 and has parent 0": ((replace(one, parent=0),), (body,)),
        "'j' is joint 0 and has parent -2": ((replace(one, parent=-2),), (body,)),
        "'j' is of type 'hinge'; wanted one of 'revolute": ((replace(one, type="hinge"),), (body,)),
        "'j' mimics 'k'; wanted a joint": ((replace(one, mimic=Mimic("k")),), (body,)),
        "'j' mimics 'j'; wanted a joint": ((replace(one, mimic=Mimic("j")),), (body,)),
        "frame 'f' is on body 1": ((one,), (body,), (fl.Frame("f", 1),)),
    }
    for words, parts in wrong.items():
        with pytest.raises(ValueError, match=words):
            fl.Model("x", *parts)
    with pytest.raises(ValueError, match="there are 1 joints and 0 bodies"):
        replace(fl.Model("x", (one,), (body,)), bodies=())
