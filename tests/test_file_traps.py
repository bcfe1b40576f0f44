"""Files and texts that would hang or crash a loader, or take all memory, are refused at once."""

import os
import socket
import sys

import pytest

import featherlane as fl
from featherlane.robot.loaders import files, mjcf_traps, xml

try:
    import mujoco
except ImportError:
    mujoco = None
with_mujoco = pytest.mark.skipif(mujoco is None, reason="needs the package mujoco")

GEOM = '<geom size=".1"/>'
BODY = f'<body name="b"><joint name="j"/>{GEOM}</body>'
INERTIAL = (
    '<inertial><mass value="{}"/>'
    '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
)


def mjcf(bodies="", rest=""):
    return f"<mujoco>{rest}<worldbody>{BODY}{bodies}</worldbody></mujoco>"


def refused(source, *words, **options):
    with pytest.raises(fl.ModelError) as caught:
        fl.load(source, **options)
    message = str(caught.value)
    assert message.isprintable()  # one line
    assert len(message) < 1000
    for word in words:
        assert word in message, message


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Files


@pytest.fixture
def traps(folder):
    """Files that are none, by their kind."""
    (folder / "directory.xml").mkdir()
    result = {"directory.xml": "a directory"}
    if hasattr(os, "mkfifo"):
        os.mkfifo("fifo.xml")
        os.symlink("fifo.xml", "link.xml")
        result |= {"fifo.xml": "a FIFO", "link.xml": "a FIFO", "/dev/zero": "a device"}
    if hasattr(socket, "AF_UNIX") and sys.platform != "win32":
        with socket.socket(socket.AF_UNIX) as end:
            end.bind("socket.xml")
        result["socket.xml"] = "a socket"
    return result


def test_only_regular_files_are_opened(traps):
    for name, kind in traps.items():
        refused(name, kind, "wanted a regular file")


def test_a_fifo_that_takes_the_place_of_a_file_does_not_block(traps, folder, monkeypatch):
    """Between the check of its kind and its opening."""
    if "fifo.xml" not in traps:
        pytest.skip("needs FIFOs")
    (folder / "file").write_text("<robot/>")
    regular = os.stat("file")
    monkeypatch.setattr(os, "stat", lambda path: regular)
    refused("fifo.xml", "a FIFO")


def test_large_files_are_not_read(folder):
    with open("huge.urdf", "wb") as file:
        file.truncate(1 << 40)
    refused("huge.urdf", "1,099,511,627,776 bytes", f"{files.LARGEST_FILE:,}")


def test_a_file_that_grows_while_it_is_read(folder, monkeypatch):
    (folder / "small.urdf").write_text("<robot>")
    before = os.stat("small.urdf")
    (folder / "small.urdf").write_text("<robot>" + " " * 1000)
    monkeypatch.setattr(files, "LARGEST_FILE", 100)
    monkeypatch.setattr(os, "stat", lambda path: before)
    monkeypatch.setattr(os, "fstat", lambda descriptor: before)
    refused("small.urdf", "101 bytes; wanted 100")


def test_texts_are_as_bounded_as_files(monkeypatch):
    monkeypatch.setattr(xml, "TAGS", 10)
    refused("<robot>" + "<a/>" * 20 + "</robot>", "22 tags; wanted 10")
    refused(b" " * (files.LARGEST_FILE + 1), "bytes; wanted")


def test_a_missing_working_directory_is_told(folder):
    gone = folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    if sys.platform == "win32":
        pytest.skip("Windows keeps it")
    gone.rmdir()
    refused("nothing.urdf", "no file", "no longer exists")


# Texts


@pytest.mark.parametrize("digits", [20_000, 1_000_000])
@pytest.mark.parametrize("number", ["{}x", "1.{}x", "1e{}x", "{0}.{0}e{0}x", "-.{}x"])
def test_long_numbers_take_linear_time(number, digits):
    """A million digits would take hours, if the pattern looked at each of them for each other."""
    value = number.format("1" * digits)
    text = f'<robot><link name="a">{INERTIAL.format(value)}</link></robot>'
    refused(text, "value holds '", "wanted a finite number")


def test_messages_are_one_line(folder):
    refused('<robot><link name="a&#10;b&#x2028;"/><link name="c"/></robot>', "a\\nb\\u2028")
    refused('<robot name="\u202e"><link/></robot>', "its attribute 'name' is missing")
    (folder / "two\nlines.urdf").write_text("<robot><link/></robot>")
    refused("two\nlines.urdf", "two\\nlines.urdf, line 1")
    assert str(fl.ModelError("a\r\nb\tc\x85é\udc80")) == "a\\r\\nb\\tc\\x85é\\udc80"


@with_mujoco
def test_messages_of_mujoco_are_one_line():
    refused(f'<mujoco><worldbody><body name="a&#10;b">{GEOM}<joint/></body></mujoco>')
    body = '<body name="a&#9;b&#10;c"><joint/></body>'
    refused(mjcf(body), "a\\tb", "mass and inertia")


def test_deep_elements_have_short_messages():
    deep = "<a>" * 1000 + "<mass/>" + "</a>" * 1000
    refused(f'<robot><link name="a"><inertial>{"<b>" * 90}</inertial></link>{deep}</robot>')
    element = xml.parse(f"<robot>{deep}</robot>", "file").node.find(".//mass")
    where = xml.Element(element, "file").where
    assert where == "file, line 1: <robot>, ..." + ", <a>" * 7 + ", <mass>"


def test_long_names_have_a_short_repr():
    model = fl.load(f'<robot name="{"long" * 1000}"><link name="a"/></robot>')
    assert len(repr(model)) < 150
    assert model.name == "long" * 1000


def test_expressions_of_xacro_are_named():
    links = f'<robot><link name="base"/><link name="${{p}}l">{INERTIAL.format(1)}</link>'
    joint = (
        '<joint name="j" type="{}"><parent link="base"/><child link="${{p}}l"/>{}</joint></robot>'
    )
    told = "a xacro file must be expanded first"
    refused(links + joint.format("$(arg type)", ""), "its type is '$(arg type)'", told)
    for value in ("0 0 ${x}", "0 0 ${x + 1}", "${xyz}"):
        refused(links + joint.format("fixed", f'<origin xyz="{value}"/>'), told)
    (note,) = (n for n in fl.load(links + joint.format("fixed", "")).notes if "xacro" in n)
    assert note.endswith("not expanded: ${p}l")
    if mujoco:
        refused(mjcf('<body><geom size="${r}"/></body>'), "line 1: size holds '${r}'", told)


# What MuJoCo's compiler hangs or crashes on


@with_mujoco
def test_mjcf_of_that_extension(folder):
    (folder / "parts").mkdir()
    (folder / "parts" / "leg.xml").write_text(f"<mujoco>{BODY}</mujoco>")
    (folder / "hull.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    )
    text = (
        '<mujoco><asset><mesh name="m" file="hull.obj"/></asset><worldbody><body name="a"><joint/>'
        '<geom type="mesh" mesh="m"/><include file="parts/leg.xml"/></body></worldbody></mujoco>'
    )
    for name in ("robot.mjcf", "robot.MJCF", "robot", "robot.xml"):
        (folder / name).write_text(text)
        os.chdir("/")
        model = fl.load(folder / name)
        assert (model.body_names, model.name) == (("a", "b"), "robot")
        os.chdir(folder)


@with_mujoco
def test_files_that_mjcf_names_must_be_regular(traps, folder):
    named = ('<include file="{}"/>', '<asset><model name="x" file="{}"/></asset>')
    assets = (
        '<asset><mesh name="x" file="{}" content_type="model/obj"/></asset>',
        '<asset><texture name="x" type="cube" fileup="{}"/></asset>',
        '<asset><hfield name="x" file="{}" size="1 1 1 1"/></asset>',
        '<asset><skin name="x" file="{}"/></asset>',
    )
    for name, kind in traps.items():
        for element in named + assets * (kind != "a directory"):
            (folder / "robot.xml").write_text(mjcf(rest=element.format(name)))
            refused("robot.xml", "robot.xml, line 1", f"'{name}' cannot be read: it is {kind}")
            refused(mjcf(rest=element.format(name)), f"'{name}' cannot be read: it is {kind}")


@with_mujoco
def test_meshes_in_their_folder_must_be_regular(traps, folder):
    if "fifo.xml" not in traps:
        pytest.skip("needs FIFOs")
    os.mkdir("meshes")
    os.mkfifo("meshes/hull.obj")
    mesh = '<asset><mesh name="x" file="some/where/hull.obj"/></asset>'
    (folder / "robot.xml").write_text(
        mjcf(rest=f'<compiler meshdir="meshes" strippath="true"/>{mesh}')
    )
    refused("robot.xml", "a FIFO")


@with_mujoco
def test_large_meshes_are_refused(folder):
    with open("hull.stl", "wb") as file:
        file.truncate(mjcf_traps.LARGEST_ASSET + 1)
    refused(mjcf(rest='<asset><mesh name="x" file="hull.stl"/></asset>'), "'hull.stl'", "bytes")


@with_mujoco
def test_models_that_attach_themselves(folder):
    attach = '<asset><model name="x" file="{}.xml"/></asset>'
    (folder / "one.xml").write_text(mjcf('<attach model="x" prefix="p"/>', attach.format("one")))
    refused("one.xml", "one.xml, line 1", "attaches itself")
    (folder / "two.xml").write_text(mjcf(rest='<include file="three.xml"/>'))
    (folder / "three.xml").write_text(f"<mujoco>{attach.format('./two')}</mujoco>")
    refused("two.xml", "three.xml, line 1", "attaches itself")
    refused(mjcf(rest=attach.format("two")), "attaches itself")


@with_mujoco
def test_files_that_include_themselves(folder):
    (folder / "a.xml").write_text('<mujoco><include file="b.xml"/></mujoco>')
    (folder / "b.xml").write_text('<mujoco><include file="a.xml"/></mujoco>')
    refused("a.xml", "include one another more than 50 deep")


@with_mujoco
def test_copies_are_counted_wherever_they_are_asked_for(folder):
    bodies = '<replicate count="{}" offset="1 0 0">{}</replicate>'
    bomb, small = bodies.format(100, bodies.format(100, BODY)), bodies.format(9, "<body/>")
    (folder / "part.xml").write_text(f"<mujoco>{bomb}</mujoco>")
    (folder / "model.xml").write_text(mjcf(bodies.format(90, GEOM)))
    model = '<asset><model name="m" file="model.xml"/></asset>'
    attach = '<attach model="m" prefix="p"/>'
    told = ("elements in all", "wanted 5,000 or fewer")
    refused(mjcf(bomb), *told)
    refused(mjcf('<include file="part.xml"/>'), "part.xml, line 1", *told)
    refused(mjcf(bodies.format(99, '<include file="part.xml"/>')), "3.", *told)
    refused(mjcf(bodies.format(60, attach), model), "<replicate>", *told)
    refused(mjcf(bodies.format(1_000_000_000, "")), *told)
    doubling = "".join(
        f'<body name="b{i + 1}">' + 2 * f'<attach body="b{i or ""}" prefix="p"/>' + "</body>"
        for i in range(40)
    )
    refused(mjcf(doubling), "<attach>", *told)
    assert fl.load(mjcf(small + bodies.format(3, "<body><joint/>" + GEOM + "</body>"))).nv == 4


@with_mujoco
def test_numbers_that_are_not_finite_are_named(folder):
    (folder / "part.xml").write_text('<mujoco>\n<option gravity="0 0 nan"/></mujoco>')
    (folder / "robot.xml").write_text(mjcf(rest='<include file="part.xml"/>'))
    refused("robot.xml", "part.xml, line 2: <mujoco>", "gravity holds '0 0 nan'")
    for number in ("inf", "-INF", "Infinity", "nan", "+NaN", "nan(0)"):
        refused(mjcf(rest=f'<statistic extent="{number}"/>'), f"extent holds '{number}'")
    refused(mjcf('<body><joint range="nan 1"/></body>'), "range holds 'nan 1'; wanted finite")


@with_mujoco
def test_ranges_may_be_infinite_and_names_anything():
    inside = f'<joint name="inf" range="-inf inf" limited="true"/>{GEOM}<site name="nan"/>'
    model = fl.load(mjcf(f'<body name="infinity">{inside}</body>'))
    assert model.joint_names == ("j", "inf")
    assert (model.joints[1].lower, model.joints[1].upper) == ((-float("inf"),), (float("inf"),))


@with_mujoco
def test_the_lengths_of_muscles_are_not_simulated():
    """It would take hours."""
    lengths = '<compiler><lengthrange mode="all" inttotal="1e9"/></compiler>'
    model = fl.load(mjcf(rest=f'{lengths}<actuator><muscle joint="j"/></actuator>'))
    assert model.nv == 1


@with_mujoco
def test_memory_of_the_simulation_is_not_taken():
    sizes = (
        '<size nkey="2000000000"/>',
        '<size memory="9T"/>',
        '<size nuser_body="2000000000" nuserdata="2000000000"/>',
        '<size njmax="2000000000" nconmax="2000000000"/>',
    )
    for size in sizes:
        assert fl.load(mjcf(rest=size)).nv == 1


@with_mujoco
@pytest.mark.parametrize(
    "element",
    [
        '<asset><texture name="t" type="2d" builtin="flat" width="99999" height="99999"/></asset>',
        '<custom><numeric name="n" size="2000000000" data="1"/></custom>',
        '<sensor><user dim="1000000000"/></sensor>',
        '<actuator><motor joint="j" nsample="1000000000" delay="1"/></actuator>',
    ],
)
def test_elements_that_ask_for_all_memory(element):
    refused(mjcf(rest=element), "in all; wanted 1e+0", "line 1")
