"""Collision shapes of an MJCF file: its geoms that touch others, contact pairs and exclusions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from featherlane.robot.collision_shapes import SIZES, CollisionPair, CollisionShape, MeshFile
from featherlane.robot.contact_numbers import clipped_solimp, usable_solref
from featherlane.robot.hulls import extreme_points
from featherlane.robot.loaders.mjcf_compile import CompiledMjcf
from featherlane.robot.loaders.words import all_named
from featherlane.robot.parts import Floats, Placement, floats
from featherlane.robot.rotations import xyzw_rotation

KINDS = {"mesh": "hull"} | {kind: kind for kind in SIZES}  # by the names of mjtGeom
SIGNATURE = 1 << 16  # of exclusions: the first body times this, and the second


def colliding(robot: CompiledMjcf) -> list[int]:
    """Returns the geoms that can touch others: by their groups, or in a contact pair."""
    m = robot.m
    paired = {*m.pair_geom1.tolist(), *m.pair_geom2.tolist()}
    grouped = np.flatnonzero(m.geom_contype | m.geom_conaffinity).tolist()
    return sorted({*grouped, *paired})


def collision_shapes(robot: CompiledMjcf) -> Iterator[CollisionShape]:
    """Yields the geoms that can touch others, each on the frame of its MJCF body."""
    names = _geom_names(robot)
    for g in colliding(robot):
        if (kind := KINDS.get(_type(robot, g))) is not None:
            yield _shape(robot, g, kind, names[g])


def unread_shapes(robot: CompiledMjcf) -> list[str]:
    """Returns the names of geoms that touch others, of types that collision shapes do not have."""
    names = _geom_names(robot)
    return [f"{names[g]} ({_type(robot, g)})" for g in colliding(robot)
            if _type(robot, g) not in KINDS]  # fmt: skip


def hulls_without_mesh(robot: CompiledMjcf) -> list[str]:
    """Returns the names of geoms that touch others, whose meshes were not read."""
    names = _geom_names(robot)
    return [names[g] for g in colliding(robot) if _stands_in(robot, g)]


def collision_pairs(robot: CompiledMjcf) -> Iterator[CollisionPair]:
    """Yields the contact pairs of a file, as MuJoCo has completed their numbers."""
    m, names = robot.m, _geom_names(robot)
    for k in range(m.npair):
        first, second = (int(geoms[k]) for geoms in (m.pair_geom1, m.pair_geom2))
        if {_type(robot, first), _type(robot, second)} <= {*KINDS}:
            yield CollisionPair(
                names[first],
                names[second],
                int(m.pair_dim[k]),
                floats(m.pair_friction[k]),
                float(m.pair_margin[k]),
                float(m.pair_gap[k]),
                usable_solref(floats(m.pair_solref[k])),
                floats(m.pair_solreffriction[k]),
                clipped_solimp(floats(m.pair_solimp[k])),
            )


def collision_exclusions(robot: CompiledMjcf) -> Iterator[tuple[str, str]]:
    """Yields pairs of MJCF bodies whose geoms do not touch one another."""
    for signature in robot.m.exclude_signature.tolist():
        first, second = divmod(signature, SIGNATURE)
        yield robot.bodies[first], robot.bodies[second]


def _geom_names(robot: CompiledMjcf) -> list[str]:
    mujoco, geom = robot.mujoco, robot.mujoco.mjtObj.mjOBJ_GEOM
    in_file = [mujoco.mj_id2name(robot.m, geom, g) for g in range(robot.m.ngeom)]
    return all_named("geom", in_file)


def _type(robot: CompiledMjcf, g: int) -> str:
    name: str = robot.mujoco.mjtGeom(int(robot.m.geom_type[g])).name
    return name.removeprefix("mjGEOM_").lower()


def _shape(robot: CompiledMjcf, g: int, kind: Any, name: str) -> CollisionShape:
    m, hull = robot.m, kind == "hull"
    rotation = xyzw_rotation(np.roll(m.geom_quat[g], -1))
    return CollisionShape(
        name,
        kind,
        floats(m.geom_size[g][: len(SIZES[kind])]),
        placement=Placement.of(rotation, m.geom_pos[g]),
        link=robot.bodies[int(m.geom_bodyid[g])],
        points=_points(robot, g) if hull else (),
        mesh=MeshFile(robot.name("mesh", int(m.geom_dataid[g]))) if hull else None,
        friction=floats(m.geom_friction[g]),
        margin=float(m.geom_margin[g]),
        gap=float(m.geom_gap[g]),
        contype=int(m.geom_contype[g]),
        conaffinity=int(m.geom_conaffinity[g]),
        condim=int(m.geom_condim[g]),
        priority=int(m.geom_priority[g]),
        solref=usable_solref(floats(m.geom_solref[g])),
        solimp=clipped_solimp(floats(m.geom_solimp[g])),
        solmix=float(m.geom_solmix[g]),
    )


def _stands_in(robot: CompiledMjcf, g: int) -> bool:
    """Tells whether a geom's mesh was not read, and a stand-in has its place."""
    if _type(robot, g) != "mesh":
        return False
    return robot.name("mesh", int(robot.m.geom_dataid[g])) in robot.stand_ins


def _points(robot: CompiledMjcf, g: int) -> tuple[Floats, ...]:
    """Returns the extreme points of a mesh's convex hull; none of a stand-in."""
    m, mesh = robot.m, int(robot.m.geom_dataid[g])
    if _stands_in(robot, g):
        return ()
    first, count = int(m.mesh_vertadr[mesh]), int(m.mesh_vertnum[mesh])
    vertices = m.mesh_vert[first : first + count]
    if (graph := int(m.mesh_graphadr[mesh])) >= 0:  # the numbers of the hull's vertices
        on_hull = int(m.mesh_graph[graph])
        start = graph + 2 + on_hull
        vertices = vertices[m.mesh_graph[start : start + on_hull]]
    return extreme_points(vertices)[0]
