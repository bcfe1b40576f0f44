"""The root joint between the ground and the root link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Literal

from featherlane.errors import ModelError, did_you_mean, one_of
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.loaders.specs import JointSpec, LinkSpec
from featherlane.robot.loaders.words import quoted, unused
from featherlane.robot.parts import WORLD, Joint

FREE_SPLIT = "free-split"  # a translation, a body without mass, a spherical joint
# A helical joint needs a pitch, a universal joint two axes: these roots are Joints.
PLAIN = tuple(kind.name for kind in JOINT_TYPES.values() if not (kind.of_pitch or kind.chain))
ROOTS = ("fixed", "free", "planar", FREE_SPLIT, *sorted(set(PLAIN) - {"free", "planar"}))
GROUND = ""  # the name of no link

RootName = Literal[
    "fixed",
    "free",
    "planar",
    "free-split",
    "cylindrical",
    "prismatic",
    "revolute",
    "spherical",
    "translation",
]
Root = RootName | Joint
"""The joint between the ground and the root link: the name of a type, or a joint."""


def checked_root(root: Root) -> Root:
    """Returns the root; raises ValueError or TypeError for what cannot be one."""
    if isinstance(root, Joint):
        if root.parent != WORLD:
            raise ValueError(
                f"root is the joint {root.name!r} with parent {root.parent!r}; wanted parent "
                f"{WORLD}, the ground"
            )
        if root.type not in JOINT_TYPES:
            wanted = one_of(root.type, JOINT_TYPES)
            raise ValueError(f"root is a joint of type {root.type!r}; {wanted}")
        return root
    if not isinstance(root, str):
        raise TypeError(f"root is of type {type(root).__name__}; wanted a name or a Joint")
    if root not in ROOTS:
        known = ", ".join(map(repr, ROOTS))
        example = f", a {root} one with its pitch or axes" if root in JOINT_TYPES else ""
        raise ValueError(
            f"root is {root!r}; wanted one of {known}, or a Joint of your own{example}"
            f"{did_you_mean(root, ROOTS)}"
        )
    return root


def described(root: Root) -> str:
    return root if isinstance(root, str) else f"{root.type} joint {quoted(root.name)}"


def root_joints(
    root: Root, base: LinkSpec, links: Sequence[LinkSpec], joints: Sequence[JointSpec]
) -> list[JointSpec]:
    """Returns the joints from the ground to the root link; two have a massless link between."""
    taken: set[str | None] = {joint.name for joint in joints}
    if isinstance(root, Joint):
        if root.name in taken:
            raise ModelError(
                f"root is a joint of the name {quoted(root.name)}, which the robot has"
            )
        return [_spec(root, base)]
    name, where = unused("root_joint", taken), base.where
    if root != FREE_SPLIT:
        return [JointSpec(name, root, GROUND, base.name, where=where)]
    between = unused("root_translation", {link.name for link in links})
    slide = unused("root_translation", taken)
    return [
        JointSpec(slide, "translation", GROUND, between, where=where),
        JointSpec(name, "spherical", between, base.name, where=where),
    ]


def _spec(root: Joint, base: LinkSpec) -> JointSpec:
    shared = {f.name for f in fields(Joint)} & {f.name for f in fields(JointSpec)} - {"parent"}
    values = {name: getattr(root, name) for name in shared}
    where = f"the root joint {quoted(root.name)}"
    return JointSpec(**values, parent=GROUND, child=base.name, where=where)
