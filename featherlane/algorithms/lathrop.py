"""Inverse dynamics of a chain in two parallel forms, operation by operation as Lathrop counts them.

R. H. Lathrop, Parallelism in manipulator dynamics, Int. J. Robotics Research 4(2), 1985: the linear
recursion of Luh, Walker and Paul (his table 2, in the order of his table 4), and his logarithmic
one, which joins neighbouring subchains (table 5 and appendix A). Each line is one operation on
3-vectors, work for one of his matrix-vector processors, and a stage of the trace: see `follow`.

Link i is number i - 1 in `links`, and O_i is fixed in it, on the axis of joint i + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from featherlane.algorithms.kinematics import Scalars, resistance
from featherlane.scalar import Scalar
from featherlane.spatial import (
    ZERO3,
    Matrix,
    Vector,
    cross,
    dot,
    matvec,
    skew,
    split,
    transpose,
    unit,
)
from featherlane.tree import Tree
from featherlane.walk import on_stage

NO_TURN: Matrix = (unit(0, 3), unit(1, 3), unit(2, 3))


class Link(NamedTuple):
    """What the paper takes as given for joint i and its link; vectors in frame i but u and du."""

    rotational: bool
    A: Matrix  # coordinates in frame i - 1 from those in frame i
    p: Vector  # from O_{i-1} to O_i (p*)
    r: Vector  # from O_i to the centre of mass (r*)
    s: Vector  # p + r (s*)
    m: Scalar
    J: Matrix  # inertia about the centre of mass
    u: Vector  # the axis times the joint's velocity (z_{i-1} q'_i), in frame i - 1
    du: Vector  # the axis times its acceleration, in frame i - 1


class Tip(NamedTuple):
    """What the last link exerts on its surroundings: force f and torque n about O_n, in a frame of
    their own; A as for links.
    """

    A: Matrix
    f: Vector
    n: Vector


class Arm(NamedTuple):
    """A chain and what moves it. a: acceleration of O_0 less gravity; spin: angular velocity and
    acceleration of the base, None if it stands still; tip: None if it is free.
    """

    links: Sequence[Link]
    a: Vector
    spin: tuple[Vector, Vector] | None = None
    tip: Tip | None = None


class Reaction(NamedTuple):
    """Force f_i and torque n_i, about O_{i-1}, that link i - 1 exerts on link i; in frame i."""

    f: Vector
    n: Vector


Form = Callable[[Arm], list[Reaction]]


# One operation, one processor


class Step(NamedTuple):
    """An operation on 3-vectors: where, for which variable, and of which kind."""

    node: str
    variable: str
    kind: str

    def __str__(self) -> str:
        return f"{self.node} {self.variable}"


OPERATIONS: dict[str, Callable[..., Vector]] = {
    "MV": matvec,
    "VC": cross,
    "VA": lambda a, b: a + b,
    "SV": lambda s, a: a * s,
}


class Node(NamedTuple):
    """The processors of one joint, or of one pair of subchains."""

    name: str

    def run(self, kind: str, variable: str, *operands: Any) -> Vector:
        enter = on_stage.get() or (lambda stage: None)
        enter(Step(self.name, variable, kind))
        result = OPERATIONS[kind](*operands)
        enter(None)
        return result

    def MV(self, variable: str, A: Matrix, x: Vector) -> Vector:
        return self.run("MV", variable, A, x)

    def VC(self, variable: str, a: Vector, b: Vector) -> Vector:
        return self.run("VC", variable, a, b)

    def VA(self, variable: str, a: Vector, b: Vector) -> Vector:
        return self.run("VA", variable, a, b)

    def SV(self, variable: str, s: Scalar, a: Vector) -> Vector:
        return self.run("SV", variable, s, a)

    def MM(self, variable: str, A: Matrix, B: Matrix) -> Matrix:
        """Three matrix-vector products."""
        columns = [
            self.MV(variable + xyz, A, b) for xyz, b in zip("xyz", transpose(B), strict=True)
        ]
        return transpose(columns)


@contextmanager
def follow(graph: Any) -> Iterator[None]:
    """For `trace(function, inputs, follow)`: the stage of each operation is the `Step` it is in."""
    token = on_stage.set(lambda step: setattr(graph, "current_stage", step))
    try:
        yield
    finally:
        on_stage.reset(token)


# The linear form


class Motion(NamedTuple):
    """Of frame i: angular velocity and acceleration, and acceleration of O_i less gravity."""

    w: Vector
    dw: Vector
    a: Vector


def linear(arm: Arm) -> list[Reaction]:
    """Outward for the motion of the links, inward for what joints transmit: 2 n + 3 multiplications
    and 6 n + 7 additions in a row.
    """
    at = Motion(*(arm.spin or (ZERO3, ZERO3)), arm.a)
    loads = []
    for i, link in enumerate(arm.links, 1):
        node = Node(f"out {i}")
        at = outward(node, link, at)
        loads.append(load(node, link, at))
    above = arm.tip or Tip(NO_TURN, ZERO3, ZERO3)
    reactions = []
    for i in range(len(arm.links), 0, -1):
        link = arm.links[i - 1]
        reactions.append(inward(Node(f"in {i}"), link, loads[i - 1], above))
        above = Tip(link.A, *reactions[-1])
    return reactions[::-1]


def outward(g: Node, link: Link, before: Motion) -> Motion:
    """Motion of frame i from that of frame i - 1."""
    (w0, dw0, a0), At, p = before, transpose(link.A), link.p
    if link.rotational:
        T2 = g.VA("T2", w0, link.u)
        w = g.MV("w", At, T2)
        T4 = g.VC("T4", w0, link.u)
        T5 = g.VA("T5", link.du, T4)
        T6 = g.VA("T6", T5, dw0)
        dw = g.MV("dw", At, T6)
    else:
        w, dw = g.MV("w", At, w0), g.MV("dw", At, dw0)
    T7 = g.VC("T7", w, p)
    T8 = g.VC("T8", w, T7)
    T9 = g.VC("T9", dw, p)
    if not link.rotational:
        T8 = g.VA("T8 slide", T8, _slide(g, link, w))
    T10 = g.VA("T10", T8, T9)
    T11 = g.MV("T11", At, a0)
    return Motion(w, dw, g.VA("a", T11, T10))


def _slide(g: Node, link: Link, w: Vector) -> Vector:
    """What the joint's own motion adds: A^T du + 2 w x A^T u."""
    At = transpose(link.A)
    twice = g.SV("2 u", 2.0, g.MV("u", At, link.u))
    return g.VA("slide", g.MV("du", At, link.du), g.VC("2 w x u", w, twice))


class Load(NamedTuple):
    """What moves a link: the force F, and the torque N about its centre of mass."""

    F: Vector
    N: Vector


def load(g: Node, link: Link, at: Motion) -> Load:
    (w, dw, a), r = at, link.r
    T12 = g.VC("T12", w, r)
    T13 = g.VC("T13", w, T12)
    T14 = g.VC("T14", dw, r)
    T15 = g.VA("T15", T13, T14)
    F = g.SV("F", link.m, g.VA("ac", T15, a))
    T16 = g.MV("T16", link.J, w)
    T17 = g.VC("T17", w, T16)
    T18 = g.MV("T18", link.J, dw)
    return Load(F, g.VA("N", T17, T18))


def inward(g: Node, link: Link, load: Load, above: Tip) -> Reaction:
    """f_i and n_i from those of what follows."""
    T19 = g.MV("T19", above.A, above.f)
    f = g.VA("f", load.F, T19)
    T20 = g.VC("T20", link.s, load.F)
    T21 = g.VA("T21", T20, load.N)
    T22 = g.VC("T22", link.p, T19)
    T23 = g.VA("T23", T22, T21)
    T24 = g.MV("T24", above.A, above.n)
    return Reaction(f, g.VA("n", T23, T24))


# The logarithmic form


class Subchain(NamedTuple):
    """Links a to b seen from frame b, moved by their own joints alone.

    W: coordinates in frame a - 1 from those in frame b; w, dw, a: motion of frame b in frame a - 1;
    Q, R, S: sums over the links j, each turned into frame b, of the sliding velocity A_j^T u_j, of
    p_j, and of w_aj x p_j.
    """

    W: Matrix
    w: Vector
    dw: Vector
    a: Vector
    Q: Vector
    R: Vector
    S: Vector


class Tail(NamedTuple):
    """Links a to b seen from frame a. V: coordinates there from those in frame b + 1; f, n: what
    moves the links, about O_{a-1}; P: from O_{a-1} to O_b.
    """

    V: Matrix
    f: Vector
    n: Vector
    P: Vector


def logarithmic(arm: Arm) -> list[Reaction]:
    """Subchains joined to longer ones, outward and inward, on ceil(log2(n + 1)) levels each."""
    outward = zip(arm.links, _motions(arm), strict=True)
    loads = [load(Node(f"out 0,{i}"), link, at) for i, (link, at) in enumerate(outward, 1)]
    following = [*[link.A for link in arm.links[1:]], arm.tip.A if arm.tip else NO_TURN]
    inward = zip(arm.links, loads, following, strict=True)
    tails = [tail(Node(f"in {i},{i}"), *given) for i, given in enumerate(inward, 1)]
    if arm.tip:
        tails.append(Tail(NO_TURN, arm.tip.f, arm.tip.n, ZERO3))
    last = len(tails)

    def together(a: int, b: int, Y: Tail, X: Tail) -> Tail:
        return join_tails(Node(f"in {last - b},{last - a}"), X, Y)

    found = prefixes(together, tails[::-1])[::-1]
    return [Reaction(Y.f, Y.n) for Y in found[: len(arm.links)]]


def _motions(arm: Arm) -> list[Motion]:
    """Of each link, from the base and the links up to it."""
    chain = [single(Node(f"out {i},{i}"), link) for i, link in enumerate(arm.links, 1)]
    spin, first = arm.spin or (ZERO3, ZERO3), 0 if arm.spin else 1
    base = Subchain(NO_TURN, *spin, arm.a, ZERO3, ZERO3, ZERO3)
    if arm.spin:
        chain.insert(0, base)
    else:  # gravity alone: a product and an addition at the first link, and no element of its own
        chain[0] = join(Node("out 0,1"), base, chain[0])

    def together(a: int, b: int, X: Subchain, Y: Subchain) -> Subchain:
        return join(Node(f"out {first + a if a else 0},{first + b}"), X, Y)

    found = prefixes(together, chain)
    return [Motion(X.w, X.dw, X.a) for X in found[1 - first :]]


def prefixes(combine: Callable[..., Any], elements: Sequence[Any]) -> list[Any]:
    """All X_0b in ceil(log2 n) levels, by combine(a, b, X_ak, X_kb) with X_kb from k + 1 to b: his
    figure 5, and the adder of Sklansky, Conditional-sum addition logic, 1960.
    """
    result, step = list(elements), 1
    while step < len(result):
        for b in range(len(result)):
            if b & step:
                middle = b // step * step
                result[b] = combine(middle - step, b, result[middle - 1], result[b])
        step *= 2
    return result


def single(g: Node, link: Link) -> Subchain:
    """One link."""
    At, p = transpose(link.A), link.p
    if not link.rotational:
        Q, a = g.MV("Q", At, link.u), g.MV("a", At, link.du)
        return Subchain(link.A, ZERO3, ZERO3, a, Q, p, ZERO3)
    w, dw = g.MV("w", At, link.u), g.MV("dw", At, link.du)
    S = g.VC("S", w, p)
    a = g.VA("a", g.VC("dw x p", dw, p), g.VC("w x S", w, S))
    return Subchain(link.A, w, dw, a, ZERO3, p, S)


def join(g: Node, X: Subchain, Y: Subchain) -> Subchain:
    """Links a to k and k + 1 to b."""
    Wt = transpose(Y.W)
    w, dw = g.MV("W w", Wt, X.w), g.MV("W dw", Wt, X.dw)
    moved = g.VC("w x R", w, Y.R)
    twice = g.SV("2 (S + Q)", 2.0, g.VA("S + Q", Y.S, Y.Q))
    turned = g.VC("w x", w, g.VA("w x R + 2 (S + Q)", moved, twice))
    added = g.VA("a turning", turned, g.VC("dw x R", dw, Y.R))
    return Subchain(
        W=g.MM("W", X.W, Y.W),
        w=g.VA("w", w, Y.w),
        dw=g.VA("dw", g.VA("dw turning", g.VC("w x w", w, Y.w), Y.dw), dw),
        a=g.VA("a", g.VA("a own", added, Y.a), g.MV("W a", Wt, X.a)),
        Q=g.VA("Q", g.MV("W Q", Wt, X.Q), Y.Q),
        R=g.VA("R", g.MV("W R", Wt, X.R), Y.R),
        S=g.VA("S", g.VA("S turning", moved, Y.S), g.MV("W S", Wt, X.S)),
    )


def tail(g: Node, link: Link, load: Load, following: Matrix) -> Tail:
    """One link; following: A of the next."""
    n = g.VA("n", g.VC("s x F", link.s, load.F), load.N)
    return Tail(following, load.F, n, link.p)


def join_tails(g: Node, X: Tail, Y: Tail) -> Tail:
    """Links a to k and k + 1 to b."""
    f, n = g.MV("V f", X.V, Y.f), g.MV("V n", X.V, Y.n)
    own = g.VA("n own", g.VC("P x f", X.P, f), X.n)
    return Tail(
        V=g.MM("V", X.V, Y.V),
        f=g.VA("f", f, X.f),
        n=g.VA("n", n, own),
        P=g.VA("P", g.MV("V P", X.V, Y.P), X.P),
    )


# Arms of which nothing is known beforehand: every entry of a matrix or vector is an input

SHAPES = {"A": (3, 3), "J": (3, 3), "W": (3, 3), "V": (3, 3), "m": ()}  # all others are vectors
Traceable = tuple[Callable[..., dict[str, Any]], dict[str, tuple[int, ...]]]


def general_arm(form: Form, joints: str, spin: bool = True, tip: bool = True) -> Traceable:
    """(function, inputs) for `trace`, of a whole arm; the outputs are f and n, (joints, 3) each.

    joints: "R" or "T" for each, rotational or translational; spin: whether the base moves; tip:
    whether anything acts on the tip.
    """
    if not joints or set(joints) - set("RT"):
        raise ValueError(f"joints is {joints!r}: wanted a letter for each joint, 'R' or 'T'")
    per_link = _shapes(Link)
    inputs = {name: (len(joints), *shape) for name, shape in per_link.items()} | {"a0": (3,)}
    inputs |= {"w0": (3,), "dw0": (3,)} if spin else {}
    inputs |= {f"tip_{name}": shape for name, shape in _shapes(Tip).items()} if tip else {}

    def function(*values: Any) -> dict[str, Any]:
        x = {name: _vectors(value) for name, value in zip(inputs, values, strict=True)}
        links = [
            Link(joint == "R", *[_vectors(x[name][i]) for name in per_link])
            for i, joint in enumerate(joints)
        ]
        end = Tip(x["tip_A"], x["tip_f"], x["tip_n"]) if tip else None
        found = form(Arm(links, x["a0"], (x["w0"], x["dw0"]) if spin else None, end))
        return {"f": [reaction.f for reaction in found], "n": [reaction.n for reaction in found]}

    return function, inputs


def general_node(function: Callable[..., dict[str, Any]], **parts: type) -> Traceable:
    """(function, inputs) for `trace`, of one node: a function of links, motions, subchains ...

    parts: which of these each argument is. The inputs are named "argument.field".
    """
    inputs = {
        f"{name}.{field}": shape
        for name, kind in parts.items()
        for field, shape in _shapes(kind).items()
    }

    def run(*values: Any) -> dict[str, Any]:
        entries = iter([_vectors(value) for value in values])
        made: dict[str, Any] = {}
        for name, kind in parts.items():
            own = [next(entries) for _ in _shapes(kind)]
            made[name] = Link(True, *own) if kind is Link else kind(*own)
        return function(**made)

    return run, inputs


def _shapes(kind: Any) -> dict[str, tuple[int, ...]]:
    return {name: SHAPES.get(name, (3,)) for name in kind._fields if name != "rotational"}


def _vectors(x: Any) -> Any:
    """Vectors at the bottom of nested lists."""
    if not isinstance(x, list | tuple):
        return x
    return Vector(x) if not isinstance(x[0], list | tuple) else tuple(map(_vectors, x))


# Arms that are robots


def arm_of(model: Tree, q: Scalars, qd: Scalars, qdd: Scalars) -> Arm:
    """A chain of revolute and prismatic joints as the paper describes it, at rest on the ground.

    The tree must be one whose bodies keep their masses, `tree(model, ride=False)`. Raises
    ValueError for branches, other joints, and bodies without mass.
    """
    n = model.nbodies
    _check_chain(model)
    X = [model.joint_transform(i, q) for i in range(n)]
    place = [model.X_tree[i].r for i in range(n)] + [ZERO3]  # of O_i, in frame i
    links = []
    for i, [(k, S)] in enumerate(model.freedoms):
        A, turn, slide = transpose(X[i].E.rows), *split(S)
        rotational = any(turn)
        m, h, _ = model.inertias[i]
        c = h * (1.0 / m)
        p = place[i + 1] if rotational else place[i + 1] + X[i].E.to_child(X[i].r - place[i])
        axis = matvec(A, turn if rotational else slide)
        r, J = c - place[i + 1], _about_centre(model.inertias[i], c)
        links.append(Link(rotational, A, p, r, p + r, m, J, axis * qd[k], axis * qdd[k]))
    return Arm(links, -Vector(model.gravity))


def _check_chain(model: Tree) -> None:
    for i, own in enumerate(model.freedoms):
        if model.parent[i] != i - 1:
            raise ValueError(f"body {i} is on body {model.parent[i]}: wanted a chain")
        if len(own) != 1 or all(map(any, split(own[0].S))):
            raise ValueError(f"joint {i} is {model.types[i].name}: wanted revolute or prismatic")
        if model.inertias[i].m == 0.0:
            raise ValueError(f"body {i} has no mass; the tree is to be made with ride=False")


def _about_centre(inertia: Any, c: Vector) -> Matrix:
    """Rotational inertia about the centre of mass: I + m c x c x."""
    cx = skew(c)
    I = inertia.rotational().rows
    square = [matvec(cx, column) for column in transpose(cx)]  # symmetric
    return tuple(row + x * inertia.m for row, x in zip(I, square, strict=True))


def inverse_dynamics(
    model: Tree, q: Scalars, qd: Scalars, qdd: Scalars, form: Form = linear
) -> list[Scalar]:
    """tau of a chain as `rnea` gives it, in one of the two forms."""
    tau: list[Scalar] = [0.0] * model.nv
    reactions = form(arm_of(model, q, qd, qdd))
    for [(k, S)], (f, n) in zip(model.freedoms, reactions, strict=True):
        turn, slide = split(S)
        own = dot(turn, n) + dot(slide, f) + model.armature[k] * qdd[k]
        tau[k] = own + resistance(model, k, qd[k])
    return tau
