"""dynibo: functions of one state in Rust, called from Python, results written to arrays."""

from __future__ import annotations

import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from featherlane.api.model import Model

from . import reduced
from .base import Arrays, Case, Peer, Prepared, Unsupported, lacks

CALLS = ("inverse_dynamics", "forward_dynamics", "mass_matrix")
GRAVITY = 9.80665  # m/s^2, which cannot be set


class Dynibo(Peer):
    """Its Python API, one state at a time."""

    name = "dynibo"

    def missing(self) -> str | None:
        return lacks(("dynibo", "dynibo"))

    def version(self) -> str:
        return metadata.version("dynibo")

    def prepare(self, case: Case) -> Prepared | Unsupported:
        if case.name not in CALLS:
            return Unsupported("it has inverse and forward dynamics and the mass matrix only")
        if case.threads > 1:
            return Unsupported("its calls hold Python's lock")
        if case.model.root != "fixed":
            return Unsupported("its free roots take their velocity in another call")
        if (why := reduced.refused(case)) is not None:
            return why
        robot = OrderedRobot(case.model)
        states = robot.states(case)
        (result,) = case.empty()
        rows = list(result.reshape(case.batch, -1))
        arguments = list(zip(*states, strict=True))
        call = getattr(robot.robot, case.name)

        def passes(count: int) -> None:
            for _ in range(count):
                for state, row in zip(arguments, rows, strict=True):
                    call(*state, out=row)

        return Prepared(
            passes, lambda rows: robot.back(case, states[0][rows], result[rows]), settings="out="
        )


class OrderedRobot:
    """A robot in dynibo, whose joints have the order of the links that they carry."""

    def __init__(self, model: Model) -> None:
        from dynibo import Robot

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "robot.urdf"
            path.write_text(reduced.urdf(model))
            self.robot = Robot.from_urdf(str(path))
        self.order = np.argsort([self.robot.link_id(body.name) for body in model.bodies])
        self.more = -model.gravity[2] / GRAVITY - 1

    def states(self, case: Case) -> list[np.ndarray]:
        """The arguments in its order; torques are less by the gravity that it leaves out."""
        given = [np.ascontiguousarray(x[:, self.order]) for x in case.given()]
        if case.name == "forward_dynamics":
            given[2] -= self.more * self.weight(given[0])
        return given

    def weight(self, q: np.ndarray) -> np.ndarray:
        """Its torques against gravity, in its order."""
        return np.array([self.robot.gravity(x) for x in q])

    def back(self, case: Case, q: np.ndarray, result: Any) -> Arrays:
        """Results in our order, with the gravity of the case."""
        there = np.argsort(self.order)
        if case.name == "mass_matrix":
            return (result[:, there[:, None], there],)
        if case.name == "inverse_dynamics":
            result = result + self.more * self.weight(q)
        return (result[:, there],)
