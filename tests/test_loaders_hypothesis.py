"""Whatever the text, and whatever is asked for, both loaders give a Model or a ModelError, soon.

What one line of URDF can do is in test_urdf_hypothesis; here are mimic joints, all roots and
orders, absurd figures and MJCF. A ModelError names file and line wherever a line is at fault.
"""

import re
import sys

import numpy as np
import pytest
from repetition import examples, full

pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mutations import shuffled

from featherlane.api.card import card
from featherlane.api.model import held
from featherlane.errors import ModelError
from featherlane.robot.loaders import ROOTS, load
from featherlane.robot.tree_of import tree_of

few = settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))

INERTIAL = (
    '<inertial><origin xyz="0 0.1 0.2"/><mass value="{}"/>'
    '<inertia ixx="{}" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
)
MJCF = """<mujoco model="arm">
  <compiler angle="degree" eulerseq="xyz"/>
  <option gravity="0 0 -9.81" timestep="0.002"/>
  <default><joint damping="0.1"/><default class="thin"><geom size="0.05 0.2" type="capsule"/>
    </default></default>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body name="trunk" pos="0 0 1"><freejoint name="root"/>
      <geom name="hull" type="box" size="0.1 0.2 0.3" mass="2"/>
      <body name="upper" euler="0 30 0" childclass="thin">
        <joint name="yaw" axis="0 0 1" range="-90 90"/>
        <joint name="pitch" axis="0 1 0" pos="0 0 0.1" ref="10" armature="0.01"/>
        <geom/><site name="grip" pos="0 0 0.2"/>
        <body name="fore" pos="0 0 0.4">
          <joint name="slide" type="slide" axis="1 0 0" frictionloss="0.2"/>
          <inertial pos="0 0 0" mass="1" diaginertia="0.1 0.1 0.1"/></body>
        <body name="palm" pos="0 0.1 0.4"><joint name="ball" type="ball"/><geom/></body>
      </body>
    </body>
  </worldbody>
  <equality><joint joint1="slide" joint2="yaw" polycoef="0.1 0.5 0 0 0"/></equality>
</mujoco>"""
VALUES = [match.span(1) for match in re.finditer(r'"([^"]*)"', MJCF)]
PIECES = re.findall(r"<[^>]*>|[^<]+", MJCF)
WORDS = ("1e308", "-1e308", "5e-324", "nan", "inf", "0x1", "-1", "0", "", "1e9", "999999999", "٣")

numbers = st.one_of(st.floats().map(repr), st.integers().map(str), st.sampled_from(WORDS))
ratios = st.one_of(st.floats(-3, 3), st.sampled_from([0.0, 1e-300, 1e154, 1e200, -1e308]))
names = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["trunk", "upper", "yaw", "slide", "é" * 1000, "a/b", "%s%n", "$(x)", "${y}"]),
)
options = st.fixed_dictionaries(
    {},
    optional={
        "root": st.sampled_from(ROOTS),
        "mimic": st.sampled_from(["project", "keep"]),
        "joint_order": st.sampled_from(["depth-first", "breadth-first", "file"]),
    },
)


@pytest.fixture(autouse=True)
def no_xacro(monkeypatch):
    """Expanding what Hypothesis writes would be a test of xacro."""
    monkeypatch.setitem(sys.modules, "xacrodoc", None)


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def short(error):
    assert 10 < len(str(error)) < 5000
    return error


def tried(text, **options):
    """Loads the text; a Model must also print and be complete, an error be short."""
    try:
        model = load(text, **options)
    except ModelError as error:
        return short(error)
    assert max(map(len, card(model).splitlines())) <= 100
    assert len(model.bodies) == len(model.joints) == len(model.first_v)
    assert all(joint.parent < i for i, joint in enumerate(model.joints))
    assert np.isfinite([body.mass for body in model.bodies]).all()
    assert np.isfinite(model.armature).all()
    assert tree_of(model).nv == model.nv
    q = held(model).random_configuration(2, seed=0)
    assert q.shape == (2, model.nq)
    return model


# URDF


@few
@given(
    st.lists(
        st.tuples(
            st.integers(-1, 9), ratios, ratios, st.sampled_from(["revolute", "prismatic", "fixed"])
        ),
        min_size=1,
        max_size=9,
    ),
    st.lists(st.integers(0, 8), min_size=9, max_size=9),
    options,
)
def test_any_graph_of_mimics(joints, parents, options):
    """Circles, chains, leaders that are missing, fixed or their own followers."""
    body = INERTIAL.format(1, 1)
    texts = ['<link name="l0"/>']
    for i, (leader, ratio, offset, kind) in enumerate(joints):
        follows = f'<mimic joint="j{leader}" multiplier="{ratio!r}" offset="{offset!r}"/>'
        texts.append(
            f'<link name="l{i + 1}">{body}</link><joint name="j{i}" type="{kind}">'
            f'<parent link="l{min(parents[i], i)}"/><child link="l{i + 1}"/>'
            f"{follows if leader >= 0 else ''}</joint>"
        )
    told = tried("<robot>" + "\n".join(texts) + "</robot>", **options)
    if isinstance(told, ModelError):
        assert re.search(r"<text>, line \d+: joint 'j\d'", str(told))
        if options.get("mimic") == "keep":
            assert "mimic" not in str(told)
    else:
        kept = options.get("mimic") == "keep"
        followers = [k >= 0 and kind != "fixed" for k, _, _, kind in joints]
        assert sum(joint.mimic is not None for joint in told.joints) == sum(followers) * (not kept)


@full
def test_a_circle_of_thousands_and_a_chain_of_thousands():
    n, body = 3000, INERTIAL.format(1, 1)
    for last, circle in (("", False), ('<mimic joint="j0"/>', True)):
        texts = ['<link name="l"/>']
        for i in range(n):
            follows = f'<mimic joint="j{i + 1}"/>' if i < n - 1 else last
            texts.append(
                f'<link name="l{i}">{body}</link><joint name="j{i}" type="revolute">'
                f'<parent link="l"/><child link="l{i}"/>{follows}</joint>'
            )
        told = tried("<robot>" + "".join(texts) + "</robot>")
        assert "circle" in str(told) if circle else told.nv == 1


@few
@given(st.lists(numbers, min_size=8, max_size=8), options)
def test_absurd_inertias_dynamics_and_limits(x, options):
    text = (
        f'<robot><link name="a"/>\n<link name="b">{INERTIAL.format(x[0], x[1])}</link>\n'
        f'<link name="c">{INERTIAL.format(1, x[2])}</link>\n'
        '<joint name="j" type="prismatic"><parent link="a"/><child link="b"/>\n'
        f'<dynamics damping="{x[3]}" friction="{x[4]}"/><limit lower="{x[5]}" upper="{x[6]}"/>'
        '</joint>\n<joint name="k" type="revolute"><parent link="b"/><child link="c"/>\n'
        f'<mimic joint="j" multiplier="{x[7]}"/></joint></robot>'
    )
    told = tried(text, **options)
    if isinstance(told, ModelError) and "too large" not in str(told):
        assert re.search(r"line \d+: (link '[bc]'|joint '[jk]')", str(told))


@few
@given(st.lists(names, min_size=3, max_size=3), options)
@example(["root_joint", "root_translation", "root_translation_"], {"root": "free-split"})
@example(["a\n", "a", " a"], {})
def test_any_name_of_joints_and_leaders(given_names, options):
    a, b, c = map(escaped, given_names)
    body = INERTIAL.format(1, 1)
    text = (
        f'<robot name="{a}"><link name="{c}"/><link name="{a}">{body}</link>'
        f'<link name="{b}">{body}</link>'
        f'<joint name="{a}" type="revolute"><parent link="{c}"/><child link="{a}"/></joint>'
        f'<joint name="{b}" type="revolute"><parent link="{a}"/><child link="{b}"/>'
        f'<mimic joint="{a}"/></joint></robot>'
    )
    tried(text, **options)


@few
@given(st.lists(names, max_size=5))
@example(["yaw"])
def test_any_order_of_names(order):
    text = (
        f'<robot><link name="a"/><link name="b">{INERTIAL.format(1, 1)}</link>'
        '<joint name="yaw" type="revolute"><parent link="a"/><child link="b"/></joint></robot>'
    )
    if order == ["yaw"]:
        assert load(text, joint_order=order).joint_names == ("yaw",)
    else:
        with pytest.raises(ValueError, match="joint_order"):
            load(text, joint_order=order)


# MJCF


@pytest.fixture(scope="module")
def mujoco():
    return pytest.importorskip("mujoco")


def test_the_file_that_is_changed_below_is_valid(mujoco):
    assert tried(MJCF).nv == 6 + 2 + 3


@few
@given(text=st.text(), options=options)
def test_any_text_in_mujoco(mujoco, text, options):
    tried(f"<mujoco>{text}</mujoco>", **options)
    tried(f"<mujoco><worldbody>{text}</worldbody></mujoco>", **options)


@few
@given(data=st.data(), options=options)
def test_mjcf_characters_replaced(mujoco, data, options):
    start = data.draw(st.integers(0, len(MJCF)))
    end = data.draw(st.integers(start, min(len(MJCF), start + 30)))
    tried(MJCF[:start] + data.draw(st.text(max_size=10)) + MJCF[end:], **options)


@few
@given(data=st.data(), options=options)
def test_mjcf_tags_moved_doubled_and_dropped(mujoco, data, options):
    tried(shuffled(data, PIECES), **options)


@few
@given(data=st.data(), options=options)
def test_mjcf_values_replaced(mujoco, data, options):
    text = MJCF
    for start, end in sorted(data.draw(st.sets(st.sampled_from(VALUES), max_size=4)), reverse=True):
        count = data.draw(st.sampled_from([len(text[start:end].split()), 0, 1, 3]))
        value = " ".join(data.draw(numbers) for _ in range(count)) or data.draw(names)
        text = text[:start] + escaped(value) + text[end:]
    tried(text, **options)


@few
@given(leaders=st.lists(st.integers(0, 4), min_size=1, max_size=5), options=options)
def test_any_graph_of_joint_equalities(mujoco, leaders, options):
    bodies = "".join(
        f'<body><joint name="j{i}"/><geom size="1"/></body>' for i in range(len(leaders))
    )
    equal = "".join(
        f'<joint joint1="j{i}" joint2="j{leader}"/>' for i, leader in enumerate(leaders)
    )
    text = f"<worldbody>{bodies}</worldbody><equality>{equal}</equality>"
    told = tried(f"<mujoco>{text}</mujoco>", **options)
    assert isinstance(told, ModelError) or told.nv >= 1


@full
@pytest.mark.parametrize("star", [False, True])
def test_two_thousand_bodies_in_mjcf(mujoco, star):
    """A chain may be refused, as MuJoCo and libxml2 bound the depth of elements."""
    open_, close = '<body><joint/><geom size="1"/>', "</body>"
    n = 2000
    bodies = (open_ + close) * n if star else open_ * n + close * n
    told = tried(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    assert told.nv == n if star else isinstance(told, ModelError) or told.nv == n
