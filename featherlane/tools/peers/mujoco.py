"""MuJoCo as a peer, through its Python API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from lxml import etree

from featherlane.api import convert
from featherlane.robot.model import Robot
from featherlane.tools.peers.common import DYNAMICS, Blocks, States, bare, is_mjcf, module

SWITCHED_OFF = "fusestatic", "discardvisual", "balanceinertia", "inertiafromgeom"


class MuJoCo:
    """MuJoCo, called state by state; it has no analytic derivatives.

    A URDF gets the root joint of the model. An MJCF file is read from `path`, if there is one, and
    its joints are in the model's order.
    """

    functions = DYNAMICS
    adjusted = 0

    def __init__(
        self, text: str | bytes, model: Robot, same_angles: bool = True, path: str | None = None
    ) -> None:
        self.mujoco = mujoco = module("mujoco")
        self.version, self.model = str(mujoco.__version__), model
        self.warnings: list[str] = []  # which MuJoCo would write to stderr and into a file
        mujoco.set_mju_user_warning(self.warnings.append)
        mjcf = is_mjcf(text)
        try:
            self.peer = self._mjcf(text, path) if mjcf else self._urdf(text).compile()
            self.change = convert.mujoco(model, None if mjcf else self.peer)
            if self.peer.nv != model.nv:
                hint = ": an MJCF file is compared with the root that it has" if mjcf else ""
                raise ValueError(f"nv is {self.peer.nv} there and {model.nv} here{hint}")
        except (ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise RuntimeError(f"MuJoCo does not load {model.name!r}: {reason}") from error
        self.data = mujoco.MjData(self.peer)
        self.peer.opt.gravity[:] = model.gravity
        self.peer.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        self.joints = [self._joint(i) for i in range(model.nbodies)]

    def _mjcf(self, text: str | bytes, path: str | None) -> Any:
        if path is not None:
            return self.mujoco.MjModel.from_xml_path(path)
        return self.mujoco.MjModel.from_xml_string(text if isinstance(text, str) else text.decode())

    def _urdf(self, text: str | bytes) -> Any:
        self._refuse_other_planes()
        robot = etree.fromstring(bare(text))
        options = dict.fromkeys(SWITCHED_OFF, "false")
        etree.SubElement(etree.SubElement(robot, "mujoco"), "compiler", options)
        spec = self.mujoco.MjSpec.from_string(etree.tostring(robot, encoding="unicode"))
        if self.model.root == "fixed":
            return spec
        base, kind = spec.worldbody.first_body(), self.mujoco.mjtJoint
        name = self.model.joints[0].name
        if self.model.root == "free":
            base.add_joint(name=name, type=kind.mjJNT_FREE)
        elif self.model.root == "planar":
            base.add_joint(name=f"{name}_TX", type=kind.mjJNT_SLIDE, axis=[1, 0, 0])
            base.add_joint(name=f"{name}_TY", type=kind.mjJNT_SLIDE, axis=[0, 1, 0])
            base.add_joint(name=f"{name}_RZ", type=kind.mjJNT_HINGE, axis=[0, 0, 1])
        else:
            raise ValueError(f"root is {self.model.root!r}: wanted fixed, free or planar")
        return spec

    def _refuse_other_planes(self) -> None:
        for joint in self.model.joints:
            if joint.type == "planar" and abs(joint.axis[2]) < 1.0:
                normal = f"{joint.name!r} is planar with another normal than z"
                raise ValueError(f"{normal}: its x and y are not comparable with MuJoCo's")

    def _joint(self, i: int) -> int | None:
        """Returns MuJoCo's last joint of our joint i; None where more joints move that body."""
        dofs, order = self.model.dofs[i], self.change.order
        joint = int(self.peer.dof_jntid[max(order[k] for k in dofs)])
        body = self.peer.jnt_bodyid[joint]
        last = self.peer.body_jntadr[body] + self.peer.body_jntnum[body] - 1
        return joint if joint == last else None

    @property
    def unloaded(self) -> list[int]:
        """The bodies between joints in series: MuJoCo does not have them, so they bear no f_ext."""
        return [i for i, joint in enumerate(self.joints) if joint is None]

    def _each(self, there: convert.State, s: States, frame: str | None) -> Iterator[Any]:
        """Sets one state after another; yields its number and the generalised forces of f_ext."""
        for k in range(len(s.q)):
            self.data.qpos = there.q[k]
            self.data.qvel = 0.0 if there.v is None else there.v[k]
            self.mujoco.mj_fwdPosition(self.peer, self.data)
            self.mujoco.mj_fwdVelocity(self.peer, self.data)
            yield k, self._applied(s.f_ext[k], frame)

    def _applied(self, f_ext: np.ndarray, frame: str | None) -> np.ndarray:
        total = np.zeros(self.peer.nv)
        if frame is None:
            return total
        for wrench, joint in zip(f_ext, self.joints, strict=True):
            if joint is None:
                continue
            body = self.peer.jnt_bodyid[joint]
            axes = self.data.xmat[body].reshape(3, 3)
            at = self.data.xpos[body] + axes @ self._anchor(joint)
            R = axes if frame == "body" else np.eye(3)
            force, moment = R @ wrench[:3], R @ wrench[3:]
            self.mujoco.mj_applyFT(self.peer, self.data, force, moment, at, body, total)
        return total

    def _anchor(self, joint: int) -> np.ndarray:
        """Returns our body's origin in MuJoCo's body: the anchor of a joint that rotates."""
        kinds = self.mujoco.mjtJoint
        turns = self.peer.jnt_type[joint] in (int(kinds.mjJNT_BALL), int(kinds.mjJNT_HINGE))
        return np.asarray(self.peer.jnt_pos[joint] * turns)

    def inverse_dynamics(self, s: States, frame: str | None) -> Blocks:
        there = self.change.to(s.q, v=s.v, a=s.a)
        armature = self.peer.dof_armature * there.a
        tau, result = np.empty_like(s.v), np.empty(self.peer.nv)
        for k, applied in self._each(there, s, frame):
            self.data.qacc = there.a[k]
            self.mujoco.mj_rne(self.peer, self.data, 1, result)
            tau[k] = result - applied + armature[k]
        return {"tau": self.change.back(there.q, tau=tau).tau}

    def forward_dynamics(self, s: States, frame: str | None) -> Blocks:
        there = self.change.to(s.q, v=s.v, tau=s.tau)
        qacc, bias = np.empty_like(s.v), np.empty(self.peer.nv)
        x = np.empty((1, self.peer.nv))
        for k, applied in self._each(there, s, frame):
            self.mujoco.mj_rne(self.peer, self.data, 0, bias)
            self.mujoco.mj_solveM(self.peer, self.data, x, (there.tau[k] + applied - bias)[None])
            qacc[k] = x[0]
        return {"a": self.change.back(there.q, v=there.v, a=qacc).a}

    def mass_matrix(self, s: States, frame: str | None) -> Blocks:
        there, M = self.change.to(s.q), np.empty((len(s.q), self.peer.nv, self.peer.nv))
        for k, _ in self._each(there, s, None):
            self.mujoco.mj_fullM(self.peer, self.data, M[k])
        return {"M": self.change.back(there.q, M=M).M}

    def mass_matrix_inverse(self, s: States, frame: str | None) -> Blocks:
        there, minv = self.change.to(s.q), np.empty((len(s.q), self.peer.nv, self.peer.nv))
        one = np.eye(self.peer.nv)
        for k, _ in self._each(there, s, None):
            self.mujoco.mj_solveM(self.peer, self.data, minv[k], one)
        return {"Minv": self.change.back(there.q, da_dtau=minv).da_dtau}
