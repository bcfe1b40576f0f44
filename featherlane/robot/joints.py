"""The table of joint types.

The columns of S are unit vectors, but for the pitch of a helical joint. A universal joint, whose S
is not constant, is a `chain` of two revolute joints to the algorithms.
"""

from __future__ import annotations

from featherlane.robot import exponential
from featherlane.robot import group_coordinates as group
from featherlane.robot.group_coordinates import rotation_about_z
from featherlane.robot.joint_type import ANGLE, LENGTH, JointType, JointUnits
from featherlane.robot.quaternions import NO_ROTATION, quaternion_rotation
from featherlane.robot.reversal import CONJUGATE, IN_THE_PLANE, MIRRORED, OF_A_POSE, SWAPPED_AXES
from featherlane.robot.spatial import (
    NO_TURN,
    ZERO3,
    ZERO_SYMMETRIC,
    Inertia,
    Transform,
    Vector,
    cross,
    transpose,
    unit,
)
from featherlane.robot.straight_motion import FREE_STRAIGHT, PLANAR_STRAIGHT


def _on_axis(inertia: Inertia) -> Inertia:
    """Keeps the mass on the axis of rotation, which a rotation leaves where it is."""
    return _axial_moment(inertia)._replace(m=inertia.m, h=Vector((0.0, 0.0, inertia.h[2])))


def _second_moment(inertia: Inertia) -> Inertia:
    """Keeps the second moment: a sliding body rotates with its parent."""
    return Inertia(0.0, ZERO3, inertia.S)


def _at_centre(inertia: Inertia) -> Inertia:
    """Keeps the mass at the centre of a rotation in any direction."""
    return Inertia(inertia.m, ZERO3, ZERO_SYMMETRIC)


def _axial_moment(inertia: Inertia) -> Inertia:
    """Keeps the second moment along the joint's axis, about which alone the body rotates."""
    return Inertia(0.0, ZERO3, ZERO_SYMMETRIC._replace(zz=inertia.S.zz))


TURN, SLIDE = unit(2), unit(5)  # about z, along z

REVOLUTE = JointType(
    name="revolute",
    description="a turn about its axis, in radians",
    units=ANGLE,
    neutral=(0.0,),
    S=(TURN,),
    transform=lambda q: Transform(rotation_about_z(q[0]), ZERO3),
    angles=(0,),
    regrouped=_on_axis,
    unlimited_name="continuous",
)
PRISMATIC = JointType(
    name="prismatic",
    description="a slide along its axis, in metres",
    units=LENGTH,
    neutral=(0.0,),
    S=(SLIDE,),
    transform=lambda q: Transform(NO_TURN, Vector((0.0, 0.0, q[0]))),
    regrouped=_second_moment,
    symbol="box",
)


def helical(pitch: float) -> JointType:
    """Returns the type of a screw joint that advances `pitch` metres for each radian."""
    return JointType(
        name="helical",
        description="a screw about its axis, in radians; its pitch is in metres per radian",
        units=ANGLE,
        neutral=(0.0,),
        S=(TURN + SLIDE * pitch,),
        transform=lambda q: Transform(rotation_about_z(q[0]), Vector((0.0, 0.0, pitch * q[0]))),
        angles=(0,),
        of_pitch=helical,
        regrouped=_axial_moment,
    )


CYLINDRICAL = JointType(
    name="cylindrical",
    description="a turn about its axis, in radians, and a slide along it, in metres",
    units=JointUnits("rad, then m", "rad/s then m/s, and per s", "N m, then N"),
    neutral=(0.0, 0.0),
    S=(TURN, SLIDE),
    transform=lambda q: Transform(rotation_about_z(q[0]), Vector((0.0, 0.0, q[1]))),
    angles=(0,),
    regrouped=_axial_moment,
)
UNIVERSAL = JointType(
    name="universal",
    description=(
        "a turn about its first axis, then about its second, which the first turns; in radians"
    ),
    units=ANGLE,
    neutral=(0.0, 0.0),
    S=(TURN, TURN),
    transform=lambda q: NotImplemented,  # a Tree has its chain instead
    angles=(0, 1),
    chain=(REVOLUTE, REVOLUTE),
    reversal=SWAPPED_AXES,
)
TRANSLATION = JointType(
    name="translation",
    description="q = [x, y, z], in metres",
    units=LENGTH,
    neutral=(0.0, 0.0, 0.0),
    S=(unit(3), unit(4), unit(5)),
    transform=lambda q: Transform(NO_TURN, Vector(q)),
    axis=False,
    regrouped=_second_moment,
    reversal=MIRRORED,
    symbol="ball",
)
SPHERICAL = JointType(
    name="spherical",
    description="q = [qx qy qz qw], v = the angular velocity in the body's axes",
    units=JointUnits("quaternion x, y, z, w", "rad/s, rad/s^2, in the body's axes", "N m"),
    neutral=NO_ROTATION,
    S=(unit(0), unit(1), unit(2)),
    transform=lambda q: Transform(quaternion_rotation(*q), ZERO3),
    integrate=exponential.turned,
    difference=exponential.shortest_turn,
    rates=group.spherical_rates,
    adjoint=lambda v: transpose(exponential.turn_matrix(v)),
    jacobian=exponential.turn_jacobian,
    jacobian_inverse=exponential.turn_jacobian_inverse,
    commutator=cross,
    quaternions=(0,),
    axis=False,
    regrouped=_at_centre,
    reversal=CONJUGATE,
    symbol="ball",
)
PLANAR = JointType(
    name="planar",
    description=(
        "q = [x, y, heading] in the parent's plane, v = [vx, vy, turn rate] in the body's axes"
    ),
    units=JointUnits("m, m, rad", "m/s, m/s, rad/s, and per s, in the body's axes", "N, N, N m"),
    neutral=(0.0, 0.0, 0.0),
    S=(unit(3), unit(4), unit(2)),
    transform=lambda q: Transform(rotation_about_z(q[2]), Vector((q[0], q[1], 0.0))),
    integrate=group.planar_integrate,
    difference=group.planar_difference,
    rates=group.planar_rates,
    adjoint=group.in_plane(exponential.motion_adjoint),
    jacobian=group.in_plane(exponential.motion_jacobian),
    jacobian_inverse=group.in_plane(exponential.motion_jacobian_inverse),
    commutator=lambda u, v: Vector((v[1] * -u[2] + u[1] * v[2], v[0] * u[2] - u[0] * v[2], 0.0)),
    straight=PLANAR_STRAIGHT,
    angles=(2,),
    regrouped=_axial_moment,
    reversal=IN_THE_PLANE,
    symbol="ball",
    root_title="moves in the plane",
)
FREE = JointType(
    name="free",
    description="q = [x y z, qx qy qz qw], v = [linear; angular] in the body's axes",
    units=JointUnits(
        "x, y, z in m, quaternion x, y, z, w",
        "linear m/s, then angular rad/s, and per s, in the body's axes",
        "force N, then moment N m",
    ),
    neutral=(0.0, 0.0, 0.0, *NO_ROTATION),
    S=(unit(3), unit(4), unit(5), unit(0), unit(1), unit(2)),
    transform=lambda q: Transform(quaternion_rotation(*q[3:]), Vector(q[:3])),
    integrate=group.free_integrate,
    difference=group.free_difference,
    rates=group.free_rates,
    adjoint=lambda v: exponential.motion_adjoint(v[:3], v[3:]),
    jacobian=lambda v: exponential.motion_jacobian(v[:3], v[3:]),
    jacobian_inverse=lambda v: exponential.motion_jacobian_inverse(v[:3], v[3:]),
    commutator=lambda u, v: Vector(
        (*(cross(u[3:], v[:3]) + cross(u[:3], v[3:])), *cross(u[3:], v[3:]))
    ),
    straight=FREE_STRAIGHT,
    quaternions=(3,),
    axis=False,
    turning_armature=(0, 1, 2),
    reversal=OF_A_POSE,
    symbol="ball",
    root_title="six degrees of freedom",
)

WITH_AXIS = REVOLUTE, PRISMATIC, helical(0.0), CYLINDRICAL, UNIVERSAL, PLANAR
WITHOUT_AXIS = SPHERICAL, TRANSLATION, FREE
JOINT_TYPES = {joint.name: joint for joint in WITH_AXIS + WITHOUT_AXIS}


def joint_type(name: str, pitch: float = 0.0) -> JointType:
    """Returns a type by name; helical joints are a family of types, one for each pitch."""
    joint = JOINT_TYPES[name]
    return joint.of_pitch(pitch) if joint.of_pitch else joint
