"""MuJoCo: a compiled loop over its C functions, its Python API, and its own threaded batches."""

from __future__ import annotations

import ctypes
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from featherlane import convert

from . import reduced
from .base import Arrays, Case, Peer, Prepared, Unsupported, lacks
from .native import HERE, Loop, OfLibraries, Recipe, compiler, made, shared_library

SOURCE = HERE / "mujoco_loop.cpp"
DERIVATIVES = "MuJoCo differentiates by finite differences only"
FIELDS = {  # of a State, by function: what goes in as u, what comes out
    "inverse_dynamics": ("a", "tau"),
    "forward_dynamics": ("tau", "a"),
    "mass_matrix": (None, "M"),
    "mass_matrix_inverse": (None, "da_dtau"),
}


class Robot(NamedTuple):
    """A robot in MuJoCo, fixed joints merged, without contacts and passive forces."""

    model: Any
    change: convert.Change

    @staticmethod
    def read(case: Case) -> Robot:
        from featherlane.tools.peers import MuJoCo

        peer = MuJoCo(reduced.urdf(case.model), case.model)
        return Robot(peer.peer, peer.change)

    def states(self, case: Case) -> list[np.ndarray]:
        """q, v and u in MuJoCo's layout."""
        q, v, u = case.exact()
        kind = FIELDS[case.name][0] or "a"
        there = self.change.to(q, v=v, **{kind: u})
        return [np.ascontiguousarray(x) for x in (there.q, there.v, getattr(there, kind))]

    def back(self, name: str, q: np.ndarray, v: np.ndarray, result: np.ndarray) -> Arrays:
        """A result in our conventions, from theirs at their q and v."""
        kind = FIELDS[name][1]
        here = self.change.back(q, v=v, **{kind: result})
        return (getattr(here, kind),)


def refused(case: Case) -> Unsupported | None:
    if case.name not in FIELDS:
        return Unsupported(DERIVATIVES)
    return reduced.refused(case)


class _MuJoCo(Peer):
    def missing(self) -> str | None:
        return lacks(("mujoco", "mujoco"))

    def version(self) -> str:
        return metadata.version("mujoco")


class MuJoCoLoop(OfLibraries, _MuJoCo):
    """The C functions that a result needs, in a loop of ours over the batch, split over threads."""

    name = "mujoco-c"

    def missing(self) -> str | None:
        absent = super().missing()
        if absent is None and compiler("clang++", "g++") is None:
            absent = "there is no clang++ or g++"
        if absent is None and not (folder() / "include/mujoco/mujoco.h").exists():
            absent = "this build of mujoco has no headers"
        return absent

    def recipes(self) -> list[Recipe]:
        """Of the loop."""
        at = folder()
        (library,) = at.glob("libmujoco.so*")
        flags = ["-std=c++17", "-O3", "-march=native", "-DNDEBUG", f"-I{at / 'include'}"]
        link = [str(library), f"-Wl,-rpath,{at}"]
        return [(SOURCE.read_text(), flags, link)]

    def prepare(self, case: Case) -> Prepared | Unsupported:
        if (why := refused(case)) is not None:
            return why
        robot = Robot.read(case)
        types, given = (ctypes.c_void_p, ctypes.c_int), (robot.model._address, case.threads)
        loop = Loop(
            shared_library(*self.recipes()[0])[0], lambda library: made(library, types, *given)
        )
        inputs, (output,) = robot.states(case), case.empty()

        def answers(rows: Any) -> Arrays:
            return robot.back(case.name, inputs[0][rows], inputs[1][rows], output[rows])

        passes = loop.passes(case.name, inputs, [output])
        return Prepared(passes, answers, settings="the C functions needed", release=loop.close)


def folder() -> Path:
    spec = find_spec("mujoco")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


class MuJoCoPython(_MuJoCo):
    """The same functions through the Python API, one state at a time."""

    name = "mujoco-python"

    def prepare(self, case: Case) -> Prepared | Unsupported:
        if (why := refused(case)) is not None:
            return why
        if case.threads > 1:
            return Unsupported("a Python loop holds Python's lock")
        robot = Robot.read(case)
        (q, v, u), (output,) = robot.states(case), case.empty()
        one = OneState(robot.model)
        call = getattr(one, case.name)

        def passes(count: int) -> None:
            for _ in range(count):
                for k in range(len(q)):
                    call(q[k], v[k], u[k], output[k])

        return Prepared(
            passes,
            lambda rows: robot.back(case.name, q[rows], v[rows], output[rows]),
            settings="a loop of calls of the functions needed",
        )


class OneState:
    """MuJoCo's functions on one state, which fill a row of the results."""

    def __init__(self, model: Any) -> None:
        import mujoco

        self.mj, self.m, self.d = mujoco, model, mujoco.MjData(model)
        self.bias, self.one = np.empty(model.nv), np.eye(model.nv)

    def _positions(self, q: np.ndarray) -> None:
        self.d.qpos = q
        self.mj.mj_kinematics(self.m, self.d)
        self.mj.mj_comPos(self.m, self.d)

    def _velocities(self, v: np.ndarray) -> None:
        self.d.qvel = v
        self.mj.mj_comVel(self.m, self.d)

    def _factor(self) -> None:
        self.mj.mj_makeM(self.m, self.d)
        self.mj.mj_factorM(self.m, self.d)

    def inverse_dynamics(self, q: Any, v: Any, a: Any, tau: Any) -> None:
        self._positions(q)
        self._velocities(v)
        self.d.qacc = a
        self.mj.mj_rne(self.m, self.d, 1, tau)

    def forward_dynamics(self, q: Any, v: Any, tau: Any, a: Any) -> None:
        self._positions(q)
        self._factor()
        self._velocities(v)
        self.mj.mj_rne(self.m, self.d, 0, self.bias)
        self.mj.mj_solveM(self.m, self.d, a[None], (tau - self.bias)[None])

    def mass_matrix(self, q: Any, v: Any, u: Any, M: Any) -> None:
        self._positions(q)
        self.mj.mj_makeM(self.m, self.d)
        self.mj.mj_fullM(self.m, self.d, M)

    def mass_matrix_inverse(self, q: Any, v: Any, u: Any, Minv: Any) -> None:
        self._positions(q)
        self._factor()
        self.mj.mj_solveM(self.m, self.d, Minv, self.one)


class MuJoCoBatch(_MuJoCo):
    """`mujoco.batch.Batch`: MuJoCo's own threads over simulations (`rollout` before 4.0)."""

    name = "mujoco-batch"

    def missing(self) -> str | None:
        absent = super().missing()
        if absent is None and find_spec("mujoco.batch") is None:
            absent = "this version of mujoco has no batches: pip install 'mujoco>=4'"
        return absent

    def prepare(self, case: Case) -> Prepared | Unsupported:
        if (why := refused(case)) is not None:
            return why
        if case.name != "forward_dynamics":
            return Unsupported("its batches run forward(), which gives accelerations")
        import mujoco
        from mujoco.batch import Batch

        robot = Robot.read(case)
        q, v, tau = robot.states(case)
        robot.model.opt.disableflags |= without(mujoco.mjtDisableBit)
        batch = Batch(robot.model, nsim=case.batch, nthread=case.threads)
        batch.bind("qpos")[:], batch.bind("qvel")[:] = q, v
        batch.bind("qfrc_applied")[:] = tau
        qacc = batch.bind("qacc")

        def passes(count: int) -> None:
            for _ in range(count):
                batch.forward()

        return Prepared(
            passes,
            lambda rows: robot.back(case.name, q[rows], v[rows], np.array(qacc)[rows]),
            settings="forward() with constraints disabled, its own threads",
        )


def without(bit: Any) -> int:
    """What is not part of the equation of motion."""
    names = ("CONTACT", "CONSTRAINT", "SPRING", "DAMPER", "ACTUATION", "SENSOR", "FRICTIONLOSS")
    return sum(int(getattr(bit, f"mjDSBL_{name}", 0)) for name in names)
