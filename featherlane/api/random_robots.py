"""Random robots of any size and branching, for tests and benchmarks.

Reference: Featherstone 2008, section 10.1, and the function autoTree of his spatial_v2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from featherlane.api.model import Model
from featherlane.errors import did_you_mean
from featherlane.robot.constants import direction, orthonormal, total
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.parts import WORLD, Body, Frame, Joint, Mimic, Placement, floats, rows3
from featherlane.robot.spatial import cross, dot, transpose

if TYPE_CHECKING:
    from featherlane.api.configurations import Seed

POINTS = 6  # point masses of a body


def random_tree(
    n: int,
    branching: float = 1.5,
    joint_types: Sequence[str] = tuple(JOINT_TYPES),
    *,
    roots: int = 1,
    mimic: float = 0.0,
    physics: bool = False,
    seed: Seed = None,
) -> Model:
    """Returns a robot of n bodies with random axes and placements, and with inertias of real
    bodies.

    Body i is named "body{i}", its joint "joint{i}"; lengths are of the order of 1 m, masses of 1
    kg. Raises ValueError for sizes below 1, unknown joint types, or a fraction that is not between
    0 and 1.

    Arguments:
        n: number of bodies
        branching: mean number of children of a body; 1 gives a chain, infinity a star
        joint_types: types of joints to draw from
        roots: number of bodies on the ground, each the root of a tree
        mimic: fraction of joints with one degree of freedom that follow another such joint
        physics: whether joints have armature, damping and friction
        seed: number, or NumPy's Generator, to get the same robot again; None: any

    Examples:
        >>> fl.random_tree(8, seed=1, roots=2)
        <Model 'tree8': fixed root, 8 bodies, nq 27, nv 24>
    """
    _check(n, roots, branching, joint_types, mimic)
    rng = np.random.default_rng(seed)
    types = [str(rng.choice(joint_types)) for _ in range(n)]
    parents = [WORLD if i < roots else int((i - roots) // branching) for i in range(n)]
    joints = [_joint(rng, i, types[i], parents[i]) for i in range(n)]
    if physics:
        joints = [_with_physics(rng, joint) for joint in joints]
    return Model(
        f"tree{n}",
        joints=tuple(_followed(rng, joints, mimic)),
        bodies=tuple(_body(rng, i) for i in range(n)),
        frames=tuple(Frame(f"body{i}", i) for i in range(n)),
    )


def chain(n: int, seed: Seed = None, joint_types: Sequence[str] = ("revolute",)) -> Model:
    """Returns a `random_tree` without branches: n bodies, each on the one before.

    Arguments:
        n: number of bodies
        seed: number, or NumPy's Generator, to get the same robot again; None: any
        joint_types: types of joints to draw from

    Examples:
        >>> fl.chain(10, seed=1)
        <Model 'tree10': fixed root, 10 bodies, nq 10, nv 10>
    """
    return random_tree(n, 1, joint_types, seed=seed)


def random_rotation(seed: Seed = None) -> np.ndarray:
    """Returns a rotation matrix (3, 3), uniformly distributed."""
    columns = np.random.default_rng(seed).normal(size=(3, 3)).T.tolist()
    x, y, z = orthonormal(columns)
    return np.array(transpose((x, y, z)) if dot(cross(x, y), z) > 0 else transpose((-x, -y, -z)))


def _check(n: int, roots: int, branching: float, joint_types: Sequence[str], mimic: float) -> None:
    if n < 1 or not 1 <= roots <= n:
        raise ValueError(f"n is {n!r} and roots is {roots!r}: wanted 1 or more, and roots up to n")
    if not branching >= 1:
        raise ValueError(f"branching is {branching!r}: wanted 1 or more")
    wrong = [name for name in joint_types if name not in JOINT_TYPES]
    if wrong or not joint_types:
        meant = did_you_mean(wrong[0], JOINT_TYPES) if wrong else ""
        wanted = f"wanted some of {', '.join(JOINT_TYPES)}{meant}"
        raise ValueError(f"joint_types is {joint_types!r}: {wanted}")
    if not 0 <= mimic <= 1:
        raise ValueError(f"mimic is {mimic!r}: wanted a share, 0 to 1")


def _joint(rng: np.random.Generator, i: int, kind: str, parent: int) -> Joint:
    placement = Placement.of(random_rotation(rng), rng.uniform(-0.5, 0.5, 3))
    axis = direction(rng.normal(size=3).tolist())
    joint = Joint(f"joint{i}", kind, parent, placement, floats(axis))
    if JOINT_TYPES[kind].of_pitch:
        return replace(joint, pitch=float(rng.uniform(-0.3, 0.3)))
    if JOINT_TYPES[kind].chain:  # at some angle, and never parallel
        across = direction(cross(axis, rng.normal(size=3).tolist()))
        return replace(joint, axis2=floats(direction(across + axis * rng.uniform(-1, 1))))
    return joint


def _with_physics(rng: np.random.Generator, joint: Joint) -> Joint:
    armature, damping, friction = (floats(x) for x in rng.uniform(0.05, 0.5, (3, joint.kind.nv)))
    return replace(joint, armature=armature, damping=damping, friction=friction)


def _followed(rng: np.random.Generator, joints: list[Joint], share: float) -> list[Joint]:
    """Makes a share of the joints follow others, which may come before or after them."""
    single = [i for i, joint in enumerate(joints) if joint.kind.nv == 1]
    follows = rng.permutation(single)[: min(round(share * len(single)), len(single) - 1)]
    leaders = sorted(set(single) - set(follows.tolist()))
    result = list(joints)
    for i in follows if share else ():
        leader = joints[int(rng.choice(leaders))].name
        ratio = float(rng.choice([-1, 1]) * rng.uniform(0.3, 1.5))
        result[i] = replace(joints[i], mimic=Mimic(leader, ratio, float(rng.uniform(-0.5, 0.5))))
    return result


def _body(rng: np.random.Generator, i: int) -> Body:
    """Returns a cloud of point masses, whose inertia always keeps the triangle inequality."""
    masses = rng.uniform(0.05, 0.5, POINTS)
    points = rng.uniform(-0.3, 0.3, 3) + rng.normal(size=(POINTS, 3)) / 5
    mass = total(masses.tolist())
    com = reduce(np.add, masses[:, None] * points) / mass
    arms = points - com
    second = reduce(np.add, masses[:, None, None] * arms[:, :, None] * arms[:, None, :])
    inertia = total(second.diagonal().tolist()) * np.eye(3) - second
    return Body(f"body{i}", mass, floats(com), rows3(inertia))
