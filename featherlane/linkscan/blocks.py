"""Inverse dynamics of long chains, one block of links in each lane: a blocked scan.

Serial inside a block, parallel across blocks (Yang, Wu and Pan 2016, section III): the lanes of a
vector hold not states but blocks of one chain. First every block finds what it makes of any motion
of its head; from these few maps follow the motions of all heads, then every block runs RNEA by
itself, and so for the forces on the way back. A state costs 1.7 times the operations of the
serial recursion, but a vector does as many links at once as it has lanes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.algorithms.kinematics import rigid_acceleration
from featherlane.algorithms.parallel.kinematics import (
    HERE,
    Accelerated,
    accelerated_on,
    resting_ground,
)
from featherlane.algorithms.rnea import Motion, carried
from featherlane.backends import links, machine
from featherlane.function import aligned, compile_function
from featherlane.graph.graph import simplify
from featherlane.graph.trace import trace
from featherlane.linkscan.link import CONSTANTS, X, flat, placed, rows, transform
from featherlane.linkwise import Link, constants, looped, resistance
from featherlane.spatial import ZERO6, Vector, cross, dot, split
from featherlane.tree import Tree

Scalars = Sequence[Any]
MAP = X + 6 + 6  # scalars of what a block makes of the motion of its head
MOTION = 18 + 6  # those of RNEA's motion, and of a force
NOWHERE = [0.0, 0.0, *flat(HERE), *[0.0] * 13, 1.0]  # a link of no mass that does not move


def _accelerated(x: Scalars) -> Accelerated:
    return Accelerated(transform(x[:X]), Vector(x[X : X + 6]), Vector(x[X + 6 :]))


# The steps of one link, in lanes of blocks


def _mapped(carry: Scalars, constant: Scalars, state: Scalars) -> dict[str, Any]:
    """Outward: the map of the links so far. reach: its transform."""
    q, qd, qdd = state
    link = Link.of(constant)
    joint = placed(link, q)
    so_far = accelerated_on(
        _accelerated(carry), Accelerated(joint, link.motion * qd, link.motion * qdd)
    )
    reach = flat(so_far.X)
    own = link.armature * qdd + resistance(link, qd)
    return {"carry": [*reach, *so_far.v, *so_far.a], "reach": reach, "X": flat(joint), "own": [own]}


def _moved(
    carry: Scalars, constant: Scalars, state: Scalars, joint: Scalars, reach: Scalars
) -> dict[str, Any]:
    """Outward: RNEA, and the force of the links so far on what the block hangs from."""
    _, qd, qdd = state
    link = Link.of(constant)
    parent = Motion(Vector(carry[:3]), Vector(carry[3:6]), Vector(carry[6:9]), rows(carry[9:18]))
    m = carried(transform(joint), parent, link.motion * qd, link.motion * qdd)
    f = link.inertia.wrench(m.U, m.a)
    total = Vector(carry[18:]) + transform(reach).force_to_parent(f)
    U = [x for row in m.U for x in row]
    return {"carry": [*m.w, *m.dw, *m.a, *U, *total], "sum": [*f]}


def _summed(carry: Scalars, constant: Scalars, joint: Scalars, own: Scalars) -> dict[str, Any]:
    """Inward: RNEA."""
    tau = own[0] + dot(Link.of(constant).motion, carry)
    return {"carry": [*transform(joint).force_to_parent(carry)], "result": [tau]}


# Between the blocks. Arrays are (entries, blocks), as the lanes lie


def _columns(array: Scalars) -> list[Scalars]:
    return list(zip(*array, strict=True))


def _heads(ground: Vector, maps: Scalars) -> dict[str, Any]:
    """The motions that the heads of blocks are carried on from, and no force yet."""
    before = [Accelerated(HERE, ZERO6, ground)]
    for block in _columns(maps)[:-1]:
        before.append(accelerated_on(before[-1], _accelerated(block)))
    starts = []
    for _, v, a in before:
        (w, vo), (dw, ao) = split(v), split(a)
        U = [x for row in rigid_acceleration(w, dw) for x in row]
        starts.append([*w, *dw, *(ao + cross(w, vo)), *U, *ZERO6])
    return {"start": _columns(starts)}


def _tails(reach: Scalars, force: Scalars) -> dict[str, Any]:
    """The forces that the last links of blocks feel from the blocks after them."""
    felt = [ZERO6]
    blocks = list(zip(_columns(reach), _columns(force), strict=True))
    for x, f in blocks[:0:-1]:
        felt.append(Vector(f) + transform(x).force_to_parent(felt[-1]))
    return {"felt": _columns(felt[::-1])}


def is_chain(tree: Tree) -> bool:
    return tuple(tree.parent) == tuple(range(-1, tree.nbodies - 1))


class Workspace(NamedTuple):
    """The memory of a call, and the loops bound to it."""

    given: np.ndarray  # (3, links): the state, and zeros for the links that are nowhere
    state: np.ndarray  # the same in lanes
    map: Callable[[], None]
    total: np.ndarray  # the maps of whole blocks
    start: np.ndarray
    move: Callable[[], None]
    force: np.ndarray  # of whole blocks on what they hang from
    end: np.ndarray  # on the last links of blocks
    sum: Callable[[], None]
    result: np.ndarray


class BlockedInverseDynamics:
    """tau of q, qd, qdd of one chain by blocks of its links, in one dtype."""

    def __init__(self, tree: Tree, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.width = machine.widest(self.dtype)
        self.links = tree.nbodies
        self.length = -(-self.links // self.width)
        self._order = np.array([freedoms[0].k for freedoms in tree.freedoms])
        self._in_order = bool((self._order == np.arange(self.links)).all())
        self._parents = np.arange(-1, self.length - 1)
        every = np.array([NOWHERE] * (self.length * self.width))
        every[: self.links] = constants(tree)
        self._constants = self._blocks(every)
        self._memory = threading.local()
        self._compile(resting_ground(tree))

    def _compile(self, ground: Vector) -> None:
        link = {"link": CONSTANTS}  # they differ between lanes

        def loop(step: Any, outward: bool, **sizes: int) -> links.Loop:
            return looped(simplify(trace(step, sizes)), self.dtype, self.width, outward)

        self._map = loop(_mapped, True, carry=MAP, **link, state=3)
        self._move = loop(_moved, True, carry=MOTION, **link, state=3, X=X, reach=X)
        self._sum = loop(_summed, False, carry=6, **link, X=X, own=1)
        across = self.width
        heads = lambda maps: _heads(ground, maps)
        self._between = (
            compile_function(heads, {"maps": (MAP, across)}),
            compile_function(_tails, {"reach": (X, across), "force": (6, across)}),
        )
        self._heads, self._tails = [function.ufunc(self.dtype) for function in self._between]

    def __call__(self, *state: np.ndarray, out: tuple[np.ndarray]) -> None:
        """state: three arrays (..., links) of the dtype, which broadcast; out[0] (..., links)."""
        lead = out[0].shape[:-1]
        if not lead:
            out[0][...] = self._run(state)
            return
        rows = [np.broadcast_to(x, out[0].shape) for x in state]
        for at in np.ndindex(lead):
            out[0][at] = self._run([x[at] for x in rows])

    def _run(self, state: Sequence[np.ndarray]) -> np.ndarray:
        memory = self._workspace()
        for k, x in enumerate(state):
            memory.given[k, : self.links] = x if self._in_order else x[self._order]
        memory.state[...] = memory.given.reshape(3, self.width, self.length).transpose(2, 0, 1)
        memory.map()
        self._heads(memory.total, out=memory.start)
        memory.move()
        np.add(memory.end, self._tails(memory.total[:X], memory.force), out=memory.end)
        memory.sum()
        by_links = memory.result.T.reshape(-1)[: self.links]
        if self._in_order:
            return by_links
        tau = np.empty_like(by_links)
        tau[self._order] = by_links
        return tau

    def _workspace(self) -> Workspace:
        """That of this thread, kept: fresh pages cost as much as the computation."""
        if not hasattr(self._memory, "workspace"):
            self._memory.workspace = self._fresh()
        return self._memory.workspace

    def _fresh(self) -> Workspace:
        n, across = self.length, self.width
        sizes = {"state": (n, 3), "X": (n, X), "reach": (n, X), "own": (n, 1), "result": (n, 1)}
        sizes |= {"maps": (n + 1, MAP), "motions": (n + 1, MOTION), "sum": (n + 1, 6)}
        arrays = {k: aligned((1, *size, across), self.dtype) for k, size in sizes.items()}
        arrays["link"] = self._constants
        maps, motions, forces = (arrays[name][0] for name in ("maps", "motions", "sum"))
        maps[0] = np.array([*flat(HERE), *ZERO6, *ZERO6])[:, None]
        forces[0] = 0.0  # the ground's, to which calls only add
        call = lambda loop, carry: loop.bound(arrays | {"carry": arrays[carry]}, 1, self._parents)
        return Workspace(
            given=np.zeros((3, n * across), self.dtype),
            state=arrays["state"][0],
            map=call(self._map, "maps"),
            total=maps[-1],
            start=motions[0],
            move=call(self._move, "motions"),
            force=motions[-1, -6:],
            end=forces[-1],
            sum=call(self._sum, "sum"),
            result=arrays["result"][0, :, 0],
        )

    def _blocks(self, every: np.ndarray) -> np.ndarray:
        """(1, length, entries, blocks) of (links, entries)."""
        by_blocks = every.reshape(self.width, self.length, -1)
        result = aligned((1, self.length, every.shape[1], self.width), self.dtype)
        result[0] = by_blocks.transpose(1, 2, 0)
        return result
