"""Links, joints and frames as files and the builder name them, before they are assembled."""

from __future__ import annotations

from dataclasses import dataclass

from featherlane.robot.parts import IDENTITY, NO_MOMENT, Floats, Mimic, Placement, Rows3
from featherlane.robot.row_softness import DEFAULT_SOFTNESS, RowSoftness

INF = float("inf")
EARTH_GRAVITY = (0.0, 0.0, -9.81)  # m/s^2


@dataclass(frozen=True)
class LinkSpec:
    """A link with its inertia in the link's frame; `where` begins error messages about it."""

    name: str
    mass: float = 0.0  # kg
    com: Floats = (0.0, 0.0, 0.0)  # m
    inertia: Rows3 = NO_MOMENT  # kg m^2, about com, in the link's axes
    where: str = ""


@dataclass(frozen=True)
class FrameSpec:
    """A frame besides those of links; `placement` is on the link."""

    name: str
    link: str
    placement: Placement = IDENTITY
    where: str = ""


@dataclass(frozen=True)
class JointSpec:
    """A joint between the links named by `parent` and `child`."""

    name: str
    type: str  # "fixed", or a key of JOINT_TYPES
    parent: str
    child: str
    placement: Placement = IDENTITY  # of the child's frame, at q = 0, in the parent's
    axis: Floats = (0.0, 0.0, 1.0)
    axis2: Floats = (1.0, 0.0, 0.0)
    pitch: float = 0.0
    mimic: Mimic | None = None
    lower: Floats = ()  # per coordinate of q; empty: unlimited
    upper: Floats = ()
    velocity: float = INF
    effort: float = INF
    armature: Floats = ()  # per degree of freedom; empty: none
    damping: Floats = ()
    friction: Floats = ()
    stiffness: Floats = ()
    spring_reference: Floats = ()
    limit_softness: RowSoftness = DEFAULT_SOFTNESS
    friction_softness: RowSoftness = DEFAULT_SOFTNESS
    where: str = ""
