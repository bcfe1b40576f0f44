"""Shapes to draw a robot with: the visuals of its file, or what the model itself tells.

Every shape is a mesh of triangles in the frame of a body. A model keeps collision shapes, but no
visuals: these are read again from the file that it came from; links that the model no longer has,
after an edit, are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from lxml import etree

from featherlane.errors import ModelError
from featherlane.interop.wrapped import required
from featherlane.robot.collision_shapes import CollisionShape
from featherlane.robot.loaders import xml_text
from featherlane.robot.loaders.meshes import mesh_file, with_points
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD, Body, Placement
from featherlane.robot.rotations import rpy_rotation

trimesh = required("trimesh", "view")

GREY = 0.7, 0.72, 0.75, 1.0
COLOURS = (0.29, 0.42, 0.6, 1.0), (0.93, 0.58, 0.2, 1.0)  # of bodies and of joints
GLASS = 0.45, 0.7, 0.55, 0.35  # of inertia
RED_GLASS = 0.85, 0.3, 0.25, 0.45  # of collision shapes
GAMMA = 2.2  # of colours in robot files; those of materials are linear
THICKNESS = 0.18  # radius of a bone, of the median length of bones
GROUPS = 3  # groups of geoms that MuJoCo shows
NEAR = 1e-6  # m: shorter bones are not drawn


class Shape(NamedTuple):
    """A mesh in the frame of a body, or of the ground (WORLD)."""

    body: int
    mesh: Any  # a trimesh.Trimesh


def placed(mesh: Any, place: Placement, rgba: Any = None) -> Any:
    """Moves a mesh to a placement, and paints it in one colour."""
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = place
    mesh.apply_transform(T)
    if rgba is not None:
        linear = np.append(np.asarray(rgba[:3], float) ** GAMMA, rgba[3])
        color = (255 * np.clip(linear, 0, 1)).astype(np.uint8)
        material = trimesh.visual.material.PBRMaterial(
            baseColorFactor=color,
            roughnessFactor=0.6,
            metallicFactor=0.1,
            alphaMode="BLEND" if color[3] < 255 else "OPAQUE",
        )
        mesh.visual = trimesh.visual.TextureVisuals(material=material)
    return mesh


# What the model tells: bones from joint to joint, and ellipsoids of inertia


def skeleton(model: Robot) -> list[Shape]:
    """Returns bones from each body's joint to the joints that it carries, or to its farthest frame,
    and joints as balls, as cylinders along their axes, or as boxes where they slide.
    """
    bones = [
        (body, np.array(end)) for body in range(WORLD, model.nbodies) for end in _ends(model, body)
    ]
    lengths = [np.linalg.norm(end) for _, end in bones if np.linalg.norm(end) > NEAR]
    radius = THICKNESS * float(np.median(lengths)) if lengths else 0.05
    shapes = [
        Shape(body, placed(_bone(end, radius), _ORIGIN, COLOURS[0]))
        for body, end in bones
        if np.linalg.norm(end) > NEAR
    ]
    return shapes + [_joint(model, n, 1.35 * radius) for n in range(model.nbodies)]


_ORIGIN = Placement.of(np.eye(3), np.zeros(3))


def _ends(model: Robot, body: int) -> Iterator[Any]:
    """Yields the ends of the bones of a body."""
    children = [joint for joint in model.joints if joint.parent == body]
    if body == WORLD:
        # A joint that may be anywhere has no bone to the ground
        children = [joint for joint in children if not joint.kind.goes_anywhere]
    yield from (joint.placement.p for joint in children)
    if body != WORLD and not children:
        places = [frame.placement.p for frame in model.frames if frame.body == body]
        far = max(places, key=np.linalg.norm, default=(0.0, 0.0, 0.0))
        com = 2 * np.array(model.bodies[body].com)
        yield far if np.linalg.norm(far) > np.linalg.norm(com) / 2 else com


def _capsule(radius: float, height: float) -> Any:
    """Returns a capsule along z, centred, as not all versions of trimesh do."""
    mesh = trimesh.creation.capsule(height=height, radius=radius, count=[24, 24])
    return mesh.apply_translation((0, 0, -mesh.bounds[:, 2].mean()))


def _bone(end: np.ndarray, radius: float) -> Any:
    """Returns a capsule from the origin to a point."""
    length = float(np.linalg.norm(end))
    return placed(_capsule(radius, length), Placement.of(_along(end / length), end / 2))


def _along(z: np.ndarray) -> np.ndarray:
    """Returns a rotation whose third column is a unit vector."""
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def _joint(model: Robot, n: int, radius: float) -> Shape:
    """Returns a joint in the frame of the body that it moves."""
    joint = model.joints[n]
    place = Placement.of(_along(np.array(joint.axis)), np.zeros(3))
    if joint.kind.symbol == "box":
        mesh = trimesh.creation.box(extents=(1.4 * radius, 1.4 * radius, 2 * radius))
    elif joint.kind.symbol == "cylinder":
        mesh = trimesh.creation.cylinder(radius=radius, height=2.6 * radius, sections=40)
    else:
        mesh = trimesh.creation.icosphere(subdivisions=3, radius=1.3 * radius)
    return Shape(n, placed(mesh, place, COLOURS[1]))


def inertia_ellipsoids(model: Robot) -> list[Shape]:
    """Returns for each body the solid ellipsoid of its mass and inertia: of those with mass."""
    return [
        Shape(n, ellipsoid)
        for n, body in enumerate(model.bodies)
        if (ellipsoid := _ellipsoid(body)) is not None
    ]


def _ellipsoid(body: Body) -> Any:
    """Returns the ellipsoid of uniform density with m (b^2 + c^2) / 5 and so on as its moments."""
    if body.mass <= 0:
        return None
    moments, axes = np.linalg.eigh(np.array(body.inertia))
    squares = 2.5 / body.mass * (moments.sum() - 2 * moments)
    if not np.isfinite(squares).all() or squares.max() <= 0:
        return None
    half = np.sqrt(np.maximum(squares, 1e-4 * squares.max()))
    mesh = trimesh.creation.icosphere(subdivisions=3, radius=1.0)
    mesh.apply_scale(half)
    axes = axes * np.linalg.det(axes)  # a rotation, not a reflection
    return placed(mesh, Placement.of(axes, body.com), GLASS)


def collision_meshes(model: Robot) -> tuple[list[Shape], list[str]]:
    """Returns the collision shapes of a robot except planes, and notes of those whose mesh cannot
    be read.
    """
    shapes, notes = list[Shape](), list[str]()
    for shape in model.collision_shapes:
        try:
            mesh = _collision_mesh(with_points(shape))
        except ModelError as error:
            notes.append(str(error).partition(";")[0])  # the rest tells what to do for contacts
            continue
        if mesh is not None:
            shapes.append(Shape(shape.body, placed(mesh, shape.placement, RED_GLASS)))
    return shapes, notes


def _collision_mesh(shape: CollisionShape) -> Any:
    """Returns the mesh of a shape in its frame; None of a plane."""
    if shape.kind == "hull":
        return trimesh.PointCloud(shape.points).convex_hull
    return _primitive(shape.kind, shape.size)


def _primitive(kind: str, size: Sequence[float]) -> Any:
    """Returns a shape of MuJoCo's sizes, with halves of lengths; None of another kind."""
    if kind == "box":
        return trimesh.creation.box(extents=2 * np.array(size))
    if kind in ("sphere", "ellipsoid"):
        ball = trimesh.creation.icosphere(subdivisions=3, radius=1.0)
        return ball.apply_scale(size if kind == "ellipsoid" else size[0])
    return ROUND[kind](radius=size[0], height=2 * size[1]) if kind in ROUND else None


# What the file tells

ROUND = {"cylinder": trimesh.creation.cylinder, "capsule": _capsule}


def visuals(
    model: Robot, source: str | os.PathLike[str], **expansion: Any
) -> tuple[list[Shape], list[str]]:
    """Returns the visuals of a robot's file, URDF or MJCF, on the bodies of a model, and notes of
    what could not be drawn. expansion: xacro_args and packages, as in `load`. Raises ModelError for
    a file that cannot be read.
    """
    text, path = xml_text(os.fspath(source), **expansion)
    root = etree.fromstring(text)
    if root.tag == "mujoco":
        return _of_mjcf(model, os.fspath(source)), []
    shapes, notes = list[Shape](), list[str]()
    colours = {m.get("name"): _rgba(m) for m in root.findall("material")}
    for link in root.iter("link"):
        frame = model._frames.get(link.get("name", ""))
        for visual in link.findall("visual"):
            if frame is None:
                continue
            try:
                mesh, rgba = _visual(visual, path, colours)
            except Exception as error:  # readers of meshes raise errors of any type
                notes.append(f"{link.get('name')}: {' '.join(str(error).split())[:200]}")
                continue
            shapes.append(Shape(frame.body, placed(mesh, frame.placement, rgba)))
    return shapes, notes


def drawn_shapes(model: Robot, source: Any, **expansion: Any) -> tuple[list[Shape], list[str]]:
    """Returns the visuals of the robot's file and notes of those that could not be drawn. Bodies
    with mass and without a visual are drawn as bones, all bodies if there are no visuals.
    """
    notes: list[str] = []
    if source is None:
        loaded = model.source.removesuffix(" (expanded)")  # of xacro
        source = loaded if os.path.isfile(loaded) else None
    if source is not None:
        shapes, notes = visuals(model, source, **expansion)
        if shapes:
            return shapes + _bones_of_bare(model, shapes, bool(notes)), notes
    return skeleton(model), notes


def _bones_of_bare(model: Robot, shapes: Sequence[Shape], base: bool) -> list[Shape]:
    """Returns the bones of bodies that have mass but no shape, and of the ground where `base`."""
    bare = {n for n, body in enumerate(model.bodies) if body.mass > 0}
    bare |= {WORLD} if base else set()
    bare -= {shape.body for shape in shapes}
    return [shape for shape in skeleton(model) if shape.body in bare] if bare else []


def _numbers(element: Any, name: str, default: str) -> np.ndarray:
    return np.array((default if element is None else element.get(name, default)).split(), float)


def _rgba(material: Any) -> np.ndarray | None:
    color = None if material is None else material.find("color")
    return None if color is None else _numbers(color, "rgba", "1 1 1 1")


def _visual(visual: Any, path: str | None, colours: Mapping[Any, Any]) -> tuple[Any, Any]:
    """Returns the mesh of a <visual>, in the link's frame, and its colour: None if the mesh is
    coloured.

    Raises ValueError, or what the reader of a mesh raises.
    """
    origin, material = visual.find("origin"), visual.find("material")
    R = rpy_rotation(*_numbers(origin, "rpy", "0 0 0"))
    place = Placement.of(R, _numbers(origin, "xyz", "0 0 0"))
    rgba = _rgba(material)
    if rgba is None and material is not None:
        rgba = colours.get(material.get("name"))
    shape = next(visual.find("geometry").iterchildren(etree.Element))
    if shape.tag == "mesh":
        mesh = trimesh.load_mesh(mesh_file(shape.get("filename"), path))
        mesh.apply_scale(_numbers(shape, "scale", "1 1 1"))
        return placed(mesh, place), rgba
    length = lambda name: float(shape.get(name))
    if shape.tag == "box":
        mesh = trimesh.creation.box(extents=_numbers(shape, "size", ""))
    elif shape.tag == "sphere":
        mesh = trimesh.creation.icosphere(subdivisions=3, radius=length("radius"))
    elif shape.tag in ROUND:
        mesh = ROUND[shape.tag](radius=length("radius"), height=length("length"))
    else:
        raise ValueError(f"<{shape.tag}> is no geometry of URDF")
    return placed(mesh, place), GREY if rgba is None else rgba


def _of_mjcf(model: Robot, source: str) -> list[Shape]:
    """Returns the geoms that MuJoCo shows, but for planes."""
    mujoco = required("mujoco", "mjcf")
    whole = mujoco.MjModel.from_xml_path(source)
    shapes = []
    for n in range(whole.ngeom):
        geom = whole.geom(n)
        frame = model._frames.get(whole.body(int(geom.bodyid[0])).name)
        mesh = _geom(
            whole, geom, mujoco.mjtGeom(int(geom.type[0])).name.removeprefix("mjGEOM_").lower()
        )
        if frame is None or mesh is None or geom.group[0] >= GROUPS:
            continue
        R = np.empty(9)
        mujoco.mju_quat2Mat(R, geom.quat)
        in_frame = Placement.of(R.reshape(3, 3), geom.pos)
        material = int(geom.matid[0])
        rgba = geom.rgba if material < 0 else whole.mat_rgba[material]
        shapes.append(Shape(frame.body, placed(mesh, frame.placement * in_frame, rgba)))
    return shapes


def _geom(whole: Any, geom: Any, kind: str) -> Any:
    """Returns the mesh of a geom; None if it is of no extent, or without one."""
    if kind == "mesh":
        mesh = whole.mesh(int(geom.dataid[0]))
        first, count = int(mesh.vertadr[0]), int(mesh.vertnum[0])
        face, faces = int(mesh.faceadr[0]), int(mesh.facenum[0])
        vertices = whole.mesh_vert[first : first + count]
        return trimesh.Trimesh(vertices, whole.mesh_face[face : face + faces])
    return _primitive(kind, geom.size)
