"""Pinocchio as a peer, through its Python API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from featherlane.api import convert
from featherlane.functions.table import FUNCTIONS
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import skew
from featherlane.robot.tree_of import tree_of
from featherlane.tools.peers.common import Blocks, States, bare, is_mjcf, module

ROUNDING = 1e-10  # placements that differ by less do so by the rounding of the file


def computed_placement(model: Robot, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns R, p of joint i on its parent as the algorithms have it (`tree.ANGLE_NOISE`)."""
    tree = tree_of(model)

    def turn(k: int) -> np.ndarray:
        return np.eye(3) if k == WORLD else np.array(tree.turns[tree.carriers[k]].rows, float).T

    first = tree.carriers[i] + 1 - max(1, len(model.types[i].chain))
    X, parent_turn = tree.X_tree[first], turn(model.parent[i])
    R = parent_turn @ np.array(X.E.rows, float).T @ np.array(tree.turns[first].rows, float)
    return R, parent_turn @ np.array(X.r, float)


class Pinocchio:
    """Pinocchio, called state by state.

    same_angles: Pinocchio's joints get the placements of the algorithms where these differ by the
    rounding of the file alone: "1.57079632679" is a right angle here and 5e-12 off in Pinocchio.
    `adjusted` is the number of joints that this moved.
    """

    functions = tuple(FUNCTIONS)
    unloaded: tuple[int, ...] = ()  # bodies on which no f_ext can act

    def __init__(
        self, text: str | bytes, model: Robot, same_angles: bool = True, path: str | None = None
    ) -> None:
        self.pin = pin = module("pinocchio")
        self.version = str(pin.__version__)
        if is_mjcf(text):
            raise RuntimeError(f"{model.name!r} is MJCF: compare it with MuJoCo")
        try:
            self.peer = pin.buildModelFromXML(bare(text), *self._root(model.root))
            self.change = convert.pinocchio(model, self.peer)
        except (ValueError, IndexError, RuntimeError) as error:
            raise RuntimeError(f"Pinocchio does not load {model.name!r}: {error}") from error
        self.peer.gravity.linear = np.array(model.gravity)
        self.joints = [self.peer.getJointId(name) for name in model.joint_names]
        self.model, self.order = model, self.change.order
        self.peer.armature = self._theirs(model.armature)
        self.adjusted = self._adjust() if same_angles else 0
        self.data = self.peer.createData()

    def _root(self, root: str) -> list[Any]:
        known = {
            "free": self.pin.JointModelFreeFlyer,
            "planar": self.pin.JointModelPlanar,
            "spherical": self.pin.JointModelSpherical,
            "translation": self.pin.JointModelTranslation,
        }
        if root != "fixed" and root not in known:
            raise ValueError(f"root is {root!r}: wanted fixed, {', '.join(known)}")
        return [known[root]()] if root in known else []

    def _adjust(self) -> int:
        count = 0
        for i, joint in enumerate(self.joints):
            there = self.peer.jointPlacements[joint]
            R, p = computed_placement(self.model, i)
            change = max(np.abs(R - there.rotation).max(), np.abs(p - there.translation).max())
            if change < ROUNDING:
                self.peer.jointPlacements[joint] = self.pin.SE3(R, p)
            count += int(1e-14 < change < ROUNDING)
        return count

    def _theirs(self, x: np.ndarray) -> np.ndarray:
        result = np.empty_like(x)
        result[self.order] = x
        return result

    def _square(self, matrix: Any) -> np.ndarray:
        """Returns a matrix (nv, nv) of Pinocchio's; one column arrives as a vector."""
        return np.array(matrix).reshape(self.model.nv, self.model.nv)

    def _matrix(self, matrix: np.ndarray) -> np.ndarray:
        return matrix[np.ix_(self.order, self.order)]

    def _symmetric(self, upper: Any) -> np.ndarray:
        full = np.triu(self._square(upper))
        return self._matrix(full + np.triu(full, 1).T)

    def _each(self, s: States, x: np.ndarray, frame: str | None) -> Iterator[tuple[Any, ...]]:
        """Yields the arguments of Pinocchio's functions for each state: q, v, x (accelerations or
        torques), and the wrenches, unless `frame` is None.
        """
        for q, *vectors, f_ext in zip(self.change.to_q(s.q), s.v, x, s.f_ext, strict=True):
            yield q, *map(self._theirs, vectors), *self._wrenches(q, f_ext, frame)

    def _wrenches(self, q: np.ndarray, f_ext: np.ndarray, frame: str | None) -> tuple[Any, ...]:
        """Returns the last argument of Pinocchio's functions, in body axes; () without f_ext."""
        if frame is None:
            return ()
        if frame == "world":
            self.pin.forwardKinematics(self.peer, self.data, q)
        vector = self.pin.StdVec_Force()
        vector.extend([self.pin.Force.Zero() for _ in range(self.peer.njoints)])
        for joint, wrench in zip(self.joints, f_ext, strict=True):
            R = self.data.oMi[joint].rotation.T if frame == "world" else np.eye(3)
            vector[joint] = self.pin.Force(R @ wrench[:3], R @ wrench[3:])
        return (vector,)

    def _world_term(self, q: np.ndarray, wrenches: list[Any]) -> np.ndarray:
        """Returns the part of d(sum J^T f)/dq by which f in world axes turns in body axes.

        Pinocchio's derivatives are those of wrenches that turn with their bodies.
        """
        self.pin.computeJointJacobians(self.peer, self.data, q)
        total = np.zeros((self.model.nv, self.model.nv))
        for joint in self.joints:
            J = self.pin.getJointJacobian(self.peer, self.data, joint, self.pin.LOCAL)
            J = np.reshape(J, (6, self.model.nv))
            f = wrenches[0][joint]
            total += J.T @ np.vstack([np.array(skew(x)) @ J[3:] for x in (f.linear, f.angular)])
        return total

    def _vectors(self, function: Any, s: States, x: np.ndarray, frame: str | None) -> np.ndarray:
        """Calls rnea with accelerations x, or aba with torques x."""
        each = self._each(s, x, frame)
        return np.array([function(self.peer, self.data, *state)[self.order] for state in each])

    def inverse_dynamics(self, s: States, frame: str | None) -> Blocks:
        return {"tau": self._vectors(self.pin.rnea, s, s.a, frame)}

    def forward_dynamics(self, s: States, frame: str | None) -> Blocks:
        return {"a": self._vectors(self.pin.aba, s, s.tau, frame)}

    def _matrices(self, function: Any, s: States) -> np.ndarray:
        each = self.change.to_q(s.q)
        return np.array([self._symmetric(function(self.peer, self.data, q)) for q in each])

    def mass_matrix(self, s: States, frame: str | None) -> Blocks:
        return {"M": self._matrices(self.pin.crba, s)}

    def mass_matrix_inverse(self, s: States, frame: str | None) -> Blocks:
        return {"Minv": self._matrices(self.pin.computeMinverse, s)}

    def inverse_dynamics_derivatives(self, s: States, frame: str | None) -> Blocks:
        dq, dv = [], []
        for q, v, a, *f in self._each(s, s.a, frame):
            d = self.pin.computeRNEADerivatives(self.peer, self.data, q, v, a, *f)
            dtau_dq, dtau_dv = self._square(d[0]), self._square(d[1])
            if frame == "world":
                dtau_dq -= self._world_term(q, f)
            dq.append(self._matrix(dtau_dq))
            dv.append(self._matrix(dtau_dv))
        return {"dtau_dq": np.array(dq), "dtau_dv": np.array(dv)}

    def forward_dynamics_derivatives(self, s: States, frame: str | None) -> Blocks:
        blocks: dict[str, list[np.ndarray]] = {"da_dq": [], "da_dv": [], "da_dtau": []}
        for q, v, tau, *f in self._each(s, s.tau, frame):
            d = self.pin.computeABADerivatives(self.peer, self.data, q, v, tau, *f)
            da_dq, da_dv, minv = map(self._square, d)
            minv = np.triu(minv) + np.triu(minv, 1).T
            if frame == "world":
                da_dq += minv @ self._world_term(q, f)
            for block, matrix in zip(blocks.values(), (da_dq, da_dv, minv), strict=True):
                block.append(self._matrix(matrix))
        return {name: np.array(block) for name, block in blocks.items()}

    def forward_dynamics_derivatives_from(self, s: States, frame: str | None) -> Blocks:
        d = self.inverse_dynamics_derivatives(s, frame)
        return {"da_dq": -s.minv @ d["dtau_dq"], "da_dv": -s.minv @ d["dtau_dv"]}
