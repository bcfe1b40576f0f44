"""Conversion to and from the conventions of other libraries. The libraries need not be installed.

    there = fl.convert.to_mujoco(model, q, v, a, tau, M=M)      # there.q, there.v ...
    here = fl.convert.from_mujoco(model, data.qpos, data.qvel)

Arrays have any leading dimensions. A mimic joint has no coordinates on either side.
docs/conventions.md shows all conventions on one page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from featherlane.api.convert import forms
from featherlane.api.convert.change import Change, State
from featherlane.api.convert.layout import JointNames, lay_out
from featherlane.functions.array_like import ArrayLike
from featherlane.robot.loaders.words import all_named
from featherlane.robot.model import Robot

__all__ = [
    "Change",
    "State",
    "drake",
    "from_drake",
    "from_isaac",
    "from_isaac_link",
    "from_mujoco",
    "from_pinocchio",
    "from_rbdl",
    "isaac",
    "isaac_link",
    "mujoco",
    "pinocchio",
    "rbdl",
    "to_drake",
    "to_isaac",
    "to_isaac_link",
    "to_mujoco",
    "to_pinocchio",
    "to_rbdl",
]


def __dir__() -> list[str]:
    return __all__


MJ_FREE = 0  # mjtJoint
PIN_FREE = "JointModelFreeFlyer"


def mujoco(model: Robot, peer: Any = None) -> Change:
    """MuJoCo: quaternions are w x y z; a free joint's linear velocity is in the world's axes.

    A planar joint J is the slides J_TX and J_TY and the hinge J_RZ, as MuJoCo's URDF reader makes
    them; other types with several degrees of freedom are slides and hinges in featherlane's order.
    In an MjModel, the only free joint on the ground may have another name. Raises ValueError for
    joints that only one of the two models has.

    Arguments:
        model: the robot
        peer: the MjModel, whose unnamed joints are named by number as in `load`, or the names of
            its joints in order; None: joints are in featherlane's order

    Examples:
        >>> free = fl.load("double_pendulum", root="free")
        >>> fl.convert.mujoco(free).to_q(free.neutral())
        array([0., 0., 0., 1., 0., 0., 0., 0., 0.])
    """
    if not hasattr(peer, "njnt"):
        return lay_out(model, forms.MUJOCO, peer)
    names = all_named("joint", [peer.joint(j).name for j in range(peer.njnt)])
    free = [name for name, kind in zip(names, peer.jnt_type, strict=True) if kind == MJ_FREE]
    return lay_out(model, forms.MUJOCO, names, free=free)


def drake(model: Robot, peer: JointNames = None) -> Change:
    """Drake: a free joint has q = [quaternion w x y z; position] and v = [angular; linear], both
    in the world's axes; a spherical joint is a BallRpyJoint.

    Arguments:
        model: the robot
        peer: the names of its joints in order, of which a free joint may be missing, which comes
            first; None: joints are in featherlane's order

    Examples:
        >>> free = fl.load("double_pendulum", root="free")
        >>> fl.convert.drake(free).to_q(free.neutral())
        array([1., 0., 0., 0., 0., 0., 0., 0., 0.])
    """
    return lay_out(model, forms.DRAKE, peer)


def isaac(model: Robot, peer: JointNames = None) -> Change:
    """Isaac Lab's `root_state_w` or PhysX's root velocities, followed by the joints: q begins with
    the pose of the root link, whose quaternion is w x y z (as up to version 2 of Isaac Lab). v
    begins with [linear; angular] in the world's axes, and the linear velocity is that of the root
    link's centre of mass.

    Arguments:
        model: the robot
        peer: `robot.joint_names`; None: joints are in breadth-first order

    Examples:
        >>> free = fl.load("double_pendulum", root="free")
        >>> fl.convert.isaac(free).to_q(free.neutral())
        array([0., 0., 0., 1., 0., 0., 0., 0., 0.])
    """
    return lay_out(model, forms.ISAAC, peer)


def isaac_link(model: Robot, peer: JointNames = None) -> Change:
    """Isaac Lab's `root_link_state_w`: as `isaac`, with the velocity of the root link's origin.

    Arguments:
        model: the robot
        peer: `robot.joint_names`; None: joints are in breadth-first order

    Examples:
        >>> free = fl.load("double_pendulum", root="free")
        >>> fl.convert.isaac_link(free).to(free.neutral(), v=np.zeros(8)).v.shape
        (8,)
    """
    return lay_out(model, forms.ISAAC_LINK, peer)


def rbdl(model: Robot, peer: JointNames = None) -> Change:
    """RBDL: a free joint is a translation and a spherical joint, so its linear velocity is in the
    world's axes; the w entries of all quaternions are at the end of q.

    Arguments:
        model: the robot
        peer: names of the joints in the order in which they were added; None: featherlane's order

    Examples:
        >>> free = fl.load("double_pendulum", root="free")
        >>> fl.convert.rbdl(free).to_q(free.neutral())
        array([0., 0., 0., 0., 0., 0., 0., 0., 1.])
    """
    return lay_out(model, forms.RBDL, peer)


def pinocchio(model: Robot, peer: Any = None) -> Change:
    """Pinocchio: angles of continuous and planar joints are (cos, sin) in q; the rest is the same.

    Joints are matched by name, except for the only free joint on the ground. Raises ValueError for
    joints that only one of the two models has.

    Arguments:
        model: the robot
        peer: the pinocchio.Model; None: joints are in featherlane's order, which is that of
            Pinocchio's loader, and revolute joints without limits are continuous

    Examples:
        >>> fl.convert.pinocchio(arm).nq
        2
    """
    if peer is None:
        unlimited = {j.name for j in model.joints if not j.lower or j.lower[0] == -float("inf")}
        return lay_out(model, forms.PINOCCHIO, None, unlimited)
    if not hasattr(peer, "nqs"):
        raise TypeError(f"peer is {peer!r}: wanted a pinocchio.Model")
    sizes = zip(peer.names, peer.nqs, peer.nvs, strict=True)
    moving = [(name, nq) for name, nq, nv in sizes if nv]  # neither the universe nor mimic joints
    continuous = {name for name, nq in moving if nq == forms.CONTINUOUS.nq}
    joints = zip(peer.names, peer.joints, strict=True)
    free = [name for name, joint in joints if joint.shortname() == PIN_FREE]
    return lay_out(model, forms.PINOCCHIO, [name for name, _ in moving], continuous, free)


# The functions of every library

TITLES = {
    "to": "Converts our arrays to another library's convention.",
    "back": "Converts another library's arrays to our convention.",
}
RETURNS = """Derivatives wrt q are taken along the other library's v, with its v, a and tau held
    constant; they need the state and the other derivatives as well. Returns a State.

"""
STATE = """    Arguments:
        model: the robot
        q: (..., nq), rad or m. The configuration
        v: (..., nv), rad/s or m/s. The velocity; None: not converted
        a: (..., nv), rad/s^2 or m/s^2. The acceleration; None: not converted
        tau: (..., nv), N m or N. The joint forces; None: not converted
"""
MATRICES = (
    "        matrices: (..., nv, nv) by name: M, dtau_dq, dtau_dv, da_dq, da_dv and da_dtau\n"
)


class Conversion(Protocol):
    """A function that converts a state to or from a library's convention."""

    def __call__(
        self,
        model: Robot,
        q: ArrayLike,
        v: ArrayLike | None = None,
        a: ArrayLike | None = None,
        tau: ArrayLike | None = None,
        *,
        peer: Any = None,
        **matrices: ArrayLike | None,
    ) -> State: ...


def _with_state(make: Callable[..., Change]) -> str:
    """The docstring of a library's convention with the arguments of the functions that convert."""
    text, _, peer = str(make.__doc__).partition("    Arguments:\n        model: the robot\n")
    peer, examples, rest = peer.partition("\n    Examples:")
    return f"{text}{STATE}{peer}{MATRICES}{examples}{rest}"


def _pair(make: Callable[..., Change]) -> tuple[Conversion, Conversion]:
    """Returns the functions that convert to and from a library's convention."""

    def in_direction(direction: str) -> Conversion:
        def convert(
            model: Robot,
            q: Any,
            v: Any = None,
            a: Any = None,
            tau: Any = None,
            *,
            peer: Any = None,
            **matrices: Any,
        ) -> State:
            return getattr(make(model, peer), direction)(q, v=v, a=a, tau=tau, **matrices)

        convert.__name__ = f"{'from' if direction == 'back' else 'to'}_{make.__name__}"
        convert.__doc__ = f"{TITLES[direction]}\n\n    {RETURNS}    {_with_state(make)}"
        return convert

    return in_direction("to"), in_direction("back")


to_mujoco, from_mujoco = _pair(mujoco)
to_drake, from_drake = _pair(drake)
to_isaac, from_isaac = _pair(isaac)
to_isaac_link, from_isaac_link = _pair(isaac_link)
to_rbdl, from_rbdl = _pair(rbdl)
to_pinocchio, from_pinocchio = _pair(pinocchio)
