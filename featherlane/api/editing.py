"""Editing: robots with locked joints, another root, other names, physics, limits, inertias, frames,
and with another robot attached.

`rerooting` reroots a robot at another body and converts states between the two robots;
`derivatives_back` converts derivatives of inverse dynamics to the original robot.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from featherlane.api.rerooted_derivatives import derivatives_back
from featherlane.api.rerooting import Rerooting, rerooting
from featherlane.functions.array_like import ArrayLike, Vector3
from featherlane.robot import model
from featherlane.robot.collision_shapes import CollisionShape
from featherlane.robot.editing import attach as attaching
from featherlane.robot.editing import frames, inertials, limits, names, parameters, physics, reduce
from featherlane.robot.editing import shapes as shapes_of
from featherlane.robot.editing.names import Renaming
from featherlane.robot.editing.reroot import body_number, on_free_joint
from featherlane.robot.editing.urdf_text import urdf_text

__all__ = ["Rerooting", "derivatives_back", "rerooting"]

M = TypeVar("M", bound="Editing")
ZERO3 = (0.0, 0.0, 0.0)
Limit = ArrayLike | Mapping[str, ArrayLike] | None
"""A limit of all joints or of each, or limits by the name of a joint; None: unchanged."""


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

    def with_joint_limits(
        self: M,
        lower: Limit = None,
        upper: Limit = None,
        velocity: Limit = None,
        effort: Limit = None,
    ) -> M:
        """Returns the robot with other limits; None keeps the present ones, infinite is none.

        lower, upper (rad or m): a number for all joints, (nq,), or {joint: value}; velocity (rad/s
        or m/s), effort (N m or N): a number for all joints, (nv,), or {joint: value}. A mimic joint
        has limits of its own, by its name, which narrow those of its leader. Soft stops move with
        the limits. Raises ValueError for other shapes, unknown joints, negative velocities and
        efforts, and lower limits that are not below the upper ones.

        Examples:
            >>> narrow = arm.with_joint_limits({"joint1": -0.5}, {"joint1": 0.5}, velocity=2.0)
            >>> narrow.position_limits.upper, narrow.velocity_limits
            (array([0.5, inf]), array([2., 2.]))
        """
        return limits.with_joint_limits(
            self, lower=lower, upper=upper, velocity=velocity, effort=effort
        )

    def with_inertial(
        self: M,
        body: str,
        *,
        mass: float | None = None,
        com: Vector3 | None = None,
        inertia: ArrayLike | None = None,
    ) -> M:
        """Returns the robot with another mass (kg), centre of mass (3,) (m) or inertia (kg m^2) of
        a body; None keeps the present figure. The body is a link with all links that are fixed to
        it.

        com is in the axes of the body; inertia is about com in these axes, (3, 3), or (3,) for a
        diagonal matrix. `with_parameters` takes the figures of all bodies. Raises ValueError or
        TypeError that names the body.

        Examples:
            >>> arm.with_inertial("link2", mass=0.5).bodies[1].mass
            0.5
        """
        return inertials.with_inertial(self, body, mass=mass, com=com, inertia=inertia)

    def with_parameters(self: M, params: Mapping[str, ArrayLike]) -> M:
        """Returns the robot with parameters, in the form of `params=`, as its own: the identified
        inertias, for example. Those that are not named stay.

        inertia may also be (nbodies, 3, 3). Raises ValueError for unknown parameters, for other
        shapes, for negative masses, and for base_velocity and base_acceleration, which no robot
        has.

        Examples:
            >>> half = arm.with_parameters({"mass": arm.parameters("mass")["mass"] / 2})
            >>> round(half.mass / arm.mass, 6)
            0.5
        """
        return parameters.with_parameters(self, params)

    def with_payload(
        self: M,
        frame: str,
        *,
        mass: float,
        com: Vector3 = ZERO3,
        inertia: ArrayLike = (ZERO3,) * 3,
    ) -> M:
        """Returns the robot with a rigid payload on a frame: mass (kg), centre of mass (3,) (m) and
        inertia (kg m^2) about it, both in the axes of the frame; inertia is (3, 3), or (3,) for a
        diagonal matrix. The payload becomes part of the frame's body. Raises ValueError or
        TypeError that names the payload.

        Examples:
            >>> loaded = arm.with_payload("link2", mass=0.1, com=(0, 0, 0.2))
            >>> round(loaded.mass - arm.mass, 6)
            0.1
        """
        return inertials.with_payload(self, frame, mass, com, inertia)

    def with_frame(
        self: M,
        name: str,
        on: str,
        *,
        xyz: Vector3 = ZERO3,
        rpy: Vector3 | None = None,
        R: ArrayLike | None = None,
    ) -> M:
        """Returns the robot with a further frame on frame `on`: at xyz (m) in its axes, with roll,
        pitch and yaw (rad) about its fixed axes, or with the rotation R (3, 3). Raises ValueError
        for a name that a frame has already, and for unknown frames.

        Examples:
            >>> tipped = arm.with_frame("tip", on="link2", xyz=(0, 0, 0.3))
            >>> tipped.frame_names[-1], tipped.frame("tip").placement.p
            ('tip', (0.0, 0.0, 0.3))
        """
        return frames.with_frame(self, name, on, xyz, rpy, R)

    def with_collision_shapes(
        self: M, shapes: CollisionShape | Sequence[CollisionShape] | Mapping[str, Any]
    ) -> M:
        """Returns the robot with further collision shapes, each in the place of one of its name.

        shapes: {frame: shape, or a list of shapes}, placed on these frames; or shapes on their
        bodies (`body`, by default the world), as those of `collision_shapes` are. Raises ValueError
        for unknown frames and bodies, and for two shapes of one name.

        Examples:
            >>> foot = fl.CollisionShape("foot", "sphere", (0.02,), friction=(0.8, 0.0, 0.0))
            >>> with_foot = arm.with_collision_shapes({"link2": foot})
            >>> [(shape.name, shape.body) for shape in with_foot.collision_shapes]
            [('foot', 1)]
        """
        return shapes_of.with_collision_shapes(self, shapes)

    def without_collision_shapes(self: M, names: str | Sequence[str] | None = None) -> M:
        """Returns the robot without collision shapes of these names, by default without any, and
        without the contact pairs that name them. Raises ValueError for unknown names.

        Examples:
            >>> foot = fl.CollisionShape("foot", "sphere", (0.02,))
            >>> with_foot = arm.with_collision_shapes({"link2": foot})
            >>> with_foot.without_collision_shapes("foot").collision_shapes
            ()
        """
        return shapes_of.without_collision_shapes(self, names)

    def to_urdf(self, path: str | os.PathLike[str]) -> tuple[str, ...]:
        """Writes the robot as a URDF file, and returns sentences on what the file does not say.

        It has the joints with their limits, mimic laws, damping and friction, the inertias, the
        collision shapes with their sliding friction, and a link for each frame, all figures in
        full: `load` reads the same robot from it, up to the rounding of rotations. URDF has no
        armature, springs, soft limits, gravity, actuators, configurations and loops. Joints of
        types that it lacks are fixed at their neutral position. A root joint of `load` is not
        written. Raises ValueError for joints that follow one of these types, and OSError for a path
        that cannot be written.

        Examples:
            >>> import tempfile
            >>> path = tempfile.mkdtemp() + "/arm.urdf"
            >>> arm.with_physics(armature=0.1).to_urdf(path)
            ("armature of joint 'joint1'", "armature of joint 'joint2'")
            >>> fl.load(path).joint_names
            ('joint1', 'joint2')
        """
        text, left_out = urdf_text(self)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return left_out


def attach(robot: M, tool: model.Robot, at: str, *, prefix: str = "") -> M:
    """Returns a robot with a tool, which is another robot, fixed to one of its frames: a gripper on
    the flange of an arm, an arm on a mobile base.

    A free root joint of the tool goes, so that its root link is at the frame; another root, such as
    a `Joint` of your own, stays as the joint between both. Entries of q and v of the tool follow
    those of the robot. Mimic joints, frames, actuators and named configurations of both are kept;
    configurations of the same name become one. The robot's gravity holds. Raises ValueError for an
    unknown frame, for names that clash, and for friction that is smoothed at another velocity.

    Arguments:
        robot: the robot that carries the tool
        tool: the other robot
        at: the frame of the robot with which the tool's world coincides
        prefix: text before all names of the tool; without one, the tool's name and "_" are put
            before those names that the robot has already, and the card says so

    Examples:
        >>> two = fl.attach(arm, fl.load("double_pendulum"), "link2", prefix="upper_")
        >>> two.joint_names
        ('joint1', 'joint2', 'upper_joint1', 'upper_joint2')
    """
    return attaching.attached(robot, tool, at, prefix)
