"""Lathrop's logarithmic form: neighbouring subchains are joined to longer ones (his table 5 and
appendix A, derived again). Each line is one operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from featherlane.algorithms.lathrop.linear import Load, Motion, load
from featherlane.algorithms.lathrop.operations import NO_TURN, Arm, Link, Node, Reaction
from featherlane.robot.spatial import ZERO3, Matrix, Vector, transpose


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
