"""Whatever the text, load gives a Model or a ModelError."""

import re

import numpy as np
import pytest
from repetition import examples

pytest.importorskip("hypothesis")
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import shuffled

from featherlane.api.card import card
from featherlane.errors import ModelError
from featherlane.robot.loaders import load
from featherlane.robot.model import Robot

few = settings(max_examples=examples(150))

VALID = """<robot name="arm">
  <link name="base"/>
  <link name="upper">
    <inertial><origin xyz="0 0 0.1" rpy="0 0 1"/><mass value="2"/>
      <inertia ixx="1" ixy="0.1" ixz="0" iyy="2" iyz="0" izz="2.5"/></inertial>
  </link>
  <link name="fore"><inertial><mass value="1"/>
      <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
  <link name="tool"/>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <origin xyz="0 0 1" rpy="0.1 0.2 0.3"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="10" velocity="5"/><dynamics damping="0.1"/></joint>
  <joint name="elbow" type="prismatic"><parent link="upper"/><child link="fore"/>
    <axis xyz="1 0 1"/><mimic joint="shoulder" multiplier="2"/></joint>
  <joint name="weld" type="fixed"><parent link="fore"/><child link="tool"/></joint>
</robot>"""
VALUES = [match.span(1) for match in re.finditer(r'"([^"]*)"', VALID)]
PIECES = re.findall(r"<[^>]*>|[^<]+", VALID)

roots = st.sampled_from(["fixed", "free", "planar"])
numbers = st.one_of(
    st.floats().map(repr),
    st.integers().map(str),
    st.sampled_from(["1e308", "-1e308", "5e-324", "1e999", "0x1", "1_0", "inf", "--1", "", "٣"]),
)
names = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["base", "upper", "fore", "tool", "shoulder", "elbow", "x" * 100_000]),
)
types = st.sampled_from(["fixed", "revolute", "continuous", "prismatic", "planar", "floating", "?"])


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def short(error):
    """A huge file still has an error that fits the screen."""
    assert len(str(error)) < 5000


def tried(text, root="fixed"):
    """Loads the text; a Model must also print and compute with what it holds."""
    try:
        model = load(text, root=root)
    except ModelError as error:
        return short(error)
    assert isinstance(model, Robot)
    assert card(model).startswith(model.name[:1] if model.name.isprintable() else "")
    assert len(model.types) == len(model.bodies) == len(model.joints)
    assert all(np.isfinite(body.mass) for body in model.bodies)
    return model


def test_the_file_that_is_changed_below_is_valid():
    assert tried(VALID).nv == 1


@few
@given(st.text(), roots)
def test_any_text_in_angle_brackets(text, root):
    tried("<" + text, root)
    tried(f"<robot>{text}</robot>", root)


@few
@given(st.binary())
def test_any_bytes(data):
    tried(data)
    tried(b"<robot>" + data)


@few
@given(st.text(max_size=300))
def test_any_name(name):
    if not name.lstrip("\ufeff \t\r\n").startswith("<"):
        tried(name)


@few
@given(st.data(), roots)
def test_characters_replaced(data, root):
    start = data.draw(st.integers(0, len(VALID)))
    end = data.draw(st.integers(start, min(len(VALID), start + 30)))
    tried(VALID[:start] + data.draw(st.text(max_size=10)) + VALID[end:], root)


@few
@given(st.data(), roots)
def test_tags_moved_doubled_and_dropped(data, root):
    tried(shuffled(data, PIECES), root)


@few
@given(st.data(), roots)
def test_values_replaced(data, root):
    text = VALID
    for start, end in sorted(data.draw(st.sets(st.sampled_from(VALUES), max_size=5)), reverse=True):
        count = data.draw(st.sampled_from([len(text[start:end].split()), 0, 1, 3]))
        value = " ".join(data.draw(numbers) for _ in range(count)) or data.draw(names)
        text = text[:start] + escaped(value) + text[end:]
    tried(text, root)


@few
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=13, max_size=13), roots)
def test_any_finite_figures(x, root):
    moments = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    inertia = " ".join(f'{k}="{v!r}"' for k, v in zip(moments, x[:6], strict=True))
    body = f'<inertial><origin xyz="{x[6]!r} {x[7]!r} 0"/><mass value="{abs(x[8])!r}"/>'
    place = f'<origin xyz="{x[9]!r} 0 0" rpy="{x[10]!r} 0 1"/><axis xyz="{x[11]!r} 0 {x[12]!r}"/>'
    joints = [
        f'<joint name="{c}" type="{t}"><parent link="{p}"/><child link="{c}"/>{place}</joint>'
        for p, c, t in (("a", "b", "revolute"), ("b", "c", "planar"), ("c", "d", "fixed"))
    ]
    links = [f'<link name="{n}">{body}<inertia {inertia}/></inertial></link>' for n in "abcd"]
    tried("<robot>" + "".join(links + joints) + "</robot>", root)


@few
@given(
    st.lists(names, max_size=6),
    st.lists(st.tuples(names, types, st.integers(0, 5), st.integers(0, 5)), max_size=6),
    roots,
)
def test_any_graph_of_links(links, joints, root):
    """Duplicates, loops, several roots, joints to nowhere, names of any length in any script."""
    body = re.search(r"<inertial><mass.*?</inertial>", VALID, re.DOTALL)[0]
    texts = [f'<link name="{escaped(name)}">{body}</link>' for name in links]
    for name, kind, parent, child in joints:
        ends = [escaped((links + ["nowhere"] * 6)[k]) for k in (parent, child)]
        texts.append(
            f'<joint name="{escaped(name)}" type="{kind}">'
            f'<parent link="{ends[0]}"/><child link="{ends[1]}"/></joint>'
        )
    tried("<robot>" + "".join(texts) + "</robot>", root)


BLEMISHES = (  # that other readers take: what is replaced, and by what
    ('" type=', '"type='),
    ("<link name=", '<!-- -- --><link note="a & b" name='),
    ("<mass", "<gazebo:x/><mass"),
    ("<robot", '<?xml version="0.0"?><robot'),
    ("</robot>", "</robot><!-----><!-- \xe4--->"),
)


@few
@given(st.sets(st.sampled_from(BLEMISHES)), st.binary(max_size=6), roots)
def test_any_blemishes_together(blemishes, comment, root):
    text = VALID
    for old, new in blemishes:
        text = text.replace(old, new)
    data = text.encode("latin-1").replace(b"--><link", re.sub(b"[>\0]", b"", comment) + b"--><link")
    model, plain = tried(data, root), tried(VALID, root)
    assert (model.joints, model.bodies, model.frames) == (plain.joints, plain.bodies, plain.frames)


@few
@given(st.integers(0, 400))
def test_nested_elements(depth):
    inner = "<a>" * depth + "</a>" * depth
    tried(f'<robot>{inner}<link name="a">{inner}</link></robot>')
