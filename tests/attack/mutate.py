"""Mutations of robot files: of bytes, of tokens, and of elements and their attributes."""

import copy
import re

from lxml import etree

# fmt: off
NUMBERS = (
    "0", "-0.0", "1", "-1", "2", "0.5", "1e-9", "5e-324", "1e-300", "1e30", "1e154", "1e200",
    "1e308", "-1e308", "1e309", "1e400", "-1e400", "inf", "-inf", "nan", "infinity", "0x10",
    "1_0", "1e", "1e5e5", ".", "-", "++1", "٣", "2147483647", "-2147483648", "4294967296",
    "1e9", "99999999999999999999", "100", "1000", "3.141592653589793", "${x}", "${2*x}",
    "$(arg", "x)", "true", "false", "1,5",
)
# fmt: on
HUGE = ("9" * 20_000 + "x", "1" * 5_000, "1 " * 30_000, "a" * 100_000, "0." + "0" * 9_000 + "1")
TEXTS = (
    "",
    " ",
    "\n",
    "a\nb",
    "line\u2028separator",
    "a\tb\r",
    "\x85",
    "\u202e",
    "é" * 500,
    "%s%n{0}",
    "../x",
    "/",
    "../../..",
    "file:///etc/passwd",
    "http://localhost:1/x.xml",
    "${prefix}x",
    "xacro:x",
    "'\"",
    "world",
    "😀",
)
FILES = (
    "",
    ".",
    "fifo.xml",
    "fifo",
    "device.xml",
    "folder.xml",
    "self.xml",
    "missing.xml",
    "fifo.obj",
)
FILES += (
    "leg.xml",
    "parts.xml",
    "body.xml",
    "parts/options.xml",
    "arm.xml",
    "huge.xml",
    "/dev/zero",
)
FILE_ATTRIBUTES = ("file", "fileup", "filename", "meshdir", "texturedir", "assetdir")
SNIPPETS = (
    '<include file="parts.xml"/>',
    '<include file="body.xml"/>',
    '<include file="fifo.xml"/>',
    '<asset><model name="x" file="parts.xml"/></asset>',
    '<asset><model name="leg" file="leg.xml"/></asset>',
    '<asset><mesh name="x" file="fifo.obj"/></asset>',
    '<asset><mesh name="x" builtin="sphere" params="3"/></asset>',
    '<asset><texture name="x" file="fifo.png"/></asset>',
    '<asset><texture name="x" type="cube" builtin="flat" width="1" height="1"/></asset>',
    '<asset><skin name="x" file="device.skn"/></asset>',
    '<asset><hfield name="x" file="device.png" size="1 1 1 1"/></asset>',
    '<attach model="leg" body="leg" prefix="p"/>',
    '<attach model="x" prefix="p"/>',
    '<attach body="b" prefix="p"/>',
    '<attach body="trunk" prefix="q"/>',
    '<replicate count="30" offset="1 0 0"/>',
    '<replicate count="1000000000" euler="0 0 1"/>',
    '<frame name="f"/>',
    '<composite type="cable" count="9 1 1" size="1" curve="s" prefix="c"><joint kind="main"/>'
    '<geom type="capsule" size=".01"/></composite>',
    '<flexcomp name="x" type="box" count="3 3 3" spacing=".1 .1 .1" radius=".01" dim="3"/>',
    '<flexcomp name="x" type="mesh" file="tetra.obj" dim="2"/>',
    '<deformable><flex name="x" dim="1" body="a b" vertex="0 0 0 1 1 1" element="0 1"/>'
    "</deformable>",
    '<plugin plugin="mujoco.elasticity.cable"><config key="twist" value="1"/></plugin>',
    '<extension><plugin plugin="mujoco.sdf.gear"/></extension>',
    '<compiler><lengthrange mode="all" inttotal="inf"/></compiler>',
    '<compiler><lengthrange mode="muscle" timestep="1e-9"/></compiler>',
    '<compiler fusestatic="true" discardvisual="true" strippath="true" alignfree="true"/>',
    '<compiler coordinate="global" angle="radian" inertiafromgeom="false"/>',
    '<option timestep="1e-12" integrator="implicit" cone="elliptic" iterations="999999999"/>',
    '<size memory="9G" njmax="999999999" nkey="100000" nuser_geom="1000000"/>',
    '<statistic meaninertia="0" extent="inf" center="nan 0 0"/>',
    '<joint type="free"/>',
    '<joint type="ball" range="0 1"/>',
    '<joint springdamper="1 1"/>',
    '<freejoint align="true"/>',
    '<inertial pos="0 0 0" mass="1" fullinertia="1 1 1 .9 .9 .9"/>',
    '<geom type="ellipsoid" size="1 2 3" shellinertia="true" fluidshape="ellipsoid"/>',
    '<geom type="sdf" mesh="x"/>',
    '<body name="again"><body name="again"/></body>',
    '<sensor><user dim="1000000000"/></sensor>',
    '<sensor><contact geom1="wrap" num="1000000000" data="found"/></sensor>',
    '<custom><numeric name="n" size="2000000000" data="1"/><text name="t" data="x"/></custom>',
    '<keyframe><key qpos="inf"/><key ctrl="1 2 3"/></keyframe>',
    '<actuator><muscle joint="y"/></actuator>',
    '<actuator><intvelocity joint="y" actrange="0 1" nsample="100000000" delay="1"/></actuator>',
    '<actuator><motor cranksite="s1" slidersite="s2" cranklength="1"/></actuator>',
    '<tendon><spatial><site site="s1"/><pulley divisor="0"/><site site="s2"/></spatial></tendon>',
    '<equality><joint joint1="x"/><tendon tendon1="cord"/><flex flex="cloth"/></equality>',
    '<mimic joint="j0" multiplier="inf"/>',
    '<link name="extra"/>',
    '<joint name="j0" type="fixed"><parent link="l0"/><child link="extra"/></joint>',
    '<origin xyz="0 0 0" rpy="1e308 1e17 -1e300"/>',
    '<xacro:include filename="/dev/zero" xmlns:xacro="http://www.ros.org/wiki/xacro"/>',
    "<sdf/>",
    "<robot><link name='x'/></robot>",
    "<mujoco/>",
    "<!--comment--><?pi x?>",
    "<![CDATA[<link/>]]>",
)
ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "cp037", "latin-1", "utf-7", "utf-8-sig", "cp1252")
PROLOGUES = (
    '<!DOCTYPE robot [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>',
    '<!DOCTYPE robot SYSTEM "fifo.xml">',
    '<!DOCTYPE mujoco [<!ENTITY % p SYSTEM "file:///dev/zero"> %p;]>',
    '<!DOCTYPE robot [<!ATTLIST link name CDATA "default">]>',
    '<?xml version="1.0" encoding="utf-16"?>',
    '<?xml version="1.1"?>',
    '<?xml version="1.0" encoding="EBCDIC-CP-US" standalone="yes"?>',
    "\ufeff",
    "\n\n",
    "\0",
)


def mutated(rng, text):
    """Returns the bytes of a text after some mutations of its elements or bytes."""
    of_bytes = rng.random() < 0.25  # most of them are no XML any more
    text = text if of_bytes and rng.random() < 0.5 else _of_elements(rng, text)
    data = text.encode("utf-8", "replace")
    for _ in range(rng.choice((1, 1, 2, 5)) if of_bytes else 0):
        data = rng.choice(OF_BYTES)(rng, data)
    return data[:2_000_000]


# Elements


def _of_elements(rng, text):
    try:
        root = etree.fromstring(text.encode("utf-8"))
    except etree.XMLSyntaxError:  # a mesh
        return text
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5, 8))):
        rng.choice(OF_ELEMENTS)(rng, root)
    text = etree.tostring(root, encoding="unicode")
    return text if rng.random() < 0.9 else rng.choice(PROLOGUES) + text


def _elements(root):
    return list(root.iter(etree.Element))


def _attribute(rng, root):
    """Returns a random element and the name of an attribute of it."""
    return rng.choice([(e, a) for e in _elements(root) for a in e.attrib] or [(root, "name")])


def _values(root):
    return [value for element in _elements(root) for value in element.attrib.values()]


def extreme(rng, root):
    """One of an attribute's numbers, or all, become extreme."""
    element, name = _attribute(rng, root)
    words = element.get(name, "").split() or ["0"]
    for k in range(len(words)) if rng.random() < 0.3 else [rng.randrange(len(words))]:
        words[k] = rng.choice(NUMBERS)
    element.set(name, " ".join(words))


def replaced(rng, root):
    element, name = _attribute(rng, root)
    pool = rng.choice((_values(root), TEXTS, NUMBERS, FILES, HUGE))
    element.set(name, rng.choice(pool or TEXTS))


def special_file(rng, root):
    named = [(e, a) for e in _elements(root) for a in e.attrib if a in FILE_ATTRIBUTES]
    element, name = rng.choice(named or [(rng.choice(_elements(root)), "file")])
    element.set(name, rng.choice(FILES))


def count_changed(rng, root):
    """An attribute has more numbers, or fewer."""
    element, name = _attribute(rng, root)
    words = element.get(name, "").split()
    words = words[:-1] if rng.random() < 0.5 else words * rng.choice((2, 3, 50))
    element.set(name, " ".join(words))


def attributes_swapped(rng, root):
    (a, x), (b, y) = _attribute(rng, root), _attribute(rng, root)
    first, second = a.get(x, ""), b.get(y, "")
    a.set(y, second)
    b.set(x, first)


def renamed(rng, root):
    """An attribute or a tag gets the name of another one."""
    element, name = _attribute(rng, root)
    other, other_name = _attribute(rng, root)
    if rng.random() < 0.5:
        element.set(other_name, element.attrib.pop(name, ""))
    elif isinstance(other.tag, str):
        element.tag = other.tag


def dropped(rng, root):
    element, name = _attribute(rng, root)
    element.attrib.pop(name, None)


def removed(rng, root):
    element = rng.choice(_elements(root))
    if element.getparent() is not None:
        element.getparent().remove(element)


def doubled(rng, root):
    """Copies of an element behind it, some with another name."""
    element = rng.choice(_elements(root))
    if element.getparent() is None or len(element) > 20:
        return
    for k in range(rng.choice((1, 1, 2, 30))):
        twin = copy.deepcopy(element)
        if rng.random() < 0.5 and twin.get("name"):
            twin.set("name", f"{twin.get('name')}{k}")
        element.addnext(twin)


def moved(rng, root):
    element, into = rng.choice(_elements(root)), rng.choice(_elements(root))
    if element is not root and element not in (into, *into.iterancestors()):
        into.insert(rng.randint(0, len(into)), element)


def copied(rng, root):
    """A copy of an element inside another one, which may be inside it."""
    element, into = rng.choice(_elements(root)), rng.choice(_elements(root))
    into.insert(rng.randint(0, len(into)), copy.deepcopy(element))


def nested(rng, root):
    """An element many times inside itself."""
    element = rng.choice(_elements(root))
    inner, depth = element, rng.choice((1, 3, 20, 20, 240, 300, 600, 2100))
    for _ in range(depth if len(element) < 3 else min(depth, 20)):
        inner = etree.SubElement(inner, element.tag, dict(element.attrib))


def added(rng, root):
    """An element of the grammar somewhere, with elements of the file inside, if there is room."""
    try:
        new = etree.fromstring(rng.choice(SNIPPETS))
    except etree.XMLSyntaxError:
        root.append(etree.Comment("a comment"))
        return
    into = rng.choice(_elements(root))
    if rng.random() < 0.3 and into.getparent() is not None:
        into.addprevious(new)
        new.append(into)
    else:
        into.insert(rng.randint(0, len(into)), new)


OF_ELEMENTS = (
    *(extreme, extreme, extreme, replaced, replaced, added, added, special_file, count_changed),
    *(attributes_swapped, renamed, dropped, removed, doubled, moved, copied, nested),
)


# Bytes


def flipped(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20)) if data else 0):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def tokens_swapped(rng, data):
    tokens = re.findall(rb"<[^>]*>|[^<]+", data)
    for _ in range(rng.choice((1, 2, 5)) if tokens else 0):
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        tokens[i], tokens[j] = tokens[j], tokens[i]
    return b"".join(tokens)


def truncated(rng, data):
    return data[: rng.randint(0, len(data))] if rng.random() < 0.5 else data[: -rng.randint(1, 30)]


def cut(rng, data):
    start = rng.randint(0, len(data))
    return data[:start] + data[start + rng.choice((1, 4, 40, 400)) :]


def repeated(rng, data):
    start, length = rng.randint(0, len(data)), rng.choice((1, 4, 40, 400))
    piece = data[start : start + length] * rng.choice((1, 2, 100))
    at = rng.choice((start, rng.randint(0, len(data))))
    return data[:at] + piece + data[at:]


def inserted(rng, data):
    at = rng.randint(0, len(data))
    pieces = (
        b"\0",
        b"\n",
        b"\xff",
        b"&#0;",
        b"&#10;",
        b"&lt;",
        b"&a;",
        b"&#x2028;",
        b"<",
        b">",
        b'"',
    )
    return data[:at] + rng.choice((*pieces, rng.randbytes(5), b"\xed\xa0\x80")) + data[at:]


def encoded(rng, data):
    return data.decode("utf-8", "replace").encode(rng.choice(ENCODINGS), "replace")


def snippet(rng, data):
    """An element between two tags, well-formed or not."""
    ends = [match.end() for match in re.finditer(rb">", data)] or [0]
    at = rng.choice(ends)
    return data[:at] + rng.choice(SNIPPETS).encode() + data[at:]


OF_BYTES = (
    *(flipped, flipped, tokens_swapped, truncated, cut, repeated, inserted, encoded, snippet),
)
