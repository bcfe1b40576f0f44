"""Vertices of mesh files, for the hulls of collision shapes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from featherlane.errors import ModelError, clause
from featherlane.robot.collision_shapes import CollisionShape
from featherlane.robot.hulls import extreme_points
from featherlane.robot.loaders.files import content

TRIANGLE = np.dtype([("normal", "<f4", 3), ("vertices", "<f4", (3, 3)), ("color", "<u2")])  # of STL
HEAD = 84  # bytes of a binary STL before its triangles; the last four are their number


def with_points(shape: CollisionShape) -> CollisionShape:
    """Returns a hull with its extreme points, read from its mesh if it has none; other shapes as
    they are. Raises ModelError that names the shape.
    """
    if shape.kind != "hull" or shape.points:
        return shape
    remedy = (
        "put a sphere, capsule or box in its place by model.with_collision_shapes([...]), or leave "
        "it out by shapes= of fl.Ground"
    )
    if shape.mesh is None or not shape.robot_file:
        raise ModelError(f"{shape.title} has no points: its mesh was not read; {remedy}")
    try:
        vertices = mesh_vertices(mesh_file(shape.mesh.name, shape.robot_file))
        points, _ = extreme_points(vertices * shape.mesh.scale)
    except (ValueError, OSError, ImportError) as error:
        raise ModelError(f"{shape.title} has no points: {clause(error)}; {remedy}") from None
    return replace(shape, points=points)


def mesh_file(name: str, robot: str | None) -> str:
    """Returns the path of a mesh that a robot's file names: package://PACKAGE/... is looked for in
    the folders above that file, and in those of ROS_PACKAGE_PATH. Raises ValueError.
    """
    above = [*Path(robot).resolve().parents] if robot else []
    scheme, colon, rest = name.partition("://")
    if not colon:
        candidates = [Path(name), *[folder / name for folder in above[:1]]]
    elif scheme == "file":
        candidates = [Path(rest)]
    else:
        ros = map(Path, filter(None, os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep)))
        inside = rest.partition("/")[2]
        folders = [*above, *ros]
        candidates = [folder / rest for folder in folders] + [folder / inside for folder in folders]
    for path in candidates:
        if path.is_file():
            return str(path)
    raise ValueError(f"there is no file {name}")


def mesh_vertices(path: str) -> np.ndarray:
    """Returns the vertices (n, 3) of a mesh: of STL and OBJ files, and of others by trimesh. Raises
    ValueError for a file without vertices, ImportError without trimesh.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".stl", ".obj"):
        return _by_trimesh(path)
    data = content(path)
    vertices = _of_stl(data) if suffix == ".stl" else _of_obj(data)
    if not len(vertices) or not np.isfinite(vertices).all():
        raise ValueError(f"{path} has no finite vertices")
    return vertices


def _of_stl(data: bytes) -> np.ndarray:
    """Returns the vertices of a binary or a text STL: a text is what has not the size of a binary
    one.
    """
    count = int.from_bytes(data[HEAD - 4 : HEAD], "little")
    if len(data) == HEAD + count * TRIANGLE.itemsize:
        triangles = np.frombuffer(data, TRIANGLE, count, HEAD)
        return np.asarray(triangles["vertices"], float).reshape(-1, 3)
    return _lines(data, b"vertex")


def _of_obj(data: bytes) -> np.ndarray:
    return _lines(data, b"v")


def _lines(data: bytes, word: bytes) -> np.ndarray:
    """Returns the three numbers behind a word of all lines that begin with it."""
    rows = (line.split() for line in data.splitlines())
    numbers = [row[1:4] for row in rows if row and row[0] == word]
    return np.array(numbers, float).reshape(-1, 3)


def _by_trimesh(path: str) -> np.ndarray:
    try:
        import trimesh
    except ImportError:
        raise ImportError(
            f"{path} is neither STL nor OBJ, and is read by trimesh: pip install "
            "'featherlane[view]'"
        ) from None
    mesh = trimesh.load_mesh(path)
    return np.asarray(mesh.vertices, float)
