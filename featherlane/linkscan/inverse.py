"""Inverse dynamics of long robots by scans (Yang, Wu and Pan 2016, section III), on arrays.

What `algorithms.parallel.inverse` does on a list of links is done here on arrays of (link, state)
pairs: between the scans every pair is for itself, and is one row of a kernel. Links have one degree
of freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add
from typing import Any

import numpy as np

from featherlane.algorithms.aba import Bias, carried_bias
from featherlane.algorithms.kinematics import rigid_acceleration
from featherlane.algorithms.parallel.kinematics import (
    HERE,
    METHOD,
    Moved,
    Turned,
    moved_on,
    product,
    resting_ground,
    turned_on,
)
from featherlane.function import compile_function
from featherlane.linkscan.arrays import ArrayScan, ArraySubtreeSum, execute
from featherlane.linkscan.link import CONSTANTS, W, X, flat, placed, rows, transform
from featherlane.linkscan.plan import ELEMENTS, MOVES, path_plan, sum_plan
from featherlane.linkwise import Link, constants, resistance
from featherlane.spatial import ZERO6, Rotation, Vector, dot
from featherlane.tree import Tree

WORKING = 1 << 12  # (link, state) pairs at once: what they keep stays in a cache

Scalars = Sequence[Any]


# The combining operations of `parallel.kinematics`, on lists


def _turned_on(a: Scalars, b: Scalars) -> Scalars:
    E, w = turned_on(*[Turned(Rotation(rows(x[:9])), Vector(x[9:])) for x in (a, b)])
    return [x for row in E.rows for x in row] + [*w]


def _moved_on(a: Scalars, b: Scalars) -> Scalars:
    X, x = moved_on(*[Moved(transform(x[:12]), Vector(x[12:])) for x in (a, b)])
    return [*flat(X), *x]


def _add(a: Scalars, b: Scalars) -> Scalars:
    return list(map(add, a, b))


def _act(X: Scalars, f: Scalars) -> Scalars:
    return [*transform(X).force_to_parent(f)]


def _compose(a: Scalars, b: Scalars) -> Scalars:
    return flat(product(transform(a), transform(b)))


# What each pair does for itself


def _placed(constant: Scalars, q: Any, qd: Any) -> dict[str, Any]:
    """The joint's transform, and (E, w) to be scanned."""
    link = Link.of(constant)
    X = flat(placed(link, q))
    return {"X": X, "turned": [*X[:9], *(link.motion * qd)[:3]]}


def _accelerating(
    constant: Scalars, X: Scalars, above: Scalars, qd: Any, qdd: Any
) -> dict[str, Any]:
    """(X, own acceleration) to be scanned; above: the parent's angular velocity."""
    link, w = Link.of(constant), Vector(above)
    parent = Bias(w, rigid_acceleration(w, (0.0, 0.0, 0.0)), ZERO6)
    own = carried_bias(transform(X), parent, link.motion * qd).c + link.motion * qdd
    return {"moved": [*X, *own]}


def _forced(constant: Scalars, w: Scalars, a: Scalars) -> dict[str, Any]:
    U = rigid_acceleration(Vector(w), a[:3])
    return {"f": [*Link.of(constant).inertia.wrench(U, Vector(a[3:]))]}


def _torque(constant: Scalars, f: Scalars, qd: Any, qdd: Any) -> dict[str, Any]:
    link = Link.of(constant)
    return {"tau": link.armature * qdd + resistance(link, qd) + dot(link.motion, f)}


class ScannedInverseDynamics:
    """tau of q, qd, qdd of one robot by scans over its links, in one dtype."""

    def __init__(self, tree: Tree, dtype: Any, method: str = METHOD) -> None:
        self.dtype = np.dtype(dtype)
        parent = tuple(tree.parent)
        self._paths, self._sums = path_plan(parent, method), sum_plan(parent, method)
        self._parents = np.array(parent)
        self._roots = np.flatnonzero(self._parents < 0)
        self._order = np.array([freedoms[0].k for freedoms in tree.freedoms])
        self._constants = constants(tree).astype(self.dtype)[:, None]
        self._ground = np.array(_ground_element(tree), self.dtype)
        self._most = max(1, WORKING // tree.nbodies)  # states at once
        self._compile()

    def _compile(self) -> None:
        rates: dict[str, Any] = {"qd": (), "qdd": ()}
        self._pairs = {
            function: compile_function(function, {"constant": CONSTANTS, **sizes})
            for function, sizes in (
                (_placed, {"q": (), "qd": ()}),
                (_accelerating, {"X": X, "above": W, **rates}),
                (_forced, {"w": W, "a": 6}),
                (_torque, {"f": 6, **rates}),
            )
        }
        self._turned, self._moved = ArrayScan(_turned_on, 9 + W), ArrayScan(_moved_on, X + 6)
        self._summed = ArraySubtreeSum(_add, _act, _compose, 6, X)
        self._kernels = {f: pair.ufunc(self.dtype) for f, pair in self._pairs.items()}
        self._turning, self._moving, self._summing = [
            scan.kernels(self.dtype) for scan in (self._turned, self._moved, self._summed)
        ]

    def _of_pairs(self, function: Callable[..., Any], *arrays: np.ndarray) -> Any:
        return self._kernels[function](self._constants, *arrays)

    def __call__(self, *state: np.ndarray, out: tuple[np.ndarray]) -> None:
        """state: three arrays (..., links) of the dtype, which broadcast; out[0] (..., links)."""
        lead = out[0].shape[:-1]
        rows = [np.broadcast_to(x, lead + x.shape[-1:]).reshape(-1, x.shape[-1]) for x in state]
        parts = range(0, len(rows[0]), self._most)
        results = [self._run(*[x[k : k + self._most] for x in rows]) for k in parts]
        if results:
            out[0][...] = np.concatenate(results).reshape(out[0].shape)

    def _run(self, *state: np.ndarray) -> np.ndarray:
        q, qd, qdd = [np.ascontiguousarray(x[:, self._order].T) for x in state]  # (links, states)
        X, w, a = self._motions(q, qd, qdd)
        f = self._of_pairs(_forced, w, a)
        f = execute(self._sums, self._summing, {ELEMENTS: f, MOVES: X})
        tau = np.empty_like(state[0])
        tau[:, self._order] = self._of_pairs(_torque, f, qd, qdd).T
        return tau

    def _motions(self, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> tuple[np.ndarray, ...]:
        """X, w and a of all pairs, (links, states, ...)."""
        X, turned = self._of_pairs(_placed, q, qd)
        w = execute(self._paths, self._turning, {ELEMENTS: turned})[..., -W:]
        above = w[self._parents]
        above[self._roots] = 0.0
        moved = self._of_pairs(_accelerating, X, above, qd, qdd)
        moved[self._roots] = self._moving["combine"](self._ground, moved[self._roots])
        return X, w, execute(self._paths, self._moving, {ELEMENTS: moved})[..., -6:]


def _ground_element(tree: Tree) -> list[Any]:
    """What stands before the roots; its transform goes nowhere."""
    return [*flat(HERE), *resting_ground(tree)]
