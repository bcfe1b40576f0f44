"""MuJoCo's compiler, kept from inputs on which it hangs; its complaints become ModelErrors."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lxml import etree

from featherlane.errors import ModelError
from featherlane.robot.loaders.mjcf_assets import StandIns, missing_inertia, use_stand_ins
from featherlane.robot.loaders.mjcf_traps import whole
from featherlane.robot.loaders.words import all_named, quoted
from featherlane.robot.loaders.xml import Element, expansion_hint, unexpanded

EXTRA = (
    "MJCF is read by the compiler of the mujoco package, 3.4 or newer, which is not installed: "
    "pip install 'featherlane[mjcf]'"
)
MESHES = "; load the robot by its path, with all its files where they belong"
MEMORY = "its compiler gave up without a reason, as it does when a file asks for too much memory"
DEPTH = "its elements are nested too deeply; it reads about 500 inside one another"
USER_DATA = ("body", "jnt", "geom", "site", "cam", "tendon", "actuator", "sensor")
PLACE = re.compile(r"Element (?:name )?'(?P<name>.*)'(?:, id -?\d+)?(?:, line (?P<line>-?\d+))?$")


@dataclass(frozen=True)
class CompiledMjcf:
    """A compiled MJCF file, in which every body and joint has a name."""

    m: Any  # mujoco.MjModel
    mujoco: Any  # the module
    source: str
    bodies: tuple[str, ...]
    joints: tuple[str, ...]
    unnamed: tuple[str, ...]  # the bodies and joints that are named by their number
    lines: dict[int, str]  # ", line 12" of bodies
    warnings: tuple[str, ...]  # MuJoCo's
    unread: str = ""  # its complaint about assets that have stand-ins
    stand_ins: frozenset[str] = frozenset()  # names of meshes that were not read
    keeps_loops: bool = False  # whether equalities become loops of the model

    def where(self, b: int) -> str:
        """Returns a body's place and name for messages."""
        return f"{self.source}{self.lines.get(b, '')}: body {quoted(self.bodies[b])}"

    def name(self, kind: str, i: int) -> str:
        """Returns the name of the i-th object of a kind, such as 'tendon'."""
        return self.mujoco.mj_id2name(self.m, object_type(self.mujoco, kind), i) or f"{kind}{i}"

    def joints_of(self, b: int) -> range:
        first = int(self.m.body_jntadr[b])
        return range(first, first + int(self.m.body_jntnum[b]))

    def array(self, field: str) -> Any:
        """Returns an array of the compiled model; empty where MuJoCo is too old to have it."""
        return getattr(self.m, field, ())

    def disabled(self, what: str) -> bool:
        """Tells whether <flag what="disable"/> is set."""
        flag = getattr(self.mujoco.mjtDisableBit, f"mjDSBL_{what}", 0)
        return bool(self.m.opt.disableflags & int(flag))


def object_type(mujoco: Any, kind: str) -> Any:
    return getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}")


def compiled(
    document: Element, text: str | bytes, path: str | None, every: bool = False
) -> CompiledMjcf:
    """Compiles an MJCF text, or the file at `path`, whose includes and meshes are then looked up.

    Assets that cannot be read have stand-ins where no inertia depends on them. every: the inertia
    of bodies on the ground counts, too. Raises ModelError with MuJoCo's complaint.
    """
    mujoco = _module(document.source)
    text, document = _decoded(text, document), whole(document, path)
    messages: list[str] = []
    unread, stand_ins = "", frozenset[str]()
    try:
        with _collected_warnings(mujoco, messages):
            spec = _spec(mujoco, text, path)
            m = spec.compile()
    except (ValueError, RuntimeError, MemoryError, mujoco.FatalError) as error:
        if next(document.node.iter("asset"), None) is None:
            raise _complaint(error, document) from None
        messages.clear()
        with _collected_warnings(mujoco, messages):
            spec, m, stand_ins = _with_stand_ins(mujoco, document, text, path, every)
        unread = _one_line(str(error))
    if any("NaN" in message for message in messages):  # where `whole` takes it for a name
        raise ModelError(f"{document.source}: it holds numbers that are NaN; wanted finite ones")
    bodies, no_body = _names(mujoco, m, "body", m.nbody)
    joints, no_joint = _names(mujoco, m, "joint", m.njnt)
    # With includes, lines are those of other files than the message names.
    lines = _lines(spec) if document.node.find(".//include") is None else {}
    unnamed, warned = no_body + no_joint, tuple(dict.fromkeys(messages))
    texts = unnamed, lines, warned, unread
    return CompiledMjcf(m, mujoco, document.source, bodies, joints, *texts, stand_ins)


def _with_stand_ins(
    mujoco: Any, document: Element, text: str, path: str | None, every: bool
) -> tuple[Any, Any, frozenset[str]]:
    """Returns the specification and the model of a text without assets that no inertia needs, and
    the names of its meshes that have stand-ins.
    """
    stand_ins = StandIns([], frozenset())
    folder = os.path.dirname(path or "")
    try:
        spec = _spec(mujoco, text, path)
        folder = os.path.join(folder, spec.meshdir or "")
        stand_ins = use_stand_ins(mujoco, spec, every)
        return spec, spec.compile(), stand_ins.meshes
    except (ValueError, RuntimeError, MemoryError, mujoco.FatalError) as error:
        complaint = _complaint(error, document)
        if missing := missing_inertia(stand_ins.needed, _one_line(str(error)), folder):
            raise ModelError(f"{complaint}; {missing}") from None
        raise complaint from None


def _one_line(text: str) -> str:
    return " ".join(text.replace("Error: ", "").split())


def _spec(mujoco: Any, text: str, path: str | None) -> Any:
    """Returns what MuJoCo reads of a text, without what only its simulation needs."""
    if path is None:
        make: Callable[..., Any] = mujoco.MjSpec.from_string
        spec = make(text)
    else:  # under a name that ends as MuJoCo wants; what was read and checked is not read again
        name = f"{Path(path).stem}.xml"
        place = os.path.join(os.path.dirname(path), name)
        spec = mujoco.MjSpec.from_file(place, include={name: text.encode()})
    spec.compiler.LRopt.mode = 0  # it simulates each muscle for the range of its length
    spec.nkey = spec.nuserdata = 0
    spec.memory = spec.nstack = spec.njmax = spec.nconmax = -1
    for kind in USER_DATA:
        setattr(spec, f"nuser_{kind}", -1)
    return spec


def _module(source: str) -> Any:
    try:
        import mujoco
    except ImportError:
        raise ModelError(f"{source}: {EXTRA}") from None
    if not hasattr(getattr(mujoco, "MjsBody", None), "id"):  # came with 3.4
        raise ModelError(f"{source}: {EXTRA} (here is {mujoco.__version__})")
    return mujoco


@contextmanager
def _collected_warnings(mujoco: Any, messages: list[str]) -> Iterator[None]:
    """Appends MuJoCo's warnings to a list; else they go to the terminal and MUJOCO_LOG.TXT."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(messages.append)
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            yield
        messages += [str(warning.message) for warning in seen]
    finally:
        mujoco.set_mju_user_warning(before)


def _decoded(text: str | bytes, document: Element) -> str:
    if isinstance(text, str):
        return text.lstrip()
    try:
        return text.decode("utf-8-sig").lstrip()
    except UnicodeDecodeError:  # in the encoding that its declaration names
        return str(etree.tostring(document.node, encoding="unicode"))


def _names(mujoco: Any, m: Any, kind: str, count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns all objects' names, where unnamed ones have numbers; and these numbers alone."""
    file_names = [mujoco.mj_id2name(m, object_type(mujoco, kind), i) for i in range(count)]
    names = tuple(all_named(kind, file_names))
    return names, tuple(n for n, in_file in zip(names, file_names, strict=True) if not in_file)


def _lines(spec: Any) -> dict[int, str]:
    """Returns the lines of bodies."""
    return {body.id: f", {body.info}" for body in spec.bodies if body.info}


# Complaints


def _unexpanded(document: Element) -> str:
    """Returns a hint at the first expression of xacro in a document, or nothing."""
    for node in document.node.iter(etree.Element):
        for attribute, value in node.attrib.items():
            if unexpanded(value):
                place = f"line {node.sourceline}: {attribute}"
                return f"; {place} holds {quoted(value)}{expansion_hint(value)}"
    return ""


def _complaint(error: Exception, document: Element) -> ModelError:
    """Returns MuJoCo's message in one line, with the place that it names in front."""
    source = document.source
    text = str(error).replace("XML Error: ", "").replace("Error: ", "")
    said = [line.strip() for line in text.splitlines() if line.strip()]
    place = PLACE.fullmatch(said[-1]) if said else None
    if "unknown exception" in text or isinstance(error, MemoryError):
        return ModelError(f"{source}: MuJoCo cannot read it: {MEMORY}")
    if "DEPTH_EXCEEDED" in text:
        return ModelError(f"{source}: MuJoCo cannot read it: {DEPTH}")
    hint = MESHES if "opening file" in text else _unexpanded(document)
    if place is None:
        return ModelError(f"{source}: MuJoCo cannot read it: {'; '.join(said)}{hint}")
    line = f", line {place['line']}" if int(place["line"] or 0) > 0 else ""
    element = f": {quoted(place['name'])}" if place["name"] else ""
    return ModelError(f"{source}{line}{element}: {'; '.join(said[:-1])}{hint}")
