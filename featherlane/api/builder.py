"""Building a robot in Python, with the same checks as for files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from featherlane.api.model import Model, held
from featherlane.errors import one_of
from featherlane.functions.array_like import ArrayLike, Vector3
from featherlane.robot.constants import direction
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.loaders import JointOrder, Root, checked_options
from featherlane.robot.loaders.assemble import FrameSpec, JointSpec, LinkSpec, assemble
from featherlane.robot.parts import Floats, Mimic, floats
from featherlane.robot.values import inertial, number, numbers, placement_of

ZERO3 = (0.0, 0.0, 0.0)


class ModelBuilder:
    """Collects links, joints and frames in any order; `build` makes the Model.

    The root link is the one link that is not the child of a joint, as in URDF. SI units, radians. A
    wrong argument raises ValueError or TypeError at once; links that do not form one tree raise
    ModelError in `build`, with the name of the link or joint.

    Arguments:
        name: the name of the robot

    Examples:
        >>> b = fl.ModelBuilder("pendulum")
        >>> b.link("base")
        >>> b.link("rod", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.01))
        >>> b.joint("swing", "revolute", "base", "rod", xyz=(0, 0, 1), axis=(0, 1, 0))
        >>> b.frame("tip", on="rod", xyz=(0, 0, -1))
        >>> b.build().gravity_torque([np.pi / 2]).round(3)
        array([4.905])
    """

    def __init__(self, name: str = "robot") -> None:
        self.name = _name(name, "name", "the robot")
        self._links: list[LinkSpec] = []
        self._joints: list[JointSpec] = []
        self._frames: list[FrameSpec] = []

    def link(
        self,
        name: str,
        *,
        mass: float = 0.0,
        com: Vector3 = ZERO3,
        inertia: ArrayLike = (ZERO3,) * 3,
    ) -> None:
        """Adds a rigid body.

        Raises ValueError or TypeError that names the link.

        Arguments:
            name: the name of the link
            mass: kg
            com: (3,), m, in the link's axes. The centre of mass
            inertia: (3, 3), or (3,) for a diagonal matrix, kg m^2, about com in the link's axes

        Examples:
            >>> b = fl.ModelBuilder("rod")
            >>> b.link("rod", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.01))
            >>> b.build(root="free").mass
            1.0
        """
        where = f"link {_name(name, 'name', 'a link')!r}"
        self._links.append(LinkSpec(name, *inertial(mass, com, inertia, where), where))

    def joint(
        self,
        name: str,
        type: str,
        parent: str,
        child: str,
        *,
        xyz: Vector3 = ZERO3,
        rpy: Vector3 | None = None,
        R: ArrayLike | None = None,
        axis: Vector3 = (0.0, 0.0, 1.0),
        axis2: Vector3 = (1.0, 0.0, 0.0),
        pitch: float = 0.0,
        mimic: str | Mimic | tuple[str, float] | tuple[str, float, float] | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        velocity: float = np.inf,
        effort: float = np.inf,
        armature: ArrayLike | None = None,
        damping: ArrayLike | None = None,
        friction: ArrayLike | None = None,
        stiffness: ArrayLike | None = None,
        spring_reference: ArrayLike | None = None,
    ) -> None:
        """Adds a joint that connects link `child` to link `parent`.

        Values except lower, upper and spring_reference must not be negative. Raises ValueError or
        TypeError that names the joint.

        Arguments:
            name: the name of the joint
            type: "fixed" or a key of JOINT_TYPES, such as "revolute"
            parent: the name of the link that carries it
            child: the name of the link that it moves
            xyz: (3,), m. The origin of the child's frame at q = 0, in the parent's
            rpy: (3,), rad. Its roll, pitch and yaw about fixed axes; None: no rotation
            R: (3, 3), without units. Its rotation; None: that of rpy
            axis: (3,), of any length, in the child's frame; for a planar joint, its normal
            axis2: (3,), of any length. The second axis of a universal joint
            pitch: m/rad, of a helical joint
            mimic: the joint that this one follows, or (joint, multiplier, offset); None: no joint
            lower: rad or m, a number, or one for each coordinate of q; None: no limit
            upper: rad or m, a number, or one for each coordinate of q; None: no limit
            velocity: largest speed, rad/s or m/s
            effort: largest joint force, N m or N
            armature: kg m^2 or kg, a number, or one for each degree of freedom; None: 0
            damping: N m s/rad or N s/m, a number, or one for each degree of freedom; None: 0
            friction: N m or N, a number, or one for each degree of freedom; None: 0
            stiffness: N m/rad or N/m, of a spring on one degree of freedom; None: no spring
            spring_reference: rad or m, where the spring is relaxed; None: 0

        Examples:
            >>> b = fl.ModelBuilder("cart")
            >>> b.link("rail")
            >>> b.link("cart", mass=2.0)
            >>> b.joint("slide", "prismatic", "rail", "cart", axis=(1, 0, 0), lower=-1, upper=1)
            >>> b.build().mass_matrix([0.0])
            array([[2.]])
        """
        where = f"joint {_name(name, 'name', 'a joint')!r}"
        if type not in (types := ("fixed", *JOINT_TYPES)):
            raise ValueError(f"type of {where} is {type!r}; {one_of(type, types)}")
        nq, nv = (JOINT_TYPES[type].nq, JOINT_TYPES[type].nv) if type != "fixed" else (0, 0)
        low, high = _each(lower, nq, "lower", where), _each(upper, nq, "upper", where)
        if any(a > b for a, b in zip(low, high, strict=False)):
            raise ValueError(f"limits of {where} are crossed: lower {lower!r}, upper {upper!r}")
        self._joints.append(
            JointSpec(
                name,
                type,
                _name(parent, "parent", where),
                _name(child, "child", where),
                placement_of(xyz, rpy, R, where),
                _direction(axis, "axis", where),
                _direction(axis2, "axis2", where),
                number(pitch, "pitch", where),
                _mimic(mimic, where),
                low,
                high,
                number(velocity, "velocity", where),
                number(effort, "effort", where),
                _each(armature, nv, "armature", where),
                _each(damping, nv, "damping", where),
                _each(friction, nv, "friction", where),
                _each(stiffness, nv, "stiffness", where),
                _each(spring_reference, nv, "spring_reference", where),
                where=where,
            )
        )

    def frame(
        self,
        name: str,
        on: str,
        *,
        xyz: Vector3 = ZERO3,
        rpy: Vector3 | None = None,
        R: ArrayLike | None = None,
    ) -> None:
        """Adds a frame to link `on`, at xyz (m) with orientation rpy or R (3, 3) in its axes.

        Arguments:
            name: the name of the frame
            on: the name of the link that carries it
            xyz: (3,), m, in the axes of the link
            rpy: (3,), rad: roll, pitch and yaw about fixed axes; None: no rotation
            R: (3, 3), without units: the rotation; None: that of rpy

        Examples:
            >>> b = fl.ModelBuilder("rod")
            >>> b.link("rod", mass=1.0, inertia=(0.1, 0.1, 0.01))
            >>> b.frame("tip", on="rod", xyz=(0, 0, -1))
            >>> b.build(root="free").frame_names
            ('rod', 'tip')
        """
        where = f"frame {_name(name, 'name', 'a frame')!r}"
        place = placement_of(xyz, rpy, R, where)
        self._frames.append(FrameSpec(name, _name(on, "on", where), place, where))

    def build(
        self,
        *,
        root: Root | None = None,
        gravity: Sequence[float] | None = None,
        mimic: str = "project",
        joint_order: JointOrder = "depth-first",
    ) -> Model:
        """Makes the Model; the builder can be used again afterwards.

        Raises ModelError for links that do not form one tree, frames on unknown links, mimic joints
        that follow each other in a circle, and joints that move no inertia.

        Arguments:
            root: the joint between the ground and the root link, as in `load`; None: "fixed"
            gravity: (3,), m/s^2, in the ground's axes; None: (0, 0, -9.81)
            mimic: "project" (joints that follow another have no entries in q and v) or "keep"
            joint_order: "depth-first", "breadth-first", "file" (as they were added), or the names
                of all moving joints; siblings are in the order in which they were added

        Examples:
            >>> b = fl.ModelBuilder("ball")
            >>> b.link("ball", mass=1.0, inertia=(0.1, 0.1, 0.1))
            >>> b.build(root="free", gravity=(0, 0, 0))
            <Model 'ball': free root, 1 bodies, nq 7, nv 6>
        """
        options = checked_options(root, gravity, mimic, joint_order)
        source = f"{self.name}, built in Python"
        parts = self._links, self._joints, self._frames
        return held(assemble(self.name, *parts, source=source, **options))


# Arguments


def _name(name: Any, what: str, where: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{what} of {where} is {name!r}; wanted a str")
    if not name.strip():
        raise ValueError(f"{what} of {where} is empty")
    return name


def _each(value: Any, count: int, what: str, where: str) -> Floats:
    """Returns `count` numbers for one number or as many, none for None."""
    if value is None:
        return ()
    return floats(np.broadcast_to(numbers(value, ((), (count,)), what, where), count))


def _direction(value: Any, what: str, where: str) -> Floats:
    along = numbers(value, ((3,),), what, where)
    largest = np.abs(along).max()
    if largest == 0:
        raise ValueError(f"{what} of {where} is zero; wanted a direction")
    return direction((along / largest).tolist())


def _mimic(value: Any, where: str) -> Mimic | None:
    if value is None:
        return None
    complaint = f"mimic of {where} is {value!r}; wanted (joint, multiplier, offset)"
    if not isinstance(value, Sequence):
        raise TypeError(complaint)
    joint_and_law = [value] if isinstance(value, str) else [*value]
    if not 1 <= len(joint_and_law) <= 3:
        raise ValueError(complaint)
    joint, *law = joint_and_law
    figures = numbers([*law, *(1.0, 0.0)[len(law) :]], ((2,),), "mimic", where)
    return Mimic(_name(joint, "mimic", where), *floats(figures))
