"""Other libraries' answers for the same robot file, in our conventions: what `check` compares with.

A peer has a method for each function that it can compute, of the function's name; each takes the
states and the frame of f_ext (None: there is none) and returns the function's blocks by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from lxml import etree

from featherlane import conventions
from featherlane.model import WORLD, Model

LIKE = 1e-10  # placements that differ by less are meant to be the same
NOT_MECHANICS = ("visual", "collision", "material", "transmission", "gazebo", "sensor", "mujoco")
MUJOCO_COMPILER = {
    "fusestatic": "false",
    "discardvisual": "false",
    "balanceinertia": "false",
    "inertiafromgeom": "false",
}

Blocks = dict[str, np.ndarray]


class States(NamedTuple):
    """Random states of a robot, (states, ...) each, float64."""

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    tau: np.ndarray
    f_ext: np.ndarray
    minv: np.ndarray


def module(name: str) -> Any:
    """A library that only comparisons need."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise RuntimeError(
            f"{name} cannot be imported ({error}): comparisons need it, "
            f"pip install 'featherlane[check]' brings it"
        ) from error


def bare(text: str | bytes) -> str:
    """A URDF without what is to be seen or touched, so that no mesh is looked for."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True)
    robot = etree.fromstring(text.encode() if isinstance(text, str) else text, parser)
    for element in list(robot.iter(*NOT_MECHANICS)):
        parent = element.getparent()
        if parent is not None:
            parent.remove(element)
    return etree.tostring(robot, encoding="unicode")


def _skew(x: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])


def computed_placement(model: Model, i: int) -> tuple[np.ndarray, np.ndarray]:
    """R, p of joint i on its parent as the algorithms have it: see `ANGLE_NOISE` in tree.py."""
    tree = model.tree

    def turn(k: int) -> np.ndarray:
        return np.eye(3) if k == WORLD else np.array(tree.turns[tree.carriers[k]].rows, float).T

    first = tree.carriers[i] + 1 - max(1, len(model.types[i].chain))
    X, above = tree.X_tree[first], turn(model.parent[i])
    own = np.array(tree.turns[first].rows, float)
    R = above @ np.array(X.E.rows, float).T @ own
    return R, above @ np.array(X.r, float)


class Pinocchio:
    """Pinocchio's Python API, state by state.

    same_angles: joints are placed as `Model` has them where that differs by the rounding of the
    file alone: "1.57079632679" is a right angle here and 5e-12 off in Pinocchio. `adjusted` tells
    how many joints that moved.
    """

    def __init__(self, text: str | bytes, model: Model, same_angles: bool = True) -> None:
        self.pin = pin = module("pinocchio")
        self.version = str(pin.__version__)
        roots = {"free": pin.JointModelFreeFlyer, "planar": pin.JointModelPlanar}
        root = [roots[model.root]()] if model.root in roots else []
        try:
            self.peer = pin.buildModelFromXML(bare(text), *root)
            self.layout = conventions.pinocchio_layout(model, self.peer)
        except (ValueError, IndexError, RuntimeError) as error:
            raise RuntimeError(f"Pinocchio does not load {model.name!r}: {error}") from error
        self.peer.gravity.linear = np.array(model.gravity)
        self.data, self.model = self.peer.createData(), model
        self.order = conventions.pinocchio_order(model, self.layout)
        self.adjusted = self._adjust() if same_angles else 0

    def _adjust(self) -> int:
        count = 0
        for i, joint in enumerate(self.layout.joints):
            there = self.peer.jointPlacements[joint]
            R, p = computed_placement(self.model, i)
            change = max(np.abs(R - there.rotation).max(), np.abs(p - there.translation).max())
            if change < LIKE:
                self.peer.jointPlacements[joint] = self.pin.SE3(R, p)
            count += int(1e-14 < change < LIKE)
        self.data = self.peer.createData()
        return count

    def _theirs(self, x: np.ndarray) -> np.ndarray:
        result = np.empty_like(x)
        result[self.order] = x
        return result

    def _matrix(self, matrix: np.ndarray) -> np.ndarray:
        return matrix[np.ix_(self.order, self.order)]

    def _symmetric(self, upper: np.ndarray) -> np.ndarray:
        full = np.triu(upper)
        return self._matrix(full + np.triu(full, 1).T)

    def _each(self, s: States) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        q = conventions.to_pinocchio(self.model, s.q, self.layout)
        for k in range(len(q)):
            yield k, q[k], self._theirs(s.v[k])

    def _wrenches(self, q: np.ndarray, f_ext: np.ndarray, frame: str | None) -> tuple[Any, ...]:
        """The last argument of Pinocchio's functions, in body axes; empty without f_ext."""
        if frame is None:
            return ()
        if frame == "world":
            self.pin.forwardKinematics(self.peer, self.data, q)
        result = [self.pin.Force.Zero() for _ in range(self.peer.njoints)]
        for i, joint in enumerate(self.layout.joints):
            R = self.data.oMi[joint].rotation.T if frame == "world" else np.eye(3)
            result[joint] = self.pin.Force(R @ f_ext[i, :3], R @ f_ext[i, 3:])
        vector = self.pin.StdVec_Force()
        vector.extend(result)
        return (vector,)

    def _world_term(self, q: np.ndarray, wrenches: tuple[Any, ...]) -> np.ndarray:
        """d(sum J^T f)/dq by the turning of f in body axes alone: Pinocchio lets it turn along."""
        self.pin.computeJointJacobians(self.peer, self.data, q)
        total = np.zeros((self.model.nv, self.model.nv))
        for joint in self.layout.joints:
            J = self.pin.getJointJacobian(self.peer, self.data, joint, self.pin.LOCAL)
            f = wrenches[0][joint]
            total += J.T @ np.vstack([_skew(f.linear) @ J[3:], _skew(f.angular) @ J[3:]])
        return total

    def inverse_dynamics(self, s: States, frame: str | None) -> Blocks:
        tau = np.empty_like(s.v)
        for k, q, v in self._each(s):
            f = self._wrenches(q, s.f_ext[k], frame)
            a = self._theirs(s.a[k])
            tau[k] = self.pin.rnea(self.peer, self.data, q, v, a, *f)[self.order]
        return {"tau": tau}

    def forward_dynamics(self, s: States, frame: str | None) -> Blocks:
        a = np.empty_like(s.v)
        for k, q, v in self._each(s):
            f = self._wrenches(q, s.f_ext[k], frame)
            tau = self._theirs(s.tau[k])
            a[k] = self.pin.aba(self.peer, self.data, q, v, tau, *f)[self.order]
        return {"a": a}

    def mass_matrix(self, s: States, frame: str | None) -> Blocks:
        crba = self.pin.crba
        M = [self._symmetric(crba(self.peer, self.data, q)) for _, q, _ in self._each(s)]
        return {"M": np.array(M)}

    def mass_matrix_inverse(self, s: States, frame: str | None) -> Blocks:
        inverse = self.pin.computeMinverse
        M = [self._symmetric(inverse(self.peer, self.data, q)) for _, q, _ in self._each(s)]
        return {"Minv": np.array(M)}

    def inverse_dynamics_derivatives(self, s: States, frame: str | None) -> Blocks:
        dq, dv = [], []
        for k, q, v in self._each(s):
            f = self._wrenches(q, s.f_ext[k], frame)
            a = self._theirs(s.a[k])
            d = self.pin.computeRNEADerivatives(self.peer, self.data, q, v, a, *f)
            dtau_dq, dtau_dv = np.array(d[0]), np.array(d[1])
            if frame == "world":
                dtau_dq -= self._world_term(q, f)
            dq.append(self._matrix(dtau_dq))
            dv.append(self._matrix(dtau_dv))
        return {"dtau_dq": np.array(dq), "dtau_dv": np.array(dv)}

    def forward_dynamics_derivatives(self, s: States, frame: str | None) -> Blocks:
        blocks: dict[str, list[np.ndarray]] = {"da_dq": [], "da_dv": [], "da_dtau": []}
        for k, q, v in self._each(s):
            f = self._wrenches(q, s.f_ext[k], frame)
            tau = self._theirs(s.tau[k])
            d = self.pin.computeABADerivatives(self.peer, self.data, q, v, tau, *f)
            da_dq, da_dv, minv = (np.array(x) for x in d)
            minv = np.triu(minv) + np.triu(minv, 1).T
            if frame == "world":
                da_dq += minv @ self._world_term(q, f)
            for block, matrix in zip(blocks.values(), (da_dq, da_dv, minv), strict=True):
                block.append(self._matrix(matrix))
        return {name: np.array(block) for name, block in blocks.items()}

    def forward_dynamics_derivatives_from(self, s: States, frame: str | None) -> Blocks:
        d = self.inverse_dynamics_derivatives(s, frame)
        return {"da_dq": -s.minv @ d["dtau_dq"], "da_dv": -s.minv @ d["dtau_dv"]}


class MuJoCo:
    """MuJoCo's Python API, state by state: it has no analytic derivatives."""

    adjusted = 0

    def __init__(self, text: str | bytes, model: Model, same_angles: bool = True) -> None:
        self.mujoco = mujoco = module("mujoco")
        self.version, self.model = str(mujoco.__version__), model
        self._refuse_other_planes()
        try:
            self.peer = self._spec(text).compile()
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise RuntimeError(f"MuJoCo does not load {model.name!r}: {reason}") from error
        self.data = mujoco.MjData(self.peer)
        self.peer.opt.gravity[:] = model.gravity
        self.peer.dof_damping[:] = 0.0
        self.peer.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        names = [self.peer.joint(j).name for j in range(self.peer.njnt)]
        order = conventions.mujoco_order
        self.q_order = order(model, names, self.peer.jnt_qposadr.tolist(), "q")
        self.v_order = order(model, names, self.peer.jnt_dofadr.tolist(), "v")
        self.bodies = [self._body(i) for i in range(model.nbodies)]

    def _refuse_other_planes(self) -> None:
        for joint in self.model.joints:
            if joint.type == "planar" and abs(joint.axis[2]) < 1.0:
                raise RuntimeError(
                    f"{joint.name!r} is planar with another normal than z: "
                    f"its x and y are not comparable with MuJoCo's"
                )

    def _spec(self, text: str | bytes) -> Any:
        robot = etree.fromstring(bare(text))
        etree.SubElement(etree.SubElement(robot, "mujoco"), "compiler", MUJOCO_COMPILER)
        spec = self.mujoco.MjSpec.from_string(etree.tostring(robot, encoding="unicode"))
        if self.model.root == "fixed":
            return spec
        base, kind = spec.worldbody.first_body(), self.mujoco.mjtJoint
        name = self.model.joints[0].name
        if self.model.root == "free":
            base.add_joint(name=name, type=kind.mjJNT_FREE)
        else:
            base.add_joint(name=f"{name}_TX", type=kind.mjJNT_SLIDE, axis=[1, 0, 0])
            base.add_joint(name=f"{name}_TY", type=kind.mjJNT_SLIDE, axis=[0, 1, 0])
            base.add_joint(name=f"{name}_RZ", type=kind.mjJNT_HINGE, axis=[0, 0, 1])
        return spec

    def _body(self, i: int) -> int:
        first = self.v_order[self.model.first_v[i]]
        return int(self.peer.dof_bodyid[first])

    def _each(self, s: States, frame: str | None) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """With the state set: its number, T, and the generalised forces of f_ext, in their v."""
        qpos = conventions.to_mujoco(self.model, s.q)
        T = conventions.mujoco_velocity_map(self.model, s.q)
        for k in range(len(s.q)):
            self.data.qpos[self.q_order] = qpos[k]
            self.data.qvel[self.v_order] = T[k] @ s.v[k]
            self.mujoco.mj_fwdPosition(self.peer, self.data)
            self.mujoco.mj_fwdVelocity(self.peer, self.data)
            yield k, T[k], self._applied(s.f_ext[k], frame)

    def _applied(self, f_ext: np.ndarray, frame: str | None) -> np.ndarray:
        total = np.zeros(self.peer.nv)
        if frame is None:
            return total
        for wrench, body in zip(f_ext, self.bodies, strict=True):
            R = self.data.xmat[body].reshape(3, 3) if frame == "body" else np.eye(3)
            force, moment, at = R @ wrench[:3], R @ wrench[3:], self.data.xpos[body]
            self.mujoco.mj_applyFT(self.peer, self.data, force, moment, at, body, total)
        return total

    def _ours(self, matrix: np.ndarray, T: np.ndarray) -> np.ndarray:
        """A matrix of forces and motions, as M and its inverse are."""
        return np.asarray(T.T @ matrix[np.ix_(self.v_order, self.v_order)] @ T)

    def inverse_dynamics(self, s: States, frame: str | None) -> Blocks:
        qacc = conventions.to_mujoco_acceleration(self.model, s.q, s.v, s.a)
        tau, result = np.empty_like(s.v), np.empty(self.peer.nv)
        for k, T, applied in self._each(s, frame):
            self.data.qacc[self.v_order] = qacc[k]
            self.mujoco.mj_rne(self.peer, self.data, 1, result)
            tau[k] = T.T @ (result - applied)[self.v_order]
        return {"tau": tau}

    def forward_dynamics(self, s: States, frame: str | None) -> Blocks:
        qacc, bias = np.empty_like(s.v), np.empty(self.peer.nv)
        x, b = np.empty((1, self.peer.nv)), np.empty((1, self.peer.nv))
        zero = np.zeros_like(s.v)
        for k, T, applied in self._each(s, frame):
            self.mujoco.mj_rne(self.peer, self.data, 0, bias)
            b[0] = applied - bias
            b[0, self.v_order] += T @ s.tau[k]
            self.mujoco.mj_solveM(self.peer, self.data, x, b)
            qacc[k] = x[0, self.v_order]
        drift = conventions.to_mujoco_acceleration(self.model, s.q, s.v, zero)
        T = conventions.mujoco_velocity_map(self.model, s.q)
        return {"a": np.einsum("kji,kj->ki", T, qacc - drift)}

    def mass_matrix(self, s: States, frame: str | None) -> Blocks:
        M, full = [], np.empty((self.peer.nv, self.peer.nv))
        for _, T, _ in self._each(s, None):
            self.mujoco.mj_fullM(self.peer, self.data, full)
            M.append(self._ours(full, T))
        return {"M": np.array(M)}

    def mass_matrix_inverse(self, s: States, frame: str | None) -> Blocks:
        M, x, one = [], np.empty((self.peer.nv, self.peer.nv)), np.eye(self.peer.nv)
        for _, T, _ in self._each(s, None):
            self.mujoco.mj_solveM(self.peer, self.data, x, one)
            M.append(self._ours(x, T))
        return {"Minv": np.array(M)}


PEERS: dict[str, type] = {"pinocchio": Pinocchio, "mujoco": MuJoCo}
