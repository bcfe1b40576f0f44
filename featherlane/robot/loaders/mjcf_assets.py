"""Assets of MJCF files that dynamics do not need: meshes, textures, height fields and skins.

Their files are often missing, or pointers of Git LFS, where a robot is copied without its shapes.
Where MuJoCo's compiler cannot read them, small stand-ins take the place of all that no inertia
depends on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from featherlane.robot.loaders.words import quoted
from featherlane.robot.loaders.xml import LFS, LFS_POINTER

VERTICES = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)  # of a tetrahedron
FACES = (0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3)
SIDES = 6  # of a cube map


class Needed(NamedTuple):
    """A mesh that gives a body its inertia."""

    body: str
    file: str


class StandIns(NamedTuple):
    """The meshes that no stand-in can replace, and the names of those that have one."""

    needed: list[Needed]
    meshes: frozenset[str]


def use_stand_ins(mujoco: Any, spec: Any, every: bool) -> StandIns:
    """Puts stand-ins in the place of all assets but the meshes that give moving bodies their
    inertia. every: bodies on the ground count as moving.
    """
    needs = _Needs(mujoco, spec, every)
    needed = [
        Needed(body.name or "without a name", _mesh_of(spec, geom.meshname).file)
        for body in spec.bodies
        for geom in body.geoms
        if needs.mesh_of(geom, body)
    ]
    files = {mesh.file for mesh in needed}
    left_out = [mesh for mesh in spec.meshes if mesh.file and mesh.file not in files]
    for geom in spec.geoms:
        if geom.meshname and _mesh_of(spec, geom.meshname).file not in files:
            geom.mass = 0.0  # of a body on the ground, or nothing beside an <inertial>
            if geom.type != mujoco.mjtGeom.mjGEOM_MESH:  # its size is that of the mesh
                geom.contype = geom.conaffinity = 0
    names = frozenset(mesh.name or Path(mesh.file).stem for mesh in left_out)
    for mesh in left_out:
        mesh.file, mesh.content_type = "", ""
        mesh.uservert, mesh.userface = list(VERTICES), list(FACES)
    _empty_pictures(mujoco, spec)
    return StandIns(needed, names)


def _mesh_of(spec: Any, name: str) -> Any:
    """Returns a mesh by its name, which by default is that of its file; ValueError without one."""
    mesh = next((m for m in spec.meshes if name in (m.name, Path(m.file).stem)), None)
    if mesh is None:
        raise ValueError(f"there is no mesh {quoted(name)} among the assets")
    return mesh


def _empty_pictures(mujoco: Any, spec: Any) -> None:
    for texture in spec.textures:
        is_plane = texture.type == mujoco.mjtTexture.mjTEXTURE_2D
        texture.file, texture.cubefiles, texture.content_type = "", [""] * SIDES, ""
        texture.builtin = mujoco.mjtBuiltin.mjBUILTIN_FLAT
        texture.width, texture.height = 1, 1 if is_plane else SIDES
    for field in spec.hfields:
        if field.file:
            field.file, field.content_type = "", ""
            field.nrow, field.ncol, field.userdata = 2, 2, [0.0, 0.0, 0.0, 1.0]
    for skin in list(spec.skins):
        spec.delete(skin)


class _Needs:
    """Which bodies and geoms take their inertia from shapes."""

    def __init__(self, mujoco: Any, spec: Any, every: bool) -> None:
        modes = mujoco.mjtInertiaFromGeom
        self.every, self.groups = every, spec.compiler.inertiagrouprange
        self.always = spec.compiler.inertiafromgeom == modes.mjINERTIAFROMGEOM_TRUE

    def mesh_of(self, geom: Any, body: Any) -> bool:
        """Tells whether a mesh of a geom gives the body inertia."""
        weighs = geom.mass > 0 or (math.isnan(geom.mass) and geom.density > 0)
        low, high = self.groups
        shaped = self.always or not body.explicitinertial
        return bool(
            geom.meshname and weighs and low <= geom.group <= high and shaped and self._moves(body)
        )

    def _moves(self, body: Any) -> bool:
        return body.parent is not None and (
            self.every or any(len(one.joints) > 0 for one in _with_ancestors(body))
        )


def _with_ancestors(body: Any) -> Iterator[Any]:
    while body is not None:
        yield body
        body = body.parent


def missing_inertia(needed: Sequence[Needed], complaint: str, folder: str) -> str:
    """Says which body needs the mesh that a complaint is about, or "" if none does.

    folder: where the files of meshes are.
    """
    at_fault = [mesh for mesh in needed if os.path.basename(mesh.file) in complaint]
    at_fault += [mesh for mesh in needed if _is_pointer(os.path.join(folder, mesh.file))]
    if not at_fault:
        return ""
    body, file = at_fault[0]
    pointer = f"; {LFS}" if _is_pointer(os.path.join(folder, file)) else ""
    return (
        f"body {quoted(body)} has no <inertial>, so that its inertia comes from the mesh "
        f"{quoted(file)}{pointer}; other assets are not needed"
    )


def _is_pointer(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return LFS_POINTER.match(file.read(200)) is not None
    except OSError:
        return False
