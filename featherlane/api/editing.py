"""Editing: a robot with joints locked, another root, other names, physics or gravity.

`rerooting` returns a robot rerooted at another body, and takes states from one to the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from featherlane.api.rerooting import Rerooting, rerooting
from featherlane.robot import model
from featherlane.robot.editing import names, physics, reduce
from featherlane.robot.editing.names import Renaming
from featherlane.robot.editing.reroot import body_number, on_free_joint

__all__ = ["Editing", "Rerooting", "rerooting"]

M = TypeVar("M", bound="Editing")


class Editing(model.Robot):
    """The methods of `featherlane.Model` that return an edited one; its card notes the changes."""

    def reduced(self: M, lock: Mapping[str, Any]) -> M:
        """Returns the robot with joints locked, {joint: position}; q and v have no entries of them.

        A position is a number (rad or m), as many numbers as the joint has entries of q, or None
        for the neutral one. What a locked joint carries becomes part of its parent, or of the
        ground; frames stay where they are. Followers of a locked joint stand still with it, where
        their multiplier and offset put them. Raises ValueError for unknown joints, for followers,
        which have no position of their own, and for positions of another size.
        """
        return reduce.reduced(self, lock)

    def rerooted(self: M, body: str) -> M:
        """Returns the robot with another body on its free joint.

        Joints on the path to the old root body are reversed. Joints with one axis, and cylindrical
        ones, have the axis negated and the same q, v and tau; the axes of a universal joint change
        places; the q and v of other joints describe the motion of the old parent, and differ. All
        keep names, physics and limits, as far as these are the same in both directions. The frame
        of a body is that of the joint which carries it; frames, and so the links by name, stay
        where they were. Joints come depth-first, siblings in the same order as before.
        `featherlane.editing.rerooting` also takes q, v, a, tau and M from one robot to the other.
        Raises ValueError for unknown bodies, for bodies of a tree on another root, and for reversed
        joints with armature, damping or friction that differs between directions.
        """
        return on_free_joint(self, body_number(self, body))

    def renamed(
        self: M, joints: Renaming = None, bodies: Renaming = None, frames: Renaming = None
    ) -> M:
        """Returns the robot with other names: {old: new}, or a function from old to new.

        A link is a frame, and also a body if a joint of its own moves it: rename both. Raises
        ValueError for unknown old names, and for a new name that two would have.
        """
        return names.renamed(self, joints, bodies, frames)

    def with_physics(
        self: M,
        armature: Any = None,
        damping: Any = None,
        friction: Any = None,
        friction_velocity: float | None = None,
    ) -> M:
        """Returns the robot with new joint physics; None keeps the present figures.

        armature (kg m^2 or kg), damping (N m s/rad or N s/m), friction (N m or N): a number for
        all joints, 0 for none, or (nv,); a mimic joint counts with its leader. friction_velocity:
        rad/s or m/s, above 0. Raises ValueError for other shapes and for negative figures.
        """
        return physics.with_physics(self, armature, damping, friction, friction_velocity)

    def with_gravity(self: M, gravity: Sequence[float]) -> M:
        """Returns the robot under another gravity (3,), m/s^2 in the world's axes."""
        return physics.with_gravity(self, gravity)
