"""Clearances of a robot that spheres cover, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from featherlane.algorithms.clearance import (
    Cover,
    CoverSphere,
    Obstacles,
    clearances,
    least_clearance,
)
from featherlane.backends.cpu.compile import Kernel, compile_program
from featherlane.backends.progress import compiling
from featherlane.functions.function import Function, KernelsByDtype
from featherlane.functions.gpu import OnGPU
from featherlane.program.program import Program
from featherlane.program.rewrite import simplify
from featherlane.program.trace import no_garbage, trace
from featherlane.robot.model import Robot
from featherlane.robot.parameters import PARAMETERS
from featherlane.robot.parts import IDENTITY, WORLD, Floats, Frame
from featherlane.robot.tree import Tree
from featherlane.robot.tree_of import build_tree, tree_of

ROWS = {"spheres": 4, "capsules": 7, "planes": 4}  # kinds of obstacles, and the entries of a row
PLACEMENTS = "position", "orientation"  # the parameters that placements of frames depend on


class PlacedSphere(NamedTuple):
    """A sphere on a body of a `Robot`, -1 for the ground; the centre in the body's axes, m."""

    body: int
    center: Floats
    radius: float


class Surroundings(NamedTuple):
    """The properties of a robot and its obstacles that code depends on: the spheres that cover the
    robot, the pairs of them that keep clear, and the numbers of obstacles by kind.
    """

    spheres: tuple[PlacedSphere, ...]
    pairs: tuple[tuple[int, int], ...]
    counts: tuple[tuple[str, int], ...]

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the arrays of obstacles."""
        return {kind: (count, ROWS[kind]) for kind, count in self.counts}

    @property
    def moving(self) -> list[int]:
        """Returns the numbers of the spheres that joints move."""
        return [i for i, sphere in enumerate(self.spheres) if sphere.body != WORLD]

    @property
    def distances(self) -> int:
        """Returns the number of clearances."""
        return len(self.moving) * sum(count for _, count in self.counts) + len(self.pairs)

    def cover(self, tree: Tree) -> Cover:
        """Returns the spheres on the bodies of the robot's tree."""
        spheres = []
        for body, center, radius in self.spheres:
            point = tree.point(Frame("", body, IDENTITY._replace(p=center)))
            spheres.append(CoverSphere(point.body, point.X.r, radius))
        return Cover(tuple(spheres), self.pairs)

    def obstacles(self, arrays: Sequence[Any]) -> Obstacles:
        """Returns obstacles by kind."""
        return dict(zip(self.inputs, arrays, strict=True))


def shapes_of_placements(model: Robot, parameters: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of parameters, of those in PLACEMENTS."""
    sizes = {name: PARAMETERS[name][1] for name in parameters}
    return {name: (model.nbodies, int(size)) for name, size in sizes.items()}


def clearance_function(
    model: Robot, surroundings: Surroundings, parameters: Sequence[str], least: bool
) -> Function:
    """Returns f(q, obstacles ..., parameters ...) -> clearances (n,), or the least of them."""
    inputs = {"q": (model.nq,), **surroundings.inputs}
    of_parameters = shapes_of_placements(model, parameters)
    name, shape = ("clearance", ()) if least else ("clearances", (surroundings.distances,))
    count, algorithm = len(surroundings.counts), least_clearance if least else clearances
    key = repr((name, model.fingerprint, surroundings, parameters))

    def run(q: Any, *rest: Any) -> dict[str, Any]:
        values = dict(zip(of_parameters, rest[count:], strict=True))
        tree = build_tree(model, values) if values else tree_of(model)
        obstacles = surroundings.obstacles(rest[:count])
        return {name: algorithm(tree, q, surroundings.cover(tree), obstacles)}

    @cache
    def program() -> Program:
        with no_garbage():
            return Program(simplify(trace(run, {**inputs, **of_parameters})))

    def kernel(dtype: np.dtype) -> Kernel:
        with compiling(f"{name} of {model.name} ({dtype})"):
            return compile_program(program, key, dtype)

    kernels = KernelsByDtype(kernel, lambda: program().main, OnGPU(key, program))
    return Function(name, {**inputs, **of_parameters}, {name: shape}, kernels)
