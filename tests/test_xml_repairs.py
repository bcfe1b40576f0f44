"""XML that is not well-formed but read by urdfdom and MuJoCo, and what must stay refused."""

import time

import pytest

import featherlane as fl
from featherlane.robot.loaders import repairs, xml

PLAIN = """<?xml version="1.0"?>
<robot name="arm"><!-- an arm -->
  <link name="base"/>
  <link name="upper">
    <inertial><origin xyz="0 0 0.1" rpy="0 0 0"/><mass value="2"/>
      <inertia ixx="1" ixy="0" ixz="0" iyy="2" iyz="0" izz="2.5"/></inertial>
  </link>
  <joint name="elbow" type="revolute"><parent link="base"/><child link="upper"/>
    <axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="10" velocity="5"/></joint>
</robot>
"""
JOINT = 'name="elbow" type="revolute"'
DECLARATION, COMMENT = '<?xml version="1.0"?>', "<!-- an arm -->"
BROKEN = {  # by name: old, new, beginning and line of the note
    "version 0.0": (DECLARATION, '<?xml version="0.0" ?>', "the declaration", 1),
    "no version": (DECLARATION, '<?xml encoding="utf-8"?>', "the declaration", 1),
    "an empty declaration": (DECLARATION, "<?xml?>", "the declaration", 1),
    "a misspelt version": (DECLARATION, '<?xml verison="1.0"?>', "the declaration", 1),
    "a version without quotes": (DECLARATION, "<?xml version=1.0?>", "the declaration", 1),
    "a blank before xml": (DECLARATION, '<? xml version="1.0"?>', "the declaration", 1),
    "a late declaration": (COMMENT, DECLARATION, "an instruction", 2),
    "no blank": (JOINT, 'name="elbow"type="revolute"', "no blank between attributes", 8),
    "no blank, other quotes": (JOINT, "name='elbow'type=\"revolute\"", "no blank", 8),
    "two hyphens": (COMMENT, "<!-- base -- left -->", "double hyphens", 2),
    "three hyphens": (COMMENT, "<!-- an arm --->", "double hyphens", 2),
    "a line of hyphens": (COMMENT, f"<!-- {'-' * 80}\n{'-' * 80} -->", "double hyphens", 2),
    "an ampersand": (JOINT, JOINT + ' note="A & B"', "ampersands", 8),
    "an unknown entity": (JOINT, JOINT + ' note="A &nbsp; B"', "ampersands", 8),
    "an ampersand in a text": (COMMENT, "<gazebo>a & b</gazebo>", "ampersands", 2),
    "a prefix": (COMMENT, "<gazebo:sdf/>", "prefixes without a namespace (gazebo)", 2),
    "a prefix of an attribute": (JOINT, JOINT + ' sdf:x="1"', "prefixes", 8),
}


def notes(model):
    return [n.removeprefix(repairs.NOTE + ": ") for n in model.notes if repairs.NOTE in n]


def same(model):
    """Whether a model is that of PLAIN, but for its notes."""
    plain = fl.load(PLAIN)
    return (model.joints, model.bodies, model.frames) == (plain.joints, plain.bodies, plain.frames)


@pytest.mark.parametrize("fault", BROKEN)
def test_a_blemish_is_the_same_robot_with_a_note(fault):
    old, new, title, line = BROKEN[fault]
    text = PLAIN.replace(old, new)
    assert text != PLAIN
    for source in (text, text.encode()):
        model = fl.load(source)
        assert same(model)
        (note,) = notes(model)
        assert note.startswith(title)
        assert f"(line {line}" in note
        assert note.split()[0] in str(model)


def test_a_text_without_blemish_is_parsed_once(monkeypatch):
    monkeypatch.setattr(xml, "repaired", None)
    assert notes(fl.load(PLAIN)) == []


def test_comments_in_another_encoding():
    text = PLAIN.encode().replace(b"an arm", "机械臂".encode("gbk"))
    model = fl.load(text)
    assert same(model)
    assert notes(model) == ["comments in another encoding (line 2)"]
    control = PLAIN.replace("an arm", "an \x01 arm").encode()
    assert notes(fl.load(control)) == ["comments in another encoding (line 2)"]
    declared = text.replace(b'"1.0"?', b'"1.0" encoding="gbk"?')
    assert notes(fl.load(declared)) == []


@pytest.mark.parametrize("encoding", ["UFT-8", "latin-1", "x"])
def test_an_encoding_that_does_not_exist(encoding):
    text = PLAIN.replace(DECLARATION, f'<?xml version="1.0" encoding="{encoding}"?>')
    model = fl.load(text.replace("an arm", "né").encode("latin-1"))
    assert same(model)
    assert [note.partition(",")[0] for note in notes(model)] == [
        "an encoding that does not exist",
        "comments in another encoding (line 2)",
    ]
    assert notes(fl.load(text)) == []  # a text is decoded already
    with pytest.raises(fl.ModelError, match="not well-formed"):
        fl.load(text.replace("elbow", "né").encode("latin-1"))


def test_zero_bytes_at_the_end():
    model = fl.load(PLAIN.encode() + b"\0" * 3)
    assert same(model)
    assert notes(model) == ["zero bytes at its end (line 11)"]


def test_all_blemishes_at_once():
    text = PLAIN
    for old, new, *_ in (BROKEN[k] for k in ("version 0.0", "no blank", "two hyphens")):
        text = text.replace(old, new)
    text = text.replace("<link name=", '<link note="a & b" name=')
    model = fl.load(text.encode() + b"\0")
    assert same(model)
    assert [note.split(" (")[0] for note in notes(model)] == [
        "zero bytes at its end",
        "the declaration is not one of XML 1.0",
        "double hyphens in comments",
        "ampersands that stand for themselves",
        "no blank between attributes",
    ]
    assert "(line 3 and 1 more)" in notes(model)[3]


def test_values_keep_what_looks_like_a_blemish():
    """Blanks, hyphens, brackets and quotes in values and CDATA are text."""
    inside = '<a x="it\'s" y=\'"b"c\' z="1>0 -- ?"/><![CDATA[<b x="1"y="2"> & -- ]]><c d="1"e="2"/>'
    better, told = repairs.repaired(f"<r>{inside}</r>".encode())
    assert better.decode() == "<r>" + inside.replace('1"e', '1" e') + "</r>"
    assert len(told) == 1


def test_errors_in_a_repaired_text_name_its_own_lines():
    text = PLAIN.replace(*BROKEN["a line of hyphens"][:2]).replace('ixx="1"', 'ixx="one"')
    with pytest.raises(fl.ModelError, match=r"line 7: link 'upper', .*ixx holds 'one'"):
        fl.load(text)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("</robot>", "", "robot"),
        (COMMENT, "<!-- an arm", "omment"),
        ('<link name="base"/>', '<link name="base"/', "line 3"),
        ("<link name=", "<link name", "line 3"),
        ('name="base"', 'name="base" name="b"', "name"),
    ],
)
def test_what_no_reader_takes_stays_refused(old, new, told):
    with pytest.raises(fl.ModelError, match=told):
        fl.load(PLAIN.replace(old, new))


# Security


ENTITIES = '<!DOCTYPE r [<!ENTITY a "x"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize("blemish", ["no blank", "two hyphens", "an ampersand", "version 0.0"])
def test_entities_are_refused_in_broken_texts_too(blemish):
    text = PLAIN.replace(*BROKEN[blemish][:2]).replace("<robot", ENTITIES + "<robot")
    with pytest.raises(fl.ModelError):
        fl.load(text)
    with pytest.raises(fl.ModelError):
        fl.load(text.replace('name="base"', 'name="&b;"'))
    assert repairs.repaired(text.encode()) == (text.encode(), ())


def test_a_repair_declares_no_entity():
    """What an unknown entity names is never read: it stays the text that it was."""
    model = fl.load(PLAIN.replace('"base"', '"&file;"'))
    assert model.frame_names[0] == "&file;"


def test_repaired_texts_are_as_bounded_as_others(monkeypatch):
    from featherlane.robot.loaders import files

    text = "<robot>" + "&" * 1000 + "</robot>"
    monkeypatch.setattr(files, "LARGEST_FILE", 2000)
    monkeypatch.setattr(files.check_length, "__defaults__", (2000,))
    with pytest.raises(fl.ModelError, match="5,015 bytes; wanted 2,000"):
        fl.load(text)
    deep = "<a>" * 3000 + "</a>" * 3000
    monkeypatch.undo()
    with pytest.raises(fl.ModelError, match="nested too deeply"):
        fl.load(f'<robot x="1"y="2">{deep}</robot>')


@pytest.mark.parametrize(
    "piece", ["<!--", "<![CDATA[", "<?", "<a b='", "<a '\"", '<a b="1"', "&", "<", "--", "<a:b "]
)
def test_repairs_take_linear_time(piece):
    """A million characters of what is never closed would take hours in quadratic time."""
    before = time.process_time()
    repairs.repaired(b"<r>" + piece.encode() * (1_000_000 // len(piece)))
    assert time.process_time() - before < 20


# What is not a blemish


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    file = tmp_path / "arm.urdf"
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n")
    with pytest.raises(
        fl.ModelError, match=r"arm\.urdf: this is a pointer of Git LFS.*git lfs pull"
    ):
        fl.load(file)


def test_equal_duplicates_are_taken():
    axis = '<axis xyz="0 1 0"/>'
    assert same(fl.load(PLAIN.replace(axis, axis * 2)))
    assert same(fl.load(PLAIN.replace(axis, axis + '<axis  xyz=" 0.0 1  0e5"></axis>')))
    with pytest.raises(fl.ModelError, match="there is another <axis> on line 9; wanted one"):
        fl.load(PLAIN.replace(axis, axis + '<axis xyz="0 0 1"/>'))


XACRO = 'xmlns:xacro="http://ros.org/wiki/xacro" name="arm"'


@pytest.mark.parametrize("declared", [True, False])
def test_tags_that_an_expansion_of_xacro_left_over(declared, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "xacrodoc", None)
    text = PLAIN.replace('name="arm"', XACRO) if declared else PLAIN
    text = text.replace('<link name="base"/>', '<link name="base"><xacro:visuals a="1"/></link>')
    model = fl.load(text)
    assert same(model)
    told = "tags that an expansion of xacro has left over, ignored: xacro:visuals"
    assert told in model.notes
    for inside in ('<xacro:macro name="visuals"/>', '<link name="${x}"/>'):
        with pytest.raises(fl.ModelError, match="must be expanded first"):
            fl.load(text.replace("</robot>", inside + "</robot>"))


def test_mjcf_is_repaired_too(tmp_path):
    pytest.importorskip("mujoco")
    part = (
        '<mujoco><!-- a -- b --><body name="b"><joint name="j"/><geom size=".1"/></body></mujoco>'
    )
    (tmp_path / "part.xml").write_text(part)
    text = '<mujoco model="m"><worldbody><include file="part.xml"/></worldbody></mujoco>'
    (tmp_path / "whole.xml").write_text(text.replace("><world", "><!-- -- --><world"))
    model = fl.load(tmp_path / "whole.xml")
    assert (model.joint_names, model.name) == (("j",), "m")
    assert notes(model) == ["double hyphens in comments (line 1)"]
