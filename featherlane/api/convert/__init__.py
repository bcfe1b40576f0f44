"""To and from the conventions of other libraries, by formula; none of them is needed for it.

    there = fl.convert.to_mujoco(model, q, v, a, tau, M=M)      # there.q, there.v ...
    here = fl.convert.from_mujoco(model, data.qpos, data.qvel)

Arrays have any leading dimensions. What each library does differently is the table in `forms`; a
mimic joint has no coordinates, here or there. docs/conventions.md shows it all on one page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from featherlane.api.convert.change import Change, State
from featherlane.api.convert.forms import (
    CONTINUOUS,
    DRAKE,
    ISAAC,
    ISAAC_LINK,
    MUJOCO,
    PINOCCHIO,
    RBDL,
)
from featherlane.api.convert.layout import Names, lay_out
from featherlane.robot.loaders.words import all_named
from featherlane.robot.model import Model

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

MJ_FREE = 0  # mjtJoint
PIN_FREE = "JointModelFreeFlyer"


def mujoco(model: Model, peer: Any = None) -> Change:
    """MuJoCo: quaternions are w x y z; a free joint's linear velocity is in the world's axes.

    A planar joint J is the slides J_TX and J_TY and the hinge J_RZ, as MuJoCo's reader of URDF
    makes of it; other types of several degrees of freedom are slides and hinges in our order. peer:
    the MjModel, whose joints without a name are numbered as `load` does, or the names of its joints
    in order; without it the joints are in our order. The one free joint on the ground may have
    another name in an MjModel. Raises ValueError for joints that only one of them has.
    """
    if not hasattr(peer, "njnt"):
        return lay_out(model, MUJOCO, peer)
    names = all_named("joint", [peer.joint(j).name for j in range(peer.njnt)])
    free = [name for name, kind in zip(names, peer.jnt_type, strict=True) if kind == MJ_FREE]
    return lay_out(model, MUJOCO, names, free=free)


def drake(model: Model, peer: Names = None) -> Change:
    """Drake: a free joint has q = [quaternion w x y z; position] and v = [angular; linear], both
    in the world's axes; a spherical joint is a BallRpyJoint.

    peer: the names of its joints in order; a free joint that it does not name comes first.
    """
    return lay_out(model, DRAKE, peer)


def isaac(model: Model, peer: Names = None) -> Change:
    """Isaac Lab's `root_state_w` and PhysX's root velocities, then the joints: q is the pose of the
    root link, with the quaternion w x y z as up to version 2; v = [linear; angular] in the world's
    axes, and the linear velocity that of the root link's centre of mass.

    peer: `robot.joint_names`; without them joints are in breadth-first order.
    """
    return lay_out(model, ISAAC, peer)


def isaac_link(model: Model, peer: Names = None) -> Change:
    """As `isaac`, with the linear velocity of the root link's origin: Isaac Lab's
    `root_link_state_w`.
    """
    return lay_out(model, ISAAC_LINK, peer)


def rbdl(model: Model, peer: Names = None) -> Change:
    """RBDL: a free joint is a translation and a spherical joint, so that its linear velocity is in
    the world's axes; the w of all quaternions are at the end of q. peer: the names of
    the joints in the order in which they were added.
    """
    return lay_out(model, RBDL, peer)


def pinocchio(model: Model, peer: Any = None) -> Change:
    """Pinocchio: the turns of continuous and planar joints are (cos, sin) in q, all else is as
    here.

    peer: its pinocchio.Model, whose joints are found by name, but for the one free joint on the
    ground. Without one, joints are taken to be in our order, as both loaders make them, and a turn
    without limits to be continuous. Raises ValueError for joints that only one of them has.
    """
    if peer is None:
        turning = {j.name for j in model.joints if not j.lower or j.lower[0] == -float("inf")}
        return lay_out(model, PINOCCHIO, None, turning)
    if not hasattr(peer, "nqs"):
        raise TypeError(f"peer is {peer!r}: wanted a pinocchio.Model")
    sizes = zip(peer.names, peer.nqs, peer.nvs, strict=True)
    own = [(name, nq) for name, nq, nv in sizes if nv]  # all but the universe and mimic joints
    turning = {name for name, nq in own if nq == CONTINUOUS.nq}
    joints = zip(peer.names, peer.joints, strict=True)
    free = [name for name, joint in joints if joint.shortname() == PIN_FREE]
    return lay_out(model, PINOCCHIO, [name for name, _ in own], turning, free)


# The functions of every library

TOLD = """Derivatives by q go along the other library's v, with its v, a and tau held constant; they
need the state and the derivatives beside them. Returns a State of what was given.

"""


def _pair(make: Callable[..., Change]) -> tuple[Callable[..., State], Callable[..., State]]:
    def to(
        model: Model,
        q: Any,
        v: Any = None,
        a: Any = None,
        tau: Any = None,
        *,
        peer: Any = None,
        **matrices: Any,
    ) -> State:
        return make(model, peer).to(q, v=v, a=a, tau=tau, **matrices)

    def back(
        model: Model,
        q: Any,
        v: Any = None,
        a: Any = None,
        tau: Any = None,
        *,
        peer: Any = None,
        **matrices: Any,
    ) -> State:
        return make(model, peer).back(q, v=v, a=a, tau=tau, **matrices)

    to.__name__, back.__name__ = f"to_{make.__name__}", f"from_{make.__name__}"
    to.__doc__ = f"Our figures in another library's convention. {TOLD}{make.__doc__}"
    back.__doc__ = f"Another library's figures in our convention. {TOLD}{make.__doc__}"
    return to, back


to_mujoco, from_mujoco = _pair(mujoco)
to_drake, from_drake = _pair(drake)
to_isaac, from_isaac = _pair(isaac)
to_isaac_link, from_isaac_link = _pair(isaac_link)
to_rbdl, from_rbdl = _pair(rbdl)
to_pinocchio, from_pinocchio = _pair(pinocchio)
