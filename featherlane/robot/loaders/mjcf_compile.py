"""MuJoCo's compiler, kept from what would hang it, and its complaints as ours."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lxml import etree

from featherlane.errors import ModelError
from featherlane.robot.loaders.words import all_named, quoted
from featherlane.robot.loaders.xml import Element

EXTRA = (
    "MJCF is read by the compiler of the mujoco package, 3.4 or newer, which is not installed: "
    "pip install 'featherlane[mjcf]'"
)
MESHES = (
    "; shapes and inertias may depend on it: load the robot by its path, with all its files where "
    "they belong, or take the element out that names it, where bodies have an <inertial>"
)
MEMORY = "its compiler gave up without a reason, as it does when a file asks for too much memory"
DEPTH = "its elements are nested too deeply; it reads about 500 inside one another"
SIZES: dict[str, tuple[tuple[str, ...], float]] = {  # attributes, and the most of their product
    "replicate": (("count",), 1e5),
    "composite": (("count",), 1e5),
    "flexcomp": (("count",), 1e5),
    "hfield": (("nrow", "ncol"), 1e8),
    "texture": (("width", "height"), 1e9),
    "size": (
        (
            "nkey",
            "nuserdata",
            *(
                f"nuser_{what}"
                for what in ("body", "jnt", "geom", "site", "cam", "tendon", "actuator", "sensor")
            ),
        ),
        1e6,
    ),
}
NOT_FINITE = {"nan", "inf", "infinity"}
PLACE = re.compile(r"Element (?:name )?'(?P<name>.*)'(?:, id -?\d+)?(?:, line (?P<line>-?\d+))?$")


@dataclass(frozen=True)
class Compiled:
    """A compiled MJCF, in which every body and joint has a name."""

    m: Any  # mujoco.MjModel
    mujoco: Any  # the module
    source: str
    bodies: tuple[str, ...]
    joints: tuple[str, ...]
    unnamed: tuple[str, ...]  # those of them that are called by their number
    lines: dict[int, str]  # ", line 12" of bodies
    warned: tuple[str, ...]  # by MuJoCo

    def where(self, b: int) -> str:
        """How messages call a body."""
        return f"{self.source}{self.lines.get(b, '')}: body {quoted(self.bodies[b])}"

    def name(self, kind: str, i: int) -> str:
        """Of the i-th object of a kind, 'tendon' for example."""
        return self.mujoco.mj_id2name(self.m, object_type(self.mujoco, kind), i) or f"{kind}{i}"

    def joints_of(self, b: int) -> range:
        first = int(self.m.body_jntadr[b])
        return range(first, first + int(self.m.body_jntnum[b]))

    def array(self, field: str) -> Any:
        """An array of the compiled model; empty where MuJoCo is too old to have it."""
        return getattr(self.m, field, ())

    def disabled(self, what: str) -> bool:
        """Whether <flag what="disable"/> is set."""
        flag = getattr(self.mujoco.mjtDisableBit, f"mjDSBL_{what}", 0)
        return bool(self.m.opt.disableflags & int(flag))


def object_type(mujoco: Any, kind: str) -> Any:
    return getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}")


def compiled(document: Element, text: str | bytes, path: str | None) -> Compiled:
    """The robot of an MJCF text, or of the file at `path`, whose includes and meshes are then
    found. Raises ModelError with MuJoCo's complaint.
    """
    mujoco = _module(document.source)
    for node in document.node.iter(etree.Element):
        _check_size(Element(node, document.source))
    told: list[str] = []
    try:
        with _heard(mujoco, told):
            make: Callable[[str], Any] = mujoco.MjSpec.from_string
            spec = make(_decoded(text, document)) if path is None else mujoco.MjSpec.from_file(path)
            m = spec.compile()
    except (ValueError, RuntimeError, MemoryError, mujoco.FatalError) as error:
        found = _not_finite(document) if "Nan" in str(error) else None
        raise found or _complaint(error, document.source) from None
    if any("NaN" in warning for warning in told):
        told_where = f"{document.source}: a file that it includes holds numbers that are NaN"
        raise _not_finite(document) or ModelError(told_where)
    bodies, no_body = _names(mujoco, m, "body", m.nbody)
    joints, no_joint = _names(mujoco, m, "joint", m.njnt)
    lines = _lines(spec) if document.node.find(".//include") is None else {}
    return Compiled(
        m,
        mujoco,
        document.source,
        bodies,
        joints,
        no_body + no_joint,
        lines,
        tuple(dict.fromkeys(told)),
    )


def _module(source: str) -> Any:
    try:
        import mujoco
    except ImportError:
        raise ModelError(f"{source}: {EXTRA}") from None
    if not hasattr(getattr(mujoco, "MjsBody", None), "id"):  # came with 3.4
        raise ModelError(f"{source}: {EXTRA} (here is {mujoco.__version__})")
    return mujoco


@contextmanager
def _heard(mujoco: Any, told: list[str]) -> Iterator[None]:
    """MuJoCo's warnings, which else go to the terminal and to a file MUJOCO_LOG.TXT."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(told.append)
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            yield
        told += [str(warning.message) for warning in seen]
    finally:
        mujoco.set_mju_user_warning(before)


def _decoded(text: str | bytes, document: Element) -> str:
    if isinstance(text, str):
        return text.lstrip()
    try:
        return text.decode("utf-8-sig").lstrip()
    except UnicodeDecodeError:  # in the encoding that its declaration names
        return str(etree.tostring(document.node, encoding="unicode"))


Names = tuple[str, ...]


def _names(mujoco: Any, m: Any, kind: str, count: int) -> tuple[Names, Names]:
    """MuJoCo's names, with numbers for what has none; and these alone."""
    given = [mujoco.mj_id2name(m, object_type(mujoco, kind), i) for i in range(count)]
    names = tuple(all_named(kind, given))
    return names, tuple(name for name, own in zip(names, given, strict=True) if not own)


def _lines(spec: Any) -> dict[int, str]:
    """Of the bodies; an included file's lines would mislead."""
    return {body.id: f", {body.info}" for body in spec.bodies if body.info}


# What is refused


def _check_size(element: Element) -> None:
    """A few bytes may ask for more bodies or memory than there is; MuJoCo then takes forever."""
    together, most = SIZES.get(element.tag, ((), 0.0))
    alone = element.tag == "size"
    around = [_number(node, "count") for node in element.node.iterancestors("replicate")]
    for attributes in [(a,) for a in together] if alone else [together]:
        size = math.prod([*around, *(_number(element.node, a) for a in attributes)])
        if attributes and size > most:
            told = ", ".join(f"{a} {quoted(element.node.get(a, ''))}" for a in attributes)
            raise element.error(f"{told}: this makes {size:.3g} in all; wanted {most:g} or less")


def _number(node: etree._Element, attribute: str) -> float:
    """The product of an attribute's numbers, 1 where there are none: MuJoCo says what is wrong."""
    try:
        return math.prod(max(float(word), 1.0) for word in node.get(attribute, "").split())
    except ValueError:
        return 1.0


def _not_finite(document: Element) -> ModelError | None:
    """MuJoCo says that there is a NaN, or what came of an infinity, but not where."""
    for node in document.node.iter(etree.Element):
        for attribute, value in node.attrib.items():
            if NOT_FINITE & set(re.findall(r"\w+", value.lower())):
                element = Element(node, document.source)
                return element.error(f"{attribute} holds {quoted(value)}; wanted finite numbers")
    return None


def _complaint(error: Exception, source: str) -> ModelError:
    """MuJoCo's message in one line, with the place that it names in front."""
    text = str(error).replace("XML Error: ", "").replace("Error: ", "")
    said = [line.strip() for line in text.splitlines() if line.strip()]
    place = PLACE.fullmatch(said[-1]) if said else None
    if "unknown exception" in text or isinstance(error, MemoryError):
        return ModelError(f"{source}: MuJoCo cannot read it: {MEMORY}")
    if "DEPTH_EXCEEDED" in text:
        return ModelError(f"{source}: MuJoCo cannot read it: {DEPTH}")
    hint = MESHES if "opening file" in text else ""
    if place is None:
        return ModelError(f"{source}: MuJoCo cannot read it: {'; '.join(said)}{hint}")
    line = f", line {place['line']}" if int(place["line"] or 0) > 0 else ""
    element = f": {quoted(place['name'])}" if place["name"] else ""
    return ModelError(f"{source}{line}{element}: {'; '.join(said[:-1])}{hint}")
