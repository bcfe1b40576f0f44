"""The same robot, changed: joints locked, another root, other names, physics or gravity.

`rerooting` gives the robot seen from another body, and takes states from one to the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from featherlane.api.rerooting import Rerooting, rerooting
from featherlane.robot import model
from featherlane.robot.editing import names, physics, reduce
from featherlane.robot.editing.names import Names
from featherlane.robot.editing.reroot import body_number, turned_round

__all__ = ["Editing", "Rerooting", "rerooting"]

M = TypeVar("M", bound="Editing")


class Editing(model.Model):
    """What makes a new `featherlane.Model` of one. The card's notes tell what was changed."""

    def reduced(self: M, lock: Mapping[str, Any]) -> M:
        """The robot with joints locked: {joint: position}, which leave q and v.

        A position is a number (rad or m), as many as the joint has entries of q, or None for the
        neutral one. What a locked joint carries becomes part of its parent, or of the ground;
        frames stay where they are. Followers of a locked joint stand still with it, where their
        multiplier and offset put them. Raises ValueError for unknown joints, for followers, which
        have no position of their own, and for positions of another size.
        """
        return reduce.reduced(self, lock)

    def rerooted(self: M, body: str) -> M:
        """The robot on a free joint, seen from another body, which becomes the one on that joint.

        Joints on the way to the old root body are reversed. Those with one axis, and cylindrical
        ones, have it negated and q, v and tau as before; the two of a universal joint change
        places; the others tell the motion of the old parent, so that q and v differ. All keep
        names, physics and limits, as far as both bodies see them alike. A reversed joint carries a
        body whose frame is where that joint is; frames, and so the links by name, stay where they
        were. Joints come depth-first, siblings in the order before.
        `featherlane.editing.rerooting` also takes q, v, a, tau and M from one to the other. Raises
        ValueError for unknown bodies, those of a tree on another root, and for armature, damping
        or friction of joints that do not have it alike in all directions.
        """
        return turned_round(self, body_number(self, body))

    def renamed(self: M, joints: Names = None, bodies: Names = None, frames: Names = None) -> M:
        """The robot with other names: {old: new}, or a function from old to new.

        A link is a body, if it moves with a joint of its own, and a frame: give both to rename it.
        Raises ValueError for unknown old names, and for new ones that two would have.
        """
        return names.renamed(self, joints, bodies, frames)

    def with_physics(
        self: M,
        armature: Any = None,
        damping: Any = None,
        friction: Any = None,
        friction_velocity: float | None = None,
    ) -> M:
        """The robot with other figures for what resists its joints; None keeps those it has.

        armature (kg m^2 or kg), damping (N m s/rad or N s/m), friction (N m or N): a number for
        all, 0 for none, or (nv,); a mimic joint counts with its leader. friction_velocity: rad/s
        or m/s, above 0. Raises ValueError for other shapes and for negative figures.
        """
        return physics.with_physics(self, armature, damping, friction, friction_velocity)

    def with_gravity(self: M, gravity: Sequence[float]) -> M:
        """The robot under another gravity (3,), m/s^2 in the world's axes."""
        return physics.with_gravity(self, gravity)
