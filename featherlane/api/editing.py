"""Editing: robots with locked joints, another root, other names, physics or gravity.

`rerooting` reroots a robot at another body and converts states between the two robots;
`derivatives_back` converts derivatives of inverse dynamics to the original robot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from featherlane.api.rerooted_derivatives import derivatives_back
from featherlane.api.rerooting import Rerooting, rerooting
from featherlane.functions.array_like import ArrayLike
from featherlane.robot import model
from featherlane.robot.editing import names, physics, reduce
from featherlane.robot.editing.names import Renaming
from featherlane.robot.editing.reroot import body_number, on_free_joint

__all__ = ["Rerooting", "derivatives_back", "rerooting"]

M = TypeVar("M", bound="Editing")


class Editing(model.Robot):
    """The methods of `featherlane.Model` that return an edited copy; its card lists the changes."""

    def reduced(self: M, lock: Mapping[str, Any]) -> M:
        """Returns the robot with joints locked at {joint: position}, without entries in q and v.

        A position is a number (rad or m), as many numbers as the joint has entries of q, or None
        for the neutral position. The bodies that a locked joint carries become part of its parent,
        or of the ground; frames stay where they are. Mimic joints that follow a locked joint are
        locked too, at the position that their multiplier and offset give. Raises ValueError for
        unknown joints, for mimic joints, which have no independent position, and for positions of
        the wrong size.

        Examples:
            >>> arm.reduced({"joint2": 0.5})
            <Model 'double_pendulum': fixed root, 1 bodies, nq 1, nv 1>
        """
        return reduce.reduced(self, lock)

    def rerooted(self: M, body: str) -> M:
        """Returns the robot rerooted at another body, which its free joint then carries.

        Joints on the path to the old root body are reversed. Joints with one axis, and cylindrical
        joints, keep q, v and tau, and their axis is negated; the axes of a universal joint are
        swapped; for other joints q and v differ, because they describe the motion of the old
        parent. All joints keep their names, and those physics and limits that are the same in both
        directions. The frame of a body is the frame of the joint that carries it; frames, and
        therefore links by name, stay where they were. Joints are in depth-first order, with
        siblings in the same order as before.
        `featherlane.editing.rerooting` also converts q, v, a, tau and M between the robots. Raises
        ValueError for unknown bodies, for bodies whose tree is not on the free joint, and for
        reversed joints with armature, damping or friction that differs between directions.

        Examples:
            >>> free = fl.load("double_pendulum", root="free")
            >>> free.rerooted("link2").body_names
            ('link2', 'link1', 'base_link')
        """
        return on_free_joint(self, body_number(self, body))

    def renamed(
        self: M, joints: Renaming = None, bodies: Renaming = None, frames: Renaming = None
    ) -> M:
        """Returns the robot with other names: {old: new}, or a function from old to new.

        A link is a frame, and also a body if a joint moves it; in that case rename both. Raises
        ValueError for unknown old names and for duplicate new names.

        Examples:
            >>> arm.renamed(joints={"joint1": "shoulder", "joint2": "elbow"}).joint_names
            ('shoulder', 'elbow')
        """
        return names.renamed(self, joints, bodies, frames)

    def with_physics(
        self: M,
        armature: ArrayLike | None = None,
        damping: ArrayLike | None = None,
        friction: ArrayLike | None = None,
        friction_velocity: float | None = None,
        stiffness: ArrayLike | None = None,
        spring_reference: ArrayLike | None = None,
    ) -> M:
        """Returns the robot with other joint physics; None keeps the present values.

        armature (kg m^2 or kg), damping (N m s/rad or N s/m), friction (N m or N): a number for all
        joints, 0 for none, or (nv,); a leader's value covers its mimic joints. friction_velocity:
        rad/s or m/s, above 0. stiffness (N m/rad or N/m), spring_reference (rad or m): of springs
        on joints with one degree of freedom. Raises ValueError for other shapes and for negative
        values.

        Examples:
            >>> arm.with_physics(armature=0.01, damping=0.1).damping
            array([0.1, 0.1])
        """
        figures = armature, damping, friction, friction_velocity, stiffness, spring_reference
        return physics.with_physics(self, *figures)

    def with_gravity(self: M, gravity: Sequence[float]) -> M:
        """Returns the robot under another gravity (3,), m/s^2 in the world's axes.

        Examples:
            >>> arm.with_gravity((0.0, 0.0, 0.0)).gravity_torque(q)
            array([0., 0.])
        """
        return physics.with_gravity(self, gravity)
