"""Dynamics of long robots: one link's step of RNEA and of ABA as machine code, looped over links.

A graph of 2,000 links is more code than can be compiled or fetched. Here the step is traced once,
with the constants of a link as inputs (those that all links share are folded in), and the states
are in lanes: memory grows linearly, code not at all. Links have one degree of freedom; joints that
are turns and slides in series are as many links.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane import cache
from featherlane.algorithms.aba import AT_REST, Bias, Eliminated, carried_bias, eliminate
from featherlane.algorithms.kinematics import joint_resistance
from featherlane.algorithms.rnea import Motion, carried, ground
from featherlane.backends import links, machine
from featherlane.compiler import graph_key, lowered
from featherlane.function import aligned
from featherlane.graph.graph import Graph, simplify
from featherlane.graph.routine import Program
from featherlane.graph.trace import trace
from featherlane.scalar import cos, sin
from featherlane.spatial import (
    Articulated,
    Inertia,
    Rotation,
    RotationZ,
    Symmetric,
    Transform,
    Vector,
    dot,
    spatial,
)
from featherlane.tree import Tree

WORKING = 1 << 18  # links times states whose intermediate values are kept at once
SIZES = {  # the constants of a link, in their order
    "screw": 2,  # rad and m for each unit of q
    "E": 9,
    "r": 3,
    "m": 1,
    "h": 3,
    "S": 6,
    "armature": 1,
    "damping": 1,
    "friction": 1,
    "v0": 1,
}


class Link(NamedTuple):
    """The constants of a link, as numbers or scalars that are traced."""

    screw: Vector
    X: Transform
    inertia: Inertia
    armature: Any
    damping: Any
    friction: Any
    v0: Any

    @property
    def motion(self) -> Vector:
        """S, the axis being z."""
        turn, slide = self.screw
        return spatial((0.0, 0.0, turn), (0.0, 0.0, slide))

    def transform(self, c: Any, s: Any, d: Any) -> Transform:
        """Coordinates of the link from its parent's, for the cosine and sine of its turn and the
        length of its slide.
        """
        return Transform(RotationZ(c, s), Vector((0.0, 0.0, d))) @ self.X

    @staticmethod
    def of(entries: Sequence[Any]) -> Link:
        fields, at = {}, 0
        for name, size in SIZES.items():
            fields[name] = Vector(entries[at : at + size])
            at += size
        E = Rotation(tuple(Vector(fields["E"][3 * i : 3 * i + 3]) for i in range(3)))
        inertia = Inertia(fields["m"][0], fields["h"], Symmetric(*fields["S"]))
        single = (fields[name][0] for name in ("armature", "damping", "friction", "v0"))
        return Link(fields["screw"], Transform(E, fields["r"]), inertia, *single)


def refusal(tree: Tree) -> str | None:
    """Why a robot has no steps of one link, or None."""
    for i, kind in enumerate(tree.types):
        if kind.nv != 1:
            return f"joint {i} is {kind.name}: links in a loop have one degree of freedom"
    return "joints share coordinates" if tree.coupled else None


def constants(tree: Tree) -> np.ndarray:
    """(links, entries), in the order of `SIZES`."""
    rows = []
    for i in range(tree.nbodies):
        k, S = tree.freedoms[i][0]
        X, inertia = tree.X_tree[i], tree.inertias[i]
        E = [x for row in X.E.rows for x in row]
        friction, v0 = tree.frictions[k][0] if tree.frictions[k] else (0.0, 1.0)
        physics = tree.armature[k], tree.damping[k], friction, v0
        rows.append([S[2], S[5], *E, *X.r, inertia.m, *inertia.h, *inertia.S, *physics])
    return np.array(rows, float)


# The steps, traced with what differs between links as inputs


class Step(NamedTuple):
    """A step: its inputs besides the constants, by name and size, and what it computes of them."""

    inputs: dict[str, int]
    run: Callable[..., dict[str, Any]]
    outward: bool


def resistance(link: Link, qd: Any) -> Any:
    """What damping and smooth Coulomb friction ask of a link's joint."""
    return joint_resistance(link.damping, [(link.friction, link.v0)], qd)


def _rows(flat: Sequence[Any]) -> tuple[Vector, ...]:
    return tuple(Vector(flat[3 * i : 3 * i + 3]) for i in range(3))


def _flat(*parts: Any) -> list[Any]:
    flat: list[Any] = []
    for part in parts:
        flat += _flat(*part) if isinstance(part, tuple | list) else [part]
    return flat


def _turned(link: Link, q: Any) -> tuple[Any, Any, Any]:
    angle = link.screw[0] * q
    return cos(angle), sin(angle), link.screw[1] * q


def inverse_steps() -> list[Step]:
    """RNEA: outward, then inward."""

    def out(link: Link, carry: list, state: list) -> dict[str, Any]:
        q, qd, qdd = state
        place = _turned(link, q)
        parent = Motion(Vector(carry[:3]), Vector(carry[3:6]), Vector(carry[6:9]), _rows(carry[9:]))
        m = carried(link.transform(*place), parent, link.motion * qd, link.motion * qdd)
        own = link.armature * qdd + resistance(link, qd)
        return {"carry": _flat(*m), "sum": [*link.inertia.wrench(m.U, m.a)], "kept": [*place, own]}

    def back(link: Link, carry: list, kept: list) -> dict[str, Any]:
        *place, own = kept
        f = Vector(carry)
        up = link.transform(*place).force_to_parent(f)
        return {"carry": [*up], "result": [own + dot(link.motion, f)]}

    return [Step({"carry": 18, "state": 3}, out, True), Step({"carry": 6, "kept": 4}, back, False)]


def _articulated(flat: list) -> tuple[Articulated, Vector]:
    I, H, M, p = flat[:6], flat[6:15], flat[15:21], flat[21:]
    return Articulated(Symmetric(*I), _rows(H), Symmetric(*M)), Vector(p)


def forward_steps() -> list[Step]:
    """ABA: outward, inward and outward again."""

    def out(link: Link, carry: list, state: list) -> dict[str, Any]:
        q, qd, tau = state
        place = _turned(link, q)
        parent = Bias(Vector(carry[:3]), _rows(carry[3:]), AT_REST.c)
        b = carried_bias(link.transform(*place), parent, link.motion * qd)
        pA = link.inertia.wrench(b.U0, AT_REST.w)
        left = tau - resistance(link, qd)
        return {
            "carry": _flat(b.w, b.U0),
            "sum": _flat(*Articulated.of(link.inertia), pA),
            "kept": _flat(place, b.c, left),
        }

    def back(link: Link, carry: list, kept: list) -> dict[str, Any]:
        place, c, left = kept[:3], Vector(kept[3:9]), kept[9]
        IA, pA = _articulated(carry)
        solved, IA, pA = eliminate(IA, pA, link.motion, left, link.armature)
        X = link.transform(*place)
        up = X.articulated_to_parent(IA), X.force_to_parent(pA + IA @ c)
        return {"carry": _flat(*up), "solved": _flat(*solved)}

    def again(link: Link, carry: list, kept: list, solved: list) -> dict[str, Any]:
        eliminated = Eliminated(Vector(solved[:6]), solved[6], solved[7])
        a = link.transform(*kept[:3]).motion(Vector(carry)) + Vector(kept[3:9])
        qdd = eliminated.Dinv * (eliminated.u - dot(eliminated.U, a))
        return {"carry": [*(a + link.motion * qdd)], "result": [qdd]}

    return [
        Step({"carry": 12, "state": 3}, out, True),
        Step({"carry": 27, "kept": 10}, back, False),
        Step({"carry": 6, "kept": 10, "solved": 8}, again, True),
    ]


# Compiled


def looped(graph: Graph, dtype: np.dtype, width: int, outward: bool) -> links.Loop:
    """The machine code of the loop whose step is a graph."""
    program = lowered(Program(graph, []), dtype)
    make = lambda: machine.machine_code(links.source(program.main, dtype, width, outward))
    key = f"links {graph_key(graph)} {dtype} {width} {outward}"
    image = cache.fetch(f"{key} {machine.target()}", make)
    code = machine.Code(image, ("loop",))
    loop = links.Loop(program.main, code.address)
    loop.code = code  # type: ignore[attr-defined]
    return loop


class LinkFunction:
    """A dynamics function of one robot as loops over its links, in one dtype."""

    def __init__(
        self, tree: Tree, steps: list[Step], start: list[list[float]], dtype: np.dtype
    ) -> None:
        self.tree, self.steps, self.start, self.dtype = tree, steps, start, dtype
        self.width = machine.widest(dtype)
        every = constants(tree)
        self._shared = {k: every[0, k] for k in range(every.shape[1]) if np.ptp(every[:, k]) == 0}
        own = [k for k in range(every.shape[1]) if k not in self._shared]
        self._constants = aligned((len(every), max(len(own), 1)), dtype)
        self._constants[:, : len(own)] = every[:, own]
        self._own = {k: n for n, k in enumerate(own)}
        self._order = np.array([freedoms[0].k for freedoms in tree.freedoms])
        self._parents = np.array(tree.parent, np.int64)
        self._most = max(1, WORKING // (tree.nbodies * self.width)) * self.width  # states at once
        self._loops = [self._compiled(step) for step in steps]

    def _compiled(self, step: Step) -> links.Loop:
        def run(constant: list, **given: list) -> dict[str, Any]:
            entries = sorted(self._shared | {k: constant[n] for k, n in self._own.items()})
            values = self._shared | {k: constant[n] for k, n in self._own.items()}
            return step.run(Link.of([values[k] for k in entries]), *given.values())

        sizes = {**step.inputs, "constant": self._constants.shape[1]}
        names = list(sizes)
        traced = lambda *inputs: run(inputs[-1], **dict(zip(names, inputs[:-1], strict=False)))
        graph = simplify(trace(traced, sizes))
        return looped(graph, self.dtype, self.width, step.outward)

    def __call__(self, *state: np.ndarray, out: tuple[np.ndarray]) -> None:
        """state: three arrays (..., links) of the dtype, which broadcast; out[0] (..., links)."""
        lead = out[0].shape[:-1]
        rows = [np.broadcast_to(x, lead + x.shape[-1:]).reshape(-1, x.shape[-1]) for x in state]
        parts = range(0, len(rows[0]), self._most)
        results = [self._run([x[k : k + self._most] for x in rows]) for k in parts]
        if results:
            out[0][...] = np.concatenate(results).reshape(out[0].shape)

    def _run(self, state: Sequence[np.ndarray]) -> np.ndarray:
        batch, n = state[0].shape
        groups = -(-batch // self.width)
        arrays = {"constant": self._constants, "state": self._packed(state, groups)}
        for step, loop, start in zip(self.steps, self._loops, self.start, strict=True):
            for name, place in loop.outputs.items():
                if name != links.CARRY:
                    shape = (groups, n + (name in links.ROOTED), place.size, self.width)
                    arrays[name] = aligned(shape, self.dtype)
            if step.outward:
                size = step.inputs["carry"]
                arrays["carry"] = aligned((groups, n + 1, size, self.width), self.dtype)
                arrays["carry"][:, 0] = np.array(start)[:, None]
            else:
                arrays["carry"] = arrays.pop("sum")
                arrays["carry"][:, 0] = 0.0
            loop(arrays, groups, self._parents)
        result = np.empty((groups * self.width, n), self.dtype)
        by_links = arrays["result"][:, :, 0].transpose(0, 2, 1).reshape(-1, n)
        result[:, self._order] = by_links
        return result[:batch]

    def _packed(self, state: Sequence[np.ndarray], groups: int) -> np.ndarray:
        """(groups, links, 3, lanes); lanes left over repeat the last state."""
        batch, n = state[0].shape
        packed = aligned((groups, n, len(state), self.width), self.dtype)
        rows = np.minimum(np.arange(groups * self.width), batch - 1)
        for k, x in enumerate(state):
            lanes = x[rows][:, self._order] if batch % self.width else x[:, self._order]
            packed[:, :, k] = lanes.reshape(groups, self.width, n).transpose(0, 2, 1)
        return packed


def _inverse(tree: Tree, dtype: Any) -> LinkFunction:
    start = [_flat(*ground(tree.gravity)), []]
    return LinkFunction(tree, inverse_steps(), start, np.dtype(dtype))


def _forward(tree: Tree, dtype: Any) -> LinkFunction:
    start = [[0.0] * 12, [], [0.0] * 3 + [-g for g in tree.gravity]]
    return LinkFunction(tree, forward_steps(), start, np.dtype(dtype))


FUNCTIONS: dict[str, Callable[[Tree, Any], LinkFunction]] = {
    "inverse_dynamics": _inverse,  # tau of q, qd, qdd by RNEA
    "forward_dynamics": _forward,  # qdd of q, qd, tau by ABA
}
