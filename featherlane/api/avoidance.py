"""Obstacles that a robot keeps clear of, itself included: the user's data and methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from featherlane.algorithms.clearance import clearances
from featherlane.api.configurations import Configurations
from featherlane.errors import one_of, shown
from featherlane.functions.arguments import TRACED, alike, is_real
from featherlane.functions.array_like import ArrayLike, Out, Params, Threads
from featherlane.functions.clearance import (
    PLACEMENTS,
    ROWS,
    PlacedSphere,
    Surroundings,
    clearance_function,
)
from featherlane.functions.function import Function
from featherlane.functions.variants import in_order
from featherlane.robot.body_spheres import BodySphere, body_spheres
from featherlane.robot.parts import floats
from featherlane.robot.spatial import matvec
from featherlane.robot.tree_of import tree_of
from featherlane.robot.values import ORTHOGONAL

LARGEST = float(np.finfo(np.float32).max)  # of a margin, in both dtypes
ALL: Literal["all"] = "all"  # pairs that are no neighbours
TEXTS = {"spheres": "[x y z r]", "capsules": "[x0 y0 z0 x1 y1 z1 r]", "planes": "[nx ny nz d]"}


@dataclass(frozen=True, eq=False)
class Avoidance:
    """Spheres that cover a robot, and the obstacles that they keep clear of.

    Leading dimensions of obstacles broadcast with those of targets or q. Nothing is compiled anew
    where obstacles move, only where their number changes. Spheres on frames that are fixed to the
    ground keep clear of moving ones only. Functions that take an Avoidance raise ValueError or
    TypeError with what is wrong in it.

    Arguments:
        body_spheres: (frame, centre (3,) in its axes, radius) each, m, as `model.body_spheres()`
        spheres: (..., n, 4), m, in world axes: [x y z r]; None: no such obstacles
        capsules: (..., n, 7), m, in world axes: [x0 y0 z0 x1 y1 z1 r], the points within r of a
            segment; None: no such obstacles
        planes: (..., n, 4), d in m, in world axes: [nx ny nz d], solid where n . x <= d, with
            |n| = 1; None: no such obstacles
        pairs: spheres that keep clear of each other: pairs (i, j) of numbers of body_spheres, or
            "all" whose bodies are neither one nor neighbours and that do not touch in `neutral()`
        margin: the least distance that counts as clear, m

    Examples:
        >>> avoid = fl.Avoidance([("link2", (0, 0, 0.2), 0.05)], planes=[[0, 0, 1, -0.5]])
        >>> arm.clearances([0.0, 0.0], avoid).round(3)
        array([0.785])
    """

    body_spheres: Sequence[BodySphere | tuple[str, ArrayLike, float]]
    spheres: ArrayLike | None = None
    capsules: ArrayLike | None = None
    planes: ArrayLike | None = None
    pairs: Literal["all"] | Sequence[tuple[int, int]] = ALL
    margin: float = 0.0

    @property
    def obstacles(self) -> dict[str, Any]:
        """Returns the arrays of obstacles by kind, without kinds that are empty."""
        arrays = {kind: getattr(self, kind) for kind in ROWS}
        return {kind: x for kind, x in arrays.items() if x is not None and np.size(x)}


class Clearances(Configurations):
    """Distances of a `featherlane.Model` from obstacles and from itself."""

    def body_spheres(self, radius: float = 0.06, fit: float = 1.25) -> list[BodySphere]:
        """Returns spheres, m, that cover the bodies, for an `Avoidance`: an estimate, to be looked
        at and improved. They cover the collision shapes; of bodies without shapes, or with a mesh
        that is not read, lines of this radius from their origin to those of their frames and of the
        joints that they carry.

        Spheres stand in a row along the longest axis of a shape, and are up to `fit` times as wide
        as it is around this axis: the less, the more spheres. Raises ValueError for a radius below
        0, and unless fit is above 1.

        Examples:
            >>> [sphere.frame for sphere in arm.body_spheres(0.1)]
            ['base_link', 'base_link', 'link1', 'link1', 'link2']
        """
        if not is_real(radius, 0.0, np.inf):
            raise ValueError(f"radius is {shown(radius)}: wanted metres, 0 or more")
        if not is_real(fit, 1.0, np.inf) or fit == 1.0:
            raise ValueError(f"fit is {shown(fit)}: wanted a number above 1, as in 1.25")
        return body_spheres(self, float(radius), float(fit))

    def clearances(
        self,
        q: ArrayLike,
        avoid: Avoidance,
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns the signed distances (..., n), m, at q (..., nq), negative by the depth where
        bodies overlap: of each moving sphere of an `Avoidance` to its spheres, capsules and planes
        in this order, then those of the pairs of the robot's spheres. `clearance_names` says which
        is which. The margin is not subtracted.

        In traces, q and obstacles may be traced, and derivatives are exact.

        Examples:
            >>> ball = fl.Avoidance([("link2", (0, 0, 0.2), 0.05)], spheres=[[0.0, 1.0, 0.1, 0.2]])
            >>> arm.clearances(np.zeros((100, 2)), ball).shape
            (100, 1)
        """
        surroundings, arrays = self._surroundings(avoid)
        names, values = placement_parameters(params)
        function = self._clearance_function(surroundings, names, least=False)
        return function(q, *arrays.values(), *values, out=out, threads=threads)

    def clearance_names(self, avoid: Avoidance) -> list[tuple[str, str]]:
        """Returns what is apart by each entry of `clearances`: (sphere of the robot, obstacle).

        Examples:
            >>> avoid = fl.Avoidance([("link2", (0, 0, 0.2), 0.05)], planes=[[0, 0, 1, -0.5]])
            >>> arm.clearance_names(avoid)
            [('link2 0', 'planes[0]')]
        """
        surroundings, _ = self._surroundings(avoid)
        labels = [f"{frame} {i}" for i, (frame, *_) in enumerate(avoid.body_spheres)]
        obstacles = [f"{kind}[{k}]" for kind, n in surroundings.counts for k in range(n)]
        apart = [(labels[i], obstacle) for i in surroundings.moving for obstacle in obstacles]
        return apart + [(labels[i], labels[j]) for i, j in surroundings.pairs]

    def _clearance_function(
        self, surroundings: Surroundings, parameters: tuple[str, ...], least: bool
    ) -> Function:
        functions = self.__dict__.setdefault("_clearance_functions", {})
        key = surroundings, parameters, least
        if key not in functions:
            functions[key] = clearance_function(self, *key)
        return functions[key]

    def _surroundings(self, avoid: Any) -> tuple[Surroundings, dict[str, Any]]:
        """Returns what code depends on, and the arrays of obstacles by kind, checked."""
        if not isinstance(avoid, Avoidance):
            wanted = "wanted fl.Avoidance(body_spheres, spheres=..., margin=...)"
            raise TypeError(f"avoid is {shown(avoid)}: {wanted}")
        spheres = tuple(self._placed(n, x) for n, x in enumerate(_spheres(avoid.body_spheres)))
        if not is_real(avoid.margin, 0.0, LARGEST):
            raise ValueError(
                f"margin is {shown(avoid.margin)}: wanted metres, finite and 0 or more"
            )
        arrays = avoid.obstacles
        counts = tuple((kind, _count(kind, x)) for kind, x in arrays.items())
        surroundings = Surroundings(spheres, (), counts)
        pairs = self._pairs(surroundings, avoid.pairs)
        if not (counts and surroundings.moving) and not pairs:
            raise ValueError(
                "avoid has nothing to keep clear of: neither obstacles of spheres that move, nor "
                "pairs of spheres"
            )
        return surroundings._replace(pairs=pairs), arrays

    def _placed(self, n: int, sphere: Any) -> PlacedSphere:
        """Returns a sphere in the axes of its body. Raises ValueError or TypeError."""
        try:
            name, center, radius = sphere
            center, radius = floats(center), float(radius)
        except (TypeError, ValueError):
            center, radius = (), 0.0
        if len(center) != 3 or not np.isfinite(center).all():
            wanted = '(frame, centre [x y z], radius), m, as in ("hand", (0, 0, 0.05), 0.06)'
            raise TypeError(f"body_spheres[{n}] is {shown(sphere)}: wanted {wanted}")
        if not 0 <= radius < np.inf:
            raise ValueError(f"body_spheres[{n}] has radius {radius}: wanted metres, 0 or more")
        frame = self.frame(name)
        p = matvec(frame.placement.R, center) + frame.placement.p
        return PlacedSphere(frame.body, floats(p), radius)

    def _pairs(self, surroundings: Surroundings, asked: Any) -> tuple[tuple[int, int], ...]:
        count = len(surroundings.spheres)
        if isinstance(asked, str):
            if asked != ALL:
                raise ValueError(f"pairs is {asked!r}: {one_of(asked, (ALL,))}, or pairs (i, j)")
            return self._distant_pairs(surroundings)
        try:
            pairs = tuple((int(i), int(j)) for i, j in asked)
        except (TypeError, ValueError):
            raise TypeError(
                f"pairs is {shown(asked)}: wanted pairs (i, j) of numbers of body_spheres"
            ) from None
        for i, j in pairs:
            if i == j or not (0 <= i < count and 0 <= j < count):
                wanted = f"wanted two different numbers of body_spheres, 0 to {count - 1}"
                raise ValueError(f"pairs has ({i}, {j}): {wanted}")
        return pairs

    def _distant_pairs(self, surroundings: Surroundings) -> tuple[tuple[int, int], ...]:
        """Returns the pairs of spheres whose bodies are neither one nor neighbours, and that do not
        touch in the neutral configuration.
        """
        bodies, parent = [sphere.body for sphere in surroundings.spheres], (*self.parent, None)
        pairs = [
            (i, j)
            for (i, a), (j, b) in combinations(enumerate(bodies), 2)
            if a != b and parent[a] != b and parent[b] != a
        ]
        if not pairs:
            return ()
        known, spheres = self.__dict__.setdefault("_distant", {}), surroundings.spheres
        if spheres not in known:  # Python takes milliseconds for them
            tree = tree_of(self)
            cover = surroundings._replace(pairs=tuple(pairs)).cover(tree)
            distances = clearances(tree, self.neutral().tolist(), cover, {})
            known[spheres] = tuple(p for p, x in zip(pairs, distances, strict=True) if x > 0)
        return known[spheres]


def _spheres(body_spheres: Any) -> Sequence[Any]:
    """Returns the spheres of a robot. Raises TypeError or ValueError if there are none."""
    if isinstance(body_spheres, str | Mapping) or not isinstance(body_spheres, Sequence):
        wanted = "wanted a list of (frame, centre, radius)"
        raise TypeError(f"body_spheres is {shown(body_spheres)}: {wanted}")
    if not body_spheres:
        raise ValueError("body_spheres is empty: wanted (frame, centre, radius) of one or more")
    return body_spheres


def _count(kind: str, value: Any) -> int:
    """Returns the number of obstacles of a kind. Raises ValueError for other shapes, and for
    numbers that no such obstacle has.
    """
    dtype, arrays = alike({kind: value})
    x = arrays[kind]
    if x.ndim < 2 or x.shape[-1] != ROWS[kind]:
        wanted = f"wanted (..., n, {ROWS[kind]}), a row {TEXTS[kind]} for each"
        raise ValueError(f"{kind} has shape {x.shape}: {wanted}")
    if dtype == TRACED:
        return x.shape[-2]
    _refuse(kind, np.isnan(x).any(-1), x, "{}: wanted numbers, in metres")
    if kind == "planes":
        length = np.linalg.norm(x[..., :3], axis=-1)
        _refuse(kind, np.abs(length - 1) > ORTHOGONAL, length, "a normal of length {}: wanted 1")
    else:
        radius = x[..., -1]
        _refuse(kind, radius < 0, radius, "radius {}: wanted metres, 0 or more")
    return x.shape[-2]


def _refuse(kind: str, wrong: np.ndarray, numbers: np.ndarray, text: str) -> None:
    """Raises ValueError for the first row that is wrong."""
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        raise ValueError(f"{kind}[{', '.join(map(str, at))}] has {text.format(numbers[at])}")


def placement_parameters(params: Any) -> tuple[tuple[str, ...], list[Any]]:
    """Returns the names and values of parameters that placements of frames depend on. Raises
    ValueError for others.
    """
    names = in_order(params)
    if others := [name for name in names if name not in PLACEMENTS]:
        raise ValueError(
            f"params has {others[0]!r}: placements depend on {' and '.join(PLACEMENTS)} alone"
        )
    return names, [params[name] for name in names]
